//! A PodDisruptionBudget never lets a pod be evicted.
//!
//! # Why
//! `maxUnavailable: 0` and `minAvailable: 100%` forbid every eviction, and so does a `minAvailable`
//! that, rounded up, is as many as the replicas. Karpenter then neither consolidates the node nor
//! replaces it for a new AMI; when the node expires it is cordoned and waits, forever without a
//! `terminationGracePeriod`, and with one the pods are killed without a replacement being ready.
//! If only the autoscaler's minimum is too small, this happens exactly when load is low and
//! consolidation would pay. `minAvailable: 1` for a single pod is a warning: it is a documented way to be
//! asked before each drain. The ranks of one server are another case: each eviction stops the whole server,
//! and a PDB that allows none holds every drain until the `terminationGracePeriod` of the pool.
//!
//! Pods without a controller are counted for a whole number in `minAvailable` only: `maxUnavailable` and
//! percentages need the number of replicas that a controller states, and allow no eviction without one.
//!
//! The pods of a CronJob or a Job that a PDB selects beside a Deployment count only while they run: for the
//! rest of the time `minAvailable` holds the pods of the Deployment alone. That is a warning.
//!
//! CloudNativePG makes a PDB with `minAvailable: 1` for the primary of each Cluster. With `instances: 1` no
//! other can become primary, so its node is never drained: `enablePDB: false` (1.23 and later) leaves the
//! PDB out. Datadog's operator makes one with `minAvailable: 1` for its cluster agents on request, which a
//! single agent never satisfies. Strimzi hands on the `maxUnavailable: 0` of its template: that is for its
//! Drain Cleaner, and without it, in a whole cluster (`--complete`), no broker is ever evicted.
//!
//! # Fix
//! Write `maxUnavailable: 1` instead: it is right for any number of replicas. Training pods are
//! better protected by `karpenter.sh/do-not-disrupt` than by a PDB, and pods of Jobs and of Ray need a whole
//! number in `minAvailable` (see `pdb-on-job`). Run a Pod that must stay available in a Deployment.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm-serving, namespace: models}
//!  spec:
//! -  maxUnavailable: 0 # <-
//! +  maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: llm-serving}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-disruption-budgets>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/2600>

use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::cluster::views::Workload;
use crate::cluster::views::disruptions::{
    IntOrPercent, SelectedPods, owner_without_scale, selected_pods, selects_by_job_label,
};
use crate::rules::manifest_purpose::{is_chart_output, is_copy, is_example};
use crate::rules::partners::{around_budget, budgets};
use crate::rules::prelude::*;
use crate::workload::processes::is_one_server;

