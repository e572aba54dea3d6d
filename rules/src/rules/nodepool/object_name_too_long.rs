//! A name is too long for the objects that are created from it.
//!
//! # Why
//! The API server takes names of 253 characters. Karpenter writes the names of NodePool and class
//! as label values on every NodeClaim, and a label's value ends at 63: each NodeClaim of such a pool
//! is rejected, and no node ever starts. KEDA names the Jobs of a ScaledJob after it and labels them
//! with its name, under the same limit.
//!
//! # Fix
//! Choose a name of at most 63 characters. A stored object cannot be renamed: make a new one.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//! -metadata:
//! -  name: general-purpose-workloads-of-the-platform-team-in-production-europe # <-
//! +metadata: {name: general-platform-prod-eu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>
//! - <https://karpenter.sh/docs/concepts/nodeclaims/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "object-name-too-long",
    kinds: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::SCALED_JOB],
    docs: docs(include_str!("object_name_too_long.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

const LONGEST: usize = 63;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let what = if object.is(Kind::SCALED_JOB) {
        "no Job of it can be created"
    } else {
        "no NodeClaim with it can be created"
    };
    let name = object.path(&["metadata", "name"]);
    inspect(&name, what, ctx);
    if let Some(pool) = NodePool::new(object) {
        let name = pool.template_spec().path(&["nodeClassRef", "name"]);
        inspect(&name, what, ctx);
    }
    None
}

fn inspect(node: &Node<'_>, what: &str, ctx: &mut Context<'_>) {
    // A name of more than 253 characters is invalid and reported by another rule.
    let Some(length) = node.text().map(str::len).filter(|l| (64..=253).contains(l)) else { return };
    ctx.report(node, format!("a name of {length} characters does not fit into a label value: {what}"))
        .help(format!("choose a name of at most {LONGEST} characters"));
}
