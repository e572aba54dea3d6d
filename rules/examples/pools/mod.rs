//! NodePools of all sorts: every requirement key, operator, limit and budget that users write, common
//! mistakes, and unusual structures. Equal seeds give equal output.
//!
//! Used by the `manifests` example and by the test `pools`.

mod draw;
mod yaml;

use serde_json::{Map, Value, json};

use draw::Random;
use yaml::written;

/// One pool, sometimes with its node class and a workload that selects it. Every fourth has a field of the
/// wrong type, every seventh has invalid text. Returns the text, and the objects if the text is valid.
pub(crate) fn sample(seed: u64) -> (String, Option<Vec<Value>>) {
    let mut random = Random::new(seed);
    let name = format!("pool-{seed}");
    let mut objects = vec![pool(&name, &mut random)];
    if random.one_in(3) {
        objects.push(class(&mut random));
    }
    if random.one_in(3) {
        objects.push(workload(&name, &mut random));
    }
    if seed.is_multiple_of(4) {
        let at = random.below(objects.len());
        for _ in 0..=random.below(2) {
            draw::reshape(&mut objects[at], &mut random);
        }
        // A value without these two fields is not an object.
        let good = |o: &Value| o["apiVersion"].is_string() && o["kind"].is_string();
        objects.retain(good);
    }
    let texts: Vec<String> = objects.iter().map(|o| written(o, &mut random)).collect();
    let mut text = texts.join("---\n");
    let broken = seed.is_multiple_of(7);
    if broken {
        draw::break_text(&mut text, &mut random);
    }
    (text, (!broken).then_some(objects))
}

