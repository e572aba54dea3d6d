//! Changes between versions of Karpenter that affect an object without a finding.

use crate::catalog::CAPACITY_TYPE;
use crate::facts::table;
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

/// What a version of Karpenter brings that no manifest shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeNote {
    /// The version with the change.
    pub version: Version,
    /// `nodes`, `crds`, `permissions`, `settings` or `metrics`.
    pub topic: &'static str,
    /// One line without a full stop.
    pub text: &'static str,
}

/// The notes on the versions of Karpenter after `from`, up to `to`, in order. Empty if `to` is not newer than `from`.
pub fn karpenter_upgrade(from: Version, to: Version) -> Vec<UpgradeNote> {
    let notes = table::read(include_str!("upgrades.tsv"), |[version, topic, text]: [&'static str; 3]| {
        Some(UpgradeNote { version: Version::parse(version)?, topic, text })
    });
    notes.filter(|note| from < note.version && note.version <= to).collect()
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
    if object.is(Kind::NODE_POOL) {
        for budget in object.path(&["spec", "disruption", "budgets"]).items() {
            budget_changes(&budget, &mut note);
        }
    }
    if object.is(Kind::EC2_NODE_CLASS) && object.path(&["spec", "kubelet"]).is_set() {
        note(
            15,
            &object.path(&["spec", "kubelet"]),
            "its text is hashed: `100m` and `0.1` differ, so a change of spelling replaces nodes",
        );
    }
    changes
}

fn budget_changes(budget: &Node<'_>, note: &mut impl FnMut(u32, &Node<'_>, &'static str)) {
    let reasons = budget.get("reasons");
    let names: Vec<&str> = reasons.items().filter_map(|reason| reason.text()).collect();
    let repeats = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
    if repeats {
        note(13, &reasons, "the API server rejects a reason that is named twice");
    }
    let nodes = budget.get("nodes");
    if !reasons.is_set() && matches!(nodes.string_or_number().as_deref(), Some("0" | "0%")) {
        note(15, &nodes, "this budget also stops node repair, if its gate is on");
    }
}

#[cfg(test)]
mod tests {
    use super::karpenter_upgrade;
    use crate::platform::{Product, Version};

    #[test]
    fn every_minor_has_its_notes() {
        let (oldest, newest) = (Product::Karpenter.oldest(), Product::Karpenter.newest());
        let all = karpenter_upgrade(Version::new(0, 37), newest);
        let lines = include_str!("upgrades.tsv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all.len(), lines.count());
        for version in Product::Karpenter.supported() {
            assert!(all.iter().any(|note| note.version == version), "{version}");
        }
        for note in &all {
            let topics = ["nodes", "crds", "permissions", "settings", "metrics"];
            assert!(topics.contains(&note.topic) && !note.text.ends_with('.'), "{note:?}");
            assert!(note.text.chars().count() <= 130, "{note:?}");
        }
        assert!(all.iter().is_sorted_by_key(|note| note.version));
        assert!(karpenter_upgrade(newest, oldest).is_empty());
        let step = karpenter_upgrade(Version::new(1, 11), Version::new(1, 12));
        assert!(step.iter().any(|note| note.topic == "nodes" && note.text.contains("CA bundle")));
    }
}
