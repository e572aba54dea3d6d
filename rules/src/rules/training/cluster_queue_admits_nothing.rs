//! A ClusterQueue of Kueue admits none of its workloads.
//!
//! # Why
//! A ClusterQueue without `namespaceSelector` selects no namespace: null is not the empty selector, and
//! every workload stays suspended. Neither is a workload admitted that requests a resource which no
//! `coveredResources` of the queue lists: a queue for `nvidia.com/gpu` alone admits no Job that requests CPU
//! and memory as well. Nothing fails: the Jobs wait with a condition that few people read.
//!
//! # Fix
//! Write `namespaceSelector: {}` for all namespaces, or a selector. List every resource that the pods
//! request, with a quota in each flavor, or leave resources out in the configuration of Kueue
//! (`resources.excludeResourcePrefixes`).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: research}
//! -spec: # <-
//! +spec:
//! +  namespaceSelector: {}
//!    resourceGroups:
//!      - coveredResources: [cpu, memory, nvidia.com/gpu]
//!        flavors:
//!          - name: h100
//!            resources:
//!              - {name: cpu, nominalQuota: 400}
//!              - {name: memory, nominalQuota: 3Ti}
//!              - {name: nvidia.com/gpu, nominalQuota: 16}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#namespace-selector>
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources>

use super::kueue::{CLUSTER_QUEUE, LOCAL_QUEUE, QUEUE_LABEL, queue_name};
use crate::rules::prelude::*;
use crate::workload::gpu::{INSTANCE_RESOURCES, is_extended};

const CONFIG_MAP: Kind = Kind::new("", "ConfigMap");

const READS: [Kind; WORKLOAD_KINDS.len() + 2] = with_workloads(&[LOCAL_QUEUE, CONFIG_MAP]);

pub(crate) static RULE: Rule = Rule {
    id: "cluster-queue-admits-nothing",
    kinds: &[CLUSTER_QUEUE],
    reads: &READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("cluster_queue_admits_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Maximum number of workloads of a namespace that are compared with a queue.
const MOST_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is_partial() || spec.has_unknown_key() {
        return None;
    }
    let selector = spec.get("namespaceSelector");
    if !selector.is_set() {
        let message =
            format!("ClusterQueue `{}` selects no namespace, and admits no workload", object.display_name());
        ctx.report(&selector, message)
            .help("write `namespaceSelector: {}` for all namespaces, or a selector")
            .fix(Fix::unsafe_("select all namespaces").set(&selector, json!({})));
    }
    uncovered(object, ctx)
}

/// Reports a resource that a workload of one of its LocalQueues requests and no resource group covers.
fn uncovered(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let groups = object.path(&["spec", "resourceGroups"]);
    if groups.has_unknown() || groups.items().next().is_none() || may_exclude(ctx) {
        return None;
    }
    let lists: Vec<Node<'_>> = groups.items().map(|group| group.get("coveredResources")).collect();
    let covered: Vec<&str> =
        lists.iter().flat_map(|list| list.items()).filter_map(|one| one.text()).collect();
    let name = object.name();
    let queues = ctx.cluster().of(LOCAL_QUEUE);
    let own = queues.filter(|queue| queue.path(&["spec", "clusterQueue"]).text() == Some(name));
    let own: Vec<&Object> = own.filter(|queue| ctx.pairs_with(queue)).collect();
    for queue in own {
        let workloads = ctx.cluster().views().workloads_in(queue.namespace_or_default()).take(MOST_COMPARED);
        let queued = workloads.map(|workload| &workload.object).find_map(|workload| {
            let is_queued = queue_name(workload).text() == Some(queue.name()) && ctx.pairs_with(workload);
            let (missing, node) = is_queued.then(|| first_missing(workload, &covered))??;
            Some((workload, missing, node))
        });
        let Some((workload, missing, node)) = queued else {
            continue;
        };
        let missing = missing.join("`, `");
        let message = format!(
            "no resource group of `{}` covers `{missing}`, which `{}` requests: it is never admitted",
            object.display_name(),
            workload.display_name()
        );
        ctx.report(&lists[0], message)
            .help(format!(
                "cover `{missing}` with a quota in each flavor, or exclude it in Kueue's configuration"
            ))
            .related(workload, &node, "this request")
            .related(workload, &queue_name(workload), format!("queued by `{QUEUE_LABEL}`"));
        return None;
    }
    None
}

/// Whether a configuration of Kueue in the input leaves resources out.
fn may_exclude(ctx: &Context<'_>) -> bool {
    let says = |(_, text): (&str, Node<'_>)| {
        text.raw_text()
            .is_some_and(|text| text.contains("excludeResourcePrefixes") || text.contains("transformations"))
    };
    let maps = ctx.cluster().of(CONFIG_MAP).filter(|map| map.name().contains("kueue"));
    maps.into_iter().any(|map| map.get("data").entries().into_iter().any(says))
}

/// The resources that a workload requests and that are not covered, with the first request of one.
fn first_missing<'a>(workload: &'a Object, covered: &[&str]) -> Option<(Vec<&'a str>, Node<'a>)> {
    let mut missing: Vec<&str> = Vec::new();
    let mut place = None;
    for template in templates(workload) {
        for container in template.containers() {
            for side in ["requests", "limits"] {
                let amounts = container.path(&["resources", side]);
                if amounts.has_unknown_key() {
                    return None;
                }
                for (name, amount) in amounts.entries() {
                    // Kueue's configuration may map the resources of other devices to those of the queue.
                    if is_extended(name) && !INSTANCE_RESOURCES.contains(&name) {
                        return None;
                    }
                    let is_none = Quantity::at(&amount).is_none_or(|quantity| quantity.is_zero());
                    if is_none || covered.contains(&name) || missing.contains(&name) {
                        continue;
                    }
                    missing.push(name);
                    place.get_or_insert(amount);
                }
            }
        }
    }
    Some((missing, place?))
}
