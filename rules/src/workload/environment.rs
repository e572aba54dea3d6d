//! The environment of a container. Of several entries of one name the kubelet takes the last, and any entry of `env`
//! before those of `envFrom` (`makeEnvironmentVariables` of its sources); KEDA does so too (`ResolveContainerEnv`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

/// The container whose environment `<key>FromEnv` of a trigger of KEDA names.
#[derive(Clone, Debug)]
pub enum Environment<'a> {
    /// The target is not in the input.
    Unknown,
    Container(Node<'a>),
}

#[derive(Clone, Debug)]
pub enum Variable<'a> {
    /// The container does not define it.
    Absent,
    /// The container may define it, with any value.
    Unknown,
    /// The container defines it, with a value from another object.
    Hidden,
    /// The value.
    Text(&'a str),
}

impl<'a> Environment<'a> {
    /// The environment that KEDA reads: that of the container called `name`, or else of the first container.
    pub fn of(pod: &Node<'a>, name: &Node<'_>) -> Environment<'a> {
        let mut containers = pod.get("containers").items();
        let found = match name.text() {
            _ if name.is_unknown() => None,
            Some(name) if !name.is_empty() => containers.find(|c| c.get("name").text() == Some(name)),
            _ => containers.next(),
        };
        found.map_or(Environment::Unknown, Environment::Container)
    }

    /// The name of the container; `None` if it is not known.
    pub(crate) fn container_name(&self) -> Option<&'a str> {
        let Environment::Container(container) = self else { return None };
        container.get("name").text()
    }

    /// A variable of the container.
    pub fn variable(&self, name: &str) -> Variable<'a> {
        let Environment::Container(container) = self else {
            return Variable::Unknown;
        };
        let entry = match look_up(container, name) {
            Found::Entry(entry) => entry,
            Found::Nothing => return Variable::Absent,
            Found::Unknown => return Variable::Unknown,
        };
        let value = entry.get("value");
        match value.text() {
            Some(text) => Variable::Text(text),
            None if value.is_unknown() => Variable::Unknown,
            None => Variable::Hidden,
        }
    }
}

/// What a container says of a variable.
enum Found<'a> {
    /// The entry of `env` that defines it.
    Entry(Node<'a>),
    Nothing,
    /// It has no entry that is known, and the container may define it nevertheless.
    Unknown,
}

/// Looks a variable up in one pass: rules ask for many.
fn look_up<'a>(container: &Node<'a>, name: &str) -> Found<'a> {
    let env = container.get("env");
    let (mut found, mut is_open) = (None, false);
    for entry in env.items() {
        match entry.text_at("name") {
            Some(known) if known == name => found = Some(entry),
            Some(_) => {}
            None => is_open = true,
        }
    }
    match found {
        Some(entry) => Found::Entry(entry),
        None if is_open || env.is_unknown() || container.get("envFrom").is_set() => Found::Unknown,
        None => Found::Nothing,
    }
}

/// The entry of `env` that defines a variable.
pub(crate) fn entry<'a>(container: &Node<'a>, name: &str) -> Option<Node<'a>> {
    container.get("env").items().filter(|entry| entry.text_at("name") == Some(name)).last()
}

/// The value of a variable, and its place; `Some(None)` if it is not set, `None` if it is unknown.
pub(crate) fn variable<'a>(container: &Node<'a>, name: &str) -> Option<Option<(Cow<'a, str>, Node<'a>)>> {
    let entry = match look_up(container, name) {
        Found::Entry(entry) => entry,
        Found::Nothing => return Some(None),
        Found::Unknown => return None,
    };
    let value = entry.get("value");
    let text = value.string_or_number().filter(|text| !is_placeholder(text))?;
    Some(Some((text, value)))
}

/// Whether a container has a variable whose name meets a condition, or may have one.
pub(crate) fn may_define(container: &Node<'_>, is: impl Fn(&str) -> bool) -> bool {
    let env = container.get("env");
    container.get("envFrom").is_set()
        || env.is_unknown()
        || env.items().any(|entry| entry.text_at("name").is_none_or(&is))
}

/// Whether a container may have further variables than those that are written.
pub(crate) fn is_open(container: &Node<'_>) -> bool {
    may_define(container, |_| false)
}

/// Variables by name, with the places of their values.
pub(crate) type Variables<'a> = BTreeMap<&'a str, Node<'a>>;

/// All variables of a container. `None` if a part of them is not known.
pub(crate) fn known<'a>(container: &Node<'a>) -> Option<Variables<'a>> {
    let list = container.get("env");
    if list.has_unknown() || container.get("envFrom").is_set() {
        return None;
    }
    Some(list.items().filter_map(|entry| Some((entry.text_at("name")?, entry.get("value")))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn the_last_entry_counts() {
        let tree = Tree::from_json(&json!({"env": [
            {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"},
        ]}));
        let container = Node::new(&tree, 0);
        assert_eq!(variable(&container, "A").flatten().map(|(text, _)| text), Some("3".into()));
        assert!(variable(&container, "C").is_some_and(|value| value.is_none()));
        let all = known(&container).map(|all| all.into_iter().map(|(name, node)| (name, node.text())));
        assert_eq!(all.map(Iterator::collect::<Vec<_>>), Some(vec![("A", Some("3")), ("B", Some("2"))]));
    }

    #[test]
    fn other_objects_may_define_more() {
        let tree = Tree::from_json(&json!({
            "env": [{"name": "A", "value": "1"}], "envFrom": [{"secretRef": {"name": "more"}}],
        }));
        let container = Node::new(&tree, 0);
        assert_eq!(variable(&container, "A").flatten().map(|(text, _)| text), Some("1".into()));
        assert!(variable(&container, "C").is_none() && known(&container).is_none());
    }
}
