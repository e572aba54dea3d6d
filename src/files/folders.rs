//! The effect of surrounding charts and kustomizations on a file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gpulint_rules::source::{FilledPlaceholder, KustomizeRoute, PatchTarget};
use rayon::prelude::*;

use super::filled::{Clues, FilledFolders, common_folder, has_placeholders};
use super::kustomization::{KUSTOMIZATIONS, Kustomization, unknown_change};
use super::walker::Walk;
use super::{
    Directories, Disk, Input, SkipReason, display_path, is_configuration, is_ignored_by_git,
    map_on_all_threads,
};

/// Maximum depth to which nested kustomizations are followed.
const MAX_KUSTOMIZE_DEPTH: usize = 16;

/// The effects of kustomizations, by file.
type ByFile<T> = HashMap<PathBuf, Arc<[T]>>;

/// The path of what a program prints, in the place of that of a file.
pub(crate) const OUTPUT: &str = "rendered.yaml";

/// Charts and kustomizations around the inputs.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Folders with a `Chart.yaml`.
    pub(super) charts: BTreeSet<PathBuf>,
    /// The charts that are libraries: only other charts use their templates.
    libraries: BTreeSet<PathBuf>,
    pub(super) kustomizations: HashMap<PathBuf, Kustomization>,
    /// Files that kustomizations list as resources.
    resources: HashSet<PathBuf>,
    /// Files that kustomizations list as patches.
    patches: HashSet<PathBuf>,
    /// Patches of kustomizations that change the kind of an object: their fields may be those of either kind.
    reshaping: HashSet<PathBuf>,
    /// Patches with a target, whose own API version says nothing about their fields.
    retargeted: HashSet<PathBuf>,
    /// The fields that kustomizations change, by file.
    targets: ByFile<PatchTarget>,
    routes: ByFile<KustomizeRoute>,
    /// The placeholders that kustomizations fill in, by file.
    filled: ByFile<FilledPlaceholder>,
    /// The placeholders that other tools fill in. They are computed when the first file with a placeholder is
    /// read.
    filled_folders: Arc<OnceLock<FilledFolders>>,
    inputs: Vec<Input>,
    /// The files of Terraform, and templates of other programs, in the folders of the inputs: they show versions and feature gates.
    pub(super) others: Vec<PathBuf>,
    /// Scripts, files of variables and documentation.
    pub(super) scripts: Vec<PathBuf>,
    /// The content of the folders when the inputs were found.
    pub(super) directories: Directories,
    pub(super) disk: Disk,
}

/// Maximum number of files and folders to visit when looking for files of other programs.
const MAX_ENTRIES: usize = 100_000;

/// The files of Terraform and templates of other programs below the folder of the inputs, and the scripts and documents there.
fn other_files(inputs: &[Input], directories: &Directories) -> (Vec<PathBuf>, Vec<PathBuf>) {
    const ENDS: [&str; 10] =
        [".tf", ".tofu", ".tfvars", ".tftpl", ".yaml.tpl", ".yml.tpl", ".j2", ".jinja", ".tmpl", ".gotmpl"];
    const SCRIPTS: [&str; 14] = [
        ".sh",
        ".bash",
        ".fish",
        ".mk",
        ".md",
        ".env",
        ".envrc",
        ".properties",
        "Makefile",
        "GNUmakefile",
        "justfile",
        "Justfile",
        "Jenkinsfile",
        ".env.example",
    ];
    let of =
        |directories: &Directories| (directories.files_ending(&ENDS), directories.files_ending(&SCRIPTS));
    if !directories.is_empty() || inputs.is_empty() {
        return of(directories);
    }
    let walk = Walk { known: directories, is_filtered: true, limit: MAX_ENTRIES };
    of(&walk.run(&common_folder(inputs), |_| false).directories)
}

/// Maximum number of scripts that are searched for manifests.
const MAX_SCRIPTS: usize = 1_000;

