//! No object costs more than a bounded number of steps, whatever is long in it.
//!
//! The objects are those of the fixtures, one for each kind and place in which something can be long: a list, a
//! mapping or a text. There it is made as long as an object can be.

mod heavy;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_rules::file::File;
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, Object, Settings, Workspace, steps};
use serde_json::{Value, json};

/// What all work on one object may take, with what is remembered of it: about 200 ms on two cores.
const MOST_STEPS: u64 = 40_000_000;
/// The largest object that etcd takes, in bytes.
const LARGEST: usize = 1_500_000;

/// What an object costs.
struct Cost {
    steps: u64,
    time: Duration,
    bytes: usize,
    cut_short: Vec<String>,
}

fn cost(engine: &Engine, cluster: &Cluster, object: &Object, bytes: usize) -> Cost {
    let before = steps::tally();
    let began = Instant::now();
    let report = engine.review_object(object, cluster);
    let time = began.elapsed();
    let cut_short = report.findings.iter().filter(|finding| finding.rule.id == "step-limit-exceeded");
    let cut_short = cut_short.map(|finding| finding.message.clone()).collect();
    Cost { steps: steps::tally() - before, time, bytes, cut_short }
}

/// `COSTS=all` tries every place and prints what costs most; without it a part of them is tried, smaller.
#[test]
fn no_object_costs_more_than_a_bounded_number_of_steps() {
    let everything = std::env::var("COSTS").is_ok_and(|value| value == "all");
    let engine = Engine::new(Settings::default());
    let mut cluster = Cluster::new(false);
    for pool in heavy::pools() {
        cluster.apply(pool);
    }
    cluster.build_views(&engine.settings().platform);
    let places = heavy::places();
    assert!(places.len() > 500, "only {} places", places.len());
    let (size, every) = if everything { (LARGEST, 1) } else { (LARGEST / 10, 37) };
    let mut worst: Vec<(String, Cost)> = Vec::new();
    for place in places.iter().step_by(every) {
        let value = place.grow(size);
        let bytes = value.to_string().len();
        let Some(object) = Object::from_json(&value) else {
            continue;
        };
        worst.push((place.to_string(), cost(&engine, &cluster, &object, bytes)));
    }
    worst.sort_by_key(|(_, cost)| {
        std::cmp::Reverse(if everything { cost.time.as_micros() } else { u128::from(cost.steps) })
    });
    for (place, cost) in worst.iter().take(if everything { 60 } else { 5 }) {
        let nanoseconds = cost.time.as_nanos() / u128::from(cost.steps.max(1));
        println!(
            "{place}: {:?}, {} steps, {nanoseconds} ns each, {} bytes {:?}",
            cost.time, cost.steps, cost.bytes, cost.cut_short
        );
    }
    let dear: Vec<String> = worst
        .iter()
        .filter(|(_, cost)| cost.steps > MOST_STEPS)
        .map(|(place, cost)| format!("{place}: {} steps", cost.steps))
        .collect();
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

/// A pool whose requirements take long to be joined, and that lacks a field.
fn costly_pool() -> Value {
    let requirement = |n: usize| {
        let values: Vec<String> = (0..40).map(|value| format!("{n}-{value}")).collect();
        json!({"key": "example.com/rack", "operator": "NotIn", "values": values})
    };
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "costly"},
        "spec": {"disruption": {"consolidationPolicy": "WhenEmpty"}, "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "requirements": (0..1500).map(requirement).collect::<Vec<Value>>()}}}})
}

#[test]
fn what_is_cut_short_is_said_and_what_finished_holds() {
    let engine = Arc::new(Engine::new(Settings::default()));
    let source = Source::from_text("pool.yaml", &costly_pool().to_string());
    let file = File::read(source);
    let cluster = gpulint_testing::cluster(&engine, &file.objects);
    let report = engine.check_file(&file, &cluster);
    let has = |rule: &str| report.findings.iter().any(|finding| finding.rule.id == rule);
    assert!(has("step-limit-exceeded") && has("consolidate-after-missing"), "{:?}", report.findings);
    // In another order of files, and where files are edited, it is the same.
    let mut workspace = Workspace::new(false);
    workspace.open([(file.clone(), Arc::clone(&engine))]);
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\n";
    workspace.set(File::read(Source::from_text("class.yaml", class)), &engine);
    workspace.remove("class.yaml");
    let edited = &workspace.report("pool.yaml").unwrap().findings;
    assert_eq!(edited.len(), report.findings.len());
    assert!(edited.iter().zip(&report.findings).all(|(a, b)| a.renders_equal(b)));
}

#[test]
fn who_has_many_unknown_words_gets_few_suggestions() {
    let letters = || 'a'..='z';
    let values: Vec<String> =
        letters().flat_map(|a| letters().map(move |b| format!("m7i.large{a}{b}"))).collect();
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values}]}}}});
    let object = Object::from_json(&pool).unwrap();
    let before = steps::tally();
    let findings = Engine::new(Settings::default()).review_object(&object, &Cluster::new(false)).findings;
    let taken = steps::tally() - before;
    let unknown = findings.iter().filter(|finding| finding.rule.id == "requirement-value-unknown");
    let helps: Vec<&str> = unknown.filter_map(|finding| finding.help.as_deref()).collect();
    let suggested = helps.iter().filter(|help| help.starts_with("did you mean")).count();
    assert!((1..=20).contains(&suggested), "{suggested} of {:?}", helps.first());
    assert!(taken < 4_000_000, "{taken} steps");
}
