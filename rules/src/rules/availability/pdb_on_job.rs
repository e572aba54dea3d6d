//! A PodDisruptionBudget on pods whose owner has no scale allows no eviction.
//!
//! # Why
//! For `maxUnavailable`, and for a percentage in `minAvailable`, the disruption controller asks the
//! owner of the pods for its number of replicas through the `scale` subresource. A Job has none:
//! the PodDisruptionBudget gets the condition `DisruptionAllowed=False` with the reason `SyncFailed`
//! and allows no eviction, not even of the other pods that it selects, as long as a pod of the Job
//! exists. Pods of CronJobs, JobSets and ScaledJobs belong to Jobs too. The pods of a RayCluster, also of one
//! that a RayService or RayJob makes, of a DaemonSet, an Argo Workflow, a SparkApplication and a Volcano Job
//! belong to an owner without a scale as well. A whole number in
//! `minAvailable` is compared with the healthy pods and works; if it is as large as the Job's
//! parallelism, or the largest number of workers, it allows no eviction either. Meanwhile no node of these
//! pods can be drained. Karpenter does not evict pods of a DaemonSet that tolerates
//! `karpenter.sh/disrupted:NoSchedule`: nothing is reported for a budget of these alone.
//!
//! # Fix
//! Write `minAvailable` as a whole number that is smaller than the number of pods. A run that must
//! not be interrupted is better protected by `karpenter.sh/do-not-disrupt: "true"` on its pods. A DaemonSet
//! needs no budget: its pods are evicted after the others, from a node that ends.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    parallelism: 8
//!    backoffLimit: 20
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: "2"}}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embed}
//!  spec:
//! -  maxUnavailable: 2 # <-
//! +  minAvailable: 6
//!    selector: {matchLabels: {app: embed}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors>
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>

use crate::cluster::views::disruptions::{
    IntOrPercent, allows_none, owner_without_scale, selects_by_job_label,
};
use crate::rules::disruption::tolerates_disruption_taint::may_stay_in_drains;
use crate::rules::prelude::*;
use crate::workload::ray::{Extent, pods_of_template};
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-on-job",
    kinds: &[Kind::PDB],
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("pdb_on_job.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (most, least) = (spec.get("maxUnavailable"), spec.get("minAvailable"));
    // A budget that allows no eviction for any pods is reported by pdb-blocks-evictions.
    if object.is_partial() || most.is_set() == least.is_set() || allows_none(object) {
        return None;
    }
    let (workloads, unknown) = ctx.cluster().views().selected_by(object);
    let workloads: Vec<&Object> = workloads.iter().map(|workload| &workload.object).collect();
    let without_scale: Vec<&Object> =
        workloads.iter().copied().filter(|workload| owner_without_scale(workload).is_some()).collect();
    let first = without_scale.first().copied();
    let (whose, owner) = match first.zip(first.and_then(owner_without_scale)) {
        Some((first, owner)) => (format!("{} `{}`", first.kind(), first.display_name()), owner),
        None if selects_by_job_label(object) => ("a Job".to_owned(), "a Job"),
        None => return None,
    };
    if most.is_set() || matches!(IntOrPercent::read(&least)?, IntOrPercent::Percent(_)) {
        let (field, node) = if most.is_set() { ("maxUnavailable", &most) } else { ("minAvailable", &least) };
        IntOrPercent::read(node)?;
        let value = node.string_or_number()?;
        let are_daemons = first.is_some() && workloads.iter().all(|workload| workload.is(Kind::DAEMON_SET));
        if are_daemons && workloads.iter().flat_map(|one| templates(one)).all(|one| may_stay_in_drains(&one))
        {
            return None;
        }
        let finding = ctx.report(
            node,
            format!("`{field}: {value}` allows no eviction while {whose} runs, because {owner} has no scale"),
        );
        match workloads.iter().find(|workload| owner_without_scale(workload).is_none()) {
            // The pods are caught by labels that are meant for others.
            Some(meant) => finding.help(format!(
                "narrow the selector to the pods of `{}`: add a label that the others do not have",
                meant.display_name()
            )),
            None if are_daemons => {
                finding.help("remove the PDB: pods of a DaemonSet are evicted last, from a node that ends")
            }
            None => finding.help(
                "write `minAvailable` as a whole number, or protect the pods with `karpenter.sh/do-not-disrupt`",
            ),
        };
        if let Some(first) = first {
            finding.related(first, &first.path(&["metadata", "name"]), "its pods");
        }
        return None;
    }
    let IntOrPercent::Count(keep) = IntOrPercent::read(&least)? else { return None };
    let selector = spec.get("selector");
    let pods = without_scale.iter().map(|workload| pods_of(workload, &selector)).sum::<Option<i64>>()?;
    if unknown || first.is_none() || without_scale.len() != workloads.len() || pods == 0 || keep < pods {
        return None;
    }
    let run = match without_scale.as_slice() {
        [_] => format!("{whose} runs {pods}"),
        all if all.iter().all(|one| one.is(Kind::JOB)) => format!("its Jobs run {pods}"),
        all => format!("its {} workloads run {pods}", all.len()),
    };
    let finding = ctx.report(&least, format!("`minAvailable: {keep}` allows no eviction: {run}"));
    finding.help("lower it, or protect the pods with `karpenter.sh/do-not-disrupt: \"true\"` instead");
    for workload in without_scale.iter().take(3) {
        let parallelism = workload.path(&["spec", "parallelism"]);
        let node = if parallelism.is_set() { parallelism } else { workload.path(&["metadata", "name"]) };
        finding.related(workload, &node, "its pods");
    }
    None
}

/// Maximum number of pods of a Job or of a Ray cluster that run at once and that a selector matches. `None` if it is not
/// known, or of another workload.
fn pods_of(workload: &Object, selector: &Node<'_>) -> Option<i64> {
    if [Kind::RAY_CLUSTER, Kind::RAY_SERVICE].iter().any(|kind| workload.is(*kind)) {
        let selected = |template: &Template<'_>| selector::matches(selector, &template.pod_labels());
        return templates(workload).iter().try_fold(0_i64, |sum, template| {
            let pods = if selected(template)? { pods_of_template(template, Extent::Most)? } else { 0 };
            sum.checked_add(pods)
        });
    }
    if !workload.is(Kind::JOB) {
        return None;
    }
    let number = |field: &str, default: i64| {
        let node = workload.path(&["spec", field]);
        if node.is_set() { node.int() } else { Some(default) }
    };
    Some(number("parallelism", 1)?.min(number("completions", i64::MAX)?).max(0))
}
