//! Reads a file and parses its objects.

use std::cell::LazyCell;
use std::io;
use std::io::Read as _;
use std::ops::Range;
use std::sync::Arc;

use gpulint_rules::source;
use gpulint_rules::source::{
    Document, FilledPlaceholder, MAX_BYTES, ParseDiagnostic, ParseDiagnosticKind, Source,
};
use gpulint_rules::tree::{PATCH_DIRECTIVE, Span};
use gpulint_rules::{
    CHART_LISTS, Fact, File, K3S_CHARTS, Kind, Node, Object, charts_of, facts_of_script, facts_of_text,
    minor_of, pins_of, unread_objects,
};
use rayon::prelude::*;

use super::broken::{has_template_action, is_manifest_text, is_script, is_ytt_template, mentions_kubernetes};
use super::filled::{Clues, has_placeholders};
use super::heredocs::{is_terraform, manifests_in};
use super::outcome::ReadOutcome;
use super::{Folders, Input, SkipReason, Skipped, system};

/// Number of bytes of text that one thread parses at a time.
const PARSE_CHUNK_BYTES: usize = 256 * 1024;

/// Number of documents of a file that one thread classifies at a time.
const CLASSIFIED_AT_A_TIME: usize = 256;

/// Reads files, each with its path relative to the folder of its configuration, and returns one outcome for
/// each. Calls `step` after each.
///
/// The tools that fill in placeholders depend on all files, so files with placeholders are parsed after the
/// others.
pub(crate) fn read_all(
    inputs: &[(&Input, &str)],
    folders: &Folders,
    step: impl Fn() + Sync,
) -> Vec<ReadOutcome> {
    let first = inputs.par_iter().map(|(input, scope)| {
        let content = Content::read(input, scope, folders);
        let Content::Bytes(bytes) = &content else {
            step();
            return (content, None);
        };
        let clues = input.stream.is_none().then(|| Clues::of(&input.absolute, bytes));
        // Text in another encoding cannot be searched for placeholders before it is decoded.
        if is_utf16(bytes) || has_placeholders(bytes) {
            return (content, clues);
        }
        let read = content.outcome(input, scope, folders);
        step();
        (Content::Read(read), clues)
    });
    let (contents, clues): (Vec<Content>, Vec<Option<Clues>>) = first.unzip();
    if contents.iter().any(|content| matches!(content, Content::Bytes(_))) {
        folders.fill_by(clues.into_iter().flatten().collect());
    }
    let second = contents.into_par_iter().zip(inputs).map(|(content, (input, scope))| {
        if matches!(content, Content::Bytes(_)) {
            step();
        }
        content.outcome(input, scope, folders)
    });
    second.collect()
}

/// Reads one file. `scope` is its path relative to the folder of its configuration.
pub(crate) fn read(input: &Input, scope: &str, folders: &Folders) -> ReadOutcome {
    Content::read(input, scope, folders).outcome(input, scope, folders)
}

/// The content of a file, before or after parsing.
enum Content {
    /// The content that is to be parsed.
    Bytes(Vec<u8>),
    /// The outcome, for a file that is not parsed or was parsed already.
    Read(ReadOutcome),
}

impl Content {
    fn read(input: &Input, scope: &str, folders: &Folders) -> Content {
        if let Some(reason) = folders.skip_reason(input) {
            if let Some(read) =
                (reason == SkipReason::Kustomization).then(|| unbuildable(input, scope, folders)).flatten()
            {
                return Content::Read(read);
            }
            // A file that cannot be opened is an error regardless of its name.
            return Content::Read(match input.stream.is_none().then(|| system::open(&input.path)) {
                Some(Err(error)) => failed(input, &error),
                _ => skip(input, reason),
            });
        }
        let content = match folders.disk.buffer(&input.absolute) {
            Some(text) if input.stream.is_none() => Ok(Some(text.as_bytes().to_vec())),
            _ => bytes(input),
        };
        let skip = |reason: SkipReason, bytes: Vec<u8>| {
            Content::Read(ReadOutcome { stream: input.stream.map(|_| bytes), ..skip(input, reason) })
        };
        match content {
            Err(error) => Content::Read(failed(input, &error)),
            Ok(None) => Content::Read(too_large(input, scope)),
            Ok(Some(bytes)) if is_binary(&bytes, input) => skip(SkipReason::NotText, bytes),
            Ok(Some(bytes)) if is_foreign_json(&bytes, input) => skip(SkipReason::Foreign, bytes),
            Ok(Some(bytes)) if is_foreign_yaml(&bytes, input) && !folders.is_patch(input) => {
                let facts = facts_of(input, &bytes);
                match skip(SkipReason::Foreign, bytes) {
                    Content::Read(read) => Content::Read(ReadOutcome { facts, ..read }),
                    other => other,
                }
            }
            Ok(Some(bytes)) => Content::Bytes(bytes),
        }
    }

