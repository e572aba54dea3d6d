//! A device request is not in the shape that its version has.
//!
//! # Why
//! `resource.k8s.io/v1beta1` wrote the fields of a device request beside its name; `v1beta2` and
//! `v1` want them under `exactly`, or a list under `firstAvailable`. The wrong shape is refused, or
//! its fields are dropped and then the request is empty. A ResourceClaimTemplate has a `spec` in
//! its `spec`: with a single one it is stored empty where the client does not ask for strict
//! checks. A `count` beside `allocationMode: All`, or a negative one, is refused.
//!
//! # Fix
//! Move the fields to where the version wants them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: resource.k8s.io/v1
//!  kind: ResourceClaim
//!  metadata: {name: whole}
//!  spec:
//!    devices:
//!      requests:
//!        - name: gpu
//! -        deviceClassName: gpu.nvidia.com # <-
//! -        count: 2
//! +        exactly:
//! +          deviceClassName: gpu.nvidia.com
//! +          count: 2
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/>

use crate::migration::dra::{flatten, nest};
use crate::platform::Version;
use crate::rules::prelude::*;
use crate::schema::validation::{may_hold_more_fields, quote};
use crate::workload::dra::{class_blocks, flat_fields, nests_in_exactly, requests};

pub(crate) static RULE: Rule = Rule {
    id: "dra-request-shape",
    kinds: &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("dra_request_shape.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let nested = nests_in_exactly(&object.id().version)?;
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        single_spec(object, ctx);
    }
    for request in requests(object) {
        one(object, &request, nested, ctx);
    }
    for block in class_blocks(object) {
        count(&block, ctx);
    }
    None
}

/// A template whose claim stands where the claim's own wrapper belongs.
fn single_spec(object: &Object, ctx: &mut Context<'_>) {
    let devices = object.path(&["spec", "devices"]);
    if !devices.is_set() {
        return;
    }
    let inner = object.path(&["spec", "spec"]);
    let finding = ctx.report(&devices, "a ResourceClaimTemplate wants its claim under `spec.spec`");
    finding.at_key().help("write `devices` one `spec` deeper");
    if inner.is_absent() {
        finding.fix(
            Fix::new("move `devices` under `spec.spec`", Safety::Safe)
                .move_to(&devices, &inner.get("devices")),
        );
    }
}

fn one(object: &Object, request: &Node<'_>, nested: bool, ctx: &mut Context<'_>) {
    let version = &object.id().version;
    let exactly = request.get("exactly");
    let first = request.get("firstAvailable");
    let alternatives = first.items().next().is_some();
    let flat = flat_fields(request).next();
    if nested {
        if let Some(node) = &flat {
            let finding =
                ctx.report(node, format!("`{version}` wants the fields of a request under `exactly`"));
            finding.at_key().help("move them under `exactly`");
            if exactly.is_absent() && !alternatives {
                finding.fix(nest(Fix::new("move the fields under `exactly`", Safety::Safe), request));
            }
        } else if exactly.is_set() && alternatives {
            ctx.report(&first, "`exactly` and `firstAvailable` exclude each other").help("keep one of them");
        } else if !exactly.is_set() && !alternatives {
            neither(object, request, "exactly", ctx);
        }
        return;
    }
    if exactly.is_set() {
        let help;
        let fix = if ctx.platform().kubernetes >= Version::new(1, 34)
            && requests(object).all(|r| flat_fields(&r).next().is_none())
        {
            help = "write `resource.k8s.io/v1`, which knows it";
            Some(
                Fix::new("write `resource.k8s.io/v1`", Safety::Safe)
                    .set(&object.get("apiVersion"), json!("resource.k8s.io/v1")),
            )
        } else {
            help = "write its fields beside the request's `name`";
            (flat.is_none() && exactly.is_mapping())
                .then(|| flatten(Fix::new("write the fields beside `name`", Safety::Safe), request))
        };
        let finding = ctx.report(&exactly, "`v1beta1` knows no `exactly`");
        finding.at_key().help(help);
        if let Some(fix) = fix {
            finding.fix(fix);
        }
    } else if flat.is_some() && alternatives {
        ctx.report(&first, "`firstAvailable` excludes fields beside the request's `name`")
            .help("keep one of them");
    } else if flat.is_none() && !alternatives {
        neither(object, request, "deviceClassName", ctx);
    }
}

fn neither(object: &Object, request: &Node<'_>, field: &str, ctx: &mut Context<'_>) {
    if object.is_partial() || may_hold_more_fields(request) || request.get("firstAvailable").is_unknown() {
        return;
    }
    ctx.report(request, "a request needs a device class or alternatives")
        .help(format!("write `{field}` or `firstAvailable`"));
}

/// How many devices: one unless written, and no number where all are wanted.
fn count(block: &Node<'_>, ctx: &mut Context<'_>) {
    let mode = block.get("allocationMode");
    let count = block.get("count");
    match mode.text() {
        Some("All") => {
            if count.int().is_some_and(|c| c != 0) {
                ctx.report(&count, "`allocationMode: All` takes no `count`")
                    .help("leave `count` out, or write `allocationMode: ExactCount`")
                    .fix(Fix::new("remove `count`", Safety::Unsafe).remove(&count));
            }
        }
        Some("" | "ExactCount") | None => {
            if let Some(number) = count.int()
                && number < 0
                && !mode.is_unknown()
            {
                ctx.report(&count, format!("`count` {number} is below 1")).help("write 1 or more");
            }
        }
        Some(other) => {
            ctx.report(&mode, format!("{} is no allocation mode", quote(other)))
                .help("write `ExactCount` or `All`");
        }
    }
}
