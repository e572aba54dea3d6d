//! A container takes port 10250 of the node, which is the kubelet's.
//!
//! # Why
//! The kubelet of each node listens on 10250. A container on the network of the node cannot bind to that port
//! (`address already in use`), and restarts again and again. With `hostPort: 10250` the node may lead requests
//! that are for the kubelet to the pod: logs, `exec` and metrics of the node fail. 10250 is the default of
//! metrics-server and of the webhook of cert-manager, right on a network of pods, and often kept where an overlay
//! network makes `hostNetwork` necessary. Then the API server reaches no metrics, and HPAs do not scale.
//!
//! # Fix
//! Let the program listen on another port (`--secure-port=4443`), and list that one. The charts have
//! `containerPort` (metrics-server) and `webhook.securePort` (cert-manager).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: metrics-server, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: metrics-server, version: 3.13.0, sourceRef: {kind: HelmRepository, name: metrics-server}}
//!    values:
//! -    hostNetwork: {enabled: true} # <-
//! +    hostNetwork: {enabled: true}
//! +    containerPort: 4443
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/networking/ports-and-protocols/>
//! - <https://github.com/kubernetes-sigs/metrics-server#configuration>
//! - <https://cert-manager.io/docs/installation/compatibility/>

use crate::cluster::values::{CHART_SOURCES, chart_version};
use crate::rules::gpu::report_value;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "kubelet-port-taken",
    kinds: kinds![CHART_KINDS, WORKLOAD_KINDS],
    reads: &CHART_SOURCES,
    docs: docs(include_str!("kubelet_port_taken.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// `--port` of the kubelet, and of the nodes of EKS.
const PORT: i64 = 10_250;
const CANNOT_LISTEN: &str =
    "on the network of the node, port 10250 is the kubelet's: the container cannot listen on it";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    for template in templates(object) {
        let of_node = template.spec.get("hostNetwork").bool() == Some(true);
        for container in template.all_containers() {
            of_container(&container, of_node, ctx);
        }
    }
    for (chart, path, port, since) in CHARTS {
        let version = chart_version(object, chart, ctx.cluster()).and_then(Version::parse);
        for_each_values(object, chart, |values| {
            let switch = values.root.path(path);
            let number = values.root.path(port);
            let is_kubelets = match number.is_set() {
                true => number.int() == Some(PORT),
                false => version.is_some_and(|version| version >= since) && !values.root.has_unknown_key(),
            };
            if switch.bool() == Some(true) && is_kubelets && !values.may_differ {
                report_value(values, &switch, CANNOT_LISTEN.to_owned(), ctx)
                    .help(format!("set `{}` to another port", port.join(".")));
            }
        });
    }
    None
}

/// Where values put a pod on the network of the node, and where they set its port; the first version of the chart whose default
/// that is: `charts/metrics-server/CHANGELOG.md`, and `values.yaml` of cert-manager.
type Chart = (&'static str, &'static [&'static str], &'static [&'static str], Version);

const CHARTS: [Chart; 2] = [
    ("metrics-server", &["hostNetwork", "enabled"], &["containerPort"], Version::new(3, 10)),
    ("cert-manager", &["webhook", "hostNetwork"], &["webhook", "securePort"], Version::new(1, 0)),
];

fn of_container(container: &Node<'_>, of_node: bool, ctx: &mut Context<'_>) -> Option<()> {
    let ports: Vec<Node<'_>> = container.get("ports").items().collect();
    let has = |field: &str| ports.iter().map(|port| port.get(field)).find(|port| port.int() == Some(PORT));
    if !of_node {
        let node = has("hostPort")?;
        ctx.report(
            &node,
            "port 10250 of each node is the kubelet's: requests for it may reach this container",
        )
        .severity(Severity::Warning)
        .help("write another `hostPort`");
        return None;
    }
    let is_metrics_server = image_of(container).is_some_and(|image| image.last() == "metrics-server");
    let secure_port = option(&words(container), &["secure-port"]);
    let node = match secure_port.int_or(PORT)? {
        PORT if !is_metrics_server || secure_port.node().is_some() => {
            secure_port.node().or_else(|| has("containerPort")).or_else(|| has("hostPort"))?
        }
        _ => return None,
    };
    ctx.report(&node, CANNOT_LISTEN)
        .help("let it listen on another port, such as `--secure-port=4443`, and list that one");
    None
}
