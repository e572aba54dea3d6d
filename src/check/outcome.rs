//! The outcome of a run: the report, and the exit code.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use gpulint_rules::lint::report::sort;
use gpulint_rules::{CheckReport, Finding, Object, Safety, Severity, charts_with_accelerators};

use crate::args::CheckArgs;
use crate::batch::Batch;
use crate::config::Scopes;
use crate::files::{self, FoundFiles, SkipReason};
use crate::render::{RenderReport, Renders};
use crate::report::{Report, root_folder, summary_line};
use crate::terminal::count;

use super::run::{Done, Run};
use super::since::Before;
use super::{fix, next};

#[derive(Default)]
pub(super) struct Outcome {
    pub(super) report: Report,
    /// Paths that could not be read or written, with the reason.
    pub(super) errors: Vec<String>,
    /// The findings that are in baselines, by configuration and fingerprint.
    pub(super) baselined: Vec<(usize, String)>,
    /// The reason why no object was found, if that is an error.
    pub(super) nothing: Option<String>,
    /// Whether a finding has a severity that fails the run.
    failed: bool,
    /// Number of findings on charts and kustomizations that could not be rendered.
    render_failed: usize,
    /// Number of documents that do not parse.
    unparsable: usize,
}

impl Outcome {
    pub(super) fn new(
        run: &Run<'_>,
        batch: &Batch<'_>,
        renders: &Renders,
        found: FoundFiles,
        done: Done,
        since: Option<&Before>,
    ) -> Outcome {
        let args = run.args;
        let mut outcome = Outcome { errors: found.errors, ..Outcome::default() };
        outcome.report.summary.skipped = found.skipped;
        for (reason, _) in found.unread {
            *outcome.report.summary.unread.entry(reason).or_default() += 1;
        }
        let scripts = match args.paths.iter().any(|path| path.is_dir()) {
            true => batch.folders.scripts_with_manifests(),
            false => 0,
        };
        if scripts > 0 {
            outcome.report.summary.unread.insert(SkipReason::Script, scripts);
        }
        outcome.add_files(batch, renders);
        outcome.add_reports(batch, done.reports, since);
        let is_open = |finding: &Finding| {
            finding.severity > Severity::Info
                && finding.location.object().is_some_and(Object::is_patched_by_kustomize)
        };
        if !args.render && outcome.report.findings.iter().any(is_open) {
            outcome.report.summary.unbuilt = batch.folders.patching_kustomizations();
        }
        outcome.report.configurations = configurations(batch, &run.scopes);
        outcome.add_rendered(batch, &run.scopes, renders.check(batch), since);
        outcome.report.summary.render_failed = outcome.render_failed > 0;
        outcome.report.summary.since = since.map(|before| before.name.clone());
        outcome.errors.extend(done.errors);
        // A chart may give nothing with its values; a note says so.
        let is_told = renders.has_runs() || renders.notes().next().is_some();
        outcome.nothing = if is_told { None } else { outcome.empty_input_message(args, &found.ignored) };
        let report = &mut outcome.report;
        report.summary.count(&report.findings);
        report.summary.baselined = outcome.baselined.len();
        report.summary.with_unsafe = args.max_safety() == Safety::Unsafe;
        if let Some(fixed) = done.fixed {
            report.summary.fixed = Some(fixed.len());
            report.fixed = fixed;
            report.unfixed = fix::unfixed_reasons(&report.findings, args.max_safety(), &done.unwritten);
        }
        report.statistics = args.statistics;
        report.next = next::steps(args, report, !run.scopes.found().is_empty());
        report.root = root_folder(args.relative_to.as_deref());
        outcome.report.failures = outcome.failures();
        outcome.report.exit_code = outcome.exit_code();
        outcome
    }

