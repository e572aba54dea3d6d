//! `gpulint review`: answers an AdmissionReview as the webhook would, to test a policy. Exit code 0 means
//! that it was answered, whether allowed or denied.

use std::fs::File;
use std::io;
use std::io::Read;
use std::process::ExitCode;
use std::time::SystemTime;

use gpulint_rules::{Cluster, Engine};
use gpulint_webhook::ReviewContext;

use crate::args::ReviewArgs;
use crate::error::CliError;
use crate::files::display_path;
use crate::terminal::print_note;
use crate::{config, output};

/// Maximum size of a request to the admission server: 8 MiB.
const MAX_BODY: u64 = 8 * 1024 * 1024;

pub(crate) fn run(args: &ReviewArgs) -> Result<ExitCode, CliError> {
    let engine = Engine::new(config::settings(&args.rules)?);
    for note in &engine.settings().notes {
        print_note(&format!("note: {note}"));
    }
    let (name, body) = read(args)?;
    if body.len() as u64 > MAX_BODY {
        return Err(CliError::Usage(format!("{name}: larger than 8 MiB")));
    }
    let cluster = Cluster::new(engine.settings().complete);
    let answer = if args.mutate {
        gpulint_webhook::mutate(&engine, &cluster, &body).map(|answer| answer.body)
    } else {
        let context = ReviewContext { now: Some(SystemTime::now()), ..ReviewContext::default() };
        gpulint_webhook::review_in_context(&engine, &cluster, context, &body).map(|answer| answer.body)
    };
    let answer = answer.map_err(|error| CliError::Usage(format!("{name}: {error}")))?;
    output::to_stdout(|out| {
        out.write_all(&answer)?;
        Ok(out.write_all(b"\n")?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn read(args: &ReviewArgs) -> Result<(String, Vec<u8>), CliError> {
    let mut body = Vec::new();
    let file = args.file.as_deref().filter(|file| file.as_os_str() != "-");
    let name = file.map_or_else(|| "<stdin>".to_owned(), display_path);
    let read = match file {
        None => io::stdin().lock().take(MAX_BODY + 1).read_to_end(&mut body),
        Some(path) => File::open(path).and_then(|file| file.take(MAX_BODY + 1).read_to_end(&mut body)),
    };
    read.map(|_| (name.clone(), body)).map_err(|error| CliError::Usage(format!("{name}: {error}")))
}
