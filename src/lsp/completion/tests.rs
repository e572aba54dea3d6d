//! Completions in texts in which `¦` is the cursor.

use gpulint_rules::lint::report::CheckReport;
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, File, Node, Settings, Version};

use super::sketch::{self, Sketch};
use super::{Item, configuration, manifest};
use crate::lsp::view::{SetView, View};

const POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\nspec:\n";

fn cut(marked: &str) -> (String, u32) {
    let at = marked.find('¦').expect("a cursor");
    (marked.replacen('¦', "", 1), u32::try_from(at).expect("short"))
}

fn items(marked: &str) -> Vec<Item> {
    let (text, offset) = cut(marked);
    manifest(&text, offset, None)
}

fn labels(marked: &str) -> Vec<String> {
    items(marked).into_iter().map(|item| item.label).collect()
}

/// The text after an item was inserted.
fn chosen(marked: &str, label: &str) -> String {
    let (text, offset) = cut(marked);
    let items = manifest(&text, offset, None);
    let item = items.iter().find(|item| item.label == label).unwrap_or_else(|| panic!("{label} of {marked}"));
    let (start, end) = (item.span.start as usize, item.span.end as usize);
    format!("{}{}{}", &text[..start], item.insert, &text[end..])
}

/// The labels in a set of other files.
fn labels_among(marked: &str, others: &[&str]) -> Vec<String> {
    labels_on(marked, others, Settings::default())
}

/// The labels in a set of other files, with other settings.
fn labels_on(marked: &str, others: &[&str], settings: Settings) -> Vec<String> {
    let (text, offset) = cut(marked);
    let file = File::read(Source::from_text("a.yaml", &text));
    let mut cluster = Cluster::new(false);
    for other in others {
        let file = File::read(Source::from_text("b.yaml", other));
        file.objects.iter().for_each(|object| cluster.apply(object.clone()));
    }
    file.objects.iter().for_each(|object| cluster.apply(object.clone()));
    let engine = Engine::new(settings);
    let report = CheckReport::default();
    let view = View {
        file: &file,
        report: &report,
        engine: &engine,
        sets: vec![SetView { name: None, cluster: &cluster }],
    };
    manifest(&text, offset, Some(&view)).into_iter().map(|item| item.label).collect()
}

#[track_caller]
fn has(marked: &str, wanted: &[&str]) {
    let found = labels(marked);
    for label in wanted {
        assert!(found.iter().any(|one| one == label), "no {label} in {found:?} of\n{marked}");
    }
}

#[track_caller]
fn is(marked: &str, wanted: &[&str]) {
    assert_eq!(labels(marked), wanted, "{marked}");
}

#[track_caller]
fn none(marked: &str) {
    is(marked, &[]);
}

#[test]
fn fields_follow_from_the_schema() {
    is(&format!("{POOL}  ¦"), &["template", "weight", "replicas", "limits", "disruption"]);
    // Fields that exist are left out, also those after the cursor.
    is(&format!("{POOL}  weight: 1\n  ¦\n  limits: {{}}\n"), &["template", "replicas", "disruption"]);
    is(
        &format!("{POOL}  template:\n    spec:\n      ¦\n"),
        &["nodeClassRef", "requirements", "expireAfter", "terminationGracePeriod", "taints", "startupTaints"],
    );
    // An incomplete name, and a line after it that does not parse.
    has(&format!("{POOL}  wei¦\n  limits\n"), &["weight"]);
    has(&format!("{POOL}  broken: [\n  wei¦\n"), &["weight"]);
    has(&format!("{POOL}  broken: \"x\n  wei¦\n"), &["weight"]);
    // At the start of a line, the fields of the object are listed.
    is(&format!("{POOL}  weight: 1\n¦"), &[]);
    is("apiVersion: karpenter.sh/v1\nkind: NodePool\n¦", &["metadata", "spec"]);
    is("¦", &["apiVersion", "kind", "metadata", "spec"]);
    none("replicaCount: 1\n¦");
    is("kind: NodePool\n¦", &["apiVersion", "metadata", "spec"]);
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      ¦\n", &["image", "resources"]);
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    ¦\n", &["image", "resources"]);
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - ¦\n", &["name", "image"]);
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - na¦\n", &["name"]);
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    ¦\n", &["- name", "- image"]);
    has("apiVersion: v1\nkind: Pod\nspec: {con¦}\n", &["containers"]);
    has("apiVersion: v1\nkind: Pod\nspec: {hostNetwork: true, ¦\n", &["containers"]);
    has("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, ¦}]}\n", &["image"]);
    has("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"spec\": {\"¦\"}}", &["containers"]);
    // The fields of the template in a kind without a schema.
    has(
        "apiVersion: ray.io/v1\nkind: RayCluster\nspec:\n  headGroupSpec:\n    template:\n      spec:\n        ¦\n",
        &["containers", "tolerations"],
    );
}

