//! Finds where a value in the output of a kustomization is written: in the base, in a patch, or in a field of
//! a kustomization.

use std::sync::Arc;

use gpulint_rules::lint::fix::text;
use gpulint_rules::lint::fix::text::Repair;
use gpulint_rules::source;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Fix, Location, Node, Object, Operation, Pointer};
use serde_json::Value;

use super::Place;
use super::sources::Sources;
use crate::files::{Kustomization, Patch, absolute, patches};

/// The fields that name an item of a list.
const ITEM_KEYS: [&str; 9] =
    ["name", "key", "containerPort", "port", "mountPath", "deviceName", "topologyKey", "ip", "type"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File(String),
    /// The kustomization that generates it.
    Generated(String),
}

/// The origin of an object: its file, and whether it is generated.
pub(super) struct Written {
    pub(super) file: Option<Arc<Source>>,
    pub(super) is_generated: bool,
}

/// The value of a rendered object to locate.
struct Sought<'n> {
    object: &'n Object,
    /// The steps of the pointer that exist in the object.
    steps: Vec<String>,
    /// The steps of the pointer that do not exist in the object.
    missing: Vec<String>,
    node: Node<'n>,
    key: bool,
}

/// The kustomizations that built an object, outer ones first, and the texts of all files.
pub(super) struct BuiltBy {
    pub(super) kustomizations: Vec<Kustomization>,
    pub(super) sources: Arc<Sources>,
}

impl BuiltBy {
    /// The first result of `of` for a kustomization, its text and its root.
    fn find_map<T>(&self, of: impl Fn(&Kustomization, &Arc<Source>, &Node<'_>) -> Option<T>) -> Option<T> {
        self.kustomizations.iter().find_map(|kustomization| {
            let source = self.sources.get(&kustomization.file)?;
            let documents = source::read(&source);
            of(kustomization, &source, &documents.first()?.root()?)
        })
    }

    /// The text of a patch: its file, or the inline text in the kustomization.
    fn text_of(&self, kustomization: &Kustomization, patch: &Patch<'_>) -> Option<Arc<Source>> {
        match (&patch.inline, patch.file) {
            (Some(inline), _) => Some(Arc::new(Source::from_text("patch", inline.raw_text()?))),
            (None, file) => self.sources.get(&absolute(&kustomization.folder().join(file?))),
        }
    }
}

/// Finds the place of the user's text from which a place in a rendered object comes.
pub(super) fn locate(written: &Written, by: &BuiltBy, location: &Location) -> Option<Place> {
    let file = written.file.as_ref()?;
    let begin = || Place { source: Arc::clone(file), span: first_key(file), is_literal: false };
    let Location::Field { object, pointer, key } = location else { return Some(begin()) };
    let (node, found) = existing(object, pointer);
    let (steps, missing) = pointer.steps().split_at(found);
    let sought = Sought { object, steps: steps.to_vec(), missing: missing.to_vec(), node, key: *key };
    if written.is_generated {
        return in_kustomizations(by, &sought).or_else(|| generator(by, &sought)).or_else(|| Some(begin()));
    }
    let base = base_object(file, object);
    if let Some(base) = &base {
        let (at, steps) = follow(&object.root(), &base.root(), &sought.steps);
        let same = at.as_ref().is_some_and(|at| has_value(at, &sought.node));
        let lacks = at.as_ref().is_some_and(|at| {
            let first = sought.missing.first();
            first.is_none_or(|first| child(at, first).is_absent())
        });
        if same && lacks {
            let steps = steps.into_iter().chain(sought.missing.iter().cloned());
            let location = Location::Field {
                object: base.clone(),
                pointer: Pointer::from_steps(steps),
                key: sought.key,
            };
            if let Some((source, _, span)) = location.resolve_span() {
                return Some(Place { source: Arc::clone(source), span, is_literal: true });
            }
        }
    }
    if let Some(place) = in_kustomizations(by, &sought) {
        return Some(place);
    }
    let Some(base) = base else { return Some(begin()) };
    let (_, steps) = follow(&object.root(), &base.root(), &sought.steps);
    let location = Location::Field { object: base, pointer: Pointer::from_steps(steps), key: sought.key };
    let (source, _, span) = location.resolve_span()?;
    Some(Place { source: Arc::clone(source), span, is_literal: false })
}

/// The edits of the base that apply a fix to the built object. The base must contain the fixed part as the
/// object has it, and no patch may change it.
pub(super) fn repair(
    written: &Written,
    by: &BuiltBy,
    location: &Location,
    fix: &Fix,
) -> Option<(Arc<Source>, Repair)> {
    let file = written.file.as_ref().filter(|_| !written.is_generated)?;
    let object = location.object()?;
    let base = base_object(file, object)?;
    // One base may become several objects, all of which an edit of the base changes.
    let rendered = &object.origin()?.source;
    let same = |other: &Object| {
        let place = |object: &Object| object.origin().map(|origin| (origin.document, object.root().span()));
        base_object(file, other).is_some_and(|other| place(&other) == place(&base))
    };
    let documents = source::read(rendered);
    let objects = documents.iter().flat_map(|document| Object::from_document(rendered, document, true));
    if objects.filter(same).count() != 1 {
        return None;
    }
    let (id, own) = (object.id(), base.id());
    let is_renamed = (&id.name, id.namespace()) != (&own.name, own.namespace());
    for operation in &fix.operations {
        let (paths, value) = match operation {
            Operation::Test { path, value }
            | Operation::Add { path, value }
            | Operation::Replace { path, value } => (vec![path], Some(value)),
            Operation::Remove { path } => (vec![path], None),
            Operation::Move { from, path } => (vec![from, path], None),
        };
        let names = |value: &Value| value.to_string().contains(&id.name);
        if is_renamed && value.is_some_and(names) || !fix.creates.is_empty() {
            return None;
        }
        for path in paths {
            let pointer = Pointer::parse(path)?;
            let (node, found) = existing(object, &pointer);
            let (steps, missing) = pointer.steps().split_at(found);
            let (at, same) = follow(&object.root(), &base.root(), steps);
            let at = at.filter(|_| same == steps)?;
            let end = missing.first().filter(|step| *step != "-");
            if end.is_some_and(|step| !child(&at, step).is_absent()) || at.to_json() != node.to_json() {
                return None;
            }
            let sought =
                Sought { object, steps: steps.to_vec(), missing: missing.to_vec(), node, key: false };
            if is_written(by, &sought) {
                return None;
            }
        }
    }
    let repair = text::repair(&base, fix).ok()?;
    Some((Arc::clone(file), repair))
}

/// The node of the longest part of a pointer that exists in an object, and the number of its steps.
fn existing<'o>(object: &'o Object, pointer: &Pointer) -> (Node<'o>, usize) {
    let mut node = object.root();
    let mut found = 0;
    for step in pointer.steps() {
        let next = child(&node, step);
        if next.is_absent() {
            break;
        }
        node = next;
        found += 1;
    }
    (node, found)
}

