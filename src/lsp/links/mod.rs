//! Definitions and references: from a name to the object that has it, and back.
//!
//! A reference is a field of an object that names another one ([`names`]), or a selector of pods. Both are
//! resolved in each set that the file is applied with, in the same way as rules do it. Each location is
//! returned once.

mod names;
#[cfg(test)]
mod tests;

use gpulint_rules::kind::{Kind, WORKLOAD_KINDS};
use gpulint_rules::workload::template::templates;
use gpulint_rules::{Cluster, Location, Object, Pointer};

use crate::lsp::view::View;
use names::Reference;

/// The locations of the names of the objects that are named or selected at an offset.
pub(crate) fn definition(view: &View<'_>, offset: u32) -> Vec<Location> {
    let Some(spot) = view.at(offset) else {
        return Vec::new();
    };
    let at = spot.node.pointer();
    let mut out = Vec::new();
    for set in &view.sets {
        let object = applied(set.cluster, spot.object);
        out.extend(targets_at(set.cluster, object, &at).into_iter().map(declaration));
    }
    in_order(out)
}

/// The locations that refer to the object whose name is at an offset, or that is named there.
pub(crate) fn references(view: &View<'_>, offset: u32, with_declaration: bool) -> Vec<Location> {
    let Some(spot) = view.at(offset) else {
        return Vec::new();
    };
    let at = spot.node.pointer();
    let mut out = Vec::new();
    for set in &view.sets {
        let object = applied(set.cluster, spot.object);
        let targets = match is_name(&at) {
            true => vec![object],
            false => targets_at(set.cluster, object, &at),
        };
        for target in targets {
            if with_declaration {
                out.push(declaration(target));
            }
            out.extend(referring_to(set.cluster, target));
        }
    }
    in_order(out)
}

fn is_name(at: &Pointer) -> bool {
    at.steps() == ["metadata", "name"] || at.steps() == ["metadata", "generateName"]
}

fn applied<'c>(cluster: &'c Cluster, written: &'c Object) -> &'c Object {
    let id = written.id();
    let mut named = cluster.named(&id.group, &id.kind, written.name()).flatten();
    named.find(|object| object.is_same_manifest(written)).unwrap_or(written)
}

fn declaration(object: &Object) -> Location {
    let name = object.path(&["metadata", "name"]);
    let name = if name.is_absent() { object.path(&["metadata", "generateName"]) } else { name };
    Location::of(object, &name)
}

/// The objects that are named or selected at a field of an object.
fn targets_at<'c>(cluster: &'c Cluster, object: &'c Object, at: &Pointer) -> Vec<&'c Object> {
    let steps = at.steps();
    if steps.starts_with(&["spec".to_owned(), "selector".to_owned()]) {
        return selected(cluster, object);
    }
    let is_at = |pointer: Pointer| steps.starts_with(pointer.steps());
    let references = names::of(object);
    // Prefer the name itself to the block that contains it.
    let exact = references.iter().filter(|reference| reference.node.pointer() == *at);
    let exact: Vec<&Reference<'_>> = exact.collect();
    let chosen = match exact.is_empty() {
        true => references.iter().filter(|reference| is_at(reference.block.pointer())).collect(),
        false => exact,
    };
    chosen.into_iter().flat_map(|reference| resolve(cluster, object, reference)).collect()
}

/// The workloads whose pods a PodDisruptionBudget or a Service selects.
fn selected<'c>(cluster: &'c Cluster, owner: &'c Object) -> Vec<&'c Object> {
    let (workloads, _) = if owner.is(Kind::PDB) {
        cluster.views().selected_by(owner)
    } else if owner.is(Kind::SERVICE) {
        cluster.views().selected_by_service(owner)
    } else {
        return Vec::new();
    };
    workloads.into_iter().map(|workload| &workload.object).collect()
}

/// The objects that a reference names. If several have the name, those that are certainly in one cluster with
/// the owner of the reference, if there are any.
fn resolve<'c>(cluster: &'c Cluster, owner: &Object, reference: &Reference<'_>) -> Vec<&'c Object> {
    let all = cluster.all(&reference.group, &reference.kind, &reference.namespace, &reference.name);
    let near: Vec<&Object> = all.iter().filter(|object| cluster.pairs(owner, object)).collect();
    if near.is_empty() { all.iter().collect() } else { near }
}

/// The locations in a set that name or select an object.
fn referring_to(cluster: &Cluster, target: &Object) -> Vec<Location> {
    let mut out = Vec::new();
    let mut add = |object: &Object| {
        for reference in names::of(object) {
            let is_meant =
                resolve(cluster, object, &reference).iter().any(|found| found.is_same_manifest(target));
            if is_meant {
                out.push(Location::of(object, &reference.node));
            }
        }
    };
    if target.is(Kind::NAMESPACE) {
        cluster.objects().iter().for_each(&mut add);
    }
    for kind in names::kinds_that_name(target) {
        cluster.of(*kind).for_each(&mut add);
    }
    let is_workload = WORKLOAD_KINDS.iter().any(|kind| target.is(*kind));
    if is_workload {
        out.extend(selecting(cluster, target));
    }
    out
}

/// The selectors of PodDisruptionBudgets and Services that select the pods of a workload.
fn selecting(cluster: &Cluster, workload: &Object) -> Vec<Location> {
    let namespace = workload.id().namespace_or_default();
    let mut out = Vec::new();
    for template in templates(workload) {
        let (pdbs, _) = cluster.views().pdbs_of(namespace, &template);
        let services = cluster.views().services_of(namespace, &template);
        let here = pdbs.into_iter().chain(services).filter(|owner| cluster.pairs(workload, owner));
        out.extend(here.map(|owner| Location::of(owner, &owner.path(&["spec", "selector"]))));
    }
    out
}

/// Sorts locations by file and position, and removes duplicates.
fn in_order(locations: Vec<Location>) -> Vec<Location> {
    let key = |location: &Location| {
        let (source, _, span) = location.resolve_span()?;
        Some((source.path().to_owned(), span.start, span.end))
    };
    let mut keyed: Vec<_> =
        locations.into_iter().filter_map(|location| Some((key(&location)?, location))).collect();
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.dedup_by(|(a, _), (b, _)| a == b);
    keyed.into_iter().map(|(_, location)| location).collect()
}
