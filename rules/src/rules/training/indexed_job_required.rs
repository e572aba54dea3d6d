//! Pods of a Job read an index that the Job does not give them.
//!
//! # Why
//! Kubernetes sets the annotation and the label `batch.kubernetes.io/job-completion-index` and the variable
//! `JOB_COMPLETION_INDEX` only on pods of a Job with `completionMode: Indexed`. In any other Job the
//! variable is absent, and one that is read from the annotation is empty: every worker of a distributed run
//! has the same rank or none, and the run fails or waits for ranks that never come. The API server accepts
//! such a Job. Without accelerators it is a warning.
//!
//! A script that takes the rank from the end of the host name, `${HOSTNAME##*-}`, needs an Indexed Job as
//! well: the names of other pods end in five random characters. So do the names of the pods of an Indexed
//! Job, other than their host names, which are `<job>-<index>`.
//!
//! # Fix
//! Write `completionMode: Indexed`, and `completions` if only `parallelism` is written. Both are
//! immutable: a Job that exists must be deleted and created again.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: shards, namespace: models}
//!  spec:
//!    parallelism: 4
//!    completions: 4
//! +  completionMode: Indexed
//!    backoffLimit: 3
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/shards:1.4.0
//! -          command: [process, --shard=$(JOB_COMPLETION_INDEX)] # <-
//! +          command: [process, --shard=$(JOB_COMPLETION_INDEX)]
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//!              limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode>
//! - <https://kubernetes.io/docs/tasks/job/indexed-parallel-processing-static/>

use crate::rules::prelude::*;
use crate::rules::training::rank_source::{RankName, rank_in_name};
use crate::rules::training::{JOBS, job_spec};
use crate::workload::command::command_and_args;
use crate::workload::devices::pods_of;

pub(crate) static RULE: Rule = Rule {
    id: "indexed-job-required",
    kinds: JOBS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("indexed_job_required.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

const ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job_spec(object);
    let mode = spec.get("completionMode");
    if mode.is_unknown() || object.is_patch() || object.is_owned() || spec.has_unknown_key() {
        return None;
    }
    let templates = templates(object);
    // One pod has no ranks.
    let several = templates.iter().filter(|template| pods_of(object, template).is_some_and(|pods| pods > 1));
    let mut in_names = several.flat_map(|template| {
        let found = template.containers().filter_map(|container| rank_in_name(template, &container));
        found.collect::<Vec<_>>()
    });
    let name = object.display_name();
    if mode.text() == Some("Indexed") {
        let (node, _) = in_names.find(|(_, name)| *name == RankName::Pod)?;
        let message = format!(
            "`{name}` takes a rank from the end of its pods' names, which is random: host names end in the index"
        );
        let finding = ctx.report(&node, message).help("read the variable `JOB_COMPLETION_INDEX`");
        if !uses_accelerators(object) {
            finding.severity(Severity::Warning);
        }
        return None;
    }
    let (node, what) = match templates.iter().find_map(|t| reader(t)) {
        Some(node) => (node, "reads a completion index, which only an Indexed Job has"),
        None => (
            in_names.next()?.0,
            "takes a rank from the end of its pods' names, which is random: the Job is not Indexed",
        ),
    };
    let (parallelism, completions) = (spec.get("parallelism"), spec.get("completions"));
    let finding = ctx.report(&node, format!("`{name}` {what}"));
    if !uses_accelerators(object) {
        finding.severity(Severity::Warning);
    }
    if completions.is_set() || !parallelism.is_set() {
        let fix = Fix::new("make the Job indexed; this field is immutable", Safety::Unsafe);
        finding.help("write `completionMode: Indexed`").fix(fix.set(&mode, json!("Indexed")));
        return None;
    }
    finding.help("write `completionMode: Indexed`, and `completions`, which it requires");
    if let Some(pods) = parallelism.int().filter(|pods| *pods > 0) {
        let fix = Fix::new("make the Job indexed; these fields are immutable", Safety::Unsafe);
        finding.fix(fix.set(&mode, json!("Indexed")).set(&completions, json!(pods)));
    }
    None
}

/// Where a pod reads the index.
fn reader<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let volumes = template.spec.get("volumes");
    let files = volumes.items().flat_map(|volume| {
        let projected = volume.path(&["projected", "sources"]);
        let sources = projected.items().map(|source| source.get("downwardAPI"));
        std::iter::once(volume.get("downwardAPI")).chain(sources).collect::<Vec<_>>()
    });
    let mut fields =
        files.flat_map(|file| file.get("items").items()).map(|item| item.path(&["fieldRef", "fieldPath"]));
    let is_index = |path: &Node<'_>| path.raw_text().is_some_and(|path| path.contains(ANNOTATION));
    fields.find(is_index).or_else(|| template.all_containers().find_map(|one| reader_in(&one)))
}

/// Where a container reads the index.
fn reader_in<'a>(container: &Node<'a>) -> Option<Node<'a>> {
    let variables: Vec<Node<'a>> = container.get("env").items().collect();
    for variable in &variables {
        let path = variable.path(&["valueFrom", "fieldRef", "fieldPath"]);
        if path.raw_text().is_some_and(|path| path.contains(ANNOTATION)) {
            return Some(path);
        }
    }
    // A variable of that name, or one of a ConfigMap, may come from elsewhere.
    let defined = variables.iter().any(|v| v.is_unknown() || v.get("name").raw_text() == Some(VARIABLE));
    if defined || container.get("env").is_unknown() || container.get("envFrom").is_set() {
        return None;
    }
    let items = command_and_args(container);
    let texts: Vec<Node<'a>> = items.chain(variables.iter().map(|v| v.get("value"))).collect();
    let assigned = |text: &Node<'_>| text.raw_text().is_some_and(|t| t.contains(&format!("{VARIABLE}=")));
    if texts.iter().any(assigned) {
        return None;
    }
    texts.into_iter().find(|text| text.raw_text().is_some_and(uses_variable))
}

/// Whether a text reads the variable without a default: `$X`, `$(X)`, `${X}`, and in Python `os.environ["X"]`.
fn uses_variable(text: &str) -> bool {
    text.match_indices(VARIABLE).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + VARIABLE.len()..]);
        let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let is_in = |open: &str, close: &str| before.ends_with(open) && after.starts_with(close);
        (before.ends_with('$') && after.chars().next().is_none_or(ends))
            || is_in("$(", ")")
            || is_in("${", "}")
            || is_in("environ[\"", "\"]")
            || is_in("environ['", "']")
    })
}
