//! The kubelet settings of NodePools and Provisioners, by the node class that they use.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::kind::Kind;
use crate::object::Object;

pub(crate) struct Kubelets;

impl Query for Kubelets {
    const SLOT: QuerySlot = QuerySlot::Kubelets;
    const KINDS: &'static [Kind] = &[Kind::PROVISIONER, Kind::NODE_POOL];
    type Key = ();
    type Value = Arc<KubeletsByClass>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<KubeletsByClass> {
        Arc::new(KubeletsByClass::new(cluster))
    }
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct KubeletsByClass(BTreeMap<String, KubeletConfig>);

#[derive(Debug, PartialEq)]
enum KubeletConfig {
    /// All pools have the same settings; an empty map if none has any.
    Uniform(Map<String, Value>),
    /// The settings differ, so that they cannot all be moved to the class.
    Conflicting,
}

impl KubeletsByClass {
    fn new(cluster: &Cluster) -> KubeletsByClass {
        let mut out = KubeletsByClass::default();
        for pool in cluster.of(Kind::PROVISIONER).chain(cluster.of(Kind::NODE_POOL)) {
            let Some(class) = class_name(pool) else { continue };
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

    /// The settings that the class has to receive. `None` if its pools have none, or different ones.
    pub(crate) fn agreed(&self, class: &str) -> Option<&Map<String, Value>> {
        match self.0.get(class)? {
            KubeletConfig::Uniform(wish) if !wish.is_empty() => Some(wish),
            _ => None,
        }
    }

    /// Whether the settings of the class's pools differ.
    pub(crate) fn conflicts(&self, class: &str) -> bool {
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

fn kubelet_path(pool: &Object) -> &'static [&'static str] {
    if pool.is(Kind::PROVISIONER) {
        &["spec", "kubeletConfiguration"]
    } else {
        &["spec", "template", "spec", "kubelet"]
    }
}

/// The settings without those that have no effect: containerd has been the only container runtime since
/// Kubernetes 1.24, and null means absent.
pub(crate) fn kubelet_settings(kubelet: &Value) -> Map<String, Value> {
    let entries = kubelet.as_object().cloned().unwrap_or_default();
    entries.into_iter().filter(|(key, value)| key != "containerRuntime" && !value.is_null()).collect()
}
