//! A probe succeeds whatever state the server is in.
//!
//! # Why
//! A probe with `exec` fails where its command ends with another code than 0. A script whose last command
//! is `… || true`, `… || exit 0` or `…; exit 0` ends with 0 whatever it has found. The kubelet never
//! restarts a server that hangs in a way which the script does notice, a readiness probe lets requests
//! through from the first second, and a startup probe holds off the others for one period. The probe looks
//! like one that works.
//!
//! A command that always succeeds, such as `true`, `exit 0` or `echo ok`, asks nothing at all: that is
//! information, since it may stand in for a probe that a template requires.
//!
//! A readiness probe that asks whether the process lives, at `/v2/health/live` of the protocol of Triton,
//! MLServer and OpenVINO or at `/v1/health/live` of NIM, succeeds while models are loaded or after one has
//! failed: requests arrive that the pod rejects. Triton opens its port once the models of its repository
//! are loaded, so that this is information there, unless models come later (`--model-control-mode`) or may
//! fail (`--exit-on-error=false`). A startup probe at the other path holds requests back as well, and is
//! enough.
//!
//! A script with another exit, with `set -e` or with `kill` may fail elsewhere, and is not reported.
//!
//! # Fix
//! Let the script end with the command that finds out, and raise `failureThreshold` where it fails too
//! easily. Or remove the probe. Ask the path for readiness in a readiness probe.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: ranker}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: ranker}}
//!    template:
//!      metadata: {labels: {app: ranker}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/ranker:1.4.0
//!            livenessProbe:
//!              exec:
//! -              command: [sh, -c, "ranker-status --quiet || true"] # <-
//! +              command: [ranker-status, --quiet]
//!              failureThreshold: 5
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/probes/>
//! - <https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md#health>
//! - <https://docs.nvidia.com/nim/large-language-models/reference/api-reference/health-live>

use crate::rules::prelude::*;
use crate::workload::command::{base_name, shell_script};

pub(crate) static RULE: Rule = Rule {
    id: "probe-cannot-fail",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("probe_cannot_fail.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        for name in ["startupProbe", "livenessProbe", "readinessProbe"] {
            inspect(name, &container.path(&[name, "exec", "command"]), ctx);
        }
        inspect_readiness(&container, ctx);
    }
    None
}

/// The paths at which servers say that they live, and those at which they say that models are loaded.
const PATHS: [(&str, &str); 2] =
    [("/v2/health/live", "/v2/health/ready"), ("/v1/health/live", "/v1/health/ready")];

/// Reports a readiness probe that asks only whether the process lives.
fn inspect_readiness(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = container.path(&["readinessProbe", "httpGet", "path"]);
    let path = field.text()?;
    let (live, ready) = PATHS.into_iter().find(|(live, _)| *live == path)?;
    let server = server_of(container).map(|server| server.id);
    // Programs that nobody knows may have this path alone.
    let is_known = live.starts_with("/v2/") || server == Some(ServerId::Nim);
    let startup = container.path(&["startupProbe", "httpGet", "path"]);
    let is_held = startup.is_unknown() || startup.text().is_some_and(|path| path.ends_with("/ready"));
    // KServe's servers open their port once the model is loaded.
    if !is_known || is_held || server == Some(ServerId::HuggingFace) {
        return None;
    }
    let is_late = server == Some(ServerId::Triton) && !may_lack_models(container);
    let (what, severity) = match is_late {
        true => ("says nothing of the models: the pod gets requests that it cannot answer", Severity::Info),
        false => ("answers before the models are loaded: requests arrive too early", Severity::Warning),
    };
    ctx.report(&field, format!("`{live}` {what}"))
        .severity(severity)
        .help(format!("ask `{ready}`"))
        .fix(Fix::unsafe_(format!("ask `{ready}`")).set(&field, json!(ready)));
    Some(())
}

/// Whether Triton may answer without some of its models: those that it loads while it runs, or that fail (`main.cc` opens the port after
/// `TRITONSERVER_ServerNew`, 2.5 to 2.60).
fn may_lack_models(container: &Node<'_>) -> bool {
    Launch::of(container).is_some_and(|launch| {
        let is = |name: &str, value: &str| launch.option(&[name]).is(value);
        is("model-control-mode", "explicit")
            || is("model-control-mode", "poll")
            || ["false", "0"].iter().any(|off| is("exit-on-error", off))
    })
}

