//! Findings of rules on NodePools that require the input to be the whole cluster.

use std::collections::BTreeMap;

use gpulint_rules::lint::settings::{ParamValue, RuleSettings};
use gpulint_rules::{Engine, Object, Settings};
use gpulint_testing::cluster;
use serde_json::{Value, json};

fn pool(name: &str, weight: i64, requirements: &[Value]) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "weight": weight,
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": requirements,
                "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            }},
            "limits": {"nvidia.com/gpu": 8},
        },
    })
}

fn family() -> Value {
    json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["p5"]})
}

fn capacity(types: &[&str]) -> Value {
    json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": types})
}

/// A class that selects a reservation.
fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "gpu"},
        "spec": {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]},
    })
}

/// The findings of a rule in all objects, with their severities.
fn lint(objects: &[Value], rule: &str, complete: bool) -> Vec<String> {
    lint_with(objects, rule, complete, BTreeMap::new())
}

/// Like `lint`, with parameters of the rule.
fn lint_with(
    objects: &[Value],
    rule: &str,
    complete: bool,
    params: BTreeMap<String, ParamValue>,
) -> Vec<String> {
    let objects: Vec<Object> = objects.iter().filter_map(Object::from_json).collect();
    let engine = Engine::new(Settings {
        select: vec![rule.to_owned()],
        complete,
        rules: BTreeMap::from([(rule.to_owned(), RuleSettings { params, ..RuleSettings::default() })]),
        ..Settings::default()
    });
    let cluster = cluster(&engine, &objects);
    objects
        .iter()
        .flat_map(|o| engine.check_object(o, &cluster))
        .map(|f| format!("{} {}", f.severity.name(), f.message))
        .collect()
}

#[test]
fn reserved_capacity_alone_wants_a_fallback() {
    const RULE: &str = "reserved-capacity-mismatch";
    let reserved = pool("gpu", 50, &[family(), capacity(&["reserved"])]);
    let alone = [reserved.clone(), class()];
    assert_eq!(lint(&alone, RULE, false), Vec::<String>::new());
    assert_eq!(
        lint(&alone, RULE, true),
        ["info once its reservations are used up, no other pool admits the pods of this one"]
    );
    let quiet = [
        // A pool of lower weight takes over.
        vec![reserved, pool("later", 10, &[family(), capacity(&["on-demand"])]), class()],
        // Training waits for its capacity block.
        vec![pool("training", 50, &[family(), capacity(&["reserved"])]), class()],
        // A workload that names the block waits for it as well.
        vec![
            pool(
                "gpu",
                50,
                &[
                    family(),
                    capacity(&["reserved"]),
                    json!({"key": "karpenter.k8s.aws/capacity-reservation-type", "operator": "In", "values": ["capacity-block"]}),
                ],
            ),
            class(),
        ],
        vec![pool("gpu", 50, &[family(), capacity(&["reserved", "on-demand"])]), class()],
    ];
    for objects in &quiet {
        assert_eq!(lint(objects, RULE, true), Vec::<String>::new(), "{objects:#?}");
    }
}

#[test]
fn nobody_selects_a_value_that_karpenter_makes_up() {
    const RULE: &str = "requirement-key-lookalike";
    let team = json!({"key": "example.com/team", "operator": "Exists"});
    let own = pool("gpu", 50, &[family(), team]);
    assert_eq!(lint(std::slice::from_ref(&own), RULE, false), Vec::<String>::new());
    assert_eq!(
        lint(std::slice::from_ref(&own), RULE, true),
        ["warning no workload selects `example.com/team`, so each node gets a random number for it"]
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"nodeSelector": {"example.com/team": "search"}, "containers": []},
    });
    assert_eq!(lint(&[own, pod], RULE, true), Vec::<String>::new());
    // Users may define labels in a domain of their own.
    let alike = json!({"key": "example.com/instance-family", "operator": "In", "values": ["p5"]});
    let alike = pool("gpu", 50, &[family(), alike]);
    let alike = std::slice::from_ref(&alike);
    assert_eq!(lint(alike, RULE, false).len(), 1);
    let domains = ParamValue::Strings(vec!["example.com".to_owned()]);
    let params = BTreeMap::from([("domains".to_owned(), domains)]);
    assert!(lint_with(alike, RULE, false, params).is_empty());
}

