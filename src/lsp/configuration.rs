//! The diagnostics of `gpulint.yaml` while it is edited, and the actions that fix them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use gpulint_rules::lint::config::{Config, ConfigError, Extends};
use gpulint_rules::source::{Source, read};
use gpulint_rules::tree::Span;
use gpulint_rules::{MANUAL, Node, RULES};
use lsp_types::{
    CodeAction, CodeActionContext, CodeActionKind, CodeDescription, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, NumberOrString, Range, Uri,
};
use serde_json::json;

use crate::files::{CONFIGURATIONS, absolute, display_path, is_configuration};
use crate::terminal::count;

use super::diagnostics::SOURCE;
use super::position::{Encoding, Positions};

/// The code of the diagnostics. No rule has this name.
const CODE: &str = "configuration";
/// Maximum number of related locations in other files.
const MAX_RELATED: usize = 12;

pub(crate) struct Edited<'a> {
    pub(crate) path: &'a Path,
    /// The folder of the project. Reported paths are relative to it.
    pub(crate) root: &'a Path,
    /// The text in the editor.
    pub(crate) text: &'a str,
    /// What could not be read when the project was loaded.
    pub(crate) errors: &'a [String],
    pub(crate) encoding: Encoding,
    pub(crate) shows_related: bool,
}

/// Access to the files around the configuration, with the texts that the editor has.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) text: &'a dyn Fn(&Path) -> io::Result<String>,
    pub(crate) exists: &'a dyn Fn(&Path) -> bool,
    pub(crate) uri: &'a dyn Fn(&Path) -> Option<Uri>,
}

/// The diagnostics of a configuration: errors, probable mistakes, and files that it names and that cannot be
/// read.
pub(crate) fn of_file(file: &Edited<'_>, files: Files<'_>) -> Vec<Diagnostic> {
    let remarks = Config::remarks_for(&file.name(file.path), file.text, RULES);
    let positions = Positions::of_file(file.text);
    let range = |span| positions.range(file.text, span, file.encoding);
    let mut found = Vec::new();
    for (severity, list) in
        [(DiagnosticSeverity::ERROR, &remarks.errors), (DiagnosticSeverity::INFORMATION, &remarks.notes)]
    {
        found.extend(list.iter().map(|one| remark(one, severity, range(one.span))));
    }
    found.extend(remarks.extends.iter().filter_map(|extends| {
        let mut diagnostic = based_on(file, extends, files)?;
        diagnostic.range = range(extends.span);
        Some(diagnostic)
    }));
    found.extend(file.rivals(files.exists));
    for (span, error) in file.unreadable() {
        found.push(diagnostic(error, DiagnosticSeverity::ERROR, range(span)));
    }
    found.sort_by_key(|one| (one.range.start.line, one.range.start.character));
    found
}

/// The quick fixes for a range: they replace words by those that were probably meant.
pub(crate) fn actions(
    found: &[Diagnostic],
    range: Range,
    context: &CodeActionContext,
    edit: impl Fn(Range, &str) -> lsp_types::WorkspaceEdit,
) -> Vec<CodeAction> {
    let asked = context.only.as_ref();
    if asked.is_some_and(|only| {
        !only.contains(&CodeActionKind::QUICKFIX) && !only.contains(&CodeActionKind::EMPTY)
    }) {
        return Vec::new();
    }
    let touches = |one: &&Diagnostic| one.range.start <= range.end && range.start <= one.range.end;
    let action = |one: &Diagnostic| {
        let word = one.data.as_ref()?.get("replace")?.as_str()?;
        Some(CodeAction {
            title: format!("write `{word}`"),
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![one.clone()]),
            edit: Some(edit(one.range, word)),
            is_preferred: Some(true),
            ..CodeAction::default()
        })
    };
    found.iter().filter(touches).filter_map(action).collect()
}

