//! Converts Provisioner v1alpha5, NodePool v1beta1 and NodeClaim v1beta1 to v1.

use serde_json::{Value, json};

use super::draft::{FieldPath, PatchBuilder};
use super::{ConversionError, class, kubelet, name_is_free};
use crate::catalog;
use crate::cluster::Cluster;
use crate::cluster::views::kubelet_settings;
use crate::karpenter::requirement::normalise;
use crate::kind::Kind;
use crate::lint::fix::Fix;
use crate::object::Object;

const CLASS_GROUP: &str = "karpenter.k8s.aws";
const REFERENCE: FieldPath<'_> = &["spec", "template", "spec", "nodeClassRef"];
const REQUIREMENTS: FieldPath<'_> = &["spec", "template", "spec", "requirements"];
const EXPIRE_AFTER: FieldPath<'_> = &["spec", "template", "spec", "expireAfter"];
const CONSOLIDATE_AFTER: FieldPath<'_> = &["spec", "disruption", "consolidateAfter"];
const POLICY: FieldPath<'_> = &["spec", "disruption", "consolidationPolicy"];

/// Maximum number of seconds in a Go duration; Karpenter fails on larger values.
const MAX_SECONDS: u64 = 2_562_047 * 3600;

pub(super) fn provisioner(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    name_is_free(object, Kind::NODE_POOL, cluster)?;
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!("karpenter.sh/v1"))?;
    draft.set(&["kind"], json!("NodePool"))?;

    let created = node_class(&mut draft, object, cluster)?;
    requirements(&mut draft)?;
    for (old, new) in [
        ("taints", &["spec", "template", "spec", "taints"]),
        ("startupTaints", &["spec", "template", "spec", "startupTaints"]),
        ("labels", &["spec", "template", "metadata", "labels"]),
        ("annotations", &["spec", "template", "metadata", "annotations"]),
    ] {
        draft.move_to(&["spec", old], new)?;
    }
    // An absent field meant never; in v1 it means 720h.
    match seconds(&draft, "ttlSecondsUntilExpired")? {
        Some(text) => {
            draft.move_to(&["spec", "ttlSecondsUntilExpired"], EXPIRE_AFTER)?;
            draft.set(EXPIRE_AFTER, json!(text))?;
        }
        None => {
            draft.remove(&["spec", "ttlSecondsUntilExpired"]);
            draft.set(EXPIRE_AFTER, json!("Never"))?;
        }
    }
    limits(&mut draft)?;
    consolidation(&mut draft)?;

    let mut fix = draft.into_fix("convert it to a NodePool; check requirements, expiry and budgets");
    fix.creates.extend(created);
    Ok(fix)
}

pub(super) fn node_pool(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!("karpenter.sh/v1"))?;
    reference(&mut draft, REFERENCE, &shown_class(object, cluster))?;
    let class = draft.text(&[REFERENCE, &["name"]].concat());
    let class = class.map(str::to_owned);
    kubelet::drop_from_pool(&mut draft, &["spec", "template", "spec", "kubelet"], class.as_deref(), cluster)?;
    draft.remove(&["spec", "template", "spec", "resources"]);
    if draft.get(&["spec", "disruption"]).is_some() {
        let policy = draft.text(POLICY).map(str::to_owned);
        match policy.as_deref() {
            Some("WhenUnderutilized") => draft.set(POLICY, json!("WhenEmptyOrUnderutilized"))?,
            None if draft.get(POLICY).is_some() => {
                return Err("`spec.disruption.consolidationPolicy` is not a string".into());
            }
            _ => {}
        }
        // In v1beta1 the only valid consolidateAfter with WhenUnderutilized, its default policy, was Never.
        if policy.as_deref() != Some("WhenEmpty") && draft.get(CONSOLIDATE_AFTER).is_none() {
            draft.set(CONSOLIDATE_AFTER, json!("0s"))?;
        }
        draft.move_to(&["spec", "disruption", "expireAfter"], EXPIRE_AFTER)?;
    }
    Ok(draft.into_fix("convert it to v1; expiry no longer waits for budgets: check `expireAfter`"))
}

