//! What Kueue adds to the pods that it admits: the node labels and the tolerations of the flavors of their queue.
//!
//! Source: kueue 0.19 `pkg/podset/podset.go` (`FromAssignment`) and `pkg/scheduler/flavorassigner`: one flavor for each
//! group of resources, of which the pods request one.

use crate::cluster::Cluster;
use crate::cluster::objects::Lookup;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::Toleration;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// The label of an object that names its LocalQueue.
pub(crate) const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// The kinds that are read for queued pods.
pub(crate) const QUEUE_KINDS: [Kind; 3] = [Kind::LOCAL_QUEUE, Kind::CLUSTER_QUEUE, Kind::RESOURCE_FLAVOR];

/// What a queue adds to pods.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    pub(crate) node_selector: Vec<(String, String)>,
    pub(crate) tolerations: Vec<Toleration>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    /// The queue or a flavor is not in the cluster, or an admission check may add more.
    Unknown,
    /// What the only flavor of each group of resources adds.
    Certain(Additions),
    /// What several flavors add in all, of which Kueue chooses one.
    OneOf(Additions),
}

/// The queue of a workload, or of its pods.
fn queue_name<'a>(template: &Template<'a>) -> Node<'a> {
    let (object, _) = template.place;
    let own = object.path(&["metadata", "labels", QUEUE_LABEL]);
    if own.is_set() { own } else { template.metadata.get("labels").get(QUEUE_LABEL) }
}

pub(crate) fn is_queued(template: &Template<'_>) -> bool {
    let name = queue_name(template);
    name.is_set() && name.text() != Some("")
}

/// What the queue of a template's pods adds to them.
pub(crate) fn queued(template: &Template<'_>, cluster: &Cluster) -> Queued {
    if !is_queued(template) {
        return Queued::No;
    }
    additions(template, cluster).unwrap_or(Queued::Unknown)
}

fn additions(template: &Template<'_>, cluster: &Cluster) -> Option<Queued> {
    let (object, _) = template.place;
    let find = |kind: Kind, namespace: &str, name: &str| match cluster.find(kind, namespace, name) {
        Lookup::Found(found) if cluster.pairs(object, found) && !found.is_partial() => Some(found),
        _ => None,
    };
    let local = find(Kind::LOCAL_QUEUE, object.namespace_or_default(), queue_name(template).text()?)?;
    let queue = find(Kind::CLUSTER_QUEUE, "default", local.path(&["spec", "clusterQueue"]).text()?)?;
    let spec = queue.get("spec");
    // A ProvisioningRequest, or another cluster, decides where the pods run.
    if spec.get("admissionChecks").is_set()
        || spec.get("admissionChecksStrategy").is_set()
        || spec.has_unknown()
    {
        return None;
    }
    let requested = requested(template);
    let covers = |group: &Node<'_>| {
        let mut covered = group.get("coveredResources").items();
        covered.any(|resource| resource.text().is_some_and(|name| requested.iter().any(|one| one == name)))
    };
    let (mut all, mut is_certain) = (Additions::default(), true);
    for group in spec.get("resourceGroups").items().filter(covers) {
        let flavors: Vec<Node<'_>> = group.get("flavors").items().collect();
        is_certain &= flavors.len() == 1;
        for flavor in flavors {
            let flavor = find(Kind::RESOURCE_FLAVOR, "default", flavor.get("name").text()?)?;
            let spec = flavor.get("spec");
            for (key, value) in spec.get("nodeLabels").entries() {
                all.node_selector.push((key.to_owned(), value.text()?.to_owned()));
            }
            all.tolerations.extend(spec.get("tolerations").items().map(|node| toleration(&node)));
        }
    }
    Some(if is_certain { Queued::Certain(all) } else { Queued::OneOf(all) })
}

/// The resources that the containers of a template name, and those that count for every pod.
fn requested(template: &Template<'_>) -> Vec<String> {
    let mut names = vec!["pods".to_owned()];
    for container in template.all_containers() {
        for side in ["requests", "limits"] {
            let amounts = container.path(&["resources", side]).entries();
            names.extend(amounts.iter().map(|(name, _)| (*name).to_owned()));
        }
    }
    names
}

/// Whether a flavor of the cluster has a toleration of the taint, or no flavor is known.
pub(crate) fn may_tolerate(cluster: &Cluster, tolerates: impl Fn(&Toleration) -> bool) -> bool {
    let mut flavors = cluster.of(Kind::RESOURCE_FLAVOR).peekable();
    flavors.peek().is_none()
        || flavors.any(|flavor: &Object| {
            let list = flavor.path(&["spec", "tolerations"]);
            list.has_unknown() || list.items().any(|node| tolerates(&toleration(&node)))
        })
}
