//! Capabilities of the terminal, and messages on standard error.

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use crate::args::Color;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderOptions {
    /// Whether to use ANSI colours.
    pub(crate) color: bool,
    /// Whether to use line-drawing characters instead of ASCII.
    pub(crate) unicode: bool,
    pub(crate) width: usize,
}

/// The width in columns if there is no terminal.
const WIDTH: usize = 80;
const MIN_WIDTH: usize = 40;

impl RenderOptions {
    pub(crate) fn for_stdout(color: Color) -> RenderOptions {
        let stdout = std::io::stdout();
        let width = stdout
            .is_terminal()
            .then(terminal_size::terminal_size)
            .flatten()
            .map_or(WIDTH, |(width, _)| usize::from(width.0));
        RenderOptions {
            color: use_color(color, || AutoStream::choice(&stdout)),
            unicode: supports_unicode(),
            width: width.clamp(MIN_WIDTH, 160),
        }
    }

    /// The options for a report that is written to a file.
    pub(crate) fn for_file(color: Color) -> RenderOptions {
        RenderOptions { color: color == Color::Always, unicode: supports_unicode(), width: WIDTH }
    }
}

fn use_color(color: Color, auto: impl Fn() -> ColorChoice) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => auto() != ColorChoice::Never,
    }
}

/// Whether the locale uses UTF-8. If none is set, the output goes to a program or a log, and ASCII is used
/// because it is displayed correctly everywhere.
fn supports_unicode() -> bool {
    if cfg!(windows) {
        return true;
    }
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    locale.is_some_and(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether the terminal of standard output supports links.
pub(crate) fn stdout_takes_links() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !is_dumb && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout)
}

pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints lines to standard error; on a terminal, they break at words. A closed standard error is ignored.
pub(crate) fn print_note(message: &str) {
    let mut stderr = std::io::stderr().lock();
    let width = stderr.is_terminal().then(|| terminal_size::terminal_size_of(&stderr)).flatten();
    let width = width.map_or(usize::MAX, |(width, _)| usize::from(width.0).max(MIN_WIDTH));
    for line in printable(message, true).lines() {
        let _ = writeln!(stderr, "{}", wrapped(line, width));
    }
}

/// Prints `error: …` to standard error.
pub(crate) fn print_error(message: &str) {
    print_note(&format!("error: {message}"));
}

/// A line, broken at spaces; what follows is two columns further to the right. A word that is longer than the line stays
/// whole: it may be a path that is copied.
fn wrapped(line: &str, width: usize) -> String {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let mut out = line[..indent].to_owned();
    let mut used = indent;
    for (at, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && used + 1 + length > width {
            used = indent + 2;
            out.push_str(&format!("\n{:used$}", ""));
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

/// The text without control characters, so that a manifest cannot send escape sequences to the terminal. Line
/// breaks are kept only if `lines` is true.
pub(crate) fn printable(text: &str, lines: bool) -> std::borrow::Cow<'_, str> {
    let bad = |c: char| (c.is_control() && !(lines && c == '\n')) || is_bidi(c);
    if !text.contains(bad) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if bad(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// Characters that change the direction of text and can make it appear different from its content.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A count with its noun: `1 file`, `2 files`.
pub(crate) fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn notes_break_at_words() {
        assert_eq!(wrapped("note: one two three", 40), "note: one two three");
        assert_eq!(wrapped("note: one two three", 13), "note: one two\n  three");
        assert_eq!(wrapped("  a: a/very/long/path b", 10), "  a:\n    a/very/long/path\n    b");
    }
}
