//! Trees from JSON compared with `serde_json`, also after changes.

use std::hash::DefaultHasher;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::tree::node::Node;

/// Builds the tree of a value by a simple traversal.
fn by_value(value: &Value) -> Tree {
    fn store(text: &mut String, string: &str) -> Span {
        let start = offset(text);
        text.push_str(string);
        Span::new(start, offset(text))
    }

    fn push(tree: &mut Tree, text: &mut String, value: &Value, parent: u32, key: Option<MappingKey>) {
        let kind = match value {
            Value::Object(_) => SlotKind::Mapping,
            Value::Array(_) => SlotKind::Sequence,
            Value::String(_) => SlotKind::Quoted,
            _ => SlotKind::Plain,
        };
        let at = tree.push(Slot::new(kind, TagKind::None, Span::default(), parent), key);
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    tree.has_patch_directive |= name == PATCH_DIRECTIVE;
                    let key = mapping_key(store(text, name), name);
                    push(tree, text, value, at, Some(key));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| push(tree, text, item, at, None)),
            Value::String(string) => tree.slots[at as usize].span = store(text, string),
            other => tree.slots[at as usize].span = store(text, &other.to_string()),
        }
        if kind.is_collection() {
            tree.slots[at as usize].data = tree.slots.len() as u32;
        }
    }

    let (mut tree, mut text) = (Tree::new(Arc::default(), false), String::new());
    push(&mut tree, &mut text, value, NONE, None);
    tree.may_have_placeholders = may_contain_placeholder(&text);
    tree.text = Arc::new(text);
    tree
}

/// The content of a tree, independent of how texts are stored.
fn dump(tree: &Tree) -> Vec<String> {
    let slots = 0..tree.slots.len() as u32;
    let line = |at: u32| {
        let slot = tree.slot(at);
        let content = match slot.kind.is_collection() {
            true => slot.data.to_string(),
            false => format!("{:?} {:?}", tree.scalar_text(at), tree.scalar(at)),
        };
        let key = tree.has_key(at).then(|| (tree.key_name(at), slot.key_sign));
        format!("{at} in {} {:?} {:?} {key:?}: {content}", slot.parent, slot.kind, slot.keys())
    };
    let flags = format!("{} {}", tree.has_patch_directive, tree.has_spans());
    slots.map(line).chain([flags]).collect()
}

/// A value without a list of managed fields in its metadata.
fn without_managed_fields(mut value: Value) -> Value {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|m| m.get("managedFields").is_some_and(Value::is_array)) {
        metadata.shift_remove("managedFields");
    }
    value
}

/// Asserts that a text is read as by `serde_json`, and rejected if it rejects the text.
fn assert_reads(json: &str) -> Result<(), TestCaseError> {
    let (draft, value) = (Draft::read(json), serde_json::from_str::<Value>(json));
    match (draft, value) {
        (Ok(draft), Ok(value)) => {
            let all = by_value(&value);
            let whole = Draft::of(&value).into_tree();
            prop_assert_eq!(dump(&whole), dump(&all));
            prop_assert_eq!(whole.may_have_placeholders, all.may_have_placeholders);
            let tree = draft.into_tree();
            prop_assert_eq!(tree.slots.len(), tree.slots.capacity());
            prop_assert_eq!(dump(&tree), dump(&by_value(&without_managed_fields(value))), "{}", json);
        }
        (Err(draft), Err(value)) => prop_assert_eq!(draft.to_string(), value.to_string()),
        (draft, value) => prop_assert!(false, "{json}: {draft:?} {value:?}"),
    }
    Ok(())
}

