//! Argo CD never applies changes of a `spec`, because all of it is ignored.
//!
//! # Why
//! `ignoreDifferences` leaves fields out of the comparison with the cluster. With the sync option
//! `RespectIgnoreDifferences=true` a sync leaves them alone as well: it writes the live value. Where the ignored
//! field is all of `spec`, an object is created from Git once, and every later change of it in Git reports
//! `Synced` and reaches no cluster: limits of a NodePool, the AMI of a class, the triggers of a ScaledObject.
//!
//! # Fix
//! Ignore only the fields that something else writes, such as `/spec/replicas`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Application
//!  metadata: {name: karpenter, namespace: argocd}
//!  spec:
//!    project: platform
//!    source: {repoURL: "https://git.example.com/platform/nodes", path: karpenter, targetRevision: main}
//!    destination: {server: "https://kubernetes.default.svc"}
//!    syncPolicy:
//!      automated: {}
//!      syncOptions: [RespectIgnoreDifferences=true]
//!    ignoreDifferences:
//!      - group: karpenter.sh
//!        kind: NodePool
//!        jsonPointers:
//! -        - /spec # <-
//! +        - /spec/limits
//! ```
//!
//! # References
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#respect-ignore-differences-configs>
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/diffing/>

use crate::rules::gitops::RESPECTS;
use crate::rules::prelude::*;
use crate::workload::charts::spec_of;

pub(crate) static RULE: Rule = Rule {
    id: "spec-never-synced",
    kinds: &[Kind::ARGO_APPLICATION, Kind::ARGO_APPLICATION_SET],
    docs: docs(include_str!("spec_never_synced.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Kinds whose `spec` nothing but Git writes, or of which others write single fields.
const KINDS: [Kind; 16] = [
    Kind::NODE_POOL,
    Kind::EC2_NODE_CLASS,
    Kind::AUTO_MODE_NODE_CLASS,
    Kind::NODE_OVERLAY,
    Kind::SCALED_OBJECT,
    Kind::SCALED_JOB,
    Kind::TRIGGER_AUTHENTICATION,
    Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    Kind::HPA,
    Kind::PDB,
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::DAEMON_SET,
    Kind::CRON_JOB,
    Kind::ROLLOUT,
    Kind::NETWORK_POLICY,
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = spec_of(object);
    let options = spec.path(&["syncPolicy", "syncOptions"]);
    let option = options.items().find(|option| option.text() == Some(RESPECTS))?;
    for entry in spec.get("ignoreDifferences").items() {
        let kind = entry.get("kind");
        let of_group = |known: &&Kind| {
            entry.get("group").text().is_none_or(|group| matches!(group, "" | "*") || group == known.group)
        };
        let what = match kind.text() {
            Some("*") => "objects".to_owned(),
            Some(name) => match KINDS.iter().filter(of_group).find(|known| known.kind == name) {
                Some(known) => plural(known.kind),
                None => continue,
            },
            None => continue,
        };
        let pointers = entry.get("jsonPointers");
        let paths = entry.get("jqPathExpressions");
        let whole =
            pointers.items().find(|one| one.text().is_some_and(|text| text.trim_end_matches('/') == "/spec"));
        let whole = whole.or_else(|| paths.items().find(|one| one.text().map(str::trim) == Some(".spec")));
        let Some(whole) = whole else { continue };
        ctx.report(
            &whole,
            format!("changes of `spec` of {what} in Git never reach the cluster: all of it is ignored"),
        )
        .help("ignore single fields that something else writes, such as `/spec/replicas`")
        .related(object, &option, "a sync writes the live value of what is ignored");
    }
    None
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}
