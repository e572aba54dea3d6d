//! Converts AWSNodeTemplate v1alpha1 and EC2NodeClass v1beta1 to EC2NodeClass v1.

use serde_json::{Map, Value, json};

use super::draft::PatchBuilder;
use super::selector::terms;
use super::{ConversionError, name_is_free};
use crate::cluster::Cluster;
use crate::cluster::views::kubelet_settings;
use crate::kind::Kind;
use crate::lint::fix::Fix;
use crate::object::Object;

/// The annotation in which Karpenter 1.0 stored the version of an alias in a v1beta1 object.
const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";

const UBUNTU: &str =
    "choose `amiSelectorTerms` and a block device by hand: Ubuntu is no longer an AMI family";

pub(super) fn node_template(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    name_is_free(object, Kind::EC2_NODE_CLASS, cluster)?;
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!("karpenter.k8s.aws/v1"))?;
    draft.set(&["kind"], json!("EC2NodeClass"))?;
    settings(&mut draft)?;
    adopt_kubelet(&mut draft, object, cluster)?;
    Ok(draft.into_fix("convert it to an EC2NodeClass; check its role, AMI and metadata options"))
}

pub(super) fn node_class(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!("karpenter.k8s.aws/v1"))?;
    let family = draft.text(&["spec", "amiFamily"]).map(str::to_owned);
    if family.as_deref() == Some("Ubuntu") {
        return Err(UBUNTU.into());
    }
    let selected =
        draft.get(&["spec", "amiSelectorTerms"]).is_some_and(|t| t.as_array().is_none_or(|t| !t.is_empty()));
    if let (Some(family), false) = (&family, selected) {
        let version = draft.text(&["metadata", "annotations", ALIAS_VERSION]).unwrap_or("latest").to_owned();
        if let Some(alias) = alias(family, &version) {
            draft.remove(&["spec", "amiSelectorTerms"]);
            rewrite(&mut draft, "amiFamily", "amiSelectorTerms", json!([{ "alias": alias }]))?;
        }
    }
    // The API server set a default for each option: two hops in v1beta1, one in v1.
    let hops = &["spec", "metadataOptions", "httpPutResponseHopLimit"];
    if draft.get(hops).is_none() {
        draft.set(hops, json!(2))?;
    }
    adopt_kubelet(&mut draft, object, cluster)?;
    Ok(draft.into_fix("convert it to v1; check its AMI and metadata options"))
}

/// The node class for the fields that a Provisioner has inline under `spec.provider`.
pub(super) fn inline(
    name: &str,
    provider: &Value,
    kubelet: &Map<String, Value>,
) -> Result<Value, ConversionError> {
    let mut spec = provider.as_object().cloned().unwrap_or_default();
    spec.remove("apiVersion");
    spec.remove("kind");
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": { "name": name },
        "spec": spec,
    });
    let Some(object) = Object::from_json(&object) else {
        return Err("`spec.provider` cannot be read".into());
    };
    let mut draft = PatchBuilder::new(&object)?;
    settings(&mut draft)?;
    if !kubelet.is_empty() {
        draft.set(&["spec", "kubelet"], Value::Object(kubelet.clone()))?;
    }
    Ok(draft.into_value())
}

/// The fields that AWSNodeTemplate and `spec.provider` have in common.
fn settings(draft: &mut PatchBuilder) -> Result<(), ConversionError> {
    for field in ["launchTemplate", "launchTemplateName"] {
        if draft.get(&["spec", field]).is_some() {
            return Err(format!(
                "write what your launch template says as fields: `spec.{field}` has no successor"
            ));
        }
    }
    amis(draft)?;
    for (old, new) in
        [("subnetSelector", "subnetSelectorTerms"), ("securityGroupSelector", "securityGroupSelectorTerms")]
    {
        if let Some(selector) = draft.get(&["spec", old]) {
            let terms = terms(old, selector, false)?;
            rewrite(draft, old, new, Value::Array(terms))?;
        }
        draft.remove(&["spec", old]);
    }
    // Karpenter's own default was two hops if no option was set. If any option was set, EC2 decided the
    // absent ones; its default is one hop, as in v1.
    if draft.get(&["spec", "metadataOptions"]).is_none() {
        draft.set(&["spec", "metadataOptions", "httpPutResponseHopLimit"], json!(2))?;
    }
    Ok(())
}

fn amis(draft: &mut PatchBuilder) -> Result<(), ConversionError> {
    let family = draft.text(&["spec", "amiFamily"]).unwrap_or("AL2");
    let family = family.to_owned();
    if family == "Ubuntu" {
        return Err(UBUNTU.into());
    }
    if let Some(selector) = draft.get(&["spec", "amiSelector"]) {
        let terms = terms("amiSelector", selector, true)?;
        rewrite(draft, "amiSelector", "amiSelectorTerms", Value::Array(terms))?;
        // Without an alias the family determines how a node is started.
        return draft.set(&["spec", "amiFamily"], json!(family));
    }
    draft.remove(&["spec", "amiSelector"]);
    match alias(&family, "latest") {
        Some(alias) => {
            let terms = json!([{ "alias": alias }]);
            rewrite(draft, "amiFamily", "amiSelectorTerms", terms)
        }
        None => {
            Err(format!("choose `amiSelectorTerms` by hand: no alias stands for `spec.amiFamily: {family}`"))
        }
    }
}

/// Changes the name and value of a field of `spec`. As a move it keeps its position in the file and the
/// comment above it.
fn rewrite(draft: &mut PatchBuilder, old: &str, new: &str, value: Value) -> Result<(), ConversionError> {
    let (from, to) = (&["spec", old], &["spec", new]);
    if draft.get(to).is_some() {
        return Err(format!("`spec.{old}` and `spec.{new}` are both written: keep one"));
    }
    draft.move_to(from, to)?;
    draft.set(to, value)
}

/// The alias of a family. `None` if it has none.
fn alias(family: &str, version: &str) -> Option<String> {
    let known = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"];
    known.contains(&family).then(|| format!("{}@{version}", family.to_ascii_lowercase()))
}

/// Adds the kubelet settings that all pools of the class agree on.
fn adopt_kubelet(
    draft: &mut PatchBuilder,
    object: &Object,
    cluster: &Cluster,
) -> Result<(), ConversionError> {
    let path = &["spec", "kubelet"];
    let kubelets = cluster.views().kubelets();
    let Some(wish) = kubelets.agreed(object.name()) else {
        return Ok(());
    };
    match draft.get(path) {
        Some(own) if kubelet_settings(own) != *wish => {
            Err("keep one of `spec.kubelet` and what its pools say: they differ".into())
        }
        Some(_) => Ok(()),
        None => draft.set(path, Value::Object(wish.clone())),
    }
}
