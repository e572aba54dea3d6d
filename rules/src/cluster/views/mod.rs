//! What is derived from the whole index, once: who scales what, which budget covers which pods,
//! which workloads choose which pool. Each question is answered through a map, never by a scan
//! over everything.

mod autoscalers;
mod class_pools;
pub(crate) mod disruptions;
pub(crate) mod fallback;
pub(crate) mod label_uses;
mod node_classes;
mod pdbs;
mod resources;
mod workloads;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, Invalidations};
use crate::cluster::objects::Index;
use crate::cluster::placement::{EvictionBlocker, Feasibility, PlacementCache};
use crate::cluster::views::fallback::Fallbacks;
use crate::cluster::views::label_uses::ReferencedLabels;
use crate::karpenter::nodepool::NodePool;
use crate::migration::{KubeletsByClass, metrics};
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::class::WorkloadClass;
use crate::workload::selector;
use crate::workload::template::{Template, replicas, templates};

use crate::cluster::relation::{Memo, ObjectChange};
use autoscalers::{Autoscalers, ScaleTarget, target_key};
pub(crate) use class_pools::{ClassPools, PoolsOfClass};
pub(crate) use node_classes::{NodeClasses, class_kind};
use pdbs::{Pdbs, ProtectedPools};
use resources::Resources;
use workloads::{Workloads, is_compatible, label_pairs, pool_labels, required_node_labels, selects_pool};

pub use autoscalers::scale_target;
pub use workloads::Workload;

/// A view that is made when first asked for, and from then on kept while objects come and go.
pub(crate) trait View {
    /// Made of the whole index.
    fn new(index: &Index) -> Self;

    /// An object has come or is gone.
    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>);
}

/// What an index keeps of its views.
#[derive(Debug, Default)]
pub(crate) struct ViewCells {
    workloads: OnceLock<Workloads>,
    autoscalers: OnceLock<Autoscalers>,
    pdbs: OnceLock<Pdbs>,
    protected_pools: OnceLock<ProtectedPools>,
    node_classes: OnceLock<NodeClasses>,
    class_pools: OnceLock<ClassPools>,
    resources: OnceLock<Resources>,
    referenced_labels: OnceLock<ReferencedLabels>,
    pub(crate) derived: DerivedViews,
}

/// What is made of many objects at once: when these change, it is made anew, or in part.
#[derive(Debug, Default)]
pub(crate) struct DerivedViews {
    fallbacks: Memo<Fallbacks>,
    kubelets: Memo<KubeletsByClass>,
    recording_rules: Memo<BTreeSet<String>>,
    placement_cache: PlacementCache,
}

impl DerivedViews {
    /// Objects have come and gone, which touches these topics: adds those of what is different now.
    pub(crate) fn update(
        &mut self,
        index: &Index,
        old: &[Object],
        new: &[Object],
        touched: &mut Vec<DependencyKey>,
    ) {
        (self.fallbacks).update(FALLBACKS, touched, || Fallbacks::new(index));
        (self.kubelets).update(KUBELETS, touched, || KubeletsByClass::new(index));
        (self.recording_rules).update(RECORDING_RULES, touched, || metrics::recorded_names(index));
        self.placement_cache.update(index, old, new, touched);
    }
}

impl ViewCells {
    /// An object has come or is gone.
    pub(crate) fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        fn apply_to<T: View>(
            cell: &mut OnceLock<T>,
            change: ObjectChange,
            object: &Object,
            touched: &mut Invalidations<'_>,
        ) {
            if let Some(part) = cell.get_mut() {
                part.apply(change, object, touched);
            }
        }
        apply_to(&mut self.workloads, change, object, touched);
        apply_to(&mut self.autoscalers, change, object, touched);
        apply_to(&mut self.pdbs, change, object, touched);
        apply_to(&mut self.protected_pools, change, object, touched);
        apply_to(&mut self.node_classes, change, object, touched);
        apply_to(&mut self.class_pools, change, object, touched);
        apply_to(&mut self.resources, change, object, touched);
        apply_to(&mut self.referenced_labels, change, object, touched);
    }
}

const FALLBACKS: &str = "fallbacks";
const KUBELETS: &str = "kubelets";
const RECORDING_RULES: &str = "recorded series";

/// The views of an index.
#[derive(Clone, Copy, Debug)]
pub struct Views<'i> {
    index: &'i Index,
}

/// The replicas a workload can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The fewest while it serves.
    pub min: i64,
    /// The most.
    pub max: i64,
    /// Whether an autoscaler says so.
    pub autoscaled: bool,
}

