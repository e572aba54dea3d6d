//! Two objects of the input have the same kind, namespace and name.
//!
//! # Why
//! The one that is applied later replaces the other, and which one that is depends on the order
//! of files. With a NodePool it means that limits or taints of one file are gone. Where one
//! kustomization lists both, `kustomize build` fails with "already registered id"; where its `namespace:`
//! moves objects of several namespaces into one, with "namespace transformation produces ID conflict".
//!
//! # Fix
//! Rename one of them, or remove the one that is out of date. It is an error among the resources of
//! one kustomization and a warning within one file. In two files of one folder it is information,
//! because they may be alternatives, and it is reported once for each pair of files, or once for all files
//! that define one object; samples, resources of tests, copies of releases and files whose names share a
//! word are alternatives and not reported. Two APIServices of one name that lead to different Services are a
//! warning there: a cluster has one server of an API, such as `external.metrics.k8s.io`, which KEDA and other
//! adapters all serve. Files of different folders often belong to different clusters: they are compared with
//! `--complete` alone, and bases and overlays of kustomize are never compared, because they repeat objects
//! on purpose. Objects that were read from a cluster, as `kubectl get -o yaml` prints them, are not compared
//! either, nor is an object without the fields that its kind needs with one of another file: it is a patch, which
//! `manifest-incomplete` reports.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//! -metadata: {name: pool-notes}
//! +metadata: {name: vision-notes}
//!  data: {team: vision}
//!  ---
//!  apiVersion: v1
//!  kind: ConfigMap
//! -metadata:
//! -  name: pool-notes # <-
//! +metadata: {name: speech-notes}
//!  data: {team: speech}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use crate::cluster::together::{folder, routes};
use crate::lint::finding::Merge;
use crate::rules::manifest::duplicate_relation::{Relation, relation};
use crate::rules::manifest::manifest_incomplete::is_incomplete;
use crate::rules::manifest_purpose::{is_example, is_read_by_tool, is_release_manifest, is_saved};
use crate::rules::prelude::*;
use crate::source::KustomizeRoute;
use crate::tree::placeholder::is_word_in_capitals;

