//! Pods without a GPU tolerate the taint that keeps them off GPU nodes.
//!
//! # Why
//! The taint on GPU nodes exists so that other pods do not land there. A pod that tolerates it and asks
//! for no accelerator may take the CPU and memory of a GPU node, and as long as it runs there Karpenter
//! does not remove the node: a web server pays for a GPU. It is advice for pods that end by themselves,
//! and for a part of a workload whose other pods use GPUs. Nothing is reported of pods that run on GPU
//! nodes on purpose, or may: by a node selector or a required affinity, also one to other pods, whose nodes
//! the input does not show. The same holds for templates that another object completes, such as a
//! TrainingRuntime, whose GPUs a TrainJob requests.
//!
//! The head of a Ray cluster is reported there too: it only coordinates the workers, and outlives them. If
//! their groups scale to zero, it keeps a GPU node alone.
//!
//! # Fix
//! Remove the toleration, or request the GPU that the pods use. Where the pods run a model server, or prefer
//! nodes with other pods, the toleration may be the part that is meant, so that there is no automatic fix.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: gateway}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata: {labels: {app: gateway}}
//!      spec:
//! -      tolerations:
//! -        - key: nvidia.com/gpu # <-
//! -          operator: Exists
//! -          effect: NoSchedule
//!        containers:
//!          - name: gateway
//!            image: example.com/gateway:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespectaints>

use crate::facts::text::lines_upwards;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::rules::gpu::{is_custom, is_left_alone, pools_by_label};
use crate::rules::prelude::*;
use crate::workload::gpu_nodes::{may_require_gpu_nodes, requires_gpu_nodes};
use crate::workload::gpu_share::gpu_share;
use crate::workload::node_labels::LabelReference;
use crate::workload::ray::{Extent, pods_of_template};
use crate::workload::template::workload_kind;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-taint-tolerated-without-gpu",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_taint_tolerated_without_gpu.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// The keys of taints of nodes with accelerators, which are the names of the resources.
pub(super) const TAINTS: &[&str] = KARPENTER_ACCELERATORS;

/// Words in names, images and commands of software that manages GPUs without using one.
const HELPERS: [&str; 26] = [
    "dcgm",
    "gpu-operator",
    "gpu-exporter",
    "device-plugin",
    "feature-discovery",
    "node-exporter",
    "neuron-monitor",
    "neuron-scheduler",
    "toolkit",
    "driver",
    "mig-manager",
    "mig-parted",
    "image-pull",
    "image-cache",
    "prepull",
    "pre-pull",
    "warm",
    "daemon",
    "kubelet",
    "fluent",
    "promtail",
    "datadog",
    "otel",
    "csi",
    "operator",
    "debug",
];

