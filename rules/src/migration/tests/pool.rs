//! Provisioner v1alpha5 and NodePool v1beta1.

use super::{becomes, converted, is_left};

const PROVISIONER: &str = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner";
const POOL: &str = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool";

/// Requirements to which the old webhook adds nothing, in the old and in the new location.
const FULL: &str = "requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
    - {key: kubernetes.io/os, operator: In, values: [linux]}
    - {key: kubernetes.io/arch, operator: In, values: [arm64]}
    - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5g]}
";

/// Converts a Provisioner that has `rest` in addition to reference and requirements. `new` is expected in
/// `template.spec`, `beside` next to the template.
#[track_caller]
fn provisioner(rest: &str, new: &str, beside: &str) {
    let requirements = FULL.replace("\n    - ", "\n        - ");
    becomes(
        PROVISIONER,
        &format!("  providerRef: {{name: gpu}}\n  {FULL}{rest}"),
        &format!(
            "  template:\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      {requirements}{new}{beside}"
        ),
    );
}

const NEVER: &str = "      expireAfter: Never\n";
const KEEP: &str = "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}\n";

#[test]
fn what_was_absent_is_written_out() {
    provisioner("", NEVER, KEEP);
}

#[test]
fn labels_and_annotations_move_to_the_template() {
    provisioner(
        "  labels: {team: vision}\n  annotations: {note: x}\n",
        "      expireAfter: Never\n    metadata: {labels: {team: vision}, annotations: {note: x}}\n",
        KEEP,
    );
}

#[test]
fn taints_move_to_the_template() {
    let taint = "[{key: nvidia.com/gpu, effect: NoSchedule}]";
    provisioner(
        &format!("  taints: {taint}\n  startupTaints: {taint}\n"),
        &format!("      taints: {taint}\n      startupTaints: {taint}\n{NEVER}"),
        KEEP,
    );
}

#[test]
fn the_reference_names_group_and_kind() {
    for reference in
        ["{name: gpu}", "{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: gpu}"]
    {
        let requirements = FULL.replace("\n    - ", "\n        - ");
        becomes(
            PROVISIONER,
            &format!("  providerRef: {reference}\n  {FULL}"),
            &format!(
                "  template:\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      {requirements}{NEVER}{KEEP}"
            ),
        );
    }
}

#[test]
fn limits_lose_a_level() {
    provisioner(
        "  limits: {resources: {cpu: 1000, nvidia.com/gpu: 8}}\n",
        NEVER,
        &format!("  limits: {{cpu: 1000, nvidia.com/gpu: 8}}\n{KEEP}"),
    );
    provisioner("  limits: {resources: {}}\n", NEVER, KEEP);
}

#[test]
fn seconds_become_durations() {
    for (seconds, text) in [(2_592_000, "720h"), (90, "90s"), (0, "0s"), (300, "5m")] {
        provisioner(
            &format!("  ttlSecondsUntilExpired: {seconds}\n"),
            &format!("      expireAfter: {text}\n"),
            KEEP,
        );
        provisioner(
            &format!("  ttlSecondsAfterEmpty: {seconds}\n"),
            NEVER,
            &format!("  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: {text}}}\n"),
        );
    }
    let head = |rest: &str| format!("  providerRef: {{name: a}}\n{rest}");
    is_left(PROVISIONER, &head("  ttlSecondsUntilExpired: 9999999999999\n"), "longer");
    is_left(PROVISIONER, &head("  ttlSecondsUntilExpired: ${TTL}\n"), "not a number");
    is_left(PROVISIONER, &head("  ttlSecondsAfterEmpty: -5\n"), "not a number");
}

#[test]
fn consolidation_becomes_a_policy() {
    provisioner(
        "  consolidation: {enabled: true}\n",
        NEVER,
        "  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}\n",
    );
    provisioner("  consolidation: {enabled: false}\n", NEVER, KEEP);
    provisioner(
        "  consolidation: {enabled: false}\n  ttlSecondsAfterEmpty: 30\n",
        NEVER,
        "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}\n",
    );
    is_left(
        PROVISIONER,
        "  consolidation: {enabled: true}\n  ttlSecondsAfterEmpty: 30\n",
        "exclude each other",
    );
}

