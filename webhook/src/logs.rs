//! Logs to standard error. They contain kinds, rules and file names, but neither Secrets nor objects.

use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
    #[default]
    Json,
}

/// The filter is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the log filter `{0}` is wrong: try `info` or `gpulint_webhook=debug`")]
pub struct LogError(String);

/// Installs the global subscriber; a second call has no effect.
///
/// # Errors
/// `filter` is invalid.
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
