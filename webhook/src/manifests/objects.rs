//! The objects of the installation except the webhook configurations.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Install;
use crate::kinds;

/// Service port of health and metrics.
const OPERATIONS: u16 = 8080;
/// Mount path of the configuration.
const CONFIG: &str = "/etc/gpulint";

pub(super) fn labels(install: &Install) -> Value {
    json!({"app.kubernetes.io/name": "gpulint", "app.kubernetes.io/instance": install.name})
}

fn meta(install: &Install) -> Value {
    json!({"name": install.name, "namespace": install.namespace, "labels": labels(install)})
}

fn cluster_scoped_meta(install: &Install) -> Value {
    json!({"name": install.name, "labels": labels(install)})
}

pub(super) fn all(install: &Install) -> Vec<Value> {
    let subject = json!([{
        "kind": "ServiceAccount", "name": install.name, "namespace": install.namespace
    }]);
    vec![
        namespace(install),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(install),
               "automountServiceAccountToken": false}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
               "metadata": cluster_scoped_meta(install), "rules": cluster_rules(install)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
               "metadata": cluster_scoped_meta(install), "subjects": subject,
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": install.name}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
               "metadata": meta(install), "rules": own_rules(install)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
               "metadata": meta(install), "subjects": subject,
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": install.name}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(install),
               "data": {"gpulint.yaml": install.config}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(install), "spec": {
        "selector": labels(install),
        "ports": [
            {"name": "admission", "port": 443, "targetPort": "admission", "protocol": "TCP"},
            {"name": "operations", "port": OPERATIONS, "targetPort": "operations", "protocol": "TCP"}
        ]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(install),
               "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(install)},
                        "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        network_policy(install),
        deployment(install),
    ]
}

/// Restricts ingress to the two ports, from any source: a policy cannot select API servers, and the sources of metrics
/// scraping are unknown.
fn network_policy(install: &Install) -> Value {
    let port = |port: u16| json!({"ports": [{"port": port, "protocol": "TCP"}]});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(install),
           "spec": {"podSelector": {"matchLabels": labels(install)}, "policyTypes": ["Ingress"],
                    "ingress": [port(install.port), port(install.operations_port)]}})
}

fn namespace(install: &Install) -> Value {
    let mut labels = labels(install);
    for mode in ["enforce", "audit", "warn"] {
        labels[format!("pod-security.kubernetes.io/{mode}")] = "restricted".into();
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": install.namespace, "labels": labels}})
}

/// Permissions to watch the kinds that rules read, to update the caBundle of both configurations, and to write Events
/// if enabled.
fn cluster_rules(install: &Install) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds::watched() {
        if let Some(resource) = kind.info() {
            groups.entry(kind.group).or_default().push(resource.plural);
        }
    }
    let mut rules: Vec<Value> = groups
        .into_iter()
        .map(|(group, mut resources)| {
            resources.sort_unstable();
            json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]})
        })
        .collect();
    rules.push(json!({
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "resourceNames": [install.name],
        "verbs": ["get", "update"]
    }));
    if install.events {
        rules.push(json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}));
    }
    rules
}

/// Permissions for the Secret with the certificates. `create` cannot be restricted by `resourceNames`:
/// <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources>.
fn own_rules(install: &Install) -> Value {
    json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"],
         "resourceNames": [secret(install)], "verbs": ["get", "update"]}
    ])
}

fn secret(install: &Install) -> String {
    format!("{}-certificates", install.name)
}

fn deployment(install: &Install) -> Value {
    // Two pods with host ports cannot run on one node.
    let (surge, unavailable) = if install.host_network { (0, 1) } else { (1, 0) };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(install),
        "spec": {
            "replicas": install.replicas,
            "selector": {"matchLabels": labels(install)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {
                "metadata": {"labels": labels(install)},
                "spec": pod(install)
            }
        }
    })
}

fn pod(install: &Install) -> Value {
    let spread = |key: &str| {
        json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(install)}
        })
    };
    let mut spec = Map::new();
    let mut set = |key: &str, value: Value| spec.insert(key.to_owned(), value);
    set("serviceAccountName", install.name.clone().into());
    set("automountServiceAccountToken", true.into());
    if install.host_network {
        set("hostNetwork", true.into());
        set("dnsPolicy", "ClusterFirstWithHostNet".into());
    }
    set("priorityClassName", "system-cluster-critical".into());
    // Longer than `Limits::drain_delay` and `Limits::drain` together.
    set("terminationGracePeriodSeconds", 45.into());
    if !install.karpenter_nodes {
        // The webhook should not depend on nodes whose creation it checks.
        set(
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
            ]}]}}}),
        );
    }
    set(
        "topologySpreadConstraints",
        json!([spread("topology.kubernetes.io/zone"), spread("kubernetes.io/hostname")]),
    );
    set(
        "securityContext",
        json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
               "seccompProfile": {"type": "RuntimeDefault"}}),
    );
    set("containers", json!([container(install)]));
    set("volumes", json!([{"name": "config", "configMap": {"name": install.name}}]));
    Value::Object(spec)
}

fn container(install: &Install) -> Value {
    let probe = |path: &str, period: u8, timeout: u8, failures: u8| {
        json!({"httpGet": {"path": path, "port": "operations"}, "periodSeconds": period,
               "timeoutSeconds": timeout, "failureThreshold": failures})
    };
    let mut args = vec![
        "webhook".to_owned(),
        "serve".to_owned(),
        format!("--listen=0.0.0.0:{}", install.port),
        format!("--operations=0.0.0.0:{}", install.operations_port),
        format!("--config={CONFIG}/gpulint.yaml"),
        format!("--name={}", install.name),
        format!("--namespace={}", install.namespace),
        format!("--timeout={}", install.timeout_seconds),
    ];
    args.extend(install.events.then(|| "--events".to_owned()));
    json!({
        "name": "gpulint",
        "image": install.image,
        "args": args,
        "ports": [
            {"name": "admission", "containerPort": install.port, "protocol": "TCP"},
            {"name": "operations", "containerPort": install.operations_port, "protocol": "TCP"}
        ],
        "livenessProbe": probe("/healthz", 10, 5, 6),
        "readinessProbe": probe("/readyz", 2, 2, 2),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}
        },
        "volumeMounts": [{"name": "config", "mountPath": CONFIG, "readOnly": true}]
    })
}
