//! How the value of a query follows the number of replicas: whether it is a total, or what one replica has of it.
//!
//! The horizontal pod autoscaler divides a total by the target (`AverageValue`), and multiplies the current replicas by
//! the quotient of a share and the target (`Value`). Only what a name or the form of the query shows is decided.

use crate::promql::expr::{Aggregate, Binary, Call, Expr, Grouping, MatchOp, Selector};
use crate::promql::identifiers::of_part;
use crate::promql::metrics::{Unit, metric};

/// How a value depends on the number of replicas, at the same load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// That of all replicas together.
    Total(Amount),
    /// That of one replica, or of a part of the requests: it does not add up. `certain` is false where the series may be
    /// those of one source, whose mean is a total.
    Share {
        of: Share,
        certain: bool,
    },
    Unknown,
}

/// What a total counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// Work a second, as clients send it: it does not depend on the replicas.
    Arrivals,
    /// Work in progress and used resources: about the same with any number of replicas.
    InProgress,
    /// What waits or fails: more replicas make it smaller.
    Waiting,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Mean,
    Quantile,
    /// The highest or lowest of the replicas.
    Extreme,
    /// A total divided by the number of replicas.
    PerReplica,
    /// A quotient of two sums of one metric, or of parts of a histogram.
    Ratio,
    /// A quotient of the sums of two metrics.
    Quotient,
    /// The mean or the highest queue of a replica.
    Waiting,
}

impl Share {
    /// The name in messages, with its article.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Share::Mean => "a mean",
            Share::Quantile => "a quantile",
            Share::Extreme => "the value of one replica",
            Share::PerReplica => "a total divided by the replicas",
            Share::Ratio | Share::Quotient => "a ratio",
            Share::Waiting => "the queue of one replica",
        }
    }
}

impl Load {
    const fn share(of: Share) -> Load {
        Load::Share { of, certain: true }
    }
}

/// What the name of a metric says of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    /// The time of one request.
    Latency,
    /// A percentage or a ratio.
    Utilization,
    /// What waits or fails.
    Waiting,
    InProgress,
    /// Requests, bytes or messages in a unit of time.
    Rate,
    /// A mean, a part for one replica, or how long something waits. Such values do not add up.
    Single,
    None,
}

impl Sense {
    /// The sense of a gauge, by words of its name in snake case or in camel case.
    pub(crate) fn of(name: &str) -> Sense {
        let sense = Sense::of_counter(name);
        let is_single = match sense {
            Sense::Latency | Sense::Utilization | Sense::Single => false,
            Sense::Rate => is_of_one(name),
            Sense::Waiting => is_of_one(name) || is_time(name) || is_share(&name.to_ascii_lowercase()),
            Sense::InProgress | Sense::None => is_of_one(name) || is_time(name),
        };
        if is_single { Sense::Single } else { sense }
    }

    /// The sense of what a counter counts, whose rate adds up also if it counts seconds.
    pub(crate) fn of_counter(name: &str) -> Sense {
        const LATENCY: [&str; 10] = [
            "latenc",
            "duration",
            "response_time",
            "responsetime",
            "ttft",
            "time_to_first_token",
            "time_per_output_token",
            "_p90",
            "_p95",
            "_p99",
        ];
        const WAITING: [&str; 22] = [
            "wait",
            "queue",
            "pending",
            "backlog",
            "_lag",
            "unack",
            "undelivered",
            "outstanding",
            "depth",
            "retry",
            "retries",
            "error",
            "fail",
            "timeout",
            "reject",
            "drop",
            "throttl",
            "preempt",
            "evict",
            "overflow",
            "messagesvisible",
            "messages_ready",
        ];
        const IN_PROGRESS: [&str; 9] = [
            "running",
            "in_flight",
            "inflight",
            "in_progress",
            "active",
            "concurren",
            "connections",
            "sessions",
            "in_use",
        ];
        const RATE: [&str; 8] =
            ["per_second", "per-second", "per_minute", "per-minute", "_rps", "_qps", "persecond", "_per_sec"];
        let lower = name.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if has(&RATE) {
            Sense::Rate
        } else if has(&WAITING) {
            Sense::Waiting
        } else if has(&LATENCY) {
            Sense::Latency
        } else if is_share(&lower) {
            Sense::Utilization
        } else if has(&IN_PROGRESS) {
            Sense::InProgress
        } else {
            Sense::None
        }
    }
}

