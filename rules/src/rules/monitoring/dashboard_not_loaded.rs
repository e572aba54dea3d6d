//! A dashboard in a file has the form that only Grafana's HTTP API accepts.
//!
//! # Why
//! `POST /api/dashboards/db` takes a dashboard inside of the field `dashboard`. Where Grafana reads files, the
//! dashboard is the file: it finds no title at the top, logs `Dashboard title cannot be empty`, and leaves the
//! file out. ConfigMaps that something other than Grafana mounts, such as a Job that sends them, are left out.
//!
//! # Fix
//! Write what is in `dashboard` at the top of the file.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: gpus, namespace: monitoring, labels: {grafana_dashboard: "1"}}
//!  data:
//! -  gpus.json: '{"dashboard": {"title": "GPUs", "panels": []}}' # <-
//! +  gpus.json: '{"title": "GPUs", "panels": []}'
//! ```
//!
//! # References
//! - <https://grafana.com/docs/grafana/latest/administration/provisioning/#dashboards>
//! - <https://grafana.com/docs/grafana/latest/developers/http_api/dashboard/>

use crate::rules::prelude::*;
use crate::steps;

pub(crate) static RULE: Rule = Rule {
    id: "dashboard-not-loaded",
    kinds: &[Kind::CONFIG_MAP],
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("dashboard_not_loaded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let files = object.get("data").entries();
    let wrapped: Vec<_> =
        files.iter().filter(|(name, text)| name.ends_with(".json") && is_wrapped(text)).collect();
    if wrapped.is_empty() {
        return None;
    }
    let severity = match reader(object, ctx) {
        Reader::Grafana => Severity::Warning,
        // A sidecar may read it by a label that a tool adds.
        Reader::Nobody => Severity::Info,
        Reader::Other => return None,
    };
    for (name, text) in wrapped {
        let message = format!("Grafana does not load `{}`: it has the form of the HTTP API", ellipsize(name));
        ctx.report(text, message)
            .severity(severity)
            .help("write what is in `dashboard` at the top: a file is the dashboard itself")
            .identified_by(*name);
    }
    None
}

/// Whether a file has a dashboard in the field `dashboard`, and none at the top.
fn is_wrapped(text: &Node<'_>) -> bool {
    let Some(json) = text.raw_text().filter(|json| json.contains("\"dashboard\"")) else { return false };
    steps::take(2 * json.len());
    let Ok(root) = serde_json::from_str::<Value>(json) else { return false };
    let inner = root.get("dashboard").and_then(Value::as_object);
    inner.is_some_and(|inner| inner.contains_key("title") || inner.contains_key("panels"))
        && root.get("title").is_none()
        && root.get("panels").is_none()
}

/// What reads the files of a ConfigMap, as far as the input shows.
enum Reader {
    /// A server of Grafana that mounts it, or a sidecar that finds it by a label or an annotation.
    Grafana,
    Other,
    Nobody,
}

fn reader(config: &Object, ctx: &Context<'_>) -> Reader {
    let metadata = config.get("metadata");
    let keys = ["labels", "annotations"].map(|field| metadata.get(field).entries());
    let is_labelled = keys.iter().flatten().any(|(key, _)| key.contains("grafana"));
    let is_own = |source: &Node<'_>| source.get("name").text() == Some(config.name());
    let mounts = |template: &Template<'_>| {
        template.spec.get("volumes").items().any(|volume| {
            let mut sources = volume.path(&["projected", "sources"]).items();
            is_own(&volume.get("configMap")) || sources.any(|source| is_own(&source.get("configMap")))
        })
    };
    let is_grafana = |template: &Template<'_>| {
        template
            .containers()
            .any(|container| image_text(&container).is_some_and(|image| image.contains("grafana")))
    };
    let namespace = config.namespace_or_default();
    let workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().in_namespace(*kind, namespace));
    let mut others = false;
    for template in workloads.flat_map(templates).filter(|template| mounts(template)) {
        if is_grafana(&template) {
            return Reader::Grafana;
        }
        others = true;
    }
    match (is_labelled, others) {
        (_, true) => Reader::Other,
        (true, false) => Reader::Grafana,
        (false, false) => Reader::Nobody,
    }
}
