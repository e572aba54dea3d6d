//! The files on disk, below the texts that an editor has open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// What files contain: the text of an open buffer in the place of the file of that path. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    buffers: Arc<HashMap<PathBuf, Arc<str>>>,
}

impl Disk {
    /// Puts the text of a buffer in the place of the file with this absolute path, or removes it.
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

    /// The content of the file with this absolute path.
    ///
    /// # Errors
    /// As for [`fs::read`].
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.buffers.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => fs::read(path),
        }
    }

    /// The same as text.
    ///
    /// # Errors
    /// As for [`fs::read_to_string`].
    pub(crate) fn read_to_string(&self, path: &Path) -> io::Result<String> {
        match self.buffers.get(path) {
            Some(text) => Ok(text.to_string()),
            None => fs::read_to_string(path),
        }
    }
}
