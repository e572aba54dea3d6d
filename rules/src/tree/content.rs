//! The value at a node as content: compared without building it, or written down as a key.

use crate::tree::node::{Node, Shape};
use crate::tree::scalar::Scalar;

impl Node<'_> {
    /// Whether both have the same value: what [`Node::to_json`] gives for both is equal.
    pub(crate) fn has_value_of(&self, other: &Node<'_>) -> bool {
        if self.is_written_as(other) {
            return true;
        }
        match (self.shape(), other.shape()) {
            (Shape::Mapping, Shape::Mapping) => {
                let (own, theirs) = (self.entries(), other.entries());
                let same = |(at, (key, value)): (usize, &(&str, Node<'_>))| match theirs.get(at) {
                    // Copies mostly have one order.
                    Some((name, theirs)) if name == key => value.has_value_of(theirs),
                    _ => {
                        let theirs = other.get(key);
                        !theirs.is_absent() && value.has_value_of(&theirs)
                    }
                };
                own.len() == theirs.len() && own.iter().enumerate().all(same)
            }
            (Shape::Sequence, Shape::Sequence) => {
                let (mut own, mut theirs) = (self.items(), other.items());
                loop {
                    match (own.next(), theirs.next()) {
                        (None, None) => return true,
                        (Some(own), Some(theirs)) if own.has_value_of(&theirs) => {}
                        _ => return false,
                    }
                }
            }
            (Shape::Scalar | Shape::Absent, Shape::Scalar | Shape::Absent) => {
                match (self.scalar(), other.scalar()) {
                    (Some(Scalar::Str(own)), Some(Scalar::Str(theirs))) => own == theirs,
                    _ => self.to_json() == other.to_json(),
                }
            }
            _ => false,
        }
    }

    /// Appends the value to a key. Two nodes append the same bytes only if every accessor gives the same for both, but for
    /// what depends on where they are: a text has its length before it, a collection its number of entries.
    pub(crate) fn append_content(&self, key: &mut Vec<u8>) {
        let text = |key: &mut Vec<u8>, text: &str| {
            key.extend_from_slice(&text.len().to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        };
        match self.shape() {
            Shape::Absent => key.push(b'a'),
            Shape::Mapping => {
                let entries = self.entries();
                key.push(b'm');
                key.extend_from_slice(&entries.len().to_le_bytes());
                for (name, value) in entries {
                    text(key, name);
                    value.append_content(key);
                }
            }
            Shape::Sequence => {
                key.push(b'l');
                for item in self.items() {
                    key.push(b'i');
                    item.append_content(key);
                }
                key.push(b'e');
            }
            Shape::Scalar => {
                key.push(match self.scalar() {
                    None | Some(Scalar::Null) => b'n',
                    Some(Scalar::Bool(_)) => b'b',
                    Some(Scalar::Int(_)) => b'z',
                    Some(Scalar::UInt(_)) => b'u',
                    Some(Scalar::Float(_)) => b'f',
                    Some(Scalar::Str(_)) if self.is_unknown() => b'p',
                    Some(Scalar::Str(_)) => b's',
                });
                text(key, self.raw_text().unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::{Source, read};

    /// Whether two texts have one value, and whether their content is the same.
    fn compare(a: &str, b: &str) -> (bool, bool) {
        let read = |text: &str| read(&Arc::new(Source::from_text("a.yaml", text)));
        let (a, b) = (read(a), read(b));
        let (a, b) = (a[0].root().unwrap(), b[0].root().unwrap());
        let content = |node: &Node<'_>| {
            let mut key = Vec::new();
            node.append_content(&mut key);
            key
        };
        assert_eq!(a.has_value_of(&b), a.to_json() == b.to_json());
        assert_eq!(a.has_value_of(&b), b.has_value_of(&a));
        (a.has_value_of(&b), content(&a) == content(&b))
    }

    #[test]
    fn values_are_compared_as_what_they_mean() {
        assert_eq!(compare("a: 1\nb: [x, z]", "{a: 1, b: ['x', \"z\"]}"), (true, true));
        assert_eq!(compare("a: 1\nb: 2", "b: 2\na: 1"), (true, false));
        assert_eq!(compare("a: 1", "a: '1'"), (false, false));
        assert!(!compare("a: 1", "a: 1.0").1);
        assert_eq!(compare("a: [[x], z]", "a: [[x, z]]"), (false, false));
        assert_eq!(compare("a: {b: c}", "a: {b: c, d: }"), (false, false));
        assert_eq!(compare("a: ~", "b: ~"), (false, false));
        assert_eq!(compare("x: &a {b: c}\nz: *a", "x: {b: c}\nz: {b: c}"), (true, true));
        assert_eq!(compare("x: &a {b: c}\nz: {<<: *a}", "x: {b: c}\nz: {b: c}"), (true, true));
        assert_eq!(compare("a: {ab: c}", "a: {a: bc}"), (false, false));
    }
}
