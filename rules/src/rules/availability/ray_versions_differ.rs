//! The workers of a Ray cluster have another version of Ray or Python than its head.
//!
//! # Why
//! A worker compares its versions of Ray and Python with those of the head when it joins, and ends with
//! `RuntimeError: Version mismatch` if they differ. KubeRay starts the pod again, without end: the cluster has
//! no workers, and its nodes are paid for. The images of the head and of the groups are written apart, so that
//! an upgrade of one is easily forgotten in the other. Only the tags of Ray's own images are read.
//!
//! `rayVersion` chooses no image: one that says another version than the image of the head is information.
//!
//! # Fix
//! Use one release of Ray, and one version of Python, in the head and in all groups. Tags without `py310` and
//! the like have the Python that is the default of their release.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayCluster
//!  metadata: {name: features}
//!  spec:
//!    headGroupSpec:
//!      rayStartParams: {}
//!      template:
//!        spec:
//!          containers:
//!            - name: head
//!              image: rayproject/ray:2.49.2-py311
//!              resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!    workerGroupSpecs:
//!      - groupName: cpu
//!        replicas: 2
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: worker
//! -              image: rayproject/ray:2.46.0-py311 # <-
//! +              image: rayproject/ray:2.49.2-py311
//!                resources: {requests: {cpu: 7, memory: 28Gi}, limits: {memory: 28Gi}}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/upgrade-guide.html>
//! - <https://github.com/ray-project/ray/blob/ray-2.49.2/python/ray/_private/node.py>

use crate::rules::prelude::*;
use crate::workload::command::command_and_args;
use crate::workload::environment::entry;
use crate::workload::ray::{cluster_spec, ray_image, release_in};

pub(crate) static RULE: Rule = Rule {
    id: "ray-versions-differ",
    kinds: &[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("ray_versions_differ.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let cluster = cluster_spec(object);
    let head = ray_container(&cluster.get("headGroupSpec"))?;
    let own = ray_image(&head)?;
    stated(&cluster.get("rayVersion"), own.ray, ctx);
    for group in cluster.get("workerGroupSpecs").items() {
        let Some(worker) = ray_container(&group) else { continue };
        let Some(its) = ray_image(&worker) else { continue };
        // `start` of ray/scripts/scripts.py calls `check_version_info` of ray/_private/node.py for a node that is not the head.
        let (program, found, wanted) = match (its.python, own.python) {
            _ if its.ray != own.ray => ("Ray", its.ray.to_owned(), own.ray.to_owned()),
            (Some(its), Some(own)) if its != own => ("Python", with_point(its), with_point(own)),
            _ => continue,
        };
        let name = group.get("groupName");
        let name = ellipsize(name.text().unwrap_or_default());
        let message = format!(
            "workers of group `{name}` have {program} {found}, and the head has {wanted}: they cannot join"
        );
        ctx.report(&worker.get("image"), message)
            .help(format!("use one version of {program} in the head and in all groups"))
            .related(object, &head.get("image"), "the image of the head");
    }
    None
}

/// The container of a group in which KubeRay starts Ray: the first one. `None` if its command may install another version, or run a
/// script that does, or its variables choose another environment of Python.
fn ray_container<'a>(group: &Node<'a>) -> Option<Node<'a>> {
    let first = group.path(&["template", "spec", "containers"]).items().next()?;
    let mut words = command_and_args(&first);
    let may_install = |text: &str| text.contains("install") || text.contains(".sh");
    let installs = words.any(|word| word.raw_text().is_none_or(may_install));
    let chooses = ["PATH", "VIRTUAL_ENV"].iter().any(|name| entry(&first, name).is_some());
    (!installs && !chooses).then_some(first)
}

/// Reports a `rayVersion` that is not the version of the image.
fn stated(field: &Node<'_>, ray: &str, ctx: &mut Context<'_>) -> Option<()> {
    let text = field.string_or_number()?;
    // It may be a tag, or a major and minor version alone.
    let own = release_in(&text).unwrap_or(&text);
    if Version::parse(own)? == Version::parse(ray)? {
        return None;
    }
    let message = format!("`rayVersion` is {}, and the image of the head has Ray {ray}", ellipsize(&text));
    ctx.report(field, message)
        .severity(Severity::Info)
        .help(format!("write `{ray}`: the field chooses no image"))
        .fix(Fix::unsafe_("write the version of the image").set(field, json!(ray)));
    None
}

/// `3.10` for `310`.
fn with_point(python: &str) -> String {
    let (major, minor) = python.split_at(1);
    format!("{major}.{minor}")
}
