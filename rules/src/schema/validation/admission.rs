//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration. CEL expressions are not compiled.

use std::collections::BTreeSet;

use crate::object::Object;
use crate::tree::node::Node;

use super::syntax::{DNS_1035_LABEL, QUALIFIED_NAME, WEBHOOK_NAME};
use super::{Checker, mapping_items, may_hold_more_fields, quote, selector};

pub(super) fn configuration<'a>(object: &'a Object, report: &mut Checker<'a>) {
    let mut named = Vec::new();
    for hook in mapping_items(&object.get("webhooks")) {
        if let Some(name) = report.required_name(&hook, "name", &WEBHOOK_NAME) {
            named.push((hook.get("name"), name.to_owned()));
        }
        for rule in mapping_items(&hook.get("rules")) {
            matching(&rule, report);
        }
        selector::selector(&hook.get("namespaceSelector"), report);
        selector::selector(&hook.get("objectSelector"), report);
        client(&hook.get("clientConfig"), report);
        versions(&hook.get("admissionReviewVersions"), report);
        conditions(&hook.get("matchConditions"), report);
    }
    report.unique(named.into_iter(), "the name");
}

/// The rules of a webhook, which select requests.
fn matching<'a>(rule: &Node<'a>, report: &mut Checker<'a>) {
    for field in ["operations", "apiGroups", "apiVersions", "resources"] {
        let list = rule.get(field);
        if list.is_unknown() {
            continue;
        }
        let count = list.items().count();
        if count == 0 {
            let message = format!("`{field}` needs an item");
            if !list.is_set() { report.missing(rule, field, message) } else { report.error(&list, message) }
                .help("write `\"*\"` for all of them");
            continue;
        }
        if field != "resources" && count > 1 && list.items().any(|i| i.text() == Some("*")) {
            report
                .error(&list, format!("`*` in `{field}` allows nothing beside it"))
                .help("write `\"*\"` alone, or leave it out");
        }
        // The empty string names the core group.
        if field != "apiGroups" {
            for item in list.items() {
                if item.text() == Some("") || item.is_null() {
                    report.error(&item, format!("an item of `{field}` may not be empty"));
                }
            }
        }
    }
    resources(&rule.get("resources"), report);
}

fn resources<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
    let (mut all, mut star, mut plain) = (false, false, false);
    for item in list.items() {
        let Some(text) = item.text().filter(|t| !t.is_empty()) else { continue };
        all |= text == "*/*";
        star |= text == "*";
        let Some((resource, part)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if whole.contains(resource) || parts.contains(part) {
            report
                .error(&item, format!("{} is covered by an item before it", quote(text)))
                .help("leave it out");
        }
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            parts.insert(part);
        }
    }
    if all && list.items().count() > 1 {
        report.error(list, "`*/*` allows nothing beside it").help("write `\"*/*\"` alone");
    }
    if star && plain {
        report.error(list, "`*` allows no other resource beside it").help("leave the others out, or `*`");
    }
}

/// The client configuration: a URL or a Service.
fn client<'a>(config: &Node<'a>, report: &mut Checker<'a>) {
    if !config.is_mapping() {
        return;
    }
    let (url, service) = (config.get("url"), config.get("service"));
    if url.is_set() == service.is_set() {
        if !report.partial && !may_hold_more_fields(config) {
            report
                .error(config, "exactly one of `url` and `service` is required")
                .help("write `service` for a webhook in the cluster");
        }
        return;
    }
    if let Some(text) = url.text() {
        if let Err(problem) = check_url(text) {
            report
                .error(&url, problem)
                .help("write `https://`, a host and a path, without user, query and fragment");
        }
        return;
    }
    if !service.is_mapping() {
        return;
    }
    report.required_text(&service, "name");
    report.required_text(&service, "namespace");
    report.between(&service.get("port"), 1, 65535);
    let path = service.get("path");
    let Some(text) = path.text().filter(|t| !t.is_empty() && *t != "/") else { return };
    let segment = |s: &str| crate::facts::names::is_dns_subdomain(s);
    let inner = text.strip_prefix('/').unwrap_or(text);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if !text.starts_with('/') {
        report
            .error(&path, format!("the path {} does not begin with `/`", quote(text)))
            .help("write it from the root");
    } else if !inner.split('/').all(segment) {
        report
            .error(&path, format!("{} is not a path of DNS names", quote(text)))
            .help("write lower-case letters, digits, `-` and `.` between the slashes");
    }
}

fn check_url(text: &str) -> Result<(), String> {
    let secure = text.get(..8).filter(|t| t.eq_ignore_ascii_case("https://"));
    let Some(rest) = secure.and_then(|_| text.get(8..)) else {
        return Err("the address does not begin with `https://`".to_owned());
    };
    if rest.contains('#') {
        return Err("the address holds a fragment".to_owned());
    }
    if rest.contains('?') {
        return Err("the address holds a query".to_owned());
    }
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err("the address holds a user".to_owned());
    }
    if host.is_empty() {
        return Err("the address holds no host".to_owned());
    }
    Ok(())
}

/// The versions of AdmissionReview that the webhook accepts.
fn versions<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    if list.is_unknown() || !list.is_set() {
        return;
    }
    let help = "write `[v1]`";
    if list.items().next().is_none() {
        report.error(list, "a version is required").help(help);
        return;
    }
    let mut seen = Vec::new();
    for item in list.items() {
        report.check_syntax(&item, &DNS_1035_LABEL);
        if item.is_null() {
            report.error(&item, "a version may not be empty").help(help);
        }
        seen.extend(item.text().map(|t| (item.clone(), t.to_owned())));
    }
    report.unique(seen.into_iter(), "the version");
    if !list.items().any(|i| i.is_unknown() || matches!(i.text(), Some("v1" | "v1beta1"))) {
        report.error(list, "neither `v1` nor `v1beta1` is among the versions").help(help);
    }
}

fn conditions<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    report.at_most(list, 64);
    let mut named = Vec::new();
    for condition in mapping_items(list) {
        if let Some(name) = report.required_name(&condition, "name", &QUALIFIED_NAME) {
            named.push((condition.get("name"), name.to_owned()));
        }
        let expression = condition.get("expression");
        if let Some(text) = report.required_text(&condition, "expression")
            && text.trim().is_empty()
        {
            report.error(&expression, "`expression` is required and may not be empty");
        }
    }
    report.unique(named.into_iter(), "the name");
}
