//! A manifest that the API server accepts makes KEDA's operator panic.
//!
//! # Why
//! The `value` of a `cpu` or `memory` trigger with `metricType: AverageValue` is a quantity. KEDA's
//! admission does not read it, and its operator reads it with a function that panics over anything
//! else. Up to KEDA 2.15 the operator restarts and meets the object again, so nothing in the cluster is
//! scaled until the object is deleted. From 2.16 on the operator recovers, and makes no HPA; an object
//! that worked before it was changed still ends the operator.
//!
//! Before KEDA 2.20.2 the operator also ends over a ScaledJob with `scalingStrategy.strategy: custom` and no
//! `customScalingQueueLengthDeduction`, and panics over an `awsSecretManager` that has neither
//! `credentials` nor the pod identity `aws`. Where the version of KEDA is not stated, both are warnings. Up to
//! KEDA 2.18.1 its admission panics over `transfer-hpa-ownership` without `horizontalPodAutoscalerConfig`
//! while another HPA has the target.
//!
//! # Fix
//! Write a quantity such as `500m` or `2Gi`; a share of the request is `metricType: Utilization`. Write a
//! deduction, such as 0. Name the credentials, or the pod identity.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router}
//!  spec:
//!    scaleTargetRef: {name: router}
//!    minReplicaCount: 2
//!    triggers:
//!      - type: cpu
//!        metricType: AverageValue
//! -      metadata: {value: 50%} # <-
//! +      metadata: {value: 500m}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://keda.sh/docs/latest/reference/scaledjob-spec/#scalingstrategy>
//! - <https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#MustParse>

use std::cmp::Ordering;

use crate::cluster::views::scale_target;
use crate::keda::TRANSFER;
use crate::keda::value::GoFloat;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "crashes-keda-operator",
    kinds: &[
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
        Kind::TRIGGER_AUTHENTICATION,
        Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    ],
    reads: &[Kind::HPA, Kind::SCALED_OBJECT],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("crashes_keda_operator.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

/// The first version whose operator recovers from a panic in its reconciliation.
const RECOVERS_SINCE: Version = Version::new(2, 16);
/// The version that examines both pointers before it reads them: `scale_jobs.go` and `aws_secretmanager_handler.go` of 2.20.2
/// against 2.20.1.
const FIXED_IN: Version = Version::new(2, 20);
const FIXED_PATCH: u32 = 2;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::SCALED_OBJECT) {
        triggers(object).for_each(|trigger| quantity(&trigger, ctx));
        transfer(object, ctx);
    } else if object.is(Kind::SCALED_JOB) {
        custom_strategy(object, ctx);
    } else {
        aws_secret_manager(object, ctx);
    }
    None
}

fn quantity(trigger: &Trigger<'_>, ctx: &mut Context<'_>) {
    if !trigger.is_resource() || trigger.node.get("metricType").text() != Some("AverageValue") {
        return;
    }
    let value = trigger.metadata().get("value");
    let Some(text) = value.text().filter(|text| !text.is_empty() && Quantity::parse(text).is_err()) else {
        return;
    };
    let effect = match ctx.platform().keda < RECOVERS_SINCE {
        true => "the operator restarts, and nothing is scaled",
        false => "the operator recovers, and makes no HPA",
    };
    ctx.report(&value, format!("`{}` is not a quantity: KEDA's operator panics on it", ellipsize(text)))
        .help(format!("write a quantity such as `500m`, or use `metricType: Utilization`: {effect}"));
}

/// The last minor version whose admission reads `horizontalPodAutoscalerConfig` without a look whether it is there; patch 2
/// of it looks (`scaledobject_webhook.go` of 2.18.2 against 2.18.1).
const TRANSFERS_UNCHECKED_UNTIL: Version = Version::new(2, 18);

