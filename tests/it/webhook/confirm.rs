//! Denials that depend on another object, while the watches lag behind the API server.

use serde_json::{Value, json};

use crate::cluster::server::Authority;
use crate::webhook::client::{Client, metric};
use crate::webhook::fake::Fake;
use crate::webhook::reviews::create;
use crate::webhook::server::{Folder, Server};

/// A Deployment whose containers request this much.
pub(crate) fn deployment(requests: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "chat"}}, "template": {
            "metadata": {"labels": {"app": "chat"}},
            "spec": {"containers": [{"name": "chat", "image": "registry.example.com/chat:1.2.3",
                "resources": {"requests": requests}}]}}}})
}

/// A ScaledObject that needs the containers to request CPU.
pub(crate) fn scaled_object() -> Value {
    json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"scaleTargetRef": {"name": "chat"}, "minReplicaCount": 2, "maxReplicaCount": 4,
            "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_refusal_rests_on_is_read_before() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    let (without, with) = (deployment(&json!({})), deployment(&json!({"cpu": "1"})));
    fake.hold(std::slice::from_ref(&without));
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let deployments = r#"gpulint_cache_objects{group="apps",kind="Deployment"}"#;
    server
        .until("the Deployment is seen", async || metric(&server.metrics().await, deployments) == 1.0)
        .await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut ask = async || {
        let answer = open.post("/validate?timeout=3s", create(&scaled_object())).await.unwrap();
        let response = answer.json()["response"].clone();
        let about = |at: &str| {
            response.pointer(at).is_some_and(|v| v.to_string().contains("missing-resource-request"))
        };
        (about("/status/message"), about("/warnings"))
    };
    assert_eq!(ask().await, (true, false), "it holds of what the API server has");
    // The change was made just now, and no watch has reported it yet.
    fake.change_unseen(&with);
    assert_eq!(ask().await, (false, false));
    // The API server does not return the object.
    fake.refuse("deployments", true);
    assert_eq!(ask().await, (false, true));
    fake.refuse("deployments", false);
    fake.change_unseen(&without);
    assert_eq!(ask().await, (true, false));
}

/// Autoscalers that are applied by one command: the watches have not reported the first when the second is reviewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rival_that_was_made_a_moment_ago_is_found() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    fake.hold(&[deployment(&json!({"cpu": "1"}))]);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut denies = async |object: &Value| {
        let answer = open.post("/validate?timeout=3s", create(object)).await.unwrap().json();
        let denied = answer["response"]["allowed"] == false;
        assert!(!denied || answer.to_string().contains("keda-hpa-conflict"), "{answer:#}");
        denied
    };
    let named = |name: &str| {
        let mut scaled = scaled_object();
        scaled["metadata"]["name"] = name.into();
        scaled["metadata"]["uid"] = format!("7e1{name}").into();
        scaled
    };
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"minReplicas": 2, "maxReplicas": 4,
                 "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
                 "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}}]}});
    assert!(!denies(&named("b")).await);
    fake.change_unseen(&named("b"));
    // Before and after it in the order of names, and of another kind.
    for rival in [named("a"), named("c"), hpa.clone()] {
        assert!(denies(&rival).await, "{rival}");
    }
    // The HPA that KEDA made for it is no rival.
    let mut made = hpa;
    made["metadata"]["name"] = "keda-hpa-b".into();
    made["metadata"]["ownerReferences"] = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "name": "b", "uid": "7e1b", "controller": true}]);
    fake.change_unseen(&made);
    assert!(!denies(&named("b")).await);
    // The API server does not answer.
    fake.refuse("scaledobjects", true);
    fake.refuse("horizontalpodautoscalers", true);
    assert!(!denies(&named("a")).await);
    let alone = metric(&server.metrics().await, "gpulint_unconfirmed_reviews_total");
    assert!(alone == 1.0 && server.process.said().contains("not all was checked"), "{alone}");
}

/// Two objects of one command that may not be together: neither order gets both in, whatever the watches have shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_half_of_a_bad_pair_follows_the_other() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let mut open = Client::new(authority.pem()).connect(server.admission).await.unwrap();
    let mut denies = async |object: &Value, dry_run: bool| {
        let mut review: Value = serde_json::from_str(&create(object)).unwrap();
        review["request"]["dryRun"] = dry_run.into();
        let answer = open.post("/validate?timeout=3s", review.to_string()).await.unwrap().json();
        let denied = answer["response"]["allowed"] == false;
        assert!(!denied || answer.to_string().contains("missing-resource-request"), "{answer:#}");
        denied
    };
    let named = |mut object: Value, name: &str| {
        object["metadata"]["name"] = name.into();
        object["metadata"]["uid"] = format!("7e1a-{}-{name}", object["kind"]).into();
        if object["kind"] == "ScaledObject" {
            object["spec"]["scaleTargetRef"]["name"] = name.into();
        }
        object
    };
    let workload = |name: &str| named(deployment(&json!({"memory": "1Gi"})), name);
    let scaler = |name: &str| named(scaled_object(), name);
    // The target is read.
    assert!(!denies(&workload("a"), false).await);
    fake.change_unseen(&workload("a"));
    assert!(denies(&scaler("a"), false).await);
    // The ScaledObject was admitted here.
    assert!(!denies(&scaler("b"), false).await);
    fake.change_unseen(&scaler("b"));
    assert!(denies(&workload("b"), false).await);
    // It was not stored.
    assert!(!denies(&scaler("c"), true).await);
    assert!(!denies(&scaler("d"), false).await);
    for name in ["c", "d"] {
        assert!(!denies(&workload(name), false).await, "{name}");
    }
}

/// A kind with an object that `serde_json` does not read: the server is ready, and knows the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_object_keeps_no_server_from_being_ready() {
    let (folder, authority, fake) = (Folder::new(), Authority::new(), Fake::start().await);
    let pair = authority.issue(&["127.0.0.1"]);
    folder.write("tls.crt", &pair.certificate);
    folder.write("tls.key", &pair.key);
    let mut parameters = json!(1);
    for _ in 0..200 {
        parameters = json!({"a": parameters});
    }
    let claim = |name: &str, parameters: &Value| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "ml"},
            "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
                "config": [{"requests": ["g"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]}}})
    };
    fake.hold(&[claim("deep", &parameters), claim("plain", &json!({}))]);
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let kubeconfig = fake.kubeconfig(&folder);
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let claims = r#"gpulint_cache_objects{group="resource.k8s.io",kind="ResourceClaim"}"#;
    assert_eq!(metric(&server.metrics().await, claims), 2.0);
}
