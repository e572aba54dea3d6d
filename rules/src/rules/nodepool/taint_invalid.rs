//! Karpenter or the API server rejects a taint.
//!
//! # Why
//! A taint's value may be left out but not empty: the API server rejects `value: ""`. Key and value are at
//! most as long as a label's, or the pool is never Ready. A value such as `team/vision` passes all of that,
//! and then no Node with it can be created, so Karpenter starts machines that never join.
//!
//! # Fix
//! Leave an empty value out, and write keys and values that a label can have.
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
//! -          value: "" # <-
//! -          effect: NoSchedule
//! +        - {key: example.com/batch, effect: NoSchedule}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespectaints>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use super::is_too_long;
use crate::facts::names::is_qualified_name;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "taint-invalid",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("taint_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let pool = object.is(Kind::NODE_POOL);
    for taint in super::written_taints(object) {
        value(&taint, pool, ctx);
        let key = taint.get("key");
        if let Some(text) = key.text().filter(|t| pool && is_too_long(t)) {
            ctx.report(&key, format!("the key `{}` is longer than a label's may be", ellipsize(text)))
                .rejected_by(Some(Authority::Karpenter))
                .help("a name has at most 63 characters, its domain at most 253");
        }
    }
    None
}

fn value(taint: &Node<'_>, pool: bool, ctx: &mut Context<'_>) {
    let node = taint.get("value");
    let Some(text) = node.text() else { return };
    if text.is_empty() {
        ctx.report(&node, "a taint's value may be left out, but not be empty")
            .rejected_by(Some(Authority::ApiServer))
            .help("remove `value`")
            .fix(Fix::new("remove the empty value", Safety::Safe).remove(&node).replaces_nodes());
    } else if pool && is_too_long(text) {
        ctx.report(&node, format!("the value `{}` is longer than a label's may be", ellipsize(text)))
            .rejected_by(Some(Authority::Karpenter))
            .help("write at most 63 characters");
    } else if text.contains('/') && is_qualified_name(text) {
        ctx.report(&node, format!("no Node can have the taint value `{}`", ellipsize(text)))
            .rejected_by(None)
            .help("the API server rejects such a Node, so it never joins: write it without the `/`");
    }
}
