//! The server registered at a real API server: certificates, registration by URL, decisions, failures.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulint_testing::missing;
use serde_json::{Value, json};

use crate::cluster::server::Cluster;
use crate::webhook::balancer::Balancer;
use crate::webhook::client::{Client, metric};
use crate::webhook::load::Load;
use crate::webhook::reviews::{bad_pool, good_pool};
use crate::webhook::server::{Folder, Server};

pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const SECRET: &str = "/api/v1/namespaces/gpulint/secrets/gpulint-certificates";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Starts a cluster with the namespaces and the node class that the tests use.
pub(crate) async fn cluster() -> Option<Cluster> {
    let cluster = Cluster::start().await?;
    for namespace in ["gpulint", "ml"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        make(&cluster, "/api/v1/namespaces", &object).await;
    }
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"},
        "spec": {"role": "gpu-nodes", "amiSelectorTerms": [{"alias": "al2023@v20250701"}],
                 "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "ml"}}],
                 "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "ml"}}]}});
    make(&cluster, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", &class).await;
    Some(cluster)
}

pub(crate) async fn make(cluster: &Cluster, path: &str, object: &Value) {
    let (code, answer) = post(cluster, path, object).await;
    assert!(code == 201, "{code} {answer:#}");
}

pub(crate) async fn post(cluster: &Cluster, path: &str, object: &Value) -> (u16, Value) {
    cluster.post(path, JSON, object.to_string().into_bytes()).await
}

/// Starts a server that registers itself by the balancer's address, and waits until it is ready.
pub(crate) async fn serve(
    cluster: &Cluster,
    folder: &Folder,
    name: &str,
    balancer: &Balancer,
    more: &[&str],
) -> Server {
    let url = format!("https://{}", balancer.address());
    let mut args = vec!["--url", &url];
    args.extend(more);
    let server = Server::start(name, folder.path(), Some(&cluster.kubeconfig()), &args).await;
    server.ready().await;
    balancer.add(server.admission, server.operations);
    server
}

/// Waits until the API server has read the webhook configuration.
pub(crate) async fn asked(cluster: &Cluster) {
    cluster.until("the API server asks the webhook", async || is_denied(cluster, "probe").await).await;
}

async fn is_denied(cluster: &Cluster, name: &str) -> bool {
    let path = format!("{POOLS}?dryRun=All");
    post(cluster, &path, &bad_pool(name)).await.0 == 422
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.2.3",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}]}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_asks_the_webhook() {
    let Some(mut cluster) = cluster().await else {
        return;
    };
    // Objects that are older than the webhook.
    make(&cluster, POOLS, &bad_pool("old")).await;
    make(&cluster, "/apis/apps/v1/namespaces/ml/deployments", &deployment("web")).await;
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"minReplicas": 2, "maxReplicas": 4,
                 "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                 "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}}]}});
    make(&cluster, "/apis/autoscaling/v2/namespaces/ml/horizontalpodautoscalers", &hpa).await;
    make(&cluster, REPLICA_SETS, &owned_replica_set()).await;
    // JSON that Go reads and serde_json does not, which the API server keeps as it is.
    let deep = format!("{}\"\\ud83d\"{}", r#"{"a":"#.repeat(1600), "}".repeat(1600));
    let claim = format!(
        r#"{{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {{"name": "deep", "namespace": "ml"}},
            "spec": {{"devices": {{"requests": [{{"name": "g", "exactly": {{"deviceClassName": "gpu.nvidia.com"}}}}],
                "config": [{{"requests": ["g"], "opaque": {{"driver": "gpu.nvidia.com", "parameters": {deep}}}}}]}}}}}}"#
    );
    let claims = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims";
    let (code, answer) = cluster.post(claims, JSON, claim.into_bytes()).await;
    assert_eq!(code, 201, "{answer:#}");

    let folder = Folder::new();
    folder.write("gpulint.yaml", "{}\n");
    let balancer = Balancer::start().await;
    let server = serve(&cluster, &folder, "gpulint", &balancer, &["--events"]).await;
    asked(&cluster).await;

    refusals(&cluster, &folder).await;
    passes(&cluster).await;
    mutation(&cluster, &folder).await;
    context(&cluster).await;
    owners(&cluster).await;
    together(&cluster).await;
    at_once(&cluster).await;
    beside_names(&cluster).await;

    hung(&cluster, &server).await;

    // Watches and reviews recover from a restart of the API server.
    cluster.restart().await;
    asked(&cluster).await;
    make(&cluster, POOLS, &good_pool("after-restart")).await;
    server
        .until("a pool made after the restart is seen", async || {
            let line = r#"gpulint_cache_objects{group="karpenter.sh",kind="NodePool"}"#;
            let pools = cluster.get(POOLS).await.1;
            let count = pools["items"].as_array().map_or(0, Vec::len);
            metric(&server.metrics().await, line) as usize == count
        })
        .await;
    let metrics = server.metrics().await;
    assert_eq!(
        metric(&metrics, r#"gpulint_cache_synced{group="keda.sh",kind="ScaledObject"}"#),
        1.0,
        "{metrics}"
    );

    // The API server has asked all the time, also while it could not be asked whether it does.
    let said = server.process.said();
    assert!(!said.contains("objects are not checked"), "{said}");

    // Without the webhook and with policy Ignore, requests are allowed.
    drop(server);
    make(&cluster, POOLS, &bad_pool("unguarded")).await;
}

