//! KServe limits a container that states no limit to less than it needs.
//!
//! # Why
//! KServe gives the first container of a predictor, a transformer or an explainer the limits that it does not
//! state: 1 CPU and 2Gi, unless the ConfigMap `inferenceservice-config` has others. A `model` gets those of its
//! runtime, and those that come with KServe have 1 CPU and 2Gi as well. To leave the CPU limit out, as is common
//! for servers with GPUs, is a limit of 1 here: with a larger request the API server rejects every pod, and the
//! InferenceService waits without an event of its own. A model server with 2Gi is killed while it loads its
//! weights, again and again, on a node whose GPU waits.
//!
//! Where the input has the ConfigMap, the values of KServe's chart or the runtime, their limits count. A runtime
//! that is neither in the input nor one that comes with KServe is left alone.
//!
//! # Fix
//! Write each limit, or none in `inferenceService.resource` of the ConfigMap (`kserve.inferenceservice.resources`
//! of the chart).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: serving.kserve.io/v1beta1
//!  kind: InferenceService
//!  metadata: {name: translate, namespace: language}
//!  spec:
//!    predictor:
//!      containers:
//!        - name: kserve-container
//!          image: registry.example.com/language/translate:3.1.0
//!          resources:
//!            requests:
//!              memory: 12Gi
//! -            cpu: 4 # <-
//! +            cpu: 4
//!            limits:
//! +            cpu: 4
//!              memory: 12Gi
//! ```
//!
//! # References
//! - <https://github.com/kserve/kserve/issues/2671>
//! - <https://github.com/kserve/kserve/pull/4032>
//! - <https://kserve.github.io/website/docs/model-serving/predictive-inference/frameworks/custom-predictor>

use super::kserve::{self, Limits, default_limits, is_served_by_model_mesh};
use crate::cluster::runtimes::{RuntimeOfModel, model_of, runtime_of_model, server_of_runtime};
use crate::facts::quantity::amount;
use crate::rules::prelude::*;
use crate::workload::devices::names_of_accelerators;
use crate::workload::gpu::{extended_resources_of, has_device};
use crate::workload::model::{ROUNDED, published_weights};

pub(crate) static RULE: Rule = Rule {
    id: "kserve-limit-implied",
    kinds: &[Kind::INFERENCE_SERVICE],
    reads: kinds![kserve::READS, [Kind::SERVING_RUNTIME, Kind::CLUSTER_SERVING_RUNTIME]],
    docs: docs(include_str!("kserve_limit_implied.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Formats of models that are served on GPUs as a rule: a toleration of their taints is for the model itself.
const ON_GPUS: [&str; 3] = ["huggingface", "tensorrt", "triton"];

/// A container, and the limits that it gets where it states none.
struct Served<'a> {
    container: Node<'a>,
    implied: Limits,
    source: Source,
}

/// Who gives a container its limits.
enum Source {
    KServe,
    PublishedRuntime,
    Runtime(Object),
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.may_lack_fields() || spec.has_unknown_key() || is_served_by_model_mesh(object) {
        return None;
    }
    let served = match model_of(object) {
        Some((_, model, format)) => of_model(object, model, format, ctx),
        None => of_component(&spec.get("predictor"), ctx),
    };
    let others = ["transformer", "explainer"].map(|name| of_component(&spec.get(name), ctx));
    for served in served.into_iter().chain(others.into_iter().flatten()) {
        // Arguments and variables, such as `$(HF_TOKEN)`, decide nothing here.
        let container = &served.container;
        if !container.has_unknown_key() && !container.get("resources").has_unknown() {
            inspect(object, &served, ctx);
        }
    }
    None
}

/// The first container of a component, to which KServe itself adds limits.
fn of_component<'a>(component: &Node<'a>, ctx: &Context<'_>) -> Option<Served<'a>> {
    let container = component.get("containers").items().next()?;
    // Of several nodes, the workers have a runtime.
    if component.has_unknown_key() || component.get("workerSpec").is_set() {
        return None;
    }
    Some(Served { container, implied: default_limits(ctx), source: Source::KServe })
}

/// The model of a predictor, which gets the limits of its runtime alone (`MergeRuntimeContainers`).
fn of_model<'a>(
    object: &Object,
    model: Node<'a>,
    format: Option<&str>,
    ctx: &Context<'_>,
) -> Option<Served<'a>> {
    let runtime = runtime_of_model(object, &model, format, ctx.cluster())?;
    let (implied, source) = match runtime {
        RuntimeOfModel::Published => (Limits::PUBLISHED, Source::PublishedRuntime),
        RuntimeOfModel::InCluster(runtime) => {
            (Limits::of(&server_of_runtime(&runtime)?), Source::Runtime(runtime))
        }
    };
    Some(Served { container: model, implied, source })
}

