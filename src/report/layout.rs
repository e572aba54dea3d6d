//! How the reports for people are laid out: in which order, how much of it, for a terminal or a file.

use std::collections::HashMap;

use gpulint_rules::{Finding, Rule, Severity};

use crate::args::{CheckArgs, Color, GroupBy, SortBy};
use crate::terminal;
use crate::terminal::RenderOptions;

use super::Report;
use super::counts;
use super::fold::{Folded, fold};
use super::paint::Paint;

/// So many findings of a rule are drawn in full; the others have a line each.
const MAX_FRAMES: usize = 3;

/// How a report for people is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) look: RenderOptions,
    /// Whether it goes to a terminal, where lines break at words.
    pub(crate) is_terminal: bool,
    /// Whether rules are links.
    pub(crate) links: bool,
    pub(crate) sort: SortBy,
    pub(crate) group: Option<GroupBy>,
    /// Whether findings that read alike are one.
    pub(crate) folds: bool,
    /// Whether every finding is drawn in full.
    pub(crate) all: bool,
    /// Whether it has only the table and the total.
    pub(crate) statistics: bool,
    /// Whether it ends in the table and the total.
    pub(crate) summary: bool,
    /// Whether fixes that need a review count as fixable.
    pub(crate) with_unsafe: bool,
}

/// A part of a report.
#[derive(Debug)]
pub(super) struct Section<'r> {
    pub(super) heading: Option<Heading<'r>>,
    pub(super) findings: Vec<Folded>,
}

/// What the findings of a section have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading<'r> {
    Rule(&'static str),
    File(&'r str),
}

impl Layout {
    /// The layout for a report on standard output, or elsewhere.
    pub(crate) fn of(args: &CheckArgs, color: Color, is_stdout: bool) -> Layout {
        let look = match is_stdout {
            true => RenderOptions::for_stdout(color),
            false => RenderOptions::for_file(color),
        };
        let is_terminal = is_stdout && terminal::stdout_is_terminal();
        Layout {
            look,
            is_terminal,
            links: is_terminal && look.color && terminal::stdout_takes_links(),
            sort: args.sort.unwrap_or(if is_terminal { SortBy::Severity } else { SortBy::File }),
            group: args.group_by,
            folds: !args.no_fold && !args.all,
            all: args.all,
            statistics: args.statistics,
            summary: !args.quiet,
            with_unsafe: args.unsafe_fixes,
        }
    }

    pub(super) fn paint(&self) -> Paint {
        Paint { color: self.look.color, links: self.links }
    }

    /// The width that lines are broken at; `None`: they are not.
    pub(super) fn wrap_width(&self) -> Option<usize> {
        self.is_terminal.then_some(self.look.width)
    }

    /// Whether the table is shown.
    pub(super) fn has_table(&self, report: &Report) -> bool {
        let count = report.findings.len();
        self.statistics && count > 0 || self.summary && count > counts::MIN_FINDINGS
    }

    /// Whether the next finding of a rule is drawn in full.
    pub(super) fn draws(&self, drawn: &mut HashMap<&'static str, usize>, rule: &Rule) -> bool {
        let count = drawn.entry(rule.id).or_default();
        *count += 1;
        self.all || *count <= MAX_FRAMES
    }

    /// The findings that are shown, in their order.
    pub(super) fn sections<'r>(&self, report: &'r Report) -> Vec<Section<'r>> {
        if self.statistics {
            return Vec::new();
        }
        let findings = &report.findings;
        let mut shown = fold(report, self.folds, self.group == Some(GroupBy::File));
        let ranks: HashMap<(&str, Severity), usize> = (counts::rows(findings).iter().enumerate())
            .map(|(rank, row)| ((row.rule.id, row.severity), rank))
            .collect();
        let rank = |one: &Folded| {
            let finding = &findings[one.first];
            ranks.get(&(finding.rule.id, finding.severity)).copied().unwrap_or_default()
        };
        if self.sort == SortBy::Severity {
            // The sort is stable: those of a rule stay sorted by file.
            shown.sort_by_key(rank);
        }
        let Some(group) = self.group else {
            return vec![Section { heading: None, findings: shown }];
        };
        let heading = |finding: &'r Finding| match group {
            GroupBy::Rule => Heading::Rule(finding.rule.id),
            GroupBy::File => Heading::File(finding.location.path().unwrap_or_default()),
        };
        let mut sections: Vec<Section<'r>> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for one in shown {
            let heading = heading(&findings[one.first]);
            let (Heading::Rule(name) | Heading::File(name)) = heading;
            let at = *known.entry(name).or_insert_with(|| {
                sections.push(Section { heading: Some(heading), findings: Vec::new() });
                sections.len() - 1
            });
            sections[at].findings.push(one);
        }
        match (self.sort, group) {
            // What has the worst finding is last.
            (SortBy::Severity, _) => {
                sections.sort_by_key(|section| section.findings.iter().map(rank).max());
            }
            (SortBy::File, GroupBy::Rule) => sections.sort_by_key(|section| match section.heading {
                Some(Heading::Rule(id)) => id,
                _ => "",
            }),
            (SortBy::File, GroupBy::File) => {}
        }
        sections
    }
}
