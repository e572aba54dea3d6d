//! Parses templates into text and actions, and finds the line of a template that a rendered line comes from.
//!
//! A copy of the chart is rendered in whose templates each line ends in a comment with its number. The output
//! of a line contains its comment, also if a loop repeats the line; lines without a comment come from the
//! action whose comment follows. The copy is used only if it equals the real output except for the comments.

use std::collections::HashMap;
use std::ops::Range;

/// The delimiters of the comment of a line. A space precedes it, unless it begins a line.
const OPEN: &str = "#\u{27e6}";
const CLOSE: char = '\u{27e7}';

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    /// The span of the action, including braces.
    pub(crate) span: Range<usize>,
    /// The values that it reads, from the root of the values; `*` is any item. `None` for values that are not
    /// known.
    pub(crate) values: Vec<Option<Vec<String>>>,
    /// Whether it can produce output at its place.
    pub(crate) prints: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) actions: Vec<Action>,
    /// The offsets where a comment with the number of a line can be inserted, with that number from 0.
    marks: Vec<(usize, usize)>,
}

/// A path in the values; `None` if it is not known.
type Path = Option<Vec<String>>;

impl Template {
    pub(crate) fn read(text: &str) -> Template {
        let mut out = Template::default();
        let mut dot = Dot::Root;
        // The value of the dot before each open block, and whether the block is a definition.
        let mut blocks: Vec<(Dot, bool)> = Vec::new();
        let mut variables: HashMap<String, Path> = HashMap::new();
        let mut at = 0;
        while let Some(start) = text[at..].find("{{").map(|found| at + found) {
            let end = end_of_action(text, start);
            let body = body_of(&text[start..end]);
            let is_comment = body.starts_with("/*");
            let word = body.split(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
            let is_assignment = is_assignment(body);
            let references = if is_comment { Vec::new() } else { references(body, &dot, &variables) };
            let single = match references.as_slice() {
                [only] => only.clone(),
                _ => None,
            };
            match word {
                _ if is_comment => {}
                "if" | "with" | "range" | "define" | "block" => {
                    blocks.push((dot.clone(), matches!(word, "define" | "block")));
                    match word {
                        "with" => {
                            dot = single.clone().map_or(Dot::Unknown, Dot::Value);
                            name_variables(body, "with", &single, &mut variables);
                        }
                        "range" => {
                            let item = single.clone().map(|mut path| {
                                path.push("*".to_owned());
                                path
                            });
                            dot = item.clone().map_or(Dot::Unknown, Dot::Value);
                            name_variables(body, "range", &item, &mut variables);
                        }
                        "define" | "block" => dot = Dot::Unknown,
                        _ => name_variables(body, "if", &single, &mut variables),
                    }
                }
                "else" => {
                    // `else with` sets the dot to a value that is not tracked.
                    if let Some((outer, _)) = blocks.last() {
                        dot = if body.starts_with("else with") { Dot::Unknown } else { outer.clone() };
                    }
                }
                "end" => {
                    dot = blocks.pop().map_or(Dot::Root, |(outer, _)| outer);
                }
                _ if is_assignment => name_variables(body, "", &single, &mut variables),
                _ => {}
            }
            let is_control = matches!(word, "if" | "with" | "range" | "define" | "block" | "else" | "end");
            // The output of a definition appears where it is included.
            let in_definition = blocks.iter().any(|(_, is_definition)| *is_definition);
            let prints = !is_control && !is_comment && !is_assignment && !in_definition;
            out.actions.push(Action { span: start..end, values: references, prints });
            at = end;
        }
        out.find_marks(text);
        out
    }

    /// Finds the ends of lines at which a comment changes nothing else in the output.
    fn find_marks(&mut self, text: &str) {
        let definitions = definitions(text, &self.actions);
        let mut start = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let range = start..start + line.len();
            start = range.end;
            let end = range.start + line.trim_end().len();
            let is_inside = |span: &Range<usize>| span.start < end && end < span.end;
            if self.actions.iter().any(|action| is_inside(&action.span)) || definitions.iter().any(is_inside)
            {
                continue;
            }
            let here: Vec<&Action> = self
                .actions
                .iter()
                .filter(|a| a.span.start < range.end && a.span.end > range.start)
                .collect();
            // The comment would preserve the line end that the action removes.
            let trims = here.last().is_some_and(|a| a.span.end == end && text[..end].ends_with("-}}"));
            let mut rest = String::new();
            let mut from = range.start;
            for action in &here {
                rest.push_str(text.get(from..action.span.start.max(from)).unwrap_or_default());
                from = action.span.end;
            }
            rest.push_str(text.get(from..end).unwrap_or_default());
            let has_text = !rest.trim().is_empty();
            let is_separator = line.starts_with("---");
            if !trims && !is_separator && (has_text || here.iter().any(|action| action.prints)) {
                self.marks.push((end, number));
            }
        }
    }

