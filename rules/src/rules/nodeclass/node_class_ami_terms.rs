//! AMI selector terms that do not go together.
//!
//! # Why
//! The terms say which images the nodes start from. An `alias` stands alone, an `id` takes nothing
//! beside it, and without an alias Karpenter has to be told the `amiFamily`. The API server refuses
//! the rest. Two things pass it: `ssmParameter` beside `id` or `alias` is ignored, and an alias
//! that does not fit the cluster's version (AL2 from 1.33 on, Windows 2025 before 1.35) leaves the
//! class not Ready, so that its pools start nothing.
//!
//! # Fix
//! Write one term `alias: family@version`, in lower case, or terms by `tags`, `name` or `id`
//! together with `amiFamily`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//! -    - alias: AL2023@v20260810 # <-
//! +    - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamifamily>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html>

use crate::lint::finding::ellipsize;
use crate::platform::Version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-ami-terms",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    fix: Some(Safety::Safe),
    owns: &[Ownership { path: "spec/amiSelectorTerms", aspect: Aspect::Value }],
    docs: docs(include_str!("node_class_ami_terms.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

/// The families of aliases, with the `amiFamily` that each goes with.
const FAMILIES: [(&str, &str); 6] = [
    ("al2", "AL2"),
    ("al2023", "AL2023"),
    ("bottlerocket", "Bottlerocket"),
    ("windows2019", "Windows2019"),
    ("windows2022", "Windows2022"),
    ("windows2025", "Windows2025"),
];

const SERVER: Option<Authority> = Some(Authority::ApiServer);

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms = class.get("amiSelectorTerms");
    if !terms.is_sequence() {
        return None;
    }
    let list: Vec<Node<'_>> = terms.items().collect();
    if list.is_empty() {
        ctx.report(&terms, "the class selects no AMI: at least one term is needed")
            .rejected_by(SERVER)
            .help("add `alias: al2023@` and the version that you have tested");
        return None;
    }
    for term in list.iter().filter(|t| super::is_known(t)) {
        fields(term, ctx);
        super::tags(term, Some("every AMI of the account and of Amazon"), ctx);
        alias(&term.get("alias"), ctx);
    }
    if let Some(aliased) = list.iter().find(|t| t.get("alias").is_set())
        && list.len() > 1
    {
        ctx.report(
            &aliased.get("alias"),
            "an `alias` must be the only AMI term: the API server refuses others beside it",
        )
        .rejected_by(SERVER)
        .help("keep the alias alone, or select all images by id, tags or name");
    }
    family(class, &list, ctx);
    amazon_linux_2(class, ctx);
    None
}

/// Which fields of a term stand together.
fn fields(term: &Node<'_>, ctx: &mut Context<'_>) {
    let has = |name: &str| term.get(name).is_set();
    let selects = ["tags", "id", "name", "alias", "ssmParameter"];
    if !selects.into_iter().any(has) {
        let message = if has("owner") {
            "`owner` alone selects no AMI: it goes with `name` or `tags`"
        } else {
            "the term selects nothing"
        };
        ctx.report(term, message)
            .rejected_by(SERVER)
            .help("write one of `alias`, `id`, `name`, `tags` and `ssmParameter`");
        return;
    }
    for (alone, others) in
        [("id", ["alias", "tags", "name", "owner"]), ("alias", ["id", "tags", "name", "owner"])]
    {
        if !has(alone) {
            continue;
        }
        // `id` beside `alias` breaks both rules, and is told once.
        let other = others.into_iter().find(|o| has(o) && !(alone == "alias" && *o == "id"));
        if let Some(other) = other {
            ctx.report(&term.get(other), format!("`{alone}` stands alone: `{other}` beside it is refused"))
                .rejected_by(SERVER)
                .help(format!("keep `{alone}` or the others"));
        } else if has("ssmParameter") {
            ctx.report(&term.get("ssmParameter"), format!("`ssmParameter` beside `{alone}` is ignored"))
                .severity(Severity::Warning)
                .help("keep one of them");
        }
    }
}

fn alias(node: &Node<'_>, ctx: &mut Context<'_>) {
    let Some(text) = node.text() else {
        return;
    };
    let (family, version) = text.split_once('@').unwrap_or((text, ""));
    let plain = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphanumeric());
    if !plain || version.is_empty() {
        ctx.report(node, format!("the alias `{}` is not of the form `family@version`", ellipsize(text)))
            .rejected_by(SERVER)
            .help("write the family, an @ and the version, such as al2023@ with a tested release");
        return;
    }
    let Some((known, _)) = FAMILIES.iter().find(|(f, _)| *f == family) else {
        let finding = ctx.report(node, format!("no AMI family has the alias `{}`", ellipsize(family)));
        finding.rejected_by(SERVER);
        let lower = family.to_ascii_lowercase();
        if FAMILIES.iter().any(|(f, _)| *f == lower) {
            let whole = format!("{lower}@{version}");
            finding.help(format!("write it in lower case: `{}`", ellipsize(&whole)));
            let fix = Fix::new(format!("write `{}`", ellipsize(&whole)), Safety::Safe);
            finding.fix(fix.set(node, json!(whole)));
        } else {
            finding.help("families are al2, al2023, bottlerocket and windows2019, 2022 and 2025");
        }
        return;
    };
    let platform = ctx.platform();
    if known.starts_with("windows") && version.split('@').next() != Some("latest") {
        let finding = ctx.report(node, "an alias of Windows has no version but `latest`");
        finding.rejected_by(SERVER).help(format!("write `{known}@latest`"));
    } else if *known == "windows2025" && platform.karpenter < Version::new(1, 9) {
        ctx.report(node, "the alias `windows2025` is taken from Karpenter 1.9 on")
            .rejected_by(SERVER)
            .help("write windows2022@latest, or set `platform.karpenter` to what runs");
    } else if *known == "windows2025" && platform.kubernetes < Version::new(1, 35) {
        ctx.report(node, "EKS has Windows 2025 from Kubernetes 1.35 on: the class is not Ready")
            .rejected_by(Some(Authority::Karpenter))
            .help("write windows2022@latest, or set `platform.kubernetes` to what runs");
    }
}

