//! A field does not exist in this API version of the kind.
//!
//! # Why
//! The API server drops an unknown field silently, unless its client asks for strict
//! decoding, as `kubectl apply` does since 1.27: then it rejects the object. Argo CD, Flux and
//! Terraform differ. So `spec.disruption.expireAfter`, which v1beta1 had, either stops the rollout
//! or is lost, and the nodes of the pool are replaced after the default 720 hours.
//!
//! # Fix
//! Write the field that is meant: the nearest name, or where the field stands in this version. Where
//! `platform` names a version that is newer than gpulint's schemas, the finding is a warning. So it is for
//! kinds of operators, such as a RayCluster, a ClusterQueue or a ServiceMonitor: gpulint knows the fields
//! of the releases of the last two years, and not which one runs; give the cluster's own definitions with
//! `--crds`. In the pod template of a kind whose definition lists no fields of pods, the controller ignores
//! the field, which is a warning as well. A field of Kubernetes that came with a later version is a warning
//! while `platform.kubernetes` is not set.
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

use crate::karpenter::minors::has_open_kubelet;
use crate::kind::VALIDATED_KINDS;
use crate::lint::finding::MAX_MERGED_RELATED;
use crate::migration::moved_fields::{Replacement, moved_field};
use crate::platform::{KEDA_POD_FIELDS, Platform};
use crate::rules::manifest::message_parts::{
    contest, in_releases, list_names, quoted_field, quoted_value, with_article,
};
use crate::rules::manifest::misplaced::{
    Misplaced, is_of_container, is_of_step, meant, place_in_containers, place_in_step,
};
use crate::rules::manifest::since;
use crate::rules::manifest_purpose::is_release_manifest;
use crate::rules::precedence::EarlierReports;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{FieldHistory, Subject, Violation, ViolationKind, fields_at};

pub(crate) static RULE: Rule = Rule {
    id: "unknown-field",
    kinds: VALIDATED_KINDS,
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter, Product::Keda, Product::Kubernetes],
    docs: docs(include_str!("unknown_field.rs")),
    check: Check::CatchAll(check),
    ..Rule::error(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (node, history) in schema::fields_with_history(object, ctx.definitions()) {
        of_other_version(object, &node, history, ctx);
    }
    let all = schema::violations(object, ctx.definitions());
    if all.is_empty() {
        return None;
    }
    // The definition in the input is that of another release than the copy.
    if ctx.definitions().find(object.id()).is_some() && is_release_manifest(object) {
        return None;
    }
    let owned = EarlierReports::of(object, ctx);
    let platform = ctx.platform();
    let is_newer = platform.version(Product::Kubernetes) > Product::Kubernetes.newest();
    let is_unknown = |violation: &&Violation| {
        violation.kind == ViolationKind::Unknown && !(is_newer && violation.subject != Subject::Object)
    };
    let subject = |field: &Pointer| {
        let found = all.iter().find(|violation| violation.pointer == *field);
        found.map_or(Subject::Object, |violation| violation.subject)
    };
    let mut groups: Vec<Vec<(Pointer, Option<Misplaced>)>> = Vec::new();
    for violation in all.iter().filter(is_unknown) {
        let path: Vec<&str> = violation.pointer.steps().iter().map(String::as_str).collect();
        let moved = moved_field((object.group(), object.kind()), &path).is_some();
        let meant = if moved { None } else { meant(object, &violation.pointer, ctx.definitions()) };
        // Fields in the same wrong place that belong in the same other place are one mistake.
        let group = meant.as_ref().filter(|one| !one.is_misspelled()).and_then(|one| {
            groups.iter_mut().find(|group| {
                let first = group.first().and_then(|(_, first)| first.as_ref());
                first.is_some_and(|first| !first.is_misspelled() && is_same_slip(first, one))
            })
        });
        match group {
            Some(group) => group.push((violation.pointer.clone(), meant)),
            None => groups.push(vec![(violation.pointer.clone(), meant)]),
        }
    }
    let mut told = all.iter().filter(|one| owned.covers(one)).map(|one| &one.pointer).collect::<Vec<_>>();
    told.sort();
    // Another rule that has reported one of them has told of all.
    groups.retain(|group| !group.iter().any(|(pointer, _)| told.binary_search(&pointer).is_ok()));
    for group in groups {
        match group.as_slice() {
            [(pointer, meant)] => report(object, pointer, subject(pointer), meant.as_ref(), ctx),
            // Several fields that all belong in one other place are not fields of a newer version.
            [(first, Some(meant)), more @ ..] => {
                let more: Vec<&Pointer> = more.iter().map(|(pointer, _)| pointer).collect();
                shifted(object, first, subject(first), meant, &more, ctx);
            }
            _ => {}
        }
    }
    None
}

