//! Clients that try to make the server fail others: slow ones, floods, and objects that are expensive to
//! check.
//!
//! All attacks are limited in number and time and stay on loopback. The attackers use a separate source
//! address, if the system has one; reviews of honest clients are answered at the same time. `GPULINT_SOAK`
//! measures how many.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gpulint_testing::missing;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::cluster::server::Authority;
use crate::webhook::client::{Body, Client, plain};
use crate::webhook::crowd::Crowd;
use crate::webhook::reviews::{bad_pool, create, good_pool};
use crate::webhook::server::Folder;
use crate::webhook::soak::resident;
use crate::webhook::tls::serve;

/// The source address of attackers.
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// An attack, which is repeated until it is stopped.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// 130 connections that send a byte every now and then.
    SlowBytes,
    /// 500 streams of one connection without a body.
    SilentStreams,
    /// Connections that announce 4 MiB.
    Announced,
    /// Requests whose response is never read.
    Unread,
    /// The maximum number of connections, all of them idle.
    Connections,
    /// A body that is not an AdmissionReview.
    Malformed,
    /// A `kind` of 4 MB.
    LongKind,
    /// A Deployment whose node affinity names 700 instance types that do not exist: 15 KB.
    UnknownTypes,
    /// A Deployment whose node affinity names 60,000 instance types that do not exist: more than 1 MB.
    ManyUnknownTypes,
    /// A Pod of 3,000 containers.
    Containers,
    /// Requests that are cancelled immediately.
    Reset,
}

const ATTACKS: [Attack; 11] = [
    Attack::SlowBytes,
    Attack::SilentStreams,
    Attack::Announced,
    Attack::Unread,
    Attack::Connections,
    Attack::Malformed,
    Attack::LongKind,
    Attack::UnknownTypes,
    Attack::ManyUnknownTypes,
    Attack::Containers,
    Attack::Reset,
];

impl Attack {
    /// Number of clients that attack at the same time.
    fn clients(self) -> usize {
        match self {
            Attack::SlowBytes => 130,
            Attack::Connections => 300,
            Attack::SilentStreams | Attack::Unread => 1,
            _ => 4,
        }
    }

    /// One round of one client. Errors by the server are expected.
    async fn round(self, client: Client, address: SocketAddr) {
        let path = "/validate?timeout=30s";
        let Ok(mut open) = client.connect(address).await else { return };
        match self {
            Attack::SlowBytes => drop(open.send("POST", path, dripping(), false).await),
            Attack::SilentStreams => {
                let streams = (0..500).map(|_| {
                    let mut open = open.clone_http2();
                    async move { drop(open.send("POST", path, never(), false).await) }
                });
                futures::future::join_all(streams).await;
            }
            Attack::Announced => drop(open.announce(path, 4 * 1024 * 1024).await),
            Attack::Unread => {
                let bodies = (0..400).map(|_| {
                    let mut open = open.clone_http2();
                    let body = Full::new(Bytes::from(create(&bad_pool("gpu")))).boxed();
                    async move { open.untaken(path, body).await.ok() }
                });
                let held = futures::future::join_all(bodies).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
                drop(held);
            }
            Attack::Connections => tokio::time::sleep(Duration::from_secs(2)).await,
            Attack::Reset => {
                for _ in 0..100 {
                    let mut open = open.clone_http2();
                    let sent = open.send("POST", path, never(), false);
                    let _ = tokio::time::timeout(Duration::from_micros(200), sent).await;
                }
            }
            Attack::Malformed
            | Attack::LongKind
            | Attack::UnknownTypes
            | Attack::ManyUnknownTypes
            | Attack::Containers => {
                let body = Bytes::from(self.body());
                for _ in 0..20 {
                    if open.post(path, body.clone()).await.is_err() {
                        return;
                    }
                    // This limits the load that the attacker itself puts on the machine.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    fn body(self) -> String {
        match self {
            Attack::LongKind => {
                json!({"apiVersion": "v1", "kind": "x".repeat(4_000_000), "request": {"uid": "1"}})
                    .to_string()
            }
            Attack::UnknownTypes => create_deployment(&affinity(700)),
            Attack::ManyUnknownTypes => create_deployment(&affinity(60_000)),
            Attack::Containers => {
                let containers: Vec<Value> =
                    (0..3000).map(|n| json!({"name": format!("c-{n}"), "image": "a"})).collect();
                create_deployment(&json!({"containers": containers}))
            }
            _ => "{\"apiVersion\": ".to_owned(),
        }
    }
}

/// A pod whose node affinity names instance types that do not exist.
fn affinity(types: usize) -> Value {
    let values: Vec<String> = (0..types).map(|n| format!("g{n}q.{n}xlarge")).collect();
    json!({"containers": [{"name": "main", "image": "a"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values}]}]}}}})
}

