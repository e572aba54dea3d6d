//! The number of disruptions that a PodDisruptionBudget allows, with the rounding of the disruption
//! controller: `desired = minAvailable`, or `replicas - maxUnavailable`, percentages rounded up. An eviction
//! is allowed while more pods are healthy.

use gpulint_rules::{Engine, Object, Settings};
use gpulint_testing::cluster;
use serde_json::{Value, json};

fn workload(name: &str, replicas: Value, labels: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"name": name}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]}},
    });
    if !replicas.is_null() {
        spec["replicas"] = replicas;
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "n"}, "spec": spec})
}

fn pdb(name: &str, field: &str, value: Value, selector: Value) -> Value {
    let mut spec = json!({"selector": selector});
    if !field.is_empty() {
        spec[field] = value;
    }
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "n"}, "spec": spec})
}

/// The rules on budgets that have findings, with their severities.
fn verdict(objects: &[Value]) -> String {
    let objects: Vec<Object> = objects.iter().filter_map(Object::from_json).collect();
    let rules = ["pdb-blocks-evictions", "pdb-on-job", "pdb-overlap"].map(str::to_owned);
    let engine = Engine::new(Settings { select: rules.to_vec(), ..Settings::default() });
    let cluster = cluster(&engine, &objects);
    let findings = objects.iter().flat_map(|object| engine.check_object(object, &cluster));
    let words: Vec<String> = findings.map(|f| format!("{} {}", f.severity.name(), f.rule.id)).collect();
    words.join(", ")
}

const BLOCKED: &str = "error pdb-blocks-evictions";
/// For a single pod it is a way to be asked before each drain.
const ASKS_FIRST: &str = "warning pdb-blocks-evictions";
const AT_MINIMUM: &str = "warning pdb-blocks-evictions";

#[test]
fn replicas_that_are_written() {
    let app = || json!({"matchLabels": {"app": "a"}});
    let cases: &[(&str, Value, i64, &str)] = &[
        ("minAvailable", json!(0), 1, ""),
        ("minAvailable", json!(1), 1, ASKS_FIRST),
        ("minAvailable", json!(1), 2, ""),
        ("minAvailable", json!(2), 2, BLOCKED),
        ("minAvailable", json!(2), 3, ""),
        ("minAvailable", json!(3), 3, BLOCKED),
        ("minAvailable", json!(4), 3, BLOCKED),
        ("minAvailable", json!(5), 0, ""),
        ("minAvailable", json!("0%"), 1, ""),
        ("minAvailable", json!("1%"), 1, ASKS_FIRST),
        ("minAvailable", json!("50%"), 1, ASKS_FIRST),
        ("minAvailable", json!("50%"), 2, ""),
        ("minAvailable", json!("51%"), 2, BLOCKED),
        ("minAvailable", json!("33%"), 3, ""),
        ("minAvailable", json!("34%"), 3, ""),
        ("minAvailable", json!("66%"), 3, ""),
        ("minAvailable", json!("67%"), 3, BLOCKED),
        ("minAvailable", json!("75%"), 4, ""),
        ("minAvailable", json!("76%"), 4, BLOCKED),
        ("minAvailable", json!("80%"), 5, ""),
        ("minAvailable", json!("81%"), 5, BLOCKED),
        ("minAvailable", json!("90%"), 5, BLOCKED),
        ("minAvailable", json!("90%"), 10, ""),
        ("minAvailable", json!("91%"), 10, BLOCKED),
        ("minAvailable", json!("99%"), 99, BLOCKED),
        ("minAvailable", json!("99%"), 100, ""),
        ("minAvailable", json!("100%"), 100, BLOCKED),
        ("maxUnavailable", json!(0), 5, BLOCKED),
        ("maxUnavailable", json!("0%"), 5, BLOCKED),
        ("maxUnavailable", json!(1), 1, ""),
        ("maxUnavailable", json!("1%"), 1, ""),
        ("maxUnavailable", json!("1%"), 100, ""),
        ("maxUnavailable", json!("10%"), 5, ""),
        ("maxUnavailable", json!("100%"), 5, ""),
        ("maxUnavailable", json!(9), 3, ""),
        ("", json!(null), 3, BLOCKED),
        // The API server rejects these, which other rules report.
        ("minAvailable", json!("1"), 1, ""),
        ("minAvailable", json!("101%"), 1, ""),
        ("minAvailable", json!(1.5), 1, ""),
        ("minAvailable", json!("${MIN}"), 1, ""),
    ];
    for (field, value, replicas, expected) in cases {
        let objects =
            [workload("a", json!(replicas), json!({"app": "a"})), pdb("p", field, value.clone(), app())];
        assert_eq!(verdict(&objects), *expected, "{field}: {value} of {replicas}");
    }
}

