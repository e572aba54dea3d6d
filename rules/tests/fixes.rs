//! Fixes applied to text: what each operation does in each style, and the law.
//!
//! The law is that reading the edited text gives exactly the patched value, and everything else
//! as it was. The editor checks it itself before it answers; here it is checked again from
//! outside, on random documents and random patches, with how often the editor refuses.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use gpulint_rules::fix::text::{edits, rewritten};
use gpulint_rules::fix::value;
use gpulint_rules::source::{Source, read};
use gpulint_rules::{Fix, Object, Operation, Refused, Safety};
use serde_json::{Value, json};

const HEAD: &str = "apiVersion: v1\nkind: Pod\n";

fn objects(path: &str, text: &str) -> Vec<Object> {
    let source = Arc::new(Source::from_text(path, text));
    read(&source)
        .iter()
        .flat_map(|document| Object::from_document(&source, document, false))
        .collect()
}

fn fix(operations: Value) -> Fix {
    let mut fix = Fix::new("a test", Safety::Safe);
    for operation in operations.as_array().unwrap() {
        let text = |name: &str| operation[name].as_str().unwrap().to_owned();
        let value = operation["value"].clone();
        let path = text("path");
        fix.operations
            .push(match operation["op"].as_str().unwrap() {
                "test" => Operation::Test { path, value },
                "add" => Operation::Add { path, value },
                "replace" => Operation::Replace { path, value },
                "remove" => Operation::Remove { path },
                "move" => Operation::Move {
                    from: text("from"),
                    path,
                },
                other => panic!("{other}"),
            });
    }
    fix
}

/// The text after operations on its object of this number; the law is checked.
fn edited(path: &str, text: &str, number: usize, fix: &Fix) -> Result<String, Refused> {
    let before = objects(path, text);
    let object = &before[number];
    let edits = edits(object, fix)?;
    let new = rewritten(text, &edits).expect("edits are in order");
    let mut meant: Vec<Value> = before.iter().map(|o| o.root().to_json()).collect();
    meant[number] = value::apply(&meant[number], fix).expect("the editor applied it");
    let after = objects(path, &new);
    let after: Vec<Value> = after.iter().map(|o| o.root().to_json()).collect();
    for created in fix.creates.iter().rev() {
        meant.insert(number + 1, created.clone());
    }
    assert!(
        value::same(&Value::Array(after.clone()), &Value::Array(meant.clone())),
        "the law is broken:\n{text}\n{:?}\n{new}\n{after:?}\n{meant:?}",
        fix.operations
    );
    Ok(new)
}

/// Checks one edit of a document that begins with [`HEAD`], with LF and with CRLF.
#[track_caller]
fn case(before: &str, operations: Value, after: &str) {
    let fix = fix(operations);
    let before = format!("{HEAD}{before}");
    let after = format!("{HEAD}{after}");
    let new = edited("a.yaml", &before, 0, &fix).unwrap_or_else(|e| panic!("refused: {e}"));
    assert_eq!(new, after, "\n--- is\n{new}\n--- should be\n{after}");
    let crlf = |text: &str| text.replace('\n', "\r\n");
    // Text in literal blocks is read with plain line ends.
    let new = edited("a.yaml", &crlf(&before), 0, &fix).unwrap_or_else(|e| panic!("CRLF: {e}"));
    assert_eq!(new, crlf(&after), "CRLF");
    // And without a last line end.
    if let (Some(before), Some(after)) = (before.strip_suffix('\n'), after.strip_suffix('\n'))
        && !before.ends_with('\n')
    {
        let new = edited("a.yaml", before, 0, &fix).unwrap_or_else(|e| panic!("no end: {e}"));
        assert_eq!(new, after, "without a last line end");
    }
}

#[track_caller]
fn refused(before: &str, operations: Value) -> Refused {
    let before = format!("{HEAD}{before}");
    let objects = objects("a.yaml", &before);
    edits(&objects[0], &fix(operations)).expect_err("it is refused")
}

