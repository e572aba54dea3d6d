//! Runs the rules over objects. Deterministic: same input, same findings in the same order.

use std::collections::BTreeMap;

use crate::cluster::dependencies;
use crate::cluster::dependencies::Topic;
use crate::cluster::objects::Index;
use crate::file::File;
use crate::lint::finding::{Finding, Place};
use crate::lint::rule::{Check, Context, Rule};
use crate::lint::settings::{RuleSettings, Settings};
use crate::lint::suppress;
use crate::object::Object;
use crate::rules::RULES;
use crate::source::{Document, ProblemKind, Source};
use crate::tree::Span;

/// The rules, ready to run under one configuration.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    /// Rules that are on for some object, with what is set where no override speaks.
    rules: Vec<(&'static Rule, RuleSettings, bool)>,
    /// Indices into `rules` by kind, then by group, so that an object meets only its rules.
    by_kind: BTreeMap<&'static str, Vec<(&'static str, Vec<usize>)>>,
    /// Rules that are asked about every kind.
    any: Vec<usize>,
}

impl Engine {
    /// An engine under a configuration.
    #[must_use]
    pub fn new(settings: Settings) -> Engine {
        let mut rules = Vec::new();
        let mut by_kind: BTreeMap<&'static str, Vec<(&'static str, Vec<usize>)>> = BTreeMap::new();
        let mut any = Vec::new();
        let residual = |rule: &&&Rule| matches!(rule.check, Check::Residual(_));
        let last = RULES.iter().filter(residual);
        for &rule in RULES.iter().filter(|r| !residual(r)).chain(last) {
            let set = settings.rule(rule, None, None);
            let overridden = settings.has_overrides(rule);
            if set.enabled == Some(false) && !overridden {
                continue;
            }
            let at = rules.len();
            rules.push((rule, set, overridden));
            if rule.check.of_objects().is_some() {
                if rule.kinds.is_empty() {
                    any.push(at);
                }
                for kind in rule.kinds {
                    let groups = by_kind.entry(kind.kind).or_default();
                    match groups.iter_mut().find(|(group, _)| *group == kind.group) {
                        Some((_, rules)) => rules.push(at),
                        None => groups.push((kind.group, vec![at])),
                    }
                }
            }
        }
        Engine { settings, rules, by_kind, any }
    }

    /// The configuration.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the rules say of one object, its annotations' suppressions not yet applied.
    #[must_use]
    pub fn check_object(&self, object: &Object, index: &Index) -> Vec<Finding> {
        let mut findings = Vec::new();
        for at in self.rules_of(object) {
            self.ask(at, object, index, &mut findings);
        }
        findings
    }

    /// The rules that are asked about an object, in their order.
    fn rules_of(&self, object: &Object) -> impl Iterator<Item = usize> {
        let id = object.id();
        let of_kind = self
            .by_kind
            .get(id.kind.as_str())
            .and_then(|groups| groups.iter().find(|(group, _)| *group == id.group))
            .map_or(&[][..], |(_, rules)| rules);
        self.any.iter().chain(of_kind).copied()
    }

    /// Asks one rule; says whether it looked at what others have found.
    fn ask(&self, at: usize, object: &Object, index: &Index, findings: &mut Vec<Finding>) -> bool {
        let (rule, set, overridden) = &self.rules[at];
        let Some(check) = rule.check.of_objects() else {
            return false;
        };
        let own;
        let set = if *overridden {
            let path = object.origin().map(|o| o.source.scope());
            own = self.settings.rule(rule, path, Some(object));
            if own.enabled == Some(false) {
                return false;
            }
            &own
        } else {
            set
        };
        let from = findings.len();
        let mut context = Context::new(rule, object, &self.settings, set, index, findings);
        check(object, &mut context);
        let leans = context.leans();
        if let Some(severity) = set.severity {
            for finding in &mut findings[from..] {
                finding.severity = severity;
            }
        }
        leans
    }

    /// What each rule says of an object, with what that rests on; rules left out that say nothing
    /// and ask nobody.
    pub(crate) fn opinions(&self, object: &Object, index: &Index) -> Vec<Opinion> {
        let mut findings = Vec::new();
        let mut marks = Vec::new();
        for at in self.rules_of(object) {
            let from = findings.len();
            let (leans, topics) = dependencies::record(|| self.ask(at, object, index, &mut findings));
            if findings.len() > from || !topics.is_empty() {
                marks.push((at, findings.len() - from, leans, topics));
            }
        }
        let mut findings = findings.into_iter();
        marks
            .into_iter()
            .map(|(rule, count, leans, topics)| Opinion {
                rule,
                leans,
                topics,
                findings: findings.by_ref().take(count).collect(),
            })
            .collect()
    }

    /// Asks a rule again that does not lean on others; `None` where it turns out to.
    pub(crate) fn opinion(&self, rule: usize, object: &Object, index: &Index) -> Option<Opinion> {
        let mut findings = Vec::new();
        let (leans, topics) = dependencies::record(|| self.ask(rule, object, index, &mut findings));
        (!leans).then_some(Opinion { rule, leans, topics, findings })
    }

    /// What the reader has to say of a document.
    #[must_use]
    pub fn check_document(&self, source: &std::sync::Arc<Source>, document: &Document) -> Vec<Finding> {
        document
            .problems
            .iter()
            .filter_map(|problem| {
                let id = match problem.kind {
                    ProblemKind::Syntax => "yaml-syntax",
                    ProblemKind::DuplicateKey => "yaml-duplicate-key",
                    ProblemKind::Limit => "yaml-limit-exceeded",
                    ProblemKind::TextAfterEnd => "yaml-text-after-end",
                };
                let place = |span: Span| Place::Text {
                    source: std::sync::Arc::clone(source),
                    document: document.number,
                    object: None,
                    span,
                };
                let mut finding = self.reader_finding(id, place(problem.span), problem.message.clone())?;
                if let Some(other) = problem.other {
                    let message = match problem.kind {
                        ProblemKind::DuplicateKey => "first written here",
                        _ => "the anchor is here",
                    };
                    finding.related.push(crate::lint::finding::Related {
                        place: place(other),
                        message: message.to_owned(),
                    });
                }
                finding.help = Some(
                    match problem.kind {
                        ProblemKind::Syntax => "until it parses, this document is not judged",
                        ProblemKind::DuplicateKey => {
                            "a lenient reader keeps the later value, a strict one refuses; remove one"
                        }
                        ProblemKind::Limit => "split the document, or write it without the anchors",
                        ProblemKind::TextAfterEnd => "begin the next document with `---`, or remove the text",
                    }
                    .to_owned(),
                );
                Some(finding)
            })
            .collect()
    }

    /// A finding of a rule that is no check of an object; `None` where the rule is off there.
    pub(crate) fn reader_finding(&self, id: &str, place: Place, message: String) -> Option<Finding> {
        let (rule, set, overridden) = self.rules.iter().find(|(r, _, _)| r.id == id)?;
        let path = place.locate().map(|(s, _, _)| s.scope().to_owned());
        let own =
            if *overridden { self.settings.rule(rule, path.as_deref(), place.object()) } else { set.clone() };
        if own.enabled == Some(false) {
            return None;
        }
        Some(Finding {
            rule,
            severity: own.severity.unwrap_or(rule.severity),
            refused_by: rule.only_authority(),
            awaits: false,
            place,
            message,
            help: None,
            related: Vec::new(),
            fix: None,
            week: None,
        })
    }

    /// Judges one object and lets its own annotation suppress: what the webhook asks.
    #[must_use]
    pub fn review_object(&self, object: &Object, index: &Index) -> Judged {
        let findings = self.check_object(object, index);
        suppress::apply(self, findings, &[], std::slice::from_ref(object))
    }

    /// Judges a file: its documents' problems, its objects, and its suppressions.
    #[must_use]
    pub fn check_file(&self, file: &File, index: &Index) -> Judged {
        let findings = file.objects.iter().flat_map(|object| self.check_object(object, index)).collect();
        self.finish_file(file, findings)
    }

    /// The second half of [`Engine::check_file`], for callers that judge the objects of a large
    /// file side by side: adds what the reader says and applies the suppressions. `findings` are
    /// those of [`Engine::check_object`] for every object of the file.
    #[must_use]
    pub fn finish_file(&self, file: &File, findings: Vec<Finding>) -> Judged {
        let mut all: Vec<Finding> =
            file.documents.iter().flat_map(|document| self.check_document(&file.source, document)).collect();
        all.extend(findings);
        let mut judged = suppress::apply(self, all, std::slice::from_ref(file), &file.objects);
        sort(&mut judged.findings);
        judged
    }
}

/// What one rule says of one object.
#[derive(Debug)]
pub(crate) struct Opinion {
    /// The rule's number in its engine.
    pub(crate) rule: usize,
    /// Whether it looked at what other rules have found.
    pub(crate) leans: bool,
    /// What it asked the index, in order.
    pub(crate) topics: Vec<Topic>,
    pub(crate) findings: Vec<Finding>,
}

/// Findings, and how many more were suppressed.
#[derive(Debug, Default)]
pub struct Judged {
    /// In the order of the text, then of the rule table.
    pub findings: Vec<Finding>,
    /// Findings that a suppression took away.
    pub suppressed: usize,
}

/// Sorts by file, place and rule.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_cached_key(|f| {
        let place = f.place.locate().map(|(s, d, span)| (s.path().to_owned(), d, span.start));
        (place, f.rule.group, f.rule.id, f.message.clone())
    });
}
