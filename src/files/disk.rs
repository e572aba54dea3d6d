//! The content of files, where the buffers of an editor replace the files on disk.

use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads files. The text of an open buffer replaces the file of its path. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    buffers: Arc<HashMap<PathBuf, Arc<str>>>,
}

impl Disk {
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
            None => fs::read(path),
        }
    }

    /// The content of the file with this absolute path, as text.
    ///
    /// # Errors
    /// Returns the error of [`std::fs::read_to_string`].
    pub(crate) fn read_to_string(&self, path: &Path) -> io::Result<String> {
        match self.buffers.get(path) {
            Some(text) => Ok(text.to_string()),
            None => fs::read_to_string(path),
        }
    }
}

/// The content of a file; `None` if it has more bytes than `limit`.
///
/// Returns the error of [`std::fs::read`].
pub(super) fn read_up_to(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    // The size of a pipe is unknown.
    let size = file.metadata()?.len().min(limit);
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= limit).then_some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_all_sizes_are_read_whole_up_to_the_limit() {
        let folder = std::env::temp_dir().join(format!("gpulint-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        let path = folder.join("file");
        for size in [0, 1, 1000, 200_000] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &content).expect("the file is written");
            let limit = size as u64;
            assert_eq!(read_up_to(&path, limit).expect("it is read"), Some(content.clone()), "{size}");
            assert_eq!(read_up_to(&path, u64::MAX).expect("it is read"), Some(content), "{size}");
            if size > 0 {
                assert_eq!(read_up_to(&path, limit - 1).expect("it is read"), None, "{size}");
            }
        }
        assert!(read_up_to(&folder, 1).is_err());
        assert!(read_up_to(&folder.join("none"), 1).is_err());
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
