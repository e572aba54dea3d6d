//! The objects of a text that is not read as manifests: a template, or a document with a syntax error.

use super::Fact;

/// The objects of a text that is not read, each with the line of its kind, counted from 1. Only lines are looked at: what is
/// around them need not be YAML. A name with a placeholder is unknown.
pub fn unread_objects(text: &str) -> Vec<(Fact, u32)> {
    let mut scan = Scan::default();
    for (line, number) in text.lines().zip(1..) {
        scan.add(line, number);
    }
    scan.end_object();
    scan.found
}

#[derive(Default)]
struct Scan {
    found: Vec<(Fact, u32)>,
    /// The indentation of the fields of the object that the line is in.
    indent: usize,
    has_api: bool,
    kind: Option<(String, u32)>,
    /// The indentation of the fields of its metadata, while the lines are there; that of the first field decides.
    metadata: Option<Option<usize>>,
    name: Option<Option<String>>,
}

impl Scan {
    fn add(&mut self, line: &str, number: u32) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.starts_with("---") {
            self.end_object();
        }
        let Some((key, value)) = text.split_once(':').filter(|(key, _)| is_word(key)) else { return };
        let is_inside = self.has_api || self.kind.is_some();
        if is_inside && indent > self.indent {
            self.add_below(key, value, indent);
            return;
        }
        let is_repeated = match key {
            "apiVersion" => self.has_api,
            "kind" => self.kind.is_some(),
            _ => false,
        };
        if is_inside && (indent < self.indent || is_repeated) {
            self.end_object();
        }
        self.metadata = None;
        match key {
            "apiVersion" => (self.has_api, self.indent) = (true, indent),
            "kind" => {
                let kind = plain(value).filter(|kind| is_word(kind));
                (self.kind, self.indent) = (kind.map(|kind| (kind.to_owned(), number)), indent);
            }
            "metadata" => match value.split_once("name:") {
                Some((_, name)) => self.set_name(name.split([',', '}']).next().unwrap_or_default()),
                None => self.metadata = Some(None),
            },
            _ => {}
        }
    }

    /// Adds a line of a field within the object.
    fn add_below(&mut self, key: &str, value: &str, indent: usize) {
        let Some(of_fields) = &mut self.metadata else { return };
        if *of_fields.get_or_insert(indent) == indent && key == "name" {
            self.set_name(value);
        }
    }

    fn set_name(&mut self, value: &str) {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | ':');
        let name = plain(value).filter(|name| !name.is_empty() && name.chars().all(is_part));
        self.name = Some(name.map(str::to_owned));
    }

    fn end_object(&mut self) {
        let has_api = std::mem::take(&mut self.has_api);
        self.metadata = None;
        if let (Some((kind, line)), Some(name), true) = (self.kind.take(), self.name.take(), has_api) {
            self.found.push((Fact::Unread(kind, name), line));
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// A value without quotes and comment.
fn plain(value: &str) -> Option<&str> {
    let value = value.split(" #").next()?.trim();
    Some(value.trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::unread_objects;
    use crate::cluster::versions::Fact;

    fn found(text: &str) -> Vec<(String, Option<String>)> {
        let all = unread_objects(text).into_iter();
        all.filter_map(|(fact, _)| match fact {
            Fact::Unread(kind, name) => Some((kind, name)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn objects_of_templates_are_known_by_their_lines() {
        let text = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  labels:\n    name: other\n  \
                    name: \"kata\" # metal\nspec:\n  amiSelectorTerms: [{id: {{AMI}}}]\n  ref:\n    kind: X\n---\n\
                    {{- if .a }}\nkind: Service\napiVersion: v1\nmetadata: {name: {{ .name }}}\n{{- end }}\n";
        let expected = [("EC2NodeClass".to_owned(), Some("kata".to_owned())), ("Service".to_owned(), None)];
        assert_eq!(found(text), expected);
        let script =
            "cat <<EOF\n  apiVersion: v1\n  kind: Service\n  metadata:\n    name: a\nEOF\nkind: none\n";
        assert_eq!(found(script), [("Service".to_owned(), Some("a".to_owned()))]);
        for text in ["a: b\n", "kind: Service\nmetadata:\n  name: a\n", "apiVersion: v1\nkind: List\n"] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
