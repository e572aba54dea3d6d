//! A DaemonSet that nodes need cannot run on the nodes of a pool.
//!
//! # Why
//! A DaemonSet that does not tolerate a taint of a pool, or selects a label that its nodes do not have,
//! does not run there. Accelerators need a whole chain: a labeller (NFD, GPU feature discovery) writes a
//! label, the device plugin of NVIDIA, Neuron, AMD, Gaudi or EFA that selects it registers the devices, and
//! only then the pods that request them fit. It is a warning for the device plugin, and for a labeller
//! whose label a plugin selects, because the pod that started such a node stays Pending; it is information
//! for agents, without which nodes have no logs or metrics, also of pools without accelerators whose taint
//! pods of the input tolerate by its key. Of such pods the drivers of EBS, EFS, FSx and S3 concern those
//! with a volume: where they fit only such pools, they stay in ContainerCreating, and that is a warning
//! too. The values of NVIDIA's charts, of NFD's and of these drivers' in a HelmRelease or an Application
//! are read for the tolerations of their DaemonSets. `daemonsets.tolerations` of the GPU Operator is not
//! for the worker of NFD, without whose labels the operator starts nothing on a node. From 0.15 on the
//! chart of NVIDIA's plugin needs such a label as well, and brings NFD only with `gfd.enabled`: where
//! nothing writes one, no node of the pools has a GPU. NFD by itself writes labels with the class of a
//! device beside its vendor, which the chart does not select, unless its values say `deviceLabelFields:
//! [vendor]`. That is known with `--complete` alone.
//!
//! # Fix
//! Let the DaemonSets tolerate all taints of the pools, and select labels that the pools have.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: fluent-bit, namespace: logging}
//!  spec:
//!    selector: {matchLabels: {app: fluent-bit}}
//!    template:
//!      metadata: {labels: {app: fluent-bit}}
//!      spec: # <-
//! +      tolerations:
//! +        - key: nvidia.com/gpu
//! +          operator: Exists
//!        containers:
//!          - name: fluent-bit
//!            image: cr.fluentbit.io/fluent/fluent-bit:4.0.3
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-k8s-device-plugin.html>
//! - <https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/848>

use crate::catalog::Accelerator;
use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::storage::{EBS_DRIVER, EFS_DRIVER, FSX_DRIVER, S3_DRIVER};
use crate::karpenter::scheduling::Taint;
use crate::rules::prelude::*;
use crate::rules::scheduling::access_modes::drivers;
use crate::rules::scheduling::helper_charts;
use crate::rules::scheduling::node_helpers::{
    Helper, INSTALLING_KINDS, Obstacle, Role, has_devices, helpers, may_install, pool_noun, reaches,
};
use crate::workload::gpu::EFA;
use crate::workload::node_labels::is_off_karpenter;
use crate::workload::template::REQUIRED_AFFINITY;

