//! What is wrong at a place of an object.

use crate::lint::fix::Fix;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// Something at a place that the API server refuses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    /// The field itself, also where it is missing.
    pub(crate) pointer: Pointer,
    /// What is wrong with it.
    pub(crate) kind: ViolationKind,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ViolationKind {
    /// A required field is not written.
    Missing,
    /// No such field exists.
    Unknown,
    /// A value of another type than these.
    Type {
        /// JSON Schema's names of the types.
        expected: Vec<&'static str>,
    },
    /// None of the values that are allowed.
    Enum {
        /// Those, as they are written.
        allowed: Vec<String>,
    },
    /// Text that does not match.
    Pattern {
        /// The pattern.
        pattern: String,
    },
    /// Text that is not in a format.
    Format {
        /// The format's name: `quantity`, `date-time`, `duration`, `byte`.
        format: String,
    },
    /// A number below or above a bound.
    Range {
        /// The bound as text.
        limit: String,
        /// Whether it is the lower one.
        lower: bool,
        /// Whether the bound itself is refused too.
        exclusive: bool,
    },
    /// Too short or too long: characters of a text, items of a list, entries of a map.
    Count {
        /// What is counted.
        of: LengthUnit,
        /// The bound.
        limit: u64,
        /// Whether it is the lower one.
        lower: bool,
    },
    /// An item of a list that must differ from an earlier one.
    Duplicate {
        /// The fields that must differ; empty where the whole item must.
        keys: Vec<String>,
    },
    /// What is wrong in words: what a schema cannot say.
    Invalid {
        /// Lower case, no full stop, at most 120 characters.
        message: String,
        /// What to write instead.
        help: Option<String>,
        /// The repair, where it is certain.
        fix: Option<Box<Fix>>,
    },
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LengthUnit {
    /// Characters of a text.
    Characters,
    /// Items of a list.
    Items,
    /// Entries of a map.
    Entries,
}

impl Violation {
    /// A violation at a node, written or not.
    pub(crate) fn at(node: &Node<'_>, kind: ViolationKind) -> Violation {
        Violation { pointer: node.pointer(), kind }
    }

    /// A required field that is not written.
    pub(crate) fn missing(node: &Node<'_>) -> Violation {
        Violation::at(node, ViolationKind::Missing)
    }

    /// What is wrong in words.
    pub(crate) fn invalid(node: &Node<'_>, message: impl Into<String>) -> Violation {
        Violation::at(node, ViolationKind::Invalid { message: message.into(), help: None, fix: None })
    }

    /// Adds what to write instead; only violations in words carry it.
    pub(crate) fn help(mut self, text: impl Into<String>) -> Violation {
        if let ViolationKind::Invalid { help, .. } = &mut self.kind {
            *help = Some(text.into());
        }
        self
    }

    /// Adds the repair; only violations in words carry it.
    #[allow(dead_code)] // For the validation of core kinds.
    pub(crate) fn fix(mut self, repair: Fix) -> Violation {
        if let ViolationKind::Invalid { fix, .. } = &mut self.kind {
            *fix = Some(Box::new(repair));
        }
        self
    }
}
