//! A pool never removes nodes, not even empty ones.
//!
//! # Why
//! `consolidateAfter: Never` turns off all consolidation. A node whose last pod has gone stays until it
//! expires, thirty days by default; an idle p5.48xlarge costs more than fifty dollars an hour.
//!
//! # Fix
//! Write `consolidationPolicy: WhenEmpty` with a few minutes of `consolidateAfter`: running pods stay
//! where they are, and empty nodes go. On pools without accelerators the finding is advice.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 16}
//! -  disruption:
//! -    consolidationPolicy: WhenEmpty
//! -    consolidateAfter: Never # <-
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#consolidation>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "consolidation-never",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("consolidation_never.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let after = pool.disruption().get("consolidateAfter");
    if pool.is_static() || after.text() != Some("Never") {
        return None;
    }
    let name = object.display_name();
    let gpu = pool.is_gpu_intended();
    let noun = if gpu { pool.noun() } else { "pool" };
    let expiry = pool.template_spec().get("expireAfter");
    let end = if expiry.text() == Some("Never") { "stay forever" } else { "stay until they expire" };
    let policy = pool.disruption().get("consolidationPolicy");
    let finding = ctx.report(&after, format!("empty nodes of {noun} `{name}` {end}"));
    finding.help("write `consolidationPolicy: WhenEmpty` with `consolidateAfter: 10m`").fix(
        Fix::new("remove empty nodes after ten minutes; check that nothing waits for them", Safety::Unsafe)
            .set(&after, json!("10m"))
            .set(&policy, json!("WhenEmpty")),
    );
    if !gpu {
        finding.severity(Severity::Info);
    }
    None
}