/// Converts a NodeClaim of v1beta1 that was created by a user: it never expired.
pub(super) fn node_claim(object: &Object, cluster: &Cluster) -> Result<Fix, ConversionError> {
    let mut draft = PatchBuilder::new(object)?;
    draft.set(&["apiVersion"], json!("karpenter.sh/v1"))?;
    reference(&mut draft, &["spec", "nodeClassRef"], &shown_class(object, cluster))?;
    let class = draft.text(&["spec", "nodeClassRef", "name"]);
    let class = class.map(str::to_owned);
    kubelet::drop_from_pool(&mut draft, &["spec", "kubelet"], class.as_deref(), cluster)?;
    if draft.get(&["spec", "expireAfter"]).is_none() {
        draft.set(&["spec", "expireAfter"], json!("Never"))?;
    }
    Ok(draft.into_fix("convert it to v1; Karpenter makes its own NodeClaims, so ask who needs it"))
}

/// The node class of a Provisioner: the one it references, or a new one from its inline fields.
fn node_class(
    draft: &mut PatchBuilder,
    object: &Object,
    cluster: &Cluster,
) -> Result<Option<Value>, ConversionError> {
    let inline = draft.get(&["spec", "provider"]).cloned();
    let path = &["spec", "kubeletConfiguration"];
    let name = &[REFERENCE, &["name"]].concat();
    match inline {
        None => {
            draft.remove(&["spec", "provider"]);
            draft.move_to(&["spec", "providerRef"], REFERENCE)?;
            if draft.get(REFERENCE).is_some() {
                if draft.text(&[REFERENCE, &["kind"]].concat()) == Some("AWSNodeTemplate") {
                    draft.set(&[REFERENCE, &["kind"]].concat(), json!("EC2NodeClass"))?;
                }
                // Only the AWS provider had Provisioners.
                reference(draft, REFERENCE, &Some(EC2))?;
            }
            let class = draft.text(name).map(str::to_owned);
            kubelet::drop_from_pool(draft, path, class.as_deref(), cluster)?;
            Ok(None)
        }
        Some(_) if draft.get(&["spec", "providerRef"]).is_some() => {
            Err("`spec.provider` and `spec.providerRef` exclude each other: keep one".into())
        }
        Some(provider) => {
            let own = object.name();
            if own.is_empty() || !provider.is_object() {
                return Err(match object.path(&["metadata", "name"]).is_set() {
                    true => "a placeholder hides what the EC2NodeClass would be".into(),
                    false => {
                        "`metadata.name` is missing: the EC2NodeClass gets the Provisioner's name".into()
                    }
                });
            }
            name_is_free(object, Kind::EC2_NODE_CLASS, cluster)?;
            name_is_free(object, Kind::AWS_NODE_TEMPLATE, cluster)?;
            let wish = match draft.get(path) {
                Some(kubelet) if !kubelet.is_object() => {
                    return Err("a placeholder hides `spec.kubeletConfiguration`".into());
                }
                kubelet => kubelet_settings(kubelet.unwrap_or(&Value::Null)),
            };
            let created = class::inline(own, &provider, &wish)?;
            let names = json!({ "group": CLASS_GROUP, "kind": "EC2NodeClass", "name": own });
            draft.set(REFERENCE, names)?;
            draft.remove(&["spec", "provider"]);
            draft.remove(path);
            Ok(Some(created))
        }
    }
}

/// Group and kind of a node class.
type ClassKind = (&'static str, &'static str);

const EC2: ClassKind = (CLASS_GROUP, "EC2NodeClass");
/// The node class of Karpenter's Azure provider.
const AKS: ClassKind = ("karpenter.azure.com", "AKSNodeClass");

