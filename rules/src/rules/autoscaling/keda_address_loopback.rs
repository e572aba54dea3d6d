//! A trigger names an address of its own pod, and KEDA's operator asks it.
//!
//! # Why
//! KEDA's operator connects to the source of a trigger, from its own pod. `localhost` and `127.0.0.1` are that
//! pod, where no broker and no Prometheus listens: each poll fails, and nothing scales. The address often
//! comes from the environment of the workload (`...FromEnv`), whose own pod has a proxy beside it.
//!
//! Nothing is reported where the operator is in the input with a container beside it, or in the network of its
//! node.
//!
//! # Fix
//! Write the name of the Service with its namespace, which resolves in each pod of the cluster.
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
//!      - type: kafka
//!        metadata:
//! -        bootstrapServers: localhost:9092 # <-
//! +        bootstrapServers: kafka.search.svc:9092
//!          consumerGroup: indexer
//!          topic: documents
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/#architecture>
//! - <https://keda.sh/docs/latest/concepts/authentication/#environment-variables>

use crate::facts::url::host;
use crate::keda::scalers::KeyStatus;
use crate::rules::autoscaling::keda_trigger_invalid::{READS, environment, holder};
use crate::rules::prelude::*;
use crate::workload::environment::Variable;

pub(crate) static RULE: Rule = Rule {
    id: "keda-address-loopback",
    reads: &READS,
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_address_loopback.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// A value that KEDA's operator reads from the metadata of a trigger.
pub(super) struct ReadValue<'a> {
    pub(super) node: Node<'a>,
    /// The key in lower case, without `FromEnv`.
    pub(super) key: String,
    pub(super) value: &'a str,
    /// The variable that has the value.
    pub(super) variable: Option<&'a str>,
    /// The object with the environment, where that is another one than the scaler.
    pub(super) holder: Option<&'a Object>,
}

/// The values that KEDA's operator reads from the metadata of a trigger and from the environment of its target.
pub(super) fn values<'a>(trigger: &Trigger<'a>, object: &'a Object, ctx: &Context<'a>) -> Vec<ReadValue<'a>> {
    let Some(scaler) = trigger.scaler(ctx.platform().keda) else { return Vec::new() };
    let holder = holder(object, ctx);
    let read = |(name, node): (&str, Node<'a>)| {
        let is_read = matches!(scaler.key_status(name), KeyStatus::Read);
        let written = node.text().filter(|_| is_read)?;
        let is_variable = name.ends_with("FromEnv") && scaler.key(name).is_none();
        let value = match is_variable {
            true => match holder.map(|holder| environment(object, holder).variable(written)) {
                Some(Variable::Text(text)) => text,
                _ => return None,
            },
            false => written,
        };
        let key = name.strip_suffix("FromEnv").unwrap_or(name).to_ascii_lowercase();
        let variable = is_variable.then_some(written);
        let holder = holder.filter(|holder| is_variable && !holder.ptr_eq(object));
        Some(ReadValue { node, key, value, variable, holder })
    };
    trigger.metadata().entries().into_iter().filter_map(read).collect()
}

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for read in values(trigger, ctx.object(), ctx) {
        if !is_loopback(read.value, HOST_KEYS.contains(&read.key.as_str())) || reaches_itself(ctx) {
            continue;
        }
        let shown = ellipsize(read.value.trim());
        let message = match read.variable {
            Some(variable) => {
                format!("KEDA's operator connects to `{shown}` (`{}`) in its own pod", ellipsize(variable))
            }
            None => format!("KEDA's operator connects to `{shown}` in its own pod"),
        };
        let finding = ctx.report(&read.node, message);
        finding.help("write the Service with its namespace: `NAME.NAMESPACE.svc:PORT`");
        if let Some(holder) = read.holder {
            finding.related(holder, &holder.path(&["metadata", "name"]), "this has the environment");
        }
    }
    None
}

/// The keys, in lower case, whose value may be a host without a port.
const HOST_KEYS: [&str; 4] = ["address", "addresses", "host", "hosts"];

/// Whether a value is an address, or a list of them, and each is of the pod that connects. One without a scheme and a port may be
/// anything but the value of a key for hosts.
fn is_loopback(value: &str, is_host: bool) -> bool {
    value.split(',').map(str::trim).all(|address| {
        let lower = address.to_ascii_lowercase();
        let host = host(&lower);
        let is_address = (is_host || lower.len() > host.len()) && !lower.contains([' ', '{', '(', '$']);
        let octets = || host.strip_prefix("127.").is_some_and(|rest| rest.split('.').count() == 3);
        is_address && (host == "localhost" || host.ends_with(".localhost") || host == "[::1]" || octets())
    })
}

/// Whether the operator is in the input, and a proxy beside it or a program of its node may listen.
fn reaches_itself(ctx: &Context<'_>) -> bool {
    let may_reach = |template: &Template<'_>| {
        template.spec.get("hostNetwork").bool() == Some(true) || template.containers().count() > 1
    };
    let mut operators = ctx.cluster().written_as(Kind::DEPLOYMENT, "keda-operator");
    operators.any(|operator| templates(operator).iter().any(may_reach))
}
