//! A variable in `env`, or in arguments that no shell reads, is not expanded.
//!
//! # Why
//! No shell reads `env`: Kubernetes replaces `$(NAME)` by variables that the pod defines before, and nothing
//! else. `PATH: /opt/tools/bin:$PATH` gives the container a `PATH` that ends in the four letters `$PATH`, without
//! the folders of its image, and its command is not found. `$(PATH)` does not help either: the variables of the
//! image are not known to Kubernetes. It is reported for lists of folders: `PATH`, `LD_LIBRARY_PATH`,
//! `PYTHONPATH` and the like.
//!
//! Nor does a shell read `command` and `args`, unless one of them starts it: with `--node-rank=$RANK` the program
//! gets the five characters `$RANK`. It is reported of variables that the container has. A shell in turn expands
//! nothing between single quotes: a server that gets JSON in such quotes reads `$POD_IP` as it is written.
//! `$(MASTER_ADDR)` and the like stay as they are where neither the container nor its controller defines them:
//! PyTorchJobs have `MASTER_ADDR`, TrainJobs `PET_MASTER_ADDR`, Jobs and JobSets none.
//!
//! # Fix
//! Write the folders of the image in full, or set the variable in a script: `sh -c 'PATH=/opt/bin:$PATH exec …'`.
//! In `command` and `args` write `$(RANK)`, which Kubernetes replaces, also between single quotes.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: encode}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/encode:1.4.0
//!            env:
//!              - name: LD_LIBRARY_PATH
//! -              value: /opt/codec/lib:$LD_LIBRARY_PATH # <-
//! +              value: /opt/codec/lib:/usr/local/nvidia/lib64
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>

use std::ops::Range;

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::rules::prelude::*;
use crate::source::Source;
use crate::workload::command::{SHELLS, base_name, command_and_args, shell_script};
use crate::workload::environment::{entry, is_open};

