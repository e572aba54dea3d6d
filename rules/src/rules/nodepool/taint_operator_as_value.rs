//! The value of a taint is the operator of a toleration.
//!
//! # Why
//! `Exists` and `Equal` are operators of tolerations. In a taint they are accepted as a plain word: a pod must
//! tolerate the key with `operator: Exists`, or the value `Exists`, which no pod means to. It is information
//! while no pod of the input tolerates another value of the key.
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
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("taint_operator_as_value.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for taint in super::written_taints(object) {
        let node = taint.get("value");
        if let Some(text) = node.text().filter(|text| matches!(*text, "Exists" | "Equal")) {
            let message = format!("`{text}` is an operator of tolerations: here it is the taint's value");
            let (workload, toleration) = tolerated_otherwise(&taint, ctx).unzip();
            let finding = ctx.report(&node, message);
            finding.help("remove `value`, or write the value that pods tolerate");
            match workload.zip(toleration) {
                Some((workload, toleration)) => {
                    finding.related(workload, &toleration, "it tolerates another value");
                }
                // Tolerations of the key alone fit any value.
                None => {
                    finding.severity(Severity::Info);
                }
            }
        }
    }
    None
}

/// A toleration of another value of a taint's key, with its workload.
fn tolerated_otherwise<'a>(taint: &Node<'_>, ctx: &Context<'a>) -> Option<(&'a Object, Node<'a>)> {
    let (key, value) = (taint.get("key").text()?, taint.get("value").text()?);
    let is_other = |toleration: &Node<'_>| {
        let operator = toleration.get("operator");
        toleration.get("key").text() == Some(key)
            && (operator.is_absent() || operator.text() == Some("Equal"))
            && !toleration.get("value").is_unknown()
            && toleration.get("value").text() != Some(value)
    };
    let mut workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    workloads.find_map(|workload| {
        let templates = templates(workload);
        let mut tolerations = templates.iter().flat_map(|template| template.spec.get("tolerations").items());
        let toleration = tolerations.find(is_other).filter(|_| ctx.pairs_with(workload))?;
        Some((workload, toleration))
    })
}
