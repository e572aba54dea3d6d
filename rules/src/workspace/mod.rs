//! Files that are edited while they are checked: the basis of a language server.
//!
//! A workspace stores the files of a folder by the sets that they belong to. Each set ([`set`]) has a cluster of its own,
//! and the results of each rule for each object, with the reads of the cluster that each result depends on. When a file
//! changes, its own objects are checked again; for the objects of other files, only those rules run again that recorded a
//! read whose result has changed. Invariant: after any sequence of edits, the findings of every file equal those of a run
//! over all files ([`check_run`](crate::check_run)).

mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::sets::{self, AppliedObjects, Bond, ManifestSet, Membership, Partition};
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::placements::{join, name_unjudged};
use crate::lint::report::CheckReport;

use set::{PlaceKey, PlacedFile, SetWorkspace};

/// Files with the findings of the rules.
#[derive(Debug)]
pub struct Workspace {
    complete: bool,
    /// Whether the whole input is one set.
    is_whole: bool,
    sets: BTreeMap<SetKey, SetWorkspace>,
    files: BTreeMap<Arc<str>, FileState>,
}

/// A set, and what its cluster depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    /// Its place among the sets; what no set has comes last.
    order: usize,
    /// Its name; none where the whole input is one, and for what no set has.
    name: Option<Arc<str>>,
    is_certain: bool,
    is_likely: bool,
    complete: bool,
}

/// A file with its roles.
#[derive(Debug)]
struct FileState {
    file: File,
    engine: Arc<Engine>,
    roles: Vec<Role>,
    /// The findings of all roles; absent where there is only one, whose report is that of the file.
    joined: Option<CheckReport>,
}

/// How a file takes part in a set.
#[derive(Clone, Debug, PartialEq)]
struct Role {
    set: SetKey,
    /// Its number among the roles of the file in the set.
    number: usize,
    membership: Membership,
}

/// The objects of a file as each of its roles applies them.
fn applied(roles: &[Role], file: &File) -> Vec<AppliedObjects> {
    // Roles of one set are those with one number here.
    let number = |role: &Role| roles.iter().position(|other| other.set == role.set).unwrap_or_default();
    let memberships: Vec<Membership> =
        roles.iter().map(|role| Membership { set: number(role), ..role.membership.clone() }).collect();
    sets::apply(&memberships, &file.objects)
}

/// A file with its new text and roles, or nothing where it is removed.
type Change = (Arc<str>, Option<(File, Arc<Engine>, Vec<Role>)>);

