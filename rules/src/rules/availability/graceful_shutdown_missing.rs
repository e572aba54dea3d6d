//! A server aborts requests when its pod is deleted.
//!
//! # Why
//! When a pod is deleted, SIGTERM and its removal from the endpoints of its Services go out at once. For some
//! seconds load balancers still send requests to a server that has stopped accepting them, and vLLM aborts
//! the answers that it is generating as soon as it gets SIGTERM, unless `--shutdown-timeout` is set. Each
//! rollout, scale-down and consolidation of a node therefore fails requests. Generating a long answer takes
//! longer than the default grace period of 30 seconds, and a longer one changes nothing for vLLM. It is a
//! warning for two replicas and more. For a single one it is information, and only where the server generates
//! text, as vLLM and Ollama do: of others, a pod that goes loses its requests anyway, until the next one is
//! ready. Nor is it reported of a single replica in folders of examples.
//!
//! Where a shell starts the server as one of several commands, the signal goes to the shell, which waits: the
//! server works on until it is killed, whatever time it has. The entrypoint of AWS's Deep Learning Containers
//! of vLLM and SGLang for EC2 and EKS is such a script.
//!
//! Other servers are looked at where the input shows a load balancer of AWS that sends requests to the pods
//! themselves (`target-type: ip` of an Ingress or a Service), and that two replicas or more run. The
//! controller removes the pod from the target group when it sees that the pod ends, and the load balancer
//! needs some seconds more: requests of that time meet a closed port, and clients get 502. Nothing is said
//! where an option or a variable of the pods speaks of shutting down or draining.
//!
//! # Fix
//! Sleep some seconds in a preStop hook, so that load balancers notice, let the server finish (vLLM:
//! `--shutdown-timeout`, from 0.18 on) and raise `terminationGracePeriodSeconds` above both together.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//! -        - name: vllm # <-
//! +        - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//! +          lifecycle:
//! +            preStop:
//! +              sleep: {seconds: 15}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! +      terminationGracePeriodSeconds: 90
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/load-balancing.html>
//! - <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2366>
//! - <https://github.com/kserve/kserve/issues/5485>
//! - <https://github.com/vllm-project/vllm/issues/34730>

use super::behind_load_balancer;
use super::server_port_mismatch::starts_others;
use super::serving::{model_server, serving_templates, tell_autoscaler};
use crate::facts::text::is_digits;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name};
use crate::workload::launcher::is_later_rank;
use crate::workload::server::dynamo::is_discovered;
use crate::workload::server::{flag, is_kept_from_signals, server_at, serving_container};
use crate::workload::template::DEFAULT_GRACE;

