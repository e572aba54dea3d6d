//! A model server keeps a larger cache in memory or on a disk than its limit allows.
//!
//! # Why
//! vLLM and SGLang can keep a KV cache, or a part of the weights, in the memory of the node. Some of the
//! options for it are amounts for each GPU: `LMCACHE_MAX_LOCAL_CPU_SIZE: "60"` with `--tensor-parallel-size
//! 4` is 240 GiB, which four processes allocate when they start, and so are `--hicache-size` of SGLang and
//! `--cpu-offload-gb` of vLLM. `--kv-offloading-size`, and `cpu_bytes_to_use` in `--kv-transfer-config`, are the
//! sum. Where the amount exceeds the memory limit, the container is killed while it loads its model, again and
//! again, on a node that costs money. vLLM keeps this sum in a file in `/dev/shm`: with
//! `TieringOffloadingSpec`, and from 0.29 on always. Without a volume there it has 64 MiB.
//!
//! `LMCACHE_MAX_LOCAL_DISK_SIZE` is an amount for each GPU as well. The files grow until the limit for ephemeral
//! storage, the `sizeLimit` of the volume at `LMCACHE_LOCAL_DISK`, or the size of its claim ends them: the
//! kubelet evicts the pod, or the disk is full. Without these it is reported where they may take twice the
//! volume of the nodes.
//!
//! llama.cpp keeps the state of prompts that it may see again in the memory of the node: up to 8 GiB,
//! unless `--cache-ram` says another number of MiB. It grows with each conversation, until the limit ends
//! it. Ollama 0.30 and later run llama.cpp for each model, and leave it this default: only
//! `LLAMA_ARG_CACHE_RAM` changes it. The default is reported of containers with a GPU.
//!
//! LMCache in a process of its own, with a configuration file, or with settings that make it allocate less
//! is left alone. Of models whose attention is not known, by their name or the folder that they are in, one
//! process is counted: of MLA models only the first one allocates.
//!
//! # Fix
//! Write the share of one GPU, and leave memory for the processes themselves, or raise the limit.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: sglang
//!        image: lmsysorg/sglang:v0.5.5
//!        command: [python3, -m, sglang.launch_server]
//!        args:
//!          - --model-path=Qwen/Qwen3-32B
//!          - --host=0.0.0.0
//!          - --tp-size=4
//!          - --enable-hierarchical-cache
//! -        - --hicache-size=64 # <-
//! +        - --hicache-size=32
//!        resources:
//!          requests: {cpu: 16, memory: 192Gi, nvidia.com/gpu: 4}
//!          limits: {memory: 192Gi, nvidia.com/gpu: 4}
//!        volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!    volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
//! ```
//!
//! # References
//! - <https://github.com/LMCache/LMCache/issues/2901>
//! - <https://github.com/LMCache/LMCache/issues/1399>
//! - <https://docs.sglang.io/docs/advanced_features/hicache_design>
//! - <https://docs.vllm.ai/en/latest/configuration/engine_args/>
//! - <https://github.com/ggml-org/llama.cpp/pull/16391>
//! - <https://github.com/ollama/ollama/issues/18264>

use std::path::Path;