fn create_deployment(pod: &Value) -> String {
    create_core(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}}}))
}

fn create_core(object: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7e1a", "operation": "CREATE", "kind": {"group": "apps", "version": "v1", "kind": object["kind"]},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "object": object}})
    .to_string()
}

/// A byte every 100 ms.
fn dripping() -> Body {
    let bytes = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Some((Ok(Frame::data(Bytes::from_static(b" "))), ()))
    });
    BodyExt::boxed(StreamBody::new(bytes))
}

/// A body that never comes.
fn never() -> Body {
    BodyExt::boxed(StreamBody::new(futures::stream::pending()))
}

/// Running attackers, which stop when they are dropped.
struct Attackers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Attackers {
    fn start(attack: Attack, client: &Client, address: SocketAddr) -> Attackers {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..attack.clients()).map(|_| {
            let (stop, client) = (Arc::clone(&stop), client.clone().from(ELSEWHERE));
            let client = if matches!(attack, Attack::SlowBytes) { client.http1() } else { client };
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    attack.round(client.clone(), address).await;
                    // Handshakes cost as much on this side of the connection.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            })
        });
        let tasks = tasks.collect();
        Attackers { stop, tasks }
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A review of about 30 KB: an update of an object with many fields that users do not write.
fn medium() -> String {
    let mut pool = good_pool("gpu");
    let notes: serde_json::Map<String, Value> =
        (0..30).map(|n| (format!("example.com/note-{n}"), "x".repeat(1000).into())).collect();
    pool["metadata"]["annotations"] = notes.into();
    create(&pool)
}

/// The results of honest clients.
#[derive(Debug, Default)]
struct Honest {
    answered: AtomicU64,
    refused: AtomicU64,
    /// Duration of the slowest answer, in milliseconds.
    slowest: AtomicU64,
}

/// Four connections that send one review after the other, for `time`.
async fn honest(client: &Client, address: SocketAddr, time: Duration) -> Honest {
    let count = Honest::default();
    let clients = (0..4).map(|number| {
        let (count, client) = (&count, client.clone());
        async move {
            let client = if number == 0 { client.http1() } else { client };
            let bodies = [create(&bad_pool("gpu")), medium()];
            let mut open = client.connect(address).await.unwrap();
            let began = Instant::now();
            for turn in number.. {
                let sent = Instant::now();
                let answer = open.post("/validate?timeout=30s", bodies[turn % 2].clone()).await.unwrap();
                let counter = if answer.code == 200 { &count.answered } else { &count.refused };
                counter.fetch_add(1, Ordering::Relaxed);
                let took = u64::try_from(sent.elapsed().as_millis()).unwrap();
                count.slowest.fetch_max(took, Ordering::Relaxed);
                if began.elapsed() > time {
                    break;
                }
                // An API server sends reviews now and then, not as fast as it can.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    futures::future::join_all(clients).await;
    count
}

/// Slow, silent or numerous clients do not keep the server from answering others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_switch_nothing_off() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &["--body-timeout", "1s"]).await;
    let client = Client::new(authority.pem());
    let slow = [
        Attack::SlowBytes,
        Attack::SilentStreams,
        Attack::Announced,
        Attack::Connections,
        Attack::Unread,
        Attack::Reset,
    ];
    for attack in slow {
        let attackers = Attackers::start(attack, &client, server.admission);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let honest = honest(&client, server.admission, Duration::from_millis(700)).await;
        drop(attackers);
        assert!(honest.answered.load(Ordering::Relaxed) >= 4, "{attack:?}: {honest:?}");
        assert_eq!(honest.refused.load(Ordering::Relaxed), 0, "{attack:?}: {honest:?}");
        assert_eq!(plain(server.operations, "/healthz").await.unwrap().0, 200);
    }
}

/// The content that a client sends is not logged, and many requests do not fill the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_do_not_write_the_log() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &["--log-format", "text"]).await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let forged = "\u{1b}[2J\n2026-01-01 ERROR forged";
    let bodies = [
        Attack::LongKind.body(),
        json!({"apiVersion": forged, "kind": forged, "request": {"uid": "1"}}).to_string(),
        forged.to_owned(),
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": [forged]}})
            .to_string(),
    ];
    for body in &bodies {
        assert_eq!(open.post("/validate", body.clone()).await.unwrap().code, 400);
    }
    for _ in 0..500 {
        assert_eq!(open.post("/validate", bodies[2].clone()).await.unwrap().code, 400);
    }
    let said = server.process.said();
    assert!(!said.contains("forged") && !said.contains('\u{1b}') && !said.contains("xxxx"), "{said}");
    assert!(said.contains("another kind or version") && said.contains("it is not JSON"), "{said}");
    assert!(said.len() < 20_000, "{} bytes", said.len());
}

/// The throughput of honest clients without something, and beside it.
struct Throughput {
    alone: Honest,
    beside: Honest,
}

impl Throughput {
    /// Whether nothing was refused, and enough of the throughput is left. Without optimizations, the attackers of the test
    /// itself use more of the two cores than an attack may, and other tests use them too; who gets the next turn is tested in
    /// `webhook/src/serve/turns.rs`.
    fn is_kept(&self) -> bool {
        let answered = |honest: &Honest| honest.answered.load(Ordering::Relaxed);
        let share = if cfg!(debug_assertions) { 8 } else { 2 };
        self.beside.refused.load(Ordering::Relaxed) == 0
            && answered(&self.beside) >= answered(&self.alone) / share
    }
}

/// During each attack, honest clients get at least half of their normal throughput.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_reviews_keep_half_of_their_throughput_beside_attacks() {
    let Some(seconds) = std::env::var("GPULINT_SOAK").ok().and_then(|s| s.parse::<u64>().ok()) else {
        return missing("number of seconds for the soak", "GPULINT_SOAK=30");
    };
    // A round with each attack, and one without before each.
    let round = Duration::from_secs(seconds) / (2 * ATTACKS.len() as u32);
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority, &["--body-timeout", "1s"]).await;
    let client = Client::new(authority.pem());
    let beside_attack = async |attack: Attack| {
        let alone = honest(&client, server.admission, round).await;
        let attackers = Attackers::start(attack, &client, server.admission);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let beside = honest(&client, server.admission, round).await;
        let probe = Instant::now();
        assert_eq!(plain(server.operations, "/healthz").await.unwrap().0, 200);
        let probe = probe.elapsed();
        drop(attackers);
        let rate = |honest: &Honest| honest.answered.load(Ordering::Relaxed) as f64 / round.as_secs_f64();
        println!(
            "{attack:?}: {:.0} reviews a second without, {:.0} with it, {} refused, the slowest {} ms (without {} ms), a probe {probe:?}, {:.0} MiB",
            rate(&alone),
            rate(&beside),
            beside.refused.load(Ordering::Relaxed),
            beside.slowest.load(Ordering::Relaxed),
            alone.slowest.load(Ordering::Relaxed),
            resident(&server).unwrap_or_default(),
        );
        Throughput { alone, beside }
    };
    // A crowd that opens its connections again as fast as they are closed.
    let beside_crowd = async || {
        let alone = honest(&client, server.admission, round).await;
        let crowd = Crowd::start(server.admission, 300).await;
        let beside = honest(&client, server.admission, round).await;
        drop(crowd);
        println!("2,400 bare connections: {alone:?} without, {beside:?} with them");
        Throughput { alone, beside }
    };
    let mut lost = Vec::new();
    for attack in ATTACKS.map(Some).into_iter().chain([None]) {
        // Tests that run at the same time use the cores as well: only what is lost three times counts.
        let mut is_kept = false;
        for _ in 0..3 {
            let throughput = match attack {
                Some(attack) => beside_attack(attack).await,
                None => beside_crowd().await,
            };
            is_kept = throughput.is_kept();
            if is_kept {
                break;
            }
        }
        if !is_kept {
            lost.push(attack.map_or("a crowd".to_owned(), |attack| format!("{attack:?}")));
        }
    }
    assert!(lost.is_empty(), "{lost:?}");
}