    fn outcome(self, input: &Input, scope: &str, folders: &Folders) -> ReadOutcome {
        match self {
            Content::Read(outcome) => outcome,
            Content::Bytes(bytes) => {
                let stream = input.stream.map(|_| bytes.clone());
                ReadOutcome { stream, ..read_bytes(input, scope, folders, bytes) }
            }
        }
    }
}

/// A kustomization that lists files which do not exist. `None` if there are none.
fn unbuildable(input: &Input, scope: &str, folders: &Folders) -> Option<ReadOutcome> {
    let missing = folders.missing_resources(&input.absolute);
    if missing.is_empty() || input.stream.is_some() {
        return None;
    }
    let text = folders.disk.read_to_string(&input.absolute).ok()?;
    let source = Arc::new(Source::from_text(&input.display_path, &text).with_scope(scope));
    let mut documents = source::read(&source);
    for document in &mut documents {
        document.diagnostics = entries_without_file(document, &missing);
    }
    let file = File { source, documents, objects: Vec::new() };
    Some(ReadOutcome { file: Some(file), ..skip(input, SkipReason::Kustomization) })
}

/// The problem of a kustomization with missing entries, which are often those of one folder that is gone.
fn entries_without_file(document: &Document, missing: &[&str]) -> Vec<ParseDiagnostic> {
    let Some(root) = document.root() else { return Vec::new() };
    let lists = ["resources", "bases"].map(|field| root.get(field));
    let entries = lists.iter().flat_map(Node::items).filter_map(|entry| {
        let name = entry.text().filter(|name| missing.contains(name))?;
        Some((name.to_owned(), entry.span()?))
    });
    let entries: Vec<(String, Span)> = entries.collect();
    let Some((first, span)) = entries.first() else { return Vec::new() };
    let others: Vec<&str> = entries[1..].iter().map(|(name, _)| name.as_str()).collect();
    let message = match others.as_slice() {
        [] => format!("`{first}` does not exist: `kustomize build` fails"),
        [_] => format!("`{first}` and 1 more entry do not exist: `kustomize build` fails"),
        more => format!("`{first}` and {} more entries do not exist: `kustomize build` fails", more.len()),
    };
    vec![ParseDiagnostic {
        kind: ParseDiagnosticKind::MissingFile,
        span: *span,
        message,
        help: None,
        other: None,
        key_path: None,
    }]
}

/// Reads a file whose content is already in memory.
pub(crate) fn read_bytes(input: &Input, scope: &str, folders: &Folders, bytes: Vec<u8>) -> ReadOutcome {
    let is_terraform = is_terraform(&input.absolute);
    let bytes = match is_terraform.then(|| std::str::from_utf8(&bytes).ok().and_then(manifests_in)) {
        None => bytes,
        Some(Some(manifests)) => manifests.into_bytes(),
        Some(None) => return skip(input, SkipReason::Terraform),
    };
    let source = Source::new(&input.display_path, bytes).with_scope(scope);
    let source = source.with_kustomized(folders.is_kustomized(input)).with_patches(folders.targets(input));
    // Terraform fills in its expressions.
    let filled = match is_terraform {
        true => Arc::from([FilledPlaceholder::Syntax("${")]),
        false => folders.filled(input, source.text()),
    };
    let source = source.with_routes(folders.routes(input)).with_filled(filled);
    let source = source.with_left_out(folders.is_left_out(input));
    let is_patch = folders.is_patch(input);
    // Only what is a file stays the same between two states, and not what a program has printed.
    let is_file = input.stream.is_none() && !input.path.as_os_str().is_empty();
    let known = folders.disk.known().filter(|_| is_file);
    if let Some(read) = known.and_then(|known| known.find(&source, input.named, is_patch)) {
        return read;
    }
    let source = Arc::new(source);
    let documents = parse(&source);
    let mut read = classify_documents(input, Arc::clone(&source), documents, is_patch);
    read.facts.extend(facts_of(input, source.text().as_bytes()));
    if let Some(known) = known {
        known.keep(source, input.named, is_patch, &read);
    }
    read
}

