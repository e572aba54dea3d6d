//! A manifest that the API server takes stops Karpenter for everybody.
//!
//! # Why
//! Some values pass the CRD's checks and then break the controller that reads them. A duration that
//! Go cannot hold, a `maxPods` of more than 32 bits, a limit of `1e1.5` or a taint's time with a
//! small `t` makes every list of NodePools or EC2NodeClasses fail. A range without a number, on a
//! label of one's own, makes Karpenter panic when it draws a value from it; a block device mapping
//! without `ebs` or `deviceName`, or an empty `evictionHard`, while it computes what nodes have. A
//! quantity with an exponent in the millions keeps Karpenter computing. One such object stops scaling
//! for everybody until it is deleted.
//!
//! # Fix
//! Write a value that can be read: a duration of at most 2562047h or `Never`, a range with a number
//! in it, a mapping with device and volume, a number of at most 2147483647, a quantity such as `500m`
//! or `2Gi`.
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
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -      expireAfter: 9999999h # <-
//! +      expireAfter: Never
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://pkg.go.dev/time#ParseDuration>
//! - <https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#ParseQuantity>
//! - <https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/apis/v1/ec2nodeclass.go>
//! - <https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/providers/instancetype/types.go>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>

use crate::facts::duration;
use crate::facts::duration::{DurationError, DurationField, GoDuration, passes_unanchored_pattern};
use crate::karpenter::empty_range::empty_ranges;
use crate::karpenter::requirement::normalise;
use crate::karpenter::requirement_list::Provider;
use crate::karpenter::scheduling;
use crate::karpenter::scheduling::{BlockDevice, NodeClass};
use crate::karpenter::undecodable::{DecodeError, undecodable};
use crate::lint::finding::ellipsize;
use crate::platform::Version;
use crate::rules::prelude::*;
use crate::workload::template::{WORKLOAD_KINDS, with_workloads};

const KINDS: [Kind; WORKLOAD_KINDS.len() + 4] =
    with_workloads(&[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NODE_CLAIM, Kind::NODE_OVERLAY]);

