//! Two autoscalers set the replicas of one workload.
//!
//! # Why
//! KEDA makes an HPA of its own for each ScaledObject. Since Kubernetes 1.26 the HPA controller stops
//! where two HPAs select the same pods: both get the condition `ScalingActive=False` with the reason
//! `AmbiguousSelector`, and the workload keeps the replicas that it has. KEDA's admission webhook rejects
//! the ScaledObject only where the HPA was there first. It is an error where both are applied together
//! for certain: in one file, in one kustomization, in a cluster, or with `--complete`. In other files of a
//! folder, or of one below it, it is a warning, because they may be alternatives; info where that is likely:
//! no kustomization lists both, a name says `option`, `alternative` or `examples`, or the comment at the
//! beginning of a file says that it is not applied. Between unrelated
//! folders nothing is reported. The HTTP add-on of KEDA makes a ScaledObject of each HTTPScaledObject, and
//! KServe an HPA for each Deployment of an InferenceService in its standard mode: beside them it is a warning.
//! The Cluster Proportional Autoscaler writes the replicas of its `--target` every 10 seconds, and a
//! DatadogPodAutoscaler those of its target: each takes back what the other has set, which is a warning as well.
//!
//! # Fix
//! Keep one. With the annotation `serving.kserve.io/autoscalerClass: external` KServe makes none, and with
//! `httpscaledobject.keda.sh/skip-scaledobject-creation: "true"` the add-on does not. To take over an HPA,
//! name it in `horizontalPodAutoscalerConfig.name` and set the
//! annotation `scaledobject.keda.sh/transfer-hpa-ownership: "true"`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//! -  scaleTargetRef:
//! -    name: llm # <-
//! +  scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: "app=llm-client", value: "4"}
//! ----
//! -apiVersion: autoscaling/v2
//! -kind: HorizontalPodAutoscaler
//! -metadata: {name: llm, namespace: chat}
//! -spec:
//! -  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}
//! -  minReplicas: 2
//! -  maxReplicas: 8
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#transfer-ownership-of-an-existing-hpa>
//! - <https://keda.sh/docs/latest/concepts/admission-webhooks/>
//! - <https://github.com/kubernetes-sigs/cluster-proportional-autoscaler>
//! - <https://docs.datadoghq.com/containers/autoscaling/>

use std::sync::Arc;

