//! The server's metrics, in the OpenMetrics text format.
//!
//! Label values come from fixed sets (kinds, rule ids, outcomes), so that the number of series is
//! bounded: names of objects and namespaces are never labels.

use std::time::{SystemTime, UNIX_EPOCH};

use gpulint_rules::Kind;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Buckets of the latency histogram in seconds. The last bound is 10 s, the default `timeoutSeconds` of
/// a webhook configuration.
const BUCKETS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

type Label = (&'static str, &'static str);

/// Counters and gauges of one name, distinguished by `N` labels. An array needs no allocation per request.
type Counters<const N: usize> = Family<[Label; N], Counter>;
type Gauges<const N: usize> = Family<[Label; N], Gauge>;

/// Why a request was answered with an HTTP error instead of an AdmissionReview; the API server then
/// applies the webhook's `failurePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The client, or all of them together, had [`Limits::reviews`](crate::Limits::reviews) reviews or
    /// [`Limits::held`](crate::Limits::held) bytes.
    Shed,
    /// The body did not arrive within [`Limits::read`](crate::Limits::read).
    Slow,
    /// The body is larger than [`Limits::body`](crate::Limits::body).
    TooLarge,
    /// The review was not finished before its deadline.
    Deadline,
    /// The body is not an AdmissionReview, or could not be read completely.
    Malformed,
    /// The task that evaluated the review panicked outside of the rules.
    Panic,
    /// The client gave up before it was answered.
    Gone,
}

impl Failure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::Shed => "shed",
            Failure::Slow => "slow-body",
            Failure::TooLarge => "too-large",
            Failure::Deadline => "deadline",
            Failure::Malformed => "malformed",
            Failure::Panic => "panic",
            Failure::Gone => "gone",
        }
    }
}

