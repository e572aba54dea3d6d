//! The report as one page of HTML that loads nothing. Its content is that of the JSON reports, with excerpts
//! of the sources around locations. The page is complete without its script, which filters, groups and moves
//! the focus.

mod excerpt;
mod manual;
mod markup;
mod pools;
mod week;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::{Finding, Location, Rule, Severity, fingerprints};
use rayon::prelude::*;
use serde_json::Value;

use super::{Report, json};
use crate::error::CliError;

pub(super) use excerpt::{Mark, excerpt};
pub(super) use markup::Markup;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The SHA-256 of the style and of the script in base64, which a test writes: the policy of the page allows
/// nothing else.
const STYLE_HASH: &str = include_str!("page.css.sha256");
const SCRIPT_HASH: &str = include_str!("page.js.sha256");

/// Maximum number of findings on a page, in descending order of severity.
const MAX_FINDINGS: usize = 25_000;
/// Maximum number of findings on a page that shows all of them open.
const MAX_OPEN: usize = 30;
/// Maximum number of related locations that are drawn, and that are listed, and of entries in other lists.
const MAX_DRAWN: usize = 6;
const MAX_RELATED: usize = 40;
pub(super) const MAX_LISTED: usize = 1000;

/// The elements of a member; none if it is not a list.
fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// The text of a member; empty if it is not text.
fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}

struct Group {
    rule: &'static Rule,
    severity: Severity,
    /// The indices of the findings in the report.
    findings: Vec<usize>,
}

pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let head = serde_json::to_value(json::head(report))?;
    let fingerprints = fingerprints(&report.findings);
    let shown = shown(&report.findings);
    let groups = groups(&report.findings, &shown);
    let pools = report.pools.as_ref().filter(|pools| !list(pools, "pools").is_empty());

    let mut page = Markup::default();
    open(&mut page, &head);
    navigation(&mut page, &head, pools);
    page.raw("<div class=\"page\">");
    filters(&mut page, &report.findings, &shown, &groups);
    page.raw("<main><section id=\"findings\" aria-labelledby=\"h-findings\"><div class=\"bar\"><h2 id=\"h-findings\">Findings</h2>");
    page.raw("<p id=\"status\" role=\"status\" class=\"quiet\"></p><button id=\"expand\" type=\"button\" hidden>Expand all</button></div>");
    if shown.len() < report.findings.len() {
        page.raw("<p class=\"note\">This page has ").number(shown.len() as u64).raw(" of ");
        page.number(report.findings.len() as u64);
        page.raw(" findings, those of the highest severity first. <code>--format json</code> has all.</p>");
    }
    if groups.is_empty() {
        page.raw("<p>No findings.</p>");
    }
    page.raw("<p id=\"none\" hidden>No finding matches the filters. <button type=\"button\" class=\"clear\">Clear the filters</button></p>");
    page.raw("<div id=\"groups\">");
    out.write_all(page.as_str().as_bytes())?;

    let new: HashSet<&str> = list(&head["preview"], "new").iter().filter_map(Value::as_str).collect();
    let is_open = shown.len() <= MAX_OPEN;
    for group in &groups {
        let mut section = Markup::default();
        open_group(&mut section, group);
        out.write_all(section.as_str().as_bytes())?;
        let drawn: Result<Vec<Markup>, CliError> = group
            .findings
            .par_iter()
            .map(|at| {
                let (one, name) = (&report.findings[*at], &fingerprints[*at]);
                let diagnostic = serde_json::to_value(json::diagnostic(one, name, report))?;
                let mut item = Markup::default();
                finding(&mut item, one, &diagnostic, is_open, new.contains(name.as_str()));
                Ok(item)
            })
            .collect();
        for item in drawn? {
            out.write_all(item.as_str().as_bytes())?;
        }
        out.write_all(b"</section>\n")?;
    }

    let mut page = Markup::default();
    page.raw("</div></section>");
    if head["preview"].is_object() {
        preview(&mut page, &head["preview"]);
    }
    if let Some(pools) = pools {
        pools::sections(&mut page, pools);
    }
    skipped(&mut page, list(&head["summary"], "skipped"));
    page.raw("</main></div><footer class=\"quiet\"><p>").text(text(&head["tool"], "name")).raw(" ");
    page.text(text(&head["tool"], "version"));
    page.raw("<span id=\"keys\" hidden>. Keys: <kbd>j</kbd> and <kbd>k</kbd> next and previous finding, <kbd>Enter</kbd> opens it, ");
    page.raw("<kbd>/</kbd> search, <kbd>Esc</kbd> clears the search</span></p></footer><script>").raw(SCRIPT);
    page.raw("</script></body></html>\n");
    out.write_all(page.as_str().as_bytes())?;
    Ok(())
}

