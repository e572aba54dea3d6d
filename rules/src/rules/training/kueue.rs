//! Queues of Kueue, and how workloads name them.

use crate::rules::prelude::*;

pub(super) use crate::cluster::queues::{QUEUE_LABEL, queue_name};

/// Says which of the objects to name at `node`, with a fix if `name` is close to one of them.
pub(super) fn propose(finding: &mut Finding, node: &Node<'_>, name: &str, objects: &[&Object]) {
    if let Some(meant) = nearest(name, objects.iter().map(|queue| queue.name())) {
        finding.help(format!("write `{meant}`"));
        finding.fix(Fix::unsafe_(format!("write `{meant}`")).set(node, json!(meant)));
    } else if let [only] = objects {
        finding.help(format!("create it, or write `{}`", only.display_name()));
    } else {
        finding.help(format!("create it, or name one of the {} that there are", objects.len()));
    }
}
