//! A class has both `role` and `instanceProfile`, or neither.
//!
//! # Why
//! A node needs an IAM role to join the cluster. The class names either the role, for which
//! Karpenter makes the instance profile, or a profile that exists. The API server rejects both
//! together, neither, and an empty text. A role name of more than 64 characters is rejected by IAM:
//! the class is never Ready. Both fields take names: with the ARN or the path of a profile EC2 starts no
//! instance. With the ARN of a role IAM gives Karpenter before 1.2 no profile. Later versions take the last part
//! of an ARN or a path, and compare the whole text with the role of the profile: they never agree, and from 1.7
//! on Karpenter makes another profile each time that it looks at the class, up to the 1000 of an account.
//!
//! The role of Karpenter's own ServiceAccount is not one for nodes: EC2 may not assume it, and a node could do
//! whatever Karpenter may.
//!
//! # Fix
//! Keep one of them. `role` is the usual one; `instanceProfile` is for clusters in which Karpenter
//! may not create profiles.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//! -  instanceProfile: KarpenterNodeProfile-prod # <-
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specrole>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specinstanceprofile>

use crate::karpenter::installation::controller_role;
use crate::rules::prelude::*;

/// What gives Karpenter a role.
const INSTALLERS: &[Kind] = kinds![CHART_KINDS, [Kind::SERVICE_ACCOUNT]];

pub(crate) static RULE: Rule = Rule {
    id: "node-class-identity",
    reads: INSTALLERS,
    holds_alone: true,
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    depends_on: &[Product::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("node_class_identity.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

/// Maximum length of an IAM role name.
const LONGEST: usize = 64;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let spec = class.spec();
    let (role, profile) = (class.get("role"), class.get("instanceProfile"));
    let is_empty = |node: &Node<'_>| node.text() == Some("");
    match (role.is_set(), profile.is_set()) {
        (false, false) => {
            let may_have_profile =
                spec.entries().iter().any(|(k, _)| is_placeholder(k)) || object.may_be_set_by_patch(&profile);
            if !spec.is_mapping() || may_have_profile {
                return None;
            }
            ctx.report_missing(&role, "the class has neither `role` nor `instanceProfile`")
                .rejected_by(Some(Authority::ApiServer))
                .help("add `role`: the name of the IAM role that the nodes have");
        }
        (true, true) => {
            let finding = ctx.report(
                &profile,
                "the class has both `role` and `instanceProfile`: the API server rejects it",
            );
            finding.rejected_by(Some(Authority::ApiServer)).help("keep one of them").related(
                object,
                &role,
                "`role` is here",
            );
            if let Some((empty, name)) =
                [(&role, "role"), (&profile, "instanceProfile")].into_iter().find(|(node, _)| is_empty(node))
            {
                let title = format!("remove the empty `{name}`");
                finding.fix(Fix::new(title, Safety::Safe).remove(empty));
            }
        }
        (true, false) => empty(&role, "role", ctx),
        (false, true) => empty(&profile, "instanceProfile", ctx),
    }
    let effect = "EC2 finds no profile of this name and starts no node";
    if let Some((name, finding)) = report_path(&profile, "instanceProfile", effect, ctx) {
        let fix = Fix::new(format!("write `{name}`"), Safety::Safe);
        finding.fix(fix.set(&profile, json!(name)).replaces_nodes());
    }
    role_with_path(&role, ctx);
    role_of_controller(&role, ctx);
    // Only the last part of a role with a path is its name.
    let name = role.text().and_then(|r| r.rsplit('/').next());
    if let Some(length) = name.map(str::len).filter(|l| *l > LONGEST) {
        ctx.report(&role, format!("a role name of {length} characters: IAM has none over {LONGEST}"))
            .rejected_by(Some(Authority::Karpenter))
            .help("write the role's name; the class is not Ready before IAM finds it");
    }
    None
}

/// The first version that takes the name out of an ARN (`pkg/providers/instanceprofile/instanceprofile.go`).
const TAKES_LAST_PART: Version = Version::new(1, 2);
/// The first version that gives each instance profile a name that no other has: `InstanceProfileName` has a UUID, and
/// `pkg/controllers/nodeclass/instanceprofile.go` makes a profile wherever the role of the present one is not `spec.role`.
const MAKES_NEW_PROFILES: Version = Version::new(1, 7);

/// Reports a role by its ARN, or with its path.
fn role_with_path(role: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let karpenter = ctx.platform().karpenter;
    let is_arn = role.text()?.starts_with("arn:");
    let (effect, severity) = if karpenter >= MAKES_NEW_PROFILES {
        ("Karpenter makes another instance profile each time it looks at the class", Severity::Warning)
    } else if !is_arn {
        return None;
    } else if karpenter >= TAKES_LAST_PART {
        ("Karpenter uses its last part, but looks for the whole ARN in the instance profile", Severity::Info)
    } else {
        ("IAM has no role of this name, so Karpenter gets no instance profile", Severity::Warning)
    };
    let (_, finding) = report_path(role, "role", effect, ctx)?;
    finding.severity(severity);
    None
}

/// Reports the role that Karpenter itself has.
fn role_of_controller(role: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = role.text()?.rsplit('/').next().filter(|name| !name.is_empty())?;
    let cluster = ctx.cluster();
    let installers = INSTALLERS.iter().flat_map(|kind| cluster.of(*kind));
    let (installer, place) =
        installers.filter(|installer| ctx.pairs_with(installer)).find_map(|installer| {
            let (place, arn) = controller_role(installer)?;
            (arn.rsplit('/').next() == Some(name)).then_some((installer, place))
        })?;
    ctx.report(
        role,
        format!("nodes get `{}`, the role of Karpenter itself: they do not join", ellipsize(name)),
    )
    .severity(Severity::Warning)
    .rejected_by(None)
    .help("write the role of the nodes, which EC2 may assume and which has the policies for EKS nodes")
    .related(installer, &place.node, "Karpenter has this role");
    None
}

/// Reports an ARN or a path in the place of a name, and returns the name.
fn report_path<'n, 'f>(
    node: &Node<'n>,
    field: &str,
    effect: &str,
    ctx: &'f mut Context<'_>,
) -> Option<(&'n str, &'f mut Finding)> {
    let text = node.text()?;
    let name = text.rsplit('/').next().filter(|name| *name != text && !name.is_empty())?;
    let (article, form) = if text.starts_with("arn:") { ("an", "ARN") } else { ("a", "path") };
    let finding = ctx.report(node, format!("`{field}` takes a name, not {article} {form}: {effect}"));
    finding.rejected_by(None).help(format!("write `{name}`"));
    Some((name, finding))
}

fn empty(node: &Node<'_>, name: &str, ctx: &mut Context<'_>) {
    if node.text() == Some("") {
        ctx.report(node, format!("`{name}` is empty: the API server rejects it"))
            .rejected_by(Some(Authority::ApiServer))
            .help("write the name of the IAM role or profile that the nodes have");
    }
}