#[test]
fn other_documents_do_not_matter() {
    let broken = "a: [\nb: }\n---\n";
    has(&format!("{broken}{POOL}  ¦\n---\n- - {{\n"), &["template"]);
    has(&format!("{broken}apiVersion: v1\nkind: Pod\nspec:\n  ¦"), &["containers"]);
    has("apiVersion: v1\r\nkind: Pod\r\nspec:\r\n  ¦\r\n---\r\n", &["containers"]);
    has(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec:\n    ¦\n",
        &["containers"],
    );
}

#[test]
fn fields_are_written_with_their_indent() {
    let spec = format!("{POOL}  ¦\n");
    assert_eq!(chosen(&spec, "weight"), format!("{POOL}  weight: \n"));
    assert_eq!(chosen(&spec, "template"), format!("{POOL}  template:\n    \n"));
    let deep = format!("{POOL}  template:\n    spec:\n      req¦\n");
    assert_eq!(chosen(&deep, "requirements"), deep.replace("req¦", "requirements:\n        - "));
    // For a field that has a value, only its name is replaced.
    assert_eq!(chosen(&format!("{POOL}  lim¦its: {{}}\n"), "weight"), format!("{POOL}  weight: {{}}\n"));
    assert_eq!(chosen("kind: Pod\r\n¦", "metadata"), "kind: Pod\r\nmetadata:\r\n  ");
    assert_eq!(
        chosen("apiVersion: v1\nkind: Pod\nspec: {¦}", "containers"),
        "apiVersion: v1\nkind: Pod\nspec: {containers: }"
    );
    let list = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    ¦";
    assert_eq!(chosen(list, "- name"), list.replace('¦', "- name: "));
}

