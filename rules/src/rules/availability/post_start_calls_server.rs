//! A postStart hook calls the server of its container, which may not listen yet.
//!
//! # Why
//! A `postStart` hook runs at the same time as the command of the container, and nothing says which is first.
//! A hook that loads a model, such as `ollama pull`, mostly asks before the server listens, and fails. The
//! kubelet then kills the container, and it begins again: the pod restarts in a loop. A hook that waits in a
//! loop, or in the background, is left out.
//!
//! # Fix
//! Wait for the server in the hook: `until ollama list; do sleep 1; done; ollama pull …`. Or load the model
//! from an init container or a sidecar.
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
use crate::workload::server::{Server, ServerId, server_of};

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
        calls(server, container, &words?.join(" ")).then_some(command)?
    };
    let message =
        format!("the hook calls {} while it starts: if it fails, the container is restarted", server.name);
    ctx.report(&node, message).help("wait in the hook until the server answers, or load models elsewhere");
    Some(())
}

/// Whether a script calls the server once, and fails if that does not answer.
fn calls(server: &Server, container: &Node<'_>, script: &str) -> bool {
    /// Words of scripts that wait, try again, or do not fail.
    const PATIENT: [&str; 11] = [
        "until",
        "while",
        "for ",
        "sleep",
        "retry",
        "wait-for",
        "nohup",
        "nc -z",
        "|| true",
        "|| exit 0",
        "|| :",
    ];
    let in_background = script.replace("&&", "").replace(">&", "").replace("&>", "").contains('&');
    // A file may hold the loop.
    if in_background || PATIENT.iter().any(|sign| script.contains(sign)) || script.contains(".sh") {
        return false;
    }
    if server.id == ServerId::Ollama {
        let has = |subcommand: &str| script.contains(&format!("ollama {subcommand} "));
        if ["pull", "run", "create", "cp"].iter().any(|subcommand| has(subcommand)) {
            return true;
        }
    }
    let Some((port, _)) = server.listens_on(container) else {
        return false;
    };
    let hosts = ["localhost", "127.0.0.1", "0.0.0.0"];
    // Without `--fail`, curl fails where nothing listens as well.
    ["curl ", "wget "].iter().any(|program| script.contains(program))
        && hosts.iter().any(|host| {
            let address = format!("{host}:{port}");
            script.split(&address).skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
}
