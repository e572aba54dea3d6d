//! What a file's comments say about a field, or about the whole file.

use crate::facts::text::{lines_upwards, mentions};
use crate::object::Object;
use crate::tree::node::Node;

/// Maximum number of comment lines above a field that are read.
const LINES_ABOVE: usize = 4;
/// Maximum number of lines of the comment at the beginning of a file that are read.
const LINES_OF_HEAD: usize = 20;

/// The comments on the line of a field's value and on the lines right above it, in lower case.
pub(super) fn comments_on(object: &Object, node: &Node<'_>) -> Vec<String> {
    let Some((origin, span)) = object.origin().zip(node.key_span().or_else(|| node.span())) else {
        return Vec::new();
    };
    let (text, at) = (origin.source.text(), span.start as usize);
    let own = lines_upwards(text, at).next();
    let beside = own.and_then(|own| own.split_once(" #").map(|(_, comment)| comment));
    beside.into_iter().chain(above(text, at).take(LINES_ABOVE)).map(str::to_lowercase).collect()
}

/// The comment right above the line of a value, in lower case, from its last line to its first.
pub(super) fn comment_above(object: &Object, node: &Node<'_>) -> Option<String> {
    let (origin, span) = object.origin().zip(node.span())?;
    let lines: Vec<&str> = above(origin.source.text(), span.start as usize).collect();
    Some(lines.join(" ").to_lowercase())
}

/// The lines of the comment right above the line of an offset, the last one first.
fn above(text: &str, offset: usize) -> impl Iterator<Item = &str> {
    lines_upwards(text, offset).skip(1).map(str::trim).take_while(|line| line.starts_with('#'))
}

/// Whether the comment at the beginning of the object's file says that the file is not applied: it is kept for reference, or instead of
/// another one.
pub(super) fn is_set_aside(object: &Object) -> bool {
    const SIGNS: [&str; 12] = [
        "not currently applied",
        "not currently used",
        "not currently in use",
        "not applied to",
        "is not applied",
        "not deployed",
        "do not apply",
        "don't apply",
        "for reference only",
        "kept for reference",
        "kept as reference",
        "kept as a reference",
    ];
    let text = object.source().map_or("", |source| source.text());
    let head = text.lines().take(LINES_OF_HEAD).map(str::trim);
    let head = head.take_while(|line| line.is_empty() || line.starts_with('#') || *line == "---");
    let comment: Vec<String> = head.map(|line| line.trim_start_matches(['#', ' ']).to_lowercase()).collect();
    mentions(&comment.join(" "), &SIGNS)
}
