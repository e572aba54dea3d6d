//! Common code of a run over files and of a workspace: which sets are complete clusters, and when views are built.

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::cluster::sets::{ManifestSet, Membership};
use crate::lint::engine::Engine;
use crate::steps::isolate;

/// Number of objects above which views are built before a rule reads them.
pub(crate) const PREBUILD_VIEWS_ABOVE: usize = 256;

/// Whether each set, and last the set of files in no set, is a complete cluster: it may be one, and the configuration
/// of one of its files states it.
pub(crate) fn complete_sets<'a>(
    sets: &[ManifestSet],
    files: impl Iterator<Item = (&'a [Membership], &'a Engine)>,
) -> Vec<bool> {
    let mut stated = vec![false; sets.len() + 1];
    for (memberships, _) in files.filter(|(_, engine)| engine.settings().complete) {
        memberships.iter().for_each(|membership| stated[membership.set] = true);
        stated[sets.len()] |= memberships.is_empty();
    }
    let may_be = sets.iter().map(|set| set.may_be_complete).chain([sets.is_empty()]);
    stated.into_iter().zip(may_be).map(|(stated, may_be)| stated && may_be).collect()
}

/// Builds all views of some clusters on all threads: otherwise the first rule to read a view would block all others.
/// If a view panics here, it panics again in the rules that read it.
pub(crate) fn build_views(clusters: &[&Cluster]) {
    let builds =
        clusters.iter().flat_map(|cluster| cluster.table_builders().map(move |build| (build, *cluster)));
    // Unsplit, so that long builds do not end up on one thread.
    builds.par_bridge().for_each(|(build, cluster)| _ = isolate(|| build(cluster)));
}
