//! Reads a kustomization: the files that it lists and includes, its patches, and the fields that they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulint_rules::source;
use gpulint_rules::source::{Document, FilledPlaceholder, ImageChange, PatchTarget, PatchedReplicas, Source};
use gpulint_rules::{Node, Pointer, Product, Version, current_version, minor_of, pins_of};

use super::{Directories, Disk, absolute, short_path};

/// The field of a Flux Kustomization with the variables that it fills in.
pub(super) const POST_BUILD: &str = "postBuild";

/// File names that kustomize recognizes.
pub(crate) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A kustomization. All paths are absolute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kustomization {
    /// The file of the kustomization. kustomize accepts one in a folder; if there are several, the first one
    /// is used.
    pub(crate) file: PathBuf,
    /// The files and folders that it lists as resources.
    pub(crate) resources: Vec<PathBuf>,
    /// These entries as they are written, with their paths.
    pub(super) listed: Vec<(String, PathBuf)>,
    /// Folders of components, whose patches apply to the listed files.
    pub(crate) components: Vec<PathBuf>,
    /// Files and folders of generators, transformers and definitions.
    pub(crate) plugins: Vec<PathBuf>,
    /// Entries that name a repository, a file elsewhere or a chart, with their fields; those of a generator are files elsewhere.
    /// A folder may have such a name as well.
    pub(crate) remote: Vec<(&'static str, String)>,
    /// The charts that it inflates (`helmCharts`), each with the folder where it is if the checkout has it: `absChartHome` and
    /// `chartExistsLocally` of kustomize's HelmChartInflationGenerator.
    pub(crate) charts: Vec<(String, PathBuf)>,
    pub(crate) patches: Vec<PathBuf>,
    /// The files of replacements, transformers and their configurations.
    pub(super) replacements: Vec<PathBuf>,
    /// The patches with a `target` whose own API version says nothing about their fields: kustomize takes the object by the target, and
    /// keeps its version and kind.
    pub(super) retargeted: Vec<PathBuf>,
    /// Whether a patch changes the kind of an object, so that other patches have fields of the new kind.
    pub(super) changes_kinds: bool,
    /// The objects that it changes.
    pub(super) targets: Vec<PatchTarget>,
    pub(super) namespace: Option<String>,
    /// The prefix and the suffix that it adds to names.
    pub(super) affixes: Option<(String, String)>,
    /// The placeholders that it fills in: variables, and the targets of replacements.
    pub(super) filled: Vec<FilledPlaceholder>,
    /// The objects that its patches remove.
    pub(super) removed: Vec<PatchTarget>,
    /// The files of which it generates ConfigMaps and Secrets.
    pub(crate) generator_files: Vec<PathBuf>,
    /// The names of the ConfigMaps and Secrets that it generates.
    pub(super) generated: Vec<String>,
    /// The patches of all Kustomizations of Flux among its objects.
    pub(super) handed: Vec<Arc<str>>,
    /// The images that it sets (`images`).
    pub(super) images: Vec<ImageChange>,
    /// The versions of products that its charts show, with the line.
    pub(super) versions: Vec<(Product, Version, u32)>,
    /// Whether it is a component, which is built only as part of a kustomization that includes it.
    pub(crate) is_component: bool,
    /// Whether kustomize builds it. Flux has a kind of the same name that kustomize does not build.
    pub(crate) is_built: bool,
}

impl Kustomization {
    /// Reads the kustomization of a folder, if there is one. Files that cannot be parsed are treated as
    /// empty; if they are inputs, the parser reports them.
    pub(crate) fn read(folder: &Path, disk: &Disk, directories: &Directories) -> Option<Kustomization> {
        let mut out = None;
        for name in KUSTOMIZATIONS.into_iter().filter(|name| directories.has_file(folder, name)) {
            let file = folder.join(name);
            let Ok(bytes) = disk.read(&file) else { continue };
            let source = Source::new(name, bytes);
            let documents = source::read(&source);
            let found = out.get_or_insert_with(|| Kustomization {
                file,
                is_built: documents.first().and_then(Document::root).is_some_and(|root| is_built(&root)),
                ..Kustomization::default()
            });
            for root in documents.iter().filter_map(Document::root) {
                found.add(folder, &root, disk);
                pins_of(&root, name, &mut |product, node, text| {
                    let line =
                        node.span().map(|span| source.lines().position(source.text(), span.start).line);
                    found
                        .versions
                        .extend(minor_of(text).zip(line).map(|(version, line)| (product, version, line)));
                });
            }
        }
        out
    }

    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Whether it brings objects that the checkout does not have.
    pub(super) fn has_objects_elsewhere(&self) -> bool {
        self.installs().next().is_some()
    }

    /// What it brings that the checkout does not have: the names of charts, and the addresses of other manifests.
    pub(super) fn installs(&self) -> impl Iterator<Item = &str> {
        const NO_OBJECTS: [&str; 4] = ["crds", "transformers", "configMapGenerator", "secretGenerator"];
        let brought = self.remote.iter().filter(|(field, _)| !NO_OBJECTS.contains(field));
        brought.map(|(_, name)| name.as_str())
    }

    /// The files on which the changes depend.
    pub(super) fn files_read(&self) -> impl Iterator<Item = &PathBuf> {
        self.patches.iter().chain(&self.replacements)
    }

    fn add(&mut self, folder: &Path, root: &Node<'_>, disk: &Disk) {
        let path = |file: &str| absolute(&folder.join(file));
        for field in ["resources", "bases", "components", "generators", "transformers", "crds"] {
            let paths = match field {
                "resources" | "bases" => &mut self.resources,
                "components" => &mut self.components,
                _ => &mut self.plugins,
            };
            for entry in root.get(field).items().filter_map(|item| item.text()) {
                paths.push(path(entry));
                if matches!(field, "resources" | "bases") {
                    self.listed.push((entry.to_owned(), path(entry)));
                }
                self.remote.extend(is_remote(entry).then(|| (field, entry.to_owned())));
            }
        }
        for field in ["helmCharts", "helmChartInflationGenerator"] {
            for chart in root.get(field).items() {
                let name = chart.get("name").text().or(chart.get("chartName").text()).unwrap_or(field);
                self.remote.push((field, name.to_owned()));
            }
        }
        let home = path(root.path(&["helmGlobals", "chartHome"]).text().unwrap_or("charts"));
        for chart in root.get("helmCharts").items() {
            let Some(name) = chart.get("name").text() else { continue };
            let version = chart.get("version").text().filter(|_| chart.get("repo").is_set());
            let home = version.map_or_else(|| home.clone(), |version| home.join(format!("{name}-{version}")));
            self.charts.push((name.to_owned(), absolute(&home.join(name))));
        }
        for patch in patches(root) {
            self.add_patch(&patch, &path, disk);
        }
        for scaled in root.get("replicas").items() {
            let name = scaled.get("name").text().map(str::to_owned);
            self.targets.push(PatchTarget {
                name,
                replicas: PatchedReplicas::Only,
                ..PatchTarget::default()
            });
        }
        root.get("labels").items().for_each(|entry| self.add_created(&entry.get("fields")));
        self.add_plugins(root, &path, disk);
        let mut replaced = Vec::new();
        for replacement in root.get("replacements").items() {
            replaced.extend(targets_of_replacement(&replacement));
            // The targets of a replacement may be in a separate file.
            if let Some(file) = replacement.get("path").text() {
                let file = path(file);
                let read = disk.read(&file);
                self.replacements.push(file);
                let Ok(bytes) = read else {
                    replaced.push(unknown_change());
                    continue;
                };
                let documents = source::read(&Source::new("replacement", bytes));
                let roots = documents.iter().filter_map(|document| document.root());
                replaced.extend(roots.flat_map(|root| targets_of_replacement(&root)));
            }
        }
        self.filled.extend(replaced.iter().cloned().map(FilledPlaceholder::Object));
        self.targets.extend(replaced);
        for variable in root.get("vars").items() {
            let name = variable.get("name").text();
            self.filled.extend(name.map(|name| FilledPlaceholder::Exact(format!("$({name})"))));
        }
        if ["labels", "commonLabels"].iter().any(|field| root.get(field).is_set()) {
            self.filled.push(FilledPlaceholder::Labels);
        }
        let annotations = root.get("commonAnnotations").entries().into_iter();
        self.filled.extend(annotations.map(|(key, _)| FilledPlaceholder::Annotation(key.to_owned())));
        for field in ["configMapGenerator", "secretGenerator"] {
            for one in root.get(field).items() {
                let listed = ["envs", "files"].into_iter().flat_map(|list| one.get(list).items());
                let named = listed.chain([one.get("env")]).filter_map(|file| file.text());
                let (addresses, files): (Vec<&str>, Vec<&str>) = named.partition(|file| file.contains("://"));
                self.remote.extend(addresses.into_iter().map(|address| (field, address.to_owned())));
                self.generator_files.extend(files.into_iter().map(|file| path(file_of_source(file))));
            }
            self.generated
                .extend(root.get(field).items().filter_map(|one| Some(one.get("name").text()?.to_owned())));
        }
        let pairs = root.get("labels").items().map(|entry| entry.get("pairs"));
        for pairs in pairs.chain([root.get("commonLabels")]) {
            let keys = pairs.entries().into_iter().map(|(key, _)| FilledPlaceholder::Label(key.to_owned()));
            self.filled.extend(keys);
        }
        let with_selectors = root.get("labels").items();
        let with_selectors =
            with_selectors.filter(|entry| entry.get("includeSelectors").bool() == Some(true));
        let pairs = with_selectors.map(|entry| entry.get("pairs")).chain([root.get("commonLabels")]);
        for (key, value) in pairs.flat_map(|pairs| pairs.entries()) {
            let value = value.text().map(str::to_owned);
            self.filled.extend(value.map(|value| FilledPlaceholder::Selector(key.to_owned(), value)));
        }
        let by = Arc::from(format!("`{}`", short_path(&self.file)));
        for image in root.get("images").items() {
            self.images.extend(ImageChange::of_entry(&image, &by));
            let sets = ["newTag", "digest", "newName"].iter().any(|field| image.get(field).is_set());
            let name = image.get("name").text().filter(|_| sets);
            self.filled.extend(name.map(|name| FilledPlaceholder::Image(name.to_owned())));
        }
        let text = |field: &str| root.get(field).text().filter(|text| !text.is_empty()).map(str::to_owned);
        self.namespace = text("namespace").or(self.namespace.take());
        if let (prefix @ Some(_), suffix) | (prefix, suffix @ Some(_)) =
            (text("namePrefix"), text("nameSuffix"))
        {
            self.affixes = Some((prefix.unwrap_or_default(), suffix.unwrap_or_default()));
        }
        self.is_component |= root.get("kind").text() == Some("Component");
    }

    /// Whether it adds variables to the Kustomizations of Flux among its objects.
    pub(super) fn hands_variables(&self) -> bool {
        self.handed.iter().any(|patch| patch.contains(POST_BUILD))
    }

    fn add_patch(&mut self, patch: &Patch<'_>, path: &impl Fn(&str) -> PathBuf, disk: &Disk) {
        // A command in it, such as `$(pwd)`, looks like a placeholder.
        let inline = patch.inline.as_ref().and_then(Node::raw_text);
        let file = patch.file.map(path);
        self.changes_kinds |= inline.is_some_and(|text| {
            text.lines().any(|line| line.trim().trim_start_matches("- ").trim() == "path: /kind")
        });
        let source = match (inline, &file) {
            (Some(text), _) => Source::from_text("patch", text),
            (None, Some(path)) => match disk.read(path) {
                Ok(bytes) => Source::new("patch", bytes),
                // It may set any field of what it selects.
                Err(_) => {
                    let selected = target_of_selector(&patch.target);
                    self.targets.push(PatchTarget { replicas: PatchedReplicas::Set, ..selected });
                    self.patches.extend(file);
                    return;
                }
            },
            (None, None) => Source::from_text("patch", ""),
        };
        if let Some(file) = file.as_ref().filter(|_| patch.target.is_set()) {
            let documents = source::read(&source);
            let mut roots = documents.iter().filter_map(Document::root);
            let is_other = roots.any(|root| is_of_other_version(&root, &patch.target));
            self.retargeted.extend(is_other.then(|| file.clone()));
        }
        self.patches.extend(file);
        self.handed.extend(is_for_all_kustomizations(&patch.target).then(|| Arc::from(source.text())));
        let effect = PatchEffect::of(&source, &patch.target);
        self.removed.extend(effect.removed);
        self.targets.extend(effect.changed);
    }

    /// Adds the kinds whose objects get fields that they lack: those of `create: true` in a list of fields. Those in
    /// `metadata` are left out: `filled` has labels and annotations.
    fn add_created(&mut self, fields: &Node<'_>) {
        for field in fields.items().filter(|field| field.get("create").bool() == Some(true)) {
            let path = field.get("path").text().unwrap_or_default();
            if !path.contains("metadata") {
                let kind = field.get("kind").text().map(str::to_owned);
                self.targets.push(PatchTarget { kind, ..PatchTarget::default() });
            }
        }
    }

    /// Adds what configurations of transformers and further transformers change.
    fn add_plugins(&mut self, root: &Node<'_>, path: &impl Fn(&str) -> PathBuf, disk: &Disk) {
        for file in root.get("configurations").items().filter_map(|item| item.text()) {
            let file = path(file);
            let documents = source::read(&Source::new("configuration", disk.read(&file).unwrap_or_default()));
            self.replacements.push(file);
            for root in documents.iter().filter_map(Document::root) {
                root.entries().iter().for_each(|(_, fields)| self.add_created(fields));
            }
        }
        for entry in root.get("transformers").items().filter_map(|item| item.text()) {
            let bytes = match entry.contains('\n') {
                true => Some(entry.as_bytes().to_vec()),
                false => disk.read(&path(entry)).ok(),
            };
            self.replacements.extend((!entry.contains('\n')).then(|| path(entry)));
            match bytes {
                Some(bytes) => {
                    let documents = source::read(&Source::new("transformer", bytes));
                    let roots = documents.iter().filter_map(Document::root);
                    roots.for_each(|root| self.add_transformer(&root, path, disk));
                }
                // A folder or a repository: it may change anything.
                None => self.targets.push(unknown_change()),
            }
        }
    }

    /// Adds what a transformer changes. One that is not built into kustomize 5 may change anything.
    fn add_transformer(&mut self, root: &Node<'_>, path: &impl Fn(&str) -> PathBuf, disk: &Disk) {
        const ADDING_NOTHING: [&str; 7] = [
            "HashTransformer",
            "ImageTagTransformer",
            "NamespaceTransformer",
            "PrefixSuffixTransformer",
            "PrefixTransformer",
            "ReplicaCountTransformer",
            "SuffixTransformer",
        ];
        let is_builtin = root.get("apiVersion").text() == Some("builtin");
        match root.get("kind").text().filter(|_| is_builtin) {
            Some("LabelTransformer" | "AnnotationsTransformer") => self.add_created(&root.get("fieldSpecs")),
            Some("PatchTransformer") => {
                let inline = Some(root.get("patch")).filter(|inline| inline.raw_text().is_some());
                let patch = Patch { file: root.get("path").text(), inline, target: root.get("target") };
                self.add_patch(&patch, path, disk);
            }
            Some(kind) if ADDING_NOTHING.contains(&kind) => {}
            _ => self.targets.push(unknown_change()),
        }
    }
}

/// What a patch does to the objects that it selects.
pub(super) struct PatchEffect {
    /// The objects that it removes.
    pub(super) removed: Vec<PatchTarget>,
    pub(super) changed: Vec<PatchTarget>,
}

impl PatchEffect {
    pub(super) fn of(patch: &Source, target: &Node<'_>) -> PatchEffect {
        let removed = removed_by_patch(patch.text());
        if !target.is_set() {
            return PatchEffect { removed, changed: targets_of_patch(patch) };
        }
        let documents = source::read(patch);
        let fields = documents.iter().filter_map(Document::root).flat_map(|root| fields_of_patch(&root));
        let replicas = replicas_in(patch.text());
        let changed = PatchTarget { replicas, fields: fields.collect(), ..target_of_selector(target) };
        let is_removed = is_certain_selector(target) && !removed.is_empty();
        let removed = is_removed.then(|| changed.clone()).into_iter().collect();
        PatchEffect { removed, changed: vec![changed] }
    }
}

/// Whether the target of a patch is all Kustomizations of Flux, whatever their names.
pub(super) fn is_for_all_kustomizations(target: &Node<'_>) -> bool {
    target.get("kind").text() == Some("Kustomization") && target.get("name").is_absent()
}

/// The fields that a patch sets or removes.
fn fields_of_patch(root: &Node<'_>) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    if !root.is_sequence() {
        add_fields(root, &mut Vec::new(), &mut out);
        return out;
    }
    for operation in root.items() {
        let places: &[&str] = match operation.get("op").text() {
            Some("move") => &["path", "from"],
            Some("add" | "copy" | "remove" | "replace") => &["path"],
            _ => &[],
        };
        // A path that cannot be read may be that of any field.
        let steps = |place: &str| Some(Pointer::parse(operation.get(place).text()?)?.steps().to_vec());
        out.extend(places.iter().map(|place| steps(place).unwrap_or_default()));
    }
    out
}

