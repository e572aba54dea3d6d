//! The programs that run on every node, or on every node with a device, and whether a DaemonSet reaches the nodes of a
//! NodePool.
//!
//! An accelerator becomes a resource of its node through a chain: a labeller writes a label, a device
//! plugin that selects the label registers the devices, and only then the pods that ask for them fit.

use crate::catalog::{Accelerator, Label};
use crate::cluster::values::{VERSIONED_CHARTS, installed_charts};
use crate::cluster::versions::{Fact, INSTALLED, OutsideFact};
use crate::karpenter::pod::toleration;
use crate::karpenter::requirement::{Requirement, Requirements, is_well_known};
use crate::karpenter::scheduling::{Taint, Toleration, tolerates};
use crate::rules::prelude::*;
use crate::workload::gpu::EFA;
use crate::workload::node_labels::is_written_late;

/// What a program does for its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Registers the devices, so that pods can request them.
    DevicePlugin,
    /// Writes labels that start with one of these prefixes.
    Labeller(&'static [&'static str]),
    /// Everything else: logs, metrics, volumes, the network.
    Agent,
}

/// A program that nodes need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Helper {
    /// The end of the repository of its image.
    pub image: &'static str,
    /// What nodes without it lack, for the message.
    pub lacking: &'static str,
    /// The device whose nodes need it. `None` if every node does.
    pub device: Option<&'static str>,
    pub role: Role,
}

const NVIDIA: Option<&str> = Some("nvidia.com/gpu");
const NEURON: Option<&str> = Some("aws.amazon.com/neuron");
const AMD: Option<&str> = Some("amd.com/gpu");
const GAUDI: Option<&str> = Some("habana.ai/gaudi");

const NVIDIA_LABELS: Role = Role::Labeller(&["nvidia.com/"]);
/// The labels that GPU feature discovery derives from those of node feature discovery are `nvidia.com/`.
const NFD_LABELS: Role = Role::Labeller(&["feature.node.kubernetes.io/"]);
const AMD_LABELS: Role = Role::Labeller(&["amd.com/", "beta.amd.com/"]);

const fn plugin(image: &'static str, device: &'static str, lacking: &'static str) -> Helper {
    Helper { image, lacking, device: Some(device), role: Role::DevicePlugin }
}

const fn agent(image: &'static str, device: Option<&'static str>, lacking: &'static str) -> Helper {
    Helper { image, lacking, device, role: Role::Agent }
}

const fn labeller(
    image: &'static str,
    device: Option<&'static str>,
    lacking: &'static str,
    role: Role,
) -> Helper {
    Helper { image, lacking, device, role }
}

