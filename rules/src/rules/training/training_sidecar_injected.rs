//! Istio adds its proxy to the pods of a distributed training run.
//!
//! # Why
//! In a namespace with `istio-injection: enabled` or `istio.io/rev` each pod gets a proxy through which its TCP
//! connections go. The processes of a training run find each other by the addresses of pods and open
//! connections on random ports: NCCL and the rendezvous hang or end with resets, and what works is slow. A
//! proxy that is no native sidecar also runs on when the training has ended, so that the Job never completes.
//! Data-plane mode `ambient` and pods in the network of their node get no proxy.
//!
//! # Fix
//! Write the label `sidecar.istio.io/inject: "false"` into each pod template of the run.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: Namespace
//! metadata: {name: speech, labels: {istio-injection: enabled}}
//! ---
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: asr, namespace: speech}
//! spec:
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 4
//!       template:
//!         metadata:
//!           labels: {team: asr} # <-
//!         spec:
//!           containers:
//!             - name: pytorch
//!               image: registry.example.com/speech/asr:3.3.0
//!               command: [torchrun, train.py]
//!               resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: v1
//! kind: Namespace
//! metadata: {name: speech, labels: {istio-injection: enabled}}
//! ---
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: asr, namespace: speech}
//! spec:
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 4
//!       template:
//!         metadata:
//!           labels: {team: asr, sidecar.istio.io/inject: "false"}
//!         spec:
//!           containers:
//!             - name: pytorch
//!               image: registry.example.com/speech/asr:3.3.0
//!               command: [torchrun, train.py]
//!               resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://istio.io/latest/docs/setup/additional-setup/sidecar-injection/>
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/>

use super::LAUNCHERS;
use crate::rules::prelude::*;
use crate::workload::command::base_name;
use crate::workload::devices::pods_with_accelerators;
use crate::workload::istio::{INJECT, MODE};

pub(crate) static RULE: Rule = Rule {
    id: "training-sidecar-injected",
    kinds: &[
        Kind::JOB,
        Kind::JOB_SET,
        Kind::PYTORCH_JOB,
        Kind::TF_JOB,
        Kind::MPI_JOB,
        Kind::TRAIN_JOB,
        Kind::VOLCANO_JOB,
    ],
    reads: kinds![[Kind::NAMESPACE], RUNTIMES],
    docs: docs(include_str!("training_sidecar_injected.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let is_changed = |object: &Object| object.may_lack_fields();
    if is_changed(object) || object.is_owned() || object.is_namespace_unknown() {
        return None;
    }
    // Trainer merges these into what it creates.
    let of_run = ["labels", "annotations"].map(|field| object.get("spec").get(field));
    if object.is(Kind::TRAIN_JOB) && of_run.iter().any(|map| map.is_unknown() || map.get(INJECT).is_set()) {
        return None;
    }
    pods_with_accelerators(object).filter(|pods| *pods > 1)?;
    let namespace = ctx.partner(Kind::NAMESPACE, "default", object.namespace()?)?;
    let label = injecting_label(namespace).filter(|_| !is_changed(namespace))?;
    let templates = templates(object);
    if !communicates(object, &templates) {
        return None;
    }
    let mut injected = templates.iter().filter(|template| is_injected(template));
    let first = injected.next()?;
    let message = format!(
        "Istio adds its proxy to the pods of `{}`: connections between its ranks may hang",
        object.display_name()
    );
    let labels = first.metadata.get("labels");
    let finding = ctx.report(&labels, message);
    finding.help(format!("write `{INJECT}: \"false\"` into the labels of each pod template"));
    finding.related(namespace, &label, "the namespace asks for the proxy");
    for template in injected {
        finding.related(object, &template.metadata.get("labels"), "and here");
    }
    None
}

/// The label of a namespace with which Istio adds its proxy to pods.
fn injecting_label(namespace: &Object) -> Option<Node<'_>> {
    let labels = namespace.path(&["metadata", "labels"]);
    if labels.has_unknown_key() || labels.get(MODE).is_set() {
        return None;
    }
    let (injection, revision) = (labels.get("istio-injection"), labels.get("istio.io/rev"));
    match injection.is_set() {
        true => (injection.text() == Some("enabled")).then_some(injection),
        false => revision.text().is_some().then_some(revision),
    }
}

/// Whether the processes of several pods communicate with each other.
pub(super) fn communicates(object: &Object, templates: &[Template<'_>]) -> bool {
    // The pods of a Kubeflow job are one process group.
    if matches!(object.group(), "kubeflow.org" | "trainer.kubeflow.org") {
        return true;
    }
    let plugins = object.path(&["spec", "plugins"]);
    if object.is(Kind::VOLCANO_JOB)
        && ["pytorch", "mpi", "tensorflow"].iter().any(|name| plugins.get(name).is_set())
    {
        return true;
    }
    templates.iter().flat_map(|template| template.containers()).any(|container| {
        let has = |program: &str| words(&container).iter().any(|word| base_name(&word.text) == program);
        match Launch::of(&container) {
            // Pods of one node each may be runs of their own.
            Some(launch) => launch.nodes().is_some_and(|(nodes, _)| nodes > 1),
            None => LAUNCHERS[4..6].iter().any(|program| has(program)),
        }
    })
}

/// Whether nothing in a template keeps the proxy or the connections of the run away from it.
fn is_injected(template: &Template<'_>) -> bool {
    let (labels, annotations) = (template.metadata.get("labels"), template.metadata.get("annotations"));
    let host_network = template.spec.get("hostNetwork");
    let decides = |key: &str| key == INJECT || key == MODE || key.starts_with("traffic.sidecar.istio.io/");
    let is_own = |map: &Node<'_>| {
        map.is_unknown() || map.has_unknown_key() || map.entries().iter().any(|(key, _)| decides(key))
    };
    // A label that asks for the proxy changes nothing.
    let asks = labels.get(INJECT).text() == Some("true");
    !host_network.is_unknown()
        && host_network.bool() != Some(true)
        && !template.metadata.is_unknown()
        && !template.spec.has_unknown_key()
        && (asks || !is_own(&labels))
        && !is_own(&annotations)
}
