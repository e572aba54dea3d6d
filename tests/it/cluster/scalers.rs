//! KEDA's own constructors compared with gpulint's findings on triggers: `fixtures/keda/triggers.jsonl`, and
//! mutants of its valid lines.
//!
//! What KEDA answers stands in `scalers.txt`, since its scalers, with the SDKs of three clouds, take five minutes to
//! compile. After a change of triggers, mutants or version, ask KEDA again:
//!
//! `UPDATE=1 KUBEBUILDER_ASSETS=$(GPULINT_SCALERS=yes tests/cluster/build) cargo test --test it scalers`

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpulint_rules::platform::Product;
use gpulint_rules::{Cluster, Engine, Object, Settings, Severity};
use gpulint_testing::expect_file;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::cluster::platform;

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
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    /// KEDA accepts the metadata, and has connected or tried to.
    Builds,
    /// KEDA rejects the metadata.
    Rejects,
    /// KEDA accepts the metadata, but cannot make a client from it.
    Fails,
}

impl Verdict {
    const ALL: [(Verdict, char); 3] =
        [(Verdict::Builds, 'b'), (Verdict::Rejects, 'r'), (Verdict::Fails, 'f')];

    fn letter(self) -> char {
        Verdict::ALL.iter().find(|(verdict, _)| *verdict == self).expect("all are listed").1
    }

    fn read(letter: char) -> Option<Verdict> {
        Verdict::ALL.iter().find(|(_, of)| *of == letter).map(|(verdict, _)| *verdict)
    }
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
            Some(_) => Verdict::Rejects,
        }
    });
    let answers = answers.collect();
    writer.join().expect("all was written");
    child.wait().expect("it ends");
    answers
}

/// A case, its mutants if it is valid, and the hash that stands for all of them in the record.
struct Group {
    asked: Vec<Value>,
    hash: String,
}

impl Group {
    fn of(case: &Value) -> Group {
        let mut asked = vec![case.clone()];
        if case["verdict"] == "accepted" {
            asked.extend(mutants(case));
        }
        let hash = digest(&SHA256, json!(asked).to_string().as_bytes());
        let mut hex = String::new();
        for byte in &hash.as_ref()[..6] {
            let _ = write!(hex, "{byte:02x}");
        }
        Group { asked, hash: hex }
    }
}

/// KEDA's answers about all groups: those of the record, which is compared with the program's where that was built.
fn answers(groups: &[Group]) -> Vec<Vec<Verdict>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cluster/scalers.txt");
    let head = format!(
        "# Generated (see scalers.rs) by the scalers of KEDA {}: a line for each trigger of triggers.jsonl, with the hash of it and \
         its mutants,\n# and a letter for each: KEDA builds it, rejects it, or fails later.\n",
        platform().version(Product::Keda)
    );
    let program =
        std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| PathBuf::from(folder).join("keda-scalers"));
    if let Some(program) = program.filter(|program| program.exists()) {
        let mut text = head.clone();
        for group in groups {
            let letters: String = ask(&program, &group.asked).into_iter().map(Verdict::letter).collect();
            let _ = writeln!(text, "{} {letters}", group.hash);
        }
        expect_file(&path, &text).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<(&str, &str)> = text
        .strip_prefix(&head)
        .expect("the record is of this version of KEDA")
        .lines()
        .map(|line| line.split_once(' ').expect("a hash and letters"))
        .collect();
    assert_eq!(lines.len(), groups.len(), "the record is older than the triggers");
    let of_group = |(group, (hash, letters)): (&Group, &(&str, &str))| -> Vec<Verdict> {
        assert_eq!(*hash, group.hash, "the record is older than {}", group.asked[0]);
        letters.chars().map(|letter| Verdict::read(letter).expect("a letter of the three")).collect()
    };
    groups.iter().zip(&lines).map(of_group).collect()
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
    let engine = engine();
    let groups: Vec<Group> = cases().iter().map(Group::of).collect();
    let (mut asked, mut rejected) = (0, 0);
    let (mut wrong, mut missed) = (Vec::new(), Vec::new());
    for (group, verdicts) in groups.iter().zip(answers(&groups)) {
        assert_eq!(verdicts.len(), group.asked.len());
        let written = &group.asked[0];
        let says = match verdicts[0] {
            Verdict::Builds => "accepted",
            Verdict::Rejects => "rejected",
            Verdict::Fails => written["verdict"].as_str().unwrap(),
        };
        if written["verdict"] != says {
            wrong.push(format!("{written}: KEDA {says}"));
        }
        asked += group.asked.len() - 1;
        for (case, verdict) in group.asked.iter().zip(verdicts).skip(1) {
            let found = findings(&engine, case);
            match verdict {
                Verdict::Rejects => {
                    rejected += 1;
                    if found.is_empty() {
                        missed.push(case.to_string());
                    }
                }
                Verdict::Builds if !found.iter().all(|finding| fails_later(finding)) => {
                    wrong.push(format!("{case}: KEDA accepts, gpulint: {found:?}"));
                }
                Verdict::Builds | Verdict::Fails => {}
            }
        }
    }
    let report = format!("{rejected} rejected of {asked}, {} missed:\n{}", missed.len(), missed.join("\n"));
    assert!(rejected > 5_000, "{report}");
    assert!(missed.len() * 100 <= rejected, "{report}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
