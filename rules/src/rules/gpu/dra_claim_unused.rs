//! A claim allocates a device that no container uses.
//!
//! # Why
//! Each entry under `resourceClaims` of a pod reserves its devices when the pod is scheduled. Only
//! containers that name it in `resources.claims` get access: a claim that none names keeps a GPU from
//! everybody. A ResourceClaimTemplate that no workload of the input names is advice.
//!
//! # Fix
//! Name the claim in the container that uses it, or remove it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        resourceClaims:
//!          - name: gpu # <-
//!            resourceClaimTemplateName: single-gpu
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//! -          resources: {requests: {cpu: 4, memory: 16Gi}}
//! +          resources: {requests: {cpu: 4, memory: 16Gi}, claims: [{name: gpu}]}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::query::Query;
use crate::rules::gpu::dra_claims::{claims, is_of_accelerators, resolve, used};
use crate::rules::prelude::*;

const KINDS: &[Kind] = kinds![[Kind::RESOURCE_CLAIM_TEMPLATE], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "dra-claim-unused",
    kinds: KINDS,
    reads: kinds![CHART_KINDS, [Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE], WORKLOAD_KINDS],
    reports_absence: true,
    docs: docs(include_str!("dra_claim_unused.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        return unreferenced(object, ctx);
    }
    if object.may_lack_fields() {
        return None;
    }
    for template in templates(object) {
        let list = template.spec.get("resourceClaims");
        if !list.is_sequence()
            || template.spec.has_unknown_key()
            || template.spec.get("containers").is_unknown()
        {
            continue;
        }
        let unknown = template.all_containers().any(|container| {
            let resources = container.get("resources");
            container.has_unknown_key()
                || resources.has_unknown_key()
                || resources.is_unknown()
                || resources.get("claims").has_unknown()
        });
        if unknown {
            continue;
        }
        for claim in claims(&template) {
            let name = claim.get("name");
            let Some(text) = name.text() else { continue };
            if used(&template).any(|use_| use_.get("name").text() == Some(text)) {
                continue;
            }
            // Drivers of networks prepare the whole pod: no container names their claims.
            let severity = match resolve(object, &claim, ctx).map(is_of_accelerators) {
                Some(false) => continue,
                Some(true) => Severity::Warning,
                None => Severity::Info,
            };
            ctx.report(&name, format!("no container uses claim `{text}`, which allocates its devices"))
                .severity(severity)
                .reports_absence(false)
                .help("name it in `resources.claims` of the container that uses it, or remove it");
        }
    }
    None
}

/// The ResourceClaimTemplates that workloads name, by namespace and name, with no name for a placeholder.
struct NamedClaimTemplates;

impl Query for NamedClaimTemplates {
    const SLOT: QuerySlot = QuerySlot::NamedClaimTemplates;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Key = ();
    type Value = Arc<BTreeSet<(String, Option<String>)>>;

    fn compute(cluster: &Cluster, (): &()) -> Self::Value {
        let mut named = BTreeSet::new();
        for workload in WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)) {
            let namespace = workload.namespace_or_default();
            for claim in templates(workload).iter().flat_map(claims) {
                let name = claim.get("resourceClaimTemplateName");
                if name.is_unknown() || name.text().is_some() {
                    named.insert((namespace.to_owned(), name.text().map(str::to_owned)));
                }
            }
        }
        Arc::new(named)
    }
}

fn unreferenced(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.is_owned() || object.name().is_empty() {
        return None;
    }
    let namespace = object.namespace_or_default();
    let cluster = ctx.cluster();
    // Charts that the input installs may use it.
    if may_bring_objects(cluster) {
        return None;
    }
    let named = cluster.query::<NamedClaimTemplates>(&());
    let is_named = |name: Option<&str>| named.contains(&(namespace.to_owned(), name.map(str::to_owned)));
    if is_named(Some(object.name())) || is_named(None) {
        return None;
    }
    let name = object.display_name();
    let message = format!("no workload of the input uses template `{name}`");
    ctx.report(&object.path(&["metadata", "name"]), message)
        .severity(Severity::Info)
        .help("name it as `resourceClaimTemplateName` under a pod's `resourceClaims`");
    None
}
