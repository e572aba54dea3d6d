//! The layers of `rules/src`: a file may import from its own layer and from those below it.

use std::collections::BTreeSet;

use gpulint_testing::Imports;

/// The rooms (top-level modules), lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["steps"],
    &["tree"],
    &["source", "catalog", "facts", "platform", "cel"],
    &["kind", "object", "file"],
    &["workload", "keda", "karpenter", "promql"],
    &["cluster"],
    &["fit"],
    &["plan"],
    &["lint"],
    &["schema", "migration"],
    &["rules"],
    &["workspace"],
];

/// Maximum number of files in an import cycle within one room.
const MAX_CIRCLE: usize = 8;

#[test]
fn nothing_imports_from_a_layer_above() {
    let imports = Imports::of("rules/src");
    assert!(imports.count() > 200, "{} modules were found", imports.count());
    let wrong = imports.contradictions(LAYERS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_stay_within_a_room() {
    for circle in Imports::of("rules/src").circles() {
        assert!(circle.len() <= MAX_CIRCLE, "a circle of {}: {}", circle.len(), circle.join(" "));
        let rooms: BTreeSet<&str> = circle.iter().filter_map(|module| module.split('/').next()).collect();
        assert_eq!(rooms.len(), 1, "a circle over rooms: {}", circle.join(" "));
    }
}
