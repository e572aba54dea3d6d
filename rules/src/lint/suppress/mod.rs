//! Suppressions: comments in files, annotations on objects.
//!
//! `# gpulint: allow[rule-id, other-id] until=2027-01-31 reason…` covers its own line, or the next
//! one where nothing but blank stands before it; several such comments, one below the other, cover
//! the same line. The annotation
//! `gpulint.dev/allow: "rule-id: reason; other-id until=2027-01-31: reason"` covers its object.

mod grammar;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::facts::suggest;
use crate::file::File;
use crate::lint::engine::{Engine, Judged};
use crate::lint::finding::{Finding, Place};
use crate::lint::rule::{Check, Group, Rule};
use crate::lint::settings::find_rule;
use crate::object::{Object, ObjectId};
use crate::rules::RULES;
use crate::source::{Document, Source};
use crate::tree::Span;

use grammar::{Entry, Said, short};

/// The annotation that suppresses.
pub const ANNOTATION: &str = "gpulint.dev/allow";

/// Takes away what is suppressed, and reports suppressions that are unused, unknown or expired.
pub(crate) fn apply(engine: &Engine, findings: Vec<Finding>, files: &[File], objects: &[Object]) -> Judged {
    let mut judged = Judged::default();
    if !engine.settings().suppressions {
        judged.findings = findings;
        return judged;
    }
    let mut all = Suppressions::new(engine);
    for file in files {
        all.read_comments(file);
    }
    for object in objects {
        all.read_annotation(object);
    }
    for finding in findings {
        if all.covers(&finding) {
            judged.suppressed += 1;
        } else {
            judged.findings.push(finding);
        }
    }
    judged.findings.extend(all.hygiene());
    judged
}

/// What a suppression covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Cover {
    /// A line, counted from 0, of a file, by the address of its source.
    Line(*const Source, usize),
    /// An object, by the address of its identity: every handle of one object shares it.
    Object(*const ObjectId),
}

/// A rule that is suppressed somewhere, to be reported if it turns out unused.
struct Allowed {
    rule: &'static Rule,
    /// Index into `Suppressions::used`; equal covers of a rule share it.
    slot: usize,
    place: Place,
    /// The rule's silence is worth something.
    ran: bool,
    /// A reason stands beside it.
    reasoned: bool,
    /// The number of the comment or annotation that says it.
    read: usize,
}

struct Suppressions<'e> {
    engine: &'e Engine,
    slots: HashMap<(Cover, &'static str), usize>,
    used: Vec<bool>,
    /// Files that have comments.
    files: HashSet<*const Source>,
    allowed: Vec<Allowed>,
    /// How many comments and annotations were read.
    read: usize,
    findings: Vec<Finding>,
}

/// The objects of one document, and which rules ran on any of them.
#[derive(Default)]
struct Held<'f> {
    objects: Vec<&'f Object>,
    ran: BTreeMap<&'static str, bool>,
}

/// A comment of a file.
struct Comment<'f> {
    document: &'f Document,
    start: u32,
    text: &'f str,
    line: usize,
    /// Nothing but blank stands before it.
    alone: bool,
    said: Said,
}

impl<'e> Suppressions<'e> {
    fn new(engine: &'e Engine) -> Self {
        Suppressions {
            engine,
            slots: HashMap::new(),
            used: Vec::new(),
            files: HashSet::new(),
            allowed: Vec::new(),
            read: 0,
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
        let mut held: BTreeMap<u32, Held<'_>> = BTreeMap::new();
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
            let place = |at: Range<usize>| Place::Text {
                source: Arc::clone(&file.source),
                document: number,
                object: object.clone(),
                span: Span::new(comment.start + at.start as u32, comment.start + at.end as u32),
            };
            let cover = Cover::Line(source, line);
            let whole = comment.document.tree.is_some();
            let engine = self.engine;
            self.read(&comment.said, comment.text, cover, place, |rule| {
                whole && held.ran(engine, rule, file.source.scope())
            });
        }
    }

