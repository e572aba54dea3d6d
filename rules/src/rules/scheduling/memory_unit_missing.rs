//! A container's memory is a few bytes.
//!
//! # Why
//! A quantity of memory without a suffix is in bytes, and the suffix `m` means thousandths, as in `500m` of a
//! CPU. With a limit of 512 bytes the container runtime cannot start the container. With a request of 512 bytes
//! the pod is placed as if it used no memory, on a node that has none to spare, and Karpenter buys nodes that
//! are too small for it.
//!
//! # Fix
//! Write the unit: `512Mi`, `4Gi`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: report}
//!  spec:
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/report:1.4.0
//!            resources:
//!              requests:
//!                cpu: 500m
//! -              memory: 512 # <-
//! +              memory: 512Mi
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#meaning-of-memory>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "memory-unit-missing",
    docs: docs(include_str!("memory_unit_missing.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// The bytes below which no amount of memory or storage is meant.
const FEW: i128 = 1 << 20;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let of_pod = template.spec.get("resources");
    let resources = template.all_containers().map(|container| container.get("resources"));
    for resources in resources.chain([of_pod]) {
        for resource in ["memory", "ephemeral-storage"] {
            let [request, limit] = ["requests", "limits"].map(|side| resources.path(&[side, resource]));
            // Whoever writes a unit for the least that a program needs, and no limit, means it.
            let is_meant = limit.is_absent() && request.text().is_some_and(|text| text.ends_with("Ki"));
            if !is_meant {
                amount(&request, resource, ctx);
            }
            // One slip that is written twice is told once.
            if limit.string_or_number() != request.string_or_number() {
                amount(&limit, resource, ctx);
            }
        }
    }
    None
}

fn amount(node: &Node<'_>, resource: &str, ctx: &mut Context<'_>) -> Option<()> {
    let text = node.string_or_number()?;
    let quantity = Quantity::at(node)?;
    if quantity.is_zero() || quantity.milli() < 0 || quantity.value() >= FEW {
        return None;
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (number, unit_of) = match quantity.value() {
        _ if text.ends_with('m') => (digits.to_owned(), "thousandths of a byte"),
        1 => ("1".to_owned(), "byte"),
        bytes => (bytes.to_string(), "bytes"),
    };
    // Small numbers are mostly meant in gibibytes.
    let unit = if digits.len() <= 2 { "Gi" } else { "Mi" };
    let what = if text.ends_with("Ki") { "write the unit that is meant" } else { "write the unit" };
    ctx.report(node, format!("`{text}` of {resource} is {number} {unit_of}"))
        .help(format!("{what}: `{digits}{unit}`"));
    None
}
