//! The lookups that rules use: autoscalers of a target, PDBs of pods, workloads that select a pool. Each
//! lookup uses a table or a query, and never scans all objects.

mod autoscalers;
mod claim_users;
mod class_pools;
pub(crate) mod disruptions;
pub(crate) mod fallback;
mod karpenter;
mod kubelets;
pub(crate) mod label_uses;
mod node_classes;
mod node_pools;
mod overlaps;
mod overlays;
mod pdbs;
mod pod_makers;
mod predicates;
mod recording_rules;
mod reserved_volumes;
mod resources;
mod services;
mod tolerances;
mod training;
mod workloads;

use std::borrow::Cow;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::placement::{
    self, AcceleratorPlacements, CandidatePools, EvictionBlocker, Feasibility, NodeStarters, PlacementKey,
    Placements, PoolUse, PoolsByDrainTime,
};
use crate::cluster::table::ViewSlot;
use crate::karpenter::nodepool::NodePool;
use crate::keda::{max_replicas, min_replicas};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::tree::node::Node;
use crate::workload::class::{Classified, WorkloadClass, class_in};
use crate::workload::gpu::EFA;
use crate::workload::selector;
use crate::workload::template::{Template, WORKLOAD_KINDS, replicas, templates};

use autoscalers::AutoscalerKey;
pub(crate) use autoscalers::{AUTOSCALER_MAKERS, Autoscalers, MadeAutoscalers, ScaleTarget};
use claim_users::ClaimUsers;
pub(crate) use claim_users::{claim_of, claims};
pub(crate) use class_pools::{ClassPools, PoolsByClass, PoolsOfClass};
pub(crate) use fallback::Fallbacks;
use fallback::PoolsByWeight;
pub(crate) use karpenter::{KARPENTERS, KarpenterObject};
pub(crate) use kubelets::{Kubelets, KubeletsByClass, kubelet_settings};
pub(crate) use label_uses::{LabelUses, ReferencedLabels};
pub(crate) use node_classes::{ClassNames, ClassReferences, ClassUsers, NodeClasses, class_kind};
pub(crate) use node_pools::listed_zones;
use node_pools::{NodePoolKey, NodePools, PoolsByRegion};
pub(crate) use overlaps::{OverlapGroup, OverlapGroups};
use overlays::{OverlayKey, Overlays};
use pdbs::PdbKey;
pub(crate) use pdbs::{Pdbs, ProtectedPools};
use pod_makers::{PodMakerObjects, PodMakers};
pub(crate) use predicates::Predicate;
pub(crate) use recording_rules::{RecordingRules, recording_rule_names};
use reserved_volumes::ReservedVolumes;
pub(crate) use resources::ExtendedResources;
pub(crate) use services::Services;
pub(crate) use tolerances::{Tolerance, Tolerances};
pub(crate) use training::{TRAINING_PROTECTION, TrainingProtection, training_protection};
pub(crate) use workloads::Workloads;
use workloads::{
    WorkloadKey, has_unknown_labels, is_compatible, label_pairs, pool_labels, required_node_labels,
    selects_pool, unknown_namespace,
};

pub use crate::keda::scale_target;
pub(crate) use autoscalers::as_target;
pub use workloads::Workload;

/// The data derived from the objects of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Views<'i> {
    cluster: &'i Cluster,
}

/// The functions that build the tables of pools that only rules about pods read. [`CandidatePools`] is by far the largest.
static POD_TABLE_BUILDERS: [fn(&Cluster); 4] = [
    |cluster| _ = cluster.table::<CandidatePools>(),
    |cluster| _ = cluster.table::<NodePools>(),
    |cluster| _ = cluster.table::<PoolsByDrainTime>(),
    |cluster| _ = cluster.table::<ProtectedPools>(),
];

