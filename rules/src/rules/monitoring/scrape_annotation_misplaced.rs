//! Annotations for Prometheus are on a workload and not on its pods.
//!
//! # Why
//! Scrape configurations with `prometheus.io/scrape` look at the annotations of pods or of Services. Those of a
//! Deployment, a StatefulSet or a DaemonSet stay on that object: its pods do not get them, nothing is scraped,
//! and no error says so.
//!
//! # Fix
//! Move the annotations to the metadata of the pod template.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata:
//!    name: gateway
//! -  annotations: {prometheus.io/scrape: "true"} # <-
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata:
//!        labels: {app: gateway}
//! +      annotations: {prometheus.io/scrape: "true"}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/gateway:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-annotation-misplaced",
    kinds: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET, Kind::ROLLOUT, Kind::LEADER_WORKER_SET],
    reads: &[Kind::SERVICE],
    docs: docs(include_str!("scrape_annotation_misplaced.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

const PREFIX: &str = "prometheus.io/";
const SCRAPE: &str = "prometheus.io/scrape";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let annotations = object.path(&["metadata", "annotations"]);
    let scrape = annotations.get(SCRAPE);
    let is_on = scrape.text() == Some("true") || scrape.bool() == Some(true);
    if object.may_lack_fields() || !is_on {
        return None;
    }
    let templates = templates(object);
    let first = templates.first()?;
    let is_there = |metadata: &Node<'_>| {
        let annotations = metadata.get("annotations");
        annotations.has_unknown_key()
            || annotations.is_unknown()
            || annotations.entries().iter().any(|(key, _)| key.starts_with(PREFIX))
    };
    let services = ctx.cluster().views().services_of(object.namespace_or_default(), first);
    if templates.iter().any(|template| is_there(&template.metadata))
        || services.into_iter().any(|service| is_there(&service.get("metadata")))
    {
        return None;
    }
    let message = format!("`{}` is annotated with `{SCRAPE}`, and its pods are not", object.display_name());
    ctx.report(&scrape, message).at_key().help("move the annotations to the metadata of the pod template");
    None
}
