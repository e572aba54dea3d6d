//! Typed access to a NodePool: requirements, admitted instance types, limits, taints and purpose.

use std::sync::{Arc, OnceLock};

use crate::catalog;
use crate::catalog::{Accelerator, CAPACITY_TYPE, TypeSet};
use crate::facts::cron::Schedule;
use crate::facts::date::REFERENCE_MONDAY;
use crate::facts::duration;
use crate::facts::duration::{DurationField, NillableDuration};
use crate::facts::quantity::Quantity;
use crate::karpenter::budget::{Budget, Calendar, DisruptionReason, Nodes};
use crate::karpenter::pool_facts::{DeclaredPurpose, PoolFacts};
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::{Operator, Requirement, Requirements, normalise};
use crate::karpenter::scheduling;
use crate::karpenter::scheduling::{NodeClass, NodeClassRef, Pool, RequirementSpec, SchedulerOptions, Taint};
use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::steps;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::KARPENTER_ACCELERATORS;

/// Steps for copying a label.
const STEPS_PER_LABEL: usize = 30;

/// The label of nodes that names their pool.
pub const NODEPOOL_LABEL: &str = "karpenter.sh/nodepool";

/// The capacity types, in the order in which Karpenter prefers them.
pub(crate) const CAPACITY_TYPES: [&str; 3] = ["reserved", "spot", "on-demand"];

#[derive(Clone, Debug)]
pub struct NodePool<'a> {
    object: &'a Object,
    /// The value of [`NodePool::calendar`], which several rules read in a row. As a memo of the object it would stay for the whole
    /// run, and take 480 bytes of a pool with two budgets.
    calendar: OnceLock<Option<Box<Calendar>>>,
}

/// Whether the instance types of a pool have accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    Accelerated,
    /// Some types have accelerators.
    Mixed,
    NoAccelerator,
    /// No type is admitted, or the types are not known.
    Unknown,
}

impl<'a> NodePool<'a> {
    /// Returns a view of the object, or `None` if it is not a `karpenter.sh/v1` NodePool.
    pub fn new(object: &'a Object) -> Option<NodePool<'a>> {
        let is_pool = object.is(Kind::NODE_POOL) && object.version() == "v1";
        is_pool.then(|| NodePool { object, calendar: OnceLock::new() })
    }

    pub fn object(&self) -> &'a Object {
        self.object
    }