/// Denials, and their output by kubectl.
async fn refusals(cluster: &Cluster, folder: &Folder) {
    let (code, answer) = post(cluster, POOLS, &bad_pool("bad")).await;
    assert_eq!(code, 422, "{answer:#}");
    assert_eq!(answer["reason"], "Invalid");
    let details = &answer["details"];
    assert_eq!(details["name"], "bad");
    assert_eq!(details["group"], "karpenter.sh");
    assert_eq!(details["kind"], "NodePool");
    let causes = details["causes"].as_array().unwrap();
    let taints = causes.iter().find(|c| c["field"] == "spec.template.spec.taints");
    let message = taints.unwrap()["message"].as_str().unwrap();
    assert!(message.starts_with("gpulint gpu-pool-untainted: "), "{message}");

    cluster
        .until("an Event tells of the denial", async || {
            let (_, events) = cluster.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
            let is_it = |event: &Value| {
                let note = event["note"].as_str().unwrap_or_default();
                event["regarding"]["name"] == "bad"
                    && event["reason"] == "Denied"
                    && note.starts_with("CREATE by admin was denied: ")
                    && note.contains("gpu-pool-untainted")
            };
            events["items"].as_array().is_some_and(|events| events.iter().any(is_it))
        })
        .await;
    let path = folder.write("bad.json", &bad_pool("bad").to_string());
    let Some(text) = kubectl(&cluster.kubeconfig(), &["create", "-f", path.to_str().unwrap()]) else {
        return;
    };
    assert!(text.contains("The NodePool \"bad\" is invalid: "), "{text}");
    assert!(text.contains("spec.template.spec.taints: gpulint gpu-pool-untainted: "), "{text}");
}

/// How to get kubectl.
pub(crate) const KUBECTL: &str = "https://kubernetes.io/docs/tasks/tools/";

