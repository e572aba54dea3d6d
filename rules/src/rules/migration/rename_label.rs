//! Renames the label by which a pod or a NodePool selects nodes.

use crate::rules::prelude::*;
use crate::workload::node_labels::LabelReference;

/// Reports at a reference, and extends the fix, if there is one, so that it writes `key` instead. No fix if
/// that key already exists next to it.
pub(super) fn report_rename<'c>(
    mention: &LabelReference<'_>,
    key: &str,
    message: String,
    fix: Option<Fix>,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let finding = ctx.report(&mention.node, message);
    match (&mention.selector, fix) {
        (Some(selector), fix) => {
            finding.at_key();
            let new = selector.get(key);
            if let Some(fix) = fix.filter(|_| new.is_absent()) {
                finding.fix(fix.move_to(&mention.node, &new));
            }
        }
        (None, Some(fix)) => {
            finding.fix(fix.set(&mention.node, json!(key)));
        }
        (None, None) => {}
    }
    finding
}
