//! Objects and AdmissionReviews.

use serde_json::{Value, json};

/// A GPU pool without findings.
pub(crate) fn good_pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "expireAfter": "720h",
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                ]}},
            "limits": {"cpu": "100", "memory": "400Gi", "nvidia.com/gpu": "8"},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
                           "budgets": [{"nodes": "1"}]}
        }
    })
}

/// A GPU pool without a taint, which is denied.
pub(crate) fn bad_pool(name: &str) -> Value {
    let mut pool = good_pool(name);
    pool["spec"]["template"]["spec"].as_object_mut().unwrap().remove("taints");
    pool
}

/// A review that creates an object.
pub(crate) fn create(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7e1a", "operation": "CREATE",
        "kind": {"group": group, "version": "v1", "kind": object["kind"]},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "object": object}})
    .to_string()
}
