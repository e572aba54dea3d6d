//! A job in a queue of Kueue requests nothing that the queue counts.
//!
//! # Why
//! Kueue counts requests. A job without any is admitted at once, whatever runs already, and gets no flavor:
//! the node labels and tolerations of the flavor are not added to its pods, which land on any node or, on a
//! cluster with tainted nodes alone, on none.
//!
//! # Fix
//! Request the resources that the ClusterQueue covers, or let it cover `pods`. A LimitRange in the
//! namespace can give containers requests as well.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: research}
//!  spec:
//!    namespaceSelector: {}
//!    resourceGroups:
//!      - coveredResources: [cpu, memory]
//!        flavors:
//!          - name: spot
//!            resources: [{name: cpu, nominalQuota: 400}, {name: memory, nominalQuota: 3Ti}]
//!  ---
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: LocalQueue
//!  metadata: {name: research, namespace: ml}
//!  spec: {clusterQueue: research}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata:
//!    name: evaluate
//!    namespace: ml
//! -  labels: {kueue.x-k8s.io/queue-name: research} # <-
//! +  labels: {kueue.x-k8s.io/queue-name: research}
//!  spec:
//!    suspend: true
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/evaluate:1.4.0
//! +          resources: {requests: {cpu: 4, memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources>
//! - <https://github.com/kubernetes-sigs/kueue/issues/891>

use super::kueue::queue_name;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "queued-without-requests",
    kinds: &[Kind::JOB, Kind::JOB_SET, Kind::CRON_JOB],
    reads: &[Kind::LOCAL_QUEUE, Kind::CLUSTER_QUEUE, Kind::LIMIT_RANGE],
    docs: docs(include_str!("queued_without_requests.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = queue_name(object);
    let namespace = object.namespace_or_default();
    if object.may_lack_fields() || object.is_owned() {
        return None;
    }
    let queue = ctx.partner(Kind::LOCAL_QUEUE, namespace, node.text()?)?;
    let queue = ctx.partner(Kind::CLUSTER_QUEUE, "default", queue.path(&["spec", "clusterQueue"]).text()?)?;
    let groups = queue.path(&["spec", "resourceGroups"]);
    let counts_pods = groups.items().any(|group| {
        group.get("coveredResources").items().any(|one| one.text().is_none_or(|name| name == "pods"))
    });
    let mut ranges = ctx.cluster().of(Kind::LIMIT_RANGE);
    let has_defaults =
        ranges.any(|range| range.is_namespace_unknown() || range.namespace_or_default() == namespace);
    if groups.items().next().is_none() || groups.has_unknown() || counts_pods || has_defaults {
        return None;
    }
    let templates = templates(object);
    let asks = |resources: Node<'_>| {
        resources.is_unknown()
            || ["requests", "limits", "claims"]
                .iter()
                .any(|field| resources.get(field).is_set() || resources.get(field).is_unknown())
    };
    let is_known = |template: &Template<'_>| {
        let spec = &template.spec;
        let claims = spec.get("resourceClaims").is_set() || spec.get("overhead").is_set();
        !spec.has_unknown_key()
            && !claims
            && spec.get("runtimeClassName").is_absent()
            && spec.get("containers").is_set()
            && !asks(spec.get("resources"))
            && !template.all_containers().any(|one| one.has_unknown_key() || asks(one.get("resources")))
    };
    if templates.is_empty() || !templates.iter().all(is_known) {
        return None;
    }
    let message = format!(
        "`{}` requests nothing that ClusterQueue `{}` counts: it is admitted at once, without a flavor",
        object.display_name(),
        queue.display_name()
    );
    ctx.report(&node, message).help("add requests to its containers, or let the queue cover `pods`").related(
        queue,
        &groups,
        "the queue counts these resources",
    );
    None
}
