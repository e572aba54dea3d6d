//! A probe gives SGLang, or the import of a library, one second: both take longer.
//!
//! # Why
//! Since 0.5.1 `/health` of SGLang has the engine generate a token, as `/health_generate` has, and sleeps for a
//! second before it looks for the result: it never answers within the second that a probe waits without
//! `timeoutSeconds`. The pod is never ready, or comes and goes, and a startup or liveness probe restarts the
//! server again and again, each time with the model to load. Older releases answer `/health` at once.
//!
//! A command such as `python -c "import torch; assert torch.cuda.is_available()"` reads the library, and
//! takes several seconds on most nodes; it is ended after the one second as well.
//!
//! Where the release is not known, or a variable from another object may switch the token off, this is
//! information.
//!
//! # Fix
//! Write `timeoutSeconds: 5` or more. `SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION: "false"` (since 0.5.6) makes
//! `/health` answer at once.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: sglang
//!        image: lmsysorg/sglang:v0.5.9
//!        command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --host, 0.0.0.0]
//! -      readinessProbe: # <-
//! +      readinessProbe:
//!          httpGet: {path: /health, port: 30000}
//! +        timeoutSeconds: 5
//!        resources:
//!          requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!          limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://github.com/sgl-project/sglang/pull/8444>
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/>

use super::serving::{ALL_SERVER_KINDS, is_owned, serving_templates};
use crate::rules::prelude::*;
use crate::workload::launcher::is_later_rank;
use crate::workload::ports::number;
use crate::workload::server::health::{Late, answers_late};

pub(crate) static RULE: Rule = Rule {
    id: "probe-timeout-short",
    kinds: kinds![ALL_SERVER_KINDS, [Kind::DAEMON_SET, Kind::POD]],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("probe_timeout_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The probes, and what the kubelet does when each fails.
const PROBES: [(&str, &str); 3] = [
    ("startupProbe", "restarts the container"),
    ("livenessProbe", "restarts the container"),
    ("readinessProbe", "never succeeds"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) {
        return None;
    }
    for template in serving_templates(object) {
        for container in template.containers() {
            if !template.spec.has_unknown_key() && !is_later_rank(&template, &container) {
                inspect(&container, ctx);
                imports(&container, ctx);
            }
        }
    }
    None
}

/// Libraries whose import alone takes longer than a second on most nodes, in words.
const LIBRARIES: [(&str, &str); 6] = [
    ("torch", "PyTorch"),
    ("tensorflow", "TensorFlow"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
    ("transformers", "Transformers"),
    ("jax", "JAX"),
];

/// Reports probes whose command imports a large library of Python each time.
fn imports(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let found = PROBES.into_iter().filter_map(|(name, effect)| {
        let probe = container.get(name);
        let timeout = probe.get("timeoutSeconds");
        let mut words = probe.path(&["exec", "command"]).items();
        let library = words.find_map(|word| imported(word.text()?))?;
        (is_short(&timeout) && !probe.has_unknown_key()).then_some((name, effect, library, probe, timeout))
    });
    let found: Vec<_> = found.collect();
    let (name, effect, library, probe, timeout) = found.first()?;
    let effect = if *effect == "never succeeds" { "fails" } else { effect };
    let message = format!("`{name}` {effect} where the import of {library} takes longer than one second");
    let mut fix = Fix::unsafe_("wait ten seconds for the command");
    for (.., timeout) in &found {
        fix = fix.set(timeout, json!(10));
    }
    let place = if timeout.is_set() { timeout } else { probe };
    let finding = ctx.report(place, message);
    finding.help("write `timeoutSeconds: 10`, or ask the server by `httpGet` instead").fix(fix);
    for (.., other, _) in found.iter().skip(1) {
        finding.related(object, other, "and here");
    }
    None
}

/// The library that a script of Python imports in a line or between semicolons.
fn imported(script: &str) -> Option<&'static str> {
    let mut words =
        script.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        if !matches!(word, "import" | "from") {
            continue;
        }
        let module = words.next()?;
        if let Some((_, name)) = LIBRARIES.iter().find(|(library, _)| module == *library) {
            return Some(name);
        }
    }
    None
}

/// Whether a probe waits for one second, as it does without a number.
fn is_short(timeout: &Node<'_>) -> bool {
    !timeout.is_unknown() && timeout.int_or(1).is_some_and(|seconds| seconds <= 1)
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container).filter(|server| server.id == ServerId::Sglang)?;
    let (port, _) = server.listens_on(container)?;
    let mut found = Vec::new();
    for (name, effect) in PROBES {
        let probe = container.get(name);
        let (get, timeout) = (probe.get("httpGet"), probe.get("timeoutSeconds"));
        let asked = number(container, &get.get("port")).map(|(number, _)| number);
        if !is_short(&timeout) || probe.has_unknown_key() || get.get("host").is_set() || asked != Some(port) {
            continue;
        }
        let path = get.get("path");
        if let Some(path) = path.text()
            && let Some(late) = answers_late(container, path)
        {
            let place = if timeout.is_set() { timeout.clone() } else { probe };
            found.push((name, effect, path, late, place, timeout));
        }
    }
    let (name, effect, path, late, place, _) = found.first()?;
    let message = match late {
        Late::Surely => {
            format!("`{name}` {effect}: SGLang answers `{path}` after more than the second that it waits")
        }
        Late::IfNewer => {
            let first = if *path == "/health" { "0.5.1" } else { "0.4.5" };
            format!("`{name}` {effect} if SGLang is {first} or newer, which takes over 1 s for `{path}`")
        }
        Late::UnlessSwitched => {
            format!(
                "`{name}` {effect}: SGLang takes over 1 s for `{path}`, unless something else changes that"
            )
        }
    };
    let object = ctx.object();
    let mut fix = Fix::unsafe_("wait five seconds for an answer");
    for (.., timeout) in &found {
        fix = fix.set(timeout, json!(5));
    }
    let severity = if *late == Late::Surely { Severity::Warning } else { Severity::Info };
    let finding =
        ctx.report(place, message).severity(severity).help("write `timeoutSeconds: 5` or more").fix(fix);
    for (.., other, _) in found.iter().skip(1) {
        finding.related(object, other, "and here");
    }
    None
}
