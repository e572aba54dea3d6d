//! A rule: plain data and one function.

use serde::Serialize;

use crate::cluster::Cluster;
use crate::cluster::runtimes::RUNTIMES;
use crate::karpenter::node_class::Ec2NodeClass;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement_list::RequirementList;
use crate::keda::{Trigger, triggers};
use crate::kind::Kind;
use crate::lint::authority::Authority;
use crate::lint::context::Context;
use crate::lint::finding::Severity;
use crate::lint::fix::Safety;
use crate::object::Object;
use crate::platform::Product;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

/// The subject of a rule, in the order of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Parsing and schema.
    Manifest,
    /// Old API versions.
    Migration,
    /// Requirements, taints, limits of NodePools.
    #[serde(rename = "nodepool")]
    NodePool,
    /// Budgets, consolidation, expiry, do-not-disrupt.
    Disruption,
    #[serde(rename = "nodeclass")]
    NodeClass,
    /// KEDA and HPA.
    Autoscaling,
    /// PDBs, rollouts, probes, termination.
    Availability,
    /// GPU resources of pods.
    Gpu,
    Training,
    /// Whether pods fit nodes.
    Scheduling,
    /// Metrics and alerts.
    Monitoring,
    /// Admission webhooks that can stop a cluster.
    WebhookSafety,
    /// Hygiene of suppressions.
    Suppression,
}

impl Group {
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

    /// The name in configurations.
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
    /// The subject of its rules in one line.
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
    /// The key in the configuration.
    pub name: &'static str,
    /// The description, with the unit.
    pub description: &'static str,
    pub default: ParamDefault,
}

#[derive(Clone, Copy, Debug)]
pub enum ParamDefault {
    /// A whole number with its bounds.
    Int { default: i64, min: i64, max: i64 },
    /// A list of strings.
    Strings(&'static [&'static str]),
}

/// How a rule runs. A check returns as soon as there is nothing to report; `Option` lets it return with `?` if a value
/// is absent or unknown. The returned value has no meaning.
#[derive(Clone, Copy)]
pub enum Check {
    /// Runs on each object of the rule's kinds.
    Object(fn(&Object, &mut Context<'_>) -> Option<()>),
    /// Runs on each NodePool of `karpenter.sh/v1`.
    NodePool(fn(&NodePool<'_>, &mut Context<'_>) -> Option<()>),
    /// Runs on each EC2NodeClass of `karpenter.k8s.aws/v1`.
    NodeClass(fn(&Ec2NodeClass<'_>, &mut Context<'_>) -> Option<()>),
    /// Runs on the requirements of each object of the rule's kinds (NodePool, NodeClaim, NodeOverlay).
    Requirements(fn(&RequirementList<'_>, &mut Context<'_>) -> Option<()>),
    /// Runs on each trigger of each ScaledObject and ScaledJob, where it is a mapping.
    KedaTrigger(fn(&Trigger<'_>, &mut Context<'_>) -> Option<()>),
    /// Runs on each pod template of each workload.
    PodTemplate(fn(&Template<'_>, &mut Context<'_>) -> Option<()>),
    /// Runs after all other checks of an object, and reports what no more specific rule has reported.
    CatchAll(fn(&Object, &mut Context<'_>) -> Option<()>),
    /// Not run on objects: the parser or the suppressions report it.
    Builtin,
}

impl Check {
    pub fn runs_on_objects(self) -> bool {
        !matches!(self, Check::Builtin)
    }

    /// Runs on one object of the rule's kinds.
    pub(crate) fn run(self, object: &Object, ctx: &mut Context<'_>) {
        match self {
            Check::Object(check) | Check::CatchAll(check) => {
                check(object, ctx);
            }
            Check::NodePool(check) => {
                ctx.pool().and_then(|pool| check(pool, ctx));
            }
            Check::NodeClass(check) => {
                Ec2NodeClass::new(object).and_then(|class| check(&class, ctx));
            }
            Check::Requirements(check) => {
                ctx.requirements().and_then(|list| check(list, ctx));
            }
            Check::KedaTrigger(check) => {
                for trigger in triggers(object).filter(|trigger| trigger.node.is_mapping()) {
                    check(&trigger, ctx);
                }
            }
            // The pod template of an object that a workload creates, as in a dump of a cluster, has to be changed in
            // the workload.
            Check::PodTemplate(_) if is_made_by_workload(object) => {}
            Check::PodTemplate(check) => {
                for template in templates(object) {
                    check(&template, ctx);
                }
            }
            Check::Builtin => {}
        }
    }
}

/// Whether a workload with a pod template controls the object: a ReplicaSet of a Deployment, a Pod of a Job.
fn is_made_by_workload(object: &Object) -> bool {
    let kind = object.controller().and_then(|owner| owner.get("kind").text());
    kind.is_some_and(|kind| WORKLOAD_KINDS.iter().any(|known| known.kind == kind))
}

/// A field that a rule checks more precisely than the schema. The rules over the schema (manifest-incomplete,
/// unknown-field, invalid-value) run last and leave a violation to the rule that owns the field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ownership {
    /// Steps separated by `/`: `*` is one step, `**` any number of them; `~1` is a slash in a step.
    pub(crate) path: &'static str,
    pub(crate) aspect: Aspect,
}

/// The kind of violation that a rule owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// All violations of the field and of its siblings: the rule has one finding for all.
    Whole,
    Missing,
    /// The field is present although the schema does not have it.
    Unknown,
    Value,
}

/// A kind of findings of a rule that name another object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The kinds of the object that is named.
    pub(crate) with: &'static [Kind],
    /// The objects on which the rule may have a finding that names this one. It need not be in the cluster.
    pub(crate) partners: fn(&Object, &Cluster) -> Vec<Object>,
    /// All objects that the rule reads for a finding on a partner, the second one, other than the two.
    pub(crate) beside: fn(&Object, &Object, &Cluster) -> Vec<Object>,
}

/// Nothing beside the two.
pub(crate) fn nothing(_: &Object, _: &Object, _: &Cluster) -> Vec<Object> {
    Vec::new()
}

/// A property of the place of a rule's findings that editors show in another style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// An API, a field, a name or a value that is deprecated or removed.
    Deprecated,
    /// It has no effect and can be removed.
    Unnecessary,
}

