//! SARIF 2.1.0, for code scanning of GitHub and other programs that show findings of several tools.
//!
//! Columns are UTF-16 code units, which the log declares and which programs assume that do not read the
//! declaration. Paths below the root of the repository are relative to `%SRCROOT%`. `partialFingerprints` has
//! the hash of the line that the upload action of GitHub would compute, and the fingerprint of the JSON
//! report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Finding, Location, Rule, Severity, fingerprints_at};
use serde::Serialize;
use serde_json::json;

use crate::error::CliError;
use crate::terminal::{count, print_note, printable};

use super::line_hash::line_hashes;
use super::place::{Place, Utf16, edits, file_uri, words_of, worst_first};
use super::{Report, manual};

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Maximum number of results of a run.
    results: usize,
    /// Maximum size of the compressed file in bytes.
    bytes: usize,
}

const GITHUB: Limits = Limits { results: 25_000, bytes: 10_000_000 };
/// Maximum length in bytes of each text of a rule except its help.
const MAX_DESCRIPTION: usize = 1000;
const SOURCE_ROOT: &str = "%SRCROOT%";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: serde_json::Value,
    invocations: [Invocation; 1],
    original_uri_base_ids: BTreeMap<&'static str, ArtifactLocation>,
    column_kind: &'static str,
    results: &'a [Result],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
    exit_code: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_execution_notifications: Vec<Notification>,
}

#[derive(Serialize)]
struct Notification {
    level: &'static str,
    message: Message,
}

#[derive(Clone, Serialize)]
struct Message {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: &'static str,
    name: String,
    short_description: Message,
    full_description: Message,
    help_uri: String,
    help: Help,
    default_configuration: serde_json::Value,
    properties: RuleProperties,
}

#[derive(Serialize)]
struct Help {
    text: String,
    markdown: String,
}