fn child<'n>(node: &Node<'n>, step: &str) -> Node<'n> {
    match step.parse::<usize>() {
        Ok(index) if node.is_sequence() => node.index(index),
        _ => node.get(step),
    }
}

/// The object of a base that became another one: it has the same kind, and its name is contained in the name
/// of the other one.
fn base_object(file: &Arc<Source>, rendered: &Object) -> Option<Object> {
    let documents = source::read(file);
    let objects = documents.iter().flat_map(|document| Object::from_document(file, document, true));
    let id = rendered.id();
    let same = |object: &Object| object.id().kind == id.kind && object.id().group == id.group;
    let mut all: Vec<Object> = objects.filter(same).collect();
    all.retain(|object| id.name.contains(&*object.id().name));
    all.sort_by_key(|object| {
        let other = object.id().namespace().is_some() && object.id().namespace() != id.namespace();
        (std::cmp::Reverse(object.id().name.len()), other)
    });
    all.into_iter().next()
}

/// Follows the steps of a rendered object in another one, in which items of lists are found by their keys.
/// Returns the node, if all steps exist, and the steps that exist.
fn follow<'b>(rendered: &Node<'_>, other: &Node<'b>, steps: &[String]) -> (Option<Node<'b>>, Vec<String>) {
    let (mut rendered, mut at) = (rendered.clone(), other.clone());
    let mut out = Vec::new();
    for step in steps {
        let item = child(&rendered, step);
        let step = if rendered.is_sequence() && at.is_sequence() {
            match same_item(&item, &at) {
                Some(index) => index.to_string(),
                None => return (None, out),
            }
        } else {
            step.clone()
        };
        let next = child(&at, &step);
        if next.is_absent() {
            return (None, out);
        }
        (rendered, at) = (item, next);
        out.push(step);
    }
    (Some(at), out)
}

