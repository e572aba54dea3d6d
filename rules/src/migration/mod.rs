//! Converts objects of old APIs of Karpenter and KEDA to the current ones.
//!
//! [`convert`] returns a fix that changes the object to its successor by operations on that object alone, so that the
//! surrounding text is kept. If operations cannot determine a field, it is omitted and the successor is incomplete,
//! which other rules report. If information would be lost, there is no conversion, and the reason is returned.

mod class;
mod draft;
pub(crate) mod keda;
mod kubelet;
pub(crate) mod metrics;
pub(crate) mod moved_fields;
mod pool;
mod selector;

#[cfg(test)]
mod tests;

use crate::cluster::Cluster;
use crate::kind::Kind;
use crate::lint::fix::Fix;
use crate::lint::fix::value::apply;
use crate::object::Object;
use crate::platform::{Platform, Version};

/// Why an object cannot be converted automatically, as a line of help.
type ConversionError = String;

/// The fix that converts an old Karpenter object to the current API.
pub(crate) fn convert(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    let id = object.id();
    if object.is_partial() {
        // Fields that a patch omits are set in its base, so defaults must not be added here.
        return Err("convert the base first, then write the patch against its new paths".into());
    }
    let fix = match (id.kind.as_str(), id.version.as_str()) {
        ("Provisioner", "v1alpha5") => pool::provisioner(object, cluster),
        ("NodePool", "v1beta1") => pool::node_pool(object, cluster),
        ("NodeClaim", "v1beta1") => pool::node_claim(object, cluster),
        ("AWSNodeTemplate", "v1alpha1") => class::node_template(object, cluster),
        ("EC2NodeClass", "v1beta1") => class::node_class(object, cluster),
        ("Machine", _) => Err("remove it: Karpenter makes its NodeClaims itself".into()),
        _ => Err("write it anew: the API is too old for a field by field conversion".into()),
    }?;
    // The nodes of a live pool are replaced when it is converted.
    Ok(fix.replaces_nodes())
}

/// The fix that converts an object of an old API of Karpenter to `v1`, or the reason why there is none. `None` for all
/// other objects, and before Karpenter 1.0, which has no `v1`.
pub fn conversion(object: &Object, cluster: &Cluster, platform: &Platform) -> Option<Result<Fix, String>> {
    const OLD: [Kind; 3] = [Kind::PROVISIONER, Kind::AWS_NODE_TEMPLATE, Kind::MACHINE];
    const CURRENT: [Kind; 3] = [Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::EC2_NODE_CLASS];
    let is_any = |kinds: &[Kind]| kinds.iter().any(|kind| object.is(*kind));
    let version = object.version();
    let is_old = is_any(&OLD) || is_any(&CURRENT) && (version == "v1beta1" || version.starts_with("v1alpha"));
    let is_served = platform.karpenter >= Version::new(1, 0);
    (is_old && is_served).then(|| convert(object, cluster))
}

/// What an object of an old API of Karpenter becomes, at the place of the old one. `None` for all other objects, and where the
/// conversion would lose something.
#[must_use]
pub fn successor(object: &Object) -> Option<Object> {
    let fix = conversion(object, &Cluster::default(), &Platform::default())?.ok()?;
    let value = apply(&object.root().to_json(), &fix).ok()?;
    Object::completed_from(object, &value)
}

/// Checks that no object has the name of the successor, so that a conversion creates no duplicate.
fn name_is_free(object: &Object, successor: Kind, cluster: &Cluster) -> Result<(), ConversionError> {
    let name = object.name();
    let same = cluster.all(successor.group, successor.kind, "default", name);
    if !same.iter().any(|other| cluster.pairs(object, other)) {
        Ok(())
    } else {
        let kind = successor.kind;
        Err(format!("{kind} `{name}` is already among the files: if it is the successor, remove this one"))
    }
}
