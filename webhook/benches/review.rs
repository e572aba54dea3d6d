//! Measures reviews in process, with 20,000 other objects and without: from the bytes of an AdmissionReview to the bytes
//! of its answer.
//!
//! `cargo bench -p gpulint-webhook --bench review`. The budget is 200 µs at the median, also for the first
//! review after a snapshot. The cost of a snapshot of the cluster is printed, too: it is built after changes,
//! in parallel with requests, with all data that reviews read.
//!
//! `-- 'NodePool' 'Pod'` measures only these cases, for use with a profiler; `-- --alone` measures them
//! without other objects.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod objects;

use std::time::{Duration, Instant};

use gpulint_rules::{Cluster, Engine, Object, Settings};
use gpulint_webhook::{ReviewContext, mutate, review_in_context};
use serde_json::{Value, json};

use objects::{class, deployment, derived, job, managed, pod, scaled};

const ROUNDS: usize = 2_000;
/// Number of snapshots on which the first review is measured.
const FIRST_ROUNDS: usize = 21;

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (flags, only): (Vec<String>, Vec<String>) = only.into_iter().partition(|arg| arg.starts_with("--"));
    let alone = flags.iter().any(|flag| flag == "--alone");
    let objects = if alone { Vec::new() } else { cluster() };
    let objects: Vec<Object> = objects.iter().filter_map(Object::from_json).collect();
    let engine = Engine::new(Settings::default());
    let snapshot = |previous: &Cluster| {
        let mut cluster = previous.successor(true);
        for object in &objects {
            cluster.apply(object.clone());
        }
        cluster.build_views(&engine.settings().platform);
        cluster
    };
    let began = Instant::now();
    let mut cluster = snapshot(&Cluster::new(true));
    println!(
        "the first snapshot of {} objects: {:.1} ms",
        objects.len(),
        began.elapsed().as_secs_f64() * 1e3
    );
    let mut took: Vec<Duration> = (0..if only.is_empty() { 9 } else { 1 })
        .map(|_| {
            let began = Instant::now();
            cluster = snapshot(&cluster);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("one after it: {:.1} ms", took[took.len() / 2].as_secs_f64() * 1e3);

    let asked = ReviewContext { from_api_server: true, cluster_is_fed: true, is_syncing: false, now: None };
    let cases = [
        ("NodePool", create(&pool("new"), "karpenter.sh")),
        ("NodePool without taints", create(&untainted(), "karpenter.sh")),
        ("NodePool, updated", update(&pool("gpu-7"), &untainted(), "karpenter.sh")),
        ("Deployment", create(&deployment(1_000_000), "apps")),
        ("Job", create(&job(), "batch")),
        ("ScaledObject", create(&scaled(7), "keda.sh")),
        ("Pod", create(&pod(1_000_000), "")),
        ("Pod of a controller", create(&derived(), "")),
    ];
    let cases = cases.into_iter().filter(|(name, _)| only.is_empty() || only.iter().any(|only| only == name));
    let cases: Vec<(&str, Vec<u8>)> = cases.collect();
    for (name, body) in cases.iter().filter(|_| only.is_empty() && !alone) {
        // Each case is measured on a snapshot that has served no review, and then on the same one again.
        let mut took: Vec<[Duration; 2]> = (0..FIRST_ROUNDS)
            .map(|_| {
                cluster = snapshot(&cluster);
                [(); 2].map(|()| {
                    let began = Instant::now();
                    assert!(!review_in_context(&engine, &cluster, asked, body).unwrap().body.is_empty());
                    began.elapsed()
                })
            })
            .collect();
        let mut median = |which: usize| {
            took.sort_unstable_by_key(|times| times[which]);
            took[FIRST_ROUNDS / 2][which].as_secs_f64() * 1e6
        };
        let (first, second) = (median(0), median(1));
        println!("{name:<24} first after a snapshot {first:>6.0} µs, second {second:>6.0} µs");
    }
    let few: Vec<Object> = few().iter().filter_map(Object::from_json).collect();
    let mut small = Cluster::new(true);
    few.iter().for_each(|object| small.apply(object.clone()));
    small.build_views(&engine.settings().platform);
    for (name, body) in &cases {
        let median = |cluster: &Cluster| {
            let review = || review_in_context(&engine, cluster, asked, body).unwrap().body.len();
            median(review).as_secs_f64() * 1e6
        };
        let (few, many) = (median(&small), median(&cluster));
        println!("{name:<24} beside few {few:>6.0} µs, beside many {many:>6.0} µs: {:.2} times", many / few);
    }
    let newer = [Object::from_json(&scaled(1_000_000)).unwrap()];
    for (name, cluster) in [("few", &small), ("many", &cluster)] {
        let copied = median(|| usize::from(cluster.with_replaced(&[], &newer).is_complete()));
        println!("a copy of {name} with a newer object: {:.0} µs", copied.as_secs_f64() * 1e6);
    }
    for (name, body) in cases {
        let validated = measure(|| review_in_context(&engine, &cluster, asked, &body).unwrap().body.len());
        let mutated = measure(|| mutate(&engine, &cluster, &body).unwrap().body.len());
        println!("{name:<24} {:>6} bytes   validate {validated}   mutate {mutated}", body.len());
    }
}

/// Some objects of each kind of [`cluster`].
fn few() -> Vec<Value> {
    let mut objects: Vec<Value> = (0..20).map(pod).collect();
    objects.extend((0..10).map(deployment));
    objects.extend((0..5).map(|n| pool(&format!("gpu-{n}"))));
    objects.extend((0..5).map(scaled));
    objects.push(class());
    objects
}

fn median(mut work: impl FnMut() -> usize) -> Duration {
    let mut took: Vec<Duration> = (0..ROUNDS / 4)
        .map(|_| {
            let began = Instant::now();
            assert!(work() > 0);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}

fn measure(mut work: impl FnMut() -> usize) -> String {
    for _ in 0..ROUNDS / 10 {
        assert!(work() > 0);
    }
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            assert!(work() > 0);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    let micros = |at: usize| took[at].as_secs_f64() * 1e6;
    format!("{:>6.0} µs, p99 {:>6.0} µs", micros(ROUNDS / 2), micros(ROUNDS * 99 / 100))
}

/// 16,000 pods that no known controller created, and related objects, 20,000 in all.
fn cluster() -> Vec<Value> {
    let mut objects: Vec<Value> = (0..16_000).map(pod).collect();
    objects.extend((0..2_500).map(deployment));
    objects.extend((0..300).map(|n| pool(&format!("gpu-{n}"))));
    objects.extend((0..700).map(scaled));
    objects.push(class());
    objects.extend((0..500).map(|n| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("app-{n}"), "namespace": format!("team-{}", n % 50)},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": format!("app-{n}")}}}})
    }));
    objects
}

fn review(operation: &str, object: &Value, old: &Value, group: &str) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation,
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "kind": {"group": group, "version": "v1", "kind": object["kind"]},
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": object, "oldObject": old}})
    .to_string()
    .into_bytes()
}

fn create(object: &Value, group: &str) -> Vec<u8> {
    review("CREATE", object, &Value::Null, group)
}

fn update(object: &Value, old: &Value, group: &str) -> Vec<u8> {
    review("UPDATE", object, old, group)
}

fn pool(name: &str) -> Value {
    let mut pool = objects::pool(name);
    pool["metadata"]["managedFields"] = managed();
    pool
}

fn untainted() -> Value {
    let mut pool = pool("gpu-7");
    let spec = pool["spec"]["template"]["spec"].as_object_mut();
    spec.unwrap().remove("taints");
    pool
}
