//! What a review takes does not grow with the number of objects in the cluster, and an object that is not in the snapshot
//! yet does not cost the building of another one. Both are counted in steps, which are the same on every machine.

#[path = "../benches/objects/mod.rs"]
mod objects;

use gpulint_rules::{Cluster, Engine, Object, RULES, Settings, steps};
use serde_json::{Value, json};

use crate::review::{ReviewContext, review_in_context};
use objects::{class, deployment, job, pod, pool, scaled};

/// The number of pools of the larger cluster: a review may look at each once.
const POOLS: usize = 60;

/// A cluster with such numbers of objects. The first of each kind are equal in all clusters.
fn cluster([pods, deployments, pools, scalers]: [usize; 4]) -> Cluster {
    let mut all: Vec<Value> = (0..pods).map(pod).collect();
    all.extend((0..deployments).map(deployment));
    all.extend((0..pools).map(|n| pool(&format!("gpu-{n}"))));
    all.extend((0..scalers).map(scaled));
    all.push(class());
    let mut cluster = Cluster::new(true);
    all.iter().filter_map(Object::from_json).for_each(|object| cluster.apply(object));
    cluster.build_views(&Settings::default().platform);
    cluster
}

fn clusters() -> [Cluster; 2] {
    [[20, 10, 5, 10], [900, 300, POOLS, 200]].map(cluster)
}

/// The steps of a second review of an object: the first one computes what all share.
fn steps_of(engine: &Engine, cluster: &Cluster, object: &Value) -> u64 {
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": object["metadata"]["name"],
        "namespace": object["metadata"]["namespace"], "object": object, "userInfo": {"username": "admin"}}});
    let body = body.to_string().into_bytes();
    let context = ReviewContext { from_api_server: true, cluster_is_fed: true, ..ReviewContext::default() };
    let taken = || {
        let before = steps::tally();
        review_in_context(engine, cluster, context, &body).unwrap();
        steps::tally() - before
    };
    taken();
    taken()
}

fn cases() -> Vec<(&'static str, Value)> {
    vec![
        ("NodePool", pool("new")),
        ("Deployment", deployment(1_000_000)),
        ("Deployment with a scaler", deployment(7)),
        ("Job", job()),
        ("ScaledObject", scaled(7)),
        ("ScaledObject without a target", scaled(1_000_000)),
        ("Pod", pod(1_000_000)),
    ]
}

#[test]
fn a_review_takes_as_many_steps_beside_many_objects_as_beside_few() {
    let engine = Engine::new(Settings::default());
    let [few, many] = clusters();
    for (name, object) in cases() {
        let growth = |engine: &Engine| {
            steps_of(engine, &many, &object).saturating_sub(steps_of(engine, &few, &object))
        };
        if growth(&engine) <= POOLS as u64 {
            continue;
        }
        let growth_of =
            |id: &str| growth(&Engine::new(Settings { select: vec![id.to_owned()], ..Settings::default() }));
        let grown: Vec<(&str, u64)> = RULES
            .iter()
            .map(|rule| (rule.id, growth_of(rule.id)))
            .filter(|(_, growth)| *growth > 0)
            .collect();
        panic!("{name}: {grown:?}");
    }
}

#[test]
fn a_cluster_with_another_object_shares_what_it_does_not_change() {
    let engine = Engine::new(Settings::default());
    for cluster in clusters() {
        for (name, mut object) in cases().into_iter().skip(2).filter(|(name, _)| !name.contains("Pod")) {
            object["metadata"]["labels"] = json!({"changed": "true"});
            let new = Object::from_json(&object).unwrap();
            let id = new.id();
            let namespace = id.namespace().unwrap_or("default");
            let old = cluster.all(&id.group, &id.kind, namespace, &id.name).to_vec();
            let before = steps::tally();
            let other = cluster.with_replaced(&old, std::slice::from_ref(&new));
            let taken = steps::tally() - before;
            assert!(taken < 1_000, "{name}: {taken} steps");
            let found = |cluster: &Cluster| cluster.all(&id.group, &id.kind, namespace, &id.name).to_vec();
            assert!(
                matches!(found(&other).as_slice(), [found] if found.root().to_json() == object),
                "{name}"
            );
            assert_eq!(found(&cluster).len(), old.len());
            assert_eq!(other.objects().len(), cluster.objects().len() + 1 - old.len());
            // As in a cluster that is filled anew.
            let others =
                cluster.objects().iter().filter(|one| !old.iter().any(|old| old.is_same_resource(one)));
            let mut filled = cluster.successor(true);
            others.chain([&new]).for_each(|object| filled.apply(object.clone()));
            for (case, asked) in cases() {
                let asked = Object::from_json(&asked).unwrap();
                let findings = |cluster: &Cluster| {
                    let found = engine.review_object(&asked, cluster).findings;
                    found.iter().map(|finding| (finding.rule.id, finding.message.clone())).collect::<Vec<_>>()
                };
                assert_eq!(findings(&other), findings(&filled), "{case} beside another {name}");
            }
        }
    }
}
