//! Logs to standard error. They contain kinds, rules and file names, but neither Secrets nor objects.
//!
//! Some logged values come from untrusted sources: an error of the API server, a name in a request. A line is
//! therefore bounded ([`MAX_LINE_BYTES`]), control characters in it are escaped, and lines that a client can cause at
//! will are logged through a [`RateLimit`].

use std::fmt::Write as _;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpulint_rules::facts::text::cut;
use serde_json::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    /// One JSON object per line.
    #[default]
    Json,
}

#[derive(Debug, thiserror::Error)]
#[error("the log filter `{0}` is wrong: try `info` or `gpulint_webhook=debug`")]
pub struct LogError(String);

/// Installs the global subscriber; a second call has no effect.
///
/// # Errors
/// `filter` is invalid.
pub fn start(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let parsed = EnvFilter::try_new(with_client(filter)).map_err(|_| LogError(filter.to_owned()))?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(parsed).with_writer(Bounded { format }).with_ansi(false);
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// The filter without the lines that the API client writes about each failed request: the watches log when an error
/// begins and when it ends. A filter that names the client, or enables everything, is not changed.
fn with_client(filter: &str) -> String {
    if filter.contains("kube") || filter.contains("debug") || filter.contains("trace") {
        return filter.to_owned();
    }
    format!("{filter},kube_runtime=off,kube_client=off,kube_client::client::tls=warn")
}

/// Maximum length of a line in bytes, except for the last value.
const MAX_LINE_BYTES: usize = 4096;
/// Maximum length of the value of a field in a line that is too long, in characters.
const MAX_VALUE_CHARS: usize = 256;

/// Writes lines to standard error, bounded and without control characters.
#[derive(Clone, Copy)]
struct Bounded {
    format: LogFormat,
}

impl<'a> MakeWriter<'a> for Bounded {
    type Writer = Bounded;

    fn make_writer(&'a self) -> Bounded {
        *self
    }
}

impl io::Write for Bounded {
    /// The subscriber writes a whole line at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let bounded = match self.format {
            LogFormat::Text => text_line(text.trim_end_matches('\n')),
            LogFormat::Json => json_line(text.trim_end_matches('\n')),
        };
        io::stderr().lock().write_all(bounded.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A line of text with its line end; control sequences of terminals are escaped.
fn text_line(text: &str) -> String {
    let mut out = escaped(text, MAX_LINE_BYTES);
    out.push('\n');
    out
}

/// A line of JSON with its line end. Values of a line that is too long are truncated.
fn json_line(text: &str) -> String {
    if text.len() <= MAX_LINE_BYTES {
        return format!("{text}\n");
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return text_line(text);
    };
    for value in fields.values_mut() {
        if let Value::String(text) = value {
            *text = cut(text, MAX_VALUE_CHARS).into_owned();
        }
    }
    format!("{}\n", Value::Object(fields))
}

/// The text without control characters and without those that change the text direction, truncated at about `most`
/// bytes.
pub(crate) fn escaped(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for (at, c) in text.char_indices() {
        if out.len() >= most {
            let _ = write!(out, "… ({} bytes more)", text.len() - at);
            break;
        }
        match c {
            '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{2028}'
            | '\u{2029}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Lets a limited number of lines of a kind through in each period, and counts the others.
#[derive(Debug)]
pub(crate) struct RateLimit {
    lines: u32,
    period: Duration,
    state: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    /// Start of the period; `None` before the first line.
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl RateLimit {
    pub(crate) const fn new(lines: u32, period: Duration) -> RateLimit {
        let state = Window { began: None, lines: 0, left_out: 0 };
        RateLimit { lines, period, state: Mutex::new(state) }
    }

    /// Whether a line may be written now; returns the number of lines that were left out since the last one.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over = state.began.is_none_or(|began| now.saturating_duration_since(began) >= self.period);
        if over {
            state.began = Some(now);
            state.lines = 0;
        }
        if state.lines >= self.lines {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_text_cannot_command_a_terminal_or_forge_another_line() {
        let line = text_line("kind=\u{1b}[2J\u{9b}31m\nERROR forged\r\u{202e}x \u{7f}é");
        assert_eq!(line, "kind=\\u{1b}[2J\\u{9b}31m\\nERROR forged\\r\\u{202e}x \\u{7f}é\n");
    }

    #[test]
    fn a_long_line_is_cut() {
        let long = "é".repeat(1_000_000);
        let line = text_line(&long);
        assert!(line.len() < MAX_LINE_BYTES + 64 && line.ends_with("bytes more)\n"), "{}", line.len());
        let json = serde_json::json!({"level": "WARN", "message": "odd", "error": long}).to_string();
        let line = json_line(&json);
        assert!(line.len() < 2 * MAX_VALUE_CHARS + 64, "{}", line.len());
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], "odd");
        let short = r#"{"message":"odd"}"#;
        assert_eq!(json_line(short), format!("{short}\n"));
    }

    #[test]
    fn lines_above_the_rate_are_counted() {
        let limit = RateLimit::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| limit.admit_at(start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(2), at(9)], [Some(0), Some(0), None, None]);
        assert_eq!([at(10), at(11), at(12)], [Some(2), Some(0), None]);
    }
}
