//! `cargo bench -p gpulint-rules`: the engine by itself, medians over rounds.
//!
//! Reading, judging 2,000 NodePools, and one review beside 10,000 objects. Whole runs of the
//! program are measured from outside, on what the `manifests` example writes.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_rules::engine::File;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Engine, Index, Object, Settings};

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
        write!(
            text,
            "{}",
            GPU_POOL.replace("name: ", &format!("name: p{n}-"))
        )
        .unwrap();
    }
    let source = Arc::new(Source::from_text("pools.yaml", &text));
    let reading = median(9, || {
        assert_eq!(read(&source).len(), 2000);
    });
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "read 2,000 NodePools ({megabytes:.1} MB): {reading:?}, {:.0} MB/s",
        megabytes / reading.as_secs_f64()
    );

    let engine = Engine::new(Settings::default());
    let documents = read(&source);
    let objects: Vec<Object> = documents
        .iter()
        .flat_map(|d| Object::from_document(&source, d, false))
        .collect();
    let mut index = Index::new(false);
    for object in &objects {
        index.apply(object.clone());
    }
    let file = File {
        source,
        documents,
        objects,
    };
    let judging = median(9, || {
        std::hint::black_box(engine.check_file(&file, &index));
    });
    println!("judge them: {judging:?}, {:?} each", judging / 2000);

    let mut index = Index::new(false);
    for n in 0..10_000 {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{n}"), "namespace": format!("team-{}", n % 50), "labels": {"app": format!("a{n}")}},
            "spec": {"nodeSelector": {"team": format!("t{n}")}, "containers": [{"name": "main", "image": "example.com/a:1"}]}});
        index.apply(Object::from_json(&pod).unwrap());
    }
    let pool = file.objects[0].root().to_json();
    let review = median(999, || {
        let object = Object::from_json(&pool).unwrap();
        std::hint::black_box(engine.review_object(&object, &index));
    });
    println!("one review beside 10,000 objects: {review:?}");
}
