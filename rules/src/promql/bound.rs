//! Upper bounds of the value of a query.

use crate::promql::expr::{Expr, Selector};
use crate::promql::metrics::{Unit, metric};

/// The largest possible value of an expression for any load and number of replicas: 100 for the mean of percentages.
/// `None` if it is unbounded, as a sum is.
pub(crate) fn upper_bound(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Number(number) => number.is_finite().then_some(*number),
        Expr::Selector(selector) => of_selector(selector),
        Expr::Range(inner) => upper_bound(inner),
        Expr::Text | Expr::Negative(_) => None,
        Expr::Aggregate(aggregate) => match aggregate.op.as_str() {
            "avg" | "max" | "min" | "quantile" | "topk" | "bottomk" | "limitk" => {
                upper_bound(&aggregate.expr)
            }
            _ => None,
        },
        Expr::Call(call) => match call.function.as_str() {
            "avg_over_time" | "max_over_time" | "min_over_time" | "last_over_time" | "abs" | "ceil"
            | "floor" | "round" | "sort" | "sort_desc" | "scalar" | "vector" | "label_replace"
            | "label_join" => upper_bound(call.args.first()?),
            "quantile_over_time" => upper_bound(call.args.last()?),
            "clamp_max" => match call.args.last()? {
                Expr::Number(number) => Some(*number),
                _ => None,
            },
            "clamp" => match call.args.get(2)? {
                Expr::Number(number) => Some(*number),
                _ => None,
            },
            _ => None,
        },
        Expr::Binary(binary) => {
            let number = |expr: &Expr| match expr {
                Expr::Number(number) => Some(*number),
                _ => None,
            };
            let (left, right) = (number(&binary.lhs), number(&binary.rhs));
            match binary.op.as_str() {
                "*" => match (left, right) {
                    (Some(factor), None) if factor > 0.0 => Some(factor * upper_bound(&binary.rhs)?),
                    (None, Some(factor)) if factor > 0.0 => Some(factor * upper_bound(&binary.lhs)?),
                    _ => None,
                },
                "/" => match right {
                    Some(divisor) if divisor > 0.0 => Some(upper_bound(&binary.lhs)? / divisor),
                    Some(_) => None,
                    None => share(&binary.lhs, &binary.rhs),
                },
                "-" => match left {
                    // The subtrahend is not negative.
                    Some(whole) => upper_bound(&binary.rhs).map(|_| whole),
                    None => None,
                },
                "or" => Some(upper_bound(&binary.lhs)?.max(upper_bound(&binary.rhs)?)),
                "and" | "unless" => upper_bound(&binary.lhs),
                ">" | "<" | ">=" | "<=" | "==" | "!=" if binary.is_bool => Some(1.0),
                ">" | "<" | ">=" | "<=" | "==" | "!=" if right.is_some() => upper_bound(&binary.lhs),
                _ => None,
            }
        }
    }
}

fn of_selector(selector: &Selector) -> Option<f64> {
    match metric(selector.name.as_deref()?)?.unit {
        Unit::Percent => Some(100.0),
        Unit::Ratio => Some(1.0),
        _ => None,
    }
}

/// The bound of a quotient: of a sum by the number of its parts, or of a part by the whole.
fn share(part: &Expr, whole: &Expr) -> Option<f64> {
    let (Expr::Aggregate(sum), Expr::Aggregate(count)) = (part, whole) else {
        return share_of_memory(part, whole);
    };
    if sum.op == "sum" && count.op == "count" && sum.grouping == count.grouping {
        return upper_bound(&sum.expr);
    }
    share_of_memory(part, whole)
}

/// `USED / (USED + FREE)` of a GPU's memory is at most 1.
fn share_of_memory(part: &Expr, whole: &Expr) -> Option<f64> {
    const USED: &str = "DCGM_FI_DEV_FB_USED";
    let names = whole.metric_names();
    let is_whole = names.contains(&USED) && names.contains(&"DCGM_FI_DEV_FB_FREE");
    (part.metric_names() == [USED] && is_whole && same_aggregation(part, whole)).then_some(1.0)
}

/// Whether both sides are without aggregation, or both are sums, or both means.
fn same_aggregation(part: &Expr, whole: &Expr) -> bool {
    fn op(expr: &Expr) -> Option<&str> {
        match expr {
            Expr::Aggregate(aggregate) => Some(aggregate.op.as_str()),
            Expr::Binary(binary) => op(&binary.lhs).filter(|left| op(&binary.rhs) == Some(left)),
            _ => None,
        }
    }
    op(part) == op(whole)
}
