//! A general pool admits arm64 machines, and images of the set run on amd64 alone.
//!
//! # Why
//! Without a requirement on the architecture, or with both allowed, Karpenter starts the cheapest type, which
//! is often an arm64 one. A pod that neither selects an architecture nor has an image for it is placed there
//! and ends with "exec format error", again and again. That an image is for one architecture is known from
//! its name only: a tag such as `1.4-amd64`, or a repository such as `amd64/redis`.
//!
//! # Fix
//! Select `kubernetes.io/arch: amd64` in the pod, or require it in the pool.
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
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i, m7g]}
//! -        - {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]} # <-
//! +        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: report}
//!  spec:
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/report:1.4.0-amd64
//!            resources: {requests: {cpu: 1, memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecrequirements>

use crate::cluster::query::{ObjectKey, QuerySlot};
use crate::cluster::views::Predicate;
use crate::rules::prelude::*;
use crate::workload::class::repository;
use crate::workload::node_labels::referenced_labels;

const ARCH: &str = "kubernetes.io/arch";

pub(crate) static RULE: Rule = Rule {
    id: "pool-admits-other-architecture",
    reads: &READS,
    docs: docs(include_str!("pool_admits_other_architecture.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

const READS: [Kind; WORKLOAD_KINDS.len() + 1] = with_workloads(&[Kind::NODE_POOL]);

/// Workloads with an image for one architecture alone whose pods do not select one.
struct OneArchitecture;

impl Predicate for OneArchitecture {
    const SLOT: QuerySlot = QuerySlot::OneArchitecture;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;

    fn is_satisfied(object: &Object) -> bool {
        !object.is(Kind::DAEMON_SET)
            && templates(object).iter().any(|template| sole_image(template).is_some())
    }
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let types = pool.types()?;
    let index = crate::catalog::index(ARCH)?;
    let admits = |arch: &str| index.with(arch).is_some_and(|with| !with.is_disjoint(&types));
    // Pods do not land by chance on nodes with taints, and GPU pools have a rule of their own.
    if pool.hardware() != Hardware::NoAccelerator || !pool.taints().is_empty() {
        return None;
    }
    let found = ctx.cluster().satisfying::<OneArchitecture>();
    for ObjectKey(workload) in found.iter().filter(|key| ctx.pairs_with(&key.0)) {
        for template in templates(workload) {
            let Some((arch, image)) = sole_image(&template) else { continue };
            let other = if arch == "amd64" { "arm64" } else { "amd64" };
            if admits(other) && lands_on(&template, pool, ctx) {
                report(pool, workload, other, &image, ctx);
                return None;
            }
        }
    }
    None
}

fn report(pool: &NodePool<'_>, workload: &Object, other: &str, image: &Node<'_>, ctx: &mut Context<'_>) {
    let field = pool.requirement(ARCH).map_or_else(|| pool.requirements(), |item| item.get("values"));
    let message = format!(
        "pool `{}` may start {other} nodes for `{}`, whose image is for another architecture",
        pool.object().display_name(),
        workload.display_name()
    );
    ctx.report(&field, message)
        .help(format!("select `{ARCH}` in the pods, or require it in the pool"))
        .related(workload, image, "the image");
}

/// Whether a pool is among those that may start nodes for the pods of a template, at the highest weight.
fn lands_on(template: &Template<'_>, pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let Some(pools) = feasibility.feasible_pools_of(template) else {
        return false;
    };
    let heaviest = pools.iter().map(|pool| pool.weight()).max();
    pools.iter().any(|one| one.object().is_same_resource(pool.object()) && Some(one.weight()) == heaviest)
}

/// The first image of a template that is for one architecture, which its pods do not select.
fn sole_image<'a>(template: &Template<'a>) -> Option<(&'static str, Node<'a>)> {
    let selects =
        |key: &str| key == ARCH || key == "beta.kubernetes.io/arch" || key.ends_with("/instance-type");
    if referenced_labels(template).iter().any(|label| selects(label.key))
        || template.spec.get("affinity").is_unknown()
    {
        return None;
    }
    template.containers().find_map(|container| {
        let image = container.get("image");
        Some((architecture(image.text()?)?, image))
    })
}

/// The architecture that the name of an image states. Images of several architectures are usual, so that most names say nothing.
fn architecture(image: &str) -> Option<&'static str> {
    let path = repository(image);
    let tag = image.rsplit('/').next()?.split('@').next()?.split_once(':').map_or("", |(_, tag)| tag);
    let has = |words: &[&str]| {
        let parts = || tag.split(['-', '_', '.']);
        words.iter().any(|word| parts().any(|part| part == *word) || tag.ends_with(&format!("-{word}")))
    };
    let (amd64, arm64) = (has(&["amd64", "x86_64", "x64"]), has(&["arm64", "aarch64", "arm64v8"]));
    match (amd64, arm64) {
        (true, false) => return Some("amd64"),
        (false, true) => return Some("arm64"),
        (true, true) => return None,
        (false, false) => {}
    }
    match path.split('/').next()? {
        "amd64" => Some("amd64"),
        "arm64v8" => Some("arm64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::architecture;

    #[test]
    fn names_that_state_an_architecture() {
        for (image, arch) in [
            ("example.com/report:1.4.0-amd64", Some("amd64")),
            ("example.com/report:linux-amd64-1.4", Some("amd64")),
            ("ghcr.io/team/tool:v2-x86_64", Some("amd64")),
            ("amd64/redis:7", Some("amd64")),
            ("arm64v8/redis:7", Some("arm64")),
            ("example.com/report:1.4.0-arm64", Some("arm64")),
            ("example.com/report:1.4.0-aarch64@sha256:0123", Some("arm64")),
            ("example.com/report:amd64-arm64", None),
            ("redis:7", None),
            ("nginx", None),
            ("example.com/amd64-tools:1.0", None),
        ] {
            assert_eq!(architecture(image), arch, "{image}");
        }
    }
}