/// The pools with their classes, other DaemonSets, what installs the same programs, and workloads that request EFA.
const READS: &[Kind] = kinds![
    [
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::CLUSTER_POLICY,
        Kind::PERSISTENT_VOLUME_CLAIM,
        Kind::PERSISTENT_VOLUME,
        Kind::STORAGE_CLASS
    ],
    INSTALLING_KINDS,
    POD_POLICIES,
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "gpu-helper-missing",
    kinds: &[Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_helper_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// Maximum number of NodePools, and of DaemonSets, that a DaemonSet is compared with.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Tolerations are what kustomizations patch most.
    if object.may_lack_fields() {
        return None;
    }
    if !object.is(Kind::DAEMON_SET) {
        helper_charts::check(object, ctx);
        return None;
    }
    let template = templates(object).into_iter().next()?;
    let helper = helpers(&template).next()?;
    // No cluster has as many DaemonSets: these are the manifests of several clusters.
    let too_many = ctx.cluster().of(Kind::DAEMON_SET).nth(MAX_COMPARED).is_some();
    if !is_meant_for_all(&template, helper) || too_many {
        return None;
    }
    let stuck = stuck_pool(&template, helper, ctx);
    let mounts = stuck.is_some();
    let (pool, obstacle) = stuck.or_else(|| unreached_pool(&template, helper, ctx))?;
    // Another DaemonSet of the program may run on the nodes of the pool, and the GPU Operator runs all of NVIDIA's.
    if runs_elsewhere(object, helper, &pool, ctx) || is_installed_otherwise(helper, ctx) {
        return None;
    }
    let needed = mounts || is_meant_for(&template, &pool) || is_needed(helper, ctx);
    let severity = if needed { Severity::Warning } else { Severity::Info };
    report(object, &template, helper, &pool, &obstacle, ctx).severity(severity);
    None
}

/// Whether a DaemonSet selects the nodes of a pool by a label that the pool writes.
fn is_meant_for(template: &Template<'_>, pool: &NodePool<'_>) -> bool {
    let labels = pool.labels();
    let selector = template.spec.get("nodeSelector").entries();
    selector.iter().any(|(key, value)| value.text().is_some() && labels.get(key).text() == value.text())
}

/// A device plugin without which requested devices are missing, and a labeller whose label such a plugin selects, keep pods Pending.
fn is_needed(helper: Helper, ctx: &Context<'_>) -> bool {
    match helper.role {
        Role::DevicePlugin if helper.device == Some(EFA) => {
            !ctx.cluster().views().requesting_efa().is_empty()
        }
        Role::DevicePlugin => true,
        Role::Labeller(prefixes) => is_label_selected(prefixes, ctx),
        // A node without a network is never ready.
        Role::Agent => matches!(helper.image, "amazon-k8s-cni" | "kube-proxy"),
    }
}

/// The images of drivers of volumes, with the names of the drivers.
const DRIVERS: [(&str, &str); 5] = [
    ("aws-ebs-csi-driver", EBS_DRIVER),
    ("aws-efs-csi-driver", EFS_DRIVER),
    ("aws-fsx-csi-driver", FSX_DRIVER),
    ("aws-mountpoint-s3-csi-driver", S3_DRIVER),
    ("aws-s3-csi-driver", S3_DRIVER),
];

/// The name of the driver that a program is.
fn driver_of(helper: Helper) -> Option<&'static str> {
    DRIVERS.into_iter().find(|(image, _)| *image == helper.image).map(|(_, driver)| driver)
}

/// The first pool of pods that fit only NodePools which the DaemonSet of a driver does not reach.
fn stuck_pool<'i>(
    template: &Template<'i>,
    helper: Helper,
    ctx: &Context<'i>,
) -> Option<(NodePool<'i>, Obstacle<'i>)> {
    let is_unreached = |pool: &NodePool<'_>| known_obstacle(template, helper, pool, ctx).is_some();
    let pool = NodePool::new(pool_of_mounts(helper, &is_unreached, ctx)?)?;
    let obstacle = known_obstacle(template, helper, &pool, ctx)?;
    Some((pool, obstacle))
}

/// The first pool of pods that mount a volume of a driver and fit only NodePools which its DaemonSet does not reach: they stay in
/// ContainerCreating.
pub(super) fn pool_of_mounts<'i>(
    helper: Helper,
    is_unreached: &dyn Fn(&NodePool<'_>) -> bool,
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let driver = driver_of(helper)?;
    let is_stuck =
        |pool: &Object| NodePool::new(pool).is_some_and(|pool| !pool.is_auto_mode() && is_unreached(&pool));
    let pool_of = |pods: &Template<'i>| {
        let counts = drivers(pods, ctx).contains(&driver) && is_for_karpenter(pods);
        let found = counts.then(|| ctx.pools_for(pods))??;
        let pools = found.all_known()?;
        let first = pools.first().filter(|_| pools.iter().all(|pool| is_stuck(pool.object())))?;
        ctx.cluster().unique(Kind::NODE_POOL, "default", first.object().name())
    };
    let mut all = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    if !ctx.cluster().of(Kind::NODE_POOL).any(is_stuck) {
        return None;
    }
    all.find_map(|workload| {
        let counts = !workload.is(Kind::DAEMON_SET) && ctx.pairs_with(workload);
        templates(workload).iter().filter(|_| counts).find_map(&pool_of)
    })
}

