//! The values of fields: from the schema if it lists them, otherwise from facts and from other objects.

use gpulint_rules::karpenter;
use gpulint_rules::keda::{meaning, scalers};
use gpulint_rules::kind::definitions::CustomResourceDefinitions;
use gpulint_rules::kind::{self, KINDS, Kind, KindInfo};
use gpulint_rules::lint::suppress::ANNOTATION;
use gpulint_rules::{Group, RULES, Version};

use super::cursor::Cursor;
use super::item::{Item, ItemKind, Values};
use super::sketch::ValuePlace;
use super::{labels, objects};

const OPERATORS: &[(&str, &str)] = &[
    ("In", "one of the values"),
    ("NotIn", "none of the values"),
    ("Exists", "any value; write no `values`"),
    ("DoesNotExist", "nodes without the label; write no `values`"),
    ("Gt", "more than the one value, an integer"),
    ("Lt", "less than the one value, an integer"),
    ("Gte", "the one value or more, an integer"),
    ("Lte", "the one value or less, an integer"),
];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// The first version of Karpenter with `Gte` and `Lte`.
const BOUNDS_SINCE: Version = Version::new(1, 9);
const TOLERATION_OPERATORS: &[(&str, &str)] =
    &[("Exists", "any value; without a key every taint"), ("Equal", "the same value")];
/// Taints that GPU nodes usually have.
const TAINTS: &[(&str, &str)] = &[
    ("nvidia.com/gpu", "the taint of nodes with NVIDIA GPUs"),
    ("aws.amazon.com/neuron", "the taint of nodes with Inferentia or Trainium"),
    ("habana.ai/gaudi", "the taint of nodes with Gaudi"),
    ("amd.com/gpu", "the taint of nodes with AMD GPUs"),
];
const TOPOLOGY_KEYS: &[(&str, &str)] = &[
    ("topology.kubernetes.io/zone", "availability zones"),
    ("kubernetes.io/hostname", "nodes"),
    ("karpenter.sh/capacity-type", "on-demand and spot"),
    ("topology.k8s.aws/zone-id", "availability zones by their ids"),
    ("topology.kubernetes.io/region", "regions"),
];
const TRIGGER_METRIC_TYPES: &[(&str, &str)] = &[
    ("AverageValue", "the metric divided by the replicas; what KEDA assumes"),
    ("Value", "the metric as it is"),
    ("Utilization", "a percentage of the requests; `cpu` and `memory` only"),
];
const ALIASES: &[(&str, &str)] = &[
    ("al2023@latest", "Amazon Linux 2023, the newest image; nodes drift when there is a new one"),
    ("bottlerocket@latest", "Bottlerocket, the newest image; nodes drift when there is a new one"),
    ("al2023@v", "Amazon Linux 2023 of a release, such as `al2023@v20260101`"),
    ("bottlerocket@v", "Bottlerocket of a release, such as `bottlerocket@v1.50.0`"),
];

pub(super) fn complete(cursor: &Cursor<'_>, place: &ValuePlace) -> Vec<Item> {
    let mut values = Values::new(place);
    let node = place.node;
    special(cursor, node, &mut values);
    if values.out.is_empty()
        && let Some(kind) = objects::kind_named(cursor, node)
    {
        objects::names(cursor, kind, &mut values);
    }
    if values.out.is_empty()
        && let Some(outline) = cursor.outline(&cursor.steps)
    {
        let others = cursor.other_items(node);
        for value in outline.values() {
            if cursor.sketch.nodes[node].key_span.is_some() || !others.contains(&value) {
                values.text(ItemKind::Choice, value, None);
            }
        }
        if outline.is_boolean() && !place.quoted {
            values.raw(ItemKind::Choice, "true", "true", None);
            values.raw(ItemKind::Choice, "false", "false", None);
        }
    }
    values.out
}

