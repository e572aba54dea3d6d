//! The obstacles that are labels of nodes: those that the pod asks for, those that its volumes need, and those that its rules about other
//! pods name.

use crate::catalog::{ARCH, CAPACITY_TYPE, HOSTNAME};
use crate::cluster::queues::flavor_with_label;
use crate::fit::edits::{allow, drop_key, edit};
use crate::fit::obstacles::{Attempt, Draft, Remedy};
use crate::fit::words::unsatisfied;
use crate::fit::{Change, Obstacle, Place, Side, Stage, ValueEdit, surroundings};
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::pod::{affinity_terms, rules_of};
use crate::karpenter::provider::{Provider, is_documented_in_auto_mode};
use crate::karpenter::requirement::{Clash, Operator, normalise};
use crate::karpenter::scheduling::{Pod, Pool, Selected, TopologyKind};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::node_labels::{is_of_other_nodes, is_written_late};
use crate::workload::selector::matches;
use crate::workload::template::templates;
use serde_json::json;

/// Maximum number of values of a label that are tried for a pod.
const MAX_VALUES: usize = 4;
/// The label of managed node groups that stands for the capacity type.
const NODE_GROUP_CAPACITY: &str = "eks.amazonaws.com/capacityType";

impl Attempt<'_> {
    /// The fields of the pod that restrict a label.
    pub(super) fn pod_keys(&self, key: &str) -> Vec<Node<'_>> {
        let selector = self.template.spec.get("nodeSelector").entries();
        let mut nodes: Vec<Node<'_>> =
            selector.into_iter().filter(|(name, _)| normalise(name) == key).map(|(_, node)| node).collect();
        let terms = self.template.required_terms();
        let expressions = terms.items().flat_map(|term| term.get("matchExpressions").items());
        nodes.extend(expressions.filter(|e| e.get("key").text().is_some_and(|text| normalise(text) == key)));
        nodes
    }

    pub(super) fn label(&self, clash: &Clash) -> Draft {
        let key = clash.key.clone();
        let asks = self.pod_keys(&key);
        let has = self.pool_keys(&key);
        let mut places: Vec<Place> =
            asks.iter().map(|node| Place::new(self.workload, node, "what the pod asks for")).collect();
        places.extend(has.iter().map(|node| Place::new(self.object, node, "what the pool has")));
        let flavor = match asks.is_empty() {
            true => flavor_with_label(self.template, self.situation.cluster, |name| normalise(name) == key),
            false => None,
        };
        places.extend(
            flavor.iter().map(|(flavor, node)| Place::new(flavor, node, "what the flavor of its queue adds")),
        );
        let pod_node = asks.first().cloned().unwrap_or_else(|| self.template.spec.get("affinity"));
        let wanted: Vec<String> = match clash.theirs.operator() {
            Operator::In => clash.theirs.values.iter().cloned().collect(),
            _ => Vec::new(),
        };
        let dropped = key.clone();
        let do_not_ask = move |pod: &mut Pod, _: &mut Pool| drop_key(pod, &dropped);
        let mut remedies = Vec::new();
        let reason = match &clash.ours {
            _ if key == NODEPOOL_LABEL => {
                let name = &self.pool.name;
                let text = format!("ask for the NodePool `{name}`");
                remedies.push(self.asking(&asks, &pod_node, text, (&key, name)));
                self.other_pool(&wanted, clash)
            }
            // The pods belong to nodes that no pool starts, and stay there.
            None if is_of_other_nodes(&key) => {
                remedies.extend(self.own_label(&pod_node, &key, &wanted));
                for_node_groups(clash)
            }
            None if self.label_here(&key).is_some() => {
                // Where the pod names no value, or AWS documents no such label, the key has to go.
                let own = self.own_label(&pod_node, &key, &wanted);
                remedies.push(own.unwrap_or_else(|| {
                    self.of_pod(&pod_node, format!("do not ask for `{key}`"), do_not_ask.clone())
                }));
                format!("the nodes of the pool have no label `{key}`")
            }
            None => {
                remedies.push(self.of_pod(&pod_node, format!("do not ask for `{key}`"), do_not_ask.clone()));
                remedies.extend(self.declared(&key, &wanted, clash));
                format!("the nodes of the pool have no label `{key}`; the pod asks for it: {}", clash.theirs)
            }
            Some(ours) => {
                for value in ours.values.iter().filter(|_| !ours.complement).take(MAX_VALUES) {
                    let text = format!("ask for `{value}` in `{key}`");
                    remedies.push(self.asking(&asks, &pod_node, text, (&key, value)));
                }
                remedies.push(self.of_pod(&pod_node, format!("do not ask for `{key}`"), do_not_ask.clone()));
                if let Some(node) = has.first().filter(|_| !wanted.is_empty()) {
                    let text = format!("allow {} in `{key}`", wanted.join(", "));
                    let (key, values) = (key.clone(), wanted.clone());
                    remedies.push(self.in_pool(node, text, move |_, pool| allow(pool, &key, &values)));
                }
                format!("`{key}`: the pool has {ours}, the pod asks for {}", clash.theirs)
            }
        };
        // What a flavor adds to the pod is changed there.
        if let Some((flavor, node)) = &flavor {
            for remedy in remedies.iter_mut().filter(|remedy| remedy.change.side == Side::Pod) {
                let text = std::mem::take(&mut remedy.change.text);
                remedy.change =
                    Change { side: Side::Other, place: Place::new(flavor, node, "here"), text, edit: None };
            }
        }
        let obstacle = Obstacle { stage: Stage::Label(key), reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(do_not_ask) }
    }

    /// That the pod names other pools, which may not exist.
    fn other_pool(&self, wanted: &[String], clash: &Clash) -> String {
        let is_missing = |name: &String| !self.situation.has_pool(name);
        match wanted {
            [one] if is_missing(one) => {
                format!("the pod asks for the NodePool `{one}`, which is not in the input")
            }
            [_, ..] if wanted.iter().all(is_missing) => {
                format!(
                    "the pod asks for NodePools that are not in the input: `{NODEPOOL_LABEL}` {}",
                    clash.theirs
                )
            }
            _ => format!("the pod asks for another NodePool: `{NODEPOOL_LABEL}` {}", clash.theirs),
        }
    }

    /// The change of a pool that gives its nodes a label, unless a labeller writes it: that says what the node has, whatever the pool
    /// declares.
    fn declared(&self, key: &str, wanted: &[String], clash: &Clash) -> Option<Remedy> {
        let labels = self.object.path(&["spec", "template", "metadata", "labels"]);
        let text = match wanted.first() {
            Some(value) => format!("add the label `{key}: {value}`"),
            None => format!("add the label `{key}`"),
        };
        let bound = clash.theirs.gte.or(clash.theirs.lte).map(|bound| bound.to_string());
        let value = wanted.first().cloned().or(bound).unwrap_or_else(|| "true".to_owned());
        let label = (key.to_owned(), value);
        let declare = move |_: &mut Pod, pool: &mut Pool| pool.labels.push(label.clone());
        (!is_written_late(key)).then(|| self.in_pool(&labels, text, declare))
    }

    /// The change of a pod that asks for a value of a label, and for nothing else of it.
    fn asking(&self, asks: &[Node<'_>], node: &Node<'_>, text: String, (key, value): (&str, &str)) -> Remedy {
        let mut remedy = self.of_pod(node, text, ask_for(key, value));
        let written = match asks {
            // The images may be built for the one that is written.
            _ if key == ARCH => None,
            [one] if one.text().is_some() => Some(one.pointer()),
            [one] if self.pod.terms.len() == 1 && one.get("operator").text() == Some("In") => {
                let values: Vec<Node<'_>> = one.get("values").items().collect();
                let [only] = values.as_slice() else { return remedy };
                Some(only.pointer())
            }
            _ => None,
        };
        remedy.change.edit = written.map(|pointer| ValueEdit::Set(pointer, json!(value)));
        remedy
    }

    /// The name that nodes of this pool have for a label of another kind of node.
    fn label_here(&self, key: &str) -> Option<String> {
        let name = match self.pool.provider() {
            _ if key == NODE_GROUP_CAPACITY => CAPACITY_TYPE.to_owned(),
            Provider::AutoMode => Provider::AutoMode.provider_key(key).into_owned(),
            Provider::Aws => Provider::AutoMode.catalogue_key(key).into_owned(),
            Provider::Other => return None,
        };
        (name != key).then_some(name)
    }

    /// The change of a pod that asks for a label of another kind of node: it asks for the one that nodes of this pool have.
    fn own_label(&self, node: &Node<'_>, key: &str, wanted: &[String]) -> Option<Remedy> {
        let name = self.label_here(key)?;
        let is_auto_mode = self.pool.provider() == Provider::AutoMode;
        // Of some labels AWS documents none for EKS Auto Mode.
        if is_auto_mode && name != CAPACITY_TYPE && !is_documented_in_auto_mode(&name) {
            return None;
        }
        let written = |value: &String| match (key, value.as_str()) {
            (NODE_GROUP_CAPACITY, "CAPACITY_BLOCK") => "reserved".to_owned(),
            (NODE_GROUP_CAPACITY, value) => value.to_ascii_lowercase().replace('_', "-"),
            (_, value) => value.to_owned(),
        };
        let values: Vec<String> = wanted.iter().map(written).collect();
        let (text, value) = match values.as_slice() {
            [one] => (format!("ask for `{name}: {one}`"), one.clone()),
            [first, ..] => (format!("ask for {} in `{name}`", values.join(", ")), first.clone()),
            [] => return None,
        };
        let key = key.to_owned();
        Some(self.of_pod(node, text, move |pod, _| {
            drop_key(pod, &key);
            pod.node_selector.push((name.clone(), value.clone()));
        }))
    }

    pub(super) fn volumes(&self, clash: &Clash) -> Draft {
        let volumes = self.template.spec.get("volumes");
        let node = if volumes.is_set() { volumes } else { self.template.spec.clone() };
        let mut places = vec![Place::new(self.workload, &node, "the volumes of the pod")];
        places.extend(surroundings::places(self.template, self.situation.cluster));
        let pool_nodes = self.pool_keys(&clash.key);
        places.extend(pool_nodes.iter().map(|node| Place::new(self.object, node, "what the pool has")));
        let values: Vec<String> = clash.theirs.values.iter().cloned().collect();
        let mut remedies = Vec::new();
        if let Some(node) = self.pod_keys(&clash.key).first() {
            for value in values.iter().take(MAX_VALUES) {
                let text = format!("ask for `{value}` in `{}`", clash.key);
                remedies.push(self.of_pod(node, text, ask_for(&clash.key, value)));
            }
        }
        if let Some(node) = pool_nodes.first().filter(|_| !values.is_empty()) {
            let text = format!("allow {} in `{}`, where the volumes are", values.join(", "), clash.key);
            let key = clash.key.clone();
            remedies.push(self.in_pool(node, text, move |_, pool| allow(pool, &key, &values)));
        }
        let ours = clash.ours.as_ref().map_or_else(|| "no such label".to_owned(), ToString::to_string);
        let reason =
            format!("the volumes of the pod need `{}` {}; the nodes have {ours}", clash.key, clash.theirs);
        let obstacle = Obstacle { stage: Stage::Volumes, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(|pod, _| pod.volumes.clear()) }
    }

    pub(super) fn topology(&self, kind: TopologyKind, key: &str) -> Draft {
        let cluster = self.situation.cluster;
        let is_met = |node: &Node<'_>| {
            kind == TopologyKind::Affinity && surroundings::pods_may_exist(node, self.template, cluster)
        };
        let is_it = |(of, _, node): &(TopologyKind, bool, Node<'_>)| {
            *of == kind && node.get("topologyKey").text() == Some(key) && !is_met(node)
        };
        let rule = rules_of(self.template).into_iter().find(is_it).map(|(_, _, node)| node);
        let key = key.to_owned();
        let (mut remedies, mut places) = (Vec::new(), Vec::new());
        let all = (kind, key.clone());
        let drop_rule = move |pod: &mut Pod, _: &mut Pool| {
            pod.topology.retain(|rule| (rule.kind, &rule.key) != (all.0, &all.1));
        };
        let (reason, node) = match &rule {
            None if kind == TopologyKind::Affinity => {
                let (reason, node, others) = self.companions(&key);
                let text = "prefer that affinity instead of requiring it".to_owned();
                remedies.push(self.of_pod(&node, text, drop_rule.clone()));
                places.extend(others.map(|(other, node)| Place::new(other, &node, "the pods that it joins")));
                (reason, node)
            }
            Some(rule) if kind == TopologyKind::Affinity => {
                let (reason, meant) = surroundings::absent_pods(rule, self.template, cluster);
                let node = rule.get("labelSelector");
                remedies.extend(meant.map(|text| self.of_pod(&node, text, drop_rule.clone())));
                (reason, node)
            }
            Some(rule) => (unsatisfied(kind, &key), rule.get("topologyKey")),
            None => (unsatisfied(kind, &key), self.template.spec.clone()),
        };
        places.insert(0, Place::new(self.workload, &node, "this rule"));
        if kind != TopologyKind::Affinity && !is_written_late(&key) {
            let labels = self.object.path(&["spec", "template", "metadata", "labels"]);
            let label = (key.clone(), "a".to_owned());
            remedies.push(self.in_pool(&labels, format!("add the label `{key}`"), move |_, pool| {
                pool.labels.push(label.clone());
            }));
        }
        let obstacle = Obstacle { stage: Stage::Topology, reason, places, changes: Vec::new() };
        Draft { obstacle, remedies, without: edit(drop_rule) }
    }
}

