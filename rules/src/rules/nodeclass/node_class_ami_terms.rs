//! AMI selector terms contradict each other.
//!
//! # Why
//! The terms select the images that nodes start from. An `alias` is the only term of its list, and nothing
//! stands beside an `id` or an `alias` in one term: the API server rejects the rest. It accepts `ssmParameter`
//! beside them, which is then ignored, and `tags: {}`, which selects every image there is.
//!
//! # Fix
//! Write one term `alias: family@version`, or terms by `tags`, `name` or `id` together with `amiFamily`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//! -  amiSelectorTerms: [{alias: al2023@v20260810, name: al2023-*}] # <-
//! +  amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-ami-terms",
    rejected_by: &[Authority::ApiServer],
    owns: &[Ownership { path: "spec/amiSelectorTerms", aspect: Aspect::Value }],
    docs: docs(include_str!("node_class_ami_terms.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms = class.get("amiSelectorTerms");
    if !terms.is_sequence() {
        return None;
    }
    let list: Vec<Node<'_>> = terms.items().collect();
    if list.is_empty() {
        ctx.report(&terms, "the class selects no AMI: at least one term is needed")
            .help("add `alias: al2023@` and the version that you have tested");
        return None;
    }
    for term in list.iter().filter(|t| super::is_known(t)) {
        check_fields(term, ctx);
        super::tags(term, Some("every AMI of the account and of Amazon"), ctx);
    }
    let aliased = list.iter().find(|t| t.get("alias").is_set())?;
    if list.len() > 1 {
        ctx.report(
            &aliased.get("alias"),
            "an `alias` must be the only AMI term: the API server rejects others beside it",
        )
        .help("keep the alias alone, or select all images by id, tags or name");
    }
    None
}

fn check_fields(term: &Node<'_>, ctx: &mut Context<'_>) {
    let has = |name: &str| term.get(name).is_set();
    if !["tags", "id", "name", "alias", "ssmParameter"].into_iter().any(has) {
        let message = if has("owner") {
            "`owner` alone selects no AMI: it goes with `name` or `tags`"
        } else {
            "the term selects nothing"
        };
        ctx.report(term, message).help("write one of `alias`, `id`, `name`, `tags` and `ssmParameter`");
        return;
    }
    for (alone, others) in
        [("id", ["alias", "tags", "name", "owner"]), ("alias", ["id", "tags", "name", "owner"])]
    {
        if !has(alone) {
            continue;
        }
        // `id` together with `alias` violates the constraint of both, and is reported once.
        let other = others.into_iter().find(|o| has(o) && !(alone == "alias" && *o == "id"));
        if let Some(other) = other {
            ctx.report(
                &term.get(other),
                format!("`{alone}` must be the only field: `{other}` beside it is rejected"),
            )
            .help(format!("keep `{alone}` or the others"));
        } else if has("ssmParameter") {
            ctx.report(&term.get("ssmParameter"), format!("`ssmParameter` beside `{alone}` is ignored"))
                .severity(Severity::Warning)
                .help("keep one of them");
        }
    }
}
