//! What a build without the feature `cel` knows of expressions: nothing.

use serde_json::Value;

/// An expression that can be evaluated; there is none.
#[derive(Debug)]
pub(crate) enum Expression {}

impl Expression {
    /// Always `None`: unknown.
    pub(crate) fn parse(_text: &str) -> Option<Expression> {
        None
    }

    /// Whether the expression names a variable.
    pub(crate) fn has_variable(&self, _name: &str) -> bool {
        match *self {}
    }

    /// Whether the expression compares or joins values that may be lists.
    pub(crate) fn depends_on_list_type(&self) -> bool {
        match *self {}
    }

    /// The value for `self`.
    pub(crate) fn evaluate(&self, _this: &Value) -> Option<Value> {
        match *self {}
    }
}

/// Always `None`: nothing is known to be a syntax error.
pub(crate) fn syntax_error(_text: &str) -> Option<String> {
    None
}
