//! The number of series in the result of a query.

use crate::promql::expr::{Expr, Grouping, MatchOp, ResultType, Selector, Side};
use crate::promql::metrics::metric;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// At most one.
    One,
    Unknown,
    /// One for each combination of label values: no aggregation removes the labels.
    Many,
    /// One for each pod or each GPU.
    EachPod,
}

impl Series {
    /// The smaller of two: the result of matching both sides.
    fn fewer(self, other: Series) -> Series {
        if self.rank() <= other.rank() { self } else { other }
    }

    /// The larger of two.
    fn more(self, other: Series) -> Series {
        if self.rank() >= other.rank() { self } else { other }
    }

    fn rank(self) -> u8 {
        match self {
            Series::One => 0,
            Series::Unknown => 1,
            Series::Many => 2,
            Series::EachPod => 3,
        }
    }
}

/// Labels that identify a pod or a GPU.
const IDENTITIES: [&str; 9] =
    ["pod", "exported_pod", "instance", "gpu", "UUID", "Hostname", "hostname", "pod_name", "device"];

/// The number of series of an instant vector.
pub(crate) fn series(expr: &Expr) -> Series {
    match expr {
        Expr::Number(_) | Expr::Text => Series::One,
        Expr::Selector(selector) => of_selector(selector),
        Expr::Range(inner, _) | Expr::Negative(inner) => series(inner),
        Expr::Call(call) => match call.function.as_str() {
            "vector" | "absent" | "absent_over_time" | "time" | "scalar" | "pi" => Series::One,
            "histogram_quantile" => call.args.last().map_or(Series::Unknown, without_buckets),
            "label_replace" | "label_join" | "info" => Series::Unknown,
            _ => {
                let vectors = call.args.iter().filter(|arg| !matches!(arg, Expr::Number(_) | Expr::Text));
                vectors.map(series).reduce(Series::more).unwrap_or(Series::One)
            }
        },
        Expr::Aggregate(aggregate) => {
            let inner = series(&aggregate.expr);
            let picks = match aggregate.op.as_str() {
                "topk" | "bottomk" | "limitk" => match aggregate.param {
                    Some(Expr::Number(count)) if count <= 1.0 => true,
                    _ => return inner.fewer(Series::Many),
                },
                "count_values" | "limit_ratio" => return inner.fewer(Series::Many),
                _ => true,
            };
            match &aggregate.grouping {
                Grouping::All if picks => Series::One,
                Grouping::By(labels) => {
                    let selectors = aggregate.expr.selectors();
                    let fixed = |label: &String| {
                        !selectors.is_empty() && selectors.iter().all(|selector| selector.fixes(label))
                    };
                    if labels.iter().all(fixed) { Series::One } else { inner.fewer(Series::Many) }
                }
                _ => inner.fewer(Series::Many),
            }
        }
        Expr::Binary(binary) => {
            let (lhs, rhs) = (series(&binary.lhs), series(&binary.rhs));
            match (binary.lhs.result(), binary.rhs.result()) {
                (ResultType::Scalar, _) => return rhs,
                (_, ResultType::Scalar) => return lhs,
                _ => {}
            }
            match (binary.op.as_str(), binary.many) {
                ("or", _) => lhs.more(rhs),
                ("and" | "unless", _) | (_, Some(Side::Left)) => lhs,
                (_, Some(Side::Right)) => rhs,
                _ => lhs.fewer(rhs),
            }
        }
    }
}

/// The series of the quantile of a histogram, which merges its buckets.
fn without_buckets(expr: &Expr) -> Series {
    match expr {
        Expr::Aggregate(aggregate) => match &aggregate.grouping {
            Grouping::By(labels) => {
                let selectors = aggregate.expr.selectors();
                let fixed = |label: &String| {
                    label == "le" || !selectors.is_empty() && selectors.iter().all(|s| s.fixes(label))
                };
                if labels.iter().all(fixed) { Series::One } else { Series::Many }
            }
            Grouping::All => Series::One,
            Grouping::Without(_) => Series::Many,
        },
        _ => series(expr),
    }
}

fn of_selector(selector: &Selector) -> Series {
    let Some(name) = selector.name.as_deref() else {
        return Series::Unknown;
    };
    if IDENTITIES.iter().any(|label| selector.fixes(label)) {
        return Series::Unknown;
    }
    if metric(name).is_some_and(|metric| metric.exporter.is_per_pod()) {
        return Series::EachPod;
    }
    // A recording rule may aggregate all labels.
    if name.contains(':') { Series::Unknown } else { Series::Many }
}

impl Selector {
    /// Whether the matchers allow a single value of a label.
    pub(crate) fn fixes(&self, label: &str) -> bool {
        self.matchers.iter().any(|matcher| {
            matcher.label == label && matcher.op == MatchOp::Equal && !matcher.value.is_empty()
        })
    }
}
