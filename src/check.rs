//! `gpulint check`: finds, reads and checks files, and reports the findings.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gpulint_rules::lint::report::sort;
use gpulint_rules::{CheckReport, Engine, Finding, Platform, Safety};

use crate::args::{CheckArgs, Color, Format, Style};
use crate::baseline;
use crate::batch::{Batch, ScopedInput, scope};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files;
use crate::files::{FoundFiles, SkipReason};
use crate::preview::Before;
use crate::progress::Progress;
use crate::render::{RenderOptions, Renders};
use crate::report;
use crate::report::layout::Layout;
use crate::report::paint::Paint;
use crate::report::{Outcome, Report, Summary};
use crate::terminal;
use crate::terminal::{print_error, print_note};
use crate::{context, fix, output, pools, suppressions};

/// Checks files and folders, and fixes them if requested.
pub(crate) fn run(args: &CheckArgs, color: Color) -> Result<ExitCode, CliError> {
    reject_shared_destinations(&args.formats)?;
    if args.statistics && args.formats.iter().any(|format| !has_statistics(format.style)) {
        return Err(CliError::Usage("--statistics needs the format text, concise or json".to_owned()));
    }
    if let Some(threads) = args.threads {
        // Fails only if the thread pool has already been created, which is not the case.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        let _ = pool.build_global();
    }
    let mut scopes = Scopes::for_check(args)?;
    let mut found = files::find(&args.paths, &args.stdin_filename);
    let streams = found.inputs.iter().filter(|input| input.stream.is_some()).count();
    if streams > 1 && !args.diff && requested_safety(args).is_some() {
        return Err(CliError::Usage(
            "--fix writes the fixed text of a pipe to standard output, which has room for one pipe"
                .to_owned(),
        ));
    }
    let mut inputs = scope(&mut found, &mut scopes, args.no_default_ignore);
    let context = context::add(args, &mut inputs, &mut found, &mut scopes);
    if let Some(folder) = &args.relative_to {
        report_relative_to(folder, &mut inputs, &mut found)?;
    }
    let engines: Vec<Engine> =
        scopes.finish()?.iter().map(|scope| Engine::new(scope.settings.clone())).collect();
    let before = Before::of(&scopes);
    let platform = args.formats.iter().any(|format| format.style == Style::Html).then(|| {
        let here = scopes.scope_of(&files::absolute(Path::new("gpulint.yaml")), &found.directories);
        scopes.get(here).settings.platform.clone()
    });
    if !args.quiet {
        for note in scopes.notes() {
            print_note(&format!("note: {note}"));
        }
    }
    let mut set = Batch::read(inputs, std::mem::take(&mut found.directories), &engines, !args.quiet);
    set.baselines = baseline::load(args, &scopes)?;
    let mut claimed = Vec::new();
    match context {
        context::Origin::Found => claimed = set.retain_claimed_context(),
        context::Origin::Given => found.errors.extend(set.context_errors()),
        context::Origin::None => {}
    }
    if !args.quiet {
        for place in empty_clusters(&set, &scopes, args) {
            print_note(&format!("note: {place}: no file belongs to this cluster"));
        }
    }
    if args.show_sets {
        return show_sets(&set, args);
    }
    if !args.quiet
        && let Some(note) = report::sets::environment_note(&set)
    {
        print_note(&format!("note: {note}"));
    }
    let rendering = RenderOptions { excluded: &found.excluded, ..rendering_of(args) };
    let mut renders = {
        let _progress = Progress::waiting("rendering charts and kustomizations", !args.quiet);
        Renders::of(&set, &scopes, &rendering)
    };
    set.covered = renders.covered(&set);
    context::say(args, &set, claimed, renders.context());
    if args.verbose {
        let skipped = found.skipped.iter().chain(renders.skipped());
        report::verbose::write(&set, &scopes, skipped, &found.ignored)?;
    }
    let checking = format!("checking {}", report::total::count(set.inputs.len(), "file"));
    let mut reports = {
        let _progress = Progress::waiting(&checking, !args.quiet);
        set.check(None)
    };
    if let Some(path) = &args.write_baseline {
        baseline::write(path, args, &mut set, &renders, &mut reports)?;
    }
    let checked = match requested_safety(args) {
        None if args.add_suppressions => {
            let again = |set: &Batch<'_>| {
                Renders::of(set, &scopes, &RenderOptions { excluded: &found.excluded, ..rendering_of(args) })
            };
            let added = suppressions::add(&mut set, &mut renders, reports, args.reason.as_deref(), &again)?;
            if !args.quiet {
                added.notes().iter().for_each(|note| print_note(note));
            }
            let mut checked = CheckOutcome::new(&set, &scopes, &renders, added.reports, found);
            checked.errors.extend(added.errors);
            checked.add_pools(platform.as_ref(), &set);
            write(&mut checked, args, color, Output::Stdout)?;
            checked
        }
        None => {
            let mut checked = CheckOutcome::new(&set, &scopes, &renders, reports, found);
            checked.preview(before.as_ref(), &mut set, &renders);
            checked.add_pools(platform.as_ref(), &set);
            write(&mut checked, args, color, Output::Stdout)?;
            checked
        }
        Some(most) if args.diff => {
            let plans = fix::plan_round(&reports, most);
            let mut checked = CheckOutcome::new(&set, &scopes, &renders, reports, found);
            checked.report.summary.with_unsafe = args.unsafe_fixes;
            checked.add_pools(platform.as_ref(), &set);
            let fixed = fix::run(&mut set, plans, most);
            let planned = fix::plan_rendered(&renders.check(&set).findings, most);
            let paint = Paint { color: terminal::RenderOptions::for_stdout(color).color, links: false };
            output::to_stdout(|out| {
                fixed.diff(&set, out, paint)?;
                planned.iter().try_for_each(|(source, edit)| {
                    fix::write_diff(out, source.path(), source.text(), &edit.text, paint)
                })
            })?;
            let count = fixed.log.count() + planned.iter().map(|(_, edit)| edit.fixes.len()).sum::<usize>();
            if !args.formats.is_empty() {
                write(&mut checked, args, color, Output::Stderr)?;
            }
            // A report on standard error is not mixed with other text.
            if checked.has_summary(args) && args.formats.iter().all(|format| format.file.is_some()) {
                print_note(&format!("{count} would be fixed: {}", checked.summary()));
            }
            checked
        }
        Some(most) => {
            let again = |set: &Batch<'_>, found: &FoundFiles| {
                Renders::of(set, &scopes, &RenderOptions { excluded: &found.excluded, ..rendering_of(args) })
            };
            let mut checked = {
                let _progress = Progress::waiting("fixing", !args.quiet);
                apply_fixes(&mut set, &scopes, &mut renders, reports, found, most, &again)
            };
            checked.preview(before.as_ref(), &mut set, &renders);
            checked.add_pools(platform.as_ref(), &set);
            let stream = set.stream();
            if let Some(text) = stream {
                output::to_stdout(|out| Ok(out.write_all(text)?))?;
            }
            let output = stream.map_or(Output::Stdout, |_| Output::Stderr);
            write(&mut checked, args, color, output)?;
            checked
        }
    };
    for error in &checked.errors {
        print_error(error);
    }
    baseline::finish(&set.baselines, &checked.baselined, args, &set, &renders)?;
    let code = match checked.empty_input_message(args) {
        Some(nothing) => {
            print_error(&nothing);
            if let Some(line) = report::total::unrendered_line(&checked.report.summary) {
                print_note(&line);
            }
            2
        }
        None => checked.exit_code(args),
    };
    // The process ends, by which all memory goes at once.
    std::mem::forget((set, checked));
    Ok(ExitCode::from(code))
}

