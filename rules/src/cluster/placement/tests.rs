//! The fast comparison gives the same results as running the scheduler for each pool separately.

use serde_json::{Value, json};

use crate::catalog::{InstanceType, Label, TypeSet, index};
use crate::cluster::Cluster;
use crate::cluster::placement::accelerators_on;
use crate::cluster::placement::feasibility::{Evaluation, Feasible, FeasibleKey, PodShape, candidates_for};
use crate::cluster::placement::pools::{CandidatePools, PoolKey};
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::scheduling::{Pod, SchedulerOptions, matching};
use crate::object::Object;
use crate::workload::template::templates;
use std::sync::Arc;

#[path = "../../../examples/pools/mod.rs"]
mod samples;

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
        let admitting = all.iter().filter(|pool| evaluation.decide(pool).unwrap());
        admitting.map(|pool| name(pool.object())).collect()
    };
    let mut sizes = Vec::new();
    for key in keys.iter().chain(&keys) {
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
    // The pool has another name and weight. The decision must be equal.
    let renamed = pool("b", 2, &json!({}), &[]);
    next.apply(renamed);
    let known = next.table::<CandidatePools>().get(&PoolKey::All);
    assert!(Evaluation::new(&next, &key).is_known(&known[0]));
    assert!(!Evaluation::new(&Cluster::new(true), &key).is_known(&known[0]));
    assert_eq!(next.query::<Feasible>(&key).unwrap().unwrap().len(), 1);
}

#[test]
fn amounts_of_resources_decide_as_in_the_scheduler() {
    let mut cluster = Cluster::new(true);
    let pool = |name: &str, requirements: Value, more: Value| {
        let mut spec = json!({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "requirements": requirements});
        if let Some(taints) = more.get("taints") {
            spec["taints"] = taints.clone();
        }
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}}
        });
        if let Some(limits) = more.get("limits") {
            object["spec"]["limits"] = limits.clone();
        }
        Object::from_json(&object).unwrap()
    };
    let is = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let family = |names: Value| is("karpenter.k8s.aws/instance-family", names);
    for object in [
        pool("all", json!([]), json!({})),
        pool("general", json!([family(json!(["m5", "c5", "r5"]))]), json!({})),
        pool("small", json!([is("karpenter.k8s.aws/instance-size", json!(["large", "xlarge"]))]), json!({})),
        pool("limited", json!([family(json!(["m5"]))]), json!({"limits": {"cpu": 16}})),
        pool("retired", json!([family(json!(["m1", "t1"]))]), json!({})),
        pool("unheard-of", json!([family(json!(["zz9"]))]), json!({})),
        pool(
            "several",
            json!([{"key": "karpenter.k8s.aws/instance-family", "operator": "In",
            "values": ["g5", "g6"], "minValues": 2}]),
            json!({}),
        ),
        pool(
            "gpu",
            json!([family(json!(["g5", "p5"]))]),
            json!({"taints":
            [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}),
        ),
        pool(
            "preferred",
            json!([family(json!(["g5", "m5"]))]),
            json!({"taints":
            [{"key": "cpu", "effect": "PreferNoSchedule"}]}),
        ),
    ] {
        cluster.apply(object);
    }
    let selectors = [
        json!({}),
        json!({"nodeSelector": {"node.kubernetes.io/instance-type": "g5.xlarge"}}),
        json!({"nodeSelector": {"karpenter.k8s.aws/instance-category": "m"}}),
        json!({"nodeSelector": {"karpenter.sh/nodepool": "gpu"}}),
        terms(json!([
            {"matchExpressions": [is("karpenter.k8s.aws/instance-family", json!(["m5"]))]},
            {"matchExpressions": [is("karpenter.k8s.aws/instance-family", json!(["g5", "g6"]))]}
        ])),
    ];
    let needs = [
        json!({}),
        json!({"cpu": "250m", "memory": "1Gi"}),
        json!({"cpu": "14", "memory": "20Gi"}),
        json!({"cpu": "15900m"}),
        json!({"memory": "700Gi"}),
        json!({"cpu": 5000}),
        json!({"nvidia.com/gpu": 1}),
        json!({"nvidia.com/gpu": 8, "cpu": 100}),
        json!({"nvidia.com/gpu": 8, "cpu": 190}),
        json!({"example.com/licence": 1}),
        json!({"ephemeral-storage": "40Gi"}),
        json!({"vpc.amazonaws.com/pod-eni": 1}),
    ];
    let all = cluster.table::<CandidatePools>().get(&PoolKey::All);
    let (mut admitted, mut refused) = (0, 0);
    for selector in &selectors {
        for need in &needs {
            let mut pod = asks(selector.clone());
            let container = json!({"name": "c", "resources": {"requests": need}});
            let object = Object::from_json(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}
            }))
            .unwrap();
            pod.containers = to_scheduling_pod(&templates(&object)[0]).unwrap().containers;
            let key = FeasibleKey { shape: Arc::new(PodShape::new(pod)), eks: true };
            let evaluation = Evaluation::new(&cluster, &key);
            let fast = evaluation.admit(all).unwrap();
            for (pool, fast) in all.iter().zip(fast) {
                let name = pool.object().name();
                assert_eq!(fast, evaluation.decide(pool).unwrap(), "{name}, {selector}, {need}");
                *(if fast { &mut admitted } else { &mut refused }) += 1;
            }
        }
    }
    assert!(admitted > 50 && refused > 50, "{admitted} {refused}");
}

