//! Typed questions over a NodePool: what it requires, admits, limits, taints, and what it is for.

use std::borrow::Cow;

use crate::catalog::TypeSet;
use crate::facts::cron::Schedule;
use crate::facts::duration;
use crate::facts::duration::{DurationField, NillableDuration};
use crate::facts::quantity::Quantity;
use crate::karpenter::budget::{Budget, DisruptionReason, Nodes};
use crate::karpenter::requirement::{Operator, Requirement, Requirements};
use crate::karpenter::scheduling;
use crate::karpenter::scheduling::{NodeClassRef, Pool, RequirementSpec, Taint};
use crate::kind::Kind;
use crate::object::{Memo, MemoSlot, Object};
use crate::tree::node::Node;
use crate::workload::class::{WorkloadClass, purpose};
use crate::workload::gpu::KARPENTER_ACCELERATORS;

/// The label of the capacity type.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// A NodePool of `karpenter.sh/v1`.
#[derive(Clone, Debug)]
pub struct NodePool<'a> {
    object: &'a Object,
}

/// What the instance types of a pool are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// Every type is accelerated.
    Accelerated,
    /// Some are.
    Mixed,
    /// None is.
    NoAccelerator,
    /// No type at all, or something unknown decides.
    Unknown,
}

impl<'a> NodePool<'a> {
    /// The view of an object; `None` where it is no `karpenter.sh/v1` NodePool.
    #[must_use]
    pub fn new(object: &'a Object) -> Option<NodePool<'a>> {
        (object.is(Kind::NODE_POOL) && object.id().version == "v1").then_some(NodePool { object })
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> &'a Object {
        self.object
    }

    /// `spec.template.spec`.
    #[must_use]
    pub fn template_spec(&self) -> Node<'a> {
        self.object.path(&["spec", "template", "spec"])
    }

