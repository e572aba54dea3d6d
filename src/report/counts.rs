//! The number of findings of each rule.

use std::collections::HashMap;

use gpulint_rules::{Finding, Group, Rule, Safety, Severity};

use super::place;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) rule: &'static Rule,
    pub(crate) severity: Severity,
    pub(crate) count: usize,
    /// Number of findings with a safe fix.
    pub(crate) safe: usize,
    /// Number of findings with a fix that needs a review.
    pub(crate) unsafe_: usize,
}

/// The order of groups by what their findings cost their user: pods that do not start and GPUs that are paid for without
/// being used are last, nearest to the prompt; faults of the text are first.
pub(crate) fn cost(group: Group) -> usize {
    const ORDER: [Group; 13] = [
        Group::Suppression,
        Group::Manifest,
        Group::Migration,
        Group::Monitoring,
        Group::WebhookSafety,
        Group::Availability,
        Group::Disruption,
        Group::Autoscaling,
        Group::Training,
        Group::NodeClass,
        Group::NodePool,
        Group::Gpu,
        Group::Scheduling,
    ];
    ORDER.iter().position(|one| *one == group).unwrap_or_default()
}

/// The rows by ascending severity, then by the cost of their group, then by count: the most important ones are last.
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
        match place::writable(finding) {
            Some(Safety::Safe) => row.safe += 1,
            Some(Safety::Unsafe) => row.unsafe_ += 1,
            None => {}
        }
    }
    rows.sort_by(|a, b| {
        let order = |row: &Row| (row.severity, cost(row.rule.group), row.count);
        order(a).cmp(&order(b)).then_with(|| b.rule.id.cmp(a.rule.id))
    });
    rows
}

impl Row {
    /// The number of findings that can be fixed; a star marks those that need more than `--fix`.
    pub(super) fn fixable(&self, with_unsafe: bool) -> String {
        match (self.safe, self.unsafe_) {
            (0, 0) => String::new(),
            (safe, more) if with_unsafe || more == 0 => (safe + more).to_string(),
            (0, more) => format!("{more}*"),
            (safe, more) => format!("{safe}+{more}*"),
        }
    }
}
