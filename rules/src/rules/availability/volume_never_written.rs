//! A container reads its files from an `emptyDir` that no container can write to.
//!
//! # Why
//! An `emptyDir` is made anew and empty for each pod. Where all mounts of it have `readOnly: true`, nothing
//! ever writes a file: the server starts with a model repository or a configuration folder without anything
//! in it, is ready, and answers each request with an error. Often the init container or the claim that was
//! to bring the files was left for later.
//!
//! Only a folder that the command, the arguments or a variable of the container names is reported: an empty
//! one may hide a folder of the image.
//!
//! # Fix
//! Mount the volume that has the files, or fill it by an init container that mounts it without `readOnly`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: triton}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: triton}}
//!    template:
//!      metadata: {labels: {app: triton}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/rules:1.4.0
//!            args: [--rules=/rules]
//!            volumeMounts: [{name: rules, mountPath: /rules, readOnly: true}]
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//!        volumes:
//!          - name: rules
//! -          emptyDir: {} # <-
//! +          configMap: {name: rules}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use crate::rules::prelude::*;
use crate::workload::command::command_and_args;

pub(crate) static RULE: Rule = Rule {
    id: "volume-never-written",
    docs: docs(include_str!("volume_never_written.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Availability)
};

/// Groups of kinds whose pods get no further container from a controller that would fill a volume of theirs.
const PLAIN_GROUPS: [&str; 7] =
    ["", "apps", "argoproj.io", "batch", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let annotations = template.metadata.get("annotations");
    let may_be_injected =
        annotations.has_unknown_key() || annotations.entries().iter().any(|(key, _)| key.contains("inject"));
    if !PLAIN_GROUPS.contains(&object.group())
        || object.may_lack_fields()
        || object.is_owned()
        || template.spec.has_unknown_key()
        || template.spec.get("initContainers").has_unknown()
        || may_be_injected
    {
        return None;
    }
    for volume in template.spec.get("volumes").items() {
        inspect(template, &volume, ctx);
    }
    None
}

fn inspect(template: &Template<'_>, volume: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (name, directory) = (volume.get("name").text()?, volume.get("emptyDir"));
    // Huge pages are memory, not files.
    let is_empty = !directory.is_absent() && !directory.is_unknown();
    if !is_empty || directory.get("medium").text().is_some_and(|medium| medium.starts_with("HugePages")) {
        return None;
    }
    let mut reader = None;
    for container in template.all_containers() {
        let mounts = container.get("volumeMounts");
        if mounts.is_unknown() || container.has_unknown_key() {
            return None;
        }
        for mount in mounts.items() {
            if mount.get("name").text()? != name {
                continue;
            }
            if mount.get("readOnly").bool() != Some(true) {
                return None;
            }
            if reader.is_none() && names_folder(&container, mount.get("mountPath").text()?) {
                reader = Some(mount);
            }
        }
    }
    let mount = reader?;
    let path = mount.get("mountPath");
    let shown = ellipsize(path.text()?);
    let message = format!("`{shown}` is always empty: each mount of the `emptyDir` is read-only");
    let object = ctx.object();
    ctx.report(&directory, message)
        .at_key()
        .help("mount the volume that has the files, or fill this one by an init container that can write")
        .related(object, &path, "read here");
    None
}

/// Whether the command, an argument or a variable of a container names a folder, or a file in it.
fn names_folder(container: &Node<'_>, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    let names = |text: &str| {
        text.match_indices(folder).any(|(at, _)| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let before = text[..at].chars().next_back();
            let after = text[at + folder.len()..].chars().next();
            !before.is_some_and(|c| is_part(c) || c == '/') && !after.is_some_and(is_part)
        })
    };
    let words = command_and_args(container);
    let values = container.get("env").items().map(|variable| variable.get("value"));
    !folder.is_empty() && words.chain(values).any(|node| node.raw_text().is_some_and(names))
}
