//! PromQL: parses the queries of an object, and derives what is certain without a server.
//!
//! A query is parsed by the crate `promql-parser` and stored as an [`Expr`] of our own, which has no spans, no
//! compiled patterns and a bounded depth. Anything uncertain is [`Parsed::Unknown`]: placeholders, variables of
//! dashboards, LogQL, MetricsQL, and syntax that only some versions of Prometheus support.
//!
//! ```text
//! object ─► sources ─► text ─► screen ─► promql-parser ─► Expr ─► series   how many series the result has
//!                                                              ─► bound    which values it can reach
//!                                                              ─► labels   which labels the result has
//!                                                              ─► load     whether it is a total or a share
//!                                                              ─► factor   whether a factor in its sums is in the result
//!                                                              ─► metrics  what its metrics are
//! ```

pub(crate) mod adapter;
pub(crate) mod bound;
pub(crate) mod expr;
pub(crate) mod factor;
pub(crate) mod identifiers;
pub(crate) mod labels;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod removed;
mod screen;
pub(crate) mod series;
pub(crate) mod sources;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use expr::Expr;
pub(crate) use sources::{PROMETHEUS_RULE_KINDS, QUERY_KINDS, Query, QueryPlace, queries};

use crate::steps;

/// Number of steps of parsing a byte.
const STEPS_PER_BYTE: usize = 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parsed {
    Known(Expr),
    /// No version of Prometheus accepts it, for this reason.
    Invalid(String),
    /// It is not certain whether it is valid.
    Unknown,
}

impl Parsed {
    /// Whether it is invalid because a call has no range. VictoriaMetrics accepts such a call.
    pub(crate) fn lacks_range(&self) -> bool {
        matches!(self, Parsed::Invalid(reason) if reason.contains(NEEDS_A_RANGE))
    }

    pub(crate) fn expr(&self) -> Option<&Expr> {
        match self {
            Parsed::Known(expr) => Some(expr),
            Parsed::Invalid(_) | Parsed::Unknown => None,
        }
    }
}

pub(crate) fn parse(text: &str) -> Parsed {
    steps::take(STEPS_PER_BYTE * (text.len() + 10));
    let Some(screened) = screen::screen(text) else {
        return Parsed::Unknown;
    };
    // The parser does not check arithmetic with durations. Inputs that are known to make it panic are screened out.
    let parsed = catch_unwind(AssertUnwindSafe(|| promql_parser::parser::parse(&screened.text)));
    match parsed {
        Ok(Ok(expr)) => Expr::from_parser(&expr, &screened.patterns).map_or(Parsed::Unknown, Parsed::Known),
        Ok(Err(error)) => reason(&error, text).map_or(Parsed::Unknown, Parsed::Invalid),
        Err(_) => Parsed::Unknown,
    }
}

/// Keywords of MetricsQL, which VictoriaMetrics accepts in addition to PromQL, and of versions of Prometheus that are
/// newer than the parser.
const OTHER_KEYWORDS: &[&str] =
    &["anchored", "default", "fill", "if", "ifnot", "keep_metric_names", "smoothed", "with"];

/// The start of the reason that a text has no expression.
const EMPTY: &str = "no expression found in input";

/// Part of the reason that a call without a range is invalid, which VictoriaMetrics accepts.
const NEEDS_A_RANGE: &str = "needs a range";

/// Functions of these dialects.
const OTHER_FUNCTIONS: &str = include_str!("metricsql.txt");

