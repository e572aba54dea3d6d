//! The layers of the engine: a file may import from its own layer and from those below it. What is in `rules/reader/src` lies
//! below all of `rules/src`, which cargo enforces.

use std::collections::BTreeSet;

use gpulint_testing::Imports;

/// The rooms (top-level modules) of `rules/reader/src`, lowest layer first.
const READER: &[&[&str]] = &[&["steps"], &["tree"], &["source", "facts", "platform"]];

/// The rooms of `rules/src`, lowest layer first.
const ENGINE: &[&[&str]] = &[
    &["catalog", "cel"],
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

/// The folders with the layers of each, and the minimum number of its modules.
const FOLDERS: [(&str, &[&[&str]], usize); 2] =
    [("rules/reader/src", READER, 30), ("rules/src", ENGINE, 200)];

#[test]
fn nothing_imports_from_a_layer_above() {
    for (folder, layers, modules) in FOLDERS {
        let imports = Imports::of(folder);
        assert!(imports.count() > modules, "{folder}: {} modules were found", imports.count());
        let wrong = imports.contradictions(layers);
        assert!(wrong.is_empty(), "{folder}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn circles_stay_within_a_room() {
    for circle in FOLDERS.iter().flat_map(|(folder, ..)| Imports::of(folder).circles()) {
        assert!(circle.len() <= MAX_CIRCLE, "a circle of {}: {}", circle.len(), circle.join(" "));
        let rooms: BTreeSet<&str> = circle.iter().filter_map(|module| module.split('/').next()).collect();
        assert_eq!(rooms.len(), 1, "a circle over rooms: {}", circle.join(" "));
    }
}
