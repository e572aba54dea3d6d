//! The error of a command: exit code 2, with a message on standard error.

use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A mistake that the user has to correct.
    #[error("{0}")]
    Usage(String),
    /// Several mistakes, one per line.
    #[error("{}", .0.join("\nerror: "))]
    Several(Vec<String>),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// The error with the state of the repository in which it is.
    pub(crate) fn of(self, state: &str) -> CliError {
        match self {
            CliError::Usage(text) => CliError::Usage(format!("in `{state}`: {text}")),
            CliError::Several(all) => {
                CliError::Several(all.iter().map(|text| format!("in `{state}`: {text}")).collect())
            }
            other @ CliError::Output(_) => other,
        }
    }

    /// Whether the reader of the output has closed it, as in `gpulint … | head`. This is not an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<std::fmt::Error> for CliError {
    fn from(_: std::fmt::Error) -> CliError {
        CliError::Output(io::Error::other("a value could not be formatted"))
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> CliError {
        CliError::Output(error.into())
    }
}
