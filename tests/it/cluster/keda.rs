//! KEDA's own admission webhooks, registered at an API server: they reject the same objects as in a cluster.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::server::{Cluster, Process, assets, free_port};

/// The kinds that KEDA's webhooks check: kind, plural.
const KINDS: [(&str, &str); 4] = [
    ("ScaledObject", "scaledobjects"),
    ("ScaledJob", "scaledjobs"),
    ("TriggerAuthentication", "triggerauthentications"),
    ("ClusterTriggerAuthentication", "clustertriggerauthentications"),
];

/// The webhooks, registered at a server. Dropping the value ends them.
pub(crate) struct Keda {
    _process: Process,
}

impl Keda {
    /// Starts the webhooks and waits until the server calls them.
    pub(crate) async fn start(cluster: &Cluster) -> Keda {
        let assets = assets("").expect("a cluster runs, so its programs are there");
        let folder = cluster.folder().join("keda");
        fs::create_dir_all(&folder).expect("the folder can be written");
        let pair = cluster.ca().issue(&["127.0.0.1", "localhost"]);
        fs::write(folder.join("tls.crt"), &pair.certificate).expect("the folder can be written");
        fs::write(folder.join("tls.key"), &pair.key).expect("the folder can be written");
        // Another process may take the port before the start, so a start is retried.
        let mut tries = 0;
        let (process, port) = loop {
            tries += 1;
            let port = free_port();
            let mut process = Process::start(
                "keda-webhooks",
                cluster.folder(),
                Command::new(assets.join("keda-webhooks"))
                    .env("KUBECONFIG", cluster.kubeconfig())
                    .arg(format!("--cert-dir={}", folder.display()))
                    .arg(format!("--port={port}"))
                    .arg("--metrics-bind-address=0")
                    .arg("--health-probe-bind-address=0")
                    // There are thousands of consecutive reviews, each with look-ups.
                    .args(["--kube-api-qps=2000", "--kube-api-burst=4000"])
                    .arg("--zap-log-level=error"),
            );
            if listens(&mut process, port).await {
                break (process, port);
            }
            assert!(tries < 3, "KEDA's webhooks do not come up\n{}", process.last_words());
        };
        let keda = Keda { _process: process };
        keda.register(cluster, port).await;
        keda
    }

    async fn register(&self, cluster: &Cluster, port: u16) {
        let ca = k8s_openapi::ByteString(cluster.ca().pem().as_bytes().to_vec());
        let webhooks: Vec<Value> = KINDS
            .iter()
            .map(|(kind, plural)| {
                let kind = kind.to_lowercase();
                json!({
                    "name": format!("{kind}.keda.test"),
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    // In a test an unreachable webhook must not admit objects.
                    "failurePolicy": "Fail",
                    "timeoutSeconds": 30,
                    "clientConfig": {
                        "url": format!("https://127.0.0.1:{port}/validate-keda-sh-v1alpha1-{kind}"),
                        "caBundle": ca,
                    },
                    "rules": [{
                        "apiGroups": ["keda.sh"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [plural],
                    }],
                })
            })
            .collect();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "keda-admission"},
            "webhooks": webhooks,
        });
        let (code, answer) = cluster
            .post(
                "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                "application/json",
                configuration.to_string().into_bytes(),
            )
            .await;
        assert!(code == 201, "{answer}");
        // The webhooks are in force once an object is rejected that only KEDA rejects.
        let refused = json!({
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ClusterTriggerAuthentication",
            "metadata": {"name": "probe"},
            "spec": {"podIdentity": {"provider": "azure-workload", "identityId": ""}},
        })
        .to_string();
        cluster
            .until("KEDA's webhooks are asked", async || {
                let (code, _) = cluster
                    .post(
                        "/apis/keda.sh/v1alpha1/clustertriggerauthentications?dryRun=All",
                        "application/json",
                        refused.clone().into_bytes(),
                    )
                    .await;
                code == 403
            })
            .await;
    }
}

/// Waits, at most three minutes, until a program listens on a port.
async fn listens(process: &mut Process, port: u16) -> bool {
    let until = Instant::now() + Duration::from_secs(180);
    while !process.ended() && Instant::now() < until {
        let connected = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        if connected.is_ok() && !process.ended() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}
