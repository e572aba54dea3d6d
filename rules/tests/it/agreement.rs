//! Laws of `pod-fits-no-pool` and `gpulint why`: one decision, said in both.

use gpulint_rules::fit::{Answer, Situation, Stage, workloads};
use gpulint_rules::{Cluster, Engine, Kind, Object, Platform, Settings};
use gpulint_testing::{Dice, fixtures, is_full, objects, relative, yaml_below};
use serde_json::{Value, json};

use crate::cases::{cases, objects_of};
use crate::fit::is_told;

fn engine() -> Engine {
    let select = ["pod-fits-no-pool", "gpu-toleration-missing"].map(str::to_owned).to_vec();
    Engine::new(Settings { select, complete: true, suppressions: false, ..Settings::default() })
}

/// What `why` and `check --complete` say about the workloads of a cluster, as far as they differ, and the number of pods that fit nowhere.
fn differences(engine: &Engine, objects: Vec<Object>) -> (Vec<String>, usize, usize) {
    let mut cluster = Cluster::new(true);
    objects.into_iter().for_each(|object| cluster.apply(object));
    let (mut wrong, mut told, mut all) = (Vec::new(), 0, 0);
    if !cluster.has_any(Kind::NODE_POOL) {
        return (wrong, told, all);
    }
    for workload in workloads(&cluster) {
        let is_own = workload.is_owned()
            || workload.is(Kind::DAEMON_SET)
            || workload.is_partial()
            || workload.is_incomplete();
        if is_own || workload.id().kind == "InferenceService" || workload.root().has_unknown() {
            continue;
        }
        let situation = Situation::read(&cluster, &Platform::default(), Some(workload));
        let explanations = situation.explain(workload);
        let reasons: Vec<&str> = explanations
            .iter()
            .flat_map(|one| &one.pools)
            .filter_map(|pool| match &pool.answer {
                Answer::Rejects { obstacles, .. } => Some(obstacles),
                _ => None,
            })
            .flatten()
            .map(|one| one.reason.as_str())
            .collect();
        let says = |words: &str| reasons.iter().any(|reason| reason.contains(words));
        // A static pool without nodes whose class is missing as well has a rule for either.
        if says("has no nodes") && says("does not exist") {
            continue;
        }
        // The class that is missing is reported before the name of the pool.
        if says("which is not in the input") && says("does not exist") {
            continue;
        }
        // What nodes that are known take is an info, and unsure.
        if explanations.iter().any(|one| one.within_memory_estimate) {
            continue;
        }
        let expected = explanations.iter().any(is_told);
        // A toleration for an accelerator is missing whether or not a pool is ready.
        let is_ready = explanations.iter().flat_map(|one| &one.pools).any(|pool| match &pool.answer {
            Answer::Rejects { obstacles, .. } => obstacles.iter().any(|one| one.stage != Stage::NotReady),
            _ => true,
        });
        let findings = engine.check_object(workload, &cluster);
        let found = findings.iter().any(|finding| is_ready || finding.rule.id == "pod-fits-no-pool");
        all += 1;
        told += usize::from(expected);
        if expected != found {
            let verdicts: Vec<_> = explanations.iter().map(|one| (one.verdict, &one.ignored)).collect();
            wrong.push(format!("{}: {verdicts:?}, found {found}: {reasons:?}", workload.display_name()));
        }
    }
    (wrong, told, all)
}

#[test]
fn the_verdicts_of_fixtures_agree() {
    let engine = engine();
    let (mut wrong, mut told, mut all) = (Vec::new(), 0, 0);
    for path in yaml_below(&fixtures()) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if !text.contains("kind: NodePool") {
            continue;
        }
        let (of_file, with, count) = differences(&engine, objects(&text));
        wrong.extend(of_file.into_iter().map(|one| format!("{}: {one}", relative(&path))));
        (told, all) = (told + with, all + count);
    }
    println!("{all} workloads, {told} of them fit no pool");
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(told >= 10, "{told} of {all}");
}

