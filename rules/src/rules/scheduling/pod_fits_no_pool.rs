//! No NodePool can ever start a node for a pod.
//!
//! # Why
//! The pod stays Pending, and Karpenter's log names one reason for each pool at best. The verdict is that
//! of Karpenter's scheduler for one pod on a new node: taints, labels, requirements, limits, instance types
//! and their resources. What only the cluster knows is assumed to allow the pod, so a pod that fits here
//! may still wait for capacity, but one that does not fit never runs on a node of these pools. Reported are
//! pods that select NodePools by name or by a label that only NodePools write, and, where the input is the
//! whole cluster (`--complete`), all. It is an error where the input is the whole cluster and the pod
//! selects labels of Karpenter's nodes: no other node can have them. It is an info where nothing says that
//! the pod is meant for Karpenter's nodes and only taints or labels keep it out: it may run on nodes of
//! other kinds. DaemonSets, node classes, volumes, NodeOverlays and Karpenter's settings count as in
//! `gpulint why`. That a claim does not exist is not reported: claims are often made by others. A pod that
//! names a NodePool which is not in the input is reported where all pools are known, or one of them is
//! named almost the same. A pod that selects nearly the label of a pool, under a similar key or by another
//! spelling of its value, is reported as information, and so is one that selects the first words of the
//! only value of a label, as `a100` is of `a100-80g`. Pods that select the nodes of managed node groups or
//! of other providers run there, and are left alone, and so are those that a node group or Fargate profile
//! of eksctl in the input may take, or nodes of another tool.
//!
//! # Fix
//! Change the pod or the pool as the help says. `gpulint why` shows all pools, and everything that keeps
//! the pod out of each. The fix is offered where one value of the pod is all that is in the way: the name of its
//! pool, the value of a label, or a toleration for the pool that it names.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-search}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        taints:
//!          - {key: nvidia.com/gpu, effect: NoSchedule}
//!          - {key: team, value: search, effect: NoSchedule}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - key: karpenter.k8s.aws/instance-family
//!            operator: In
//!            values: [g5, g6, g6e]
//!    limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: embed}
//!  spec: # <-
//!    nodeSelector: {karpenter.sh/nodepool: gpu-search}
//! +  tolerations:
//! +    - {key: team, operator: Equal, value: search, effect: NoSchedule}
//!    containers:
//!      - name: main
//!        image: example.com/embed:1.4.0
//!        resources:
//!          requests: {cpu: 2, memory: 8Gi}
//!          limits: {nvidia.com/gpu: 1, memory: 8Gi}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/>

use std::sync::Arc;

use crate::cluster::branch_interfaces::{BRANCH_INTERFACE, is_selected};
use crate::cluster::queues::{is_queued, may_run_elsewhere};
use crate::cluster::sets::Bond;
use crate::cluster::together::{Company, company, is_renamed};
use crate::facts::suggest::is_within;
use crate::fit::{
    Change, NearestMiss, Obstacle, Proposes, Side, Situation, Stage, ValueEdit, has_built_in_pools,
    label_of_other_nodes, required_labels,
};
use crate::karpenter::auto_mode::is_built_in_pool;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::provider::is_karpenter_label;
use crate::lint::finding::{Location, Related};
use crate::rules::gpu::gpu_count_unsatisfiable::asks_for_too_many;
use crate::rules::gpu::gpu_resource_not_provisioned::HUGE_PAGES;
use crate::rules::gpu::gpu_toleration_missing::is_spoken_of;
use crate::rules::nodepool::instance_label_other_provider::missing_everywhere;
use crate::rules::nodepool::required_keys;
use crate::rules::prelude::*;
use crate::rules::scheduling::{AROUND_PODS, is_scheduled, states_its_pods};
use crate::workload::gpu::{INSTANCE_RESOURCES, requested_extended_resources};

/// Maximum number of pools that are tried one by one before all are looked at together.
const MAX_TRIED: usize = 8;
/// Maximum number of NodePools whose labels are compared.
const MAX_COMPARED: usize = 64;

/// A NodeClaim shows that Karpenter runs, and beside a Provisioner pods may fit elsewhere. How many pods there are decides about those that
/// join them.
pub(in crate::rules) const READS: &[Kind] = kinds![AROUND_PODS, [Kind::NODE_CLAIM, Kind::PROVISIONER]];