    pub(crate) fn template_spec(&self) -> Node<'a> {
        self.object.path(&["spec", "template", "spec"])
    }

    /// `spec.template.spec.requirements`.
    pub fn requirements(&self) -> Node<'a> {
        self.template_spec().get("requirements")
    }

    /// `spec.template.metadata.labels`.
    pub fn labels(&self) -> Node<'a> {
        self.object.path(&["spec", "template", "metadata", "labels"])
    }

    pub fn disruption(&self) -> Node<'a> {
        self.object.path(&["spec", "disruption"])
    }

    pub fn limits(&self) -> Node<'a> {
        self.object.path(&["spec", "limits"])
    }

    /// Whether the pool is static, that is, `spec.replicas` is set.
    pub fn is_static(&self) -> bool {
        self.facts().is_static
    }

    /// Reads [`NodePool::is_static`] from the object, to compute the facts.
    pub(super) fn has_replicas(&self) -> bool {
        self.object.path(&["spec", "replicas"]).is_set()
    }

    /// Who makes its nodes.
    pub fn provider(&self) -> Provider {
        self.facts().provider
    }

    /// How many nodes a static pool keeps: `spec.replicas`, or `limits.nodes` if that is fewer. 0 if they cannot be read.
    fn standing_nodes(&self) -> u64 {
        let limit = self.limits().get("nodes");
        let limit = Quantity::at(&limit).map_or(i128::MAX, |limit| limit.milli() / 1000);
        let replicas = self.object.path(&["spec", "replicas"]).int().map_or(0, i128::from);
        u64::try_from(replicas.min(limit)).unwrap_or(0)
    }

    pub(crate) fn is_auto_mode(&self) -> bool {
        self.facts().provider == Provider::AutoMode
    }

    /// Whether the pool's node class belongs to a provider other than AWS. Its labels are not in the
    /// catalogue.
    pub fn is_other_provider(&self) -> bool {
        self.facts().provider == Provider::Other
    }

    /// Whether a requirement or label that decides about instance types contains a placeholder.
    pub(crate) fn has_unknown_types(&self) -> bool {
        self.facts().has_unknown_types
    }

    /// Whether a requirement or label of any kind contains a placeholder.
    pub(crate) fn has_unknown_labels(&self) -> bool {
        self.facts().has_unknown_labels
    }

    /// Whether a placeholder hides whether the nodes have a label, or its value.
    pub(crate) fn is_label_unknown(&self, key: &str) -> bool {
        self.has_unknown_labels()
            && self.unknown_keys().any(|own| own.is_none_or(|own| normalise(own) == normalise(key)))
    }

    /// The keys of the requirements and labels that contain a placeholder. `None` if the key itself is one.
    pub(super) fn unknown_keys(&self) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
        let (requirements, labels) = (self.requirements(), self.labels());
        let whole =
            [requirements.is_unknown(), labels.is_unknown()].into_iter().filter(|is| *is).map(|_| None);
        let of_requirements = requirements.items().filter(Node::has_unknown).map(|one| one.get("key").text());
        let of_labels = labels.entries().into_iter().filter_map(|(key, value)| {
            let is_key = is_placeholder(key);
            (is_key || value.has_unknown()).then_some((!is_key).then_some(key))
        });
        whole.chain(of_requirements).chain(of_labels)
    }

    pub fn weight(&self) -> Option<i64> {
        self.object.path(&["spec", "weight"]).int()
    }

    /// The taints of the nodes, without the startup taints. Values that cannot be read are empty.
    pub fn taints(&self) -> Vec<Taint> {
        taints(&self.template_spec().get("taints"))
    }

    /// The labels of the template whose values can be read.
    pub fn label_pairs(&self) -> impl Iterator<Item = (String, String)> {
        let labels = self.labels().entries().into_iter();
        labels.filter_map(|(key, value)| {
            steps::take(STEPS_PER_LABEL);
            Some((key.to_owned(), value.text()?.to_owned()))
        })
    }

    /// The pool as input of the scheduler. Values that cannot be read are omitted.
    pub(crate) fn to_pool(&self) -> Pool {
        let spec = self.template_spec();
        let reference = spec.get("nodeClassRef");
        let class = self.is_auto_mode().then(NodeClass::assumed_in_auto_mode);
        Pool {
            name: self.object.name().to_owned(),
            weight: self.weight(),
            replicas: self.has_replicas().then(|| self.standing_nodes()),
            requirements: requirement_specs(&self.requirements()),
            labels: self.label_pairs().collect(),
            taints: readable_taints(&spec.get("taints")),
            startup_taints: readable_taints(&spec.get("startupTaints")),
            limits: self
                .limits()
                .entries()
                .into_iter()
                .filter_map(|(k, v)| {
                    let quantity = Quantity::parse(&v.string_or_number()?).ok()?;
                    Some((k.to_owned(), quantity.milli()))
                })
                .collect(),
            node_class: NodeClassRef {
                group: text_or_empty(&reference.get("group")),
                kind: text_or_empty(&reference.get("kind")),
                name: text_or_empty(&reference.get("name")),
            },
            class,
            is_built_in: false,
            uncertainties: Vec::new(),
        }
    }

    /// Requirements and template labels together, combined as Karpenter does.
    pub(crate) fn requirement_set(&self) -> Requirements {
        scheduling::pool_requirements(&self.to_pool())
    }

    /// The instance types that the pool can start: those that its requirements admit and EC2 still offers. If EC2 offers none
    /// of them, all that are admitted. `None` if a placeholder or a provider other than AWS decides. The labels of EKS Auto
    /// Mode are treated as those of Karpenter with the same name.
    pub fn types(&self) -> Option<TypeSet> {
        Some(self.admitted_types()?.offered())
    }

    /// The instance types that the pool's requirements admit, with those that EC2 no longer offers in any region. `None` as for
    /// [`NodePool::types`].
    pub(crate) fn admitted_types(&self) -> Option<TypeSet> {
        if self.object.is_partial() { None } else { self.facts().types }
    }

    /// The facts derived from the node template of the pool, computed at the first call.
    pub(crate) fn facts(&self) -> &'a Arc<PoolFacts> {
        static FACTS: Memo<Arc<PoolFacts>> = Memo::new();
        self.object.memo(&FACTS, || Arc::new(PoolFacts::read(self)))
    }

    /// The pool in a form that can be compared with the catalogue without the node class: a requirement that allows
    /// reserved capacity is removed, because it does not restrict the types.
    pub(crate) fn normalized_pool(&self) -> Pool {
        let mut pool = self.to_pool();
        let [allows_reserved, ..] = self.facts().capacity_types.unwrap_or_default();
        if allows_reserved {
            pool.requirements.retain(|r| r.key != CAPACITY_TYPE);
            pool.labels.retain(|(key, _)| key != CAPACITY_TYPE);
        }
        pool
    }

    /// The keys under which a requirement or a label names a well-formed value, such as a family, that is not
    /// in the catalogue but may be in a newer one.
    pub(crate) fn uncatalogued_keys(&self) -> &'a [&'static str] {
        &self.facts().uncatalogued_keys
    }

    /// Whether a requirement or label names a well-formed value that is not in the catalogue.
    pub(crate) fn names_uncatalogued_values(&self) -> bool {
        !self.uncatalogued_keys().is_empty()
    }

    /// Whether no instance type meets the requirements and labels, so that the pool never starts a node. A value that is newer than
    /// the catalogue may have a type.
    pub(crate) fn starts_no_node(&self) -> bool {
        self.admitted_types().is_some_and(|types| types.is_empty()) && !self.names_uncatalogued_values()
    }

    /// What the pool is called in messages about its accelerators.
    pub(crate) fn noun(&self) -> &'static str {
        let by_types = self.types().and_then(|types| main_accelerator(&types));
        let by_taint = || self.accelerator_taints().find_map(Accelerator::of);
        by_types.or_else(by_taint).map_or("GPU pool", Accelerator::pool_noun)
    }

    /// Whether the admitted types have accelerators.
    pub fn hardware(&self) -> Hardware {
        if self.object.is_partial() { Hardware::Unknown } else { self.facts().hardware }
    }

    /// Whether all nodes have accelerators, or a taint names an accelerator resource and some nodes may have one.
    pub(crate) fn is_gpu_intended(&self) -> bool {
        match self.hardware() {
            Hardware::Accelerated => true,
            Hardware::NoAccelerator => false,
            Hardware::Mixed | Hardware::Unknown => self.has_accelerator_taint() && !self.starts_no_node(),
        }
    }

    pub(crate) fn has_accelerator_taint(&self) -> bool {
        self.accelerator_taints().next().is_some()
    }

    /// The keys of taints that name an accelerator resource.
    fn accelerator_taints(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let taints = self.template_spec().get("taints").items();
        let keys = taints.filter_map(|taint| taint.get("key").text());
        keys.filter(|key| KARPENTER_ACCELERATORS.contains(key))
    }

    /// The class of workload that the pool is intended for, from its name, template labels and taints. `None`
    /// if they indicate no class, or more than one.
    pub fn purpose(&self) -> Option<WorkloadClass> {
        self.facts().declared.and(DeclaredPurpose::of_name(self.object)).only()
    }

    /// Whether its template labels and taints say what the pool is for, and not its name alone.
    pub(crate) fn declares_purpose(&self) -> bool {
        self.facts().declared.only().is_some()
    }

    /// The capacity types that the pool allows. `None` if neither a requirement nor a label is about them.
    pub fn capacity_types(&self) -> Option<Vec<&'static str>> {
        let named = CAPACITY_TYPES.into_iter().zip(self.facts().capacity_types?);
        Some(named.filter_map(|(name, yes)| yes.then_some(name)).collect())
    }

    /// Whether the pool may start Spot nodes. Karpenter prefers Spot if the pool does not restrict the
    /// capacity type.
    pub(crate) fn allows_spot(&self) -> bool {
        self.capacity_types().is_none_or(|c| c.contains(&"spot"))
    }

    /// The node of the requirement on a key. The key must be normalised.
    pub fn requirement(&self, key: &str) -> Option<Node<'a>> {
        self.requirements().items().find(|r| r.get("key").text().is_some_and(|k| normalise(k) == key))
    }

    /// `consolidationPolicy` or its default.
    pub(crate) fn consolidation_policy(&self) -> Option<&'a str> {
        let node = self.disruption().get("consolidationPolicy");
        if node.is_set() { node.text() } else { Some("WhenEmptyOrUnderutilized") }
    }

    /// `expireAfter` or its default of 720h. `None` if it cannot be read.
    pub(crate) fn expire_after(&self) -> Option<NillableDuration> {
        let node = self.template_spec().get("expireAfter");
        if !node.is_set() {
            return Some(NillableDuration::Seconds(720 * 3600));
        }
        duration::parse(DurationField::ExpireAfter, node.text()?).ok()
    }

    /// Whether Karpenter disrupts nodes of the pool for a reason when budgets allow it. A static pool is not consolidated.
    pub(crate) fn is_disrupted_as(&self, reason: DisruptionReason) -> bool {
        let never = || self.disruption().get("consolidateAfter").text() == Some("Never");
        let is_consolidated = || !self.is_static() && !never();
        match reason {
            DisruptionReason::Drifted => true,
            DisruptionReason::Empty => is_consolidated(),
            DisruptionReason::Underutilized => {
                is_consolidated() && self.consolidation_policy() != Some("WhenEmpty")
            }
        }
    }

    /// The budgets of the manifest and their list. `None` if they cannot be read, or if the API server rejects one that has
    /// only one of `schedule` and `duration`.
    pub(crate) fn written_budgets(&self) -> Option<(Node<'a>, &Calendar)> {
        let calendar = self.calendar()?;
        let list = self.disruption().get("budgets");
        let is_whole = |budget: &Budget| budget.schedule.is_some() == budget.duration.is_some();
        (list.is_sequence() && calendar.budgets().iter().all(is_whole)).then_some((list, calendar))
    }

    /// The budgets of the manifest, or the default list, around the reference Monday. `None` if one cannot be read.
    pub fn calendar(&self) -> Option<&Calendar> {
        let read = || Some(Box::new(Calendar::around(self.budgets()?, REFERENCE_MONDAY)));
        // Its steps do not count for the rule that happens to be the first.
        self.calendar.get_or_init(|| steps::unlimited(read)).as_deref()
    }

    /// The budgets of the manifest, or the default list. `None` if a budget cannot be read.
    fn budgets(&self) -> Option<Vec<Budget>> {
        let list = self.disruption().get("budgets");
        if !list.is_set() {
            return Some(Budget::default_list());
        }
        if !list.is_sequence() {
            return None;
        }
        list.items().map(|b| budget(&b)).collect()
    }
}

