//! What a run over files and a workspace have in common: which sets are whole clusters, and when their views are built.

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::cluster::sets::{ManifestSet, Membership};
use crate::lint::engine::Engine;
use crate::steps::isolate;

/// Number of objects above which views are built before a rule reads them.
pub(crate) const PREBUILD_VIEWS_ABOVE: usize = 256;

/// Whether each set, and last what no set has, is a whole cluster: where it may be one, and the configuration of one of its
/// files says so.
pub(crate) fn complete_sets<'a>(
    sets: &[ManifestSet],
    files: impl Iterator<Item = (&'a [Membership], &'a Engine)>,
) -> Vec<bool> {
    let mut says_so = vec![false; sets.len() + 1];
    for (memberships, _) in files.filter(|(_, engine)| engine.settings().complete) {
        memberships.iter().for_each(|membership| says_so[membership.set] = true);
        says_so[sets.len()] |= memberships.is_empty();
    }
    let may_be = sets.iter().map(|set| set.may_be_complete).chain([sets.is_empty()]);
    says_so.into_iter().zip(may_be).map(|(says_so, may_be)| says_so && may_be).collect()
}

/// Builds all views of some clusters on all threads: the first rule to read a view would keep all others waiting. Where one
/// panics, the rules that read it do so, too.
pub(crate) fn build_views(clusters: &[&Cluster]) {
    let builders = Cluster::table_builders();
    let builds = clusters.iter().flat_map(|cluster| builders.iter().map(move |build| (build, *cluster)));
    // One after the other, so that none of the long ones is left for the end.
    builds.par_bridge().for_each(|(build, cluster)| _ = isolate(|| build(cluster)));
}