pub(crate) static RULE: Rule = Rule {
    id: "pod-fits-no-pool",
    depends_on: &[Product::Karpenter],
    kinds: WORKLOAD_KINDS,
    reads: READS,
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pod_fits_no_pool.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !is_judged(object, ctx) {
        return None;
    }
    // A comparison with another version needs the place alone.
    let proposes = if ctx.is_comparison() { Proposes::Nothing } else { Proposes::Changes };
    for template in templates(object) {
        let Some(found) = find(object, &template, proposes, ctx) else { continue };
        report(object, &template, &found, ctx);
    }
    None
}

fn is_judged(object: &Object, ctx: &Context<'_>) -> bool {
    let has_pools = ctx.cluster().has_any(Kind::NODE_POOL);
    states_its_pods(object) && has_pools && !may_run_elsewhere(object, ctx.cluster())
}

/// Whether the rule reports the pods of a template. It cannot where something else that decides is not known, such as a class of
/// volumes.
pub(in crate::rules) fn is_reported(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    ctx.is_rule_enabled(RULE.id)
        && is_judged(object, ctx)
        && find(object, template, Proposes::Nothing, ctx)
            .is_some_and(|found| !found.miss.within_memory_estimate)
}

/// Why the pods of a template fit no pool.
struct Unfit {
    miss: NearestMiss,
    /// The pools that the pod selects by name.
    pinned: Option<Vec<String>>,
    /// One of these names that no pool has.
    missing: Option<Missing>,
    /// Whether a label that is nearly one of a pool says that the pod is meant for it.
    by_likeness: bool,
}

/// A name that no pool has.
struct Missing {
    name: String,
    /// Whether a pool is named almost the same.
    is_near: bool,
}

fn find(object: &Object, template: &Template<'_>, proposes: Proposes, ctx: &Context<'_>) -> Option<Unfit> {
    if !is_scheduled(template) {
        return None;
    }
    // Its nodes are those of a managed node group or the like.
    if label_of_other_nodes(template).is_some() || ctx.other_nodes_for(template).is_some() {
        return None;
    }
    let pinned = pinned_pools(template);
    let whole = ctx.cluster().is_complete_for(Kind::NODE_POOL);
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let labelled = || feasibility.pinned_pools_of(template).is_some_and(|pools| !pools.is_empty());
    let is_listed = whole || pinned.is_some();
    // A pool that cannot be read may have the label, and is not among those that are looked at.
    if !is_listed && feasibility.has_unreadable_pools() {
        return None;
    }
    let mut alike = if is_listed || labelled() { Vec::new() } else { alike_pools(template, ctx) };
    let is_only = alike.is_empty() && !is_listed && !labelled();
    if is_only {
        alike.extend(only_pool_beside(object, ctx).cloned());
    }
    if !is_listed && !labelled() && alike.is_empty() {
        return None;
    }
    let by_likeness = !alike.is_empty();
    // All pools of a whole cluster count: there may be hundreds.
    let mut missing = None;
    let chosen: Option<Vec<Object>> = match &pinned {
        _ if by_likeness => Some(alike),
        Some(names) => {
            let named = named_pools(names, whole, ctx)?;
            missing = named.missing;
            named.pools
        }
        None if whole => None,
        None => {
            Some(feasibility.pinned_pools_of(template)?.iter().map(|pool| pool.object().clone()).collect())
        }
    };
    let mut miss = nearest_miss(object, template, chosen, proposes, ctx)?;
    if missing.is_some() {
        miss.obstacles.sort_by_key(|obstacle| !is_about_names(obstacle));
    }
    let obstacles = &miss.obstacles;
    let is_taint = |obstacle: &Obstacle| matches!(obstacle.stage, Stage::Taint(_));
    let is_told_elsewhere = obstacles.iter().any(|obstacle| is_of_another_rule(obstacle, template, ctx))
        || obstacles.iter().any(is_taint) && has_unknown_runtime(template, ctx);
    if obstacles.is_empty() || missing.is_none() && is_told_elsewhere {
        return None;
    }
    let is_of_size = |obstacle: &Obstacle| match &obstacle.stage {
        Stage::Resources(names) => names.iter().all(|name| matches!(name.as_str(), "cpu" | "memory")),
        _ => false,
    };
    if is_only && !obstacles.iter().all(is_of_size) {
        return None;
    }
    (!by_likeness || obstacles.len() == 1).then_some(Unfit { miss, pinned, missing, by_likeness })
}

