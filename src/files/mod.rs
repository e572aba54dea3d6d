//! Finds files, classifies them, and parses their objects.
//!
//! `walk` finds files, `folders` recognizes charts and kustomizations, `read` parses bytes to objects. Files
//! that are not manifests are skipped with a reason, never with an error.

mod broken;
mod directories;
mod disk;
mod filled;
mod folders;
mod heredocs;
mod ignores;
mod kustomization;
mod near;
mod outcome;
mod read;
mod sets;
mod system;
mod terraform;
mod unapplied;
mod walk;
mod walker;

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rayon::prelude::*;

pub(crate) use directories::Directories;
pub(crate) use disk::Disk;
pub(crate) use filled::{fills_placeholders, is_script};
pub(crate) use folders::{FileContext, Folders, OUTPUT};
pub(crate) use ignores::is_ignored_by_git;
pub(crate) use kustomization::{KUSTOMIZATIONS, Kustomization, Patch, patches};
pub(crate) use near::Near;
pub(crate) use outcome::{KnownFiles, ReadOutcome};
pub(crate) use read::{read, read_all, read_bytes};
pub(crate) use sets::{
    Evidence, FluxBuild, FluxChanges, Release, ReleaseParameter, ReleaseValues, SetFile, Sets, Sign,
    UNCLAIMED, ValuesPlace, discover_builds, discover_releases, discover_sets, references,
};
pub(crate) use system::{
    Revision, Standing, canonicalize, exists, is_file, read as read_file, read_to_string, without_link,
};
pub(crate) use terraform::{Terraform, is_of_terraform};
pub(crate) use walk::{FoundFiles, Input, count_hidden, find, find_with_unsaved};

/// The names of gpulint's configuration file. A folder has at most one.
pub(crate) const CONFIGURATIONS: [&str; 4] = ["gpulint.yaml", "gpulint.yml", ".gpulint.yaml", ".gpulint.yml"];

/// Folders of the pipelines of a code host, which may call the one that runs gpulint by its name.
const PIPELINES: [&str; 8] =
    [".azuredevops", ".buildkite", ".circleci", ".forgejo", ".gitea", ".github", ".gitlab", ".woodpecker"];

pub(crate) fn is_configuration(path: &Path) -> bool {
    path.file_name().is_some_and(|name| CONFIGURATIONS.iter().any(|known| name == *known))
        && path.parent().is_none_or(may_be_configured)
}

/// Whether a file of a folder may be a configuration by its name.
pub(crate) fn may_be_configured(folder: &Path) -> bool {
    !folder.components().any(|part| PIPELINES.iter().any(|name| part.as_os_str() == *name))
}

/// A file or document that was not read as a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    /// The path of the file as reported.
    pub(crate) file: String,
    /// The index of the document; `None` for the whole file.
    pub(crate) document: Option<u32>,
    pub(crate) reason: SkipReason,
    /// Whether rules that do not depend on absent fields have run.
    pub(crate) partial: bool,
}

/// The reason why a file or document is not checked as a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SkipReason {
    /// A template of a chart, or `{{` that prevents a document from being parsed.
    HelmTemplate,
    HelmValues,
    Kustomization,
    KustomizePatch,
    /// A pod template of Spark.
    PodTemplate,
    Crd,
    /// A template of Terraform: one by its name, or one that does not parse as YAML.
    TerraformTemplate,
    /// A file of Terraform, in its own language.
    Terraform,
    /// A template by its name, of a program that the name does not tell, such as `envsubst`.
    Template,
    /// A template of Jinja, as Ansible has.
    JinjaTemplate,
    /// A document with annotations of ytt, which gives what follows them.
    YttTemplate,
    /// A script with manifests in its heredocs.
    Script,
    /// A packed chart or folder.
    Archive,
    /// An entry of a kustomization that is not in the file system.
    RemoteBase,
    /// The document has no `kind` and no `apiVersion`.
    Foreign,
    /// The document has only comments and separators.
    Empty,
    /// The file is binary.
    NotText,
    /// A link whose target does not exist.
    DanglingLink,
    /// A pipe, a socket or a device.
    NotAFile,
    Config,
    /// The configuration ignores the file, although it was given as an argument.
    Ignored,
    /// The file is in a folder of tests, below a folder that was given as an argument.
    TestData,
    /// The file is in a folder of archived files, or is a backup.
    Archived,
}

impl SkipReason {
    /// The reason why a file is not read that may hold manifests, and whose name is not that of one. `None` for other names.
    fn of_name(name: &OsStr) -> Option<SkipReason> {
        const ENDS: [(&str, SkipReason); 11] = [
            (".tf", SkipReason::Terraform),
            (".tf.json", SkipReason::Terraform),
            (".tofu", SkipReason::Terraform),
            (".tftpl", SkipReason::TerraformTemplate),
            (".tpl", SkipReason::TerraformTemplate),
            (".tmpl", SkipReason::Template),
            (".envsubst", SkipReason::Template),
            (".j2", SkipReason::JinjaTemplate),
            (".jinja", SkipReason::JinjaTemplate),
            (".tgz", SkipReason::Archive),
            (".tar.gz", SkipReason::Archive),
        ];
        let name = name.to_str()?;
        // Templates and archives of other things than manifests are of no use here.
        let is_manifest = |end: &str| {
            let stem = name.strip_suffix(end).unwrap_or_default();
            [".yaml", ".yml", ".json"].iter().any(|manifest| stem.ends_with(manifest))
        };
        let (end, reason) = ENDS.into_iter().find(|(end, _)| name.ends_with(end))?;
        match reason {
            SkipReason::TerraformTemplate | SkipReason::Template | SkipReason::JinjaTemplate => {
                is_manifest(end).then_some(reason)
            }
            _ => Some(reason),
        }
    }

