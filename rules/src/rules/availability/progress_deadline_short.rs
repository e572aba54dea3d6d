//! A rollout is given up while the startup probe still waits for the model.
//!
//! # Why
//! Knative gives a new revision 600 seconds to become ready, unless the annotation
//! `serving.knative.dev/progress-deadline`, the ConfigMap `config-deployment` or the KnativeServing says
//! otherwise. Then the revision has failed and is scaled to zero, however long its startup probe would have
//! waited. The time begins before the node starts and the image is pulled. A Deployment with
//! `progressDeadlineSeconds`, 600 as well where it is not written and the probe waits twice as long, below the
//! time of the probe goes on, but counts as failed: `kubectl rollout status` and Argo CD report an error. That
//! is advice here, and a warning where a Kustomization of Flux waits for the Deployment: it fails as well, and
//! what depends on it is not applied.
//!
//! InferenceServices are looked at where the annotation `serving.kserve.io/deploymentMode`, KServe's ConfigMap
//! or its chart says that Knative runs them.
//!
//! # Fix
//! Write a deadline above the time of the startup probe, with some minutes for the node and the image.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: serving.knative.dev/v1
//!  kind: Service
//!  metadata: {name: writer, namespace: text}
//!  spec:
//!    template:
//!      metadata:
//!        annotations:
//!          autoscaling.knative.dev/min-scale: "1"
//! +        serving.knative.dev/progress-deadline: 1800s
//!      spec:
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-Instruct-v0.3]
//!            ports: [{containerPort: 8000}]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            startupProbe:
//!              httpGet: {path: /health, port: 8000}
//!              periodSeconds: 10
//! -            failureThreshold: 120 # <-
//! +            failureThreshold: 120
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://knative.dev/docs/serving/configuration/deployment/#configuring-progress-deadlines>
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds>

use super::knative;
use super::kserve::{self, Mode};
use super::serving::model_server;
use crate::rules::gitops::{DELIVERERS, waiting_for};
use crate::rules::prelude::*;
use crate::workload::server::serving_container;

/// The runtimes of a server, what applies it, and the settings that decide how it runs.
const READS: &[Kind] = kinds![RUNTIMES, DELIVERERS, [Kind::NAMESPACE], kserve::READS];

pub(crate) static RULE: Rule = Rule {
    id: "progress-deadline-short",
    kinds: &[Kind::DEPLOYMENT, Kind::INFERENCE_SERVICE, Kind::KNATIVE_SERVICE],
    reads: READS,
    docs: docs(include_str!("progress_deadline_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

const DEADLINE: &str = "serving.knative.dev/progress-deadline";
/// The deadline of Knative and of Deployments, in seconds.
const DEFAULT: i64 = 600;
/// The seconds that the help adds for the node and the image.
const BEFORE: i64 = 600;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_of_kserve = object.is(Kind::INFERENCE_SERVICE);
    if is_of_kserve && kserve::mode(object, ctx) != Some(Mode::Knative) {
        return None;
    }
    let is_knative = is_of_kserve || object.is(Kind::KNATIVE_SERVICE);
    model_server(object, ctx)?;
    if object.is_patched_by_kustomize() {
        return None;
    }
    // The first template of an InferenceService is that of its predictor.
    let template = templates(object).into_iter().next().filter(uses_device)?;
    let container = serving_container(&template)?;
    let probe = container.get("startupProbe");
    let waits = waits(&probe)?;
    if is_knative {
        return of_knative(object, &template, &probe, waits, ctx);
    }
    // A rollout to no pods is complete, and the time of one that is paused does not run.
    let spec = object.get("spec");
    if spec.get("replicas").int() == Some(0) || spec.get("paused").bool() == Some(true) {
        return None;
    }
    let deadline = spec.get("progressDeadlineSeconds");
    let seconds = deadline.int_or(DEFAULT).filter(|seconds| (1..waits).contains(seconds))?;
    // A probe of little more than the default is generous and nothing else: most models are loaded by then.
    if !deadline.is_set() && waits < 2 * DEFAULT {
        return None;
    }
    let by = if deadline.is_set() { "" } else { " by default" };
    let message = format!(
        "the rollout counts as failed after {seconds} s{by}, and the startup probe waits for {waits} s"
    );
    let waiting = waiting_for(object, ctx);
    let finding = ctx.report(&deadline, message);
    finding
        .help(format!("write `progressDeadlineSeconds: {}`, or leave the probe less time", waits + BEFORE))
        .related(object, &probe, "the startup probe");
    match waiting {
        None => finding.severity(Severity::Info),
        Some(by) => {
            let spec = by.get("spec");
            let (wait, checks) = (spec.get("wait"), spec.get("healthChecks"));
            let node = if wait.bool() == Some(true) { wait } else { checks };
            finding.related(by, &node, "Flux waits for the rollout here, and fails with it")
        }
    };
    None
}

/// The seconds that a startup probe waits for a server.
pub(in crate::rules) fn waits(probe: &Node<'_>) -> Option<i64> {
    if !probe.is_mapping() {
        return None;
    }
    let period = probe.get("periodSeconds").int_or(10)?.max(1);
    let failures = probe.get("failureThreshold").int_or(3)?.max(1);
    period.checked_mul(failures)?.checked_add(probe.get("initialDelaySeconds").int_or(0)?)
}

fn of_knative(
    object: &Object,
    template: &Template<'_>,
    probe: &Node<'_>,
    waits: i64,
    ctx: &mut Context<'_>,
) -> Option<()> {
    // KServe copies its own annotations to the revision.
    let of_template = template.annotation(DEADLINE);
    let places = [of_template, object.annotation(DEADLINE)];
    let places = &places[..if object.is(Kind::INFERENCE_SERVICE) { 2 } else { 1 }];
    let metadata = [&template.metadata, &object.get("metadata")];
    if metadata.iter().any(|metadata| metadata.get("annotations").has_unknown_key()) {
        return None;
    }
    // Knative Serving reads the older name as well (`NewConfigFromMap` of `pkg/deployment/config.go`).
    let mut names = ["progress-deadline", "progressDeadline"].into_iter();
    let config = names.find_map(|name| knative::setting(ctx, "deployment", name));
    let stated = places.iter().find(|node| node.is_set());
    let (seconds, whose) = match (stated, &config) {
        (Some(node), _) => (seconds(node)?, "its annotation".to_owned()),
        (None, Some((config, node))) => {
            (seconds(node)?, format!("{} `{}`", config.kind(), config.display_name()))
        }
        (None, None) => (DEFAULT, "its default".to_owned()),
    };
    if waits <= seconds {
        return None;
    }
    let failures = probe.get("failureThreshold");
    let message = format!(
        "the startup probe waits for {waits} s, and Knative gives the revision up after {seconds} s ({whose})"
    );
    let place = match object.is(Kind::INFERENCE_SERVICE) {
        true => "`spec.predictor.annotations`",
        false => "the annotations of the template",
    };
    let finding = ctx.report(if failures.is_set() { &failures } else { probe }, message);
    finding.help(format!("write `{DEADLINE}: {}s` in {place}", waits + BEFORE));
    match (stated, config) {
        (Some(node), _) => finding.related(object, node, "the deadline"),
        (None, Some((config, node))) => finding.related(config, &node, "the deadline"),
        (None, None) => finding,
    };
    None
}

fn seconds(node: &Node<'_>) -> Option<i64> {
    Some(GoDuration::parse(node.text()?).ok()?.seconds())
}
