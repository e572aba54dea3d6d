//! What the texts of an editor change since the last commit, for the language server.

use std::path::{Path, PathBuf};

use gpulint_rules::plan::{ClassPlan, PoolPlan, Side};
use gpulint_rules::{Cluster, Object, Platform, plan};

use crate::args::{Color, LspArgs, PlanArgs, PlanStyle, RENDER_LIMIT};
use crate::checkout::{Checkout, Place};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::Disk;
use crate::git::{Commit, Repository};
use crate::judge::{JudgedSet, Reading, judge};
use crate::report;
use crate::terminal::RenderOptions;

use super::alike;
use super::sides::Sides;

const HEAD: &str = "HEAD";

/// The last commit of the repository that a folder is in.
pub(crate) struct Head {
    repository: Repository,
    pub(crate) commit: Commit,
    folder: PathBuf,
}

impl Head {
    /// # Errors
    /// Says that the folder is in no repository, or that this has no commit.
    pub(crate) fn of(folder: &Path) -> Result<Head, String> {
        let repository = Repository::around(folder)?;
        let commit = repository.resolve(HEAD)?;
        Ok(Head { repository, commit, folder: folder.to_owned() })
    }

    /// Whether the commit has a file, given its absolute path, with this text.
    pub(crate) fn has(&self, file: &Path, text: &str) -> bool {
        let below = file.strip_prefix(self.repository.root());
        let content = below.ok().and_then(|below| self.repository.content_at(self.commit, below));
        content.is_some_and(|content| content == text.as_bytes())
    }

    /// The objects of the commit, set by set, as the language server reads them.
    ///
    /// # Errors
    /// Says what of the commit cannot be read.
    pub(crate) fn sets(&self, args: &LspArgs) -> Result<Vec<JudgedSet>, CliError> {
        let paths = [PathBuf::from(".")];
        let checkout = Checkout::of_commit(
            &self.repository,
            self.commit,
            &self.folder,
            &paths,
            HEAD.to_owned(),
            Place::Apart,
        )?;
        let judged = checkout.inside(|| {
            let reading = Reading {
                paths: &paths,
                root: checkout.root(),
                no_default_ignore: false,
                render: false,
                render_limit: RENDER_LIMIT,
                disk: &Disk::default(),
            };
            judge(Scopes::for_server(args)?, &reading, None)
        });
        Ok(judged?.sets)
    }

    /// What `gpulint plan HEAD` says as Markdown, with the texts of an editor in place of the files.
    ///
    /// # Errors
    /// Those of `gpulint plan`.
    pub(crate) fn plan(&self, args: &LspArgs, disk: &Disk) -> Result<String, CliError> {
        let args = plan_args(args);
        let sides = Sides::since(&self.repository, self.commit, HEAD, &self.folder)?;
        let report = super::report(&args, &sides, disk)?;
        let mut page = Vec::new();
        report.write(&mut page, PlanStyle::Markdown, RenderOptions::for_file(Color::Never))?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }
}

/// The arguments of `gpulint plan` in the place of those of the server.
fn plan_args(args: &LspArgs) -> PlanArgs {
    PlanArgs {
        rules: args.rules.clone(),
        complete: args.complete,
        render_limit: RENDER_LIMIT,
        ..PlanArgs::default()
    }
}

/// What becomes of nodes by the change of an object.
pub(crate) struct NodeFate {
    /// The NodePool, node class or NodeOverlay, as it is after the change.
    pub(crate) object: Object,
    pub(crate) text: String,
}

/// What becomes of the nodes of each NodePool that changes, and what the edits of each class do to those of its NodePools.
pub(crate) fn fates(before: &Cluster, after: &Cluster, platform: &Platform) -> Vec<NodeFate> {
    let (old, new) = alike::alike(before, after);
    let side = |cluster| Side { cluster, platform };
    let (pools, classes) =
        plan::fates(side(old.as_ref().unwrap_or(before)), side(new.as_ref().unwrap_or(after)));
    let of_pool = |pool: &PoolPlan| NodeFate { object: pool.object.clone(), text: report::fate(pool) };
    let of_class = |class: &ClassPlan| {
        let is_edited =
            |pool: &&PoolPlan| pool.edits.iter().any(|edit| edit.object.is_same_resource(&class.object));
        let users: Vec<String> = pools.iter().filter(is_edited).map(|pool| pool.name.clone()).collect();
        let text = match users.as_slice() {
            [] => report::class_fate(class),
            users => report::used_class_fate(class, users),
        };
        NodeFate { object: class.object.clone(), text }
    };
    pools.iter().map(of_pool).chain(classes.iter().map(of_class)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::plan_args;
    use crate::args::{Args, Command, LspArgs};

    #[test]
    fn programs_may_render_as_long_as_on_the_command_line() {
        let Command::Plan(parsed) = Args::try_parse_from(["gpulint", "plan"]).unwrap().command else {
            panic!("`plan` is another command");
        };
        assert_eq!(plan_args(&LspArgs::default()).render_limit, parsed.render_limit);
    }
}
