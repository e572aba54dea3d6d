//! `gpulint check` in five stages: it selects files and configurations, reads the files, renders charts and
//! kustomizations, checks objects, and presents the findings. Each stage is a function of the result of the
//! previous one.

mod baseline;
mod context;
mod dead;
mod fix;
mod next;
mod outcome;
mod pools;
mod preview;
mod run;
mod since;
mod suppressions;
mod timings;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use gpulint_rules::CheckReport;

use crate::args::{CheckArgs, Color, Format, Style};
use crate::batch::{Batch, ScopedInput, Selection};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, CONFIGURATIONS, Disk, FoundFiles};
use crate::output::{self, Destination};
use crate::render::Renders;
use crate::report::{
    Diff, Layout, environment_note, taken_versions, unread_lines, write_sets, write_verbose,
};
use crate::states::States;
use crate::terminal::{self, count, print_error, print_note};

use outcome::Outcome;
use preview::Before;
use run::{Done, Rendered, Run};

struct Selected {
    inputs: Vec<ScopedInput>,
    found: FoundFiles,
    context: context::Origin,
}

struct Read<'r> {
    batch: Batch<'r>,
    found: FoundFiles,
    /// The names of the sets that the context belongs to.
    claimed: Vec<String>,
}

struct Checked<'r> {
    batch: Batch<'r>,
    renders: Renders,
    outcome: Outcome,
    diff: Option<Diff>,
}

/// Checks files and folders, and fixes them if requested.
pub(crate) fn run(args: &CheckArgs, color: Color) -> Result<ExitCode, CliError> {
    validate(args)?;
    if let Some(threads) = args.threads {
        // Fails only if the thread pool has already been created, which is not the case.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
    }
    let mut states = args.since.is_some().then(States::begin);
    let (run, selected) = select(args, color)?;
    let disk = states.as_ref().map_or_else(Disk::default, |states| states.disk(&Disk::default()));
    let read = read(&run, selected, &disk)?;
    if args.show_sets {
        return show_sets(&read.batch, args);
    }
    let rendered = render(&run, read)?;
    // A file that cannot be written is an error before anything is fixed.
    let files = formats(args).iter().map(|format| format.file.as_deref().map(Destination::open).transpose());
    let files = files.collect::<Result<Vec<_>, CliError>>()?;
    let checked = check(&run, rendered, states.as_mut())?;
    present(&run, &checked, files)
}

/// Finds the files, and the configuration of each.
fn select(args: &CheckArgs, color: Color) -> Result<(Run<'_>, Selected), CliError> {
    let scopes = Scopes::for_check(args)?;
    let found = files::find(&args.paths, &args.stdin_filename);
    let streams = found.inputs.iter().filter(|input| input.stream.is_some()).count();
    if streams > 1 && Action::of(args) == Action::Fix {
        return Err(CliError::Usage(
            "--fix writes the fixed text of a pipe to standard output, which has room for one pipe"
                .to_owned(),
        ));
    }
    let mut selection = Selection::of(scopes, found, args.no_default_ignore);
    let context = context::add(args, &mut selection);
    if let Some(folder) = &args.relative_to {
        report_relative_to(folder, &mut selection.inputs, &mut selection.found)?;
    }
    let mut engines = selection.engines()?;
    if args.timings {
        engines = engines.iter().map(timings::record).collect();
    }
    let Selection { mut scopes, found, inputs } = selection;
    let platform = args.formats.iter().any(|format| format.style.has_pools()).then(|| {
        let here = scopes.scope_of(&files::absolute(Path::new(CONFIGURATIONS[0])), &found.directories);
        scopes.get(here).settings.platform.clone()
    });
    let run = Run { args, color, scopes, engines, before: OnceLock::new(), platform };
    run.scopes.notes().into_iter().for_each(|note| run.note(note));
    Ok((run, Selected { inputs, found, context }))
}

/// Reads the files, and determines their sets.
fn read<'r>(run: &'r Run<'_>, selected: Selected, disk: &Disk) -> Result<Read<'r>, CliError> {
    let Selected { inputs, mut found, context } = selected;
    let mut batch = Batch::read(inputs, &mut found, disk, &run.engines, !run.args.quiet);
    batch.baselines = baseline::load(run.args, &run.scopes)?;
    let mut claimed = Vec::new();
    match context {
        context::Origin::Found => claimed = batch.retain_claimed_context(),
        context::Origin::Given => found.errors.extend(batch.context_errors()),
        context::Origin::None => {}
    }
    dead::clusters(run, &batch).iter().for_each(|note| run.note(note));
    found.errors.extend(dead::charts(run));
    Ok(Read { batch, found, claimed })
}

