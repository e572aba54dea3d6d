//! Locations of findings in reports for programs: paths below the root of the repository, columns, edits,
//! texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::lint::fix::text;
use gpulint_rules::lint::fix::text::Edit;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Finding, Location, Object, Pointer, Rendered, Safety};

use crate::files;
use crate::files::display_path;
use crate::terminal::printable;

use super::Report;

/// The folder to which paths of a report are relative: the one that the user names, or the nearest one above
/// the current folder that has `.git`, otherwise the current folder.
pub(crate) fn root_folder(named: Option<&Path>) -> PathBuf {
    if let Some(folder) = named {
        return files::absolute(folder);
    }
    let here = files::absolute(Path::new("."));
    let root = here.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(&here).to_owned()
}

/// The file, line and column of a field; of the document, where a controller makes the object of it. A field that was rendered
/// is where its document is written.
pub(crate) fn position(object: &Object, pointer: &Pointer) -> Option<(String, u32, u32)> {
    let place = Location::Field { object: object.clone(), pointer: pointer.clone(), key: false };
    let (source, start) = match (place.resolve_span(), object.origin()) {
        (Some((source, _, span)), _) => (source, span.start),
        (None, Some(origin)) => (&origin.source, origin.span.start),
        (None, None) => return None,
    };
    if let Some(line) = object.origin().and_then(|origin| source.written_line(origin.document)) {
        return Some((source.path().to_owned(), line, 1));
    }
    let at = source.lines().position(source.text(), start);
    Some((source.path().to_owned(), at.line, at.column))
}

/// A path in a report for programs.
pub(super) enum Place {
    /// A path below the root, relative to the root.
    Below(PathBuf),
    /// An absolute path.
    Elsewhere(PathBuf),
    /// Standard input or another stream, which has no path.
    Stream(String),
}

impl Report {
    /// The place of a file that is reported under a path.
    pub(super) fn place(&self, path: &str) -> Place {
        if path.starts_with('<') {
            return Place::Stream(path.to_owned());
        }
        let absolute = match self.paths.get(path) {
            Some(absolute) => absolute.clone(),
            None => files::absolute(Path::new(path)),
        };
        match absolute.strip_prefix(&self.root) {
            Ok(below) => Place::Below(below.to_owned()),
            Err(_) => Place::Elsewhere(absolute),
        }
    }

    /// The path relative to the root, or the absolute path of a file elsewhere. Bytes that are not UTF-8 are
    /// replaced.
    pub(super) fn path(&self, path: &str) -> String {
        match self.place(path) {
            Place::Below(path) | Place::Elsewhere(path) => display_path(&path),
            Place::Stream(name) => name,
        }
    }
}

impl Place {
    /// The path as a URI reference: relative if it is below the root.
    pub(super) fn uri(&self) -> String {
        match self {
            Place::Below(path) => percent_encoded(path),
            Place::Elsewhere(path) => file_uri(path),
            Place::Stream(name) => percent_encoded(Path::new(name)),
        }
    }
}

/// An absolute path as a URI: `file:///a/b`.
pub(super) fn file_uri(path: &Path) -> String {
    let path = percent_encoded(path);
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{path}")
}

