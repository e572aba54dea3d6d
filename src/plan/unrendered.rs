//! What is not compared because no program renders it: what charts and kustomizations give.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::{Kind, Object, ObjectKey, application_sources, pins_of};
use serde_json::Value;

use crate::judge::{Judged, JudgedSet, Unrendered};

use super::pairs::Pair;

/// A chart that K3s or RKE2 installs.
const HELM_CHART: Kind = Kind::new("helm.cattle.io", "HelmChart");

/// The files of charts, kustomizations and patches that differ, those of Terraform and templates, and the objects that install
/// charts and differ; each with whether helm or kustomize reads it. The charts of products whose versions are compared are left
/// out.
pub(super) fn uncompared(before: &Judged, after: &Judged, pairs: &[Pair]) -> Vec<(String, bool)> {
    let differs =
        |(path, _): &(&String, &Unrendered)| before.unrendered.get(*path) != after.unrendered.get(*path);
    let files: BTreeMap<&String, &Unrendered> =
        before.unrendered.iter().chain(&after.unrendered).filter(differs).collect();
    let mut all: Vec<(String, bool)> =
        files.into_iter().map(|(path, one)| (path.clone(), one.is_renderable)).collect();
    for (old, new) in pairs {
        let old = releases(old.map(|at| &before.sets[at]));
        let new = releases(new.map(|at| &after.sets[at]));
        let keys: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).collect();
        for key in keys.into_iter().filter(|key| old.get(*key) != new.get(*key)) {
            let (_, kind, _, name) = key;
            let one = (format!("{kind} {name}"), true);
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

/// The objects of a set that install charts, with what they ask for.
fn releases(set: Option<&JudgedSet>) -> BTreeMap<ObjectKey, Value> {
    let objects = set.map_or(&[][..], |set| set.cluster.objects());
    let all = objects.iter().filter(|object| installs_chart(object));
    all.map(|object| (object.id().key(), object.get("spec").to_json())).collect()
}

fn installs_chart(object: &Object) -> bool {
    let of_application =
        || application_sources(object).any(|one| one.get("chart").is_set() || one.get("helm").is_set());
    let is_application = object.is(Kind::ARGO_APPLICATION) || object.is(Kind::ARGO_APPLICATION_SET);
    let is_release =
        object.is(Kind::HELM_RELEASE) || object.is(HELM_CHART) || is_application && of_application();
    let pins_product = || {
        let mut is_any = false;
        pins_of(&object.root(), "", &mut |_, _, _| is_any = true);
        is_any
    };
    is_release && !pins_product()
}
