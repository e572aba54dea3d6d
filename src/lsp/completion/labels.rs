//! The keys and values of labels: those of nodes from Karpenter, the catalogue and the NodePools of the sets,
//! those of pods from the workloads.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gpulint_rules::catalog::{self, InstanceType, TypeSet};
use gpulint_rules::karpenter::meaning;
use gpulint_rules::karpenter::nodepool::{NODEPOOL_LABEL, NodePool};
use gpulint_rules::karpenter::provider::Provider;
use gpulint_rules::kind::Kind;
use gpulint_rules::workload::template::templates;

use super::cursor::Cursor;
use super::item::{ItemKind, Values};

/// Maximum number of objects from which labels are collected.
const MAX_OBJECTS: usize = 500;

/// The labels by which pods select nodes, with their descriptions.
pub(super) fn node_keys(cursor: &Cursor<'_>) -> Vec<(String, String)> {
    let providers: Vec<Provider> = pools(cursor).map(|pool| pool.provider()).collect();
    let mut known: Vec<Cow<'static, str>> = Vec::new();
    if providers.contains(&Provider::AutoMode) {
        known.extend(["eks.amazonaws.com/compute-type", "eks.amazonaws.com/nodeclass"].map(Cow::Borrowed));
        known.extend(meaning::auto_mode_labels());
    }
    // In a cluster of Auto Mode alone no node has the labels of Karpenter's provider.
    if providers.iter().any(|provider| *provider != Provider::AutoMode) || providers.is_empty() {
        known.extend(meaning::LABELS.iter().copied().map(Cow::Borrowed));
    } else {
        known.push(Cow::Borrowed(NODEPOOL_LABEL));
    }
    let mut out: Vec<(String, String)> = Vec::new();
    for key in known {
        if !out.iter().any(|(other, _)| *other == key) {
            out.push(with_meaning(&key));
        }
    }
    let mut own: BTreeSet<(String, String)> = BTreeSet::new();
    for pool in pools(cursor) {
        own.extend(
            pool.label_pairs().map(|(key, _)| (key, format!("label of NodePool `{}`", pool.object().name()))),
        );
    }
    own.retain(|(key, _)| meaning::of_label(key).is_none());
    let mut last = String::new();
    for (key, meaning) in own {
        if key != last {
            out.push((key.clone(), meaning));
        }
        last = key;
    }
    out.push(with_meaning("kubernetes.io/hostname"));
    out
}

fn with_meaning(key: &str) -> (String, String) {
    (key.to_owned(), meaning::of_label(key).unwrap_or_default().to_owned())
}

/// The labels that a requirement of Karpenter can use.
pub(super) fn requirement_keys(cursor: &Cursor<'_>) -> Vec<(String, String)> {
    let groups =
        [&["spec", "template", "spec", "nodeClassRef", "group"][..], &["spec", "nodeClassRef", "group"]];
    let mut groups = groups.into_iter().filter_map(|path| cursor.sketch.path(cursor.object, path));
    let group = groups.next().and_then(|node| cursor.sketch.scalar(node)).unwrap_or_default();
    if Provider::of_group_name(group) == Provider::AutoMode {
        return meaning::auto_mode_labels().map(|key| with_meaning(&key)).collect();
    }
    let kind = cursor.kind.unwrap_or_default();
    meaning::requirement_labels(kind, cursor.platform().karpenter).map(with_meaning).collect()
}

fn pools<'c>(cursor: &'c Cursor<'_>) -> impl Iterator<Item = NodePool<'c>> {
    let objects = cursor.clusters().flat_map(|cluster| cluster.of(Kind::NODE_POOL).take(MAX_OBJECTS));
    objects.filter_map(NodePool::new)
}

/// Adds the values of a label of nodes, except those of `others`.
pub(super) fn node_values(cursor: &Cursor<'_>, key: &str, others: &[&str], values: &mut Values) {
    if key == NODEPOOL_LABEL {
        for pool in pools(cursor) {
            values.text(ItemKind::Object, pool.object().name(), Some("NodePool".to_owned()));
        }
    }
    if key == "eks.amazonaws.com/compute-type" {
        values.text(ItemKind::Value, "auto", Some("EKS Auto Mode".to_owned()));
    }
    let known = Provider::naming(key).catalogue_key(key);
    for (value, detail) in catalogued(&known, cursor.platform().region.as_deref()) {
        if !others.contains(&value) {
            values.text(ItemKind::Value, value, detail);
        }
    }
    let mut own: BTreeSet<(String, String)> = BTreeSet::new();
    for pool in pools(cursor) {
        let from = |value: &str| (value.to_owned(), format!("in NodePool `{}`", pool.object().name()));
        own.extend(pool.label_pairs().filter(|(label, _)| label == key).map(|(_, value)| from(&value)));
        // The catalogue has the values of all other labels.
        if catalog::values(&known).is_none() {
            let named = pool.requirements().items().filter(|item| item.get("key").text() == Some(key));
            let named = named.flat_map(|item| item.get("values").items());
            own.extend(named.filter_map(|value| value.text().map(from)));
        }
    }
    for (value, detail) in own {
        if !others.contains(&value.as_str()) {
            values.text(ItemKind::Value, &value, Some(detail));
        }
    }
}

