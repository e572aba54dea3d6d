//! The labels of the series in the result of a query.

use crate::promql::expr::{Binary, Expr, Grouping, MatchOp, Matching, ResultType, Selector};

/// The labels of a result, without the name of the metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Labels<'e> {
    /// At most these: those that an aggregation keeps.
    AtMost(Vec<&'e str>),
    /// At least those that Prometheus gives all series that it scrapes ([`OF_TARGETS`]).
    Scraped,
    Unknown,
}

/// The labels that each target has.
pub(crate) const OF_TARGETS: [&str; 2] = ["instance", "job"];

/// The labels of the result of an expression. `is_scraped` says of the name of a metric that its series come from a target.
pub(crate) fn labels<'e>(expr: &'e Expr, is_scraped: &dyn Fn(&str) -> bool) -> Labels<'e> {
    let of = |expr: &'e Expr| labels(expr, is_scraped);
    match expr {
        Expr::Number(_) | Expr::Text => Labels::AtMost(Vec::new()),
        Expr::Selector(selector) if is_of_target(selector, is_scraped) => Labels::Scraped,
        Expr::Selector(_) => Labels::Unknown,
        Expr::Range(inner, _) | Expr::Negative(inner) => of(inner),
        Expr::Call(call) if call.is_scalar => Labels::AtMost(Vec::new()),
        Expr::Call(call) => match call.function.as_str() {
            "vector" => Labels::AtMost(Vec::new()),
            // They take labels from matchers, or write new ones.
            "absent" | "absent_over_time" | "label_replace" | "label_join" | "info" => Labels::Unknown,
            _ => {
                let is_vector = |arg: &&Expr| matches!(arg.result(), ResultType::Vector | ResultType::Range);
                let mut vectors = call.args.iter().filter(is_vector);
                match (vectors.next().map(of), vectors.next()) {
                    (Some(Labels::AtMost(mut kept)), None) => {
                        // It merges the buckets.
                        kept.retain(|label| call.function != "histogram_quantile" || *label != "le");
                        Labels::AtMost(kept)
                    }
                    (Some(only), None) => only,
                    _ => Labels::Unknown,
                }
            }
        },
        Expr::Aggregate(aggregate) => match (aggregate.op.as_str(), &aggregate.grouping) {
            ("count_values", _) => Labels::Unknown,
            ("topk" | "bottomk" | "limitk" | "limit_ratio", _) => of(&aggregate.expr),
            (_, Grouping::All) => Labels::AtMost(Vec::new()),
            (_, Grouping::By(kept)) => Labels::AtMost(kept.iter().map(String::as_str).collect()),
            (_, Grouping::Without(gone)) => match of(&aggregate.expr) {
                Labels::AtMost(mut kept) => {
                    kept.retain(|label| !gone.iter().any(|one| one == label));
                    Labels::AtMost(kept)
                }
                Labels::Scraped if !OF_TARGETS.iter().any(|label| gone.iter().any(|one| one == label)) => {
                    Labels::Scraped
                }
                _ => Labels::Unknown,
            },
        },
        Expr::Binary(binary) => of_binary(binary, is_scraped),
    }
}

fn of_binary<'e>(binary: &'e Binary, is_scraped: &dyn Fn(&str) -> bool) -> Labels<'e> {
    let of = |expr: &'e Expr| labels(expr, is_scraped);
    match (binary.lhs.result(), binary.rhs.result()) {
        (ResultType::Scalar, _) => return of(&binary.rhs),
        (_, ResultType::Scalar) => return of(&binary.lhs),
        _ => {}
    }
    match (binary.op.as_str(), &binary.matching) {
        ("and" | "unless", _) => of(&binary.lhs),
        ("or", _) => {
            let (lhs, rhs) = (of(&binary.lhs), of(&binary.rhs));
            if lhs == rhs { lhs } else { Labels::Unknown }
        }
        _ if binary.many.is_some() => Labels::Unknown,
        (_, Matching::On(kept)) => Labels::AtMost(kept.iter().map(String::as_str).collect()),
        (_, Matching::All) => of(&binary.lhs),
        (_, Matching::Ignoring(_)) => Labels::Unknown,
    }
}

fn is_of_target(selector: &Selector, is_scraped: &dyn Fn(&str) -> bool) -> bool {
    let lacks = |label: &str| {
        let mut matchers = selector.matchers.iter();
        matchers.any(|one| one.label == label && one.op == MatchOp::Equal && one.value.is_empty())
    };
    // The name of a recorded series has colons, and may have any labels; alerts are series as well.
    let is_name = |name: &str| !name.contains(':') && !name.starts_with("ALERTS") && is_scraped(name);
    selector.name.as_deref().is_some_and(is_name) && !OF_TARGETS.iter().any(|label| lacks(label))
}
