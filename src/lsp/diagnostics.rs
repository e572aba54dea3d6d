//! Findings as the editor shows them.

use std::hash::{DefaultHasher, Hasher};
use std::io;

use gpulint_rules::{Finding, Location, Related, Rule, Severity, Tag, fingerprints};
use lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag,
    NumberOrString,
};
use serde_json::{Value, json};

use crate::report::{only_in, rendered_words};
use crate::terminal::printable;

use super::client::Capabilities;

/// The source of each diagnostic, which editors show beside it.
pub(crate) const SOURCE: &str = "gpulint";

/// Converts a location to the protocol, with the texts of the editor.
pub(crate) type Locate<'a> = dyn Fn(&Location) -> Option<lsp_types::Location> + 'a;

/// The diagnostics of a file, in the order of its findings.
pub(crate) fn of_file(findings: &[Finding], locate: &Locate<'_>, can: Capabilities) -> Vec<Diagnostic> {
    let all = findings.iter().zip(fingerprints(findings));
    all.map(|(finding, fingerprint)| diagnostic(finding, Some(fingerprint), locate, can)).collect()
}

/// Makes a diagnostic of a finding. It is at the start of the file if the finding has no location in the
/// file.
pub(super) fn diagnostic(
    finding: &Finding,
    fingerprint: Option<String>,
    locate: &Locate<'_>,
    can: Capabilities,
) -> Diagnostic {
    let mut message = words(finding);
    let mut related = Vec::new();
    for one in &finding.related {
        match locate(&one.location).filter(|_| can.shows_related) {
            Some(location) => {
                related.push(DiagnosticRelatedInformation { location, message: one.message.clone() });
            }
            None => message.push_str(&line_of(one)),
        }
    }
    let rule = finding.rule;
    Diagnostic {
        range: locate(&finding.location).map(|place| place.range).unwrap_or_default(),
        severity: Some(severity(finding.severity)),
        code: Some(NumberOrString::String(rule.id.to_owned())),
        code_description: description(rule),
        source: Some(SOURCE.to_owned()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        tags: rule.tag.map(|tag| vec![tag_of(tag)]),
        data: Some(data(rule, fingerprint)),
    }
}

/// The text of a finding: the message, the sets in which it holds, the help and what was rendered, each on a line.
fn words(finding: &Finding) -> String {
    let help = finding.whole_help().map(|help| format!("help: {help}"));
    let own = [Some(finding.whole_message().to_owned()), only_in(finding), help];
    let lines = own.into_iter().flatten().chain(rendered_words(finding));
    let lines: Vec<String> = lines.map(|line| printable(&line, false).into_owned()).collect();
    lines.join("\n")
}

/// The result id of some diagnostics: a hash, so that equal diagnostics have the same id.
pub(crate) fn result_id(diagnostics: &[Diagnostic]) -> String {
    let mut hash = Hash(DefaultHasher::new());
    // Serialization cannot fail: all keys are strings, and writing to the hash cannot fail.
    let _ = serde_json::to_writer(&mut hash, diagnostics);
    format!("{:016x}", hash.0.finish())
}

struct Hash(DefaultHasher);

impl io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The data that the client sends back with a diagnostic.
fn data(rule: &Rule, fingerprint: Option<String>) -> Value {
    match fingerprint {
        Some(fingerprint) => json!({"rule": rule.id, "fingerprint": fingerprint}),
        None => json!({"rule": rule.id}),
    }
}

/// A related location as text, for a client that does not show related locations.
fn line_of(related: &Related) -> String {
    let message = &related.message;
    match related.location.resolve_span() {
        Some((source, _, span)) => {
            let at = source.lines().position(source.text(), span.start);
            format!("\n{}:{}:{}: {message}", source.path(), at.line, at.column)
        }
        None => format!("\n{message}"),
    }
}

pub(super) fn severity(severity: Severity) -> DiagnosticSeverity {
    match severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        Severity::Info => DiagnosticSeverity::INFORMATION,
    }
}

