//! The server over a long time, and with a large cache.
//!
//! `GPULINT_SOAK=120` runs the soak for as many seconds; without the variable the test prints that it was
//! skipped, and passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpulint_testing::missing;
use serde_json::{Value, json};

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, metric};
use crate::webhook::fake::Fake;
use crate::webhook::reviews::{bad_pool, create, good_pool};
use crate::webhook::server::{Folder, Server};
use crate::webhook::tls::mount;

/// The resident memory of a process in MiB; `None` if the system does not provide it. Pages of the executable
/// are not counted: a build without optimizations has three times as many, and the system can evict them.
pub(crate) fn resident(server: &Server) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024.0)
}

const MAY_SUPPRESS: &str = "webhook: {may-suppress: {users: [admin]}}\n";

/// A StatefulSet with an error, owned by a pod that is there, made by somebody who is no controller.
fn owned() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "workers", "namespace": "team-1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "trainer-1", "controller": true,
             "uid": "00000000-0000-0000-0000-000000000001"}]},
        "spec": {"selector": {"matchLabels": {"app": "workers"}}, "template": {
            "metadata": {"labels": {"app": "workers"}, "annotations": {"karpenter.sh/do-not-disrupt": "soon"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.2.3"}]}}}})
}

/// A pool with an error, and a suppression that its author may not write.
fn suppressed() -> Value {
    let mut pool = bad_pool("gpu");
    pool["metadata"]["annotations"] = json!({"gpulint.dev/allow": "gpu-pool-untainted: it is late"});
    pool
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fails_and_memory_stays_flat_while_everything_changes() {
    let seconds = std::env::var("GPULINT_SOAK").ok().filter(|seconds| !seconds.is_empty());
    let Some(seconds) = seconds else {
        return missing("number of seconds for the soak", "GPULINT_SOAK=30");
    };
    let whole = Duration::from_secs(seconds.parse().expect("GPULINT_SOAK is a number of seconds"));
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    mount(folder.path(), "v0", &authority.issue(&["127.0.0.1"]));
    folder.write("gpulint.yaml", MAY_SUPPRESS);
    fake.hold(&(0..500).map(pod).collect::<Vec<Value>>());
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--config", "gpulint.yaml"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let (end, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let address = server.admission;
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let mut client = Client::new(authority.pem());
            if number % 2 == 0 {
                client = client.http1();
            }
            let (end, answered) = (Arc::clone(&end), Arc::clone(&answered));
            tokio::spawn(async move {
                let bodies = [create(&good_pool("gpu")), create(&bad_pool("gpu"))];
                let attacks = [create(&owned()), create(&suppressed())];
                while !end.load(Ordering::Relaxed) {
                    // Half of the requests keep objects, the other half create and delete them.
                    let requests = if number < 4 { 10_000 } else { 20 };
                    let mut open = client.connect(address).await.unwrap();
                    for at in 0..requests {
                        let path = if at % 4 == 0 { "/mutate?timeout=30s" } else { "/validate?timeout=30s" };
                        let answer = open.post(path, bodies[at % 2].clone()).await.unwrap();
                        assert_eq!(answer.code, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                        if at % 8 == 0 {
                            let attack = attacks[at / 8 % 2].clone();
                            let answer = open.post("/validate?timeout=30s", attack).await.unwrap();
                            let answer = answer.json();
                            assert_eq!(answer["response"]["allowed"], false, "{answer:#}");
                        }
                        if end.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    let began = Instant::now();
    let (mut swaps, mut warm, mut most) = (0_usize, None, 0.0_f64);
    while began.elapsed() < whole {
        tokio::time::sleep(Duration::from_secs(1)).await;
        swaps += 1;
        // The cluster changes: pods are created, updated and deleted.
        for number in 0..50 {
            let mut pod = pod(swaps * 7 % 500 + number);
            pod["metadata"]["labels"]["turn"] = swaps.to_string().into();
            let event = if number % 5 == 0 { "DELETED" } else { "MODIFIED" };
            fake.change(event, &pod);
        }
        // The configuration changes as well, and is invalid at every third time.
        folder.write(
            "gpulint.yaml",
            match swaps % 3 {
                0 => MAY_SUPPRESS.to_owned(),
                1 => format!(
                    "{MAY_SUPPRESS}platform: {{karpenter: \"1.14\"}}\nrules: {{pdb-missing: error}}\n"
                ),
                _ => "rulez: {}\n".to_owned(),
            }
            .as_str(),
        );
        mount(folder.path(), &format!("v{swaps}"), &authority.issue(&["127.0.0.1"]));
        let old = format!("v{}", swaps.saturating_sub(3));
        let _ = std::fs::remove_dir_all(folder.path().join(old));
        if began.elapsed() > whole / 3 {
            let now = resident(&server);
            warm = warm.or(now);
            most = most.max(now.unwrap_or_default());
        }
    }
    end.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let metrics = server.metrics().await;
    let reloads = metric(&metrics, r#"gpulint_reloads_total{what="certificate",result="ok"}"#);
    let configurations = ["ok", "refused"].map(|result| {
        let line = format!(r#"gpulint_reloads_total{{what="configuration",result="{result}"}}"#);
        metric(&metrics, &line)
    });
    let snapshots = metric(&metrics, "gpulint_cache_rebuilds_total");
    let count = answered.load(Ordering::Relaxed);
    println!(
        "{count} requests in {whole:?}, {reloads} certificates, {configurations:?} configurations taken and refused, {snapshots} snapshots, {warm:?} MiB after a third, {most:.1} MiB at most later"
    );
    assert!(reloads >= (swaps / 2) as f64, "{metrics}");
    assert!(configurations.iter().all(|n| *n >= 1.0), "{metrics}");
    // At least every few seconds, however busy the machine is.
    assert!(snapshots >= (swaps / 8) as f64, "{metrics}");
    assert!(!metrics.contains("gpulint_admission_failures_total{"), "{metrics}");
    if let Some(warm) = warm {
        assert!(most < warm * 1.2 + 8.0, "{warm} MiB became {most} MiB");
    }
}

/// A pod as in a cluster: created by a controller, with status and managed fields.
pub(crate) fn pod(number: usize) -> Value {
    let env: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{number}")}))
        .collect();
    let fields: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("f:field-{n}"), json!({".": {}, "f:inner": {}}))).collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("trainer-{number}"), "namespace": format!("team-{}", number % 50),
            "uid": format!("00000000-0000-0000-0000-{number:012}"),
            "labels": {"app": format!("app-{}", number % 500), "team": "ml", "version": "v1"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Experiment", "name": "x", "uid": "1", "controller": true}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}]},
        "spec": {"nodeName": format!("ip-10-0-{}-{}.ec2.internal", number / 200, number % 200),
            "containers": [{"name": "main", "image": "registry.example.com/team/trainer:1.2.3", "env": env,
                "command": ["python", "-m", "train", "--epochs", "10"],
                "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}]}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pods_fit_into_100_mib() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    let mut objects: Vec<Value> = (0..10_000).map(pod).collect();
    objects.extend((0..200).map(|number| good_pool(&format!("gpu-{number}"))));
    fake.hold(&objects);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    let line = r#"gpulint_cache_objects{group="",kind="Pod"}"#;
    server.until("all pods are known", async || metric(&server.metrics().await, line) == 10_000.0).await;
    server.ready().await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    for _ in 0..100 {
        assert_eq!(open.post("/validate", create(&bad_pool("gpu"))).await.unwrap().code, 200);
    }
    let Some(resident) = resident(&server) else {
        return;
    };
    println!("{resident:.1} MiB with 10,000 pods and 200 pools");
    assert!(resident < 100.0, "{resident} MiB");
}
