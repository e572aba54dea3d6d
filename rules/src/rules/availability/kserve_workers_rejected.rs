//! The webhook of KServe rejects an InferenceService with workers.
//!
//! # Why
//! With `workerSpec` the pods of one predictor share a model. KServe sets the numbers of its GPUs and stages
//! itself, from `tensorParallelSize` and `pipelineParallelSize`, and rejects the variables
//! `TENSOR_PARALLEL_SIZE` and `PIPELINE_PARALLEL_SIZE` beside it. All pods load the model from one volume, so
//! that `storageUri` begins with `pvc://`, or with `oci://` from 0.16 on. Nothing scales such a predictor: the
//! annotation `serving.kserve.io/autoscalerClass` has no other value than `none` from 0.15 on. `workerSpec` has
//! one container.
//!
//! # Fix
//! Write the numbers in `workerSpec`, copy the model to a volume that all pods can mount, and leave autoscaling
//! out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: serving.kserve.io/v1beta1
//!  kind: InferenceService
//!  metadata:
//!    name: chat
//!    annotations: {serving.kserve.io/autoscalerClass: none}
//!  spec:
//!    predictor:
//!      model:
//!        modelFormat: {name: huggingface}
//! -      storageUri: s3://models/chat # <-
//! +      storageUri: pvc://models/chat
//!      workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 4}
//! ```
//!
//! # References
//! - <https://kserve.github.io/website/docs/model-serving/generative-inference/multi-node>
//! - <https://github.com/kserve/kserve/pull/3972>

use crate::rules::prelude::*;
use crate::workload::environment::entry;

pub(crate) static RULE: Rule = Rule {
    id: "kserve-workers-rejected",
    kinds: &[Kind::INFERENCE_SERVICE],
    docs: docs(include_str!("kserve_workers_rejected.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

const CLASS: &str = "serving.kserve.io/autoscalerClass";
/// Variables of the numbers, and the fields for them.
const SIZES: [(&str, &str); 2] =
    [("TENSOR_PARALLEL_SIZE", "tensorParallelSize"), ("PIPELINE_PARALLEL_SIZE", "pipelineParallelSize")];

/// What the webhook checks: `validateMultiNodeVariables` of KServe 0.15 to 0.20.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let predictor = object.path(&["spec", "predictor"]);
    let (workers, model) = (predictor.get("workerSpec"), predictor.get("model"));
    if !workers.is_mapping() || object.is_partial() {
        return None;
    }
    if let Some(second) = workers.get("containers").items().nth(1) {
        ctx.report(&second, "KServe rejects more than one container of the workers")
            .help("keep the container `worker-container`");
    }
    if !model.is_mapping() {
        return None;
    }
    for (variable, field) in SIZES {
        if let Some(entry) = entry(&model, variable) {
            ctx.report(
                &entry.get("name"),
                format!("KServe rejects the variable `{variable}` beside `workerSpec`"),
            )
            .identified_by(variable)
            .help(format!("write `{field}` in `workerSpec`"));
        }
    }
    let uri = model.get("storageUri");
    if let Some(text) = uri.text()
        && !["pvc://", "oci://"].iter().any(|known| text.starts_with(known))
        && text.contains("://")
    {
        ctx.report(
            &uri,
            "KServe rejects this `storageUri` beside `workerSpec`: all pods load the model from one volume",
        )
        .help("copy the model to a volume that all pods can mount, and write `pvc://<claim>/<path>`");
    }
    let class = object.path(&["metadata", "annotations", CLASS]);
    if let Some(text) = class.text().filter(|text| *text != "none") {
        ctx.report(
            &class,
            format!("KServe 0.15 and later reject the autoscaler `{}` beside `workerSpec`", ellipsize(text)),
        )
        .severity(Severity::Warning)
        .help("write `none`");
    }
    None
}