#[test]
fn add_a_member() {
    case(
        "spec:\n    a: 1 # one\n\n# end\n",
        json!([{"op": "add", "path": "/spec/b", "value": {"c": [1, {"d": "on"}]}}]),
        "spec:\n    a: 1 # one\n    b:\n        c:\n          - 1\n          - d: \"on\"\n\n# end\n",
    );
    case(
        "spec:\n  list:\n  - x\n",
        json!([{"op": "add", "path": "/spec/b", "value": {"c": [1, {"d": 2}]}}]),
        "spec:\n  list:\n  - x\n  b:\n    c:\n    - 1\n    - d: 2\n",
    );
    case(
        "spec: {a: 1}\n",
        json!([{"op": "add", "path": "/spec/b", "value": {"c": ["x,y"]}}]),
        "spec: {a: 1, b: {c: [\"x,y\"]}}\n",
    );
    case(
        "spec: { a: 1 }\n",
        json!([{"op": "add", "path": "/spec/b", "value": 2}]),
        "spec: { a: 1, b: 2 }\n",
    );
    case(
        "spec: {} # none\n",
        json!([{"op": "add", "path": "/spec/b", "value": 2}]),
        "spec: # none\n  b: 2\n",
    );
    case(
        "spec: {\n  a: 1, # one\n  b: 2 # two\n}\n",
        json!([{"op": "add", "path": "/spec/c", "value": 3}]),
        "spec: {\n  a: 1, # one\n  b: 2, # two\n  c: 3\n}\n",
    );
    case(
        "spec: {\n  a: 1,\n}\n",
        json!([{"op": "add", "path": "/spec/c", "value": 3}]),
        "spec: {\n  a: 1,\n  c: 3,\n}\n",
    );
    case(
        "spec:\n- a: 1\n  # tail\n- b: 1\n",
        json!([{"op": "add", "path": "/spec/0/c", "value": "x\ny\n"}]),
        "spec:\n- a: 1\n  c: |\n    x\n    y\n  # tail\n- b: 1\n",
    );
    case(
        "spec:\n  a: |\n    text\n\n\nmore: 1\n",
        json!([{"op": "add", "path": "/spec/c", "value": null}]),
        "spec:\n  a: |\n    text\n  c: null\n\n\nmore: 1\n",
    );
    case(
        "spec:\n  a:\n    b: 1\n    # - deeper\n  # here\nmore: 1\n",
        json!([{"op": "add", "path": "/spec/c", "value": 1}]),
        "spec:\n  a:\n    b: 1\n    # - deeper\n  c: 1\n  # here\nmore: 1\n",
    );
    case(
        "spec:\n",
        json!([{"op": "add", "path": "/spec", "value": {"a": 1}}]),
        "spec:\n  a: 1\n",
    );
    case(
        "spec: # why\n",
        json!([{"op": "add", "path": "/spec", "value": {"a": 1}}]),
        "spec: # why\n  a: 1\n",
    );
    case(
        "a: 'x'\nb: 'y'\n",
        json!([{"op": "add", "path": "/c", "value": "true"}]),
        "a: 'x'\nb: 'y'\nc: 'true'\n",
    );
}

