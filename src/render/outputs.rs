//! The outputs of programs, kept by the content of what they read: a program does not run again for what is as it was.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::process::Failure;

/// Maximum number of files below a folder that are read to find out whether it is as it was.
const MAX_FILES: usize = 10_000;

type Output = Result<Vec<u8>, Failure>;

/// The outputs of one run, for the next one. Those that the next one does not use are given up.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    before: BTreeMap<Key, Output>,
    now: Mutex<BTreeMap<Key, Output>>,
}

impl Outputs {
    /// What a run has left.
    pub(crate) fn after(self) -> Outputs {
        let before = self.now.into_inner().unwrap_or_else(PoisonError::into_inner);
        Outputs { before, now: Mutex::default() }
    }

    /// The output for a key. The program runs if it is not known.
    pub(super) fn get(&self, key: Option<Key>, run: impl FnOnce() -> Output) -> Output {
        let Some(key) = key else { return run() };
        let output = match self.before.get(&key) {
            Some(output) => output.clone(),
            None => run(),
        };
        // A program that is installed later, or has more time, succeeds on what is as it was.
        if !matches!(output, Err(Failure::Missing | Failure::TooSlow(_))) {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            now.insert(key, output.clone());
        }
        output
    }
}

/// A hash of what a program reads: its arguments, and the content of files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// Makes a key.
#[derive(Default)]
pub(super) struct Reads {
    hash: DefaultHasher,
    files: usize,
}

impl Reads {
    pub(super) fn word(&mut self, word: impl Hash) {
        word.hash(&mut self.hash);
    }

    /// Adds the content of a file. A file that does not exist is a content of its own.
    pub(super) fn file(&mut self, path: &Path) {
        fs::read(path).ok().hash(&mut self.hash);
    }

    /// Adds the content of all files below a folder.
    pub(super) fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries.into_iter().filter(|entry| entry.file_name() != ".git") {
            self.files += 1;
            if self.files > MAX_FILES {
                return Err(io::Error::other("too many files"));
            }
            entry.file_name().hash(&mut self.hash);
            let path = entry.path();
            // A link may lead to a folder above it.
            match path.is_dir() {
                true if entry.file_type()?.is_symlink() => {
                    return Err(io::Error::other("a link to a folder"));
                }
                true => self.folder(&path)?,
                false => self.file(&path),
            }
        }
        self.word("end of the folder");
        Ok(())
    }

    pub(super) fn key(self) -> Key {
        Key(self.hash.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::time::Duration;

    use super::super::process::{Failure, TempFolder};
    use super::{Key, Outputs, Reads};

    fn key_of(folder: &TempFolder) -> Key {
        let mut reads = Reads::default();
        reads.word("template");
        reads.folder(folder.path()).expect("the folder can be read");
        reads.key()
    }

    #[test]
    fn a_program_runs_again_only_for_other_content() {
        let folder = TempFolder::new().expect("the folder of temporary files can be written");
        let runs = Cell::new(0);
        let run = |outputs: &Outputs| {
            outputs.get(Some(key_of(&folder)), || {
                runs.set(runs.get() + 1);
                Ok(Vec::new())
            })
        };
        let write =
            |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it can be written");
        write("a.yaml", "1");
        let mut outputs = Outputs::default();
        let mut expected = 0;
        for (name, text, is_other) in
            [("a.yaml", "1", true), ("a.yaml", "1", false), ("a.yaml", "2", true), ("b.yaml", "2", true)]
        {
            write(name, text);
            run(&outputs).expect("it succeeds");
            expected += usize::from(is_other);
            assert_eq!(runs.get(), expected, "{name} {text}");
            outputs = outputs.after();
        }
        // What a run did not use is not kept.
        outputs = outputs.after();
        run(&outputs).expect("it succeeds");
        assert_eq!(runs.get(), expected + 1);
    }

    #[test]
    fn a_failure_is_kept_if_it_is_one_of_the_content() {
        let key = || Some(Reads::default().key());
        let failed = Failure::Failed("no template".to_owned());
        for (failure, is_kept) in
            [(failed, true), (Failure::Missing, false), (Failure::TooSlow(Duration::from_secs(1)), false)]
        {
            let outputs = Outputs::default();
            assert_eq!(outputs.get(key(), || Err(failure.clone())), Err(failure.clone()));
            let outputs = outputs.after();
            let again = outputs.get(key(), || Ok(Vec::new()));
            assert_eq!(again.is_err(), is_kept, "{failure:?}");
        }
    }
}
