//! Runs the rules over objects. Deterministic: same input, same findings in the same order.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::cluster::converted::{Convert, has_old_api};
use crate::cluster::dependencies::{Read, notice, record_read, track};
use crate::cluster::runtimes;
use crate::cluster::versions::Fact;
use crate::facts::suggest;
use crate::facts::suggest::SUGGESTIONS_PER_RULE;
use crate::file::File;
use crate::karpenter::labels::PROVISIONER_NAME;
use crate::kind::Kind;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::lint::context::Context;
use crate::lint::decisions::is_decided;
use crate::lint::finding;
use crate::lint::finding::{Finding, Location, Merge, Severity};
use crate::lint::message::MAX_MESSAGE_CHARS;
use crate::lint::report::{CheckReport, sort};
use crate::lint::resolved::{ResolvedRule, ResolvedRules};
use crate::lint::rule::{Check, Pair, Rule, RuleSet};
use crate::lint::settings::{RuleSettings, Settings};
use crate::lint::subject::Subject;
use crate::lint::suppress;
use crate::lint::timings::{Clock, Timings};
use crate::lint::versions;
use crate::lint::versions::Platforms;
use crate::object::Object;
use crate::platform::Platform;
use crate::source::{Document, ParseDiagnosticKind, Source};
use crate::steps;
use crate::tree::Span;
use crate::tree::placeholder::{
    find_braces_in_value, find_brackets_in_value, find_joined_name, find_variable_in_flow,
    whole_line_placeholder,
};
use crate::tree::scalar::Scalar;

/// Maximum number of steps ([`crate::steps`]) of all rules for one object: about 200 ms, as measured with the objects
/// that cost most. Typical manifests need some ten thousand.
pub(crate) const STEPS_PER_OBJECT: u64 = 10_000_000;
/// Maximum number of steps of one rule, so that it does not prevent the other rules from running.
const STEPS_PER_RULE: u64 = 4_000_000;

/// A set of rules with one configuration.
#[derive(Debug)]
pub struct Engine {
    pub(super) rules: ResolvedRules,
    /// Indices into the enabled rules by kind, then by group, so that only the rules of its kind run for an
    /// object.
    by_kind: BTreeMap<&'static str, Vec<(&'static str, Vec<usize>)>>,
    /// Rules that run on every kind.
    kind_agnostic: Vec<usize>,
    /// Rules over the schema, which run on every kind for which the user provides a definition.
    catch_all: Vec<usize>,
    /// The rules with findings that name objects of a kind, by that kind.
    pairs: BTreeMap<Kind, Vec<(usize, &'static Pair)>>,
    platforms: Platforms,
    is_accepted: IsAccepted,
    convert: Convert,
    /// Recorded only if somebody asks for it.
    timings: Option<Timings>,
}

/// Whether the user's definition of an object's kind accepts what a finding says that the API server rejects.
pub(crate) type IsAccepted = fn(&Object, &Finding, &CustomResourceDefinitions) -> bool;

impl Engine {
    /// Creates an engine for a table of rules with a configuration.
    pub(crate) fn with_rules(
        settings: Settings,
        rules: RuleSet,
        is_accepted: IsAccepted,
        convert: Convert,
    ) -> Engine {
        let rules = ResolvedRules::new(settings, rules);
        let mut by_kind: BTreeMap<&'static str, Vec<(&'static str, Vec<usize>)>> = BTreeMap::new();
        let mut pairs: BTreeMap<Kind, Vec<(usize, &'static Pair)>> = BTreeMap::new();
        let mut kind_agnostic = Vec::new();
        let mut catch_all = Vec::new();
        for (at, rule) in rules.enabled().iter().map(|resolved| resolved.rule).enumerate() {
            if !rule.check.runs_on_objects() {
                continue;
            }
            if rule.kinds().is_empty() {
                kind_agnostic.push(at);
            } else if matches!(rule.check, Check::CatchAll(_)) {
                catch_all.push(at);
            }
            for pair in rule.pairs {
                for kind in pair.with {
                    pairs.entry(*kind).or_default().push((at, pair));
                }
            }
            for kind in rule.kinds() {
                let groups = by_kind.entry(kind.kind).or_default();
                match groups.iter_mut().find(|(group, _)| *group == kind.group) {
                    Some((_, rules)) => rules.push(at),
                    None => groups.push((kind.group, vec![at])),
                }
            }
        }
        let platforms = Platforms::new(&rules.settings().platform);
        Engine {
            rules,
            by_kind,
            kind_agnostic,
            catch_all,
            pairs,
            platforms,
            is_accepted,
            convert,
            timings: None,
        }
    }