/// What a file shows of the cluster beside its manifests: the charts that it installs as well, if it is a chart or a helmfile.
fn facts_of(input: &Input, bytes: &[u8]) -> Vec<(Fact, u32)> {
    let text = std::str::from_utf8(bytes);
    let mut facts = text.map(facts_of_text).unwrap_or_default();
    // Workflows and the like run commands.
    if memchr::memmem::find(bytes, b"apiVersion").is_none() {
        facts.extend(text.map(facts_of_script).unwrap_or_default());
    }
    let name = input.display_path.rsplit('/').next().unwrap_or_default();
    let is_list = name == "Chart.yaml" || CHART_LISTS.contains(&name);
    if is_list || memchr::memmem::find(bytes, K3S_CHARTS.as_bytes()).is_some() {
        let source = Source::new(name, bytes.to_vec());
        let line =
            |node: &Node<'_>| node.span().map(|span| source.lines().position(source.text(), span.start).line);
        for root in source::read(&source).iter().filter_map(Document::root) {
            let charts = charts_of(&root, name).into_iter();
            facts.extend(charts.filter_map(|one| Some((Fact::installs(one.text()?)?, line(&one)?))));
            if is_list {
                pins_of(&root, name, &mut |product, node, text| {
                    let version = minor_of(text).map(|version| Fact::Version(product, version));
                    facts.extend(version.zip(line(&node)));
                });
            }
        }
    }
    facts
}

/// Whether a file that the user did not name is a template of Terraform, judging by its name.
fn is_terraform_template(input: &Input) -> bool {
    let name = input.display_path.rsplit('/').next().unwrap_or_default();
    // What an expression gives may be any part of the YAML.
    is_terraform(&input.absolute)
        || !input.named
            && [".tftpl", ".tpl"].iter().any(|end| name.ends_with(end) || name.contains(&format!("{end}.")))
}

fn failed(input: &Input, error: &io::Error) -> ReadOutcome {
    ReadOutcome { error: Some(format!("{}: {error}", input.display_path)), ..ReadOutcome::default() }
}

fn skip(input: &Input, reason: SkipReason) -> ReadOutcome {
    ReadOutcome { skipped: vec![skipped(input, None, reason, false)], ..ReadOutcome::default() }
}

fn skipped(input: &Input, document: Option<u32>, reason: SkipReason, partial: bool) -> Skipped {
    Skipped { file: input.display_path.clone(), document, reason, partial }
}

/// The content; `None` if it exceeds the size limit.
fn bytes(input: &Input) -> io::Result<Option<Vec<u8>>> {
    if input.stream != Some(0) {
        return system::read_up_to(&input.path, MAX_BYTES);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_BYTES).then_some(bytes))
}

fn too_large(input: &Input, scope: &str) -> ReadOutcome {
    let span = Span::new(0, 0);
    let limit = MAX_BYTES / (1024 * 1024);
    let document = Document {
        number: 0,
        span,
        tree: None,
        diagnostics: vec![ParseDiagnostic {
            kind: ParseDiagnosticKind::Limit,
            span,
            message: format!("the file is larger than {limit} MiB"),
            help: None,
            other: None,
            key_path: None,
        }],
        comments: Vec::new(),
    };
    ReadOutcome {
        file: Some(File {
            source: Arc::new(Source::from_text(&input.display_path, "").with_scope(scope)),
            documents: vec![document],
            objects: Vec::new(),
        }),
        manifest: true,
        ..ReadOutcome::default()
    }
}

/// Files with NUL bytes are binary. If the name ends in `.yaml`, `.yml` or `.json`, at least a tenth must be
/// control characters: a single NUL in a manifest is a syntax error, which the parser reports.
fn is_binary(bytes: &[u8], input: &Input) -> bool {
    let sample = &bytes[..bytes.len().min(8192)];
    if is_utf16(sample) {
        return false;
    }
    if !sample.contains(&0) {
        return false;
    }
    let control = sample.iter().filter(|b| **b < 0x20 && !matches!(b, b'\n' | b'\r' | b'\t')).count();
    input.stream.is_none() && !has_manifest_name(input) || control * 10 > sample.len()
}