/// The index of the item of a list that has the key of another item, or that equals it.
fn same_item(item: &Node<'_>, list: &Node<'_>) -> Option<usize> {
    let key = ITEM_KEYS.iter().find_map(|key| Some((*key, raw(&item.get(key))?)));
    match key {
        Some((key, value)) => list.items().position(|one| raw(&one.get(key)) == Some(value)),
        None => {
            let value = item.to_json();
            list.items().position(|one| one.to_json() == value)
        }
    }
}

/// The text of a scalar, including a placeholder.
fn raw<'n>(node: &Node<'n>) -> Option<&'n str> {
    node.raw_text()
}

/// Whether a node has a rendered value. A mapping matches any mapping, and a sequence any sequence.
fn has_value(node: &Node<'_>, rendered: &Node<'_>) -> bool {
    if rendered.is_mapping() {
        return node.is_mapping();
    }
    if rendered.is_sequence() {
        return node.is_sequence();
    }
    match (raw(node), raw(rendered)) {
        (Some(a), Some(b)) => a == b,
        _ => node.to_json() == rendered.to_json(),
    }
}

/// The place in the patches and fields of kustomizations, where outer ones take precedence.
fn in_kustomizations(by: &BuiltBy, sought: &Sought<'_>) -> Option<Place> {
    by.find_map(|kustomization, source, root| {
        let patches = patches(root);
        let mut selecting = patches.iter().rev().filter(|patch| selects(&patch.target, sought.object));
        let place =
            selecting.find_map(|patch| in_patch(source, patch, by.text_of(kustomization, patch)?, sought));
        place.or_else(|| in_fields(source, root, sought))
    })
}

/// Whether a patch or a field of a kustomization writes to a field, or above or below it.
fn is_written(by: &BuiltBy, sought: &Sought<'_>) -> bool {
    let whole: Vec<&String> = sought.steps.iter().chain(&sought.missing).collect();
    let meets = |operation: &Node<'_>| {
        let path = ["path", "from"].map(|field| operation.get(field).text().and_then(Pointer::parse));
        let same = |(own, step): (&String, &&String)| own == *step || own == "-" || *step == "-";
        path.iter().flatten().any(|path| path.steps().iter().zip(&whole).all(same))
    };
    let merges = |root: &Node<'_>| {
        let (at, _) = follow(&sought.object.root(), root, &sought.steps);
        let next = sought.missing.first().filter(|step| *step != "-");
        at.is_some_and(|at| next.is_none_or(|next| !child(&at, next).is_absent()))
    };
    let found = by.find_map(|kustomization, source, root| {
        let patches = patches(root);
        let named = |patch: &&Patch<'_>| patch.inline.is_some() || patch.file.is_some();
        let mut selecting =
            patches.iter().filter(named).filter(|patch| selects(&patch.target, sought.object));
        let by_patch = selecting.any(|patch| {
            let Some(text) = by.text_of(kustomization, patch) else { return true };
            let documents = source::read(&text);
            documents.iter().filter_map(|document| document.root()).any(|root| {
                if root.is_sequence() {
                    return root.items().any(|operation| meets(&operation));
                }
                let name = root.path(&["metadata", "name"]).text().unwrap_or_default();
                let is_of = root.get("kind").text() == Some(&*sought.object.id().kind);
                (patch.target.is_set() || is_of && sought.object.id().name.contains(name)) && merges(&root)
            })
        });
        (by_patch || in_fields(source, root, sought).is_some()).then_some(())
    });
    found.is_some()
}