/// The functions that build each of the other tables, the slowest first.
static TABLE_BUILDERS: [fn(&Cluster); ViewSlot::COUNT - POD_TABLE_BUILDERS.len()] = [
    |cluster| _ = cluster.table::<OverlapGroups>(),
    |cluster| _ = cluster.table::<Tolerances>(),
    |cluster| _ = cluster.table::<Workloads>(),
    |cluster| _ = cluster.table::<ReferencedLabels>(),
    |cluster| _ = cluster.table::<ExtendedResources>(),
    |cluster| _ = cluster.table::<Autoscalers>(),
    |cluster| _ = cluster.table::<MadeAutoscalers>(),
    |cluster| _ = cluster.table::<Pdbs>(),
    |cluster| _ = cluster.table::<ClaimUsers>(),
    |cluster| _ = cluster.table::<ClassNames>(),
    |cluster| _ = cluster.table::<ClassPools>(),
    |cluster| _ = cluster.table::<ClassReferences>(),
    |cluster| _ = cluster.table::<ClassUsers>(),
    |cluster| _ = cluster.table::<NodeStarters>(),
    |cluster| _ = cluster.table::<Overlays>(),
    |cluster| _ = cluster.table::<PoolsByRegion>(),
    |cluster| _ = cluster.table::<PoolsByWeight>(),
    |cluster| _ = cluster.table::<RecordingRules>(),
    |cluster| _ = cluster.table::<ReservedVolumes>(),
    |cluster| _ = cluster.table::<Services>(),
];

impl Cluster {
    pub fn views(&self) -> Views<'_> {
        Views::new(self)
    }

    /// Functions that build the tables that a run over this cluster reads. They may run in parallel, in this order.
    pub(crate) fn table_builders(&self) -> impl Iterator<Item = fn(&Cluster)> {
        let for_pods: &[fn(&Cluster)] = if self.places_pods() { &POD_TABLE_BUILDERS } else { &[] };
        for_pods.iter().chain(&TABLE_BUILDERS).copied()
    }

    /// Whether the cluster has both pools and pods that may run on them.
    fn places_pods(&self) -> bool {
        self.has_any(Kind::NODE_POOL) && WORKLOAD_KINDS.iter().any(|kind| self.has_any(*kind))
    }

    /// Computes on all threads which pools admit the pods with accelerators, and which pods block the drain of a
    /// pool's nodes; otherwise the first rule to read them would block all others. The tables have to be built before.
    pub(crate) fn place_pods(&self, platform: &Platform) {
        if self.places_pods() {
            placement::evaluate_accelerators(self, platform.eks);
            let views = self.views();
            rayon::join(|| views.placements(platform), || views.accelerator_placements(platform));
        }
    }

    /// Builds every table, and the results that do not depend on the object under review, so that reviews need not
    /// wait for them.
    pub fn build_views(&self, platform: &Platform) {
        for build in POD_TABLE_BUILDERS.iter().chain(&TABLE_BUILDERS) {
            build(self);
        }
        self.views().build_results(platform);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Minimum number while it serves requests.
    pub(crate) min: i64,
    /// Minimum number, which may be 0.
    pub floor: i64,
    pub max: i64,
    /// Whether an autoscaler sets the number.
    pub autoscaled: bool,
}

/// The labels of a pod template.
pub(crate) type Labels<'l, 'a> = &'l [(&'a str, Node<'a>)];

impl<'i> Views<'i> {
    pub(crate) fn new(cluster: &'i Cluster) -> Views<'i> {
        Views { cluster }
    }

    /// Computes the results that reviews may read, for one platform.
    fn build_results(self, platform: &Platform) {
        self.cluster.query::<Fallbacks>(&());
        self.cluster.query::<Kubelets>(&());
        self.placements(platform);
        self.accelerator_placements(platform);
    }

    fn placements(self, platform: &Platform) {
        self.cluster.query::<Placements>(&PlacementKey::of(platform));
    }

    fn accelerator_placements(self, platform: &Platform) {
        self.cluster.query::<AcceleratorPlacements>(&platform.eks);
    }

    /// A pool of lower weight that admits a pool's pods when that one has no capacity.
    pub(crate) fn fallback(self, object: &Object, pool: &NodePool<'_>) -> Option<Object> {
        self.cluster.query::<Fallbacks>(&()).fallback_of(object, pool).cloned()
    }

    /// The kubelet settings of the pools of each class.
    pub(crate) fn kubelets(self) -> Arc<KubeletsByClass> {
        self.cluster.query::<Kubelets>(&())
    }

    pub(crate) fn feasibility(self, platform: &Platform) -> Feasibility<'i> {
        Feasibility { cluster: self.cluster, eks: platform.eks }
    }

