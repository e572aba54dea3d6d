//! `gpulint check`: find, read, judge, report.

use std::io::Write;
use std::process::ExitCode;

use gpulint_rules::{Engine, Finding, Judged, Safety};

use crate::args::{CheckArgs, Color, Format, Style};
use crate::config::Scopes;
use crate::failure::Failure;
use crate::files;
use crate::files::{Found, Reason, Skipped};
use crate::report;
use crate::report::{Report, Summary};
use crate::set::{Scoped, Set};
use crate::terminal::{Look, complain, say};
use crate::{fix, output};

/// Checks files and folders, and fixes them where that is asked for.
pub(crate) fn run(args: &CheckArgs, color: Color) -> Result<ExitCode, Failure> {
    one_format_a_place(&args.formats)?;
    if let Some(threads) = args.threads {
        // Fails only where the pool was made already, and it was not.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        let _ = pool.build_global();
    }
    let mut scopes = Scopes::for_check(args)?;
    let mut found = files::find(&args.paths, &args.stdin_filename);
    let inputs = scope(&mut found, &mut scopes);
    let engines: Vec<Engine> =
        scopes.finish()?.iter().map(|scope| Engine::new(scope.settings.clone())).collect();
    let mut set = Set::read(inputs, &engines, !args.quiet);
    let judged = judge(&set);
    let checked = match safety(args) {
        None => {
            let checked = Checked::new(&set, judged, found);
            write(&checked.report, args, color, Output::Stdout)?;
            checked
        }
        Some(most) if args.diff => {
            let plans = fix::plan(&judged, most);
            let checked = Checked::new(&set, judged, found);
            let fixed = fix::fix(&mut set, plans, most);
            output::to_stdout(|out| fixed.diff(&set, out))?;
            write(&checked.report, args, color, Output::Taken)?;
            if !args.quiet {
                say(&format!("{} would be fixed: {}", fixed.count(), checked.summary()));
            }
            checked
        }
        Some(most) => {
            let checked = fixed(&mut set, judged, found, most);
            let stdin = set.stdin();
            if let Some(text) = stdin {
                output::to_stdout(|out| Ok(out.write_all(text)?))?;
            }
            let output = stdin.map_or(Output::Stdout, |_| Output::Stderr);
            write(&checked.report, args, color, output)?;
            checked
        }
    };
    for error in &checked.errors {
        complain(error);
    }
    if let Some(nothing) = checked.nothing_found(args) {
        complain(&nothing);
        return Ok(ExitCode::from(2));
    }
    Ok(match (checked.errors.is_empty(), checked.failed) {
        (false, _) => ExitCode::from(2),
        (true, true) => ExitCode::from(1),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Which fixes are to be applied, if any.
fn safety(args: &CheckArgs) -> Option<Safety> {
    if args.unsafe_fixes { Some(Safety::Unsafe) } else { (args.fix || args.diff).then_some(Safety::Safe) }
}

fn judge(set: &Set<'_>) -> Vec<Option<Judged>> {
    let index = set.index();
    let judged = set.judge(&index, None);
    // The program ends soon; giving back millions of nodes one by one would take a while.
    std::mem::forget(index);
    judged
}

/// Fixes the files, and says what is left in the whole set.
fn fixed(set: &mut Set<'_>, judged: Vec<Option<Judged>>, found: Found, most: Safety) -> Checked {
    let plans = fix::plan(&judged, most);
    let mut fixed = fix::fix(set, plans, most);
    let errors = fixed.write(set);
    let count = fixed.count();
    let judged = if count > 0 { judge(set) } else { judged };
    let mut checked = Checked::new(set, judged, found);
    checked.report.summary.fixed = Some(count);
    checked.report.refused = fix::refusals(&checked.report.findings, most);
    checked.errors.extend(errors);
    checked
}

fn one_format_a_place(formats: &[Format]) -> Result<(), Failure> {
    for (at, format) in formats.iter().enumerate() {
        if formats[..at].iter().any(|f| f.file == format.file) {
            let place = match &format.file {
                Some(file) => file.display().to_string(),
                None => "standard output".to_owned(),
            };
            return Err(Failure::Usage(format!(
                "two formats for {place}; write one of them as --format FORMAT=FILE"
            )));
        }
    }
    Ok(())
}

/// Gives each input its configuration, and leaves out what that one ignores.
fn scope(found: &mut Found, scopes: &mut Scopes) -> Vec<Scoped> {
    let mut scoped = Vec::with_capacity(found.inputs.len());
    for input in std::mem::take(&mut found.inputs) {
        let scope = scopes.of(&input.absolute);
        let path = scopes.get(scope).path(&input.absolute, &input.shown);
        if !scopes.get(scope).settings.ignore_paths.matches(&path) {
            scoped.push(Scoped { input, scope, path });
        } else if input.named {
            found.skipped.push(Skipped {
                file: input.shown,
                document: None,
                reason: Reason::Ignored,
                partial: false,
            });
        }
    }
    scoped
}

/// What came of a run.
struct Checked {
    report: Report,
    /// Something at or above the severity that fails.
    failed: bool,
    /// Documents that do not parse.
    broken: usize,
    /// Why paths could not be read.
    errors: Vec<String>,
}

impl Checked {
    fn new(set: &Set<'_>, judged: Vec<Option<Judged>>, found: Found) -> Checked {
        let mut summary = Summary { skipped: found.skipped, ..Summary::default() };
        let mut errors = found.errors;
        let mut broken = 0;
        for read in &set.reads {
            summary.files += usize::from(read.manifest);
            summary.skipped.extend(read.skipped.iter().cloned());
            errors.extend(read.error.clone());
            if let Some(file) = &read.file {
                summary.objects += file.objects.len();
                broken += file.documents.iter().filter(|d| d.tree.is_none()).count();
            }
        }
        summary.skipped.sort();
        // There may be hundreds of thousands: a list that grows is copied, and half empty at the end.
        let count = judged.iter().flatten().map(|judged| judged.findings.len());
        let mut findings: Vec<Finding> = Vec::with_capacity(count.sum());
        let mut failed = false;
        for (at, judged) in judged.into_iter().enumerate() {
            let Some(judged) = judged else { continue };
            let from = set.engine(at).settings().fail_on;
            failed |= from.is_some_and(|from| judged.findings.iter().any(|f| f.severity >= from));
            summary.suppressed += judged.suppressed;
            findings.extend(judged.findings);
        }
        summary.count(&findings);
        Checked {
            report: Report { summary, findings, refused: std::collections::BTreeMap::new() },
            failed,
            broken,
            errors,
        }
    }

    fn summary(&self) -> String {
        report::text::in_one_line(&self.report.summary)
    }

    /// What to say where nothing was there to judge.
    fn nothing_found(&self, args: &CheckArgs) -> Option<String> {
        let summary = &self.report.summary;
        if args.allow_empty
            || summary.objects > 0
            || self.broken > 0
            || !self.report.findings.is_empty()
            || !self.errors.is_empty()
        {
            return None;
        }
        let skipped = match summary.skipped.as_slice() {
            [] => String::new(),
            [one] => format!(" ({}: {})", one.file, one.reason.name()),
            all @ [first, ..] if all.iter().all(|s| s.reason == first.reason) => {
                format!(" ({} skipped, all {})", all.len(), first.reason.name())
            }
            more => format!(" ({} skipped: see --format json)", more.len()),
        };
        Some(format!("no Kubernetes object found{skipped}; --allow-empty makes this a success"))
    }
}

/// Where reports go that are not written to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    /// Standard output holds the fixed text.
    Stderr,
    /// Standard output holds a diff; the report is what it was without it.
    Taken,
}

fn write(report: &Report, args: &CheckArgs, color: Color, output: Output) -> Result<(), Failure> {
    for format in &args.formats {
        let look = match (&format.file, output) {
            (None, Output::Stdout) => Look::of_stdout(color),
            _ => Look::of_file(color),
        };
        let print = |out: &mut dyn Write| match format.style {
            Style::Text => report::text::write(out, report, look, !args.quiet),
            Style::Concise => report::concise::write(out, report),
            Style::Json => report::json::write(out, report),
        };
        match (&format.file, output) {
            (Some(path), _) => output::to_file(path, print)?,
            (None, Output::Stdout) => output::to_stdout(print)?,
            (None, Output::Stderr) => output::to_stderr(print)?,
            (None, Output::Taken) => {}
        }
    }
    Ok(())
}
