//! Findings that a rule makes without reading other objects are valid in any cluster, so the admission server
//! caches them.

use gpulint_rules::{Cluster, Engine, Object, Settings};
use gpulint_testing::{children, fixtures, sampled, values, yaml_below};

#[test]
fn findings_that_rest_on_no_other_object_are_the_same_beside_any_others() {
    let engine = Engine::new(Settings::default());
    let (mut alone, mut beside) = (0, 0);
    for folder in children(&fixtures().join("rules")) {
        let files =
            sampled(yaml_below(&folder)).into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
        let objects: Vec<Object> =
            files.flat_map(|text| values(&text)).filter_map(|value| Object::from_json(&value)).collect();
        for complete in [false, true] {
            let empty = Cluster::new(complete);
            let mut full = Cluster::new(complete);
            objects.iter().for_each(|object| full.apply(object.clone()));
            for object in &objects {
                let (report, reads) = engine.review_object_with_reads(object, &empty, true);
                if reads {
                    beside += 1;
                    continue;
                }
                alone += 1;
                let (other, other_reads) = engine.review_object_with_reads(object, &full, true);
                let said = |report: &gpulint_rules::CheckReport| {
                    let findings = report.findings.iter();
                    findings.map(|f| (f.rule.id, f.identity(), f.message.clone())).collect::<Vec<_>>()
                };
                assert_eq!(said(&report), said(&other), "{}: {}", folder.display(), object.display_name());
                assert!(!other_reads, "{}: {}", folder.display(), object.display_name());
            }
        }
    }
    assert!(alone > 100 && beside > 100, "{alone} {beside}");
}