impl<'s> Attempt<'s> {
    /// Why the pods that a term of affinity names leave no node, the term, and a workload of these pods.
    fn companions(&self, key: &str) -> (String, Node<'s>, Option<(&'s Object, Node<'s>)>) {
        let pod = self.situation.pod(self.template);
        let rules = rules_of(self.template).into_iter().zip(pod.iter().flat_map(|pod| &pod.topology));
        let mut terms = rules.filter(|((kind, required, _), rule)| {
            let is_closed = rule.selects == Selected::Nothing || rule.domains.is_some();
            *required && *kind == TopologyKind::Affinity && rule.key == key && is_closed
        });
        let Some(((_, _, node), rule)) = terms.next() else {
            return (unsatisfied(TopologyKind::Affinity, key), self.template.spec.clone(), None);
        };
        let other = surroundings::in_reach(&node, self.template, self.situation.cluster).next();
        let name = other.map(|other| format!("those of `{}`", other.display_name()));
        let name = name.unwrap_or_else(|| "others".to_owned());
        let waits = |other: &Object| {
            templates(other).iter().any(|other| {
                let terms = affinity_terms(&other.spec, "podAffinity").filter(|(_, required)| *required);
                terms.into_iter().any(|(term, _)| {
                    matches(&term.get("labelSelector"), &self.template.labels()) == Some(true)
                })
            })
        };
        let reason = match &rule.domains {
            Some(domains) if key != HOSTNAME => {
                let domains = domains.join(", ");
                format!("its pods join {name}, which are in `{key}` {domains}: it has no node there")
            }
            Some(_) => format!("its pods join {name}, which are on nodes that it may not enter"),
            None if other.is_some_and(waits) => {
                format!("its pods wait for {name}, which wait for them: none of them ever starts")
            }
            None => format!("its pods join {name}, which have no node themselves"),
        };
        let place = other.map(|other| (other, other.path(&["metadata", "name"])));
        (reason, node.get("labelSelector"), place)
    }
}

/// That the pod asks for a label of node groups.
fn for_node_groups(clash: &Clash) -> String {
    let (key, theirs) = (&clash.key, &clash.theirs);
    match key.as_str() {
        NODE_GROUP_CAPACITY => format!("only nodes of node groups have the label `{key}`"),
        _ => {
            format!("the pod is for the nodes of a node group (`{key}` {theirs}): it belongs to no NodePool")
        }
    }
}

/// Lets the pod ask for one value of a label, and for nothing else of it.
fn ask_for(key: &str, value: &str) -> impl Fn(&mut Pod, &mut Pool) + 'static {
    let (key, value) = (key.to_owned(), value.to_owned());
    move |pod, _| {
        drop_key(pod, &key);
        pod.node_selector.push((key.clone(), value.clone()));
    }
}
