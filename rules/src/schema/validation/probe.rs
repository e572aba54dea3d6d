//! Probes and lifecycle hooks of a container.

use serde_json::json;

use crate::lint::fix::{Fix, Safety};
use crate::tree::node::Node;

use super::syntax::{HEADER_NAME, PORT_NAME, is_port_name};
use super::{Checker, is_kept, mapping_items, may_hold_more_fields, quote};

pub(super) fn probes<'a>(container: &Node<'a>, report: &mut Checker<'a>) {
    // A container without an image is part of a patch, whose probes get their handlers elsewhere.
    let is_whole = container.get("image").is_set();
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(field);
        if !probe.is_mapping() {
            continue;
        }
        handler(&probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, is_whole, report);
        let successes = probe.get("successThreshold");
        if field == "readinessProbe" {
            let grace = probe.get("terminationGracePeriodSeconds");
            if grace.is_set() {
                report
                    .error(&grace, "`terminationGracePeriodSeconds` is not allowed in a readiness probe")
                    .help("leave `terminationGracePeriodSeconds` out")
                    .fix(Fix::new("remove it", Safety::Safe).remove(&grace));
            }
        } else if let Some(count) = successes.int()
            && count > 1
        {
            report
                .error(&successes, format!("`successThreshold` {count} must be 1 here"))
                .help("only a readiness probe can have another number")
                .fix(Fix::new("write 1", Safety::Safe).set(&successes, json!(1)));
        }
    }
}

pub(super) fn lifecycle<'a>(container: &Node<'a>, grace: Option<i64>, report: &mut Checker<'a>) {
    let is_whole = container.get("image").is_set();
    for field in ["postStart", "preStop"] {
        let hook = container.path(&["lifecycle", field]);
        if hook.is_mapping() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, is_whole, report);
        }
    }
}

fn handler<'a>(
    block: &Node<'a>,
    kinds: &[&str],
    grace: Option<i64>,
    is_whole: bool,
    report: &mut Checker<'a>,
) {
    let mut written = kinds.iter().filter(|k| is_kept(&block.get(k)));
    match (written.next(), written.next()) {
        (Some(a), Some(b)) => {
            report
                .error(&block.get(b), format!("`{a}` and `{b}` exclude each other"))
                .help("keep one of them");
            return;
        }
        (None, _) => {
            if is_whole && !report.partial && !may_hold_more_fields(block) {
                report
                    .error(block, "it does nothing: no handler is written")
                    .help(format!("write one of {}", super::join_or(kinds)));
            }
            return;
        }
        _ => {}
    }
    let exec = block.get("exec");
    if exec.is_mapping() {
        let command = exec.get("command");
        if !command.is_unknown() && command.items().next().is_none() {
            if command.is_set() {
                report.error(&command, "`command` may not be empty");
            } else {
                report.required(&exec, "command");
            }
        }
    }
    for kind in ["httpGet", "tcpSocket"] {
        let action = block.get(kind);
        if action.is_mapping() {
            port(&action.get("port"), report);
        }
    }
    for header in mapping_items(&block.path(&["httpGet", "httpHeaders"])) {
        report.check_syntax(&header.get("name"), &HEADER_NAME);
    }
    let seconds = block.path(&["sleep", "seconds"]);
    if let (Some(sleep), Some(grace)) = (seconds.int(), grace) {
        if sleep < 0 {
            report.error(&seconds, format!("`seconds` {sleep} is below 0"));
        } else if sleep > grace {
            report
                .error(&seconds, format!("sleeping {sleep} s is longer than the grace period of {grace} s"))
                .help("raise `terminationGracePeriodSeconds`, which the sleep is part of");
        }
    }
}

pub(super) fn port<'a>(node: &Node<'a>, report: &mut Checker<'a>) {
    if let Some(number) = node.int() {
        if !(1..=65535).contains(&number) {
            report.error(node, format!("{number} is not a port")).help("write a number from 1 to 65535");
        }
        return;
    }
    let Some(text) = node.text() else { return };
    if is_port_name(text) {
        return;
    }
    match text.parse::<u16>() {
        Ok(number) if number > 0 => {
            report
                .error(node, format!("{} in quotes is a name, and no port's name", quote(text)))
                .help(format!("write {number} without quotes"))
                .fix(Fix::new("remove the quotes", Safety::Safe).set(node, json!(number)));
        }
        _ => {
            report.error(node, format!("{} is not a port name", quote(text))).help(PORT_NAME.help);
        }
    }
}
