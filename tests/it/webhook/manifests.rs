//! The installation: gpulint finds nothing in it, the API server accepts it, its permissions suffice, and Helm renders
//! the chart to the same objects (templates and values are compared without Helm in `webhook/src/manifests/chart.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cluster::server::{Cluster, assets};
use crate::webhook::client::{metric, plain};
use crate::webhook::server::{Folder, Server};

fn gpulint(args: &[&str], stdin: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpulint"))
        .args(args)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

pub(crate) fn manifests(args: &[&str]) -> String {
    let mut all = vec!["webhook", "manifests"];
    all.extend(args);
    let (code, text, said) = gpulint(&all, "");
    assert_eq!(code, Some(0), "{said}");
    text
}

/// Asserts that there is no finding of any severity.
fn assert_clean(text: &str) {
    let check = ["check", "-", "--complete", "--fail-on", "info", "--format", "concise"];
    let (code, found, said) = gpulint(&check, text);
    assert_eq!(code, Some(0), "{found}{said}");
}

pub(crate) fn objects(text: &str) -> Vec<Value> {
    use serde::Deserialize;
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

#[test]
fn the_manifests_are_the_same_bytes_and_clean() {
    let text = manifests(&[]);
    assert_eq!(text, manifests(&[]));
    assert_clean(&text);
    assert_clean(&manifests(&["--karpenter-nodes", "--namespace", "policies", "--name", "guard"]));
    let deployment = objects(&text).into_iter().find(|o| o["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
}

/// The failure policy and the timeout of the flags apply to kinds that are written rarely and that no node
/// has to wait for. All other kinds have a timeout of one second and the policy `Ignore`.
#[test]
fn two_webhooks_by_importance() {
    let resources = |webhook: &Value| -> Vec<String> {
        let rules = webhook["rules"].as_array().unwrap().iter();
        let resources = rules.flat_map(|rule| rule["resources"].as_array().unwrap());
        resources.map(|resource| resource.as_str().unwrap().to_owned()).collect()
    };
    let args = ["--fail", "--timeout", "5", "--exclude-kinds", "ScaledJob", "--include-kinds", "Namespace"];
    let objects = objects(&manifests(&args));
    for (kind, policy) in
        [("ValidatingWebhookConfiguration", "Fail"), ("MutatingWebhookConfiguration", "Ignore")]
    {
        let configuration = objects.iter().find(|o| o["kind"] == kind).unwrap();
        let [guarded, usual] = &configuration["webhooks"].as_array().unwrap()[..] else { panic!("{kind}") };
        assert_eq!((&guarded["failurePolicy"], &guarded["timeoutSeconds"]), (&json!(policy), &json!(5)));
        assert_eq!((&usual["failurePolicy"], &usual["timeoutSeconds"]), (&json!("Ignore"), &json!(1)));
        let (guarded, usual) = (resources(guarded), resources(usual));
        assert!(guarded.contains(&"nodepools".to_owned()), "{guarded:?}");
        for never in ["pods", "nodeclaims", "deployments"] {
            assert!(!guarded.contains(&never.to_owned()) && usual.contains(&never.to_owned()), "{never}");
        }
        assert!(usual.contains(&"namespaces".to_owned()), "{usual:?}");
        for absent in ["configmaps", "nodes", "scaledjobs"] {
            assert!(!usual.contains(&absent.to_owned()) && !guarded.contains(&absent.to_owned()), "{absent}");
        }
    }
    for wrong in [["--exclude-kinds", "Podd"], ["--include-kinds", "Pod"]] {
        let (code, _, said) = gpulint(&["webhook", "manifests", wrong[0], wrong[1]], "");
        assert_eq!(code, Some(2), "{said}");
    }
}

#[test]
fn a_wrong_configuration_is_not_installed() {
    let folder = Folder::new();
    let path = folder.write("gpulint.yaml", "rulez: {}\n");
    let (code, _, said) = gpulint(&["webhook", "manifests", "--config", path.to_str().unwrap()], "");
    assert_eq!(code, Some(2));
    assert!(said.contains("did you mean `rules`?"), "{said}");
}

/// The API path of an object's collection.
pub(crate) fn path(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = match object["kind"].as_str().unwrap() {
        "NetworkPolicy" => "networkpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}

async fn make(cluster: &Cluster, object: &Value, query: &str) {
    let path = format!("{}?fieldValidation=Strict{query}", path(object));
    let (code, answer) = cluster.post(&path, "application/json", object.to_string().into()).await;
    assert!(code == 201, "{object:#}\n{code} {answer:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_takes_them_and_their_rights_are_enough() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    for object in objects(&manifests(&[])) {
        make(&cluster, &object, "").await;
    }
    // The server runs with only the permissions of its service account.
    let path = "/api/v1/namespaces/gpulint/serviceaccounts/gpulint/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (code, answer) = cluster.post(path, "application/json", request.to_string().into()).await;
    assert_eq!(code, 201, "{answer:#}");
    let token = answer["status"]["token"].as_str().unwrap();
    let kubeconfig = cluster.kubeconfig_of("gpulint", token);
    let folder = Folder::new();
    let server = Server::start("gpulint", folder.path(), Some(&kubeconfig), &[]).await;
    server.ready().await;
    let (_, secret) = cluster.get("/api/v1/namespaces/gpulint/secrets/gpulint-certificates").await;
    let authority = secret["data"]["ca.crt"].as_str().unwrap().to_owned();
    for kind in ["validating", "mutating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/gpulint");
        server
            .until("the caBundle is there", async || {
                cluster.get(&path).await.1["webhooks"][0]["clientConfig"]["caBundle"] == *authority
            })
            .await;
    }
    let said = server.process.said();
    assert!(!said.contains("orbidden") && !said.contains("ERROR"), "{said}");
    assert!(said.contains("system:serviceaccount:gpulint:gpulint"), "who it is: {said}");
    loss_is_noticed(&cluster, &server).await;
    drop(server);
    // The webhook URL is a user's own machine, and the namespace does not exist.
    let args = ["--namespace", "nowhere", "--url", "https://127.0.0.1:1", "--context", "test"];
    let server = Server::start("outside", folder.path(), Some(&cluster.kubeconfig()), &args).await;
    server
        .until("it says what to type", async || {
            server.process.said().contains("kubectl create namespace nowhere")
        })
        .await;
    assert!(server.process.said().contains("\"account\":\"admin\""), "{}", server.process.said());
    drop(server);

    let Some(helm) = helm() else { return };
    for object in objects(&render(&helm, "gpulint", &EVERYTHING)) {
        let version = object["apiVersion"].as_str().unwrap();
        if !version.starts_with("cert-manager") && !version.starts_with("monitoring") {
            make_again(&cluster, &object).await;
        }
    }
}

/// A webhook configuration that is missing or has another URL is logged every time; readiness does not depend
/// on it.
async fn loss_is_noticed(cluster: &Cluster, server: &Server) {
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gpulint";
    let line = r#"gpulint_registered{configuration="ValidatingWebhookConfiguration"}"#;
    let registered = async |is: f64| {
        server
            .until("the registration is as it is", async || metric(&server.metrics().await, line) == is)
            .await;
    };
    let verbose = async || plain(server.operations, "/readyz?verbose").await.unwrap();
    registered(1.0).await;
    assert!(verbose().await.1.contains("[+]registration/ValidatingWebhookConfiguration ok"));
    let (_, mut kept) = cluster.get(path).await;
    kept["metadata"] = json!({"name": "gpulint"});
    for times in 1..=2 {
        assert_eq!(cluster.send("DELETE", path, "application/json", Vec::new()).await.0, 200);
        registered(0.0).await;
        let (code, text) = verbose().await;
        assert!(code == 200 && text.contains("it does not exist"), "{code} {text}");
        let said = server.process.said();
        assert_eq!(said.matches("it does not exist").count(), times, "{said}");
        make(cluster, &kept, "").await;
        registered(1.0).await;
    }
    let elsewhere =
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "other"}]);
    let media = "application/json-patch+json";
    assert_eq!(cluster.send("PATCH", path, media, elsewhere.to_string().into()).await.0, 200);
    registered(0.0).await;
    assert!(verbose().await.1.contains("do not lead to this server"));
}

/// Creates an object under another name, as a dry run.
async fn make_again(cluster: &Cluster, object: &Value) {
    let mut object = object.clone();
    object["metadata"]["name"] = format!("{}-again", object["metadata"]["name"].as_str().unwrap()).into();
    make(cluster, &object, "&dryRun=All").await;
}

pub(crate) fn helm() -> Option<std::path::PathBuf> {
    assets("helm")
}

const EVERYTHING: [&str; 5] = [
    "certManager.enabled=true",
    "networkPolicy.enabled=true",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "grafanaDashboard.enabled=true",
];

/// Renders the chart as a release of this name, in the namespace of this name.
fn template(helm: &Path, release: &str, values: &[&str]) -> std::process::Output {
    let mut command = Command::new(helm);
    command
        .args(["template", release])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("webhook/chart"))
        .args(["--namespace", release, "--kube-version", "1.34.0"]);
    for value in values {
        command.args(["--set", value]);
    }
    command.output().unwrap()
}

pub(crate) fn render(helm: &Path, release: &str, values: &[&str]) -> String {
    let output = template(helm, release, values);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_chart_renders_what_the_command_prints() {
    let Some(helm) = helm() else { return };
    let by_name = |text: &str| -> BTreeMap<(String, String), Value> {
        let key = |o: &Value| (o["kind"].to_string(), o["metadata"]["name"].to_string());
        objects(text).into_iter().map(|o| (key(&o), o)).collect()
    };
    let pairs: [(&[&str], &[&str]); 3] = [
        (
            &["--host-network", "--port", "9443", "--operations-port", "9080", "--events"],
            &["hostNetwork=true", "port=9443", "operationsPort=9080", "events=true"],
        ),
        (&[], &[]),
        (
            &[
                "--fail",
                "--exclude-kinds",
                "ScaledJob,Pod",
                "--include-kinds",
                "Node,ConfigMap",
                "--replicas",
                "3",
                "--timeout",
                "5",
                "--karpenter-nodes",
            ],
            &[
                "failurePolicy=Fail",
                "excludeKinds={ScaledJob,Pod}",
                "includeKinds={Node,ConfigMap}",
                "replicas=3",
                "timeoutSeconds=5",
                "karpenterNodes=true",
            ],
        ),
    ];
    for (args, values) in pairs {
        let text = render(&helm, "gpulint", values);
        assert_eq!(text, render(&helm, "gpulint", values));
        assert_clean(&text);
        let (mut printed, rendered) = (by_name(&manifests(args)), by_name(&text));
        // Helm needs the namespace before the release.
        printed.retain(|(kind, _), _| kind != "\"Namespace\"");
        assert_eq!(printed.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>());
        for (key, object) in printed {
            assert_eq!(object, rendered[&key], "{key:?}");
        }
    }
    assert_clean(&render(&helm, "gpulint", &EVERYTHING));
    for wrong in [
        "includeKinds={Pod}",
        "failurePolicy=No",
        "timeoutSeconds=0",
        "excludeKinds={Podd}",
        "replica=3",
        "port=0",
        "hostNetwork=yes",
        "probes.liveness.failures=3",
        "config=rules: [",
        "config=- a",
        "config=rulez: {}",
        "config=webhook: deny",
        "config=webhook: {denny: off}",
    ] {
        assert!(!template(&helm, "gpulint", &[wrong]).status.success(), "{wrong}");
    }
    assert!(template(&helm, "gpulint", &["config=webhook: {deny: off}"]).status.success());
}

/// What no rule in use reads is not granted, neither by the manifests nor by the chart.
#[test]
fn only_what_rules_in_use_read_is_granted() {
    let reading = gpulint_webhook::kinds::readers().into_iter();
    let reading = reading.filter(|(kind, _)| ["ConfigMap", "HelmRelease"].contains(&kind.kind));
    let off: BTreeSet<String> =
        reading.flat_map(|(_, rules)| rules).map(|rule| format!("{rule}: off")).collect();
    let off = format!("rules: {{{}}}", Vec::from_iter(off).join(", "));
    let role =
        |text: &str| objects(text).into_iter().find(|o| o["kind"] == "ClusterRole").unwrap()["rules"].clone();
    let has = |role: &Value, resource: &str| role.to_string().contains(&format!("\"{resource}\""));
    let all = role(&manifests(&[]));
    assert!(["configmaps", "helmreleases", "nodepools"].iter().all(|resource| has(&all, resource)), "{all}");
    let folder = Folder::new();
    let path = folder.write("gpulint.yaml", &off);
    let few = role(&manifests(&["--config", path.to_str().unwrap()]));
    assert!(has(&few, "nodepools") && !has(&few, "configmaps") && !has(&few, "helmreleases"), "{few}");
    let Some(helm) = helm() else { return };
    let value = format!("config={}", off.replace(',', "\\,"));
    assert_eq!(role(&render(&helm, "gpulint", &[&value])), few);
}

/// Values that add to the pods are rendered at the correct place.
#[test]
fn the_values_that_add_to_the_pods_are_rendered() {
    let Some(helm) = helm() else { return };
    let values = [
        "podLabels.team=ml",
        "dnsPolicy=Default",
        "affinity.nodeAffinity.x=1",
        "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128",
        "extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca",
        "extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca",
        "extraArgs={--log-denies}",
        "probes.readiness.timeoutSeconds=4",
        "networkPolicy.admissionFrom[0].ipBlock.cidr=10.0.0.0/16",
    ];
    let objects = objects(&render(&helm, "gpulint", &values));
    let of = |kind: &str| objects.iter().find(|o| o["kind"] == kind).unwrap();
    let template = &of("Deployment")["spec"]["template"];
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    assert_eq!(template["metadata"]["labels"]["team"], "ml");
    assert_eq!(template["metadata"]["labels"]["app.kubernetes.io/name"], "gpulint");
    assert_eq!(pod["dnsPolicy"], "Default");
    assert_eq!(pod["affinity"], json!({"nodeAffinity": {"x": 1}}));
    assert_eq!(container["env"], json!([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]));
    assert_eq!(pod["volumes"][1], json!({"name": "ca", "configMap": {"name": "ca"}}));
    assert_eq!(container["volumeMounts"][1], json!({"name": "ca", "mountPath": "/ca"}));
    assert_eq!(container["args"].as_array().unwrap().last().unwrap(), "--log-denies");
    assert_eq!(container["readinessProbe"]["timeoutSeconds"], 4);
    let ingress = &of("NetworkPolicy")["spec"]["ingress"];
    assert_eq!(ingress[0]["from"], json!([{"ipBlock": {"cidr": "10.0.0.0/16"}}]));
    assert_eq!(ingress[1]["from"], Value::Null);
}

/// The schema knows every value of the chart, and only those.
#[test]
fn the_schema_of_the_values_is_complete() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("webhook/chart");
    let read = |file: &str| std::fs::read_to_string(chart.join(file)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_yaml::from_str(&read("values.yaml")).unwrap();
    let faults: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&values)
        .map(|error| error.to_string())
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.retain(|key| key != "global");
        keys.sort();
        keys
    };
    assert_eq!(keys(&schema["properties"]), keys(&values));
}
