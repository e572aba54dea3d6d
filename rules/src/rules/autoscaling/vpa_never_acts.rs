//! A VerticalPodAutoscaler never changes the one pod of its target.
//!
//! # Why
//! The updater of the VPA evicts pods, or resizes them in place, only where a workload has at least two: with
//! one it logs "Too few replicas" and goes on. Its recommendation is then used only when something else
//! starts the pod anew. The number comes from `--min-replicas` of the updater, which is 2 by default, and
//! `updatePolicy.minReplicas` sets another one for a single VPA. Nothing is said where the input installs
//! the VPA by a chart, whose values may set that option, nor on OpenShift, whose operator has a setting.
//!
//! # Fix
//! Write `updatePolicy.minReplicas: 1`, with which the pod is evicted, so that the workload is away for a
//! while. `InPlaceOrRecreate` resizes it in place first; with `--in-place-skip-disruption-budget=true` its
//! updater needs no second pod for that. Write `updateMode: Initial` if new pods alone shall have the
//! recommendation.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: indexer, namespace: search}
//!  spec:
//!    targetRef: {apiVersion: apps/v1, kind: Deployment, name: indexer}
//! -  updatePolicy: {updateMode: Recreate} # <-
//! +  updatePolicy: {updateMode: Recreate, minReplicas: 1}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: indexer, namespace: search}
//!  spec:
//!    replicas: 1
//!    strategy: {type: Recreate}
//!    selector: {matchLabels: {app: indexer}}
//!    template:
//!      metadata: {labels: {app: indexer}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/indexer:4.0.2
//!            resources: {requests: {cpu: 200m, memory: 512Mi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/flags.md>
//! - <https://github.com/kubernetes/autoscaler/issues/2388>

use super::vpa_hpa_conflict::{policy_for, target};
use crate::cluster::versions::Fact;
use crate::rules::availability::ingress::installs_any;
use crate::rules::prelude::*;
use crate::workload::command::may_have_more_options;
use crate::workload::template::replicas;

/// Targets whose pods have one owner, which the updater counts by: a set, or the one ReplicaSet of a version.
const TARGETS: [Kind; 4] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::REPLICA_SET, Kind::ROLLOUT];

pub(crate) static RULE: Rule = Rule {
    id: "vpa-never-acts",
    kinds: &[Kind::VPA],
    reads: kinds![
        TARGETS,
        [
            Kind::HPA,
            Kind::SCALED_OBJECT,
            Kind::HTTP_SCALED_OBJECT,
            Kind::INFERENCE_SERVICE,
            Kind::HELM_RELEASE,
            Kind::ARGO_APPLICATION,
            Kind::ARGO_APPLICATION_SET,
            Kind::OCI_REPOSITORY
        ]
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("vpa_never_acts.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// `--min-replicas` of the updater, unless its command line has another number (VPA 1.7).
const LEAST_PODS: i64 = 2;
/// Charts that install the VPA: that of its project and of others, and that of Fairwinds.
const CHARTS: [&str; 2] = ["vertical-pod-autoscaler", "vpa"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("updatePolicy");
    let (mode, least) = (policy.get("updateMode"), policy.get("minReplicas"));
    if object.may_lack_fields()
        || object.is_namespace_unknown()
        || spec.has_unknown_key()
        || policy.is_unknown()
        || policy.has_unknown_key()
        // A boost of the CPU at the start acts on a single pod as well.
        || spec.get("startupBoost").is_set()
    {
        return None;
    }
    if mode.is_set() && !matches!(mode.text(), Some("Auto" | "Recreate" | "InPlaceOrRecreate")) {
        return None;
    }
    let key = target(object)?;
    let (namespace, kind, name) = &*key;
    let kind = TARGETS.iter().find(|known| *kind == format!("{}/{}", known.group, known.kind))?;
    let workload = ctx.partner(*kind, namespace, name)?;
    let views = ctx.cluster().views();
    let scales = !views.hpas_of(&key).is_empty()
        || !views.scaled_objects_of(&key).is_empty()
        || !views.made_autoscalers_of(&key).is_empty();
    if scales || workload.may_lack_fields() || replicas(workload) != Some(1) || is_off(&spec, workload) {
        return None;
    }
    let needed = if least.is_set() { least.int()? } else { LEAST_PODS };
    if needed < 2 || may_act_on_one_pod(ctx) {
        return None;
    }
    let message = format!(
        "the VPA never changes the pod of `{}`: its updater acts on {needed} pods or more{}",
        workload.display_name(),
        if least.is_set() { "" } else { " by default" }
    );
    let help = match mode.text() {
        Some("InPlaceOrRecreate") => {
            "write `minReplicas: 1`, or start the updater with `--in-place-skip-disruption-budget=true` (VPA 1.6)"
        }
        _ => "write `minReplicas: 1`, with which the one pod is evicted, or `updateMode: Initial`",
    };
    ctx.report(&least, message)
        .help(help)
        .fix(Fix::unsafe_("act on a single pod").set(&least, json!(1)))
        .related(workload, &workload.path(&["spec", "replicas"]), "one replica");
    None
}

/// Whether the policies leave each container alone: its own, or else the one for all.
fn is_off(spec: &Node<'_>, workload: &Object) -> bool {
    let list = spec.path(&["resourcePolicy", "containerPolicies"]);
    let is_off = |container: Node<'_>| {
        let policy = policy_for(&list, container.get("name").text().unwrap_or("*"));
        policy.is_some_and(|policy| policy.get("mode").text() == Some("Off"))
    };
    list.has_unknown() || templates(workload).iter().flat_map(Template::containers).all(is_off)
}

/// Whether the updater may act on one pod, by its options: a least number of pods, or the budget that it need not keep in place. The
/// operator of OpenShift sets them from a VerticalPodAutoscalerController.
fn may_act_on_one_pod(ctx: &Context<'_>) -> bool {
    let may = |container: &Node<'_>| {
        let words = words(container);
        let is_updater = image_of(container).is_some_and(|image| image.last().ends_with("vpa-updater"));
        is_updater
            && (may_have_more_options(&words)
                || option(&words, &["min-replicas"]).int_or(LEAST_PODS) != Some(LEAST_PODS)
                || !matches!(option(&words, &["in-place-skip-disruption-budget"]), OptionValue::Absent))
    };
    let mut deployments = ctx.cluster().of(Kind::DEPLOYMENT);
    [Fact::UpdaterOption, Fact::OpenShift].iter().any(|fact| ctx.cluster().is_shown(fact))
        || CHARTS.iter().any(|chart| installs_any(ctx, chart))
        || deployments.any(|one| templates(one).iter().flat_map(Template::containers).any(|one| may(&one)))
}
