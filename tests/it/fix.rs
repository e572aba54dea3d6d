//! `check --fix`, `--unsafe-fixes` and `--diff` from outside: what is written, and what is not.

use std::fs;
use std::path::Path;

use crate::support::{Folder, run_in, validate};

/// A pool of plain machines without `consolidateAfter`, which Karpenter before 1.15 requires, and which has a safe fix.
pub(crate) const SAFE: &str = "\
# pools of the web team
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
      requirements:
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6i, m6i]} # no t3
      - {key: karpenter.sh/capacity-type, operator: In, values: [\"On-Demand\"]}
  limits: {cpu: 100}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized # saves money
    budgets: [{nodes: 10%}]
";

/// A GPU pool without a taint, which has an unsafe fix.
const UNSAFE: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  limits: {nvidia.com/gpu: 8}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
";

/// `consolidateAfter` is required before Karpenter 1.15.
const SELECT: [&str; 4] =
    ["--select", "consolidate-after-missing,capacity-type-invalid,gpu-pool-untainted", "--karpenter", "1.14"];

fn repaired() -> String {
    SAFE.replace("\"On-Demand\"", "\"on-demand\"") + "    consolidateAfter: 0s\n"
}

fn check<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["check"];
    all.extend(SELECT);
    all.extend(args);
    all
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.0.join(file)).unwrap()
}

#[test]
fn safe_fixes_are_written_and_nothing_else_is_touched() {
    let folder = Folder::new().with("safe.yaml", SAFE).with("unsafe.yaml", UNSAFE);
    let run = folder.run(&check(&["--fix"])).exits(1);
    assert_eq!(read(&folder, "safe.yaml"), repaired());
    assert_eq!(read(&folder, "unsafe.yaml"), UNSAFE);
    run.prints("2 fixed, 1 left: 1 error in 2 files (2 objects); 1 fixable with --fix --unsafe-fixes\n");
    // Without --fix nothing is written.
    folder.run(&check(&["--unsafe-fixes"])).exits(1).prints("; 1 fixable with --fix --unsafe-fixes\n");
    assert_eq!(read(&folder, "unsafe.yaml"), UNSAFE);
    let both = ["--fix", "--unsafe-fixes"];
    folder.run(&check(&both)).exits(0).prints("1 fixed, 0 left: no findings in 2 files");
    let tainted = read(&folder, "unsafe.yaml");
    let taint =
        "      taints:\n      - key: nvidia.com/gpu\n        value: \"true\"\n        effect: NoSchedule\n";
    assert_eq!(tainted, UNSAFE.replace("  limits", &format!("{taint}  limits")));
    folder.run(&check(&both)).exits(0).prints("0 fixed, 0 left: no findings");
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing else is left in the folder");
}

/// Each fix is listed with its place after all fixes.
#[test]
fn what_was_fixed_is_listed_and_counted() {
    let folder = Folder::new().with("a/safe.yaml", SAFE).with("unsafe.yaml", UNSAFE);
    let run = folder.run(&check(&["--fix", "-f", "concise", "-f", "json=report.json"])).exits(1);
    let lines: Vec<&str> = run.out.lines().filter(|line| line.contains(" fixed[")).collect();
    assert_eq!(
        lines,
        [
            "a/safe.yaml:11:66: fixed[capacity-type-invalid] write `on-demand`",
            "a/safe.yaml:13:3: fixed[consolidate-after-missing] add `consolidateAfter: 0s`",
        ],
        "{run:#?}"
    );
    assert!(read(&folder, "a/safe.yaml").lines().nth(10).unwrap()[65..].starts_with("\"on-demand\""));
    let report: serde_json::Value = serde_json::from_str(&read(&folder, "report.json")).unwrap();
    validate(&report);
    assert_eq!(report["summary"]["fixed"], 2);
    let fix = &report["diagnostics"][0]["fix"];
    assert_eq!((&fix["safety"], &fix["replacesNodes"]), (&"unsafe".into(), &true.into()), "{fix:#}");
    // A place moves with the lines that later fixes add above it.
    let folder = Folder::new().with("a.yaml", format!("{SAFE}---\n{}", SAFE.replace("web}", "more}")));
    let run = folder.run(&check(&["--fix"])).exits(0);
    let text = read(&folder, "a.yaml");
    let lines: Vec<&str> = text.lines().collect();
    let mut listed = 0;
    for line in run.out.lines().filter(|line| line.contains("fixed[consolidate-after-missing]")) {
        let number: usize = line.split(':').nth(1).unwrap().parse().unwrap();
        assert_eq!(lines[number - 1], "  disruption:", "{line}");
        listed += 1;
    }
    assert_eq!(listed, 2, "{run:#?}");
    // If there are many, some of each rule are listed.
    let pools: String =
        (0..30).map(|at| format!("---\n{}", SAFE.replace("web}", &format!("p{at}}}")))).collect();
    let many = || Folder::new().with("a.yaml", &pools);
    let run = many().run(&check(&["--fix"])).exits(0);
    let run = run.prints("\nfixed[consolidate-after-missing] 27 more (--all lists them)\n60 fixed, 0 left: ");
    assert_eq!(run.out.matches(" fixed[").count(), 6, "{run:#?}");
    let run = many().run(&check(&["--fix", "--all"])).exits(0);
    assert_eq!(run.out.matches(" fixed[").count(), 60);
    assert_eq!(many().run(&check(&["--fix", "-q"])).exits(0).out, "");
}

