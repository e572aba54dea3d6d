//! Whether Karpenter starts a node for a pending pod, from which NodePool and of which instance types.
//!
//! This is the decision of Karpenter 1.15 for one pod on a new node, without a cluster. What can only be
//! known in the cluster (zones, prices, capacity, usage) is assumed to allow the pod, so that "does not fit"
//! is certain. The inputs are plain data; reading manifests and writing messages is done elsewhere.

mod candidate;
mod input;
mod instance_types;
mod overlay;
mod packing;
mod pod_requirements;
mod resources;
mod room;
mod scheduler;
#[cfg(test)]
mod tests;
mod topology;
mod unknown;
mod verdict;

pub(crate) use candidate::PREFER_NO_SCHEDULE;
pub use candidate::PreparedPool;
pub use input::{
    AmiFamily, BlockDevice, ComputedKubelet, Container, DaemonSet, EvictionThreshold, HostPort, Kubelet,
    NetworkInterface, NodeClass, NodeClassRef, Overlay, Pod, Pool, Preference, PriceChange, RequirementSpec,
    Reservation, Reservations, ResourceList, SchedulerOptions, Selected, Taint, Term, Toleration,
    TopologyKind, TopologyRule, Zone,
};
pub use instance_types::{Admitted, admitted, matching};
pub(crate) use instance_types::{
    admitted_types, admitted_without_class, auto_mode_types, pool_requirements, smallest_conflict,
};
pub use packing::{AskedPools, DomainRule, FullPool, HostRule, NodeGroup, Packing, PodGroup, UnplacedPods};
pub use pod_requirements::{effective_tolerations, tolerates};
pub use resources::{NodeResources, capacity, crashes, pod_requests};
pub(crate) use resources::{POD_ENI, allocatable, pod_volume, resize_pod_volume};
pub(crate) use room::types_with_room;
pub use scheduler::{Scheduler, SuitedTypes};
pub(crate) use topology::domains_of_pool;
pub use verdict::{
    Admission, Cause, Conflict, IgnoreReason, Outcome, RejectionStage, Uncertainty, Unschedulable, Verdict,
};