    /// `spec.template.spec.requirements`.
    #[must_use]
    pub fn requirements(&self) -> Node<'a> {
        self.template_spec().get("requirements")
    }

    /// `spec.template.metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> Node<'a> {
        self.object.path(&["spec", "template", "metadata", "labels"])
    }

    /// `spec.disruption`.
    #[must_use]
    pub fn disruption(&self) -> Node<'a> {
        self.object.path(&["spec", "disruption"])
    }

    /// `spec.limits`.
    #[must_use]
    pub fn limits(&self) -> Node<'a> {
        self.object.path(&["spec", "limits"])
    }

    /// Whether `spec.replicas` makes it a static pool.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.object.path(&["spec", "replicas"]).is_set()
    }

    /// Whether the pool's class is EKS Auto Mode's.
    #[must_use]
    pub fn is_auto_mode(&self) -> bool {
        self.template_spec().path(&["nodeClassRef", "group"]).text() == Some("eks.amazonaws.com")
    }

    /// Whether the pool's class belongs to another provider than AWS: its labels are not ours.
    #[must_use]
    pub fn is_other_provider(&self) -> bool {
        match self.template_spec().path(&["nodeClassRef", "group"]).text() {
            Some(group) => {
                let group = group.split('/').next().unwrap_or(group);
                group != "karpenter.k8s.aws" && group != "eks.amazonaws.com"
            }
            None => false,
        }
    }

    /// Whether a requirement or a label that decides about types holds a placeholder.
    #[must_use]
    pub fn has_unknown_types(&self) -> bool {
        self.requirements().has_unknown() || self.labels().has_unknown()
    }

    /// The pool as the scheduler reads it; what cannot be read is left out.
    #[must_use]
    pub fn to_pool(&self) -> Pool {
        let spec = self.template_spec();
        let reference = spec.get("nodeClassRef");
        let text = |n: Node<'_>| n.text().unwrap_or_default().to_owned();
        let taints = |name: &str| {
            spec.get(name)
                .items()
                .map(|t| Taint {
                    key: text(t.get("key")),
                    value: text(t.get("value")),
                    effect: text(t.get("effect")),
                })
                .collect()
        };
        Pool {
            name: self.object.name().to_owned(),
            weight: self.object.path(&["spec", "weight"]).int(),
            replicas: self.is_static(),
            requirements: requirement_specs(&self.requirements()),
            labels: self
                .labels()
                .entries()
                .into_iter()
                .filter_map(|(k, v)| Some((k.to_owned(), v.text()?.to_owned())))
                .collect(),
            taints: taints("taints"),
            startup_taints: taints("startupTaints"),
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
                group: text(reference.get("group")),
                kind: text(reference.get("kind")),
                name: text(reference.get("name")),
            },
            class: None,
        }
    }

    /// Requirements and template labels together, in Karpenter's algebra.
    #[must_use]
    pub fn requirement_set(&self) -> Requirements {
        scheduling::pool_requirements(&self.to_pool())
    }

    /// The instance types that the pool's own requirements admit; `None` where a placeholder or a
    /// foreign provider decides. EKS Auto Mode's labels are read as Karpenter's of the same name.
    #[must_use]
    pub fn types(&self) -> Option<TypeSet> {
        static TYPES: Memo<Option<TypeSet>> = Memo::new(MemoSlot::InstanceTypes);
        *self.object.memo(&TYPES, || {
            if self.is_other_provider() || self.has_unknown_types() || self.object.is_partial() {
                return None;
            }
            let admitted = scheduling::admitted_without_class(&self.normalized_requirements());
            admitted.uncertainties.is_empty().then_some(admitted.types)
        })
    }

    /// The pool as the catalogue can judge it without the class: EKS Auto Mode's labels read as
    /// Karpenter's, and a wish for reserved capacity, which says nothing about types, left out.
    #[must_use]
    pub fn normalized_pool(&self) -> Pool {
        let mut pool = self.to_pool();
        if self.is_auto_mode() {
            for requirement in &mut pool.requirements {
                if let Some(rest) = requirement.key.strip_prefix("eks.amazonaws.com/instance-") {
                    requirement.key = format!("karpenter.k8s.aws/instance-{rest}");
                }
            }
            pool.node_class = NodeClassRef {
                group: "karpenter.k8s.aws".to_owned(),
                kind: "EC2NodeClass".to_owned(),
                name: pool.node_class.name,
            };
        }
        if scheduling::pool_requirements(&pool).get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved")) {
            pool.requirements.retain(|r| r.key != CAPACITY_TYPE);
            pool.labels.retain(|(key, _)| key != CAPACITY_TYPE);
        }
        pool
    }

    /// Each value that an `In` or a label of [`NodePool::catalogue_pool`] names, with its key; without
    /// those of the capacity type.
    pub(crate) fn named_values(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        let auto_mode = self.is_auto_mode();
        let requirements = self.requirements().items().filter_map(move |node| {
            let operator = node.get("operator").text()?.parse::<Operator>().ok()?;
            let key = node.get("key").text()?;
            let key = match key.strip_prefix("eks.amazonaws.com/instance-") {
                Some(rest) if auto_mode => format!("karpenter.k8s.aws/instance-{rest}").into(),
                _ => Cow::Borrowed(key),
            };
            (operator == Operator::In).then(|| (key, node.get("values")))
        });
        let values = requirements.flat_map(|(key, values)| {
            let values = values.items().filter_map(|value| value.string_or_number());
            values.map(move |value| (key.clone(), value))
        });
        let labels = self.labels().entries().into_iter();
        let labels = labels.filter_map(|(key, value)| Some((key.into(), value.text()?.into())));
        values.chain(labels).filter(|(key, _)| key != CAPACITY_TYPE)
    }

    /// The requirements of [`NodePool::catalogue_pool`] alone: what decides about types, without
    /// the labels that Karpenter adds.
    fn normalized_requirements(&self) -> Requirements {
        let auto_mode = self.is_auto_mode();
        let mut all = Requirements::new();
        for node in self.requirements().items() {
            let Some(spec) = requirement_spec(&node) else {
                continue;
            };
            let requirement = Requirement::new(spec.op, &spec.values, spec.min_values);
            match spec.key.strip_prefix("eks.amazonaws.com/instance-") {
                Some(rest) if auto_mode => {
                    all.add(&format!("karpenter.k8s.aws/instance-{rest}"), requirement);
                }
                _ => all.add(&spec.key, requirement),
            }
        }
        for (key, value) in self.labels().entries() {
            if let Some(value) = value.text() {
                all.add(key, Requirement::is(value));
            }
        }
        if all.get(CAPACITY_TYPE).is_some_and(|r| r.has("reserved")) {
            all.remove(CAPACITY_TYPE);
        }
        all
    }

    /// What the admitted types are.
    #[must_use]
    pub fn hardware(&self) -> Hardware {
        match self.types() {
            Some(types) => hardware(&types),
            None => Hardware::Unknown,
        }
    }

    /// Whether all its nodes have accelerators, or a taint says that they are meant to.
    #[must_use]
    pub fn is_gpu_intended(&self) -> bool {
        self.hardware() == Hardware::Accelerated || self.has_accelerator_taint()
    }

    /// Whether a taint names an accelerator resource.
    #[must_use]
    pub fn has_accelerator_taint(&self) -> bool {
        self.template_spec()
            .get("taints")
            .items()
            .filter_map(|t| t.get("key").text())
            .any(|k| KARPENTER_ACCELERATORS.contains(&k))
    }

    /// What the pool is for by its name, template labels and taints; `None` where they say
    /// nothing, or two things.
    #[must_use]
    pub fn purpose(&self) -> Option<WorkloadClass> {
        static PURPOSE: Memo<Option<WorkloadClass>> = Memo::new(MemoSlot::Purpose);
        *self.object.memo(&PURPOSE, || self.declared_purpose())
    }

    fn declared_purpose(&self) -> Option<WorkloadClass> {
        let mut found: Option<WorkloadClass> = None;
        let mut signs: Vec<&str> = vec![self.object.name()];
        let labels = self.labels().entries();
        signs.extend(labels.iter().filter_map(|(_, v)| v.text()));
        signs.extend(labels.iter().map(|(k, _)| *k));
        let taints = self.template_spec().get("taints");
        for taint in taints.items() {
            signs.extend(taint.get("key").text());
            signs.extend(taint.get("value").text());
        }
        for sign in signs {
            if let Some(class) = purpose(sign) {
                match found {
                    None => found = Some(class),
                    Some(other) if other != class => return None,
                    Some(_) => {}
                }
            }
        }
        found
    }

    /// The capacity types that the pool allows, as far as it says: `None` where it says nothing.
    #[must_use]
    pub fn capacity_types(&self) -> Option<Vec<&'static str>> {
        const ALL: [&str; 3] = ["reserved", "spot", "on-demand"];
        static ALLOWED: Memo<Option<[bool; 3]>> = Memo::new(MemoSlot::CapacityTypes);
        let allowed = (*self.object.memo(&ALLOWED, || {
            // Only this key: several rules ask, and the whole algebra is much more work. What all
            // requirements together allow, each allows.
            let requirements = self.requirements().items().filter_map(|node| {
                let ours = node.get("key").text() == Some(CAPACITY_TYPE);
                let spec = ours.then(|| requirement_spec(&node))??;
                Some(Requirement::new(spec.op, &spec.values, spec.min_values))
            });
            let label = self.labels().get(CAPACITY_TYPE).text().map(Requirement::is);
            requirements.chain(label).fold(None, |allowed, one| {
                let before: [bool; 3] = allowed.unwrap_or([true; 3]);
                Some(std::array::from_fn(|at| before[at] && one.has(ALL[at])))
            })
        }))?;
        let named = ALL.into_iter().zip(allowed);
        Some(named.filter_map(|(name, yes)| yes.then_some(name)).collect())
    }

    /// Whether some node of the pool may be Spot: Karpenter prefers it where nothing is said.
    #[must_use]
    pub fn allows_spot(&self) -> bool {
        self.capacity_types().is_none_or(|c| c.contains(&"spot"))
    }

    /// The node of the requirement on a key, normalised.
    #[must_use]
    pub fn requirement(&self, key: &str) -> Option<Node<'a>> {
        self.requirements()
            .items()
            .find(|r| r.get("key").text().is_some_and(|k| crate::karpenter::requirement::normalise(k) == key))
    }

    /// `consolidationPolicy`, with its default.
    #[must_use]
    pub fn consolidation_policy(&self) -> Option<&'a str> {
        let node = self.disruption().get("consolidationPolicy");
        if node.is_set() { node.text() } else { Some("WhenEmptyOrUnderutilized") }
    }

    /// `expireAfter`, with its default of 720h; `None` where it cannot be read.
    #[must_use]
    pub fn expire_after(&self) -> Option<NillableDuration> {
        let node = self.template_spec().get("expireAfter");
        if !node.is_set() {
            return Some(NillableDuration::Seconds(720 * 3600));
        }
        duration::parse(DurationField::ExpireAfter, node.text()?).ok()
    }

    /// The budgets that are written, with their list; `None` where none can be read, or where
    /// nothing heeds them.
    pub(crate) fn written_budgets(&self) -> Option<(Node<'a>, Vec<Budget>)> {
        let list = self.disruption().get("budgets");
        let heeded = list.is_sequence() && !self.is_static();
        Some((list, self.budgets().filter(|_| heeded)?))
    }

    /// The written budgets, or the default list; `None` where one cannot be read.
    #[must_use]
    pub fn budgets(&self) -> Option<Vec<Budget>> {
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

/// What a set of instance types is.
#[must_use]
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

fn requirement_specs(list: &Node<'_>) -> Vec<RequirementSpec> {
    list.items().filter_map(|r| requirement_spec(&r)).collect()
}

/// One requirement; `None` where key or operator cannot be read.
fn requirement_spec(node: &Node<'_>) -> Option<RequirementSpec> {
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

/// One entry of `budgets`; `None` where something in it cannot be read.
fn budget(node: &Node<'_>) -> Option<Budget> {
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
        let list: Option<Vec<DisruptionReason>> =
            reasons.items().map(|r| DisruptionReason::parse(r.text()?)).collect();
        Some(list?)
    } else {
        None
    };
    Some(Budget { nodes, schedule, duration: length, reasons })
}

/// The accelerator resource that most of the types have: `nvidia.com/gpu`, `aws.amazon.com/neuron`
/// or another; `None` where no type has one.
#[must_use]
pub fn accelerator_resource(types: &TypeSet) -> Option<&'static str> {
    ["nvidia.com/gpu", "aws.amazon.com/neuron", "amd.com/gpu", "habana.ai/gaudi"]
        .into_iter()
        .map(|resource| {
            let count = types.iter().filter(|t| t.devices(resource) > 0).count();
            (count, resource)
        })
        .filter(|(count, _)| *count > 0)
        // The first of equals: `max_by_key` would take the last.
        .rev()
        .max_by_key(|(count, _)| *count)
        .map(|(_, resource)| resource)
}
