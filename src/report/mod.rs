//! The output of commands: the report of `gpulint check` in each format, and the answers of `gpulint why` and
//! `gpulint pools`.

mod answer;
mod capacity;
mod concise;
mod counts;
mod diff;
mod end;
mod excerpt;
mod fold;
mod github;
mod gitlab;
mod html;
mod json;
mod junit;
mod layout;
mod line_hash;
mod manual;
mod markdown;
mod paint;
mod place;
mod plan;
mod pools;
mod preview;
mod rdjson;
mod sarif;
mod sets;
mod table;
mod text;
mod total;
mod verbose;
mod versions;
mod why;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::PathBuf;

use gpulint_rules::{Finding, Safety, Severity, SuppressedFinding};
use serde_json::Value;

use crate::args::Style;
use crate::error::CliError;
use crate::files::{SkipReason, Skipped};

pub(crate) use answer::workload_name;
pub(crate) use diff::Diff;
pub(crate) use json::SCHEMA as DIAGNOSTICS_SCHEMA;
pub(crate) use layout::Layout;
pub(crate) use manual::manual_paragraph;
pub(crate) use place::{position, rendered_words, root_folder, writable};
pub(crate) use plan::{
    BudgetCheck, FindingsChange, NewFinding, PlanReport, PlannedSet, SCHEMA as PLAN_SCHEMA, UnreadFile,
    Upgrades, class_fate, fate, used_class_fate,
};
pub(crate) use pools::{PoolsAnswer, SCHEMA as POOLS_SCHEMA, gpu_text, limits_text, list_prices};
pub(crate) use preview::{Preview, Step};
pub(crate) use sets::{environment_note, write as write_sets};
pub(crate) use total::{shell_word, summary_line, unread_lines};
pub(crate) use verbose::write as write_verbose;
pub(crate) use versions::{ShownBySet, TakenVersion, shown as shown_versions, taken as taken_versions};
pub(crate) use why::{SCHEMA as WHY_SCHEMA, WhyAnswer, WhyPod, request_list};

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) summary: Summary,
    /// The findings, sorted by file, position and rule.
    pub(crate) findings: Vec<Finding>,
    /// The reason why a finding with a suitable fix was not fixed, by index in `findings`.
    pub(crate) unfixed: BTreeMap<usize, String>,
    /// The changes by the versions of the command line, if they differ from those of the configuration.
    pub(crate) preview: Option<Preview>,
    pub(crate) suppressed: Vec<SuppressedFinding>,
    /// The minimum severity that fails the run, by the reported path of the file.
    pub(crate) fail_on: BTreeMap<String, Option<Severity>>,
    /// The files whose reported path is not a usable path, because it is not UTF-8 or relative to another
    /// folder: the reported path, and the absolute one.
    pub(crate) paths: BTreeMap<String, PathBuf>,
    /// The output of `gpulint pools`, if a format shows the NodePools.
    pub(crate) pools: Option<Value>,
    pub(crate) fixed: Vec<Fixed>,
    /// The versions that the files show and that no configuration states.
    pub(crate) versions: Vec<TakenVersion>,
    /// What was rendered: each command, with the files of its values.
    pub(crate) renders: Vec<(String, Vec<String>)>,
    /// The reasons why the run failed. The exit code is 2 if there are any.
    pub(crate) failures: Vec<String>,
    pub(crate) exit_code: u8,
    /// The folder to which paths in reports for programs are relative.
    pub(crate) root: PathBuf,
    /// The configuration of each file that has one, by the reported path of the file.
    pub(crate) configurations: HashMap<String, String>,
    /// Whether only counts were requested.
    pub(crate) statistics: bool,
    /// The commands that this result asks for, and what each is for.
    pub(crate) next: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) rule: &'static str,
    /// The file, and the location in it after the fixes.
    pub(crate) path: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) title: String,
}

impl Report {
    fn fails(&self, finding: &Finding) -> bool {
        let path = finding.location.path().unwrap_or_default();
        let from = self.fail_on.get(path).copied().unwrap_or(Some(Severity::Warning));
        from.is_some_and(|from| finding.severity >= from)
    }

    /// The note on a finding that is new with a version.
    fn mark(&self, finding: usize) -> Option<String> {
        self.preview.as_ref()?.mark(finding)
    }
}

