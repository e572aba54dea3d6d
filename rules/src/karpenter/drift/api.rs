//! The APIs of pools: where each has the fields of its node template, and which of them are part of the hash.

use serde_json::{Map, Value, json};

use super::value_at;

/// The path of a field below the node template of a NodePool of `v1`.
pub(crate) type Field = &'static [&'static str];

const LABELS: Field = &["metadata", "labels"];
const ANNOTATIONS: Field = &["metadata", "annotations"];
const TAINTS: Field = &["spec", "taints"];
const STARTUP_TAINTS: Field = &["spec", "startupTaints"];
const CLASS: Field = &["spec", "nodeClassRef"];
const KUBELET: Field = &["spec", "kubelet"];
pub(super) const REQUIREMENTS: Field = &["spec", "requirements"];

/// The fields of `spec` of a Provisioner that say what its nodes are like, with their paths in the template of a NodePool.
const OF_PROVISIONER: [(&str, Field); 6] = [
    ("labels", LABELS),
    ("annotations", ANNOTATIONS),
    ("taints", TAINTS),
    ("startupTaints", STARTUP_TAINTS),
    ("kubeletConfiguration", KUBELET),
    ("requirements", REQUIREMENTS),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolApi {
    /// Provisioner of `v1alpha5`, without a template.
    Alpha,
    /// NodePool of `v1beta1`.
    Beta,
    /// NodePool of `v1`.
    Current,
}

impl PoolApi {
    pub(super) fn of(pool: &Value) -> PoolApi {
        let text = |name: &str| pool.get(name).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        PoolApi::named(text("kind"), api_version.split_once('/').map_or(api_version, |(_, version)| version))
    }

    pub(super) fn named(kind: &str, version: &str) -> PoolApi {
        match (kind, version) {
            ("Provisioner", _) => PoolApi::Alpha,
            (_, "v1beta1") => PoolApi::Beta,
            _ => PoolApi::Current,
        }
    }

    /// The fields that are part of the hash: core 0.31 pkg/apis/v1alpha5/provisioner.go, 0.37 pkg/apis/v1beta1/nodeclaim.go,
    /// and `docs/facts.md` for `v1`.
    pub(super) fn hashed(self) -> &'static [Field] {
        match self {
            PoolApi::Alpha => &[LABELS, ANNOTATIONS, TAINTS, STARTUP_TAINTS, KUBELET],
            PoolApi::Beta => &[LABELS, ANNOTATIONS, TAINTS, STARTUP_TAINTS, CLASS, KUBELET],
            PoolApi::Current => &[
                LABELS,
                ANNOTATIONS,
                TAINTS,
                STARTUP_TAINTS,
                CLASS,
                &["spec", "expireAfter"],
                &["spec", "terminationGracePeriod"],
            ],
        }
    }

    /// The path below the template of a path of the object, as `v1` has it; `None` outside of the template.
    pub(super) fn in_template<'s>(self, steps: &[&'s str]) -> Option<Vec<&'s str>> {
        match (self, steps) {
            (PoolApi::Alpha, ["spec", name, below @ ..]) => {
                let (_, path) = OF_PROVISIONER.iter().find(|(own, _)| own == name)?;
                Some(path.iter().chain(below).copied().collect())
            }
            (PoolApi::Beta | PoolApi::Current, ["spec", "template", below @ ..]) => Some(below.to_vec()),
            _ => None,
        }
    }
}

/// The node template of a pool, as a NodePool of `v1` has it.
pub(super) fn template_of(pool: &Value) -> Value {
    if PoolApi::of(pool) != PoolApi::Alpha {
        return value_at(pool, &["spec", "template"]);
    }
    let mut template = json!({"metadata": Map::new(), "spec": Map::new()});
    for (name, path) in OF_PROVISIONER {
        let value = value_at(pool, &["spec", name]);
        if let ([part, field], false) = (path, value.is_null()) {
            template[*part][*field] = value;
        }
    }
    template
}
