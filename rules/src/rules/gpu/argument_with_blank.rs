//! Several words of a command line are one item, which nothing splits.
//!
//! # Why
//! Each item of `args` and `command` reaches the program as it is: no shell splits it. The program
//! looks for an option whose name is `--max-model-len 8192`, blank included, finds none, and exits. The
//! pod restarts in a loop, on a GPU node that was started for it. It is reported for servers and
//! launchers that are known to reject it.
//!
//! For the same reason quotes inside an item are part of the value: `--limit-mm-per-prompt` with the item
//! `"'{...}'"` is no JSON, and `--served-model-name='chat'` names a model with quotes. YAML removes its own
//! quotes only.
//!
//! As the first item of `command`, `python3 serve.py` is the name of a program that does not exist, and so is
//! `--model`: `command` replaces the program that the image starts, and its options are `args`.
//! `sh` without `-c` takes a command line for the name of a file, and with `-c` it runs the item after it
//! alone: options in further items reach no program. That is reported for all containers, probes and hooks.
//!
//! # Fix
//! Write `--flag=value`, or two items; each word of `command` as an item, or all of it after `sh -c`. Leave out
//! quotes that are inside the quotes of YAML.
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

use std::borrow::Cow;

use crate::facts::text::first_line;
use crate::rules::prelude::*;
use crate::workload::command::{SHELLS, base_name, command_and_args, shell_script};
use crate::workload::image::deep_learning_container;

pub(crate) static RULE: Rule = Rule {
    id: "argument-with-blank",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("argument_with_blank.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // KubeRay writes the items of a container into one script.
    let is_script = ctx.object().group() == "ray.io";
    for container in template.all_containers() {
        if is_script || !commands(&container, ctx) {
            flags(&container, ctx);
        }
        // KServe's configurations of an LLMInferenceService pass the arguments to `eval`.
        if !is_script && !ctx.object().is(Kind::LLM_INFERENCE_SERVICE) {
            quotes(&container, ctx);
        }
    }
    None
}

/// Reports commands of a container, of its probes and of its hooks that are not divided into words as they need to be.
fn commands(container: &Node<'_>, ctx: &mut Context<'_>) -> bool {
    let probes = ["startupProbe", "livenessProbe", "readinessProbe"].map(|name| container.get(name));
    let hooks = ["postStart", "preStop"].map(|name| container.path(&["lifecycle", name]));
    for place in probes.into_iter().chain(hooks) {
        command(&place.path(&["exec", "command"]), &[], ctx);
    }
    let args: Vec<Node<'_>> = container.get("args").items().collect();
    command(&container.get("command"), &args, ctx).is_some()
}

/// Reports a command. `None` if it is right, as far as it is known.
fn command(command: &Node<'_>, args: &[Node<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let first = command.items().next()?;
    let items = command.items().chain(args.iter().cloned()).skip(1);
    let program = first.text()?;
    if program.starts_with('-') && program.len() > 1 {
        let message =
            format!("no program is called `{}`: `command` replaces that of the image", shown(program));
        ctx.report(&first, message).help("write it in `args`, which the program of the image gets");
        return Some(());
    }
    if is_command_line(program, true) {
        let message = format!("no program is called `{}`: an item of `command` is one word", shown(program));
        ctx.report(&first, message).help("write each word as an item, or run it with `sh -c`");
        return Some(());
    }
    if !SHELLS.contains(&base_name(program)) {
        return None;
    }
    let items: Vec<Node<'_>> = items.collect();
    if let Some(found) = shell_script(std::iter::once(first.clone()).chain(items.iter().cloned())) {
        return arguments_of_shell(found.node.text()?, &found.arguments, ctx);
    }
    let of_shell = items.iter().position(|item| !is_option(item)).unwrap_or(items.len());
    let (options, rest) = items.split_at(of_shell);
    let has = |letters: &[char]| {
        let short = |item: &Node<'_>| {
            item.text().is_some_and(|text| !text.starts_with("--") && text.contains(letters))
        };
        options.iter().any(short)
    };
    let script = rest.first()?;
    let text = script.text()?;
    if has(&['c']) {
        return None;
    }
    // Options with a value, and a script from standard input.
    let others =
        options.iter().any(|item| item.text().is_some_and(|text| text.starts_with("--") && text.len() > 2));
    if has(&['o', 's', 'O']) || others || !is_command_line(text, false) {
        return None;
    }
    let name = base_name(program);
    let message = format!("`{name}` opens a file called `{}`: `-c` is missing", shown(text));
    let finding = ctx.report(script, message);
    finding.help("write `-c` before the script");
    let words: Option<Vec<&str>> = command.items().map(|item| item.raw_text()).collect();
    if let Some(mut words) =
        words.filter(|_| args.first().is_some_and(|one| one.pointer() == script.pointer()))
    {
        words.push("-c");
        finding.fix(Fix::unsafe_("run the script with `-c`").set(command, json!(words)));
    }
    Some(())
}

