//! What is derived from the whole index, once: who scales what, which budget covers which pods,
//! which workloads choose which pool. Each question is answered through a map, never by a scan
//! over everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::index::Index;
use crate::model::class::{Class, Classified, classify};
use crate::model::do_not_disrupt::{DURATIONS_SINCE, protects_nodes};
use crate::model::fallback::Fallbacks;
use crate::model::keda::hpa_name;
use crate::model::label_uses::LabelUses;
use crate::model::landing::Landing;
use crate::model::migration::{Kubelets, metrics};
use crate::model::nodepool::NodePool;
use crate::model::selector;
use crate::model::workload::{Template, WORKLOAD_KINDS, replicas, templates};
use crate::node::Node;
use crate::object::{Kind, Object, ObjectId};
use crate::settings::Platform;

/// A workload with its class.
#[derive(Debug)]
pub struct Workload {
    /// The object.
    pub object: Object,
    /// What work it does.
    pub classified: Classified,
    /// Label pairs that it asks of its nodes: node selectors and required affinity.
    wants: BTreeMap<String, Vec<String>>,
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

type Target = (String, String, String);

/// Derived views.
#[derive(Debug, Default)]
pub struct Views {
    classes: Classes,
    fallbacks: OnceLock<Fallbacks>,
    kubelets: OnceLock<Kubelets>,
    recorded: OnceLock<BTreeSet<String>>,
    label_uses: OnceLock<LabelUses>,
    /// One for each kind of platform.
    landings: [OnceLock<Landing>; 4],
    on_protected_nodes: BTreeSet<ObjectId>,
    workloads: Vec<Workload>,
    by_wanted_label: BTreeMap<(String, String), Vec<usize>>,
    by_pod_label: BTreeMap<(String, String, String), Vec<usize>>,
    by_namespace: BTreeMap<String, Vec<usize>>,
    hpas: BTreeMap<Target, Vec<Object>>,
    scaled_objects: BTreeMap<Target, Vec<Object>>,
    /// ScaledObjects by namespace and the name of their HPA.
    by_hpa: BTreeMap<(String, String), Vec<Object>>,
    pdbs: BTreeMap<String, Pdbs>,
}

/// Node classes and who refers to them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// Kind and name of every node class, patches included; an empty name where it is not known.
    known: BTreeSet<(String, String)>,
    /// Names of the classes that a patch or a fragment says something of.
    patched: BTreeSet<String>,
    /// Names that a pool or a claim refers to.
    used: BTreeSet<String>,
    /// Whether a reference holds a placeholder, so that it may mean any class.
    unknown_use: bool,
    /// How many NodePools refer to a class of each API group.
    groups: BTreeMap<String, usize>,
}

impl Classes {
    fn new(index: &Index) -> Classes {
        let mut out = Classes::default();
        for object in index.objects() {
            if object.is(Kind::EC2_NODE_CLASS) || object.is(Kind::AUTO_MODE_NODE_CLASS) {
                let id = object.id();
                out.known.insert((id.kind.clone(), id.name.clone()));
                if object.is_partial() {
                    out.patched.insert(id.name.clone());
                }
            }
        }
        for object in index.of(Kind::NODE_POOL).chain(index.of(Kind::NODE_CLAIM)) {
            for path in [
                &["spec", "template", "spec", "nodeClassRef"][..],
                &["spec", "nodeClassRef"][..],
            ] {
                let reference = object.path(path);
                let name = reference.get("name");
                out.unknown_use |= name.is_unknown();
                out.used.extend(name.text().map(str::to_owned));
            }
            if let Some(group) = class_group(object).filter(|_| object.is(Kind::NODE_POOL)) {
                *out.groups.entry(group.to_owned()).or_insert(0) += 1;
            }
        }
        out
    }

    /// Whether a class of this kind and name, or one of unknown name, is anywhere in the input.
    pub(crate) fn may_exist(&self, kind: Kind, name: &str) -> bool {
        let has = |name: &str| {
            self.known
                .contains(&(kind.kind.to_owned(), name.to_owned()))
        };
        has(name) || has("")
    }

    /// Whether a patch in the input may change the class.
    pub(crate) fn is_patched(&self, name: &str) -> bool {
        self.patched.contains(name) || self.patched.contains("")
    }