#[test]
fn weight_stays() {
    provisioner("  weight: 10\n", NEVER, &format!("  weight: 10\n{KEEP}"));
}

#[test]
fn a_provider_written_inline_becomes_a_class() {
    let text = format!(
        "{PROVISIONER}\nmetadata: {{name: a}}\nspec:\n  {FULL}  kubeletConfiguration: {{maxPods: 20, containerRuntime: containerd}}
  provider:
    apiVersion: extensions.karpenter.sh/v1alpha1
    kind: AWS
    instanceProfile: nodes
    subnetSelector: {{team: vision}}
    securityGroupSelector: {{team: vision}}
"
    );
    let made = converted(&text).expect("it converts");
    assert_eq!(made.len(), 2);
    assert_eq!(made[0]["spec"]["template"]["spec"]["nodeClassRef"]["name"], "a");
    assert_eq!(made[0]["spec"].get("kubeletConfiguration"), None);
    let expected = serde_json::json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "a"},
        "spec": {
            "instanceProfile": "nodes",
            "amiSelectorTerms": [{"alias": "al2@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "vision"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "vision"}}],
            "metadataOptions": {"httpPutResponseHopLimit": 2},
            "kubelet": {"maxPods": 20},
        }
    });
    assert_eq!(made[1], expected);
    let taken = format!(
        "{text}---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: a}}\nspec: {{}}\n"
    );
    assert!(converted(&taken).expect_err("the name is taken").contains("EC2NodeClass `a`"));
}

#[test]
fn the_old_webhooks_requirements_are_written_out() {
    let keys = |requirements: &str| -> Vec<String> {
        let text = format!(
            "{PROVISIONER}\nmetadata: {{name: a}}\nspec:\n  providerRef: {{name: a}}\n{requirements}"
        );
        let made = converted(&text).expect("it converts");
        let list = made[0]["spec"]["template"]["spec"]["requirements"].clone();
        let list = list.as_array().expect("a list").clone();
        list.iter()
            .map(|r| {
                format!(
                    "{} {} {}",
                    r["key"].as_str().unwrap_or_default(),
                    r["operator"].as_str().unwrap_or_default(),
                    r["values"]
                )
            })
            .collect()
    };
    let all = [
        r#"karpenter.sh/capacity-type In ["on-demand"]"#,
        r#"kubernetes.io/os In ["linux"]"#,
        r#"kubernetes.io/arch In ["amd64"]"#,
        r#"karpenter.k8s.aws/instance-category In ["c","m","r"]"#,
        r#"karpenter.k8s.aws/instance-generation Gt ["2"]"#,
    ];
    assert_eq!(keys(""), all);
    assert_eq!(keys("  requirements: []\n"), all);
    // A beta key counts as its stable one, and any requirement on types keeps the types unrestricted.
    let some = keys(
        "  requirements: [{key: beta.kubernetes.io/arch, operator: In, values: [arm64]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['5']}]\n",
    );
    assert_eq!(some[2..], all[..2]);
    // A label sets the value like a requirement.
    let labelled = keys("  labels: {karpenter.sh/capacity-type: spot}\n");
    assert_eq!(labelled, all[1..]);
    is_left(PROVISIONER, "  requirements: [{key: \"${KEY}\", values: [x]}, {}]\n", "readable key");
}

#[test]
fn a_half_converted_pool_is_left() {
    is_left(PROVISIONER, "  taints: []\n  template: {spec: {taints: []}}\n", "both written");
    let twin = format!(
        "{PROVISIONER}\nmetadata: {{name: a}}\nspec: {{}}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\nspec: {{template: {{spec: {{}}}}}}\n"
    );
    assert!(converted(&twin).expect_err("a twin").contains("NodePool `a`"));
}

