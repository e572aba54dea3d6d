//! What a pod requires of nodes through other objects: its volumes, and the pods that its affinity names.
//!
//! The volumes are read as `VolumeTopology` of Karpenter 1.15 does (`pkg/controllers/provisioning/scheduling/volumetopology.go`).

use crate::catalog::HOSTNAME;
use crate::cluster::Cluster;
use crate::cluster::objects::Lookup;
use crate::cluster::storage::{NO_PROVISIONER, is_default};
use crate::facts::suggest;
use crate::fit::Place;
use crate::karpenter::pod::topology;
use crate::karpenter::requirement::{Operator, Requirement, Requirements};
use crate::karpenter::scheduling::{Pod, RequirementSpec, Uncertainty};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::selector::matches;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

/// The kinds that are read for volumes.
pub(crate) const VOLUME_KINDS: [Kind; 3] =
    [Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS];

/// The alternatives that a volume leaves, each with requirements that must all be met. Empty: it requires nothing.
type Alternatives = Vec<Vec<RequirementSpec>>;

/// What is known of a volume.
enum Claimed {
    Requires(Alternatives),
    /// Its class binds claims at once: Karpenter ignores the pod until that is done. Then it has one of these alternatives, if any are
    /// known.
    ToBind(Alternatives),
    /// Karpenter ignores the pod.
    Fault(String),
    /// It may require anything.
    Unknown,
}

/// Looks an object up. It is only known not to exist where the input is everything there is: claims and classes are often applied apart.
fn look_up<'c>(cluster: &'c Cluster, kind: Kind, namespace: &str, name: &str) -> Lookup<'c> {
    match cluster.find(kind, namespace, name) {
        Lookup::Missing if !cluster.is_complete() => Lookup::Unknown,
        found => found,
    }
}

/// Adds what the volumes of a pod require, and whether the pods exist that its rules name.
pub(super) fn resolve(pod: &mut Pod, template: &Template<'_>, cluster: &Cluster) {
    if !pod.topology.is_empty() {
        pod.topology = topology(template, &|term| pods_may_exist(term, template, cluster));
    }
    let claims = claims(template, cluster);
    pod.uncertainties.retain(|uncertainty| *uncertainty != Uncertainty::Volumes);
    for claimed in claims {
        match claimed {
            Claimed::Requires(alternatives) => pod.volumes = merged(&pod.volumes, alternatives),
            Claimed::ToBind(alternatives) => {
                pod.volumes = merged(&pod.volumes, alternatives);
                pod.uncertainties.push(Uncertainty::ClaimToBind);
            }
            Claimed::Fault(text) => pod.volume_fault = Some(text),
            Claimed::Unknown => pod.uncertainties.push(Uncertainty::Volumes),
        }
    }
    pod.uncertainties.sort();
    pod.uncertainties.dedup();
}

/// Whether pods that a term of affinity selects may be beside the pod: outside of a complete cluster there may be any, except
/// those of a DaemonSet on a new node.
pub(super) fn pods_may_exist<'c>(term: &Node<'c>, template: &Template<'_>, cluster: &'c Cluster) -> bool {
    if joined_daemons(term, template, cluster).is_some() {
        return false;
    }
    !cluster.is_complete() || in_reach(term, template, cluster).next().is_some()
}

/// The DaemonSet that a term of affinity joins on one node, if it selects no other pods. Karpenter counts no pods on a node that it
/// plans, and its simulation does not place those of DaemonSets there (`nextDomainAffinity`): no new node satisfies the term.
fn joined_daemons<'c>(term: &Node<'c>, template: &Template<'_>, cluster: &'c Cluster) -> Option<&'c Object> {
    let named: Vec<&str> = term.get("namespaces").items().filter_map(|name| name.text()).collect();
    let namespace = match named.as_slice() {
        [] => template.place.0.namespace_or_default(),
        [one] => one,
        _ => return None,
    };
    if term.get("topologyKey").text() != Some(HOSTNAME) || term.get("namespaceSelector").is_set() {
        return None;
    }
    let selector = term.get("labelSelector");
    let views = cluster.views();
    let is_joined = |other: &&Object| other.is(Kind::DAEMON_SET) && cluster.pairs(template.place.0, other);
    let set = views.candidates(namespace, &selector).find(is_joined)?;
    let (found, unknown) = views.selected_by_labels(set, &selector);
    let is_alone = !unknown && found.iter().all(|workload| workload.object.is(Kind::DAEMON_SET));
    found.first().filter(|_| is_alone).map(|workload| &workload.object)
}

