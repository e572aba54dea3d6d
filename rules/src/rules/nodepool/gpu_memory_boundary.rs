//! A bound on GPU memory narrowly misses the memory size that a GPU reports.
//!
//! # Why
//! The label has the memory of one GPU in MiB as EC2 states it, and that is not the number on the
//! box: an A10G or L4 "with 24 GB" has 22888, an L40S "with 48 GB" 45776, an H100 "with 80 GB"
//! 81920. A bound at the round number so leaves out, or lets in, the very GPUs that it was written
//! for, and nothing says so. A pod that selects the round number itself waits forever.
//!
//! # Fix
//! Write the bound beside what the label has, or name the GPUs with
//! `karpenter.k8s.aws/instance-gpu-name`.
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
//!          - key: karpenter.k8s.aws/instance-gpu-memory
//!            operator: Gt
//! -          values: ["24000"] # <-
//! +          values: ["22000"]
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use std::collections::BTreeSet;

use crate::catalog;
use crate::catalog::Label;
use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::requirement::{Requirement, Requirements};
use crate::karpenter::requirement_list::{KINDS_AND_WORKLOADS, is_comparison};
use crate::karpenter::scheduling::admitted_without_class;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-memory-boundary",
    kinds: KINDS_AND_WORKLOADS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_memory_boundary.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::NodePool)
};

const MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";

/// The nominal memory sizes of GPUs, in GB.
const NOMINAL_GB: [i64; 12] = [16, 24, 32, 40, 48, 64, 80, 96, 141, 180, 192, 288];

/// Maximum difference, in percent, between the memory of a GPU and its nominal size.
const MAX_DIFFERENCE: i64 = 8;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = ctx.requirements() {
        // The requirements of a NodeClaim were chosen by a controller, and an overlay does not restrict a
        // pool.
        if list.location != KeyLocation::Pool || list.provider == Provider::Other {
            return None;
        }
        if list.items().any(|item| is_memory(item, list.provider))
            && NodePool::new(object).is_some_and(|pool| !pool.has_unknown_types())
        {
            check_requirements(list.items().as_slice(), &[], list.provider, ctx);
        }
        return None;
    }
    for template in templates(object) {
        check_pod(&template, ctx);
    }
    None
}