    fn read_annotation(&mut self, object: &Object) {
        let node = object.annotation(ANNOTATION);
        if !node.exists() || node.is_unknown() {
            return;
        }
        let place = |_: Range<usize>| Place::of(object, &node);
        let Some(text) = node.text() else {
            let message = format!("`{ANNOTATION}` is no string");
            self.report("suppression-invalid", place(0..0), message, None);
            return;
        };
        let mut said = grammar::annotation(text);
        let forbidden = &self.engine.settings().webhook.forbid_suppressions;
        said.entries.retain(|entry| {
            let id = &text[entry.id.clone()];
            let group = find_rule(id).map(|r| r.group.name());
            let refused = forbidden.iter().any(|f| f == id || Some(f.as_str()) == group);
            if refused {
                said.faults.push(grammar::Fault {
                    at: entry.id.clone(),
                    message: format!("an annotation may not suppress `{}`", short(id)),
                    help: "it is listed in `webhook.forbid-suppressions`",
                });
            }
            !refused
        });
        let cover = Cover::Object(std::ptr::from_ref(object.id()));
        let engine = self.engine;
        let path = object.origin().map(|o| o.source.scope());
        self.read(&said, text, cover, place, |rule| ran(engine, rule, path, Some(object)));
    }

    /// Takes in what one comment or annotation says.
    fn read(
        &mut self,
        said: &Said,
        text: &str,
        cover: Cover,
        place: impl Fn(Range<usize>) -> Place,
        mut ran: impl FnMut(&'static Rule) -> bool,
    ) {
        for fault in &said.faults {
            let place = place(fault.at.clone());
            let help = Some(fault.help.to_owned());
            self.report("suppression-invalid", place, fault.message.clone(), help);
        }
        let today = self.engine.settings().today;
        let mut ended: Option<&Range<usize>> = None;
        self.read += 1;
        for Entry { id, until, reasoned } in &said.entries {
            let rule = match known(&text[id.clone()]) {
                Ok(rule) => rule,
                Err((message, help)) => {
                    self.report("suppression-invalid", place(id.clone()), message, Some(help));
                    continue;
                }
            };
            if let Some((date, at)) = until
                && today.is_some_and(|today| *date < today)
            {
                // The rules of one comment share its date: one finding.
                if ended != Some(at) {
                    ended = Some(at);
                    let message = format!("suppression ended on {date}");
                    let help = "repair what it covers and remove it, or write a later day";
                    let place = place(at.clone());
                    self.report("suppression-expired", place, message, Some(help.to_owned()));
                }
                continue;
            }
            let next = self.used.len();
            let slot = *self.slots.entry((cover, rule.id)).or_insert(next);
            if slot == next {
                self.used.push(false);
            }
            self.allowed.push(Allowed {
                rule,
                slot,
                place: place(id.clone()),
                ran: ran(rule),
                reasoned: *reasoned,
                read: self.read,
            });
        }
    }

    /// Whether a finding is suppressed; what suppresses it is used.
    fn covers(&mut self, finding: &Finding) -> bool {
        if finding.rule.group == Group::Suppression || self.slots.is_empty() {
            return false;
        }
        let object = finding.place.object().map(|o| Cover::Object(std::ptr::from_ref(o.id())));
        let line = match finding.place.locate() {
            Some((source, _, span)) if self.files.contains(&Arc::as_ptr(source)) => {
                let line = source.lines().line_of(span.start);
                Some(Cover::Line(Arc::as_ptr(source), line))
            }
            _ => None,
        };
        let mut covered = false;
        for cover in object.into_iter().chain(line) {
            if let Some(slot) = self.slots.get(&(cover, finding.rule.id)) {
                self.used[*slot] = true;
                covered = true;
            }
        }
        covered
    }

    /// What there is to say of the suppressions themselves.
    fn hygiene(mut self) -> Vec<Finding> {
        // The rules of one comment share its reason: one finding.
        let mut silent = 0;
        for allowed in std::mem::take(&mut self.allowed) {
            let id = allowed.rule.id;
            if allowed.ran && !self.used[allowed.slot] {
                let message = format!("suppression of `{id}` suppresses nothing");
                let help = match allowed.place {
                    Place::Text { .. } => "remove it, or move it to or above the finding's line",
                    Place::Field { .. } => "remove it",
                };
                let help = Some(help.to_owned());
                self.report("suppression-unused", allowed.place, message, help);
            } else if !allowed.reasoned && silent != allowed.read {
                silent = allowed.read;
                let message = format!("suppression of `{id}` gives no reason");
                let help = Some("say behind it why the finding may stand".to_owned());
                self.report("suppression-without-reason", allowed.place, message, help);
            }
        }
        self.findings
    }

    fn report(&mut self, id: &str, place: Place, message: String, help: Option<String>) {
        if let Some(mut finding) = self.engine.reader_finding(id, place, message) {
            finding.help = help;
            self.findings.push(finding);
        }
    }
}

impl Held<'_> {
    fn ran(&mut self, engine: &Engine, rule: &'static Rule, path: &str) -> bool {
        if matches!(rule.check, Check::Reader) {
            return ran(engine, rule, Some(path), None);
        }
        let objects = &self.objects;
        *self
            .ran
            .entry(rule.id)
            .or_insert_with(|| objects.iter().any(|object| ran(engine, rule, Some(path), Some(object))))
    }
}