/// The pool that is nearest to taking the pods, of the chosen ones or all. `None` if one of them takes the pods, or may.
fn nearest_miss(
    object: &Object,
    template: &Template<'_>,
    chosen: Option<Vec<Object>>,
    proposes: Proposes,
    ctx: &Context<'_>,
) -> Option<NearestMiss> {
    let situation = |pools: Vec<Object>| {
        let near = ctx.cluster().of(Kind::DAEMON_SET).filter(|set| !set.is_partial() && ctx.pairs_with(set));
        Situation::around(ctx.cluster(), ctx.platform(), Some(object), (pools, near.cloned().collect()))
    };
    // The pools that take the pod if their classes and DaemonSets leave everything decide most of the time, and cost little.
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let likely = match feasibility.feasible_pools_of(template) {
        // What the queue adds is decided below.
        None if is_queued(template) => Arc::default(),
        pools => pools?,
    };
    let is_chosen = |one: &&Object| chosen.as_ref().is_none_or(|all| all.iter().any(|pool| pool.ptr_eq(one)));
    let likely = likely.iter().map(|pool| pool.object()).filter(is_chosen);
    if likely.take(MAX_TRIED).any(|pool| situation(vec![pool.clone()]).may_admit(template)) {
        return None;
    }
    let pools = chosen.unwrap_or_else(|| ctx.cluster().of(Kind::NODE_POOL).cloned().collect());
    if !pools.iter().all(|pool| ctx.pairs_with(pool)) {
        return None;
    }
    situation(pools).nearest_miss(object, template, proposes)
}

/// The only pool of the input, if it is in the folder of an object, or in one that has all of the cluster for itself: who keeps both
/// together means the pods for it.
fn only_pool_beside<'a>(object: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let mut pools = ctx.cluster().of(Kind::NODE_POOL);
    let (only, None) = (pools.next()?, pools.next()) else { return None };
    let is_read = !only.is_partial() && !ctx.cluster().has_any(Kind::PROVISIONER);
    let is_beside = || company(object, only) <= Company::Folder || ctx.cluster().bond() == Bond::Likely;
    (is_read && object.origin().is_some() && is_beside()).then_some(only)
}

/// The pools that give their nodes a label that is nearly one that a pod selects: the value under nearly the key, or nearly the value
/// under a key that pools write. A mistake is likely.
fn alike_pools(template: &Template<'_>, ctx: &Context<'_>) -> Vec<Object> {
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let selected = template.spec.get("nodeSelector").entries();
    let mut pools = Vec::new();
    for (key, value) in &selected {
        let Some(value) = value.text().filter(|value| !is_placeholder(value)) else { continue };
        // A flag says nothing: many labels have its value.
        if FLAGS.contains(&value.to_ascii_lowercase().as_str()) {
            continue;
        }
        let is_declared = feasibility.declares(key);
        let writes = |pool: &&Object| labels_of(pool).get(key).is_set();
        let is_of_one = ctx.cluster().of(Kind::NODE_POOL).filter(writes).nth(1).is_none();
        let is_value_alike = |has: &str| {
            is_same_word(value, has) || is_of_one && (is_begin(value, has) || is_begin(has, value))
        };
        let has_alike = |pool: &&Object| {
            labels_of(pool).entries().iter().any(|(other, has)| match is_declared {
                true => other == key && has.text().is_some_and(is_value_alike),
                false => has.text() == Some(value) && is_alike(key, other),
            })
        };
        let found = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).filter(has_alike);
        pools.extend(found.filter(|pool| ctx.pairs_with(pool)).cloned());
    }
    pools
}

fn labels_of(pool: &Object) -> Node<'_> {
    pool.path(&["spec", "template", "metadata", "labels"])
}

/// Values that labels of quite another meaning share.
const FLAGS: [&str; 9] = ["", "true", "false", "yes", "no", "on", "off", "0", "1"];