/// Whether the instance types of a set have accelerators.
pub fn hardware(types: &TypeSet) -> Hardware {
    if types.is_empty() {
        return Hardware::Unknown;
    }
    let accelerated = accelerated_types();
    if types.is_subset(accelerated) {
        Hardware::Accelerated
    } else if types.is_disjoint(accelerated) {
        Hardware::NoAccelerator
    } else {
        Hardware::Mixed
    }
}

fn accelerated_types() -> &'static TypeSet {
    static SET: std::sync::OnceLock<TypeSet> = std::sync::OnceLock::new();
    SET.get_or_init(|| TypeSet::matching(crate::catalog::InstanceType::is_accelerated))
}

/// The taints of a list. Values that cannot be read are empty.
fn taints(list: &Node<'_>) -> Vec<Taint> {
    list.items().map(|node| taint(&node)).collect()
}

/// The taints of a list that can be read as a whole.
fn readable_taints(list: &Node<'_>) -> Vec<Taint> {
    list.items().filter(|node| !node.has_unknown()).map(|node| taint(&node)).collect()
}

fn text_or_empty(node: &Node<'_>) -> String {
    node.text().unwrap_or_default().to_owned()
}

fn requirement_specs(list: &Node<'_>) -> Vec<RequirementSpec> {
    list.items().filter(|r| !r.has_unknown()).filter_map(|r| requirement_spec(&r)).collect()
}