/// The built-in pools of Auto Mode are not in files, but they are in a cluster.
#[test]
fn labels_of_the_other_sort_of_nodes() {
    const RULE: &str = "instance-label-other-provider";
    let own = pool("gpu", 50, &[family(), capacity(&["on-demand"])]);
    let mut auto = pool("auto", 50, &[capacity(&["on-demand"])]);
    auto["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
    let pod = |key: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"nodeSelector": {key: "g5"}, "containers": [{"name": "a", "image": "a:1"}]},
        })
    };
    let of_auto = pod("eks.amazonaws.com/instance-family");
    let of_own = pod("karpenter.k8s.aws/instance-family");
    let none = Vec::<String>::new();
    let said = |objects: &[&Value], complete| {
        let objects: Vec<Value> = objects.iter().map(|o| (*o).clone()).collect();
        lint(&objects, RULE, complete)
    };
    assert_eq!(said(&[&own, &of_auto], false), none);
    assert_eq!(
        said(&[&own, &of_auto], true),
        ["error no node has `eks.amazonaws.com/instance-family`: no pool is EKS Auto Mode's"]
    );
    assert_eq!(
        said(&[&auto, &of_own], true),
        ["error no node has `karpenter.k8s.aws/instance-family`: all pools are EKS Auto Mode's"]
    );
    assert_eq!(said(&[&auto, &own, &of_own, &of_auto], true), none);
    assert_eq!(said(&[&of_own, &of_auto], true), none);
}

/// It is certain that a selector matches nothing only if no placeholder may stand for a matching object.
#[test]
fn a_placeholder_may_be_the_label_that_a_budget_selects() {
    const RULE: &str = "pdb-selector";
    let pdb = |labels: Value| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "namespace": "ml"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        })
    };
    let job = |namespace: &str, labels: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": namespace},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a"}]}}},
        })
    };
    let missing = ["warning `selector` matches the pods of no workload"];
    let selected = pdb(json!({"app": "a"}));
    let none = Vec::<String>::new();
    assert_eq!(lint(&[selected.clone(), job("ml", json!({"app": "b"}))], RULE, true), missing);
    assert_eq!(lint(&[selected.clone(), job("other", json!({"app": "a"}))], RULE, true), missing);
    let other = json!({"app": "b", "team": "${TEAM}"});
    assert_eq!(lint(&[selected.clone(), job("ml", other)], RULE, true), missing);
    for labels in [json!({"app": "${APP}"}), json!({"${KEY}": "a"}), json!("${LABELS}")] {
        assert_eq!(lint(&[selected.clone(), job("ml", labels)], RULE, true), none);
    }
    assert_eq!(lint(&[selected, job("${NAMESPACE}", json!({"app": "a"}))], RULE, true), none);
    // The Job controller sets this one.
    let by_name = pdb(json!({"batch.kubernetes.io/job-name": "a"}));
    assert_eq!(lint(&[by_name, job("ml", json!({"app": "b"}))], RULE, true), none);
}

/// If the input is not the whole cluster, a missing class is probably defined elsewhere, unless its name
/// resembles a known one.
#[test]
fn a_missing_node_class_is_as_severe_as_it_is_certain() {
    const RULE: &str = "node-class-missing";
    let class = |name: &str| {
        let mut class = class();
        class["metadata"]["name"] = json!(name);
        class
    };
    let gpu = || pool("gpu", 50, &[family(), capacity(&["on-demand"])]);
    let said = |objects: &[Value], complete| {
        let said = lint(objects, RULE, complete).into_iter();
        said.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(said(&[gpu(), class("gpus")], false), ["warning"]);
    assert_eq!(said(&[gpu(), class("inference")], false), ["info"]);
    assert_eq!(said(&[gpu(), class("inference")], true), ["error", "info"]);
}

/// A missing target is reported. If its namespace or name is not written, the target may exist.
#[test]
fn a_missing_target_is_an_error_where_absence_is_certain() {
    const RULE: &str = "keda-target-missing";
    let scaled = |namespace: Value| {
        json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a", "namespace": namespace},
            "spec": {"scaleTargetRef": {"name": "embed"}, "triggers": []},
        })
    };
    let workload = |kind: &str, namespace: Value, name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}},
        })
    };
    let none = Vec::<String>::new();
    let missing = ["error there is no Deployment `embed`"];
    let ml = || scaled(json!("ml"));
    assert_eq!(lint(&[ml()], RULE, false), none);
    assert_eq!(lint(&[ml()], RULE, true), missing);
    let elsewhere = workload("Deployment", json!("other"), "embed");
    assert_eq!(
        lint(&[ml(), elsewhere], RULE, true),
        ["error there is no Deployment `embed` in namespace `ml`"]
    );
    let other = workload("StatefulSet", json!("ml"), "embed");
    let message = "there is no Deployment `embed` here, but a StatefulSet of that name";
    assert_eq!(lint(&[ml(), other.clone()], RULE, false), [format!("warning {message}")]);
    assert_eq!(lint(&[ml(), other], RULE, true), [format!("error {message}")]);
    for (namespace, name) in
        [(json!("ml"), "embed"), (json!("ml"), "${NAME}"), (Value::Null, "embed"), (json!("${NS}"), "embed")]
    {
        let target = workload("Deployment", namespace, name);
        assert_eq!(lint(&[ml(), target.clone()], RULE, true), none, "{target}");
    }
    let target = workload("Deployment", json!("ml"), "embed");
    assert_eq!(lint(&[scaled(Value::Null), target], RULE, true), none);
}

