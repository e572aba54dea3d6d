//! Destinations of reports: standard output or a file, buffered.

use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::CliError;

/// Writes to standard output, buffered.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>) -> Result<(), CliError> {
    through(io::stdout().lock(), write)
}

/// Writes to standard error, buffered.
pub(crate) fn to_stderr(write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>) -> Result<(), CliError> {
    through(io::stderr().lock(), write)
}

/// Writes to a file, buffered.
pub(crate) fn to_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let name = |e: io::Error| CliError::Usage(format!("cannot write {}: {e}", path.display()));
    through(File::create(path).map_err(name)?, write).map_err(|failure| match failure {
        CliError::Output(error) => name(error),
        other => other,
    })
}

fn through(
    to: impl Write,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut buffer = BufWriter::with_capacity(64 * 1024, to);
    write(&mut buffer)?;
    buffer.flush()?;
    Ok(())
}
