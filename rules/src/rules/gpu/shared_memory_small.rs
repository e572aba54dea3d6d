//! Pods with several GPUs, or several data loaders, have 64 MiB of shared memory.
//!
//! # Why
//! `/dev/shm` is 64 MiB in a container. NCCL moves data between GPUs through it, the workers of a PyTorch
//! DataLoader hand over their batches in it, and tensor-parallel servers use it between their processes:
//! they fail with `Bus error` or hang at the start. It is a warning for training and for servers that are
//! known to need it; for other pods with several GPUs it is advice. Pods of Ray get the memory from
//! KubeRay. A single GPU counts where the command line starts two processes or more that load data, such as
//! `--num-workers=8`. On other accelerators, such as Gaudi or shares of HAMi and Volcano, servers count
//! that distribute their model over several devices by their options. Servers such as Ollama and llama.cpp,
//! which use all GPUs from one process, are left alone. A volume with `medium: Memory` and a `sizeLimit` of
//! 64 MiB or less is no more than that.
//!
//! The Python backend of Triton takes shared memory for each instance of a model, with and without a GPU.
//! It is an error where `shm-default-byte-size` is more than 64 MiB, since no instance starts, and a warning
//! where the first extension by `shm-growth-byte-size` does not fit, or the instances that the configurations of
//! models in ConfigMaps of the input name (`instance_group`) need more together.
//!
//! The chart of vLLM's production stack mounts shared memory of `shmSize` only where a model has
//! `vllmConfig.tensorParallelSize`. An argument in `extraArgs` starts the processes as well, and they have
//! 64 MiB.
//!
//! A notebook with one GPU is information, if its image has PyTorch or CUDA: data loaders are written in
//! its cells.
//!
//! # Fix
//! Mount an emptyDir with `medium: Memory` at `/dev/shm`, with a `sizeLimit` of some GiB or none. What is
//! written there counts as memory of the pod.
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
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//! -        - name: trainer # <-
//! +        - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=4, train.py, --save-to=s3://runs/bert]
//!            resources:
//!              requests: {cpu: 40, memory: 160Gi}
//!              limits: {nvidia.com/gpu: 4}
//! +          volumeMounts: [{name: shm, mountPath: /dev/shm}]
//! +      volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/deployment/k8s.html>
//! - <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html>
//! - <https://github.com/pytorch/pytorch/issues/16979>
//! - <https://github.com/triton-inference-server/python_backend#managing-shared-memory>
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use super::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu::{is_left_alone, report_value};
use crate::rules::prelude::*;
use crate::workload::charts::ChartValues;
use crate::workload::checkpoint::{mount_of, volume};
use crate::workload::command::{Word, base_name};
use crate::workload::devices::extended_resources_of;
use crate::workload::diagnostic::only_sleeps;
use crate::workload::environment::entry;
use crate::workload::gpu::has_own_process;
use crate::workload::server::is_one_process;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "shared-memory-small",
    kinds: kinds![WORKLOAD_KINDS, CHART_KINDS],
    reads: kinds![
        SHARING_SOURCES,
        [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NAMESPACE, Kind::CONFIG_MAP, Kind::POD_DEFAULT],
        RUNTIMES
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("shared_memory_small.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        for_each_values(object, "vllm-stack", |values| of_stack(values, ctx));
        return None;
    }
    // KubeRay, and KServe's configuration of an LLMInferenceService, mount shared memory.
    const MOUNTED: [Kind; 4] =
        [Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE, Kind::LLM_INFERENCE_SERVICE];
    let other = MOUNTED.iter().any(|kind| object.is(*kind));
    if other || is_left_alone(object, ctx) || object.may_lack_fields() || is_test(object) {
        return None;
    }
    let has_devices = requests_device_plugin(object);
    for template in templates(object) {
        let spec = &template.spec;
        if spec.get("hostIPC").bool() == Some(true)
            || spec.has_unknown_key()
            || spec.get("volumes").is_unknown()
        {
            continue;
        }
        for container in template.containers() {
            if let Some(limit) = small_volume(&template, &container) {
                if has_devices {
                    inspect(object, &template, &container, Some(&limit), ctx);
                }
            } else if has_default_size(&container)
                && python_backend(&template, &container, ctx).is_none()
                && has_devices
            {
                inspect(object, &template, &container, None, ctx);
            }
        }
    }
    None
}

/// Options of vLLM for a model over several GPUs.
const PARALLEL: [&str; 3] = ["--tensor-parallel-size", "--pipeline-parallel-size", "-tp"];

