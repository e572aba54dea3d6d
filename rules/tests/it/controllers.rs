//! Objects that Karpenter's controllers reject although the API server accepts them, and objects that both
//! accept.
//!
//! There is one test for each table of Karpenter's own validation (`pkg/apis/v1/*_validation.go` and the
//! controllers of NodeClass and pods, <https://github.com/kubernetes-sigs/karpenter>). Each case is one
//! object that differs from a valid one in one field. `Refused` means that the rule reports an error which
//! says that Karpenter rejects the object, and that no finding says that the API server rejects it. `Taken`
//! means that no finding says that anything rejects it.

use gpulint_rules::{Authority, Engine, Finding, Object, Platform, Settings, Version};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Refused,
    Taken,
}
use Verdict::{Refused, Taken};

/// A valid NodePool.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                ],
            }},
            "limits": {"cpu": 500},
        },
    })
}

/// A valid EC2NodeClass.
fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "general"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@v20260810"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        },
    })
}

/// A valid NodeOverlay.
fn overlay(requirement: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "general"},
        "spec": {"requirements": [requirement], "price": "1.5"},
    })
}

fn pool_with(requirement: Value) -> Value {
    let mut pool = pool();
    pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(requirement);
    pool
}

fn pool_with_label(key: &str, value: &str) -> Value {
    let mut pool = pool();
    pool["spec"]["template"]["metadata"] = json!({"labels": {key: value}});
    pool
}

fn class_with(field: &str, value: Value) -> Value {
    let mut class = class();
    class["spec"][field] = value;
    class
}

fn lint(object: &Value, platform: Platform) -> Vec<Finding> {
    let object = Object::from_json(object).unwrap();
    let engine = Engine::new(Settings { platform, ..Settings::default() });
    engine.check_object(&object, &gpulint_testing::cluster(&engine, [&object]))
}

/// The cases of one rule.
struct Table {
    rule: &'static str,
    platform: Platform,
    wrong: Vec<String>,
}

impl Table {
    fn new(rule: &'static str) -> Table {
        Table { rule, platform: Platform::default().with_all_stated(), wrong: Vec::new() }
    }

    fn case(&mut self, name: &str, object: &Value, verdict: Verdict) {
        let findings = lint(object, self.platform.clone());
        let by = |authority: Authority| findings.iter().filter(move |f| f.rejected_by == Some(authority));
        let own = by(Authority::Karpenter).any(|f| f.rule.id == self.rule);
        let fine = match verdict {
            Refused => own && by(Authority::ApiServer).count() == 0,
            Taken => findings.iter().all(|f| f.rejected_by.is_none()),
        };
        if !fine {
            let claims: Vec<String> = findings
                .iter()
                .map(|f| format!("{} {:?}: {}", f.rule.id, f.rejected_by, f.message))
                .collect();
            self.wrong.push(format!("{}: {name} should be {verdict:?}: {claims:?}", self.rule));
        }
    }

    /// Fails and lists every case with another result than expected.
    #[track_caller]
    fn finish(self) {
        assert!(self.wrong.is_empty(), "\n{}\n", self.wrong.join("\n"));
    }
}

