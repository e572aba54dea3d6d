//! `gpulint review`: answers an AdmissionReview as the webhook would, to test a policy. Exit code 0 means
//! that it was answered, whether allowed or denied.

use std::fs::File;
use std::io;
use std::io::Read;
use std::process::ExitCode;
use std::time::SystemTime;

use gpulint_rules::{Cluster, Engine};
use gpulint_webhook::ReviewContext;
use serde_json::Value;

use crate::args::{ExplainFormat, ReviewArgs};
use crate::error::CliError;
use crate::files::display_path;
use crate::terminal::{print_note, printable};
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
    let answer = match args.format {
        ExplainFormat::Json => answer,
        ExplainFormat::Text => text(&serde_json::from_slice(&answer)?).into_bytes(),
    };
    output::to_stdout(|out| {
        out.write_all(&answer)?;
        Ok(out.write_all(b"\n")?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// An answer in lines: the verdict, the reasons of a denial, the warnings.
fn text(answer: &Value) -> String {
    let response = &answer["response"];
    let mut lines = vec![if response["allowed"] == true { "allowed" } else { "denied" }.to_owned()];
    let reasons = response["status"]["message"].as_str().unwrap_or_default();
    lines.extend(reasons.lines().map(|line| format!("  {}", printable(line, false))));
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(warnings.map(|warning| format!("warning: {}", printable(warning, false))));
    lines.join("\n")
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