#[test]
fn diffs_are_coloured() {
    let folder = Folder::new().with("safe.yaml", SAFE);
    let run = folder.run(&check(&["--diff", "--color", "always"])).exits(1);
    let run = run.prints("\x1b[1m--- safe.yaml\x1b[0m\n").prints("\n\x1b[36m@@ -8,8 +8,9 @@\x1b[0m\n");
    run.prints("\n\x1b[32m+    consolidateAfter: 0s\x1b[0m\n").prints("\n\x1b[31m-      - {key");
}

#[test]
fn line_ends_and_marks_stay() {
    let crlf = format!("\u{FEFF}{}", SAFE.replace('\n', "\r\n"));
    let crlf = crlf.trim_end();
    let folder = Folder::new().with("a.yaml", crlf);
    folder.run(&check(&["--fix"])).exits(0);
    let wanted = format!("\u{FEFF}{}", repaired().replace('\n', "\r\n"));
    assert_eq!(read(&folder, "a.yaml"), wanted.trim_end());
}

#[test]
fn a_diff_changes_nothing() {
    let folder = Folder::new().with("safe.yaml", SAFE);
    for flags in [&["--diff"][..], &["--fix", "--diff"]] {
        let run = folder.run(&check(flags)).exits(1);
        assert_eq!(
            run.out,
            "\
--- safe.yaml
+++ safe.yaml
@@ -8,8 +8,9 @@
       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
       requirements:
       - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6i, m6i]} # no t3
-      - {key: karpenter.sh/capacity-type, operator: In, values: [\"On-Demand\"]}
+      - {key: karpenter.sh/capacity-type, operator: In, values: [\"on-demand\"]}
   limits: {cpu: 100}
   disruption:
     consolidationPolicy: WhenEmptyOrUnderutilized # saves money
     budgets: [{nodes: 10%}]
+    consolidateAfter: 0s
"
        );
        assert!(run.err.contains("2 would be fixed: "), "{run:?}");
    }
    assert_eq!(read(&folder, "safe.yaml"), SAFE);
    // A file that a tool reads as a patch is treated as one.
    folder.run(&check(&["--fix"])).exits(0);
    let run = folder.run(&check(&["--diff"])).exits(0);
    assert_eq!(run.out, "");
}

#[test]
fn standard_input_is_fixed_to_standard_output() {
    let folder = Folder::new();
    let run = folder.run_with(&check(&["--fix", "-"]), SAFE).exits(0);
    assert_eq!(run.out, repaired());
    assert!(run.err.contains("2 fixed, 0 left"), "{run:?}");
    // Text that is not fixed is printed unchanged.
    for text in [UNSAFE, "a: [\n", "no: manifest\n"] {
        let run = folder.run_with(&check(&["--fix", "--allow-empty", "-"]), text);
        assert_eq!(run.out, text);
    }
}

#[test]
fn a_report_beside_a_diff_goes_to_standard_error() {
    let folder = Folder::new().with("safe.yaml", SAFE);
    let diff = folder.run(&check(&["--diff"])).exits(1);
    assert!(diff.err.contains("2 would be fixed: "), "{diff:?}");
    let run = folder.run(&check(&["--diff", "-f", "json"])).exits(1);
    assert_eq!(run.out, diff.out);
    let report: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    validate(&report);
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), 2);
    let run = folder.run(&check(&["--diff", "-f", "concise"])).exits(1);
    assert_eq!((run.out, run.err.lines().count()), (diff.out.clone(), 3));
    let run = folder.run(&check(&["--diff", "-f", "json=report.json"])).exits(1);
    assert_eq!((run.out, run.err), (diff.out, diff.err));
    assert!(read(&folder, "report.json").contains("consolidate-after-missing"));
}