#[test]
fn add_an_item() {
    let item = json!({"key": "a", "values": ["x"]});
    case(
        "list:\n  - key: b\n",
        json!([{"op": "add", "path": "/list/-", "value": item}]),
        "list:\n  - key: b\n  - key: a\n    values:\n      - x\n",
    );
    case(
        "list:\n- key: b # b\n# c\n- key: c\n",
        json!([{"op": "add", "path": "/list/1", "value": item}]),
        "list:\n- key: b # b\n- key: a\n  values:\n  - x\n# c\n- key: c\n",
    );
    case(
        "list:\n# b\n- b\n",
        json!([{"op": "add", "path": "/list/0", "value": "a"}]),
        "list:\n- a\n# b\n- b\n",
    );
    case(
        "list:\n-   key: b\n    x: 1\n",
        json!([{"op": "add", "path": "/list/1", "value": {"k": 1, "l": 2}}]),
        "list:\n-   key: b\n    x: 1\n-   k: 1\n    l: 2\n",
    );
    case(
        "list: [b, c]\n",
        json!([{"op": "add", "path": "/list/0", "value": "a"}]),
        "list: [a, b, c]\n",
    );
    case(
        "list: [b,c]\n",
        json!([{"op": "add", "path": "/list/-", "value": "a"}]),
        "list: [b,c,a]\n",
    );
    case(
        "list: [\"b\"]\n",
        json!([{"op": "add", "path": "/list/-", "value": "a"}]),
        "list: [\"b\", \"a\"]\n",
    );
    case(
        "list: ['b', 'c']\n",
        json!([{"op": "add", "path": "/list/1", "value": "a"}]),
        "list: ['b', 'a', 'c']\n",
    );
    case(
        "list: []\n",
        json!([{"op": "add", "path": "/list/-", "value": {"a": 1, "b": 2}}]),
        "list:\n  - a: 1\n    b: 2\n",
    );
    case(
        "list:\n- - a\n  - b\n",
        json!([{"op": "add", "path": "/list/0/0", "value": "x"}]),
        "list:\n- - x\n  - a\n  - b\n",
    );
    case(
        "list:\n- - a\n",
        json!([{"op": "add", "path": "/list/0/-", "value": "x"}]),
        "list:\n- - a\n  - x\n",
    );
    case(
        "list:\n- |\n  text\n- 1\n",
        json!([{"op": "add", "path": "/list/1", "value": "x"}]),
        "list:\n- |\n  text\n- x\n- 1\n",
    );
}

#[test]
fn replace_a_value() {
    case(
        "a: 1   # one\n",
        json!([{"op": "replace", "path": "/a", "value": 2}]),
        "a: 2   # one\n",
    );
    case(
        "a:    x\n",
        json!([{"op": "replace", "path": "/a", "value": "z"}]),
        "a:    z\n",
    );
    case(
        "a: 'x'\n",
        json!([{"op": "replace", "path": "/a", "value": "it's"}]),
        "a: 'it''s'\n",
    );
    case(
        "a: \"x\"\n",
        json!([{"op": "replace", "path": "/a", "value": "z"}]),
        "a: \"z\"\n",
    );
    case(
        "a: \"5\"\n",
        json!([{"op": "replace", "path": "/a", "value": 5}]),
        "a: 5\n",
    );
    case(
        "a: x\n",
        json!([{"op": "replace", "path": "/a", "value": "5"}]),
        "a: \"5\"\n",
    );
    case(
        "a:\nb: 1\n",
        json!([{"op": "replace", "path": "/a", "value": "x"}]),
        "a: x\nb: 1\n",
    );
    case(
        "a: {b: 1, c: x}\n",
        json!([{"op": "replace", "path": "/a/c", "value": [1]}]),
        "a: {b: 1, c: [1]}\n",
    );
    case(
        "a: {b: , c: x}\n",
        json!([{"op": "replace", "path": "/a/b", "value": 1}]),
        "a: {b: 1, c: x}\n",
    );
    case(
        "a: # why\n  b: 1 # b\nc: 1\n",
        json!([{"op": "replace", "path": "/a", "value": "x"}]),
        "a: x # why\nc: 1\n",
    );
    case(
        "a: x # why\nc: 1\n",
        json!([{"op": "replace", "path": "/a", "value": {"b": [1]}}]),
        "a: # why\n  b:\n    - 1\nc: 1\n",
    );
    case(
        "a: |\n  text\n  more\nc: 1\n",
        json!([{"op": "replace", "path": "/a", "value": "x\ny"}]),
        "a: |-\n  x\n  y\nc: 1\n",
    );
    case(
        "a: >-\n  text\n\nc: 1\n",
        json!([{"op": "replace", "path": "/a", "value": true}]),
        "a: true\n\nc: 1\n",
    );
    case(
        "a: x\n  y # c\nb: 1\n",
        json!([{"op": "replace", "path": "/a", "value": "z"}]),
        "a: z # c\nb: 1\n",
    );
    case(
        "a:\n  x # c\nb: 1\n",
        json!([{"op": "replace", "path": "/a", "value": "z"}]),
        "a: z # c\nb: 1\n",
    );
    case(
        "a: !!str 5\n",
        json!([{"op": "replace", "path": "/a", "value": 6}]),
        "a: 6\n",
    );
    case(
        "a: &x 5\n",
        json!([{"op": "replace", "path": "/a", "value": 6}]),
        "a: 6\n",
    );
    case(
        "l:\n- a: 1\n  b: 2\n- c\n",
        json!([{"op": "replace", "path": "/l/0", "value": "x"}]),
        "l:\n- x\n- c\n",
    );
    case(
        "l:\n- x # c\n- c\n",
        json!([{"op": "replace", "path": "/l/0", "value": {"a": 1, "b": 2}}]),
        "l:\n- a: 1 # c\n  b: 2\n- c\n",
    );
    case(
        "l:\n-\n  a: 1\n- c\n",
        json!([{"op": "replace", "path": "/l/0", "value": {"b": 2}}]),
        "l:\n- b: 2\n- c\n",
    );
    case(
        "l: [a, 'b']\n",
        json!([{"op": "replace", "path": "/l/1", "value": "c"}]),
        "l: [a, 'c']\n",
    );
}

