//! The class of a workload, and the evidence for it, in findings that depend on it.

use crate::kind::{Kind, SCALABLE_KINDS, WORKLOAD_KINDS, kinds};
use crate::lint::finding::Finding;
use crate::object::Object;
use crate::workload::class::{Classified, Evidence, WORKLOAD_CLASS_KEY, WorkloadClass};

/// What the classes of workloads depend on.
pub(super) const CLASSED_WORKLOADS: &[Kind] = kinds![[Kind::NAMESPACE], WORKLOAD_KINDS];

/// What the classes of the targets of autoscalers depend on.
pub(super) const CLASSED_TARGETS: &[Kind] = kinds![SCALABLE_KINDS, [Kind::NAMESPACE]];

/// Adds the class of a workload and the evidence for it to a finding, at the name of the object that decides it. The
/// author of the manifest can correct the class with a label.
pub(super) fn add_class_evidence(finding: &mut Finding, object: &Object, classified: &Classified) {
    if classified.class == WorkloadClass::Unknown {
        return;
    }
    let declared = classified.is_declared();
    let correction = if declared { String::new() } else { format!("; `{WORKLOAD_CLASS_KEY}` corrects it") };
    let message = format!("class {}: {}{correction}", classified.class.name(), classified.evidence);
    let decided_by = match &classified.evidence {
        Evidence::DeclaredByNamespace(namespace) => namespace,
        _ => object,
    };
    finding.related(decided_by, &decided_by.path(&["metadata", "name"]), message);
}
