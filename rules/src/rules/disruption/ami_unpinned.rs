//! A node class follows the newest AMI.
//!
//! # Why
//! With `@latest` each release of AWS, every week or two, makes all nodes of the class drift: Karpenter
//! replaces the fleet as fast as the budgets allow, with an image that nobody has tried. A driver that
//! does not fit a CUDA version reaches production that way, on all nodes within hours.
//!
//! # Fix
//! Pin the version that was tested, such as `al2023@v20250807` or `bottlerocket@v1.44.0`, and raise it
//! in a pull request. Windows images know nothing but `@latest`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: KarpenterNode-prod
//!    amiSelectorTerms:
//! -    - alias: al2023@latest # <-
//! +    - alias: al2023@v20250807
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/tasks/managing-amis/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6952>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ami-unpinned",
    kinds: &[Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("ami_unpinned.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.id().version != "v1" {
        return None;
    }
    for term in object.path(&["spec", "amiSelectorTerms"]).items() {
        let alias = term.get("alias");
        let Some((family, "latest")) = alias.text().and_then(|t| t.split_once('@')) else {
            continue;
        };
        if family.starts_with("windows") {
            continue;
        }
        ctx.report(
            &alias,
            format!("each new AMI replaces all nodes of class `{}`, untried", object.display_name()),
        )
        .help(format!("pin the version that was tested, as in `{}`", example(family)));
    }
    None
}

/// An example of a pinned alias of a family.
fn example(family: &str) -> String {
    match family {
        "bottlerocket" => "bottlerocket@v1.44.0".to_owned(),
        other => format!("{other}@v20250807"),
    }
}
