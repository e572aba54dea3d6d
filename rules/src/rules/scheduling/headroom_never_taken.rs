//! Pods of a PriorityClass never take the room that placeholder pods keep.
//!
//! # Why
//! Placeholder pods of a negative priority keep nodes ready: the scheduler ends them when a pod of a higher
//! priority needs the room, and they wait for the next node. With `preemptionPolicy: Never` on its class a
//! pod ends no other pod. It waits for a node of its own beside the room that is paid for.
//!
//! Reported are classes of workloads that may run where the placeholders do. A class of Jobs alone may leave
//! the room to others on purpose, and so may one whose pods share the room with pods of a class that
//! preempts.
//!
//! # Fix
//! Leave `preemptionPolicy` out, in a class of another name where the class exists: the field of a
//! PriorityClass cannot be changed.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: frontend}
//!  value: 5000
//! -preemptionPolicy: Never # <-
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: frontend, namespace: web}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: frontend}}
//!    template:
//!      metadata: {labels: {app: frontend}}
//!      spec:
//!        priorityClassName: frontend
//!        containers:
//!          - name: main
//!            image: example.com/frontend:2.3.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: headroom, namespace: web}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: headroom}}
//!    template:
//!      metadata: {labels: {app: headroom}}
//!      spec:
//!        priorityClassName: headroom
//!        terminationGracePeriodSeconds: 0
//!        containers:
//!          - name: pause
//!            image: registry.k8s.io/pause:3.10
//!            resources: {requests: {cpu: "2", memory: 4Gi}}
//!  ---
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: headroom}
//!  value: -5
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#non-preempting-priority-class>
//! - <https://kubernetes.io/docs/tasks/administer-cluster/node-overprovisioning/>

use super::priority::priority;
use crate::rules::prelude::*;
use crate::workload::diagnostic::only_waits;
use crate::workload::gpu::requested_extended_resources;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "headroom-never-taken",
    kinds: &[Kind::PRIORITY_CLASS],
    reads: kinds![REPLICATED_KINDS, [Kind::PRIORITY_CLASS]],
    docs: docs(include_str!("headroom_never_taken.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let policy = object.get("preemptionPolicy");
    if policy.text() != Some("Never") || object.may_lack_fields() {
        return None;
    }
    let (own, cluster) = (object.get("value").int()?, ctx.cluster());
    let all = REPLICATED_KINDS.iter().flat_map(|kind| cluster.of(*kind));
    let all: Vec<&Object> = all.filter(|one| !one.may_lack_fields() && ctx.pairs_with(one)).collect();
    let headroom: Vec<(&Object, Template<'_>)> = all
        .iter()
        .copied()
        .filter(|one| one.is(Kind::DEPLOYMENT) && only_waits(one) && replicas(one) != Some(0))
        .filter_map(|one| Some((one, templates(one).into_iter().next()?)))
        .filter(|(_, template)| priority(template, ctx).is_some_and(|theirs| theirs < own.min(0)))
        .filter(|(_, room)| !is_taken(room, object, &all, ctx))
        .collect();
    if headroom.is_empty() {
        return None;
    }
    let is_default = object.get("globalDefault").bool() == Some(true);
    let mut others = all.iter().copied().filter(|one| !only_waits(one));
    let (workload, placeholder) = others.find_map(|workload| {
        let template = templates(workload).into_iter().next()?;
        let class = template.spec.get("priorityClassName");
        if class.text() != Some(object.name()) && !(is_default && class.is_absent()) {
            return None;
        }
        let (placeholder, _) = headroom.iter().find(|(_, room)| runs_beside(&template, room))?;
        Some((workload, *placeholder))
    })?;
    let message = format!(
        "pods of `{}` never preempt the placeholder pods of `{}`: their class has `preemptionPolicy: Never`",
        workload.display_name(),
        placeholder.display_name()
    );
    ctx.report(&policy, message)
        .help("leave `preemptionPolicy` out, in a class of another name where this one exists")
        .related(placeholder, &placeholder.path(&["metadata", "name"]), "its pods keep room free")
        .related(workload, &workload.path(&["metadata", "name"]), "its pods wait for a node");
    None
}

/// Whether pods of another class, which preempts, may take the room of placeholders.
fn is_taken(room: &Template<'_>, own: &Object, all: &[&Object], ctx: &Context<'_>) -> bool {
    let preempts = |name: &str| {
        name != own.name()
            && ctx
                .cluster()
                .of(Kind::PRIORITY_CLASS)
                .any(|class| class.name() == name && class.get("preemptionPolicy").text() != Some("Never"))
    };
    let takes = |template: &Template<'_>| {
        template.spec.get("priorityClassName").text().is_some_and(preempts)
            && priority(template, ctx) > priority(room, ctx)
            && runs_beside(template, room)
    };
    all.iter().any(|one| !only_waits(one) && templates(one).iter().any(takes))
}

/// Whether pods may use the nodes that placeholders are on: they need no other labels or devices of a node, and tolerate as
/// much. What placeholders require by affinity may keep their nodes apart.
fn runs_beside(template: &Template<'_>, room: &Template<'_>) -> bool {
    let is_known = |template: &Template<'_>| {
        let spec = &template.spec;
        !spec.has_unknown_key()
            && ["nodeSelector", "tolerations", "affinity"].iter().all(|field| !spec.get(field).has_unknown())
            && spec.get("nodeName").is_absent()
    };
    let selected = room.spec.get("nodeSelector");
    let tolerated: Vec<Value> = template.spec.get("tolerations").items().map(|one| one.to_json()).collect();
    let devices = requested_extended_resources(room);
    is_known(template)
        && is_known(room)
        && room.required_terms().items().next().is_none()
        && requested_extended_resources(template).iter().all(|name| devices.contains(name))
        && template.required_terms().items().next().is_none()
        && template
            .spec
            .get("nodeSelector")
            .entries()
            .into_iter()
            .all(|(key, value)| value.text().is_some() && selected.get(key).text() == value.text())
        && room.spec.get("tolerations").items().all(|one| tolerated.contains(&one.to_json()))
}
