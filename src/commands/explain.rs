//! `gpulint explain` and `gpulint rules`: prints the manual and the rule table, as text and as JSON.

use std::process::ExitCode;

use gpulint_rules::facts::suggest::nearest;
use gpulint_rules::{Check, Group, ParamDefault, RULES, Rule, Safety, find_rule};
use serde_json::{Value, json};

use crate::args::{Color, ExplainArgs, ListFormat, ManualFormat, RulesArgs};
use crate::error::CliError;
use crate::terminal::RenderOptions;
use crate::{markdown, output};

/// Shows the manual page of a rule, or lists the rules of a group, those about a word, or all of them.
pub(crate) fn explain(args: &ExplainArgs, color: Color) -> Result<ExitCode, CliError> {
    let is_in = |group: Group| move |rule: &&Rule| rule.group == group;
    let text = match (args.rule.as_deref(), args.format) {
        (None, ManualFormat::Text) => list(RULES),
        (None, ManualFormat::Markdown) => book(RULES),
        (None, ManualFormat::Json) => json_text(&RULES.iter().map(|rule| manual(rule)).collect())?,
        (Some(name), format) => match (find_rule(name), Group::ALL.iter().find(|group| group.name() == name))
        {
            (Some(rule), _) => match format {
                ManualFormat::Text => markdown::render(&page(rule), RenderOptions::for_stdout(color)),
                ManualFormat::Markdown => book(&[rule]),
                ManualFormat::Json => json_text(&manual(rule))?,
            },
            (None, group) => {
                let rules: Vec<&'static Rule> = match group {
                    Some(group) => RULES.iter().copied().filter(is_in(*group)).collect(),
                    None => about(name)?,
                };
                match format {
                    ManualFormat::Text => list(&rules),
                    ManualFormat::Markdown => book(&rules),
                    ManualFormat::Json => json_text(&rules.iter().map(|rule| manual(rule)).collect())?,
                }
            }
        },
    };
    output::to_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(ExitCode::SUCCESS)
}

/// The rules whose id or manual has a word.
fn about(word: &str) -> Result<Vec<&'static Rule>, CliError> {
    let names = RULES.iter().map(|rule| rule.id).chain(Group::ALL.iter().map(|group| group.name()));
    let hint = match nearest(word, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let word = word.to_lowercase();
            let has =
                |rule: &&Rule| rule.id.contains(&word) || rule.markdown().to_lowercase().contains(&word);
            let rules: Vec<&'static Rule> = RULES.iter().copied().filter(has).collect();
            if !word.is_empty() && !rules.is_empty() {
                return Ok(rules);
            }
            "`gpulint rules` lists all".to_owned()
        }
    };
    Err(CliError::Usage(format!("there is no rule or group `{word}`; {hint}")))
}

fn json_text(value: &Value) -> Result<String, CliError> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

fn manual(rule: &Rule) -> Value {
    let mut value = describe(rule);
    value["manual"] = rule.markdown().into();
    value
}

/// Manuals as Markdown, each with the id of the rule as the heading.
fn book(rules: &[&Rule]) -> String {
    let mut out = String::new();
    for rule in rules {
        if !out.is_empty() {
            out.push('\n');
        }
        let page = page(rule);
        let mut is_code = false;
        for (at, line) in page.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            if at > 0 && line.starts_with('#') && !is_code {
                out.push('#');
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn page(rule: &Rule) -> String {
    let mut facts = vec![
        format!("group {}", rule.group.name()),
        rule.severity.name().to_owned(),
        format!("since {}", rule.since),
    ];
    facts.extend(rule.fix.map(Safety::name).map(|safety| format!("{safety} fix")));
    let mut page = format!("# {}\n{}\n\n", rule.id, facts.join(", "));
    page.push_str(&rule.markdown());
    if !rule.rejected_by.is_empty() {
        let by: Vec<&str> = rule.rejected_by.iter().map(|a| a.display_name()).collect();
        page.push_str(&format!("\n# Refused by\n\n{}\n", by.join(", ")));
    }
    if !rule.params.is_empty() {
        page.push_str("\n# Parameters\n");
        for param in rule.params {
            let (default, bounds) = match param.default {
                ParamDefault::Int { default, min, max } => {
                    (default.to_string(), format!(", from {min} to {max}"))
                }
                ParamDefault::Strings(list) => (format!("[{}]", list.join(", ")), String::new()),
            };
            let (name, about) = (param.name, param.description);
            page.push_str(&format!("- `{name}`: {about} (default {default}{bounds})\n"));
        }
    }
    page
}

pub(crate) fn rules(args: &RulesArgs) -> Result<ExitCode, CliError> {
    let text = match args.format {
        ListFormat::Text => list(RULES),
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

/// A line for each rule, below its group.
fn list(rules: &[&Rule]) -> String {
    let width = rules.iter().map(|r| r.id.len()).max().unwrap_or_default();
    let mut out = String::new();
    let mut group = None;
    for rule in rules {
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
        "fix": rule.fix.map(Safety::name),
        "url": rule.url(),
    })
}

#[cfg(test)]
mod tests {
    use gpulint_rules::RULES;

    use super::page;
    use crate::markdown;
    use crate::terminal::RenderOptions;

    /// Everything except code and URLs must fit. Code keeps its line breaks, and a few of its lines are
    /// longer; URLs cannot be broken.
    #[test]
    fn every_page_fits_a_terminal_of_80_columns() {
        let look = RenderOptions { color: false, unicode: true, width: 80 };
        let mut wrong = Vec::new();
        for rule in RULES {
            for line in markdown::render(&page(rule), look).lines() {
                let code = line.starts_with(markdown::CODE);
                let room = if code { 112 } else { 80 };
                let width = line.chars().count();
                if width > room && !line.contains("https://") {
                    wrong.push(format!("{}: {width} columns: {line}", rule.id));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    }
}