use crate::facts::quantity::{amount, amount_rounded_up};
use crate::karpenter::node_class::{PodVolume, volume_gib};
use crate::platform::{Release, release_of};
use crate::rules::gpu::llama_layers_on_cpu::build_of;
use crate::rules::gpu::model_larger_than_volume::room_at;
use crate::rules::prelude::*;
use crate::rules::scheduling::gpu_helper_missing::class_of;
use crate::source::with_embedded;
use crate::workload::attention::{heads_of, heads_of_folder};
use crate::workload::checkpoint::{mount_of, volume};
use crate::workload::environment::{is_open, may_define, variable};
use crate::workload::gpu::has_device;
use crate::workload::model::published_weights;
use crate::workload::server::release::published;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "host-cache-over-limit",
    kinds: WORKLOAD_KINDS,
    reads: kinds![
        RUNTIMES,
        [Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS, Kind::NODE_POOL, Kind::EC2_NODE_CLASS]
    ],
    docs: docs(include_str!("host_cache_over_limit.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

const GIB: f64 = (1u64 << 30) as f64;
const GB: f64 = 1e9;

/// Memory or disk space that a server surely takes.
struct Cache<'a> {
    /// The option or the variable.
    name: &'static str,
    node: Node<'a>,
    /// Bytes of each process that allocates them, and the number of these.
    each: i128,
    processes: i64,
}

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if !container.has_unknown_key() && !is_model_of_runtime(&container) {
            inspect(template, &container, ctx);
            inspect_disk(template, &container, ctx);
        }
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let limit = container.path(&["resources", "limits", "memory"]);
    let Some(most) = Quantity::at(&limit).map(Quantity::value) else {
        return exceeds_shared_memory(template, container, ctx);
    };
    let launch = Launch::of(container)?;
    if launch.program.is(ServerId::LlamaCpp) || launch.program.is(ServerId::Ollama) {
        return keeps_prompts(&launch, container, &limit, most, ctx);
    }
    let found = [of_lmcache(&launch, container), of_sglang(&launch), of_vllm(&launch, container)];
    let is_too_large = |cache: &Cache<'_>| cache.each * i128::from(cache.processes) > most;
    let Some(cache) = found.into_iter().flatten().find(is_too_large) else {
        return exceeds_shared_memory(template, container, ctx);
    };
    let most = amount("memory", most * 1000);
    let message = format!("{}, and the container is killed at {most}", described(&cache));
    let object = ctx.object();
    let help = match cache.processes {
        1 => "lower it, or raise the memory limit",
        _ => "divide it by the number of GPUs, or raise the memory limit",
    };
    ctx.report(&cache.node, message).help(help).related(object, &limit, "the memory limit");
    None
}

/// Reports the states of prompts that llama.cpp keeps (`cache_ram_mib` of `common/common.h`, 8192 by default, 0 for none and -1
/// for no limit), if they exceed the memory limit. Servers of embeddings keep none.
fn keeps_prompts<'a>(
    launch: &Launch<'a>,
    container: &Node<'a>,
    limit: &Node<'a>,
    most: i128,
    ctx: &mut Context<'_>,
) -> Option<()> {
    const NAME: &str = "LLAMA_ARG_CACHE_RAM";
    const OTHERS: [&str; 5] = ["embedding", "embeddings", "reranking", "rerank", "no-cache-prompt"];
    const OTHER_VARIABLES: [&str; 4] = [
        "LLAMA_ARG_EMBEDDINGS",
        "LLAMA_ARG_RERANKING",
        "LLAMA_ARG_CACHE_PROMPT",
        "LLAMA_ARG_NO_CACHE_PROMPT",
    ];
    if launch.may_have_more_options()
        || launch.has(&OTHERS)
        || is_open(container)
        || may_define(container, |name| OTHER_VARIABLES.contains(&name))
    {
        return None;
    }
    let written = match launch.option(&["cache-ram", "cram"]) {
        OptionValue::Text(text, node) => Some((text, node, "--cache-ram")),
        OptionValue::Unknown => return None,
        OptionValue::Absent => variable(container, NAME)?.map(|(text, node)| (text.into_owned(), node, NAME)),
    };
    let killed_at = amount("memory", most * 1000);
    let server = launch.program.server()?;
    let setting = if server.id == ServerId::Ollama { NAME } else { "--cache-ram" };
    let help = format!("write a smaller `{setting}`, in MiB, or raise the memory limit");
    let Some((text, node, name)) = written else {
        if PROMPTS <= most || !keeps_by_default(launch, container) {
            return None;
        }
        let what = if server.id == ServerId::Ollama { "for each model" } else { "by default" };
        let message =
            format!("{} keeps up to 8Gi of prompts {what}, and is killed at {killed_at}", server.name);
        ctx.report(limit, message).help(help);
        return None;
    };
    let cache = Cache { name, node, each: text.parse::<i128>().ok()?.checked_mul(1 << 20)?, processes: 1 };
    if cache.each > most {
        let message = format!("{}, and the container is killed at {killed_at}", described(&cache));
        let object = ctx.object();
        ctx.report(&cache.node, message).help(help).related(object, limit, "the memory limit");
    }
    None
}

/// What llama.cpp keeps of prompts by default.
const PROMPTS: i128 = 8192 << 20;