use crate::cluster::objects::Lookup;
use crate::cluster::together::{Company, company, routes};
use crate::cluster::views::{AUTOSCALER_MAKERS, ScaleTarget, scale_target};
use crate::keda::{OWNERSHIP, TRANSFER, hpa_name};
use crate::rules::autoscaling::crashes_keda_operator::panics_on_transfer;
use crate::rules::comments::is_set_aside;
use crate::rules::manifest_purpose::{is_alternative, is_example};
use crate::rules::partners::rivals;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-hpa-conflict",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA, Kind::HTTP_SCALED_OBJECT],
    reads: kinds![[Kind::SCALED_OBJECT, Kind::HPA], AUTOSCALER_MAKERS, OTHER_SCALERS],
    rejected_by: &[Authority::KedaAdmission],
    depends_on: &[Product::Keda],
    pairs: &[Pair { with: &[Kind::SCALED_OBJECT, Kind::HPA], partners: rivals, beside: nothing }],
    docs: docs(include_str!("keda_hpa_conflict.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let key = Arc::new(scale_target(object)?);
    made_by_operator(object, &key, ctx);
    beside_other_scaler(object, &key, ctx);
    if object.is(Kind::HTTP_SCALED_OBJECT) {
        return None;
    }
    let reference = object.path(&["spec", "scaleTargetRef", "name"]);
    let views = ctx.cluster().views();
    let same = if object.is(Kind::HPA) { views.hpas_of(&key) } else { views.scaled_objects_of(&key) };
    if let Some(first) = rival(object, same, ctx) {
        let kind = object.kind();
        // Kubernetes accepts a second HPA; KEDA rejects a second ScaledObject.
        let refused = object.is(Kind::SCALED_OBJECT) && spelled_alike(object, first);
        let severity = severity(object, first, ctx);
        let outcome = if refused { "KEDA rejects the second" } else { "neither scales it" };
        let so = if severity == Severity::Error { "" } else { "if both are applied, " };
        let help = if refused {
            "remove one of the two; where KEDA's webhook does not run, neither scales (AmbiguousSelector)"
        } else {
            "remove one of the two; both report `ScalingActive=False` with the reason AmbiguousSelector"
        };
        ctx.report(&reference, format!("`{}` has two autoscalers: {so}{outcome}", key.2))
            .help(help)
            .identified_by(format!("{kind} {}", first.name()))
            .rejected_by(refused.then_some(Authority::KedaAdmission))
            .severity(severity)
            .related(
                first,
                &first.path(&["spec", "scaleTargetRef", "name"]),
                format!("{kind} `{}` scales it too", first.display_name()),
            );
    }
    if object.is(Kind::HPA) {
        return None;
    }
    same_hpa_name(object, ctx);
    for hpa in views.hpas_of(&key) {
        // A transfer that panics is reported by crashes-keda-operator.
        if is_made_for(hpa, object, ctx)
            || transfers(object, hpa)
            || panics_on_transfer(object, ctx)
            || !ctx.pairs_with(hpa)
        {
            continue;
        }
        let severity = severity(object, hpa, ctx);
        let hpa_name = hpa.display_name();
        // KEDA rejects the ScaledObject if the HPA exists first; in the other order both are accepted.
        let skipped = hpa.annotation(OWNERSHIP).text() == Some("false");
        let refused = spelled_alike(object, hpa).then_some(Authority::KedaAdmission);
        let outcome =
            if refused.is_some() && !skipped { "KEDA rejects this one" } else { "neither scales it" };
        let so = if severity == Severity::Error { "" } else { "if both are applied, " };
        let finding = ctx.report(
            &reference,
            format!("`{}` has two autoscalers, this one and HPA `{hpa_name}`: {so}{outcome}", key.2),
        );
        finding.identified_by(format!("HorizontalPodAutoscaler {}", hpa.name()));
        let is_transfer = object.annotation(TRANSFER).text() == Some("true");
        finding
            .help(match is_transfer {
                true => format!("name the HPA that is taken over: `advanced.horizontalPodAutoscalerConfig.name: {hpa_name}`"),
                false => "remove one: KEDA makes its own HPA; if the other comes later, neither scales (AmbiguousSelector)".to_owned(),
            })
            .rejected_by(refused)
            .related(hpa, &hpa.path(&["spec", "scaleTargetRef", "name"]), "the HPA scales it here");
        finding.severity(if skipped { Severity::Warning } else { severity });
    }
    None
}

/// Reports an autoscaler beside one that an operator makes of another object. Of two HTTPScaledObjects it is the later one
/// by name.
fn made_by_operator(object: &Object, key: &Arc<ScaleTarget>, ctx: &mut Context<'_>) -> Option<()> {
    let made = ctx.cluster().views().made_autoscalers_of(key);
    // In a dump of a cluster it may be the one that the operator made.
    if made.is_empty() || object.is_owned() || object.annotation(TRANSFER).text() == Some("true") {
        return None;
    }
    let is_maker = object.is(Kind::HTTP_SCALED_OBJECT);
    if is_maker && !made.iter().any(|other| other.is_same_resource(object)) {
        return None;
    }
    let other = made.iter().find(|other| {
        !other.is_same_resource(object)
            && (!is_maker || other.name() < object.name())
            && ctx.pairs_with(other)
    })?;
    let reference = object.path(&["spec", "scaleTargetRef", "name"]);
    let (by_add_on, class) = (other.is(Kind::HTTP_SCALED_OBJECT), "serving.kserve.io/autoscalerClass");
    let makes =
        if by_add_on || other.annotation(class).text() == Some("keda") { "a ScaledObject" } else { "an HPA" };
    let (target, name) = (ellipsize(&key.2), ellipsize(other.name()));
    let message = format!(
        "`{target}` has two autoscalers: {makes} is created from {} `{name}`, and neither scales",
        other.kind()
    );
    let help = if by_add_on {
        "keep one; the HTTP add-on makes none with `httpscaledobject.keda.sh/skip-scaledobject-creation: \"true\"`"
    } else {
        "write `serving.kserve.io/autoscalerClass: external` on the InferenceService, or remove this one"
    };
    ctx.report(&reference, message)
        .help(help)
        .identified_by(format!("{} {}", other.kind(), other.name()))
        .rejected_by(None)
        .severity(Severity::Warning)
        .related(other, &other.path(&["metadata", "name"]), "another autoscaler is created from it");
    None
}

/// What sets the replicas of a workload without an HPA: the Deployments of the Cluster Proportional Autoscaler, and the autoscalers
/// of Datadog.
struct OtherScalers;

impl Predicate for OtherScalers {
    const SLOT: QuerySlot = QuerySlot::OtherScalers;
    const KINDS: &'static [Kind] = &OTHER_SCALERS;

    fn is_satisfied(one: &Object) -> bool {
        one.is(Kind::DATADOG_POD_AUTOSCALER)
            || templates(one)
                .iter()
                .flat_map(Template::containers)
                .any(|container| is_proportional(&container))
    }
}

const OTHER_SCALERS: [Kind; 2] = [Kind::DEPLOYMENT, Kind::DATADOG_POD_AUTOSCALER];

fn is_proportional(container: &Node<'_>) -> bool {
    images_of(container).any(|image| image.last().starts_with("cluster-proportional-autoscaler"))
}

/// Reports an autoscaler beside another object that sets the replicas of its target.
fn beside_other_scaler(object: &Object, key: &Arc<ScaleTarget>, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_owned() {
        return None;
    }
    let all = ctx.cluster().satisfying::<OtherScalers>();
    let sets_replicas = |other: &Object| match other.is(Kind::DEPLOYMENT) {
        true => sets_by_cluster_size(other, key),
        false => sets_by_datadog(other, key) == Some(true),
    };
    let ObjectKey(other) = all.iter().find(|ObjectKey(one)| sets_replicas(one) && ctx.pairs_with(one))?;
    let (name, kind) = (other.display_name(), other.kind());
    let message =
        format!("`{}` has two autoscalers: {kind} `{name}` sets its replicas as well", ellipsize(&key.2));
    ctx.report(&object.path(&["spec", "scaleTargetRef", "name"]), message)
        .help("remove one of the two: each takes back what the other has set")
        .identified_by(format!("{kind} {}", other.name()))
        .rejected_by(None)
        .severity(Severity::Warning)
        .related(other, &other.path(&["metadata", "name"]), "it sets the replicas");
    None
}

/// Whether the Cluster Proportional Autoscaler sets the replicas of a target, which it compares in lower case.
fn sets_by_cluster_size(other: &Object, (namespace, kind, name): &ScaleTarget) -> bool {
    let resource = kind.rsplit('/').next().unwrap_or(kind).to_ascii_lowercase();
    let value = |container: &Node<'_>, name: &str| match option(&words(container), &[name]) {
        OptionValue::Text(text, _) => text,
        _ => String::new(),
    };
    let sets_it = |container: Node<'_>| {
        let target = value(&container, "target").to_ascii_lowercase();
        let target = target.split_once('/');
        target.is_some_and(|(of, named)| of.starts_with(&*resource) && named == name.as_str())
            && value(&container, "namespace") == *namespace
    };
    other.path(&["spec", "replicas"]).int() != Some(0)
        && templates(other).iter().flat_map(Template::containers).filter(is_proportional).any(sets_it)
}