/// Reports models of vLLM's production stack that are distributed by an argument: its chart mounts shared memory where the values have
/// `tensorParallelSize` (`templates/deployment-vllm-multi.yaml`, at 010004e).
fn of_stack(values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) {
    for model in values.root.path(&["servingEngineSpec", "modelSpec"]).items() {
        let (config, mounts) = (model.get("vllmConfig"), model.get("extraVolumeMounts"));
        let is_mounted = !config.get("tensorParallelSize").is_absent()
            || mounts.has_unknown()
            || mounts
                .items()
                .any(|one| one.get("mountPath").text().is_some_and(|path| path.starts_with("/dev")));
        if is_mounted
            || !model.get("raySpec").is_absent()
            || config.has_unknown_key()
            || model.has_unknown_key()
        {
            continue;
        }
        let words: Vec<Node<'_>> = config.get("extraArgs").items().collect();
        let found = words.iter().enumerate().find_map(|(at, word)| {
            let text = word.text()?;
            let (name, own) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
            let next = || Some(words.get(at + 1)?.string_or_number()?.into_owned());
            let ranks: i64 = own.or_else(next).filter(|_| PARALLEL.contains(&name))?.parse().ok()?;
            (ranks > 1).then_some((word, ranks))
        });
        let Some((word, ranks)) = found else { continue };
        let name = ellipsize(model.get("name").text().unwrap_or("the model"));
        let message = format!(
            "the chart mounts no shared memory for `{name}` over {ranks} GPUs: it asks only `tensorParallelSize`"
        );
        report_value(values, word, message, ctx)
            .severity(Severity::Warning)
            .help("write `tensorParallelSize` in `vllmConfig` in the place of the argument: `shmSize` counts with it");
    }
}

/// Whether nothing is mounted at `/dev/shm` of a container.
fn has_default_size(container: &Node<'_>) -> bool {
    let mounts = container.get("volumeMounts");
    let at_shm = |mount: Node<'_>| {
        let path = mount.get("mountPath").text();
        path.is_some_and(|path| matches!(path.trim_end_matches('/'), "/dev/shm" | "/dev"))
    };
    // The runtime of an InferenceService may mount it.
    let may_mount = mounts.has_unknown() || container.has_unknown_key() || is_model_of_runtime(container);
    !may_mount && !mounts.items().any(at_shm)
}

/// The size of a volume in memory at `/dev/shm` that is no larger than what a container has without one.
fn small_volume<'a>(template: &Template<'a>, container: &Node<'a>) -> Option<Node<'a>> {
    let mount = mount_of(template, container, "/dev/shm")??;
    let directory = volume(template, mount.get("name").text()?)?.get("emptyDir");
    let limit = directory.get("sizeLimit");
    let is_small = Quantity::at(&limit)?.value() <= i128::from(SHARED);
    (directory.get("medium").text() == Some("Memory") && is_small).then_some(limit)
}

const HELP: &str = "mount an emptyDir with `medium: Memory` at `/dev/shm`; it counts as memory of the pod";

/// The fix that mounts shared memory. `None` if a volume has its name.
fn mounted(template: &Template<'_>, container: &Node<'_>) -> Option<Fix> {
    let volumes = template.spec.get("volumes");
    if volumes.items().any(|volume| volume.get("name").text() == Some("shm")) {
        return None;
    }
    let fix = Fix::new("mount shared memory; it counts as memory of the pod", Safety::Unsafe);
    let fix = fix.append(&container.get("volumeMounts"), json!({"name": "shm", "mountPath": "/dev/shm"}));
    Some(fix.append(&volumes, json!({"name": "shm", "emptyDir": {"medium": "Memory"}})))
}

/// The bytes of `/dev/shm` of a container, unless something is mounted there.
const SHARED: i64 = 64 << 20;

