//! The cases that are compared: every document below `fixtures/`, and the mutants of the valid ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::source::{Source, read, split_documents};
use gpulint_rules::tree::placeholder::is_placeholder;
use gpulint_rules::{Authority, Cluster, Engine, Node, Object, ObjectId, Settings, Severity};
use serde_json::Value;

use crate::cluster::judge::Field;
use crate::cluster::platform;
use gpulint_testing as walk;

/// One object to compare, as text.
pub(crate) struct Case {
    /// The origin: a file and its document, and for a mutant the change.
    pub(crate) name: String,
    /// The mutation's kind; `written` for a document.
    pub(crate) class: String,
    pub(crate) id: ObjectId,
    pub(crate) media: &'static str,
    pub(crate) text: String,
    /// Whether a part of it is filled in later, so that a server would get another object.
    pub(crate) unexpanded: bool,
}

/// A finding of gpulint on a case.
pub(crate) struct Claim {
    pub(crate) rule: &'static str,
    pub(crate) severity: Severity,
    pub(crate) refused_by: Option<Authority>,
    /// The field; `None` if the finding is about the text, not about a field.
    pub(crate) field: Option<Field>,
    /// Other fields of the object that the finding is about, such as several with the wrong indentation.
    pub(crate) more: Vec<Field>,
    pub(crate) message: String,
}

impl Claim {
    /// Whether the finding claims that a component rejects the object.
    pub(crate) fn claims_refusal(&self) -> bool {
        matches!(self.refused_by, Some(Authority::ApiServer | Authority::KedaAdmission))
    }
}

/// Checks a case alone: without other objects and without suppressions.
pub(crate) fn claims(engine: &Engine, case: &Case) -> Vec<Claim> {
    let source = Arc::new(Source::from_text("case.yaml", &case.text));
    let documents = read(&source);
    let objects: Vec<Object> =
        documents.iter().flat_map(|d| Object::from_document(&source, d, false)).collect();
    let mut cluster = Cluster::new(false);
    for object in &objects {
        cluster.apply(object.clone());
    }
    let of_text = documents.iter().flat_map(|d| engine.check_document(&source, d));
    let of_objects = objects.iter().flat_map(|o| engine.check_object(o, &cluster));
    of_text
        .chain(of_objects)
        .map(|finding| Claim {
            rule: finding.rule.id,
            severity: finding.severity,
            refused_by: finding.rejected_by,
            field: finding.location.pointer().map(Field::of),
            more: match finding.rule.id {
                "unknown-field" => {
                    finding.related.iter().filter_map(|r| r.location.pointer()).map(Field::of).collect()
                }
                _ => Vec::new(),
            },
            message: finding.message,
        })
        .collect()
}

/// gpulint without any configuration.
pub(crate) fn engine() -> Engine {
    Engine::new(Settings {
        platform: platform(),
        complete: false,
        suppressions: false,
        ..Settings::default()
    })
}

/// Every document below a folder that is one object or a list of them, in the order of the paths.
pub(crate) fn documents(root: &Path, folder: &Path) -> Vec<Case> {
    let mut paths = Vec::new();
    manifests_below(folder, &mut paths);
    paths.sort();
    paths.iter().flat_map(|path| read_file(root, path)).collect()
}

fn manifests_below(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = walk::children(folder);
    // Patches and templates are not objects yet.
    let foreign = ["kustomization.yaml", "Chart.yaml"];
    if entries.iter().any(|path| foreign.iter().any(|f| path.ends_with(f))) {
        return;
    }
    for path in entries {
        if path.is_dir() {
            manifests_below(&path, out);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "json") {
            out.push(path);
        }
    }
}

fn read_file(root: &Path, path: &Path) -> Vec<Case> {
    let name = path.strip_prefix(root).unwrap_or(path);
    let name = name.to_string_lossy().replace('\\', "/");
    // Text in other encodings is tested elsewhere.
    let Ok(text) = fs::read_to_string(path) else {
        return Vec::new();
    };
    let mut cases = Vec::new();
    for (number, range) in split_documents(&text).into_iter().enumerate() {
        let part = &text[range];
        let source = Arc::new(Source::from_text(&name, part));
        let documents = read(&source);
        let objects: Vec<Object> =
            documents.iter().flat_map(|d| Object::from_document(&source, d, false)).collect();
        for (item, object) in objects.iter().enumerate() {
            // A patch in a syntax of its own is not an object.
            if part.contains("$patch:") {
                continue;
            }
            let alone = objects.len() == 1 && documents.len() == 1;
            let is_list = object.root().pointer() != gpulint_rules::Pointer::root();
            cases.push(Case {
                name: format!("{name}#{number}.{item}"),
                class: "written".to_owned(),
                id: object.id().clone(),
                // An item of a list is sent alone, as a client does that applies a list.
                media: if alone && !is_list { "application/yaml" } else { "application/json" },
                unexpanded: object.root().has_unknown() || has_placeholder_key(&object.root()),
                text: if alone && !is_list { part.to_owned() } else { object.root().to_json().to_string() },
            });
        }
    }
    cases
}

/// Whether a key is filled in later.
fn has_placeholder_key(node: &Node<'_>) -> bool {
    node.items().any(|item| has_placeholder_key(&item))
        || node.entries().iter().any(|(key, value)| is_placeholder(key) || has_placeholder_key(value))
}

/// The object of a case as a value.
pub(crate) fn value(case: &Case) -> Option<Value> {
    let source = Arc::new(Source::from_text("case.yaml", &case.text));
    let documents = read(&source);
    let object = documents.iter().flat_map(|d| Object::from_document(&source, d, false)).next()?;
    Some(object.root().to_json())
}

/// A case made of a value.
pub(crate) fn case(name: String, class: &str, id: &ObjectId, value: &Value) -> Case {
    Case {
        name,
        class: class.to_owned(),
        id: id.clone(),
        media: "application/json",
        text: serde_json::to_string_pretty(value).unwrap_or_default(),
        unexpanded: false,
    }
}
