//! Violations: the fields of an object that the API server rejects, and why.

use crate::lint::fix::Fix;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// Maximum number of violations per object. Each one costs a walk through the tree.
pub(super) const MAX_VIOLATIONS: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    /// The path of the field, which may be missing.
    pub(crate) pointer: Pointer,
    pub(crate) kind: ViolationKind,
    pub(crate) subject: Subject,
}

/// What is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Object,
    /// The pods that a controller makes of a template in a custom resource.
    Pods,
    /// Such pods, of which the controller merges the template with another one first.
    MergedPods,
}

/// Why a field is rejected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ViolationKind {
    Missing,
    Unknown,
    Type {
        /// The allowed types.
        expected: Vec<&'static str>,
    },
    /// The value is not in the list of allowed values.
    Enum {
        allowed: Vec<String>,
    },
    Pattern {
        pattern: String,
    },
    Format {
        /// The format's name: `quantity`, `date-time`, `duration`, `byte`.
        format: String,
    },
    /// A number is out of bounds.
    Range {
        /// The bound, as text.
        limit: String,
        lower: bool,
        /// Whether the bound itself is rejected.
        exclusive: bool,
    },
    /// Too few or too many characters, items or entries.
    Count {
        of: LengthUnit,
        /// The bound.
        limit: u64,
        lower: bool,
    },
    /// A list item repeats an earlier one.
    Duplicate {
        /// The fields that identify an item; empty if items are compared as a whole.
        keys: Vec<String>,
    },
    /// An error of validation code, which a schema cannot express.
    Invalid {
        of: InvalidKind,
        /// Lower case, no full stop, at most 120 characters.
        message: String,
        /// What to write instead.
        help: Option<String>,
        /// The fix, where there is only one.
        fix: Option<Box<Fix>>,
    },
}

/// What an error of validation code is about, as far as rules over the schema have to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidKind {
    /// A required field is missing, and the message says only that.
    Missing,
    /// The pod has no volume of the name.
    UnknownVolume,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LengthUnit {
    Characters,
    Items,
    Entries,
}

impl Violation {
    pub(super) fn new(pointer: Pointer, kind: ViolationKind) -> Violation {
        Violation { pointer, kind, subject: Subject::Object }
    }

    /// A violation at a node, which may be absent.
    pub(crate) fn at(node: &Node<'_>, kind: ViolationKind) -> Violation {
        Violation::new(node.pointer(), kind)
    }

    pub(crate) fn missing(node: &Node<'_>) -> Violation {
        Violation::at(node, ViolationKind::Missing)
    }

    /// An error of validation code.
    pub(crate) fn invalid(node: &Node<'_>, message: impl Into<String>) -> Violation {
        let (of, message) = (InvalidKind::Other, message.into());
        Violation::at(node, ViolationKind::Invalid { of, message, help: None, fix: None })
    }

    /// Sets what the error is about. Only for [`ViolationKind::Invalid`].
    pub(crate) fn about(mut self, kind: InvalidKind) -> Violation {
        if let ViolationKind::Invalid { of, .. } = &mut self.kind {
            *of = kind;
        }
        self
    }

    /// Sets what to write instead. Only for [`ViolationKind::Invalid`].
    pub(crate) fn help(mut self, text: impl Into<String>) -> Violation {
        if let ViolationKind::Invalid { help, .. } = &mut self.kind {
            *help = Some(text.into());
        }
        self
    }

    /// Sets the fix. Only for [`ViolationKind::Invalid`].
    pub(crate) fn fix(mut self, repair: Fix) -> Violation {
        if let ViolationKind::Invalid { fix, .. } = &mut self.kind {
            *fix = Some(Box::new(repair));
        }
        self
    }
}
