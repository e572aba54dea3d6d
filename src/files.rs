//! Finds files, classifies them, and reads their objects.
//!
//! `walk` finds files, `folders` recognizes charts and kustomizations, `read` parses bytes to objects. Files
//! that are not manifests are skipped with a reason, never with an error.

mod directories;
mod disk;
mod filled;
mod folders;
mod ignores;
mod kustomization;
pub(crate) mod near;
mod read;
pub(crate) mod sets;
mod unapplied;
mod walk;
mod walker;

use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;

pub(crate) use directories::Directories;
pub(crate) use disk::Disk;
pub(crate) use filled::{fills_placeholders, is_script};
pub(crate) use folders::{FileContext, Folders};
pub(crate) use kustomization::{KUSTOMIZATIONS, Kustomization, Patch, patches};
pub(crate) use read::{ReadOutcome, read, read_all, read_bytes};
pub(crate) use walk::{FoundFiles, Input, count_hidden, find};

/// A file or document that was not read as a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    /// The path of the file as reported.
    pub(crate) file: String,
    /// The document; absent for the whole file.
    pub(crate) document: Option<u32>,
    /// The reason.
    pub(crate) reason: SkipReason,
    /// Whether rules that do not depend on absent fields ran nevertheless.
    pub(crate) partial: bool,
}

/// Why a file or document is not a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SkipReason {
    /// A template of a chart, or `{{` that prevents a document from being parsed.
    HelmTemplate,
    /// The values of a chart.
    HelmValues,
    /// A kustomization.
    Kustomization,
    /// A patch of a kustomization.
    KustomizePatch,
    /// A pod template of Spark.
    PodTemplate,
    /// A CustomResourceDefinition.
    Crd,
    /// A template of Terraform that does not parse as YAML.
    TerraformTemplate,
    /// An entry of a kustomization that is not in the file system.
    RemoteBase,
    /// No `kind` and `apiVersion`.
    Foreign,
    /// Only comments and separators.
    Empty,
    /// Binary.
    NotText,
    /// A link whose target does not exist.
    DanglingLink,
    /// A pipe, a socket or a device.
    NotAFile,
    /// The configuration of gpulint.
    Config,
    /// Ignored by the configuration, although it was given as an argument.
    Ignored,
    /// In a folder of tests, below a folder that was given as an argument.
    TestData,
    /// In a folder of what is out of use, or a backup.
    Archived,
}

impl SkipReason {
    /// What it means, for people.
    pub(crate) fn description(self) -> &'static str {
        match self {
            SkipReason::HelmTemplate => "a template of a chart; --render checks what it gives",
            SkipReason::HelmValues => "the values of a chart",
            SkipReason::Kustomization => "a kustomization",
            SkipReason::KustomizePatch => "a patch: only what is there is checked",
            SkipReason::PodTemplate => "a pod template of Spark: only what is there is checked",
            SkipReason::Crd => "a CustomResourceDefinition; --crds checks objects against it",
            SkipReason::TerraformTemplate => "a template of Terraform",
            SkipReason::RemoteBase => "an entry of a kustomization that is not in the file system",
            SkipReason::Foreign => "not a Kubernetes object",
            SkipReason::Empty => "only comments and separators",
            SkipReason::NotText => "binary",
            SkipReason::DanglingLink => "a link to what is not there",
            SkipReason::NotAFile => "a pipe, a socket or a device",
            SkipReason::Config => "the configuration of gpulint",
            SkipReason::Ignored => "named by `ignore` of its configuration",
            SkipReason::TestData => "test data; --no-default-ignore checks it",
            SkipReason::Archived => "out of use, or a backup; --no-default-ignore checks it",
        }
    }

    /// The name used in the JSON report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SkipReason::HelmTemplate => "helm-template",
            SkipReason::HelmValues => "helm-values",
            SkipReason::Kustomization => "kustomization",
            SkipReason::KustomizePatch => "kustomize-patch",
            SkipReason::PodTemplate => "pod-template",
            SkipReason::Crd => "crd",
            SkipReason::TerraformTemplate => "terraform-template",
            SkipReason::RemoteBase => "remote-base",
            SkipReason::Foreign => "foreign",
            SkipReason::Empty => "empty",
            SkipReason::NotText => "not-text",
            SkipReason::DanglingLink => "dangling-link",
            SkipReason::NotAFile => "not-a-file",
            SkipReason::Config => "config",
            SkipReason::Ignored => "ignored",
            SkipReason::TestData => "test-data",
            SkipReason::Archived => "archived",
        }
    }
}

/// What a function gives for each item, in their order, on all threads of the pool. A thread of the pool does all of it
/// alone: while it waited for others it could begin a task that waits for what it is to give.
fn map_on_all_threads<T: Send, R: Send>(items: Vec<T>, of: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    match rayon::current_thread_index() {
        None => items.into_par_iter().map(of).collect(),
        Some(_) => items.into_iter().map(of).collect(),
    }
}

/// The absolute path, with `.` and `..` removed without accessing the file system.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
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

/// The path of a file relative to a folder, `/` between its parts. Both are absolute.
pub(crate) fn relative_path(folder: &Path, file: &Path) -> String {
    for (up, above) in folder.ancestors().enumerate() {
        if let Ok(below) = file.strip_prefix(above) {
            return format!("{}{}", "../".repeat(up), display_path(below));
        }
    }
    display_path(file)
}

/// The path with `/` between its parts.
pub(crate) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' {
        text.into_owned()
    } else {
        text.replace(std::path::MAIN_SEPARATOR, "/")
    }
}

/// The path of a file from a folder on, with `/` between its parts.
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
