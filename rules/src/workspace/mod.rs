//! Files that are edited while they are checked: the basis of a language server.
//!
//! A workspace stores the files of a folder by the sets that they belong to. Each set ([`set`]) has a cluster of its own,
//! and the results of each rule for each object, with the reads of the cluster that each result depends on. When a file
//! changes, its own objects are checked again; for the objects of other files, only those rules run again that recorded a
//! read whose result has changed. Invariant: after any sequence of edits, the findings of every file equal those of a run
//! over all files ([`check_run`](crate::check_run)).

#[cfg(test)]
mod panics;
mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::sets::{self, AppliedObjects, Bond, ManifestSet, Membership, Partition};
use crate::cluster::versions::OutsideFact;
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::recorded::RulePanic;
use crate::lint::report::CheckReport;
use crate::lint::session::complete_sets;
use crate::lint::sets::join;

use set::{PlaceKey, PlacedFile, SetWorkspace};

#[derive(Debug, Default)]
pub struct Workspace {
    /// The sets of the files; empty if all files are one set.
    partition: Vec<ManifestSet>,
    /// Whether each of these sets, and last the set of files in no other set, is a whole cluster.
    complete: Vec<bool>,
    /// What files that are no manifests show for the files in no set.
    facts: Arc<[OutsideFact]>,
    /// How certain it is that the files in no set are of one cluster.
    bond: Bond,
    sets: BTreeMap<SetKey, SetWorkspace>,
    files: BTreeMap<Arc<str>, FileState>,
    panics: Vec<RulePanic>,
}

/// A file with its engine, or `None` if it is removed.
pub type FileChange = (String, Option<(File, Arc<Engine>)>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    /// The name; `None` if the whole input is one set, and for files in no set.
    name: Option<Arc<str>>,
    is_certain: bool,
    is_likely: bool,
    complete: bool,
    facts: Arc<[OutsideFact]>,
}

/// A file with its roles.
#[derive(Debug)]
struct FileState {
    file: File,
    engine: Arc<Engine>,
    places: Places,
    /// The merged findings of all roles; `None` if there is only one, whose report is that of the file.
    joined: Option<CheckReport>,
}

#[derive(Clone, Debug)]
struct Places {
    /// The memberships from the partition; empty if the file is in no set.
    memberships: Vec<Membership>,
    /// A role for each membership; one in the set of files in no other set if there are none.
    roles: Vec<Role>,
}

#[derive(Clone, Debug, PartialEq)]
struct Role {
    set: SetKey,
    /// The number of the role among those of the file in the set.
    number: usize,
}

/// The memberships of files by path.
type Memberships = BTreeMap<String, Vec<Membership>>;

/// A file with its new text and places, or `None` if it is removed.
type Change = (Arc<str>, Option<(File, Arc<Engine>, Places)>);

impl Workspace {
    /// Creates an empty workspace. As in a run, a cluster is complete if the settings of one of its files state it.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// Adds, replaces and removes files, each with the engine of its configuration, and sets to which sets all files
    /// belong: `memberships` by path. An existing file may get another engine. The last of several changes of one path
    /// is used. Returns the paths of all files whose findings have changed, in order: changed files, other files, and
    /// removed files that had findings.
    pub fn update(
        &mut self,
        changes: Vec<FileChange>,
        sets: &[ManifestSet],
        memberships: &BTreeMap<String, Vec<Membership>>,
    ) -> Vec<String> {
        self.change(changes, Some((sets, memberships)))
    }

    /// Adds many files at once, each checked by its engine. New files are in no set. Faster than adding them one by
    /// one.
    pub fn open(&mut self, files: impl IntoIterator<Item = (File, Arc<Engine>)>) {
        let of_path = |(file, engine): (File, Arc<Engine>)| {
            let path = file.source.path().to_owned();
            (path, Some((file, engine)))
        };
        self.change(files.into_iter().map(of_path).collect(), None);
    }

    /// Adds many files at once that belong to sets: `partition` has them in the order of `files`. Files that were
    /// there before are in no set.
    pub fn open_in_sets(
        &mut self,
        files: impl IntoIterator<Item = (File, Arc<Engine>)>,
        partition: &Partition,
    ) {
        let mut memberships = Memberships::new();
        let mut changes = Vec::new();
        for (number, (file, engine)) in files.into_iter().enumerate() {
            let path = file.source.path().to_owned();
            memberships.insert(path.clone(), partition.memberships(number).to_vec());
            changes.push((path, Some((file, engine))));
        }
        self.set_rest(partition);
        self.update(changes, &partition.sets, &memberships);
    }

