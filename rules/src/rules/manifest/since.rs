//! Fields and values that a version of Karpenter, KEDA or Kubernetes added or removed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::facts::table;
use crate::karpenter::minors;
use crate::karpenter::minors::CrdFact;
use crate::platform::VersionRange;
use crate::rules::prelude::*;
use crate::schema;
use crate::schema::{LengthUnit, Violation, ViolationKind};

/// A field, or some of its values, and the versions that have them.
pub(super) struct Since {
    kind: Kind,
    /// Steps of the path; `*` is each item of a list.
    pub(super) path: Vec<&'static str>,
    /// Empty: the field itself.
    pub(super) values: Vec<&'static str>,
    pub(super) product: &'static str,
    pub(super) range: VersionRange,
}

const TABLES: [&str; 2] = [include_str!("since.tsv"), include_str!("since-keda.tsv")];

/// The rows by kind, of which there are few: most objects are of none.
static TABLE: LazyLock<BTreeMap<Kind, Vec<Since>>> = LazyLock::new(|| {
    let written = TABLES.iter().flat_map(|text| table::read(text, row));
    let mut by_kind: BTreeMap<Kind, Vec<Since>> = BTreeMap::new();
    for row in written.chain(minors::crd_facts().iter().filter_map(of_karpenter)) {
        by_kind.entry(row.kind).or_default().push(row);
    }
    by_kind
});

/// A field or an enum value of Karpenter's CRDs that came after the oldest version. A new kind is reported at its
/// `apiVersion`.
fn of_karpenter(fact: &'static CrdFact) -> Option<Since> {
    let kinds = [Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::NODE_OVERLAY, Kind::EC2_NODE_CLASS];
    fact.range.since?;
    let values = match fact.fact {
        "field" if fact.path != "spec" && !fact.path.ends_with('*') => Vec::new(),
        "enum" => vec![fact.value],
        _ => return None,
    };
    Some(Since {
        kind: kinds.into_iter().find(|kind| kind.kind == fact.kind)?,
        path: fact.path.split('/').collect(),
        values,
        product: Product::Karpenter.name(),
        range: VersionRange { until: None, ..fact.range },
    })
}

fn row([kind, path, values, product, since, until]: [&'static str; 6]) -> Option<Since> {
    let (group, kind) = kind.split_once('/')?;
    let path = path.split('/').collect();
    let values = values.split(',').filter(|value| *value != "-").collect();
    let range = VersionRange::parse(since, until)?;
    Some(Since { kind: Kind::new(group, kind), path, values, product, range })
}

/// The rows of an object's kind.
pub(super) fn rows(object: &Object) -> impl Iterator<Item = &'static Since> {
    TABLE.iter().filter(|(kind, _)| object.is(**kind)).flat_map(|(_, rows)| rows)
}

/// Whether the installed version of KEDA has a field or a value that the newest one no longer has. A definition of the user has
/// no history.
pub(super) fn is_of_older_keda(object: &Object, pointer: &Pointer, ctx: &Context<'_>) -> bool {
    let platform = ctx.platform();
    !schema::is_defined(object, ctx.definitions())
        && rows(object).filter(|row| row.product == "KEDA").any(|row| {
            row.range.until.is_some_and(|last| platform.keda <= last)
                && row.leads_to(pointer)
                && (row.values.is_empty()
                    || object.root().at(pointer).text().is_some_and(|v| row.values.contains(&v)))
        })
}

/// The first version of KEDA that has a bound which a value violates, if the installed version has no such bound. What a
/// definition of the user bounds, the cluster rejects.
pub(super) fn bounded_later(object: &Object, violation: &Violation, ctx: &Context<'_>) -> Option<Version> {
    if schema::is_defined(object, ctx.definitions()) {
        return None;
    }
    let bound = match &violation.kind {
        ViolationKind::Enum { .. } => "(enum)",
        ViolationKind::Range { lower: true, limit, .. } if *limit != i32::MIN.to_string() => "(minimum)",
        ViolationKind::Count { of: LengthUnit::Items, lower: true, .. } => "(minItems)",
        ViolationKind::Count { lower: true, .. } => "(minLength)",
        _ => return None,
    };
    let row = rows(object).find(|row| row.values == [bound] && row.leads_to(&violation.pointer))?;
    row.range.since.filter(|first| ctx.platform().keda < *first)
}

impl Since {
    fn leads_to(&self, pointer: &Pointer) -> bool {
        let steps = pointer.steps();
        steps.len() == self.path.len()
            && steps.iter().zip(&self.path).all(|(step, wanted)| *wanted == "*" || step == wanted)
    }

    /// The nodes of an object that the row is about.
    pub(super) fn nodes<'a>(&self, object: &'a Object) -> Vec<Node<'a>> {
        let mut nodes = Vec::new();
        find(&object.root(), &self.path, &mut nodes);
        nodes
    }
}

/// The existing nodes that a path leads to.
fn find<'a>(node: &Node<'a>, path: &[&str], out: &mut Vec<Node<'a>>) {
    match path.split_first() {
        None if node.is_set() => out.push(node.clone()),
        None => {}
        Some((&"*", rest)) => node.items().for_each(|item| find(&item, rest, out)),
        Some((step, rest)) => find(&node.get(step), rest, out),
    }
}

#[cfg(test)]
mod tests {
    use super::{TABLE, VersionRange, minors, of_karpenter};

    #[test]
    fn every_row_has_a_version() {
        let of_karpenter = minors::crd_facts().iter().filter_map(of_karpenter).count();
        assert!(of_karpenter > 15, "{of_karpenter}");
        assert!(TABLE.values().flatten().all(|row| row.range != VersionRange::default()));
    }
}
