//! The pods of a workload that have to run at the same time, and what they request together.

use crate::facts::quantity::Quantity;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::devices::{pod_devices, pods_of};
use crate::workload::ray::{self, Extent};
use crate::workload::suspended::is_suspended;
use crate::workload::template::{Template, templates};

/// The pods of one template.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    pub template: Template<'a>,
    /// The least number with which the workload runs: the minimum of an elastic one.
    pub pods: i64,
    /// The field with the number, which may be absent.
    pub field: Node<'a>,
}

/// The pods that run at a time, by template. `None` if a number is unknown, the workload is or may be suspended, or the kind
/// has no fixed number of pods. A queue may resume it, but then decides when it fits.
pub(crate) fn members(object: &Object) -> Option<Vec<Members<'_>>> {
    if is_suspended(object) != Some(false) {
        return None;
    }
    templates(object).into_iter().map(|template| member(object, template)).collect()
}

/// The pods of as many Jobs as a ScaledJob may run at a time. `None` for other kinds, and where the number is not written: few mean
/// the hundred that KEDA has by default.
pub(crate) fn most_of_jobs(object: &Object) -> Option<Vec<Members<'_>>> {
    let field = object.path(&["spec", "maxReplicaCount"]);
    let jobs = field.int().filter(|_| object.is(Kind::SCALED_JOB))?;
    let of_one = members(object)?.into_iter();
    Some(of_one.map(|m| Members { pods: m.pods.saturating_mul(jobs), field: field.clone(), ..m }).collect())
}

/// Whether an object is an InferenceService, whose components have bounds of replicas of their own.
pub(crate) fn is_inference_service(object: &Object) -> bool {
    object.is(Kind::INFERENCE_SERVICE)
}

/// The least and the largest number of pods of a component of an InferenceService. KServe scales it if the maximum is larger.
/// `None` if it is unknown, or the service is stopped.
pub(crate) fn component_replicas(template: &Template<'_>) -> Option<(i64, i64)> {
    if is_suspended(template.place.0) != Some(false) {
        return None;
    }
    let least = template.spec.get("minReplicas").int_or(1)?;
    Some((least, least.max(template.spec.get("maxReplicas").int_or(0)?)))
}

fn member<'a>(object: &'a Object, template: Template<'a>) -> Option<Members<'a>> {
    let pointer = template.spec.pointer();
    let above = |levels: usize| object.root().at(&pointer.above(levels));
    let is_below = |name: &str| pointer.steps().iter().any(|step| step == name);
    let (pods, field) = match object.group() {
        "ray.io" => {
            let field =
                if is_below("workerGroupSpecs") { above(2).get("replicas") } else { object.get("spec") };
            (ray::pods_of_template(&template, Extent::Least)?, field)
        }
        "kubeflow.org" => {
            let role = above(2);
            let least = object.path(&["spec", "elasticPolicy", "minReplicas"]);
            let pods =
                if least.is_set() && is_below("Worker") { least.int()? } else { pods_of(object, &template)? };
            (pods, role.get("replicas"))
        }
        "batch.volcano.sh" => {
            let task = above(2);
            let least = task.get("minAvailable");
            let pods = if least.is_set() { least.int()? } else { pods_of(object, &template)? };
            (pods, task.get("replicas"))
        }
        "batch" | "keda.sh" => (pods_of(object, &template)?, above(2).get("parallelism")),
        "jobset.x-k8s.io" => (pods_of(object, &template)?, above(4).get("replicas")),
        _ => (pods_of(object, &template)?, object.path(&["spec", "replicas"])),
    };
    Some(Members { template, pods, field })
}

/// What the members of a gang request of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Demand<'a> {
    pub resource: &'a str,
    /// All devices together.
    pub total: i64,
    /// The number of pods with devices.
    pub pods: i64,
    /// The devices of a pod, if all pods have the same number.
    pub each: Option<i64>,
    /// The first members with devices.
    pub first: Members<'a>,
}

/// The accelerators that the members request, by resource.
pub(crate) fn demands<'a>(members: &[Members<'a>], resources: &[&'static str]) -> Vec<Demand<'a>> {
    let mut out = Vec::new();
    for resource in resources {
        let mut found: Option<Demand<'a>> = None;
        for member in members.iter().filter(|member| member.pods > 0) {
            let Some(count) = pod_devices(&member.template).get(resource).map(|devices| devices.count) else {
                continue;
            };
            let total = count.saturating_mul(member.pods);
            match &mut found {
                Some(demand) => {
                    demand.total = demand.total.saturating_add(total);
                    demand.pods = demand.pods.saturating_add(member.pods);
                    demand.each = demand.each.filter(|each| *each == count);
                }
                None => {
                    found = Some(Demand {
                        resource,
                        total,
                        pods: member.pods,
                        each: Some(count),
                        first: member.clone(),
                    });
                }
            }
        }
        out.extend(found);
    }
    out
}

/// Whether something starts the pods of a workload together or not at all: a queue, a scheduler with groups of pods, or an
/// operator that asks for one.
pub(crate) fn is_gang_scheduled(object: &Object, template: &Template<'_>) -> bool {
    const SIGNS: [&str; 5] = [
        "kueue.x-k8s.io/",
        "scheduling.x-k8s.io/",
        "scheduling.k8s.io/group-name",
        "volcano.sh/",
        "kai.scheduler/",
    ];
    let maps = [object.get("metadata"), template.metadata.clone()];
    let mut keys =
        maps.iter().flat_map(|m| [m.get("labels"), m.get("annotations")]).flat_map(|map| map.entries());
    let scheduler = template.spec.get("schedulerName");
    keys.any(|(key, _)| SIGNS.iter().any(|sign| key.contains(sign)))
        || (scheduler.is_set() && scheduler.text() != Some("default-scheduler"))
        || object.group() == "batch.volcano.sh"
        || object.path(&["spec", "runPolicy", "schedulingPolicy"]).is_set()
        || object.path(&["spec", "batchSchedulerOptions"]).is_set()
}

/// The request of a pod for a native resource or a device, in thousandths: the sum over containers and sidecars, where a limit
/// without a request is the request. Containers that request nothing count as nothing. `side` is `requests` or `limits`.
pub(crate) fn request_of<'a>(
    template: &Template<'a>,
    side: &str,
    resource: &str,
) -> Option<(i128, Node<'a>)> {
    let spec = &template.spec;
    let amount = |resources: &Node<'a>| {
        let own = resources.path(&[side, resource]);
        let node = if own.is_set() || side == "limits" { own } else { resources.path(&["limits", resource]) };
        node.is_set().then_some(node)
    };
    let containers = template.sidecars().chain(template.containers());
    let pod = amount(&spec.get("resources"));
    let nodes = match pod {
        Some(node) => vec![node],
        None => containers.filter_map(|container| amount(&container.get("resources"))).collect::<Vec<_>>(),
    };
    let first = nodes.first()?.clone();
    let mut sum = 0i128;
    for node in &nodes {
        sum = sum.checked_add(Quantity::at(node)?.milli())?;
    }
    Some((sum, first))
}
