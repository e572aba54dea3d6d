//! A flag and its value are one argument with a space between them.
//!
//! # Why
//! Each item of `args` and `command` reaches the program as it is: no shell splits it. The program
//! looks for an option whose name is `--max-model-len 8192`, blank included, finds none, and exits. The
//! pod restarts in a loop, on a GPU node that was started for it. It is reported for servers and
//! launchers that are known to reject it.
//!
//! # Fix
//! Write `--flag=value`, or two items.
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
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args:
//!              - --model=mistralai/Mistral-7B-v0.3
//! -            - --max-model-len 8192 # <-
//! +            - --max-model-len=8192
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/>
//! - <https://docs.python.org/3/library/argparse.html#option-value-syntax>

use crate::rules::prelude::*;
use crate::workload::server::server_of;

pub(crate) static RULE: Rule = Rule {
    id: "argument-with-blank",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("argument_with_blank.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.containers() {
        let words = || container.get("command").items().chain(container.get("args").items());
        // An argument of a shell is a script, or an argument of a script.
        let shell = |word: &Node<'_>| {
            let program = word.raw_text().and_then(|text| text.rsplit('/').next());
            program.is_some_and(|name| matches!(name, "sh" | "bash" | "ash" | "dash" | "env" | "tini" | "-c"))
        };
        if words().any(|word| shell(&word)) {
            continue;
        }
        let program = match server_of(&container) {
            // Ollama has hardly any options.
            Some(server) if server.name != "Ollama" => server.name.to_owned(),
            _ => {
                // Arguments after the script belong to the script.
                let Some(launcher) = launcher(&container) else {
                    continue;
                };
                launcher.to_owned()
            }
        };
        for word in words() {
            let Some(text) = word.text() else {
                continue;
            };
            if is_script(text) {
                break;
            }
            let Some((name, value)) = split(text) else {
                continue;
            };
            let shown = if text.chars().count() > 60 { name } else { text };
            let finding = ctx.report(
                &word,
                format!("{program} rejects `{shown}`: flag and value are one argument, with a blank in it"),
            );
            finding.help(format!("write `{name}=…`, or flag and value as two items"));
            if !value.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')) {
                finding.fix(
                    Fix::new("write `=` for the blank", Safety::Unsafe)
                        .set(&word, json!(format!("{name}={value}"))),
                );
            }
        }
    }
    None
}

/// The flag and the value of an argument that holds both.
fn split(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(char::is_whitespace)?;
    let flag = name.strip_prefix("--")?;
    let valid = flag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let value = value.trim();
    (valid && !flag.is_empty() && !value.is_empty()).then_some((name, value))
}

/// The launcher, if it is the container's program.
fn launcher(container: &Node<'_>) -> Option<&'static str> {
    let mut words = container.get("command").items().chain(container.get("args").items());
    let first = words.next()?;
    let program = first.text()?.rsplit('/').next()?;
    match program {
        "torchrun" => Some("torchrun"),
        "accelerate" => (words.next()?.text()? == "launch").then_some("accelerate"),
        _ => None,
    }
}

fn is_script(text: &str) -> bool {
    text.ends_with(".py") && !text.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn flags_with_a_blank_before_the_value() {
        for (text, expected) in [
            ("--max-model-len 8192", Some(("--max-model-len", "8192"))),
            ("--max-model-len  8192 ", Some(("--max-model-len", "8192"))),
            ("--max-model-len=8192", None),
            ("--chat-template={{ x }} y", None),
            ("--override={\"a\": 1}", None),
            ("--flag ", None),
            ("-- x", None),
            ("hello --world 1", None),
            ("-tp 2", None),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