/// The cron dialect of budgets.
#[test]
fn schedules_of_budgets() {
    let mut table = Table::new("budget-schedule-invalid");
    let cases = [
        ("0 9 * * *", Taken),
        ("0 9 * * MON-FRI", Taken),
        ("0 9 * * mon-fri", Taken),
        ("0 9 * * Mon,Wed", Taken),
        ("0 0 * * sat,sun", Taken),
        ("0 9 ? * *", Taken),
        ("0 9 * * ?", Taken),
        ("*/90 * * * *", Taken),
        ("1/2 * * * *", Taken),
        ("0  9  *  *  *", Taken),
        ("0 0 1-31 * *", Taken),
        ("0 0 * jan-mar *", Taken),
        ("0 0 * JUN *", Taken),
        ("0 9-17/2 * * 1-5", Taken),
        ("0,30 9 * * 0", Taken),
        ("59 23 31 12 6", Taken),
        ("0 0 29 2 *", Taken),
        ("@yearly", Taken),
        ("@annually", Taken),
        ("@monthly", Taken),
        ("@weekly", Taken),
        ("@daily", Taken),
        ("@midnight", Taken),
        ("@hourly", Taken),
        // The schedule is valid and has no times, so its budget always applies. That is a mistake, but
        // nothing rejects it.
        ("0 9 31 2 *", Taken),
        ("0 0 30 2 *", Taken),
        ("0 9 * * 7", Refused),
        ("0 9 * * 1-7", Refused),
        ("0 9 * * 0-7", Refused),
        ("0 9 * * sat-sun", Refused),
        ("0 9 * * 5-1", Refused),
        ("0 24 * * *", Refused),
        ("60 * * * *", Refused),
        ("0 0 9 * * *", Refused),
        ("0 0 9 * * MON 2026", Refused),
        ("0 9 * * monday", Refused),
        ("0 9 * january *", Refused),
        ("0 9 L * *", Refused),
        ("0 9 15W * *", Refused),
        ("0 9 * * 1#2", Refused),
        ("0 9 * * 5L", Refused),
        ("H 9 * * *", Refused),
        ("TZ=UTC 0 9 * * *", Refused),
        ("CRON_TZ=Asia/Seoul 0 9 * * *", Refused),
        ("*/0 * * * *", Refused),
        ("0 9 * 13 *", Refused),
        ("0 9 * 0 *", Refused),
        ("0 9 0 * *", Refused),
        ("0 9 32 * *", Refused),
        ("0 9 10-5 * *", Refused),
        ("0 9-17-18 * * *", Refused),
        ("0 9/1/2 * * *", Refused),
        ("-1 9 * * *", Refused),
        ("1.5 9 * * *", Refused),
        ("@dailyfoo", Refused),
        ("@daily 9 * *", Refused),
    ];
    for (schedule, verdict) in cases {
        let mut pool = pool();
        pool["spec"]["disruption"] = json!({
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "20%"}, {"nodes": "0", "schedule": schedule, "duration": "8h"}],
        });
        table.case(schedule, &pool, verdict);
    }
    table.finish();
}

/// A qualified name whose second part has `length` characters. A label allows 63.
fn name_of(length: usize) -> String {
    format!("example.com/{}", "n".repeat(length))
}

/// Keys that the CRD accepts.
#[test]
fn keys_of_requirements() {
    let (fitting_name, long_name) = (name_of(63), name_of(64));
    let long_domain = format!("{}/n", "d".repeat(254));
    let fitting_domain = format!("{}/n", "d".repeat(253));
    let mut table = Table::new("requirement-key-restricted");
    for (key, verdict) in [
        ("karpenter.sh/capacity-type", Taken),
        ("topology.kubernetes.io/zone", Taken),
        ("topology.kubernetes.io/region", Taken),
        ("topology.k8s.aws/zone-id", Taken),
        ("kubernetes.io/arch", Taken),
        ("kubernetes.io/os", Taken),
        ("node.kubernetes.io/instance-type", Taken),
        ("node.kubernetes.io/windows-build", Taken),
        ("beta.kubernetes.io/arch", Taken),
        ("beta.kubernetes.io/instance-type", Taken),
        ("failure-domain.beta.kubernetes.io/zone", Taken),
        ("topology.ebs.csi.aws.com/zone", Taken),
        ("node-role.kubernetes.io/gpu", Taken),
        ("app.kubernetes.io/name", Taken),
        ("karpenter.k8s.aws/instance-family", Taken),
        ("karpenter.k8s.aws/instance-tenancy", Taken),
        ("karpenter.k8s.aws/instance-capability-flex", Taken),
        ("karpenter.k8s.aws/capacity-reservation-type", Taken),
        ("karpenter.k8s.aws/capacity-reservation-interruptible", Taken),
        ("karpenter.k8s.aws/placement-group-partition", Taken),
        ("eks.amazonaws.com/compute-type", Taken),
        ("example.com/team", Taken),
        ("team", Taken),
        (fitting_name.as_str(), Taken),
        (fitting_domain.as_str(), Taken),
        ("karpenter.k8s.aws/ec2nodeclass", Refused),
        (long_name.as_str(), Refused),
        (long_domain.as_str(), Refused),
    ] {
        let requirement = json!({"key": key, "operator": "Exists"});
        table.case(key, &pool_with(requirement), verdict);
    }
    table.finish();
}

