//! Metrics, alerts and scrape configurations of GPUs.

pub(crate) mod alert_label_missing;
pub(crate) mod alerts_sent_nowhere;
pub(crate) mod dashboard_datasource_unset;
pub(crate) mod dashboard_not_loaded;
mod dcgm_exporter;
pub(crate) mod dcgm_exporter_config;
pub(crate) mod framebuffer_ratio;
pub(crate) mod gpu_alert_without_for;
pub(crate) mod gpu_memory_alert_always_fires;
pub(crate) mod gpu_metric_labels;
pub(crate) mod gpu_metric_unknown;
pub(crate) mod idle_gpu_alert_missing;
mod kube_state_metrics;
mod made_monitors;
pub(crate) mod metric_dropped;
pub(crate) mod monitor_endpoint_split;
pub(crate) mod monitor_unselected;
pub(super) mod monitors;
pub(crate) mod object_label_not_exported;
pub(crate) mod pod_monitor_selects_nothing;
pub(crate) mod prometheus_address_unserved;
mod prometheus_stack;
pub(crate) mod promql_count_of_number;
pub(crate) mod promql_counter_as_level;
pub(crate) mod promql_invalid;
pub(crate) mod promql_never_matches;
pub(crate) mod promql_rate_of_gauge;
pub(crate) mod scrape_address_broken;
pub(crate) mod scrape_annotation_misplaced;
pub(crate) mod scrape_annotation_unread;
pub(crate) mod scrape_job_selects_nothing;
mod scrape_jobs;
pub(crate) mod scrape_renames_labels;
pub(crate) mod scrape_through_service;
pub(crate) mod server_metrics_off;
pub(crate) mod service_monitor_doubles;
pub(crate) mod service_monitor_selects_nothing;
pub(crate) mod threshold_unit_mismatch;
pub(crate) mod xid_alert_never_clears;

use crate::cluster::views::recording_rule_names;
use crate::lint::context::Context;
use crate::lint::finding::Severity;
use crate::object::Object;
use crate::promql::{PROMETHEUS_RULE_KINDS, QueryPlace, queries};

/// Whether rules of the cluster, or of the object itself, record series of a name. A rule that asks reads the kinds with rules.
fn is_recorded_by_rule(name: &str, object: &Object, ctx: &Context<'_>) -> bool {
    // An object under review is not in the cluster yet.
    ctx.cluster().views().is_recorded(name)
        || PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind))
            && recording_rule_names(object).iter().any(|own| own == name)
        || queries(object)
            .iter()
            .any(|own| own.place == QueryPlace::Record && own.title.as_deref() == Some(name))
}

/// The severity of a finding on a query: information in a dashboard, where nothing acts on the result.
fn severity_in(query_place: QueryPlace, usual: Severity) -> Severity {
    if query_place == QueryPlace::Dashboard { Severity::Info } else { usual }
}
