//! The values that requirements, labels and pods give for labels of instance types.

use crate::catalog;
use crate::catalog::TENANCY;
use crate::karpenter::labels::key::KeyLocation;
use crate::rules::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    /// A NodePool, NodeClaim or NodeOverlay: every value is expected to exist in EC2.
    Nodes,
    /// Pods that may also run on other nodes.
    Pods,
    /// Pods that run on all nodes, and list values that may exist anywhere.
    Followers,
}

pub(super) struct Requested<'a> {
    pub(super) requester: Requester,
    /// The key as in the catalogue.
    pub(super) key: &'a str,
    /// `NotIn`: the values are excluded.
    pub(super) excluded: bool,
    /// Whether Karpenter rejects the object because of them.
    pub(super) refused: bool,
    pub(super) values: Vec<Node<'a>>,
}

/// Called for each list of values.
type Visit = fn(&Requested<'_>, &mut Context<'_>);

/// Visits every list of values that an object requires or excludes.
pub(super) fn visit_values(object: &Object, ctx: &mut Context<'_>, visit: Visit) {
    if let Some(list) = ctx.requirements() {
        of_nodes(object, list, visit, ctx);
        return;
    }
    let requester = if object.is(Kind::DAEMON_SET) { Requester::Followers } else { Requester::Pods };
    for template in templates(object) {
        of_pods(&template, requester, visit, ctx);
    }
}

/// The requirements and template labels of an object that creates nodes.
fn of_nodes(object: &Object, list: &RequirementList<'_>, visit: Visit, ctx: &mut Context<'_>) {
    if list.provider == Provider::Other {
        return;
    }
    for item in list.items() {
        of_item(item, Requester::Nodes, list.provider, list.location, visit, ctx);
    }
    if let Some(pool) = NodePool::new(object) {
        for (key, value) in pool.labels().entries() {
            let requested = Requested {
                requester: Requester::Nodes,
                key: &list.provider.catalogue_key(key),
                excluded: false,
                refused: false,
                values: vec![value],
            };
            visit(&requested, ctx);
        }
    }
}

/// The node selector and the required terms of a pod. The keys determine the provider of its nodes.
fn of_pods(template: &Template<'_>, requester: Requester, visit: Visit, ctx: &mut Context<'_>) {
    for (key, value) in template.spec.get("nodeSelector").entries() {
        let key = Provider::AutoMode.catalogue_key(key);
        let values = vec![value];
        let refused = is_refused(&key, &values, requester, ctx);
        let requested = Requested { requester, key: &key, excluded: false, refused, values };
        visit(&requested, ctx);
    }
    let terms = template.required_terms();
    for term in terms.items() {
        let expressions = term.get("matchExpressions");
        for item in expressions.items().filter(Node::is_mapping).map(RequirementItem::new) {
            of_item(&item, requester, Provider::AutoMode, KeyLocation::Pod, visit, ctx);
        }
    }
}

fn of_item(
    item: &RequirementItem<'_>,
    requester: Requester,
    provider: Provider,
    location: KeyLocation,
    visit: Visit,
    ctx: &mut Context<'_>,
) {
    let (Some(key), Some(operator)) = (item.key(), item.operator()) else { return };
    if !matches!(operator, Operator::In | Operator::NotIn) {
        return;
    }
    let key = provider.catalogue_key(key);
    let values: Vec<Node<'_>> = item.values().items().collect();
    let refused = operator == Operator::In
        && location != KeyLocation::Claim
        && is_refused(&key, &values, requester, ctx);
    let requested =
        Requested { requester, key: &key, excluded: operator == Operator::NotIn, refused, values };
    visit(&requested, ctx);
}

/// Whether Karpenter rejects the requirement for these values. As for capacity types, one valid value is
/// enough. Karpenter does not schedule pods that run on all nodes.
fn is_refused(key: &str, values: &[Node<'_>], requester: Requester, ctx: &Context<'_>) -> bool {
    let valid = |v: &Node<'_>| {
        let known = catalog::values(TENANCY);
        v.text().is_none_or(|t| known.is_some_and(|k| k.contains(t)))
    };
    key == TENANCY
        && requester != Requester::Followers
        && ctx.platform().karpenter >= Version::new(1, 9)
        && !values.iter().any(valid)
}

/// The name of a label without its domain.
pub(super) fn short_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
