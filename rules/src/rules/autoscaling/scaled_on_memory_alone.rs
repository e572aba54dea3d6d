//! An autoscaler knows memory alone, which a runtime does not give back.
//!
//! # Why
//! A JVM, Node.js and Python keep the memory that they have taken for a peak, or give it back late and in part.
//! An HPA that looks at memory alone adds pods when requests come, and then sees pods that are as full without
//! them: it hardly ever removes one. New pods do not relieve the old ones either, as load does when it is
//! spread. It is reported where an image, a command or a variable shows the runtime.
//!
//! # Fix
//! Scale on CPU or on requests, and leave memory to the limit of the pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: parks, namespace: shop}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: parks}
//!    minReplicas: 3
//!    maxReplicas: 12
//!    metrics:
//!      - type: Resource
//! -      resource: {name: memory, target: {type: Utilization, averageUtilization: 70}} # <-
//! +      resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: parks, namespace: shop}
//!  spec:
//!    selector: {matchLabels: {app: parks}}
//!    template:
//!      metadata: {labels: {app: parks}}
//!      spec:
//!        containers:
//!          - name: parks
//!            image: "example.com/parks:18.2.0"
//!            command: [node, server.js]
//!            resources: {requests: {cpu: 250m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>
//! - <https://github.com/kubernetes/kubernetes/issues/78761>

use super::scale_target::target;
use crate::rules::prelude::*;
use crate::workload::java::{runs_java, touched_heap};

pub(crate) static RULE: Rule = Rule {
    id: "scaled-on-memory-alone",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: SCALABLE_KINDS,
    docs: docs(include_str!("scaled_on_memory_alone.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

/// Programs of runtimes that keep their memory, as words of a command and of the names of images.
const RUNTIMES: [(&str, &str); 12] = [
    ("node", "Node.js"),
    ("nodejs", "Node.js"),
    ("npm", "Node.js"),
    ("yarn", "Node.js"),
    ("next", "Node.js"),
    ("python", "Python"),
    ("python3", "Python"),
    ("gunicorn", "Python"),
    ("uvicorn", "Python"),
    ("celery", "Python"),
    ("django", "Python"),
    ("flask", "Python"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = only_memory(object)?;
    if object.may_lack_fields() {
        return None;
    }
    let workload = target(object, ctx)?;
    let templates = templates(workload);
    let [template] = templates.as_slice() else { return None };
    let containers: Vec<Node<'_>> = template.containers().collect();
    // The memory of a pod with several containers may be that of another one.
    let [container] = containers.as_slice() else { return None };
    // A heap that is touched at the start is reported by memory-target-below-heap.
    if touched_heap(container).is_some() {
        return None;
    }
    let runtime = runtime_of(container)?;
    ctx.report(
        &node,
        format!("memory alone decides, and {runtime} hardly gives any back: pods stay after a peak"),
    )
    .help("scale on CPU or on requests")
    .related(workload, &container.get("name"), "the pods that it scales");
    None
}

/// The name of memory in an autoscaler that adds and removes pods by nothing else.
fn only_memory<'a>(object: &'a Object) -> Option<Node<'a>> {
    let spec = object.get("spec");
    let range = if object.is(Kind::HPA) {
        (spec.get("minReplicas").int_or(1)?, spec.get("maxReplicas").int()?)
    } else {
        (min_replicas(object)?, max_replicas(object)?)
    };
    if range.0 >= range.1 {
        return None;
    }
    let mut found = None;
    if object.is(Kind::HPA) {
        let metrics = spec.get("metrics");
        if !metrics.is_sequence() {
            return None;
        }
        for metric in metrics.items() {
            let field = match metric.get("type").text()? {
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                _ => return None,
            };
            let name = metric.path(&[field, "name"]);
            found.get_or_insert_with(|| name.clone());
            name.text().filter(|name| *name == "memory")?;
        }
    } else {
        for trigger in triggers(object) {
            trigger.kind().filter(|kind| *kind == "memory")?;
            found.get_or_insert_with(|| trigger.node.get("type"));
        }
    }
    found
}

/// The runtime of a container, as far as its image, its command and its variables show.
fn runtime_of(container: &Node<'_>) -> Option<&'static str> {
    if runs_java(container) {
        return Some("a JVM");
    }
    let variables = [("NODE_OPTIONS", "Node.js"), ("NODE_ENV", "Node.js"), ("PYTHONUNBUFFERED", "Python")];
    let is_set = |name: &str| container.get("env").items().any(|one| one.get("name").text() == Some(name));
    let of_variable = variables.iter().find(|(name, _)| is_set(name)).map(|(_, runtime)| *runtime);
    let of_words = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| Some(RUNTIMES.iter().find(|(name, _)| *name == word)?.1))
    };
    let words = words(container);
    let of_command = words.first().and_then(|word| of_words(word.text.rsplit('/').next()?));
    // An image of a node of something, or of the next version, has the name of no runtime.
    let of_image = |image: &str| match image {
        "node" => Some("Node.js"),
        _ => of_words(&image.replace("node-", "").replace("-node", "").replace("next", "")),
    };
    of_variable.or(of_command).or_else(|| of_image(&image_of(container)?.last().to_ascii_lowercase()))
}
