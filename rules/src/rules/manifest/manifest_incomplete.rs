//! An object lacks a field that its kind requires.
//!
//! # Why
//! The API server rejects a NodePool without `spec.template`, a Deployment without a selector, a
//! ScaledObject without triggers. Such an object is a fragment: copied out of documentation, or
//! meant as a patch. What is written in it is checked like in any other object; what is not written
//! is reported here, once, and no other rule misses it a second time.
//!
//! In a file that is called a patch, in a folder `patches`, or below a comment that speaks of patches,
//! this is information: it may be meant for `kubectl patch`. Such a file has one finding for all its patches.
//! So it is for a workload with neither a selector nor the image of a container, which changes an installed one;
//! nothing is reported where Flux applies it, or Argo CD with `ServerSideApply=true`, which merge it.
//!
//! # Fix
//! Add the parts that are missing; `kubectl explain` describes the fields of a kind. If the file is a
//! patch, list it under `patches` in its kustomization: nothing is missing in a patch. If it is an
//! excerpt for documentation, leave it out with `ignore` in gpulint.yaml.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: embedder}
//!  spec: # <-
//! +  selector: {matchLabels: {app: embedder}}
//!    template:
//!      metadata: {labels: {app: embedder}}
//!      spec:
//!        containers:
//!          - name: embedder
//!            image: registry.example.com/embedder:1.4.2
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/#required-fields>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/>

use crate::kind::SCHEMA_KINDS;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::lint::finding::{Location, Merge};
use crate::rules::gitops::{DELIVERERS, is_merged};
use crate::rules::manifest::misplaced::{follows, misplaced};
use crate::rules::manifest_purpose::{is_read_by_tool, is_saved};
use crate::rules::precedence::EarlierReports;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{Violation, ViolationKind};

pub(crate) static RULE: Rule = Rule {
    id: "manifest-incomplete",
    kinds: SCHEMA_KINDS,
    reads: &DELIVERERS,
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    docs: docs(include_str!("manifest_incomplete.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // What is missing may be in the patch.
    if is_read_by_tool(object) || object.is_patch() || object.is_patched_by_kustomize() {
        return None;
    }
    // The status of an object, as a program saved it.
    if is_saved(object) && object.get("status").is_set() {
        return None;
    }
    let violations = schema::violations(object, ctx.definitions());
    if violations.is_empty() && !object.is_incomplete() {
        return None;
    }
    let changes_workload = is_change_of_workload(object);
    if changes_workload && is_merged(object, ctx) {
        return None;
    }
    let mut parts = parts(&violations, &EarlierReports::of(object, ctx));
    // A program fills in the fields of a template that it names.
    if object.path(&["metadata", "name"]).is_unknown() {
        parts.retain(|part| !object.root().at(&part.pointer).is_null());
        if parts.is_empty() && !violations.is_empty() {
            return None;
        }
    }
    // A part in the wrong place is reported by unknown-field.
    if !parts.is_empty() && ctx.is_rule_enabled("unknown-field") {
        let misplaced = misplaced(object, ctx.definitions());
        parts.retain(|part| !follows(object, part, &misplaced));
        if parts.is_empty() {
            return None;
        }
    }
    let kind = super::message_parts::with_article(object.kind());
    let (place, message, refused) = match parts.as_slice() {
        [] if object.is_incomplete() && !is_checked_elsewhere(object, ctx) => {
            let spec = object.get("spec");
            // The CRD of ScaledJob accepts it, but KEDA's admission webhook requires triggers.
            if object.is(Kind::SCALED_JOB) {
                let message = format!("`spec` is missing, which {kind} needs");
                (spec, message, Some(Authority::KedaAdmission))
            } else {
                let message = format!("{kind} without `spec` is stored, and does nothing");
                (spec, message, None)
            }
        }
        [] => return None,
        [one] => {
            let node = object.root().at(&one.pointer);
            let field = one.pointer.field_path();
            let message = match &one.kind {
                ViolationKind::Missing => format!("`{field}` is missing, which {kind} needs"),
                _ => format!("`{field}` must be a map in {kind}"),
            };
            (node, message, Some(Authority::ApiServer))
        }
        [first, rest @ ..] => {
            let fields: Vec<String> = parts.iter().map(|p| p.pointer.field_path()).collect();
            let message = match fields.as_slice() {
                [a, b] => format!("`{a}` and `{b}` are missing, which {kind} needs"),
                [a, b, more @ ..] => {
                    format!("`{a}`, `{b}` and {} more are missing, which {kind} needs", more.len())
                }
                _ => return None,
            };
            let above = rest.iter().fold(first.pointer.above(1), |above, part| {
                let shared =
                    above.steps().iter().zip(part.pointer.steps()).take_while(|(a, b)| a == b).count();
                Pointer::from_steps(above.steps().iter().take(shared).cloned())
            });
            (object.root().at(&above), message, Some(Authority::ApiServer))
        }
    };
    let may_differ = schema::may_differ(object, ctx.definitions());
    // Nothing else is reported as missing in a fragment, and absent fields have no location: only this one.
    // One finding for all patches of a file.
    let merge = Merge::new("patches", message.as_str(), |merge| match merge.places() {
        1 => merge.subject().to_owned(),
        more => format!("{} ({more} objects)", merge.subject()),
    });
    let finding = ctx.report(&object.root(), message);
    finding.location = Location::of(object, &place);
    let called_patch = object.origin().is_some_and(|origin| {
        is_called_patch(&origin.source.path().to_ascii_lowercase())
            || has_comment_on_patches(
                origin.source.text(),
                object.root().span().map_or(0, |span| span.start as usize),
            )
    });
    if may_differ {
        finding.severity(Severity::Warning);
    }
    if called_patch || changes_workload {
        finding.severity(Severity::Info).merges(merge);
    }
    finding.rejected_by(refused.filter(|_| !may_differ)).help(
        if changes_workload || looks_like_a_patch(object) {
            "if this is a patch, list it under `patches` in a kustomization; otherwise add what is missing"
                .to_owned()
        } else {
            format!(
                "add what is missing; `kubectl explain {}` describes the fields",
                object.kind().to_lowercase()
            )
        },
    );
    None
}

/// Whether an object changes a workload that is installed: it has neither a selector nor the image of a container, or no container at
/// all, which no workload of one's own lacks together.
pub(super) fn is_change_of_workload(object: &Object) -> bool {
    let spec = object.get("spec");
    let lacks_image = |container: Node<'_>| {
        container.get("name").text().is_some()
            && container.get("image").is_absent()
            && !container.has_unknown_key()
    };
    object.group() == "apps"
        && spec.get("selector").is_absent()
        && !spec.has_unknown_key()
        && match spec.path(&["template", "spec", "containers"]) {
            containers if containers.is_set() => containers.items().any(lacks_image),
            _ => spec.path(&["template", "spec"]).is_mapping(),
        }
}

/// Whether the path of the file indicates a patch.
fn looks_like_a_patch(object: &Object) -> bool {
    object.origin().is_some_and(|origin| {
        let path = origin.source.path().to_ascii_lowercase();
        is_called_patch(&path) || path.split('/').any(|folder| matches!(folder, "overlay" | "overlays"))
    })
}

/// Whether the comment at the head of a file, or the one above the object that begins at `start`, says that it is a patch.
fn has_comment_on_patches(text: &str, start: usize) -> bool {
    let is_comment = |line: &&str| line.starts_with('#') || line.trim().is_empty() || *line == "---";
    let above = text.get(..start).unwrap_or_default();
    let mut comments = above.lines().take_while(is_comment).chain(above.lines().rev().take_while(is_comment));
    comments.any(|line| is_called_patch(&line.to_ascii_lowercase()))
}

/// Whether a file or its folder is called a patch, as for `kubectl patch --patch-file`.
fn is_called_patch(path: &str) -> bool {
    let mut words = path.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| matches!(word, "patch" | "patches"))
}