/// The indices of the findings on the page.
fn shown(findings: &[Finding]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..findings.len()).collect();
    if all.len() > MAX_FINDINGS {
        all.sort_by_key(|at| Reverse(findings[*at].severity));
        all.truncate(MAX_FINDINGS);
        all.sort_unstable();
    }
    all
}

/// The findings by rule: errors first, then the most frequent.
fn groups(findings: &[Finding], shown: &[usize]) -> Vec<Group> {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for at in shown {
        let finding = &findings[*at];
        let group = groups.entry(finding.rule.id).or_insert_with(|| Group {
            rule: finding.rule,
            severity: finding.severity,
            findings: Vec::new(),
        });
        group.severity = group.severity.max(finding.severity);
        group.findings.push(*at);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse((group.severity, group.findings.len())));
    groups
}

/// Begins a page: its policy, title and style, and the headline. `skip` is the link to its main part.
pub(super) fn begin(page: &mut Markup, title: &Markup, skip: &'static str, headline: &Markup) {
    page.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
    page.raw(STYLE_HASH.trim_ascii_end()).raw("'; script-src 'sha256-").raw(SCRIPT_HASH.trim_ascii_end());
    page.raw("'; base-uri 'none'; form-action 'none'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\"><title>");
    page.raw("gpulint: ").append(title).raw("</title><style>").raw(STYLE).raw("</style></head><body>");
    page.raw(skip).raw("<header><p class=\"tool\">gpulint</p><h1>").append(headline).raw("</h1>");
}

/// Writes the head of the document and of the page.
fn open(page: &mut Markup, head: &Value) {
    let summary = &head["summary"];
    let number = |member: &str| summary[member].as_u64().unwrap_or_default();
    let mut counts = Markup::default();
    let mut title = Markup::default();
    for (member, what, class) in [
        ("errors", "error", "<span class=\"error\">"),
        ("warnings", "warning", "<span class=\"warning\">"),
        ("infos", "info", "<span class=\"info\">"),
    ] {
        if number(member) > 0 {
            let between = if counts.as_str().is_empty() { "" } else { ", " };
            counts.raw(between).raw(class).count(number(member), what).raw("</span>");
            title.raw(between).count(number(member), what);
        }
    }
    if title.as_str().is_empty() {
        title.raw("no findings");
        counts.raw("No findings");
    }
    begin(page, &title, "<a class=\"skip\" href=\"#findings\">Skip to the findings</a>", &counts);
    page.raw("<p class=\"quiet\">in ").count(number("files"), "file").raw(" with ");
    page.count(number("objects"), "object");
    for (member, words) in [
        ("fixed", " fixed"),
        ("fixable", " with a fix"),
        ("suppressed", " suppressed"),
        ("baselined", " in the baseline"),
    ] {
        if number(member) > 0 {
            page.raw("; ").number(number(member)).raw(words);
        }
    }
    page.raw("</p>");
    let failures = list(head, "failures");
    for failure in failures.iter().take(MAX_LISTED).filter_map(Value::as_str) {
        page.raw("<p class=\"note\"><b>Incomplete:</b> ").words(failure).raw("</p>");
    }
    more(page, failures.len());
}

fn navigation(page: &mut Markup, head: &Value, pools: Option<&Value>) {
    page.raw("<nav aria-label=\"Sections\"><ul><li><a href=\"#findings\">Findings</a></li>");
    if head["preview"].is_object() {
        page.raw("<li><a href=\"#preview\">Upgrade</a></li>");
    }
    if let Some(pools) = pools {
        page.raw("<li><a href=\"#pools\">NodePools <span class=\"quiet\">");
        page.number(list(pools, "pools").len() as u64).raw("</span></a></li>");
        page.raw("<li><a href=\"#placement\">Who lands where</a></li>");
    }
    let skipped = list(&head["summary"], "skipped").len() as u64;
    if skipped > 0 {
        page.raw("<li><a href=\"#skipped\">Skipped <span class=\"quiet\">")
            .number(skipped)
            .raw("</span></a></li>");
    }
    page.raw("</ul></nav></header>");
}

