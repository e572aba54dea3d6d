//! A multi-node training run lands on nodes with EFA and does not ask for it.
//!
//! # Why
//! An EFA interface is attached to a node only if a pod asks for `vpc.amazonaws.com/efa`, and only a
//! pod that asks for it can use it. Without it NCCL falls back to TCP, and the interconnect that the
//! large instance types are paid for stays unused.
//!
//! # Fix
//! Request `vpc.amazonaws.com/efa` in the limits of the workers, as many as the instance type has, with
//! an image that has the EFA libraries.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: llm-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        nodeSelector:
//!          node.kubernetes.io/instance-type: p4d.24xlarge
//!          topology.kubernetes.io/zone: us-west-2a
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/llm:v3
//!            command: [torchrun, --nproc_per_node=8, --nnodes=2, train.py]
//!            env: [{name: SAVE_TO, value: "s3://runs/llm"}]
//!            resources:
//!              requests: {cpu: 90, memory: 1000Gi}
//! -            limits: # <-
//! +            limits:
//!                nvidia.com/gpu: 8
//! +              vpc.amazonaws.com/efa: 4
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory}}]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html>
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>

use crate::rules::gpu::selected_types;
use crate::rules::prelude::*;
use crate::rules::training::{is_distributed, trains};
use crate::workload::devices::pod_devices;
use crate::workload::gpu::{EFA, is_accelerator};

pub(crate) static RULE: Rule = Rule {
    id: "efa-not-requested",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("efa_not_requested.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Minimum number of EFA interfaces of instance types that are made for runs over several nodes.
const MANY: u32 = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !trains(object) || !is_distributed(object) || object.is_partial() {
        return None;
    }
    for template in templates(object).iter().filter(|t| requests_accelerator(t)) {
        inspect(object, template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let devices = pod_devices(template);
    let asks = template.all_containers().any(|container| {
        let resources = container.get("resources");
        resources.path(&["limits", EFA]).is_set() || resources.has_unknown()
    });
    if asks || template.spec.get("hostNetwork").bool() == Some(true) || template.spec.has_unknown_key() {
        return None;
    }
    let (types, pool) = selected_types(template, ctx)?;
    let made_for_it = |types: &TypeSet| !types.is_empty() && types.iter().all(|t| t.efa >= MANY);
    if !made_for_it(&types) {
        return None;
    }
    let (_, accelerator) = devices.into_iter().find(|(name, _)| is_accelerator(name))?;
    let container = template.containers().find(|c| {
        let limits = c.path(&["resources", "limits"]);
        limits.is_set() && limits.entries().iter().any(|(_, n)| n.pointer() == accelerator.node.pointer())
    })?;
    let limits = container.path(&["resources", "limits"]);
    let name = object.display_name();
    let example = types.iter().next()?;
    let count = example.efa;
    let message = format!("`{name}` trains on several `{}` nodes without their EFA", example.name);
    let finding = ctx.report(&limits, message);
    finding.help(format!("request `{EFA}: {count}`, with an image that has the EFA libraries"));
    if let Some(pool) = pool {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "takes the pods");
    }
    None
}