/// The output of kubectl; `None` if it is not installed.
fn kubectl(kubeconfig: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(args).output();
    let Ok(output) = output else {
        missing("kubectl", KUBECTL);
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(text + &String::from_utf8_lossy(&output.stdout))
}

/// Requests that are allowed.
async fn passes(cluster: &Cluster) {
    // A dry run.
    let dry = format!("{POOLS}?dryRun=All");
    make(cluster, &dry, &good_pool("dry")).await;
    assert_eq!(cluster.get(&format!("{POOLS}/dry")).await.0, 404);
    make(cluster, POOLS, &good_pool("good")).await;

    // An update that adds no finding gets warnings.
    let old = format!("{POOLS}/old");
    let patch = |value: Value| value.to_string().into_bytes();
    let weight = patch(json!({"spec": {"weight": 10}}));
    let (code, warnings, answer) = cluster.send_for_warnings("PATCH", &old, MERGE, weight).await;
    assert_eq!(code, 200, "{answer:#}");
    assert!(warnings.iter().any(|w| w.contains("gpulint gpu-pool-untainted: ")), "{warnings:?}");
    // An update that adds a finding is denied.
    let worse = patch(json!({"spec": {"limits": null}}));
    let (code, answer) = cluster.send("PATCH", &old, MERGE, worse).await;
    assert_eq!(code, 422, "{answer:#}");
    // A missing node class may be applied next, so it is not reported while the pool is young.
    let class = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}}});
    let path = format!("{old}?dryRun=All");
    let (code, warnings, answer) = cluster.send_for_warnings("PATCH", &path, MERGE, patch(class)).await;
    assert_eq!(code, 200, "{answer:#}");
    let warned = warnings.iter().any(|w| w.contains("node-class-missing"));
    assert!(!warned, "{warnings:?}");

    // Subresources and deletions are not reviewed.
    let status = patch(json!({"status": {"resources": {"cpu": "8"}}}));
    let (code, answer) = cluster.send("PATCH", &format!("{old}/status"), MERGE, status).await;
    assert_eq!(code, 200, "{answer:#}");
    let scale = patch(json!({"spec": {"replicas": 3}}));
    let path = "/apis/apps/v1/namespaces/ml/deployments/web/scale";
    let (code, answer) = cluster.send("PATCH", path, MERGE, scale).await;
    assert_eq!(code, 200, "{answer:#}");
    let (code, answer) = cluster.send("DELETE", &old, JSON, Vec::new()).await;
    assert_eq!(code, 200, "{answer:#}");
}

