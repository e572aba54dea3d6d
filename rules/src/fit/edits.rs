//! What changes do to a pod and a pool while they are tried.

use std::rc::Rc;

use crate::karpenter::requirement::{Operator, Requirement, normalise};
use crate::karpenter::scheduling::{Pod, Pool, Term};

/// What a change does to the pod and the pool.
pub(super) type Edit = Rc<dyn Fn(&mut Pod, &mut Pool)>;

pub(super) fn edit(change: impl Fn(&mut Pod, &mut Pool) + 'static) -> Edit {
    Rc::new(change)
}

/// Removes all requirements of the pod on a label. A term of which nothing is left goes as well: one without expressions matches no
/// node (Kubernetes 1.34, `isEmptyNodeSelectorTerm` in `component-helpers/scheduling/corev1/nodeaffinity`).
pub(super) fn drop_key(pod: &mut Pod, key: &str) {
    pod.node_selector.retain(|(name, _)| normalise(name) != key);
    let is_kept = |term: &mut Term| {
        let had_any = !term.expressions.is_empty();
        term.expressions.retain(|expression| normalise(&expression.key) != key);
        !had_any || !term.expressions.is_empty()
    };
    pod.terms.retain_mut(is_kept);
    pod.preferences.retain_mut(|preference| is_kept(&mut preference.term));
}

/// Adds values to what a pool allows for a label.
pub(super) fn allow(pool: &mut Pool, key: &str, values: &[String]) {
    for spec in pool.requirements.iter_mut().filter(|spec| normalise(&spec.key) == key) {
        match spec.op {
            Operator::In => spec.values.extend(values.iter().cloned()),
            Operator::NotIn => spec.values.retain(|value| !values.contains(value)),
            _ => {
                let is_allowed = |value: &String| Requirement::new(spec.op, &spec.values, None).has(value);
                if !values.iter().any(is_allowed) {
                    (spec.op, spec.values) = (Operator::In, values.to_vec());
                }
            }
        }
    }
    for (_, label) in pool.labels.iter_mut().filter(|(name, _)| normalise(name) == key) {
        if let Some(value) = values.first() {
            label.clone_from(value);
        }
    }
}

/// Removes the requests of a pod, or those of one resource.
pub(super) fn clear(pod: &mut Pod, name: Option<&String>) {
    let containers = pod.containers.iter_mut().chain(&mut pod.init_containers);
    let lists = containers.flat_map(|c| [&mut c.requests, &mut c.limits]);
    for list in lists.chain([&mut pod.requests, &mut pod.limits, &mut pod.overhead]) {
        list.retain(|key, _| name.is_some_and(|name| key != name));
    }
}