pub(crate) static RULE: Rule = Rule {
    id: "duplicate-object",
    docs: docs(include_str!("duplicate_object.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Maximum number of objects of one name in kustomizations that are compared with an object: the nearest ones before it in the order of
/// files; and of namespaces with such objects, above which only the own one counts.
const MAX_COMPARED: usize = 512;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    object.origin()?;
    let id = object.id();
    let name = object.path(&["metadata", "name"]);
    if is_read_by_tool(object)
        || object.is_partial()
        || id.name.is_empty()
        || name.is_unknown()
        || !name.is_set()
        || is_saved(object)
    {
        return None;
    }
    // A name in capitals is to be replaced, and no API server accepts it for most kinds.
    if is_word_in_capitals(&id.name) {
        return None;
    }
    let index = ctx.cluster();
    let complete = index.is_complete();
    let own = || vec![index.all(&id.group, &id.kind, object.namespace_or_default(), &id.name)];
    // Where no kustomization gives objects another namespace, only those of the own one can be the same.
    let slices: Vec<&[Object]> = if object.is_cluster_scoped() || index.has_kustomized() {
        let named = index.named(&id.group, &id.kind, &id.name).take(MAX_COMPARED + 1);
        Some(named.collect()).filter(|all: &Vec<&[Object]>| all.len() <= MAX_COMPARED).unwrap_or_else(own)
    } else {
        own()
    };
    let related = slices.iter().filter_map(|others| closest(object, others, complete));
    // The first object that is most certainly applied together with this one.
    let (relation, first) = related.min_by_key(|(relation, other)| (*relation, position(other)))?;
    let is_fragment = |object: &Object| is_incomplete(object, ctx.definitions());
    let is_kustomized = matches!(relation, Relation::Kustomization | Relation::Namespace);
    if !is_kustomized && file(first) != file(object) && (is_fragment(object) || is_fragment(first)) {
        return None;
    }
    let rivals = are_rivals(object, first);
    let mut further = 0;
    if relation == Relation::Folder && !rivals {
        if are_alternatives(object, first) {
            return None;
        }
        further = further_files(object, first, &slices, complete)?;
    }
    let same_file = file(first) == file(object);
    let shown = shown(file(first), file(object), further);
    let words = match (relation, same_file) {
        (Relation::Kustomization, true) => twice_in_a_kustomization,
        (Relation::Kustomization, false) => again_in_a_kustomization,
        (Relation::Namespace, true) => moved_in_a_file,
        (Relation::Namespace, false) => moved_in_a_kustomization,
        (_, true) => twice_in_a_file,
        (_, false) => again_in_a_file,
    };
    let subject = format!("{} `{}`", id.kind, object.display_name());
    // Which of two equal objects is applied last does not matter.
    let identical = object.root().has_value_of(&first.root());
    let merge = Merge::new(shown, subject, words).identical(identical);
    let (severity, help) = advice(relation, identical, rivals);
    let mut help = Cow::Borrowed(help);
    if is_kustomized && !same_file && (is_called_patch(file(object)) || is_called_patch(file(first))) {
        help = Cow::Borrowed(
            "list a patch under `patches`: as a resource it is a second object, and `kustomize build` fails",
        );
    } else if let Some(folder) = mover(object, first).filter(|_| relation == Relation::Namespace) {
        help = Cow::Owned(format!(
            "remove `namespace:` from the kustomization in `{folder}`, or split it: `kustomize build` fails"
        ));
    }
    ctx.report(&name, merge.message())
        .severity(severity)
        .help(help)
        .related(first, &first.path(&["metadata", "name"]), "also defined here")
        .merges(merge);
    None
}

/// The end of the path of a folder whose kustomization gives both objects a namespace, if it is another folder than that of the object.
fn mover(object: &Object, other: &Object) -> Option<String> {
    let moves = |route: &&KustomizeRoute| {
        let is_of_both = |one: &KustomizeRoute| one.root == route.root && one.namespace == route.namespace;
        route.namespace.is_some() && routes(other).iter().any(is_of_both)
    };
    let root = &routes(object).iter().find(moves)?.root;
    let own = folder(file(object));
    if own.is_empty() || Path::new(&**root).ends_with(own) {
        return None;
    }
    let parts: Vec<&str> = root.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    Some(parts.get(parts.len().saturating_sub(2)..)?.join("/"))
}

/// What a message calls the file of the first of the objects, and further ones.
fn shown(path: &str, own: &str, further: usize) -> String {
    let name = if folder(path) == folder(own) {
        path.rsplit('/').next().unwrap_or(path).to_owned()
    } else {
        short_path(path)
    };
    match further {
        0 => format!("`{name}`"),
        1 => format!("`{name}` and 1 more file"),
        more => format!("`{name}` and {more} more files"),
    }
}

fn advice(relation: Relation, identical: bool, rivals: bool) -> (Severity, &'static str) {
    match relation {
        Relation::Kustomization => (
            Severity::Error,
            "rename one, or list only one: `kustomize build` fails with \"already registered id\"",
        ),
        Relation::Namespace => (
            Severity::Error,
            "remove `namespace:` from the kustomization, or split it: `kustomize build` fails",
        ),
        Relation::File if identical => (Severity::Warning, "remove one of the two"),
        Relation::File => (Severity::Warning, "rename one of the two, or remove the one that is out of date"),
        Relation::Folder | Relation::Cluster if rivals => (
            Severity::Warning,
            "install one of the two servers: the API server asks the Service that is applied last, and no other",
        ),
        Relation::Folder => (
            Severity::Info,
            "rename one or remove it; if they are alternatives, keep each in a folder of its own",
        ),
        Relation::Cluster => (
            Severity::Warning,
            "rename one or remove it; check the manifests of several clusters one cluster at a time",
        ),
    }
}

/// The number of files of a folder that define an object beside those of `first` and of the object itself. `None` if one of them comes
/// before the object: files that all define one object are variants, and one finding is about all of them.
fn further_files(object: &Object, first: &Object, slices: &[&[Object]], complete: bool) -> Option<usize> {
    let (own, known) = (file(object), file(first));
    let others = slices.iter().flat_map(|others| others.iter());
    let mut files = BTreeSet::new();
    for other in others.filter(|other| ![own, known].contains(&file(other))) {
        if relation(object, other, complete) != Some(Relation::Folder) || are_alternatives(other, first) {
            continue;
        }
        if file(other) < own {
            return None;
        }
        files.insert(file(other));
    }
    Some(files.len())
}

pub(in crate::rules) fn file(object: &Object) -> &str {
    object.origin().map_or("", |origin| origin.source.path())
}

/// Whether two APIServices of one name lead to different servers of the API.
fn are_rivals(object: &Object, other: &Object) -> bool {
    let server = |one: &Object| one.path(&["spec", "service", "name"]).text().map(str::to_owned);
    object.group() == "apiregistration.k8s.io"
        && server(object).zip(server(other)).is_some_and(|(own, others)| own != others)
}

/// Whether two objects of one folder are kept beside each other on purpose: as samples, as resources of tests, as copies of
/// releases, or in files whose names say that they are variants.
fn are_alternatives(object: &Object, other: &Object) -> bool {
    let words = |object: &Object| -> Vec<String> {
        let file = file(object).rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().unwrap_or_default().to_ascii_lowercase();
        stem.split(['-', '_']).filter(|word| word.len() >= 3).map(str::to_owned).collect()
    };
    let is_test = |object: &Object| {
        folder(file(object)).split('/').any(|part| matches!(part, "test" | "tests" | "e2e" | "testdata"))
    };
    let kept = |object: &Object| is_example(object) || is_release_manifest(object) || is_test(object);
    let (own, others) = (words(object), words(other));
    kept(object) && kept(other) || own.iter().any(|word| others.contains(word))
}

/// The first of the objects before this one, in the order of their files, that is most certainly applied together with it.
fn closest<'a>(object: &Object, others: &'a [Object], complete: bool) -> Option<(Relation, &'a Object)> {
    let is_routed = !routes(object).is_empty();
    let most_certain = if is_routed { Relation::Kustomization } else { Relation::File };
    let own = position(object);
    let is_before = |other: &Object| position(other) < own;
    // Objects that a kustomization renames to this name are ordered by their written names.
    let has_name = |other: Option<&Object>| other.is_none_or(|other| other.name() == object.name());
    let is_by_position = has_name(others.first()) && has_name(others.last());
    let mut before = match is_by_position {
        true => &others[..others.partition_point(is_before)],
        false => &others[..others.iter().take_while(|other| is_before(other)).count()],
    };
    if is_routed {
        before = &before[before.len().saturating_sub(MAX_COMPARED)..];
    }
    // An object outside all kustomizations is not related to objects of other folders.
    if !is_routed && !complete && is_by_position {
        let folder = folder(object.origin()?.source.path());
        let is_ahead = |other: &Object| position(other).is_none_or(|(path, ..)| path < folder);
        before = &before[before.partition_point(is_ahead)..];
    }
    let own_path = object.origin()?.source.path();
    let mut closest: Option<(Relation, &Object)> = None;
    while let [other, rest @ ..] = before {
        before = rest;
        let Some(relation) = relation(object, other, complete).filter(|_| !is_saved(other)) else { continue };
        if closest.is_none_or(|(known, _)| relation < known) {
            closest = Some((relation, other));
        }
        // A file may define an object thousands of times.
        if relation == most_certain {
            break;
        }
        // Thousands of files may each define it once: a more certain duplicate may follow.
        if !is_routed && is_by_position {
            let more_certain = if relation == Relation::Folder { own_path } else { folder(own_path) };
            let is_ahead = |other: &Object| position(other).is_none_or(|(path, ..)| path < more_certain);
            before = &before[before.partition_point(is_ahead)..];
        }
    }
    closest
}

/// The position of an object in the input: its file, the document, and the place in the document.
pub(in crate::rules) fn position(object: &Object) -> Option<(&str, u32, u32)> {
    let origin = object.origin()?;
    Some((origin.source.path(), origin.document, object.tree().1))
}

/// The path, or its last parts if it is long.
fn short_path(path: &str) -> String {
    const MAX_CHARS: usize = 40;
    if path.chars().count() <= MAX_CHARS {
        return path.to_owned();
    }
    let parts: Vec<&str> = path.split('/').collect();
    let tail = parts.get(parts.len().saturating_sub(2)..).unwrap_or_default().join("/");
    format!("…/{tail}")
}

/// `Deployment `x`` or `Deployment `x` and 2 other objects`, and whether it is one.
fn subjects(merge: &Merge) -> (String, bool) {
    let first = merge.subject();
    match merge.others() {
        0 => (first.to_owned(), true),
        1 => (format!("{first} and 1 other object"), false),
        n => (format!("{first} and {n} other objects"), false),
    }
}

fn again_in_a_file(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    let (is, copies) = if one { ("is", "an identical copy") } else { ("are", "identical copies") };
    if merge.is_identical() {
        return format!("{subjects} {is} also defined in {}: {copies}", merge.key());
    }
    format!("{subjects} {is} also defined in {}; whichever is applied last wins", merge.key())
}

fn again_in_a_kustomization(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    let is = if one { "is" } else { "are" };
    format!("{subjects} {is} also defined in {}; kustomize rejects duplicates", merge.key())
}

/// Whether a file is called a patch.
fn is_called_patch(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(['-', '_', '.']).any(|word| matches!(word, "patch" | "patches"))
}

fn moved_in_a_file(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    let is = if one { "is" } else { "are" };
    format!("{subjects} {is} here for several namespaces, which the kustomization's `namespace` makes one")
}

fn moved_in_a_kustomization(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    let is = if one { "is" } else { "are" };
    let key = merge.key();
    format!("{subjects} {is} also in {key}; the kustomization's `namespace` makes their namespaces one")
}

fn twice_in_a_file(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    if merge.is_identical() {
        let is = if one { "is" } else { "are" };
        format!("{subjects} {is} defined twice in this file, identically")
    } else if one {
        format!("{subjects} is defined twice in this file; the later definition wins")
    } else {
        format!("{subjects} are defined twice in this file; the later definitions win")
    }
}

fn twice_in_a_kustomization(merge: &Merge) -> String {
    let (subjects, one) = subjects(merge);
    let is = if one { "is" } else { "are" };
    format!("{subjects} {is} defined twice in this file; kustomize rejects duplicates")
}
