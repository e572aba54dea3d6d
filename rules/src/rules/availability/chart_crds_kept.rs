//! Flux upgrades an operator, and keeps the CRDs of its first release.
//!
//! # Why
//! Helm installs what is in the folder `crds` of a chart with the first release, and never touches it again;
//! Flux does the same unless `upgrade.crds` says otherwise (`Skip` is the default). After an upgrade of
//! Karpenter or KubeRay the API server prunes the new fields of NodePools or RayClusters, or the controller
//! does not start, because it watches a version that the CRD does not have.
//!
//! It is information, as someone may apply the CRDs from elsewhere, and a warning where the input is the whole
//! cluster (`--complete`). Nothing is said where the input has a chart with the CRDs, one of them, or a
//! kustomization of another repository. Argo CD applies the CRDs of a chart each time.
//!
//! # Fix
//! Write `upgrade.crds: CreateReplace`, or install the chart `karpenter-crd` as a release of its own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: karpenter}
//!  spec: # <-
//!    interval: 1h
//! +  upgrade: {crds: CreateReplace}
//!    chart:
//!      spec:
//!        chart: karpenter
//!        version: 1.8.x
//!        sourceRef: {kind: HelmRepository, name: karpenter}
//! ```
//!
//! # References
//! - <https://fluxcd.io/flux/components/helm/helmreleases/>
//! - <https://karpenter.sh/docs/upgrading/upgrade-guide/#crd-upgrades>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6778>

use super::ingress::installs_any;
use crate::cluster::values::{CHART_SOURCES, installed_charts};
use crate::cluster::versions::Fact;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "chart-crds-kept",
    kinds: &[Kind::HELM_RELEASE],
    reads: kinds![CHART_KINDS, CHART_SOURCES, [Kind::ARGO_APPLICATION_SET, Kind::CUSTOM_RESOURCE_DEFINITION]],
    reports_absence: true,
    docs: docs(include_str!("chart_crds_kept.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Charts with a folder `crds`, each with the chart that has the CRDs alone, and the end of their names.
const CHARTS: [(&str, Option<&str>, &[&str]); 2] = [
    ("karpenter", Some("karpenter-crd"), &[".karpenter.sh", ".karpenter.k8s.aws"]),
    ("kuberay-operator", None, &[".ray.io"]),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let cluster = ctx.cluster();
    let upgrade = spec.get("upgrade");
    let policy = upgrade.get("crds");
    let suspended = spec.get("suspend");
    if object.may_lack_fields()
        || upgrade.has_unknown_key()
        || !policy.is_absent()
        || suspended.is_unknown()
        || suspended.bool() == Some(true)
    {
        return None;
    }
    let installed = installed_charts(object, cluster)?;
    let (chart, of_crds, suffixes) = CHARTS.iter().find(|(chart, ..)| installed.contains(chart))?;
    let is_own = |crd: &Object| suffixes.iter().any(|suffix| crd.name().ends_with(suffix));
    if of_crds.is_some_and(|chart| installs_any(ctx, chart))
        || cluster.of(Kind::CUSTOM_RESOURCE_DEFINITION).any(is_own)
        || cluster.is_shown(&Fact::Elsewhere)
    {
        return None;
    }
    let message =
        format!("Flux installs the CRDs of chart `{chart}` once, and does not upgrade them with it");
    let help = match of_crds {
        Some(other) => format!("write `upgrade.crds: CreateReplace`, or install the chart `{other}` as well"),
        None => "write `upgrade.crds: CreateReplace`".to_owned(),
    };
    let severity = if cluster.is_complete() { Severity::Warning } else { Severity::Info };
    ctx.report(&policy, message).severity(severity).help(help);
    None
}