/// NodePools with usual and with unusual fields, and pods that request what some of the pools require.
fn drawn(batch: u64) -> (Vec<Object>, Vec<Pod>) {
    let values: Vec<Value> =
        (batch * 12..batch * 12 + 12).filter_map(|seed| samples::sample(seed).1).flatten().collect();
    let pools: Vec<&Value> = values.iter().filter(|value| value["kind"] == "NodePool").collect();
    let requirements = pools.iter().flat_map(|pool| {
        let list = pool["spec"]["template"]["spec"]["requirements"].as_array();
        list.into_iter().flatten().filter(|one| one["key"].is_string() && one["operator"].is_string())
    });
    let requirements: Vec<&Value> = requirements.collect();
    let taints = pools.iter().filter_map(|pool| pool["spec"]["template"]["spec"]["taints"].as_array());
    let tolerations: Vec<Value> = taints
        .flatten()
        .map(|taint| json!({"key": taint["key"], "operator": "Exists"}))
        .filter(|toleration| toleration["key"].is_string())
        .collect();
    let needs = [
        json!({}),
        json!({"cpu": "500m", "memory": "1Gi"}),
        json!({"nvidia.com/gpu": 1, "cpu": 3}),
        json!({"nvidia.com/gpu": 8, "memory": "900Gi"}),
        json!({"aws.amazon.com/neuron": 1}),
        json!({"example.com/licence": 1}),
        json!({"vpc.amazonaws.com/pod-eni": 1}),
    ];
    let pods = (0..requirements.len().min(9)).map(|at| {
        let expression = |n: usize| {
            let mut one = requirements[(at * n + n) % requirements.len()].clone();
            one.as_object_mut().unwrap().remove("minValues");
            one
        };
        let affinity = match at % 3 {
            0 => json!({}),
            1 => terms(json!([{"matchExpressions": [expression(1)]}])),
            _ => terms(json!([
                {"matchExpressions": [expression(2), expression(5)]}, {"matchExpressions": [expression(3)]}
            ])),
        };
        let mut spec = affinity;
        spec["tolerations"] = match at % 2 {
            0 => json!(tolerations),
            _ => json!([{"operator": "Exists"}]),
        };
        let container = json!({"name": "c", "resources": {"requests": needs[at % needs.len()]}});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let mut object = object;
        object["spec"]["containers"] = json!([container]);
        let object = Object::from_json(&object).unwrap();
        to_scheduling_pod(&templates(&object)[0])
    });
    let pods = pods.flatten().collect();
    (values.iter().filter_map(Object::from_json).collect(), pods)
}

