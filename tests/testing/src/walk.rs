//! Lists the files of the fixtures in a fixed order.

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
