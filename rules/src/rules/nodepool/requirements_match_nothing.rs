//! No instance type meets the requirements of a pool, or of a pod.
//!
//! # Why
//! Each requirement may be fine by itself, but all of them must hold for one type: an `h100` in
//! family `g6`, or an `arm64` machine with `a10g` GPUs, does not exist. Karpenter keeps such a pool
//! Ready, writes an event that nobody reads, and never starts a node from it. Requirements on zones,
//! capacity types and reservations are not counted, since only the account knows what they leave.
//!
//! The same holds for labels that a pod selects: an `instance-family` that does not come with the
//! `instance-gpu-name` or `nvidia.com/gpu.product` beside it, or a label of EKS Auto Mode together with one of
//! Karpenter's own. Such a pod stays Pending: a warning.
//!
//! EKS Auto Mode starts only some types: none of the sizes nano, micro and small, none of one vCPU, and none
//! of families such as g3 and x1.
//!
//! Where `platform.region` is set in the configuration, a pool whose types are all absent from that
//! region, or whose zones lie in another one, is found as well, as a warning: regions grow. Once
//! gpulint's catalogue is half a year old, everything here is a warning.
//!
//! Karpenter takes the nodes of a class for Windows only where its `amiFamily` is one of Windows: a pool that
//! requires `windows` of a class of the family `Custom` starts nothing.
//!
//! # Fix
//! Change one of the requirements that the finding names; they are the fewest that leave nothing.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//! -        - key: karpenter.k8s.aws/instance-gpu-name
//! -          operator: In
//! -          values: [h100] # <-
//! +        - key: karpenter.k8s.aws/instance-gpu-name
//! +          operator: In
//! +          values: [l4, l40s]
//! +        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use crate::catalog;
use crate::catalog::{LabelValueIndex, OS, REGION, TENANCY, ZONE, ZONE_ID};
use crate::facts::date::Date;
use crate::facts::names::is_label_value;
use crate::karpenter::labels::value::has_known_values;
use crate::karpenter::requirement::{Requirement, normalise};
use crate::karpenter::scheduling;
use crate::karpenter::scheduling::{AmiFamily, Pool, RequirementSpec};
use crate::rules::prelude::*;
use crate::rules::scheduling::pod_fits_no_pool;

use super::selected_labels;

