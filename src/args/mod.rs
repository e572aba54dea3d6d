//! The arguments. The doc comments here are the help that users read.

mod format;
mod hint;
mod karpenter;
mod plan;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;

pub(crate) use format::{Format, Style};
pub(crate) use hint::parse;
pub(crate) use karpenter::KarpenterArgs;
pub(crate) use plan::{PlanArgs, PlanFormat, PlanStyle};

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use gpulint_rules::{Platform, Product, Safety, Severity, Version};

/// How long a program may render, in seconds, unless the user says otherwise.
pub(crate) const RENDER_LIMIT: u64 = 30;

/// Finds what would waste GPUs, strand pods or lose training work in Karpenter, KEDA and
/// Kubernetes manifests, before they are applied.
#[derive(Debug, Parser)]
#[command(name = "gpulint", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 nothing found, 1 findings, 2 it could not do its work.")]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colour; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check files and folders
    Check(Box<CheckArgs>),
    /// Say which NodePool takes a pod, and what keeps it out of the others
    Why(WhyArgs),
    /// Show what each NodePool admits, costs at most, and takes
    Pools(PoolsArgs),
    /// Say what a change does to nodes, pods, dollars and findings: two revisions, or the working tree
    Plan(Box<PlanArgs>),
    /// Show the manual of a rule: why it matters, what to do, examples; or the rules of a group
    Explain(ExplainArgs),
    /// List all rules
    Rules(RulesArgs),
    /// Run the language server, for editors
    Lsp(LspArgs),
    /// Run the server of the Model Context Protocol, for assistants that write manifests
    Mcp,
    /// Look at a folder, and write a commented gpulint.yaml for it
    Init(InitArgs),
    /// Show the configuration that holds for a file or folder, and where each value comes from
    Config(ConfigArgs),
    /// Answer an AdmissionReview as the admission webhook would
    #[cfg(feature = "webhook")]
    Review(ReviewArgs),
    /// Run the admission webhook, or print what installs it
    #[cfg(feature = "webhook")]
    Webhook(webhook::WebhookArgs),
    /// Print a JSON Schema
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page in roff, for `man`
    Man,
    /// Write the pages of the manual that follow from this version: rules, configuration, commands
    Docs(DocsArgs),
}

/// `gpulint check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a configuration file every rule runs as it comes. A file is checked under the nearest \
gpulint.yaml (or gpulint.yml, .gpulint.yaml, .gpulint.yml) in its folder or above.

Objects are checked beside the objects that are applied to the same cluster. `clusters` of \
gpulint.yaml, Flux, Argo CD, kustomizations and folders of environments say which these are; \
--show-sets prints it.

Before an upgrade, --karpenter, --keda and --kubernetes name the version to come. The findings are \
those of that version; the report says which of them are new compared with the version that the \
configuration states or the files show, which go away, and what else changes for the input. A newer \
minor version than gpulint knows is judged as the newest that it knows.

  gpulint check --karpenter 1.14 clusters/prod

Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 bad usage, bad configuration, a path \
that cannot be read or written, a chart that does not render, or no Kubernetes object found. Where \
a folder has only what needs another program (charts, Terraform, archives), the report says that \
nothing was checked, and the exit code is 0. With --fix it is what is left that counts, with --diff \
what is there now.")]
pub(crate) struct CheckArgs {
    /// Files and folders; `-` is standard input, and `<(command)` of a shell is read like it
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// The path that standard input is reported under, and whose configuration it gets. It takes the
    /// place of the file of that name
    #[arg(long, value_name = "PATH", default_value = "<stdin>")]
    pub(crate) stdin_filename: PathBuf,

    /// Apply the safe fixes to the files, and report what was fixed and what is left. For standard input
    /// the fixed text is written to standard output, and the report to standard error
    #[arg(long)]
    pub(crate) fix: bool,

    /// Count fixes that need a review as well: --fix applies them, --diff shows them. Without --fix
    /// nothing is written
    #[arg(long)]
    pub(crate) unsafe_fixes: bool,

    /// Print what --fix would change as a diff, and change nothing. A report is written only
    /// in the formats that --format names, to standard error if it does not name a file
    #[arg(long)]
    pub(crate) diff: bool,