/// A key with suitable values.
fn key_and_values(random: &mut Random) -> (&'static str, &'static [&'static str]) {
    const WORDS: &[(&str, &[&str])] = &[
        ("karpenter.sh/capacity-type", &["on-demand", "spot", "reserved", "Spot", "ondemand"]),
        ("kubernetes.io/arch", &["amd64", "arm64", "x86_64", "AMD64"]),
        ("kubernetes.io/os", &["linux", "windows", "Linux"]),
        ("topology.kubernetes.io/zone", &["us-east-1a", "us-west-2b", "mars-1a", "us-east-1-bos-1a"]),
        ("topology.kubernetes.io/region", &["us-east-1", "eu-west-3"]),
        ("topology.k8s.aws/zone-id", &["use1-az1", "use1-az2"]),
        (
            "node.kubernetes.io/instance-type",
            &["g5.xlarge", "p5.48xlarge", "m7i.large", "p9x.48xlarge", "m7i.lrage", "p3.2xlarge"],
        ),
        (
            "karpenter.k8s.aws/instance-family",
            &["g5", "g6", "g6e", "g6f", "p4d", "p5", "m7i", "c7g", "trn2", "inf2", "p3", "g4ad", "p9x"],
        ),
        ("karpenter.k8s.aws/instance-category", &["g", "p", "c", "m", "r", "trn", "inf", "g5", "C"]),
        ("karpenter.k8s.aws/instance-generation", &["4", "5", "6", "7", "99"]),
        ("karpenter.k8s.aws/instance-size", &["xlarge", "2xlarge", "48xlarge", "metal", "9xlarge", "xlareg"]),
        ("karpenter.k8s.aws/instance-cpu", &["4", "8", "16", "192"]),
        ("karpenter.k8s.aws/instance-memory", &["16384", "65536", "2097152"]),
        ("karpenter.k8s.aws/instance-cpu-manufacturer", &["intel", "amd", "aws", "AMD"]),
        ("karpenter.k8s.aws/instance-hypervisor", &["nitro", "xen", ""]),
        ("karpenter.k8s.aws/instance-local-nvme", &["100", "900"]),
        ("karpenter.k8s.aws/instance-network-bandwidth", &["1000", "100000"]),
        ("karpenter.k8s.aws/instance-gpu-name", &["l4", "a10g", "t4", "h100", "a100", "A10G", "nvidia-h100"]),
        ("karpenter.k8s.aws/instance-gpu-manufacturer", &["nvidia", "amd", "NVIDIA"]),
        ("karpenter.k8s.aws/instance-gpu-count", &["0", "1", "4", "8"]),
        ("karpenter.k8s.aws/instance-gpu-memory", &["22888", "24000", "24576", "40000", "80000", "49152"]),
        ("karpenter.k8s.aws/instance-accelerator-name", &["trainium", "trainium2", "inferentia2"]),
        ("karpenter.k8s.aws/instance-accelerator-count", &["1", "16"]),
        ("karpenter.k8s.aws/instance-tenancy", &["default", "dedicated", "host"]),
        ("karpenter.k8s.aws/capacity-reservation-id", &["cr-0123456789abcdef0"]),
        ("karpenter.k8s.aws/ec2nodeclass", &["gpu"]),
        ("karpenter.k8s.aws/instance-pods", &["110"]),
        ("karpenter.sh/nodepool", &["gpu"]),
        ("karpenter.sh/provisioner-name", &["default"]),
        ("kubernetes.io/hostname", &["ip-10-0-0-1"]),
        ("eks.amazonaws.com/instance-family", &["g5", "g6", "m7i"]),
        ("eks.amazonaws.com/instance-gpu-name", &["l4", "A10G"]),
        ("eks.amazonaws.com/capacityType", &["SPOT", "ON_DEMAND"]),
        ("node.kubernetes.io/instance-family", &["g5"]),
        ("instance-gpu-count", &["1"]),
        ("beta.kubernetes.io/arch", &["amd64", "arm64"]),
        ("nvidia.com/gpu.product", &["NVIDIA-A10G", "Tesla-T4"]),
        ("example.com/team", &["search", "ads", "x y", "-"]),
        ("example.com/a/b", &["c"]),
        ("${KEY}", &["${VALUE}"]),
        ("", &[""]),
    ];
    *random.pick(WORDS)
}

fn requirement(random: &mut Random) -> Value {
    let (key, known) = key_and_values(random);
    let operator = match random.below(20) {
        0..8 => "In",
        8..11 => "NotIn",
        11..13 => "Exists",
        13 => "DoesNotExist",
        14..16 => "Gt",
        16 => "Lt",
        17 => "Gte",
        18 => "Lte",
        _ => *random.pick(&["in", "", "Equals", "${OP}"]),
    };
    let count = match operator {
        "Exists" | "DoesNotExist" if !random.one_in(9) => 0,
        "Gt" | "Lt" | "Gte" | "Lte" if !random.one_in(9) => 1,
        _ => random.below(5),
    };
    let values: Vec<Value> = (0..count)
        .map(|_| match random.below(30) {
            0 => {
                json!(random.pick(&["-1", "9223372036854775807", "99999999999999999999", "1.5", "007", "+5"]))
            }
            1 => json!(random.below(100)),
            2 => random.odd(),
            3 => json!("v".repeat(random.below(80))),
            _ => json!(random.pick(known)),
        })
        .collect();
    let mut out = json!({"key": key, "operator": operator});
    if count > 0 || random.one_in(4) {
        out["values"] = Value::Array(values);
    }
    if random.one_in(12) {
        out["minValues"] = json!(*random.pick(&[1_i64, 2, 3, 50, 51, 0, -1]));
    }
    out
}

fn quantity(random: &mut Random) -> Value {
    match random.below(12) {
        0..4 => json!(*random.pick(&[0, 1, 8, 64, 500, 20_000])),
        4..7 => json!(random.pick(&["100", "4000Gi", "128Gi", "1Ti", "500m", "1e3", "12E", "16"])),
        7 => json!(random.pick(&[
            "",
            "-1",
            "ten",
            "1.5GB",
            "${LIMIT}",
            "0x10",
            "1e400",
            "1000000000000000000000"
        ])),
        8 => json!(1.5),
        9 => random.odd(),
        _ => json!(random.below(2000)),
    }
}

fn limits(random: &mut Random) -> Value {
    let mut out = Map::new();
    for _ in 0..random.below(4) {
        let key = random.pick(&[
            "cpu",
            "memory",
            "nvidia.com/gpu",
            "nvidia.com/gpu",
            "aws.amazon.com/neuron",
            "amd.com/gpu",
            "nodes",
            "gpu",
            "pods",
            "ephemeral-storage",
            "nvidia.com/mig-1g.5gb",
            "habana.ai/gaudi",
            "",
        ]);
        out.insert((*key).to_owned(), quantity(random));
    }
    Value::Object(out)
}

fn duration(random: &mut Random) -> Value {
    json!(random.pick(&[
        "5m", "30s", "0s", "Never", "never", "720h", "24h", "1h30m", "10h", "30d", "1w", "9999999h", "-5m",
        "", "5", "1.5h", "${AFTER}", "8h0m0s",
    ]))
}

fn budget(random: &mut Random) -> Value {
    let mut out =
        json!({"nodes": random.pick(&["0", "10%", "1", "100%", "20%", "101%", "-1", "ten", "0%", "${N}"])});
    if random.one_in(2) {
        out["schedule"] = json!(random.pick(&[
            "0 9 * * *",
            "0 9 * * mon-fri",
            "*/15 * * * *",
            "@daily",
            "0 0 31 2 *",
            "0 9 * * 7",
            "0 9 * * 1#2",
            "@every 1h",
            "* * * * *",
            "0 9 * *",
            "TZ=UTC 0 9 * * *",
            "0 0 29 2 *",
            "",
            "61 * * * *",
            "@yearly",
        ]));
        if !random.one_in(6) {
            out["duration"] = duration(random);
        }
    } else if random.one_in(6) {
        out["duration"] = duration(random);
    }
    if random.one_in(3) {
        let count = random.below(4);
        let reasons = ["Drifted", "Empty", "Underutilized", "Expired", "drifted"];
        out["reasons"] = (0..count).map(|_| json!(random.pick(&reasons))).collect();
    }
    if random.one_in(10) {
        out["nodes"] = json!(random.below(12));
    }
    out
}

fn taint(random: &mut Random) -> Value {
    let mut out = json!({
        "key": random.pick(&["nvidia.com/gpu", "nvidia.com/gpu", "aws.amazon.com/neuron", "example.com/team", "karpenter.sh/disrupted", "a b", ""]),
        "effect": random.pick(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule", "noschedule", ""]),
    });
    if random.one_in(2) {
        out["value"] = json!(random.pick(&["true", "", "Exists", "a/b", "gpu", "${V}"]));
    }
    out
}

fn disruption(random: &mut Random) -> Value {
    let mut out = json!({});
    if !random.one_in(4) {
        out["consolidationPolicy"] = json!(random.pick(&[
            "WhenEmpty",
            "WhenEmptyOrUnderutilized",
            "WhenUnderutilized",
            "Balanced",
            ""
        ]));
    }
    if !random.one_in(4) {
        out["consolidateAfter"] = duration(random);
    }
    if random.one_in(2) {
        let count = random.below(5);
        out["budgets"] = (0..count).map(|_| budget(random)).collect();
    }
    if random.one_in(15) {
        out["expireAfter"] = duration(random);
    }
    out
}

fn class_ref(random: &mut Random) -> Value {
    match random.below(12) {
        0 => json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}),
        1 => json!({"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}),
        2 => json!({"name": "gpu"}),
        3 => json!({"group": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "name": "gpu"}),
        4 => json!({"group": "karpenter.k8s.aws", "kind": "AWSNodeTemplate", "name": "${CLASS}"}),
        _ => json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}),
    }
}

