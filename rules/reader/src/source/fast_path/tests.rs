use super::*;
use crate::source::granit::parse_full;
use crate::tree::node::Node;
use proptest::prelude::*;

fn dump(documents: &[Document]) -> String {
    let mut out = String::new();
    for document in documents {
        out.push_str(&format!("{:?} {:?}\n", document.span, document.comments));
        out.push_str(&format!("{:?}\n", document.diagnostics));
        if let Some(tree) = &document.tree {
            for slot in &tree.slots {
                out.push_str(&format!("{slot:?}\n"));
            }
            out.push_str(&format!("{:?}\n{:?}\n", tree.out_of_line_keys, tree.strings));
        }
    }
    out
}

/// Compares both parsers on each chunk of the text; returns the number of chunks that the fast path
/// parsed.
fn agree(text: &str) -> usize {
    let source = Source::from_text("x.yaml", text);
    let mut taken = 0;
    for part in crate::source::split_documents(source.text()) {
        agree_in_outline(&source, &part);
        if let Some(documents) = parse_simple(&source, &part) {
            taken += 1;
            let expected = parse_full(&source, part.clone());
            assert_eq!(dump(&documents), dump(&expected), "of {:?}", &source.text()[part]);
        }
    }
    taken
}

/// Asserts that an outline has the entries of the root of a document, and that the document parses.
fn agree_in_outline(source: &Source, part: &Range<usize>) {
    let Some(outline) = parse_outline(source, part) else { return };
    let whole = parse_full(source, part.clone());
    let text = &source.text()[part.clone()];
    assert_eq!(outline.len(), whole.len(), "of {text:?}");
    for (outline, whole) in outline.iter().zip(&whole) {
        assert_eq!((outline.span, &outline.comments), (whole.span, &whole.comments), "of {text:?}");
        let (Some(outline), Some(whole)) = (outline.root(), whole.root()) else {
            panic!("one of {text:?} does not parse");
        };
        let entries = |root: &Node<'_>| -> Vec<(String, Option<String>)> {
            let entries = root.entries().into_iter();
            entries.map(|(key, value)| (key.to_owned(), value.raw_text().map(str::to_owned))).collect()
        };
        assert_eq!(entries(&outline), entries(&whole), "of {text:?}");
    }
}

#[test]
fn the_end_of_the_document_is_in_no_scalar() {
    for text in ["a:\n  \"b\\\n...\n     >'b'\n\"\n", "a: \"b\\\n  ...\n  c\"\n"] {
        agree(text);
    }
}

#[test]
fn a_merge_into_the_root_has_no_outline() {
    for text in ["<<: \n  nested: 1\n", "a: 1\n<<: {b: c}\n", "a: &x {b: c}\n<<: *x\n", "a:\n  <<: {b: c}\n"]
    {
        agree(text);
    }
    let source = Source::from_text("x.yaml", "a: 1\n<<:\n  b: c\n");
    assert!(parse_outline(&source, &(0..source.text().len())).is_none());
}

#[test]
fn of_a_definition_only_the_outline_is_kept() {
    let text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a\nspec:\n  b: [c]\n";
    let nodes = |text: &str| -> Vec<usize> {
        let source = Source::from_text("x.yaml", text);
        let parts = crate::source::split_documents(source.text()).into_iter();
        let documents = parts.flat_map(|part| crate::source::parse_manifest(&source, part));
        documents.map(|document| document.tree.map_or(0, |tree| tree.slots.len())).collect()
    };
    assert_eq!(nodes(text), [5]);
    // Text that does not parse, and text outside the subset.
    assert_eq!(nodes(&format!("{text}  d: e: f\n")), [0]);
    assert_eq!(nodes(&text.replace("apiextensions.k8s.io/v1", "v1")), [8]);
}

