//! Kubelet settings stood in the pool and stand in the class today: who takes them over.
//!
//! A conversion writes to its own object alone. So the class goes first and takes in what all of
//! its pools agree on; a pool lets go of its settings once its class carries the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Reason;
use super::draft::{Draft, Path};
use crate::cluster::objects::Index;
use crate::kind::Kind;
use crate::object::Object;

/// What the pools of each class want of the kubelet.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Kubelets(BTreeMap<String, Wish>);

#[derive(Debug, PartialEq)]
enum Wish {
    /// All of them the same; an empty map where nobody sets anything.
    Same(Map<String, Value>),
    /// Not all the same: one class cannot serve them all.
    Differ,
}

impl Kubelets {
    /// Asks every pool of the index once.
    pub(crate) fn new(index: &Index) -> Kubelets {
        let mut out = Kubelets::default();
        for pool in index.of(Kind::PROVISIONER).chain(index.of(Kind::NODE_POOL)) {
            let Some(class) = class_name(pool) else {
                continue;
            };
            let wish = wish_of(&pool.path(kubelet_path(pool)).to_json());
            match out.0.get_mut(class) {
                None => {
                    out.0.insert(class.to_owned(), Wish::Same(wish));
                }
                Some(Wish::Same(other)) if *other == wish => {}
                Some(known) => *known = Wish::Differ,
            }
        }
        out
    }

    /// What a class has to take in; `None` where its pools want nothing, or not the same.
    pub(super) fn of(&self, class: &str) -> Option<&Map<String, Value>> {
        match self.0.get(class)? {
            Wish::Same(wish) if !wish.is_empty() => Some(wish),
            _ => None,
        }
    }

    fn differ(&self, class: &str) -> bool {
        matches!(self.0.get(class), Some(Wish::Differ))
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

fn kubelet_path(pool: &Object) -> Path<'static> {
    if pool.is(Kind::PROVISIONER) {
        &["spec", "kubeletConfiguration"]
    } else {
        &["spec", "template", "spec", "kubelet"]
    }
}

/// The settings without what says nothing: the container runtime has been containerd alone since
/// Kubernetes 1.24, and null is absence.
pub(super) fn wish_of(kubelet: &Value) -> Map<String, Value> {
    let entries = kubelet.as_object().cloned().unwrap_or_default();
    entries.into_iter().filter(|(key, value)| key != "containerRuntime" && !value.is_null()).collect()
}

/// Takes the kubelet settings out of a pool, where its class has them already.
pub(super) fn let_go(
    draft: &mut Draft,
    path: Path<'_>,
    class: Option<&str>,
    index: &Index,
) -> Result<(), Reason> {
    let Some(kubelet) = draft.get(path) else {
        draft.remove(path);
        return Ok(());
    };
    if !kubelet.is_object() {
        return Err(format!("a placeholder hides `{}`", path.join(".")));
    }
    let wish = wish_of(kubelet);
    if wish.is_empty() {
        draft.remove(path);
        return Ok(());
    }
    let Some(class) = class else {
        return Err("its kubelet settings belong into its EC2NodeClass, and it names none".into());
    };
    let classes = index.all(Kind::EC2_NODE_CLASS.group, Kind::EC2_NODE_CLASS.kind, "default", class);
    // Files of several clusters may hold a class of this name each: whichever is meant carries them.
    let carries =
        |c: &Object| c.id().version == "v1" && wish_of(&c.path(&["spec", "kubelet"]).to_json()) == wish;
    if !classes.is_empty() && classes.iter().all(carries) {
        draft.remove(path);
        return Ok(());
    }
    if index.views().kubelets().differ(class) {
        return Err(format!(
            "pools of class `{class}` differ in kubelet settings: give each of them its own class"
        ));
    }
    Err(format!(
        "its kubelet settings move to EC2NodeClass `{class}`: convert that, or write them there, first"
    ))
}
