//! A ResourceQuota limits an accelerator under a name that counts nothing.
//!
//! # Why
//! Extended resources cannot be overcommitted, so Kubernetes counts just their requests: the key is
//! `requests.` and the name, `requests.nvidia.com/gpu`. The API server accepts `limits.nvidia.com/gpu` and
//! plain `nvidia.com/gpu` as well, and no pod ever counts for them: the team may take all GPUs of the
//! cluster, and the status of the quota shows 0. So it is with a name that no device plugin has.
//!
//! HAMi reads `limits.nvidia.com/gpu`, and `limits.nvidia.com/gpumem` beside it. Nothing is said where the
//! input has HAMi or its resources.
//!
//! # Fix
//! Write `requests.` and the name of the resource. From then on the quota limits what is new in the
//! namespace: compare it with what runs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ResourceQuota
//!  metadata: {name: team, namespace: vision}
//!  spec:
//!    hard:
//!      requests.cpu: 64
//! -    limits.nvidia.com/gpu: 8 # <-
//! +    requests.nvidia.com/gpu: 8
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/policy/resource-quotas/#resource-quota-for-extended-resources>
//! - <https://project-hami.io/docs/userguide/nvidia-device/using-resourcequota>

use super::quota_below_replicas::QUOTA;
use crate::rules::gpu::gpu_resource_unknown::{is_defined, meant};
use crate::rules::prelude::*;
use crate::workload::charts::installs;

const INSTALLERS: &[Kind] =
    kinds![CHART_KINDS, [Kind::ARGO_APPLICATION_SET, Kind::DAEMON_SET, Kind::DEPLOYMENT]];

pub(crate) static RULE: Rule = Rule {
    id: "quota-key-inert",
    kinds: &[QUOTA],
    reads: kinds![
        CHART_KINDS,
        [Kind::ARGO_APPLICATION_SET, Kind::CONFIG_MAP, Kind::DEVICE_CLASS, Kind::NODE_OVERLAY],
        WORKLOAD_KINDS
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("quota_key_inert.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The domains of the resources that device plugins of accelerators and of their networks advertise.
const DOMAINS: [&str; 7] = [
    "nvidia.com",
    "amd.com",
    "aws.amazon.com",
    "vpc.amazonaws.com",
    "habana.ai",
    "gpu.intel.com",
    "google.com",
];

/// The resources that HAMi (2.7) adds to `nvidia.com/gpu`.
pub(in crate::rules) const OF_HAMI: [&str; 3] =
    ["nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let hard = object.path(&["spec", "hard"]);
    let keys = hard.entries();
    let is_of_hami = |key: &str| OF_HAMI.contains(&key.trim_start_matches("limits."));
    if keys.iter().any(|(key, _)| is_of_hami(key)) || may_have_hami(ctx) {
        return None;
    }
    // A null is how a patch removes a key.
    for (key, node) in keys.into_iter().filter(|(_, node)| node.is_set()) {
        let resource = match key.split_once('.') {
            Some(("limits", resource)) => resource,
            Some(("requests", resource)) => {
                misspelled(resource, &node, &hard, ctx);
                continue;
            }
            _ => key,
        };
        let is_device = resource.split_once('/').is_some_and(|(domain, _)| DOMAINS.contains(&domain));
        if is_device && !is_placeholder(key) {
            let message =
                format!("a ResourceQuota does not track `{}`: the key limits nothing", ellipsize(key));
            let wanted = meant(resource).unwrap_or_else(|| resource.to_owned());
            let finding = ctx.report(&node, message);
            // The key that counts limits as much already.
            let counted = Quantity::at(&hard.get(&format!("requests.{wanted}")));
            let is_covered =
                counted.zip(Quantity::at(&node)).is_some_and(|(counts, own)| counts.milli() <= own.milli());
            if is_covered {
                finding.severity(Severity::Info);
            }
            rename(finding, &node, &hard, &wanted);
        }
    }
    None
}

/// Whether HAMi, which has a quota of its own, may run in the cluster.
fn may_have_hami(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let is_image = |container: Node<'_>| {
        container.get("image").text().is_some_and(|image| image.to_ascii_lowercase().contains("hami"))
    };
    let has_image = |object: &Object| templates(object).iter().flat_map(Template::containers).any(is_image);
    let is_hami =
        |object: &Object| object.name().contains("hami") || installs(object, "hami") || has_image(object);
    let is_scheduled = |object: &Object| {
        let is_named = |one: &Template<'_>| one.spec.get("schedulerName").text() == Some("hami-scheduler");
        templates(object).iter().any(is_named)
    };
    INSTALLERS.iter().any(|kind| cluster.of(*kind).any(is_hami))
        || WORKLOAD_KINDS.iter().any(|kind| cluster.of(*kind).any(is_scheduled))
        || OF_HAMI.into_iter().any(|resource| cluster.views().is_requested(resource))
}

/// Reports a resource that no device plugin has.
fn misspelled(resource: &str, node: &Node<'_>, hard: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let wanted = meant(resource).filter(|wanted| *wanted != resource)?;
    if is_defined(resource, ctx) {
        return None;
    }
    let message =
        format!("no device plugin registers a resource `{}`: the key limits nothing", ellipsize(resource));
    rename(ctx.report(node, message).severity(Severity::Info), node, hard, &wanted);
    None
}

fn rename(finding: &mut Finding, node: &Node<'_>, hard: &Node<'_>, resource: &str) {
    let wanted = format!("requests.{resource}");
    let target = hard.get(&wanted);
    finding.at_key();
    if target.is_absent() {
        finding
            .help(format!("write `{wanted}`"))
            .fix(Fix::unsafe_(format!("rename it to `{wanted}`")).move_to(node, &target));
    } else {
        finding.help(format!("remove it: `{wanted}` is there"));
    }
}
