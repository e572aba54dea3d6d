//! Reads a kustomization: the files that it lists, its patches, and what they change.

use std::path::{Path, PathBuf};

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::{FilledPlaceholder, PatchTarget, PatchedReplicas, Source};

use super::{Directories, Disk, absolute};

/// File names that kustomize recognizes.
pub(crate) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A kustomization. Its paths are absolute.
#[derive(Debug, Default)]
pub(super) struct Kustomization {
    /// Files and folders that it lists.
    pub(super) resources: Vec<PathBuf>,
    /// Folders of components, whose patches apply to the listed files.
    pub(super) components: Vec<PathBuf>,
    /// Files that contain its patches.
    pub(super) patches: Vec<PathBuf>,
    /// Files that contain its replacements.
    pub(super) replacements: Vec<PathBuf>,
    /// Whether a patch gives objects another kind, so that other patches have fields of that kind.
    pub(super) changes_kinds: bool,
    /// The objects that it changes.
    pub(super) targets: Vec<PatchTarget>,
    /// The namespace that it sets.
    pub(super) namespace: Option<String>,
    /// The prefix and the suffix that it adds to names, if it adds any.
    pub(super) affixes: Option<(String, String)>,
    /// The placeholders that it fills in: variables, and the objects into which replacements write.
    pub(super) filled: Vec<FilledPlaceholder>,
    /// The objects that its patches remove.
    pub(super) removed: Vec<PatchTarget>,
    /// Whether it changes those that include it and is nothing alone.
    pub(super) is_component: bool,
}

impl Kustomization {
    /// Reads the kustomization of a folder, if there is one. Files that cannot be parsed are treated as
    /// empty; if they are inputs, the parser reports them.
    pub(super) fn read(folder: &Path, disk: &Disk, directories: &Directories) -> Option<Kustomization> {
        let mut out = None;
        for name in KUSTOMIZATIONS.into_iter().filter(|name| directories.has_file(folder, name)) {
            let Ok(bytes) = disk.read(&folder.join(name)) else { continue };
            let found: &mut Kustomization = out.get_or_insert_default();
            for document in source::read(&Source::new(name, bytes)) {
                if let Some(root) = document.root() {
                    found.add(folder, &root, disk);
                }
            }
        }
        out
    }

    /// The files that say what it changes.
    pub(super) fn files_read(&self) -> impl Iterator<Item = &PathBuf> {
        self.patches.iter().chain(&self.replacements)
    }

    fn add(&mut self, folder: &Path, root: &Node<'_>, disk: &Disk) {
        let path = |file: &str| absolute(&folder.join(file));
        let paths = |field: &str| {
            let items = root.get(field).items();
            let texts = items.filter_map(|item| item.text().map(path));
            texts.collect::<Vec<PathBuf>>()
        };
        for field in ["resources", "bases"] {
            self.resources.extend(paths(field));
        }
        self.components.extend(paths("components"));
        for field in ["patches", "patchesJson6902"] {
            for patch in root.get(field).items() {
                // Early versions of kustomize read a list of files.
                let file = patch.get("path").text().or(patch.text()).map(path);
                self.changes_kinds |= patch.get("patch").text().is_some_and(|text| {
                    text.lines().any(|line| line.trim().trim_start_matches("- ").trim() == "path: /kind")
                });
                let target = patch.get("target");
                if target.is_set() {
                    let bytes = || file.as_ref().and_then(|file| disk.read_to_string(file).ok());
                    let text = patch.get("patch").text().map(str::to_owned).or_else(bytes);
                    let text = text.unwrap_or_default();
                    let replicas = replicas_in(&text);
                    let changed = PatchTarget { replicas, ..target_of_selector(&target) };
                    if is_certain_selector(&target) && !removed_by_patch(&text).is_empty() {
                        self.removed.push(changed.clone());
                    }
                    self.targets.push(changed);
                } else if let Some(text) = patch.get("patch").text() {
                    self.add_patch(text);
                } else if let Some(file) = &file {
                    self.add_patch_file(file, disk);
                }
                self.patches.extend(file);
            }
        }
        for patch in root.get("patchesStrategicMerge").items() {
            match patch.text() {
                Some(text) if text.contains('\n') => {
                    self.add_patch(text);
                }
                Some(file) => {
                    let file = path(file);
                    self.add_patch_file(&file, disk);
                    self.patches.push(file);
                }
                None => {}
            }
        }
        for scaled in root.get("replicas").items() {
            let name = scaled.get("name").text().map(str::to_owned);
            self.targets.push(PatchTarget { kind: None, name, replicas: PatchedReplicas::Only });
        }
        let mut replaced = Vec::new();
        for replacement in root.get("replacements").items() {
            replaced.extend(targets_of_replacement(&replacement));
            // The targets of a replacement may be in a file of their own.
            if let Some(file) = replacement.get("path").text() {
                let file = path(file);
                let bytes = disk.read(&file).unwrap_or_default();
                self.replacements.push(file);
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
        for image in root.get("images").items() {
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

    /// A patch that names its objects itself.
    fn add_patch(&mut self, text: &str) {
        self.targets.extend(targets_of_patch(Source::from_text("patch", text)));
        self.removed.extend(removed_by_patch(text));
    }

    fn add_patch_file(&mut self, file: &Path, disk: &Disk) {
        let bytes = disk.read(file).unwrap_or_default();
        if let Ok(text) = std::str::from_utf8(&bytes) {
            self.removed.extend(removed_by_patch(text));
        }
        self.targets.extend(targets_of_patch(Source::new("patch", bytes)));
    }
}

/// What the objects of a strategic merge patch say of themselves when they remove their targets.
pub(super) fn removed_by_patch(text: &str) -> Vec<PatchTarget> {
    if !text.contains("$patch") {
        return Vec::new();
    }
    let documents = source::read(&Source::from_text("patch", text));
    let roots = documents.iter().filter_map(|document| document.root());
    let removed = roots.filter(|root| root.get("$patch").text() == Some("delete"));
    let targets = removed.map(|root| PatchTarget {
        kind: root.get("kind").text().map(str::to_owned),
        name: root.path(&["metadata", "name"]).text().map(str::to_owned),
        replicas: PatchedReplicas::Kept,
    });
    targets.collect()
}

/// Whether a selector means exactly the objects of the kind and name that [`target_of_selector`] gives.
fn is_certain_selector(target: &Node<'_>) -> bool {
    let plain = target_of_selector(target);
    let narrowing = ["namespace", "labelSelector", "annotationSelector"];
    let narrowed = narrowing.iter().any(|field| target.get(field).is_set());
    !narrowed && plain.kind.is_some() && (plain.name.is_some() || target.get("name").is_absent())
}

/// The target of a selector. Its values are regular expressions; anything but a plain name matches all
/// objects.
fn target_of_selector(target: &Node<'_>) -> PatchTarget {
    let plain = |field: &str| {
        let text = target.get(field).text()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
    };
    PatchTarget { kind: plain("kind"), name: plain("name"), replicas: PatchedReplicas::Kept }
}

/// Whether the text of a patch sets the number of replicas.
fn replicas_in(patch: &str) -> PatchedReplicas {
    let sets = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '"']);
        line.starts_with("replicas") || line.trim_end_matches(['"', ',', ' ']).ends_with("/spec/replicas")
    };
    if patch.lines().any(sets) { PatchedReplicas::Set } else { PatchedReplicas::Kept }
}

/// The targets of a replacement.
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
fn targets_of_patch(source: Source) -> Vec<PatchTarget> {
    let documents = source::read(&source);
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
        })
    });
    targets.collect()
}