/// Whether a heredoc of a script has a Kubernetes object: `cat <<EOF | kubectl apply -f -`.
fn has_manifest(text: &str) -> bool {
    if memchr::memmem::find(text.as_bytes(), b"apiVersion:").is_none() {
        return false;
    }
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((_, after)) = line.split_once("<<").filter(|(_, after)| !after.starts_with('<')) else {
            continue;
        };
        let after = after.trim_start_matches('-').trim_start();
        let quotes = ['"', '\'', '\\'];
        let word = after.trim_start_matches(quotes);
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
        let marker = &word[..end];
        if marker.is_empty() {
            continue;
        }
        let (mut has_api, mut has_kind) = (false, false);
        for line in lines.by_ref().map(str::trim).take_while(|line| *line != marker) {
            has_api |= line.starts_with("apiVersion:");
            has_kind |= line.starts_with("kind:");
        }
        if has_api && has_kind {
            return true;
        }
    }
    false
}

#[derive(Default)]
struct Listed {
    resources: HashSet<PathBuf>,
    patches: HashSet<PathBuf>,
    /// The patches of kustomizations that change the kind of an object.
    reshaping: HashSet<PathBuf>,
    retargeted: HashSet<PathBuf>,
}

/// The files and placeholders that one kustomization reaches, directly or indirectly.
#[derive(Default)]
struct Reached {
    /// Files, and the route to each.
    routes: Vec<(PathBuf, KustomizeRoute)>,
    /// The placeholders that are filled in on the routes, by file.
    filled: Vec<(PathBuf, Vec<FilledPlaceholder>)>,
}

impl Folders {
    /// Examines every folder that contains an input, directly or indirectly.
    pub(crate) fn discover(inputs: Vec<Input>, directories: Directories, disk: &Disk) -> Folders {
        let mut around: HashSet<&Path> = HashSet::new();
        for input in inputs.iter().filter(|input| input.unapplied.is_none()) {
            let above = input.absolute.ancestors().skip(1);
            // If a folder is known, those above it are known too.
            for _ in above.take_while(|folder| around.insert(folder)) {}
        }
        let has_chart = |folder: &&Path| directories.has_file(folder, "Chart.yaml");
        let charts: BTreeSet<PathBuf> =
            around.par_iter().copied().filter(has_chart).map(Path::to_owned).collect();
        let libraries = charts.iter().filter(|chart| is_library(chart, disk)).cloned().collect();
        let read =
            |folder: &&Path| Some((folder.to_path_buf(), Kustomization::read(folder, disk, &directories)?));
        let kustomizations = around.par_iter().filter_map(read).collect();
        let disk = disk.clone();
        let (others, scripts) = other_files(&inputs, &directories);
        let mut folders = Folders {
            charts,
            libraries,
            kustomizations,
            inputs,
            others,
            scripts,
            directories,
            disk,
            ..Folders::default()
        };
        folders.resolve();
        folders
    }

    /// The folders after texts have changed: only what reads a changed text is updated. The list of files and
    /// the tools that fill in placeholders must be unchanged.
    pub(crate) fn update(self, changed: &HashSet<PathBuf>) -> Folders {
        let Folders {
            charts,
            mut libraries,
            mut kustomizations,
            filled_folders,
            inputs,
            others,
            scripts,
            directories,
            disk,
            ..
        } = self;
        let mut stale: BTreeSet<PathBuf> = BTreeSet::new();
        let in_order: BTreeSet<&PathBuf> = changed.iter().collect();
        for path in in_order {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if name == "Chart.yaml" && charts.contains(folder) {
                libraries.remove(folder);
                libraries.extend(is_library(folder, &disk).then(|| folder.to_owned()));
            }
            let is_kustomization = KUSTOMIZATIONS.iter().any(|known| name == *known);
            let is_above = || inputs.iter().any(|input| input.absolute.starts_with(folder));
            if is_kustomization && (kustomizations.contains_key(folder) || is_above()) {
                stale.insert(folder.to_owned());
            }
        }
        let reads = |one: &Kustomization| one.files_read().any(|file| changed.contains(file));
        stale.extend(kustomizations.iter().filter(|(_, one)| reads(one)).map(|(folder, _)| folder.clone()));
        // The directories may be out of date, because the folder may have changed since it was read.
        let now = Directories::of_unsaved(&disk.unsaved());
        let read = |folder: &PathBuf| Kustomization::read(folder, &disk, &now);
        for folder in stale {
            match read(&folder) {
                Some(own) => _ = kustomizations.insert(folder, own),
                None => _ = kustomizations.remove(&folder),
            }
        }
        let mut folders = Folders {
            charts,
            libraries,
            kustomizations,
            filled_folders,
            inputs,
            others,
            scripts,
            directories,
            disk,
            ..Folders::default()
        };
        folders.resolve();
        folders
    }

