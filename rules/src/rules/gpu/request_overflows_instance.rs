//! Pods with accelerators ask for nearly all of an instance, and do not fit on it.
//!
//! # Why
//! A node offers less than its instance type has: the kubelet and the system keep a part. A pod that asks for 4
//! vCPU or 16 GiB because that is what a `g5.xlarge` has does not fit on it, and Karpenter buys a `g5.2xlarge`
//! with the same GPU. DaemonSets take their part as well. A pod that selects its instance types by name, and
//! takes all CPU or all memory of each, never starts, which is an error.
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

use crate::catalog::INSTANCE_TYPE;
use crate::cluster::placement::requests_of;
use crate::cluster::queues::may_run_elsewhere;
use crate::fit::Situation;
use crate::karpenter::scheduling::{Scheduler, SchedulerOptions, allocatable};
use crate::rules::gpu::dollars;
use crate::rules::gpu::{gpu_templates, selected_types};
use crate::rules::prelude::*;
use crate::rules::scheduling::PLACEMENT_READS;
use crate::workload::node_labels::labels_of_all_nodes;

pub(crate) static RULE: Rule = Rule {
    id: "request-overflows-instance",
    kinds: WORKLOAD_KINDS,
    reads: kinds![PLACEMENT_READS, [Kind::NAMESPACE]],
    docs: docs(include_str!("request_overflows_instance.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

const MIB: i128 = 1024 * 1024 * 1000;

/// Maximum number of DaemonSets to show with a finding.
const MOST_SHOWN: usize = 4;

/// From this ratio of the prices on, the overflow is a warning.
const EXPENSIVE: u64 = 3;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if may_run_elsewhere(object, ctx.cluster()) {
        return None;
    }
    for template in gpu_templates(object, ctx) {
        inspect(object, &template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (types, pool) = selected_types(template, ctx)?;
    let need = Need::of(template)?;
    if pool.is_none() && fills_every_type(object, template, &need, &types, ctx).is_some() {
        return None;
    }
    let candidates: Vec<&'static InstanceType> =
        types.iter().filter(|one| one.devices(need.device) > 0 && need.is_close_to(one)).collect();
    if candidates.is_empty() {
        return None;
    }
    let daemonsets: Vec<Object> =
        ctx.cluster().of(Kind::DAEMON_SET).filter(|set| ctx.pairs_with(set)).cloned().collect();
    let only = only_pool(template, ctx);
    let situation = only.as_ref().map(|pool| around(pool, daemonsets.clone(), ctx));
    // If the pool takes the pod on no node, another rule says so.
    if situation.as_ref().is_some_and(|situation| !situation.may_admit(template)) {
        return None;
    }
    let scheduler = situation.as_ref().map(Situation::scheduler).filter(|one| one.admitted(0).is_ok());
    let nodes = Nodes { scheduler };
    let region = ctx.platform().region.as_deref();
    let price = |one: &&'static InstanceType| Some(one.list_price(region)?.micro_dollars);
    // The type that the requests are meant for: they are within what it has, and beyond what its nodes offer.
    let instance = candidates
        .into_iter()
        .filter(|one| need.devices_of(one) == need.devices && !need.fits(&nodes, one))
        .min_by_key(|one| price(one).unwrap_or(u64::MAX))?;
    // If no type fits at all, another rule reports it.
    let larger: Vec<&'static InstanceType> = types
        .iter()
        .filter(|other| need.devices_of(other) >= need.devices && need.fits(&nodes, other))
        .collect();
    if larger.is_empty() {
        return None;
    }
    let next = larger.iter().filter_map(|one| Some((price(one)?, *one))).min_by_key(|(price, _)| *price);
    let prices = next.zip(price(&instance));
    match prices {
        // An older generation costs as much as the size above it in the next one.
        Some(((next, _), own)) if next <= own.saturating_add(own / 20) => return None,
        None if !need.is_all_of(instance) => return None,
        _ => {}
    }
    let cpu = nodes.left(instance, "cpu");
    let what = if need.cpu > cpu { "cpu" } else { "memory" };
    let there = match what {
        "cpu" => format!("{cpu}m CPU"),
        _ => format!("{} MiB", nodes.left(instance, "memory") / MIB),
    };
    let bare = only.as_ref().map(|pool| around(pool, Vec::new(), ctx));
    let by_daemonsets =
        bare.as_ref().is_some_and(|bare| need.fits(&Nodes { scheduler: Some(bare.scheduler()) }, instance));
    let requests = template.containers().find_map(|container| {
        let of_side = |side: &str| container.path(&["resources", side]);
        ["requests", "limits"].into_iter().map(of_side).find(|list| list.get(what).is_set())
    })?;
    let (name, type_name) = (object.display_name(), instance.name);
    let message = if by_daemonsets {
        format!("`{name}` does not fit on `{type_name}`, whose nodes have {there} beside their DaemonSets")
    } else {
        format!("`{name}` does not fit on `{type_name}`, whose nodes offer {there}")
    };
    let related = match &only {
        Some(pool) if by_daemonsets => takers(pool, &daemonsets, (instance, what), ctx),
        _ => Vec::new(),
    };
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
    for set in &related {
        finding.related(set, &set.path(&["metadata", "name"]), "takes a part of each node");
    }
    None
}

/// Reports a pod that takes all CPU or all memory of each instance type that it selects itself: a node of any of them
/// offers less.
fn fills_every_type(
    object: &Object,
    template: &Template<'_>,
    need: &Need,
    types: &TypeSet,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let names_types = labels_of_all_nodes(template).iter().any(|(key, _)| *key == INSTANCE_TYPE);
    // Where there are NodePools, pod-fits-no-pool says it.
    if !names_types || ctx.cluster().of(Kind::NODE_POOL).next().is_some() {
        return None;
    }
    let with_devices: Vec<_> = types.iter().filter(|one| need.devices_of(one) >= need.devices).collect();
    let is_full = |one: &InstanceType| {
        let (cpu, memory) = whole(one);
        need.cpu >= cpu || need.memory >= memory
    };
    let largest = with_devices.iter().max_by_key(|one| one.vcpu)?;
    if !with_devices.iter().all(|one| is_full(one)) {
        return None;
    }
    let (cpu, _) = whole(largest);
    let what = if need.cpu >= cpu { "cpu" } else { "memory" };
    let (asked, there) = match what {
        "cpu" => (format!("{} CPU", need.cpu / 1000), largest.vcpu.to_string()),
        _ => (format!("{} MiB", need.memory / MIB), largest.memory_mib.to_string()),
    };
    let requests = template.containers().find_map(|container| {
        let of_side = |side: &str| container.path(&["resources", side]);
        ["requests", "limits"].into_iter().map(of_side).find(|list| list.get(what).is_set())
    })?;
    let message = format!(
        "`{}` never starts: it asks for {asked}, and nodes of `{}` offer less than {there}",
        object.display_name(),
        largest.name
    );
    ctx.report(&requests, message)
        .severity(Severity::Error)
        .help("ask for less than the instance type has, about a tenth, and leave room for DaemonSets");
    Some(())
}

/// What a pod requests, in thousandths.
struct Need {
    device: &'static str,
    devices: i128,
    cpu: i128,
    memory: i128,
}

impl Need {
    /// `None` for a pod without accelerators.
    fn of(template: &Template<'_>) -> Option<Need> {
        let requests = requests_of(template)?;
        let amount = |name: &str| requests.get(name).copied().unwrap_or(0);
        let device = KARPENTER_ACCELERATORS.iter().copied().find(|device| amount(device) > 0)?;
        Some(Need { device, devices: amount(device), cpu: amount("cpu"), memory: amount("memory") })
    }

    fn devices_of(&self, instance: &InstanceType) -> i128 {
        i128::from(instance.devices(self.device)) * 1000
    }

    fn fits(&self, nodes: &Nodes<'_>, instance: &'static InstanceType) -> bool {
        self.cpu <= nodes.left(instance, "cpu") && self.memory <= nodes.left(instance, "memory")
    }

    /// Whether a type has the CPU and the memory, and little more of one of them.
    fn is_close_to(&self, instance: &InstanceType) -> bool {
        let (cpu, memory) = whole(instance);
        let is_most = |part: i128, whole: i128| part * 4 > whole * 3;
        self.cpu <= cpu && self.memory <= memory && (is_most(self.cpu, cpu) || is_most(self.memory, memory))
    }

    /// Whether it is all CPU or all memory of a type.
    fn is_all_of(&self, instance: &InstanceType) -> bool {
        let (cpu, memory) = whole(instance);
        self.cpu == cpu || self.memory == memory
    }
}

/// The CPU and memory that EC2 specifies, in thousandths.
fn whole(instance: &InstanceType) -> (i128, i128) {
    (i128::from(instance.vcpu) * 1000, i128::from(instance.memory_mib) * MIB)
}

/// The nodes on which a pod may run. By default those of no known pool: with the defaults of Karpenter, without DaemonSets.
#[derive(Default)]
struct Nodes<'s> {
    /// For the only pool that admits the pod.
    scheduler: Option<Scheduler<'s>>,
}

impl Nodes<'_> {
    /// What a node has left of a resource beside DaemonSets, in thousandths.
    fn left(&self, instance: &'static InstanceType, resource: &str) -> i128 {
        match &self.scheduler {
            Some(scheduler) => scheduler.room(instance, resource),
            None => allocatable(instance, None, &SchedulerOptions::default()).get(resource),
        }
    }
}

/// The only pool that admits a pod.
fn only_pool(template: &Template<'_>, ctx: &Context<'_>) -> Option<Object> {
    match ctx.pools_for(template)?.all_known()? {
        [pool] => Some(pool.object().clone()),
        _ => None,
    }
}

/// A pool with DaemonSets on its nodes.
fn around<'c>(pool: &Object, daemonsets: Vec<Object>, ctx: &Context<'c>) -> Situation<'c> {
    Situation::around(ctx.cluster(), ctx.platform(), Some(ctx.object()), (vec![pool.clone()], daemonsets))
}

/// The DaemonSets that take a part of a resource of a pool's nodes.
fn takers(
    pool: &Object,
    daemonsets: &[Object],
    (instance, resource): (&'static InstanceType, &str),
    ctx: &Context<'_>,
) -> Vec<Object> {
    let left = |sets: Vec<Object>| around(pool, sets, ctx).scheduler().room(instance, resource);
    let all = left(Vec::new());
    daemonsets.iter().filter(|set| left(vec![(*set).clone()]) < all).take(MOST_SHOWN).cloned().collect()
}
