//! The plan as text: one screen for a usual change.

use std::fmt::Write as _;
use std::io::Write;

use gpulint_rules::Finding;

use crate::error::CliError;
use crate::report::answer::wrapped;
use crate::report::paint::{Paint, Style};
use crate::terminal::{RenderOptions, printable};

use super::headline::headline;
use super::page::{Body, Item, MoneyTable, Section, bodies, findings_line, in_sets, notes, unread};
use super::{FindingsChange, PlanReport, Upgrades};

/// Maximum number of items of a section, and of lines below an item.
const MAX_ITEMS: usize = 12;
const MAX_DETAILS: usize = 4;

pub(super) fn write(
    out: &mut dyn Write,
    report: &PlanReport,
    options: RenderOptions,
) -> Result<(), CliError> {
    let paint = Paint { color: options.color, links: false };
    let mut page = String::new();
    let from = format!("{} -> {}", report.before, report.after);
    if report.is_empty() {
        wrapped(&mut page, "", &format!("{from}: {}", report.nothing()), options.width);
    } else {
        wrapped(&mut page, "", &format!("{from}: {}", headline(report)), options.width);
        if let Some(section) = unread(report) {
            section_text(&mut page, &section, options.width, paint);
        }
        let several = report.sets.iter().any(|set| set.name.is_some());
        for body in bodies(report) {
            body_text(&mut page, &body, several, options.width, paint);
        }
        findings(&mut page, &report.findings, options.width, paint);
        upgrades(&mut page, &report.upgrades, options, paint);
        let notes = notes(report);
        if !notes.is_empty() {
            page.push('\n');
        }
        for note in notes {
            wrapped(&mut page, "", &note, options.width);
        }
    }
    let reasons = report.reasons();
    if !reasons.is_empty() {
        page.push('\n');
        wrapped(&mut page, "fails: ", &reasons.join("; "), options.width);
    }
    out.write_all(colored(&page).as_bytes())?;
    Ok(())
}

/// The page without control characters but those of colours, which this module writes.
fn colored(page: &str) -> String {
    page.split('\x1b').map(|part| printable(part, true)).collect::<Vec<_>>().join("\x1b")
}

fn title(page: &mut String, text: &str, paint: Paint) {
    let _ = writeln!(page, "\n{}", paint.text(Style::Bold, text));
}

fn body_text(page: &mut String, body: &Body, several: bool, width: usize, paint: Paint) {
    if several {
        let names: Vec<String> = body.sets.iter().filter(|name| !name.is_empty()).cloned().collect();
        if !names.is_empty() {
            page.push('\n');
            wrapped(page, "", &format!("{}:", in_sets(&names)), width);
        }
    }
    for section in &body.sections {
        section_text(page, section, width, paint);
    }
    if let Some(money) = &body.money {
        title(page, "Dollars an hour", paint);
        money_text(page, money, width);
    }
}

fn section_text(page: &mut String, section: &Section, width: usize, paint: Paint) {
    title(page, section.title, paint);
    for item in section.items.iter().take(MAX_ITEMS) {
        item_text(page, item, width);
    }
    if section.items.len() > MAX_ITEMS {
        let _ = writeln!(page, "  and {} more; --format json has all", section.items.len() - MAX_ITEMS);
    }
}

fn item_text(page: &mut String, item: &Item, width: usize) {
    let place = item.place.as_ref().map_or_else(String::new, |(file, line)| format!(" ({file}:{line})"));
    wrapped(page, "  ", &format!("{} {}{place}", item.name, item.text), width);
    for detail in item.details.iter().take(MAX_DETAILS) {
        wrapped(page, "    ", detail, width);
    }
    if item.details.len() > MAX_DETAILS {
        let _ = writeln!(page, "    and {} more", item.details.len() - MAX_DETAILS);
    }
}

fn money_text(page: &mut String, money: &MoneyTable, width: usize) {
    let column = |of: fn(&super::page::MoneyRow) -> &str, least: usize| {
        money.rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0).max(least)
    };
    let (name, before, after) =
        (column(|row| &row.name, 4), column(|row| &row.before, 6), column(|row| &row.after, 5));
    let _ = writeln!(page, "  {:name$}  {:>before$}  {:>after$}", "POOL", "BEFORE", "AFTER");
    for row in &money.rows {
        let line = format!("  {:name$}  {:>before$}  {:>after$}", row.name, row.before, row.after);
        let _ = writeln!(page, "{line}");
        for cause in row.causes.iter().take(MAX_DETAILS) {
            wrapped(page, "    ", cause, width);
        }
        if row.causes.len() > MAX_DETAILS {
            let _ = writeln!(page, "    and {} more", row.causes.len() - MAX_DETAILS);
        }
    }
}

fn findings(page: &mut String, change: &FindingsChange, width: usize, paint: Paint) {
    let Some(line) = findings_line(change) else { return };
    title(page, &format!("Findings: {line}"), paint);
    let new = change.new.iter().map(|one| ("new ", &one.finding));
    let gone = change.gone.iter().map(|(finding, _)| ("gone", finding));
    for list in [new.collect::<Vec<_>>(), gone.collect::<Vec<_>>()] {
        for (mark, finding) in list.iter().take(MAX_ITEMS) {
            let severity = finding.severity;
            let rule = format!("{}[{}]", severity.name(), finding.rule.id);
            let text = format!("{rule} {}{}", place(finding), finding.message);
            let from = page.len();
            wrapped(page, &format!("  {mark}  "), &text, width);
            if *mark == "new " {
                let painted =
                    page.split_off(from).replacen(&rule, &paint.text(Style::Of(severity), &rule), 1);
                page.push_str(&painted);
            }
        }
        if list.len() > MAX_ITEMS {
            let _ = writeln!(page, "  and {} more; --format json has all", list.len() - MAX_ITEMS);
        }
    }
}

/// The location before a message.
fn place(finding: &Finding) -> String {
    let Some((source, _, span)) = finding.location.resolve_span() else { return String::new() };
    let at = source.lines().position(source.text(), span.start);
    format!("{}:{}: ", source.path(), at.line)
}

fn upgrades(page: &mut String, upgrades: &Upgrades, options: RenderOptions, paint: Paint) {
    for step in &upgrades.steps {
        title(page, &step.title(options.unicode), paint);
        if let Some(note) = step.note() {
            wrapped(page, "  ", &note, options.width);
        }
    }
    for note in upgrades.notes.iter().take(MAX_ITEMS) {
        wrapped(page, "  ", &format!("{} {}: {}", note.version, note.topic, note.text), options.width);
    }
    if upgrades.notes.len() > MAX_ITEMS {
        let _ = writeln!(page, "  and {} more; --format json has all", upgrades.notes.len() - MAX_ITEMS);
    }
    for change in upgrades.changes.iter().take(MAX_ITEMS) {
        let name = format!("{} {}", change.object.id().kind, change.object.name());
        let text = format!("{name}: from Karpenter {} on {}", change.version, change.text);
        wrapped(page, "  ", &text, options.width);
    }
    if upgrades.changes.len() > MAX_ITEMS {
        let _ = writeln!(page, "  and {} more; --format json has all", upgrades.changes.len() - MAX_ITEMS);
    }
}
