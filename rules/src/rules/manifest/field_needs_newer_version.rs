//! A field or value needs a newer Karpenter or KEDA than configured.
//!
//! # Why
//! The definitions in a cluster are those of the installed version. A field that came later is dropped
//! without a message, or rejected where the client asks for strict decoding; a value that came later
//! is rejected. Either way the setting has no effect, although the documentation of the newest version
//! shows it.
//!
//! # Fix
//! Update first, or write the setting as the installed version has it. gpulint checks against the
//! newest Karpenter and KEDA that it knows and Kubernetes 1.36, unless `platform` in the
//! configuration, or `--karpenter`, `--keda` and `--kubernetes`, name others.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {karpenter: "1.7"}
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: gpu-nodes
//!    amiSelectorTerms: [{alias: al2023@v20250701}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  ipPrefixCount: 2 # <-
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/upgrade-guide/>
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>

use crate::rules::manifest::message_parts::quoted_field;
use crate::rules::manifest::since::{self, Since};
use crate::rules::prelude::*;
use crate::schema;

pub(crate) static RULE: Rule = Rule {
    id: "field-needs-newer-version",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::NODE_OVERLAY,
        Kind::EC2_NODE_CLASS,
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
        Kind::TRIGGER_AUTHENTICATION,
        Kind::CLUSTER_TRIGGER_AUTHENTICATION,
    ],
    rejected_by: &[Authority::ApiServer],
    depends_on: &[Product::Karpenter, Product::Keda],
    docs: docs(include_str!("field_needs_newer_version.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let platform = ctx.platform();
    // Karpenter providers other than AWS have their own version numbers.
    let requirements = ctx.requirements();
    let karpenter = requirements.map_or(platform.karpenter, |l| l.provider.karpenter_version(platform));
    if let Some(list) = requirements {
        reserved(list, karpenter, ctx);
    }
    for row in since::rows(object) {
        let installed = match row.product {
            "Karpenter" => karpenter,
            _ => platform.keda,
        };
        if let Some(needed) = row.range.since.filter(|first| installed < *first) {
            for node in row.nodes(object) {
                // A definition of the user is the one in the cluster, whatever the version says.
                if schema::accepted_by_definition(object, &node.pointer(), ctx.definitions()) == Some(true) {
                    continue;
                }
                report(&node, row, needed, installed, ctx);
            }
        }
    }
    None
}

/// `reserved` as a capacity type: older versions accept it, but no node ever has it.
fn reserved(list: &RequirementList<'_>, installed: Version, ctx: &mut Context<'_>) {
    let needed = Version::new(1, 3);
    if installed >= needed {
        return;
    }
    for item in list.items() {
        if item.key() != Some(CAPACITY_TYPE) || item.operator() != Some(Operator::In) {
            continue;
        }
        for node in item.values().items().filter(|v| v.text() == Some("reserved")) {
            let message = format!("Karpenter {installed} has no `reserved` nodes, which came with {needed}");
            ctx.report(&node, message)
                .severity(Severity::Warning)
                .help("update Karpenter, or set `platform` in gpulint.yaml if it is newer");
        }
    }
}

fn report(node: &Node<'_>, row: &Since, needed: Version, installed: Version, ctx: &mut Context<'_>) {
    let name = row.product;
    let help = format!("update {name}, or set `platform` in gpulint.yaml if it is newer");
    if row.values.is_empty() {
        let field = quoted_field(&node.pointer());
        ctx.report(node, format!("{name} {installed} ignores {field}, which came with {needed}"))
            .severity(Severity::Warning)
            .help(help)
            .at_key();
    } else if let Some(value) = node.text().filter(|text| row.values.contains(text)) {
        ctx.report(node, format!("{name} {installed} rejects `{value}`, which came with {needed}"))
            .severity(Severity::Error)
            .rejected_by(Some(Authority::ApiServer))
            .help(help);
    }
}
