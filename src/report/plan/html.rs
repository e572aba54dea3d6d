//! The plan as one page for a browser, which loads nothing: the style is that of the page of `gpulint check`.

use std::io::Write;

use gpulint_rules::Finding;
use serde_json::Value;

use crate::error::CliError;
use crate::report::html::{MAX_LISTED, Mark, Markup, begin, excerpt, more};
use crate::report::json;

use super::headline::headline;
use super::page::{Body, Item, MoneyTable, Section, bodies, findings_line, in_sets, notes, unread};
use super::words::sentence;
use super::{FindingsChange, PlanReport, Upgrades};

/// Maximum number of new findings on a page that shows all of them open.
const MAX_OPEN: usize = 30;

pub(super) fn write(out: &mut dyn Write, report: &PlanReport) -> Result<(), CliError> {
    let mut page = Markup::default();
    let mut title = Markup::default();
    title.text(&report.before).raw(" → ").text(&report.after);
    let mut head = Markup::default();
    head.words(&sentence(&if report.is_empty() { report.nothing() } else { headline(report) }));
    begin(&mut page, &title, "<a class=\"skip\" href=\"#plan\">Skip to the plan</a>", &head);
    page.raw("<p class=\"quiet\">").append(&title).raw("</p>");
    let reasons = report.reasons();
    if !reasons.is_empty() {
        page.raw("<p class=\"note\"><b>Fails:</b> ").words(&reasons.join("; ")).raw("</p>");
    }
    for error in report.errors.iter().take(MAX_LISTED) {
        page.raw("<p class=\"note\"><b>Not read or rendered:</b> ").words(error).raw("</p>");
    }
    more(&mut page, report.errors.len());
    page.raw("</header><div class=\"page\"><main id=\"plan\">");
    if !report.is_empty() {
        parts(&mut page, report)?;
    }
    page.raw("</main></div><footer class=\"quiet\"><p>gpulint ").text(env!("CARGO_PKG_VERSION"));
    page.raw("</p></footer></body></html>\n");
    out.write_all(page.as_str().as_bytes())?;
    Ok(())
}

fn parts(page: &mut Markup, report: &PlanReport) -> Result<(), CliError> {
    if let Some(section) = unread(report) {
        page.raw("<section>");
        items(page, &section, true);
        page.raw("</section>");
    }
    let several = report.sets.iter().any(|set| set.name.is_some());
    for one in bodies(report) {
        body(page, &one, several);
    }
    findings(page, &report.findings)?;
    upgrades(page, &report.upgrades);
    let notes = notes(report);
    if !notes.is_empty() {
        page.raw("<section><h2>What the numbers rest on</h2><ul class=\"related\">");
        for note in notes {
            page.raw("<li>").words(&note).raw("</li>");
        }
        page.raw("</ul></section>");
    }
    Ok(())
}

fn body(page: &mut Markup, body: &Body, several: bool) {
    page.raw("<section>");
    let names: Vec<String> = body.sets.iter().filter(|name| !name.is_empty()).cloned().collect();
    let is_named = several && !names.is_empty();
    if is_named {
        page.raw("<h2>").text(&in_sets(&names)).raw("</h2>");
    }
    for section in &body.sections {
        items(page, section, !is_named);
    }
    if let Some(table) = &body.money {
        title(page, "Dollars an hour", !is_named);
        money(page, table);
    }
    page.raw("</section>");
}

/// A title, below that of the page or that of sets.
fn title(page: &mut Markup, text: &'static str, is_top: bool) {
    let [open, close] = if is_top { ["<h2>", "</h2>"] } else { ["<h3>", "</h3>"] };
    page.raw(open).raw(text).raw(close);
}

fn items(page: &mut Markup, section: &Section, is_top: bool) {
    title(page, section.title, is_top);
    for item in section.items.iter().take(MAX_LISTED) {
        item_of(page, item);
    }
    more(page, section.items.len());
}

fn item_of(page: &mut Markup, item: &Item) {
    page.raw("<div class=\"pool\"><p><b>").text(&item.name).raw("</b> ").words(&item.text);
    if let Some((file, line)) = &item.place {
        page.raw(" <span class=\"place\">").text(file).raw(":").digits(u64::from(*line)).raw("</span>");
    }
    page.raw("</p>");
    if !item.details.is_empty() {
        page.raw("<ul class=\"related\">");
        for detail in item.details.iter().take(MAX_LISTED) {
            page.raw("<li>").words(detail).raw("</li>");
        }
        page.raw("</ul>");
        more(page, item.details.len());
    }
    page.raw("</div>");
}

