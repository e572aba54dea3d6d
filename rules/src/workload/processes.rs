//! How many processes with a GPU each start in a pod, or how many GPUs a program uses there, against the GPUs that the
//! pod has: by the command line of the container, and by the field of the operator that starts the processes.
//!
//! Rules ask [`processes_of`], whatever the kind of the workload is. Sources, read in November 2026: Kubeflow's
//! `PyTorchJob.spec.nprocPerNode` (the operator sets `PET_NPROC_PER_NODE`), the MPI Operator's `slotsPerWorker`, KServe's
//! `LLMInferenceService.spec.parallelism`, KubeRay's `rayStartParams`.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::command::{
    OptionValue, Word, base_name, command_and_args, may_have_more_options, words,
};
use crate::workload::devices::{Devices, gpus_in, gpus_of, pods_of};
use crate::workload::environment::{entry, variable};
use crate::workload::launcher::{Launch, Program, names_ray};
use crate::workload::mpi;
use crate::workload::template::{Template, replicas, templates};

/// The GPUs that a program uses, and those that it has.
pub(crate) struct Processes<'a> {
    /// The name of the program in messages.
    pub(crate) program: &'static str,
    pub(crate) used: i64,
    /// The field or argument that states the number; `None` if it is the default.
    pub(crate) node: Option<Node<'a>>,
    pub(crate) has: Devices<'a>,
    /// Who has them: "its container", "a group of its pods".
    pub(crate) holder: &'static str,
    /// Whether the program ends if it has fewer, and does not share them.
    pub(crate) is_strict: bool,
    /// Whether the others certainly stay idle if it has more.
    pub(crate) idles: bool,
}

/// The program of the ranks of MPI, in messages. One rank may use several GPUs by itself, although few programs do.
pub(crate) const MPIRUN: &str = "mpirun";

/// Environment variables that select among the GPUs of a container.
const CHOICES: [&str; 4] =
    ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// What a container uses and has. `None` if it has no whole GPUs, or the number that it uses is not known.
pub(crate) fn processes_of<'a>(
    object: &'a Object,
    template: &Template<'a>,
    container: &Node<'a>,
) -> Option<Processes<'a>> {
    let has = gpus_of(container)?;
    if chooses(container) {
        return None;
    }
    match (object.group(), object.kind()) {
        ("kubeflow.org", "MPIJob") => mpi::processes_of(object, has),
        ("ray.io", _) if is_of_ray(template, container) => of_ray(object, template, has),
        ("serving.kserve.io", "LLMInferenceService") if !container.get("command").is_set() => {
            of_llm_service(object, template, container, has)
        }
        _ => of_launch(object, template, container, has),
    }
}

/// Whether the environment of a container selects among its GPUs.
fn chooses(container: &Node<'_>) -> bool {
    let mut variables = container.get("env").items();
    let mut words = command_and_args(container);
    variables.any(|v| v.get("name").raw_text().is_some_and(|name| CHOICES.contains(&name)))
        || words.any(|w| w.raw_text().is_some_and(|text| CHOICES.iter().any(|c| text.contains(c))))
}

fn of_launch<'a>(
    object: &'a Object,
    template: &Template<'a>,
    container: &Node<'a>,
    has: Devices<'a>,
) -> Option<Processes<'a>> {
    let Some(launch) = Launch::of(container) else {
        return of_framework(container, has);
    };
    let engine = launch.program.server().is_some();
    let is_group = is_group(object, template, &launch);
    if engine && object.is(Kind::LEADER_WORKER_SET) && is_group {
        return of_group(object, template, container, &launch);
    }
    let (used, node) = match launch.gpus() {
        Some(stated) => stated,
        // The operator's field stands for an option that is absent.
        None if launch.program == Program::Torchrun && !launch.has(&["nproc-per-node"]) => {
            let fields = [&["spec", "nprocPerNode"][..], &["spec", "elasticPolicy", "nProcPerNode"]];
            let field = fields.into_iter().map(|path| object.path(path)).find(Node::is_set)?;
            let is_own = object.is(Kind::PYTORCH_JOB);
            let number = field.string_or_number().filter(|_| is_own)?.parse().ok()?;
            (number, Some(field))
        }
        None => return None,
    };
    let more_options = launch.may_have_more_options();
    let is_stated = node.is_some();
    // Without an option only vLLM's default is certain, in its own image. Kubeflow's operator sets the number of
    // processes for torchrun.
    let of_operator = !engine && object.group() == "kubeflow.org" && !object.is(Kind::PYTORCH_JOB);
    let idles = !more_options && !is_group && !of_operator && (is_stated || launch.is_plain_vllm(container));
    // More GPUs than those of the pod are those of the others.
    if engine && is_group && used > has.count || used > has.count && !is_stated {
        return None;
    }
    let program = launch.program.name();
    Some(Processes { program, used, node, has, holder: "its container", is_strict: true, idles })
}

