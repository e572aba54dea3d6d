//! Logs to standard error. They name kinds, rules and files; never a Secret, never an object's body.

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    #[default]
    Json,
}

/// The filter is wrong.
#[derive(Debug, thiserror::Error)]
#[error("the log filter `{0}` is wrong: try `info` or `gpulint_webhook=debug`")]
pub struct LogError(String);

/// Logs from now on; a second call changes nothing.
///
/// # Errors
/// `filter` is none, such as `info`.
pub fn start(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let parsed = EnvFilter::try_new(filter).map_err(|_| LogError(filter.to_owned()))?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr).with_ansi(false);
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}