/// The programs, the longer ends of a repository before the shorter ones. Their images are those of the manifests and charts of
/// each project.
const HELPERS: [Helper; 32] = [
    plugin("rocm/k8s-device-plugin", "amd.com/gpu", "no `amd.com/gpu`"),
    plugin("k8s-device-plugin", "nvidia.com/gpu", "no `nvidia.com/gpu`"),
    plugin("neuron-device-plugin", "aws.amazon.com/neuron", "no `aws.amazon.com/neuron`"),
    plugin("docker-k8s-device-plugin", "habana.ai/gaudi", "no `habana.ai/gaudi`"),
    plugin("habana-k8s-device-plugin", "habana.ai/gaudi", "no `habana.ai/gaudi`"),
    plugin("aws-efa-k8s-device-plugin", EFA, "no EFA devices"),
    labeller("gpu-feature-discovery", NVIDIA, "no labels of GPUs", NVIDIA_LABELS),
    labeller("node-feature-discovery", None, "no labels of their hardware", NFD_LABELS),
    agent("dcgm-exporter", NVIDIA, "no GPU metrics"),
    agent("k8s-dra-driver-gpu", NVIDIA, "no GPUs for claims"),
    agent("device-metrics-exporter", AMD, "no GPU metrics"),
    agent("neuron-monitor", NEURON, "no Neuron metrics"),
    agent("neuron-dra-driver", NEURON, "no devices for claims"),
    agent("habanalabs-metric-exporter", GAUDI, "no Gaudi metrics"),
    agent("fluent-bit", None, "no logs"),
    agent("aws-for-fluent-bit", None, "no logs"),
    agent("fluentd", None, "no logs"),
    agent("promtail", None, "no logs"),
    agent("filebeat", None, "no logs"),
    agent("vector", None, "no logs"),
    agent("node-exporter", None, "no metrics"),
    agent("cloudwatch-agent", None, "no metrics"),
    agent("aws-ebs-csi-driver", None, "no EBS volumes"),
    agent("aws-efs-csi-driver", None, "no EFS volumes"),
    agent("aws-fsx-csi-driver", None, "no FSx volumes"),
    agent("aws-mountpoint-s3-csi-driver", None, "no S3 volumes"),
    agent("aws-s3-csi-driver", None, "no S3 volumes"),
    agent("amazon-k8s-cni", None, "no pod network"),
    agent("kube-proxy", None, "no Service network"),
    agent("eks-pod-identity-agent", None, "no credentials"),
    labeller("rocm/k8s-node-labeller", AMD, "no labels of GPUs", AMD_LABELS),
    agent("rocm/device-config-manager", AMD, "no partitions of GPUs"),
];

/// The program with this end of the repository of its image.
pub(super) fn helper_of_image(image: &str) -> Option<Helper> {
    HELPERS.into_iter().find(|helper| helper.image == image)
}

/// The programs in the containers of a template.
pub(super) fn helpers<'t>(template: &'t Template<'_>) -> impl Iterator<Item = Helper> + 't {
    template.containers().filter_map(|container| helper(&container))
}

fn helper(container: &Node<'_>) -> Option<Helper> {
    let image = image_of(container)?;
    let found =
        images_of(container).find_map(|one| HELPERS.into_iter().find(|helper| one.is(helper.image)))?;
    if found.role != Role::DevicePlugin {
        return Some(found);
    }
    // One image has several programs: AMD's labeller has a tag of its own, NVIDIA's programs have commands.
    if found.device == AMD && image.tag.is_some_and(|tag| tag.starts_with("labeller")) {
        return HELPERS.into_iter().find(|helper| helper.role == AMD_LABELS);
    }
    let command = command_line(container);
    if command.contains("gpu-feature-discovery") {
        return HELPERS.into_iter().find(|helper| helper.role == NVIDIA_LABELS);
    }
    // The control daemon of MPS and the manager of configurations run beside the plugin.
    (!command.contains("mps-control-daemon") && !command.contains("config-manager")).then_some(found)
}

/// Why the pods of a DaemonSet do not run on the nodes of a NodePool.
#[derive(Clone, Debug)]
pub(super) enum Obstacle<'a> {
    /// Taints of the pool that they do not tolerate, the first with its node.
    Taints(Node<'a>, Vec<Taint>),
    /// A label that the pool's nodes do not have as they select it.
    Label(Box<Lacking<'a>>),
    /// A label that they select and that only a labeller can write.
    LateLabel(Node<'a>, &'a str),
}

/// A label that pods select and that the nodes of a pool lack, or have with another value.
#[derive(Clone, Debug)]
pub(super) struct Lacking<'a> {
    /// The node that selects it.
    pub place: Node<'a>,
    pub key: &'a str,
    operator: Operator,
    /// The selected value, if it is one.
    wanted: Option<&'a str>,
    /// The values that the nodes have, as far as they are known. `None` if they lack the label.
    own: Option<Vec<String>>,
}

