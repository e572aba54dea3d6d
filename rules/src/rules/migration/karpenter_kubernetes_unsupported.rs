//! Karpenter does not support the version of Kubernetes.
//!
//! # Why
//! Each minor version of Karpenter is built and tested for a range of Kubernetes versions. Outside of it
//! the controller logs an error and goes on, so an upgrade of the cluster looks well until something that
//! changed in the API breaks provisioning. Only a version of the cluster that is stated counts.
//!
//! # Fix
//! Update Karpenter before the cluster.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {kubernetes: "1.34"}
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: karpenter
//! -      version: 1.5.0 # <-
//! +      version: 1.15.1
//!        sourceRef: {kind: HelmRepository, name: karpenter}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/compatibility/>

use crate::cluster::values::CHART_SOURCES;
use crate::karpenter::installation::INSTALLERS;
use crate::karpenter::minors;
use crate::rules::karpenter_in_use::installed_version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-kubernetes-unsupported",
    kinds: &INSTALLERS,
    reads: &CHART_SOURCES,
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("karpenter_kubernetes_unsupported.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let platform = ctx.platform();
    if object.is_partial() || !platform.is_stated(Product::Kubernetes) {
        return None;
    }
    let kubernetes = platform.kubernetes;
    let (node, installed) = installed_version(object, ctx.cluster())?;
    let message = minors::unsupported_kubernetes(installed, kubernetes)?;
    let finding = ctx.report(&node, message);
    match minors::first_with_kubernetes(kubernetes) {
        Some(first) if first > installed => {
            finding.help(format!("update Karpenter to {first} or newer first"))
        }
        Some(_) => finding.help("update Kubernetes first, or keep an older Karpenter"),
        None => finding.help("keep Kubernetes at a version that a Karpenter supports"),
    };
    None
}
