//! A replicated server has no PodDisruptionBudget.
//!
//! # Why
//! Without a PDB nothing keeps Karpenter or `kubectl drain` from evicting all replicas of a model at once:
//! two nodes that are consolidated together, or a new AMI for the whole pool, are enough. A replacement
//! needs a node, an image and a model in memory, several minutes without an answer. A single replica that
//! an autoscaler may leave is information: only a second replica helps it, not a PDB. Nothing is said of a
//! single replica that is written, of one with a volume that only one node can use, nor of one that
//! `graceful-shutdown-missing` reports. In folders of examples, samples, benchmarks and documentation all
//! of it is information. Nothing is reported of workloads that may be scaled to zero. Where the pods are
//! the ranks of one server, one that goes stops all of them: that is information. A budget with
//! `minAvailable: 0` or `maxUnavailable: 100%` allows each eviction, as if there were none: that is
//! information as well, as it may be there to be changed later.
//!
//! # Fix
//! Add a PodDisruptionBudget with `maxUnavailable: 1` for the labels of the pods. All pods of a
//! LeaderWorkerSet have the label `leaderworkerset.sigs.k8s.io/name`; those of one group are one server.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//! -metadata:
//! -  name: llm-serving # <-
//! -  namespace: models
//! +metadata: {name: llm-serving, namespace: models}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: llm-serving}}
//!    template:
//!      metadata: {labels: {app: llm-serving}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: server
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe:
//!              httpGet: {path: /health, port: 8000}
//!            lifecycle:
//!              preStop:
//!                sleep: {seconds: 15}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! +---
//! +apiVersion: policy/v1
//! +kind: PodDisruptionBudget
//! +metadata: {name: llm-serving, namespace: models}
//! +spec:
//! +  maxUnavailable: 1
//! +  unhealthyPodEvictionPolicy: AlwaysAllow
//! +  selector: {matchLabels: {app: llm-serving}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>
//! - <https://karpenter.sh/docs/concepts/disruption/#termination-controller>

