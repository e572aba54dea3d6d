//! Who fills in placeholders: tools whose traces are beside the manifests, such as a Flux Kustomization with
//! `postBuild`, a call of Terraform's `templatefile`, or a script that runs `envsubst`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use gpulint_rules::source;
use gpulint_rules::source::{FilledPlaceholder, Source};

use super::{Input, absolute};

/// Placeholders such as `${X}`.
const BRACES: &str = "${";
/// Placeholders such as `{{ x }}`.
const DOUBLE_BRACES: &str = "{{";
/// How many folders above a file are searched for scripts.
const LEVELS: usize = 3;
/// The largest file that is searched, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// How many files of a folder are searched.
const MAX_FILES: usize = 200;

/// What fills in placeholders, by folder.
#[derive(Debug, Default)]
pub(super) struct FilledFolders {
    folders: HashMap<PathBuf, Traces>,
    /// The paths of Flux Kustomizations with `postBuild`, relative to their repository.
    flux: Vec<PathBuf>,
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
    pub(super) fn discover(inputs: &[Input]) -> FilledFolders {
        // What is outside the folder in which the program runs, and outside that of all inputs, is not the user's.
        let here = absolute(Path::new("."));
        let common = common_folder(inputs);
        let mut seen: HashSet<&Path> = HashSet::new();
        for input in inputs.iter().filter(|input| !input.stdin) {
            let folders = input.absolute.ancestors().skip(1).take(LEVELS);
            seen.extend(folders.filter(|folder| folder.starts_with(&here) || folder.starts_with(&common)));
        }
        let folders: HashMap<PathBuf, Traces> =
            seen.iter().map(|folder| (folder.to_path_buf(), Traces::of(folder))).collect();
        let flux = inputs.iter().filter(|input| !input.stdin).flat_map(|input| flux_paths(&input.path));
        FilledFolders { flux: flux.collect(), folders }
    }

    /// The placeholders of a file that are filled in. `roots` are the folders of the kustomizations that reach it.
    pub(super) fn of<'a>(
        &self,
        path: &'a Path,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Vec<FilledPlaceholder> {
        let (mut braces, mut double_braces) = (false, false);
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
    fn of(folder: &Path) -> Traces {
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
            let words = ["envsubst", "templatefile(", "template_file"];
            if read_small(&path).is_some_and(|text| words.iter().any(|word| text.contains(word))) {
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
    let mut folders = inputs.iter().filter(|input| !input.stdin).filter_map(|input| input.absolute.parent());
    let first = folders.next().unwrap_or(Path::new("")).to_owned();
    folders.fold(first, |common, folder| {
        let shared = common.components().zip(folder.components()).take_while(|(a, b)| a == b);
        shared.map(|(part, _)| part).collect()
    })
}

/// Whether a file is one in which people write how manifests are applied.
fn is_script(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    matches!(&*extension, "tf" | "tofu" | "sh" | "bash" | "mk" | "md")
        || matches!(&*name, "Makefile" | "GNUmakefile" | "justfile" | "Justfile" | ".gitlab-ci.yml")
        || name.starts_with("Taskfile.")
        || name.starts_with("skaffold.")
}

/// The text of a file that is not too large.
fn read_small(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    (size <= MAX_BYTES).then(|| fs::read_to_string(path).ok())?
}

/// The paths of the Flux Kustomizations in a file that substitute variables after the build.
fn flux_paths(path: &Path) -> Vec<PathBuf> {
    let text = read_small(path).unwrap_or_default();
    if !text.contains("postBuild") || !text.contains("kustomize.toolkit.fluxcd.io") {
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
        .filter_map(|root| {
            let path = Path::new(root.path(&["spec", "path"]).text()?);
            Some(path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect())
        })
        .collect()
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

    use super::is_below;

    #[test]
    fn paths_of_flux_are_relative_to_a_folder_above() {
        assert!(is_below(Path::new("/repo/apps/prod/web/a.yaml"), Path::new("apps/prod")));
        assert!(is_below(Path::new("/repo/apps/prod"), Path::new("apps/prod")));
        assert!(!is_below(Path::new("/repo/apps/production/a.yaml"), Path::new("apps/prod")));
        assert!(is_below(Path::new("/repo/a.yaml"), Path::new("")));
    }
}