fn is_same_slip(a: &Misplaced, b: &Misplaced) -> bool {
    a.from.above(1) == b.from.above(1) && a.to.above(1) == b.to.above(1)
}

/// Several fields with the wrong indentation.
fn shifted(
    object: &Object,
    first: &Pointer,
    subject: Subject,
    meant: &Misplaced,
    more: &[&Pointer],
    ctx: &mut Context<'_>,
) {
    let name = first.steps().last().map_or("", String::as_str);
    let others = match more.len() {
        1 => "another field".to_owned(),
        n => format!("{n} other fields"),
    };
    let wrong = match meant.levels() {
        1 => "one level too high".to_owned(),
        -1 => "one level too low".to_owned(),
        levels if levels < 0 => format!("{} levels too low", -levels),
        _ => "in the wrong place".to_owned(),
    };
    let home = quoted_field(&meant.to.above(1));
    let may_differ = schema::may_differ(object, ctx.definitions());
    let finding =
        ctx.report(&object.root().at(first), format!("{} and {others} are {wrong}", quoted_value(name)));
    let to = meant.to.above(1);
    if may_differ || subject != Subject::Object {
        finding.severity(Severity::Warning).rejected_by(None);
    }
    finding.at_key().help(if to.steps() == ["status"] {
        "remove them: they are of the `status`, which the cluster writes".to_owned()
    } else if !object.root().at(&to).is_absent() {
        format!("move them into {home}: indent them like the fields there")
    } else {
        format!("{home} is missing: write it above them, and indent them below it")
    });
    for pointer in more.iter().take(MAX_MERGED_RELATED) {
        finding.related(object, &object.root().at(pointer), "this one too");
    }
}

