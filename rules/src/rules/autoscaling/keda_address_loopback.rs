//! A trigger names an address of its own pod, and KEDA's operator asks it.
//!
//! # Why
//! KEDA's operator connects to the source of a trigger, from its own pod. `localhost` and `127.0.0.1` are that
//! pod, where no broker and no Prometheus listens: each poll fails, and nothing scales. The address often
//! comes from the environment of the workload (`...FromEnv`), whose own pod has a proxy beside it, or from a
//! Secret that a TriggerAuthentication names.
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

use std::borrow::Cow;

use crate::facts::base64::decoded;
use crate::facts::url::host;
use crate::keda::scalers::KeyStatus;
use crate::rules::autoscaling::keda_trigger_invalid;
use crate::rules::autoscaling::keda_trigger_invalid::{authentication, environment, holder};
use crate::rules::prelude::*;
use crate::workload::environment::{Environment, Variable, entry};

pub(super) const READS: &[Kind] = kinds![keda_trigger_invalid::READS, [Kind::SECRET, Kind::CONFIG_MAP]];

pub(crate) static RULE: Rule = Rule {
    id: "keda-address-loopback",
    reads: READS,
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_address_loopback.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// A value that KEDA's operator reads for a trigger.
pub(super) struct ReadValue<'a> {
    pub(super) node: Node<'a>,
    /// The key in lower case, without `FromEnv`.
    pub(super) key: String,
    pub(super) value: Cow<'a, str>,
    /// The variable or the parameter that has the value.
    pub(super) variable: Option<&'a str>,
    /// The object with the value, where that is another one than the scaler, and what it has.
    pub(super) holder: Option<(&'a Object, &'static str)>,
    /// Whether it is from a Secret, and may have a password.
    pub(super) is_secret: bool,
}

/// The values that KEDA's operator reads from the metadata of a trigger, from the environment of its target, and from the Secrets and
/// ConfigMaps of the input that the target or the TriggerAuthentication names.
pub(super) fn values<'a>(trigger: &Trigger<'a>, object: &'a Object, ctx: &Context<'a>) -> Vec<ReadValue<'a>> {
    let Some(scaler) = trigger.scaler(ctx.platform().keda) else { return Vec::new() };
    let holder = holder(object, ctx);
    let read = |(name, node): (&'a str, Node<'a>)| {
        let is_read = matches!(scaler.key_status(name), KeyStatus::Read);
        let written = node.text().filter(|_| is_read)?;
        let key = name.strip_suffix("FromEnv").unwrap_or(name).to_ascii_lowercase();
        if !(name.ends_with("FromEnv") && scaler.key(name).is_none()) {
            let value = Cow::Borrowed(written);
            return Some(ReadValue { node, key, value, variable: None, holder: None, is_secret: false });
        }
        let environment = environment(object, holder?);
        let variable = Some(written);
        match environment.variable(written) {
            Variable::Text(text) => {
                let holder = holder
                    .filter(|holder| !holder.ptr_eq(object))
                    .map(|one| (one, "this has the environment"));
                let value = Cow::Borrowed(text);
                Some(ReadValue { node, key, value, variable, holder, is_secret: false })
            }
            Variable::Hidden => {
                let Environment::Container(container) = &environment else { return None };
                let from = entry(container, written)?.get("valueFrom");
                let (kind, reference) = match from.get("secretKeyRef") {
                    secret if secret.is_set() => (Kind::SECRET, secret),
                    _ => (Kind::CONFIG_MAP, from.get("configMapKeyRef")),
                };
                let (value, source) = stored(kind, object.namespace_or_default(), &reference, ctx)?;
                let (holder, is_secret) = (Some((source, "this has the value")), kind == Kind::SECRET);
                Some(ReadValue { node, key, value, variable, holder, is_secret })
            }
            Variable::Absent | Variable::Unknown => None,
        }
    };
    let mut all: Vec<ReadValue<'a>> = trigger.metadata().entries().into_iter().filter_map(read).collect();
    // A ClusterTriggerAuthentication names Secrets of the operator's namespace.
    let source =
        authentication(object, trigger, ctx).filter(|source| source.is(Kind::TRIGGER_AUTHENTICATION));
    for (list, kind) in [("secretTargetRef", Kind::SECRET), ("configMapTargetRef", Kind::CONFIG_MAP)] {
        for item in source.into_iter().flat_map(|source| source.path(&["spec", list]).items()) {
            let Some(parameter) = item.get("parameter").text() else { continue };
            let key = parameter.to_ascii_lowercase();
            // What is written in the trigger as well may be what counts.
            if all.iter().any(|read| read.key == key) || scaler.key(parameter).is_none() {
                continue;
            }
            let Some((value, source)) = stored(kind, object.namespace_or_default(), &item, ctx) else {
                continue;
            };
            all.push(ReadValue {
                node: trigger.node.get("authenticationRef"),
                key,
                value,
                variable: Some(parameter),
                holder: Some((source, "this has the value")),
                is_secret: kind == Kind::SECRET,
            });
        }
    }
    all
}

/// The value of a key of a Secret or a ConfigMap of the input, which a reference names, and the object.
fn stored<'a>(
    kind: Kind,
    namespace: &str,
    reference: &Node<'_>,
    ctx: &Context<'a>,
) -> Option<(Cow<'a, str>, &'a Object)> {
    let (name, key) = (reference.get("name").text()?, reference.get("key").text()?);
    let source = ctx.partner(kind, namespace, name)?;
    let data = source.get("data").get(key);
    let value = match source.get("stringData").get(key) {
        text if text.is_set() => Cow::Borrowed(text.text()?),
        _ if kind == Kind::SECRET => Cow::Owned(String::from_utf8(decoded(data.text()?)?).ok()?),
        _ => Cow::Borrowed(data.text()?),
    };
    (!is_placeholder(&value)).then_some((value, source))
}

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for read in values(trigger, ctx.object(), ctx) {
        if !is_loopback(&read.value, HOST_KEYS.contains(&read.key.as_str())) || reaches_itself(ctx) {
            continue;
        }
        let value = read.value.trim();
        let shown = ellipsize(if read.is_secret { host(value) } else { value });
        let message = match read.variable {
            Some(variable) => {
                format!("KEDA's operator connects to `{shown}` (`{}`) in its own pod", ellipsize(variable))
            }
            None => format!("KEDA's operator connects to `{shown}` in its own pod"),
        };
        let finding = ctx.report(&read.node, message);
        finding.help("write the Service with its namespace: `NAME.NAMESPACE.svc:PORT`");
        if let Some((holder, what)) = read.holder {
            finding.related(holder, &holder.path(&["metadata", "name"]), what);
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