/// The workloads that a PDB selects, the autoscalers that set their number of pods, and what installs CloudNativePG.
const READS: &[Kind] =
    kinds![VERSIONED_CHARTS, [Kind::HPA, Kind::SCALED_OBJECT, Kind::NAMESPACE], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "pdb-blocks-evictions",
    kinds: &[Kind::PDB, Kind::CNPG_CLUSTER, Kind::EDB_CLUSTER, Kind::DATADOG_AGENT, Kind::KAFKA],
    reads: READS,
    fix: Some(Safety::Unsafe),
    pairs: &[Pair { with: WORKLOAD_KINDS, partners: budgets, beside: around_budget }],
    docs: docs(include_str!("pdb_blocks_evictions.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let finding = if object.is(Kind::PDB) {
        of_budget(object, ctx)
    } else if object.is(Kind::DATADOG_AGENT) {
        of_cluster_agent(object, ctx)
    } else if object.is(Kind::KAFKA) {
        of_brokers(object, ctx)
    } else {
        of_database(object, ctx)
    }?;
    if is_chart_output(object) {
        finding.help("change it by a value of the chart, whose output this is").fix = None;
    }
    // Nobody edits a copy of what was released.
    if is_copy(object) {
        let is_grave = finding.severity == Severity::Error;
        finding.severity(if is_grave { Severity::Warning } else { Severity::Info });
    }
    None
}

/// Reports a PDB that allows no eviction.
fn of_budget<'c>(object: &Object, ctx: &'c mut Context<'_>) -> Option<&'c mut Finding> {
    let spec = object.get("spec");
    let most = spec.get("maxUnavailable");
    let least = spec.get("minAvailable");
    let both = most.is_set() && least.is_set();
    // A PDB without selector selects nothing.
    if both || spec.is_unknown() || (!spec.get("selector").is_set() && !object.is_partial()) {
        return None;
    }
    let selected = Selected::by(object, ctx);
    if most.is_set() {
        return at_most(&most, &selected, ctx);
    }
    if least.is_set() {
        return at_least((&least, &most), &selected, ctx);
    }
    let finding =
        ctx.report(&most, "without `maxUnavailable` or `minAvailable` the PDB allows no eviction at all");
    let fix = Fix::new("write `maxUnavailable: 1`", Safety::Unsafe).set(&most, json!(1));
    finish(finding, selected.advice, fix);
    Some(finding)
}

/// Reports a database with one instance, for whose primary CloudNativePG makes a PDB (1.23 to 1.29).
fn of_database<'c>(object: &Object, ctx: &'c mut Context<'_>) -> Option<&'c mut Finding> {
    let spec = object.get("spec");
    let (instances, pdb) = (spec.get("instances"), spec.get("enablePDB"));
    let is_one = if instances.is_set() { instances.int() == Some(1) } else { !instances.is_unknown() };
    // The operator removes the PDB in a maintenance window that reuses the volume.
    let window = spec.get("nodeMaintenanceWindow");
    let is_hibernated = object.annotation("cnpg.io/hibernation").text() == Some("on");
    if !is_one
        || pdb.is_unknown()
        || pdb.bool() == Some(false)
        || window.is_unknown()
        || window.get("inProgress").bool() == Some(true)
        || is_hibernated
        || object.may_lack_fields()
        || spec.has_unknown_key()
        || is_example(object)
    {
        return None;
    }
    let name = object.display_name();
    let message = format!("the operator's PDB for the one instance of `{name}` allows no eviction, ever");
    // The chart of 1.23, which has `enablePDB` first, is 0.21.
    let is_old = |installer: &Object| {
        let version = chart_version(installer, "cloudnative-pg", ctx.cluster()).and_then(Version::parse);
        version.is_some_and(|version| version < Version::new(0, 21))
    };
    let lacks_field = chart_installers(ctx.cluster()).any(is_old);
    let finding = ctx.report(if instances.is_set() { &instances } else { &spec }, message);
    finding.severity(Severity::Warning);
    if lacks_field {
        finding.help(
            "write `instances: 2`, or a `nodeMaintenanceWindow` for a drain: `enablePDB` came with 1.23",
        );
    } else {
        finding
            .help("write `enablePDB: false` for a short outage when its node is drained, or `instances: 2`")
            .fix(Fix::unsafe_("make no PDB for it").set(&pdb, json!(false)));
    }
    Some(finding)
}

/// Reports the single cluster agent for which Datadog's operator makes a PDB: `overridePodDisruptionBudget` of datadog-operator 1.x,
/// with `minAvailable: 1`.
fn of_cluster_agent<'c>(object: &Object, ctx: &'c mut Context<'_>) -> Option<&'c mut Finding> {
    let agent = object.path(&["spec", "override", "clusterAgent"]);
    let (wanted, replicas) = (agent.get("createPodDisruptionBudget"), agent.get("replicas"));
    let is_one = replicas.is_absent() || replicas.int() == Some(1);
    if wanted.bool() != Some(true) || !is_one || agent.has_unknown_key() || object.may_lack_fields() {
        return None;
    }
    let finding =
        ctx.report(&wanted, "the operator's PDB for the one cluster agent allows no eviction, ever");
    finding.severity(Severity::Warning).help(
        "write `replicas: 2` beside it, or leave the PDB out: the other agents go on for a short while",
    );
    Some(finding)
}

/// Reports brokers that Strimzi's PDB keeps from each eviction, where nothing moves them instead.
fn of_brokers<'c>(object: &Object, ctx: &'c mut Context<'_>) -> Option<&'c mut Finding> {
    let most = object.path(&["spec", "kafka", "template", "podDisruptionBudget", "maxUnavailable"]);
    let cluster = ctx.cluster();
    let moves = |workload: &Object| {
        templates(workload)
            .iter()
            .flat_map(Template::containers)
            .any(|one| image_text(&one).is_some_and(|image| image.contains("drain-cleaner")))
    };
    if most.int() != Some(0)
        || !cluster.is_complete()
        || may_bring_objects(cluster)
        || cluster.of(Kind::DEPLOYMENT).any(moves)
        || object.may_lack_fields()
    {
        return None;
    }
    let finding =
        ctx.report(&most, "the PDB of the brokers allows no eviction, and no Drain Cleaner moves them");
    finding.severity(Severity::Warning).help("install Strimzi's Drain Cleaner, or write `maxUnavailable: 1`");
    Some(finding)
}

/// The workloads that a PDB selects.
struct Selected<'i> {
    workloads: Vec<&'i Workload>,
    /// Their pods, if the number is known and there are no others.
    pods: Option<SelectedPods>,
    /// A Job or CronJob beside them, whose pods count only while they run.
    passing: Option<&'i Object>,
    advice: Advice,
}

