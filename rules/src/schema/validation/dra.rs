//! ResourceClaim, ResourceClaimTemplate and DeviceClass of dynamic resource allocation.
//!
//! The layout of requests is in `dra_request`; the rule dra-device-class-name checks class names. CEL
//! expressions are not compiled.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::dra::{devices, flat_fields};

use super::syntax::{DNS_LABEL, DRIVER_NAME, LABEL_VALUE, QUALIFIED_NAME, is_c_identifier};
use super::{Checker, mapping_items, may_hold_more_fields, quote, text_of, volume};

/// Maximum length of a CEL expression, in bytes.
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;

pub(super) fn claim<'a>(object: &'a Object, report: &mut Checker<'a>) {
    if object.is(Kind::DEVICE_CLASS) {
        let spec = object.get("spec");
        selectors(&spec, report);
        report.at_most(&spec.get("config"), 32);
        for config in mapping_items(&spec.get("config")) {
            opaque(&config, report);
        }
        return;
    }
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        volume::own_metadata(&object.path(&["spec", "metadata"]), report);
    }
    let devices = devices(object);
    let list = devices.get("requests");
    report.at_most(&list, 32);
    // Names of the requests, each with the names of its alternatives.
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut known = !report.partial && !list.is_unknown() && !may_hold_more_fields(&devices);
    let mut named = Vec::new();
    for request in list.items() {
        known &= !may_hold_more_fields(&request) && !request.get("name").is_unknown();
        if !request.is_mapping() && !request.is_null() {
            known = false;
            continue;
        }
        if let Some(name) = report.required_name(&request, "name", &DNS_LABEL) {
            named.push((request.get("name"), name.to_owned()));
        }
        let parts = names.entry(request.get("name").text().unwrap_or_default()).or_default();
        let alternatives = request.get("firstAvailable");
        known &= !alternatives.has_unknown();
        report.at_most(&alternatives, 8);
        let mut inner = Vec::new();
        for alternative in mapping_items(&alternatives) {
            if let Some(name) = report.required_name(&alternative, "name", &DNS_LABEL) {
                inner.push((alternative.get("name"), name.to_owned()));
                parts.insert(name);
            }
            one(&alternative, report);
        }
        report.unique(inner.into_iter(), "the name");
        let exactly = request.get("exactly");
        if exactly.is_mapping() {
            one(&exactly, report);
        }
        if flat_fields(&request).next().is_some() {
            one(&request, report);
        }
    }
    report.unique(named.into_iter(), "the name");
    let names = known.then_some(&names);
    report.at_most(&devices.get("constraints"), 32);
    for constraint in mapping_items(&devices.get("constraints")) {
        references(&constraint, names, report);
        attribute(&constraint, report);
    }
    report.at_most(&devices.get("config"), 32);
    for config in mapping_items(&devices.get("config")) {
        references(&config, names, report);
        opaque(&config, report);
    }
}

fn one<'a>(block: &Node<'a>, report: &mut Checker<'a>) {
    report.required_text(block, "deviceClassName");
    selectors(block, report);
    for toleration in mapping_items(&block.get("tolerations")) {
        let operator = toleration.get("operator");
        report.check_syntax_unless_empty(&toleration.get("key"), &QUALIFIED_NAME);
        let value = toleration.get("value");
        match operator.text() {
            Some("Exists") => {
                if value.text().is_some_and(|v| !v.is_empty()) {
                    report.error(&value, "`value` is not allowed with `operator: Exists`");
                }
            }
            _ => report.check_syntax(&value, &LABEL_VALUE),
        }
        report.choice(&operator, &["Equal", "Exists"]);
        report.choice(&toleration.get("effect"), &["NoSchedule", "NoExecute"]);
    }
}

fn selectors<'a>(block: &Node<'a>, report: &mut Checker<'a>) {
    let list = block.get("selectors");
    report.at_most(&list, 32);
    for selector in mapping_items(&list) {
        let cel = selector.get("cel");
        if !cel.is_set() {
            report.required(&selector, "cel").help("write the condition as `cel.expression`");
            continue;
        }
        let expression = cel.get("expression");
        let Some(text) = report.required_text(&cel, "expression") else { continue };
        if text.len() > MAX_EXPRESSION_BYTES {
            report
                .error(&expression, "the expression is longer than 10 KiB")
                .help("write a shorter condition");
        }
    }
}

/// References to requests of the claim.
fn references<'a>(
    block: &Node<'a>,
    names: Option<&BTreeMap<&str, BTreeSet<&str>>>,
    report: &mut Checker<'a>,
) {
    let list = block.get("requests");
    report.at_most(&list, 32);
    let mut seen = Vec::new();
    for node in list.items() {
        let Some(text) = text_of(&node) else { continue };
        seen.push((node.clone(), text.to_owned()));
        let Some(names) = names else { continue };
        let found = match text.split_once('/') {
            Some((request, part)) => names.get(request).is_some_and(|p| p.contains(part)),
            None => names.contains_key(text),
        };
        if !found {
            let refusal = report.error(&node, format!("the claim has no request {}", quote(text)));
            match crate::facts::suggest::nearest(text, names.keys().copied()) {
                Some(near) => refusal.help(format!("did you mean `{near}`?")),
                None => refusal.help("name a request, or a request, `/` and an alternative"),
            };
        }
    }
    report.unique(seen.into_iter(), "the request");
}

/// The attribute of a constraint: a driver's domain and an identifier.
fn attribute<'a>(constraint: &Node<'a>, report: &mut Checker<'a>) {
    let node = constraint.get("matchAttribute");
    let Some(text) = node.text() else {
        if !node.is_set() && !constraint.get("distinctAttribute").is_set() {
            report
                .required(constraint, "matchAttribute")
                .help("write a driver's attribute: `gpu.nvidia.com/parentUUID`");
        }
        return;
    };
    let good = text.split_once('/').is_some_and(|(domain, name)| {
        (DRIVER_NAME.accepts)(domain) && name.len() <= 32 && is_c_identifier(name)
    });
    if !good {
        report
            .error(&node, format!("{} is not a driver's attribute", quote(text)))
            .help("write the driver's domain, `/` and a name: `gpu.nvidia.com/parentUUID`");
    }
}

fn opaque<'a>(config: &Node<'a>, report: &mut Checker<'a>) {
    let block = config.get("opaque");
    if !block.is_set() {
        report.required(config, "opaque");
        return;
    }
    if !block.is_mapping() {
        return;
    }
    report.required_name(&block, "driver", &DRIVER_NAME);
    let parameters = block.get("parameters");
    if !parameters.is_set() {
        report.required(&block, "parameters");
    } else if !parameters.is_mapping() && !parameters.is_unknown() {
        report
            .error(&parameters, "`parameters` is an object of the driver")
            .help("write `apiVersion`, `kind` and what the driver wants");
    }
}
