//! Constraints that apply to one trigger type each.

use super::super::check::{KeyValue, TriggerCheck};
use super::super::value::boolean;
use crate::facts::text::ellipsize;
use crate::tree::node::Node;

const MANAGEMENT_API: &str = "use the management API: `protocol: http`";

/// RabbitMQ: features that AMQP does not support require the management API.
pub(super) fn rabbit(check: &mut TriggerCheck<'_>) {
    if !uses_amqp(check) {
        return;
    }
    let rejected = |key: &str| format!("`{key}` is rejected with the protocol `amqp`");
    for key in ["useRegex", "excludeUnacknowledged"] {
        if let Some((node, text)) = check.text(key)
            && boolean(text) == Some(true)
        {
            check.report(node, rejected(key), MANAGEMENT_API);
        }
    }
    if let Some((node, mode)) = check.text("mode") {
        if !matches!(mode, "QueueLength" | "Unknown") && check.is_present("value") == Some(true) {
            let message = format!("mode `{}` is rejected with the protocol `amqp`", ellipsize(mode));
            check.report(node, message, MANAGEMENT_API);
        } else if let Some((node, timeout)) = check.text("timeout")
            && !matches!(timeout, "0" | "0s")
        {
            check.report(node, rejected("timeout"), "leave it out, or use `protocol: http`");
        }
    }
    for key in ["workloadIdentityResource", "oauthTokenURI"] {
        if let Some(node) = check.node(key) {
            check.report(node, rejected(key), MANAGEMENT_API);
        }
    }
}

/// Whether the protocol is certainly AMQP. With `auto`, the host decides.
fn uses_amqp(check: &TriggerCheck<'_>) -> bool {
    match check.effective("protocol") {
        Some("amqp") => true,
        Some("auto") => {
            check.text("host").is_some_and(|(_, host)| host.to_ascii_lowercase().starts_with("amqp"))
        }
        _ => false,
    }
}

/// The `query.ROW` keys of a trigger that are present, with their row names.
type Rows<'a> = [(&'a str, Node<'a>)];

/// Sumo Logic: a metrics query may have rows.
pub(super) fn sumo_rows<'a>(check: &mut TriggerCheck<'a>) {
    let metadata = &check.metadata;
    if metadata.has_unknown_key() {
        return;
    }
    let rows: Vec<(&str, Node<'a>)> = metadata
        .entries()
        .into_iter()
        .filter_map(|(key, node)| Some((key.strip_prefix("query.")?, node)))
        .filter(|(_, node)| node.is_set() || node.is_unknown())
        .collect();
    match check.effective("queryType") {
        Some("logs") => {
            if let Some((_, node)) = rows.first() {
                let message = "`query.*` is rejected with `queryType: logs`";
                check.report(node.clone(), message, "write `query`");
            }
        }
        Some("metrics") => sumo_metrics(&rows, check),
        Some(_) | None => {}
    }
    for (name, node) in rows {
        if name.is_empty() || node.text() == Some("") {
            let message = "a row `query.*` needs a name and a query";
            check.report(node, message, "write a query, or remove the row");
        }
    }
}

/// A metrics query is `query`, or rows of which `resultQueryRowID` selects one.
fn sumo_metrics<'a>(rows: &Rows<'a>, check: &mut TriggerCheck<'a>) {
    let query = check.is_present("query");
    let Some((_, first)) = rows.first() else {
        if query == Some(false) {
            let message = check.needs("`query` or `query.ROW`");
            check.report(check.metadata.get("query"), message, "write `query`");
        }
        return;
    };
    if query == Some(true) {
        check.report(first.clone(), "`query.*` excludes `query`", "keep one of the two");
        return;
    }
    match check.value("resultQueryRowID") {
        KeyValue::Absent => {
            let node = check.metadata.get("resultQueryRowID");
            let message = "`query.*` needs `resultQueryRowID` beside it";
            check.report(node, message, "name the row that counts");
        }
        KeyValue::Text(node, row) if !rows.iter().any(|(name, _)| *name == row) => {
            let row = ellipsize(row);
            let message = format!("`resultQueryRowID` is `{row}`, and no row has this name");
            check.report(node, message, format!("write `query.{row}`, or the name of a row"));
        }
        KeyValue::Text(..) | KeyValue::Unknown | KeyValue::Hidden(_) => {}
    }
}