fn has_manifest_name(input: &Input) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|e| input.display_path.ends_with(e))
}

/// Data and settings of other programs, often JSON with comments. They are not checked, not even for syntax
/// errors.
fn is_foreign_json(bytes: &[u8], input: &Input) -> bool {
    const KEY: &[u8] = b"apiVersion";
    !input.named
        && input.display_path.ends_with(".json")
        && !is_utf16(bytes)
        && memchr::memmem::find(bytes, KEY).is_none()
}

/// Whether YAML certainly belongs to another program, regardless of whether it parses. The report on such a
/// file must not depend on its syntax.
fn is_foreign_yaml(bytes: &[u8], input: &Input) -> bool {
    let has = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    if input.named || is_utf16(bytes) || has("apiVersion") || has("{{") || is_terraform_template(input) {
        return false;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    if is_of_prometheus(text) {
        return false;
    }
    // A document that has only comments, separators or null is empty.
    let is_entry = |line: &str| {
        let line = line.trim();
        !line.starts_with(['#', '%', '-', '.']) && (line.contains(": ") || line.ends_with(':'))
    };
    text.lines().any(is_entry) && !(has("kind") && mentions_kubernetes(text))
}

/// Whether a text may be a file of Prometheus: one with rules, or with jobs that scrape.
fn is_of_prometheus(text: &str) -> bool {
    let begins = |key: &str| text.lines().any(|line| line.starts_with(key));
    begins("groups:") && text.contains("expr:") || begins("scrape_configs:") && text.contains("job_name:")
}

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF])
}

fn parse(source: &Source) -> Vec<Document> {
    if source.text().len() <= PARSE_CHUNK_BYTES {
        let parts = source::split_documents(source.text()).into_iter();
        return source::assign_numbers(parts.map(|part| source::parse_manifest(source, part)));
    }
    let mut groups: Vec<Vec<Range<usize>>> = vec![Vec::new()];
    let mut size = 0;
    for part in source::split_documents(source.text()) {
        if size > PARSE_CHUNK_BYTES {
            groups.push(Vec::new());
            size = 0;
        }
        size += part.len();
        if let Some(group) = groups.last_mut() {
            group.push(part);
        }
    }
    let parsed: Vec<Vec<Document>> = groups
        .into_par_iter()
        .map(|group| group.into_iter().flat_map(|part| source::parse_manifest(source, part)).collect())
        .collect();
    source::assign_numbers(parsed.into_iter())
}

/// Keeps the documents that are manifests, and collects the reasons why the others are skipped.
fn classify_documents(
    input: &Input,
    source: Arc<Source>,
    documents: Vec<Document>,
    patch: bool,
) -> ReadOutcome {
    if documents.is_empty() {
        return skip(input, SkipReason::Empty);
    }
    // Evaluated only if something does not parse, and at most once per file.
    let ours = LazyCell::new(|| input.named || mentions_kubernetes(source.text()));
    let first = documents.first().filter(|first| first.root().is_none());
    let is_around = !input.named && first.is_some_and(|first| is_script(text_of(&source, first)));
    let is_ours = |document: &Document| input.named || is_manifest_text(text_of(&source, document));
    let mut read = ReadOutcome::default();
    let mut kept = Vec::with_capacity(documents.len());
    let mut objects = Vec::new();
    let classes: Vec<DocumentClass> = documents
        .par_iter()
        .with_min_len(CLASSIFIED_AT_A_TIME)
        .map(|document| classify(&source, document, patch))
        .collect();
    for (document, class) in documents.into_iter().zip(classes) {
        let number = Some(document.number);
        let is_template = matches!(
            class,
            DocumentClass::Broken | DocumentClass::Other(SkipReason::HelmTemplate | SkipReason::YttTemplate)
        );
        if is_template {
            let first = source.lines().position(source.text(), document.span.start).line;
            let objects = unread_objects(text_of(&source, &document)).into_iter();
            read.facts.extend(objects.map(|(fact, line)| (fact, first + line - 1)));
        }
        match class {
            DocumentClass::Other(reason) => {
                read.skipped.push(skipped(input, number, reason, false));
            }
            DocumentClass::Broken if is_terraform_template(input) => {
                read.skipped.push(skipped(input, number, SkipReason::TerraformTemplate, false));
            }
            DocumentClass::Broken if !*ours || is_around || !is_ours(&document) => {
                read.skipped.push(skipped(input, number, SkipReason::Foreign, false));
            }
            DocumentClass::Broken => {
                read.manifest = true;
                kept.push(document);
            }
            DocumentClass::Objects(found) => {
                if patch || found.iter().any(is_patch) {
                    let template = !patch && found.iter().any(Object::is_pod_template);
                    let reason = if template { SkipReason::PodTemplate } else { SkipReason::KustomizePatch };
                    read.skipped.push(skipped(input, number, reason, true));
                } else {
                    read.manifest = true;
                }
                objects.extend(found);
                kept.push(document);
            }
        }
    }
    if !read.manifest {
        collapse_to_file(&mut read.skipped);
    }
    read.file = (!kept.is_empty()).then_some(File { source, documents: kept, objects });
    read
}

