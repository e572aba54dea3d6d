//! Pods reach the node's credentials through the metadata service.
//!
//! # Why
//! The instance metadata service hands out the credentials of the node's role. With `httpTokens:
//! optional` a single forwarded request is enough to read them (IMDSv1). With a hop limit of 2 or
//! more every pod gets an answer, not only the node itself. Karpenter's defaults are tokens and one
//! hop; who writes nothing is safe.
//!
//! # Fix
//! Write `httpTokens: required` and leave the hop limit at 1. Pods get credentials of their own
//! from EKS Pod Identity or IRSA.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    metadataOptions:
//! -    httpTokens: optional # <-
//! +    httpTokens: required
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specmetadataoptions>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "imds-exposed",
    fix: Some(Safety::Safe),
    docs: docs(include_str!("imds_exposed.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let options = class.get("metadataOptions");
    let endpoint = options.get("httpEndpoint");
    // If the service is disabled, pods cannot reach it.
    if endpoint.is_unknown() || endpoint.text() == Some("disabled") {
        return None;
    }
    let tokens = options.get("httpTokens");
    if tokens.text() == Some("optional") {
        ctx.report(
            &tokens,
            "the metadata service answers without a token: one forwarded request reads the role",
        )
        .help("write `httpTokens: required`")
        .fix(Fix::new("write `required`", Safety::Safe).set(&tokens, json!("required")).replaces_nodes());
    }
    let hops = options.get("httpPutResponseHopLimit");
    let limit = hops.int().filter(|limit| (2..=64).contains(limit))?;
    let severity = if limit >= 3 { Severity::Warning } else { Severity::Info };
    let message = format!("with {limit} hops pods reach the metadata service, and the node's credentials");
    ctx.report(&hops, message)
        .severity(severity)
        .help("leave it at 1, and give pods credentials by Pod Identity or IRSA")
        .fix(
            Fix::new("write 1; check that no pod asks the metadata service", Safety::Unsafe)
                .set(&hops, json!(1))
                .replaces_nodes(),
        );
    None
}
