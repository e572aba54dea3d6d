//! Cases of Karpenter's own code, in the folder that `GPULINT_CASES` names; skipped without.

use std::path::Path;

use gpulint_rules::fit::{FitVerdict, Situation};
use gpulint_rules::karpenter::drift::{Drift, of_pool};
use gpulint_rules::platform::{Platform, Product};
use gpulint_rules::{Cluster, Kind};
use gpulint_testing::{objects, values};
use serde_json::Value;

/// The cases of a file; none if there is no folder.
fn cases(name: &str) -> Vec<Value> {
    let Ok(folder) = std::env::var("GPULINT_CASES") else {
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

/// What is certain about the pod of each case is what Karpenter decides.
#[test]
fn placement_is_that_of_karpenter() {
    let platform = Platform { region: Some("us-east-1".to_owned()), ..Platform::default() };
    let (mut wrong, mut unknown, mut unstated, mut right) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for case in cases("fit15.jsonl") {
        let id = case["id"].as_str().expect("an id");
        let objects = objects(case["manifests"].as_str().expect("manifests"));
        let mut cluster = Cluster::new(true);
        objects.iter().for_each(|object| cluster.apply(object.clone()));
        let name = format!("pod-{id}");
        let workload = objects
            .iter()
            .find(|o| o.name() == name && (o.is(Kind::DEPLOYMENT) || o.is(Kind::STATEFUL_SET)))
            .expect("the workload");
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
        // A zone in which a class has no subnet, and settings of Karpenter, are not in the manifests.
        let has =
            |tag: &str| case["tags"].as_array().is_some_and(|tags| tags.iter().any(|other| other == tag));
        if !case["settings"].is_null()
            || (has("zone-outside") && expected["verdict"] == "none" && found == "fits")
        {
            unstated.push(shown);
        } else if found == "unknown" {
            unknown.push(shown);
        } else if expected["verdict"] != found || found == "fits" && expected["pool"].as_str() != pool {
            wrong.push(shown);
        } else {
            right += 1;
        }
    }
    println!("{right} right, {} unknown:\n{}", unknown.len(), unknown.join("\n"));
    println!("{} with what no manifest states:\n{}", unstated.len(), unstated.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