/// Adds the fields that a strategic merge patch sets or removes, below a node. Lists whose items have names are merged by them.
fn add_fields(node: &Node<'_>, at: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    let names: Option<Vec<String>> =
        node.items().map(|item| Some(format!("[{}]", item.get("name").text()?))).collect();
    let below: Vec<(String, Node<'_>)> = match names.filter(|_| node.is_sequence()) {
        Some(names) => names.into_iter().zip(node.items()).collect(),
        None => node.entries().into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    };
    let is_identity = |key: &str| match at.as_slice() {
        [] => matches!(key, "apiVersion" | "kind"),
        [above] => above == "metadata" && matches!(key, "name" | "namespace"),
        [.., last] => key == "name" && last.starts_with('['),
    };
    let below: Vec<_> = below.into_iter().filter(|(key, _)| !is_identity(key)).collect();
    if node.get("$patch").is_set() || !node.is_mapping() && below.is_empty() {
        out.push(at.clone());
        return;
    }
    for (step, value) in below {
        at.push(step);
        add_fields(&value, at, out);
        at.pop();
    }
}

pub(crate) struct Patch<'k> {
    /// The file of the patch, as written.
    pub(crate) file: Option<&'k str>,
    /// The text of the patch, if it is inline; it takes precedence over the file.
    pub(crate) inline: Option<Node<'k>>,
    pub(crate) target: Node<'k>,
}

