//! Bundles of correct manifests (`fixtures/bundles`) as clients apply them, in three orders: nothing of them is refused.

use std::collections::BTreeMap;

use gpulint_testing::{fixtures, yaml_below};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cluster::server::Cluster;
use crate::webhook::balancer::Balancer;
use crate::webhook::in_cluster::{asked, cluster, serve};
use crate::webhook::server::Folder;

const JSON: &str = "application/json";

/// The kinds in the order in which Helm installs them; all others come after these, by kind.
const HELM: [&str; 20] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolumeClaim",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
];

#[derive(Clone, Copy, Debug)]
enum Order {
    /// As `kubectl create -f` reads the file.
    File,
    /// As `helm install`.
    Helm,
    /// Server-side, in the order of the file.
    Apply,
}

/// The paths of the kinds that the API server serves, without namespace: prefix, plural, and whether it is namespaced.
#[derive(Default)]
struct Resources(BTreeMap<(String, String), (String, bool)>);

impl Resources {
    async fn path(&mut self, cluster: &Cluster, object: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let prefix =
            if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        if !self.0.contains_key(&(version.clone(), kind.clone())) {
            for resource in cluster.get(&prefix).await.1["resources"].as_array().unwrap() {
                let plural = text(&resource["name"]);
                if !plural.contains('/') {
                    let key = (version.clone(), text(&resource["kind"]));
                    self.0.insert(key, (plural, resource["namespaced"] == true));
                }
            }
        }
        let (plural, namespaced) = &self.0[&(version, kind)];
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) if *namespaced => format!("{prefix}/namespaces/{namespace}/{plural}"),
            _ => format!("{prefix}/{plural}"),
        }
    }
}

fn bundles() -> BTreeMap<String, Vec<Value>> {
    let mut bundles: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for path in yaml_below(&fixtures().join("bundles")) {
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let documents = serde_yaml::Deserializer::from_str(&text);
        let objects = documents.map(|document| Value::deserialize(document).unwrap());
        bundles.entry(name).or_default().extend(objects);
    }
    bundles
}

fn ordered(mut objects: Vec<Value>, order: Order) -> Vec<Value> {
    if matches!(order, Order::Helm) {
        objects.sort_by_key(|object| {
            let kind = object["kind"].as_str().unwrap();
            (HELM.iter().position(|known| *known == kind).unwrap_or(HELM.len()), kind.to_owned())
        });
    }
    objects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_correct_is_refused_in_any_order() {
    let bundles = bundles();
    assert_eq!(bundles.len(), 20);
    let Some(cluster) = cluster().await else {
        return;
    };
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    folder.write("gpulint.yaml", "{}\n");
    let _server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    asked(&cluster).await;
    let mut resources = Resources::default();
    let (mut refused, mut count) = (Vec::new(), 0);
    for order in [Order::File, Order::Helm, Order::Apply] {
        let mut made = Vec::new();
        for (bundle, objects) in &bundles {
            for object in ordered(objects.clone(), order) {
                let (kind, name) = (&object["kind"], object["metadata"]["name"].as_str().unwrap());
                let path = resources.path(&cluster, &object).await;
                let one = format!("{path}/{name}");
                let body = object.to_string().into_bytes();
                let (code, answer) = match order {
                    Order::Apply => {
                        let path = format!("{one}?fieldManager=test&fieldValidation=Strict");
                        cluster.send("PATCH", &path, "application/apply-patch+yaml", body).await
                    }
                    _ => cluster.post(&format!("{path}?fieldValidation=Strict"), JSON, body).await,
                };
                count += 1;
                // Namespaces stay: without their controller none ends.
                let is_there = kind == "Namespace" && code == 409;
                match code {
                    200 | 201 if kind == "Namespace" => {}
                    200 | 201 => made.push(one),
                    _ if is_there => {}
                    _ => refused
                        .push(format!("{order:?} {bundle}: {kind} {name}: {code} {}", answer["message"])),
                }
            }
        }
        for path in made {
            cluster.send("DELETE", &path, JSON, br#"{"propagationPolicy": "Background"}"#.to_vec()).await;
            // A claim waits for its controller, which is not there.
            let released = json!({"metadata": {"finalizers": null}}).to_string().into_bytes();
            cluster.send("PATCH", &path, "application/merge-patch+json", released).await;
        }
    }
    assert!(refused.is_empty(), "{} of {count}:\n{}", refused.len(), refused.join("\n"));
}