fn report(
    object: &Object,
    pointer: &Pointer,
    subject: Subject,
    meant: Option<&Misplaced>,
    ctx: &mut Context<'_>,
) {
    let id = object.id();
    let definitions = ctx.definitions();
    let node = object.root().at(pointer);
    let is_auto_mode = object.is(Kind::AUTO_MODE_NODE_CLASS) && definitions.find(id).is_none();
    // A name that is right for the other class is not misspelled.
    let is_carried_over = is_auto_mode
        && meant.is_none_or(Misplaced::is_misspelled)
        && is_of_class(Kind::EC2_NODE_CLASS, pointer);
    if is_open_kubelet(object, pointer, ctx.platform())
        || is_auto_mode && meant.is_none() && !is_carried_over
        || since::is_of_older_keda(object, pointer, ctx)
    {
        return;
    }
    let path: Vec<&str> = pointer.steps().iter().map(String::as_str).collect();
    let moved = moved_field((&id.group, &id.kind), &path);
    // A newer version does not bring back a field that has moved.
    let outdated = schema::outdated_schemas(object, ctx.platform(), definitions).filter(|_| moved.is_none());
    let operator = schema::operator_of(object, definitions);
    let contesting_file = schema::contesting_file(object, pointer, definitions);
    let is_of_pods = subject != Subject::Object;
    let message = |field: &str| match (operator, outdated) {
        _ if is_of_step(pointer) => format!("a container has no field {field}: it has no effect"),
        _ if is_of_pods => format!("a pod has no field {field}: it has no effect"),
        (Some(operator), _) => {
            in_releases(format!("{} has no field {field}", with_article(object.kind())), operator)
        }
        (None, Some(product)) => {
            format!("{} up to {} {}", has_no(object, field), product.name(), product.newest())
        }
        (None, None) => has_no(object, field),
    };
    let finding = ctx.report(&node, message(&quoted_field(pointer)));
    finding.at_key().set_whole_message(message(&format!("`{}`", pointer.field_path())));
    if outdated.is_some() {
        finding.severity(Severity::Warning);
    }
    if is_carried_over {
        finding.help("remove it: in EKS Auto Mode, AWS decides what Karpenter reads from an EC2NodeClass");
        return;
    }
    if object.is(Kind::EC2_NODE_CLASS) && is_of_class(Kind::AUTO_MODE_NODE_CLASS, pointer) {
        finding.help(match path.as_slice() {
            ["spec", "ephemeralStorage"] => "write `blockDeviceMappings`: only a NodeClass of EKS Auto Mode has this field",
            ["spec", "advancedNetworking"] => {
                "write `associatePublicIPAddress` below `spec`: only a NodeClass of EKS Auto Mode has this field"
            }
            _ => "remove it: only a NodeClass of EKS Auto Mode has this field",
        });
        return;
    }
    if is_auto_mode || operator.is_some() || is_of_pods {
        finding.severity(Severity::Warning).rejected_by(None);
    }
    if let Some(file) = contesting_file {
        contest(finding, &file);
        return;
    }
    if let Some(found) = moved {
        replace(found.now, object, &node, finding);
        return;
    }
    let known = fields_at(object, &pointer.above(1), definitions);
    match meant {
        Some(meant) if meant.is_misspelled() => {
            let near = meant.to.steps().last().map_or("", String::as_str);
            let other = schema::other_shape_at(object, &meant.to, &node, definitions);
            let is_there = object.root().at(&meant.to).is_set();
            finding.help(match other {
                _ if is_there => format!("remove it; `{near}`, which has nearly its name, is there already"),
                Some(takes) => format!("did you mean `{near}`, which takes {takes}?"),
                None => format!("did you mean `{near}`?"),
            });
            let target = object.root().at(&meant.to);
            // A newer version may have both names, as `clusterIP` and `clusterIPs`.
            if outdated.is_none() && other.is_none() && target.is_absent() && node.is_set() {
                finding
                    .fix(Fix::new(format!("rename it to `{near}`"), Safety::Unsafe).move_to(&node, &target));
            }
        }
        Some(_) if matches!(path.as_slice(), ["labels" | "annotations"]) => {
            finding.help(format!("it belongs at `metadata.{}`", path[0]));
        }
        Some(meant) => {
            finding.help(format!("it belongs at {}", quoted_field(&meant.to)));
        }
        // A label at the level of `labels`.
        None if known.iter().any(|field| field == "labels") && node.text().is_some() => {
            finding.help("labels belong under `labels`, annotations under `annotations`");
        }
        None => match place_in_containers(object, pointer, definitions).or_else(|| place_in_step(pointer)) {
            Some(place) => {
                finding.help(format!("it belongs at `{place}`"));
            }
            None if !known.is_empty() => {
                finding.help(list_names("valid fields:", &known));
            }
            None => {}
        },
    }
}