#[test]
fn keys_of_template_labels() {
    let (fitting_name, long_name) = (name_of(63), name_of(64));
    let mut table = Table::new("requirement-key-restricted");
    for (key, verdict) in [
        ("karpenter.sh/capacity-type", Taken),
        ("karpenter.k8s.aws/instance-family", Taken),
        ("node-role.kubernetes.io/gpu", Taken),
        ("example.com/team", Taken),
        ("team_a.b-C", Taken),
        (fitting_name.as_str(), Taken),
        ("karpenter.k8s.aws/ec2nodeclass", Refused),
        ("Example.com/team", Refused),
        ("example.com/a/b", Refused),
        ("example.com/", Refused),
        ("/team", Refused),
        ("-team", Refused),
        ("team name", Refused),
        ("", Refused),
        (long_name.as_str(), Refused),
    ] {
        let value = if key == "karpenter.sh/capacity-type" { "on-demand" } else { "m7i" };
        table.case(key, &pool_with_label(key, value), verdict);
    }
    table.finish();
}

#[test]
fn keys_of_node_overlays() {
    let long_name = name_of(64);
    let mut table = Table::new("requirement-key-restricted");
    for (key, verdict) in [
        ("karpenter.sh/nodepool", Taken),
        ("karpenter.sh/capacity-type", Taken),
        ("karpenter.k8s.aws/instance-family", Taken),
        ("example.com/team", Taken),
        ("karpenter.k8s.aws/ec2nodeclass", Refused),
        (long_name.as_str(), Refused),
    ] {
        let requirement = json!({"key": key, "operator": "Exists"});
        table.case(key, &overlay(requirement), verdict);
    }
    table.finish();
}

/// Karpenter ignores a pod that requires a restricted key.
#[test]
fn keys_that_pods_require() {
    let mut table = Table::new("requirement-key-restricted");
    for (key, operator, verdict) in [
        ("karpenter.sh/nodepool", "Exists", Taken),
        ("karpenter.sh/nodepool", "DoesNotExist", Taken),
        ("karpenter.sh/registered", "DoesNotExist", Taken),
        ("karpenter.k8s.aws/instance-family", "Exists", Taken),
        ("topology.kubernetes.io/zone", "Exists", Taken),
        ("notkarpenter.sh/x", "Exists", Taken),
        ("karpenter.sh", "Exists", Taken),
        ("example.com/team", "Exists", Taken),
        ("karpenter.sh/registered", "Exists", Refused),
        ("karpenter.sh/initialized", "Exists", Refused),
        ("sub.karpenter.sh/x", "Exists", Refused),
        ("karpenter.k8s.aws/ec2nodeclass", "Exists", Refused),
        ("karpenter.k8s.aws/instance-pods", "Exists", Refused),
        ("sub.karpenter.k8s.aws/x", "Exists", Refused),
    ] {
        let terms = json!([{"matchExpressions": [{"key": key, "operator": operator}]}]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {
                "containers": [{"name": "web", "image": "web:1.2.3"}],
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
            },
        });
        table.case(&format!("{key} {operator}"), &pod, verdict);
    }
    table.finish();
}

/// The pattern of the CRD applies to the list, so only the controller validates values.
#[test]
fn values_of_requirements() {
    let fitting = "v".repeat(63);
    let long = "v".repeat(64);
    let cases = [
        ("", Taken),
        ("a", Taken),
        ("A_b.c-1", Taken),
        ("u7in-16tb", Taken),
        ("0", Taken),
        (fitting.as_str(), Taken),
        (long.as_str(), Refused),
        ("-a", Refused),
        ("a-", Refused),
        (".a", Refused),
        ("a b", Refused),
        ("a, b", Refused),
        (" a", Refused),
        ("a/b", Refused),
        ("a@b", Refused),
        ("a:b", Refused),
        ("ä", Refused),
    ];
    for operator in ["In", "NotIn"] {
        let mut table = Table::new("requirement-value-syntax");
        for (value, verdict) in cases {
            let requirement = json!({"key": "example.com/a", "operator": operator, "values": [value]});
            table.case(&format!("{operator} [{value}]"), &pool_with(requirement), verdict);
        }
        table.finish();
    }
}

