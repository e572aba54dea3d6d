//! The JSON report, version 1. Other programs read the output of these types, which `diagnostics.schema.json`
//! describes. Members may be added within a version; removing, renaming or changing the type of one requires
//! a new version.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use gpulint_rules::lint::fix::text;
use gpulint_rules::lint::preview::UpgradeNote;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Authority, Finding, Location, Operation, fingerprints};
use rayon::prelude::*;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::error::CliError;

use super::counts::{Row, rows};
use super::place::rendered_line;
use super::preview::Preview;
use super::{Report, TakenVersion};

pub(crate) const SCHEMA: &str = include_str!("diagnostics.schema.json");

#[derive(Serialize)]
pub(super) struct Root<'a> {
    version: u32,
    tool: Tool,
    summary: Summary<'a>,
    /// The reasons for exit code 2.
    failures: &'a [String],
    diagnostics: Diagnostics<'a>,
    preview: Option<PreviewJson<'a>>,
    /// The versions that the files show and that no configuration states.
    versions: &'a [TakenVersion],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    renders: Vec<Render<'a>>,
}

/// A command that rendered something, or the object that stands for it, and the files of its values.
#[derive(Serialize)]
struct Render<'a> {
    command: &'a str,
    values: &'a [String],
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Summary<'a> {
    files: usize,
    objects: usize,
    skipped: Vec<Skipped<'a>>,
    unread: BTreeMap<&'static str, usize>,
    errors: usize,
    warnings: usize,
    infos: usize,
    fixable: usize,
    fixed: usize,
    suppressed: usize,
    baselined: usize,
    rules: Vec<RuleCount>,
}

#[derive(Serialize)]
struct RuleCount {
    rule: &'static str,
    severity: &'static str,
    count: usize,
    fixable: usize,
    summary: &'static str,
}

#[derive(Serialize)]
struct Skipped<'a> {
    file: &'a str,
    document: Option<u32>,
    reason: &'static str,
    partial: bool,
}

/// The findings of a report, serialized and written in chunks.
struct Diagnostics<'a> {
    findings: &'a [Finding],
    report: &'a Report,
}

/// Number of findings that one thread serializes at a time.
const TASK_FINDINGS: usize = 64;
/// Number of tasks whose output is collected before it is written.
const CHUNK_TASKS: usize = 32;
/// Typical length of the text of a finding, for the capacity of buffers.
const TYPICAL_BYTES: usize = 2048;

impl Serialize for Diagnostics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fingerprints = fingerprints(self.findings);
        let mut list = serializer.serialize_seq(Some(self.findings.len()))?;
        for (finding, fingerprint) in self.findings.iter().zip(&fingerprints) {
            list.serialize_element(&diagnostic(finding, fingerprint, self.report))?;
        }
        list.end()
    }
}

impl Diagnostics<'_> {
    /// Writes the items of the list. They are serialized on all threads, a chunk at a time.
    fn write(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let fingerprints = fingerprints(self.findings);
        let chunks = self.findings.par_chunks(TASK_FINDINGS).zip(fingerprints.par_chunks(TASK_FINDINGS));
        let texts = |from: usize| {
            let chunks = chunks.clone().skip(from).take(CHUNK_TASKS);
            let texts = chunks.enumerate().map(|(at, (findings, names))| {
                let mut text = Vec::with_capacity(findings.len() * TYPICAL_BYTES);
                for (number, (finding, name)) in findings.iter().zip(names).enumerate() {
                    let is_first = from + at + number == 0;
                    text.extend_from_slice(if is_first { b"\n    " } else { b",\n    " });
                    let mut item = serde_json::Serializer::with_formatter(&mut text, Indented::new(2));
                    diagnostic(finding, name, self.report).serialize(&mut item)?;
                }
                Ok(text)
            });
            texts.collect::<Result<Vec<Vec<u8>>, serde_json::Error>>()
        };
        for from in (0..self.findings.len().div_ceil(TASK_FINDINGS)).step_by(CHUNK_TASKS) {
            texts(from)?.iter().try_for_each(|text| out.write_all(text))?;
        }
        Ok(())
    }
}