pub(crate) fn patches<'k>(root: &Node<'k>) -> Vec<Patch<'k>> {
    let mut out = Vec::new();
    for entry in root.get("patchesStrategicMerge").items() {
        let is_inline = entry.text().is_some_and(|text| text.contains('\n'));
        let file = entry.text().filter(|_| !is_inline);
        out.push(Patch { file, inline: is_inline.then(|| entry.clone()), target: entry.get("target") });
    }
    for field in ["patches", "patchesJson6902"] {
        for entry in root.get(field).items() {
            let inline = Some(entry.get("patch")).filter(|inline| inline.raw_text().is_some());
            // Early versions of kustomize accept a list of files.
            let file = entry.get("path").text().or(entry.text());
            out.push(Patch { file, inline, target: entry.get("target") });
        }
    }
    out
}

/// Whether a document is one that kustomize builds.
fn is_built(root: &Node<'_>) -> bool {
    root.get("apiVersion").text().is_none_or(|version| version.starts_with("kustomize.config.k8s.io/"))
}

/// Whether an entry names a repository or a file elsewhere, and no such path exists.
/// The file of an entry of a generator, which may have a key: `KEY=FILE`.
fn file_of_source(entry: &str) -> &str {
    entry.split_once('=').map_or(entry, |(_, file)| file)
}

