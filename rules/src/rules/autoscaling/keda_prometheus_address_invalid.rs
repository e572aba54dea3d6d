//! KEDA does not reach Prometheus at the address of a trigger.
//!
//! # Why
//! KEDA appends `/api/v1/query` to `serverAddress` and sends the query from its own namespace. Without
//! a scheme no request is made; with the path of the API or of the web page in it the answer is 404;
//! and the bare name of a Service is looked up in KEDA's namespace, where it usually is not. The
//! metric cannot be read, and the replicas stay where they are.
//!
//! # Fix
//! Write scheme, Service, namespace and port: `http://prometheus.monitoring.svc:9090`.
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
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/>

use crate::keda::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-prometheus-address-invalid",
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
    let Some(rest) = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")) else {
        ctx.report(&node, format!("`serverAddress` `{}` has no `http://` or `https://`", ellipsize(text)))
            .help("write the scheme before it");
        return None;
    };
    let path = text.trim_end_matches('/');
    if let Some((base, end)) = PATHS.iter().find_map(|end| Some((path.strip_suffix(end)?, end))) {
        ctx.report(&node, format!("`serverAddress` ends in `{end}`, and KEDA adds its own path"))
            .help(format!("remove `{end}`"))
            .fix(Fix::safe(format!("remove `{end}`")).set(&node, json!(base)));
        return None;
    }
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let name = host.split(':').next()?;
    if !name.is_empty() && !name.contains(['.', '[']) {
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
