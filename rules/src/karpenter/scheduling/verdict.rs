//! The result of the scheduler.

use super::super::requirement::{Clash, Requirement};
use crate::catalog::TypeSet;
use crate::karpenter::scheduling::input::{Taint, TopologyKind};

/// Whether Karpenter starts a node for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Some pool admits the pod.
    Fits {
        /// The first pool that admits it, as an index into the given pools.
        pool: usize,
        types: TypeSet,
        /// Why another pool could be first, or what was assumed. Empty if `pool` is certain.
        uncertainties: Vec<Uncertainty>,
    },
    /// No pool admits the pod, even if everything unknown is assumed to allow it.
    DoesNotFit(Box<Unschedulable>),
    /// The result depends on something that is not in the manifests.
    Unknown { uncertainties: Vec<Uncertainty> },
}

/// Why a pod fits on no pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unschedulable {
    /// Set if Karpenter ignores the pod and tries no pool.
    pub ignored: Option<IgnoreReason>,
    /// For each pool, in the order tried, the latest stage that the pod reached.
    pub pools: Vec<(usize, RejectionStage)>,
    /// The pod would fit if nodes had all the memory that EC2 states. Karpenter learns the real size from the
    /// first node of a type, so this rejection applies to the first launch only.
    pub within_memory_estimate: bool,
}

/// Why Karpenter ignores a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A node selector or required term names a key that only Karpenter may set.
    RestrictedKey(String),
    /// The preference that Karpenter tries first leaves out a key that NodeClaims may not name: Karpenter makes
    /// NodeClaims for the pod, and the API server rejects each.
    RefusedPreference(String),
    MatchFields,
    /// A key, value or operator is malformed.
    Malformed(String),
    /// None of the values is one that the key can have.
    NoValidValue(String),
    /// The pod requires a node that does not belong to a NodePool.
    NoNodePool,
    /// A claim, class or volume of the pod does not exist.
    Volumes(String),
    /// The pod has resource claims, and dynamic resource allocation is off.
    ResourceClaims,
}

/// The answer of one pool about a pod, independent of other pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pool can start a node for the pod.
    Admits(Admission),
    /// The pool starts no node. The latest stage that the pod reached.
    Rejects(RejectionStage),
    /// The answer depends on something that is not in the manifests.
    Undecided(Vec<Uncertainty>),
}

/// How a pool admits a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub types: TypeSet,
    /// The capacity types that remain, in the order in which Karpenter prefers them at launch.
    pub capacity_types: Vec<&'static str>,
    /// The number of relaxation steps that the pod needed; 0 if all preferences are met.
    pub relaxations: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectionStage {
    Static,
    /// Karpenter rejects the pool itself.
    Invalid(String),
    /// The pool's own requirements admit no type.
    NoTypes(Option<Conflict>),
    Taint(Taint),
    /// A label that the pool's nodes do not have, or have with another value.
    Label(Box<Clash>),
    /// `limits.nodes` is zero.
    NodesLimit,
    /// The limits exclude every suitable type; contains the keys of the limits that exclude some.
    Limits(Vec<String>),
    /// What the volumes of the pod require of nodes contradicts the pool or the pod.
    Volumes(Box<Clash>),
    /// No node of the pool can satisfy a rule of spread or pod affinity on this key.
    Topology {
        kind: TopologyKind,
        key: String,
    },
    /// The pod's requirements exclude all types of the pool.
    Requirements,
    /// A DaemonSet uses a host port of the pod on every type.
    HostPort,
    /// No type has enough resources: those that are insufficient on every type; empty if only their
    /// combination is.
    Resources(Vec<String>),
    /// Too few distinct values of a key remain.
    MinValues {
        key: String,
        /// `minValues`.
        wanted: u32,
        /// Actual number.
        found: usize,
    },
}

impl RejectionStage {
    /// How far the pod got; used to choose among the relaxations for one pool.
    pub fn depth(&self) -> u8 {
        match self {
            Self::Static | Self::Invalid(_) | Self::NoTypes(_) => 0,
            Self::Taint(_) => 1,
            Self::Label(_) => 2,
            Self::NodesLimit => 3,
            Self::Volumes(_) => 4,
            Self::Topology { .. } => 5,
            Self::Requirements => 6,
            Self::Limits(_) => 7,
            Self::HostPort => 8,
            Self::Resources(_) => 9,
            Self::MinValues { .. } => 10,
        }
    }
}

