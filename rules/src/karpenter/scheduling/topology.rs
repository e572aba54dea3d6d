//! What volumes, spread and pod affinity require of the first node for a pod.

use std::collections::{BTreeMap, BTreeSet};

use super::super::requirement::{Operator, Requirement, Requirements, is_well_known};
use super::candidate::NotAdmitted;
use super::verdict::{RejectionStage, Uncertainty};
use crate::catalog::{HOSTNAME, index};
use crate::karpenter::scheduling::input::{Pod, RequirementSpec, Selected, TopologyKind};
use crate::karpenter::scheduling::pod_requirements::Relaxation;
use crate::steps;

/// The values that all pools list for labels, by key.
pub(super) type Domains = BTreeMap<String, BTreeSet<String>>;

/// The requirements of a node with those of one alternative of the pod's volumes.
pub(super) fn with_volumes(
    mut both: Requirements,
    volumes: &[RequirementSpec],
) -> Result<Requirements, NotAdmitted> {
    let mut required = Requirements::new();
    for spec in volumes {
        required.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    both.compatible(&required).map_err(|clash| NotAdmitted::Rejected(RejectionStage::Volumes(clash)))?;
    both.add_all(&required);
    Ok(both)
}

/// Narrows the requirements of a node to the domains in which its rules of spread and pod affinity allow the first pod
/// (`Topology.AddRequirements` without other pods), and says what is not known of them.
pub(super) fn narrow_to_domains(
    both: &mut Requirements,
    pod: &Pod,
    state: &Relaxation,
    domains: &Domains,
) -> Result<Vec<Uncertainty>, NotAdmitted> {
    let mut uncertainties = Vec::new();
    for (_, rule) in state.rules(pod) {
        steps::take(20);
        let unsatisfied = || {
            let stage = RejectionStage::Topology { kind: rule.kind, key: rule.key.clone() };
            Err(NotAdmitted::Rejected(stage))
        };
        match (rule.kind, rule.selects) {
            (TopologyKind::Affinity, Selected::Nothing) => return unsatisfied(),
            (TopologyKind::Affinity, Selected::Others) => {
                uncertainties.extend(rule.required.then_some(Uncertainty::PodAffinity));
                continue;
            }
            // Each new node is a domain of its own.
            _ if rule.key == HOSTNAME => continue,
            _ => {}
        }
        let is_well_known = is_well_known(&rule.key);
        let domain = match domains.get(rule.key.as_str()) {
            _ if is_well_known => Requirement::new::<&str>(Operator::Exists, &[], None),
            Some(values) => Requirement::new(Operator::In, &Vec::from_iter(values), None),
            None => return unsatisfied(),
        };
        let known = both.get(&rule.key);
        if !is_well_known && known.is_none() || known.is_some_and(|known| !known.overlaps(&domain)) {
            return unsatisfied();
        }
        if !is_well_known || index(&rule.key).is_some() {
            both.add(&rule.key, domain);
        }
    }
    Ok(uncertainties)
}
