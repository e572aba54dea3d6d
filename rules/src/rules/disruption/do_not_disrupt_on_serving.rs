//! A model server that Karpenter may never disrupt keeps its nodes forever.
//!
//! # Why
//! `karpenter.sh/do-not-disrupt: "true"` protects a pod as long as it runs, and a server runs until it is
//! replaced. Its node is never consolidated and never gets a new AMI; when it expires it stays
//! cordoned, half empty and paid for, because the pod does not end. Replicas behind a Service do not
//! need it: one can go while the others answer.
//!
//! # Fix
//! Remove it and protect the service with a PodDisruptionBudget, or give it a duration, such as `2h`,
//! if only the first hours matter.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: llm}}
//!    template:
//! -    metadata:
//! -      labels: {app: llm}
//! -      annotations:
//! -        karpenter.sh/do-not-disrupt: "true" # <-
//! +    metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: vllm/vllm-openai:v0.10.1
//!            command: [vllm, serve, example/model]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 16Gi, nvidia.com/gpu: 1}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: llm}
//!  spec:
//!    maxUnavailable: 1
//!    selector: {matchLabels: {app: llm}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>

use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-on-serving",
    kinds: &[Kind::DEPLOYMENT, Kind::ROLLOUT],
    reads: &[Kind::HPA, Kind::SCALED_OBJECT, Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("do_not_disrupt_on_serving.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let classified = ctx.class_of(object);
    if !classified.serves_requests() {
        return None;
    }
    // A single replica cannot be replaced without downtime, so the annotation may be justified.
    let replicas = ctx.cluster().views().replicas(object);
    if replicas.is_none_or(|r| r.min < 2) {
        return None;
    }
    for template in templates(object) {
        let annotations = template.metadata.get("annotations");
        let node = annotations.get(DO_NOT_DISRUPT);
        if node.text() != Some("true") {
            continue;
        }
        let whole = if annotations.entries().len() == 1 { &annotations } else { &node };
        let message = format!("server `{}` keeps its nodes from ever being updated", object.display_name());
        let finding = ctx.report(&node, message);
        finding
            .at_key()
            .help("remove it and add a PodDisruptionBudget, or write a duration such as `2h`")
            .fix(
                Fix::new(
                    "remove the annotation; check that a PodDisruptionBudget covers the pods",
                    Safety::Unsafe,
                )
                .remove(whole),
            );
        add_class_evidence(finding, object, &classified);
    }
    None
}
