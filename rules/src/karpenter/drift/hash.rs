//! What Karpenter hashes of a NodePool's template and of an EC2NodeClass: two objects have the same hash if these values are
//! equal.
//!
//! Go's zero values tell what counts as absent. A field that is a pointer (`userData`, `detailedMonitoring`, a nested object) counts as soon
//! as it is written; an empty list or map, and an empty text or `false` in a plain field, does not.

use serde_json::{Map, Value};

use super::api::{PoolApi, template_of};
use super::value_at;
use crate::facts::duration::{self, DurationField, NillableDuration};
use crate::facts::quantity::Quantity;
use crate::karpenter::minors;
use crate::platform::Version;

/// Fields of a node class that are not part of the hash: Karpenter compares what they select instead. The last three are those of
/// an AWSNodeTemplate.
pub(super) const SELECTORS: [&str; 7] = [
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "amiSelector",
    "subnetSelector",
    "securityGroupSelector",
];

/// Other fields of a node class that are not part of the hash. Of the family, what follows from it and the alias is.
const UNHASHED_FIELDS: [&str; 3] = ["amiFamily", "ipPrefixCount", "launchTemplate"];

/// Whether a field of `spec` of an EC2NodeClass is part of the hash as it is written.
pub(super) fn is_hashed(field: &str) -> bool {
    !SELECTORS.contains(&field) && !UNHASHED_FIELDS.contains(&field)
}

/// Plain fields of Go's structs: their zero value is not told from absence.
const PLAIN: [&str; 8] = ["role", "rootVolume", "key", "value", "effect", "group", "kind", "name"];

/// Maps of texts, in which an empty text is an entry like others.
const MAPS: [&str; 3] = ["labels", "annotations", "tags"];

/// Objects that are pointers in Go, so that an empty one is not the same as none.
const POINTERS: [&str; 5] =
    ["ebs", "cpuOptions", "connectionTracking", "placementGroupSelector", "enclaveOptions"];

/// What is hashed of a NodePool or Provisioner, field by field.
pub(super) fn of_pool(pool: &Value) -> Vec<Value> {
    let template = template_of(pool);
    let fields = PoolApi::of(pool).hashed().iter();
    fields.map(|path| template_field(path, &value_at(&template, path))).collect()
}

fn template_field(path: &[&str], value: &Value) -> Value {
    let (name, field) = match path.last() {
        Some(&"expireAfter") => ("expireAfter", DurationField::ExpireAfter),
        Some(&"terminationGracePeriod") => ("terminationGracePeriod", DurationField::TerminationGracePeriod),
        Some(&"nodeClassRef") if value.get("group").is_some() => {
            // The API server drops the field of `v1beta1`.
            let mut value = value.clone();
            value.as_object_mut().map(|reference| reference.remove("apiVersion"));
            return normalized("nodeClassRef", &value).unwrap_or_default();
        }
        last => return normalized(last.copied().unwrap_or_default(), value).unwrap_or_default(),
    };
    let text = match value {
        Value::Null if name == "expireAfter" => "720h",
        other => other.as_str().unwrap_or_default(),
    };
    match duration::parse(field, text) {
        Ok(NillableDuration::Seconds(seconds)) => seconds.into(),
        _ => value.clone(),
    }
}

/// What is hashed of an EC2NodeClass or AWSNodeTemplate.
pub(super) fn of_node_class(object: &Value, karpenter: Version) -> Value {
    let Value::Object(mut spec) = value_at(object, &["spec"]) else {
        return Value::Null;
    };
    if object.get("kind").and_then(Value::as_str) == Some("AWSNodeTemplate") {
        // The family is hashed as it is written, and no field has a default (pkg/apis/v1alpha1/awsnodetemplate.go).
        spec.retain(|name, _| is_hashed(name) || name == "amiFamily");
        return normalized("spec", &Value::Object(spec)).unwrap_or_default();
    }
    let family = family(&spec);
    spec.retain(|name, _| is_hashed(name));
    let options = spec.remove("metadataOptions");
    let mut metadata = Map::new();
    metadata.insert("httpEndpoint".to_owned(), "enabled".into());
    metadata.insert("httpProtocolIPv6".to_owned(), "disabled".into());
    metadata.insert("httpPutResponseHopLimit".to_owned(), 1.into());
    metadata.insert("httpTokens".to_owned(), "required".into());
    if let Some(Value::Object(written)) = options {
        metadata.extend(written);
    }
    let kubelet = spec.remove("kubelet").unwrap_or_default();
    // Since the kubelet is an open map, Karpenter hashes it as JSON text, in which the order of a list counts.
    let kubelet =
        if minors::has_open_kubelet(karpenter) { as_text(kubelet) } else { normalized("kubelet", &kubelet) };
    let mut hashed = match normalized("spec", &Value::Object(spec)) {
        Some(Value::Object(hashed)) => hashed,
        _ => Map::new(),
    };
    hashed.insert("metadataOptions".to_owned(), Value::Object(metadata));
    hashed.insert("kubelet".to_owned(), kubelet.unwrap_or_default());
    hashed.insert("amiFamily".to_owned(), family);
    Value::Object(hashed)
}

/// The AMI family: as written, otherwise that of the alias.
fn family(spec: &Map<String, Value>) -> Value {
    let written = spec.get("amiFamily").filter(|family| !family.is_null()).cloned();
    let terms = spec.get("amiSelectorTerms").and_then(Value::as_array);
    let alias = || {
        let alias = terms?.iter().find_map(|term| term.get("alias")?.as_str())?;
        let name = alias.split('@').next()?;
        let known = crate::karpenter::node_class::AMI_FAMILIES.iter().find(|(alias, _)| *alias == name);
        known.map(|(_, family)| Value::from(*family))
    };
    written.or_else(alias).unwrap_or_else(|| "Custom".into())
}

fn as_text(kubelet: Value) -> Option<Value> {
    Some(kubelet).filter(|kubelet| kubelet.as_object().is_some_and(|map| !map.is_empty()))
}

/// A value as it is hashed: lists in any order, quantities by their value. `None` if it is not told from absence.
fn normalized(name: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            let mut items: Vec<Value> =
                items.iter().map(|item| normalized("", item).unwrap_or_default()).collect();
            items.sort_by_key(Value::to_string);
            // The hashes of the items of a set are combined by XOR, so that two equal ones are none.
            let mut set: Vec<Value> = Vec::with_capacity(items.len());
            for item in items {
                if set.last() == Some(&item) {
                    set.pop();
                } else {
                    set.push(item);
                }
            }
            (!set.is_empty()).then_some(Value::Array(set))
        }
        Value::Object(entries) => {
            let is_map = MAPS.contains(&name);
            let entries = entries.iter().filter_map(|(key, value)| {
                let value = if is_map { Some(value.clone()) } else { normalized(key, value) };
                Some((key.clone(), value?))
            });
            let mut entries: Vec<(String, Value)> = entries.collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            (!entries.is_empty() || POINTERS.contains(&name))
                .then(|| Value::Object(entries.into_iter().collect()))
        }
        Value::String(text) if name == "volumeSize" => {
            Some(Quantity::parse(text).map_or_else(|_| value.clone(), |size| size.value().to_string().into()))
        }
        Value::String(text) if text.is_empty() && PLAIN.contains(&name) => None,
        Value::Bool(false) if PLAIN.contains(&name) => None,
        other => Some(other.clone()),
    }
}
