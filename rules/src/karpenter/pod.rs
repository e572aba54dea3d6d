//! Converts a pod template to the input of the scheduler.
//! Later changes that controllers and webhooks make to pods are not known here. The scheduler adds the
//! tolerations that EKS adds.

use crate::facts::quantity::Quantity;
use crate::karpenter::requirement::Operator;
use crate::karpenter::scheduling::{
    Container, HostPort, Pod, Preference, RequirementSpec, ResourceList, Selected, Term, Toleration,
    TopologyKind, TopologyRule, Uncertainty,
};
use crate::steps;
use crate::tree::node::Node;
use crate::workload::selector::{is_set_by_controllers, matches};
use crate::workload::template::{PREFERRED_AFFINITY, REQUIRED_AFFINITY, Template};

/// The pod of a template. `None` if a placeholder or an unreadable value decides.
pub fn to_scheduling_pod(template: &Template<'_>) -> Option<Pod> {
    let spec = &template.spec;
    let unknown = ["nodeSelector", "affinity", "tolerations", "overhead", "resources"]
        .iter()
        .any(|name| spec.get(name).has_unknown());
    if unknown || spec.is_unknown() {
        return None;
    }
    let mut selector = Vec::new();
    for (key, value) in spec.get("nodeSelector").entries() {
        selector.push((key.to_owned(), value.text()?.to_owned()));
    }
    let affinity = spec.get("affinity");
    let node = affinity.get("nodeAffinity");
    let required = node.items_at(&[REQUIRED_AFFINITY, "nodeSelectorTerms"]);
    let mut preferences = Vec::new();
    for item in node.items_at(&[PREFERRED_AFFINITY]) {
        preferences
            .push(Preference { weight: item.get("weight").int()?, term: term(&item.get("preference"))? });
    }
    let claims = |volume: Node<'_>| volume.get("persistentVolumeClaim").is_set();
    Some(Pod {
        node_selector: selector,
        terms: required.map(|t| term(&t)).collect::<Option<_>>()?,
        preferences,
        tolerations: spec.get("tolerations").items().map(|t| toleration(&t)).collect(),
        containers: template.containers().map(|c| container(&c)).collect::<Option<_>>()?,
        init_containers: spec.get("initContainers").items().map(|c| container(&c)).collect::<Option<_>>()?,
        requests: amounts(&spec.path(&["resources", "requests"]))?,
        limits: amounts(&spec.path(&["resources", "limits"]))?,
        overhead: amounts(&spec.get("overhead"))?,
        resource_claims: has_items(spec, "resourceClaims"),
        volumes: Vec::new(),
        volume_fault: None,
        topology: topology(template, &|_| true),
        uncertainties: spec
            .get("volumes")
            .items()
            .any(claims)
            .then_some(Uncertainty::Volumes)
            .into_iter()
            .collect(),
    })
}

fn has_items(node: &Node<'_>, list: &str) -> bool {
    node.items_at(&[list]).next().is_some()
}

/// The rules of spread, pod affinity and anti-affinity of a template, in the order of [`rules_of`]. `exist` says of a term that does not
/// select the pod itself whether other pods that it selects may exist.
pub(crate) fn topology(template: &Template<'_>, exist: &dyn Fn(&Node<'_>) -> bool) -> Vec<TopologyRule> {
    let rule = |(kind, required, node): (TopologyKind, bool, Node<'_>)| {
        let key = node.get("topologyKey").text().unwrap_or_default().to_owned();
        TopologyRule { kind, key, required, selects: selected(&node, template, exist), domains: None }
    };
    rules_of(template).into_iter().map(rule).collect()
}

/// The nodes of the rules of spread, pod affinity and anti-affinity of a template that have a topology key, and whether each is
/// required: these first, then the others in the order in which Karpenter drops them (`Preferences.Relax`).
pub(crate) fn rules_of<'a>(template: &Template<'a>) -> Vec<(TopologyKind, bool, Node<'a>)> {
    let spec = &template.spec;
    let mut rules = Vec::new();
    for (kind, name) in
        [(TopologyKind::Affinity, "podAffinity"), (TopologyKind::AntiAffinity, "podAntiAffinity")]
    {
        rules.extend(affinity_terms(spec, name).map(|(term, required)| (kind, required, term)));
    }
    for constraint in spec.get("topologySpreadConstraints").items() {
        let required = constraint.get("whenUnsatisfiable").text() != Some("ScheduleAnyway");
        rules.push((TopologyKind::Spread, required, constraint));
    }
    rules.retain(|(_, _, node)| node.get("topologyKey").text().is_some());
    rules.sort_by_key(|(kind, required, _)| (!required, *kind));
    rules
}

/// The terms of pod affinity or anti-affinity, those with the highest weight first, and whether each is required.
pub(crate) fn affinity_terms<'a>(spec: &Node<'a>, name: &str) -> impl Iterator<Item = (Node<'a>, bool)> {
    let affinity = spec.path(&["affinity", name]);
    let required: Vec<Node<'a>> = affinity.items_at(&[REQUIRED_AFFINITY]).collect();
    let mut preferred: Vec<Node<'a>> = affinity.items_at(&[PREFERRED_AFFINITY]).collect();
    preferred.sort_by_key(|item| std::cmp::Reverse(item.get("weight").int().unwrap_or(0)));
    let preferred = preferred.into_iter().map(|item| (item.get("podAffinityTerm"), false));
    required.into_iter().map(|term| (term, true)).chain(preferred)
}

