//! The layout of the reports for people: their order, their extent, and the width of lines.

use std::collections::HashMap;

use gpulint_rules::{Finding, Severity};

use crate::args::{CheckArgs, Color, GroupBy, SortBy};
use crate::terminal;
use crate::terminal::RenderOptions;

use super::Report;
use super::counts;
use super::fold::{Folded, fold};
use super::paint::Paint;

/// Maximum number of findings with an excerpt; the others have a line each. With three of them a report of an ordinary
/// repository fits on two screens of 50 lines.
const MAX_DRAWN: usize = 3;
/// Maximum number of findings of a report that lists those of severity info; in a longer one they are counted.
const MAX_WITH_INFOS: usize = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) look: RenderOptions,
    /// Whether the report goes to a terminal, where lines break at words.
    pub(crate) is_terminal: bool,
    /// Whether rules are links.
    pub(crate) links: bool,
    pub(crate) sort: SortBy,
    pub(crate) group: Option<GroupBy>,
    pub(crate) folds: bool,
    /// Whether every finding has an excerpt.
    pub(crate) all: bool,
    /// Whether findings of severity info are listed however many there are.
    pub(crate) infos: bool,
    /// Whether the report has only the table and the total.
    pub(crate) statistics: bool,
    /// Whether the report ends in the table and the total.
    pub(crate) summary: bool,
    /// Whether fixes that need a review count as fixable.
    pub(crate) with_unsafe: bool,
}

#[derive(Debug)]
pub(super) struct Section<'r> {
    pub(super) heading: Option<Heading<'r>>,
    pub(super) findings: Vec<Folded>,
}

/// The common property of the findings of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading<'r> {
    Rule(&'static str),
    File(&'r str),
}

impl Layout {
    /// The layout of a report to standard output, or to another destination.
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
            infos: args.infos || args.all,
            statistics: args.statistics,
            summary: !args.quiet,
            with_unsafe: args.unsafe_fixes,
        }
    }

    pub(super) fn paint(&self) -> Paint {
        Paint { color: self.look.color, links: self.links }
    }

    /// The width at which lines are broken; `None` if they are not broken.
    pub(super) fn wrap_width(&self) -> Option<usize> {
        self.is_terminal.then_some(self.look.width)
    }

    /// Whether the report has the table of all rules.
    pub(super) fn has_table(&self, report: &Report) -> bool {
        self.statistics && !report.findings.is_empty()
    }

    /// Whether the findings of severity info are only counted.
    pub(super) fn leaves_infos_out(&self, report: &Report) -> bool {
        let is_asked_for = self.infos || self.statistics || self.group.is_some();
        !is_asked_for && report.summary.infos > 0 && report.findings.len() > MAX_WITH_INFOS
    }

    /// The findings that get an excerpt, by index: the errors and warnings that cost most, of as many rules as possible, the
    /// first of them first. Without errors and warnings, infos.
    pub(super) fn drawn(&self, report: &Report, sections: &[Section<'_>]) -> Vec<usize> {
        let shown = sections.iter().flat_map(|section| &section.findings).map(|folded| folded.first);
        if self.all {
            return shown.collect();
        }
        let worst =
            Severity::Warning.min(report.findings.iter().map(|f| f.severity).max().unwrap_or(Severity::Info));
        let mut shown: Vec<usize> = shown.filter(|at| report.findings[*at].severity >= worst).collect();
        let cost = |at: &usize| {
            let finding = &report.findings[*at];
            std::cmp::Reverse((finding.severity, counts::cost(finding.rule.group)))
        };
        // Both sorts are stable: findings of one cost stay in their order.
        shown.sort_by_key(cost);
        let mut of_rule: HashMap<&str, usize> = HashMap::new();
        let mut numbered: Vec<(usize, usize)> = (shown.into_iter())
            .map(|at| {
                let number = of_rule.entry(report.findings[at].rule.id).or_default();
                *number += 1;
                (*number, at)
            })
            .collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered.into_iter().take(MAX_DRAWN).map(|(_, at)| at).collect()
    }

    /// The findings that are shown, in order.
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
            // The sort is stable, so that the findings of a rule stay sorted by file.
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
            // The section with the most severe finding is last.
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
