//! Types that the stages of a run and its actions share.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gpulint_rules::{CheckReport, Engine, Platform};

use crate::args::{CheckArgs, Color};
use crate::batch::Batch;
use crate::config::Scopes;
use crate::files::FoundFiles;
use crate::progress::Progress;
use crate::render::{RenderOptions, Renders};
use crate::report::{Diff, Fixed};
use crate::terminal::print_note;

use super::preview::Before;

/// The data that all stages of a run use.
pub(super) struct Run<'a> {
    pub(super) args: &'a CheckArgs,
    pub(super) color: Color,
    pub(super) scopes: Scopes,
    /// The rules under each configuration.
    pub(super) engines: Vec<Arc<Engine>>,
    /// The rules under the versions of the configurations or of the files, if the command line names others. It is made
    /// when the files were read, and is kept as long as what was read.
    pub(super) before: OnceLock<Option<Before>>,
    /// The platform of the current folder, if a format shows the NodePools.
    pub(super) platform: Option<Platform>,
}

/// The files that were read, with the output of charts and kustomizations.
pub(super) struct Rendered<'r> {
    pub(super) batch: Batch<'r>,
    pub(super) found: FoundFiles,
    pub(super) renders: Renders,
}

/// The result of an action: the findings that remain to be reported.
#[derive(Default)]
pub(super) struct Done {
    pub(super) reports: Vec<Option<CheckReport>>,
    /// Files that could not be written, with the reason.
    pub(super) errors: Vec<String>,
    /// The reported paths of files that could not be written.
    pub(super) unwritten: BTreeSet<String>,
    pub(super) fixed: Option<Vec<Fixed>>,
    pub(super) diff: Option<Diff>,
}

impl Run<'_> {
    pub(super) fn note(&self, note: &str) {
        if !self.args.quiet {
            print_note(&format!("note: {note}"));
        }
    }

    pub(super) fn progress(&self, what: &str) -> Progress {
        Progress::waiting(what, !self.args.quiet)
    }

    pub(super) fn render(&self, batch: &mut Batch<'_>, found: &FoundFiles) -> Renders {
        let options = RenderOptions {
            requested: self.args.render,
            limit: Duration::from_secs(self.args.render_limit),
            is_alone: self.args.no_context,
            ..RenderOptions::configured(&found.excluded)
        };
        Renders::of(batch, &self.scopes, &options)
    }
}
