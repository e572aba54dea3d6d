//! What would repair a finding: RFC 6902 operations on the object, with guards.
//!
//! How operations are applied is decided below: [`value`] for an admission webhook, [`text`] for
//! files. Their one law: parsing the edited text gives exactly the patched value.

pub mod rounds;
pub mod text;
pub mod value;

use serde::Serialize;
use serde_json::Value;

use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// Whether a fix may be applied without a person looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// Means what the author meant, and changes nothing for other objects.
    Safe,
    /// May change what runs where: somebody has to look.
    Unsafe,
}

/// Why a fix is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// The object is one of a cluster, or of a review.
    #[error("the object did not come from a file")]
    NoText,
    /// Edits are made in UTF-8.
    #[error("the file is not UTF-8")]
    Encoding,
    /// A guard or an operation fails.
    #[error("it does not apply: {0}")]
    Patch(String),
    /// The place is read through an alias.
    #[error("`{0}` is written through an alias")]
    Alias(String),
    /// The place comes by a merge key.
    #[error("`{0}` comes by a merge key")]
    Merge(String),
    /// The place has an anchor that is used elsewhere.
    #[error("`{0}` has an anchor that is used elsewhere")]
    Anchor(String),
    /// The place is written in a way that the editor leaves alone, such as an explicit key.
    #[error("the way `{0}` is written cannot be edited")]
    Layout(String),
    /// The law does not hold.
    #[error("the edited text would not read as intended")]
    VerificationFailed,
}

/// One RFC 6902 operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// The value must be this, or nothing is done.
    Test {
        /// Where.
        path: String,
        /// The expected value.
        value: Value,
    },
    /// Sets a member or inserts an item.
    Add {
        /// Where.
        path: String,
        /// The new value.
        value: Value,
    },
    /// Replaces what is there.
    Replace {
        /// Where.
        path: String,
        /// The new value.
        value: Value,
    },
    /// Removes what is there.
    Remove {
        /// Where.
        path: String,
    },
    /// Moves a value.
    Move {
        /// From where.
        from: String,
        /// To where.
        path: String,
    },
}

/// What reports say of a fix that drifts.
pub const REPLACES_NODES_NOTE: &str = "replaces live nodes";

/// A repair.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What it does, in a few words: "add a taint".
    pub title: String,
    /// Whether it may be applied unseen.
    pub safety: Safety,
    /// The operations, in order, relative to the object.
    pub operations: Vec<Operation>,
    /// Whether applying it to a live NodePool or EC2NodeClass would replace nodes.
    pub replaces_nodes: bool,
    /// Whole objects to write beside this one, each as a document of its own after it. An
    /// admission webhook cannot make them, so it never applies such a fix.
    pub creates: Vec<Value>,
}

impl Fix {
    /// A fix without operations yet.
    #[must_use]
    pub fn new(title: impl Into<String>, safety: Safety) -> Fix {
        Fix {
            title: title.into(),
            safety,
            operations: Vec::new(),
            replaces_nodes: false,
            creates: Vec::new(),
        }
    }

    /// A safe fix without operations yet.
    #[must_use]
    pub fn safe(title: impl Into<String>) -> Fix {
        Fix::new(title, Safety::Safe)
    }

    /// A fix that somebody has to look at, without operations yet.
    #[must_use]
    pub fn unsafe_(title: impl Into<String>) -> Fix {
        Fix::new(title, Safety::Unsafe)
    }

    /// The title, and what the fix does to the nodes of a live object.
    #[must_use]
    pub fn title_with_effect(&self) -> String {
        if self.replaces_nodes {
            format!("{} ({REPLACES_NODES_NOTE})", self.title)
        } else {
            self.title.clone()
        }
    }

    /// Marks the fix as one that replaces nodes of a live pool.
    #[must_use]
    pub fn replaces_nodes(mut self) -> Fix {
        self.replaces_nodes = true;
        self
    }

    /// Sets `node` to `value`, whether or not it is written; missing parents are made.
    #[must_use]
    pub fn set(mut self, node: &Node<'_>, value: Value) -> Fix {
        if node.is_absent() {
            self.add_missing(node, value);
        } else {
            let path = node.pointer().to_string();
            self.operations.push(Operation::Test { path: path.clone(), value: node.to_json() });
            self.operations.push(Operation::Replace { path, value });
        }
        self
    }

    /// Appends an item to a list; an absent list is made.
    #[must_use]
    pub fn append(mut self, list: &Node<'_>, value: Value) -> Fix {
        if list.is_sequence() {
            let path = format!("{}/-", list.pointer());
            self.operations.push(Operation::Add { path, value });
            self
        } else {
            self.set(list, Value::Array(vec![value]))
        }
    }

    /// Removes a written node.
    #[must_use]
    pub fn remove(mut self, node: &Node<'_>) -> Fix {
        let path = node.pointer().to_string();
        self.operations.push(Operation::Test { path: path.clone(), value: node.to_json() });
        self.operations.push(Operation::Remove { path });
        self
    }

    /// Moves a written node to an absent place; missing parents are made. In a file its text and
    /// comments go along.
    #[must_use]
    pub fn move_to(mut self, from: &Node<'_>, to: &Node<'_>) -> Fix {
        let source = from.pointer().to_string();
        let target = to.pointer();
        self.operations.push(Operation::Test { path: source.clone(), value: from.to_json() });
        if let Some((_, above)) = target.steps().split_last() {
            let written = to.existing_prefix_len(target.steps().len());
            if written < above.len() {
                let empty = Value::Object(serde_json::Map::new());
                self.add_with_parents(above, written, empty);
            }
        }
        self.operations.push(Operation::Move { from: source, path: target.to_string() });
        self
    }

    /// One `add` at the highest missing parent, so that the patch applies as it stands.
    fn add_missing(&mut self, node: &Node<'_>, value: Value) {
        let pointer = node.pointer();
        let written = node.existing_prefix_len(pointer.steps().len());
        self.add_with_parents(pointer.steps(), written, value);
    }

    /// Adds a value at a path of which the first `written` steps are there.
    fn add_with_parents(&mut self, steps: &[String], written: usize, mut value: Value) {
        let first = (written + 1).min(steps.len());
        for step in steps[first..].iter().rev() {
            let mut map = serde_json::Map::new();
            map.insert(step.clone(), value);
            value = Value::Object(map);
        }
        let path = Pointer::from_steps(steps[..first].iter().cloned());
        self.operations.push(Operation::Add { path: path.to_string(), value });
    }
}