#[test]
fn replicas_that_an_autoscaler_sets() {
    let hpa = |min: Value, max: i64| {
        let mut spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": max});
        if !min.is_null() {
            spec["minReplicas"] = min;
        }
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "n"}, "spec": spec})
    };
    let scaled = |min: Value| {
        let mut spec = json!({"scaleTargetRef": {"name": "a"}, "triggers": []});
        if !min.is_null() {
            spec["minReplicaCount"] = min;
        }
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "s", "namespace": "n"}, "spec": spec})
    };
    let cases: &[(Value, &str, Value, &str)] = &[
        (hpa(json!(2), 10), "minAvailable", json!(1), ""),
        (hpa(json!(2), 10), "minAvailable", json!(2), AT_MINIMUM),
        (hpa(json!(2), 10), "minAvailable", json!("50%"), ""),
        (hpa(json!(2), 10), "minAvailable", json!("60%"), AT_MINIMUM),
        (hpa(json!(2), 10), "minAvailable", json!(10), BLOCKED),
        (hpa(json!(null), 10), "minAvailable", json!(1), AT_MINIMUM),
        (hpa(json!(3), 3), "minAvailable", json!(3), BLOCKED),
        (hpa(json!(2), 10), "maxUnavailable", json!(1), ""),
        // KEDA keeps at least one pod while there is work, and the budget then protects it.
        (scaled(json!(0)), "minAvailable", json!(1), AT_MINIMUM),
        (scaled(json!(null)), "minAvailable", json!(1), AT_MINIMUM),
        (scaled(json!(3)), "minAvailable", json!(2), ""),
        (scaled(json!(3)), "minAvailable", json!(100), BLOCKED),
    ];
    for (autoscaler, field, value, expected) in cases {
        let selector = json!({"matchLabels": {"app": "a"}});
        // The autoscaler only starts with the number in the manifest.
        let objects = [
            workload("a", json!(50), json!({"app": "a"})),
            autoscaler.clone(),
            pdb("p", field, value.clone(), selector),
        ];
        assert_eq!(verdict(&objects), *expected, "{field}: {value} under {autoscaler}");
    }
}

#[test]
fn selectors_and_what_they_select() {
    let a = || workload("a", json!(2), json!({"app": "a", "tier": "web"}));
    let b = || workload("b", json!(2), json!({"app": "b"}));
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let cases: &[(Value, i64, &str)] = &[
        (json!({"matchLabels": {"app": "a"}}), 2, BLOCKED),
        (json!({"matchLabels": {"app": "c"}}), 2, ""),
        (json!({"matchLabels": {"app": "${APP}"}}), 2, ""),
        (expression("app", "In", json!(["a"])), 2, BLOCKED),
        (expression("app", "In", json!(["a", "b"])), 3, ""),
        (expression("app", "In", json!(["a", "b"])), 4, BLOCKED),
        (expression("app", "NotIn", json!(["b"])), 2, BLOCKED),
        (expression("app", "NotIn", json!(["c"])), 3, ""),
        (expression("tier", "Exists", json!([])), 2, BLOCKED),
        (expression("tier", "DoesNotExist", json!([])), 2, BLOCKED),
        (expression("tier", "DoesNotExist", json!([])), 1, ""),
        (json!({}), 3, ""),
        (json!({}), 4, BLOCKED),
        (json!(null), 4, ""),
    ];
    for (selector, keep, expected) in cases {
        let objects = [a(), b(), pdb("p", "minAvailable", json!(keep), selector.clone())];
        assert_eq!(verdict(&objects), *expected, "{keep} of {selector}");
    }
    // A workload without `replicas` runs one pod, unless something outside the input scales it.
    let one = workload("a", json!(null), json!({"app": "a"}));
    assert_eq!(verdict(&[one, pdb("p", "minAvailable", json!(1), json!({}))]), AT_MINIMUM);
}

#[test]
fn pods_without_a_scale() {
    let job = |parallelism: i64| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"},
            "spec": {"parallelism": parallelism, "template": {"metadata": {"labels": {"app": "a"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}}}})
    };
    const ON_JOB: &str = "warning pdb-on-job";
    for (field, value, expected) in [
        ("maxUnavailable", json!(2), ON_JOB),
        ("maxUnavailable", json!("100%"), ON_JOB),
        ("minAvailable", json!("50%"), ON_JOB),
        ("minAvailable", json!(8), ON_JOB),
        ("minAvailable", json!(7), ""),
    ] {
        let objects = [job(8), pdb("p", field, value.clone(), json!({"matchLabels": {"app": "a"}}))];
        assert_eq!(verdict(&objects), expected, "{field}: {value}");
    }
}

#[test]
fn two_budgets_over_one_pod() {
    const OVERLAP: &str = "error pdb-overlap";
    let labels = json!({"app": "a", "team": "ml"});
    for (first, second, expected) in [
        (json!({"matchLabels": {"app": "a"}}), json!({"matchLabels": {"team": "ml"}}), OVERLAP),
        (json!({"matchLabels": {"app": "a"}}), json!({"matchLabels": {"app": "b"}}), ""),
        (json!({"matchLabels": {"app": "a"}}), json!({}), OVERLAP),
        (json!({"matchLabels": {"app": "a"}}), json!(null), ""),
        (
            json!({"matchLabels": {"app": "a"}}),
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
            "",
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
            OVERLAP,
        ),
        (json!({"matchLabels": {"app": "a"}}), json!({"matchLabels": {"team": "${TEAM}"}}), ""),
    ] {
        let objects = [
            workload("a", json!(3), labels.clone()),
            pdb("p", "maxUnavailable", json!(1), first.clone()),
            pdb("q", "maxUnavailable", json!(1), second.clone()),
        ];
        assert_eq!(verdict(&objects), expected, "{first} and {second}");
    }
}
