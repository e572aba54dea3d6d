//! A field that the kind does not have in this API version.
//!
//! # Why
//! The API server drops an unknown field silently, unless its client asks for strict
//! decoding, as `kubectl apply` does since 1.27: then it rejects the object. Argo CD, Flux and
//! Terraform differ. So `spec.disruption.expireAfter`, which v1beta1 had, either stops the rollout
//! or is lost, and the nodes of the pool are replaced after the default 720 hours.
//!
//! # Fix
//! Write the field that is meant: the nearest name, or where the field stands in this version. Where
//! `platform` names a version that is newer than gpulint's schemas, the rule is silent. A field of
//! Kubernetes that came with a later version is a warning while `platform.kubernetes` is not set.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -  disruption:
//! -    consolidationPolicy: WhenEmpty
//! -    consolidateAfter: 5m
//! -    expireAfter: 336h # <-
//! +      expireAfter: 336h
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>
//! - <https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation>

use crate::facts::suggest;
use crate::kind::SCHEMA_KINDS;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::migration::moved_fields::{Replacement, moved_field};
use crate::platform::Version;
use crate::rules::precedence::EarlierReports;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{ViolationKind, fields_at};
use crate::tree::pointer::Pointer;

pub(crate) static RULE: Rule = Rule {
    id: "unknown-field",
    kinds: SCHEMA_KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("unknown_field.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if schema::cluster_is_newer(object, ctx.platform(), ctx.definitions()) {
        return None;
    }
    let owned = EarlierReports::of(object, ctx);
    for violation in schema::violations(object, ctx.definitions()).iter() {
        if violation.kind == ViolationKind::Unknown && !owned.covers(violation) {
            report(object, &violation.pointer, ctx);
        }
    }
    None
}

fn report(object: &Object, pointer: &Pointer, ctx: &mut Context<'_>) {
    let id = object.id();
    let definitions = ctx.definitions();
    let Some((name, above)) = pointer.steps().split_last() else {
        return;
    };
    let parent = Pointer::from_steps(above.iter().cloned());
    let field = super::words::quoted_field(pointer);
    let node = object.root().at(pointer);
    if let Some(since) = schema::added_later(object, pointer) {
        newer(&node, &field, since, ctx);
        return;
    }
    let finding = ctx.report(
        &node,
        format!("{} of `{}` has no field {field}", super::words::with_article(&id.kind), id.api_version()),
    );
    finding.at_key();
    let path: Vec<&str> = pointer.steps().iter().map(String::as_str).collect();
    if let Some(found) = moved_field((&id.group, &id.kind), &path) {
        match found.now {
            Replacement::SameValue(to) => {
                finding.help(format!("it is `{}` now, with the same value", to.join(".")));
                let target = object.root().path(to);
                if target.is_absent() && node.is_set() && !node.has_unknown() {
                    let title = format!("move it to `{}`", to.join("."));
                    let fix = Fix::new(title, Safety::Safe).move_to(&node, &target);
                    let templated = to.starts_with(&["spec", "template"]);
                    finding.fix(if templated { fix.replaces_nodes() } else { fix });
                }
            }
            Replacement::NewValue(to, how) => {
                finding.help(format!("it is `{}` now: {how}", to.join(".")));
            }
            Replacement::InNodeClass(to) => {
                finding.help(format!("it is `{}` of the EC2NodeClass now", to.join(".")));
            }
            Replacement::Removed(why) => {
                finding.help(format!("it is gone: {why}"));
            }
        }
        return;
    }
    let known = fields_at(object, &parent, definitions);
    let written = object.root().at(&parent);
    let near = suggest::nearest(name, known.iter().map(String::as_str));
    if let Some(near) = near {
        finding.help(format!("did you mean `{near}`?"));
        let target = written.get(near);
        if target.is_absent() && node.is_set() {
            finding.fix(Fix::new(format!("rename it to `{near}`"), Safety::Unsafe).move_to(&node, &target));
        }
    } else if let Some(home) = home(object, name, above, definitions) {
        finding.help(format!("it belongs at {}", super::words::quoted_field(&home)));
    } else if !known.is_empty() {
        finding.help(super::words::list_names("valid fields:", &known));
    }
}

/// A field that came with a later version of Kubernetes than the cluster's: no slip.
fn newer(node: &Node<'_>, field: &str, since: Version, ctx: &mut Context<'_>) {
    let kubernetes = ctx.platform().kubernetes;
    let stated = ctx.platform().is_stated(Product::Kubernetes);
    let finding =
        ctx.report(node, format!("{field} requires Kubernetes {since}; {kubernetes} does not have it"));
    finding.at_key();
    if stated {
        finding.help(format!("update Kubernetes to {since}, or remove the field"));
    } else {
        finding
            .severity(Severity::Warning)
            .help("set `platform.kubernetes` in gpulint.yaml to the version of the cluster");
    }
}

/// The location above, or just below, where a field of this name is valid.
fn home(
    object: &Object,
    name: &str,
    above: &[String],
    definitions: &CustomResourceDefinitions,
) -> Option<Pointer> {
    let has = |at: &Pointer| fields_at(object, at, definitions).iter().any(|field| field == name);
    for depth in (0..above.len()).rev() {
        let at = Pointer::from_steps(above.iter().take(depth).cloned());
        if has(&at) {
            return Some(at.join(name));
        }
    }
    let here = Pointer::from_steps(above.iter().cloned());
    fields_at(object, &here, definitions)
        .iter()
        .map(|field| here.join(field))
        .find(has)
        .map(|at| at.join(name))
}
