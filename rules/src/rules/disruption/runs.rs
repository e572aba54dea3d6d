//! Runs without accelerators that are lost with their node: those that are not started again, and those that may
//! take as long as the node lives.

use super::do_not_disrupt_missing::{NAMES, is_spot_only};
use crate::cluster::placement::{CandidatePool, termination_grace_period};
use crate::cluster::views::disruptions::allows_none;
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::node_labels::is_off_karpenter;
use crate::workload::template::{is_short_deadline, is_short_lived, run_limit};
use std::sync::Arc;

/// The share of the life of a node from which on many runs meet its end.
const SHARE: i64 = 4;
/// Seconds of grace in which runs without a deadline may end.
const LONG_GRACE: i64 = 3600;

/// Reports a run that Karpenter may end for good. `None` if nothing shows that.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let job = job_of(object)?;
    // Hooks of a release, such as migrations, end within seconds.
    let is_hook =
        ["helm.sh/hook", "argocd.argoproj.io/hook"].iter().any(|key| object.annotation(key).is_set());
    let is_running = is_suspended(object) == Some(false) && !object.may_lack_fields() && !object.is_owned();
    if is_hook || !is_running || is_short_lived(object) {
        return None;
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else { return None };
    let annotations = template.metadata.get("annotations");
    let is_unknown = [&template.metadata, &annotations, &template.spec, &job]
        .iter()
        .any(|node| node.is_unknown() || node.has_unknown_key());
    if is_unknown
        || NAMES.iter().any(|name| annotations.get(name).is_set())
        || is_short_deadline(&template.spec.get("activeDeadlineSeconds"))
        || is_spot_only(template)
        || is_off_karpenter(template)
        || ctx.cluster().views().is_on_protected_nodes(object)
    {
        return None;
    }
    let limit = run_limit(object);
    let grace = template.grace_seconds()?;
    // The run may finish while its node drains.
    if grace >= limit.map_or(LONG_GRACE, |limit| limit / 2) {
        return None;
    }
    let (budgets, _) = ctx.cluster().views().pdbs_of(object.namespace_or_default(), template);
    if budgets.iter().any(|budget| allows_none(budget)) {
        return None;
    }
    let found = ctx.pools_for(template)?;
    let pools = found.all_known()?;
    lost_by_consolidation(object, template, &job, limit, pools, ctx)
        .or_else(|| outlasting(object, template, limit?, pools, ctx))
}

/// The spec of the Job that an object starts.
fn job_of(object: &Object) -> Option<Node<'_>> {
    match () {
        () if object.is(Kind::JOB) => Some(object.get("spec")),
        () if object.is(Kind::CRON_JOB) => Some(object.path(&["spec", "jobTemplate", "spec"])),
        () if object.is(Kind::SCALED_JOB) => Some(object.path(&["spec", "jobTargetRef"])),
        () => None,
    }
}

