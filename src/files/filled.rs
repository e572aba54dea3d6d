//! Who fills in placeholders: tools whose traces are beside the manifests, such as a Flux Kustomization with
//! `postBuild`, a call of Terraform's `templatefile`, or a script that runs `envsubst`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use gpulint_rules::source;
use gpulint_rules::source::{FilledPlaceholder, Source};
use ignore::WalkBuilder;

use super::walk::EXCLUDED_FOLDERS;
use super::{Disk, Input, absolute};

/// Placeholders such as `${X}`.
const BRACES: &str = "${";
/// Placeholders such as `{{ x }}`.
const DOUBLE_BRACES: &str = "{{";
/// How many folders above a file are searched for scripts.
const LEVELS: usize = 3;
/// The largest file that is searched, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// How many scripts are searched for the files that they fill in.
const MAX_SCRIPTS: usize = 2_000;
/// How many files and folders are looked at for scripts.
const MAX_ENTRIES: usize = 100_000;
/// How many files of a folder are searched.
const MAX_FILES: usize = 200;

/// What fills in placeholders, by folder.
#[derive(Debug, Default)]
pub(super) struct FilledFolders {
    folders: HashMap<PathBuf, Traces>,
    /// The paths of Flux Kustomizations with `postBuild`, relative to their repository.
    flux: Vec<PathBuf>,
    /// The ends of the paths of files that a Terraform file or a script anywhere below the inputs' folder fills in.
    named: Vec<PathBuf>,
}

/// What the files of one folder show.
#[derive(Clone, Copy, Debug, Default)]
struct Traces {
    /// Calls of Terraform's `templatefile`, or of `envsubst`.
    braces: bool,
    /// A template of cookiecutter, copier or Ansible.
    double_braces: bool,
    /// The root of a repository.
    root: bool,
}

impl FilledFolders {
    /// Examines the folders of the inputs, those above them up to the current one, and the inputs themselves.
    /// It uses no thread pool, because the first of several threads that need it runs it while the others wait.
    pub(super) fn discover(inputs: &[Input], disk: &Disk) -> FilledFolders {
        // What is outside the folder in which the program runs, and outside that of all inputs, is not the user's.
        let here = absolute(Path::new("."));
        let common = common_folder(inputs);
        let mut seen: HashSet<&Path> = HashSet::new();
        for input in inputs.iter().filter(|input| input.stream.is_none()) {
            let folders = input.absolute.ancestors().skip(1).take(LEVELS);
            seen.extend(folders.filter(|folder| folder.starts_with(&here) || folder.starts_with(&common)));
        }
        let folders: HashMap<PathBuf, Traces> =
            seen.iter().map(|folder| (folder.to_path_buf(), Traces::of(folder, disk))).collect();
        let flux =
            inputs.iter().filter(|input| input.stream.is_none()).flat_map(|input| flux_paths(input, disk));
        let root = if common.starts_with(&here) { here } else { common };
        FilledFolders { flux: flux.collect(), named: named_files(&root, disk), folders }
    }

    /// The placeholders of a file that are filled in. `roots` are the folders of the kustomizations that reach it.
    pub(super) fn of<'a>(
        &self,
        path: &'a Path,
        roots: impl Iterator<Item = &'a Path>,
        text: &str,
    ) -> Vec<FilledPlaceholder> {
        // A comment in the file itself may say how it is applied.
        let mut comments = text.lines().map(str::trim_start).filter(|line| line.starts_with('#'));
        let mut braces = comments.any(|line| line.contains("envsubst"))
            || self.named.iter().any(|named| path.ends_with(named));
        let mut double_braces = false;
        for traces in path.ancestors().skip(1).take(LEVELS).filter_map(|folder| self.folders.get(folder)) {
            braces |= traces.braces;
            double_braces |= traces.double_braces;
            if traces.root {
                break;
            }
        }
        let mut places = std::iter::once(path).chain(roots);
        braces |= places.any(|place| self.flux.iter().any(|flux| is_below(place, flux)));
        let found = [(braces, BRACES), (double_braces, DOUBLE_BRACES)];
        found.into_iter().filter(|(is, _)| *is).map(|(_, start)| FilledPlaceholder::Syntax(start)).collect()
    }
}

