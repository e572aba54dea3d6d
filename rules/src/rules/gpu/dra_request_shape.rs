//! A device request does not have the layout of its API version.
//!
//! # Why
//! `resource.k8s.io/v1beta1` has the fields of a device request beside its name; `v1beta2` and `v1`
//! have them under `exactly`, or a list under `firstAvailable`. The API server rejects the wrong
//! layout, or, without strict field validation, drops the fields, so that the request is empty. A
//! ResourceClaimTemplate has a `spec` in its `spec`: with a single one the template is stored without a
//! claim.
//!
//! # Fix
//! Move the fields to where the version has them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaim
//!  metadata: {name: whole}
//!  spec:
//!    devices:
//!      requests:
//!        - name: gpu
//! -        deviceClassName: gpu.nvidia.com # <-
//! -        count: 2
//! +        exactly:
//! +          deviceClassName: gpu.nvidia.com
//! +          count: 2
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/>

use crate::rules::manifest::field_errors;
use crate::rules::prelude::*;
use crate::schema::validation::{Checker, dra_request};
use crate::workload::dra::{served_by, served_in};

pub(crate) static RULE: Rule = Rule {
    id: "dra-request-shape",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("dra_request_shape.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.platform().kubernetes;
    let serves_v1 = cluster >= Version::new(1, 34);
    let mut checker = Checker::new(object);
    dra_request::layout(object, serves_v1, &mut checker);
    let mut errors = checker.into_errors();
    // Which layout is right is decided by the version that the object is written anew in.
    let first = served_in(object.version()).map(|(first, _)| first);
    // Without a version that has such requests, and is on, the cluster has to be upgraded to the one that is written.
    let served = served_by(cluster).filter(|served| !served.contains("alpha"));
    if first.is_some_and(|first| cluster < first)
        && let Some(served) = served
    {
        for error in &mut errors {
            error.help = Some(format!(
                "first change `apiVersion`: Kubernetes {cluster} has `resource.k8s.io/{served}`"
            ));
            error.fix = None;
        }
    }
    field_errors::report(object, errors, ctx);
    None
}