#[test]
fn values_follow_from_the_schema() {
    is(
        &format!("{POOL}  disruption:\n    consolidationPolicy: ¦\n"),
        &["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
    );
    is(
        &format!("{POOL}  disruption:\n    budgets:\n      - reasons: [Empty, ¦]\n"),
        &["Underutilized", "Drifted", "Unhealthy"],
    );
    is(
        &format!("{POOL}  disruption:\n    budgets:\n      - reasons:\n          - ¦\n"),
        &["Underutilized", "Empty", "Drifted", "Unhealthy"],
    );
    is("apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: \"¦\"\n", &["Always", "OnFailure", "Never"]);
    is("apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: ¦\n", &["true", "false"]);
    assert_eq!(
        chosen("apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: On¦Fail\n", "Never"),
        "apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: Never\n"
    );
    none("apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: Always ¦\n");
    none("apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy:¦\n");
}

#[test]
fn kinds_and_versions_follow_from_each_other() {
    let all = labels("apiVersion: v1\nkind: ¦");
    assert!(all.iter().any(|kind| kind == "Pod") && !all.iter().any(|kind| kind == "NodePool"));
    is("apiVersion: karpenter.sh/v1\nkind: ¦\n", &["NodePool", "NodeClaim"]);
    let versions = labels("apiVersion: ¦\nkind: NodePool\n");
    assert_eq!(versions.first().map(String::as_str), Some("karpenter.sh/v1"));
    has("kind: Sc¦\n", &["ScaledObject", "ScaledJob"]);
    has("apiVersion: ¦\n", &["apps/v1", "karpenter.sh/v1", "keda.sh/v1alpha1"]);
}

#[test]
fn requirements_know_labels_operators_and_values() {
    let spec = format!("{POOL}  template:\n    spec:\n      requirements:\n");
    has(
        &format!("{spec}        - key: ¦\n"),
        &["node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"],
    );
    has(
        &format!("{spec}        - key: karpenter.k8s.aws/instance-g¦\n          operator: In\n"),
        &["karpenter.k8s.aws/instance-gpu-name"],
    );
    let word = format!("{spec}        - key: karpenter.k8s.aws/inst¦ance-g # x\n");
    assert_eq!(
        chosen(&word, "kubernetes.io/arch"),
        word.replace("karpenter.k8s.aws/inst¦ance-g", "kubernetes.io/arch")
    );
    // A key that another requirement already has.
    let twice = labels(&format!("{spec}        - key: kubernetes.io/arch\n        - key: ¦\n"));
    assert!(!twice.contains(&"kubernetes.io/arch".to_owned()));
    is(
        &format!("{spec}        - key: a\n          operator: ¦\n"),
        &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"],
    );
    for values in
        ["values: [¦]", "values: [\"¦\"]", "values:\n            - ¦", "values: [¦", "values: [a, ¦"]
    {
        let text =
            format!("{spec}        - key: kubernetes.io/arch\n          operator: In\n          {values}\n");
        is(&text, &["amd64", "arm64"]);
    }
    is(
        &format!("{spec}        - {{key: karpenter.sh/capacity-type, operator: In, values: [spot, ¦]}}\n"),
        &["on-demand", "reserved"],
    );
    let types = items(&format!(
        "{spec}        - key: node.kubernetes.io/instance-type\n          operator: In\n          values: [p5¦]\n"
    ));
    let p5 = types.iter().find(|item| item.label == "p5.48xlarge").expect("a type");
    assert_eq!(p5.detail.as_deref(), Some("8 × h100 with 80 GiB, 192 vCPUs, 2048 GiB, 32 EFA"));
    // Numbers stay strings.
    let generation = format!(
        "{spec}        - key: karpenter.k8s.aws/instance-generation\n          operator: Gt\n          values: [¦]\n"
    );
    assert!(chosen(&generation, "5").contains("values: [\"5\"]"));
    has(
        &format!(
            "{spec}        - key: karpenter.k8s.aws/instance-gpu-name\n          values: [\n            ¦\n          ]\n"
        ),
        &["h100", "l4"],
    );
}

#[test]
fn requirements_of_auto_mode_have_its_labels() {
    let class = "nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}";
    let spec = format!("{POOL}  template:\n    spec:\n      {class}\n      requirements:\n        - ");
    let keys = labels(&format!("{spec}key: ¦\n"));
    for key in ["eks.amazonaws.com/instance-family", "karpenter.sh/capacity-type", "kubernetes.io/arch"] {
        assert!(keys.iter().any(|known| known == key), "{key}");
    }
    let is_foreign = |key: &String| key.starts_with("karpenter.k8s.aws/") || key.ends_with("-tenancy");
    assert!(!keys.iter().any(is_foreign), "{keys:?}");
    has(&format!("{spec}{{key: eks.amazonaws.com/instance-gpu-name, values: [¦]}}\n"), &["h100", "l4"]);
}

#[test]
fn versions_and_regions_count() {
    let mut settings = Settings::default();
    settings.platform.karpenter = Version::new(1, 8);
    settings.platform.region = Some("eu-central-2".to_owned());
    let spec = format!("{POOL}  template:\n    spec:\n      requirements:\n        - ");
    let on = |text: &str| labels_on(&format!("{spec}{text}\n"), &[], settings.clone());
    assert_eq!(on("operator: ¦"), ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    assert!(!on("key: ¦").contains(&"karpenter.k8s.aws/instance-tenancy".to_owned()));
    let types = on("{key: node.kubernetes.io/instance-type, values: [¦]}");
    assert!(
        types.contains(&"m5.large".to_owned()) && !types.contains(&"p5.48xlarge".to_owned()),
        "{types:?}"
    );
}

#[test]
fn taints_tolerations_and_resources_are_known() {
    let spec = format!("{POOL}  template:\n    spec:\n      taints:\n        - key: ¦\n");
    has(&spec, &["nvidia.com/gpu"]);
    is(&spec.replace("key: ¦", "effect: ¦"), &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    has(&format!("{POOL}  limits:\n    ¦\n"), &["cpu", "nvidia.com/gpu", "nodes"]);
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n";
    is(&format!("{pod}  tolerations:\n  - operator: ¦\n"), &["Exists", "Equal"]);
    has(&format!("{pod}  tolerations:\n  - key: ¦\n"), &["nvidia.com/gpu"]);
    let resources = format!("{pod}  containers:\n  - name: a\n    resources:\n      limits:\n        ¦\n");
    has(&resources, &["nvidia.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"]);
    assert_eq!(chosen(&resources, "nvidia.com/gpu"), resources.replace('¦', "nvidia.com/gpu: "));
    let half = resources.replace('¦', "nvidia.com/¦");
    assert_eq!(chosen(&half, "nvidia.com/gpu"), resources.replace('¦', "nvidia.com/gpu: "));
    has(&format!("{pod}  nodeSelector: {{¦}}\n"), &["karpenter.sh/nodepool", "kubernetes.io/arch"]);
    is(&format!("{pod}  nodeSelector:\n    kubernetes.io/arch: ¦\n"), &["amd64", "arm64"]);
    let affinity = format!(
        "{pod}  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions:\n          - "
    );
    has(&format!("{affinity}key: ¦\n"), &["karpenter.k8s.aws/instance-family"]);
    is(&format!("{affinity}key: kubernetes.io/os\n            values: [¦]\n"), &["linux", "windows"]);
    is(&format!("{affinity}operator: ¦\n"), &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
}

#[test]
fn triggers_know_their_metadata() {
    let scaled =
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec:\n  triggers:\n";
    has(&format!("{scaled}  - type: ¦\n"), &["prometheus", "aws-sqs-queue", "cron"]);
    let metadata = format!("{scaled}  - type: prometheus\n    metadata:\n      ¦\n");
    let keys = items(&metadata);
    assert!(keys[0].detail.as_deref().is_some_and(|detail| detail.starts_with("required")), "{:?}", keys[0]);
    has(&metadata, &["serverAddress", "threshold", "query", "ignoreNullValues"]);
    let written = labels(&metadata.replace('¦', "threshold: \"1\"\n      ¦"));
    assert!(!written.contains(&"threshold".to_owned()));
    let authenticated = metadata.replace('¦', "authModes: \"¦\"");
    has(&authenticated, &["bearer", "basic"]);
    let boolean = metadata.replace('¦', "ignoreNullValues: ¦");
    assert_eq!(chosen(&boolean, "true"), boolean.replace('¦', "\"true\""));
    is(&format!("{scaled}  - type: cpu\n    metricType: ¦\n"), &["AverageValue", "Value", "Utilization"]);
    is(
        &format!("{scaled}  - type: cpu\n    authenticationRef:\n      kind: ¦\n"),
        &["TriggerAuthentication", "ClusterTriggerAuthentication"],
    );
}

#[test]
fn names_are_those_of_the_sets() {
    let others = [
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu-class}\nspec: {role: a}\n",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu-pool}\nspec:\n  template:\n    metadata: {labels: {team: ml}}\n    spec:\n      taints: [{key: team, value: ml, effect: NoSchedule}]\n      requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: server, namespace: ml}\nspec:\n  template:\n    metadata: {labels: {app: server}}\n    spec: {containers: [{name: a}]}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: elsewhere, namespace: other}\nspec:\n  template:\n    metadata: {labels: {app: other}}\n    spec: {containers: [{name: a}]}\n",
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: one-gpu, namespace: ml}\nspec: {spec: {}}\n",
        "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: sqs, namespace: ml}\nspec: {}\n",
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: training}\nvalue: 1\n",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: ml}\n",
    ];
    let among = |marked: &str| labels_among(marked, &others);
    let pool = format!(
        "{POOL}  template:\n    spec:\n      nodeClassRef:\n        kind: EC2NodeClass\n        name: ¦\n"
    );
    assert_eq!(among(&pool), ["gpu-class"]);
    let scaled =
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a, namespace: ml}\nspec:\n";
    assert_eq!(among(&format!("{scaled}  scaleTargetRef:\n    name: ¦\n")), ["server"]);
    assert_eq!(among(&format!("{scaled}  triggers:\n  - authenticationRef: {{name: ¦}}\n")), ["sqs"]);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ml}\nspec:\n";
    assert_eq!(among(&format!("{pod}  nodeSelector:\n    karpenter.sh/nodepool: ¦\n")), ["gpu-pool"]);
    assert_eq!(among(&format!("{pod}  nodeSelector:\n    team: ¦\n")), ["ml"]);
    assert_eq!(among(&format!("{pod}  nodeSelector:\n    topology.kubernetes.io/zone: ¦\n")), ["us-east-1a"]);
    assert!(among(&format!("{pod}  nodeSelector:\n    ¦\n")).contains(&"team".to_owned()));
    assert_eq!(among(&format!("{pod}  resourceClaims:\n  - resourceClaimTemplateName: ¦\n")), ["one-gpu"]);
    assert_eq!(among(&format!("{pod}  priorityClassName: ¦\n"))[0], "training");
    assert_eq!(among(&format!("{pod}  tolerations:\n  - key: ¦\n"))[0], "team");
    assert_eq!(among(&format!("{pod}  tolerations:\n  - key: team\n    value: ¦\n")), ["ml"]);
    assert_eq!(among("apiVersion: v1\nkind: Pod\nmetadata:\n  namespace: ¦\n"), ["ml"]);
    let pdb = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: ml}\nspec:\n  selector:\n    matchLabels:\n";
    assert_eq!(among(&format!("{pdb}      ¦\n")), ["app"]);
    assert_eq!(among(&format!("{pdb}      app: ¦\n")), ["server"]);
}