#[test]
fn suppressed_findings_are_not_fixed() {
    let allowed = SAFE.replace(
        "  disruption:\n",
        "  # gpulint: allow[consolidate-after-missing] the default will do\n  disruption:\n",
    );
    let folder = Folder::new().with("a.yaml", &allowed);
    folder.run(&check(&["--fix"])).exits(0).prints("1 fixed, 0 left");
    assert_eq!(read(&folder, "a.yaml"), allowed.replace("\"On-Demand\"", "\"on-demand\""));
}

#[test]
fn what_cannot_be_edited_is_left_with_the_reason() {
    // The anchor is used once more in its own document.
    let anchored = SAFE
        .replace("disruption:\n", "disruption: &d\n")
        .replace("budgets: [{nodes: 10%}]\n", "budgets: [{nodes: 10%}]\n  copy: *d\n");
    let text = format!("{anchored}---\n{SAFE}");
    let folder = Folder::new().with("a.yaml", &text);
    folder
        .run(&check(&["--fix"]))
        .exits(1)
        .prints("note: not fixed: `spec.disruption` has an anchor that is used elsewhere")
        .prints("3 fixed, 1 left");
}

#[test]
fn what_cannot_be_edited_is_not_counted_as_fixable() {
    let anchored = SAFE
        .replace("disruption:\n", "disruption: &d\n")
        .replace("budgets: [{nodes: 10%}]\n", "budgets: [{nodes: 10%}]\n  copy: *d\n");
    let folder = Folder::new().with("a.yaml", &anchored);
    folder.run(&check(&[])).exits(1).prints("; 1 fixable with --fix");
}

#[test]
fn a_list_is_fixed_item_by_item() {
    let item = |text: &str| {
        let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
        let item: String = lines.concat();
        format!("  -\n{item}")
    };
    let list = |text: &str| {
        let text = text.split_once('\n').unwrap().1;
        format!("apiVersion: v1\nkind: List\nitems:\n{}", item(text).repeat(40))
    };
    let folder = Folder::new().with("a.yaml", list(SAFE));
    folder.run(&check(&["--fix"])).exits(0).prints("80 fixed, 0 left");
    assert_eq!(read(&folder, "a.yaml"), list(&repaired()));
}

#[test]
fn the_json_report_has_the_edits() {
    let before = SAFE.replace("\"On-Demand\"", "\"on-demand\"");
    let folder = Folder::new().with("safe.yaml", &before);
    let report = folder.run(&check(&["--format", "json"])).exits(1).json();
    assert_eq!(report["summary"]["fixable"], 1);
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    for diagnostic in report["diagnostics"].as_array().unwrap() {
        for edit in diagnostic["fix"]["edits"].as_array().unwrap() {
            let offset = |end: &str| edit["range"][end]["offset"].as_u64().unwrap() as usize;
            let text = edit["text"].as_str().unwrap().to_owned();
            edits.push((offset("start"), offset("end"), text));
        }
    }
    edits.sort();
    let mut text = before;
    for (start, end, new) in edits.into_iter().rev() {
        text.replace_range(start..end, &new);
    }
    assert_eq!(text, repaired());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_modes_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new().with("real/safe.yaml", SAFE);
    let real = folder.0.join("real/safe.yaml");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real/safe.yaml", folder.0.join("link.yaml")).unwrap();
    folder.run(&check(&["--fix", "link.yaml"])).exits(0);
    assert_eq!(fs::read_to_string(&real).unwrap(), repaired());
    let link = fs::symlink_metadata(folder.0.join("link.yaml")).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    // A file that is found twice is written once.
    fs::write(&real, SAFE).unwrap();
    folder.run(&check(&["--fix", "link.yaml", "real"])).exits(0);
    assert_eq!(fs::read_to_string(&real).unwrap(), repaired());
}

