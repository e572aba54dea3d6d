//! A DaemonSet keeps Karpenter from disrupting any node that it runs on.
//!
//! # Why
//! The pods of a DaemonSet are on every node, and one pod with `karpenter.sh/do-not-disrupt` protects
//! its node. So no node of the cluster is consolidated, none takes a new AMI, and empty GPU nodes stay.
//!
//! # Fix
//! Remove the annotation: Karpenter drains a node before it stops, and gives DaemonSets their grace
//! period. A duration of up to an hour, for a start that must not be interrupted, is taken.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: agent}
//!  spec:
//!    selector: {matchLabels: {app: agent}}
//!    template:
//! -    metadata:
//! -      labels: {app: agent}
//! -      annotations:
//! -        karpenter.sh/do-not-disrupt: "true" # <-
//! +    metadata: {labels: {app: agent}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/agent:1.2.0
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://karpenter.sh/docs/concepts/disruption/>

use crate::karpenter::do_not_disrupt::is_active;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-on-daemonset",
    kinds: &[Kind::DAEMON_SET],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("do_not_disrupt_on_daemonset.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

/// Protection for up to this long after the start is not reported.
const START_SECONDS: i64 = 3600;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        let annotations = template.metadata.get("annotations");
        let node = annotations.get(DO_NOT_DISRUPT);
        let Some(text) = node.text().filter(|t| is_active(t, ctx.platform())) else { continue };
        if GoDuration::parse(text).is_ok_and(|d| d.seconds() <= START_SECONDS) {
            continue;
        }
        let whole = if annotations.entries().len() == 1 { &annotations } else { &node };
        ctx.report(
            &node,
            "this protects a pod on every node: Karpenter can neither consolidate nor update any of them",
        )
        .at_key()
        .help("remove the annotation; a drain waits for the pod's grace period")
        .fix(
            Fix::new("remove the annotation; check what its pods must not lose", Safety::Unsafe)
                .remove(whole),
        );
    }
    None
}
