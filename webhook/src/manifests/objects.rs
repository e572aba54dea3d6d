//! The objects of the installation except the webhook configurations.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::Kind;
use gpulint_rules::lint::config::Config;
use serde_json::{Map, Value, json};

use super::{Install, installed_file, webhook_configurations};
use crate::kinds;

/// Service port of health and metrics.
const OPERATIONS: u16 = 8080;
const POD_SECURITY_MODES: [&str; 3] = ["enforce", "audit", "warn"];
/// Mount path of the configuration.
const CONFIG: &str = "/etc/gpulint";

fn meta(install: &Install) -> Value {
    json!({"name": install.name, "namespace": install.namespace, "labels": install.labels()})
}

fn cluster_scoped_meta(install: &Install) -> Value {
    json!({"name": install.name, "labels": install.labels()})
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
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(install), "data": files(install)}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(install), "spec": {
        "selector": install.labels(),
        "ports": [
            {"name": "admission", "port": 443, "targetPort": "admission", "protocol": "TCP"},
            {"name": "operations", "port": OPERATIONS, "targetPort": "operations", "protocol": "TCP"}
        ]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(install),
               "spec": {"maxUnavailable": 1, "selector": {"matchLabels": install.labels()},
                        "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        network_policy(install),
        deployment(install),
    ]
}

/// The files of the server: its configuration, and the webhooks of each webhook configuration as installed, which it
/// restores after changes by others.
fn files(install: &Install) -> Value {
    let mut files = json!({"gpulint.yaml": install.config});
    for mut configuration in webhook_configurations(install) {
        let file = installed_file(configuration["kind"].as_str().unwrap_or_default());
        configuration.sort_all_objects();
        files[file] = configuration["webhooks"].to_string().into();
    }
    files
}

/// Restricts ingress to the two ports, from any source: a policy cannot select API servers, and the sources of metrics
/// scraping are unknown.
fn network_policy(install: &Install) -> Value {
    let port = |port: u16| json!({"ports": [{"port": port, "protocol": "TCP"}]});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(install),
           "spec": {"podSelector": {"matchLabels": install.labels()}, "policyTypes": ["Ingress"],
                    "ingress": [port(install.port), port(install.operations_port)]}})
}

fn namespace(install: &Install) -> Value {
    let mut labels = install.labels();
    // `restricted` and `baseline` forbid the network of the node.
    let level = if install.host_network { "privileged" } else { "restricted" };
    for mode in POD_SECURITY_MODES {
        labels[format!("pod-security.kubernetes.io/{mode}")] = level.into();
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": install.namespace, "labels": labels}})
}

/// Permissions to watch the kinds that the rules in use read, to update the caBundle of both configurations, and to write Events
/// if enabled.
fn cluster_rules(install: &Install) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in watched(install) {
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
    let is_granted = |grant: &&Grant| match grant.on {
        On::Registration => true,
        On::AllIfEvents => install.events,
        On::OwnNamespace | On::OwnSecret => false,
    };
    rules.extend(GRANTS.iter().filter(is_granted).map(|grant| grant.rule(install)));
    rules
}

/// A permission beside those to watch.
#[derive(Debug)]
pub struct Grant {
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub on: On,
    /// What the server does with it.
    pub reason: &'static str,
}

/// The objects that a [`Grant`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The objects with the name of the installation.
    Registration,
    /// All of the cluster, with [`Install::events`].
    AllIfEvents,
    /// All of its own namespace.
    OwnNamespace,
    /// The Secret with its certificates.
    OwnSecret,
}

/// `create` cannot be restricted to a name:
/// <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources>.
pub static GRANTS: [Grant; 4] = [
    Grant {
        group: "admissionregistration.k8s.io",
        resources: &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        verbs: &["get", "update"],
        on: On::Registration,
        reason: "writes its certificate authority there, and restores what was edited",
    },
    Grant {
        group: "events.k8s.io",
        resources: &["events"],
        verbs: &["create"],
        on: On::AllIfEvents,
        reason: "writes an Event beside what was denied or not checked",
    },
    Grant {
        group: "",
        resources: &["secrets"],
        verbs: &["create"],
        on: On::OwnNamespace,
        reason: "stores its certificates when it first starts",
    },
    Grant {
        group: "",
        resources: &["secrets"],
        verbs: &["get", "update"],
        on: On::OwnSecret,
        reason: "shares its certificates among the replicas, and renews them",
    },
];

impl Grant {
    fn rule(&self, install: &Install) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources});
        let name = match self.on {
            On::Registration => Some(install.name.clone()),
            On::OwnSecret => Some(secret(install)),
            On::AllIfEvents | On::OwnNamespace => None,
        };
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        rule["verbs"] = json!(self.verbs);
        rule
    }
}

/// The kinds that the configuration's rules read; if it cannot be read, those of all rules.
fn watched(install: &Install) -> BTreeSet<Kind> {
    match Config::parse("gpulint.yaml", &install.config) {
        Ok(config) => kinds::watched_for(kinds::rules_in_use(&config.resolve())),
        Err(_) => kinds::watched().iter().copied().collect(),
    }
}

/// Permissions for the Secret with the certificates.
fn own_rules(install: &Install) -> Value {
    let own = GRANTS.iter().filter(|grant| matches!(grant.on, On::OwnNamespace | On::OwnSecret));
    own.map(|grant| grant.rule(install)).collect()
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
            "selector": {"matchLabels": install.labels()},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {
                "metadata": {"labels": install.labels()},
                "spec": pod(install)
            }
        }
    })
}

fn pod(install: &Install) -> Value {
    let spread = |key: &str| {
        json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": install.labels()}
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
        format!("--registration={CONFIG}"),
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