fn is_remote(entry: &str) -> bool {
    let first = entry.split('/').next().unwrap_or_default();
    entry.contains("://")
        || entry.contains("?ref=")
        || entry.starts_with("git@")
        || entry.contains(".git/")
        || entry.ends_with(".git")
        || entry.contains('/') && first.contains('.') && !first.starts_with('.') && !first.ends_with(".yaml")
}

/// The targets of a strategic merge patch that removes them, from the identities of its objects.
fn removed_by_patch(text: &str) -> Vec<PatchTarget> {
    if !text.contains("$patch") {
        return Vec::new();
    }
    let documents = source::read(&Source::from_text("patch", text));
    let roots = documents.iter().filter_map(|document| document.root());
    let removed = roots.filter(|root| root.get("$patch").text() == Some("delete"));
    let targets = removed.map(|root| PatchTarget {
        kind: root.get("kind").text().map(str::to_owned),
        name: root.path(&["metadata", "name"]).text().map(str::to_owned),
        ..PatchTarget::default()
    });
    targets.collect()
}

/// Whether a selector matches exactly the objects of the kind and name that [`target_of_selector`] returns.
fn is_certain_selector(target: &Node<'_>) -> bool {
    let plain = target_of_selector(target);
    let narrowing = ["namespace", "labelSelector", "annotationSelector"];
    let narrowed = narrowing.iter().any(|field| target.get(field).is_set());
    !narrowed && plain.kind.is_some() && (plain.name.is_some() || target.get("name").is_absent())
}

