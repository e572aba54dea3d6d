//! The ignore files of a folder and of those above it: `.ignore`, `.gitignore` and `.git/info/exclude`.
//!
//! The patterns are those of the `ignore` crate, and the order is that of its walk: `.ignore` counts before
//! `.gitignore`, and that before `.git/info/exclude`; of each, the nearest file with a matching pattern.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use memchr::memmem;

/// The names that are looked for in each folder.
const IGNORE: &str = ".ignore";
const GIT_IGNORE: &str = ".gitignore";
const GIT: &str = ".git";

/// The ignore files that count in a folder. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Ignores {
    nearest: Option<Arc<FolderIgnores>>,
}

/// Those of one folder.
#[derive(Debug)]
struct FolderIgnores {
    /// In order of precedence; `None` where there is no file.
    files: [Option<IgnoreFile>; 3],
    above: Ignores,
}

/// An ignore file.
#[derive(Debug)]
struct IgnoreFile {
    folder: PathBuf,
    /// Its patterns, the last one first: it decides.
    patterns: Vec<Pattern>,
}

/// One line of an ignore file. Compiling all of them costs more than reading the folder, and most can match few paths:
/// a line is compiled when such a path is asked for.
#[derive(Debug)]
struct Pattern {
    line: String,
    /// What every path that matches has, if it is certain.
    sign: Option<Sign>,
    compiled: OnceLock<Gitignore>,
}

/// Where in its line the text is that every path has which the pattern matches.
#[derive(Clone, Debug)]
enum Sign {
    /// The name ends in it.
    Ending(Range<usize>),
    /// The path has it.
    Part(Range<usize>),
}

impl IgnoreFile {
    fn read(folder: &Path, path: &Path) -> Option<IgnoreFile> {
        // A pattern that cannot be read is left out, as is a file.
        let text = fs::read(path).ok()?;
        let lines = text.split(|byte| *byte == b'\n').map_while(|line| std::str::from_utf8(line).ok());
        // A byte order mark is none of the first pattern.
        let lines = lines.enumerate().map(|(number, line)| match number {
            0 => line.trim_start_matches('\u{feff}'),
            _ => line,
        });
        let lines = lines.map(|line| line.trim_end_matches('\r'));
        let lines = lines.filter(|line| !line.trim_end().is_empty() && !line.starts_with('#'));
        let mut patterns: Vec<Pattern> = lines.map(Pattern::new).collect();
        patterns.reverse();
        (!patterns.is_empty()).then(|| IgnoreFile { folder: folder.to_owned(), patterns })
    }

    fn matched(&self, path: &Path, is_folder: bool) -> Match<()> {
        let below = path.as_os_str().as_encoded_bytes();
        let below = below.get(self.folder.as_os_str().len()..).unwrap_or(below);
        let matches = self.patterns.iter().filter(|pattern| pattern.may_match(below));
        let mut matches = matches.map(|pattern| pattern.matched(&self.folder, path, is_folder));
        matches.find(|matched| !matched.is_none()).unwrap_or(Match::None)
    }
}

impl Pattern {
    fn new(line: &str) -> Pattern {
        Pattern { line: line.to_owned(), sign: Sign::of(line), compiled: OnceLock::new() }
    }

    /// Whether it may match the path of a file or folder, given what is below the folder of the ignore file.
    fn may_match(&self, path: &[u8]) -> bool {
        match &self.sign {
            None => true,
            Some(Sign::Ending(at)) => path.ends_with(&self.line.as_bytes()[at.clone()]),
            Some(Sign::Part(at)) => memmem::find(path, &self.line.as_bytes()[at.clone()]).is_some(),
        }
    }

    fn matched(&self, folder: &Path, path: &Path, is_folder: bool) -> Match<()> {
        let compiled = self.compiled.get_or_init(|| {
            let mut builder = GitignoreBuilder::new(folder);
            let _ = builder.add_line(None, &self.line);
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        });
        compiled.matched(path, is_folder).map(|_| ())
    }
}

impl Sign {
    fn of(line: &str) -> Option<Sign> {
        if line.contains('\\') {
            return None;
        }
        let pattern = line.trim_end().trim_end_matches('/');
        let wild = ['/', '*', '?', '[', ']', '{', '}', '!', ','];
        let from = pattern.rfind(wild).map_or(0, |at| at + 1);
        if from < pattern.len() {
            return Some(Sign::Ending(from..pattern.len()));
        }
        // Nothing in brackets or braces is certain.
        let certain = &pattern[..pattern.find(['[', '{']).unwrap_or(pattern.len())];
        let parts = certain.split(wild).max_by_key(|part| part.len()).filter(|part| !part.is_empty())?;
        let from = parts.as_ptr().addr() - line.as_ptr().addr();
        Some(Sign::Part(from..from + parts.len()))
    }
}

impl Ignores {
    /// Those of the folders above one, given its absolute path.
    pub(super) fn above(root: &Path) -> Ignores {
        let above: Vec<&Path> = root.ancestors().skip(1).collect();
        let none = Ignores::default();
        above.into_iter().rev().fold(none, |ignores, folder| {
            ignores.with_folder(folder, |name| fs::symlink_metadata(folder.join(name)).is_ok())
        })
    }

    /// These and those of a folder below, given its absolute path and the names in it.
    pub(super) fn with_folder(&self, folder: &Path, has: impl Fn(&str) -> bool) -> Ignores {
        let read = |path: PathBuf| IgnoreFile::read(folder, &path);
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
                    *matched = file.matched(path, is_folder);
                }
            }
            next = folder.above.nearest.as_deref();
        }
        matched.iter().find(|matched| !matched.is_none()).is_some_and(Match::is_ignore)
    }
}

/// The folder of a repository's own files, given the path of its `.git`, which names another folder in a work tree.
fn git_folder(git: &Path) -> Option<PathBuf> {
    if !git.is_file() {
        return Some(git.to_owned());
    }
    let text = fs::read_to_string(git).ok()?;
    let named = text.lines().next()?.strip_prefix("gitdir: ")?;
    let own = git.parent()?.join(named);
    let common = fs::read_to_string(own.join("commondir")).ok()?;
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
        for seed in 0..120 {
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
