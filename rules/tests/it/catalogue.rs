//! The table of rules and the parts of each manual. The examples in the manuals are tests of `tests/fixtures`.

use std::path::Path;

use gpulint_rules::{Check, RULES};

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
        let every_kind =
            ["api-version-unknown", "api-version-not-served", "duplicate-object", "exported-object"]
                .contains(&rule.id);
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
