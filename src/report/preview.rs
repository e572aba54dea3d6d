//! The changes that another version makes to a report: a preview of an upgrade.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gpulint_rules::lint::preview::{UpgradeNote, VersionChange};
use gpulint_rules::{Finding, Location, Product, Version};

use crate::terminal::RenderOptions;

/// Maximum number of entries of a kind in the text.
const MAX_LINES: usize = 20;

/// A product and two versions of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) product: Product,
    pub(crate) from: Version,
    pub(crate) to: Version,
}

/// The changes by the versions of the command line.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    /// The products with another version than before; empty if nothing was compared.
    pub(crate) steps: Vec<Step>,
    /// The versions for which it is not known what runs.
    pub(crate) alone: Vec<(Product, Version)>,
    /// The indices of the findings that are new with the other versions, or more severe with them.
    pub(crate) new: BTreeSet<usize>,
    /// The findings that the other versions do not have.
    pub(crate) gone: Vec<Finding>,
    /// What the other version brings that no manifest shows.
    pub(crate) upgrade: Vec<UpgradeNote>,
    /// Changes in behaviour, besides the findings.
    pub(crate) changes: Vec<VersionChange>,
}

impl Step {
    /// The title of the change: `Karpenter 1.9 → 1.13`.
    pub(crate) fn title(self, unicode: bool) -> String {
        let arrow = if unicode { "→" } else { "->" };
        format!("{} {} {arrow} {}", self.product.name(), self.from, self.to)
    }

    /// The product with its new version: `Karpenter 1.13`.
    pub(crate) fn target(self) -> String {
        format!("{} {}", self.product.name(), self.to)
    }

    /// A note if the version is newer than gpulint.
    pub(crate) fn note(self) -> Option<String> {
        self.product.note_on(self.to).ok().flatten()
    }
}

impl Preview {
    /// The note `new with Karpenter 1.13` for a finding that is new.
    pub(crate) fn mark(&self, finding: usize) -> Option<String> {
        let targets: Vec<String> = self.steps.iter().map(|step| step.target()).collect();
        self.new.contains(&finding).then(|| format!("new with {}", targets.join(" and ")))
    }
}

pub(super) fn text(preview: &Preview, options: RenderOptions) -> String {
    let mut out = String::new();
    for (product, to) in &preview.alone {
        let (name, setting) = (product.name(), product.setting());
        let _ = writeln!(
            out,
            "{name} {to} is not compared: no file shows which version runs; `{setting}` in gpulint.yaml states it"
        );
    }
    if !preview.steps.is_empty() {
        let steps: Vec<String> = preview.steps.iter().map(|step| step.title(options.unicode)).collect();
        let _ = writeln!(out, "preview of {}", steps.join(", "));
        for note in preview.steps.iter().filter_map(|step| step.note()) {
            let _ = writeln!(out, "  {note}");
        }
        match preview.new.len() {
            0 => out.push_str("  no finding is new\n"),
            1 => out.push_str("  1 finding is new, marked below\n"),
            new => {
                let _ = writeln!(out, "  {new} findings are new, marked below");
            }
        }
    }
    for note in &preview.upgrade {
        let _ = writeln!(out, "  {} {}: {}", note.version, note.topic, note.text);
    }
    for finding in preview.gone.iter().take(MAX_LINES) {
        let place = place(&finding.location);
        let (severity, rule) = (finding.severity.name(), finding.rule.id);
        let _ = writeln!(out, "  goes away: {place}{severity}[{rule}] {}", finding.whole_message());
    }
    if preview.gone.len() > MAX_LINES {
        let _ = writeln!(out, "  goes away: {} more", preview.gone.len() - MAX_LINES);
    }
    for change in preview.changes.iter().take(MAX_LINES) {
        let field =
            Location::Field { object: change.object.clone(), pointer: change.pointer.clone(), key: false };
        let _ =
            writeln!(out, "  changes: {}from Karpenter {} on {}", place(&field), change.version, change.text);
    }
    if preview.changes.len() > MAX_LINES {
        let _ = writeln!(out, "  changes: {} more", preview.changes.len() - MAX_LINES);
    }
    out
}

/// The location before a message: `a.yaml:3:5: `.
fn place(location: &Location) -> String {
    let Some((source, _, span)) = location.resolve_span() else { return String::new() };
    let at = source.lines().position(source.text(), span.start);
    format!("{}:{}:{}: ", source.path(), at.line, at.column)
}
