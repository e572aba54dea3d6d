//! A run that cannot be moved does not say that it must not be disrupted.
//!
//! # Why
//! Consolidation and drift evict training pods like any others. The run starts again at its last
//! checkpoint, or at the beginning; in a distributed run every other worker waits. With
//! `karpenter.sh/do-not-disrupt` Karpenter leaves the node alone until the pod has ended. It does
//! not help against a spot reclaim or the expiry of the node. Where nothing in the input or in the
//! configuration (`platform.karpenter`) shows Karpenter, and in folders of examples, this is info. The
//! annotation of other pods shows nothing: it is copied to clusters without Karpenter. Nothing is reported of
//! pods on nodes of GKE, of a managed node group or that they name themselves, or on TPUs.
//!
//! The annotation `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"` says that pods of any kind must
//! not be evicted, but only the Cluster Autoscaler reads it. It is reported where a NodePool takes the pods.
//!
//! A job of GitHub Actions ends with its runner, and is not started again: runners of the Actions Runner
//! Controller (`AutoscalingRunnerSet`, the chart `gha-runner-scale-set`, and ephemeral runners of its legacy
//! kinds) are reported where something shows Karpenter. On pools that only end empty nodes it is info: drift
//! and expiry remain.
//!
//! Other Jobs, CronJobs and ScaledJobs are reported where the NodePools of the input that take their pods show
//! the loss. With `backoffLimit: 0` the eviction is the failure of the run: it is reported where a pool
//! consolidates nodes with running pods, and runs may take longer than its `consolidateAfter`; for Jobs and
//! CronJobs with less certainty, as most end within minutes. A ScaledJob for builds of GitHub or Azure Pipelines
//! is reported whatever its `backoffLimit`: the next pod takes the next build. And it is reported where
//! `activeDeadlineSeconds` is a quarter of the pool's `expireAfter` or more, whose drain waits for no budget.
//! Nothing is said of pods whose grace period is half of their deadline.
//!
//! # Fix
//! Annotate the pod template with `karpenter.sh/do-not-disrupt: "true"`. Give the NodePool a
//! `terminationGracePeriod`, so that a hanging run cannot hold its node forever.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    ttlSecondsAfterFinished: 86400
//!    template:
//! -    metadata: # <-
//! -      labels: {app: bert-training}
//! +    metadata:
//! +      labels: {app: bert-training}
//! +      annotations: {karpenter.sh/do-not-disrupt: "true"}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/bert]
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::facts::duration::NillableDuration;
use crate::karpenter::budget::DisruptionReason;
use crate::karpenter::do_not_disrupt::keeps_busy_nodes;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::disruption::{runners, runs};
use crate::rules::karpenter_in_use::{
    READS, is_on_other_platform, may_have_cluster_autoscaler, uses_karpenter,
};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::rules::scheduling::node_helpers::INSTALLING_KINDS;
use crate::workload::node_labels::{is_off_karpenter, names_karpenter};
use crate::workload::template::{is_short_deadline, is_short_lived, run_limit, workload_kind};

/// Workloads, and what starts runners of GitHub Actions.
const KINDS: &[Kind] = kinds![runners::KINDS, WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-missing",
    kinds: KINDS,
    reads: kinds![READS, INSTALLING_KINDS, [Kind::PDB]],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("do_not_disrupt_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

/// Names of the annotation, including the deprecated ones, which another rule reports.
pub(super) const NAMES: [&str; 3] =
    [DO_NOT_DISRUPT, "karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"];

fn has_annotation(template: &Template<'_>) -> bool {
    NAMES.iter().any(|name| template.annotation(name).is_set())
}

/// What the Cluster Autoscaler reads in the place of Karpenter's annotation.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for_other_autoscaler(object, ctx)
        .or_else(|| runners::check(object, ctx))
        .or_else(|| of_training(object, ctx))
        .or_else(|| runs::check(object, ctx))
}

/// Reports pods that only the Cluster Autoscaler would leave alone, on nodes of Karpenter.
fn for_other_autoscaler(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_left_alone = |template: &Template<'_>| {
        has_annotation(template)
            || template.metadata.get("annotations").has_unknown_key()
            || is_spot_only(template)
            || is_off_karpenter(template)
    };
    let templates = templates(object);
    let stated: Vec<&Template<'_>> = templates
        .iter()
        .filter(|template| template.annotation(SAFE_TO_EVICT).text() == Some("false"))
        .filter(|template| !is_left_alone(template))
        .collect();
    let first = stated.first()?;
    if object.is(Kind::DAEMON_SET)
        || object.may_lack_fields()
        // Its annotation is enough where the Cluster Autoscaler runs as well.
        || may_have_cluster_autoscaler(ctx)
        || ctx.cluster().views().is_on_protected_nodes(object)
    {
        return None;
    }
    let pools = ctx.pools_for(first)?.pools;
    let pool = pools.iter().find(|pool| !keeps_busy_nodes(pool.object()))?;
    let node = first.annotation(SAFE_TO_EVICT);
    let mut fix = Fix::new(format!("add `{DO_NOT_DISRUPT}`"), Safety::Unsafe);
    for template in &stated {
        fix = fix.set(&template.annotation(DO_NOT_DISRUPT), json!("true"));
    }
    let message = format!(
        "Karpenter does not read `{SAFE_TO_EVICT}`: pods of `{}` may be evicted",
        object.display_name()
    );
    ctx.report(&node, message)
        .at_key()
        .help(format!("annotate the pods with `{DO_NOT_DISRUPT}: \"true\"`"))
        .related(pool.object(), &pool.object().path(&["metadata", "name"]), "the pods may land on this pool")
        .fix(fix);
    Some(())
}

