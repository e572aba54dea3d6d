//! Webhooks of ValidatingWebhookConfigurations and MutatingWebhookConfigurations: which requests they match, and the
//! effect if they are unavailable.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::Tree;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::selector;

pub(crate) const KINDS: [Kind; 2] =
    [Kind::VALIDATING_WEBHOOK_CONFIGURATION, Kind::MUTATING_WEBHOOK_CONFIGURATION];

/// The label that every namespace has with its own name.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A resource that the rules of a webhook may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// The namespaces of the objects that a cluster depends on; empty for cluster-scoped resources.
    pub(crate) namespaces: &'static [&'static str],
    /// The operations that the cluster depends on. Status, binding and approval are subresources, so a pod
    /// starts without an `UPDATE`.
    operations: &'static [&'static str],
}

const CREATE: &[&str] = &["*", "CREATE"];
const CREATE_UPDATE: &[&str] = &["*", "CREATE", "UPDATE"];

/// The resources that nodes need to join a cluster and to stay ready.
pub(crate) const NODE_RESOURCES: &[Resource] = &[
    Resource { group: "", name: "nodes", namespaces: &[], operations: CREATE_UPDATE },
    Resource { group: "karpenter.sh", name: "nodeclaims", namespaces: &[], operations: CREATE_UPDATE },
    Resource {
        group: "certificates.k8s.io",
        name: "certificatesigningrequests",
        namespaces: &[],
        operations: CREATE,
    },
    Resource {
        group: "coordination.k8s.io",
        name: "leases",
        namespaces: &["kube-node-lease", "kube-system"],
        operations: CREATE_UPDATE,
    },
    Resource { group: "", name: "events", namespaces: &["default", "kube-system"], operations: CREATE },
    Resource {
        group: "events.k8s.io",
        name: "events",
        namespaces: &["default", "kube-system"],
        operations: CREATE,
    },
];

/// Pods of the system namespaces.
pub(crate) const PODS: Resource =
    Resource { group: "", name: "pods", namespaces: &["kube-system"], operations: CREATE };

/// One webhook of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Webhook<'a> {
    node: Node<'a>,
}

impl<'a> Webhook<'a> {
    /// The webhooks of a configuration in `admissionregistration.k8s.io/v1`.
    pub(crate) fn of(object: &'a Object) -> Vec<Webhook<'a>> {
        if object.version() != "v1" {
            return Vec::new();
        }
        let webhooks = object.get("webhooks");
        webhooks.items().map(|node| Webhook { node }).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Node<'a> {
        self.node.get(name)
    }

    /// The name for messages: in backticks, or `this webhook` without a name.
    pub(crate) fn display_name(&self) -> String {
        match self.node.get("name").text().filter(|name| !name.is_empty()) {
            Some(name) => format!("`{name}`"),
            None => "this webhook".to_owned(),
        }
    }

    /// Whether requests are rejected while the webhook is unavailable (`failurePolicy: Fail`, the default).
    /// `partial`: an absent field may be set elsewhere.
    pub(crate) fn fails_closed(&self, partial: bool) -> bool {
        let policy = self.get("failurePolicy");
        if policy.is_set() { policy.text() == Some("Fail") } else { !partial }
    }

    /// Whether conditions that are not evaluated narrow the requests: match conditions, an object selector.
    pub(crate) fn has_unevaluated_conditions(&self) -> bool {
        let conditions = self.get("matchConditions");
        let objects = self.get("objectSelector");
        conditions.is_unknown()
            || conditions.items().next().is_some()
            || objects.is_unknown()
            || !objects.entries().is_empty()
    }

    /// Whether the rules match a required operation on the resource. Placeholders match nothing.
    pub(crate) fn intercepts(&self, resource: Resource) -> bool {
        let has = |node: &Node<'_>, holds: &dyn Fn(&str) -> bool| {
            node.items().any(|n| n.text().is_some_and(|t| !is_placeholder(t) && holds(t)))
        };
        let cluster_scoped = resource.namespaces.is_empty();
        self.get("rules").items().any(|rule| {
            let scope = rule.get("scope").text().unwrap_or("*");
            let in_scope = match scope {
                "Cluster" => cluster_scoped,
                "Namespaced" => !cluster_scoped,
                _ => true,
            };
            in_scope
                && has(&rule.get("apiGroups"), &|g| g == "*" || g == resource.group)
                && has(&rule.get("operations"), &|o| resource.operations.contains(&o))
                && has(&rule.get("resources"), &|r| {
                    let whole = r.strip_suffix("/*").unwrap_or(r);
                    whole == "*" || whole == resource.name
                })
        })
    }

    /// Whether the namespace selector matches a namespace; `None` if that depends on unknown labels.
    pub(crate) fn covers_namespace(&self, namespace: &str) -> Option<bool> {
        let selector = self.get("namespaceSelector");
        if selector.is_unknown() {
            return None;
        }
        if selector.entries().is_empty() {
            return Some(true);
        }
        let own = serde_json::json!({ NAMESPACE_NAME: namespace });
        let tree = Tree::from_json(&own);
        let labels = Node::new(&tree, 0).entries();
        // A term on this label can exclude the namespace regardless of its other labels.
        let named = |n: &Node<'_>| n.get("key").text() == Some(NAMESPACE_NAME);
        let other_keys = selector.get("matchLabels").entries().iter().any(|(key, _)| *key != NAMESPACE_NAME)
            || selector.get("matchExpressions").items().any(|e| !named(&e));
        if !other_keys {
            return selector::matches(&selector, &labels);
        }
        let left_out = selector.get("matchExpressions").items().any(|e| {
            let among = e.get("values").items().any(|v| v.text() == Some(namespace));
            named(&e)
                && match e.get("operator").text() {
                    Some("In") => !among && !e.has_unknown(),
                    Some("NotIn") => among,
                    _ => false,
                }
        });
        if left_out { Some(false) } else { None }
    }

    /// The only term of the namespace selector, if it leaves namespaces out by a label that looks like their name and that none has by
    /// itself: a `NotIn` matches all that lack the label.
    pub(crate) fn excludes_by_lookalike(&self) -> Option<Node<'a>> {
        const LOOKALIKES: [&str; 4] =
            ["namespace", "metadata.name", "kubernetes.io/name", "kubernetes.io/namespace"];
        let selector = self.get("namespaceSelector");
        let mut terms = selector.get("matchExpressions").items();
        let (term, None) = (terms.next()?, terms.next()) else { return None };
        let is_lookalike = term.get("key").text().is_some_and(|key| LOOKALIKES.contains(&key));
        (is_lookalike
            && term.get("operator").text() == Some("NotIn")
            && selector.get("matchLabels").entries().is_empty()
            && !selector.has_unknown_key())
        .then_some(term)
    }

    /// Whether the webhook certainly intercepts a resource that the cluster depends on, in one of its
    /// namespaces.
    pub(crate) fn blocks(&self, resource: Resource, more: &[String]) -> bool {
        if self.has_unevaluated_conditions() || !self.intercepts(resource) {
            return false;
        }
        resource.namespaces.is_empty()
            || resource
                .namespaces
                .iter()
                .copied()
                .chain(more.iter().map(String::as_str))
                .any(|namespace| self.covers_namespace(namespace) == Some(true))
    }
}