/// Reports sizes of Triton's Python backend for which the shared memory is too small. It allocates the first at the start of
/// each instance of a model, and the second each time that it needs more, by default one MiB each since 23.09 (`shm_manager.cc`
/// and `python_be.cc` of triton-inference-server/python_backend).
fn python_backend(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let all = words(container);
    let setting = |name: &str| {
        all.iter().rev().find_map(|word| {
            let text = word.text.strip_prefix("--backend-config=").unwrap_or(&word.text);
            let (key, value) = text.strip_prefix("python,")?.split_once('=')?;
            Some((value.parse::<i64>().ok()?, word.node.clone())).filter(|_| key == name)
        })
    };
    let (first, more) = (setting("shm-default-byte-size"), setting("shm-growth-byte-size"));
    let bytes = |setting: &Option<(i64, Node<'_>)>| setting.as_ref().map_or(1 << 20, |(bytes, _)| *bytes);
    let (start, growth) = (bytes(&first), bytes(&more));
    let name = ellipsize(container.get("name").text().unwrap_or("main"));
    let has = format!("container `{name}` has 64 MiB");
    let mebibytes = |bytes: i64| bytes >> 20;
    let instances = python_instances(template, container, ctx);
    let (node, message, severity) = match (first, more) {
        (Some((_, node)), _) if start <= SHARED && start.checked_mul(instances)? > SHARED => {
            let takes = format!("takes {} MiB for each of {instances} instances", mebibytes(start));
            (node, format!("Triton's Python backend {takes}, and {has} of shared memory"), Severity::Warning)
        }
        (Some((_, node)), _) if start > SHARED => {
            let takes = format!("takes {} MiB of shared memory for each instance", mebibytes(start));
            (node, format!("Triton's Python backend {takes}, and {has}"), Severity::Error)
        }
        (Some((_, node)), None) | (_, Some((_, node))) if start.checked_add(growth)? > SHARED => {
            let takes = format!("{} MiB of shared memory by {} MiB", mebibytes(start), mebibytes(growth));
            let message = format!("Triton's Python backend cannot extend its {takes}: {has}");
            (node, message, Severity::Warning)
        }
        _ => return None,
    };
    let finding = ctx.report(&node, message);
    finding.severity(severity).help(HELP);
    if let Some(fix) = mounted(template, container) {
        finding.fix(fix);
    }
    Some(())
}

/// The instances of models of the Python backend that the ConfigMaps in a container configure: each `config.pbtxt` with one for its
/// groups, or as many as they count. GPUs multiply them, so that there may be more.
fn python_instances(template: &Template<'_>, container: &Node<'_>, ctx: &Context<'_>) -> i64 {
    let (object, _) = template.place;
    let mounts = container.get("volumeMounts");
    let mut found: Vec<(&str, &str, i64)> = Vec::new();
    for volume in mounts.items().filter_map(|mount| volume(template, mount.get("name").text()?)) {
        let projected = volume.path(&["projected", "sources"]);
        let sources = std::iter::once(volume.clone()).chain(projected.items());
        let names = sources.filter_map(|source| source.path(&["configMap", "name"]).text());
        for map in names.filter_map(|name| ctx.partner(Kind::CONFIG_MAP, object.namespace_or_default(), name))
        {
            for (key, text) in map.get("data").entries() {
                let count = text.text().filter(|_| key.ends_with("config.pbtxt")).and_then(instances_of);
                if let Some(count) = count
                    && !found.iter().any(|(of, known, _)| *of == map.name() && *known == key)
                {
                    found.push((map.name(), key, count));
                }
            }
        }
    }
    found.iter().map(|(_, _, count)| count).sum::<i64>().max(1)
}

/// The instances of a model in the text of its configuration. `None` unless it is one of the Python backend.
fn instances_of(text: &str) -> Option<i64> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let plain: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    if !plain.contains("backend:\"python\"") {
        return None;
    }
    let groups = plain.split("instance_group").skip(1);
    let counts = groups.flat_map(|group| group.split("count:").skip(1));
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<i64>().ok()
    };
    // Without a count a group has one instance.
    Some(counts.filter_map(number).sum::<i64>().max(1))
}

/// Whether the image of a container is one of Triton with vLLM or TensorRT-LLM, whose processes share memory.
fn is_triton_for_language_models(container: &Node<'_>) -> bool {
    let image = image_of(container).filter(|image| image.last() == "tritonserver");
    image.and_then(|image| image.tag).is_some_and(|tag| tag.contains("-vllm-") || tag.contains("-trtllm-"))
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    limit: Option<&Node<'_>>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (gpus, noun) = match gpus_of(container) {
        Some(gpus) => (gpus.count, "GPUs"),
        None => (ranks(container)?, "devices"),
    };
    let trains = ctx.class_of(object).is(WorkloadClass::Training);
    let loaders = loaders(container, trains).filter(|loaders| *loaders > 1);
    let may_load = gpus < 2 && loaders.is_none() && loads_in_cells(object, container, ctx);
    if gpus < 2 && loaders.is_none() && !may_load || is_one_process(container) || only_sleeps(container) {
        return None;
    }
    let launch = Launch::of(container);
    let known =
        launch.is_some_and(|launch| launch.program.server().is_none_or(|server| server.shares_memory));
    let is_known = known || trains || loaders.is_some() || is_triton_for_language_models(container);
    let severity = if is_known && !may_load { Severity::Warning } else { Severity::Info };
    // Two shares may be one GPU. Where only some nodes share theirs, a server over several GPUs is on the others.
    if !may_load {
        match counts_shares(template, "nvidia.com/gpu", ctx).filter(|_| loaders.is_none()) {
            Some(true) => return None,
            None if severity == Severity::Info => return None,
            _ => {}
        }
    }
    let name = container.get("name").text().unwrap_or("main");
    let owner = object.display_name();
    let what = match loaders {
        Some(loaders) if gpus < 2 => format!("loads data with {loaders} processes"),
        _ if gpus == 1 => "has a GPU".to_owned(),
        _ => format!("has {gpus} {noun}"),
    };
    let size = if limit.is_some() { "no more than 64 MiB" } else { "64 MiB" };
    let why = if may_load { ": data loaders of PyTorch need more" } else { "" };
    let message = format!("container `{name}` of `{owner}` {what} and {size} of shared memory{why}");
    if let Some(limit) = limit {
        ctx.report(limit, message)
            .severity(severity)
            .help("write some GiB, or leave the limit out; it counts as memory of the pod");
        return None;
    }
    let finding = ctx.report(container, message);
    finding.severity(severity).help(HELP);
    if let Some(fix) = mounted(template, container).filter(|_| severity == Severity::Warning) {
        finding.fix(fix);
    }
    None
}

