//! Which kinds are watched at a real API server, in which version, and what the server says of those that are not.

use serde_json::{Value, json};

use crate::cluster::server::Cluster;
use crate::webhook::balancer::Balancer;
use crate::webhook::client::{metric, plain};
use crate::webhook::in_cluster::{POOLS, make, post, serve};
use crate::webhook::reviews::good_pool;
use crate::webhook::server::{Folder, Server};

fn of(metric: &str, group: &str, kind: &str) -> String {
    format!(r#"gpulint_{metric}{{group="{group}",kind="{kind}"}}"#)
}

fn overlay(name: &str, price: &str, weight: Option<u32>) -> Value {
    let mut overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
        "spec": {"price": price, "capacity": {"example.com/widget": "2"},
            "requirements": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]}]}});
    if let Some(weight) = weight {
        overlay["spec"]["weight"] = weight.into();
    }
    overlay
}

const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";

/// NodeOverlay is in `v1alpha1` of a group whose preferred version is `v1`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_the_preferred_version_lacks_is_watched() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    make(
        &cluster,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpulint"}}),
    )
    .await;
    let (_, group) = cluster.get("/apis/karpenter.sh").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    make(&cluster, OVERLAYS, &overlay("winner", "1.50", Some(10))).await;
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    let server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    let objects = of("cache_objects", "karpenter.sh", "NodeOverlay");
    assert_eq!(metric(&server.metrics().await, &objects), 1.0);
    let synced = of("cache_synced", "karpenter.sh", "NodeOverlay");
    assert_eq!(metric(&server.metrics().await, &synced), 1.0);

    // The resource of the overlay is no unknown limit; another one is.
    let mut pool = good_pool("widgets");
    let warnings = async |pool: &Value| {
        let body = pool.to_string().into_bytes();
        let path = format!("{POOLS}?dryRun=All");
        let (code, warnings, answer) =
            cluster.send_for_warnings("POST", &path, "application/json", body).await;
        format!("{code} {warnings:?} {answer}")
    };
    pool["spec"]["limits"]["example.com/gadget"] = "8".into();
    cluster
        .until("an unknown limit is found", async || warnings(&pool).await.contains("limit-key-unknown"))
        .await;
    pool["spec"]["limits"].as_object_mut().unwrap().remove("example.com/gadget");
    pool["spec"]["limits"]["example.com/widget"] = "8".into();
    let said = warnings(&pool).await;
    assert!(said.starts_with("201") && !said.contains("limit-key-unknown"), "{said}");

    // Of two overlays of one weight, the one whose name sorts first has no effect.
    let second = overlay("loser", "2.50", Some(10)).to_string().into_bytes();
    let path = format!("{OVERLAYS}?dryRun=All");
    let said = cluster.send_for_warnings("POST", &path, "application/json", second).await;
    assert!(format!("{said:?}").contains("node-overlay-conflict"), "{said:?}");

    kinds_that_come_later(&cluster, &server).await;
    pods_that_have_ended_are_not_watched(&cluster, &server).await;
}

async fn pods_that_have_ended_are_not_watched(cluster: &Cluster, server: &Server) {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    for name in ["long", "short"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.2.3"}]}});
        make(cluster, PODS, &pod).await;
    }
    let pods = of("cache_objects", "", "Pod");
    let count = async || metric(&server.metrics().await, &pods);
    server.until("both are watched", async || count().await == 2.0).await;
    let ended = json!({"status": {"phase": "Succeeded"}}).to_string().into_bytes();
    let path = format!("{PODS}/short/status");
    let (code, answer) = cluster.send("PATCH", &path, "application/merge-patch+json", ended).await;
    assert_eq!(code, 200, "{answer:#}");
    server.until("one is watched", async || count().await == 1.0).await;
}

/// A CRD of a version that the preferred one of its group lacks, as KServe's LLMInferenceService.
fn crd(kind: &str, plural: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, version)| {
            json!({"name": version, "served": true, "storage": at == 0,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.serving.kserve.io")},
        "spec": {"group": "serving.kserve.io", "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                      "singular": kind.to_lowercase()}}})
}

async fn kinds_that_come_later(cluster: &Cluster, server: &Server) {
    let group = "serving.kserve.io";
    let line = |of_what: &str| of(of_what, group, "LLMInferenceService");
    let metrics = server.metrics().await;
    assert!(metrics.contains(&format!("{} 0", line("cache_served"))), "{metrics}");
    assert!(
        !metrics.contains(&line("cache_synced")) && !metrics.contains(&line("cache_objects")),
        "{metrics}"
    );
    let said = server.process.said();
    let once =
        said.lines().filter(|l| l.contains("LLMInferenceService") && l.contains("does not serve")).count();
    assert_eq!(once, 1, "{said}");
    let (code, text) = plain(server.operations, "/readyz?verbose").await.unwrap();
    assert!(code == 200 && text.contains("not served by the API server"), "{code} {text}");

    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    make(cluster, crds, &crd("InferenceService", "inferenceservices", &["v1beta1"])).await;
    make(cluster, crds, &crd("LLMInferenceService", "llminferenceservices", &["v1alpha1"])).await;
    let path = "/apis/serving.kserve.io/v1alpha1/namespaces/default/llminferenceservices";
    let service = json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "default"}, "spec": {}});
    cluster.until("the kind is served", async || post(cluster, path, &service).await.0 == 201).await;
    server
        .until("the new kind is watched", async || {
            let metrics = server.metrics().await;
            metric(&metrics, &line("cache_served")) == 1.0 && metric(&metrics, &line("cache_objects")) == 1.0
        })
        .await;
}

