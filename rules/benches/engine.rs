//! `cargo bench -p gpulint-rules`: the engine by itself, medians over rounds.
//!
//! It measures reading, checking 2,000 NodePools, one review with 10,000 other objects, and one changed file
//! among 1,400. Runs of the whole program are measured separately, with the output of the `manifests`
//! example.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

#[allow(dead_code)]
#[path = "../examples/manifests.rs"]
mod manifests;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_rules::file::File;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Cluster, Engine, Object, Settings, Workspace};

const GPU_POOL: &str = include_str!("../../fixtures/practices/000/01-inference-pool.yaml");

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    work();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let mut text = String::new();
    for n in 0..2000 {
        if n > 0 {
            text.push_str("---\n");
        }
        write!(text, "{}", GPU_POOL.replace("name: ", &format!("name: p{n}-"))).unwrap();
    }
    let source = Source::from_text("pools.yaml", &text);
    let reading = median(9, || {
        assert_eq!(read(&source).len(), 2000);
    });
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "read 2,000 NodePools ({megabytes:.1} MB): {reading:?}, {:.0} MB/s",
        megabytes / reading.as_secs_f64()
    );

    let engine = Engine::new(Settings::default());
    let file = File::read(source);
    let cluster = gpulint_testing::cluster(&engine, &file.objects);
    let checking = median(9, || {
        std::hint::black_box(engine.check_file(&file, &cluster));
    });
    println!("check them: {checking:?}, {:?} each", checking / 2000);

    let mut cluster = Cluster::new(false);
    for n in 0..10_000 {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{n}"), "namespace": format!("team-{}", n % 50), "labels": {"app": format!("a{n}")}},
            "spec": {"nodeSelector": {"team": format!("t{n}")}, "containers": [{"name": "main", "image": "example.com/a:1"}]}});
        cluster.apply(Object::from_json(&pod).unwrap());
    }
    let pool = file.objects[0].root().to_json();
    let review = median(999, || {
        let object = Object::from_json(&pool).unwrap();
        std::hint::black_box(engine.review_object(&object, &cluster));
    });
    println!("one review beside 10,000 objects: {review:?}");
    edits(&engine);
}

const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu\nspec:\n  role: nodes\n  \
    amiSelectorTerms: [{alias: al2023@v20250701}]\n  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]\n  \
    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]\n";

/// Measures one changed file in a folder of 1,400, until all findings are up to date.
fn edits(engine: &Engine) {
    let dense = manifests::app(700);
    let dense = [
        ("Deployment", "app-700.yaml", dense.as_str(), "replicas: 3", "replicas: 1"),
        ("NodePool", "app-700.yaml", &dense, "consolidateAfter: 5m", "consolidateAfter: 9m"),
        ("NodePool's taint", "app-700.yaml", &dense, "effect: NoSchedule", "effect: NoExecute"),
        ("PDB", "app-700.yaml", &dense, "maxUnavailable: 1", "maxUnavailable: 0"),
    ];
    edits_among("a dense folder", &manifests::app, &dense, engine);
    let (pool, run, app) = (manifests::cluster(700), manifests::cluster(710), manifests::cluster(702));
    let cluster = [
        ("Deployment", "app-702.yaml", app.as_str(), "cpu: \"7\"", "cpu: \"5\""),
        ("training run", "app-710.yaml", &run, "cpu: \"7\"", "cpu: \"5\""),
        (
            "training run's protection",
            "app-710.yaml",
            &run,
            "do-not-disrupt: \"true\"",
            "do-not-disrupt: \"false\"",
        ),
        ("NodePool", "app-700.yaml", &pool, "consolidateAfter: 5m", "consolidateAfter: 9m"),
        ("NodePool's capacity", "app-700.yaml", &pool, "values: [on-demand]", "values: [spot]"),
        ("NodePool's weight", "app-700.yaml", &pool, "weight: 2", "weight: 9"),
        (
            "NodePool's grace period",
            "app-700.yaml",
            &pool,
            "terminationGracePeriod: 48h",
            "terminationGracePeriod: 10s",
        ),
        ("PDB", "app-702.yaml", &app, "maxUnavailable: 1", "maxUnavailable: 0"),
        ("HPA", "app-702.yaml", &app, "maxReplicas: 9", "maxReplicas: 1"),
    ];
    edits_among("a cluster", &manifests::cluster, &cluster, engine);
}

/// An edit: its description, the file, the old text, the part to replace, and the replacement.
type Edit<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

const CLASS_EDITS: [Edit<'_>; 2] = [
    ("EC2NodeClass", "class.yaml", CLASS, "role: nodes", "role: others"),
    ("EC2NodeClass's name", "class.yaml", CLASS, "name: gpu", "name: cpu"),
];

fn edits_among(what: &str, file: &dyn Fn(usize) -> String, edits: &[Edit<'_>], engine: &Engine) {
    let read = |path: &str, text: &str| File::read(Source::from_text(path, text));
    for complete in [false, true] {
        let engine = &Arc::new(Engine::new(Settings { complete, ..engine.settings().clone() }));
        let mut workspace = Workspace::new();
        let start = Instant::now();
        workspace.open(
            (0..1400)
                .map(|n| read(&format!("app-{n}.yaml"), &file(n)))
                .chain([read("class.yaml", CLASS)])
                .map(|file| (file, Arc::clone(engine))),
        );
        let opening = start.elapsed();
        println!("opening {what} of 1,400 files, on one thread, complete {complete}: {opening:?}");
        for (name, path, text, from, to) in edits.iter().chain(&CLASS_EDITS) {
            assert!(text.contains(from), "{name}");
            let other = text.replacen(from, to, 1);
            let mut changed = 0;
            let mut turn = 0;
            let editing = median(20, || {
                turn += 1;
                let text = if turn % 2 == 1 { &other } else { *text };
                changed = changed.max(workspace.set(read(path, text), engine).len());
            });
            println!("  one changed {name}: {editing:?}; findings of {changed} other files changed");
        }
    }
}