#[test]
fn values_that_are_compared_as_numbers() {
    let mut table = Table::new("requirement-value-syntax");
    for (value, verdict) in [("4", Taken), ("007", Taken), ("0", Taken), ("+5", Refused), ("-0", Refused)] {
        let requirement = json!({"key": "example.com/a", "operator": "Gt", "values": [value]});
        table.case(&format!("Gt [{value}]"), &pool_with(requirement), verdict);
    }
    table.finish();
}

#[test]
fn values_of_node_overlays() {
    let mut table = Table::new("requirement-value-syntax");
    for (value, verdict) in [("m7i", Taken), ("m 7", Refused)] {
        let requirement =
            json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [value]});
        table.case(value, &overlay(requirement), verdict);
    }
    table.finish();
}

/// Values of which at least one, and as many as `minValues`, must be known.
#[test]
fn capacity_types() {
    let mut table = Table::new("capacity-type-invalid");
    let all = json!(["on-demand", "spot", "reserved"]);
    for (operator, values, least, verdict) in [
        ("In", json!(["on-demand"]), None, Taken),
        ("In", all.clone(), None, Taken),
        ("In", all, Some(3), Taken),
        // Karpenter logs the unknown value and continues.
        ("In", json!(["on-demand", "Spot"]), None, Taken),
        ("In", json!(["on-demand", "Spot"]), Some(1), Taken),
        ("NotIn", json!(["Spot"]), None, Taken),
        ("Exists", json!([]), None, Taken),
        ("In", json!(["Spot"]), None, Refused),
        ("In", json!(["ondemand"]), None, Refused),
        ("In", json!(["ON-DEMAND", "SPOT"]), None, Refused),
        ("In", json!([""]), None, Refused),
        ("In", json!(["on-demand", "Spot"]), Some(2), Refused),
    ] {
        let name = format!("{operator} {values} {least:?}");
        let mut requirement =
            json!({"key": "karpenter.sh/capacity-type", "operator": operator, "values": values});
        if let Some(least) = least {
            requirement["minValues"] = json!(least);
        }
        table.case(&name, &pool_with(requirement), verdict);
    }
    table.case("a label: nobody looks at it", &pool_with_label("karpenter.sh/capacity-type", "Spot"), Taken);
    table.finish();
}

#[test]
fn capacity_types_before_1_5() {
    let mut table = Table::new("capacity-type-invalid");
    table.platform.karpenter = Version::new(1, 4);
    let requirement = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["Spot"]});
    table.case("1.4", &pool_with(requirement), Taken);
    table.finish();
}

/// Each pair of key and effect may occur once. The values must be valid for a Node.
#[test]
fn taints() {
    let mut table = Table::new("taint-invalid");
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let valued = |value: &str| json!({"key": "example.com/a", "effect": "NoSchedule", "value": value});
    let none = json!([]);
    for (name, taints, startup, verdict) in [
        ("one", json!([taint("a", "NoSchedule")]), none.clone(), Taken),
        ("other effect", json!([taint("a", "NoSchedule"), taint("a", "NoExecute")]), none.clone(), Taken),
        ("other key", json!([taint("a", "NoSchedule"), taint("b", "NoSchedule")]), none.clone(), Taken),
        ("other effect at start", json!([taint("a", "NoSchedule")]), json!([taint("a", "NoExecute")]), Taken),
        (
            "a taint of Karpenter's",
            json!([taint("karpenter.sh/capacity-type", "NoSchedule")]),
            none.clone(),
            Taken,
        ),
        ("a value", json!([valued("b")]), none.clone(), Taken),
        ("63 characters", json!([valued(&"v".repeat(63))]), none.clone(), Taken),
        // The API server and Karpenter accept it, but no Node can have it.
        ("a value with a domain", json!([valued("a/b")]), none.clone(), Taken),
        ("64 characters", json!([valued(&"v".repeat(64))]), none.clone(), Refused),
        ("a long key", json!([taint(&"k".repeat(64), "NoSchedule")]), none.clone(), Refused),
        ("a long domain", json!([taint(&format!("{}/k", "d".repeat(254)), "NoSchedule")]), none, Refused),
    ] {
        let mut pool = pool();
        pool["spec"]["template"]["spec"]["taints"] = taints;
        pool["spec"]["template"]["spec"]["startupTaints"] = startup;
        table.case(name, &pool, verdict);
    }
    table.finish();
}

