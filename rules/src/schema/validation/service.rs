//! Service.

use std::collections::BTreeSet;

use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;

use super::syntax::{CIDR, DNS_LABEL, DNS_SUBDOMAIN, IP, QUALIFIED_NAME, read_ip};
use super::{Checker, mapping_items, may_hold_more_fields, probe, quote, selector};

pub(super) fn service<'a>(object: &'a Object, spec: &Node<'a>, report: &mut Checker<'a>) {
    let kind = spec.get("type");
    let name = match kind.text() {
        Some("") => "ClusterIP",
        Some(text) => text,
        None if kind.is_set() || report.partial || may_hold_more_fields(spec) => "",
        None => "ClusterIP",
    };
    let address = spec.get("clusterIP");
    let headless = address.text() == Some("None") || spec.get("clusterIPs").index(0).text() == Some("None");
    selector::labels(&spec.get("selector"), report);
    ports(spec, name, headless, report);
    addresses(spec, name, report);
    affinity(spec, report);
    of_type(object, spec, name, headless, report);
}

fn ports<'a>(spec: &Node<'a>, kind: &str, headless: bool, report: &mut Checker<'a>) {
    let list = spec.get("ports");
    let count = list.items().count();
    let address_unknown = spec.get("clusterIP").is_unknown() || spec.get("clusterIPs").has_unknown();
    if count == 0
        && !list.is_unknown()
        && !headless
        && !address_unknown
        && !matches!(kind, "" | "ExternalName")
    {
        if list.is_set() {
            if !report.partial {
                report.error(&list, "a Service needs a port");
            }
        } else {
            report
                .missing(spec, "ports", "a Service needs `ports`")
                .help("write them, or `clusterIP: None` for a headless Service");
        }
    }
    let mut names = Vec::new();
    let mut taken = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    for port in mapping_items(&list) {
        let name = port.get("name");
        if count > 1 && !name.is_unknown() && name.text().unwrap_or_default().is_empty() {
            if name.is_set() {
                report.error(&name, "each of several ports needs a `name`");
            } else {
                report
                    .missing(&port, "name", "each of several ports needs a `name`")
                    .help("write one, for example `http`");
            }
        }
        report.check_syntax_unless_empty(&name, &DNS_LABEL);
        names.extend(name.text().filter(|n| !n.is_empty()).map(|t| (name.clone(), t.to_owned())));
        let target = port.get("targetPort");
        // Unset, 0 and the empty text default to the port.
        if target.int() != Some(0) && target.text() != Some("") {
            probe::port(&target, report);
        }
        report.check_syntax(&port.get("appProtocol"), &QUALIFIED_NAME);
        let protocol = port.get("protocol");
        if protocol.is_unknown() {
            continue;
        }
        let protocol = protocol.text().filter(|p| !p.is_empty()).unwrap_or("TCP");
        if let Some(number) = port.get("port").int()
            && !taken.insert((protocol, number))
        {
            report
                .error(&port, format!("port {number} is written twice"))
                .help("keep one of them, or change its number");
        }
        let node = port.get("nodePort");
        let Some(number) = node.int().filter(|n| *n != 0) else { continue };
        if kind == "ClusterIP" {
            report
                .error(&node, "`nodePort` needs `type: NodePort` or `LoadBalancer`")
                .help("leave it out, or write the `type`");
        }
        if !nodes.insert((protocol, number)) {
            report.error(&node, format!("node port {number} is written twice"));
        }
    }
    report.unique(names.into_iter(), "the port name");
}

fn addresses<'a>(spec: &Node<'a>, kind: &str, report: &mut Checker<'a>) {
    if matches!(kind, "" | "ExternalName") {
        return;
    }
    let one = spec.get("clusterIP");
    let all = spec.get("clusterIPs");
    let first = all.index(0);
    let written = one.text().is_some_and(|t| !t.is_empty());
    if !one.is_unknown() && !all.has_unknown() && first.is_set() && !report.partial {
        if !written {
            report
                .error(&all, "`clusterIPs` needs the same address in `clusterIP`")
                .help("leave `clusterIPs` out, or write its first address as `clusterIP`");
        } else if first.text() != one.text() {
            report.error(&all, "the first of `clusterIPs` is not `clusterIP`").help("leave `clusterIPs` out");
        }
    }
    for node in std::iter::once(one.clone()).chain(all.items()) {
        if !matches!(node.text(), None | Some("None" | "")) {
            report.check_syntax(&node, &IP);
        }
    }
    report.at_most(&all, 2);
    if first.text() == Some("None") && all.items().count() > 1 {
        report.error(&all, "`None` allows no other address beside it");
    }
    let families: Vec<Option<bool>> = spec
        .get("ipFamilies")
        .items()
        .map(|f| match f.text() {
            Some("IPv4") => Some(false),
            Some("IPv6") => Some(true),
            _ => None,
        })
        .collect();
    if families.len() == 2 && families[0].is_some() && families[0] == families[1] {
        report.error(&spec.get("ipFamilies").index(1), "each family may stand once");
    }
    if let (Some(Some(six)), Some(address)) = (families.first(), one.text().and_then(read_ip))
        && address.is_ipv6() != *six
    {
        report
            .error(&one, "the address is not of the first of `ipFamilies`")
            .help("leave `ipFamilies` out, or write the address's own");
    }
    for node in spec.get("externalIPs").items() {
        report.check_syntax(&node, &IP);
        let bad = node
            .text()
            .and_then(read_ip)
            .is_some_and(|ip| ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local(ip));
        if bad {
            report.error(&node, "no Service can have this external address");
        }
    }
}