/// Whether pods ask for an accelerator, or for a label that is one's own or Karpenter's: others may run on nodes of a node group.
fn is_for_karpenter(pods: &Template<'_>) -> bool {
    let labels = referenced_labels(pods);
    let mut required = labels.iter().filter(|label| label.usage == LabelUse::Required);
    requests_accelerator(pods) || required.any(|label| !label.key.contains("kubernetes.io/"))
}

/// Whether pods tolerate a taint of a pool by its key.
fn is_tenant(pods: &Template<'_>, pool: &Object) -> bool {
    let Some(pool) = NodePool::new(pool) else { return false };
    let taints = pool.template_spec().get("taints");
    let has = |key: &str| taints.items().any(|taint| taint.get("key").text() == Some(key));
    pods.spec.get("tolerations").items().any(|one| one.get("key").text().is_some_and(has))
}

/// Whether some pods of the input are for a pool, as they tolerate one of its taints by its key, and need a program: the driver of
/// a volume that they mount, or one for all nodes. They may run on nodes of others as well.
fn has_tenants(pool: &Object, helper: Helper, ctx: &Context<'_>) -> bool {
    let driver = driver_of(helper);
    let mounts = |pods: &Template<'_>| driver.is_none_or(|driver| drivers(pods, ctx).contains(&driver));
    let mut all = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    all.any(|workload| {
        !workload.is(Kind::DAEMON_SET)
            && ctx.pairs_with(workload)
            && templates(workload).iter().any(|pods| is_tenant(pods, pool) && mounts(pods))
    })
}

/// The first pool that the DaemonSet of a program does not reach, with pods that tolerate its taint.
pub(super) fn pool_of_tenants<'i>(
    helper: Helper,
    is_unreached: &dyn Fn(&NodePool<'_>) -> bool,
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let mut pools = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED);
    pools.find(|object| {
        NodePool::new(object).is_some_and(|pool| !pool.is_auto_mode() && is_unreached(&pool))
            && ctx.pairs_with(object)
            && !object.may_lack_fields()
            && has_tenants(object, helper, ctx)
    })
}

/// Whether a device plugin of the input selects a label with one of the prefixes.
fn is_label_selected(prefixes: &[&str], ctx: &Context<'_>) -> bool {
    let mut sets = ctx.cluster().of(Kind::DAEMON_SET).take(MAX_COMPARED);
    sets.any(|other| {
        templates(other).iter().any(|template| {
            let is_plugin = helpers(template).any(|helper| helper.role == Role::DevicePlugin);
            let labels = referenced_labels(template);
            is_plugin
                && labels.iter().any(|label| prefixes.iter().any(|prefix| label.key.starts_with(prefix)))
        })
    })
}

/// Whether a DaemonSet is meant for all nodes that its program concerns, as far as its node selector and affinity show. The
/// selectors of programs for a device say which nodes have the device, those of others which nodes are left out.
fn is_meant_for_all(template: &Template<'_>, helper: Helper) -> bool {
    let spec = &template.spec;
    if is_off_karpenter(template) || spec.is_unknown() || spec.has_unknown_key() {
        return false;
    }
    let affinity = spec.path(&["affinity", "nodeAffinity", REQUIRED_AFFINITY]);
    let harmless = ["kubernetes.io/os", "kubernetes.io/arch"];
    helper.device.is_some()
        || (!affinity.is_set()
            && spec.get("nodeSelector").entries().iter().all(|(key, _)| harmless.contains(key)))
}

