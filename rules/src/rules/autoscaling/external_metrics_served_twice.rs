//! Two charts serve the API of external metrics.
//!
//! # Why
//! A cluster has one server of `external.metrics.k8s.io`: the APIService `v1beta1.external.metrics.k8s.io` leads
//! to one Service. KEDA brings it, and so do the Cluster Agent of Datadog with `metricsProvider` and the adapter
//! of Prometheus with `rules.external`. Helm rejects the second release, because the first one owns the
//! object; Argo CD lets them overwrite each other, and the HPAs of one side get no metrics.
//!
//! # Fix
//! Keep one: KEDA has scalers for Datadog and Prometheus. With `registerAPIService: false` the Cluster Agent
//! answers KEDA alone; the adapter can go on with custom metrics (`rules.custom`), which are another API.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: keda, namespace: keda}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: keda, version: 2.18.1, sourceRef: {kind: HelmRepository, name: kedacore}}
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: datadog, namespace: datadog}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: datadog, version: 3.140.0, sourceRef: {kind: HelmRepository, name: datadog}}
//!    values:
//!      clusterAgent:
//!        metricsProvider:
//! -        enabled: true # <-
//! +        enabled: false
//! ```
//!
//! # References
//! - <https://github.com/kedacore/keda/issues/470>
//! - <https://keda.sh/docs/latest/faq/>

use crate::rules::gpu::report_value;
use crate::rules::prelude::*;
use crate::workload::charts::is_for_other_cluster;

pub(crate) static RULE: Rule = Rule {
    id: "external-metrics-served-twice",
    kinds: &CHART_KINDS,
    reads: &CHART_KINDS,
    docs: docs(include_str!("external_metrics_served_twice.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// A chart that brings the APIService.
struct Server {
    chart: &'static str,
    /// What it is called in messages.
    name: &'static str,
    /// The value that switches it on: true, or a list that is not empty; and whether it is on without.
    switch: (&'static [&'static str], bool),
    /// Values of which each leaves the APIService out if it is false.
    needs: &'static [&'static [&'static str]],
}

/// Charts with such a template, the usual one first: keda 2.18, datadog 3.x, prometheus-adapter 5.x.
const SERVERS: [Server; 3] = [
    Server { chart: "keda", name: "KEDA", switch: (&["metricsServer", "enabled"], true), needs: &[] },
    Server {
        chart: "datadog",
        name: "Datadog's Cluster Agent",
        switch: (&["clusterAgent", "metricsProvider", "enabled"], false),
        needs: &[
            &["clusterAgent", "enabled"],
            &["clusterAgent", "rbac", "create"],
            &["clusterAgent", "metricsProvider", "registerAPIService"],
        ],
    },
    Server {
        chart: "prometheus-adapter",
        name: "the adapter of Prometheus",
        switch: (&["rules", "external"], false),
        needs: &[],
    },
];

impl Server {
    /// Whether values certainly bring the APIService.
    fn is_on(&self, values: &Node<'_>) -> bool {
        let (path, default) = self.switch;
        let switch = values.path(path);
        let is_on = match switch.is_set() {
            true => switch.bool() == Some(true) || switch.items().next().is_some(),
            false => default && !values.has_unknown_key(),
        };
        is_on
            && self
                .needs
                .iter()
                .all(|path| values.path(path).is_absent() || values.path(path).bool() == Some(true))
    }

    fn is_installed_by(&self, object: &Object) -> bool {
        let mut found = false;
        for_each_values(object, self.chart, |values| found |= !values.may_differ && self.is_on(values.root));
        found
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_for_other_cluster(object) {
        return None;
    }
    for (number, server) in SERVERS.iter().enumerate().skip(1) {
        if !server.is_installed_by(object) {
            continue;
        }
        let cluster = ctx.cluster();
        let is_other = |other: &&Object| cluster.likely_pairs(object, other) && !is_for_other_cluster(other);
        let rival = SERVERS[..number].iter().find_map(|rival| {
            let mut others = chart_installers(cluster).filter(is_other);
            others.find(|other| rival.is_installed_by(other)).map(|other| (rival.name, other))
        });
        let Some((name, other)) = rival else { continue };
        for_each_values(object, server.chart, |values| {
            let message =
                format!("{name} serves `external.metrics.k8s.io` too, and a cluster has one server of it");
            report_value(values, &values.root.path(server.switch.0), message, ctx)
                .help(format!(
                    "switch one off: the HPAs that ask for metrics of {} or {name} get none",
                    server.name
                ))
                .related(other, &other.path(&["metadata", "name"]), "installs the other");
        });
        return None;
    }
    None
}