/// Programs that start torchrun with the processes of `NPROC_PER_NODE`, and their names in messages.
const WITH_VARIABLE: [(&str, &str); 3] =
    [("swift", "ms-swift"), ("llamafactory-cli", "LLaMA-Factory"), ("xtuner", "XTuner")];

/// The GPUs of a framework that starts the processes by itself, in one pod.
fn of_framework<'a>(container: &Node<'a>, has: Devices<'a>) -> Option<Processes<'a>> {
    let words = words(container);
    // The nodes of another cluster of Ray have GPUs of their own.
    if may_have_more_options(&words) || words.iter().any(|word| base_name(&word.text) == "ray") {
        return None;
    }
    let setting = |name: &str| {
        let value = |word: &Word<'a>| {
            let (key, value) = word.text.split_once('=').filter(|_| word.known)?;
            (key.trim_start_matches(['-', '+']) == name).then(|| (value.to_owned(), word.node.clone()))
        };
        words.iter().rev().find_map(value)
    };
    let starts = |name: &str| words.iter().any(|word| base_name(&word.text) == name);
    let is_verl = words.iter().any(|word| word.text.starts_with("verl."));
    let on_gpus =
        setting("trainer.accelerator").is_none_or(|(kind, _)| matches!(kind.as_str(), "gpu" | "cuda"));
    let (program, (number, node)) =
        if let Some((_, name)) = WITH_VARIABLE.iter().find(|(command, _)| starts(command)) {
            let (number, node) = variable(container, "NPROC_PER_NODE").flatten()?;
            (*name, (number.into_owned(), node))
        } else if is_verl {
            ("verl", setting("trainer.n_gpus_per_node")?)
        } else {
            ("Lightning", setting("trainer.devices").filter(|_| on_gpus)?)
        };
    let used = number.parse().ok()?;
    Some(Processes {
        program,
        used,
        node: Some(node),
        has,
        holder: "its container",
        is_strict: true,
        idles: false,
    })
}

/// One copy of a model in a group of a LeaderWorkerSet, against the GPUs of the group.
fn of_group<'a>(
    object: &'a Object,
    template: &Template<'a>,
    container: &Node<'a>,
    launch: &Launch<'a>,
) -> Option<Processes<'a>> {
    let place = object.path(&["spec", "leaderWorkerTemplate"]);
    let size = place.get("size").int().filter(|size| *size > 1)?;
    let all = templates(object);
    // The leader, or the first pod of a group, speaks for all.
    if all.first().is_some_and(|first| first.spec.pointer() != template.spec.pointer()) {
        return None;
    }
    let of_pod = |template: &Template<'_>| -> i64 {
        template.containers().filter_map(|container| gpus_of(&container)).map(|devices| devices.count).sum()
    };
    let (leader, worker) = (of_pod(all.first()?), of_pod(all.last()?));
    let count = leader.checked_add(worker.checked_mul(size - 1)?)?;
    let parallelism = launch.program.server()?.parallelism.as_ref()?;
    let stated = [parallelism.tensor, parallelism.pipeline].map(|names| launch.option(names));
    let node = stated.iter().find_map(OptionValue::node)?;
    let used = launch.gpus_of_model(container)?;
    // Copies of the model use the rest, where options for them are set.
    let copies = launch.has(parallelism.data) || launch.has(parallelism.local_data);
    let other = launch.has(parallelism.partial) || launch.may_have_more_options();
    // The other pods may be of another program, unless options or their commands make them a part of the server.
    let joins = |pods: &Template<'_>| {
        let is_other =
            |container: Node<'_>| Launch::of(&container).is_some_and(|one| one.program.server().is_some());
        says_ray(pods) && (all.len() == 1 || !pods.containers().any(is_other))
    };
    let is_one =
        launch.has(parallelism.pipeline) || launch.has(parallelism.nodes) || all.last().is_some_and(joins);
    let node_of_gpus = gpus_of(container)?.node;
    Some(Processes {
        program: launch.program.name(),
        used,
        node: Some(node),
        has: Devices { count, node: node_of_gpus },
        holder: "a group of its pods",
        is_strict: true,
        idles: !copies && !other && is_one,
    })
}

