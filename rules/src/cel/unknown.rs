//! The implementation without the feature `cel`: every expression is unknown.

use serde_json::Value;

/// An expression that can be evaluated; none exists.
#[derive(Debug)]
pub(crate) enum Expression {}

impl Expression {
    /// Always `None`: unknown.
    pub(crate) fn parse(_text: &str) -> Option<Expression> {
        None
    }

    pub(crate) fn has_variable(&self, _name: &str) -> bool {
        match *self {}
    }

    pub(crate) fn depends_on_list_type(&self) -> bool {
        match *self {}
    }

    pub(crate) fn evaluate(&self, _this: &Value) -> Option<Value> {
        match *self {}
    }
}

/// An expression over numbers that can be evaluated; none exists.
#[derive(Debug)]
pub(crate) enum NumberExpression {}

impl NumberExpression {
    /// Always `None`: unknown.
    pub(crate) fn parse(_text: &str) -> Option<NumberExpression> {
        None
    }

    pub(crate) fn evaluate(&self, _numbers: &[(&str, i64)], _texts: &[(&str, &str)]) -> Option<i64> {
        match *self {}
    }
}

/// Always `None`: no syntax error is known.
pub(crate) fn syntax_error(_text: &str) -> Option<String> {
    None
}