#[track_caller]
fn node_pool(rest: &str, reference: &str, new: &str) {
    becomes(
        POOL,
        &format!(
            "  template: {{spec: {{requirements: [{{key: karpenter.k8s.aws/instance-family, operator: Exists}}], nodeClassRef: {reference}}}}}\n{rest}"
        ),
        &format!(
            "  template: {{spec: {{requirements: [{{key: karpenter.k8s.aws/instance-family, operator: Exists}}], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}}}\n{new}"
        ),
    );
}

#[test]
fn a_beta_reference_loses_its_version() {
    for reference in [
        "{name: a}",
        "{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: a}",
        "{apiVersion: karpenter.sh/v1beta1, kind: EC2NodeClass, name: a}",
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}",
    ] {
        node_pool("", reference, "");
    }
    becomes(
        POOL,
        "  template: {spec: {nodeClassRef: {apiVersion: karpenter.azure.com/v1alpha2, kind: AKSNodeClass, name: a}}}\n",
        "  template: {spec: {nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: a}}}\n",
    );
    for reference in
        ["{name: a}", "{kind: AKSNodeClass, name: a}", "{apiVersion: karpenter.azure.com/v1alpha2, name: a}"]
    {
        let requirement = "requirements: [{key: karpenter.azure.com/sku-family, operator: In, values: [D]}]";
        becomes(
            POOL,
            &format!("  template: {{spec: {{{requirement}, nodeClassRef: {reference}}}}}\n"),
            &format!(
                "  template: {{spec: {{{requirement}, nodeClassRef: {{group: karpenter.azure.com, kind: AKSNodeClass, name: a}}}}}}\n"
            ),
        );
    }
    // Nothing shows the provider of the class.
    for reference in ["{name: a}", "{kind: OtherNodeClass, name: a}"] {
        is_left(
            POOL,
            &format!("  template: {{spec: {{requirements: [], nodeClassRef: {reference}}}}}\n"),
            "nothing in the input",
        );
    }
}

#[test]
fn beta_disruption_keeps_its_timing() {
    let whole = |old: &str, new: &str| {
        node_pool(&format!("  disruption: {old}\n"), "{name: a}", &format!("  disruption: {new}\n"))
    };
    whole(
        "{consolidationPolicy: WhenUnderutilized}",
        "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}",
    );
    whole(
        "{consolidationPolicy: WhenUnderutilized, consolidateAfter: Never}",
        "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never}",
    );
    whole("{budgets: [{nodes: 10%}]}", "{budgets: [{nodes: 10%}], consolidateAfter: 0s}");
    let empty = "{consolidationPolicy: WhenEmpty, consolidateAfter: 30s}";
    whole(empty, empty);
}

#[test]
fn beta_expiry_moves_to_the_template() {
    becomes(
        POOL,
        "  template: {spec: {requirements: []}}\n  disruption: {expireAfter: 240h}\n",
        "  template: {spec: {requirements: [], expireAfter: 240h}}\n  disruption: {consolidateAfter: 0s}\n",
    );
    is_left(
        POOL,
        "  template: {spec: {expireAfter: Never}}\n  disruption: {expireAfter: 240h}\n",
        "both written",
    );
}

#[test]
fn beta_resources_go() {
    becomes(
        POOL,
        "  template: {spec: {requirements: [], resources: {}}}\n",
        "  template: {spec: {requirements: []}}\n",
    );
}

#[test]
fn a_claim_by_hand_still_never_expires() {
    becomes(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim",
        "  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]\n  resources: {requests: {cpu: 4}}\n  nodeClassRef: {name: a}\n",
        "  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]\n  resources: {requests: {cpu: 4}}\n  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n  expireAfter: Never\n",
    );
    is_left("apiVersion: karpenter.sh/v1alpha5\nkind: Machine", "  {}\n", "remove it");
}
