//! The class of a workload, and the evidence for it, in findings that depend on it.

use crate::lint::finding::Finding;
use crate::object::Object;
use crate::workload::class::{Classified, WORKLOAD_CLASS_KEY, WorkloadClass};

/// Adds the class of a workload and the evidence for it to a finding, at the name of the object that decides it. The
/// author of the manifest can correct the class with a label.
pub(super) fn add_class_evidence(finding: &mut Finding, object: &Object, classified: &Classified) {
    if classified.class == WorkloadClass::Unknown {
        return;
    }
    let declared = classified.is_declared();
    let correction = if declared { String::new() } else { format!("; `{WORKLOAD_CLASS_KEY}` corrects it") };
    let message = format!("class {}: {}{correction}", classified.class.name(), classified.reason);
    let decided_by = classified.declared_by.as_ref().unwrap_or(object);
    finding.related(decided_by, &decided_by.path(&["metadata", "name"]), message);
}