impl Workspace {
    /// Creates an empty workspace. `complete` is true if the files are whole clusters, so that an object that is not in
    /// them does not exist.
    #[must_use]
    pub fn new(complete: bool) -> Workspace {
        Workspace { complete, is_whole: true, sets: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// Adds many files at once, each checked by its engine, all of them one set. Faster than adding them one by one.
    pub fn open(&mut self, files: impl IntoIterator<Item = (File, Arc<Engine>)>) {
        self.open_in_sets(files, &Partition::default());
    }

    /// Adds many files at once that belong to sets: `partition` has them in the order of `files`.
    pub fn open_in_sets(
        &mut self,
        files: impl IntoIterator<Item = (File, Arc<Engine>)>,
        partition: &Partition,
    ) {
        self.is_whole = partition.is_whole();
        let mut known = Vec::new();
        let mut added = BTreeSet::new();
        let mut placed: BTreeMap<SetKey, Vec<(PlaceKey, PlacedFile)>> = BTreeMap::new();
        for (number, (file, engine)) in files.into_iter().enumerate() {
            let path: Arc<str> = Arc::from(file.source.path());
            let roles = self.roles(&partition.sets, partition.memberships(number));
            if self.files.contains_key(&path) || !added.insert(Arc::clone(&path)) {
                known.push((path, Some((file, engine, roles))));
                continue;
            }
            for (role, objects) in roles.iter().zip(applied(&roles, &file)) {
                let place = (role.key(&path), place(objects, &file, &engine));
                placed.entry(role.set.clone()).or_default().push(place);
            }
            self.files.insert(path, FileState { file, engine, roles, joined: None });
        }
        for (key, files) in placed {
            self.set_workspace(&key).open(files);
        }
        self.apply(known);
        let paths: Vec<Arc<str>> = self.files.keys().cloned().collect();
        for path in paths {
            self.join(&path);
        }
    }

    /// Sets which sets the files belong to: `memberships` by path. Returns the paths of the files whose findings have
    /// changed.
    pub fn repartition(
        &mut self,
        sets: &[ManifestSet],
        memberships: &BTreeMap<String, Vec<Membership>>,
    ) -> Vec<String> {
        self.is_whole = sets.is_empty();
        let mut changes = Vec::new();
        for (path, kept) in &self.files {
            let roles = self.roles(sets, memberships.get(&**path).map_or(&[], Vec::as_slice));
            if roles != kept.roles {
                changes.push((Arc::clone(path), Some((kept.file.clone(), Arc::clone(&kept.engine), roles))));
            }
        }
        let before: Vec<(Arc<str>, CheckReport)> = changes
            .iter()
            .filter_map(|(path, _)| Some((Arc::clone(path), self.report(path)?.clone())))
            .collect();
        let mut changed = self.apply(changes);
        let own = before
            .into_iter()
            .filter(|(path, before)| self.report(path).is_none_or(|report| !report.renders_equal(before)));
        changed.extend(own.map(|(path, _)| path.to_string()));
        changed.sort();
        changed
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// A file in its current version.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path).map(|kept| &kept.file)
    }

    /// The findings of a file.
    #[must_use]
    pub fn report(&self, path: &str) -> Option<&CheckReport> {
        let (path, kept) = self.files.get_key_value(path)?;
        match (&kept.joined, kept.roles.as_slice()) {
            (Some(joined), _) => Some(joined),
            (None, roles) => {
                let role = roles.first()?;
                self.sets.get(&role.set)?.report(&role.key(path))
            }
        }
    }

    /// The clusters that a file belongs to, each with the name of its set; one without a name where the whole input is one.
    pub fn clusters_of(&self, path: &str) -> impl Iterator<Item = (Option<&str>, &Cluster)> {
        let roles = self.files.get(path).map_or(&[][..], |kept| &kept.roles);
        let first = roles.iter().filter(|role| role.number == 0);
        first.filter_map(|role| Some((role.set.name.as_deref(), self.sets.get(&role.set)?.cluster())))
    }

    /// Adds a file, or replaces its text; its sets stay what they are. Returns the paths of the other files whose findings
    /// have changed.
    pub fn set(&mut self, file: File, engine: &Arc<Engine>) -> Vec<String> {
        let path: Arc<str> = Arc::from(file.source.path());
        let roles = match self.files.get(&path) {
            Some(kept) => kept.roles.clone(),
            None => self.roles(&[], &[]),
        };
        self.apply(vec![(path, Some((file, Arc::clone(engine), roles)))])
    }

    /// Removes a file. Returns the paths of the files whose findings have changed.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        match self.files.get_key_value(path) {
            Some((path, _)) => self.apply(vec![(Arc::clone(path), None)]),
            None => Vec::new(),
        }
    }

    /// The roles of a file with these memberships. A file that no set has is with all others that no set has.
    fn roles(&self, sets: &[ManifestSet], memberships: &[Membership]) -> Vec<Role> {
        let key = |order: usize, name: Option<Arc<str>>, bond: Bond, complete: bool| SetKey {
            order,
            name,
            is_certain: bond == Bond::Certain,
            is_likely: bond == Bond::Likely,
            complete: complete && self.complete,
        };
        if memberships.is_empty() {
            let rest = key(usize::MAX, None, Bond::Folders, self.is_whole);
            return vec![Role { set: rest, number: 0, membership: Membership::default() }];
        }
        let mut roles: Vec<Role> = Vec::with_capacity(memberships.len());
        for membership in memberships {
            let set = &sets[membership.set];
            let key = key(membership.set, Some(Arc::clone(&set.name)), set.bond, set.may_be_complete);
            let number = roles.iter().filter(|role| role.set == key).count();
            roles.push(Role { set: key, number, membership: membership.clone() });
        }
        roles
    }

    fn set_workspace(&mut self, key: &SetKey) -> &mut SetWorkspace {
        let bond = match (key.is_certain, key.is_likely) {
            (true, _) => Bond::Certain,
            (_, true) => Bond::Likely,
            _ => Bond::Folders,
        };
        self.sets
            .entry(key.clone())
            .or_insert_with(|| SetWorkspace::new(key.name.clone(), key.complete, bond))
    }