/// Whether two label keys have one domain, and one name is nearly the other or differs by what people leave out.
fn is_alike(one: &str, other: &str) -> bool {
    const LEFT_OUT: [&str; 7] = ["s", "-type", "-name", "-class", "-group", "-kind", "-pool"];
    let parts = |key: &str| match key.rsplit_once('/') {
        Some((domain, name)) => (domain.to_owned(), name.to_owned()),
        None => (String::new(), key.to_owned()),
    };
    let ((domain, name), (other_domain, other)) = (parts(one), parts(other));
    let is_shorter =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| LEFT_OUT.contains(&rest));
    domain == other_domain
        && (is_shorter(&name, &other) || is_shorter(&other, &name) || is_near(&name, &other))
}

/// Whether two different values are one word in two spellings: in case and separators, or by one letter more, as in a plural. Values
/// that differ by another letter, as `team-a` and `team-b` or `cpu` and `gpu` do, are two of a series.
fn is_same_word(one: &str, other: &str) -> bool {
    const SHORT: usize = 5;
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_', '.'], "");
    let (first, second) = (plain(one), plain(other));
    // Of sizes, as `large` and `xlarge`, each is another one.
    let is_longer = first.len().abs_diff(second.len()) == 1
        && first.len().min(second.len()) >= SHORT
        && first.starts_with('x') == second.starts_with('x');
    let is_letter = without_digits(&first) != without_digits(&second);
    one != other && (first == second || is_longer && is_letter && is_within(&first, &second, 1))
}

/// Whether a value is the first words of another one, as `a100` is of `a100-80g`.
fn is_begin(short: &str, long: &str) -> bool {
    let rest = long.strip_prefix(short).filter(|_| short.len() > 2);
    rest.is_some_and(|rest| rest.starts_with(['-', '_', '.']))
}

fn without_digits(name: &str) -> String {
    name.replace(|c: char| c.is_ascii_digit(), "")
}

/// Whether two names are nearly the same, and not two of a series.
fn is_near(one: &str, other: &str) -> bool {
    nearest(one, [other]).is_some() && without_digits(one) != without_digits(other)
}

fn report(object: &Object, template: &Template<'_>, found: &Unfit, ctx: &mut Context<'_>) -> Option<()> {
    let NearestMiss { pool, obstacles, .. } = &found.miss;
    let first = obstacles.first()?;
    let pinned = found.pinned.as_deref();
    let name = object.display_name();
    let is_whole = ctx.cluster().is_complete_for(Kind::NODE_POOL);
    let what = match (pinned, &found.missing) {
        _ if found.miss.within_memory_estimate => format!(
            "`{name}` fits NodePool `{}` only after a node of the type has run there: {}",
            pool.name(),
            first.reason
        ),
        (_, Some(missing)) => {
            let end = if is_whole { "does not exist" } else { "is not in the input" };
            format!("`{name}` asks for NodePool `{}`, which {end}", ellipsize(&missing.name))
        }
        (Some([one]), None) => format!("`{name}` never fits NodePool `{one}`: {}", first.reason),
        _ => format!("`{name}` fits no NodePool; `{}` is nearest: {}", pool.name(), first.reason),
    };
    let place = first.places.iter().find(|place| place.object.ptr_eq(object));
    let node = place.map_or_else(|| template.spec.clone(), |place| object.root().at(&place.pointer));
    let related: Vec<Related> = obstacles
        .iter()
        .flat_map(|obstacle| &obstacle.places)
        .filter(|place| !place.object.ptr_eq(object))
        // A pool that EKS Auto Mode brings is in no file.
        .filter(|place| place.object.origin().is_some() || !is_built_in_pool(place.object.name()))
        .map(|place| Related {
            location: Location::Field {
                object: place.object.clone(),
                pointer: place.pointer.clone(),
                key: false,
            },
            message: place.text.clone(),
        })
        .collect();
    // Nodes that are not in the input may have the label. Another obstacle says that the pod is meant for them.
    let severity = match found.by_likeness || found.miss.within_memory_estimate {
        true => Severity::Info,
        false => severity(template, obstacles, pinned.is_some(), ctx),
    };
    let fix = fix(object, found);
    let help = match &found.missing {
        Some(missing) if !missing.is_near => {
            format!("add the NodePool, or name one that exists, such as `{}`", pool.display_name())
        }
        _ => help(obstacles),
    };
    let finding = ctx.report(&node, what).severity(severity).help(help);
    finding.related.extend(related);
    if let Some(fix) = fix {
        finding.fix(fix);
    }
    None
}

