//! A training run keeps its checkpoints where they end with the pod.
//!
//! # Why
//! An emptyDir, and the container's own file system, are deleted with the pod. After a drain, a Spot
//! reclaim or a failed GPU the run starts again from the beginning, however many checkpoints it wrote. A
//! folder of the node is left behind with it. Runs that use a model, such as `torchrun generate.py`, write
//! none. The folder that an option names (`--output_dir`, `--save`, otherwise `--ckpt_dir`) is looked up
//! among the mounts: it is a warning where it is on no volume, on an emptyDir or on the node, where
//! checkpoints are mounted from an emptyDir, where the run is told not to resume, and where nothing
//! outlives the pods of a run that is marked do-not-disrupt and speaks of checkpoints; otherwise
//! information, because scripts may save elsewhere.
//!
//! # Fix
//! Mount a PersistentVolumeClaim (FSx for Lustre, EFS) for checkpoints, or write them to object storage
//! and give the run the URI.
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
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!            volumeMounts: [{name: work, mountPath: /checkpoints}]
//!        volumes:
//!          - name: work
//! -          emptyDir: {} # <-
//! +          persistentVolumeClaim: {claimName: bert-checkpoints}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::checkpoint::{
    Destination, Holder, checkpoint_mounts, destination, destination_of_entrypoint, has_lasting_volume,
    holder, names_checkpoints, names_remote_storage, uploads, volume,
};
use crate::workload::command::Word;
use crate::workload::diagnostic::waits_for_hours;
use crate::workload::gpu::has_device;
use crate::workload::template::ends_within_hours;

pub(crate) static RULE: Rule = Rule {
    id: "checkpoint-storage",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("checkpoint_storage.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A pod that only sleeps writes none: notebook-idle-gpu reports it.
    if !trains(object, ctx) || object.is_partial() || is_short_attempt(object) || waits_for_hours(object) {
        return None;
    }
    let templates = templates(object);
    for container in templates.iter().flat_map(Template::containers) {
        resume(object, &container, ctx);
    }
    // The launcher of an MPI job, or the driver of another, passes the command on to the pods with accelerators.
    let destination = templates.iter().flat_map(Template::containers).find_map(|one| destination(&one));
    let destination = destination.or_else(|| destination_of_entrypoint(object));
    for template in templates.iter().filter(|t| uses_device(t)) {
        if template.spec.has_unknown_key() {
            continue;
        }
        let is_copied = templates.iter().any(uploads);
        let decided =
            destination.as_ref().filter(|_| !is_copied).and_then(|to| of_folder(object, template, to, ctx));
        if decided.is_none() && !templates.iter().any(names_remote_storage) {
            inspect(object, template, ctx);
        }
        // The other templates of a run have the same volumes.
        break;
    }
    None
}

/// Whether a run is never started again, and ends within hours: there is nothing to go on from.
fn is_short_attempt(object: &Object) -> bool {
    object.is(Kind::JOB)
        && object.path(&["spec", "backoffLimit"]).int() == Some(0)
        && ends_within_hours(object)
}

/// Reports a folder of checkpoints that ends with the pod, or stays on its node. `None` if what holds it is not known.
fn of_folder(
    object: &Object,
    template: &Template<'_>,
    to: &Destination<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let container = template.containers().find(has_device)?;
    let (name, path) = (object.display_name(), ellipsize(&to.path));
    let help = "mount a PersistentVolumeClaim there, or give the run the URI of object storage";
    match holder(template, &container, &to.path)? {
        Holder::Lasting => {}
        Holder::Container => {
            let message = format!(
                "checkpoints of `{name}` go to `{path}`, which is on no volume: they end with the pod"
            );
            ctx.report(&to.node, message).help(help);
        }
        Holder::ReadOnly(field) => {
            let message = format!("checkpoints of `{name}` go to `{path}`, which is mounted read-only");
            ctx.report(&field, message)
                .help("remove `readOnly`, or name a folder to which the pods can write")
                .related(object, &to.node, "checkpoints go there");
        }
        Holder::EmptyDir(volume) => {
            let message = format!("checkpoints of `{name}` are in an emptyDir, which ends with the pod");
            ctx.report(&volume, message).help(help).related(object, &to.node, "checkpoints go there");
        }
        Holder::Host(folder) => {
            let message =
                format!("checkpoints of `{name}` stay on the node: a pod on another one does not find them");
            ctx.report(&folder, message).help(help).related(object, &to.node, "checkpoints go there");
        }
    }
    Some(())
}

/// Reports an option with which a restarted run begins anew.
fn resume(object: &Object, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let words = words(container);
    let off = |text: &str| ["false", "no", "0"].contains(&text.to_ascii_lowercase().as_str());
    let set = option(&words, &["resume", "resume-from-checkpoint", "auto-resume"]);
    let (node, is_sure) = match set {
        OptionValue::Text(text, node) if off(&text) => (node, true),
        _ => {
            let plain = |word: &&Word<'_>| {
                matches!(word.text.replace('_', "-").as_str(), "--no-resume" | "--no-auto-resume")
            };
            match words.iter().find(plain) {
                Some(word) => (word.node.clone(), true),
                None => {
                    let overwrites = |word: &&Word<'_>| {
                        let text = word.text.replace('_', "-").to_ascii_lowercase();
                        text == "--overwrite-output-dir" || text == "--overwrite-output-dir=true"
                    };
                    let at = words.iter().position(|word| overwrites(&word))?;
                    if words.get(at + 1).is_some_and(|next| off(&next.text)) {
                        return None;
                    }
                    (words[at].node.clone(), false)
                }
            }
        }
    };
    let name = object.display_name();
    ctx.report(&node, format!("`{name}` begins anew after each restart: it is told not to resume"))
        .severity(if is_sure { Severity::Warning } else { Severity::Info })
        .help("let it resume from its newest checkpoint, if there is one");
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let classified = ctx.class_of(object);
    let name = object.display_name();
    let help = "mount a PersistentVolumeClaim for checkpoints, or give the run the URI of object storage";
    for mount in checkpoint_mounts(template) {
        let empty = volume(template, mount.get("name").text()?)?.get("emptyDir");
        if !empty.is_absent() {
            let message = format!("checkpoints of `{name}` are in an emptyDir, which ends with the pod");
            let finding = ctx.report(&empty, message);
            finding.help(help);
            add_class_evidence(finding, object, &classified);
            return None;
        }
    }
    if has_lasting_volume(object, template) {
        return None;
    }
    let precious = template.annotation(DO_NOT_DISRUPT).is_set();
    let severity = match (precious, names_checkpoints(template)) {
        (true, true) => Severity::Warning,
        (false, true) => return None,
        (_, false) => Severity::Info,
    };
    let message =
        format!("training run `{name}` shows no storage that outlives its pods: a restart may begin anew");
    let finding = ctx.report(&template.spec.get("volumes"), message);
    finding.severity(severity).help(help);
    add_class_evidence(finding, object, &classified);
    None
}
