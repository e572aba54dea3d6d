//! An object uses an API that Karpenter no longer serves.
//!
//! # Why
//! Provisioner, AWSNodeTemplate and Machine went with v0.33; the v1beta1 kinds went with 1.1. The
//! API server answers such an object with 404, and where an old CRD is still installed nobody
//! acts on it: the pool exists on paper and no node ever starts.
//!
//! # Fix
//! Write a `karpenter.sh/v1` NodePool and a `karpenter.k8s.aws/v1` EC2NodeClass. Limits move from
//! `spec.limits.resources` to `spec.limits`, `ttlSecondsAfterEmpty` becomes `consolidateAfter`
//! with `WhenEmpty`, and an absent `ttlSecondsUntilExpired` becomes `expireAfter: Never`, because
//! absence means 720h now. NodePools no longer default to On-Demand, amd64 and linux: write the
//! requirements out. Kubelet settings move from the pool to the class.
//!
//! The fix does all of that, one object after the other. It leaves to you what the old object does
//! not say: the `role` of a class that lived on the default instance profile, an AMI in place of
//! Ubuntu, the content of a launch template, pools of one class whose kubelet settings differ. Its
//! class has to be among the files wherever kubelet settings move. It pins `@latest` where the old
//! object followed the newest AMI, and writes two metadata hops where the old default gave two.
//!
//! Fields whose meaning the new API kept are checked by its rules as well, at their places in the old
//! object, and so are pods and other objects beside it: one run shows what is left to do after the
//! conversion.
//!
//! Fields that a NodePool of `v1beta1` does not have, such as `kubeletConfiguration` of the Provisioner or
//! `expireAfter` in the template, are reported as well: the API server drops them, or rejects the object.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1alpha5 # <-
//! kind: Provisioner
//! metadata: {name: general}
//! spec:
//!   providerRef:
//!     name: general
//!   requirements:
//!     # Two generations back at most.
//!     - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["5"]}
//!   limits: {resources: {cpu: 1000}}
//!   ttlSecondsAfterEmpty: 300
//! ```
//!
//! # Good
//! ```yaml,fixed
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata: {name: general}
//! spec:
//!   limits: {cpu: 1000}
//!   template:
//!     spec:
//!       nodeClassRef: {name: general, group: karpenter.k8s.aws, kind: EC2NodeClass}
//!       requirements:
//!         # Two generations back at most.
//!         - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["5"]}
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!         - {key: kubernetes.io/os, operator: In, values: [linux]}
//!         - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!       expireAfter: Never
//!   disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>
//! - <https://karpenter.sh/v0.32/upgrading/v1beta1-migration/>

