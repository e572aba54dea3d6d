//! A variable leaves NCCL no network interface of the pod.
//!
//! # Why
//! A pod has two network interfaces, `lo` and `eth0`, unless it is in the network of its node or an
//! annotation adds more: one of Multus, or `k8s.amazonaws.com/nicConfig` of the VPC CNI.
//! `NCCL_SOCKET_IFNAME` lists beginnings of names; a leading `^` excludes them, a leading `=` makes them
//! exact. A value that was right on the host, such as `ens5` or `^lo,eth`, excludes the only interface, and
//! NCCL ends with `no socket interface found` at the start of the run. Gloo reads `GLOO_SOCKET_IFNAME` as
//! whole names: with a `^` or `=` in it, PyTorch finds no address for any of them, also in the network of
//! the node.
//!
//! In the network of a node a list that excludes names leaves all others. The agent of EKS Pod Identity
//! adds `pod-id-link0` with the address 169.254.170.23 to each node: a rank that listens there is reached
//! by none of the others, and the run hangs. This is information, for lists with the interfaces of the VPC
//! CNI (`eni`): not every cluster has the agent.
//!
//! # Fix
//! Write `eth0`, or remove the variable: NCCL finds the interface by itself. In the network of the node exclude
//! `pod-id-link` as well, or name the interface of the instance.
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
//! - <https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html>

use crate::rules::prelude::*;

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
    if object.is_partial() {
        return None;
    }
    let is_known = has_one_interface(object);
    for template in templates(object) {
        let is_on_node = template.spec.get("hostNetwork").bool() == Some(true);
        for container in template.all_containers() {
            inspect(&container, is_known, ctx);
            if is_on_node {
                leaves_link(&container, ctx);
            }
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
        let adds = |key: &str| ["network", "cni", "nicConfig"].iter().any(|word| key.contains(word));
        annotations.has_unknown_key() || keys.any(adds)
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

/// `is_known` says whether the interfaces of the pod are.
fn inspect(container: &Node<'_>, is_known: bool, ctx: &mut Context<'_>) {
    let fault = |name: &str, text: &str, is_known: bool| match syntax_problem(name, text) {
        Some(problem) => Some((problem, Severity::Error)),
        None => problem(name, text).filter(|_| is_known).map(|problem| (problem, Severity::Warning)),
    };
    let words = words(container);
    let is_set_again = |name: &str| {
        words.iter().any(|word| word.text.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    };
    let instead = if is_known { format!("write `{POD_INTERFACE}`") } else { "name one interface".to_owned() };
    let help = format!("{instead}, or remove the variable");
    for entry in container.get("env").items() {
        let value = entry.get("value");
        if let Some(name) = entry.get("name").text()
            && let Some(text) = value.text()
            && let Some((problem, severity)) = fault(name, text, is_known)
            && !is_set_again(name)
        {
            let finding = ctx.report(&value, problem);
            finding.severity(severity).help(help.as_str());
            if is_known {
                finding.fix(Fix::unsafe_(instead.as_str()).set(&value, json!(POD_INTERFACE)));
            }
        }
    }
    // `mpirun -x NAME=VALUE`, and `export NAME=VALUE` in a script.
    // A script may look for the interface first.
    let is_conditional =
        words.iter().any(|word| ["if", "case", "[", "[[", "test"].contains(&word.text.as_str()));
    for word in words.iter().filter(|word| word.known) {
        if let Some((name, text)) = word.text.split_once('=')
            && let Some((problem, severity)) = fault(name, text, is_known && !is_conditional)
        {
            ctx.report(&word.node, problem).severity(severity).help(help.as_str());
            return;
        }
    }
}

/// The interface that the agent of EKS Pod Identity adds to a node.
const LINK: &str = "pod-id-link0";

/// Reports a list of excluded names that leaves the link of EKS Pod Identity. Of nodes elsewhere nothing is known.
fn leaves_link(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let entry = container.get("env").items().find(|entry| entry.get("name").text() == Some(NCCL))?;
    let value = entry.get("value");
    let rest = value.text()?.trim_matches(['"', '\'']).strip_prefix('^')?;
    let (exact, rest) = match rest.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let names = || rest.split(',').map(str::trim).filter(|name| !name.is_empty());
    let is_excluded = names().any(|name| if exact { name == LINK } else { LINK.starts_with(name) });
    // Who excludes the interfaces of the VPC CNI means to list all of a node of EKS.
    let is_meant_whole = names().any(|name| name.starts_with("eni"));
    if is_excluded || !is_meant_whole || rest.contains('$') || !ctx.platform().eks {
        return None;
    }
    let message =
        format!("`{NCCL}` leaves `{LINK}`, which has one address on all nodes with EKS Pod Identity");
    ctx.report(&value, message)
        .severity(Severity::Info)
        .help("exclude `pod-id-link` as well, or name the interface of the instance");
    None
}

/// A list for Gloo in the syntax of NCCL. PyTorch splits the value at commas and looks each part up as the name of an interface
/// (`ProcessGroupGloo`, 1.13 to 2.9): `Unable to find address for: ^lo`.
fn syntax_problem(name: &str, value: &str) -> Option<String> {
    let value = value.trim_matches(['"', '\'']);
    let is_of_nccl = name == GLOO && value.starts_with(['^', '=']) && !value.contains('$');
    is_of_nccl
        .then(|| format!("`{name}` takes names of interfaces, and `{}` is syntax of NCCL", ellipsize(value)))
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
