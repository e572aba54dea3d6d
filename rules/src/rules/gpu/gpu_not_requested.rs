//! Pods that use a GPU request none.
//!
//! # Why
//! A node selector brings a pod to a node with GPUs and gives it none of them: only a request in the limits
//! of a container does. On nodes whose container runtime shows all GPUs to images of CUDA, the pod works
//! all the same, on GPUs that the scheduler gave to others: they run out of memory, and the pod is in no
//! account. On others `nvidia-smi` is not found. It is reported for pods that select nodes with
//! accelerators and run `nvidia-smi`, a server of models, a launcher of training or an image for
//! accelerators, also where they tolerate the taint of such nodes or set `NVIDIA_VISIBLE_DEVICES: all`. Pods
//! that select such nodes and tolerate their taint may be there on purpose without a GPU: where only the name
//! of the image tells of GPUs, such as `comfyui` or a tag with `cuda` or `gpu`, it is information.
//!
//! Pods that select no such nodes are placed on any node, and start none with a GPU. They are reported if they
//! run a server from an image that its authors build for GPUs alone: vLLM ends with `Failed to infer device
//! type` on a CPU. It is information where only the runtime is asked for GPUs, by `runtimeClassName: nvidia`
//! and `NVIDIA_VISIBLE_DEVICES: all` or a server that uses them: that requests nothing, and the containers
//! share the GPUs of a node that has some.
//!
//! A TrainJob is reported without
//! `resourcesPerNode` whose runtime, in the input, runs on such nodes and requests no GPU either. With
//! `resourcesPerNode` that names no GPU, it lost those of the runtime before Kubeflow Trainer 2.3, which
//! merges both: a warning where the input shows such a version, or the TrainJob has `podTemplateOverrides`,
//! which 2.2 does not know, and information elsewhere. Pods that ask for a part of a GPU by an annotation,
//! `gpu-fraction`, `gpu-memory` or `nvidia.com/container.NAME.gpu-memory.request`, get it from KAI alone:
//! the default scheduler ignores them.
//!
//! A privileged container sees the GPUs of its node without a request. Where it starts a process for each of
//! several, it works past the scheduler, the quota and the queue, on GPUs that other pods have.
//!
//! # Fix
//! Request the GPU in the limits of the container, or name the scheduler that reads the annotation.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: encode}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector:
//!          karpenter.k8s.aws/instance-gpu-manufacturer: nvidia
//!        containers:
//! -        - name: main # <-
//! +        - name: main
//!            image: nvidia/cuda:12.8.1-runtime-ubuntu24.04
//!            command: [ffmpeg, -hwaccel, cuda, -i, /in.mp4, /out.mp4]
//! -          resources: {requests: {cpu: 4, memory: 16Gi}}
//! +          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/>
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>

