//! The Pod Security level of a namespace rejects the pods of a workload.
//!
//! # Why
//! A namespace with the label `pod-security.kubernetes.io/enforce` admits no pod that its level forbids:
//! `baseline` forbids host paths, ports and namespaces, privileged containers, and capabilities beyond those of
//! a container runtime; `restricted` also demands four fields of each container. The Deployment, the DaemonSet
//! or the Job is accepted, and its controller cannot make a single pod: only its events say so. It is so for
//! device plugins, exporters and node agents, which mount paths of the node, and for model servers with
//! `hostIPC`.
//!
//! The checks are those of the version in `pod-security.kubernetes.io/enforce-version`, otherwise those of the
//! API server. Pods for Windows need no fields that Windows lacks, and pods with `hostUsers: false` may run as
//! root. Where a policy that writes security contexts (MutatingAdmissionPolicy, Kyverno, Gatekeeper) or an
//! unknown webhook for pods is in the input, absent fields are not reported. EKS has no exemptions for users,
//! runtime classes or namespaces. A label with another level, or a version such as `1.34` instead of
//! `v1.34`, makes the API server reject the namespace itself.
//!
//! # Fix
//! Change the pods, move those that take care of nodes into a namespace of their own, or write another level.
//! `restricted` demands `runAsNonRoot: true`, `allowPrivilegeEscalation: false`, `capabilities: {drop: [ALL]}`
//! and `seccompProfile: {type: RuntimeDefault}`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Namespace
//!  metadata:
//!    name: search
//!    labels:
//!      pod-security.kubernetes.io/enforce: baseline
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: terms, namespace: search}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: terms}}
//!    template:
//!      metadata: {labels: {app: terms}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/terms:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//!            volumeMounts: [{name: cache, mountPath: /cache}]
//!        volumes:
//! -        - {name: cache, hostPath: {path: /mnt/cache}} # <-
//! +        - {name: cache, emptyDir: {sizeLimit: 10Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/security/pod-security-standards/>
//! - <https://kubernetes.io/docs/concepts/security/pod-security-admission/>

use super::limit_range_rejects::GROUPS;
use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::facts::text::is_digits;
use crate::rules::prelude::*;
use crate::workload::security::pod_security::{Breach, Level, breaches};
use crate::workload::template::is_workflow;

pub(crate) static RULE: Rule = Rule {
    id: "pod-security-rejects",
    kinds: kinds![[Kind::NAMESPACE], WORKLOAD_KINDS],
    reads: kinds![[Kind::NAMESPACE], POD_POLICIES],
    docs: docs(include_str!("pod_security_rejects.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// The beginning of the labels of a namespace with its levels.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// The level that a namespace enforces, the version of its checks, and the label.
fn enforced<'a>(namespace: &'a Object, server: Version) -> Option<(Level, Version, Node<'a>)> {
    let labels = namespace.path(&["metadata", "labels"]);
    let label = labels.get("pod-security.kubernetes.io/enforce");
    let level = match label.text()? {
        "baseline" => Level::Baseline,
        "restricted" => Level::Restricted,
        _ => return None,
    };
    let version = labels.get("pod-security.kubernetes.io/enforce-version");
    let version = match version.text() {
        Some("latest") => server,
        Some(text) => Version::parse(text.strip_prefix('v')?)?.min(server),
        None if version.is_absent() => server,
        None => return None,
    };
    let is_replaced = namespace.source().is_some_and(|source| source.sets_label(POD_SECURITY));
    let is_known = !namespace.may_lack_fields() && !labels.has_unknown_key() && !is_replaced;
    is_known.then_some((level, version, label))
}

/// Reports labels of a namespace with which the API server rejects it: `PolicyToEvaluate` of `api/helpers.go`.
fn invalid_labels(namespace: &Object, ctx: &mut Context<'_>) {
    const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
    for (key, node) in namespace.path(&["metadata", "labels"]).entries() {
        let Some(mode) = key.strip_prefix(POD_SECURITY) else { continue };
        let Some(text) = node.text() else { continue };
        let (is_valid, wanted) = match mode {
            "enforce" | "audit" | "warn" => {
                (LEVELS.contains(&text), "`privileged`, `baseline` or `restricted`")
            }
            "enforce-version" | "audit-version" | "warn-version" => {
                let is_minor = text.strip_prefix("v1.").is_some_and(is_digits);
                (is_minor || text == "latest", "`latest` or a version such as `v1.34`")
            }
            _ => continue,
        };
        if !is_valid {
            let message =
                format!("the API server rejects a namespace whose label `{mode}` is `{}`", ellipsize(text));
            ctx.report(&node, message).help(format!("write {wanted}"));
        }
    }
}

/// What a level rejects in the pods of a workload, each once: what is there before what is absent.
fn found<'a>(object: &'a Object, level: Level, version: Version, ctx: &Context<'_>) -> Vec<Breach<'a>> {
    // Some operators add security contexts, and so may a policy.
    let is_as_written = GROUPS.contains(&object.group())
        && !is_workflow(object)
        && !may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::SecurityContext);
    let mut found: Vec<Breach<'_>> = Vec::new();
    for breach in templates(object).iter().flat_map(|template| breaches(template, level, version)) {
        let is_known = found.iter().any(|other| other.what == breach.what);
        if !is_known && (is_as_written || !breach.is_absent) {
            found.push(breach);
        }
    }
    found.sort_by_key(|breach| breach.is_absent);
    found
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NAMESPACE) {
        invalid_labels(object, ctx);
        return None;
    }
    if object.may_lack_fields() || object.is_namespace_unknown() || object.controller().is_some() {
        return None;
    }
    let namespace = ctx.partner(Kind::NAMESPACE, "default", object.namespace_or_default())?;
    let (level, version, label) = enforced(namespace, ctx.platform().kubernetes)?;
    let found = found(object, level, version, ctx);
    let first = found.first()?;
    let named: Vec<&str> = found
        .iter()
        .filter(|breach| breach.is_absent == first.is_absent)
        .map(|breach| breach.what.as_str())
        .collect();
    let list = match named.as_slice() {
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} and {other}"),
        [one, other, rest @ ..] => format!("{one}, {other} and {} more", rest.len()),
        [] => return None,
    };
    let preposition = if first.is_absent { "without" } else { "with" };
    let lower =
        if found.iter().any(|breach| breach.level == Level::Baseline) { "privileged" } else { "baseline" };
    let message = format!(
        "`{}` of namespace `{}` rejects pods {preposition} {list}",
        label.text()?,
        namespace.display_name()
    );
    let remedy =
        if first.is_absent { "write what is missing into `securityContext`" } else { "change the pods" };
    let severity =
        if ctx.cluster().likely_pairs(object, namespace) { Severity::Error } else { Severity::Warning };
    let finding = ctx.report(&first.node, message);
    finding
        .severity(severity)
        .help(format!("{remedy}, or lower the level of the namespace to `{lower}`"))
        .related(namespace, &label, "the level");
    for other in &found[1..] {
        let note = if other.is_absent { format!("without {}", other.what) } else { other.what.clone() };
        finding.related(object, &other.node, note);
    }
    None
}