    /// The pods that block the drain of a pool's nodes and prefer this pool.
    pub(crate) fn blockers_on(self, pool: &Object, platform: &Platform) -> Arc<[Arc<EvictionBlocker>]> {
        placement::blockers_on(self.cluster, pool, platform)
    }

    /// The labels of nodes that pods refer to.
    pub(crate) fn referenced_labels(self) -> LabelUses<'i> {
        LabelUses(self.cluster)
    }

    pub(crate) fn is_recorded(self, series: &str) -> bool {
        self.cluster.table::<RecordingRules>().contains(&series.to_owned())
    }

    pub(crate) fn overlays_of_weight(self, weight: i64) -> &'i [Object] {
        self.cluster.table::<Overlays>().get(&OverlayKey::Weight(weight))
    }

    /// Whether a NodeOverlay sets the capacity of a resource, or may do so because of a placeholder.
    pub(crate) fn may_be_overlaid(self, resource: &str) -> bool {
        self.is_overlaid(resource) || self.cluster.table::<Overlays>().contains(&OverlayKey::UnknownCapacity)
    }

    pub(crate) fn is_overlaid(self, resource: &str) -> bool {
        let overlays = self.cluster.table::<Overlays>();
        !overlays.has_nothing_to_read() && overlays.contains(&OverlayKey::Capacity(resource.to_owned()))
    }

    pub(crate) fn pools_with_label(self, key: &str, value: &str) -> &'i [Object] {
        self.cluster.table::<NodePools>().get(&NodePoolKey::Label(key.to_owned(), value.to_owned()))
    }

    /// The NodePools with a taint or startup taint of this key.
    pub(crate) fn pools_with_taint(self, key: &str) -> &'i [Object] {
        self.cluster.table::<NodePools>().get(&NodePoolKey::Taint(key.to_owned()))
    }

    pub(crate) fn has_static_pool(self) -> bool {
        self.cluster.table::<NodePools>().contains(&NodePoolKey::Static)
    }

    /// Whether the input shows that EKS Auto Mode makes nodes: a rule that asks reads its node classes.
    pub(crate) fn has_auto_mode(self) -> bool {
        self.cluster.has_any(Kind::AUTO_MODE_NODE_CLASS)
            || self.cluster.table::<NodePools>().contains(&NodePoolKey::AutoMode)
    }

    /// The dynamic pools that differ from a pool in neither taints nor custom labels, including itself.
    pub(crate) fn overlap_group(self, pool: &OverlapGroup) -> &'i [Arc<OverlapGroup>] {
        pool.key().map_or(&[], |key| self.cluster.table::<OverlapGroups>().get(key))
    }

    /// The workloads with accelerators that a pool admits, and those that prefer it.
    pub(crate) fn accelerators_on(self, pool: &Object, platform: &Platform) -> PoolUse {
        placement::accelerators_on(self.cluster, pool, platform.eks)
    }

    /// The distinct sets of taints that the pods of workloads tolerate. `None` if one is unknown.
    pub(crate) fn tolerances(self) -> Option<Vec<&'i Tolerance>> {
        let table = self.cluster.table::<Tolerances>();
        (!table.contains(&Tolerance::Unknown)).then(|| table.keys())
    }

    /// The workloads whose pods have this tolerance.
    pub(crate) fn tolerating(self, tolerance: &Tolerance) -> &'i [Object] {
        self.cluster.table::<Tolerances>().get(tolerance)
    }

    pub(crate) fn node_classes(self) -> NodeClasses<'i> {
        NodeClasses(self.cluster)
    }

    pub(crate) fn class_pools(self) -> PoolsByClass<'i> {
        PoolsByClass(self.cluster)
    }

    /// The workloads whose pods write to a PersistentVolumeClaim.
    pub(crate) fn users_of_claim(self, namespace: &str, name: &str) -> &'i [Object] {
        let key = (namespace.to_owned(), name.to_owned());
        self.cluster.table::<ClaimUsers>().get(&key)
    }

    /// The PersistentVolumes that are reserved for a claim.
    pub(crate) fn volumes_reserved_for(self, namespace: &str, name: &str) -> &'i [Object] {
        let key = (namespace.to_owned(), name.to_owned());
        self.cluster.table::<ReservedVolumes>().get(&key)
    }

    pub(crate) fn is_requested(self, resource: &str) -> bool {
        self.cluster.table::<ExtendedResources>().contains(&resource.to_owned())
    }

    pub(crate) fn requesting(self, resource: &str) -> &'i [Object] {
        self.cluster.table::<ExtendedResources>().get(&resource.to_owned())
    }

    pub(crate) fn requesting_efa(self) -> &'i [Object] {
        self.cluster.table::<ExtendedResources>().get(&EFA.to_owned())
    }

    /// Whether a NodePool that the workload selects protects all its nodes.
    pub(crate) fn is_on_protected_nodes(self, object: &Object) -> bool {
        let wants = required_node_labels(object);
        let protected = self.cluster.table::<ProtectedPools>();
        label_pairs(&wants).any(|(key, value)| {
            selects_pool(key)
                && protected.get(&(key.to_owned(), value.to_owned())).iter().any(|pool| {
                    NodePool::new(pool).is_some_and(|p| is_compatible(&wants, &pool_labels(&p, pool.name())))
                })
        })
    }

    /// The workloads of the pool's cluster that select a pool by its name or by one of its custom labels, and do not
    /// contradict its labels.
    pub fn selecting(self, pool: &NodePool<'_>) -> Vec<&'i Workload> {
        let workloads = self.cluster.table::<Workloads>();
        if workloads.has_nothing_to_read() {
            return Vec::new();
        }
        let labels = pool_labels(pool, pool.object().name());
        let choosing = |(key, value): &(&str, &str)| {
            workloads.get(&WorkloadKey::RequiredLabel((*key).to_owned(), (*value).to_owned()))
        };
        let mut found: Vec<&Arc<Workload>> = labels
            .iter()
            .filter(|(key, _)| selects_pool(key))
            .flat_map(choosing)
            .filter(|workload| workload.is_compatible(&labels))
            .filter(|workload| self.cluster.pairs(pool.object(), &workload.object))
            .collect();
        found.sort_by(|a, b| Workload::cmp_index_order(a, b));
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found.into_iter().map(Arc::as_ref).collect()
    }

    /// The purpose of a pool: from its name, labels and taints, otherwise from the workloads that select it, with the
    /// first of these.
    pub(crate) fn purpose(self, pool: &NodePool<'_>) -> Option<(WorkloadClass, Option<&'i Workload>)> {
        if let Some(class) = pool.purpose() {
            return Some((class, None));
        }
        let mut found: Option<(WorkloadClass, Option<&'i Workload>)> = None;
        for workload in self.selecting(pool) {
            let classified = self.class_of(&workload.object);
            let class = if classified.is(WorkloadClass::Training) {
                WorkloadClass::Training
            } else if classified.serves_requests() {
                WorkloadClass::Realtime
            } else {
                continue;
            };
            match &found {
                None => found = Some((class, Some(workload))),
                Some((other, _)) if *other != class => return None,
                Some(_) => {}
            }
        }
        found
    }

    /// The pools whose zones are of other regions than this one, by region, in the order of the index.
    pub(crate) fn pools_of_other_regions(self, region: &str) -> impl Iterator<Item = &'i [Object]> {
        let table = self.cluster.table::<PoolsByRegion>();
        table.keys().into_iter().filter(move |other| *other != region).map(|other| table.get(other))
    }

    /// The pools whose zones are of a region.
    pub(crate) fn pools_of_region(self, region: &str) -> &'i [Object] {
        self.cluster.table::<PoolsByRegion>().get(&region.to_owned())
    }

    /// The class of a workload: as declared by it or its namespace, otherwise from its content.
    pub(crate) fn class_of(self, object: &Object) -> Cow<'_, Classified> {
        let (kind, name) = (Kind::NAMESPACE, object.namespace_or_default());
        let mut namespaces = self.cluster.all(kind.group, kind.kind, "default", name).iter();
        class_in(object, namespaces.find(|namespace| self.cluster.pairs(object, namespace)))
    }

    pub(crate) fn hpas_of(self, target: &Arc<ScaleTarget>) -> &'i [Object] {
        self.cluster.table::<Autoscalers>().get(&AutoscalerKey::Hpa(Arc::clone(target)))
    }

    pub(crate) fn scaled_objects_of(self, target: &Arc<ScaleTarget>) -> &'i [Object] {
        self.cluster.table::<Autoscalers>().get(&AutoscalerKey::ScaledObject(Arc::clone(target)))
    }

    /// The objects from which an operator makes an autoscaler of the target.
    pub(crate) fn made_autoscalers_of(self, target: &Arc<ScaleTarget>) -> &'i [Object] {
        self.cluster.table::<MadeAutoscalers>().get(target)
    }

    /// The ScaledObjects of a namespace for which KEDA creates an HPA with this name.
    pub(crate) fn scaled_objects_of_hpa(self, namespace: &str, name: &str) -> &'i [Object] {
        let key = AutoscalerKey::ScaledObjectOfHpa(namespace.to_owned(), name.to_owned());
        self.cluster.table::<Autoscalers>().get(&key)
    }

    /// The autoscaler that sets the replicas of a workload.
    pub(crate) fn autoscaler_of(self, object: &Object) -> Option<&'i Object> {
        let target = as_target(object);
        self.scaled_objects_of(&target).first().or_else(|| self.hpas_of(&target).first())
    }

    /// The replicas that a workload can have. `None` if they are unknown.
    pub fn replicas(self, object: &Object) -> Option<Replicas> {
        let target = as_target(object);
        let bounds = |floor: Option<i64>, max: Option<i64>| {
            let floor = floor?;
            Some(Replicas { min: floor.max(1), floor, max: max?, autoscaled: true })
        };
        // Autoscalers that may be in another cluster make the number unknown.
        let certain = |all: &'i [Object]| {
            let own = all.iter().find(|autoscaler| self.cluster.pairs(object, autoscaler));
            (own.is_some() || all.is_empty()).then_some(own)
        };
        if let Some(scaled) = certain(self.scaled_objects_of(&target))? {
            return bounds(min_replicas(scaled), max_replicas(scaled));
        }
        if let Some(hpa) = certain(self.hpas_of(&target))? {
            // An HPA does not change a target that was scaled to zero.
            if replicas(object) == Some(0) {
                return Some(Replicas { min: 0, floor: 0, max: 0, autoscaled: false });
            }
            let spec = hpa.get("spec");
            return bounds(spec.get("minReplicas").int_or(1), spec.get("maxReplicas").int_or(1));
        }
        replicas(object).map(|n| Replicas { min: n, floor: n, max: n, autoscaled: false })
    }

    /// The workloads whose pods the selector of a PDB certainly matches, and whether it may match others.
    pub fn selected_by(self, pdb: &Object) -> (Vec<&'i Workload>, bool) {
        self.selected_by_labels(pdb, &pdb.path(&["spec", "selector"]))
    }

    /// The workloads whose pods a label selector of an object certainly matches, and whether it may match others.
    pub(crate) fn selected_by_labels(
        self,
        object: &Object,
        selector: &Node<'_>,
    ) -> (Vec<&'i Workload>, bool) {
        let wanted = selector.get("matchLabels").entries();
        let expressions = selector.get("matchExpressions");
        let keys = expressions.items().filter_map(|expression| expression.get("key").text());
        let set = selector::is_set_by_controllers(wanted.iter().map(|(key, _)| *key).chain(keys));
        self.selected(object, &wanted, set, &|labels| selector::matches(selector, labels))
    }

    /// The workloads whose pods the selector of a Service certainly matches, and whether it may match others.
    pub fn selected_by_service(self, service: &Object) -> (Vec<&'i Workload>, bool) {
        let wanted = service.path(&["spec", "selector"]).entries();
        let set = selector::is_set_by_controllers(wanted.iter().map(|(key, _)| *key));
        self.selected(service, &wanted, set, &|labels| selector::includes(&wanted, labels))
    }

    /// The Services whose selector certainly matches the pods of a template.
    pub fn services_of(self, namespace: &str, template: &Template<'_>) -> Vec<&'i Object> {
        let services = self.cluster.table::<Services>();
        let labels = template.pod_labels();
        let mut found = Vec::new();
        for (key, value) in &labels {
            let Some(value) = value.text() else { continue };
            let key = (namespace.to_owned(), (*key).to_owned(), value.to_owned());
            let selects = |service: &&Object| {
                selector::includes(&service.path(&["spec", "selector"]).entries(), &labels) == Some(true)
            };
            found.extend(services.get(&key).iter().filter(selects));
        }
        found
    }

    /// Whether a Rollout of a namespace starts pods with their own labels in a canary step.
    pub(crate) fn has_experiment(self, namespace: &str) -> bool {
        self.cluster.table::<Workloads>().contains(&WorkloadKey::Experiment(namespace.to_owned()))
    }

    /// The workloads of a namespace whose pods have a label.
    pub(crate) fn with_pod_label(
        self,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> impl Iterator<Item = &'i Object> {
        let key = WorkloadKey::PodLabel(namespace.to_owned(), key.to_owned(), value.to_owned());
        self.cluster.table::<Workloads>().get(&key).iter().map(|workload| &workload.object)
    }

    /// The workloads of a namespace whose pods a label selector may certainly match: those with a label that it names, if it
    /// names one.
    pub(crate) fn candidates(self, namespace: &str, selector: &Node<'_>) -> impl Iterator<Item = &'i Object> {
        let labels = selector.get("matchLabels").entries();
        let key = candidates_key(namespace, &labels);
        self.cluster.table::<Workloads>().get(&key).iter().map(|workload| &workload.object)
    }

    /// The objects from which an operator may create pods.
    pub(crate) fn pod_makers(self) -> PodMakerObjects {
        self.cluster.query::<PodMakers>(&())
    }

    pub fn workloads_in(self, namespace: &str) -> impl Iterator<Item = &'i Workload> {
        let table = self.cluster.table::<Workloads>();
        table.get(&WorkloadKey::Namespace(namespace.to_owned())).iter().map(Arc::as_ref)
    }

    /// The workloads whose pods a selector certainly matches, and whether it may match others. `wanted` are the labels
    /// of the selector; `set` is true if controllers set one of them.
    fn selected(
        self,
        owner: &Object,
        wanted: &[(&str, Node<'_>)],
        set: bool,
        fits: &dyn Fn(Labels<'_, '_>) -> Option<bool>,
    ) -> (Vec<&'i Workload>, bool) {
        let namespace = owner.namespace_or_default();
        let pair = wanted.iter().find_map(|(key, value)| Some((*key, value.text()?)));
        let table = self.cluster.table::<Workloads>();
        let candidates = table.get(&candidates_key(namespace, wanted));
        // A placeholder may be any label. Pods that also have the literal label are among the candidates.
        let may_have_label = match pair {
            Some(_) => table.get(&WorkloadKey::UnknownPodLabels(namespace.to_owned())),
            None => &[],
        };
        let own_namespace = unknown_namespace(owner);
        let mut found = Vec::new();
        let mut unknown = false;
        let mut elsewhere = false;
        for workload in candidates {
            let mut hit = false;
            // Equal placeholders are equal namespaces, but a placeholder may also be any written namespace.
            let same_namespace = unknown_namespace(&workload.object) == own_namespace;
            for template in templates(&workload.object) {
                match fits(&template.pod_labels()) {
                    Some(true) => hit = true,
                    Some(false) => unknown |= may_match(&template, wanted),
                    None => unknown = true,
                }
            }
            match (hit, same_namespace) {
                (true, true) if !self.cluster.pairs(owner, &workload.object) => elsewhere = true,
                (true, true) => found.push(workload.as_ref()),
                (true, false) => unknown = true,
                (false, _) => {}
            }
        }
        // Of the labels that controllers set, those with the name of the object are known.
        unknown |= set && found.is_empty();
        let may_fit = |template: &Template<'_>| {
            fits(&template.pod_labels()) != Some(false) || may_match(template, wanted)
        };
        // None of these certainly matches, because they do not have the label.
        let is_new = |workload: &&Arc<Workload>| !candidates.iter().any(|known| Arc::ptr_eq(known, workload));
        let mut others = may_have_label.iter().filter(is_new);
        unknown = unknown || others.any(|workload| templates(&workload.object).iter().any(may_fit));
        unknown |= elsewhere && found.is_empty();
        // The other workloads with an unknown namespace.
        if !unknown {
            let key = match pair {
                Some((key, value)) => WorkloadKey::UnknownNamespaceLabel(key.to_owned(), value.to_owned()),
                None => WorkloadKey::UnknownNamespace,
            };
            // Without the label, only pods with unknown labels may match.
            let open = pair.map(|_| table.get(&WorkloadKey::UnknownNamespaceUnknownLabels));
            let elsewhere = table.get(&key).iter().chain(open.into_iter().flatten());
            let others = elsewhere.filter(|w| unknown_namespace(&w.object) != own_namespace);
            unknown =
                others.flat_map(|workload| templates(&workload.object)).any(|template| may_fit(&template));
        }
        (found, unknown)
    }

    /// The PDBs whose selector certainly matches the pods of a template, and whether others may match.
    pub fn pdbs_of(self, namespace: &str, template: &Template<'_>) -> (Vec<&'i Object>, bool) {
        let pdbs = self.cluster.table::<Pdbs>();
        if !pdbs.contains(&PdbKey::Namespace(namespace.to_owned())) {
            return (Vec::new(), false);
        }
        let labels = template.pod_labels();
        let mut found = Vec::new();
        let mut unknown = labels.iter().any(|(_, v)| v.is_unknown());
        let key = |key: &str, value: &str| PdbKey::Label(namespace.to_owned(), key.into(), value.into());
        let by_label = labels.iter().filter_map(|(k, v)| Some(pdbs.get(&key(k, v.text()?)))).flatten();
        let without_label = pdbs.get(&PdbKey::WithoutLabel(namespace.to_owned()));
        for pdb in by_label.chain(without_label) {
            match selector::matches(&pdb.path(&["spec", "selector"]), &labels) {
                Some(true) => found.push(pdb),
                Some(false) => {}
                None => unknown = true,
            }
        }
        (found, unknown)
    }
}

/// The key of the workloads that may certainly have the labels of a selector.
fn candidates_key(namespace: &str, wanted: &[(&str, Node<'_>)]) -> WorkloadKey {
    match wanted.iter().find_map(|(key, value)| Some((*key, value.text()?))) {
        Some((key, value)) => WorkloadKey::PodLabel(namespace.to_owned(), key.to_owned(), value.to_owned()),
        None => WorkloadKey::Namespace(namespace.to_owned()),
    }
}

/// Whether labels that are placeholders may be those of a selector. A label with another literal value may not.
fn may_match(template: &Template<'_>, wanted: &[(&str, Node<'_>)]) -> bool {
    if !has_unknown_labels(template) {
        return false;
    }
    let labels = template.labels();
    wanted.iter().all(|(key, wanted)| {
        let written = labels.iter().find(|(label, _)| label == key).map(|(_, value)| value);
        match written.and_then(|value| Some((value.text()?, wanted.text()?))) {
            Some((written, wanted)) => written == wanted,
            None => true,
        }
    })
}
