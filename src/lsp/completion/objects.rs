//! The names of other objects of the sets.

use std::collections::BTreeSet;

use gpulint_rules::Cluster;
use gpulint_rules::kind::{KINDS, Kind};

use super::cursor::Cursor;
use super::item::{ItemKind, Values};

/// Maximum number of names in the list.
const MAX_NAMES: usize = 1_000;

pub(super) fn kind_named(cursor: &Cursor<'_>, node: usize) -> Option<Kind> {
    let beside = |name: &str| cursor.beside(node, 1, name);
    match cursor.pattern().as_slice() {
        ["metadata", "namespace"] => Some(Kind::NAMESPACE),
        [.., "nodeClassRef", "name"] => match (beside("group"), beside("kind")) {
            (Some("eks.amazonaws.com"), _) | (_, Some("NodeClass")) => Some(Kind::AUTO_MODE_NODE_CLASS),
            _ => Some(Kind::EC2_NODE_CLASS),
        },
        ["spec", "scaleTargetRef", "name"] => {
            let kind = beside("kind").unwrap_or("Deployment");
            let group = beside("apiVersion").map(|text| text.split_once('/').map_or("", |(group, _)| group));
            KINDS
                .iter()
                .map(|info| info.kind)
                .find(|known| known.kind == kind && group.is_none_or(|group| group == known.group))
        }
        [.., "priorityClassName"] => Some(Kind::PRIORITY_CLASS),
        [.., "runtimeClassName"] => Some(Kind::RUNTIME_CLASS),
        [.., "serviceAccountName"] => Some(Kind::SERVICE_ACCOUNT),
        [.., "resourceClaimTemplateName"] => Some(Kind::RESOURCE_CLAIM_TEMPLATE),
        [.., "resourceClaimName"] => Some(Kind::RESOURCE_CLAIM),
        [.., "deviceClassName"] => Some(Kind::DEVICE_CLASS),
        [.., "authenticationRef", "name"] => match beside("kind") {
            Some("ClusterTriggerAuthentication") => Some(Kind::CLUSTER_TRIGGER_AUTHENTICATION),
            _ => Some(Kind::TRIGGER_AUTHENTICATION),
        },
        _ => None,
    }
}

/// Adds the names of the objects of a kind: those in the object's namespace, if the kind is namespaced.
pub(super) fn names(cursor: &Cursor<'_>, kind: Kind, values: &mut Values) {
    let is_namespaced = kind == Kind::SERVICE_ACCOUNT || kind.info().is_some_and(|info| info.namespaced);
    let mut found: BTreeSet<&str> = BTreeSet::new();
    if is_namespaced {
        for (cluster, namespace) in cursor.namespaces() {
            let objects = cluster.in_namespace(kind, &namespace).take(MAX_NAMES);
            found.extend(objects.map(|object| object.name()));
        }
    } else {
        for cluster in cursor.clusters() {
            found.extend(cluster.of(kind).take(MAX_NAMES).map(|object| object.name()));
        }
    }
    for name in found.into_iter().filter(|name| !name.is_empty()) {
        values.text(ItemKind::Object, name, Some(kind.kind.to_owned()));
    }
    for (name, detail) in always_there(kind) {
        values.text(ItemKind::Object, name, Some((*detail).to_owned()));
    }
}

/// Objects that exist in a cluster without a manifest.
fn always_there(kind: Kind) -> &'static [(&'static str, &'static str)] {
    if kind == Kind::PRIORITY_CLASS {
        return &[("system-node-critical", "built in, the highest"), ("system-cluster-critical", "built in")];
    }
    if kind == Kind::DEVICE_CLASS {
        return &[
            ("gpu.nvidia.com", "GPUs, by NVIDIA's driver"),
            ("mig.nvidia.com", "MIG slices, by NVIDIA's driver"),
        ];
    }
    if kind == Kind::AUTO_MODE_NODE_CLASS {
        return &[("default", "built into EKS Auto Mode")];
    }
    if kind == Kind::RUNTIME_CLASS {
        return &[("nvidia", "by NVIDIA's GPU Operator")];
    }
    &[]
}

impl Cursor<'_> {
    /// Each cluster with the namespace of the object in it: the one that the object had when it was last
    /// parsed, otherwise the one that is written.
    pub(super) fn namespaces(&self) -> Vec<(&Cluster, String)> {
        let metadata = self.sketch.child(self.object, "metadata");
        let field = |name: &str| metadata.and_then(|metadata| self.sketch.field(metadata, name));
        let written = field("namespace").filter(|namespace| !namespace.is_empty()).unwrap_or("default");
        let parsed = self.view.and_then(|view| {
            let name = field("name")?;
            view.file
                .objects
                .iter()
                .find(|object| object.name() == name && Some(object.id().kind.as_str()) == self.kind)
        });
        let mut out = Vec::new();
        for cluster in self.clusters() {
            let applied = parsed.and_then(|parsed| {
                let id = parsed.id();
                let named = cluster.named(&id.group, &id.kind, parsed.name()).flatten();
                named.into_iter().find(|object| object.is_same_manifest(parsed))
            });
            let namespace = applied.filter(|_| field("namespace").is_none());
            out.push((
                cluster,
                namespace.map_or(written, |object| object.id().namespace_or_default()).to_owned(),
            ));
        }
        out
    }
}