/// Mutation. The patched object is allowed.
async fn mutation(cluster: &Cluster, folder: &Folder) {
    let mut pool = good_pool("repaired");
    let template = pool["spec"]["template"]["spec"].as_object_mut().unwrap();
    template.remove("taints");
    template["requirements"][0]["values"] = json!(["c6i", "m6i"]);
    pool["spec"]["limits"] = json!({"cpu": "100"});
    pool["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "1"}]});
    make(cluster, POOLS, &pool).await;
    let (_, made) = cluster.get(&format!("{POOLS}/repaired")).await;
    assert_eq!(made["spec"]["disruption"]["consolidateAfter"], "0s", "{made:#}");

    // An unsafe fix is sent if the configuration names its rule.
    assert!(is_denied(cluster, "tainted").await);
    folder.write("gpulint.yaml", "webhook: {mutate: [gpu-pool-untainted]}\n");
    let path = format!("{POOLS}?dryRun=All");
    cluster
        .until("the configuration is read again", async || {
            post(cluster, &path, &bad_pool("tainted")).await.0 == 201
        })
        .await;
    make(cluster, POOLS, &bad_pool("tainted")).await;
    let (_, made) = cluster.get(&format!("{POOLS}/tainted")).await;
    let taints = &made["spec"]["template"]["spec"]["taints"];
    assert_eq!(taints[0]["effect"], "NoSchedule", "{made:#}");
    folder.write("gpulint.yaml", "{}\n");
    cluster.until("the configuration is read again", async || is_denied(cluster, "tainted").await).await;
}

/// A server that hangs delays a request about a workload by two seconds at most, one for each webhook, and
/// admits it.
async fn hung(cluster: &Cluster, server: &Server) {
    let path = "/apis/apps/v1/namespaces/ml/deployments?dryRun=All";
    server.process.signal("STOP");
    let began = Instant::now();
    let (code, answer) = post(cluster, path, &deployment("patient")).await;
    let took = began.elapsed();
    server.process.signal("CONT");
    assert_eq!(code, 201, "{answer:#}");
    assert!(took >= Duration::from_millis(900), "it was not asked: {took:?}");
    assert!(took < Duration::from_millis(2600), "{took:?}");
}

/// Rules that read other objects.
async fn context(cluster: &Cluster) {
    let scaled = |target: &str| {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": {"name": target, "namespace": "ml"},
            "spec": {"scaleTargetRef": {"name": target}, "minReplicaCount": 2, "maxReplicaCount": 4,
                "triggers": [{"type": "prometheus", "metadata": {
                    "serverAddress": "http://prometheus.monitoring:9090",
                    "query": "sum(rate(requests_total{app=\"web\"}[2m]))", "threshold": "100"}}]}})
    };
    let path = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledobjects";
    let (code, answer) = post(cluster, path, &scaled("web")).await;
    assert_eq!(code, 422, "{answer:#}");
    assert!(answer.to_string().contains("keda-hpa-conflict"), "{answer:#}");
    make(cluster, "/apis/apps/v1/namespaces/ml/deployments", &deployment("free")).await;
    make(cluster, path, &scaled("free")).await;

    // The other half of the pair, at once: the watches need not have seen the ScaledObject.
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "free", "namespace": "ml"},
        "spec": {"minReplicas": 2, "maxReplicas": 4,
                 "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "free"},
                 "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}}]}});
    let hpas = "/apis/autoscaling/v2/namespaces/ml/horizontalpodautoscalers";
    let (code, answer) = post(cluster, hpas, &hpa).await;
    assert_eq!(code, 422, "{answer:#}");
    assert!(answer.to_string().contains("keda-hpa-conflict"), "{answer:#}");
    // Three for one target, one after the other, in either order of names.
    for names in [["crowd-a", "crowd-b", "crowd-c"], ["crowd-f", "crowd-e", "crowd-d"]] {
        let target = names[0];
        make(cluster, "/apis/apps/v1/namespaces/ml/deployments", &deployment(target)).await;
        let mut codes = Vec::new();
        for name in names {
            let mut one = scaled(target);
            one["metadata"]["name"] = name.into();
            codes.push(post(cluster, path, &one).await.0);
        }
        assert_eq!(codes, [201, 422, 422], "{names:?}");
    }
}

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/ml/replicasets";

fn owned_replica_set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "owned", "namespace": "ml", "ownerReferences": [invented_controller()]},
        "spec": {"selector": {"matchLabels": {"app": "owned"}}, "template": {
            "metadata": {"labels": {"app": "owned"}, "annotations": {"karpenter.sh/do-not-disrupt": "soon"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.2.3"}]}}}})
}

fn invented_controller() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody", "controller": true,
           "uid": "7e1a0c52-0000-4000-8000-000000000000"})
}