/// Why no server accepts a text, as a message; `None` if a server may accept it.
fn reason(error: &str, text: &str) -> Option<String> {
    let code = screen::code_of(text);
    if is_other_dialect(&code) {
        return None;
    }
    // LogQL has the same rules inside braces.
    if let Some(reason) = braces(error) {
        return Some(reason);
    }
    if selects_without_name(&code) {
        return None;
    }
    let known = [
        ("unclosed left parenthesis", "a `(` is never closed"),
        ("unexpected right parenthesis", "a `)` closes nothing"),
        ("unexpected right brace", "a `}` closes nothing"),
        ("unexpected right bracket", "a `]` closes nothing"),
        ("unexpected end of input inside braces", "a `{` is never closed"),
        ("unexpected end of input inside brackets", "a `[` is never closed"),
        ("unterminated quoted string", "a string is never closed"),
        ("comparisons between scalars must use BOOL modifier", "two numbers are compared without `bool`"),
        (EMPTY, "it is empty"),
    ];
    if error.starts_with(EMPTY) && text.trim_start().starts_with('#') {
        return Some("it is only a comment".to_owned());
    }
    if let Some((_, words)) = known.iter().find(|(start, _)| error.starts_with(start)) {
        return Some((*words).to_owned());
    }
    if let Some(rest) = error.strip_prefix("expected type ") {
        return type_error(rest, error);
    }
    if let Some(name) = error.strip_prefix("unknown function with name ") {
        return Some(format!("there is no function `{}`", name.trim_matches('\'')));
    }
    if error.starts_with("unexpected identifier") && error.contains("in label matching, expected string") {
        return Some("the value of a label is not in quotes".to_owned());
    }
    if error == "invalid promql query" {
        // Arithmetic on durations is an experimental feature of some versions.
        return (!text.contains("offset (") && !text.contains("offset -(")).then(|| {
            match last_operator(text) {
                Some(operator) => format!("nothing follows `{operator}`"),
                None => "two of its parts have no operator between them, or one is missing".to_owned(),
            }
        });
    }
    let certain = [
        "unexpected second colon",
        "bool modifier can only be used",
        "binary expression must contain only scalar",
        "vector matching only allowed between vectors",
        "set operator",
        "no grouping allowed",
        "ranges only allowed for vector selectors",
        "no offset modifiers allowed before range",
        "vector selector must contain at least one non-empty matcher",
        "metric name must not be set twice",
        "trailing commas not allowed",
        "unary expression only allowed",
    ];
    certain.iter().any(|start| error.starts_with(start)).then(|| error.trim_end_matches('.').to_owned())
}

/// The message for errors inside the braces of a selector. MetricsQL accepts more characters in the name of a label.
fn braces(error: &str) -> Option<String> {
    if let Some(found) = error.strip_prefix("unexpected character inside braces: ") {
        let found = found.trim_matches('\'');
        return match found {
            "[" => Some("a range follows the `}` of a selector, and is not inside its braces".to_owned()),
            ")" => Some("a `{` is not closed before `)`".to_owned()),
            ":" | "|" | "&" | ";" | "(" | "]" | "<" | ">" | "*" | "+" | "/" | "%" | "^" | "@" => {
                Some(format!("`{found}` does not belong between the braces of a selector"))
            }
            _ => None,
        };
    }
    if error.starts_with("unexpected character after '!' inside braces") {
        return Some(
            "a label is compared with `!` alone: the operators are `=`, `!=`, `=~` and `!~`".to_owned(),
        );
    }
    let (found, _) =
        error.strip_prefix("unexpected '")?.split_once("' in label matching, expected string")?;
    Some(format!("`{found}` is where the value of a label has to be, in quotes"))
}

/// Whether a query has a function or a keyword that no version of Prometheus had for long: of MetricsQL, or new ones.
pub(crate) fn has_other_dialect(text: &str) -> bool {
    is_other_dialect(&screen::code_of(text))
}

fn is_other_dialect(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_called = |name: &str| {
        let mut rest = lower.as_str();
        while let Some(at) = identifiers::find_word(rest, name) {
            rest = &rest[at + name.len()..];
            if rest.trim_start().starts_with('(') {
                return true;
            }
        }
        false
    };
    OTHER_KEYWORDS.iter().any(|word| identifiers::find_word(&lower, word).is_some())
        || OTHER_FUNCTIONS.lines().any(is_called)
}

/// Whether a selector has no metric name, as in LogQL.
fn selects_without_name(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let before = text[..at].trim_end();
        !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
    })
}

/// The message for errors such as "matrix in call to function 'rate', got vector".
fn type_error(rest: &str, error: &str) -> Option<String> {
    let (expected, rest) = rest.split_once(" in ")?;
    let (context, got) = rest.rsplit_once(", got ")?;
    let function = context.strip_prefix("call to function ").map(|name| name.trim_matches('\''));
    Some(match (function, expected, got) {
        (Some(function), "matrix", "vector") => {
            format!("`{function}` {NEEDS_A_RANGE}, as in `{function}(metric[5m])`")
        }
        (Some(function), "vector", "matrix") => format!("`{function}` does not accept a range"),
        _ => error.replace('\'', "`"),
    })
}

fn last_operator(text: &str) -> Option<&str> {
    let end = text.trim_end();
    ["and", "or", "unless", ">=", "<=", "==", "!=", "+", "-", "*", "/", "%", ">", "<"].into_iter().find(
        |word| {
            end.strip_suffix(word).is_some_and(|before| {
                !word.starts_with(|c: char| c.is_ascii_alphabetic()) || before.ends_with(char::is_whitespace)
            })
        },
    )
}
