//! A page for every rule and every group, from the rule table.

use gpulint_rules::facts::date::Date;
use gpulint_rules::lint::config::Config;
use gpulint_rules::lint::fix::REPLACES_NODES_NOTE;
use gpulint_rules::source::Source;
use gpulint_rules::{
    CustomResourceDefinitions, Engine, File, Finding, Group, ParamDefault, Partition, RULES, Rule, RunInput,
    Safety, Settings, check_run,
};

use crate::markdown::wrap;

use super::{Page, cell, prose};

/// The text that marks the line of a finding in the manual of a rule.
const MARK: &str = "# <-";
/// Width in columns of gpulint's output on the pages.
const WIDTH: usize = 80;

pub(super) fn pages() -> Vec<Page> {
    let mut pages = vec![("rules/index.md".to_owned(), index())];
    for group in Group::ALL {
        pages.push((format!("groups/{}.md", group.name()), group_page(*group)));
    }
    pages.extend(RULES.iter().map(|rule| (format!("rules/{}.md", rule.id), page(rule))));
    pages
}

fn index() -> String {
    let mut out = format!(
        "# Rules\n\n{} rules. `gpulint explain RULE` prints the page of a rule in the terminal. A safe fix is \
         applied with `--fix`, an unsafe one with `--fix --unsafe-fixes`.\n",
        RULES.len()
    );
    for group in Group::ALL {
        let name = group.name();
        out.push_str(&format!("\n## [{name}](../groups/{name}.md)\n\n"));
        out.push_str(&format!("{}.\n\n", prose(group.description())));
        table(&mut out, *group, "");
    }
    out
}

fn group_page(group: Group) -> String {
    let name = group.name();
    let mut out = format!("# {name}\n\nRules about {}.\n\n", prose(group.description()));
    table(&mut out, group, "../rules/");
    out.push_str(&format!(
        "\n`gpulint check --select {name}` runs these rules alone, `--ignore {name}` all others; `{name}` in \
         [`rules`](../reference/configuration.md#rules) of `gpulint.yaml` sets them together.\n"
    ));
    out
}

fn table(out: &mut String, group: Group, to: &str) {
    out.push_str("| rule | severity | fix | finds |\n|---|---|---|---|\n");
    for rule in RULES.iter().filter(|rule| rule.group == group) {
        out.push_str(&format!(
            "| [`{id}`]({to}{id}.md) | {} | {} | {} |\n",
            rule.severity.name(),
            rule.fix.map(Safety::name).unwrap_or_default(),
            cell(&prose(rule.summary())),
            id = rule.id,
        ));
    }
}

fn page(rule: &'static Rule) -> String {
    let mut out = format!("# {}\n\n", rule.id);
    let group = rule.group.name();
    let mut facts = vec![
        format!("group [{group}](../groups/{group}.md)"),
        rule.severity.name().to_owned(),
        match rule.fix.map(Safety::name) {
            Some(safety) => format!("{safety} fix"),
            None => "no fix".to_owned(),
        },
        format!("since {}", rule.since),
    ];
    if !rule.rejected_by.is_empty() {
        let by: Vec<&str> = rule.rejected_by.iter().map(|authority| authority.display_name()).collect();
        facts.push(format!("rejected by {}", by.join(", ")));
    }
    out.push_str(&format!("*{}*\n\n", facts.join(" · ")));
    manual(&mut out, rule);
    if !rule.params.is_empty() {
        out.push_str("\n## Parameters\n\n| parameter | default | |\n|---|---|---|\n");
        for param in rule.params {
            let default = match param.default {
                ParamDefault::Int { default, min, max } => format!("`{default}`, from {min} to {max}"),
                ParamDefault::Strings(list) => format!("`[{}]`", list.join(", ")),
            };
            out.push_str(&format!(
                "| `{}` | {default} | {} |\n",
                param.name,
                cell(&prose(param.description))
            ));
        }
    }
    out.push_str(&format!(
        "\n## Turning it off\n\n`{id}: off` below [`rules`](../reference/configuration.md#rules) in \
         `gpulint.yaml`, or for one finding the comment `# gpulint: allow[{id}]` above its line, with the reason; see \
         [Findings and suppressions](../findings.md#suppressing-a-finding).\n",
        id = rule.id
    ));
    out
}

/// Writes the manual with links to other rules, and with the findings in its bad examples.
fn manual(out: &mut String, rule: &'static Rule) {
    let text = rule.markdown();
    let definitions = definitions(&text);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            example(out, rule, kind, &body, &definitions);
        } else if let Some(heading) = line.strip_prefix('#') {
            out.push_str(&format!("##{heading}\n"));
        } else {
            out.push_str(&linked(line, rule));
            out.push('\n');
        }
    }
}

