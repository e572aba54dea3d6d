//! `amiFamily` is missing, or contradicts the AMI alias.
//!
//! # Why
//! The family decides how nodes are configured: user data, devices, the kubelet's flags. An alias names it; where
//! the images are selected by `tags`, `name`, `id` or `ssmParameter` the API server requires `amiFamily`. Beside
//! an alias it accepts only the family of the alias, or `Custom`.
//!
//! # Fix
//! Leave `amiFamily` out beside an alias, and write it everywhere else.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  amiFamily: Bottlerocket # <-
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamifamily>

use crate::karpenter::node_class::AMI_FAMILIES;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-family-mismatch",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ami_family_mismatch.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms: Vec<Node<'_>> = class.get("amiSelectorTerms").items().collect();
    let family = class.get("amiFamily");
    let mut aliases = terms.iter().map(|t| t.get("alias")).filter(Node::is_set);
    if !family.is_set() {
        let known = terms.iter().all(super::is_known) && super::is_known(&class.spec());
        if !terms.is_empty() && known && aliases.next().is_none() {
            ctx.report(&family, "no term is an alias, so `amiFamily` has to say what the images are")
                .help("add `amiFamily`, such as AL2023, Bottlerocket or Custom");
        }
        return None;
    }
    let text = family.text().filter(|f| *f != "Custom")?;
    let (name, expected) = aliases.find_map(|alias| {
        let name = alias.text()?.split('@').next()?;
        AMI_FAMILIES.iter().find(|(known, family)| *known == name && *family != text)
    })?;
    ctx.report(&family, format!("`amiFamily: {}` does not go with the alias `{name}`", ellipsize(text)))
        .help(format!("remove it, or write {expected} or Custom"))
        .fix(Fix::new("remove `amiFamily`: the alias decides", Safety::Unsafe).remove(&family));
    None
}