#[test]
fn the_verdicts_of_cases_agree() {
    let engine = engine();
    let (mut wrong, mut all) = (Vec::new(), 0);
    for case in cases("fit15.jsonl") {
        let (of_case, _, count) = differences(&engine, objects_of(&case));
        wrong.extend(of_case.into_iter().map(|one| format!("{}: {one}", case["id"])));
        all += count;
    }
    println!("{all} workloads");
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_verdicts_of_generated_sets_agree() {
    let engine = engine();
    let (mut wrong, mut told, mut all) = (Vec::new(), 0, 0);
    let count = if is_full() { 1000 } else { 250 };
    for number in 0..count {
        let drawn = drawn(number);
        let (of_set, with, workloads) =
            differences(&engine, drawn.iter().filter_map(Object::from_json).collect());
        wrong.extend(of_set.into_iter().map(|one| format!("set {number}: {one}")));
        (told, all) = (told + with, all + workloads);
    }
    println!("{all} workloads, {told} of them fit no pool");
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
    let wanted = count as usize * 3 / 10;
    assert!(told >= wanted && all - told >= wanted, "{told} of {all}");
}

/// A set of pools, classes, DaemonSets and workloads.
fn drawn(number: u64) -> Vec<Value> {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut set = vec![class("plain", json!({})), small_class(&mut dice)];
    for at in 0..=dice.below(2) {
        set.push(pool(&mut dice, at));
    }
    for at in 0..dice.below(3) {
        let request = *dice.one(&["100m", "1500m", "7"]);
        let spec = json!({
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "example.com/agent:1", "resources": {"requests": {"cpu": request}}}],
        });
        set.push(workload("DaemonSet", "apps/v1", &format!("agent-{at}"), spec));
    }
    for at in 0..=dice.below(3) {
        set.push(workload("Deployment", "apps/v1", &format!("app-{at}"), pod(&mut dice)));
    }
    set
}

fn class(name: &str, spec: Value) -> Value {
    let mut class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
        "spec": {"amiFamily": "AL2023"},
    });
    let fields = class["spec"].as_object_mut().expect("a spec");
    fields.extend(spec.as_object().cloned().expect("fields"));
    class
}

/// A class whose settings leave pods little.
fn small_class(dice: &mut Dice) -> Value {
    let specs = [
        json!({"kubelet": {"maxPods": 2}}),
        json!({"kubelet": {"kubeReserved": {"memory": "12Gi"}}}),
        json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "200Gi"}}]}),
        json!({"instanceStorePolicy": "RAID0"}),
        json!({"kubelet": {"registerWithTaints": []}}),
    ];
    class("small", dice.one(&specs).clone())
}

fn pool(dice: &mut Dice, at: usize) -> Value {
    let families: [&[&str]; 4] = [&["m6i"], &["g5", "g6"], &["m7g"], &["c6i", "m6i"]];
    let mut requirements = vec![
        json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": dice.one(&families)}),
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
    ];
    if dice.below(2) == 0 {
        let sizes: [&[&str]; 2] = [&["large", "xlarge"], &["2xlarge", "4xlarge"]];
        requirements.push(
            json!({"key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": dice.one(&sizes)}),
        );
    }
    let mut spec = json!({"template": {
        "metadata": {"labels": {"team": dice.one(&["a", "b"])}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": dice.one(&["plain", "small", "gone"])},
            "requirements": requirements,
        },
    }});
    if dice.below(4) == 0 {
        spec["template"]["spec"]["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    }
    if dice.below(4) == 0 {
        spec["limits"] = json!({"cpu": dice.one(&["2", "16"])});
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{at}")}, "spec": spec})
}

fn pod(dice: &mut Dice) -> Value {
    let mut requests = json!({"cpu": dice.one(&["250m", "1800m", "14", "2000"]), "memory": dice.one(&["1Gi", "30Gi", "9000Gi"])});
    if dice.below(4) == 0 {
        requests["ephemeral-storage"] = json!(dice.one(&["10Gi", "100Gi"]));
    }
    let mut spec = json!({"containers": [{"name": "c", "image": "example.com/app:1", "resources": {"requests": requests}}]});
    match dice.below(6) {
        0 => {
            let name = dice.one(&["pool-0", "pool-0", "pool-7", "polo-0"]);
            spec["nodeSelector"] = json!({"karpenter.sh/nodepool": name});
        }
        1 => spec["nodeSelector"] = json!({"team": dice.one(&["a", "c"])}),
        2 => spec["nodeSelector"] = json!({"kubernetes.io/arch": dice.one(&["arm64", "amd64"])}),
        3 => spec["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": 1}),
        _ => {}
    }
    if dice.below(2) == 0 {
        spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    }
    match dice.below(8) {
        0 => spec["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "missing"}}]),
        1 => {
            spec["topologySpreadConstraints"] = json!([{
                "topologyKey": dice.one(&["team", "row", "topology.kubernetes.io/zone"]), "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}},
            }]);
        }
        _ => {}
    }
    spec
}

fn workload(kind: &str, version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": spec},
        },
    })
}