    /// Whether a pool or a claim refers to a class of this name, or may.
    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.unknown_use || self.used.contains(name)
    }

    /// The API groups that NodePools other than this one refer to.
    pub(crate) fn groups_besides<'a>(&'a self, pool: &'a Object) -> impl Iterator<Item = &'a str> {
        let own = class_group(pool);
        self.groups
            .iter()
            .filter(move |(group, count)| **count > usize::from(own == Some(group.as_str())))
            .map(|(group, _)| group.as_str())
    }
}

/// The group of a NodePool's class, without a version that was written into it.
fn class_group(pool: &Object) -> Option<&str> {
    let text = pool
        .path(&["spec", "template", "spec", "nodeClassRef", "group"])
        .text()?;
    Some(text.split('/').next().unwrap_or(text))
}

#[derive(Debug, Default)]
struct Pdbs {
    by_label: BTreeMap<(String, String), Vec<Object>>,
    others: Vec<Object>,
}

impl Views {
    pub(crate) fn new(index: &Index) -> Views {
        let mut views = Views {
            classes: Classes::new(index),
            ..Views::default()
        };
        for kind in WORKLOAD_KINDS {
            for object in index.of(*kind) {
                views.add_workload(object);
            }
        }
        for object in index.of(Kind::NODE_POOL) {
            if protects_nodes(object)
                && let Some(pool) = NodePool::new(object)
            {
                let ids: Vec<ObjectId> = views
                    .choosing(&pool, object.name())
                    .iter()
                    .map(|w| w.object.id().clone())
                    .collect();
                views.on_protected_nodes.extend(ids);
            }
        }
        for hpa in index.of(Kind::HPA) {
            if let Some(target) = target(hpa) {
                views.hpas.entry(target).or_default().push(hpa.clone());
            }
        }
        for scaled in index.of(Kind::SCALED_OBJECT) {
            if let Some(target) = target(scaled) {
                let list = views.scaled_objects.entry(target).or_default();
                list.push(scaled.clone());
            }
            if let Some(name) = hpa_name(scaled) {
                let key = (scaled.id().namespace_or_default().to_owned(), name);
                views.by_hpa.entry(key).or_default().push(scaled.clone());
            }
        }
        for pdb in index.of(Kind::PDB) {
            let namespace = pdb.id().namespace_or_default().to_owned();
            let pdbs = views.pdbs.entry(namespace).or_default();
            let first = pdb
                .path(&["spec", "selector", "matchLabels"])
                .entries()
                .into_iter()
                .find_map(|(k, v)| Some((k.to_owned(), v.text()?.to_owned())));
            match first {
                Some(pair) => pdbs.by_label.entry(pair).or_default().push(pdb.clone()),
                None => pdbs.others.push(pdb.clone()),
            }
        }
        views
    }

    fn add_workload(&mut self, object: &Object) {
        let mut wants: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for template in templates(object) {
            for (key, values) in wanted_labels(&template) {
                wants.entry(key).or_default().extend(values);
            }
        }
        let at = self.workloads.len();
        for (key, values) in &wants {
            for value in values {
                let list = self
                    .by_wanted_label
                    .entry((key.clone(), value.clone()))
                    .or_default();
                if list.last() != Some(&at) {
                    list.push(at);
                }
            }
        }
        let namespace = object.id().namespace_or_default().to_owned();
        for template in templates(object) {
            for (key, value) in template.labels() {
                let Some(value) = value.text() else {
                    continue;
                };
                let pair = (namespace.clone(), key.to_owned(), value.to_owned());
                let list = self.by_pod_label.entry(pair).or_default();
                if list.last() != Some(&at) {
                    list.push(at);
                }
            }
        }
        self.by_namespace.entry(namespace).or_default().push(at);
        self.workloads.push(Workload {
            object: object.clone(),
            classified: classify(object),
            wants,
        });
    }

