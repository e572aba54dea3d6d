//! A trigger names a Service without the namespace that KEDA's operator needs.
//!
//! # Why
//! KEDA's operator connects to the source of a trigger from its own pod, so that a short name such as
//! `redis:6379` is looked up in the namespace of the operator, usually `keda`, and not in that of the
//! workload. Each poll fails: a ScaledJob starts nothing, and a ScaledObject keeps its replicas. The pods
//! themselves reach the same name, because they are beside the Service, and the variables that triggers read
//! (`...FromEnv`) are written for them. Values in Secrets and ConfigMaps of the input are read as well.
//!
//! Nothing is reported where the input has the operator in the namespace of the trigger, or a Service of
//! that name beside the operator. Addresses of Prometheus are checked by `keda-prometheus-address-invalid`.
//!
//! # Fix
//! Write the namespace too: `redis.chat.svc:6379`. That name works in each pod of the cluster.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: indexer, namespace: search}
//!  spec:
//!    scaleTargetRef: {name: indexer}
//!    minReplicaCount: 1
//!    maxReplicaCount: 6
//!    triggers:
//!      - type: redis
//!        metadata:
//! -        address: redis:6379 # <-
//! +        address: redis.search.svc:6379
//!          listName: documents
//!          listLength: "20"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/#architecture>
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#namespaces-of-services>

use crate::facts::url::{authority, host};
use crate::rules::autoscaling::keda_address_loopback;
use crate::rules::autoscaling::keda_address_loopback::values;
use crate::rules::autoscaling::keda_auth_source_missing::{OperatorNamespace, operator_namespace};
use crate::rules::prelude::*;
use crate::workload::charts::CHART_KINDS;

pub(crate) static RULE: Rule = Rule {
    id: "keda-address-without-namespace",
    reads: kinds![keda_address_loopback::READS, [Kind::SERVICE], CHART_KINDS],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_address_without_namespace.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The keys, in lower case, whose value is an address or a list of addresses.
const KEYS: [&str; 16] = [
    "address",
    "addresses",
    "adminurl",
    "bootstrapservers",
    "clusteripaddress",
    "endpoints",
    "host",
    "hosts",
    "managementendpoint",
    "natsservermonitoringendpoint",
    "nsqlookupdhttpaddresses",
    "scaleraddress",
    "server",
    "serveraddress",
    "serverurl",
    "url",
];

/// The namespaces in which the operator usually is.
const USUAL: [&str; 2] = ["keda", "keda-system"];

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let namespace = object.namespace_or_default();
    if trigger.kind() == Some("prometheus") || object.is_namespace_unknown() || USUAL.contains(&namespace) {
        return None;
    }
    let addresses = values(trigger, object, ctx).into_iter().filter(|read| KEYS.contains(&read.key.as_str()));
    let short: Vec<_> = addresses
        .filter_map(|read| Some((read.value.split(',').find_map(short_name)?.to_owned(), read)))
        .collect();
    // The operator is searched for among all that installs charts.
    if short.is_empty() {
        return None;
    }
    let operator = match operator_namespace(ctx) {
        OperatorNamespace::Known(namespace) => Some(namespace),
        OperatorNamespace::NotInInput => None,
        OperatorNamespace::Unknown => return None,
    };
    let runs_in = |namespace: &str| USUAL.contains(&namespace) || operator.as_deref() == Some(namespace);
    if runs_in(namespace) {
        return None;
    }
    let cluster = ctx.cluster();
    for (name, read) in short {
        if cluster.written_as(Kind::SERVICE, &name).any(|service| runs_in(service.namespace_or_default())) {
            continue;
        }
        let is_known = object.namespace().is_some() && cluster.has(Kind::SERVICE, namespace, &name);
        let by = read.variable.map(|variable| format!(" (`{}`)", ellipsize(variable))).unwrap_or_default();
        let message =
            format!("`{}`{by} has no namespace: KEDA's operator resolves it in its own", ellipsize(&name));
        let finding = ctx.report(&read.node, message);
        let namespace = if is_known { namespace } else { "NAMESPACE" };
        finding.help(format!("write the namespace too: `{name}.{namespace}.svc`"));
        if let Some((holder, what)) = read.holder {
            finding.related(holder, &holder.path(&["metadata", "name"]), what);
        }
    }
    None
}

/// The host of an address, if it is the bare name of a Service.
fn short_name(address: &str) -> Option<&str> {
    let address = address.trim();
    let name = host(address);
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    // A password may have a character after which the host is not found.
    let is_whole = !address.contains('@') || authority(address).contains('@');
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(part);
    (is_whole && is_name && name != "localhost").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn names_without_a_namespace() {
        for (address, name) in [
            ("redis:6379", "redis"),
            ("amqp://guest:guest@rabbitmq:5672/", "rabbitmq"),
            ("http://graphite", "graphite"),
            (" kafka-0:9092", "kafka-0"),
        ] {
            assert_eq!(short_name(address), Some(name), "{address}");
        }
        for address in [
            "redis.chat:6379",
            "localhost:6379",
            "10.0.0.1:6379",
            "[fd00::1]:6379",
            "${REDIS}:6379",
            "amqp://user:pass/word@rabbitmq.chat:5672",
            "amqp://user:pass/word@rabbitmq:5672",
            "",
        ] {
            assert_eq!(short_name(address), None, "{address}");
        }
    }
}
