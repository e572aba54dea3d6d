//! A Spot pool has few instance types to choose from.
//!
//! # Why
//! AWS takes Spot nodes back by type and zone. With one family, or fewer than five types, one
//! shortage takes most nodes of the pool at once, and no replacement starts. Karpenter itself logs
//! a warning when it falls back from Spot to on-demand with fewer than five types. Fractional GPU
//! types are not counted, which have no whole GPU for a pod, nor are types that EC2 no longer offers.
//!
//! With the feature gate `SpotToSpotConsolidation`, Karpenter replaces a single Spot node only if 15 types
//! are cheaper than it. Where the input turns the gate on, a pool of Spot nodes alone that consolidates
//! underutilized nodes and admits no more than 15 types is reported: each of its nodes stays until it is
//! empty, or until several become one.
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

use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::installation::{self, INSTALLERS};
use crate::karpenter::minors;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "spot-pool-low-diversity",
    reads: kinds![INSTALLERS, [Kind::NODE_POOL]],
    holds_alone: true,
    docs: docs(include_str!("spot_pool_low_diversity.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

/// Karpenter itself calls a launch with fewer types inflexible.
const FEW: usize = 5;

/// The cheaper types without which a single Spot node is not replaced: `MinInstanceTypesForSpotToSpotConsolidation` in
/// `pkg/controllers/disruption/consolidation.go` of Karpenter, since 0.34.
const CHEAPER: usize = 15;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // Pools that do not mention Spot are reported by capacity-type-unspecified.
    let capacity = pool.capacity_types().filter(|c| c.contains(&"spot"))?;
    let types = pool.types()?;
    let accelerated = pool.hardware() == Hardware::Accelerated;
    if types.is_empty() || pool.names_uncatalogued_values() {
        return None;
    }
    if capacity == ["spot"] {
        never_replaced(pool, types.len(), ctx);
    }
    // A single type is reported by gpu-pool-single-instance-type.
    if accelerated && types.len() == 1 && !pool.is_static() {
        return None;
    }
    let usable = || types.iter().filter(|t| !accelerated || t.accelerators() > 0);
    let (count, family) = (usable().count(), usable().next()?.family());
    let is_one_family = usable().all(|t| t.family() == family);
    let on_demand = capacity.contains(&"on-demand");
    if !(count < FEW || is_one_family && !on_demand) {
        return None;
    }
    let name = object.display_name();
    let what = match is_one_family {
        true => format!("{} of family `{family}`", types_word(count)),
        false => types_word(count),
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

/// Reports a pool of Spot nodes with too few types for the consolidation that the input turns on.
fn never_replaced(pool: &NodePool<'_>, count: usize, ctx: &mut Context<'_>) -> Option<()> {
    const GATE: &str = "SpotToSpotConsolidation";
    let (object, delay) = (pool.object(), pool.disruption().get("consolidateAfter"));
    let consolidates = pool.consolidation_policy() == Some("WhenEmptyOrUnderutilized")
        && !delay.is_unknown()
        && delay.text() != Some("Never");
    // Without a budget for it nobody waits for a replacement.
    let is_shut = pool
        .calendar()
        .is_none_or(|calendar| calendar.is_always(DisruptionReason::Underutilized, AllowanceState::Zero));
    if is_shut
        || count > CHEAPER
        || !consolidates
        || pool.is_static()
        || pool.is_auto_mode()
        || object.may_lack_fields()
    {
        return None;
    }
    let gate = minors::gate(GATE)?;
    let cluster = ctx.cluster();
    let installers = INSTALLERS.iter().flat_map(|kind| cluster.of(*kind));
    let (installer, setting) = installers.filter(|one| ctx.pairs_with(one)).find_map(|one| {
        let setting = installation::setting(one, gate)?;
        (setting.on == Some(true)).then_some((one, setting))
    })?;
    let message = format!(
        "no Spot node of `{}` is replaced by a cheaper one: that takes {CHEAPER} cheaper types, and it admits {}",
        object.display_name(),
        types_word(count)
    );
    ctx.report(&pool.disruption().get("consolidationPolicy"), message)
        .identified_by(GATE)
        .help(format!("admit more types than {CHEAPER}: more sizes, families and generations"))
        .related(installer, &setting.place.node, "this gate turns the replacement on");
    None
}

fn types_word(count: usize) -> String {
    match count {
        1 => "one type".to_owned(),
        count => format!("{count} types"),
    }
}
