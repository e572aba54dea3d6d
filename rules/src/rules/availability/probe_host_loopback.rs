//! A probe asks the kubelet's own node, and not the pod.
//!
//! # Why
//! The kubelet sends the requests of probes and of `httpGet` hooks itself, from the network of the node. The
//! default of `host` is the address of the pod. `localhost` is the node, where nothing listens at this port:
//! the container is restarted again and again, or the pod never becomes ready. It is often copied from a
//! health check of Docker, which runs inside the container.
//!
//! On the network of the node (`hostNetwork`) it is right. Pods into which a webhook injects a sidecar are
//! left out: Istio lets its agent in the pod ask. So are those of Knative and KServe, whose proxy asks.
//!
//! # Fix
//! Remove `host`. A name that the server wants to see is a header: `httpHeaders: [{name: Host, value: ...}]`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: web}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: web}}
//!    template:
//!      metadata: {labels: {app: web}}
//!      spec:
//!        containers:
//!          - name: web
//!            image: example.com/web:1.4.0
//!            readinessProbe:
//!              httpGet:
//! -              host: localhost # <-
//!                path: /ready
//!                port: 8080
//!            resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 128Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe>
//! - <https://github.com/istio/istio/issues/32687>

use crate::rules::gpu::server_on_loopback::LOOPBACK;
use crate::rules::monitoring::pod_monitor_selects_nothing::are_injected;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "probe-host-loopback",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("probe_host_loopback.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

/// What the kubelet asks, and what follows if it gets no answer.
const HANDLERS: [(&[&str], &str); 5] = [
    (&["livenessProbe"], "the container is restarted again and again"),
    (&["startupProbe"], "the container is restarted again and again"),
    (&["readinessProbe"], "the pod is never ready"),
    (&["lifecycle", "postStart"], "the container is ended again and again"),
    (&["lifecycle", "preStop"], "the container never gets the request"),
];

/// `pkg/kubelet/prober` and `pkg/kubelet/lifecycle` of Kubernetes 1.34: an empty host is the address of the pod.
fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    // Other operators may write probes anew, or let a proxy in the pod ask.
    let is_plain =
        matches!(object.group(), "" | "apps" | "batch" | "argoproj.io" | "leaderworkerset.x-k8s.io");
    let spec = &template.spec;
    let network = spec.get("hostNetwork");
    if !is_plain
        || object.may_lack_fields()
        || spec.has_unknown_key()
        || network.is_set() && network.bool() != Some(false)
        || are_injected(std::slice::from_ref(template))
        || is_injected_by_namespace(object, ctx)
    {
        return None;
    }
    for container in template.lasting_containers() {
        // A port of the node leads to the pod.
        let mut ports = container.get("ports").items();
        if !ports.any(|port| port.get("hostPort").is_set()) {
            inspect(object, &container, ctx);
        }
    }
    None
}

/// Reports the first handler of a container with the host, and names the others.
fn inspect(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let of_handler = |(path, effect): (&'static [&'static str], &'static str)| {
        let hosts = ["httpGet", "tcpSocket"].map(|kind| container.path(path).get(kind).get("host"));
        let host = hosts.into_iter().find(|host| host.text().is_some_and(|text| LOOPBACK.contains(&text)))?;
        Some((host, effect))
    };
    let found: Vec<(Node<'_>, &str)> = HANDLERS.into_iter().filter_map(of_handler).collect();
    let ((first, effect), others) = found.split_first()?;
    let message = format!("the kubelet asks its own node at `{}`, not the pod: {effect}", first.text()?);
    let mut fix = Fix::unsafe_("ask the pod; check that the server does not listen on this address alone");
    for (host, _) in &found {
        fix = fix.remove(host);
    }
    let finding = ctx.report(first, message);
    finding.help("remove `host`: the default is the address of the pod").fix(fix);
    for (other, _) in others {
        finding.related(object, other, "and here");
    }
    None
}

/// Whether a label of the namespace in the input asks for sidecars.
fn is_injected_by_namespace(object: &Object, ctx: &Context<'_>) -> bool {
    let namespace = ctx.partner(Kind::NAMESPACE, "default", object.namespace_or_default());
    namespace.is_some_and(|namespace| {
        let labels = namespace.path(&["metadata", "labels"]).entries();
        labels.iter().any(|(key, _)| mentions(key, &["istio", "inject", "linkerd", "kuma"]))
    })
}