use super::gpu_taint_tolerated_without_gpu::{
    COMPLETED_ELSEWHERE, TAINTS, is_allotted_gpus, is_given_gpus, is_helper,
};
use crate::cluster::runtimes::{
    TRAINER_KINDS, is_trainer, replaces_resources, runtime_of_train_job, trainer_of_runtime,
};
use crate::rules::gpu::{is_left_alone, pools_by_label};
use crate::rules::prelude::*;
use crate::workload::class::has_word;
use crate::workload::devices::{Devices, extended_resources_of};
use crate::workload::environment::variable;
use crate::workload::gpu_nodes::{may_require_gpu_nodes, requires_gpu_nodes};
use crate::workload::gpu_share::{
    KAI_QUEUE, KAI_SCHEDULER, gpu_share, is_left_to_default_scheduler, kai_queue,
};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-not-requested",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NAMESPACE, Kind::NODE_POOL], RUNTIMES, [KAI_QUEUE], TRAINER_KINDS],
    docs: docs(include_str!("gpu_not_requested.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

/// Maximum number of queues that are looked at.
const MAX_COMPARED: usize = 64;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if object.is(Kind::TRAIN_JOB) {
        return of_train_job(object, ctx);
    }
    for template in templates(object) {
        of_share(object, &template, ctx);
    }
    // What operators add to the pods of these kinds is not known.
    let merged = object.is(Kind::INFERENCE_SERVICE)
        || object.is(Kind::LLM_INFERENCE_SERVICE)
        || object.group() == "trainer.kubeflow.org";
    if is_left_alone(object, ctx) || merged || uses_accelerators(object) {
        return None;
    }
    for template in templates(object) {
        if past_scheduler(object, &template, ctx).is_none() && !selects_gpu_nodes(&template) {
            on_any_node(object, &template, ctx);
        }
        of_template(object, &template, ctx);
    }
    None
}

/// Whether the pods run on nodes with accelerators by their node selector, or by the taint that they tolerate for NVIDIA's runtime.
fn selects_gpu_nodes(template: &Template<'_>) -> bool {
    requires_gpu_nodes(template) || is_of_nvidia_runtime(template) && tolerates_accelerators(template)
}

fn is_of_nvidia_runtime(template: &Template<'_>) -> bool {
    template.spec.get("runtimeClassName").text() == Some("nvidia")
}

/// Groups whose objects have pod templates that nothing but their own fields completes.
const PLAIN_GROUPS: [&str; 9] = [
    "",
    "apps",
    "batch",
    "argoproj.io",
    "batch.volcano.sh",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "leaderworkerset.x-k8s.io",
    "serving.knative.dev",
];

/// Reports pods that need a GPU, or ask the runtime alone for some, where nothing brings them to a node with GPUs.
fn on_any_node(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_plain = PLAIN_GROUPS.contains(&object.group()) && !COMPLETED_ELSEWHERE.contains(&object.kind());
    let runtime = template.spec.get("runtimeClassName");
    let by_runtime = is_of_nvidia_runtime(template);
    if !is_plain
        || shares_node(template)
        || shares_gpus(template)
        || is_allotted_gpus(template)
        || is_helper(object, template)
        || is_test(object)
        || may_require_gpu_nodes(template)
        // A taint that is tolerated without a GPU has a rule of its own.
        || tolerates_accelerators(template)
        || runtime.is_set() && !by_runtime
    {
        return None;
    }
    let name = object.display_name();
    let found = template.containers().find_map(|container| Some((gpu_server_of(&container)?, container)));
    if let Some((server, container)) = found {
        let message =
            format!("`{name}` runs {} from an image that needs a GPU, and requests none", server.name);
        ctx.report(&container, message)
            .help(format!("request it in the limits of the container, such as `{NVIDIA}: 1`"));
        return None;
    }
    let found = template.containers().filter(|_| by_runtime).find_map(|container| {
        let sign = sign_of_variable(&container).or_else(|| sign_of_server(&container))?;
        Some((sign.what, container))
    });
    let (what, container) = found?;
    let message = format!("`{name}` {what} and requests no GPU: it may get a node without one");
    ctx.report(&container, message)
        .severity(Severity::Info)
        .help(format!("request it in the limits of the container, such as `{NVIDIA}: 1`"))
        .related(object, &runtime, "shows the container GPUs that the scheduler gives to others");
    None
}

/// Whether the pods share processes or memory with their node, as what looks after it does.
fn shares_node(template: &Template<'_>) -> bool {
    ["hostPID", "hostIPC"].iter().any(|field| template.spec.get(field).bool() == Some(true))
}

/// Servers whose published images end with an error on a node without a GPU. TGI goes on, on the CPU.
const OF_GPUS_ALONE: [ServerId; 3] = [ServerId::Vllm, ServerId::Sglang, ServerId::Nim];
/// Words in the names and tags of images of such servers that are built for other processors than GPUs of NVIDIA.
const OTHER_BUILDS: [&str; 14] = [
    "cpu", "xeon", "xpu", "tpu", "hpu", "gaudi", "neuron", "neuronx", "npu", "cann", "musa", "rocm", "spyre",
    "sim",
];
/// Options with which one of them runs without a GPU of its own: another device, or no rank of the model.
const WITHOUT_GPU: [&str; 3] = ["device", "data-parallel-size-local", "dpl"];

/// The server of a container whose image its authors build for NVIDIA's GPUs alone.
fn gpu_server_of(container: &Node<'_>) -> Option<&'static Server> {
    let server = server_of(container)
        .filter(|server| OF_GPUS_ALONE.contains(&server.id) && server.is_in_published_image_of(container))?;
    let image = image_of(container)?;
    let mut parts = [image.last(), image.tag.unwrap_or_default()]
        .into_iter()
        .flat_map(|text| text.split(['-', '_', '.']));
    if parts.any(|word| OTHER_BUILDS.iter().any(|other| word.eq_ignore_ascii_case(other))) {
        return None;
    }
    let is_of_cpu = |name: &str| name.starts_with("VLLM_CPU") || name == "VLLM_TARGET_DEVICE";
    let mut variables = container.get("env").items();
    let chooses = variables.any(|variable| variable.text_at("name").is_some_and(is_of_cpu));
    (!chooses && matches!(option(&words(container), &WITHOUT_GPU), OptionValue::Absent)).then_some(server)
}

/// Reports a privileged container that starts a process for each of several GPUs and requests none: such a container has all devices of
/// its node, and the scheduler gives them to other pods as well.
fn past_scheduler(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let spec = &template.spec;
    if spec.get("resourceClaims").is_set() || gpu_share(template).is_some() || shares_gpus(template) {
        return None;
    }
    let found = template.containers().find_map(|container| {
        let is_privileged = container.path(&["securityContext", "privileged"]).bool() == Some(true);
        let (resource, _) = container.get("image").text().and_then(accelerator_of_image)?;
        let launch = Launch::of(&container).filter(|launch| launch.program.server().is_none())?;
        let (processes, node) = launch.gpus()?;
        let is_open = container.has_unknown_key() || container.get("resources").has_unknown();
        let counts = is_privileged && processes > 1 && !is_open;
        counts.then_some((launch.program.name(), resource, processes, node?))
    });
    let (program, resource, processes, node) = found?;
    let message = format!(
        "{program} in `{}` uses {processes} GPUs of its node and requests none: other pods get them as well",
        object.display_name()
    );
    let severity = if is_test(object) { Severity::Info } else { Severity::Warning };
    ctx.report(&node, message).severity(severity).help(format!(
        "request `{resource}: {processes}` in the limits; `privileged` shows the devices and reserves none"
    ));
    Some(())
}

fn of_template(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if shares_node(template) || is_given_gpus(template) || shares_gpus(template) {
        return None;
    }
    // NVIDIA's runtime shows GPUs to containers that request none. Other runtimes may do more.
    let runtime = template.spec.get("runtimeClassName");
    let by_runtime = is_of_nvidia_runtime(template);
    if runtime.is_set() && (!by_runtime || is_helper(object, template) || is_test(object)) {
        return None;
    }
    if !selects_gpu_nodes(template) {
        return None;
    }
    let sign = |container: &Node<'_>| {
        // To look at the GPUs of a node, that runtime alone is a choice.
        if by_runtime && tool_of(container).is_some() {
            return None;
        }
        let by_variable = sign_of_variable(container);
        let is_meant = by_runtime || by_variable.is_some();
        sign_of(container)
            .or_else(|| sign_of_server(container).filter(|_| is_meant))
            .or_else(|| by_variable.filter(|_| by_runtime))
    };
    let found = template.containers().find_map(|c| Some((c.clone(), sign(&c)?, Severity::Warning)));
    let (container, sign, severity) = found.or_else(|| sign_of_name(object, template))?;
    let Sign { what, resource } = sign;
    let devices = if resource == NEURON { "Neuron devices" } else { "GPUs" };
    let name = object.display_name();
    let (message, help) = match cpu_of(&container) {
        // A device alone would be idle.
        Some(choice) => (
            format!("`{name}` {what} on the CPU of nodes with {devices}"),
            format!("let it run on other nodes; or remove {choice}, and request `{resource}: 1`"),
        ),
        None => (
            format!("`{name}` {what} on nodes with {devices}, and requests none"),
            format!("request it in the limits of the container, such as `{resource}: 1`"),
        ),
    };
    let finding = ctx.report(&container, message).severity(severity).help(help);
    if by_runtime {
        finding.related(object, &runtime, "shows the container GPUs that the scheduler gives to others");
    }
    None
}

/// What makes a server run on the CPU: an option, a variable, or its image.
fn cpu_of(container: &Node<'_>) -> Option<&'static str> {
    let by_image = || {
        let image = image_of(container);
        image.is_some_and(|image| {
            let parts = [image.last(), image.tag.unwrap_or_default()];
            parts.iter().flat_map(|text| text.split(['-', '_', '.'])).any(|word| word == "cpu")
        })
    };
    let by_variable = || {
        variable(container, "VLLM_TARGET_DEVICE")
            .flatten()
            .is_some_and(|(text, _)| text.eq_ignore_ascii_case("cpu"))
    };
    if option(&words(container), &["device"]).is("cpu") {
        Some("`--device cpu`")
    } else if by_variable() {
        Some("`VLLM_TARGET_DEVICE`")
    } else {
        by_image().then_some("the image for CPUs")
    }
}

/// Whether pods tolerate a taint of nodes with accelerators.
fn tolerates_accelerators(template: &Template<'_>) -> bool {
    tolerated_taint(template).is_some()
}

/// The first taint of nodes with accelerators that pods tolerate. It has the name of their resource.
fn tolerated_taint(template: &Template<'_>) -> Option<&'static str> {
    template.spec.get("tolerations").items().find_map(|toleration| {
        let key = toleration.get("key");
        TAINTS.iter().find(|taint| key.text() == Some(taint)).copied()
    })
}

/// A container whose image tells of GPUs by its name alone, in pods that select nodes with accelerators and tolerate their taint.
fn sign_of_name<'a>(object: &Object, template: &Template<'a>) -> Option<(Node<'a>, Sign, Severity)> {
    /// Programs that nobody puts on a node with GPUs to run on its CPUs.
    const PROGRAMS: [&str; 7] =
        ["cuda", "comfyui", "diffusion", "diffusers", "pytorch", "whisper", "automatic1111"];
    let resource = tolerated_taint(template)?;
    let is_alone = [Kind::DAEMON_SET, Kind::POD].iter().any(|kind| object.is(*kind));
    if is_alone || !requires_gpu_nodes(template) || is_helper(object, template) || is_test(object) {
        return None;
    }
    let (container, name) = template.containers().find_map(|container| {
        let image = image_of(&container)?;
        let tag = image.tag.filter(|tag| mentions(tag, &["cuda", "gpu"]));
        let name = match tag {
            _ if mentions(image.last(), &PROGRAMS) => image.last().to_owned(),
            tag => format!("{}:{}", image.last(), tag?),
        };
        (!command_line(&container).contains("sleep")).then_some((container, name))
    })?;
    let what = format!("runs image `{}`", ellipsize(&name));
    Some((container, Sign { what, resource }, Severity::Info))
}

/// Whether a variable gives a container some GPUs of its node, so that several pods may share them on purpose.
fn shares_gpus(template: &Template<'_>) -> bool {
    let mut variables = template.all_containers().flat_map(|container| container.get("env").items());
    variables.any(|variable| {
        let is_choice = variable.get("name").raw_text().is_some_and(|name| name.contains("VISIBLE_DEVICES"));
        is_choice && variable.get("value").text() != Some("all")
    })
}

/// Reports pods that ask KAI for a part of a GPU, and that the default scheduler places. Run:ai reads the same annotations and
/// sets the scheduler itself, so that a queue of KAI has to show that it is meant.
fn of_share(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (key, share) = gpu_share(template)?;
    if !is_left_to_default_scheduler(template) || requests_accelerator(template) {
        return None;
    }
    let label = kai_queue(object, template);
    let mut queues = ctx.cluster().of(KAI_QUEUE).take(MAX_COMPARED);
    if !label.is_set() && !queues.any(|queue| ctx.pairs_with(queue)) {
        return None;
    }
    let message = format!("the default scheduler ignores `{key}`: `{}` gets no GPU", object.display_name());
    ctx.report(&share, message).help(format!("write `schedulerName: {KAI_SCHEDULER}` in the pods"));
    None
}

/// Reports a TrainJob whose runtime runs on nodes with GPUs, if neither requests one.
fn of_train_job(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(found) = of_replaced(object, ctx) {
        return Some(found);
    }
    if uses_accelerators(object) {
        return None;
    }
    let templates = templates(object);
    let (template, container) = templates.iter().find_map(|template| {
        let container = template.containers().find(is_trainer)?;
        Some((template, container))
    })?;
    let of_gpus = |pool: &&Object| NodePool::new(pool).is_some_and(|pool| pool.is_gpu_intended());
    let pool = pools_by_label(template, ctx).into_iter().find(of_gpus);
    if !tolerates_accelerators(template) && pool.is_none() && !requires_gpu_nodes(template) {
        return None;
    }
    let message = format!(
        "`{}` requests no GPU, and neither does its runtime, which runs on nodes with GPUs",
        object.display_name()
    );
    let finding = ctx.report(&container, message);
    finding.help("write `resourcesPerNode` with the GPUs of a node: torchrun starts a process for each");
    if let Some(pool) = pool {
        finding.related(pool, &pool.path(&["metadata", "name"]), "its pool");
    }
    None
}

/// Reports `resourcesPerNode` of a TrainJob that names no GPU, if it may replace all resources of the runtime.
fn of_replaced(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = object.path(&["spec", "trainer", "resourcesPerNode"]);
    let is_patched = object.path(&["spec", "runtimePatches"]).is_set();
    if !own.is_mapping() || own.has_unknown() || own.has_unknown_key() || is_patched {
        return None;
    }
    // A number of 0 is a choice.
    let sides = ["limits", "requests"].map(|side| own.get(side));
    if sides.iter().flat_map(Node::entries).any(|(name, _)| is_accelerator(name)) {
        return None;
    }
    let runtime = runtime_of_train_job(object, ctx.cluster())?;
    let container = trainer_of_runtime(&runtime)?;
    let lost: Vec<(&str, Devices<'_>)> = extended_resources_of(&container)
        .into_iter()
        .filter_map(|name| Some((name, devices_of(&container, name)?)))
        .collect();
    let (name, devices) = lost.iter().find(|(name, _)| is_accelerator(name))?;
    let (severity, subject, by) = match replaces_resources(object, ctx.cluster()) {
        Some(true) => (Severity::Warning, "`resourcesPerNode`", ""),
        Some(false) => return None,
        None => (Severity::Info, "Trainer before 2.3", " by `resourcesPerNode`"),
    };
    let message = format!(
        "{subject} replaces the runtime's {} of `{name}`{by}: `{}` gets none",
        devices.count,
        object.display_name()
    );
    let all: Vec<String> =
        lost.iter().map(|(name, devices)| format!("`{name}: {}`", devices.count)).collect();
    ctx.report(&own, message)
        .severity(severity)
        .help(format!("repeat what the pods need of the runtime's resources: {}", all.join(", ")))
        .related(&runtime, &devices.node, "what it replaces");
    Some(())
}

const NVIDIA: &str = "nvidia.com/gpu";
const AMD: &str = "amd.com/gpu";
const NEURON: &str = "aws.amazon.com/neuron";

/// What shows that a container uses an accelerator, and the resource that it should request.
struct Sign {
    what: String,
    resource: &'static str,
}

/// Programs that show the accelerators of a node.
const TOOLS: [(&str, &str); 5] = [
    ("nvidia-smi", NVIDIA),
    ("rocm-smi", AMD),
    ("amd-smi", AMD),
    ("neuron-ls", NEURON),
    ("neuron-top", NEURON),
];

/// The program of a container that shows the accelerators of a node, and their resource.
fn tool_of(container: &Node<'_>) -> Option<(&'static str, &'static str)> {
    let line = command_line(container);
    TOOLS.into_iter().find(|(tool, _)| has_word(&line, tool))
}

/// Servers that nobody runs on CPUs, or not on a node with GPUs.
const SERVERS: [ServerId; 6] =
    [ServerId::Vllm, ServerId::Sglang, ServerId::TensorRtLlm, ServerId::Nim, ServerId::Tgi, ServerId::Triton];

/// What shows that a container uses an accelerator. Servers that are also run on CPUs are no evidence.
fn sign_of(container: &Node<'_>) -> Option<Sign> {
    let line = command_line(container);
    let of_image = container.get("image").text().and_then(accelerator_of_image);
    if let Some((tool, resource)) = tool_of(container) {
        return Some(Sign { what: format!("runs `{tool}`"), resource });
    }
    let resource = of_image.map_or(NVIDIA, |(resource, _)| resource);
    if let Some(server) = server_of(container).filter(|server| SERVERS.contains(&server.id)) {
        return Some(Sign { what: format!("runs {}", server.name), resource });
    }
    // A launcher with a number of processes for each node.
    let launch = Launch::of(container).filter(|launch| launch.program.server().is_none());
    if let Some(launch) = launch.filter(|launch| launch.gpus().is_some_and(|(_, node)| node.is_some())) {
        return Some(Sign { what: format!("runs {}", launch.program.name()), resource });
    }
    let (resource, name) = of_image.filter(|_| !line.contains("sleep"))?;
    Some(Sign { what: format!("runs an image {name}"), resource })
}

/// A server that is also run on CPUs: a sign where something else shows that GPUs are meant.
fn sign_of_server(container: &Node<'_>) -> Option<Sign> {
    let server = server_of(container).filter(|server| server.id == ServerId::Ollama)?;
    Some(Sign { what: format!("runs {}", server.name), resource: NVIDIA })
}

/// A variable that asks the runtime of NVIDIA for all GPUs of the node.
fn sign_of_variable(container: &Node<'_>) -> Option<Sign> {
    let (text, _) = variable(container, "NVIDIA_VISIBLE_DEVICES").flatten()?;
    (text == "all").then(|| Sign { what: "sets `NVIDIA_VISIBLE_DEVICES: all`".to_owned(), resource: NVIDIA })
}

/// The accelerator that an image is made for, as its resource and in words.
fn accelerator_of_image(image: &str) -> Option<(&'static str, &'static str)> {
    let image = ImageRef::parse(image);
    let of_cuda = image.tag.is_some_and(|tag| tag.contains("cuda"));
    if image.is("nvidia/cuda") || image.is("nvidia/pytorch") || image.is("pytorch/pytorch") && of_cuda {
        return Some((NVIDIA, "of CUDA"));
    }
    if image.repository.split('/').any(|part| part == "rocm") {
        return Some((AMD, "of ROCm"));
    }
    image.repository.ends_with("-neuronx").then_some((NEURON, "for Neuron"))
}
