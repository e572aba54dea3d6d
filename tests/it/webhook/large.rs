//! Large objects that are created at once, on a real API server: each is denied, or it is told that it was not checked.

use serde_json::{Value, json};

use crate::webhook::balancer::Balancer;
use crate::webhook::client::metric;
use crate::webhook::in_cluster::{asked, cluster, make, post, serve};
use crate::webhook::server::Folder;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ml/deployments";
const DENIED: &str = "gpulint_admission_requests_total{webhook=\"validate\",operation=\"CREATE\",group=\"apps\",\
                      kind=\"Deployment\",decision=\"denied\"}";
/// Size of each object in bytes.
const SIZE: usize = 829_000;

/// A Deployment with an error, and much of one thing.
fn large(shape: &str, number: usize) -> Value {
    let name = format!("{shape}-{number}");
    let mut container = json!({"name": "main", "image": "registry.example.com/main:1.2.3"});
    let mut annotations = json!({});
    match shape {
        "environment" => {
            let one = |at: usize| json!({"name": format!("SETTING_{at}"), "value": format!("{number}-{at}-{}", "x".repeat(40))});
            container["env"] = (0..SIZE / 90).map(one).collect();
        }
        "arguments" => {
            let one = |at: usize| format!("--setting-{at}={number},{}", "x".repeat(60)).into();
            container["args"] = (0..SIZE / 85).map(one).collect::<Vec<Value>>().into();
        }
        _ => {
            let words = format!("a note of {number} ");
            // The API server accepts 256 KiB of annotations in all.
            annotations["example.com/note"] = words.repeat(250_000 / words.len()).into();
            let script = format!("echo {number}; sleep 1\n");
            container["command"] = json!(["sh", "-c", script.repeat((SIZE - 250_000) / script.len())]);
        }
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "ml", "annotations": annotations},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}, "annotations": {"karpenter.sh/do-not-disrupt": "soon"}},
            "spec": {"containers": [container]}}}})
}

/// Workloads have a timeout of one second, and pass where it is exceeded. A build with optimizations denies all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_at_once_are_denied_or_counted() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let people = ["ann", "bob"]
        .map(|name| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "people"},
        "subjects": people,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    make(&cluster, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    folder.write("gpulint.yaml", "{}\n");
    let server = serve(&cluster, &folder, "gpulint", &balancer, &["--events"]).await;
    asked(&cluster).await;
    let mut admitted = 0;
    for shape in ["environment", "arguments", "texts"] {
        let created = (0..8).map(|number| {
            let (cluster, object) = (&cluster, large(shape, number));
            async move {
                let (user, began) = (["ann", "bob"][number % 2], std::time::Instant::now());
                let (code, answer) =
                    cluster.send_as(user, "POST", DEPLOYMENTS, "application/json", &object).await;
                assert!(matches!(code, 201 | 422), "{code} {answer:#}");
                (code, began.elapsed())
            }
        });
        let answers = futures::future::join_all(created).await;
        println!("{shape}: {answers:?}");
        admitted += answers.iter().filter(|(code, _)| *code == 201).count();
    }
    let said = cluster.said();
    let opened = said.lines().filter(|line| line.contains("failing open")).count();
    println!("{admitted} of 24 admitted, {opened} times by the failure policy");
    assert!(admitted == 0 || cfg!(debug_assertions), "{said}");
    if admitted > 0 {
        let unchecked = server.process.said().lines().filter(|line| line.contains("not checked")).count();
        let metrics = server.metrics().await;
        let failures = metrics.lines().filter(|line| line.starts_with("gpulint_admission_failures_total{"));
        let failures: f64 = failures.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        assert!(failures >= admitted as f64 && unchecked > 0, "{metrics}\n{}", server.process.said());
    }
}

/// A server that takes one review at a time leaves the others to the failure policy, and tells of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_let_through_is_counted_logged_and_an_event() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    folder.write("gpulint.yaml", "{}\n");
    let one_review = ["--events", "--max-reviews", "1"];
    let server = serve(&cluster, &folder, "gpulint", &balancer, &one_review).await;
    asked(&cluster).await;
    let mut admitted = Vec::new();
    let mut next = 0;
    // Admitted by the API server's own timeout, while a denial was on its way to it.
    let mut late = 0.0;
    while admitted.is_empty() || late > 0.0 {
        assert!(next < 60, "each is answered before the next one comes: {admitted:?}, {late} of them late");
        let before = server.metrics().await;
        let created = (next..next + 6).map(|number| {
            let (cluster, object) = (&cluster, large("environment", number));
            async move {
                let (code, _) = post(cluster, DEPLOYMENTS, &object).await;
                (code == 201).then_some(number)
            }
        });
        admitted = futures::future::join_all(created).await.into_iter().flatten().collect();
        next += 6;
        let after = server.metrics().await;
        late = admitted.len() as f64 - 6.0 + metric(&after, DENIED) - metric(&before, DENIED);
    }
    let metrics = server.metrics().await;
    let is_failure = |line: &&str| {
        line.starts_with("gpulint_admission_failures_total{") && line.contains("webhook=\"validate\"")
    };
    let failures = metrics.lines().filter(is_failure);
    let failures: f64 = failures.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(failures >= admitted.len() as f64, "{admitted:?} {metrics}");
    let said = server.process.said();
    for number in admitted {
        let name = format!("environment-{number}");
        let is_told = |line: &str| {
            line.contains("not checked") && line.contains(&format!("ml/{name}")) && line.contains("admin")
        };
        assert!(said.lines().any(is_told), "{name}: {said}");
        cluster
            .until("an Event tells of it", async || {
                let (_, events) = cluster.get("/apis/events.k8s.io/v1/namespaces/ml/events").await;
                events["items"].as_array().into_iter().flatten().any(|event| {
                    event["regarding"]["name"] == *name
                        && event["reason"] == "NotChecked"
                        && event["note"]
                            .as_str()
                            .is_some_and(|note| note.contains("by admin was not checked"))
                })
            })
            .await;
    }
}