/// Writes the controls, which the script shows, and the table of the rules.
fn filters(page: &mut Markup, findings: &[Finding], shown: &[usize], groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    let all = || shown.iter().map(|at| &findings[*at]);
    let namespaces: BTreeSet<&str> = all().map(|finding| namespace(finding).unwrap_or_default()).collect();
    let sets: BTreeSet<&str> =
        all().flat_map(|finding| finding.sets.names.iter().map(|name| &**name)).collect();
    page.raw("<aside aria-label=\"Filters\"><form id=\"filters\" role=\"search\" hidden>");
    page.raw("<label class=\"field\"><span>Search</span><input id=\"q\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\"></label>");
    page.raw("<fieldset><legend>Severity</legend>");
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let count = all().filter(|finding| finding.severity == severity).count() as u64;
        if count > 0 {
            page.raw("<label><input type=\"checkbox\" name=\"severity\" checked value=\"")
                .raw(severity.name());
            page.raw("\"><span class=\"")
                .raw(severity.name())
                .raw("\">")
                .raw(severity.name())
                .raw("</span> <span class=\"quiet\">");
            page.number(count).raw("</span></label>");
        }
    }
    page.raw("</fieldset>");
    if !sets.is_empty() {
        select(page, "set", "Set", "All sets", sets.into_iter().map(|name| (name, name)));
    }
    if namespaces.len() > 1 {
        let named =
            namespaces.into_iter().map(|name| (name, if name.is_empty() { "(no namespace)" } else { name }));
        select(page, "namespace", "Namespace", "All namespaces", named);
    }
    page.raw("<label class=\"field\"><span>Group by</span><select id=\"group\"><option value=\"rule\">Rule</option>");
    page.raw("<option value=\"file\">File</option><option value=\"severity\">Severity</option></select></label></form>");
    page.raw("<details class=\"rules\" open><summary>Rules <span class=\"quiet\">")
        .number(groups.len() as u64);
    page.raw("</span></summary><nav aria-label=\"Rules\"><ul><li class=\"all\" hidden><a href=\"#rule=\"><span>All rules</span></a></li>");
    for group in groups {
        page.raw("<li><a href=\"#rule=").raw(group.rule.id).raw("\"><span>").raw(group.rule.id);
        page.raw("</span> <b class=\"")
            .raw(group.severity.name())
            .raw("\">")
            .number(group.findings.len() as u64);
        page.raw("</b></a></li>");
    }
    page.raw("</ul></nav></details></aside>");
}

fn select<'n>(
    page: &mut Markup,
    id: &'static str,
    label: &'static str,
    all: &'static str,
    options: impl Iterator<Item = (&'n str, &'n str)>,
) {
    page.raw("<label class=\"field\"><span>")
        .raw(label)
        .raw("</span><select id=\"")
        .raw(id)
        .raw("\"><option value=\"*\">");
    page.raw(all).raw("</option>");
    for (value, name) in options {
        page.raw("<option value=\"").text(value).raw("\">").text(name).raw("</option>");
    }
    page.raw("</select></label>");
}

fn namespace(finding: &Finding) -> Option<&str> {
    finding.location.object()?.id().namespace()
}

fn open_group(out: &mut Markup, group: &Group) {
    let id = group.rule.id;
    out.raw("<section class=\"group\" id=\"rule=")
        .raw(id)
        .raw("\" aria-label=\"")
        .raw(id)
        .raw("\"><h3><span>")
        .raw(id);
    out.raw("</span> <b class=\"").raw(group.severity.name()).raw("\">").number(group.findings.len() as u64);
    out.raw("</b></h3><p class=\"sum\">").words(group.rule.summary());
    out.raw("</p><details class=\"manual\"><summary>Manual</summary>");
    manual::manual(out, &group.rule.markdown());
    out.raw("</details>");
}