/// Every rule, in the order of reports and of the manual.
pub(crate) type RuleSet = &'static [&'static Rule];

/// A rule. [`Rule::error`], [`Rule::warning`] and [`Rule::info`] give the defaults that a rule completes with
/// `..Rule::error(Group::NodePool)`.
pub struct Rule {
    /// The id: names the problem, and can follow "allow".
    pub id: &'static str,
    pub group: Group,
    pub severity: Severity,
    /// The version of gpulint that introduced it.
    pub since: &'static str,
    /// The kinds on which it runs; empty if the check implies them ([`Rule::kinds`]).
    pub(crate) kinds: &'static [Kind],
    /// The kinds of other objects that it reads from the cluster.
    pub reads: &'static [Kind],
    /// Whether it says something about an object by itself as well: what others add makes it less. It then runs, as information,
    /// on the successor of an object of an API that is gone.
    pub(crate) holds_alone: bool,
    /// Whether what it finds does harm in a file that nobody applies as well, as a password does.
    pub(crate) holds_unapplied: bool,
    /// Whether it is about what the `v1` API of Karpenter changed: it does not hold for an object of an older API that a Karpenter
    /// before 1.0 reads.
    pub(crate) is_new_in_v1: bool,
    /// Its findings that name another object, which a review of that object asks for.
    pub(crate) pairs: &'static [Pair],
    /// Whether it reports that an object is absent, such as a missing PodDisruptionBudget: its findings hold only
    /// until that object is created, which may be applied a moment later. The admission webhook does not deny them. A
    /// finding of such a rule that does not depend on an absence declares it ([`crate::Finding::reports_absence`]).
    pub(crate) reports_absence: bool,
    pub params: &'static [Param],
    /// The components that reject what the rule finds; empty if all accept it. If there is exactly one, each error of
    /// the rule states that rejection; if there are several, a finding names one ([`crate::Finding::rejected_by`]).
    pub rejected_by: &'static [Authority],
    /// The fields that it checks more precisely than the schema.
    pub(crate) owns: &'static [Ownership],
    /// The products whose version affects its findings. A finding that does not hold for all supported versions is at
    /// most a warning while the version is not stated. Rules whose findings nothing rejects follow the assumed
    /// version, and are not marked.
    pub depends_on: &'static [Product],
    /// The rules that report the same field instead under other versions.
    pub(crate) alternates: &'static [&'static str],
    /// The safety of its fix, if it has one.
    pub fix: Option<Safety>,
    /// The tag of its findings. A rule with several kinds of findings has none.
    pub tag: Option<Tag>,
    /// The manual: the module documentation of the rule's file.
    pub docs: &'static str,
    pub check: Check,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// Cuts the leading `//!` lines out of the source of a rule.
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

