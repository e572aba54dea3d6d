//! What is installed, at a real API server: every combination of options, and the registration after changes by others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use gpulint_testing::{is_full, missing};
use serde_json::{Value, json};

use crate::cluster::server::{Authority, Cluster};
use crate::webhook::balancer::Balancer;
use crate::webhook::client::plain;
use crate::webhook::in_cluster::{KUBECTL, make, post, serve};
use crate::webhook::manifests::{helm, manifests, objects, path, render};
use crate::webhook::server::{Folder, Server};
use crate::webhook::tls::mount;

/// The flags of `gpulint webhook manifests`, each with its value in the chart.
const OPTIONS: [(&[&str], &str); 4] = [
    (&["--host-network"], "hostNetwork=true"),
    (&["--events"], "events=true"),
    (&["--karpenter-nodes"], "karpenterNodes=true"),
    (&["--fail", "--include-kinds", "Node,ConfigMap"], "failurePolicy=Fail,includeKinds={Node,ConfigMap}"),
];

/// Creates a namespace, and the objects in it and beside it as a dry run; the pods of the Deployment as well, because
/// only pods are held to the Pod Security Standard of their namespace.
async fn apply(cluster: &Cluster, what: &str, installed: &[Value]) {
    let create = async |path: &str, object: &Value| {
        let path = format!("{path}?fieldValidation=Strict&dryRun=All");
        let body = object.to_string().into_bytes();
        let (code, warnings, answer) =
            cluster.send_for_warnings("POST", &path, "application/json", body).await;
        assert!(code == 201, "{what}: {object:#}\n{code} {answer:#}");
        assert!(warnings.is_empty(), "{what}: {} {warnings:?}", object["kind"]);
    };
    for object in installed {
        match object["kind"].as_str().unwrap() {
            "Namespace" => make(cluster, "/api/v1/namespaces", object).await,
            _ => create(&path(object), object).await,
        }
        if object["kind"] == "Deployment" {
            let mut pod = object["spec"]["template"].clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = "pod".into();
            pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
            create(&path(&pod), &pod).await;
        }
    }
}

/// The sets of options that are tried, an option a bit: with `FULL` all, otherwise those of at most two options, and of all but one.
fn combinations(options: usize) -> impl Iterator<Item = u32> {
    let options = options as u32;
    let is_tried = move |bits: &u32| is_full() || bits.count_ones() <= 2 || bits.count_ones() + 1 >= options;
    (0..1 << options).filter(is_tried)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_combination_of_options_is_accepted() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    for bits in combinations(OPTIONS.len()) {
        let chosen = (0..OPTIONS.len()).filter(|at| bits & (1 << at) != 0).map(|at| OPTIONS[at]);
        let name = format!("manifests-{bits}");
        let mut args = vec!["--namespace", &name, "--name", &name];
        args.extend(chosen.flat_map(|(flags, _)| flags));
        apply(&cluster, &args.join(" "), &objects(&manifests(&args))).await;
    }
    let Some(helm) = helm() else { return };
    let options: Vec<&str> = OPTIONS.iter().map(|(_, value)| *value).collect();
    let options = [&options[..], &["certManager.enabled=true", "networkPolicy.enabled=true"]].concat();
    for bits in combinations(options.len()) {
        let chosen = (0..options.len()).filter(|at| bits & (1 << at) != 0).map(|at| options[at]);
        let values: Vec<&str> = chosen.collect();
        let name = format!("chart-{bits}");
        let mut args = vec!["--namespace", &name, "--name", &name];
        args.extend(values.contains(&"hostNetwork=true").then_some("--host-network"));
        let mut installed = objects(&manifests(&args));
        installed.retain(|object| object["kind"] == "Namespace");
        installed.extend(objects(&render(&helm, &name, &values)));
        // Custom resources of others.
        installed.retain(|object| !object["apiVersion"].as_str().unwrap().starts_with("cert-manager"));
        apply(&cluster, &values.join(" "), &installed).await;
    }
}

/// What the README and the manual print installs the chart in a cluster without the namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_printed_commands_install_the_chart() {
    let (Some(cluster), Some(helm)) = (Cluster::start().await, helm()) else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages =
        ["README.md", "docs/src/webhook.md"].map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let lines = pages.iter().flat_map(|page| page.lines());
    let commands = lines.filter_map(|line| line.split_once("helm install ")?.1.split(" #").next());
    // The cluster has no cert-manager, and the tests no registry.
    let is_possible = |command: &&str| !command.contains("certManager") && !command.contains("oci://");
    let commands: BTreeSet<&str> = commands.map(str::trim).filter(is_possible).collect();
    assert_eq!(commands.len(), 1, "{commands:?}");
    for command in commands {
        let output = Command::new(&helm)
            .current_dir(root)
            .arg("install")
            .args(command.split_whitespace())
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("HOME", cluster.folder())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let (code, _) = cluster.get("/apis/apps/v1/namespaces/gpulint/deployments/gpulint").await;
    assert_eq!(code, 200);
}

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Installs the manifests without the Deployment, writes the files of their ConfigMap into a folder, and returns a
/// kubeconfig of the account.
async fn install(cluster: &Cluster, folder: &Folder) -> std::path::PathBuf {
    for object in objects(&manifests(&[])) {
        if object["kind"] == "Deployment" {
            continue;
        }
        make(cluster, &path(&object), &object).await;
        for (file, text) in object["data"].as_object().into_iter().flatten() {
            folder.write(file, text.as_str().unwrap());
        }
    }
    let token = "/api/v1/namespaces/gpulint/serviceaccounts/gpulint/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (_, answer) = post(cluster, token, &request).await;
    cluster.kubeconfig_of("gpulint", answer["status"]["token"].as_str().unwrap())
}

