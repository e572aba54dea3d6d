//! What the texts of the editor change since the last commit: a code lens at each NodePool and class that differs, and the whole
//! plan as a command.

use std::collections::BTreeSet;
use std::fs;

use lsp_types::{CodeLens, CodeLensParams, Command, MessageType, ShowDocumentParams, Uri, request};
use serde_json::{Value, json};

use crate::checkout::temporary_folder;
use crate::error::CliError;
use crate::judge::JudgedSet;
use crate::plan::{Head, NodeFate, fates};

use super::client::Progress;
use super::convert::{path_of, uri_of};
use super::session::Session;
use super::view::{SetView, View};

/// The command that shows what the edits since the last commit do. Its argument is the URI of a file or folder; without one, it
/// is that of the first folder.
pub(crate) const PLAN: &str = "gpulint.plan";
/// The name of the page in its folder; editors show it as the title.
const PAGE: &str = "gpulint plan.md";

/// The lenses of a file. It has none where nothing differs, where no commit is known, and where the commit cannot be read.
pub(crate) fn lenses(session: &mut Session, params: &CodeLensParams) -> Vec<CodeLens> {
    lenses_of(session, &params.text_document.uri).unwrap_or_default()
}

fn lenses_of(session: &mut Session, uri: &Uri) -> Option<Vec<CodeLens>> {
    let path = path_of(uri)?;
    let project = session.project(&path).filter(|project| !project.is_single())?;
    let folder = project.root().to_owned();
    let head = Head::of(&folder).ok()?;
    // Reading a commit takes as long as reading the folder, and most files are as they were.
    if head.has(&path, project.file(&path)?.source.text()) {
        return None;
    }
    if session.plans.heads.get(&folder).is_none_or(|(commit, _)| *commit != head.commit) {
        let sets = head.sets(&session.args).ok()?;
        session.plans.heads.insert(folder.clone(), (head.commit, sets));
    }
    let (_, sets) = session.plans.heads.get(&folder)?;
    session.view(&path, |view, places| {
        let mut known = BTreeSet::new();
        let mut lenses = Vec::new();
        for (set, fate) in of_sets(view, sets) {
            let Some(place) = view.file.objects.iter().find(|one| one.is_same_manifest(&fate.object)) else {
                continue;
            };
            let Some(span) = place.path(&["metadata", "name"]).span() else { continue };
            let title = match set {
                Some(set) => format!("{set}: {}", fate.text),
                None => fate.text,
            };
            if !known.insert((span.start, title.clone())) {
                continue;
            }
            let command =
                Command { title, command: PLAN.to_owned(), arguments: Some(vec![json!(uri.as_str())]) };
            let range = places.range(&view.file.source, span);
            lenses.push(CodeLens { range, command: Some(command), data: None });
        }
        Some(lenses)
    })
}

/// What becomes of nodes in each set of a file, with the name of the set if there are several.
fn of_sets<'v>(view: &View<'v>, before: &[JudgedSet]) -> Vec<(Option<&'v str>, NodeFate)> {
    let platform = &view.engine.settings().platform;
    let is_only = before.len() == 1 && view.sets.len() == 1;
    let mut all = Vec::new();
    for SetView { name, cluster } in &view.sets {
        let same = |set: &&JudgedSet| is_only || set.name.as_deref() == *name;
        let Some(before) = before.iter().find(same) else { continue };
        let shown = name.filter(|_| view.sets.len() > 1);
        all.extend(fates(&before.cluster, cluster, platform).into_iter().map(|fate| (shown, fate)));
    }
    all
}

/// Shows the plan of a folder as a page of Markdown, or returns it to a client that shows no pages.
pub(crate) fn show(session: &mut Session, arguments: &[Value]) -> Option<String> {
    match page(session, arguments).and_then(|page| show_page(session, page)) {
        Ok(page) => page,
        Err(error) => {
            session.client.show(MessageType::ERROR, format!("gpulint: {error}"));
            None
        }
    }
}

/// Returns the page if the client shows none.
fn show_page(session: &mut Session, page: String) -> Result<Option<String>, CliError> {
    if !session.client.can.shows_documents {
        return Ok(Some(page));
    }
    // Only the user can read the folder.
    let folder = temporary_folder()?;
    let path = folder.path().join(PAGE);
    fs::write(&path, page)?;
    session.plans.page = Some(folder);
    if let Some(uri) = uri_of(&path) {
        let external = Some(false);
        let params = ShowDocumentParams { uri, external, take_focus: Some(true), selection: None };
        session.client.request::<request::ShowDocument>(params);
    }
    Ok(None)
}

fn page(session: &mut Session, arguments: &[Value]) -> Result<String, CliError> {
    let uri = arguments.first().and_then(Value::as_str).and_then(|text| text.parse::<Uri>().ok());
    let project = match uri.as_ref().and_then(path_of) {
        Some(path) => session.project(&path),
        None => session.projects.first(),
    };
    let Some(project) = project.filter(|project| !project.is_single()) else {
        return Err(CliError::Usage("a plan needs an open folder".to_owned()));
    };
    let (folder, disk) = (project.root().to_owned(), project.disk().clone());
    let args = &session.args;
    let mut progress = Progress::new(&mut session.client, "plan");
    let title = "gpulint: what changes since HEAD";
    let work = || Head::of(&folder).map_err(CliError::Usage)?.plan(args, &disk);
    let page = progress.during(&mut session.client, title, || [0, 0], work);
    progress.end(&session.client);
    page.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