#[derive(Serialize)]
struct RuleProperties {
    tags: [&'static str; 1],
    group: &'static str,
    /// The certainty of a finding, in the terms of GitHub.
    precision: &'static str,
    /// The severity, in the terms of GitHub.
    #[serde(rename = "problem.severity")]
    severity: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Result {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Message,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locations: Vec<PhysicalPlace>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<PhysicalPlace>,
    partial_fingerprints: Fingerprints,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fixes: Vec<Fix>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Suppression>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<serde_json::Value>,
}

/// A comment or an annotation that allows the finding.
#[derive(Serialize)]
struct Suppression {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    justification: Option<String>,
}

#[derive(Serialize)]
struct Fingerprints {
    #[serde(rename = "primaryLocationLineHash", skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(rename = "gpulint/v1")]
    own: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalPlace {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    physical_location: PhysicalLocation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<LogicalLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Message>,
}

/// An object of a manifest.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    name: String,
    fully_qualified_name: String,
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
    start_column: u32,
    end_line: u32,
    end_column: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fix {
    description: Message,
    artifact_changes: [ArtifactChange; 1],
    properties: serde_json::Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactChange {
    artifact_location: ArtifactLocation,
    replacements: Vec<Replacement>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement {
    deleted_region: Region,
    #[serde(skip_serializing_if = "Option::is_none")]
    inserted_content: Option<Message>,
}

/// Writes the log. Findings beyond the limits of GitHub are left out, with a note in the log and on standard
/// error.
pub(crate) fn write(out: &mut dyn Write, report: &Report) -> std::result::Result<(), CliError> {
    let (text, left_out) = log(report, GITHUB)?;
    if let Some(note) = left_out {
        print_note(&format!("note: SARIF: {note}"));
    }
    out.write_all(&text)?;
    Ok(out.write_all(b"\n")?)
}

/// The log, and a note on the findings that were left out.
fn log(report: &Report, limits: Limits) -> std::result::Result<(Vec<u8>, Option<String>), CliError> {
    let entries = entries(report);
    let all = entries.len();
    let mut kept = all.min(limits.results);
    loop {
        let note = (kept < all).then(|| {
            let severities = entries[kept..].iter().map(|entry| entry.finding.severity);
            let worst = severities.max().map_or("", Severity::name);
            format!(
                "{} of {} left out, of severity {worst} at most: GitHub accepts {} results and {} MB compressed",
                all - kept,
                count(all, "finding"),
                limits.results,
                limits.bytes / 1_000_000
            )
        });
        let text = serialize(report, &entries[..kept], note.as_deref())?;
        let size = if text.len() <= limits.bytes { 0 } else { compressed_size(&text)? };
        if size <= limits.bytes || kept == 0 {
            return Ok((text, note));
        }
        // A little less than the number of results that fit if all are equally large.
        let fits = kept as u128 * limits.bytes as u128 / size as u128;
        kept = (fits as usize * 19 / 20).min(kept - 1);
    }
}

/// A finding of the report, or a suppressed one.
struct Entry<'a> {
    finding: &'a Finding,
    /// The note on a finding that is new with a version.
    mark: Option<String>,
    fingerprint: String,
    /// The reason of the suppression; `None` if the finding is not suppressed, empty if no reason is given.
    reason: Option<&'a str>,
}

/// The entries of the log: findings in descending order of severity, and then the suppressed ones.
fn entries(report: &Report) -> Vec<Entry<'_>> {
    let suppressed = || report.suppressed.iter().map(|one| &one.finding);
    // Findings of one identity get different numbers.
    let all = report.findings.iter().chain(suppressed());
    let own = fingerprints_at(all.map(|finding| (finding, finding.location.path().unwrap_or_default())));
    let mut own: Vec<Option<String>> = own.into_iter().map(Some).collect();
    let mut take = |at: usize| own.get_mut(at).and_then(Option::take).unwrap_or_default();
    let mut entries = Vec::with_capacity(report.findings.len() + report.suppressed.len());
    for at in worst_first(report) {
        let finding = &report.findings[at];
        entries.push(Entry { finding, mark: report.mark(at), fingerprint: take(at), reason: None });
    }
    for (at, one) in report.suppressed.iter().enumerate() {
        let fingerprint = take(report.findings.len() + at);
        let reason = Some(one.reason.as_str());
        entries.push(Entry { finding: &one.finding, mark: None, fingerprint, reason });
    }
    entries
}

fn compressed_size(text: &[u8]) -> io::Result<usize> {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut encoder = flate2::write::GzEncoder::new(Count(0), flate2::Compression::default());
    encoder.write_all(text)?;
    Ok(encoder.finish()?.0)
}

fn serialize(
    report: &Report,
    entries: &[Entry<'_>],
    left_out: Option<&str>,
) -> std::result::Result<Vec<u8>, CliError> {
    let rules: BTreeMap<&str, &'static Rule> =
        entries.iter().map(|entry| (entry.finding.rule.id, entry.finding.rule)).collect();
    let mut maker = Maker {
        report,
        indices: rules.keys().copied().zip(0..).collect(),
        lines: hashes_of_lines(entries.iter().map(|entry| entry.finding)),
        columns: Utf16::default(),
    };
    let results: Vec<Result> = entries.iter().map(|entry| maker.result(entry)).collect();
    let descriptors: Vec<Descriptor> = rules.values().map(|rule| descriptor(rule)).collect();
    let problems = report.failures.iter().map(|problem| ("error", problem.as_str()));
    let notifications = problems
        .chain(left_out.map(|note| ("warning", note)))
        .map(|(level, text)| Notification { level, message: message(text) });
    let root = ArtifactLocation {
        uri: with_slash(file_uri(&report.root)),
        uri_base_id: None,
        description: Some(message("The root of the repository, or the folder in which gpulint was run")),
    };
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run {
            tool: json!({"driver": {
                "name": "gpulint",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": descriptors,
            }}),
            invocations: [Invocation {
                execution_successful: report.exit_code < 2,
                exit_code: report.exit_code,
                tool_execution_notifications: notifications.collect(),
            }],
            original_uri_base_ids: BTreeMap::from([(SOURCE_ROOT, root)]),
            column_kind: "utf16CodeUnits",
            results: &results,
        }],
    };
    Ok(serde_json::to_vec(&log)?)
}

fn with_slash(mut uri: String) -> String {
    if !uri.ends_with('/') {
        uri.push('/');
    }
    uri
}

fn message(text: &str) -> Message {
    Message { text: printable(text, true).into_owned() }
}

/// The hashes of the lines of findings, by the address of the source and the line. A file that is not UTF-8
/// has none, because its text differs from the content on disk.
fn hashes_of_lines<'f>(findings: impl Iterator<Item = &'f Finding>) -> HashMap<(*const Source, u32), String> {
    let mut lines: HashMap<*const Source, (Arc<Source>, BTreeSet<u32>)> = HashMap::new();
    for (source, _, span) in findings.filter_map(|finding| finding.location.resolve_span()) {
        if source.is_utf8() {
            let (_, wanted) =
                lines.entry(Arc::as_ptr(source)).or_insert_with(|| (Arc::clone(source), BTreeSet::new()));
            wanted.insert(source.lines().line_of(span.start) as u32 + 1);
        }
    }
    let hashes = lines.into_iter().flat_map(|(key, (source, wanted))| {
        line_hashes(source.text(), &wanted).into_iter().map(move |(line, hash)| ((key, line), hash))
    });
    hashes.collect()
}

/// Converts findings to results.
struct Maker<'a> {
    report: &'a Report,
    /// The index of each rule in the list of rules.
    indices: HashMap<&'a str, usize>,
    lines: HashMap<(*const Source, u32), String>,
    columns: Utf16,
}

