//! The stated version of Kubernetes does not serve the API version of an object.
//!
//! # Why
//! An API version comes with one minor version of Kubernetes and goes with another. A server that does not
//! have it answers `no matches for kind` and stores nothing: a DeviceTaintRule of `resource.k8s.io/v1`
//! reaches no cluster before 1.37, a ServiceCIDR of `networking.k8s.io/v1beta1` none from 1.37 on. Alpha
//! and beta versions are served only where `--runtime-config` of the API server turns them on, which Amazon
//! EKS does for none that is alpha. What a configuration of Talos, kubeadm or k3s beside the manifests turns on
//! is not reported.
//!
//! Versions that were removed long ago are reported by `removed-api-version`, those of ResourceClaims and
//! DeviceClasses by `dra-api-version`.
//!
//! # Fix
//! Write the version that the cluster serves, which the help names. Where it serves none, leave the object
//! out for this cluster, or update Kubernetes first; an object of a version that ends must be rewritten, or
//! deleted, before the update. `platform.kubernetes` in gpulint.yaml, or `--kubernetes`, states the
//! version.
//!
//! # Example
//! ```yaml,diff
//!  # platform: {kubernetes: "1.37"}
//! -apiVersion: networking.k8s.io/v1beta1 # <-
//! +apiVersion: networking.k8s.io/v1
//!  kind: ServiceCIDR
//!  metadata: {name: more-services}
//!  spec: {cidrs: [10.112.0.0/16]}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/deprecation-guide/>
//! - <https://kubernetes.io/docs/reference/using-api/#api-groups>

use crate::kind::api_versions::{ApiMinors, minors_of, versions_of_kind};
use crate::lint::finding::Merge;
use crate::object::ObjectId;
use crate::platform::Platform;
use crate::rules::manifest_purpose::{is_named_after_version, is_release_manifest};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "api-version-not-served",
    reads: &[Kind::NODE_POOL],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("api_version_not_served.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let id = object.id();
    let minors = minors_of(&id.group, &id.version, &id.kind)?;
    // dra-api-version reports these, with the way to write them anew.
    let claims = [Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE, Kind::DEVICE_CLASS];
    if claims.iter().any(|kind| object.is(*kind)) || object.is_patch() || ctx.definitions().find(id).is_some()
    {
        return None;
    }
    let cluster = ctx.platform().kubernetes;
    let (kind, api_version) = (&id.kind, id.api_version());
    let since = minors.range.since.filter(|since| cluster < *since);
    let until = minors.range.until.filter(|until| *until < cluster);
    let is_off = since.is_none() && until.is_none();
    let message = match (since, until) {
        (Some(since), _) => {
            format!("Kubernetes {cluster} does not serve {kind} of `{api_version}`, which came with {since}")
        }
        (None, Some(until)) => {
            format!("Kubernetes {cluster} no longer serves {kind} of `{api_version}`; {until} was the last")
        }
        (None, None) if !minors.is_on && !is_turned_on(id, ctx) => {
            format!("{kind} of `{api_version}` is off by default in Kubernetes {cluster}")
        }
        (None, None) => return None,
    };
    let stable = served_by_default(id, cluster);
    // While the version is not known, the one that may come later is no way to write it.
    let later = stable.as_ref().filter(|_| is_off && !ctx.platform().is_stated(Product::Kubernetes));
    let later = later.and_then(|stable| {
        let version = stable.rsplit('/').next()?;
        minors_of(&id.group, version, &id.kind)?.range.since
    });
    let help = match (&stable, since) {
        (Some(stable), _) if let Some(first) = later => {
            format!(
                "write `{stable}`, which came with Kubernetes {first}; before it, the API server needs `--runtime-config={api_version}=true`"
            )
        }
        (Some(stable), _) => format!("write `{stable}`"),
        (None, Some(since)) => format!("update Kubernetes to {since} first, or leave the object out"),
        (None, None) if is_off => {
            let is_eks = ctx.platform().eks && ctx.cluster().shows_eks();
            let on_eks = if is_eks { ", which Amazon EKS does not set" } else { "" };
            format!("the API server needs `--runtime-config={api_version}=true`{on_eks}")
        }
        (None, None) => match served_if_turned_on(id, cluster) {
            Some(other) => format!("Kubernetes {cluster} has it as `{other}`, which is off by default"),
            None => "delete the object before the update, and leave it out after it".to_owned(),
        },
    };
    let node = object.get("apiVersion");
    let finding = ctx.report(&node, message);
    finding.help(help);
    if is_off {
        finding.severity(Severity::Warning).rejected_by(None);
    }
    // A copy of what was released for the Kubernetes of its time, or one of several for different clusters.
    if is_release_manifest(object) || is_named_after_version(object) {
        finding.severity(Severity::Info);
    }
    if is_off && (stable.is_none() || later.is_some()) {
        // The objects of a file usually belong together, such as a policy and its binding.
        let subject = format!("`{api_version}` is off by default in Kubernetes {cluster}");
        finding.merges(Merge::new(subject, kind.as_str(), |merge| {
            format!("{} of {}", merge.subject(), merge.key())
        }));
    }
    if let Some(stable) = stable.filter(|_| later.is_none()) {
        finding.fix(Fix::unsafe_(format!("write `{stable}`")).set(&node, json!(stable)));
    }
    None
}

/// Whether an API version that is off by default is on: a file beside the manifests turns it on, or Amazon EKS does.
fn is_turned_on(id: &ObjectId, ctx: &Context<'_>) -> bool {
    ctx.cluster().is_api_shown(ctx.object()) || is_turned_on_in_eks(id, ctx.platform())
}

/// Amazon EKS turns on what its own add-ons use: VolumeAttributesClasses for the EBS CSI driver, from 1.31 on
/// (<https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html>).
fn is_turned_on_in_eks(id: &ObjectId, platform: &Platform) -> bool {
    platform.eks && id.kind == "VolumeAttributesClass" && id.version == "v1beta1"
}

/// The API version in which a cluster serves a kind without being told to.
fn served_by_default(id: &ObjectId, cluster: Version) -> Option<String> {
    served(id, |minors| minors.is_none_or(|minors| minors.is_on && minors.range.contains(cluster)))
}

/// The API version in which a cluster serves a kind once it is turned on.
fn served_if_turned_on(id: &ObjectId, cluster: Version) -> Option<String> {
    served(id, |minors| minors.is_some_and(|minors| minors.range.contains(cluster)))
}

/// The most preferred API version of a kind that is served, by the minor versions that have it; `None` for one that is
/// served by all. Alpha and beta versions that are in no table are gone.
fn served(id: &ObjectId, is_served: impl Fn(Option<&ApiMinors>) -> bool) -> Option<String> {
    let is_stable = |version: &str| !version.contains("alpha") && !version.contains("beta");
    let mut others = versions_of_kind(&id.group, &id.kind).iter().filter(|version| **version != id.version);
    let found = others.find(|version| {
        let minors = minors_of(&id.group, version, &id.kind);
        (minors.is_some() || is_stable(version)) && is_served(minors)
    });
    found.map(|version| format!("{}/{version}", id.group))
}