/// How sure it is that the pod is meant for nodes of Karpenter.
fn severity(template: &Template<'_>, obstacles: &[Obstacle], is_pinned: bool, ctx: &Context<'_>) -> Severity {
    let selected = selected_keys(template);
    let asks_for_karpenter = selected.iter().any(|key| is_karpenter_label(key));
    if ctx.cluster().is_complete() && asks_for_karpenter {
        return Severity::Error;
    }
    let accelerated =
        requested_extended_resources(template).iter().any(|r| KARPENTER_ACCELERATORS.contains(r));
    let only_elsewhere = |obstacle: &Obstacle| matches!(obstacle.stage, Stage::Taint(_) | Stage::Label(_));
    let is_meant = is_pinned || asks_for_karpenter || accelerated || !selected.is_empty();
    if !is_meant && obstacles.iter().any(only_elsewhere) { Severity::Info } else { Severity::Warning }
}

/// The first change of the pod, where it is all that is in the way and edits one value. A toleration is only known to be meant where the
/// pod names its pool.
fn fix(object: &Object, found: &Unfit) -> Option<Fix> {
    let [obstacle] = found.miss.obstacles.as_slice() else { return None };
    // Which of the pools is meant is not known.
    if found.missing.as_ref().is_some_and(|missing| !missing.is_near) {
        return None;
    }
    let change = obstacle.changes.first().filter(|change| change.side == Side::Pod)?;
    let fix = Fix::unsafe_(change.text.clone());
    match change.edit.as_ref()? {
        ValueEdit::Set(pointer, value) => Some(fix.set(&object.root().at(pointer), value.clone())),
        ValueEdit::Append(pointer, value) if found.pinned.is_some() => {
            Some(fix.append(&object.root().at(pointer), value.clone()))
        }
        ValueEdit::Append(..) => None,
    }
}

/// The first change of the first obstacle, one of another object if there is any, and how many more obstacles there are.
fn help(obstacles: &[Obstacle]) -> String {
    let written = |change: &Change| match change.side {
        Side::Pod => change.text.clone(),
        Side::Pool => format!("in the NodePool: {}", change.text),
        Side::Other => format!("in the {}: {}", change.place.object.kind(), change.text),
    };
    let changes = obstacles.first().map_or(&[][..], |obstacle| &obstacle.changes);
    let text = match changes.first() {
        None => match lacking_accelerator(obstacles) {
            Some(name) => format!("write a NodePool whose instance types have `{name}`"),
            None => "`gpulint why` shows what is in the way".to_owned(),
        },
        Some(first) => match changes.iter().find(|change| change.side != first.side) {
            Some(other) => format!("{}, or {}", written(first), written(other)),
            None => written(first),
        },
    };
    match obstacles.len() {
        0 | 1 => text,
        more => format!("{text}; {} more in the way", more - 1),
    }
}

/// The accelerator that the first obstacle is about.
fn lacking_accelerator(obstacles: &[Obstacle]) -> Option<&String> {
    let Stage::Resources(names) = &obstacles.first()?.stage else { return None };
    names.iter().find(|name| is_accelerator(name))
}

/// Whether another rule reports it: that the toleration for its accelerator is missing, or that the pod asks for a label of
/// another provider, a resource that no instance type has, or more devices than one has.
fn is_of_another_rule(obstacle: &Obstacle, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    match &obstacle.stage {
        Stage::Taint(key) => {
            ctx.is_rule_enabled("gpu-toleration-missing") && is_spoken_of(key, template, ctx)
        }
        Stage::Label(key) => {
            ctx.is_rule_enabled("instance-label-other-provider")
                && missing_everywhere(key, ctx).is_some()
                && (template.spec.get("nodeSelector").get(key).is_set()
                    || matches!(required_keys(template).as_slice(), [only] if only.iter().any(|(one, _)| one == key)))
        }
        // Karpenter starts no node for the resource or for that number of devices, whatever the pool is.
        Stage::Resources(names) => {
            let unknown = ctx.is_rule_enabled("gpu-resource-not-provisioned")
                && !ctx.cluster().views().has_static_pool();
            let has_devices = requests_device_plugin(template.place.0);
            let of_no_type = |name: &String| {
                is_accelerator(name) && !INSTANCE_RESOURCES.contains(&name.as_str())
                    || name.starts_with(HUGE_PAGES) && has_devices
            };
            let is_branch = names.iter().any(|name| name == BRANCH_INTERFACE);
            is_branch
                && ctx.is_rule_enabled("security-group-pods-unplaced")
                && is_selected(template, ctx.cluster())
                || unknown && names.iter().any(of_no_type)
                || ctx.is_rule_enabled("gpu-count-unsatisfiable") && asks_for_too_many(template, ctx)
        }
        _ => false,
    }
}

