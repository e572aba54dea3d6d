//! Karpenter cannot read a duration that the API server accepts.
//!
//! # Why
//! The CRD's patterns accept durations that Go does not read: longer than 292 years, `1hr` below Karpenter
//! 1.4, or any text as a grace period of the kubelet below 1.15. Karpenter lists all objects of a kind at
//! once, so a single such object makes it read none of them, and it starts and removes no nodes until the
//! object is deleted.
//!
//! # Fix
//! Write hours, minutes and seconds, at most 2562047h, or `Never` where no limit is meant.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -      expireAfter: 9999999h # <-
//! +      expireAfter: Never
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://pkg.go.dev/time#ParseDuration>
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecexpireafter>

use crate::facts::duration;
use crate::facts::duration::{DurationError, DurationField, passes_unanchored_pattern};
use crate::karpenter::minors::has_open_kubelet;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "duration-undecodable",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::EC2_NODE_CLASS],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("duration_undecodable.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(pool) = NodePool::new(object) {
        check_durations(object, &pool.template_spec(), &pool.disruption(), ctx);
    } else if object.version() == "v1" && object.is(Kind::NODE_CLAIM) {
        let spec = object.get("spec");
        check_durations(object, &spec, &spec.get("disruption"), ctx);
    } else if object.version() == "v1" && object.is(Kind::EC2_NODE_CLASS) {
        check_grace_periods(object, ctx);
    }
    None
}

/// Durations that Go cannot represent or parse. A NodeClaim has no disruption block.
fn check_durations(object: &Object, spec: &Node<'_>, disruption: &Node<'_>, ctx: &mut Context<'_>) {
    let kind = object.kind();
    let version = Provider::of_object(object).karpenter_version(ctx.platform());
    let mut fields = vec![
        (spec.get("expireAfter"), DurationField::ExpireAfter),
        (spec.get("terminationGracePeriod"), DurationField::TerminationGracePeriod),
        (disruption.get("consolidateAfter"), DurationField::ConsolidateAfter),
    ];
    let budgets = disruption.get("budgets");
    fields.extend(budgets.items().map(|budget| (budget.get("duration"), DurationField::BudgetDuration)));
    for (node, field) in fields {
        let Some(text) = node.text() else { continue };
        let (message, help, better) = match duration::parse(field, text) {
            Err(DurationError::Overflow) => (
                format!(
                    "Karpenter cannot read a duration this long, and then reads no {kind} of the cluster"
                ),
                if field.allows_never() {
                    "the longest duration is 2562047h; for no limit at all write `Never`"
                } else {
                    "the longest duration is 2562047h"
                },
                // 292 years have the same effect as no limit.
                field.allows_never().then(|| "Never".to_owned()),
            ),
            Err(_) if GoDuration::parse(text).is_err() && passes_unanchored_pattern(field, text, version) => {
                (
                    format!(
                        "Karpenter cannot read `{}` as a duration, and then reads no {kind} of the cluster",
                        ellipsize(text)
                    ),
                    "write hours, minutes and seconds, as in `1h30m`, or `Never`",
                    duration::suggest(field, text),
                )
            }
            _ => continue,
        };
        let finding = ctx.report(&node, message);
        finding.help(help);
        // The spec of a NodeClaim is immutable.
        if let Some(better) = better.filter(|_| object.is(Kind::NODE_POOL)) {
            let fix = Fix::new(format!("write `{better}`"), Safety::Safe).set(&node, json!(better));
            finding.fix(if field == DurationField::ExpireAfter { fix.replaces_nodes() } else { fix });
        }
    }
}

fn check_grace_periods(object: &Object, ctx: &mut Context<'_>) {
    // Since this version the controller validates them.
    if has_open_kubelet(ctx.platform().karpenter) {
        return;
    }
    for (_, node) in object.path(&["spec", "kubelet", "evictionSoftGracePeriod"]).entries() {
        if let Some(text) = node.text().filter(|text| GoDuration::parse(text).is_err()) {
            ctx.report(
                &node,
                format!("`{text}` is not a duration: Karpenter then reads no EC2NodeClass of the cluster"),
            )
            .help("write a duration as Go does, such as `90s` or `1m30s`");
        }
    }
}
