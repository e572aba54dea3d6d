//! A run over several nodes uses less EFA than its nodes have, or none.
//!
//! # Why
//! An EFA interface is attached to a node only if a pod asks for `vpc.amazonaws.com/efa`, and only a
//! pod that asks for it can use it. Without it NCCL falls back to TCP, and the interconnect that the
//! large instance types are paid for stays unused. It is a warning where the environment shows that EFA is
//! meant (`FI_PROVIDER: efa`, an image with the libraries), also for a server over several nodes, where a pod
//! has all GPUs of its node and a part of its interfaces, and where `resourcesPerNode` of a TrainJob replaces
//! those of its runtime: Kubeflow Trainer merges both from 2.3 on, so that this is information where the input
//! shows no version. An amount of 0, `FI_PROVIDER: tcp` and `NCCL_NET: Socket` are a choice.
//!
//! # Fix
//! Request `vpc.amazonaws.com/efa` in the limits of the workers, as many as the instance type has, with
//! an image that has the EFA libraries.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: llm-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        nodeSelector:
//!          node.kubernetes.io/instance-type: p4d.24xlarge
//!          topology.kubernetes.io/zone: us-west-2a
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/llm:v3
//!            command: [torchrun, --nproc_per_node=8, --nnodes=2, train.py]
//!            env: [{name: SAVE_TO, value: "s3://runs/llm"}]
//!            resources:
//!              requests: {cpu: 90, memory: 1000Gi}
//! -            limits: # <-
//! +            limits:
//!                nvidia.com/gpu: 8
//! +              vpc.amazonaws.com/efa: 4
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html>
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>

use crate::cluster::runtimes::{
    OVERRIDES, TRAINER_KINDS, replaces_resources, runtime_of_train_job, trainer_of_runtime,
};
use crate::fit::label_of_other_nodes;
use crate::rules::gpu::selected_types;
use crate::rules::karpenter_in_use::{READS, is_surely_on_karpenter};
use crate::rules::prelude::*;
use crate::rules::training::{is_distributed, is_serving_group, trains};
use crate::workload::devices::Devices;
use crate::workload::gpu::EFA;

