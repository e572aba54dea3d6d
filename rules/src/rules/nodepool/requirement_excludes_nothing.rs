//! A `NotIn` requirement does not exclude what it is meant to exclude.
//!
//! # Why
//! The sizes of bare metal types are `metal`, and also `metal-24xl`, `metal-48xl` and others: `NotIn [metal]`
//! leaves these. They take many minutes to start, and cost as much as the largest size of their family. A
//! list whose values no type of the pool has, because the other requirements exclude them or a value is
//! outdated, has no effect at all; a list of sizes may be there for types to come.
//!
//! # Fix
//! List all sizes, or bound the pool by `instance-cpu`; remove what has no effect.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}
//!          - key: karpenter.k8s.aws/instance-size
//!            operator: NotIn
//! -          values: [metal] # <-
//! +          values: [metal-24xl, metal-48xl]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>

use std::collections::BTreeSet;

use crate::catalog;
use crate::karpenter::nodepool::types_meeting;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-excludes-nothing",
    kinds: &[Kind::NODE_POOL],
    docs: docs(include_str!("requirement_excludes_nothing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::NodePool)
};

const SIZE: &str = "karpenter.k8s.aws/instance-size";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (pool, list) = (NodePool::new(object)?, ctx.requirements()?);
    let types = pool.types().filter(|types| !types.is_empty())?;
    if pool.names_uncatalogued_values() {
        return None;
    }
    for (number, item) in list.items().enumerate() {
        let Some(key) = item.key().filter(|_| item.operator() == Some(Operator::NotIn)) else { continue };
        let key = list.provider.catalogue_key(key);
        let Some((index, values)) = catalog::index(&key).zip(item.texts()) else { continue };
        // A list of sizes is often a guard against types to come, which does no harm.
        if key == SIZE {
            report_metal_left(&pool, &types, &values, item, ctx);
            continue;
        }
        let mut others = TypeSet::full();
        for (other, item) in list.items().enumerate() {
            if other != number
                && let Some(met) = types_meeting(&item.node, list.provider)
            {
                others = others.and(&met);
            }
        }
        let excludes = |value: &&str| index.with(value).is_none_or(|with| !with.is_disjoint(&others));
        if values.is_empty() || values.iter().any(excludes) || !index.unknown().is_disjoint(&others) {
            continue;
        }
        let name = key.rsplit('/').next().unwrap_or(&key).to_owned();
        ctx.report(
            &item.values(),
            format!("the other requirements already exclude each {name} of this list"),
        )
        .help("remove the requirement, or check that the values are what you mean");
    }
    None
}

/// Reports metal sizes that the list leaves, where it names some, and that the limits of the pool allow.
fn report_metal_left(
    pool: &NodePool<'_>,
    types: &TypeSet,
    values: &[&str],
    item: &RequirementItem<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let limits = pool.to_pool().limits;
    let metal: Vec<_> = types.iter().filter(|one| one.is_metal() && one.is_within(&limits)).collect();
    let left: BTreeSet<&str> = metal.iter().map(|one| one.size()).collect();
    let first = left.first().filter(|_| values.contains(&"metal"))?;
    let type_name = metal.iter().find(|one| one.size() == *first)?.name;
    let more = match left.len() {
        1 => String::new(),
        2 => " and another size".to_owned(),
        count => format!(" and {} more sizes", count - 1),
    };
    ctx.report(
        &item.values(),
        format!("without `metal` the pool still admits `{first}`{more}, such as `{type_name}`"),
    )
    .help("list these sizes as well, or bound the pool by `karpenter.k8s.aws/instance-cpu`");
    None
}
