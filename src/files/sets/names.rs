//! The names of sets.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SetName {
    /// A name that is used as it is.
    Fixed(String),
    /// The name of a folder: as many of the last parts of its path as are needed to make it unique.
    Folder(PathBuf),
}

/// Names of folders that describe their content, not a cluster.
const TOOLS: &[&str] = &["flux-system", "flux", "argocd", "argo-cd", "argo", "gotk", "config", "cluster"];

/// The folder, or the nearest one above it that is not named after a tool.
pub(super) fn without_tools(folder: &Path) -> &Path {
    let is_tool = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        TOOLS.contains(&&*name)
    };
    folder.ancestors().find(|folder| !is_tool(folder)).unwrap_or(folder)
}

pub(super) fn unique<'n>(names: impl Iterator<Item = &'n SetName>) -> Vec<String> {
    let names: Vec<&SetName> = names.collect();
    let mut lengths = vec![1; names.len()];
    loop {
        let mut out: Vec<String> =
            names.iter().zip(&lengths).map(|(name, length)| text(name, *length)).collect();
        // Sets with the same folder cannot be told apart by it.
        let mut others: BTreeMap<&str, Vec<&SetName>> = BTreeMap::new();
        for (name, text) in names.iter().zip(&out) {
            let same = others.entry(text).or_default();
            if !same.contains(name) {
                same.push(name);
            }
        }
        let is_longer = |at: usize| text(names[at], lengths[at] + 1) != out[at];
        let longer: Vec<usize> =
            (0..names.len()).filter(|at| others[out[*at].as_str()].len() > 1 && is_longer(*at)).collect();
        if longer.is_empty() {
            number_equal_names(&mut out);
            return out;
        }
        longer.into_iter().for_each(|at| lengths[at] += 1);
    }
}

fn text(name: &SetName, length: usize) -> String {
    match name {
        SetName::Fixed(name) => name.clone(),
        SetName::Folder(folder) => {
            let parts = folder.components().filter(|part| matches!(part, Component::Normal(_)));
            let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
            parts[parts.len().saturating_sub(length)..].join("/")
        }
    }
}

fn number_equal_names(names: &mut [String]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name.push_str(&format!("-{count}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{SetName, unique, without_tools};

    #[test]
    fn names_are_as_short_as_they_are_different() {
        let folder = |path: &str| SetName::Folder(PathBuf::from(path));
        let fixed = |name: &str| SetName::Fixed(name.to_owned());
        let names = [
            folder("/r/a/prod"),
            folder("/r/b/prod"),
            folder("/r/a/dev"),
            fixed("test"),
            fixed("test"),
            folder("/r/x"),
            folder("/r/x"),
        ];
        assert_eq!(unique(names.iter()), ["a/prod", "b/prod", "dev", "test", "test-2", "x", "x-2"]);
    }

    #[test]
    fn folders_of_tools_are_left_out() {
        assert_eq!(without_tools(Path::new("/r/clusters/prod/flux-system")), Path::new("/r/clusters/prod"));
        assert_eq!(
            without_tools(Path::new("/r/kubernetes/edge/flux/config")),
            Path::new("/r/kubernetes/edge")
        );
        assert_eq!(without_tools(Path::new("/r/clusters/flux/prod")), Path::new("/r/clusters/flux/prod"));
    }
}