/// The webhooks of a configuration.
async fn webhooks(cluster: &Cluster, kind: &str) -> Value {
    cluster.get(&format!("{CONFIGURATIONS}/{kind}webhookconfigurations/gpulint")).await.1["webhooks"].clone()
}

const EDITS: [(&str, &str, &str); 6] = [
    ("validating", "/webhooks/0/rules/0/operations", r#"["DELETE"]"#),
    ("validating", "/webhooks/0/namespaceSelector", r#"{"matchLabels": {"none": "at-all"}}"#),
    ("validating", "/webhooks/0/failurePolicy", r#""Fail""#),
    ("validating", "/webhooks/1/matchConditions", r#"[{"name": "never", "expression": "false"}]"#),
    ("mutating", "/webhooks/0/rules", "[]"),
    ("mutating", "/webhooks/0/clientConfig/service/name", r#""other""#),
];

async fn edit(cluster: &Cluster, (kind, field, value): (&str, &str, &str)) {
    let value: Value = serde_json::from_str(value).unwrap();
    let patch = json!([{"op": "replace", "path": field, "value": value}]).to_string();
    let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/gpulint");
    let (code, answer) = cluster.send("PATCH", &path, "application/json-patch+json", patch.into()).await;
    assert_eq!(code, 200, "{field}: {answer:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_with_a_service_is_kept_whole() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let folder = Folder::new();
    let kubeconfig = install(&cluster, &folder).await;
    let args = ["--registration", ".", "--config", "gpulint.yaml"];
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    server
        .until("the caBundle is there", async || {
            webhooks(&cluster, "mutating").await[0]["clientConfig"]["caBundle"].is_string()
        })
        .await;
    for change in EDITS {
        let before = webhooks(&cluster, change.0).await;
        edit(&cluster, change).await;
        server
            .until("the configuration is whole again", async || webhooks(&cluster, change.0).await == before)
            .await;
    }
    let said = server.process.said();
    assert!(said.contains("webhooks[0].rules") && said.contains("as installed again"), "{said}");
    drop(server);

    // Where others keep the caBundle, nothing is written, and the edit is named.
    mount(folder.path(), "v1", &Authority::new().issue(&["127.0.0.1"]));
    let args = [&args[..], &["--tls-cert", "tls.crt", "--tls-key", "tls.key"]].concat();
    let server = Server::start("files", folder.path(), Some(&kubeconfig), &args).await;
    server.ready().await;
    let verbose = async || plain(server.operations, "/readyz?verbose").await.unwrap().1;
    server
        .until("both are registered", async || {
            let text = verbose().await;
            text.contains("[+]registration/Mut") && text.contains("[+]registration/Val")
        })
        .await;
    edit(&cluster, EDITS[1]).await;
    server
        .until("the edit is named", async || {
            verbose().await.contains("webhooks[0].namespaceSelector is not as installed")
        })
        .await;
}

/// `gpulint webhook manifests | kubectl apply -f -` takes over what a server with `--url` has made, and a server with
/// `--url` does not take over what is installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_replace_a_registration_by_url() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpulint"}});
    make(&cluster, "/api/v1/namespaces", &namespace).await;
    let (folder, balancer) = (Folder::new(), Balancer::start().await);
    let server = serve(&cluster, &folder, "gpulint", &balancer, &[]).await;
    server
        .until("it is registered", async || {
            webhooks(&cluster, "mutating").await[0]["clientConfig"]["url"].is_string()
        })
        .await;
    drop(server);
    let file = folder.write("manifests.yaml", &manifests(&[]));
    let output = Command::new("kubectl")
        .args(["apply", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .arg("-f")
        .arg(&file)
        .output();
    let Ok(output) = output else { return missing("kubectl", KUBECTL) };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    for kind in ["validating", "mutating"] {
        let client = webhooks(&cluster, kind).await[0]["clientConfig"].clone();
        assert!(client["url"].is_null() && client["service"]["name"] == "gpulint", "{client}");
    }

    let server = serve(&cluster, &folder, "outside", &balancer, &[]).await;
    server
        .until("it says that others are registered", async || {
            let (_, text) = plain(server.operations, "/readyz?verbose").await.unwrap();
            text.contains("do not lead to this server")
        })
        .await;
    assert_eq!(webhooks(&cluster, "validating").await[0]["clientConfig"]["service"]["name"], "gpulint");
}