use crate::cluster::converted::Converted;
use crate::cluster::dependencies::{Read, record_read};
use crate::kind::api_versions::versions_of_kind;
use crate::migration::convert;
use crate::platform::Platform;
use crate::rules::manifest_purpose;
use crate::rules::migration::successors::{is_for_old_release, successor_alone, successors};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-api",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::EC2_NODE_CLASS,
        Kind::PROVISIONER,
        Kind::MACHINE,
        Kind::AWS_NODE_TEMPLATE,
        Kind::new("provisioning.karpenter.sh", "Provisioner"),
        Kind::new("provisioner.karpenter.sh", "Provisioner"),
    ],
    // Old kinds are looked up in files only: no cluster that could be watched serves them.
    reads: &[
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::PROVISIONER,
        Kind::AWS_NODE_TEMPLATE,
        // Rules that judge the successor read it.
        Kind::NODE_OVERLAY,
    ],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("karpenter_legacy_api.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    const RENAMED: [&str; 3] = ["Provisioner", "AWSNodeTemplate", "Machine"];
    if object.version() == "v1" && !RENAMED.contains(&object.kind()) {
        return None;
    }
    // A version that no Karpenter ever had is what api-version-unknown reports.
    let had = versions_of_kind(object.group(), object.kind());
    if RENAMED.contains(&object.kind()) && !had.is_empty() && !had.contains(&object.version()) {
        return None;
    }
    let karpenter = ctx.platform().karpenter;
    let Outdated { mut message, successor, served } = outdated(object, ctx.platform())?;
    let contradiction = contradiction(object, ctx);
    if let Some((other, _)) = &contradiction {
        message = format!(
            "{} `{}` is not served from Karpenter 1.1 on, and {} `{}` needs 1.0",
            object.kind(),
            object.id().api_version(),
            other.kind(),
            other.display_name()
        );
    }
    let conversion = convert(object, ctx.cluster());
    // The first version of Karpenter that has another API for this object.
    let is_only = karpenter < Version::new(1, 0)
        && served
        && (object.version() == "v1beta1" || karpenter != LAST_WITH_ALPHA);
    let is_copy = manifest_purpose::is_copy(object)
        || is_for_old_release(object) && !ctx.platform().is_stated(Product::Karpenter);
    let is_v1 = is_v1_but_its_version(object);
    let rejected = rejected_by_old_api(object);
    let finding = ctx.report(&object.get("apiVersion"), message);
    if let Some((node, message, _)) = rejected.as_ref().filter(|_| !served) {
        finding.related(object, node, *message);
    }
    if let Some((other, _)) = &contradiction {
        finding.related(other, &other.get("apiVersion"), "it is already `v1`");
    }
    if is_only || is_copy {
        finding.severity(Severity::Info);
    } else if served {
        finding.severity(Severity::Warning);
    } else {
        // An API server with the old CRD stores the object, but Karpenter does not read it.
        finding.otherwise_rejected_by(Authority::Karpenter);
    }
    match conversion {
        _ if is_v1 => {
            let api = format!("{}/v1", object.group());
            finding.help(format!("write `{api}`: the fields are those of `v1`")).fix(
                Fix::new(format!("write `{api}`"), Safety::Unsafe).set(&object.get("apiVersion"), json!(api)),
            );
        }
        Ok(fix) => {
            finding.help(match &contradiction {
                Some((_, stated)) => format!("{successor}, and update Karpenter: {stated}"),
                None => format!("{successor}; `gpulint explain karpenter-legacy-api` has the fields"),
            });
            // Before 1.0 the new API does not exist.
            if karpenter >= Version::new(1, 0) {
                finding.fix(fix);
            }
        }
        Err(reason) => {
            finding.help(match &contradiction {
                Some((_, stated)) => format!("{reason}; update Karpenter: {stated}"),
                None => reason,
            });
        }
    }
    if !is_copy {
        report_kept_meaning(object, ctx);
        report_unknown_fields(object, ctx);
    }
    if let Some((node, message, help)) = rejected.filter(|_| served) {
        // Whatever serves the old API has its validation rules.
        ctx.report(&node, message).rejected_by(Some(Authority::ApiServer)).help(help);
    }
    None
}

/// An object of `v1` in the set of one of `v1beta1`, where a file states a version of Karpenter that does not serve it, and what the
/// file states.
fn contradiction(object: &Object, ctx: &Context<'_>) -> Option<(Object, String)> {
    if object.version() != "v1beta1" || ctx.platform().is_stated(Product::Karpenter) {
        return None;
    }
    let cluster = ctx.cluster();
    let shown = cluster.contradicted_karpenter()?;
    let (path, line) = shown.place.line()?;
    let all = [Kind::NODE_POOL, Kind::EC2_NODE_CLASS].into_iter().flat_map(|kind| cluster.of(kind));
    let mut current = all.filter(|other| other.version() == "v1" && ctx.pairs_with(other));
    Some((current.next()?.clone(), format!("{path}:{line} has {}", shown.version)))
}

/// An API that Karpenter does not serve, or will not: what to say, what to use, and whether this version still serves it.
struct Outdated {
    message: String,
    successor: &'static str,
    served: bool,
}

