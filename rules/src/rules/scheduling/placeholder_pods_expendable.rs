//! Placeholder pods are so unimportant that the Cluster Autoscaler ignores them.
//!
//! # Why
//! Pods that only wait, with a negative priority, keep room for others: these preempt them, and the Cluster
//! Autoscaler starts a node for the placeholders. It does not do so for pods whose priority is below
//! `--expendable-pods-priority-cutoff`, which is -10 by default, and it removes nodes without regard for
//! them. The placeholders stay Pending and nothing is kept free. Karpenter has no such limit, so that nothing
//! is reported where it starts the nodes.
//!
//! # Fix
//! Give the PriorityClass a value from -10 to -1, or lower the limit of the Cluster Autoscaler. The value of a
//! PriorityClass cannot be changed: delete it first.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: headroom}
//! -value: -100
//! +value: -10
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: headroom, namespace: kube-system}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: headroom}}
//!    template:
//!      metadata: {labels: {app: headroom}}
//!      spec:
//! -      priorityClassName: headroom # <-
//! +      priorityClassName: headroom
//!        terminationGracePeriodSeconds: 0
//!        containers:
//!          - name: pause
//!            image: registry.k8s.io/pause:3.10
//!            resources: {requests: {cpu: 2, memory: 4Gi}, limits: {memory: 4Gi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: cluster-autoscaler, namespace: kube-system}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: cluster-autoscaler}}
//!    template:
//!      metadata: {labels: {app: cluster-autoscaler}}
//!      spec:
//!        priorityClassName: system-cluster-critical
//!        containers:
//!          - name: main
//!            image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0
//!            command: [./cluster-autoscaler, --cloud-provider=aws]
//!            resources: {requests: {cpu: 100m, memory: 600Mi}, limits: {memory: 600Mi}}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md>

use super::priority::priority;
use crate::rules::karpenter_in_use::{
    self, CLUSTER_AUTOSCALER, ClusterAutoscalers, is_cluster_autoscaler, is_on_karpenter,
};
use crate::rules::prelude::*;
use crate::workload::charts::installs;
use crate::workload::command::may_have_more_options;
use crate::workload::diagnostic::only_waits;

pub(crate) static RULE: Rule = Rule {
    id: "placeholder-pods-expendable",
    kinds: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET],
    reads: kinds![karpenter_in_use::READS, [Kind::PRIORITY_CLASS], CHART_KINDS],
    docs: docs(include_str!("placeholder_pods_expendable.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The option with the least priority of pods for which nodes are started, and its default in the Cluster Autoscaler since 1.12
/// (`config/flags/flags.go` of 1.33).
const CUTOFF: (&str, i64) = ("expendable-pods-priority-cutoff", -10);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || !only_waits(object) {
        return None;
    }
    let templates = templates(object);
    let template = templates.first()?;
    let own = priority(template, ctx).filter(|own| *own < 0)?;
    if is_on_karpenter(template, ctx) {
        return None;
    }
    let (autoscaler, cutoff) = autoscaler(ctx)?;
    if own >= cutoff {
        return None;
    }
    let field = ["priorityClassName", "priority"].map(|field| template.spec.get(field));
    let field = field.into_iter().find(Node::is_set)?;
    let message = format!(
        "the Cluster Autoscaler starts no node for pods of priority {own}, below its limit of {cutoff}"
    );
    ctx.report(&field, message)
        .help(format!("give the PriorityClass a value from {cutoff} to -1: these pods keep no room free"))
        .related(&autoscaler, &autoscaler.path(&["metadata", "name"]), "ignores these pods");
    None
}

/// The Cluster Autoscaler with the lowest limit. `None` if there is none, or the limit of one is not known.
fn autoscaler(ctx: &Context<'_>) -> Option<(Object, i64)> {
    let running = ctx.cluster().satisfying::<ClusterAutoscalers>();
    let charts = chart_installers(ctx.cluster()).filter(|object| installs(object, CLUSTER_AUTOSCALER));
    let all = running.iter().map(|key| &key.0).chain(charts).filter(|one| ctx.pairs_with(one));
    let known: Option<Vec<(Object, i64)>> = all.map(|one| Some((one.clone(), cutoff(one)?))).collect();
    known?.into_iter().min_by_key(|(_, cutoff)| *cutoff)
}

/// The limit of a Cluster Autoscaler: in its command, or in the values of its chart. `None` if it is not known.
fn cutoff(autoscaler: &Object) -> Option<i64> {
    let (name, default) = CUTOFF;
    if autoscaler.may_lack_fields() {
        return None;
    }
    if autoscaler.is(Kind::DEPLOYMENT) {
        let container = templates(autoscaler).first()?.containers().find(is_cluster_autoscaler)?;
        let words = words(&container);
        return (!may_have_more_options(&words)).then(|| option(&words, &[name]).int_or(default))?;
    }
    let mut found = None;
    for_each_values(autoscaler, CLUSTER_AUTOSCALER, |values| {
        let cutoff = values.root.path(&["extraArgs", name]);
        let text = cutoff.string_or_number();
        let own = if cutoff.is_absent() { Some(default) } else { text.and_then(|text| text.parse().ok()) };
        found = own.filter(|_| !values.may_differ);
    });
    found
}