/// `amiFamily` against the alias, or in its place.
fn family(class: &Ec2NodeClass<'_>, list: &[Node<'_>], ctx: &mut Context<'_>) {
    let family = class.get("amiFamily");
    let aliases: Vec<Node<'_>> = list.iter().map(|t| t.get("alias")).filter(Node::is_set).collect();
    if !family.is_set() {
        let known = list.iter().all(super::is_known);
        if aliases.is_empty() && known && super::is_known(&class.spec()) {
            ctx.report(&family, "no term is an alias, so `amiFamily` has to say what the images are")
                .rejected_by(SERVER)
                .help("add `amiFamily`, such as AL2023, Bottlerocket or Custom");
        }
        return;
    }
    let Some(text) = family.text().filter(|f| *f != "Custom") else {
        return;
    };
    for alias in aliases {
        let Some(name) = alias.text().map(|a| a.split('@').next().unwrap_or(a)) else {
            continue;
        };
        let expected = FAMILIES.iter().find(|(f, _)| *f == name).map(|(_, f)| *f);
        let Some(expected) = expected.filter(|e| *e != text) else {
            continue;
        };
        ctx.report(&family, format!("`amiFamily: {}` does not go with the alias `{name}`", ellipsize(text)))
            .rejected_by(SERVER)
            .help(format!("remove it, or write {expected} or Custom"))
            .fix(Fix::new("remove `amiFamily`: the alias decides", Safety::Unsafe).remove(&family));
        return;
    }
}

/// Amazon Linux 2 has no images for EKS 1.33 and later.
fn amazon_linux_2(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) {
    let gone = ctx.platform().kubernetes >= Version::new(1, 33);
    if let Some(alias) = class.alias() {
        if !alias.text().is_some_and(|a| a.starts_with("al2@")) {
            return;
        }
        let finding = if gone {
            let finding =
                ctx.report(&alias, "EKS has no AL2 image from Kubernetes 1.33 on: the class is not Ready");
            finding.rejected_by(Some(Authority::Karpenter))
        } else {
            ctx.report(&alias, "AL2 gets no images from Kubernetes 1.33 on").severity(Severity::Warning)
        };
        finding.help("go to al2023; its user data is of another kind (nodeadm)");
        return;
    }
    let family = class.get("amiFamily");
    if family.text() == Some("AL2") {
        ctx.report(&family, "AL2 gets no more images from EKS: these are your own to patch")
            .severity(Severity::Info)
            .help("go to AL2023; its user data is of another kind (nodeadm)");
    }
}
