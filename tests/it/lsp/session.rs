//! One session by three clients: that of the tests, Neovim, and the client library of VS Code.
//!
//! `apt-get install neovim` and `GPULINT_EDITORS=$(tests/editors/prepare)` enable all of them; missing ones
//! are reported.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpulint_testing::{assets, missing};
use serde_json::{Value, json};

use super::client::{Client, Setup, codes};
use crate::support::Folder;

const POOLS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {nvidia.com/gpu: 16}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
  template:
    spec:
      expireAfter: 720h
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints:
        - {key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge, g6.2xlarge, g6.4xlarge]}
";

const CLASS: &str = "\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20260301}]
";

const HPA: &str = "\
apiVersion: autoscaling/v2beta2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 4}
";

const RULES: &str = "\
rules:
  all: off
  gpu-pool-untainted: on
  node-class-missing: on
  removed-api-version: error
  yaml-syntax: on
";

/// A pool with its class, another class, an old autoscaler, and a configuration with four rules.
pub(super) fn infra() -> Folder {
    Folder::new()
        .with("pools.yaml", POOLS)
        .with("class.yaml", CLASS)
        .with("other.yaml", CLASS.replace("name: gpu", "name: cpu"))
        .with("hpa.yaml", HPA)
        .with("gpulint.yaml", RULES)
}

/// The expected result of every client.
fn expected() -> Vec<(&'static str, Value)> {
    let old = json!({"hpa.yaml": ["1 removed-api-version"]});
    let missing = json!({"pools.yaml": ["10 node-class-missing"]});
    vec![
        ("open", old.clone()),
        (
            "a taint removed",
            json!({"hpa.yaml": ["1 removed-api-version"], "pools.yaml": ["8 gpu-pool-untainted"]}),
        ),
        ("a taint typed", old.clone()),
        ("preferred actions", json!(["quickfix"])),
        ("fixed", json!({})),
        ("the text", json!("apiVersion: autoscaling/v2")),
        ("hover", json!(["1 × l4", "an hour"])),
        ("completion", json!(["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"])),
        ("definition", json!(["class.yaml:3"])),
        ("references", json!(["pools.yaml:10"])),
        ("a class renamed", missing.clone()),
        ("the class named as before", json!({})),
        ("its file deleted", missing),
        ("its file written", json!({})),
        ("YAML broken", json!({"pools.yaml": ["4 yaml-syntax"]})),
        ("YAML mended", json!({})),
        ("closed without saving", old),
        ("the rule switched off", json!({})),
        ("exit code", json!(0)),
    ]
}

/// Compares the lines that a program printed with the expected result.
#[track_caller]
fn compare(name: &str, printed: &str, errors: &str) {
    let mut lines: Vec<(String, Value)> = Vec::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        lines.push((line["step"].as_str().unwrap().to_owned(), line["saw"].clone()));
    }
    let of_its_own = ["initialize"];
    lines.retain(|(step, _)| !of_its_own.contains(&step.as_str()));
    let expected: Vec<(String, Value)> =
        expected().into_iter().map(|(step, saw)| (step.to_owned(), saw)).collect();
    let wrong: Vec<String> = expected
        .iter()
        .filter_map(|(step, wanted)| {
            let saw = lines.iter().find(|(other, _)| other == step).map(|(_, saw)| saw);
            (saw != Some(wanted)).then(|| format!("{step}: expected {wanted}, {name} saw {saw:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{errors}", wrong.join("\n"));
    assert_eq!(lines.len(), expected.len(), "{name} saw more: {lines:?}");
}

/// Runs a program to its end, two minutes at most.
#[track_caller]
fn finished(command: &mut Command) -> (String, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let errors = format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).unwrap(), errors)
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors").join(name)
}

#[test]
fn neovim() {
    if Command::new("nvim").arg("--version").output().is_err() {
        return missing("nvim", "apt-get install neovim");
    }
    let folder = infra();
    let state = Folder::new();
    let mut command = Command::new("nvim");
    command.args(["--headless", "--clean", "-n", "-i", "NONE", "-c"]);
    command.arg(format!("luafile {}", script("session.lua").display()));
    // Reached only if the script ends early.
    command.args(["-c", "cquit 4"]);
    command.current_dir(&folder.0).env("PROGRAM", env!("CARGO_BIN_EXE_gpulint"));
    // The log must not be among the user's files.
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, &state.0);
    }
    let (printed, errors) = finished(&mut command);
    compare("Neovim", &printed, &errors);
}

fn with_node(mode: &str) {
    let Some(modules) = assets("GPULINT_EDITORS", "", "tests/editors/prepare") else { return };
    let folder = infra();
    let mut command = Command::new("node");
    command.arg(script("session.mjs")).arg(modules).arg(mode).arg(&folder.0);
    command.args([env!("CARGO_BIN_EXE_gpulint"), "lsp"]).current_dir(&folder.0);
    let (printed, errors) = finished(&mut command);
    compare(&format!("the client from npm ({mode})"), &printed, &errors);
}

#[test]
fn the_client_of_vs_code_pushed() {
    with_node("push");
}

#[test]
fn the_client_of_vs_code_pulls() {
    with_node("pull");
}

