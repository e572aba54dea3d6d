//! The extension for VS Code, as far as its files tell; `tests/package/run vscode` builds and tests it.

use std::fs;
use std::path::Path;

use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn package() -> Value {
    serde_json::from_str(&read("editors/vscode/package.json")).unwrap()
}

#[test]
fn it_has_the_version_of_gpulint() {
    let lock: Value = serde_json::from_str(&read("editors/vscode/package-lock.json")).unwrap();
    for version in [&package()["version"], &lock["version"], &lock["packages"][""]["version"]] {
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}

/// The table of the README has every setting with its default, in order, and nothing else.
#[test]
fn its_settings_are_in_the_readme() {
    let package = package();
    let settings = package["contributes"]["configuration"]["properties"].as_object().unwrap();
    let expected: Vec<(String, String)> = settings
        .iter()
        .map(|(name, setting)| {
            let default = match &setting["default"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (format!("`{name}`"), if default.is_empty() { default } else { format!("`{default}`") })
        })
        .collect();
    let readme = read("editors/vscode/README.md");
    let rows: Vec<(String, String)> = readme
        .lines()
        .filter(|line| line.starts_with("| `gpulint."))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].to_owned(), cells[2].to_owned())
        })
        .collect();
    assert_eq!(rows, expected);
}

/// A lock file with addresses works with one registry only.
#[test]
fn lock_files_name_no_registry() {
    for path in ["editors/vscode/package-lock.json", "tests/editors/package-lock.json"] {
        let lock: Value = serde_json::from_str(&read(path)).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap() {
            assert!(package.get("resolved").is_none(), "{path}: {name}");
            assert!(name.is_empty() || package.get("integrity").is_some(), "{path}: {name} has no checksum");
        }
    }
}
