//! `check --add-suppressions` from outside.

use std::fs;
use std::path::Path;

use crate::support::Folder;

const POD: &str = "\
apiVersion: v1
kind: Pod # a pod
metadata: {name: a, namespace: ml}
spec:
  containers:
  - name: a
    image: a:1
    resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}
  - name: b
    image: a:1
    resources:
      requests:
        nvidia.com/gpu: 1
      limits: {
        nvidia.com/gpu: 2}
";

const COMMENT: &str = "# gpulint: allow[gpu-limit-mismatch] was here before gpulint";

const CHECK: [&str; 3] = ["check", "--select", "gpu-limit-mismatch,suppression"];

fn check<'a>(args: &[&'a str]) -> Vec<&'a str> {
    CHECK.iter().chain(args).copied().collect()
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.0.join(file)).unwrap()
}

#[test]
fn comments_are_written_once_and_the_check_is_silent() {
    let folder = Folder::new().with("a.yaml", POD).with("b/crlf.yaml", POD.replace('\n', "\r\n"));
    let before: serde_yaml::Value = serde_yaml::from_str(POD).unwrap();
    let run = folder.run(&check(&["--add-suppressions", "."])).exits(0);
    assert_eq!(run.err, "note: wrote 4 comments in 2 files\n");
    run.prints("no findings in 2 files (2 objects); 4 suppressed");
    let after = read(&folder, "a.yaml");
    let without: Vec<&str> = after.lines().filter(|line| line.trim() != COMMENT).collect();
    assert_eq!(without, POD.lines().collect::<Vec<_>>());
    assert_eq!(serde_yaml::from_str::<serde_yaml::Value>(&after).unwrap(), before);
    let crlf = read(&folder, "b/crlf.yaml");
    assert_eq!(crlf, after.replace('\n', "\r\n"));
    folder.run(&check(&["."])).exits(0).prints("no findings");
    let again = folder.run(&check(&["--add-suppressions", "."])).exits(0);
    assert_eq!(again.err, "note: wrote 0 comments in 0 files\n");
    assert_eq!(read(&folder, "a.yaml"), after);
}

#[test]
fn a_reason_is_written_and_checked() {
    let folder = Folder::new().with("a.yaml", POD);
    for (reason, error) in [
        ("...", "--reason: the reason of a suppression has no word"),
        ("a\nb", "--reason: the reason of a suppression is one line"),
        ("later until=2031-01-01", "--reason: `until=` belongs directly after the `]`"),
    ] {
        folder.run(&check(&["--add-suppressions", "--reason", reason, "."])).exits(2).complains(error);
    }
    assert_eq!(read(&folder, "a.yaml"), POD);
    folder.run(&check(&["--reason", "x", "."])).exits(2).complains("--add-suppressions");
    let dated = ["--add-suppressions", "--reason", "until=2091-01-31 ticket 12", "."];
    folder.run(&check(&dated)).exits(0);
    assert!(
        read(&folder, "a.yaml").contains("# gpulint: allow[gpu-limit-mismatch] until=2091-01-31 ticket 12\n")
    );
}

#[test]
fn what_can_have_no_comment_is_said() {
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\"containers\": \
                [{\"name\": \"a\", \"image\": \"a:1\", \"resources\": {\"requests\": {\"nvidia.com/gpu\": 1}, \"limits\": \
                {\"nvidia.com/gpu\": 2}}}]}}\n";
    let folder = Folder::new().with("a.json", json).with("b.yaml", POD);
    let run = folder.run(&check(&["--add-suppressions", "."])).exits(1);
    let run = run.complains(
        "note: a.json:1: gpu-limit-mismatch is not suppressed: JSON has no comments: set the annotation",
    );
    run.prints("1 error in 2 files");
    assert_eq!(read(&folder, "a.json"), json);
    let piped = folder.run_with(&check(&["--add-suppressions", "-"]), POD).exits(1);
    piped.complains("it is not in a file");
}

#[test]
fn what_is_in_the_baseline_gets_no_comment() {
    let folder = Folder::new().with("a.yaml", POD);
    folder.run(&check(&["--write-baseline", "known.yaml", "."])).exits(0);
    folder.run(&check(&["--baseline", "known.yaml", "--add-suppressions", "."])).exits(0);
    assert_eq!(read(&folder, "a.yaml"), POD);
}

/// The example of the README and of the manual is copied: below a NodePool, it suppresses.
#[test]
fn the_printed_example_suppresses() {
    const POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\n";
    const SPEC: &str = "    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
";
    for page in ["README.md", "docs/src/findings.md"] {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
        let mut blocks = page.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
        let example =
            blocks.find(|block| block.contains("# gpulint: allow[gpu-pool-without-limit]")).unwrap();
        let template = if example.contains("template:") { "" } else { "  template:\n" };
        let folder = Folder::new().with("pool.yaml", format!("{POOL}{example}{template}{SPEC}"));
        let select = ["check", "--select", "gpu-pool-without-limit,suppression", "."];
        folder.run(&select).exits(0).prints("; 1 suppressed");
    }
}
