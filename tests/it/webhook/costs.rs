//! What a review costs beside few objects and beside 20,000, and the memory of the latter.
//!
//! `GPULINT_COSTS=1 cargo test --release --test it -- costs --nocapture` prints both, and holds a build with optimizations to
//! the goals. With `GPULINT_ECHO`, the binary of the echo server in Go (`benches/echo/run` builds it), it prints the rates of
//! both servers as well.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpulint_testing::skipped;
use serde_json::{Value, json};

use crate::cluster::server::{Authority, Process};
use crate::webhook::client::{Client, metric};
use crate::webhook::fake::Fake;
use crate::webhook::reviews::{create, good_pool};
use crate::webhook::server::{Folder, Server};
use crate::webhook::soak::{pod, resident};

/// The time of the processor that a process has used, in milliseconds.
fn processor(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
    // The name of the program, in parentheses, may have blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = [11, 12].map(|at| fields[at].parse::<f64>().unwrap()).iter().sum();
    ticks * 10.0
}

/// The greatest resident memory of a process so far, in MiB.
fn peak(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

fn pool(number: usize) -> Value {
    let mut pool = good_pool(&format!("gpu-{number}"));
    pool["spec"]["weight"] = (number % 100 + 1).into();
    pool["spec"]["template"]["metadata"] = json!({"labels": {"team": format!("team-{}", number % 50)}});
    pool
}

fn deployment(number: usize) -> Value {
    let app = format!("app-{number}");
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": app, "namespace": format!("team-{}", number % 50)},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": app}}, "template": {
            "metadata": {"labels": {"app": app}}, "spec": pod(number)["spec"]}}})
}

fn scaled(number: usize) -> Value {
    json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": format!("app-{number}"), "namespace": format!("team-{}", number % 50)},
        "spec": {"scaleTargetRef": {"name": format!("app-{number}")}, "minReplicaCount": 2, "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus", "metadata": {
                "serverAddress": "http://prometheus.monitoring:9090",
                "query": format!("sum(rate(requests_total{{app=\"app-{number}\"}}[2m]))"), "threshold": "100"}}]}})
}

fn objects(pods: usize, deployments: usize, pools: usize, scalers: usize) -> Vec<Value> {
    let mut objects: Vec<Value> = (0..pods).map(pod).collect();
    objects.extend((0..deployments).map(deployment));
    objects.extend((0..pools).map(pool));
    objects.extend((0..scalers).map(scaled));
    objects
}

/// A review of a dry run, so that nothing of it is kept for those after it, in a namespace without rivals, which it would read.
fn review(object: &Value) -> String {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_string() {
        object["metadata"]["namespace"] = "reviewed".into();
    }
    let mut review: Value = serde_json::from_str(&create(&object)).unwrap();
    review["request"]["dryRun"] = true.into();
    review.to_string()
}

/// Reviews in each second that a server answers over some connections. The objects of all requests differ.
async fn rate(client: &Client, server: SocketAddr, connections: usize, object: fn(usize) -> Value) -> f64 {
    const NUMBER: usize = 7_777_777;
    const TIME: Duration = Duration::from_secs(2);
    static NEXT: AtomicUsize = AtomicUsize::new(1_000_000);
    let review = review(&object(NUMBER));
    let began = Instant::now();
    let connections = (0..connections).map(|_| {
        let (client, review) = (client.clone().http1(), review.clone());
        tokio::spawn(async move {
            let mut open = client.connect(server).await.unwrap();
            let mut answers = 0;
            while began.elapsed() < TIME {
                let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
                let review = review.replace(&NUMBER.to_string(), &number);
                assert_eq!(open.post("/validate?timeout=30s", review).await.unwrap().code, 200);
                answers += 1;
            }
            answers
        })
    });
    let mut answers = 0;
    for connection in futures::future::join_all(connections).await {
        answers += connection.unwrap();
    }
    f64::from(answers) / began.elapsed().as_secs_f64()
}

/// Starts the echo server in Go with the certificate of a folder. `None` if it is not asked for.
async fn echo(folder: &Folder) -> Option<(Process, SocketAddr)> {
    let mut command = Command::new(std::env::var_os("GPULINT_ECHO")?);
    command.args(["tls.crt", "tls.key"]).current_dir(folder.path());
    let echo = Process::start("echo", folder.path(), &mut command);
    loop {
        if let Some(address) = echo.said().lines().next().and_then(|line| line.parse().ok()) {
            return Some((echo, address));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_a_review_beside_few_and_many_objects() {
    if std::env::var_os("GPULINT_COSTS").is_none() {
        return skipped("GPULINT_COSTS is not set");
    }
    let (authority, fake) = (Authority::new(), Fake::start().await);
    let mut beside_few: Vec<f64> = Vec::new();
    for held in [objects(20, 20, 5, 5), objects(16_000, 3_000, 300, 700)] {
        let folder = Folder::new();
        let pair = authority.issue(&["127.0.0.1"]);
        folder.write("tls.crt", &pair.certificate);
        folder.write("tls.key", &pair.key);
        fake.hold(&held);
        let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
        let server = Server::start("costs", folder.path(), Some(&fake.kubeconfig(&folder)), &args).await;
        server.ready().await;
        let pods = held.iter().filter(|object| object["kind"] == "Pod").count();
        let line = r#"gpulint_cache_objects{group="",kind="Pod"}"#;
        server
            .until("all pods are known", async || metric(&server.metrics().await, line) as usize == pods)
            .await;
        let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
        let kinds =
            [("NodePool", pool as fn(usize) -> Value), ("Deployment", deployment), ("ScaledObject", scaled)];
        let echo = echo(&folder).await;
        for (at, (kind, object)) in kinds.into_iter().enumerate() {
            let rounds = if cfg!(debug_assertions) { 200 } else { 2_000 };
            let before = processor(&server);
            for number in 0..rounds {
                let body = review(&object(100_000 + number));
                assert_eq!(open.post("/validate?timeout=30s", body).await.unwrap().code, 200);
            }
            let each = (processor(&server) - before) / f64::from(rounds as u32);
            println!("{kind} beside {} objects: {each:.3} ms of the processor", held.len());
            match beside_few.get(at) {
                None => beside_few.push(each),
                Some(few) => assert!(
                    each <= 1.3 * few || cfg!(debug_assertions),
                    "{kind}: {each} ms, beside few objects {few} ms"
                ),
            }
            let client = Client::new(authority.pem());
            let Some((_, echo)) = &echo else { continue };
            for connections in [1, 16, 64] {
                let of_echo = rate(&client, *echo, connections, object).await;
                let own = rate(&client, server.admission, connections, object).await;
                let share = own / of_echo;
                println!("  {connections} connections: {own:.0}/s, echo {of_echo:.0}/s: {share:.2}");
            }
        }
        assert!(peak(&server) <= 250.0 || cfg!(debug_assertions), "{} MiB", peak(&server));
        println!(
            "{} objects: {:.0} MiB, at most {:.0} MiB with the program",
            held.len(),
            resident(&server).unwrap_or_default(),
            peak(&server)
        );
        if let Some(seconds) = std::env::var("GPULINT_PROFILE").ok().and_then(|s| s.parse().ok()) {
            println!("process {} is kept for a profiler", server.process.id());
            let began = std::time::Instant::now();
            for number in 0.. {
                let _ = open.post("/validate?timeout=30s", create(&pool(200_000 + number))).await;
                if began.elapsed() > std::time::Duration::from_secs(seconds) {
                    break;
                }
            }
        }
    }
}
