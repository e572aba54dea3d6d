//! A tenant who tries to get objects past the webhook by what they say of themselves: owners, and suppressions that
//! the tenant may not write. On a real API server, with the requests of several users.

use serde_json::{Value, json};

use crate::cluster::server::Cluster;
use crate::webhook::balancer::Balancer;
use crate::webhook::confirm::{deployment, scaled_object};
use crate::webhook::in_cluster::{asked, cluster, make, serve};
use crate::webhook::reviews::{bad_pool, good_pool};
use crate::webhook::server::Folder;

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const PODS: &str = "/api/v1/namespaces/ml/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ml/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/ml/replicasets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/ml/statefulsets";
const SCALED_OBJECTS: &str = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledobjects";
const JOBS: &str = "/apis/batch/v1/namespaces/ml/jobs";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const ALLOW: &str = "gpulint.dev/allow";

/// The tenant. `admin` may suppress.
const TENANT: &str = "tess";
const KEDA: &str = "system:serviceaccount:keda:keda-operator";
const REPLICA_SET_CONTROLLER: &str = "system:serviceaccount:kube-system:replicaset-controller";
const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// A pod template with an invalid annotation, which is an error.
fn bad_template() -> Value {
    json!({"metadata": {"labels": {"app": "bad"}, "annotations": {"karpenter.sh/do-not-disrupt": "soon"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.2.3"}]}})
}

fn good_template() -> Value {
    let mut template = bad_template();
    template["metadata"].as_object_mut().unwrap().remove("annotations");
    template
}

/// An object of a group `apps`, or a Pod, of a template.
fn workload(kind: &str, name: &str, template: Value) -> Value {
    if kind == "Pod" {
        let mut pod = template;
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = name.into();
        return pod;
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "bad"}}, "template": template}})
}

fn owned_by(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]);
    object
}

fn annotated(mut object: Value, text: &str) -> Value {
    object["metadata"]["annotations"][ALLOW] = text.into();
    object
}

async fn stored(cluster: &Cluster, path: &str, name: &str) -> Value {
    cluster.get(&format!("{path}/{name}")).await.1
}

/// Asserts how a request is answered.
async fn expect(
    cluster: &Cluster,
    code: u16,
    user: &str,
    method: &str,
    path: &str,
    media: &str,
    body: Value,
) {
    let (got, answer) = cluster.send_as(user, method, path, media, &body).await;
    assert_eq!(got, code, "{user} {method} {path} {body}: {answer:#}");
    // Only what gpulint says is meant.
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(code != 422 || message.contains("gpulint"), "{answer:#}");
}