pub(crate) static RULE: Rule = Rule {
    id: "crashes-karpenter",
    kinds: &KINDS,
    fix: Some(Safety::Safe),
    docs: docs(include_str!("crashes_karpenter.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(pool) = NodePool::new(object) {
        durations(object, &pool.template_spec(), &pool.disruption(), ctx);
        pool_ranges(&pool, ctx);
    } else if object.is(Kind::NODE_CLAIM) && object.id().version == "v1" {
        let spec = object.get("spec");
        durations(object, &spec, &spec.get("disruption"), ctx);
    }
    if object.is(Kind::EC2_NODE_CLASS) && object.id().version == "v1" {
        block_devices(object, ctx);
        grace_periods(object, ctx);
    }
    values(object, ctx);
    // Karpenter starts no node for a DaemonSet.
    if !object.is(Kind::DAEMON_SET) {
        for template in templates(object) {
            pod_ranges(&template, ctx);
        }
    }
    None
}

/// Durations that Go cannot hold, or read; a NodeClaim has no disruption block.
fn durations(object: &Object, spec: &Node<'_>, disruption: &Node<'_>, ctx: &mut Context<'_>) {
    let kind = object.id().kind.as_str();
    let version = Provider::of_object(object).karpenter_version(ctx.platform());
    let mut fields = vec![
        (spec.get("expireAfter"), DurationField::ExpireAfter),
        (spec.get("terminationGracePeriod"), DurationField::TerminationGracePeriod),
        (disruption.get("consolidateAfter"), DurationField::ConsolidateAfter),
    ];
    for budget in disruption.get("budgets").items() {
        fields.push((budget.get("duration"), DurationField::BudgetDuration));
    }
    for (node, field) in fields {
        let Some(text) = node.text() else {
            continue;
        };
        let parsed = duration::parse(field, text);
        let read_by_go = GoDuration::parse(text).is_ok();
        let (message, help, better) = match parsed {
            Err(DurationError::Overflow) => (
                format!(
                    "Karpenter cannot read a duration this long, and then reads no {kind} of the cluster"
                ),
                if field.allows_never() {
                    "the longest duration is 2562047h; for no limit at all write `Never`"
                } else {
                    "the longest duration is 2562047h"
                },
                // 292 years are no limit to a node.
                field.allows_never().then(|| "Never".to_owned()),
            ),
            Err(_) if !read_by_go && passes_unanchored_pattern(field, text, version) => (
                format!(
                    "`{}` is no duration to Karpenter, which then reads no {kind} of the cluster",
                    ellipsize(text)
                ),
                "write hours, minutes and seconds, as in `1h30m`, or `Never`",
                duration::suggest(field, text),
            ),
            _ => continue,
        };
        let finding = ctx.report(&node, message);
        finding.help(help);
        // The spec of a claim cannot be changed.
        if let Some(better) = better.filter(|_| object.is(Kind::NODE_POOL)) {
            let title = format!("write `{better}`");
            let fix = Fix::new(title, Safety::Safe).set(&node, json!(better));
            finding.fix(match field {
                DurationField::ExpireAfter => fix.replaces_nodes(),
                _ => fix,
            });
        }
    }
}

fn pool_ranges(pool: &NodePool<'_>, ctx: &mut Context<'_>) {
    if pool.is_other_provider() || pool.labels().is_unknown() {
        return;
    }
    let lines: Vec<Node<'_>> = pool.requirements().items().collect();
    // A label gives the value, so none is drawn.
    let labels: Vec<&str> = pool.labels().entries().into_iter().map(|(k, _)| normalise(k)).collect();
    for (node, key) in empty_ranges(&lines, &labels) {
        ctx.report(
            &node,
            format!("no number is left for `{key}`: Karpenter panics when a pod picks the pool"),
        )
        .help("write a range that has a number from 0 up, or list the values with `In`");
    }
}

fn pod_ranges(template: &Template<'_>, ctx: &mut Context<'_>) {
    let terms = template.spec.path(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    let selected: Vec<&str> =
        template.spec.get("nodeSelector").entries().into_iter().map(|(k, _)| normalise(k)).collect();
    for term in terms.items() {
        let lines: Vec<Node<'_>> = term.get("matchExpressions").items().collect();
        for (node, key) in empty_ranges(&lines, &selected) {
            ctx.report(
                &node,
                format!("no number is left for `{key}`: Karpenter panics if a NodePool has that label"),
            )
            .help("write a range that has a number from 0 up, or list the values with `In`");
        }
    }
}

fn block_devices(object: &Object, ctx: &mut Context<'_>) {
    let spec = object.get("spec");
    let list = spec.get("blockDeviceMappings");
    let Some(ami_family) = Ec2NodeClass::new(object).and_then(|c| c.family()) else {
        return;
    };
    let unknown =
        |m: &Node<'_>| m.is_unknown() || m.get("deviceName").is_unknown() || m.get("rootVolume").is_unknown();
    if list.items().any(|m| unknown(&m) || !m.is_mapping()) {
        return;
    }
    let devices: Vec<BlockDevice> = list
        .items()
        .map(|m| BlockDevice {
            device_name: m.get("deviceName").text().map(str::to_owned),
            root_volume: m.get("rootVolume").bool() == Some(true),
            ebs: m.get("ebs").is_set(),
            // How large does not matter, but whether there is a size.
            volume_size: m.path(&["ebs", "volumeSize"]).is_set().then_some(1),
        })
        .collect();
    let crashes = |devices: &[BlockDevice]| {
        scheduling::crashes(&NodeClass {
            ami_family,
            block_devices: devices.to_vec(),
            ..NodeClass::default()
        })
    };
    if !crashes(&devices) {
        return;
    }
    // The mapping whose repair helps; else the first that lacks something.
    let lacks = |d: &BlockDevice| !d.ebs || d.device_name.is_none();
    let helps = |at: usize| {
        let mut repaired = devices.clone();
        let device = &mut repaired[at];
        device.ebs = true;
        device.device_name.get_or_insert_with(|| "/dev/sdz".to_owned());
        !crashes(&repaired)
    };
    let defective = || (0..devices.len()).filter(|at| lacks(&devices[*at]));
    let Some(at) = defective().find(|at| helps(*at)).or_else(|| defective().next()) else {
        return;
    };
    let field = if devices[at].ebs { "deviceName" } else { "ebs" };
    let node = list.index(at).get(field);
    ctx.report(
        &node,
        format!("a block device mapping without `{field}` makes Karpenter panic for all pools"),
    )
    .help(format!("add `{field}`, or remove the mapping"));
}

fn grace_periods(object: &Object, ctx: &mut Context<'_>) {
    // From 1.15 on the controller checks them itself.
    if ctx.platform().karpenter >= Version::new(1, 15) {
        return;
    }
    let periods = object.path(&["spec", "kubelet", "evictionSoftGracePeriod"]);
    for (_, node) in periods.entries() {
        let Some(text) = node.text() else {
            continue;
        };
        if GoDuration::parse(text).is_err() {
            ctx.report(
                &node,
                format!("`{text}` is no duration: Karpenter then reads no EC2NodeClass of the cluster"),
            )
            .help("write a duration as Go does, such as `90s` or `1m30s`");
        }
    }
}

/// Numbers and quantities that the API server stores and Karpenter cannot read.
fn values(object: &Object, ctx: &mut Context<'_>) {
    let kind = &object.id().kind;
    for found in undecodable(object, ctx.platform().karpenter) {
        let text = found.node.raw_text().unwrap_or_default();
        let text = ellipsize(text);
        let (message, help) = match found.error {
            DecodeError::Int32Overflow => (
                format!("Karpenter reads 32 bits here; over `{text}` it reads no {kind} of the cluster"),
                "the largest number is 2147483647",
            ),
            DecodeError::InvalidQuantity => (
                format!("`{text}` is no quantity to Karpenter, which then reads no {kind} of the cluster"),
                "write a number, with a suffix such as `m` or `Gi`, or a whole exponent",
            ),
            DecodeError::InvalidTime => (
                format!("`{text}` is no moment to Karpenter, which then reads no {kind} of the cluster"),
                "remove `timeAdded`, which Kubernetes itself sets, or write it as `2027-01-31T08:00:00Z`",
            ),
            DecodeError::Panics if text.is_empty() => (
                "Karpenter panics over an empty threshold, for all pools".to_owned(),
                "write a quantity or a percentage, such as `100Mi` or `5%`, or remove the entry",
            ),
            DecodeError::Panics => (
                format!("`{text}` is no quantity to Karpenter, which panics over it for all pools"),
                "write a number, with a suffix such as `m` or `Mi`, or a whole exponent",
            ),
            DecodeError::NonTerminating => (
                format!("Karpenter does not come to an end computing with `{text}`"),
                "write the number that is meant; without a limit, leave it out",
            ),
            DecodeError::Infinite => (
                "a price with this many digits makes Karpenter panic where NodeOverlays are on".to_owned(),
                "write the price in dollars an hour, such as `1.25`",
            ),
        };
        ctx.report(&found.node, message).help(help);
    }
}
