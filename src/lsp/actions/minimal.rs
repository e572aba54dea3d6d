//! Reduces edits to the smallest ones that give the same text, so that an editor keeps cursors, folds and
//! marks.

use gpulint_rules::lint::fix::text::Edit;
use gpulint_rules::tree::Span;
use similar::{Algorithm, DiffOp, TextDiff};

/// Removes from edits the text that they keep. The result is in order and does not overlap, as the input.
pub(crate) fn minimal(text: &str, edits: &[Edit]) -> Vec<Edit> {
    let mut out = Vec::with_capacity(edits.len());
    for edit in edits {
        let start = edit.span.start as usize;
        let Some(old) = text.get(start..edit.span.end as usize) else {
            out.push(edit.clone());
            continue;
        };
        for (from, to, new) in parts(old, &edit.text) {
            out.push(outside_breaks(text, start + from, start + to, new));
        }
    }
    out
}

/// A range of bytes and the text that replaces it.
type Part<'t> = (usize, usize, &'t str);

/// The parts of a text that change.
fn parts<'t>(old: &str, new: &'t str) -> Vec<Part<'t>> {
    let (start, old_end, new_end) = differing(old, new);
    let (inner, other) = (&old[start..old_end], &new[start..new_end]);
    if inner.is_empty() && other.is_empty() {
        return Vec::new();
    }
    let has_lines = !inner.is_empty() && !other.is_empty() && inner.contains('\n') && other.contains('\n');
    let by_line = if has_lines { lines(old, new) } else { Vec::new() };
    let gives_new = || {
        let mut at = 0;
        let mut text = String::with_capacity(new.len());
        for (from, to, new) in &by_line {
            text.push_str(old.get(at..*from)?);
            text.push_str(new);
            at = *to;
        }
        text.push_str(old.get(at..)?);
        (text == new).then_some(())
    };
    // The comparison by line is only an optimization, so its result is verified.
    if !by_line.is_empty() && gives_new().is_some() { by_line } else { vec![(start, old_end, other)] }
}

/// The parts of a text that change, compared line by line.
fn lines<'t>(old: &str, new: &'t str) -> Vec<Part<'t>> {
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(old, new);
    let ends = |lines: &[&str]| {
        let mut all = vec![0];
        all.extend(lines.iter().scan(0, |at, line| {
            *at += line.len();
            Some(*at)
        }));
        all
    };
    let (olds, news) = (ends(diff.old_slices()), ends(diff.new_slices()));
    let changed = diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed
        .map(|op| {
            let (from, to) = (olds[op.old_range().start], olds[op.old_range().end]);
            let text = &new[news[op.new_range().start]..news[op.new_range().end]];
            let (start, old_end, new_end) = differing(&old[from..to], text);
            (from + start, from + old_end, &text[start..new_end])
        })
        .collect()
}

/// The part in which two texts differ, without their common start and end: the start, which is equal in both,
/// and the two ends.
fn differing(old: &str, new: &str) -> (usize, usize, usize) {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum::<usize>()
    };
    let start = same(&mut old.chars().zip(new.chars()));
    let end = same(&mut old[start..].chars().rev().zip(new[start..].chars().rev()));
    (start, old.len() - end, new.len() - end)
}

/// An edit whose ends are not between `\r` and `\n`, where the protocol has no position.
fn outside_breaks(text: &str, mut from: usize, mut to: usize, new: &str) -> Edit {
    let is_within = |at: usize| text[..at].ends_with('\r') && text[at..].starts_with('\n');
    let mut new = new.to_owned();
    if is_within(from) {
        from -= 1;
        new.insert(0, '\r');
    }
    if is_within(to) {
        to += 1;
        new.push('\n');
    }
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Edit { span: Span::new(offset(from), offset(to)), text: new }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::lint::fix::text::apply_edits;
    use proptest::prelude::*;

    use super::*;

    fn whole(old: &str, new: &str) -> Vec<Edit> {
        minimal(old, &[Edit { span: Span::new(0, old.len() as u32), text: new.to_owned() }])
    }

    #[test]
    fn only_what_differs_is_edited() {
        let parts = |old: &str, new: &str| -> Vec<(u32, u32, String)> {
            whole(old, new).into_iter().map(|edit| (edit.span.start, edit.span.end, edit.text)).collect()
        };
        assert_eq!(parts("a: 1\nb: 2\n", "a: 1\nb: 2\n"), []);
        assert_eq!(parts("a: 1\nb: 2\n", "a: 1\nb: 3\n"), [(8, 9, "3".to_owned())]);
        let both = parts("a: 1\nb: 2\nc: 3\n", "a: 9\nb: 2\nc: 3\nd: 4\n");
        assert_eq!(both, [(3, 4, "9".to_owned()), (15, 15, "d: 4\n".to_owned())]);
        // A character is replaced as a whole.
        assert_eq!(parts("é", "è"), [(0, 2, "è".to_owned())]);
        // `\r\n` becomes `\n`: the whole line break is replaced.
        assert_eq!(parts("a\r\nb", "a\nb"), [(1, 3, "\n".to_owned())]);
    }

    fn some_text() -> impl Strategy<Value = String> {
        let pieces = ["a: 1", "b", "é", "😀", "\n", "\r\n", "\r", " ", ""];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..16).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn the_edits_give_the_same_text(old in some_text(), new in some_text()) {
            let edits = whole(&old, &new);
            prop_assert_eq!(apply_edits(&old, &edits), Some(new));
            for edit in edits {
                for at in [edit.span.start as usize, edit.span.end as usize] {
                    prop_assert!(!(old[..at].ends_with('\r') && old[at..].starts_with('\n')));
                }
            }
        }
    }
}