/// Reports a run that fails when its pod is evicted, where a pool evicts pods to save nodes. The time until then begins again
/// with each pod that comes to the node, so that shorter runs are not met.
fn lost_by_consolidation(
    object: &Object,
    template: &Template<'_>,
    job: &Node<'_>,
    limit: Option<i64>,
    pools: &[Arc<CandidatePool>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let backoff = job.get("backoffLimit");
    // Failures of a policy need not count.
    let is_build = starts_builds(object);
    if !is_build && (backoff.int() != Some(0) || job.get("podFailurePolicy").is_set()) {
        return None;
    }
    let is_consumer = object.is(Kind::SCALED_JOB);
    // The next run of a CronJob does the work.
    if object.is(Kind::CRON_JOB) && limit.is_none() {
        return None;
    }
    let pool = pools.iter().find(|pool| evicts_within(pool.object(), limit))?;
    let name = object.display_name();
    let (message, shown) = if is_build {
        let message = format!(
            "a build of `{name}` ends when Karpenter consolidates its node, and is not started again"
        );
        (message, object.path(&["spec", "triggers"]))
    } else {
        let message = format!(
            "a run of `{name}` fails for good when Karpenter consolidates its node: `backoffLimit` is 0"
        );
        (message, backoff)
    };
    let is_sure = is_consumer || object.is(Kind::JOB) && limit.is_some();
    let severity = if is_sure && !is_example(object) { Severity::Warning } else { Severity::Info };
    let disruption = pool.object().path(&["spec", "disruption"]);
    report(template, message, limit, pool.object(), ctx)
        .severity(severity)
        .help(
            "annotate its pods with `karpenter.sh/do-not-disrupt: \"true\"`, or use a pool with `WhenEmpty`",
        )
        .related(object, &shown, if is_build { "it starts builds" } else { "no second try" })
        .related(pool.object(), &disruption, "the pods run in this pool");
    Some(())
}

/// Whether an object starts agents for builds, which end with their agent: a second pod waits for the next one.
fn starts_builds(object: &Object) -> bool {
    let is_for_builds =
        |trigger: Trigger<'_>| matches!(trigger.kind(), Some("github-runner" | "azure-pipelines"));
    object.is(Kind::SCALED_JOB) && triggers(object).any(is_for_builds)
}

/// Whether a pool consolidates nodes with running pods before a run has ended.
fn evicts_within(object: &Object, limit: Option<i64>) -> bool {
    let evicts = |pool: NodePool<'_>| {
        let after = pool.disruption().get("consolidateAfter");
        let after = if after.is_set() { GoDuration::parse(after.text()?).ok()?.seconds() } else { 0 };
        let is_shut = pool.calendar()?.is_always(DisruptionReason::Underutilized, AllowanceState::Zero);
        let is_known = pool.consolidation_policy().is_some();
        let is_met = limit.is_none_or(|limit| limit > after);
        Some(is_known && pool.is_disrupted_as(DisruptionReason::Underutilized) && !is_shut && is_met)
    };
    !protects_nodes(object) && NodePool::new(object).and_then(evicts) == Some(true)
}

/// Reports a run that may take a large part of the life of a node, whose end no budget delays.
fn outlasting(
    object: &Object,
    template: &Template<'_>,
    limit: i64,
    pools: &[Arc<CandidatePool>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let ends = |pool: &Object| {
        let life = i64::try_from(NodePool::new(pool)?.expire_after()?.seconds()?).ok()?;
        (limit.checked_mul(SHARE)? >= life && !protects_nodes(pool)).then_some(life)
    };
    let (pool, life) = pools.iter().find_map(|pool| Some((pool, ends(pool.object())?)))?;
    let expiry = pool.object().path(&["spec", "template", "spec", "expireAfter"]);
    let message = format!(
        "a run of `{}` may take {limit} s, and nodes of its pool are drained after {}",
        object.display_name(),
        expiry.text().unwrap_or("720h")
    );
    let severity = if limit >= life && !is_example(object) { Severity::Warning } else { Severity::Info };
    report(template, message, Some(limit), pool.object(), ctx)
        .severity(severity)
        .help("annotate its pods with `karpenter.sh/do-not-disrupt: \"true\"`, or let the nodes live longer")
        .related(pool.object(), &expiry, "no budget delays this");
    Some(())
}

/// Reports a template without the annotation. The fix is offered where a drain of the pool ends, so that pods with the annotation
/// hold none forever, and after the run.
fn report<'c>(
    template: &Template<'_>,
    message: String,
    limit: Option<i64>,
    pool: &Object,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let node = template.annotation(DO_NOT_DISRUPT);
    let finding = ctx.report(&node, message);
    if termination_grace_period(pool).is_some_and(|grace| limit.is_none_or(|limit| limit <= grace)) {
        finding.fix(Fix::new("protect the pods", Safety::Unsafe).set(&node, json!("true")));
    }
    finding
}
