//! What the triggers of a ScaledObject and the metrics of an HPA measure, and how it becomes a number of replicas.

use crate::keda::meaning::target_of_queue;
use crate::keda::value::number;
use crate::promql::bound::upper_bound;
use crate::promql::load::{Amount, Load, Sense, Share, is_mean, load};
use crate::rules::prelude::*;

/// How the horizontal pod autoscaler computes replicas from a value and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// `AverageValue`: value / target.
    Divided,
    /// `Value`: replicas x value / target.
    Multiplied,
}

/// A measured value with its target.
pub(super) struct Signal<'a> {
    /// The query, or the name of the metric.
    pub(super) measured: Node<'a>,
    /// The trigger, the modifiers of a ScaledObject, or the target of an HPA's metric.
    pub(super) holder: Node<'a>,
    pub(super) comparison: Comparison,
    pub(super) target: f64,
    pub(super) load: Load,
    /// The largest possible value.
    pub(super) bound: Option<f64>,
    /// Whether only the name of the metric shows what it measures.
    pub(super) is_by_name: bool,
}

impl<'a> Signal<'a> {
    /// `metricType` of a trigger or of modifiers, or `type` of the target of an HPA's metric.
    pub(super) fn metric_type(&self) -> Node<'a> {
        let is_of_keda = ["metadata", "formula"].iter().any(|field| self.holder.get(field).is_set());
        self.holder.get(if is_of_keda { "metricType" } else { "type" })
    }
}

/// The least and the largest number of replicas of an autoscaler while it runs, at least one. `None` if unknown.
pub(super) fn replica_range(object: &Object) -> Option<(i64, i64)> {
    if object.is(Kind::HPA) {
        let spec = object.get("spec");
        return Some((spec.get("minReplicas").int_or(1)?.max(1), spec.get("maxReplicas").int()?));
    }
    Some((min_replicas(object)?.max(1), max_replicas(object)?))
}

/// The signals of a ScaledObject or an HPA that are known. With a formula, a ScaledObject has that of the trigger which the formula
/// names and does not change.
pub(super) fn signals<'a>(object: &'a Object) -> Vec<Signal<'a>> {
    if object.is(Kind::HPA) {
        return object.path(&["spec", "metrics"]).items().filter_map(of_hpa_metric).collect();
    }
    let modifiers = object.path(&["spec", "advanced", "scalingModifiers"]);
    let formula = match uses_modifiers(object) {
        Some(false) => None,
        Some(true) => Some(modifiers.get("formula").text().unwrap_or_default().trim()),
        None => return Vec::new(),
    };
    let of_query = |query: &'_ crate::promql::Query| {
        let trigger = query.entry(object);
        let expr = query.parsed.expr()?;
        // A constant is deliberate.
        if !expr.selectors().iter().any(|selector| selector.name.is_some()) {
            return None;
        }
        let load = load(expr);
        let threshold = amount(&trigger.path(&["metadata", "threshold"]));
        of_trigger(&trigger, query.node(object), threshold, load, upper_bound(expr), false)
    };
    let mut out: Vec<Signal<'a>> = queries(object).iter().filter_map(of_query).collect();
    out.extend(triggers(object).filter_map(|trigger| of_named_metric(&trigger)));
    let Some(formula) = formula else { return out };
    if let Some(quotient) = of_quotient(formula, &out, &modifiers) {
        return vec![quotient];
    }
    out.retain(|signal| signal.holder.get("name").text() == Some(formula));
    let of_modifiers = |signal: Signal<'a>| {
        let Signal { measured, load, bound, is_by_name, .. } = signal;
        of_trigger(&modifiers, measured, amount(&modifiers.get("target")), load, bound, is_by_name)
    };
    out.into_iter().filter_map(of_modifiers).collect()
}

/// The signal of a formula that divides the total of one trigger by that of another.
fn of_quotient<'a>(formula: &str, triggers: &[Signal<'a>], modifiers: &Node<'a>) -> Option<Signal<'a>> {
    let (part, whole) = formula.split_once('/')?;
    let named = |name: &str| {
        let is_named = |signal: &&Signal<'_>| signal.holder.get("name").text() == Some(name.trim());
        triggers.iter().find(is_named).filter(|signal| matches!(signal.load, Load::Total(_)))
    };
    let _ = (named(part)?, named(whole)?);
    let load = Load::Share { of: Share::Quotient, certain: true };
    of_trigger(modifiers, modifiers.get("formula"), amount(&modifiers.get("target")), load, None, false)
}

/// A target as it is written.
fn amount(node: &Node<'_>) -> Option<f64> {
    number(node.text()?.trim())
}

