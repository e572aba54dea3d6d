//! A `nodeClassRef` names a kind that its group does not have.
//!
//! # Why
//! The API server accepts any group and kind. Karpenter serves `EC2NodeClass` of `karpenter.k8s.aws` and, in
//! EKS Auto Mode, `NodeClass` of `eks.amazonaws.com`. It ignores a pool with another kind of these groups,
//! without a condition or an event, and neither group nor kind can be changed later. EKS Auto Mode has no
//! EC2NodeClass: with `--complete` a pool of one is reported where no other Karpenter runs.
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

use crate::karpenter::installation::is_controller;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-ref-unserved",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    reads: kinds![
        [Kind::NODE_POOL, Kind::AUTO_MODE_NODE_CLASS, Kind::DEPLOYMENT, Kind::ARGO_APPLICATION_SET],
        CHART_KINDS
    ],
    reports_absence: true,
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
            .reports_absence(false)
            .help("on AWS the group is `karpenter.k8s.aws`, in EKS Auto Mode `eks.amazonaws.com`");
        return None;
    }
    let class =
        [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS].into_iter().find(|k| group_text == k.group)?;
    if text == class.kind {
        return if class == Kind::EC2_NODE_CLASS { without_karpenter(object, &kind, ctx) } else { None };
    }
    let finding =
        ctx.report(&kind, format!("group `{group_text}` has no `{text}`, so Karpenter ignores the pool"));
    finding.reports_absence(false).help(format!("the kind of this group is `{}`", class.kind));
    if text.eq_ignore_ascii_case(class.kind) || (class == Kind::EC2_NODE_CLASS && text == "AWSNodeTemplate") {
        let title = format!("write `{}`", class.kind);
        finding.fix(Fix::new(title, Safety::Safe).set(&kind, json!(class.kind)));
    }
    None
}

/// Reports a class of Karpenter's in a whole cluster that EKS Auto Mode alone makes nodes of.
fn without_karpenter(object: &Object, kind: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if !cluster.is_complete() || object.is_partial() || !cluster.views().has_auto_mode() {
        return None;
    }
    let runs = |workload: &Object| {
        templates(workload).iter().flat_map(Template::containers).any(|one| is_controller(&one))
    };
    if may_bring_objects(cluster)
        || cluster.has_any(Kind::ARGO_APPLICATION_SET)
        || cluster.of(Kind::DEPLOYMENT).any(runs)
    {
        return None;
    }
    let other = cluster.of(Kind::NODE_POOL).find(|pool| {
        let group = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        Provider::of_group(&group) == Provider::AutoMode
    })?;
    ctx.report(
        kind,
        "EKS Auto Mode has no EC2NodeClass, and no other Karpenter is here: the pool is ignored",
    )
    .severity(Severity::Warning)
    .rejected_by(None)
    .help("refer to a NodeClass of `eks.amazonaws.com`, or install Karpenter beside Auto Mode")
    .related(other, &other.path(&["metadata", "name"]), "a pool of EKS Auto Mode");
    None
}
