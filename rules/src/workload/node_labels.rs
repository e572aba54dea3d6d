//! Node labels that a pod refers to, and the effect if no node has the label.

use crate::catalog::HOSTNAME;
use crate::karpenter::provider::is_node_group_label;
use crate::tree::node::Node;
use crate::workload::gpu::requested_extended_resources;
use crate::workload::template::{PREFERRED_AFFINITY, REQUIRED_AFFINITY, Template};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelUse {
    /// The node must have it, with a matching value: node selector, required affinity.
    Required,
    /// The node must not have it, or with another value: required affinity with `NotIn` or `DoesNotExist`.
    Excluded,
    Preferred,
    /// A topology domain that the pod requires: `DoNotSchedule`, required pod affinity.
    Topology,
    /// A topology domain that the pod prefers.
    SoftTopology,
}

#[derive(Clone, Debug)]
pub(crate) struct LabelReference<'a> {
    pub(crate) key: &'a str,
    pub(crate) usage: LabelUse,
    /// The node to report: the scalar with the key, or the value of the entry with the key.
    pub(crate) node: Node<'a>,
    /// The mapping that has the label as a key; absent if the key is a scalar.
    pub(crate) selector: Option<Node<'a>>,
    /// The values; empty for operators without values and for topology domains.
    pub(crate) values: Vec<Node<'a>>,
}

/// The labels that the nodes of a template's pods must have, each with its values: those of the node selector, and of a required
/// affinity without alternatives.
pub(crate) fn labels_of_all_nodes<'a>(template: &Template<'a>) -> Vec<(&'a str, Vec<Node<'a>>)> {
    let selector = template.spec.get("nodeSelector").entries().into_iter();
    let mut labels: Vec<_> = selector.map(|(key, value)| (key, vec![value])).collect();
    let mut terms = template.required_terms().items();
    let (Some(term), None) = (terms.next(), terms.next()) else { return labels };
    labels.extend(term.get("matchExpressions").items().filter_map(|expression| {
        let is_in = expression.get("operator").text() == Some("In");
        let key = expression.get("key").text().filter(|_| is_in)?;
        Some((key, expression.get("values").items().collect()))
    }));
    labels
}

/// All node labels that a pod template refers to, in field order.
pub(crate) fn referenced_labels<'a>(template: &Template<'a>) -> Vec<LabelReference<'a>> {
    let mut out = Vec::new();
    let selector = template.spec.get("nodeSelector");
    for (key, value) in selector.entries() {
        out.push(LabelReference {
            key,
            usage: LabelUse::Required,
            node: value.clone(),
            selector: Some(selector.clone()),
            values: vec![value],
        });
    }
    of_affinity(&template.spec.get("affinity"), &mut out);
    for spread in template.spec.get("topologySpreadConstraints").items() {
        let soft = spread.get("whenUnsatisfiable").text() == Some("ScheduleAnyway");
        let usage = if soft { LabelUse::SoftTopology } else { LabelUse::Topology };
        topology_key(&spread, usage, &mut out);
    }
    out
}

fn of_affinity<'a>(affinity: &Node<'a>, out: &mut Vec<LabelReference<'a>>) {
    if affinity.is_absent() {
        return;
    }
    let node = affinity.get("nodeAffinity");
    for term in node.items_at(&[REQUIRED_AFFINITY, "nodeSelectorTerms"]) {
        expressions(&term, true, out);
    }
    for wish in node.items_at(&[PREFERRED_AFFINITY]) {
        expressions(&wish.get("preference"), false, out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in affinity.items_at(&[kind, REQUIRED_AFFINITY]) {
            topology_key(&term, LabelUse::Topology, out);
        }
        for wish in affinity.items_at(&[kind, PREFERRED_AFFINITY]) {
            topology_key(&wish.get("podAffinityTerm"), LabelUse::SoftTopology, out);
        }
    }
}

/// Beginnings of the labels that other providers than AWS give their nodes: GKE, AKS, OKE, DOKS, LKE, VKE, IKS, Kapsule, CoreWeave,
/// and Talos Linux on machines of one's own.
const OF_OTHER_CLOUDS: [&str; 11] = [
    "cloud.google.com/",
    "kubernetes.azure.com/",
    "oci.oraclecloud.com/",
    "oke.oraclecloud.com/",
    "doks.digitalocean.com/",
    "lke.linode.com/",
    "vke.vultr.com/",
    "ibm-cloud.kubernetes.io/",
    "k8s.scaleway.com/",
    "extensions.talos.dev/",
    "talos.dev/",
];

/// Whether a label is one of nodes that are not in AWS.
pub(crate) fn is_of_other_cloud(key: &str) -> bool {
    key == "agentpool"
        || key.ends_with(".coreweave.cloud/class")
        || OF_OTHER_CLOUDS.iter().any(|start| key.starts_with(start))
}

