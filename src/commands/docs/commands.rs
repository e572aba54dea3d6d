//! The reference of the command line, generated from the types of the arguments.

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use gpulint_rules::{Group, RULES};

use crate::args::Args;

use super::prose;

pub(super) fn page() -> String {
    let mut root = Args::command();
    root.build();
    let mut out = String::from("# Command line\n\n");
    section(&mut out, &root, "gpulint", 2);
    out.push_str("## Groups and rules\n\n- `all`: every rule, where rules are selected\n");
    for group in Group::ALL {
        out.push_str(&format!("- [`{}`](../groups/{0}.md): {}\n", group.name(), prose(group.description())));
    }
    out.push('\n');
    for rule in RULES {
        out.push_str(&format!("- [`{}`](../rules/{0}.md): {}\n", rule.id, prose(rule.summary())));
    }
    out
}

/// Whether the values of an argument are the rules. They are one list at the end of the page, not one at each argument.
fn takes_rules(possible: &[PossibleValue]) -> bool {
    possible.len() > RULES.len()
        && RULES.iter().all(|rule| possible.iter().any(|one| one.get_name() == rule.id))
}

fn section(out: &mut String, command: &Command, name: &str, level: usize) {
    let heading = "#".repeat(level.min(4));
    out.push_str(&format!("{heading} {name}\n\n"));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        out.push_str(&format!("{}\n\n", prose(&about.to_string())));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    out.push_str(&format!("```text\n{}\n```\n\n", usage.trim()));
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for sub in command.get_subcommands().filter(shown) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let anchor = format!("{name} {}", sub.get_name()).replace(' ', "-");
        out.push_str(&format!("- [`{name} {}`](#{anchor}): {}\n", sub.get_name(), prose(&about)));
    }
    if command.has_subcommands() {
        out.push('\n');
    }
    let is_root = level == 2;
    let mut arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && (is_root || !arg.is_global_set()))
        .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
        .collect();
    arguments.sort_by_key(|arg| !arg.is_positional());
    for arg in &arguments {
        argument(out, arg);
    }
    if !arguments.is_empty() {
        out.push('\n');
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        notes(out, &after.to_string());
    }
    for sub in command.get_subcommands().filter(shown) {
        section(out, sub, &format!("{name} {}", sub.get_name()), level + 1);
    }
}

fn argument(out: &mut String, arg: &Arg) {
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes_value = arg.get_action().takes_values();
    let mut head = names.join(", ");
    if takes_value {
        let value = if values.is_empty() { arg.get_id().as_str().to_uppercase() } else { values.join(" ") };
        head = if head.is_empty() { value } else { format!("{head} {value}") };
    }
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = prose(help.trim().trim_end_matches('.'));
    let values = arg.get_possible_values();
    let takes_rules = takes_rules(&values);
    if takes_rules {
        text.push_str(". The [groups and rules](#groups-and-rules)");
    }
    let possible: Vec<String> = values
        .iter()
        .filter(|_| !takes_rules)
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), prose(&lower(&help.to_string()))),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if takes_value && !possible.is_empty() {
        text.push_str(&format!(". One of {}", possible.join(", ")));
    }
    let defaults = arg.get_default_values();
    if takes_value && !defaults.is_empty() {
        let defaults: Vec<String> =
            defaults.iter().map(|value| value.to_string_lossy().into_owned()).collect();
        text.push_str(&format!(". Default: `{}`", defaults.join(" ")));
    }
    if let Some(variable) = arg.get_env() {
        text.push_str(&format!(". Environment: `{}`", variable.to_string_lossy()));
    }
    out.push_str(&format!("- `{head}`: {text}.\n"));
}

/// Converts the first letter to lower case: `Findings never fail` becomes `findings never fail`. Names in
/// capitals do not change.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

/// Writes paragraphs; indented lines are commands.
fn notes(out: &mut String, text: &str) {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        if paragraph.lines().all(|line| line.starts_with("  ")) {
            let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
            out.push_str(&format!("```sh\n{}\n```\n\n", lines.join("\n")));
        } else {
            out.push_str(&format!("{}\n\n", prose(paragraph)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RULES, page};

    #[test]
    fn every_command_and_its_options_are_on_the_page() {
        let page = page();
        for part in [
            "\n### gpulint check\n",
            "\n### gpulint docs\n",
            "- [`gpulint check`](#gpulint-check): Check files and folders\n",
            "- `PATH`: Files and folders;",
            "- `--fail-on SEVERITY`: ",
            "`never` (findings never fail the run)",
            "```sh\ngpulint check --karpenter 1.14 clusters/prod\n```",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("--render-limit"), "what --help hides is hidden");
        for rule in RULES {
            let entry = format!("- [`{}`](../rules/", rule.id);
            assert_eq!(page.matches(&entry).count(), 1, "{}", rule.id);
        }
        assert!(page.len() < 120_000, "{}: the rules are one list", page.len());
    }
}
