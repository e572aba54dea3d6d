//! What a rule is: plain data and one function.

use std::cell::Cell;

use serde::Serialize;

use crate::cluster::objects::Index;
use crate::kind::Kind;
use crate::lint::finding::{Finding, Location, Severity};
use crate::lint::fix::Safety;
use crate::lint::message::fit_to_limit;
use crate::lint::settings::{RuleSettings, Settings, find_rule};
use crate::object::Object;
use crate::platform::Platform;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// What a rule is about; the order of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Reading and schema.
    Manifest,
    /// Old APIs.
    Migration,
    /// Requirements, taints, limits of NodePools.
    #[serde(rename = "nodepool")]
    NodePool,
    /// Budgets, consolidation, expiry, do-not-disrupt.
    Disruption,
    /// EC2NodeClasses.
    #[serde(rename = "nodeclass")]
    NodeClass,
    /// KEDA and HPA.
    Autoscaling,
    /// PDBs, rollouts, probes, termination.
    Availability,
    /// GPU resources of pods.
    Gpu,
    /// Training jobs.
    Training,
    /// Does it fit.
    Scheduling,
    /// Metrics and alerts.
    Monitoring,
    /// Admission webhooks that can stop a cluster.
    WebhookSafety,
    /// Hygiene of suppressions.
    Suppression,
}

impl Group {
    /// Every group, in order.
    pub const ALL: &[Group] = &[
        Group::Manifest,
        Group::Migration,
        Group::NodePool,
        Group::Disruption,
        Group::NodeClass,
        Group::Autoscaling,
        Group::Availability,
        Group::Gpu,
        Group::Training,
        Group::Scheduling,
        Group::Monitoring,
        Group::WebhookSafety,
        Group::Suppression,
    ];

    /// The name users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Manifest => "manifest",
            Group::Migration => "migration",
            Group::NodePool => "nodepool",
            Group::Disruption => "disruption",
            Group::NodeClass => "nodeclass",
            Group::Autoscaling => "autoscaling",
            Group::Availability => "availability",
            Group::Gpu => "gpu",
            Group::Training => "training",
            Group::Scheduling => "scheduling",
            Group::Monitoring => "monitoring",
            Group::WebhookSafety => "webhook-safety",
            Group::Suppression => "suppression",
        }
    }
}

impl Group {
    /// What its rules are about, in a line.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Group::Manifest => "reading: YAML, fields and values of each kind, by API version",
            Group::Migration => "APIs, labels and metrics of older Karpenter, KEDA and Kubernetes",
            Group::NodePool => "NodePools: requirements, taints, limits, what stops Karpenter",
            Group::Disruption => "budgets, consolidation, expiry, do-not-disrupt",
            Group::NodeClass => "EC2NodeClasses: images, volumes, user data, kubelet, network",
            Group::Autoscaling => "KEDA and HPA: triggers, targets, bounds, scaling to zero",
            Group::Availability => "PodDisruptionBudgets, rollouts, probes, termination",
            Group::Gpu => "GPUs in pods: requests, tolerations, MIG, DRA, sharing",
            Group::Training => "training runs: capacity, checkpoints, restarts, rendezvous",
            Group::Scheduling => "whether pods, pools and node classes fit together",
            Group::Monitoring => "metrics and alerts on GPUs",
            Group::WebhookSafety => "admission webhooks that can stop a cluster",
            Group::Suppression => "suppressions: reasons, ends, what they no longer suppress",
        }
    }
}

/// A setting of a rule that users can change.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The key beside `severity`.
    pub name: &'static str,
    /// What it does, with its unit.
    pub description: &'static str,
    /// Its type and default.
    pub default: ParamDefault,
}

/// The type and default of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum ParamDefault {
    /// A whole number with its bounds.
    Int {
        /// The default.
        default: i64,
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A list of strings.
    Strings(&'static [&'static str]),
}

/// Who refuses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The API server: schema, CEL rules of a CRD, built-in validation, strict decoding.
    ApiServer,
    /// KEDA's own validating webhooks.
    KedaAdmission,
    /// Karpenter's controllers, after the API server has taken the object.
    Karpenter,
}

impl Authority {
    /// The name that programs read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Authority::ApiServer => "api-server",
            Authority::KedaAdmission => "keda-admission",
            Authority::Karpenter => "karpenter",
        }
    }

    /// The name that people read.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            Authority::ApiServer => "the API server",
            Authority::KedaAdmission => "KEDA's admission webhook",
            Authority::Karpenter => "Karpenter's controller",
        }
    }
}