/// The place in a patch with a given text. `kustomization` is the text that contains the patch.
fn in_patch(
    kustomization: &Arc<Source>,
    patch: &Patch<'_>,
    text: Arc<Source>,
    sought: &Sought<'_>,
) -> Option<Place> {
    let span = in_patch_text(&text, patch.target.is_set(), sought)?;
    let Some(inline) = &patch.inline else {
        return Some(Place { source: text, span, is_literal: true });
    };
    let line = text.lines().line_of(span.start);
    let start = text.lines().start_of(line, text.text());
    let written = text.text().get(start as usize..)?.lines().next()?;
    let columns = (span.start - start, span.end - start);
    let span = in_block(kustomization, inline, line, written, columns).or_else(|| inline.span())?;
    Some(Place { source: Arc::clone(kustomization), span, is_literal: true })
}

/// The place of a part of a line in a block scalar.
pub(super) fn in_block(
    source: &Source,
    block: &Node<'_>,
    line: usize,
    written: &str,
    columns: (u32, u32),
) -> Option<Span> {
    let span = block.span()?;
    let (text, lines) = (source.text(), source.lines());
    let first = lines.line_of(span.start);
    // The span begins at the header or at the first line below it.
    (first + line..=first + line + 1).find_map(|number| {
        let start = lines.start_of(number, text);
        let end = lines.start_of(number + 1, text);
        let own = text.get(start as usize..end as usize)?;
        let indent = own.trim_end().strip_suffix(written.trim_end())?.len() as u32;
        Some(Span::new(start + indent + columns.0, (start + indent + columns.1).min(end)))
    })
}

/// Whether the target of a patch may be an object. The target's name is a regular expression, and the object
/// may have been renamed.
fn selects(target: &Node<'_>, object: &Object) -> bool {
    let fits = |field: &str, value: &str| {
        target.get(field).text().is_none_or(|text| text.is_empty() || text == value)
    };
    let name = target.get("name").text().unwrap_or_default();
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    fits("kind", &object.id().kind)
        && fits("group", &object.id().group)
        && (!is_plain || object.id().name.contains(name))
}

/// The place of the sought value in the text of a patch.
fn in_patch_text(source: &Arc<Source>, has_target: bool, sought: &Sought<'_>) -> Option<Span> {
    let documents = source::read(source);
    documents.iter().find_map(|document| {
        let root = document.root()?;
        if root.is_sequence() {
            return in_operations(&root, sought);
        }
        let id = sought.object.id();
        let name = root.path(&["metadata", "name"]).text().unwrap_or_default();
        let is_of = root.get("kind").text() == Some(id.kind.as_str()) && id.name.contains(name);
        if !has_target && !is_of || sought.steps.is_empty() {
            return None;
        }
        let (at, _) = follow(&sought.object.root(), &root, &sought.steps);
        let at = at.filter(|at| has_value(at, &sought.node) && !is_identity(&sought.steps))?;
        span_of(&at, sought)
    })
}

/// Whether a field of a patch identifies its target instead of setting a value.
fn is_identity(steps: &[String]) -> bool {
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    matches!(
        steps.as_slice(),
        ["apiVersion" | "kind" | "metadata" | "spec"] | ["metadata", "name" | "namespace"]
    )
}

/// The place in RFC 6902 operations.
fn in_operations(operations: &Node<'_>, sought: &Sought<'_>) -> Option<Span> {
    let mut all: Vec<Node<'_>> = operations.items().collect();
    all.reverse();
    all.iter().find_map(|operation| {
        let op = operation.get("op").text()?;
        let path = Pointer::parse(operation.get("path").text()?)?;
        let is_end = |step: &String| step == "-";
        // The operation applies to the sought field or to one above it.
        let covers = path.steps().len() <= sought.steps.len()
            && path.steps().iter().zip(&sought.steps).all(|(own, step)| own == step || is_end(own));
        match op {
            "add" | "replace" if covers => {
                let value = operation.get("value");
                let rest = &sought.steps[path.steps().len()..];
                let at = rest.iter().fold(value, |node, step| child(&node, step));
                (at.is_set() && has_value(&at, &sought.node)).then(|| span_of(&at, sought))?
            }
            // The operation has removed the missing field.
            "remove" => {
                let whole: Vec<&String> = sought.steps.iter().chain(&sought.missing).collect();
                let own: Vec<&String> = path.steps().iter().collect();
                (!sought.missing.is_empty() && own.len() > sought.steps.len() && whole.starts_with(&own))
                    .then(|| operation.get("path").span())?
            }
            _ => None,
        }
    })
}