fn inspect(name: &str, command: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if let Some((node, what)) = constant(command) {
        ctx.report(&node, format!("`{name}` asks nothing: `{}` always succeeds", ellipsize(&what)))
            .severity(Severity::Info)
            .help("ask the server itself, by `httpGet`, `tcpSocket` or a command, or remove the probe");
        return None;
    }
    let script = shell_script(command.items())?;
    let text = script.node.text()?;
    // `-e` ends the script at the first command that fails.
    if script.options.contains('e') || is_placeholder(text) {
        return None;
    }
    let ending = hidden_by(text)?;
    ctx.report(&script.node, format!("`{name}` ends in `{ending}`: nothing but a timeout makes it fail"))
        .help(format!("remove `{ending}`, and raise `failureThreshold` if it fails too easily"));
    None
}

/// A command that succeeds wherever it can be started.
fn constant<'a>(command: &Node<'a>) -> Option<(Node<'a>, String)> {
    let items: Vec<(Node<'a>, &str)> = command
        .items()
        .map(|item| item.raw_text().map(|text| (item.clone(), text)))
        .collect::<Option<_>>()?;
    let (first, program) = items.first()?;
    let rest: Vec<&str> = items.iter().skip(1).map(|(_, text)| *text).collect();
    match (base_name(program), rest.as_slice()) {
        ("true", _) | ("echo", _) => Some((first.clone(), program.to_string())),
        ("python" | "python3", ["-c", script]) => {
            let always =
                ["pass", "exit(0)", "exit()", "quit()", "import sys; sys.exit(0)", "import sys; sys.exit()"];
            always.contains(&script.trim()).then(|| (items[2].0.clone(), script.to_string()))
        }
        _ => {
            let script = shell_script(command.items())?;
            let text = script.node.text()?.trim().trim_end_matches(';');
            let is_echo = text.strip_prefix("echo ").is_some_and(|words| {
                // What is more than words may fail: a redirection to `/dev/tcp`, a pipe, a second command.
                !words.contains(['|', '<', '>', '&', ';', '`', '$', '(', '\n'])
            });
            (is_echo || ["true", "/bin/true", ":", "exit 0"].contains(&text))
                .then(|| (script.node.clone(), text.to_owned()))
        }
    }
}

/// The end of a script that makes it succeed whatever has failed before. `None` if the script may fail elsewhere.
fn hidden_by(script: &str) -> Option<&'static str> {
    /// What follows `||` or a separator.
    const ENDS: [(&str, &str, &str); 4] = [
        ("/bin/true", "|| /bin/true", "; /bin/true"),
        ("true", "|| true", "; true"),
        (":", "|| :", "; :"),
        ("exit 0", "|| exit 0", "; exit 0"),
    ];
    let text = script.trim_end_matches(|c: char| c.is_whitespace() || c == ';');
    let (end, alternative, sequence) = ENDS.into_iter().find(|(end, ..)| text.ends_with(end))?;
    let before = text[..text.len() - end.len()].trim_end_matches([' ', '\t', '\\']);
    let (before, ending) = match before.strip_suffix("||") {
        Some(before) => (before, alternative),
        None => (before.strip_suffix(['\n', ';']).filter(|_| end != ":")?, sequence),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut words = before.split(|c: char| !is_word(c));
    // What may end the script before, or end in another way than its last command says.
    let may_fail =
        words.any(|word| matches!(word, "exit" | "kill" | "pkill" | "set" | "exec" | "trap" | "return"));
    // The end of a part of the script alone: `if a; then b || true`.
    let is_open = before.matches('(').count() != before.matches(')').count()
        || before.matches('\'').count() % 2 == 1
        || before.matches('"').count() % 2 == 1;
    let has_comment = before.lines().last().is_some_and(|line| line.contains('#'));
    (!may_fail && !is_open && !has_comment && !before.trim().is_empty()).then_some(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_that_hide_failures() {
        for (script, expected) in [
            ("ray status > /dev/null 2>&1 || exit 0", Some("|| exit 0")),
            ("curl -sf localhost:8000/health || true\n", Some("|| true")),
            ("a && b ||\n  :", None),
            ("check-health\nexit 0;", Some("; exit 0")),
            ("check-health; exit 1", None),
            ("test -f /ready || exit 1; exit 0", None),
            ("set -e; check-health; true", None),
            ("pgrep worker && exit 1 || exit 0", None),
            ("sh -c 'check || true'", None),
            ("(check || true", None),
            ("echo done-true", None),
            ("true", None),
            ("if a; then b; fi", None),
        ] {
            assert_eq!(hidden_by(script), expected, "{script}");
        }
    }
}