fn money(page: &mut Markup, table: &MoneyTable) {
    page.raw("<table><thead><tr><th scope=\"col\">NodePool</th>");
    page.raw("<th scope=\"col\" class=\"n\">Before</th><th scope=\"col\" class=\"n\">After</th><th scope=\"col\">Because</th>");
    page.raw("</tr></thead><tbody>");
    for row in &table.rows {
        page.raw("<tr><th scope=\"row\">").text(&row.name);
        page.raw("</th><td class=\"n\" data-h=\"Before\">").text(&row.before);
        page.raw("</td><td class=\"n\" data-h=\"After\">").text(&row.after).raw("</td><td>");
        for (at, cause) in row.causes.iter().enumerate() {
            page.raw(if at == 0 { "" } else { "<br>" }).words(cause);
        }
        page.raw("</td></tr>");
    }
    page.raw("</tbody></table>");
    if let Some(month) = table.month() {
        page.raw("<p>").text(&month).raw("</p>");
    }
}

fn findings(page: &mut Markup, change: &FindingsChange) -> Result<(), CliError> {
    let Some(line) = findings_line(change) else { return Ok(()) };
    page.raw("<section id=\"findings\"><h2>Findings</h2><p class=\"quiet\">").text(&line);
    page.raw("</p><div class=\"group\">");
    let is_open = change.new.len() <= MAX_OPEN;
    for one in change.new.iter().take(MAX_LISTED) {
        finding(page, &one.finding, is_open)?;
    }
    page.raw("</div>");
    more(page, change.new.len());
    if !change.gone.is_empty() {
        page.raw("<details><summary>").number(change.gone.len() as u64).raw(" gone</summary><ul>");
        for (one, _) in change.gone.iter().take(MAX_LISTED) {
            page.raw("<li>").words(one.whole_message());
            place(page, one);
            page.raw(" <span class=\"id\">").raw(one.rule.id).raw("</span></li>");
        }
        page.raw("</ul>");
        more(page, change.gone.len());
        page.raw("</details>");
    }
    page.raw("</section>");
    Ok(())
}

/// A new finding, with the lines around it.
fn finding(page: &mut Markup, finding: &Finding, is_open: bool) -> Result<(), CliError> {
    let severity = finding.severity.name();
    page.raw("<details class=\"f ").raw(severity).raw(if is_open { "\" open>" } else { "\">" });
    page.raw("<summary><span class=\"s\">").raw(severity).raw("</span> <span class=\"m\">");
    page.words(finding.whole_message()).raw("</span> <span class=\"w\">");
    place(page, finding);
    page.raw(" <span class=\"id\">").raw(finding.rule.id).raw("</span></span></summary><div class=\"b\">");
    if let Some((source, _, span)) = finding.location.resolve_span() {
        let range: Value = serde_json::to_value(json::range(source, span))?;
        excerpt(page, source, &[Mark { range: &range, label: None }]);
    }
    if let Some(help) = finding.whole_help() {
        page.raw("<dl class=\"facts\"><dt>Help</dt><dd>").words(help).raw("</dd></dl>");
    }
    page.raw("</div></details>\n");
    Ok(())
}

/// The location of a finding.
fn place(page: &mut Markup, finding: &Finding) {
    if let Some((source, _, span)) = finding.location.resolve_span() {
        let at = source.lines().position(source.text(), span.start);
        page.raw(" <span class=\"place\">").text(source.path()).raw(":").digits(u64::from(at.line));
        page.raw("</span>");
    }
}

fn upgrades(page: &mut Markup, upgrades: &Upgrades) {
    if upgrades.steps.is_empty() {
        return;
    }
    page.raw("<section id=\"upgrade\">");
    for step in &upgrades.steps {
        page.raw("<h2>").text(&step.title(true)).raw("</h2>");
        if let Some(note) = step.note() {
            page.raw("<p>").words(&note).raw("</p>");
        }
    }
    if !upgrades.notes.is_empty() {
        page.raw("<ul class=\"related\">");
        for note in upgrades.notes.iter().take(MAX_LISTED) {
            page.raw("<li>").text(&note.version.to_string()).raw(" ").text(note.topic).raw(": ");
            page.words(note.text).raw("</li>");
        }
        page.raw("</ul>");
        more(page, upgrades.notes.len());
    }
    if !upgrades.changes.is_empty() {
        page.raw("<ul class=\"related\">");
        for change in upgrades.changes.iter().take(MAX_LISTED) {
            page.raw("<li><b>").text(&change.object.id().kind).raw(" ").text(change.object.name());
            page.raw("</b> from Karpenter ").text(&change.version.to_string()).raw(" on: ");
            page.words(change.text).raw("</li>");
        }
        page.raw("</ul>");
        more(page, upgrades.changes.len());
    }
    page.raw("</section>");
}
