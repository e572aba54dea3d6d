//! Every rule's manual is its first test: its examples are linted and its data is checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpulint_rules::facts::date::Date;
use gpulint_rules::file::File;
use gpulint_rules::karpenter::budget::{Calendar, DisruptionReason, Week};
use gpulint_rules::karpenter::drift::replaces_nodes;
use gpulint_rules::karpenter::nodepool::NodePool;
use gpulint_rules::lint::config::Config;
use gpulint_rules::lint::fix::text::{apply_edits, edits};
use gpulint_rules::lint::fix::value;
use gpulint_rules::lint::report::sort;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Check, Engine, Finding, FixError, Index, Object, RULES, Rule, Safety, Settings};

use gpulint_testing::{children, yaml_below};

/// Lints text as one file under one rule, or under all of them.
fn lint(text: &str, select: Option<&Rule>) -> Vec<Finding> {
    let source = Arc::new(Source::from_text("example.yaml", text));
    let documents = read(&source);
    let objects: Vec<Object> =
        documents.iter().flat_map(|d| Object::from_document(&source, d, false)).collect();
    let mut index = Index::new(false);
    for object in &objects {
        index.apply(object.clone());
    }
    // What the configuration says of the platform, a fixture may say in its first line.
    let platform = text.lines().next().and_then(|l| l.strip_prefix("# platform:"));
    let platform = platform.map(|rest| {
        let config = Config::parse("gpulint.yaml", &format!("platform:{rest}\n"));
        config.expect("the platform is one").resolve().platform
    });
    let engine = Engine::new(Settings {
        platform: platform.unwrap_or_default(),
        // Hygiene of suppressions needs the rules that they name to run.
        select: select
            .filter(|r| r.group.name() != "suppression")
            .map(|r| vec![r.id.to_owned()])
            .unwrap_or_default(),
        today: Date::parse("2026-01-01"),
        ..Settings::default()
    });
    let file = File { source, documents, objects };
    let mut findings = engine.check_file(&file, &index).findings;
    sort(&mut findings);
    findings
}

struct Example {
    kind: String,
    text: String,
    line: usize,
}

fn examples(rule: &Rule) -> Vec<Example> {
    let mut out: Vec<Example> = Vec::new();
    let mut open = false;
    let mut diff = None;
    for (number, line) in rule.markdown().lines().enumerate() {
        let week = (line == "```week").then_some("week");
        if line == "```yaml,diff" {
            // One manifest before and after: what the rule finds, and what it should be.
            diff = Some(number + 1);
            open = true;
            out.push(Example { kind: "bad".to_owned(), text: String::new(), line: number + 1 });
            out.push(Example { kind: "fixed-or-good".to_owned(), text: String::new(), line: number + 1 });
        } else if let Some(kind) = line.strip_prefix("```yaml,").or(week) {
            open = true;
            out.push(Example { kind: kind.to_owned(), text: String::new(), line: number + 1 });
        } else if line.starts_with("```") {
            open = false;
            diff = None;
        } else if open && diff.is_some() {
            let at = out.len() - 2;
            let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            for (example, side) in out[at..].iter_mut().zip(["-", "+"]) {
                if mark == " " || mark == side {
                    example.text.push_str(text);
                    example.text.push('\n');
                }
            }
        } else if open && let Some(example) = out.last_mut() {
            example.text.push_str(line);
            example.text.push('\n');
        }
    }
    out
}

/// The week of drift that the budgets of an example's first NodePool make, as reports draw it.
fn week(text: &str) -> Option<String> {
    let source = Arc::new(Source::from_text("example.yaml", text));
    let documents = read(&source);
    let objects = documents.iter().flat_map(|d| Object::from_document(&source, d, false));
    for object in objects {
        if let Some(pool) = NodePool::new(&object) {
            let budgets = pool.budgets()?;
            let week = Week::of(&Calendar::new(&budgets), DisruptionReason::Drifted, None);
            return Some(week.lines().iter().map(|l| format!("{l}\n")).collect());
        }
    }
    None
}

fn line_of(finding: &Finding) -> usize {
    let (source, _, span) = finding.location.resolve_span().expect("examples come from text");
    source.lines().position(source.text(), span.start).line as usize
}

