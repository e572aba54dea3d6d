//! Kubelet settings, which were part of the pool and are part of the node class since v1.
//!
//! A conversion changes only its own object. So the node class is converted first and receives the settings
//! that all its pools agree on; a pool drops its settings once its class has the same ones.

use super::ConversionError;
use super::draft::{FieldPath, PatchBuilder};
use crate::cluster::Cluster;
use crate::cluster::views::kubelet_settings;
use crate::kind::Kind;
use crate::object::Object;

/// Removes the kubelet settings from a pool if its class already has them.
pub(super) fn drop_from_pool(
    draft: &mut PatchBuilder,
    path: FieldPath<'_>,
    class: Option<&str>,
    cluster: &Cluster,
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
    let classes = cluster.all(Kind::EC2_NODE_CLASS.group, Kind::EC2_NODE_CLASS.kind, "default", class);
    // Files of several clusters may each contain a class with this name: all of them must have the settings.
    let carries =
        |c: &Object| c.version() == "v1" && kubelet_settings(&c.path(&["spec", "kubelet"]).to_json()) == wish;
    if !classes.is_empty() && classes.iter().all(carries) {
        draft.remove(path);
        return Ok(());
    }
    if cluster.views().kubelets().conflicts(class) {
        return Err(format!(
            "give each pool of class `{class}` a class of its own: their kubelet settings differ"
        ));
    }
    let is_old = classes.is_empty() && cluster.has(Kind::AWS_NODE_TEMPLATE, "default", class);
    let kind = if is_old { "AWSNodeTemplate" } else { "EC2NodeClass" };
    Err(format!(
        "convert {kind} `{class}` first: the fields of the pool's `kubelet` move to its `spec.kubelet`"
    ))
}