    /// The number of scripts with manifests in their heredocs.
    pub(crate) fn scripts_with_manifests(&self) -> usize {
        let is_program = |path: &&PathBuf| {
            let end = path.extension().and_then(|end| end.to_str());
            matches!(end, Some("sh" | "bash" | "mk")) || path.ends_with("Makefile")
        };
        let programs = self.scripts.iter().filter(is_program).take(MAX_SCRIPTS).cloned().collect();
        let has = map_on_all_threads(programs, |path: PathBuf| {
            self.disk.read_small(&path).is_some_and(|text| has_manifest(&text))
        });
        has.into_iter().filter(|has| *has).count()
    }

    /// Computes the effects of the kustomizations on the files that they list.
    fn resolve(&mut self) {
        let all = self.kustomizations_in_order();
        let ((listed, targets), (routes, filled)) =
            rayon::join(|| (listed(&all), self.patch_targets(&all)), || self.reached(&all));
        (self.resources, self.patches) = (listed.resources, listed.patches);
        (self.reshaping, self.retargeted) = (listed.reshaping, listed.retargeted);
        (self.targets, self.routes, self.filled) = (targets, routes, filled);
    }

    pub(super) fn kustomizations_in_order(&self) -> Vec<(&PathBuf, &Kustomization)> {
        let mut all: Vec<_> = self.kustomizations.iter().collect();
        all.sort_unstable_by_key(|(folder, _)| *folder);
        all
    }

    /// The routes to each file, and the placeholders that are filled in on them.
    fn reached(
        &self,
        all: &[(&PathBuf, &Kustomization)],
    ) -> (ByFile<KustomizeRoute>, ByFile<FilledPlaceholder>) {
        let roots = all.par_iter();
        let reached: Vec<Reached> = roots.map(|(root, own)| self.reached_from(root, own)).collect();
        let mut routes: HashMap<PathBuf, Vec<KustomizeRoute>> = HashMap::new();
        let mut filled: HashMap<PathBuf, Vec<FilledPlaceholder>> = HashMap::new();
        for one in reached {
            for (path, route) in one.routes {
                let known = routes.entry(path).or_default();
                if !known.contains(&route) {
                    known.push(route);
                }
            }
            for (path, more) in one.filled {
                filled.entry(path).or_default().extend(more);
            }
        }
        (shared(routes), shared(filled))
    }

    /// The files that the kustomization of a folder reaches, and the changes that it makes to the names of
    /// their objects.
    fn reached_from(&self, root: &Path, own: &Kustomization) -> Reached {
        let root: Arc<str> = Arc::from(root.to_string_lossy());
        let start = KustomizeRoute { root, namespace: None, affixes: Arc::default(), renames: false };
        let mut seen = HashSet::new();
        let mut open = vec![(own, start, Vec::new(), 0)];
        // Variables are resolved at the root, whichever included kustomization declares them.
        let mut variables: Vec<FilledPlaceholder> = Vec::new();
        let mut reached = Reached::default();
        while let Some((at, route, filled, depth)) = open.pop() {
            let namespace = route.namespace.clone().or_else(|| at.namespace.as_deref().map(Arc::from));
            let mut affixes = route.affixes.clone();
            // The root adds its prefix to all names, so that its prefix does not tell them apart.
            if let Some((prefix, suffix)) = at.affixes.as_ref().filter(|_| depth > 0) {
                affixes = Arc::from(format!("{affixes}/{prefix}*{suffix}"));
            }
            let renames = route.renames || at.affixes.is_some();
            let route = KustomizeRoute { namespace, affixes, renames, ..route };
            // The replacements of a component apply to the files that its includer lists.
            let of_components = at.components.iter().filter_map(|path| self.kustomizations.get(path));
            let own = std::iter::once(at).chain(of_components).flat_map(|k| k.filled.clone());
            let filled: Vec<FilledPlaceholder> = filled.into_iter().chain(own).collect();
            let is_variable = |one: &&FilledPlaceholder| matches!(one, FilledPlaceholder::Exact(_));
            variables.extend(at.filled.iter().filter(is_variable).cloned());
            for path in at.resources.iter().chain(&at.components) {
                if let Some(below) = self.kustomizations.get(path) {
                    if depth < MAX_KUSTOMIZE_DEPTH && seen.insert((path, route.affixes.clone())) {
                        open.push((below, route.clone(), filled.clone(), depth + 1));
                    }
                    continue;
                }
                reached.routes.push((path.clone(), route.clone()));
                if !filled.is_empty() {
                    reached.filled.push((path.clone(), filled.clone()));
                }
            }
        }
        if !variables.is_empty() {
            let all = reached.routes.iter().map(|(path, _)| (path.clone(), variables.clone()));
            let all: Vec<_> = all.collect();
            reached.filled.extend(all);
        }
        reached
    }

