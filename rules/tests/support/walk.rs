//! Walking the fixtures, in one order everywhere.

#![allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "not every test uses all of it, and tests read files"
)]

use std::path::{Path, PathBuf};

/// What a folder holds.
pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a folder can be read").path())
        .collect();
    out.sort();
    out
}

/// The YAML files of a folder and of all folders below it.
pub(crate) fn yaml_below(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for path in children(folder) {
        if path.is_dir() {
            out.extend(yaml_below(&path));
        } else if path.extension().is_some_and(|e| e == "yaml") {
            out.push(path);
        }
    }
    out
}
