//! Laws of the reader and of the engine, over generated input.
//!
//! `PROPTEST_CASES=1000000 cargo test --release -p gpulint-rules --test it laws` is the long run.

use std::sync::Arc;

use gpulint_rules::source::{Source, read};
use gpulint_rules::tree::Span;
use gpulint_rules::tree::scalar::Scalar;
use gpulint_rules::{Engine, Node, Object, Settings, Shape, fingerprints};
use gpulint_testing::{fixtures, values, yaml_below};
use proptest::prelude::*;

/// Fragments of YAML and of our kinds, so that random text often parses.
const PIECES: &[&str] = &[
    "apiVersion: karpenter.sh/v1\n",
    "kind: NodePool\n",
    "metadata:\n",
    "  name: gpu\n",
    "spec:\n",
    "  template:\n",
    "    spec:\n",
    "      requirements:\n",
    "        - key: a\n",
    "          operator: In\n",
    "          values: [g5, p4d]\n",
    "  limits:\n",
    "    nvidia.com/gpu: 8\n",
    "  disruption:\n",
    "    consolidateAfter: 9999999h\n",
    "    budgets:\n",
    "      - nodes: \"0\"\n",
    "        schedule: \"0 9 * * 7\"\n",
    "        duration: 8h\n",
    "---\n",
    "--- # c\n",
    "...\n",
    "\n",
    " ",
    "  ",
    "\t",
    "- ",
    "? ",
    ": ",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "&a ",
    "*a",
    "*b",
    "<<: *a\n",
    "!!str ",
    "!x ",
    "%YAML 1.1\n",
    "# gpulint: allow[x]\n",
    "#",
    "~",
    "null",
    "true",
    "on",
    "0777",
    "1e3",
    ".inf",
    "${X}",
    "{{ x }}",
    "<y>",
    "\r\n",
    "\u{feff}",
    "é",
    "\u{0}",
    "🦀",
    "apiVersion: v1\nkind: List\nitems:\n",
    "kind: Pod\n",
    "apiVersion: v1\n",
    "a: &a {b: *a}\n",
    "x: y\n",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(|p| p.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 1..4),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn check(bytes: &[u8], settings: Settings) -> Vec<String> {
    let source = Source::new("x.yaml", bytes.to_vec());
    let findings = gpulint_testing::check(&Engine::new(settings), [source]).findings;
    let names = fingerprints(&findings);
    findings
        .iter()
        .zip(names)
        .map(|(f, fingerprint)| {
            let (source, document, span) = f.location.resolve_span().expect("everything came from text");
            assert!(span.start <= span.end && span.end as usize <= source.text().len());
            assert!(source.text().is_char_boundary(span.start as usize));
            assert!(source.disk_offset(span.end) >= u64::from(span.end - span.start));
            format!("{document} {} {} {}", f.rule.id, f.message, fingerprint)
        })
        .collect()
}

/// Every node of a tree with its span. The walk follows each alias once.
fn walk(node: &Node<'_>, out: &mut Vec<(String, Span, Option<String>)>, budget: &mut usize) {
    if *budget == 0 {
        return;
    }
    *budget -= 1;
    if let Some(span) = node.span() {
        let value = match node.scalar() {
            Some(Scalar::Str(text)) => Some(text.to_owned()),
            _ => None,
        };
        out.push((node.pointer().to_string(), span, value));
    }
    match node.shape() {
        Shape::Mapping => {
            for (_, child) in node.entries() {
                walk(&child, out, budget);
            }
        }
        Shape::Sequence => {
            for child in node.items() {
                walk(&child, out, budget);
            }
        }
        _ => {}
    }
}

fn nodes(bytes: &[u8]) -> Vec<(String, Span, Option<String>)> {
    let source = Arc::new(Source::new("x.yaml", bytes.to_vec()));
    let mut out = Vec::new();
    let mut budget = 20_000;
    for document in read(&source) {
        for object in Object::from_document(&source, &document, false) {
            walk(&object.root(), &mut out, &mut budget);
        }
    }
    out
}

const GOOD: &str = include_str!("../../../fixtures/practices/000/01-inference-pool.yaml");

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_never_panics_and_points_into_the_text(bytes in text(), complete: bool) {
        check(&bytes, Settings { complete, ..Settings::default() });
    }

    #[test]
    fn same_input_same_findings(bytes in text()) {
        prop_assert_eq!(check(&bytes, Settings::default()), check(&bytes, Settings::default()));
    }

    #[test]
    fn what_is_inserted_before_shifts_every_span(lines in 0usize..5, rest in text()) {
        let mut before = "# a line\n".repeat(lines).into_bytes();
        let shift = before.len() as u32;
        let text = GOOD.as_bytes();
        let plain = nodes(text);
        before.extend_from_slice(text);
        let shifted = nodes(&before);
        prop_assert_eq!(plain.len(), shifted.len());
        for (a, b) in plain.iter().zip(&shifted) {
            prop_assert_eq!(&a.0, &b.0);
            prop_assert_eq!(a.1.start + shift, b.1.start);
            prop_assert_eq!(a.1.end + shift, b.1.end);
        }
        // A following document changes nothing before it.
        let mut after = text.to_vec();
        after.extend_from_slice(b"\n---\n");
        after.extend_from_slice(&rest);
        if !after.windows(2).any(|w| w == b"\n%") && std::str::from_utf8(&rest).is_ok() {
            let both = nodes(&after);
            prop_assert!(both.len() >= plain.len());
            prop_assert_eq!(&both[..plain.len()], &plain[..]);
        }
    }
}

/// Inputs that the generators found and that failed once.
#[test]
fn past_failures_stay_fixed() {
    for text in ["? \n- ", "? *ametadata:\n---\n"] {
        check(text.as_bytes(), Settings::default());
    }
}

#[test]
fn a_scalars_span_is_its_text() {
    let mut seen = 0;
    for path in yaml_below(&fixtures().join("practices")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (pointer, span, value) in nodes(text.as_bytes()) {
            let written = &text[span.start as usize..span.end as usize];
            if let Some(value) = value
                && !written.contains('\n')
                && !written.contains('\\')
            {
                let bare = written.trim_matches(|c| c == '"' || c == '\'');
                assert_eq!(bare, value.trim_end_matches('\n'), "{} {pointer}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "{seen}");
}

/// Our values equal those of an independent reader wherever both should agree.
#[test]
fn values_agree_with_a_second_reader() {
    let mut compared = 0;
    for folder in ["practices", "sets", "practices-repaired"] {
        for path in yaml_below(&fixtures().join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let ours = values(&text);
            let theirs: Vec<serde_json::Value> = serde_yaml::Deserializer::from_str(&text)
                .filter_map(|d| <serde_json::Value as serde::Deserialize>::deserialize(d).ok())
                .filter(|v| v.get("kind").is_some() && v.get("apiVersion").is_some())
                .collect();
            assert_eq!(ours, theirs, "{}", path.display());
            compared += ours.len();
        }
    }
    assert!(compared > 60, "{compared}");
}

/// A merged list may contain any values, but only its mappings have entries.
#[test]
fn a_merge_of_lists_has_no_entries() {
    let text = "apiVersion: v1\nkind: Pod\na: &a\n- [b]\n- {c: 1}\nd:\n  <<: *a\n";
    let source = Arc::new(Source::from_text("x.yaml", text));
    let documents = read(&source);
    let root = documents[0].root().unwrap();
    let merged = root.get("d");
    assert!(merged.get("b").is_absent());
    assert_eq!(merged.get("c").int(), Some(1));
    assert_eq!(merged.to_json(), serde_json::json!({"c": 1}));
}