/// A key and effect that occur twice.
#[test]
fn duplicate_taints() {
    let mut table = Table::new("taint-duplicate");
    let taint = |value: &str| json!({"key": "a", "effect": "NoSchedule", "value": value});
    for (name, taints, startup, verdict) in [
        ("once", json!([taint("a")]), json!([]), Taken),
        ("other effect", json!([taint("a"), {"key": "a", "effect": "NoExecute"}]), json!([]), Taken),
        ("twice", json!([taint("a"), taint("a")]), json!([]), Refused),
        ("twice, other value", json!([taint("a"), taint("b")]), json!([]), Refused),
        ("twice at start", json!([]), json!([taint("a"), taint("a")]), Refused),
        ("over both lists", json!([taint("a")]), json!([taint("a")]), Refused),
    ] {
        let mut pool = pool();
        pool["spec"]["template"]["spec"]["taints"] = taints;
        pool["spec"]["template"]["spec"]["startupTaints"] = startup;
        table.case(name, &pool, verdict);
    }
    table.finish();
}

/// Karpenter ignores a class of a kind that its version does not serve.
#[test]
fn node_class_references() {
    let mut table = Table::new("node-class-ref-unserved");
    for (group, kind, verdict) in [
        ("karpenter.k8s.aws", "EC2NodeClass", Taken),
        ("eks.amazonaws.com", "NodeClass", Taken),
        ("karpenter.azure.com", "AKSNodeClass", Taken),
        ("karpenter.k8s.aws", "AWSNodeTemplate", Refused),
        ("karpenter.k8s.aws", "NodeClass", Refused),
        ("karpenter.k8s.aws", "ec2nodeclass", Refused),
        ("eks.amazonaws.com", "EC2NodeClass", Refused),
        ("karpenter.sh", "EC2NodeClass", Refused),
    ] {
        let mut pool = pool();
        let spec = &mut pool["spec"]["template"]["spec"];
        spec["nodeClassRef"] = json!({"group": group, "kind": kind, "name": "general"});
        spec["requirements"] = json!([]);
        table.case(&format!("{group} {kind}"), &pool, verdict);
    }
    table.finish();
}

const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// If none of the tenancies is valid, Karpenter does not consider the pod.
#[test]
fn tenancies_that_pods_require() {
    let pod = |kind: &str, spec: Value| {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "web", "image": "web:1.2.3"}]);
        if kind == "Pod" {
            return json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec});
        }
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
            },
        })
    };
    let wanted = |operator: &str, values: Value| {
        let terms = json!([{"matchExpressions": [{"key": TENANCY, "operator": operator, "values": values}]}]);
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let selected = |value: &str| json!({"nodeSelector": {TENANCY: value}});
    let mut table = Table::new("requirement-value-unknown");
    for (kind, spec, verdict) in [
        ("Pod", selected("dedicated"), Taken),
        ("Pod", selected("shared"), Refused),
        ("Deployment", selected("host"), Refused),
        // Karpenter starts no node for it in any case.
        ("DaemonSet", selected("shared"), Taken),
        ("Pod", wanted("In", json!(["default", "dedicated"])), Taken),
        ("Pod", wanted("In", json!(["default", "shared"])), Taken),
        ("Pod", wanted("In", json!(["shared", "host"])), Refused),
        ("Pod", wanted("NotIn", json!(["host"])), Taken),
    ] {
        table.case(&format!("{kind} {spec}"), &pod(kind, spec), verdict);
    }
    table.finish();
}