/// Formats a value that is nested in another one as pretty JSON.
struct Indented(PrettyFormatter<'static>);

impl Indented {
    fn new(levels: usize) -> Indented {
        let mut pretty = PrettyFormatter::new();
        (0..levels).for_each(|_| {
            // The formatter counts a level when it writes an opening bracket. That bracket is written
            // elsewhere, hence the sink.
            let _ = pretty.begin_array(&mut io::sink());
        });
        Indented(pretty)
    }
}

/// Delegates the methods of [`PrettyFormatter`] that differ from the defaults of a formatter.
macro_rules! as_pretty {
    ($($method:ident($($argument:ident: $kind:ty)?);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            self.0.$method(writer $(, $argument)?)
        })*
    };
}

impl Formatter for Indented {
    as_pretty! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

#[derive(Serialize)]
pub(super) struct Diagnostic<'a> {
    rule: &'static str,
    group: &'static str,
    severity: &'static str,
    /// The component that rejects the object for this reason; null if none is known.
    #[serde(rename = "refusedBy")]
    rejected_by: Option<&'static str>,
    message: &'a str,
    help: Option<&'a str>,
    url: Option<String>,
    file: &'a str,
    /// The configuration under which the file was checked.
    configuration: Option<&'a str>,
    document: u32,
    object: Option<Identity<'a>>,
    pointer: Option<String>,
    range: Option<Range>,
    related: Vec<Related<'a>>,
    /// The sets in which the finding holds; empty if the whole input is one set.
    sets: Vec<&'a str>,
    fingerprint: &'a str,
    fix: Option<Fix<'a>>,
    week: Option<Week<'a>>,
    rendered: Option<RenderedPlace<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    api_version: String,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
}

#[derive(Serialize)]
pub(super) struct Range {
    start: Point,
    end: Point,
}

#[derive(Serialize)]
struct RenderedPlace<'a> {
    commands: Vec<&'a str>,
    renders: usize,
    literal: bool,
    text: &'a str,
}

#[derive(Serialize)]
struct Point {
    line: u32,
    column: u32,
    offset: u64,
}

#[derive(Serialize)]
struct Related<'a> {
    message: &'a str,
    file: &'a str,
    range: Option<Range>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fix<'a> {
    title: String,
    safety: &'static str,
    replaces_nodes: bool,
    edits: Vec<Edit>,
    patch: Vec<Change<'a>>,
}

/// The disruptions that budgets allow in each hour of a week.
#[derive(Serialize)]
struct Week<'a> {
    reasons: Vec<&'static str>,
    /// The time zone of a cron window, whose hours these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<&'a str>,
    days: Vec<String>,
    timezone: Option<&'a str>,
}

#[derive(Serialize)]
struct Edit {
    range: Range,
    text: String,
}

/// One RFC 6902 operation.
#[derive(Serialize)]
struct Change<'a> {
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Value>,
}

/// The member with the findings if there are none.
const NO_DIAGNOSTICS: &str = "\n  \"diagnostics\": []";

pub(crate) fn write(out: &mut dyn Write, report: &Report) -> Result<(), CliError> {
    let mut root = root(report);
    let diagnostics = std::mem::replace(&mut root.diagnostics, Diagnostics { findings: &[], report });
    let report_without = serde_json::to_string_pretty(&root)?;
    // Line breaks within strings are escaped, so that this text is certainly the member of the report.
    let (before, after) = report_without.split_once(NO_DIAGNOSTICS).expect("the list is a member");
    if diagnostics.findings.is_empty() {
        out.write_all(report_without.as_bytes())?;
    } else {
        out.write_all(before.as_bytes())?;
        out.write_all(NO_DIAGNOSTICS.trim_end_matches(']').as_bytes())?;
        diagnostics.write(out)?;
        out.write_all(b"\n  ]")?;
        out.write_all(after.as_bytes())?;
    }
    out.write_all(b"\n")?;
    Ok(())
}

