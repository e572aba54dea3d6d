//! The sets of an input while they are being discovered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::{Bond, ManifestSet, Membership, Partition};

use super::index::{Files, SetFile};
use super::names;
use super::names::SetName;
use super::reference;
use super::reference::Applied;
use super::transform::Transform;
use crate::files::kustomization::KUSTOMIZATIONS;

/// The name of the set of files that no other set claims.
pub(crate) const UNCLAIMED: &str = "unclaimed";

/// The evidence that files form a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The field `clusters` of a configuration.
    Configuration,
    /// Kustomizations of Flux.
    Flux,
    Argo,
    /// Both Flux and Argo CD.
    GitOps,
    /// One kustomization that repeats objects of others, or the only one.
    Kustomization,
    /// Kustomizations that do not contradict each other.
    Kustomizations,
    /// A chart of which single files are checked.
    Chart,
    /// Folders that are named like an environment.
    Environment,
    /// No evidence: the files are in no other set.
    None,
}

impl Sign {
    /// The name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Sign::Configuration => "configuration",
            Sign::Flux => "flux",
            Sign::Argo => "argo",
            Sign::GitOps => "flux-and-argo",
            Sign::Kustomization => "kustomization",
            Sign::Kustomizations => "kustomizations",
            Sign::Chart => "chart",
            Sign::Environment => "environment-folder",
            Sign::None => "none",
        }
    }
}

/// The reason why files form a set.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) sign: Sign,
    /// The absolute paths of the files and folders that define the set.
    pub(crate) places: Vec<PathBuf>,
    /// The folders that objects of Flux and Argo CD apply to it.
    pub(crate) applied: BTreeSet<PathBuf>,
    /// The address or name of the cluster in the files that define the set.
    pub(crate) destination: Option<String>,
}

impl Evidence {
    fn new(sign: Sign, places: Vec<PathBuf>) -> Evidence {
        Evidence { sign, places, applied: BTreeSet::new(), destination: None }
    }

    /// Whether the folder of a kustomization may be applied to the set: the configuration says so, nothing says which folders
    /// are, or one of those that are is it, above it or below it. Another overlay of the same base is not applied.
    pub(crate) fn may_apply(&self, folder: &Path) -> bool {
        self.sign == Sign::Configuration
            || self.applied.is_empty()
            || self.applied.iter().any(|applied| applied.starts_with(folder) || folder.starts_with(applied))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    pub(crate) partition: Partition,
    pub(crate) evidence: Vec<Evidence>,
    /// Whether a set claims each file. The others are in the sets of their folder.
    claimed: Vec<bool>,
}

impl Sets {
    /// The sets that claim a file, except those of folders that are named like environments.
    pub(crate) fn claims(&self, file: usize) -> impl Iterator<Item = usize> {
        let is_claimed = self.claimed.get(file).copied().unwrap_or_default();
        let members = self.partition.memberships(file).iter().filter(move |_| is_claimed);
        let sets = members.map(|member| member.set);
        sets.filter(|set| !matches!(self.evidence[*set].sign, Sign::Environment | Sign::None))
    }

    /// Adds the set of a chart, with those of its files that no other set claims.
    pub(crate) fn add_chart(&mut self, name: &str, folder: PathBuf, files: &[usize]) {
        let set = self.partition.sets.len();
        self.partition.sets.push(ManifestSet {
            name: Arc::from(name),
            bond: Bond::Certain,
            ..ManifestSet::default()
        });
        self.evidence.push(Evidence::new(Sign::Chart, vec![folder]));
        for &file in files {
            if self.claims(file).next().is_none() {
                let count = self.partition.files.len().max(file + 1);
                self.partition.files.resize(count, Vec::new());
                self.claimed.resize(count, false);
                self.partition.files[file] = vec![Membership { set, ..Membership::default() }];
                self.claimed[file] = true;
            }
        }
    }
}

pub(super) struct Draft<'f, 'a> {
    pub(super) files: &'f Files<'a>,
    pub(super) sets: Vec<DraftSet>,
    pub(super) members: Vec<Vec<Membership>>,
    /// The sets to which the configuration assigns each file.
    pub(super) configured: Vec<Vec<usize>>,
    /// Whether the configuration assigns any file.
    is_configured: bool,
}

pub(super) struct DraftSet {
    name: SetName,
    bond: Bond,
    pub(super) evidence: Evidence,
}

impl<'f, 'a> Draft<'f, 'a> {
    pub(super) fn new(files: &'f Files<'a>) -> Draft<'f, 'a> {
        let count = files.list.len();
        Draft {
            files,
            sets: Vec::new(),
            members: vec![Vec::new(); count],
            configured: vec![Vec::new(); count],
            is_configured: false,
        }
    }

    /// Adds a set, and returns its index.
    pub(super) fn add_set(&mut self, name: SetName, bond: Bond, sign: Sign, places: Vec<PathBuf>) -> usize {
        self.sets.push(DraftSet { name, bond, evidence: Evidence::new(sign, places) });
        self.sets.len() - 1
    }

    /// Makes a file a member of a set, unless the configuration assigns it to other sets.
    pub(super) fn add_member(&mut self, file: usize, set: usize, how: &Transform) {
        let configured = &self.configured[file];
        if !configured.is_empty() && !configured.contains(&set) {
            return;
        }
        let membership = how.membership(set);
        let members = &mut self.members[file];
        if !members.contains(&membership) {
            members.push(membership);
        }
    }