/// The change of a file that cannot be read, such as one that Git ignores: it may set any field of any object.
pub(super) fn unknown_change() -> PatchTarget {
    PatchTarget { replicas: PatchedReplicas::Set, ..PatchTarget::default() }
}

/// The target of a selector. Its values are regular expressions; anything but a plain name matches all
/// objects.
fn target_of_selector(target: &Node<'_>) -> PatchTarget {
    let plain = |field: &str| {
        let text = target.get(field).text()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
    };
    PatchTarget { kind: plain("kind"), name: plain("name"), ..PatchTarget::default() }
}

/// Whether the object that a target selects may have another kind or API version than the one that a patch writes. Without one in the
/// target it has the current version, as far as is known here.
fn is_of_other_version(patch: &Node<'_>, target: &Node<'_>) -> bool {
    let Some((api_version, kind)) = patch.get("apiVersion").text().zip(patch.get("kind").text()) else {
        return false;
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let stated = |field: &str| target.get(field).text().filter(|text| !text.is_empty());
    // The kind of a target is a regular expression.
    let plain_kind = stated("kind").filter(|text| text.chars().all(|c| c.is_ascii_alphanumeric()));
    let current = stated("version").or_else(|| current_version(group, kind));
    plain_kind.is_some_and(|of| of != kind)
        || stated("group").is_some_and(|of| of != group)
        || current.is_some_and(|current| current != version)
}

/// Whether the text of a patch sets the number of replicas.
fn replicas_in(patch: &str) -> PatchedReplicas {
    let sets = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '"']);
        line.starts_with("replicas") || line.trim_end_matches(['"', ',', ' ']).ends_with("/spec/replicas")
    };
    if patch.lines().any(sets) { PatchedReplicas::Set } else { PatchedReplicas::Kept }
}