    pub fn settings(&self) -> &Settings {
        self.rules.settings()
    }

    /// The engine, which records from now on how long its rules take.
    #[must_use]
    pub fn with_timings(self, clock: Clock) -> Engine {
        Engine { timings: Some(Timings::new(self.rules.enabled().len(), clock)), ..self }
    }

    /// The time that each rule took, added up over all threads; nothing without [`Engine::with_timings`].
    pub fn timings(&self) -> impl Iterator<Item = (&'static Rule, Duration)> {
        let timings = self.timings.iter();
        timings.flat_map(|timings| {
            let rules = self.rules.enabled().iter().enumerate();
            rules.map(|(at, resolved)| (resolved.rule, timings.of_rule(at)))
        })
    }

    /// The findings of the rules for one object. Suppressions by its annotation are not applied.
    pub fn check_object(&self, object: &Object, cluster: &Cluster) -> Vec<Finding> {
        let (subject, mut findings) = (Subject::new(object), Vec::new());
        self.for_each_rule(object, |at, left| {
            self.run_rule(at, &subject, cluster, left, &mut findings).steps
        });
        findings
    }

    /// [`Engine::check_object`] with one of the rules alone; nothing if it is not enabled.
    pub fn check_object_by(&self, rule: &Rule, object: &Object, cluster: &Cluster) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(at) = self.rules_for(object).find(|at| std::ptr::eq(self.rule(*at), rule)) {
            self.run_rule(at, &Subject::new(object), cluster, STEPS_PER_OBJECT, &mut findings);
        }
        findings
    }

    /// The loop over the rules of an object, in their order, until its step limit is reached: `run` gets the index of a rule
    /// and the number of steps that are left, and returns how many it took. Returns the number of steps of all rules.
    pub(super) fn for_each_rule(&self, object: &Object, mut run: impl FnMut(usize, u64) -> u64) -> u64 {
        let mut left = STEPS_PER_OBJECT;
        for at in self.rules_for(object) {
            left -= run(at, left);
            if left == 0 {
                break;
            }
        }
        steps::stop_if_interrupted();
        STEPS_PER_OBJECT - left
    }

    /// A rule by its index among those that are enabled.
    pub(crate) fn rule(&self, at: usize) -> &'static Rule {
        self.rules.enabled()[at].rule
    }

    /// The rules with findings on other objects that may name this one.
    pub(super) fn pairs_with(&self, object: &Object) -> impl Iterator<Item = (usize, &'static Pair)> {
        let id = object.id();
        let of_kind = self.pairs.iter().find(|(kind, _)| id.is(**kind)).map_or(&[][..], |(_, pairs)| pairs);
        of_kind.iter().copied()
    }

    /// The rules that run for an object, in their order.
    fn rules_for(&self, object: &Object) -> impl Iterator<Item = usize> {
        let id = object.id();
        let of_kind = self
            .by_kind
            .get(id.kind.as_str())
            .and_then(|groups| groups.iter().find(|(group, _)| *group == id.group))
            .map_or(&[][..], |(_, rules)| rules);
        let is_defined = self.settings().definitions.define_kind(id);
        let over_schema: &[usize] = if is_defined { &self.catch_all } else { &[] };
        let over_schema = over_schema.iter().filter(move |at| !of_kind.contains(at));
        // What holds for every object is about the API server.
        let of_all: &[usize] = if object.is_of_file() { &[] } else { &self.kind_agnostic };
        of_all.iter().chain(of_kind).chain(over_schema).copied()
    }

    /// Runs one rule with the number of steps that are left. A rule that exceeds it has a single finding,
    /// which reports that.
    pub(super) fn run_rule(
        &self,
        at: usize,
        subject: &Subject<'_>,
        cluster: &Cluster,
        left: u64,
        findings: &mut Vec<Finding>,
    ) -> RunOutcome {
        let (resolved, object) = (&self.rules.enabled()[at], subject.object);
        let path = object.source().map(|source| source.scope());
        let Some(set) = resolved.settings_at(self.settings(), path, Some(object)) else {
            return RunOutcome { reads_earlier_findings: false, steps: 0 };
        };
        let from = findings.len();
        let allowance = left.min(STEPS_PER_RULE);
        // What the comparison takes counts for the object, and leaves half to the rules after this one.
        let for_comparison = (left / 2).min(STEPS_PER_RULE);
        let run = || self.run_with_settings(resolved, subject, cluster, &set, for_comparison, findings);
        let (finished, steps) = match &self.timings {
            Some(timings) => timings.measure(at, || steps::limited(allowance, run)),
            None => steps::limited(allowance, run),
        };
        let (reads_earlier_findings, of_comparison) = finished.unwrap_or_else(|| {
            findings.truncate(from);
            // The dependencies of the result are unknown.
            if !resolved.rule.reads.is_empty() {
                record_read(|| Read::All);
            }
            findings.extend(self.cut_short(resolved.rule, object, steps >= left));
            // The rule may have read earlier findings before it was cancelled.
            (true, 0)
        });
        RunOutcome { reads_earlier_findings, steps: (steps + of_comparison).min(left) }
    }

    /// The finding for a rule that exceeded its step limit; `is_last` if no later rule runs.
    fn cut_short(&self, rule: &'static Rule, object: &Object, is_last: bool) -> Option<Finding> {
        let place = Location::of(object, &object.root());
        let others = if is_last { " and the rules after it" } else { "" };
        let message = format!("checking was cut short: `{}`{others} did not finish", rule.id);
        let mut finding = self.rules.builtin_finding("step-limit-exceeded", None, place, message)?;
        finding.help("shorten its longest lists; what other rules found holds");
        Some(finding)
    }

    /// Runs one rule with the settings for the object. Returns whether it read the findings of earlier rules, and the number of
    /// steps of the comparison with other versions.
    fn run_with_settings(
        &self,
        resolved: &ResolvedRule,
        subject: &Subject<'_>,
        cluster: &Cluster,
        set: &RuleSettings,
        for_comparison: u64,
        findings: &mut Vec<Finding>,
    ) -> (bool, u64) {
        let from = findings.len();
        let mut reads_earlier_findings = false;
        let mut of_comparison = 0;
        let (rule, object) = (resolved.rule, subject.object);
        let platforms = self.platforms.of(cluster);
        let converted = resolved.reads_pools.then(|| self.converted(object, cluster)).flatten();
        let cluster = converted.unwrap_or(cluster);
        let completed = if resolved.is_for_completed { runtimes::completed(object, cluster) } else { None };
        let of_completed = completed.as_ref().map(|completed| Subject::new(&completed.object));
        let subject = of_completed.as_ref().unwrap_or(subject);
        let mut run = |rule: &'static Rule, platform: &Platform, findings: &mut Vec<Finding>| {
            let mut context = Context::new(rule, subject, &self.rules, set, cluster, findings);
            context.set_platform(platform, !std::ptr::eq(platform, &raw const platforms.platform));
            suggest::at_most(SUGGESTIONS_PER_RULE, || rule.check.run(subject.object, &mut context));
            reads_earlier_findings |= context.reads_earlier_findings();
        };
        run(rule, &platforms.platform, findings);
        // Most rules report nothing for an object.
        if findings.len() == from {
            return (reads_earlier_findings, 0);
        }
        if !rule.depends_on.is_empty() && !platforms.alternatives.is_empty() {
            let alternatives =
                platforms.alternatives.iter().filter(|(product, _)| rule.depends_on.contains(product));
            let on_platform = |platform: &Platform, findings: &mut Vec<Finding>| {
                run(rule, platform, findings);
                for alternate in rule.alternates.iter().filter_map(|id| self.rules.find(id)) {
                    run(alternate, platform, findings);
                }
            };
            of_comparison = versions::lower_where_versions_differ(
                findings,
                from,
                alternatives,
                for_comparison,
                on_platform,
            );
        }
        if let Some(completed) = &completed {
            findings[from..].iter_mut().for_each(|finding| finding.place_in_source(completed));
        }
        if converted.is_some() {
            settle_of_old_apis(findings, from, &platforms.platform);
        }
        self.settle(findings, from, rule, object, cluster, set);
        (reads_earlier_findings, of_comparison)
    }

    /// The cluster with objects of old APIs as what they become, for rules about an object that has a current one. Pods that select
    /// nodes by the label of Provisioners have to be changed as well, and are left to the objects as they are written.
    fn converted<'c>(&self, object: &Object, cluster: &'c Cluster) -> Option<&'c Cluster> {
        let converted = cluster.converted(self.convert)?;
        (!has_old_api(object) && !names_provisioner(object)).then(|| converted.cluster())
    }

    /// Leaves out the findings of a rule, from an index on, that do not hold where the object is, and gives the others their
    /// severities.
    fn settle(
        &self,
        findings: &mut Vec<Finding>,
        from: usize,
        rule: &Rule,
        object: &Object,
        cluster: &Cluster,
        set: &RuleSettings,
    ) {
        if object.workload().is_some_and(|row| row.workflow().is_some()) {
            leave_repeated(findings, from);
        }
        if findings.len() > from + 1 && object.root().has_aliases() {
            leave_aliased(findings, from);
        }
        leave_unrelated(findings, from, object, cluster);
        // The rules over the schema ask the user's definitions themselves.
        let definitions = &self.settings().definitions;
        if definitions.define_kind(object.id()) && !matches!(rule.check, Check::CatchAll(_)) {
            let own = findings.split_off(from);
            findings
                .extend(own.into_iter().filter(|finding| !(self.is_accepted)(object, finding, definitions)));
        }
        // An object that is not applied is not rejected, and breaks nothing.
        let is_left_out = object.source().is_some_and(|source| source.is_left_out());
        if is_left_out || cluster.is_shown(&Fact::Unreached) {
            for finding in &mut findings[from..] {
                finding.severity = match finding.severity {
                    Severity::Warning if is_left_out && !rule.holds_unapplied => Severity::Info,
                    severity => severity.min(Severity::Warning),
                };
            }
        }
        // Whoever states a severity wants the finding.
        if set.severity.is_none() && findings[from..].iter().any(is_decided) {
            let own = findings.split_off(from);
            findings.extend(own.into_iter().filter(|finding| !is_decided(finding)));
        }
        for finding in &mut findings[from..] {
            finding.refer_to_written();
            finding.severity = set.severity.unwrap_or(finding.severity);
        }
    }

    /// Runs a rule, and returns what it read from the cluster as well. A rule that declares no reads runs without recording.
    pub(super) fn record<T>(&self, at: usize, run: impl FnOnce() -> T) -> (T, Vec<Read>) {
        if self.rule(at).reads_cluster() { track(run) } else { (run(), Vec::new()) }
    }

    /// The rules that read kinds from the cluster without declaring them, each with the first such read.
    #[cfg(test)]
    pub(crate) fn undeclared_reads(&self, object: &Object, cluster: &Cluster) -> Vec<(&'static str, Read)> {
        let (subject, mut findings) = (Subject::new(object), Vec::new());
        let mut out = Vec::new();
        self.for_each_rule(object, |at, left| {
            let (outcome, reads) = track(|| self.run_rule(at, &subject, cluster, left, &mut findings));
            let rule = self.rule(at);
            out.extend(undeclared_read(rule, object, &reads).map(|read| (rule.id, read)));
            outcome.steps
        });
        out
    }

    pub fn check_document(&self, source: &std::sync::Arc<Source>, document: &Document) -> Vec<Finding> {
        let joined = has_second_object(document);
        document
            .diagnostics
            .iter()
            .filter_map(|problem| {
                let root_key = problem.key_path.as_deref().filter(|path| path.rfind('/') == Some(0));
                let begins_object = joined && root_key == Some("/apiVersion");
                if joined && root_key.is_some() && !begins_object {
                    return None;
                }
                let id = match problem.kind {
                    ParseDiagnosticKind::Syntax => "yaml-syntax",
                    ParseDiagnosticKind::DuplicateKey { .. } => "yaml-duplicate-key",
                    ParseDiagnosticKind::Limit => "yaml-limit-exceeded",
                    ParseDiagnosticKind::TextAfterEnd => "yaml-text-after-end",
                    ParseDiagnosticKind::MissingFile => "render-failed",
                };
                let place = |span: Span| Location::Text {
                    source: std::sync::Arc::clone(source),
                    document: document.number,
                    object: None,
                    span,
                };
                if problem.kind == ParseDiagnosticKind::Syntax
                    && let Some(finding) = self.placeholder_in_braces(source, document, problem.span)
                {
                    return Some(finding);
                }
                let message = if begins_object {
                    "`apiVersion` is written twice: the `---` between two objects is missing".to_owned()
                } else {
                    problem.message.clone()
                };
                let is_harmless =
                    problem.kind == ParseDiagnosticKind::DuplicateKey { equal: true } && !begins_object;
                // A program may write the file before the kustomization is built.
                let is_milder = is_harmless || problem.kind == ParseDiagnosticKind::MissingFile;
                let severity = is_milder.then_some(Severity::Warning);
                let mut finding = self.rules.builtin_finding(id, severity, place(problem.span), message)?;
                if let Some(path) = &problem.key_path {
                    finding.identified_by(path);
                }
                if let Some(other) = problem.other {
                    let message = match problem.kind {
                        ParseDiagnosticKind::DuplicateKey { .. } => "first written here",
                        _ => "the anchor is here",
                    };
                    finding.related.push(crate::lint::finding::Related {
                        location: place(other),
                        message: message.to_owned(),
                    });
                }
                const UNCHECKED: &str = "nothing else in this document was checked";
                finding.help = Some(match problem.kind {
                    ParseDiagnosticKind::Syntax => match problem.help {
                        Some(help) if help.len() + UNCHECKED.len() + 2 <= MAX_MESSAGE_CHARS => {
                            format!("{help}; {UNCHECKED}")
                        }
                        Some(help) => help.to_owned(),
                        None => format!("fix the syntax; {UNCHECKED}"),
                    },
                    ParseDiagnosticKind::DuplicateKey { .. } if begins_object => {
                        "write `---` above the second object; until then, both are read as one".to_owned()
                    }
                    ParseDiagnosticKind::DuplicateKey { .. } => problem.help.unwrap_or_default().to_owned(),
                    ParseDiagnosticKind::Limit => {
                        "split the document, or write it without the anchors".to_owned()
                    }
                    ParseDiagnosticKind::MissingFile => {
                        "add the file, or remove the entry; a file that a program writes belongs into .gitignore"
                            .to_owned()
                    }
                    ParseDiagnosticKind::TextAfterEnd => {
                        "begin the next document with `---`, or remove the text".to_owned()
                    }
                });
                Some(finding)
            })
            .collect()
    }

    /// The finding for a document that does not parse because of a placeholder such as `{registry}/app`, which YAML
    /// reads as a map, one on a line by itself, or one for entries. `None` if the line has no placeholder, or the rule
    /// is disabled.
    fn placeholder_in_braces(
        &self,
        source: &std::sync::Arc<Source>,
        document: &Document,
        span: Span,
    ) -> Option<Finding> {
        let text = source.text();
        let at = span.start as usize;
        let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
        let line = text.get(start..)?.lines().next()?;
        let whole = whole_line_placeholder(line).or_else(|| find_joined_name(line));
        let in_braces = || find_braces_in_value(line).or_else(|| find_variable_in_flow(line));
        let placeholder = whole.or_else(in_braces).or_else(|| find_brackets_in_value(line))?;
        let from = start + line.find(placeholder)?;
        let span = Span::new(u32::try_from(from).ok()?, u32::try_from(from + placeholder.len()).ok()?);
        let location = Location::Text {
            source: std::sync::Arc::clone(source),
            document: document.number,
            object: None,
            span,
        };
        let message = match whole {
            Some(_) => format!("`{placeholder}` looks like an unexpanded placeholder"),
            None if placeholder.starts_with('[') => {
                format!("`{placeholder}` looks like an unexpanded placeholder; YAML reads `[` as a list")
            }
            None => format!("`{placeholder}` looks like an unexpanded placeholder; YAML reads `{{` as a map"),
        };
        // Placeholders of an example or a template are filled in when it is copied, others by the tool that a script or a comment names.
        let is_filled = source.is_example() || source.is_template() || source.is_filled(placeholder, "", "");
        let severity = Some(if is_filled { Severity::Info } else { Severity::Warning });
        let mut finding =
            self.rules.builtin_finding("placeholder-unexpanded", severity, location, message)?;
        let help = match whole {
            Some(_) => "write what belongs here; nothing else in this document was checked",
            None => "write the value, or quote it; nothing else in this document was checked",
        };
        finding.help = Some(help.to_owned());
        // One finding for all documents of a file with the same placeholder.
        if whole.is_none() {
            let key = format!("unread {placeholder}");
            let merge = Merge::new(key, finding.message.as_str(), |merge| match merge.places() {
                1 => merge.subject().to_owned(),
                more => format!("{} ({more} documents)", merge.subject()),
            });
            finding.merges(merge);
        }
        Some(finding)
    }

    /// A finding of a rule without a check, for a failure in the caller's work on the files. `None` if the rule is
    /// disabled.
    pub fn finding_of_caller(&self, rule: &str, location: Location, message: String) -> Option<Finding> {
        self.rules.builtin_finding(rule, None, location, message)
    }

    /// Whether a comment in a file allows a finding of a rule on a line, counted from 0: a comment at the end of the
    /// line, or those on the lines above. For text other than manifests, such as a template. Returns its reason, which
    /// may be empty.
    pub fn allowed_on_line(&self, source: &Source, line: usize, rule: &Rule) -> Option<String> {
        suppress::allowed_on_line(&self.rules, source, line, rule)
    }

    /// Checks one object, as the webhook does, and applies the suppressions of its annotation. Its findings include
    /// those on other objects that name it.
    pub fn review_object(&self, object: &Object, cluster: &Cluster) -> CheckReport {
        self.review(object, cluster, true)
    }

    fn review(&self, object: &Object, cluster: &Cluster, others_suppress: bool) -> CheckReport {
        let mut findings = self.check_object(object, cluster);
        findings.extend(self.check_pairs(object, cluster, others_suppress));
        let mut checked = suppress::apply(&self.rules, findings, &[], std::slice::from_ref(object));
        leave_fragments_to_one(&mut checked.findings);
        checked
    }

    /// Like [`Engine::review_object`]; also returns whether a rule read anything from the cluster. If none did, the
    /// findings are the same in any cluster that is complete for the same kinds. `others_suppress`: the annotations of
    /// other objects suppress the findings on them.
    pub fn review_object_with_reads(
        &self,
        object: &Object,
        cluster: &Cluster,
        others_suppress: bool,
    ) -> (CheckReport, bool) {
        notice(|| self.review(object, cluster, others_suppress))
    }

    /// Checks a file: its syntax, its objects, and its suppressions.
    pub fn check_file(&self, file: &File, cluster: &Cluster) -> CheckReport {
        let findings = file.objects.iter().flat_map(|object| self.check_object(object, cluster)).collect();
        self.assemble_report(file, findings)
    }

    /// The second half of [`Engine::check_file`], for callers that check the objects of a large file in
    /// parallel: adds the findings of the parser and applies the suppressions. `findings` are those of
    /// [`Engine::check_object`] for every object of the file.
    pub(crate) fn assemble_report(&self, file: &File, findings: Vec<Finding>) -> CheckReport {
        let all = self.with_parser_findings(file, findings);
        let mut checked = suppress::apply(&self.rules, all, std::slice::from_ref(file), &file.objects);
        checked.findings = arranged(checked.findings);
        checked
    }

    /// Like [`Engine::assemble_report`], for a file without suppressions.
    pub(crate) fn assemble_unsuppressed(&self, file: &File, findings: Vec<Finding>) -> CheckReport {
        let findings = arranged(self.with_parser_findings(file, findings));
        CheckReport { findings, ..CheckReport::default() }
    }

    fn with_parser_findings(&self, file: &File, findings: Vec<Finding>) -> Vec<Finding> {
        let mut all: Vec<Finding> =
            file.documents.iter().flat_map(|document| self.check_document(&file.source, document)).collect();
        if all.is_empty() {
            return findings;
        }
        all.extend(findings);
        all
    }
}

