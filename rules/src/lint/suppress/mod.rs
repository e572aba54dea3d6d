//! Suppressions: comments in files, annotations on objects.
//!
//! `# gpulint: allow[rule-id, other-id] until=2027-01-31 reason…` applies to its own line, or to the next
//! line if it is the only text on its line; consecutive comments of this form apply to the same line. The
//! annotation `gpulint.dev/allow: "rule-id: reason; other-id until=2027-01-31: reason"` applies to its
//! object.

mod grammar;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::facts::suggest;
use crate::facts::suggest::SUGGESTIONS_PER_RULE;
use crate::file::File;
use crate::lint::finding::{Finding, Location, Severity};
use crate::lint::report::{CheckReport, SuppressedFinding};
use crate::lint::resolved::ResolvedRules;
use crate::lint::rule::{Check, Group, Rule};
use crate::object::{Object, ObjectId};
use crate::source::{Document, Source};
use crate::tree::Span;

use grammar::{AllowEntry, Directive, ellipsize};

/// Name of the annotation that suppresses findings.
pub const ANNOTATION: &str = "gpulint.dev/allow";

/// Maximum number of entries of an annotation that count. An object has far fewer rules with findings, and each entry is
/// looked up at every review.
const MAX_ENTRIES: usize = 512;

/// Makes the comment that suppresses some rules for a reason.
///
/// # Errors
/// What is wrong with the reason.
pub fn comment(rules: &[&str], reason: &str) -> Result<String, String> {
    let text = format!("# gpulint: allow[{}] {}", rules.join(", "), reason.trim());
    if text.contains(|c: char| c.is_control()) {
        return Err("the reason of a suppression is one line".to_owned());
    }
    let directive = grammar::parse_comment(&text).unwrap_or_default();
    if let Some(error) = directive.errors.first() {
        return Err(error.message.clone());
    }
    if !directive.entries.iter().all(|entry| entry.has_reason()) {
        return Err("the reason of a suppression has no word".to_owned());
    }
    Ok(text)
}

pub fn is_suppressible(rule: &Rule) -> bool {
    rule.group != Group::Suppression
}

/// Removes suppressed findings, and reports suppressions that are unused, expired or not valid.
pub(crate) fn apply(
    rules: &ResolvedRules,
    findings: Vec<Finding>,
    files: &[File],
    objects: &[Object],
) -> CheckReport {
    let mut checked = CheckReport::default();
    if !rules.settings().suppressions {
        checked.findings = findings;
        return checked;
    }
    let mut all = Suppressions::new(rules);
    for file in files {
        all.read_comments(file);
    }
    for object in objects {
        all.read_annotation(object);
    }
    if all.slots.is_empty() {
        checked.findings = findings;
        checked.findings.extend(all.into_findings());
        return checked;
    }
    for finding in findings {
        match all.cover(&finding) {
            None => {
                all.miss(&finding);
                checked.findings.push(finding);
            }
            Some(slot) => {
                checked.suppressed += 1;
                if rules.settings().keep_suppressed {
                    let reason = all.reasons[slot].clone();
                    checked.kept.push(SuppressedFinding { finding, reason });
                }
            }
        }
    }
    checked.findings.extend(all.into_findings());
    checked
}

/// Whether a file has comments or annotations that [`apply`] reads.
pub(crate) fn has_suppressions(file: &File) -> bool {
    let has_annotation = |object: &Object| object.annotation(ANNOTATION).is_set();
    !comments(file).is_empty() || file.objects.iter().any(has_annotation)
}