fn listed(values: &mut Values, list: &[(&str, &str)], kind: ItemKind) {
    for (text, meaning) in list {
        values.text(kind, text, Some((*meaning).to_owned()));
    }
}

/// Adds the values of places that are completed from facts.
fn special(cursor: &Cursor<'_>, node: usize, values: &mut Values) {
    let beside = |name: &str| cursor.beside(node, 1, name);
    match cursor.pattern().as_slice() {
        ["apiVersion"] => api_versions(cursor, values),
        ["kind"] => kinds(cursor, values),
        [.., "requirements", "[]", "key"] if cursor.is_of_karpenter() => {
            let used = used_keys(cursor, node);
            for (key, meaning) in labels::requirement_keys(cursor) {
                if !used.contains(&key.as_str()) {
                    values.text(ItemKind::Label, &key, Some(meaning));
                }
            }
        }
        [.., "requirements" | "matchExpressions", "[]", "operator"] => operators(cursor, values),
        [.., "requirements" | "matchExpressions", "[]", "values", "[]"] => {
            let Some(key) = cursor.beside(node, 2, "key").map(str::to_owned) else { return };
            label_values(cursor, node, &key, values);
        }
        [.., "matchExpressions", "[]", "key"] => {
            if is_of_nodes(cursor) {
                for (key, meaning) in labels::node_keys(cursor) {
                    values.text(ItemKind::Label, &key, Some(meaning));
                }
            } else {
                for key in labels::pod_keys(cursor) {
                    values.text(ItemKind::Label, &key, Some("label of pods".to_owned()));
                }
            }
        }
        [.., "nodeSelector", key] => labels::node_values(cursor, key, &[], values),
        [.., "matchLabels", key] => labels::pod_values(cursor, key, &[], values),
        ["spec", "selector", key] if cursor.kind == Some("Service") => {
            labels::pod_values(cursor, key, &[], values);
        }
        [.., "nodeClassRef", "group"] => listed(
            values,
            &[("karpenter.k8s.aws", "EC2NodeClass"), ("eks.amazonaws.com", "NodeClass of EKS Auto Mode")],
            ItemKind::Kind,
        ),
        [.., "nodeClassRef", "kind"] => listed(
            values,
            &[
                ("EC2NodeClass", "of group karpenter.k8s.aws"),
                ("NodeClass", "of group eks.amazonaws.com, EKS Auto Mode"),
            ],
            ItemKind::Kind,
        ),
        ["spec", "scaleTargetRef", "kind"] => {
            for info in KINDS
                .iter()
                .filter(|info| info.workload.is_some_and(|workload| !workload.replicas.is_empty()))
            {
                values.text(ItemKind::Kind, info.kind.kind, Some(api_version(info, info.version)));
            }
        }
        ["spec", "scaleTargetRef", "apiVersion"] => {
            let named = beside("kind");
            let scalable = KINDS
                .iter()
                .filter(|info| info.workload.is_some_and(|workload| !workload.replicas.is_empty()));
            for info in scalable.filter(|info| named.is_none_or(|kind| kind == info.kind.kind)) {
                values.text(
                    ItemKind::Kind,
                    &api_version(info, info.version),
                    Some(info.kind.kind.to_owned()),
                );
            }
        }
        [.., "triggers", "[]", "type"] => {
            for name in scalers::names(cursor.platform().keda) {
                values.text(ItemKind::Choice, name, meaning::of_type(name).map(str::to_owned));
            }
        }
        [.., "triggers", "[]", "metricType"] => listed(values, TRIGGER_METRIC_TYPES, ItemKind::Choice),
        [.., "triggers", "[]", "metadata", key] => trigger_values(cursor, node, key, values),
        [.., "taints" | "startupTaints" | "tolerations", "[]", "effect"] => {
            for effect in EFFECTS {
                values.text(
                    ItemKind::Choice,
                    effect,
                    karpenter::meaning::of_taint_effect(effect).map(str::to_owned),
                );
            }
        }
        [.., "taints" | "startupTaints", "[]", "key"] => listed(values, TAINTS, ItemKind::Label),
        [.., "tolerations", "[]", "operator"] => listed(values, TOLERATION_OPERATORS, ItemKind::Choice),
        [.., "tolerations", "[]", "key"] => {
            for (key, _, pool) in pool_taints(cursor) {
                values.text(ItemKind::Label, &key, Some(format!("taint of NodePool `{pool}`")));
            }
            listed(values, TAINTS, ItemKind::Label);
        }
        [.., "tolerations", "[]", "value"] => {
            let key = beside("key");
            for (taint, value, pool) in pool_taints(cursor) {
                if Some(taint.as_str()) == key && !value.is_empty() {
                    values.text(ItemKind::Value, &value, Some(format!("taint of NodePool `{pool}`")));
                }
            }
        }
        [.., "topologyKey"] => listed(values, TOPOLOGY_KEYS, ItemKind::Label),
        [.., "amiSelectorTerms", "[]", "alias"] => listed(values, ALIASES, ItemKind::Value),
        [.., "metadata", "annotations", key] => annotation_values(key, values),
        _ => {}
    }
}