fn finding(out: &mut Markup, finding: &Finding, json: &Value, is_open: bool, is_new: bool) {
    let severity = finding.severity.name();
    let object = &json["object"];
    let sets: Vec<&str> = list(json, "sets").iter().filter_map(Value::as_str).collect();
    let fingerprint = text(json, "fingerprint");
    out.raw("<details class=\"f ").raw(severity).raw("\" id=\"f-").text(fingerprint);
    out.raw("\" data-severity=\"")
        .raw(severity)
        .raw("\" data-rule=\"")
        .raw(finding.rule.id)
        .raw("\" data-file=\"");
    out.text(text(json, "file")).raw("\" data-namespace=\"").text(text(object, "namespace"));
    out.raw("\" data-sets=\"").text(&sets.join("\n")).raw(if is_open { "\" open>" } else { "\">" });
    out.raw("<summary><span class=\"s\">")
        .raw(severity)
        .raw("</span> <span class=\"m\">")
        .words(text(json, "message"));
    if is_new {
        out.raw(" <span class=\"tag\">new with the upgrade</span>");
    }
    out.raw("</span> <span class=\"w\"><span class=\"place\">");
    place(out, text(json, "file"), &json["range"]);
    out.raw("</span> <span class=\"id\">")
        .raw(finding.rule.id)
        .raw("</span></span></summary><div class=\"b\">");
    if object.is_object() {
        out.raw("<p class=\"quiet\">").text(text(object, "kind")).raw(" ");
        if let Some(namespace) = object["namespace"].as_str() {
            out.text(namespace).raw("/");
        }
        out.text(text(object, "name"));
        if let Some(pointer) = json["pointer"].as_str().filter(|pointer| !pointer.is_empty()) {
            out.raw(" <span class=\"pointer\">").text(pointer).raw("</span>");
        }
        out.raw("</p>");
    }
    excerpts(out, finding, json);
    out.raw("<dl class=\"facts\">");
    if let Some(help) = json["help"].as_str() {
        out.raw("<dt>Help</dt><dd>").words(help).raw("</dd>");
    }
    if json["fix"].is_object() {
        fix(out, finding, &json["fix"]);
    }
    if let Some(authority) = finding.rejected_by {
        out.raw("<dt>Rejected by</dt><dd>").raw(authority.display_name()).raw("</dd>");
    }
    if json["week"].is_object() {
        let one = &json["week"];
        let strings =
            |member: &str| -> Vec<&str> { list(one, member).iter().filter_map(Value::as_str).collect() };
        out.raw("<dt>Disruption</dt><dd>");
        week::week(out, &strings("reasons"), &strings("days"), one["timezone"].as_str());
        out.raw("</dd>");
    }
    if json["rendered"].is_object() {
        rendered(out, &json["rendered"]);
    }
    if !sets.is_empty() {
        out.raw("<dt>Sets</dt><dd>").text(&sets.join(", ")).raw("</dd>");
    }
    out.raw("<dt class=\"of\">Rule</dt><dd class=\"of\"><a href=\"#rule=").raw(finding.rule.id).raw("\">");
    out.raw(finding.rule.id).raw("</a></dd><dt>Fingerprint</dt><dd><a class=\"id\" href=\"#f-");
    out.text(fingerprint).raw("\">").text(fingerprint).raw("</a></dd></dl></div></details>\n");
}

/// Writes a location: `path:3:5`.
fn place(out: &mut Markup, file: &str, range: &Value) {
    out.text(file);
    let start = &range["start"];
    if let (Some(line), Some(column)) = (start["line"].as_u64(), start["column"].as_u64()) {
        out.raw(":").digits(line).raw(":").digits(column);
    }
}

fn source_of(location: &Location) -> Option<&Arc<Source>> {
    location.resolve_span().map(|(source, ..)| source)
}

