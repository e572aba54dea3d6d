//! `minValues` asks for more different values than there are.
//!
//! # Why
//! With `minValues` Karpenter starts a node only if the types it offers to EC2 have that many
//! different values of the label, unless its `minValuesPolicy` is `BestEffort`. A list with fewer values is
//! rejected by the API server; one that repeats a value passes, but the scheduler counts it once; and
//! where fewer kinds of instance
//! types meet all requirements together, the pool stays Ready and starts nothing. A second effect
//! is easily missed: with any `minValues` Karpenter no longer keeps GPU instances out of a pool
//! that also admits others.
//!
//! # Fix
//! Lower the number, or admit more families, sizes or types.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - key: karpenter.k8s.aws/instance-family
//!            operator: In
//!            values: [c7i, m7i, r7i]
//! -          minValues: 5 # <-
//! +          minValues: 2
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#min-values>

use std::collections::BTreeSet;

use crate::catalog;
use crate::fit::min_values_policy;
use crate::karpenter::installation::INSTALLERS;
use crate::platform::MinValuesPolicy;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "min-values-unsatisfiable",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM],
    reads: &INSTALLERS,
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("min_values_unsatisfiable.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = ctx.requirements()?;
    let pool = NodePool::new(object);
    let mut first = None;
    let mut told = false;
    for item in list.items() {
        let wanted = item.node.get("minValues");
        // A number outside the bounds is rejected and reported by another rule.
        let Some(number) = wanted.int().filter(|n| (1..=50).contains(n)) else { continue };
        told |= too_few_written(item, number, ctx)
            || pool.as_ref().is_some_and(|pool| too_few_kinds(pool, item, number, ctx));
        first.get_or_insert(wanted);
    }
    if let (Some(pool), Some(wanted), false) = (pool, first, told)
        && pool.hardware() == Hardware::Mixed
    {
        ctx.report(&wanted, "with `minValues` Karpenter no longer keeps GPU instances out of this pool")
            .severity(Severity::Warning)
            .help("add a requirement on `karpenter.k8s.aws/instance-category`, such as In [c, m, r]");
    }
    None
}

/// Reports a list that has fewer values than required. Returns whether it does.
fn too_few_written(item: &RequirementItem<'_>, wanted: i64, ctx: &mut Context<'_>) -> bool {
    if item.operator() != Some(Operator::In) {
        return false;
    }
    let Some(texts) = item.texts().filter(|t| !t.is_empty()) else { return false };
    let node = item.node.get("minValues");
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let distinct = texts.iter().collect::<BTreeSet<_>>().len();
    if texts.len() < wanted {
        let message = format!("`minValues` is {wanted}, but the list has {}", count(texts.len()));
        ctx.report(&node, message).help("the API server rejects it: list more values, or lower the number");
    } else if distinct < wanted {
        if is_relaxed(ctx) {
            return true;
        }
        let message = format!("`minValues` is {wanted}, but only {} differ", count(distinct));
        ctx.report(&node, message)
            .rejected_by(None)
            .help("the scheduler counts a repeated value once, and starts no node");
    } else {
        return false;
    }
    true
}

/// Whether Karpenter lowers `minValues` that cannot be met (`--min-values-policy=BestEffort`).
fn is_relaxed(ctx: &Context<'_>) -> bool {
    min_values_policy(ctx.platform(), ctx.cluster()) == MinValuesPolicy::BestEffort
}

fn count(number: usize) -> String {
    match number {
        1 => "1 value".to_owned(),
        n => format!("{n} values"),
    }
}

/// Reports a label of which the admitted types have fewer values than required. Returns whether they do.
fn too_few_kinds(
    pool: &NodePool<'_>,
    item: &RequirementItem<'_>,
    wanted: i64,
    ctx: &mut Context<'_>,
) -> bool {
    let Some(key) = item.key() else { return false };
    let known = pool.provider().catalogue_key(key);
    let (Some(types), Some(index)) = (pool.admitted_types(), catalog::index(&known)) else { return false };
    let unsure = !index.unknown().is_disjoint(&types);
    if types.is_empty() || unsure || pool.names_uncatalogued_values() {
        return false;
    }
    let enough = |kinds: usize| i64::try_from(kinds).unwrap_or(i64::MAX) >= wanted;
    let (kinds, offered) = (index.distinct(&types), index.distinct(&types.without(catalog::retired())));
    if enough(offered) {
        return false;
    }
    if is_relaxed(ctx) {
        return true;
    }
    // An account may still have types that EC2 no longer offers.
    let is_sure = !enough(kinds);
    let (which, kinds) =
        if is_sure { ("instance types", kinds) } else { ("types that EC2 still offers", offered) };
    let message = format!(
        "the pool's {which} have {} of `{}`, and `minValues` is {wanted}",
        count(kinds),
        ellipsize(key)
    );
    ctx.report(&item.node.get("minValues"), message)
        .rejected_by(None)
        .severity(if is_sure { Severity::Error } else { Severity::Warning })
        .help("the pool never starts a node: lower the number, or admit more types");
    true
}