fn span_of(node: &Node<'_>, sought: &Sought<'_>) -> Option<Span> {
    let is_collection = node.is_mapping() || node.is_sequence();
    let key = if sought.key || is_collection && !node.is_flow() { node.key_span() } else { None };
    let first = node.entries().first().and_then(|(_, value)| value.key_span());
    let item = first.filter(|_| is_collection && !node.is_flow());
    key.or(item).or_else(|| node.span()).or_else(|| node.key_span())
}

/// The place in the fields of a kustomization: names, labels, replicas, images.
fn in_fields(kustomization: &Arc<Source>, root: &Node<'_>, sought: &Sought<'_>) -> Option<Place> {
    let steps: Vec<&str> = sought.steps.iter().map(String::as_str).collect();
    let value = raw(&sought.node);
    let says = |node: &Node<'_>| raw(node).is_some_and(|own| Some(own) == value);
    let name = &sought.object.id().name;
    // An entry that adds to the name is less specific than the name itself.
    let node = match steps.as_slice() {
        ["metadata", "namespace"] => Some(root.get("namespace")).filter(says),
        ["spec", "replicas"] => root.get("replicas").items().find_map(|entry| {
            let is_of = entry.get("name").text().is_some_and(|own| name.contains(own));
            Some(entry.get("count")).filter(|count| is_of && says(count))
        }),
        [.., "image"] => root.get("images").items().find_map(|entry| {
            let value = value?;
            let named = ["newName", "name"].iter().find_map(|field| raw(&entry.get(field)))?;
            let rest = value.strip_prefix(named)?;
            let set = |field: &str| Some(entry.get(field)).filter(|node| raw(node).is_some());
            let tag = set("newTag").filter(|tag| raw(tag).is_some_and(|tag| rest.contains(tag)));
            tag.or_else(|| set("digest")).or_else(|| set("newName"))
        }),
        [.., kind @ ("labels" | "annotations" | "matchLabels"), key] => {
            let common = if *kind == "annotations" { "commonAnnotations" } else { "commonLabels" };
            let own = root.get(common).get(key);
            let listed = root.get("labels").items().map(|entry| entry.get("pairs").get(key));
            std::iter::once(own).chain(listed).find(says)
        }
        _ => None,
    };
    let span = node?.span()?;
    Some(Place { source: Arc::clone(kustomization), span, is_literal: true })
}

/// The entry of a kustomization that generates an object.
fn generator(by: &BuiltBy, sought: &Sought<'_>) -> Option<Place> {
    let field = match sought.object.id().kind.as_str() {
        "ConfigMap" => "configMapGenerator",
        "Secret" => "secretGenerator",
        _ => return by.find_map(|_, source, root| in_charts(source, root, sought.object)),
    };
    by.find_map(|_, source, root| {
        let mut entries = root.get(field).items();
        let name = entries.find_map(|entry| {
            let name = entry.get("name");
            name.text().is_some_and(|text| sought.object.id().name.contains(text)).then_some(name)
        })?;
        let span = name.span()?;
        Some(Place { source: Arc::clone(source), span, is_literal: false })
    })
    .or_else(|| by.find_map(|_, source, root| in_charts(source, root, sought.object)))
}

/// The entry of `helmCharts` whose chart gives an object: the only one, or the only one whose release or chart the object is
/// called after.
fn in_charts(source: &Arc<Source>, root: &Node<'_>, object: &Object) -> Option<Place> {
    let entries: Vec<Node<'_>> = root.get("helmCharts").items().collect();
    let is_it = |entry: &&Node<'_>| {
        let names = ["releaseName", "name"].map(|key| entry.get(key));
        names.iter().filter_map(|name| name.text()).any(|name| object.name().contains(name))
    };
    let mut named = entries.iter().filter(is_it);
    let entry = match (entries.as_slice(), named.next(), named.next()) {
        ([only], ..) => only,
        (_, Some(named), None) => named,
        _ => return None,
    };
    let span = entry.get("name").span()?;
    Some(Place { source: Arc::clone(source), span, is_literal: false })
}

fn first_key(source: &Arc<Source>) -> Span {
    let documents = source::read(source);
    let root = documents.first().and_then(|document| document.root());
    let first = root.and_then(|root| root.entries().first().and_then(|(_, value)| value.key_span()));
    first.unwrap_or_default()
}