/// Whether a comment allows a finding of a rule on a line of a text other than a manifest. Errors in such a comment
/// are not reported.
///
/// Returns the reason, which may be empty.
pub(crate) fn allowed_on_line(
    rules: &ResolvedRules,
    source: &Source,
    line: usize,
    rule: &Rule,
) -> Option<String> {
    if !rules.settings().suppressions || rule.group == Group::Suppression {
        return None;
    }
    let (text, lines) = (source.text(), source.lines());
    let line_text = |line: usize| {
        let (from, to) = (lines.start_of(line, text), lines.start_of(line + 1, text));
        text.get(from as usize..to as usize).unwrap_or_default()
    };
    let today = rules.settings().today;
    let allows = |comment: &str| {
        let directive = grammar::parse_comment(comment.trim_end())?;
        let entry = directive.entries.into_iter().find(|entry| {
            let holds = entry.until.as_ref().is_none_or(|(date, _)| today.is_none_or(|today| today <= *date));
            holds && comment.get(entry.id.clone()) == Some(rule.id)
        });
        entry.map(|entry| entry.reason)
    };
    let own = line_text(line);
    if let Some(reason) = own.match_indices('#').find_map(|(at, _)| allows(&own[at..])) {
        return Some(reason);
    }
    let mut above = (0..line).rev().map(line_text).map(str::trim).take_while(|line| line.starts_with('#'));
    above.find_map(allows)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum SuppressionTarget {
    /// A line, counted from 0, of a file, which is identified by the address of its source.
    Line(*const Source, usize),
    /// An object, identified by the address of its `ObjectId`, which all handles of the object share.
    Object(*const ObjectId),
}

/// One suppressed rule of a comment or annotation.
struct Suppression {
    rule: &'static Rule,
    /// Index into `Suppressions::used`; equal targets of a rule share it.
    slot: usize,
    place: Location,
    /// Whether the rule ran, so that the absence of a finding means that the suppression is unused.
    rule_ran: bool,
    has_reason: bool,
    directive_number: usize,
}

struct Suppressions<'e> {
    rules: &'e ResolvedRules,
    slots: HashMap<(SuppressionTarget, &'static str), usize>,
    used: Vec<bool>,
    /// The reason of each slot; empty without one.
    reasons: Vec<String>,
    files: HashSet<*const Source>,
    /// The line of the first finding that nothing covers, by rule and document of a file with comments.
    missed: HashMap<(*const Source, u32, &'static str), usize>,
    entries: Vec<Suppression>,
    directive_count: usize,
    findings: Vec<Finding>,
}

/// The objects of one document, and which rules ran on any of them.
#[derive(Default)]
struct DocumentObjects<'f> {
    objects: Vec<&'f Object>,
    ran_by_rule: BTreeMap<&'static str, bool>,
}

struct Comment<'f> {
    document: &'f Document,
    start: u32,
    text: &'f str,
    line: usize,
    /// The line on which the comment ends: a comment on its own line may continue on the next lines.
    last_line: usize,
    /// Whether it is the only text on its line.
    standalone: bool,
    directive: Directive,
}

impl<'e> Suppressions<'e> {
    fn new(rules: &'e ResolvedRules) -> Self {
        Suppressions {
            rules,
            slots: HashMap::new(),
            used: Vec::new(),
            reasons: Vec::new(),
            files: HashSet::new(),
            missed: HashMap::new(),
            entries: Vec::new(),
            directive_count: 0,
            findings: Vec::new(),
        }
    }

    fn read_comments(&mut self, file: &File) {
        let comments = comments(file);
        if comments.is_empty() {
            return;
        }
        let source = Arc::as_ptr(&file.source);
        self.files.insert(source);
        let mut held: BTreeMap<u32, DocumentObjects<'_>> = BTreeMap::new();
        for object in &file.objects {
            if let Some(origin) = object.origin() {
                held.entry(origin.document).or_default().objects.push(object);
            }
        }
        let lines = covered_lines(&comments);
        for (comment, line) in comments.iter().zip(lines) {
            let number = comment.document.number;
            let held = held.entry(number).or_default();
            let object = match held.objects.as_slice() {
                [only] => Some((*only).clone()),
                _ => None,
            };
            let place = |at: Range<usize>| Location::Text {
                source: Arc::clone(&file.source),
                document: number,
                object: object.clone(),
                span: Span::new(comment.start + at.start as u32, comment.start + at.end as u32),
            };
            let cover = SuppressionTarget::Line(source, line);
            let whole = comment.document.tree.is_some();
            let rules = self.rules;
            self.add_directive(&comment.directive, comment.text, cover, place, |rule| {
                whole && held.rule_ran(rules, rule, file.source.scope())
            });
        }
    }

