//! Nodes of the input that Karpenter does not start: node groups and Fargate profiles of eksctl, of which the labels, taints and
//! instance types are known, and what other tools declare, of which nothing is.
//!
//! They are no part of what rules declare to read: a change of them is one of everything (`Cluster::replace`).

use crate::catalog::{INSTANCE_TYPE, find};
use crate::karpenter::nodepool::taint;
use crate::karpenter::requirement::Operator;
use crate::karpenter::scheduling::{
    AmiFamily, NodeClass, NodeClassRef, Pool, RequirementSpec, Taint, admitted_types,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// A group of nodes that something else than Karpenter starts.
pub(crate) struct OtherNodes {
    pub(super) object: Object,
    /// Where the object declares them.
    pointer: Pointer,
    /// What the group is called in messages.
    pub(crate) title: String,
    pub(super) nodes: Nodes,
}

pub(super) enum Nodes {
    /// Nothing is known of their labels, taints and instance types.
    Any,
    Like(Box<Pool>),
    /// EKS Fargate, for the pods that a selector of the profile matches.
    Fargate,
}

/// The configuration of a cluster that eksctl makes.
const EKSCTL_CLUSTER: Kind = Kind::new("eksctl.io", "ClusterConfig");

/// What other tools make nodes of: Cluster API with its provider for AWS, AWS Controllers for Kubernetes, Crossplane, kOps.
const OF_OTHER_TOOLS: [Kind; 18] = [
    Kind::new("cluster.x-k8s.io", "MachineDeployment"),
    Kind::new("cluster.x-k8s.io", "MachinePool"),
    Kind::new("infrastructure.cluster.x-k8s.io", "AWSMachinePool"),
    Kind::new("infrastructure.cluster.x-k8s.io", "AWSManagedMachinePool"),
    Kind::new("infrastructure.cluster.x-k8s.io", "AWSFargateProfile"),
    Kind::new("bootstrap.cluster.x-k8s.io", "EKSConfig"),
    Kind::new("bootstrap.cluster.x-k8s.io", "EKSConfigTemplate"),
    Kind::new("bootstrap.cluster.x-k8s.io", "NodeadmConfig"),
    Kind::new("bootstrap.cluster.x-k8s.io", "NodeadmConfigTemplate"),
    Kind::new("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"),
    Kind::new("eks.services.k8s.aws", "Nodegroup"),
    Kind::new("eks.services.k8s.aws", "FargateProfile"),
    Kind::new("eks.aws.upbound.io", "NodeGroup"),
    Kind::new("eks.aws.upbound.io", "FargateProfile"),
    Kind::new("eks.aws.m.upbound.io", "NodeGroup"),
    Kind::new("eks.aws.crossplane.io", "NodeGroup"),
    Kind::new("eks.aws.crossplane.io", "FargateProfile"),
    Kind::new("kops.k8s.io", "InstanceGroup"),
];

/// Labels that labellers write once a node runs, so that a group with the devices has them.
const WRITTEN_LATE: [&str; 8] = [
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/mig.config",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-1d0f.present",
];

/// The instance type of a group that names none (`DefaultNodeType` of eksctl 0.1 to 0.2xx).
const DEFAULT_TYPE: &str = "m5.large";

/// The kinds of objects that declare nodes which Karpenter does not start.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    std::iter::once(EKSCTL_CLUSTER).chain(OF_OTHER_TOOLS)
}

/// Whether an object declares nodes that Karpenter does not start.
pub(super) fn declares_nodes(object: &Object) -> bool {
    kinds().any(|kind| object.is(kind))
}

/// Whether a group of kOps has no nodes for workloads, or Karpenter starts them.
fn is_aside(object: &Object) -> bool {
    let spec = object.get("spec");
    let role = spec.get("role").text();
    object.group() == "kops.k8s.io"
        && (spec.get("manager").text() == Some("Karpenter") || role.is_some_and(|role| role != "Node"))
}

fn of_eksctl(object: &Object) -> Vec<OtherNodes> {
    let root = object.root();
    let cluster = object.path(&["metadata", "name"]);
    let of = |node: &Node<'_>, what: &str, nodes: Nodes| {
        let name = node.get("name").text().unwrap_or("?");
        let title = format!("{what} `{name}` of eksctl");
        OtherNodes { object: object.clone(), pointer: node.pointer(), title, nodes }
    };
    let mut found = Vec::new();
    for (field, is_managed) in [("managedNodeGroups", true), ("nodeGroups", false)] {
        for group in root.get(field).items().filter(|group| group.get("maxSize").int() != Some(0)) {
            let like = |pool| Nodes::Like(Box::new(pool));
            let nodes = pool_of(&group, &cluster, is_managed).map_or(Nodes::Any, like);
            found.push(of(&group, "node group", nodes));
        }
    }
    let profiles = root.get("fargateProfiles");
    found.extend(profiles.items().map(|profile| of(&profile, "Fargate profile", Nodes::Fargate)));
    found
}