/// The workloads with pods that a term of affinity selects, or may select, in the namespaces that it names.
pub(super) fn in_reach<'c>(
    term: &Node<'c>,
    template: &Template<'_>,
    cluster: &'c Cluster,
) -> impl Iterator<Item = &'c Object> {
    let own = template.place.0.namespace_or_default().to_owned();
    let named: Vec<&str> = term.get("namespaces").items().filter_map(|name| name.text()).collect();
    let anywhere = term.get("namespaceSelector").is_set();
    selected(term, cluster).filter(move |object| {
        let namespace = object.namespace_or_default();
        anywhere || named.contains(&namespace) || named.is_empty() && namespace == own
    })
}

/// The workloads with pods that a term of affinity selects: or may select.
fn selected<'c>(term: &Node<'c>, cluster: &'c Cluster) -> impl Iterator<Item = &'c Object> {
    let selector = term.get("labelSelector");
    WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)).filter(move |object| {
        templates(object).iter().any(|other| matches(&selector, &other.labels()) != Some(false))
    })
}

/// Why a term of affinity selects no pods, and the correction if the text shows which pods it means.
pub(super) fn absent_pods<'c>(
    term: &Node<'c>,
    template: &Template<'_>,
    cluster: &'c Cluster,
) -> (String, Option<String>) {
    if let Some(set) = joined_daemons(term, template, cluster) {
        let text =
            format!("its affinity joins DaemonSet `{}`, which no planned node has", set.display_name());
        return (text, Some("remove the rule: a DaemonSet has a pod on each node that it fits".to_owned()));
    }
    let selector = term.get("labelSelector");
    let is_meant = |object: &&Object| {
        templates(object).iter().any(|other| matches(&selector, &other.labels()) == Some(true))
    };
    if let Some(other) = selected(term, cluster).find(is_meant) {
        let namespace = other.namespace_or_default();
        let text = format!("the pods that its affinity names are in namespace `{namespace}`, not its own");
        return (text, Some(format!("write `namespaces: [{namespace}]`")));
    }
    let labels = term.path(&["labelSelector", "matchLabels"]).entries();
    let [(key, value)] = labels.as_slice() else {
        return ("no pod has the labels that its required pod affinity names".to_owned(), None);
    };
    let Some(value) = value.text() else {
        return ("no pod has the label that its required pod affinity names".to_owned(), None);
    };
    let mut values: Vec<String> = Vec::new();
    for object in WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)) {
        for other in templates(object) {
            let own = other.labels().into_iter().find(|(name, _)| name == key);
            values.extend(own.and_then(|(_, node)| node.text().map(str::to_owned)));
        }
    }
    let meant = suggest::nearest(value, values.iter().map(String::as_str));
    let text = format!("no pod has `{key}: {value}`, which its pod affinity names");
    (text, meant.map(|meant| format!("name `{key}: {meant}`")))
}

fn claims(template: &Template<'_>, cluster: &Cluster) -> Vec<Claimed> {
    let (object, _) = template.place;
    let namespace = object.namespace_or_default();
    let mut found = Vec::new();
    for volume in template.spec.get("volumes").items() {
        let claim = volume.path(&["persistentVolumeClaim", "claimName"]);
        let template = volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]);
        if volume.get("persistentVolumeClaim").is_set() {
            found.push(claim.text().map_or(Claimed::Unknown, |name| named_claim(name, namespace, cluster)));
        } else if template.is_set() {
            found.push(new_claim(&template, cluster));
        }
    }
    let own = object.path(&["spec", "volumeClaimTemplates"]).items();
    found.extend(own.map(|claim| new_claim(&claim.get("spec"), cluster)));
    found
}

fn named_claim(name: &str, namespace: &str, cluster: &Cluster) -> Claimed {
    let claim = match look_up(cluster, Kind::PERSISTENT_VOLUME_CLAIM, namespace, name) {
        Lookup::Found(claim) => claim,
        Lookup::Missing => {
            return Claimed::Fault(format!("the PersistentVolumeClaim `{name}` does not exist"));
        }
        Lookup::Unknown => return Claimed::Unknown,
    };
    let spec = claim.get("spec");
    if claim.is_partial() || spec.has_unknown() {
        return Claimed::Unknown;
    }
    let volume = volume_name(claim, cluster);
    // Karpenter waits until the controller of volumes has bound the claim to the volume that it names.
    let is_bound = claim.path(&["metadata", "annotations", "pv.kubernetes.io/bind-completed"]).is_set()
        || claim.path(&["status", "phase"]).text() == Some("Bound");
    let is_live = claim.path(&["metadata", "uid"]).is_set();
    if claim.path(&["metadata", "deletionTimestamp"]).is_set() {
        return Claimed::Fault(format!("the PersistentVolumeClaim `{name}` is being deleted"));
    }
    if claim.path(&["status", "phase"]).text() == Some("Lost") {
        return Claimed::Fault(format!("the volume of the PersistentVolumeClaim `{name}` is lost"));
    }
    let names_volume = spec.get("volumeName").text().is_some_and(|name| !name.is_empty());
    match volume {
        Some(_) if is_live && !is_bound && names_volume => {
            Claimed::Fault(format!("the PersistentVolumeClaim `{name}` is not bound yet"))
        }
        Some(_) if is_live && !is_bound => unbound(&spec, cluster),
        Some(volume) => bound(volume, cluster),
        None => match unbound(&spec, cluster) {
            Claimed::ToBind(_) if is_live => {
                Claimed::Fault(format!("the PersistentVolumeClaim `{name}` is not bound yet"))
            }
            // A claim in a repository is bound once it is applied, to a volume that is not known.
            Claimed::Fault(_) if !cluster.is_complete() => Claimed::Unknown,
            claimed => claimed,
        },
    }
}