    /// Sets what is known of the files in no set: what files that are no manifests show for them, and how certain it is that they are of
    /// one cluster. It counts from the next update on.
    pub fn set_rest(&mut self, partition: &Partition) {
        if self.facts != partition.facts || self.bond != partition.bond {
            self.facts = Arc::clone(&partition.facts);
            self.bond = partition.bond;
            // Every file is placed again.
            self.complete.clear();
        }
    }

    /// Sets to which sets the files belong: `memberships` by path. Returns the paths of the files whose findings have
    /// changed.
    pub fn repartition(
        &mut self,
        sets: &[ManifestSet],
        memberships: &BTreeMap<String, Vec<Membership>>,
    ) -> Vec<String> {
        self.update(Vec::new(), sets, memberships)
    }

    /// Adds a file, or replaces its text; its sets do not change. Returns the paths of the other files whose findings
    /// have changed.
    pub fn set(&mut self, file: File, engine: &Arc<Engine>) -> Vec<String> {
        let path = file.source.path().to_owned();
        let mut changed = self.change(vec![(path.clone(), Some((file, Arc::clone(engine))))], None);
        changed.retain(|other| *other != path);
        changed
    }

    /// Removes a file. Returns the paths of the other files whose findings have changed.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        let mut changed = self.change(vec![(path.to_owned(), None)], None);
        changed.retain(|other| other != path);
        changed
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(AsRef::as_ref)
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path).map(|kept| &kept.file)
    }

    pub fn engine(&self, path: &str) -> Option<&Arc<Engine>> {
        self.files.get(path).map(|kept| &kept.engine)
    }

    pub fn report(&self, path: &str) -> Option<&CheckReport> {
        let (path, kept) = self.files.get_key_value(path)?;
        match (&kept.joined, kept.places.roles.as_slice()) {
            (Some(joined), _) => Some(joined),
            (None, roles) => {
                let role = roles.first()?;
                self.sets.get(&role.set)?.report(&role.key(path))
            }
        }
    }

    /// The clusters that a file belongs to, each with the name of its set; `None` if the whole input is one set.
    pub fn clusters_of(&self, path: &str) -> impl Iterator<Item = (Option<&str>, &Cluster)> {
        let roles = self.files.get(path).map_or(&[][..], |kept| &kept.places.roles);
        let first = roles.iter().filter(|role| role.number == 0);
        first.filter_map(|role| Some((role.set.name.as_deref(), self.sets.get(&role.set)?.cluster())))
    }

    /// The panics of rules since the last call, for a log. Each of them discards the findings of one rule for one
    /// object, until that is checked again.
    pub fn take_panics(&mut self) -> Vec<RulePanic> {
        std::mem::take(&mut self.panics)
    }

    /// Changes files, and to which sets all files belong if `partition` is given.
    fn change(
        &mut self,
        changes: Vec<FileChange>,
        partition: Option<(&[ManifestSet], &Memberships)>,
    ) -> Vec<String> {
        let new: BTreeMap<Arc<str>, _> =
            changes.into_iter().map(|(path, new)| (Arc::from(path), new)).collect();
        let mut is_same_partition = true;
        if let Some((sets, _)) = partition
            && sets != self.partition
        {
            self.partition = sets.to_vec();
            is_same_partition = false;
        }
        let complete = self.complete_sets(&new, partition.map(|(_, memberships)| memberships));
        is_same_partition &= complete == self.complete;
        self.complete = complete;
        let mut moved: Vec<Change> = Vec::new();
        for (path, kept) in self.files.iter_mut().filter(|(path, _)| !new.contains_key(*path)) {
            let memberships = match partition {
                Some((_, memberships)) => memberships.get(&**path).map_or(&[][..], Vec::as_slice),
                None => &kept.places.memberships,
            };
            if is_same_partition && memberships == kept.places.memberships {
                continue;
            }
            let places =
                places(&self.partition, &self.complete, (&self.facts, self.bond), memberships.to_vec());
            if places.are_equal(&kept.places) {
                kept.places = places;
            } else {
                moved.push((Arc::clone(path), Some((kept.file.clone(), Arc::clone(&kept.engine), places))));
            }
        }
        let new = new.into_iter().map(|(path, new)| {
            let new = new.map(|(file, engine)| {
                let memberships = match partition {
                    Some((_, memberships)) => memberships.get(&*path).cloned(),
                    None => self.files.get(&path).map(|kept| kept.places.memberships.clone()),
                };
                let places = places(
                    &self.partition,
                    &self.complete,
                    (&self.facts, self.bond),
                    memberships.unwrap_or_default(),
                );
                (file, engine, places)
            });
            (path, new)
        });
        let changes: Vec<Change> = new.chain(moved).collect();
        let before: Vec<(Arc<str>, CheckReport)> = changes
            .iter()
            .map(|(path, _)| (Arc::clone(path), self.report(path).cloned().unwrap_or_default()))
            .collect();
        let mut changed = self.apply(changes);
        let none = CheckReport::default();
        let own =
            before.iter().filter(|(path, before)| !self.report(path).unwrap_or(&none).renders_equal(before));
        changed.extend(own.map(|(path, _)| path.to_string()));
        changed.sort();
        changed
    }

    /// Whether each set is a whole cluster after the changes, where some files are `new`.
    fn complete_sets(
        &self,
        new: &BTreeMap<Arc<str>, Option<(File, Arc<Engine>)>>,
        memberships: Option<&Memberships>,
    ) -> Vec<bool> {
        let kept = self.files.iter().filter(|(path, _)| !new.contains_key(*path));
        let kept = kept.map(|(path, kept)| (path, &kept.engine));
        let new = new.iter().filter_map(|(path, new)| Some((path, &new.as_ref()?.1)));
        let files = kept.chain(new).map(|(path, engine)| {
            let memberships = match memberships {
                Some(memberships) => memberships.get(&**path),
                None => self.files.get(path).map(|kept| &kept.places.memberships),
            };
            (memberships.map_or(&[][..], Vec::as_slice), &**engine)
        });
        complete_sets(&self.partition, files)
    }

    fn set_workspace(&mut self, key: &SetKey) -> &mut SetWorkspace {
        let bond = match (key.is_certain, key.is_likely) {
            (true, _) => Bond::Certain,
            (_, true) => Bond::Likely,
            _ => Bond::Folders,
        };
        self.sets
            .entry(key.clone())
            .or_insert_with(|| SetWorkspace::new(key.name.clone(), key.complete, bond, &key.facts))
    }

    /// Adds, replaces and removes files. Returns the paths of the other files whose findings have changed.
    fn apply(&mut self, changes: Vec<Change>) -> Vec<String> {
        let mut by_set: BTreeMap<SetKey, BTreeMap<PlaceKey, Option<PlacedFile>>> = BTreeMap::new();
        let mut own: BTreeSet<Arc<str>> = BTreeSet::new();
        for (path, new) in changes {
            for role in self.files.get(&path).into_iter().flat_map(|kept| &kept.places.roles) {
                by_set.entry(role.set.clone()).or_default().insert(role.key(&path), None);
            }
            match new {
                Some((file, engine, places)) => {
                    for (role, objects) in
                        places.roles.iter().zip(sets::apply(&places.memberships, &file.objects))
                    {
                        let place = place(objects, &file, &engine);
                        by_set.entry(role.set.clone()).or_default().insert(role.key(&path), Some(place));
                    }
                    self.files.insert(Arc::clone(&path), FileState { file, engine, places, joined: None });
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
            let panics = set.take_panics();
            if set.is_empty() {
                self.sets.remove(&key);
            }
            self.panics.extend(panics);
        }
        for path in &own {
            self.join(path);
            renewed.remove(path);
        }
        let mut renewed_paths = Vec::new();
        for (path, changed) in renewed {
            let before = self.files.get_mut(&path).and_then(|kept| kept.joined.take());
            self.join(&path);
            let changed = match (before, self.report(&path)) {
                (Some(before), Some(now)) => !now.renders_equal(&before),
                _ => changed,
            };
            if changed {
                renewed_paths.push(path.to_string());
            }
        }
        renewed_paths
    }

    /// Merges the findings of a file with several roles.
    fn join(&mut self, path: &Arc<str>) {
        let Some(kept) = self.files.get(path).filter(|kept| kept.places.roles.len() > 1) else { return };
        let roles = &kept.places.roles;
        let applied = sets::apply(&kept.places.memberships, &kept.file.objects);
        // The number of the next object in each role: a set may omit some objects.
        let mut next = vec![0; roles.len()];
        let mut findings = Vec::new();
        for at in 0..kept.file.objects.len() {
            let mut found = Vec::new();
            let mut names = Vec::new();
            for ((role, objects), next) in roles.iter().zip(&applied).zip(&mut next) {
                let is_applied = objects.get(&kept.file.objects, at).is_some();
                let Some(set) = self.sets.get(&role.set).filter(|_| is_applied) else { continue };
                found.push(set.findings(&role.key(path), *next));
                names.push(set.name());
                *next += 1;
            }
            findings.extend(join(found, names.into_iter()));
        }
        let names = roles.iter().filter_map(|role| Some(self.sets.get(&role.set)?.name()));
        let (joined, panicked) = kept.engine.assemble_isolated(&kept.file, true, &|| findings.clone(), names);
        self.panics.extend(panicked.map(|message| RulePanic {
            rule: None,
            path: path.to_string(),
            object: None,
            message,
        }));
        if let Some(kept) = self.files.get_mut(path) {
            kept.joined = Some(joined);
        }
    }
}

/// The places of a file with these memberships. Files in no set share one, of which `rest` has the facts and the bond. `complete`
/// states of each set, and last of the files in no set, whether it is a whole cluster.
fn places(
    sets: &[ManifestSet],
    complete: &[bool],
    rest: (&Arc<[OutsideFact]>, Bond),
    memberships: Vec<Membership>,
) -> Places {
    let key = |name: Option<Arc<str>>, bond: Bond, complete: bool, facts: &Arc<[OutsideFact]>| SetKey {
        name,
        is_certain: bond == Bond::Certain,
        is_likely: bond == Bond::Likely,
        complete,
        facts: Arc::clone(facts),
    };
    let mut roles: Vec<Role> = Vec::with_capacity(memberships.len().max(1));
    for membership in &memberships {
        let set = &sets[membership.set];
        let key = key(Some(Arc::clone(&set.name)), set.bond, complete[membership.set], &set.facts);
        let number = roles.iter().filter(|role| role.set == key).count();
        roles.push(Role { set: key, number });
    }
    if memberships.is_empty() {
        let (facts, bond) = rest;
        roles.push(Role { set: key(None, bond, complete[sets.len()], facts), number: 0 });
    }
    Places { memberships, roles }
}

impl Places {
    /// Whether both are equal except for the numbers of the sets.
    fn are_equal(&self, other: &Places) -> bool {
        let same =
            |(one, other): (&Membership, &Membership)| *one == Membership { set: one.set, ..other.clone() };
        self.roles == other.roles
            && self.memberships.len() == other.memberships.len()
            && self.memberships.iter().zip(&other.memberships).all(same)
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
#[expect(clippy::disallowed_methods, reason = "the tests read fixtures")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use gpulint_testing::{fixtures, is_full, yaml_below};

    use crate::cluster::Cluster;
    use crate::cluster::query::undeclared;
    use crate::file::File;
    use crate::lint::engine::Engine;
    use crate::lint::settings::Settings;
    use crate::source::Source;

    /// The admission server watches only the kinds that rules declare, and a workspace reruns a rule only if
    /// it declares reads: a dependency that is not declared is missed.
    #[test]
    fn rules_read_the_kinds_that_they_declare() {
        let files = yaml_below(&fixtures());
        assert!(files.len() > 2_000, "{}", files.len());
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(File::read(Source::from_text(&path.display().to_string(), &text)))
        };
        let files: Vec<File> = files.iter().filter_map(read).collect();
        let undeclared_reads = |complete: bool| {
            let engine = Engine::new(Settings { complete, ..Settings::default() });
            let mut undeclared = Vec::new();
            // Several files together, so that rules read the objects of other files; but not all at once, because most
            // lookups would then find several objects.
            for (number, files) in files.chunks(25).enumerate() {
                // Without FULL each file is in one of the two clusters.
                if !is_full() && (number % 2 == 0) == complete {
                    continue;
                }
                let mut cluster = Cluster::incremental(complete);
                for object in files.iter().flat_map(|file| &file.objects) {
                    cluster.apply(object.clone());
                }
                for object in files.iter().flat_map(|file| &file.objects) {
                    let reads = engine.undeclared_reads(object, &cluster);
                    undeclared.extend(reads.into_iter().map(|(rule, read)| format!("{rule}: {read:?}")));
                }
            }
            undeclared
        };
        // In threads of their own: reads are recorded by thread, and one of rayon's may run two tasks in turns.
        let mut undeclared: BTreeSet<String> = std::thread::scope(|scope| {
            let undeclared_reads = &undeclared_reads;
            let runs = [false, true].map(|complete| scope.spawn(move || undeclared_reads(complete)));
            runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
        });
        let queries = undeclared::queries_run();
        assert!(queries.len() > 20, "{queries:?}");
        let queries = queries.into_iter().filter_map(|(query, read)| Some(format!("{query:?}: {:?}", read?)));
        undeclared.extend(queries);
        let undeclared: Vec<String> = undeclared.into_iter().collect();
        assert!(
            undeclared.is_empty(),
            "reads that `Rule::reads` or `Query::KINDS` does not declare:\n{}",
            undeclared.join("\n")
        );
    }
}
