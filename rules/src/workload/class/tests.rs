use super::*;
use serde_json::json;

fn class(value: serde_json::Value) -> (WorkloadClass, Confidence) {
    let object = Object::from_json(&value).unwrap();
    let classified = classify(&object);
    (classified.class, classified.confidence)
}

fn deployment(container: serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
           "spec": {"template": {"spec": {"containers": [container]}}}})
}

#[test]
fn commands_decide_before_images() {
    assert_eq!(
        class(deployment(json!({"image": "repo/train:1", "command": ["vllm", "serve", "m"]}))),
        (WorkloadClass::Realtime, Confidence::High)
    );
    assert_eq!(
        class(deployment(json!({"args": ["torchrun --nproc_per_node 8 x.py"]}))),
        (WorkloadClass::Training, Confidence::High)
    );
    assert_eq!(
        class(deployment(json!({"command": ["python", "/app/train_llm.py"]}))),
        (WorkloadClass::Training, Confidence::Medium)
    );
    assert_eq!(class(deployment(json!({"command": ["python", "constrain.py"]}))).0, WorkloadClass::Unknown);
}

#[test]
fn the_shells_own_syntax_hides_no_command() {
    let script = "for h in $(cat /etc/hosts); do ping $h; done\ntorchrun --node-rank ${RANK} x.py";
    assert_eq!(
        class(deployment(json!({"command": ["sh", "-c"], "args": [script]}))),
        (WorkloadClass::Training, Confidence::High)
    );
}

#[test]
fn images_are_read_without_host_and_tag() {
    assert_eq!(repository("registry.example.com:5000/team/x:1@sha256:a"), "team/x");
    assert_eq!(
        class(deployment(json!({"image": "mirror.example.com/vllm/vllm-openai:v1"}))).0,
        WorkloadClass::Realtime
    );
    assert_eq!(class(deployment(json!({"image": "training.example.com/web:1"}))).0, WorkloadClass::Unknown);
}

#[test]
fn people_have_the_last_word() {
    let mut value = deployment(json!({"command": ["torchrun"]}));
    value["metadata"]["labels"] = json!({WORKLOAD_CLASS_KEY: "batch"});
    assert_eq!(class(value), (WorkloadClass::Batch, Confidence::High));
}

#[test]
fn two_purposes_in_one_name_say_nothing() {
    assert_eq!(purpose("train-and-serve"), None);
    assert_eq!(purpose("gpu-training"), Some(WorkloadClass::Training));
    assert_eq!(purpose("constraint"), None);
    assert_eq!(purpose("llm-fine-tune"), Some(WorkloadClass::Training));
}