#[test]
fn tenancies_of_pools() {
    let mut table = Table::new("requirement-value-unknown");
    for (operator, values, verdict) in [
        ("In", json!(["default"]), Taken),
        ("In", json!(["dedicated", "Default"]), Taken),
        ("In", json!(["Dedicated"]), Refused),
        ("In", json!(["host"]), Refused),
        ("NotIn", json!(["host"]), Taken),
    ] {
        let requirement = json!({"key": TENANCY, "operator": operator, "values": values});
        table.case(&format!("{operator} {values}"), &pool_with(requirement), verdict);
    }
    table.finish();
}

/// Errors that the status conditions of a class report later.
#[test]
fn ami_aliases_of_classes() {
    let mut table = Table::new("ami-unsupported-by-eks");
    let terms = |alias: &str| class_with("amiSelectorTerms", json!([{"alias": alias}]));
    for (kubernetes, alias, verdict) in [
        (34, "al2023@v20260810", Taken),
        (34, "al2023@latest", Taken),
        (34, "bottlerocket@v1.50.0", Taken),
        (34, "windows2022@latest", Taken),
        (32, "al2@v20260810", Taken),
        (35, "windows2025@latest", Taken),
        (33, "al2@v20260810", Refused),
        (34, "al2@latest", Refused),
        (34, "windows2025@latest", Refused),
    ] {
        table.platform.kubernetes = Version::new(1, kubernetes);
        table.case(&format!("{alias} on 1.{kubernetes}"), &terms(alias), verdict);
    }
    table.finish();
}

#[test]
fn roles_of_classes() {
    let mut table = Table::new("node-class-identity");
    for (role, verdict) in [
        ("r".repeat(64), Taken),
        (format!("{}/{}", "p".repeat(60), "r".repeat(64)), Taken),
        ("r".repeat(65), Refused),
    ] {
        table.case(&role, &class_with("role", json!(role)), verdict);
    }
    table.finish();
}

/// From 1.15 on the CRD accepts any kubelet map, and the controller validates it.
#[test]
fn kubelets_of_classes() {
    let mut table = Table::new("node-class-kubelet");
    table.platform.karpenter = Version::new(1, 15);
    let soft = json!({"memory.available": "5%"});
    for (kubelet, verdict) in [
        (json!({"maxPods": 110}), Taken),
        (json!({"evictionSoft": soft, "evictionSoftGracePeriod": {"memory.available": "90s"}}), Taken),
        (json!({"kubeReserved": {"cpu": "100m"}}), Taken),
        (json!({"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80}), Taken),
        (json!({"evictionSoft": soft, "evictionSoftGracePeriod": {"memory.available": "soon"}}), Refused),
        (json!({"evictionHard": {"memory.free": "5%"}}), Refused),
        (json!({"kubeReserved": {"gpu": "1"}}), Refused),
        (json!({"systemReserved": {"cpu": "-100m"}}), Refused),
        (json!({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80}), Refused),
    ] {
        let name = kubelet.to_string();
        table.case(&name, &class_with("kubelet", kubelet), verdict);
    }
    table.finish();
}

#[test]
fn soft_eviction_of_classes() {
    let mut table = Table::new("eviction-soft-unpaired");
    table.platform.karpenter = Version::new(1, 15);
    let soft = json!({"memory.available": "5%"});
    let grace = json!({"memory.available": "90s"});
    for (kubelet, verdict) in [
        (json!({"evictionSoft": soft, "evictionSoftGracePeriod": grace}), Taken),
        (json!({"evictionSoft": soft}), Refused),
        (json!({"evictionSoftGracePeriod": grace}), Refused),
    ] {
        let name = kubelet.to_string();
        table.case(&name, &class_with("kubelet", kubelet), verdict);
    }
    table.finish();
}
