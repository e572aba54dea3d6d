//! What the scheduler answers.

use super::super::requirement::{Clash, Requirement};
use crate::catalog::TypeSet;
use crate::karpenter::scheduling::input::Taint;

/// Whether Karpenter starts a node for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Some pool admits the pod.
    Fits {
        /// The first pool that does, as a position in the pools given.
        pool: usize,
        /// The types that remain for the pod.
        types: TypeSet,
        /// Why another pool could come first, or what was assumed. Empty: `pool` is certain.
        uncertainties: Vec<Uncertainty>,
    },
    /// No pool admits the pod under the most generous assumptions.
    DoesNotFit(Box<Unschedulable>),
    /// It depends on something that is not in the manifests.
    Unknown {
        /// On what.
        uncertainties: Vec<Uncertainty>,
    },
}

/// Why a pod fits nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unschedulable {
    /// Set if Karpenter does not even ask a pool.
    pub ignored: Option<IgnoreReason>,
    /// For each pool, in the order asked, the step that the pod got to at best.
    pub pools: Vec<(usize, RejectionStage)>,
    /// The pod would fit if nodes had all the memory that EC2 states; Karpenter learns the real size from the first
    /// node of a type, so this misfit holds for the first launch only.
    pub within_memory_estimate: bool,
}

/// Why Karpenter does not look at a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A node selector or required term names a key that only Karpenter may set.
    RestrictedKey(String),
    /// A required term uses `matchFields`.
    MatchFields,
    /// A key, value or operator is malformed.
    Malformed(String),
    /// Only values that the key cannot have.
    NoValidValue(String),
    /// The pod wants a node without NodePool.
    NoNodePool,
    /// The pod has resource claims, and dynamic resource allocation is off.
    ResourceClaims,
}

/// The first step at which a pool turns a pod down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectionStage {
    /// A static pool.
    Static,
    /// Karpenter refuses the pool itself.
    Invalid(String),
    /// The pool's own requirements leave no type.
    NoTypes(Option<Conflict>),
    /// A taint that the pod does not tolerate.
    Taint(Taint),
    /// A label that the pool's nodes do not have, or not with this value.
    Label(Box<Clash>),
    /// `limits.nodes` is zero.
    NodesLimit,
    /// The limits exclude every type that would do; the keys that exclude some.
    Limits(Vec<String>),
    /// The pod's requirements leave none of the pool's types.
    Requirements,
    /// A DaemonSet takes a host port of the pod on every type.
    HostPort,
    /// No type has room: the resources that every type lacks; empty if only their combination is lacking.
    Resources(Vec<String>),
    /// Too few distinct values of a key remain.
    MinValues {
        /// The key.
        key: String,
        /// `minValues`.
        wanted: u32,
        /// How many there are.
        found: usize,
    },
}

impl RejectionStage {
    /// How far the pod got; for choosing among the states of one pool.
    pub(super) fn depth(&self) -> u8 {
        match self {
            Self::Static | Self::Invalid(_) | Self::NoTypes(_) => 0,
            Self::Taint(_) => 1,
            Self::Label(_) => 2,
            Self::NodesLimit => 3,
            Self::Requirements => 4,
            Self::Limits(_) => 5,
            Self::HostPort => 6,
            Self::Resources(_) => 7,
            Self::MinValues { .. } => 8,
        }
    }
}

/// What empties a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The key at which the last type went.
    pub key: String,
    /// What the pool asks of the key.
    pub requirement: Requirement,
    /// How.
    pub cause: Cause,
}

/// How a pool lost its last type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No type meets the requirement on this key alone.
    Alone,
    /// Each requirement is met by some type, all of them by none.
    Together,
    /// Types remain, but none that the AMI family, the class or its reservations can use.
    Class,
    /// Types remain, but what is reserved on them exceeds what they have.
    Negative,
    /// Types remain, but with too few distinct values.
    MinValues {
        /// `minValues`.
        wanted: u32,
        /// How many there are.
        found: usize,
    },
}

/// What a verdict depends on, beyond the manifests and the catalogue.
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
    /// The region of the cluster.
    Region,
    /// Whether a zone and a zone id belong together.
    ZonePair,
    /// How many zones or regions there are, for `minValues` on this key.
    MinValuesOf(String),
    /// `minValues` over more than 600 types, of which Karpenter keeps the cheapest.
    MinValuesCut,
    /// A DaemonSet with several node selector terms, of which Karpenter may forget some.
    DaemonSetTerms(String),
    /// A node class that was not given.
    NoClass(String),
    /// A node class of another provider.
    OtherProvider(String),
    /// Windows nodes.
    Windows,
    /// A node class that narrows types by network cards or processor features.
    ClassNarrows(String),
    /// The named object makes Karpenter panic.
    Crash(String),
    /// How many branch interfaces for pods some of the types have.
    BranchInterfaces,
    /// Preferred pod affinity beside several node affinity terms.
    PreferredPodAffinity,
    /// Zones of the pod's volumes.
    Volumes,
    /// Other pods that required pod affinity looks for.
    PodAffinity,
    /// Spread over a key whose domains are not known.
    TopologySpread,
}