/// Whether an image is llama.cpp as its authors publish it, and surely newer than its cache of prompts (of October 2025), or an
/// Ollama that runs it (`llm/llama_server.go`, from 0.30.0 on). Without a GPU many have a tiny model, or one for embeddings.
fn keeps_by_default(launch: &Launch<'_>, container: &Node<'_>) -> bool {
    const FLOATING: [&str; 4] = ["server", "server-cuda", "server-vulkan", "server-rocm"];
    if !has_device(container) {
        return false;
    }
    let image = container.get("image");
    let Some(text) = image.text() else { return false };
    // A digest alone may be of any release.
    let default = if text.contains('@') { "" } else { "latest" };
    let tag = ImageRef::parse(text).tag.unwrap_or(default);
    let Some(server) = launch.program.server().filter(|server| server.is_in_published_image_of(container))
    else {
        return false;
    };
    match server.id {
        ServerId::Ollama => {
            let is_new = release_of(tag).is_some_and(|release| release >= [0, 30, 0]);
            is_new || ["latest", "rocm"].contains(&tag)
        }
        _ => build_of(&image).map_or(FLOATING.contains(&tag), |build| build >= 7000),
    }
}

/// The amount of a cache, for a message.
fn described(cache: &Cache<'_>) -> String {
    let text = |bytes: i128| amount_rounded_up("memory", bytes * 1000);
    let all = text(cache.each * i128::from(cache.processes));
    match cache.processes {
        1 => format!("`{}` is {all}", cache.name),
        n => format!("`{}` is {} for each of {n} GPUs, {all} in all", cache.name, text(cache.each)),
    }
}

/// Reports files of LMCache that do not fit in their volume. Each process has a limit of its own for what it writes
/// (`max_cache_size` of `lmcache/v1/storage_backend/local_disk_backend.py`, 0.5.6).
fn inspect_disk(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const NAME: &str = "LMCACHE_MAX_LOCAL_DISK_SIZE";
    let launch = Launch::of(container)?;
    let processes = lmcache_processes(&launch, container)?;
    let (text, node) = variable(container, NAME)??;
    let (place, _) = variable(container, "LMCACHE_LOCAL_DISK")??;
    // Several folders are separated by commas.
    let folder = place.strip_prefix("file://").unwrap_or(&place).trim_end_matches('/');
    if !folder.starts_with('/') || folder.contains([',', '$']) {
        return None;
    }
    let cache = Cache { name: NAME, node, each: bytes(&text, GIB)?, processes };
    let Some(room) = room_at(Path::new(folder), template, container, ctx) else {
        return exceeds_nodes(&cache, folder, template, container, ctx);
    };
    let most = i128::from(room.megabytes) * 1_000_000;
    if cache.each * i128::from(cache.processes) <= most + 1_000_000 {
        return None;
    }
    let most = amount_rounded_up("memory", most * 1000);
    let message = format!("{}, and {} {most}", described(&cache), room.has);
    let object = ctx.object();
    let finding = ctx.report(&cache.node, message);
    finding.help(format!("{}, or leave more room: {}", smaller(&cache), room.otherwise));
    finding.related(object, &room.node, "the limit");
    if let Some((claim, size)) = room.claim {
        finding.related(claim, &size, "the size of the claim");
    }
    None
}

/// Reports files in the file system of the node that need twice as much as it has: the kubelet evicts the pod when it is nearly full.
fn exceeds_nodes(
    cache: &Cache<'_>,
    folder: &str,
    template: &Template<'_>,
    container: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    if let Some(mount) = mount_of(template, container, folder)? {
        let directory = volume(template, mount.get("name").text()?)?.get("emptyDir");
        let is_on_disk = directory.get("medium").is_absent() && directory.get("sizeLimit").is_absent();
        if directory.is_absent() || directory.is_unknown() || !is_on_disk {
            return None;
        }
    }
    let found = ctx.pools_for(template)?;
    let mut largest = None;
    for pool in found.all_known()? {
        let pool = NodePool::new(pool.object())?;
        let class = class_of(&pool, ctx)?;
        let has_disks = || pool.types().is_none_or(|types| types.iter().any(|one| one.instance_store_gb > 0));
        // User data may join the local disks, and mount them somewhere.
        if has_disks() && (class.raid0()? || class.get("userData").is_set()) {
            return None;
        }
        let gib = match class.pod_volume() {
            PodVolume::Default(gib) => gib,
            PodVolume::Mapped(ebs) => ebs.get("volumeSize").text().and_then(volume_gib)?,
            PodVolume::Unknown => return None,
        };
        if largest.as_ref().is_none_or(|(most, _)| gib > *most) {
            largest = Some((gib, class.object().clone()));
        }
    }
    let (gib, class) = largest?;
    let all = cache.each * i128::from(cache.processes);
    if all < 2 * (i128::from(gib) << 30) {
        return None;
    }
    let message = format!("{}, and its nodes have {gib}Gi for images and pods", described(cache));
    ctx.report(&cache.node, message)
        .help(format!("{}, or leave more room: the kubelet evicts the pod", smaller(cache)))
        .related(&class, &class.path(&["spec", "blockDeviceMappings"]), "the volume of the nodes");
    None
}

