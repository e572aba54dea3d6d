//! One endpoint of a monitor is written as two.
//!
//! # Why
//! Each `-` under `endpoints` begins an endpoint of its own. With a dash before `interval` the first endpoint has
//! the port and the default interval, and the second has the interval and no port: Prometheus scrapes every
//! port of the Service with it, those that serve no metrics included, and those with metrics twice, so that
//! each sum over them doubles.
//!
//! # Fix
//! Remove the dash, so that the fields belong to the endpoint with the port.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata: {name: gateway, namespace: monitoring}
//!  spec:
//!    selector: {matchLabels: {app: gateway}}
//!    endpoints:
//!      - port: metrics
//! -    - interval: 15s # <-
//! +      interval: 15s
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Endpoint>

use crate::rules::monitoring::monitors::{MONITORS, endpoints_field};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "monitor-endpoint-split",
    kinds: &MONITORS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("monitor_endpoint_split.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// Fields that name a port.
const PORTS: [&str; 3] = ["port", "targetPort", "portNumber"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = object.path(&["spec", endpoints_field(object)]);
    if object.is_partial() || list.has_unknown() {
        return None;
    }
    let items: Vec<Node<'_>> = list.items().collect();
    let names_port = |item: &Node<'_>| PORTS.iter().any(|port| item.get(port).is_set());
    for pair in items.windows(2) {
        let [before, item] = pair else { continue };
        let fields = item.entries();
        // A field of both is no part of the first.
        let belongs = |(field, _): &(&str, Node<'_>)| before.get(field).is_absent();
        if names_port(item)
            || !names_port(before)
            || fields.is_empty()
            || item.get("path").is_set() && !is_default_path(item, &items)
            || !fields.iter().all(belongs)
        {
            continue;
        }
        let port = PORTS.iter().find_map(|port| before.get(port).string_or_number())?;
        let first = fields[0].0;
        let message =
            format!("this endpoint names no port: `{first}` does not belong to `{}`", ellipsize(&port));
        let mut fix = Fix::unsafe_(format!("move the fields to the endpoint of `{}`", ellipsize(&port)));
        for (field, value) in &fields {
            fix = fix.set(&before.get(field), value.to_json());
        }
        ctx.report(item, message)
            .help("remove the dash before it: without a port all ports are scraped")
            .related(object, before, "the endpoint with the port")
            .fix(fix.remove(item));
        return None;
    }
    None
}

/// Whether the path of an endpoint is the default one, which no endpoint of all ports needs. Beside several ports, or with a
/// scheme of its own, it may be one of them.
fn is_default_path(item: &Node<'_>, items: &[Node<'_>]) -> bool {
    item.get("path").text() == Some("/metrics")
        && item.get("scheme").is_absent()
        && items.iter().filter(|one| PORTS.iter().any(|port| one.get(port).is_set())).count() == 1
}