    /// The text with a comment with its number at the end of each line. `file` tells templates apart.
    pub(crate) fn marked(&self, text: &str, file: usize) -> String {
        let mut out = String::with_capacity(text.len() + self.marks.len() * 12);
        let mut from = 0;
        for (at, line) in &self.marks {
            out.push_str(&text[from..*at]);
            out.push_str(&format!(" {OPEN}{file}.{line}{CLOSE}"));
            from = *at;
        }
        out.push_str(&text[from..]);
        out
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Dot {
    /// The root, which contains `Values`.
    Root,
    /// A value at a path of the values.
    Value(Vec<String>),
    Unknown,
}

/// The ranges between `define` and its `end`.
fn definitions(text: &str, actions: &[Action]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut open: Vec<Option<usize>> = Vec::new();
    for action in actions {
        let body = body_of(&text[action.span.clone()]);
        match body.split(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default() {
            "define" | "block" => open.push(Some(action.span.start)),
            "if" | "with" | "range" => open.push(None),
            "end" => {
                if let Some(Some(start)) = open.pop() {
                    out.push(start..action.span.end + 1);
                }
            }
            _ => {}
        }
    }
    out
}

/// The end of an action: after the `}}` that is not in a string or a comment.
fn end_of_action(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let body = text[start + 2..].trim_start_matches(['-', ' ']);
    if body.starts_with("/*") {
        let close = text[start..].find("*/").map(|found| start + found + 2);
        let end = close.and_then(|close| text[close..].find("}}").map(|found| close + found + 2));
        return end.unwrap_or(text.len());
    }
    let mut at = start + 2;
    while at < bytes.len() {
        match bytes[at] {
            b'}' if bytes.get(at + 1) == Some(&b'}') => return at + 2,
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'`' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'`' {
                    at += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The content between the braces.
fn body_of(action: &str) -> &str {
    let body = action.strip_prefix("{{").unwrap_or(action);
    let body = body.strip_suffix("}}").unwrap_or(body);
    let body = body.strip_prefix('-').unwrap_or(body);
    body.strip_suffix('-').unwrap_or(body).trim()
}

/// Whether the action is an assignment: `$name := …` or `$name = …`.
fn is_assignment(body: &str) -> bool {
    let Some(rest) = body.strip_prefix('$') else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
    rest.starts_with(":=") || rest.starts_with("= ") || rest.starts_with('=') && !rest.starts_with("==")
}

/// Stores the path of the value in `$name := value`; of two variables, the second is the item.
fn name_variables(body: &str, word: &str, value: &Path, variables: &mut HashMap<String, Path>) {
    let Some((names, _)) = body.strip_prefix(word).unwrap_or(body).split_once('=') else { return };
    let names: Vec<&str> = names.trim_end_matches(':').split(',').map(str::trim).collect();
    let (item, others) = match names.split_last() {
        Some((item, others)) if names.iter().all(|name| name.starts_with('$')) => (item, others),
        _ => return,
    };
    variables.insert((*item).to_owned(), value.clone());
    for other in others {
        variables.insert((*other).to_owned(), None);
    }
}

/// The values that an action reads.
fn references(body: &str, dot: &Dot, variables: &HashMap<String, Path>) -> Vec<Path> {
    let body = match body.split_once(":=") {
        Some((_, value)) => value,
        None => body,
    };
    let mut out: Vec<Path> = Vec::new();
    let mut rest = body;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let starts = (c == '.' || c == '$') && (before.is_whitespace() || matches!(before, '(' | '|'));
        if c == '"' || c == '`' {
            let end = rest[1..].find(c).map_or(rest.len(), |found| found + 2);
            rest = &rest[end..];
            before = c;
            continue;
        }
        if !starts {
            before = c;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '$');
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let path = resolve(&rest[..end], dot, variables);
        // A value that is passed on to a helper as a whole is not printed itself.
        if let Some(path) = path.filter(|path| !out.contains(path)) {
            out.push(path);
        }
        before = 'x';
        rest = &rest[end..];
    }
    out
}

/// The value of a reference: `Some(None)` is a value that is not known, `None` is not a value.
fn resolve(reference: &str, dot: &Dot, variables: &HashMap<String, Path>) -> Option<Path> {
    let (variable, fields) = match reference.find('.') {
        Some(at) => (&reference[..at], &reference[at + 1..]),
        None => (reference, ""),
    };
    let mut fields: Vec<String> = fields.split('.').filter(|f| !f.is_empty()).map(str::to_owned).collect();
    let base = match variable {
        "$" => Dot::Root,
        "" => dot.clone(),
        named => match variables.get(named) {
            Some(Some(path)) => Dot::Value(path.clone()),
            _ => Dot::Unknown,
        },
    };
    match base {
        Dot::Root if fields.first().is_some_and(|first| first == "Values") => {
            fields.remove(0);
            Some(Some(fields))
        }
        // The context as a whole, as `include` gets it, is not a value.
        Dot::Root if fields.is_empty() => None,
        Dot::Root | Dot::Unknown => Some(None),
        Dot::Value(mut path) => {
            path.extend(fields);
            Some(Some(path))
        }
    }
}

/// The line of a template that a rendered line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineOrigin {
    /// The number of the template in its marks.
    pub(crate) file: usize,
    /// The line of the template, from 0.
    pub(crate) line: usize,
    /// Whether the rendered line ends where the line of the template ends.
    pub(crate) is_own: bool,
}

/// Removes the marks from a rendered text: returns its lines, each with its origin.
pub(crate) fn take_marks(text: &str) -> Vec<(String, Option<LineOrigin>)> {
    let mut out: Vec<(String, Option<LineOrigin>)> = Vec::new();
    // Number of lines before the mark that belongs to them.
    let mut open = 0;
    let mut last: Option<LineOrigin> = None;
    for line in text.lines() {
        let mut clean = String::with_capacity(line.len());
        let mut origin: Option<LineOrigin> = None;
        let mut rest = line;
        while let Some(at) = rest.find(OPEN) {
            let (before, mark) = rest.split_at(at);
            let Some((numbers, after)) = mark[OPEN.len()..].split_once(CLOSE) else { break };
            clean.push_str(before.strip_suffix(' ').unwrap_or(before));
            let mut parts = numbers.split('.').filter_map(|part| part.parse::<usize>().ok());
            if let (None, Some(file), Some(line)) = (origin, parts.next(), parts.next()) {
                origin = Some(LineOrigin { file, line, is_own: true });
            }
            rest = after;
        }
        clean.push_str(rest);
        if let Some(found) = origin {
            let count = out.len();
            for (_, earlier) in &mut out[count - open..] {
                *earlier = Some(LineOrigin { is_own: false, ..found });
            }
            open = 0;
            last = origin;
            out.push((clean, origin));
        } else {
            open += 1;
            out.push((clean, None));
        }
    }
    let count = out.len();
    for (_, rest) in &mut out[count - open..] {
        *rest = last.map(|last| LineOrigin { is_own: false, ..last });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{LineOrigin, Template, take_marks};

    fn values(text: &str) -> Vec<Vec<Option<String>>> {
        let template = Template::read(text);
        let paths = |action: &super::Action| {
            action.values.iter().map(|path| path.as_ref().map(|path| path.join("."))).collect()
        };
        template.actions.iter().map(paths).collect()
    }

    fn some(path: &str) -> Vec<Option<String>> {
        vec![Some(path.to_owned())]
    }

    #[test]
    fn values_are_followed_through_blocks_and_variables() {
        assert_eq!(values("{{ .Values.a.b | quote }}"), [some("a.b")]);
        assert_eq!(
            values("{{- with .Values.a }}{{ .b }}{{ $.Values.c }}{{ end }}{{ .Values.d }}"),
            [some("a"), some("a.b"), some("c"), vec![], some("d")]
        );
        assert_eq!(
            values("{{ range $i, $p := .Values.pools }}{{ $p.name }}{{ $i }}{{ .name }}{{ end }}"),
            [some("pools"), some("pools.*.name"), vec![None], some("pools.*.name"), vec![]]
        );
        assert_eq!(values("{{ $x := .Values.a }}{{ $x.b }}"), [some("a"), some("a.b")]);
        assert_eq!(
            values("{{ include \"x.y\" . }}{{ .Release.Name }}{{ printf \"%s.Values.x\" .Values.b }}"),
            [vec![], vec![None], some("b")]
        );
        assert_eq!(
            values("{{/* .Values.a }} */}}{{ \"}}\" }}{{ toYaml .Values.a | nindent 4 }}"),
            [vec![], vec![], some("a")]
        );
    }

    #[test]
    fn lines_are_marked_where_a_comment_changes_nothing() {
        let text = "a: 1\n{{- if .x }}\nb: {{ .y }}\n{{- end }}\n---\nc: {{ .z -}}\n  d\n{{ define \"h\" }}\ne\n{{ end }}\n{{ include \"h\" . }}\r\n";
        let marked = Template::read(text).marked(text, 3);
        let mark = |line: usize| format!(" #\u{27e6}3.{line}\u{27e7}");
        let expected = format!(
            "a: 1{}\n{{{{- if .x }}}}\nb: {{{{ .y }}}}{}\n{{{{- end }}}}\n---\nc: {{{{ .z -}}}}\n  d{}\n{{{{ define \"h\" }}}}\ne\n{{{{ end }}}}\n{{{{ include \"h\" . }}}}{}\r\n",
            mark(0),
            mark(2),
            mark(6),
            mark(10)
        );
        assert_eq!(marked, expected);
    }

    #[test]
    fn marks_say_where_rendered_lines_come_from() {
        let mark = |line: usize| format!(" #\u{27e6}0.{line}\u{27e7}");
        assert_eq!(take_marks("#\u{27e6}0.7\u{27e7}")[0].0, "");
        let lines = take_marks(&format!("a: 1{}\nb:\n  c: 2{}\nd: 3\n", mark(0), mark(4)));
        let origin = |line, is_own| Some(LineOrigin { file: 0, line, is_own });
        assert_eq!(
            lines,
            [
                ("a: 1".to_owned(), origin(0, true)),
                ("b:".to_owned(), origin(4, false)),
                ("  c: 2".to_owned(), origin(4, true)),
                ("d: 3".to_owned(), origin(4, false)),
            ]
        );
    }
}