fn of_training(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A group of pods that trains as one run ends as a Job does, also under a kind that starts it again.
    let is_group = object.is(Kind::LEADER_WORKER_SET);
    let ends = is_group || workload_kind(object).is_some_and(|k| k.runs_to_completion);
    if !(ends || object.is(Kind::POD)) || object.is_owned() {
        return None;
    }
    // On the object itself it is reported by do-not-disrupt-misplaced.
    let own = object.path(&["metadata", "annotations"]);
    let misplaced = NAMES.iter().any(|n| own.get(n).is_set());
    if (misplaced && !object.is(Kind::POD)) || is_short_lived(object) || is_short_test(object) {
        return None;
    }
    let templates = templates(object);
    let bare: Vec<&Template<'_>> = templates.iter().filter(|t| is_bare(t)).collect();
    let first = bare.first()?;
    let classified = ctx.class_of(object);
    if !classified.is(WorkloadClass::Training) || ctx.cluster().views().is_on_protected_nodes(object) {
        return None;
    }
    let shows_karpenter =
        uses_karpenter(ctx) || templates.iter().any(|one| names_karpenter(one) || has_annotation(one));
    if !shows_karpenter && is_on_other_platform(ctx) {
        return None;
    }
    let node = first.annotation(DO_NOT_DISRUPT);
    let mut fix =
        Fix::new("protect the pods; check that the pool has a `terminationGracePeriod`", Safety::Unsafe);
    for template in &bare {
        fix = fix.set(&template.annotation(DO_NOT_DISRUPT), json!("true"));
    }
    let is_seldom = is_left_until_drift(first, ctx);
    let severity =
        if shows_karpenter && !is_seldom && !is_example(object) { Severity::Warning } else { Severity::Info };
    let name = object.display_name();
    let cause = if is_seldom { "to replace its node" } else { "to save money or to replace its node" };
    let message = format!("training run `{name}` may be evicted {cause}");
    let finding = ctx.report(&node, message);
    finding
        .severity(severity)
        .help("annotate its pods with `karpenter.sh/do-not-disrupt: \"true\"`")
        .fix(fix);
    add_class_evidence(finding, object, &classified);
    Some(())
}

/// Whether the pools of the input that take the pods only end empty nodes, and those that drifted.
fn is_left_until_drift(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let is_patient = |object: &Object| {
        NodePool::new(object).is_some_and(|pool| {
            matches!(pool.expire_after(), Some(NillableDuration::Never))
                && pool.consolidation_policy().is_some()
                && !pool.is_disrupted_as(DisruptionReason::Underutilized)
        })
    };
    let found = ctx.pools_for(template);
    let pools = found.as_ref().and_then(|found| found.all_known()).unwrap_or_default();
    !pools.is_empty() && pools.iter().all(|pool| is_patient(pool.object()))
}

/// Seconds within which a test that is evicted is run again without much loss.
const TEST_SECONDS: i64 = 3600;

/// Whether a run is a test, by its name, and ends within an hour.
fn is_short_test(object: &Object) -> bool {
    const WORDS: [&str; 5] = ["test", "tests", "smoke", "smoketest", "dryrun"];
    let name = object.path(&["metadata", "name"]);
    let name = name.raw_text().unwrap_or_default();
    let is_named = name.split(['-', '.', '_']).any(|word| WORDS.contains(&word));
    is_named && run_limit(object).is_some_and(|limit| limit <= TEST_SECONDS)
}

/// Whether a template requests accelerators, does not set the annotation, and may run on other capacity than
/// spot, where the annotation has no effect.
fn is_bare(template: &Template<'_>) -> bool {
    let annotations = template.metadata.get("annotations");
    let unknown = template.metadata.is_unknown()
        || annotations.is_unknown()
        || annotations.entries().iter().any(|(k, _)| is_placeholder(k));
    uses_device(template)
        && !unknown
        && !has_annotation(template)
        && !is_spot_only(template)
        && !is_off_karpenter(template)
        && !is_short_deadline(&template.spec.get("activeDeadlineSeconds"))
}

pub(super) fn is_spot_only(template: &Template<'_>) -> bool {
    let wanted = template.spec.path(&["nodeSelector", CAPACITY_TYPE]);
    if wanted.is_unknown() || wanted.text() == Some("spot") {
        return true;
    }
    let terms = template.required_terms();
    let spot = |term: Node<'_>| {
        term.get("matchExpressions").items().any(|e| {
            let mut values = e.get("values").items();
            e.get("key").text() == Some(CAPACITY_TYPE)
                && e.get("operator").text() == Some("In")
                && values.all(|v| v.is_unknown() || v.text() == Some("spot"))
        })
    };
    terms.items().next().is_some() && terms.items().all(spot)
}
