//! What the manifests of a set do not show themselves: in kustomizations and files of Terraform beside them, in files of other
//! programs, and in the manifests of another set, such as the one that installs the operators.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::{
    Fact, Membership, Object, OutsideFact, Product, VersionPlace, charts_of_template, facts_of_script,
    facts_of_text, fill_versions, minor_of, unread_objects,
};

use super::claimer::{Checkout, GitOpsObject};
use super::draft::{Evidence, Sets, Sign};
use super::flux;
use super::index::Files;
use crate::files::terraform::{Terraform, is_of_terraform};
use crate::files::{map_on_all_threads, short_path};

/// Maximum number of files of other programs that are read.
const MAX_OTHERS: usize = 1_000;
/// Maximum number of scripts and documents that are read.
const MAX_SCRIPTS: usize = 1_000;

/// A fact, and the folder in which it is shown.
struct Found {
    folder: PathBuf,
    shown: OutsideFact,
}

/// Adds to each set what files beside it show. Versions that are shown elsewhere count where the input has one cluster for the
/// product; other facts that are shown elsewhere count everywhere.
pub(super) fn add(sets: &mut Sets, files: &Files<'_>) {
    let mut found = of_kustomizations(files);
    found.extend(of_other_files(files));
    found.extend(of_scripts(files));
    found.extend(of_files(files));
    found.extend(of_other_repositories(files));
    let partition = &mut sets.partition;
    if partition.is_whole() {
        let all: Vec<usize> = (0..files.list.len()).collect();
        let mut facts = Vec::new();
        found.iter().filter(|one| is_about(one, &all, files)).for_each(|one| push(&mut facts, &one.shown));
        partition.facts = facts.into();
        return;
    }
    let members = |set: usize| {
        let memberships = partition.files.iter().enumerate();
        memberships.filter(move |(_, of)| of.iter().any(|one| one.set == set)).map(|(file, _)| file)
    };
    let count = partition.sets.len();
    let mut facts: Vec<Vec<OutsideFact>> = vec![Vec::new(); count];
    let below = sets_below(&partition.files, files);
    let beside = |folder: &Path| below.get(folder).cloned().unwrap_or_default();
    // Files that nothing claims do not show the cluster of what is beside them.
    let evidence = &sets.evidence;
    let is_claimed = |set: &usize| evidence[*set].sign != Sign::None;
    for product in Product::ALL {
        let users: Vec<usize> = (0..count)
            .filter(|set| members(*set).any(|file| uses(files.list[file].objects, product)))
            .collect();
        let of_product = |one: &&Found| one.shown.fact.version().is_some_and(|(of, _)| of == product);
        for one in found.iter().filter(of_product) {
            let mut near = beside(&one.folder);
            near.retain(|set| users.contains(set));
            if !near.iter().any(is_claimed) && users.iter().filter(|set| is_claimed(set)).count() <= 1 {
                near.extend(&users);
            }
            near.retain(|set| is_about(one, &members(*set).collect::<Vec<_>>(), files));
            near.iter().for_each(|set| facts[*set].push(one.shown.clone()));
        }
        // What installs an operator is often applied apart from what it reads.
        if let [user] = users.as_slice() {
            let own: BTreeSet<usize> = members(*user).collect();
            let others = (0..files.list.len()).filter(|file| !own.contains(file));
            facts[*user].extend(others.flat_map(|file| of_objects(files.list[file].objects, product)));
        }
    }
    for one in found.iter().filter(|one| one.shown.fact.version().is_none()) {
        let mut near = beside(&one.folder);
        if !near.iter().any(is_claimed) {
            near.extend(0..count);
        }
        near.into_iter().for_each(|set| push(&mut facts[set], &one.shown));
    }
    // Argo CD is often one way among several; where Flux applies files it applies all.
    let is_delivered = |evidence: &Evidence| matches!(evidence.sign, Sign::Flux | Sign::GitOps);
    if let Some(delivered) = sets.evidence.iter().find(|evidence| is_delivered(evidence)) {
        let place = delivered.places.first().map(|place| short_path(place)).unwrap_or_default();
        let shown = OutsideFact { fact: Fact::Unreached, path: Arc::from(place), line: 1 };
        let rest = sets.evidence.iter().zip(&mut facts).filter(|(evidence, _)| evidence.sign == Sign::None);
        rest.for_each(|(_, facts)| facts.push(shown.clone()));
    }
    for (set, facts) in partition.sets.iter_mut().zip(facts) {
        set.facts = facts.into();
    }
}

