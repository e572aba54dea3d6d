//! The commands that a result asks for, which a report for people ends in.

use std::path::{Path, PathBuf};

use gpulint_rules::{Finding, Safety, Severity, Version};

use crate::args::CheckArgs;
use crate::files::display_path;
use crate::report::{Report, shell_word, writable};
use crate::terminal::count;

/// Maximum number of errors and warnings for which no baseline is offered.
const MANY: usize = 20;
/// Maximum number of findings for which no configuration is offered.
const MANY_OF_ALL: usize = 40;
const BASELINE: &str = "gpulint-baseline.yaml";

/// The commands for the next step, each with what it is for. They read what this run read, under the same versions.
/// `is_configured` says whether a configuration was found.
pub(super) fn steps(args: &CheckArgs, report: &Report, is_configured: bool) -> Vec<(String, String)> {
    let is_read_once = |path: &PathBuf| !path.is_file() && !path.is_dir();
    let is_report = !args.fix && !args.diff && !args.statistics && !args.add_suppressions;
    if !is_report || args.write_baseline.is_some() || args.paths.iter().any(is_read_once) {
        return Vec::new();
    }
    let summary = &report.summary;
    let mut steps = Vec::new();
    if let Some(workload) = report.findings.iter().rev().find_map(homeless) {
        let what = "what keeps its pods out of each NodePool".to_owned();
        let words = [shell_word(&workload)].into_iter().chain(platform(args)).chain(around(args));
        steps.push((command("why", words), what));
    }
    // Both would also change what was there before.
    if args.since.is_some() {
        return steps;
    }
    let input = || selection(args).chain(platform(args)).chain(paths(&args.paths));
    if let Some(fixable) = safely_fixable(report) {
        let words = ["--fix".to_owned()].into_iter().chain(input());
        steps.push((command("check", words), format!("repairs {fixable}")));
    }
    let is_free = !is_configured && args.rules.config.is_none() && !args.rules.isolated;
    let all = summary.errors + summary.warnings + summary.infos;
    if let ([folder], true) = (args.paths.as_slice(), is_free && all > MANY_OF_ALL)
        && folder.is_dir()
    {
        let what = "writes gpulint.yaml with the versions that run".to_owned();
        steps.push((command("init", paths(&args.paths)), what));
    }
    let has_baseline = args.baseline.is_some() || summary.baselined > 0;
    if !has_baseline && summary.errors + summary.warnings > MANY {
        let words = ["--write-baseline".to_owned(), BASELINE.to_owned()].into_iter().chain(input());
        steps.push((command("check", words), format!("then --baseline {BASELINE} reports only what is new")));
    }
    steps
}

fn command(name: &str, words: impl Iterator<Item = String>) -> String {
    words.fold(format!("gpulint {name}"), |command, word| format!("{command} {word}"))
}

/// The findings that `--fix` repairs: `2 errors and 12 infos`.
fn safely_fixable(report: &Report) -> Option<String> {
    let is_safe = |finding: &&Finding| writable(finding) == Some(Safety::Safe);
    let safe: Vec<Severity> =
        report.findings.iter().filter(is_safe).map(|finding| finding.severity).collect();
    let counts = [Severity::Error, Severity::Warning, Severity::Info].into_iter().filter_map(|severity| {
        let number = safe.iter().filter(|one| **one == severity).count();
        (number > 0).then(|| count(number, severity.name()))
    });
    match counts.collect::<Vec<_>>().as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        [all @ .., last] => Some(format!("{} and {last}", all.join(", "))),
    }
}

/// The workload of a finding that says that its pods fit no NodePool, as `gpulint why` takes it.
fn homeless(finding: &Finding) -> Option<String> {
    let object = finding.location.object().filter(|_| finding.rule.id == "pod-fits-no-pool")?;
    let id = object.id();
    let workload = format!("{}/{}", id.kind.to_ascii_lowercase(), id.name);
    let named = match id.namespace() {
        Some(namespace) => format!("{namespace}/{workload}"),
        None => workload,
    };
    (!id.name.is_empty()).then_some(named)
}

/// The paths of a command whose default is the current folder.
fn paths(all: &[PathBuf]) -> impl Iterator<Item = String> {
    let is_here = all == [Path::new(".")];
    all.iter().filter(move |_| !is_here).map(|path| shell_word(&display_path(path)))
}

/// What decides where pods go: what was checked, with its context. What is read beside single files is not known here, so
/// that the current folder takes their place.
fn around(args: &CheckArgs) -> Vec<String> {
    let are_files = !args.no_context && !args.paths.iter().any(|path| path.is_dir());
    match args.context.is_empty() && are_files {
        true => Vec::new(),
        false => paths(&args.paths).chain(paths(&args.context)).collect(),
    }
}

fn flag(name: &str, is_given: bool) -> Option<String> {
    is_given.then(|| format!("--{name}"))
}

/// An option whose values are separated by commas.
fn option(name: &str, values: impl Iterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| format!("--{name} {}", values.join(",")))
}

fn version(name: &str, version: Option<Version>) -> Option<String> {
    option(name, version.into_iter().map(|version| version.to_string()))
}

/// The options that `check` has in common with `why`.
fn platform(args: &CheckArgs) -> impl Iterator<Item = String> {
    let rules = &args.rules;
    let gates = rules.settings.feature_gates.iter().map(|(gate, is_on)| format!("{gate}={is_on}"));
    let policy = rules.settings.min_values_policy.iter().map(|policy| policy.name().to_owned());
    [
        option("config", rules.config.iter().map(|path| shell_word(&display_path(path)))),
        flag("isolated", rules.isolated),
        version("karpenter", rules.karpenter),
        option("feature-gates", gates),
        option("min-values-policy", policy),
        flag("complete", args.complete),
        flag("render", args.render),
    ]
    .into_iter()
    .flatten()
}

/// The options of `check` that decide what is checked, and by which rules.
fn selection(args: &CheckArgs) -> impl Iterator<Item = String> {
    let rules = &args.rules;
    let each = |name: &'static str, paths: &[PathBuf]| -> Vec<String> {
        paths.iter().map(|path| format!("--{name} {}", shell_word(&display_path(path)))).collect()
    };
    [
        option("select", rules.select.iter().cloned()),
        option("ignore", rules.ignore.iter().cloned()),
        version("keda", rules.keda),
        version("kubernetes", rules.kubernetes),
        flag("no-context", args.no_context),
        flag("no-default-ignore", args.no_default_ignore),
    ]
    .into_iter()
    .flatten()
    .chain(each("crds", &args.crds))
    .chain(each("context", &args.context))
}
