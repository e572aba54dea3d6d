//! The ignore files of a folder and of those above it: `.ignore`, `.gitignore` and `.git/info/exclude`.
//!
//! The patterns have the syntax of the `ignore` crate, and the precedence is that of its walk: `.ignore`
//! precedes `.gitignore`, which precedes `.git/info/exclude`; of each kind, the nearest file with a matching
//! pattern decides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::system;

const IGNORE: &str = ".ignore";
const GIT_IGNORE: &str = ".gitignore";
const GIT: &str = ".git";

#[derive(Clone, Debug, Default)]
pub(super) struct Ignores {
    nearest: Option<Arc<FolderIgnores>>,
}

#[derive(Debug)]
struct FolderIgnores {
    /// The files in order of precedence; `None` for those that do not exist.
    files: [Option<Gitignore>; 3],
    above: Ignores,
}

impl Ignores {
    /// The ignore files of the folders above one, given its absolute path.
    pub(super) fn above(root: &Path) -> Ignores {
        let above: Vec<&Path> = root.ancestors().skip(1).collect();
        let none = Ignores::default();
        above.into_iter().rev().fold(none, |ignores, folder| {
            ignores.with_folder(folder, |name| system::own_type(&folder.join(name)).is_ok())
        })
    }

    /// Adds the ignore files of a folder below, given its absolute path and the names in it.
    pub(super) fn with_folder(&self, folder: &Path, has: impl Fn(&str) -> bool) -> Ignores {
        let read = |path: PathBuf| read_patterns(folder, &path);
        let files = [
            has(IGNORE).then(|| read(folder.join(IGNORE))).flatten(),
            has(GIT_IGNORE).then(|| read(folder.join(GIT_IGNORE))).flatten(),
            has(GIT).then(|| read(git_folder(&folder.join(GIT))?.join("info/exclude"))).flatten(),
        ];
        if files.iter().all(Option::is_none) {
            return self.clone();
        }
        Ignores { nearest: Some(Arc::new(FolderIgnores { files, above: self.clone() })) }
    }

    /// Whether a file or folder of the folder is ignored, given its absolute path.
    pub(super) fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let mut matched = [Match::None, Match::None, Match::None];
        let mut next = self.nearest.as_deref();
        while let Some(folder) = next {
            for (matched, file) in matched.iter_mut().zip(&folder.files) {
                if let Some(file) = file.as_ref().filter(|_| matched.is_none()) {
                    *matched = file.matched(path, is_folder).map(|_| ());
                }
            }
            next = folder.above.nearest.as_deref();
        }
        matched.iter().find(|matched| !matched.is_none()).is_some_and(Match::is_ignore)
    }
}

/// Whether Git ignores a file, which need not be there, or a folder above it.
pub(crate) fn is_ignored_by_git(path: &Path) -> bool {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    let mut ignores = Ignores::default();
    above.windows(2).any(|pair| {
        let (folder, at) = (pair[0], pair[1]);
        ignores = ignores.with_folder(folder, |name| system::own_type(&folder.join(name)).is_ok());
        ignores.is_ignored(at, at != path)
    })
}

/// The patterns of an ignore file. A pattern or a file that cannot be read is left out.
fn read_patterns(folder: &Path, file: &Path) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    if system::is_in_revision(file) {
        for line in system::read_to_string(file).ok()?.lines() {
            let _ = builder.add_line(Some(file.to_owned()), line.trim_start_matches('\u{feff}'));
        }
    } else {
        let _ = builder.add(file);
    }
    builder.build().ok().filter(|patterns| !patterns.is_empty())
}

/// The folder with the files of a repository itself, given the path of its `.git`, which names another folder
/// in a work tree.
fn git_folder(git: &Path) -> Option<PathBuf> {
    if !system::is_file(git) {
        return Some(git.to_owned());
    }
    let text = system::read_to_string(git).ok()?;
    let named = text.lines().next()?.strip_prefix("gitdir: ")?;
    let own = git.parent()?.join(named);
    let common = system::read_to_string(&own.join("commondir")).ok()?;
    Some(own.join(common.lines().next()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use gpulint_testing::Dice;
    use ignore::WalkBuilder;

    use super::super::directories::Directories;
    use super::super::walker::Walk;

    const NAMES: [&str; 7] = ["a", "b", "build", "prod.yaml", "a.yaml", "c.json", ".hidden"];
    const PATTERNS: [&str; 24] = [
        "a",
        "/a",
        "a/",
        "b/a.yaml",
        "*.yaml",
        "!a.yaml",
        "!prod.yaml",
        "**/build/",
        "build/*",
        "/b/**",
        "!/b/c.json",
        "[ab]",
        "*.{yaml,json}",
        "**/a",
        "b*",
        "!b/*.yaml",
        "#a",
        "\\a",
        "build/ ",
        "prod*",
        "/b/a*",
        "!bu*/",
        "p{rod,}*",
        "a*[bn]",
    ];

    fn fill(folder: &Path, depth: usize, dice: &mut Dice) {
        for name in [".ignore", ".gitignore"] {
            if dice.below(4) == 0 {
                let lines: Vec<&str> = (0..=dice.below(3)).map(|_| *dice.one(&PATTERNS)).collect();
                fs::write(folder.join(name), lines.join("\n")).unwrap();
            }
        }
        if dice.below(6) == 0 {
            fs::create_dir_all(folder.join(".git/info")).unwrap();
            fs::write(folder.join(".git/info/exclude"), *dice.one(&PATTERNS)).unwrap();
        }
        for name in NAMES {
            let path = folder.join(name);
            if dice.below(2) == 0 {
                continue;
            }
            if name.contains('.') && name != ".hidden" {
                fs::write(path, "").unwrap();
            } else if depth < 4 {
                fs::create_dir(&path).unwrap();
                fill(&path, depth + 1, dice);
            }
        }
    }

    #[test]
    fn the_walk_finds_what_that_of_the_ignore_crate_finds() {
        for seed in 0..10 {
            let folder = std::env::temp_dir().join(format!("gpulint-ignores-{}-{seed}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            let mut dice = Dice(seed);
            fill(&folder, 0, &mut dice);
            for root in [folder.clone(), folder.join("a")] {
                if !root.is_dir() {
                    continue;
                }
                let mut walker = WalkBuilder::new(&root);
                walker.hidden(false).require_git(false).git_global(false);
                walker.filter_entry(|entry| entry.file_name() != ".git");
                let theirs = walker.build().map(Result::unwrap);
                let theirs: BTreeSet<PathBuf> = theirs
                    .filter(|entry| entry.file_type().is_some_and(|of| of.is_file()))
                    .map(|entry| entry.into_path())
                    .collect();
                let known = Directories::default();
                let ours = Walk { known: &known, is_filtered: true, limit: usize::MAX }.run(&root, |_| true);
                let ours: BTreeSet<PathBuf> = ours.entries.into_iter().map(|entry| entry.path).collect();
                assert_eq!(ours, theirs, "seed {seed}, {}", root.display());
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
