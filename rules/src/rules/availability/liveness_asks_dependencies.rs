//! A liveness probe asks about more than the process.
//!
//! # Why
//! A failed liveness probe restarts the container. Where its answer depends on a database or a broker, an outage
//! of that restarts all replicas at once, again and again, and their new connections come together when it is
//! back. Whether a pod can take requests is the question of a readiness probe, which only takes it out of its
//! Services. It is reported where the path says that it is the question of readiness (`/readyz`,
//! `/health/ready`), and where it is the one that sums up all checks in Spring Boot (`/actuator/health`) or
//! Quarkus (`/q/health`). What `/health` of another program asks is not known.
//!
//! # Fix
//! Ask a path that only says that the process answers, such as `/livez`, `/actuator/health/liveness` or
//! `/q/health/live`, or a TCP port.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: orders}
//!  spec:
//!    selector: {matchLabels: {app: orders}}
//!    template:
//!      metadata: {labels: {app: orders}}
//!      spec:
//!        containers:
//!          - name: orders
//!            image: example.com/orders:2.1.0
//!            startupProbe: {httpGet: {path: /actuator/health/liveness, port: 8080}, failureThreshold: 30}
//!            readinessProbe: {httpGet: {path: /actuator/health/readiness, port: 8080}}
//! -          livenessProbe: {httpGet: {path: /actuator/health, port: 8080}} # <-
//! +          livenessProbe: {httpGet: {path: /actuator/health/liveness, port: 8080}}
//!            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://docs.spring.io/spring-boot/reference/actuator/endpoints.html#actuator.endpoints.kubernetes-probes>
//! - <https://quarkus.io/guides/smallrye-health>

use super::serving::{is_owned, model_server};
use crate::rules::manifest_purpose::is_copy;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "liveness-asks-dependencies",
    kinds: REPLICATED_KINDS,
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("liveness_asks_dependencies.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Availability)
};

/// The last parts of paths that ask whether a program can take requests.
const READY: [&str; 3] = ["ready", "readyz", "readiness"];
/// Paths that sum up the checks of all that a program depends on, with the framework and the path for the process alone.
const SUMS: [(&str, &str, &str); 2] = [
    ("/actuator/health", "Spring Boot", "/actuator/health/liveness"),
    ("/q/health", "Quarkus", "/q/health/live"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) || is_copy(object) || model_server(object, ctx).is_some()
    {
        return None;
    }
    let templates = templates(object);
    let mut containers = templates.iter().flat_map(Template::containers);
    let (node, message, help) = containers.find_map(|container| asked(&container))?;
    ctx.report(&node, message).help(help);
    None
}

/// Words in the names of images of programs whose documentation asks `/ready`, because they have no other path.
const READY_ALONE: [&str; 7] = ["alloy", "cloudflared", "envoy", "loki", "mimir", "promtail", "tempo"];

fn has_one_path(container: &Node<'_>) -> bool {
    image_of(container).is_none_or(|image| {
        let name = image.last().to_ascii_lowercase();
        name.split(['-', '_', '.']).any(|word| READY_ALONE.contains(&word))
    })
}

/// The path of a liveness probe that asks about more than the process, with what to say about it.
fn asked<'a>(container: &Node<'a>) -> Option<(Node<'a>, String, String)> {
    let probe = container.get("livenessProbe");
    let node = probe.path(&["httpGet", "path"]);
    let path = node.text()?.split('?').next()?.trim_end_matches('/');
    let last = path.rsplit('/').next()?.to_ascii_lowercase();
    let name = ellipsize(container.get("name").text()?);
    if let Some((_, framework, instead)) = SUMS.iter().find(|(sum, ..)| path.ends_with(sum)) {
        let message = format!(
            "`{path}` of {framework} includes checks of dependencies such as databases: an outage there restarts `{name}`"
        );
        return Some((node, message, format!("ask `{instead}`")));
    }
    if !READY.contains(&last.as_str()) || has_one_path(container) {
        return None;
    }
    let message =
        format!("the liveness probe of `{name}` asks for readiness, and restarts it where it is not ready");
    Some((node, message, "ask a path that only says that the process answers".to_owned()))
}