impl Lacking<'_> {
    /// What is wrong with the selector of a helper. `nodes` says which nodes are left out, and `lacking` what they do not have.
    pub(super) fn message(&self, name: &str, nodes: &str, lacking: &str) -> String {
        if self.is_type() {
            return format!("`{name}` selects other instance types: {nodes} have {lacking}");
        }
        let Lacking { key, own, .. } = self;
        let Some(own) = own else {
            return format!("`{name}` selects `{key}`: {nodes} lack it and have {lacking}");
        };
        let verb = if self.operator == Operator::NotIn { "excludes" } else { "selects" };
        let what = self.wanted.map_or_else(|| (*key).to_owned(), |value| format!("{key}: {value}"));
        let have = match own.as_slice() {
            [one] => format!("`{one}`"),
            _ => "other values".to_owned(),
        };
        format!("`{name}` {verb} `{what}`: {nodes} have {have} and {lacking}")
    }

    pub(super) fn help(&self) -> String {
        let key = self.key;
        match self.own.as_deref() {
            _ if self.is_type() => {
                "add the types of the pool, or select nodes by a label that the pool sets".to_owned()
            }
            None => format!("add the label `{key}` to the pool's template, or select one that it has"),
            Some([one]) if self.operator == Operator::In => {
                format!("select the value that the nodes of the pool have: `{one}`")
            }
            Some(_) => "select a label with a value that the nodes of the pool have".to_owned(),
        }
    }

    fn is_type(&self) -> bool {
        self.key.ends_with("kubernetes.io/instance-type")
    }
}

/// Whether the pods of a template have a place on the nodes of a pool. `Ok(false)` if that is not known.
pub(super) fn reaches<'a>(template: &Template<'a>, pool: &NodePool<'a>) -> Result<bool, Obstacle<'a>> {
    if template.spec.is_unknown() || template.spec.has_unknown_key() {
        return Ok(false);
    }
    let list = template.spec.get("tolerations");
    let taints = pool.template_spec().get("taints");
    if list.has_unknown() || taints.has_unknown() {
        return Ok(false);
    }
    // A label may still be written, but no taint goes away by itself.
    let selected = selects(template, pool);
    if let Err(Obstacle::Label(..)) = selected {
        return selected;
    }
    let tolerations: Vec<Toleration> = list.items().map(|item| toleration(&item)).collect();
    match untolerated(&tolerations, pool) {
        Some((node, taints)) => Err(Obstacle::Taints(node, taints)),
        None => selected,
    }
}

/// The taints of a pool that keep off pods with some tolerations, with the first of them as it is written.
pub(super) fn untolerated<'a>(
    tolerations: &[Toleration],
    pool: &NodePool<'a>,
) -> Option<(Node<'a>, Vec<Taint>)> {
    let keeps_off = |taint: &Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !taint.key.is_empty()
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    let taints = pool.template_spec().get("taints");
    let mut found = taints.items().zip(pool.taints()).filter(|(_, taint)| keeps_off(taint));
    let (node, first) = found.next()?;
    Some((node, std::iter::once(first).chain(found.map(|(_, taint)| taint)).collect()))
}

/// What one requirement of a pod says about the nodes of a pool.
#[derive(Clone, Debug)]
enum Verdict<'a> {
    Yes,
    Unknown,
    No(Obstacle<'a>),
}

/// Whether the node selector and the required node affinity of a template match the nodes of a pool.
fn selects<'a>(template: &Template<'a>, pool: &NodePool<'a>) -> Result<bool, Obstacle<'a>> {
    let requirements = pool.requirement_set();
    let types = pool.types();
    let nodes = Nodes { pool, requirements: &requirements, types: types.as_ref() };
    let mut known = true;
    let mut note = |verdict: Verdict<'a>| match verdict {
        Verdict::Yes => Ok(()),
        Verdict::Unknown => {
            known = false;
            Ok(())
        }
        Verdict::No(obstacle) => Err(obstacle),
    };
    for (key, value) in template.spec.get("nodeSelector").entries() {
        note(nodes.verdict(key, Operator::In, std::slice::from_ref(&value), &value))?;
    }
    let mut first_obstacle = None;
    let mut matched = None;
    for term in template.required_terms().items() {
        match nodes.term(&term) {
            Verdict::No(obstacle) => first_obstacle = first_obstacle.or(Some(obstacle)),
            Verdict::Yes => matched = Some(true),
            Verdict::Unknown => matched = matched.or(Some(false)),
        }
    }
    match (matched, first_obstacle) {
        (None, Some(obstacle)) => Err(obstacle),
        (matched, _) => Ok(known && matched != Some(false)),
    }
}