/// The node selector of a pod, combined with each required term.
fn check_pod(template: &Template<'_>, ctx: &mut Context<'_>) {
    let selector = template.spec.get("nodeSelector");
    if selector.has_unknown() {
        return;
    }
    let selected: Vec<(&str, Node<'_>)> = selector.entries();
    let terms = template.required_terms();
    // The key itself determines the provider of the nodes.
    for provider in [Provider::Aws, Provider::AutoMode] {
        let key = provider.provider_key(MEMORY);
        let value = selected.iter().find(|(k, _)| *k == key).map(|(_, v)| v);
        if let Some(value) = value {
            let others = selected.iter().filter(|(k, _)| *k != key);
            if let Some(types) = admitted_types(std::iter::empty(), others, provider) {
                check_value(value, &types, ctx);
            }
        }
        for term in terms.items() {
            let items: Vec<RequirementItem<'_>> = (term.get("matchExpressions").items())
                .filter(Node::is_mapping)
                .map(RequirementItem::new)
                .collect();
            if items.iter().any(|i| is_memory(i, provider)) && !term.has_unknown() {
                check_requirements(&items, &selected, provider, ctx);
            }
        }
    }
}

/// Whether an item is about the memory, with the key of this provider.
fn is_memory(item: &RequirementItem<'_>, provider: Provider) -> bool {
    item.key().is_some_and(|k| *k == *provider.provider_key(MEMORY))
}

fn check_requirements(
    items: &[RequirementItem<'_>],
    selected: &[(&str, Node<'_>)],
    provider: Provider,
    ctx: &mut Context<'_>,
) {
    for (at, item) in items.iter().enumerate() {
        let Some(operator) = item.operator().filter(|_| is_memory(item, provider)) else { continue };
        // Only the types that the other requirements admit, so that only GPUs count that this one decides
        // about.
        let rest = items.iter().enumerate().filter(|(i, _)| *i != at);
        let Some(types) = admitted_types(rest.map(|(_, item)| item), selected.iter(), provider) else {
            continue;
        };
        if is_comparison(operator) {
            check_bound(item, operator, &types, ctx);
        } else if operator == Operator::In {
            for value in item.values().items() {
                check_value(&value, &types, ctx);
            }
        }
    }
}

/// A value that no GPU has exactly, but some have approximately.
fn check_value(value: &Node<'_>, types: &TypeSet, ctx: &mut Context<'_>) {
    let nominal = value.text().and_then(|t| t.parse::<i64>().ok());
    let Some(nominal) = nominal.filter(|mib| is_nominal(*mib)) else { return };
    let memory = |t: &InstanceType| i64::from(t.gpu_memory_mib);
    // Excluded by another requirement, but present in the catalogue: then that requirement is the cause.
    if catalog::all().iter().any(|t| memory(t) == nominal) {
        return;
    }
    let Some((mib, names)) = gpus(types, |t| is_near(nominal, memory(t))) else { return };
    let better = mib.to_string();
    let title = format!("write `{better}`; check that these GPUs are meant");
    ctx.report(value, format!("no GPU has {nominal} MiB: the nearest is {names} ({mib} MiB)"))
        .severity(Severity::Warning)
        .help(format!("write `{better}`, or name the GPU"))
        .fix(Fix::new(title, Safety::Unsafe).set(value, json!(better)));
}

/// A bound between the nominal size and the value of the label.
fn check_bound(item: &RequirementItem<'_>, operator: Operator, types: &TypeSet, ctx: &mut Context<'_>) {
    let number = item.texts().and_then(|texts| match texts.as_slice() {
        [one] => one.parse::<i64>().ok(),
        _ => None,
    });
    // `Gt 24575` is the integer form of "24 GiB or more".
    let from = |b: i64| operator == Operator::Gt && b.checked_add(1).is_some_and(is_nominal);
    let Some(bound) = number.filter(|b| is_nominal(*b) || from(*b)) else { return };
    let missed = |t: &InstanceType| misses(operator, bound, i64::from(t.gpu_memory_mib));
    let Some((mib, names)) = gpus(types, missed) else { return };
    let (verb, better) = match operator {
        Operator::Gt => ("leaves out", format!("Gt {}", mib - 1)),
        Operator::Gte => ("leaves out", format!("Gte {mib}")),
        Operator::Lte => ("leaves out", format!("Lte {mib}")),
        _ => ("lets in", format!("Lt {mib}")),
    };
    ctx.report(&item.values().index(0), format!("`{operator} {bound}` {verb} {names} ({mib} MiB)"))
        .help(format!("unless that is meant, write `{better}`"));
}

/// The GPUs with the least memory among some of the types: the amount and their names.
fn gpus(types: &TypeSet, keep: impl Fn(&InstanceType) -> bool) -> Option<(u32, String)> {
    let found: BTreeSet<(u32, &str)> = types
        .iter()
        .filter(|t| keep(t))
        .filter_map(|t| match t.label("karpenter.k8s.aws/instance-gpu-name") {
            Label::Is(name) => Some((t.gpu_memory_mib, name)),
            _ => None,
        })
        .collect();
    let (mib, _) = found.first().copied()?;
    let same = found.iter().filter(|(other, _)| *other == mib);
    let names: Vec<&str> = same.map(|(_, name)| *name).take(3).collect();
    Some((mib, names.join(", ")))
}

/// Whether a number is a nominal size in MB or MiB.
fn is_nominal(bound: i64) -> bool {
    NOMINAL_GB.iter().any(|gb| [gb * 1000, gb * 1024].contains(&bound))
}

/// Whether the memory of a GPU is close enough to a nominal size.
fn is_near(nominal: i64, mib: i64) -> bool {
    (nominal - mib).abs() * 100 <= mib * MAX_DIFFERENCE
}

/// Whether the memory of a GPU and its nominal size are on different sides of the bound.
fn misses(operator: Operator, bound: i64, mib: i64) -> bool {
    is_near(bound, mib)
        && match operator {
            Operator::Gt | Operator::Gte | Operator::Lt => mib < bound,
            Operator::Lte => mib > bound,
            _ => false,
        }
}

/// The types that the other requirements admit.
fn admitted_types<'a>(
    items: impl Iterator<Item = &'a RequirementItem<'a>>,
    selected: impl Iterator<Item = &'a (&'a str, Node<'a>)>,
    provider: Provider,
) -> Option<TypeSet> {
    let mut all = Requirements::new();
    for item in items {
        let (key, operator) = (item.key()?, item.operator()?);
        let key = provider.catalogue_key(key);
        all.add(&key, Requirement::new(operator, &item.texts()?, None));
    }
    for (key, value) in selected {
        all.add(&provider.catalogue_key(key), Requirement::is(value.text()?));
    }
    let admitted = admitted_without_class(&all);
    admitted.uncertainties.is_empty().then_some(admitted.types)
}