/// The first pool whose nodes need a program and that its DaemonSet does not reach.
fn unreached_pool<'i>(
    template: &Template<'i>,
    helper: Helper,
    ctx: &Context<'i>,
) -> Option<(NodePool<'i>, Obstacle<'i>)> {
    ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).find_map(|object| {
        let pool = NodePool::new(object)?;
        if pool.is_auto_mode() || !ctx.pairs_with(object) || object.may_lack_fields() {
            return None;
        }
        if concerns(helper, &pool) {
            let obstacle = known_obstacle(template, helper, &pool, ctx)?;
            return Some((pool, obstacle));
        }
        if helper.device.is_some() || helper.role != Role::Agent {
            return None;
        }
        let obstacle = known_obstacle(template, helper, &pool, ctx)?;
        let is_tainted = matches!(obstacle, Obstacle::Taints(..));
        (is_tainted && has_tenants(object, helper, ctx)).then_some((pool, obstacle))
    })
}

/// What certainly keeps the pods of a DaemonSet off the nodes of a pool that lack its program.
fn known_obstacle<'a>(
    template: &Template<'a>,
    helper: Helper,
    pool: &NodePool<'a>,
    ctx: &Context<'_>,
) -> Option<Obstacle<'a>> {
    let obstacle = reaches(template, pool).err()?;
    let is_known = match &obstacle {
        Obstacle::Taints(..) => {
            let namespace = ctx.object().namespace_or_default();
            !may_change_pods(ctx.cluster(), namespace, PodPart::Tolerations)
        }
        // User data may set labels of the node.
        Obstacle::Label(lacking) => {
            lacking.key != "kubernetes.io/arch" && !user_data_has(pool, lacking.key, ctx)
        }
        Obstacle::LateLabel(_, key) => helper.role == Role::DevicePlugin && !is_written(key, ctx),
    };
    (is_known && !brings(helper, pool, ctx)).then_some(obstacle)
}

/// Whether the nodes of a pool need a program: those with its device, or with any accelerator.
fn concerns(helper: Helper, pool: &NodePool<'_>) -> bool {
    match helper.device {
        Some(device) => has_devices(pool, device),
        None => pool.hardware() == Hardware::Accelerated,
    }
}

/// The EC2NodeClass of a pool, if the input has exactly one of its name.
pub(in crate::rules) fn class_of<'i>(pool: &NodePool<'_>, ctx: &Context<'i>) -> Option<Ec2NodeClass<'i>> {
    let name = pool.template_spec().path(&["nodeClassRef", "name"]).text()?;
    Ec2NodeClass::new(ctx.cluster().unique(Kind::EC2_NODE_CLASS, "default", name)?)
}

/// Whether the image of a pool has the program: Bottlerocket's has NVIDIA's plugin.
pub(super) fn brings(helper: Helper, pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    use crate::karpenter::scheduling::AmiFamily;
    helper.role == Role::DevicePlugin
        && helper.device == Some("nvidia.com/gpu")
        && class_of(pool, ctx).and_then(|class| class.family()) == Some(AmiFamily::Bottlerocket)
}

pub(in crate::rules) fn user_data_has(pool: &NodePool<'_>, key: &str, ctx: &Context<'_>) -> bool {
    class_of(pool, ctx).is_some_and(|class| {
        class.get("userData").is_unknown() || class.user_data().is_some_and(|text| text.contains(key))
    })
}

