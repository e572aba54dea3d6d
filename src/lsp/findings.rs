//! The diagnostics of a file as the client gets them.

use std::path::Path;

use lsp_types::Diagnostic;

use super::configuration;
use super::configuration::{Edited, Files};
use super::diagnostics;
use super::project::Project;
use super::server::Server;

pub(crate) use diagnostics::result_id;

/// The diagnostics of a file.
pub(crate) fn of_file(server: &Server, path: &Path) -> Vec<Diagnostic> {
    let Some(project) = server.project(path) else { return Vec::new() };
    if is_configuration(project, path) {
        return of_configuration(server, project, path);
    }
    let Some(report) = project.report(path) else { return Vec::new() };
    let places = server.places(project);
    diagnostics::of_file(&report.findings, &|place| places.location(place), server.client.can)
}

/// Whether a file is a configuration of a project, or one that another is based on.
pub(crate) fn is_configuration(project: &Project, path: &Path) -> bool {
    configuration::is_named(path) || project.configurations().any(|known| known == path)
}

fn of_configuration(server: &Server, project: &Project, path: &Path) -> Vec<Diagnostic> {
    // It was removed: nothing is wrong with it.
    let Ok(text) = server.text(path) else { return Vec::new() };
    let edited = Edited {
        path,
        root: project.root(),
        text: &text,
        errors: project.errors(),
        encoding: server.client.encoding,
        shows_related: server.client.can.shows_related,
    };
    let files = Files {
        text: &|path| server.text(path),
        exists: &|path| server.buffers.contains_key(path) || path.is_file(),
        uri: &|path| server.uri(path),
    };
    configuration::of_file(&edited, files)
}
