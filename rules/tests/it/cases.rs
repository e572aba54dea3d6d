//! Cases of Karpenter's own code, in the folder that `GPULINT_CASES` names; skipped without.

use std::collections::BTreeMap;
use std::path::Path;

use gpulint_rules::fit::{FitVerdict, Situation};
use gpulint_rules::karpenter::drift::{Drift, of_pool};
use gpulint_rules::platform::{MinValuesPolicy, Platform, Product};
use gpulint_rules::{Cluster, Kind, Object};
use gpulint_testing::{skipped, values};
use serde_json::Value;

/// The cases of a file; none if there is no folder.
pub(crate) fn cases(name: &str) -> Vec<Value> {
    let Ok(folder) = std::env::var("GPULINT_CASES") else {
        skipped("GPULINT_CASES is not set");
        return Vec::new();
    };
    let text = std::fs::read_to_string(Path::new(&folder).join(name)).expect("a file of cases");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn drift_is_that_of_karpenter() {
    let mut wrong = Vec::new();
    for case in cases("drift.jsonl") {
        let manifests = |member: &str| values(case[member].as_str().expect("manifests"));
        let (before, after) = (manifests("before"), manifests("after"));
        let pool = |objects: &[Value]| objects.iter().find(|object| object["kind"] == "NodePool").cloned();
        let class = |objects: &[Value], pool: &Value| {
            let reference = &pool["spec"]["template"]["spec"]["nodeClassRef"]["name"];
            objects
                .iter()
                .find(|o| o["kind"] == "EC2NodeClass" && o["metadata"]["name"] == *reference)
                .cloned()
        };
        let (old, new) = (pool(&before).expect("a pool"), pool(&after).expect("a pool"));
        let (old_class, new_class) = (class(&before, &old), class(&after, &new));
        let found =
            of_pool((&old, old_class.as_ref()), (&new, new_class.as_ref()), Product::Karpenter.newest());
        let found = match found {
            Drift::None => "none",
            Drift::Some => "some",
            Drift::All => "all",
            Drift::Refused => "refused",
        };
        if case["verdict"] != found {
            wrong.push(format!("{} {}: {}, not {found}", case["id"], case["what"], case["verdict"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Cases with another answer, and why.
const DIFFERENT: [(&str, &str); 2] = [
    (
        "k0795",
        "the pod is asked about alone, without the pods that it joins: where all wait at once, it gets a node",
    ),
    (
        "k0827",
        "the client of the program that made the cases finds no PersistentVolume, since Karpenter looks it up with the namespace of the pod, \
     which an API server ignores: zones of volumes do not count there (as in k0822, whose `zones` are all four)",
    ),
];

/// The platform of a case with Karpenter's settings.
pub(crate) fn platform_of(settings: &Value) -> Platform {
    let gates = settings["featureGates"].as_object().into_iter().flatten();
    Platform {
        region: Some("us-east-1".to_owned()),
        feature_gates: gates.map(|(name, on)| (name.clone(), *on == true)).collect(),
        min_values_policy: settings["minValuesPolicy"].as_str().and_then(MinValuesPolicy::parse),
        ..Platform::default()
    }
}

/// The objects of a case. Karpenter was asked in a cluster without nodes, also of static pools, and pools of EKS Auto Mode belong to
/// another controller.
pub(crate) fn objects_of(case: &Value) -> Vec<Object> {
    let mut manifests = values(case["manifests"].as_str().expect("manifests"));
    let pools = manifests.iter_mut().filter(|object| object["kind"] == "NodePool");
    pools.filter_map(|pool| pool["spec"].get_mut("replicas")).for_each(|replicas| *replicas = 0.into());
    if std::env::var_os("GPULINT_CASES_AUTO_MODE").is_none() {
        let group = |pool: &Value| pool["spec"]["template"]["spec"]["nodeClassRef"]["group"].clone();
        manifests.retain(|object| object["kind"] != "NodePool" || group(object) == "karpenter.k8s.aws");
    }
    manifests.iter().filter_map(Object::from_json).collect()
}

/// What is certain about the pod of each case is what Karpenter decides.
#[test]
fn placement_is_that_of_karpenter() {
    let (mut wrong, mut unknown, mut right) = (Vec::new(), Vec::new(), 0);
    for case in cases("fit15.jsonl") {
        let id = case["id"].as_str().expect("an id");
        let objects = objects_of(&case);
        let mut cluster = Cluster::new(true);
        objects.iter().for_each(|object| cluster.apply(object.clone()));
        let name = format!("pod-{id}");
        let workload = objects
            .iter()
            .find(|o| o.name() == name && (o.is(Kind::DEPLOYMENT) || o.is(Kind::STATEFUL_SET)))
            .expect("the workload");
        let platform = platform_of(&case["settings"]);
        let situation = Situation::read(&cluster, &platform, Some(workload));
        let explanations = situation.explain(workload);
        let answer = explanations.first().expect("a template");
        let pool = answer.first_pool().map(|pool| pool.object.name());
        let found = match answer.verdict {
            _ if answer.ignored.is_some() => "none",
            FitVerdict::Fits => "fits",
            FitVerdict::DoesNotFit => "none",
            FitVerdict::Unknown => "unknown",
        };
        let expected = &case["offline"];
        let shown = format!(
            "{id} {} {}: {} {}, not {found} {pool:?} {:?}",
            case["scenario"], case["settings"], expected["verdict"], expected["pool"], answer.uncertainties
        );
        if found == "unknown" {
            unknown.push(shown);
        } else if expected["verdict"] != found || found == "fits" && expected["pool"].as_str() != pool {
            wrong.push(shown);
        } else {
            right += 1;
        }
    }
    wrong.retain(|shown| !DIFFERENT.iter().any(|(id, _)| shown.starts_with(id)));
    println!("{right} right, {} unknown:\n{}", unknown.len(), unknown.join("\n"));
    assert!(unknown.len() * 20 <= right, "more than 5 % are unknown:\n{}", unknown.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The nodes of each pool and the number of pods without a node, once nothing changes any more.
fn settled(load: &Value) -> (BTreeMap<String, u64>, u64) {
    let mut nodes: BTreeMap<String, u64> = BTreeMap::new();
    let end = if load["settled"].is_null() { load } else { &load["settled"] };
    for node in end["nodes"].as_array().into_iter().flatten() {
        let pool = node["pool"].as_str().expect("a pool").to_owned();
        *nodes.entry(pool).or_default() += node["nodes"].as_u64().unwrap_or(1);
    }
    for (kind, number) in end["nodes"].as_object().into_iter().flatten() {
        let pool = kind.split('/').next().unwrap_or_default().to_owned();
        *nodes.entry(pool).or_default() += number.as_u64().or_else(|| number["nodes"].as_u64()).unwrap_or(1);
    }
    let pending = end["pending"].as_object().into_iter().flatten();
    (nodes, pending.filter_map(|(_, pods)| pods.as_u64()).sum())
}

/// The nodes for all pods of each case are those that Karpenter starts, unless something is not known or assumed.
#[test]
fn loads_are_those_of_karpenter() {
    let (mut wrong, mut unknown, mut right) = (Vec::new(), Vec::new(), 0);
    for case in cases("fit15.jsonl") {
        let offline = &case["offline"]["load"];
        let (nodes, pending) = settled(if offline.is_null() { &case["load"] } else { offline });
        let mut cluster = Cluster::new(true);
        objects_of(&case).into_iter().for_each(|object| cluster.apply(object));
        let situation = Situation::read(&cluster, &platform_of(&case["settings"]), None);
        let load = situation.capacity(&cluster).ceiling;
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for row in &load.nodes {
            *found.entry(row.pool.name().to_owned()).or_default() += row.nodes;
        }
        let left: u64 = load.misfits.iter().map(|misfit| misfit.pods).sum();
        let doubts = load.unknown.iter().map(|(.., why)| why).chain(load.notes.iter().map(|(_, why)| why));
        let doubts: Vec<_> = doubts.flatten().collect();
        let shown = format!(
            "{} {}: {nodes:?} and {pending} left, not {found:?} and {left} {doubts:?}",
            case["id"].as_str().expect("an id"),
            case["scenario"]
        );
        match ((nodes, pending) == (found, left), doubts.is_empty() && load.unknown.is_empty()) {
            (true, _) => right += 1,
            (false, false) => unknown.push(shown),
            (false, true) => wrong.push(shown),
        }
    }
    wrong.retain(|shown| !DIFFERENT.iter().any(|(id, _)| shown.starts_with(id)));
    println!("{right} right, {} unknown:\n{}", unknown.len(), unknown.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