/// Kinds whose pods get their resources from another object: a runtime of KServe, a TrainJob.
pub(super) const COMPLETED_ELSEWHERE: [&str; 8] = [
    "InferenceService",
    "LLMInferenceService",
    "LLMInferenceServiceConfig",
    "ServingRuntime",
    "ClusterServingRuntime",
    "TrainingRuntime",
    "ClusterTrainingRuntime",
    "TrainJob",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        for toleration in template.spec.get("tolerations").items() {
            let key = toleration.get("key");
            // GPU nodes are kept free by taints that do more than prefer other pods.
            let is_weak = toleration.get("effect").text() == Some("PreferNoSchedule");
            if !is_weak && key.text().is_some_and(|key| TAINTS.contains(&key)) {
                inspect(object, &template, &toleration, &key, ctx);
                break;
            }
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    toleration: &Node<'_>,
    key: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    if is_left_alone(object, ctx)
        || object.may_lack_fields()
        || uses_a_gpu(template)
        || is_helper(object, template)
        || is_test(object)
    {
        return None;
    }
    if COMPLETED_ELSEWHERE.contains(&object.kind()) {
        return None;
    }
    if is_head(template) && names_cpu_pool(template, ctx) {
        return None;
    }
    if requires_gpu_nodes(template) {
        return pinned_head(object, template, toleration, ctx);
    }
    if may_require_gpu_nodes(template) || may_select_gpu_nodes(template, ctx) {
        return None;
    }
    let part = uses_accelerators(object);
    // A workflow tolerates the taint for all its templates.
    let is_shared = !toleration.pointer().steps().starts_with(template.spec.pointer().steps());
    if part && is_shared {
        return None;
    }
    let list = template.spec.get("tolerations");
    let whole = if list.items().count() == 1 { list } else { toleration.clone() };
    let taint = key.text()?;
    let pods = pods_in_words(object, template);
    let serves = template.containers().find_map(|container| server_of(&container));
    let prefers_pods = template.spec.path(&["affinity", "podAffinity"]).is_set();
    let ends = workload_kind(object).is_some_and(|kind| kind.runs_to_completion) || object.is(Kind::POD);
    let is_less = ends || part || has_comment(object, toleration);
    let severity = if is_less { Severity::Info } else { Severity::Warning };
    let finding =
        ctx.report(key, format!("{pods} tolerates the taint `{taint}` and requests no accelerator"));
    finding.severity(severity);
    match serves {
        Some(server) => finding.help(format!(
            "request the accelerator that {} is to use, or remove the toleration",
            server.name
        )),
        None => {
            finding.help("remove the toleration: the pods may keep a node whose accelerators they do not use")
        }
    };
    if serves.is_none() && !prefers_pods {
        finding.fix(Fix::new("remove the toleration", Safety::Unsafe).remove(&whole));
    }
    None
}

/// Whether a comment is above a toleration or beside it: who explains it has it on purpose.
fn has_comment(object: &Object, toleration: &Node<'_>) -> bool {
    let Some((origin, span)) = object.origin().zip(toleration.span()) else { return false };
    let mut lines = lines_upwards(origin.source.text(), span.start as usize);
    let own = lines.next();
    own.into_iter().chain(lines.next()).any(|line| line.contains(" #") || line.trim_start().starts_with('#'))
}

/// The pods of a template in a message: a part of the workload by its role, such as the Launcher of an MPIJob.
fn pods_in_words(object: &Object, template: &Template<'_>) -> String {
    let name = object.display_name();
    let pointer = template.spec.pointer();
    let mut pairs = pointer.steps().windows(2);
    match pairs.find(|pair| pair[0].ends_with("ReplicaSpecs")) {
        Some(pair) => format!("the {} of `{name}`", pair[1]),
        None if is_head(template) => format!("the head of `{name}`"),
        None if template.is_of_leaders() => format!("the leader of `{name}`"),
        None => format!("`{name}`"),
    }
}

/// Whether the pods select nodes by a label of the user that no NodePool of the input without accelerators has.
fn may_select_gpu_nodes(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    const OF_ALL_NODES: [&str; 2] = ["eks.amazonaws.com/capacityType", "eks.amazonaws.com/compute-type"];
    let chooses = |label: &LabelReference<'_>| {
        label.usage == LabelUse::Required
            && (label.key == NODEPOOL_LABEL || is_custom(label.key) && !OF_ALL_NODES.contains(&label.key))
    };
    if !referenced_labels(template).iter().any(chooses) {
        return false;
    }
    let pools = pools_by_label(template, ctx);
    pools.is_empty() || !pools.into_iter().all(has_no_gpus)
}

/// Reports the head of a Ray cluster on the GPU nodes of its workers. Where a worker always runs, both may share a node.
fn pinned_head(
    object: &Object,
    template: &Template<'_>,
    toleration: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let group = is_head(template).then(|| object.root().at(&template.spec.pointer().above(2)))?;
    // `resources` of a group replaces what its parameters say.
    let resources = group.get("resources");
    let of_group = resources.get("GPU");
    let announced = if of_group.is_set() { of_group } else { group.path(&["rayStartParams", "num-gpus"]) };
    let is_zero = !announced.is_set() || announced.string_or_number().as_deref() == Some("0");
    let is_idle = is_zero && !resources.has_unknown_key();
    // The pool may be one of the heads, without accelerators.
    let own_nodes = |label: &LabelReference<'_>| {
        label.values.iter().any(|value| value.raw_text().is_some_and(|text| mentions(text, &["head", "cpu"])))
    };
    if !is_idle || referenced_labels(template).iter().any(own_nodes) {
        return None;
    }
    let templates = templates(object);
    let mut workers = templates.iter().filter(|worker| !is_head(worker) && uses_device(worker)).peekable();
    workers.peek()?;
    let may_be_alone = workers.all(|worker| pods_of_template(worker, Extent::Least) == Some(0));
    let name = object.display_name();
    ctx.report(toleration, format!("the head of `{name}` runs on nodes with accelerators and requests none"))
        .severity(if may_be_alone { Severity::Warning } else { Severity::Info })
        .help(
            "run the head on CPU nodes, without this toleration: it needs no accelerator, and outlives the workers",
        );
    None
}

