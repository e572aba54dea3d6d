//! The output of `--show-sets`: the files that are applied to one cluster together, and why.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use gpulint_rules::{Bond, Membership};
use serde::Serialize;

use crate::args::Style;
use crate::batch::Batch;
use crate::error::CliError;
use crate::files::{Evidence, Sign, short_path};
use crate::terminal::{count, printable};

/// Maximum number of files and folders to name as evidence for a set.
const MAX_PLACES: usize = 3;
/// Maximum number of files to name that share their folder with files of other sets.
const MAX_FILES: usize = 5;
const PATH_WIDTH: usize = 60;

struct Shown<'a> {
    name: &'a str,
    evidence: &'a Evidence,
    bond: Bond,
    /// The files with objects, each with its membership.
    members: Vec<(usize, &'a Membership)>,
    /// Number of distinct files.
    files: usize,
    objects: usize,
}

fn shown<'a>(batch: &'a Batch<'_>) -> Vec<Shown<'a>> {
    let partition = &batch.sets.partition;
    let sets = partition.sets.iter().zip(&batch.sets.evidence).map(|(set, evidence)| Shown {
        name: &set.name,
        evidence,
        bond: set.bond,
        members: Vec::new(),
        files: 0,
        objects: 0,
    });
    let mut sets: Vec<Shown<'_>> = sets.collect();
    for file in 0..batch.inputs.len() {
        let objects = objects(batch, file);
        if objects == 0 {
            continue;
        }
        for member in partition.memberships(file) {
            let set = &mut sets[member.set];
            if set.members.last().is_none_or(|(last, _)| *last != file) {
                set.files += 1;
                set.objects += objects;
            }
            set.members.push((file, member));
        }
    }
    sets
}

/// Number of objects of a file. Patches have none.
fn objects(batch: &Batch<'_>, file: usize) -> usize {
    let read = &batch.reads[file];
    read.file.as_ref().filter(|_| read.manifest).map_or(0, |file| file.objects.len())
}

fn path<'b>(batch: &'b Batch<'_>, file: usize) -> &'b str {
    &batch.inputs[file].input.display_path
}

/// The shortest form of a path relative to the current folder.
pub(super) fn short(path: &Path) -> String {
    let short = short_path(path);
    if short.is_empty() { ".".to_owned() } else { short }
}

/// Prints the sets in the formats that support them.
pub(crate) fn write(out: &mut dyn Write, style: Style, batch: &Batch<'_>) -> Result<(), CliError> {
    match style {
        Style::Json => json(out, batch),
        Style::Text | Style::Concise => text(out, batch),
        other => {
            Err(CliError::Usage(format!("--show-sets has no format `{}`; use text or json", other.name())))
        }
    }
}

pub(super) fn text(out: &mut dyn Write, batch: &Batch<'_>) -> Result<(), CliError> {
    let sets = shown(batch);
    let files = (0..batch.inputs.len()).filter(|file| objects(batch, *file) > 0).count();
    if sets.is_empty() {
        let objects: usize = (0..batch.inputs.len()).map(|file| objects(batch, file)).sum();
        writeln!(
            out,
            "The whole input is one set: {}, {}.\n\n\
             Nothing says that its files are applied to several clusters: no `clusters` in\n\
             gpulint.yaml, no Flux Kustomization and no Argo CD Application with a path in\n\
             the input, no kustomization.yaml that lists a file of it, and no folders called\n\
             like environments that hold the same objects.",
            count(files, "file"),
            count(objects, "object")
        )?;
        return Ok(());
    }
    let of = match sets.len() {
        1 => String::new(),
        _ => ". Objects are checked beside those of their own sets".to_owned(),
    };
    writeln!(out, "{} in {}{of}.", count(sets.len(), "set"), count(files, "file"))?;
    for set in &sets {
        writeln!(out, "\n{}: {}", printable(set.name, false), reason(set.evidence))?;
        let places = set.evidence.places.len();
        for place in set.evidence.places.iter().take(MAX_PLACES) {
            writeln!(out, "  from {}", printable(&short(place), false))?;
        }
        if places > MAX_PLACES {
            writeln!(out, "  and {} more", places - MAX_PLACES)?;
        }
        writeln!(out, "  {}, {}", count(set.files, "file"), count(set.objects, "object"))?;
        for (how, files) in by_transform(set) {
            if !how.is_empty() {
                writeln!(out, "  {how}:")?;
            }
            for (path, number) in fold(batch, &files) {
                let number = if number > 0 { count(number, "file") } else { String::new() };
                let line = format!("    {:PATH_WIDTH$}  {number}", printable(&path, false));
                writeln!(out, "{}", line.trim_end())?;
            }
        }
    }
    write_advice(out, batch, &sets)
}

