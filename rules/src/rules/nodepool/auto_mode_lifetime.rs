//! Nodes of EKS Auto Mode would live longer than the 21 days that it allows.
//!
//! # Why
//! EKS Auto Mode replaces its nodes within 21 days, so that they get security updates. `expireAfter` and
//! `terminationGracePeriod`, which is 24 hours where it is not set, must not exceed 504 hours together. The
//! API server of such a cluster rejects a NodePool with more, and with `Never`.
//!
//! # Fix
//! Lower `expireAfter`, or `terminationGracePeriod` where that is the larger part.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
//! -      expireAfter: 720h # <-
//! +      expireAfter: 480h
//!        requirements:
//!          - {key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/automode.html>

use crate::cluster::placement::AUTO_MODE_GRACE;
use crate::facts::duration::{DurationField, NillableDuration, parse};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-lifetime",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("auto_mode_lifetime.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

const HOUR: u64 = 3600;
/// 21 days.
const LONGEST: u64 = 504 * HOUR;
/// `terminationGracePeriod` where it is not set.
const GRACE: u64 = AUTO_MODE_GRACE as u64;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !pool.is_auto_mode() || pool.object().is_partial() {
        return None;
    }
    let spec = pool.template_spec();
    let (life, grace) = (spec.get("expireAfter"), spec.get("terminationGracePeriod"));
    let period = if grace.is_set() {
        parse(DurationField::TerminationGracePeriod, grace.text()?).ok()?.seconds()?
    } else {
        GRACE
    };
    // How long nodes live where nothing is written is AWS's decision.
    let written = if life.is_set() {
        match parse(DurationField::ExpireAfter, life.text()?).ok()? {
            NillableDuration::Never => None,
            NillableDuration::Seconds(seconds) => Some(seconds),
        }
    } else {
        Some(0)
    };
    if written.is_some_and(|seconds| seconds.saturating_add(period) <= LONGEST) {
        return None;
    }
    let name = pool.object().display_name();
    let (node, message) = match written {
        _ if period >= LONGEST => (
            &grace,
            format!("`terminationGracePeriod` of pool `{name}` exceeds the 21 days of EKS Auto Mode"),
        ),
        None => (&life, format!("nodes of pool `{name}` never expire, and EKS Auto Mode allows 21 days")),
        Some(_) => (
            &life,
            format!("nodes of pool `{name}` may live longer than the 21 days that EKS Auto Mode allows"),
        ),
    };
    let most = LONGEST.saturating_sub(period) / HOUR;
    // What EKS says of static pools has not been seen.
    let severity = if pool.is_static() { Severity::Warning } else { Severity::Error };
    let finding = ctx.report(node, message);
    finding
        .severity(severity)
        .help("`expireAfter` and `terminationGracePeriod`, 24h by default, may be 504h together");
    if pool.is_static() {
        finding.rejected_by(None);
    }
    if period < LONGEST && most > 0 {
        let title = format!("let nodes expire after {most}h, the most that is allowed");
        let fix = Fix::new(title, Safety::Unsafe).set(&life, json!(format!("{most}h")));
        // A pool that is rejected has no nodes.
        finding.fix(if pool.is_static() { fix.replaces_nodes() } else { fix });
    }
    None
}
