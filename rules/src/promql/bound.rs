//! The values that a query can have, at any load and with any number of replicas: an interval analysis.

use std::f64::consts::PI;

use crate::promql::expr::{Aggregate, Binary, Call, Expr, Selector};
use crate::promql::metrics::{MetricType, Unit, metric};

/// A closed interval. An end that is not known is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Interval {
    const ANY: Interval = Interval::new(f64::NEG_INFINITY, f64::INFINITY);
    const NOT_NEGATIVE: Interval = Interval::new(0.0, f64::INFINITY);
    const SHARE: Interval = Interval::new(0.0, 1.0);
    const ONE: Interval = Interval::new(1.0, 1.0);

    const fn new(least: f64, most: f64) -> Interval {
        Interval { least, most }
    }

    fn is_not_negative(self) -> bool {
        self.least >= 0.0
    }

    fn map(self, function: impl Fn(f64) -> f64) -> Interval {
        Interval::new(function(self.least), function(self.most))
    }

    fn union(self, other: Interval) -> Interval {
        Interval::new(self.least.min(other.least), self.most.max(other.most))
    }

    /// The intersection with another one; this one if they have no value in common, because the result is then empty.
    fn within(self, other: Interval) -> Interval {
        let both = Interval::new(self.least.max(other.least), self.most.min(other.most));
        if both.least <= both.most { both } else { self }
    }

    fn negated(self) -> Interval {
        Interval::new(0.0 - self.most, 0.0 - self.least)
    }

    fn plus(self, other: Interval) -> Interval {
        Interval::new(self.least + other.least, self.most + other.most)
    }

    fn times(self, other: Interval) -> Interval {
        // Zero times an end that is not known is zero, because values are finite.
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let ends = [
            product(self.least, other.least),
            product(self.least, other.most),
            product(self.most, other.least),
            product(self.most, other.most),
        ];
        let least = ends.into_iter().fold(f64::INFINITY, f64::min);
        Interval::new(least, ends.into_iter().fold(f64::NEG_INFINITY, f64::max))
    }

    fn divided_by(self, divisor: Interval) -> Interval {
        if divisor.least > 0.0 || divisor.most < 0.0 {
            return self.times(Interval::new(1.0 / divisor.most, 1.0 / divisor.least));
        }
        // Close to zero the quotient has no bound.
        if self.is_not_negative() && divisor.is_not_negative() {
            Interval::NOT_NEGATIVE
        } else {
            Interval::ANY
        }
    }

    /// The sum of any number of such values.
    fn summed(self) -> Interval {
        Interval::new(
            if self.least >= 0.0 { 0.0 } else { f64::NEG_INFINITY },
            if self.most <= 0.0 { 0.0 } else { f64::INFINITY },
        )
    }
}

/// The largest possible value of an expression for any load and number of replicas: 100 for the mean of percentages.
/// `None` if it is unbounded, as a sum is.
pub(crate) fn upper_bound(expr: &Expr) -> Option<f64> {
    Some(interval(expr).most).filter(|most| most.is_finite())
}

/// The values that an expression can have.
pub(crate) fn interval(expr: &Expr) -> Interval {
    match expr {
        Expr::Number(number) if number.is_finite() => Interval::new(*number, *number),
        Expr::Number(_) | Expr::Text => Interval::ANY,
        Expr::Selector(selector) => of_selector(selector),
        Expr::Range(inner, _) => interval(inner),
        Expr::Negative(inner) => interval(inner).negated(),
        Expr::Aggregate(aggregate) => of_aggregate(aggregate),
        Expr::Call(call) => of_call(call).unwrap_or(Interval::ANY),
        Expr::Binary(binary) => of_binary(binary),
    }
}

/// Names of gauges with the values 0 and 1.
const FLAGS: [&str; 4] =
    ["up", "kube_pod_status_ready", "kube_node_status_condition", "kube_pod_status_phase"];

/// Ends of names of values that are never negative: counters, sizes and parts of histograms.
const NOT_NEGATIVE_ENDS: [&str; 6] = ["_total", "_bucket", "_count", "_bytes", "_seconds_sum", "_bytes_sum"];

/// The framebuffer of a GPU, which DCGM counts in MiB (`default-counters.csv` of dcgm-exporter).
const FRAMEBUFFER: [&str; 4] =
    ["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_USED"];
/// More MiB than any GPU has: a B300 has 288 GB.
pub(crate) const MOST_FRAMEBUFFER: f64 = 300_000.0;

fn of_selector(selector: &Selector) -> Interval {
    let Some(name) = selector.name.as_deref() else {
        return Interval::ANY;
    };
    if FRAMEBUFFER.contains(&name) {
        return Interval::new(0.0, MOST_FRAMEBUFFER);
    }
    match metric(name) {
        Some(known) if known.kind == MetricType::Gauge && known.unit == Unit::Percent => {
            Interval::new(0.0, 100.0)
        }
        Some(known) if known.kind == MetricType::Gauge && known.unit == Unit::Ratio => Interval::SHARE,
        Some(_) => Interval::NOT_NEGATIVE,
        None if FLAGS.contains(&name) => Interval::SHARE,
        None if NOT_NEGATIVE_ENDS.iter().any(|end| name.ends_with(end)) => Interval::NOT_NEGATIVE,
        None => Interval::ANY,
    }
}