/// The kind of the class to which a NodePool or NodeClaim refers only by name, as far as the input shows it: the kind
/// of a class with that name, or keys and instance types that only one provider has.
fn shown_class(object: &Object, cluster: &Cluster) -> Option<ClassKind> {
    let spec = match object.is(Kind::NODE_POOL) {
        true => object.path(&["spec", "template", "spec"]),
        false => object.get("spec"),
    };
    let requirements = spec.get("requirements");
    let labels = object.path(&["spec", "template", "metadata", "labels"]).entries();
    let written: Vec<&str> = requirements.items().filter_map(|item| item.get("key").text()).collect();
    let uses = |domain: &str| {
        let own = |key: &str| key.split_once('/').is_some_and(|(written, _)| written == domain);
        written.iter().any(|key| own(key)) || labels.iter().any(|(key, _)| own(key))
    };
    let types = requirements.items().filter(|item| item.get("key").text() == Some(catalog::INSTANCE_TYPE));
    let of_ec2 = |name: &str| catalog::values(catalog::INSTANCE_TYPE).is_some_and(|all| all.contains(name));
    if uses(AKS.0) {
        return Some(AKS);
    }
    let name = spec.path(&["nodeClassRef", "name"]).text().unwrap_or_default();
    let has = |kind: Kind| !cluster.all(kind.group, kind.kind, "default", name).is_empty();
    (uses(CLASS_GROUP)
        || types.flat_map(|item| item.get("values").items()).any(|value| value.text().is_some_and(of_ec2))
        || has(Kind::EC2_NODE_CLASS)
        || has(Kind::AWS_NODE_TEMPLATE))
    .then_some(EC2)
}

/// Replaces `apiVersion` of a class reference by `group`; the kind is required. `shown` is the kind that the input
/// shows if it is not written.
fn reference(
    draft: &mut PatchBuilder,
    path: FieldPath<'_>,
    shown: &Option<ClassKind>,
) -> Result<(), ConversionError> {
    if draft.get(path).is_none_or(|r| !r.is_object()) {
        return Ok(());
    }
    let api_version = [path, &["apiVersion"]].concat();
    let group = [path, &["group"]].concat();
    let kind = [path, &["kind"]].concat();
    let named = draft.text(&kind).map(str::to_owned);
    if named.is_none() && draft.get(&kind).is_some() {
        return Err("the kind of the class is not a string".into());
    }
    // v1beta1 never read the version, and many manifests have Karpenter's own group there.
    let written = [&api_version, &group].into_iter().find_map(|path| draft.text(path));
    let written =
        written.map(|text| text.split('/').next().unwrap_or(text)).filter(|group| *group != "karpenter.sh");
    let of_kind = [EC2, AKS].into_iter().find(|class| Some(class.1) == named.as_deref());
    let of_group = [EC2, AKS].into_iter().find(|class| named.is_none() && Some(class.0) == written);
    let known = of_kind.or(of_group).or(shown.filter(|_| named.is_none() && written.is_none()));
    let (value, class_kind) = match (known, written, &named) {
        (Some(class), _, _) => (class.0.to_owned(), class.1.to_owned()),
        (None, Some(group), Some(kind)) => (group.to_owned(), kind.clone()),
        _ => return Err("write `group` and `kind` of its class: nothing in the input shows them".into()),
    };
    if draft.get(&group).is_some() {
        draft.remove(&api_version);
    } else {
        draft.move_to(&api_version, &group)?;
        draft.set(&group, json!(value))?;
    }
    if named.is_none() {
        draft.set(&kind, json!(class_kind))?;
    }
    Ok(())
}

