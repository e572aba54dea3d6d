//! A `nodeClassRef` names a kind that its group does not have.
//!
//! # Why
//! The API server accepts any group and kind. Karpenter serves `EC2NodeClass` of `karpenter.k8s.aws` and, in
//! EKS Auto Mode, `NodeClass` of `eks.amazonaws.com`. It ignores a pool with another kind of these groups,
//! without a condition or an event, and neither group nor kind can be changed later.
//!
//! # Fix
//! Write the kind of the group; `AWSNodeTemplate` is `EC2NodeClass` since v1beta1.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//! -      nodeClassRef: {group: karpenter.k8s.aws, kind: AWSNodeTemplate, name: web} # <-
//! +      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecnodeclassref>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-ref-unserved",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("node_class_ref_unserved.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let reference = super::node_class_ref(object)?;
    let (group, kind) = (reference.get("group"), reference.get("kind"));
    let (group_text, text) = (group.text()?, kind.text()?);
    // Incomplete references are reported by another rule.
    if text.is_empty() || !reference.get("name").is_set() || reference.get("name").text() == Some("") {
        return None;
    }
    if group_text == "karpenter.sh" {
        ctx.report(&group, "group `karpenter.sh` has no node classes, so Karpenter ignores the pool")
            .help("on AWS the group is `karpenter.k8s.aws`, in EKS Auto Mode `eks.amazonaws.com`");
        return None;
    }
    let class =
        [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS].into_iter().find(|k| group_text == k.group)?;
    if text == class.kind {
        return None;
    }
    let finding =
        ctx.report(&kind, format!("group `{group_text}` has no `{text}`, so Karpenter ignores the pool"));
    finding.help(format!("the kind of this group is `{}`", class.kind));
    if text.eq_ignore_ascii_case(class.kind) || (class == Kind::EC2_NODE_CLASS && text == "AWSNodeTemplate") {
        let title = format!("write `{}`", class.kind);
        finding.fix(Fix::new(title, Safety::Safe).set(&kind, json!(class.kind)));
    }
    None
}
