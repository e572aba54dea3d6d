//! Text that the YAML parser of Kubernetes accepts and granit-parser does not: a copy of it is parsed that has more
//! blanks, and every offset is converted back.
//!
//! Continuation lines of quoted scalars that are not indented. YAML 1.2
//! ([7.3, `s-flow-line-prefix`](https://yaml.org/spec/1.2.2/#73-flow-scalar-styles)) requires each line of a quoted
//! scalar to be indented deeper than the block collection around it. libyaml and its port to Go, which Kubernetes uses,
//! do not check that indentation, and older versions of controller-gen wrote CRDs that depend on it. Blanks at the
//! start of a continuation line are not part of the value: the copy has the same values.
//!
//! Aliases that are keys, `*app: x`. In YAML 1.2 ([6.9.2, `ns-anchor-char`](https://yaml.org/spec/1.2.2/#692-node-anchors))
//! a colon belongs to the name of an anchor; in libyaml and its port to Go, names are letters, digits, `-` and `_`.

use std::ops::Range;

/// Maximum growth of a short chunk.
const MIN_GROWTH: usize = 4096;

pub(super) struct GoYamlCopy {
    text: String,
    /// In the order of the text.
    insertions: Vec<Insertion>,
}

/// Blanks that are only in the copy.
struct Insertion {
    /// The start in the copy.
    at: usize,
    count: usize,
    /// Number of blanks inserted up to the end of this insertion.
    total: usize,
}

