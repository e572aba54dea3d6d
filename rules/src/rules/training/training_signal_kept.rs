//! A shell keeps SIGTERM from a training run that has time to save a checkpoint.
//!
//! # Why
//! The kubelet sends SIGTERM to the first process of a container. A shell that runs the training as one of
//! several commands, or in a pipe to `tee`, is that process: it waits, and the training learns nothing of the
//! signal. No checkpoint is written at the end, each eviction takes all of `terminationGracePeriodSeconds`, and
//! then the run is killed. On Spot nodes, whose notice is two minutes, it is a warning.
//!
//! A shell becomes the last command of a script, so that a script which ends with the training is right. A run
//! without a time of its own in which to end is left alone.
//!
//! # Fix
//! Start the training last, with `exec`, or pass the signal on with `trap`. In place of a pipe write
//! `exec python train.py > >(tee log)`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        terminationGracePeriodSeconds: 300
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [bash, -c]
//!            args:
//! -            - python train.py --save-to=s3://runs/bert; echo done # <-
//! +            - exec python train.py --save-to=s3://runs/bert
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! - <https://github.com/petuum/adaptdl/issues/105>

use super::{LAUNCHERS, trains};
use crate::rules::availability::graceful_shutdown_missing::shell_keeps_signals;
use crate::rules::prelude::*;
use crate::rules::spot_use::{SpotUse, spot_use};
use crate::workload::command::{Word, base_name};
use crate::workload::gpu::has_device;
use crate::workload::template::DEFAULT_GRACE;

pub(crate) static RULE: Rule = Rule {
    id: "training-signal-kept",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS],
    docs: docs(include_str!("training_signal_kept.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || !trains(object, ctx) {
        return None;
    }
    for template in templates(object).iter().filter(|template| uses_device(template)) {
        // Whoever writes a longer time expects the run to use it.
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let Some(seconds) = grace.int().filter(|seconds| *seconds > DEFAULT_GRACE) else { continue };
        for container in template.containers().filter(has_device) {
            inspect(object, template, &container, seconds, ctx);
        }
    }
    None
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    container: &Node<'_>,
    seconds: i64,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let words = words(container);
    // Of several programs the last one trains: what comes before prepares it.
    let at = (0..words.len()).rev().find(|at| is_program(&words, *at))?;
    if !shell_keeps_signals(template, container, &words, at) {
        return None;
    }
    let message = format!(
        "the shell of `{}` keeps SIGTERM from the training: each eviction takes all {seconds} s",
        object.display_name()
    );
    let is_on_spot =
        matches!(spot_use(template, ctx), Some(SpotUse::Required | SpotUse::Only(_) | SpotUse::Tolerated(_)));
    let grace = template.spec.get("terminationGracePeriodSeconds");
    let finding = ctx.report(&words[at].node, message);
    finding.help("start the training last, with `exec`, or pass the signal on with `trap`");
    finding.related(object, &grace, "the time to end");
    if is_on_spot {
        finding.severity(Severity::Warning);
    }
    None
}

/// Whether a word starts Python or a launcher of training, as the first of a command.
fn is_program(words: &[Word<'_>], at: usize) -> bool {
    const BEFORE: [&str; 5] = [";", "exec", "do", "then", "time"];
    let name = base_name(&words[at].text);
    let begins = at.checked_sub(1).is_none_or(|before| {
        let before = words[before].text.as_str();
        BEFORE.contains(&before) || before.starts_with('-') || before.contains('=')
    });
    words[at].known && begins && (name.starts_with("python") || LAUNCHERS.contains(&name))
}
