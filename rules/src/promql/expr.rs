//! The expression of a query.

use std::time::Duration;

use promql_parser::label::MatchOp as ParserMatchOp;
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{self, LabelModifier, VectorMatchCardinality};

use super::screen::PATTERN;

/// An expression, without parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number(f64),
    Text,
    /// The newest sample of each series.
    Selector(Selector),
    /// Samples over a window: a selector with a range, or a subquery; with the length of the window.
    Range(Box<Expr>, Duration),
    Call(Call),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negative(Box<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selector {
    /// The metric; `None` if only a pattern selects it.
    pub(crate) name: Option<String>,
    pub(crate) matchers: Vec<Matcher>,
    /// Whether `offset` or `@` reads it at another time.
    pub(crate) is_shifted: bool,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matcher {
    pub(crate) label: String,
    pub(crate) op: MatchOp,
    pub(crate) value: String,
}

/// The comparison of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Matches,
    /// `!~`
    NotMatches,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) args: Vec<Expr>,
    /// Whether the result is a number without labels.
    pub(crate) is_scalar: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    /// `sum`, `avg`, ...
    pub(crate) op: String,
    pub(crate) grouping: Grouping,
    pub(crate) expr: Expr,
    /// The parameter of `topk` and similar.
    pub(crate) param: Option<Expr>,
}

