//! The imports between the modules of a crate, for tests of its layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// A module of a crate: its path below the crate's root. The root itself is empty.
type Module = Vec<String>;

/// The modules of a crate, without test code, and the modules that each imports.
#[derive(Debug)]
pub struct Imports {
    graph: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Reads the sources of a crate below a folder, which is named from the root of the repository on.
    pub fn of(folder: &str) -> Imports {
        let root = crate::walk::root().join(folder);
        let mut files: BTreeMap<Module, PathBuf> = BTreeMap::new();
        collect(&root, &mut Vec::new(), &mut files);
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        let items: BTreeMap<Module, Vec<(Vec<String>, bool)>> = (files.iter())
            .map(|(module, path)| {
                let text = fs::read_to_string(path).expect("a source file can be read");
                (module.clone(), paths(&code(&text), module, &modules))
            })
            .collect();
        let defined = defined(&items);
        let graph = items.into_iter().map(|(module, paths)| {
            let targets = paths.into_iter().filter_map(|(mut path, is_public)| {
                for _ in 0..4 {
                    match defined.get(&path) {
                        Some(original) => path.clone_from(original),
                        None => break,
                    }
                }
                let target = owner(&path, &modules)?;
                // A module's own children, re-exported, are part of it.
                let is_own_child = is_public && target.starts_with(&module);
                (target != module && !target.is_empty() && !is_own_child).then_some(target)
            });
            let targets = targets.collect();
            (module, targets)
        });
        Imports { graph: graph.collect() }
    }

    /// The number of modules.
    pub fn count(&self) -> usize {
        self.graph.len()
    }

    /// The violations of a list of layers, the lowest first, each with its rooms (top-level modules): imports
    /// from a higher layer, rooms that are not in the list, and rooms of the list that do not exist.
    pub fn contradictions(&self, layers: &[&[&str]]) -> Vec<String> {
        let layer = |module: &Module| layers.iter().position(|rooms| rooms.contains(&module[0].as_str()));
        let modules = || self.graph.iter().filter(|(module, _)| !module.is_empty());
        let rooms: BTreeSet<&str> = modules().map(|(module, _)| module[0].as_str()).collect();
        let listed = layers.concat();
        let unlisted = rooms.iter().filter(|room| !listed.contains(room));
        let mut wrong: Vec<String> = unlisted.map(|room| format!("{room} stands in no layer")).collect();
        let gone = listed.iter().filter(|room| !rooms.contains(*room));
        wrong.extend(gone.map(|room| format!("{room} stands in a layer, but does not exist")));
        for (module, targets) in modules() {
            let up = targets.iter().filter(|target| layer(module) < layer(target));
            wrong.extend(up.map(|target| format!("{} imports {}", name(module), name(target))));
        }
        wrong
    }

    /// The import cycles: the strongly connected components with more than one module.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.graph.keys().map(|module| (module, self.reach(module))).collect();
        let mut out: Vec<Vec<&Module>> = Vec::new();
        for (module, reaches) in &reached {
            if !reaches.contains(module) || out.iter().any(|circle| circle.contains(module)) {
                continue;
            }
            let back = |m: &&&Module| reached.get(**m).is_some_and(|r| r.contains(module));
            out.push(reaches.iter().filter(back).copied().collect());
        }
        out.iter().map(|circle| circle.iter().map(|module| name(module)).collect()).collect()
    }

    fn reach(&self, from: &Module) -> BTreeSet<&Module> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            for to in self.graph.get(next).into_iter().flatten() {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen
    }
}

fn name(module: &Module) -> String {
    module.join("/")
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    for path in crate::walk::children(folder) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
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

/// The module that defines each item that another module re-exports.
fn defined(items: &BTreeMap<Module, Vec<(Vec<String>, bool)>>) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut defined = BTreeMap::new();
    for (module, paths) in items {
        for (path, _) in paths.iter().filter(|(_, is_public)| *is_public) {
            let Some(name) = path.last() else { continue };
            let exported = [module.as_slice(), std::slice::from_ref(name)].concat();
            if exported != *path {
                defined.insert(exported, path.clone());
            }
        }
    }
    defined
}

/// Builds a pattern once, because without optimizations this takes longer than everything else.
macro_rules! pattern {
    ($pattern:literal) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("it is valid"));
        &*PATTERN
    }};
}

/// The text without comments, strings and inline test modules.
fn code(text: &str) -> String {
    let tests = pattern!(r"(?s)#\[cfg\(test\)\]\n(?:#\[(?:allow|expect)[^\n]*\n)?mod tests \{.*");
    let text = &tests.replace(text, "");
    let comments = pattern!(r"(?m)//.*$");
    let strings = pattern!(r#""(?:\\.|[^"\\])*""#);
    strings.replace_all(&comments.replace_all(text, ""), "\"\"").into_owned()
}

/// The absolute path of every item of the crate that the code names, and whether it is re-exported.
fn paths(code: &str, module: &Module, modules: &BTreeSet<Module>) -> Vec<(Vec<String>, bool)> {
    let uses = pattern!(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);");
    let inline = pattern!(r"\b(?:crate|super|self)(?:::\w+)+");
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
        parts.last_mut().expect("there is one").push(c);
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