fn of_aggregate(aggregate: &Aggregate) -> Interval {
    let inner = interval(&aggregate.expr);
    match aggregate.op.as_str() {
        "avg" | "max" | "min" | "topk" | "bottomk" | "limitk" | "limit_ratio" => inner,
        // A quantile outside of 0 to 1 is infinite.
        "quantile" => match aggregate.param {
            Some(Expr::Number(quantile)) if (0.0..=1.0).contains(&quantile) => inner,
            _ => Interval::ANY,
        },
        "sum" => inner.summed(),
        "count" | "count_values" => Interval::NOT_NEGATIVE,
        "group" => Interval::ONE,
        "stddev" => deviation(inner),
        "stdvar" => deviation(inner).map(|end| end * end),
        _ => Interval::ANY,
    }
}

/// The standard deviation of values of an interval is at most half of its length.
fn deviation(values: Interval) -> Interval {
    Interval::new(0.0, (values.most - values.least) / 2.0)
}

fn of_call(call: &Call) -> Option<Interval> {
    let arg = |at: usize| call.args.get(at).map(interval);
    let number = |at: usize| match call.args.get(at)? {
        Expr::Number(number) => Some(*number),
        _ => None,
    };
    Some(match call.function.as_str() {
        "avg_over_time" | "max_over_time" | "min_over_time" | "last_over_time" | "first_over_time"
        | "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" | "scalar" | "vector"
        | "label_replace" | "label_join" => arg(0)?,
        "quantile_over_time" => match number(0) {
            Some(quantile) if (0.0..=1.0).contains(&quantile) => arg(1)?,
            _ => return None,
        },
        "sum_over_time" => arg(0)?.summed(),
        "stddev_over_time" => deviation(arg(0)?),
        "stdvar_over_time" => deviation(arg(0)?).map(|end| end * end),
        "rate" | "irate" if is_time_in_mode(call.args.first()?) => Interval::SHARE,
        "rate" | "irate" | "increase" | "count_over_time" | "changes" | "resets" | "time" | "timestamp" => {
            Interval::NOT_NEGATIVE
        }
        "present_over_time" | "absent" | "absent_over_time" => Interval::ONE,
        "histogram_fraction" => Interval::SHARE,
        "abs" => {
            let inner = arg(0)?;
            match inner.is_not_negative() {
                true => inner,
                false => Interval::new(0.0, inner.most.max(-inner.least)),
            }
        }
        "ceil" => arg(0)?.map(f64::ceil),
        "floor" => arg(0)?.map(f64::floor),
        "round" if call.args.len() == 1 => arg(0)?.map(f64::round),
        "sqrt" => arg(0)?.within(Interval::NOT_NEGATIVE).map(f64::sqrt),
        "exp" => arg(0)?.map(f64::exp),
        "sgn" => Interval::new(-1.0, 1.0),
        "clamp" => arg(0)?.within(Interval::new(number(1)?, f64::INFINITY)).within(at_most(number(2)?)),
        "clamp_max" => arg(0)?.within(at_most(number(1)?)),
        "clamp_min" => {
            let least = number(1)?;
            arg(0)?.map(|end| end.max(least))
        }
        "hour" => Interval::new(0.0, 23.0),
        "minute" => Interval::new(0.0, 59.0),
        "day_of_week" => Interval::new(0.0, 6.0),
        "day_of_month" => Interval::new(1.0, 31.0),
        "day_of_year" => Interval::new(1.0, 366.0),
        "days_in_month" => Interval::new(28.0, 31.0),
        "month" => Interval::new(1.0, 12.0),
        "sin" | "cos" | "tanh" => Interval::new(-1.0, 1.0),
        "pi" => Interval::new(PI, PI),
        _ => return None,
    })
}

fn at_most(number: f64) -> Interval {
    Interval::new(f64::NEG_INFINITY, number)
}

/// Whether a counter of seconds has one series for each mode of a processor, so that its rate is at most 1.
fn is_time_in_mode(range: &Expr) -> bool {
    let Expr::Range(inner, _) = range else { return false };
    let Expr::Selector(selector) = &**inner else { return false };
    let name = selector.name.as_deref().unwrap_or_default();
    name == "node_cpu_seconds_total"
        || (name.ends_with("_cpu_time_total") && selector.matchers.iter().any(|m| m.label == "mode"))
}