#[test]
fn suppressions_know_rules() {
    let head = "apiVersion: v1\nkind: Pod\n";
    is(&format!("{head}# gpul¦\n"), &["gpulint: allow["]);
    is(&format!("{head}# gpulint: ¦\n"), &["allow["]);
    assert_eq!(chosen(&format!("{head}# gpulint: al¦\n"), "allow["), format!("{head}# gpulint: allow[\n"));
    has(&format!("{head}spec: {{}} # gpulint: allow[¦]\n"), &["gpu-pool-untainted"]);
    let second = format!("{head}# gpulint: allow[gpu-pool-untainted, pdb-¦] x\n");
    has(&second, &["pdb-blocks-evictions"]);
    assert!(!labels(&second).contains(&"gpu-pool-untainted".to_owned()));
    assert!(
        chosen(&second, "pdb-blocks-evictions").contains("allow[gpu-pool-untainted, pdb-blocks-evictions] x")
    );
    is(&format!("{head}# gpulint: allow[gpu-pool-untainted] ¦\n"), &["until="]);
    none(&format!("{head}# any comment ¦\n"));
    none(&format!("{head}metadata: # a comment ¦\n"));
}

#[test]
fn texts_are_left_alone() {
    let config = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: ¦\n    \n";
    none(config);
    none(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command:\n    - sh\n    - |\n      ¦\n      x\n",
    );
    // After a text the next field may follow.
    has("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args:\n    - |\n      x\n    ¦\n", &["name"]);
    none("---¦\nkind: Pod\n");
}