fn pool(name: &str, random: &mut Random) -> Value {
    let count = random.below(9);
    let mut spec = json!({
        "nodeClassRef": class_ref(random),
        "requirements": (0..count).map(|_| requirement(random)).collect::<Vec<_>>(),
    });
    for (field, odds) in [("taints", 2), ("startupTaints", 8)] {
        if random.one_in(odds) {
            let count = random.below(4);
            spec[field] = (0..count).map(|_| taint(random)).collect();
        }
    }
    for field in ["expireAfter", "terminationGracePeriod"] {
        if random.one_in(4) {
            spec[field] = duration(random);
        }
    }
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}},
    });
    if random.one_in(3) {
        let (key, known) = key_and_values(random);
        let value = random.pick(known);
        pool["spec"]["template"]["metadata"] = json!({"labels": {
            key: value, "example.com/pool": name, "workload": random.pick(&["training", "inference", "batch"]),
        }});
    }
    if random.one_in(6) {
        pool["metadata"]["annotations"] =
            json!({"karpenter.sh/do-not-disrupt": random.pick(&["true", "false", "yes"])});
    }
    if !random.one_in(4) {
        pool["spec"]["limits"] = limits(random);
    }
    if !random.one_in(4) {
        pool["spec"]["disruption"] = disruption(random);
    }
    if random.one_in(4) {
        pool["spec"]["weight"] = json!(*random.pick(&[1_i64, 10, 50, 100, 101, 0, -1]));
    }
    if random.one_in(10) {
        pool["spec"]["replicas"] = json!(*random.pick(&[0_i64, 1, 20, -1]));
    }
    pool
}

fn class(random: &mut Random) -> Value {
    let mut class = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": random.pick(&["al2023@v20260810", "al2023@latest", "bottlerocket@v1.50.0", "windows2022@latest"])}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        },
    });
    if random.one_in(3) {
        class["spec"]["capacityReservationSelectorTerms"] = json!([{"id": "cr-0123456789abcdef0"}]);
    }
    class
}

fn workload(pool: &str, random: &mut Random) -> Value {
    let (key, known) = key_and_values(random);
    let app = format!("app-of-{pool}");
    let mut spec = json!({
        "nodeSelector": {"example.com/pool": pool},
        "containers": [{
            "name": "main",
            "image": "example.com/app:1.2",
            "resources": {"requests": {"cpu": 1, "memory": "4Gi"}, "limits": {"nvidia.com/gpu": random.below(9)}},
        }],
    });
    if random.one_in(2) {
        spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [requirement(random)]},
        ]}}});
    } else {
        spec["nodeSelector"][key] = json!(random.pick(known));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": random.pick(&["Deployment", "DaemonSet"]),
        "metadata": {"name": app, "namespace": "team"},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
        },
    })
}
