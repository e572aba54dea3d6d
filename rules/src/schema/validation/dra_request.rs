//! Device requests of ResourceClaims and ResourceClaimTemplates: where their fields are in each version, and
//! how many devices they allocate.
//!
//! `resource.k8s.io/v1beta1` has the fields of a request next to its name, `v1beta2` and `v1` have them under
//! `exactly`.

use serde_json::{Map, Value, json};

use super::{Checker, may_hold_more_fields, quote};
use crate::kind::Kind;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::dra::{class_blocks, flat_fields, nests_in_exactly, requests};

/// The layout of every request. `serves_v1`: the cluster serves `resource.k8s.io/v1`, so that a request
/// written for it can keep its layout.
pub(crate) fn layout<'a>(object: &'a Object, serves_v1: bool, report: &mut Checker<'a>) {
    let Some(nested) = nests_in_exactly(object.version()) else { return };
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        template_spec(object, report);
    }
    for request in requests(object) {
        if nested {
            nested_request(object, &request, report);
        } else {
            flat_request(object, &request, serves_v1, report);
        }
    }
}

/// The allocation mode and the number of devices of every request.
pub(crate) fn allocation<'a>(object: &'a Object, report: &mut Checker<'a>) {
    if nests_in_exactly(object.version()).is_none() {
        return;
    }
    for block in class_blocks(object) {
        let mode = block.get("allocationMode");
        let count = block.get("count");
        match mode.text() {
            Some("All") => {
                if count.int().is_some_and(|c| c != 0) {
                    report
                        .error(&count, "`count` is not allowed with `allocationMode: All`")
                        .help("leave `count` out, or write `allocationMode: ExactCount`")
                        .fix(Fix::new("remove `count`", Safety::Unsafe).remove(&count));
                }
            }
            Some("" | "ExactCount") | None => {
                if let Some(number) = count.int()
                    && number < 0
                    && !mode.is_unknown()
                {
                    report.error(&count, format!("`count` {number} is below 1")).help("write 1 or more");
                }
            }
            Some(other) => {
                report
                    .error(&mode, format!("{} is not an allocation mode", quote(other)))
                    .help("write `ExactCount` or `All`");
            }
        }
    }
}

/// `devices` of a template directly under `spec`, where the claim has it.
fn template_spec<'a>(object: &'a Object, report: &mut Checker<'a>) {
    let devices = object.path(&["spec", "devices"]);
    if !devices.is_set() {
        return;
    }
    let inner = object.path(&["spec", "spec"]);
    let error = report.error(&devices, "a ResourceClaimTemplate has its claim under `spec.spec`");
    error.at_key().help("write `devices` one `spec` deeper");
    if inner.is_absent() {
        error.fix(
            Fix::new("move `devices` under `spec.spec`", Safety::Safe)
                .move_to(&devices, &inner.get("devices")),
        );
    }
}

/// A request of `v1beta2` or `v1`.
fn nested_request<'a>(object: &Object, request: &Node<'a>, report: &mut Checker<'a>) {
    let exactly = request.get("exactly");
    let first = request.get("firstAvailable");
    let alternatives = first.items().next().is_some();
    if let Some(node) = flat_fields(request).next() {
        let version = object.version();
        let message = format!("in `{version}`, the fields of a request are under `exactly`");
        let error = report.error(&node, message);
        error.at_key().help("move them under `exactly`");
        if exactly.is_absent() && !alternatives {
            error.fix(nest(Fix::new("move the fields under `exactly`", Safety::Safe), request));
        }
    } else if exactly.is_set() && alternatives {
        report.error(&first, "`exactly` and `firstAvailable` exclude each other").help("keep one of them");
    } else if !exactly.is_set() && !alternatives {
        no_device_class(request, "exactly", report);
    }
}

/// A request of `v1beta1`.
fn flat_request<'a>(object: &Object, request: &Node<'a>, serves_v1: bool, report: &mut Checker<'a>) {
    let exactly = request.get("exactly");
    let first = request.get("firstAvailable");
    let alternatives = first.items().next().is_some();
    let flat = flat_fields(request).next().is_some();
    if exactly.is_set() {
        let error = report.error(&exactly, "`v1beta1` has no field `exactly`");
        error.at_key();
        if serves_v1 && requests(object).all(|r| flat_fields(&r).next().is_none()) {
            error.help("write `resource.k8s.io/v1`, which knows it").fix(
                Fix::new("write `resource.k8s.io/v1`", Safety::Safe)
                    .set(&object.get("apiVersion"), json!("resource.k8s.io/v1")),
            );
        } else {
            error.help("write its fields beside the request's `name`");
            if !flat && exactly.is_mapping() {
                error.fix(flatten(Fix::new("write the fields beside `name`", Safety::Safe), request));
            }
        }
    } else if flat && alternatives {
        report
            .error(&first, "`firstAvailable` excludes fields beside the request's `name`")
            .help("keep one of them");
    } else if !flat && !alternatives {
        no_device_class(request, "deviceClassName", report);
    }
}

/// A request with neither a device class nor alternatives.
fn no_device_class<'a>(request: &Node<'a>, field: &str, report: &mut Checker<'a>) {
    if report.partial || may_hold_more_fields(request) || request.get("firstAvailable").is_unknown() {
        return;
    }
    report
        .error(request, "a request needs a device class or alternatives")
        .help(format!("write `{field}` or `firstAvailable`"));
}

/// Moves the flat fields of a request under `exactly`.
pub(crate) fn nest(mut fix: Fix, request: &Node<'_>) -> Fix {
    let mut inner = Map::new();
    for node in flat_fields(request) {
        if let Some(name) = node.pointer().steps().last() {
            inner.insert(name.clone(), node.to_json());
        }
    }
    for node in flat_fields(request) {
        fix = fix.remove(&node);
    }
    fix.set(&request.get("exactly"), Value::Object(inner))
}

/// Moves the fields under `exactly` next to the name of the request.
fn flatten(fix: Fix, request: &Node<'_>) -> Fix {
    let exactly = request.get("exactly");
    let mut fix = fix.remove(&exactly);
    for (name, node) in exactly.entries() {
        fix = fix.set(&request.get(name), node.to_json());
    }
    fix
}
