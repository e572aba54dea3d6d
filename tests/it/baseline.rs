//! `--baseline`, `--write-baseline` and `--update-baseline` from outside.

use std::fs;

use serde_json::Value;

use crate::support::Folder;

/// A GPU pool without a taint; the rule has an unsafe fix.
fn pool(name: &str) -> String {
    format!(
        "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}
      requirements:
      - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
  limits: {{nvidia.com/gpu: 8}}
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: 5m}}
"
    )
}

const TAINT: &str = "      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n";

fn tainted(name: &str) -> String {
    pool(name).replace("      nodeClassRef", &format!("{TAINT}      nodeClassRef"))
}

const SELECT: [&str; 3] = ["check", "--select", "gpu-pool-untainted"];

fn check<'a>(args: &[&'a str]) -> Vec<&'a str> {
    SELECT.iter().chain(args).copied().collect()
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.0.join(file)).unwrap()
}

fn repository() -> Folder {
    Folder::new().with("a/pool.yaml", pool("a")).with("b/pool.yaml", pool("b")).with("gpulint.yaml", "")
}

#[test]
fn what_is_in_the_baseline_is_counted_and_not_reported() {
    let folder = repository();
    folder.run(&check(&["."])).exits(1);
    folder
        .run(&check(&["--write-baseline", "known.yaml", "."]))
        .exits(0)
        .complains("note: wrote 2 findings to known.yaml")
        .prints("no findings in 2 files (2 objects); 2 in the baseline");
    let text = read(&folder, "known.yaml");
    assert!(text.starts_with("# Findings that gpulint does not report"), "{text}");
    let entries: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(entries.len(), 2, "{text}");
    assert!(
        entries[0].contains("rule: gpu-pool-untainted, path: \"a/pool.yaml\", object: \"NodePool/a\""),
        "{text}"
    );
    let parsed: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(parsed["version"], serde_yaml::Value::from(1));

    let json = folder.run(&check(&["--baseline", "known.yaml", "-f", "json", "."])).exits(0).json();
    assert_eq!(json["summary"]["baselined"], 2);
    assert_eq!(json["diagnostics"], Value::Array(Vec::new()));
    // From another current folder, under another name, and for the file alone.
    let inside = crate::support::run_in(
        &folder.0.join("a"),
        &check(&["--baseline", "../known.yaml", "pool.yaml"]),
        "",
    );
    let inside = inside.exits(0);
    assert_eq!(inside.err, "", "the entry of the other file is not stale");
    // The configuration names it.
    let folder = folder.with("gpulint.yaml", "baseline: known.yaml\n");
    folder.run(&check(&["./b"])).exits(0).prints("1 in the baseline");
    folder.run(&check(&["--no-baseline", "."])).exits(1).prints("2 errors");
    let several = folder.run(&check(&["-f", "concise", "-f", "json=out.json", "."])).exits(0);
    assert!(!several.out.contains("gpu-pool-untainted"), "{several:?}");
    assert!(read(&folder, "out.json").contains("\"baselined\": 2"));
}