    fn read_annotation(&mut self, object: &Object) {
        let node = object.annotation(ANNOTATION);
        if !node.is_set() || node.is_unknown() {
            return;
        }
        let place = |_: Range<usize>| Location::of(object, &node);
        let Some(text) = node.text() else {
            let message = format!("`{ANNOTATION}` is not a string");
            self.report("suppression-invalid", "", place(0..0), message, None);
            return;
        };
        let mut directive = grammar::parse_annotation(text);
        if directive.truncate(MAX_ENTRIES) {
            let message =
                format!("`{ANNOTATION}` has more than {MAX_ENTRIES} entries: the others do not count");
            let help = Some("name each rule once".to_owned());
            let severity = Some(Severity::Warning);
            self.report_as("suppression-invalid", severity, "", place(0..0), message, help);
        }
        let forbidden = &self.rules.settings().webhook.forbid_suppressions;
        directive.entries.retain(|entry| {
            let id = &text[entry.id.clone()];
            let group = self.rules.find(id).map(|r| r.group.name());
            let refused = forbidden.iter().any(|f| f == id || f == "all" || Some(f.as_str()) == group);
            if refused {
                directive.errors.push(grammar::SyntaxError {
                    at: entry.id.clone(),
                    message: format!("an annotation may not suppress `{}`", ellipsize(id)),
                    help: "it is listed in `webhook.forbid-suppressions`",
                });
            }
            !refused
        });
        let cover = SuppressionTarget::Object(std::ptr::from_ref(object.id()));
        let rules = self.rules;
        let path = object.origin().map(|o| o.source.scope());
        suggest::at_most(SUGGESTIONS_PER_RULE, || {
            self.add_directive(&directive, text, cover, place, |rule| {
                rule_ran(rules, rule, path, Some(object))
            });
        });
    }