/// Whether pods name a NodePool of the input that has no accelerators.
fn names_cpu_pool(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let is_cpu_pool =
        |name: &str| ctx.cluster().of(Kind::NODE_POOL).any(|pool| pool.name() == name && has_no_gpus(pool));
    referenced_labels(template).iter().any(|label| {
        label.key == "karpenter.sh/nodepool"
            && label.values.iter().any(|value| value.text().is_some_and(is_cpu_pool))
    })
}

/// Whether all types of a pool are known to have no accelerators.
fn has_no_gpus(pool: &Object) -> bool {
    let types = NodePool::new(pool).and_then(|pool| pool.types());
    types.is_some_and(|types| !types.iter().any(InstanceType::is_accelerated))
}

fn is_head(template: &Template<'_>) -> bool {
    matches!(template.spec.pointer().steps(), [.., group, _, _] if group == "headGroupSpec")
}

/// Whether the pods use accelerators, or may: by a resource, a claim, a runtime or a variable.
fn uses_a_gpu(template: &Template<'_>) -> bool {
    has_access_to_gpus(template)
        || template.all_containers().any(|container| {
            container.get("env").items().any(|v| {
                v.get("name")
                    .raw_text()
                    .is_some_and(|n| n.contains("VISIBLE_DEVICES") || n.contains("NVIDIA_"))
            })
        })
}

/// Whether the pods get accelerators, or may: by a resource, a claim, an annotation, a runtime or the devices of the node.
fn has_access_to_gpus(template: &Template<'_>) -> bool {
    template.spec.get("runtimeClassName").is_set() || is_given_gpus(template)
}

/// Whether the pods get accelerators, or may, in another way than by the runtime of their containers.
pub(super) fn is_given_gpus(template: &Template<'_>) -> bool {
    let is_privileged =
        |container: Node<'_>| container.path(&["securityContext", "privileged"]).bool() == Some(true);
    template.all_containers().any(is_privileged) || is_allotted_gpus(template)
}

/// Whether something allots accelerators to the pods, or may: a resource, a claim, an annotation, a device of the node.
pub(super) fn is_allotted_gpus(template: &Template<'_>) -> bool {
    let spec = &template.spec;
    let device = |volume: Node<'_>| {
        volume.path(&["hostPath", "path"]).raw_text().is_some_and(|path| path.starts_with("/dev"))
    };
    let unknown = spec.has_unknown_key() || spec.get("containers").is_unknown();
    unknown
        || spec.get("resourceClaims").is_set()
        || template.metadata.get("annotations").has_unknown_key()
        || gpu_share(template).is_some()
        || spec.get("volumes").items().any(device)
        || template.all_containers().any(|container| {
            let resources = container.get("resources");
            let sides = ["limits", "requests"].map(|side| resources.get(side));
            let extended = sides.iter().flat_map(Node::entries).any(|(name, _)| name.contains('/'));
            extended
                || container.has_unknown_key()
                || resources.has_unknown()
                || resources.has_unknown_key()
                || sides.iter().any(|side| side.has_unknown_key())
        })
}

/// Whether the pods manage GPU nodes.
pub(super) fn is_helper(object: &Object, template: &Template<'_>) -> bool {
    let says = |text: &str| mentions(text, &HELPERS);
    says(object.name())
        || template
            .all_containers()
            .any(|c| ["name", "image"].iter().any(|field| c.get(field).raw_text().is_some_and(says)))
}