impl Maker<'_> {
    fn result(&mut self, entry: &Entry<'_>) -> Result {
        let finding = entry.finding;
        let mut text = words_of(finding, entry.mark.clone());
        let mut related_locations = Vec::new();
        for related in &finding.related {
            let id = related_locations.len() + 1;
            let Some(place) = self.place(&related.location, Some(id), Some(&related.message)) else {
                continue;
            };
            // Programs show a related location if the message links to it.
            let said = printable(&related.message, false).replace('[', "\\[").replace(']', "\\]");
            text.push(format!("see [{said}]({id})"));
            related_locations.push(place);
        }
        let line = finding.location.resolve_span().and_then(|(source, _, span)| {
            let line = source.lines().line_of(span.start) as u32 + 1;
            self.lines.get(&(Arc::as_ptr(source), line)).cloned()
        });
        Result {
            rule_id: finding.rule.id,
            rule_index: self.indices.get(finding.rule.id).copied().unwrap_or_default(),
            level: level(finding.severity),
            message: Message { text: text.join("\n") },
            locations: self.place(&finding.location, None, None).into_iter().collect(),
            related_locations,
            partial_fingerprints: Fingerprints { line, own: entry.fingerprint.clone() },
            fixes: self.fix(finding).into_iter().collect(),
            suppressions: entry
                .reason
                .iter()
                .map(|reason| Suppression {
                    kind: "inSource",
                    justification: (!reason.is_empty()).then(|| printable(reason, false).into_owned()),
                })
                .collect(),
            properties: properties(finding),
        }
    }

    fn place(&mut self, location: &Location, id: Option<usize>, text: Option<&str>) -> Option<PhysicalPlace> {
        let path = location.path()?;
        let span = location.resolve_span().map(|(source, _, span)| (Arc::clone(source), span));
        let logical_locations = location.object().map(|object| {
            let name = object.id();
            let qualified = match name.namespace() {
                Some(namespace) => format!("{}/{namespace}/{}", name.kind, name.name),
                None => format!("{}/{}", name.kind, name.name),
            };
            LogicalLocation {
                name: printable(&name.name, false).into_owned(),
                fully_qualified_name: printable(&qualified, false).into_owned(),
                kind: "object",
            }
        });
        Some(PhysicalPlace {
            id,
            physical_location: PhysicalLocation {
                artifact_location: self.artifact(path),
                region: span.map(|(source, span)| self.region(&source, span)),
            },
            logical_locations: logical_locations.into_iter().collect(),
            message: text.map(message),
        })
    }

    fn artifact(&self, path: &str) -> ArtifactLocation {
        let place = self.report.place(path);
        let uri_base_id = matches!(place, Place::Below(_)).then_some(SOURCE_ROOT);
        ArtifactLocation { uri: place.uri(), uri_base_id, description: None }
    }

    fn region(&mut self, source: &Arc<Source>, span: Span) -> Region {
        let (start, end) = (self.columns.point(source, span.start), self.columns.point(source, span.end));
        Region {
            start_line: start.line,
            start_column: start.column,
            end_line: end.line,
            end_column: end.column,
        }
    }

    fn fix(&mut self, finding: &Finding) -> Option<Fix> {
        let fix = finding.fix.as_ref()?;
        let (source, edits) = edits(finding)?;
        let replacements = edits.into_iter().map(|edit| Replacement {
            deleted_region: self.region(&source, edit.span),
            inserted_content: (!edit.text.is_empty()).then_some(Message { text: edit.text }),
        });
        let replacements = replacements.collect();
        let safety = fix.safety.name();
        Some(Fix {
            description: message(&fix.title_with_effect()),
            artifact_changes: [ArtifactChange {
                artifact_location: self.artifact(source.path()),
                replacements,
            }],
            properties: json!({ "safety": safety }),
        })
    }
}