    /// Counts the files and objects that were read.
    fn add_files(&mut self, batch: &Batch<'_>, renders: &Renders) {
        let summary = &mut self.report.summary;
        for (at, read) in batch.reads.iter().enumerate().filter(|(at, _)| !batch.inputs[*at].is_context) {
            self.errors.extend(read.error.clone());
            let rendered = batch.covered.contains(&at);
            if !rendered {
                let is_told = renders.tells_of(&batch.inputs[at].input.absolute);
                if let Some(chart) = batch.chart_to_render(at).filter(|_| !is_told) {
                    *summary.unrendered.entry(chart).or_default() += 1;
                }
                summary.files += usize::from(read.manifest);
                summary.skipped.extend(read.skipped.iter().cloned());
            } else {
                let is_kustomization = |one: &&files::Skipped| one.reason == SkipReason::Kustomization;
                summary.skipped.extend(read.skipped.iter().filter(is_kustomization).cloned());
            }
            if let Some(file) = &read.file {
                summary.objects += if rendered { 0 } else { file.objects.len() };
                let charts = file.objects.iter().flat_map(charts_with_accelerators);
                summary.charts.extend(charts.map(str::to_owned));
                self.unparsable += file.documents.iter().filter(|d| d.tree.is_none()).count();
            }
        }
        summary.files += renders.files();
        summary.objects += renders.objects();
        summary.skipped.extend(renders.skipped().cloned());
        summary.skipped.sort();
        let here = files::absolute(Path::new("."));
        let inputs = batch.inputs.iter().map(|one| &one.input);
        self.report.paths = inputs
            // The path is not UTF-8, or is relative to another folder.
            .filter(|input| here.join(&input.display_path) != input.absolute)
            .map(|input| (input.display_path.clone(), input.absolute.clone()))
            .collect();
    }

    fn add_reports(&mut self, batch: &Batch<'_>, reports: Vec<Option<CheckReport>>, since: Option<&Before>) {
        // There may be hundreds of thousands of findings: a growing list would be copied, and have unused
        // capacity.
        let count: usize = reports.iter().flatten().map(|report| report.findings.len()).sum();
        let all = &mut self.report;
        for (at, report) in reports.into_iter().enumerate() {
            let Some(mut report) = report else { continue };
            let settings = batch.engine(at).settings();
            let from = settings.fail_on;
            if let Some(before) = since {
                let mut new = before.are_new(report.findings.iter()).into_iter();
                let all_findings = report.findings.len();
                report.findings.retain(|_| new.next().unwrap_or(true));
                all.summary.known += all_findings - report.findings.len();
            }
            self.failed |= from.is_some_and(|from| report.findings.iter().any(|f| f.severity >= from));
            report.findings.retain(|finding| all.summary.reports(finding, settings.min_severity));
            if !report.findings.is_empty() {
                all.fail_on.insert(batch.inputs[at].input.display_path.clone(), from);
            }
            all.summary.suppressed += report.suppressed;
            let scope = batch.inputs[at].scope;
            self.baselined.extend(report.baselined.into_iter().map(|name| (scope, name)));
            all.suppressed.extend(report.kept);
            if report.findings.len() == count {
                all.findings = report.findings;
            } else {
                all.findings.reserve_exact(count - all.findings.len());
                all.findings.extend(report.findings);
            }
        }
    }

    /// Adds the findings in rendered objects.
    fn add_rendered(
        &mut self,
        batch: &Batch<'_>,
        scopes: &Scopes,
        rendered: RenderReport,
        since: Option<&Before>,
    ) {
        let all = &mut self.report;
        all.summary.suppressed += rendered.suppressed;
        all.suppressed.extend(rendered.kept);
        self.baselined.extend(rendered.baselined);
        let is_sorted = rendered.findings.is_empty();
        let new = since.map(|before| before.are_new(rendered.findings.iter().map(|(_, finding)| finding)));
        let mut new = new.into_iter().flatten();
        for (scope, finding) in rendered.findings {
            if new.next() == Some(false) {
                all.summary.known += 1;
                continue;
            }
            let settings = batch.engines[scope].settings();
            let from = settings.fail_on;
            self.failed |= from.is_some_and(|from| finding.severity >= from);
            self.render_failed += usize::from(finding.rule.id == "render-failed");
            if !all.summary.reports(&finding, settings.min_severity) {
                continue;
            }
            let path = finding.location.path().unwrap_or_default();
            all.fail_on.insert(path.to_owned(), from);
            let name = &scopes.get(scope).name;
            if finding.location.path().is_some() && !name.is_empty() {
                all.configurations.entry(path.to_owned()).or_insert_with(|| name.clone());
            }
            all.findings.push(finding);
        }
        if !is_sorted {
            sort(&mut all.findings);
        }
    }

