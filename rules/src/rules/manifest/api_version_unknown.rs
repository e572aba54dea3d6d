//! An object names a kind or a version that its API group never had.
//!
//! # Why
//! The API server answers `no matches for kind` and stores nothing. `kubectl apply` of several files has by then
//! created the others, so a NodePool may be there without its EC2NodeClass. The usual causes are the group of a
//! neighbouring project (`karpenter.sh` for `karpenter.k8s.aws`), the version of another kind of the same group,
//! and a misspelled kind.
//!
//! The rule checks the groups in which nobody else defines kinds: those built into Kubernetes, `karpenter.sh`,
//! `karpenter.k8s.aws`, `keda.sh` and `keda.k8s.io`. Versions that were served once have rules of their own. For
//! a cluster that `platform` declares to be newer than the releases that gpulint knows, it reports, as a warning,
//! a kind that another group has, or that is one or two letters away from a kind of its group.
//!
//! # Fix
//! Write the group, version or kind that the message names.
//!
//! # Example
//! ```yaml,diff
//! -apiVersion: karpenter.sh/v1 # <-
//! +apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole
//!    amiSelectorTerms: [{alias: al2023@v20260901}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: ml}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: ml}}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/using-api/#api-groups>
//! - <https://kubernetes.io/docs/reference/using-api/deprecation-guide/>

use crate::facts::suggest;
use crate::kind::api_versions::{VersionsOfKind, groups_with, kinds_of, versions_of, versions_of_kind};
use crate::kind::{KINDS, KindInfo};
use crate::object::ObjectId;
use crate::rules::manifest::message_parts::list_names;
use crate::rules::migration::removed_api_version::removed_in;
use std::cmp::Reverse;

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "api-version-unknown",
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("api_version_unknown.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Manifest)
};

/// Maximum number of letters in which a misspelled kind may differ.
const MAX_SLIPS: usize = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Nearly every object is of a kind in the kind table, in its preferred version.
    if object.kind_info().is_some_and(|info| info.version == object.version()) {
        return None;
    }
    let id = object.id();
    let (api_version, kind) = (object.get("apiVersion"), object.get("kind"));
    if object.is_patch()
        || id.version.is_empty()
        || api_version.is_unknown()
        || kind.is_unknown()
        || ctx.definitions().find(id).is_some()
    {
        return None;
    }
    let is_newer = |product: Product| ctx.platform().version(product) > product.newest();
    let newer = Product::of_group(&id.group).is_some_and(is_newer);
    match versions_of(&id.group, &id.kind) {
        VersionsOfKind::OtherGroup => {}
        VersionsOfKind::Known(versions) => {
            if newer || versions.contains(&id.version.as_str()) || is_reported_as_old(id) {
                return None;
            }
            let message = format!("{} was never served in `{}`", id.kind, ellipsize(&id.api_version()));
            let best = join(&id.group, versions.first().copied().unwrap_or_default());
            let kubernetes = ctx.platform().kubernetes;
            let help = match removed_in(&best).filter(|removed| *removed <= kubernetes) {
                _ if let Some((group, successor)) = successor_of(id) => {
                    format!("use a `{group}/v1` {successor}")
                }
                Some(removed) => format!("its last version, `{best}`, was removed in Kubernetes {removed}"),
                None => format!("write `{best}`"),
            };
            ctx.report(&api_version, message).help(help);
        }
        VersionsOfKind::NoSuchKind => no_such_kind(object, newer, ctx),
    }
    None
}

