//! The versions that each kind of the built-in, Karpenter and KEDA groups ever had.
//!
//! These groups are closed: only their projects define kinds in them, so a kind or version that is not in the table is
//! a mistake, as long as the cluster is not newer than the table
//! ([`Product::newest`](crate::platform::Product::newest)). Every other group, such as
//! `gateway.networking.k8s.io`, belongs to custom resources, about which nothing is known here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static TEXT: &str = include_str!("api_versions.tsv");

/// Kinds by group, with their versions; the preferred version first.
static GROUPS: LazyLock<BTreeMap<&'static str, BTreeMap<&'static str, Vec<&'static str>>>> =
    LazyLock::new(|| {
        let mut groups: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            if let (Some(group), Some(kind), Some(versions)) =
                (columns.next(), columns.next(), columns.next())
            {
                let group = if group == "-" { "" } else { group };
                groups.entry(group).or_default().insert(kind, versions.split(' ').collect());
            }
        }
        groups
    });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionsOfKind {
    /// The group is not closed.
    OtherGroup,
    /// The closed group never had the kind.
    NoSuchKind,
    /// Every version of the kind; the preferred version first.
    Known(&'static [&'static str]),
}

pub(crate) fn versions_of(group: &str, kind: &str) -> VersionsOfKind {
    match GROUPS.get(group) {
        None => VersionsOfKind::OtherGroup,
        Some(kinds) => kinds.get(kind).map_or(VersionsOfKind::NoSuchKind, |v| VersionsOfKind::Known(v)),
    }
}

/// The closed groups that have a kind with this name, with its versions there.
pub(crate) fn groups_with(kind: &str) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    GROUPS.iter().filter_map(move |(group, kinds)| Some((*group, kinds.get(kind)?.as_slice())))
}

pub(crate) fn kinds_of(group: &str) -> impl Iterator<Item = &'static str> {
    GROUPS.get(group).into_iter().flat_map(|kinds| kinds.keys().copied())
}

pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    GROUPS.values().flat_map(|kinds| kinds.keys().copied())
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, TEXT, VersionsOfKind, groups_with, kinds_of, versions_of};

    #[test]
    fn every_line_is_read() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(GROUPS.values().map(std::collections::BTreeMap::len).sum::<usize>(), lines);
        let versions = GROUPS.values().flat_map(|kinds| kinds.values().flatten());
        assert!(versions.into_iter().all(|v| v.starts_with('v') && v.len() > 1));
    }

    #[test]
    fn groups_are_closed_or_not() {
        assert_eq!(versions_of("keda.sh", "ScaledObject"), VersionsOfKind::Known(&["v1alpha1"]));
        assert_eq!(versions_of("karpenter.sh", "EC2NodeClass"), VersionsOfKind::NoSuchKind);
        for group in ["gateway.networking.k8s.io", "snapshot.storage.k8s.io", "metrics.k8s.io", "x-k8s.io"] {
            assert_eq!(versions_of(group, "Anything"), VersionsOfKind::OtherGroup);
        }
        assert_eq!(groups_with("Deployment").map(|(g, _)| g).collect::<Vec<_>>(), ["apps", "extensions"]);
        assert!(kinds_of("apps").any(|kind| kind == "StatefulSet"));
    }
}