/// Whether something may write a label of a labeller: known only of a whole cluster.
fn is_written(key: &str, ctx: &Context<'_>) -> bool {
    let writes = |other: &Object| {
        templates(other).iter().any(|template| {
            helpers(template).any(|helper| match helper.role {
                Role::Labeller(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
                Role::DevicePlugin | Role::Agent => false,
            })
        })
    };
    !ctx.cluster().is_complete()
        || ctx.cluster().of(Kind::DAEMON_SET).any(writes)
        || may_install(&["feature-discovery", "nfd", "gpu", "nvidia", "amd", "rocm", "habana"], ctx)
}

/// Whether another DaemonSet of the program runs, or may run, on the nodes of a pool.
fn runs_elsewhere(object: &Object, helper: Helper, pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    let is_other = |other: &&Object| (other.namespace(), other.name()) != (object.namespace(), object.name());
    ctx.cluster().of(Kind::DAEMON_SET).filter(is_other).take(MAX_COMPARED).any(|other| {
        templates(other).iter().any(|template| {
            helpers(template).any(|one| one == helper)
                && (other.is_patched_by_kustomize() || reaches(template, pool).is_ok())
        })
    })
}

/// Whether an operator or a chart of the input runs NVIDIA's programs, or the program by its name.
fn is_installed_otherwise(helper: Helper, ctx: &Context<'_>) -> bool {
    let words: &[&str] = match helper.device {
        Some("nvidia.com/gpu") => &["gpu-operator", "nvidia-device-plugin"],
        Some("amd.com/gpu") => &["amd-gpu", "rocm"],
        Some("aws.amazon.com/neuron") => &["neuron"],
        Some("habana.ai/gaudi") => &["habana", "gaudi"],
        // Not what is called `default`.
        Some(_) => &["efa-"],
        None => return false,
    };
    let operator = || ctx.cluster().has_any(Kind::CLUSTER_POLICY);
    (helper.device == Some("nvidia.com/gpu") && operator()) || may_install(words, ctx)
}

fn report<'c>(
    object: &Object,
    template: &Template<'_>,
    helper: Helper,
    pool: &NodePool<'_>,
    obstacle: &Obstacle<'_>,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let (name, pool_name) = (object.display_name(), pool.object().display_name());
    let device =
        helper.device.or_else(|| Accelerator::RESOURCES.into_iter().find(|device| has_devices(pool, device)));
    let noun = match device {
        None if pool.hardware() != Hardware::Accelerated => "pool",
        device => device.map_or_else(|| pool.noun(), pool_noun),
    };
    let lacking = helper.lacking;
    let rest = format!("nodes of {noun} `{pool_name}` have {lacking}");
    match obstacle {
        Obstacle::Taints(place, taints) => {
            let list = template.spec.get("tolerations");
            let first = &taints[0];
            let same_key = |item: Node<'_>| item.get("key").text() == Some(first.key.as_str());
            let with_value = list.items().any(same_key);
            let what = match first.value.as_str() {
                value if with_value && !value.is_empty() => format!("{}={value}", first.key),
                _ => first.key.clone(),
            };
            let finding = ctx.report(&list, format!("`{name}` does not tolerate `{what}`: {rest}"));
            finding
                .help(tolerate(taints))
                .related(pool.object(), place, "this taint keeps its pods off the nodes")
                .fix(fix(&list, taints))
        }
        Obstacle::Label(label) => {
            let nodes = format!("nodes of {noun} `{pool_name}`");
            ctx.report(&label.place, label.message(&name, &nodes, lacking)).help(label.help()).related(
                pool.object(),
                &pool.labels(),
                "the labels of the pool's nodes",
            )
        }
        Obstacle::LateLabel(place, key) => {
            let message = format!(
                "nothing here writes `{key}`, which `{name}` selects: {lacking} on {noun} `{pool_name}`"
            );
            ctx.report(place, message)
                .help("install node feature discovery, or add the label to the pool's template")
                .related(pool.object(), &pool.labels(), "the labels of the pool's nodes")
        }
    }
}

fn fix(list: &Node<'_>, taints: &[Taint]) -> Fix {
    let fix = Fix::new(title(taints), Safety::Unsafe);
    let toleration = |taint: &Taint| json!({"key": taint.key, "operator": "Exists"});
    if !list.is_set() {
        return fix.set(list, taints.iter().map(toleration).collect());
    }
    taints.iter().fold(fix, |fix, taint| fix.append(list, toleration(taint)))
}

pub(super) fn tolerate(taints: &[Taint]) -> String {
    match taints {
        [one] => format!("tolerate `{}` with `operator: Exists`", one.key),
        [one, two] => format!("tolerate `{}` and `{}` with `operator: Exists`", one.key, two.key),
        several => format!("tolerate the {} taints of the pool with `operator: Exists`", several.len()),
    }
}

fn title(taints: &[Taint]) -> String {
    match taints {
        [one] => format!("tolerate the taint `{}`", one.key),
        several => format!("tolerate the {} taints", several.len()),
    }
}