/// Prints what is applied together.
fn show_sets(set: &Batch<'_>, args: &CheckArgs) -> Result<ExitCode, CliError> {
    let default = [Format { style: Style::Text, file: None }];
    let formats = if args.formats.is_empty() { &default[..] } else { &args.formats };
    for format in formats {
        let print = |out: &mut dyn Write| match format.style {
            Style::Json => report::sets::json(out, set),
            Style::Text | Style::Concise => report::sets::text(out, set),
            other => Err(CliError::Usage(format!(
                "--show-sets has no format `{}`; use text or json",
                other.name()
            ))),
        };
        match &format.file {
            Some(path) => output::to_file(path, print)?,
            None => output::to_stdout(print)?,
        }
    }
    let errors: Vec<&String> = set.reads.iter().filter_map(|read| read.error.as_ref()).collect();
    errors.iter().for_each(|error| print_error(error));
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Where configurations name clusters without files, if all files below the configuration are in the input.
fn empty_clusters<'b>(set: &'b Batch<'_>, scopes: &Scopes, args: &CheckArgs) -> Vec<&'b str> {
    let given: Vec<_> = args.paths.iter().map(|path| files::absolute(path)).collect();
    let is_whole = |folder: &std::path::Path| given.iter().any(|given| folder.starts_with(given));
    let scopes = scopes.all().iter().enumerate();
    let whole = scopes.filter(|(_, scope)| scope.folder.as_deref().is_some_and(is_whole));
    whole.flat_map(|(number, _)| set.empty_clusters(number)).collect()
}

/// What the command line says of rendering.
fn rendering_of(args: &CheckArgs) -> RenderOptions<'static> {
    let limit = Duration::from_secs(args.render_limit);
    RenderOptions { requested: args.render, limit, excluded: &[], is_alone: args.no_context }
}