fn of_trigger<'a>(
    trigger: &Node<'a>,
    measured: Node<'a>,
    target: Option<f64>,
    load: Load,
    bound: Option<f64>,
    is_by_name: bool,
) -> Option<Signal<'a>> {
    let metric_type = trigger.get("metricType");
    let comparison = match metric_type.text() {
        Some("AverageValue" | "") => Comparison::Divided,
        Some("Value") => Comparison::Multiplied,
        None if !metric_type.is_set() && !metric_type.is_unknown() => Comparison::Divided,
        _ => return None,
    };
    let target = target.filter(|target| *target > 0.0)?;
    Some(Signal { measured, holder: trigger.clone(), comparison, target, load, bound, is_by_name })
}

/// Types that count sessions or jobs for all replicas, with the key of their target, which is 1 by default, and what they count.
/// Source: `GetMetricSpecForScaling` of each in KEDA 2.21; that of `selenium-grid` has queued and running sessions, and no key.
const WITH_DEFAULT_TARGET: [(&str, &str, Amount); 3] = [
    ("azure-pipelines", "targetPipelinesQueueLength", Amount::Waiting),
    ("github-runner", "targetWorkflowQueueLength", Amount::Waiting),
    ("selenium-grid", "", Amount::InProgress),
];

/// The signal of a trigger that names a metric, or reads a queue.
fn of_named_metric<'a>(trigger: &Trigger<'a>) -> Option<Signal<'a>> {
    let metadata = trigger.metadata();
    let kind = trigger.kind()?;
    if let Some(key) = target_of_queue(kind) {
        let mode = metadata.get("mode");
        let load = match mode.text() {
            Some("MessageRate") => Load::Total(Amount::Arrivals),
            Some("QueueLength") | None if !mode.is_unknown() => Load::Total(Amount::Waiting),
            _ => return None,
        };
        let target = amount(&metadata.get(key));
        return of_trigger(&trigger.node, trigger.node.get("type"), target, load, None, true);
    }
    if let Some((_, key, counted)) = WITH_DEFAULT_TARGET.iter().find(|(name, ..)| *name == kind) {
        let node = metadata.get(key);
        let target = if node.is_absent() { Some(1.0) } else { amount(&node) };
        return of_trigger(
            &trigger.node,
            trigger.node.get("type"),
            target,
            Load::Total(*counted),
            None,
            true,
        );
    }
    // KEDA read this as the type of the metric, and newer versions ignore it (`datadog_scaler.go`).
    if kind == "datadog" && metadata.get("type").is_set() {
        return None;
    }
    if let "new-relic" | "loki" = kind {
        return of_query_text(trigger);
    }
    let (name, target) = match kind {
        "aws-cloudwatch" if metadata.get("expression").is_absent() => {
            (metadata.get("metricName"), metadata.get("targetMetricValue"))
        }
        "azure-monitor" => (metadata.get("metricName"), metadata.get("targetValue")),
        "gcp-stackdriver" => (metadata.get("filter"), metadata.get("targetValue")),
        "datadog" if metadata.get("queryValue").is_absent() => {
            (metadata.get("query"), metadata.get("targetValue"))
        }
        "datadog" => (metadata.get("query"), metadata.get("queryValue")),
        _ => return None,
    };
    let text = name.text()?;
    // The functions of Datadog may turn one into the other.
    let is_plain = kind != "datadog"
        || (text.matches(':').count() >= 1 && !text.contains("sum:") && !text.contains(" by "));
    let statistic = metadata.get("metricStat").text().unwrap_or("Average");
    let is_percent = kind == "aws-cloudwatch"
        && matches!(statistic, "Average" | "Maximum" | "Minimum")
        && PERCENTAGES.contains(&(metadata.get("namespace").text().unwrap_or_default(), text));
    let is_percent = is_percent || kind == "datadog" && is_datadog_percentage(text);
    let load = match Sense::of(text) {
        Sense::Latency | Sense::Utilization if is_plain && statistic != "Sum" => {
            Load::Share { of: Share::Mean, certain: true }
        }
        _ if is_percent => Load::Share { of: Share::Mean, certain: true },
        _ if is_datadog_total(kind, text) => Load::Total(Amount::Arrivals),
        Sense::None if kind == "aws-cloudwatch" && statistic == "Sum" && text.ends_with("Count") => {
            Load::Total(Amount::Arrivals)
        }
        _ => return None,
    };
    of_trigger(&trigger.node, name, amount(&target), load, is_percent.then_some(100.0), true)
}

/// Metrics of CloudWatch that are percentages of 0 to 100, by namespace. Those of Amazon ECS may exceed 100.
const PERCENTAGES: [(&str, &str); 14] = [
    ("AWS/AmazonMQ", "CpuUtilization"),
    ("AWS/DocDB", "CPUUtilization"),
    ("AWS/EC2", "CPUUtilization"),
    ("AWS/ES", "CPUUtilization"),
    ("AWS/ElastiCache", "CPUUtilization"),
    ("AWS/ElastiCache", "DatabaseMemoryUsagePercentage"),
    ("AWS/ElastiCache", "EngineCPUUtilization"),
    ("AWS/Kafka", "CpuSystem"),
    ("AWS/Kafka", "CpuUser"),
    ("AWS/MemoryDB", "EngineCPUUtilization"),
    ("AWS/Neptune", "CPUUtilization"),
    ("AWS/RDS", "CPUUtilization"),
    // The agent of CloudWatch.
    ("CWAgent", "nvidia_smi_utilization_gpu"),
    ("CWAgent", "nvidia_smi_utilization_memory"),
];