fn configured(marked: &str) -> Vec<String> {
    let (text, offset) = cut(marked);
    configuration(&text, offset).into_iter().map(|item| item.label).collect()
}

#[test]
fn configurations_know_keys_rules_and_levels() {
    let has = |marked: &str, wanted: &[&str]| {
        let found = configured(marked);
        for label in wanted {
            assert!(found.iter().any(|one| one == label), "no {label} in {found:?} of {marked}");
        }
    };
    has("¦", &["extends", "fail-on", "rules", "webhook"]);
    assert!(!configured("rules: {}\n¦").contains(&"rules".to_owned()));
    has("rules:\n  ¦", &["all", "nodepool", "gpu-pool-untainted"]);
    has("rules:\n  gpu-pool-untainted: ¦", &["off", "error", "warning"]);
    has("rules:\n  gpu-pool-untainted:\n    ¦", &["severity", "enabled"]);
    has("rules:\n  gpu-pool-untainted:\n    severity: ¦", &["error", "info"]);
    has("fail-on: ¦", &["never"]);
    has("platform:\n  eks: ¦", &["true", "false"]);
    has("platform:\n  ¦", &["karpenter", "region"]);
    has("overrides:\n- paths: [a]\n  ¦", &["rules", "namespaces"]);
    has("overrides:\n- paths: [a]\n  rules:\n    ¦", &["gpu-pool-untainted"]);
    has("webhook:\n  forbid-suppressions: [¦]", &["gpu-pool-untainted"]);
    has("webhook:\n  mutate: ¦", &["safe", "off"]);
}

