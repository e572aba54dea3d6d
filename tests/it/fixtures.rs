//! Runs the built program on a few fixtures, and sends all of them as admission reviews: a review has the
//! findings of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use gpulint_rules::lint::settings::{Globs, WebhookSettings};
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Cluster, Engine, Finding, Object, Settings, Severity};

use gpulint_testing::{children, expect_file, is_full, lot, relative, sampled, yaml_below};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Concise output of the program on paths relative to the repository.
fn check(paths: &[&str], extra: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_gpulint"))
        .current_dir(root())
        .env("NO_COLOR", "1")
        .args(["check", "--format", "concise", "--quiet", "--allow-empty", "--no-fold"])
        .args(extra)
        .args(paths)
        .output()
        .unwrap();
    assert!(out.status.code().is_some_and(|c| c < 2), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// `rules/tests/fixtures` tests the findings of the engine in fixtures; the program prints the same ones.
#[test]
fn the_program_prints_what_the_engine_finds() {
    let mut wrong = Vec::new();
    for set in ["fixtures/practices/000", "fixtures/practices/004"] {
        let mut text = format!("# as a set\n{}# each file alone\n", check(&[set], &[]));
        for file in yaml_below(&root().join(set)) {
            text.push_str(&check(&[&relative(&file)], &[]));
        }
        wrong.extend(expect_file(&root().join(format!("{set}.out")), &text).err());
    }
    for set in ["fixtures/sets/pdb-missing/bad", "fixtures/sets/spark-pod-template/quiet"] {
        wrong.extend(expect_file(&root().join(format!("{set}.out")), &check(&[set], &[])).err());
    }
    let repaired = check(&["fixtures/practices-repaired"], &["--complete"]);
    wrong.extend(repaired.lines().filter(|line| !line.contains(": info[")).map(str::to_owned));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The output of `why` and `pools` for the pools and workloads of the documents, and for the repaired ones.
#[test]
fn where_the_documents_pods_go() {
    let serving = &["deployment/textgen-spot-serving"][..];
    let job = "job/resnet-distributed-training";
    let sets = [
        ("practices/000", serving),
        ("practices/002", &["pod/vit-training", "pod/bert-training-long", job][..]),
        ("practices-repaired/000", serving),
        // The training runs are Jobs in this set.
        ("practices-repaired/002", &["job/vit-training", "job/bert-training-long", job][..]),
    ];
    let mut wrong = Vec::new();
    for (set, workloads) in sets {
        let path = format!("fixtures/{set}");
        let why = workloads
            .iter()
            .map(|workload| format!("$ gpulint why {workload}\n{}", run(&["why", workload, &path])));
        let pools = [&["pools"][..], &["pools", "--capacity"]].map(|command| {
            format!("$ gpulint {}\n{}", command.join(" "), run(&[command, &[&path]].concat()))
        });
        let text: Vec<String> = why.chain(pools).collect();
        wrong.extend(expect_file(&root().join(format!("{path}.pods.out")), &text.join("\n")).err());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What the program prints in a terminal of 80 columns.
fn run(args: &[&str]) -> String {
    let program = Command::new(env!("CARGO_BIN_EXE_gpulint"))
        .current_dir(root())
        .env("NO_COLOR", "1")
        .args(args)
        .output();
    let out = program.unwrap();
    assert!(out.status.code().is_some_and(|c| c < 2), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Only the program reads kustomizations, so sets with one are checked here.
#[test]
fn sets_with_a_kustomization_give_what_stands_beside_them() {
    let mut wrong = Vec::new();
    let sets = children(&root().join("fixtures/sets")).into_iter().flat_map(|case| children(&case));
    let kustomized = |set: &PathBuf| {
        set.is_dir() && yaml_below(set).iter().any(|file| file.ends_with("kustomization.yaml"))
    };
    let sets: Vec<PathBuf> = sets.filter(kustomized).collect();
    assert!(sets.len() >= 2, "{sets:?}");
    for set in sets {
        let text = check(&[&relative(&set)], &[]);
        let quiet = set.file_name().unwrap().to_string_lossy().starts_with("quiet");
        let faults = text.lines().filter(|line| !line.contains(": info[")).count();
        if quiet != (faults == 0) {
            wrong.push(format!("{} gives:\n{text}", relative(&set)));
        }
        wrong.extend(expect_file(&set.with_extension("out"), &text).err());
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn neither_order_of_files_nor_threads_change_anything() {
    let forward = check(&["fixtures/practices/000", "fixtures/practices/002"], &["--threads", "1"]);
    let backward = check(&["fixtures/practices/002", "fixtures/practices/000"], &["--threads", "4"]);
    let mut a: Vec<&str> = forward.lines().collect();
    let mut b: Vec<&str> = backward.lines().collect();
    a.sort_unstable();
    b.sort_unstable();
    assert_eq!(a, b);
}

/// The findings of a review are those of the file that contains the object.
#[test]
fn a_review_gives_what_a_file_gives() {
    let settings = || Settings {
        complete: true,
        webhook: WebhookSettings {
            deny: Some(Severity::Error),
            warn: Some(Severity::Info),
            exempt_namespaces: Globs::default(),
            ..WebhookSettings::default()
        },
        ..Settings::default()
    };
    let engine = Engine::new(settings());
    let mut wrong = Vec::new();
    let mut compared = 0;
    let mut said = 0;
    let is_asked = |path: &PathBuf| is_full() || lot(path, 2) == 0;
    for folder in ["practices", "practices-repaired", "sets", "rules"] {
        for path in sampled(yaml_below(&root().join("fixtures").join(folder))).into_iter().filter(is_asked) {
            // A review has neither comments nor the name of a file, which may say that an object is a patch.
            let text = without_comments(&fs::read_to_string(&path).unwrap());
            let source = Arc::new(Source::new("objects.yaml", text.into_bytes()));
            let objects: Vec<Object> = read(&source)
                .iter()
                .flat_map(|d| Object::from_document(&source, d, false))
                .filter(|o| !o.is_partial() && !o.id().name.is_empty())
                .collect();
            let mut cluster = Cluster::new(true);
            let mut seen = std::collections::BTreeSet::new();
            let unique = objects.iter().all(|o| {
                seen.insert((
                    o.id().group.clone(),
                    o.id().kind.clone(),
                    o.id().namespace_or_default().to_owned(),
                    o.id().name.clone(),
                ))
            });
            if !unique {
                // Two versions of one object: a cluster has only one of them.
                continue;
            }
            // What an alias repeats is reported once; a review has no aliases.
            if std::fs::read_to_string(&path).unwrap().lines().any(|line| line.contains(": *")) {
                continue;
            }
            // As an API server has them, without files.
            let mut stored = Cluster::new(true);
            for object in &objects {
                cluster.apply(object.clone());
                Object::from_json(&object.root().to_json())
                    .into_iter()
                    .for_each(|object| stored.apply(object));
            }
            // An object with a uid exists in a cluster and is not created again.
            for object in objects.iter().filter(|object| object.path(&["metadata", "uid"]).is_absent()) {
                let in_file = engine.review_object(object, &cluster).findings;
                let counted = |of_partners: &[Finding]| {
                    let findings = in_file.iter().chain(of_partners.iter().filter(|f| f.from_partner));
                    let findings = findings
                        // An API server sends no review of an object of a kind that it does not serve.
                        .filter(|f| !["api-version-unknown", "api-version-not-served"].contains(&f.rule.id))
                        // A cluster has only one of several objects with the same name or node port, and objects with versions.
                        .filter(|f| {
                            !["duplicate-object", "exported-object", "node-port-claimed-twice"]
                                .contains(&f.rule.id)
                        })
                        // An absent object may be applied next.
                        .filter(|f| !f.reports_absence);
                    count(findings.map(|f| (f.severity == Severity::Error, line(f.rule.id, &f.message))))
                };
                // Owners count only in requests of operators.
                let review = serde_json::json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "request": {"uid": "u", "operation": "CREATE", "object": object.root().to_json(),
                        "userInfo": {"username": "system:serviceaccount:keda:keda-operator"}}
                });
                let answer =
                    gpulint_webhook::review(&engine, &stored, review.to_string().as_bytes()).unwrap();
                let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
                let response = &answer["response"];
                let strings = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
                let causes = response["status"]["details"]["causes"].as_array();
                let causes = causes.into_iter().flatten().filter(|c| c["reason"] == "FieldValueInvalid");
                let denied = causes.map(|c| {
                    let message = strings(&c["message"]);
                    (true, message)
                });
                let warned = response["warnings"].as_array().into_iter().flatten();
                // A warning that no rule supports a kind is not a finding.
                let warned = warned
                    .map(|w| (false, strings(w)))
                    .filter(|(_, w)| !w.starts_with("gpulint: no rule knows"));
                let unserved = |line: &(bool, String)| {
                    let of = |rule: &str| line.1.starts_with(&format!("gpulint {rule}:"));
                    ["api-version-unknown", "api-version-not-served"].into_iter().any(of)
                };
                let from_review = count(denied.chain(warned).filter(|line| !unserved(line)));
                // One by one: findings with one message may differ in the help that a review adds.
                let each = |counted: &BTreeMap<(bool, String), usize>| {
                    let lines = counted.iter().flat_map(|(l, n)| vec![l.clone(); *n]);
                    lines.collect::<Vec<_>>()
                };
                let is_reviewed = |from_file: &BTreeMap<(bool, String), usize>| {
                    let (ours, theirs) = (each(from_file), each(&from_review));
                    let is_same =
                        |((is_error, ours), (is_denied, theirs)): (&(bool, String), &(bool, String))| {
                            is_error == is_denied && theirs.starts_with(ours.trim_end_matches('…'))
                        };
                    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(is_same)
                };
                let mut from_file = counted(&[]);
                if !is_reviewed(&from_file) {
                    // A review also has findings that the report has at the other object.
                    let review = |object: Object| engine.review_object(&object, &stored).findings;
                    let reviewed = Object::from_json(&object.root().to_json()).map(review);
                    from_file = counted(&reviewed.unwrap_or_default());
                }
                if !is_reviewed(&from_file) {
                    wrong.push(format!(
                        "{} {}: file {from_file:?}, review {from_review:?}",
                        relative(&path),
                        object.name()
                    ));
                }
                compared += 1;
                said += from_file.len();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared > 150 && said > 40, "{compared} objects, {said} findings");
}

/// A text without its comments.
fn without_comments(text: &str) -> String {
    let uncommented = |line: &str| {
        let (mut quote, mut before) = (None, ' ');
        let is_comment = |c: char| {
            match quote {
                Some(open) if open == c => quote = None,
                None if matches!(c, '"' | '\'') => quote = Some(c),
                _ => {}
            }
            c == '#' && quote.is_none() && std::mem::replace(&mut before, c).is_whitespace() || {
                before = c;
                false
            }
        };
        line.split(is_comment).next().unwrap_or_default().to_owned()
    };
    text.lines().map(uncommented).collect::<Vec<_>>().join("\n") + "\n"
}

fn line(rule: &str, message: &str) -> String {
    let text = format!("gpulint {rule}: {message}");
    if text.chars().count() > 120 { text.chars().take(119).collect() } else { text }
}

fn count(items: impl Iterator<Item = (bool, String)>) -> BTreeMap<(bool, String), usize> {
    let mut out = BTreeMap::new();
    for item in items {
        *out.entry(item).or_insert(0) += 1;
    }
    out
}
