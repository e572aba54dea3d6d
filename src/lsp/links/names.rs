//! The fields by which objects name others.

use gpulint_rules::cluster::views::scale_target;
use gpulint_rules::karpenter::nodepool::NODEPOOL_LABEL;
use gpulint_rules::kind::{Kind, WORKLOAD_KINDS};
use gpulint_rules::workload::dra;
use gpulint_rules::workload::template::{PREFERRED_AFFINITY, REQUIRED_AFFINITY, templates};
use gpulint_rules::{Node, Object};

/// A field that names an object.
#[derive(Debug)]
pub(super) struct Reference<'o> {
    pub(super) node: Node<'o>,
    /// The node that contains the name: the name itself, or a mapping such as `nodeClassRef`.
    pub(super) block: Node<'o>,
    pub(super) group: String,
    pub(super) kind: String,
    /// The namespace of the object; `default` for kinds that are not namespaced.
    pub(super) namespace: String,
    pub(super) name: String,
}

struct References<'o> {
    object: &'o Object,
    out: Vec<Reference<'o>>,
}

impl<'o> References<'o> {
    /// Adds a name that alone identifies the object.
    fn name(&mut self, kind: Kind, node: &Node<'o>) {
        self.named(kind, node, node);
    }

    fn named(&mut self, kind: Kind, node: &Node<'o>, block: &Node<'o>) {
        let Some(name) = node.text().filter(|name| !name.is_empty()) else { return };
        let is_namespaced = kind == Kind::SERVICE_ACCOUNT || kind.info().is_some_and(|info| info.namespaced);
        let namespace = if is_namespaced { self.object.id().namespace_or_default() } else { "default" };
        self.out.push(Reference {
            node: node.clone(),
            block: block.clone(),
            group: kind.group.to_owned(),
            kind: kind.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }
}

pub(super) fn of(object: &Object) -> Vec<Reference<'_>> {
    let mut found = References { object, out: Vec::new() };
    found.name(Kind::NAMESPACE, &object.path(&["metadata", "namespace"]));
    if object.is(Kind::NODE_POOL) {
        node_class(&object.path(&["spec", "template", "spec", "nodeClassRef"]), &mut found);
    } else if object.is(Kind::NODE_CLAIM) {
        node_class(&object.path(&["spec", "nodeClassRef"]), &mut found);
        pools_in(&object.path(&["spec", "requirements"]), &mut found);
    } else if object.is(Kind::NODE_OVERLAY) {
        pools_in(&object.path(&["spec", "requirements"]), &mut found);
    } else if object.is(Kind::SCALED_OBJECT) || object.is(Kind::HPA) {
        scaled(object, &mut found);
    } else if object.is(Kind::RESOURCE_CLAIM) || object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        for block in dra::class_blocks(object) {
            found.name(Kind::DEVICE_CLASS, &block.get("deviceClassName"));
        }
    } else if object.is(Kind::STATEFUL_SET) {
        found.name(Kind::SERVICE, &object.path(&["spec", "serviceName"]));
    }
    if object.is(Kind::SCALED_OBJECT) || object.is(Kind::SCALED_JOB) {
        for trigger in object.path(&["spec", "triggers"]).items() {
            let block = trigger.get("authenticationRef");
            let of_cluster = block.get("kind").text() == Some("ClusterTriggerAuthentication");
            let kind =
                if of_cluster { Kind::CLUSTER_TRIGGER_AUTHENTICATION } else { Kind::TRIGGER_AUTHENTICATION };
            found.named(kind, &block.get("name"), &block);
        }
    }
    for template in templates(object) {
        pods(&template.spec, &mut found);
    }
    found.out
}

fn node_class<'o>(block: &Node<'o>, found: &mut References<'o>) {
    let is = |kind: &Kind| {
        block.get("kind").text() == Some(kind.kind)
            && block.get("group").text().is_none_or(|g| g == kind.group)
    };
    let kinds = [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS];
    if let Some(kind) = kinds.into_iter().find(is) {
        found.named(kind, &block.get("name"), block);
    }
}

/// Adds the target of an autoscaler, of any kind.
fn scaled<'o>(object: &'o Object, found: &mut References<'o>) {
    let Some((namespace, kind, name)) = scale_target(object) else { return };
    let (group, kind) = kind.split_once('/').unwrap_or(("", &kind));
    let block = object.path(&["spec", "scaleTargetRef"]);
    found.out.push(Reference {
        node: block.get("name"),
        block,
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace,
        name,
    });
}

fn pools_in<'o>(expressions: &Node<'o>, found: &mut References<'o>) {
    for expression in expressions.items().filter(|e| e.get("key").text() == Some(NODEPOOL_LABEL)) {
        for value in expression.get("values").items() {
            found.name(Kind::NODE_POOL, &value);
        }
    }
}

fn pods<'o>(spec: &Node<'o>, found: &mut References<'o>) {
    found.name(Kind::PRIORITY_CLASS, &spec.get("priorityClassName"));
    found.name(Kind::RUNTIME_CLASS, &spec.get("runtimeClassName"));
    found.name(Kind::SERVICE_ACCOUNT, &spec.get("serviceAccountName"));
    for claim in spec.get("resourceClaims").items() {
        found.named(Kind::RESOURCE_CLAIM_TEMPLATE, &claim.get("resourceClaimTemplateName"), &claim);
        found.named(Kind::RESOURCE_CLAIM, &claim.get("resourceClaimName"), &claim);
    }
    found.name(Kind::NODE_POOL, &spec.path(&["nodeSelector", NODEPOOL_LABEL]));
    let affinity = spec.path(&["affinity", "nodeAffinity"]);
    let required = affinity.path(&[REQUIRED_AFFINITY, "nodeSelectorTerms"]);
    for term in required.items() {
        pools_in(&term.get("matchExpressions"), found);
    }
    for preferred in affinity.get(PREFERRED_AFFINITY).items() {
        pools_in(&preferred.path(&["preference", "matchExpressions"]), found);
    }
}

pub(super) fn kinds_that_name(target: &Object) -> &'static [Kind] {
    let is_one_of = |kinds: &[Kind]| kinds.iter().any(|kind| target.is(*kind));
    if is_one_of(&[Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS]) {
        return &[Kind::NODE_POOL, Kind::NODE_CLAIM];
    }
    if target.is(Kind::NODE_POOL) {
        static KINDS: std::sync::LazyLock<Vec<Kind>> = std::sync::LazyLock::new(|| {
            [Kind::NODE_OVERLAY, Kind::NODE_CLAIM].into_iter().chain(WORKLOAD_KINDS.iter().copied()).collect()
        });
        return &KINDS;
    }
    if is_one_of(&[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION]) {
        return &[Kind::SCALED_OBJECT, Kind::SCALED_JOB];
    }
    if target.is(Kind::DEVICE_CLASS) {
        return &[Kind::RESOURCE_CLAIM, Kind::RESOURCE_CLAIM_TEMPLATE];
    }
    if target.is(Kind::SERVICE) {
        return &[Kind::STATEFUL_SET];
    }
    let by_pods = [
        Kind::PRIORITY_CLASS,
        Kind::RUNTIME_CLASS,
        Kind::SERVICE_ACCOUNT,
        Kind::RESOURCE_CLAIM_TEMPLATE,
        Kind::RESOURCE_CLAIM,
    ];
    if is_one_of(&by_pods) {
        return WORKLOAD_KINDS;
    }
    // Kinds that an autoscaler may scale.
    &[Kind::SCALED_OBJECT, Kind::HPA]
}