/// Where the manual (`docs/`) is published; the prefix of all links to it.
pub const MANUAL: &str = "https://gpulint.dev";

impl Rule {
    /// Defaults of a rule whose findings are errors.
    pub(crate) const fn error(group: Group) -> Rule {
        Rule {
            id: "",
            group,
            severity: Severity::Error,
            since: "0.1.0",
            kinds: &[],
            reads: &[],
            pairs: &[],
            holds_alone: false,
            holds_unapplied: false,
            is_new_in_v1: false,
            reports_absence: false,
            params: &[],
            rejected_by: &[],
            owns: &[],
            depends_on: &[],
            alternates: &[],
            fix: None,
            tag: None,
            docs: "",
            check: Check::Builtin,
        }
    }

    /// Defaults of a rule whose findings are warnings.
    pub(crate) const fn warning(group: Group) -> Rule {
        Rule { severity: Severity::Warning, ..Rule::error(group) }
    }

    /// Defaults of a rule whose findings are advice.
    pub(crate) const fn info(group: Group) -> Rule {
        Rule { severity: Severity::Info, ..Rule::error(group) }
    }

    /// The kinds on which it runs: the declared ones, or those that its check implies.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.check {
            _ if !self.kinds.is_empty() => self.kinds,
            Check::NodePool(_) => &[Kind::NODE_POOL],
            Check::NodeClass(_) => &[Kind::EC2_NODE_CLASS],
            Check::Requirements(_) => &[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::NODE_OVERLAY],
            Check::KedaTrigger(_) => &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
            Check::PodTemplate(_) => WORKLOAD_KINDS,
            Check::Object(_) | Check::CatchAll(_) | Check::Builtin => &[],
        }
    }

    /// Whether a review of an object of this kind asks it for findings on other objects.
    pub fn pairs_with(&self, kind: Kind) -> bool {
        self.pairs.iter().any(|pair| pair.with.contains(&kind))
    }

    /// The kinds of the objects that a review of another object asks it for.
    pub fn paired_kinds(&self) -> &'static [Kind] {
        if self.pairs.is_empty() { &[] } else { self.kinds() }
    }

    /// Whether it is run on workloads as their controllers complete them: it declares that it reads the runtimes of all kinds.
    pub(crate) fn is_for_completed(&self) -> bool {
        RUNTIMES.iter().all(|kind| self.reads.contains(kind))
    }

    /// Whether it judges objects by NodePools or node classes, and not by how they are written.
    pub(crate) fn reads_pools(&self) -> bool {
        let kinds = [Kind::NODE_POOL, Kind::EC2_NODE_CLASS];
        !self.is_about_text() && kinds.iter().any(|kind| self.reads.contains(kind))
    }

    /// Whether its findings are about how objects are written, and in which API.
    pub(crate) fn is_about_text(&self) -> bool {
        matches!(self.group, Group::Manifest | Group::Migration | Group::Suppression)
    }

    /// Whether it may read other objects. A rule for all kinds may read those of the kind that it runs for.
    pub(crate) fn reads_cluster(&self) -> bool {
        !self.reads.is_empty() || self.kinds().is_empty()
    }

    /// The manual as Markdown.
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
    pub fn summary(&self) -> &'static str {
        let line = self.docs.lines().next().unwrap_or_default();
        line.trim_start_matches("//!").trim().trim_end_matches('.')
    }

    /// The authority whose rejection every error of the rule states.
    pub(crate) fn sole_authority(&self) -> Option<Authority> {
        match self.rejected_by {
            [one] if self.severity == Severity::Error => Some(*one),
            _ => None,
        }
    }

    /// The page of the manual, as generated by `gpulint docs` and mdBook.
    pub fn url(&self) -> String {
        format!("{MANUAL}/rules/{}.html", self.id)
    }
}
