//! `expireAfter` is too short: nodes expire soon after they start.
//!
//! # Why
//! `expireAfter` counts from the moment the node is asked for. `0s` makes each node expire at once, in
//! an endless loop of starts and drains. A GPU node needs five to fifteen minutes until its first pod
//! runs; with less than an hour it spends much of its paid life booting and pulling images. On any pool a life of
//! minutes moves each pod as often, and no budget delays it.
//!
//! # Fix
//! Write hours, as in `168h` for a week, or `Never`; Karpenter does not accept `d`. Less than `seconds`
//! (3600), or `gpu-seconds` (3600) on GPU pools, counts as short.
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
//! -      expireAfter: 30m # <-
//! +      expireAfter: 168h
//!    limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#expiration>
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecexpireafter>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "expire-after-short",
    params: &[
        Param {
            name: "seconds",
            description: "the shortest useful life of a node, in seconds",
            default: ParamDefault::Int { default: 3600, min: 1, max: 2_592_000 },
        },
        Param {
            name: "gpu-seconds",
            description: "the shortest useful life of a GPU node, in seconds",
            default: ParamDefault::Int { default: 3600, min: 1, max: 2_592_000 },
        },
    ],
    docs: docs(include_str!("expire_after_short.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::Disruption)
};

/// The seconds that nodes without GPUs need until they pay off.
const BOOT: u64 = 600;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let node = pool.template_spec().get("expireAfter");
    // Only an explicit value is checked; the default is long.
    let text = node.text()?;
    let seconds = pool.expire_after().and_then(|span| span.seconds())?;
    let gpu = pool.is_gpu_intended();
    let least = ctx.int(if gpu { "gpu-seconds" } else { "seconds" });
    let (noun, name) = (if gpu { pool.noun() } else { "pool" }, object.display_name());
    if seconds == 0 {
        ctx.report(&node, format!("each node of pool `{name}` expires as soon as it exists"))
            .help("write hours, such as `168h` for a week, or `Never`");
    } else if i64::try_from(seconds).is_ok_and(|s| s < least) {
        let effect = if gpu || seconds < BOOT {
            "barely longer than they take to boot"
        } else {
            "and move each pod as often"
        };
        let message = format!("nodes of {noun} `{name}` expire after {text}, {effect}");
        ctx.report(&node, message)
            .severity(Severity::Warning)
            .help("write hours, such as `168h` for a week, or `Never`");
    }
    None
}
