//! Whole sets of old objects against what the fixes of the migration group make of them.
//!
//! Each `fixtures/migration/<case>/before/*.yaml` becomes `after/` of the same name, one fix after
//! the other until nothing changes; what is left to a person stands in `left.out`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::file::File;
use gpulint_rules::lint::fix::rounds::{FixOutcome, FixTarget};
use gpulint_rules::lint::fix::text::{apply_edits, edits};
use gpulint_rules::lint::report::sort;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Engine, Finding, Group, Index, Object, RULES, Settings};

use gpulint_testing::children;

/// Texts by file name, fixed as one unit.
#[derive(Clone)]
struct Files(BTreeMap<String, String>);

/// What the rules of the migration group find in a set.
fn findings(files: &Files) -> Vec<Finding> {
    let engine = Engine::new(Settings {
        select: RULES.iter().filter(|r| r.group == Group::Migration).map(|r| r.id.to_owned()).collect(),
        ..Settings::default()
    });
    let mut index = Index::new(false);
    let files: Vec<File> = files
        .0
        .iter()
        .map(|(name, text)| {
            let source = Arc::new(Source::from_text(name.as_str(), text.as_str()));
            let documents = read(&source);
            let objects: Vec<Object> =
                documents.iter().flat_map(|d| Object::from_document(&source, d, false)).collect();
            for object in &objects {
                index.apply(object.clone());
            }
            File { source, documents, objects }
        })
        .collect();
    let mut out: Vec<Finding> =
        files.iter().flat_map(|file| engine.check_file(file, &index).findings).collect();
    sort(&mut out);
    out
}

impl FixTarget for Files {
    type Edit = Files;

    fn plan(&mut self, only: Option<&BTreeSet<usize>>) -> Vec<(usize, Files)> {
        if only.is_none() {
            return Vec::new();
        }
        let found = findings(self);
        let fix = found.iter().find_map(|f| Some((f.location.object()?, f.fix.as_ref()?)));
        let edit = fix.map(|(object, fix)| {
            let source = &object.origin().unwrap().source;
            let edits = edits(object, fix).unwrap_or_else(|e| panic!("{}: {e}", source.path()));
            let text = apply_edits(source.text(), &edits).expect("edits lie in the text");
            let mut files = self.clone();
            files.0.insert(source.path().to_owned(), text);
            (0, files)
        });
        edit.into_iter().collect()
    }

    fn content(&self, _: usize) -> Option<String> {
        Some(format!("{:?}", self.0))
    }

    fn edited(edit: &Files) -> String {
        format!("{:?}", edit.0)
    }

    fn apply(&mut self, _: usize, edit: Files) {
        *self = edit;
    }
}

/// The set after all fixes, applied one at a time.
fn migrated(mut files: Files) -> Files {
    let first = files.plan(Some(&BTreeSet::new()));
    assert_eq!(Engine::fix(&mut files, first), FixOutcome::Stable);
    files
}

fn left(files: &Files) -> String {
    let mut out = String::new();
    for finding in findings(files) {
        let (source, _, span) = finding.location.resolve_span().unwrap();
        let at = source.lines().position(source.text(), span.start);
        let _ = writeln!(
            out,
            "{}:{}: {}[{}]: {}",
            source.path(),
            at.line,
            finding.severity.name(),
            finding.rule.id,
            finding.message
        );
        if let Some(help) = finding.help {
            let _ = writeln!(out, "  help: {help}");
        }
    }
    out
}

#[test]
fn old_sets_become_current_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/migration");
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    let mut cases = 0;
    for case in children(&root) {
        cases += 1;
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let before: BTreeMap<String, String> = children(&case.join("before"))
            .into_iter()
            .map(|path| {
                let text = std::fs::read_to_string(&path).unwrap();
                (path.file_name().unwrap().to_string_lossy().into_owned(), text)
            })
            .collect();
        let after = migrated(Files(before));
        let mut expected: Vec<(PathBuf, String)> =
            after.0.iter().map(|(file, text)| (case.join("after").join(file), text.clone())).collect();
        expected.push((case.join("left.out"), left(&after)));
        for (path, text) in expected {
            if update {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                if text.is_empty() {
                    let _ = std::fs::remove_file(&path);
                } else {
                    std::fs::write(&path, &text).unwrap();
                }
            } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
                wrong.push(format!("{name}: {} would be\n{text}", path.display()));
            }
        }
    }
    assert!(cases > 0);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