/// Whether a command line of a template shows that its pods are part of a Ray cluster.
fn says_ray(template: &Template<'_>) -> bool {
    let mut words = template
        .all_containers()
        .flat_map(|c| ["command", "args"].map(|list| c.get(list)))
        .flat_map(|list| list.items());
    words.any(|word| word.raw_text().is_some_and(names_ray))
}

/// The number of pods that a program waits for before it listens; 1 if that is not known: the nodes of its options, or those
/// of a Ray cluster that together have the GPUs of one copy of the model.
pub(crate) fn ranks(object: &Object, template: &Template<'_>, container: &Node<'_>) -> i64 {
    let of = || {
        let launch = Launch::of(container)?;
        let nodes = launch.option(&["nnodes"]).int_or(1)?;
        if nodes > 1 || launch.program.server().is_none() || !is_group(object, template, &launch) {
            return Some(nodes);
        }
        let (used, has) = (launch.gpus_of_model(container)?, gpus_of(container)?.count);
        Some(if has > 0 { (used + has - 1) / has } else { 1 })
    };
    of().unwrap_or(1)
}

/// Whether all pods of a workload are the ranks of one server, which stops when one of them goes.
pub(crate) fn is_one_server(object: &Object) -> bool {
    let Some(replicas) = replicas(object) else { return false };
    // The replicas of a LeaderWorkerSet are groups.
    let is_groups = object.is(Kind::LEADER_WORKER_SET);
    let runs_all = |template: &Template<'_>| {
        template.containers().any(|container| {
            let ranks = ranks(object, template, &container);
            ranks > 1 && replicas <= if is_groups { 1 } else { ranks }
        })
    };
    templates(object).iter().any(runs_all)
}

/// Whether several pods may run one engine together, so that the GPUs of one pod are not all of its GPUs.
pub(crate) fn is_group(object: &Object, template: &Template<'_>, launch: &Launch<'_>) -> bool {
    const GROUPS: [Kind; 4] =
        [Kind::RAY_CLUSTER, Kind::RAY_SERVICE, Kind::RAY_JOB, Kind::LLM_INFERENCE_SERVICE];
    let by_kind = GROUPS.iter().any(|kind| object.is(*kind))
        || object.is(Kind::LEADER_WORKER_SET)
            && object.path(&["spec", "leaderWorkerTemplate", "size"]).int_or(1) != Some(1)
        || object.is(Kind::INFERENCE_SERVICE) && object.path(&["spec", "predictor", "workerSpec"]).is_set()
        || object.is(Kind::NIM_SERVICE) && object.path(&["spec", "multiNode"]).is_set()
        || object.is(Kind::JOB_SET) && pods_of(object, template) != Some(1);
    // vLLM joins the Ray cluster of this variable by itself, as soon as its own GPUs are too few.
    let mut variables = template.all_containers().flat_map(|c| c.get("env").items());
    by_kind
        || says_ray(template)
        || variables.any(|variable| variable.get("name").text() == Some("RAY_ADDRESS"))
        || launch
            .option(&["distributed-executor-backend"])
            .node()
            .is_some_and(|n| n.raw_text().is_some_and(|text| text.contains("ray")))
}