fn inspect(object: &Object, served: &Served<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let resources = served.container.get("resources");
    let mut rejects_memory = false;
    for (name, implied) in [("cpu", served.implied.cpu), ("memory", served.implied.memory)] {
        let request = resources.path(&["requests", name]);
        let Some(limit) = implied.filter(|_| !resources.path(&["limits", name]).is_set()) else { continue };
        let Some(requested) = Quantity::at(&request).map(Quantity::milli).filter(|asked| *asked > limit)
        else {
            continue;
        };
        rejects_memory |= name == "memory";
        let message = format!(
            "the pods are rejected: `requests.{name}` is {}, above the limit of {} that {}",
            amount(name, requested),
            amount(name, limit),
            if matches!(served.source, Source::KServe) { "KServe adds" } else { "its runtime has" }
        );
        let help = format!("write `limits.{name}` as well: to leave it out does not remove the limit");
        let finding = ctx.report(&request, message).help(help);
        relate(finding, served);
    }
    let implied = served.implied.memory.filter(|_| !resources.path(&["limits", "memory"]).is_set())?;
    if rejects_memory || implied > Limits::PUBLISHED.memory? {
        return None;
    }
    let memory = amount("memory", implied);
    let (message, help) = if has_device(&served.container) {
        let (_, devices) = names_of_accelerators(extended_resources_of(&served.container));
        let message = format!("a server with {devices} is limited to {memory} of memory: {}", adds(served));
        (message, "write `limits.memory`: the server is killed when it needs more, as while it loads a model")
    } else {
        let why = lacks_gpu(object, &served.container, implied)?;
        let message = format!("{why} is served with {memory} of memory and no GPU: {}", adds(served));
        (message, "write `limits` with `memory` and `nvidia.com/gpu`")
    };
    let finding = ctx.report(&resources.get("limits"), message).help(help);
    relate(finding, served);
    None
}

/// Who adds the limit, for a message.
fn adds(served: &Served<'_>) -> &'static str {
    if matches!(served.source, Source::KServe) {
        "KServe adds this limit"
    } else {
        "its runtime has this limit"
    }
}

fn relate(finding: &mut Finding, served: &Served<'_>) {
    if let Source::Runtime(runtime) = &served.source {
        finding.related(runtime, &runtime.path(&["metadata", "name"]), "the runtime");
    }
}

/// The model that is meant for a GPU, or does not fit in the memory, for a message.
fn lacks_gpu(object: &Object, model: &Node<'_>, limit: i128) -> Option<String> {
    let (_, _, format) = model_of(object)?;
    let uri = model.get("storageUri");
    if let Some(name) = uri.text().and_then(|uri| uri.strip_prefix("hf://")?.split(':').next()) {
        let megabytes = published_weights(name)?.megabytes() * (100 - ROUNDED) / 100;
        return (i128::from(megabytes) * 1_000_000_000 > limit).then(|| format!("`{}`", ellipsize(name)));
    }
    let tolerations = object.path(&["spec", "predictor", "tolerations"]);
    let is_for_gpus =
        |one: Node<'_>| one.get("key").text().is_some_and(|key| KARPENTER_ACCELERATORS.contains(&key));
    let format = format.filter(|format| ON_GPUS.contains(format))?;
    tolerations.items().any(is_for_gpus).then(|| format!("the {format} model"))
}
