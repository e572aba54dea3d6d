//! The plan as Markdown, for a comment on a pull request or a job summary: what matters is open, the rest is folded.

use std::fmt::Write as _;
use std::io::Write;

use gpulint_rules::Finding;
use gpulint_rules::lint::preview::UpgradeNote;

use crate::error::CliError;
use crate::report::markdown::{Links, bounded, escaped, finding_line};
use crate::terminal::count;

use super::headline::headline;
use super::page::{Body, Item, Section, bodies, findings_line, in_sets, notes, unread};
use super::words::sentence;
use super::{FindingsChange, PlanReport, Upgrades};

pub(super) fn write(out: &mut dyn Write, report: &PlanReport) -> Result<(), CliError> {
    let links = Links::new(report.links.as_deref(), &report.root);
    let page = bounded(|most| page(report, &links, most));
    out.write_all(page.as_bytes())?;
    Ok(())
}

/// The page with at most `most` items in each list.
fn page(report: &PlanReport, links: &Links, most: usize) -> String {
    let mut page = String::new();
    let sides = format!("`{}` → `{}`", escaped(&report.before), escaped(&report.after));
    let _ = writeln!(page, "### gpulint plan: {sides}\n");
    if report.is_empty() {
        let _ = writeln!(page, "{}", escaped(&sentence(&report.nothing())));
        errors(&mut page, report, most);
        return page;
    }
    let mark = if report.reasons().is_empty() { "" } else { "❌ " };
    let _ = writeln!(page, "{mark}**{}**", escaped(&sentence(&headline(report))));
    let reasons = report.reasons();
    if !reasons.is_empty() {
        let _ = writeln!(page, "\nFails: {}.", escaped(&reasons.join("; ")));
    }
    errors(&mut page, report, most);
    if let Some(section) = unread(report) {
        section_text(&mut page, &section, links, most);
    }
    let several = report.sets.iter().any(|set| set.name.is_some());
    for body in bodies(report) {
        body_text(&mut page, &body, several, links, most);
    }
    findings(&mut page, &report.findings, links, most);
    upgrades(&mut page, &report.upgrades, most);
    let notes = notes(report);
    if !notes.is_empty() {
        let _ = writeln!(page, "\n<details><summary>What the numbers rest on</summary>\n");
        for note in notes {
            let _ = writeln!(page, "- {}", escaped(&note));
        }
        let _ = writeln!(page, "\n</details>");
    }
    page
}

/// What could not be read or rendered. A comment has no standard error, on which the text has it.
fn errors(page: &mut String, report: &PlanReport, most: usize) {
    if report.errors.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n**Not read or rendered**\n");
    for error in report.errors.iter().take(most) {
        let _ = writeln!(page, "- {}", escaped(error));
    }
    more(page, report.errors.len(), most);
}

fn body_text(page: &mut String, body: &Body, several: bool, links: &Links, most: usize) {
    let names: Vec<String> =
        body.sets.iter().filter(|name| !name.is_empty()).map(|name| format!("`{}`", escaped(name))).collect();
    if several && !names.is_empty() {
        let _ = writeln!(page, "\n#### {}", in_sets(&names));
    }
    for section in &body.sections {
        section_text(page, section, links, most);
    }
    let Some(money) = &body.money else { return };
    let _ = writeln!(page, "\n**Dollars an hour**\n\n| | before | after | because |\n|---|--:|--:|---|");
    for row in &money.rows {
        let causes: Vec<String> = row.causes.iter().take(most).map(|cause| cell(cause)).collect();
        let (name, before, after) = (cell(&row.name), cell(&row.before), cell(&row.after));
        let _ = writeln!(page, "| {name} | {before} | {after} | {} |", causes.join("; "));
    }
    if let Some(month) = money.month() {
        let _ = writeln!(page, "\n{month}");
    }
}

fn section_text(page: &mut String, section: &Section, links: &Links, most: usize) {
    let _ = writeln!(page, "\n**{}**\n", section.title);
    for item in section.items.iter().take(most) {
        item_text(page, item, links, most);
    }
    more(page, section.items.len(), most);
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

fn item_text(page: &mut String, item: &Item, links: &Links, most: usize) {
    let place =
        item.place.as_ref().map_or_else(String::new, |(file, line)| format!(" ({})", links.to(file, *line)));
    let _ = writeln!(page, "- **{}** {}{place}", escaped(&item.name), escaped(&item.text));
    if item.details.is_empty() {
        return;
    }
    // The first line says how long a replacement takes, so it is not folded.
    let (open, folded) = item.details.split_at(1);
    for line in open {
        let _ = writeln!(page, "  <br>{}", escaped(line));
    }
    if folded.is_empty() {
        return;
    }
    let _ = writeln!(page, "  <details><summary>{}</summary>\n", count(folded.len(), "more line"));
    for line in folded.iter().take(most) {
        let _ = writeln!(page, "  - {}", escaped(line));
    }
    let _ = writeln!(page, "\n  </details>");
}

fn more(page: &mut String, all: usize, most: usize) {
    if all > most {
        let _ = writeln!(page, "- and {} more; `--format json` has all", all - most);
    }
}

fn findings(page: &mut String, change: &FindingsChange, links: &Links, most: usize) {
    let Some(line) = findings_line(change) else { return };
    let _ = writeln!(page, "\n**Findings**: {line}\n");
    for one in change.new.iter().take(most) {
        let _ = writeln!(page, "- {}", finding_line(&one.finding, links));
    }
    more(page, change.new.len(), most);
    if change.gone.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n<details><summary>{} gone</summary>\n", change.gone.len());
    for (finding, _) in change.gone.iter().take(most) {
        let _ = writeln!(page, "- {}", gone_line(finding));
    }
    more(page, change.gone.len(), most);
    let _ = writeln!(page, "\n</details>");
}

/// A finding that is gone: its file may be gone as well, so that there is no link.
fn gone_line(finding: &Finding) -> String {
    finding_line(finding, &Links::default())
}

fn upgrades(page: &mut String, upgrades: &Upgrades, most: usize) {
    if upgrades.steps.is_empty() {
        return;
    }
    let steps: Vec<String> = upgrades.steps.iter().map(|step| step.title(true)).collect();
    let _ = writeln!(page, "\n**{}**\n", steps.join(", "));
    for note in upgrades.steps.iter().filter_map(|step| step.note()) {
        let _ = writeln!(page, "- {}", escaped(&note));
    }
    let line = |page: &mut String, note: &UpgradeNote| {
        let _ = writeln!(page, "- {} {}: {}", note.version, note.topic, escaped(note.text));
    };
    let (nodes, others): (Vec<&UpgradeNote>, Vec<&UpgradeNote>) =
        upgrades.notes.iter().partition(|note| note.topic == "nodes");
    nodes.into_iter().for_each(|note| line(page, note));
    let folded = others.len() + upgrades.changes.len();
    if folded == 0 {
        return;
    }
    let _ = writeln!(page, "\n<details><summary>{}</summary>\n", count(folded, "more line"));
    others.iter().take(most).for_each(|note| line(page, note));
    more(page, others.len(), most);
    for change in upgrades.changes.iter().take(most) {
        let name = format!("{} {}", change.object.id().kind, change.object.name());
        let _ =
            writeln!(page, "- **{}** from {} on: {}", escaped(&name), change.version, escaped(change.text));
    }
    more(page, upgrades.changes.len(), most);
    let _ = writeln!(page, "\n</details>");
}
