//! A variable names a Service without the namespace in which it is.
//!
//! # Why
//! A pod looks for a name without a namespace in its own one: `http://vllm:8000` in `default` is
//! `vllm.default.svc.cluster.local`, and does not exist where the Service is in `models`. Each request ends in
//! "no such host", often at the first request only, long after the pod became ready.
//!
//! Reported are variables of containers with a URL whose host is the only Service of that name in the input, in
//! another namespace that is written, where both are applied together. Triggers of KEDA have a rule of their own
//! (`keda-address-without-namespace`).
//!
//! # Fix
//! Write the namespace too: `http://vllm.models.svc:8000`. That name works in each pod of the cluster.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: transcription, namespace: voice}
//!  spec:
//!    restartPolicy: Never
//!    containers:
//!      - name: main
//!        image: example.com/transcription:1.4.0
//!        env:
//!          - name: LLM_API_URL
//! -          value: http://vllm:8000/v1 # <-
//! +          value: http://vllm.models.svc:8000/v1
//!        resources: {requests: {cpu: 500m, memory: 1Gi}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: vllm, namespace: models}
//!  spec:
//!    selector: {app: vllm}
//!    ports: [{name: http, port: 8000}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#namespaces-of-services>

use crate::cluster::together::is_renamed;
use crate::facts::url::host;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "address-in-other-namespace",
    reads: &[Kind::SERVICE],
    reports_absence: true,
    docs: docs(include_str!("address_in_other_namespace.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let spec = &template.spec;
    // Other names than those of the cluster may be known to the pods.
    let has_names = ["hostAliases", "dnsConfig", "dnsPolicy"].iter().any(|field| spec.get(field).is_set());
    if has_names || spec.has_unknown_key() || object.is_partial() || object.is_owned() || is_renamed(object) {
        return None;
    }
    let mut reported = Vec::new();
    for container in template.all_containers() {
        for entry in container.get("env").items() {
            let value = entry.get("value");
            if let Some(name) = value.text().and_then(short_host)
                && !reported.contains(&name)
            {
                inspect(&value, name, ctx);
                reported.push(name);
            }
        }
    }
    None
}

/// The host of a URL, if it is a name without a namespace.
fn short_host(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once("://")?;
    let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-'));
    let name = host(value.trim());
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    // A list of hosts, or a password with the sign of one.
    let is_plain = !rest.contains(',') && rest.matches('@').count() < 2 && !is_placeholder(value);
    (is_scheme && is_name && is_plain && name != "localhost").then_some(name)
}

fn inspect(value: &Node<'_>, name: &str, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let service = ctx.cluster().only_likely_elsewhere(object, Kind::SERVICE, name)?;
    if service.may_lack_fields() || is_renamed(service) || may_bring_objects(ctx.cluster()) {
        return None;
    }
    let (own, other) = (object.namespace_or_default(), service.namespace()?);
    let message =
        format!("`{}` is looked up in namespace `{own}`, and that Service is in `{other}`", ellipsize(name));
    ctx.report(value, message).help(format!("write the namespace too: `{name}.{other}.svc`")).related(
        service,
        &service.path(&["metadata", "namespace"]),
        "the Service",
    );
    None
}

#[cfg(test)]
mod tests {
    use super::short_host;

    #[test]
    fn hosts_without_a_namespace() {
        for (value, name) in [
            ("http://vllm:8000/v1", Some("vllm")),
            ("bolt://neo4j:7687", Some("neo4j")),
            ("postgresql+asyncpg://user:pass@db:5432/orders", Some("db")),
            ("http://vllm.models:8000", None),
            ("http://localhost:8000", None),
            ("http://10.0.0.4:8000", None),
            ("https://example.com", None),
            ("amqp://a:5672,b:5672", None),
            ("http://${HOST}:8000", None),
            ("vllm:8000", None),
        ] {
            assert_eq!(short_host(value), name, "{value}");
        }
    }
}