    pub(super) fn is_claimed(&self, file: usize) -> bool {
        !self.members[file].is_empty() || !self.configured[file].is_empty()
    }

    /// The sets that claim files of a folder, by folder.
    pub(super) fn sets_by_folder(&self) -> HashMap<&'a Path, Vec<usize>> {
        let mut by_folder: HashMap<&Path, Vec<usize>> = HashMap::new();
        for (file, members) in self.members.iter().enumerate() {
            let Some(folder) = self.files.folder(file).filter(|_| !members.is_empty()) else { continue };
            let sets = by_folder.entry(folder).or_default();
            for member in members {
                if !sets.contains(&member.set) {
                    sets.push(member.set);
                }
            }
        }
        by_folder
    }

    /// Adds a set for each cluster of a configuration.
    pub(super) fn add_configured(&mut self) {
        let mut known: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for (file, one) in self.files.list.iter().enumerate() {
            for (scope, name) in &one.clusters {
                let set = *known.entry((*scope, name)).or_insert_with(|| {
                    self.sets.push(DraftSet {
                        name: SetName::Fixed(name.clone()),
                        bond: Bond::Certain,
                        evidence: Evidence::new(Sign::Configuration, Vec::new()),
                    });
                    self.sets.len() - 1
                });
                self.is_configured = true;
                if !self.configured[file].contains(&set) {
                    self.configured[file].push(set);
                }
            }
        }
    }

    /// Adds files to the sets that the configuration assigns them to, without changes to their objects,
    /// unless a kustomization has added them.
    pub(super) fn add_configured_files(&mut self) {
        for file in 0..self.members.len() {
            for set in self.configured[file].clone() {
                if !self.members[file].iter().any(|member| member.set == set) {
                    self.add_member(file, set, &Transform::default());
                }
            }
        }
    }

    /// The clusters to which the configuration assigns a folder: those of its kustomization file.
    pub(super) fn clusters_of_folder(&self, folder: &Path) -> Vec<usize> {
        if !self.is_configured {
            return Vec::new();
        }
        let names = KUSTOMIZATIONS.iter();
        let file = names.filter_map(|name| self.files.at(&folder.join(name))).next();
        file.map(|file| self.configured[file].clone()).unwrap_or_default()
    }

    /// Adds the remaining files to the sets of their folder, or to a set of their own.
    pub(super) fn finish(mut self) -> Sets {
        // Sets without objects are of no use.
        self.remove_empty_sets();
        if self.sets.is_empty() {
            return Sets::default();
        }
        let by_folder = self.sets_by_folder();
        let claimed = self.members.iter().map(|members| !members.is_empty()).collect();
        let rest = self.sets.len();
        let refers = |(file, members): (&SetFile<'_>, &Vec<Membership>)| {
            members.is_empty() && file.objects.iter().any(reference::is_reference)
        };
        let has_references = self.files.list.iter().zip(&self.members).any(refers);
        let applied = match has_references {
            true => Applied::of(self.files, &self.members),
            false => Applied::default(),
        };
        let mut has_rest = false;
        for file in 0..self.members.len() {
            if !self.members[file].is_empty() {
                continue;
            }
            let sets = self.files.folder(file).and_then(|folder| by_folder.get(folder));
            let sets = sets.cloned().unwrap_or_else(|| {
                let objects = self.files.list[file].objects;
                // What names an object of one cluster is applied there, if in another way.
                let named = applied.sets_named(objects, self.files.folder(file));
                named.first().filter(|_| named.len() == 1).copied().into_iter().chain([rest]).collect()
            });
            has_rest |= sets.contains(&rest) && !self.files.list[file].objects.is_empty();
            self.members[file] =
                sets.into_iter().map(|set| Membership { set, ..Membership::default() }).collect();
        }
        if has_rest {
            let name = SetName::Fixed(UNCLAIMED.to_owned());
            self.add_set(name, Bond::Folders, Sign::None, Vec::new());
        } else {
            for members in &mut self.members {
                members.retain(|member| member.set != rest);
            }
        }
        let names = names::unique(self.sets.iter().map(|set| &set.name));
        let sets = self.sets.iter().zip(&names).enumerate().map(|(number, (set, name))| ManifestSet {
            name: Arc::from(name.as_str()),
            bond: set.bond,
            may_be_complete: number != rest,
            ..ManifestSet::default()
        });
        Sets {
            partition: Partition { sets: sets.collect(), files: self.members, ..Partition::default() },
            evidence: self.sets.into_iter().map(|set| set.evidence).collect(),
            claimed,
        }
    }

    fn remove_empty_sets(&mut self) {
        let mut used = vec![false; self.sets.len()];
        for (file, members) in self.members.iter().enumerate() {
            if !self.files.list[file].objects.is_empty() {
                members.iter().for_each(|member| used[member.set] = true);
            }
        }
        let mut next = 0;
        let numbers: Vec<Option<usize>> = used
            .iter()
            .map(|used| {
                let number = used.then_some(next);
                next += usize::from(*used);
                number
            })
            .collect();
        let mut at = 0;
        self.sets.retain(|_| {
            at += 1;
            used[at - 1]
        });
        for members in &mut self.members {
            members.retain_mut(|member| numbers[member.set].map(|number| member.set = number).is_some());
        }
    }
}