pub(crate) static RULE: Rule = Rule {
    id: "efa-not-requested",
    kinds: WORKLOAD_KINDS,
    reads: kinds![READS, RUNTIMES, TRAINER_KINDS],
    docs: docs(include_str!("efa_not_requested.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Minimum number of EFA interfaces of instance types that are made for runs over several nodes.
const MANY: u32 = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let serves = is_serving_group(object, ctx);
    let runs = serves || trains(object, ctx) && is_distributed(object);
    if !runs || object.is_partial() {
        return None;
    }
    let templates = templates(object);
    if templates.iter().any(declines_efa) || of_replaced(object, ctx).is_some() {
        return None;
    }
    let is_meant = templates.iter().any(shows_efa);
    // The launcher of a run needs none where its workers have it.
    let workers_ask = templates.iter().any(|template| pod_devices(template).contains_key(EFA));
    for template in templates.iter().filter(|t| requests_accelerator(t)) {
        let unknown = template.all_containers().any(|container| container.get("resources").has_unknown());
        let host = template.spec.get("hostNetwork").bool() == Some(true);
        // A claim may be for EFA.
        let claims = template.spec.get("resourceClaims").is_set();
        if unknown || host || claims || template.spec.has_unknown_key() || has_devices(template) {
            continue;
        }
        match pod_devices(template).remove(EFA) {
            Some(efa) => of_part(object, template, &efa, ctx),
            None if !workers_ask && (is_meant || !serves) => of_none(object, template, is_meant, ctx),
            None => None,
        };
    }
    None
}

/// Reports `resourcesPerNode` of a TrainJob without the interfaces of its runtime, all of whose resources it may replace.
fn of_replaced(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = object.path(&["spec", "trainer", "resourcesPerNode"]);
    // A number of 0 is a choice.
    let is_named = ["limits", "requests"].iter().any(|side| own.path(&[*side, EFA]).is_set());
    if !object.is(Kind::TRAIN_JOB) || !own.is_mapping() || own.has_unknown() || is_named {
        return None;
    }
    // Other nodes may have none.
    let mut changes = OVERRIDES.iter().flat_map(|list| object.path(&["spec", list]).items());
    let moves = |spec: &Node<'_>| ["nodeSelector", "affinity"].iter().any(|field| spec.get(field).is_set());
    let is_patched = object.path(&["spec", "runtimePatches"]).is_set();
    if is_patched || changes.any(|change| moves(&change) || moves(&change.get("spec"))) {
        return None;
    }
    let runtime = runtime_of_train_job(object, ctx.cluster())?;
    let efa = devices_of(&trainer_of_runtime(&runtime)?, EFA)?;
    let (name, count) = (object.display_name(), efa.count);
    let (severity, message) = match replaces_resources(object, ctx.cluster()) {
        Some(true) => (
            Severity::Warning,
            format!("`resourcesPerNode` of `{name}` replaces the runtime's {count} EFA interfaces with none"),
        ),
        Some(false) => return None,
        None => (
            Severity::Info,
            format!(
                "Trainer before 2.3 replaces the runtime's {count} EFA interfaces by `resourcesPerNode` of `{name}`, which has none"
            ),
        ),
    };
    ctx.report(&own, message).severity(severity).help(format!("repeat `{EFA}: {count}`")).related(
        &runtime,
        &efa.node,
        "what it replaces",
    );
    Some(())
}

/// Whether a variable says that EFA is used.
fn means_efa(name: &str, value: &str) -> bool {
    match name {
        "FI_PROVIDER" => value.contains("efa") && !value.starts_with('^'),
        "NCCL_NET" => value.eq_ignore_ascii_case("AWS Libfabric") || value.eq_ignore_ascii_case("ofi"),
        name => name.starts_with("FI_EFA_") || name.starts_with("OFI_NCCL_"),
    }
}

/// Whether a variable says that TCP is used.
fn means_tcp(name: &str, value: &str) -> bool {
    match name {
        "FI_PROVIDER" => value.starts_with("tcp") || value.starts_with("sockets"),
        "NCCL_NET" => value.eq_ignore_ascii_case("socket"),
        _ => false,
    }
}

/// Whether a variable of a container means something: in its environment, or in its command line, as in
/// `mpirun -x FI_PROVIDER=efa` and with `export` in a script.
fn has_variable(container: &Node<'_>, means: fn(&str, &str) -> bool) -> bool {
    let mut variables = container.get("env").items();
    variables.any(|entry| {
        let (name, value) = (entry.get("name"), entry.get("value"));
        name.text().is_some_and(|name| means(name, value.text().unwrap_or_default()))
    }) || words(container)
        .iter()
        .any(|word| word.text.split_once('=').is_some_and(|(name, value)| means(name, value)))
}

/// Whether the pods are to do without EFA: they ask for 0 interfaces, or name another transport.
fn declines_efa(template: &Template<'_>) -> bool {
    let is_zero = |amount: &Node<'_>| Quantity::at(amount).is_some_and(|amount| amount.is_zero());
    template.containers().any(|container| {
        has_variable(&container, means_tcp)
            || ["limits", "requests"].iter().any(|side| is_zero(&container.path(&["resources", side, EFA])))
    })
}

/// Whether the environment or the image of a template is made for EFA.
fn shows_efa(template: &Template<'_>) -> bool {
    // The folder of the devices alone gives a pod no right to use them.
    let mut volumes = template.spec.get("volumes").items();
    let is_mounted = volumes.any(|volume| {
        volume.path(&["hostPath", "path"]).text().is_some_and(|path| path.starts_with("/dev/infiniband"))
    });
    is_mounted
        || template.containers().any(|container| {
            let image = container.get("image").text().is_some_and(|image| {
                let name = ImageRef::parse(image).name;
                name.split(['/', '-', '_', '.']).any(|part| part == "efa") || image.contains("aws-ofi-nccl")
            });
            image || has_variable(&container, means_efa)
        })
}

/// Whether the pods reach the devices of the node without a request.
fn has_devices(template: &Template<'_>) -> bool {
    template
        .containers()
        .any(|container| container.path(&["securityContext", "privileged"]).bool() == Some(true))
}

/// Reports pods that ask for no interface.
fn of_none(object: &Object, template: &Template<'_>, is_meant: bool, ctx: &mut Context<'_>) -> Option<()> {
    let selected = selected_types(template, ctx);
    let efa = |types: &TypeSet| (types.iter().map(|t| t.efa).min(), types.iter().map(|t| t.efa).max());
    let (least, most) = selected.as_ref().map_or((None, None), |(types, _)| efa(types));
    let is_made_for_it = least.is_some_and(|least| least >= MANY);
    // Nodes without EFA, or with one interface that nothing names.
    if most == Some(0) || !is_meant && (!is_made_for_it || label_of_other_nodes(template).is_some()) {
        return None;
    }
    let limits = accelerator_limits(template)?;
    let name = object.display_name();
    let example = selected.as_ref().and_then(|(types, _)| types.iter().next());
    let message = match example {
        Some(example) if is_made_for_it && !is_serving_group(object, ctx) => {
            format!("`{name}` trains on several `{}` nodes without their EFA", example.name)
        }
        _ => format!("the environment of `{name}` is made for EFA, and its pods request none"),
    };
    // Without a known type, nothing tells how many interfaces the node has.
    let count = example.filter(|_| is_made_for_it).map(|example| format!(": {}", example.efa));
    let count = count.unwrap_or_default();
    let finding = ctx.report(&limits, message);
    finding
        .severity(if is_meant { Severity::Warning } else { Severity::Info })
        .help(format!("request `{EFA}{count}`, with an image that has the EFA libraries"));
    if let Some((_, Some(pool))) = selected.filter(|_| is_made_for_it) {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "takes the pods");
    }
    None
}

/// Reports pods that have all GPUs of a node and a part of its interfaces.
fn of_part(object: &Object, template: &Template<'_>, efa: &Devices<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (types, _) = selected_types(template, ctx)?;
    // Pools that admit a type that the pods name. Without one, the launch template of a node group may attach a part of them.
    let found = ctx.pools_for(template);
    let pools = found.as_ref().and_then(|found| found.all_known()).unwrap_or_default();
    if pools.is_empty() && !is_surely_on_karpenter(template, ctx) || label_of_other_nodes(template).is_some()
    {
        return None;
    }
    let first = types.iter().next()?;
    let gpus = pod_devices(template).get("nvidia.com/gpu").map(|devices| devices.count)?;
    let same = types.iter().all(|one| one.efa == first.efa && i64::from(one.nvidia_gpu) == gpus);
    let all = i64::from(first.efa);
    let has_own = pools.iter().any(|pool| has_own_interfaces(pool.object(), ctx))
        || ctx.cluster().of(Kind::DAEMON_SET).any(takes_interface);
    if !same || first.efa < MANY || efa.count >= all || has_own {
        return None;
    }
    let message = format!(
        "`{}` has all GPUs of a `{}` and {} of its {all} EFA interfaces",
        object.display_name(),
        first.name,
        efa.count
    );
    let finding = ctx.report(&efa.node, message);
    finding
        .severity(Severity::Warning)
        .help(format!("request `{EFA}: {all}`: no other pod can use the rest"));
    if let Some(pool) = pools.first().map(|pool| pool.object()) {
        finding.related(pool, &pool.path(&["metadata", "name"]), "takes the pods");
    }
    None
}

/// Whether each pod of a DaemonSet takes one of the interfaces.
fn takes_interface(daemonset: &Object) -> bool {
    templates(daemonset).iter().any(|template| pod_devices(template).contains_key(EFA))
}

/// Whether the class of a pool chooses the interfaces of its nodes, or may.
fn has_own_interfaces(pool: &Object, ctx: &Context<'_>) -> bool {
    let Some(pool) = NodePool::new(pool) else { return false };
    let reference = pool.template_spec().path(&["nodeClassRef", "name"]);
    let class = reference.text().and_then(|name| ctx.partner(Kind::EC2_NODE_CLASS, "default", name));
    class.is_some_and(|class| class.path(&["spec", "networkInterfaces"]).is_set())
}

/// The limits of the container with the accelerator.
fn accelerator_limits<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let (_, accelerator) = pod_devices(template).into_iter().find(|(name, _)| is_accelerator(name))?;
    let container = template.containers().find(|c| {
        let limits = c.path(&["resources", "limits"]);
        limits.is_set() && limits.entries().iter().any(|(_, n)| n.pointer() == accelerator.node.pointer())
    })?;
    Some(container.path(&["resources", "limits"]))
}
