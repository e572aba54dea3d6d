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
use crate::cluster::dependencies::{Topic, Touched};
use crate::cluster::objects::Index;
use crate::cluster::placement::{Guest, Landings, Places};
use crate::cluster::views::fallback::Fallbacks;
use crate::cluster::views::label_uses::LabelUses;
use crate::karpenter::nodepool::NodePool;
use crate::migration::{Kubelets, metrics};
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::class::Class;
use crate::workload::selector;
use crate::workload::template::{Template, replicas, templates};

use crate::cluster::relation::{Change, Derived};
use autoscalers::{Scalers, Target, key};
pub(crate) use class_pools::{ClassPools, Users};
pub(crate) use node_classes::{Classes, class_kind};
use pdbs::{Pdbs, Protectors};
use resources::Resources;
use workloads::{Workloads, chooses, pairs, pool_labels, takes, wants};

pub use autoscalers::target;
pub use workloads::Workload;

/// A view that is made when first asked for, and from then on kept while objects come and go.
pub(crate) trait Kept {
    /// Made of the whole index.
    fn new(index: &Index) -> Self;

    /// An object has come or is gone.
    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>);
}

/// What an index keeps of its views.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    workloads: OnceLock<Workloads>,
    scalers: OnceLock<Scalers>,
    pdbs: OnceLock<Pdbs>,
    protectors: OnceLock<Protectors>,
    classes: OnceLock<Classes>,
    class_pools: OnceLock<ClassPools>,
    resources: OnceLock<Resources>,
    label_uses: OnceLock<LabelUses>,
    pub(crate) wholes: Wholes,
}

/// What is made of many objects at once: when these change, it is made anew, or in part.
#[derive(Debug, Default)]
pub(crate) struct Wholes {
    fallbacks: Derived<Fallbacks>,
    kubelets: Derived<Kubelets>,
    recorded: Derived<BTreeSet<String>>,
    landings: Landings,
}

impl Wholes {
    /// Objects have come and gone, which touches these topics: adds those of what is different now.
    pub(crate) fn renew(&mut self, index: &Index, old: &[Object], new: &[Object], touched: &mut Vec<Topic>) {
        (self.fallbacks).renew(FALLBACKS, touched, || Fallbacks::new(index));
        (self.kubelets).renew(KUBELETS, touched, || Kubelets::new(index));
        (self.recorded).renew(RECORDED, touched, || metrics::recorded(index));
        self.landings.renew(index, old, new, touched);
    }
}

impl Parts {
    /// An object has come or is gone.
    pub(crate) fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        fn part<T: Kept>(cell: &mut OnceLock<T>, change: Change, object: &Object, touched: &mut Touched<'_>) {
            if let Some(part) = cell.get_mut() {
                part.change(change, object, touched);
            }
        }
        part(&mut self.workloads, change, object, touched);
        part(&mut self.scalers, change, object, touched);
        part(&mut self.pdbs, change, object, touched);
        part(&mut self.protectors, change, object, touched);
        part(&mut self.classes, change, object, touched);
        part(&mut self.class_pools, change, object, touched);
        part(&mut self.resources, change, object, touched);
        part(&mut self.label_uses, change, object, touched);
    }
}

const FALLBACKS: &str = "fallbacks";
const KUBELETS: &str = "kubelets";
const RECORDED: &str = "recorded series";

/// The views of an index.
#[derive(Clone, Copy, Debug)]
pub struct Views<'i> {
    index: &'i Index,
}

/// The replicas a workload can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The fewest while it serves.
    pub floor: i64,
    /// The most.
    pub ceiling: i64,
    /// Whether an autoscaler says so.
    pub scaled: bool,
}

impl<'i> Views<'i> {
    pub(crate) fn new(index: &'i Index) -> Views<'i> {
        Views { index }
    }

    /// What makes each view that many rules ask for; callers may run these side by side.
    pub const MAKERS: [fn(Views<'_>); 8] = [
        |views| _ = views.workloads(),
        |views| _ = views.scalers(),
        |views| _ = views.pdbs(),
        |views| _ = views.protectors(),
        |views| _ = views.classes(),
        |views| _ = views.label_uses(),
        |views| _ = views.class_pools(),
        |views| _ = views.resources(),
    ];

    /// Makes every view now, so that nobody waits for one later.
    pub fn make(self) {
        for make in Views::MAKERS {
            make(self);
        }
        let _ = (self.fallbacks(), self.kubelets(), self.recorded());
    }

    fn kept<T: Kept>(self, part: impl Fn(&'i Parts) -> &'i OnceLock<T>) -> &'i T {
        // What a view asks while it is made is no question of who asks the view.
        part(self.index.parts()).get_or_init(|| dependencies::unheard(|| T::new(self.index)))
    }

    fn workloads(self) -> &'i Workloads {
        self.kept(|parts| &parts.workloads)
    }

    fn scalers(self) -> &'i Scalers {
        self.kept(|parts| &parts.scalers)
    }

