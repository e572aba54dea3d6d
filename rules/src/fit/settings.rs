//! The settings of Karpenter that decide where pods go: as the configuration states them, otherwise as the installations of Karpenter in
//! the cluster do.

use crate::cluster::Cluster;
use crate::karpenter::installation::{self, INSTALLERS};
use crate::karpenter::minors;
use crate::karpenter::requirement::simulates_lifecycle;
use crate::karpenter::scheduling::{Pool, SchedulerOptions};
use crate::object::Object;
use crate::platform::{MinValuesPolicy, Platform, Version};

pub(super) fn options(platform: &Platform, cluster: &Cluster, pools: &[Pool]) -> SchedulerOptions {
    // Only a known gate counts: where no installation is in the input, static pools are taken to have their nodes.
    let has_static = pools.iter().any(|pool| pool.replicas.is_some());
    // Installations are only looked for where a pool depends on what they say.
    let counts_values =
        pools.iter().any(|pool| pool.requirements.iter().any(|spec| spec.min_values.is_some()));
    SchedulerOptions {
        eks: platform.eks,
        region: platform.region.clone(),
        standing_nodes: !has_static || gate("StaticCapacity", platform, cluster) != Some(false),
        // Karpenter counts values that a requirement excludes before 1.14.3, so that it holds for minors before 1.14.
        all_values_count: platform.karpenter < Version::new(1, 14),
        // `getDaemonOverhead` became `buildDaemonOverheadGroups`.
        daemonsets_on_all_types: platform.karpenter < Version::new(1, 14),
        simulates_lifecycle: simulates_lifecycle(platform.karpenter),
        best_effort_min_values: counts_values
            && min_values_policy(platform, cluster) == MinValuesPolicy::BestEffort,
        ..SchedulerOptions::default()
    }
}

/// Whether a feature gate is on. `None` if neither the platform nor an installation says so, or if installations differ: then the
/// default holds in most clusters, but not in all.
pub(super) fn gate(name: &str, platform: &Platform, cluster: &Cluster) -> Option<bool> {
    if let Some(on) = platform.feature_gates.get(name) {
        return Some(*on);
    }
    let gate = minors::gate(name)?;
    let (_, default) = gate.state(platform.karpenter)?;
    common(cluster, |object| Some(installation::setting(object, gate)?.on.unwrap_or(default)))
}

/// The policy for `minValues`; the default where nothing says so.
pub(crate) fn min_values_policy(platform: &Platform, cluster: &Cluster) -> MinValuesPolicy {
    let installed = || common(cluster, installation::min_values_policy);
    platform.min_values_policy.or_else(installed).unwrap_or(MinValuesPolicy::Strict)
}

/// What all installations of a cluster that say something say.
fn common<T: PartialEq>(cluster: &Cluster, of: impl Fn(&Object) -> Option<T>) -> Option<T> {
    let mut found = INSTALLERS.iter().flat_map(|kind| cluster.of(*kind)).filter_map(of);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}
