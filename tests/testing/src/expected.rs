//! Expected output in files.

use std::fs;
use std::path::Path;

use crate::relative;

/// Compares text with a file's content. A file that is not there is empty.
///
/// With `UPDATE` in the environment the file is written instead; empty text writes no new file.
///
/// # Errors
/// Text for the developer, if the file holds something else or cannot be written.
pub fn expect_file(path: &Path, text: &str) -> Result<(), String> {
    let held = fs::read_to_string(path).unwrap_or_default();
    if held == text {
        return Ok(());
    }
    if std::env::var_os("UPDATE").is_none() {
        let path = relative(path);
        return Err(format!("{path} holds:\n{held}\nbut the output is:\n{text}\nUPDATE=1 writes it"));
    }
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written =
        folder.and_then(|()| if text.is_empty() { fs::remove_file(path) } else { fs::write(path, text) });
    written.map_err(|error| format!("{}: {error}", relative(path)))
}
