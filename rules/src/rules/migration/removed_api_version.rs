//! An object is written in a version that its API no longer has.
//!
//! # Why
//! Kubernetes removes old versions of its APIs. From then on the API server answers "no matches
//! for kind" and the object is not created: no autoscaler, no disruption budget, no Deployment.
//! What was stored before the upgrade lives on, so the manifest seems fine until it is needed for
//! a new cluster.
//!
//! # Fix
//! Write the version that replaced it. Where only the name of the version changed, or what changed
//! does not touch this object, the repair is safe. Where defaults changed it is not: Deployments of
//! `extensions/v1beta1` kept every old ReplicaSet, its DaemonSets were updated by hand only, and an
//! empty selector of a `policy/v1beta1` PodDisruptionBudget selected nothing, while in `policy/v1`
//! it selects every pod of the namespace.
//!
//! # Example
//! ```yaml,diff
//! -apiVersion: policy/v1beta1 # <-
//! +apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embedder}
//!  spec:
//!    maxUnavailable: 1
//!    selector: {matchLabels: {app: embedder}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/deprecation-guide/>

use crate::platform::Version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "removed-api-version",
    kinds: &[
        Kind::HPA,
        Kind::PDB,
        Kind::CRON_JOB,
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::DAEMON_SET,
        Kind::REPLICA_SET,
        Kind::new("extensions", "Deployment"),
        Kind::new("extensions", "DaemonSet"),
        Kind::new("extensions", "ReplicaSet"),
        Kind::VALIDATING_WEBHOOK_CONFIGURATION,
        Kind::MUTATING_WEBHOOK_CONFIGURATION,
    ],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("removed_api_version.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

/// What an object must become when its version is replaced.
#[derive(Clone, Copy)]
enum Change {
    /// Nothing but the name of the version.
    Name,
    /// A PDB: an empty selector means something else.
    Selector,
    /// An HPA: the targets of its metrics stand elsewhere.
    Metrics,
    /// A workload: defaults changed, and the selector is required.
    Defaults,
    /// A webhook configuration: defaults changed, and fields became required.
    Webhooks,
}

/// A version that is gone.
struct Removed {
    api_version: &'static str,
    /// The minor version of Kubernetes 1 that no longer has it.
    gone: u32,
    now: &'static str,
    change: Change,
}

const fn row(api_version: &'static str, gone: u32, now: &'static str, change: Change) -> Removed {
    Removed { api_version, gone, now, change }
}

/// From the deprecation guide of Kubernetes; the kinds are those of the rule.
static REMOVED: &[Removed] = &[
    row("autoscaling/v2beta1", 25, "autoscaling/v2", Change::Metrics),
    row("autoscaling/v2beta2", 26, "autoscaling/v2", Change::Name),
    row("policy/v1beta1", 25, "policy/v1", Change::Selector),
    row("batch/v2alpha1", 21, "batch/v1", Change::Name),
    row("batch/v1beta1", 25, "batch/v1", Change::Name),
    row("extensions/v1beta1", 16, "apps/v1", Change::Defaults),
    row("apps/v1beta1", 16, "apps/v1", Change::Defaults),
    row("apps/v1beta2", 16, "apps/v1", Change::Name),
    row("admissionregistration.k8s.io/v1beta1", 22, "admissionregistration.k8s.io/v1", Change::Webhooks),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let written = object.id().api_version();
    let row = REMOVED.iter().find(|r| r.api_version == written)?;
    let node = object.get("apiVersion");
    let served = ctx.platform().kubernetes < Version::new(1, row.gone);
    let kind = &object.id().kind;
    let message = if served {
        format!("Kubernetes 1.{} no longer serves {kind} `{written}`", row.gone)
    } else {
        format!("no API server since Kubernetes 1.{} serves {kind} `{written}`", row.gone)
    };
    let (help, fix) = remedy(object, row);
    let finding = ctx.report(&node, message);
    finding.help(help);
    if let Some(fix) = fix {
        finding.fix(fix);
    }
    if served {
        finding.severity(Severity::Warning);
    }
    None
}

/// What to write, and the repair where one is known.
fn remedy(object: &Object, row: &Removed) -> (String, Option<Fix>) {
    let node = object.get("apiVersion");
    let now = row.now;
    let rename = |title: String, safety| Fix::new(title, safety).set(&node, json!(now));
    let plain = || (format!("write `{now}`"), Some(rename(format!("write `{now}`"), Safety::Safe)));
    match row.change {
        Change::Name => plain(),
        Change::Selector => {
            let selector = object.path(&["spec", "selector"]);
            let says = |field: &str| {
                let part = selector.get(field);
                part.is_unknown() || !part.entries().is_empty() || part.items().next().is_some()
            };
            let empty = selector.is_set()
                && !selector.is_unknown()
                && !says("matchLabels")
                && !says("matchExpressions");
            if empty || object.is_partial() {
                let help = format!("write `{now}`, where an empty selector selects every pod");
                (help, None)
            } else {
                plain()
            }
        }
        Change::Metrics => {
            if object.path(&["spec", "metrics"]).is_set() || object.is_partial() {
                let help = format!("write `{now}`, with each metric's numbers under a `target` block");
                (help, None)
            } else {
                plain()
            }
        }
        Change::Defaults => {
            let help = format!("write `{now}` with a `selector`; check what defaults you relied on");
            let selector = object.path(&["spec", "selector"]);
            let labels = object.path(&["spec", "template", "metadata", "labels"]);
            let title = format!("write `{now}`; its defaults differ");
            if selector.is_set() || object.is_partial() {
                return (help, Some(rename(title, Safety::Unsafe)));
            }
            // The old versions selected the pods' own labels where nothing was written.
            let fix = (!labels.entries().is_empty())
                .then(|| rename(title, Safety::Unsafe).set(&selector.get("matchLabels"), labels.to_json()));
            (help, fix)
        }
        Change::Webhooks => {
            (format!("write `{now}` with `sideEffects` and `admissionReviewVersions`; defaults differ"), None)
        }
    }
}
