//! Objects that both benchmarks use.

#![allow(dead_code, reason = "each benchmark uses some of them")]

use serde_json::{Value, json};

/// A GPU pool without findings, so that every rule about pools runs to its end.
pub(crate) fn pool(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "labels": {"team": "ml", "cost-center": "research"}},
        "spec": {"weight": 10, "template": {"metadata": {"labels": {"team": "ml", "workload": "inference"}}, "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "expireAfter": "720h",
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
            "requirements": [
                {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "g6", "g6e"]},
                {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Lt", "values": ["5"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a", "us-east-1b"]}]}},
        "limits": {"cpu": "400", "memory": "1600Gi", "nvidia.com/gpu": "16"},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
            "budgets": [{"nodes": "1"}, {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]}}})
}

/// The class of the pools.
pub(crate) fn class() -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"},
        "spec": {"role": "gpu-nodes", "amiSelectorTerms": [{"alias": "al2023@v20260101"}],
            "subnetSelectorTerms": [{"tags": {"discovery": "ml"}}],
            "securityGroupSelectorTerms": [{"tags": {"discovery": "ml"}}]}})
}

/// Metadata that clients add to every object of a cluster.
pub(crate) fn managed() -> Value {
    let fields: serde_json::Map<String, Value> =
        (0..25).map(|n| (format!("f:field-{n}"), json!({".": {}, "f:inner": {}}))).collect();
    json!([{"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}])
}

pub(crate) fn containers(number: usize) -> Value {
    let env: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{number}")}))
        .collect();
    json!([{"name": "main", "image": "registry.example.com/team/trainer:1.2.3", "env": env,
        "command": ["python", "-m", "train", "--epochs", "10"],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}])
}

pub(crate) fn pod_spec(number: usize) -> Value {
    json!({"containers": containers(number), "terminationGracePeriodSeconds": 60,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]})
}

pub(crate) fn pod(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("trainer-{number}"), "namespace": format!("team-{}", number % 50),
            "labels": {"app": format!("app-{}", number % 500), "team": "ml"}, "managedFields": managed(),
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Experiment", "name": "x", "uid": "1", "controller": true}]},
        "spec": pod_spec(number)})
}

pub(crate) fn derived() -> Value {
    let mut pod = pod(1_000_001);
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

pub(crate) fn deployment(number: usize) -> Value {
    let app = format!("app-{}", number % 500);
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("server-{number}"), "namespace": format!("team-{}", number % 50), "managedFields": managed()},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app, "team": "ml"}}, "spec": pod_spec(number)}}})
}

pub(crate) fn job() -> Value {
    let mut spec = pod_spec(1_000_002);
    spec["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "pretrain", "namespace": "team-1", "managedFields": managed()},
        "spec": {"backoffLimit": 3, "template": {"metadata": {"labels": {"app": "pretrain"}}, "spec": spec}}})
}

pub(crate) fn scaled(number: usize) -> Value {
    json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": format!("server-{number}"), "namespace": format!("team-{}", number % 50), "managedFields": managed()},
        "spec": {"scaleTargetRef": {"name": format!("server-{number}")}, "minReplicaCount": 2, "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus", "metadata": {
                "serverAddress": "http://prometheus.monitoring:9090",
                "query": "sum(rate(requests_total{app=\"web\"}[2m]))", "threshold": "100"}}]}})
}
