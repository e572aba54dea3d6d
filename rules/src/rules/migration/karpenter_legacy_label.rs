//! A pod chooses its nodes by a label that Karpenter's nodes no longer carry.
//!
//! # Why
//! Up to v0.32 each node said its Provisioner in `karpenter.sh/provisioner-name`. Today Karpenter
//! ignores a pod that selects this label, with an event and nothing else: the pod stays Pending
//! for ever. Written as `DoesNotExist`, the usual way to stay away from Karpenter's nodes, it is
//! true of every node and keeps nothing away.
//!
//! The labels of `beta.kubernetes.io` and `failure-domain.beta.kubernetes.io` still work, because
//! Karpenter reads them as the stable ones; new Kubernetes versions may stop to set them on nodes.
//! They are reported as info.
//!
//! # Fix
//! Select `karpenter.sh/nodepool`. Look at the value: it is the name of the NodePool now, which
//! need not be the name that the Provisioner had. The fix is offered where a pool of that name is
//! among the files.
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
//! - <https://kubernetes.io/docs/reference/labels-annotations-taints/#beta-kubernetes-io-arch>

use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;
use crate::workload::node_labels::{LabelReference, LabelUse, referenced_labels};
use crate::workload::template::{WORKLOAD_KINDS, with_workloads};

const OLD: &str = "karpenter.sh/provisioner-name";
const NEW: &str = "karpenter.sh/nodepool";

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-label",
    kinds: &KINDS,
    reads: &[Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("karpenter_legacy_label.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

const KINDS: [Kind; WORKLOAD_KINDS.len() + 1] = with_workloads(&[Kind::NODE_POOL]);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NODE_POOL) {
        let requirements = object.path(&["spec", "template", "spec", "requirements"]);
        for requirement in requirements.items() {
            let place = requirement.get("key");
            if let Some(key) = place.text() {
                beta(
                    &LabelReference {
                        key,
                        usage: LabelUse::Required,
                        node: place,
                        selector: None,
                        values: Vec::new(),
                    },
                    ctx,
                );
            }
        }
        return None;
    }
    for template in templates(object) {
        for mention in referenced_labels(&template) {
            if mention.key == OLD {
                provisioner_name(&mention, ctx);
            } else {
                beta(&mention, ctx);
            }
        }
    }
    None
}

fn provisioner_name(mention: &LabelReference<'_>, ctx: &mut Context<'_>) {
    let (severity, message) = match mention.usage {
        LabelUse::Required => (Severity::Error, format!("Karpenter ignores pods that select `{OLD}`")),
        LabelUse::Excluded => {
            (Severity::Warning, format!("no node has `{OLD}` any more, so this keeps the pod off none"))
        }
        LabelUse::Preferred => {
            (Severity::Warning, format!("no node has `{OLD}` any more, so this preference does nothing"))
        }
        LabelUse::Topology => {
            (Severity::Error, format!("no node has `{OLD}` any more, so the pod fits on none"))
        }
        LabelUse::SoftTopology => {
            (Severity::Warning, format!("no node has `{OLD}` any more, so this spreads nothing"))
        }
    };
    // A name means a NodePool only where there is one of that name.
    let known = mention.values.iter().all(|value| {
        value.text().is_some_and(|name| {
            let pools = Kind::NODE_POOL;
            let named = |kind: Kind| ctx.index().all(kind.group, kind.kind, "default", name);
            !named(pools).is_empty()
        })
    });
    let finding = ctx.report(&mention.node, message);
    finding.severity(severity).help(format!("select `{NEW}` and the name of the NodePool"));
    if mention.selector.is_some() {
        finding.at_key();
    }
    if known {
        let title = format!("write `{NEW}`; check which nodes the pod then gets");
        rename(finding, mention, NEW, Fix::new(title, Safety::Unsafe));
    }
}

/// A label that Kubernetes renamed, and that Karpenter reads under its new name.
fn beta(mention: &LabelReference<'_>, ctx: &mut Context<'_>) {
    let key = mention.key;
    let stable = normalise(key);
    // The EBS driver's own zone label is no older name.
    if stable == key || !key.contains("beta.kubernetes.io/") {
        return;
    }
    let finding = ctx.report(&mention.node, format!("`{key}` is the old name of `{stable}`"));
    finding.severity(Severity::Info).help(format!("write `{stable}`"));
    if mention.selector.is_some() {
        finding.at_key();
    }
    let fix = Fix::new(format!("write `{stable}`"), Safety::Safe);
    rename(finding, mention, stable, fix);
}

/// Renames the key, unless the new one is written beside it.
fn rename(finding: &mut Finding, mention: &LabelReference<'_>, key: &str, fix: Fix) {
    match &mention.selector {
        Some(selector) => {
            let new = selector.get(key);
            if new.is_absent() {
                finding.fix(fix.move_to(&mention.node, &new));
            }
        }
        None => {
            finding.fix(fix.set(&mention.node, json!(key)));
        }
    }
}