impl<'i> Selected<'i> {
    fn by(pdb: &Object, ctx: &Context<'i>) -> Selected<'i> {
        let (workloads, has_unknown) =
            if pdb.is_partial() { (Vec::new(), true) } else { ctx.cluster().views().selected_by(pdb) };
        let all_train = !workloads.is_empty()
            && workloads.iter().all(|w| ctx.class_of(&w.object).is(WorkloadClass::Training));
        let mut owners = workloads.iter().map(|workload| owner_without_scale(&workload.object));
        let without_scale = match owners.next() {
            None => selects_by_job_label(pdb).then_some("a Job"),
            Some(first) => first.filter(|_| owners.all(|owner| owner.is_some())),
        };
        let is_passing = |workload: &&&Workload| {
            (workload.object.is(Kind::CRON_JOB) || workload.object.is(Kind::JOB))
                && !uses_accelerators(&workload.object)
        };
        let passing = workloads.iter().find(is_passing).map(|workload| &workload.object);
        let lasting: Vec<&Workload> =
            workloads.iter().filter(|workload| !is_passing(workload)).copied().collect();
        let passing = passing.filter(|_| !lasting.is_empty());
        let counted = if passing.is_some() { &lasting } else { &workloads };
        let pods = if has_unknown { None } else { selected_pods(counted, ctx.cluster()) };
        let advice = if all_train {
            Advice::Training
        } else if let [one] = workloads.as_slice()
            && !has_unknown
            && is_one_server(&one.object)
        {
            Advice::Gang
        } else if let Some(owner) = without_scale {
            Advice::NoScale(owner)
        } else if pods.as_ref().is_some_and(|pods| pods.bare) {
            Advice::Bare
        } else {
            Advice::Replicas
        };
        let workloads = if passing.is_some() { lasting } else { workloads };
        Selected { workloads, pods, passing, advice }
    }

    /// Whether the pods are protected from Karpenter as well.
    fn are_protected(&self) -> bool {
        self.workloads.iter().all(|workload| {
            templates(&workload.object)
                .iter()
                .all(|template| template.annotation(DO_NOT_DISRUPT).text() == Some("true"))
        })
    }
}

/// Reports a `maxUnavailable` of zero, or of pods without a controller.
fn at_most<'c>(
    most: &Node<'_>,
    selected: &Selected<'_>,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let (IntOrPercent::Count(0) | IntOrPercent::Percent(0)) = IntOrPercent::read(most)? else {
        return without_controller("maxUnavailable", most, selected, ctx);
    };
    // Such training pods are protected on purpose.
    if matches!(selected.advice, Advice::Training) && selected.are_protected() {
        return None;
    }
    let shown = most.string_or_number().unwrap_or_default();
    let none_runs = selected.pods.as_ref().is_some_and(|pods| pods.ceiling == 0);
    let finding = ctx.report(most, format!("`maxUnavailable: {shown}` allows no eviction, ever"));
    let fix = Fix::new("write `maxUnavailable: 1`", Safety::Unsafe).set(most, json!(1));
    finish(finding, selected.advice, fix);
    // Without pods nothing is blocked.
    if none_runs {
        finding.severity(Severity::Warning);
    }
    Some(finding)
}

/// Reports a bound that needs the number of replicas, over pods that have no controller to state it.
fn without_controller<'c>(
    field: &str,
    bound: &Node<'_>,
    selected: &Selected<'_>,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let first = selected.pods.as_ref().filter(|pods| pods.bare).and(selected.workloads.first())?;
    let shown = bound.string_or_number()?;
    let name = first.object.display_name();
    let message =
        format!("`{field}: {shown}` allows no eviction: Pod `{name}` has no controller with replicas");
    let is_complete = ctx.cluster().is_complete();
    let finding = ctx.report(bound, message);
    finding.help(BARE_HELP).related(&first.object, &first.object.path(&["metadata", "name"]), "its pod");
    if !is_complete {
        finding.severity(Severity::Warning);
    }
    Some(finding)
}

