//! How the objects are found that a rule is asked about when another object changes ([`Pair`]). Each search begins with
//! a view, or with the names that an object has.
//!
//! [`Pair`]: crate::lint::rule::Pair

use crate::cluster::Cluster;
use crate::cluster::views::{as_target, scale_target};
use crate::facts::url::{host, service_of};
use crate::karpenter::nodepool::NodePool;
use crate::keda::{hpa_name, triggers};
use crate::kind::{Kind, SCALABLE_KINDS};
use crate::object::Object;
use crate::workload::template::templates;

pub(super) fn autoscalers(workload: &Object, cluster: &Cluster) -> Vec<Object> {
    let (views, target) = (cluster.views(), as_target(workload));
    [views.scaled_objects_of(&target), views.hpas_of(&target)].concat()
}

/// The autoscalers with the target of an autoscaler, and ScaledObjects whose HPA has the same name.
pub(super) fn rivals(autoscaler: &Object, cluster: &Cluster) -> Vec<Object> {
    let views = cluster.views();
    let mut found = Vec::new();
    if let Some(target) = scale_target(autoscaler).map(std::sync::Arc::new) {
        found.extend_from_slice(views.scaled_objects_of(&target));
        found.extend_from_slice(views.hpas_of(&target));
    }
    if let Some(name) = hpa_name(autoscaler).filter(|_| autoscaler.is(Kind::SCALED_OBJECT)) {
        let same_name = views.scaled_objects_of_hpa(autoscaler.namespace_or_default(), &name);
        found.extend(
            same_name
                .iter()
                .filter(|other| !found.iter().any(|o| o.ptr_eq(other)))
                .cloned()
                .collect::<Vec<_>>(),
        );
    }
    found
}

/// The scalers of KEDA that name an authentication.
pub(super) fn authenticated(authentication: &Object, cluster: &Cluster) -> Vec<Object> {
    let names = |scaler: &&Object| {
        triggers(scaler).any(|trigger| {
            let reference = trigger.node.get("authenticationRef");
            let kind = reference.get("kind").text().unwrap_or(Kind::TRIGGER_AUTHENTICATION.kind);
            reference.get("name").text() == Some(authentication.name()) && kind == authentication.kind()
        })
    };
    let kinds = [Kind::SCALED_OBJECT, Kind::SCALED_JOB];
    if authentication.is(Kind::CLUSTER_TRIGGER_AUTHENTICATION) {
        return kinds.iter().flat_map(|kind| cluster.of(*kind)).filter(names).cloned().collect();
    }
    let namespace = authentication.namespace_or_default();
    kinds.iter().flat_map(|kind| cluster.in_namespace(*kind, namespace)).filter(names).cloned().collect()
}

/// The ScaledObjects of a namespace with a trigger at a Service.
pub(super) fn asking(service: &Object, cluster: &Cluster) -> Vec<Object> {
    let (namespace, name) = (service.namespace_or_default(), service.name());
    let scaled = cluster.in_namespace(Kind::SCALED_OBJECT, namespace);
    scaled.filter(|scaled| services_asked(scaled).iter().any(|asked| asked == name)).cloned().collect()
}

/// The Services of its own namespace that the triggers of a scaler ask.
fn services_asked(scaler: &Object) -> Vec<String> {
    let namespace = scaler.namespace_or_default();
    let asked = |trigger: crate::keda::Trigger<'_>| {
        Some(service_asked(trigger.metadata().get("url").text()?, namespace)?.to_owned())
    };
    triggers(scaler).filter_map(asked).collect()
}

/// The Service of a namespace that a URL names. KEDA's operator resolves a name without a namespace in its own.
pub(super) fn service_asked<'t>(url: &'t str, namespace: &str) -> Option<&'t str> {
    let (name, there) = service_of(host(url)).filter(|_| url.contains("://"))?;
    (there == Some(namespace)).then_some(name)
}

