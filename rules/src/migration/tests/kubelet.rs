//! Kubelet settings move from pools to their node class; the class is converted first.

use super::converted;

fn pool(name: &str, kubelet: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{requirements: [{{key: karpenter.k8s.aws/instance-family, operator: Exists}}], nodeClassRef: {{name: gpu}}{kubelet}}}}}}}\n---\n"
    )
}

const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec: {amiFamily: AL2}\n---\n";
const TEMPLATE: &str = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: gpu}\nspec: {amiFamily: AL2}\n---\n";
const PROVISIONER: &str = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {providerRef: {name: gpu}, kubeletConfiguration: {maxPods: 20, containerRuntime: containerd}}\n---\n";
const DONE: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec: {kubelet: {maxPods: 20}}\n---\n";
const TWENTY: &str = ", kubelet: {maxPods: 20}";

#[test]
fn the_class_takes_what_its_pools_agree_on() {
    let all = [CLASS, &pool("a", TWENTY), &pool("b", TWENTY)].concat();
    let made = converted(&all).expect("it converts");
    assert_eq!(made[0]["spec"]["kubelet"]["maxPods"], 20);
    let made = converted(&[TEMPLATE, PROVISIONER].concat()).expect("it converts");
    assert_eq!(made[0]["spec"]["kubelet"], serde_json::json!({"maxPods": 20}));
    for others in [pool("b", ""), pool("b", ", kubelet: {maxPods: 30}")] {
        let all = [CLASS, &pool("a", TWENTY), &others].concat();
        let made = converted(&all).expect("it converts");
        assert_eq!(made[0]["spec"].get("kubelet"), None);
    }
}

#[test]
fn the_pool_lets_go_once_its_class_has_them() {
    let made = converted(&[&pool("a", TWENTY), DONE].concat()).expect("it converts");
    assert_eq!(made[0]["spec"]["template"]["spec"].get("kubelet"), None);
    let made = converted(&[PROVISIONER, DONE].concat()).expect("it converts");
    assert_eq!(made[0]["spec"].get("kubeletConfiguration"), None);
}

#[test]
fn nothing_is_lost_before() {
    let why = |parts: &[&str]| converted(&parts.concat()).expect_err("it has to wait");
    let a = pool("a", TWENTY);
    assert!(why(&[&a]).contains("EC2NodeClass `gpu`"));
    assert!(why(&[&a, CLASS]).contains("convert EC2NodeClass"));
    assert!(why(&[PROVISIONER, TEMPLATE]).contains("convert AWSNodeTemplate"));
    assert!(why(&[&a, &pool("b", ""), CLASS]).contains("differ"));
    let other = DONE.replace("20", "30");
    assert!(why(&[&a, &other]).contains("move to its `spec.kubelet`"));
}

#[test]
fn settings_that_say_nothing_go() {
    let made = converted(&pool("a", ", kubelet: {}")).expect("it converts");
    assert_eq!(made[0]["spec"]["template"]["spec"].get("kubelet"), None);
}
