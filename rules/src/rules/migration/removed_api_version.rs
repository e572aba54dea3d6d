//! An object uses an API version that Kubernetes removed.
//!
//! # Why
//! Kubernetes removes old versions of its APIs. From then on the API server answers "no matches
//! for kind" and the object is not created: no autoscaler, no disruption budget, no Deployment.
//! What was stored before the upgrade lives on, so the manifest seems fine until it is needed for
//! a new cluster.
//!
//! An operator may stop serving an old version of its own kinds as well: `ray.io/v1alpha1` gets no new
//! fields since KubeRay 1.0, and is no longer served from KubeRay 1.9 on. This is information.
//!
//! In a file or folder called after a release, such as `install/v0.5.0`, this is information: it
//! holds what was published for the Kubernetes of its time.
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
//! - <https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1alpha1/rayjob_types.go>

use std::sync::LazyLock;

use crate::facts::table;
use crate::rules::manifest_purpose::is_copy;
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
        Kind::RAY_CLUSTER,
        Kind::RAY_JOB,
        Kind::RAY_SERVICE,
    ],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Kubernetes],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("removed_api_version.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

/// A version that Kubernetes no longer serves.
struct Removed {
    api_version: &'static str,
    /// The minor version of Kubernetes 1 that removed it.
    removed_in: u32,
    replacement: &'static str,
    change: &'static str,
}

static REMOVED: LazyLock<Vec<Removed>> = LazyLock::new(|| {
    let rows = table::read(include_str!("removed_api_versions.tsv"), |row: [&'static str; 4]| {
        let [api_version, removed_in, replacement, change] = row;
        Some(Removed { api_version, removed_in: removed_in.parse().ok()?, replacement, change })
    });
    rows.collect()
});

/// The version of Kubernetes that removed an API version, if it is gone.
pub(in crate::rules) fn removed_in(api_version: &str) -> Option<Version> {
    let row = REMOVED.iter().find(|row| row.api_version == api_version)?;
    Some(Version::new(1, row.removed_in))
}

/// Versions that an operator has announced to serve no longer, what replaces them, and the first release without them. Source: the markers
/// `deprecatedversion` in `ray-operator/apis/ray/v1alpha1` of KubeRay 1.7.0.
const OF_OPERATORS: [(&str, &str, &str); 1] = [("ray.io/v1alpha1", "ray.io/v1", "KubeRay 1.9")];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let written = object.id().api_version();
    if let Some((_, now, release)) = OF_OPERATORS.iter().find(|(version, ..)| *version == written) {
        ctx.report(&object.get("apiVersion"), format!("{release} no longer serves `{written}`"))
            .severity(Severity::Info)
            .rejected_by(None)
            .help(format!("write `{now}`"));
        return None;
    }
    let row = REMOVED.iter().find(|row| row.api_version == written)?;
    let served = ctx.platform().kubernetes < Version::new(1, row.removed_in);
    let kind = object.kind();
    let message = if served {
        format!("{kind} `{written}` is removed in Kubernetes 1.{}", row.removed_in)
    } else {
        format!("{kind} `{written}` was removed in Kubernetes 1.{}", row.removed_in)
    };
    let (help, fix) = remedy(object, row);
    let finding = ctx.report(&object.get("apiVersion"), message);
    finding.help(help);
    if let Some(fix) = fix {
        finding.fix(fix);
    }
    if served {
        finding.severity(Severity::Warning);
    }
    if is_copy(object) {
        finding.severity(Severity::Info);
    }
    None
}

/// The replacement, and the fix if one is known.
fn remedy(object: &Object, row: &Removed) -> (String, Option<Fix>) {
    let version = object.get("apiVersion");
    let now = row.replacement;
    let selector = object.path(&["spec", "selector"]);
    let rename = |fix: Fix| fix.set(&version, json!(now));
    let plain = || (format!("write `{now}`"), Some(rename(Fix::safe(format!("write `{now}`")))));
    match row.change {
        "selector" => {
            let selects = ["matchLabels", "matchExpressions"].iter().any(|field| {
                let part = selector.get(field);
                part.is_unknown() || !part.entries().is_empty() || part.items().next().is_some()
            });
            let empty = selector.is_set() && !selector.is_unknown() && !selects;
            if empty || object.is_partial() {
                return (format!("write `{now}`, where an empty selector selects every pod"), None);
            }
            plain()
        }
        "metrics" if object.path(&["spec", "metrics"]).is_set() || object.is_partial() => {
            (format!("write `{now}`, with each metric's numbers under a `target` block"), None)
        }
        "defaults" => {
            let fix = rename(Fix::unsafe_(format!("write `{now}`; its defaults differ")));
            let labels = object.path(&["spec", "template", "metadata", "labels"]);
            let fix = if selector.is_set() || object.is_partial() {
                Some(fix)
            } else {
                // If no selector was set, the old versions selected the labels of the pods.
                (!labels.entries().is_empty())
                    .then(|| fix.set(&selector.get("matchLabels"), labels.to_json()))
            };
            (format!("write `{now}` with a `selector`; check what defaults you relied on"), fix)
        }
        "webhooks" => {
            (format!("write `{now}` with `sideEffects` and `admissionReviewVersions`; defaults differ"), None)
        }
        _ => plain(),
    }
}
