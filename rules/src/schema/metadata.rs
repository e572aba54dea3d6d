//! Validation of `metadata`. Port of `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.

use crate::facts::names::{
    dns_fault, is_dns_1035_label, is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name,
};
use crate::facts::text::ellipsize;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

use super::violation::Violation;

/// Maximum total size of the annotations of an object, in bytes.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check(object: &Object, out: &mut Vec<Violation>) {
    let metadata = object.get("metadata");
    if metadata.is_set() && !metadata.is_mapping() {
        return;
    }
    name(object, &metadata, out);
    let namespace = metadata.get("namespace");
    if let Some(text) = namespace.text()
        && !text.is_empty()
        && !is_dns_label(text)
    {
        out.push(
            Violation::invalid(&namespace, invalid_name("namespace", text, false))
                .help("write at most 63 lower-case letters, digits and `-`"),
        );
    }
    labels(&metadata.get("labels"), out);
    annotations(&metadata.get("annotations"), out);
    for finalizer in metadata.get("finalizers").items() {
        if let Some(text) = finalizer.text()
            && !is_qualified_name(text)
        {
            out.push(Violation::invalid(&finalizer, "a finalizer is a name after a domain and `/`"));
        }
    }
    at_most_one_controller(&metadata.get("ownerReferences"), out);
    for owner in metadata.get("ownerReferences").items() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            let node = owner.get(field);
            if node.text() == Some("") {
                out.push(Violation::invalid(&node, "an owner reference needs a text here"));
            }
        }
    }
}

/// At most one owner reference may have `controller: true`.
fn at_most_one_controller(owners: &Node<'_>, out: &mut Vec<Violation>) {
    let mut controlling = owners
        .items()
        .map(|owner| owner.get("controller"))
        .filter(|controller| controller.bool() == Some(true));
    if let (Some(_), Some(second)) = (controlling.next(), controlling.next()) {
        out.push(
            Violation::invalid(&second, "an earlier owner controls the object already")
                .help("write `controller: true` once"),
        );
    }
}

fn name(object: &Object, metadata: &Node<'_>, out: &mut Vec<Violation>) {
    let (name, prefix) = (metadata.get("name"), metadata.get("generateName"));
    let written = |node: &Node<'_>| node.is_set() && node.text() != Some("");
    if !written(&name) {
        if !written(&prefix) {
            out.push(Violation::missing(&name));
        } else if let Some(text) = prefix.text() {
            // The API server truncates a long prefix and appends five random characters.
            let whole = format!("{}xxxxx", text.get(..text.len().min(58)).unwrap_or(text));
            name_syntax(object, &prefix, &whole, out);
        }
    } else if let Some(text) = name.text() {
        name_syntax(object, &name, text, out);
    }
}

fn name_syntax(object: &Object, node: &Node<'_>, text: &str, out: &mut Vec<Violation>) {
    let violation = if object.is(Kind::SERVICE) {
        (!is_dns_1035_label(text)).then(|| {
            Violation::invalid(node, invalid_name("Service name", text, false))
                .help("write at most 63 lower-case letters, digits and `-`")
        })
    } else if object.is(Kind::STATEFUL_SET) {
        (!is_dns_label(text)).then(|| {
            Violation::invalid(node, invalid_name("StatefulSet name", text, false))
                .help("write at most 63 lower-case letters, digits and `-`: its pods are hosts")
        })
    } else if object.is(Kind::PDB) {
        // For other kinds the API server only checks that the name is a valid path segment.
        (matches!(text, "." | "..") || text.contains(['/', '%'])).then(|| {
            Violation::invalid(node, "`/` and `%` are not allowed in the name of a PodDisruptionBudget")
        })
    } else {
        (!is_dns_subdomain(text)).then(|| {
            let kind = object.kind();
            Violation::invalid(node, invalid_name(&format!("{kind} name"), text, true))
                .help("write at most 253 lower-case letters, digits, `-` and `.`")
        })
    };
    out.extend(violation);
}

/// `` `es-A_B` is not a valid Job name: upper-case letters and `_` are not allowed ``.
fn invalid_name(what: &str, text: &str, dots: bool) -> String {
    let fault = dns_fault(text, dots).unwrap_or_else(|| "it must begin with a letter".to_owned());
    format!("`{}` is not a valid {what}: {fault}", ellipsize(text))
}

pub(crate) fn labels(labels: &Node<'_>, out: &mut Vec<Violation>) {
    for (key, value) in labels.entries() {
        if !is_placeholder(key) && !is_qualified_name(key) {
            out.push(
                Violation::invalid(&value, format!("`{}` is not a valid label key", ellipsize(key)))
                    .help(KEY_HELP),
            );
            continue;
        }
        if let Some(text) = value.text()
            && !is_label_value(text)
        {
            out.push(
                Violation::invalid(&value, format!("`{}` is not a valid label value", ellipsize(text))).help(
                    "write at most 63 letters, digits, `-`, `_` and `.`, none of these three at an end",
                ),
            );
        }
    }
}

pub(crate) fn annotations(annotations: &Node<'_>, out: &mut Vec<Violation>) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        bytes += key.len() + value.text().map_or(0, str::len);
        // The API server lowercases annotation keys before it checks them.
        if !is_placeholder(key) && !is_qualified_name(&key.to_lowercase()) {
            out.push(
                Violation::invalid(&value, format!("`{}` is not a valid annotation key", ellipsize(key)))
                    .help(KEY_HELP),
            );
        }
    }
    if bytes > MAX_ANNOTATION_BYTES {
        out.push(
            Violation::invalid(annotations, "the annotations are longer than 256 KiB")
                .help("keep large data in a ConfigMap"),
        );
    }
}

const KEY_HELP: &str = "a key is a name of at most 63 characters, with or without a domain and `/` before it";