/// Every manifest of the fixtures.
fn fixtures() -> Vec<(String, String)> {
    fn below(folder: &std::path::Path, out: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "json");
            if path.is_dir() {
                below(&path, out);
            } else if is_yaml && let Ok(text) = std::fs::read_to_string(&path) {
                out.push((path.display().to_string(), text));
            }
        }
    }
    let mut out = Vec::new();
    below(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"), &mut out);
    out.sort();
    assert!(out.len() > 500, "{} fixtures", out.len());
    out
}

/// Compares the sketch with the parsed document at each node.
fn compare(node: &Node<'_>, sketch: &Sketch<'_>, at: usize, out: &mut Vec<String>) {
    let pointer = || node.pointer().steps().join(".");
    if node.is_mapping() {
        for (key, child) in node.entries() {
            let (Some(found), Some(span)) = (sketch.child(at, key), child.key_span()) else {
                out.push(format!("{}: no {key}", pointer()));
                continue;
            };
            if sketch.nodes[found].key_span.map(|span| span.start) != Some(span.start) {
                out.push(format!("{}: {key} is elsewhere", pointer()));
            }
            compare(&child, sketch, found, out);
        }
    } else if node.is_sequence() {
        let items: Vec<Node<'_>> = node.items().collect();
        let found = &sketch.nodes[at].children;
        if items.len() != found.len() {
            out.push(format!("{}: {} items, not {}", pointer(), found.len(), items.len()));
        }
        for (item, found) in items.iter().zip(found) {
            compare(item, sketch, *found, out);
        }
    } else if let (Some(text), Some(found), Some(span)) = (node.raw_text(), sketch.scalar(at), node.span()) {
        let is_block = found.starts_with(['|', '>', '!']);
        let is_special = text.contains('\n') || found.contains(['\n', '\\', '\'']);
        let is_elsewhere = sketch.nodes[at].span.start != span.start && !node.is_null();
        if !is_block && (is_elsewhere || !is_special && !text.starts_with(found)) {
            out.push(format!("{}: `{found}`, not `{text}`", pointer()));
        }
    }
}