/// The first label of a node selector that the nodes of a pool do not have.
pub(super) fn lacking_label<'a>(selector: &Node<'a>, pool: &NodePool<'a>) -> Option<Lacking<'a>> {
    let requirements = pool.requirement_set();
    let types = pool.types();
    let nodes = Nodes { pool, requirements: &requirements, types: types.as_ref() };
    selector.entries().into_iter().find_map(|(key, value)| {
        match nodes.verdict(key, Operator::In, std::slice::from_ref(&value), &value) {
            Verdict::No(Obstacle::Label(lacking)) => Some(*lacking),
            _ => None,
        }
    })
}

/// The nodes of a pool, as far as the pool decides their labels.
struct Nodes<'a, 'p> {
    pool: &'p NodePool<'a>,
    requirements: &'p Requirements,
    types: Option<&'p TypeSet>,
}

impl<'a> Nodes<'a, '_> {
    /// A term matches if all its expressions do.
    fn term(&self, term: &Node<'a>) -> Verdict<'a> {
        let mut verdict = if term.get("matchFields").is_set() { Verdict::Unknown } else { Verdict::Yes };
        for expression in term.get("matchExpressions").items() {
            let place = expression.get("key");
            let operator = expression.get("operator").text().and_then(|text| text.parse::<Operator>().ok());
            let (Some(key), Some(operator)) = (place.text(), operator) else {
                return Verdict::Unknown;
            };
            let values: Vec<Node<'a>> = expression.get("values").items().collect();
            match self.verdict(key, operator, &values, &place) {
                Verdict::Yes => {}
                Verdict::Unknown => verdict = Verdict::Unknown,
                no @ Verdict::No(_) => return no,
            }
        }
        verdict
    }

    fn verdict(
        &self,
        key: &'a str,
        operator: Operator,
        values: &[Node<'a>],
        place: &Node<'a>,
    ) -> Verdict<'a> {
        let texts: Option<Vec<&'a str>> = values.iter().map(Node::text).collect();
        let Some(texts) = texts.filter(|_| !is_placeholder(key) && !self.pool.is_label_unknown(key)) else {
            return Verdict::Unknown;
        };
        let no = |own| {
            let wanted = texts.first().copied().filter(|_| texts.len() == 1);
            Verdict::No(Obstacle::Label(Box::new(Lacking {
                place: place.clone(),
                key,
                operator,
                wanted,
                own,
            })))
        };
        if let Some(found) = self.types_verdict(key, operator, &texts) {
            return if found { Verdict::Yes } else { no(self.values_of_types(key)) };
        }
        let wanted = Requirement::new(operator, &texts, None);
        if key == "karpenter.sh/nodepool" {
            let name = self.pool.object().name();
            return if wanted.has(name) { Verdict::Yes } else { no(Some(vec![name.to_owned()])) };
        }
        match self.requirements.get(key) {
            Some(own) if own.meets(&wanted) => Verdict::Yes,
            Some(own) => no(match own.operator() {
                Operator::DoesNotExist => None,
                Operator::In => Some(own.values.to_vec()),
                _ => Some(Vec::new()),
            }),
            None if wanted.allows_absence() => Verdict::Yes,
            None if is_written_late(key) => Verdict::No(Obstacle::LateLabel(place.clone(), key)),
            None if is_well_known(key) || is_set_by_others(key) => Verdict::Unknown,
            None => no(None),
        }
    }

    /// The values of a label that the types of the pool have. `None` if they lack it.
    fn values_of_types(&self, key: &str) -> Option<Vec<String>> {
        let mut values = Vec::new();
        for one in self.types?.iter() {
            match one.label(key) {
                Label::Is(value) => values.push(value.to_string()),
                Label::Absent => {}
                _ => return Some(Vec::new()),
            }
        }
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then_some(values)
    }

    /// Whether some type of the pool meets a requirement on a label of instance types. `None` for other labels.
    fn types_verdict(&self, key: &str, operator: Operator, values: &[&str]) -> Option<bool> {
        let key = match key {
            "beta.kubernetes.io/instance-type" => crate::catalog::INSTANCE_TYPE,
            "beta.kubernetes.io/arch" => "kubernetes.io/arch",
            key => key,
        };
        let index = crate::catalog::index(key)?;
        let types = self.types.filter(|types| !types.is_empty() && index.unknown().is_disjoint(types))?;
        let mut with = TypeSet::EMPTY;
        for value in values {
            // A type that is newer than the catalogue.
            with = with.or(index.with(value)?);
        }
        match operator {
            Operator::In => Some(!with.is_disjoint(types)),
            Operator::NotIn => Some(!types.is_subset(&with)),
            _ => None,
        }
    }
}