/// How a rule is run.
#[derive(Clone, Copy)]
pub enum Check {
    /// Asked about every object of the rule's kinds.
    Object(fn(&Object, &mut Context<'_>)),
    /// Asked likewise, after all the others: it reports what no rule of its own name has reported.
    CatchAll(fn(&Object, &mut Context<'_>)),
    /// The reader itself, or the suppressions, report it.
    Builtin,
}

impl Check {
    /// The function that is asked about an object.
    #[must_use]
    pub fn object_check(self) -> Option<fn(&Object, &mut Context<'_>)> {
        match self {
            Check::Object(check) | Check::CatchAll(check) => Some(check),
            Check::Builtin => None,
        }
    }
}

/// A rule.
pub struct Rule {
    /// What is wrong; reads after "allow".
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// Its default severity.
    pub severity: Severity,
    /// The version that brought it.
    pub since: &'static str,
    /// The kinds it is asked about.
    pub kinds: &'static [Kind],
    /// The other kinds it reads from the index.
    pub reads: &'static [Kind],
    /// What can be set.
    pub params: &'static [Param],
    /// Who refuses what the rule finds; empty where everybody takes it. With exactly one entry
    /// each of its errors claims that refusal; with several a finding says whose
    /// ([`Finding::refused_by`]).
    pub rejected_by: &'static [Authority],
    /// The safety of the fix it may offer.
    pub fix: Option<Safety>,
    /// The manual: the head of the rule's own file.
    pub docs: &'static str,
    /// How it is run.
    pub check: Check,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// Cuts the leading `//!` lines out of a rule's own source.
#[must_use]
pub const fn docs(source: &'static str) -> &'static str {
    let bytes = source.as_bytes();
    let mut at = 0;
    while at + 3 <= bytes.len() && bytes[at] == b'/' && bytes[at + 1] == b'/' && bytes[at + 2] == b'!' {
        while at < bytes.len() && bytes[at] != b'\n' {
            at += 1;
        }
        if at < bytes.len() {
            at += 1;
        }
    }
    source.split_at(at).0
}

impl Rule {
    /// The manual as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::with_capacity(self.docs.len());
        for line in self.docs.lines() {
            let line = line.strip_prefix("//!").unwrap_or(line);
            out.push_str(line.strip_prefix(' ').unwrap_or(line));
            out.push('\n');
        }
        out
    }

    /// The manual's first line, without its full stop.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        let line = self.docs.lines().next().unwrap_or_default();
        line.trim_start_matches("//!").trim().trim_end_matches('.')
    }

    /// The authority whose refusal every error of the rule claims.
    pub(crate) fn sole_authority(&self) -> Option<Authority> {
        match self.rejected_by {
            [one] if self.severity == Severity::Error => Some(*one),
            _ => None,
        }
    }

    /// Where the manual stands on the web.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://gpulint.dev/rules/{}", self.id)
    }
}

/// What a rule may ask while it judges one object.
pub struct Context<'a> {
    rule: &'static Rule,
    object: &'a Object,
    settings: &'a Settings,
    rule_settings: &'a RuleSettings,
    index: &'a Index,
    findings: &'a mut Vec<Finding>,
    dropped: Option<Finding>,
    reads_earlier_findings: Cell<bool>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        rule: &'static Rule,
        object: &'a Object,
        settings: &'a Settings,
        rule_settings: &'a RuleSettings,
        index: &'a Index,
        findings: &'a mut Vec<Finding>,
    ) -> Context<'a> {
        Context {
            rule,
            object,
            settings,
            rule_settings,
            index,
            findings,
            dropped: None,
            reads_earlier_findings: Cell::new(false),
        }
    }

    /// Reports something at a node of the object. What is absent in a patch or a fragment, or where a
    /// patch may add it, is not missed: such a report is dropped.
    pub fn report(&mut self, node: &Node<'_>, message: impl Into<String>) -> &mut Finding {
        let finding = Finding {
            rule: self.rule,
            severity: self.rule.severity,
            rejected_by: self.rule.sole_authority(),
            may_be_transient: false,
            location: Location::of(self.object, node),
            message: fit_to_limit(message.into()),
            help: None,
            related: Vec::new(),
            fix: None,
            schedule_grid: None,
        };
        if node.is_absent() && (self.object.is_partial() || self.object.is_patched_by_kustomize()) {
            return self.dropped.insert(finding);
        }
        self.findings.push(finding);
        self.findings.last_mut().expect("a finding was pushed just now")
    }

    /// Whether another rule judges this object.
    #[must_use]
    pub(crate) fn is_rule_enabled(&self, id: &str) -> bool {
        let path = self.object.origin().map(|o| o.source.scope());
        find_rule(id)
            .is_some_and(|rule| self.settings.rule(rule, path, Some(self.object)).enabled != Some(false))
    }

    /// Where earlier rules, or one of them, have claimed that somebody refuses this object.
    pub(crate) fn earlier_rejections(&self, id: Option<&str>) -> impl Iterator<Item = &Pointer> {
        self.reads_earlier_findings.set(true);
        self.findings
            .iter()
            .filter(move |f| f.rejected_by.is_some() && id.is_none_or(|id| f.rule.id == id))
            .filter_map(|f| f.location.pointer())
    }

    /// Whether the rule has looked at what others found.
    pub(crate) fn reads_earlier_findings(&self) -> bool {
        self.reads_earlier_findings.get()
    }

    /// Where an earlier rule has claimed that the API server refuses this object.
    pub(crate) fn earlier_server_rejections(&self, id: &str) -> impl Iterator<Item = &Pointer> {
        self.findings
            .iter()
            .filter(move |f| f.rejected_by == Some(Authority::ApiServer) && f.rule.id == id)
            .filter_map(|f| f.location.pointer())
    }

    /// The other objects.
    #[must_use]
    pub fn index(&self) -> &'a Index {
        self.index
    }

    /// What the cluster runs on.
    #[must_use]
    pub fn platform(&self) -> &'a Platform {
        &self.settings.platform
    }

    /// The resolved configuration.
    #[must_use]
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// A whole-number parameter of the rule.
    #[must_use]
    pub fn int(&self, name: &str) -> i64 {
        self.rule_settings.int(self.rule, name)
    }

    /// A list parameter of the rule.
    #[must_use]
    pub fn strings(&self, name: &str) -> Vec<String> {
        self.rule_settings.strings(self.rule, name)
    }
}
