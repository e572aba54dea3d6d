//! A pod tolerates the taint by which Karpenter drains nodes.
//!
//! # Why
//! Karpenter taints a node with `karpenter.sh/disrupted:NoSchedule` before it drains it, and takes every
//! pod that tolerates this taint for one that means to stay, as DaemonSets do. Such a pod is not
//! evicted: it gets no grace period and no replacement, and dies with the instance. A toleration with
//! `operator: Exists` and no key tolerates this taint as well; that is reported where the input or the
//! configuration (`platform.karpenter`) shows Karpenter.
//!
//! # Fix
//! Name the taints that are meant, such as `nvidia.com/gpu`. Pods of `kube-system`, on the host's
//! network, and exporters or plugins that belong on every node are left alone.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: report}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: report}}
//!    template:
//!      metadata: {labels: {app: report}}
//!      spec:
//!        nodeSelector: {karpenter.sh/capacity-type: on-demand}
//!        tolerations:
//!          - {key: dedicated, operator: Exists}
//! -        - operator: Exists # <-
//!        containers:
//!          - name: main
//!            image: example.com/report:1.2.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#termination-controller>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1894>

use crate::rules::karpenter_in_use::{READS, uses_karpenter};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "tolerates-disruption-taint",
    kinds: WORKLOAD_KINDS,
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("tolerates_disruption_taint.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

const TAINT: &str = "karpenter.sh/disrupted";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let system = object.namespace() == Some("kube-system");
    if object.is(Kind::DAEMON_SET) || system || ctx.class_of(object).is(WorkloadClass::Infra) {
        return None;
    }
    for template in templates(object) {
        if template.spec.get("hostNetwork").bool() == Some(true) {
            continue;
        }
        let tolerations = template.spec.get("tolerations");
        for toleration in tolerations.items() {
            // A toleration of all taints matters only if Karpenter drains the nodes.
            if let Some(blanket) = tolerates(&toleration).filter(|blanket| !blanket || uses_karpenter(ctx)) {
                report(&template, &tolerations, &toleration, blanket, ctx);
            }
        }
    }
    None
}

/// Whether Karpenter evicts none of the pods when it drains a node, because they tolerate its taint, or may tolerate it.
pub(in crate::rules) fn may_stay_in_drains(template: &Template<'_>) -> bool {
    let tolerations = template.spec.get("tolerations");
    tolerations.has_unknown() || tolerations.items().any(|toleration| tolerates(&toleration).is_some())
}

/// Whether a toleration matches Karpenter's taint. `Some(true)` if it matches all taints.
fn tolerates(toleration: &Node<'_>) -> Option<bool> {
    let says = |name: &str| -> Option<&str> {
        let node = toleration.get(name);
        if node.is_set() { node.text() } else { Some("") }
    };
    if !matches!(says("effect")?, "" | "NoSchedule") {
        return None;
    }
    match (says("key")?, says("operator")?) {
        ("", "Exists") => Some(true),
        (TAINT, "Exists") => Some(false),
        // The taint has no value.
        (TAINT, "" | "Equal") => says("value")?.is_empty().then_some(false),
        _ => None,
    }
}

fn report(
    template: &Template<'_>,
    tolerations: &Node<'_>,
    toleration: &Node<'_>,
    blanket: bool,
    ctx: &mut Context<'_>,
) {
    let accelerated = requests_accelerator(template);
    let fix =
        Fix::new("name the taints that are meant; check on which nodes the pod must run", Safety::Unsafe);
    let named = |key: &str| tolerations.items().any(|t| t.get("key").text() == Some(key));
    let fix = if blanket && accelerated && !named("nvidia.com/gpu") {
        let gpu = json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"});
        fix.set(toleration, gpu)
    } else if tolerations.items().count() == 1 {
        fix.remove(tolerations)
    } else {
        fix.remove(toleration)
    };
    let (node, message) = if blanket {
        (
            toleration.get("operator"),
            format!("this tolerates every taint, `{TAINT}` too: the pod is never drained"),
        )
    } else {
        (
            toleration.get("key"),
            format!("a pod that tolerates `{TAINT}` is never drained, and dies with its node"),
        )
    };
    ctx.report(&node, message)
        .help("tolerate the taints by name; only DaemonSets stay on a node that is drained")
        .fix(fix);
}