pub(crate) static RULE: Rule = Rule {
    id: "graceful-shutdown-missing",
    kinds: REPLICATED_KINDS,
    reads: kinds![[Kind::NAMESPACE, Kind::HPA, Kind::SCALED_OBJECT], behind_load_balancer::READS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("graceful_shutdown_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let Some(classified) = model_server(object, ctx) else {
        return behind_load_balancer::check(object, ctx);
    };
    let replicas = ctx.cluster().views().replicas(object);
    let autoscaler = ctx.cluster().views().autoscaler_of(object);
    for template in serving_templates(object) {
        if behind_shell(object, &template, ctx).is_some() {
            continue;
        }
        let Some((container, server)) = stopped_at_once(object, &template, ctx) else { continue };
        let (hook, grace) =
            (container.path(&["lifecycle", "preStop"]), template.spec.get("terminationGracePeriodSeconds"));
        let who = server.map_or("the server", |server| server.name);
        let name = object.display_name();
        let is_default = template.grace_seconds().is_some_and(|seconds| seconds <= DEFAULT_GRACE);
        let message = match is_default {
            true => format!("{who} in `{name}` gets SIGTERM while requests still arrive"),
            false => format!("{who} in `{name}` aborts its requests at SIGTERM, whatever time it has to end"),
        };
        // pdb-missing leaves the single replica of an autoscaler to this finding. One that rests at zero is meant to end.
        let is_alone = replicas.is_some_and(|replicas| replicas.autoscaled && replicas.floor == 1);
        let help = match (is_default, is_alone) {
            (true, true) => {
                "sleep 15 s in a preStop hook, raise `terminationGracePeriodSeconds` to 90, and keep two replicas"
            }
            (true, false) => "sleep 15 s in a preStop hook, and raise `terminationGracePeriodSeconds` to 90",
            (false, true) => {
                "sleep 15 s in a preStop hook, write `--shutdown-timeout` (from 0.18 on), and keep two replicas"
            }
            (false, false) => "sleep 15 s in a preStop hook, and write `--shutdown-timeout` (from 0.18 on)",
        };
        let finding = ctx.report(&hook, message).help(help).fix(add_hook(&hook, &grace, is_default));
        if !is_default {
            finding.related(object, &grace, "the time to end");
        }
        if is_example(object) || replicas.is_none_or(|replicas| replicas.max < 2) {
            finding.severity(Severity::Info);
        }
        tell_autoscaler(finding, autoscaler);
        add_class_evidence(finding, object, &classified);
    }
    None
}

/// Whether this rule reports a server that is stopped at once.
pub(super) fn is_reported(object: &Object, ctx: &Context<'_>) -> bool {
    let is_stopped = |template: Template<'_>| stopped_at_once(object, &template, ctx).is_some();
    ctx.is_rule_enabled(RULE.id)
        && model_server(object, ctx).is_some()
        && serving_templates(object).into_iter().any(is_stopped)
}

/// The container of a server that nothing lets finish its requests, with the server if it is a known one. A single replica of one
/// that answers within seconds loses little, and so does one among examples.
fn stopped_at_once<'a>(
    object: &Object,
    template: &Template<'a>,
    ctx: &Context<'_>,
) -> Option<(Node<'a>, Option<&'static Server>)> {
    let seconds = template.grace_seconds()?;
    // A proxy without an accelerator answers within seconds.
    if !uses_device(template) {
        return None;
    }
    // A sidecar may delay the end of the pod as well.
    let mut hooks = template.all_containers().map(|container| container.path(&["lifecycle", "preStop"]));
    let container = serving_container(template).filter(|_| !hooks.any(|hook| hook.is_set()))?;
    let server = server_of(&container);
    let is_single = ctx.cluster().views().replicas(object).is_none_or(|replicas| replicas.max < 2);
    if is_single && (is_example(object) || !server.is_some_and(Server::generates)) {
        return None;
    }
    // Of several ranks the first alone gets requests, workers of Dynamo leave its discovery by themselves, and a script may keep the
    // signal from the server.
    if is_later_rank(template, &container)
        || is_discovered(&container)
        || waits_in_image(template, &container)
        || (seconds > DEFAULT_GRACE && !aborts_requests(&container))
    {
        return None;
    }
    let line = command_line(&container);
    let flags = server.map_or(&[][..], |server| server.drain_flags);
    let web = ["--timeout-graceful-shutdown", "--graceful-timeout"];
    let drains = flags.iter().chain(&web).any(|name| flag(&line, name).is_some());
    (!drains).then_some((container, server))
}

/// Whether a container runs vLLM alone, which aborts its requests as soon as it gets SIGTERM unless `--shutdown-timeout` is set:
/// its default is 0 since 0.18, and it did so before (pull request 36666 of vllm-project/vllm).
fn aborts_requests(container: &Node<'_>) -> bool {
    Launch::of(container).is_some_and(|launch| {
        launch.program.is(ServerId::Vllm) && launch.is_first && !launch.may_have_more_options()
    })
}

/// The fix: a hook, and time for it where that is short.
pub(super) fn add_hook(hook: &Node<'_>, grace: &Node<'_>, is_short: bool) -> Fix {
    let sleep = json!({"sleep": {"seconds": 15}});
    match is_short {
        true => Fix::unsafe_("wait for load balancers, and for requests in flight")
            .set(hook, sleep)
            .set(grace, json!(90)),
        false => Fix::unsafe_("wait for load balancers").set(hook, sleep),
    }
}

