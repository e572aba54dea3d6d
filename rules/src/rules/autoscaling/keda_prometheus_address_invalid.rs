//! KEDA does not reach Prometheus at the address of a trigger.
//!
//! # Why
//! KEDA appends `/api/v1/query` to `serverAddress` and sends the query from its own namespace. Without
//! a scheme no request is made; with the path of the API or of the web page in it the answer is 404;
//! and the bare name of a Service is looked up in KEDA's namespace, where it usually is not. The
//! metric cannot be read, and the replicas stay where they are. Amazon Managed Service for Prometheus answers
//! 403 to requests that are not signed; KEDA signs them with a pod identity `aws`, with an access key and its
//! secret, or, with `identityOwner: operator`, as its operator. The managed services of Azure, Google and
//! Grafana answer 401 to a request without credentials.
//!
//! # Fix
//! Write scheme, Service, namespace and port: `http://prometheus.monitoring.svc:9090`. For Amazon's service, name
//! a TriggerAuthentication with `podIdentity: {provider: aws}`, and write `awsRegion`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    triggers:
//!      - type: prometheus
//!        metadata:
//! -        serverAddress: http://prometheus.monitoring.svc:9090/graph # <-
//! +        serverAddress: http://prometheus.monitoring.svc:9090
//!          query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/prometheus/>
//! - <https://keda.sh/docs/latest/scalers/prometheus/#example-amazon-managed-service-for-prometheus>
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/>

use crate::facts::url::host;
use crate::keda::sources::Authentication;
use crate::rules::autoscaling::keda_trigger_invalid::authentication;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-prometheus-address-invalid",
    reads: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_prometheus_address_invalid.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::error(Group::Autoscaling)
};

/// Paths that belong to Prometheus itself.
const PATHS: [&str; 3] = ["/api/v1/query_range", "/api/v1/query", "/graph"];

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if trigger.kind() != Some("prometheus") {
        return None;
    }
    let node = trigger.metadata().get("serverAddress");
    let text = node.text().map(str::trim).filter(|t| !t.is_empty())?;
    let lower = text.to_ascii_lowercase();
    if !["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme)) {
        ctx.report(&node, format!("`serverAddress` `{}` has no `http://` or `https://`", ellipsize(text)))
            .help("write the scheme before it");
        return None;
    }
    let path = text.trim_end_matches('/');
    if let Some((base, end)) = PATHS.iter().find_map(|end| Some((path.strip_suffix(end)?, end))) {
        ctx.report(&node, format!("`serverAddress` ends in `{end}`, and KEDA adds its own path"))
            .help(format!("remove `{end}`"))
            .fix(Fix::safe(format!("remove `{end}`")).set(&node, json!(base)));
        return None;
    }
    let name = host(&lower);
    if name.starts_with("aps-workspaces") && name.ends_with(".amazonaws.com") {
        return unsigned(trigger, ctx);
    }
    if let Some(service) = CLOSED.iter().find(|service| service.hosts.iter().any(|end| name.ends_with(end))) {
        return anonymous(trigger, service, ctx);
    }
    // What KEDA's operator itself is called is reported by keda-address-loopback.
    if !name.is_empty() && name != "localhost" && !name.contains(['.', '[']) {
        ctx.report(
            &node,
            format!(
                "`{}` has no namespace: KEDA's operator resolves it in its own namespace",
                ellipsize(name)
            ),
        )
        .help("write the namespace too: `http://NAME.NAMESPACE.svc:PORT`")
        .severity(Severity::Warning);
    }
    None
}

/// A service of Prometheus that answers no request without credentials.
struct Closed {
    /// The ends of its host names.
    hosts: &'static [&'static str],
    name: &'static str,
    help: &'static str,
}

/// KEDA 2.21 `prometheus_scaler.go`: without a pod identity or a mode it sends no credentials to any of them.
const CLOSED: [Closed; 3] = [
    Closed {
        hosts: &[
            ".prometheus.monitor.azure.com",
            ".prometheus.monitor.azure.us",
            ".prometheus.monitor.azure.cn",
        ],
        name: "Azure's managed Prometheus",
        help: "name a TriggerAuthentication with `podIdentity: {provider: azure-workload}`",
    },
    Closed {
        hosts: &["monitoring.googleapis.com"],
        name: "Google's managed Prometheus",
        help: "name a TriggerAuthentication with `podIdentity: {provider: gcp}`",
    },
    Closed {
        hosts: &[".grafana.net"],
        name: "Grafana Cloud",
        help: "write `authModes: basic`, and name a TriggerAuthentication with `username` and `password`",
    },
];

/// Reports a trigger without any credentials.
fn anonymous(trigger: &Trigger<'_>, service: &Closed, ctx: &mut Context<'_>) -> Option<()> {
    let metadata = trigger.metadata();
    let is_given = |key: &str| {
        ["auth", "customHeaders", "queryParameters", "credentials"].iter().any(|word| key.starts_with(word))
    };
    if trigger.has_authentication()
        || metadata.entries().iter().any(|(key, _)| is_given(key))
        || metadata.has_unknown_key()
        || trigger.node.has_unknown_key()
        || ctx.object().may_lack_fields()
    {
        return None;
    }
    let message = format!("KEDA sends no credentials, and {} answers 401", service.name);
    ctx.report(&trigger.node.get("authenticationRef"), message)
        .severity(Severity::Warning)
        .help(service.help);
    None
}

/// Reports a trigger whose requests to Amazon Managed Service for Prometheus are not signed: `GetAwsAuthorization` and
/// `NewSigV4RoundTripper` of KEDA.
fn unsigned(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let metadata = trigger.metadata();
    let owner = metadata.get("identityOwner");
    let is_set = |key: &str| ["", "FromEnv"].iter().any(|end| metadata.get(&format!("{key}{end}")).is_set());
    let has_keys = is_set("awsAccessKeyID") && is_set("awsSecretAccessKey");
    let is_signed = has_keys || owner.is_unknown() || owner.text() == Some("operator");
    let source = authentication(ctx.object(), trigger, ctx);
    if !lacks_aws(trigger, source)
        || is_signed
        || metadata.has_unknown_key()
        || trigger.node.has_unknown_key()
        || ctx.object().may_lack_fields()
    {
        return None;
    }
    let message = "KEDA does not sign its requests, and Amazon Managed Service for Prometheus answers 403";
    let finding = ctx.report(&trigger.node.get("authenticationRef"), message);
    finding
        .severity(Severity::Warning)
        .help("name a TriggerAuthentication with `podIdentity: {provider: aws}`, and write `awsRegion`");
    if let Some(source) = source {
        finding.related(
            source,
            &source.path(&["metadata", "name"]),
            "it has neither a pod identity nor keys of AWS",
        );
    }
    None
}

/// Whether a trigger names no TriggerAuthentication, or one that has neither a pod identity nor a parameter of AWS.
fn lacks_aws(trigger: &Trigger<'_>, source: Option<&Object>) -> bool {
    let Some(source) = source else {
        return !trigger.has_authentication();
    };
    match Authentication::of(&source.get("spec")) {
        Authentication::Known(given) => {
            given.identity == "none" && !given.names.iter().any(|name| name.starts_with("aws"))
        }
        Authentication::None | Authentication::Unknown => false,
    }
}
