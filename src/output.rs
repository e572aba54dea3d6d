//! Destinations of reports: standard output or a file, buffered. A file is written to a temporary file that
//! replaces it when it is complete; pipes and devices are written directly.

use std::fs;
use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::interrupt::Temporary;

/// Writes to standard output, buffered.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>) -> Result<(), CliError> {
    through(io::stdout().lock(), write)
}

/// Writes to standard error, buffered.
pub(crate) fn to_stderr(write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>) -> Result<(), CliError> {
    through(io::stderr().lock(), write)
}

/// Writes to a file, buffered: completely, or not at all.
pub(crate) fn to_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    Destination::open(path)?.write(write)
}

/// A file that will be written. Before that it is as it was, unless it is a pipe or a device.
pub(crate) struct Destination {
    path: PathBuf,
    place: Place,
}

impl Destination {
    /// # Errors
    /// Says that the file cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Destination, CliError> {
        let place = Place::of(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Destination { path: path.to_owned(), place })
    }

    /// Writes the file, buffered: completely, or not at all.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let written = match self.place {
            Place::Direct(file) => through(file, write),
            Place::Beside { temporary, file, target } => {
                through(file, write).and_then(|()| temporary.replace(&target).map_err(CliError::Output))
            }
        };
        written.map_err(|failure| match failure {
            CliError::Output(error) => cannot_write(&self.path, &error),
            other => other,
        })
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::Usage(format!("cannot write {}: {error}", path.display()))
}

/// Replaces the text of a file and keeps its mode, or creates the file: completely, or not at all. Links are
/// not followed.
pub(crate) fn replace(target: &Path, text: &str) -> io::Result<()> {
    let (temporary, mut file) = Temporary::file(Temporary::beside(target))?;
    if let Ok(before) = fs::metadata(target) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    temporary.replace(target)
}

/// How the text of a file is written.
enum Place {
    Direct(File),
    Beside { temporary: Temporary, file: File, target: PathBuf },
}

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        // `/dev/stdout` may be a file that a shell has opened; replacing that file would leave the shell with
        // the old one.
        let is_descriptor = ["/dev", "/proc"].iter().any(|root| path.starts_with(root));
        let target = match (fs::canonicalize(path), fs::symlink_metadata(path)) {
            (Ok(target), _) => target,
            // A link whose target does not exist yet.
            (Err(_), Ok(_)) => return File::create(path).map(Place::Direct),
            (Err(_), Err(_)) => path.to_owned(),
        };
        let before = fs::metadata(&target).ok();
        if is_descriptor || before.as_ref().is_some_and(|data| !data.is_file()) {
            return File::create(path).map(Place::Direct);
        }
        if before.is_some() {
            // The permissions of the folder alone could allow to replace a file that is read-only.
            fs::OpenOptions::new().write(true).open(&target)?;
        }
        match Temporary::file(Temporary::beside(&target)) {
            Ok((temporary, file)) => {
                if let Some(before) = before {
                    file.set_permissions(before.permissions())?;
                }
                Ok(Place::Beside { temporary, file, target })
            }
            // A file may be writable in a folder that is not writable.
            Err(_) if before.is_some() => File::create(path).map(Place::Direct),
            Err(error) => Err(error),
        }
    }
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