/// Runs the session with the client of the tests, which needs no other program.
#[test]
fn our_own_client() {
    let folder = infra();
    let mut client = Client::start(&folder.0, Setup::push());
    let mut saw: Vec<(&str, Value)> = Vec::new();
    let rules = |client: &Client| -> Value {
        let mut all = serde_json::Map::new();
        for (path, published) in client.published() {
            let mut lines: Vec<String> = published
                .diagnostics
                .iter()
                .map(|one| {
                    let line = one["range"]["start"]["line"].as_u64().unwrap() + 1;
                    format!("{line} {}", codes(std::slice::from_ref(one))[0])
                })
                .collect();
            lines.sort();
            if !lines.is_empty() {
                all.insert(path.clone(), json!(lines));
            }
        }
        Value::Object(all)
    };
    let sees = |client: &mut Client, saw: &mut Vec<(&str, Value)>, step: &'static str| {
        let wanted = expected().into_iter().find(|(other, _)| *other == step).unwrap().1;
        client.wait_until(step, |client| rules(client) == wanted);
        saw.push((step, wanted));
    };

    client.open("pools.yaml");
    sees(&mut client, &mut saw, "open");
    let taints = "      taints:\n        - {key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}\n";
    client.replace("pools.yaml", taints, "");
    sees(&mut client, &mut saw, "a taint removed");
    let typed = "      taints: [{key: nvidia.com/gpu, value: 'ja 😀', effect: NoSchedule}]\n";
    client.write("pools.yaml", "EC2NodeClass, name: gpu}\n", typed);
    sees(&mut client, &mut saw, "a taint typed");

    client.open("hpa.yaml");
    let actions = client.actions("hpa.yaml", "autoscaling/v2beta2", Some("quickfix"));
    let preferred: Vec<&Value> = actions.iter().filter(|one| one["isPreferred"] == true).collect();
    saw.push(("preferred actions", preferred.iter().map(|one| one["kind"].clone()).collect()));
    client.perform(&preferred[0].clone());
    sees(&mut client, &mut saw, "fixed");
    saw.push(("the text", json!(client.text("hpa.yaml").lines().next())));

    let hover = client.hover("pools.yaml", "g6.|2xlarge").unwrap();
    let words: Vec<&str> = ["1 × l4", "an hour"].into_iter().filter(|word| hover.contains(word)).collect();
    saw.push(("hover", json!(words)));
    client.replace("pools.yaml", "operator: In, values: [amd64]", "operator: ");
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    let items = client.complete("pools.yaml", "arch, operator: |");
    let mut labels: Vec<&str> = items
        .iter()
        .filter_map(|item| item["label"].as_str())
        .filter(|label| operators.contains(label))
        .collect();
    labels.sort_unstable();
    saw.push(("completion", json!(labels)));
    client.replace("pools.yaml", "arch, operator: ", "arch, operator: In, values: [amd64]");

    let place = "EC2NodeClass, name: |gpu";
    saw.push(("definition", json!(client.locations("textDocument/definition", "pools.yaml", place))));
    client.open("class.yaml");
    let found = client.locations("textDocument/references", "class.yaml", "metadata: {name: |gpu}");
    // This client requests the declaration as well.
    saw.push(("references", found.into_iter().filter(|one| !one.starts_with("class")).collect()));
    client.replace("class.yaml", "name: gpu}", "name: gpux}");
    sees(&mut client, &mut saw, "a class renamed");
    client.replace("class.yaml", "name: gpux}", "name: gpu}");
    sees(&mut client, &mut saw, "the class named as before");
    client.close("class.yaml");
    client.delete("class.yaml");
    sees(&mut client, &mut saw, "its file deleted");
    client.on_disk("class.yaml", CLASS);
    sees(&mut client, &mut saw, "its file written");

    client.replace("pools.yaml", "metadata: {name: gpu}", "metadata: {name: gpu");
    sees(&mut client, &mut saw, "YAML broken");
    client.replace("pools.yaml", "metadata: {name: gpu\n", "metadata: {name: gpu}\n");
    sees(&mut client, &mut saw, "YAML mended");
    client.close("hpa.yaml");
    sees(&mut client, &mut saw, "closed without saving");
    client.on_disk("gpulint.yaml", RULES.replace("error", "off"));
    sees(&mut client, &mut saw, "the rule switched off");
    client.end();
    saw.push(("exit code", json!(0)));
    assert_eq!(saw, expected());
}

/// An editor knows a folder by the link through which it was opened.
#[cfg(unix)]
#[test]
fn a_folder_behind_a_link_is_checked() {
    let folder = infra();
    folder.git(&["init", "-q", "-b", "main"]);
    folder.commit("first");
    let around = Folder::new();
    let link = around.0.join("link");
    std::os::unix::fs::symlink(&folder.0, &link).unwrap();
    let mut client = Client::start(&link, Setup::push());
    client.wait_for("hpa.yaml", &["removed-api-version"]);
    client.open("pools.yaml");
    client.replace("pools.yaml", "name: gpu}\n      taints", "name: absent}\n      taints");
    client.wait_for("pools.yaml", &["node-class-missing"]);
    client.end();
}
