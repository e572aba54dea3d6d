//! Fixes of findings: RFC 6902 operations on the object, with guards.
//!
//! The submodules apply them: [`value`] for an admission webhook, [`text`] for files. Both give the same
//! result: parsing the edited text yields exactly the patched value.

pub mod rounds;
pub mod text;
pub mod value;

use serde::Serialize;
use serde_json::Value;

use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// Whether a fix may be applied without review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// Preserves what the author intended, and does not affect other objects.
    Safe,
    /// May change where or how workloads run: a person must review it.
    Unsafe,
}

impl Safety {
    pub fn name(self) -> &'static str {
        match self {
            Safety::Safe => "safe",
            Safety::Unsafe => "unsafe",
        }
    }
}

/// Why a fix cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// The object has no text: it comes from a cluster or a review.
    #[error("the object did not come from a file")]
    NoText,
    /// The file is not in UTF-8.
    #[error("the file is not UTF-8")]
    Encoding,
    /// A guard or operation fails.
    #[error("it does not apply: {0}")]
    Patch(String),
    /// The target is reached through an alias.
    #[error("`{0}` is written through an alias")]
    Alias(String),
    /// The target is inherited through a merge key.
    #[error("`{0}` comes by a merge key")]
    Merge(String),
    /// The target has an anchor that is used elsewhere.
    #[error("`{0}` has an anchor that is used elsewhere")]
    Anchor(String),
    /// The target is written in a form that the editor does not support, such as an explicit key.
    #[error("the way `{0}` is written cannot be edited")]
    Layout(String),
    /// The edited text does not parse to the patched value.
    #[error("the edited text would not read as intended")]
    VerificationFailed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Checks that the value is as expected; otherwise nothing is done.
    Test {
        path: String,
        value: Value,
    },
    /// Sets a member or inserts an item.
    Add {
        path: String,
        value: Value,
    },
    Replace {
        path: String,
        value: Value,
    },
    Remove {
        path: String,
    },
    Move {
        from: String,
        path: String,
    },
}

/// Text in reports for a fix that causes drift.
pub const REPLACES_NODES_NOTE: &str = "replaces live nodes";

#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What it does, in a few words: "add a taint".
    pub title: String,
    /// Whether it may be applied without review.
    pub safety: Safety,
    /// The operations in order; paths are relative to the object.
    pub operations: Vec<Operation>,
    /// Whether applying it to a live NodePool or EC2NodeClass would replace nodes.
    pub replaces_nodes: bool,
    /// Objects to create, each as a separate document after this one. An admission webhook cannot create
    /// them, so it never applies such a fix.
    pub creates: Vec<Value>,
}

impl Fix {
    /// A fix without operations.
    pub fn new(title: impl Into<String>, safety: Safety) -> Fix {
        Fix {
            title: title.into(),
            safety,
            // Most fixes test a value and change it.
            operations: Vec::with_capacity(2),
            replaces_nodes: false,
            creates: Vec::new(),
        }
    }

    pub(crate) fn safe(title: impl Into<String>) -> Fix {
        Fix::new(title, Safety::Safe)
    }

    /// A fix without operations that a person must review.
    pub(crate) fn unsafe_(title: impl Into<String>) -> Fix {
        Fix::new(title, Safety::Unsafe)
    }

    /// The title, and the effect of the fix on the nodes of a live object.
    pub fn title_with_effect(&self) -> String {
        if self.replaces_nodes {
            format!("{} ({REPLACES_NODES_NOTE})", self.title)
        } else {
            self.title.clone()
        }
    }

    /// Marks the fix as one that replaces the nodes of a live pool.
    pub(crate) fn replaces_nodes(mut self) -> Fix {
        self.replaces_nodes = true;
        self
    }

    /// Sets `node` to `value`, whether or not it exists. Missing parents are created.
    pub(crate) fn set(mut self, node: &Node<'_>, value: Value) -> Fix {
        if node.is_absent() {
            self.add_missing(node, value);
        } else {
            let path = node.pointer().to_string();
            self.operations.push(Operation::Test { path: path.clone(), value: node.to_json() });
            self.operations.push(Operation::Replace { path, value });
        }
        self
    }

    /// Appends an item to a list. An absent list is created.
    pub(crate) fn append(mut self, list: &Node<'_>, value: Value) -> Fix {
        if list.is_sequence() {
            let path = format!("{}/-", list.pointer());
            self.operations.push(Operation::Add { path, value });
            self
        } else {
            self.set(list, Value::Array(vec![value]))
        }
    }

    pub(crate) fn remove(mut self, node: &Node<'_>) -> Fix {
        let path = node.pointer().to_string();
        self.operations.push(Operation::Test { path: path.clone(), value: node.to_json() });
        self.operations.push(Operation::Remove { path });
        self
    }

    /// Moves an existing node to a path that is absent. Missing parents are created. In a file the text and
    /// comments of the node are moved as well.
    pub(crate) fn move_to(mut self, from: &Node<'_>, to: &Node<'_>) -> Fix {
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

    /// Emits one `add` at the highest missing parent, so that the patch can be applied.
    fn add_missing(&mut self, node: &Node<'_>, value: Value) {
        let pointer = node.pointer();
        let written = node.existing_prefix_len(pointer.steps().len());
        self.add_with_parents(pointer.steps(), written, value);
    }

    /// Adds a value at a path of which the first `written` steps exist.
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
