//! Which files there are, what class each is of, and what they hold.
//!
//! `walk` finds them, `folders` knows charts and kustomizations, `read` turns bytes into objects.
//! What is no manifest is skipped with a reason, never with an error.

mod folders;
mod kustomization;
mod read;
mod walk;

use std::path::{Component, Path, PathBuf};

pub(crate) use folders::Folders;
pub(crate) use read::{ReadOutcome, read, read_bytes};
pub(crate) use walk::{FoundFiles, Input, find};

/// A file or document that was not read as a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    /// The file, as it is reported.
    pub(crate) file: String,
    /// The document; absent for the whole file.
    pub(crate) document: Option<u32>,
    /// Why.
    pub(crate) reason: SkipReason,
    /// Whether rules that need no absent field ran nevertheless.
    pub(crate) partial: bool,
}

/// Why something is no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SkipReason {
    /// A chart's template, or `{{` that keeps a document from being parsed.
    HelmTemplate,
    /// A chart's values.
    HelmValues,
    /// A kustomization.
    Kustomization,
    /// A kustomization's patch.
    KustomizePatch,
    /// A pod template of Spark's.
    PodTemplate,
    /// A CustomResourceDefinition.
    Crd,
    /// No `kind` and `apiVersion`.
    Foreign,
    /// Nothing but comments and separators.
    Empty,
    /// Binary.
    NotText,
    /// A link to what is not there.
    DanglingLink,
    /// A pipe, a socket or a device.
    NotAFile,
    /// gpulint's own configuration.
    Config,
    /// Ignored by the configuration, although it was named.
    Ignored,
}

impl SkipReason {
    /// As the JSON report says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SkipReason::HelmTemplate => "helm-template",
            SkipReason::HelmValues => "helm-values",
            SkipReason::Kustomization => "kustomization",
            SkipReason::KustomizePatch => "kustomize-patch",
            SkipReason::PodTemplate => "pod-template",
            SkipReason::Crd => "crd",
            SkipReason::Foreign => "foreign",
            SkipReason::Empty => "empty",
            SkipReason::NotText => "not-text",
            SkipReason::DanglingLink => "dangling-link",
            SkipReason::NotAFile => "not-a-file",
            SkipReason::Config => "config",
            SkipReason::Ignored => "ignored",
        }
    }
}

/// The path from the root, `.` and `..` taken out without asking the disk.
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

/// The path with `/` between its parts.
pub(crate) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' {
        text.into_owned()
    } else {
        text.replace(std::path::MAIN_SEPARATOR, "/")
    }
}
