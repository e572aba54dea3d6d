//! The identity of a finding, and the objects that it depends on. The admission webhook uses both to decide
//! what to deny.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpulint_rules::file::File;
use gpulint_rules::source::Source;
use gpulint_rules::{Engine, Finding, Identity, Object, Settings};
use gpulint_testing::{cluster, fixtures, is_full, lot, objects, relative, sampled, yaml_below};

/// The inputs of the fixtures: one file each, or all files of a folder.
fn inputs() -> BTreeMap<String, Vec<Object>> {
    let mut out: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    for folder in ["rules", "practices", "practices-repaired", "sets", "invalid"] {
        for path in sampled(yaml_below(&fixtures().join(folder))) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let of = if folder == "sets" { path.parent().unwrap_or(&path) } else { &path };
            out.entry(relative(of)).or_default().extend(objects(&text));
        }
    }
    out
}

/// The rule whose findings do not depend on one specific object: any NodePool, or any pod that names its
/// labels, shows that Karpenter starts the nodes.
const RESTS_ON_NO_ONE: &str = "tolerates-disruption-taint";

fn names_another(finding: &Finding, object: &Object) -> bool {
    let mut others = finding.related.iter().filter_map(|related| related.location.object());
    others.any(|other| !other.is_same_resource(object))
}

/// The admission webhook reads the objects that a finding names before it denies a request. If a finding
/// depended on an object without naming it, the webhook would deny by a state that is some seconds old. Each input is asked as a
/// whole cluster or as a part of one; with `FULL` as both.
#[test]
fn a_finding_that_rests_on_another_object_names_it() {
    let mut unnamed = BTreeSet::new();
    let mut named = BTreeSet::new();
    for complete in [false, true] {
        let engine = Engine::new(Settings { complete, ..Settings::default() });
        let is_asked = |input: &str| is_full() || (lot(Path::new(input), 2) == 1) == complete;
        for (input, objects) in inputs().iter().filter(|(input, of)| of.len() > 1 && is_asked(input)) {
            let all = cluster(&engine, objects);
            for object in objects {
                let alone = cluster(&engine, [object]);
                let findings = engine.check_object(object, &alone);
                for finding in engine.check_object(object, &all) {
                    let rests_on_another =
                        !findings.iter().any(|other| other.identity() == finding.identity());
                    let id = finding.rule.id;
                    if !rests_on_another || finding.reports_absence || id == RESTS_ON_NO_ONE {
                        continue;
                    }
                    if names_another(&finding, object) {
                        named.insert(id);
                    } else {
                        unnamed.insert(format!("{id}: {} in {input}: {}", object.id().name, finding.message));
                    }
                }
            }
        }
    }
    println!("{} rules name what their findings rest on: {named:?}", named.len());
    assert!(unnamed.is_empty(), "{unnamed:#?}");
    assert!(named.len() > 10, "{named:?}");
}

fn identities(rule: &str, text: &str) -> Vec<Identity> {
    let engine = Engine::new(Settings::default());
    let file = File::read(Source::from_text("a.yaml", text));
    let cluster = cluster(&engine, &file.objects);
    let findings = engine.check_file(&file, &cluster).findings;
    findings.iter().filter(|finding| finding.rule.id == rule).map(Finding::identity).collect()
}

#[test]
fn keys_tell_findings_of_one_place_apart() {
    let scaler = |metadata: &str| {
        let text = format!(
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: a, namespace: b}}\nspec:\n  \
             scaleTargetRef: {{name: a}}\n  triggers:\n    - type: rabbitmq\n      metadata: {metadata}\n"
        );
        identities("keda-trigger-invalid", &text)
    };
    // Without the key, the finding can only point at the metadata.
    let both = scaler("{}");
    assert!(both.len() > 1, "{both:?}");
    assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), both.len(), "{both:?}");
    // The finding that was fixed differs from the one that remains.
    let one = scaler("{queueName: jobs}");
    assert!(one.len() < both.len() && one.iter().all(|identity| both.contains(identity)), "{one:?} {both:?}");
}

#[test]
fn a_repeated_key_is_told_by_its_way() {
    let pod = |first: &str, second: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, labels: {{{first}}}}}\nspec:\n  containers:\n    \
             - {{name: a, image: a, {second}}}\n"
        );
        identities("yaml-duplicate-key", &text)
    };
    let both = pod("x: a, x: b", "image: b");
    assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), 2, "{both:?}");
    assert_eq!(pod("x: a", "image: b"), both[1..]);
    assert_ne!(pod("y: a, y: b", "stdin: true"), both[..1]);
}
