//! A manifest that the API server accepts stops Karpenter for all pools.
//!
//! # Why
//! Some values pass the CRD's checks and then break the controller that reads them. A `maxPods` of more than
//! 32 bits, a limit of `1e1.5` or a taint's time with a small `t` makes every list of NodePools or
//! EC2NodeClasses fail; an empty threshold makes Karpenter panic while it computes what nodes have; a
//! quantity with an exponent in the millions keeps Karpenter computing. One such object stops scaling for
//! everybody until it is deleted.
//!
//! # Fix
//! Write a number of at most 2147483647, a time as `2027-01-31T08:00:00Z`, or a quantity such as `500m` or
//! `2Gi`.
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
//! -  limits: {cpu: "1e1.5"} # <-
//! +  limits: {cpu: "500"}
//! ```
//!
//! # References
//! - <https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#ParseQuantity>
//! - <https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/apis/v1/ec2nodeclass.go>
//! - <https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/providers/instancetype/types.go>

use crate::karpenter::undecodable::{DecodeError, undecodable};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "crashes-karpenter",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::NODE_OVERLAY, Kind::EC2_NODE_CLASS],
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("crashes_karpenter.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

/// Numbers and quantities that the API server stores and Karpenter cannot decode.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let kind = object.kind();
    for found in undecodable(object, ctx.platform().karpenter) {
        let text = found.node.raw_text().unwrap_or_default();
        let text = ellipsize(text);
        let (message, help) = match found.error {
            DecodeError::Int32Overflow => (
                format!("`{text}` does not fit into 32 bits: Karpenter then reads no {kind} of the cluster"),
                "the largest number is 2147483647",
            ),
            DecodeError::InvalidQuantity => (
                format!(
                    "Karpenter cannot read `{text}` as a quantity, and then reads no {kind} of the cluster"
                ),
                "write a number, with a suffix such as `m` or `Gi`, or a whole exponent",
            ),
            DecodeError::InvalidTime => (
                format!("Karpenter cannot read `{text}` as a time, and then reads no {kind} of the cluster"),
                "remove `timeAdded`, which Kubernetes itself sets, or write it as `2027-01-31T08:00:00Z`",
            ),
            DecodeError::Panics if text.is_empty() => (
                "Karpenter panics over an empty threshold, for all pools".to_owned(),
                "write a quantity or a percentage, such as `100Mi` or `5%`, or remove the entry",
            ),
            DecodeError::Panics => (
                format!(
                    "Karpenter cannot read `{text}` as a quantity and panics, which stops it for all pools"
                ),
                "write a number, with a suffix such as `m` or `Mi`, or a whole exponent",
            ),
            DecodeError::NonTerminating => (
                format!("Karpenter hangs when it computes with `{text}`"),
                "write the number that is meant; without a limit, leave it out",
            ),
            DecodeError::Infinite => (
                "a price with this many digits makes Karpenter panic where NodeOverlays are on".to_owned(),
                "write the price in dollars an hour, such as `1.25`",
            ),
        };
        ctx.report(&found.node, message).help(help);
    }
    None
}