/// The report without its findings. Other formats use it too.
pub(super) fn head(report: &Report) -> Root<'_> {
    Root { diagnostics: Diagnostics { findings: &[], report }, ..root(report) }
}

fn root(report: &Report) -> Root<'_> {
    let summary = &report.summary;
    Root {
        version: 1,
        tool: Tool { name: "gpulint", version: env!("CARGO_PKG_VERSION") },
        summary: Summary {
            files: summary.files,
            objects: summary.objects,
            skipped: summary
                .skipped
                .iter()
                .map(|s| Skipped {
                    file: &s.file,
                    document: s.document,
                    reason: s.reason.name(),
                    partial: s.partial,
                })
                .collect(),
            unread: summary.unread.iter().map(|(reason, files)| (reason.name(), *files)).collect(),
            errors: summary.errors,
            warnings: summary.warnings,
            infos: summary.infos,
            fixable: summary.fixable,
            fixed: summary.fixed.unwrap_or_default(),
            suppressed: summary.suppressed,
            baselined: summary.baselined,
            rules: rule_counts(&report.findings),
        },
        failures: &report.failures,
        diagnostics: Diagnostics { findings: if report.statistics { &[] } else { &report.findings }, report },
        preview: (report.preview.as_ref().filter(|known| !known.steps.is_empty()))
            .map(|known| preview(known, report)),
        versions: &report.versions,
        renders: report.renders.iter().map(|(command, values)| Render { command, values }).collect(),
    }
}

/// The number of findings of each rule: errors first, and the largest numbers first.
fn rule_counts(findings: &[Finding]) -> Vec<RuleCount> {
    let count = |row: Row| RuleCount {
        rule: row.rule.id,
        severity: row.severity.name(),
        count: row.count,
        fixable: row.safe + row.unsafe_,
        summary: row.rule.summary(),
    };
    rows(findings).into_iter().rev().map(count).collect()
}

/// A finding, with its fingerprint ([`fingerprints`]).
pub(super) fn diagnostic<'a>(
    finding: &'a Finding,
    fingerprint: &'a str,
    report: &'a Report,
) -> Diagnostic<'a> {
    let place = finding.location.resolve_span();
    let file = finding.location.path().unwrap_or_default();
    Diagnostic {
        rule: finding.rule.id,
        group: finding.rule.group.name(),
        severity: finding.severity.name(),
        rejected_by: finding.rejected_by.map(Authority::name),
        message: finding.whole_message(),
        help: finding.whole_help(),
        url: Some(finding.rule.url()),
        file,
        configuration: report.configurations.get(file).map(String::as_str),
        document: place.map_or(0, |(_, document, _)| document),
        object: finding.location.object().map(|object| {
            let id = object.id();
            Identity {
                api_version: id.api_version(),
                kind: &id.kind,
                namespace: id.namespace(),
                name: &id.name,
            }
        }),
        pointer: finding.location.pointer().map(ToString::to_string),
        range: place.map(|(source, _, span)| range(source, span)),
        related: finding
            .related
            .iter()
            .map(|related| Related {
                message: &related.message,
                file: related.location.path().unwrap_or(file),
                range: related.location.resolve_span().map(|(s, _, span)| range(s, span)),
            })
            .collect(),
        sets: finding.sets.names.iter().map(|name| &**name).collect(),
        fingerprint,
        fix: finding.fix.as_ref().map(|fix| Fix {
            title: fix.title_with_effect(),
            safety: fix.safety.name(),
            replaces_nodes: fix.replaces_nodes,
            edits: edits(finding, fix),
            patch: fix.operations.iter().map(change).collect(),
        }),
        week: finding.schedule_grid.as_deref().map(|week| Week {
            reasons: week.reasons.iter().map(|r| r.name()).collect(),
            window: week.window.as_deref(),
            days: week.hours.iter().map(|day| day.iter().map(|hour| hour.letter()).collect()).collect(),
            timezone: week.zone.as_ref().map(|zone| zone.name.as_str()),
        }),
        rendered: finding.location.rendered().map(|rendered| RenderedPlace {
            commands: rendered.commands.iter().map(|command| &**command).collect(),
            renders: rendered.renders,
            literal: rendered.is_literal,
            text: rendered_line(rendered),
        }),
    }
}

