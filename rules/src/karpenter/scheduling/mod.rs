//! Whether Karpenter starts a node for a pending pod, from which NodePool and of which instance types.
//!
//! The decision of Karpenter 1.14.1 for one pod on a new node, without a cluster: everything that only the cluster
//! knows (zones, prices, capacity, usage) is taken in the most generous way, so that "does not fit" is certain. The
//! inputs are plain data; reading manifests is not done here, and neither is telling people what to change.

mod decide;
mod input;
mod instance_types;
mod pod_requirements;
mod resources;
#[cfg(test)]
mod tests;
mod verdict;

pub use decide::{Scheduler, decide};
pub use input::{
    AmiFamily, Amounts, BlockDevice, Container, DaemonSet, HostPort, Kubelet, NodeClass, NodeClassRef, Pod,
    Pool, Preference, RequirementSpec, Settings, Taint, Term, Threshold, Toleration,
};
pub use instance_types::{
    Admitted, admitted, admitted_types, admitted_without_class, crashing_keys, invalid, matching,
    pool_requirements, smallest_conflict,
};
pub use pod_requirements::tolerates;
pub use resources::{NodeResources, allocatable, capacity, crashes, need};
pub use verdict::{Cause, Conflict, Doubt, Ignored, Misfit, Step, Verdict};
