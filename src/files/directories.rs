//! What folders contain, each read once: no file is looked for where the names of its folder are known.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::by_path::PathMap;

/// The folders that a walk has read. Of other folders the file system is asked.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    read: PathMap<Directory>,
}

impl Directories {
    /// Adds what a folder contains.
    pub(super) fn add(&mut self, folder: PathBuf, directory: Directory) {
        self.read.insert(folder, directory);
    }

    /// Adds the folders that others have read.
    pub(crate) fn extend(&mut self, others: Directories) {
        self.read.extend(others.read);
    }

    /// The names in a folder, if a walk has read it.
    pub(super) fn known(&self, folder: &Path) -> Option<&Directory> {
        self.read.get(folder)
    }

    /// Whether a folder contains a file of this name, or a link to one.
    pub(crate) fn has_file(&self, folder: &Path, name: &str) -> bool {
        match self.entry_type(folder, name) {
            Known::Type(EntryType::File) => true,
            Known::Type(EntryType::Link) | Known::Unread => folder.join(name).is_file(),
            Known::Type(EntryType::Directory | EntryType::Other) | Known::Absent => false,
        }
    }

    /// Whether it contains a folder of this name, or a link to one.
    pub(crate) fn has_directory(&self, folder: &Path, name: &str) -> bool {
        match self.entry_type(folder, name) {
            Known::Type(EntryType::Directory) => true,
            Known::Type(EntryType::Link) | Known::Unread => folder.join(name).is_dir(),
            Known::Type(EntryType::File | EntryType::Other) | Known::Absent => false,
        }
    }

    /// Whether it contains anything of this name; a link has to lead somewhere.
    pub(crate) fn has(&self, folder: &Path, name: &str) -> bool {
        match self.entry_type(folder, name) {
            Known::Type(EntryType::Link) | Known::Unread => folder.join(name).exists(),
            Known::Type(_) => true,
            Known::Absent => false,
        }
    }

    fn entry_type(&self, folder: &Path, name: &str) -> Known {
        match self.read.get(folder) {
            Some(directory) => directory.entry_type(name).map_or(Known::Absent, Known::Type),
            None => Known::Unread,
        }
    }
}

/// What is known of an entry of a folder.
enum Known {
    Type(EntryType),
    Absent,
    /// The folder was not read.
    Unread,
}

/// The entries of one folder, sorted by name.
#[derive(Debug)]
pub(super) struct Directory {
    entries: Vec<(OsString, EntryType)>,
}

/// What an entry is. A link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryType {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl Directory {
    /// Reads a folder. Entries that cannot be read are left out.
    ///
    /// # Errors
    /// As for [`std::fs::read_dir`].
    pub(super) fn read(folder: &Path) -> io::Result<Directory> {
        let mut entries = read_entries(folder)?;
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Directory { entries })
    }

    /// All entries, sorted by name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&OsStr, EntryType)> {
        self.entries.iter().map(|(name, of)| (name.as_os_str(), *of))
    }

    /// What the entry of a name is; `None` if there is none.
    pub(super) fn entry_type(&self, name: &str) -> Option<EntryType> {
        let at = self.entries.binary_search_by(|(known, _)| known.as_os_str().cmp(OsStr::new(name))).ok()?;
        Some(self.entries[at].1)
    }
}

/// The entries of a folder, in any order: by one system call for as many as fit into a buffer that a thread keeps.
#[cfg(target_os = "linux")]
fn read_entries(folder: &Path) -> io::Result<Vec<(OsString, EntryType)>> {
    use std::cell::RefCell;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, openat};

    const BUFFER_BYTES: usize = 32 * 1024;
    thread_local! {
        static BUFFER: RefCell<Vec<MaybeUninit<u8>>> =
            RefCell::new(vec![MaybeUninit::uninit(); BUFFER_BYTES]);
    }
    let opened = openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    BUFFER.with_borrow_mut(|buffer| {
        let mut found = RawDir::new(&opened, buffer);
        let mut entries = Vec::new();
        while let Some(entry) = found.next() {
            // An entry that cannot be read is the last one.
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let of = match entry.file_type() {
                FileType::RegularFile => EntryType::File,
                FileType::Directory => EntryType::Directory,
                FileType::Symlink => EntryType::Link,
                // Not every file system says it.
                FileType::Unknown => match std::fs::symlink_metadata(folder.join(name)) {
                    Ok(data) => data.file_type().into(),
                    Err(_) => continue,
                },
                _ => EntryType::Other,
            };
            entries.push((name.to_owned(), of));
        }
        Ok(entries)
    })
}

#[cfg(not(target_os = "linux"))]
fn read_entries(folder: &Path) -> io::Result<Vec<(OsString, EntryType)>> {
    let entries = std::fs::read_dir(folder)?.flatten();
    let typed = |entry: std::fs::DirEntry| Some((entry.file_name(), entry.file_type().ok()?.into()));
    Ok(entries.filter_map(typed).collect())
}

impl From<std::fs::FileType> for EntryType {
    fn from(of: std::fs::FileType) -> EntryType {
        if of.is_file() {
            EntryType::File
        } else if of.is_dir() {
            EntryType::Directory
        } else if of.is_symlink() {
            EntryType::Link
        } else {
            EntryType::Other
        }
    }
}
