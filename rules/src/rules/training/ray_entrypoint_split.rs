//! A part of a RayJob's entrypoint runs in the submitter and not in the Ray cluster.
//!
//! # Why
//! KubeRay writes the entrypoint into the script of a pod that submits it, after `ray job submit … --`. The
//! shell of that pod reads it, so that `&&`, `;` and a new line end the command that is submitted. What
//! follows runs in the submitter, without a GPU and mostly without the files of the cluster; of `cd /app &&
//! python train.py` the cluster gets `cd /app`, which ends at once. With `submissionMode: HTTPMode` KubeRay
//! sends the whole text to Ray. Read in KubeRay 1.3 to 1.5.
//!
//! # Fix
//! Write the commands into one script in the image, or quote them: `bash -c "cd /app && python train.py"`. A
//! folder is better named as `working_dir` in `runtimeEnvYAML`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayJob
//!  metadata: {name: tune}
//!  spec:
//! -  entrypoint: pip install /app && python /app/tune.py # <-
//! +  entrypoint: bash -c "pip install /app && python /app/tune.py"
//!    shutdownAfterJobFinishes: true
//!    rayClusterSpec:
//!      headGroupSpec:
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: rayproject/ray:2.46.0
//!                resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html>
//! - <https://github.com/ray-project/kuberay/issues/3929>

use crate::facts::text::first_line;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ray-entrypoint-split",
    kinds: &[Kind::RAY_JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ray_entrypoint_split.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let mode = spec.get("submissionMode");
    let entrypoint = spec.get("entrypoint");
    let text = entrypoint.text()?.trim();
    if mode.is_unknown() || !matches!(mode.text(), None | Some("K8sJobMode" | "SidecarMode")) {
        return None;
    }
    // A command of its own does not contain the entrypoint.
    let submitter = spec.path(&["submitterPodTemplate", "spec", "containers"]);
    if submitter.has_unknown() || submitter.items().any(|container| container.get("command").is_set()) {
        return None;
    }
    let (first, rest) = split(text)?;
    let message = format!(
        "`{}` runs in the submitter: the Ray cluster gets `{}` alone",
        first_line(rest, 30),
        first_line(first, 30)
    );
    let finding = ctx.report(&entrypoint, message);
    finding.help("put the commands into a script, or quote them: `bash -c \"…\"`");
    if !text.contains(['"', '$', '`', '\\', '\n']) {
        finding.fix(
            Fix::unsafe_("run all commands in the cluster")
                .set(&entrypoint, json!(format!("bash -c \"{text}\""))),
        );
    }
    None
}

/// The command before the first separator of a shell outside of quotes, and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut depth = 0;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                characters.next();
            }
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            // A part in brackets is one command.
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ';' | '\n') if depth == 0 => return parts(text, at, 1),
            (None, '&') if depth == 0 && text[at..].starts_with("&&") => return parts(text, at, 2),
            _ => {}
        }
    }
    None
}

fn parts(text: &str, at: usize, length: usize) -> Option<(&str, &str)> {
    let rest = text[at + length..].trim_matches(|c: char| c.is_whitespace() || c == ';');
    let is_command = !rest.is_empty() && !rest.lines().all(|line| line.trim_start().starts_with('#'));
    is_command.then(|| (text[..at].trim(), rest))
}
