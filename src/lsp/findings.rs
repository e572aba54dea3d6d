//! The diagnostics of a file, for the client.

use std::path::Path;

use lsp_types::Diagnostic;

use crate::files;

use super::configuration;
use super::configuration::{Edited, Files};
use super::diagnostics;
use super::project::Project;
use super::session::Session;

pub(crate) use diagnostics::result_id;

pub(crate) fn of_file(session: &Session, path: &Path) -> Vec<Diagnostic> {
    let Some(project) = session.project(path) else { return Vec::new() };
    if is_configuration(project, path) {
        return of_configuration(session, project, path);
    }
    let Some(report) = project.report(path) else { return Vec::new() };
    let places = session.places(project);
    diagnostics::of_file(&report.findings, &|place| places.location(place), session.client.can)
}

/// Whether a file is a configuration of a project, or one that a configuration extends.
pub(crate) fn is_configuration(project: &Project, path: &Path) -> bool {
    files::is_configuration(path) || project.configurations().any(|known| known == path)
}

fn of_configuration(session: &Session, project: &Project, path: &Path) -> Vec<Diagnostic> {
    // The file was removed, so it has no diagnostics.
    let Ok(text) = session.text(path) else { return Vec::new() };
    let edited = Edited {
        path,
        root: project.root(),
        text: &text,
        errors: project.errors(),
        encoding: session.client.encoding,
        shows_related: session.client.can.shows_related,
    };
    let files = Files {
        text: &|path| session.text(path),
        exists: &|path| session.buffers.contains_key(path) || path.is_file(),
        uri: &|path| session.uri(path),
    };
    configuration::of_file(&edited, files)
}