impl Traces {
    fn of(folder: &Path, disk: &Disk) -> Traces {
        let mut traces = Traces {
            root: folder.join(".git").exists(),
            double_braces: folder.join("cookiecutter.json").is_file()
                || folder.join("copier.yml").is_file()
                || folder.join("copier.yaml").is_file()
                // A role of Ansible.
                || folder.file_name().is_some_and(|name| name == "templates")
                    && folder.parent().is_some_and(|role| role.join("tasks").is_dir()),
            braces: false,
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let scripts = entries.map(|entry| entry.path()).filter(|path| is_script(path)).take(MAX_FILES);
        for path in scripts {
            let words = ["envsubst", "templatefile(", "template_file", "kubectl_path_documents"];
            if read_small(&path, disk).is_some_and(|text| words.iter().any(|word| text.contains(word))) {
                traces.braces = true;
                break;
            }
        }
        traces
    }
}

/// Whether a text may have placeholders that these tools fill in.
pub(super) fn has_placeholders(text: &str) -> bool {
    [BRACES, DOUBLE_BRACES].iter().any(|start| text.contains(start))
}

/// The folder that all inputs are in.
fn common_folder(inputs: &[Input]) -> PathBuf {
    let mut folders =
        inputs.iter().filter(|input| input.stream.is_none()).filter_map(|input| input.absolute.parent());
    let first = folders.next().unwrap_or(Path::new("")).to_owned();
    folders.fold(first, |common, folder| {
        let shared = common.components().zip(folder.components()).take_while(|(a, b)| a == b);
        shared.map(|(part, _)| part).collect()
    })
}

/// Whether a file is a program that may apply manifests of other folders, and no text about it.
fn is_program(path: &Path) -> bool {
    is_script(path) && path.extension().is_none_or(|extension| extension != "md")
}

/// Whether a file is one in which people write how manifests are applied.
pub(crate) fn is_script(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    matches!(&*extension, "tf" | "tofu" | "sh" | "bash" | "mk" | "md")
        || matches!(&*name, "Makefile" | "GNUmakefile" | "justfile" | "Justfile" | ".gitlab-ci.yml")
        || name.starts_with("Taskfile.")
        || name.starts_with("skaffold.")
}

/// The text of a file that is not too large.
fn read_small(path: &Path, disk: &Disk) -> Option<String> {
    if let Some(text) = disk.buffer(path) {
        return Some(text.to_string());
    }
    let size = fs::metadata(path).ok()?.len();
    (size <= MAX_BYTES).then(|| fs::read_to_string(path).ok())?
}

/// The paths of the Flux Kustomizations in a file that substitute variables after the build.
fn flux_paths(input: &Input, disk: &Disk) -> Vec<PathBuf> {
    let open = disk.buffer(&input.absolute).map(ToString::to_string);
    let text = open.or_else(|| read_small(&input.path, disk)).unwrap_or_default();
    if !fills_placeholders(&text) {
        return Vec::new();
    }
    let documents = source::read(&Source::from_text("kustomization", &text));
    let roots = documents.iter().filter_map(source::Document::root);
    roots
        .filter(|root| {
            let version = root.get("apiVersion").text().unwrap_or_default();
            let build = root.path(&["spec", "postBuild"]);
            version.starts_with("kustomize.toolkit.fluxcd.io/")
                && (build.get("substitute").is_set() || build.get("substituteFrom").is_set())
        })
        .flat_map(|root| {
            let spec = root.get("spec");
            let path = spec.get("path").text().map(Path::new);
            // The components of a Kustomization are given relative to its path.
            let components = spec.get("components");
            let components = components.items().filter_map(|item| Some(path?.join(item.text()?)));
            path.map(Path::to_owned)
                .into_iter()
                .chain(components)
                .map(|path| plain(&path))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a text may be that of a Flux Kustomization that substitutes variables after the build.
pub(crate) fn fills_placeholders(text: &str) -> bool {
    text.contains("postBuild") && text.contains("kustomize.toolkit.fluxcd.io")
}

/// A relative path without `.`, and without `..` where it follows a folder.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => out.push(part),
            Component::ParentDir => _ = out.pop(),
            _ => {}
        }
    }
    out
}

/// The files below a folder that a Terraform file or a script names where it calls `envsubst` or `templatefile`: the
/// folder and the name of each. A name without a folder is that of a file beside the script.
fn named_files(root: &Path, disk: &Disk) -> Vec<PathBuf> {
    let is_own = |name: &OsStr| !EXCLUDED_FOLDERS.iter().any(|excluded| name == *excluded);
    // Patterns of ignored files cost more to read than the few scripts that they leave out.
    let entries = WalkBuilder::new(root)
        .standard_filters(false)
        .filter_entry(move |entry| is_own(entry.file_name()))
        .build()
        .flatten()
        .take(MAX_ENTRIES);
    let mut named = Vec::new();
    for entry in entries.filter(|entry| is_program(entry.path())).take(MAX_SCRIPTS) {
        let text = read_small(entry.path(), disk).unwrap_or_default().replace("\\\n", " ");
        let calls = |line: &&str| ["envsubst", "templatefile("].iter().any(|word| line.contains(word));
        for line in text.lines().filter(calls) {
            named.extend(paths_in(line).map(|path| Path::new(path).to_owned()));
        }
    }
    named.sort_unstable();
    named.dedup();
    named
}

/// The ends of the paths of manifests in a line of a script, from the last variable or `..` on, where they name a
/// folder.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let words = line.split(move |c| !is_path(c));
    let manifests = words.filter(|word| [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end)));
    let ends = manifests.map(|word| {
        let end = word.rfind("../").map_or(word, |at| &word[at + 3..]);
        end.trim_start_matches(['.', '/'])
    });
    ends.filter(|end| end.contains('/'))
}

