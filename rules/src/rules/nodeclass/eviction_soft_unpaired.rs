//! A soft eviction threshold lacks its grace period, or the reverse.
//!
//! # Why
//! The kubelet evicts pods when a soft threshold has been met for its grace period, so neither works alone.
//! The API server rejects the class; from 1.15 on Karpenter's controller does, and the class is not Ready.
//!
//! # Fix
//! Write the same signals in `evictionSoft` and `evictionSoftGracePeriod`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    kubelet:
//!      evictionSoft:
//!        memory.available: 5% # <-
//! +    evictionSoftGracePeriod:
//! +      memory.available: 1m30s
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#soft-eviction-thresholds>

use crate::karpenter::node_class::EVICTION_SIGNALS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "eviction-soft-unpaired",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    docs: docs(include_str!("eviction_soft_unpaired.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let soft = class.get("kubelet").get("evictionSoft");
    let grace = class.get("kubelet").get("evictionSoftGracePeriod");
    let authority = super::kubelet_authority(ctx);
    for (from, to, message, help) in [
        (
            &soft,
            &grace,
            "has no entry in `evictionSoftGracePeriod`",
            "add how long the signal must hold, such as 1m30s",
        ),
        (
            &grace,
            &soft,
            "has a grace period, but no threshold in `evictionSoft`",
            "add the threshold, or remove the grace period",
        ),
    ] {
        // A placeholder may contain the other half.
        if to.is_unknown() || to.entries().iter().any(|(key, _)| is_placeholder(key)) {
            continue;
        }
        for (key, node) in from.entries() {
            if EVICTION_SIGNALS.contains(&key) && !node.is_null() && !to.get(key).is_set() {
                ctx.report(&node, format!("`{key}` {message}")).rejected_by(authority).at_key().help(help);
            }
        }
    }
    None
}