/// The fix as edits of the file. Empty if it cannot be applied as text.
fn edits(finding: &Finding, fix: &gpulint_rules::Fix) -> Vec<Edit> {
    let edit = |source: &Source, edit: text::Edit| Edit { range: range(source, edit.span), text: edit.text };
    if let Some(rendered) = finding.location.rendered() {
        let repair = rendered.repair.iter();
        return repair
            .flat_map(|repair| &repair.edits)
            .map(|one| edit(&rendered.source, one.clone()))
            .collect();
    }
    let Some((object, (source, _, _))) = finding.location.object().zip(finding.location.resolve_span())
    else {
        return Vec::new();
    };
    let edits = text::edits(object, fix).unwrap_or_default();
    edits.into_iter().map(|one| edit(source, one)).collect()
}

pub(super) fn range(source: &Source, span: Span) -> Range {
    let point = |at: u32| {
        let position = source.lines().position(source.text(), at);
        Point { line: position.line, column: position.column, offset: source.disk_offset(at) }
    };
    Range { start: point(span.start), end: point(span.end) }
}

fn change(operation: &Operation) -> Change<'_> {
    let (op, from, path, value) = match operation {
        Operation::Test { path, value } => ("test", None, path, Some(value)),
        Operation::Add { path, value } => ("add", None, path, Some(value)),
        Operation::Replace { path, value } => ("replace", None, path, Some(value)),
        Operation::Remove { path } => ("remove", None, path, None),
        Operation::Move { from, path } => ("move", Some(from.as_str()), path, None),
    };
    Change { op, from, path, value }
}

#[derive(Serialize)]
struct PreviewJson<'a> {
    products: Vec<ProductJson>,
    new: Vec<String>,
    gone: Diagnostics<'a>,
    upgrade: Vec<UpgradeJson>,
    changes: Vec<ChangeJson<'a>>,
}

#[derive(Serialize)]
struct UpgradeJson {
    product: &'static str,
    version: String,
    topic: &'static str,
    text: &'static str,
}

#[derive(Serialize)]
struct ProductJson {
    name: &'static str,
    from: String,
    to: String,
    note: Option<String>,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    product: &'static str,
    version: String,
    text: &'a str,
    file: Option<String>,
    pointer: String,
    range: Option<Range>,
}

fn upgrade(note: &UpgradeNote) -> UpgradeJson {
    let UpgradeNote { version, topic, text } = *note;
    UpgradeJson { product: "Karpenter", version: version.to_string(), topic, text }
}

fn preview<'a>(preview: &'a Preview, report: &'a Report) -> PreviewJson<'a> {
    let fingerprints = fingerprints(&report.findings);
    PreviewJson {
        products: preview
            .steps
            .iter()
            .map(|step| ProductJson {
                name: step.product.name(),
                from: step.from.to_string(),
                to: step.to.to_string(),
                note: step.note(),
            })
            .collect(),
        new: preview.new.iter().filter_map(|at| fingerprints.get(*at).cloned()).collect(),
        gone: Diagnostics { findings: &preview.gone, report },
        upgrade: preview.upgrade.iter().map(upgrade).collect(),
        changes: preview
            .changes
            .iter()
            .map(|change| {
                let (object, pointer) = (change.object.clone(), change.pointer.clone());
                let field = Location::Field { object, pointer, key: false };
                let place = field.resolve_span();
                ChangeJson {
                    product: "Karpenter",
                    version: change.version.to_string(),
                    text: change.text,
                    file: place.map(|(source, ..)| source.path().to_owned()),
                    pointer: change.pointer.to_string(),
                    range: place.map(|(source, _, span)| range(source, span)),
                }
            })
            .collect(),
    }
}
