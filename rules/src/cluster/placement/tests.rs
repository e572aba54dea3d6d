//! What is compared quickly says what the scheduler says of each pool by itself.

use serde_json::{Value, json};

use crate::cluster::objects::Index;
use crate::cluster::placement::feasibility::{Feasibility, pod_key};
use crate::cluster::placement::pools::alternatives;
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::scheduling::Pod;
use crate::object::Object;
use crate::workload::template::templates;

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
fn rows_are_what_each_site_says_by_itself() {
    let team = |values: Value| json!({"key": "team", "operator": "In", "values": values});
    let mut index = Index::new(true);
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
        index.apply(object);
    }
    let places = Feasibility::new(&index, true);
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
    let keys: Vec<String> = pods.iter().map(pod_key).collect();
    let asked: Vec<(&Pod, &str)> = pods.iter().zip(keys.iter().map(String::as_str)).collect();
    let rows = places.feasible_pools(&asked);
    for (pod, row) in pods.iter().zip(&rows) {
        assert_eq!(row.as_deref(), Some(&places.brute_force(pod)[..]), "{pod:?}");
        // Those that admit a pod are among those that concern it.
        let alternatives = alternatives(pod);
        let concerns = |at: &usize| places.candidates().may_match(*at, &alternatives);
        assert!(row.iter().flat_map(|row| row.iter()).all(concerns), "{pod:?}");
    }
    let concerned = |pod: &Pod| {
        let alternatives = alternatives(pod);
        let all = places.candidates().iter().map(|(at, _)| at);
        all.filter(|at| places.candidates().may_match(*at, &alternatives)).count()
    };
    let counts: Vec<usize> = pods.iter().map(concerned).collect();
    assert_eq!(counts, [8, 4, 5, 2, 0, 1, 1, 0, 8, 8, 8, 8, 8, 8]);
    let sizes: Vec<usize> = rows.iter().flatten().map(|row| row.len()).collect();
    assert!(sizes.contains(&0) && sizes.contains(&1) && sizes.contains(&8), "{sizes:?}");
    // What is remembered is the same.
    assert_eq!(places.feasible_pools(&asked), rows);
}
