//! The fast comparison gives the same results as running the scheduler for each pool separately.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::placement::feasibility::{
    Evaluation, Feasible, FeasibleKey, PodShape, candidates_for, remember_admissions,
};
use crate::cluster::placement::pools::{CandidatePools, PoolKey};
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::scheduling::Pod;
use crate::object::Object;
use crate::workload::template::templates;
use std::sync::Arc;

fn pool(name: &str, weight: i64, labels: &Value, more: &[Value]) -> Object {
    let mut requirements =
        vec![json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g6", "g5"]})];
    requirements.extend(more.iter().cloned());
    Object::from_json(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"weight": weight, "template": {"metadata": {"labels": labels}, "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "requirements": requirements}}}
    }))
    .unwrap()
}

fn asks(spec: Value) -> Pod {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]);
    let object = Object::from_json(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec
    }))
    .unwrap();
    let template = templates(&object).into_iter().next().unwrap();
    to_scheduling_pod(&template).unwrap()
}

fn terms(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": terms}}}})
}

#[test]
fn feasible_pools_are_those_that_admit_the_pod_by_themselves() {
    let team = |values: Value| json!({"key": "team", "operator": "In", "values": values});
    let mut cluster = Cluster::new(true);
    for object in [
        pool("plain", 1, &json!({}), &[]),
        pool("plain-too", 9, &json!({}), &[]),
        pool("red", 1, &json!({"team": "red"}), &[]),
        pool("blue", 2, &json!({"team": "blue"}), &[]),
        pool("blue-too", 3, &json!({"team": "blue"}), &[]),
        pool("both", 4, &json!({}), &[team(json!(["red", "blue"]))]),
        pool("any", 5, &json!({}), &[json!({"key": "team", "operator": "Exists"})]),
        pool("not-red", 6, &json!({}), &[json!({"key": "team", "operator": "NotIn", "values": ["red"]})]),
    ] {
        cluster.apply(object);
    }
    let named = |name: &str| json!({"key": "karpenter.sh/nodepool", "operator": "In", "values": [name]});
    let pods = [
        asks(json!({})),
        asks(json!({"nodeSelector": {"team": "red"}})),
        asks(json!({"nodeSelector": {"team": "blue"}})),
        asks(json!({"nodeSelector": {"team": "green"}})),
        asks(json!({"nodeSelector": {"nobody/has": "this"}})),
        asks(json!({"nodeSelector": {"team": "blue", "karpenter.sh/nodepool": "blue-too"}})),
        asks(json!({"nodeSelector": {"karpenter.sh/nodepool": "plain-too"}})),
        asks(json!({"nodeSelector": {"karpenter.sh/nodepool": "missing"}})),
        asks(json!({"nodeSelector": {"karpenter.k8s.aws/instance-family": "g6"}})),
        asks(json!({"nodeSelector": {"karpenter.k8s.aws/instance-family": "c7i"}})),
        asks(terms(json!([
            {"matchExpressions": [team(json!(["red"]))]},
            {"matchExpressions": [named("plain")]}
        ]))),
        asks(terms(
            json!([{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}]),
        )),
        asks(terms(json!([{"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}]))),
        asks(terms(json!([{"matchExpressions": [
            {"key": "karpenter.sh/nodepool", "operator": "NotIn", "values": ["plain"]}]}]))),
    ];
    let keys: Vec<FeasibleKey> = pods
        .iter()
        .map(|pod| FeasibleKey { shape: Arc::new(PodShape::new(pod.clone())), eks: true })
        .collect();
    let all = cluster.table::<CandidatePools>().get(&PoolKey::All);
    let name = |pool: &Object| pool.name().to_owned();
    let brute_force = |key: &FeasibleKey| -> Vec<String> {
        let evaluation = Evaluation::new(&cluster, key);
        let admitting = all.iter().filter(|pool| evaluation.decide(pool, &mut None).unwrap());
        admitting.map(|pool| name(pool.object())).collect()
    };
    // Decisions cached for many pods together equal those for each pod alone.
    let (together, single) = keys.split_at(7);
    remember_admissions(&cluster, together);
    let mut sizes = Vec::new();
    for key in together.iter().chain(single).chain(together) {
        let feasible = cluster.query::<Feasible>(key).unwrap().unwrap();
        let names: Vec<String> = feasible.iter().map(|pool| name(pool.object())).collect();
        assert_eq!(names, brute_force(key));
        sizes.push(names.len());
    }
    assert!(sizes.contains(&0) && sizes.contains(&1) && sizes.contains(&8), "{sizes:?}");
    let candidates = |key: &FeasibleKey| candidates_for(&cluster, &key.shape).unwrap().len();
    let counts: Vec<usize> = keys.iter().map(candidates).collect();
    assert_eq!(counts, [8, 4, 5, 2, 0, 1, 1, 0, 8, 8, 8, 8, 8, 8]);
}

#[test]
fn a_successor_remembers_which_pools_admit_which_pods() {
    let key = FeasibleKey { shape: Arc::new(PodShape::new(asks(json!({})))), eks: true };
    let mut cluster = Cluster::new(true);
    cluster.apply(pool("a", 1, &json!({}), &[]));
    assert_eq!(cluster.query::<Feasible>(&key).unwrap().unwrap().len(), 1);
    let mut next = cluster.successor(true);
    // Another object with another name and weight: the decision is the same.
    let renamed = pool("b", 2, &json!({}), &[]);
    next.apply(renamed);
    let known = next.table::<CandidatePools>().get(&PoolKey::All);
    assert_eq!(Evaluation::new(&next, &key).remembered(&known[0]), Some(true));
    assert_eq!(Evaluation::new(&Cluster::new(true), &key).remembered(&known[0]), None);
    assert_eq!(next.query::<Feasible>(&key).unwrap().unwrap().len(), 1);
}