pub(crate) static RULE: Rule = Rule {
    id: "environment-not-expanded",
    kinds: WORKLOAD_KINDS,
    reads: &POD_POLICIES,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("environment_not_expanded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Variables with lists of folders.
const LISTS: [&str; 8] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "PYTHONPATH",
    "CPATH",
    "CLASSPATH",
    "NODE_PATH",
    "PKG_CONFIG_PATH",
];

/// Shells, programs that hand words to one, and programs that replace variables in their options or settings by themselves.
const EXPANDING: [&str; 43] = [
    "sh",
    "bash",
    "ash",
    "dash",
    "zsh",
    "ksh",
    "busybox",
    "ssh",
    "pdsh",
    "su",
    "runuser",
    "script",
    "eval",
    "envsubst",
    "perl",
    "awk",
    "make",
    "npm",
    "yarn",
    "pnpm",
    "ray",
    "vector",
    "otelcol",
    "otelcol-contrib",
    "opentelemetry-collector",
    "opentelemetry-collector-contrib",
    "opentelemetry-collector-k8s",
    "aws-otel-collector",
    "fluent-bit",
    "fluentd",
    "telegraf",
    "logstash",
    "filebeat",
    "metricbeat",
    "promtail",
    "loki",
    "alloy",
    "grafana-agent",
    "nginx",
    "envoy",
    // Dollar signs begin variables of their own languages.
    "jq",
    "yq",
    "psql",
];

/// Options whose value is a program.
const CODE: [&str; 3] = ["-c", "-e", "--eval"];

/// Variables that a controller gives to each container of a kind, by the group: the Job controller of Kubernetes for Indexed
/// Jobs, LeaderWorkerSet 0.7, Kubeflow's training operator 1.9 for PyTorchJobs, and Trainer 2.0, whose nodes are an Indexed Job.
const INJECTED: [(&str, &[&str]); 5] = [
    ("batch", &["JOB_COMPLETION_INDEX"]),
    ("jobset.x-k8s.io", &["JOB_COMPLETION_INDEX"]),
    (
        "trainer.kubeflow.org",
        &["JOB_COMPLETION_INDEX", "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"],
    ),
    ("leaderworkerset.x-k8s.io", &["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"]),
    ("kubeflow.org", &["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"]),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    // Without its runtime the pods of a TrainJob are not known.
    if object.is(Kind::TRAIN_JOB) && templates.is_empty() {
        undefined(object, &object.path(&["spec", "trainer"]), ctx);
    }
    for template in &templates {
        inspect(object, template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        arguments(template, &container, ctx);
        undefined(object, &container, ctx);
        quoted_json(&container, ctx);
        // The variables of other objects come before those that are written here.
        let may_be_defined = container.get("envFrom").is_set();
        let mut defined: Vec<&str> = Vec::new();
        for entry in container.get("env").items() {
            let value = entry.get("value");
            let name = entry.get("name").text().unwrap_or_default();
            if LISTS.contains(&name)
                && let Some(text) = value.raw_text()
                && let Some(reference) = unexpanded(text, &defined, may_be_defined)
            {
                let message = format!("`{}` is not expanded: `{name}` has it as text", ellipsize(reference));
                ctx.report(&value, message)
                    .help("write the folders of the image in full, or set the variable in a script");
            }
            defined.push(name);
        }
    }
    None
}

/// Reports references to variables of a container in words of its command line that no shell reads.
fn arguments(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (object, _) = template.place;
    // KubeRay joins the words to a script, and the configuration of an LLMInferenceService starts a shell.
    if object.group() == "ray.io" || object.is(Kind::LLM_INFERENCE_SERVICE) {
        return None;
    }
    let fields = [container.get("command"), container.get("args")];
    let items: Vec<Node<'_>> = fields.iter().flat_map(Node::items).collect();
    let expands = |item: &Node<'_>| item.raw_text().is_some_and(|text| EXPANDING.contains(&base_name(text)));
    if items.iter().any(expands) || image_of(container).is_some_and(|image| EXPANDING.contains(&image.last()))
    {
        return None;
    }
    // A script may hand its words to a shell.
    let program = fields[0].items().next();
    let is_script =
        program.as_ref().is_some_and(|word| word.raw_text().is_none_or(|text| text.ends_with(".sh")));
    let is_sure = !is_script && (program.is_some() || server_of(container).is_some());
    let is_java = items.iter().any(|item| item.raw_text().is_some_and(|text| base_name(text) == "java"));
    let mut before = "";
    for item in &items {
        let Some(text) = item.raw_text() else { continue };
        let is_code = CODE.contains(&std::mem::replace(&mut before, text));
        let Some((place, name)) = own_reference(text, object, container).filter(|_| !is_code) else {
            continue;
        };
        let reference = &text[place.clone()];
        // Spring, Quarkus and Micronaut replace such names in the values of options.
        let of_java = is_java || text.starts_with("-D") || text.starts_with("--spring.");
        let is_filled = |source: &Source| source.is_filled(reference, object.kind(), object.name());
        if of_java && reference.starts_with("${") || object.source().is_some_and(|source| is_filled(source)) {
            continue;
        }
        let shown = ellipsize(reference);
        let message = match is_sure {
            true => format!("`{shown}` is not expanded: no shell reads this word"),
            false => format!("`{shown}` is not expanded, unless the image hands its arguments to a shell"),
        };
        let finding = ctx.report(item, message);
        finding
            .severity(if is_sure { Severity::Warning } else { Severity::Info })
            .help(format!("write `$({name})`, which Kubernetes replaces"));
        let is_plain = reference.strip_prefix("${").is_some_and(|rest| rest.strip_suffix('}') == Some(name))
            || reference.strip_prefix('$') == Some(name);
        if is_plain && entry(container, name).is_some() {
            let fixed = format!("{}$({name}){}", &text[..place.start], &text[place.end..]);
            finding.fix(Fix::unsafe_(format!("write `$({name})`")).set(item, json!(fixed)));
        }
    }
    None
}

/// Variables with which the processes of a run over several pods find each other.
const OF_RUNS: [&str; 12] = [
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "NODE_RANK",
    "JOB_COMPLETION_INDEX",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "LWS_LEADER_ADDRESS",
    "LWS_WORKER_INDEX",
];

/// Reports a reference to a variable of distributed runs that nothing gives to the container: it stays a text of the argument.
fn undefined(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let names = injected(object)?;
    if object.may_lack_fields()
        || is_open(container)
        || container.has_unknown_key()
        || may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::Environment)
    {
        return None;
    }
    let items: Vec<Node<'_>> = command_and_args(container).collect();
    let is_shell = |item: &Node<'_>| item.raw_text().is_some_and(|text| SHELLS.contains(&base_name(text)));
    // To a shell it is a command whose output is taken.
    if items.iter().any(is_shell) {
        return None;
    }
    let (item, name) = items.iter().find_map(|item| {
        let text = item.raw_text()?;
        let found = references(text).find_map(|(_, rest)| {
            let name = rest.strip_prefix('(')?.split_once(')')?.0;
            let is_defined = entry(container, name).is_some() || names.contains(&name);
            (OF_RUNS.contains(&name) && !is_defined).then_some(name)
        });
        Some((item, found?))
    })?;
    let is_filled = |source: &Source| source.is_filled(&format!("$({name})"), object.kind(), object.name());
    if object.source().is_some_and(|source| is_filled(source)) {
        return None;
    }
    // The runtime of a TrainJob may define more.
    let is_of_runtime = object.is(Kind::TRAIN_JOB) && templates(object).is_empty();
    let message = match is_of_runtime {
        true => format!("nothing replaces `$({name})`, unless the runtime defines `{name}`"),
        false => format!("nothing replaces `$({name})`: the container has no variable `{name}`"),
    };
    let other = format!("PET_{name}");
    let help = match names.iter().find(|known| **known == other) {
        Some(known) => {
            format!("write `$({known})`, which is set; torchrun reads it without an option as well")
        }
        None => format!("define `{name}` in `env` of the container"),
    };
    let severity = if is_of_runtime { Severity::Info } else { Severity::Warning };
    ctx.report(item, message).severity(severity).identified_by(name).help(help);
    Some(())
}

/// The variables that a controller gives to the containers of an object. `None` for kinds of which they are not known.
fn injected(object: &Object) -> Option<&'static [&'static str]> {
    let is_known = match object.group() {
        "batch" => is_indexed(object),
        "kubeflow.org" => object.is(Kind::PYTORCH_JOB),
        _ => true,
    };
    let row = INJECTED.iter().find(|(group, _)| object.group() == *group);
    match row {
        Some((_, names)) => is_known.then_some(*names),
        None => matches!(object.group(), "" | "apps").then_some([].as_slice()),
    }
}

