//! The update of a DaemonSet waits for a port that the old pod holds.
//!
//! # Why
//! With `maxSurge` the controller starts the new pod of a node before it ends the old one. Where the pods
//! take a port of the node (`hostPort`, or `hostNetwork` with ports), the scheduler finds no place for the
//! new one (`didn't have free ports`), and the old one is not ended before the new one is ready: the update
//! never ends. The API server accepts it, and the first rollout works.
//!
//! # Fix
//! Write `maxSurge: 0` and `maxUnavailable: 1`: the node is without the pod for the time of its start.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: edge, namespace: network}
//!  spec:
//!    selector: {matchLabels: {app: edge}}
//!    updateStrategy:
//! -    rollingUpdate: {maxSurge: 1, maxUnavailable: 0} # <-
//! +    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
//!    template:
//!      metadata: {labels: {app: edge}}
//!      spec:
//!        containers:
//!          - name: proxy
//!            image: registry.example.com/network/edge:2.4
//!            ports: [{containerPort: 8443, hostPort: 443}]
//!            resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 128Mi}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/kubernetes/issues/106417>
//! - <https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/>

use crate::cluster::views::disruptions::IntOrPercent;
use crate::rules::prelude::*;
use crate::workload::node_spread::node_port;

pub(crate) static RULE: Rule = Rule {
    id: "daemon-set-surge-blocked",
    kinds: &[Kind::DAEMON_SET],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("daemon_set_surge_blocked.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let strategy = object.path(&["spec", "updateStrategy"]);
    let update = strategy.get("rollingUpdate");
    let surge = update.get("maxSurge");
    let is_rolling = !strategy.get("type").is_set() || strategy.get("type").text() == Some("RollingUpdate");
    let none = matches!(IntOrPercent::read(&surge)?, IntOrPercent::Count(..=0) | IntOrPercent::Percent(..=0));
    if none || !is_rolling || object.may_lack_fields() {
        return None;
    }
    let template = templates(object).into_iter().next()?;
    let port = node_port(&template)?;
    let number = port.int()?;
    let unavailable = update.get("maxUnavailable");
    let fix = Fix::unsafe_("end the old pod first").set(&surge, json!(0)).set(&unavailable, json!(1));
    ctx.report(
        &surge,
        format!("updates never end: the new pod waits for port {number} of the node, which the old one has"),
    )
    .at_key()
    .help("write `maxSurge: 0` and `maxUnavailable: 1`")
    .related(object, &port, "the port")
    .fix(fix);
    None
}