#[test]
fn a_new_finding_is_reported_and_lines_may_move() {
    let folder = repository();
    folder.run(&check(&["--write-baseline", "known.yaml", "."])).exits(0);
    let folder = folder
        .with("a/pool.yaml", format!("# moved\n---\n{}---\n{}", pool("new"), pool("a")))
        .with("c/pool.yaml", pool("a"));
    let run = folder.run(&check(&["--baseline", "known.yaml", "-f", "json", "."])).exits(1);
    let report = run.json();
    let names: Vec<&str> = (report["diagnostics"].as_array().unwrap().iter())
        .map(|found| found["file"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a/pool.yaml", "c/pool.yaml"], "the new object, and the copy in another file");
    assert_eq!(report["diagnostics"][0]["object"]["name"], "new");
    // Findings in the baseline are not fixed either.
    folder.run(&check(&["--baseline", "known.yaml", "--fix", "--unsafe-fixes", "."])).exits(0);
    assert_eq!(read(&folder, "b/pool.yaml"), pool("b"));
    assert!(read(&folder, "c/pool.yaml").contains("taints"));
}

#[test]
fn entries_that_no_longer_match_are_noted_and_removed_on_request() {
    let folder = repository();
    folder.run(&check(&["--write-baseline", "known.yaml", "."])).exits(0);
    let before = read(&folder, "known.yaml");
    let folder = folder.with("a/pool.yaml", tainted("a"));
    let baseline = ["--baseline", "known.yaml"];
    let note = "note: known.yaml: 1 entry of the baseline no longer matches; --update-baseline removes it\n";
    let run = folder.run(&check(&[&baseline[..], &["."]].concat())).exits(0);
    assert_eq!(run.err, note);
    let run = folder.run(&check(&[&baseline[..], &["a/pool.yaml"]].concat())).exits(0);
    assert_eq!(run.err, note);
    // Entries for files that this run does not cover are kept and not reported as stale.
    let other =
        ["check", "--select", "gpu-limit-mismatch", "--baseline", "known.yaml", "--update-baseline", "."];
    for args in [check(&[&baseline[..], &["b"]].concat()), other.to_vec()] {
        let run = folder.run(&args).exits(0);
        assert!(!run.err.contains("no longer"), "{run:?}");
    }
    assert_eq!(read(&folder, "known.yaml"), before);
    let run = folder.run(&check(&[&baseline[..], &["--update-baseline", "."]].concat())).exits(0);
    assert_eq!(run.err, "note: known.yaml: removed 1 entry that no longer matches\n");
    let after = read(&folder, "known.yaml");
    let removed: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
    assert_eq!(removed.len(), 1, "{after}");
    fs::remove_file(folder.0.join("b/pool.yaml")).unwrap();
    folder.run(&check(&[&baseline[..], &["--update-baseline", "."]].concat())).exits(0);
    assert!(read(&folder, "known.yaml").ends_with("version: 1\nfindings: []\n"));
}

#[test]
fn writing_again_keeps_what_was_not_checked() {
    let folder = repository();
    folder.run(&check(&["--write-baseline", "known.yaml", "."])).exits(0);
    let before = read(&folder, "known.yaml");
    let run = folder.run(&check(&["--write-baseline", "known.yaml", "a"])).exits(0);
    assert_eq!(run.err, "note: wrote 1 finding to known.yaml; 1 of other files or rules stays\n");
    assert_eq!(read(&folder, "known.yaml"), before);
}

#[test]
fn equal_findings_are_two() {
    let twice = format!("{}---\n{}", pool("a"), pool("a"));
    let folder = Folder::new().with("pool.yaml", &twice);
    folder.run(&check(&["--write-baseline", "known.yaml", "."])).exits(0);
    let folder = folder.with("pool.yaml", format!("{twice}---\n{}", pool("a")));
    folder
        .run(&check(&["--baseline", "known.yaml", "."]))
        .exits(1)
        .prints("1 error")
        .prints("2 in the baseline");
}

#[test]
fn a_baseline_that_cannot_be_read_ends_the_run() {
    let folder = repository()
        .with("broken.yaml", "version: 1\nfindings: 3\n")
        .with("newer.yaml", "version: 2\nfindings: []\n")
        .with("merge.yaml", "# gpulint check --write-baseline\nversion: 1\nfindings:\n<<<<<<< HEAD\n");
    for (file, error) in [
        (
            "missing.yaml",
            "missing.yaml: there is no such baseline; `gpulint check --write-baseline missing.yaml` makes it",
        ),
        ("broken.yaml", "broken.yaml:2:11: expected a list of `findings`"),
        ("newer.yaml", "newer.yaml: a baseline of version 2 is newer than this gpulint"),
        ("merge.yaml", "merge.yaml:4:"),
    ] {
        folder.run(&check(&["--baseline", file, "."])).exits(2).complains(error);
    }
    folder.run(&check(&["--update-baseline", "."])).exits(2).complains("there is no baseline");
    // Only a baseline is overwritten, including one that a merge has broken.
    folder.run(&check(&["--write-baseline", "merge.yaml", "."])).exits(0);
    folder.run(&check(&["--baseline", "merge.yaml", "."])).exits(0);
    for file in ["a/pool.yaml", "newer.yaml", "broken.yaml"] {
        let before = read(&folder, file);
        folder.run(&check(&["--write-baseline", file, "."])).exits(2);
        assert_eq!(read(&folder, file), before, "{file}");
    }
}