/// Why a pool admits no type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The key whose requirement excludes the last type.
    pub key: String,
    pub requirement: Requirement,
    pub cause: Cause,
}

/// How the last type of a pool was excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No type meets the requirement on this key alone.
    Alone,
    /// Each requirement is met by some type, but no type meets all of them.
    Together,
    /// Types remain, but none that can be used with the AMI family, the class or its reservations.
    Class,
    /// Types remain, but none that EKS Auto Mode starts.
    AutoMode,
    /// Types remain, but the reserved resources exceed their capacity.
    Negative,
    /// Types remain, but with too few distinct values.
    MinValues {
        /// `minValues`.
        wanted: u32,
        /// Actual number.
        found: usize,
    },
}

/// What a result depends on besides the manifests and the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uncertainty {
    /// Instance types or families that are not in the catalogue.
    NewTypes(Vec<String>),
    /// Only types that EC2 hardly offers any more.
    Retired,
    /// Which capacity reservations the class selects.
    Reservations,
    /// Which placement group the class selects.
    PlacementGroup,
    Region,
    /// Whether the class has a subnet in a zone that only the pod names.
    Subnets(String),
    ZonePair,
    /// The number of zones or regions, for `minValues` on this key.
    MinValuesOf(String),
    /// `minValues` over more than 600 types, of which Karpenter keeps the cheapest.
    MinValuesCut,
    /// A DaemonSet with several node selector terms, some of which Karpenter may ignore.
    DaemonSetTerms(String),
    /// A node class that is not among the given objects.
    NoClass(String),
    /// A NodeClass of EKS Auto Mode that is not among the given objects.
    NoAutoModeClass(String),
    /// How much of a node EKS Auto Mode keeps for itself.
    AutoModeReserve,
    /// Whether nodes of EKS Auto Mode have this label.
    AutoModeLabel(String),
    /// A NodePool of EKS Auto Mode that a cluster need not have.
    BuiltInPool(String),
    /// The pool in which another controller starts a node for the pod as well: EKS Auto Mode beside a Karpenter of one's own, or the
    /// other way round.
    OtherController(String),
    /// Which of its types the nodes of this static pool have.
    StandingTypes(String),
    /// A node class of another provider.
    OtherProvider(String),
    Windows,
    /// The named class computes kubelet settings with expressions, and whether the feature gate for them is on is not known.
    KubeletExpressions(String),
    /// The value of this label is not known for the types that remain.
    LabelValues(String),
    /// The pod contains a placeholder or an unreadable value.
    UnreadablePod,
    /// A NodePool that contains a placeholder or an unreadable value.
    UnreadablePool(String),
    /// A DaemonSet that contains a placeholder or an unreadable value.
    UnreadableDaemonSet(String),
    /// A NodeOverlay, which counts only if its feature gate is on.
    Overlay(String),
    /// The named object makes Karpenter panic.
    Crash(String),
    /// The number of branch interfaces for pods that some of the types have.
    BranchInterfaces,
    /// Preferred pod affinity together with several node affinity terms.
    PreferredPodAffinity,
    /// Zones of the pod's volumes.
    Volumes,
    /// A claim of the pod whose class binds at once, and that is not bound.
    ClaimToBind,
    /// Which flavor Kueue chooses for the pod, with its node labels and tolerations.
    QueueFlavor,
    /// The tolerations that a policy or a webhook adds to the pod.
    PodPolicy,
    /// Other pods that required pod affinity selects.
    PodAffinity,
    /// Spread over a key whose domains are not known.
    TopologySpread,
    /// Which value of this key Karpenter takes for the pod: not every one leaves a type.
    DomainTaken(String),
    /// Pods are spread over this key, whose domains are not known: they fit, on more nodes perhaps.
    SpreadOver(String),
    /// The number of pods that a workload runs.
    Replicas,
    /// The memory of nodes beyond Karpenter's estimate.
    MemoryEstimate,
}

pub(super) fn sorted_unique(mut uncertainties: Vec<Uncertainty>) -> Vec<Uncertainty> {
    uncertainties.sort();
    uncertainties.dedup();
    uncertainties
}
