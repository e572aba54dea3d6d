//! Pods on Spot have a longer grace period than the interruption notice.
//!
//! # Why
//! EC2 takes a Spot node back two minutes after its notice, and Karpenter needs some of that to learn
//! of it and to begin the drain. What a pod with a longer `terminationGracePeriodSeconds` still does
//! then, such as writing a checkpoint, is cut off with the machine. It is a warning where pods with
//! accelerators surely run on Spot, and information where they may, and for other pods.
//!
//! # Fix
//! End within 100 seconds: save less or more often. Or keep the pods on `karpenter.sh/capacity-type:
//! on-demand`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//! -      terminationGracePeriodSeconds: 300 # <-
//! +      terminationGracePeriodSeconds: 100
//!        nodeSelector: {karpenter.sh/capacity-type: spot}
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html>
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>

use crate::rules::prelude::*;
use crate::rules::spot_use::{SpotUse, spot_use};

pub(crate) static RULE: Rule = Rule {
    id: "spot-grace-exceeds-notice",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("spot_grace_exceeds_notice.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Seconds between the interruption notice and the end of a Spot node.
const NOTICE: i64 = 120;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_patch() || object.is(Kind::DAEMON_SET) || object.controller().is_some() {
        return None;
    }
    for template in templates(object) {
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let Some(seconds) = grace.int().filter(|seconds| *seconds > NOTICE) else { continue };
        let device = uses_device(&template);
        let (where_, surely, spot_pool) = match spot_use(&template, ctx) {
            Some(SpotUse::Required) => ("asks for Spot", true, None),
            Some(SpotUse::Only(pool)) => ("runs on Spot", true, Some(pool)),
            Some(SpotUse::Tolerated(pool)) => ("tolerates Spot", true, Some(pool)),
            Some(SpotUse::Possible(pool)) if device => ("may run on Spot", false, Some(pool)),
            _ => continue,
        };
        let message = format!(
            "`{}` {where_}, where a pod gets less than {NOTICE} s to end, not {seconds} s",
            object.display_name()
        );
        let finding = ctx.report(&grace, message);
        finding.help("end within 100 s, or ask for `karpenter.sh/capacity-type: on-demand`");
        if !surely || !device {
            finding.severity(Severity::Info);
        }
        if let Some(pool) = spot_pool {
            let pool = pool.object();
            finding.related(pool, &pool.path(&["metadata", "name"]), "may take the pods");
        }
    }
    None
}