#[test]
fn remove_an_entry() {
    case(
        "a: 1\n# b\nb: 2 # two\n\n# c\nc: 3\n",
        json!([{"op": "remove", "path": "/b"}]),
        "a: 1\n\n# c\nc: 3\n",
    );
    case(
        "a:\n  b: 1\n",
        json!([{"op": "remove", "path": "/a/b"}]),
        "a: {}\n",
    );
    case(
        "a: # why\n  - b\nc: 1\n",
        json!([{"op": "remove", "path": "/a/0"}]),
        "a: [] # why\nc: 1\n",
    );
    case(
        "a:\n- b: 1\n  c: 2\n",
        json!([{"op": "remove", "path": "/a/0/b"}]),
        "a:\n- c: 2\n",
    );
    case(
        "a:\n- b: 1\n  # about c\n  c: 2\n",
        json!([{"op": "remove", "path": "/a/0/b"}]),
        "a:\n- # about c\n  c: 2\n",
    );
    case(
        "a:\n  - x\n  # y\n  - y\n  - z\n",
        json!([{"op": "remove", "path": "/a/1"}]),
        "a:\n  - x\n  - z\n",
    );
    case(
        "a:\n- - x\n  - y\n",
        json!([{"op": "remove", "path": "/a/0/0"}]),
        "a:\n- - y\n",
    );
    case(
        "a: {b: 1, c: 2, d: 3}\n",
        json!([{"op": "remove", "path": "/a/b"}]),
        "a: {c: 2, d: 3}\n",
    );
    case(
        "a: {b: 1, c: 2, d: 3}\n",
        json!([{"op": "remove", "path": "/a/c"}]),
        "a: {b: 1, d: 3}\n",
    );
    case(
        "a: {b: 1, c: 2, d: 3}\n",
        json!([{"op": "remove", "path": "/a/d"}]),
        "a: {b: 1, c: 2}\n",
    );
    case(
        "a: [b, c, ]\n",
        json!([{"op": "remove", "path": "/a/1"}]),
        "a: [b, ]\n",
    );
    case(
        "a: {b: 1}\n",
        json!([{"op": "remove", "path": "/a/b"}]),
        "a: {}\n",
    );
    case(
        "a: {\n  b: 1, # one\n  c: 2, # two\n  d: 3 # three\n}\n",
        json!([{"op": "remove", "path": "/a/c"}]),
        "a: {\n  b: 1, # one\n  d: 3 # three\n}\n",
    );
    case(
        "a: {\n  b: 1, # one\n  c: 2 # two\n}\n",
        json!([{"op": "remove", "path": "/a/c"}]),
        "a: {\n  b: 1 # one\n}\n",
    );
    case(
        "a:\n  b: |\n    text\n\n  c: 1\n",
        json!([{"op": "remove", "path": "/a/b"}]),
        "a:\n\n  c: 1\n",
    );
    case(
        "a:\n  b:\n    c: 1\n    # deeper\n  d: 1\n",
        json!([{"op": "remove", "path": "/a/b"}]),
        "a:\n  d: 1\n",
    );
}