/// Replaces the entries of all documents by one for the file if they are equal.
fn collapse_to_file(skipped: &mut Vec<Skipped>) {
    let same = |a: &Skipped, b: &Skipped| (a.reason, a.partial) == (b.reason, b.partial);
    if skipped.windows(2).all(|w| same(&w[0], &w[1])) {
        skipped.truncate(1);
        if let Some(only) = skipped.first_mut() {
            only.document = None;
        }
    }
}

fn text_of<'a>(source: &'a Source, document: &Document) -> &'a str {
    source.text().get(document.span.start as usize..document.span.end as usize).unwrap_or_default()
}

fn is_patch(object: &Object) -> bool {
    object.is_partial() && !object.is_incomplete()
}

enum DocumentClass {
    Objects(Vec<Object>),
    Broken,
    Other(SkipReason),
}

const CRD: Kind = Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");

fn classify(source: &Arc<Source>, document: &Document, patch: bool) -> DocumentClass {
    let Some(root) = document.root() else {
        let syntax = document.diagnostics.iter().any(|p| p.kind == ParseDiagnosticKind::Syntax);
        // An action above the first key is a document of its own for the parser.
        let before = source.text().get(..document.span.start as usize).unwrap_or_default();
        let from = before.rfind("\n---").unwrap_or(0);
        let text = source.text().get(from..document.span.end as usize).unwrap_or_default();
        return if syntax && has_template_action(text) {
            DocumentClass::Other(SkipReason::HelmTemplate)
        } else {
            DocumentClass::Broken
        };
    };
    if is_ytt_template(text_of(source, document)) {
        return DocumentClass::Other(SkipReason::YttTemplate);
    }
    let mut objects = Object::from_document(source, document, patch);
    if objects.is_empty() {
        // An empty Kubernetes list is a manifest.
        let list = root.get("items").is_sequence()
            && root.get("apiVersion").text().is_some()
            && root.get("kind").text().is_some_and(|k| k.ends_with("List"));
        return match (list, patch) {
            (true, _) => DocumentClass::Objects(objects),
            // A list of RFC 6902 operations.
            (false, true) => DocumentClass::Other(SkipReason::KustomizePatch),
            (false, false) => DocumentClass::Other(SkipReason::Foreign),
        };
    }
    // kustomize's own transformers and generators have the version `builtin`.
    let kustomize = |o: &Object| {
        o.id().group == "kustomize.config.k8s.io" || o.id().group.is_empty() && o.id().version == "builtin"
    };
    if objects.iter().all(kustomize) {
        return DocumentClass::Other(SkipReason::Kustomization);
    }
    // The core group has one version: what has no name and another one is a document of another program, such as Talos.
    if objects.iter().all(|o| o.id().group.is_empty() && o.id().version != "v1" && is_patch(o)) {
        return DocumentClass::Other(SkipReason::Foreign);
    }
    // A patch that removes an object has no field of it.
    let removes = |o: &Object| o.get(PATCH_DIRECTIVE).text() == Some("delete");
    if objects.iter().all(removes) {
        return DocumentClass::Other(SkipReason::KustomizePatch);
    }
    objects.retain(|o| !o.is(CRD));
    if objects.is_empty() {
        return DocumentClass::Other(SkipReason::Crd);
    }
    DocumentClass::Objects(objects)
}
