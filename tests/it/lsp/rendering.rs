//! What charts and kustomizations give, in an editor, where the configuration asks for that.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Client, PATIENCE, Setup};
use crate::render::{CHART, MISMATCH, programs, run_with_path};
use crate::support::Folder;

const CONFIGURATION: &str = "render: {enabled: true}\nrules: {gpu-limit-mismatch: error}\n";
const RULE: &str = "gpu-limit-mismatch";
const TEMPLATE: &str = "chart/templates/a.yaml";
const KUSTOMIZATION: &str = "resources: [pod.yaml]\npatches: [{path: patch.yaml}]\n";
/// The patch takes away what is wrong in the resource, and makes another thing wrong.
const PATCH: &str = "apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - name: a
      resources:
        limits: {nvidia.com/gpu: 2}
    - name: b
      image: registry.example.com/b:1.2
      resources:
        requests: {nvidia.com/gpu: 4}
        limits: {nvidia.com/gpu: 3}
";

fn charts() -> Folder {
    Folder::new()
        .with("gpulint.yaml", CONFIGURATION)
        .with("chart/Chart.yaml", CHART)
        .with("chart/values.yaml", "gpus: 2\n")
        .with(
            TEMPLATE,
            MISMATCH
                .replace("requests: {nvidia.com/gpu: 2}", "requests: {nvidia.com/gpu: {{ .Values.gpus }}}"),
        )
        .with("chart/templates/b.yaml", MISMATCH.replace("name: a}", "name: b}"))
        .with("overlay/kustomization.yaml", KUSTOMIZATION)
        .with("overlay/pod.yaml", MISMATCH.replace("name: a}", "name: a, namespace: c}"))
        .with("overlay/patch.yaml", PATCH.replace("name: a}", "name: a, namespace: c}"))
}

/// The findings of the rule: file, line counted from one, and first line of the message.
fn found(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    for (path, published) in client.published() {
        for one in published.diagnostics.iter().filter(|one| one["code"] == RULE) {
            let line = one["range"]["start"]["line"].as_u64().unwrap() + 1;
            all.push(format!("{path}:{line}"));
        }
    }
    all.sort();
    all
}

