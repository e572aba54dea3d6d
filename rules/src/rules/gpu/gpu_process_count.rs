//! A program uses a different number of GPUs than its container requests.
//!
//! # Why
//! A server with `--tensor-parallel-size 4` on one GPU ends at once; eight processes of torchrun on four
//! GPUs fail at the first collective operation. With fewer than the container requests, the other GPUs are
//! paid for and never used: vLLM without the option uses one. More than there are is an error, fewer a
//! warning, of one rank of `mpirun` information. The number is that of the command line, or of the field
//! with which an operator starts the processes: `nprocPerNode` of a PyTorchJob, `slotsPerWorker` of an
//! MPIJob, `numProcPerNode` of a TrainJob, `parallelism` of an LLMInferenceService, `num-gpus` of a
//! RayCluster; for a LeaderWorkerSet the GPUs of a group count. MIG devices do not add up to a larger GPU:
//! a process of CUDA sees one of them, NCCL connects those of one GPU from version 2.32 on, and only
//! through the memory of the host. Devices that each fill a GPU, such as `7g.80gb`, are left alone. A
//! server that runs as one process leaves the others unused; so does one process of Python with a
//! `LOCAL_RANK` that is written by hand and a `WORLD_SIZE` below the number of GPUs. Where an operator
//! gives each pod a rank, as for a PyTorchJob, one process of Python for several GPUs is a warning if its
//! options are those of a distributed run, otherwise information: a script may use all of them by itself.
//! More ranks of Open MPI than the workers have slots fail on any hardware. On Neuron devices vLLM takes a
//! NeuronCore for each rank.
//!
//! # Fix
//! Write the same number in both. Settings that a variable, a configuration file or an operator may
//! change are left alone.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command:
//!              - torchrun
//! -            - --nproc_per_node=8 # <-
//! +            - --nproc_per_node=4
//!              - train.py
//!              - --save-to=s3://runs/bert
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//!              limits: {nvidia.com/gpu: 4}
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html>
//! - <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! - <https://docs.nvidia.com/datacenter/tesla/mig-user-guide/>
//! - <https://github.com/NVIDIA/nccl/issues/1716>