    /// Adds, replaces and removes files. Returns the paths of the other files whose findings have changed.
    fn apply(&mut self, changes: Vec<Change>) -> Vec<String> {
        let mut by_set: BTreeMap<SetKey, BTreeMap<PlaceKey, Option<PlacedFile>>> = BTreeMap::new();
        let mut own: BTreeSet<Arc<str>> = BTreeSet::new();
        for (path, new) in changes {
            for role in self.files.get(&path).into_iter().flat_map(|kept| &kept.roles) {
                by_set.entry(role.set.clone()).or_default().insert(role.key(&path), None);
            }
            match new {
                Some((file, engine, roles)) => {
                    for (role, objects) in roles.iter().zip(applied(&roles, &file)) {
                        let place = place(objects, &file, &engine);
                        by_set.entry(role.set.clone()).or_default().insert(role.key(&path), Some(place));
                    }
                    self.files.insert(Arc::clone(&path), FileState { file, engine, roles, joined: None });
                }
                None => _ = self.files.remove(&path),
            }
            own.insert(path);
        }
        let mut renewed: BTreeMap<Arc<str>, bool> = BTreeMap::new();
        for (key, changes) in by_set {
            let set = self.set_workspace(&key);
            for place in set.replace(changes.into_iter().collect()) {
                *renewed.entry(place.key.path).or_default() |= place.changed;
            }
            if set.is_empty() {
                self.sets.remove(&key);
            }
        }
        for path in &own {
            self.join(path);
            renewed.remove(path);
        }
        let mut told = Vec::new();
        for (path, changed) in renewed {
            let before = self.files.get_mut(&path).and_then(|kept| kept.joined.take());
            self.join(&path);
            let changed = match (before, self.report(&path)) {
                (Some(before), Some(now)) => !now.renders_equal(&before),
                _ => changed,
            };
            if changed {
                told.push(path.to_string());
            }
        }
        told
    }

    /// Joins the findings of a file that has several roles.
    fn join(&mut self, path: &Arc<str>) {
        let Some(kept) = self.files.get(path).filter(|kept| kept.roles.len() > 1) else {
            return;
        };
        let applied = applied(&kept.roles, &kept.file);
        // The number of the next object in each role: a set may leave some out.
        let mut next = vec![0; kept.roles.len()];
        let mut findings = Vec::new();
        for at in 0..kept.file.objects.len() {
            let mut found = Vec::new();
            let mut names = Vec::new();
            for ((role, objects), next) in kept.roles.iter().zip(&applied).zip(&mut next) {
                let is_applied = objects.get(&kept.file.objects, at).is_some();
                let Some(set) = self.sets.get(&role.set).filter(|_| is_applied) else {
                    continue;
                };
                found.push(set.findings(&role.key(path), *next));
                names.push(set.name());
                *next += 1;
            }
            findings.extend(join(found, names.into_iter()));
        }
        let mut joined = kept.engine.assemble_report(&kept.file, findings);
        let names = kept.roles.iter().filter_map(|role| Some(self.sets.get(&role.set)?.name()));
        name_unjudged(&mut joined.findings, names);
        if let Some(kept) = self.files.get_mut(path) {
            kept.joined = Some(joined);
        }
    }
}

impl Role {
    fn key(&self, path: &Arc<str>) -> PlaceKey {
        PlaceKey { path: Arc::clone(path), role: self.number }
    }
}

/// A file with its objects as a set applies them.
fn place(objects: AppliedObjects, file: &File, engine: &Arc<Engine>) -> PlacedFile {
    let objects = match objects {
        AppliedObjects::Changed(objects) => objects.into_iter().flatten().collect(),
        AppliedObjects::Written => file.objects.clone(),
    };
    PlacedFile { file: file.clone(), objects, engine: Arc::clone(engine) }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests read fixtures")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use crate::cluster::Cluster;
    use crate::file::File;
    use crate::lint::engine::Engine;
    use crate::lint::settings::Settings;
    use crate::source::Source;

    fn files_below(folder: &Path, out: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                files_below(&path, out);
            } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                out.push(path);
            }
        }
    }

    /// The admission server watches only the kinds that rules declare, and a workspace reruns a rule only if
    /// it declares reads: a dependency that is not declared is missed.
    #[test]
    fn rules_read_the_kinds_that_they_declare() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        let mut files = Vec::new();
        for folder in ["rules", "sets", "practices", "verdicts"] {
            let mut paths = Vec::new();
            files_below(&root.join(folder), &mut paths);
            assert!(!paths.is_empty(), "no fixtures in {folder}");
            files.extend(paths);
        }
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(File::read(Source::from_text(&path.display().to_string(), &text)))
        };
        let files: Vec<File> = files.iter().filter_map(read).collect();
        let mut undeclared = BTreeSet::new();
        for complete in [false, true] {
            let engine = Engine::new(Settings { complete, ..Settings::default() });
            // Several files together, so that rules meet the objects of other files; but not all at once,
            // because most lookups would then find too many.
            for files in files.chunks(25) {
                let mut cluster = Cluster::new(complete);
                for object in files.iter().flat_map(|file| &file.objects) {
                    cluster.apply(object.clone());
                }
                for object in files.iter().flat_map(|file| &file.objects) {
                    let reads = engine.undeclared_reads(object, &cluster);
                    undeclared.extend(reads.into_iter().map(|(rule, read)| format!("{rule}: {read:?}")));
                }
            }
        }
        let undeclared: Vec<String> = undeclared.into_iter().collect();
        assert!(
            undeclared.is_empty(),
            "reads that `Rule::reads` does not declare:\n{}",
            undeclared.join("\n")
        );
    }
}
