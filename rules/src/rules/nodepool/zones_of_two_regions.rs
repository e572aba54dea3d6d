//! Zones of two regions are listed for the nodes of one cluster.
//!
//! # Why
//! All nodes of an EKS cluster are in one region. A zone of another region in a list matches nothing, so that
//! the pool has fewer zones than it seems, and often none of those that its pods or volumes are in. Nodes start
//! in the others, so that this is a warning; an error where names and ids of zones leave none. Two pools
//! of one cluster with zones of different regions are the same mistake, mostly of a copied manifest: one of
//! them never starts a node. Local Zones and Wavelength Zones belong to the region that their name starts
//! with. Where the input has two versions of one pool, its pools are those of several clusters. A pod that asks
//! for a zone of another region than all pools that list zones stays Pending.
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

use crate::catalog::{self, ZONE, ZONE_ID};
use crate::cluster::views::listed_zones;
use crate::facts::region::{of_zone, of_zone_id};
use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;
use crate::rules::scheduling::pod_fits_no_pool;
use crate::workload::node_labels::labels_of_all_nodes;

pub(crate) static RULE: Rule = Rule {
    id: "zones-of-two-regions",
    kinds: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    reads: pod_fits_no_pool::READS,
    docs: docs(include_str!("zones_of_two_regions.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

/// Maximum number of pools of another region that a pool is compared with.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    match NodePool::new(object) {
        Some(pool) => of_pool(&pool, ctx),
        None => of_pods(object, ctx),
    }
}

/// Reports a zone that pods ask for, in another region than the pools of their cluster.
fn of_pods(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::DAEMON_SET) || object.may_lack_fields() || object.controller().is_some() {
        return None;
    }
    for template in templates(object) {
        let zones = zones_of_pods(&template);
        let Some((node, region)) = zones.first() else { continue };
        let views = ctx.cluster().views();
        if zones.iter().any(|(_, region)| !views.pools_of_region(region).is_empty()) {
            continue;
        }
        let mut pools =
            views.pools_of_other_regions(region).flat_map(|pools| pools.iter().take(MAX_COMPARED));
        let Some(pool) = pools.find(|pool| ctx.cluster().surely_pairs(object, pool)) else { continue };
        let listed = NodePool::new(pool).and_then(|pool| listed_zones(&pool).next());
        let Some((zone, elsewhere)) = listed else { continue };
        if has_versions(pool, ctx) || pod_fits_no_pool::is_reported(object, &template, ctx) {
            continue;
        }
        let (name, asked) = (object.display_name(), ellipsize(node.text().unwrap_or_default()));
        let message =
            format!("`{name}` asks for zone `{asked}`, and the NodePools of its cluster are in {elsewhere}");
        ctx.report(node, message)
            .help(format!("write a zone of {elsewhere}: all nodes of a cluster are in one region"))
            .related(pool, &zone, "a zone of a pool");
    }
    None
}

/// The zones that pods of a template must be in, with their regions.
fn zones_of_pods<'a>(template: &Template<'a>) -> Vec<(Node<'a>, &'a str)> {
    let region_of = |key: &str, zone: &Node<'a>| match normalise(key) {
        ZONE => of_zone(zone.text()?),
        ZONE_ID => of_zone_id(zone.text()?, catalog::regions().iter().copied()),
        _ => None,
    };
    let zones_of = |(key, values): (&str, Vec<Node<'a>>)| -> Option<Vec<_>> {
        values.into_iter().map(|zone| region_of(key, &zone).map(|region| (zone, region))).collect()
    };
    labels_of_all_nodes(template).into_iter().filter_map(zones_of).flatten().collect()
}

fn of_pool(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if pool.is_other_provider() || pool.object().may_lack_fields() {
        return None;
    }
    let own: Vec<_> = listed_zones(pool).collect();
    let (first, region) = own.first()?;
    if let Some((other, elsewhere)) = own.iter().find(|(_, other)| other != region) {
        let message =
            format!("zones of {region} and of {elsewhere}: the nodes of a cluster are in one region");
        let finding = ctx.report(other, message);
        if leaves_no_zone(pool, &own) {
            finding
                .severity(Severity::Error)
                .help("write zones of the cluster's region: the pool starts no node");
        } else {
            finding.help("write the zones of the cluster's region alone: the others match nothing");
        }
        finding.related(pool.object(), first, "a zone of the other region");
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
    let elsewhere: Vec<&[Object]> = elsewhere.collect();
    let mut others = elsewhere.iter().flat_map(|pools| pools.iter().take(MAX_COMPARED));
    if has_versions(object, ctx) || others.any(|pool| has_versions(pool, ctx)) {
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

/// Whether the names of zones and the ids of zones that a pool lists have no region in common.
fn leaves_no_zone(pool: &NodePool<'_>, listed: &[(Node<'_>, &str)]) -> bool {
    let is_name = |zone: &Node<'_>| zone.text().is_some_and(|text| of_zone(text).is_some());
    let (names, ids): (Vec<_>, Vec<_>) = listed.iter().partition(|(zone, _)| is_name(zone));
    let has_common = names.iter().any(|(_, region)| ids.iter().any(|(_, other)| other == region));
    !names.is_empty() && !ids.is_empty() && !has_common && !pool.requirements().has_unknown()
}

/// Whether the input has two versions of a pool: those of two clusters whose manifests came together.
fn has_versions(pool: &Object, ctx: &Context<'_>) -> bool {
    let kind = Kind::NODE_POOL;
    ctx.cluster().all(kind.group, kind.kind, "default", pool.name()).len() > 1
}