#[test]
fn move_an_entry() {
    case(
        "spec:\n  # which machines\n  requirements: # all\n  - key: a\n    # why b\n    operator: In\n  limits: {cpu: 1}\n",
        json!([{"op": "add", "path": "/spec/template", "value": {"spec": {}}},
                {"op": "move", "from": "/spec/requirements", "path": "/spec/template/spec/requirements"}]),
        "spec:\n  limits: {cpu: 1}\n  template:\n    spec:\n      # which machines\n      requirements: # all\n      - key: a\n        # why b\n        operator: In\n",
    );
    case(
        "spec:\n  old: 5 # seconds\n  x: 1\n",
        json!([{"op": "move", "from": "/spec/old", "path": "/spec/new"}]),
        "spec:\n  new: 5 # seconds\n  x: 1\n",
    );
    case(
        "spec:\n  a:\n    b:\n      deep: |\n        text\n\n        more\n  x: 1\n",
        json!([{"op": "move", "from": "/spec/a/b/deep", "path": "/spec/deep"}]),
        "spec:\n  a:\n    b: {}\n  x: 1\n  deep: |\n    text\n\n    more\n",
    );
    case(
        "spec:\n  a: {b: 1}\n  c: 1\n",
        json!([{"op": "move", "from": "/spec/a/b", "path": "/spec/b"}]),
        "spec:\n  a: {}\n  c: 1\n  b: 1\n",
    );
    case(
        "spec:\n  a: {b: 1}\n",
        json!([{"op": "move", "from": "/spec/a/b", "path": "/spec/a/c"}]),
        "spec:\n  a: {c: 1}\n",
    );
    case(
        "a:\n  - x: 1\n    z: 2\nb: 1\n",
        json!([{"op": "move", "from": "/a/0/x", "path": "/x"}]),
        "a:\n  - z: 2\nb: 1\nx: 1\n",
    );
    case(
        "a:\n  - x\n  - y\nb: []\n",
        json!([{"op": "move", "from": "/a/0", "path": "/b/-"}]),
        "a:\n  - y\nb:\n  - x\n",
    );
    case(
        "a:\n  x: 1\n  z: 2\nb: {z: 3}\n",
        json!([{"op": "move", "from": "/a/z", "path": "/b/z"}]),
        "a:\n  x: 1\nb: {z: 2}\n",
    );
}