#[test]
fn what_is_remembered_is_what_the_scheduler_decides() {
    let (mut admitted, mut refused) = (0, 0);
    for batch in 0..60 {
        let (objects, pods) = drawn(batch);
        let mut cluster = Cluster::new(true);
        for object in objects {
            cluster.apply(object);
        }
        let all = cluster.table::<CandidatePools>().get(&PoolKey::All);
        for pod in pods {
            for eks in [true, false] {
                let key = FeasibleKey { shape: Arc::new(PodShape::new(pod.clone())), eks };
                let evaluation = Evaluation::new(&cluster, &key);
                // What the catalogue does not know of a type may leave it open.
                let Some(fast) = evaluation.admit(all) else { continue };
                assert_eq!(fast, evaluation.admit(all).unwrap());
                for (pool, fast) in all.iter().zip(fast) {
                    // The scheduler itself may need too many steps.
                    let Some(decided) = evaluation.decide(pool) else { continue };
                    assert_eq!(fast, decided, "{:?} {pod:?}", pool.pool);
                    *(if fast { &mut admitted } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(admitted > 200 && refused > 200, "{admitted} {refused}");
}

#[test]
fn types_that_meet_a_requirement_are_those_of_which_each_does() {
    let mut some = 0;
    for batch in 0..40 {
        let (objects, _) = drawn(batch);
        for pool in objects.iter().filter_map(NodePool::new) {
            for (key, requirement) in pool.requirement_set().iter().filter(|(key, _)| index(key).is_some()) {
                let meets = |instance: &InstanceType| match instance.label(key) {
                    Label::Is(value) => requirement.has(value),
                    // A type whose label the catalogue does not know may meet it.
                    Label::Unknown => true,
                    Label::Absent | Label::OneOf(_) | Label::Undefined => requirement.allows_absence(),
                };
                let plain = TypeSet::matching(meets);
                let sets = matching(key, requirement, None, &SchedulerOptions::default());
                assert_eq!(sets, Some(plain), "{key} {requirement}");
                some += usize::from(!plain.is_empty());
            }
        }
    }
    assert!(some > 200, "{some}");
}

#[test]
fn facts_of_a_pool_follow_from_its_node_template() {
    for batch in 0..60 {
        let (objects, _) = drawn(batch);
        for object in &objects {
            let Some(pool) = NodePool::new(object) else { continue };
            let mut other = object.root().to_json();
            if !other["metadata"].is_object() || !other["spec"].is_object() {
                continue;
            }
            other["metadata"]["name"] = json!("another");
            other["spec"]["weight"] = json!(7);
            other["spec"]["limits"] = json!({"cpu": 3});
            let other = Object::from_json(&other).unwrap();
            let other = NodePool::new(&other).unwrap();
            assert_eq!(pool.facts(), other.facts());
        }
    }
}

/// A pool that is about to be applied has the workloads that it has once it is in the cluster.
#[test]
fn a_new_pool_has_the_workloads_of_one_that_is_there() {
    let team = |values: Value| json!({"key": "team", "operator": "In", "values": values});
    let pools = [
        pool("plain", 1, &json!({}), &[]),
        pool("plain-too", 1, &json!({}), &[]),
        pool("red", 5, &json!({"team": "red"}), &[]),
        pool("blue", 2, &json!({"team": "blue"}), &[]),
        pool("both", 5, &json!({}), &[team(json!(["red", "blue"]))]),
        pool("any", 3, &json!({}), &[json!({"key": "team", "operator": "Exists"})]),
        pool("nobody", 9, &json!({}), &[team(json!(["green"]))]),
    ];
    let commands = [json!(["torchrun", "train.py"]), json!(["vllm", "serve"]), json!(["make"])];
    let selectors = [json!({}), json!({"team": "red"}), json!({"team": "blue"}), json!({"team": "none"})];
    let workload = |number: usize| {
        let container = json!({"name": "c", "image": "example.com/c:1", "command": commands[number % 3],
            "resources": {"limits": {"nvidia.com/gpu": 1 + number % 2}}});
        let spec = json!({"nodeSelector": selectors[number / 3 % 4], "containers": [container]});
        Object::from_json(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("w{number:03}"), "namespace": "ml"},
            "spec": {"template": {"metadata": {"labels": {"app": "w"}}, "spec": spec}}}))
        .unwrap()
    };
    let workloads: Vec<Object> = (0..150).map(workload).collect();
    let cluster = |left_out: Option<&Object>| {
        let mut cluster = Cluster::new(true);
        let pools = pools.iter().filter(|pool| left_out.is_none_or(|other| !pool.ptr_eq(other)));
        pools.chain(&workloads).for_each(|object| cluster.apply(object.clone()));
        cluster
    };
    let names = |list: &[Object]| list.iter().map(|object| object.name().to_owned()).collect::<Vec<_>>();
    let mut kept = 0;
    for eks in [false, true] {
        let whole = cluster(None);
        for new in &pools {
            let there = accelerators_on(&whole, new, eks);
            let coming = accelerators_on(&cluster(Some(new)), new, eks);
            // Another version of the pool, as in an update.
            let mut changed = new.root().to_json();
            changed["spec"]["limits"] = json!({"cpu": "1000000"});
            let updated = accelerators_on(&whole, &Object::from_json(&changed).unwrap(), eks);
            for other in [&coming, &updated] {
                assert_eq!(names(&there.admitted), names(&other.admitted), "{}", new.name());
                assert_eq!(names(&there.training), names(&other.training), "{}", new.name());
                assert_eq!(names(&there.serving), names(&other.serving), "{}", new.name());
            }
            kept += there.admitted.len() + there.training.len() + there.serving.len();
        }
    }
    assert!(kept > 100, "{kept}");
}
