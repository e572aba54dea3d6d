//! What a run has to say, and one module for each way to say it.

pub(crate) mod concise;
mod excerpt;
pub(crate) mod json;
pub(crate) mod text;

use gpulint_rules::{Finding, Severity};

use crate::files::Skipped;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Counts.
    pub(crate) summary: Summary,
    /// Sorted by file, place and rule.
    pub(crate) findings: Vec<Finding>,
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
            self.fixable += usize::from(finding.fix.is_some());
        }
    }
}
