//! What a run has to say, and one module for each way to say it.

pub(crate) mod concise;
mod excerpt;
pub(crate) mod json;
pub(crate) mod text;

use std::collections::BTreeMap;

use gpulint_rules::{Finding, Safety, Severity};

use crate::files::Skipped;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Counts.
    pub(crate) summary: Summary,
    /// Sorted by file, place and rule.
    pub(crate) findings: Vec<Finding>,
    /// Why a finding that was to be fixed is not, by its place in `findings`.
    pub(crate) unfixed: BTreeMap<usize, String>,
}

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Files that were read as manifests.
    pub(crate) files: usize,
    /// Objects that were judged.
    pub(crate) objects: usize,
    /// Files and documents that are no manifests.
    pub(crate) skipped: Vec<Skipped>,
    /// Findings by severity.
    pub(crate) errors: usize,
    /// Findings by severity.
    pub(crate) warnings: usize,
    /// Findings by severity.
    pub(crate) infos: usize,
    /// Findings that have a fix.
    pub(crate) fixable: usize,
    /// Findings whose fix is safe.
    pub(crate) safely_fixable: usize,
    /// Findings that were fixed, where fixing was asked for.
    pub(crate) fixed: Option<usize>,
    /// Findings that a suppression took away.
    pub(crate) suppressed: usize,
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