use super::graceful_shutdown_missing;
use super::serving::{is_owned, tell_autoscaler};
use super::volumes::single_node_mode;
use crate::cluster::views::{Replicas, claim_of, claims};
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::class::Classified;
use crate::workload::launcher::ServerSize;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-missing",
    kinds: REPLICATED_KINDS,
    reads: &[Kind::PDB, Kind::HPA, Kind::SCALED_OBJECT, Kind::NAMESPACE, Kind::PERSISTENT_VOLUME_CLAIM],
    reports_absence: true,
    docs: docs(include_str!("pdb_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The label that the LeaderWorkerSet controller sets on all pods of a set, leaders and workers.
const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    let classified = ctx.class_of(object);
    if !classified.serves_requests() {
        return None;
    }
    let templates = templates(object);
    // A web server without a GPU is out of scope for this linter; a model server is not.
    if classified.confidence < Confidence::High && !templates.iter().any(uses_device) {
        return None;
    }
    let replicas = ctx.cluster().views().replicas(object)?;
    // Scaled to zero on purpose: it is allowed to be away.
    if replicas.floor <= 0 {
        return None;
    }
    if may_be_covered(object, &templates, ctx) {
        return by_nothing(object, &templates, &replicas, ctx);
    }
    report(object, &templates, replicas, &classified, ctx)
}

fn report(
    object: &Object,
    templates: &[Template<'_>],
    replicas: Replicas,
    classified: &Classified,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let is_set = object.is(Kind::LEADER_WORKER_SET);
    let id = object.id();
    let (kind, name) = (id.kind.as_str(), id.name.as_str());
    let node = object.path(&["metadata", "name"]);
    // The replicas of a LeaderWorkerSet are its groups.
    let server = pods_of_server(object, templates);
    let all_pods = match server {
        ServerSize::Pods(size) if is_set => replicas.min.checked_mul(size)?,
        _ => replicas.min,
    };
    match replicas.min {
        ..=0 => {}
        _ if server == ServerSize::Pods(all_pods) && all_pods > 1 => {
            let message = format!(
                "the {all_pods} pods of {kind} `{name}` are one server: every node drain is an outage"
            );
            let finding = ctx.report(&node, message);
            finding.severity(Severity::Info).reports_absence(false).help(format!(
                "run a second server; a PodDisruptionBudget of `minAvailable: {all_pods}` holds drains off"
            ));
            add_class_evidence(finding, object, classified);
        }
        _ if server != ServerSize::OnePod && !is_set => {}
        1 => {
            // Who writes one replica knows it. One more cannot start where both need a volume of one node.
            if !replicas.autoscaled
                || replicas.max < 2
                || templates.iter().any(|template| has_volume_of_one_node(object, template, ctx))
                || graceful_shutdown_missing::is_reported(object, ctx)
            {
                return None;
            }
            let message =
                format!("{kind} `{name}` may run as a single replica: every node drain is an outage");
            let autoscaler = ctx.cluster().views().autoscaler_of(object);
            let finding = ctx.report(&node, message);
            finding
                .severity(Severity::Info)
                .reports_absence(false)
                .help("keep two replicas, and add a PodDisruptionBudget with `maxUnavailable: 1`");
            tell_autoscaler(finding, autoscaler);
            add_class_evidence(finding, object, classified);
        }
        floor => {
            let message = format!("no PodDisruptionBudget covers the {floor} replicas of {kind} `{name}`");
            let finding = ctx.report(&node, message);
            finding
                .help(if kind == "LeaderWorkerSet" {
                    format!("add one with `maxUnavailable: 1` that selects `{LWS_NAME}: {name}`")
                } else {
                    "add a PodDisruptionBudget with `maxUnavailable: 1` for its pods' labels".to_owned()
                })
                .severity(if is_example(object) { Severity::Info } else { Severity::Warning });
            add_class_evidence(finding, object, classified);
        }
    }
    None
}

/// Reports replicas whose only budgets allow to evict all of them.
fn by_nothing(
    object: &Object,
    templates: &[Template<'_>],
    replicas: &Replicas,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let [template] = templates else { return None };
    let is_server = pods_of_server(object, templates) == ServerSize::OnePod;
    if replicas.min < 2 || !is_server || object.is(Kind::LEADER_WORKER_SET) {
        return None;
    }
    let (found, unknown) = ctx.cluster().views().pdbs_of(object.namespace_or_default(), template);
    let without_effect: Vec<(&Object, Node<'_>)> =
        found.into_iter().map(|pdb| Some((pdb, allows_all(pdb)?))).collect::<Option<_>>()?;
    let (pdb, field) = without_effect.first().filter(|(pdb, _)| !unknown && ctx.pairs_with(pdb))?;
    let (kind, name, number) = (object.kind(), object.display_name(), replicas.min);
    let message =
        format!("the PodDisruptionBudget of the {number} replicas of {kind} `{name}` protects none");
    ctx.report(&object.path(&["metadata", "name"]), message)
        .severity(Severity::Info)
        .reports_absence(false)
        .help("write `maxUnavailable: 1` in it")
        .related(pdb, field, "all may be evicted at once");
    None
}

/// The field by which a budget allows each eviction.
fn allows_all(pdb: &Object) -> Option<Node<'_>> {
    let field = |name: &str, all: &[&str]| {
        let node = pdb.path(&["spec", name]);
        let is_all = node.string_or_number().is_some_and(|text| all.contains(&&*text));
        is_all.then_some(node)
    };
    field("minAvailable", &["0", "0%"]).or_else(|| field("maxUnavailable", &["100%"]))
}

/// Whether the pods mount a claim of the input that one node, or one pod, can use at a time.
fn has_volume_of_one_node<'a>(object: &'a Object, template: &Template<'a>, ctx: &Context<'_>) -> bool {
    let namespace = object.namespace_or_default();
    claims(object, template).iter().filter_map(Node::text).map(claim_of).any(|name| {
        let claim = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name);
        claim.is_some_and(|claim| single_node_mode(claim).is_some())
    })
}

/// Whether a PDB may select the pods of a workload.
fn may_be_covered(object: &Object, templates: &[Template<'_>], ctx: &Context<'_>) -> bool {
    let index = ctx.cluster();
    let namespace = object.namespace_or_default();
    let selects_set = |pdb: &Object| {
        let label = pdb.path(&["spec", "selector", "matchLabels", LWS_NAME]);
        label.is_unknown() || label.text() == Some(object.name())
    };
    if object.is(Kind::LEADER_WORKER_SET) && index.in_namespace(Kind::PDB, namespace).any(selects_set) {
        return true;
    }
    templates.iter().any(|template| {
        let (found, unknown) = index.views().pdbs_of(namespace, template);
        let (others, _) = index.views().pdbs_of("default", template);
        // A PDB without namespace may be applied to this one.
        let elsewhere = others.iter().any(|p| p.namespace().is_none());
        let labels = template.metadata.get("labels");
        let unnamed = !labels.is_set() || labels.is_unknown();
        unknown
            || elsewhere
            || !found.is_empty()
            || unnamed && index.in_namespace(Kind::PDB, namespace).next().is_some()
    })
}

/// The pods of one server of a workload: of a group of a LeaderWorkerSet, or as the command states.
fn pods_of_server(object: &Object, templates: &[Template<'_>]) -> ServerSize {
    if !object.is(Kind::LEADER_WORKER_SET) {
        return ServerSize::first_beyond_one(templates.iter().map(ServerSize::of_template));
    }
    match object.path(&["spec", "leaderWorkerTemplate", "size"]).int_or(1) {
        Some(..=1) => ServerSize::OnePod,
        Some(size) => ServerSize::Pods(size),
        None => ServerSize::Unknown,
    }
}