impl Edited<'_> {
    /// A path as errors name it.
    fn name(&self, path: &Path) -> String {
        display_path(path.strip_prefix(self.root).unwrap_or(path))
    }

    fn resolve(&self, named: &str) -> PathBuf {
        absolute(&self.path.parent().unwrap_or(Path::new("/")).join(named))
    }

    /// Diagnostics for other configurations in the folder of this one.
    fn rivals(&self, exists: &dyn Fn(&Path) -> bool) -> Vec<Diagnostic> {
        if !is_configuration(self.path) {
            return Vec::new();
        }
        let others = CONFIGURATIONS.iter().map(|name| self.path.with_file_name(name));
        let others = others.filter(|other| other != self.path && exists(other));
        let message = |other: PathBuf| {
            format!("{} is a configuration of this folder too: remove one", self.name(&other))
        };
        others.map(|other| diagnostic(message(other), DiagnosticSeverity::ERROR, Range::default())).collect()
    }

    /// The places where the configuration names files that could not be read, with the error of each.
    fn unreadable(&self) -> Vec<(Span, String)> {
        let documents = read(&Source::from_text("", self.text));
        let Some(root) = documents.first().and_then(|document| document.root()) else { return Vec::new() };
        let crds = root.get("crds");
        let named: Vec<Node<'_>> = crds.items().chain([root.get("baseline")]).collect();
        let mut found = Vec::new();
        for node in named {
            let Some((path, span)) = node.text().zip(node.span()) else { continue };
            let name = self.name(&self.resolve(path));
            let is_about = |error: &&str| {
                let rest = error.strip_prefix(&name);
                rest.is_some_and(|rest| rest.starts_with([':', '/']))
            };
            // On the command line, several errors are printed as one text.
            let errors = self.errors.iter().flat_map(|error| error.split("\nerror: "));
            found.extend(errors.filter(is_about).map(|error| (span, error.to_owned())));
        }
        found
    }
}

/// The diagnostic for the errors in the configurations that this one extends. The caller sets its range.
fn based_on(file: &Edited<'_>, extends: &Extends, files: Files<'_>) -> Option<Diagnostic> {
    let error = |message: String| diagnostic(message, DiagnosticSeverity::ERROR, Range::default());
    let mut seen: BTreeSet<PathBuf> = [file.path.to_owned()].into();
    let mut chain = vec![file.name(file.path)];
    let mut path = file.resolve(&extends.path);
    loop {
        let name = file.name(&path);
        chain.push(name.clone());
        if !seen.insert(path.clone()) {
            return Some(error(format!("configurations extend each other: {}", chain.join(" -> "))));
        }
        let text = match (files.text)(&path) {
            Ok(text) => text,
            Err(failed) => return Some(error(format!("`extends` cannot be read: {name}: {failed}"))),
        };
        let remarks = Config::remarks_for(&name, &text, RULES);
        if !remarks.errors.is_empty() {
            let message = format!("{name} has {}", count(remarks.errors.len(), "error"));
            let related = related(file, &path, &text, &remarks.errors, files);
            if related.is_empty() {
                let all: Vec<String> = remarks.errors.iter().map(ToString::to_string).collect();
                return Some(error(format!("{message}\n{}", all.join("\n"))));
            }
            return Some(Diagnostic { related_information: Some(related), ..error(message) });
        }
        let above = path.parent().unwrap_or(Path::new("/")).to_owned();
        path = absolute(&above.join(&remarks.extends?.path));
    }
}

/// The locations of the errors in another configuration, if the client shows related locations.
fn related(
    file: &Edited<'_>,
    path: &Path,
    text: &str,
    errors: &[ConfigError],
    files: Files<'_>,
) -> Vec<DiagnosticRelatedInformation> {
    let Some(uri) = (files.uri)(path).filter(|_| file.shows_related) else { return Vec::new() };
    let positions = Positions::of_file(text);
    let place = |one: &ConfigError| DiagnosticRelatedInformation {
        location: lsp_types::Location {
            uri: uri.clone(),
            range: positions.range(text, one.span, file.encoding),
        },
        message: words(one),
    };
    errors.iter().take(MAX_RELATED).map(place).collect()
}

fn words(remark: &ConfigError) -> String {
    match &remark.suggestion {
        Some(meant) => format!("{}; did you mean `{meant}`?", remark.message),
        None => remark.message.clone(),
    }
}

fn remark(remark: &ConfigError, severity: DiagnosticSeverity, range: Range) -> Diagnostic {
    let data = remark.suggestion.as_ref().map(|meant| json!({"replace": meant}));
    Diagnostic { data, ..diagnostic(words(remark), severity, range) }
}

fn diagnostic(message: String, severity: DiagnosticSeverity, range: Range) -> Diagnostic {
    let page = format!("{MANUAL}/configuration.html").parse();
    Diagnostic {
        range,
        severity: Some(severity),
        code: Some(NumberOrString::String(CODE.to_owned())),
        code_description: page.ok().map(|href| CodeDescription { href }),
        source: Some(SOURCE.to_owned()),
        message,
        ..Diagnostic::default()
    }
}

#[cfg(test)]
mod tests {
    use lsp_types::Position;

    use super::*;

    /// The diagnostics of `/repo/gpulint.yaml` beside other files: line and column from 0, message.
    fn of(text: &str, others: &[(&str, &str)], errors: &[&str]) -> Vec<(u32, u32, String)> {
        let found = all(text, others, errors);
        found.into_iter().map(|one| (one.range.start.line, one.range.start.character, one.message)).collect()
    }