    /// How to report; with =FILE into a file. May be given several times, or several formats separated by
    /// commas, one of them without =FILE [default: text]
    #[arg(
        long = "format",
        short = 'f',
        value_name = "FORMAT[=FILE]",
        value_parser = format::FormatParser,
        value_delimiter = ',',
        env = "GPULINT_FORMAT",
        hide_env_values = true
    )]
    pub(crate) formats: Vec<Format>,

    /// The lowest severity that makes the exit code 1; it hides nothing, see --min-severity [default: warning]
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

    /// The lowest severity that is reported, in every format; --fail-on still decides the exit code
    /// [default: info]
    #[arg(long, value_name = "SEVERITY", value_enum, env = "GPULINT_MIN_SEVERITY", hide_env_values = true)]
    pub(crate) min_severity: Option<MinSeverity>,

    /// Configuration, platform and rules.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// A file or folder of CustomResourceDefinitions. Objects of their kinds are checked against
    /// their schemas and validation rules; may be given several times [default: `crds` of the
    /// configuration]
    #[arg(long, value_name = "PATH")]
    pub(crate) crds: Vec<PathBuf>,

    /// The input is everything there is: each set of manifests (see --show-sets) is one whole cluster. Without any sign
    /// of several clusters, objects of all folders belong together; what is not in the input does not exist
    #[arg(long)]
    pub(crate) complete: bool,

    /// Check charts and kustomizations as `helm template` and `kustomize build` (or `kubectl
    /// kustomize`) print them; these programs have to be installed, and nothing is downloaded
    /// [default: `render.enabled` of the configuration]
    #[arg(long)]
    pub(crate) render: bool,

    /// How long a program may render, in seconds
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = RENDER_LIMIT)]
    pub(crate) render_limit: u64,

    /// Read these files and folders for what they say about others, and report nothing in them; may be given several
    /// times. Where only single files are checked, the files that are applied together with them are context by
    /// themselves
    #[arg(long, value_name = "PATH")]
    pub(crate) context: Vec<PathBuf>,

    /// Check single files without the files, and what is rendered, that are applied together with them
    #[arg(long, conflicts_with = "context")]
    pub(crate) no_context: bool,

    /// Print which files are applied to one cluster together, and why, and check nothing
    #[arg(long, conflicts_with_all = ["fix", "unsafe_fixes", "diff"])]
    pub(crate) show_sets: bool,

    /// Report only what is new since the checked state left this revision of git; only that decides the exit code
    #[arg(long, value_name = "REVISION", conflicts_with_all = ["fix", "unsafe_fixes", "diff", "add_suppressions", "write_baseline", "update_baseline", "show_sets"])]
    pub(crate) since: Option<String>,

    /// Do not report the findings that are in this baseline, and do not fix them; they are counted. Entries that no
    /// longer match are noted [default: `baseline` of the configuration]
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Report and fix also what is in the baseline of the configuration
    #[arg(long, conflicts_with_all = ["baseline", "update_baseline", "write_baseline"])]
    pub(crate) no_baseline: bool,

    /// Write all findings into a baseline, as YAML, and succeed. Entries of files and rules that are not checked now stay
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "unsafe_fixes", "diff", "baseline", "update_baseline", "show_sets"])]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Remove the entries of the baseline that no longer match; none is added
    #[arg(long)]
    pub(crate) update_baseline: bool,

    /// Write comments that suppress the findings, `# gpulint: allow[RULE] REASON`, and report what is left. Where no comment
    /// can be written, a note says why; nothing else in the files changes
    #[arg(long, conflicts_with_all = ["fix", "unsafe_fixes", "diff", "no_suppressions", "write_baseline", "show_sets"])]
    pub(crate) add_suppressions: bool,

    /// The reason that --add-suppressions writes; it may begin with a last day, as in `until=2027-01-31 ticket 12`
    /// [default: was here before gpulint]
    #[arg(long, value_name = "TEXT", requires = "add_suppressions")]
    pub(crate) reason: Option<String>,

    /// Also report what comments and annotations suppress
    #[arg(long)]
    pub(crate) no_suppressions: bool,

    /// In SARIF, also write what comments and annotations suppress, marked as suppressed and with the reason.
    /// Code scanning of GitHub shows it as open
    #[arg(long, conflicts_with = "no_suppressions")]
    pub(crate) show_suppressed: bool,

    /// In text and concise, list findings by file, or by severity with errors last, above the table and
    /// the total [default: severity on a terminal, file elsewhere]
    #[arg(long, value_name = "BY", value_enum)]
    pub(crate) sort: Option<SortBy>,

    /// In text and concise, list findings below a heading for each rule or file
    #[arg(long, value_name = "BY", value_enum)]
    pub(crate) group_by: Option<GroupBy>,

    /// Print only a table of how many findings each rule has, and the total. In JSON it is `summary.rules`
    #[arg(long)]
    pub(crate) statistics: bool,

    /// Print the rules that took most time, on standard error
    #[arg(long)]
    pub(crate) timings: bool,

    /// List every finding: without it, text and concise show one of several that read the same, and of many that read
    /// alike, and where the others are
    #[arg(long)]
    pub(crate) no_fold: bool,

    /// In text, list the findings of severity info also in a report of more than 10 findings: without it, a line counts
    /// them by rule
    #[arg(long)]
    pub(crate) infos: bool,

    /// Show every finding in full: without it, text has the few most important findings with their
    /// excerpts, and a line for each of the others. Implies --infos and --no-fold
    #[arg(long)]
    pub(crate) all: bool,

    /// Report paths relative to this folder, such as the root of the repository
    #[arg(long, value_name = "DIR")]
    pub(crate) relative_to: Option<PathBuf>,

    /// Also check test data, archives and backups: in folders, gpulint skips `testdata`, tests beside
    /// the sources of a program, `archive`, `deprecated` and the like, unless a kustomization lists
    /// the file or `ignore` of the configuration excepts it with `!`
    #[arg(long)]
    pub(crate) no_default_ignore: bool,

    /// Succeed if no Kubernetes object is found
    #[arg(long)]
    pub(crate) allow_empty: bool,

    /// No summary and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Say which configuration judges which files, what is applied together, what was skipped and why, and
    /// which files were read as context
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// How many threads to use [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

