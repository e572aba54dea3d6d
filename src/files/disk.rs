//! The content of files, where the buffers of an editor replace the files on disk.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::outcome::KnownFiles;
use super::system;

/// Maximum size in bytes of a file that is read for what it shows of others.
pub(super) const MAX_SMALL_BYTES: u64 = 1024 * 1024;

/// Reads files. The text of an open buffer replaces the file of its path. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    buffers: Arc<HashMap<PathBuf, Arc<str>>>,
    known: Option<Arc<KnownFiles>>,
}

impl Disk {
    /// These files, where those that are known are not read again.
    pub(crate) fn with_known(&self, known: &Arc<KnownFiles>) -> Disk {
        Disk { known: Some(Arc::clone(known)), ..self.clone() }
    }

    pub(super) fn known(&self) -> Option<&KnownFiles> {
        self.known.as_deref()
    }

    /// Sets or removes the buffer for the file with this absolute path.
    pub(crate) fn put(&mut self, path: &Path, text: Option<Arc<str>>) {
        let buffers = Arc::make_mut(&mut self.buffers);
        match text {
            Some(text) => _ = buffers.insert(path.to_owned(), text),
            None => _ = buffers.remove(path),
        }
    }

    /// The text of the buffer with this absolute path.
    pub(crate) fn buffer(&self, path: &Path) -> Option<&Arc<str>> {
        self.buffers.get(path)
    }

    /// The absolute paths of the buffers whose files do not exist.
    pub(crate) fn unsaved(&self) -> Vec<PathBuf> {
        self.buffers.keys().filter(|path| !path.exists()).cloned().collect()
    }

    /// The content of the file with this absolute path.
    ///
    /// Returns the error of [`std::fs::read`].
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.buffers.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => system::read(path),
        }
    }

    /// The content of the file with this absolute path, as text.
    ///
    /// # Errors
    /// Returns the error of [`std::fs::read_to_string`].
    pub(crate) fn read_to_string(&self, path: &Path) -> io::Result<String> {
        match self.buffers.get(path) {
            Some(text) => Ok(text.to_string()),
            None => system::read_to_string(path),
        }
    }

    /// The text of the file with this absolute path, if it is at most [`MAX_SMALL_BYTES`] long and can be read.
    pub(crate) fn read_small(&self, path: &Path) -> Option<String> {
        match self.buffers.get(path) {
            Some(text) => Some(text.to_string()),
            None => String::from_utf8(system::read_up_to(path, MAX_SMALL_BYTES).ok()??).ok(),
        }
    }
}