/// Both halves of a bad pair, one right after the other.
async fn at_once(cluster: &Cluster) {
    let deployments = "/apis/apps/v1/namespaces/ml/deployments";
    let scaled_objects = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledobjects";
    for number in 0..5 {
        let halves = |name: &str| {
            let mut without = deployment(name);
            without["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
            [(deployments, without), (scaled_objects, scaled_by_cpu(name))]
        };
        let [first, second] = halves(&format!("once-{number}"));
        let [target, scaler] = halves(&format!("again-{number}"));
        for [(path, one), (other_path, other)] in [[first, second], [scaler, target]] {
            make(cluster, path, &one).await;
            let (code, answer) = post(cluster, other_path, &other).await;
            assert_eq!(code, 422, "{number}: {answer:#}");
            assert!(answer.to_string().contains("missing-resource-request"), "{answer:#}");
        }
    }
}

fn scaled_by_cpu(name: &str) -> Value {
    json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"scaleTargetRef": {"name": name}, "minReplicaCount": 2, "maxReplicaCount": 4,
            "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}]}})
}

/// An HPA that has no more of KEDA's than name and owner, and one that is being deleted, beside a ScaledObject.
async fn beside_names(cluster: &Cluster) {
    let hpas = "/apis/autoscaling/v2/namespaces/ml/horizontalpodautoscalers";
    let scaled_objects = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledobjects";
    for name in ["ghost", "scaled", "alone"] {
        make(cluster, "/apis/apps/v1/namespaces/ml/deployments", &deployment(name)).await;
    }
    let hpa = |name: &str, target: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": "ml", "finalizers": ["example.com/hold"]},
            "spec": {"minReplicas": 2, "maxReplicas": 4,
                     "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
                     "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60}}}]}})
    };
    make(cluster, scaled_objects, &scaled_by_cpu("ghost")).await;
    let (_, owner) = cluster.get(&format!("{scaled_objects}/ghost")).await;
    let mut ghost = hpa("keda-hpa-ghost", "scaled");
    ghost["metadata"]["ownerReferences"] = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "name": "ghost", "controller": true, "uid": owner["metadata"]["uid"]}]);
    make(cluster, hpas, &ghost).await;
    let (code, answer) = post(cluster, scaled_objects, &scaled_by_cpu("scaled")).await;
    assert_eq!(code, 422, "{answer:#}");
    assert!(answer.to_string().contains("keda-hpa-conflict"), "{answer:#}");

    make(cluster, hpas, &hpa("going", "alone")).await;
    let path = format!("{hpas}/going");
    let (code, answer) = cluster.send("DELETE", &path, JSON, Vec::new()).await;
    assert_eq!(code, 200, "{answer:#}");
    let retarget = json!({"spec": {"scaleTargetRef": {"name": "ghost"}}}).to_string().into_bytes();
    let (code, answer) = cluster.send("PATCH", &path, MERGE, retarget).await;
    assert_eq!(code, 422, "{answer:#}");
    for name in ["going", "keda-hpa-ghost"] {
        let release = json!({"metadata": {"finalizers": null}}).to_string().into_bytes();
        let (code, answer) = cluster.send("PATCH", &format!("{hpas}/{name}"), MERGE, release).await;
        assert_eq!(code, 200, "{answer:#}");
    }
}

/// Exemptions by owners, which objects may lose.
async fn owners(cluster: &Cluster) {
    let mut pool = bad_pool("owned");
    pool["metadata"]["ownerReferences"] = json!([invented_controller()]);
    let (code, answer) = post(cluster, POOLS, &pool).await;
    assert_eq!(code, 422, "{answer:#}");
    let mut another = owned_replica_set();
    another["metadata"]["name"] = "another".into();
    let (code, answer) = post(cluster, REPLICA_SETS, &another).await;
    assert_eq!(code, 422, "{answer:#}");
    // A person who takes the owner away answers for the object. `kubectl delete --cascade=orphan` leaves that to the
    // garbage collector.
    let path = format!("{REPLICA_SETS}/owned");
    let orphan = json!({"metadata": {"ownerReferences": null}});
    let (code, answer) = cluster.send("PATCH", &path, MERGE, orphan.to_string().into_bytes()).await;
    assert_eq!(code, 422, "{answer:#}");
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let (code, answer) = cluster.send_as(collector, "PATCH", &path, MERGE, &orphan).await;
    assert_eq!(code, 200, "{answer:#}");
    let released = json!({"metadata": {"labels": {"released": "true"}}}).to_string().into_bytes();
    let (code, answer) = cluster.send("PATCH", &path, MERGE, released).await;
    assert_eq!(code, 200, "{answer:#}");
}