/// Whether a version counts for the objects of some files. One that a script or a document mentions is about what is below its folder,
/// or that of the project if the folder is one for scripts: a repository of examples has one for each of its clusters.
fn is_about(one: &Found, of: &[usize], files: &Files<'_>) -> bool {
    const FOLDERS: [&str; 30] = [
        ".ci",
        ".circleci",
        ".github",
        ".gitlab",
        "bin",
        "bootstrap",
        "build",
        "ci",
        "cluster",
        "config",
        "deploy",
        "deployment",
        "doc",
        "docker",
        "docs",
        "eks",
        "env",
        "envs",
        "hack",
        "infra",
        "infrastructure",
        "install",
        "make",
        "script",
        "scripts",
        "setup",
        "terraform",
        "tools",
        "utils",
        "workflows",
    ];
    let Fact::Mentioned(product, _) = one.shown.fact else { return true };
    let is_for_scripts = |folder: &&Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| FOLDERS.contains(&name))
    };
    let project =
        one.folder.ancestors().find(|folder| !is_for_scripts(folder)).unwrap_or(one.folder.as_path());
    let mut users = of.iter().map(|at| &files.list[*at]).filter(|file| uses(file.objects, product));
    users.all(|file| file.input.absolute.starts_with(project))
}

/// Adds a fact. Every file may show a flag, of which one place is enough.
fn push(facts: &mut Vec<OutsideFact>, shown: &OutsideFact) {
    if !shown.fact.is_flag() || !facts.iter().any(|one| one.fact == shown.fact) {
        facts.push(shown.clone());
    }
}

/// The sets of the files below each folder. Every file of a large repository may show a fact, so that going through the members
/// of all sets for each of them would take a time that grows with the square of the files.
fn sets_below<'f>(
    memberships: &[Vec<Membership>],
    files: &'f Files<'_>,
) -> HashMap<&'f Path, BTreeSet<usize>> {
    let mut below: HashMap<&Path, BTreeSet<usize>> = HashMap::new();
    for (file, of) in files.list.iter().zip(memberships) {
        for folder in file.input.absolute.ancestors().chain([Path::new("")]) {
            below.entry(folder).or_default().extend(of.iter().map(|one| one.set));
        }
    }
    below
}

/// Whether a set has objects that a product reads.
fn uses(objects: &[Object], product: Product) -> bool {
    let groups: &[&str] = match product {
        Product::Karpenter => &["karpenter.sh", "karpenter.k8s.aws"],
        Product::Keda => &["keda.sh"],
        Product::Kubernetes => return !objects.is_empty(),
    };
    objects.iter().any(|object| groups.contains(&object.id().group.as_str()))
}

fn of_objects(objects: &[Object], product: Product) -> Vec<OutsideFact> {
    let shown = fill_versions(objects, &[]).into_iter().filter(|shown| shown.product == product);
    let placed = shown.filter_map(|shown| {
        let VersionPlace::Field(object, pointer) = &shown.place else { return None };
        let source = &object.origin()?.source;
        let span = object.root().at(pointer).span()?;
        let line = source.lines().position(source.text(), span.start).line;
        let fact = Fact::Version(product, shown.version);
        Some(OutsideFact { fact, path: Arc::from(source.path()), line })
    });
    placed.collect()
}

fn of_files(files: &Files<'_>) -> Vec<Found> {
    let mut out = Vec::new();
    for (number, file) in files.list.iter().enumerate().filter(|(_, file)| !file.facts.is_empty()) {
        for (fact, line) in file.facts {
            let path = Arc::from(file.input.display_path.as_str());
            let folder = files.folder(number).unwrap_or(Path::new("")).to_owned();
            out.push(Found { folder, shown: OutsideFact { fact: fact.clone(), path, line: *line } });
        }
    }
    out
}