/// The name of the volume that a claim has: the one that it names, or else the one that is reserved for it.
fn volume_name<'c>(claim: &'c Object, cluster: &'c Cluster) -> Option<&'c str> {
    let named = claim.path(&["spec", "volumeName"]).text().filter(|name| !name.is_empty());
    let reserved = || match cluster.views().volumes_reserved_for(claim.namespace_or_default(), claim.name()) {
        [volume] => Some(volume.name()),
        _ => None,
    };
    named.or_else(reserved)
}

/// The claim of a pod that is created with it. Without its class in the input it is taken to require nothing, as most do.
fn new_claim(spec: &Node<'_>, cluster: &Cluster) -> Claimed {
    if spec.has_unknown() {
        return Claimed::Unknown;
    }
    match unbound(spec, cluster) {
        Claimed::Unknown if !cluster.is_complete() => Claimed::Requires(Vec::new()),
        claimed => claimed,
    }
}

/// The fields of other objects that say where the volumes of a pod are: the node affinity of a bound volume, or the topologies of a
/// class.
pub(super) fn places(template: &Template<'_>, cluster: &Cluster) -> Vec<Place> {
    let (object, _) = template.place;
    // Each with the volume that it has.
    let mut claims: Vec<(Node<'_>, Option<&str>)> = Vec::new();
    for volume in template.spec.get("volumes").items() {
        let named = volume.path(&["persistentVolumeClaim", "claimName"]);
        let claim = named
            .text()
            .map(|name| look_up(cluster, Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), name));
        match claim {
            Some(Lookup::Found(claim)) => claims.push((claim.get("spec"), volume_name(claim, cluster))),
            _ => claims.push((volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]), None)),
        }
    }
    let own = object.path(&["spec", "volumeClaimTemplates"]).items();
    claims.extend(own.map(|claim| (claim.get("spec"), None)));
    let place = |(claim, volume): (Node<'_>, Option<&str>)| {
        let (kind, name, path) = match volume {
            Some(volume) => {
                (Kind::PERSISTENT_VOLUME, volume.to_owned(), &["spec", "nodeAffinity"] as &[&str])
            }
            None => (
                Kind::STORAGE_CLASS,
                claim.get("storageClassName").text()?.to_owned(),
                &["allowedTopologies"] as &[&str],
            ),
        };
        let Lookup::Found(other) = look_up(cluster, kind, "default", &name) else { return None };
        let node = other.path(path);
        node.is_set().then(|| Place::new(other, &node, "where the volume is"))
    };
    claims.into_iter().filter_map(place).collect()
}

/// A claim that is bound to a volume: the terms of its node affinity are alternatives.
fn bound(name: &str, cluster: &Cluster) -> Claimed {
    let volume = match look_up(cluster, Kind::PERSISTENT_VOLUME, "default", name) {
        Lookup::Found(volume) => volume,
        Lookup::Missing => return Claimed::Fault(format!("the PersistentVolume `{name}` does not exist")),
        Lookup::Unknown => return Claimed::Unknown,
    };
    let spec = volume.get("spec");
    let terms = spec.path(&["nodeAffinity", "required", "nodeSelectorTerms"]);
    if volume.is_partial() || terms.has_unknown() {
        return Claimed::Unknown;
    }
    // A new node has another host name, so that Karpenter leaves it out.
    let is_local = spec.get("local").is_set() || spec.get("hostPath").is_set();
    let mut alternatives = Vec::new();
    for term in terms.items() {
        let Some(mut all) = expressions(&term) else {
            return Claimed::Unknown;
        };
        if is_local && !all.is_empty() {
            all.retain(|expression| expression.key != "kubernetes.io/hostname");
            alternatives.push(all);
        } else if !all.is_empty() {
            alternatives.push(all);
        }
    }
    Claimed::Requires(alternatives)
}