async fn tenants() -> Option<Cluster> {
    let cluster = cluster().await?;
    let subjects = ["admin", TENANT, KEDA, "system:serviceaccount:ml:keda-operator"]
        .map(|name| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "tenants"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    make(&cluster, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    Some(cluster)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_exempts_nobody_who_is_no_controller() {
    let Some(cluster) = tenants().await else {
        return;
    };
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    folder.write("gpulint.yaml", "{}\n");
    let _server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    asked(&cluster).await;

    // Owners that are really there, made by the tenant.
    make(&cluster, PODS, &workload("Pod", "leader", good_template())).await;
    make(&cluster, REPLICA_SETS, &workload("ReplicaSet", "web", good_template())).await;
    let leader = stored(&cluster, PODS, "leader").await;
    let web = stored(&cluster, REPLICA_SETS, "web").await;
    let set = owned_by(workload("StatefulSet", "workers", bad_template()), &leader);
    let pod = owned_by(workload("Pod", "web-1", bad_template()), &web);
    expect(&cluster, 422, TENANT, "POST", STATEFUL_SETS, JSON, set.clone()).await;
    expect(&cluster, 422, TENANT, "POST", PODS, JSON, pod.clone()).await;
    let apply = format!("{STATEFUL_SETS}/workers?fieldManager=tess");
    expect(&cluster, 422, TENANT, "PATCH", &apply, APPLY, set.clone()).await;
    // An operator makes no Pods of a ReplicaSet.
    expect(&cluster, 422, KEDA, "POST", PODS, JSON, pod.clone()).await;

    // What a controller made stays as it is until somebody takes it from its controller.
    expect(&cluster, 201, REPLICA_SET_CONTROLLER, "POST", PODS, JSON, pod).await;
    let made = format!("{PODS}/web-1");
    let label = json!({"metadata": {"labels": {"team": "ml"}}});
    expect(&cluster, 200, TENANT, "PATCH", &made, MERGE, label).await;
    let orphan = json!({"metadata": {"ownerReferences": null}});
    expect(&cluster, 422, TENANT, "PATCH", &made, MERGE, orphan.clone()).await;
    let no_controller =
        json!([{"op": "replace", "path": "/metadata/ownerReferences/0/controller", "value": false}]);
    expect(&cluster, 422, TENANT, "PATCH", &made, JSON_PATCH, no_controller).await;
    let other = owned_by(json!({"metadata": {}}), &leader);
    expect(&cluster, 422, TENANT, "PATCH", &made, MERGE, other).await;
    expect(&cluster, 200, GARBAGE_COLLECTOR, "PATCH", &made, MERGE, orphan).await;

    // An operator is named by its whole account.
    let scaled = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob",
        "metadata": {"name": "batch", "namespace": "ml"},
        "spec": {"jobTargetRef": {"template": {"metadata": {"labels": {"app": "batch"}},
                "spec": {"restartPolicy": "Never", "containers": good_template()["spec"]["containers"]}}},
            "maxReplicaCount": 4,
            "triggers": [{"type": "aws-sqs-queue", "metadata": {"queueLength": "1", "awsRegion": "eu-west-1", "identityOwner": "operator",
                "queueURL": "https://sqs.eu-west-1.amazonaws.com/111122223333/batch"}}]}});
    let scaled_jobs = "/apis/keda.sh/v1alpha1/namespaces/ml/scaledjobs";
    make(&cluster, scaled_jobs, &scaled).await;
    let scaled = stored(&cluster, scaled_jobs, "batch").await;
    let mut template = bad_template();
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch-1", "namespace": "ml"},
        "spec": {"backoffLimit": 2, "template": template}});
    let job = owned_by(job, &scaled);
    for user in [TENANT, "system:serviceaccount:ml:keda-operator"] {
        expect(&cluster, 422, user, "POST", JOBS, JSON, job.clone()).await;
    }
    cluster
        .until("the ScaledJob is seen", async || {
            cluster.send_as(KEDA, "POST", &format!("{JOBS}?dryRun=All"), JSON, &job).await.0 == 201
        })
        .await;
    expect(&cluster, 201, KEDA, "POST", JOBS, JSON, job).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suppression_that_its_author_may_not_write_never_counts() {
    let Some(cluster) = tenants().await else {
        return;
    };
    // Older than the webhook.
    let untainted = "gpu-pool-untainted: the tenants agreed";
    make(&cluster, POOLS, &annotated(good_pool("old"), untainted)).await;
    make(&cluster, SCALED_OBJECTS, &annotated(scaled_object(), "keda-hpa-conflict: the tenants agreed"))
        .await;
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    folder.write("gpulint.yaml", "webhook: {may-suppress: {users: [admin]}}\n");
    let _server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    asked(&cluster).await;

    written(&cluster, untainted).await;
    stored_counts_for_nobody_else(&cluster, untainted).await;
    stored_elsewhere_counts_for_nobody_else(&cluster).await;
    around_the_webhook(&cluster).await;
    the_hint_is_enough(&cluster).await;
}

/// Each way to write the annotation.
async fn written(cluster: &Cluster, text: &str) {
    let refused = annotated(bad_pool("new"), text);
    for path in [POOLS.to_owned(), format!("{POOLS}?dryRun=All")] {
        expect(cluster, 422, TENANT, "POST", &path, JSON, refused.clone()).await;
    }
    let apply = format!("{POOLS}/new?fieldManager=tess");
    expect(cluster, 422, TENANT, "PATCH", &apply, APPLY, refused.clone()).await;
    let (_, answer) = cluster.send_as(TENANT, "POST", POOLS, JSON, &refused).await;
    let causes = answer["details"]["causes"].to_string();
    assert!(causes.contains("`tess` may not suppress findings"), "{answer:#}");
    assert!(!causes.contains("to let this object pass"), "{answer:#}");
    // Also where there is nothing to suppress, as long as it is not stored.
    let good = annotated(good_pool("new"), text);
    expect(cluster, 422, TENANT, "POST", POOLS, JSON, good.clone()).await;
    expect(cluster, 201, TENANT, "POST", POOLS, JSON, good_pool("new")).await;
    let path = format!("{POOLS}/new");
    let merge = json!({"metadata": {"annotations": {ALLOW: text}}});
    expect(cluster, 422, TENANT, "PATCH", &path, MERGE, merge).await;
    let add = json!([{"op": "add", "path": "/metadata/annotations", "value": {ALLOW: text}}]);
    expect(cluster, 422, TENANT, "PATCH", &path, JSON_PATCH, add).await;
    let part = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "new", "annotations": {ALLOW: text}}});
    expect(cluster, 422, TENANT, "PATCH", &apply, APPLY, part).await;
    assert_eq!(stored(cluster, POOLS, "new").await["metadata"]["annotations"][ALLOW], Value::Null);
}