/// The highest safety of the fixes to apply, or to show as a diff. `None` if neither was requested.
fn requested_safety(args: &CheckArgs) -> Option<Safety> {
    let most = if args.unsafe_fixes { Safety::Unsafe } else { Safety::Safe };
    (args.fix || args.diff).then_some(most)
}

/// Whether a format can have the counts alone.
fn has_statistics(style: Style) -> bool {
    matches!(style, Style::Text | Style::Concise | Style::Json)
}

/// Reports the paths of files relative to a folder, and sorts the files by them.
fn report_relative_to(
    folder: &Path,
    inputs: &mut [ScopedInput],
    found: &mut FoundFiles,
) -> Result<(), CliError> {
    if !folder.is_dir() {
        return Err(CliError::Usage(format!("--relative-to {}: not a folder", folder.display())));
    }
    let folder = files::absolute(folder);
    let is_path = |shown: &str| !shown.starts_with('<');
    for one in inputs.iter_mut().filter(|one| is_path(&one.input.display_path)) {
        one.input.display_path = files::relative_path(&folder, &one.input.absolute);
    }
    for skipped in found.skipped.iter_mut().filter(|skipped| is_path(&skipped.file)) {
        skipped.file = files::relative_path(&folder, &files::absolute(Path::new(&skipped.file)));
    }
    inputs.sort_by(|a, b| {
        let key = |one: &'_ ScopedInput| (one.is_context, one.input.display_path.clone());
        key(a).cmp(&key(b))
    });
    Ok(())
}