impl CheckArgs {
    /// The highest safety of the fixes that are applied or shown.
    pub(crate) fn max_safety(&self) -> Safety {
        if self.unsafe_fixes { Safety::Unsafe } else { Safety::Safe }
    }
}

/// `gpulint why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The answer is that of Karpenter's scheduler for one pending pod on a new node, decided from the \
files alone: NodePools, EC2NodeClasses, DaemonSets and NodeOverlays below PATH. Every zone and \
capacity type is assumed to be available, and nothing to be running yet.

  gpulint why deployment/llm
  gpulint why ml/job/train manifests clusters/prod
  gpulint why serving.yaml:12 --pool gpu-spot
  kubectl get pod llm-0 -o json | gpulint why - nodepools.yaml

Exit codes: 0 every pod of the workload fits, 1 one does not, or may not, 2 bad usage, bad \
configuration, or no such workload or NodePool.")]
pub(crate) struct WhyArgs {
    /// The workload: KIND/NAME, NAMESPACE/KIND/NAME, FILE:LINE, or `-` to read it from standard input
    #[arg(value_name = "POD-OR-WORKLOAD")]
    pub(crate) pod: String,

    /// Files and folders with the workload and with everything that decides where its pods go
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Only this NodePool
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<String>,

    /// How to answer; `gpulint schema why` describes the JSON
    #[arg(long, short, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) format: ExplainFormat,

    /// What the files are.
    #[command(flatten)]
    pub(crate) set: SetArgs,
}

/// `gpulint pools`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For each NodePool, in the order in which Karpenter tries them: instance types, GPUs and prices, \
what its limits allow at most, the week of its disruption budgets, the workloads that keep its \
nodes from being drained, and the workloads whose pods land on it first. Prices are on-demand \
list prices. Limits bound what is started in one go, so that a batch of nodes can go beyond them.

With --capacity: whether all workloads fit at once, with the fewest replicas (`replicas`, or the \
minimum of the autoscaler) and with the most, packed as Karpenter packs pending pods: the largest \
first, on the nodes that are being started, otherwise on a new one. It begins without nodes and \
takes the cheapest type by list price. What Spot capacity EC2 has, and what else runs, is not known.

  gpulint pools clusters/prod
  gpulint pools --capacity clusters/prod

Exit codes: 0 done, 1 --capacity, and not everything fits or that is not known, 2 bad usage, bad \
configuration, or no NodePool found.")]
pub(crate) struct PoolsArgs {
    /// Files and folders with the NodePools and with what runs on them
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Whether all workloads fit at once, with the fewest and with the most replicas: nodes by type, and dollars an hour
    #[arg(long)]
    pub(crate) capacity: bool,

