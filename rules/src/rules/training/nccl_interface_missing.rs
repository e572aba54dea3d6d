//! A variable leaves NCCL no network interface of the pod.
//!
//! # Why
//! A pod has two network interfaces, `lo` and `eth0`, unless it is in the network of its node or Multus adds
//! more. `NCCL_SOCKET_IFNAME` lists beginnings of names; a leading `^` excludes them, a leading `=` makes them
//! exact. A value that was right on the host, such as `ens5` or `^lo,eth`, excludes the only interface, and
//! NCCL ends with `no socket interface found` at the start of the run. Gloo reads `GLOO_SOCKET_IFNAME` in the
//! same way, without `^` and `=`.
//!
//! # Fix
//! Write `eth0`, or remove the variable: NCCL finds the interface by itself.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v1
//!  kind: PyTorchJob
//!  metadata: {name: vision}
//!  spec:
//!    runPolicy: {backoffLimit: 3, ttlSecondsAfterFinished: 86400}
//!    pytorchReplicaSpecs:
//!      Worker:
//!        replicas: 2
//!        template:
//!          metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!          spec:
//!            nodeSelector: {topology.kubernetes.io/zone: us-west-2a}
//!            terminationGracePeriodSeconds: 120
//!            containers:
//!              - name: pytorch
//!                image: example.com/train/vision:1.4.0
//!                command: [torchrun, train.py, "--out=s3://runs/vision"]
//!                env:
//!                  - name: NCCL_SOCKET_IFNAME
//! -                  value: ^lo,eth # <-
//! +                  value: eth0
//!                resources:
//!                  requests: {cpu: 6, memory: 24Gi}
//!                  limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname>
//! - <https://docs.pytorch.org/docs/stable/distributed.html>

use crate::rules::prelude::*;
use crate::workload::command::words;

pub(crate) static RULE: Rule = Rule {
    id: "nccl-interface-missing",
    kinds: WORKLOAD_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("nccl_interface_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

const NCCL: &str = "NCCL_SOCKET_IFNAME";
const GLOO: &str = "GLOO_SOCKET_IFNAME";

/// The interface of a pod beside the loopback.
const POD_INTERFACE: &str = "eth0";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || !has_one_interface(object) {
        return None;
    }
    for template in templates(object) {
        for container in template.all_containers() {
            inspect(&container, ctx);
        }
    }
    None
}

/// Whether the pods of an object certainly have one interface beside the loopback: none is in the network of its node,
/// no annotation adds a network, and no claim may.
fn has_one_interface(object: &Object) -> bool {
    let adds_network = |metadata: &Node<'_>| {
        let annotations = metadata.get("annotations");
        let mut keys = annotations.entries().into_iter().map(|(key, _)| key);
        annotations.has_unknown_key() || keys.any(|key| key.contains("network") || key.contains("cni"))
    };
    !adds_network(&object.get("metadata"))
        && templates(object).iter().all(|template| {
            let host = template.spec.get("hostNetwork");
            (!host.is_set() || host.bool() == Some(false))
                && !template.spec.has_unknown_key()
                && !template.spec.get("resourceClaims").is_set()
                && !adds_network(&template.metadata)
        })
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) {
    for entry in container.get("env").items() {
        let value = entry.get("value");
        if let Some(name) = entry.get("name").text()
            && let Some(text) = value.text()
            && let Some(problem) = problem(name, text)
        {
            ctx.report(&value, problem)
                .help(format!("write `{POD_INTERFACE}`, or remove the variable"))
                .fix(Fix::unsafe_(format!("write `{POD_INTERFACE}`")).set(&value, json!(POD_INTERFACE)));
        }
    }
    // `mpirun -x NAME=VALUE`, and `export NAME=VALUE` in a script.
    for word in words(container).iter().filter(|word| word.known) {
        if let Some((name, text)) = word.text.split_once('=')
            && let Some(problem) = problem(name, text)
        {
            ctx.report(&word.node, problem).help(format!("write `{POD_INTERFACE}`, or remove the variable"));
            return;
        }
    }
}

/// What is wrong with the value of a variable; `None` if it is another variable, or leaves the interface of a pod.
fn problem(name: &str, value: &str) -> Option<String> {
    let value = value.trim_matches(['"', '\'']);
    if !matches!(name, NCCL | GLOO) || value.is_empty() || value.contains('$') {
        return None;
    }
    let (excludes, rest) = match value.strip_prefix('^') {
        Some(rest) if name == NCCL => (true, rest),
        _ => (false, value),
    };
    let (exact, rest) = match rest.strip_prefix('=') {
        Some(rest) if name == NCCL => (true, rest),
        _ => (name == GLOO, rest),
    };
    let mut listed = rest.split(',').map(str::trim).filter(|one| !one.is_empty()).peekable();
    listed.peek()?;
    let is_listed =
        listed.any(|one| if exact { one == POD_INTERFACE } else { POD_INTERFACE.starts_with(one) });
    // The ranks of one pod reach each other over the loopback.
    if is_listed != excludes || !excludes && rest.split(',').any(|one| one.trim().starts_with("lo")) {
        return None;
    }
    Some(if excludes {
        format!("`{name}` excludes `{POD_INTERFACE}`, the only network interface of the pod")
    } else {
        format!("`{name}` names `{}`, and the pod has only `{POD_INTERFACE}`", ellipsize(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::{GLOO, NCCL, problem};

    #[test]
    fn lists_are_beginnings_of_names() {
        for (name, value, wrong) in [
            (NCCL, "eth0", false),
            (NCCL, "eth", false),
            (NCCL, "=eth0", false),
            (NCCL, "^lo", false),
            (NCCL, "^lo,docker0,veth", false),
            (NCCL, "^=eth1", false),
            (NCCL, "ens5,eth0", false),
            (NCCL, "lo", false),
            (NCCL, "", false),
            (NCCL, "$IFACE", false),
            (NCCL, "ens", true),
            (NCCL, "=eth", true),
            (NCCL, "eth1", true),
            (NCCL, "^lo,eth", true),
            (NCCL, "^docker0,e", true),
            (NCCL, "bond0,ib0", true),
            (GLOO, "eth0", false),
            (GLOO, "eth", true),
            ("NCCL_IB_HCA", "mlx5", false),
        ] {
            assert_eq!(problem(name, value).is_some(), wrong, "{name}={value}");
        }
    }
}
