//! The class of a workload in a finding that depends on it.

use crate::lint::finding::Finding;
use crate::object::Object;
use crate::workload::class::{Classified, WORKLOAD_CLASS_KEY, WorkloadClass};

/// Says of which class the workload is and why, at the place of its name. Whoever disagrees sets the label.
pub(super) fn tell_class(finding: &mut Finding, object: &Object, classified: &Classified) {
    if classified.class == WorkloadClass::Unknown {
        return;
    }
    let declared = classified.is_declared();
    let correct = if declared { String::new() } else { format!("; `{WORKLOAD_CLASS_KEY}` corrects it") };
    let message = format!("class {}: {}{correct}", classified.class.name(), classified.reason);
    let place = classified.declared_by.as_ref().unwrap_or(object);
    finding.related(place, &place.path(&["metadata", "name"]), message);
}
