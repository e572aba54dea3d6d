//! Tests of each conversion.

mod class;
mod keda;
mod kubelet;
mod pool;

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::object::Object;
use crate::source::{Source, read};

fn objects(text: &str) -> Vec<Object> {
    let source = Arc::new(Source::from_text("old.yaml", text));
    read(&source).iter().flat_map(|d| Object::from_document(&source, d, false)).collect()
}

/// The result of converting the first object of the text: the object and those created, or the reason why it
/// cannot be converted.
#[track_caller]
fn converted(text: &str) -> Result<Vec<Value>, String> {
    let objects = objects(text);
    let mut index = Cluster::new(false);
    for object in &objects {
        index.apply(object.clone());
    }
    let first = &objects[0];
    let fix = match first.group() {
        "keda.k8s.io" => super::keda::convert(first),
        _ => super::convert(first, &index),
    }?;
    let mut value = first.root().to_json();
    let operations = serde_json::to_value(&fix.operations).expect("operations are data");
    let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
    json_patch::patch(&mut value, &patch).expect("operations apply to what they were made of");
    Ok(std::iter::once(value).chain(fix.creates).collect())
}

/// Asserts the result of converting a `spec`; both are given as YAML.
#[track_caller]
fn becomes(head: &str, spec: &str, expected: &str) {
    let text = format!("{head}\nmetadata: {{name: a}}\nspec:\n{spec}");
    let got = converted(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let expected = format!("apiVersion: x/v1\nkind: X\nspec:\n{expected}");
    let expected = objects(&expected)[0].get("spec").to_json();
    assert_eq!(got[0]["spec"], expected, "\n{:#}\n{text}", got[0]["spec"]);
}

/// Asserts that a `spec` is not converted, and the reason.
#[track_caller]
fn is_left(head: &str, spec: &str, why: &str) {
    let text = format!("{head}\nmetadata: {{name: a}}\nspec:\n{spec}");
    let reason = converted(&text).expect_err("a person has to decide");
    assert!(reason.contains(why), "{reason}");
    assert!(reason.chars().count() <= 120, "{reason}");
}