    /// A pool of lower weight that takes a pool's pods when that one finds no capacity. `index` is
    /// the one that these views were made of.
    pub(crate) fn fallback<'i>(
        &'i self,
        index: &Index,
        object: &Object,
        pool: &NodePool<'_>,
    ) -> Option<&'i Object> {
        self.fallbacks
            .get_or_init(|| Fallbacks::new(index))
            .of(object, pool)
    }

    /// What the pools of each class want of the kubelet. `index` is the one that these views were
    /// made of.
    pub(crate) fn kubelets(&self, index: &Index) -> &Kubelets {
        self.kubelets.get_or_init(|| Kubelets::new(index))
    }

    /// Which pools may start nodes for which pods. `index` is the one that these views were made of.
    pub(crate) fn landing(&self, index: &Index, platform: &Platform) -> &Landing {
        let durations = platform.karpenter >= DURATIONS_SINCE;
        let slot = usize::from(platform.eks) * 2 + usize::from(durations);
        self.landings[slot].get_or_init(|| Landing::new(index, platform))
    }

    /// The names of series that recording rules make. `index` is the one that these views were
    /// made of.
    pub(crate) fn recorded(&self, index: &Index) -> &BTreeSet<String> {
        self.recorded.get_or_init(|| metrics::recorded(index))
    }

    /// The labels of nodes that pods speak of. `index` is the one that these views were made of.
    pub(crate) fn label_uses(&self, index: &Index) -> &LabelUses {
        self.label_uses.get_or_init(|| LabelUses::new(index))
    }

    /// Node classes and who refers to them.
    pub(crate) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Whether a NodePool that the workload chooses protects its nodes as a whole.
    pub(crate) fn is_on_protected_nodes(&self, object: &Object) -> bool {
        self.on_protected_nodes.contains(object.id())
    }

    /// Every workload of the index.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// The workloads that choose a pool by its name or by one of its own labels, and contradict
    /// none of them.
    #[must_use]
    pub fn choosing(&self, pool: &NodePool<'_>, name: &str) -> Vec<&Workload> {
        let mut labels: Vec<(&str, &str)> = pool
            .labels()
            .entries()
            .into_iter()
            .filter_map(|(k, v)| Some((k, v.text()?)))
            .collect();
        labels.push(("karpenter.sh/nodepool", name));
        let mut found: Vec<usize> = labels
            .iter()
            .filter(|(k, _)| {
                !crate::model::requirement::is_well_known(k) || *k == "karpenter.sh/nodepool"
            })
            .filter_map(|(k, v)| {
                self.by_wanted_label
                    .get(&((*k).to_owned(), (*v).to_owned()))
            })
            .flatten()
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
            .into_iter()
            .map(|at| &self.workloads[at])
            .filter(|w| {
                labels.iter().all(|(k, v)| {
                    w.wants
                        .get(*k)
                        .is_none_or(|values| values.iter().any(|x| x == v))
                })
            })
            .collect()
    }

    /// What a pool is for: its own words, else the workloads that choose it. With the reason.
    #[must_use]
    pub fn purpose(&self, pool: &NodePool<'_>, name: &str) -> Option<(Class, String)> {
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
    pub fn hpas_of(&self, target: &Target) -> &[Object] {
        self.hpas.get(target).map_or(&[], Vec::as_slice)
    }

    /// The ScaledObjects on a target.
    #[must_use]
    pub fn scaled_objects_of(&self, target: &Target) -> &[Object] {
        self.scaled_objects.get(target).map_or(&[], Vec::as_slice)
    }

    /// The ScaledObjects of a namespace for which KEDA makes an HPA of this name.
    #[must_use]
    pub fn scaled_objects_of_hpa(&self, namespace: &str, name: &str) -> &[Object] {
        self.by_hpa
            .get(&(namespace.to_owned(), name.to_owned()))
            .map_or(&[], Vec::as_slice)
    }

    /// The replicas a workload can have; `None` where that is not known.
    #[must_use]
    pub fn replicas(&self, object: &Object) -> Option<Replicas> {
        let id = object.id();
        let target = (
            id.namespace_or_default().to_owned(),
            format!("{}/{}", id.group, id.kind),
            id.name.clone(),
        );
        let bounds = |object: &Object, min: &str, least: i64, max: &str, most: i64| {
            let value = |name: &str, default: i64| {
                let node = object.path(&["spec", name]);
                if node.exists() {
                    node.int()
                } else {
                    Some(default)
                }
            };
            Some(Replicas {
                floor: value(min, least)?.max(1),
                ceiling: value(max, most)?,
                scaled: true,
            })
        };
        if let Some(scaled) = self.scaled_objects_of(&target).first() {
            return bounds(scaled, "minReplicaCount", 0, "maxReplicaCount", 100);
        }
        if let Some(hpa) = self.hpas_of(&target).first() {
            return bounds(hpa, "minReplicas", 1, "maxReplicas", 1);
        }
        replicas(object).map(|n| Replicas {
            floor: n,
            ceiling: n,
            scaled: false,
        })
    }

    /// The workloads with pods that the selector of a PDB matches: those that surely do, and
    /// whether there is one of which that is not known.
    #[must_use]
    pub fn selected_by(&self, pdb: &Object) -> (Vec<&Workload>, bool) {
        let namespace = pdb.id().namespace_or_default();
        let selector = pdb.path(&["spec", "selector"]);
        let pair = selector
            .get("matchLabels")
            .entries()
            .into_iter()
            .find_map(|(k, v)| Some((namespace.to_owned(), k.to_owned(), v.text()?.to_owned())));
        let candidates = match &pair {
            Some(pair) => self.by_pod_label.get(pair),
            None => self.by_namespace.get(namespace),
        };
        let mut found = Vec::new();
        let mut unknown = false;
        for at in candidates.into_iter().flatten() {
            let workload = &self.workloads[*at];
            let mut hit = false;
            for template in templates(&workload.object) {
                match selector::matches(&selector, &template.labels()) {
                    Some(yes) => hit |= yes,
                    None => unknown = true,
                }
            }
            if hit {
                found.push(workload);
            }
        }
        (found, unknown)
    }

    /// The PDBs whose selector matches the pods of a template: those that surely do, and whether
    /// there is one of which that is not known.
    #[must_use]
    pub fn pdbs_of(&self, namespace: &str, template: &Template<'_>) -> (Vec<&Object>, bool) {
        let Some(pdbs) = self.pdbs.get(namespace) else {
            return (Vec::new(), false);
        };
        let labels = template.labels();
        let mut found = Vec::new();
        let mut unknown = labels.iter().any(|(_, v)| v.is_unknown());
        let by_label = labels
            .iter()
            .filter_map(|(k, v)| {
                let pair = ((*k).to_owned(), v.text()?.to_owned());
                pdbs.by_label.get(&pair)
            })
            .flatten();
        for pdb in by_label.chain(&pdbs.others) {
            match selector::matches(&pdb.path(&["spec", "selector"]), &labels) {
                Some(true) => found.push(pdb),
                Some(false) => {}
                None => unknown = true,
            }
        }
        (found, unknown)
    }
}

