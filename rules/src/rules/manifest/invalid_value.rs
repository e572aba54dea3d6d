//! The API server rejects the value of a field.
//!
//! # Why
//! A number where the field is a string, `30d` where Karpenter reads hours, minutes and seconds, a label
//! with a blank in it, a port above 65535: the API server answers with an error, and the rollout
//! stops there. gpulint reports the same error earlier, at the value, with what to write instead.
//!
//! The values of a ConfigMap and of a Secret are texts, whatever they mean: `REPLICAS: 3` and a map below
//! `config.yaml` are rejected, and so are keys with a `/`.
//!
//! The API server accepts the pod template of a RayCluster, a Rollout or another custom resource as it is, and
//! rejects the pods when the controller creates them: the object exists, and its pods never do.
//!
//! # Fix
//! Write a value that the field accepts: quotes around a number that is meant as text, another unit, one of
//! the valid values. `kubectl explain KIND.FIELD` describes a field; the references below have the formats
//! of names and durations. If the value is a placeholder that a tool fills in later, run that tool first, or
//! write it in a form that gpulint knows, such as `${NAME}`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -      expireAfter: 30d # <-
//! +      expireAfter: 720h
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>
//! - <https://karpenter.sh/docs/concepts/nodepools/>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::facts::duration;
use crate::facts::names::is_dns_label;
use crate::karpenter::minors;
use crate::karpenter::minors::has_open_kubelet;
use crate::kind::VALIDATED_KINDS;
use crate::platform::Platform;
use crate::rules::gitops::{DELIVERERS, is_merged};
use crate::rules::manifest::manifest_incomplete::{is_change_of_workload, is_incomplete, is_part};
use crate::rules::manifest::message_parts::{contest, in_releases, of_pods};
use crate::rules::manifest::misplaced::{follows, misplaced};
use crate::rules::manifest::since;
use crate::rules::manifest::stand_in::{comment_for_value, stand_in};
use crate::rules::manifest::violation_message::{Description, describe, duration_field};
use crate::rules::precedence::EarlierReports;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{InvalidKind, Subject, Violation, ViolationKind};
use crate::workload::template::is_workflow;

