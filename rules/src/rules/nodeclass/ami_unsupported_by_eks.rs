//! EKS publishes no such image for the cluster's version of Kubernetes.
//!
//! # Why
//! EKS has no image of Amazon Linux 2 from Kubernetes 1.33 on, and none of Windows Server 2025 before 1.35. An
//! alias of such an image leaves the class not Ready, so its pools start no nodes. For older versions of
//! Kubernetes the last images of Amazon Linux 2 are those of November 2025. Images of your own go on working, but
//! EKS publishes no updates to build them from.
//!
//! # Fix
//! Use an image that the version has, or set `platform.kubernetes` to the version that runs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//! -  amiSelectorTerms: [{alias: al2@v20250807}] # <-
//! +  amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html>

use crate::cluster::versions::{ShownVersion, VersionPlace};
use crate::karpenter::minors::likely_kubernetes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-unsupported-by-eks",
    rejected_by: &[Authority::Karpenter],
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("ami_unsupported_by_eks.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let platform = ctx.platform();
    let kubernetes = likely_kubernetes(platform);
    // Older versions of Karpenter reject the alias, which ami-alias-invalid reports.
    if platform.karpenter >= Version::new(1, 9) && kubernetes < Version::new(1, 35) {
        for term in class.get("amiSelectorTerms").items().filter(super::is_known) {
            let alias = term.get("alias");
            if alias.text().is_some_and(|a| a.split('@').take(2).eq(["windows2025", "latest"])) {
                let message = format!("EKS has no Windows 2025 image for Kubernetes {kubernetes}");
                let help = "upgrade to Kubernetes 1.35; until then the class is not Ready";
                report(&alias, message, help, ctx);
            }
        }
    }
    let Some(alias) = class.alias() else {
        let family = class.get("amiFamily");
        if class.get("amiSelectorTerms").items().next().is_some() && family.text() == Some("AL2") {
            ctx.report(&family, "AL2 is end of life: EKS publishes no new AL2 AMIs")
                .severity(Severity::Info)
                .help("go to AL2023; its user data is of another kind (nodeadm)");
        }
        return None;
    };
    alias.text().filter(|a| a.starts_with("al2@"))?;
    let help = "go to al2023; its user data is of another kind (nodeadm)";
    if kubernetes < Version::new(1, 33) {
        let message = "AL2 is end of life: EKS publishes no new images, and none from Kubernetes 1.33 on";
        report(&alias, message.to_owned(), help, ctx).severity(Severity::Warning);
        return None;
    }
    let this = platform.version_clause(Product::Kubernetes, kubernetes);
    let message = format!("EKS has no AL2 image from Kubernetes 1.33 on, and {this}: the class is not Ready");
    report(&alias, message, help, ctx);
    None
}

/// Reports an image that depends on the version of Kubernetes, with the place that shows the version.
fn report<'c>(alias: &Node<'_>, message: String, help: &str, ctx: &'c mut Context<'_>) -> &'c mut Finding {
    let shown = ctx.cluster().shown_version(Product::Kubernetes).cloned();
    let shown = shown.filter(|shown| shown.version == ctx.platform().kubernetes);
    let finding = ctx.report(alias, message);
    match shown {
        Some(ShownVersion { version, place: VersionPlace::Field(object, pointer), .. }) => {
            let label = format!("the cluster runs Kubernetes {version}");
            finding.help(help).related(&object, &object.root().at(&pointer), label)
        }
        Some(ShownVersion { version, place: VersionPlace::Line(path, line), .. }) => {
            finding.help(format!("{help}; Kubernetes {version} is from {path}:{line}"))
        }
        None => finding.help(help),
    }
}
