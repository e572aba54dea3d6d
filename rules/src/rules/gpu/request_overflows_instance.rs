//! GPU pods ask for all CPU or memory of an instance type, and do not fit on it.
//!
//! # Why
//! A node offers less than its instance type has: the kubelet and the system keep a part. A pod that
//! asks for 4 vCPU or 16 GiB because that is what a `g5.xlarge` has does not fit on it, and Karpenter
//! buys a `g5.2xlarge` with the same GPU. DaemonSets take their part as well.
//!
//! # Fix
//! Ask for somewhat less than the size that you mean: 3500m and 13Gi for one of 4 vCPU and 16 GiB.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector: {karpenter.k8s.aws/instance-family: g5}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//! -            requests: {cpu: 4, memory: 16Gi} # <-
//! +            requests: {cpu: 3500m, memory: 13Gi}
//!              limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/instance-types/>
//! - <https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>

use crate::catalog::InstanceType;
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::scheduling::{SchedulerOptions, allocatable, pod_requests};
use crate::rules::gpu::{gpu_templates, selected_types};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "request-overflows-instance",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("request_overflows_instance.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

const MIB: i128 = 1024 * 1024 * 1000;

/// From this ratio of the prices on, the overflow is a warning.
const EXPENSIVE: u64 = 3;

fn dollars(micro: u64) -> String {
    format!("{}.{:02}", micro / 1_000_000, micro / 10_000 % 100)
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object) {
        inspect(object, &template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (types, pool) = selected_types(template, ctx)?;
    let pod = to_scheduling_pod(template)?;
    let need = pod_requests(&pod);
    let gpus = need.get("nvidia.com/gpu").copied().filter(|gpus| *gpus > 0)?;
    let cpu = need.get("cpu").copied().unwrap_or(0);
    let memory = need.get("memory").copied().unwrap_or(0);
    let options = SchedulerOptions::default();
    let offers = |instance: &InstanceType| i128::from(instance.nvidia_gpu) * 1000 == gpus;
    let has = |instance: &InstanceType| {
        let (whole_cpu, whole_memory) =
            (i128::from(instance.vcpu) * 1000, i128::from(instance.memory_mib) * MIB);
        cpu <= whole_cpu && memory <= whole_memory && (cpu == whole_cpu || memory == whole_memory)
    };
    let instance = types.iter().find(|instance| offers(instance) && has(instance))?;
    let node = allocatable(instance, None, &options);
    if cpu <= node.cpu && memory <= node.memory {
        return None;
    }
    // If no type fits at all, another rule reports it.
    let fits = |other: &&'static InstanceType| {
        let node = allocatable(other, None, &options);
        i128::from(other.nvidia_gpu) * 1000 >= gpus && cpu <= node.cpu && memory <= node.memory
    };
    let larger: Vec<&'static InstanceType> = types.iter().filter(|other| fits(other)).collect();
    if larger.is_empty() {
        return None;
    }
    let region = ctx.platform().region.as_deref();
    let price = |one: &&InstanceType| Some(one.list_price(region)?.micro_dollars);
    let next = larger.iter().filter_map(|one| Some((price(one)?, *one))).min_by_key(|(price, _)| *price);
    let prices = next.zip(price(&instance));
    let (what, there) = if cpu > node.cpu {
        ("cpu", format!("{}m CPU", node.cpu))
    } else {
        ("memory", format!("{} MiB", node.memory / MIB))
    };
    let container = template.containers().find(|c| c.path(&["resources", "requests", what]).is_set())?;
    let requests = container.path(&["resources", "requests"]);
    let name = object.display_name();
    let type_name = instance.name;
    let message = format!("`{name}` does not fit on `{type_name}`, whose nodes offer {there}");
    let finding = ctx.report(&requests, message);
    match prices {
        Some(((next, larger), own)) => {
            let (own_price, next_price) = (dollars(own), dollars(next));
            finding.help(format!(
                "ask for less: the pod goes to `{}` at {next_price} dollars an hour instead of {own_price}",
                larger.name
            ));
            if next >= own.saturating_mul(EXPENSIVE) {
                finding.severity(Severity::Warning);
            }
        }
        None => {
            finding.help(format!("ask for less, or expect the next size above `{type_name}`"));
        }
    }
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "takes the pods");
    }
    None
}
