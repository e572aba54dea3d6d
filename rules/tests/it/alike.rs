//! Documents of one file that are equal but for their names are parsed once and judged once: that changes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use gpulint_rules::lint::fix::text::edits;
use gpulint_rules::source::{AlikeDocuments, Document, Source, assign_numbers, read, split_documents};
use gpulint_rules::{Engine, File, Location, Node, Object, Partition, RunInput, Settings, check_run};
use gpulint_testing::{fixtures, relative, yaml_below};
use regex::Regex;

/// A file whose alike documents share what they have in common.
fn read_alike(source: Source) -> File {
    let source = Arc::new(source);
    let alike = AlikeDocuments::new(&source);
    let parts = split_documents(source.text()).into_iter();
    let documents = assign_numbers(parts.map(|part| alike.parse_manifest(part)));
    let objects = documents.iter().flat_map(|one| Object::from_document(&source, one, false)).collect();
    File { source, documents, objects }
}

/// The documents of a text that name an object in the first line of its metadata, each again under other names of the same
/// length, and under one that is longer.
fn copies(text: &str) -> String {
    let name = Regex::new(r"\nmetadata:\n +name: ([a-z][a-z0-9-]*)").unwrap();
    let mut out = String::new();
    for first in ["q", "z", "train-and-q"] {
        for part in split_documents(text) {
            let part = &text[part];
            let Some(found) = name.captures(part).and_then(|found| found.get(1)) else { continue };
            let begin = if part.starts_with("---") { "" } else { "---\n" };
            let (before, after) = (&part[..found.start()], &part[found.start() + 1..]);
            let end = if part.ends_with('\n') { "" } else { "\n" };
            write!(out, "{begin}{before}{first}{after}{end}").unwrap();
        }
    }
    out
}

/// Every node below one, with its place.
fn walk(node: &Node<'_>, out: &mut String) {
    let written =
        (node.pointer().to_string(), node.span(), node.key_span(), node.scalar(), node.is_unknown());
    writeln!(out, "{written:?} {:?}", node.shape()).unwrap();
    node.entries().iter().for_each(|(_, child)| walk(child, out));
    node.items().for_each(|item| walk(&item, out));
}

fn shown(document: &Document) -> String {
    let mut out = format!("{} {:?} {:?}", document.number, document.span, document.diagnostics.len());
    if let Some(root) = document.root() {
        walk(&root, &mut out);
    }
    out
}

/// What a check says of a file, with the edits of all fixes.
fn findings(engine: &Engine, file: &File) -> String {
    let mut out = String::new();
    let reports = check_run(&[Some(RunInput { engine, file })], &Partition::default(), None);
    for finding in reports.into_iter().flatten().flat_map(|report| report.findings) {
        let place = |location: &Location| location.resolve_span().map(|(_, document, span)| (document, span));
        let related: Vec<_> =
            finding.related.iter().map(|one| (place(&one.location), one.message.clone())).collect();
        let fixed =
            finding.location.object().zip(finding.fix.as_ref()).map(|(object, fix)| edits(object, fix));
        let said = (finding.rule.id, finding.severity, &finding.message, &finding.help);
        writeln!(out, "{said:?} {:?} {related:?} {:?} {fixed:?}", place(&finding.location), finding.fix)
            .unwrap();
    }
    out
}

#[test]
fn what_documents_have_in_common_changes_nothing() {
    let engines = [false, true].map(|complete| Engine::new(Settings { complete, ..Settings::default() }));
    let mut shared = 0;
    for path in yaml_below(&fixtures()) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let copies = copies(&text);
        if copies.is_empty() || text.len() > 50_000 {
            continue;
        }
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{text}{end}{copies}");
        let name = relative(&path);
        let source = || Source::from_text(&name, &text);
        let (plain, alike) = (File::read(source()), read_alike(source()));
        assert_eq!(plain.documents.len(), alike.documents.len(), "{name}");
        for (one, other) in plain.documents.iter().zip(&alike.documents) {
            assert_eq!(shown(one), shown(other), "{name}");
        }
        shared += alike.objects.iter().filter(|object| object.is_alike()).count();
        for engine in &engines {
            assert_eq!(findings(engine, &plain), findings(engine, &alike), "{name}");
        }
    }
    assert!(shared > 1_000, "{shared}");
}

#[test]
fn only_names_that_mean_nothing_to_a_parser_are_set_apart() {
    let pool = |name: &str, rest: &str| {
        format!("---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: {name}\n{rest}")
    };
    let tricky = [
        ["a-b", "c-d"],
        ["a-b # x", "c-d # x"],
        ["'a-b'", "'c-d'"],
        ["&x a-b", "&x c-d"],
        ["nul", "yes"],
        ["a-b\n    c", "c-d\n    c"],
        ["a-b: c", "c-d: c"],
        ["a-b\r", "c-d\r"],
        ["a--", "b--"],
        ["1-2", "3-4"],
        ["a-${X}", "b-${X}"],
    ];
    for names in tricky {
        for rest in [
            "spec: {}\n",
            "  labels: {x: *x}\nspec: {}\n",
            "spec: {a: \"\\u0041\"}\n",
            "spec: |\n  a\n",
            "spec: [\n",
        ] {
            let text: String = names.iter().chain(&names).map(|name| pool(name, rest)).collect();
            let source = Arc::new(Source::from_text("a.yaml", &text));
            let plain: Vec<String> = read(&source).iter().map(shown).collect();
            let alike: Vec<String> =
                read_alike(Source::from_text("a.yaml", &text)).documents.iter().map(shown).collect();
            assert_eq!(plain, alike, "{text}");
        }
    }
}