/// Whether a label is specific to nodes that Karpenter does not start on EKS: those of managed node groups, and of other clouds.
pub(crate) fn is_of_other_nodes(key: &str) -> bool {
    is_node_group_label(key) || is_of_other_cloud(key) || key == "alpha.eksctl.io/nodegroup-name"
}

/// Whether a labeller, such as GPU feature discovery, or a controller of EKS writes a label once a node runs.
pub(crate) fn is_written_late(key: &str) -> bool {
    const PREFIXES: [&str; 7] = [
        "nvidia.com/",
        "feature.node.kubernetes.io/",
        "amd.com/",
        "beta.amd.com/",
        "habana.ai/",
        "neuron.amazonaws.com/",
        "vpc.amazonaws.com/",
    ];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether the pods of a template require a node that is not in AWS.
pub(crate) fn requires_other_cloud(template: &Template<'_>) -> bool {
    let labels = referenced_labels(template);
    labels.iter().any(|label| label.usage == LabelUse::Required && is_of_other_cloud(label.key))
}

/// Whether the pods run only on nodes that they name: by `nodeName`, or by the names of hosts in the node selector or in each
/// alternative of the required affinity.
pub(crate) fn names_nodes(template: &Template<'_>) -> bool {
    let spec = &template.spec;
    let names = |term: &Node<'_>, list: &str, key: &str| {
        term.get(list).items().any(|expression| {
            expression.get("key").text() == Some(key) && expression.get("operator").text() == Some("In")
        })
    };
    let mut terms = template.required_terms().items().peekable();
    spec.get("nodeName").is_set()
        || spec.path(&["nodeSelector", HOSTNAME]).is_set()
        || terms.peek().is_some()
            && terms.all(|term| {
                names(&term, "matchExpressions", HOSTNAME) || names(&term, "matchFields", "metadata.name")
            })
}

/// The keys of the topologies in which the pods must run beside other pods.
pub(crate) fn shared_topologies<'a>(template: &Template<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let terms = template.spec.path(&["affinity", "podAffinity", REQUIRED_AFFINITY]);
    terms.items().map(|term| term.get("topologyKey"))
}

/// Whether Karpenter starts no node on EKS for the pods of a template: they name existing nodes, require a label that its nodes do
/// not have, or request Google's TPUs.
pub(crate) fn is_off_karpenter(template: &Template<'_>) -> bool {
    let required =
        |label: &LabelReference<'_>| label.usage == LabelUse::Required && is_of_other_nodes(label.key);
    let of_gke = |(key, _): &(&str, Node<'_>)| key.starts_with("gke-gcsfuse/");
    names_nodes(template)
        || referenced_labels(template).iter().any(required)
        || template.metadata.get("annotations").entries().iter().any(of_gke)
        || requested_extended_resources(template).contains(&"google.com/tpu")
}

/// Whether a template names Karpenter in a label of the nodes that it selects or avoids. `karpenter.sh/do-not-disrupt` does not
/// count: it is copied to clusters without Karpenter, and a fix of gpulint writes it.
pub(crate) fn names_karpenter(template: &Template<'_>) -> bool {
    let own = |key: &str| key.starts_with("karpenter.");
    // EKS Auto Mode runs Karpenter. The label of compute types is that of other nodes as well.
    let of_auto_mode = |label: &LabelReference<'_>| {
        let is_auto = |value: &Node<'_>| value.text() == Some("auto");
        label.key.starts_with("eks.amazonaws.com/instance-")
            || label.key == "eks.amazonaws.com/compute-type" && label.values.iter().any(is_auto)
    };
    referenced_labels(template).iter().any(|label| own(label.key) || of_auto_mode(label))
}

fn expressions<'a>(term: &Node<'a>, required: bool, out: &mut Vec<LabelReference<'a>>) {
    for expression in term.get("matchExpressions").items() {
        let place = expression.get("key");
        let Some(key) = place.text() else { continue };
        let absence = matches!(expression.get("operator").text(), Some("NotIn" | "DoesNotExist"));
        out.push(LabelReference {
            key,
            usage: match (required, absence) {
                (false, _) => LabelUse::Preferred,
                (true, true) => LabelUse::Excluded,
                (true, false) => LabelUse::Required,
            },
            node: place,
            selector: None,
            values: expression.get("values").items().collect(),
        });
    }
}

fn topology_key<'a>(term: &Node<'a>, usage: LabelUse, out: &mut Vec<LabelReference<'a>>) {
    let place = term.get("topologyKey");
    if let Some(key) = place.text() {
        out.push(LabelReference { key, usage, node: place, selector: None, values: Vec::new() });
    }
}
