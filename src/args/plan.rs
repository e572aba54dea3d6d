//! The arguments of `gpulint plan`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use super::format::with_file;
use super::{FailOn, RENDER_LIMIT, RuleArgs};

/// `gpulint plan`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "\
Which nodes Karpenter replaces and how long that takes, which pods land elsewhere or fit nowhere, what the \
nodes cost an hour, which findings are new and which are gone: before and after a change. Revisions are read \
from the repository of git; nothing is written into the working tree, and nothing is asked of a cluster.

  gpulint plan                          the working tree since it left the default branch
  gpulint plan origin/main              the working tree since it left another branch
  gpulint plan v1.4..v1.5 clusters/prod two revisions, below a folder
  gpulint plan pool.yaml                what one file changes, beside those of the default branch
  gpulint plan main...topic             a revision since it left another one
  gpulint plan --before old --after new two folders, such as rendered output
  gpulint plan --nodes gpu=12 --budget 500 --fail-on-replacement

Node counts are those of `gpulint pools --capacity`, unless --nodes says them. How long a replacement takes \
follows from the disruption budgets and from the grace periods of pods.

Exit codes: 0 done, 1 a new finding at or above --fail-on, or what --fail-on-replacement or --budget asks \
for, 2 bad usage, bad configuration, or a revision that cannot be read.")]
pub(crate) struct PlanArgs {
    /// BASE, BASE..HEAD or BASE...HEAD, then folders to read, or files that alone change [default: .]
    #[arg(value_name = "REVISION|PATH")]
    pub(crate) what: Vec<String>,

    /// A folder with the manifests before the change, instead of a revision
    #[arg(long, value_name = "DIR", requires = "after")]
    pub(crate) before: Option<PathBuf>,

    /// A folder with the manifests after the change
    #[arg(long, value_name = "DIR", requires = "before")]
    pub(crate) after: Option<PathBuf>,

    /// How many nodes of a NodePool run now; may be given several times
    #[arg(long, value_name = "POOL=N", value_parser = pool_nodes, value_delimiter = ',')]
    pub(crate) nodes: Vec<(String, u64)>,

    /// Fail if the nodes of all sets cost more than this an hour with the most replicas, by list price
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) budget: Option<f64>,

    /// Fail if nodes that run are replaced or removed
    #[arg(long)]
    pub(crate) fail_on_replacement: bool,

    /// The lowest severity of a new finding that makes the exit code 1 [default: `fail-on` of the
    /// configuration, otherwise warning]
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

    /// text, json, markdown or html; with =FILE into a file. May be given several times. `gpulint schema plan` describes
    /// the JSON [default: text]
    #[arg(long = "format", short = 'f', value_name = "FORMAT[=FILE]", value_delimiter = ',')]
    pub(crate) formats: Vec<PlanFormat>,

    /// The address before the path of a file in links of Markdown [default: that of GitHub Actions or GitLab CI]
    #[arg(long, value_name = "URL")]
    pub(crate) links: Option<String>,

    /// Configuration, platform and rules.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// Each set of manifests is one whole cluster: what is not in the input does not exist
    #[arg(long)]
    pub(crate) complete: bool,

    /// Charts and kustomizations as `helm template` and `kustomize build` print them, on both sides
    #[arg(long)]
    pub(crate) render: bool,

    /// How long a program may render, in seconds
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = RENDER_LIMIT)]
    pub(crate) render_limit: u64,

    /// Only this set of manifests that are applied together (see gpulint check --show-sets)
    #[arg(long = "set", value_name = "NAME")]
    pub(crate) only: Option<String>,

    /// Also test data, archives and backups
    #[arg(long)]
    pub(crate) no_default_ignore: bool,
}

/// A format of `gpulint plan` and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanFormat {
    /// The style.
    pub(crate) style: PlanStyle,
    /// The file; standard output if absent.
    pub(crate) file: Option<PathBuf>,
}

/// How `gpulint plan` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanStyle {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a comment on a pull request, or a job summary: at most 60 KB
    Markdown,
    /// One page for a browser, which loads nothing
    Html,
}

impl FromStr for PlanFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<PlanFormat, String> {
        let (name, file) = with_file(text)?;
        let style = <PlanStyle as ValueEnum>::from_str(name, false);
        style
            .map(|style| PlanFormat { style, file })
            .map_err(|_| "the formats are text, json, markdown and html".to_owned())
    }
}

/// Reads `POOL=N`.
fn pool_nodes(text: &str) -> Result<(String, u64), String> {
    let pair = text.split_once('=').and_then(|(pool, nodes)| Some((pool.to_owned(), nodes.parse().ok()?)));
    pair.filter(|(pool, _)| !pool.is_empty()).ok_or_else(|| "write it as in gpu=12".to_owned())
}

/// Reads an amount of dollars, with or without `$`.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse::<f64>().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "write it as in 12.50".to_owned())
}