fn render<'r>(run: &'r Run<'_>, read: Read<'r>) -> Result<Rendered<'r>, CliError> {
    let Read { mut batch, found, claimed } = read;
    if let Some(note) = environment_note(&batch) {
        run.note(&note);
    }
    let renders = {
        let _progress = run.progress("rendering charts and kustomizations");
        run.render(&mut batch, &found)
    };
    renders.notes().for_each(|note| run.note(note));
    context::say(run.args, &batch, claimed, renders.context());
    if run.args.verbose {
        let skipped = found.skipped.iter().chain(renders.skipped());
        write_verbose(&batch, &run.scopes, &renders, skipped, &found.ignored)?;
    }
    Ok(Rendered { batch, found, renders })
}

/// Runs the rules, and performs the requested action on the findings. With `states`, the checked one is the first of two.
fn check<'r>(
    run: &'r Run<'_>,
    mut rendered: Rendered<'r>,
    mut states: Option<&mut States>,
) -> Result<Checked<'r>, CliError> {
    let action = Action::of(run.args);
    let reports = {
        let checking = format!("checking {}", count(rendered.batch.inputs.len(), "file"));
        let _progress = run.progress(&checking);
        match &mut states {
            Some(states) => states.check(&rendered.batch),
            None => rendered.batch.check(None),
        }
    };
    let mut done = action.perform(run, &mut rendered, reports)?;
    let diff = done.diff.take();
    let Rendered { mut batch, found, renders } = rendered;
    let since = match run.args.since.as_ref().zip(states) {
        Some((since, states)) => {
            let _progress = run.progress("judging what was there before");
            Some(since::Before::of(run.args, since, &batch, states)?)
        }
        None => None,
    };
    let mut outcome = Outcome::new(run, &batch, &renders, found, done, since.as_ref());
    if !matches!(action, Action::Diff | Action::AddSuppressions(_)) {
        let before = run.before.get_or_init(|| Before::of(&run.scopes, &batch)).as_ref();
        let findings = &outcome.report.findings;
        outcome.report.preview = before.map(|before| before.compare(&mut batch, &renders, findings));
    }
    if run.args.formats.iter().any(|format| format.style == Style::Json) {
        outcome.report.versions = taken_versions(&batch);
        let commands = renders.commands().map(|(command, values)| (command.to_owned(), values.to_vec()));
        outcome.report.renders = commands.collect();
    }
    outcome.report.pools = run.platform.as_ref().map(|platform| pools::of_run(&batch, platform));
    Ok(Checked { batch, renders, outcome, diff })
}

