//! No object costs more than a bounded number of steps, whichever part of it is long.
//!
//! The objects are those of the fixtures, one for each kind and field that can be long: a list, a mapping or
//! a text. The field is made as long as an object allows. `COSTS=300` searches for 300 seconds for the most
//! expensive objects ([`search`]). Without it, only some of the fields are tested, in smaller objects; with `FULL`, twice as many.
//! `COSTS_OF` prints the cost of one of them by rule.

mod expressions;
mod growth;
mod heavy;
mod search;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_rules::file::File;
use gpulint_rules::platform::{Product, Version};
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, Object, RULES, Settings, Workspace, steps};
use gpulint_testing::is_full;
use serde_json::{Value, json};

/// Maximum number of steps for all work on one object, including its cached results: about 200 ms on two
/// cores.
const MOST_STEPS: u64 = 20_000_000;
/// Maximum time for this work in an optimized build.
const MOST_TIME: Duration = Duration::from_millis(400);
/// Maximum size of an object in etcd, in bytes.
const LARGEST: usize = 1_500_000;

/// The cost of an object.
#[derive(Clone, Debug)]
struct Cost {
    steps: u64,
    /// The processor time, if the operating system reports it.
    time: Duration,
    bytes: usize,
    cut_short: Vec<String>,
}

impl Cost {
    fn in_words(&self) -> String {
        let nanoseconds = self.time.as_nanos() / u128::from(self.steps.max(1));
        format!(
            "{:.0} ms, {} steps, {nanoseconds} ns each, {} bytes {:?}",
            self.time.as_secs_f64() * 1e3,
            self.steps,
            self.bytes,
            self.cut_short
        )
    }
}

/// The processor time of this thread.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// An engine, and the objects in the cluster of the checked object.
struct Judge {
    engine: Engine,
    cluster: Cluster,
}

impl Judge {
    fn new(settings: Settings, neighbours: Vec<Object>) -> Judge {
        let engine = Engine::new(settings);
        let mut cluster = Cluster::new(false);
        for object in neighbours {
            cluster.apply(object);
        }
        cluster.build_views(&engine.settings().platform);
        Judge { engine, cluster }
    }

    /// `None` if the value is not an object.
    fn cost(&self, value: &Value) -> Option<Cost> {
        let bytes = value.to_string().len();
        let object = Object::from_json(value)?;
        let before = steps::tally();
        let (began, busy) = (Instant::now(), processor_time());
        let report = self.engine.review_object(&object, &self.cluster);
        let taken = processor_time().and_then(|now| now.checked_sub(busy?));
        let time = taken.unwrap_or_else(|| began.elapsed());
        let cut_short = report.findings.iter().filter(|finding| finding.message.contains("did not finish"));
        let cut_short = cut_short.map(|finding| finding.message.clone()).collect();
        Some(Cost { steps: steps::tally() - before, time, bytes, cut_short })
    }
}

/// `COSTS_OF=…` names fields as the search prints them. Prints the rules that take longest with them.
#[test]
fn what_an_object_costs_by_rule() {
    let Ok(wanted) = std::env::var("COSTS_OF") else { return };
    let places = heavy::places();
    let find = |wanted: &str| places.iter().find(|place| place.to_string() == wanted).expect("there is one");
    let wanted: Vec<&heavy::Place> = wanted.split(" + ").map(find).collect();
    for size in [LARGEST / 40, LARGEST / 8, LARGEST] {
        let value = heavy::together(&wanted, size);
        let mut costs: Vec<(&str, Cost)> = Vec::new();
        for rule in RULES.iter().filter(|rule| rule.check.runs_on_objects()) {
            let settings = Settings { select: vec![rule.id.to_owned()], ..Settings::default() };
            let judge = Judge::new(settings, heavy::neighbours());
            judge.cost(wanted[0].value());
            costs.extend(judge.cost(&value).map(|cost| (rule.id, cost)));
        }
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time));
        let longest = costs.first().map_or(Duration::ZERO, |(_, cost)| cost.time);
        for (rule, cost) in costs.iter().take(8) {
            println!("{rule}: {}", cost.in_words());
        }
        if longest > Duration::from_secs(1) {
            break;
        }
    }
}

#[test]
fn no_object_costs_more_than_a_bounded_number_of_steps() {
    let seconds = std::env::var("COSTS").ok().and_then(|seconds| seconds.parse().ok());
    let judge = Judge::new(Settings::default(), heavy::neighbours());
    let places = heavy::places();
    assert!(places.len() > 500, "only {} places", places.len());
    let worst = match seconds {
        Some(seconds) => search::worst(&judge, &places, Duration::from_secs(seconds)),
        None => {
            let some = places.iter().step_by(if is_full() { 74 } else { 148 });
            let cost =
                |place: &heavy::Place| Some((place.to_string(), judge.cost(&place.grow(LARGEST / 10))?));
            let mut worst: Vec<(String, Cost)> = some.filter_map(cost).collect();
            worst.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.steps));
            worst.truncate(5);
            worst
        }
    };
    for (place, cost) in &worst {
        println!("{place}: {}", cost.in_words());
    }
    let timed = seconds.is_some() && !cfg!(debug_assertions);
    let dear: Vec<String> = worst
        .iter()
        .filter(|(_, cost)| cost.steps > MOST_STEPS || timed && cost.time > MOST_TIME)
        .map(|(place, cost)| format!("{place}: {}", cost.in_words()))
        .collect();
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

/// A pool whose requirements are expensive to combine, and that lacks a field.
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
    // Before Karpenter 1.15 a missing `consolidateAfter` is an error.
    let mut settings = Settings::default();
    settings.platform.state(Product::Karpenter, Version::new(1, 14));
    let engine = Arc::new(Engine::new(settings));
    let source = Source::from_text("pool.yaml", &costly_pool().to_string());
    let file = File::read(source);
    let cluster = gpulint_testing::cluster(&engine, &file.objects);
    let report = engine.check_file(&file, &cluster);
    let has = |rule: &str| report.findings.iter().any(|finding| finding.rule.id == rule);
    assert!(has("step-limit-exceeded") && has("consolidate-after-missing"), "{:?}", report.findings);
    // The cost does not depend on the order of files, or on edits before.
    let mut workspace = Workspace::new();
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