/// Registers a metric, and returns a handle of it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Counters<5>,
    failures: Counters<2>,
    seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    connections: Gauge,
    connections_closed: Counters<1>,
    findings: Counters<1>,
    unsynced: Counter,
    unconfirmed: Counter,
    /// Evaluations by the rules, and from the evaluation cache.
    evaluations: [Counter; 2],
    cached_evaluations: Gauge,
    objects: Gauges<2>,
    synced: Gauges<2>,
    served: Gauges<2>,
    rebuilds: Counter,
    panics: Counters<1>,
    reloads: Counters<2>,
    expiry: Gauges<1>,
    registered: Gauges<1>,
    last_request: Gauges<1>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("gpulint");
        let all = &mut registry;
        let metrics = Metrics {
            requests: register(
                all,
                "admission_requests",
                "Reviews answered, by operation, kind and decision",
            ),
            failures: register(all, "admission_failures", "Requests answered with an HTTP error, by reason"),
            seconds: {
                let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
                let family = Family::new_with_constructor(histogram);
                all.register(
                    "admission_duration_seconds",
                    "Time from the head of a request to its response",
                    family.clone(),
                );
                family
            },
            in_flight: register(all, "admission_in_flight", "Reviews in flight"),
            connections: register(all, "connections", "Open TLS connections"),
            connections_closed: register(
                all,
                "connections_closed",
                "Connections closed before their TLS handshake was complete (handshake), or to make room for others",
            ),
            findings: register(all, "findings", "Findings sent as denials or warnings, by rule"),
            unsynced: register(
                all,
                "unsynced_reviews",
                "Reviews in which rules could not report because kinds that they read were not listed yet",
            ),
            unconfirmed: register(
                all,
                "unconfirmed_reviews",
                "Reviews without the objects that may conflict, which the API server did not return in time",
            ),
            evaluations: {
                let family: Counters<1> =
                    register(all, "evaluations", "Objects evaluated, by the rules or from the cache");
                ["rules", "memory"].map(|by| family.get_or_create_owned(&[("by", by)]))
            },
            cached_evaluations: register(all, "evaluations_remembered", "Entries in the evaluation cache"),
            objects: register(all, "cache_objects", "Objects in the cache, by kind"),
            synced: register(
                all,
                "cache_synced",
                "1 if all objects of the kind are known, 0 if not; absent for kinds that the API server does not serve",
            ),
            served: register(all, "cache_served", "1 if the API server serves the kind, 0 if it does not"),
            rebuilds: register(all, "cache_rebuilds", "Snapshots built"),
            panics: register(all, "task_panics", "Panics of background tasks, by task"),
            reloads: register(all, "reloads", "Reloads of configuration and certificates, by result"),
            expiry: register(
                all,
                "certificate_expiry_timestamp_seconds",
                "When a certificate expires, in Unix time",
            ),
            registered: register(
                all,
                "registered",
                "1 if the webhook configuration exists and leads to this server",
            ),
            last_request: register(
                all,
                "last_request_timestamp_seconds",
                "When the last request arrived at a webhook, in Unix time; the start of the server before that",
            ),
            registry,
        };
        // Exported as 0 from the start: `increase()` does not see the first increment of a series
        // that did not exist before.
        for what in ["configuration", "certificate"] {
            for result in ["ok", "refused"] {
                drop(metrics.reloads.get_or_create(&[("what", what), ("result", result)]));
            }
        }
        for webhook in ["validate", "mutate"] {
            metrics.requested(webhook);
        }
        metrics
    }

    /// The exposition text, of type [`CONTENT_TYPE`].
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }

    /// Counts a review that was answered. A kind that no rule checks is counted as `other`.
    pub(crate) fn answered(
        &self,
        webhook: &'static str,
        operation: &'static str,
        kind: Option<Kind>,
        decision: &'static str,
    ) {
        let labels = [
            ("webhook", webhook),
            ("operation", operation),
            ("group", kind.map_or("", |k| k.group)),
            ("kind", kind.map_or("other", |k| k.kind)),
            ("decision", decision),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a finding that was sent to the client.
    pub(crate) fn finding_sent(&self, rule: &'static str) {
        self.findings.get_or_create(&[("rule", rule)]).inc();
    }

    /// Counts a review whose rules could not read all kinds that they need.
    pub(crate) fn reviewed_unsynced(&self) {
        self.unsynced.inc();
    }

    /// Counts a review for which the API server did not return the objects that may conflict.
    pub(crate) fn reviewed_unconfirmed(&self) {
        self.unconfirmed.inc();
    }

    pub(crate) fn failed(&self, webhook: &'static str, failure: Failure) {
        let labels = [("webhook", webhook), ("reason", failure.name())];
        self.failures.get_or_create(&labels).inc();
    }

    pub(crate) fn observe_duration(&self, webhook: &'static str, seconds: f64) {
        self.seconds.get_or_create(&[("webhook", webhook)]).observe(seconds);
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        InFlight::new(&self.in_flight)
    }

    pub(crate) fn connection(&self) -> InFlight {
        InFlight::new(&self.connections)
    }

    /// Counts a connection that was closed: in its `handshake`, because the server is `full`, or `displaced` by another.
    pub(crate) fn connection_closed(&self, why: &'static str) {
        self.connections_closed.get_or_create(&[("why", why)]).inc();
    }

    /// Records how many objects of a kind are known, and whether these are all of them.
    pub(crate) fn cached(&self, kind: Kind, objects: usize, synced: bool, served: bool) {
        let labels = [("group", kind.group), ("kind", kind.kind)];
        self.served.get_or_create(&labels).set(i64::from(served));
        if served {
            let count = i64::try_from(objects).unwrap_or(i64::MAX);
            self.objects.get_or_create(&labels).set(count);
            self.synced.get_or_create(&labels).set(i64::from(synced));
        } else {
            self.objects.remove(&labels);
            self.synced.remove(&labels);
        }
    }

    /// Removes what was recorded of a kind that is no longer watched.
    pub(crate) fn not_cached(&self, kind: Kind) {
        let labels = [("group", kind.group), ("kind", kind.kind)];
        for family in [&self.objects, &self.synced, &self.served] {
            family.remove(&labels);
        }
    }

    /// Counts an object that was evaluated: by the rules, or from the evaluation cache.
    pub(crate) fn evaluated(&self, from_cache: bool) {
        self.evaluations[usize::from(from_cache)].inc();
    }

    /// Sets the number of entries in the evaluation cache.
    pub(crate) fn cache_size(&self, count: usize) {
        self.cached_evaluations.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn snapshot_built(&self) {
        self.rebuilds.inc();
    }

    pub(crate) fn panicked(&self, task: &'static str) {
        self.panics.get_or_create(&[("task", task)]).inc();
    }

    /// Counts a reload of `what`: accepted, or refused because it was invalid.
    pub(crate) fn reloaded(&self, what: &'static str, accepted: bool) {
        let result = if accepted { "ok" } else { "refused" };
        self.reloads.get_or_create(&[("what", what), ("result", result)]).inc();
    }

    /// Records whether a webhook configuration has this server as its target.
    pub(crate) fn registered(&self, configuration: &'static str, is: bool) {
        self.registered.get_or_create(&[("configuration", configuration)]).set(i64::from(is));
    }

    /// Records the arrival of a request.
    pub(crate) fn requested(&self, webhook: &'static str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.last_request.get_or_create(&[("webhook", webhook)]).set(now);
    }

    /// Records when a certificate expires.
    pub(crate) fn expires(&self, certificate: &'static str, unix_seconds: i64) {
        self.expiry.get_or_create(&[("certificate", certificate)]).set(unix_seconds);
    }
}

/// Increments a gauge until the value is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl InFlight {
    fn new(gauge: &Gauge) -> InFlight {
        gauge.inc();
        InFlight(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that begin with `gpulint_` in a text.
    fn names(text: &str) -> impl Iterator<Item = &str> {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        text.match_indices("gpulint_").map(move |(at, _)| text[at..].split(ends).next().unwrap())
    }

    #[test]
    fn alerts_and_dashboard_ask_for_metrics_that_exist() {
        let metrics = Metrics::new();
        // A family without a series is not exported.
        metrics.answered("validate", "CREATE", None, "allowed");
        metrics.failed("validate", Failure::Shed);
        metrics.observe_duration("validate", 0.1);
        metrics.finding_sent("pdb-missing");
        metrics.cached(Kind::POD, 1, true, true);
        metrics.panicked("watch");
        metrics.expires("ca", 0);
        metrics.registered("ValidatingWebhookConfiguration", true);
        let text = metrics.text();
        let exported: Vec<&str> = names(&text).collect();
        let files = [
            include_str!("../chart/templates/monitoring.yaml"),
            include_str!("../chart/files/dashboard.json"),
        ];
        let mut count = 0;
        for name in files.into_iter().flat_map(names) {
            count += 1;
            let family =
                ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known = exported.iter().any(|known| *known == name || Some(*known) == family);
            assert!(known, "{name}");
        }
        assert!(count > 10, "{count}");
    }
}
