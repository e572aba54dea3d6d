//! References to the ports that containers list: each is a number or a name (`IntOrString`).

use crate::tree::node::Node;

/// The target of a port of a Service: by default its own number.
pub(crate) fn target_of<'a>(port: &Node<'a>) -> Node<'a> {
    let target = port.get("targetPort");
    if target.is_set() { target } else { port.get("port") }
}

/// Whether an entry of a list of ports is the one that a reference means: by its number, a field with this name, or by its name.
pub(crate) fn is_port(entry: &Node<'_>, number: &str, wanted: &Node<'_>) -> bool {
    match wanted.int() {
        Some(wanted) => entry.get(number).int() == Some(wanted),
        None => wanted.text().is_some() && entry.get("name").text() == wanted.text(),
    }
}

/// The entry in the ports of a container that a reference means.
pub(crate) fn find<'a>(container: &Node<'a>, wanted: &Node<'_>) -> Option<Node<'a>> {
    container.get("ports").items().find(|entry| is_port(entry, "containerPort", wanted))
}

/// The number of the port that a reference means in a container, which need not list a number, and the node that has it.
pub(crate) fn number<'a>(container: &Node<'a>, wanted: &Node<'a>) -> Option<(i64, Node<'a>)> {
    if let Some(number) = wanted.int() {
        return Some((number, wanted.clone()));
    }
    let node = find(container, wanted)?.get("containerPort");
    Some((node.int()?, node))
}
