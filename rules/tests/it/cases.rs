//! Cases of Karpenter's own code, in the folder that `GPULINT_CASES` names; skipped without.

use std::path::Path;

use gpulint_rules::fit::{FitVerdict, Situation};
use gpulint_rules::karpenter::drift::{Drift, of_pool};
use gpulint_rules::platform::{MinValuesPolicy, Platform, Product};
use gpulint_rules::{Cluster, Kind, Object};
use gpulint_testing::{skipped, values};
use serde_json::Value;

/// The cases of a file; none if there is no folder.
fn cases(name: &str) -> Vec<Value> {
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
const DIFFERENT: [(&str, &str); 1] = [(
    "k0827",
    "the client of the program that made the cases finds no PersistentVolume, since Karpenter looks it up with the namespace of the pod, \
     which an API server ignores: zones of volumes do not count there (as in k0822, whose `zones` are all four)",
)];

/// The platform of a case with Karpenter's settings.
fn platform_of(settings: &Value) -> Platform {
    let gates = settings["featureGates"].as_object().into_iter().flatten();
    Platform {
        region: Some("us-east-1".to_owned()),
        feature_gates: gates.map(|(name, on)| (name.clone(), *on == true)).collect(),
        min_values_policy: settings["minValuesPolicy"].as_str().and_then(MinValuesPolicy::parse),
        ..Platform::default()
    }
}

/// What is certain about the pod of each case is what Karpenter decides.
#[test]
fn placement_is_that_of_karpenter() {
    let (mut wrong, mut unknown, mut right) = (Vec::new(), Vec::new(), 0);
    for case in cases("fit15.jsonl") {
        let id = case["id"].as_str().expect("an id");
        let mut manifests = values(case["manifests"].as_str().expect("manifests"));
        // Karpenter was asked in a cluster without nodes, also of static pools.
        let pools = manifests.iter_mut().filter(|object| object["kind"] == "NodePool");
        pools.filter_map(|pool| pool["spec"].get_mut("replicas")).for_each(|replicas| *replicas = 0.into());
        // Pools of EKS Auto Mode belong to another controller.
        let group = |pool: &Value| pool["spec"]["template"]["spec"]["nodeClassRef"]["group"].clone();
        manifests.retain(|object| object["kind"] != "NodePool" || group(object) == "karpenter.k8s.aws");
        let objects: Vec<Object> = manifests.iter().filter_map(Object::from_json).collect();
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
