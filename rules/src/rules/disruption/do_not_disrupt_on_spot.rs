//! Pods on Spot are marked do-not-disrupt, which does not stop a reclaim.
//!
//! # Why
//! EC2 takes a Spot node back two minutes after it says so, whatever an annotation says. Karpenter
//! drains the node in that time, but leaves out the pods with `karpenter.sh/do-not-disrupt`: the pods
//! that were to be protected are the only ones that nobody asks to end. They write no checkpoint and
//! close no connection; they stop with the machine. It is a warning where the pods surely run on Spot, and
//! advice where they may.
//!
//! # Fix
//! Keep protected pods off Spot: `karpenter.sh/capacity-type: on-demand` (or `reserved`) in their node
//! selector. Pods that can live with Spot save their work when they get SIGTERM, and have no
//! annotation.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: render}
//!  spec:
//!    backoffLimit: 6
//!    template:
//! -    metadata:
//! -      annotations:
//! -        karpenter.sh/do-not-disrupt: "true" # <-
//! +    metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//! -      nodeSelector: {karpenter.sh/capacity-type: spot}
//! +      nodeSelector: {karpenter.sh/capacity-type: on-demand}
//!        containers:
//!          - name: main
//!            image: example.com/render:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>

use crate::karpenter::do_not_disrupt::protects;
use crate::rules::prelude::*;
use crate::rules::spot_use::{SpotUse, spot_use};

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-on-spot",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("do_not_disrupt_on_spot.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // DaemonSet pods run on every node; pods with a controller are checked in its template.
    if object.is(Kind::DAEMON_SET) || object.controller().is_some() {
        return None;
    }
    let name = object.display_name();
    for template in templates(object) {
        if protects(&template, ctx.platform()) != Some(true) {
            continue;
        }
        let Some(spot) = spot_use(&template, ctx) else { continue };
        let node = template.annotation(DO_NOT_DISRUPT);
        let (how, severity, spot_pool) = match spot {
            SpotUse::Required => ("asks for", Severity::Warning, None),
            SpotUse::Only(pool) => ("runs on", Severity::Warning, Some(pool)),
            SpotUse::Tolerated(pool) => ("tolerates", Severity::Warning, Some(pool)),
            SpotUse::Possible(pool) => ("may run on", Severity::Info, Some(pool)),
        };
        let message = format!(
            "`{name}` {how} Spot: do-not-disrupt does not stop a reclaim, and the pods get no SIGTERM before it"
        );
        let finding = ctx.report(&node, message);
        finding
            .at_key()
            .severity(severity)
            .help("ask for `karpenter.sh/capacity-type: on-demand`, or save work on SIGTERM and remove it");
        if let Some(pool) = spot_pool {
            let pool = pool.object();
            finding.related(pool, &pool.path(&["metadata", "name"]), "may take the pods");
        }
    }
    None
}