fn outdated(object: &Object, platform: &Platform) -> Option<Outdated> {
    let (id, karpenter) = (object.id(), platform.karpenter);
    let old = format!("{} `{}`", id.kind, id.api_version());
    let (message, successor, served) = match id.kind.as_str() {
        // Karpenter 0.32 serves the old kinds and the new ones.
        "Provisioner" | "AWSNodeTemplate" | "Machine" if karpenter <= LAST_WITH_ALPHA => (
            format!("{old} is not served from Karpenter 0.33 on"),
            "migrate to `v1beta1` of its successor",
            true,
        ),
        "Provisioner" => (dead(&old), "use a `karpenter.sh/v1` NodePool", false),
        "AWSNodeTemplate" => (dead(&old), "use a `karpenter.k8s.aws/v1` EC2NodeClass", false),
        "Machine" => (dead(&old), "remove it", false),
        _ => match id.version.as_str() {
            "v1" => return None,
            "v1beta1" if karpenter < LAST_WITH_ALPHA => {
                (format!("Karpenter {karpenter} does not serve {old} yet"), "update Karpenter first", false)
            }
            "v1beta1" if karpenter < Version::new(1, 0) => (
                format!("{old} becomes `v1` with Karpenter 1.0"),
                "use `v1` of the same kind from then on",
                true,
            ),
            "v1beta1" if karpenter < Version::new(1, 1) => {
                let message = format!("{old} is deprecated in Karpenter {karpenter}");
                (message, "use `v1` of the same kind", true)
            }
            "v1beta1" => {
                let this = platform.version_clause(Product::Karpenter, karpenter);
                let message = format!("{old} is not served from Karpenter 1.1 on, and {this}");
                (message, "use `v1` of the same kind", false)
            }
            version if version.starts_with("v1alpha") => {
                (format!("no version of Karpenter serves {old}"), "use `v1` of the same kind", false)
            }
            _ => return None,
        },
    };
    Some(Outdated { message, successor, served })
}

/// What the validation rules of the old API reject, Karpenter 0.32 to 0.37, `pkg/apis/v1beta1/nodepool.go`: a pool of
/// `v1beta1` that consolidates empty nodes and does not say when, which is `0s` in `v1`, and one that consolidates others and
/// does, which `v1` accepts. Gives the field, a message and a help.
fn rejected_by_old_api(object: &Object) -> Option<(Node<'_>, &'static str, &'static str)> {
    if object.is(Kind::PROVISIONER) {
        return rejected_by_webhook(object);
    }
    let disruption = object.path(&["spec", "disruption"]);
    let after = disruption.get("consolidateAfter");
    let is_old = object.is(Kind::NODE_POOL) && object.version() == "v1beta1" && !object.may_lack_fields();
    if !is_old || disruption.has_unknown_key() {
        return None;
    }
    let policy = disruption.get("consolidationPolicy");
    if policy.text() == Some("WhenEmpty") && after.is_absent() {
        return Some((
            after,
            "`consolidateAfter` is missing, which `WhenEmpty` needs in `v1beta1`",
            "write how long an empty node may stay, such as `consolidateAfter: 5m`",
        ));
    }
    let is_other = policy.text() == Some("WhenUnderutilized") || policy.is_absent();
    let is_delay = after.text().is_some_and(|text| text != "Never");
    (is_other && is_delay).then_some((
        after,
        "`v1beta1` rejects `consolidateAfter` with `WhenUnderutilized`",
        "write it in `v1`, with `WhenEmptyOrUnderutilized`: Karpenter waits for that long from 1.0 on",
    ))
}

/// The fields of a NodePool of `v1beta1`, by their place (`karpenter.sh_nodepools.yaml` of Karpenter 0.37 and 1.0).
const FIELDS: [(&[&str], &[&str]); 6] = [
    (&["spec"], &["disruption", "limits", "template", "weight"]),
    (&["spec", "disruption"], &["budgets", "consolidateAfter", "consolidationPolicy", "expireAfter"]),
    (&["spec", "template"], &["metadata", "spec"]),
    (&["spec", "template", "metadata"], &["annotations", "labels"]),
    (
        &["spec", "template", "spec"],
        &["kubelet", "nodeClassRef", "requirements", "resources", "startupTaints", "taints"],
    ),
    (&["spec", "template", "spec", "nodeClassRef"], &["apiVersion", "kind", "name"]),
];

/// Fields that only `v1` has, by the last step of their path.
const OF_V1: [&str; 4] = ["expireAfter", "group", "replicas", "terminationGracePeriod"];