    /// How to answer; `gpulint schema pools` describes the JSON
    #[arg(long, short, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) format: ExplainFormat,

    /// What the files are.
    #[command(flatten)]
    pub(crate) set: SetArgs,
}

/// Options of the commands that explain a set of objects.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SetArgs {
    /// The configuration file, instead of the nearest gpulint.yaml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Without any configuration file
    #[arg(long, conflicts_with = "config")]
    pub(crate) isolated: bool,

    /// Karpenter's version, such as 1.14
    #[arg(long, value_name = "VERSION", value_parser = |text: &str| version(text, Product::Karpenter))]
    pub(crate) karpenter: Option<Version>,

    /// What Karpenter is set to.
    #[command(flatten)]
    pub(crate) settings: KarpenterArgs,

    /// The input is everything there is: what is not in it does not exist
    #[arg(long)]
    pub(crate) complete: bool,

    /// Charts and kustomizations as `helm template` and `kustomize build` print them
    /// [default: `render.enabled` of the configuration]
    #[arg(long)]
    pub(crate) render: bool,

    /// Only this set of manifests that are applied together (see gpulint check --show-sets) [default: each by itself]
    #[arg(long = "set", value_name = "NAME")]
    pub(crate) only: Option<String>,
}

/// An answer as text or as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Options for the rules to run, and the platform.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RuleArgs {
    /// The configuration file, instead of the nearest gpulint.yaml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Without any configuration file
    #[arg(long, conflicts_with = "config")]
    pub(crate) isolated: bool,

    /// Only these rules or groups, separated by commas; also those that the configuration turns off
    #[arg(long, value_name = "RULE", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = hint::hinted(hint::selectable, text))]
    pub(crate) select: Vec<String>,

    /// Without these rules or groups, separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = hint::hinted(hint::selectable, text))]
    pub(crate) ignore: Vec<String>,

    /// Karpenter's version, such as 1.14, instead of `platform.karpenter` of the configuration
    #[arg(long, value_name = "VERSION", value_parser = |text: &str| version(text, Product::Karpenter))]
    pub(crate) karpenter: Option<Version>,

    /// KEDA's version, such as 2.21, instead of `platform.keda`
    #[arg(long, value_name = "VERSION", value_parser = |text: &str| version(text, Product::Keda))]
    pub(crate) keda: Option<Version>,

    /// Kubernetes' version, such as 1.34, instead of `platform.kubernetes`
    #[arg(long, value_name = "VERSION", value_parser = |text: &str| version(text, Product::Kubernetes))]
    pub(crate) kubernetes: Option<Version>,

    /// What Karpenter is set to.
    #[command(flatten)]
    pub(crate) settings: KarpenterArgs,
}

/// `gpulint lsp`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "\
An editor starts this command and speaks the Language Server Protocol with it on standard input and \
output. Each folder of the editor is checked as `gpulint check` would check it there, with the texts \
of open files as they are in the editor. Charts and kustomizations are rendered in the background where \
the configuration says so (`render.enabled`), from the files as they were saved.")]
pub(crate) struct LspArgs {
    /// The configuration, and what it applies to.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// The folders are whole clusters: an object that is not in them does not exist
    #[arg(long)]
    pub(crate) complete: bool,

    /// Also what comments and annotations suppress
    #[arg(long)]
    pub(crate) no_suppressions: bool,

    /// On standard input and output, which is the only way; editors name it
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
}

/// `gpulint explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A rule, such as gpu-pool-untainted, a group of rules, such as nodepool, or a word, such as taint, whose rules are
    /// listed; without it, all rules are listed
    #[arg(value_name = "RULE|GROUP|WORD", hide_possible_values = true)]
    #[arg(value_parser = hint::hinted(hint::rules_and_groups, text))]
    pub(crate) rule: Option<String>,

    /// How to show it
    #[arg(long, short, value_enum, default_value_t = ManualFormat::Text)]
    pub(crate) format: ManualFormat,
}

/// A manual as text, as Markdown or as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManualFormat {
    /// For a terminal
    Text,
    /// As it is written
    Markdown,
    /// Everything about each rule, with its manual as Markdown
    Json,
}

/// `gpulint init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It sets the versions of Karpenter, KEDA and Kubernetes that charts (HelmRelease, Application, Chart.yaml), images, eksctl and \
Terraform pin. Everything else is a comment, to be uncommented where it fits: the sets of manifests, charts to render, the rules \
with most findings.

