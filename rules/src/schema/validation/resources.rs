//! Resource requests and limits of containers and pods. The rule gpu-limit-mismatch checks those of GPUs.

use std::collections::BTreeMap;

use crate::facts::quantity::Quantity;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::gpu::is_extended;

use super::syntax::QUALIFIED_NAME;
use super::{Checker, mapping_items, quote};

const NATIVE: &[&str] = &["cpu", "memory", "ephemeral-storage"];

pub(super) fn container<'a>(container: &Node<'a>, report: &mut Checker<'a>) {
    let resources = container.get("resources");
    let limits = resources.get("limits");
    let requests = resources.get("requests");
    let mut pages = None;
    let mut sized = resources.is_unknown() || limits.is_unknown() || requests.is_unknown();
    for side in [&limits, &requests] {
        for (name, amount) in side.entries() {
            if is_placeholder(name) {
                sized = true;
                continue;
            }
            resource_name(name, &amount, report);
            let value = Quantity::at_or_zero(&amount);
            if value.is_some_and(|q| q < Quantity::ZERO) {
                report.error(&amount, format!("{} is below 0", quote(name))).help("write 0 or more");
            }
            sized |= matches!(name, "cpu" | "memory");
            if let Some(size) = name.strip_prefix("hugepages-") {
                pages = Some(amount.clone());
                page_size(name, size, &amount, value, report);
            }
        }
    }
    for (name, request) in requests.entries() {
        if !is_extended(name) && !is_placeholder(name) {
            compare(name, &request, &limits, report);
        }
    }
    if let Some(node) = pages
        && !sized
        && !report.partial
    {
        report
            .error(&node, "huge pages need `cpu` or `memory` beside them")
            .help("request `cpu` or `memory` in the same container");
    }
}

pub(super) fn resource_name<'a>(name: &str, amount: &Node<'a>, report: &mut Checker<'a>) {
    if !(QUALIFIED_NAME.accepts)(name) {
        report.error(amount, format!("{} names no resource", quote(name))).help(QUALIFIED_NAME.help);
    } else if !name.contains('/') {
        if !NATIVE.contains(&name) && !name.starts_with("hugepages-") {
            let refusal = report.error(amount, format!("{} names no resource", quote(name)));
            match (name, crate::facts::suggest::nearest(name, NATIVE.iter().copied())) {
                ("gpu" | "gpus", _) => refusal.help("did you mean `nvidia.com/gpu`?"),
                (_, Some(near)) => refusal.help(format!("did you mean `{near}`?")),
                _ => refusal.help("a resource of a device needs its domain: `nvidia.com/gpu`"),
            };
        }
    } else if name.starts_with("requests.")
        || (is_extended(name) && !(QUALIFIED_NAME.accepts)(&format!("requests.{name}")))
    {
        report.error(amount, format!("{} names no resource", quote(name)));
    }
}

/// Requests must not exceed limits. Requests of huge pages must equal their limits.
fn compare<'a>(name: &str, request: &Node<'a>, limits: &Node<'a>, report: &mut Checker<'a>) {
    let whole = name.starts_with("hugepages-");
    let limit = limits.get(name);
    if limits.is_unknown() || limit.is_unknown() {
        return;
    }
    if limit.is_absent() {
        if whole && !report.partial && !super::may_hold_more_fields(limits) {
            report
                .error(&limit, format!("{} is requested without a limit", quote(name)))
                .help("huge pages need a limit equal to the request");
        }
        return;
    }
    let (Some(asked), Some(most)) = (Quantity::at_or_zero(request), Quantity::at_or_zero(&limit)) else {
        return;
    };
    if asked > most {
        report
            .error(request, format!("the request of {} ({asked}) is above its limit ({most})", quote(name)))
            .help("lower the request or raise the limit");
    } else if whole && asked != most {
        report
            .error(
                request,
                format!("the request of {} ({asked}) differs from its limit ({most})", quote(name)),
            )
            .help("huge pages need a limit equal to the request");
    }
}

fn page_size<'a>(
    name: &str,
    size: &str,
    amount: &Node<'a>,
    value: Option<Quantity>,
    report: &mut Checker<'a>,
) {
    let page = Quantity::decode(size).ok().map(Quantity::value);
    let Some(value) = value else { return };
    if page.is_none_or(|p| p <= 0 || value.value() % p != 0) {
        report
            .error(amount, format!("{value} is not a multiple of the page of {}", quote(name)))
            .help("write a multiple of the page size");
    }
}

/// Resources of the pod as a whole, shared by its containers.
pub(super) fn pod<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let resources = spec.get("resources");
    if !resources.is_mapping() {
        return;
    }
    let claims = resources.get("claims");
    if claims.is_set() {
        report
            .error(&claims, "`claims` belong to a container's resources")
            .help("write them in the container that uses them");
    }
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for side in [&limits, &requests] {
        for (name, amount) in side.entries() {
            if is_placeholder(name) {
                continue;
            }
            if !matches!(name, "cpu" | "memory") && !name.starts_with("hugepages-") {
                report
                    .error(&amount, format!("a pod as a whole cannot ask for {}", quote(name)))
                    .help("ask for it in the container that uses it");
            }
            if Quantity::at_or_zero(&amount).is_some_and(|q| q < Quantity::ZERO) {
                report.error(&amount, format!("{} is below 0", quote(name)));
            }
        }
    }
    for (name, request) in requests.entries() {
        if request.is_set() {
            compare(name, &request, &limits, report);
        }
    }
    shared(spec, &limits, &requests, report);
}

/// Limits of each container and the sum of all requests must not exceed those of the pod.
fn shared<'a>(spec: &Node<'a>, limits: &Node<'a>, requests: &Node<'a>, report: &mut Checker<'a>) {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for container in mapping_items(&spec.get("containers")) {
        let own = container.get("resources");
        for (name, amount) in own.get("limits").entries() {
            let most = limits.get(name);
            if let (Some(a), Some(b)) = (Quantity::at_or_zero(&amount), Quantity::at_or_zero(&most))
                && a > b
            {
                report
                    .error(&amount, format!("the limit of {} is above the pod's ({b})", quote(name)))
                    .help("lower it, or raise the pod's limit");
            }
        }
        for name in ["cpu", "memory"] {
            let asked = own.path(&["requests", name]);
            // A request defaults to the limit.
            let asked = if asked.is_set() { asked } else { own.path(&["limits", name]) };
            if let Some(amount) = Quantity::at_or_zero(&asked) {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(amount.nano());
            }
        }
    }
    for (name, sum) in sums {
        let node = requests.get(name);
        if let Some(all) = Quantity::at_or_zero(&node)
            && sum > all.nano()
        {
            report
                .error(&node, format!("the containers together ask for more {} than this", quote(name)))
                .help("raise the pod's request, or lower those of the containers");
        }
    }
}