#[test]
fn everyday_manifests_are_taken() {
    for text in [
        "a: b\n",
        "a: b",
        "a:\n  b: c\n",
        "a:\n",
        "a:",
        "a:\n\n\nb:\n",
        "a: # c\n  b: 1 # d\n",
        "---\na: b\n",
        "# x\n---\n# y\na: b\n# z\n",
        "a:\n- b\n- c\nd: e\n",
        "a:\n  - b: 1\n    c: 2\n  - d: [x, y, 'z']\n  -\n    e: f\n  -\ng: {h: i, j: {}, k: []}\n",
        "- - a\n  - b\n- c\n",
        "- a: b\n  c:\n    d\n",
        "'a b': \"c d\"\n\"e\": 'f'\n",
        "a: x y z   # gpulint: allow[b] c\n# gpulint: allow[d] e\nf: \"0\"\n",
        "a: b\na: c\n",
        "image: registry.example/x:1.2\nargs: [--a=b, -c, \"d\"]\n",
        "n: ~\nm: null\non: y\n1: 2\n",
        "a:\n  b:\n    c:\n  d: e\n",
        "한: b\na: 한글 — x\n",
        "a: x\u{a0}y ⚠\u{fe0f} z\n",
        "a: |\n  b\n   c\n\n  d\n\n\ne: f\n",
        "a:\n  - |-\n    b # c\n  - b: |+ # gpulint: d\n      c\n\n    d: e\n",
        "a: >\n  b\n  c\n\n  d\n    e\n  f\ng: >-\n  h",
        "a: |\n  b",
        "a: |\n\n  b\n  ",
        "a: |\n  b\n     ",
        "a:\n- |\n b\n# gpulint: x\nc: d\n",
        "a: |2-\n   b\n  c\nd:\n  e: |-2 # f\n\n      g\n     \n    h\n",
        "a:\n  - >1\n    b\n   c\n  - d: |2+\n      e\n\n",
        "a: b c\n  d 'e\n\n  - f # gpulint: g\nh: i\n",
        "a:\n  b\n  c\nd:\n- e\n  f\n- \"g\"\n",
        "a: 'it''s b'\nc: 'd\\e'\nf: 'g\n  h\n\n  i\n  '\n",
        "a: \"b\\n\\\"c\\\" \\u00e9\\x41\\U0001F600 \\\n  \\  d\n   e \n\n   f\"\n",
        "{\n  \"a\": [1, -2.5e3, true,\n  {}],\n\"b\":\"c\\n\"\n}\n",
        "a: &x b\nc: *x\nd:\n  - *x\n  - &y e f\n  - *y # gpulint: g\n",
        "a: &x\n  b: c\nd: *x\ne:\n  <<: *x\n  f: &x [g]\nh: *x\n",
        "a:\n  - &x\n    b: c\n  - &y # d\n    - e\n  - <<: *x\n    f: &z \"g\"\n  - *z\n",
        "a: &x |\n  b\nc: &y\n- *x\nd: &z 'e\n  f'\ng: &x {h: i}\n",
        "a: [b,\n  c, {d: e,\n  f: \"g\"}\n  ]\nh: i\n",
        "a: [{b: 10%, c: arn:aws:x}, http://d:80/e?f=*&g!, h@i | j > k, l\\m`]\n",
        "a: &x b\nc: {d: *x, e: [*x ,*x]}\n",
    ] {
        let taken = agree(text);
        assert_eq!(taken > 0, !text.starts_with("한"), "{text:?}");
    }
}

const PIECES: &[&str] = &[
    "''",
    "'it''s'",
    "\\n",
    "\\\"",
    "\\\n",
    "\\x41",
    "a: |\n",
    "a: |-\n  b\n",
    "a: >\n",
    "a: |2-\n",
    "|1+\n",
    "- >2\n",
    "a: |2\n   b\n  c\n",
    "|+\n",
    "\"b\":",
    "\u{a0}",
    "\u{fe0f}",
    "\u{fffe}",
    "a: 'b\n",
    "a: \"b\n",
    "[\n",
    "\n]",
    "a",
    "b: c",
    "key:",
    "key: ",
    ": ",
    ":",
    "- ",
    "-",
    "- a: b",
    "\n",
    "\n",
    "\n",
    "\n  ",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    " ",
    "  ",
    "# c",
    " # gpulint: allow[x]",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "[a, b]",
    "{a: b}",
    "{}",
    "[]",
    "\"",
    "'",
    "\"q\"",
    "'q'",
    "---",
    "\n---\n",
    "...",
    "|",
    ">-",
    "&a ",
    "&a\n",
    "a: &b c\n",
    "b: *b\n",
    "- &a\n",
    "- *a\n",
    "<<: *a\n",
    "*a",
    "!!str ",
    "? ",
    "<<: ",
    "%",
    "@",
    "~",
    "null",
    "on",
    "0x1",
    ".inf",
    "1_000",
    "\\",
    "$",
    "(",
    ")",
    "é",
    "—",
    "\u{2028}",
    "\u{85}",
    "\t",
    "\r\n",
    "\u{feff}",
    "🦀",
    "x y",
    "a:b",
    "-a",
    "--",
    "=",
    "<",
    ";",
    "^",
    "+",
    "/",
    ".",
    "_",
    "key: value\n",
    "other:\n",
    "  nested: 1\n",
];