Exit codes: 0 done, 2 there is a configuration already, or it cannot be written.")]
pub(crate) struct InitArgs {
    /// The folder that gets the configuration; `-` is the current one with --print
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Write the configuration to standard output
    #[arg(long)]
    pub(crate) print: bool,

    /// Overwrite the configuration of the folder
    #[arg(long)]
    pub(crate) force: bool,
}

/// `gpulint config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is printed is a configuration with the place of each value: FILE:LINE, a flag, or `default`. Of the rules, those are \
printed that are not as they come; overrides that do not fit the path are left out.

  gpulint config --show clusters/prod/pool.yaml")]
pub(crate) struct ConfigArgs {
    /// The file or folder
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) path: PathBuf,

    /// Show it, which is what this command does also without the flag
    #[arg(long)]
    pub(crate) show: bool,

    /// Configuration, platform and rules.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// `gpulint rules`.
#[derive(Debug, clap::Args)]
pub(crate) struct RulesArgs {
    /// How to list them
    #[arg(long, short, value_enum, default_value_t = ListFormat::Text)]
    pub(crate) format: ListFormat,
}

/// `gpulint review`.
#[cfg(feature = "webhook")]
#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    /// The AdmissionReview as JSON; standard input if absent or `-`
    pub(crate) file: Option<PathBuf>,

    /// Answer as the mutating webhook: with the JSON Patch of the fixes it sends
    #[arg(long)]
    pub(crate) mutate: bool,

    /// The AdmissionReview of the answer, or what `kubectl` prints of it
    #[arg(long, short, value_enum, default_value_t = ExplainFormat::Json)]
    pub(crate) format: ExplainFormat,

    /// Configuration, platform and rules.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// `gpulint schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// What the schema describes
    #[arg(value_enum)]
    pub(crate) of: Schema,
}

/// `gpulint completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `gpulint docs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The pages are Markdown: one for each rule with what gpulint reports for its examples, one for each \
group, the reference of gpulint.yaml, the reference of the command line; and the JSON Schemas. The \
other pages of the manual are in docs/src of gpulint's repository, where mdBook makes a site of all.

  gpulint docs --out docs/src && mdbook build docs")]
pub(crate) struct DocsArgs {
    /// The folder to write to; files of the same names in it are replaced
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// In which order a report for people has its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Errors last; those of a rule together
    Severity,
    /// By file and line
    File,
}

/// What the findings below a heading have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// The rule
    Rule,
    /// The file
    File,
}

/// From which severity on a run fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors only
    Error,
    /// Warnings and errors
    Warning,
    /// Any finding
    Info,
    /// Findings never fail the run
    Never,
}

impl FailOn {
    /// The severity as in the settings: `None` for never.
    pub(crate) fn severity(self) -> Option<Severity> {
        match self {
            FailOn::Error => Some(Severity::Error),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Info => Some(Severity::Info),
            FailOn::Never => None,
        }
    }
}

/// From which severity on findings are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinSeverity {
    /// Errors only
    Error,
    /// Warnings and errors
    Warning,
    /// Every finding
    Info,
}

impl From<MinSeverity> for Severity {
    fn from(minimum: MinSeverity) -> Severity {
        match minimum {
            MinSeverity::Error => Severity::Error,
            MinSeverity::Warning => Severity::Warning,
            MinSeverity::Info => Severity::Info,
        }
    }
}

/// A list as text or as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// One rule a line
    Text,
    /// Everything about each rule but its manual
    Json,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// gpulint.yaml
    Config,
    /// The report of `gpulint check --format json`
    Diagnostics,
    /// The answer of `gpulint why --format json`
    Why,
    /// The overview of `gpulint pools --format json`
    Pools,
    /// The answer of `gpulint plan --format json`
    Plan,
}

/// Any text: what it names is looked up later.
fn text(value: &str) -> Result<String, std::convert::Infallible> {
    Ok(value.to_owned())
}

fn version(text: &str, product: Product) -> Result<Version, String> {
    let version = Version::parse(text)
        .ok_or_else(|| format!("a version looks like {}", Platform::default().version(product)))?;
    product.note_on(version).map(|_| version)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Args;

    #[test]
    fn the_arguments_hold_together() {
        Args::command().debug_assert();
    }
}