/// How to make a cache smaller, for a help.
fn smaller(cache: &Cache<'_>) -> &'static str {
    if cache.processes == 1 { "lower it" } else { "divide it by the number of GPUs" }
}

fn bytes(text: &str, unit: f64) -> Option<i128> {
    let amount =
        text.parse::<f64>().ok().filter(|amount| amount.is_finite() && (0.0..1e6).contains(amount))?;
    Some((amount * unit) as i128)
}

/// LMCache inside of vLLM: each process allocates `int(max_local_cpu_size * 1024**3)` bytes (`initialize_allocator` of
/// `lmcache/v1/storage_backend/local_cpu_backend.py`, 2026), of MLA models the first alone unless its extra configuration says otherwise.
fn of_lmcache<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<Cache<'a>> {
    const NAME: &str = "LMCACHE_MAX_LOCAL_CPU_SIZE";
    /// Variables with which it allocates in another way.
    const OTHERS: [&str; 4] = [
        "LMCACHE_ENABLE_LAZY_MEMORY_ALLOCATOR",
        "LMCACHE_LOCAL_CPU_USE_HUGEPAGES",
        "LMCACHE_ENABLE_P2P",
        "LMCACHE_RESERVE_LOCAL_CPU_SIZE",
    ];
    let (text, node) = variable(container, NAME)??;
    if may_define(container, |name| OTHERS.contains(&name)) {
        return None;
    }
    let processes = lmcache_processes(launch, container)?;
    Some(Cache { name: NAME, node, each: bytes(&text, GIB)?, processes })
}

/// The processes of a container with LMCache inside of vLLM that keep a cache each. `None` if it is not there, or reads its sizes
/// elsewhere.
fn lmcache_processes<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<i64> {
    const ELSEWHERE: [&str; 2] = ["LMCACHE_CONFIG_FILE", "LMCACHE_EXTRA_CONFIG"];
    let is_elsewhere = is_open(container) || may_define(container, |name| ELSEWHERE.contains(&name));
    if !launch.program.is(ServerId::Vllm) || is_elsewhere {
        return None;
    }
    let OptionValue::Text(transfer, _) = launch.option(&["kv-transfer-config"]) else { return None };
    if !transfer.contains("LMCacheConnector") {
        return None;
    }
    let heads = |name: &str| heads_of(name).or_else(|| heads_of_folder(name));
    let is_divided = launch.model(container).is_some_and(|(name, _)| heads(&name).is_some());
    Some(if is_divided { launch.gpus().map_or(1, |(gpus, _)| gpus) } else { 1 })
}

/// HiCache of SGLang: "30 allocates 30GB (1GB = 1e9 bytes) for the host memory pool for each rank" (HiCache System Design, 0.5).
fn of_sglang<'a>(launch: &Launch<'a>) -> Option<Cache<'a>> {
    let is_on = launch.program.is(ServerId::Sglang) && launch.word_of("enable-hierarchical-cache").is_some();
    let OptionValue::Text(text, node) = launch.option(&["hicache-size"]) else { return None };
    let (processes, _) = launch.gpus().filter(|_| is_on && !launch.may_have_more_options())?;
    Some(Cache { name: "--hicache-size", node, each: bytes(&text, GB)?, processes })
}