/// An account that may not list five kinds: the server is ready, and says so of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_may_not_be_listed_are_named() {
    const KINDS: [(&str, &str); 5] = [
        ("apps", "Deployment"),
        ("keda.sh", "ScaledObject"),
        ("karpenter.sh", "NodeOverlay"),
        ("karpenter.sh", "NodeClaim"),
        ("policy", "PodDisruptionBudget"),
    ];
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpulint"}});
    make(&cluster, "/api/v1/namespaces", &namespace).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "half", "namespace": "gpulint"}});
    make(&cluster, "/api/v1/namespaces/gpulint/serviceaccounts", &account).await;
    // The rules of the installation without those of the five kinds.
    let plurals = ["deployments", "scaledobjects", "nodeoverlays", "nodeclaims", "poddisruptionbudgets"];
    let installed = crate::webhook::manifests::objects(&crate::webhook::manifests::manifests(&[]));
    let mut role = installed.into_iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    for rule in role["rules"].as_array_mut().unwrap() {
        let resources = rule["resources"].as_array_mut().unwrap();
        resources.retain(|resource| !plurals.contains(&resource.as_str().unwrap()));
    }
    role["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!([]));
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    make(&cluster, &format!("{rbac}/clusterroles"), &role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "half"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "half", "namespace": "gpulint"}]});
    make(&cluster, &format!("{rbac}/clusterrolebindings"), &binding).await;
    let path = "/api/v1/namespaces/gpulint/serviceaccounts/half/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (_, answer) = post(&cluster, path, &request).await;
    let kubeconfig = cluster.kubeconfig_of("half", answer["status"]["token"].as_str().unwrap());

    let folder = Folder::new();
    let authority = crate::cluster::server::Authority::new();
    crate::webhook::tls::mount(folder.path(), "v1", &authority.issue(&["127.0.0.1"]));
    let args = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let server = Server::start("half", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let (_, text) = plain(server.operations, "/readyz?verbose").await.unwrap();
    let metrics = server.metrics().await;
    for (group, kind) in KINDS {
        let refused = format!("[!]cluster/{kind}.{group} failed, and does not count: ");
        let line = text.lines().find(|line| line.starts_with(&refused));
        assert!(line.is_some_and(|line| line.contains("forbidden")), "{text}");
        assert!(metrics.contains(&format!("{} 0\n", of("cache_synced", group, kind))), "{metrics}");
    }
    let pools = of("cache_synced", "karpenter.sh", "NodePool");
    assert!(metrics.contains(&format!("{pools} 1\n")), "{metrics}");
}

/// A definition of a release that gpulint does not know has another field; a review takes it as soon as it is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_checked_against_the_definitions_that_are_served() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpulint"}});
    make(&cluster, "/api/v1/namespaces", &namespace).await;
    what_is_published_is_the_definition(&cluster).await;
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    let server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    assert!(
        server.process.said().contains("the schemas that the API server serves"),
        "{}",
        server.process.said()
    );

    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh";
    let of_template = "properties/spec/properties/template/properties/spec/properties/warmUpSeconds";
    let patch = json!([{"op": "add", "path": format!("/spec/versions/0/schema/openAPIV3Schema/{of_template}"),
        "value": {"type": "integer"}}]);
    let media = "application/json-patch+json";
    let (code, answer) = cluster.send("PATCH", path, media, patch.to_string().into_bytes()).await;
    assert_eq!(code, 200, "{answer}");
    let mut pool = good_pool("later");
    pool["spec"]["template"]["spec"]["warmUpSeconds"] = 30.into();
    let dry = format!("{POOLS}?dryRun=All&fieldValidation=Strict");
    cluster.until("the new field is accepted", async || post(&cluster, &dry, &pool).await.0 == 201).await;
    pool["spec"]["template"]["spec"]["warmUpSeconds"] = "30".into();
    assert_eq!(post(&cluster, &dry, &pool).await.0, 422);
    drop(server);
}

/// The schemas in OpenAPI documents are those of the definitions, but for what every object has.
async fn what_is_published_is_the_definition(cluster: &Cluster) {
    let (_, definitions) = cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await;
    let mut compared = 0;
    for definition in definitions["items"].as_array().unwrap() {
        let names = (definition["spec"]["group"].as_str().unwrap(), &definition["spec"]["names"]["kind"]);
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let (group, kind) = names;
            let path = format!("/openapi/v3/apis/{group}/{}", version["name"].as_str().unwrap());
            let (_, document) = cluster.get(&path).await;
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let mut published = schemas
                .values()
                .find(|schema| schema["x-kubernetes-group-version-kind"][0]["kind"] == *kind)
                .unwrap()
                .clone();
            let mut defined = version["schema"]["openAPIV3Schema"].clone();
            published.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
            for schema in [&mut published, &mut defined] {
                let fields = schema["properties"].as_object_mut().unwrap();
                fields.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            }
            let differs = difference("", &published, &defined);
            assert_eq!(differs, None, "{kind}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared}");
}

/// The first place at which two values differ.
fn difference(at: &str, left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            let of = |of: &serde_json::Map<String, Value>, key: &String| {
                of.get(key).cloned().unwrap_or(Value::Null)
            };
            keys.iter().find_map(|key| difference(&format!("{at}/{key}"), &of(left, key), &of(right, key)))
        }
        _ if left == right => None,
        _ => {
            let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            Some(format!("{at}: {} is not {}", short(left), short(right)))
        }
    }
}
