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
pub(crate) const QUEUE_KINDS: [Kind; 4] =
    [Kind::LOCAL_QUEUE, Kind::CLUSTER_QUEUE, Kind::RESOURCE_FLAVOR, Kind::ADMISSION_CHECK];
/// The controller of MultiKueue, which starts the pods of a workload in another cluster.
const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";

/// What a queue adds to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    pub(crate) node_selector: Vec<(String, String)>,
    pub(crate) tolerations: Vec<Toleration>,
}

impl Additions {
    fn with(&self, more: &Additions) -> Additions {
        Additions {
            node_selector: [self.node_selector.as_slice(), &more.node_selector].concat(),
            tolerations: [self.tolerations.as_slice(), &more.tolerations].concat(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    /// The queue or a flavor is not in the cluster, or an admission check may add more.
    Unknown,
    /// The additions for each choice of a flavor in each group of resources, at least one.
    OneOf(Vec<Additions>),
}

/// Maximum number of choices of flavors that are looked at.
const MAX_CHOICES: usize = 16;

/// The name of the LocalQueue of a workload: in the labels of the object that Kueue suspends. For a CronJob these are
/// those of its Jobs.
pub(crate) fn queue_name(object: &Object) -> Node<'_> {
    let metadata = if object.is(Kind::CRON_JOB) {
        object.path(&["spec", "jobTemplate", "metadata"])
    } else {
        object.get("metadata")
    };
    metadata.get("labels").get(QUEUE_LABEL)
}

/// The names of the AdmissionChecks of a ClusterQueue, for all flavors or for some.
pub(crate) fn admission_checks<'a>(queue: &'a Object) -> impl Iterator<Item = Node<'a>> {
    let spec = queue.get("spec");
    let of_strategy: Vec<Node<'a>> =
        spec.path(&["admissionChecksStrategy", "admissionChecks"]).items().collect();
    let all: Vec<Node<'a>> = spec.get("admissionChecks").items().collect();
    all.into_iter().chain(of_strategy.into_iter().map(|check| check.get("name")))
}

/// Whether MultiKueue starts the pods of a workload in another cluster, where other quotas and nodes count. Also if an
/// AdmissionCheck of its queue is not in the input.
pub(crate) fn may_run_elsewhere(object: &Object, cluster: &Cluster) -> bool {
    if object.path(&["spec", "managedBy"]).text() == Some(MULTI_KUEUE) {
        return true;
    }
    let Some(name) = queue_name(object).text().filter(|name| !name.is_empty()) else { return false };
    let find = |kind: Kind, namespace: &str, name: &str| match cluster.find(kind, namespace, name) {
        Lookup::Found(found) if cluster.pairs(object, found) => Some(found),
        _ => None,
    };
    let local = find(Kind::LOCAL_QUEUE, object.namespace_or_default(), name);
    let queue = local.and_then(|local| {
        find(Kind::CLUSTER_QUEUE, "default", local.path(&["spec", "clusterQueue"]).text()?)
    });
    let is_elsewhere = |check: Node<'_>| {
        let check = check.text().and_then(|name| find(Kind::ADMISSION_CHECK, "default", name));
        check.is_none_or(|check| check.path(&["spec", "controllerName"]).text() == Some(MULTI_KUEUE))
    };
    queue.is_some_and(|queue| admission_checks(queue).any(is_elsewhere))
}

/// The queue of a workload, or of its pods.
fn queue_of<'a>(template: &Template<'a>) -> Node<'a> {
    let (object, _) = template.place;
    let own = queue_name(object);
    if own.is_set() { own } else { template.metadata.get("labels").get(QUEUE_LABEL) }
}

pub(crate) fn is_queued(template: &Template<'_>) -> bool {
    let name = queue_of(template);
    name.is_set() && name.text() != Some("")
}

/// What the queue of a template's pods adds to them.
pub(crate) fn queued(template: &Template<'_>, cluster: &Cluster) -> Queued {
    if !is_queued(template) {
        return Queued::No;
    }
    additions(template, cluster).unwrap_or(Queued::Unknown)
}

/// The flavors of each group of resources that the pods of a template request. `None` if one is not in the cluster, or something else
/// decides.
fn flavors<'c>(template: &Template<'_>, cluster: &'c Cluster) -> Option<Vec<Vec<&'c Object>>> {
    let (object, _) = template.place;
    let find = |kind: Kind, namespace: &str, name: &str| match cluster.find(kind, namespace, name) {
        Lookup::Found(found) if cluster.pairs(object, found) && !found.is_partial() => Some(found),
        _ => None,
    };
    let local = find(Kind::LOCAL_QUEUE, object.namespace_or_default(), queue_of(template).text()?)?;
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
    let named = |group: Node<'_>| -> Option<Vec<&'c Object>> {
        let flavors = group.get("flavors").items();
        flavors.map(|flavor| find(Kind::RESOURCE_FLAVOR, "default", flavor.get("name").text()?)).collect()
    };
    spec.get("resourceGroups").items().filter(covers).map(named).collect()
}

fn additions(template: &Template<'_>, cluster: &Cluster) -> Option<Queued> {
    let mut choices = vec![Additions::default()];
    for group in flavors(template, cluster)?.iter().filter(|group| !group.is_empty()) {
        if choices.len() * group.len() > MAX_CHOICES {
            return None;
        }
        let added: Vec<Additions> = group.iter().map(|flavor| of_flavor(flavor)).collect::<Option<_>>()?;
        choices = choices.iter().flat_map(|known| added.iter().map(|more| known.with(more))).collect();
    }
    Some(Queued::OneOf(choices))
}

fn of_flavor(flavor: &Object) -> Option<Additions> {
    let spec = flavor.get("spec");
    let labels = spec.get("nodeLabels").entries().into_iter();
    Some(Additions {
        node_selector: labels
            .map(|(key, value)| Some((key.to_owned(), value.text()?.to_owned())))
            .collect::<Option<_>>()?,
        tolerations: spec.get("tolerations").items().map(|node| toleration(&node)).collect(),
    })
}

/// The first flavor that adds a label to the node selector of a template's pods, with the label.
pub(crate) fn flavor_with_label<'c>(
    template: &Template<'_>,
    cluster: &'c Cluster,
    is_label: impl Fn(&str) -> bool,
) -> Option<(&'c Object, Node<'c>)> {
    if !is_queued(template) {
        return None;
    }
    flavors(template, cluster)?.into_iter().flatten().find_map(|flavor| {
        let labels = flavor.path(&["spec", "nodeLabels"]).entries();
        labels.into_iter().find(|(key, _)| is_label(key)).map(|(_, node)| (flavor, node))
    })
}

/// The resources that the containers of a template name, and those that count for every pod.
pub(crate) fn requested(template: &Template<'_>) -> Vec<String> {
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
