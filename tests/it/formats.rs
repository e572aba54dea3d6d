//! The formats for other programs: SARIF, workflow commands of GitHub, Code Quality of GitLab, JUnit, reviewdog.

use serde_json::Value;

use crate::support::{Folder, command, finish};

/// A manifest with one error and one warning.
const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}
  limits: {nvidia.com/gpu: 8}
";

/// The one run of a SARIF log.
fn run_of(text: &str) -> Value {
    let mut log: Value = serde_json::from_str(text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
    log["runs"][0].take()
}

#[test]
fn several_formats_are_written_at_once() {
    let folder = Folder::new().with("a.yaml", POOL);
    let args = ["check", "--format", "sarif=a.sarif,github=a.txt", "-f", "concise"];
    folder.run(&args).exits(1).prints("a.yaml:6:5: error[gpu-pool-untainted]");
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    assert!(read("a.txt").contains(
        "::error file=a.yaml,line=6,endLine=6,col=5,endColumn=9,title=gpulint%3A gpu-pool-untainted::"
    ));
    assert_eq!(run_of(&read("a.sarif"))["results"][0]["ruleId"], "gpu-pool-untainted");
}

#[test]
fn the_environment_names_formats_that_arguments_replace() {
    let folder = Folder::new().with("a.yaml", POOL);
    let run = |args: &[&str], formats: &str| {
        let output = command(&folder.0, args).env("GPULINT_FORMAT", formats).output().unwrap();
        finish(output)
    };
    run(&["check"], "concise,sarif=env.sarif").exits(1).prints("a.yaml:6:5: error[");
    assert!(folder.0.join("env.sarif").exists());
    run(&["check", "-f", "github"], "json,sarif=other.sarif").exits(1).prints("::error file=a.yaml");
    assert!(!folder.0.join("other.sarif").exists());
    run(&["check"], "xml").exits(2).complains("the formats are text");
}

#[test]
fn the_help_and_the_completions_name_the_formats() {
    let folder = Folder::new();
    let help = folder.run(&["check", "--help"]).exits(0);
    for format in ["text", "concise", "json", "sarif", "github"] {
        assert!(help.out.contains(&format!("- {format}:")), "{format}: {}", help.out);
    }
    assert!(help.out.contains("GPULINT_FORMAT"));
    folder.run(&["completions", "bash"]).exits(0).prints("text concise json sarif github");
}
