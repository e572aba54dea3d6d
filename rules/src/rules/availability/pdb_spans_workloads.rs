//! The pods of several workloads share one PodDisruptionBudget.
//!
//! # Why
//! A budget counts every pod that its selector matches. With `minAvailable: 1` over two workloads the pods of
//! one satisfy it while all of the other's are evicted, so that it protects neither. It is reported where the
//! number of pods that must stay is reached by the other workloads alone, and where a percentage of all pods is
//! as many as one workload has: `maxUnavailable: 50%` over two of two pods each. A single pod, and pods with
//! another budget, are left out. Versions of one program and the parts of one group are meant to share a
//! budget; servers of two models are not.
//!
//! # Fix
//! Write one budget for each workload, with a label that only its pods have.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    minAvailable: 1
//! -  selector: {matchLabels: {team: nlp}} # <-
//! +  selector: {matchLabels: {team: nlp, app: chat}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat, team: nlp}}
//!      spec:
//!        containers:
//!          - name: chat
//!            image: example.com/chat:2.1.0
//!            resources: {requests: {cpu: "1", memory: 1Gi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: ranker, namespace: models}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: ranker}}
//!    template:
//!      metadata: {labels: {app: ranker, team: nlp}}
//!      spec:
//!        containers:
//!          - name: ranker
//!            image: example.com/ranker:2.1.0
//!            resources: {requests: {cpu: "1", memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>

use super::selected_workloads::{belong_together, has_known_images, run_together};
use crate::cluster::views::disruptions::{IntOrPercent, allows_none, owner_without_scale};
use crate::rules::partners::budgets;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-spans-workloads",
    kinds: &[Kind::PDB],
    reads: kinds![[Kind::HPA, Kind::SCALED_OBJECT, Kind::PDB], WORKLOAD_KINDS],
    docs: docs(include_str!("pdb_spans_workloads.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let selector = spec.get("selector");
    // An empty selector is reported by pdb-selector.
    let is_empty =
        selector.get("matchLabels").entries().is_empty() && !selector.get("matchExpressions").is_set();
    if object.may_lack_fields() || is_empty || allows_none(object) {
        return None;
    }
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    let is_least = least.is_set();
    let (field, node) = if is_least { ("minAvailable", least) } else { ("maxUnavailable", most) };
    let bound = IntOrPercent::read(&node)?;
    let allowed = |pods| if is_least { bound.disruptions_allowed(pods) } else { bound.of(pods, true) };
    let views = ctx.cluster().views();
    let (workloads, unknown) = views.selected_by(object);
    // Pods of owners without a scale are reported by pdb-on-job.
    if unknown || workloads.iter().any(|workload| owner_without_scale(&workload.object).is_some()) {
        return None;
    }
    let all: Vec<(&Object, i64)> = workloads
        .iter()
        .map(|workload| &workload.object)
        .filter(|workload| runs_forever(workload) && has_known_images(workload))
        .map(|workload| Some((workload, views.replicas(workload)?.min)))
        .collect::<Option<_>>()?;
    let total: i64 = all.iter().map(|(_, replicas)| replicas).sum();
    for (at, (first, replicas)) in all.iter().enumerate() {
        let other = all
            .iter()
            .skip(at + 1)
            .map(|(other, _)| *other)
            .find(|other| run_together(first, other, ctx.cluster()) && !belong_together(first, other));
        // With a budget of its own some of the pods would stay, save a single one, whose budget would hold every drain.
        let is_lost = *replicas > 1 && allowed(total) >= *replicas && allowed(*replicas) < *replicas;
        let is_kept = || budgets(first, ctx.cluster()).iter().any(|budget| !budget.is_same_resource(object));
        let Some(other) = other.filter(|_| is_lost && !is_kept()) else { continue };
        let written = node.string_or_number().unwrap_or_default();
        let (first_name, other_name) = (first.display_name(), other.display_name());
        let why = match is_least {
            true => format!("those of `{other_name}` satisfy `{field}: {written}` as well"),
            false => format!("`{field}: {written}` counts those of `{other_name}` as well"),
        };
        let message = format!("all pods of `{first_name}` may be evicted: {why}");
        ctx.report(&selector, message)
            .help("write one PDB for each workload, with a label that only its pods have")
            .related(first, &first.path(&["metadata", "name"]), "its pods are selected")
            .related(other, &other.path(&["metadata", "name"]), "these as well");
        return None;
    }
    None
}