fn is_indexed(object: &Object) -> bool {
    [&["spec"][..], &["spec", "jobTemplate", "spec"]]
        .iter()
        .any(|path| object.path(path).get("completionMode").text() == Some("Indexed"))
}

/// Programs of a script that replace variables, or run a text as a script.
const REPLACING: [&str; 5] = ["envsubst", "eval", "sed", "perl", "-c"];

/// Reports references to variables of a container in the JSON of an option of a server that a script puts in single quotes.
fn quoted_json(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let item = shell_script(command_and_args(container))?.node;
    let script = item.text()?;
    let is_replaced = script.split_whitespace().any(|word| REPLACING.contains(&base_name(word)));
    Launch::of(container)?.program.server().filter(|_| !is_replaced)?;
    for (option, value) in quoted_values(script) {
        for (_, rest) in references(value) {
            let name = rest.strip_prefix('{').unwrap_or(rest);
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            let name = &name[..end];
            if name.is_empty() || entry(container, name).is_none() {
                continue;
            }
            let message = format!(
                "`${name}` in the value of `{}` is not expanded: it is in single quotes",
                ellipsize(option)
            );
            ctx.report(&item, message).identified_by(name).help(format!(
                "write `$({name})`, which Kubernetes replaces, or close the single quotes around it"
            ));
            return None;
        }
    }
    None
}

/// The options of a script whose value is JSON in single quotes, with the text between these.
fn quoted_values(script: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut from, mut in_double) = (0, false);
    let bytes = script.as_bytes();
    while from < bytes.len() {
        match bytes[from] {
            b'\\' => from += 1,
            b'"' => in_double = !in_double,
            b'#' if !in_double && (from == 0 || bytes[from - 1].is_ascii_whitespace()) => {
                from += script[from..].find('\n').unwrap_or(script.len() - from);
            }
            b'\'' if !in_double => {
                let Some(length) = script[from + 1..].find('\'') else { break };
                let value = &script[from + 1..from + 1 + length];
                let before =
                    script[..from].trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '\\' | '='));
                let option = before.split_whitespace().last().unwrap_or_default();
                if option.starts_with("--") && value.trim_start().starts_with(['{', '[']) {
                    found.push((option, value));
                }
                from += length + 1;
            }
            _ => {}
        }
        from += 1;
    }
    found
}

/// The places of the dollar signs of a text that may begin references, each with the text behind it. `$$` is a dollar sign.
fn references(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + text[from..].find('$')?;
            let rest = &text[at + 1..];
            let is_escaped = rest.starts_with('$');
            from = at + 1 + usize::from(is_escaped);
            if !is_escaped {
                return Some((at, rest));
            }
        }
    })
}

/// The place of the first reference of a shell to a variable that a container has, and its name. A text with blanks may be a script for another
/// program, and JSON has dollar signs of its own.
fn own_reference<'t>(
    text: &'t str,
    object: &Object,
    container: &Node<'_>,
) -> Option<(Range<usize>, &'t str)> {
    if text.contains(char::is_whitespace) || text.starts_with(['{', '[']) {
        return None;
    }
    let injected = injected(object).unwrap_or_default();
    let has = |name: &str| entry(container, name).is_some() || injected.contains(&name);
    for (at, rest) in references(text) {
        let braced = rest.strip_prefix('{');
        let inner = braced.unwrap_or(rest);
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let name = &inner[..end];
        let length = match braced {
            Some(_) => inner.find('}').map(|close| close + 2),
            None => Some(end),
        };
        // `${env:NAME}` and `${NAME.field}` are no references of a shell.
        let is_of_shell =
            braced.is_none() || inner[end..].starts_with(['}', '#', '%', ':', '-', '+', '?', '/']);
        if let Some(length) = length
            && is_of_shell
            && has(name)
        {
            return Some((at..at + 1 + length, name));
        }
    }
    None
}

/// The first reference to a list of folders, or to the home folder, that Kubernetes leaves as it is.
fn unexpanded<'t>(text: &'t str, defined: &[&str], may_be_defined: bool) -> Option<&'t str> {
    for (at, rest) in references(text) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, length) = match rest.as_bytes().first() {
            Some(open @ (b'{' | b'(')) => {
                let close = if *open == b'{' { '}' } else { ')' };
                let Some(end) = rest.find(close) else { continue };
                // A replacement by Kubernetes of what is defined before.
                let name = &rest[1..end];
                if *open == b'(' && (may_be_defined || defined.contains(&name)) {
                    continue;
                }
                (name.split(':').next().unwrap_or(name), end + 1)
            }
            _ => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        if LISTS.contains(&name) || name == "HOME" {
            return Some(&text[at..at + 1 + length]);
        }
    }
    None
}