/// The values of a label in the catalogue: those with accelerators first, numbers by size. If the region is
/// known, only the values that it offers.
fn catalogued(key: &str, region: Option<&str>) -> Vec<(&'static str, Option<String>)> {
    let offered = region.and_then(catalog::offered_in);
    if key == catalog::INSTANCE_TYPE {
        let is_offered = |instance: &&InstanceType| offered.is_none_or(|offered| offered.contains(instance));
        let types = catalog::all().iter().filter(|instance| !instance.is_retired()).filter(is_offered);
        let mut types: Vec<&InstanceType> = types.collect();
        types.sort_by_key(|instance| !instance.is_accelerated());
        return types.into_iter().map(|instance| (instance.name, Some(hardware(instance)))).collect();
    }
    let Some(known) = catalog::values(key) else {
        return Vec::new();
    };
    let index = catalog::index(key);
    let mut out: Vec<(&'static str, Option<&TypeSet>)> = known
        .iter()
        .filter(|value| !value.is_empty())
        .map(|value| (*value, index.and_then(|index| index.with(value))))
        .filter(|(_, types)| types.is_none_or(|types| !types.is_subset(catalog::retired())))
        .filter(|(_, types)| match (offered, types) {
            (Some(offered), Some(types)) => !types.is_disjoint(offered),
            _ => true,
        })
        .collect();
    if out.iter().all(|(value, _)| value.parse::<i64>().is_ok()) {
        out.sort_by_key(|(value, _)| value.parse::<i64>().unwrap_or(i64::MAX));
    } else {
        let has_none =
            |types: Option<&TypeSet>| !types.is_some_and(|types| types.iter().any(|t| t.is_accelerated()));
        out.sort_by_cached_key(|(_, types)| has_none(*types));
    }
    out.into_iter().map(|(value, types)| (value, types.map(in_words))).collect()
}

/// The number of types, and their accelerators.
fn in_words(types: &TypeSet) -> String {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for instance in types.iter() {
        names.extend(accelerator(instance).map(|(name, _)| name));
    }
    let count = match types.len() {
        1 => types.names().next().unwrap_or_default().to_owned(),
        count => format!("{count} types"),
    };
    match names.len() {
        0 => count,
        1..=4 => format!("{count}, {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        many => format!("{count}, {many} accelerators"),
    }
}

fn accelerator(instance: &InstanceType) -> Option<(&'static str, Option<&'static str>)> {
    let is = |key: &str| match instance.label(key) {
        catalog::Label::Is(value) => Some(value),
        _ => None,
    };
    let gpu = is("karpenter.k8s.aws/instance-gpu-name")
        .map(|name| (name, is("karpenter.k8s.aws/instance-gpu-count")));
    gpu.or_else(|| {
        let name = is("karpenter.k8s.aws/instance-accelerator-name")?;
        Some((name, is("karpenter.k8s.aws/instance-accelerator-count")))
    })
}

/// The hardware of a type: `8 × h100 with 80 GiB, 192 vCPUs, 2048 GiB, 32 EFA`.
fn hardware(instance: &InstanceType) -> String {
    let mut out = String::new();
    if let Some((name, count)) = accelerator(instance) {
        if let Some(count) = count.filter(|count| *count != "0") {
            out.push_str(&format!("{count} × "));
        }
        out.push_str(name);
        if instance.gpu_memory_mib > 0 {
            out.push_str(&format!(" with {}", gib(instance.gpu_memory_mib)));
        }
        out.push_str(", ");
    }
    out.push_str(&format!("{} vCPUs, {}", instance.vcpu, gib(instance.memory_mib)));
    if instance.efa > 0 {
        out.push_str(&format!(", {} EFA", instance.efa));
    }
    out
}

fn gib(mib: u32) -> String {
    if mib.is_multiple_of(1024) {
        format!("{} GiB", mib / 1024)
    } else {
        format!("{:.1} GiB", f64::from(mib) / 1024.0)
    }
}

pub(super) fn pod_keys(cursor: &Cursor<'_>) -> BTreeSet<String> {
    pod_labels(cursor).into_iter().map(|(key, ..)| key).collect()
}

pub(super) fn pod_values(cursor: &Cursor<'_>, key: &str, others: &[&str], values: &mut Values) {
    for (label, value, owner) in pod_labels(cursor) {
        if label == key && !others.contains(&value.as_str()) {
            values.text(ItemKind::Value, &value, Some(owner));
        }
    }
}

/// Key, value and workload of each label of the pods that the object under the cursor can select.
fn pod_labels(cursor: &Cursor<'_>) -> BTreeSet<(String, String, String)> {
    let mut out = BTreeSet::new();
    // The labels of the object's own pods, which a Deployment selects.
    let own = [
        &["spec", "template", "metadata", "labels"][..],
        &["spec", "jobTemplate", "spec", "template", "metadata", "labels"],
    ];
    for path in own {
        let Some(labels) = cursor.sketch.path(cursor.object, path) else { continue };
        for label in &cursor.sketch.nodes[labels].children {
            let key = cursor.sketch.nodes[*label].key.clone();
            let value = cursor.sketch.scalar(*label).unwrap_or_default().to_owned();
            out.insert((key, value, "these pods".to_owned()));
        }
    }
    for (cluster, namespace) in cursor.namespaces() {
        for workload in cluster.views().workloads_in(&namespace).take(MAX_OBJECTS) {
            let owner = format!("{} `{}`", workload.object.id().kind, workload.object.name());
            for template in templates(&workload.object) {
                let labels = template.labels().into_iter();
                let labels =
                    labels.filter_map(|(key, value)| Some((key.to_owned(), value.text()?.to_owned())));
                out.extend(labels.map(|(key, value)| (key, value, owner.clone())));
            }
        }
    }
    out
}
