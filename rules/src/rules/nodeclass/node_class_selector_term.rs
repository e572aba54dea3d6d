//! A term for subnets, security groups or reservations contradicts itself.
//!
//! # Why
//! Each term needs something to select by, and an `id` (for security groups also a `name`) takes
//! nothing beside it. The API server rejects a mixed term only while all terms are mixed: one good
//! term lets the bad ones pass, and of a mixed term Karpenter then reads the id alone, so that the
//! selection silently widens. `tags: {}` is taken too and filters nothing: every subnet or security
//! group of the account is selected. An empty list of reservation terms is rejected.
//!
//! # Fix
//! Write one way to select a term; what must hold together goes into one term's `tags`.
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
//!      - id: subnet-0123456789abcdef0
//! -      tags: {tier: private} # <-
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specsubnetselectorterms>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specsecuritygroupselectorterms>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speccapacityreservationselectorterms>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-selector-term",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("node_class_selector_term.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

struct Terms {
    /// The field of `spec`.
    field: &'static str,
    /// Fields of which one is required.
    selects: &'static [&'static str],
    /// Fields that cannot be combined with the listed others.
    alone: &'static [(&'static str, &'static [&'static str])],
    /// What `tags: {}` selects, if anything.
    all: Option<&'static str>,
    /// What an empty list means.
    none: &'static str,
}

const LISTS: [Terms; 3] = [
    Terms {
        field: "subnetSelectorTerms",
        selects: &["tags", "id"],
        alone: &[("id", &["tags"])],
        all: Some("every subnet of the account"),
        none: "the class selects no subnet: at least one term is needed",
    },
    Terms {
        field: "securityGroupSelectorTerms",
        selects: &["tags", "id", "name"],
        alone: &[("id", &["tags", "name"]), ("name", &["tags", "id"])],
        all: Some("every security group of the account"),
        none: "the class selects no security group: at least one term is needed",
    },
    Terms {
        field: "capacityReservationSelectorTerms",
        selects: &["tags", "id", "instanceMatchCriteria"],
        alone: &[("id", &["tags", "ownerID", "instanceMatchCriteria"])],
        all: None,
        none: "an empty list of reservation terms is rejected",
    },
];

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for terms in &LISTS {
        list(&class.get(terms.field), terms, ctx);
    }
    placement_group(&class.get("placementGroupSelector"), ctx);
    None
}

fn list(node: &Node<'_>, terms: &Terms, ctx: &mut Context<'_>) {
    if !node.is_sequence() {
        return;
    }
    let all: Vec<Node<'_>> = node.items().collect();
    if all.is_empty() {
        let finding = ctx.report(node, terms.none);
        if terms.field == "capacityReservationSelectorTerms" {
            finding.help("leave the field out");
            let fix = Fix::new("remove the empty list", Safety::Safe);
            finding.fix(fix.remove(node));
        } else {
            finding.help("select by tags, such as karpenter.sh/discovery, or by id");
        }
        return;
    }
    // The server rejects a constraint only if every term violates it, and evaluates each constraint
    // separately.
    let breaks = |term: &Node<'_>, at: usize| {
        terms.alone.get(at).is_some_and(|(alone, others)| {
            term.get(alone).is_set() && others.iter().any(|o| term.get(o).is_set())
        })
    };
    let refused: Vec<bool> = (0..terms.alone.len()).map(|at| all.iter().all(|t| breaks(t, at))).collect();
    for term in all.iter().filter(|t| super::is_known(t)) {
        if !terms.selects.iter().any(|s| term.get(s).is_set()) {
            ctx.report(term, "the term selects nothing")
                .help(format!("write one of {}", words(terms.selects)));
            continue;
        }
        // A name together with an id is reported by the constraint of the id.
        let broken = (0..terms.alone.len()).find(|at| breaks(term, *at));
        if let Some(at) = broken {
            let by = (refused.iter().enumerate())
                .any(|(i, refused)| *refused && breaks(term, i))
                .then_some(Authority::ApiServer);
            mixed(term, terms.alone[at], by, ctx);
        }
        super::tags(term, terms.all, ctx);
    }
}

fn mixed(term: &Node<'_>, (alone, others): (&str, &[&str]), by: Option<Authority>, ctx: &mut Context<'_>) {
    let Some(other) = others.iter().find(|o| term.get(o).is_set()) else { return };
    let message = if by.is_some() {
        format!("`{alone}` must be the only field: the API server rejects `{other}` beside it")
    } else {
        format!("`{alone}` stands alone: `{other}` beside it is ignored, so more is selected")
    };
    ctx.report(&term.get(other), message).rejected_by(by).help(format!("keep `{alone}`, or the others"));
}

fn placement_group(node: &Node<'_>, ctx: &mut Context<'_>) {
    if !super::is_known(node) {
        return;
    }
    match (node.get("name").is_set(), node.get("id").is_set()) {
        (false, false) => {
            ctx.report(node, "the selector names no placement group")
                .help("write `name` or `id`, or leave the selector out");
        }
        (true, true) => {
            ctx.report(&node.get("id"), "a placement group is named by `name` or by `id`, not both")
                .help("keep one of them");
        }
        _ => {}
    }
}

fn words(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    quoted.join(", ")
}