fn tag_of(tag: Tag) -> DiagnosticTag {
    match tag {
        Tag::Deprecated => DiagnosticTag::DEPRECATED,
        Tag::Unnecessary => DiagnosticTag::UNNECESSARY,
    }
}

/// The link to the manual page of the rule.
fn description(rule: &Rule) -> Option<CodeDescription> {
    Some(CodeDescription { href: rule.url().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Related;
    use lsp_types::Position;

    use super::super::actions::tests::{ALL, Checked, NONE};
    use super::super::position::Encoding;
    use super::*;

    fn of(checked: &Checked, can: Capabilities) -> Vec<Diagnostic> {
        of_file(&checked.report.findings, &|place| checked.locate(place), can)
    }

    const OLD: &str = "\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: 😀, annotations: {}}
# gpulint: allow[capacity-type-invalid] nothing to suppress
spec: {}
";

    #[test]
    fn a_diagnostic_says_all_of_a_finding() {
        let checked = Checked::new("old.yaml", OLD, Encoding::Utf16);
        let all = of(&checked, ALL);
        let of_rule = |id: &str| {
            let is_it = |one: &&Diagnostic| one.code == Some(NumberOrString::String(id.to_owned()));
            all.iter().find(is_it).unwrap_or_else(|| panic!("{id}: {all:#?}"))
        };
        let old = of_rule("karpenter-legacy-api");
        assert_eq!(old.range.start, Position { line: 0, character: 12 });
        assert_eq!(old.range.end, Position { line: 0, character: 33 });
        assert_eq!(old.severity, Some(DiagnosticSeverity::ERROR));
        assert_eq!(old.tags, Some(vec![DiagnosticTag::DEPRECATED]));
        assert_eq!(old.source.as_deref(), Some("gpulint"));
        let page = &old.code_description.as_ref().unwrap().href;
        assert_eq!(page.as_str(), "https://gpulint.dev/rules/karpenter-legacy-api.html");
        let (message, help) = old.message.split_once('\n').unwrap();
        assert!(message.starts_with("Karpenter no longer serves") && help.starts_with("help: "), "{old:#?}");
        assert_eq!(old.data.as_ref().unwrap()["rule"], "karpenter-legacy-api");
        let unused = of_rule("suppression-unused");
        assert_eq!(unused.tags, Some(vec![DiagnosticTag::UNNECESSARY]));
        assert_eq!(unused.range.start, Position { line: 3, character: 17 });
    }

    #[test]
    fn further_places_are_told_to_every_client() {
        let text = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n---\n";
        let checked = Checked::new("a.yaml", &format!("{text}{text}"), Encoding::Utf16);
        let with_places = of(&checked, ALL);
        let [one] = with_places.as_slice() else { panic!("{with_places:#?}") };
        let related = one.related_information.as_ref().unwrap();
        assert_eq!(related.len(), 1, "{one:#?}");
        let without = of(&checked, NONE);
        let line = format!("a.yaml:{}:", related[0].location.range.start.line + 1);
        assert!(without[0].message.contains(&line), "{without:#?}");
        assert_eq!(without[0].related_information, None);
    }

    #[test]
    fn equal_diagnostics_have_one_result_id() {
        let of = |text: &str| result_id(&of(&Checked::new("old.yaml", text, Encoding::Utf16), ALL));
        assert_eq!(of(OLD), of(OLD));
        assert_ne!(of(OLD), of(&format!("\n{OLD}")));
        assert_ne!(of(OLD), of(""));
    }

    #[test]
    fn a_place_without_text_is_said_in_words() {
        let checked = Checked::new("old.yaml", OLD, Encoding::Utf16);
        let mut finding = checked.report.findings[0].clone();
        finding.related = vec![Related { location: finding.location.clone(), message: "here".to_owned() }];
        let shown = diagnostic(&finding, None, &|_| None, ALL);
        assert!(shown.message.ends_with("old.yaml:1:13: here"), "{}", shown.message);
        assert_eq!(shown.range, lsp_types::Range::default());
    }
}
