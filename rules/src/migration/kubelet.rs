//! Kubelet settings stood in the pool and stand in the class today: who takes them over.
//!
//! A conversion writes to its own object alone. So the class goes first and takes in what all of
//! its pools agree on; a pool lets go of its settings once its class carries the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ConversionError;
use super::draft::{FieldPath, PatchBuilder};
use crate::cluster::objects::Index;
use crate::kind::Kind;
use crate::object::Object;

/// What the pools of each class want of the kubelet.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KubeletsByClass(BTreeMap<String, KubeletConfig>);

#[derive(Debug, PartialEq)]
enum KubeletConfig {
    /// All of them the same; an empty map where nobody sets anything.
    Uniform(Map<String, Value>),
    /// Not all the same: one class cannot serve them all.
    Conflicting,
}

impl KubeletsByClass {
    /// Asks every pool of the index once.
    pub(crate) fn new(index: &Index) -> KubeletsByClass {
        let mut out = KubeletsByClass::default();
        for pool in index.of(Kind::PROVISIONER).chain(index.of(Kind::NODE_POOL)) {
            let Some(class) = class_name(pool) else {
                continue;
            };
            let wish = kubelet_settings(&pool.path(kubelet_path(pool)).to_json());
            match out.0.get_mut(class) {
                None => {
                    out.0.insert(class.to_owned(), KubeletConfig::Uniform(wish));
                }
                Some(KubeletConfig::Uniform(other)) if *other == wish => {}
                Some(known) => *known = KubeletConfig::Conflicting,
            }
        }
        out
    }

    /// What a class has to take in; `None` where its pools want nothing, or not the same.
    pub(super) fn agreed(&self, class: &str) -> Option<&Map<String, Value>> {
        match self.0.get(class)? {
            KubeletConfig::Uniform(wish) if !wish.is_empty() => Some(wish),
            _ => None,
        }
    }

    fn conflicts(&self, class: &str) -> bool {
        matches!(self.0.get(class), Some(KubeletConfig::Conflicting))
    }
}

fn class_name(pool: &Object) -> Option<&str> {
    let reference = if pool.is(Kind::PROVISIONER) {
        pool.path(&["spec", "providerRef"])
    } else {
        pool.path(&["spec", "template", "spec", "nodeClassRef"])
    };
    reference.get("name").text()
}

fn kubelet_path(pool: &Object) -> FieldPath<'static> {
    if pool.is(Kind::PROVISIONER) {
        &["spec", "kubeletConfiguration"]
    } else {
        &["spec", "template", "spec", "kubelet"]
    }
}

/// The settings without what says nothing: the container runtime has been containerd alone since
/// Kubernetes 1.24, and null is absence.
pub(super) fn kubelet_settings(kubelet: &Value) -> Map<String, Value> {
    let entries = kubelet.as_object().cloned().unwrap_or_default();
    entries.into_iter().filter(|(key, value)| key != "containerRuntime" && !value.is_null()).collect()
}

/// Takes the kubelet settings out of a pool, where its class has them already.
pub(super) fn drop_from_pool(
    draft: &mut PatchBuilder,
    path: FieldPath<'_>,
    class: Option<&str>,
    index: &Index,
) -> Result<(), ConversionError> {
    let Some(kubelet) = draft.get(path) else {
        draft.remove(path);
        return Ok(());
    };
    if !kubelet.is_object() {
        return Err(format!("a placeholder hides `{}`", path.join(".")));
    }
    let wish = kubelet_settings(kubelet);
    if wish.is_empty() {
        draft.remove(path);
        return Ok(());
    }
    let Some(class) = class else {
        return Err("its kubelet settings belong into its EC2NodeClass, and it names none".into());
    };
    let classes = index.all(Kind::EC2_NODE_CLASS.group, Kind::EC2_NODE_CLASS.kind, "default", class);
    // Files of several clusters may hold a class of this name each: whichever is meant carries them.
    let carries = |c: &Object| {
        c.id().version == "v1" && kubelet_settings(&c.path(&["spec", "kubelet"]).to_json()) == wish
    };
    if !classes.is_empty() && classes.iter().all(carries) {
        draft.remove(path);
        return Ok(());
    }
    if index.views().kubelets().conflicts(class) {
        return Err(format!(
            "pools of class `{class}` differ in kubelet settings: give each of them its own class"
        ));
    }
    Err(format!(
        "its kubelet settings move to EC2NodeClass `{class}`: convert that, or write them there, first"
    ))
}