/// Whether a name in lower case is that of a percentage or a ratio.
fn is_share(lower: &str) -> bool {
    const WORDS: [&str; 9] =
        ["utiliz", "utilis", "percent", "_pct", ".pct", "usage_perc", "_ratio", "_util", "saturation"];
    WORDS.iter().any(|word| lower.contains(word)) || lower.ends_with("util")
}

/// Whether the name of a metric says that it is a mean.
pub(crate) fn is_mean(name: &str) -> bool {
    words(name).iter().any(|word| matches!(word.as_str(), "avg" | "average" | "mean"))
}

/// Whether the name of a metric says that it is a mean, a quantile, an extreme, or a part for one replica.
fn is_of_one(name: &str) -> bool {
    const MEASURES: [&str; 6] = ["median", "p50", "p90", "p95", "p99", "max"];
    const PARTS: [&str; 14] = [
        "pod",
        "replica",
        "instance",
        "server",
        "node",
        "worker",
        "container",
        "target",
        "task",
        "backend",
        "endpoint",
        "consumer",
        "host",
        "gpu",
    ];
    let words = words(name);
    is_mean(name)
        || words.iter().any(|word| MEASURES.contains(&word.as_str()))
        || words.windows(2).any(|pair| pair[0] == "per" && PARTS.contains(&pair[1].as_str()))
}

/// Whether the name of a metric says that it is a time.
fn is_time(name: &str) -> bool {
    const TIMES: [&str; 14] = [
        "seconds",
        "secs",
        "sec",
        "milliseconds",
        "millis",
        "minutes",
        "mins",
        "hours",
        "age",
        "time",
        "latency",
        "duration",
        "delay",
        "oldest",
    ];
    let words = words(name);
    words.iter().any(|word| TIMES.contains(&word.as_str())) || words.last().is_some_and(|word| word == "ms")
}

/// The words of a name in snake case or in camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Labels that identify a replica.
const REPLICA: [&str; 8] = [
    "pod",
    "exported_pod",
    "pod_name",
    "kubernetes_pod_name",
    "instance",
    "container_id",
    "hostname",
    "Hostname",
];

/// How the value of a query depends on the number of replicas.
pub(crate) fn load(expr: &Expr) -> Load {
    if expr.selectors().iter().any(|selector| is_of_one_replica(selector)) {
        return Load::Unknown;
    }
    of(expr)
}

fn is_of_one_replica(selector: &Selector) -> bool {
    selector.matchers.iter().any(|m| m.op == MatchOp::Equal && REPLICA.contains(&m.label.as_str()))
}

fn of(expr: &Expr) -> Load {
    match expr {
        Expr::Number(_) | Expr::Text => Load::Unknown,
        Expr::Selector(selector) => match shared_by_name(selector) {
            Some(true) => Load::share(Share::Extreme),
            _ => Load::Unknown,
        },
        Expr::Range(inner, _) | Expr::Negative(inner) => of(inner),
        Expr::Aggregate(aggregate) => of_aggregate(aggregate),
        Expr::Call(call) => of_call(call),
        Expr::Binary(binary) => of_binary(binary),
    }
}

fn of_aggregate(aggregate: &Aggregate) -> Load {
    let of_each_replica = keeps_replicas(&aggregate.grouping);
    match aggregate.op.as_str() {
        "sum" if !of_each_replica => amount(&aggregate.expr).map_or(Load::Unknown, Load::Total),
        "avg" | "quantile" if !of_each_replica => {
            let kind = if aggregate.op == "avg" { Share::Mean } else { Share::Quantile };
            of_replicas(&aggregate.expr, kind)
        }
        "max" | "min" | "topk" | "bottomk" if !of_each_replica => {
            match of_replicas(&aggregate.expr, Share::Extreme) {
                // One source may export the same total several times.
                Load::Share { certain: false, .. } => Load::Unknown,
                load => load,
            }
        }
        _ => Load::Unknown,
    }
}

/// Whether the result of an aggregation has series of their own for the replicas.
fn keeps_replicas(grouping: &Grouping) -> bool {
    match grouping {
        Grouping::All => false,
        Grouping::By(labels) => labels.iter().any(|label| REPLICA.contains(&label.as_str())),
        Grouping::Without(_) => true,
    }
}

