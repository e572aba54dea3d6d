//! The objects of Flux and Argo CD: which files they apply to which cluster, and which of them are roots.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use gpulint_rules::Bond;

use super::claimer::{Checkout, Claimer, Destination, GitOpsObject, Tool};
use super::draft::{Draft, Sign};
use super::environments::environment_above;
use super::index::Files;
use super::kustomize::Top;
use super::names::{SetName, without_tools};
use super::transform::Transform;
use super::{argo, flux, identity};

/// Folders whose subfolders are clusters, regardless of their names.
const CLUSTER_FOLDERS: &[&str] = &["clusters", "environments", "envs"];

/// Minimum share of common objects by which two groups conflict, as its reciprocal: fewer than one in four
/// may be a mistake.
const FEW: usize = 4;

/// Claimers in one folder.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    claimers: Vec<usize>,
    /// The folder of clusters or environments above this one, and the folder of the cluster.
    cluster: Option<(PathBuf, PathBuf)>,
}

/// The objects of Flux and Argo CD that apply files.
pub(super) fn claimers(files: &Files<'_>) -> Vec<Claimer> {
    let checkout = Checkout::new(files);
    let objects = GitOpsObject::all(files);
    let (mut claimers, applications) =
        rayon::join(|| flux::claimers(&checkout, &objects), || argo::claimers(&checkout, &objects));
    claimers.extend(applications);
    claimers
}

/// Adds the sets of Flux and Argo CD.
pub(super) fn add(draft: &mut Draft<'_, '_>, mut claimers: Vec<Claimer>, tops: &[Top<'_>]) {
    if claimers.is_empty() {
        return;
    }
    flux::hand_down(&mut claimers, tops.iter().map(|top| &top.reach));
    let graph = Graph::new(claimers, tops);
    let mut clusters = Clusters::default();
    let mut free = Vec::new();
    for root in graph.roots() {
        let claimer = &graph.claimers[root];
        let configured = match claimer.file {
            Some(file) => draft.configured[file].clone(),
            None => draft.clusters_of_folder(&claimer.place),
        };
        if configured.is_empty() {
            free.push(root);
        }
        for set in configured {
            clusters.apply(draft, &graph, root, set);
        }
    }
    let groups = groups(&graph, &free);
    let units = units(&groups, &conflicts(draft.files, &graph, &groups));
    let is_only = units.len() == 1;
    let mut parts: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for cluster in units.iter().filter_map(|unit| groups[*unit.first()?].cluster.as_ref()) {
        *parts.entry(cluster.1.clone()).or_default() += 1;
    }
    for unit in units {
        let groups: Vec<&Group> = unit.into_iter().map(|group| &groups[group]).collect();
        let roots: Vec<usize> = groups.iter().flat_map(|group| group.claimers.iter().copied()).collect();
        let places: BTreeSet<PathBuf> =
            roots.iter().map(|root| graph.claimers[*root].place.clone()).collect();
        let all = graph.applied_locally(&roots);
        let is = |tool: Tool| all.iter().any(|claimer| graph.claimers[*claimer].tool == tool);
        let sign = match (is(Tool::Argo), is(Tool::Flux)) {
            (true, true) => Sign::GitOps,
            (true, false) => Sign::Argo,
            (false, _) => Sign::Flux,
        };
        let set = draft.add_set(
            name(&groups, &parts, is_only && sign == Sign::Argo),
            Bond::Certain,
            sign,
            places.into_iter().collect(),
        );
        roots.into_iter().for_each(|root| clusters.apply(draft, &graph, root, set));
    }
    clusters.finish(draft);
}

/// The name of the groups of one cluster. `parts` has the number of sets below the folder of each cluster.
fn name(groups: &[&Group], parts: &BTreeMap<PathBuf, usize>, is_only_argo: bool) -> SetName {
    if is_only_argo {
        return SetName::Fixed("in-cluster".to_owned());
    }
    let first = groups.first().map(|group| group.folder.clone()).unwrap_or_default();
    let cluster = groups.first().and_then(|group| group.cluster.as_ref()).map(|(_, cluster)| cluster);
    let folder = match cluster {
        Some(cluster) if parts.get(cluster) == Some(&1) => cluster.clone(),
        _ => groups.iter().fold(first, |common, group| {
            let shared = common.components().zip(group.folder.components());
            shared.take_while(|(a, b)| a == b).map(|(part, _)| part).collect()
        }),
    };
    SetName::Folder(without_tools(&folder).to_owned())
}

/// The claimers, with the claimers that they apply.
struct Graph {
    claimers: Vec<Claimer>,
    /// The claimers in each file.
    by_file: HashMap<usize, Vec<usize>>,
}

impl Graph {
    fn new(claimers: Vec<Claimer>, tops: &[Top<'_>]) -> Graph {
        let mut graph = Graph { claimers, by_file: HashMap::new() };
        for (number, claimer) in graph.claimers.iter().enumerate() {
            if let Some(file) = claimer.file {
                graph.by_file.entry(file).or_default().push(number);
            }
        }
        // A kustomization of claimers that is not applied by another claimer is the root of a cluster.
        let roots: HashSet<usize> = graph.roots().into_iter().collect();
        for top in tops {
            let begins = |file: &usize| {
                let inside = graph.by_file.get(file).into_iter().flatten();
                inside.into_iter().any(|claimer| roots.contains(claimer))
            };
            if top.reach.iter().any(|(file, _)| begins(file)) {
                graph.claimers.push(Claimer {
                    tool: Tool::Kustomize,
                    file: None,
                    place: top.folder.to_owned(),
                    destination: Destination::Local,
                    folders: vec![top.folder.to_owned()],
                    reach: top.reach.clone(),
                });
            }
        }
        graph
    }

    /// The claimers that a claimer applies.
    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        let files = self.claimers[of].reach.iter().map(|(file, _)| file);
        let inside = files.flat_map(|file| self.by_file.get(file).into_iter().flatten());
        inside.copied().filter(move |child| *child != of)
    }

    /// The claimers that no other claimer applies; for a cycle, its first claimer.
    fn roots(&self) -> Vec<usize> {
        let count = self.claimers.len();
        let mut applied = vec![false; count];
        (0..count).for_each(|of| self.children(of).for_each(|child| applied[child] = true));
        let mut roots: Vec<usize> = (0..count).filter(|claimer| !applied[*claimer]).collect();
        let mut seen: HashSet<usize> = HashSet::new();
        roots.iter().for_each(|root| self.visit(*root, &mut seen));
        for claimer in 0..count {
            if !seen.contains(&claimer) {
                roots.push(claimer);
                self.visit(claimer, &mut seen);
            }
        }
        roots
    }

    /// Some claimers, and those that they apply to their own cluster, directly or indirectly.
    fn applied_locally(&self, roots: &[usize]) -> BTreeSet<usize> {
        let mut open = roots.to_vec();
        let mut seen = BTreeSet::new();
        while let Some(at) = open.pop() {
            if seen.insert(at) && self.claimers[at].destination == Destination::Local {
                open.extend(self.children(at));
            }
        }
        seen
    }

    fn visit(&self, root: usize, seen: &mut HashSet<usize>) {
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            if seen.insert(at) {
                open.extend(self.children(at));
            }
        }
    }
}