/// The requirements, including those that the old webhook added by default.
fn requirements(draft: &mut PatchBuilder) -> Result<(), ConversionError> {
    draft.move_to(&["spec", "requirements"], REQUIREMENTS)?;
    let written = match draft.get(REQUIREMENTS) {
        None => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(_) => return Err("`spec.requirements` is not a list".into()),
    };
    let mut keys: Vec<&str> = Vec::new();
    for item in &written {
        let Some(key) = item.get("key").and_then(Value::as_str) else {
            return Err("a requirement without a readable key hides what its default was".into());
        };
        keys.push(normalise(key));
    }
    // A label is equivalent to a requirement with its value.
    let labels = draft.get(&["spec", "labels"]).and_then(Value::as_object);
    keys.extend(labels.into_iter().flatten().map(|(key, _)| normalise(key)));
    let has = |key: &str| keys.contains(&key);
    let mut defaults = Vec::new();
    for (key, value) in [
        ("karpenter.sh/capacity-type", "on-demand"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        if !has(key) {
            defaults.push(json!({ "key": key, "operator": "In", "values": [value] }));
        }
    }
    let category = "karpenter.k8s.aws/instance-category";
    let generation = "karpenter.k8s.aws/instance-generation";
    if !["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", category, generation]
        .into_iter()
        .any(has)
    {
        defaults.push(json!({ "key": category, "operator": "In", "values": ["c", "m", "r"] }));
        defaults.push(json!({ "key": generation, "operator": "Gt", "values": ["2"] }));
    }
    if written.is_empty() {
        return draft.set(REQUIREMENTS, Value::Array(defaults));
    }
    for requirement in defaults {
        draft.push(REQUIREMENTS, requirement);
    }
    Ok(())
}

/// Moves `spec.limits.resources.X` to `spec.limits.X`.
fn limits(draft: &mut PatchBuilder) -> Result<(), ConversionError> {
    let old = &["spec", "limits", "resources"];
    let names: Vec<String> = match draft.get(old) {
        None => Vec::new(),
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(_) => return Err("`spec.limits.resources` is not a map".into()),
    };
    for name in &names {
        draft.move_to(&["spec", "limits", "resources", name], &["spec", "limits", name])?;
    }
    draft.remove(old);
    let empty = |v: &Value| v.as_object().is_some_and(serde_json::Map::is_empty);
    if draft.get(&["spec", "limits"]).is_some_and(empty) {
        draft.remove(&["spec", "limits"]);
    }
    Ok(())
}

/// Converts the old fields about empty and underutilized nodes to the consolidation policy.
fn consolidation(draft: &mut PatchBuilder) -> Result<(), ConversionError> {
    let enabled = match draft.get(&["spec", "consolidation", "enabled"]) {
        None => false,
        Some(Value::Bool(enabled)) => *enabled,
        Some(_) => return Err("a placeholder hides `spec.consolidation.enabled`".into()),
    };
    match (seconds(draft, "ttlSecondsAfterEmpty")?, enabled) {
        (Some(_), true) => {
            return Err("`ttlSecondsAfterEmpty` and `consolidation` exclude each other: keep one".into());
        }
        (Some(text), false) => {
            draft.set(POLICY, json!("WhenEmpty"))?;
            draft.move_to(&["spec", "ttlSecondsAfterEmpty"], CONSOLIDATE_AFTER)?;
            draft.set(CONSOLIDATE_AFTER, json!(text))?;
        }
        (None, true) => {
            draft.set(POLICY, json!("WhenEmptyOrUnderutilized"))?;
            draft.set(CONSOLIDATE_AFTER, json!("0s"))?;
        }
        // Neither field was set: no node was removed for being idle.
        (None, false) => {
            draft.set(POLICY, json!("WhenEmpty"))?;
            draft.set(CONSOLIDATE_AFTER, json!("Never"))?;
        }
    }
    draft.remove(&["spec", "ttlSecondsAfterEmpty"]);
    draft.remove(&["spec", "consolidation"]);
    Ok(())
}

/// A number of seconds as a duration in the largest unit that divides it.
fn seconds(draft: &PatchBuilder, field: &str) -> Result<Option<String>, ConversionError> {
    let Some(value) = draft.get(&["spec", field]) else {
        return Ok(None);
    };
    match value.as_u64() {
        Some(n) if n > MAX_SECONDS => Err(format!("`spec.{field}` is longer than any duration")),
        Some(n) if n > 0 && n % 3600 == 0 => Ok(Some(format!("{}h", n / 3600))),
        Some(n) if n > 0 && n % 60 == 0 => Ok(Some(format!("{}m", n / 60))),
        Some(n) => Ok(Some(format!("{n}s"))),
        None => Err(format!("`spec.{field}` is not a number of seconds")),
    }
}