/// Says what stands in the place of a field that this version no longer has.
fn replace(now: Replacement, object: &Object, node: &Node<'_>, finding: &mut Finding) {
    match now {
        Replacement::SameValue(to) => {
            finding.help(format!("move it to `{}`, with the same value", to.join(".")));
            let target = object.root().path(to);
            if target.is_absent() && node.is_set() && !node.has_unknown() {
                let title = format!("move it to `{}`", to.join("."));
                let fix = Fix::new(title, Safety::Safe).move_to(node, &target);
                let templated = to.starts_with(&["spec", "template"]);
                finding.fix(if templated { fix.replaces_nodes() } else { fix });
            }
        }
        Replacement::NewValue(to, how) => {
            let field = to.join(".");
            finding.help(match object.root().path(to).is_set() {
                true => format!("remove it: `{field}`, which replaces it, is set already"),
                false => format!("use `{field}` instead: {how}"),
            });
        }
        Replacement::InNodeClass(to) => {
            finding.help(format!("move it to `{}` of the EC2NodeClass", to.join(".")));
        }
        Replacement::Removed(why) => {
            finding.help(format!("remove it: {why}"));
        }
    }
}

fn has_no(object: &Object, field: &str) -> String {
    let id = object.id();
    format!("{} of `{}` has no field {field}", with_article(&id.kind), id.api_version())
}

/// Whether a kind of node class has the field. AWS publishes no definition of the NodeClass of EKS Auto Mode, so another field there
/// may be a new one.
fn is_of_class(class: Kind, pointer: &Pointer) -> bool {
    let known = schema::fields_of(class, &["spec"]);
    matches!(pointer.steps(), [spec, field] if spec == "spec" && known.contains(field))
}

/// Whether a field stands in `spec.kubelet` of an EC2NodeClass, where the CRD lists no fields there.
fn is_open_kubelet(object: &Object, pointer: &Pointer, platform: &Platform) -> bool {
    object.is(Kind::EC2_NODE_CLASS)
        && has_open_kubelet(platform.karpenter)
        && pointer.steps().starts_with(&["spec", "kubelet"].map(str::to_owned))
}

/// Reports a field that the cluster's version of Kubernetes does not have. The templates of KEDA's kinds have the fields of the
/// version that its CRDs were made with; of those that another version of KEDA has speaks field-needs-newer-version.
fn of_other_version(object: &Object, node: &Node<'_>, history: &FieldHistory, ctx: &mut Context<'_>) {
    let platform = ctx.platform();
    let is_keda = Product::of_group(object.group()) == Some(Product::Keda);
    let version = if is_keda { KEDA_POD_FIELDS } else { platform.kubernetes };
    let field = quoted_field(&node.pointer());
    let lacks_it = match is_keda {
        true => format!("KEDA {} has the fields of {version}", platform.keda),
        false => format!("{version} does not have it"),
    };
    let since = history.range.since.filter(|since| *since > version);
    let is_past =
        |until: &Version| *until < version && !since::is_of_older_keda(object, &node.pointer(), ctx);
    let until = history.range.until.filter(is_past);
    let message = match (since, until) {
        (Some(since), _) => format!("{field} requires Kubernetes {since}; {lacks_it}"),
        (None, Some(until)) => format!("{field} was removed from Kubernetes after {until}; {lacks_it}"),
        (None, None) => return,
    };
    let help = match since {
        Some(since) if !is_keda => {
            let is_on = |version: &Version| {
                *version >= since && history.gates.iter().all(|gate| !gate.is_off(*version, platform))
            };
            let remedy =
                if is_of_container(object, node) { "move it into a container" } else { "remove the field" };
            match Product::Kubernetes.supported().find(is_on) {
                Some(first) if first > since => {
                    format!("{remedy}, or update Kubernetes to {first}, where its feature gate is on")
                }
                Some(first) => format!("{remedy}, or update Kubernetes to {first}"),
                None => remedy.to_owned(),
            }
        }
        _ => "remove the field".to_owned(),
    };
    let may_differ = schema::may_differ(object, ctx.definitions());
    let finding = ctx.report(node, message);
    finding.at_key().help(help);
    if may_differ {
        finding.severity(Severity::Warning).rejected_by(None);
    }
}
