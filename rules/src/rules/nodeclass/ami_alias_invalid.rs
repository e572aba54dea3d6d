//! An AMI alias matches no image.
//!
//! # Why
//! An alias is `family@version`. The API server rejects a family that Karpenter does not know, and it compares
//! letter by letter, so `AL2023` is none. Images of Windows have no version but `latest`; `windows2025` is
//! accepted from Karpenter 1.9 on. Of other families it accepts any version, and Karpenter finds no image for one
//! that is neither `latest` nor a release, such as `lates` or a date without `v`: the class is not Ready.
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

use crate::facts::text::is_digits;
use crate::karpenter::node_class::AMI_FAMILIES;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-alias-invalid",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
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

/// Whether a version has the form of the releases of a Linux family: a date as in `v20250807`, for Bottlerocket three numbers.
fn is_release(family: &str, version: &str) -> bool {
    let number = version.strip_prefix('v').unwrap_or(version);
    match family {
        _ if version == "latest" => true,
        "bottlerocket" => {
            // A release candidate or a build may follow.
            let number = number.split(['-', '+']).next().unwrap_or_default();
            number.split('.').count() == 3 && number.split('.').all(is_digits)
        }
        _ => version.starts_with('v') && number.len() == 8 && is_digits(number),
    }
}

fn example(family: &str) -> &'static str {
    match family {
        "bottlerocket" => "bottlerocket@v1.40.0",
        "al2" => "al2@v20250807",
        _ => "al2023@v20250807",
    }
}

fn check_alias(node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text = node.text()?;
    let api_server = Some(Authority::ApiServer);
    let (family, version) = text.split_once('@').unwrap_or((text, ""));
    let plain = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphanumeric());
    if !plain || version.is_empty() {
        ctx.report(node, format!("the alias `{}` is not of the form `family@version`", ellipsize(text)))
            .rejected_by(api_server)
            .help("write the family, an @ and the version, such as al2023@ with a tested release");
        return None;
    }
    let is_known = |family: &str| AMI_FAMILIES.iter().any(|(known, _)| *known == family);
    if !is_known(family) {
        let finding = ctx.report(node, format!("no AMI family has the alias `{}`", ellipsize(family)));
        finding.rejected_by(api_server);
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
            .rejected_by(api_server)
            .help(format!("write `{family}@latest`"));
    } else if !family.starts_with("windows") && !is_release(family, version) {
        let message = format!("no image of {family} has the version `{}`", ellipsize(version));
        let has_ended = family == "al2" && ctx.platform().kubernetes >= Version::new(1, 33);
        let finding = ctx.report(node, message);
        finding.rejected_by(Some(Authority::Karpenter));
        if has_ended {
            finding.help("write a release of al2023: EKS has no images of al2 for Kubernetes 1.33 and later");
        } else if nearest(version, ["latest"]).is_some() {
            let whole = format!("{family}@latest");
            finding
                .help("did you mean `latest`? A tested release is safer")
                .fix(Fix::unsafe_(format!("write `{whole}`")).set(node, json!(whole)));
        } else {
            finding.help(format!("write a release, such as `{}`", example(family)));
        }
    } else if family == "windows2025" && ctx.platform().karpenter < Version::new(1, 9) {
        ctx.report(node, "the alias `windows2025` is taken from Karpenter 1.9 on")
            .rejected_by(api_server)
            .help("write windows2022@latest, or set `platform.karpenter` to what runs");
    }
    None
}
