//! The security contexts of a pod and of its containers.

pub(crate) mod pod_security;

use crate::tree::node::Node;
use crate::workload::template::Template;

/// The user that a container runs as.
pub(crate) enum User<'a> {
    Root,
    /// A user other than root, with the field that says so: its number, or that it is not root.
    Other(Node<'a>),
    Image,
    Unknown,
}

impl User<'_> {
    /// Whether a container runs as root if its image does.
    pub(crate) fn may_be_root(&self) -> bool {
        matches!(self, User::Root | User::Image)
    }
}

/// The user of a container. A field of its own security context replaces that of the pod: `DetermineEffectiveSecurityContext`
/// of `pkg/securitycontext`, Kubernetes 1.34.
pub(crate) fn effective_user<'a>(template: &Template<'a>, container: &Node<'a>) -> User<'a> {
    let contexts = [container, &template.spec].map(|place| place.get("securityContext"));
    if contexts.iter().any(|context| context.is_unknown() || context.has_unknown_key()) {
        return User::Unknown;
    }
    let set = |field: &str| contexts.iter().map(|context| context.get(field)).find(Node::is_set);
    if let Some(user) = set("runAsUser") {
        return match user.int() {
            Some(0) => User::Root,
            Some(1..) => User::Other(user),
            _ => User::Unknown,
        };
    }
    match set("runAsNonRoot") {
        None => User::Image,
        Some(field) => match field.bool() {
            Some(true) => User::Other(field),
            Some(false) => User::Image,
            None => User::Unknown,
        },
    }
}