    /// The patch targets of each kustomization, by the files that it and the kustomizations below it list.
    fn patch_targets(&self, all: &[(&PathBuf, &Kustomization)]) -> ByFile<PatchTarget> {
        let mut of_files: HashMap<PathBuf, Vec<PatchTarget>> = HashMap::new();
        for (folder, kustomization) in all {
            let mut targets = kustomization.targets.clone();
            for component in &kustomization.components {
                match self.kustomizations.get(component) {
                    Some(component) => targets.extend(component.targets.iter().cloned()),
                    // It is of another repository, or a file that Git ignores.
                    None => targets.push(unknown_change()),
                }
            }
            if targets.is_empty() {
                continue;
            }
            let mut seen = HashSet::from([*folder]);
            let mut open = vec![*kustomization];
            while let Some(kustomization) = open.pop() {
                for path in kustomization.resources.iter().chain(&kustomization.components) {
                    if !seen.insert(path) {
                        continue;
                    }
                    match self.kustomizations.get(path) {
                        Some(below) => open.push(below),
                        None => {
                            let file = of_files.entry(path.clone()).or_default();
                            file.extend(targets.iter().cloned());
                        }
                    }
                }
            }
        }
        shared(of_files)
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    pub(crate) fn directories_mut(&mut self) -> &mut Directories {
        &mut self.directories
    }

    /// Whether a kustomization reads a file as a patch or a replacement.
    pub(crate) fn is_read(&self, path: &Path) -> bool {
        self.kustomizations.values().any(|one| one.files_read().any(|file| file == path))
    }

    /// The reason why a file is not a manifest, if its name or folders show it.
    pub(crate) fn skip_reason(&self, input: &Input) -> Option<SkipReason> {
        let path = &input.absolute;
        if let Some(reason) = input.unapplied.filter(|_| !self.resources.contains(path)) {
            return Some(reason);
        }
        let name = path.file_name()?.to_string_lossy();
        if is_configuration(path) {
            return Some(SkipReason::Config);
        }
        if KUSTOMIZATIONS.contains(&&*name) {
            return Some(SkipReason::Kustomization);
        }
        if [".tfvars", ".hcl"].iter().any(|end| name.ends_with(end)) {
            return Some(SkipReason::Terraform);
        }
        let is_shapeless = self.reshaping.contains(path) || self.retargeted.contains(path);
        if is_shapeless || !input.named && self.is_unlisted_patch(path) {
            return Some(SkipReason::KustomizePatch);
        }
        if self.chart_of_template(path).is_some() {
            return Some(SkipReason::HelmTemplate);
        }
        let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        let beside_chart = path.parent().is_some_and(|p| self.charts.contains(p));
        (name.starts_with("values") && yaml && beside_chart).then_some(SkipReason::HelmValues)
    }

    fn chart_of_template<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        parents_of(path, "templates").find(|chart| self.charts.contains(*chart))
    }

    /// The chart whose folder `crds` contains a file, and which installs the file as it is written.
    pub(crate) fn root_chart_of_crd(&self, path: &Path) -> Option<PathBuf> {
        let chart = parents_of(path, "crds").find(|chart| self.charts.contains(*chart))?;
        Some(self.root_of(chart).to_owned())
    }

    /// The chart whose default values a file contains.
    pub(crate) fn root_chart_of_values(&self, path: &Path) -> Option<PathBuf> {
        let is_values = path.file_name().is_some_and(|name| name == "values.yaml");
        let chart = path.parent().filter(|chart| is_values && self.charts.contains(*chart))?;
        Some(self.root_of(chart).to_owned())
    }

