//! The total of a report as text.

use crate::files::SkipReason;
use crate::terminal::{count, printable};

use super::Summary;

/// The total: `3 errors, 1 warning in 2 files (5 objects); 1 skipped: --verbose lists them`.
pub(crate) fn summary_line(summary: &Summary) -> String {
    let found: Vec<String> =
        [(summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| count(n, what))
            .collect();
    let of = format!("in {} ({})", count(summary.files, "file"), count(summary.objects, "object"));
    let mut line = match found.as_slice() {
        [] if summary.files == 0 && summary.known + summary.baselined == 0 => {
            "nothing was checked".to_owned()
        }
        [] => format!("no findings {of}"),
        found => format!("{} {of}", found.join(", ")),
    };
    if let Some(fixed) = summary.fixed {
        let left = summary.errors + summary.warnings + summary.infos;
        line.insert_str(0, &format!("{fixed} fixed, {left} left: "));
    }
    // Findings that remain after fixing cannot be fixed.
    let was_fixed = summary.fixed.is_some();
    let (safe, more) = (summary.safely_fixable, summary.fixable - summary.safely_fixable);
    let (safe, more) = match (was_fixed, summary.with_unsafe) {
        (true, true) => (0, 0),
        (true, false) => (0, more),
        (false, true) => (0, safe + more),
        (false, false) => (safe, more),
    };
    match (safe, more) {
        (0, 0) => {}
        (safe, 0) => line.push_str(&format!("; {safe} fixable with --fix")),
        (0, more) => line.push_str(&format!("; {more} fixable with --fix --unsafe-fixes")),
        (safe, more) => {
            line.push_str(&format!("; {safe} fixable with --fix, {more} more with --fix --unsafe-fixes"));
        }
    }
    let hidden: Vec<String> = (summary.hidden.iter().zip(["error", "warning", "info"]))
        .filter(|(n, _)| **n > 0)
        .map(|(n, what)| count(*n, what))
        .collect();
    if !hidden.is_empty() {
        line.push_str(&format!("; {} below --min-severity", hidden.join(", ")));
    }
    if summary.suppressed > 0 {
        line.push_str(&format!("; {} suppressed", summary.suppressed));
    }
    if summary.baselined > 0 {
        line.push_str(&format!("; {} in the baseline", summary.baselined));
    }
    if let Some(since) = &summary.since {
        line.push_str(&format!("; {} there before `{}`", summary.known, printable(since, false)));
    }
    // The configuration of gpulint is not counted as skipped.
    let skipped = |of: &dyn Fn(SkipReason) -> bool| summary.skipped.iter().filter(|s| of(s.reason)).count();
    let unapplied = |reason| matches!(reason, SkipReason::TestData | SkipReason::Archived);
    match skipped(&unapplied) {
        0 => {}
        n => line.push_str(&format!(
            "; {} of tests and archives skipped: --no-default-ignore checks them",
            count(n, "file")
        )),
    }
    match skipped(&|reason| reason != SkipReason::Config && !unapplied(reason)) {
        0 => {}
        n => line.push_str(&format!("; {n} skipped: --verbose lists them")),
    }
    line
}

/// The lines about files that may hold manifests and were not read: how many there are, and what would read them. Those that the
/// same would read are in one line.
pub(crate) fn unread_lines(summary: &Summary) -> Vec<String> {
    let mut unread: Vec<(&str, Vec<String>)> = Vec::new();
    for (reason, number) in &summary.unread {
        let what = match reason {
            SkipReason::Terraform => "Terraform file",
            SkipReason::TerraformTemplate => "Terraform template",
            SkipReason::Template => "template",
            SkipReason::JinjaTemplate => "Jinja template",
            SkipReason::YttTemplate => "ytt template",
            SkipReason::Script => "script",
            _ => "archive",
        };
        let (mut files, remedy) = (count(*number, what), reason.remedy().unwrap_or_default());
        files.push_str(match reason {
            SkipReason::Script => " with manifests",
            // Manifests in heredocs are read.
            SkipReason::Terraform => " without manifests in heredocs",
            _ => "",
        });
        match unread.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, all)) => all.push(files),
            None => unread.push((remedy, vec![files])),
        }
    }
    let unread = unread.iter().map(|(remedy, files)| format!("{} not read: {remedy}", files.join(" and ")));
    unrendered_line(summary)
        .into_iter()
        .chain(unbuilt_line(summary))
        .chain(unread)
        .chain(charts_line(summary))
        .collect()
}

/// A line for charts whose values ask for accelerators: `values of 2 charts not read: ray-cluster, vllm-stack; pipe …`.
fn charts_line(summary: &Summary) -> Option<String> {
    const MOST: usize = 3;
    let names: Vec<String> =
        summary.charts.iter().take(MOST).map(|name| printable(name, false).into_owned()).collect();
    let more = if summary.charts.len() > MOST { ", …" } else { "" };
    (!names.is_empty()).then(|| {
        let charts = count(summary.charts.len(), "chart");
        format!(
            "values of {charts} that ask for accelerators not read: {}{more}; pipe the rendered manifests to gpulint check -",
            names.join(", ")
        )
    })
}

