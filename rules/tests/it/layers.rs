//! The layers of `rules/src`, written down once, and held: a file imports from its own layer and from those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The rooms (top-level modules), lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["steps"],
    &["tree"],
    &["source", "catalog", "facts", "platform", "cel"],
    &["kind", "object", "file"],
    &["workload", "keda", "karpenter", "promql"],
    &["cluster"],
    &["fit"],
    &["lint"],
    &["schema", "migration"],
    &["rules"],
    &["workspace"],
];

/// Modules of one room may import each other in a circle of at most this many files.
const MAX_CIRCLE: usize = 8;

/// A module of a crate: its path below the crate's root, without test code.
type Module = Vec<String>;

/// The modules of a crate with the modules that each imports.
fn imports(root: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files: BTreeMap<Module, PathBuf> = BTreeMap::new();
    collect(root, &mut Vec::new(), &mut files);
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let mut items: BTreeMap<Module, Vec<(Vec<String>, bool)>> = BTreeMap::new();
    for (module, path) in &files {
        let text = fs::read_to_string(path).unwrap();
        items.insert(module.clone(), paths(&code(&text), module, &modules));
    }
    // What a module re-exports is imported from where it is defined.
    let mut defined: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (module, paths) in &items {
        for (path, is_public) in paths {
            if *is_public && let Some(name) = path.last() {
                let mut exported = module.clone();
                exported.push(name.clone());
                if exported != *path {
                    defined.insert(exported, path.clone());
                }
            }
        }
    }
    let mut out = BTreeMap::new();
    for (module, paths) in items {
        let mut to = BTreeSet::new();
        for (mut path, is_public) in paths {
            for _ in 0..4 {
                match defined.get(&path) {
                    Some(original) => path = original.clone(),
                    None => break,
                }
            }
            let Some(target) = owner(&path, &modules) else { continue };
            // A module's own children, re-exported, are part of it.
            let is_own_child = is_public && target.starts_with(&module);
            if target != module && !target.is_empty() && !is_own_child {
                to.insert(target);
            }
        }
        out.insert(module, to);
    }
    out
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(name);
            collect(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|e| e == "rs") && name != "tests" {
            let mut own = module.clone();
            if !["mod", "lib", "main"].contains(&name.as_str()) {
                own.push(name);
            }
            if !own.iter().any(|part| part == "tests") {
                files.insert(own, path);
            }
        }
    }
}

/// The text without comments, strings and inline test modules.
fn code(text: &str) -> String {
    let tests = Regex::new(r"(?s)#\[cfg\(test\)\]\n(?:#\[allow[^\n]*\n)?mod tests \{.*").unwrap();
    let text = &tests.replace(text, "");
    let comments = Regex::new(r"(?m)//.*$").unwrap();
    let strings = Regex::new(r#""(?:\\.|[^"\\])*""#).unwrap();
    strings.replace_all(&comments.replace_all(text, ""), "\"\"").into_owned()
}

/// Every path of the crate that the code names, absolute, with whether it is re-exported.
fn paths(code: &str, module: &Module, modules: &BTreeSet<Module>) -> Vec<(Vec<String>, bool)> {
    let uses = Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap();
    let inline = Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").unwrap();
    let mut out = Vec::new();
    for found in uses.captures_iter(code) {
        for path in flatten(&found[2]) {
            out.extend(absolute(&path, module, modules).map(|path| (path, found.get(1).is_some())));
        }
    }
    for found in inline.find_iter(&uses.replace_all(code, "")) {
        out.extend(absolute(found.as_str(), module, modules).map(|path| (path, false)));
    }
    out
}

/// The leaves of a use tree: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn flatten(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let (prefix, body) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in body.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| flatten(&format!("{prefix}{}", part.trim()))).collect()
}

fn absolute(path: &str, module: &Module, modules: &BTreeSet<Module>) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
    let mut base = match parts.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.clone(),
        child => {
            let mut path = module.clone();
            path.push(child.to_owned());
            return modules.contains(&path).then(|| [module.clone(), parts].concat());
        }
    };
    if parts[0] != "super" {
        parts.remove(0);
    }
    while parts.first().is_some_and(|part| part == "super") {
        parts.remove(0);
        base.pop();
    }
    Some([base, parts].concat()).filter(|path| path.last().is_some_and(|part| part != "self"))
}

/// The longest prefix of a path that is a module.
fn owner(path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(|prefix| modules.contains(prefix))
}

/// The circles of an import graph: its strongly connected components of more than one module.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reach = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(next) = open.pop() {
            for to in graph.get(&next).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = graph.keys().map(|m| (m, reach(m))).collect();
    let mut out: Vec<Vec<Module>> = Vec::new();
    for (module, reaches) in &reached {
        if !reaches.contains(*module) || out.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let back = |m: &&Module| reached.get(*m).is_some_and(|r| r.contains(*module));
        out.push(reaches.iter().filter(back).cloned().collect());
    }
    out
}

fn name(module: &Module) -> String {
    module.join("/")
}

fn layer(module: &Module) -> usize {
    let room = &module[0];
    let found = LAYERS.iter().position(|rooms| rooms.contains(&room.as_str()));
    found.unwrap_or_else(|| panic!("{room} stands in no layer: add it to LAYERS"))
}

fn crate_root(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

#[test]
fn nothing_imports_from_a_layer_above() {
    let graph = imports(&crate_root("rules/src"));
    assert!(graph.len() > 200, "{} modules were found", graph.len());
    let mut wrong = Vec::new();
    for (module, targets) in graph.iter().filter(|(module, _)| !module.is_empty()) {
        for target in targets.iter().filter(|target| layer(module) < layer(target)) {
            wrong.push(format!("{} imports {}", name(module), name(target)));
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

#[test]
fn circles_stay_within_a_room() {
    for circle in circles(&imports(&crate_root("rules/src"))) {
        let names: Vec<String> = circle.iter().map(name).collect();
        assert!(circle.len() <= MAX_CIRCLE, "a circle of {}: {}", circle.len(), names.join(" "));
        let rooms: BTreeSet<&String> = circle.iter().map(|module| &module[0]).collect();
        assert_eq!(rooms.len(), 1, "a circle over rooms: {}", names.join(" "));
    }
}

#[test]
fn the_front_ends_have_no_circle() {
    for folder in ["src", "webhook/src"] {
        let found = circles(&imports(&crate_root(folder)));
        let names: Vec<Vec<String>> = found.iter().map(|circle| circle.iter().map(name).collect()).collect();
        assert!(names.is_empty(), "{folder}: {names:?}");
    }
}