    /// Whether a file without objects may hold values of a chart: its name says so, or it is below a chart.
    pub(crate) fn may_be_values(&self, path: &Path) -> bool {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains("values"));
        named || path.ancestors().skip(1).any(|above| self.charts.contains(above))
    }

    /// The templates of charts and of other programs whose names are not those of manifests, such as `_helpers.tpl`.
    pub(crate) fn named_as_templates(&self) -> Vec<PathBuf> {
        self.directories.files_ending(&[".tpl", ".tftpl", ".tmpl", ".gotmpl"])
    }

    pub(super) fn has_charts(&self) -> bool {
        !self.charts.is_empty()
    }

    pub(super) fn is_chart(&self, folder: &Path) -> bool {
        self.charts.contains(folder)
    }

    /// The charts that are not part of another one, sorted.
    pub(crate) fn root_charts(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> =
            self.charts.iter().map(|chart| self.root_of(chart).to_owned()).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// The entries of the kustomization in a file that name nothing in the file system. Those that Git ignores are made by a program, and
    /// in a repository with submodules a folder may be that of one which is not there yet.
    pub(super) fn missing_resources(&self, file: &Path) -> Vec<&str> {
        let own = file.parent().and_then(|folder| self.kustomizations.get(folder));
        let Some(own) = own.filter(|own| own.file == file && own.is_built) else { return Vec::new() };
        let is_missing = |entry: &&(String, PathBuf)| {
            let (name, path) = entry;
            let is_elsewhere = own.remote.iter().any(|(_, remote)| remote == name);
            let is_open = name.contains(['$', '{', '<', '\n']);
            // `flux bootstrap` writes this folder into the repository.
            let is_of_flux = path.file_name().is_some_and(|last| last == "flux-system");
            !is_elsewhere
                && !is_open
                && !is_of_flux
                && !path.exists()
                && self.disk.buffer(path).is_none()
                && !is_ignored_by_git(path)
        };
        let missing: Vec<&str> =
            own.listed.iter().filter(is_missing).map(|(name, _)| name.as_str()).collect();
        let has_submodules = || file.ancestors().any(|above| above.join(".gitmodules").exists());
        if missing.is_empty() || has_submodules() { Vec::new() } else { missing }
    }

    /// Number of kustomizations that patch objects.
    pub(crate) fn patching_kustomizations(&self) -> usize {
        self.kustomizations.values().filter(|one| one.is_built && !one.targets.is_empty()).count()
    }

    pub(crate) fn kustomization_folders(&self) -> Vec<PathBuf> {
        self.kustomizations_in_order().into_iter().map(|(folder, _)| folder.clone()).collect()
    }

    pub(crate) fn root_chart_of_template(&self, path: &Path) -> Option<PathBuf> {
        Some(self.root_of(self.chart_of_template(path)?).to_owned())
    }

    /// The outermost chart that contains a chart in its folder `charts`; the chart itself if there is none.
    fn root_of<'p>(&self, mut chart: &'p Path) -> &'p Path {
        while let Some(above) = chart_above(chart).filter(|folder| self.charts.contains(*folder)) {
            chart = above;
        }
        chart
    }

    /// The path of the chart to render for a template, in the form in which the file would be reported: `.`
    /// in the current folder. For a chart in `charts/` of another one, it is the outermost chart. Libraries
    /// are not rendered.
    pub(crate) fn chart_to_render(&self, input: &Input) -> Option<String> {
        let chart = self.root_of(self.chart_of_template(&input.absolute)?);
        if self.libraries.contains(chart) {
            return None;
        }
        let below = display_path(input.absolute.strip_prefix(chart).ok()?);
        let Some(path) = input.display_path.strip_suffix(&below) else {
            return Some(display_path(chart));
        };
        Some(match path.trim_end_matches('/') {
            "" if path.is_empty() => ".".to_owned(),
            "" => "/".to_owned(),
            path => path.to_owned(),
        })
    }

    /// Whether a kustomization lists the file as a patch, or its name or folder says that it is one: patches
    /// generated by scaffolding tools are often commented out in the list, and kubeadm reads a folder of patches.
    pub(crate) fn is_patch(&self, input: &Input) -> bool {
        let path = &input.absolute;
        if self.patches.contains(path) {
            return true;
        }
        if self.resources.contains(path) {
            return false;
        }
        // The folder may have one for each object that is patched.
        let mut folders = path.ancestors().skip(1).take(2).filter_map(Path::file_name);
        self.is_unlisted_patch(path) || folders.any(|name| name == "patches")
    }

    /// Whether the name of a file marks it as a patch of the kustomization beside it, which does not list it.
    fn is_unlisted_patch(&self, path: &Path) -> bool {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let named = stem.strip_suffix("patch");
        let named = named.is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '_', '.']));
        named && self.kustomization_without(path).is_some()
    }

    /// The kustomization beside a file, if no kustomization lists the file.
    fn kustomization_without(&self, path: &Path) -> Option<&Kustomization> {
        let is_listed = self.patches.contains(path) || self.resources.contains(path);
        path.parent().filter(|_| !is_listed).and_then(|folder| self.kustomizations.get(folder))
    }

    /// Whether the kustomization of the folder lists other files but not this one, and the user has not named
    /// the file.
    pub(crate) fn is_left_out(&self, input: &Input) -> bool {
        let beside = self.kustomization_without(&input.absolute).filter(|_| !input.named);
        beside.is_some_and(|kustomization| !kustomization.resources.is_empty())
    }

    pub(crate) fn is_kustomized(&self, input: &Input) -> bool {
        let path = &input.absolute;
        let beside = |folder| self.kustomizations.contains_key(folder);
        self.resources.contains(path) || path.parent().is_some_and(beside)
    }

    pub(crate) fn routes(&self, input: &Input) -> Arc<[KustomizeRoute]> {
        list(&self.routes, &input.absolute)
    }

    /// The placeholders of a file with this text that something in the input fills in.
    pub(crate) fn filled(&self, input: &Input, text: &str) -> Arc<[FilledPlaceholder]> {
        let by_kustomizations = self.filled_by_kustomizations(input);
        let mut filled = self.filled_by_tools(input, text);
        if filled.is_empty() {
            return by_kustomizations;
        }
        filled.extend_from_slice(&by_kustomizations);
        filled.into()
    }

    /// The placeholders that tools other than kustomize fill in.
    fn filled_by_tools(&self, input: &Input, text: &str) -> Vec<FilledPlaceholder> {
        if !has_placeholders(text.as_bytes()) {
            return Vec::new();
        }
        let routes = self.routes(input);
        let roots = routes.iter().map(|route| Path::new(&*route.root));
        let folders = self.filled_folders.get_or_init(|| {
            let read = self.inputs.iter().filter(|input| self.skip_reason(input).is_none());
            self.discover_filled(read.filter_map(|input| self.clues(input)).collect())
        });
        folders.of(&input.absolute, roots, text)
    }

    /// Whether a file is a kustomization that adds variables to the Kustomizations of Flux among its objects.
    pub(crate) fn hands_variables(&self, path: &Path) -> bool {
        let own = path.parent().and_then(|folder| self.kustomizations.get(folder));
        own.is_some_and(|own| own.file == path && own.hands_variables())
    }

    /// Folders for what kustomize prints for an input, given the folder that it builds: what fills in `${X}` in the input fills it in
    /// here.
    pub(crate) fn of_output(&self, input: Option<&Input>, root: &Path) -> Folders {
        let root = Arc::from(root.to_string_lossy());
        let route = KustomizeRoute { root, namespace: None, affixes: Arc::default(), renames: false };
        let filled = input.map(|input| self.filled_by_tools(input, "${X}")).unwrap_or_default();
        let filled_folders = match filled.is_empty() {
            true => OnceLock::default(),
            false => OnceLock::from(FilledFolders::everywhere()),
        };
        Folders {
            routes: HashMap::from([(PathBuf::from(OUTPUT), Arc::from([route]))]),
            filled_folders: Arc::new(filled_folders),
            ..Folders::default()
        }
    }

    /// Sets the tools that fill in placeholders, given what all files show of them, before a file with placeholders is read. Otherwise
    /// all files are read for that first.
    pub(super) fn fill_by(&self, clues: Vec<Clues>) {
        self.filled_folders.get_or_init(|| self.discover_filled(clues));
    }

    fn discover_filled(&self, mut clues: Vec<Clues>) -> FilledFolders {
        let hands_variables = self.kustomizations.values().any(Kustomization::hands_variables);
        clues.extend(hands_variables.then(Clues::everywhere));
        FilledFolders::discover(&self.inputs, clues, &self.directories, &self.disk)
    }

    fn clues(&self, input: &Input) -> Option<Clues> {
        let path = if self.disk.buffer(&input.absolute).is_some() { &input.absolute } else { &input.path };
        let text = (input.stream.is_none()).then(|| self.disk.read_small(path)).flatten();
        text.map(|text| Clues::of(&input.absolute, text.as_bytes()))
    }

    fn filled_by_kustomizations(&self, input: &Input) -> Arc<[FilledPlaceholder]> {
        list(&self.filled, &input.absolute)
    }

    /// The objects and fields of a file that kustomizations change.
    pub(crate) fn targets(&self, input: &Input) -> Arc<[PatchTarget]> {
        list(&self.targets, &input.absolute)
    }
}