/// A hint on templates:
/// `29 Helm templates not rendered: add --render, or helm template . | gpulint check -`; `None` if
/// there are none.
fn unrendered_line(summary: &Summary) -> Option<String> {
    let (first, _) = summary.unrendered.first_key_value()?;
    let templates = count(summary.unrendered.values().sum(), "Helm template");
    if summary.render_failed {
        return Some(format!("{templates} not rendered: see the findings of render-failed"));
    }
    Some(match summary.unrendered.len() {
        1 => format!(
            "{templates} not rendered: add --render, or helm template {} | gpulint check -",
            shell_word(first)
        ),
        charts => {
            format!(
                "{templates} of {charts} charts not rendered: add --render, or for each, helm template CHART | gpulint check -"
            )
        }
    })
}

/// A hint on kustomizations whose patches may cure findings.
fn unbuilt_line(summary: &Summary) -> Option<String> {
    let kustomizations = count(summary.unbuilt, "kustomization");
    (summary.unbuilt > 0)
        .then(|| format!("{kustomizations} with patches not built, which may cure findings: add --render"))
}

/// A word of a command as a shell takes it.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+@".contains(c);
    let word = if text.chars().all(plain) && !text.starts_with('-') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    };
    printable(&word, false).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{SkipReason, Summary, summary_line, unread_lines, unrendered_line};

    #[test]
    fn a_command_renders_the_chart() {
        let line = |charts: &[(&str, usize)]| {
            let unrendered = charts.iter().map(|(chart, n)| ((*chart).to_owned(), *n)).collect();
            unrendered_line(&Summary { unrendered, ..Summary::default() })
        };
        assert_eq!(line(&[]), None);
        let failed =
            Summary { unrendered: [(".".to_owned(), 1)].into(), render_failed: true, ..Summary::default() };
        let said = unrendered_line(&failed).unwrap();
        assert_eq!(said, "1 Helm template not rendered: see the findings of render-failed");
        let one = line(&[(".", 1)]).unwrap();
        assert_eq!(one, "1 Helm template not rendered: add --render, or helm template . | gpulint check -");
        let quoted = line(&[("it's a", 29)]).unwrap();
        assert_eq!(
            quoted,
            "29 Helm templates not rendered: add --render, or helm template 'it'\\''s a' | gpulint check -"
        );
        let two = line(&[("a", 2), ("b", 3)]).unwrap();
        assert_eq!(
            two,
            "5 Helm templates of 2 charts not rendered: add --render, or for each, helm template CHART | gpulint check -"
        );
    }

    #[test]
    fn patches_that_may_cure_findings_are_counted() {
        let said = |unbuilt| unread_lines(&Summary { unbuilt, ..Summary::default() });
        assert_eq!(said(0), Vec::<String>::new());
        assert_eq!(
            said(1),
            ["1 kustomization with patches not built, which may cure findings: add --render"]
        );
        assert_eq!(
            said(2),
            ["2 kustomizations with patches not built, which may cure findings: add --render"]
        );
    }

    #[test]
    fn charts_whose_values_are_not_read_are_named() {
        let mut summary = Summary::default();
        let said = |summary: &Summary| unread_lines(summary).join("; ");
        assert_eq!(said(&summary), "");
        summary.charts.insert("ray-cluster".to_owned());
        assert_eq!(
            said(&summary),
            "values of 1 chart that ask for accelerators not read: ray-cluster; pipe the rendered manifests to gpulint check -"
        );
    }

    #[test]
    fn files_that_the_same_would_read_are_in_one_line() {
        let mut summary = Summary::default();
        let unread =
            [(SkipReason::Terraform, 2), (SkipReason::TerraformTemplate, 1), (SkipReason::JinjaTemplate, 3)];
        summary.unread.extend(unread);
        summary.unread.insert(SkipReason::Script, 3);
        let mut lines = unread_lines(&summary);
        lines.sort();
        assert_eq!(
            lines,
            [
                "1 Terraform template and 3 Jinja templates not read: pipe the rendered manifests to gpulint check -",
                "2 Terraform files without manifests in heredocs and 3 scripts with manifests not read: pipe the applied manifests to gpulint check -",
            ]
        );
    }

    #[test]
    fn the_summary_counts_in_words() {
        let mut summary = Summary { files: 2, objects: 5, ..Summary::default() };
        assert_eq!(summary_line(&summary), "no findings in 2 files (5 objects)");
        assert_eq!(summary_line(&Summary::default()), "nothing was checked");
        summary.errors = 3;
        summary.warnings = 1;
        summary.files = 1;
        assert_eq!(summary_line(&summary), "3 errors, 1 warning in 1 file (5 objects)");
    }

    #[test]
    fn the_summary_says_how_to_fix() {
        let said = |fixable, safely_fixable, with_unsafe, fixed| {
            let summary = Summary { fixable, safely_fixable, with_unsafe, fixed, ..Summary::default() };
            let line = summary_line(&summary);
            line.split_once("; ").map(|(_, fixes)| fixes.to_owned()).unwrap_or_default()
        };
        assert_eq!(said(5, 2, false, None), "2 fixable with --fix, 3 more with --fix --unsafe-fixes");
        assert_eq!(said(2, 2, false, None), "2 fixable with --fix");
        assert_eq!(said(3, 0, false, None), "3 fixable with --fix --unsafe-fixes");
        assert_eq!(said(5, 2, true, None), "5 fixable with --fix --unsafe-fixes");
        // Findings that remain after --fix cannot be fixed by it.
        assert_eq!(said(5, 2, false, Some(7)), "3 fixable with --fix --unsafe-fixes");
        assert_eq!(said(5, 2, true, Some(7)), "");
    }
}
