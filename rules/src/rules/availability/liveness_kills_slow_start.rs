//! A liveness probe kills a program before it has started.
//!
//! # Why
//! Without a startup probe a liveness probe counts from the start of the container. With its defaults the third
//! failure comes after 20 seconds, and the kubelet starts the container again, before a JVM has loaded its
//! classes on a small share of a CPU or a program has migrated its database. The pod then restarts in a loop
//! that began with a slower node. It is reported where the container shows that its start takes longer: where
//! the readiness probe of the same port waits longer for its first question than the liveness probe takes to
//! kill, and where a JVM has no more than the defaults. It is a warning for a JVM with a limit of less than one
//! CPU. Model servers are reported by `liveness-kills-model-load`.
//!
//! # Fix
//! Add a startup probe with the same request and time for the slowest start. The liveness probe begins when it
//! has succeeded.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: catalog}
//!  spec:
//!    selector: {matchLabels: {app: catalog}}
//!    template:
//!      metadata: {labels: {app: catalog}}
//!      spec:
//!        containers:
//!          - name: catalog
//!            image: example.com/catalog:1.7.3
//!            env: [{name: JAVA_OPTS, value: -Xmx1500m}]
//!            readinessProbe: {tcpSocket: {port: 8080}}
//! -          livenessProbe: {tcpSocket: {port: 8080}} # <-
//! +          startupProbe:
//! +            tcpSocket: {port: 8080}
//! +            periodSeconds: 10
//! +            timeoutSeconds: 5
//! +            failureThreshold: 30
//! +          livenessProbe: {tcpSocket: {port: 8080}}
//!            resources: {requests: {cpu: 500m, memory: 2Gi}, limits: {memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#configure-probes>

use super::liveness_kills_model_load::{Patience, advise};
use super::serving::{is_owned, model_server};
use crate::rules::manifest_purpose::is_copy;
use crate::rules::prelude::*;
use crate::workload::java::runs_java;

pub(crate) static RULE: Rule = Rule {
    id: "liveness-kills-slow-start",
    kinds: REPLICATED_KINDS,
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("liveness_kills_slow_start.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

/// The longest time in seconds that the defaults of a probe leave, and with a period or a delay of some seconds more.
const DEFAULT: i64 = 30;
/// Minutes of the startup probe.
const MINUTES: i64 = 5;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) || is_copy(object) || model_server(object, ctx).is_some()
    {
        return None;
    }
    let templates = templates(object);
    let found = templates.iter().flat_map(Template::containers).find_map(|one| Some((slow(&one)?, one)))?;
    let (slow, container) = found;
    let probe = container.get("livenessProbe");
    let name = ellipsize(container.get("name").text()?);
    let Patience { period, killed, .. } = Patience::of(&probe)?;
    let (message, severity) = match slow {
        Slow::ByReadiness(delay) => (
            format!(
                "the liveness probe kills `{name}` {killed} s after its start, and readiness waits {delay} s"
            ),
            Severity::Info,
        ),
        Slow::Java => {
            let limit = Quantity::at(&container.path(&["resources", "limits", "cpu"]));
            let is_throttled = limit.is_some_and(|limit| limit.milli() < 1000);
            let message = format!(
                "the liveness probe kills the JVM of `{name}` if it starts for longer than {killed} s"
            );
            (message, if is_throttled { Severity::Warning } else { Severity::Info })
        }
    };
    let finding = ctx.report(&probe, message);
    finding.severity(severity);
    advise(finding, &container.get("startupProbe"), &probe, period, MINUTES);
    None
}

/// What shows that a container starts for longer than its liveness probe waits.
enum Slow {
    /// Its readiness probe waits for some seconds.
    ByReadiness(i64),
    Java,
}

fn slow(container: &Node<'_>) -> Option<Slow> {
    let (liveness, readiness) = (container.get("livenessProbe"), container.get("readinessProbe"));
    if container.has_unknown_key()
        || !liveness.is_mapping()
        || !container.get("startupProbe").is_absent()
        || liveness.get("exec").is_set()
    {
        return None;
    }
    let longest = Patience::of(&liveness)?.longest;
    let delay = readiness.get("initialDelaySeconds").int_or(0)?;
    let handler = ["httpGet", "tcpSocket", "grpc"].into_iter().find(|field| liveness.get(field).is_set())?;
    let asks_same = liveness
        .path(&[handler, "port"])
        .string_or_number()
        .is_some_and(|port| readiness.path(&[handler, "port"]).string_or_number() == Some(port))
        && liveness.path(&[handler, "path"]).text() == readiness.path(&[handler, "path"]).text();
    if asks_same && delay > longest {
        return Some(Slow::ByReadiness(delay));
    }
    (longest <= DEFAULT && runs_java(container)).then_some(Slow::Java)
}
