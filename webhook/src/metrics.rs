//! What the server counts, in the text format that Prometheus reads.
//!
//! Labels are words of fixed sets: no name of an object or of a namespace ever becomes one.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::review::ReviewOutcome;

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the latency histogram in seconds: from a tenth of a millisecond to ten seconds, the
/// longest that an API server is usually told to wait.
const BUCKETS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: &'static str,
    operation: &'static str,
    group: &'static str,
    kind: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    webhook: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    webhook: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabel {
    rule: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    group: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    what: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

/// Why a request got no admission answer; the failure policy of the webhook decides it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Too many requests at once.
    Shed,
    /// The body is larger than the limit.
    TooLarge,
    /// It took longer than the API server waits.
    Deadline,
    /// The body is no AdmissionReview, or did not arrive.
    Malformed,
    /// A defect of ours.
    Panic,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Failure::Shed => "shed",
            Failure::TooLarge => "too-large",
            Failure::Deadline => "deadline",
            Failure::Malformed => "malformed",
            Failure::Panic => "panic",
        }
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    seconds: Family<WebhookLabel, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    connections: Gauge,
    findings: Family<RuleLabel, Counter>,
    unsynced: Counter,
    evaluations: [Counter; 2],
    cached_evaluations: Gauge,
    objects: Family<KindLabel, Gauge>,
    synced: Family<KindLabel, Gauge>,
    rebuilds: Counter,
    panics: Family<TaskLabel, Counter>,
    reloads: Family<ReloadLabels, Counter>,
    expiry: Family<CertificateLabel, Gauge>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("gpulint");
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Metrics {
            requests: Family::default(),
            failures: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            findings: Family::default(),
            unsynced: Counter::default(),
            evaluations: Default::default(),
            cached_evaluations: Gauge::default(),
            objects: Family::default(),
            synced: Family::default(),
            rebuilds: Counter::default(),
            panics: Family::default(),
            reloads: Family::default(),
            expiry: Family::default(),
            registry: Registry::default(),
        };
        registry.register(
            "admission_requests",
            "Reviews answered, by operation, kind and decision",
            metrics.requests.clone(),
        );
        registry.register(
            "admission_failures",
            "Requests left to the failure policy, by reason",
            metrics.failures.clone(),
        );
        registry.register(
            "admission_duration_seconds",
            "Time from the request's head to its answer",
            metrics.seconds.clone(),
        );
        registry.register("admission_in_flight", "Reviews being worked on", metrics.in_flight.clone());
        registry.register("connections", "Open TLS connections", metrics.connections.clone());
        registry.register(
            "findings",
            "Findings sent as denials or warnings, by rule",
            metrics.findings.clone(),
        );
        registry.register(
            "unsynced_reviews",
            "Reviews in which rules kept silent because the objects they read were not all known",
            metrics.unsynced.clone(),
        );
        let judgements: Family<SourceLabel, Counter> = Family::default();
        registry.register("judgements", "Objects judged, by the rules or from memory", judgements.clone());
        let by = |by| judgements.get_or_create(&SourceLabel { by }).clone();
        let evaluations = [by("rules"), by("memory")];
        registry.register(
            "judgements_remembered",
            "Judgements in the memory",
            metrics.cached_evaluations.clone(),
        );
        registry.register("cache_objects", "Objects kept, by kind", metrics.objects.clone());
        registry.register("cache_synced", "1 where the kind's objects are known", metrics.synced.clone());
        registry.register("cache_rebuilds", "Times the index was rebuilt", metrics.rebuilds.clone());
        registry.register(
            "task_panics",
            "Defects that tasks in the background survived, by task",
            metrics.panics.clone(),
        );
        registry.register(
            "reloads",
            "Reloads of configuration and certificates, by result",
            metrics.reloads.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When a certificate ends, in Unix time",
            metrics.expiry.clone(),
        );
        // From the start, so that the first refusal is an increase.
        for what in ["configuration", "certificate"] {
            for result in ["ok", "refused"] {
                drop(metrics.reloads.get_or_create(&ReloadLabels { what, result }));
            }
        }
        Metrics { registry, evaluations, ..metrics }
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // A String takes everything.
        let _ = encode(&mut out, &self.registry);
        out
    }

    pub(crate) fn answered(&self, webhook: &'static str, answer: &ReviewOutcome) {
        let labels = RequestLabels {
            webhook,
            operation: answer.operation,
            group: answer.kind.map_or("", |k| k.group),
            kind: answer.kind.map_or("other", |k| k.kind),
            decision: answer.decision.name(),
        };
        self.requests.get_or_create(&labels).inc();
        if answer.unsynced {
            self.unsynced.inc();
        }
        for rule in &answer.rules {
            self.findings.get_or_create(&RuleLabel { rule }).inc();
        }
    }

    pub(crate) fn failed(&self, webhook: &'static str, failure: Failure) {
        let reason = failure.name();
        let labels = FailureLabels { webhook, reason };
        self.failures.get_or_create(&labels).inc();
    }

    pub(crate) fn observe_duration(&self, webhook: &'static str, seconds: f64) {
        self.seconds.get_or_create(&WebhookLabel { webhook }).observe(seconds);
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        InFlight::new(&self.in_flight)
    }

    pub(crate) fn connection(&self) -> InFlight {
        InFlight::new(&self.connections)
    }

    pub(crate) fn cached(&self, kind: gpulint_rules::Kind, objects: usize, synced: bool) {
        let labels = KindLabel { group: kind.group, kind: kind.kind };
        let count = i64::try_from(objects).unwrap_or(i64::MAX);
        self.objects.get_or_create(&labels).set(count);
        self.synced.get_or_create(&labels).set(i64::from(synced));
    }

    /// An object was judged: by the rules, or from memory.
    pub(crate) fn evaluated(&self, remembered: bool) {
        self.evaluations[usize::from(remembered)].inc();
    }

    /// So many judgements are remembered.
    pub(crate) fn cache_size(&self, count: usize) {
        self.cached_evaluations.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn snapshot_built(&self) {
        self.rebuilds.inc();
    }

    pub(crate) fn panicked(&self, task: &'static str) {
        self.panics.get_or_create(&TaskLabel { task }).inc();
    }

    /// `what` was read again: taken over, or refused.
    pub(crate) fn reloaded(&self, what: &'static str, taken: bool) {
        let result = if taken { "ok" } else { "refused" };
        self.reloads.get_or_create(&ReloadLabels { what, result }).inc();
    }

    pub(crate) fn expires(&self, certificate: &'static str, unix_seconds: i64) {
        self.expiry.get_or_create(&CertificateLabel { certificate }).set(unix_seconds);
    }
}

/// One more of something, for as long as it lives.
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
