//! Files of one set in which `¦` is the cursor, and the locations that are found there.

use gpulint_rules::lint::report::CheckReport;
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, File, Location, Settings};

use super::{definition, references};
use crate::lsp::view::{SetView, View};

/// The locations in order, each as the file and its line.
fn shown(locations: &[Location]) -> Vec<String> {
    let one = |location: &Location| {
        let (source, _, span) = location.resolve_span().expect("a place");
        let text = source.text();
        let start = text[..span.start as usize].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        format!("{}: {}", source.path(), line.trim())
    };
    locations.iter().map(one).collect()
}

/// Calls `asked` with a view of the file that contains the cursor. Each set has all files, in a cluster of
/// its own.
fn ask<T>(files: &[(&str, &str)], sets: usize, asked: impl FnOnce(&View<'_>, u32) -> T) -> T {
    let mut parsed = Vec::new();
    let mut cursor = None;
    for (number, (path, text)) in files.iter().enumerate() {
        if let Some(at) = text.find('¦') {
            cursor = Some((number, u32::try_from(at).expect("short")));
        }
        parsed.push(File::read(Source::from_text(path, &text.replacen('¦', "", 1))));
    }
    let clusters: Vec<Cluster> = (0..sets)
        .map(|_| {
            let mut cluster = Cluster::new(false);
            for object in parsed.iter().flat_map(|file| &file.objects) {
                cluster.apply(object.clone());
            }
            cluster
        })
        .collect();
    let (number, offset) = cursor.expect("a cursor");
    let engine = Engine::new(Settings::default());
    let report = CheckReport::default();
    let view = View {
        file: &parsed[number],
        report: &report,
        engine: &engine,
        sets: clusters.iter().map(|cluster| SetView { name: None, cluster }).collect(),
    };
    asked(&view, offset)
}

const FILES: &[(&str, &str)] = &[
    (
        "a-class.yaml",
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu-class\nspec:\n  role: a\n",
    ),
    (
        "b-pool.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: gpu-pool\nspec:\n  template:\n    spec:\n      nodeClassRef:\n        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n        name: gpu-class # class\n      requirements: []\n",
    ),
    (
        "c-server.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: server\nspec:\n  selector: {matchLabels: {app: server}}\n  template:\n    metadata: {labels: {app: server}}\n    spec:\n      priorityClassName: high # priority\n      nodeSelector:\n        karpenter.sh/nodepool: gpu-pool # selected\n      resourceClaims:\n        - name: gpu\n          resourceClaimTemplateName: one-gpu # claim\n      containers: [{name: a}]\n",
    ),
    (
        "d-scaled.yaml",
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: scaled\nspec:\n  scaleTargetRef:\n    name: server # target\n  triggers:\n    - type: aws-sqs-queue\n      metadata: {}\n      authenticationRef:\n        name: sqs # authentication\n",
    ),
    (
        "e-pdb.yaml",
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: pdb\nspec:\n  selector: # of the PDB\n    matchLabels:\n      app: server # label\n",
    ),
    (
        "f-others.yaml",
        "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata:\n  name: sqs\nspec: {}\n---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: one-gpu\nspec:\n  spec:\n    devices:\n      requests:\n        - name: gpu\n          exactly:\n            deviceClassName: gpu.example.com # device\n---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: gpu.example.com\nspec: {}\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: high\nvalue: 1\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: service\nspec:\n  selector: # of the Service\n    app: server\n",
    ),
];

/// The files, with the cursor before a text in one of them.
fn at(path: &str, text: &str) -> Vec<(&'static str, String)> {
    let mark = |(name, content): &(&'static str, &str)| {
        let is_it = *name == path;
        assert!(!is_it || content.contains(text), "no {text} in {path}");
        (*name, if is_it { content.replacen(text, &format!("¦{text}"), 1) } else { (*content).to_owned() })
    };
    FILES.iter().map(mark).collect()
}

fn defined(path: &str, text: &str) -> Vec<String> {
    let files = at(path, text);
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    ask(&files, 2, |view, offset| shown(&definition(view, offset)))
}

fn referred(path: &str, text: &str, with_declaration: bool) -> Vec<String> {
    let files = at(path, text);
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    ask(&files, 2, |view, offset| shown(&references(view, offset, with_declaration)))
}

#[test]
fn names_lead_to_objects() {
    for (path, text, found) in [
        ("b-pool.yaml", "gpu-class # class", "a-class.yaml: name: gpu-class"),
        ("b-pool.yaml", "EC2NodeClass", "a-class.yaml: name: gpu-class"),
        ("b-pool.yaml", "nodeClassRef", "a-class.yaml: name: gpu-class"),
        ("c-server.yaml", "gpu-pool # selected", "b-pool.yaml: name: gpu-pool"),
        ("c-server.yaml", "one-gpu # claim", "f-others.yaml: name: one-gpu"),
        ("c-server.yaml", "high # priority", "f-others.yaml: name: high"),
        ("d-scaled.yaml", "server # target", "c-server.yaml: name: server"),
        ("d-scaled.yaml", "scaleTargetRef", "c-server.yaml: name: server"),
        ("d-scaled.yaml", "sqs # authentication", "f-others.yaml: name: sqs"),
        ("e-pdb.yaml", "server # label", "c-server.yaml: name: server"),
        ("e-pdb.yaml", "selector: # of", "c-server.yaml: name: server"),
        ("f-others.yaml", "selector: # of the Service", "c-server.yaml: name: server"),
        ("f-others.yaml", "gpu.example.com # device", "f-others.yaml: name: gpu.example.com"),
    ] {
        assert_eq!(defined(path, text), [found], "{path}: {text}");
    }
    assert!(defined("b-pool.yaml", "gpu-pool").is_empty());
    assert!(defined("d-scaled.yaml", "aws-sqs-queue").is_empty());
}

#[test]
fn objects_lead_to_what_names_them() {
    for (path, text, found) in [
        ("a-class.yaml", "gpu-class", &["b-pool.yaml: name: gpu-class # class"][..]),
        ("b-pool.yaml", "gpu-class # class", &["b-pool.yaml: name: gpu-class # class"]),
        ("b-pool.yaml", "gpu-pool", &["c-server.yaml: karpenter.sh/nodepool: gpu-pool # selected"]),
        (
            "c-server.yaml",
            "server\n",
            &[
                "d-scaled.yaml: name: server # target",
                "e-pdb.yaml: selector: # of the PDB",
                "f-others.yaml: selector: # of the Service",
            ],
        ),
        ("f-others.yaml", "sqs", &["d-scaled.yaml: name: sqs # authentication"]),
        ("f-others.yaml", "one-gpu", &["c-server.yaml: resourceClaimTemplateName: one-gpu # claim"]),
        ("f-others.yaml", "high", &["c-server.yaml: priorityClassName: high # priority"]),
    ] {
        assert_eq!(referred(path, text, false), found, "{path}: {text}");
    }
    assert_eq!(
        referred("a-class.yaml", "gpu-class", true),
        ["a-class.yaml: name: gpu-class", "b-pool.yaml: name: gpu-class # class"]
    );
}
