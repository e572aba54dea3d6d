//! A NodePool has the same taint twice.
//!
//! # Why
//! A node has one taint for each key and effect. Karpenter counts `taints` and `startupTaints` together, and
//! a pool with a pair twice is never Ready, even where the values differ.
//!
//! # Fix
//! Keep one of them.
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
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: example.com/batch, effect: NoSchedule}]
//! -      startupTaints:
//! -        - key: example.com/batch # <-
//! -          effect: NoSchedule
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecstartuptaints>

use std::collections::BTreeMap;

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "taint-duplicate",
    rejected_by: &[Authority::Karpenter],
    docs: docs(include_str!("taint_duplicate.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let mut seen: BTreeMap<(&str, &str), Node<'_>> = BTreeMap::new();
    for taint in ["taints", "startupTaints"].iter().flat_map(|list| pool.template_spec().get(list).items()) {
        let (Some(key), Some(effect)) = (taint.get("key").text(), taint.get("effect").text()) else {
            continue;
        };
        if let Some(first) = seen.get(&(key, effect)) {
            ctx.report(&taint.get("key"), format!("the taint `{}:{effect}` is there twice", ellipsize(key)))
                .help("keep one of them: taints and startup taints count together")
                .related(pool.object(), first, "the first one");
        } else {
            seen.insert((key, effect), taint);
        }
    }
    None
}
