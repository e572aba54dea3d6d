//! A trigger names credentials that KEDA does not send, because no mode says how.
//!
//! # Why
//! The triggers for Prometheus, Loki, a metrics API, PredictKube, ArangoDB and Pulsar use what a
//! TriggerAuthentication gives only in the mode that `authModes` names: `basic`, `bearer`, `tls`, `custom`,
//! `apiKey`. Without it they ask without any credentials and report nothing; the answer is 401, and the HPA gets
//! no metric. The mode is of the trigger: it does not follow from the parameters.
//!
//! # Fix
//! Write the mode beside the address, `authModes: basic` for a user and a password. The trigger `metrics-api` has
//! it as `authMode`.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: mimir-reader, namespace: search}
//! spec:
//!   secretTargetRef:
//!     - {parameter: username, name: mimir-reader, key: user}
//!     - {parameter: password, name: mimir-reader, key: token}
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: rerank, namespace: search}
//! spec:
//!   scaleTargetRef: {name: rerank}
//!   minReplicaCount: 1
//!   maxReplicaCount: 6
//!   triggers:
//!     - type: prometheus
//!       authenticationRef: {name: mimir-reader}
//!       metadata: # <-
//!         serverAddress: https://mimir.example.com/prometheus
//!         query: sum(rate(rerank_requests_total[2m]))
//!         threshold: "40"
//! ```
//!
//! # Good
//! ```yaml,fixed
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: mimir-reader, namespace: search}
//! spec:
//!   secretTargetRef:
//!     - {parameter: username, name: mimir-reader, key: user}
//!     - {parameter: password, name: mimir-reader, key: token}
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: rerank, namespace: search}
//! spec:
//!   scaleTargetRef: {name: rerank}
//!   minReplicaCount: 1
//!   maxReplicaCount: 6
//!   triggers:
//!     - type: prometheus
//!       authenticationRef: {name: mimir-reader}
//!       metadata:
//!         serverAddress: https://mimir.example.com/prometheus
//!         query: sum(rate(rerank_requests_total[2m]))
//!         threshold: "40"
//!         authModes: basic
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/prometheus/#authentication-parameters>
//! - <https://keda.sh/docs/latest/scalers/metrics-api/#authentication-parameters>

use crate::keda::sources::Authentication;
use crate::rules::autoscaling::keda_trigger_invalid::authentication;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-mode-missing",
    reads: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_auth_mode_missing.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The types whose scalers send credentials only in a mode, with the key of the mode: `pkg/scalers` of KEDA 2.14 to 2.20. That of
/// Graphite sends a user and a password in any case.
const KEYS: [(&str, &str); 6] = [
    ("arangodb", "authModes"),
    ("loki", "authModes"),
    ("metrics-api", "authMode"),
    ("predictkube", "authModes"),
    ("prometheus", "authModes"),
    ("pulsar", "authModes"),
];

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let (metadata, kind) = (trigger.metadata(), trigger.kind()?);
    let (_, key) = KEYS.iter().find(|(known, _)| *known == kind)?;
    if object.may_lack_fields() || !metadata.is_mapping() || metadata.has_unknown_key() {
        return None;
    }
    let source = authentication(object, trigger, ctx)?;
    let Authentication::Known(given) = Authentication::of(&source.get("spec")) else { return None };
    let has_mode = metadata.entries().iter().any(|(key, _)| key.starts_with("authMode"))
        || given.names.iter().any(|name| name.starts_with("authMode"));
    if has_mode || given.identity != "none" {
        return None;
    }
    let modes = modes(kind, &given.names);
    // One mode of these alone is accepted.
    let is_clear = !(modes.contains(&"basic") && modes.contains(&"bearer"));
    let mode = if is_clear { modes.join(",") } else { modes.join("` or `") };
    modes.first()?;
    let message =
        format!("KEDA does not send the credentials of `{}`: the trigger has no `{key}`", source.name());
    let finding = ctx.report(&metadata, message);
    finding.at_key().help(format!("write `{key}: {mode}`")).related(
        source,
        &source.path(&["metadata", "name"]),
        "this gives the credentials",
    );
    if is_clear {
        finding.fix(Fix::unsafe_("send the credentials").set(&metadata.get(key), json!(mode)));
    }
    None
}

/// The modes for which the parameters are.
fn modes(kind: &str, given: &[&str]) -> Vec<&'static str> {
    // PredictKube has an `apiKey` of its own, and Pulsar uses a certificate where `tls` is `enable`.
    let parameters: [(&[&str], &'static str, bool); 5] = [
        (&["username"], "basic", true),
        (&["bearerToken"], "bearer", true),
        (&["customAuthHeader", "customAuthValue"], "custom", true),
        (&["apiKey"], "apiKey", kind == "metrics-api"),
        (&["cert", "key"], "tls", kind != "pulsar"),
    ];
    let is_for = |names: &[&str]| names.iter().all(|name| given.contains(name));
    parameters
        .into_iter()
        .filter(|(names, _, fits)| *fits && is_for(names))
        .map(|(_, mode, _)| mode)
        .collect()
}
