//! A Spot pool has few instance types to choose from.
//!
//! # Why
//! AWS takes Spot nodes back by type and zone. With one family, or fewer than five types, one
//! shortage takes most nodes of the pool at once, and no replacement starts. Karpenter itself logs
//! a warning when it falls back from Spot to on-demand with fewer than five types. Fractional GPU
//! types are not counted: they have no whole GPU for a pod.
//!
//! # Fix
//! Admit more families and sizes, allow on-demand as well, or put a pool of lower weight behind
//! this one.
//!
//! # Example
//! Spot alone, one family:
//!
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-spot}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements: # <-
//! -        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
//! +        - key: karpenter.k8s.aws/instance-family
//! +          operator: In
//! +          values: [g5, g6, g6e]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>
//! - <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html>

use std::collections::BTreeSet;

use crate::catalog::{Accelerator, CAPACITY_TYPE};
use crate::karpenter::nodepool::hardware;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "spot-pool-low-diversity",
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("spot_pool_low_diversity.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

/// Karpenter itself calls a launch with fewer types inflexible.
const FEW: usize = 5;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // Pools that do not mention Spot are reported by capacity-type-unspecified.
    let capacity = pool.capacity_types().filter(|c| c.contains(&"spot"))?;
    let types = pool.types()?;
    let accelerated = hardware(&types) == Hardware::Accelerated;
    if types.is_empty() || pool.names_uncatalogued_values() {
        return None;
    }
    // A single type is reported by gpu-pool-single-instance-type.
    if accelerated && types.len() == 1 && !pool.is_static() {
        return None;
    }
    let usable: Vec<_> = types
        .iter()
        .filter(|t| !accelerated || Accelerator::RESOURCES.iter().any(|r| t.devices(r) > 0))
        .collect();
    let families: BTreeSet<&str> = usable.iter().map(|t| t.family()).collect();
    let few = usable.len() < FEW;
    let on_demand = capacity.contains(&"on-demand");
    if usable.is_empty() || !(few || families.len() == 1 && !on_demand) {
        return None;
    }
    let name = object.display_name();
    let count = usable.len();
    let what = match (families.first(), families.len()) {
        (Some(family), 1) => format!("{} of family `{family}`", types_word(count)),
        _ => types_word(count),
    };
    let behind = super::fallback(object, pool, ctx.cluster());
    let finding =
        ctx.report(&pool.requirements(), format!("Spot pool `{name}` has only {what} to choose from"));
    if on_demand {
        finding
            .severity(Severity::Info)
            .help("with five types or more Karpenter finds Spot capacity before it falls back");
    } else if let Some(other) = behind {
        finding
            .severity(Severity::Info)
            .help("a pool of lower weight admits its pods when Spot runs out; more types make that rare")
            .related(&other, &other.path(&["metadata", "name"]), "this pool");
    } else if pool.labels().get(CAPACITY_TYPE).text() == Some("spot") {
        finding.help("admit more types, or remove the template label `karpenter.sh/capacity-type: spot`");
    } else {
        finding.help("admit more families and sizes, allow on-demand, or add a pool of lower weight");
    }
    None
}

fn types_word(count: usize) -> String {
    match count {
        1 => "one type".to_owned(),
        count => format!("{count} types"),
    }
}
