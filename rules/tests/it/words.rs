//! The words of messages and helps: plain English of the Kubernetes documentation.

use std::fs;
use std::path::{Path, PathBuf};

use gpulint_rules::RULES;

/// Phrases that read as a translation, with what to write instead.
const PHRASES: [(&str, &str); 11] = [
    ("refuse", "rejects"),
    ("for ever", "forever, or name the condition"),
    ("without a word", "silently ignores"),
    ("any more", "no longer"),
    (" wants ", "requires"),
    ("takes no ", "is not allowed"),
    (" takes one ", "requires one"),
    ("judge", "check"),
    ("it stands at", "it belongs at"),
    (" drops ", "ignores"),
    ("and its kin", "name them"),
];

/// "`x` is no Y": "`x` is not a Y". "There is no Y" and "is no longer" are plain.
fn has_is_no(text: &str) -> bool {
    text.match_indices("is no ").any(|(at, phrase)| {
        let rest = &text[at + phrase.len()..];
        !text[..at].to_lowercase().ends_with("there ") && !rest.starts_with("longer ")
    })
}

fn faults(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (phrase, instead) in PHRASES {
        if text.contains(phrase) {
            out.push(format!("`{}`: {instead}", phrase.trim()));
        }
    }
    if has_is_no(text) {
        out.push("`is no`: is not a".to_owned());
    }
    out
}

fn outputs_below(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            outputs_below(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "out") {
            out.push(path);
        }
    }
}

#[test]
fn messages_and_helps_are_plain_english() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in ["rules", "sets"] {
        outputs_below(&fixtures.join(folder), &mut paths);
    }
    assert!(paths.len() > 300, "{} expected outputs of fixtures", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let name = path.strip_prefix(&fixtures).unwrap().display();
            wrong.extend(faults(line).into_iter().map(|fault| format!("{name}: {fault}: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn summaries_are_plain_english() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let manual = rule.markdown();
        let summary = manual.lines().next().unwrap_or_default();
        wrong.extend(faults(summary).into_iter().map(|fault| format!("{}: {fault}: {summary}", rule.id)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