/// Reports items after the script of `sh -c`, which the script does not read.
fn arguments_of_shell(script: &str, items: &[Node<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let reads = script.as_bytes().windows(2).any(|pair| {
        pair[0] == b'$' && (pair[1].is_ascii_digit() || matches!(pair[1], b'@' | b'*' | b'#' | b'{' | b'('))
    });
    let is_flag = |item: &Node<'_>| item.text().is_some_and(|text| text.len() > 2 && text.starts_with('-'));
    // The first one is the name of the script, by custom that of the shell.
    let is_name = |text: &str| SHELLS.contains(&base_name(text)) || matches!(text, "-" | "--" | "_");
    let lost = items.iter().find(|item| item.text().is_some_and(|text| !is_name(text)));
    let (lost, all_known) = (lost?, items.iter().all(|item| item.text().is_some()));
    // One word may be a name for messages, unless the script is a program alone, which expects arguments.
    let is_program = || !script.trim().contains(char::is_whitespace);
    let is_command =
        |item: &Node<'_>| item.text().is_some_and(|text| text.trim().contains(char::is_whitespace));
    if !items.iter().any(|item| is_flag(item) || is_command(item)) && !is_program() {
        return None;
    }
    if reads || !all_known || script.contains("shift") || is_placeholder(script) {
        return None;
    }
    let message =
        format!("`{}` reaches no program: the shell runs `{}` alone", shown(lost.text()?), shown(script));
    ctx.report(lost, message).help("write it into the script after `-c`, or leave out the shell");
    Some(())
}

fn is_option(item: &Node<'_>) -> bool {
    item.text().is_some_and(|text| text.starts_with(['-', '+']))
}

fn shown(text: &str) -> Cow<'_, str> {
    first_line(text, 40)
}

/// Whether an item is a program with its arguments, and not the name of a file with a blank in it.
fn is_command_line(text: &str, in_path: bool) -> bool {
    /// Programs of which nobody calls a file `NAME something`.
    const PROGRAMS: [&str; 22] = [
        "accelerate",
        "bash",
        "cat",
        "cd",
        "curl",
        "deepspeed",
        "echo",
        "exec",
        "java",
        "lmdeploy",
        "mpirun",
        "node",
        "nvidia-smi",
        "ollama",
        "pip",
        "python",
        "python3",
        "sh",
        "sleep",
        "torchrun",
        "tritonserver",
        "vllm",
    ];
    let mut words = text.split_whitespace();
    let (Some(program), Some(next)) = (words.next(), words.next()) else { return false };
    if program.contains(['$', '{', '%', '\\']) || is_placeholder(text) {
        return false;
    }
    PROGRAMS.contains(&base_name(program))
        || next.starts_with('-')
        || in_path && !program.contains('/')
        || !in_path && text.trim().contains("\n")
}

/// The items of a command line. `None` if a shell may read them: an argument of a shell is a script, or one of a script.
fn plain_items<'a>(container: &Node<'a>) -> Option<Vec<Node<'a>>> {
    let words: Vec<Node<'a>> = command_and_args(container).collect();
    let is_shell = |word: &Node<'_>| {
        let program = word.raw_text().map(base_name);
        program.is_some_and(|name| matches!(name, "sh" | "bash" | "ash" | "dash" | "env" | "tini" | "-c"))
    };
    (!words.iter().any(is_shell)).then_some(words)
}

/// Reports options of a server whose value is in quotes that nothing removes.
fn quotes(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let items = plain_items(container)?;
    let server = server_of(container).filter(|server| server.id != ServerId::Ollama)?;
    // The entrypoint of another image may be a script that reads its arguments again.
    let is_direct = container.get("command").is_set()
        || server.is_in_published_image_of(container)
            && image_of(container).is_some_and(|image| deep_learning_container(&image).is_none());
    if !is_direct || server.id == ServerId::Nim {
        return None;
    }
    let is_option = |text: &str| text.starts_with("--");
    for (at, item) in items.iter().enumerate() {
        let Some(text) = item.text() else { continue };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if is_option(name) => (name, value),
            _ => {
                let before = at.checked_sub(1).and_then(|at| items[at].raw_text());
                let Some(name) = before.filter(|name| is_option(name) && !name.contains('=')) else {
                    continue;
                };
                (name, text)
            }
        };
        let Some(bare) = unquoted(value) else { continue };
        let effect =
            if bare.starts_with(['{', '[']) { "reads no JSON" } else { "takes them as a part of it" };
        let finding = ctx.report(
            item,
            format!("no shell removes the quotes of `{}`: {} {effect}", shown(text), server.name),
        );
        finding.help(format!("write the value of `{}` without quotes inside the item", shown(name)));
        let written = if text.len() == value.len() { bare.to_owned() } else { format!("{name}={bare}") };
        finding.fix(Fix::unsafe_("remove the quotes").set(item, json!(written)));
    }
    Some(())
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> Option<&str> {
    let value = value.trim();
    ['\'', '"'].into_iter().find_map(|quote| {
        let bare = value.strip_prefix(quote)?.strip_suffix(quote)?;
        (!bare.is_empty() && !bare.contains(quote)).then_some(bare)
    })
}

/// Reports flags with a blank before their value.
fn flags(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let words = plain_items(container)?;
    let program = match server_of(container) {
        // Ollama has hardly any options.
        Some(server) if server.id != ServerId::Ollama => server.name.to_owned(),
        // Arguments after the script belong to the script.
        _ => launcher(container)?.to_owned(),
    };
    for word in words {
        let Some(text) = word.text() else { continue };
        if is_script(text) {
            break;
        }
        let Some((name, value)) = split(text) else { continue };
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
    let mut words = command_and_args(container);
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