fn reason(evidence: &Evidence) -> String {
    let reason = match evidence.sign {
        Sign::Configuration => "`clusters` of the configuration",
        Sign::Flux => "Flux",
        Sign::Argo => "Argo CD",
        Sign::GitOps => "Flux and Argo CD",
        Sign::Kustomization => "a kustomization",
        Sign::Kustomizations => "kustomizations that do not repeat each other's objects",
        Sign::Chart => "a chart",
        Sign::Environment => "folders of an environment",
        Sign::None => "no set claims these files, nor others of their folders",
    };
    match &evidence.destination {
        Some(name) => format!("{reason}, destination {}", printable(name, false)),
        None => reason.to_owned(),
    }
}

/// The files of a set, grouped by a description of the changes to their objects.
fn by_transform(set: &Shown<'_>) -> BTreeMap<String, Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (file, member) in &set.members {
        groups.entry(transform(member)).or_default().push(*file);
    }
    groups
}

fn transform(member: &Membership) -> String {
    let mut words = Vec::new();
    match (&member.namespace, &member.default_namespace) {
        (Some(namespace), _) => words.push(format!("namespace {namespace}")),
        (None, Some(namespace)) => words.push(format!("default namespace {namespace}")),
        (None, None) => {}
    }
    if !member.prefix.is_empty() || !member.suffix.is_empty() {
        words.push(format!("names {}*{}", member.prefix, member.suffix));
    }
    if !member.removed.is_empty() {
        words.push(format!("without {}", count(member.removed.len(), "object")));
    }
    printable(&words.join(", "), false).into_owned()
}

/// Files as patterns, each with the number of files that it matches; 0 for a single file.
fn fold(batch: &Batch<'_>, files: &[usize]) -> Vec<(String, usize)> {
    let mut all: Vec<(Vec<&str>, bool)> = (0..batch.inputs.len())
        .filter(|file| objects(batch, *file) > 0)
        .map(|file| (path(batch, file).split('/').collect(), files.contains(&file)))
        .collect();
    all.sort();
    let mut out = Vec::new();
    fold_below(&all, 0, &mut out);
    out
}

fn fold_below(files: &[(Vec<&str>, bool)], depth: usize, out: &mut Vec<(String, usize)>) {
    let inside = files.iter().filter(|(_, inside)| *inside).count();
    let Some((first, _)) = files.first().filter(|_| inside > 0) else { return };
    let folder = |end: &str| {
        let parts = first[..depth].iter().copied().chain([end]);
        parts.collect::<Vec<_>>().join("/")
    };
    let is_direct = |(path, _): &&(Vec<&str>, bool)| path.len() == depth + 1;
    if inside == files.len() {
        match files {
            [(path, _)] => out.push((path.join("/"), 0)),
            _ if files.iter().all(|file| is_direct(&file)) => out.push((folder("*"), inside)),
            _ => out.push((folder("**"), inside)),
        }
        return;
    }
    let direct: Vec<_> = files.iter().filter(is_direct).collect();
    let named: Vec<String> =
        direct.iter().filter(|(_, inside)| *inside).map(|(path, _)| path.join("/")).collect();
    if named.len() == direct.len() && named.len() > 1 {
        out.push((folder("*"), named.len()));
    } else {
        let more = named.len().saturating_sub(MAX_FILES);
        out.extend(named.into_iter().take(MAX_FILES).map(|path| (path, 0)));
        if more > 0 {
            out.push((format!("{} and {more} more", folder("…")), 0));
        }
    }
    let below: Vec<(Vec<&str>, bool)> = files.iter().filter(|file| !is_direct(file)).cloned().collect();
    for same in below.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]) {
        fold_below(same, depth + 1, out);
    }
}