/// Sorts the findings of a file in the order of the text, and removes those that another finding makes superfluous.
fn arranged(mut findings: Vec<Finding>) -> Vec<Finding> {
    sort(&mut findings);
    leave_fragments_to_one(&mut findings);
    finding::merge(findings)
}

/// Removes findings about absent fields of a fragment: one finding reports that parts are missing
/// (manifest-incomplete, or node-class-ref-incomplete for a NodePool that lacks only its `nodeClassRef`).
fn leave_fragments_to_one(findings: &mut Vec<Finding>) {
    const RULES: [&str; 2] = ["manifest-incomplete", "node-class-ref-incomplete"];
    let is_absent = |finding: &Finding| match &finding.location {
        Location::Field { object, pointer, .. } => object.root().at(pointer).is_absent(),
        Location::Text { .. } | Location::Within(..) | Location::Rendered(_) => false,
    };
    // An object that lacks only this field is complete otherwise.
    let lacks_one_field = |finding: &Finding| {
        let last = finding.location.pointer().and_then(|pointer| pointer.steps().last());
        last.is_some_and(|last| last == "restartPolicy")
    };
    let object_of = |finding: &Finding| finding.location.object().map(Object::ptr_id);
    let said_by = |rule: &str| -> HashSet<usize> {
        let incomplete = findings.iter().filter(|f| f.rule.id == rule && !lacks_one_field(f));
        incomplete.filter(|finding| rule == RULES[0] || is_absent(finding)).filter_map(object_of).collect()
    };
    let [incomplete, without_class] = RULES.map(said_by);
    if incomplete.is_empty() && without_class.is_empty() {
        return;
    }
    findings.retain(|finding| {
        let Some(object) = object_of(finding).filter(|_| is_absent(finding)) else { return true };
        let id = finding.rule.id;
        match (incomplete.contains(&object), without_class.contains(&object)) {
            (true, _) => id == RULES[0],
            (false, true) => id == RULES[1],
            (false, false) => true,
        }
    });
}

