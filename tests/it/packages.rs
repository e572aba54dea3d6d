//! Descriptors of package managers: what they name is what the release builds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use crate::support::Folder;

const DOWNLOADS: &str = "https://github.com/gpulint/gpulint/releases/download/";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

/// The archives of a release, by the targets that the workflow builds.
fn archives() -> BTreeSet<String> {
    let workflow = yaml(&text(".github/workflows/release.yml"));
    let targets = workflow["jobs"]["build"]["strategy"]["matrix"]["include"].as_array().unwrap().iter();
    let targets = targets.map(|one| one["target"].as_str().unwrap());
    targets
        .map(|target| match target.contains("-windows-") {
            true => format!("gpulint-{target}.zip"),
            false => format!("gpulint-{target}.tar.gz"),
        })
        .collect()
}

/// A checksum as a release has it, another one for each archive.
fn checksum(archive: &str) -> String {
    let sum = archive.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{sum:064x}")
}

/// The descriptors as a release writes them; `None` without Python.
fn filled() -> Option<Folder> {
    let sums: String = archives().iter().map(|name| format!("{}  {name}\n", checksum(name))).collect();
    let folder = Folder::new().with("SHA256SUMS", sums);
    if Command::new("python3").arg("--version").output().is_err() {
        gpulint_testing::missing("python3", "packages/fill is a script of Python");
        return None;
    }
    let mut command = Command::new(root().join("packages/fill"));
    command.args([env!("CARGO_PKG_VERSION"), "SHA256SUMS", "out"]).current_dir(&folder.0);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(folder)
}