/// What is stored, because it was there before or because `admin` wrote it.
async fn stored_counts_for_nobody_else(cluster: &Cluster, text: &str) {
    let no_taint = json!([{"op": "remove", "path": "/spec/template/spec/taints"}]);
    let old = format!("{POOLS}/old");
    expect(cluster, 422, TENANT, "PATCH", &old, JSON_PATCH, no_taint.clone()).await;
    let weight = |weight: i64| json!({"spec": {"weight": weight}});
    expect(cluster, 200, TENANT, "PATCH", &old, MERGE, weight(10)).await;

    expect(cluster, 201, "admin", "POST", POOLS, JSON, annotated(bad_pool("agreed"), text)).await;
    let agreed = format!("{POOLS}/agreed");
    expect(cluster, 200, TENANT, "PATCH", &agreed, MERGE, weight(10)).await;
    let apply = format!("{agreed}?fieldManager=tess");
    let part = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "agreed",
        "labels": {"team": "ml"}}});
    expect(cluster, 200, TENANT, "PATCH", &apply, APPLY, part).await;
    let changed = json!({"metadata": {"annotations": {ALLOW: "gpu-pool-untainted: and so on"}}});
    expect(cluster, 422, TENANT, "PATCH", &agreed, MERGE, changed).await;
    let limits = json!({"spec": {"limits": null}});
    expect(cluster, 422, TENANT, "PATCH", &agreed, MERGE, limits).await;
    // Deleted and created again, as it was.
    let mut again = stored(cluster, POOLS, "agreed").await;
    again["metadata"] = json!({"name": "agreed", "annotations": again["metadata"]["annotations"]});
    expect(cluster, 200, TENANT, "DELETE", &agreed, JSON, json!({})).await;
    expect(cluster, 422, TENANT, "POST", POOLS, JSON, again).await;

    // Who may not write it may remove it.
    expect(cluster, 201, "admin", "POST", POOLS, JSON, annotated(bad_pool("agreed"), text)).await;
    let removed = json!({"metadata": {"annotations": {ALLOW: null}}});
    expect(cluster, 200, TENANT, "PATCH", &agreed, MERGE, removed).await;
}

/// What is stored on another object, which the new one makes wrong.
async fn stored_elsewhere_counts_for_nobody_else(cluster: &Cluster) {
    make(cluster, DEPLOYMENTS, &deployment(&json!({"cpu": "1"}))).await;
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"minReplicas": 2, "maxReplicas": 4,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60}}}]}});
    let path = "/apis/autoscaling/v2/namespaces/ml/horizontalpodautoscalers?dryRun=All";
    for (user, code) in [("admin", 201), (TENANT, 422), ("admin", 201)] {
        expect(cluster, code, user, "POST", path, JSON, hpa.clone()).await;
    }
}

/// Annotations that are stored without a review.
async fn around_the_webhook(cluster: &Cluster) {
    let allow = "do-not-disrupt-invalid-value: x";
    let bad =
        json!({"spec": {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "soon"}}}}});

    // By a subresource, which the API server does not ask about.
    make(cluster, DEPLOYMENTS, &workload("Deployment", "web", good_template())).await;
    let web = format!("{DEPLOYMENTS}/web");
    let status = json!({"metadata": {"annotations": {ALLOW: allow}}, "status": {"observedGeneration": 1}});
    expect(cluster, 200, TENANT, "PATCH", &format!("{web}/status"), MERGE, status).await;
    assert_eq!(stored(cluster, DEPLOYMENTS, "web").await["metadata"]["annotations"][ALLOW], allow);
    expect(cluster, 422, TENANT, "PATCH", &web, MERGE, bad).await;
    let scale = json!({"spec": {"replicas": 3}});
    expect(cluster, 200, TENANT, "PATCH", &format!("{web}/scale"), MERGE, scale).await;

    // By a template, which a controller copies.
    let mut template = good_template();
    template["metadata"]["annotations"] = json!({ALLOW: allow});
    let copied = workload("Deployment", "copied", template.clone());
    expect(cluster, 201, TENANT, "POST", DEPLOYMENTS, JSON, copied).await;
    let pod = workload("Pod", "copied-1", template);
    expect(cluster, 201, REPLICA_SET_CONTROLLER, "POST", PODS, JSON, pod).await;
    let disrupt = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "soon"}}});
    expect(cluster, 422, TENANT, "PATCH", &format!("{PODS}/copied-1"), MERGE, disrupt).await;
}

/// Who may suppress does what the refusal says, and the object is admitted.
async fn the_hint_is_enough(cluster: &Cluster) {
    let mut pool = bad_pool("exception");
    pool["spec"].as_object_mut().unwrap().remove("limits");
    let (code, answer) = cluster.send_as("admin", "POST", POOLS, JSON, &pool).await;
    assert_eq!(code, 422, "{answer:#}");
    let causes = answer["details"]["causes"].as_array().unwrap();
    let hint = causes.iter().find_map(|cause| {
        assert!(cause["field"] != "", "{cause}");
        cause["message"].as_str()?.strip_prefix("to let this object pass, write \"")?.strip_suffix('"')
    });
    let pool = annotated(pool, hint.expect("there is a hint"));
    expect(cluster, 201, "admin", "POST", POOLS, JSON, pool).await;

    // Without a reason it counts, and its author is told.
    let silent = annotated(bad_pool("silent"), "gpu-pool-untainted").to_string().into_bytes();
    let (code, warnings, answer) = cluster.send_for_warnings("POST", POOLS, JSON, silent).await;
    assert_eq!(code, 201, "{answer:#}");
    assert!(warnings.iter().any(|warning| warning.contains("suppression-without-reason")), "{warnings:?}");
}
