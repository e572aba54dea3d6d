//! The chart of an operator takes each new release, major versions among them.
//!
//! # Why
//! Without `version` a HelmRelease installs the latest chart (`*` is the default), and so do `*` and `>=1.0.0`.
//! The release arrives when it is published, without a pull request: a Karpenter that reads other values and
//! makes all nodes drift, a KEDA without a deprecated trigger, a GPU Operator whose next driver empties every
//! GPU node. Definitions in the `crds` folder of a chart stay at the old version all the while: Flux
//! upgrades them only with `upgrade.crds`.
//!
//! It is a warning where Flux or `syncPolicy.automated` of Argo CD installs it unasked, and information where
//! someone has to sync. Only the charts of Karpenter, KEDA and NVIDIA's GPU Operator are looked at.
//!
//! # Fix
//! Name the version that was tried, or a range that ends before the next major one, and let a bot such as
//! Renovate propose the next.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: keda, namespace: keda}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: keda
//! -      version: "*" # <-
//! +      version: 2.18.x
//!        sourceRef: {kind: HelmRepository, name: kedacore}
//! ```
//!
//! # References
//! - <https://fluxcd.io/flux/components/helm/helmreleases/#chart-template>
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/tracking_strategies/#helm>

use crate::cluster::values::VERSIONED_CHARTS;
use crate::rules::prelude::*;
use crate::workload::charts::sources;
use crate::workload::command::base_name;

pub(crate) static RULE: Rule = Rule {
    id: "operator-chart-unpinned",
    kinds: VERSIONED_CHARTS,
    docs: docs(include_str!("operator_chart_unpinned.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const CHARTS: [&str; 5] = ["karpenter", "karpenter-crd", "keda", "keda-add-ons-http", "gpu-operator"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    // A suspended release stays as it is.
    if object.may_lack_fields()
        || spec.get("suspend").is_unknown()
        || spec.get("suspend").bool() == Some(true)
    {
        return None;
    }
    if object.is(Kind::ARGO_APPLICATION) {
        let automated = spec.path(&["syncPolicy", "automated"]);
        let is_asked = !automated.is_set() || automated.get("enabled").bool() == Some(false);
        for source in sources(&spec) {
            // Argo CD accepts no chart without a version.
            let version = source.get("targetRevision");
            if version.is_set() {
                inspect(&source.get("chart"), &version, is_asked, ctx);
            }
        }
    } else if object.is(Kind::OCI_REPOSITORY) {
        // The tag `latest`, which is the default, is no version of a chart.
        let range = spec.path(&["ref", "semver"]);
        if range.is_set() && !spec.path(&["ref", "digest"]).is_set() {
            inspect(&spec.get("url"), &range, false, ctx);
        }
    } else {
        let chart = if object.is(Kind::HELM_RELEASE) { spec.path(&["chart", "spec"]) } else { spec };
        // It has no effect for the charts of other sources, which have one version.
        if chart.path(&["sourceRef", "kind"]).text() == Some("HelmRepository") {
            inspect(&chart.get("chart"), &chart.get("version"), false, ctx);
        }
    }
    None
}

/// Reports a version that has no end. `is_asked`: whether someone has to start the installation.
fn inspect(chart: &Node<'_>, version: &Node<'_>, is_asked: bool, ctx: &mut Context<'_>) -> Option<()> {
    let name = base_name(chart.text()?.trim_end_matches('/'));
    let text = if version.is_set() { version.text()?.trim() } else { "" };
    if !CHARTS.contains(&name) || version.is_unknown() || !is_open(text) {
        return None;
    }
    let message = match text {
        "" => {
            format!("chart `{name}` has no version here: each release is installed, also the next major one")
        }
        _ => format!("`{}` takes each release of chart `{name}`, also the next major one", ellipsize(text)),
    };
    ctx.report(version, message)
        .severity(if is_asked { Severity::Info } else { Severity::Warning })
        .help("name the version that was tried, or a range that ends before the next major one");
    None
}

/// Whether a range of versions has no end: each part is a star, or a lower bound.
fn is_open(range: &str) -> bool {
    let range = range.replace("= ", "=").replace("> ", ">");
    let mut parts = range.split([' ', ',']).filter(|part| !part.is_empty());
    let is_star = |part: &str| matches!(part.trim_end_matches("-0"), "*" | "x" | "X");
    parts.all(|part| is_star(part) || part.starts_with('>'))
}