/// The sets of clusters to which other clusters apply objects.
#[derive(Default)]
struct Clusters {
    remote: BTreeMap<(Option<usize>, Destination), usize>,
    seen: HashSet<(usize, usize)>,
    /// The files of root Applications. They join the set of their cluster if it has other files.
    beginnings: Vec<(usize, usize)>,
}

impl Clusters {
    /// Adds the files that a claimer reaches to a set, or to the sets of other clusters that it applies them
    /// to.
    fn apply(&mut self, draft: &mut Draft<'_, '_>, graph: &Graph, root: usize, set: usize) {
        let beginning = &graph.claimers[root];
        match (beginning.file, beginning.tool) {
            (Some(file), Tool::Argo) => self.beginnings.push((file, set)),
            (Some(file), _) => draft.add_member(file, set, &Transform::default()),
            (None, _) => {}
        }
        let mut open = VecDeque::from([(root, set)]);
        while let Some((at, set)) = open.pop_front() {
            if !self.seen.insert((at, set)) {
                continue;
            }
            let claimer = &graph.claimers[at];
            let to = self.destination(draft, claimer, set);
            claimer.reach.iter().for_each(|(file, how)| draft.add_member(*file, to, how));
            draft.sets[to].evidence.applied.extend(claimer.folders.iter().cloned());
            open.extend(graph.children(at).map(|child| (child, to)));
        }
    }

    fn destination(&mut self, draft: &mut Draft<'_, '_>, claimer: &Claimer, set: usize) -> usize {
        let (key, name, sign) = match &claimer.destination {
            Destination::Local => return set,
            Destination::Environment(name) => (Some(set), name, Sign::Argo),
            Destination::KubeConfig(name) => (Some(set), name, Sign::Flux),
            Destination::Cluster(name) => (None, name, Sign::Argo),
        };
        let known = self.remote.entry((key, claimer.destination.clone()));
        let to = *known.or_insert_with(|| {
            let host = name.rsplit("://").next().unwrap_or(name).trim_end_matches('/');
            let to = draft.add_set(SetName::Fixed(host.to_owned()), Bond::Certain, sign, Vec::new());
            let is_address = !matches!(claimer.destination, Destination::Environment(_));
            draft.sets[to].evidence.destination = is_address.then(|| name.clone());
            to
        });
        let places = &mut draft.sets[to].evidence.places;
        if !places.contains(&claimer.place) {
            places.push(claimer.place.clone());
        }
        to
    }

    fn finish(self, draft: &mut Draft<'_, '_>) {
        let used: HashSet<usize> = draft.members.iter().flatten().map(|member| member.set).collect();
        for (file, set) in self.beginnings {
            if used.contains(&set) {
                draft.add_member(file, set, &Transform::default());
            }
        }
    }
}