/// The properties that the format has no member for.
fn properties(finding: &Finding) -> Option<serde_json::Value> {
    let mut out = serde_json::Map::new();
    if let Some(pointer) = finding.location.pointer() {
        out.insert("pointer".to_owned(), pointer.to_string().into());
    }
    if let Some(authority) = finding.rejected_by {
        out.insert("refusedBy".to_owned(), authority.name().into());
    }
    if !finding.sets.names.is_empty() {
        out.insert("sets".to_owned(), finding.sets.names.iter().map(|name| name.to_string()).collect());
    }
    (!out.is_empty()).then_some(out.into())
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn descriptor(rule: &Rule) -> Descriptor {
    Descriptor {
        id: rule.id,
        name: pascal_case(rule.id),
        short_description: Message { text: format!("{}.", rule.summary()) },
        full_description: Message { text: manual::why(rule, MAX_DESCRIPTION) },
        help_uri: rule.url(),
        help: Help { text: manual::text(rule), markdown: manual::markdown(rule) },
        default_configuration: json!({ "level": level(rule.severity) }),
        properties: RuleProperties {
            tags: [rule.group.name()],
            group: rule.group.name(),
            precision: if rule.rejected_by.is_empty() { "high" } else { "very-high" },
            severity: match rule.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "recommendation",
            },
        },
    }
}

fn pascal_case(id: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    id.split('-').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use gpulint_rules::source::Source;
    use gpulint_rules::{Engine, Settings};
    use serde_json::Value;

    use super::super::Report;
    use super::{Limits, compressed_size, log};

    /// A report on GPU pools with an error and a warning each.
    fn report(pools: usize) -> Report {
        let pool = |number: usize| {
            let text = format!(
                "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: gpu-{number}}}\nspec:\n  template:\n    spec:\n      \
                 nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
                 - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}}\n  limits: {{nvidia.com/gpu: 8}}\n"
            );
            Source::from_text(&format!("{number}.yaml"), &text)
        };
        let engine = Engine::new(Settings::default());
        let checked = gpulint_testing::check(&engine, (0..pools).map(pool));
        Report { findings: checked.findings, ..Report::default() }
    }

    fn levels(text: &[u8]) -> (Vec<String>, Value) {
        let log: Value = serde_json::from_slice(text).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let levels = results.iter().map(|one| one["level"].as_str().unwrap().to_owned()).collect();
        (levels, log["runs"][0]["invocations"][0]["toolExecutionNotifications"].clone())
    }

    #[test]
    fn errors_are_kept_where_github_would_not_take_all() {
        let report = report(30);
        let all = report.findings.len();
        let (text, note) = log(&report, Limits { results: all, bytes: 10_000_000 }).unwrap();
        assert_eq!(note, None);
        let (every, notifications) = levels(&text);
        assert_eq!((every.len(), notifications), (all, Value::Null));

        let errors = every.iter().filter(|level| *level == "error").count();
        let (text, note) = log(&report, Limits { results: errors + 3, bytes: 10_000_000 }).unwrap();
        let (kept, notifications) = levels(&text);
        assert_eq!(kept, every[..errors + 3]);
        let note = note.unwrap();
        assert_eq!(notifications[0]["message"]["text"], note);
        assert!(
            note.starts_with(&format!("{} of {all} findings left out, of severity ", all - errors - 3)),
            "{note}"
        );

        let size = compressed_size(&text).unwrap();
        let (text, note) = log(&report, Limits { results: all, bytes: size * 2 / 3 }).unwrap();
        assert!(compressed_size(&text).unwrap() <= size * 2 / 3);
        let (kept, _) = levels(&text);
        assert!(kept.len() < errors + 3 && kept == every[..kept.len()] && note.is_some(), "{}", kept.len());
    }
}
