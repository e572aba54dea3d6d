//! Findings that do not hold for all supported versions of a product.
//!
//! A rule checks for one version of each product: the stated one, or the newest that gpulint knows. While
//! the version is not stated, what a rule with `depends_on` finds is compared with what it finds under every
//! other supported version. A finding that one of them does not share is at most a warning, and its help names the setting;
//! what all of them share stays as it is.

use crate::lint::finding::{Finding, Severity};
use crate::lint::message::{MAX_MESSAGE_CHARS, has_whole_quotes, truncate};
use crate::platform::{Platform, Product};
use crate::steps;

/// Number of steps for comparing the places of two findings.
const STEPS_PER_COMPARISON: usize = 8;

/// The platform with each other supported version of each product whose version is not stated.
pub(crate) fn alternatives(platform: &Platform) -> Vec<(Product, Platform)> {
    let mut out = Vec::new();
    for product in Product::ALL.into_iter().filter(|product| !platform.is_stated(*product)) {
        for version in product.supported().filter(|version| *version != platform.version(product)) {
            let mut other = platform.clone();
            *other.version_mut(product) = version;
            out.push((product, other));
        }
    }
    out
}

/// Lowers the severity of a rule's findings, from index `from`, that do not hold for another supported version. `run`
/// appends the findings of the rule on another platform.
pub(crate) fn lower_where_versions_differ<'a>(
    findings: &mut Vec<Finding>,
    from: usize,
    alternatives: impl Iterator<Item = &'a (Product, Platform)>,
    mut run: impl FnMut(&Platform, &mut Vec<Finding>),
) {
    let matters = |finding: &Finding| finding.severity > Severity::Info;
    if !findings.iter().skip(from).any(matters) {
        return;
    }
    let mut own: Vec<(Finding, Option<Product>)> =
        findings.split_off(from).into_iter().map(|finding| (finding, None)).collect();
    for (product, platform) in alternatives {
        let mut open: Vec<_> =
            own.iter_mut().filter(|(f, differs)| differs.is_none() && matters(f)).collect();
        if open.is_empty() {
            break;
        }
        run(platform, findings);
        let others = &findings[from..];
        // Both are in the same order: the search continues after the last match.
        let mut next = 0;
        for (finding, differs) in &mut open {
            // The message may name the version.
            let shared = |other: &Finding| {
                steps::take(STEPS_PER_COMPARISON);
                other.severity >= finding.severity && other.location.ptr_eq(&finding.location)
            };
            let (before, behind) = others.split_at(next);
            match behind.iter().chain(before).position(shared) {
                Some(at) => next = (next + at + 1) % others.len(),
                None => *differs = Some(*product),
            }
        }
        findings.truncate(from);
    }
    findings.extend(own.into_iter().map(|(mut finding, differs)| {
        if let Some(product) = differs {
            finding.severity = finding.severity.min(Severity::Warning);
            finding.help = Some(help(finding.help.take(), product));
        }
        finding
    }));
}

/// A help that names the setting for the version.
fn help(help: Option<String>, product: Product) -> String {
    let setting = format!("set `{}` to be sure", product.setting());
    match help {
        None => setting,
        Some(help) if help.contains("`platform") => help,
        Some(help) => {
            let room = MAX_MESSAGE_CHARS - setting.chars().count() - 2;
            if help.chars().count() <= room {
                return format!("{help}; {setting}");
            }
            // A complete clause is better than a truncated sentence.
            let head: String = help.chars().take(room).collect();
            let clause = head.rfind([';', ':', ',']).map(|end| &head[..end]);
            match clause.filter(|clause| clause.len() >= room / 2 && has_whole_quotes(clause)) {
                Some(clause) => format!("{clause}; {setting}"),
                None => format!("{}; {setting}", truncate(&help, room)),
            }
        }
    }
}
