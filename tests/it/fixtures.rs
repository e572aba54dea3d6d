//! The whole catalogue over `fixtures/practices`, `fixtures/sets` and the repaired twins, and the
//! same objects through the other door: an admission review gives what a file gives.
//!
//! `UPDATE=1 cargo test` rewrites the expected `.out` files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gpulint_rules::lint::settings::WebhookSettings;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Engine, Index, Object, Settings, Severity};

use gpulint_testing::{children, yaml_below};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Concise output of the program on paths relative to the repository.
fn check(paths: &[&str], extra: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_gpulint"))
        .current_dir(root())
        .env("NO_COLOR", "1")
        .args(["check", "--format", "concise", "--quiet", "--allow-empty"])
        .args(extra)
        .args(paths)
        .output()
        .unwrap();
    assert!(out.status.code().is_some_and(|c| c < 2), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap();
    path.to_string_lossy().replace('\\', "/")
}

/// Compares with a file, or writes it.
fn expect(file: &Path, text: &str, wrong: &mut Vec<String>) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(file, text).unwrap();
    } else if fs::read_to_string(file).unwrap_or_default() != text {
        wrong.push(format!("{} should hold:\n{text}", relative(file)));
    }
}

#[test]
fn the_documents_examples_give_what_was_checked_by_hand() {
    let mut wrong = Vec::new();
    for folder in children(&root().join("fixtures/practices")) {
        if !folder.is_dir() {
            continue;
        }
        let mut text = String::from("# as a set\n");
        text.push_str(&check(&[&relative(&folder)], &[]));
        text.push_str("# each file alone\n");
        for file in yaml_below(&folder) {
            text.push_str(&check(&[&relative(&file)], &[]));
        }
        expect(&folder.with_extension("out"), &text, &mut wrong);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_must_stay_quiet_on_the_documents_examples_does() {
    let folder = root().join("fixtures/practices");
    let list = fs::read_to_string(folder.join("quiet.txt")).unwrap();
    let mut wrong = Vec::new();
    let mut asked = 0;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (file, rules) = line.split_once(": ").unwrap();
        let name = format!("fixtures/practices/{file}");
        assert!(root().join(&name).is_file(), "{name}");
        let (set, _) = file.split_once('/').unwrap();
        let said = fs::read_to_string(folder.join(format!("{set}.out"))).unwrap();
        for rule in rules.split(' ') {
            asked += 1;
            let mark = format!("[{rule}]");
            let found = |l: &&str| l.starts_with(&name) && l.contains(&mark);
            wrong.extend(said.lines().filter(found).map(str::to_owned));
        }
    }
    assert!(asked > 60, "{asked}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_repaired_twins_are_clean() {
    let folder = root().join("fixtures/practices-repaired");
    let mut text = check(&[&relative(&folder)], &["--complete"]);
    for set in children(&folder) {
        text.push_str(&check(&[&relative(&set)], &[]));
    }
    for file in yaml_below(&folder) {
        text.push_str(&check(&[&relative(&file)], &[]));
    }
    let bad: Vec<&str> = text.lines().filter(|l| !l.contains(": info[")).collect();
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

#[test]
fn sets_give_what_stands_beside_them() {
    let mut wrong = Vec::new();
    for case in children(&root().join("fixtures/sets")) {
        let id = case.file_name().unwrap().to_string_lossy().into_owned();
        for set in children(&case) {
            if !set.is_dir() {
                continue;
            }
            let text = check(&[&relative(&set)], &[]);
            let name = set.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("quiet") && text.lines().any(|l| !l.contains(": info[")) {
                wrong.push(format!("{id}/{name} is not quiet:\n{text}"));
            }
            if name.starts_with("bad") && text.is_empty() {
                wrong.push(format!("{id}/{name} says nothing"));
            }
            expect(&set.with_extension("out"), &text, &mut wrong);
        }
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

/// What a file says of an object, and what a review of the same object says.
#[test]
fn a_review_gives_what_a_file_gives() {
    let settings = || Settings {
        complete: true,
        webhook: WebhookSettings {
            deny: Some(Severity::Error),
            warn: Some(Severity::Info),
            exempt_namespaces: Vec::new(),
            ..WebhookSettings::default()
        },
        ..Settings::default()
    };
    let engine = Engine::new(settings());
    let mut wrong = Vec::new();
    let mut compared = 0;
    let mut said = 0;
    for folder in ["practices", "practices-repaired", "sets", "rules"] {
        for path in yaml_below(&root().join("fixtures").join(folder)) {
            let text = fs::read(&path).unwrap();
            let source = Arc::new(Source::new(&relative(&path), text));
            let objects: Vec<Object> = read(&source)
                .iter()
                .flat_map(|d| Object::from_document(&source, d, false))
                .filter(|o| !o.is_partial() && !o.id().name.is_empty())
                .collect();
            let mut index = Index::new(true);
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
                // Two versions of one object: a cluster holds only one of them.
                continue;
            }
            for object in &objects {
                index.apply(object.clone());
            }
            for object in &objects {
                let from_file = count(
                    engine
                        .review_object(object, &index)
                        .findings
                        .iter()
                        // A review has no comments.
                        .filter(|f| !f.message.contains("but a comment here speaks of"))
                        .map(|f| (f.severity == Severity::Error, line(f.rule.id, &f.message))),
                );
                let review = serde_json::json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "request": {"uid": "u", "operation": "CREATE", "object": object.root().to_json()}
                });
                let answer = gpulint_webhook::review(&engine, &index, review.to_string().as_bytes()).unwrap();
                let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
                let response = &answer["response"];
                let strings = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
                let causes = response["status"]["details"]["causes"].as_array();
                let denied = causes.into_iter().flatten().map(|c| {
                    let message = strings(&c["message"]);
                    (true, message)
                });
                let warned = response["warnings"].as_array().into_iter().flatten();
                // That no rule knows a kind is said, and is no finding.
                let warned = warned
                    .map(|w| (false, strings(w)))
                    .filter(|(_, w)| !w.starts_with("gpulint: no rule knows"));
                let from_review = count(denied.chain(warned));
                // One by one: findings of one message may differ in the help that a review adds.
                let each = |counted: &BTreeMap<(bool, String), usize>| {
                    let lines = counted.iter().flat_map(|(l, n)| vec![l.clone(); *n]);
                    lines.collect::<Vec<_>>()
                };
                let (ours, theirs) = (each(&from_file), each(&from_review));
                let same = ours.len() == theirs.len()
                    && ours
                        .iter()
                        .zip(&theirs)
                        .all(|(a, b)| a.0 == b.0 && b.1.starts_with(a.1.trim_end_matches('…')));
                if !same {
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