/// What rules about a scaler read: its target, its authentications, the Services that it asks, and the LimitRanges.
pub(super) fn around_scaler(_: &Object, scaler: &Object, cluster: &Cluster) -> Vec<Object> {
    let namespace = scaler.namespace_or_default();
    let named = |kind: Kind, name: &str| cluster.all(kind.group, kind.kind, namespace, name).to_vec();
    let mut found = Vec::new();
    if let Some((_, _, name)) = scale_target(scaler) {
        found.extend(SCALABLE_KINDS.iter().flat_map(|kind| named(*kind, &name)));
    }
    for trigger in triggers(scaler) {
        if let Some(name) = trigger.node.get("authenticationRef").get("name").text() {
            found.extend(named(Kind::TRIGGER_AUTHENTICATION, name));
            let kind = Kind::CLUSTER_TRIGGER_AUTHENTICATION;
            found.extend(cluster.all(kind.group, kind.kind, "default", name).iter().cloned());
        }
    }
    found.extend(services_asked(scaler).iter().flat_map(|name| named(Kind::SERVICE, name)));
    found.extend(cluster.in_namespace(Kind::LIMIT_RANGE, namespace).cloned());
    found
}

/// The Services of a workload's pods.
pub(super) fn services(workload: &Object, cluster: &Cluster) -> Vec<Object> {
    let (views, namespace) = (cluster.views(), workload.namespace_or_default());
    let all = templates(workload);
    let found = all.iter().flat_map(|template| views.services_of(namespace, template));
    found.cloned().collect()
}

/// The workloads of the pods of a Service.
pub(super) fn around_service(_: &Object, service: &Object, cluster: &Cluster) -> Vec<Object> {
    let selected = cluster.views().selected_by_service(service).0;
    selected.into_iter().map(|workload| workload.object.clone()).collect()
}

/// The PDBs of a workload's pods.
pub(super) fn budgets(workload: &Object, cluster: &Cluster) -> Vec<Object> {
    let (views, namespace) = (cluster.views(), workload.namespace_or_default());
    let all = templates(workload);
    let mut found: Vec<Object> =
        all.iter().flat_map(|template| views.pdbs_of(namespace, template).0).cloned().collect();
    found.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    found.dedup_by(|a, b| a.ptr_eq(b));
    found
}

/// The other PDBs of the pods of a PDB.
pub(super) fn overlapping(budget: &Object, cluster: &Cluster) -> Vec<Object> {
    let (workloads, _) = cluster.views().selected_by(budget);
    let mut found: Vec<Object> = workloads.iter().flat_map(|w| budgets(&w.object, cluster)).collect();
    found.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    found.dedup_by(|a, b| a.ptr_eq(b));
    found
}

/// What rules about a PDB read: the workloads of its pods, one that is new among them, with their PDBs and autoscalers.
pub(super) fn around_budget(object: &Object, budget: &Object, cluster: &Cluster) -> Vec<Object> {
    let around = |workload: &Object| [autoscalers(workload, cluster), budgets(workload, cluster)].concat();
    let mut found = around(object);
    for workload in cluster.views().selected_by(budget).0 {
        found.push(workload.object.clone());
        found.extend(around(&workload.object));
    }
    found
}

/// The workloads that select a NodePool.
pub(super) fn selecting(pool: &Object, cluster: &Cluster) -> Vec<Object> {
    let pool = NodePool::new(pool);
    let found = pool.map(|pool| cluster.views().selecting(&pool)).unwrap_or_default();
    found.iter().map(|workload| workload.object.clone()).collect()
}

pub(super) fn node_pools(_: &Object, _: &Object, cluster: &Cluster) -> Vec<Object> {
    cluster.of(Kind::NODE_POOL).cloned().collect()
}

/// The NodePools of an EC2NodeClass.
pub(super) fn pools_of_class(class: &Object, cluster: &Cluster) -> Vec<Object> {
    cluster.views().class_pools().pools_of(class).pools
}

/// The NodeOverlays of the same weight.
pub(super) fn overlays(overlay: &Object, cluster: &Cluster) -> Vec<Object> {
    let weight = overlay.path(&["spec", "weight"]).int_or(0);
    weight.map(|weight| cluster.views().overlays_of_weight(weight).to_vec()).unwrap_or_default()
}
