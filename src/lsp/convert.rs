//! Converts paths, positions and texts between gpulint and the protocol.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use gpulint_rules::Location;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use lsp_types::{Range, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::position::{Encoding, Positions};
use super::project::Project;

/// The characters that are escaped in a path of a URI: all except the unreserved characters of RFC 3986 and
/// `/`.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The path of a `file:` URI, and that of a document that has no file yet (`untitled:`), which is in no folder unless it names
/// one. `None` for other schemes, and for hosts other than this one.
pub(crate) fn path_of(uri: &Uri) -> Option<PathBuf> {
    let text = uri.as_str();
    if let Some(name) = text.strip_prefix("untitled:") {
        let name = percent_decode_str(name).decode_utf8().ok()?;
        let path = Path::new("/").join(name.as_ref());
        let has_extension = path.extension().is_some();
        return Some(if has_extension { path } else { path.with_extension("yaml") });
    }
    let scheme = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"))?;
    let rest = &text[scheme.len()..];
    let path = match rest.strip_prefix("//") {
        Some(with_host) => {
            let start = with_host.find('/')?;
            let host = &with_host[..start];
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return None;
            }
            &with_host[start..]
        }
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    // A drive letter follows the first slash: `/c:/manifests`.
    let is_drive = decoded.as_bytes().get(2) == Some(&b':') && decoded.as_bytes()[1].is_ascii_alphabetic();
    let local = if cfg!(windows) && is_drive { &decoded[1..] } else { &decoded };
    Some(crate::files::absolute(Path::new(local)))
}

pub(crate) fn uri_of(path: &Path) -> Option<Uri> {
    let path = crate::files::display_path(path);
    let path = utf8_percent_encode(&path, IN_PATH).to_string();
    let slash = if path.starts_with('/') { "" } else { "/" };
    Uri::from_str(&format!("file://{slash}{path}")).ok()
}

/// Converts the locations of a project to the protocol. A value lives as long as a request, so that the lines
/// of each text are counted once.
pub(crate) struct Places<'a> {
    project: &'a Project,
    /// The URIs that the client used for the files that it opened.
    uris: &'a HashMap<PathBuf, Uri>,
    encoding: Encoding,
    /// By the address of the text: what was rendered has the text that was saved, beside that of the editor.
    positions: RefCell<HashMap<*const u8, Rc<Positions>>>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(
        project: &'a Project,
        uris: &'a HashMap<PathBuf, Uri>,
        encoding: Encoding,
    ) -> Places<'a> {
        Places { project, uris, encoding, positions: RefCell::default() }
    }

    /// The URI of a file, given its path in findings.
    pub(crate) fn uri(&self, reported: &str) -> Option<Uri> {
        let path = self.project.path_of(reported);
        self.uris.get(&path).cloned().or_else(|| uri_of(&path))
    }

    pub(crate) fn range(&self, source: &Source, span: Span) -> Range {
        self.positions(source).range(source.text(), span, self.encoding)
    }

    /// The lines of a text.
    pub(crate) fn positions(&self, source: &Source) -> Rc<Positions> {
        let mut known = self.positions.borrow_mut();
        if let Some(positions) = known.get(&source.text().as_ptr()) {
            return Rc::clone(positions);
        }
        let positions = Rc::new(Positions::of_file(source.text()));
        known.insert(source.text().as_ptr(), Rc::clone(&positions));
        positions
    }

    /// The location of a finding, or of something related to it.
    pub(crate) fn location(&self, place: &Location) -> Option<lsp_types::Location> {
        let (source, _, span) = place.resolve_span()?;
        Some(lsp_types::Location { uri: self.uri(source.path())?, range: self.range(source, span) })
    }

    /// The units of columns.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::str::FromStr;

    use lsp_types::Uri;

    use super::{path_of, uri_of};

    #[test]
    fn documents_without_a_file_have_a_path() {
        for (uri, path) in [
            ("untitled:Untitled-1", "/Untitled-1.yaml"),
            ("untitled:new%20one.yml", "/new one.yml"),
            ("untitled:/work/new.yaml", "/work/new.yaml"),
        ] {
            assert_eq!(path_of(&Uri::from_str(uri).unwrap()).as_deref(), Some(Path::new(path)), "{uri}");
        }
    }

    #[test]
    fn paths_survive_the_way_to_the_client_and_back() {
        for path in ["/a/b.yaml", "/with space/ü/100%.yaml", "/a+b&c=d?e#f/@x:y.yaml", "/日本/😀.yaml"] {
            assert_eq!(path_of(&uri_of(Path::new(path)).unwrap()).as_deref(), Some(Path::new(path)));
        }
    }

    #[test]
    fn uris_that_are_no_files_have_no_path() {
        let of = |uri: &str| path_of(&Uri::from_str(uri).unwrap());
        assert_eq!(of("file://server/share/a.yaml"), None);
        assert_eq!(of("file:///a/b.yaml").as_deref(), Some(Path::new("/a/b.yaml")));
        assert_eq!(of("file://localhost/a/b%20c.yaml").as_deref(), Some(Path::new("/a/b c.yaml")));
        assert_eq!(of("FILE:/a/./c/../b.yaml").as_deref(), Some(Path::new("/a/b.yaml")));
    }
}
