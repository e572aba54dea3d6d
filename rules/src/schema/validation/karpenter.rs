//! CEL rules of Karpenter's CRDs that no named rule covers: network interfaces and connection tracking of an
//! EC2NodeClass, and the values that a NodeOverlay sets.

use std::collections::BTreeSet;

use super::{Checker, mapping_items, may_hold_more_fields, quote};
use crate::lint::fix::{Fix, Safety};
use crate::tree::node::Node;

/// Timeouts of connection tracking; at least one is required.
const TIMEOUTS: [&str; 3] = ["tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout"];

/// Resources that a NodeOverlay may not set, because the instance type determines them.
const FIXED_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

pub(super) fn node_class<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let tracking = spec.get("connectionTracking");
    let written = TIMEOUTS.iter().any(|t| tracking.get(t).is_set());
    if tracking.is_mapping() && !written && !may_hold_more_fields(&tracking) && !report.partial {
        report
            .error(&tracking, "`connectionTracking` sets no timeout")
            .help("write one of the timeouts, or leave the field out");
    }
    interfaces(&spec.get("networkInterfaces"), report);
}

fn interfaces<'a>(list: &Node<'a>, report: &mut Checker<'a>) {
    // An unknown item may be the required one.
    let known = |item: &Node<'a>| {
        let number = |field: &str| item.get(field).int().is_some();
        number("networkCardIndex") && number("deviceIndex") && item.get("interfaceType").text().is_some()
    };
    if !list.is_sequence() || list.items().any(|item| !known(&item)) {
        return;
    }
    let mut pairs = BTreeSet::new();
    let mut cards = BTreeSet::new();
    let (mut primary, mut any) = (false, false);
    for item in mapping_items(list) {
        any = true;
        let card = item.get("networkCardIndex").int();
        let device = item.get("deviceIndex").int();
        let kind = item.get("interfaceType").text();
        primary |= card == Some(0) && device == Some(0) && kind == Some("interface");
        if !pairs.insert((card, device)) {
            report
                .error(&item, "two interfaces have one card and one device index")
                .help("count `deviceIndex` up on each card");
        } else if kind == Some("efa-only") && !cards.insert(card) {
            report
                .error(&item, "a network card can have only one `efa-only` interface")
                .help("put it on a card of its own");
        }
    }
    if any && !primary {
        report
            .error(list, "no interface is the primary one")
            .help("add networkCardIndex 0, deviceIndex 0 and interfaceType interface");
    }
}

pub(super) fn overlay<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let (price, adjustment) = (spec.get("price"), spec.get("priceAdjustment"));
    if price.is_set() && adjustment.is_set() {
        report
            .error(&adjustment, "`price` and `priceAdjustment` exclude each other")
            .help("keep one of them");
    }
    for (name, node) in spec.get("capacity").entries() {
        if FIXED_RESOURCES.contains(&name) && !node.is_null() {
            report
                .error(&node, format!("an overlay cannot set {}", quote(name)))
                .help("remove it: the instance type decides")
                .fix(Fix::new("remove it", Safety::Safe).remove(&node));
        }
    }
}
