//! Configurations from outside: `extends`, `--isolated`.

use crate::support::{Folder, run_in};

/// A container with a request and a limit of GPUs that do not agree.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ml}
spec:
  containers:
  - name: a
    image: a:1
    resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}
";

const CHECK: [&str; 5] = ["check", "-f", "concise", "--select", "gpu-limit-mismatch"];

fn check(path: &str) -> Vec<&str> {
    let mut all = CHECK.to_vec();
    all.push(path);
    all
}

#[test]
fn a_configuration_extends_another_one() {
    let folder = Folder::new()
        .with("shared/base.yaml", "fail-on: error\nrules: {gpu-limit-mismatch: warning}\n")
        .with("gpulint.yaml", "extends: shared/base.yaml\nignore: [old]\n")
        .with("apps/gpulint.yaml", "extends: ../gpulint.yaml\nrules: {gpu-limit-mismatch: info}\n")
        .with("a.yaml", POD)
        .with("apps/a.yaml", POD)
        .with("apps/old/a.yaml", POD);
    folder.run(&check("a.yaml")).exits(0).prints("a.yaml:8:44: warning[gpu-limit-mismatch]");
    let run = folder.run(&check("apps")).exits(0);
    assert!(run.out.contains("info[gpu-limit-mismatch]") && !run.out.contains("old"), "{run:?}");
    let isolated = ["check", "-f", "concise", "--isolated", "--select", "gpu-limit-mismatch", "apps/old"];
    folder.run(&isolated).exits(1).prints("error[gpu-limit-mismatch]");
    run_in(&folder.0, &["check", "--isolated", "--config", "gpulint.yaml"], "")
        .exits(2)
        .complains("cannot be used with");
}

#[test]
fn patterns_of_a_configuration_above_count_from_its_folder() {
    let overrides = "overrides: [{paths: [apps/dev], rules: {all: off}}, {paths: [b], rules: {all: off}}]\n";
    let folder = Folder::new()
        .with("gpulint.yaml", overrides)
        .with("apps/gpulint.yaml", "extends: ../gpulint.yaml\n")
        .with("apps/dev/a.yaml", POD)
        .with("apps/b/a.yaml", POD);
    let run = folder.run(&check("apps")).exits(1);
    assert!(run.out.contains("apps/b/a.yaml") && !run.out.contains("apps/dev"), "{run:?}");
}

#[test]
fn what_cannot_be_extended_ends_the_run() {
    let folder = Folder::new()
        .with("missing/gpulint.yaml", "extends: ../none.yaml\n")
        .with("missing/a.yaml", POD)
        .with("circle/gpulint.yaml", "# one\nextends: other.yaml\n")
        .with("circle/other.yaml", "extends: gpulint.yaml\n")
        .with("circle/a.yaml", POD)
        .with("broken/gpulint.yaml", "extends: other.yaml\n")
        .with("broken/other.yaml", "rules: {gpu-limit-mismatsh: off}\n")
        .with("broken/a.yaml", POD)
        .with("list/gpulint.yaml", "extends: [a.yaml]\n")
        .with("list/a.yaml", POD);
    for (path, error) in [
        ("missing", "missing/gpulint.yaml:1:10: `extends` cannot be read: none.yaml: No such file"),
        (
            "circle",
            "circle/other.yaml:1:10: configurations extend each other: circle/gpulint.yaml -> circle/other.yaml -> \
             circle/gpulint.yaml",
        ),
        (
            "broken",
            "broken/other.yaml:1:9: unknown rule `gpu-limit-mismatsh`; did you mean `gpu-limit-mismatch`?",
        ),
        ("list", "list/gpulint.yaml:1:10: expected a string, found a list"),
    ] {
        folder.run(&check(path)).exits(2).complains(error);
    }
}

#[test]
fn what_holds_is_shown_with_its_place() {
    let folder = Folder::new()
        .with("base.yaml", "platform: {karpenter: '1.9'}\nrules:\n  gpu: warning\nignore: [vendor]\nwebhook: {deny: off}\n")
        .with(
            "gpulint.yaml",
            "extends: base.yaml\nplatform:\n  keda: '2.17'\nrules:\n  gpu-limit-mismatch: info\nignore:\n- old\n\
             overrides:\n- paths: [dev]\n  rules: {pdb-missing: off}\n- kinds: [Pod]\n  rules: {all: off}\n",
        )
        .with("dev/a.yaml", POD)
        .with("a.yaml", POD);
    let run = folder.run(&["config", "--show", "a.yaml"]).exits(0);
    for line in [
        "# gpulint.yaml holds for a.yaml; it extends base.yaml\n",
        "fail-on: warning  # default\n",
        "  karpenter: \"1.9\"  # base.yaml:1\n",
        "  keda: \"2.17\"  # gpulint.yaml:3\n",
        "  kubernetes: \"1.36\"  # default\n",
        "ignore:\n- vendor  # base.yaml:4\n- old  # gpulint.yaml:7\n",
        "overrides:\n- {kinds: [Pod], rules: {all: \"off\"}}  # gpulint.yaml:11\n",
        "  gpu-limit-mismatch: info  # gpulint.yaml:5, over base.yaml:3\n",
        "webhook:\n  deny: \"off\"  # base.yaml:5\n",
    ] {
        assert!(
            run.out
                .replace("all: false", "all: \"off\"")
                .replace("deny: false", "deny: \"off\"")
                .contains(line),
            "{line}\n{}",
            run.out
        );
    }
    assert!(!run.out.contains("pdb-missing"), "{}", run.out);
    let dev = folder.run(&["config", "--show", "dev/a.yaml", "--keda", "2.18"]).exits(0);
    assert!(dev.out.contains("  pdb-missing: off  # gpulint.yaml:10\n"), "{}", dev.out);
    assert!(dev.out.contains("  keda: \"2.18\"  # --keda\n"), "{}", dev.out);
    // The output is a valid configuration. It states all versions, of which some do not go together.
    for text in [&run.out, &dev.out] {
        let shown = Folder::new().with("gpulint.yaml", text).with("a.yaml", POD);
        let check = shown.run(&["check", "--fail-on", "never", "."]).exits(0);
        let is_of_versions = |line: &str| line.starts_with("note: ") && line.contains(" Kubernetes ");
        assert!(check.err.lines().all(is_of_versions), "{text}: {}", check.err);
    }
    let none = Folder::new().with("a.yaml", POD).run(&["config"]).exits(0);
    assert!(none.out.starts_with("# There is no configuration file for .\n"), "{}", none.out);
    assert!(none.out.contains(", all as they come\n"), "{}", none.out);
}