#[test]
fn a_pool_that_nobody_tolerates_is_advice_of_a_whole_cluster() {
    const RULE: &str = "pool-unreachable";
    let workload = |tolerations: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"tolerations": tolerations, "containers": [{"name": "c", "image": "nginx:1.29"}]},
            }},
        })
    };
    let gpu = pool("gpu", 50, &[family()]);
    let none = Vec::<String>::new();
    assert_eq!(lint(&[gpu.clone(), workload(json!([]))], RULE, false), none);
    assert_eq!(
        lint(&[gpu.clone(), workload(json!([]))], RULE, true),
        [
            "info no workload here tolerates the taint `nvidia.com/gpu` of NodePool `gpu`, so no pod runs on its nodes"
        ]
    );
    assert_eq!(lint(std::slice::from_ref(&gpu), RULE, true), none, "no workload at all is in the input");
    let chart = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "llm"},
        "spec": {"source": {"chart": "llm"}},
    });
    assert_eq!(lint(&[gpu.clone(), workload(json!([])), chart], RULE, true), none, "the chart has workloads");
    assert_eq!(lint(&[gpu.clone(), workload(json!([{"operator": "Exists"}]))], RULE, true), none);
    assert_eq!(lint(&[gpu, workload(json!([{"key": "${KEY}"}]))], RULE, true), none);
    // A fault of the pod that pod-fits-no-pool reports is not reported for the pool again.
    let pinned = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run", "namespace": "web"},
        "spec": {"nodeSelector": {"karpenter.sh/nodepool": "cpu"}, "containers": [{"name": "c", "image": "nginx:1.29"}]},
    });
    let mut cpu = pool("cpu", 1, &[]);
    cpu["spec"]["template"]["spec"]["taints"] = json!([{"key": "batch", "effect": "NoSchedule"}]);
    let objects: Vec<Object> = [cpu, pinned].iter().filter_map(Object::from_json).collect();
    let said = |select: &[&str]| -> Vec<&str> {
        let select = select.iter().map(|id| (*id).to_owned()).collect();
        let engine = Engine::new(Settings { select, ..Settings::default() });
        let cluster = cluster(&engine, &objects);
        objects.iter().flat_map(|o| engine.check_object(o, &cluster)).map(|f| f.rule.id).collect()
    };
    assert_eq!(said(&[RULE]), [RULE]);
    assert_eq!(said(&[RULE, "pod-fits-no-pool"]), ["pod-fits-no-pool"]);
}

#[test]
fn a_missing_device_plugin_is_known_only_of_a_whole_cluster() {
    const RULE: &str = "gpu-device-plugin-missing";
    let class = |alias: &str| {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"},
            "spec": {"amiSelectorTerms": [{"alias": alias}]},
        })
    };
    let gpu = pool("gpu", 50, &[family()]);
    let other = pool("gpu-b", 10, &[family()]);
    let amazon = [other.clone(), gpu.clone(), class("al2023@v20260810")];
    assert_eq!(lint(&amazon, RULE, false), Vec::<String>::new());
    assert_eq!(
        lint(&amazon, RULE, true),
        ["warning no device plugin is in the input: nodes of GPU pool `gpu` never have `nvidia.com/gpu`"]
    );
    assert_eq!(lint(&[gpu.clone(), class("bottlerocket@v1.40.0")], RULE, true), Vec::<String>::new());
    let plugin = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin", "namespace": "kube-system"},
        "spec": {"template": {"spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"}]}}},
    });
    let release = |chart: &Value| {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "r", "namespace": "x"}, "spec": {"chart": {"spec": {"chart": chart}}},
        })
    };
    let policy = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}});
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "addons"},
        "spec": {"source": {"repoURL": "https://git.example.com/addons.git", "path": "addons"}},
    });
    for helper in [plugin, release(&json!("gpu-operator")), release(&json!(null)), policy, application] {
        let with = [gpu.clone(), class("al2023@v20260810"), helper];
        assert_eq!(lint(&with, RULE, true), Vec::<String>::new(), "{with:?}");
    }
    let unrelated = [gpu, class("al2023@v20260810"), release(&json!("podinfo"))];
    assert_eq!(lint(&unrelated, RULE, true).len(), 1);
}

#[test]
fn the_namespace_of_a_cluster_scoped_object_is_ignored() {
    let scaled = json!({
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "embedder", "namespace": "search"},
        "spec": {"scaleTargetRef": {"name": "embedder"}, "maxReplicaCount": 6, "triggers": [{
            "type": "rabbitmq",
            "metadata": {"queueName": "texts", "mode": "QueueLength", "value": "10"},
            "authenticationRef": {"name": "broker", "kind": "ClusterTriggerAuthentication"},
        }]},
    });
    let authentication = |name: &str| {
        json!({
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ClusterTriggerAuthentication",
            "metadata": {"name": name, "namespace": "keda"},
            "spec": {"secretTargetRef": [{"parameter": "host", "name": "broker", "key": "host"}]},
        })
    };
    let said = |name: &str| lint(&[scaled.clone(), authentication(name)], "keda-auth-missing", true);
    assert_eq!(said("broker"), Vec::<String>::new());
    assert_eq!(said("other").len(), 1);
}
