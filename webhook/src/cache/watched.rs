//! The objects of lists and watches as the cache keeps them.

use std::borrow::Cow;

use gpulint_rules::Draft;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::kept::{UNREAD_ANNOTATIONS, reduce};

/// Maximum size of the values of a ConfigMap that are kept. Rules read the configurations of operators, which are shorter.
const MAX_CONFIG_MAP_BYTES: usize = 64 * 1024;
/// The end of a value that was cut: a placeholder, so that it is unknown to rules.
const LEFT_OUT: &str = "\n${LEFT_OUT}";

/// An object of a list or a watch, without fields that no rule reads.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The metadata that kube's watcher reads: the resource version.
    metadata: ObjectMeta,
    pub(super) draft: Draft,
}

/// Each object is read on its own, so that one that cannot be read does not take others with it.
impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Watched, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let mut draft = Draft::read(raw.get()).unwrap_or_else(|_| Draft::of(&Value::Null));
        let resource_version = draft.string(&["metadata", "resourceVersion"]).map(str::to_owned);
        for key in ["managedFields", "resourceVersion", "generation"] {
            draft.remove(&["metadata", key]);
        }
        for annotation in UNREAD_ANNOTATIONS {
            draft.remove(&["metadata", "annotations", annotation]);
        }
        draft.remove(&["status"]);
        let draft = if is_large_config_map(&draft) { shortened(&draft) } else { draft };
        Ok(Watched { metadata: ObjectMeta { resource_version, ..ObjectMeta::default() }, draft })
    }
}

/// Whether it is a ConfigMap of which a part is kept. Items of a list have no `kind`: other kinds that are watched have no
/// `data`.
fn is_large_config_map(draft: &Draft) -> bool {
    draft.text_bytes() > MAX_CONFIG_MAP_BYTES
        && !draft.has(&["spec"])
        && (draft.has(&["data"]) || draft.has(&["binaryData"]))
}

/// A ConfigMap with all its keys, the beginning of its values, and no binary ones, which no rule reads.
fn shortened(config_map: &Draft) -> Draft {
    let mut value = config_map.to_json();
    if let Some(map) = value.get_mut("binaryData").and_then(Value::as_object_mut) {
        map.values_mut().for_each(|value| *value = Value::String(String::new()));
    }
    let mut left = MAX_CONFIG_MAP_BYTES;
    for text in value.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Value::String(text) = text else { continue };
        if text.len() > left {
            text.truncate(text.floor_char_boundary(left));
            text.push_str(LEFT_OUT);
        }
        left = left.saturating_sub(text.len());
    }
    Draft::of(&value)
}

impl Resource for Watched {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The object with `apiVersion` and `kind`, which the API server omits from the items of a list, and with as much of it as
/// rules read.
pub(crate) fn typed(object: Watched, resource: &ApiResource) -> Draft {
    let mut draft = object.draft;
    if draft.string(&["apiVersion"]).is_none() || draft.string(&["kind"]).is_none() {
        draft.set_string(&["apiVersion"], &resource.api_version);
        draft.set_string(&["kind"], &resource.kind);
    }
    reduce(&mut draft, &resource.group, &resource.kind);
    draft.compact();
    draft
}

#[cfg(test)]
mod tests {
    use gpulint_rules::Object;
    use kube::core::GroupVersionKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_large_config_map_the_keys_and_the_beginning_are_kept() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ml"},
            "data": {"a.yaml": "x: 1", "b.txt": "ä".repeat(400_000), "c.yaml": "y: 1"},
            "binaryData": {"d": "AAAA".repeat(50_000)}});
        let watched: Watched = serde_json::from_value(map).unwrap();
        assert!(watched.draft.text_bytes() < MAX_CONFIG_MAP_BYTES + 1000, "{}", watched.draft.text_bytes());
        let object = Object::from_draft(watched.draft).unwrap();
        let value = |key: &str| object.path(&["data", key]);
        assert_eq!(value("a.yaml").text(), Some("x: 1"));
        assert!(value("b.txt").is_unknown() && value("b.txt").raw_text().unwrap().starts_with('ä'));
        assert!(value("c.yaml").is_unknown());
        assert!(object.path(&["binaryData", "d"]).is_set());
    }

    /// What a tenant may store in a ResourceClaim.
    #[test]
    fn one_odd_object_keeps_no_others_from_being_read() {
        let claim = |name: &str, parameters: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}", "namespace": "ml", "resourceVersion": "7"}}, "spec": {{"parameters": {parameters}}}}}"#
            )
        };
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1600), "}".repeat(1600));
        let odd =
            [claim("deep", &deep), claim("large", "1e999"), claim("half", r#""\ud83d""#), "3".to_owned()];
        let items = [claim("a", "{}"), odd.join(","), claim("b", "{}")].join(",");
        let list = format!(
            r#"{{"kind": "ResourceClaimList", "metadata": {{"resourceVersion": "9"}}, "items": [{items}]}}"#
        );
        let list: kube::core::ObjectList<Watched> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> = list.items.iter().map(|item| item.draft.string(&["metadata", "name"])).collect();
        assert_eq!(names, [Some("a"), Some("deep"), Some("large"), Some("half"), None, Some("b")]);
        let event = format!(r#"{{"type": "MODIFIED", "object": {}}}"#, claim("deep", &deep));
        let event: kube::core::WatchEvent<Watched> = serde_json::from_str(&event).unwrap();
        let kube::core::WatchEvent::Modified(changed) = event else { panic!() };
        assert_eq!(changed.metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn what_is_not_kept_takes_no_memory() {
        let long = "x".repeat(20_000);
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "managedFields": [{"manager": long}], "annotations": {
                "team": "ml", "kubectl.kubernetes.io/last-applied-configuration": long}},
            "spec": {"weight": 3}, "status": {"conditions": [{"message": long}]}});
        let watched: Watched = serde_json::from_value(pool).unwrap();
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool");
        let resource = ApiResource::from_gvk_with_plural(&kind, "nodepools");
        let draft = typed(watched, &resource);
        assert!(draft.text_bytes() < 200, "{}", draft.text_bytes());
        let wanted = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": {"team": "ml"}}, "spec": {"weight": 3}});
        assert_eq!(draft.to_json(), wanted);
    }
}