fn of_binary(binary: &Binary) -> Interval {
    let (left, right) = (interval(&binary.lhs), interval(&binary.rhs));
    match binary.op.as_str() {
        "+" => left.plus(right),
        "-" => left.plus(right.negated()),
        "*" => left.times(right),
        "/" => share(&binary.lhs, &binary.rhs).unwrap_or_else(|| left.divided_by(right)),
        "%" if right.least == right.most && right.most != 0.0 => {
            let most = right.most.abs();
            Interval::new(if left.is_not_negative() { 0.0 } else { -most }, most)
        }
        "^" if left.is_not_negative() && right.least == right.most && right.least > 0.0 => {
            left.map(|end| end.powf(right.least))
        }
        "atan2" => Interval::new(-PI, PI),
        "and" | "unless" => left,
        "or" => left.union(right),
        ">" | "<" | ">=" | "<=" | "==" | "!=" if binary.is_bool => Interval::SHARE,
        ">" | "<" | ">=" | "<=" | "==" | "!=" => filtered(binary, left, right),
        _ => Interval::ANY,
    }
}

/// The values that a comparison keeps: those of the vector, which is the left side where both are one.
fn filtered(binary: &Binary, left: Interval, right: Interval) -> Interval {
    let is_mirrored = matches!(binary.lhs, Expr::Number(_));
    let (values, limit) = if is_mirrored { (right, left) } else { (left, right) };
    let above = Interval::new(limit.least, f64::INFINITY);
    match (binary.op.as_str(), is_mirrored) {
        ("==", _) => values.within(limit),
        (">" | ">=", false) | ("<" | "<=", true) => values.within(above),
        ("<" | "<=", false) | (">" | ">=", true) => values.within(at_most(limit.most)),
        _ => values,
    }
}

/// The interval of a quotient whose parts belong together: a sum by the number of its parts, or a part by the whole.
fn share(part: &Expr, whole: &Expr) -> Option<Interval> {
    if let (Expr::Aggregate(sum), Expr::Aggregate(count)) = (part, whole)
        && sum.op == "sum"
        && count.op == "count"
        && sum.grouping == count.grouping
        && sum.expr == count.expr
    {
        return Some(interval(&sum.expr));
    }
    let (part, whole, is_mean) = without_same_aggregation(part, whole);
    let addends = addends(whole);
    // The mean of fewer series may be above that of all.
    let is_part = |addend: &&Expr| if is_mean { part == *addend } else { is_subset(part, addend) };
    let is_whole =
        addends.iter().any(is_part) && addends.iter().all(|addend| interval(addend).is_not_negative());
    (is_whole && interval(part).is_not_negative()).then_some(Interval::SHARE)
}

/// The operands of two aggregations, if both are sums or both are means over the same labels; otherwise both as they are.
/// Last, whether they are means.
fn without_same_aggregation<'e>(part: &'e Expr, whole: &'e Expr) -> (&'e Expr, &'e Expr, bool) {
    match (part, whole) {
        (Expr::Aggregate(a), Expr::Aggregate(b))
            if a.op == b.op && a.grouping == b.grouping && matches!(a.op.as_str(), "sum" | "avg") =>
        {
            (&a.expr, &b.expr, a.op == "avg")
        }
        _ => (part, whole, false),
    }
}

fn addends(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Binary(binary) if binary.op == "+" => {
            let mut out = addends(&binary.lhs);
            out.extend(addends(&binary.rhs));
            out
        }
        _ => vec![expr],
    }
}

/// Whether two expressions are equal, except that `part` may select fewer series of the same metric.
fn is_subset(part: &Expr, whole: &Expr) -> bool {
    match (part, whole) {
        (Expr::Selector(part), Expr::Selector(whole)) => {
            part.name.is_some()
                && part.name == whole.name
                && part.is_shifted == whole.is_shifted
                && whole.matchers.iter().all(|matcher| part.matchers.contains(matcher))
        }
        (Expr::Range(part, a), Expr::Range(whole, b)) => a == b && is_subset(part, whole),
        (Expr::Call(part), Expr::Call(whole)) => {
            part.function == whole.function
                && part.args.len() == whole.args.len()
                && part.args.iter().zip(&whole.args).all(|(a, b)| is_subset(a, b))
        }
        (Expr::Aggregate(part), Expr::Aggregate(whole)) => {
            part.op == "sum"
                && part.op == whole.op
                && part.grouping == whole.grouping
                && is_subset(&part.expr, &whole.expr)
        }
        _ => part == whole,
    }
}

#[cfg(test)]
mod tests {
    use super::interval;
    use crate::promql::{Parsed, parse};

    /// Each query of `forms.tsv` with the values that it can reach.
    #[test]
    fn what_each_form_of_a_query_can_reach() {
        let rows: Vec<Vec<&str>> = include_str!("forms.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect())
            .collect();
        assert!(rows.len() >= 150, "{} forms", rows.len());
        let mut wrong = Vec::new();
        for row in &rows {
            let Parsed::Known(expr) = parse(row[0]) else { panic!("{}", row[0]) };
            let found = interval(&expr);
            let found = format!("{} {}", found.least, found.most);
            if found != row[1] {
                wrong.push(format!("{}: {found} and not {}", row[0], row[1]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
