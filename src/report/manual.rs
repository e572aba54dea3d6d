//! The manual of a rule as reports for other programs carry it.

use gpulint_rules::Rule;

use crate::markdown;
use crate::terminal::RenderOptions;

/// As plain text, in lines of 80 characters.
pub(super) fn text(rule: &Rule) -> String {
    markdown::render(&rule.markdown(), RenderOptions { color: false, unicode: true, width: 80 })
}

/// As Markdown with fences as other programs know them: `yaml,diff` is a diff, `yaml,bad` is YAML.
pub(super) fn markdown(rule: &Rule) -> String {
    let manual = rule.markdown();
    let lines = manual.lines().map(|line| match line.trim_start().strip_prefix("```yaml,") {
        Some("diff") => line.replace("```yaml,diff", "```diff"),
        Some(_) => line.split_once(',').map_or(line, |(fence, _)| fence).to_owned(),
        None => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// The paragraphs under `# Why`, a line each, as far as `max` bytes hold them; the summary where none fits.
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
