//! An autoscaler waits for less memory than each JVM takes when it starts.
//!
//! # Why
//! With `-XX:+AlwaysPreTouch` a JVM touches all of its initial heap at its start, and hardly ever gives it
//! back. A memory target below that is exceeded by each pod without any load, and by the new pods too: the
//! HPA adds replicas up to its maximum, and never removes one.
//!
//! The initial heap is that of `-Xms`, or of `InitialRAMPercentage` and the memory limit. The options are
//! read in `JAVA_TOOL_OPTIONS`, `JDK_JAVA_OPTIONS`, `JAVA_OPTS` and the like, and on the command line. A JVM
//! without `AlwaysPreTouch`, which takes its heap little by little, is left alone.
//!
//! # Fix
//! Scale on CPU or on requests. Memory says little about the load of a JVM.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: catalog, namespace: shop}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: catalog}
//!    minReplicas: 2
//!    maxReplicas: 12
//!    metrics:
//!      - type: Resource
//!        resource:
//! -        name: memory
//! -        target: {type: Utilization, averageUtilization: 70} # <-
//! +        name: cpu
//! +        target: {type: Utilization, averageUtilization: 70}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: catalog, namespace: shop}
//!  spec:
//!    selector: {matchLabels: {app: catalog}}
//!    template:
//!      metadata: {labels: {app: catalog}}
//!      spec:
//!        containers:
//!          - name: catalog
//!            image: "example.com/catalog:12.0.0"
//!            env: [{name: JAVA_TOOL_OPTIONS, value: -Xms3400m -Xmx3400m -XX:+AlwaysPreTouch}]
//!            resources: {requests: {cpu: 1, memory: 4Gi}, limits: {memory: 4Gi}}
//! ```
//!
//! # References
//! - <https://docs.oracle.com/en/java/javase/21/docs/specs/man/java.html>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>

use super::utilization_unreachable::{READS, counted, may_be_injected, with_known_resources};
use crate::facts::quantity::amount;
use crate::keda::resource_metrics::utilizations;
use crate::rules::prelude::*;
use crate::workload::java::{Heap, touched_heap};

pub(crate) static RULE: Rule = Rule {
    id: "memory-target-below-heap",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: READS,
    docs: docs(include_str!("memory_target_below_heap.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// A target for the memory of pods.
struct Target<'a> {
    node: Node<'a>,
    /// The container that is measured; `None` for the whole pod.
    container: Option<&'a str>,
    most: Most,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    /// A share of the requests.
    Percent(i128),
    Bytes(i128),
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let targets = targets(object);
    if targets.is_empty() {
        return None;
    }
    let replicas = most_replicas(object)?;
    let (workload, template) = with_known_resources(object, ctx)?;
    let is_open = may_be_injected(&template, object.namespace_or_default(), ctx);
    for target in targets.iter().filter(|target| target.container.is_some() || !is_open) {
        report(target, replicas, workload, &template, ctx);
    }
    None
}

fn targets(object: &Object) -> Vec<Target<'_>> {
    let shares = utilizations(object).into_iter().filter(|metric| metric.resource == "memory");
    let shares = shares.filter_map(|metric| {
        let most = Most::Percent(metric.percent.filter(|percent| *percent > 0)?.into());
        Some(Target { node: metric.node, container: metric.container, most })
    });
    let amounts = if object.is(Kind::HPA) {
        let metrics = object.path(&["spec", "metrics"]).items();
        let of_memory = metrics.map(|metric| metric.get("resource"));
        let of_memory = of_memory.filter(|resource| resource.get("name").text() == Some("memory"));
        of_memory.map(|resource| resource.path(&["target", "averageValue"])).collect::<Vec<_>>()
    } else {
        let is_amount = |trigger: &Trigger<'_>| {
            trigger.kind() == Some("memory")
                && trigger.node.get("metricType").text() == Some("AverageValue")
                && !trigger.metadata().get("containerName").is_set()
        };
        triggers(object).filter(is_amount).map(|trigger| trigger.metadata().get("value")).collect()
    };
    let amounts = amounts.into_iter().filter_map(|node| {
        let most = Most::Bytes(Quantity::at(&node)?.value());
        Some(Target { node, container: None, most })
    });
    shares.chain(amounts).collect()
}

/// The most replicas of an autoscaler. `None` if it does not add any, or not at 10 % above a target.
fn most_replicas(object: &Object) -> Option<i64> {
    let spec = object.get("spec");
    let (most, least) = if object.is(Kind::HPA) {
        (spec.get("maxReplicas").int()?, spec.get("minReplicas").int_or(1)?)
    } else {
        (max_replicas(object)?, min_replicas(object)?)
    };
    let up = super::hpa_behavior(object).get("scaleUp");
    let is_usual = !up.is_unknown() && !up.get("tolerance").is_set();
    (most > least && is_usual && up.get("selectPolicy").text() != Some("Disabled")).then_some(most)
}

fn report(
    target: &Target<'_>,
    replicas: i64,
    workload: &Object,
    template: &Template<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    const NANO: i128 = 1_000_000_000;
    let containers = counted(template, target.container);
    let heaps: Vec<Heap<'_>> = containers.iter().filter_map(touched_heap).collect();
    let taken: i128 = heaps.iter().map(|heap| heap.bytes).sum();
    let place = heaps.first()?.node.clone();
    let message = match target.most {
        Most::Percent(percent) => {
            // A request that is not written is the limit.
            let requests = containers.iter().map(|container| {
                let resources = container.get("resources");
                let of = |list: &str| Quantity::at(&resources.path(&[list, "memory"]));
                Some(of("requests").or_else(|| of("limits"))?.nano())
            });
            let requested = requests.sum::<Option<i128>>().filter(|sum| *sum > 0)?;
            // The HPA acts at 10 % above its target.
            if taken.checked_mul(1000 * NANO)? <= requested.checked_mul(percent * 11)? {
                return None;
            }
            let share = (taken * 100 * NANO + requested / 2) / requested;
            format!(
                "a JVM takes {share} % of the memory request at its start: above {percent} %, {replicas} replicas always run"
            )
        }
        Most::Bytes(most) if taken * 10 > most * 11 => {
            let size = |bytes: i128| amount("memory", bytes * 1000);
            format!(
                "a JVM takes {} at its start: above {}, {replicas} replicas always run",
                size(taken),
                size(most)
            )
        }
        Most::Bytes(_) => return None,
    };
    ctx.report(&target.node, message)
        .help("scale on CPU or on requests: the heap is as large without any load")
        .related(workload, &place, "the initial heap, which `AlwaysPreTouch` fills");
    None
}