/// A node group of eksctl as input of the scheduler: a pool without a name. `None` if its labels and taints are not known.
fn pool_of(group: &Node<'_>, cluster: &Node<'_>, is_managed: bool) -> Option<Pool> {
    let (labels, taints) = (group.get("labels"), group.get("taints"));
    let is_unknown = labels.has_unknown() || labels.has_unknown_key() || taints.has_unknown();
    // A script or a launch template may register the nodes with labels and taints of its own.
    let has_script =
        ["overrideBootstrapCommand", "launchTemplate"].iter().any(|field| group.get(field).is_set());
    let sets_taints = ["preBootstrapCommands", "kubeletExtraConfig"]
        .iter()
        .any(|field| group.get(field).to_json().to_string().to_ascii_lowercase().contains("taint"));
    if is_unknown || group.has_unknown_key() || has_script || sets_taints {
        return None;
    }
    let text = |node: &Node<'_>| node.string_or_number().map(|text| text.into_owned());
    let name = text(&group.get("name")).unwrap_or_default();
    let spot = group.get("spot").bool() == Some(true);
    let mut all = vec![("alpha.eksctl.io/nodegroup-name".to_owned(), name.clone())];
    all.extend(text(cluster).map(|cluster| ("alpha.eksctl.io/cluster-name".to_owned(), cluster)));
    if is_managed {
        let capacity = if spot { "SPOT" } else { "ON_DEMAND" };
        all.push(("eks.amazonaws.com/nodegroup".to_owned(), name));
        all.push(("eks.amazonaws.com/capacityType".to_owned(), capacity.to_owned()));
    }
    all.extend(labels.entries().into_iter().filter_map(|(key, value)| Some((key.to_owned(), text(&value)?))));
    let late = |key: &&str| !all.iter().any(|(own, _)| own == key);
    let exists = |key: &str| requirement(key, Operator::Exists, Vec::new());
    let mut requirements: Vec<RequirementSpec> = WRITTEN_LATE.into_iter().filter(late).map(exists).collect();
    requirements.extend(types_of(group).map(|types| requirement(INSTANCE_TYPE, Operator::In, types)));
    let family = AmiFamily::parse(group.get("amiFamily").text().unwrap_or_default());
    let windows = || NodeClass { ami_family: AmiFamily::Windows, ..NodeClass::default() };
    Some(Pool {
        requirements,
        labels: all,
        taints: taints_of(&taints),
        node_class: NodeClassRef {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: String::new(),
        },
        class: (family == AmiFamily::Windows).then(windows),
        ..Pool::default()
    })
}

fn requirement(key: &str, op: Operator, values: Vec<String>) -> RequirementSpec {
    RequirementSpec { key: key.to_owned(), op, values, min_values: None }
}

/// The instance types of a node group. `None` if they are not known.
fn types_of(group: &Node<'_>) -> Option<Vec<String>> {
    let mixed = group.path(&["instancesDistribution", "instanceTypes"]);
    let lists = [group.get("instanceTypes"), mixed];
    let all = std::iter::once(group.get("instanceType")).chain(lists.iter().flat_map(Node::items));
    let named: Vec<String> = all
        .filter(|node| node.is_set() && node.text() != Some("mixed"))
        .map(|node| node.text().map(str::to_owned))
        .collect::<Option<_>>()?;
    let is_open = ["instanceSelector", "launchTemplate"].iter().any(|field| group.get(field).is_set());
    match named.as_slice() {
        [] => (!is_open).then(|| vec![DEFAULT_TYPE.to_owned()]),
        // A type may be newer than the catalogue.
        _ => named.iter().all(|name| find(name).is_some()).then_some(named),
    }
}

/// The taints of a node group: a list, or in older files of eksctl a mapping from the key to `value:effect`.
fn taints_of(taints: &Node<'_>) -> Vec<Taint> {
    let old = |(key, node): (&str, Node<'_>)| {
        let text = node.text().unwrap_or_default();
        let (value, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
        Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() }
    };
    match taints.is_mapping() {
        true => taints.entries().into_iter().map(old).collect(),
        false => taints.items().map(|node| taint(&node)).collect(),
    }
}

impl OtherNodes {
    /// The nodes that an object declares.
    pub(super) fn of(object: &Object) -> Vec<OtherNodes> {
        if object.is(EKSCTL_CLUSTER) {
            return of_eksctl(object);
        }
        if is_aside(object) {
            return Vec::new();
        }
        let title = format!("nodes of {} `{}`", object.kind(), object.display_name());
        vec![OtherNodes { object: object.clone(), pointer: Pointer::root(), title, nodes: Nodes::Any }]
    }

    /// The object that declares them, and where.
    pub(crate) fn place(&self) -> (&Object, Node<'_>) {
        (&self.object, self.object.root().at(&self.pointer))
    }

    pub(crate) fn may_have_taint(&self, key: &str) -> bool {
        match &self.nodes {
            Nodes::Any => true,
            Nodes::Like(pool) => pool.taints.iter().any(|taint| taint.key == key),
            Nodes::Fargate => false,
        }
    }

    pub(crate) fn may_have_devices(&self, resource: &str) -> bool {
        match &self.nodes {
            Nodes::Any => true,
            Nodes::Like(pool) => admitted_types(pool).types.iter().any(|one| one.devices(resource) > 0),
            Nodes::Fargate => false,
        }
    }
}
