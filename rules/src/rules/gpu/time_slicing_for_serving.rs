//! Time-slicing shares a GPU between pods and isolates neither memory nor time.
//!
//! # Why
//! Time slices of a GPU take turns. Each pod sees all the memory, so that one can end the others by
//! filling it, and the response time of a server depends on what its neighbours do. MIG divides memory
//! and compute in hardware, where the GPU can. This is a warning where servers of the same file or
//! kustomization ask for the shared resource, otherwise advice. Servers that limit themselves to their share
//! (`--gpu-memory-utilization`) fit beside each other. With the default of 0.9 a second vLLM does not start.
//! Nothing is reported where the input shows other users of the GPUs alone.
//!
//! # Fix
//! Use MIG profiles on GPUs that have MIG (A100, H100 and later), or MPS with memory limits; keep
//! time-slicing for development and for work that nobody waits for. Otherwise give each server a share of the
//! memory that leaves room for the others.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: device-plugin, namespace: gpu-operator}
//!  data:
//!    any: | # <-
//!      version: v1
//! -    sharing:
//! -      timeSlicing:
//! -        resources:
//! -          - {name: nvidia.com/gpu, replicas: 4}
//! +    flags:
//! +      migStrategy: mixed
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: rank, namespace: search}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: rank}}
//!    template:
//!      metadata: {labels: {app: rank}}
//!      spec:
//!        containers:
//!          - name: server
//!            image: nvcr.io/nvidia/tritonserver:25.08-py3
//!            command: [tritonserver, "--model-repository=s3://search-models/rank"]
//! -          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, nvidia.com/gpu: 1}}
//! +          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, nvidia.com/mig-1g.10gb: 1}}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html>

use crate::rules::class_evidence::CLASSED_WORKLOADS;
use crate::rules::gpu::gpu_sharing_mismatch::SHARING_SOURCES;
use crate::rules::gpu::sharing;
use crate::rules::prelude::*;
use crate::workload::launcher::MemoryShare;
use crate::workload::mig::is_product_without_mig;

pub(crate) static RULE: Rule = Rule {
    id: "time-slicing-for-serving",
    kinds: &SHARING_SOURCES,
    reads: kinds![CLASSED_WORKLOADS, sharing::READERS, SHARING_SOURCES],
    docs: docs(include_str!("time_slicing_for_serving.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if sharing::unused(object, ctx).is_some() {
        return None;
    }
    let mut done = false;
    sharing::for_each(object, |entry, config| {
        let slicing = config.path(&["sharing", "timeSlicing"]);
        let Some(resource) = slicing.get("resources").items().next().filter(|_| !done) else { return };
        let pointer = entry.pointer();
        let is_used = || pointer.steps().last().is_some_and(|key| sharing::is_of_all_nodes(object, key));
        if !object.is(Kind::CONFIG_MAP) && !is_used() {
            return;
        }
        // One finding for all configurations of an object.
        done = true;
        report(object, entry, &slicing, &resource, ctx);
    });
    None
}

fn report(
    object: &Object,
    entry: &Node<'_>,
    slicing: &Node<'_>,
    resource: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = resource.get("name").text().unwrap_or("nvidia.com/gpu");
    let renamed = match slicing.get("renameByDefault").bool() == Some(true) {
        true => format!("{name}.shared"),
        false => resource.get("rename").text().unwrap_or(name).to_owned(),
    };
    let replicas = resource.get("replicas").int();
    // The plugin rejects fewer.
    if replicas.is_some_and(|replicas| replicas < 2) {
        return None;
    }
    let users = ctx.cluster().views().requesting(&renamed);
    let is_server =
        |user: &&Object| ctx.cluster().likely_pairs(object, user) && ctx.class_of(user).serves_requests();
    let servers: Vec<&Object> = users.iter().filter(is_server).collect();
    // Transcoding, notebooks and batches share a GPU well, and so do most of what the charts of a whole cluster install.
    if servers.is_empty() && (!users.is_empty() || has_other_charts(object, ctx)) {
        return None;
    }
    let server = servers.into_iter().find(|user| !fits(user, replicas));
    let pods = replicas.map_or("several".to_owned(), |n| n.to_string());
    let Some(server) = server else {
        if names_gpu_without_mig(object, entry) {
            return None;
        }
        let message =
            format!("{pods} pods share a GPU by turns: nothing isolates their memory or response times");
        ctx.report(entry, message).at_key().severity(Severity::Info).help(HELP);
        return None;
    };
    let name = server.display_name();
    let share = memory_share(server).filter(|share| share.percent > 50);
    let (message, node) = match &share {
        Some(MemoryShare { percent, node }) => {
            let part = match node {
                Some(_) => format!("{percent} %"),
                None => "nine tenths".to_owned(),
            };
            (
                format!(
                    "{pods} pods share a GPU, and `{name}` takes {part} of its memory: a second one cannot start"
                ),
                node.clone(),
            )
        }
        None => (
            format!("{pods} pods share a GPU by turns, `{name}` among them: nothing isolates their memory"),
            None,
        ),
    };
    let place = node.unwrap_or_else(|| server.path(&["metadata", "name"]));
    let finding = ctx.report(entry, message).at_key();
    finding.help(if share.is_some() {
        "give each server its share, such as `--gpu-memory-utilization=0.2`, or use MIG"
    } else {
        HELP
    });
    finding.related(server, &place, "asks for a slice");
    None
}

/// Whether the input has charts beside an object that installs one, or has the configuration of one.
fn has_other_charts(object: &Object, ctx: &Context<'_>) -> bool {
    let charts = SHARING_SOURCES.iter().filter(|kind| **kind != Kind::CONFIG_MAP);
    charts.flat_map(|kind| ctx.cluster().of(*kind)).any(|other| !other.is_same_resource(object))
}

/// Whether the name of a configuration or of its object is that of a GPU without MIG: `v100-32gb`, `rtx4090`. Its GPUs are shared by
/// turns or not at all.
fn names_gpu_without_mig(object: &Object, entry: &Node<'_>) -> bool {
    let pointer = entry.pointer();
    let key = pointer.steps().last().map_or("", String::as_str);
    let is_product =
        |word: &str| is_product_without_mig(word) || ["rtx", "gtx"].iter().any(|line| word.starts_with(line));
    [object.name(), key].iter().any(|name| {
        let lower = name.to_ascii_lowercase();
        lower.split(['-', '_', '.']).any(is_product)
    })
}

const HELP: &str = "use MIG where the GPU has it; keep time-slicing for work that nobody waits for";

/// The share of a GPU's memory that the server of a workload takes. `None` if it is unknown, or there are several.
fn memory_share(object: &Object) -> Option<MemoryShare<'_>> {
    let templates = templates(object);
    let mut shares = templates
        .iter()
        .filter(|template| requests_accelerator(template))
        .flat_map(Template::containers)
        .filter_map(|container| Launch::of(&container)?.memory_share());
    let share = shares.next()?;
    shares.next().is_none().then_some(share)
}

/// Whether as many servers like this one as share a GPU have room in its memory.
fn fits(object: &Object, replicas: Option<i64>) -> bool {
    memory_share(object).zip(replicas).is_some_and(|(share, replicas)| share.percent * replicas <= 100)
}
