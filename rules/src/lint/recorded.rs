//! Runs the rules of an object and records for each what it reads from the cluster: the results that a workspace
//! keeps.
//!
//! A panic in a rule costs the findings of that rule for that object. It is kept with the result, and what was recorded
//! until then is what it depends on.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::dependencies::{Read, ReadId, compact, record_read};
use crate::file::File;
use crate::lint::engine::{Engine, RunOutcome, STEPS_PER_OBJECT};
use crate::lint::finding::{Finding, all_render_equal};
use crate::lint::report::CheckReport;
use crate::lint::sets::name_all_sets;
use crate::lint::subject::Subject;
use crate::object::{Object, ObjectId};
use crate::steps::isolate;

/// A panic in a rule, or in code that it calls. The panic hook has its backtrace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePanic {
    /// The rule; `None` if the findings of a file were being assembled.
    pub rule: Option<&'static str>,
    pub path: String,
    pub object: Option<ObjectId>,
    pub message: String,
}

#[derive(Debug, Default)]
pub(crate) struct ObjectResults {
    /// By the index of the rule.
    pub(crate) rules: Vec<RuleResult>,
    /// Number of steps of all rules, including those without a result.
    pub(crate) steps: u64,
}

impl ObjectResults {
    pub(crate) fn of_rule(&self, rule: u32) -> Option<&RuleResult> {
        self.rules.iter().find(|result| result.rule == rule)
    }

    /// Whether newer results have other findings, even if these differ only in the object handle, or a panic to
    /// report.
    pub(crate) fn are_replaced_by(&self, newer: &ObjectResults) -> bool {
        let mut pairs = self.findings().zip(newer.findings());
        self.findings().count() != newer.findings().count()
            || !pairs.all(|(old, new)| new.renders_equal(old) && new.locations_ptr_eq(old))
            || newer.rules.iter().any(|result| result.panicked.is_some())
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.rules.iter().flat_map(|result| &result.findings)
    }
}

/// The results of an earlier check of an object, some of which depend on reads whose result has changed.
#[derive(Clone, Copy)]
pub(crate) struct EarlierResults<'a> {
    pub(crate) results: &'a ObjectResults,
    /// Whether the result of a rule may have changed.
    pub(crate) is_invalid: &'a dyn Fn(u32) -> bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RuleResult {
    pub(crate) rule: u32,
    pub(crate) steps: u32,
    /// Whether it read the findings of other rules.
    pub(crate) reads_earlier_findings: bool,
    /// What it read from the cluster, in order.
    pub(crate) reads: Box<[ReadId]>,
    pub(crate) findings: Box<[Finding]>,
    /// The message of its panic, until it is reported.
    pub(crate) panicked: Option<Box<str>>,
}

/// A run of a rule that returned or panicked.
struct Run {
    outcome: RunOutcome,
    reads: Vec<Read>,
    panicked: Option<Box<str>>,
}

impl Engine {
    /// The results of the rules for an object, with their dependencies. Rules that report nothing and depend only on the
    /// object are omitted. Those of the `earlier` results that are still valid are kept.
    pub(crate) fn check_rules(
        &self,
        object: &Object,
        cluster: &Cluster,
        earlier: Option<EarlierResults<'_>>,
    ) -> ObjectResults {
        // Once the limit is reached, the steps of each rule decide which of the later ones run.
        let earlier = earlier.filter(|earlier| earlier.results.steps < STEPS_PER_OBJECT);
        let mut known = earlier.map_or(&[][..], |earlier| &earlier.results.rules).iter().peekable();
        let (subject, mut findings) = (Subject::new(object), Vec::new());
        let mut rules: Vec<RuleResult> = Vec::new();
        // Whether an earlier rule has other findings than before.
        let mut is_changed = false;
        let mut steps = self.for_each_rule(object, |at, left| {
            let from = findings.len();
            let old = known.next_if(|old| old.rule as usize == at);
            if let Some(earlier) = earlier {
                // A rule without a result depends only on the object.
                let Some(old) = old else { return 0 };
                let runs_again = (earlier.is_invalid)(old.rule) || (is_changed && old.reads_earlier_findings);
                if !runs_again {
                    findings.extend_from_slice(&old.findings);
                    rules.push(old.clone());
                    return u64::from(old.steps).min(left);
                }
            }
            let run = self.run_isolated(at, &subject, cluster, left, &mut findings);
            let new = &findings[from..];
            is_changed |= old.is_none_or(|old| !all_render_equal(&old.findings, new));
            let RunOutcome { steps, reads_earlier_findings } = run.outcome;
            let has_result = reads_earlier_findings || !run.reads.is_empty() || run.panicked.is_some();
            if has_result || !new.is_empty() {
                rules.push(run.into_result(at, new));
            }
            steps
        });
        if let Some(EarlierResults { results, .. }) = earlier {
            // The steps of the rules without a result.
            steps += results.steps - results.rules.iter().map(|old| u64::from(old.steps)).sum::<u64>();
            if steps >= STEPS_PER_OBJECT {
                return self.check_rules(object, cluster, None);
            }
        }
        rules.shrink_to_fit();
        ObjectResults { rules, steps }
    }

    fn run_isolated(
        &self,
        at: usize,
        subject: &Subject<'_>,
        cluster: &Cluster,
        left: u64,
        findings: &mut Vec<Finding>,
    ) -> Run {
        let from = findings.len();
        let mut panicked = None;
        let run = || {
            isolate(|| self.run_rule(at, subject, cluster, left, findings)).unwrap_or_else(|message| {
                panicked = Some(message.into_boxed_str());
                // The rule may have been about to read from the cluster.
                if !self.rule(at).reads.is_empty() {
                    record_read(|| Read::All);
                }
                RunOutcome { reads_earlier_findings: true, steps: 0 }
            })
        };
        let (outcome, reads) = self.record(at, run);
        if panicked.is_some() {
            findings.truncate(from);
        }
        Run { outcome, reads, panicked }
    }

    /// [`Engine::assemble_report`]; if that panics, the findings as they are and the message of the panic.
    pub(crate) fn assemble_isolated<'a>(
        &self,
        file: &File,
        has_suppressions: bool,
        findings: &dyn Fn() -> Vec<Finding>,
        sets: impl Iterator<Item = &'a [Arc<str>]>,
    ) -> (CheckReport, Option<String>) {
        let assemble = || match has_suppressions {
            true => self.assemble_report(file, findings()),
            false => self.assemble_unsuppressed(file, findings()),
        };
        let (mut report, panicked) = match isolate(assemble) {
            Ok(report) => (report, None),
            Err(message) => (CheckReport { findings: findings(), ..CheckReport::default() }, Some(message)),
        };
        name_all_sets(&mut report.findings, sets);
        (report, panicked)
    }
}

impl Run {
    fn into_result(self, rule: usize, findings: &[Finding]) -> RuleResult {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        RuleResult {
            rule: number(rule as u64),
            steps: number(self.outcome.steps),
            reads_earlier_findings: self.outcome.reads_earlier_findings,
            reads: compact(&self.reads),
            findings: findings.into(),
            panicked: self.panicked,
        }
    }
}
