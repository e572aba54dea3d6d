//! `templatePatch` of an ApplicationSet: the template of an Application with the patch for one element.

use gpulint_rules::Node;
use gpulint_rules::source::{Document, Source, read};
use serde_json::Value;

/// The template after a patch.
pub(super) enum PatchedTemplate {
    /// The patch changes nothing that decides what is applied where.
    AsWritten,
    Merged(Vec<Document>),
    /// Conditions and loops of the patch decide.
    Unknown,
}

impl PatchedTemplate {
    /// Merges a patch whose parameters are filled in, as `applyTemplatePatch` of Argo CD 3 does: the types of an Application have no
    /// keys by which lists are merged, so that a list replaces another one.
    pub(super) fn of(template: &Node<'_>, patch: &str) -> PatchedTemplate {
        if patch.contains("{{") {
            let decides =
                ["source", "destination", "name:", "name\":"].iter().any(|word| patch.contains(word));
            return if decides { PatchedTemplate::Unknown } else { PatchedTemplate::AsWritten };
        }
        let documents = read(&Source::from_text("templatePatch", patch));
        let patch = documents.first().and_then(Document::root).map(|root| root.to_json());
        let Some(patch) = patch.filter(Value::is_object) else { return PatchedTemplate::AsWritten };
        let mut merged = template.to_json();
        merge(&mut merged, patch);
        // JSON is YAML.
        PatchedTemplate::Merged(read(&Source::from_text("template", &merged.to_string())))
    }
}

/// Merges a patch into a value: null removes a field.
fn merge(value: &mut Value, patch: Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (name, patch) in patch {
                if patch.is_null() {
                    fields.remove(&name);
                } else {
                    merge(fields.entry(name).or_insert(Value::Null), patch);
                }
            }
        }
        (value, patch) => *value = patch,
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::source::{Document, Source, read};
    use serde_json::json;

    use super::PatchedTemplate;

    #[test]
    fn a_patch_is_merged_field_by_field() {
        let template = read(&Source::from_text(
            "template",
            "spec: {project: a, source: {path: charts/a, helm: {valueFiles: [a.yaml]}}}",
        ));
        let of = |patch: &str| {
            let root =
                template.first().and_then(Document::root).map(|root| PatchedTemplate::of(&root, patch));
            match root {
                Some(PatchedTemplate::Merged(documents)) => {
                    documents.first().and_then(Document::root).map(|root| root.to_json())
                }
                Some(PatchedTemplate::AsWritten) => Some(json!("as written")),
                Some(PatchedTemplate::Unknown) | None => None,
            }
        };
        assert_eq!(
            of("spec: {project: null, source: {helm: {valueFiles: [b.yaml]}}}"),
            Some(json!({"spec": {"source": {"path": "charts/a", "helm": {"valueFiles": ["b.yaml"]}}}}))
        );
        assert_eq!(
            of("{{- if .sync }}\nspec: {syncPolicy: {automated: {}}}\n{{- end }}"),
            Some(json!("as written"))
        );
        assert_eq!(of("{{- range .files }}\nspec: {source: {helm: {}}}\n{{- end }}"), None);
        assert_eq!(of(""), Some(json!("as written")));
    }
}