fn expressions(term: &Node<'_>) -> Option<Vec<RequirementSpec>> {
    let expression = |node: Node<'_>| {
        Some(RequirementSpec {
            key: node.get("key").text()?.to_owned(),
            op: node.get("operator").text()?.parse::<Operator>().ok()?,
            values: values(&node)?,
            min_values: None,
        })
    };
    term.get("matchExpressions").items().map(expression).collect()
}

fn values(node: &Node<'_>) -> Option<Vec<String>> {
    node.get("values").items().map(|value| value.text().map(str::to_owned)).collect()
}

/// A claim that is not bound: the topologies that its class allows are alternatives.
fn unbound(spec: &Node<'_>, cluster: &Cluster) -> Claimed {
    let name = spec.get("storageClassName");
    let class = match name.text() {
        Some(name) if !name.is_empty() => match look_up(cluster, Kind::STORAGE_CLASS, "default", name) {
            Lookup::Found(class) => class,
            Lookup::Missing => return Claimed::Fault(format!("the StorageClass `{name}` does not exist")),
            Lookup::Unknown => return Claimed::Unknown,
        },
        // An empty name asks for a volume without a class.
        Some(_) if cluster.is_complete() && !has_free_volume("", cluster) => {
            return Claimed::Fault(
                "its PersistentVolumeClaim names no StorageClass, and no PersistentVolume without one is free".to_owned(),
            );
        }
        Some(_) => return Claimed::Unknown,
        // The API server writes the default class into the claim.
        None => match cluster.of(Kind::STORAGE_CLASS).find(|class| is_default(class)) {
            Some(class) => class,
            None if cluster.is_complete() => {
                let text = "its volume has no StorageClass, and there is no default one";
                return Claimed::Fault(text.to_owned());
            }
            None => return Claimed::Unknown,
        },
    };
    let topologies = class.get("allowedTopologies");
    if class.is_partial() || topologies.has_unknown() {
        return Claimed::Unknown;
    }
    let mut alternatives = Vec::new();
    for term in topologies.items() {
        let expression = |node: Node<'_>| {
            let key = node.get("key").text()?.to_owned();
            Some(RequirementSpec { key, op: Operator::In, values: values(&node)?, min_values: None })
        };
        let Some(all) = term.get("matchLabelExpressions").items().map(expression).collect::<Option<Vec<_>>>()
        else {
            return Claimed::Unknown;
        };
        if !all.is_empty() {
            alternatives.push(all);
        }
    }
    // Such a volume is created in a zone of its own choice, one of those that the class allows, before the pod is looked at. A
    // volume of a file system is in no zone, whatever its class says.
    let is_of_ebs = class.get("provisioner").text().is_some_and(|name| name.contains("ebs"));
    let mode = class.get("volumeBindingMode");
    // The API server writes `Immediate` where the field is absent.
    let is_immediate = mode.text() == Some("Immediate") || is_of_ebs && !mode.is_set();
    let makes_none = class.get("provisioner").text() == Some(NO_PROVISIONER);
    match is_immediate {
        true if makes_none && cluster.is_complete() && !has_free_volume(class.name(), cluster) => {
            let text = format!(
                "nothing provisions volumes of the StorageClass `{}`, and none is free",
                class.name()
            );
            Claimed::Fault(text)
        }
        true if is_of_ebs => Claimed::ToBind(alternatives),
        true => Claimed::ToBind(Vec::new()),
        false => Claimed::Requires(alternatives),
    }
}

/// Whether a volume of a class may be there that no claim has.
fn has_free_volume(class: &str, cluster: &Cluster) -> bool {
    cluster.of(Kind::PERSISTENT_VOLUME).any(|volume| {
        let of = volume.path(&["spec", "storageClassName"]);
        let is_taken = volume.path(&["spec", "claimRef", "name"]).is_set();
        of.is_unknown() || volume.is_partial() || !is_taken && of.text().unwrap_or_default() == class
    })
}

/// The alternatives of all volumes so far together with those of another one: those that can hold together, or all if none can
/// (`mergeVolumeRequirementAlternatives`).
fn merged(known: &[Vec<RequirementSpec>], more: Alternatives) -> Alternatives {
    if more.is_empty() {
        return known.to_vec();
    }
    if known.is_empty() {
        return more;
    }
    let together =
        |a: &[RequirementSpec], b: &[RequirementSpec]| requirements(a).intersects(&requirements(b)).is_ok();
    let product = |all: bool| -> Alternatives {
        let pairs = known.iter().flat_map(|a| more.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| all || together(a, b)).map(|(a, b)| [a.as_slice(), b].concat()).collect()
    };
    let compatible = product(false);
    if compatible.is_empty() { product(true) } else { compatible }
}

fn requirements(specs: &[RequirementSpec]) -> Requirements {
    let mut set = Requirements::new();
    for spec in specs {
        set.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    set
}
