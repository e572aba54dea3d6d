//! The commands that a result asks for, which a report for people ends in.

use gpulint_rules::Finding;

use crate::args::CheckArgs;
use crate::report::{Report, cost, shell_word};

/// Minimum number of findings for which a baseline is offered, and fixes are.
const MANY: usize = 20;
/// Maximum number of commands.
const MAX_STEPS: usize = 3;

/// At most three commands for the next step, each with what it is for.
pub(super) fn steps(args: &CheckArgs, report: &Report) -> Vec<(String, String)> {
    if args.fix || args.diff || args.statistics || args.add_suppressions || args.write_baseline.is_some() {
        return Vec::new();
    }
    let paths: String = args
        .paths
        .iter()
        .filter(|path| *path.as_os_str() != *".")
        .fold(String::new(), |all, path| format!("{all} {}", shell_word(&path.to_string_lossy())));
    let summary = &report.summary;
    let many = report.findings.len() > MANY;
    let mut steps = Vec::new();
    if let Some(workload) = report.findings.iter().rev().find_map(homeless) {
        let what = "what keeps its pods out of each NodePool".to_owned();
        steps.push((format!("gpulint why {}{paths}", shell_word(&workload)), what));
    }
    if many && summary.safely_fixable > 0 {
        let what = format!("repairs {} of them, and changes nothing else", summary.safely_fixable);
        steps.push((format!("gpulint check --fix{paths}"), what));
    }
    if many && summary.baselined == 0 && summary.errors + summary.warnings > MANY {
        let what = "from then on only what is new is reported".to_owned();
        steps.push((format!("gpulint check --write-baseline gpulint-baseline.yaml{paths}"), what));
    }
    let key = |finding: &&Finding| (finding.severity, cost(finding.rule.group));
    if many && let Some(worst) = report.findings.iter().max_by_key(key) {
        steps.push((format!("gpulint explain {}", worst.rule.id), "why, and what to do".to_owned()));
    }
    steps.truncate(MAX_STEPS);
    steps
}

/// The workload of a finding that says that its pods fit no NodePool, as `gpulint why` takes it.
fn homeless(finding: &Finding) -> Option<String> {
    let object = finding.location.object().filter(|_| finding.rule.id == "pod-fits-no-pool")?;
    let id = object.id();
    Some(format!("{}/{}", id.kind.to_ascii_lowercase(), id.name))
}