/// One requirement. `None` if the key or operator cannot be read.
pub(crate) fn requirement_spec(node: &Node<'_>) -> Option<RequirementSpec> {
    Some(RequirementSpec {
        key: node.get("key").text()?.to_owned(),
        op: node.get("operator").text()?.parse::<Operator>().ok()?,
        values: node
            .get("values")
            .items()
            .filter_map(|v| v.string_or_number().map(|t| t.into_owned()))
            .collect(),
        min_values: node.get("minValues").int().and_then(|n| u32::try_from(n).ok()),
    })
}

/// The taint at a node. Values that cannot be read are empty.
pub fn taint(node: &Node<'_>) -> Taint {
    Taint {
        key: text_or_empty(&node.get("key")),
        value: text_or_empty(&node.get("value")),
        effect: text_or_empty(&node.get("effect")),
    }
}

/// The instance types that one requirement, or one expression of node affinity, admits by itself on nodes of a
/// provider. `None` if the requirement cannot be read, or if the catalogue does not have the label of each type.
pub fn types_meeting(requirement: &Node<'_>, provider: Provider) -> Option<TypeSet> {
    if requirement.has_unknown() {
        return None;
    }
    let spec = requirement_spec(requirement)?;
    let key = provider.catalogue_key(&spec.key);
    catalog::index(&key)?;
    let meant = Requirement::new(spec.op, &spec.values, None);
    scheduling::matching(&key, &meant, None, &SchedulerOptions::default())
}

