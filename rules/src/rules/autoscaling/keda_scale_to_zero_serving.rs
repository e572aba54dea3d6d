//! A model server on GPUs scales to zero.
//!
//! # Why
//! At zero replicas the first request waits for a node, an image of many gigabytes and a model that is
//! loaded into the GPU: minutes without an answer, and often a time-out. The minimum is 0 where it is not
//! written. Where the trigger reads what the pods themselves export, it fails without them: then `fallback`
//! starts pods, the trigger finds no load, and after the cooldown KEDA stops them again, without end.
//!
//! KEDA counts `cooldownPeriod` from the last time that a trigger was active, whether the pod is ready or
//! not. Where the startup probe allows the model more than twice that time, a pod whose clients have given
//! up is removed while it still loads, and the next request starts from zero again.
//!
//! # Fix
//! Write `minReplicaCount: 1` or more, or a `cooldownPeriod` above the time that a start takes. Where a
//! cold start is fine, put the annotation `gpulint.dev/allow-scale-to-zero: "true"` on the ScaledObject.
//! Nothing is reported where an `external` or `external-push` trigger, such as that of KEDA's HTTP add-on,
//! holds requests back, nor with an `idleReplicaCount`, nor where all triggers tell of a time or of nodes
//! (`cron`, `kube_node_…`, `up`), so that no request starts a pod. Where an overlay of the kustomization
//! sets the minimum, it is information.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//! -  minReplicaCount: 0 # <-
//! +  minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring:9090
//!          query: sum(gateway_requests_waiting{service="llm"})
//!          threshold: "5"
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: server
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#minreplicacount>

use crate::keda::meaning::reads_queue;
use crate::promql::{Expr, Parsed, parse};
use crate::rules::autoscaling::keda_cannot_wake;
use crate::rules::autoscaling::scale_target::{model_server, rests_at_zero, target_name};
use crate::rules::availability::progress_deadline_short::waits;
use crate::rules::prelude::*;
use crate::workload::server::serving_container;

pub(crate) static RULE: Rule = Rule {
    id: "keda-scale-to-zero-serving",
    kinds: &[Kind::SCALED_OBJECT],
    reads: keda_cannot_wake::READS_FOR_SERVERS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_scale_to_zero_serving.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The beginnings of metrics that say whether a node is there, and in which state.
const OF_NODES: [&str; 4] = ["kube_node_", "karpenter_node", "machine_", "node_boot_time"];

/// Whether a trigger tells of a time, or of a node that is there, and not of load: no request starts a pod, and without the node
/// a minimum of one is a pod that waits.
fn tells_state(trigger: &Trigger<'_>) -> bool {
    match trigger.kind() {
        Some("cron") => true,
        Some("prometheus") => {
            let query = trigger.metadata().get("query");
            let parsed = query.text().map(parse);
            let names = parsed.as_ref().and_then(Parsed::expr).map(Expr::metric_names).unwrap_or_default();
            let is_state =
                |name: &&str| *name == "up" || OF_NODES.iter().any(|start| name.starts_with(start));
            !names.is_empty() && names.iter().all(is_state)
        }
        _ => false,
    }
}

const ALLOW: &str = "gpulint.dev/allow-scale-to-zero";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let min = spec.get("minReplicaCount");
    if !rests_at_zero(object)?
        || spec.get("maxReplicaCount").int() == Some(0)
        || !spec.get("idleReplicaCount").is_absent()
    {
        return None;
    }
    let flaps = keda_cannot_wake::is_started_by_fallback(object, ctx);
    cooldown(object, ctx);
    if !flaps && (object.annotation(ALLOW).is_set() || keda_cannot_wake::is_reported(object, ctx)) {
        return None;
    }
    let kinds: Option<Vec<&str>> = triggers(object).map(|trigger: Trigger<'_>| trigger.kind()).collect();
    let kinds = kinds?;
    // Requests wait in the queue, and no client waits for a response.
    let queued = kinds.iter().all(|kind| reads_queue(kind));
    if kinds.iter().any(|kind| matches!(*kind, "external" | "external-push")) {
        return None;
    }
    if triggers(object).all(|trigger| tells_state(&trigger)) {
        return None;
    }
    let server = model_server(object, ctx)?;
    // What takes its work from a queue, and is no server by its image or command, has no client that waits.
    if queued && server.confidence < Confidence::Medium {
        return None;
    }
    let name = target_name(object);
    let (message, help) = if flaps {
        (
            format!("`{name}` starts and stops by turns: without pods its trigger fails, and `fallback` starts some"),
            "write `minReplicaCount: 1`, or a trigger that works at zero replicas, such as a gateway's metric"
                .to_owned(),
        )
    } else {
        (
            format!(
                "model server `{name}` scales to zero: the first request waits for node, image and model"
            ),
            format!("write `minReplicaCount: 1`, or allow it with the annotation `{ALLOW}`"),
        )
    };
    // Where an overlay sets the minimum, the zero of the base is that of the others, such as a test cluster.
    let is_sure = server.confidence >= Confidence::Medium && !queued && !object.is_overridden(&min);
    let severity = if is_sure { Severity::Warning } else { Severity::Info };
    let finding = ctx.report(&min, message);
    finding.help(help).severity(severity);
    // With a maximum of one, a minimum of one leaves the autoscaler nothing to do; a single replica has advice of its own.
    if severity == Severity::Warning && max_replicas(object).is_some_and(|max| max > 1) {
        finding.fix(Fix::unsafe_("keep one replica").set(&min, json!(1)));
    }
    server.explain(finding);
    None
}

/// The seconds after the last activity of a trigger in which KEDA keeps the replicas, by default.
const COOLDOWN: i64 = 300;

/// Reports a cooldown in which a server may not be ready: the pod that a request has started is removed while it loads. What waits in a
/// queue keeps its trigger active.
fn cooldown(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = object.path(&["spec", "cooldownPeriod"]);
    let seconds = field.int_or(COOLDOWN).filter(|seconds| *seconds > 0)?;
    let mut kinds = triggers(object).map(|trigger: Trigger<'_>| trigger.kind());
    let reads_rates = kinds.all(|kind| {
        kind.is_some_and(|kind| !reads_queue(kind) && !matches!(kind, "external" | "external-push" | "cron"))
    });
    // The default is not worth a line of its own beside the finding about the minimum.
    if !reads_rates || !field.is_set() || object.may_lack_fields() {
        return None;
    }
    let workload = model_server(object, ctx)?.target?;
    let template = templates(workload).into_iter().next()?;
    let probe = serving_container(&template)?.get("startupProbe");
    let waits = waits(&probe).filter(|waits| waits / 2 > seconds)?;
    let message = format!(
        "a pod that starts may be removed after {seconds} s without activity, and its probe lets it load for {waits} s"
    );
    ctx.report(&field, message)
        .help(format!("write more than a start takes, such as {waits}, or keep one replica"))
        .related(workload, &probe, "the startup probe");
    None
}
