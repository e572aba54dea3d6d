//! The output of `gpulint plan`: what a change does, most important first.

mod headline;
mod html;
mod json;
mod markdown;
mod page;
mod text;
mod words;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use gpulint_rules::Finding;
use gpulint_rules::lint::preview::{UpgradeNote, VersionChange};
use gpulint_rules::plan::SetPlan;

use crate::args::PlanStyle;
use crate::error::CliError;
use crate::terminal::RenderOptions;

use super::preview::Step;

pub(crate) use words::{class_fate, fate, used_class_fate};

pub(crate) const SCHEMA: &str = include_str!("plan.schema.json");

/// What a change does.
#[derive(Debug, Default)]
pub(crate) struct PlanReport {
    /// The names of the sides.
    pub(crate) before: String,
    pub(crate) after: String,
    /// The sets that the change touches.
    pub(crate) sets: Vec<PlannedSet>,
    pub(crate) findings: FindingsChange,
    pub(crate) upgrades: Upgrades,
    pub(crate) budget: Option<BudgetCheck>,
    /// Whether replaced nodes make the exit code 1.
    pub(crate) fails_on_replacement: bool,
    /// The files that cannot be read on a side: their objects are taken for those of the other side.
    pub(crate) unread: Vec<UnreadFile>,
    /// What differs and is not compared, because no program renders it: files of charts, kustomizations and patches, files of
    /// Terraform and of templates, and objects that install charts; each with whether helm or kustomize reads it.
    pub(crate) uncompared: Vec<(String, bool)>,
    /// Paths that could not be read, with the side.
    pub(crate) errors: Vec<String>,
    /// The region of list prices.
    pub(crate) region: Option<String>,
    /// The folder to which the paths of links are relative.
    pub(crate) root: PathBuf,
    /// The address before the path of a file in links.
    pub(crate) links: Option<String>,
}

/// What a change does to a set.
#[derive(Debug)]
pub(crate) struct PlannedSet {
    /// The name; `None` if the input is a single set, and for files in no set.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) plan: SetPlan,
    /// Whether only one side has it.
    pub(crate) is_new: bool,
    pub(crate) is_gone: bool,
}

/// A file of which a document does not parse.
#[derive(Clone, Debug)]
pub(crate) struct UnreadFile {
    /// Relative to the root of the sides.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// Whether the side after the change has it.
    pub(crate) is_after: bool,
}

/// The findings of both sides: each is new, gone, or still there.
#[derive(Debug, Default)]
pub(crate) struct FindingsChange {
    pub(crate) new: Vec<NewFinding>,
    /// With their fingerprints.
    pub(crate) gone: Vec<(Finding, String)>,
    pub(crate) still: usize,
    /// The number of those that are new and in a baseline.
    pub(crate) baselined: usize,
}

#[derive(Debug)]
pub(crate) struct NewFinding {
    pub(crate) finding: Finding,
    pub(crate) fingerprint: String,
    /// Whether it makes the exit code 1.
    pub(crate) fails: bool,
}

/// The versions that a change moves.
#[derive(Debug, Default)]
pub(crate) struct Upgrades {
    pub(crate) steps: Vec<Step>,
    /// What the versions bring that no manifest shows.
    pub(crate) notes: Vec<UpgradeNote>,
    /// Changes in behaviour, besides the findings.
    pub(crate) changes: Vec<VersionChange>,
}

/// What may be spent an hour, and what is spent at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetCheck {
    /// Dollars.
    pub(crate) limit: f64,
    /// Millionths of a dollar; `None` if a type has no list price.
    pub(crate) most: Option<i128>,
}

impl BudgetCheck {
    fn is_exceeded(self) -> bool {
        self.most.is_some_and(|most| super::answer::dollars(most) > self.limit)
    }
}

impl PlanReport {
    /// 0 if nothing fails, 1 for a new finding or what the flags ask for, 2 if a path could not be read.
    pub(crate) fn exit_code(&self) -> u8 {
        match () {
            () if !self.errors.is_empty() => 2,
            () => u8::from(!self.reasons().is_empty()),
        }
    }

    /// Why the exit code is 1.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let failing = self.findings.new.iter().filter(|one| one.fails).count();
        if failing > 0 {
            reasons.push(crate::terminal::count(failing, "new finding"));
        }
        if self.fails_on_replacement && self.sets.iter().any(|set| set.plan.replaces_nodes()) {
            reasons.push("nodes are replaced".to_owned());
        }
        if let Some(budget) = self.budget.filter(|budget| budget.is_exceeded()) {
            let most = budget.most.map_or(0.0, super::answer::dollars);
            reasons.push(format!("${most:.2} an hour with the most replicas is above ${:.2}", budget.limit));
        }
        reasons
    }

    /// Whether the change does nothing that is reported.
    fn is_empty(&self) -> bool {
        self.sets.is_empty()
            && self.findings.new.is_empty()
            && self.findings.gone.is_empty()
            && self.upgrades.steps.is_empty()
            && self.unread.is_empty()
    }

    /// The text for a change that does nothing.
    fn nothing(&self) -> String {
        let text = match (self.errors.as_slice(), self.uncompared.as_slice()) {
            ([], []) => "nothing changes for nodes, pods, dollars and findings",
            ([], _) => "nothing changes in the manifests that can be read",
            _ => "what changes is not known, because not everything could be read",
        };
        let same = match self.findings.still {
            0 => String::new(),
            still => format!(" ({} still there)", crate::terminal::count(still, "finding")),
        };
        let uncompared = self.uncompared_note().map_or_else(String::new, |note| format!("; {note}"));
        format!("{text}{same}{uncompared}")
    }

    /// What is not compared.
    fn uncompared_note(&self) -> Option<String> {
        let names: Vec<String> = self.uncompared.iter().map(|(name, _)| name.clone()).collect();
        let may_render = self.uncompared.iter().any(|(_, is_renderable)| *is_renderable);
        let how = if may_render { "; --render compares charts and kustomizations that are here" } else { "" };
        let names = words::names(&names);
        (!names.is_empty()).then(|| format!("not compared: what programs make of {names}{how}"))
    }

    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        style: PlanStyle,
        options: RenderOptions,
    ) -> Result<(), CliError> {
        match style {
            PlanStyle::Text => text::write(out, self, options),
            PlanStyle::Json => json::write(out, self),
            PlanStyle::Markdown => markdown::write(out, self),
            PlanStyle::Html => html::write(out, self),
        }
    }
}