/// Reports a `minAvailable` of as many pods as there are.
fn at_least<'c>(
    (least, most): (&Node<'_>, &Node<'_>),
    selected: &Selected<'_>,
    ctx: &'c mut Context<'_>,
) -> Option<&'c mut Finding> {
    let Selected { workloads, pods, passing, advice } = selected;
    let keep = IntOrPercent::read(least)?;
    let shown = least.string_or_number().unwrap_or_default();
    let fix = Fix::new("write `maxUnavailable: 1` instead", Safety::Unsafe).remove(least).set(most, json!(1));
    if let IntOrPercent::Percent(100) = keep {
        let finding = ctx.report(least, "`minAvailable: 100%` allows no eviction, ever");
        finish(finding, *advice, fix);
        return Some(finding);
    }
    let pods = pods.as_ref()?;
    if pods.floor <= 0 || pods.disruptions_allowed(keep, pods.floor) > 0 {
        return None;
    }
    if pods.bare && matches!(keep, IntOrPercent::Percent(_)) {
        return without_controller("minAvailable", least, selected, ctx);
    }
    let whose = match workloads.as_slice() {
        [one] => format!("{} `{}`", one.object.kind(), one.object.display_name()),
        more => format!("its {} workloads", more.len()),
    };
    let blocked = pods.disruptions_allowed(keep, pods.ceiling) <= 0;
    let message = if pods.bare {
        format!("`minAvailable: {shown}` allows no eviction: it selects {}", bare_pods(workloads))
    } else if !blocked {
        format!(
            "`minAvailable: {shown}` blocks every eviction when {whose} is at its minimum of {}",
            pods.floor
        )
    } else if pods.scaled {
        format!("`minAvailable: {shown}` allows no eviction: {whose} runs {} at most", pods.ceiling)
    } else {
        format!("`minAvailable: {shown}` allows no eviction: {whose} runs {}", pods.floor)
    };
    let sure = blocked && (pods.written || ctx.cluster().is_complete());
    // For a single pod Kubernetes documents it: an operator is asked before each drain.
    let is_deliberate = pods.ceiling == 1;
    let finding = ctx.report(least, message);
    finish(finding, *advice, fix);
    if !sure || is_deliberate || passing.is_some() {
        finding.severity(Severity::Warning);
    }
    if let Some(job) = passing {
        finding
            .help("select the pods of the Deployment alone, and let one go: those of Jobs count only while they run")
            .related(job, &job.path(&["metadata", "name"]), "its pods are selected as well");
        finding.fix = None;
    }
    for workload in workloads.iter().take(3) {
        let object = &workload.object;
        let replicas = object.path(&["spec", "replicas"]);
        let node =
            if replicas.is_set() && !pods.scaled { replicas } else { object.path(&["metadata", "name"]) };
        finding.related(object, &node, "its pods");
    }
    Some(finding)
}

/// The kind of pods of a PDB, which decides the advice.
#[derive(Clone, Copy)]
enum Advice {
    Training,
    /// Pods of owners without a `scale` subresource, as in "a Job", for which `maxUnavailable` allows no eviction.
    NoScale(&'static str),
    /// Pods without a controller.
    Bare,
    /// The ranks of one server: one that goes stops all.
    Gang,
    /// Others.
    Replicas,
}

/// Text for Pods without a controller.
fn bare_pods(pods: &[&Workload]) -> String {
    match pods {
        [one] => format!("Pod `{}` alone", one.object.display_name()),
        all => format!("{} Pods without a controller", all.len()),
    }
}

const BARE_HELP: &str = "run it in a Deployment of two replicas, or remove the PDB";

fn finish(finding: &mut Finding, advice: Advice, fix: Fix) {
    match advice {
        Advice::Training => {
            finding
                .severity(Severity::Warning)
                .help("protect training pods with `karpenter.sh/do-not-disrupt: \"true\"` instead");
        }
        Advice::NoScale(owner) => {
            finding.help(format!(
                "for pods of {owner} write a whole number in `minAvailable`, or use `karpenter.sh/do-not-disrupt`"
            ));
        }
        Advice::Bare => {
            finding.help(BARE_HELP);
        }
        Advice::Gang => {
            finding.severity(Severity::Warning).help(
                "it holds each drain until the pool's `terminationGracePeriod`: set one, since an eviction stops all ranks",
            );
        }
        Advice::Replicas => {
            finding
                .help("write `maxUnavailable: 1`, or nodes can be neither consolidated nor patched")
                .fix(fix);
        }
    }
}