/// Fixes the files, and reports the remaining findings of all inputs.
fn apply_fixes(
    set: &mut Batch<'_>,
    scopes: &Scopes,
    renders: &mut Renders,
    reports: Vec<Option<CheckReport>>,
    found: FoundFiles,
    most: Safety,
    again: &dyn Fn(&Batch<'_>, &FoundFiles) -> Renders,
) -> CheckOutcome {
    let plans = fix::plan_round(&reports, most);
    let mut fixed = fix::run(set, plans, most);
    let mut errors = fixed.write(set);
    let mut log = fixed.log;
    for _ in 0..MAX_RENDERS {
        let planned = fix::plan_rendered(&renders.check(set).findings, most);
        if planned.is_empty() {
            break;
        }
        let mut written = Vec::new();
        for (source, edit) in planned {
            let Some(path) = renders.path_of(&source) else { continue };
            match fix::replace_file(&path, source.text(), &edit.text) {
                Ok(()) => written.push((path, source, edit)),
                Err(error) => errors.push(format!("{}: not fixed: {error}", source.path())),
            }
        }
        let rendered = again(set, &found);
        let is_sound = rendered.failures() <= renders.failures();
        for (path, source, edit) in &written {
            if is_sound {
                log.add(source.path(), edit);
                set.read_again(path, &edit.text);
            } else if let Err(error) = fix::replace_file(path, &edit.text, source.text()) {
                errors.push(format!("{}: not restored: {error}", source.path()));
            }
        }
        if !is_sound || written.is_empty() {
            break;
        }
        *renders = rendered;
    }
    let reports = if log.count() > 0 { set.check(None) } else { reports };
    let mut checked = CheckOutcome::new(set, scopes, renders, reports, found);
    checked.report.summary.fixed = Some(log.count());
    checked.report.summary.with_unsafe = most == Safety::Unsafe;
    checked.report.fixed = log.list();
    checked.report.unfixed = fix::unfixed_reasons(&checked.report.findings, most);
    checked.errors.extend(errors);
    checked
}

fn reject_shared_destinations(formats: &[Format]) -> Result<(), CliError> {
    for (at, format) in formats.iter().enumerate() {
        if formats[..at].iter().any(|f| f.file == format.file) {
            let place = match &format.file {
                Some(file) => file.display().to_string(),
                None => "standard output".to_owned(),
            };
            return Err(CliError::Usage(format!(
                "two formats for {place}; write one of them as --format FORMAT=FILE"
            )));
        }
    }
    Ok(())
}

/// After so many renders, the fixes that are left wait for the next run.
const MAX_RENDERS: usize = 16;

/// The result of a run.
struct CheckOutcome {
    report: Report,
    /// Whether there is a finding with a severity that makes the run fail.
    failed: bool,
    /// How many findings say that something could not be rendered.
    render_failed: usize,
    /// Number of documents that do not parse.
    unparsable: usize,
    /// How many files each configuration ignores.
    ignored: BTreeMap<String, usize>,
    /// Paths that could not be read, with the reason.
    errors: Vec<String>,
    /// What the baselines took away, by configuration and fingerprint.
    baselined: Vec<(usize, String)>,
}

impl CheckOutcome {
    fn new(
        set: &Batch<'_>,
        scopes: &Scopes,
        renders: &Renders,
        reports: Vec<Option<CheckReport>>,
        found: FoundFiles,
    ) -> CheckOutcome {
        let mut summary = Summary { skipped: found.skipped, ..Summary::default() };
        let mut errors = found.errors;
        let mut unparsable = 0;
        for (at, read) in set.reads.iter().enumerate().filter(|(at, _)| !set.inputs[*at].is_context) {
            errors.extend(read.error.clone());
            let rendered = set.covered.contains(&at);
            if !rendered {
                if let Some(chart) = set.chart_to_render(at) {
                    *summary.unrendered.entry(chart).or_default() += 1;
                }
                summary.files += usize::from(read.manifest);
                summary.skipped.extend(read.skipped.iter().cloned());
            }
            if let Some(file) = &read.file {
                summary.objects += if rendered { 0 } else { file.objects.len() };
                unparsable += file.documents.iter().filter(|d| d.tree.is_none()).count();
            }
        }
        summary.files += renders.files();
        summary.objects += renders.objects();
        summary.skipped.extend(renders.skipped().iter().cloned());
        summary.skipped.sort();
        let rendered = renders.check(set);
        // There may be hundreds of thousands of findings: a growing list would be copied, and have unused
        // capacity.
        let count: usize = reports.iter().flatten().map(|report| report.findings.len()).sum();
        let mut findings: Vec<Finding> = Vec::new();
        let mut failed = false;
        let mut baselined = rendered.baselined;
        let mut fail_on = BTreeMap::new();
        let mut suppressed = Vec::new();
        for (at, report) in reports.into_iter().enumerate() {
            let Some(report) = report else { continue };
            let from = set.engine(at).settings().fail_on;
            failed |= from.is_some_and(|from| report.findings.iter().any(|f| f.severity >= from));
            if !report.findings.is_empty() {
                fail_on.insert(set.inputs[at].input.display_path.clone(), from);
            }
            summary.suppressed += report.suppressed;
            let scope = set.inputs[at].scope;
            baselined.extend(report.baselined.into_iter().map(|name| (scope, name)));
            suppressed.extend(report.kept);
            if report.findings.len() == count {
                findings = report.findings;
            } else {
                findings.reserve_exact(count - findings.len());
                findings.extend(report.findings);
            }
        }
        summary.suppressed += rendered.suppressed;
        suppressed.extend(rendered.kept);
        let mut render_failed = 0;
        let mut configurations = configurations(set, scopes);
        let has_rendered = !rendered.findings.is_empty();
        for (scope, finding) in rendered.findings {
            let from = set.engines[scope].settings().fail_on;
            failed |= from.is_some_and(|from| finding.severity >= from);
            fail_on.insert(finding.location.path().unwrap_or_default().to_owned(), from);
            render_failed += usize::from(finding.rule.id == "render-failed");
            let name = &scopes.get(scope).name;
            if let Some(path) = finding.location.path().filter(|_| !name.is_empty()) {
                configurations.entry(path.to_owned()).or_insert_with(|| name.clone());
            }
            findings.push(finding);
        }
        if has_rendered {
            sort(&mut findings);
        }
        summary.count(&findings);
        let inputs = set.inputs.iter().map(|one| &one.input);
        let here = files::absolute(Path::new("."));
        let paths = inputs
            // A path that is not UTF-8, or relative to another folder.
            .filter(|input| here.join(&input.display_path) != input.absolute)
            .map(|input| (input.display_path.clone(), input.absolute.clone()))
            .collect();
        summary.baselined = baselined.len();
        CheckOutcome {
            report: Report {
                summary,
                findings,
                unfixed: BTreeMap::new(),
                preview: None,
                suppressed,
                fail_on,
                paths,
                pools: None,
                fixed: Vec::new(),
                failures: Vec::new(),
                configurations,
                statistics: false,
            },
            failed,
            render_failed,
            unparsable,
            ignored: found.ignored,
            errors,
            baselined,
        }
    }

    /// Adds what the versions of the command line change.
    fn preview<'e>(&mut self, before: Option<&'e Before>, set: &mut Batch<'e>, renders: &Renders) {
        self.report.preview = before.map(|before| before.compare(set, renders, &self.report.findings));
    }

    /// Adds what the NodePools admit, if a format shows it.
    fn add_pools(&mut self, platform: Option<&Platform>, set: &Batch<'_>) {
        self.report.pools = platform.map(|platform| pools::of_run(set, platform));
    }

    fn summary(&self) -> String {
        report::total::summary_line(&self.report.summary)
    }

    /// Whether nothing was there to be checked.
    fn is_empty(&self) -> bool {
        self.report.summary.objects == 0
            && self.unparsable == 0
            && self.report.findings.is_empty()
            && self.baselined.is_empty()
    }

    /// 0 nothing that fails the run, 1 findings, 2 the work could not be done.
    fn exit_code(&self, args: &CheckArgs) -> u8 {
        let is_complete = self.errors.is_empty() && self.render_failed == 0;
        match (is_complete && self.empty_input_message(args).is_none(), self.failed) {
            (false, _) => 2,
            (true, failed) => u8::from(failed),
        }
    }

    /// What programs learn of the run beside its findings.
    fn outcome(&self, args: &CheckArgs) -> Outcome {
        Outcome {
            problems: self.failures(args),
            exit_code: self.exit_code(args),
            root: report::Root::new(args.relative_to.as_deref()),
        }
    }

    /// Whether the text ends in a summary: "no findings" would contradict an error that says why nothing was checked.
    fn has_summary(&self, args: &CheckArgs) -> bool {
        let has_error = self.is_empty() && (!self.errors.is_empty() || !args.allow_empty);
        !args.quiet && !has_error
    }

    /// Why the exit code is 2, if it is.
    fn failures(&self, args: &CheckArgs) -> Vec<String> {
        let mut failures = self.errors.clone();
        failures.extend(self.empty_input_message(args));
        if self.render_failed > 0 {
            let renders = report::total::count(self.render_failed, "render");
            failures.push(format!("{renders} failed: see the findings of render-failed"));
        }
        failures
    }

    /// The message if the input contains no object.
    fn empty_input_message(&self, args: &CheckArgs) -> Option<String> {
        if args.allow_empty || !self.is_empty() || !self.errors.is_empty() {
            return None;
        }
        let summary = &self.report.summary;
        let mut reasons: Vec<String> = Vec::new();
        for (config, files) in &self.ignored {
            let files = report::total::count(*files, "file");
            reasons.push(format!("{files} ignored by `ignore` of {config}"));
        }
        let hidden = files::count_hidden(&args.paths);
        if hidden > 0 {
            reasons
                .push(format!("{} ignored by .gitignore and the like", report::total::count(hidden, "file")));
        }
        let others = summary.skipped.iter().filter(|s| s.reason != SkipReason::Ignored);
        match others.collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => reasons.push(format!("{}: {}", one.file, one.reason.name())),
            all @ [first, ..] if all.iter().all(|s| s.reason == first.reason) => {
                reasons.push(format!("{} skipped, all {}", all.len(), first.reason.name()));
            }
            more => reasons.push(format!("{} skipped: --verbose lists them", more.len())),
        }
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        Some(format!("no Kubernetes object found{reasons}; --allow-empty makes this a success"))
    }
}

