//! `gpulint check --karpenter VERSION` beside the version of the configuration.

use serde_json::{Value, json};

use crate::support::Folder;

/// A duration with text after it, which Karpenter rejects from 1.4 on, and `reserved`, which needs a feature gate below 1.6.
const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  replicas: 2
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1hr}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, reserved]}
";

const CLAIM: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: a, image: 'example.com/a:1', resources: {claims: [{name: gpu}]}}]
";

const SELECT: [&str; 2] =
    ["--select", "duration-undecodable,crashes-karpenter,invalid-value,field-needs-newer-version"];

pub(crate) fn folder(version: &str) -> Folder {
    Folder::new()
        .with("pool.yaml", POOL)
        .with("pod.yaml", CLAIM)
        .with("gpulint.yaml", format!("platform: {{karpenter: \"{version}\"}}\n"))
}

fn check(folder: &Folder, args: &[&str]) -> crate::support::Run {
    folder.run(&[&["check"][..], &SELECT, args].concat())
}

#[test]
fn findings_that_come_and_go_with_a_version() {
    let folder = folder("1.3");
    let run = check(&folder, &["--karpenter", "1.14"]).exits(1);
    let run = run
        .prints("note: new with Karpenter 1.14\n")
        .prints("preview of Karpenter 1.3 → 1.14\n")
        .prints("  1 finding is new, marked below\n")
        .prints("  goes away: pool.yaml:5:3: warning[field-needs-newer-version] Karpenter 1.3 ignores `spec.replicas`, which came with 1.8\n")
        .prints("  1.12 permissions: `ec2:DescribeInstanceStatus` is needed")
        .prints("  changes: pool.yaml:11:")
        .prints("from Karpenter 1.6 on reserved capacity is used without the feature gate")
        .prints("  changes: pod.yaml:5:")
        .prints("from Karpenter 1.7 on Karpenter starts no nodes for pods with resource claims\n");
    assert!(run.out.starts_with("preview of"), "{run:#?}");
    let run = check(&folder, &["--karpenter", "1.14", "-f", "concise"]).exits(1);
    assert_eq!(run.out.matches("(new with Karpenter 1.14)").count(), 1, "{run:#?}");
    assert!(run.out.starts_with("preview of Karpenter 1.3 → 1.14\n"), "{run:#?}");
    let run = run.prints("  goes away: pool.yaml:5:3: warning");
    assert!(run.out.lines().last().unwrap().contains(" in 2 files"), "{run:#?}");
    let quiet = check(&folder, &["--karpenter", "1.14", "-f", "concise", "-q"]).exits(1);
    assert!(!quiet.out.contains("preview of"), "{quiet:#?}");
}

/// The version that a chart installs is the one of the cluster.
#[test]
fn a_version_that_the_files_show_is_compared() {
    const CHART: &str = "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: karpenter, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: kube-system}
  source: {repoURL: public.ecr.aws/karpenter, chart: karpenter, targetRevision: 1.3.2}
";
    let folder = Folder::new().with("pool.yaml", POOL).with("karpenter.yaml", CHART);
    check(&folder, &["--karpenter", "1.14"])
        .prints("preview of Karpenter 1.3 → 1.14\n")
        .prints("  1 finding is new, marked below\n");
    // The newest that gpulint knows is newer than what the files show.
    check(&folder, &["--karpenter", "1.15"]).prints("preview of Karpenter 1.3 → 1.15\n");
    let same = check(&folder, &["--karpenter", "1.3"]);
    assert!(!same.out.contains("preview"), "{same:#?}");
}

#[test]
fn the_preview_as_json() {
    let folder = folder("1.3");
    let run = check(&folder, &["--karpenter", "1.14", "-f", "json"]).exits(1);
    let report = run.json();
    let preview = &report["preview"];
    assert_eq!(
        preview["products"],
        json!([{"name": "Karpenter", "from": "1.3", "to": "1.14", "note": null}])
    );
    assert_eq!(preview["new"], json!([report["diagnostics"][0]["fingerprint"]]));
    assert_eq!(preview["gone"][0]["rule"], "field-needs-newer-version");
    assert_eq!(preview["changes"].as_array().unwrap().len(), 2);
    let upgrade = preview["upgrade"].as_array().unwrap();
    assert!(upgrade.iter().all(|note| note["version"] != "1.3" && note["version"] != "1.15"), "{upgrade:#?}");
    let drift = json!({"product": "Karpenter", "version": "1.12", "topic": "nodes",
        "text": "the cluster's CA bundle is part of the hash: existing nodes drift and are replaced within the budgets"});
    assert!(upgrade.contains(&drift), "{upgrade:#?}");
}

#[test]
fn a_version_is_compared_with_what_the_configuration_says() {
    // Equal versions: there is nothing to compare.
    let run = check(&folder("1.14"), &["--karpenter", "1.14"]);
    assert!(!run.out.contains("preview"), "{run:#?}");
    let json: Value = serde_json::from_str(&check(&folder("1.14"), &["-f", "json"]).out).unwrap();
    assert_eq!(json["preview"], Value::Null);
    // Without a configuration, an older version is the one of the cluster; a version newer than the default
    // is a preview.
    let plain = Folder::new().with("pool.yaml", POOL);
    let run = check(&plain, &["--karpenter", "1.9"]);
    assert!(!run.out.contains("preview"), "{run:#?}");
    check(&plain, &["--karpenter", "1.16"])
        .prints("preview of Karpenter 1.15 → 1.16\n")
        .prints("  Karpenter 1.16 is judged as 1.15, the newest that gpulint knows\n")
        .prints("  no finding is new\n");
    check(&plain, &["--kubernetes", "1.37"]).prints("preview of Kubernetes 1.36 → 1.37\n");
    check(&plain, &["--karpenter", "2.0"]).exits(2).complains("gpulint knows Karpenter 1.0 to 1.15, not 2.0");
}

#[test]
fn a_version_beside_which_none_is_known_is_not_compared() {
    let folder = Folder::new().with("pool.yaml", POOL);
    let head = "Karpenter 1.15 is not compared: no file shows which version runs; `platform.karpenter` in gpulint.yaml states it\n";
    let run = check(&folder, &["--karpenter", "1.15"]).prints("  1.15 crds: ");
    assert!(run.out.starts_with(head) && !run.out.contains("  1.14 "), "{run:#?}");
    let quiet = check(&folder, &["--karpenter", "1.15", "-q"]);
    assert!(!quiet.out.contains("not compared"), "{quiet:#?}");
    let json = check(&folder, &["--karpenter", "1.15", "-f", "json"]).json();
    assert_eq!(json["preview"], Value::Null);
    check(&folder, &["--keda", "2.21"]).prints("KEDA 2.21 is not compared: ");
    // A configuration in a folder without one above it.
    let folder =
        Folder::new().with("a/pool.yaml", POOL).with("a/gpulint.yaml", "platform: {karpenter: \"1.3\"}\n");
    let run = check(&folder, &["--karpenter", "1.14"]).prints("preview of Karpenter 1.3 → 1.14\n");
    assert!(!run.out.contains("not compared"), "{run:#?}");
}

#[test]
fn what_was_fixed_is_not_new() {
    let folder = folder("1.3");
    let run = check(&folder, &["--karpenter", "1.14", "--fix", "--unsafe-fixes"]);
    assert!(run.out.contains("preview of Karpenter 1.3 → 1.14"), "{run:#?}");
}
