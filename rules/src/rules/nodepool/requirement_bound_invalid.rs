//! A `Gt` or `Lt` requirement has a value that is not a whole number.
//!
//! # Why
//! `Gt`, `Lt`, `Gte` and `Lte` compare whole numbers that are not negative, and the API server rejects every
//! other value. The labels have no units: `karpenter.k8s.aws/instance-memory` is in MiB.
//!
//! # Fix
//! Write the number as text in quotes, such as `values: ["8192"]`.
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
//! -        - {key: karpenter.k8s.aws/instance-memory, operator: Gte, values: [8Gi]} # <-
//! +        - {key: karpenter.k8s.aws/instance-memory, operator: Gte, values: ["8192"]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>

use crate::karpenter::requirement_list::{KINDS, is_comparison};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-bound-invalid",
    kinds: &KINDS,
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("requirement_bound_invalid.rs")),
    check: Check::Requirements(check),
    ..Rule::error(Group::NodePool)
};

fn check(list: &RequirementList<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for item in list.items() {
        let Some(operator) = item.operator().filter(|operator| is_comparison(*operator)) else { continue };
        let Some(texts) = item.texts() else { continue };
        // Another number of values is left to requirement-arity.
        if let [text] = texts.as_slice()
            && !text.parse::<i64>().is_ok_and(|n| n >= 0)
        {
            ctx.report(
                &item.values().index(0),
                format!("`{operator}` compares whole numbers from 0 up, and `{}` is none", ellipsize(text)),
            )
            .help("write a number such as \"4\"; memory is in MiB, without a unit");
        }
    }
    None
}
