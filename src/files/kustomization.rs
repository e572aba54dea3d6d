//! What a kustomization says of other files: what it lists, what it patches, and what in it.

use std::fs;
use std::path::{Path, PathBuf};

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::{PatchTarget, Source};

use super::absolute;

/// The names that kustomize knows.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A kustomization, with the paths in it made absolute.
#[derive(Debug, Default)]
pub(super) struct Kustomization {
    /// Files and folders that it lists.
    pub(super) resources: Vec<PathBuf>,
    /// Folders whose patches are made on what it lists.
    pub(super) components: Vec<PathBuf>,
    /// Files that hold its patches.
    pub(super) patches: Vec<PathBuf>,
    /// What it changes of the objects that it lists.
    pub(super) targets: Vec<PatchTarget>,
}

impl Kustomization {
    /// Reads that of a folder, if there is one. What cannot be read names nothing; where it was
    /// given, the reader complains of it.
    pub(super) fn read(folder: &Path) -> Option<Kustomization> {
        let mut out = None;
        for name in KUSTOMIZATIONS {
            let path = folder.join(name);
            let Some(bytes) = path.is_file().then(|| fs::read(&path).ok()).flatten() else {
                continue;
            };
            let found: &mut Kustomization = out.get_or_insert_default();
            for document in source::read(&Source::new(name, bytes)) {
                if let Some(root) = document.root() {
                    found.add(folder, &root);
                }
            }
        }
        out
    }

    fn add(&mut self, folder: &Path, root: &Node<'_>) {
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
                let file = patch.get("path").text().map(path);
                let target = patch.get("target");
                if target.is_set() {
                    self.targets.push(target_of_selector(&target));
                } else if let Some(text) = patch.get("patch").text() {
                    self.targets.extend(targets_of_patch(Source::from_text("patch", text)));
                } else if let Some(file) = &file {
                    self.targets.extend(targets_of_patch_file(file));
                }
                self.patches.extend(file);
            }
        }
        for patch in root.get("patchesStrategicMerge").items() {
            match patch.text() {
                Some(text) if text.contains('\n') => {
                    self.targets.extend(targets_of_patch(Source::from_text("patch", text)));
                }
                Some(file) => {
                    let file = path(file);
                    self.targets.extend(targets_of_patch_file(&file));
                    self.patches.push(file);
                }
                None => {}
            }
        }
        for replacement in root.get("replacements").items() {
            let targets = replacement.get("targets").items();
            self.targets.extend(targets.map(|target| target_of_selector(&target.get("select"))));
        }
    }
}

/// What a selector chooses. Its texts are regular expressions; all but plain names choose anything.
fn target_of_selector(target: &Node<'_>) -> PatchTarget {
    let plain = |field: &str| {
        let text = target.get(field).text()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
    };
    PatchTarget { kind: plain("kind"), name: plain("name") }
}

/// The objects that patches of a file name.
fn targets_of_patch_file(file: &Path) -> Vec<PatchTarget> {
    let bytes = fs::read(file).unwrap_or_default();
    targets_of_patch(Source::new("patch", bytes))
}

/// The objects that a patch names. Without a target, operations of RFC 6902 change nothing.
fn targets_of_patch(source: Source) -> Vec<PatchTarget> {
    let documents = source::read(&source);
    let roots = documents.iter().filter_map(|document| document.root());
    let targets = roots.filter_map(|root| {
        let text = |node: Node<'_>| node.text().map(str::to_owned);
        Some(PatchTarget {
            kind: Some(text(root.get("kind"))?),
            name: text(root.path(&["metadata", "name"])),
        })
    });
    targets.collect()
}