pub(crate) static RULE: Rule = Rule {
    id: "invalid-value",
    kinds: kinds![VALIDATED_KINDS, [Kind::CONFIG_MAP, Kind::SECRET]],
    reads: kinds![POD_POLICIES, DELIVERERS],
    // A CRD accepts a number that does not fit into a Go integer, but no controller can then decode it.
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter, Product::Keda, Product::Kubernetes],
    // A value that Karpenter's CRDs accept but its controllers cannot decode stops Karpenter.
    alternates: &["crashes-karpenter", "duration-undecodable"],
    docs: docs(include_str!("invalid_value.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let violations = schema::violations(object, ctx.definitions());
    if violations.is_empty() {
        return None;
    }
    let earlier = EarlierReports::of(object, ctx);
    let outdated = schema::outdated_schemas(object, ctx.platform(), ctx.definitions());
    let may_differ = schema::may_differ(object, ctx.definitions());
    let is_defined = schema::is_defined(object, ctx.definitions());
    let incomplete = is_incomplete(object, ctx.definitions());
    let changes_workload = is_change_of_workload(object);
    let is_merged = changes_workload && is_merged(object, ctx);
    let dropped = dropped_fields(object, ctx);
    // Violations that follow from a misplaced field are not reported beside unknown-field's finding.
    let misplaced =
        if ctx.is_rule_enabled("unknown-field") { misplaced(object, ctx.definitions()) } else { Vec::new() };
    for violation in violations.iter() {
        let later = since::bounded_later(object, violation, ctx);
        if !is_defined && is_accepted_by_version(object, violation, later, ctx.platform())
            || violation.kind == ViolationKind::Unknown
            || is_part(violation)
            || earlier.covers(violation)
            || dropped.iter().any(|field| violation.pointer.steps().starts_with(field.steps()))
            || since::is_of_older_keda(object, &violation.pointer, ctx)
        {
            continue;
        }
        let node = object.root().at(&violation.pointer);
        // A placeholder is reported by placeholder-unexpanded.
        if (incomplete || is_merged) && node.is_absent()
            || stand_in(violation, &node, object, &violations).is_some()
            || comment_for_value(object, &node).is_some()
            || follows(object, violation, &misplaced)
            || may_be_mounted(object, violation, ctx)
        {
            continue;
        }
        let mut description = describe(object, &node, violation);
        if violation.subject != Subject::Object {
            report_of_pods(object, &node, violation, description, ctx);
            continue;
        }
        // A newer version may accept more values, but not one that differs from a known one in its case alone.
        let outdated = outdated
            .filter(|_| matches!(violation.kind, ViolationKind::Enum { .. }) && description.fix.is_none());
        if let Some(product) = outdated {
            description.message =
                format!("{} up to {} {}", description.message, product.name(), product.newest());
        }
        if let Some(later) = later {
            description.help = Some(format!("the API server rejects it from KEDA {later} on"));
        }
        if matches!(violation.kind, ViolationKind::Enum { .. })
            && let Some(operator) = schema::operator_of(object, ctx.definitions())
        {
            description.message = in_releases(description.message, operator);
        }
        let contesting_file = schema::contesting_file(object, &violation.pointer, ctx.definitions());
        let finding = match violation.kind {
            ViolationKind::Missing => ctx.report_missing(&node, description.message),
            _ => ctx.report(&node, description.message),
        };
        finding.rejected_by(later.is_none().then(|| rejecting_component(object, violation)));
        if outdated.is_some() || later.is_some() {
            finding.severity(Severity::Warning);
        }
        // A kustomization may have the selector, and a patch of an installed workload needs no image.
        if changes_workload && node.is_absent() {
            finding.severity(Severity::Info);
        }
        if may_differ && !is_common(violation) && !has_other_shape(violation, &node) {
            finding.severity(Severity::Warning).rejected_by(None);
        }
        if let Some(file) = contesting_file {
            contest(finding, &file);
            continue;
        }
        if let Some(help) = description.help {
            finding.help(help);
        }
        if let Some(fix) = description.fix {
            finding.fix(fix);
        }
    }
    None
}

/// Reports a value with which a controller cannot create its pods. The API server accepts the object itself.
fn report_of_pods(
    object: &Object,
    node: &Node<'_>,
    violation: &Violation,
    description: Description,
    ctx: &mut Context<'_>,
) {
    let message = match &violation.kind {
        // The definition in the cluster rejects it, or the controller cannot decode it.
        ViolationKind::Type { .. } => description.message,
        _ => of_pods(description.message),
    };
    // The defaults of Argo's controller are those of all workflows.
    let is_default = is_workflow(object)
        && matches!(violation.kind, ViolationKind::Invalid { of: InvalidKind::UnknownVolume, .. });
    let is_newer = ctx.platform().version(Product::Kubernetes) > Product::Kubernetes.newest();
    let finding = ctx.report(node, message);
    finding.rejected_by(None);
    // A newer version may accept more values.
    let is_uncertain = is_newer && matches!(violation.kind, ViolationKind::Enum { .. });
    let is_injected = matches!(violation.kind, ViolationKind::Invalid { of: InvalidKind::UnknownVolume, .. })
        && is_of_open_data_hub(object);
    if is_injected {
        finding
            .severity(Severity::Info)
            .help("write it under `volumes`, unless Open Data Hub's webhook adds it");
        return;
    }
    if is_uncertain || is_default || violation.subject == Subject::MergedPods {
        finding.severity(Severity::Warning);
    }
    if let Some(help) = description.help {
        finding.help(help);
    }
    if let Some(fix) = description.fix {
        finding.fix(fix);
    }
}

/// Whether an object is a Notebook of Open Data Hub, whose webhook adds volumes to it: of certificates, of pipelines, of runtimes
/// (`notebook_webhook.go` of its odh-notebook-controller).
fn is_of_open_data_hub(object: &Object) -> bool {
    let metadata = object.get("metadata");
    let maps = [metadata.get("labels"), metadata.get("annotations")];
    object.is(Kind::NOTEBOOK)
        && maps.iter().any(|map| map.entries().iter().any(|(key, _)| key.contains("opendatahub.io/")))
}

/// Whether a policy or a webhook may add the volume that a container mounts: operators such as that of Knative have webhooks for the
/// pods of their own programs. The API server looks at the templates of other workloads of its own itself, before there are pods.
fn may_be_mounted(object: &Object, violation: &Violation, ctx: &Context<'_>) -> bool {
    let is_checked = matches!(object.group(), "apps" | "batch") && !object.is(Kind::STATEFUL_SET);
    !is_checked
        && matches!(violation.kind, ViolationKind::Invalid { of: InvalidKind::UnknownVolume, .. })
        && may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::Volumes)
}