/// Fields of the Provisioner, or of drafts of the API, and what says the same in `v1beta1`.
const NOW: [(&str, &str); 7] = [
    ("consolidation", "write `consolidationPolicy: WhenUnderutilized`"),
    ("kubeletConfiguration", "write `kubelet` in `spec.template.spec`"),
    ("labels", "write it in `spec.template.metadata`"),
    ("provider", "write it in an EC2NodeClass"),
    ("providerRef", "write `nodeClassRef` in `spec.template.spec`"),
    (
        "ttlSecondsAfterEmpty",
        "write `consolidationPolicy: WhenEmpty` and `consolidateAfter` in `spec.disruption`",
    ),
    ("ttlSecondsUntilExpired", "write `expireAfter` in `spec.disruption`"),
];

/// Reports the fields of a pool that its API does not have: a strict client is rejected, and otherwise they are dropped.
fn report_unknown_fields(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !object.is(Kind::NODE_POOL) || object.version() != "v1beta1" || object.may_lack_fields() {
        return None;
    }
    let mut found = Vec::new();
    for (path, fields) in FIELDS {
        let part = object.path(path);
        if !part.has_unknown_key() {
            found.extend(part.entries().into_iter().filter(|(key, _)| !fields.contains(key)));
        }
    }
    let (first, node) = found.first()?;
    let are_new = found.iter().all(|(field, _)| OF_V1.contains(field));
    let help = if are_new {
        Some("write `karpenter.sh/v1`, which has them, or remove them")
    } else {
        NOW.iter().find(|(old, _)| old == first).map(|(_, help)| *help)
    };
    let named: Vec<String> =
        found.iter().take(3).map(|(field, _)| format!("`{}`", ellipsize(field))).collect();
    let (plural, them) = if found.len() == 1 { ("field", "it") } else { ("fields", "them") };
    let message = format!(
        "a `v1beta1` NodePool has no {plural} {}: the API server ignores or rejects {them}",
        named.join(", ")
    );
    let finding = ctx.report(node, message);
    finding.at_key().severity(Severity::Warning).rejected_by(None);
    finding.help(help.unwrap_or("remove it, or write a field that the API has"));
    None
}

/// What the webhook of `v1alpha5` rejects: `validateTTLSecondsAfterEmpty` in `pkg/apis/v1alpha5/provisioner_validation.go` of
/// Karpenter 0.27 to 0.32.
fn rejected_by_webhook(provisioner: &Object) -> Option<(Node<'_>, &'static str, &'static str)> {
    let empty = provisioner.path(&["spec", "ttlSecondsAfterEmpty"]);
    let enabled = provisioner.path(&["spec", "consolidation", "enabled"]);
    (empty.is_set() && enabled.bool() == Some(true)).then_some((
        empty,
        "`ttlSecondsAfterEmpty` and `consolidation` exclude each other: the webhook rejects both together",
        "keep one of them: consolidation removes empty nodes as well",
    ))
}

/// The last version of Karpenter that serves `v1alpha5`.
const LAST_WITH_ALPHA: Version = Version::new(0, 32);

/// Whether an object of a version that never was has the fields of `v1`.
fn is_v1_but_its_version(object: &Object) -> bool {
    let spec = object.get("spec");
    object.version().starts_with("v1alpha")
        && match object.kind() {
            "NodePool" => spec.path(&["template", "spec", "nodeClassRef", "group"]).is_set(),
            "EC2NodeClass" => spec.get("amiSelectorTerms").items().next().is_some(),
            _ => false,
        }
}

/// Reports what the rules of the new API say about fields whose meaning it kept, so that one run shows all. Other objects of the input
/// count as what they become; where nothing is known of them, the object is converted as if it were alone.
fn report_kept_meaning(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let converted = ctx.cluster().converted(successors);
    if converted.is_some() {
        // Any object may decide whether this one can be converted, and what is beside it then.
        record_read(|| Read::All);
    }
    let made = converted.map_or(&[][..], |converted| converted.successors_of(object));
    if made.is_empty() {
        let successor = successor_alone(object)?;
        ctx.report_of_successor(&successor, None);
    }
    for successor in made {
        ctx.report_of_successor(successor, converted.map(Converted::cluster));
    }
    None
}

fn dead(old: &str) -> String {
    format!("Karpenter no longer serves {old}")
}