/// One apply of two objects: a Deployment that is repaired, and a ScaledObject that needs the repair.
async fn together(cluster: &Cluster) {
    let deployments = "/apis/apps/v1/namespaces/ml/deployments";
    let path = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledobjects";
    for number in 0..10 {
        let name = format!("pair-{number}");
        let mut without = deployment(&name);
        without["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        make(cluster, deployments, &without).await;
        cluster
            .until("the Deployment without requests is seen", async || {
                post(cluster, &format!("{path}?dryRun=All"), &scaled_by_cpu(&name)).await.0 == 422
            })
            .await;
        let repair = json!([{"op": "add", "path": "/spec/template/spec/containers/0/resources",
            "value": {"requests": {"cpu": "1"}}}]);
        let (code, answer) = cluster
            .send(
                "PATCH",
                &format!("{deployments}/{name}"),
                "application/json-patch+json",
                repair.to_string().into_bytes(),
            )
            .await;
        assert_eq!(code, 200, "{answer:#}");
        let (code, answer) = post(cluster, path, &scaled_by_cpu(&name)).await;
        assert_eq!(code, 201, "{number}: {answer:#}");
    }
    // The request that an autoscaler measures may not be removed, and other changes pass.
    let one = format!("{deployments}/pair-0");
    let patch = |value: Value| value.to_string().into_bytes();
    let removed = json!([{"op": "remove", "path": "/spec/template/spec/containers/0/resources/requests"}]);
    let media = "application/json-patch+json";
    cluster
        .until("the ScaledObject is seen", async || {
            let path = format!("{one}?dryRun=All");
            let (code, answer) = cluster.send("PATCH", &path, media, patch(removed.clone())).await;
            code == 422 && answer.to_string().contains("missing-resource-request")
        })
        .await;
    let (code, answer) = cluster.send("PATCH", &one, media, patch(removed)).await;
    assert_eq!(code, 422, "{answer:#}");
    let label = json!({"metadata": {"labels": {"team": "ml"}}});
    let (code, answer) = cluster.send("PATCH", &one, MERGE, patch(label)).await;
    assert_eq!(code, 200, "{answer:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_takes_away_comes_back() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let cluster = Arc::new(cluster);
    let folder = Folder::new();
    let balancer = Balancer::start().await;
    // Two replicas of different versions, which need different names in the certificate.
    let announce = ["--ca-announce", "8s"];
    let first = serve(&cluster, &folder, "first", &balancer, &announce).await;
    let names = ["--dns-name", "gpulint.example.com"];
    let names = [&names[..], &announce].concat();
    let second = serve(&cluster, &folder, "second", &balancer, &names).await;
    asked(&cluster).await;
    let line = r#"gpulint_reloads_total{what="certificate",result="ok"}"#;
    let reloads = async || {
        let servers = [first.metrics().await, second.metrics().await];
        servers.map(|metrics| metric(&metrics, line))
    };
    first
        .until("both serve what has the names of both", async || {
            let certificate = async |port| {
                let ca = cluster.get(SECRET).await.1["data"]["ca.crt"].to_string();
                let ca = base64(&ca);
                let open = Client::new(&ca).connect(port).await;
                open.map(|open| open.certificate).unwrap_or_default()
            };
            certificate(first.admission).await == certificate(second.admission).await
        })
        .await;
    let rested = reloads().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(reloads().await, rested, "the replicas do not come to rest");

    // After the deletion of the Secret no request is lost while the replicas switch to a new CA.
    let load = Load::start(&cluster, 4);
    load.phase("the Secret is gone");
    let secret = async || cluster.get(SECRET).await;
    let (_, before) = secret().await;
    assert_eq!(cluster.send("DELETE", SECRET, JSON, Vec::new()).await.0, 200);
    first
        .until("there is another Secret", async || {
            let (code, now) = secret().await;
            code == 200 && now["data"]["ca.crt"] != before["data"]["ca.crt"]
        })
        .await;
    first
        .until("both serve another certificate", async || {
            let now = reloads().await;
            now[0] > rested[0] && now[1] > rested[1]
        })
        .await;
    load.phase("rest");
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.end(&[&first, &second]).await;

    // Deleted webhook configurations are created again. Without them there are no reviews, so there is no
    // load.
    for kind in ["validating", "mutating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/gpulint");
        assert_eq!(cluster.send("DELETE", &path, JSON, Vec::new()).await.0, 200);
        first.until("there is another configuration", async || cluster.get(&path).await.0 == 200).await;
    }
    asked(&cluster).await;

    // Changes to them are reverted as well, whichever field they use to stop the requests.
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gpulint";
    let changes = [
        json!({"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"none": "at-all"}}}),
        json!({"op": "add", "path": "/webhooks/0/matchConditions/-",
               "value": {"name": "never", "expression": "false"}}),
        json!({"op": "replace", "path": "/webhooks/0/rules", "value": []}),
        json!({"op": "remove", "path": "/webhooks/0"}),
    ];
    for change in changes {
        let (_, before) = cluster.get(path).await;
        let media = "application/json-patch+json";
        let (code, answer) = cluster.send("PATCH", path, media, json!([change]).to_string().into()).await;
        assert_eq!(code, 200, "{change}: {answer:#}");
        first
            .until("the configuration is whole again", async || {
                cluster.get(path).await.1["webhooks"] == before["webhooks"]
            })
            .await;
    }
    let line = r#"gpulint_registered{configuration="ValidatingWebhookConfiguration"}"#;
    assert_eq!(metric(&first.metrics().await, line), 1.0);
}

fn base64(json: &str) -> String {
    use base64::Engine as _;
    let text = json.trim_matches('"');
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(bytes.unwrap_or_default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_and_restarts_lose_no_request() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let cluster = Arc::new(cluster);
    let folder = Folder::new();
    let balancer = Balancer::start().await;
    // Two replicas with certificates that are valid for seconds. CA and certificate are renewed at the same
    // time. Every step has at least eight seconds, because a busy machine may stall.
    let times = [
        "--certificate-lifetime",
        "27s",
        "--ca-lifetime",
        "54s",
        "--ca-announce",
        "8s",
        "--drain-delay",
        "6s",
    ];
    let start = async |name: &str| serve(&cluster, &folder, name, &balancer, &times).await;
    let mut first = start("first").await;
    let second = start("second").await;
    asked(&cluster).await;
    let load = Load::start(&cluster, 4);

    let configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gpulint";
    let bundle =
        async || cluster.get(configuration).await.1["webhooks"][0]["clientConfig"]["caBundle"].to_string();
    load.phase("rotation");
    let began = Instant::now();
    // The old CA, both, the new CA.
    let mut bundles: Vec<String> = Vec::new();
    while bundles.len() < 3 {
        let bundle = base64(&bundle().await);
        if bundles.last() != Some(&bundle) {
            bundles.push(bundle);
        }
        assert!(began.elapsed() < Duration::from_secs(150), "the CA was never changed: {bundles:#?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let [old, both, new] = bundles.try_into().unwrap();
    assert!(both.contains(&old) && both.contains(&new) && old != new);
    let reloads = r#"gpulint_reloads_total{what="certificate",result="ok"}"#;
    for server in [&first, &second] {
        let metrics = server.metrics().await;
        assert!(metric(&metrics, reloads) >= 3.0, "{metrics}");
        assert!(!server.process.said().contains("PRIVATE KEY"));
    }

    load.phase("the first replica ends");
    // Each replica restarts while the other one serves requests.
    first.process.terminate();
    assert_eq!(first.exit_code().await, Some(0), "{}", first.process.last_words());
    load.phase("the first replica comes back");
    let again = start("first-again").await;
    load.phase("the second replica ends");
    let mut second = second;
    second.process.terminate();
    assert_eq!(second.exit_code().await, Some(0), "{}", second.process.last_words());
    load.phase("the first replica is alone");
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.end(&[&first, &again, &second]).await;
}
