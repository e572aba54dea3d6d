//! What a check can read and report.

use std::borrow::Cow;
use std::cell::Cell;

use crate::cluster::Cluster;
use crate::cluster::dependencies::untracked;
use crate::cluster::other_nodes::OtherNodes;
use crate::cluster::placement::PoolsFor;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement_list::RequirementList;
use crate::kind::Kind;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::lint::authority::Authority;
use crate::lint::finding::{Finding, Location, Severity};
use crate::lint::resolved::ResolvedRules;
use crate::lint::rule::{Rule, RuleSet};
use crate::lint::settings::{RuleSettings, Settings};
use crate::lint::subject::Subject;
use crate::object::Object;
use crate::platform::{Platform, Product};
use crate::steps;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::class::Classified;
use crate::workload::template::Template;

pub struct Context<'a> {
    rule: &'static Rule,
    subject: &'a Subject<'a>,
    engine: &'a ResolvedRules,
    platform: &'a Platform,
    rule_settings: &'a RuleSettings,
    cluster: &'a Cluster,
    findings: &'a mut Vec<Finding>,
    dropped: Option<Finding>,
    reads_earlier_findings: Cell<bool>,
    is_comparison: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        rule: &'static Rule,
        subject: &'a Subject<'a>,
        engine: &'a ResolvedRules,
        rule_settings: &'a RuleSettings,
        cluster: &'a Cluster,
        findings: &'a mut Vec<Finding>,
    ) -> Context<'a> {
        Context {
            rule,
            subject,
            engine,
            platform: &engine.settings().platform,
            rule_settings,
            cluster,
            findings,
            dropped: None,
            reads_earlier_findings: Cell::new(false),
            is_comparison: false,
        }
    }

    /// Sets the platform, and whether the findings there are compared with those of the rule's own ([`Context::is_comparison`]).
    pub(crate) fn set_platform(&mut self, platform: &'a Platform, is_comparison: bool) {
        (self.platform, self.is_comparison) = (platform, is_comparison);
    }

    /// Whether only the places and severities of the findings count: another version is compared with the rule's own.
    pub(crate) fn is_comparison(&self) -> bool {
        self.is_comparison
    }

    /// Adds a finding at a node of the object. A finding at an absent node is dropped if the field may be set
    /// elsewhere: in a patch, in a fragment, and if a kustomization of the input patches the field or what is around it. A finding at
    /// another node is dropped if a patch of the set changes what is written there.
    pub(crate) fn report(&mut self, node: &Node<'_>, message: impl Into<String>) -> &mut Finding {
        let is_elsewhere = match node.is_absent() {
            true => self.subject.object.is_partial() || self.subject.object.may_be_patched_around(node),
            false => self.subject.object.is_set_by_patch(node),
        };
        self.report_unless(is_elsewhere, node, message.into())
    }

    /// Adds a finding at a required field that is absent. Whatever else a patch changes, the field stays absent, so that the
    /// finding is dropped only where a patch may set this one.
    pub(crate) fn report_missing(&mut self, node: &Node<'_>, message: impl Into<String>) -> &mut Finding {
        let object = self.subject.object;
        let is_elsewhere = match node.is_absent() {
            true => object.is_partial() || object.may_be_set_by_patch(node),
            false => object.is_set_by_patch(node),
        };
        self.report_unless(is_elsewhere, node, message.into())
    }

    fn report_unless(&mut self, is_elsewhere: bool, node: &Node<'_>, message: String) -> &mut Finding {
        steps::take(50 + message.len());
        let location = Location::of(self.subject.object, node);
        let mut finding = Finding::new(self.rule, location, String::new());
        finding.message(message);
        if is_elsewhere {
            return self.dropped.insert(finding);
        }
        self.findings.push(finding);
        self.findings.last_mut().expect("a finding was pushed just now")
    }

    /// Runs the rules on an object that the checked one, of an old API, becomes, and adds their findings at the places of the checked
    /// object. A finding about what the conversion has written is left out. `others` are the objects beside the successor; without
    /// them run the rules that read only the object, or only kinds that the running rule reads as well, and those that hold for an
    /// object alone. An absent field of a node class may have had a default in the old API. Rules that report on the checked object by
    /// themselves, and fixes, which are for the successor, are left out.
    pub(crate) fn report_of_successor(&mut self, successor: &Object, others: Option<&Cluster>) {
        let path = self.subject.object.source().map(|source| source.scope());
        let settings = self.engine.settings();
        let nothing = Cluster::default();
        for &rule in self.engine.all() {
            let is_read = others.is_some() || rule.reads.iter().all(|kind| self.rule.reads.contains(kind));
            let cluster = others.unwrap_or(if is_read { self.cluster } else { &nothing });
            let of_kind =
                (is_read || rule.holds_alone) && rule.kinds().iter().any(|kind| successor.is(*kind));
            if !of_kind
                || rule.is_about_text()
                || !self.engine.is_enabled(rule, path, Some(self.subject.object))
            {
                continue;
            }
            let set = settings.rule(rule, path, Some(self.subject.object));
            let run = |object: &Object, cluster: &Cluster| {
                let (subject, mut findings) = (Subject::new(object), Vec::new());
                let mut context = Context::new(rule, &subject, self.engine, &set, cluster, &mut findings);
                context.set_platform(self.platform, false);
                if is_read && others.is_none() {
                    rule.check.run(object, &mut context);
                } else {
                    untracked(|| rule.check.run(object, &mut context));
                }
                findings
            };
            let found = run(successor, cluster);
            if found.is_empty() || !run(self.subject.object, self.cluster).is_empty() {
                continue;
            }
            // The engine compares versions only for the rule that it runs.
            let is_certain = rule.depends_on.iter().all(|product| self.platform.is_stated(*product));
            let most = match (is_read, is_certain) {
                (false, _) => Severity::Info,
                (true, true) => Severity::Error,
                (true, false) => Severity::Warning,
            };
            for mut finding in found {
                // What an object of an old API names may be there in that one.
                let is_absence = others.is_some() && finding.reports_absence;
                if is_absence || !self.is_kept_meaning(successor, &finding) {
                    continue;
                }
                finding.refer_to_written();
                finding.severity = set.severity.unwrap_or(finding.severity.min(most));
                finding.rejected_by = None;
                (finding.fix, finding.merge) = (None, None);
                self.findings.push(finding);
            }
        }
    }

    /// Whether what a rule reports on the successor of the checked object is about something that is written there.
    fn is_kept_meaning(&self, successor: &Object, finding: &Finding) -> bool {
        let Location::Field { object, pointer, .. } = &finding.location else { return false };
        let written = object.written_field(pointer).filter(|_| object.ptr_eq(successor));
        let root = self.subject.object.root();
        let is_written = |at: &Pointer| !root.at(at).is_absent();
        // An item that is not there is one that the conversion appends.
        let is_appended = |at: &Pointer| {
            (1..at.steps().len()).any(|length| {
                let list = Pointer::from_steps(at.steps()[..length].iter().cloned());
                let item = list.join(&at.steps()[length]);
                root.at(&list).is_sequence() && !is_written(&item)
            })
        };
        written.is_some_and(|at| is_written(&at) || successor.is(Kind::NODE_POOL) && !is_appended(&at))
            && !finding.is_of_changed_meaning(self.platform)
    }

    pub(crate) fn is_rule_enabled(&self, id: &str) -> bool {
        let path = self.subject.object.source().map(|source| source.scope());
        self.engine.find(id).is_some_and(|rule| self.engine.is_enabled(rule, path, Some(self.subject.object)))
    }

    /// Pointers at which earlier rules, or the rule `id`, reported that a component rejects this object.
    pub(crate) fn earlier_rejections(&self, id: Option<&str>) -> impl Iterator<Item = &Pointer> {
        self.reads_earlier_findings.set(true);
        self.findings
            .iter()
            .filter(move |f| f.rejected_by.is_some() && id.is_none_or(|id| f.rule.id == id))
            .filter_map(|f| f.location.pointer())
    }

    pub(crate) fn reads_earlier_findings(&self) -> bool {
        self.reads_earlier_findings.get()
    }

    /// Pointers at which an earlier rule reported that the API server rejects this object.
    pub(crate) fn earlier_server_rejections(&self, id: &str) -> impl Iterator<Item = &Pointer> {
        self.reads_earlier_findings.set(true);
        self.findings
            .iter()
            .filter(move |f| f.rejected_by == Some(Authority::ApiServer) && f.rule.id == id)
            .filter_map(|f| f.location.pointer())
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// Whether a finding about the object may depend on `other`: whether both are in one cluster as far as is known.
    pub(crate) fn pairs_with(&self, other: &Object) -> bool {
        self.cluster.pairs(self.subject.object, other)
    }

    /// The NodePools that may start nodes for the pods of a template, of those that a finding about the object may depend on, with
    /// what is known of other nodes. `None` if this is not known. A rule that calls this reads NodePools.
    pub(crate) fn pools_for(&self, template: &Template<'_>) -> Option<PoolsFor> {
        let feasibility = self.cluster.views().feasibility(self.platform);
        feasibility.pools_for(template, |pool| self.pairs_with(pool))
    }

    /// The first nodes of the input that Karpenter does not start and that may take the pods of a template.
    pub(crate) fn other_nodes_for(&self, template: &Template<'_>) -> Option<&'a OtherNodes> {
        let feasibility = self.cluster.views().feasibility(self.platform);
        feasibility.other_nodes_for(template, |object| self.pairs_with(object))
    }

    /// The only object with this identity that a finding about the object may depend on; `None` if there are several.
    pub(crate) fn partner(&self, kind: Kind, namespace: &str, name: &str) -> Option<&'a Object> {
        let all = self.cluster.all(kind.group, kind.kind, namespace, name);
        let mut near = all.iter().filter(|other| self.pairs_with(other));
        near.next().filter(|_| near.next().is_none())
    }

    /// The class of a workload: as it or its namespace declares it, otherwise from its content. Rules that ask for it read
    /// Namespaces.
    pub(crate) fn class_of<'o>(&self, object: &'o Object) -> Cow<'o, Classified> {
        self.cluster.views().class_of(object)
    }

    pub(crate) fn platform(&self) -> &'a Platform {
        self.platform
    }

    /// Whether the configuration states the version of a product, and not only the files.
    pub(crate) fn is_configured(&self, product: Product) -> bool {
        self.engine.settings().platform.is_stated(product)
    }

    /// The resolved configuration.
    pub(crate) fn settings(&self) -> &'a Settings {
        self.engine.settings()
    }

    /// The CustomResourceDefinitions that the user provides.
    pub(crate) fn definitions(&self) -> &'a CustomResourceDefinitions {
        &self.settings().definitions
    }

    /// All rules of the engine, including disabled ones.
    pub(crate) fn rules(&self) -> RuleSet {
        self.engine.all()
    }

    pub(crate) fn object(&self) -> &'a Object {
        self.subject.object
    }

    /// The object as a NodePool, if it is one.
    pub(crate) fn pool(&self) -> Option<&'a NodePool<'a>> {
        self.subject.pool.as_ref()
    }

    /// The requirements of the object, if it is of a kind that has them.
    pub(crate) fn requirements(&self) -> Option<&'a RequirementList<'a>> {
        self.subject.requirements.as_ref()
    }

    /// A whole-number parameter of the rule.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.rule_settings.int(self.rule, name)
    }

    /// A list parameter of the rule.
    pub(crate) fn strings(&self, name: &str) -> Vec<String> {
        self.rule_settings.strings(self.rule, name)
    }
}
