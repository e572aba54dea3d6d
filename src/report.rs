//! The report of a run, and one submodule for each output format.

pub(crate) mod capacity;
pub(crate) mod concise;
mod counts;
mod end;
mod excerpt;
mod fold;
pub(crate) mod github;
pub(crate) mod gitlab;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod layout;
mod line_hash;
pub(crate) mod manual;
pub(crate) mod paint;
mod place;
pub(crate) mod pools;
mod preview;
pub(crate) mod rdjson;
pub(crate) mod sarif;
pub(crate) mod sets;
mod table;
pub(crate) mod text;
pub(crate) mod total;
pub(crate) mod verbose;
pub(crate) mod why;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use gpulint_rules::{Finding, Safety, Severity, SuppressedFinding};
use serde_json::Value;

use crate::files::Skipped;
use crate::preview::Preview;

pub(crate) use place::Root;

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Counts.
    pub(crate) summary: Summary,
    /// Sorted by file, position and rule.
    pub(crate) findings: Vec<Finding>,
    /// Why a finding with a suitable fix was not fixed, by index in `findings`.
    pub(crate) unfixed: BTreeMap<usize, String>,
    /// What the versions of the command line change, if they are not those of the configuration.
    pub(crate) preview: Option<Preview>,
    /// What suppressions took away, if it is to be shown.
    pub(crate) suppressed: Vec<SuppressedFinding>,
    /// From which severity on a finding makes the run fail, by the reported path of its file.
    pub(crate) fail_on: BTreeMap<String, Option<Severity>>,
    /// The files that the reported path does not lead to, because it is not UTF-8 or relative to another folder: that
    /// path, and the absolute one.
    pub(crate) paths: BTreeMap<String, PathBuf>,
    /// The NodePools as `gpulint pools` says them, where a format shows them.
    pub(crate) pools: Option<Value>,
    /// What was fixed.
    pub(crate) fixed: Vec<Fixed>,
    /// Why the run failed: the exit code is 2 where there is a reason.
    pub(crate) failures: Vec<String>,
    /// The configuration of each file that has one, by their reported paths.
    pub(crate) configurations: HashMap<String, String>,
    /// Whether only counts were asked for.
    pub(crate) statistics: bool,
}

/// A finding that was fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// The id of the rule.
    pub(crate) rule: &'static str,
    /// The file, and the place in it after the fixes.
    pub(crate) path: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// What the fix did.
    pub(crate) title: String,
}

impl Report {
    /// Whether a finding makes the run fail.
    fn fails(&self, finding: &Finding) -> bool {
        let path = finding.location.path().unwrap_or_default();
        let from = self.fail_on.get(path).copied().unwrap_or(Some(Severity::Warning));
        from.is_some_and(|from| finding.severity >= from)
    }

    /// What is to be said of a finding that is new with a version.
    fn mark(&self, finding: usize) -> Option<String> {
        self.preview.as_ref()?.mark(finding)
    }
}

/// What reports for programs say of a run beside its findings.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Why the work could not be done, or not all of it.
    pub(crate) problems: Vec<String>,
    /// The exit code.
    pub(crate) exit_code: u8,
    /// What paths are relative to.
    pub(crate) root: Root,
}

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Files that were read as manifests.
    pub(crate) files: usize,
    /// Number of objects checked.
    pub(crate) objects: usize,
    /// Files and documents that are not manifests.
    pub(crate) skipped: Vec<Skipped>,
    /// How many templates of each chart were not rendered, by the path of the chart.
    pub(crate) unrendered: BTreeMap<String, usize>,
    /// Number of errors.
    pub(crate) errors: usize,
    /// Number of warnings.
    pub(crate) warnings: usize,
    /// Number of findings of severity info.
    pub(crate) infos: usize,
    /// Findings that have a fix.
    pub(crate) fixable: usize,
    /// Findings whose fix is safe.
    pub(crate) safely_fixable: usize,
    /// Findings that were fixed, if fixing was requested.
    pub(crate) fixed: Option<usize>,
    /// Whether fixes that need a review are requested as well.
    pub(crate) with_unsafe: bool,
    /// Findings that were suppressed.
    pub(crate) suppressed: usize,
    /// Findings that are in the baseline.
    pub(crate) baselined: usize,
}

impl Summary {
    /// Counts findings.
    pub(crate) fn count(&mut self, findings: &[Finding]) {
        for finding in findings {
            match finding.severity {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
                Severity::Info => self.infos += 1,
            }
            let safety = finding.fix.as_ref().map(|fix| fix.safety);
            self.fixable += usize::from(safety.is_some());
            self.safely_fixable += usize::from(safety == Some(Safety::Safe));
        }
    }
}

/// `only in `prod``: the sets that a finding holds in, where its file is in others as well.
pub(crate) fn only_in(finding: &Finding) -> Option<String> {
    const MAX_NAMES: usize = 3;
    if !finding.sets.partial {
        return None;
    }
    let names: Vec<String> = finding.sets.names.iter().map(|name| format!("`{name}`")).collect();
    Some(match names.as_slice() {
        names if names.len() > MAX_NAMES => {
            format!("only in {} and {} more sets", names[..MAX_NAMES].join(", "), names.len() - MAX_NAMES)
        }
        [names @ .., last] if !names.is_empty() => format!("only in {} and {last}", names.join(", ")),
        names => format!("only in {}", names.concat()),
    })
}
