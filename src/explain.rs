//! `gpulint explain` and `gpulint rules`: prints the rule table, as text and as JSON.

use std::process::ExitCode;

use gpulint_rules::facts::suggest::nearest;
use gpulint_rules::{Check, ParamDefault, RULES, Rule, Safety, find_rule};
use serde_json::{Value, json};

use crate::args::{Color, ExplainArgs, ListFormat, RulesArgs};
use crate::error::CliError;
use crate::terminal::RenderOptions;
use crate::{markdown, output};

/// Shows a rule's manual page.
pub(crate) fn explain(args: &ExplainArgs, color: Color) -> Result<ExitCode, CliError> {
    let id = args.rule.as_str();
    let Some(rule) = find_rule(id) else {
        let hint = match nearest(id, RULES.iter().map(|rule| rule.id)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`gpulint rules` lists all".to_owned(),
        };
        return Err(CliError::Usage(format!("there is no rule `{id}`; {hint}")));
    };
    let page = markdown::render(&page(rule), RenderOptions::for_stdout(color));
    output::to_stdout(|out| Ok(out.write_all(page.as_bytes())?))?;
    Ok(ExitCode::SUCCESS)
}

/// The manual page with the metadata of the rule table.
fn page(rule: &Rule) -> String {
    let mut facts = vec![
        format!("group {}", rule.group.name()),
        rule.severity.name().to_owned(),
        format!("since {}", rule.since),
    ];
    facts.extend(fix(rule).map(|safety| format!("{safety} fix")));
    let mut page = format!("# {}\n{}\n\n", rule.id, facts.join(", "));
    page.push_str(&rule.markdown());
    if !rule.rejected_by.is_empty() {
        let by: Vec<&str> = rule.rejected_by.iter().map(|a| a.display_name()).collect();
        page.push_str(&format!("\n# Refused by\n\n{}\n", by.join(", ")));
    }
    if !rule.params.is_empty() {
        page.push_str("\n# Settings\n");
        for param in rule.params {
            let (default, bounds) = match param.default {
                ParamDefault::Int { default, min, max } => {
                    (default.to_string(), format!(", from {min} to {max}"))
                }
                ParamDefault::Strings(list) => (format!("[{}]", list.join(", ")), String::new()),
            };
            let (name, about) = (param.name, param.description);
            page.push_str(&format!("- {name}: {about} (default {default}{bounds})\n"));
        }
    }
    page
}

fn fix(rule: &Rule) -> Option<&'static str> {
    rule.fix.map(|safety| match safety {
        Safety::Safe => "safe",
        Safety::Unsafe => "unsafe",
    })
}

/// Lists all rules.
pub(crate) fn rules(args: &RulesArgs) -> Result<ExitCode, CliError> {
    let text = match args.format {
        ListFormat::Text => list(),
        ListFormat::Json => {
            let rules: Vec<Value> = RULES.iter().map(|rule| describe(rule)).collect();
            let mut text = serde_json::to_string_pretty(&rules)?;
            text.push('\n');
            text
        }
    };
    output::to_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let width = RULES.iter().map(|r| r.id.len()).max().unwrap_or_default();
    let mut out = String::new();
    let mut group = None;
    for rule in RULES {
        if group != Some(rule.group) {
            if group.is_some() {
                out.push('\n');
            }
            let (name, about) = (rule.group.name(), rule.group.description());
            out.push_str(&format!("{name}: {about}\n"));
            group = Some(rule.group);
        }
        out.push_str(&format!("  {:width$}  {:7}  {}\n", rule.id, rule.severity.name(), rule.summary()));
    }
    out.push_str("\n`gpulint explain RULE` prints a rule's manual: why, what to write, examples\n");
    out
}

fn describe(rule: &Rule) -> Value {
    let kinds = |kinds: &[gpulint_rules::Kind]| -> Vec<Value> {
        kinds.iter().map(|k| json!({"group": k.group, "kind": k.kind})).collect()
    };
    let params: Vec<Value> = rule
        .params
        .iter()
        .map(|param| match param.default {
            ParamDefault::Int { default, min, max } => json!({
                "name": param.name, "about": param.description, "type": "integer",
                "default": default, "minimum": min, "maximum": max,
            }),
            ParamDefault::Strings(list) => json!({
                "name": param.name, "about": param.description, "type": "strings", "default": list,
            }),
        })
        .collect();
    json!({
        "id": rule.id,
        "group": rule.group.name(),
        "severity": rule.severity.name(),
        "since": rule.since,
        "summary": rule.summary(),
        "checks": match rule.check { Check::Builtin => "reader", _ => "object" },
        "kinds": kinds(rule.kinds()),
        "reads": kinds(rule.reads),
        "params": params,
        "refusedBy": rule.rejected_by.iter().map(|a| a.name()).collect::<Vec<_>>(),
        "fix": fix(rule),
        "url": rule.url(),
    })
}

#[cfg(test)]
mod tests {
    use gpulint_rules::RULES;

    use super::page;
    use crate::markdown;
    use crate::terminal::RenderOptions;

    /// Code keeps its line breaks, and a few lines of it are longer; URLs cannot be broken. Everything else
    /// must fit.
    #[test]
    fn every_page_fits_a_terminal_of_80_columns() {
        let look = RenderOptions { color: false, unicode: true, width: 80 };
        let mut wrong = Vec::new();
        for rule in RULES {
            for line in markdown::render(&page(rule), look).lines() {
                let code = line.starts_with(markdown::CODE);
                let room = if code { 88 } else { 80 };
                let width = line.chars().count();
                if width > room && !line.contains("https://") {
                    wrong.push(format!("{}: {width} columns: {line}", rule.id));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    }
}