/// The labels that an aggregation keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Grouping {
    /// No label: `sum(x)`.
    All,
    /// Only these labels: `sum by (a) (x)`.
    By(Vec<String>),
    /// All labels except these: `sum without (a) (x)`.
    Without(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binary {
    /// `+`, `>`, `and`, ...
    pub(crate) op: String,
    pub(crate) lhs: Expr,
    pub(crate) rhs: Expr,
    /// Whether a comparison returns 0 or 1 instead of filtering.
    pub(crate) is_bool: bool,
    /// The labels by which series of both sides match.
    pub(crate) matching: Matching,
    /// The side on which several series may match one of the other.
    pub many: Option<Side>,
    /// The labels that `group_left` or `group_right` copies from the other side.
    pub(crate) copied: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Matching {
    /// All labels but the name of the metric.
    All,
    On(Vec<String>),
    /// All labels except these.
    Ignoring(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// `group_left`
    Left,
    /// `group_right`
    Right,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultType {
    /// A number without labels.
    Scalar,
    /// Series with one sample each.
    Vector,
    /// Series with many samples each.
    Range,
    Text,
}

impl Expr {
    /// Converts the expression of the parser, with the regular expressions of the text. `None` for parser extensions.
    pub(super) fn from_parser(expr: &parser::Expr, patterns: &[String]) -> Option<Expr> {
        let convert = |expr: &parser::Expr| Expr::from_parser(expr, patterns);
        Some(match expr {
            parser::Expr::NumberLiteral(number) => Expr::Number(number.val),
            parser::Expr::StringLiteral(_) => Expr::Text,
            parser::Expr::VectorSelector(selector) => {
                Expr::Selector(Selector::from_parser(selector, patterns)?)
            }
            parser::Expr::MatrixSelector(matrix) => {
                let selector = Selector::from_parser(&matrix.vs, patterns)?;
                Expr::Range(Box::new(Expr::Selector(selector)), matrix.range)
            }
            parser::Expr::Subquery(query) => Expr::Range(Box::new(convert(&query.expr)?), query.range),
            parser::Expr::Paren(paren) => convert(&paren.expr)?,
            parser::Expr::Unary(unary) => Expr::Negative(Box::new(convert(&unary.expr)?)),
            parser::Expr::Call(call) => Expr::Call(Call {
                function: call.func.name.to_owned(),
                is_scalar: call.func.return_type == ValueType::Scalar,
                args: call.args.args.iter().map(|arg| convert(arg)).collect::<Option<_>>()?,
            }),
            parser::Expr::Aggregate(aggregate) => Expr::Aggregate(Box::new(Aggregate {
                op: aggregate.op.to_string(),
                grouping: match &aggregate.modifier {
                    None => Grouping::All,
                    Some(LabelModifier::Include(labels)) => Grouping::By(labels.labels.clone()),
                    Some(LabelModifier::Exclude(labels)) => Grouping::Without(labels.labels.clone()),
                },
                expr: convert(&aggregate.expr)?,
                param: match &aggregate.param {
                    Some(param) => Some(convert(param)?),
                    None => None,
                },
            })),
            parser::Expr::Binary(binary) => {
                let modifier = binary.modifier.as_ref();
                let many = modifier.and_then(|modifier| match modifier.card {
                    VectorMatchCardinality::ManyToOne(_) => Some(Side::Left),
                    VectorMatchCardinality::OneToMany(_) => Some(Side::Right),
                    VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany => None,
                });
                let copied = modifier.and_then(|modifier| match &modifier.card {
                    VectorMatchCardinality::ManyToOne(labels) | VectorMatchCardinality::OneToMany(labels) => {
                        Some(labels.labels.clone())
                    }
                    VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany => None,
                });
                let matching = match modifier.and_then(|modifier| modifier.matching.as_ref()) {
                    None => Matching::All,
                    Some(LabelModifier::Include(labels)) => Matching::On(labels.labels.clone()),
                    Some(LabelModifier::Exclude(labels)) => Matching::Ignoring(labels.labels.clone()),
                };
                Expr::Binary(Box::new(Binary {
                    matching,
                    copied: copied.unwrap_or_default(),
                    op: binary.op.to_string(),
                    lhs: convert(&binary.lhs)?,
                    rhs: convert(&binary.rhs)?,
                    is_bool: modifier.is_some_and(|modifier| modifier.return_bool),
                    many,
                }))
            }
            parser::Expr::Extension(_) => return None,
        })
    }

    pub(crate) fn result(&self) -> ResultType {
        match self {
            Expr::Number(_) => ResultType::Scalar,
            Expr::Text => ResultType::Text,
            Expr::Selector(_) | Expr::Aggregate(_) => ResultType::Vector,
            Expr::Range(..) => ResultType::Range,
            Expr::Call(call) if call.is_scalar => ResultType::Scalar,
            Expr::Call(_) => ResultType::Vector,
            Expr::Negative(inner) => inner.result(),
            Expr::Binary(binary) => {
                let scalar = |expr: &Expr| expr.result() == ResultType::Scalar;
                if scalar(&binary.lhs) && scalar(&binary.rhs) {
                    ResultType::Scalar
                } else {
                    ResultType::Vector
                }
            }
        }
    }

    /// Calls a function for the expression and all its descendants.
    pub(crate) fn walk<'e>(&'e self, visit: &mut impl FnMut(&'e Expr)) {
        visit(self);
        match self {
            Expr::Number(_) | Expr::Text | Expr::Selector(_) => {}
            Expr::Range(inner, _) | Expr::Negative(inner) => inner.walk(visit),
            Expr::Call(call) => call.args.iter().for_each(|arg| arg.walk(visit)),
            Expr::Aggregate(aggregate) => {
                aggregate.expr.walk(visit);
                if let Some(param) = &aggregate.param {
                    param.walk(visit);
                }
            }
            Expr::Binary(binary) => {
                binary.lhs.walk(visit);
                binary.rhs.walk(visit);
            }
        }
    }

    /// Every selector, in the order of the text.
    pub(crate) fn selectors(&self) -> Vec<&Selector> {
        let mut out = Vec::new();
        self.walk(&mut |expr| {
            if let Expr::Selector(selector) = expr {
                out.push(selector);
            }
        });
        out
    }

    /// The names of the metrics, without duplicates, in the order of the text.
    pub(crate) fn metric_names(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for name in self.selectors().into_iter().filter_map(|selector| selector.name.as_deref()) {
            if !out.contains(&name) {
                out.push(name);
            }
        }
        out
    }

    /// The selector at the end of a chain of functions and aggregations with one operand: that of
    /// `avg(max_over_time(x[5m]))`.
    pub(crate) fn sole_selector(&self) -> Option<&Selector> {
        match self {
            Expr::Selector(selector) => Some(selector),
            Expr::Range(inner, _) | Expr::Negative(inner) => inner.sole_selector(),
            Expr::Aggregate(aggregate) => aggregate.expr.sole_selector(),
            Expr::Call(call) => {
                let mut inner = call.args.iter().filter(|arg| !matches!(arg, Expr::Number(_) | Expr::Text));
                let first = inner.next()?;
                if inner.next().is_some() { None } else { first.sole_selector() }
            }
            Expr::Binary(_) | Expr::Number(_) | Expr::Text => None,
        }
    }
}

impl Selector {
    fn from_parser(selector: &parser::VectorSelector, patterns: &[String]) -> Option<Selector> {
        if !selector.matchers.or_matchers.is_empty() {
            return None;
        }
        let mut name = selector.name.clone();
        let mut matchers = Vec::new();
        for matcher in &selector.matchers.matchers {
            let (op, value) = match &matcher.op {
                // Regular expressions were replaced before parsing.
                ParserMatchOp::Re(_) | ParserMatchOp::NotRe(_) => return None,
                ParserMatchOp::Equal if is_pattern(matcher) => {
                    let pattern = pattern(matcher, patterns)?;
                    (if is_literal(&pattern) { MatchOp::Equal } else { MatchOp::Matches }, pattern)
                }
                ParserMatchOp::NotEqual if is_pattern(matcher) => {
                    let pattern = pattern(matcher, patterns)?;
                    (if is_literal(&pattern) { MatchOp::NotEqual } else { MatchOp::NotMatches }, pattern)
                }
                ParserMatchOp::Equal => (MatchOp::Equal, matcher.value.clone()),
                ParserMatchOp::NotEqual => (MatchOp::NotEqual, matcher.value.clone()),
            };
            if matcher.name == "__name__" {
                if op == MatchOp::Equal {
                    name = Some(value);
                }
                continue;
            }
            matchers.push(Matcher { label: matcher.name.clone(), op, value });
        }
        let is_shifted = selector.offset.is_some() || selector.at.is_some();
        Some(Selector { name, matchers, is_shifted })
    }
}

/// Whether the value of a matcher refers to a regular expression.
fn is_pattern(matcher: &promql_parser::label::Matcher) -> bool {
    matcher.value.starts_with(PATTERN)
}

/// Whether a pattern, which Prometheus anchors at both ends, matches only the text that it is.
fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['.', '+', '*', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\'])
}

fn pattern(matcher: &promql_parser::label::Matcher, patterns: &[String]) -> Option<String> {
    patterns.get(matcher.value.strip_prefix(PATTERN)?.parse::<usize>().ok()?).cloned()
}