/// Whether the pod names a RuntimeClass outside the input, which may add tolerations. The classes of NVIDIA's GPU Operator
/// add none.
fn has_unknown_runtime(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let (kind, name) = (Kind::RUNTIME_CLASS, template.spec.get("runtimeClassName"));
    let is_missing = |name: &str| ctx.cluster().all(kind.group, kind.kind, "default", name).is_empty();
    name.is_unknown()
        || !ctx.cluster().is_complete_for(kind)
            && name.text().is_some_and(|name| !name.starts_with("nvidia") && is_missing(name))
}

fn is_about_names(obstacle: &Obstacle) -> bool {
    obstacle.stage == Stage::Label(NODEPOOL_LABEL.to_owned())
}

struct Named {
    /// The pools; those to name instead where there are none of these names, and `None` for all.
    pools: Option<Vec<Object>>,
    missing: Option<Missing>,
}

/// The pools of the given names. `None` if one of them may belong to another cluster, or is not in the input and may exist.
fn named_pools(names: &[String], whole: bool, ctx: &Context<'_>) -> Option<Named> {
    let (cluster, kind) = (ctx.cluster(), Kind::NODE_POOL);
    let is_there = |name: &&String| !cluster.all(kind.group, kind.kind, "default", name).is_empty();
    let (known, missing): (Vec<&String>, Vec<&String>) = names.iter().partition(is_there);
    let partner = |name: &String| ctx.partner(kind, "default", name).cloned();
    let known: Vec<Object> = known.into_iter().map(partner).collect::<Option<_>>()?;
    let Some(name) = missing.first() else { return Some(Named { pools: Some(known), missing: None }) };
    if missing.iter().any(|name| is_placeholder(name)) {
        return None;
    }
    if missing.iter().any(|name| is_built_in_pool(name)) {
        return has_built_in_pools(cluster).then_some(Named { pools: Some(known), missing: None });
    }
    let is_open = |pool: &Object| is_renamed(pool) || pool.may_lack_fields();
    if cluster.views().feasibility(ctx.platform()).has_unreadable_pools() || cluster.of(kind).any(is_open) {
        return None;
    }
    if !known.is_empty() {
        return whole.then_some(Named { pools: Some(known), missing: None });
    }
    // One of a series may well be elsewhere.
    let pools: Vec<&Object> =
        cluster.of(kind).take(MAX_COMPARED).filter(|pool| ctx.pairs_with(pool)).collect();
    let near = nearest(name, pools.iter().map(|pool| pool.name())).filter(|near| is_near(name, near));
    let near: Option<Vec<Object>> =
        near.map(|near| pools.into_iter().filter(|pool| pool.name() == near).cloned().collect());
    let missing = Some(Missing { name: (*name).clone(), is_near: near.is_some() });
    (whole || near.is_some()).then_some(Named { pools: near, missing })
}

/// The names of the pools that each alternative of the pod selects. `None` if one of them selects none.
pub(super) fn pinned_pools(template: &Template<'_>) -> Option<Vec<String>> {
    let spec = &template.spec;
    if let Some(name) = spec.get("nodeSelector").get(NODEPOOL_LABEL).text() {
        return Some(vec![name.to_owned()]);
    }
    let mut names = Vec::new();
    for term in template.required_terms().items() {
        let mut expressions = term.get("matchExpressions").items();
        let by_name = expressions.find(|expression| expression.get("key").text() == Some(NODEPOOL_LABEL))?;
        if by_name.get("operator").text() != Some("In") {
            return None;
        }
        for value in by_name.get("values").items() {
            names.push(value.text()?.to_owned());
        }
    }
    names.sort();
    names.dedup();
    (!names.is_empty()).then_some(names)
}

/// The label keys by which any alternative of the pod selects nodes.
fn selected_keys<'a>(template: &Template<'a>) -> Vec<&'a str> {
    required_labels(template).into_iter().flatten().map(|(key, _)| key).collect()
}
