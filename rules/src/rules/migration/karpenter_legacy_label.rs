//! A pod selects nodes by a label that Karpenter's nodes no longer have.
//!
//! # Why
//! Up to v0.32 the label `karpenter.sh/provisioner-name` named a node's Provisioner. Today Karpenter
//! ignores a pod that selects this label, with an event and nothing else: the pod stays Pending.
//! Written as `DoesNotExist`, the usual way to stay away from Karpenter's nodes, it is true of every
//! node and keeps the pod off none. Where Karpenter is known to be older than 0.33, it is information.
//!
//! # Fix
//! Select `karpenter.sh/nodepool`. Check the value: it is the name of the NodePool, which need not be
//! the name that the Provisioner had. The fix is offered where a NodePool of that name is in the
//! input.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: nightly-report}
//!  spec:
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        affinity:
//!          nodeAffinity:
//!            requiredDuringSchedulingIgnoredDuringExecution:
//!              nodeSelectorTerms:
//!                - matchExpressions:
//! -                  - key: karpenter.sh/provisioner-name # <-
//! -                    operator: Exists
//! +                  - {key: karpenter.sh/nodepool, operator: Exists}
//!        containers:
//!          - name: main
//!            image: example.com/report:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#selecting-nodes>
//! - <https://karpenter.sh/v0.32/upgrading/v1beta1-migration/>

use super::rename_label::report_rename;
use crate::karpenter::installation::is_controller;
use crate::karpenter::labels::PROVISIONER_NAME as OLD;
use crate::rules::prelude::*;

const NEW: &str = "karpenter.sh/nodepool";
/// Karpenter 0.32 still has Provisioners, whose nodes have the label.
const FIRST_WITHOUT: Version = Version::new(0, 33);

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-label",
    reads: &[Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("karpenter_legacy_label.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Migration)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // Karpenter itself avoids the nodes that its own version labels.
    if template.containers().any(|container| is_controller(&container)) {
        return None;
    }
    let is_still_set = ctx.platform().karpenter < FIRST_WITHOUT;
    for mention in referenced_labels(template).into_iter().filter(|mention| mention.key == OLD) {
        if is_still_set {
            report_rename(&mention, NEW, format!("Karpenter no longer sets `{OLD}` from 0.33 on"), None, ctx)
                .severity(Severity::Info)
                .help(format!("select `{NEW}` when Provisioners become NodePools, before Karpenter 0.33"));
            continue;
        }
        let (severity, message) = match mention.usage {
            LabelUse::Required => (Severity::Error, format!("Karpenter ignores pods that select `{OLD}`")),
            LabelUse::Excluded => (
                Severity::Warning,
                format!(
                    "nodes no longer have `{OLD}`, so this no longer keeps the pod off Karpenter's nodes"
                ),
            ),
            LabelUse::Preferred => {
                (Severity::Warning, format!("nodes no longer have `{OLD}`, so this preference has no effect"))
            }
            LabelUse::Topology => {
                (Severity::Error, format!("nodes no longer have `{OLD}`, so the pod cannot be scheduled"))
            }
            LabelUse::SoftTopology => {
                (Severity::Warning, format!("nodes no longer have `{OLD}`, so this spreads nothing"))
            }
        };
        // A value is the name of a NodePool only if a NodePool of that name exists.
        let names_pool = |value: &Node<'_>| {
            let pool = Kind::NODE_POOL;
            let found = |name| !ctx.cluster().all(pool.group, pool.kind, "default", name).is_empty();
            value.text().is_some_and(found)
        };
        let fix = (mention.values.iter().all(names_pool))
            .then(|| Fix::unsafe_(format!("write `{NEW}`; check which nodes the pod then gets")));
        report_rename(&mention, NEW, message, fix, ctx)
            .severity(severity)
            .help(format!("select `{NEW}` and the name of the NodePool"));
    }
    None
}
