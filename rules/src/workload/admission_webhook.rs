//! Admission webhooks as their configurations describe them: what they are asked about, and what
//! happens while they do not answer.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::Tree;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::selector;

/// The two kinds of configuration.
pub(crate) const KINDS: [Kind; 2] =
    [Kind::VALIDATING_WEBHOOK_CONFIGURATION, Kind::MUTATING_WEBHOOK_CONFIGURATION];

/// The label by which a namespace selector can name a namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A resource that the API server may ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its group.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The namespaces of those that a cluster cannot do without; none for what has no namespace.
    pub namespaces: &'static [&'static str],
    /// The operations without which it is of no use. Status, binding and approval are resources of
    /// their own, so that a pod starts without an `UPDATE`.
    operations: &'static [&'static str],
}

const CREATE: &[&str] = &["*", "CREATE"];
const CREATE_UPDATE: &[&str] = &["*", "CREATE", "UPDATE"];

/// What nodes need to join and to stay.
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

/// Pods, of which the cluster's own are asked about.
pub(crate) const PODS: Resource =
    Resource { group: "", name: "pods", namespaces: &["kube-system"], operations: CREATE };

/// One webhook of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Webhook<'a> {
    node: Node<'a>,
}

impl<'a> Webhook<'a> {
    /// The webhooks of a configuration of `admissionregistration.k8s.io/v1`.
    pub(crate) fn of(object: &'a Object) -> Vec<Webhook<'a>> {
        if object.id().version != "v1" {
            return Vec::new();
        }
        let webhooks = object.get("webhooks");
        webhooks.items().map(|node| Webhook { node }).collect()
    }

    /// A field of it.
    pub(crate) fn get(&self, name: &str) -> Node<'a> {
        self.node.get(name)
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> &'a str {
        self.node.get("name").text().unwrap_or("?")
    }

    /// Whether requests are refused while it does not answer; that is the default. `partial` says
    /// that what is absent may be written elsewhere.
    pub(crate) fn fails_closed(&self, partial: bool) -> bool {
        let policy = self.get("failurePolicy");
        if policy.is_set() { policy.text() == Some("Fail") } else { !partial }
    }

    /// Whether something narrows it down that is not read here: conditions in CEL, labels of the
    /// objects.
    pub(crate) fn has_unevaluated_conditions(&self) -> bool {
        let conditions = self.get("matchConditions");
        let objects = self.get("objectSelector");
        conditions.is_unknown()
            || conditions.items().next().is_some()
            || objects.is_unknown()
            || !objects.entries().is_empty()
    }

    /// Whether it is asked when such a resource is written as it has to be. Placeholders ask about nothing.
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

    /// Whether it is asked about objects of a namespace; `None` where only the namespace's labels
    /// would say.
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
        // Whatever the other labels of the namespace are, this one alone may leave it out.
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

    /// Whether it surely stands in the way of a resource that the cluster needs: asked about it in
    /// a namespace of the list, and in nothing that can be left out.
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
