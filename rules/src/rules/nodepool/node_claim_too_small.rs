//! A NodeClaim requests more than any instance type that it admits has for pods.
//!
//! # Why
//! Karpenter launches an instance for a NodeClaim only from types whose allocatable resources cover
//! `spec.resources.requests`: the capacity without what kubelet, the system and the hypervisor reserve. A
//! claim that requests the whole CPU or memory of its type, or more devices than one has, is deleted after
//! "all requested instance types were unavailable", and no node ever joins. How many pods a node takes, and how
//! large its disk is, is what the EC2NodeClass says.
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

use crate::fit::class_of_claim;
use crate::karpenter::nodepool::types_meeting;
use crate::karpenter::scheduling::{NodeClass, SchedulerOptions, allocatable};
use crate::rules::prelude::*;
use crate::workload::gpu::{EFA, KARPENTER_ACCELERATORS};

pub(crate) static RULE: Rule = Rule {
    id: "node-claim-too-small",
    kinds: &[Kind::NODE_CLAIM],
    reads: &[Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("node_claim_too_small.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = ctx.requirements()?;
    // Karpenter's own claims, as in a dump of a cluster, request what fits.
    if object.is_owned()
        || object.is_partial()
        || list.provider == Provider::Other
        || object.path(&["status", "nodeName"]).is_set()
    {
        return None;
    }
    let mut types: Option<TypeSet> = None;
    for item in list.items() {
        if let Some(met) = types_meeting(&item.node, list.provider) {
            types = Some(types.map_or(met, |known| known.and(&met)));
        } else if item.node.has_unknown() {
            return None;
        }
    }
    let types = types.filter(|types| !types.is_empty())?;
    let class = class_of_claim(object, ctx.cluster());
    for (resource, amount) in object.path(&["spec", "resources", "requests"]).entries() {
        let wanted = Quantity::at(&amount)?.milli();
        let sizes = types.iter().filter_map(|one| size(one, class.as_ref(), resource));
        let Some(size) = sizes.max_by_key(|size| size.most) else { continue };
        if wanted > size.most {
            let have = size.text(resource);
            let whose = match resource {
                "pods" | "ephemeral-storage" => "a node of its class has",
                _ => "any of its types has for pods",
            };
            let remedy = match resource {
                "pods" => format!("write {have} or less, or raise `maxPods` in the class"),
                "ephemeral-storage" => format!("write {have} or less, or map a larger volume in the class"),
                _ if size.usual <= 0 => "admit a type that has it".to_owned(),
                _ => format!("write {have} or less, or admit a larger instance type"),
            };
            ctx.report(&amount, format!("the claim requests more `{resource}` than {whose}: {have}"))
                .identified_by(resource)
                .help(format!("{remedy}: no node is launched"));
        }
    }
    None
}

/// What an instance type has of a resource, in thousandths.
struct Size {
    /// Above it no node is launched.
    most: i128,
    /// What is left for pods with the default settings.
    usual: i128,
}

impl Size {
    fn text(&self, resource: &str) -> String {
        match resource {
            "memory" | "ephemeral-storage" => format!("{}Mi", self.usual / (1024 * 1024 * 1000)),
            _ if self.usual % 1000 == 0 => (self.usual / 1000).to_string(),
            _ => format!("{}m", self.usual),
        }
    }
}

/// `None` for a resource whose amount is not known: without its class, that of pods and of the disk.
fn size(one: &'static InstanceType, class: Option<&NodeClass>, resource: &str) -> Option<Size> {
    let node = allocatable(one, class, &SchedulerOptions::default());
    let usual = node.get(resource);
    match resource {
        // How much of it the hypervisor and the kubelet keep are settings; they always keep something.
        "memory" => {
            let whole = i128::from(one.memory_mib) * 1024 * 1024 * 1000;
            Some(Size { most: whole - 1, usual })
        }
        "pods" | "ephemeral-storage" if class.is_none() => None,
        "cpu" | "pods" | "ephemeral-storage" | EFA | "vpc.amazonaws.com/pod-eni" => {
            Some(Size { most: usual, usual })
        }
        _ => KARPENTER_ACCELERATORS.contains(&resource).then_some(Size { most: usual, usual }),
    }
}