/// Whether an autoscaler of Datadog sets the replicas of a target: one may only show what it would do, or set the requests alone.
/// `None` if it is not known.
fn sets_by_datadog(other: &Object, (namespace, kind, name): &ScaleTarget) -> Option<bool> {
    let spec = other.get("spec");
    let target = spec.get("targetRef");
    let group = target.get("apiVersion").text()?.rsplit_once('/').map_or("", |(group, _)| group);
    let policy = spec.get("applyPolicy");
    if other.may_lack_fields() || other.version() != "v1alpha2" || policy.has_unknown() {
        return None;
    }
    let is_off = |direction: &str| policy.path(&[direction, "strategy"]).text() == Some("Disabled");
    let is_target = other.namespace_or_default() == *namespace
        && format!("{group}/{}", target.get("kind").text()?) == *kind
        && target.get("name").text()? == name.as_str();
    let is_preview = policy.get("mode").text() == Some("Preview");
    Some(is_target && !is_preview && !(is_off("scaleUp") && is_off("scaleDown")))
}

/// The other autoscaler of the target to name in the finding: of those before this one in the order of names and files, the
/// one that is most certainly applied together with it.
fn rival<'a>(object: &Object, same: &'a [Object], ctx: &Context<'_>) -> Option<&'a Object> {
    let is_hpa = object.is(Kind::HPA);
    if is_hpa && is_of_keda(object, ctx) {
        return None;
    }
    let own = same.iter().position(|other| other.ptr_eq(object));
    let own = own.or_else(|| same.iter().position(|other| other.name() == object.name()));
    let earlier = own.map_or(same, |at| &same[..at]).iter();
    let others = earlier.filter(|other| {
        !other.is_same_resource(object)
            && other.name() != object.name()
            && !(is_hpa && is_of_keda(other, ctx))
            && ctx.pairs_with(other)
    });
    others.min_by_key(|other| company(object, other))
}