/// The instance types that have a value of a label. `None` as for [`types_meeting`].
pub fn types_labelled(key: &str, value: &str, provider: Provider) -> Option<TypeSet> {
    let key = provider.catalogue_key(key);
    Some(catalog::index(&key)?.with(value).copied().unwrap_or(TypeSet::EMPTY))
}

/// One entry of `budgets`. `None` if one of its fields cannot be read.
pub fn budget(node: &Node<'_>) -> Option<Budget> {
    let nodes = node.get("nodes");
    let nodes = if nodes.is_set() { Nodes::parse(&nodes.string_or_number()?)? } else { Nodes::Percent(10) };
    let schedule = node.get("schedule");
    let schedule = if schedule.is_set() { Some(Schedule::parse(schedule.text()?)) } else { None };
    let length = node.get("duration");
    let length = if length.is_set() {
        match duration::parse(DurationField::BudgetDuration, length.text()?) {
            Ok(span) => span.seconds(),
            Err(_) => return None,
        }
    } else {
        None
    };
    let reasons = node.get("reasons");
    let reasons = if reasons.is_set() {
        // Node repair has no say in the other reasons. A budget for it alone is not modelled.
        let repair = |reason: &Node<'_>| reason.text() == Some("Unhealthy");
        let others = reasons.items().filter(|reason| !repair(reason));
        let list =
            others.map(|reason| DisruptionReason::parse(reason.text()?)).collect::<Option<Vec<_>>>()?;
        if list.is_empty() && reasons.items().any(|reason| repair(&reason)) {
            return None;
        }
        Some(list)
    } else {
        None
    };
    Some(Budget { nodes, schedule, duration: length, reasons })
}

/// The accelerator resource that most of the types have: `nvidia.com/gpu`, `aws.amazon.com/neuron` or
/// another. `None` if no type has one.
pub(crate) fn accelerator_resource(types: &TypeSet) -> Option<&'static str> {
    main_accelerator(types).map(Accelerator::resource)
}

/// The accelerator that most of the types have.
fn main_accelerator(types: &TypeSet) -> Option<Accelerator> {
    Accelerator::ALL
        .into_iter()
        .map(|kind| {
            let count = types.and(kind.types()).len();
            (count, kind)
        })
        .filter(|(count, _)| *count > 0)
        // Among equal counts the first one is chosen; `max_by_key` alone would choose the last.
        .rev()
        .max_by_key(|(count, _)| *count)
        .map(|(_, kind)| kind)
}