fn of_kustomizations(files: &Files<'_>) -> Vec<Found> {
    let mut out = Vec::new();
    for (folder, kustomization) in files.folders.kustomizations_in_order() {
        let versions = kustomization.versions.iter();
        let versions = versions.map(|(product, version, line)| (Fact::Version(*product, *version), *line));
        let generated = kustomization.generated.iter().map(|name| (Fact::Generated(name.clone()), 1));
        let elsewhere = kustomization.has_objects_elsewhere().then_some((Fact::Elsewhere, 1));
        let installs = kustomization.installs().filter_map(|name| Some((Fact::installs(name)?, 1)));
        for (fact, line) in versions.chain(generated).chain(elsewhere).chain(installs) {
            let path = Arc::from(short_path(&kustomization.file));
            out.push(Found { folder: folder.clone(), shown: OutsideFact { fact, path, line } });
        }
    }
    out
}

/// The Kustomizations of Flux that apply what the checkout does not have.
fn of_other_repositories(files: &Files<'_>) -> Vec<Found> {
    let elsewhere = flux::elsewhere(&Checkout::new(files), &GitOpsObject::all(files));
    let found = elsewhere.into_iter().map(|number| {
        let path = Arc::from(files.list[number].input.display_path.as_str());
        let folder = files.folder(number).unwrap_or(Path::new("")).to_owned();
        Found { folder, shown: OutsideFact { fact: Fact::Elsewhere, path, line: 1 } }
    });
    found.collect()
}

/// What files of Terraform show, and templates of other programs.
fn of_other_files(files: &Files<'_>) -> Vec<Found> {
    let mut out = Vec::new();
    let paths = files.folders.others.iter().take(MAX_OTHERS);
    let texts = paths.filter_map(|path| Some((path.as_path(), files.folders.disk.read_small(path)?)));
    let texts: Vec<(&Path, String)> = texts.collect();
    let terraform = Terraform::new(texts.iter().map(|(path, text)| (*path, text.as_str())));
    for (path, text) in &texts {
        let folder = path.parent().unwrap_or(Path::new(""));
        let versions = terraform
            .pins(path)
            .into_iter()
            .filter_map(|(product, version, line)| Some((Fact::Version(product, minor_of(version)?), line)));
        let is_helmfile = path.to_str().is_some_and(|path| path.ends_with(".yaml.gotmpl"));
        let charts = if is_helmfile { charts_of_template(text) } else { terraform.installs(path).to_vec() };
        let mut seen = BTreeSet::new();
        let charts = charts.into_iter().filter(|(fact, _)| seen.insert(fact.clone()));
        // Heredocs of Terraform are read, but for those with directives.
        let is_read = is_of_terraform(path) && !text.contains("%{");
        let objects = if is_read { Vec::new() } else { unread_objects(text) };
        for (fact, line) in versions.chain(facts_of_text(text)).chain(charts).chain(objects) {
            let shown = OutsideFact { fact, path: Arc::from(short_path(path)), line };
            out.push(Found { folder: folder.to_owned(), shown });
        }
    }
    out
}

/// What scripts, files of variables and documentation show.
fn of_scripts(files: &Files<'_>) -> Vec<Found> {
    // They tell of all versions that there were.
    const HISTORIES: [&str; 5] = ["CHANGELOG", "CHANGES", "HISTORY", "UPGRAD", "MIGRAT"];
    let is_history = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_uppercase();
        HISTORIES.iter().any(|start| name.starts_with(start))
    };
    let paths = files.folders.scripts.iter().filter(|path| !is_history(path)).take(MAX_SCRIPTS).cloned();
    let read = map_on_all_threads(paths.collect(), |path| {
        let text = files.folders.disk.read_small(&path).unwrap_or_default();
        // A script fills in the other names, and what documentation shows is seldom applied.
        let is_script = path.extension().is_none_or(|end| end != "md");
        let named = |(fact, _): &(Fact, u32)| is_script && matches!(fact, Fact::Unread(_, Some(_)));
        let objects = unread_objects(&text).into_iter().filter(named);
        (path, facts_of_script(&text).into_iter().chain(objects).collect::<Vec<_>>())
    });
    let found = read.into_iter().flat_map(|(path, facts)| {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let place: Arc<str> = Arc::from(short_path(&path));
        facts.into_iter().map(move |(fact, line)| {
            let shown = OutsideFact { fact, path: Arc::clone(&place), line };
            Found { folder: folder.clone(), shown }
        })
    });
    found.collect()
}
