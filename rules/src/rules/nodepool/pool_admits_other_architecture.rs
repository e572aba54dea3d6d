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

use crate::cluster::query::{ObjectKey, QuerySlot};
use crate::cluster::views::Predicate;
use crate::rules::prelude::*;
use crate::workload::class::repository;
use crate::workload::devices::pod_devices;
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
    let Some(pools) = feasibility.feasible_pools_of(template) else {
        return false;
    };
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
        Some((architecture(image.text()?)?, image))
    })
}

/// Whether the name of a label is one of instance types or their families, sizes and devices.
fn is_of_instance(name: &str) -> bool {
    name.starts_with("instance-")
}

/// Published images for amd64 alone: the end of the repository, the beginning of the tag, and words that tell others
/// apart. By what the projects publish and document, as of November 2026; the registries were not asked.
const AMD64_ALONE: [(&str, &str, &[&str]); 7] = [
    ("mcr.microsoft.com/mssql/server", "", &[]),
    ("huggingface/text-generation-inference", "", &[]),
    ("huggingface/text-embeddings-inference", "", &["arm64"]),
    ("library/mysql", "5.7", &[]),
    ("mysql", "5.7", &[]),
    ("ibmcom/db2", "", &[]),
    ("icr.io/db2_community/db2", "", &[]),
];

/// Whether an image is published for amd64 alone. AWS has arm64 images for deep learning in repositories of their own, and
/// machines with Neuron devices are amd64.
fn is_amd64_alone(name: &str, tag: &str) -> bool {
    let known = AMD64_ALONE.iter().any(|(repository, start, others)| {
        let is_it = match repository.contains('/') {
            true => name.strip_suffix(repository).is_some_and(|host| host.is_empty() || host.ends_with('/')),
            false => name == *repository,
        };
        is_it && tag.starts_with(start) && !others.iter().any(|word| tag.contains(word))
    });
    let is_deep_learning = name.starts_with("763104351884.dkr.ecr.")
        && !["arm64", "graviton"].iter().any(|word| name.contains(word) || tag.contains(word));
    known || is_deep_learning || name.starts_with("public.ecr.aws/neuron/")
}

/// The architecture that the name of an image states. Images of several architectures are usual, so that most names say nothing.
fn architecture(image: &str) -> Option<&'static str> {
    let path = repository(image);
    let name = image.split('@').next()?;
    let name = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(name, |(name, _)| name);
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
        _ if name.ends_with("-amd64") => Some("amd64"),
        _ if name.ends_with("-arm64") => Some("arm64"),
        _ => is_amd64_alone(name, tag).then_some("amd64"),
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
            ("registry.k8s.io/tool-amd64:1.2", Some("amd64")),
            ("example.com/agent:3.1-linux-x64", Some("amd64")),
            ("mcr.microsoft.com/mssql/server:2022-latest", Some("amd64")),
            ("mysql:5.7", Some("amd64")),
            ("docker.io/library/mysql:5.7.44", Some("amd64")),
            ("mysql:8.4", None),
            ("example.com/mysql:5.7", None),
            ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.8", Some("amd64")),
            ("ghcr.io/huggingface/text-embeddings-inference:cpu-arm64-1.8", Some("arm64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312", Some("amd64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference-arm64:2.6.0", Some("arm64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference-graviton:2.16", None),
            ("public.ecr.aws/neuron/pytorch-inference-neuronx:2.8", Some("amd64")),
            ("nginx", None),
            ("example.com/amd64-tools:1.0", None),
        ] {
            assert_eq!(architecture(image), arch, "{image}");
        }
    }
}