/// Whether a controller other than Karpenter may write a label, or nodes that Karpenter does not start have it: the DaemonSet is
/// then meant for others.
fn is_set_by_others(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let owners = [
        "kubernetes.io",
        "k8s.io",
        "amazonaws.com",
        "eksctl.io",
        "k8s.aws",
        "karpenter.sh",
        "google.com",
        "azure.com",
    ];
    owners.iter().any(|owner| domain == *owner || domain.ends_with(&format!(".{owner}")))
}

/// The kinds that may install something, and those to which they refer.
pub(in crate::rules) const INSTALLING_KINDS: &[Kind] = kinds![[Kind::ARGO_APPLICATION_SET], VERSIONED_CHARTS];

/// Whether a chart, an application or an operator of the input may install something that one of the words names, or a file beside the
/// manifests: a kustomization, Terraform, a helmfile, a chart. The content of a folder or of an unnamed chart is not known. A rule that
/// asks reads [`INSTALLING_KINDS`].
pub(in crate::rules) fn may_install(words: &[&str], ctx: &Context<'_>) -> bool {
    debug_assert!(words.iter().all(|word| mentions(word, &INSTALLED)), "{words:?}");
    let mentions = |text: &str| mentions(text, words);
    let cluster = ctx.cluster();
    let by_chart = |object: &Object| {
        let charts = installed_charts(object, cluster);
        mentions(object.name()) || charts.is_none_or(|charts| charts.into_iter().any(mentions))
    };
    let by_file = |one: &OutsideFact| matches!(&one.fact, Fact::Installs(name) if mentions(name));
    cluster.outside_facts().iter().any(by_file)
        || chart_installers(cluster).chain(cluster.of(Kind::ARGO_APPLICATION_SET)).any(by_chart)
}

/// What a pool with devices of a resource is called.
pub(super) fn pool_noun(resource: &str) -> &'static str {
    if resource == EFA {
        return "EFA pool";
    }
    Accelerator::of(resource).map_or("GPU pool", Accelerator::pool_noun)
}

/// Whether the nodes of a pool have devices of a resource: all of them have accelerators, and some these; EFA on all of them.
pub(in crate::rules) fn has_devices(pool: &NodePool<'_>, resource: &str) -> bool {
    let Some(types) = pool.types() else { return false };
    let mut counts = types.iter().map(|one| one.devices(resource));
    if resource == EFA {
        return !types.is_empty() && counts.all(|count| count > 0);
    }
    pool.hardware() == Hardware::Accelerated && counts.any(|count| count > 0)
}
