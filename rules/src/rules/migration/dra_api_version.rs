//! A DRA object uses an old version of its API, or one that is not served yet.
//!
//! # Why
//! Dynamic resource allocation became stable as `resource.k8s.io/v1` in Kubernetes 1.34. Beta
//! versions are off by default in every release, so that a cluster of today may serve `v1` alone; EKS
//! serves `v1beta1` in 1.33, before `v1` was there.
//! `v1beta1` came with 1.32 and ends with 1.38, `v1beta2` came with 1.33 and ends with 1.39. The alpha versions
//! are gone: 1.31 has `v1alpha3` alone. Before 1.34 nobody serves `v1`.
//!
//! # Fix
//! Write `resource.k8s.io/v1`, with the fields of each request under `exactly`. Alpha claims are
//! written anew: their resource classes and parameters became device classes and CEL selectors.
//!
//! # Example
//! ```yaml,diff
//! -apiVersion: resource.k8s.io/v1beta1 # <-
//! +apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaim
//!  metadata: {name: whole}
//!  spec:
//!    devices:
//!      requests:
//!        - name: gpu
//! -        deviceClassName: gpu.nvidia.com
//! +        exactly:
//! +          deviceClassName: gpu.nvidia.com
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://kubernetes.io/docs/reference/using-api/deprecation-guide/>

use crate::platform::Platform;
use crate::rules::manifest_purpose::is_named_after_version;
use crate::rules::prelude::*;
use crate::schema::validation::dra_request::nest;
use crate::workload::dra::{flat_fields, requests, served_by, served_in};

pub(crate) static RULE: Rule = Rule {
    id: "dra-api-version",
    kinds: &[
        Kind::RESOURCE_CLAIM,
        Kind::RESOURCE_CLAIM_TEMPLATE,
        Kind::DEVICE_CLASS,
        Kind::new("resource.k8s.io", "ResourceClass"),
    ],
    reads: &[Kind::NODE_POOL],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("dra_api_version.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

/// The first minor version that serves `v1`.
const STABLE: Version = Version::new(1, 34);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.get("apiVersion");
    let version = object.version();
    let cluster = ctx.platform().kubernetes;
    let (first, gone) = served_in(version)?;
    if cluster < first {
        ctx.report(&node, format!("Kubernetes {cluster} does not serve `resource.k8s.io/{version}` yet"))
            .help(match served_by(cluster) {
                // Amazon EKS turns on no alpha API.
                Some(alpha) if alpha.contains("alpha") => format!(
                    "upgrade to Kubernetes 1.34: {cluster} has only `resource.k8s.io/{alpha}`, which is off by default"
                ),
                Some(served) => format!("write `resource.k8s.io/{served}`, or upgrade to Kubernetes 1.34"),
                None => "upgrade to Kubernetes 1.34".to_owned(),
            });
        return None;
    }
    let gone = gone?;
    if version.contains("alpha") {
        let is_served = cluster < gone;
        let message = match is_served {
            true => {
                format!("`resource.k8s.io/{version}` is off by default and is removed in Kubernetes {gone}")
            }
            false => format!("no current API server serves `resource.k8s.io/{version}`"),
        };
        let is_shown = ctx.cluster().is_api_shown(object);
        let finding = ctx.report(&node, message);
        finding.help("write it anew as `resource.k8s.io/v1`, with device classes and requests");
        if is_served {
            finding.severity(if is_shown { Severity::Info } else { Severity::Warning });
        }
        return None;
    }
    // Next to a folder for the current version, it is meant for older clusters.
    let kept = is_named_after_version(object) && !ctx.platform().is_stated(Product::Kubernetes);
    let is_shown = ctx.cluster().is_api_shown(object);
    let severity = if cluster < STABLE || ((kept || is_shown) && cluster < gone) {
        Severity::Info
    } else if cluster < gone {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = if cluster < gone && is_shown {
        format!(
            "`resource.k8s.io/{version}` is turned on in this cluster and is removed in Kubernetes {gone}"
        )
    } else if cluster < gone && is_on_in_eks(version, ctx.platform()) {
        format!("EKS {cluster} serves `resource.k8s.io/{version}`, which is removed in Kubernetes {gone}")
    } else if cluster < gone {
        format!("`resource.k8s.io/{version}` is off by default and is removed in Kubernetes {gone}")
    } else {
        format!("Kubernetes {gone} no longer serves `resource.k8s.io/{version}`")
    };
    let finding = ctx.report(&node, message);
    finding.severity(severity);
    if cluster < STABLE {
        finding.help("write `resource.k8s.io/v1` once the cluster runs Kubernetes 1.34");
        return None;
    }
    finding.help("write `resource.k8s.io/v1`, with each request's fields under `exactly`");
    let mut fix =
        Fix::new("write `resource.k8s.io/v1`", Safety::Safe).set(&node, json!("resource.k8s.io/v1"));
    for request in requests(object) {
        let mixed = request.get("exactly").is_set() || request.get("firstAvailable").is_set();
        if version == "v1beta1" && flat_fields(&request).next().is_some() {
            if mixed {
                return None;
            }
            fix = nest(fix, &request);
        }
    }
    finding.fix(fix);
    None
}

/// Amazon EKS serves `v1beta1` in 1.33, before `v1` is there:
/// <https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html>.
fn is_on_in_eks(version: &str, platform: &Platform) -> bool {
    platform.eks && platform.kubernetes == Version::new(1, 33) && version == "v1beta1"
}
