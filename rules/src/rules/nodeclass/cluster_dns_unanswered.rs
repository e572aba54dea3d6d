//! Nobody answers at an address of `clusterDNS`.
//!
//! # Why
//! The kubelet writes the addresses of `clusterDNS` into `/etc/resolv.conf` of pods. It leaves out what is not
//! an IP address, such as the name of a Service, and pods then ask the resolver of the node, which knows no
//! Service. Bottlerocket does not start with it.
//!
//! Addresses of 169.254.0.0/16 do not leave the node: something on each node has to answer, such as NodeLocal
//! DNSCache at 169.254.20.10. Where the input is the whole cluster (`--complete`) and shows neither that, nor
//! Cilium, nor a chart that may bring one, pods resolve no names at all.
//!
//! # Fix
//! Leave `clusterDNS` out: Karpenter takes the address of the Service `kube-dns`. Or install NodeLocal DNSCache.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    kubelet:
//! -    clusterDNS: [kube-dns.kube-system.svc.cluster.local] # <-
//! +    clusterDNS: [10.100.0.10]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/1899>

use std::net::IpAddr;

use crate::cluster::values::{CHART_SOURCES, installed_charts};
use crate::cluster::versions::Fact;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "cluster-dns-unanswered",
    reads: kinds![CHART_KINDS, CHART_SOURCES, [Kind::ARGO_APPLICATION_SET, Kind::DAEMON_SET]],
    reports_absence: true,
    docs: docs(include_str!("cluster_dns_unanswered.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// What the names of programs have that answer at an address of the node.
const ANSWERING: [&str; 2] = ["dns", "cilium"];

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let addresses: Vec<Node<'_>> = class.get("kubelet").get("clusterDNS").items().collect();
    let mut of_node = Vec::new();
    for node in &addresses {
        let text = node.text()?;
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if address.is_link_local() => of_node.push((node, text)),
            Ok(_) => {}
            // The kubelet reads numbers with leading zeros as well (`ParseIPSloppy`).
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {}
            Err(_) => {
                ctx.report(
                    node,
                    format!("`{}` is not an IP address: the kubelet leaves it out", ellipsize(text)),
                )
                .help("write the address of the Service `kube-dns`, or leave `clusterDNS` out");
            }
        }
    }
    let (node, text) = of_node.first()?;
    let has_others = of_node.len() < addresses.len();
    // A script may start a program that answers.
    if has_others || class.get("userData").is_set() || !ctx.cluster().is_complete() || may_answer(text, ctx) {
        return None;
    }
    ctx.report(
        node,
        format!("nothing in the cluster answers at {text}: pods of these nodes resolve no names"),
    )
    .help("install NodeLocal DNSCache, or leave `clusterDNS` out");
    None
}

/// Whether the input shows a program that may answer on each node, or what may bring one.
fn may_answer(address: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let by_chart = |object: &Object| {
        let charts = installed_charts(object, cluster);
        mentions(object.name(), &ANSWERING)
            || charts.is_none_or(|charts| charts.into_iter().any(|chart| mentions(chart, &ANSWERING)))
    };
    let answers = |set: &Object| {
        let mut containers =
            templates(set).into_iter().flat_map(|one| one.all_containers().collect::<Vec<_>>());
        let has_address = |one: &Node<'_>| {
            one.get("args").items().any(|arg| arg.text().is_some_and(|arg| arg.contains(address)))
        };
        mentions(set.name(), &ANSWERING)
            || containers.any(|one| {
                one.get("image").text().is_none_or(|image| mentions(image, &ANSWERING)) || has_address(&one)
            })
    };
    cluster.is_shown(&Fact::Elsewhere)
        || chart_installers(cluster).chain(cluster.of(Kind::ARGO_APPLICATION_SET)).any(by_chart)
        || cluster.of(Kind::DAEMON_SET).any(answers)
}
