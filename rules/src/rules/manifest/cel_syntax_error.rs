//! A CEL expression does not parse.
//!
//! # Why
//! The API server compiles the expressions of device selectors, of `matchConditions` of webhooks
//! and of admission policies when the object is applied, and rejects an object with one that it
//! cannot parse. A missing bracket or a single `=` is found here before that.
//!
//! Only the syntax is checked. Whether the fields of an expression exist, and whether its types
//! fit, the API server says.
//!
//! # Fix
//! Correct the expression. Texts are in quotes, equality is `==`, and a list is tested with `in`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: DeviceClass
//!  metadata: {name: gpu.example.com}
//!  spec:
//!    selectors:
//!      - cel:
//! -        expression: device.driver = "gpu.example.com" # <-
//! +        expression: device.driver == "gpu.example.com"
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/cel/>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

use crate::cel::syntax_error;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "cel-syntax-error",
    kinds: &[
        Kind::DEVICE_CLASS,
        Kind::RESOURCE_CLAIM,
        Kind::RESOURCE_CLAIM_TEMPLATE,
        Kind::VALIDATING_WEBHOOK_CONFIGURATION,
        Kind::MUTATING_WEBHOOK_CONFIGURATION,
        Kind::VALIDATING_ADMISSION_POLICY,
        Kind::MUTATING_ADMISSION_POLICY,
    ],
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("cel_syntax_error.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for node in expressions(object) {
        let Some(text) = node.text().filter(|text| !text.trim().is_empty()) else { continue };
        if !node.is_unknown()
            && let Some(error) = syntax_error(text)
        {
            ctx.report(&node, format!("the expression does not parse: {}", in_words(&error)));
        }
    }
    None
}

/// The parser's message without its lists of tokens.
fn in_words(error: &str) -> String {
    let error = error.lines().next().unwrap_or_default();
    let error = error.strip_prefix("Syntax error: ").unwrap_or(error);
    let error = error.split(" expecting ").next().unwrap_or(error);
    let token = |text: &str| match text.trim_matches('\'').trim() {
        "<EOF>" => "end".to_owned(),
        text => format!("`{text}`"),
    };
    for prefix in [
        "mismatched input ",
        "extraneous input ",
        "no viable alternative at input ",
        "token recognition error at: ",
    ] {
        if let Some(text) = error.strip_prefix(prefix) {
            return format!("unexpected {}", token(text));
        }
    }
    match error.strip_prefix("missing ").and_then(|rest| rest.split_once(" at ")) {
        Some((missing, at)) => format!("{} is missing before the {}", token(missing), token(at)),
        None => error.to_owned(),
    }
}

fn expressions(object: &Object) -> Vec<Node<'_>> {
    let mut out = Vec::new();
    let spec = object.get("spec");
    if object.is(Kind::DEVICE_CLASS) {
        out.extend(selectors(&spec));
    } else if object.is(Kind::RESOURCE_CLAIM) || object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        let inner = if object.is(Kind::RESOURCE_CLAIM) { spec } else { spec.get("spec") };
        for request in inner.path(&["devices", "requests"]).items() {
            // In v1beta1 the fields are in the request itself, since v1beta2 one level below.
            out.extend(selectors(&request));
            out.extend(selectors(&request.get("exactly")));
            out.extend(request.get("firstAvailable").items().flat_map(|choice| selectors(&choice)));
        }
    } else if object.is(Kind::VALIDATING_ADMISSION_POLICY) || object.is(Kind::MUTATING_ADMISSION_POLICY) {
        out.extend(each(&spec.get("matchConditions"), "expression"));
        out.extend(each(&spec.get("variables"), "expression"));
        out.extend(each(&spec.get("validations"), "expression"));
        out.extend(each(&spec.get("validations"), "messageExpression"));
        out.extend(each(&spec.get("auditAnnotations"), "valueExpression"));
        let mutation = |kind: &'static str| {
            spec.get("mutations").items().map(move |mutation| mutation.path(&[kind, "expression"]))
        };
        out.extend(mutation("applyConfiguration").chain(mutation("jsonPatch")));
    } else {
        for webhook in object.get("webhooks").items() {
            out.extend(each(&webhook.get("matchConditions"), "expression"));
        }
    }
    out
}

fn each<'o>(list: &Node<'o>, field: &str) -> Vec<Node<'o>> {
    list.items().map(|item| item.get(field)).collect()
}

/// The expressions in the device selectors of a request or a device class.
fn selectors<'o>(of: &Node<'o>) -> Vec<Node<'o>> {
    of.get("selectors").items().map(|selector| selector.path(&["cel", "expression"])).collect()
}
