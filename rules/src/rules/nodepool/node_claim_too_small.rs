//! A NodeClaim requests more than any instance type that it admits has for pods.
//!
//! # Why
//! Karpenter launches an instance for a NodeClaim only from types whose allocatable resources cover
//! `spec.resources.requests`: the capacity without what kubelet, the system and the hypervisor reserve. A
//! claim that requests the whole CPU or memory of its type, or more devices than one has, is deleted after
//! "all requested instance types were unavailable", and no node ever joins.
//!
//! # Fix
//! Request less than the type has, or admit a larger one. Where pods need nodes, let a NodePool start them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodeClaim
//!  metadata: {name: render}
//!  spec:
//!    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!    requirements:
//!      - {key: node.kubernetes.io/instance-type, operator: In, values: [m7i.2xlarge]}
//!    resources:
//!      requests:
//! -      cpu: 8 # <-
//! +      cpu: 7
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclaims/>

use crate::cluster::placement::has_controller;
use crate::karpenter::nodepool::types_meeting;
use crate::karpenter::provider::Provider;
use crate::karpenter::scheduling::{SchedulerOptions, allocatable};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-claim-too-small",
    kinds: &[Kind::NODE_CLAIM],
    docs: docs(include_str!("node_claim_too_small.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = RequirementList::of(object)?;
    // Karpenter's own claims, as in a dump of a cluster, request what fits.
    let own =
        has_controller(object) || object.path(&["metadata", "ownerReferences"]).items().next().is_some();
    if own
        || object.is_partial()
        || list.provider == Provider::Other
        || object.path(&["status", "nodeName"]).is_set()
    {
        return None;
    }
    let mut types: Option<TypeSet> = None;
    for item in list.items() {
        if let Some(met) = types_meeting(&item.0, list.provider) {
            types = Some(types.map_or(met, |known| known.and(&met)));
        } else if item.0.has_unknown() {
            return None;
        }
    }
    let types = types.filter(|types| !types.is_empty())?;
    let options = SchedulerOptions::default();
    for (resource, amount) in object.path(&["spec", "resources", "requests"]).entries() {
        let wanted = Quantity::at(&amount)?.milli();
        let most = types
            .iter()
            .map(|one| match resource {
                "cpu" => allocatable(one, None, &options).cpu,
                // How much of it the hypervisor and the kubelet keep are settings; they always keep something.
                "memory" => i128::from(one.memory_mib) * 1024 * 1024 * 1000 - 1,
                "pods" | "ephemeral-storage" => i128::MAX,
                resource if crate::workload::gpu::INSTANCE_RESOURCES.contains(&resource) => {
                    i128::from(one.devices(resource)) * 1000
                }
                _ => i128::MAX,
            })
            .max()?;
        if wanted > most {
            let have = if resource == "memory" {
                format!("less than {} MiB", (most + 1) / (1024 * 1024 * 1000))
            } else {
                thousandths(most)
            };
            let message =
                format!("the claim requests more `{resource}` than any of its types has for pods: {have}");
            ctx.report(&amount, message)
                .identified_by(resource)
                .help("request less, or admit a larger instance type: no node is launched");
        }
    }
    None
}

fn thousandths(milli: i128) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}
