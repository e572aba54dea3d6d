//! Manifests of a repository that are not applied to a cluster: test data, archives and backups.
//!
//! Only names below a given folder count: a file that is named on the command line is checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Directories, SkipReason};

/// Folders of test data. `testdata` is the convention of the Go toolchain, which ignores it as well. Exploits and invalid objects are
/// those that a controller has to reject: a finding says what their author wants.
const TEST_DATA: &[&str] = &[
    "testdata",
    "test-data",
    "test_data",
    "__tests__",
    "__fixtures__",
    "exploits",
    "invalid",
    "should-fail",
];

/// Folders of tests beside the sources of a program. Elsewhere `test` is an environment.
const TESTS: &[&str] = &["test", "tests", "e2e"];

/// Folders of tests of policies, by the conventions of Kyverno and Chainsaw.
const POLICY_TESTS: &[&str] = &[".chainsaw-test", ".kyverno-test"];

/// Files that define a test of policies: what is beside them is its input, which policies have to reject as well.
const POLICY_TEST_FILES: &[&str] = &["chainsaw-test.yaml", "kyverno-test.yaml"];

/// The ends of the names of files with what a test expects in the cluster, by the conventions of Chainsaw and KUTTL.
const EXPECTED: &[&str] = &["-assert", "-error", "-errors"];

/// Files that mark a folder with the sources of a program.
const PROGRAMS: &[&str] = &[
    "go.mod",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
];

/// Folders that show that a `test` beside them is an environment.
const ENVIRONMENTS: &[&str] = &["dev", "development", "prod", "production", "stage", "staging", "prd", "stg"];

/// Folders of archived files; a leading `_` or `.` is ignored.
const ARCHIVES: &[&str] = &[
    "archive",
    "archived",
    "archives",
    "attic",
    "backup",
    "backups",
    "decommissioned",
    "deprecated",
    "disabled",
    "graveyard",
    "obsolete",
    "old",
    "retired",
    "unused",
];

/// Suffixes of the names of backups, before the extension.
const BACKUPS: &[&str] = &[".backup", ".bak", ".disabled", ".old", ".orig"];

/// The folders below one root, and the reasons why files in them are not applied.
pub(super) struct Unapplied<'r> {
    root: &'r Path,
    folders: HashMap<PathBuf, Option<SkipReason>>,
}

impl<'r> Unapplied<'r> {
    pub(super) fn below(root: &'r Path) -> Unapplied<'r> {
        Unapplied { root, folders: HashMap::new() }
    }

    /// The reason why a file below the root is not applied; `None` if there is none.
    pub(super) fn reason(&mut self, file: &Path, directories: &Directories) -> Option<SkipReason> {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if BACKUPS.iter().any(|ending| stem.ends_with(ending)) {
            return Some(SkipReason::Archived);
        }
        let folder = file.parent()?;
        if is_expected(&stem, folder, directories) {
            return Some(SkipReason::TestData);
        }
        self.folder(folder, directories)
    }

    fn folder(&mut self, folder: &Path, directories: &Directories) -> Option<SkipReason> {
        if let Some(known) = self.folders.get(folder) {
            return *known;
        }
        if folder == self.root || !folder.starts_with(self.root) {
            return None;
        }
        let above = folder.parent()?;
        let name = folder.file_name()?.to_string_lossy().to_ascii_lowercase();
        let reason = self.folder(above, directories).or_else(|| by_name(above, folder, &name, directories));
        self.folders.insert(folder.to_owned(), reason);
        reason
    }
}

/// Whether a file has what a test expects: it is beside a test, or has the number of a step.
fn is_expected(stem: &str, folder: &Path, directories: &Directories) -> bool {
    let Some(step) = EXPECTED.iter().find_map(|end| stem.strip_suffix(end)) else { return false };
    let is_number = !step.is_empty() && step.chars().all(|c| c.is_ascii_digit());
    is_number || POLICY_TEST_FILES.iter().any(|file| directories.has(folder, file))
}

fn by_name(above: &Path, folder: &Path, name: &str, directories: &Directories) -> Option<SkipReason> {
    if ARCHIVES.contains(&name.trim_start_matches(['_', '.'])) {
        return Some(SkipReason::Archived);
    }
    let has_test = |folder: &Path| POLICY_TEST_FILES.iter().any(|file| directories.has(folder, file));
    let test = TEST_DATA.contains(&name)
        || name.starts_with("invalid-")
        || name.starts_with("invalid_")
        || POLICY_TESTS.contains(&name)
        || TESTS.contains(&name) && is_program(above, directories)
        || has_test(folder);
    test.then_some(SkipReason::TestData)
}

/// Whether a folder contains the sources of a program, and no environments beside them.
fn is_program(folder: &Path, directories: &Directories) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| directories.has(folder, name));
    let sources = || folder.file_name().is_some_and(|name| name == "src");
    (has(PROGRAMS) || sources()) && !has(ENVIRONMENTS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Directories, SkipReason, Unapplied};

    #[test]
    fn names_below_the_root_count() {
        let mut below = Unapplied::below(Path::new("archive/x"));
        let mut reason =
            |path: &str| below.reason(&Path::new("archive/x").join(path), &Directories::default());
        for path in [
            "pool.yaml",
            "apps/archiver/pool.yaml",
            "clusters/test/pool.yaml",
            "bold.yaml",
            "policies/job-assert.yaml",
            "test/e2e/a.yaml",
        ] {
            assert_eq!(reason(path), None, "{path}");
        }
        for path in
            ["_archived/a/pool.yaml", "apps/Archive/pool.yaml", "a/.deprecated/b.yaml", "pool.bak.yaml"]
        {
            assert_eq!(reason(path), Some(SkipReason::Archived), "{path}");
        }
        for path in [
            "testdata/pool.yaml",
            "pkg/a/testdata/b/pool.yaml",
            "src/test/resources/a.yaml",
            "redteam/exploits/a/b.yaml",
            "samples/invalid/a.yaml",
            "example/invalid_jobs/a.yaml",
            "e2e/scale/01-assert.yaml",
        ] {
            assert_eq!(reason(path), Some(SkipReason::TestData), "{path}");
        }
    }
}
