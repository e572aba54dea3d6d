//! Shared memory of a GPU container may grow beyond its memory limit.
//!
//! # Why
//! An emptyDir with `medium: Memory` counts against the memory limit of the container that writes to
//! it. A `sizeLimit` above that limit is never reached: the container is killed first, with an
//! out-of-memory error instead of a full disk.
//!
//! The object store of Ray is in `/dev/shm`, where KubeRay mounts a volume as large as the memory limit of
//! the container, or as its request without one. With `object-store-memory` above that, and above 10 GB,
//! `ray start` ends with an error, and no pod of the group starts. A smaller store goes to `/tmp`, on the
//! disk of the node: a warning. `RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE: "1"` and `plasma-directory` say that
//! this is meant.
//!
//! # Fix
//! Raise the memory limit, or lower `sizeLimit` so that both the program and its shared memory fit. Leave
//! `object-store-memory` out: Ray takes 30 % of the memory.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//!              limits: {memory: 16Gi, nvidia.com/gpu: 1}
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes:
//!          - name: shm
//!            emptyDir:
//!              medium: Memory
//! -            sizeLimit: 32Gi # <-
//! +            sizeLimit: 4Gi
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>
//! - <https://github.com/ray-project/kuberay/issues/201>
//! - <https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html>

use crate::rules::gpu::{gpu_templates, is_left_alone};
use crate::rules::prelude::*;
use crate::workload::checkpoint::{mount_of, volume};
use crate::workload::environment::may_define;
use crate::workload::ray::cluster_spec;

pub(crate) static RULE: Rule = Rule {
    id: "shared-memory-over-limit",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("shared_memory_over_limit.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in gpu_templates(object, ctx) {
        for container in template.containers() {
            inspect(&template, &container, ctx);
        }
    }
    let is_of_ray = [Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE].iter().any(|kind| object.is(*kind));
    if is_of_ray && !object.may_lack_fields() && !is_left_alone(object, ctx) {
        for template in templates(object) {
            object_store(object, &template, ctx);
        }
    }
    None
}

/// The size above which Ray does not put its object store into another folder than `/dev/shm` (`REQUIRE_SHM_SIZE_THRESHOLD` of
/// `ray_constants.py`, Ray 1.0 to 2.50).
const REQUIRES_SHARED: i128 = 10_000_000_000;

/// Reports an object store of Ray that is larger than the volume at `/dev/shm` (`determine_plasma_store_config` of Ray's `services.py`;
/// `makeEmptyDirVolume` of KubeRay's `common/pod.go`, 0.3 to 1.5, and the order of limits and requests since 1.3).
fn object_store(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let group = object.root().at(&template.spec.pointer().above(2));
    let parameters = group.get("rayStartParams");
    let store = parameters.get("object-store-memory");
    let wanted: i128 = store.string_or_number()?.parse().ok()?;
    let container = template.containers().next()?;
    let is_chosen = parameters.get("plasma-directory").is_set()
        || may_define(&container, |name| name == "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE")
        || cluster_spec(object).has_unknown_key();
    if is_chosen || template.spec.has_unknown_key() || container.has_unknown_key() {
        return None;
    }
    let resources = container.get("resources");
    let size = match mount_of(template, &container, "/dev/shm")? {
        Some(mount) => {
            let memory = volume(template, mount.get("name").text()?)?.get("emptyDir");
            let limit = memory.get("sizeLimit");
            (memory.get("medium").text() == Some("Memory")).then_some(limit)?
        }
        None if resources.has_unknown() => return None,
        None => {
            ["limits", "requests"].iter().map(|side| resources.path(&[side, "memory"])).find(Node::is_set)?
        }
    };
    let has = Quantity::at(&size)?.value();
    if wanted <= has {
        return None;
    }
    let (size_text, decimal) = (size.string_or_number()?, gigabytes(wanted));
    let (effect, severity) = match wanted > REQUIRES_SHARED {
        true => ("`ray start` ends with an error", Severity::Error),
        false => ("Ray puts it on the disk", Severity::Warning),
    };
    let message =
        format!("the object store of {decimal} GB is larger than `/dev/shm` of {size_text}: {effect}");
    ctx.report(&store, message)
        .severity(severity)
        .help("leave it out, so that Ray takes 30 % of the memory, or raise the memory of the container")
        .related(object, &size, "the size of `/dev/shm`");
    None
}

/// Bytes as GB with at most one decimal.
fn gigabytes(bytes: i128) -> String {
    let tenths = (bytes + 50_000_000) / 100_000_000;
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let limit = container.path(&["resources", "limits", "memory"]);
    let most = Quantity::at(&limit)?;
    for mount in container.get("volumeMounts").items() {
        if mount.get("mountPath").text() != Some("/dev/shm") {
            continue;
        }
        let memory = volume(template, mount.get("name").text()?)?.get("emptyDir");
        let size = memory.get("sizeLimit");
        if memory.get("medium").text() == Some("Memory") && Quantity::at(&size)?.nano() > most.nano() {
            let name = container.get("name").text().unwrap_or("main");
            let (size_text, limit_text) = (size.string_or_number()?, limit.string_or_number()?);
            let message = format!(
                "`/dev/shm` of `{name}` may grow to {size_text}, and the container is killed at {limit_text}"
            );
            let object = ctx.object();
            ctx.report(&size, message)
                .help("raise the memory limit, or lower `sizeLimit`: what is in it counts as memory")
                .related(object, &limit, "the memory limit");
        }
    }
    None
}