/// Reports a cache of vLLM that is a file in `/dev/shm` and larger than what is mounted there (`check_shm_free_space` in
/// `vllm/v1/kv_offload/cpu/shared_offload_region.py`).
fn exceeds_shared_memory(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let launch = Launch::of(container).filter(|launch| launch.program.is(ServerId::Vllm))?;
    let (cache, keeper) = offloaded(&launch)?;
    let is_file = match keeper {
        Keeper::Tiers => true,
        Keeper::Default => published(container).is_some_and(|(_, release)| release >= IN_SHARED_MEMORY),
        Keeper::Other => false,
    };
    let of_node = template.spec.get("hostIPC");
    let is_whole = !launch.may_have_more_options() && !container.get("volumeMounts").has_unknown();
    if !is_file || !is_whole || of_node.is_set() && of_node.bool() != Some(false) {
        return None;
    }
    let (most, node) = match mount_of(template, container, "/dev/shm")? {
        None => (64 << 20, container.get("volumeMounts")),
        Some(mount) => {
            let directory = volume(template, mount.get("name").text()?)?.get("emptyDir");
            let size = directory.get("sizeLimit");
            (Quantity::at(&size)?.value(), size)
        }
    };
    if cache.each <= most {
        return None;
    }
    let has = amount("memory", most * 1000);
    let message = format!("{}, a file in `/dev/shm`, which has {has}", described(&cache));
    let object = ctx.object();
    ctx.report(&cache.node, message)
        .help("lower it, or mount an emptyDir with `medium: Memory` that is larger at `/dev/shm`")
        .related(object, &node, "the volumes of the container");
    None
}

/// A release that is surely newer than the change by which the default specification keeps its blocks in shared memory
/// (vllm-project/vllm#50094 of July 2026), as `TieringOffloadingSpec` did before (#44888).
const IN_SHARED_MEMORY: Release = [0, 29, 0];

/// The part of vLLM, or the other program, that keeps blocks of the cache.
enum Keeper {
    Default,
    Tiers,
    Other,
}

/// The bytes that all ranks of vLLM offload together.
fn offloaded<'a>(launch: &Launch<'a>) -> Option<(Cache<'a>, Keeper)> {
    if let OptionValue::Text(text, node) = launch.option(&["kv-offloading-size"]) {
        let backend = launch.option(&["kv-offloading-backend"]);
        let keeper = match &backend {
            OptionValue::Absent => Keeper::Default,
            OptionValue::Text(name, _) if name == "native" => Keeper::Default,
            _ => Keeper::Other,
        };
        let cache = Cache { name: "--kv-offloading-size", node, each: bytes(&text, GIB)?, processes: 1 };
        return Some((cache, keeper));
    }
    let OptionValue::Text(text, node) = launch.option(&["kv-transfer-config"]) else { return None };
    let (each, keeper) = with_embedded(&text, |root| {
        const EXTRA: &str = "kv_connector_extra_config";
        let several = root.path(&[EXTRA, "connectors"]);
        let mut configs = std::iter::once(root.clone()).chain(several.items());
        let own = configs.find(|config| config.get("kv_connector").text() == Some("OffloadingConnector"))?;
        let extra = own.get(EXTRA);
        let keeper = match extra.get("spec_name").text() {
            Some("TieringOffloadingSpec") => Keeper::Tiers,
            None | Some("CPUOffloadingSpec") => Keeper::Default,
            Some(_) => Keeper::Other,
        };
        Some((i128::from(extra.get("cpu_bytes_to_use").int()?), keeper))
    })?;
    Some((Cache { name: "cpu_bytes_to_use", node, each, processes: 1 }, keeper))
}

/// vLLM: `cpu_offload_gb` is "the space in GiB to offload to CPU, per GPU" (`vllm/config/offload.py`), at most the weights, and
/// `kv_offloading_size` the GiB of all ranks together (`vllm/config/cache.py`, from 0.11.1 on), as `cpu_bytes_to_use` is in bytes.
fn of_vllm<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<Cache<'a>> {
    if !launch.program.is(ServerId::Vllm) || launch.may_have_more_options() {
        return None;
    }
    if let Some((cache, _)) = offloaded(launch) {
        return Some(cache);
    }
    let OptionValue::Text(text, node) = launch.option(&["cpu-offload-gb"]) else { return None };
    let (processes, _) = launch.gpus().filter(|_| !launch.is_data_parallel())?;
    let weights = published_weights(&launch.model(container)?.0)?.megabytes();
    let share = i128::from(weights) * 1_000_000 / i128::from(processes.max(1));
    Some(Cache { name: "--cpu-offload-gb", node, each: bytes(&text, GIB)?.min(share), processes })
}