fn targets_of_replacement(replacement: &Node<'_>) -> Vec<PatchTarget> {
    let targets = replacement.get("targets").items();
    let targets = targets.map(|target| {
        let mut paths = target.get("fieldPaths").items();
        let scales = paths.any(|path| path.text() == Some("spec.replicas"));
        let replicas = if scales { PatchedReplicas::Set } else { PatchedReplicas::Kept };
        PatchTarget { replicas, ..target_of_selector(&target.get("select")) }
    });
    targets.collect()
}

/// The targets of a patch. RFC 6902 operations without a target change nothing.
fn targets_of_patch(source: &Source) -> Vec<PatchTarget> {
    let documents = source::read(source);
    let roots = documents.iter().filter_map(|document| document.root());
    let targets = roots.filter_map(|root| {
        let text = |node: Node<'_>| node.text().map(str::to_owned);
        Some(PatchTarget {
            kind: Some(text(root.get("kind"))?),
            name: text(root.path(&["metadata", "name"])),
            replicas: if root.path(&["spec", "replicas"]).is_absent() {
                PatchedReplicas::Kept
            } else {
                PatchedReplicas::Set
            },
            fields: fields_of_patch(&root),
        })
    });
    targets.collect()
}

#[cfg(test)]
mod tests {
    use super::is_remote;

    #[test]
    fn entries_elsewhere_are_told_from_paths() {
        for entry in [
            "https://example.com/a.yaml",
            "github.com/org/repo//deploy?ref=v1",
            "git@example.com:org/repo.git",
            "ssh://git@example.com/a",
            "github.com/org/repo/deploy",
        ] {
            assert!(is_remote(entry), "{entry}");
        }
        for entry in ["../base", "a.yaml", "./x/y", "apps/web", "web.yaml/x"] {
            assert!(!is_remote(entry), "{entry}");
        }
    }
}
