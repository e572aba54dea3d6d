//! KEDA's own constructors compared with gpulint's findings on triggers: `fixtures/keda/triggers.jsonl`, and
//! mutants of its valid lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use gpulint_rules::{Cluster, Engine, Object, Settings, Severity};
use serde_json::{Value, json};

use crate::cluster::platform;
use crate::cluster::server::assets;

/// Errors after the metadata was read: those of clients that are made from it, and of servers that are not
/// available here.
const LATER: [&str; 16] = [
    "credentials",
    "error acquiring connection",
    "error creating",
    "error connecting to etcd server",
    "error dynamodb stream arn",
    "error establishing",
    "error getting auth config",
    "error getting elasticsearch client",
    "failed to create",
    "google:",
    "invalid character",
    "invalid tenantID",
    "parse \"",
    "storage.NewClient",
    "unable to get eventhub client: failed",
    "unexpected end of JSON input",
];

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/keda/triggers.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    cases.filter(|case| case["keda"].is_null()).collect()
}

/// Mutants: each key missing, blank, or with a value of another type; each parameter and variable missing;
/// other identities.
fn mutants(case: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    let mut with = |change: &dyn Fn(&mut Value)| {
        let mut mutant = case.clone();
        change(&mut mutant);
        out.push(mutant);
    };
    let keys = |part: &str| -> Vec<String> {
        case[part].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    for part in ["metadata", "auth", "env"] {
        for key in keys(part) {
            with(&|mutant| _ = mutant[part].as_object_mut().unwrap().remove(&key));
        }
    }
    for key in keys("metadata") {
        for text in ["", " ", "x", "0", "-1", "70%", "1.5", "true", "http://host/a", "a b"] {
            with(&|mutant| mutant["metadata"][&key] = json!(text));
        }
    }
    for identity in ["aws", "azure-workload", "gcp"] {
        with(&|mutant| mutant["identity"] = json!(identity));
    }
    out
}

/// The result of KEDA for a trigger.
enum Verdict {
    /// KEDA accepts the metadata, and has connected or tried to.
    Builds,
    /// KEDA rejects the metadata.
    Rejects(String),
    /// KEDA accepts the metadata, but cannot make a client from it.
    Fails,
}

fn ask(program: &Path, cases: &[Value]) -> Vec<Verdict> {
    let mut child = Command::new(program)
        .env_clear()
        // Keep constructors from looking for a cloud around this machine.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is piped");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let lines: Vec<String> = cases.iter().map(ToString::to_string).collect();
    let writer = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("the program reads");
        }
    });
    let answers = output.lines().map(|line| {
        let answer: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        match answer["error"].as_str().filter(|_| answer["connects"] != true) {
            None => Verdict::Builds,
            Some(error) if LATER.iter().any(|start| error.starts_with(start)) => Verdict::Fails,
            Some(error) => Verdict::Rejects(error.to_owned()),
        }
    });
    let answers = answers.collect();
    writer.join().expect("all was written");
    child.wait().expect("it ends");
    answers
}

/// The errors of gpulint on a trigger, with its TriggerAuthentication and its target.
fn findings(engine: &Engine, case: &Value) -> Vec<String> {
    let object = |value: Value| Object::from_json(&value).expect("an object");
    let pairs = |part: &str| -> Vec<(String, Value)> {
        case[part]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let parameters: Vec<Value> =
        pairs("auth").iter().map(|(key, _)| json!({"parameter": key, "name": "s", "key": "k"})).collect();
    let env: Vec<Value> =
        pairs("env").into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let identity = case["identity"].as_str().unwrap_or("none");
    let mut cluster = Cluster::new(false);
    cluster.apply(object(json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication", "metadata": {"name": "a"},
        "spec": {"secretTargetRef": parameters, "podIdentity": {"provider": identity}},
    })));
    cluster.apply(object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a:1", "env": env}]}}},
    })));
    let mut trigger = json!({
        "type": case["type"], "metadata": case["metadata"], "authenticationRef": {"name": "a"},
    });
    if let Some(kind) = case["metricType"].as_str() {
        trigger["metricType"] = json!(kind);
    }
    let mut spec = json!({"scaleTargetRef": {"name": "a"}, "minReplicaCount": 1, "triggers": [trigger]});
    if case["modifiers"] == true {
        spec["triggers"][0]["name"] = json!("x");
        spec["advanced"] = json!({"scalingModifiers": {"formula": "x", "target": "5"}});
    }
    let scaled = object(json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a"}, "spec": spec,
    }));
    let found = engine.review_object(&scaled, &cluster).findings;
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| format!("{}: {}", finding.rule.id, finding.message)).collect()
}

fn engine() -> Engine {
    let rules =
        ["crashes-keda-operator", "keda-metric-type-invalid", "keda-removed-field", "keda-trigger-invalid"];
    Engine::new(Settings {
        platform: platform(),
        select: rules.iter().map(|id| (*id).to_owned()).collect(),
        ..Settings::default()
    })
}

/// Whether a finding is about a number that an HPA or a poll rejects, but no constructor; the message
/// mentions it.
fn fails_later(finding: &str) -> bool {
    ["every poll fails", "the API server rejects the HPA"].iter().any(|words| finding.contains(words))
}

#[test]
fn keda_builds_what_gpulint_accepts() {
    let Some(folder) = assets() else { return };
    let program = folder.join("keda-scalers");
    if !program.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: {} is not there", program.display());
        return;
    }
    let (engine, written) = (engine(), cases());
    let mut wrong = Vec::new();
    for (case, verdict) in written.iter().zip(ask(&program, &written)) {
        let (says, why) = match verdict {
            Verdict::Builds => ("accepted", String::new()),
            Verdict::Rejects(error) => ("rejected", error),
            Verdict::Fails => continue,
        };
        if case["verdict"] != says {
            wrong.push(format!("{case}: KEDA {says}: {why}"));
        }
    }
    let good: Vec<&Value> = written.iter().filter(|case| case["verdict"] == "accepted").collect();
    let mutants: Vec<Value> = good.into_iter().flat_map(mutants).collect();
    let verdicts = ask(&program, &mutants);
    assert_eq!(verdicts.len(), mutants.len());
    let (mut rejected, mut missed) = (0, Vec::new());
    for (case, verdict) in mutants.iter().zip(verdicts) {
        let found = findings(&engine, case);
        match verdict {
            Verdict::Rejects(error) => {
                rejected += 1;
                if found.is_empty() {
                    missed.push(format!("{case}: KEDA: {error}"));
                }
            }
            Verdict::Builds if !found.iter().all(|finding| fails_later(finding)) => {
                wrong.push(format!("{case}: KEDA accepts, gpulint: {found:?}"));
            }
            Verdict::Builds | Verdict::Fails => {}
        }
    }
    let report =
        format!("{rejected} rejected of {}, {} missed:\n{}", mutants.len(), missed.len(), missed.join("\n"));
    let _ = std::fs::create_dir_all("target/cluster");
    let _ =
        std::fs::write("target/cluster/scalers.txt", format!("{report}\n\nwrong:\n{}\n", wrong.join("\n")));
    assert!(missed.len() * 100 <= rejected, "{report}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