/// Writes the lines around the location of the finding and around related locations.
fn excerpts(out: &mut Markup, finding: &Finding, json: &Value) {
    let Some(source) = source_of(&finding.location) else { return };
    let mut marks = vec![Mark { range: &json["range"], label: None }];
    let mut others: Vec<(&Arc<Source>, Vec<Mark<'_>>)> = Vec::new();
    let mut listed: Vec<&Value> = Vec::new();
    for (at, (related, value)) in finding.related.iter().zip(list(json, "related")).enumerate() {
        let mark = Mark { range: &value["range"], label: Some(text(value, "message")) };
        match source_of(&related.location) {
            Some(other) if at < MAX_DRAWN && Arc::ptr_eq(other, source) => marks.push(mark),
            Some(other) if at < MAX_DRAWN => {
                match others.iter_mut().find(|(known, _)| Arc::ptr_eq(known, other)) {
                    Some((_, known)) => known.push(mark),
                    None => others.push((other, vec![mark])),
                }
            }
            _ => listed.push(value),
        }
    }
    excerpt(out, source, &marks);
    for (other, marks) in others {
        out.raw("<p class=\"place\">");
        place(out, other.path(), marks[0].range);
        out.raw("</p>");
        excerpt(out, other, &marks);
    }
    if listed.is_empty() {
        return;
    }
    out.raw("<ul class=\"related\">");
    for related in listed.iter().take(MAX_RELATED) {
        out.raw("<li><span class=\"place\">");
        place(out, text(related, "file"), &related["range"]);
        out.raw("</span> ").words(text(related, "message")).raw("</li>");
    }
    if listed.len() > MAX_RELATED {
        out.raw("<li>and ").count((listed.len() - MAX_RELATED) as u64, "more place").raw("</li>");
    }
    out.raw("</ul>");
}

fn fix(out: &mut Markup, finding: &Finding, json: &Value) {
    out.raw("<dt>Fix</dt><dd><p>").words(text(json, "title")).raw(" <span class=\"tag\">");
    out.raw(if json["safety"] == "safe" { "safe" } else { "unsafe: review it" }).raw("</span></p>");
    let source =
        finding.location.rendered().map_or_else(|| source_of(&finding.location), |made| Some(&made.source));
    if let Some(source) = source {
        excerpt::diff(out, source, list(json, "edits"));
    }
    out.raw("</dd>");
}

fn rendered(out: &mut Markup, json: &Value) {
    let commands: Vec<&str> = list(json, "commands").iter().filter_map(Value::as_str).collect();
    out.raw("<dt>Rendered by</dt><dd>");
    for (at, command) in commands.iter().enumerate() {
        out.raw(if at == 0 { "" } else { ", " }).code(command);
    }
    let renders = json["renders"].as_u64().unwrap_or_default();
    if (commands.len() as u64) < renders {
        out.raw(" (").number(commands.len() as u64).raw(" of ").number(renders).raw(" renders)");
    }
    if json["literal"] == false {
        out.raw("<pre class=\"code\"><span class=\"l\">").text(text(json, "text")).raw("\n</span></pre>");
    }
    out.raw("</dd>");
}

/// Writes the changes by another version.
fn preview(page: &mut Markup, json: &Value) {
    page.raw("<section id=\"preview\" aria-labelledby=\"h-preview\"><h2 id=\"h-preview\">Upgrade</h2>");
    for product in list(json, "products") {
        page.raw("<p>").text(text(product, "name")).raw(" ").text(text(product, "from")).raw(" to ");
        page.text(text(product, "to"));
        if let Some(note) = product["note"].as_str() {
            page.raw(": ").words(note);
        }
        page.raw("</p>");
    }
    match list(json, "new").len() as u64 {
        0 => page.raw("<p>No finding is new.</p>"),
        count => page.raw("<p>").count(count, "finding").raw(" of the new version, marked above.</p>"),
    };
    let (gone, changes) = (list(json, "gone"), list(json, "changes"));
    let upgrade = list(json, "upgrade");
    if !upgrade.is_empty() {
        page.raw("<h3>What no manifest shows</h3><ul>");
        for one in upgrade {
            page.raw("<li>").text(text(one, "product")).raw(" ").text(text(one, "version")).raw(", ");
            page.text(text(one, "topic")).raw(": ").words(text(one, "text")).raw("</li>");
        }
        page.raw("</ul>");
    }
    if !gone.is_empty() {
        page.raw("<h3>Goes away</h3><ul>");
        for one in gone.iter().take(MAX_LISTED) {
            page.raw("<li>").words(text(one, "message")).raw(" <span class=\"place\">");
            place(page, text(one, "file"), &one["range"]);
            page.raw("</span> <span class=\"id\">").text(text(one, "rule")).raw("</span></li>");
        }
        page.raw("</ul>");
        more(page, gone.len());
    }
    if !changes.is_empty() {
        page.raw("<h3>Changes</h3><ul>");
        for one in changes.iter().take(MAX_LISTED) {
            page.raw("<li>from ").text(text(one, "product")).raw(" ").text(text(one, "version")).raw(" on ");
            page.words(text(one, "text")).raw(" <span class=\"place\">");
            place(page, text(one, "file"), &one["range"]);
            page.raw("</span></li>");
        }
        page.raw("</ul>");
        more(page, changes.len());
    }
    page.raw("</section>");
}

fn skipped(page: &mut Markup, skipped: &[Value]) {
    if skipped.is_empty() {
        return;
    }
    page.raw("<section id=\"skipped\" aria-labelledby=\"h-skipped\"><h2 id=\"h-skipped\">Skipped</h2>");
    let mut reasons: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for one in skipped {
        reasons.entry(text(one, "reason")).or_default().push(one);
    }
    for (reason, files) in reasons {
        page.raw("<details><summary>").text(&reason.replace('-', " ")).raw(" <span class=\"quiet\">");
        page.number(files.len() as u64).raw("</span></summary><ul>");
        for one in files.iter().take(MAX_LISTED) {
            page.raw("<li><span class=\"place\">").text(text(one, "file")).raw("</span>");
            if let Some(document) = one["document"].as_u64() {
                page.raw(" document ").digits(document + 1);
            }
            if one["partial"] == true {
                page.raw(" <span class=\"quiet\">checked by the rules that need no absent field</span>");
            }
            page.raw("</li>");
        }
        page.raw("</ul>");
        more(page, files.len());
        page.raw("</details>");
    }
    page.raw("</section>");
}

/// Writes how many entries a list leaves out.
pub(super) fn more(page: &mut Markup, entries: usize) {
    if entries > MAX_LISTED {
        page.raw("<p>and ")
            .number((entries - MAX_LISTED) as u64)
            .raw(" more: <code>--format json</code> has all.</p>");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::STYLE;

    /// The colours in a block of variables.
    fn colors(block: &str) -> HashMap<&str, [f64; 3]> {
        let pairs = block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        let channel = |hex: &str| {
            let value = f64::from(u8::from_str_radix(hex, 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        pairs
            .map(|(name, hex)| (name, [channel(&hex[..2]), channel(&hex[2..4]), channel(&hex[4..6])]))
            .collect()
    }

    #[test]
    fn every_text_has_the_contrast_of_wcag_aa() {
        let blocks: Vec<&str> =
            STYLE.split(":root {").skip(1).take(2).map(|rest| rest.split('}').next().unwrap()).collect();
        for (scheme, block) in ["light", "dark"].iter().zip(blocks) {
            let colors = colors(block);
            let light = |name: &str| {
                let [r, g, b] = colors[name];
                0.2126 * r + 0.7152 * g + 0.0722 * b
            };
            let contrast = |a: &str, b: &str| {
                let (a, b) = (light(a), light(b));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            for back in ["back", "sunk"] {
                for fore in ["fore", "quiet", "link", "error", "warning", "info"] {
                    assert!(
                        contrast(fore, back) >= 4.5,
                        "{scheme}: {fore} on {back}: {}",
                        contrast(fore, back)
                    );
                }
            }
            for (fore, back) in
                [("fore", "mark"), ("fore", "mark-other"), ("gone-fore", "gone"), ("new-fore", "new")]
            {
                assert!(contrast(fore, back) >= 4.5, "{scheme}: {fore} on {back}: {}", contrast(fore, back));
            }
            // Shapes that are not text, but have to be distinguishable.
            for (one, other) in [("edge", "back"), ("blocked", "limited"), ("blocked", "back")] {
                assert!(contrast(one, other) >= 3.0, "{scheme}: {one} on {other}: {}", contrast(one, other));
            }
        }
    }
}