/// Removes findings that equal earlier ones of the rule: the pods of a workflow have fields in common.
fn leave_repeated(findings: &mut Vec<Finding>, from: usize) {
    for finding in findings.split_off(from) {
        let is_same = |other: &Finding| other.is_equal_in_other_set(&finding);
        if !findings[from..].iter().any(is_same) {
            findings.push(finding);
        }
    }
}

/// Removes findings at a place of the text that an alias repeats, beside the first one with the message. Messages of the schema have
/// indices in their paths.
fn leave_aliased(findings: &mut Vec<Finding>, from: usize) {
    let plain = |finding: &Finding| -> String {
        finding.message.split('[').map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect()
    };
    for finding in findings.split_off(from) {
        let is_repeated =
            |other: &Finding| other.location.is_aliased(&finding.location) && plain(other) == plain(&finding);
        if !findings[from..].iter().any(is_repeated) {
            findings.push(finding);
        }
    }
}

fn names_provisioner(object: &Object) -> bool {
    let (tree, root) = object.tree();
    (root..tree.end(root)).any(|at| {
        let is_text = || matches!(tree.scalar(at), Some(Scalar::Str(PROVISIONER_NAME)));
        tree.key_name(at) == PROVISIONER_NAME || is_text()
    })
}

/// Lowers findings that name an object of an old API to warnings: it has to be converted first, and may be a leftover. Removes those
/// about a field that means something else as long as an old version of Karpenter reads the object.
fn settle_of_old_apis(findings: &mut Vec<Finding>, from: usize, platform: &Platform) {
    let own = findings.split_off(from).into_iter();
    findings.extend(own.filter(|finding| !finding.is_of_changed_meaning(platform)).map(|mut finding| {
        if finding.locations().any(|place| place.object().is_some_and(Object::is_converted)) {
            finding.severity = finding.severity.min(Severity::Warning);
            finding.rejected_by = None;
        }
        finding
    }));
}