/// The mean, a quantile or an extreme of the series of an expression.
fn of_replicas(expr: &Expr, kind: Share) -> Load {
    match expr {
        Expr::Selector(selector) => match shared_by_name(selector) {
            Some(true) => Load::share(kind),
            Some(false) => Load::share(Share::Waiting),
            None => Load::Unknown,
        },
        Expr::Aggregate(aggregate) if keeps_replicas(&aggregate.grouping) => {
            let waits = amount(&aggregate.expr) == Some(Amount::Waiting);
            Load::share(if waits { Share::Waiting } else { kind })
        }
        Expr::Aggregate(aggregate) if aggregate.grouping == Grouping::All => of(expr),
        Expr::Call(call) => match call.function.as_str() {
            "rate" | "irate" | "increase" => match expr.sole_selector() {
                Some(selector) if amount_of_counter(selector) == Amount::Waiting => {
                    Load::share(Share::Waiting)
                }
                Some(selector) => Load::Share { of: kind, certain: is_per_replica(selector) },
                None => Load::Unknown,
            },
            "histogram_quantile" | "histogram_avg" => Load::share(Share::Quantile),
            _ => call.args.iter().find(is_vector).map_or(Load::Unknown, |arg| of_replicas(arg, kind)),
        },
        Expr::Range(inner, _) | Expr::Negative(inner) => of_replicas(inner, kind),
        Expr::Binary(binary) => match (&binary.lhs, &binary.rhs) {
            (Expr::Number(_), other) | (other, Expr::Number(_)) => of_replicas(other, kind),
            _ => match of(expr) {
                Load::Unknown if binary.op == "/" => Load::Share { of: kind, certain: false },
                load => load,
            },
        },
        _ => Load::Unknown,
    }
}

/// Whether a gauge has a value for each replica that does not add up (`true`), or a queue for each replica (`false`).
/// `None` if one source may export it for all.
fn shared_by_name(selector: &Selector) -> Option<bool> {
    let name = selector.name.as_deref()?;
    let sense = Sense::of(name);
    let may_wait = matches!(sense, Sense::Waiting | Sense::Single);
    match metric(name) {
        Some(known) if matches!(known.unit, Unit::Percent | Unit::Ratio) => Some(true),
        Some(known) if known.exporter.is_per_pod() => Some(!may_wait),
        _ if is_per_replica(selector) => Some(!may_wait),
        // A recording rule may have added them up.
        _ if name.contains(':') => None,
        _ => matches!(sense, Sense::Latency | Sense::Utilization).then_some(true),
    }
}

/// Whether the series of a counter are certainly those of replicas.
fn is_per_replica(selector: &Selector) -> bool {
    let name = selector.name.as_deref().unwrap_or_default();
    metric(name).is_some_and(|known| known.exporter.is_per_pod())
        || ["container_", "process_", "go_", "jvm_", "nodejs_", "python_"].iter().any(|p| name.starts_with(p))
}

/// What the series of an expression are, if their sum is a total. `None` if that is not known.
fn amount(expr: &Expr) -> Option<Amount> {
    match expr {
        Expr::Selector(selector) => {
            let name = selector.name.as_deref().filter(|name| !is_of_one(name))?;
            if metric(name).is_some_and(|known| matches!(known.unit, Unit::Percent | Unit::Ratio)) {
                return Some(Amount::InProgress);
            }
            Some(match Sense::of(name) {
                Sense::Waiting => Amount::Waiting,
                Sense::InProgress | Sense::Utilization => Amount::InProgress,
                Sense::Rate => Amount::Arrivals,
                // The sum of times, of means or of a recorded series means nothing that is known.
                Sense::Latency | Sense::Single => return None,
                Sense::None if name.contains(':') => return None,
                Sense::None => Amount::Other,
            })
        }
        Expr::Range(inner, _) => amount(inner),
        Expr::Aggregate(aggregate) if matches!(aggregate.op.as_str(), "sum" | "avg" | "max" | "min") => {
            amount(&aggregate.expr)
        }
        Expr::Call(call) => match call.function.as_str() {
            "rate" | "irate" | "increase" => Some(amount_of_counter(expr.sole_selector()?)),
            "avg_over_time" | "max_over_time" | "min_over_time" | "last_over_time" | "quantile_over_time"
            | "abs" | "ceil" | "floor" | "round" | "label_replace" | "clamp_min" => {
                amount(call.args.iter().find(is_vector)?)
            }
            _ => None,
        },
        Expr::Binary(binary) => match (binary.op.as_str(), &binary.lhs, &binary.rhs) {
            ("*" | "/", other, Expr::Number(_)) | ("*", Expr::Number(_), other) => amount(other),
            (">" | ">=" | "<" | "<=" | "!=", other, Expr::Number(_)) if !binary.is_bool => amount(other),
            ("+", a, b) => Some(together(amount(a)?, amount(b)?)),
            ("and" | "unless", left, _) => amount(left),
            ("or", left, right) if amount(left) == amount(right) => amount(left),
            _ => None,
        },
        _ => None,
    }
}