#[test]
fn a_read_only_file_is_not_fixed() {
    let folder = Folder::new().with("closed.yaml", SAFE).with("open.yaml", SAFE.replace("web}", "open}"));
    let closed = folder.0.join("closed.yaml");
    let before = fs::metadata(&closed).unwrap().permissions();
    let mut permissions = before.clone();
    permissions.set_readonly(true);
    fs::set_permissions(&closed, permissions).unwrap();
    let run = folder.run(&check(&["--fix", "-f", "concise"]));
    fs::set_permissions(&closed, before).unwrap();
    let run = run.exits(2).complains("closed.yaml: not fixed: it is read-only").prints("2 fixed, 2 left");
    // The other fix is unsafe as long as the pool admits nothing.
    assert_eq!(run.out.matches("not fixed: its file could not be written").count(), 1, "{run:#?}");
    assert_eq!(read(&folder, "closed.yaml"), SAFE);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left in the folder");
}

#[test]
fn nothing_is_fixed_if_the_report_cannot_be_written() {
    let folder = Folder::new().with("safe.yaml", SAFE);
    let run = folder.run(&check(&["--fix", "--format", "json=absent/report.json"]));
    run.exits(2).complains("cannot write absent/report.json: ");
    assert_eq!(read(&folder, "safe.yaml"), SAFE);
    folder.run(&check(&["--fix", "--format", "json=report.json", "safe.yaml"])).exits(0);
    assert!(read(&folder, "report.json").contains("\"fixed\""));
    assert_eq!(read(&folder, "safe.yaml"), repaired());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left in the folder");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = Folder::new().with("a/safe.yaml", SAFE);
    // A folder in the place of the temporary file would keep it from being created, but its name is known
    // only to the process. So the whole folder is made read-only, where the system supports it.
    let path = folder.0.join("a");
    if !make_read_only(&path) {
        return;
    }
    let run = run_in(&folder.0, &check(&["--fix"]), "");
    restore(&path);
    run.exits(2).complains("a/safe.yaml: not fixed: ").prints("0 fixed, 2 left");
    assert_eq!(read(&folder, "a/safe.yaml"), SAFE);
}

/// Makes a folder read-only, and returns whether it worked: a superuser may still write to it.
#[cfg(unix)]
fn make_read_only(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    let probe = path.join("probe");
    let denied = fs::write(&probe, "").is_err();
    if !denied {
        fs::remove_file(probe).unwrap();
        restore(path);
    }
    denied
}

#[cfg(unix)]
fn restore(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn make_read_only(_: &Path) -> bool {
    false
}

#[cfg(not(unix))]
fn restore(_: &Path) {}

/// A fix of one file may depend on one of another: the kubelet settings of a pool are removed only after the
/// class in another file has them.
#[test]
fn an_old_set_is_converted_in_one_run() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/migration/provisioner-pair");
    let text = |when: &str, file: &str| fs::read_to_string(case.join(when).join(file)).unwrap();
    let files = ["class.yaml", "pool.yaml"];
    let folder = files.iter().fold(Folder::new(), |folder, file| folder.with(file, text("before", file)));
    let args = ["check", "--select", "migration", "--fix", "--unsafe-fixes"];
    folder.run(&args).exits(0).prints("3 fixed, 0 left");
    for file in files {
        assert_eq!(read(&folder, file), text("after", file));
    }
}

#[cfg(feature = "webhook")]
#[test]
fn a_review_is_answered_with_the_same_operations() {
    let folder = Folder::new().with("gpulint.yaml", "platform: {karpenter: '1.14'}\n");
    let pool = serde_json::json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "web"},
                "requirements": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c6i"]}]}},
            "limits": {"cpu": 100},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}});
    let review = serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "object": pool}});
    let run = folder.run_with(&["review", "--mutate"], &review.to_string()).exits(0);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    // The patch in base64 begins with `[{"op":`.
    let patch = answer["response"]["patch"].as_str().unwrap();
    assert!(patch.starts_with("W3sib3AiO"), "{patch}");
    // For people: the verdict, its reasons, and the warnings.
    let run = folder.run_with(&["review", "-f", "text"], &review.to_string()).exits(0);
    assert!(run.out.starts_with("denied\n  spec.disruption.consolidateAfter: gpulint "), "{run:#?}");
    let whole = review
        .to_string()
        .replace("\"consolidationPolicy\"", "\"consolidateAfter\":\"5m\",\"consolidationPolicy\"");
    let run = folder.run_with(&["review", "-f", "text"], &whole).exits(0);
    assert!(run.out.starts_with("allowed\n"), "{run:#?}");
}
