//! Where pods go, compared with Karpenter's own scheduler: the answers of `tests/cluster/fit` about drawn sets of manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gpulint_rules::fit::{Answer, FitVerdict, Situation};
use gpulint_rules::{Cluster, Kind, Object};
use serde_json::{Value, json};

use crate::cases::platform_of;

mod draw;

use draw::{Set, drawn};

/// What is found about a set: about one pod, about the pod in each pool, about all pods.
#[derive(Default, PartialEq, Eq, Debug, Clone)]
struct Found {
    pod: String,
    types: BTreeSet<String>,
    pools: BTreeMap<String, String>,
    load: String,
}

fn objects(set: &Set) -> Vec<Object> {
    crate::cases::objects_of(&json!({"manifests": text(set)}))
}

fn text(set: &Set) -> String {
    set.objects.iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().join("---\n")
}

/// What gpulint says; `unknown` with the reasons where it does not know.
fn ours(set: &Set) -> Found {
    let objects = objects(set);
    let mut cluster = Cluster::new(true);
    objects.iter().for_each(|object| cluster.apply(object.clone()));
    let app = objects.iter().find(|o| o.name() == "app" && !o.is(Kind::NODE_POOL)).expect("the workload");
    let platform = platform_of(&set.settings);
    let situation = Situation::read(&cluster, &platform, Some(app));
    let answers = situation.explain(app);
    let answer = answers.first().expect("a template");
    let mut found = Found::default();
    found.pod = match answer.verdict {
        _ if answer.ignored.is_some() => "none".to_owned(),
        FitVerdict::Unknown => format!("unknown {:?}", answer.uncertainties),
        FitVerdict::DoesNotFit => "none".to_owned(),
        FitVerdict::Fits => match answer.first_pool().map(|pool| (pool.object.name(), &pool.answer)) {
            Some((pool, Answer::Admits { types, capacity_types, .. })) => {
                found.types = types.iter().map(|one| one.name.to_owned()).collect();
                let mut capacity_types = capacity_types.clone();
                capacity_types.sort_unstable();
                format!("{pool} {}", capacity_types.join(","))
            }
            _ => format!("unknown pool {:?}", answer.uncertainties),
        },
    };
    for pool in &answer.pools {
        let verdict = if answer.ignored.is_some() { "does-not-fit" } else { pool.verdict() };
        found.pools.insert(pool.object.name().to_owned(), verdict.to_owned());
    }
    let load = Situation::read(&cluster, &platform, None).capacity(&cluster).ceiling;
    let doubts: Vec<_> = load.unknown.iter().map(|(.., why)| why).chain(load.notes.iter().map(|(_, why)| why)).collect();
    if !doubts.is_empty() {
        found.load = format!("unknown {doubts:?} ");
    }
    let mut nodes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in &load.nodes {
        let kind = nodes.entry(format!("{}/{}", row.pool.name(), row.instance.name)).or_default();
        *kind = (kind.0 + row.nodes, kind.1 + row.pods);
    }
    let mut pending: BTreeMap<String, u64> = BTreeMap::new();
    for misfit in &load.misfits {
        *pending.entry(misfit.workload.name().to_owned()).or_default() += misfit.pods;
    }
    found.load += &shown(&nodes, &pending);
    found
}

fn shown(nodes: &BTreeMap<String, (u64, u64)>, pending: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (kind, (nodes, pods)) in nodes {
        let _ = write!(text, "{nodes}*{kind}:{pods} ");
    }
    for (workload, pods) in pending {
        let _ = write!(text, "-{pods}*{workload} ");
    }
    text
}

/// What Karpenter says.
fn theirs(answer: &Value) -> Found {
    let pod = &answer["pod"];
    let words = |list: &Value| list.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect::<Vec<_>>();
    let mut found = Found::default();
    found.pod = match pod["pool"].as_str() {
        None => "none".to_owned(),
        Some(pool) => format!("{pool} {}", words(&pod["capacityTypes"]).join(",")),
    };
    found.types = words(&pod["types"]).into_iter().collect();
    for (pool, of) in answer["pools"].as_object().into_iter().flatten() {
        found.pools.insert(pool.clone(), if of["fits"] == true { "fits" } else { "does-not-fit" }.to_owned());
    }
    let mut nodes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (kind, count) in answer["load"]["nodes"].as_object().into_iter().flatten() {
        let (kind, pods) = kind.split_once(' ').expect("pods");
        let each: u64 = pods.split(' ').filter_map(|one| one.rsplit('*').next()?.parse::<u64>().ok()).sum();
        let count = count.as_u64().expect("a number");
        let entry = nodes.entry(kind.to_owned()).or_default();
        *entry = (entry.0 + count, entry.1 + count * each);
    }
    let mut pending = BTreeMap::new();
    for (workload, pods) in answer["load"]["pending"].as_object().into_iter().flatten() {
        pending.insert(workload.clone(), pods.as_u64().expect("a number"));
    }
    found.load = shown(&nodes, &pending);
    found
}

#[test]
fn sets_for_karpenter() {
    let Ok(path) = std::env::var("FIT_SETS") else { return };
    let count: u64 = std::env::var("FIT_COUNT").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut out = String::new();
    for number in 0..count {
        let set = drawn(number);
        let _ = writeln!(out, "{}", json!({"id": number.to_string(), "workload": "app", "manifests": text(&set), "settings": set.settings}));
    }
    std::fs::write(path, out).unwrap();
}

#[test]
fn answers_of_karpenter() {
    let Ok(path) = std::env::var("FIT_ANSWERS") else { return };
    let known: BTreeSet<String> = std::env::var("FIT_TYPES").ok().map(|path| std::fs::read_to_string(path).unwrap().split_whitespace().map(str::to_owned).collect()).unwrap_or_default();
    let mut tally: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let number: u64 = answer["id"].as_str().unwrap().parse().unwrap();
        let set = drawn(number);
        if !answer["refused"].is_null() {
            *tally.entry((set.scenario, "refused".to_owned())).or_default() += 1;
            println!("{number} {} refused {}", set.scenario, answer["refused"]);
            continue;
        }
        let (mut ours, theirs) = (ours(&set), theirs(&answer));
        if !known.is_empty() {
            ours.types.retain(|one| known.contains(one));
        }
        let mut judge = |part: &str, ours: String, theirs: String| {
            let class = if ours == theirs { "right" } else if ours.starts_with("unknown") { "unsure" } else if answer["unstable"].is_string() { "unstable" } else { "wrong" };
            if class != "right" && class != "unstable" {
                println!("{class} {part} {number} {}: {theirs}; ours {ours}", set.scenario);
            }
            *tally.entry((set.scenario, format!("{part} {class}"))).or_default() += 1;
        };
        judge("pod", ours.pod.clone(), theirs.pod.clone());
        if ours.pod == theirs.pod && ours.types != theirs.types {
            let shown: Vec<_> = ours.types.symmetric_difference(&theirs.types).take(6).collect();
            judge("types", format!("{} {shown:?}", ours.types.len()), format!("{}", theirs.types.len()));
        }
        for (pool, theirs) in &theirs.pools {
            let ours = ours.pools.get(pool).cloned().unwrap_or("does-not-fit".to_owned());
            judge("pool", ours, theirs.clone());
        }
        judge("load", ours.load.clone(), theirs.load.clone());
    }
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for ((scenario, kind), count) in &tally {
        println!("{scenario:12} {kind:16} {count}");
        *kinds.entry(kind.clone()).or_default() += count;
    }
    println!("{kinds:?}");
}
