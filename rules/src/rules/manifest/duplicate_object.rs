//! Two objects of the input have one kind, namespace and name.
//!
//! # Why
//! The one that is applied later replaces the other, and which one that is depends on the order
//! of files. With a NodePool it means that limits or taints of one file are gone.
//!
//! # Fix
//! Rename one of them, or remove the one that is out of date. Bases and overlays of kustomize
//! repeat objects on purpose: files in different kustomizations are not compared.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//! -metadata: {name: pool-notes}
//! +metadata: {name: vision-notes}
//!  data: {team: vision}
//!  ---
//!  apiVersion: v1
//!  kind: ConfigMap
//! -metadata:
//! -  name: pool-notes # <-
//! +metadata: {name: speech-notes}
//!  data: {team: speech}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "duplicate-object",
    docs: docs(include_str!("duplicate_object.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let origin = object.origin()?;
    let id = object.id();
    let name = object.path(&["metadata", "name"]);
    if object.is_partial() || id.name.is_empty() || name.is_unknown() || !name.is_set() {
        return None;
    }
    if object.path(&["metadata", "namespace"]).is_unknown() {
        return None;
    }
    let all = ctx.index().all(&id.group, &id.kind, id.namespace_or_default(), &id.name);
    // Each object except the first is reported against the first, so that a pair is one finding.
    let first = all.first().filter(|first| !first.is_same_resource(object))?;
    let other = first.origin()?;
    if kustomizations_differ(other.source.path(), origin.source.path()) {
        return None;
    }
    ctx.report(&name, format!("{} `{}` is written twice in this input", id.kind, id.name))
        .help("rename one of the two, or remove the one that is out of date")
        .related(first, &first.path(&["metadata", "name"]), "first written here");
    None
}

/// Whether the paths are in different layers of a kustomize tree.
fn kustomizations_differ(a: &str, b: &str) -> bool {
    let layer = |path: &str| -> Option<String> {
        let folders: Vec<&str> = path.split('/').collect();
        let at = folders.iter().position(|f| {
            matches!(*f, "base" | "bases" | "overlays" | "overlay" | "components" | "environments" | "envs")
        })?;
        Some(folders[..(at + 2).min(folders.len() - 1)].join("/"))
    };
    match (layer(a), layer(b)) {
        (None, None) => false,
        (a, b) => a != b,
    }
}
