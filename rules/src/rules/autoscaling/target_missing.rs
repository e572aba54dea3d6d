//! The search for the target of an autoscaler, and what shows that it exists although the input has no such object.

use crate::cluster::views::scale_target;
use crate::rules::prelude::*;

/// The kinds that [`check`] reads: those of targets, and those that bring a target.
pub(super) const READS: &[Kind] =
    kinds![CHART_KINDS, [Kind::CANARY, Kind::HPA, Kind::SCALED_OBJECT], WORKLOAD_KINDS];

/// Reports an autoscaler without a target, of a kind whose objects have their replicas from a template in the input.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (namespace, _, name) = scale_target(object)?;
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let version = reference.get("apiVersion");
    let is_hpa = object.is(Kind::HPA);
    // Without an API version an HPA looks in the core group, which invalid-value reports.
    if is_hpa && !version.is_set() {
        return None;
    }
    let api_version = version.text().filter(|t| !t.is_empty()).unwrap_or("apps/v1");
    let kind = reference.get("kind").text().filter(|t| !t.is_empty()).unwrap_or("Deployment");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let wanted = *SCALABLE_KINDS.iter().find(|k| k.group == group && k.kind == kind)?;
    // An invalid API version is reported by keda-target-invalid.
    if api_version.matches('/').count() > 1 || ctx.cluster().has(wanted, &namespace, &name) {
        return None;
    }
    let cluster = ctx.cluster();
    // In a snapshot of a cluster the target may be applied a moment later.
    let certain = cluster.is_complete();
    if certain && may_be_target(object, wanted, &name, ctx) {
        return None;
    }
    let brings = may_bring_objects(cluster)
        || may_be_unread(cluster, wanted.kind, &name)
        || is_made_by_flagger(object, &name, ctx)
        || is_made_by_operator(object, &name, ctx);
    let missing = cluster.is_complete_for(wanted) && !brings;
    let other = (SCALABLE_KINDS.iter().filter(|k| **k != wanted))
        .flat_map(|k| cluster.all(k.group, k.kind, &namespace, &name).iter().map(|found| (k.kind, found)))
        .find(|(_, found)| ctx.pairs_with(found));
    let node = reference.get("name");
    let short = ellipsize(&name);
    if let Some((kind, found)) = other {
        let api_version = found.id().api_version();
        let message = format!("there is no {} `{short}` here, but a {kind} of that name", wanted.kind);
        ctx.report(&node, message)
            .help(format!("write `apiVersion: {api_version}` and `kind: {kind}`"))
            .related(found, &found.path(&["metadata", "name"]), "it is here")
            .severity(if certain && !brings { Severity::Error } else { Severity::Warning })
            .fix(
                Fix::unsafe_(format!("aim at the {kind}"))
                    .set(&version, json!(api_version))
                    .set(&reference.get("kind"), json!(kind)),
            );
        return None;
    }
    let elsewhere = in_other_namespace(object, wanted, &name, ctx).filter(|_| !brings);
    if !missing && elsewhere.is_none() || is_patched(wanted, &name, ctx) {
        return None;
    }
    let severity = if certain { Severity::Error } else { Severity::Info };
    if let Some(found) = elsewhere {
        let message =
            format!("there is no {} `{short}` in namespace `{}`", wanted.kind, ellipsize(&namespace));
        let there = ellipsize(found.namespace_or_default());
        let help = format!(
            "write `namespace: {there}` in the {}: its target is in its own namespace",
            object.kind()
        );
        ctx.report(&node, message)
            .help(help)
            .related(found, &found.path(&["metadata", "namespace"]), "the one of that name")
            .severity(severity.max(Severity::Warning));
    } else {
        ctx.report(&node, format!("there is no {} `{short}`", wanted.kind))
            .help("add the target or correct its name: nothing is scaled until it exists")
            .severity(severity);
    }
    None
}

/// Objects whose name or namespace is not known before they are applied. A cluster has none, so this query saves a look
/// at each of its objects for each autoscaler.
struct OpenTargets;

impl Predicate for OpenTargets {
    const SLOT: QuerySlot = QuerySlot::OpenTargets;
    const KINDS: &'static [Kind] = SCALABLE_KINDS;

    fn is_satisfied(object: &Object) -> bool {
        is_name_unknown(object) || is_namespace_open(object)
    }
}

fn is_name_unknown(object: &Object) -> bool {
    object.path(&["metadata", "name"]).is_unknown()
}

fn is_namespace_open(object: &Object) -> bool {
    object.namespace().is_none() || object.is_namespace_unknown()
}

/// Whether one of the objects of the kind may have the name, or be in the namespace, when it is applied.
fn may_be_target(object: &Object, kind: Kind, name: &str, ctx: &Context<'_>) -> bool {
    let open = ctx.cluster().satisfying::<OpenTargets>();
    open.iter().any(|ObjectKey(found)| found.is(kind) && (is_name_unknown(found) || found.name() == name))
        || is_namespace_open(object) && ctx.cluster().of(kind).any(|found| found.name() == name)
}

/// Whether Flagger makes the target: the copy of the workload of a Canary, called `NAME-primary`.
fn is_made_by_flagger(object: &Object, name: &str, ctx: &Context<'_>) -> bool {
    let Some(base) = name.strip_suffix("-primary") else { return false };
    let mut canaries = ctx.cluster().in_namespace(Kind::CANARY, object.namespace_or_default());
    canaries.any(|canary| canary.path(&["spec", "targetRef", "name"]).text().is_none_or(|name| name == base))
}

/// The only workload of the name, in another namespace, where nothing scales it.
fn in_other_namespace<'i>(object: &Object, kind: Kind, name: &str, ctx: &Context<'i>) -> Option<&'i Object> {
    let cluster = ctx.cluster();
    let found = cluster.only_likely_elsewhere(object, kind, name)?;
    cluster.views().autoscaler_of(found).is_none().then_some(found)
}

/// Whether an operator may make the object of a name: of a custom resource whose name it has, or begins with, such as
/// `NAME-predictor` of an InferenceService.
pub(in crate::rules) fn is_made_by_operator(object: &Object, name: &str, ctx: &Context<'_>) -> bool {
    let makers = ctx.cluster().views().pod_makers();
    makers.0.iter().any(|maker| {
        let is_here =
            is_namespace_open(maker) || maker.namespace_or_default() == object.namespace_or_default();
        is_here && is_named_after(name, maker)
    })
}

/// Whether a name is that of an object, or begins with it.
pub(in crate::rules) fn is_named_after(name: &str, maker: &Object) -> bool {
    let rest = name.strip_prefix(maker.name());
    is_name_unknown(maker) || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether a patch of the input is for the target, whose manifest is then in a base outside of the input.
fn is_patched(kind: Kind, name: &str, ctx: &Context<'_>) -> bool {
    ctx.cluster().partial().iter().any(|object| object.is(kind) && object.name() == name)
}
