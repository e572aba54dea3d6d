//! An AMI alias matches no image.
//!
//! # Why
//! An alias is `family@version`. The API server rejects a family that Karpenter does not know, and it compares
//! letter by letter, so `AL2023` is none. Images of Windows have no version but `latest`; `windows2025` is
//! accepted from Karpenter 1.9 on.
//!
//! # Fix
//! Write the family in lower case and a version that you have tested.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//! -  amiSelectorTerms: [{alias: AL2023@v20260810}] # <-
//! +  amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>

use crate::karpenter::node_class::AMI_FAMILIES;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-alias-invalid",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("ami_alias_invalid.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for term in class.get("amiSelectorTerms").items().filter(super::is_known) {
        check_alias(&term.get("alias"), ctx);
    }
    None
}

fn check_alias(node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = node.text()?;
    let (family, version) = text.split_once('@').unwrap_or((text, ""));
    let plain = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphanumeric());
    if !plain || version.is_empty() {
        ctx.report(node, format!("the alias `{}` is not of the form `family@version`", ellipsize(text)))
            .help("write the family, an @ and the version, such as al2023@ with a tested release");
        return None;
    }
    let is_known = |family: &str| AMI_FAMILIES.iter().any(|(known, _)| *known == family);
    if !is_known(family) {
        let finding = ctx.report(node, format!("no AMI family has the alias `{}`", ellipsize(family)));
        let lower = family.to_ascii_lowercase();
        if !is_known(&lower) {
            finding.help("families are al2, al2023, bottlerocket and windows2019, 2022 and 2025");
            return None;
        }
        let whole = format!("{lower}@{version}");
        finding
            .help(format!("write it in lower case: `{}`", ellipsize(&whole)))
            .fix(Fix::new(format!("write `{}`", ellipsize(&whole)), Safety::Safe).set(node, json!(whole)));
    } else if family.starts_with("windows") && version.split('@').next() != Some("latest") {
        ctx.report(node, "an alias of Windows has no version but `latest`")
            .help(format!("write `{family}@latest`"));
    } else if family == "windows2025" && ctx.platform().karpenter < Version::new(1, 9) {
        ctx.report(node, "the alias `windows2025` is taken from Karpenter 1.9 on")
            .help("write windows2022@latest, or set `platform.karpenter` to what runs");
    }
    None
}