use crate::catalog;
use crate::cluster::runtimes::runtime_of_train_job;
use crate::rules::gpu::gpu_templates;
use crate::rules::prelude::*;
use crate::workload::command::base_name;
use crate::workload::devices::{extended_resources_of, pods_of, pods_with_accelerators};
use crate::workload::environment::{may_define, variable};
use crate::workload::mig::{fills_gpu, is_mig_resource};
use crate::workload::mpi::ranks_above_slots;
use crate::workload::processes::{MPIRUN, Processes, is_group, processes_of, processes_of_train_job};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-process-count",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NAMESPACE], RUNTIMES],
    docs: docs(include_str!("gpu_process_count.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A patch may change the GPUs and the processes together.
    if object.is_patched_by_kustomize() {
        return None;
    }
    let mut found: Vec<Processes<'_>> = Vec::new();
    for template in gpu_templates(object, ctx) {
        for container in template.containers() {
            found.extend(processes_of(object, &template, &container));
            one_process(object, &template, &container, ctx);
            one_process_of_operator(object, &container, ctx);
            inspect_mig(object, &template, &container, ctx);
            inspect_neuron(object, &template, &container, ctx);
        }
    }
    if object.is(Kind::MPI_JOB) && !object.is_owned() && !object.is_partial() {
        found.extend(ranks_above_slots(object));
    }
    if object.is(Kind::TRAIN_JOB) {
        let is_mpi = |runtime: &Object| runtime.path(&["spec", "mlPolicy", "mpi"]).is_set();
        let runtime = runtime_of_train_job(object, ctx.cluster()).filter(is_mpi);
        if runtime.is_some() || templates(object).is_empty() {
            found.extend(processes_of_train_job(object, runtime.as_ref()));
        }
    }
    // A field of the object may state the number for the pods of several templates.
    while !found.is_empty() {
        let first = found.remove(0);
        let (same, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|other| is_same(&first, other));
        report(object, &first, &same, ctx);
        found = others;
    }
    None
}

/// Programs and modules that start a process for each GPU themselves.
const STARTS_PROCESSES: [&str; 16] = [
    "torchrun",
    "torch.distributed",
    "accelerate",
    "deepspeed",
    "mpirun",
    "horovodrun",
    "ray",
    "multiprocessing",
    "multiprocess",
    "spawn",
    "parallel",
    "colossalai",
    "srun",
    "LOCAL_RANK=",
    "nproc",
    "gpus",
];

/// Reports a process whose variables make it the only one of its pod, so that it uses one of several GPUs: a launcher
/// gives each its own `LOCAL_RANK`, and `WORLD_SIZE` counts all of them.
fn one_process(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let has = gpus_of(container).filter(|has| has.count > 1)?;
    let number = |name: &str| {
        let (text, value) = variable(container, name).flatten()?;
        Some((text.parse::<i64>().ok()?, value))
    };
    let (rank, value) = number("LOCAL_RANK")?;
    let (world, _) = number("WORLD_SIZE").filter(|(world, _)| *world > 1)?;
    let line = command_line(container);
    let is_python = words(container).iter().any(|word| base_name(&word.text).starts_with("python"));
    let all = pods_of(object, template)?.checked_mul(has.count)?;
    // Operators set the variables of their pods.
    if !matches!(object.group(), "batch" | "apps" | "" | "jobset.x-k8s.io")
        || !is_python
        || world >= all
        || STARTS_PROCESSES.iter().any(|sign| line.contains(sign))
    {
        return None;
    }
    let message = format!(
        "one process with `LOCAL_RANK: {rank}` in each pod of `{}` uses one of the {} GPUs",
        object.display_name(),
        has.count
    );
    ctx.report(&value, message)
        .severity(Severity::Warning)
        .help(format!("start {0} with `torchrun --nproc-per-node={0}`, or request one GPU", has.count))
        .related(object, &has.node, "the GPUs of the container");
    None
}

/// Words of a command line that show that a script is a rank of a distributed run.
const DISTRIBUTED: [&str; 5] = ["nccl", "ddp", "fsdp", "distributed", "dist-backend"];

/// Reports one process of Python for several GPUs where an operator counts the pods: it gives each the rank of its pod, so that a script
/// which reads the rank is a single one of `WORLD_SIZE` (`envvar.go` of the Training Operator 1.9, `plugins/distributed-framework/pytorch` of
/// Volcano 1.13).
fn one_process_of_operator(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let has = gpus_of(container).filter(|has| has.count > 1)?;
    let spec = object.get("spec");
    let counts_pods = if object.is(Kind::PYTORCH_JOB) {
        !spec.get("nprocPerNode").is_set() && !spec.get("elasticPolicy").is_set()
    } else {
        object.is(Kind::VOLCANO_JOB) && spec.path(&["plugins", "pytorch"]).is_set()
    };
    let words = words(container);
    let (first, script) = (words.first()?, words.iter().find(|word| word.text.ends_with(".py"))?);
    let is_python = |name: &str| name.starts_with("python") && !name.contains('.');
    let line = command_line(container);
    let variables = ["WORLD_SIZE", "LOCAL_RANK", "PET_NPROC_PER_NODE", "CUDA_VISIBLE_DEVICES"];
    let is_set = |name: &str| variables.contains(&name) || name.contains("NPROC") || name.contains("GPU");
    if !counts_pods
        || container.has_unknown_key()
        || !is_python(base_name(&first.text))
        || words.iter().any(|word| !word.known)
        || pods_with_accelerators(object)? < 2
        || STARTS_PROCESSES.iter().any(|sign| line.contains(sign))
        || may_define(container, is_set)
    {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let is_distributed = DISTRIBUTED.iter().any(|word| lower.contains(word));
    let message = format!(
        "`{}` is one process with the rank of its pod: it uses one of the {} GPUs",
        ellipsize(base_name(&script.text)),
        has.count
    );
    ctx.report(&script.node, message)
        .severity(if is_distributed { Severity::Warning } else { Severity::Info })
        .help(format!("start {0} with `torchrun` and `nprocPerNode: \"{0}\"`, or request one GPU", has.count))
        .related(object, &has.node, "the GPUs of the container");
    None
}

/// Whether both are wrong in the same way at the same field.
fn is_same(one: &Processes<'_>, other: &Processes<'_>) -> bool {
    let at = |processes: &Processes<'_>| processes.node.as_ref().map(Node::pointer);
    at(one).is_some() && at(one) == at(other) && one.used == other.used && one.has.count == other.has.count
}

fn report(
    object: &Object,
    processes: &Processes<'_>,
    same: &[Processes<'_>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (used, has, program) = (processes.used, processes.has.count, processes.program);
    let name = object.display_name();
    let of_slots = processes.holder.starts_with("slots");
    if used > has {
        let node = processes.node.clone()?;
        let gpus = if has == 1 { "GPU" } else { "GPUs" };
        let message = match (of_slots, processes.is_strict) {
            (true, _) => {
                format!("{program} in `{name}` starts {used} processes, and its workers have {has} slots")
            }
            (_, true) => {
                format!("{program} in `{name}` needs {used} GPUs, and {} has {has} {gpus}", processes.holder)
            }
            (_, false) => format!(
                "{program} in `{name}` counts on {used} GPUs, and {} has {has} {gpus}",
                processes.holder
            ),
        };
        let finding = ctx.report(&node, message);
        if of_slots {
            finding.help(format!("start {has}, or raise `slotsPerWorker` or the number of workers"));
        } else {
            finding.help(format!("request {used} GPUs, or use {has}"));
        }
        if !processes.is_strict {
            finding.severity(Severity::Warning);
        }
        let what = if of_slots { "the slots of a worker" } else { "the GPUs of the container" };
        finding.related(object, &processes.has.node, what);
        // Templates that are one by an alias have one place in the file.
        let first = &processes.has.node;
        let is_elsewhere = |node: &Node<'_>| {
            node.pointer() != first.pointer() && (node.span().is_none() || node.span() != first.span())
        };
        for other in same.iter().filter(|other| is_elsewhere(&other.has.node)) {
            finding.related(object, &other.has.node, what);
        }
    } else if used < has && processes.idles {
        let option = processes.node.clone().unwrap_or_else(|| processes.has.node.clone());
        let gpus = if used == 1 { "GPU" } else { "GPUs" };
        let may_use_all = used == 1 && program == MPIRUN;
        ctx.report(
            &option,
            format!("{program} in `{name}` uses {used} {gpus} of the {has} that {} has", processes.holder),
        )
        .severity(if may_use_all { Severity::Info } else { Severity::Warning })
        .help(format!("use {has}, or request {used}: the others stay idle"));
    }
    None
}

/// Reports a server that distributes its model over the MIG devices of its container, or leaves some of them unused.
fn inspect_mig(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let resources = extended_resources_of(container);
    let names = resources.into_iter().filter(|name| is_mig_resource(name));
    let mig: Vec<_> = names.filter_map(|name| Some((name, devices_of(container, name)?))).collect();
    let (resource, devices) = mig.first()?;
    let launch = Launch::of(container)?;
    let used = launch.gpus_of_model(container)?;
    if gpus_of(container).is_some() || is_group(object, template, &launch) {
        return None;
    }
    if used < 2 {
        let all: i64 = mig.iter().map(|(_, devices)| devices.count).sum();
        let is_stated = launch.gpus().is_some_and(|(_, node)| node.is_some());
        let is_known =
            is_stated || launch.is_plain_vllm(container) || launch.program.is(ServerId::HuggingFace);
        let is_certain = !launch.may_have_more_options() && is_known;
        if all < 2 || launch.is_data_parallel() || !is_certain {
            return None;
        }
        let (program, name) = (launch.program.name(), object.display_name());
        let message =
            format!("{program} in `{name}` uses one of its {all} MIG devices: a process of CUDA opens one");
        ctx.report(&devices.node, message)
            .severity(Severity::Warning)
            .help("request one device, of the size that the model needs");
        return None;
    }
    // Each rank has a GPU of its own where a device fills one.
    if used <= devices.count && fills_gpu(resource) {
        return None;
    }
    let (_, node) = launch.gpus()?;
    let (program, name, count) = (launch.program.name(), object.display_name(), devices.count);
    let has = if count == 1 { "1 MIG device".to_owned() } else { format!("{count} MIG devices") };
    let message =
        format!("{program} in `{name}` distributes its model over {used} GPUs, and its container has {has}");
    let finding = ctx.report(&node?, message);
    finding.help(format!("request `nvidia.com/gpu: {used}`, or a model that one MIG device holds"));
    if used <= count {
        finding.severity(Severity::Warning);
    }
    finding.related(object, &devices.node, "the MIG devices of the container");
    None
}

/// Reports a server that distributes its model over more NeuronCores than its container has: it takes one for each rank.
fn inspect_neuron(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let launch = Launch::of(container).filter(|launch| launch.program.is(ServerId::Vllm))?;
    let (cores, node) = neuron_cores(template, container)?;
    let used = launch.gpus_of_model(container)?;
    if used <= cores || is_group(object, template, &launch) {
        return None;
    }
    let (_, option) = launch.gpus()?;
    let message = format!(
        "vLLM in `{}` needs {used} NeuronCores, and its container has at most {cores}",
        object.display_name()
    );
    ctx.report(&option?, message)
        .help(format!("distribute it over {cores}, or request more devices"))
        .related(object, &node, "the NeuronCores of the container");
    None
}

/// The most NeuronCores that a container may have, and the resource that gives them. A device has as many as that of the
/// selected type or family, or of any (`catalog`).
fn neuron_cores<'a>(template: &Template<'a>, container: &Node<'a>) -> Option<(i64, Node<'a>)> {
    if let Some(cores) = devices_of(container, "aws.amazon.com/neuroncore") {
        return Some((cores.count, cores.node));
    }
    let devices = devices_of(container, "aws.amazon.com/neuron")?;
    let selected = |label: &str| template.spec.get("nodeSelector").get(label).text();
    let name = selected("node.kubernetes.io/instance-type");
    let family = selected("karpenter.k8s.aws/instance-family");
    let may_be = |one: &&InstanceType| {
        one.neuron > 0
            && name.is_none_or(|name| one.name == name)
            && family.is_none_or(|family| one.family() == family)
    };
    let of_device = |one: &InstanceType| i64::from(one.neuroncore / one.neuron);
    let most = catalog::all().iter().filter(may_be).map(of_device).max()?;
    Some((devices.count.checked_mul(most)?, devices.node))
}
