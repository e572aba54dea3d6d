//! The words of messages, helps and comments: plain English of the Kubernetes documentation.

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

fn files_below(folder: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, extension, out);
        } else if path.extension().is_some_and(|found| found == extension) {
            out.push(path);
        }
    }
}

#[test]
fn messages_and_helps_are_plain_english() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in ["rules", "sets"] {
        files_below(&fixtures.join(folder), "out", &mut paths);
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

/// The folders whose comments are checked, with all files below them, from the root of the repository.
const FOLDERS_WITH_PLAIN_COMMENTS: [&str; 4] = ["rules/reader/src", "rules/src", "src", "webhook/src"];

/// In this folder, doc comments are the help texts of the command line, which have a style of their own.
const HELP_TEXTS: &str = "src/args";

/// Phrases that a reader of a comment has to read twice, with a replacement. Each is matched as whole words.
const COMMENT_PHRASES: [(&str, &str); 9] = [
    ("so many", "\"Maximum number of ...\""),
    ("who asks", "\"the caller\", or name it"),
    ("who reads", "\"the caller\", or name it"),
    ("who computes", "\"the caller\", or name it"),
    ("what is said of", "name it: the message, the finding, the result"),
    ("what is kept of", "name it: the cached value"),
    ("is none of", "\"is not one of\""),
    ("the same for", "say what it does, \"as `NAME`, for ...\""),
    ("no matter of", "\"does not depend on\""),
];

/// Beginnings of doc comments that cannot be read without the item above them.
const DOC_BEGINNINGS: [(&str, &str); 4] = [
    ("The same", "say what it is"),
    ("Those", "\"The objects that ...\""),
    ("Of", "begin with what it is: \"The first of ...\""),
    ("As", "say what it is, then \"as in ...\""),
];

/// The text of a comment on a line, and whether it is the first line of a doc comment. `before` is the line above.
fn comment<'l>(line: &'l str, before: &str) -> Option<(&'l str, bool)> {
    let (code, comment) = line.split_once("//")?;
    // A `//` within a string is not the start of a comment.
    if code.matches('"').count() % 2 == 1 {
        return None;
    }
    let doc = comment.strip_prefix(['/', '!']);
    let is_first = doc.is_some() && !before.trim_start().starts_with("//");
    Some((doc.unwrap_or(comment).trim(), is_first))
}

fn comment_faults(text: &str, is_first_of_doc: bool) -> Vec<String> {
    let has_phrase = |text: &str, phrase: &str| {
        text.match_indices(phrase).any(|(at, _)| {
            let letter = |c: char| c.is_alphanumeric();
            !text[..at].ends_with(letter) && !text[at + phrase.len()..].starts_with(letter)
        })
    };
    let lower = text.to_lowercase();
    let phrases = COMMENT_PHRASES.iter().filter(|(phrase, _)| has_phrase(&lower, phrase));
    let begins = |start: &str| text.strip_prefix(start).is_some_and(|rest| rest.starts_with(' '));
    let beginnings = DOC_BEGINNINGS.iter().filter(|(start, _)| is_first_of_doc && begins(start));
    phrases.chain(beginnings).map(|(phrase, instead)| format!("`{phrase}`: {instead}")).collect()
}

#[test]
fn comments_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    for folder in FOLDERS_WITH_PLAIN_COMMENTS {
        let mut paths = Vec::new();
        files_below(&root.join(folder), "rs", &mut paths);
        assert!(!paths.is_empty(), "{folder} has no source files");
        for path in paths.into_iter().filter(|path| !path.starts_with(root.join(HELP_TEXTS))) {
            let text = fs::read_to_string(&path).unwrap();
            let mut before = "";
            for (number, line) in text.lines().enumerate() {
                let faults = comment(line, before).map(|(text, first)| comment_faults(text, first));
                let name = path.strip_prefix(root).unwrap().display();
                wrong.extend(
                    faults
                        .into_iter()
                        .flatten()
                        .map(|fault| format!("{name}:{}: {fault}: {line}", number + 1)),
                );
                before = line;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn phrases_of_comments_are_found() {
    let faults = |line: &str, before: &str| {
        comment(line, before).map_or(0, |(text, first)| comment_faults(text, first).len())
    };
    for (line, before, count) in [
        ("/// So many objects are checked at a time.", "", 1),
        ("/// How many objects, so manyfold.", "", 0),
        ("let a = 1; // the same for b", "", 1),
        ("/// The same of an HPA.", "}", 1),
        ("/// Those of a pool.", "}", 1),
        ("/// The same line goes on.", "/// A first line.", 0),
        ("// Of several, the first.", "}", 0),
        ("let url = \"http://so many\";", "", 0),
    ] {
        assert_eq!(faults(line, before), count, "{line}");
    }
}