/// The findings of the rule on the command line.
fn of_check(folder: &Folder, programs: &std::path::Path) -> Vec<String> {
    let run = run_with_path(programs, &folder.0, &["check", "-f", "json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let all = report["diagnostics"].as_array().unwrap().iter().filter(|one| one["rule"] == RULE);
    let place = |one: &Value| {
        format!("{}:{}", one["file"].as_str().unwrap(), one["range"]["start"]["line"].as_u64().unwrap())
    };
    let mut all: Vec<String> = all.map(place).collect();
    all.sort();
    all
}

fn wait_for_rule(client: &mut Client, path: &str, is_found: bool) {
    client.wait_until(path, |client| client.rules(path).contains(&RULE.to_owned()) == is_found);
}

#[test]
fn charts_and_kustomizations_are_checked_as_they_are_rendered() {
    let Some(programs) = programs() else { return };
    let folder = charts();
    let expected = of_check(&folder, &programs);
    let mut client = Client::start(&folder.0, Setup::push().programs(&programs));
    client.wait_until("rendered", |client| found(client) == expected);
    assert_eq!(expected.len(), 3, "{expected:?}");
    assert!(expected.iter().any(|place| place.starts_with("overlay/patch.yaml:")), "{expected:?}");
    let shown = client.diagnostics(TEMPLATE);
    let message = shown[0]["message"].as_str().unwrap();
    assert!(message.contains("\nprinted by: helm template chart"), "{message}");

    // A value that is saved.
    client.open("chart/values.yaml");
    client.replace("chart/values.yaml", "gpus: 2", "gpus: 1");
    client.settle();
    let others: Vec<String> =
        expected.iter().filter(|place| !place.starts_with("chart/values")).cloned().collect();
    assert_eq!(found(&client), others, "programs read what is saved, and the place itself was edited");
    client.save("chart/values.yaml");
    client.wait_until("rendered again", |client| found(client) == of_check(&folder, &programs));
    assert_eq!(found(&client).len(), 2, "{:?}", found(&client));

    // A chart that does not render.
    client.on_disk("chart/templates/b.yaml", "{{ unheard }}");
    client.wait_until("failed", |client| {
        client.rules("chart/Chart.yaml").contains(&"render-failed".to_owned())
    });
    client.on_disk("chart/templates/b.yaml", MISMATCH.replace("name: a}", "name: b}"));
    client.wait_until("whole", |client| client.rules("chart/Chart.yaml").is_empty());

    // Without rendering, the files of the kustomization are checked as they are written.
    client.on_disk("gpulint.yaml", CONFIGURATION.replace("true", "false"));
    client.wait_until("as written", |client| found(client) == of_check(&folder, &programs));
    assert!(found(&client).iter().all(|place| place.starts_with("overlay/")), "{:?}", found(&client));
    client.end();
}

const SCALER: &str = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: a}
spec:
  scaleTargetRef: {name: a}
  triggers:
    - type: cpu
      metadata: {type: Utilization, value: '80'}
";

#[test]
fn findings_move_with_edits_and_have_their_fixes() {
    let Some(programs) = programs() else { return };
    let path = "chart/templates/scaler.yaml";
    let folder = charts().with(path, SCALER);
    let mut client = Client::start(&folder.0, Setup::push().programs(&programs));
    let place = |client: &Client| {
        let all = client.diagnostics(path);
        let found = all.iter().find(|one| one["code"] == "keda-removed-field");
        found.map(|one| one["range"]["start"]["line"].as_u64().unwrap())
    };
    client.wait_until("rendered", |client| place(client) == Some(7));
    client.open(path);
    let fixes = |client: &mut Client| -> Vec<Value> {
        let all = client.actions(path, "type: Utilization", Some("quickfix"));
        let is_fix = |one: &Value| {
            one["edit"] != Value::Null && !one["title"].as_str().unwrap().starts_with("suppress")
        };
        all.into_iter().filter(is_fix).collect()
    };
    assert_eq!(fixes(&mut client).len(), 1);

    client.replace(path, "spec:\n", "# A comment.\nspec:\n");
    client.settle();
    assert_eq!(place(&client), Some(8));
    assert!(fixes(&mut client).is_empty(), "what was rendered is not this text");

    client.save(path);
    let patience = Instant::now() + PATIENCE;
    while fixes(&mut client).is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    let fix = fixes(&mut client).remove(0);
    client.perform(&fix);
    client.save(path);
    client.wait_until("fixed", |client| place(client).is_none());
    let text = client.text(path);
    assert!(text.contains("# A comment.") && text.contains("metricType: Utilization"), "{text}");
    client.end();
}

/// Two folders have one current folder, so that each is rendered in turn.
#[test]
fn each_folder_is_rendered() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new();
    for name in ["one", "two"] {
        let at = folder.0.join(name);
        std::mem::forget(
            Folder(at)
                .with("gpulint.yaml", CONFIGURATION)
                .with("chart/Chart.yaml", CHART)
                .with("chart/templates/a.yaml", MISMATCH),
        );
    }
    let mut client = Client::start(&folder.0, Setup::push().programs(&programs).folders(&["one", "two"]));
    wait_for_rule(&mut client, "one/chart/templates/a.yaml", true);
    wait_for_rule(&mut client, "two/chart/templates/a.yaml", true);
    for name in ["one", "two", "one"] {
        let path = format!("{name}/chart/templates/a.yaml");
        client.open(&path);
        client.replace(&path, "nvidia.com/gpu: 1", "nvidia.com/gpu: 2");
        client.save(&path);
        wait_for_rule(&mut client, &path, false);
        client.replace(&path, "limits: {nvidia.com/gpu: 2", "limits: {nvidia.com/gpu: 1");
        client.save(&path);
        wait_for_rule(&mut client, &path, true);
        client.close(&path);
    }
    client.end();
}