/// The ownership of an HPA is transferred by its name, which is that of a field that may be absent.
fn transfer(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !panics_on_transfer(object, ctx) {
        return None;
    }
    let node = object.annotation(TRANSFER);
    let platform = ctx.platform();
    let target = std::sync::Arc::new(scale_target(object)?);
    let hpa = ctx.cluster().views().hpas_of(&target).iter().find(|hpa| ctx.pairs_with(hpa))?;
    let effect = match platform.keda < RECOVERS_SINCE {
        true => "its admission webhook restarts",
        false => "its admission answers with status 500",
    };
    ctx.report(&node, "KEDA before 2.18.2 panics on this without `horizontalPodAutoscalerConfig`")
        .help(format!("name the HPA in `advanced.horizontalPodAutoscalerConfig.name`: {effect}"))
        .severity(Severity::Warning)
        .related(hpa, &hpa.path(&["metadata", "name"]), "the HPA of the target");
    None
}

/// A percentage that is no number selects the default strategy, which needs no deduction.
fn custom_strategy(object: &Object, ctx: &mut Context<'_>) {
    let strategy = object.path(&["spec", "scalingStrategy"]);
    let is_number = |text: &str| matches!(GoFloat::parse(text), GoFloat::Value(_));
    if strategy.get("strategy").text() != Some("custom")
        || !strategy.get("customScalingRunningJobPercentage").text().is_some_and(is_number)
        || !is_left_out(&strategy, "customScalingQueueLengthDeduction", object)
    {
        return;
    }
    let Some(severity) = severity_before_fix(ctx) else { return };
    ctx.report(
        &strategy.get("strategy"),
        "KEDA before 2.20.2 panics on `custom` without `customScalingQueueLengthDeduction`",
    )
    .help("write `customScalingQueueLengthDeduction: 0`: KEDA's operator restarts until it is there")
    .severity(severity);
}

fn aws_secret_manager(object: &Object, ctx: &mut Context<'_>) {
    let store = object.path(&["spec", "awsSecretManager"]);
    let identity = store.get("podIdentity");
    let provider = identity.get("provider");
    let has_identity = identity.is_unknown()
        || provider.is_unknown()
        || provider.text().is_some_and(|text| !matches!(text, "" | "none"));
    if !store.is_mapping() || has_identity || !is_left_out(&store, "credentials", object) {
        return;
    }
    let Some(severity) = severity_before_fix(ctx) else { return };
    ctx.report(&store, "KEDA before 2.20.2 panics on `awsSecretManager` without `credentials`")
        .at_key()
        .help("write `credentials`, or `podIdentity: {provider: aws}`")
        .severity(severity);
}

/// Whether KEDA's admission panics over the transfer of an HPA, should there be one.
pub(super) fn panics_on_transfer(object: &Object, ctx: &Context<'_>) -> bool {
    let platform = ctx.platform();
    let advanced = object.path(&["spec", "advanced"]);
    let is_absent = match advanced.is_set() {
        true => is_left_out(&advanced, "horizontalPodAutoscalerConfig", object),
        false => is_left_out(&object.get("spec"), "advanced", object),
    };
    let is_old = match platform.keda.cmp(&TRANSFERS_UNCHECKED_UNTIL) {
        Ordering::Less => true,
        Ordering::Equal => ctx.cluster().shown_patch(Product::Keda).is_none_or(|patch| patch < FIXED_PATCH),
        Ordering::Greater => false,
    };
    object.annotation(TRANSFER).text() == Some("true")
        && is_absent
        && platform.is_stated(Product::Keda)
        && is_old
}

/// Whether a field is certainly not set: a patch may be applied to an object that has it.
fn is_left_out(holder: &Node<'_>, field: &str, object: &Object) -> bool {
    let node = holder.get(field);
    !object.may_lack_fields() && !holder.has_unknown_key() && !node.is_set() && !node.is_unknown()
}

/// `None` for a version that has the fix. A configured version has no patch version; that of a chart or an image may.
fn severity_before_fix(ctx: &Context<'_>) -> Option<Severity> {
    let keda = ctx.platform().keda;
    if !ctx.platform().is_stated(Product::Keda) {
        return Some(Severity::Warning);
    }
    match keda.cmp(&FIXED_IN) {
        Ordering::Greater => None,
        Ordering::Less => Some(Severity::Error),
        Ordering::Equal => match ctx.cluster().shown_patch(Product::Keda) {
            Some(patch) if patch >= FIXED_PATCH => None,
            Some(_) => Some(Severity::Error),
            None => Some(Severity::Warning),
        },
    }
}
