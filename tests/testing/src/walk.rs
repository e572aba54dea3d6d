//! Lists the files of the fixtures in a fixed order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder `fixtures` of the repository.
pub fn fixtures() -> PathBuf {
    root().join("fixtures")
}

pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// A path from the root of the repository, with `/` on every system.
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// The entries of a folder, sorted by name.
///
/// # Panics
/// If the folder cannot be read.
#[track_caller]
pub fn children(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a folder can be read").path())
        .collect();
    out.sort();
    out
}

/// The YAML files of a folder and of all folders below it, in the order of [`children`].
///
/// # Panics
/// If one of the folders cannot be read.
#[track_caller]
pub fn yaml_below(folder: &Path) -> Vec<PathBuf> {
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

/// Whether tests check all fixtures: `FULL` is in the environment.
pub fn is_full() -> bool {
    std::env::var_os("FULL").is_some()
}

/// A number below `count` for a path, by its last two parts alone: a test that does a part of its work on each fixture, or all of
/// it on a part of them, chooses by it, so that a new fixture does not change what is tested with the others.
pub fn lot(path: &Path, count: u32) -> u32 {
    let steps: Vec<_> = path.iter().rev().take(2).map(|step| step.to_string_lossy()).collect();
    let hash = steps.join("/").bytes().fold(0u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    hash % count
}

/// Of the fixtures of each rule the first in which it fires and the first in which it is silent, and every other file;
/// with `FULL` in the environment all files. For tests that check each fixture many times: each of them takes two minutes
/// of processor time for the 2,900 fixtures of rules, and a quarter of it for these.
pub fn sampled(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if is_full() {
        return files;
    }
    let rules = fixtures().join("rules");
    let mut seen = BTreeSet::new();
    let is_first = |path: &PathBuf| {
        let Some(of_rules) = path.strip_prefix(&rules).ok() else { return true };
        let fires = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("fires"));
        seen.insert((of_rules.iter().next().map(ToOwned::to_owned), fires))
    };
    files.into_iter().filter(is_first).collect()
}