/// The root claimers of clusters, by folder.
fn groups(graph: &Graph, roots: &[usize]) -> Vec<Group> {
    let mut by_folder: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for root in roots {
        let claimer = &graph.claimers[*root];
        let folder = match claimer.file {
            Some(_) => claimer.place.parent().unwrap_or(&claimer.place),
            None => &claimer.place,
        };
        by_folder.entry(folder.to_owned()).or_default().push(*root);
    }
    let groups = by_folder.into_iter().map(|(folder, claimers)| {
        let applied = graph.applied_locally(&claimers);
        let is_argo = applied.iter().all(|claimer| graph.claimers[*claimer].tool != Tool::Flux);
        Group { cluster: cluster_of(&folder, is_argo), folder, claimers }
    });
    groups.collect()
}

/// The folder of clusters above a folder, and the folder of the cluster. One Argo CD manages many
/// environments.
fn cluster_of(folder: &Path, is_argo: bool) -> Option<(PathBuf, PathBuf)> {
    let pair = |cluster: &Path| Some((cluster.parent()?.to_owned(), cluster.to_owned()));
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    let below = |folder: &&Path| {
        let above = folder.parent().and_then(name);
        above.is_some_and(|above| CLUSTER_FOLDERS.contains(&above.as_str()))
    };
    let found = folder.ancestors().find(below);
    let found = found.or_else(|| environment_above(folder).filter(|_| !is_argo));
    found.and_then(pair)
}

/// The pairs of groups that cannot be in one cluster, because they have many objects in common. Few common
/// objects may be a mistake.
fn conflicts(files: &Files<'_>, graph: &Graph, groups: &[Group]) -> BTreeSet<(usize, usize)> {
    // The groups that apply each object.
    let mut holders: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut sizes = vec![0; groups.len()];
    let mut shared: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        let mut add = |file: usize, how: &Transform| {
            for identity in files.list[file].objects.iter().filter_map(|o| identity::applied(o, how)) {
                let holders = holders.entry(identity).or_default();
                if !holders.contains(&number) {
                    sizes[number] += 1;
                    holders.iter().for_each(|other| *shared.entry((*other, number)).or_default() += 1);
                    holders.push(number);
                }
            }
        };
        for at in graph.applied_locally(&group.claimers) {
            let claimer = &graph.claimers[at];
            if let Some(file) = claimer.file.filter(|_| group.claimers.contains(&at)) {
                add(file, &Transform::default());
            }
            if claimer.destination == Destination::Local {
                claimer.reach.iter().for_each(|(file, how)| add(*file, how));
            }
        }
    }
    let is_conflict = |((a, b), count): &(&(usize, usize), &usize)| **count * FEW >= sizes[*a].min(sizes[*b]);
    shared.iter().filter(is_conflict).map(|(pair, _)| *pair).collect()
}

/// The groups of each cluster.
fn units(groups: &[Group], conflicts: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut clusters: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for (parent, cluster) in groups.iter().filter_map(|group| group.cluster.as_ref()) {
        clusters.entry(parent).or_default().insert(cluster);
    }
    let mut by_cluster: BTreeMap<Option<&Path>, Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        let several = group.cluster.as_ref().filter(|(parent, _)| clusters[parent.as_path()].len() > 1);
        by_cluster.entry(several.map(|(_, cluster)| cluster.as_path())).or_default().push(number);
    }
    let mut units = Vec::new();
    for same in by_cluster.into_values() {
        let contradicts = |a: &usize| same.iter().any(|b| conflicts.contains(&(*a.min(b), *a.max(b))));
        let (alone, together): (Vec<usize>, Vec<usize>) = same.iter().copied().partition(contradicts);
        units.extend(alone.into_iter().map(|group| vec![group]));
        if !together.is_empty() {
            units.push(together);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Group, cluster_of, units};

    #[test]
    fn folders_of_clusters_are_known_by_what_they_are_in_or_called() {
        let cluster = |folder: &str, is_argo| {
            cluster_of(Path::new(folder), is_argo).map(|(_, cluster)| cluster.display().to_string())
        };
        assert_eq!(cluster("/r/clusters/a/flux-system", false).as_deref(), Some("/r/clusters/a"));
        assert_eq!(cluster("/r/clusters/a", true).as_deref(), Some("/r/clusters/a"));
        assert_eq!(cluster("/r/flux/prod/x", false).as_deref(), Some("/r/flux/prod"));
        assert_eq!(cluster("/r/argo/prod/x", true), None);
        assert_eq!(cluster("/r/apps/web", false), None);
    }

    #[test]
    fn groups_of_one_cluster_do_not_contradict_each_other() {
        let group = |folder: &str| Group {
            folder: PathBuf::from(folder),
            claimers: Vec::new(),
            cluster: cluster_of(Path::new(folder), false),
        };
        let all = [group("/r/clusters/a/x"), group("/r/clusters/a/y"), group("/r/clusters/b"), group("/r/z")];
        let found = units(&all, &[(0, 2)].into());
        assert_eq!(found, [vec![3], vec![0, 1], vec![2]]);
        assert_eq!(units(&all[..2], &[(0, 1)].into()), [[0], [1]]);
        assert_eq!(units(&all[..2], &[].into()), [[0, 1]]);
    }
}