/// An error if both are certainly applied together, information if they may be alternatives: a kustomization lists only one of two
/// files in its folder, or different ones do, or the files are examples or called alternatives.
fn severity(object: &Object, other: &Object, ctx: &Context<'_>) -> Severity {
    if ctx.cluster().surely_pairs(object, other) {
        return Severity::Error;
    }
    let both = [object, other];
    let is_choice = both.iter().any(|one| is_example(one) || is_alternative(one) || is_set_aside(one));
    let is_listed_apart =
        company(object, other) == Company::Folder && both.iter().any(|one| !routes(one).is_empty());
    if is_choice || is_listed_apart { Severity::Info } else { Severity::Warning }
}

/// Two ScaledObjects whose HPAs would have the same name.
fn same_hpa_name(object: &Object, ctx: &mut Context<'_>) {
    let Some(name) = hpa_name(object) else { return };
    let views = ctx.cluster().views();
    let all = views.scaled_objects_of_hpa(object.namespace_or_default(), &name);
    let Some(first) = all.iter().find(|other| ctx.pairs_with(other)) else { return };
    // Two ScaledObjects with the same target are reported above.
    if first.name() == object.name() || scale_target(first) == scale_target(object) {
        return;
    }
    let path = ["spec", "advanced", "horizontalPodAutoscalerConfig", "name"];
    let custom = object.path(&path);
    let (node, other) = if custom.is_set() {
        (custom, first.path(&path))
    } else {
        (object.path(&["metadata", "name"]), first.path(&path))
    };
    let severity = severity(object, first, ctx);
    ctx.report(&node, format!("ScaledObject `{}` makes an HPA of the same name", ellipsize(first.name())))
        .help("give each ScaledObject an HPA name of its own")
        .rejected_by(Some(Authority::KedaAdmission))
        .severity(severity)
        .related(first, &other, "the other one's HPA");
}

/// Whether both write kind and version of the target in the same way, with KEDA's defaults: KEDA compares the
/// strings.
fn spelled_alike(a: &Object, b: &Object) -> bool {
    let words = |object: &Object| {
        let reference = object.path(&["spec", "scaleTargetRef"]);
        let word = |name: &str, default: &str| match reference.get(name).text() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => default.to_owned(),
        };
        (word("apiVersion", "apps/v1"), word("kind", "Deployment"))
    };
    words(a) == words(b)
}

/// Whether KEDA made an HPA for a ScaledObject. In a dump of a cluster it names the ScaledObject as its owner. Anybody may
/// write that, so it must also have the name that KEDA gives it, or gave it before an update of the ScaledObject: KEDA
/// overwrites such an HPA.
fn is_made_for(hpa: &Object, scaled: &Object, ctx: &Context<'_>) -> bool {
    let views = ctx.cluster().views();
    let stored = || views.scaled_objects_of_hpa(hpa.namespace_or_default(), hpa.name());
    owners(hpa).any(|name| name == scaled.name())
        && (hpa_name(scaled).is_none_or(|name| name == hpa.name())
            || stored().iter().any(|other| other.is_same_resource(scaled)))
}

/// Whether an HPA is that of a ScaledObject, which may be unknown.
fn is_of_keda(hpa: &Object, ctx: &Context<'_>) -> bool {
    let namespace = hpa.namespace_or_default();
    owners(hpa).any(|name| match ctx.cluster().find(Kind::SCALED_OBJECT, namespace, name) {
        Lookup::Found(scaled) => is_made_for(hpa, scaled, ctx),
        Lookup::Missing => false,
        Lookup::Unknown => true,
    })
}

fn owners(hpa: &Object) -> impl Iterator<Item = &str> {
    hpa.owners().filter(|o| o.get("kind").text() == Some("ScaledObject")).filter_map(|o| o.get("name").text())
}

fn transfers(scaled: &Object, hpa: &Object) -> bool {
    scaled.annotation(TRANSFER).text() == Some("true")
        && scaled.path(&["spec", "advanced", "horizontalPodAutoscalerConfig", "name"]).text()
            == Some(hpa.name())
}
