//! The value of a taint is the operator of a toleration.
//!
//! # Why
//! `Exists` and `Equal` are operators of tolerations. In a taint they are accepted as a plain word, so that a
//! pod must tolerate the value `Exists`, which no pod means to.
//!
//! # Fix
//! Remove `value`, or write the value that the pods tolerate.
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
//!        taints:
//! -        - key: example.com/batch
//! -          value: Exists # <-
//! -          effect: NoSchedule
//! +        - {key: example.com/batch, effect: NoSchedule}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "taint-operator-as-value",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    docs: docs(include_str!("taint_operator_as_value.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for taint in super::written_taints(object) {
        let node = taint.get("value");
        if let Some(text) = node.text().filter(|text| matches!(*text, "Exists" | "Equal")) {
            let message = format!("`{text}` is an operator of tolerations: here it is the taint's value");
            ctx.report(&node, message).help("remove `value`, or write the value that pods tolerate");
        }
    }
    None
}
