//! What the terminal can do, and messages to standard error.

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use crate::args::Color;

/// How text is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderOptions {
    /// With ANSI colours.
    pub(crate) color: bool,
    /// With line-drawing characters rather than ASCII.
    pub(crate) unicode: bool,
    /// Columns.
    pub(crate) width: usize,
}

/// The width where there is no terminal.
const WIDTH: usize = 80;

impl RenderOptions {
    /// For standard output.
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
            width: width.clamp(40, 160),
        }
    }

    /// For a report that goes into a file.
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

/// Whether the locale is one of UTF-8. Where none is set, text goes to a program or a log, and
/// ASCII is what every one of them shows.
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

/// Whether standard error is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints a line to standard error.
pub(crate) fn print_note(message: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", printable(message, true));
}

/// Prints `error: …` to standard error; where that is closed there is nobody to tell.
pub(crate) fn print_error(message: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "error: {}", printable(message, true));
}

/// The text without control characters, so that a manifest cannot steer a terminal. Line breaks
/// stay only where `lines` says so.
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

/// Characters that turn the direction of text, and so can show what is not there.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}