impl Style {
    pub(crate) fn write(self, out: &mut dyn Write, report: &Report, layout: &Layout) -> Result<(), CliError> {
        match self {
            Style::Text => text::write(out, report, layout),
            Style::Concise => concise::write(out, report, layout),
            Style::Json => json::write(out, report),
            Style::Sarif => sarif::write(out, report),
            Style::Github => github::write(out, report),
            Style::Gitlab => gitlab::write(out, report),
            Style::Junit => junit::write(out, report),
            Style::Rdjson => rdjson::write(out, report),
            Style::Html => html::write(out, report),
            Style::Markdown => markdown::write(out, report),
        }
    }

    /// Whether the format supports counts without findings.
    pub(crate) fn has_statistics(self) -> bool {
        matches!(self, Style::Text | Style::Concise | Style::Json)
    }

    /// Whether the format shows [`Report::pools`], which take long to compute.
    pub(crate) fn has_pools(self) -> bool {
        self == Style::Html
    }
}

#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Number of files that were read as manifests.
    pub(crate) files: usize,
    pub(crate) objects: usize,
    /// The files and documents that are not manifests.
    pub(crate) skipped: Vec<Skipped>,
    /// Number of templates that were not rendered, by the path of the chart.
    pub(crate) unrendered: BTreeMap<String, usize>,
    /// Number of kustomizations with patches that were not built, where an error or a warning is on an object that one of them patches.
    pub(crate) unbuilt: usize,
    /// Whether rendering failed for some of them.
    pub(crate) render_failed: bool,
    /// Number of files that may hold manifests and are not read, by reason.
    pub(crate) unread: BTreeMap<SkipReason, usize>,
    /// The charts whose values ask for accelerators, which are not read.
    pub(crate) charts: BTreeSet<String>,
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    /// Number of findings of severity info.
    pub(crate) infos: usize,
    /// Number of findings below the minimum severity, which are not reported: errors, warnings, infos.
    pub(crate) hidden: [usize; 3],
    /// Number of findings that have a fix, and whose text allows it.
    pub(crate) fixable: usize,
    /// Number of findings whose fix is safe.
    pub(crate) safely_fixable: usize,
    /// Number of findings that were fixed, if fixing was requested.
    pub(crate) fixed: Option<usize>,
    /// Whether fixes that need a review are requested as well.
    pub(crate) with_unsafe: bool,
    pub(crate) suppressed: usize,
    /// Number of findings that are in the baseline.
    pub(crate) baselined: usize,
    /// The revision of git since which findings are reported, and the number of those that were there before.
    pub(crate) since: Option<String>,
    pub(crate) known: usize,
}

impl Summary {
    /// Whether a finding is reported, as it is not below the minimum severity; otherwise it is counted.
    pub(crate) fn reports(&mut self, finding: &Finding, minimum: Severity) -> bool {
        if finding.severity >= minimum {
            return true;
        }
        let at = match finding.severity {
            Severity::Error => 0,
            Severity::Warning => 1,
            Severity::Info => 2,
        };
        self.hidden[at] += 1;
        false
    }

    pub(crate) fn count(&mut self, findings: &[Finding]) {
        for finding in findings {
            match finding.severity {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
                Severity::Info => self.infos += 1,
            }
            let safety = writable(finding);
            self.fixable += usize::from(safety.is_some());
            self.safely_fixable += usize::from(safety == Some(Safety::Safe));
        }
    }
}

/// The text `only in set `prod``: the sets in which a finding holds, if its file is in others as well.
pub(crate) fn only_in(finding: &Finding) -> Option<String> {
    const MAX_NAMES: usize = 3;
    if !finding.sets.partial {
        return None;
    }
    let names: Vec<String> = finding.sets.names.iter().map(|name| format!("`{name}`")).collect();
    Some(match names.as_slice() {
        names if names.len() > MAX_NAMES => {
            format!("only in sets {} and {} more", names[..MAX_NAMES].join(", "), names.len() - MAX_NAMES)
        }
        [names @ .., last] if !names.is_empty() => format!("only in sets {} and {last}", names.join(", ")),
        names => format!("only in set {}", names.concat()),
    })
}