/// The sum of two totals: what waits beside what runs is work in progress.
fn together(a: Amount, b: Amount) -> Amount {
    match (a, b) {
        (a, b) if a == b => a,
        (Amount::Waiting, Amount::InProgress) | (Amount::InProgress, Amount::Waiting) => Amount::InProgress,
        _ => Amount::Other,
    }
}

/// What a counter counts.
fn amount_of_counter(selector: &Selector) -> Amount {
    let name = selector.name.as_deref().unwrap_or_default();
    let is_failure = selector.matchers.iter().any(|matcher| {
        let is_status =
            ["code", "status", "result", "outcome"].iter().any(|word| matcher.label.contains(word));
        is_status
            && matches!(matcher.op, MatchOp::Equal | MatchOp::Matches)
            && (matcher.value.contains('5') || Sense::of_counter(&matcher.value) == Sense::Waiting)
    });
    match Sense::of_counter(name) {
        Sense::Waiting => Amount::Waiting,
        _ if is_failure => Amount::Waiting,
        // The number of requests whose latency is measured.
        _ if name.ends_with("_count") => Amount::Arrivals,
        // Seconds of work in each second.
        _ if name.contains("seconds") || name.ends_with("_sum") => Amount::InProgress,
        Sense::None | Sense::Rate | Sense::InProgress => Amount::Arrivals,
        Sense::Latency | Sense::Utilization | Sense::Single => Amount::Other,
    }
}

fn is_vector(expr: &&Expr) -> bool {
    !matches!(expr, Expr::Number(_) | Expr::Text)
}

fn of_call(call: &Call) -> Load {
    match call.function.as_str() {
        "histogram_quantile" => Load::share(Share::Quantile),
        "histogram_avg" => Load::share(Share::Mean),
        "histogram_fraction" => Load::share(Share::Ratio),
        "avg_over_time" | "max_over_time" | "min_over_time" | "last_over_time" | "quantile_over_time"
        | "abs" | "ceil" | "floor" | "round" | "sort" | "sort_desc" | "scalar" | "vector"
        | "label_replace" | "label_join" | "clamp" | "clamp_min" | "clamp_max" => {
            call.args.iter().find(is_vector).map_or(Load::Unknown, of)
        }
        _ => Load::Unknown,
    }
}

fn of_binary(binary: &Binary) -> Load {
    let (lhs, rhs) = (&binary.lhs, &binary.rhs);
    match (binary.op.as_str(), lhs, rhs) {
        (">" | "<" | ">=" | "<=" | "==" | "!=", ..) if binary.is_bool => Load::Unknown,
        (_, Expr::Number(_), Expr::Number(_)) => Load::Unknown,
        ("*" | "/" | "+" | "-" | ">" | "<" | ">=" | "<=" | "==" | "!=" | "or", other, rhs)
            if is_constant(rhs) =>
        {
            of(other)
        }
        ("*" | "+" | "-" | ">" | "<" | ">=" | "<=" | "==" | "!=", lhs, other) if is_constant(lhs) => {
            of(other)
        }
        ("/", ..) => of_quotient(lhs, rhs),
        ("+" | "or", ..) => match (of(lhs), of(rhs)) {
            (Load::Total(a), Load::Total(b)) => Load::Total(together(a, b)),
            (a, b) if a == b => a,
            _ => Load::Unknown,
        },
        ("and" | "unless", ..) => of(lhs),
        _ => Load::Unknown,
    }
}

/// A number, or a vector of one: `vector(0)`.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) => true,
        Expr::Call(call) => call.function == "vector" && matches!(call.args.as_slice(), [Expr::Number(_)]),
        _ => false,
    }
}

