//! A trigger refers to a TriggerAuthentication that is missing or of another kind.
//!
//! # Why
//! `authenticationRef` means a TriggerAuthentication of the same namespace where `kind` is not written; a
//! ClusterTriggerAuthentication of that name is not found. KEDA's admission does not look: the scaler
//! cannot be built, the object is not Ready, and the replicas stay where they are. So it is with one that
//! is only in another namespace.
//!
//! # Fix
//! Write `kind: ClusterTriggerAuthentication`, or put the TriggerAuthentication into the namespace. Where
//! all objects are in the input, a reference to nothing is reported as advice.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: aws-sqs-queue
//!        metadata:
//!          queueURL: https://sqs.us-east-1.amazonaws.com/111122223333/jobs
//!          awsRegion: us-east-1
//!        authenticationRef:
//! -        name: keda-aws # <-
//! +        name: keda-aws
//! +        kind: ClusterTriggerAuthentication
//!  ---
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ClusterTriggerAuthentication
//!  metadata: {name: keda-aws}
//!  spec:
//!    podIdentity: {provider: aws}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/#re-use-credentials-and-delegate-auth-with-triggerauthentication>

use crate::rules::partners::authenticated;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-missing",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: kinds![
        [
            Kind::TRIGGER_AUTHENTICATION,
            Kind::CLUSTER_TRIGGER_AUTHENTICATION,
            Kind::SCALED_OBJECT,
            Kind::SCALED_JOB
        ],
        CHART_KINDS
    ],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_auth_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

const ONE: Kind = Kind::TRIGGER_AUTHENTICATION;
const ALL: Kind = Kind::CLUSTER_TRIGGER_AUTHENTICATION;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default().to_owned();
    // The namespace may be set when the manifest is applied.
    let namespaced = object.namespace().is_some();
    for trigger in triggers(object) {
        let reference = trigger.node.get("authenticationRef");
        let (node, kind) = (reference.get("name"), reference.get("kind"));
        let Some(name) = node.text().filter(|name| !name.is_empty()) else { continue };
        let (wanted, other) = match kind.text() {
            _ if kind.is_unknown() => continue,
            None | Some("TriggerAuthentication") => (ONE, ALL),
            Some("ClusterTriggerAuthentication") => (ALL, ONE),
            Some(_) => continue,
        };
        let exists = |kind: Kind| find(ctx, kind, &namespace, name).is_some();
        if exists(wanted) {
            continue;
        }
        if let Some(found) = find(ctx, other, &namespace, name) {
            let message = format!("`{}` is a {}, not a {}", ellipsize(name), other.kind, wanted.kind);
            ctx.report(&node, message)
                .help(format!("write `kind: {}`", other.kind))
                .reports_absence(false)
                .related(found, &found.path(&["metadata", "name"]), "it is here")
                .fix(Fix::unsafe_(format!("name the {}", other.kind)).set(&kind, json!(other.kind)));
            continue;
        }
        if let Some(found) = in_other_namespace(object, name, ctx).filter(|_| wanted == ONE) {
            let there = ellipsize(found.namespace_or_default());
            let message =
                format!("`{}` is in namespace `{there}`, and this {} is not", ellipsize(name), object.kind());
            ctx.report(&node, message)
                .help("move it to the namespace of its scaler, or make it a ClusterTriggerAuthentication")
                .related(found, &found.path(&["metadata", "namespace"]), "it is here");
            continue;
        }
        if let Some(unused) = unused_like(object, wanted, name, ctx) {
            let message = format!("there is no {} `{}`", wanted.kind, ellipsize(name));
            ctx.report(&node, message)
                .help(format!("did you mean `{}`? No trigger uses it", ellipsize(unused.name())))
                .related(unused, &unused.path(&["metadata", "name"]), "it is here")
                .fix(Fix::unsafe_(format!("name `{}`", unused.name())).set(&node, json!(unused.name())));
            continue;
        }
        if !(namespaced || wanted == ALL) || !ctx.cluster().is_complete_for(wanted) {
            continue;
        }
        let names: Vec<&str> = match wanted {
            ALL => ctx.cluster().of(ALL).map(Object::name).collect(),
            _ => ctx.cluster().in_namespace(wanted, &namespace).map(Object::name).collect(),
        };
        let near = nearest(name, names.iter().copied());
        let message = match wanted {
            ALL => format!("there is no {} `{}`", wanted.kind, ellipsize(name)),
            _ => format!("there is no {} `{}` in namespace `{namespace}`", wanted.kind, ellipsize(name)),
        };
        ctx.report(&node, message)
            .help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "without it KEDA cannot build the scaler, and nothing scales".to_owned(),
            })
            .severity(Severity::Info);
    }
    None
}

fn find<'a>(ctx: &Context<'a>, kind: Kind, namespace: &str, name: &str) -> Option<&'a Object> {
    let is_here = |found: &&Object| kind == ALL || found.namespace_or_default() == namespace;
    ctx.cluster().written_as(kind, name).find(is_here)
}

/// The only TriggerAuthentication of a name, in another namespace, where no scaler uses it.
fn in_other_namespace<'a>(object: &Object, name: &str, ctx: &Context<'a>) -> Option<&'a Object> {
    let cluster = ctx.cluster();
    let found = cluster.only_likely_elsewhere(object, ONE, name)?;
    let is_made = may_be_made(cluster, ONE, object.namespace_or_default(), name);
    (authenticated(found, cluster).is_empty() && !is_made).then_some(found)
}

/// The only authentication that is applied with a scaler and has a similar name to one that is missing, while no scaler
/// uses it.
fn unused_like<'a>(object: &Object, kind: Kind, name: &str, ctx: &Context<'a>) -> Option<&'a Object> {
    let cluster = ctx.cluster();
    let around: Vec<&Object> = match kind {
        ALL => cluster.of(ALL).collect(),
        _ => cluster.in_namespace(kind, object.namespace_or_default()).collect(),
    };
    let mut similar = around.into_iter().filter(|other| {
        cluster.surely_pairs(object, other)
            && is_similar(name, other.name())
            && authenticated(other, cluster).is_empty()
    });
    similar.next().filter(|_| similar.next().is_none())
}

/// Whether one name is a typo of the other, or both begin with the same long text: `rabbit-creds` and
/// `rabbit-credentials`.
fn is_similar(a: &str, b: &str) -> bool {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    nearest(a, [b]).is_some() || (common >= 6 && common * 4 >= a.len().min(b.len()) * 3)
}
