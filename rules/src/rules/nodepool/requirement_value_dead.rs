//! A listed value matches no instance type of the pool.
//!
//! # Why
//! The value exists, but another requirement of the pool excludes every type that has it: a size
//! that the families do not come in, an `arm64` beside NVIDIA's big machines. The list promises a
//! choice that is not there, which hides that a pool is narrower than it looks.
//!
//! # Fix
//! Take the value out, or loosen the requirement that excludes it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6e]}
//!          - key: karpenter.k8s.aws/instance-size
//!            operator: In
//!            values:
//!              - 12xlarge
//! -            - 9xlarge # <-
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use crate::catalog;
use crate::karpenter::scheduling;
use crate::karpenter::scheduling::RequirementSpec;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-dead",
    kinds: &[Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("requirement_value_dead.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (pool, list) = (NodePool::new(object)?, ctx.requirements()?);
    let lists = |item: &RequirementItem<'_>| {
        item.operator() == Some(Operator::In) && item.values().items().nth(1).is_some()
    };
    if !list.items().any(lists) {
        return None;
    }
    let types = pool.admitted_types().filter(|types| !types.is_empty())?;
    // Types that are newer than the catalogue may have sizes and properties that known types do not.
    if pool.names_uncatalogued_values() {
        return None;
    }
    for item in list.items().filter(|item| lists(item)) {
        if let Some(key) = item.key() {
            inspect(object, &pool, &types, item, &list.provider.catalogue_key(key), ctx);
        }
    }
    None
}

fn inspect(
    object: &Object,
    pool: &NodePool<'_>,
    types: &TypeSet,
    item: &RequirementItem<'_>,
    key: &str,
    ctx: &mut Context<'_>,
) {
    let Some(index) = catalog::index(key).filter(|i| i.unknown().is_disjoint(types)) else { return };
    let is_dead = |node: &Node<'_>| {
        (node.text().and_then(|text| index.with(text))).is_some_and(|with| with.is_disjoint(types))
    };
    let values = item.values();
    let dead: Vec<Node<'_>> = values.items().filter(is_dead).collect();
    let live = values.items().count() - dead.len();
    let Some((first, text)) = dead.first().and_then(|n| Some((n, n.text()?))) else { return };
    if live == 0 {
        return;
    }
    let name = key.rsplit('/').next().unwrap_or(key);
    let by = excluded_by(pool, key, text);
    let bound = by.as_deref().and_then(|by| strict_bound(pool, by)).filter(|bound| {
        // Types that only the bound's own number excludes: it was meant to be included.
        let at_bound = catalog::index(&pool.provider().catalogue_key(&bound.key))
            .and_then(|index| index.with(&bound.text));
        let excluded = dead.iter().filter_map(|node| index.with(node.text()?));
        at_bound.is_some_and(|at| excluded.into_iter().any(|with| !with.is_empty() && with.is_subset(at)))
    });
    let karpenter = ctx.platform().karpenter;
    let finding = ctx.report(
        first,
        match dead.len() - 1 {
            0 => format!("{name} `{}` matches no instance type of the pool", ellipsize(text)),
            1 => format!("{name} `{}` and another value match no instance type of the pool", ellipsize(text)),
            more => format!(
                "{name} `{}` and {more} more values match no instance type of the pool",
                ellipsize(text)
            ),
        },
    );
    if bound.is_some() {
        finding.severity(Severity::Warning);
    }
    let by = by.as_deref().map(|by| by.rsplit('/').next().unwrap_or(by));
    let never = pool.is_auto_mode()
        && index.with(text).is_some_and(|with| with.is_disjoint(scheduling::auto_mode_types()));
    finding.help(match (bound, by) {
        _ if never => "EKS Auto Mode starts no such instance type: remove it".to_owned(),
        (Some(bound), _) => bound.help(karpenter),
        (None, Some(by)) => {
            format!(
                "the requirement on `{by}` excludes `{}`: remove it, or loosen that requirement",
                ellipsize(text)
            )
        }
        (None, None) => "the other requirements exclude it: remove it, or loosen them".to_owned(),
    });
    for other in &dead[1..] {
        finding.related(object, other, "this value matches none either");
    }
    let kept = i64::try_from(live).unwrap_or(i64::MAX);
    if item.node.get("minValues").int().is_none_or(|min| min <= kept) {
        let title = if dead.len() == 1 {
            "remove the value; check that the other requirement is what you meant"
        } else {
            "remove the values; check that the other requirement is what you meant"
        };
        // From last to first, so that the indices of the remaining values stay valid.
        let fix = (dead.iter().rev()).fold(Fix::new(title, Safety::Unsafe), |fix, node| fix.remove(node));
        finding.fix(fix);
    }
}

/// A requirement that excludes the number that it names.
struct StrictBound {
    key: String,
    operator: Operator,
    text: String,
    number: i64,
}

impl StrictBound {
    fn help(&self, karpenter: Version) -> String {
        let number = self.number;
        let (written, first, step) = match self.operator {
            Operator::Lt => ("`Lt", "ends", -1),
            _ => ("`Gt", "starts", 1),
        };
        // The inclusive operators came with Karpenter 1.9.
        let inclusive = match karpenter >= Version::new(1, 9) {
            true => format!("{written}e {number}`"),
            false => format!("{written} {}`", number - step),
        };
        format!(
            "{written} {number}` {first} at {}: write {inclusive}, or leave these values out",
            number + step
        )
    }
}

/// The one `Gt` or `Lt` requirement of the pool on a key.
fn strict_bound(pool: &NodePool<'_>, key: &str) -> Option<StrictBound> {
    let own = pool.normalized_pool();
    let mut bounds = own.requirements.iter().filter(|r| r.key == key);
    let (bound, None) = (bounds.next()?, bounds.next()) else { return None };
    let [text] = bound.values.as_slice() else { return None };
    matches!(bound.op, Operator::Gt | Operator::Lt).then_some(())?;
    Some(StrictBound {
        key: key.to_owned(),
        operator: bound.op,
        text: text.clone(),
        number: text.parse().ok()?,
    })
}

/// The one other key whose requirement excludes all types with a value.
fn excluded_by(pool: &NodePool<'_>, key: &str, value: &str) -> Option<String> {
    let mut own = pool.normalized_pool();
    own.requirements.push(RequirementSpec {
        key: pool.provider().provider_key(key).into_owned(),
        op: Operator::In,
        values: vec![value.to_owned()],
        min_values: None,
    });
    let keys = scheduling::smallest_conflict(&own, &scheduling::SchedulerOptions::default());
    let mut others = keys.iter().filter(|k| pool.provider().catalogue_key(k) != key);
    match (others.next(), others.next()) {
        (Some(other), None) => Some(other.clone()),
        _ => None,
    }
}
