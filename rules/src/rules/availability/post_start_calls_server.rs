//! A postStart hook calls the server of its container too early, or waits forever.
//!
//! # Why
//! A `postStart` hook runs at the same time as the command of the container, and nothing says which is first.
//! A hook that loads a model, such as `ollama pull`, mostly asks before the server listens, and fails. The
//! kubelet then kills the container, and it begins again: the pod restarts in a loop. A hook that waits, or
//! runs in the background, is left out.
//!
//! The container is not running for the kubelet before the hook ends: no probe asks it. A hook that waits in
//! a loop until a model is loaded waits forever if the load hangs, and nothing restarts the server. Ollama
//! listens before it loads a model, so that a loop for it is short.
//!
//! # Fix
//! Wait for the server in the hook: `until ollama list; do sleep 1; done; ollama pull …`. Or load the model
//! from an init container or a sidecar. Leave it to a startup probe to wait for a model, or end the loop:
//! `timeout 900 sh -c 'until curl -sf …; do sleep 5; done'`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: notes}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: notes}}
//!    template:
//!      metadata: {labels: {app: notes}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: ollama
//!            image: ollama/ollama:0.12.0
//!            readinessProbe: {httpGet: {path: /, port: 11434}}
//!            lifecycle:
//!              preStop: {sleep: {seconds: 15}}
//!              postStart:
//!                exec:
//! -                command: [sh, -c, ollama pull qwen3:8b] # <-
//! +                command: [sh, -c, until ollama list; do sleep 1; done; ollama pull qwen3:8b]
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 16Gi, nvidia.com/gpu: 1}
//!            volumeMounts: [{name: models, mountPath: /root/.ollama}]
//!        volumes: [{name: models, emptyDir: {sizeLimit: 50Gi}}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/>
//! - <https://github.com/otwld/ollama-helm/issues/100>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "post-start-calls-server",
    docs: docs(include_str!("post_start_calls_server.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.containers() {
        inspect(&container, ctx);
    }
    None
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let hook = container.path(&["lifecycle", "postStart"]);
    let server = server_of(container).filter(|_| hook.is_mapping())?;
    let get = hook.get("httpGet");
    let node = if get.is_set() {
        let (port, _) = server.listens_on(container)?;
        let is_other_host = get.get("host").is_set() || get.get("port").int() != Some(port);
        (!is_other_host).then(|| get.clone())?
    } else {
        let command = hook.path(&["exec", "command"]);
        let words: Option<Vec<&str>> = command.items().map(|word| word.text()).collect();
        let script = words?.join(" ");
        if waits_without_end(server, container, &script) {
            let message = format!("the hook waits for {} without end, and no probe runs before", server.name);
            ctx.report(&command, message).help(
                "leave the waiting to a startup probe, which restarts a load that hangs, or add `timeout`",
            );
            return Some(());
        }
        calls(server, container, &script).then_some(command)?
    };
    let message =
        format!("the hook calls {} while it starts: if it fails, the container is restarted", server.name);
    ctx.report(&node, message).help("wait in the hook until the server answers, or load models elsewhere");
    Some(())
}

/// Whether a script asks a server that loads its model before it listens, again and again without a limit.
fn waits_without_end(server: &Server, container: &Node<'_>, script: &str) -> bool {
    /// Signs of a limit: a program that ends the loop, a counter, a clock, an end in failure.
    const LIMITS: [&str; 15] = [
        "timeout ", "seq ", "$((", "((", "$[", "+=", "expr ", "let ", " -lt ", " -gt ", " -le ", " -ge ",
        " -eq ", " -ne ", "SECONDS",
    ];
    // The options of one request do not limit the loop.
    let script = script.replace("-timeout ", " ");
    let has_list = script.split("for ").skip(1).any(|rest| rest.split_whitespace().nth(1) == Some("in"));
    let has_loop = ["while ", "until "].iter().any(|word| script.contains(word)) && script.contains("sleep");
    let mut words = script.split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '(' | ')' | '}'));
    // Also the calculator counts, and `exit` ends the loop.
    let is_ended = script.split("exit ").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || words.any(|word| word == "bc");
    has_loop
        && !has_list
        && !is_ended
        && server.id != ServerId::Ollama
        && !is_in_background(&script)
        && !LIMITS.iter().any(|sign| script.contains(sign))
        && asks(server, container, &script)
}

/// Whether a script leaves commands running when it ends.
fn is_in_background(script: &str) -> bool {
    script.contains("nohup") || script.replace("&&", "").replace(">&", "").replace("&>", "").contains('&')
}

/// Whether a script calls the server once, and fails if that does not answer.
fn calls(server: &Server, container: &Node<'_>, script: &str) -> bool {
    /// Words of scripts that wait, try again, or do not fail.
    const PATIENT: [&str; 10] =
        ["until", "while", "for ", "sleep", "retry", "wait-for", "nc -z", "|| true", "|| exit 0", "|| :"];
    // A file may hold the loop.
    if is_in_background(script) || PATIENT.iter().any(|sign| script.contains(sign)) || script.contains(".sh")
    {
        return false;
    }
    if server.id == ServerId::Ollama {
        let has = |subcommand: &str| script.contains(&format!("ollama {subcommand} "));
        if ["pull", "run", "create", "cp"].iter().any(|subcommand| has(subcommand)) {
            return true;
        }
    }
    asks(server, container, script)
}

/// Whether a script sends a request to the port of the server.
fn asks(server: &Server, container: &Node<'_>, script: &str) -> bool {
    let Some((port, _)) = server.listens_on(container) else { return false };
    let hosts = ["localhost", "127.0.0.1", "0.0.0.0"];
    // Without `--fail`, curl fails where nothing listens as well.
    ["curl ", "wget "].iter().any(|program| script.contains(program))
        && hosts.iter().any(|host| {
            let address = format!("{host}:{port}");
            script.split(&address).skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
}