fn write_advice(out: &mut dyn Write, batch: &Batch<'_>, sets: &[Shown<'_>]) -> Result<(), CliError> {
    if sets.iter().any(|set| set.evidence.sign == Sign::Configuration) {
        return Ok(());
    }
    let Some(set) = sets.first() else { return Ok(()) };
    let files: Vec<usize> = set.members.iter().map(|(file, _)| *file).collect();
    let paths: Vec<String> =
        fold(batch, &files).into_iter().map(|(path, _)| format!("{path:?}")).take(2).collect();
    writeln!(
        out,
        "\nTo say it otherwise, write in gpulint.yaml:\n  clusters:\n    - name: {}\n      paths: [{}]",
        printable(set.name, false),
        paths.join(", ")
    )?;
    Ok(())
}

/// The note, printed once, if sets are told apart only by the names of folders.
pub(crate) fn environment_note(batch: &Batch<'_>) -> Option<String> {
    let sets = batch.sets.partition.sets.iter().zip(&batch.sets.evidence);
    let sets: Vec<_> = sets.filter(|(_, evidence)| evidence.sign == Sign::Environment).collect();
    let (first, evidence) = sets.first()?;
    let names: Vec<&str> = sets.iter().map(|(set, _)| &*set.name).take(MAX_FILES).collect();
    let more = sets.len().saturating_sub(MAX_FILES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let paths: Vec<String> =
        evidence.places.iter().take(2).map(|place| format!("{:?}", short(place) + "/**")).collect();
    Some(format!(
        "the folders {}{more} hold objects of the same names, so each is checked as a cluster of its own; \
         --show-sets prints them. To state it, write in gpulint.yaml: clusters: [{{name: {}, paths: [{}]}}, ...]",
        names.join(", "),
        first.name,
        paths.join(", ")
    ))
}

#[derive(Serialize)]
struct Root<'a> {
    version: u32,
    sets: Vec<Set<'a>>,
}

#[derive(Serialize)]
struct Set<'a> {
    name: &'a str,
    sign: &'static str,
    /// The certainty that the objects of the set are in one cluster.
    bond: &'static str,
    destination: Option<&'a str>,
    because: Vec<String>,
    files: usize,
    objects: usize,
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member<'a> {
    file: &'a str,
    namespace: Option<&'a str>,
    default_namespace: Option<&'a str>,
    prefix: &'a str,
    suffix: &'a str,
    removed: Vec<Removed<'a>>,
}

#[derive(Serialize)]
struct Removed<'a> {
    kind: Option<&'a str>,
    name: Option<&'a str>,
}

/// Prints the sets as JSON. There are none if the whole input is one set.
fn json(out: &mut dyn Write, batch: &Batch<'_>) -> Result<(), CliError> {
    let sets = shown(batch).into_iter().map(|set| Set {
        name: set.name,
        sign: set.evidence.sign.name(),
        bond: match set.bond {
            Bond::Certain => "certain",
            Bond::Likely => "likely",
            Bond::Folders => "folders",
        },
        destination: set.evidence.destination.as_deref(),
        because: set.evidence.places.iter().map(|place| short(place)).collect(),
        files: set.files,
        objects: set.objects,
        members: set.members.iter().map(|(file, member)| json_member(path(batch, *file), member)).collect(),
    });
    let root = Root { version: 1, sets: sets.collect() };
    serde_json::to_writer_pretty(&mut *out, &root)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn json_member<'a>(file: &'a str, member: &'a Membership) -> Member<'a> {
    Member {
        file,
        namespace: member.namespace.as_deref(),
        default_namespace: member.default_namespace.as_deref(),
        prefix: &member.prefix,
        suffix: &member.suffix,
        removed: (member.removed.iter())
            .map(|target| Removed { kind: target.kind.as_deref(), name: target.name.as_deref() })
            .collect(),
    }
}
