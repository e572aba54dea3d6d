//! A notebook holds a GPU while nobody works in it.
//!
//! # Why
//! A notebook server, or a pod that only sleeps so that somebody can open a shell in it, keeps its GPU
//! and its node day and night. Karpenter sees a running pod and never an idle GPU. A Job that sleeps
//! without a deadline does the same, also one whose script ends in `sleep infinity` or in a loop that sleeps,
//! and nobody expects it of a Job: that is a warning.
//!
//! # Fix
//! End idle sessions: `--ServerApp.shutdown_no_activity_timeout` and the culling options of Jupyter,
//! the culler of JupyterHub or Kubeflow; or work without a GPU and start Jobs for what needs one.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: lab}
//!  spec:
//!    serviceName: lab
//!    selector: {matchLabels: {app: lab}}
//!    template:
//!      metadata: {labels: {app: lab}}
//!      spec:
//!        containers:
//!          - name: lab
//!            image: example.com/lab:1.4.0
//!            command:
//!              - jupyter
//!              - lab
//! +            - --ServerApp.shutdown_no_activity_timeout=3600
//!            resources:
//!              requests: {cpu: 4, memory: 16Gi}
//! -            limits: {nvidia.com/gpu: 1} # <-
//! +            limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://jupyter-server.readthedocs.io/en/latest/other/full-config.html>
//! - <https://www.kubeflow.org/docs/components/notebooks/>

use crate::rules::prelude::*;
use crate::workload::command::command_and_args;
use crate::workload::devices::{extended_resources_of, first_accelerator};
use crate::workload::diagnostic::{ends_in_wait, waits_for_hours};
use crate::workload::template::{run_limit, workload_kind};

pub(crate) static RULE: Rule = Rule {
    id: "notebook-idle-gpu",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("notebook_idle_gpu.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// Names of settings that end idle sessions.
const CULLS: [&str; 5] = ["cull", "no_activity_timeout", "idle", "tmout", "timeout"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Whether Kubeflow's controller culls is set elsewhere.
    if object.is(Kind::NOTEBOOK)
        || !requests_device_plugin(object)
        || object.is_owned()
        || object.is_partial()
    {
        return None;
    }
    let classified = ctx.class_of(object);
    let ends_by_itself = workload_kind(object).is_some_and(|row| row.runs_to_completion);
    let only_sleeps = ends_by_itself && waits_for_hours(object);
    let waits = |container: Node<'_>| {
        extended_resources_of(&container).into_iter().any(is_accelerator) && ends_in_wait(&container)
    };
    let sleeps = only_sleeps
        || object.is(Kind::JOB) && templates(object).iter().flat_map(Template::containers).any(waits);
    if !(classified.is(WorkloadClass::Notebook) || sleeps) || is_test(object) {
        return None;
    }
    if sleeps && run_limit(object).is_some() {
        return None;
    }
    let templates = templates(object);
    let ends = |t: &Template<'_>| t.spec.get("activeDeadlineSeconds").is_set() || culls(t);
    if templates.iter().any(ends) {
        return None;
    }
    let (resource, devices) = templates.iter().find_map(first_accelerator)?;
    // A container beside a model server may wait.
    if templates.iter().flat_map(|t| t.containers()).any(|container| server_of(&container).is_some()) {
        return None;
    }
    let name = object.display_name();
    if sleeps {
        let message = match only_sleeps {
            true => format!("`{name}` holds `{resource}` and only sleeps"),
            false => {
                format!("`{name}` keeps `{resource}` after its work: its script ends in an endless wait")
            }
        };
        ctx.report(&devices.node, message).severity(Severity::Warning).help(match only_sleeps {
            true => "write `activeDeadlineSeconds`, or request no accelerator while nothing runs",
            false => "let the script end, or write `activeDeadlineSeconds`",
        });
        return None;
    }
    let reason = &classified.evidence;
    ctx.report(&devices.node, format!("`{name}` holds `{resource}` also while nobody uses it: {reason}"))
        .help("end idle sessions, or start Jobs for what needs an accelerator");
    None
}

/// Whether settings of the containers end idle sessions.
fn culls(template: &Template<'_>) -> bool {
    let says = |node: Node<'_>| node.raw_text().is_some_and(|text| mentions(text, &CULLS));
    template.containers().any(|container| {
        let mut words = command_and_args(&container);
        let mut variables = container.get("env").items();
        words.any(says) || variables.any(|v| says(v.get("name")))
    })
}