    /// Adds the suppressions of one comment or annotation.
    fn add_directive(
        &mut self,
        directive: &Directive,
        text: &str,
        cover: SuppressionTarget,
        place: impl Fn(Range<usize>) -> Location,
        mut ran: impl FnMut(&'static Rule) -> bool,
    ) {
        for fault in &directive.errors {
            let place = place(fault.at.clone());
            let help = Some(fault.help.to_owned());
            self.report(
                "suppression-invalid",
                text.get(fault.at.clone()).unwrap_or_default(),
                place,
                fault.message.clone(),
                help,
            );
        }
        let today = self.rules.settings().today;
        let mut ended: Option<&Range<usize>> = None;
        self.directive_count += 1;
        for entry in &directive.entries {
            let AllowEntry { id, until, reason } = entry;
            let rule = match suppressible_rule(self.rules, &text[id.clone()]) {
                Ok(rule) => rule,
                Err((message, help)) => {
                    self.report(
                        "suppression-invalid",
                        &text[id.clone()],
                        place(id.clone()),
                        message,
                        Some(help),
                    );
                    continue;
                }
            };
            if let Some((date, at)) = until
                && today.is_some_and(|today| *date < today)
            {
                // The rules of one comment share its date, so only one finding is reported.
                if ended != Some(at) {
                    ended = Some(at);
                    let message = format!("suppression ended on {date}");
                    let help = "repair what it covers and remove it, or write a later day";
                    let place = place(at.clone());
                    self.report("suppression-expired", rule.id, place, message, Some(help.to_owned()));
                }
                continue;
            }
            let next = self.used.len();
            let slot = *self.slots.entry((cover, rule.id)).or_insert(next);
            if slot == next {
                self.used.push(false);
                self.reasons.push(reason.clone());
            }
            self.entries.push(Suppression {
                rule,
                slot,
                place: place(id.clone()),
                rule_ran: ran(rule),
                has_reason: entry.has_reason(),
                directive_number: self.directive_count,
            });
        }
    }

    /// The slot of a suppression that applies to a finding. Marks all that apply as used.
    fn cover(&mut self, finding: &Finding) -> Option<usize> {
        if finding.rule.group == Group::Suppression || self.slots.is_empty() {
            return None;
        }
        let object = finding.location.object().map(|o| SuppressionTarget::Object(std::ptr::from_ref(o.id())));
        let line = self.line_of(finding).map(|(source, _, line)| SuppressionTarget::Line(source, line));
        let mut covered = None;
        for cover in object.into_iter().chain(line) {
            if let Some(slot) = self.slots.get(&(cover, finding.rule.id)) {
                self.used[*slot] = true;
                covered = Some(*slot);
            }
        }
        covered
    }

    /// The line of a finding in a file with comments: the file, the document, and the line.
    fn line_of(&self, finding: &Finding) -> Option<(*const Source, u32, usize)> {
        // A comment cannot stand inside of a text.
        let (source, document, span) = finding.location.whole().resolve_span()?;
        let file = Arc::as_ptr(source);
        self.files.contains(&file).then(|| (file, document, source.lines().line_of(span.start)))
    }

    /// Remembers a finding that nothing covers.
    fn miss(&mut self, finding: &Finding) {
        if let Some((source, document, line)) = self.line_of(finding) {
            self.missed.entry((source, document, finding.rule.id)).or_insert(line);
        }
    }

    /// The line of a finding of the rule on the object of a comment, which covers another line: the rule had what it needs to
    /// report, so that the comment stands at the wrong place.
    fn missed_line(&self, allowed: &Suppression) -> Option<usize> {
        let Location::Text { source, document, object: Some(_), .. } = &allowed.place else { return None };
        self.missed.get(&(Arc::as_ptr(source), *document, allowed.rule.id)).copied()
    }

    /// The findings about the suppressions themselves.
    fn into_findings(mut self) -> Vec<Finding> {
        // The rules of one comment share its reason, so only one finding is reported.
        let mut silent = 0;
        for allowed in std::mem::take(&mut self.entries) {
            let id = allowed.rule.id;
            let missed = self.missed_line(&allowed);
            if (allowed.rule_ran || missed.is_some()) && !self.used[allowed.slot] {
                let message = format!("suppression of `{id}` suppresses nothing");
                let help = match (&allowed.place, missed) {
                    (Location::Field { .. }, _) => "remove it".to_owned(),
                    (_, Some(line)) => {
                        format!("move it directly above line {}, which has the finding", line + 1)
                    }
                    (_, None) => "remove it, or move it to or above the finding's line".to_owned(),
                };
                let help = Some(help);
                self.report("suppression-unused", id, allowed.place, message, help);
            } else if !allowed.has_reason && silent != allowed.directive_number {
                silent = allowed.directive_number;
                let message = format!("suppression of `{id}` gives no reason");
                let help = Some("add the reason after the rule's id".to_owned());
                // Nobody reviews an annotation of the cluster as they review a line of a file.
                let is_annotation = matches!(allowed.place, Location::Field { .. });
                let severity = is_annotation.then_some(Severity::Warning);
                self.report_as("suppression-without-reason", severity, id, allowed.place, message, help);
            }
        }
        self.findings
    }

    /// Reports a suppression; `of` is the rule that it names, if any.
    fn report(&mut self, id: &str, of: &str, place: Location, message: String, help: Option<String>) {
        self.report_as(id, None, of, place, message, help);
    }

    /// Like [`Suppressions::report`], with another severity than the rule's.
    fn report_as(
        &mut self,
        id: &str,
        severity: Option<Severity>,
        of: &str,
        place: Location,
        message: String,
        help: Option<String>,
    ) {
        if let Some(mut finding) = self.rules.builtin_finding(id, severity, place, message) {
            finding.help = help;
            finding.identified_by(of);
            self.findings.push(finding);
        }
    }
}

impl DocumentObjects<'_> {
    fn rule_ran(&mut self, rules: &ResolvedRules, rule: &'static Rule, path: &str) -> bool {
        if matches!(rule.check, Check::Builtin) {
            return rule_ran(rules, rule, Some(path), None);
        }
        let objects = &self.objects;
        *self
            .ran_by_rule
            .entry(rule.id)
            .or_insert_with(|| objects.iter().any(|object| rule_ran(rules, rule, Some(path), Some(object))))
    }
}