#[test]
fn the_sketch_has_what_the_reader_has() {
    let mut wrong = Vec::new();
    let mut count = 0;
    // Files in `invalid` may be indented in any way.
    for (path, text) in fixtures().into_iter().filter(|(path, _)| !path.contains("invalid/")) {
        let file = File::read(Source::from_text(&path, &text));
        for document in &file.documents {
            let range = document.span.start as usize..document.span.end as usize;
            // Anchors, merges and several documents in a chunk are supported by the parser only.
            let part = &text[range];
            let is_special = part.contains(['&', '*', '%'])
                || part.contains("<<")
                || part.contains("\n...")
                || part.contains("{{");
            let Some(root) = document.root().filter(|_| document.diagnostics.is_empty() && !is_special)
            else {
                continue;
            };
            let sketch = sketch::read(&text, root.span().map_or(document.span.start, |span| span.start));
            let mut found = Vec::new();
            compare(&root, &sketch, 0, &mut found);
            count += 1;
            wrong.extend(found.into_iter().take(3).map(|what| format!("{path}: {what}")));
        }
    }
    assert!(count > 500, "{count} documents");
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

/// Pseudo-random numbers that are equal in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

#[test]
fn completion_survives_every_text() {
    let mut numbers = Numbers(1);
    let scraps = [
        "\"",
        "'",
        "[",
        "{",
        "- ",
        ": ",
        "\t",
        "|",
        "#",
        "\n",
        "}",
        "]",
        ",",
        "é",
        "---\n",
        "# gpulint: allow[",
    ];
    // COMPLETIONS=1 requests completions at many places of every fixture.
    let (step, places) = if std::env::var_os("COMPLETIONS").is_some() { (1, 40) } else { (16, 3) };
    for (_, text) in fixtures().into_iter().step_by(step) {
        for _ in 0..places {
            let at = |offset: usize| (0..=offset).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let offset = at(numbers.below(text.len() + 1));
            let mut broken = text.clone();
            let check = |text: &str, offset: usize| {
                let offset = u32::try_from(offset).unwrap();
                for item in manifest(text, offset, None).into_iter().chain(configuration(text, offset)) {
                    assert!(item.span.start <= offset && offset <= item.span.end, "{item:?} at {offset}");
                    assert!(text.get(item.span.start as usize..item.span.end as usize).is_some(), "{item:?}");
                }
            };
            check(&text, offset);
            let scrap = scraps[numbers.below(scraps.len())];
            broken.insert_str(offset, scrap);
            check(&broken, offset + scrap.len());
            let cut = at(numbers.below(text.len() + 1));
            check(&text[..cut], offset.min(cut));
            // The offset may be in the middle of a character.
            let _ = manifest(&text, u32::try_from(numbers.below(text.len() + 9)).unwrap(), None);
        }
    }
}

#[test]
fn completion_is_quick_in_long_documents() {
    let containers: String = (0..170)
        .map(|n| format!("    - name: c{n}\n      image: a/b:{n}\n      command: [a, b]\n"))
        .collect();
    let text =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n{containers}      ");
    let offset = u32::try_from(text.len()).unwrap();
    assert!(!manifest(&text, offset, None).is_empty());
    let start = std::time::Instant::now();
    for _ in 0..10 {
        let _ = manifest(&text, offset, None);
    }
    // The limit allows for a debug build on a busy machine; a release build needs a small part of it.
    println!("{:?} for 516 lines", start.elapsed() / 10);
    assert!(start.elapsed().as_millis() < 2_000, "{:?}", start.elapsed() / 10);
    let start = std::time::Instant::now();
    let values = format!(
        "{POOL}  template:\n    spec:\n      requirements:\n        - key: node.kubernetes.io/instance-type\n          values: ["
    );
    for _ in 0..10 {
        assert!(manifest(&values, u32::try_from(values.len()).unwrap(), None).len() > 900);
    }
    println!("{:?} for all instance types", start.elapsed() / 10);
}
