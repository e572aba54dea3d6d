//! How many findings each rule has.

use std::collections::HashMap;

use gpulint_rules::{Finding, Rule, Safety, Severity};

/// Reports with more findings end in a table.
pub(super) const MIN_FINDINGS: usize = 20;

/// The findings of a rule that have one severity.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) rule: &'static Rule,
    pub(crate) severity: Severity,
    pub(crate) count: usize,
    /// How many have a safe fix.
    pub(crate) safe: usize,
    /// How many have a fix that needs a review.
    pub(crate) unsafe_: usize,
}

/// The rows, by severity, then by count: what matters most is last.
pub(crate) fn rows(findings: &[Finding]) -> Vec<Row> {
    let mut at: HashMap<(&'static str, Severity), usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for finding in findings {
        let (rule, severity) = (finding.rule, finding.severity);
        let row = *at.entry((rule.id, severity)).or_insert_with(|| {
            rows.push(Row { rule, severity, count: 0, safe: 0, unsafe_: 0 });
            rows.len() - 1
        });
        let row = &mut rows[row];
        row.count += 1;
        match finding.fix.as_ref().map(|fix| fix.safety) {
            Some(Safety::Safe) => row.safe += 1,
            Some(Safety::Unsafe) => row.unsafe_ += 1,
            None => {}
        }
    }
    rows.sort_by(|a, b| {
        let order = |row: &Row| (row.severity, row.count);
        order(a).cmp(&order(b)).then_with(|| b.rule.id.cmp(a.rule.id))
    });
    rows
}

impl Row {
    /// How many can be fixed; with a star those that need more than `--fix`.
    pub(super) fn fixable(&self, with_unsafe: bool) -> String {
        match (self.safe, self.unsafe_) {
            (0, 0) => String::new(),
            (safe, more) if with_unsafe || more == 0 => (safe + more).to_string(),
            (0, more) => format!("{more}*"),
            (safe, more) => format!("{safe}+{more}*"),
        }
    }
}