fn link_local(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local(),
        std::net::IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn affinity<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let kind = spec.get("sessionAffinity");
    let config = spec.get("sessionAffinityConfig");
    // With another affinity the API server drops the field.
    if kind.text() == Some("ClientIP") {
        report.between(&config.path(&["clientIP", "timeoutSeconds"]), 1, 86_400);
    }
}

fn of_type<'a>(object: &'a Object, spec: &Node<'a>, kind: &str, headless: bool, report: &mut Checker<'a>) {
    let balanced = kind == "LoadBalancer";
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let node = spec.get("clusterIPs");
        let node = if node.is_set() { node } else { spec.get("clusterIP") };
        report
            .error(&node, format!("`type: {kind}` needs a cluster address, not `None`"))
            .help("leave `clusterIP` out, or write `type: ClusterIP`");
    }
    if kind == "ExternalName" {
        let node = spec.get("externalName");
        match node.text().map(|t| t.strip_suffix('.').unwrap_or(t)) {
            Some("") => {
                report.error(&node, "`type: ExternalName` needs `externalName`");
            }
            Some(name) if !(DNS_SUBDOMAIN.accepts)(name) => {
                report.error(&node, format!("{} is not a DNS name", quote(name))).help(DNS_SUBDOMAIN.help);
            }
            None if !node.is_set() => {
                report.missing(spec, "externalName", "`type: ExternalName` needs `externalName`");
            }
            _ => {}
        }
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let node = spec.get(field);
            if node.is_set() && (!node.is_sequence() || node.items().next().is_some()) {
                report.error(&node, format!("`{field}` is not allowed with `type: ExternalName`"));
            }
        }
        let address = spec.get("clusterIP");
        if address.text().is_some_and(|t| !t.is_empty()) {
            report
                .error(&address, "`clusterIP` is not allowed with `type: ExternalName`")
                .help("leave it out");
        }
    }
    if kind.is_empty() {
        return;
    }
    for (field, wanted) in [("allocateLoadBalancerNodePorts", balanced), ("loadBalancerClass", balanced)] {
        let node = spec.get(field);
        if node.is_set() && !wanted {
            report
                .error(&node, format!("`{field}` needs `type: LoadBalancer`"))
                .help("leave it out, or write the `type`")
                .fix(Fix::new(format!("remove `{field}`"), Safety::Unsafe).remove(&node));
        }
    }
    if balanced {
        report.check_syntax(&spec.get("loadBalancerClass"), &QUALIFIED_NAME);
    }
    let ranges = spec.get("loadBalancerSourceRanges");
    if ranges.items().next().is_some() && !balanced {
        report
            .error(&ranges, "`loadBalancerSourceRanges` needs `type: LoadBalancer`")
            .help("leave it out, or write the `type`");
    }
    for node in ranges.items() {
        if let Some(text) = node.text()
            && !(CIDR.accepts)(text.trim())
        {
            report.error(&node, format!("{} is not an address range", quote(text))).help(CIDR.help);
        }
    }
    let annotated = object.annotation("service.beta.kubernetes.io/load-balancer-source-ranges");
    if annotated.text().is_some() && ranges.items().next().is_none() && !balanced {
        report.error(&annotated, "this annotation needs `type: LoadBalancer`");
    }
    let outside = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && spec.get("externalIPs").items().next().is_some());
    let policy = spec.get("externalTrafficPolicy");
    if policy.text().is_some_and(|t| !t.is_empty()) && !outside {
        report
            .error(&policy, "`externalTrafficPolicy` needs a Service that is reached from outside")
            .help("leave it out, or write `type: NodePort` or `LoadBalancer`")
            .fix(Fix::new("remove it", Safety::Unsafe).remove(&policy));
    }
    let health = spec.get("healthCheckNodePort");
    if health.int().is_some_and(|n| n != 0)
        && !policy.is_unknown()
        && !(balanced && policy.text() == Some("Local"))
    {
        report
            .error(&health, "`healthCheckNodePort` needs a LoadBalancer with `externalTrafficPolicy: Local`")
            .help("leave it out");
    }
    let spread = spec.get("trafficDistribution");
    report.strict_choice(&spread, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}
