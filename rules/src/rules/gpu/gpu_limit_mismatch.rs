//! The GPU request and the GPU limit of a container do not agree.
//!
//! # Why
//! Extended resources are not overcommitted. The API server rejects a container that requests a
//! GPU without a limit, whose limit differs from the request, or that asks for part of one. In a
//! ScaledJob nobody checks: the object is stored and every Job it makes is rejected. The same holds for what an
//! operator writes into its pods: `resourcesPerNode` of a TrainJob, `resources` of a NIMService.
//!
//! # Fix
//! Write the limit, or both with the same whole number. A part of a GPU comes from MIG,
//! time-slicing or dynamic resource allocation, not from a fraction.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: probe}
//!  spec:
//!    restartPolicy: Never
//!    containers:
//!      - name: main
//!        image: example.com/probe:1.0.0
//! -      resources:
//! -        requests:
//! -          nvidia.com/gpu: 1 # <-
//! +      resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/>
//! - <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources>

use crate::rules::prelude::*;
use crate::workload::gpu::is_extended;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-limit-mismatch",
    kinds: WORKLOAD_KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    owns: &[Ownership { path: "**/resources/*/*", aspect: Aspect::Value }],
    docs: docs(include_str!("gpu_limit_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // The operator writes these into a container as they are.
    let of_operator = match (object.group(), object.kind()) {
        ("trainer.kubeflow.org", "TrainJob") => Some(object.path(&["spec", "trainer", "resourcesPerNode"])),
        ("apps.nvidia.com", "NIMService") => Some(object.path(&["spec", "resources"])),
        _ => None,
    };
    if let Some(resources) = of_operator {
        inspect(&resources, object, ctx);
        return None;
    }
    for template in templates(object) {
        for container in template.all_containers() {
            inspect(&container.get("resources"), object, ctx);
        }
    }
    None
}

fn inspect(resources: &Node<'_>, object: &Object, ctx: &mut Context<'_>) {
    let (requests, limits) = (resources.get("requests"), resources.get("limits"));
    if requests.is_unknown() || limits.is_unknown() {
        return;
    }
    for (name, request) in requests.entries() {
        if is_extended(name) {
            compare(name, &request, &limits.get(name), object, ctx);
        }
    }
    for (name, limit) in limits.entries() {
        if is_extended(name) {
            whole(name, &limit, object, ctx);
        }
    }
}

fn compare(name: &str, request: &Node<'_>, limit: &Node<'_>, object: &Object, ctx: &mut Context<'_>) {
    if request.is_unknown() || limit.is_unknown() {
        return;
    }
    if !whole(name, request, object, ctx) {
        return;
    }
    if limit.is_absent() {
        if object.may_lack_fields() {
            return;
        }
        ctx.report(request, format!("`{name}` is requested without a limit"))
            .help("extended resources need a limit equal to the request")
            .rejected_by(refusal(object))
            .fix(
                Fix::new(format!("set the limit of `{name}` to the request"), Safety::Safe)
                    .set(limit, request.to_json()),
            );
        return;
    }
    if let (Some(a), Some(b)) = (Quantity::at_or_zero(request), Quantity::at_or_zero(limit))
        && a != b
    {
        ctx.report(request, format!("the request of `{name}` ({a}) differs from its limit ({b})"))
            .help("write the same number in both, or leave the request out")
            .rejected_by(refusal(object))
            .related(object, limit, "the limit")
            .fix(
                Fix::new(format!("set the request of `{name}` to its limit"), Safety::Unsafe)
                    .set(request, limit.to_json()),
            );
    }
}

/// Reports a fraction. Returns whether the amount is an integer or cannot be read.
fn whole(name: &str, amount: &Node<'_>, object: &Object, ctx: &mut Context<'_>) -> bool {
    let Some(value) = Quantity::at_or_zero(amount) else { return true };
    if value.is_whole() {
        return true;
    }
    ctx.report(amount, format!("`{name}` must be an integer, not {value}"))
        .help("share a GPU through MIG, time-slicing or dynamic resource allocation")
        .rejected_by(refusal(object));
    false
}

/// The API server validates the pod templates of its built-in kinds. It accepts those of custom resources,
/// and rejects the pods or Jobs created from them.
fn refusal(object: &Object) -> Option<Authority> {
    matches!(object.group(), "" | "apps" | "batch").then_some(Authority::ApiServer)
}
