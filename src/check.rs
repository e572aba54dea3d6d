//! `gpulint check`: find, read, judge, report.

use std::io::Write;
use std::process::ExitCode;

use gpulint_rules::{Engine, Finding, Index};
use rayon::prelude::*;

use crate::args::{CheckArgs, Color, Format, Style};
use crate::config::Scopes;
use crate::failure::Failure;
use crate::files::{self, Folders, Found, Input, Read, Reason, Skipped};
use crate::output;
use crate::progress::Progress;
use crate::report::{self, Report, Summary};
use crate::terminal::{Look, complain};

/// Checks files and folders.
pub(crate) fn run(args: &CheckArgs, color: Color) -> Result<ExitCode, Failure> {
    one_format_a_place(&args.formats)?;
    if let Some(threads) = args.threads {
        // Fails only where the pool was made already, and it was not.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        let _ = pool.build_global();
    }
    let mut scopes = Scopes::for_check(args)?;
    let mut found = files::find(&args.paths, &args.stdin_filename);
    let scoped = scope(&mut found, &mut scopes);
    let engines: Vec<Engine> = scopes
        .finish()?
        .iter()
        .map(|scope| Engine::new(scope.settings.clone()))
        .collect();
    let checked = judge(&scoped, found, &engines, args);
    write(&checked.report, args, color)?;
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

/// An input, the number of its configuration, and its path as that one sees it.
struct Scoped {
    input: Input,
    scope: usize,
    path: String,
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

fn judge(scoped: &[Scoped], found: Found, engines: &[Engine], args: &CheckArgs) -> Checked {
    let inputs: Vec<Input> = scoped.iter().map(|s| s.input.clone()).collect();
    let folders = Folders::around(&inputs);
    let progress = Progress::start(scoped.len(), !args.quiet);
    let reads: Vec<Read> = scoped
        .par_iter()
        .map(|one| {
            let read = files::read(&one.input, &one.path, &folders);
            progress.step();
            read
        })
        .collect();

    let complete = engines.iter().any(|e| e.settings().complete);
    let mut index = Index::new(complete);
    for file in reads.iter().filter_map(|r| r.file.as_ref()) {
        for object in &file.objects {
            index.apply(object.clone());
        }
    }
    let judged: Vec<_> = scoped
        .par_iter()
        .zip(&reads)
        .map(|(one, read)| {
            let file = read.file.as_ref()?;
            let engine = &engines[one.scope];
            // One file can hold most of the objects: they are judged side by side as well.
            let findings = file
                .objects
                .par_iter()
                .with_min_len(64)
                .flat_map_iter(|object| engine.check_object(object, &index))
                .collect();
            Some((one.scope, engine.finish_file(file, findings)))
        })
        .collect();
    drop(progress);
    // The program ends soon; giving back millions of nodes one by one would take a while.
    std::mem::forget(index);

    let mut summary = Summary {
        skipped: found.skipped,
        ..Summary::default()
    };
    let mut errors = found.errors;
    let mut broken = 0;
    for read in reads {
        summary.files += usize::from(read.manifest);
        summary.skipped.extend(read.skipped);
        errors.extend(read.error);
        if let Some(file) = &read.file {
            summary.objects += file.objects.len();
            broken += file.documents.iter().filter(|d| d.tree.is_none()).count();
        }
    }
    summary.skipped.sort();
    let mut findings: Vec<Finding> = Vec::new();
    let mut failed = false;
    for (scope, judged) in judged.into_iter().flatten() {
        let fail_on = engines[scope].settings().fail_on;
        failed |= fail_on.is_some_and(|from| judged.findings.iter().any(|f| f.severity >= from));
        summary.suppressed += judged.suppressed;
        findings.extend(judged.findings);
    }
    summary.count(&findings);
    Checked {
        report: Report { summary, findings },
        failed,
        broken,
        errors,
    }
}

impl Checked {
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
        Some(format!(
            "no Kubernetes object found{skipped}; --allow-empty makes this a success"
        ))
    }
}

fn write(report: &Report, args: &CheckArgs, color: Color) -> Result<(), Failure> {
    for format in &args.formats {
        let look = match &format.file {
            Some(_) => Look::of_file(color),
            None => Look::of_stdout(color),
        };
        let print = |out: &mut dyn Write| match format.style {
            Style::Text => report::text::write(out, report, look, !args.quiet),
            Style::Concise => report::concise::write(out, report),
            Style::Json => report::json::write(out, report),
        };
        match &format.file {
            Some(path) => output::to_file(path, print)?,
            None => output::to_stdout(print)?,
        }
    }
    Ok(())
}
