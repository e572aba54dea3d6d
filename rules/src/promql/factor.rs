//! What becomes of a query when some of its sums are larger by a factor, as where each series is there twice.

use crate::promql::expr::{Aggregate, Binary, Call, Expr};

/// Functions whose result does not change with the size of their argument: of a histogram a factor is in all buckets.
const STEADY: [&str; 9] = [
    "absent",
    "absent_over_time",
    "changes",
    "count_over_time",
    "histogram_quantile",
    "present_over_time",
    "resets",
    "sgn",
    "timestamp",
];

/// Aggregations that count series, or say that there are some.
const COUNTS: [&str; 3] = ["count", "count_values", "group"];

const COMPARISONS: [&str; 6] = ["==", "!=", ">", "<", ">=", "<="];

/// The aggregation by which the value of a query grows, if `grown` says of the innermost ones whether they do. A quotient of two
/// that grow does not, nor does a quantile of a histogram. `as_condition`: only whether there is a result matters, as in an alert.
pub(crate) fn grown_by<'e>(
    expr: &'e Expr,
    grown: &impl Fn(&'e Aggregate) -> bool,
    as_condition: bool,
) -> Option<&'e Aggregate> {
    match expr {
        Expr::Number(_) | Expr::Text | Expr::Selector(_) => None,
        Expr::Range(inner, _) | Expr::Negative(inner) => grown_by(inner, grown, as_condition),
        Expr::Call(Call { function, args, .. }) => {
            let mut args = args.iter().filter(|_| !STEADY.contains(&function.as_str()));
            args.find_map(|arg| grown_by(arg, grown, as_condition))
        }
        Expr::Aggregate(aggregate) if grown(aggregate) => Some(aggregate),
        Expr::Aggregate(aggregate) if COUNTS.contains(&aggregate.op.as_str()) => None,
        Expr::Aggregate(aggregate) => grown_by(&aggregate.expr, grown, as_condition),
        Expr::Binary(binary) => of_binary(binary, grown, as_condition),
    }
}

fn of_binary<'e>(
    binary: &'e Binary,
    grown: &impl Fn(&'e Aggregate) -> bool,
    as_condition: bool,
) -> Option<&'e Aggregate> {
    let Binary { op, lhs, rhs, is_bool, .. } = binary;
    let is_comparison = COMPARISONS.contains(&op.as_str());
    // A comparison asks about values, and filters series.
    let (left, right) = match op.as_str() {
        "and" | "unless" => (grown_by(lhs, grown, as_condition), grown_by(rhs, grown, true)),
        "or" => (grown_by(lhs, grown, as_condition), grown_by(rhs, grown, as_condition)),
        _ => (grown_by(lhs, grown, false), grown_by(rhs, grown, false)),
    };
    if op == "/" && left.is_some() && right.is_some() {
        return None;
    }
    if is_comparison {
        // No factor makes zero of a number, or a number of zero, and one in both sides is in none.
        let is_zero = |expr: &Expr| matches!(expr, Expr::Number(number) if *number == 0.0);
        let is_steady = is_zero(lhs) || is_zero(rhs) || left.is_some() && right.is_some();
        if is_steady && (as_condition || *is_bool || op == "==") {
            return None;
        }
    }
    left.or(right)
}