/// The fields that the API server drops before it validates the object, because their feature gate is off.
fn dropped_fields(object: &Object, ctx: &Context<'_>) -> Vec<Pointer> {
    if Product::of_group(object.group()) != Some(Product::Kubernetes) {
        return Vec::new();
    }
    let fields = schema::fields_with_history(object, ctx.definitions());
    let dropped = fields.filter(|(_, history)| history.is_dropped(ctx.platform()));
    dropped.map(|(node, _)| node.pointer()).collect()
}

/// Whether the platform's version accepts a value that other versions reject: for Karpenter a duration, a repeated reason, and
/// whatever its controllers check instead; for KEDA, which has the bound from `later` on, a replica count below its minimum, which is
/// reported by keda-replica-bounds; for Kubernetes the name of a Service that begins with a digit.
fn is_accepted_by_version(
    object: &Object,
    violation: &Violation,
    later: Option<Version>,
    platform: &Platform,
) -> bool {
    if object.is(Kind::SERVICE) && violation.pointer.steps() == ["metadata", "name"] {
        let relaxed = schema::feature_gate("RelaxedServiceNameValidation");
        let is_text = object.path(&["metadata", "name"]).text().is_some();
        return is_text
            && is_dns_label(object.name())
            && relaxed.is_some_and(|gate| !gate.is_off(platform.kubernetes, platform));
    }
    if later.is_some() {
        let last = violation.pointer.steps().last().map_or("", String::as_str);
        return matches!(last, "minReplicaCount" | "maxReplicaCount" | "idleReplicaCount");
    }
    let node = object.root().at(&violation.pointer);
    let karpenter = Provider::of_object(object).karpenter_version(platform);
    let steps: Vec<&str> = violation.pointer.steps().iter().map(String::as_str).collect();
    match (&violation.kind, steps.as_slice()) {
        (_, ["spec", "kubelet", _, ..]) if object.is(Kind::EC2_NODE_CLASS) => {
            return has_open_kubelet(karpenter);
        }
        (ViolationKind::Duplicate { .. }, ["spec", "disruption", "budgets", _, "reasons", ..])
            if object.is(Kind::NODE_POOL) =>
        {
            let reasons = "spec/disruption/budgets/*/reasons";
            return !minors::states(karpenter, "NodePool", reasons, "list", "set");
        }
        _ => {}
    }
    let text = node.text().filter(|_| matches!(violation.kind, ViolationKind::Pattern { .. }));
    text.zip(duration_field(object, &node))
        .is_some_and(|(text, field)| duration::passes_unanchored_pattern(field, text, karpenter))
}

/// Whether a violation is about `metadata`, which is the same in every kind and version.
fn is_common(violation: &Violation) -> bool {
    violation.pointer.steps().first().is_some_and(|first| first == "metadata")
}

/// Whether a map or a list is written where all releases of an operator have something else: objects that are stored keep a release from
/// changing that.
fn has_other_shape(violation: &Violation, node: &Node<'_>) -> bool {
    let ViolationKind::Type { expected } = &violation.kind else { return false };
    node.is_mapping() && !expected.contains(&"object") || node.is_sequence() && !expected.contains(&"array")
}

/// The component that rejects a value: in custom resources the API server accepts numbers beyond 32 bits, and
/// quantities that Go cannot parse. KEDA's webhooks decode the objects that they validate, and reject both.
fn rejecting_component(object: &Object, violation: &Violation) -> Authority {
    let decoded = match &violation.kind {
        ViolationKind::Range { limit, .. } => {
            *limit == i32::MAX.to_string() || *limit == i32::MIN.to_string()
        }
        // The value matches the pattern of the CRD.
        ViolationKind::Format { format } => format == schema::GO_QUANTITY,
        _ => false,
    };
    match object.group() {
        "keda.sh" if decoded => Authority::KedaAdmission,
        _ => Authority::ApiServer,
    }
}
