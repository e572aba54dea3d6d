//! Whether a workload is suspended or stopped.

use crate::object::Object;

/// Whether a workload is suspended or stopped, so that it has no pods until a person or a queue resumes it. `None` if that
/// is unknown. The group of a Ray cluster has a field of its own: `workload::ray`.
///
/// `spec.suspend` is that of Job, CronJob, JobSet, RayCluster, RayJob and TrainJob, and of the objects of Flux; `runPolicy` that
/// of the Training Operator and the MPI Operator. The Jobs of a CronJob may start suspended.
pub(crate) fn is_suspended(object: &Object) -> Option<bool> {
    let spec = object.get("spec");
    let fields = [
        spec.get("suspend"),
        spec.path(&["runPolicy", "suspend"]),
        spec.path(&["jobTemplate", "spec", "suspend"]),
    ];
    // KServe compares without case.
    let stop = object.annotation("serving.kserve.io/stop");
    let is_stopped = stop.raw_text().is_some_and(|text| text.eq_ignore_ascii_case("true"));
    if is_stopped || fields.iter().any(|field| field.bool() == Some(true)) {
        return Some(true);
    }
    let is_unknown = stop.is_unknown() || fields.iter().any(|field| field.is_unknown());
    (!is_unknown).then_some(false)
}