/// Adds the rules that an annotation may name, or the values of a switch.
fn annotation_values(key: &str, values: &mut Values) {
    match key {
        ANNOTATION => {
            for rule in RULES.iter().filter(|rule| rule.group != Group::Suppression) {
                values.text(ItemKind::Rule, rule.id, Some(rule.summary().to_owned()));
            }
        }
        "karpenter.sh/do-not-disrupt" | "autoscaling.keda.sh/paused" => {
            values.text(ItemKind::Choice, "true", None);
        }
        _ => {}
    }
}

fn api_version(info: &KindInfo, version: &str) -> String {
    if info.kind.group.is_empty() { version.to_owned() } else { format!("{}/{version}", info.kind.group) }
}

/// The version that the schema of a kind describes, or the one of the kind table.
fn current(info: &'static KindInfo) -> &'static str {
    info.schemas.and_then(|schemas| schemas.first()).map_or(info.version, |schema| schema.version)
}

fn definitions<'c>(cursor: &'c Cursor<'_>) -> Option<&'c CustomResourceDefinitions> {
    cursor.view.map(|view| &view.engine.settings().definitions)
}

/// Adds the API versions of the kind, or of all kinds: the current ones first.
fn api_versions(cursor: &Cursor<'_>, values: &mut Values) {
    let named = |kind: &str| cursor.kind.is_none_or(|named| named == kind);
    for (group, version, kind) in definitions(cursor).into_iter().flat_map(|definitions| definitions.served())
    {
        if named(kind) {
            values.text(ItemKind::Kind, &format!("{group}/{version}"), Some(kind.to_owned()));
        }
    }
    let infos = || KINDS.iter().filter(|info| named(info.kind.kind));
    let detail = |info: &KindInfo| cursor.kind.map(|_| info.kind.kind.to_owned());
    for info in infos() {
        values.text(ItemKind::Kind, &api_version(info, current(info)), detail(info));
    }
    if cursor.kind.is_some() {
        for info in infos() {
            for version in kind::versions(info) {
                values.text(ItemKind::Kind, &api_version(info, version), Some("older version".to_owned()));
            }
        }
    }
}

/// Adds the kinds of the API version, or all kinds.
fn kinds(cursor: &Cursor<'_>, values: &mut Values) {
    for (group, version, kind) in definitions(cursor).into_iter().flat_map(|definitions| definitions.served())
    {
        let api_version = format!("{group}/{version}");
        if cursor.api_version.is_none_or(|named| named == api_version) {
            values.text(ItemKind::Kind, kind, Some(api_version));
        }
    }
    for info in KINDS {
        let served = kind::versions(info);
        let is_named = |named: &str| {
            let (group, version) = named.split_once('/').unwrap_or(("", named));
            group == info.kind.group && (served.contains(&version) || version == info.version)
        };
        if cursor.api_version.is_none_or(is_named) {
            values.text(ItemKind::Kind, info.kind.kind, Some(api_version(info, current(info))));
        }
    }
}

/// The keys of the other requirements of the list.
fn used_keys<'c>(cursor: &'c Cursor<'_>, node: usize) -> Vec<&'c str> {
    let sketch = cursor.sketch;
    let item = sketch.nodes[node].parent;
    let list = sketch.nodes[item].parent;
    let others = sketch.nodes[list].children.iter().filter(|other| **other != item);
    others.filter_map(|other| sketch.field(*other, "key")).collect()
}

/// Whether an expression selects nodes, not pods.
fn is_of_nodes(cursor: &Cursor<'_>) -> bool {
    cursor.steps.iter().any(|step| {
        matches!(step.as_str(), "nodeAffinity" | "requirements" | "nodeSelector" | "nodeSelectorTerms")
    })
}

fn operators(cursor: &Cursor<'_>, values: &mut Values) {
    let of_karpenter = cursor.is_of_karpenter();
    let outline = cursor.outline(&cursor.steps).map(|outline| outline.values()).unwrap_or_default();
    let of_nodes = is_of_nodes(cursor) || of_karpenter;
    let has_bounds = cursor.platform().karpenter >= BOUNDS_SINCE;
    for (operator, meaning) in OPERATORS {
        let is_allowed = match *operator {
            "Gte" | "Lte" => {
                has_bounds && (outline.contains(operator) || (outline.is_empty() && of_karpenter))
            }
            "Gt" | "Lt" => of_nodes,
            _ => true,
        };
        if is_allowed {
            values.text(ItemKind::Choice, operator, Some((*meaning).to_owned()));
        }
    }
}

fn label_values(cursor: &Cursor<'_>, node: usize, key: &str, values: &mut Values) {
    let others = cursor.other_items(node);
    if cursor.is_of_karpenter() || is_of_nodes(cursor) {
        labels::node_values(cursor, key, &others, values);
    } else {
        labels::pod_values(cursor, key, &others, values);
    }
}

fn trigger_values(cursor: &Cursor<'_>, node: usize, key: &str, values: &mut Values) {
    let keda = cursor.platform().keda;
    let Some(scaler) = cursor.beside(node, 2, "type").and_then(|name| scalers::scaler(name, keda)) else {
        return;
    };
    let Some(known) = scaler.keys.iter().find(|known| known.names().any(|name| name == key)) else { return };
    for value in known.values.iter().chain(&known.exclusive_values) {
        let detail = (known.default == Some(value)).then(|| "default".to_owned());
        values.text(ItemKind::Choice, value, detail);
    }
    let is_boolean = known.kind == gpulint_rules::keda::value::KeyType::Bool;
    if is_boolean && known.values.is_empty() {
        values.text(ItemKind::Choice, "true", None);
        values.text(ItemKind::Choice, "false", None);
    } else if values.out.is_empty()
        && let Some(default) = known.default
    {
        values.text(ItemKind::Value, default, Some("default".to_owned()));
    }
}

/// The key, the value and the pool of each taint of the NodePools.
fn pool_taints(cursor: &Cursor<'_>) -> Vec<(String, String, String)> {
    let mut out = Vec::new();
    for cluster in cursor.clusters() {
        for pool in cluster.of(Kind::NODE_POOL) {
            for taint in pool.path(&["spec", "template", "spec", "taints"]).items() {
                if let Some(key) = taint.get("key").text() {
                    let value = taint.get("value").text().unwrap_or_default();
                    out.push((key.to_owned(), value.to_owned(), pool.name().to_owned()));
                }
            }
        }
    }
    out.sort();
    out.dedup();
    out
}