/// Whether the absence of a finding of this rule on an object is meaningful: the rule is enabled, and does
/// not depend on objects that may not be in the input.
fn rule_ran(rules: &ResolvedRules, rule: &Rule, path: Option<&str>, object: Option<&Object>) -> bool {
    (rule.reads.is_empty() || rules.settings().complete) && rules.is_enabled(rule, path, object)
}

fn comments(file: &File) -> Vec<Comment<'_>> {
    let text = file.source.text();
    let mut out = Vec::new();
    for document in &file.documents {
        for span in &document.comments {
            let Some(comment) = text.get(span.start as usize..span.end as usize) else { continue };
            let Some(mut directive) = grammar::parse_comment(comment) else { continue };
            let lines = file.source.lines();
            let line = lines.line_of(span.start);
            let before = &text[lines.start_of(line, text) as usize..span.start as usize];
            let standalone = before.trim_start_matches('\u{FEFF}').trim().is_empty();
            let mut last_line = line;
            while standalone && let Some(more) = continuation(&file.source, last_line + 1) {
                last_line += 1;
                directive.continue_with(more, lines.start_of(last_line, text) - span.start);
            }
            out.push(Comment {
                document,
                start: span.start,
                text: comment,
                line,
                last_line,
                standalone,
                directive,
            });
        }
    }
    out.sort_by_key(|c| c.start);
    out
}

/// A line that is a comment but not a suppression. Below a comment, a line that begins with `#` is always a comment.
fn continuation(source: &Source, line: usize) -> Option<&str> {
    let (text, lines) = (source.text(), source.lines());
    let (from, to) = (lines.start_of(line, text), lines.start_of(line + 1, text));
    let line = &text[from as usize..to as usize];
    let comment = line.trim();
    (comment.starts_with('#') && grammar::parse_comment(comment).is_none()).then_some(line)
}

/// The line that each comment applies to: its own, or the next one that is not a comment.
fn covered_lines(comments: &[Comment<'_>]) -> Vec<usize> {
    let mut lines: Vec<usize> = comments.iter().map(|c| c.line).collect();
    for at in (0..comments.len()).rev() {
        if comments[at].standalone {
            let next = comments[at].last_line + 1;
            let stacked = comments.get(at + 1).is_some_and(|c| c.standalone && c.line == next);
            lines[at] = if stacked { lines[at + 1] } else { next };
        }
    }
    lines
}

/// The suppressible rule with an id, or an error message and help.
fn suppressible_rule(rules: &ResolvedRules, id: &str) -> Result<&'static Rule, (String, String)> {
    match rules.find(id) {
        Some(rule) if rule.group == Group::Suppression => Err((
            format!("`{id}` cannot be suppressed"),
            "repair the suppression, or set the rule in the configuration".to_owned(),
        )),
        Some(rule) => Ok(rule),
        None if id == "all" || Group::ALL.iter().any(|g| g.name() == id) => {
            Err((format!("`{id}` is not a rule"), "name each rule that is to be suppressed".to_owned()))
        }
        None => {
            let ids = rules.all().iter().filter(|r| r.group != Group::Suppression).map(|r| r.id);
            let help = match suggest::nearest(id, ids) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`gpulint rules` lists the rules".to_owned(),
            };
            Err((format!("unknown rule `{}`", ellipsize(id)), help))
        }
    }
}