#[test]
fn json_stays_json() {
    let check = |before: &str, operations: Value, after: &str| {
        let new = edited("a.json", before, 0, &fix(operations)).unwrap();
        assert_eq!(new, after);
        serde_json::from_str::<Value>(&new).unwrap();
    };
    let pretty = "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"spec\": {},\n  \"l\": [\n    \"a\"\n  ]\n}\n";
    check(
        pretty,
        json!([{"op": "add", "path": "/spec/a", "value": {"b": ["on"]}}]),
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"spec\": {\n    \"a\": {\n      \"b\": [\n        \"on\"\n      ]\n    }\n  },\n  \"l\": [\n    \"a\"\n  ]\n}\n",
    );
    check(
        pretty,
        json!([{"op": "add", "path": "/l/-", "value": "b"}, {"op": "remove", "path": "/spec"}]),
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"l\": [\n    \"a\",\n    \"b\"\n  ]\n}\n",
    );
    check(
        pretty,
        json!([{"op": "remove", "path": "/l"}]),
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"spec\": {}\n}\n",
    );
    let dense = r#"{"apiVersion":"v1","kind":"Pod","spec":{"a":["x"]}}"#;
    check(
        dense,
        json!([{"op": "add", "path": "/spec/b", "value": true}, {"op": "replace", "path": "/spec/a/0", "value": "y"}]),
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"a":["y"],"b":true}}"#,
    );
    let mut creates = fix(json!([]));
    creates
        .creates
        .push(json!({"apiVersion": "v1", "kind": "Pod"}));
    assert!(edited("a.json", pretty, 0, &creates).is_err());
}

#[test]
fn what_something_else_reads_is_refused() {
    let text = "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  e: 1\n";
    let set = |path: &str| refused(text, json!([{"op": "replace", "path": path, "value": 2}]));
    assert_eq!(set("/a/b"), Refused::Anchor("a.b".to_owned()));
    assert_eq!(set("/c/b"), Refused::Alias("c.b".to_owned()));
    assert_eq!(set("/d/b"), Refused::Merge("d.b".to_owned()));
    assert!(matches!(
        refused(text, json!([{"op": "remove", "path": "/a"}])),
        Refused::Anchor(_)
    ));
    // An alias itself is only a value, and what stands beside a merge as well.
    case(
        text,
        json!([{"op": "replace", "path": "/c", "value": 2}]),
        "a: &x\n  b: 1\nc: 2\nd:\n  <<: *x\n  e: 1\n",
    );
    case(
        text,
        json!([{"op": "replace", "path": "/d/e", "value": 2}]),
        "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  e: 2\n",
    );
    let explicit = refused(
        "? a\n: b\n",
        json!([{"op": "replace", "path": "/a", "value": 2}]),
    );
    assert_eq!(explicit, Refused::Layout("a".to_owned()));
    assert!(matches!(
        refused("a: 1\n", json!([{"op": "test", "path": "/a", "value": 2}])),
        Refused::Patch(_)
    ));
    let object = Object::from_json(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
    assert_eq!(edits(&object, &fix(json!([]))), Err(Refused::NoText));
}

#[test]
fn other_documents_and_items_stay() {
    let text = "\u{FEFF}# first\n---\napiVersion: v1\nkind: A\n---\n# the list\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: B\n  # b\n- kind: C\n  apiVersion: v1\n...\n---\napiVersion: v1\nkind: D";
    let mut set = fix(json!([{"op": "add", "path": "/x", "value": {"z": [1]}}]));
    let new = |number: usize, fix: &Fix| edited("a.yaml", text, number, fix).unwrap();
    let x = "x:\n  z:\n    - 1";
    assert_eq!(
        new(0, &set),
        text.replace("kind: A\n", &format!("kind: A\n{x}\n"))
    );
    assert_eq!(
        new(1, &set),
        text.replace("kind: B\n", "kind: B\n  x:\n    z:\n    - 1\n")
    );
    assert_eq!(
        new(2, &set),
        text.replace("v1\n...", "v1\n  x:\n    z:\n    - 1\n...")
    );
    assert_eq!(new(3, &set), format!("{text}\n{x}"));
    set.creates
        .push(json!({"apiVersion": "v1", "kind": "New", "spec": {"a": "b"}}));
    assert_eq!(
        new(0, &set),
        text.replace(
            "kind: A\n",
            &format!("kind: A\n{x}\n---\napiVersion: v1\nkind: New\nspec:\n  a: b\n")
        )
    );
    assert_eq!(
        new(3, &set),
        format!("{text}\n{x}\n---\napiVersion: v1\nkind: New\nspec:\n  a: b")
    );
}