/// The path with everything but unreserved characters and `/` percent-encoded.
fn percent_encoded(path: &Path) -> String {
    let mut out = String::new();
    for byte in path_bytes(path) {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Vec<u8> {
    display_path(path).into_bytes()
}

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Point {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The position of an offset; columns are Unicode characters.
pub(super) fn point(source: &Source, at: u32) -> Point {
    let at = source.lines().position(source.text(), at);
    Point { line: at.line, column: at.column }
}

/// The position of an offset; columns are bytes of UTF-8, including those of a byte order mark.
pub(super) fn byte_point(source: &Source, at: u32) -> Point {
    let line = source.lines().line_of(at);
    let start = source.lines().start_of(line, source.text());
    Point { line: line as u32 + 1, column: at - start + 1 }
}

/// Positions whose columns are UTF-16 code units; a byte order mark is not counted.
#[derive(Default)]
pub(super) struct Utf16 {
    /// The offsets of the characters that are two units, by the address of the source.
    pairs: HashMap<*const Source, Vec<u32>>,
}

impl Utf16 {
    /// The position of an offset.
    pub(super) fn point(&mut self, source: &Arc<Source>, at: u32) -> Point {
        let pairs = self.pairs.entry(Arc::as_ptr(source)).or_insert_with(|| {
            let bytes = source.text().bytes().enumerate();
            bytes.filter(|(_, byte)| *byte >= 0xF0).map(|(at, _)| at as u32).collect()
        });
        let before = |at: u32| pairs.partition_point(|pair| *pair < at) as u32;
        let line = source.lines().line_of(at);
        let start = source.lines().start_of(line, source.text());
        let point = point(source, at);
        Point { column: point.column + before(at) - before(start), ..point }
    }
}

/// The edits that the fix of a finding makes, and the file that they apply to. `None` if there is no fix, or
/// it cannot be applied as text.
pub(super) fn edits(finding: &Finding) -> Option<(Arc<Source>, Vec<Edit>)> {
    let fix = finding.fix.as_ref()?;
    let (source, edits) = match &finding.location {
        Location::Rendered(rendered) => (&rendered.source, rendered.repair.as_ref()?.edits.clone()),
        _ => (finding.location.resolve_span()?.0, text::edits(finding.location.object()?, fix).ok()?),
    };
    (!edits.is_empty()).then(|| (Arc::clone(source), edits))
}

/// The safety of the fix of a finding, if the fix can be written: other fields may share its text through an anchor.
pub(crate) fn writable(finding: &Finding) -> Option<Safety> {
    let fix = finding.fix.as_ref()?;
    let may_share = finding.location.object().is_some_and(|object| object.root().has_aliases());
    (!may_share || edits(finding).is_some()).then_some(fix.safety)
}

/// The text between two offsets.
pub(super) fn slice(source: &Source, span: Span) -> &str {
    source.text().get(span.start as usize..span.end as usize).unwrap_or_default()
}

/// The line of a location in rendered text.
pub(super) fn rendered_line(rendered: &Rendered) -> &str {
    let Some((source, _, span)) = rendered.place.resolve_span() else { return "" };
    let (text, lines) = (source.text(), source.lines());
    let line = lines.line_of(span.start);
    let (from, to) = (lines.start_of(line, text), lines.start_of(line + 1, text));
    text.get(from as usize..to as usize).unwrap_or_default().trim_end()
}

/// For a finding in the output of a program: the line of the output, unless it is the text of the user, and the commands.
pub(crate) fn rendered_words(finding: &Finding) -> Vec<String> {
    let Some(rendered) = finding.location.rendered() else { return Vec::new() };
    let line = rendered_line(rendered).trim();
    let line = (!rendered.is_literal && !line.is_empty()).then(|| format!("rendered: {line}"));
    let commands =
        (!rendered.commands.is_empty()).then(|| format!("printed by: {}", rendered.commands.join(", ")));
    line.into_iter().chain(commands).collect()
}

/// The text of a finding in lines: the message with notes, the help, and the rendered text.
pub(super) fn words(report: &Report, at: usize) -> Vec<String> {
    words_of(&report.findings[at], report.mark(at))
}

/// The text of a finding in lines. `mark` is the note on a finding that is new with a version.
pub(super) fn words_of(finding: &Finding, mark: Option<String>) -> Vec<String> {
    let notes: Vec<String> = mark.into_iter().chain(super::only_in(finding)).collect();
    let mut lines = vec![match notes.as_slice() {
        [] => finding.whole_message().to_owned(),
        notes => format!("{} ({})", finding.whole_message(), notes.join("; ")),
    }];
    lines.extend(finding.whole_help().map(|help| format!("help: {help}")));
    lines.extend(rendered_words(finding));
    lines.iter().map(|line| printable(line, false).into_owned()).collect()
}

/// The indices of the findings in descending order of severity; within a severity in the order of the report.
pub(super) fn worst_first(report: &Report) -> Vec<usize> {
    let mut order: Vec<usize> = (0..report.findings.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(report.findings[*at].severity));
    order
}