/// The beginnings of scalars and collections over several lines.
const OPENINGS: &[&str] = &[
    "a: |\n",
    "a: >\n",
    "a: |-\n",
    "a: >+\n",
    "a: |+\n",
    "a: |2\n",
    "a: | # gpulint: x\n",
    "a: >-  \n",
    "- |\n",
    "- >\n",
    "a:\n- |\n",
    "a:\n  - b: |\n",
    "a:\n  b: >\n",
    "a: b\n",
    "a:\n",
    "- b\n",
    "-\n",
    "a:\n  - b\n",
    "a: 'b\n",
    "a: \"b\n",
    "- 'b\n",
    "- \"b \n",
    "a:\n  'b\n",
    "a:\n  \"b\\\n",
    "a: [b\n",
    "a: {b: c\n",
    "{\n",
    "[\n",
    "- [\n",
    "a:\n  [b,\n",
    "a:\n  - {b: c,\n",
    "{\"a\": \"b\",\n",
    "a: b # gpulint: x\n",
    "|\n",
    "'b\n",
    "b\n",
];

/// Parts of their lines.
const WORDS: &[&str] = &[
    "",
    "",
    "",
    "b",
    "c d",
    " ",
    "  ",
    "#",
    " # gpulint: x",
    "-",
    "- ",
    "- b",
    "b:",
    "b: c",
    ":",
    ": ",
    "'",
    "''",
    "\"",
    "\\",
    "\\\\",
    "\\n",
    "\\ ",
    "\\u00e9",
    "\\q",
    "[",
    "]",
    "{",
    "}",
    ",",
    ", ",
    "b, ",
    "\"b\": ",
    "\"b\":",
    "'b'",
    "|",
    ">",
    "&b",
    "*b",
    "!",
    "?",
    "? ",
    "%",
    "@",
    "...",
    "---",
    "é",
    "\u{a0}",
    "⚠\u{fe0f}",
    "\t",
    "\r",
];

/// The ends of scalars and collections.
const CLOSINGS: &[&str] = &[
    "",
    "c: d\n",
    "  c: d\n",
    "- c\n",
    "'\n",
    "\"\n",
    "  '\nc: d\n",
    "\" # x\nc: d\n",
    "]\n",
    "  ]\nc: d\n",
    "}\n",
    "  }\n",
    "# gpulint: y\n",
    " # y\nc: d\n",
    "   ",
];

/// Parts of flow collections.
const FLOW_PIECES: &[&str] = &[
    "a", "b c", "10%", "a:b", "a: b", ", ", ",", " ", "{", "}", "[", "]", "{c: ", "[d, ", "*b", "*b ", "&b ",
    "%", "*", "|", ">", "!", "?", "? ", "@", "`", "'", "\"", "'e'", "#", " #", "\\", "://", "-", "- ", "-1",
    ":", "::", ": ", ":a", "é", "\n  ", "\n", "<<: ", "<<: *b", "~", "(", ")", "$", "=", "&", "1.5", "x",
    "b: ", "\"f\":",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_quick_reader_agrees_with_the_other(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24),
    ) {
        agree(&pieces.concat());
    }

    #[test]
    fn the_quick_reader_agrees_on_lines(
        lines in proptest::collection::vec(
            (0usize..4, proptest::sample::select(PIECES), proptest::sample::select(PIECES)),
            0..16,
        ),
    ) {
        let text: String = lines
            .iter()
            .map(|(indent, a, b)| format!("{}{a}{b}\n", "  ".repeat(*indent)))
            .collect();
        agree(&text);
    }

    #[test]
    fn the_quick_reader_agrees_on_flow_collections(
        pieces in proptest::collection::vec(proptest::sample::select(FLOW_PIECES), 0..20),
        closing in proptest::sample::select(&["]", "}", "}]", "]\nc: d\n", ""][..]),
    ) {
        agree(&format!("x: &b y\na: [{}{closing}", pieces.concat()));
        agree(&format!("x: &b {{y: z}}\na: {{b: {}{closing}", pieces.concat()));
    }

    #[test]
    fn the_quick_reader_agrees_on_scalars_over_several_lines(
        opening in proptest::sample::select(OPENINGS),
        lines in proptest::collection::vec(
            (0usize..7, proptest::sample::select(WORDS), proptest::sample::select(WORDS)),
            0..8,
        ),
        closing in proptest::sample::select(CLOSINGS),
    ) {
        let lines = lines.iter().map(|(indent, a, b)| format!("{}{a}{b}\n", " ".repeat(*indent)));
        let text: String = std::iter::once(opening.to_string()).chain(lines).chain([closing.to_string()]).collect();
        agree(&text);
        agree(text.trim_end_matches('\n'));
    }
}

/// The schemas are parsed in every run.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the schemas")]
fn the_schemas_are_within_the_subset() {
    for path in gpulint_testing::yaml_below(&gpulint_testing::fixtures().join("../rules/schemas")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let source = Source::from_text("a.yaml", &text);
        for part in crate::source::split_documents(source.text()) {
            assert!(parse_simple(&source, &part).is_some(), "{}", path.display());
        }
    }
}