impl<'i> Views<'i> {
    pub(crate) fn new(index: &'i Index) -> Views<'i> {
        Views { index }
    }

    /// What makes each view that many rules ask for; callers may run these side by side.
    pub const BUILDERS: [fn(Views<'_>); 8] = [
        |views| _ = views.workloads(),
        |views| _ = views.autoscalers(),
        |views| _ = views.pdbs(),
        |views| _ = views.protected_pools(),
        |views| _ = views.node_classes(),
        |views| _ = views.referenced_labels(),
        |views| _ = views.class_pools(),
        |views| _ = views.resources(),
    ];

    /// Makes every view now, so that nobody waits for one later.
    pub fn build_all(self) {
        for make in Views::BUILDERS {
            make(self);
        }
        let _ = (self.fallbacks(), self.kubelets(), self.recording_rules());
    }

    fn view<T: View>(self, part: impl Fn(&'i ViewCells) -> &'i OnceLock<T>) -> &'i T {
        // What a view asks while it is made is no question of who asks the view.
        part(self.index.view_cells()).get_or_init(|| dependencies::untracked(|| T::new(self.index)))
    }

    fn workloads(self) -> &'i Workloads {
        self.view(|parts| &parts.workloads)
    }

    fn autoscalers(self) -> &'i Autoscalers {
        self.view(|parts| &parts.autoscalers)
    }

