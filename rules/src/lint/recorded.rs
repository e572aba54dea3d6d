//! The rules of an object with what they read of the cluster, each by itself: what a workspace keeps of a check.
//!
//! A panic in a rule costs the findings of that rule for that object. It is kept with the result, and what was recorded
//! until then is what it depends on.

use crate::cluster::Cluster;
use crate::cluster::dependencies::{Read, ReadId, compact, record_read};
use crate::file::File;
use crate::lint::engine::{Engine, RunOutcome, STEPS_PER_OBJECT};
use crate::lint::finding::Finding;
use crate::lint::report::CheckReport;
use crate::object::{Object, ObjectId};
use crate::steps::isolate;

/// A panic in the code of a rule, or of what it reads. Its backtrace went to the panic hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePanic {
    /// The rule; none where the findings of a file were put together.
    pub rule: Option<&'static str>,
    /// The path of the file.
    pub path: String,
    /// The object that was checked.
    pub object: Option<ObjectId>,
    /// What the panic said.
    pub message: String,
}

/// The results of the rules for one object.
#[derive(Debug, Default)]
pub(crate) struct ObjectResults {
    /// By the index of the rule.
    pub(crate) rules: Vec<RuleResult>,
    /// Number of steps of all rules, including those without a result.
    pub(crate) steps: u64,
}

/// The result of one rule for one object.
#[derive(Debug)]
pub(crate) struct RuleResult {
    /// Index of the rule in its engine.
    pub(crate) rule: u32,
    /// Number of steps.
    pub(crate) steps: u32,
    /// Whether it read the findings of other rules.
    pub(crate) reads_earlier_findings: bool,
    /// What it read from the cluster, in order.
    pub(crate) reads: Box<[ReadId]>,
    pub(crate) findings: Box<[Finding]>,
    /// What its panic said, until somebody asks for it.
    pub(crate) panicked: Option<Box<str>>,
}

/// A run of a rule that came to its end in whatever way.
struct Run {
    outcome: RunOutcome,
    reads: Vec<Read>,
    panicked: Option<Box<str>>,
}

impl Engine {
    /// The results of the rules for an object, with their dependencies. Rules that report nothing and depend
    /// only on the object are omitted.
    pub(crate) fn check_rules(&self, object: &Object, cluster: &Cluster) -> ObjectResults {
        let mut findings = Vec::new();
        let mut rules = Vec::new();
        let mut left = STEPS_PER_OBJECT;
        for at in self.rules_for(object) {
            let from = findings.len();
            let run = self.run_isolated(at, object, cluster, left, &mut findings);
            left -= run.outcome.steps;
            let has_result =
                run.outcome.reads_earlier_findings || !run.reads.is_empty() || run.panicked.is_some();
            if findings.len() > from || has_result {
                rules.push(run.into_result(at, &findings[from..]));
            }
            if left == 0 {
                break;
            }
        }
        rules.shrink_to_fit();
        ObjectResults { rules, steps: STEPS_PER_OBJECT - left }
    }

    /// Runs one rule again; `earlier` are the findings of the rules before it.
    pub(crate) fn check_rule(
        &self,
        rule: usize,
        object: &Object,
        cluster: &Cluster,
        earlier: Vec<Finding>,
    ) -> RuleResult {
        let mut findings = earlier;
        let from = findings.len();
        let run = self.run_isolated(rule, object, cluster, STEPS_PER_OBJECT, &mut findings);
        run.into_result(rule, &findings[from..])
    }

    fn run_isolated(
        &self,
        at: usize,
        object: &Object,
        cluster: &Cluster,
        left: u64,
        findings: &mut Vec<Finding>,
    ) -> Run {
        let from = findings.len();
        let mut panicked = None;
        let run = || {
            isolate(|| self.run_rule(at, object, cluster, left, findings)).unwrap_or_else(|message| {
                panicked = Some(message.into_boxed_str());
                // What it was about to read is not known.
                if !self.rule(at).reads.is_empty() {
                    record_read(|| Read::All);
                }
                RunOutcome { reads_earlier_findings: true, steps: 0 }
            })
        };
        let (outcome, reads) = self.record(at, object, run);
        if panicked.is_some() {
            findings.truncate(from);
        }
        Run { outcome, reads, panicked }
    }

    /// [`Engine::assemble_report`], or the findings as they are where it panics, with what the panic said.
    pub(crate) fn assemble_isolated(
        &self,
        file: &File,
        has_suppressions: bool,
        findings: &dyn Fn() -> Vec<Finding>,
    ) -> (CheckReport, Option<String>) {
        let assemble = || match has_suppressions {
            true => self.assemble_report(file, findings()),
            false => self.assemble_unsuppressed(file, findings()),
        };
        match isolate(assemble) {
            Ok(report) => (report, None),
            Err(message) => (CheckReport { findings: findings(), ..CheckReport::default() }, Some(message)),
        }
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