#[test]
fn a_configuration_is_written_for_a_folder() {
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: karpenter}\nspec:\n  chart:\n    \
                   spec:\n      chart: karpenter\n      version: 1.9.2\n";
    let folder = Folder::new()
        .with("apps/a.yaml", POD)
        .with("infra/karpenter.yaml", release)
        .with("infra/main.tf", "module \"eks\" {\n  cluster_version = \"1.34\"\n}\n");
    let printed = folder.run(&["init", "--print"]).exits(0).out;
    assert!(printed.contains("platform:\n  karpenter: \"1.9\" # infra/karpenter.yaml:8\n"), "{printed}");
    assert!(printed.contains("  kubernetes: \"1.34\" # infra/main.tf:2\n"), "{printed}");
    assert!(printed.contains("  # keda: \"2.21\" # no file says which version"), "{printed}");
    assert_eq!(folder.run(&["init", "-"]).exits(0).out, printed);
    assert!(!folder.0.join("gpulint.yaml").exists());
    folder.run(&["init"]).exits(0).complains("wrote gpulint.yaml; `gpulint check .` reads it");
    let check = folder.run(&["check", "--fail-on", "never"]).exits(0);
    assert_eq!(check.err, "");
    let text = std::fs::read_to_string(folder.0.join("gpulint.yaml")).unwrap();
    assert_eq!(text, printed);
    // Each commented part is valid once it is uncommented.
    let uncommented: String = (text.lines())
        .map(|line| {
            let rest = line.trim_start().strip_prefix("# ").unwrap_or_default();
            let is_setting = (rest.starts_with(['-', ' ']) && !rest.contains("gpulint"))
                || rest.split_once(':').is_some_and(|(key, value)| {
                    [
                        "clusters",
                        "rules",
                        "ignore",
                        "overrides",
                        "render",
                        "crds",
                        "fail-on",
                        "karpenter",
                        "keda",
                        "region",
                        "timezone",
                        "platform",
                    ]
                    .contains(&key)
                        && (value.is_empty() || value.starts_with(' '))
                });
            let indent = &line[..line.len() - line.trim_start().len()];
            if is_setting { format!("{indent}{rest}\n") } else { format!("{line}\n") }
        })
        .collect();
    let tried = Folder::new().with("gpulint.yaml", &uncommented).with("clusters/a/a.yaml", POD);
    let check = tried.run(&["check", "--fail-on", "never", "."]).exits(0);
    assert_eq!(check.err, "", "{uncommented}");
    folder.run(&["init"]).exits(2).complains("gpulint.yaml exists; --force overwrites it");
    folder.run(&["init", "--force"]).exits(0);
    folder.run(&["init", "nowhere"]).exits(2).complains("nowhere: not a folder");
}

/// A pipeline that runs gpulint may be called by its name.
#[test]
fn a_pipeline_is_no_configuration() {
    let pipeline = "gpulint:\n  script: [gpulint check]\n";
    let folder = Folder::new()
        .with(".gitlab/gpulint.yml", pipeline)
        .with(".gitlab/ci/gpulint.yml", pipeline)
        .with(".github/workflows/gpulint.yaml", "name: gpulint\non: push\njobs: {}\n")
        .with("a.yaml", POD);
    let run = folder.run(&check(".")).exits(1).prints("a.yaml:8:44: error[gpu-limit-mismatch]");
    assert_eq!(run.err, "", "{run:#?}");
    folder.with("ci/gpulint.yml", pipeline).run(&check(".")).exits(2).complains("ci/gpulint.yml:1:1: ");
}

/// What the manual shows of a configuration is one.
const WIDGET: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

#[test]
fn configurations_of_the_manual_are_valid() {
    let schema: serde_json::Value =
        serde_json::from_str(&Folder::new().run(&["schema", "config"]).exits(0).out).unwrap();
    let known = schema["properties"].as_object().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> =
        std::fs::read_dir(root.join("docs/src")).unwrap().map(|e| e.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    let mut count = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for block in text.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
            let keys = block.lines().filter(|line| line.starts_with(char::is_alphabetic));
            let mut keys = keys.filter_map(|line| line.split_once(':')).map(|(key, _)| key);
            if !keys.all(|key| known.contains_key(key)) || block.starts_with([' ', '-', '#']) {
                continue;
            }
            count += 1;
            let folder = Folder::new()
                .with("gpulint.yaml", "fail-on: error\n")
                .with("below/crds/widget.yaml", WIDGET)
                // Helm need not be installed, and its charts are not there.
                .with("below/gpulint.yaml", block.replace("enabled: true", "enabled: false"));
            let run = folder.run(&["check", "--allow-empty", "below"]);
            let is_sound = run.code == Some(0) && run.err.lines().all(|line| line.starts_with("note: "));
            assert!(is_sound, "{}:\n{block}\n{run:#?}", page.display());
        }
    }
    assert!(count > 3, "{count}");
}
