//! A pool admits arm64 machines, and images of the set run on amd64 alone.
//!
//! # Why
//! Without a requirement on the architecture, or with both allowed, Karpenter starts the cheapest type, which
//! is often an arm64 one. A pod that neither selects an architecture nor has an image for it is placed there
//! and ends with "exec format error", again and again. That an image is for one architecture is known from
//! its name: a tag such as `1.4-amd64`, a repository such as `amd64/redis`, or a published image that has no
//! other, such as SQL Server, MySQL 5.7, TGI and the Deep Learning Containers of AWS.
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
//! - <https://aws.github.io/deep-learning-containers/reference/available_images/>
//! - <https://learn.microsoft.com/en-us/sql/linux/sql-server-linux-setup#system>

use crate::catalog::{ARCH, index};
use crate::rules::prelude::*;
use crate::workload::architecture;

pub(crate) static RULE: Rule = Rule {
    id: "pool-admits-other-architecture",
    reads: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    docs: docs(include_str!("pool_admits_other_architecture.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

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
    let index = index(ARCH)?;
    let admits = |arch: &str| index.with(arch).is_some_and(|with| !with.is_disjoint(&types));
    // A GPU pool that says nothing of architectures has a rule of its own.
    if pool.hardware() != Hardware::NoAccelerator && pool.requirement(ARCH).is_none() {
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
    let Some(pools) = feasibility.feasible_pools_of(template) else { return false };
    let heaviest = pools.iter().map(|pool| pool.weight()).max();
    pools.iter().any(|one| one.object().is_same_resource(pool.object()) && Some(one.weight()) == heaviest)
}

/// The first image of a template that is for one architecture, which its pods do not select.
fn sole_image<'a>(template: &Template<'a>) -> Option<(&'static str, Node<'a>)> {
    let selects = |key: &str| {
        key == ARCH || key == "beta.kubernetes.io/arch" || key.rsplit('/').next().is_some_and(is_of_instance)
    };
    // Machines of arm64 have few GPUs: pods with several may fit the others alone.
    let has_many = pod_devices(template).values().any(|devices| devices.count > 1);
    if referenced_labels(template).iter().any(|label| selects(label.key))
        || template.spec.get("affinity").is_unknown()
        || has_many
    {
        return None;
    }
    template.all_containers().find_map(|container| {
        let image = container.get("image");
        Some((architecture::of_image(image.text()?)?, image))
    })
}

/// Whether the name of a label is one of instance types or their families, sizes and devices.
fn is_of_instance(name: &str) -> bool {
    name.starts_with("instance-")
}