impl GoYamlCopy {
    /// The copy; `None` if the text needs no more blanks, or if the copy would be twice as long as the text.
    ///
    /// This looks at lines, not at YAML: it may take a quote in a plain scalar for the start of a quoted
    /// one. The caller must check that all insertions are inside of quoted scalars or after aliases, with
    /// [`GoYamlCopy::insertions_in`].
    pub(super) fn new(text: &str) -> Option<GoYamlCopy> {
        let mut lines = underindented_lines(text.as_bytes());
        lines.extend(alias_keys(text.as_bytes()).map(|colon| (colon, 1)));
        lines.sort_unstable();
        let total: usize = lines.iter().map(|(_, count)| count).sum();
        if lines.is_empty() || total > text.len().max(MIN_GROWTH) {
            return None;
        }
        let mut copy = String::with_capacity(text.len() + total);
        let mut insertions = Vec::with_capacity(lines.len());
        let (mut from, mut total) = (0, 0);
        for (start, count) in lines {
            copy.push_str(text.get(from..start)?);
            total += count;
            insertions.push(Insertion { at: copy.len(), count, total });
            copy.extend(std::iter::repeat_n(' ', count));
            from = start;
        }
        copy.push_str(text.get(from..)?);
        Some(GoYamlCopy { text: copy, insertions })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Number of places where the copy has more blanks than the text.
    pub(super) fn insertions(&self) -> usize {
        self.insertions.len()
    }

    /// Number of insertions in a range of the copy.
    pub(super) fn insertions_in(&self, range: &Range<usize>) -> usize {
        let before = |end: usize| self.insertions.partition_point(|insertion| insertion.at < end);
        before(range.end).saturating_sub(before(range.start))
    }

    /// Converts an offset in the copy to one in the text.
    pub(super) fn original_offset(&self, at: usize) -> usize {
        let after = self.insertions.partition_point(|insertion| insertion.at <= at);
        match after.checked_sub(1).and_then(|last| self.insertions.get(last)) {
            Some(last) => {
                let inside = last.count - last.count.min(at - last.at);
                at - (last.total - inside)
            }
            None => at,
        }
    }
}

/// The colons of keys that are aliases, where only blanks, dashes or the start of a flow mapping stand before the key.
pub(super) fn alias_keys(bytes: &[u8]) -> impl Iterator<Item = usize> {
    // The start of the line, until its first star. A line may be long, so it is not searched again for each star.
    let mut line = Some(0);
    memchr::memchr2_iter(b'\n', b'*', bytes).filter_map(move |at| {
        if bytes[at] == b'\n' {
            line = Some(at + 1);
            return None;
        }
        let begins_line = line
            .take()
            .is_some_and(|start| bytes[start..at].iter().all(|byte| matches!(byte, b' ' | b'-' | b'?')));
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let colon = at + 1 + bytes[at + 1..].iter().take_while(is_name).count();
        let is_colon = bytes.get(colon) == Some(&b':')
            && matches!(bytes.get(colon + 1), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        let in_flow = || matches!(bytes[..at].trim_ascii_end().last(), Some(b'{' | b','));
        (colon > at + 1 && is_colon && (begins_line || in_flow())).then_some(colon)
    })
}

/// The starts of continuation lines that are not deeper than their block, each with the number of missing blanks.
fn underindented_lines(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    // The indentation that the content of an open block scalar must exceed.
    let mut block_scalar: Option<usize> = None;
    let mut line = 0;
    while line < bytes.len() {
        let end = line_end(bytes, line);
        let indent = blanks(&bytes[line..end]);
        if is_blank(&bytes[line..end]) || block_scalar.is_some_and(|least| indent >= least) {
            line = end + 1;
            continue;
        }
        block_scalar = None;
        let (value, least) = value_of_line(bytes, line, end);
        match bytes[..end].get(value) {
            Some(b'|' | b'>') => block_scalar = Some(least),
            Some(b'"' | b'\'') => {
                let Some(close) = closing_quote(bytes, value) else {
                    return out;
                };
                let mut next = end + 1;
                while next <= close {
                    let end = line_end(bytes, next);
                    let content = &bytes[next..end];
                    let indent = blanks(content);
                    if indent < least && !is_blank(content) && !is_document_marker(content) {
                        out.push((next, least - indent));
                    }
                    next = end + 1;
                }
                line = next;
                continue;
            }
            _ => {}
        }
        line = end + 1;
    }
    out
}

/// The start of the value of a line, after dashes, a key, anchors and tags, and the minimum indentation of its
/// continuation lines.
fn value_of_line(bytes: &[u8], start: usize, end: usize) -> (usize, usize) {
    let bytes = &bytes[..end];
    let skip = |at: usize| at + blanks(&bytes[at..]);
    let mut at = skip(start);
    let mut least = 0;
    if at == start && is_document_marker(&bytes[start..]) {
        at = skip(at + 3);
    }
    while matches!(bytes.get(at), Some(b'-' | b'?')) && matches!(bytes.get(at + 1), None | Some(b' ')) {
        least = at - start + 1;
        at = skip(at + 1);
    }
    if let Some(colon) = end_of_key(bytes, at) {
        least = at - start + 1;
        at = skip(colon + 1);
    }
    while matches!(bytes.get(at), Some(b'&' | b'!')) {
        let length = bytes[at..].iter().take_while(|b| **b != b' ').count();
        at = skip(at + length);
    }
    (at, least)
}

/// The colon after the key that begins at `at`, if the line has one.
fn end_of_key(bytes: &[u8], at: usize) -> Option<usize> {
    let is_colon = |at: usize| {
        bytes.get(at) == Some(&b':') && matches!(bytes.get(at + 1), None | Some(b' ' | b'\t' | b'\r'))
    };
    match bytes.get(at)? {
        b'"' | b'\'' => {
            let after = closing_quote(bytes, at)? + 1;
            let colon = after + blanks(&bytes[after..]);
            is_colon(colon).then_some(colon)
        }
        b'{' | b'[' | b'#' => None,
        _ => {
            let comment = |at: usize| bytes[at] == b'#' && bytes[at - 1] == b' ';
            let mut rest = at + 1..bytes.len();
            rest.find(|at| is_colon(*at) || comment(*at)).filter(|at| is_colon(*at))
        }
    }
}

/// The closing quote of the scalar that begins at `at`.
fn closing_quote(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = *bytes.get(at)?;
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            byte if byte == quote => {
                if quote == b'"' || bytes.get(at + 1) != Some(&quote) {
                    return Some(at);
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |length| from + length)
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b' ').count()
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

/// `---` or `...`, which end a document even inside quotes.
fn is_document_marker(line: &[u8]) -> bool {
    (line.starts_with(b"---") || line.starts_with(b"..."))
        && matches!(line.get(3), None | Some(b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::super::{ParseDiagnosticKind, Source, read};
    use super::*;
    use serde_json::{Value, json};

    /// The only document of a text, as JSON.
    fn value(text: &str) -> Value {
        let source = Source::from_text("a.yaml", text);
        let documents = read(&source);
        assert_eq!(documents.len(), 1, "{text}");
        assert!(documents[0].diagnostics.is_empty(), "{text}\n{:?}", documents[0].diagnostics);
        documents[0].root().expect("a tree").to_json()
    }

    #[test]
    fn continuation_lines_may_stand_anywhere() {
        assert_eq!(value("a:\n  b: 'x\n  y'\n"), json!({"a": {"b": "x y"}}));
        assert_eq!(value("a:\n  b: 'x\ny'\n  c: 1\n"), json!({"a": {"b": "x y"  , "c": 1}}));
        assert_eq!(value("a: \"x\ny\"\n"), json!({"a": "x y"}));
        assert_eq!(value("a: \"x\n\n\ny\"\n"), json!({"a": "x\n\ny"}));
        assert_eq!(value("a: \"x \\\ny\\\"z\"\n"), json!({"a": "x y\"z"}));
        assert_eq!(value("a: 'x\n\ty'\n"), json!({"a": "x y"}));
        assert_eq!(value("a: 'it''s\nb: ''c'''\nd: e\n"), json!({"a": "it's b: 'c'", "d": "e"}));
        assert_eq!(value("- 'x\n- y'\n- z\n"), json!(["x - y", "z"]));
        assert_eq!(value("a:\n- b: 'x\n# y'\n  c: d\n"), json!({"a": [{"b": "x # y", "c": "d"}]}));
        assert_eq!(value("a: !!str 'x\ny'\n'b': &k \"x\ny\"\n"), json!({"a": "x y", "b": "x y"}));
        assert_eq!(value("a: 'x\r\ny'\r\nb: c\r\n"), json!({"a": "x y", "b": "c"}));
    }

    #[test]
    fn aliases_may_be_keys() {
        let labels = "a: &app web\nb:\n  *app: x\n  c: *app\n";
        assert_eq!(value(labels), json!({"a": "web", "b": {"web": "x", "c": "web"}}));
        assert_eq!(value("- &k-1 a\n- *k-1: b\n  c: d\n"), json!(["a", {"a": "b", "c": "d"}]));
        assert_eq!(
            value("- &k a\n- {*k: b, c: d}\n- {c: d, *k: b}\n"),
            json!(["a", {"a": "b", "c": "d"}, {"c": "d", "a": "b"}])
        );
        assert_eq!(value("- &k a\n- *k : b\n"), json!(["a", {"a": "b"}]));
        assert_eq!(value("a: &k b\n*k:\n  c: d\n"), json!({"a": "b", "b": {"c": "d"}}));
        let with_quotes = "a: &k 'x\ny'\n*k: 'p\nq'\n";
        assert_eq!(value(with_quotes), json!({"a": "x y", "x y": "p q"}));
    }

    #[test]
    fn a_long_line_of_stars_is_searched_in_linear_time() {
        let text = format!("a: [{}", "x *k: ".repeat(200_000));
        assert_eq!(alias_keys(text.as_bytes()).count(), 0);
        let text = format!("a: {{{}", "*k: b, ".repeat(200_000));
        assert_eq!(alias_keys(text.as_bytes()).count(), 200_000);
    }

    /// The text of the value at a path of the only document.
    fn written<'t>(text: &'t str, path: &[&str]) -> &'t str {
        let documents = read(&Source::from_text("a.yaml", text));
        let span = documents[0].root().expect("a tree").path(path).span().expect("a span");
        &text[span.start as usize..span.end as usize]
    }

    #[test]
    fn the_span_of_an_alias_that_is_a_key_is_that_of_the_text() {
        let text = "a: &app web\nb:\n  *app: x\n  c: y\n";
        assert_eq!(written(text, &["b", "web"]), "x");
        assert_eq!(written(text, &["b", "c"]), "y");
    }

    #[test]
    fn what_only_looks_like_a_quoted_scalar_is_left_alone() {
        let block = "a: |\n  b: 'x\n  y\nc: >-\n   'p\n   q\nd: 'x\ny'\n";
        assert_eq!(value(block), json!({"a": "b: 'x\ny\n", "c": "'p q", "d": "x y"}));
        let comments = "a: b # it's\n# 'x\nc: 'x\ny'\n";
        assert_eq!(value(comments), json!({"a": "b", "c": "x y"}));
        let flow = "a: ['x\ny', {b: \"p\nq\"}]\nc: 'x\ny'\n";
        assert_eq!(value(flow), json!({"a": ["x y", {"b": "p q"}], "c": "x y"}));
    }

    #[test]
    fn what_kubernetes_refuses_is_still_refused() {
        for text in
            ["a: 'x\ny\n", "a: 'x\n...\ny'\n", "a: 'x\ny' z\n", "'a\nb': c\n", "*b: c\n", "a: *b: c\n"]
        {
            let source = Source::from_text("a.yaml", text);
            let kinds: Vec<ParseDiagnosticKind> =
                read(&source).iter().flat_map(|d| &d.diagnostics).map(|d| d.kind).collect();
            assert!(kinds.contains(&ParseDiagnosticKind::Syntax), "{text:?} {kinds:?}");
        }
    }

    #[test]
    fn spans_are_those_of_the_text() {
        let text = "# é\nm:\n  a: 'x\n  é' # gpulint: allow[x]\n  b: \"p\nq\"\n  c: {d: e}\n";
        assert_eq!(written(text, &["m", "a"]), "'x\n  é'");
        assert_eq!(written(text, &["m", "b"]), "\"p\nq\"");
        assert_eq!(written(text, &["m", "c", "d"]), "e");
        assert_eq!(written(text, &["m", "c"]), "{d: e}");
        let documents = read(&Source::from_text("a.yaml", text));
        let comments = &documents[0].comments;
        assert_eq!(comments.len(), 1);
        assert_eq!(&text[comments[0].start as usize..comments[0].end as usize], "# gpulint: allow[x]");
    }

    #[test]
    fn offsets_inside_of_an_insertion_are_the_start_of_its_line() {
        let text = "a:\n  b: 'x\ny\nz'\n";
        let copy = GoYamlCopy::new(text).expect("two lines lack blanks");
        assert_eq!(copy.text(), "a:\n  b: 'x\n   y\n   z'\n");
        assert_eq!(copy.insertions(), 2);
        for (at, original) in
            [(0, 0), (10, 10), (11, 11), (12, 11), (14, 11), (15, 12), (16, 13), (18, 13), (19, 13)]
        {
            assert_eq!(copy.original_offset(at), original, "{at}");
        }
        assert_eq!(copy.original_offset(copy.text().len()), text.len());
    }

    #[test]
    fn a_large_file_of_such_scalars_is_read_in_linear_time() {
        let item = "- name: a\n  description: 'one\n  two\n\n  three'\n";
        let text = item.repeat(20_000);
        let source = Source::from_text("a.yaml", &text);
        let documents = read(&source);
        assert!(documents[0].diagnostics.is_empty());
        assert_eq!(documents[0].root().expect("a tree").items().count(), 20_000);
    }
}
