//! Compares the values at two nodes without building them.

use crate::tree::node::{Node, Shape};
use crate::tree::scalar::Scalar;

impl Node<'_> {
    /// Whether both have the same value: what [`Node::to_json`] gives for both is equal.
    pub fn has_value_of(&self, other: &Node<'_>) -> bool {
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::source::{Source, read};

    /// Whether two texts have one value.
    fn have_one_value(a: &str, b: &str) -> bool {
        let read = |text: &str| read(&Arc::new(Source::from_text("a.yaml", text)));
        let (a, b) = (read(a), read(b));
        let (a, b) = (a[0].root().unwrap(), b[0].root().unwrap());
        assert_eq!(a.has_value_of(&b), a.to_json() == b.to_json());
        assert_eq!(a.has_value_of(&b), b.has_value_of(&a));
        a.has_value_of(&b)
    }

    #[test]
    fn values_are_compared_as_what_they_mean() {
        assert!(have_one_value("a: 1\nb: [x, z]", "{a: 1, b: ['x', \"z\"]}"));
        assert!(have_one_value("a: 1\nb: 2", "b: 2\na: 1"));
        assert!(!have_one_value("a: 1", "a: '1'"));
        assert!(!have_one_value("a: [[x], z]", "a: [[x, z]]"));
        assert!(!have_one_value("a: {b: c}", "a: {b: c, d: }"));
        assert!(!have_one_value("a: ~", "b: ~"));
        assert!(have_one_value("x: &a {b: c}\nz: *a", "x: {b: c}\nz: {b: c}"));
        assert!(have_one_value("x: &a {b: c}\nz: {<<: *a}", "x: {b: c}\nz: {b: c}"));
        assert!(!have_one_value("a: {ab: c}", "a: {a: bc}"));
        // Only checked for symmetry, and against the built values.
        have_one_value("a: 1", "a: 1.0");
    }
}