    /// What reads a file that may hold manifests and was not read. `None` for files of other uses.
    pub(crate) fn remedy(self) -> Option<&'static str> {
        match self {
            SkipReason::Terraform | SkipReason::Script => {
                Some("pipe the applied manifests to gpulint check -")
            }
            SkipReason::TerraformTemplate
            | SkipReason::Template
            | SkipReason::JinjaTemplate
            | SkipReason::YttTemplate
            | SkipReason::HelmTemplate => Some("pipe the rendered manifests to gpulint check -"),
            SkipReason::Archive => Some("unpack first"),
            _ => None,
        }
    }

    /// The text for people.
    pub(crate) fn description(self) -> &'static str {
        self.words().1
    }

    /// The name used in the JSON report.
    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            SkipReason::HelmTemplate => {
                ("helm-template", "a template of a chart; --render checks what it gives")
            }
            SkipReason::HelmValues => ("helm-values", "the values of a chart"),
            SkipReason::Kustomization => ("kustomization", "a kustomization"),
            SkipReason::KustomizePatch => ("kustomize-patch", "a patch: only what is there is checked"),
            SkipReason::PodTemplate => {
                ("pod-template", "a pod template of Spark: only what is there is checked")
            }
            SkipReason::Crd => ("crd", "a CustomResourceDefinition; --crds checks objects against it"),
            SkipReason::TerraformTemplate => ("terraform-template", "a template of Terraform"),
            SkipReason::Terraform => ("terraform", "in Terraform's language"),
            SkipReason::Template => ("template", "a template"),
            SkipReason::JinjaTemplate => ("jinja-template", "a template of Jinja"),
            SkipReason::YttTemplate => ("ytt-template", "a template of ytt"),
            SkipReason::Script => ("script", "a script with manifests"),
            SkipReason::Archive => ("archive", "an archive"),
            SkipReason::RemoteBase => {
                ("remote-base", "an entry of a kustomization that is not in the file system")
            }
            SkipReason::Foreign => ("foreign", "not a Kubernetes object"),
            SkipReason::Empty => ("empty", "only comments and separators"),
            SkipReason::NotText => ("not-text", "binary"),
            SkipReason::DanglingLink => ("dangling-link", "a link to what is not there"),
            SkipReason::NotAFile => ("not-a-file", "a pipe, a socket or a device"),
            SkipReason::Config => ("config", "the configuration of gpulint"),
            SkipReason::Ignored => ("ignored", "named by `ignore` of its configuration"),
            SkipReason::TestData => ("test-data", "test data; --no-default-ignore checks it"),
            SkipReason::Archived => ("archived", "out of use, or a backup; --no-default-ignore checks it"),
        }
    }
}

/// Maps each item with `of` on all threads of the pool, in order. If it is called on a thread of the pool,
/// that thread does all the work alone: while waiting it could start a task that waits for this result, which
/// would never end.
fn map_on_all_threads<T: Send, R: Send>(items: Vec<T>, of: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    match rayon::current_thread_index() {
        None => items.into_par_iter().map(of).collect(),
        Some(_) => items.into_iter().map(of).collect(),
    }
}

/// The current folder under the name by which it was entered. Of a folder that a symbolic link leads to, the system tells only
/// the target, and an editor knows only the link.
static ENTERED: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Makes a folder the current one. That of a revision is so only for gpulint.
///
/// # Errors
/// Those of the system.
pub(crate) fn enter(folder: &Path) -> io::Result<()> {
    let folder = absolute(folder);
    if !system::is_in_revision(&folder) {
        std::env::set_current_dir(&folder)?;
    }
    *ENTERED.write().unwrap_or_else(PoisonError::into_inner) = Some(folder);
    Ok(())
}

/// The current folder.
pub(crate) fn here() -> PathBuf {
    let entered = ENTERED.read().unwrap_or_else(PoisonError::into_inner);
    entered.clone().unwrap_or_else(|| std::env::current_dir().unwrap_or_default())
}

/// The absolute path, with `.` and `..` removed without accessing the file system.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let whole = if path.is_absolute() { path.to_owned() } else { here().join(path) };
    let whole = std::path::absolute(&whole).unwrap_or(whole);
    let mut out = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The path with `/` as separator.
pub(crate) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' {
        text.into_owned()
    } else {
        text.replace(std::path::MAIN_SEPARATOR, "/")
    }
}

/// The path relative to the current folder if it is below it, with `/` as separator.
pub(crate) fn short_path(path: &Path) -> String {
    let here = here();
    display_path(path.strip_prefix(here).unwrap_or(path))
}

/// The path of a file relative to a folder, with `/` as separator.
pub(crate) fn relative(folder: &Path, file: &Path) -> String {
    let common = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let mut parts: Vec<String> = folder.components().skip(common).map(|_| "..".to_owned()).collect();
    parts.extend(file.components().skip(common).filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    }));
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::relative;

    #[test]
    fn paths_are_relative_to_a_folder() {
        for (folder, file, path) in [
            ("/a/b", "/a/b/c/d.yaml", "c/d.yaml"),
            ("/a/b", "/a/d.yaml", "../d.yaml"),
            ("/a/b", "/x/d.yaml", "../../x/d.yaml"),
            ("/", "/d.yaml", "d.yaml"),
        ] {
            assert_eq!(relative(Path::new(folder), Path::new(file)), path);
        }
    }
}
