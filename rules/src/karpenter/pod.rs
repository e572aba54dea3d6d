//! Converts a pod template to the input of the scheduler.
//! Later changes that controllers and webhooks make to pods are not known here. The scheduler adds the
//! tolerations that EKS adds.
//! are added by the scheduler.

use crate::facts::quantity::Quantity;
use crate::karpenter::requirement::Operator;
use crate::karpenter::scheduling::{
    Container, HostPort, Pod, Preference, RequirementSpec, ResourceList, Term, Toleration, Uncertainty,
};
use crate::steps;
use crate::tree::node::Node;
use crate::workload::selector::matches;
use crate::workload::template::Template;

/// Topology keys whose domains are known in every cluster.
const KNOWN_TOPOLOGY_KEYS: [&str; 3] =
    ["topology.kubernetes.io/zone", "kubernetes.io/hostname", "karpenter.sh/capacity-type"];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

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
    let required = node.items_at(&[REQUIRED, "nodeSelectorTerms"]);
    let mut preferences = Vec::new();
    for item in node.items_at(&[PREFERRED]) {
        preferences
            .push(Preference { weight: item.get("weight").int()?, term: term(&item.get("preference"))? });
    }
    let around = affinity.get("podAffinity");
    let containers =
        |name: &str| -> Option<Vec<Container>> { spec.get(name).items().map(|c| container(&c)).collect() };
    Some(Pod {
        node_selector: selector,
        terms: required.map(|t| term(&t)).collect::<Option<_>>()?,
        preferences,
        tolerations: spec.get("tolerations").items().map(|t| toleration(&t)).collect(),
        containers: containers("containers")?,
        init_containers: containers("initContainers")?,
        requests: amounts(&spec.path(&["resources", "requests"]))?,
        overhead: amounts(&spec.get("overhead"))?,
        resource_claims: has_items(spec, "resourceClaims"),
        preferred_pod_affinity: around
            .items_at(&[PREFERRED])
            .any(|item| !selects_itself(&item.get("podAffinityTerm"), template)),
        uncertainties: uncertainties(template, &around),
    })
}

fn has_items(node: &Node<'_>, list: &str) -> bool {
    node.items_at(&[list]).next().is_some()
}

/// Constraints that can only be evaluated in the cluster and may prevent the pod from being scheduled.
fn uncertainties(template: &Template<'_>, around: &Node<'_>) -> Vec<Uncertainty> {
    let spec = &template.spec;
    let mut out = Vec::new();
    let claims = |v: Node<'_>| v.get("persistentVolumeClaim").is_set();
    if spec.get("volumes").items().any(claims) {
        out.push(Uncertainty::Volumes);
    }
    if around.items_at(&[REQUIRED]).any(|term| !selects_itself(&term, template)) {
        out.push(Uncertainty::PodAffinity);
    }
    let custom = |c: Node<'_>| {
        c.get("whenUnsatisfiable").text() != Some("ScheduleAnyway")
            && c.get("topologyKey").text().is_none_or(|key| !KNOWN_TOPOLOGY_KEYS.contains(&key))
    };
    if spec.get("topologySpreadConstraints").items().any(custom) {
        out.push(Uncertainty::TopologySpread);
    }
    out
}

/// Whether the first pod of a template satisfies a term of pod affinity by itself: the term selects it, in its own
/// namespace, and every new node has the topology key.
fn selects_itself(term: &Node<'_>, template: &Template<'_>) -> bool {
    let known = term.get("topologyKey").text().is_some_and(|key| KNOWN_TOPOLOGY_KEYS.contains(&key));
    let elsewhere = ["namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"];
    known
        && !elsewhere.iter().any(|name| term.get(name).is_set())
        && matches(&term.get("labelSelector"), &template.labels()) == Some(true)
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
    use crate::karpenter::scheduling::Uncertainty;
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
            to_scheduling_pod(&templates(&object)[0]).expect("it can be read").uncertainties
        };
        assert_eq!(read("a", "kubernetes.io/hostname"), []);
        assert_eq!(read("b", "kubernetes.io/hostname"), [Uncertainty::PodAffinity]);
        assert_eq!(read("a", "example.com/rack"), [Uncertainty::PodAffinity]);
    }

    #[test]
    fn what_is_not_known_is_no_pod() {
        assert!(read(json!({"nodeSelector": {"a": "${B}"}})).is_none());
        assert!(read(json!({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]})).is_none());
        assert!(read(json!({})).is_some());
    }
}
