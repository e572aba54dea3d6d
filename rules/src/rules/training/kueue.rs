//! Queues of Kueue, how workloads name them, and what becomes of those that name none.

use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::selector::matches;

pub(super) use crate::cluster::queues::{QUEUE_LABEL, queue_name};

/// Says which of the objects to name at `node`, with a fix if `name` is close to one of them.
pub(super) fn propose(finding: &mut Finding, node: &Node<'_>, name: &str, objects: &[&Object]) {
    if let Some(meant) = nearest(name, objects.iter().map(|queue| queue.name())) {
        finding.help(format!("write `{meant}`"));
        finding.fix(Fix::unsafe_(format!("write `{meant}`")).set(node, json!(meant)));
    } else if let [only] = objects {
        finding.help(format!("create it, or write `{}`", only.display_name()));
    } else {
        finding.help(format!("create it, or name one of the {} that there are", objects.len()));
    }
}

/// The kinds that have the configuration of Kueue, beside Namespaces, which it selects.
pub(super) const CONFIGURATION: &[Kind] = kinds![[Kind::CONFIG_MAP, Kind::NAMESPACE], CHART_KINDS];
/// Its ConfigMap in the manifests and in the chart, and the key of the text.
const CONFIG_MAP: (&str, &str) = ("kueue-manager-config", "controller_manager_config.yaml");

/// What becomes of a job that names no queue.
pub(super) enum WithoutQueue<'c> {
    /// Kueue leaves it alone, as it does by default.
    Starts,
    /// This configuration has Kueue suspend it.
    Suspended(&'c Object),
    Unknown,
}

/// What the configuration of Kueue in the input does with a job that names no queue. A rule that asks reads [`CONFIGURATION`].
pub(super) fn without_queue<'c>(job: &Object, ctx: &Context<'c>) -> WithoutQueue<'c> {
    let cluster = ctx.cluster();
    let (name, key) = CONFIG_MAP;
    let maps = cluster.written_as(Kind::CONFIG_MAP, name).filter(|map| cluster.likely_pairs(job, map));
    for map in maps {
        match suspends(&map.get("data").get(key), job, ctx) {
            Some(false) => {}
            Some(true) => return WithoutQueue::Suspended(map),
            None => return WithoutQueue::Unknown,
        }
    }
    for installer in chart_installers(cluster).filter(|one| cluster.likely_pairs(job, one)) {
        let mut found = Some(false);
        for_each_values(installer, "kueue", |values| {
            let text = values.root.path(&["managerConfig", "controllerManagerConfigYaml"]);
            found = suspends(&text, job, ctx);
        });
        match found {
            Some(false) => {}
            Some(true) => return WithoutQueue::Suspended(installer),
            None => return WithoutQueue::Unknown,
        }
    }
    WithoutQueue::Starts
}

/// Whether a configuration has Kueue suspend a job without a queue (`config.kueue.x-k8s.io`, v1beta1 and v1beta2). `None` if it depends on
/// what the input does not have.
fn suspends(text: &Node<'_>, job: &Object, ctx: &Context<'_>) -> Option<bool> {
    if !text.is_set() {
        return Some(false);
    }
    with_embedded(text.text()?, |root| {
        let manages = root.get("manageJobsWithoutQueueName");
        if manages.is_unknown() {
            return None;
        }
        if manages.bool() != Some(true) || !is_integrated(root, job) {
            return Some(false);
        }
        let selector = root.get("managedJobsNamespaceSelector");
        if !selector.is_set() {
            return Some(!matches!(job.namespace_or_default(), "kube-system" | "kueue-system"));
        }
        let labels = labels_of_namespace(&selector, job, ctx)?;
        matches(&selector, &labels)
    })
}

/// Whether a configuration has Kueue watch the kind of a job; without a list it watches Jobs.
fn is_integrated(configuration: &Node<'_>, job: &Object) -> bool {
    let own = format!("{}/{}", job.group(), job.kind().to_ascii_lowercase());
    let frameworks = configuration.path(&["integrations", "frameworks"]);
    if frameworks.is_set() {
        frameworks.items().any(|one| one.text() == Some(own.as_str()))
    } else {
        own == "batch/job"
    }
}

/// The labels of the namespace of a job that a selector asks for. `None` if they are not known.
fn labels_of_namespace<'a, 'c: 'a>(
    selector: &Node<'_>,
    job: &'a Object,
    ctx: &Context<'c>,
) -> Option<Vec<(&'a str, Node<'a>)>> {
    const NAME: &str = "kubernetes.io/metadata.name";
    let name = (NAME, job.path(&["metadata", "namespace"]));
    let Some(namespace) = ctx.cluster().unique(Kind::NAMESPACE, "default", job.namespace()?) else {
        let labels = selector.get("matchLabels").entries();
        let expressions = selector.get("matchExpressions");
        let is_by_name = labels.iter().all(|(key, _)| *key == NAME)
            && expressions.items().all(|one| one.get("key").text() == Some(NAME));
        return is_by_name.then(|| vec![name]);
    };
    let labels = namespace.path(&["metadata", "labels"]);
    if namespace.may_lack_fields() || labels.is_unknown() || labels.has_unknown_key() {
        return None;
    }
    Some(labels.entries().into_iter().chain([name]).collect())
}