const SHELLS: [&str; 4] = ["sh", "bash", "dash", "ash"];
/// Words that end or divide a compound command, after which no other one may follow.
const CLOSING: [&str; 6] = ["fi", "else", "elif", "esac", "}", ")"];
/// Seconds to terminate that nobody writes for a server that ends at once.
const LONG_GRACE: i64 = 60;

/// Reports a server with time to drain that a shell runs as one of several commands: it is the shell that gets the signal, and
/// it waits. `Some` where it does.
fn behind_shell(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let container = serving_container(template)?;
    let by_image = waits_in_image(template, &container);
    let (server, node) = match kept_from_signal(template, &container) {
        None if by_image => (server_of(&container)?, container.get("image")),
        found => found?,
    };
    let grace = template.grace_seconds()?;
    let line = command_line(&container);
    let drains = server.drain_flags.iter().any(|name| flag(&line, name).is_some());
    if !drains && grace <= LONG_GRACE && !container.path(&["lifecycle", "preStop"]).is_set() {
        return None;
    }
    let message = format!(
        "the {} of `{}` keeps SIGTERM from {}: each deletion takes all {grace} s",
        if by_image { "entrypoint" } else { "shell" },
        object.display_name(),
        server.name
    );
    let finding = ctx.report(&node, message);
    if by_image {
        finding.severity(Severity::Info).help("start the server itself: write its program as `command`");
    } else {
        finding.help("start the server last, with `exec`, or pass the signal on with `trap`");
    }
    Some(())
}

/// Whether the entrypoint of the image waits for the server, and keeps the signal from it.
fn waits_in_image(template: &Template<'_>, container: &Node<'_>) -> bool {
    is_kept_from_signals(container) && !may_be_signalled(template, container)
}

/// Whether something else than the kubelet may send the server of a container its signal.
fn may_be_signalled(template: &Template<'_>, container: &Node<'_>) -> bool {
    let is_shared = template.spec.get("shareProcessNamespace").bool() == Some(true);
    let hook = container.path(&["lifecycle", "preStop", "exec", "command"]);
    // The hook may send the signal itself, with `kill`, `pkill` or `killall`.
    is_shared || hook.items().any(|word| word.raw_text().is_some_and(|text| text.contains("kill")))
}

/// The server in the script of a container's shell, if other commands follow it.
fn kept_from_signal<'a>(
    template: &Template<'a>,
    container: &Node<'a>,
) -> Option<(&'static Server, Node<'a>)> {
    let words = words(container);
    let (at, server) = (0..words.len()).find_map(|at| Some((at, server_at(&words, at)?.0)))?;
    shell_keeps_signals(template, container, &words, at).then(|| (server, words[at].node.clone()))
}

/// Whether a container's shell runs the program at a word as one of several commands, and keeps SIGTERM from it: the shell becomes
/// the last one of a script.
pub(in crate::rules) fn shell_keeps_signals(
    template: &Template<'_>,
    container: &Node<'_>,
    words: &[Word<'_>],
    at: usize,
) -> bool {
    let shell = container.get("command").items().next();
    let is_shell = shell.and_then(|shell| shell.text()).is_some_and(|text| SHELLS.contains(&base_name(text)));
    if !is_shell || may_be_signalled(template, container) || starts_others(container) {
        return false;
    }
    let mut before = words[..at].iter().rev().take_while(|word| word.text != ";");
    let is_replaced = before.any(|word| word.text == "exec") && !is_exec_in_pipeline(&words[at].node);
    if is_replaced || words.iter().any(|word| word.text == "trap") {
        return false;
    }
    // The `&` of `2>&1` and `&>` divides words as well.
    let is_command =
        |text: &str| !is_digits(text) && !text.starts_with('>') && text != ";" && !CLOSING.contains(&text);
    words[at..].windows(2).any(|pair| pair[0].text == ";" && is_command(&pair[1].text))
}

/// Whether `exec` is in a pipeline, whose commands run in shells of their own.
fn is_exec_in_pipeline(script: &Node<'_>) -> bool {
    let script = script.raw_text().unwrap_or_default().replace("\\\n", " ");
    script.lines().any(|line| line.split_once("exec ").is_some_and(|(_, rest)| rest.contains(" | ")))
}