/// The effect of the surrounding folders on a file with some text. Two files with equal contexts and texts
/// are parsed in the same way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileContext {
    skipped: Option<SkipReason>,
    is_patch: bool,
    is_kustomized: bool,
    is_left_out: bool,
    routes: Arc<[KustomizeRoute]>,
    targets: Arc<[PatchTarget]>,
    filled_by_kustomizations: Arc<[FilledPlaceholder]>,
    filled_by_tools: Vec<FilledPlaceholder>,
    /// The entries of a kustomization that name nothing.
    missing: Vec<String>,
}

impl FileContext {
    pub(crate) fn new(folders: &Folders, input: &Input, text: &str) -> FileContext {
        FileContext {
            filled_by_tools: folders.filled_by_tools(input, text),
            ..FileContext::of_folders(folders, input)
        }
    }

    /// The context after an update of the folders ([`Folders::update`]), for the same text.
    pub(crate) fn updated(&self, folders: &Folders, input: &Input, text: &str) -> FileContext {
        let mut new = FileContext::of_folders(folders, input);
        new.filled_by_tools = match new.routes == self.routes {
            true => self.filled_by_tools.clone(),
            false => folders.filled_by_tools(input, text),
        };
        new
    }

    /// The part of the context that does not depend on the text.
    fn of_folders(folders: &Folders, input: &Input) -> FileContext {
        FileContext {
            skipped: folders.skip_reason(input),
            is_patch: folders.is_patch(input),
            is_kustomized: folders.is_kustomized(input),
            is_left_out: folders.is_left_out(input),
            routes: folders.routes(input),
            targets: folders.targets(input),
            filled_by_kustomizations: folders.filled_by_kustomizations(input),
            filled_by_tools: Vec::new(),
            missing: folders.missing_resources(&input.absolute).into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The folder that is the outer chart if a chart is in its folder `charts`.
pub(super) fn chart_above(chart: &Path) -> Option<&Path> {
    let charts = chart.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "charts"));
    charts.and_then(Path::parent)
}

/// The folders above a file that contain it in their folder of some name.
pub(super) fn parents_of<'p>(file: &'p Path, name: &'static str) -> impl Iterator<Item = &'p Path> {
    let named =
        file.ancestors().skip(1).filter(move |folder| folder.file_name().is_some_and(|own| own == name));
    named.filter_map(Path::parent)
}

fn listed(all: &[(&PathBuf, &Kustomization)]) -> Listed {
    let mut listed = Listed::default();
    for (_, kustomization) in all {
        listed.resources.extend(kustomization.resources.iter().cloned());
        listed.patches.extend(kustomization.patches.iter().cloned());
        listed.retargeted.extend(kustomization.retargeted.iter().cloned());
        if kustomization.changes_kinds {
            listed.reshaping.extend(kustomization.patches.iter().cloned());
        }
    }
    listed
}

fn shared<T>(lists: HashMap<PathBuf, Vec<T>>) -> ByFile<T> {
    lists.into_iter().map(|(path, list)| (path, Arc::from(list))).collect()
}

/// The list of a file; empty if it has none.
fn list<T>(lists: &ByFile<T>, file: &Path) -> Arc<[T]> {
    lists.get(file).cloned().unwrap_or_default()
}

fn is_library(chart: &Path, disk: &Disk) -> bool {
    let text = disk.read_to_string(&chart.join("Chart.yaml")).unwrap_or_default();
    let mut kinds = text.lines().filter_map(|line| line.strip_prefix("type:"));
    kinds.any(|kind| kind.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']) == "library")
}
