//! An HTTPScaledObject without hosts gets no request, or those that are not for it.
//!
//! # Why
//! `hosts` is optional, and means every host. Up to KEDA's HTTP add-on 0.11 the interceptor looks for the name
//! of the host as it is in the request, finds no such object, and answers each request with 404. In 0.12.0 and
//! 0.12.1 the object receives also the probes of the interceptor, which then never gets ready, so that no
//! application receives requests. From 0.12.2 on it works as it is documented. The version is that of the
//! chart `keda-add-ons-http` which the input installs; nothing is reported if there is none.
//!
//! # Fix
//! Write the hosts of the application, or install a later version of the add-on.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: http.keda.sh/v1alpha1
//!  kind: HTTPScaledObject
//!  metadata: {name: docs, namespace: web}
//! -spec: # <-
//! +spec:
//! +  hosts: [docs.example.com]
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: docs, service: docs, port: 80}
//!    replicas: {min: 0, max: 10}
//!    scalingMetric: {concurrency: {targetValue: 100}}
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: http-add-on, namespace: keda}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: keda-add-ons-http
//!        version: 0.11.1
//!        sourceRef: {kind: HelmRepository, name: kedacore}
//! ```
//!
//! # References
//! - <https://github.com/kedacore/http-add-on/issues/1320>
//! - <https://github.com/kedacore/http-add-on/issues/1447>

use crate::cluster::values::{VERSIONED_CHARTS, chart_version};
use crate::cluster::versions::minor_of;
use crate::rules::prelude::*;
use crate::workload::charts::{installs, is_for_other_cluster};

pub(crate) static RULE: Rule = Rule {
    id: "http-scaled-object-without-hosts",
    kinds: &[Kind::HTTP_SCALED_OBJECT],
    reads: VERSIONED_CHARTS,
    docs: docs(include_str!("http_scaled_object_without_hosts.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

const CHART: &str = "keda-add-ons-http";

/// Source: `NewKeysFromHTTPSO` in `pkg/routing/key.go` of http-add-on 0.11.1, and the routing of its interceptor in 0.12.1, which
/// looks for an object before it knows a probe. 0.12.2 has the probes on another port.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (hosts, paths) = (spec.get("hosts"), spec.get("pathPrefixes"));
    let has_hosts = hosts.is_unknown() || hosts.items().next().is_some() || spec.get("host").is_set();
    if has_hosts || spec.has_unknown_key() || object.may_lack_fields() {
        return None;
    }
    let (installer, version) = installed(ctx)?;
    let all_paths = !paths.is_set() || paths.items().any(|path| matches!(path.text(), Some("" | "/")));
    let takes_probes = all_paths && !spec.get("headers").is_set();
    let message = match minor_of(version)? {
        minor if minor <= Version::new(0, 11) => {
            format!("without `hosts`, the HTTP add-on {minor} answers every request with 404")
        }
        _ if takes_probes && matches!(version, "0.12.0" | "0.12.1") => {
            format!(
                "without `hosts`, the HTTP add-on {version} sends its own probes here, and never gets ready"
            )
        }
        _ => return None,
    };
    ctx.report(&hosts, message)
        .help("write the hosts of the application, or install 0.12.2 or later")
        .related(installer, &installer.path(&["metadata", "name"]), "installs the add-on");
    None
}

/// What installs the add-on, and the version of the chart. `None` if the input does not show just one.
fn installed<'i>(ctx: &Context<'i>) -> Option<(&'i Object, &'i str)> {
    let cluster = ctx.cluster();
    let mut all = chart_installers(cluster)
        .filter(|one| installs(one, CHART) && !is_for_other_cluster(one) && ctx.pairs_with(one));
    let (one, None) = (all.next()?, all.next()) else { return None };
    let version = chart_version(one, CHART, cluster).filter(|_| !one.may_lack_fields())?;
    Some((one, version.strip_prefix('v').unwrap_or(version)))
}