/// Whether a rule's silence on an object says anything: it is on, and does not ask for objects
/// that may be elsewhere.
fn ran(engine: &Engine, rule: &Rule, path: Option<&str>, object: Option<&Object>) -> bool {
    let settings = engine.settings();
    (rule.reads.is_empty() || settings.complete) && settings.rule(rule, path, object).enabled != Some(false)
}

/// The comments of a file that speak to gpulint, in the order of the text.
fn comments(file: &File) -> Vec<Comment<'_>> {
    let text = file.source.text();
    let mut out = Vec::new();
    for document in &file.documents {
        for span in &document.comments {
            let Some(comment) = text.get(span.start as usize..span.end as usize) else {
                continue;
            };
            let Some(said) = grammar::comment(comment) else {
                continue;
            };
            let lines = file.source.lines();
            let line = lines.line_of(span.start);
            let before = &text[lines.start_of(line, text) as usize..span.start as usize];
            out.push(Comment {
                document,
                start: span.start,
                text: comment,
                line,
                alone: before.trim_start_matches('\u{FEFF}').trim().is_empty(),
                said,
            });
        }
    }
    out.sort_by_key(|c| c.start);
    out
}

/// The line each comment covers: its own, or the next one that is not itself such a comment.
fn covered_lines(comments: &[Comment<'_>]) -> Vec<usize> {
    let mut lines: Vec<usize> = comments.iter().map(|c| c.line).collect();
    for at in (0..comments.len()).rev() {
        if comments[at].alone {
            let next = comments[at].line + 1;
            let stacked = comments.get(at + 1).is_some_and(|c| c.alone && c.line == next);
            lines[at] = if stacked { lines[at + 1] } else { next };
        }
    }
    lines
}

/// The rule of an id that may be suppressed, or what is wrong with it and what to do.
fn known(id: &str) -> Result<&'static Rule, (String, String)> {
    match find_rule(id) {
        Some(rule) if rule.group == Group::Suppression => Err((
            format!("`{id}` cannot be suppressed"),
            "repair the suppression, or set the rule in the configuration".to_owned(),
        )),
        Some(rule) => Ok(rule),
        None if id == "all" || Group::ALL.iter().any(|g| g.name() == id) => {
            Err((format!("`{id}` is no rule"), "name each rule that is to be suppressed".to_owned()))
        }
        None => {
            let ids = RULES.iter().filter(|r| r.group != Group::Suppression).map(|r| r.id);
            let help = match suggest::nearest(id, ids) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`gpulint rules` lists the rules".to_owned(),
            };
            Err((format!("unknown rule `{}`", short(id)), help))
        }
    }
}