/// The processes on a node of a TrainJob by what it says itself: its runtime is not known, or is one for MPI.
pub(crate) fn processes_of_train_job<'a>(
    object: &'a Object,
    runtime: Option<&Object>,
) -> Option<Processes<'a>> {
    let trainer = object.path(&["spec", "trainer"]);
    let has = gpus_in(&trainer.get("resourcesPerNode"))?;
    if let Some(runtime) = runtime {
        let reference = object.path(&["spec", "runtimeRef", "name"]);
        return mpi::processes_of_train_job(&trainer, reference, runtime, has);
    }
    let node = trainer.get("numProcPerNode");
    let used: i64 = node.string_or_number()?.parse().ok()?;
    // The names of the runtimes that the operator brings; those of others say nothing of how they read the number.
    let name = object.path(&["spec", "runtimeRef", "name"]).text()?;
    let is_torch = name.starts_with("torch");
    if !is_torch && !["mpi", "deepspeed"].iter().any(|launcher| name.contains(launcher)) {
        return None;
    }
    Some(Processes {
        program: if is_torch { "torchrun" } else { "the runtime" },
        used,
        node: Some(node),
        has,
        holder: "its node",
        is_strict: is_torch,
        idles: is_torch && !trainer.get("env").is_set(),
    })
}

/// The container in which KubeRay starts Ray: the first one.
fn is_of_ray(template: &Template<'_>, container: &Node<'_>) -> bool {
    template.containers().next().is_some_and(|first| first.pointer() == container.pointer())
        && template
            .spec
            .pointer()
            .steps()
            .iter()
            .any(|step| step.ends_with("GroupSpec") || step.ends_with("GroupSpecs"))
}

/// The GPUs that a group of a RayCluster announces to Ray.
fn of_ray<'a>(object: &'a Object, template: &Template<'a>, has: Devices<'a>) -> Option<Processes<'a>> {
    let pointer = template.spec.pointer();
    let steps = pointer.steps();
    let group = object.root().at(&Pointer::from_steps(steps[..steps.len().checked_sub(2)?].iter().cloned()));
    let field = group.path(&["rayStartParams", "num-gpus"]);
    let used: i64 = field.string_or_number()?.parse().ok()?;
    // None keeps tasks away from a node on purpose.
    (used > 0).then_some(Processes {
        program: "Ray",
        used,
        node: Some(field),
        has,
        holder: "its container",
        is_strict: false,
        idles: true,
    })
}

/// The ranks of an LLMInferenceService in one pod. Its configuration starts vLLM with the numbers of `parallelism`.
fn of_llm_service<'a>(
    object: &'a Object,
    template: &Template<'a>,
    container: &Node<'a>,
    has: Devices<'a>,
) -> Option<Processes<'a>> {
    let pointer = template.spec.pointer();
    let of_prefill = pointer.steps().iter().any(|step| step == "prefill");
    let place = object.get("spec");
    let place = if of_prefill { place.get("prefill") } else { place };
    let parallelism = place.get("parallelism");
    let tensor = parallelism.get("tensor");
    let has_workers = place.get("worker").is_set();
    let is_first = pointer.steps().last().is_some_and(|step| step == "template");
    let has_options = container.get("args").is_set() || entry(container, "VLLM_ADDITIONAL_ARGS").is_some();
    if has_options || !tensor.is_set() || parallelism.has_unknown() || !is_first {
        return None;
    }
    // Without workers no configuration of KServe reads the number of stages (`config/llmisvcconfig` of 0.16 to 0.20).
    let pipeline = parallelism.get("pipeline");
    let local = parallelism.get("dataLocal").int_or(1)?;
    let used = tensor.int()?.checked_mul(local)?;
    let idles = !has_workers && !parallelism.get("data").is_set();
    let is_for_stages = !has_workers && pipeline.int().is_some_and(|stages| stages > 1) && used < has.count;
    Some(Processes {
        program: "vLLM",
        used,
        node: Some(if is_for_stages { pipeline } else { tensor }),
        has,
        holder: "its container",
        is_strict: true,
        idles,
    })
}