/// Metrics of Datadog's checks for NVML and for dcgm-exporter that are percentages of 0 to 100.
const DATADOG_PERCENTAGES: [&str; 6] = [
    "dcgm.dec_utilization",
    "dcgm.enc_utilization",
    "dcgm.gpu_utilization",
    "dcgm.mem.copy_utilization",
    "nvml.gpu_utilization",
    "nvml.mem_copy_utilization",
];

/// Whether a query of Datadog is the mean or an extreme of such a metric, as it is.
fn is_datadog_percentage(query: &str) -> bool {
    let Some((aggregation, rest)) = query.trim().split_once(':') else { return false };
    let scope = rest.split_once('{').filter(|(metric, _)| DATADOG_PERCENTAGES.contains(metric));
    let functions = scope.and_then(|(_, scope)| scope.split_once('}')).map(|(_, functions)| functions);
    // Functions may follow, of which those that keep the bounds are rare.
    matches!(aggregation, "avg" | "max" | "min") && functions == Some("")
}

/// The signal of a query that begins with the function for a mean or a quantile: `SELECT average(` of NRQL,
/// `quantile_over_time(` of LogQL.
fn of_query_text<'a>(trigger: &Trigger<'a>) -> Option<Signal<'a>> {
    let metadata = trigger.metadata();
    let query = metadata.get(if trigger.kind() == Some("loki") { "query" } else { "nrql" });
    let text = query.text()?.trim().to_ascii_lowercase();
    let load = if let Some(rest) = text.strip_prefix("select ") {
        let (function, rest) = rest.trim_start().split_once('(')?;
        // A mean for each facet is several values, and the mean of a queue grows with the load.
        if text.contains(" facet ")
            || !matches!(Sense::of(rest.split(')').next()?), Sense::Latency | Sense::Utilization)
        {
            return None;
        }
        match function.trim_end() {
            "average" => Load::Share { of: Share::Mean, certain: true },
            "percentile" | "median" => Load::Share { of: Share::Quantile, certain: true },
            _ => return None,
        }
    } else if text.starts_with("quantile_over_time(") {
        Load::Share { of: Share::Quantile, certain: false }
    } else {
        return None;
    };
    of_trigger(&trigger.node, query, amount(&metadata.get("threshold")), load, None, true)
}

/// Whether a query of Datadog adds up what arrives at all replicas: one sum, as a rate or a count.
fn is_datadog_total(kind: &str, query: &str) -> bool {
    let query = query.trim();
    let is_counted = [".as_rate()", ".as_count()"].iter().any(|end| query.ends_with(end));
    kind == "datadog"
        && query.starts_with("sum:")
        && is_counted
        && !query.contains(" by ")
        && !query.contains(['/', '*', '+', ','])
}

/// The signal of a metric of an HPA that an adapter serves under a telling name.
fn of_hpa_metric(metric: Node<'_>) -> Option<Signal<'_>> {
    let (source, is_object) = match metric.get("type").text()? {
        "External" => (metric.get("external"), false),
        "Object" => (metric.get("object"), true),
        _ => return None,
    };
    let name = source.path(&["metric", "name"]);
    // KEDA's own metrics are told at its ScaledObject.
    if source.path(&["metric", "selector", "matchLabels", "scaledobject.keda.sh/name"]).is_set() {
        return None;
    }
    let target = source.get("target");
    let (value, average) = (target.get("value"), target.get("averageValue"));
    // Another type is reported by hpa-target-type-mismatch.
    let (amount, comparison) = match (value.is_set(), average.is_set(), target.get("type").text()?) {
        (true, false, "Value") => (value, Comparison::Multiplied),
        (false, true, "AverageValue") => (average, Comparison::Divided),
        _ => return None,
    };
    // An External metric is the sum of its series, which may be those of replicas. An Object metric is one value.
    let load = match Sense::of(name.text()?) {
        Sense::Rate => Load::Total(Amount::Arrivals),
        Sense::Waiting => Load::Total(Amount::Waiting),
        Sense::Latency => Load::Share { of: Share::Quantile, certain: is_object },
        Sense::Utilization if is_object || is_mean(name.text()?) => {
            Load::Share { of: Share::Mean, certain: true }
        }
        _ => return None,
    };
    let target_value = Quantity::at(&amount).map(|quantity| quantity.nano() as f64 / 1e9)?;
    (target_value > 0.0).then_some(Signal {
        measured: name,
        holder: target,
        comparison,
        target: target_value,
        load,
        bound: None,
        is_by_name: true,
    })
}
