//! Changes between versions of Karpenter that affect an object without a finding.

use crate::karpenter::nodepool::CAPACITY_TYPE;
use crate::karpenter::requirement_list::RequirementList;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::template::templates;

/// A change that comes with a version of Karpenter.
#[derive(Clone, Debug)]
pub struct VersionChange {
    /// The first version with the change.
    pub version: Version,
    pub object: Object,
    pub pointer: Pointer,
    pub text: &'static str,
}

/// The changes for an object between two versions of Karpenter. Empty if `to` is not newer than `from`.
pub fn karpenter_changes(object: &Object, from: Version, to: Version) -> Vec<VersionChange> {
    let mut changes = Vec::new();
    let mut note = |minor: u32, node: &Node<'_>, text: &'static str| {
        let version = Version::new(1, minor);
        if from < version && version <= to {
            changes.push(VersionChange { version, object: object.clone(), pointer: node.pointer(), text });
        }
    };
    let reserved = "reserved capacity is used without the feature gate `ReservedCapacity`";
    if let Some(list) = RequirementList::of(object) {
        for item in list.items().filter(|item| item.key() == Some(CAPACITY_TYPE)) {
            for value in item.values().items().filter(|value| value.text() == Some("reserved")) {
                note(6, &value, reserved);
            }
        }
    }
    let terms = object.path(&["spec", "capacityReservationSelectorTerms"]);
    if object.is(Kind::EC2_NODE_CLASS) && terms.items().next().is_some() {
        note(6, &terms, reserved);
    }
    for template in templates(object).iter().filter(|_| !object.is(Kind::DAEMON_SET)) {
        let claims = template.spec.get("resourceClaims");
        if claims.items().next().is_some() {
            note(7, &claims, "Karpenter starts no nodes for pods with resource claims");
        }
    }
    changes
}
