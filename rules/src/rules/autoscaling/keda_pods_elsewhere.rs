//! A trigger counts pods of its namespace alone, and selects those of another one.
//!
//! # Why
//! A `kubernetes-workload` trigger lists pods in the namespace of its ScaledObject alone. Where those with the
//! labels of `podSelector` run elsewhere it counts 0: the workload stays at its minimum, and with a minimum of
//! 0 it never starts. No event says so, as 0 is a valid count.
//!
//! It is reported where the input is the whole cluster (`--complete`), installs no charts, and no workload of
//! the namespace has the labels while one of another namespace has. Only selectors of equal labels are read.
//!
//! # Fix
//! Move the ScaledObject and its target to the namespace of these pods, or ask a metric for their number.
//!
//! # Example
//! ```yaml,diff
//!  # gpulint check --complete
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//! -metadata: {name: warm-up, namespace: ops}
//! +metadata: {name: warm-up, namespace: edge}
//!  spec:
//!    scaleTargetRef: {name: warm-up}
//!    minReplicaCount: 0
//!    maxReplicaCount: 4
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata:
//!          podSelector: app=gateway # <-
//!          value: "4"
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//! -metadata: {name: warm-up, namespace: ops}
//! +metadata: {name: warm-up, namespace: edge}
//!  spec:
//!    selector: {matchLabels: {app: warm-up}}
//!    template:
//!      metadata: {labels: {app: warm-up}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/warm-up:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: gateway, namespace: edge}
//!  spec:
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata: {labels: {app: gateway}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/gateway:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/kubernetes-workload/>
//! - <https://github.com/kedacore/keda/issues/7310>

use crate::rules::prelude::*;
use crate::workload::selector::is_set_by_controllers;

pub(crate) static RULE: Rule = Rule {
    id: "keda-pods-elsewhere",
    reads: kinds![CHART_KINDS, [Kind::ARGO_APPLICATION_SET], WORKLOAD_KINDS],
    reports_absence: true,
    docs: docs(include_str!("keda_pods_elsewhere.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (cluster, object) = (ctx.cluster(), ctx.object());
    if trigger.kind() != Some("kubernetes-workload")
        || !cluster.is_complete()
        || object.is_namespace_unknown()
        || may_bring_objects(cluster)
    {
        return None;
    }
    let node = trigger.metadata().get("podSelector");
    let wanted = equal_labels(node.text()?)?;
    if is_set_by_controllers(wanted.iter().map(|(key, _)| *key)) {
        return None;
    }
    let namespace = object.namespace_or_default();
    let mut elsewhere = None;
    for workload in WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)) {
        let is_own = workload.is_namespace_unknown() || workload.namespace_or_default() == namespace;
        for template in templates(workload) {
            match has_labels(&template, &wanted) {
                Some(false) => {}
                _ if is_own => return None,
                Some(true) => elsewhere = elsewhere.or(Some(workload)),
                None => {}
            }
        }
    }
    let workload = elsewhere?;
    let message = format!(
        "no pod of namespace `{}` matches `{}`: those of `{}` do not count",
        ellipsize(namespace),
        ellipsize(node.text()?),
        ellipsize(workload.namespace_or_default())
    );
    ctx.report(&node, message)
        .help(
            "move the ScaledObject and its target to that namespace, or ask a metric for the number of pods",
        )
        .related(workload, &workload.path(&["metadata", "name"]), "its pods have the labels");
    None
}

/// The labels of a selector that compares all of them with one value each; `None` for another one.
fn equal_labels(selector: &str) -> Option<Vec<(&str, &str)>> {
    if selector.contains(['!', '(', ')', '<', '>', '$']) {
        return None;
    }
    selector
        .split(',')
        .map(|part| {
            let (key, value) = part.split_once('=')?;
            Some((key.trim(), value.trim_start_matches('=').trim()))
        })
        .collect()
}

/// Whether the pods of a template have labels; `None` if it is not known.
fn has_labels(template: &Template<'_>, wanted: &[(&str, &str)]) -> Option<bool> {
    let labels = template.metadata.get("labels");
    if labels.has_unknown_key() || labels.is_unknown() {
        return None;
    }
    let mut is_known = true;
    for (key, value) in wanted {
        let found = labels.get(key);
        match found.text() {
            Some(text) if text == *value => {}
            None if found.is_unknown() => is_known = false,
            _ => return Some(false),
        }
    }
    is_known.then_some(true)
}