    fn all(text: &str, others: &[(&str, &str)], errors: &[&str]) -> Vec<Diagnostic> {
        let errors: Vec<String> = errors.iter().map(|error| (*error).to_owned()).collect();
        let file = Edited {
            path: Path::new("/repo/gpulint.yaml"),
            root: Path::new("/repo"),
            text,
            errors: &errors,
            encoding: Encoding::Utf16,
            shows_related: true,
        };
        let known = |path: &Path| {
            let found = others.iter().find(|(name, _)| Path::new("/repo").join(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let files = Files {
            text: &|path| known(path).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not found")),
            exists: &|path| known(path).is_some(),
            uri: &|path| format!("file://{}", path.display()).parse().ok(),
        };
        of_file(&file, files)
    }

    #[test]
    fn errors_have_their_places_and_what_was_meant() {
        let text = "# 😀\nrules: {😀: off, gpu-pool-untaintd: off}\nfail-on: eror\nrulez: {}\n";
        let found = all(text, &[], &[]);
        let said: Vec<(u32, u32, u32, &str)> = found
            .iter()
            .map(|one| {
                (one.range.start.line, one.range.start.character, one.range.end.character, &*one.message)
            })
            .collect();
        assert_eq!(
            said,
            [
                (1, 8, 10, "unknown rule `😀`"),
                (1, 17, 34, "unknown rule `gpu-pool-untaintd`; did you mean `gpu-pool-untainted`?"),
                (
                    2,
                    9,
                    13,
                    "expected `error`, `warning`, `info` or `never`, found `eror`; did you mean `error`?"
                ),
                (3, 0, 5, "unknown key `rulez`; did you mean `rules`?"),
            ]
        );
        assert!(found.iter().all(|one| one.severity == Some(DiagnosticSeverity::ERROR)));
        let at = Position { line: 2, character: 10 };
        let edit = |range, word: &str| {
            let edit = lsp_types::TextEdit { range, new_text: word.to_owned() };
            let uri: Uri = "file:///repo/gpulint.yaml".parse().unwrap();
            lsp_types::WorkspaceEdit { changes: Some([(uri, vec![edit])].into()), ..Default::default() }
        };
        let offered = actions(&found, Range { start: at, end: at }, &CodeActionContext::default(), edit);
        assert_eq!(offered.len(), 1);
        assert_eq!(offered[0].title, "write `error`");
    }

    #[test]
    fn what_it_is_based_on_is_read() {
        let based = "extends: ../base.yaml\n";
        let missing = of(based, &[], &[]);
        assert_eq!(missing, [(0, 9, "`extends` cannot be read: /base.yaml: not found".to_owned())]);
        let based = "fail-on: error\nextends: base.yaml\n";
        assert_eq!(of(based, &[("base.yaml", "rules: {}\n")], &[]), []);
        let broken = all(based, &[("base.yaml", "\nrulez: {}\n")], &[]);
        assert_eq!(broken[0].message, "base.yaml has 1 error");
        assert_eq!(broken[0].range.start, Position { line: 1, character: 9 });
        let related = &broken[0].related_information.as_ref().unwrap()[0];
        assert_eq!(related.location.uri.as_str(), "file:///repo/base.yaml");
        assert_eq!(related.location.range.start, Position { line: 1, character: 0 });
        assert_eq!(related.message, "unknown key `rulez`; did you mean `rules`?");
        let chain = [("base.yaml", "extends: sub/c.yaml\n"), ("sub/c.yaml", "extends: ../gpulint.yaml\n")];
        let message =
            "configurations extend each other: gpulint.yaml -> base.yaml -> sub/c.yaml -> gpulint.yaml";
        assert_eq!(of(based, &chain, &[]), [(1, 9, message.to_owned())]);
    }

    #[test]
    fn a_folder_has_one_configuration() {
        let found = of("", &[(".gpulint.yml", "")], &[]);
        assert_eq!(
            found,
            [(0, 0, ".gpulint.yml is a configuration of this folder too: remove one".to_owned())]
        );
    }

    #[test]
    fn what_could_not_be_read_stands_where_it_is_named() {
        let text = "crds: [schemas, more]\nbaseline: known.yaml\n";
        let errors = [
            "schemas/a.yaml: broken\nerror: more: no CustomResourceDefinition found",
            "known.yaml: there is no such baseline",
            "moreover: of another file",
        ];
        let found = of(text, &[], &errors);
        let expected = [
            (0, 7, "schemas/a.yaml: broken"),
            (0, 16, "more: no CustomResourceDefinition found"),
            (1, 10, "known.yaml: there is no such baseline"),
        ];
        assert_eq!(found, expected.map(|(line, at, message)| (line, at, message.to_owned())));
    }

    #[test]
    fn broken_yaml_is_one_error() {
        let found = of("rules: {\n", &[], &[]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