fn of_quotient(part: &Expr, whole: &Expr) -> Load {
    if let (Expr::Aggregate(sum), Expr::Aggregate(count)) = (part, whole)
        && sum.op == "sum"
        && count.op == "count"
        && sum.expr == count.expr
    {
        return of_replicas(&sum.expr, Share::Mean);
    }
    match (of(part), of(whole)) {
        (Load::Total(Amount::Waiting), _) if counts_replicas(whole) => Load::share(Share::Waiting),
        (Load::Total(_), _) if counts_replicas(whole) => Load::share(Share::PerReplica),
        (Load::Total(_), Load::Total(_)) => {
            let base = |expr: &Expr| {
                let name = expr.sole_selector()?.name.as_deref()?;
                let cut = of_part(name);
                Some(cut.unwrap_or(name).to_owned())
            };
            let names = (part.metric_names(), whole.metric_names());
            let is_same = base(part).is_some() && base(part) == base(whole);
            let is_part = names.0.len() == 1 && names.1.len() > 1 && names.1.contains(&names.0[0]);
            Load::share(if is_same || is_part { Share::Ratio } else { Share::Quotient })
        }
        _ => Load::Unknown,
    }
}

/// Whether an expression is a number of replicas: a count of pods, or the replicas of a workload.
fn counts_replicas(expr: &Expr) -> bool {
    match expr {
        Expr::Aggregate(aggregate) if matches!(aggregate.op.as_str(), "count" | "sum" | "max" | "avg") => {
            let names = aggregate.expr.metric_names();
            let is_counted = |name: &&str| {
                *name == "up"
                    || name.starts_with("kube_pod_")
                    || metric(name).is_some_and(|m| m.exporter.is_per_pod())
            };
            let counts = aggregate.op == "count" && names.iter().any(is_counted);
            counts || (aggregate.op == "sum" && names == ["up"]) || counts_replicas(&aggregate.expr)
        }
        Expr::Selector(selector) => selector.name.as_deref().is_some_and(|name| {
            name.starts_with("kube_") && name.contains("_replicas") || name.ends_with("_current_replicas")
        }),
        Expr::Call(call) => {
            matches!(call.function.as_str(), "scalar" | "clamp_min" | "max_over_time" | "last_over_time")
                && call.args.first().is_some_and(counts_replicas)
        }
        Expr::Range(inner, _) => counts_replicas(inner),
        Expr::Binary(binary) if binary.op == "or" => counts_replicas(&binary.lhs),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Sense, load};
    use crate::promql::{Parsed, parse};

    /// Each query of `forms.tsv` with what it is: a total, or a share of one replica.
    #[test]
    fn what_each_form_of_a_query_measures() {
        let mut wrong = Vec::new();
        for line in include_str!("forms.tsv").lines().filter(|line| !line.starts_with('#')) {
            let row: Vec<&str> = line.split('\t').collect();
            let Parsed::Known(expr) = parse(row[0]) else { panic!("{}", row[0]) };
            let found = match load(&expr) {
                Load::Total(amount) => format!("total {amount:?}"),
                Load::Share { of, certain: true } => format!("share {of:?}"),
                Load::Share { of, certain: false } => format!("perhaps {of:?}"),
                Load::Unknown => "unknown".to_owned(),
            };
            if found != row[2] {
                wrong.push(format!("{}: {found} and not {}", row[0], row[2]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn names_say_what_they_measure() {
        for (name, expected) in [
            ("http_requests_per_second", Sense::Rate),
            ("requests-per-second", Sense::Rate),
            ("TargetResponseTime", Sense::Latency),
            ("CPUUtilization", Sense::Utilization),
            ("ApproximateNumberOfMessagesVisible", Sense::Waiting),
            ("vllm:num_requests_running", Sense::InProgress),
            ("DCGM_FI_DEV_GPU_UTIL", Sense::Utilization),
            ("RequestCount", Sense::None),
            ("queue_lag_minutes", Sense::Single),
            ("queue_time_ms", Sense::Single),
            ("queue_latency_p95", Sense::Single),
            ("QueueUtilization", Sense::Single),
            ("BacklogPerInstance", Sense::Single),
            ("pool_average_requests_per_second", Sense::Single),
            ("router_avg_queue_depth", Sense::Single),
            ("ms_orders_queue_depth", Sense::Waiting),
            ("queue_timeouts", Sense::Waiting),
        ] {
            assert_eq!(Sense::of(name), expected, "{name}");
        }
    }
}