/// Namespace, `group/kind` and name of what an HPA or a ScaledObject scales, KEDA's defaults
/// filled in; `None` where it cannot be read.
#[must_use]
pub fn target(object: &Object) -> Option<Target> {
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let name = reference.get("name").text()?;
    let field = |name: &str, default: &str| {
        let node: Node<'_> = reference.get(name);
        if node.exists() {
            node.text().map(str::to_owned)
        } else {
            Some(default.to_owned())
        }
    };
    let version = field("apiVersion", "apps/v1")?;
    let kind = field("kind", "Deployment")?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some((
        object.id().namespace_or_default().to_owned(),
        format!("{group}/{kind}"),
        name.to_owned(),
    ))
}

/// Labels that a template asks of its nodes, with the values it takes: its node selector, and
/// `In` expressions of required affinity where there is one term.
fn wanted_labels(template: &Template<'_>) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = template
        .spec
        .get("nodeSelector")
        .entries()
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), vec![v.text()?.to_owned()])))
        .collect();
    let terms = template.spec.path(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    let terms: Vec<Node<'_>> = terms.items().collect();
    if let [term] = terms.as_slice() {
        for expression in term.get("matchExpressions").items() {
            if expression.get("operator").text() == Some("In")
                && let Some(key) = expression.get("key").text()
            {
                let values = expression.get("values").items();
                let values = values.filter_map(|v| v.text().map(str::to_owned)).collect();
                out.push((key.to_owned(), values));
            }
        }
    }
    out
}
