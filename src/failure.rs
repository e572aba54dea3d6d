//! Why a command could not do its work: exit code 2, with a message on standard error.

use std::io;

/// Ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something the user has to change.
    #[error("{0}")]
    Usage(String),
    /// Several such things, one a line.
    #[error("{}", .0.join("\nerror: "))]
    Several(Vec<String>),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Whether the reader of the output went away, which is no failure: `gpulint … | head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<std::fmt::Error> for Failure {
    fn from(_: std::fmt::Error) -> Failure {
        Failure::Output(io::Error::other("a value could not be formatted"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::Output(error.into())
    }
}
