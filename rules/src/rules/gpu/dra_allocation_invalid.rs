//! A device request has an allocation mode or a count that the API server rejects.
//!
//! # Why
//! A request allocates either `count` devices, one if nothing is written, or every device that matches
//! (`allocationMode: All`). The API server rejects a `count` beside `All`, a negative `count`, and any
//! other mode, so the claim is never created and the pods that name it stay pending.
//!
//! # Fix
//! Write `count` alone, or `allocationMode: All` alone.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaim
//!  metadata: {name: whole-node}
//!  spec:
//!    devices:
//!      requests:
//!        - name: gpu
//!          exactly:
//!            deviceClassName: gpu.nvidia.com
//!            allocationMode: All
//! -          count: 8 # <-
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/>

use crate::rules::manifest::field_errors;
use crate::rules::prelude::*;
use crate::schema::validation::{Checker, dra_request};

pub(crate) static RULE: Rule = Rule {
    id: "dra-allocation-invalid",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("dra_allocation_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut checker = Checker::new(object);
    dra_request::allocation(object, &mut checker);
    field_errors::report(object, checker.into_errors(), ctx);
    None
}