    pub(super) fn summary(&self) -> String {
        summary_line(&self.report.summary)
    }

    /// Whether there was nothing to check.
    fn is_empty(&self) -> bool {
        self.report.summary.objects == 0
            && self.unparsable == 0
            && self.report.findings.is_empty()
            && self.report.summary.known == 0
            && self.baselined.is_empty()
    }

    /// The exit code: 0 without a finding that fails the run, 1 with findings, 2 if the run failed.
    fn exit_code(&self) -> u8 {
        if self.report.failures.is_empty() { u8::from(self.failed) } else { 2 }
    }

    /// Whether the text ends in a summary: "no findings" would contradict an error that says why nothing was checked.
    pub(super) fn has_summary(&self, args: &CheckArgs) -> bool {
        let has_error = self.is_empty() && (!self.errors.is_empty() || self.nothing.is_some());
        !args.quiet && !has_error
    }

    /// The reasons for exit code 2, if it applies.
    fn failures(&self) -> Vec<String> {
        let mut failures = self.errors.clone();
        failures.extend(self.nothing.clone());
        if self.render_failed > 0 {
            let renders = count(self.render_failed, "render");
            failures.push(format!("{renders} failed: see the findings of render-failed"));
        }
        failures
    }

    /// The message if the input contains no object. `ignored` has the number of files that each configuration
    /// ignores.
    fn empty_input_message(&self, args: &CheckArgs, ignored: &BTreeMap<String, usize>) -> Option<String> {
        // The report ends in what a folder has that was not read, and what would read it.
        let summary = &self.report.summary;
        let has_unread = args.paths.iter().any(|path| path.is_dir())
            && (!summary.unread.is_empty() || !summary.unrendered.is_empty());
        if args.allow_empty || has_unread || !self.is_empty() || !self.errors.is_empty() {
            return None;
        }
        let mut reasons: Vec<String> = Vec::new();
        for (config, files) in ignored {
            reasons.push(format!("{} ignored by `ignore` of {config}", count(*files, "file")));
        }
        let hidden = files::count_hidden(&args.paths);
        if hidden > 0 {
            reasons.push(format!("{} ignored by .gitignore and the like", count(hidden, "file")));
        }
        let skipped = &self.report.summary.skipped;
        let is_told = |reason| !matches!(reason, SkipReason::Ignored | SkipReason::Config);
        let others = skipped.iter().filter(|skipped| is_told(skipped.reason));
        match others.collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => reasons.push(format!("{}: {}", one.file, told(one.reason))),
            all @ [first, ..] if all.iter().all(|s| s.reason == first.reason) => {
                reasons.push(format!("{} skipped, all {}", all.len(), told(first.reason)));
            }
            more => reasons.push(format!("{} skipped: --verbose lists them", more.len())),
        }
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        Some(format!("no Kubernetes object found{reasons}; --allow-empty makes this a success"))
    }
}

/// The name of a reason, with what reads such files, or else with what they are.
fn told(reason: SkipReason) -> String {
    format!("{}, {}", reason.name(), reason.remedy().unwrap_or(reason.description()))
}

/// The configuration of each file that has one, by the reported path of the file.
fn configurations(batch: &Batch<'_>, scopes: &Scopes) -> HashMap<String, String> {
    let inputs = batch.inputs.iter().map(|one| (&one.input.display_path, &scopes.get(one.scope).name));
    let configured = inputs.filter(|(_, name)| !name.is_empty());
    configured.map(|(path, name)| (path.clone(), name.clone())).collect()
}