/// The devices of other kinds than whole GPUs over which a server of a container distributes its model by its options.
fn ranks(container: &Node<'_>) -> Option<i64> {
    let has_devices = extended_resources_of(container).into_iter().any(has_own_process);
    let launch = Launch::of(container).filter(|_| has_devices)?;
    let shares_memory = launch.program.server().is_some_and(|server| server.shares_memory);
    let (used, node) = launch.gpus().filter(|_| shares_memory)?;
    node.map(|_| used).filter(|used| *used > 1)
}

/// Whether a container is a notebook with PyTorch. A PodDefault, or the controller of Open Data Hub, may mount shared memory.
fn loads_in_cells(object: &Object, container: &Node<'_>, ctx: &Context<'_>) -> bool {
    let is_of_pytorch =
        || image_text(container).is_some_and(|image| mentions(image, &["pytorch", "torch", "cuda"]));
    let of_open_data_hub = |field: &str| {
        let entries = object.path(&["metadata", field]).entries();
        entries.iter().any(|(key, _)| key.contains("opendatahub.io/"))
    };
    object.is(Kind::NOTEBOOK)
        && is_of_pytorch()
        && !["annotations", "labels"].iter().any(|field| of_open_data_hub(field))
        && !ctx.cluster().has_any(Kind::POD_DEFAULT)
}

/// Options for the number of processes of a PyTorch DataLoader, in scripts of training alone: those of PyTorch's examples, timm,
/// Lightning and Ultralytics.
const LOADERS: [&str; 5] = ["num-workers", "data-workers", "loader-workers", "workers", "j"];
/// That of Hugging Face's Trainer, which means nothing else.
const LOADERS_OF_TRAINER: &str = "dataloader-num-workers";
/// Programs with workers of another kind.
const WITH_OTHER_WORKERS: [&str; 10] =
    ["uvicorn", "gunicorn", "hypercorn", "celery", "dask", "ray", "make", "ninja", "pytest", "parallel"];

/// The number of processes that load data, by the command line of a container. `None` if it does not say.
fn loaders(container: &Node<'_>, trains: bool) -> Option<i64> {
    let all = words(container);
    // The workers are those of Ray, or threads of TensorFlow.
    let is_tensorflow = image_of(container).is_some_and(|image| image.repository.contains("tensorflow"));
    if is_tensorflow || entry(container, "RAY_ADDRESS").is_some() {
        return None;
    }
    // Another command of the line, such as a download, has workers of its own.
    let is_end = |word: &Word<'_>| matches!(word.text.as_str(), ";" | "&&" | "||" | "|" | "&");
    let words = all.split(is_end).next_back()?;
    if words.iter().any(|word| WITH_OTHER_WORKERS.contains(&base_name(&word.text))) {
        return None;
    }
    let at = |at: usize| {
        let (text, next) = (words[at].text.as_str(), words.get(at + 1).map_or("", |next| next.text.as_str()));
        let is_option = text.starts_with('-');
        let (name, value) = text.split_once('=').or(is_option.then_some((text, next)))?;
        // `data.num_workers=8` sets a field of the configuration of Hydra and of Lightning.
        let name = name.trim_start_matches(['-', '+']).rsplit('.').next()?.replace('_', "-");
        let counts = name == LOADERS_OF_TRAINER || trains && LOADERS.contains(&name.as_str());
        value.parse::<i64>().ok().filter(|_| counts && (is_option || name != "j"))
    };
    (0..words.len()).rev().find_map(at)
}
