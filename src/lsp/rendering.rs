//! What charts and kustomizations of a folder give, where its configuration asks for that: rendered and checked on a thread of
//! its own, whenever the folder is opened or a file is saved.
//!
//! Programs read files from the disk. The findings are those of the files as they were saved, and move with the edits since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{CheckReport, Finding, Location};

use crate::args::LspArgs;
use crate::baseline::Baselines;
use crate::batch::{Batch, READER_RULES, Selection};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, Disk};
use crate::render::{Outputs, RenderOptions, Renders};

use super::client::Waker;

/// The findings in what charts and kustomizations give, by the files of the user that they come from.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// The absolute paths of files that are checked as rendered, not as they are written.
    covered: HashSet<PathBuf>,
    /// By absolute path.
    findings: BTreeMap<PathBuf, Vec<Finding>>,
}

impl Rendered {
    /// The files whose findings are other ones than without rendering.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.covered.iter().chain(self.findings.keys())
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.covered.contains(path) || self.findings.contains_key(path)
    }

    /// Replaces the findings of a file as it is written by those of what it gives. `now` is its text in the editor.
    pub(super) fn apply(&self, path: &Path, now: &Arc<Source>, report: &mut CheckReport) {
        if self.covered.contains(path) {
            report.findings.retain(|finding| READER_RULES.contains(&finding.rule.id));
        }
        let Some(findings) = self.findings.get(path) else { return };
        report.findings.extend(findings.iter().filter_map(|finding| moved(finding, now)));
        report.findings.sort_by_key(|one| one.location.resolve_span().map(|(_, _, span)| span.start));
    }
}

/// A finding with its place in a text that was edited since. `None` if the place was edited.
fn moved(finding: &Finding, now: &Arc<Source>) -> Option<Finding> {
    let (before, _, span) = finding.location.resolve_span()?;
    let span = span_after(before.text(), now.text(), span)?;
    let mut finding = finding.clone();
    let is_edited = before.text() != now.text();
    match &mut finding.location {
        Location::Rendered(rendered) => {
            rendered.source = Arc::clone(now);
            rendered.span = span;
            if is_edited {
                rendered.repair = None;
                finding.fix = None;
            }
        }
        place => {
            let object = place.object().cloned();
            *place = Location::Text { source: Arc::clone(now), document: 0, object, span };
        }
    }
    Some(finding)
}

/// Where a part of a text is after an edit: the text before the first and after the last difference only moves.
fn span_after(before: &str, now: &str, span: Span) -> Option<Span> {
    let (before, now) = (before.as_bytes(), now.as_bytes());
    let (start, end) = (span.start as usize, span.end as usize);
    if before.get(..end).is_some_and(|same| now.starts_with(same)) {
        return Some(span);
    }
    let rest = before.get(start..)?;
    let start = now.ends_with(rest).then(|| now.len() - rest.len())?;
    Some(Span::new(u32::try_from(start).ok()?, u32::try_from(start + end - span.start as usize).ok()?))
}

/// Renders the charts and kustomizations of the current folder, and checks what they give.
fn render(args: &LspArgs, outputs: &Outputs) -> Result<Rendered, CliError> {
    let found = files::find(&[PathBuf::from(".")], Path::new("<stdin>"));
    let mut selection = Selection::of(Scopes::for_server(args)?, found, false);
    let engines = selection.engines()?;
    let Selection { scopes, mut found, inputs } = selection;
    let mut batch = Batch::read(inputs, &mut found, &Disk::default(), &engines, false);
    // The project reports what is wrong with baselines.
    (batch.baselines, _) = Baselines::load(&scopes, None);
    let options = RenderOptions { outputs: Some(outputs), ..RenderOptions::configured(&found.excluded) };
    let renders = Renders::of(&mut batch, &scopes, &options);
    let covered = batch.covered.iter().map(|at| batch.inputs[*at].input.absolute.clone());
    let mut rendered = Rendered { covered: covered.collect(), findings: BTreeMap::new() };
    for (_, finding) in renders.check(&batch).findings {
        let Some(path) = finding.location.resolve_span().and_then(|(source, ..)| renders.path_of(source))
        else {
            continue;
        };
        rendered.findings.entry(path).or_default().push(finding);
    }
    Ok(rendered)
}