/// The configuration of each file that has one, by their reported paths.
fn configurations(set: &Batch<'_>, scopes: &Scopes) -> HashMap<String, String> {
    let inputs = set.inputs.iter().map(|one| (&one.input.display_path, &scopes.get(one.scope).name));
    let configured = inputs.filter(|(_, name)| !name.is_empty());
    configured.map(|(path, name)| (path.clone(), name.clone())).collect()
}

/// The destination of reports that are not written to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    /// Standard output receives the fixed text or a diff.
    Stderr,
}

fn write(checked: &mut CheckOutcome, args: &CheckArgs, color: Color, output: Output) -> Result<(), CliError> {
    checked.report.failures = checked.failures(args);
    checked.report.statistics = args.statistics;
    checked.report.summary.with_unsafe = args.unsafe_fixes;
    let report = &checked.report;
    let outcome = checked.outcome(args);
    let default = [Format { style: Style::Text, file: None }];
    let formats = if args.formats.is_empty() { &default[..] } else { &args.formats };
    for format in formats {
        let is_stdout = format.file.is_none() && output == Output::Stdout;
        let layout = Layout { summary: checked.has_summary(args), ..Layout::of(args, color, is_stdout) };
        let print = |out: &mut dyn Write| match format.style {
            Style::Text => report::text::write(out, report, &layout),
            Style::Concise => report::concise::write(out, report, &layout),
            Style::Json => report::json::write(out, report),
            Style::Sarif => report::sarif::write(out, report, &outcome),
            Style::Github => report::github::write(out, report, &outcome),
            Style::Gitlab => report::gitlab::write(out, report, &outcome),
            Style::Junit => report::junit::write(out, report, &outcome),
            Style::Rdjson => report::rdjson::write(out, report, &outcome),
            Style::Html => report::html::write(out, report),
        };
        match (&format.file, output) {
            (Some(path), _) => output::to_file(path, print)?,
            (None, Output::Stdout) => output::to_stdout(print)?,
            (None, Output::Stderr) => output::to_stderr(print)?,
        }
    }
    Ok(())
}