/// `newer`: the cluster is newer than the table, and may have more kinds.
fn no_such_kind(object: &Object, newer: bool, ctx: &mut Context<'_>) {
    let id = object.id();
    if is_generic(id) {
        return;
    }
    let message = format!("`{}` has no kind {}", ellipsize(&id.api_version()), ellipsize(&id.kind));
    let severity = if newer { Severity::Warning } else { RULE.severity };
    // Groups whose kinds have moved to another one are suggested last.
    let elsewhere =
        groups_with(&id.kind).min_by_key(|(group, _)| matches!(*group, "extensions" | "keda.k8s.io"));
    if let Some((group, versions)) = elsewhere {
        let same = versions.iter().find(|version| **version == id.version);
        let version = same.or(versions.first()).copied().unwrap_or_default();
        let help = format!("write `{}`", join(group, version));
        ctx.report(&object.get("apiVersion"), message).severity(severity).help(help);
        return;
    }
    if let Some(info) = operator_kind(id) {
        let help = format!("write `{}`", join(info.kind.group, info.version));
        ctx.report(&object.get("apiVersion"), message).severity(severity).help(help);
        return;
    }
    // Kinds have common endings: of two long names that differ in a word, neither is the other's misspelling.
    let is_typo = |near: &&str| suggest::is_within(&id.kind, near, MAX_SLIPS);
    let is_here = |kind: &&str| versions_of_kind(&id.group, kind).contains(&id.version.as_str());
    let mut kinds: Vec<&str> = kinds_of(&id.group).filter(is_here).collect();
    let is_version = !kinds.is_empty();
    if !is_version {
        kinds = kinds_of(&id.group).collect();
    }
    let near = suggest::nearest(&id.kind, kinds.iter().copied()).filter(is_typo);
    // Other tools write `v1` in their own files (`kind: Template`), and an operator that installs KEDA
    // has a kind of its own in KEDA's group (`KedaController`), so a clear typo is required there.
    let is_open = newer || matches!(id.group.as_str(), "" | "keda.sh");
    if is_open && !near.is_some_and(|near| suggest::is_within(&id.kind, near, 2)) {
        return;
    }
    let finding = ctx.report(&object.get("kind"), message).severity(severity);
    match near {
        Some(near) => finding.help(format!("did you mean `{near}`?")),
        None => {
            // Of a version that is gone, those of `v1` are the ones to use.
            let is_gone = is_version
                && matches!(id.group.as_str(), "karpenter.sh" | "karpenter.k8s.aws")
                && id.version != "v1";
            if is_gone {
                kinds = kinds_of(&id.group)
                    .filter(|kind| versions_of_kind(&id.group, kind).contains(&"v1"))
                    .collect();
            }
            let words = words_of(&id.kind);
            kinds.sort_by_key(|kind| {
                Reverse(words_of(kind).iter().filter(|word| words.contains(word)).count())
            });
            let names: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
            let lead = match (is_gone, is_version) {
                (true, _) => {
                    &format!("no current Karpenter has this version; the kinds of `{}/v1` are", id.group)
                }
                (false, true) => "its kinds are",
                (false, false) => "the kinds of its group are",
            };
            finding.help(list_names(lead, &names))
        }
    };
}

/// The group and the kind that a kind of old versions of Karpenter became.
fn successor_of(id: &ObjectId) -> Option<(&'static str, &'static str)> {
    match (id.group.as_str(), id.kind.as_str()) {
        ("karpenter.sh", "Provisioner") => Some(("karpenter.sh", "NodePool")),
        ("karpenter.k8s.aws", "AWSNodeTemplate") => Some(("karpenter.k8s.aws", "EC2NodeClass")),
        _ => None,
    }
}

/// The kind of an operator that is written as one of the core group: `apiVersion: v1` of a ServiceMonitor. Names of one word, such as
/// `Template`, are also those of files that other tools read, and a name of two groups tells neither.
fn operator_kind(id: &ObjectId) -> Option<&'static KindInfo> {
    let mut named = KINDS.iter().filter(|info| info.kind.kind == id.kind && !info.kind.group.is_empty());
    let only = named.next().filter(|_| named.next().is_none())?;
    (id.group.is_empty() && words_of(&id.kind).len() > 1).then_some(only)
}

/// Whether a rule of the migration group reports the version as outdated, although the kind is newer than the version.
fn is_reported_as_old(id: &ObjectId) -> bool {
    match id.group.as_str() {
        "keda.k8s.io" => true,
        "karpenter.sh" => matches!(id.kind.as_str(), "NodePool" | "NodeClaim") && is_alpha(&id.version),
        "karpenter.k8s.aws" => id.kind == "EC2NodeClass" && is_alpha(&id.version),
        "resource.k8s.io" => id.kind != "ResourceSlice" && is_alpha(&id.version),
        "apps" => id.version == "v1beta1" && matches!(id.kind.as_str(), "DaemonSet" | "ReplicaSet"),
        _ => false,
    }
}

/// The words in the name of a kind: `Node` and `Pool` of `NodePool`.
fn words_of(kind: &str) -> Vec<&str> {
    let starts: Vec<usize> =
        kind.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([kind.len()]);
    starts.iter().zip(ends).map(|(start, end)| &kind[*start..end]).collect()
}

fn is_alpha(version: &str) -> bool {
    version.starts_with("v1alpha")
}

/// Lists, and the request and response types that every group has.
fn is_generic(id: &ObjectId) -> bool {
    let kind = id.kind.as_str();
    kind == "List"
        || kind.ends_with("Options")
        || matches!(kind, "Status" | "WatchEvent")
        || kind
            .strip_suffix("List")
            .is_some_and(|of| versions_of(&id.group, of) != VersionsOfKind::NoSuchKind)
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
