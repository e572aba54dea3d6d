//! Findings on two objects are found from either side: a review of one of them has the finding that its rule has on the
//! other one.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, File, Finding, Object, Settings, Severity, find_rule};
use gpulint_testing::{fixtures, is_full, relative, sampled, yaml_below};

/// Rules that name another object in an error for which they are not asked from its side, with the reason.
const ONE_SIDED: [(&str, &str); 7] = [
    ("gpu-process-count", "names the runtime that completes a workload, which cannot start without it"),
    ("gpu-count-unsatisfiable", "names any object of Karpenter, as evidence that the cluster runs it"),
    ("gpu-resource-not-provisioned", "names any object of Karpenter, as evidence that the cluster runs it"),
    ("interceptor-bypassed", "the HTTPScaledObject is right; the route has to change"),
    ("kubelet-reserves-nodes", "the pool is right; the class has to change"),
    ("limit-range-rejects", "a LimitRange does not change the pods that are there"),
    ("pod-security-rejects", "the level of a namespace does not change the pods that are there"),
];

/// The objects of a fixture as the API server has them: without files.
fn objects(path: &std::path::Path) -> Vec<Object> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let file = File::read(Source::from_text(&relative(path), &text));
    file.objects.iter().filter_map(|object| Object::from_json(&object.root().to_json())).collect()
}

fn names(finding: &Finding, object: &Object) -> bool {
    let mut others = finding.related.iter().filter_map(|related| related.location.object());
    others.any(|other| other.is_same_resource(object))
}

/// The objects that an error names, other than its own.
fn named<'o>(finding: &Finding, objects: &'o [Object]) -> Vec<&'o Object> {
    let own = finding.location.object();
    let is_other = |object: &&Object| !own.is_some_and(|own| own.is_same_resource(object));
    objects.iter().filter(is_other).filter(|object| names(finding, object)).collect()
}

#[test]
fn a_finding_on_two_objects_is_found_from_either_side() {
    let engine = Engine::new(Settings { complete: true, ..Settings::default() });
    let mut pairs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missed: Vec<String> = Vec::new();
    let mut needed = BTreeSet::new();
    let rules = sampled(yaml_below(&fixtures().join("rules")));
    for path in rules.into_iter().chain(yaml_below(&fixtures().join("verdicts"))) {
        let objects = objects(&path);
        if !(2..=20).contains(&objects.len()) {
            continue;
        }
        let mut cluster = Cluster::new(true);
        objects.iter().for_each(|object| cluster.apply(object.clone()));
        for object in &objects {
            let report = engine.review_object(object, &cluster);
            let own = report.findings.iter().filter(|f| f.severity == Severity::Error && !f.from_partner);
            for finding in own.filter(|f| !f.reports_absence) {
                for other in named(finding, &objects) {
                    let rule = finding.rule.id;
                    *pairs.entry(rule).or_default() += 1;
                    // The other one is new, and the cluster does not have it.
                    let mut before = Cluster::new(true);
                    let rest = objects.iter().filter(|object| !object.is_same_resource(other));
                    rest.for_each(|object| before.apply(object.clone()));
                    for cluster in [&cluster, &before] {
                        let found = engine.review_object(other, cluster).findings;
                        if found.iter().any(|f| f.rule.id == rule && names(f, object)) {
                            continue;
                        }
                        if ONE_SIDED.iter().any(|(id, _)| *id == rule) {
                            needed.insert(rule);
                        } else {
                            missed.push(format!("{rule}: {} of {}", other.display_name(), relative(&path)));
                        }
                    }
                }
            }
        }
    }
    assert!(pairs.len() >= 4, "{pairs:?}");
    assert!(missed.is_empty(), "{pairs:?}\n{}", missed.join("\n"));
    let is_needed = |id: &str| if is_full() { needed.contains(id) } else { find_rule(id).is_some() };
    let unneeded: Vec<_> = ONE_SIDED.iter().filter(|(id, _)| !is_needed(id)).collect();
    assert!(unneeded.is_empty(), "found from either side: {unneeded:?}");
}
