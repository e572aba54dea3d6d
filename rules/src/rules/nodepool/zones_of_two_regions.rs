//! Zones of two regions are listed for the nodes of one cluster.
//!
//! # Why
//! All nodes of an EKS cluster are in one region. A zone of another region in a list matches nothing, so that
//! the pool has fewer zones than it seems, and often none of those that its pods or volumes are in. Two pools
//! of one cluster with zones of different regions are the same mistake, mostly of a copied manifest: one of
//! them never starts a node. Local Zones and Wavelength Zones belong to the region that their name starts
//! with. Where the input has two versions of one pool, its pools are those of several clusters.
//!
//! # Fix
//! Write the zones of the cluster's own region.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - key: topology.kubernetes.io/zone
//!            operator: In
//! -          values: [us-east-1a, us-west-2b] # <-
//! +          values: [us-east-1a, us-east-1b]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html>

use crate::cluster::views::listed_zones;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "zones-of-two-regions",
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("zones_of_two_regions.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

/// Maximum number of pools of another region that a pool is compared with.
const MAX_COMPARED: usize = 256;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if pool.is_other_provider() || pool.object().may_lack_fields() {
        return None;
    }
    let own: Vec<_> = listed_zones(pool).collect();
    let (first, region) = own.first()?;
    if let Some((other, elsewhere)) = own.iter().find(|(_, other)| other != region) {
        let message =
            format!("zones of {region} and of {elsewhere}: the nodes of a cluster are in one region");
        ctx.report(other, message)
            .severity(Severity::Error)
            .help("write the zones of the cluster's region alone: the others match nothing")
            .related(pool.object(), first, "a zone of the other region");
        return None;
    }
    let region = *region;
    let object = pool.object();
    // One finding for both: at the later one.
    let earlier = |pools: &'_ [Object]| {
        let before = pools.iter().take_while(|other| other.sort_key() < object.sort_key());
        before.take(MAX_COMPARED).find(|other| ctx.cluster().surely_pairs(object, other)).cloned()
    };
    let elsewhere = ctx.cluster().views().pools_of_other_regions(region);
    // Two versions of one pool are those of two clusters whose manifests came together.
    let has_versions = |pool: &Object| {
        let kind = Kind::NODE_POOL;
        ctx.cluster().all(kind.group, kind.kind, "default", pool.name()).len() > 1
    };
    let elsewhere: Vec<&[Object]> = elsewhere.collect();
    let mut others = elsewhere.iter().flat_map(|pools| pools.iter().take(MAX_COMPARED));
    if has_versions(object) || others.any(has_versions) {
        return None;
    }
    let other = elsewhere.into_iter().filter_map(earlier).min_by(|a, b| a.sort_key().cmp(&b.sort_key()))?;
    let (node, elsewhere) = listed_zones(&NodePool::new(&other)?).next()?;
    let message = format!(
        "pool `{}` is in {region}, and pool `{}` of the same cluster in {elsewhere}",
        object.display_name(),
        other.display_name()
    );
    ctx.report(first, message)
        .help("write the zones of the cluster's region: one of both pools never starts a node")
        .related(&other, &node, "a zone of the other region");
    None
}