    fn pdbs(self) -> &'i Pdbs {
        self.kept(|parts| &parts.pdbs)
    }

    fn protectors(self) -> &'i Protectors {
        self.kept(|parts| &parts.protectors)
    }

    fn fallbacks(self) -> &'i Fallbacks {
        let fallbacks = &self.index.parts().wholes.fallbacks;
        fallbacks.get(FALLBACKS, || Fallbacks::new(self.index))
    }

    /// A pool of lower weight that takes a pool's pods when that one finds no capacity.
    pub(crate) fn fallback(self, object: &Object, pool: &NodePool<'_>) -> Option<&'i Object> {
        self.fallbacks().of(object, pool)
    }

    /// What the pools of each class want of the kubelet.
    pub(crate) fn kubelets(self) -> &'i Kubelets {
        let kubelets = &self.index.parts().wholes.kubelets;
        kubelets.get(KUBELETS, || Kubelets::new(self.index))
    }

    /// Which pools may start nodes for which pods.
    pub(crate) fn places(self, platform: &Platform) -> &'i Places {
        self.index.parts().wholes.landings.places(self.index, platform)
    }

    /// The pods that keep a pool's nodes, where the pool is their first choice.
    pub(crate) fn guests_of(self, object: &Object, platform: &Platform) -> Vec<&'i Guest> {
        let landings = &self.index.parts().wholes.landings;
        landings.guests_of(self.index, object, platform)
    }

    /// The labels of nodes that pods speak of.
    pub(crate) fn label_uses(self) -> &'i LabelUses {
        self.kept(|parts| &parts.label_uses)
    }

    /// The names of series that recording rules make.
    pub(crate) fn recorded(self) -> &'i BTreeSet<String> {
        let recorded = &self.index.parts().wholes.recorded;
        recorded.get(RECORDED, || metrics::recorded(self.index))
    }

    /// Node classes and who refers to them.
    pub(crate) fn classes(self) -> &'i Classes {
        self.kept(|parts| &parts.classes)
    }

    /// The NodePools of each EC2NodeClass.
    pub(crate) fn class_pools(self) -> &'i ClassPools {
        self.kept(|parts| &parts.class_pools)
    }

    fn resources(self) -> &'i Resources {
        self.kept(|parts| &parts.resources)
    }

    /// Whether a workload asks for an extended resource.
    pub(crate) fn is_asked_for(self, resource: &str) -> bool {
        self.resources().asked.has(&resource.to_owned())
    }

    /// The workloads that ask for EFA.
    pub(crate) fn asking_for_efa(self) -> &'i [Object] {
        self.resources().of_efa.get([])
    }

    /// Whether a NodePool that the workload chooses protects its nodes as a whole.
    pub(crate) fn is_on_protected_nodes(self, object: &Object) -> bool {
        let wants = wants(object);
        let protectors = &self.protectors().0;
        pairs(&wants).any(|(key, value)| {
            chooses(key)
                && protectors.get([key, value]).iter().any(|pool| {
                    NodePool::new(pool).is_some_and(|p| takes(&wants, &pool_labels(&p, pool.name())))
                })
        })
    }

    /// The workloads that choose a pool by its name or by one of its own labels, and contradict
    /// none of them.
    #[must_use]
    pub fn choosing(self, pool: &NodePool<'_>, name: &str) -> Vec<&'i Workload> {
        let labels = pool_labels(pool, name);
        let by_label = &self.workloads().by_wanted_label;
        let mut found: Vec<&Arc<Workload>> = labels
            .iter()
            .filter(|(key, _)| chooses(key))
            .flat_map(|(key, value)| by_label.get([key, value]))
            .filter(|workload| workload.takes(&labels))
            .collect();
        found.sort_by(|a, b| Workload::order(a, b));
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found.into_iter().map(Arc::as_ref).collect()
    }

    /// What a pool is for: its own words, else the workloads that choose it. With the reason.
    #[must_use]
    pub fn purpose(self, pool: &NodePool<'_>, name: &str) -> Option<(Class, String)> {
        if let Some(class) = pool.purpose() {
            return Some((class, "its name, labels or taints say so".to_owned()));
        }
        let mut found: Option<(Class, String)> = None;
        for workload in self.choosing(pool, name) {
            let class = if workload.classified.is(Class::Training) {
                Class::Training
            } else if workload.classified.serves() {
                Class::Realtime
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
    pub fn hpas_of(self, target: &Target) -> &'i [Object] {
        self.scalers().hpas.get(key(target))
    }

    /// The ScaledObjects on a target.
    #[must_use]
    pub fn scaled_objects_of(self, target: &Target) -> &'i [Object] {
        self.scalers().scaled_objects.get(key(target))
    }

    /// The ScaledObjects of a namespace for which KEDA makes an HPA of this name.
    #[must_use]
    pub fn scaled_objects_of_hpa(self, namespace: &str, name: &str) -> &'i [Object] {
        self.scalers().by_hpa.get([namespace, name])
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
                if node.exists() { node.int() } else { Some(default) }
            };
            Some(Replicas { floor: value(min, least)?.max(1), ceiling: value(max, most)?, scaled: true })
        };
        if let Some(scaled) = self.scaled_objects_of(&target).first() {
            return bounds(scaled, "minReplicaCount", 0, "maxReplicaCount", 100);
        }
        if let Some(hpa) = self.hpas_of(&target).first() {
            return bounds(hpa, "minReplicas", 1, "maxReplicas", 1);
        }
        replicas(object).map(|n| Replicas { floor: n, ceiling: n, scaled: false })
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
        if !pdbs.namespaces.has(&namespace.to_owned()) {
            return (Vec::new(), false);
        }
        let labels = template.labels();
        let mut found = Vec::new();
        let mut unknown = labels.iter().any(|(_, v)| v.is_unknown());
        let by_label =
            labels.iter().filter_map(|(k, v)| Some(pdbs.by_label.get([namespace, k, v.text()?]))).flatten();
        for pdb in by_label.chain(pdbs.others.get([namespace])) {
            match selector::matches(&pdb.path(&["spec", "selector"]), &labels) {
                Some(true) => found.push(pdb),
                Some(false) => {}
                None => unknown = true,
            }
        }
        (found, unknown)
    }
}