fn key() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] =
        &["metadata", "managedFields", "uid", "namespace", "status", "spec", "name", "$patch", "", "<<"];
    prop_oneof![4 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

fn value() -> impl Strategy<Value = Value> {
    const TEXTS: &[&str] = &["", "{{ x }}", "null", "1", "a\"b\\c\n"];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        proptest::sample::select(TEXTS).prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..7)
                .prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// A JSON text, in which keys may be repeated.
fn text(value: &Value, repeats: bool) -> String {
    match value {
        Value::Object(map) => {
            let entry =
                |(name, value): (&String, &Value)| format!("{}:{}", json!(name), text(value, repeats));
            let mut entries: Vec<String> = map.iter().map(entry).collect();
            if repeats && let Some((name, _)) = map.iter().next() {
                entries.push(format!("{}:{}", json!(name), "[\"again\", {}]"));
            }
            format!("{{{}}}", entries.join(" ,\n"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| text(item, repeats)).collect();
            format!("[{}]", items.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Remove(Vec<String>),
    SetString(Vec<String>, String),
    AddMapping(Vec<String>, String),
}

fn change() -> impl Strategy<Value = Change> {
    let path = |least| prop::collection::vec(key(), least..4);
    prop_oneof![
        path(1).prop_map(Change::Remove),
        (path(1), "\\PC{0,5}").prop_map(|(path, string)| Change::SetString(path, string)),
        (path(0), key()).prop_map(|(path, name)| Change::AddMapping(path, name)),
    ]
}

fn mapping<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Map<String, Value>> {
    let found = path.iter().try_fold(value, |value, name| value.as_object_mut()?.get_mut(name));
    found.and_then(Value::as_object_mut)
}

fn apply(change: &Change, draft: &mut Draft, value: &mut Value) {
    fn names(path: &[String]) -> Vec<&str> {
        path.iter().map(String::as_str).collect()
    }
    match change {
        Change::Remove(path) => {
            let (name, parent) = path.split_last().expect("not empty");
            if let Some(map) = mapping(value, parent) {
                map.shift_remove(name);
            }
            draft.remove(&names(path));
        }
        Change::SetString(path, string) => {
            let (name, parent) = path.split_last().expect("not empty");
            if let Some(map) = mapping(value, parent) {
                map.shift_remove(name);
                map.insert(name.clone(), string.clone().into());
            }
            draft.set_string(&names(path), string);
        }
        Change::AddMapping(path, name) => {
            let is_new = mapping(value, path).is_some_and(|map| !map.contains_key(name));
            if is_new {
                if let Some(map) = mapping(value, path) {
                    map.insert(name.clone(), json!({}));
                }
                draft.add_mapping(&names(path), name);
            }
        }
    }
}

fn hash(draft: &Draft) -> u64 {
    let mut hasher = DefaultHasher::new();
    draft.hash_value(&mut hasher);
    hasher.finish()
}

/// A value with the entries of all its mappings in another order.
fn reordered(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().rev().map(|(name, value)| (name.clone(), reordered(value)));
            entries.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(reordered).collect::<Vec<_>>().into(),
        scalar => scalar.clone(),
    }
}

proptest! {
    #[test]
    fn json_is_read_as_serde_json_reads_it(value in value(), repeats: bool, cut in 0_usize..400) {
        let json = text(&value, repeats);
        assert_reads(&json)?;
        // A truncated text is rejected by both.
        if let Some(half) = json.get(..cut) {
            assert_reads(half)?;
        }
    }

    #[test]
    fn a_changed_draft_is_the_draft_of_the_changed_value(
        mut value in value(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let mut draft = Draft::of(&value);
        for change in &changes {
            apply(change, &mut draft, &mut value);
            prop_assert_eq!(hash(&draft), hash(&Draft::of(&value)), "{:?}", change);
        }
        let (before, bytes) = (hash(&draft), draft.text_bytes());
        draft.compact();
        prop_assert_eq!(hash(&draft), before);
        prop_assert!(draft.text_bytes() <= bytes);
        let directive = draft.has_patch_directive;
        let mut plain = by_value(&value);
        prop_assert!(directive || !plain.has_patch_directive);
        plain.has_patch_directive = directive;
        prop_assert_eq!(dump(&draft.into_tree()), dump(&plain));
    }

    #[test]
    fn equal_values_have_equal_hashes(value in value(), other in value()) {
        prop_assert_eq!(hash(&Draft::of(&value)), hash(&Draft::of(&reordered(&value))));
        prop_assert_eq!(hash(&Draft::of(&value)) == hash(&Draft::of(&other)), value == other);
    }
}

#[test]
fn numbers_strings_and_depth_are_those_of_serde_json() {
    let long = format!(r#"{{"{}": 1, "metadata": {{"managedFields": {{}}}}}}"#, "k".repeat(70_000));
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let texts = [
        "-0",
        "1.0",
        "1e2",
        "1e-7",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "01",
        "+1",
        ".5",
        "1.",
        "NaN",
        r#""\ud83d\ude00 \u0041""#,
        "\"\u{1}\"",
        "tru",
        "",
        " ",
        "{} {}",
        r#"{"a": 1, "a": {"b": 2}}"#,
        r#"{"a": {"x": 1, "y": 2}, "b": 1, "a": 2}"#,
        r#"{"a": 1,}"#,
        "[1 2]",
        r#"{"metadata": {"managedFields": [{"a": [1, {}]}], "name": "a"}}"#,
        r#"{"metadata": {"managedFields": {}}}"#,
        r#"{"metadata": {"managedFields": null, "managedFields": ["a", {}]}, "managedFields": null}"#,
        r#"{"metadata": {"managedFields": [1], "managedFields": null}}"#,
        r#"{"a": 1, "metadata": {"managedFields": [1], "name": "a"}, "a": 2}"#,
        r#"{"spec": {"metadata": {"managedFields": []}}}"#,
        r#"{"metadata": [{"managedFields": []}]}"#,
    ];
    let deep = [nested(127), long];
    for json in texts.iter().map(|json| (*json).to_owned()).chain(deep) {
        assert_reads(&json).unwrap();
    }
}

#[test]
fn what_go_reads_and_serde_json_does_not_is_unknown() {
    let read = |json: &str| Draft::read(json).unwrap().to_json();
    assert_eq!(
        read(r#"{"a": 1E400, "b": -1e999, "c": 2e3}"#),
        json!({"a": "${LEFT_OUT}", "b": "${LEFT_OUT}", "c": 2000})
    );
    let halves = r#"{"a": "x\ud83d", "\udc00": "\ud83d\ude00\\ud83d\u0041\ude00\n\""}"#;
    assert_eq!(read(halves), json!({"a": "x\u{fffd}", "\u{fffd}": "\u{1f600}\\ud83dA\u{fffd}\n\""}));
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for depth in [128, 129, 9_000, 200_000] {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            let inner = if open.ends_with(':') { "1" } else { "" };
            let json =
                format!(r#"{{"before": 1, "deep": {open}{inner}{close}, "kind": "Pod", "before": "a"}}"#);
            let draft = Draft::read(&json).unwrap();
            assert_eq!(
                (draft.string(&["kind"]), draft.string(&["before"])),
                (Some("Pod"), Some("a")),
                "{depth}"
            );
            assert!(draft.to_json().to_string().contains("${LEFT_OUT}"));
            // Cut, or of no JSON.
            assert!(Draft::read(&json[..json.len() - 1]).is_err());
            assert!(Draft::read(&json.replace("Pod\"", "Pod")).is_err());
        }
    }
    for wrong in [
        "]",
        "[1E400",
        r#"{"a": 1E400,}"#,
        r#""\ud83d"#,
        r#""\ud8"#,
        "\"\\",
        "\"\\ä",
        "1E400 ä",
        "-",
        "[--1e400]",
    ] {
        assert!(Draft::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_draft_answers_by_path() {
    let draft =
        Draft::read(r#"{"kind": "Pod", "metadata": {"name": "a", "labels": {}, "owners": [1]}}"#).unwrap();
    assert!(draft.is_mapping(&[]) && draft.is_mapping(&["metadata", "labels"]));
    assert!(draft.is_list(&["metadata", "owners"]) && !draft.is_list(&["metadata"]));
    assert_eq!(draft.string(&["metadata", "name"]), Some("a"));
    assert!(!draft.has(&["metadata", "uid"]) && draft.string(&["metadata"]).is_none());
    let tree = draft.into_tree();
    assert_eq!(Node::new(&tree, 0).path(&["metadata", "name"]).text(), Some("a"));
}