/// Whether a patch may set the field of an object that a place is, where the object lacks it, or sets what is written there.
fn is_patched_at(object: &Object, place: &Location) -> bool {
    place.pointer().map(|pointer| object.root().at(pointer)).is_some_and(|node| match node.is_absent() {
        true => object.may_be_patched_around(&node),
        false => object.is_set_by_patch(&node),
    })
}

/// Removes findings that depend on an object that may be in another cluster, or of which only one is applied; and those on a field that
/// another object lacks, where a patch may set it. Rules that can report the same without it, or because of another object, have to
/// check this themselves.
fn leave_unrelated(findings: &mut Vec<Finding>, from: usize, object: &Object, cluster: &Cluster) {
    let is_unrelated = |finding: &Finding| {
        finding.related.iter().any(|related| {
            related.location.object().is_some_and(|other| {
                !cluster.pairs(object, other)
                    || cluster.are_split(object, other)
                    || !other.is_same_manifest(object) && is_patched_at(other, &related.location)
            })
        })
    };
    if findings[from..].iter().any(is_unrelated) {
        let own = findings.split_off(from);
        findings.extend(own.into_iter().filter(|finding| !is_unrelated(finding)));
    }
}

/// The first read of a rule that it does not declare.
///
/// Two reads need no declaration: the kind of the object, for a rule on all kinds, and the other versions of the object
/// itself, which `Cluster::likely_pairs` looks for. A cluster has no other version, so the admission server misses nothing.
#[cfg(test)]
fn undeclared_read(rule: &Rule, object: &Object, reads: &[Read]) -> Option<Read> {
    let id = object.id();
    let own = crate::cluster::dependencies::KindId::of(&id.group, &id.kind);
    let is_version = |read: &Read| !rule.reads.is_empty() && matches!(read, Read::Name(..));
    let is_own = |read: &Read| read.is_of(own) && (rule.kinds().is_empty() || is_version(read));
    reads.iter().copied().find(|read| !read.is_within(rule.reads) && !is_own(read))
}

/// The result of running a rule for an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunOutcome {
    pub(super) reads_earlier_findings: bool,
    pub(super) steps: u64,
}

/// Whether keys at the root are repeated as if the separator between two objects is missing.
fn has_second_object(document: &Document) -> bool {
    let repeats =
        |path: &str| document.diagnostics.iter().any(|problem| problem.key_path.as_deref() == Some(path));
    repeats("/apiVersion") && repeats("/kind")
}
