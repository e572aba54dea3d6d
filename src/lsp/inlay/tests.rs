use gpulint_rules::tree::Span;

use super::hints;
use crate::lsp::hover::tests::{Marked, with_view};

const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {nvidia.com/gpu: LIMIT}
---
";

const WORK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 10
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
        - name: server
          image: example.com/server:1.0
          resources: {requests: {cpu: 6, memory: 24Gi}, limits: {memory: 24Gi, nvidia.com/gpu: 4}}
";

/// The hints in some texts, each with the word before it.
fn labels(texts: &[String], sets: &[(Option<&str>, &[usize])]) -> Vec<String> {
    let files: Vec<Marked> =
        texts.iter().enumerate().map(|(at, text)| Marked::read(&format!("{at}.yaml"), text)).collect();
    with_view(&files, sets, false, |view| {
        let text = view.file.source.text();
        let all = hints(view, Span::new(0, u32::try_from(text.len()).expect("short")));
        let word = |offset: u32| {
            let before = &text[..offset as usize];
            before.rsplit([' ', '\n']).next().unwrap_or_default().to_owned()
        };
        all.iter().map(|hint| format!("{} {}", word(hint.offset), hint.label)).collect()
    })
}

fn pool(limit: &str) -> String {
    POOL.replace("LIMIT", limit)
}

#[test]
fn pools_have_types_and_workloads_have_room() {
    let both = format!("{}{WORK}", pool("32"));
    assert_eq!(labels(&[both], &[(None, &[0])]), ["gpu 16 types: l4, l40s", "10 room for 8"]);
}

#[test]
fn an_autoscaler_has_the_room_of_its_target() {
    let scaler = "
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llm}
spec:
  scaleTargetRef: {name: llm}
  maxReplicaCount: 20
";
    let texts = [scaler.to_owned(), format!("{}{WORK}", pool("32"))];
    assert_eq!(labels(&texts, &[(None, &[0, 1])]), ["20 room for 8"]);
}

#[test]
fn what_is_not_known_has_no_hint() {
    for (text, why) in [
        (pool("32").replace("[g6, g6e]", "[\"${FAMILY}\"]") + WORK, "the types are not known"),
        (pool("32").replace("[g6, g6e]", "[g6, g9]") + WORK, "g9 may be newer than the catalogue"),
        (pool("32").replace("  limits: {nvidia.com/gpu: 32}\n", "") + WORK, "no limit bounds them"),
        (pool("32") + &WORK.replace(", nvidia.com/gpu: 4", ""), "no accelerators: other nodes may run them"),
        (pool("32") + &WORK.replace("replicas: 10", "replicas: \"${N}\""), "a placeholder"),
        (pool("32") + &WORK.replace("cpu: 6", "cpu: \"${N}\""), "the pod is not known"),
    ] {
        let found = labels(&[text], &[(None, &[0])]);
        assert!(found.iter().all(|label| !label.contains("room")), "{why}: {found:?}");
    }
}

#[test]
fn sets_that_differ_have_no_hint() {
    let texts = [WORK.to_owned(), pool("32"), pool("64")];
    assert_eq!(labels(&texts, &[(Some("a"), &[0, 1]), (Some("b"), &[0, 2])]), Vec::<String>::new());
    assert_eq!(labels(&texts, &[(Some("a"), &[0, 1]), (Some("b"), &[0, 1])]), ["10 room for 8"]);
}

#[test]
fn only_the_part_that_is_shown_has_hints() {
    let files = [Marked::read("0.yaml", &format!("{}{WORK}", pool("32")))];
    let found = with_view(&files, &[(None, &[0])], false, |view| hints(view, Span::new(0, 120)));
    assert_eq!(found.iter().map(|hint| hint.label.as_str()).collect::<Vec<_>>(), ["16 types: l4, l40s"]);
}