fn selected(term: &Node<'_>, template: &Template<'_>, exist: &dyn Fn(&Node<'_>) -> bool) -> Selected {
    match matches(&term.get("labelSelector"), &template.labels()) {
        Some(true) if reaches_itself(term, template) => Selected::Itself,
        _ if exist(term) => Selected::Others,
        _ => Selected::Nothing,
    }
}

/// Whether a term that selects the labels of a template also reaches its namespace and revision. The API server makes `matchLabelKeys` and
/// `mismatchLabelKeys` a part of the selector, with the values of the pod; a key that the pod lacks adds nothing.
fn reaches_itself(term: &Node<'_>, template: &Template<'_>) -> bool {
    let own = template.place.0.namespace_or_default();
    let (names, selector) = (term.get("namespaces"), term.get("namespaceSelector"));
    // Kubernetes writes this label on every namespace.
    let is_own =
        |label: &(&str, Node<'_>)| label.0 == "kubernetes.io/metadata.name" && label.1.text() == Some(own);
    let is_any = selector.is_mapping()
        && !has_items(&selector, "matchExpressions")
        && selector.get("matchLabels").entries().iter().all(is_own);
    let is_named = names.items().any(|name| name.text() == Some(own));
    let labels = template.labels();
    let has = |key: &str| {
        is_set_by_controllers(std::iter::once(key)) || labels.iter().any(|(name, _)| *name == key)
    };
    let differs = term.get("mismatchLabelKeys").items().any(|key| key.text().is_none_or(has));
    !differs && (is_any || is_named || !names.is_set() && !selector.is_set())
}

fn term(node: &Node<'_>) -> Option<Term> {
    let mut term = Term { match_fields: has_items(node, "matchFields"), ..Term::default() };
    for expression in node.get("matchExpressions").items() {
        let Ok(op) = expression.get("operator").text()?.parse::<Operator>() else {
            term.unreadable = true;
            continue;
        };
        term.expressions.push(RequirementSpec {
            key: expression.get("key").text()?.to_owned(),
            op,
            values: expression
                .get("values")
                .items()
                .map(|v| v.text().map(str::to_owned))
                .collect::<Option<_>>()?,
            min_values: None,
        });
    }
    Some(term)
}

/// A toleration. Absent fields are empty strings.
pub fn toleration(node: &Node<'_>) -> Toleration {
    let text = |name: &str| node.get(name).text().unwrap_or_default().to_owned();
    Toleration { key: text("key"), operator: text("operator"), value: text("value"), effect: text("effect") }
}

fn container(node: &Node<'_>) -> Option<Container> {
    steps::take(50);
    let ports = node.get("ports");
    let host_ports = ports.items().filter(|p| p.get("hostPort").is_set());
    Some(Container {
        requests: amounts(&node.path(&["resources", "requests"]))?,
        limits: amounts(&node.path(&["resources", "limits"]))?,
        host_ports: host_ports.map(|p| host_port(&p)).collect::<Option<_>>()?,
        sidecar: node.get("restartPolicy").text() == Some("Always"),
    })
}

fn host_port(node: &Node<'_>) -> Option<HostPort> {
    let text = |name: &str| node.get(name).text().unwrap_or_default().to_owned();
    Some(HostPort {
        port: node.get("hostPort").int()?.try_into().ok()?,
        protocol: text("protocol"),
        ip: text("hostIP"),
    })
}

/// Quantities by resource name, in thousandths.
fn amounts(node: &Node<'_>) -> Option<ResourceList> {
    if node.is_unknown() {
        return None;
    }
    let amount = |(name, amount): (&str, Node<'_>)| {
        // The name of the resource is copied, sorted and hashed.
        steps::take(100);
        let quantity = Quantity::at(&amount)?;
        Some((name.to_owned(), quantity.milli()))
    };
    node.entries().into_iter().map(amount).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::to_scheduling_pod;
    use crate::karpenter::scheduling::{Selected, Uncertainty};
    use crate::object::Object;
    use crate::workload::template::templates;

    fn read(spec: Value) -> Option<super::Pod> {
        let object = Object::from_json(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec,
        }))
        .expect("it is an object");
        to_scheduling_pod(&templates(&object)[0])
    }

    #[test]
    fn what_the_scheduler_asks_for_is_read() {
        let pod = read(json!({
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 2}}}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
            "topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions":
                    [{"key": "k", "operator": "In", "values": ["v"]}]}]}}},
        }))
        .expect("everything can be read");
        assert_eq!(pod.node_selector, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(pod.terms[0].expressions[0].values, ["v"]);
        assert_eq!(pod.containers[0].requests.get("cpu"), Some(&500));
        assert_eq!(pod.containers[0].limits.get("nvidia.com/gpu"), Some(&2000));
        assert_eq!(pod.containers[0].host_ports[0].port, 80);
        assert!(pod.init_containers[0].sidecar);
        assert_eq!(pod.uncertainties, [Uncertainty::Volumes]);
    }

    #[test]
    fn a_pod_can_satisfy_its_own_affinity() {
        let read = |label: &str, key: &str| {
            let object = Object::from_json(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}},
                "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}]}}},
            }))
            .expect("it is an object");
            to_scheduling_pod(&templates(&object)[0]).expect("it can be read").topology[0].selects
        };
        assert_eq!(read("a", "kubernetes.io/hostname"), Selected::Itself);
        assert_eq!(read("b", "kubernetes.io/hostname"), Selected::Others);
    }

    #[test]
    fn what_is_not_known_is_no_pod() {
        assert!(read(json!({"nodeSelector": {"a": "${B}"}})).is_none());
        assert!(read(json!({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]})).is_none());
        assert!(read(json!({})).is_some());
    }
}