fn of<'a>(rule: &Rule, findings: &'a [Finding]) -> Vec<&'a Finding> {
    findings.iter().filter(|f| f.rule.id == rule.id).collect()
}

/// The objects of an example as values.
fn values(text: &str) -> Vec<serde_json::Value> {
    let source = Arc::new(Source::from_text("example.yaml", text));
    read(&source)
        .iter()
        .flat_map(|d| Object::from_document(&source, d, false))
        .map(|o| o.root().to_json())
        .collect()
}

#[test]
fn every_example_is_what_its_manual_says() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let examples = examples(rule);
        let mut offer: Option<(Vec<serde_json::Value>, String)> = None;
        let mut drawn: Option<String> = None;
        for example in &examples {
            let place = format!("{} line {}", rule.id, example.line);
            let findings = lint(&example.text, Some(rule));
            drawn = week(&example.text).or(drawn);
            let own = of(rule, &findings);
            match example.kind.as_str() {
                "bad" => {
                    let marked: Vec<usize> = example
                        .text
                        .lines()
                        .enumerate()
                        .filter(|(_, l)| l.trim_end().ends_with("# <-"))
                        .map(|(i, _)| i + 1)
                        .collect();
                    let found: Vec<usize> = own.iter().map(|f| line_of(f)).collect();
                    if marked.len() != 1 || found != marked {
                        wrong.push(format!(
                            "{place}: marked {marked:?}, found {found:?}: {:?}",
                            own.iter().map(|f| &f.message).collect::<Vec<_>>()
                        ));
                        continue;
                    }
                    if let Some(fix) = &own[0].fix {
                        if rule.fix.is_none() {
                            wrong.push(format!("{place}: a fix, and none is declared"));
                        }
                        let object = own[0].location.object().expect("a fix is of an object");
                        let mut value = object.root().to_json();
                        let patch: json_patch::Patch =
                            serde_json::from_value(serde_json::to_value(&fix.operations).unwrap()).unwrap();
                        if let Err(error) = json_patch::patch(&mut value, &patch) {
                            wrong.push(format!("{place}: the fix does not apply: {error}"));
                        }
                        let mut all = values(&example.text);
                        let before = object.root().to_json();
                        for v in &mut all {
                            if *v == before {
                                *v = value.clone();
                            }
                        }
                        offer = Some((all, place.clone()));
                    }
                }
                "good" | "fixed" | "fixed-or-good" => {
                    for finding in &own {
                        wrong.push(format!(
                            "{place}: not clean: line {}: {}",
                            line_of(finding),
                            finding.message
                        ));
                    }
                    let others: Vec<String> = lint(&example.text, None)
                        .iter()
                        .filter(|f| f.severity >= gpulint_rules::Severity::Warning)
                        .map(|f| format!("{}: {}", f.rule.id, f.message))
                        .collect();
                    if !others.is_empty() {
                        wrong.push(format!("{place}: other rules find {others:?}"));
                    }
                    if example.kind == "fixed" || example.kind == "fixed-or-good" && offer.is_some() {
                        match offer.take() {
                            Some((value, _)) if value == values(&example.text) => {}
                            Some((value, bad)) => wrong.push(format!(
                                "{place}: the fix of {bad} gives {}",
                                serde_json::to_string(&value).unwrap()
                            )),
                            None => wrong.push(format!("{place}: nothing offered a fix")),
                        }
                    }
                }
                "week" => {
                    let drawn = drawn.take().unwrap_or_default();
                    if example.text != drawn {
                        wrong.push(format!("{place}: the week is\n{drawn}"));
                    }
                }
                other => wrong.push(format!("{place}: unknown example `{other}`")),
            }
        }
        let kinds: BTreeSet<&str> = examples.iter().map(|e| e.kind.as_str()).collect();
        if !kinds.contains("bad")
            || !["good", "fixed", "fixed-or-good"].iter().any(|kind| kinds.contains(kind))
        {
            wrong.push(format!("{}: needs a bad and a good example", rule.id));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_manual_has_its_parts() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let manual = rule.markdown();
        let mut code = false;
        let mut headings: Vec<&str> = manual
            .lines()
            .filter(|l| {
                code ^= l.starts_with("```");
                !code && l.starts_with("# ")
            })
            .map(|l| l.trim_start_matches("# "))
            .collect();
        headings.dedup();
        let whole =
            [&["Why", "Fix", "Example", "References"][..], &["Why", "Fix", "Bad", "Good", "References"]];
        if !whole.contains(&headings.as_slice()) {
            wrong.push(format!("{}: headings {headings:?}", rule.id));
        }
        let summary = manual.lines().next().unwrap_or_default();
        if summary.len() > 81 || !summary.ends_with('.') {
            wrong.push(format!("{}: summary `{summary}`", rule.id));
        }
        for line in manual.lines() {
            if line.chars().count() > 110 && !line.contains("http") {
                wrong.push(format!("{}: a line of {} characters", rule.id, line.len()));
            }
        }
        if !manual.contains("https://") {
            wrong.push(format!("{}: no reference", rule.id));
        }
        for param in rule.params {
            if !manual.contains(param.name) {
                wrong.push(format!("{}: parameter {} is not explained", rule.id, param.name));
            }
        }
        let every_kind = ["api-version-unknown", "duplicate-object"].contains(&rule.id);
        if matches!(rule.check, Check::Builtin) != rule.kinds().is_empty() && !every_kind {
            wrong.push(format!("{}: kinds and check do not agree", rule.id));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_table_is_sorted_and_ids_are_unique() {
    let ids: Vec<(_, &str)> = RULES.iter().map(|r| (r.group, r.id)).collect();
    let mut sorted = ids.clone();
    sorted.sort();
    sorted.dedup_by_key(|r| r.1);
    assert_eq!(ids, sorted);
    for rule in RULES {
        assert!(
            rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{}",
            rule.id
        );
        let file = format!("{}.rs", rule.id.replace('-', "_"));
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = std::fs::read_dir(root.join("src/rules"))
            .unwrap()
            .filter_map(Result::ok)
            .map(|e| e.path().join(&file))
            .find(|p| p.is_file())
            .unwrap_or_else(|| panic!("no file {file}"));
        let text = std::fs::read_to_string(found).unwrap();
        assert!(text.starts_with(rule.docs), "{}: docs of another file", rule.id);
        assert!(text.contains(&format!("id: \"{}\"", rule.id)), "{}", rule.id);
    }
}

/// Each `fixtures/rules/<id>/*.yaml` under that rule alone, with its expected `.out` beside it.
#[test]
fn fixtures_give_what_stands_beside_them() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rules");
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for folder in children(&root) {
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Some(rule) = gpulint_rules::find_rule(&id) else {
            wrong.push(format!("fixtures/rules/{id}: no such rule"));
            continue;
        };
        for path in yaml_below(&folder) {
            seen += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            let findings = lint(&text, Some(rule));
            let mut out = String::new();
            for finding in of(rule, &findings) {
                let (source, _, span) = finding.location.resolve_span().unwrap();
                let at = source.lines().position(source.text(), span.start);
                out.push_str(&format!(
                    "{}:{}: {}: {}\n",
                    at.line,
                    at.column,
                    finding.severity.name(),
                    finding.message
                ));
                if let Some(help) = &finding.help {
                    out.push_str(&format!("  help: {help}\n"));
                }
                if finding.message.chars().count() > 120
                    || finding.help.as_ref().is_some_and(|h| h.chars().count() > 120)
                {
                    wrong.push(format!("{}: over 120 characters", path.display()));
                }
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("quiet") != out.is_empty() {
                wrong.push(format!("{id}/{name} gives:\n{out}"));
            }
            let expected = path.with_extension("out");
            if update {
                if out.is_empty() {
                    let _ = std::fs::remove_file(&expected);
                } else {
                    std::fs::write(&expected, &out).unwrap();
                }
            } else if std::fs::read_to_string(&expected).unwrap_or_default() != out {
                wrong.push(format!("{id}/{name} gives:\n{out}"));
            }
        }
    }
    assert!(seen > 0);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A finding as far as it must not come again.
fn name_of(finding: &Finding) -> (&'static str, String, String) {
    let pointer = finding.location.pointer().map(ToString::to_string);
    (finding.rule.id, pointer.unwrap_or_default(), finding.message.clone())
}

/// What is wrong with the fixes that a text's findings offer, each made on its own.
fn wrong_fixes(place: &str, text: &str, rule: &Rule, tried: &mut usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let own = lint(text, Some(rule));
    if own.iter().all(|finding| finding.fix.is_none()) {
        return wrong;
    }
    let all: BTreeSet<_> = lint(text, None).iter().map(name_of).collect();
    for finding in of(rule, &own) {
        let Some(fix) = &finding.fix else { continue };
        let mut say = |what: String| {
            wrong.push(format!("{place}: line {}: {what}", line_of(finding)));
        };
        *tried += 1;
        if rule.fix.is_none() {
            say("a fix, and none is declared".to_owned());
        }
        let object = finding.location.object().expect("a fix is of an object");
        let before = object.root().to_json();
        let patched = match value::apply(&before, fix) {
            Ok(patched) => patched,
            Err(refused) => {
                say(format!("{refused}"));
                continue;
            }
        };
        // What is refused has no nodes.
        if finding.rejected_by.is_none() && replaces_nodes(&before, &patched) != fix.replaces_nodes {
            let drifts = if fix.replaces_nodes { "" } else { "not " };
            say(format!("the fix is {drifts}marked as one that replaces nodes"));
        }
        let edits = match edits(object, fix) {
            Ok(edits) => edits,
            Err(FixError::Alias(_) | FixError::Merge(_) | FixError::Anchor(_)) => continue,
            Err(refused) => {
                say(format!("{refused}"));
                continue;
            }
        };
        let new = apply_edits(text, &edits).expect("edits are in order");
        let mut meant = values(text);
        let at = meant.iter().position(|v| *v == before).expect("it is one of them");
        meant[at] = patched;
        for created in &fix.creates {
            assert!(values(&new).contains(created), "{place}: {created} is not there");
            meant.push(created.clone());
        }
        let is = values(&new);
        if is.len() != meant.len() || !meant.iter().all(|m| is.iter().any(|i| value::semantic_eq(i, m))) {
            say(format!("the edited text is not the patched value:\n{new}"));
        }
        let name = name_of(finding);
        let count = |findings: &[Finding]| findings.iter().filter(|f| name_of(f) == name).count();
        let again = lint(&new, Some(rule));
        if count(&again) >= count(&own) {
            say(format!("the finding is still there after its fix:\n{new}"));
        }
        if fix.safety == Safety::Safe && own.len() == 1 {
            let id = object.id();
            for other in lint(&new, None) {
                let same_object = other.location.object().is_some_and(|o| o.id() == id);
                let advice = other.severity == gpulint_rules::Severity::Info;
                if same_object && !advice && !all.contains(&name_of(&other)) {
                    say(format!("its fix brings {}: {}", other.rule.id, other.message));
                }
            }
        }
    }
    wrong
}

/// The law of fixes, on every example and every fixture: text and value agree, the finding goes,
/// and a safe fix brings no other.
#[test]
fn every_fix_does_in_text_what_it_does_to_the_value() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rules");
    let mut wrong = Vec::new();
    let mut tried = 0;
    for rule in RULES {
        for example in examples(rule) {
            let place = format!("{} line {}", rule.id, example.line);
            wrong.extend(wrong_fixes(&place, &example.text, rule, &mut tried));
        }
        let folder = root.join(rule.id);
        let files = folder.is_dir().then(|| yaml_below(&folder));
        for path in files.unwrap_or_default() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let place = format!("{}/{name}", rule.id);
            let text = std::fs::read_to_string(&path).unwrap();
            wrong.extend(wrong_fixes(&place, &text, rule, &mut tried));
            // And with the line ends of another system.
            let crlf = text.replace('\n', "\r\n");
            wrong.extend(wrong_fixes(&format!("{place} CRLF"), &crlf, rule, &mut tried));
        }
    }
    assert!(tried > 50, "{tried} fixes");
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
