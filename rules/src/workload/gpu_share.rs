//! Parts of a GPU that pods ask for by an annotation, which the schedulers of KAI and Run:ai read.
//!
//! Source: KAI `pkg/common/constants`, `pkg/binder/plugins/gpusharing/gpu-request` and `pkg/admission` (0.6 to 0.9;
//! from 0.17 on the annotations of a container), and Run:ai's page on GPU fractions. KAI's webhook leaves pods alone
//! that do not name its scheduler; the webhook of Run:ai sets the scheduler of pods in the namespaces of its projects.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

pub(crate) const KAI_QUEUE: Kind = Kind::new("scheduling.run.ai", "Queue");
/// The scheduler of KAI, and the label of pods, or of the object that makes them, with their queue.
pub(crate) const KAI_SCHEDULER: &str = "kai-scheduler";
const KAI_LABEL: &str = "kai.scheduler/queue";

/// The annotation of a template that asks for a part of a GPU, with its key: for the pod, or for one of its containers, as
/// `nvidia.com/container.main.gpu-memory.request`.
pub(crate) fn gpu_share<'a>(template: &Template<'a>) -> Option<(&'a str, Node<'a>)> {
    let is_of_container = |key: &str| {
        let rest = key.strip_prefix("nvidia.com/container.");
        rest.is_some_and(|rest| rest.ends_with(".gpu-memory.request") || rest.ends_with(".gpu-memory.limit"))
    };
    let annotations = template.metadata.get("annotations").entries();
    annotations.into_iter().find(|(key, value)| {
        value.is_set() && (matches!(*key, "gpu-fraction" | "gpu-memory") || is_of_container(key))
    })
}

/// The label with the queue of KAI: that of the owner counts before that of the pods.
pub(crate) fn kai_queue<'a>(object: &'a Object, template: &Template<'a>) -> Node<'a> {
    let of_owner = object.path(&["metadata", "labels"]).get(KAI_LABEL);
    if of_owner.is_set() { of_owner } else { template.metadata.get("labels").get(KAI_LABEL) }
}

/// Whether the default scheduler places the pods: nothing names another one, and no operator does it instead, as KubeRay
/// does for its batch scheduler.
pub(crate) fn is_left_to_default_scheduler(template: &Template<'_>) -> bool {
    let (object, _) = template.place;
    matches!(object.group(), "" | "apps" | "batch")
        && !template.spec.has_unknown_key()
        && template.spec.get("schedulerName").is_absent()
}