/// The parts that are missing or are not maps, the outer ones first, those of one map in the order of the schema.
fn parts<'v>(violations: &'v [Violation], owned: &EarlierReports) -> Vec<&'v Violation> {
    let mut parts: Vec<&Violation> = violations.iter().filter(|v| is_part(v) && !owned.covers(v)).collect();
    parts.sort_by_key(|part| part.pointer.steps().len());
    parts
}

/// Whether a violation is that a part is missing or is not a map.
pub(super) fn is_part(violation: &Violation) -> bool {
    match &violation.kind {
        ViolationKind::Missing => schema::is_envelope(&violation.pointer),
        ViolationKind::Type { expected } => {
            let inner = violation.pointer.join("");
            expected == &["map"] && schema::is_envelope(&inner)
        }
        _ => false,
    }
}

/// Whether the object is reported as incomplete, so that no other missing field is reported.
pub(super) fn is_incomplete(object: &Object, definitions: &CustomResourceDefinitions) -> bool {
    object.is_incomplete() || schema::violations(object, definitions).iter().any(is_part)
}

/// Whether other rules report the object: those about old API versions are more specific than "missing".
fn is_checked_elsewhere(object: &Object, ctx: &Context<'_>) -> bool {
    !schema::has_schema(object.id(), ctx.definitions()) || ctx.earlier_rejections(None).next().is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::looks_like_a_patch;
    use crate::object::Object;
    use crate::source::{Source, read};

    #[test]
    fn only_paths_of_patches_lead_to_patches() {
        let object = |path: &str| {
            let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2}\n";
            let source = Arc::new(Source::from_text(path, text));
            read(&source)
                .iter()
                .flat_map(|d| Object::from_document(&source, d, false))
                .next()
                .expect("an object")
        };
        for path in ["replicas-patch.yaml", "a/patches/b.yaml", "overlays/prod/replicas.yaml"] {
            assert!(looks_like_a_patch(&object(path)), "{path}");
        }
        for path in ["deployment.yaml", "overlay-networks/a.yaml", "docs/pool.yaml"] {
            assert!(!looks_like_a_patch(&object(path)), "{path}");
        }
    }
}
