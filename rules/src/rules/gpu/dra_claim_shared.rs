//! All replicas of a workload share the device of one ResourceClaim.
//!
//! # Why
//! A ResourceClaim is allocated once. All pods that name it with `resourceClaimName` use the same GPU
//! and have to run on its node: a second replica adds no GPU, and one that does not fit on the node
//! stays Pending.
//!
//! # Fix
//! Write a ResourceClaimTemplate and name it with `resourceClaimTemplateName`: each pod then gets a
//! claim of its own. Where the pods are meant to share, configure how (`TimeSlicing` or `MPS`) in the
//! claim.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//! -kind: ResourceClaim
//! +kind: ResourceClaimTemplate
//!  metadata: {name: gpu}
//!  spec:
//! -  devices:
//! -    requests:
//! -      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
//! +  spec:
//! +    devices:
//! +      requests:
//! +        - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: embed}
//!  spec:
//!    replicas: 3
//!    serviceName: embed
//!    selector: {matchLabels: {app: embed}}
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        resourceClaims:
//!          - name: gpu
//! -          resourceClaimName: gpu # <-
//! +          resourceClaimTemplateName: gpu
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, claims: [{name: gpu}]}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

use crate::rules::gpu::dra_claims::{asks_for_gpus, claims, resolve};
use crate::rules::prelude::*;
use crate::workload::devices::pods_of;
use crate::workload::dra::devices;

pub(crate) static RULE: Rule = Rule {
    id: "dra-claim-shared",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    docs: docs(include_str!("dra_claim_shared.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        for claim in claims(&template) {
            inspect(object, &template, &claim, ctx);
        }
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, claim: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = claim.get("resourceClaimName");
    let name = node.text()?;
    let pods = pods_of(object, template).filter(|pods| *pods > 1)?;
    let target = resolve(object, claim, ctx)?;
    // A claim that configures sharing is shared on purpose.
    if !asks_for_gpus(target) || devices(target).get("config").is_set() {
        return None;
    }
    let owner = object.display_name();
    ctx.report(&node, format!("all {pods} pods of `{owner}` share the device of claim `{name}`"))
        .help("write a ResourceClaimTemplate, and name it with `resourceClaimTemplateName`")
        .related(target, &target.path(&["metadata", "name"]), "is allocated once");
    None
}