/// Whether a file or folder is below a path that is relative to a folder above. An empty path is the repository.
fn is_below(place: &Path, below: &Path) -> bool {
    let length = below.components().count();
    let parts: Vec<_> = place.components().collect();
    length == 0 || parts.windows(length).any(|window| window.iter().copied().eq(below.components()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_below, paths_in, plain};

    #[test]
    fn paths_in_scripts_end_at_a_folder() {
        let of = |line: &'static str| paths_in(line).collect::<Vec<_>>();
        let line = "envsubst < ${path.module}/../../karpenter/nodepools.yaml | kubectl apply -f -";
        assert_eq!(of(line), ["karpenter/nodepools.yaml"]);
        let line = "x = templatefile(\"${path.module}/manifests/x/y.yaml\", {a = 1})";
        assert_eq!(of(line), ["manifests/x/y.yaml"]);
        assert_eq!(of("envsubst < class.yaml | kubectl apply -f -"), Vec::<&str>::new());
        assert_eq!(plain(Path::new("./apps/a/../../components/gpu")), Path::new("components/gpu"));
    }

    #[test]
    fn paths_of_flux_are_relative_to_a_folder_above() {
        assert!(is_below(Path::new("/repo/apps/prod/web/a.yaml"), Path::new("apps/prod")));
        assert!(is_below(Path::new("/repo/apps/prod"), Path::new("apps/prod")));
        assert!(!is_below(Path::new("/repo/apps/production/a.yaml"), Path::new("apps/prod")));
        assert!(is_below(Path::new("/repo/a.yaml"), Path::new("")));
    }
}