/// The CustomResourceDefinitions in a manual, with which its examples are checked.
fn definitions(manual: &str) -> String {
    let mut out = String::new();
    let mut open = false;
    for line in manual.lines() {
        if line == "```yaml,crd" {
            open = true;
            out.push_str("---\n");
        } else if line.starts_with("```") {
            open = false;
        } else if open {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn example(out: &mut String, rule: &'static Rule, kind: &str, body: &[&str], definitions: &str) {
    let language = match kind {
        "yaml,diff" => "diff",
        "week" => "text",
        other => other.split(',').next().unwrap_or_default(),
    };
    out.push_str(&format!("```{language}\n"));
    for line in body {
        let shown = line.strip_suffix(MARK).map_or(*line, str::trim_end);
        out.push_str(&format!("{shown}\n"));
    }
    out.push_str("```\n");
    let bad: String = match kind {
        "yaml,bad" => body.iter().map(|line| format!("{line}\n")).collect(),
        "yaml,diff" => body
            .iter()
            .filter(|line| !line.starts_with('+'))
            .map(|line| format!("{}\n", line.get(1..).unwrap_or_default()))
            .collect(),
        _ => return,
    };
    let findings = findings(rule, &format!("{bad}{definitions}"));
    if findings.is_empty() {
        return;
    }
    let of = if kind == "yaml,diff" { "before the change" } else { "here" };
    out.push_str(&format!("\nWhat gpulint reports {of}:\n\n```text\n"));
    for (at, finding) in findings.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        frame(out, finding);
    }
    out.push_str("```\n");
}

/// The findings of a rule in a text, on the date of the manual.
fn findings(rule: &'static Rule, text: &str) -> Vec<Finding> {
    let file = File::read(Source::from_text("example.yaml", text));
    // The rules on suppressions need the results of the suppressed rules.
    let select = if rule.group == Group::Suppression { Vec::new() } else { vec![rule.id.to_owned()] };
    // The first line of an example may set the platform or declare that it is a whole cluster.
    let platform = text.lines().next().and_then(|line| line.strip_prefix("# platform:"));
    let platform =
        platform.and_then(|rest| Config::parse("gpulint.yaml", &format!("platform:{rest}\n")).ok());
    let engine = Engine::new(Settings {
        platform: platform.map(|config| config.resolve().platform).unwrap_or_default(),
        complete: text.starts_with("# gpulint check --complete\n"),
        definitions: CustomResourceDefinitions::new(&file.objects).unwrap_or_default(),
        select,
        today: Date::parse("2026-01-01"),
        ..Settings::default()
    });
    let input = RunInput { engine: &engine, file: &file };
    let reports = check_run(&[Some(input)], &Partition::default(), None);
    let findings = reports.into_iter().flatten().flat_map(|report| report.findings);
    findings.filter(|finding| finding.rule.id == rule.id).collect()
}

/// Writes a finding with its line, as in the text report.
fn frame(out: &mut String, finding: &Finding) {
    let head = format!("{}[{}]: {}", finding.severity.name(), finding.rule.id, finding.message);
    out.push_str(&format!("{}\n", wrap(&head, WIDTH).join("\n  ")));
    if let Some((source, _, span)) = finding.location.resolve_span() {
        let start = source.lines().position(source.text(), span.start);
        let line = source.text().lines().nth(start.line as usize - 1).unwrap_or_default();
        let line = line.strip_suffix(MARK).map_or(line, str::trim_end);
        let number = start.line.to_string();
        let before = start.column as usize - 1;
        let length = source.text().get(span.start as usize..span.end as usize).unwrap_or_default();
        let rest = line.chars().count().saturating_sub(before).max(1);
        let length = length.lines().next().unwrap_or_default().chars().count().clamp(1, rest);
        let margin = " ".repeat(number.len());
        out.push_str(&format!(" {number} | {line}\n"));
        out.push_str(&format!(" {margin} | {}{}\n", " ".repeat(before), "^".repeat(length)));
    }
    for related in &finding.related {
        if let Some((source, _, span)) = related.location.resolve_span() {
            let at = source.lines().position(source.text(), span.start);
            out.push_str(&format!("  line {}: {}\n", at.line, related.message));
        }
    }
    if let Some(help) = &finding.help {
        labelled(out, "help", help);
    }
    if let Some(fix) = &finding.fix {
        let safety = fix.safety.name();
        let nodes = if fix.replaces_nodes { format!(", {REPLACES_NODES_NOTE}") } else { String::new() };
        labelled(out, "fix", &format!("{} ({safety}{nodes})", fix.title));
    }
}

fn labelled(out: &mut String, label: &str, text: &str) {
    let indent = " ".repeat(label.len() + 4);
    for (at, line) in wrap(text, WIDTH - indent.len()).iter().enumerate() {
        match at {
            0 => out.push_str(&format!("  {label}: {line}\n")),
            _ => out.push_str(&format!("{indent}{line}\n")),
        }
    }
}

/// Links the names of other rules in a line to their pages.
fn linked(line: &str, rule: &Rule) -> String {
    let mut out = line.to_owned();
    for other in RULES.iter().filter(|other| other.id != rule.id) {
        let code = format!("`{}`", other.id);
        if out.contains(&code) {
            out = out.replace(&code, &format!("[{code}]({}.md)", other.id));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{RULES, find_rule};

    use super::{MARK, page, pages};

    #[test]
    fn every_page_says_what_is_found_in_its_bad_example() {
        let mut silent = Vec::new();
        for rule in RULES {
            if !page(rule).contains(&format!("[{}]: ", rule.id)) {
                silent.push(rule.id);
            }
        }
        // One is too large for a manual, the other cannot be caused by a text.
        assert_eq!(silent, ["render-failed", "step-limit-exceeded"]);
    }

    #[test]
    fn a_page_is_the_manual_with_its_findings() {
        let page = page(find_rule("gpu-pool-untainted").unwrap());
        for part in [
            "# gpu-pool-untainted\n\n*group [nodepool](../groups/nodepool.md) · error · unsafe fix · since 0.1.0*\n",
            "\n## Why\nWithout a NoSchedule",
            "\n     spec:\n",
            "\n+      taints:\n",
            "error[gpu-pool-untainted]: GPU pool `gpu-inference` has no taint",
            " 6 |     spec:\n   |     ^^^^\n  help: add the taint",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("# <-"));
    }

    #[test]
    fn no_line_holds_a_mark_or_a_comment_of_the_source() {
        for (name, text) in pages() {
            let is_marked = text.lines().any(|line| line.ends_with(MARK));
            assert!(!text.contains("//!") && !is_marked, "{name}");
        }
    }
}
