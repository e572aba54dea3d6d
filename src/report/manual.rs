//! The manual of a rule in reports for other programs.

use gpulint_rules::Rule;

use crate::markdown;
use crate::terminal::RenderOptions;

/// The manual as plain text, in lines of 80 characters.
pub(super) fn text(rule: &Rule) -> String {
    markdown::render(&rule.markdown(), RenderOptions { color: false, unicode: true, width: 80 })
}

/// The manual as Markdown whose fences other programs know: `yaml,diff` becomes a diff, `yaml,bad` becomes
/// YAML.
pub(super) fn markdown(rule: &Rule) -> String {
    let manual = rule.markdown();
    let lines = manual.lines().map(|line| match line.trim_start().strip_prefix("```yaml,") {
        Some("diff") => line.replace("```yaml,diff", "```diff"),
        Some(_) => line.split_once(',').map_or(line, |(fence, _)| fence).to_owned(),
        None => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// The paragraphs under `# Why`, a line each, as far as they fit `max` bytes; the summary if none fits.
pub(super) fn why(rule: &Rule, max: usize) -> String {
    let manual = rule.markdown();
    let section = manual.split_once("# Why\n").map_or("", |(_, rest)| rest);
    let section = section.split("\n# ").next().unwrap_or_default();
    let mut out = String::new();
    for paragraph in section.split("\n\n") {
        let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() || text.contains("```") || out.len() + text.len() > max {
            break;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&text);
    }
    if out.is_empty() { format!("{}.", rule.summary()) } else { out }
}

/// The first paragraph under a heading, as one line unless it contains a list, up to the last sentence that
/// ends within `max` bytes. `None` if there is no such heading.
pub(crate) fn manual_paragraph(rule: &Rule, heading: &str, max: usize) -> Option<String> {
    let manual = rule.markdown();
    let (_, section) = manual.split_once(&format!("# {heading}\n"))?;
    let section = section.split("\n# ").next().unwrap_or_default();
    let paragraph = section.split("\n\n").next()?;
    let has_list = paragraph.lines().any(|line| line.starts_with("- "));
    let mut text =
        paragraph.lines().map(str::trim).collect::<Vec<_>>().join(if has_list { "\n" } else { " " });
    if text.len() > max {
        let cut = (0..=max).rev().find(|at| text.is_char_boundary(*at))?;
        let end = text[..cut].rfind(". ").map_or(0, |at| at + 1);
        text.truncate(end);
    }
    (!text.is_empty() && !text.contains("```")).then_some(text)
}

#[cfg(test)]
mod tests {
    use gpulint_rules::RULES;

    use super::manual_paragraph;

    #[test]
    fn every_rule_says_why_in_a_paragraph() {
        for rule in RULES {
            assert!(manual_paragraph(rule, "Why", 700).is_some(), "{}", rule.id);
            assert!(manual_paragraph(rule, "Fix", 700).is_some(), "{}", rule.id);
        }
    }
}