pub(crate) static RULE: Rule = Rule {
    id: "requirements-match-nothing",
    kinds: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    reads: pod_fits_no_pool::READS,
    docs: docs(include_str!("requirements_match_nothing.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    match NodePool::new(object) {
        Some(pool) => of_pool(object, &pool, ctx),
        None => selected_labels::check(object, ctx),
    }
}

fn of_pool(object: &Object, pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if pool.is_other_provider() || object.is_partial() {
        return None;
    }
    if other_system(object, pool, ctx).is_some() {
        return None;
    }
    // A placeholder adds no type. If all requirements together admit a type, each subset does.
    if let Some(types) = pool.types().filter(|types| !types.is_empty()) {
        in_region(object, pool, &types, ctx);
        return None;
    }
    let mut own = pool.normalized_pool();
    // Malformed requirements are rejected and reported by other rules.
    if !own.requirements.iter().all(well_formed) {
        return None;
    }
    // EKS Auto Mode starts nodes of Linux alone.
    let counts =
        |key: &str, values: &[String]| counts(key, values) || normalise(key) == OS && pool.is_auto_mode();
    own.requirements.retain(|r| counts(&r.key, &r.values));
    own.labels.retain(|(k, v)| counts(k, std::slice::from_ref(v)));
    let keys = scheduling::smallest_conflict(&own, &scheduling::SchedulerOptions::default());
    if keys.is_empty() || keys.iter().any(|k| contradicts_itself(&own, k)) {
        return None;
    }
    // No type has any of the values, which is one mistake with one finding.
    if let [only] = keys.as_slice()
        && ctx.is_rule_enabled("requirement-value-unknown")
        && names_unknown_values_only(&own, only)
    {
        return None;
    }
    let has_key = |new: &str| keys.iter().any(|key| pool.provider().catalogue_key(key) == new);
    let unsure = pool.uncatalogued_keys().iter().any(|new| has_key(new)) || is_old(ctx);
    let names: Vec<String> = keys.iter().map(|k| format!("`{}`", short(k))).collect();
    let name = object.display_name();
    let not_started = pool.is_auto_mode() && !types_with(&own, &keys).is_empty();
    let message = match names.as_slice() {
        _ if not_started => format!("EKS Auto Mode starts no instance type that pool `{name}` admits"),
        [one] => format!("no instance type meets the requirement on {one} of pool `{name}`"),
        [first @ .., last] => {
            format!("no instance type meets the requirements on {} and {last} together", first.join(", "))
        }
        [] => return None,
    };
    let nodes: Vec<(Node<'_>, &String)> =
        keys.iter().map(|k| (key_node(pool, k).unwrap_or_else(|| pool.requirements()), k)).collect();
    let ((node, _), others) = nodes.split_last()?;
    let finding = ctx.report(node, message);
    let is_windows = pool.is_auto_mode() && matches!(keys.as_slice(), [only] if only == OS);
    finding.help(match (is_windows, not_started, unsure) {
        (true, ..) => {
            "EKS Auto Mode starts nodes of Linux alone: Windows needs a node group or a Karpenter of your own"
        }
        (_, true, _) => {
            "it starts no nano, micro or small type, none of one vCPU, and not every family: admit others"
        }
        (_, _, true) => "unless a value is newer than gpulint's catalogue, the pool never starts a node",
        _ => "the pool stays Ready but never starts a node: change one of them",
    });
    if unsure && !is_windows && !not_started {
        finding.severity(Severity::Warning);
    }
    for (other, key) in others {
        finding.related(object, other, format!("the requirement on `{}`", short(key)));
    }
    None
}

/// Reports a pool that wants another operating system than that of its class. To Karpenter the nodes of a class run Windows where
/// its family is one of Windows, and Linux with any other, `Custom` too (`computeRequirements` of the AWS provider 1.15).
fn other_system(object: &Object, pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let reference = pool.template_spec().get("nodeClassRef");
    let is_ec2 = reference.get("kind").text() == Some(Kind::EC2_NODE_CLASS.kind);
    let name = reference.get("name").text().filter(|_| is_ec2)?;
    let class_object = ctx.partner(Kind::EC2_NODE_CLASS, "default", name)?;
    let class = Ec2NodeClass::new(class_object).filter(|_| !class_object.may_lack_fields())?;
    let is_windows = class.family()? == AmiFamily::Windows;
    let wanted = if is_windows { "linux" } else { "windows" };
    let requirements = pool.requirements();
    let list = requirements.items().find(|item| {
        item.get("key").text() == Some(OS)
            && item.get("operator").text() == Some("In")
            && item.get("values").items().count() > 0
            && item.get("values").items().all(|value| value.text() == Some(wanted))
    });
    let values = list?.get("values");
    let (family, system) = (class.family_text()?, if is_windows { "Windows" } else { "Linux" });
    let place =
        if class.get("amiFamily").is_set() { class.get("amiFamily") } else { class.get("amiSelectorTerms") };
    let message = format!(
        "to Karpenter nodes of the family `{family}` run {system}, so pool `{}` starts none",
        object.display_name()
    );
    ctx.report(&values, message)
        .severity(Severity::Warning)
        .help(match is_windows {
            true => "write `windows`, or name a class with images of Linux",
            false => "write `amiFamily: Windows2022` in the class, also for your own images of Windows",
        })
        .related(class_object, &place, "the family of its class");
    Some(())
}

/// Whether a list of a pool has only values that no type has for this key, as requirement-value-unknown reports.
fn names_unknown_values_only(pool: &Pool, key: &str) -> bool {
    let Some(known) = catalog::values(key).filter(|_| has_known_values(key)) else { return false };
    let is_reported = |value: &String| !known.contains(value.as_str()) && is_label_value(value);
    let mut lists = pool.requirements.iter().filter(|r| r.key == key && r.op == Operator::In);
    lists.any(|list| !list.values.is_empty() && list.values.iter().all(is_reported))
}

/// The types, whoever starts them, that meet the requirements and labels on some keys.
fn types_with(pool: &Pool, keys: &[String]) -> TypeSet {
    let requirements = scheduling::pool_requirements(pool);
    let options = scheduling::SchedulerOptions::default();
    let sets = keys
        .iter()
        .filter_map(|key| scheduling::matching(key, requirements.get(key)?, pool.class.as_ref(), &options));
    sets.fold(TypeSet::full(), |all, types| all.and(&types))
}

/// Whether the catalogue is so old that a missing value proves little.
fn is_old(ctx: &Context<'_>) -> bool {
    let months = |date: Date| i64::from(date.year) * 12 + i64::from(date.month);
    match (ctx.settings().today, Date::parse(catalog::date())) {
        (Some(today), Some(made)) => months(today) - months(made) > 6,
        _ => false,
    }
}

/// Checks the types and zones of a pool against those of the configured region.
fn in_region(object: &Object, pool: &NodePool<'_>, types: &TypeSet, ctx: &mut Context<'_>) {
    let Some(region) = ctx.platform().region.as_deref() else { return };
    let Some(offered) = catalog::offered_in(region) else { return };
    let date = catalog::date();
    // Values newer than the catalogue may be offered.
    if types.is_disjoint(offered) && !pool.names_uncatalogued_values() {
        // The first requirement that alone leaves no type there, or all requirements.
        let there = |index: &LabelValueIndex, value: &Node<'_>| {
            let with = value.text().and_then(|text| index.with(text));
            with.is_some_and(|types| !types.is_disjoint(offered))
        };
        let node = RequirementList::of(object).and_then(|list| {
            list.items().filter(|item| item.operator() == Some(Operator::In)).find_map(|item| {
                let index = catalog::index(&list.provider.catalogue_key(item.key()?))?;
                let none = !item.values().items().any(|v| there(index, &v));
                none.then(|| item.values())
            })
        });
        let node = node.unwrap_or_else(|| pool.requirements());
        ctx.report(&node, format!("none of the pool's instance types is offered in `{region}`"))
            .severity(Severity::Warning)
            .help(format!("so EC2's lists of {date} say: choose types that the region has"));
    }
    for key in [ZONE, REGION] {
        let Some(requirement) = pool.requirement(key) else { continue };
        let values = requirement.get("values");
        let elsewhere = |v: Node<'_>| {
            v.text().is_some_and(|text| {
                !text.starts_with(region) && catalog::regions().iter().any(|other| text.starts_with(other))
            })
        };
        if requirement.get("operator").text() == Some("In")
            && values.items().next().is_some()
            && values.items().all(elsewhere)
        {
            let what = if key == ZONE { "zones lie" } else { "region lies" };
            ctx.report(&values, format!("the pool's {what} outside `{region}`"))
                .severity(Severity::Warning)
                .help("choose some of the cluster's, or correct `platform.region`");
        }
    }
}

fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// Whether the key restricts types independently of the class and the account.
fn counts(key: &str, values: &[String]) -> bool {
    let key = normalise(key);
    match key {
        OS => !values.iter().any(|v| v == "windows"),
        CAPACITY_TYPE | TENANCY | REGION | ZONE | ZONE_ID | "node.kubernetes.io/windows-build" => false,
        _ => !key.starts_with("karpenter.k8s.aws/capacity-reservation"),
    }
}

fn well_formed(spec: &RequirementSpec) -> bool {
    match spec.op {
        Operator::In => !spec.values.is_empty(),
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            matches!(spec.values.as_slice(), [v] if v.parse::<i64>().is_ok_and(|n| n >= 0))
        }
        _ => true,
    }
}

/// Whether the requirements on one key contradict each other, which requirement-contradiction reports.
fn contradicts_itself(pool: &Pool, key: &str) -> bool {
    let lines = pool
        .requirements
        .iter()
        .filter(|r| normalise(&r.key) == key)
        .map(|r| Requirement::new(r.op, &r.values, None));
    let labels =
        pool.labels.iter().filter(|(k, _)| normalise(k) == key).map(|(_, value)| Requirement::is(value));
    let mut all: Option<Requirement> = None;
    for line in lines.chain(labels) {
        all = Some(match all {
            Some(before) if !before.meets(&line) => return true,
            Some(before) => before.intersect(&line),
            None => line,
        });
    }
    false
}

/// The location of a key in the pool: the values of the requirement, or the label.
fn key_node<'a>(pool: &NodePool<'a>, key: &str) -> Option<Node<'a>> {
    if let Some(requirement) = pool.requirement(key) {
        let values = requirement.get("values");
        return Some(if values.is_set() { values } else { requirement.get("operator") });
    }
    pool.labels().entries().into_iter().find(|(k, _)| normalise(k) == key).map(|(_, v)| v)
}
