//! Shared memory of a GPU container may grow beyond its memory limit.
//!
//! # Why
//! An emptyDir with `medium: Memory` counts against the memory limit of the container that writes to
//! it. A `sizeLimit` above that limit is never reached: the container is killed first, with an
//! out-of-memory error instead of a full disk.
//!
//! # Fix
//! Raise the memory limit, or lower `sizeLimit` so that both the program and its shared memory fit.
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

use crate::rules::gpu::gpu_templates;
use crate::rules::prelude::*;
use crate::workload::checkpoint::volume;

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
    None
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