#[test]
fn homebrew_and_krew_name_the_archives_of_the_release() {
    let Some(folder) = filled() else { return };
    let read = |file: &str| fs::read_to_string(folder.0.join("out").join(file)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let formula = read("homebrew/gpulint.rb");
    let pair = Regex::new(r#"url "([^"]+)"\s+sha256 "([^"]+)""#).unwrap();
    let pairs = pair.captures_iter(&formula).map(|found| (found[1].to_owned(), found[2].to_owned()));
    let krew = yaml(&read("krew/gpulint.yaml"));
    let platforms = krew["spec"]["platforms"].as_array().unwrap();
    let word = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    let all: Vec<(String, String)> =
        pairs.chain(platforms.iter().map(|one| (word(one, "uri"), word(one, "sha256")))).collect();
    let archives = archives();
    for (url, sum) in &all {
        let archive = url.strip_prefix(&format!("{DOWNLOADS}v{version}/")).unwrap();
        assert!(archives.contains(archive), "{archive}");
        assert_eq!(*sum, checksum(archive), "{archive}");
    }
    // Homebrew has no Windows.
    assert_eq!(all.len(), 2 * archives.len() - 1);
    assert_eq!(krew["metadata"]["name"], "gpulint");
    assert_eq!(krew["spec"]["version"], format!("v{version}"));
    for one in platforms {
        let is_windows = one["selector"]["matchLabels"]["os"] == "windows";
        assert_eq!(one["bin"], if is_windows { "gpulint.exe" } else { "gpulint" });
    }
    assert!(!formula.contains('@') && formula.contains(&format!("version \"{version}\"")), "{formula}");
}

#[test]
fn aqua_names_the_archives_of_the_release() {
    let registry = yaml(&text("packages/aqua/registry.yaml"));
    let package = &registry["packages"][0];
    let replaced = |word: &str| package["replacements"][word].as_str().unwrap().to_owned();
    let format = |os: &str| {
        let other = package["overrides"].as_array().unwrap().iter().find(|one| one["goos"] == os);
        other.map_or(&package["format"], |one| &one["format"]).as_str().unwrap().to_owned()
    };
    let environments = package["supported_envs"].as_array().unwrap().iter();
    let environments = environments.flat_map(|one| match one.as_str().unwrap().split_once('/') {
        Some((os, arch)) => vec![(os.to_owned(), arch.to_owned())],
        None => ["amd64", "arm64"].map(|arch| (one.as_str().unwrap().to_owned(), arch.to_owned())).into(),
    });
    let names: BTreeSet<String> = environments
        .map(|(os, arch)| {
            let name = package["asset"].as_str().unwrap().replace("{{.Arch}}", &replaced(&arch));
            name.replace("{{.OS}}", &replaced(&os)).replace("{{.Format}}", &format(&os))
        })
        .collect();
    assert_eq!(names, archives());
}

/// The editor that reads SchemaStore takes each file name that gpulint takes, and knows the keys.
#[test]
fn schemastore_knows_the_configuration() {
    let entry: Value = serde_json::from_str(&text("packages/schemastore/catalog.json")).unwrap();
    for name in entry["fileMatch"].as_array().unwrap() {
        let folder = Folder::new().with(name.as_str().unwrap(), "nonsense: 1\n");
        folder.run(&["check"]).exits(2).complains("nonsense");
    }
    let schema: Value = serde_json::from_str(&Folder::new().run(&["schema", "config"]).exits(0).out).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let configuration = yaml("fail-on: warning\nrules: {pdb-missing: off}\nignore: [vendor/]\n");
    assert!(validator.is_valid(&configuration));
    assert!(!validator.is_valid(&yaml("nonsense: 1\n")));
    let file = entry["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert!(text(".github/workflows/release.yml").contains(&format!("schema config > {file}")));
}

/// The commands that other programs run are commands of gpulint.
#[test]
fn the_commands_of_descriptors_work() {
    let folder = Folder::new().with("pool.yaml", text("fixtures/readme/1-untainted.yaml"));
    let plugin = yaml(&text("plugin.yaml"));
    let trunk = plugin["lint"]["definitions"][0]["commands"][0]["run"].as_str().unwrap().to_owned();
    let path = "packages/mega-linter-plugin-gpulint/gpulint.megalinter-descriptor.yml";
    let linter = yaml(&text(path))["linters"][0].clone();
    let words = |key: &str| {
        let words = linter[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
        words.collect::<Vec<String>>().join(" ")
    };
    let mega = format!("gpulint {} {}", words("cli_lint_extra_args"), words("cli_sarif_args"));
    let hooks = yaml(&text("packages/pre-commit/.pre-commit-hooks.yaml"));
    assert_eq!(hooks, yaml(&text(".pre-commit-hooks.yaml")));
    let hook = format!("{} pool.yaml", hooks[0]["entry"].as_str().unwrap());
    for command in [&trunk, &mega, &hook] {
        let command = command.replace("${target}", "pool.yaml").replace("{{SARIF_OUTPUT_FILE}}", "out.sarif");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        folder.run(&words).exits(1).prints("gpu-pool-untainted");
    }
    let sarif: Value = serde_json::from_slice(&fs::read(folder.0.join("out.sarif")).unwrap()).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
}

#[test]
fn the_bill_of_materials_has_the_crates_of_the_binary() {
    let mut command = Command::new("python3");
    command.arg(root().join("tools/sbom")).args(["x86_64-unknown-linux-gnu", "--offline"]);
    let Ok(output) = command.output() else {
        return gpulint_testing::missing("python3", "tools/sbom is a script of Python");
    };
    // Where the crates of other targets were never downloaded, cargo has no metadata of them.
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("--offline") {
        return gpulint_testing::missing(
            "the crates of all targets",
            "`cargo fetch --locked` downloads them",
        );
    }
    assert!(output.status.success(), "{output:?}");
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let component = &bill["metadata"]["component"];
    assert_eq!(
        (&component["name"], &component["version"]),
        (&"gpulint".into(), &env!("CARGO_PKG_VERSION").into())
    );
    let all = bill["components"].as_array().unwrap();
    let has = |name: &str| all.iter().any(|one| one["name"] == name);
    assert!(has("gpulint-rules") && has("clap") && !has("proptest") && !has("gpulint-testing"));
    let known: BTreeSet<&str> = all.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
    assert_eq!(known.len(), all.len());
    for one in bill["dependencies"].as_array().unwrap() {
        for to in one["dependsOn"].as_array().unwrap() {
            assert!(known.contains(to.as_str().unwrap()), "{one}");
        }
    }
}

/// The chart says the version of its image wherever it names one.
#[test]
fn artifact_hub_names_the_image_of_the_chart() {
    let chart = yaml(&text("webhook/chart/Chart.yaml"));
    let version = chart["appVersion"].as_str().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let images = yaml(chart["annotations"]["artifacthub.io/images"].as_str().unwrap());
    assert_eq!(images[0]["image"], format!("ghcr.io/gpulint/gpulint:{version}"));
}
