//! Converts the ScaledObject and TriggerAuthentication of KEDA 1 to KEDA 2.

use serde_json::json;

use super::ConversionError;
use super::draft::PatchBuilder;
use crate::lint::fix::Fix;
use crate::object::Object;

const API_VERSION: &str = "keda.sh/v1alpha1";

/// The fix that converts an object to KEDA 2. A ScaledObject with `scaleType: job` becomes a ScaledJob.
pub(crate) fn convert(object: &Object) -> Result<Fix, ConversionError> {
    if object.is_partial() {
        return Err("convert the base first, then write the patch against its new paths".into());
    }
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!(API_VERSION))?;
    if object.kind() != "ScaledObject" {
        return Ok(draft.into_fix("move it to `keda.sh`"));
    }
    let scale_type = draft.text(&["spec", "scaleType"]).map(str::to_owned);
    match scale_type.as_deref() {
        Some("job") => {
            if draft.get(&["spec", "jobTargetRef"]).is_none() {
                return Err("a job without `spec.jobTargetRef` says nothing to run".into());
            }
            draft.set(&["kind"], json!("ScaledJob"))?;
            // KEDA 1 ignored the last two for jobs, and a ScaledJob has no cool-down period.
            for field in ["scaleType", "cooldownPeriod", "minReplicaCount"] {
                draft.remove(&["spec", field]);
            }
            Ok(draft.into_fix("make it a ScaledJob; check each trigger's keys against KEDA 2"))
        }
        None if draft.get(&["spec", "scaleType"]).is_some() => {
            Err("a placeholder hides `spec.scaleType`".into())
        }
        Some("deployment") | None => {
            draft.remove(&["spec", "scaleType"]);
            for (old, new) in [("deploymentName", "name"), ("containerName", "envSourceContainerName")] {
                draft.move_to(&["spec", "scaleTargetRef", old], &["spec", "scaleTargetRef", new])?;
            }
            Ok(draft.into_fix("move it to `keda.sh`; check each trigger's keys against KEDA 2"))
        }
        Some(other) => Err(format!("KEDA 1 knew no `scaleType: {other}`")),
    }
}