    fn pdbs(self) -> &'i Pdbs {
        self.view(|parts| &parts.pdbs)
    }

    fn protected_pools(self) -> &'i ProtectedPools {
        self.view(|parts| &parts.protected_pools)
    }

    fn fallbacks(self) -> &'i Fallbacks {
        let fallbacks = &self.index.view_cells().derived.fallbacks;
        fallbacks.get(FALLBACKS, || Fallbacks::new(self.index))
    }

    /// A pool of lower weight that takes a pool's pods when that one finds no capacity.
    pub(crate) fn fallback(self, object: &Object, pool: &NodePool<'_>) -> Option<&'i Object> {
        self.fallbacks().fallback_of(object, pool)
    }

    /// What the pools of each class want of the kubelet.
    pub(crate) fn kubelets(self) -> &'i KubeletsByClass {
        let kubelets = &self.index.view_cells().derived.kubelets;
        kubelets.get(KUBELETS, || KubeletsByClass::new(self.index))
    }

    /// Which pools may start nodes for which pods.
    pub(crate) fn feasibility(self, platform: &Platform) -> &'i Feasibility {
        self.index.view_cells().derived.placement_cache.feasibility(self.index, platform)
    }

    /// The pods that keep a pool's nodes, where the pool is their first choice.
    pub(crate) fn blockers_on(self, object: &Object, platform: &Platform) -> Vec<&'i EvictionBlocker> {
        let landings = &self.index.view_cells().derived.placement_cache;
        landings.blockers_on(self.index, object, platform)
    }

    /// The labels of nodes that pods speak of.
    pub(crate) fn referenced_labels(self) -> &'i ReferencedLabels {
        self.view(|parts| &parts.referenced_labels)
    }

    /// The names of series that recording rules make.
    pub(crate) fn recording_rules(self) -> &'i BTreeSet<String> {
        let recorded = &self.index.view_cells().derived.recording_rules;
        recorded.get(RECORDING_RULES, || metrics::recorded_names(self.index))
    }

    /// Node classes and who refers to them.
    pub(crate) fn node_classes(self) -> &'i NodeClasses {
        self.view(|parts| &parts.node_classes)
    }

    /// The NodePools of each EC2NodeClass.
    pub(crate) fn class_pools(self) -> &'i ClassPools {
        self.view(|parts| &parts.class_pools)
    }

    fn resources(self) -> &'i Resources {
        self.view(|parts| &parts.resources)
    }

    /// Whether a workload asks for an extended resource.
    pub(crate) fn is_requested(self, resource: &str) -> bool {
        self.resources().requested.contains(&resource.to_owned())
    }

    /// The workloads that ask for EFA.
    pub(crate) fn requesting_efa(self) -> &'i [Object] {
        self.resources().efa_workloads.get([])
    }

    /// Whether a NodePool that the workload chooses protects its nodes as a whole.
    pub(crate) fn is_on_protected_nodes(self, object: &Object) -> bool {
        let wants = required_node_labels(object);
        let protectors = &self.protected_pools().0;
        label_pairs(&wants).any(|(key, value)| {
            selects_pool(key)
                && protectors.get([key, value]).iter().any(|pool| {
                    NodePool::new(pool).is_some_and(|p| is_compatible(&wants, &pool_labels(&p, pool.name())))
                })
        })
    }

    /// The workloads that choose a pool by its name or by one of its own labels, and contradict
    /// none of them.
    #[must_use]
    pub fn selecting(self, pool: &NodePool<'_>, name: &str) -> Vec<&'i Workload> {
        let labels = pool_labels(pool, name);
        let by_label = &self.workloads().by_required_label;
        let mut found: Vec<&Arc<Workload>> = labels
            .iter()
            .filter(|(key, _)| selects_pool(key))
            .flat_map(|(key, value)| by_label.get([key, value]))
            .filter(|workload| workload.is_compatible(&labels))
            .collect();
        found.sort_by(|a, b| Workload::cmp_index_order(a, b));
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found.into_iter().map(Arc::as_ref).collect()
    }

    /// What a pool is for: its own words, else the workloads that choose it. With the reason.
    #[must_use]
    pub fn purpose(self, pool: &NodePool<'_>, name: &str) -> Option<(WorkloadClass, String)> {
        if let Some(class) = pool.purpose() {
            return Some((class, "its name, labels or taints say so".to_owned()));
        }
        let mut found: Option<(WorkloadClass, String)> = None;
        for workload in self.selecting(pool, name) {
            let class = if workload.classified.is(WorkloadClass::Training) {
                WorkloadClass::Training
            } else if workload.classified.serves_requests() {
                WorkloadClass::Realtime
            } else {
                continue;
            };
            match &found {
                None => {
                    let id = workload.object.id();
                    found = Some((class, format!("{} `{}` chooses it", id.kind, id.name)));
                }
                Some((other, _)) if *other != class => return None,
                Some(_) => {}
            }
        }
        found
    }

    /// The HPAs on a target.
    #[must_use]
    pub fn hpas_of(self, target: &ScaleTarget) -> &'i [Object] {
        self.autoscalers().hpas.get(target_key(target))
    }

    /// The ScaledObjects on a target.
    #[must_use]
    pub fn scaled_objects_of(self, target: &ScaleTarget) -> &'i [Object] {
        self.autoscalers().scaled_objects.get(target_key(target))
    }

    /// The ScaledObjects of a namespace for which KEDA makes an HPA of this name.
    #[must_use]
    pub fn scaled_objects_of_hpa(self, namespace: &str, name: &str) -> &'i [Object] {
        self.autoscalers().by_hpa.get([namespace, name])
    }

    /// The replicas a workload can have; `None` where that is not known.
    #[must_use]
    pub fn replicas(self, object: &Object) -> Option<Replicas> {
        let id = object.id();
        let target =
            (id.namespace_or_default().to_owned(), format!("{}/{}", id.group, id.kind), id.name.clone());
        let bounds = |object: &Object, min: &str, least: i64, max: &str, most: i64| {
            let value = |name: &str, default: i64| {
                let node = object.path(&["spec", name]);
                if node.is_set() { node.int() } else { Some(default) }
            };
            Some(Replicas { min: value(min, least)?.max(1), max: value(max, most)?, autoscaled: true })
        };
        if let Some(scaled) = self.scaled_objects_of(&target).first() {
            return bounds(scaled, "minReplicaCount", 0, "maxReplicaCount", 100);
        }
        if let Some(hpa) = self.hpas_of(&target).first() {
            return bounds(hpa, "minReplicas", 1, "maxReplicas", 1);
        }
        replicas(object).map(|n| Replicas { min: n, max: n, autoscaled: false })
    }

    /// The workloads with pods that the selector of a PDB matches: those that surely do, and
    /// whether there is one of which that is not known.
    #[must_use]
    pub fn selected_by(self, pdb: &Object) -> (Vec<&'i Workload>, bool) {
        let namespace = pdb.id().namespace_or_default();
        let selector = pdb.path(&["spec", "selector"]);
        let pair = selector
            .get("matchLabels")
            .entries()
            .into_iter()
            .find_map(|(k, v)| Some([namespace, k, v.text()?]));
        let candidates = match pair {
            Some(pair) => self.workloads().by_pod_label.get(pair),
            None => self.workloads().by_namespace.get([namespace]),
        };
        let mut found = Vec::new();
        let mut unknown = false;
        for workload in candidates {
            let mut hit = false;
            for template in templates(&workload.object) {
                match selector::matches(&selector, &template.labels()) {
                    Some(yes) => hit |= yes,
                    None => unknown = true,
                }
            }
            if hit {
                found.push(workload.as_ref());
            }
        }
        (found, unknown)
    }

    /// The PDBs whose selector matches the pods of a template: those that surely do, and whether
    /// there is one of which that is not known.
    #[must_use]
    pub fn pdbs_of(self, namespace: &str, template: &Template<'_>) -> (Vec<&'i Object>, bool) {
        let pdbs = self.pdbs();
        if !pdbs.namespaces.contains(&namespace.to_owned()) {
            return (Vec::new(), false);
        }
        let labels = template.labels();
        let mut found = Vec::new();
        let mut unknown = labels.iter().any(|(_, v)| v.is_unknown());
        let by_label =
            labels.iter().filter_map(|(k, v)| Some(pdbs.by_label.get([namespace, k, v.text()?]))).flatten();
        for pdb in by_label.chain(pdbs.without_labels.get([namespace])) {
            match selector::matches(&pdb.path(&["spec", "selector"]), &labels) {
                Some(true) => found.push(pdb),
                Some(false) => {}
                None => unknown = true,
            }
        }
        (found, unknown)
    }
}