/// A folder that is being rendered.
struct Job {
    root: PathBuf,
    thread: JoinHandle<(Result<Rendered, CliError>, Outputs)>,
}

/// The rendering of the folders of a session, one after the other.
#[derive(Default)]
pub(super) struct Renderer {
    /// The folders to render.
    wanted: BTreeSet<PathBuf>,
    running: Option<Job>,
    /// What the programs printed last, by folder.
    outputs: BTreeMap<PathBuf, Outputs>,
}

impl Renderer {
    pub(super) fn want(&mut self, root: &Path) {
        self.wanted.insert(root.to_owned());
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Begins with the next folder, if none is being rendered. The client gets a message at the end.
    pub(super) fn begin(&mut self, args: &LspArgs, waker: impl FnOnce() -> Waker) {
        if self.running.is_some() {
            return;
        }
        let Some(root) = self.wanted.pop_first() else { return };
        let outputs = self.outputs.remove(&root).unwrap_or_default();
        let (args, waker) = (args.clone(), waker());
        let stay = Stay::in_folder(&root);
        let thread = std::thread::spawn(move || {
            // The message is sent also after a panic.
            let _waker = waker;
            let rendered = render(&args, &outputs);
            drop(stay);
            (rendered, outputs.after())
        });
        self.running = Some(Job { root, thread });
    }

    /// The folder that was rendered, with the result. The thread sends its message as the last thing that it does.
    pub(super) fn end(&mut self) -> Option<(PathBuf, std::thread::Result<Result<Rendered, CliError>>)> {
        let Job { root, thread } = self.running.take()?;
        let result = thread.join().map(|(rendered, outputs)| {
            self.outputs.insert(root.clone(), outputs);
            rendered
        });
        Some((root, result))
    }
}

/// The current folder, which is one for all threads, and whether it has to stay.
struct Current {
    folder: PathBuf,
    stays: bool,
}

static CURRENT: Mutex<Current> = Mutex::new(Current { folder: PathBuf::new(), stays: false });
static MAY_CHANGE: Condvar = Condvar::new();

fn current() -> MutexGuard<'static, Current> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a folder the current one. Reported paths are relative to it, as in a run in that folder. Waits while another folder
/// is rendered, which happens only to clients with several folders.
pub(super) fn enter(folder: &Path) {
    let now = current();
    let is_other = |now: &mut Current| now.stays && now.folder != folder;
    let mut now = MAY_CHANGE.wait_while(now, is_other).unwrap_or_else(PoisonError::into_inner);
    // This fails if the folder was removed; it has no files then.
    let _ = crate::files::enter(folder);
    now.folder = folder.to_owned();
}

/// Keeps a folder the current one until it is dropped.
struct Stay;

impl Stay {
    fn in_folder(folder: &Path) -> Stay {
        enter(folder);
        current().stays = true;
        Stay
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        current().stays = false;
        MAY_CHANGE.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_moves_with_the_edits_around_it() {
        let before = "a: 1\nb: 2\nc: 3\n";
        let at = |now: &str| {
            let span = span_after(before, now, Span::new(8, 9))?;
            Some(now[span.start as usize..span.end as usize].to_owned() + &format!("@{}", span.start))
        };
        assert_eq!(at(before).as_deref(), Some("2@8"));
        assert_eq!(at("a: 100\nb: 2\nc: 3\n").as_deref(), Some("2@10"));
        assert_eq!(at("b: 2\nc: 3\n").as_deref(), Some("2@3"));
        assert_eq!(at("a: 1\nb: 2\nd: 4\n").as_deref(), Some("2@8"));
        assert_eq!(at("a: 1\nb: 5\nc: 3\n"), None);
        assert_eq!(at("a: 5\nb: 2\nd: 4\n"), None, "edits before and after it");
        assert_eq!(at(""), None);
    }
}