/// Prints the report and the notes.
fn present(
    run: &Run<'_>,
    checked: &Checked<'_>,
    files: Vec<Option<Destination>>,
) -> Result<ExitCode, CliError> {
    let Checked { batch, renders, outcome, diff } = checked;
    let args = run.args;
    // The fixed text of a stream, or a diff, replaces the report.
    let stream = batch.stream().filter(|_| Action::of(args) == Action::Fix);
    if let Some(diff) = diff {
        let color = terminal::RenderOptions::for_stdout(run.color).color;
        output::to_stdout(|out| diff.write(out, color))?;
    }
    if let Some(text) = stream {
        output::to_stdout(|out| Ok(out.write_all(text)?))?;
    }
    if diff.is_none() || !args.formats.is_empty() {
        write(run, outcome, files, diff.is_none() && stream.is_none())?;
    }
    // A report on standard error is not mixed with other text.
    if let Some(diff) = diff
        && outcome.has_summary(args)
        && args.formats.iter().all(|format| format.file.is_some())
    {
        let later = match diff.later {
            0 => String::new(),
            later => format!(", and up to {later} more once these are"),
        };
        print_note(&format!("{} would be fixed{later}: {}", diff.count, outcome.summary()));
    }
    outcome.errors.iter().for_each(|error| print_error(error));
    baseline::finish(&outcome.baselined, args, batch, renders)?;
    if let Some(nothing) = &outcome.nothing {
        print_error(nothing);
        unread_lines(&outcome.report.summary).iter().for_each(|line| print_note(line));
    }
    if args.timings {
        timings::print(&run.engines);
    }
    Ok(ExitCode::from(outcome.report.exit_code))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action<'a> {
    Report,
    WriteBaseline(&'a Path),
    /// Comments suppress the findings, with this reason.
    AddSuppressions(Option<&'a str>),
    /// The changes that fixes would make are shown.
    Diff,
    Fix,
}

impl<'a> Action<'a> {
    fn of(args: &'a CheckArgs) -> Action<'a> {
        match &args.write_baseline {
            Some(path) => Action::WriteBaseline(path),
            None if args.add_suppressions => Action::AddSuppressions(args.reason.as_deref()),
            None if args.diff => Action::Diff,
            None if args.fix => Action::Fix,
            None => Action::Report,
        }
    }

    fn perform(
        self,
        run: &Run<'_>,
        rendered: &mut Rendered<'_>,
        mut reports: Vec<Option<CheckReport>>,
    ) -> Result<Done, CliError> {
        match self {
            Action::Report => {}
            Action::WriteBaseline(path) => baseline::write(path, run.args, rendered, &mut reports)?,
            Action::AddSuppressions(reason) => return suppressions::add(run, rendered, reports, reason),
            Action::Diff => return Ok(fix::diff(run, rendered, reports)),
            Action::Fix => return Ok(fix::apply(run, rendered, reports)),
        }
        Ok(Done { reports, ..Done::default() })
    }
}

/// Rejects combinations of arguments that are invalid.
fn validate(args: &CheckArgs) -> Result<(), CliError> {
    for (at, format) in args.formats.iter().enumerate() {
        if args.formats[..at].iter().any(|f| f.file == format.file) {
            let place = match &format.file {
                Some(file) => file.display().to_string(),
                None => "standard output".to_owned(),
            };
            return Err(CliError::Usage(format!(
                "two formats for {place}; write one of them as --format FORMAT=FILE"
            )));
        }
    }
    if args.statistics && args.formats.iter().any(|format| !format.style.has_statistics()) {
        return Err(CliError::Usage("--statistics needs the format text, concise or json".to_owned()));
    }
    Ok(())
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
        one.input.display_path = files::relative(&folder, &one.input.absolute);
    }
    for skipped in found.skipped.iter_mut().filter(|skipped| is_path(&skipped.file)) {
        skipped.file = files::relative(&folder, &files::absolute(Path::new(&skipped.file)));
    }
    inputs.sort_by(|a, b| {
        let key = |one: &'_ ScopedInput| (one.is_context, one.input.display_path.clone());
        key(a).cmp(&key(b))
    });
    Ok(())
}

fn show_sets(batch: &Batch<'_>, args: &CheckArgs) -> Result<ExitCode, CliError> {
    for format in formats(args) {
        let print = |out: &mut dyn Write| write_sets(out, format.style, batch);
        match &format.file {
            Some(path) => output::to_file(path, print)?,
            None => output::to_stdout(print)?,
        }
    }
    let errors: Vec<&String> = batch.reads.iter().filter_map(|read| read.error.as_ref()).collect();
    errors.iter().for_each(|error| print_error(error));
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Writes the report in each format, to its file. A format without a file is written to standard output, if that is free.
fn write(
    run: &Run<'_>,
    outcome: &Outcome,
    files: Vec<Option<Destination>>,
    stdout_is_free: bool,
) -> Result<(), CliError> {
    for (format, file) in formats(run.args).iter().zip(files) {
        let is_stdout = file.is_none() && stdout_is_free;
        let summary = outcome.has_summary(run.args);
        let layout = Layout { summary, ..Layout::of(run.args, run.color, is_stdout) };
        let print = |out: &mut dyn Write| format.style.write(out, &outcome.report, &layout);
        match file {
            Some(file) => file.write(print)?,
            None if is_stdout => output::to_stdout(print)?,
            None => output::to_stderr(print)?,
        }
    }
    Ok(())
}

fn formats(args: &CheckArgs) -> &[Format] {
    const DEFAULT: &[Format] = &[Format { style: Style::Text, file: None }];
    if args.formats.is_empty() { DEFAULT } else { &args.formats }
}
