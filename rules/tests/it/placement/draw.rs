//! Sets of manifests, drawn from seeds: NodePools of all kinds, and pods with whatever Karpenter's scheduler looks at.

use gpulint_testing::Dice;
use serde_json::{Map, Value, json};

/// A set. What is asked about is the workload `app`.
pub(super) struct Set {
    pub(super) scenario: &'static str,
    pub(super) objects: Vec<Value>,
    pub(super) settings: Value,
}

/// What a set is about beside its pools and its pod.
type Theme = fn(&mut Draw);

const THEMES: [(&str, Theme); 23] = [
    ("mix", |_| {}),
    ("taints", taints),
    ("algebra", algebra),
    ("resources", resources),
    ("limits", limits),
    ("order", order),
    ("labels", labels),
    ("ignored", ignored),
    ("static", replicas),
    ("reserved", reserved),
    ("overlay", overlay),
    ("podlevel", pod_level),
    ("spread", spread),
    ("podaffinity", pod_affinity),
    ("volumes", volumes),
    ("prefer", prefer),
    ("besteffort", best_effort),
    ("automode", auto_mode),
    ("batch", batch),
    ("daemonpools", daemons),
    ("nodeclass", node_class),
    ("storage", storage),
    ("ports", ports),
];
/// The themes of the sets from this number on, which leave the sets before as they are.
const FIRST_OF_LATER: u64 = 690;
const LATER: [(&str, Theme); 7] = [
    ("claims", claims),
    ("keys", topology_keys),
    ("zones", zones),
    ("zonespread", zone_spread),
    ("cpuspread", cpu_spread),
    ("preferzone", prefer_zone),
    ("windows", windows),
];

const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];
const NAMES: [&str; 9] = ["default", "gpu", "zeta", "alpha", "spot", "cpu", "ml-team-a", "training", "batch"];
const FAMILIES: [&str; 16] = [
    "m5", "m6i", "m7g", "c6i", "c7g", "r5", "r7i", "t3", "g4dn", "g5", "g6", "g6e", "p4d", "p5", "inf2",
    "trn1",
];
const SIZES: [&str; 8] =
    ["medium", "large", "xlarge", "2xlarge", "4xlarge", "12xlarge", "24xlarge", "48xlarge"];
const TYPES: [&str; 20] = [
    "m5.large",
    "m5.xlarge",
    "m6i.32xlarge",
    "m7g.large",
    "c6i.2xlarge",
    "c5.9xlarge",
    "r6i.4xlarge",
    "t3.nano",
    "t3.medium",
    "g4dn.xlarge",
    "g4dn.12xlarge",
    "g5.xlarge",
    "g5.4xlarge",
    "g6.12xlarge",
    "g6e.xlarge",
    "p4d.24xlarge",
    "p5.48xlarge",
    "trn1.32xlarge",
    "inf2.8xlarge",
    "i4i.xlarge",
];
const GPU: &str = "nvidia.com/gpu";
/// Labels of instance types whose values are numbers, with some.
const NUMBERS: [(&str, &[&str]); 8] = [
    ("instance-cpu", &["1", "2", "3", "4", "8", "16", "63", "64", "96"]),
    ("instance-memory", &["2048", "8191", "16384", "65536", "131072", "524288"]),
    ("instance-generation", &["3", "4", "5", "6", "7"]),
    ("instance-gpu-count", &["0", "1", "2", "4", "7", "8"]),
    ("instance-gpu-memory", &["15258", "16384", "22888", "24576", "45776", "81920"]),
    ("instance-local-nvme", &["99", "118", "250", "600", "3800"]),
    ("instance-network-bandwidth", &["5000", "10000", "12500", "24427", "100000"]),
    ("instance-ebs-bandwidth", &["2085", "4750", "9500", "19000"]),
];
/// Labels of instance types whose values are words, with some; not all exist.
const WORDS: [(&str, &[&str]); 11] = [
    ("instance-category", &["c", "m", "r", "g", "p", "t", "trn", "inf", "i"]),
    ("instance-family", &FAMILIES),
    ("instance-size", &SIZES),
    ("instance-hypervisor", &["nitro", "xen", ""]),
    ("instance-cpu-manufacturer", &["intel", "amd", "aws", "Intel"]),
    ("instance-gpu-name", &["t4", "a10g", "l4", "l40s", "a100", "h100", "v100", "L4"]),
    ("instance-gpu-manufacturer", &["nvidia", "amd", "NVIDIA"]),
    ("instance-accelerator-name", &["trainium", "inferentia2", "inferentia"]),
    ("instance-capability-flex", &["true", "false"]),
    ("instance-encryption-in-transit-supported", &["true", "false"]),
    ("instance-tenancy", &["default", "dedicated"]),
];
const OWN: [(&str, &[&str]); 4] = [
    ("example.com/tier", &["gold", "silver", "bronze"]),
    ("team", &["batch", "ml", "web"]),
    ("node-role", &["ml", "worker"]),
    ("example.com/slots", &["1", "4", "9"]),
];

pub(super) fn drawn(number: u64) -> Set {
    let dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut draw = Draw {
        dice,
        pools: Vec::new(),
        class: json!({}),
        status: Value::Null,
        notes: json!({}),
        pod: json!({"containers": [{"name": "main", "image": "example.com/app:1", "resources": {}}]}),
        kind: "Deployment",
        replicas: 1,
        others: Vec::new(),
        settings: json!({}),
        claim: Value::Null,
    };
    for _ in 0..6 {
        draw.dice.below(2);
    }
    let (scenario, theme) = match number.checked_sub(FIRST_OF_LATER) {
        Some(number) if number % 2 == 0 || number < 210 => LATER[number as usize % LATER.len()],
        _ => THEMES[number as usize % THEMES.len()],
    };
    let count = *draw.dice.one(&[1, 1, 1, 2, 2, 2, 3, 4]);
    let first = draw.dice.below(NAMES.len());
    for at in 0..count {
        let pool = draw.pool(NAMES[(first + at * 2) % NAMES.len()]);
        draw.pools.push(pool);
    }
    draw.container();
    theme(&mut draw);
    if draw.is(5) {
        let other = draw.dice.below(THEMES.len());
        THEMES[other].1(&mut draw);
    }
    if draw.is(3) {
        draw.selection();
    }
    draw.finish(scenario)
}

struct Draw {
    dice: Dice,
    pools: Vec<Value>,
    class: Value,
    status: Value,
    notes: Value,
    pod: Value,
    kind: &'static str,
    replicas: u64,
    others: Vec<Value>,
    settings: Value,
    /// The template of a claim, of a StatefulSet.
    claim: Value,
}

fn aws(label: &str) -> String {
    format!("karpenter.k8s.aws/{label}")
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn template(pool: &mut Value) -> &mut Value {
    &mut pool["spec"]["template"]
}

fn require(pool: &mut Value, requirement: Value) {
    push(&mut template(pool)["spec"]["requirements"], requirement);
}

impl Draw {
    /// Once in so many times.
    fn is(&mut self, times: usize) -> bool {
        self.dice.below(times) == 0
    }

    fn some<'a>(&mut self, of: &[&'a str], most: usize) -> Vec<&'a str> {
        let count = 1 + self.dice.below(most);
        let mut all: Vec<&str> = (0..count).map(|_| *self.dice.one(of)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn operator(&mut self, key: &str, of: &[&str], most: usize) -> Value {
        let operator = *self.dice.one(&["In", "In", "In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist"]);
        if operator.ends_with("n") {
            json!({"key": key, "operator": operator, "values": self.some(of, most)})
        } else {
            json!({"key": key, "operator": operator})
        }
    }

    fn number(&mut self, of_pool: bool) -> Value {
        let (key, of) = *self.dice.one(&NUMBERS);
        let operators: &[&str] = if of_pool { &["Gt", "Lt", "Gte", "Lte"] } else { &["Gt", "Lt"] };
        if self.is(5) {
            return self.operator(&aws(key), of, 3);
        }
        json!({"key": aws(key), "operator": self.dice.one(operators), "values": [self.dice.one(of)]})
    }

    fn word(&mut self) -> Value {
        let (key, of) = *self.dice.one(&WORDS);
        self.operator(&aws(key), of, 4)
    }

    /// The requirement that makes a pool what it is.
    fn kind_of_pool(&mut self) -> Vec<Value> {
        let is =
            |label: &str, values: &[&str]| json!({"key": aws(label), "operator": "In", "values": values});
        match self.dice.below(12) {
            0 | 1 => vec![is("instance-category", &["c", "m", "r"])],
            2 => vec![is("instance-category", &["g", "p"])],
            3 => {
                let names = self.some(&["t4", "a10g", "l4", "l40s", "a100", "h100"], 3);
                vec![is("instance-gpu-name", &names)]
            }
            4 | 5 => {
                let families = self.some(&FAMILIES, 3);
                vec![is("instance-family", &families)]
            }
            6 => {
                let (families, sizes) = (self.some(&FAMILIES, 3), self.some(&SIZES[1..6], 4));
                vec![is("instance-family", &families), is("instance-size", &sizes)]
            }
            7 | 8 => {
                let types = self.some(&TYPES, 3);
                vec![json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types})]
            }
            9 => vec![
                is("instance-category", &["c", "m", "r", "t"]),
                json!({"key": aws("instance-cpu"), "operator": "Gt", "values": [self.dice.one(&["1", "3", "7"])]}),
                json!({"key": aws("instance-cpu"), "operator": "Lt", "values": [self.dice.one(&["9", "17", "33"])]}),
            ],
            10 => vec![
                is("instance-category", &["g"]),
                json!({"key": aws("instance-generation"), "operator": self.dice.one(&["Gt", "Gte"]), "values": ["4"]}),
            ],
            _ => vec![json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]})],
        }
    }

    fn pool(&mut self, name: &str) -> Value {
        let mut requirements = self.kind_of_pool();
        if self.is(2) {
            let capacity =
                [&["on-demand"][..], &["spot"], &["spot", "on-demand"], &["on-demand", "reserved"]];
            requirements.push(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": self.dice.one(&capacity)}));
        }
        if self.is(3) {
            let arch = [&["amd64"][..], &["arm64"], &["amd64", "arm64"]];
            requirements
                .push(json!({"key": "kubernetes.io/arch", "operator": "In", "values": self.dice.one(&arch)}));
        }
        if self.is(4) {
            requirements.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": self.some(&ZONES, 3)}));
        }
        if self.is(4) {
            requirements.push(self.number(true));
        }
        if self.is(6) {
            requirements.push(self.word());
        }
        if self.is(4) {
            let (key, of) = *self.dice.one(&OWN);
            requirements.push(self.operator(key, of, 2));
        }
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": requirements,
            }}},
        });
        if self.is(4) {
            let (key, of) = *self.dice.one(&OWN[..3]);
            template(&mut pool)["metadata"]["labels"][key] = json!(self.dice.one(of));
        }
        if self.is(3) {
            pool["spec"]["weight"] = json!(self.dice.one(&[1, 5, 10, 50, 100]));
        }
        if self.is(4) {
            self.limit(&mut pool);
        }
        if self.is(7) {
            let taint = self.taint();
            template(&mut pool)["spec"]["taints"] = json!([taint]);
        }
        if self.is(8) {
            template(&mut pool)["spec"]["startupTaints"] =
                json!([{"key": "nvidia.com/driver", "value": "true", "effect": "NoSchedule"}]);
        }
        pool
    }

    fn limit(&mut self, pool: &mut Value) {
        let all = [
            ("cpu", &["0", "4", "16", "64", "100", "256"][..]),
            ("memory", &["16Gi", "64Gi", "400Gi", "4Ti"]),
            (GPU, &["0", "1", "4", "16"]),
            ("nodes", &["0", "1", "2", "10"]),
            ("pods", &["20", "60", "250"]),
            ("ephemeral-storage", &["19Gi", "20Gi", "100Gi"]),
            ("example.com/none", &["0", "4"]),
        ];
        let (name, of) = all[self.dice.below(all.len()).min(self.dice.below(all.len()))];
        pool["spec"]["limits"][name] = json!(self.dice.one(of));
    }

    fn taint(&mut self) -> Value {
        let key = *self.dice.one(&[GPU, "team", "dedicated"]);
        let mut taint = json!({"key": key, "effect": self.dice.one(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"])});
        if !self.is(4) {
            taint["value"] = json!(self.dice.one(&["true", "ml", "present"]));
        }
        taint
    }

    fn toleration(&mut self) -> Value {
        let mut toleration = match self.dice.below(6) {
            0 => json!({"operator": "Exists"}),
            1 | 2 => json!({"key": self.dice.one(&[GPU, "team", "dedicated"]), "operator": "Exists"}),
            _ => {
                let operator = if self.is(2) { json!({"operator": "Equal"}) } else { json!({}) };
                let mut toleration = json!({"key": self.dice.one(&[GPU, "team", "dedicated"]), "value": self.dice.one(&["true", "ml", "present", ""])});
                toleration.as_object_mut().unwrap().extend(operator.as_object().unwrap().clone());
                toleration
            }
        };
        if self.is(2) {
            toleration["effect"] = json!(self.dice.one(&["NoSchedule", "NoExecute", "PreferNoSchedule"]));
        }
        toleration
    }

    fn requests(&mut self) -> Map<String, Value> {
        let mut requests = json!({
            "cpu": self.dice.one(&["100m", "250m", "500m", "1", "1500m", "2", "3", "7", "15"]),
            "memory": self.dice.one(&["128Mi", "512Mi", "1Gi", "2Gi", "6Gi", "14Gi", "28Gi", "100Gi"]),
        });
        if self.is(8) {
            requests.as_object_mut().unwrap().remove(*self.dice.one(&["cpu", "memory"]));
        }
        requests.as_object().unwrap().clone()
    }

    fn container(&mut self) {
        let requests = self.requests();
        let is_gpu = {
            let text = json!(self.pools).to_string();
            ["gpu-name", "\"g", "\"p5", "\"p4d"].iter().any(|word| text.contains(word))
        };
        let container = &mut self.pod["containers"][0]["resources"];
        container["requests"] = Value::Object(requests);
        if is_gpu && self.is(2) {
            self.pod["containers"][0]["resources"]["limits"][GPU] =
                json!(self.dice.one(&["1", "1", "1", "2", "4", "8"]));
            self.pod["tolerations"] = json!([{"key": GPU, "operator": "Exists"}]);
        }
        if self.is(10) {
            let extra = [
                ("aws.amazon.com/neuron", "1"),
                ("vpc.amazonaws.com/efa", "1"),
                ("vpc.amazonaws.com/pod-eni", "1"),
                ("amd.com/gpu", "1"),
                ("hugepages-2Mi", "64Mi"),
                ("ephemeral-storage", "10Gi"),
            ];
            let (name, amount) = *self.dice.one(&extra);
            self.pod["containers"][0]["resources"]["limits"][name] = json!(amount);
        }
        if self.is(8) {
            let mut second = json!({"name": "side", "image": "example.com/app:1", "resources": {"requests": self.requests()}});
            if self.is(2) {
                if self.is(2) {
                    second["restartPolicy"] = json!("Always");
                }
                self.pod["initContainers"] = json!([second]);
            } else {
                push(&mut self.pod["containers"], second);
            }
        }
    }

    fn expression(&mut self) -> Value {
        match self.dice.below(9) {
            0 | 1 => self.number(false),
            2 | 3 => self.word(),
            4 => {
                let (key, of) = *self.dice.one(&OWN);
                self.operator(key, of, 2)
            }
            5 => self.operator("karpenter.sh/capacity-type", &["spot", "on-demand"], 2),
            6 => self.operator("topology.kubernetes.io/zone", &ZONES, 2),
            7 => {
                let names: Vec<&str> = NAMES.to_vec();
                self.operator("karpenter.sh/nodepool", &names, 3)
            }
            _ => self.operator("kubernetes.io/arch", &["amd64", "arm64"], 2),
        }
    }

    fn selection(&mut self) {
        if self.is(2) {
            let (key, of) = *self.dice.one(&OWN);
            let all = [
                (key.to_owned(), *self.dice.one(of)),
                ("karpenter.sh/capacity-type".to_owned(), *self.dice.one(&["spot", "on-demand"])),
                ("topology.kubernetes.io/zone".to_owned(), *self.dice.one(&ZONES)),
                ("kubernetes.io/arch".to_owned(), *self.dice.one(&["amd64", "arm64"])),
                (aws("instance-family"), *self.dice.one(&FAMILIES)),
                (aws("instance-cpu"), *self.dice.one(NUMBERS[0].1)),
                ("node.kubernetes.io/instance-type".to_owned(), *self.dice.one(&TYPES)),
                ("beta.kubernetes.io/arch".to_owned(), "amd64"),
                ("kubernetes.io/os".to_owned(), "linux"),
            ];
            let (key, value) = self.dice.one(&all).clone();
            self.pod["nodeSelector"][key] = json!(value);
            return;
        }
        for _ in 0..*self.dice.one(&[1, 1, 2, 3]) {
            let expressions: Vec<Value> =
                (0..*self.dice.one(&[1, 1, 2])).map(|_| self.expression()).collect();
            push(
                &mut self.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
                json!({"matchExpressions": expressions}),
            );
        }
    }

    fn workload(&mut self, kind: &str, name: &str, replicas: u64, spec: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name, "tier": "all"}}, "spec": spec},
            },
        })
    }

    fn finish(mut self, scenario: &'static str) -> Set {
        let mut class = json!({
            "amiSelectorTerms": [{"alias": "al2023@v20260801"}], "role": "nodes",
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
        });
        class.as_object_mut().unwrap().extend(self.class.as_object().unwrap().clone());
        let mut class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "annotations": self.notes}, "spec": class});
        if !self.status.is_null() {
            class["status"] = self.status.clone();
        }
        let mut objects = std::mem::take(&mut self.pools);
        objects.push(class);
        for other in self.others.clone() {
            let is_other = |one: &Value| {
                one["kind"] != other["kind"] || one["metadata"]["name"] != other["metadata"]["name"]
            };
            if objects.iter().all(is_other) {
                objects.push(other);
            }
        }
        let (kind, pod) = (self.kind, self.pod.clone());
        let mut app = self.workload(kind, "app", self.replicas, pod);
        if kind == "StatefulSet" {
            app["spec"]["serviceName"] = json!("app");
            if !self.claim.is_null() {
                app["spec"]["volumeClaimTemplates"] =
                    json!([{"metadata": {"name": "data"}, "spec": self.claim}]);
            }
        }
        objects.push(app);
        Set { scenario, objects, settings: self.settings }
    }

    fn any_pool(&mut self) -> &mut Value {
        let at = self.dice.below(self.pools.len());
        &mut self.pools[at]
    }
}

fn taints(draw: &mut Draw) {
    for at in 0..draw.pools.len() {
        let mut all: Vec<Value> = Vec::new();
        for _ in 0..draw.dice.below(3) {
            let taint = draw.taint();
            if !all.iter().any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"]) {
                all.push(taint);
            }
        }
        template(&mut draw.pools[at])["spec"]["taints"] = json!(all);
    }
    for _ in 0..draw.dice.below(3) {
        let toleration = draw.toleration();
        push(&mut draw.pod["tolerations"], toleration);
    }
}

fn algebra(draw: &mut Draw) {
    let (key, of) = if draw.is(2) { *draw.dice.one(&NUMBERS) } else { *draw.dice.one(&WORDS) };
    let one = |draw: &mut Draw, of_pool: bool| {
        let is_number = NUMBERS.iter().any(|(number, _)| *number == key);
        if is_number && draw.is(2) {
            let operators: &[&str] = if of_pool { &["Gt", "Lt", "Gte", "Lte"] } else { &["Gt", "Lt"] };
            json!({"key": aws(key), "operator": draw.dice.one(operators), "values": [draw.dice.one(of)]})
        } else {
            draw.operator(&aws(key), of, 4)
        }
    };
    for at in 0..draw.pools.len() {
        for _ in 0..draw.dice.below(3) {
            let requirement = one(draw, true);
            require(&mut draw.pools[at], requirement);
        }
    }
    for _ in 0..1 + draw.dice.below(2) {
        let expressions: Vec<Value> = (0..1 + draw.dice.below(2)).map(|_| one(draw, false)).collect();
        push(
            &mut draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
            json!({"matchExpressions": expressions}),
        );
    }
}

/// Requests around what a type leaves for pods.
fn resources(draw: &mut Draw) {
    let name = *draw.dice.one(&TYPES);
    let of = gpulint_rules::catalog::find(name).expect("a type");
    let types = if draw.is(2) { vec![name] } else { vec![name, "m5.large"] };
    let spec = &mut template(draw.any_pool())["spec"];
    spec["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]);
    let whole = i64::from(of.memory_mib) - if of.arch == "arm64" { 64 } else { 0 };
    let memory = whole - (whole * 75 + 999) / 1000 - 100 - 255;
    let pods = *draw.dice.one(&[8, 17, 29, 35, 58, 110, 234, 250, 737]);
    let memory = (memory - 11 * pods + *draw.dice.one(&[-1, 0, 1, 200])).max(8);
    let cpu = i64::from(of.vcpu) * 1000
        - *draw.dice.one(&[60, 70, 80, 90, 110, 130, 150, 170, 190, 250, 310, 500])
        + *draw.dice.one(&[-1, 0, 1]);
    let requests = &mut draw.pod["containers"][0]["resources"]["requests"];
    *requests = json!({"cpu": format!("{}m", cpu.max(1)), "memory": format!("{memory}Mi")});
    if draw.is(2) {
        requests_of(draw)["cpu"] = json!("100m");
    } else if draw.is(2) {
        requests_of(draw)["memory"] = json!("64Mi");
    }
    if draw.is(3) {
        draw.replicas = 1 + draw.dice.below(4) as u64;
    }
}

fn requests_of(draw: &mut Draw) -> &mut Value {
    &mut draw.pod["containers"][0]["resources"]["requests"]
}

fn limits(draw: &mut Draw) {
    for at in 0..draw.pools.len() {
        for _ in 0..1 + draw.dice.below(3) {
            let mut pool = draw.pools[at].clone();
            draw.limit(&mut pool);
            draw.pools[at] = pool;
        }
    }
    draw.replicas = *draw.dice.one(&[1, 2, 3, 5, 8]);
}

fn order(draw: &mut Draw) {
    for at in 0..draw.pools.len() {
        draw.pools[at]["spec"]["weight"] = json!(draw.dice.one(&[1, 1, 10, 50, 100]));
    }
    for _ in 0..1 + draw.dice.below(3) {
        let expressions: Vec<Value> = (0..*draw.dice.one(&[1, 1, 2])).map(|_| draw.expression()).collect();
        let weight = *draw.dice.one(&[1, 10, 50, 50, 100]);
        push(
            &mut draw.pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
            json!({"weight": weight, "preference": {"matchExpressions": expressions}}),
        );
    }
    draw.selection();
}

fn labels(draw: &mut Draw) {
    for at in 0..draw.pools.len() {
        let all = [
            ("team", "ml"),
            ("node-role", "ml"),
            ("example.com/tier", "gold"),
            ("karpenter.sh/capacity-type", "spot"),
            ("karpenter.k8s.aws/instance-family", "m6i"),
            ("kubernetes.io/arch", "amd64"),
            ("topology.kubernetes.io/zone", "us-east-1a"),
            ("node.kubernetes.io/instance-type", "g5.xlarge"),
            ("kubernetes.io/os", "linux"),
        ];
        for _ in 0..1 + draw.dice.below(2) {
            let (key, value) = *draw.dice.one(&all);
            template(&mut draw.pools[at])["metadata"]["labels"][key] = json!(value);
        }
    }
    draw.selection();
    let (key, of) = *draw.dice.one(&OWN);
    let expression = draw.operator(key, of, 2);
    let terms = &mut draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    match terms {
        Value::Array(all) => push(&mut all[0]["matchExpressions"], expression),
        _ => *terms = json!([{"matchExpressions": [expression]}]),
    }
}

fn ignored(draw: &mut Draw) {
    let terms = [
        json!({"matchExpressions": [{"key": "karpenter.sh/registered", "operator": "In", "values": ["true"]}]}),
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}),
        json!({"matchExpressions": [{"key": "karpenter.k8s.aws/unheard-of", "operator": "Exists"}]}),
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}),
        json!({"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}),
        json!({"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["ondemand"]}]}),
        json!({"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["ondemand", "spot"]}]}),
        json!({"matchExpressions": [{"key": "node-role.kubernetes.io/worker", "operator": "DoesNotExist"}]}),
        json!({"matchExpressions": [{"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["host"]}]}),
        json!({"matchExpressions": [{"key": "topology.k8s.aws/zone-id", "operator": "In", "values": ["use1-az1"]}]}),
    ];
    let term = draw.dice.one(&terms).clone();
    let affinity = &mut draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    push(affinity, term);
    if draw.is(2) {
        let expression = draw.expression();
        let affinity = &mut draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"];
        push(affinity, json!({"matchExpressions": [expression]}));
    }
    if draw.is(5) {
        draw.pod["schedulerName"] = json!("volcano");
    }
}

fn replicas(draw: &mut Draw) {
    if draw.is(2) {
        draw.settings["featureGates"]["StaticCapacity"] = json!(true);
    }
    let count = draw.dice.below(2);
    let pool = draw.any_pool();
    pool["spec"]["replicas"] = json!(count * 2);
    pool["spec"].as_object_mut().unwrap().remove("weight");
    if let Some(limits) = pool["spec"].get_mut("limits") {
        *limits = json!({"nodes": "4"});
    }
    draw.replicas = 1 + draw.dice.below(3) as u64;
}

fn reserved(draw: &mut Draw) {
    if draw.is(5) {
        draw.settings["featureGates"]["ReservedCapacity"] = json!(false);
    }
    draw.class["capacityReservationSelectorTerms"] = json!([{"tags": {"purpose": "training"}}]);
    let mut all = Vec::new();
    for at in 0..draw.dice.below(4) {
        let id = format!("cr-0000000{at}");
        let (instance, zone) = (
            *draw.dice.one(&["g5.xlarge", "g6e.xlarge", "m6i.32xlarge", "p5.48xlarge", "m5.large"]),
            *draw.dice.one(&ZONES),
        );
        draw.notes[format!("oracle/{id}")] = json!(draw.dice.one(&["0", "1", "2", "4"]));
        let mut one = json!({
            "id": id, "instanceType": instance, "availabilityZone": zone, "ownerID": "111122223333", "interruptible": false,
            "instanceMatchCriteria": "targeted", "reservationType": if at == 2 { "capacity-block" } else { "default" }, "state": "active",
        });
        if draw.is(6) && at == 2 {
            one["state"] = json!("expiring");
        }
        all.push(one);
    }
    draw.status = json!({"capacityReservations": all});
    for at in 0..draw.pools.len() {
        let values = [&["reserved"][..], &["reserved", "on-demand"], &["reserved", "spot"]];
        let values = *draw.dice.one(&values);
        let requirements = &mut template(&mut draw.pools[at])["spec"]["requirements"];
        requirements.as_array_mut().unwrap().retain(|one| one["key"] != "karpenter.sh/capacity-type");
        push(requirements, json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}));
        if draw.is(4) {
            let key = *draw.dice.one(&[
                "capacity-reservation-id",
                "capacity-reservation-type",
                "capacity-reservation-interruptible",
            ]);
            let requirement =
                draw.operator(&aws(key), &["cr-00000000", "cr-00000001", "default", "false"], 2);
            require(&mut draw.pools[at], requirement);
        }
    }
    draw.replicas = 1 + draw.dice.below(3) as u64;
}

fn overlay(draw: &mut Draw) {
    if !draw.is(5) {
        draw.settings["featureGates"]["NodeOverlay"] = json!(true);
    }
    let extended = ["smarter-devices/fuse", "example.com/slots", "hugepages-2Mi"];
    for at in 0..1 + draw.dice.below(3) {
        let mut requirements: Vec<Value> = Vec::new();
        for _ in 0..*draw.dice.one(&[1, 1, 2]) {
            requirements.push(match draw.dice.below(6) {
                0 => draw.number(false),
                1 => {
                    let (key, of) = *draw.dice.one(&OWN);
                    draw.operator(key, of, 2)
                }
                2 => draw.operator("karpenter.sh/nodepool", &NAMES, 3),
                3 => draw.operator("karpenter.sh/capacity-type", &["spot", "on-demand"], 1),
                _ => draw.word(),
            });
        }
        let mut spec = json!({"requirements": requirements});
        match draw.dice.below(4) {
            0 => spec["price"] = json!(draw.dice.one(&["0.01", "0.5", "100"])),
            1 => spec["priceAdjustment"] = json!(draw.dice.one(&["+10%", "-50%", "-0.2"])),
            _ => {
                let name = *draw.dice.one(&extended);
                spec["capacity"][name] =
                    json!(if name.starts_with("huge") { "512Mi" } else { *draw.dice.one(&["1", "4", "8"]) });
            }
        }
        if draw.is(2) {
            spec["weight"] = json!(draw.dice.one(&[1, 5, 10]));
        }
        draw.others.push(json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": format!("overlay-{at}")}, "spec": spec}));
    }
    if !draw.is(4) {
        let name = *draw.dice.one(&extended);
        let amount = if name.starts_with("huge") {
            *draw.dice.one(&["64Mi", "512Mi", "1Gi"])
        } else {
            *draw.dice.one(&["1", "3", "8", "11"])
        };
        draw.pod["containers"][0]["resources"]["limits"][name] = json!(amount);
    }
    draw.replicas = 1 + draw.dice.below(3) as u64;
}

fn pod_level(draw: &mut Draw) {
    let side = *draw.dice.one(&["requests", "limits", "requests"]);
    draw.pod["resources"][side] = Value::Object(draw.requests());
    if draw.is(2) {
        draw.pod["resources"]["limits"] = json!({"cpu": "31", "memory": "120Gi"});
    }
    let containers = &mut draw.pod["containers"][0]["resources"];
    if side == "limits" {
        containers["requests"] = json!({"memory": "64Mi"});
    } else {
        *containers = json!({"requests": {"cpu": "50m"}});
    }
    let mut init =
        json!({"name": "init", "image": "example.com/app:1", "resources": {"requests": draw.requests()}});
    match draw.dice.below(3) {
        0 => init["restartPolicy"] = json!("Always"),
        1 => init["resources"] = json!({"limits": draw.requests()}),
        _ => {}
    }
    if draw.is(2) {
        push(&mut draw.pod["initContainers"], init);
    }
    if draw.is(4) {
        draw.pod["overhead"] = json!({"cpu": "250m", "memory": "120Mi"});
    }
}

const KEYS: [&str; 8] = [
    "kubernetes.io/hostname",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
    "example.com/tier",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
];

fn spread(draw: &mut Draw) {
    draw.replicas = *draw.dice.one(&[1, 2, 3, 5, 6, 8, 12]);
    for _ in 0..*draw.dice.one(&[1, 1, 1, 2]) {
        let mut constraint = json!({
            "maxSkew": draw.dice.one(&[1, 1, 2, 3]), "topologyKey": draw.dice.one(&KEYS),
            "whenUnsatisfiable": draw.dice.one(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {draw.dice.one(&["app", "app", "app", "tier"]).to_string(): draw.dice.one(&["app", "app", "app", "all"])}},
        });
        if draw.is(5) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
            constraint["minDomains"] = json!(draw.dice.one(&[2, 3, 5]));
        }
        if draw.is(6) {
            constraint["nodeAffinityPolicy"] = json!(draw.dice.one(&["Ignore", "Honor"]));
        }
        if draw.is(6) {
            constraint["nodeTaintsPolicy"] = json!(draw.dice.one(&["Ignore", "Honor"]));
        }
        if draw.is(6) {
            constraint["matchLabelKeys"] = json!(["pod-template-hash"]);
        }
        push(&mut draw.pod["topologySpreadConstraints"], constraint);
    }
    let keys: Vec<Value> = draw.pod["topologySpreadConstraints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["topologyKey"], one["whenUnsatisfiable"]]))
        .collect();
    if keys.len() == 2 && keys[0] == keys[1] {
        draw.pod["topologySpreadConstraints"].as_array_mut().unwrap().pop();
    }
}

fn other(draw: &mut Draw, name: &str) {
    let mut spec = json!({"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": draw.requests()}}]});
    if draw.is(3) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if draw.is(4) {
        spec["nodeSelector"] = json!({"karpenter.sh/capacity-type": draw.dice.one(&["spot", "on-demand"])});
    }
    let replicas = *draw.dice.one(&[1, 1, 2, 3, 5, 8]);
    let workload = draw.workload("Deployment", name, replicas, spec);
    draw.others.push(workload);
}

fn pod_affinity(draw: &mut Draw) {
    draw.replicas = *draw.dice.one(&[1, 2, 3, 4, 5, 8]);
    if draw.is(2) {
        other(draw, "cache");
    }
    for _ in 0..*draw.dice.one(&[1, 1, 2]) {
        let kind = *draw.dice.one(&["podAntiAffinity", "podAntiAffinity", "podAffinity"]);
        let selector = draw
            .dice
            .one(&[
                json!({"matchLabels": {"app": "app"}}),
                json!({"matchLabels": {"app": "app"}}),
                json!({"matchLabels": {"app": "cache"}}),
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            ])
            .clone();
        let term = json!({"topologyKey": draw.dice.one(&KEYS), "labelSelector": selector});
        if draw.is(3) {
            let weight = *draw.dice.one(&[1, 50, 100]);
            push(
                &mut draw.pod["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"],
                json!({"weight": weight, "podAffinityTerm": term}),
            );
        } else {
            push(&mut draw.pod["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"], term);
        }
    }
}

fn volumes(draw: &mut Draw) {
    let zone = *draw.dice.one(&ZONES);
    let key = *draw.dice.one(&[
        "topology.kubernetes.io/zone",
        "topology.ebs.csi.aws.com/zone",
        "topology.kubernetes.io/zone",
    ]);
    let mode = *draw.dice.one(&[
        "WaitForFirstConsumer",
        "WaitForFirstConsumer",
        "WaitForFirstConsumer",
        "Immediate",
    ]);
    let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode});
    if draw.is(2) {
        class["allowedTopologies"] =
            json!([{"matchLabelExpressions": [{"key": key, "values": draw.some(&ZONES, 2)}]}]);
        if draw.is(3) {
            push(
                &mut class["allowedTopologies"],
                json!({"matchLabelExpressions": [{"key": key, "values": draw.some(&ZONES, 2)}]}),
            );
        }
    }
    let claim = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let sizes = json!({"requests": {"storage": "10Gi"}});
    if !draw.is(8) {
        draw.others.push(class);
    }
    match draw.dice.below(8) {
        0 => {}
        1..4 => {
            let mut bound = claim(
                "data",
                json!({"accessModes": ["ReadWriteOnce"], "resources": sizes, "storageClassName": "gp3", "volumeName": "pv-data"}),
            );
            if !draw.is(6) {
                bound["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            }
            draw.others.push(bound);
            let mut terms =
                vec![json!({"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]})];
            if draw.is(4) {
                terms.push(json!({"matchExpressions": [{"key": key, "operator": "In", "values": draw.some(&ZONES, 1)}]}));
            }
            if !draw.is(8) {
                draw.others.push(json!({
                    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
                }));
            }
        }
        _ => draw.others.push(claim(
            "data",
            json!({"accessModes": ["ReadWriteOnce"], "resources": sizes, "storageClassName": "gp3"}),
        )),
    }
    draw.pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    if draw.is(4) {
        draw.replicas = 2;
    }
}

fn prefer(draw: &mut Draw) {
    for at in 0..draw.pools.len() {
        if !draw.is(3) {
            let mut taint = draw.taint();
            taint["effect"] = json!("PreferNoSchedule");
            template(&mut draw.pools[at])["spec"]["taints"] = json!([taint]);
        }
    }
    for _ in 0..draw.dice.below(2) {
        let toleration = draw.toleration();
        push(&mut draw.pod["tolerations"], toleration);
    }
    if draw.is(2) {
        order(draw);
    }
}

fn best_effort(draw: &mut Draw) {
    if !draw.is(3) {
        draw.settings["minValuesPolicy"] = json!("BestEffort");
    }
    for at in 0..draw.pools.len() {
        let key = match draw.dice.below(5) {
            0 => aws("instance-family"),
            1 => aws("instance-size"),
            2 => aws("instance-generation"),
            3 => aws("instance-category"),
            _ => "node.kubernetes.io/instance-type".to_owned(),
        };
        let requirement =
            json!({"key": key, "operator": "Exists", "minValues": draw.dice.one(&[1, 2, 3, 5, 15, 50])});
        require(&mut draw.pools[at], requirement);
    }
    draw.replicas = 1 + draw.dice.below(2) as u64;
}

fn auto_mode(draw: &mut Draw) {
    let expression = draw.operator("eks.amazonaws.com/instance-family", &["m6i", "g5"], 2);
    let own = draw.operator("eks.amazonaws.com/compute-type", &["auto"], 1);
    match draw.dice.below(3) {
        0 => require(draw.any_pool(), expression),
        1 => {
            draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
                json!([{"matchExpressions": [if draw.is(2) { expression } else { own }]}]);
        }
        _ => {
            draw.others.push(json!({"apiVersion": "eks.amazonaws.com/v1", "kind": "NodeClass", "metadata": {"name": "default"}, "spec": {"role": "nodes"}}));
            let at = draw.dice.below(draw.pools.len());
            template(&mut draw.pools[at])["spec"]["nodeClassRef"] =
                json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
        }
    }
}

fn batch(draw: &mut Draw) {
    draw.replicas = *draw.dice.one(&[2, 4, 6, 8, 12]);
    for at in 0..draw.dice.below(4) {
        other(draw, &format!("other-{at}"));
    }
}

fn daemons(draw: &mut Draw) {
    for at in 0..1 + draw.dice.below(3) {
        let mut requests = json!({"cpu": draw.dice.one(&["50m", "100m", "500m", "1"]), "memory": draw.dice.one(&["64Mi", "128Mi", "1Gi"])});
        if draw.is(8) {
            requests[GPU] = json!("1");
        }
        let mut spec = json!({"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}]});
        if draw.is(6) {
            spec["containers"][0]["resources"] = json!({"limits": {"cpu": "250m", "memory": "256Mi"}});
        }
        if draw.is(5) {
            spec["initContainers"] = json!([{"name": "init", "image": "example.com/app:1", "resources": {"requests": {"cpu": "700m", "memory": "700Mi"}}}]);
        }
        if !draw.is(3) {
            let all = json!({"operator": "Exists"});
            spec["tolerations"] = json!([if draw.is(2) { all } else { draw.toleration() }]);
        }
        for _ in 0..draw.dice.below(3) {
            let expression = draw.expression();
            push(
                &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
                json!({"matchExpressions": [expression]}),
            );
        }
        if draw.is(6) {
            spec["nodeSelector"] = draw
                .dice
                .one(&[
                    json!({"karpenter.sh/registered": "true"}),
                    json!({"kubernetes.io/arch": "amd64"}),
                    json!({"node-role": "ml"}),
                    json!({"karpenter.k8s.aws/ec2nodeclass": "default"}),
                ])
                .clone();
        }
        if draw.is(6) {
            spec["containers"][0]["ports"] = json!([{"containerPort": 9100, "hostPort": 9100}]);
        }
        if draw.is(8) {
            spec["overhead"] = json!({"cpu": "100m"});
        }
        let name = format!("agent-{at}");
        let mut daemon = draw.workload("DaemonSet", &name, 1, spec);
        daemon["spec"].as_object_mut().unwrap().remove("replicas");
        draw.others.push(daemon);
    }
    draw.replicas = *draw.dice.one(&[1, 1, 2, 4]);
}

fn node_class(draw: &mut Draw) {
    let kubelets = [
        json!({"maxPods": 110}),
        json!({"maxPods": 2}),
        json!({"maxPods": 110, "podsPerCore": 1}),
        json!({"podsPerCore": 4}),
        json!({"podsPerCore": 0}),
        json!({"kubeReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "2Gi"}}),
        json!({"systemReserved": {"cpu": "200m", "memory": "500Mi"}}),
        json!({"evictionHard": {"memory.available": "5%"}}),
        json!({"evictionHard": {"memory.available": "1Gi", "nodefs.available": "20%"}}),
        json!({"evictionSoft": {"memory.available": "10%"}, "evictionSoftGracePeriod": {"memory.available": "60s"}}),
        json!({"registerWithTaints": []}),
        json!({"evictionHard": {"memory.available": "100%"}}),
        json!({"maxPods": 30, "kubeReserved": {"memory": "1Gi"}}),
        json!({"clusterDNS": ["10.0.0.10"]}),
        json!({"maxPods": "max_pods - 5"}),
        json!({"topologyManagerPolicy": "restricted"}),
        json!({"maxPods": 0}),
        json!({"kubeReserved": {"cpu": "0"}}),
    ];
    if !draw.is(4) {
        draw.class["kubelet"] = draw.dice.one(&kubelets).clone();
    }
    if draw.is(2) {
        let alias =
            *draw.dice.one(&["al2@v20260801", "bottlerocket@v1.50.0", "al2023@latest", "windows2022@latest"]);
        draw.class["amiSelectorTerms"] = json!([{"alias": alias}]);
    } else if draw.is(4) {
        draw.class["amiSelectorTerms"] = json!([{"id": "ami-0123456789abcdef0"}]);
        draw.class["amiFamily"] = json!(draw.dice.one(&["Custom", "AL2023", "Bottlerocket"]));
        draw.class["userData"] = json!("#!/bin/bash");
    }
    if draw.is(6) {
        draw.class["enclaveOptions"] = json!({"enabled": true});
    }
    if draw.is(10) {
        draw.class["cpuOptions"] = json!({"nestedVirtualization": "enabled"});
    }
    if draw.is(6) {
        draw.class["networkInterfaces"] = json!([
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": draw.dice.one(&[0, 1]), "deviceIndex": 1, "interfaceType": draw.dice.one(&["efa-only", "interface"])},
        ]);
    }
    if draw.is(4) {
        storage(draw);
    }
    draw.replicas = *draw.dice.one(&[1, 2, 6, 12]);
}

fn storage(draw: &mut Draw) {
    let maps = [
        json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}]),
        json!([{"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}]),
        json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "8Gi"}}, {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "200G"}}]),
        json!([{"deviceName": "/dev/sda1", "rootVolume": true, "ebs": {"volumeSize": "50Gi"}}]),
        json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "1Ti"}}]),
    ];
    if !draw.is(3) {
        draw.class["blockDeviceMappings"] = draw.dice.one(&maps).clone();
    }
    if draw.is(3) {
        draw.class["instanceStorePolicy"] = json!("RAID0");
    }
    let amount = *draw
        .dice
        .one(&["1Gi", "15Gi", "16Gi", "17Gi", "18Gi", "40Gi", "80Gi", "89Gi", "100G", "150Gi", "500Gi"]);
    requests_of(draw)["ephemeral-storage"] = json!(amount);
    draw.replicas = *draw.dice.one(&[1, 1, 3]);
}

/// Claims and what they need, of which some are missing.
fn claims(draw: &mut Draw) {
    let modes = ["WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate"];
    let provisioners =
        ["ebs.csi.aws.com", "ebs.csi.aws.com", "efs.csi.aws.com", "kubernetes.io/no-provisioner"];
    for name in ["gp3", "standard"] {
        let mut class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": draw.dice.one(&provisioners), "volumeBindingMode": draw.dice.one(&modes),
        });
        if draw.is(3) {
            class["allowedTopologies"] = json!([{"matchLabelExpressions": [
                {"key": "topology.kubernetes.io/zone", "values": draw.some(&ZONES, 2)}]}]);
        }
        if name == "standard" && draw.is(2) {
            class["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        }
        if !draw.is(5) {
            draw.others.push(class);
        }
    }
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}});
    match draw.dice.below(4) {
        0 => {}
        1 => spec["storageClassName"] = json!("standard"),
        _ => spec["storageClassName"] = json!("gp3"),
    }
    match draw.dice.below(6) {
        0 => {
            draw.pod["volumes"] =
                json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]);
        }
        1 => {
            draw.kind = "StatefulSet";
            draw.claim = spec;
        }
        2 => draw.pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
        _ => {
            let mut claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "default"}, "spec": spec,
            });
            if draw.is(3) {
                // A claim that is bound, as it is read from a cluster.
                claim["metadata"]["uid"] = json!("6b0b5a5e");
                claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
                claim["spec"]["volumeName"] = json!("pv-data");
                claim["status"] = json!({"phase": draw.dice.one(&["Bound", "Bound", "Bound", "Lost"])});
                if !draw.is(4) {
                    draw.others.push(json!({
                        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"},
                            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
                            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [draw.dice.one(&ZONES)]}]}]}}},
                    }));
                }
            } else if draw.is(3) {
                claim["metadata"]["uid"] = json!("6b0b5a5e");
                claim["status"] = json!({"phase": "Pending"});
            }
            draw.others.push(claim);
            draw.pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        }
    }
    draw.replicas = *draw.dice.one(&[1, 1, 2]);
}

/// Rules about other pods over keys that all pools, some or none have.
fn topology_keys(draw: &mut Draw) {
    let keys = [
        "example.com/rack",
        "example.com/tier",
        "team",
        "topology.kubernetes.io/region",
        "karpenter.sh/nodepool",
        "topology.k8s.aws/zone-id",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.io/os",
    ];
    if draw.is(2) {
        for at in 0..draw.pools.len() {
            let value = *draw.dice.one(&["r1", "r2", "r3"]);
            match draw.dice.below(4) {
                0 => template(&mut draw.pools[at])["metadata"]["labels"]["example.com/rack"] = json!(value),
                1 => require(
                    &mut draw.pools[at],
                    json!({"key": "example.com/rack", "operator": "In", "values": ["r1", value]}),
                ),
                2 => require(&mut draw.pools[at], json!({"key": "example.com/rack", "operator": "Exists"})),
                _ => {}
            }
        }
    }
    subnets(draw);
    draw.replicas = *draw.dice.one(&[1, 2, 3, 4]);
    for _ in 0..*draw.dice.one(&[1, 1, 2]) {
        let key = *draw.dice.one(&keys);
        let selector = json!({"matchLabels": {"app": "app"}});
        if draw.is(3) {
            let constraint = json!({
                "maxSkew": draw.dice.one(&[1, 2]), "topologyKey": key, "labelSelector": selector,
                "whenUnsatisfiable": draw.dice.one(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            });
            draw.pod["topologySpreadConstraints"] = json!([constraint]);
            continue;
        }
        let kind = *draw.dice.one(&["podAntiAffinity", "podAffinity"]);
        let term = json!({"topologyKey": key, "labelSelector": selector});
        if draw.is(4) {
            push(
                &mut draw.pod["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"],
                json!({"weight": 10, "podAffinityTerm": term}),
            );
        } else {
            push(&mut draw.pod["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"], term);
        }
    }
}

/// The subnets of the class are in its status, as it is read from a cluster; in all zones, or in some.
fn subnets(draw: &mut Draw) {
    if draw.is(4) {
        return;
    }
    let all = ["use1-az1", "use1-az2", "use1-az3", "use1-az4"];
    let count = *draw.dice.one(&[4, 4, 3, 2, 1]);
    let subnet = |at: usize| json!({"id": format!("subnet-{at}"), "zone": ZONES[at], "zoneID": all[at]});
    let subnets: Vec<Value> = (0..count).map(subnet).collect();
    draw.status["subnets"] = json!(subnets);
}

const ZONE: &str = "topology.kubernetes.io/zone";

/// Workloads that want to be in the zone of each other, or not.
fn zones(draw: &mut Draw) {
    subnets(draw);
    draw.replicas = *draw.dice.one(&[1, 2, 3, 5]);
    other(draw, "cache");
    let at = draw.others.len() - 1;
    let key = if draw.is(4) {
        *draw.dice.one(&["kubernetes.io/hostname", "karpenter.sh/capacity-type"])
    } else {
        ZONE
    };
    let to = |app: &str| json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let kind = *draw.dice.one(&["podAffinity", "podAffinity", "podAntiAffinity"]);
    push(&mut draw.pod["affinity"][kind][required], to("cache"));
    if draw.is(3) {
        let kind = *draw.dice.one(&["podAffinity", "podAntiAffinity"]);
        push(&mut draw.pod["affinity"][kind][required], to("app"));
    }
    let spec = |draw: &mut Draw| -> Value { draw.others[at]["spec"]["template"]["spec"].clone() };
    let mut cache = spec(draw);
    if draw.is(2) {
        let kind = *draw.dice.one(&["podAffinity", "podAffinity", "podAntiAffinity"]);
        push(&mut cache["affinity"][kind][required], to("app"));
    }
    if draw.is(3) {
        push(&mut cache["affinity"]["podAffinity"][required], to("cache"));
    }
    if draw.is(3) {
        cache["nodeSelector"][ZONE] = json!(draw.dice.one(&ZONES));
    }
    draw.others[at]["spec"]["template"]["spec"] = cache;
    if draw.is(4) {
        draw.pod["nodeSelector"][ZONE] = json!(draw.dice.one(&ZONES));
    }
    if draw.is(4) {
        zone_of_volume(draw);
    }
}

/// A volume of the pod that is in a zone.
fn zone_of_volume(draw: &mut Draw) {
    let zone = *draw.dice.one(&ZONES);
    draw.others.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, "storageClassName": "gp3", "volumeName": "pv-data"},
    }));
    draw.others.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}},
    }));
    draw.pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
}

/// Pods that spread over zones, of which pools have some.
fn zone_spread(draw: &mut Draw) {
    subnets(draw);
    draw.replicas = *draw.dice.one(&[1, 2, 3, 5, 6, 9]);
    let mut constraint = json!({
        "maxSkew": draw.dice.one(&[1, 1, 2]), "topologyKey": ZONE,
        "whenUnsatisfiable": draw.dice.one(&["DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": "app"}},
    });
    if draw.is(3) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = json!(draw.dice.one(&[1, 2, 3, 4, 5]));
    }
    if draw.is(3) {
        constraint["nodeTaintsPolicy"] = json!(draw.dice.one(&["Ignore", "Honor"]));
    }
    if draw.is(3) {
        constraint["nodeAffinityPolicy"] = json!(draw.dice.one(&["Ignore", "Honor"]));
    }
    draw.pod["topologySpreadConstraints"] = json!([constraint]);
    for at in 0..draw.pools.len() {
        if draw.is(3) {
            let zones = draw.some(&ZONES, 3);
            require(
                &mut draw.pools[at],
                json!({"key": ZONE, "operator": draw.dice.one(&["In", "In", "NotIn"]), "values": zones}),
            );
        }
        if draw.is(4) {
            template(&mut draw.pools[at])["spec"]["taints"] =
                json!([{"key": "team", "effect": "NoSchedule"}]);
        }
    }
    if draw.is(3) {
        push(&mut draw.pod["tolerations"], json!({"key": "team", "operator": "Exists"}));
    }
    if draw.is(3) {
        let expression = draw.operator(ZONE, &ZONES, 3);
        push(
            &mut draw.pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
            json!({"matchExpressions": [expression]}),
        );
    }
    if draw.is(4) {
        let mut constraint = json!({
            "maxSkew": draw.dice.one(&[1, 2]), "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "app"}},
        });
        if draw.is(2) {
            constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
        }
        push(&mut draw.pod["topologySpreadConstraints"], constraint);
    }
    if draw.is(5) {
        zone_of_volume(draw);
    }
    if draw.is(3) {
        other(draw, "cache");
    }
}

/// Pods of several workloads that spread over nodes, where their CPU decides how many share one.
fn cpu_spread(draw: &mut Draw) {
    let cpus = ["900m", "1900m", "2", "3500m", "6", "7", "14", "30"];
    requests_of(draw)["cpu"] = json!(draw.dice.one(&cpus));
    requests_of(draw)["memory"] = json!("512Mi");
    draw.replicas = *draw.dice.one(&[2, 3, 4, 6, 10]);
    let constraint = |draw: &mut Draw, app: &str| {
        json!({
            "maxSkew": draw.dice.one(&[1, 1, 2, 3]), "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": draw.dice.one(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}},
        })
    };
    let mut own = constraint(draw, "app");
    if draw.is(5) {
        own["labelSelector"] = json!({"matchLabels": {"tier": "all"}});
    }
    draw.pod["topologySpreadConstraints"] = json!([own]);
    for name in ["cache", "batch"].iter().take(draw.dice.below(3)) {
        other(draw, name);
        let at = draw.others.len() - 1;
        let cpu = *draw.dice.one(&cpus);
        let spread = constraint(draw, name);
        let spec = &mut draw.others[at]["spec"]["template"]["spec"];
        spec["containers"][0]["resources"]["requests"] = json!({"cpu": cpu, "memory": "512Mi"});
        spec["topologySpreadConstraints"] = json!([spread]);
    }
}

/// Pods that prefer zones, of which some have no subnet.
fn prefer_zone(draw: &mut Draw) {
    if draw.is(2) {
        subnets(draw);
    }
    let zones = ["us-east-1a", "us-east-1b", "us-east-1d", "us-east-1e", "us-east-1f"];
    for _ in 0..*draw.dice.one(&[1, 1, 2]) {
        let expression = draw.operator(ZONE, &zones, 2);
        push(
            &mut draw.pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
            json!({"weight": draw.dice.one(&[1, 10, 100]), "preference": {"matchExpressions": [expression]}}),
        );
    }
    draw.replicas = *draw.dice.one(&[1, 2, 4]);
}

/// Operating systems and architectures that a class has no image for.
fn windows(draw: &mut Draw) {
    let alias = *draw.dice.one(&[
        "windows2022@latest",
        "windows2025@latest",
        "al2023@latest",
        "bottlerocket@latest",
        "al2@latest",
    ]);
    draw.class["amiSelectorTerms"] = json!([{"alias": alias}]);
    for at in 0..draw.pools.len() {
        if draw.is(3) {
            require(
                &mut draw.pools[at],
                json!({"key": "kubernetes.io/os", "operator": "In", "values": draw.dice.one(&[["windows"], ["linux"]])}),
            );
        }
        if draw.is(3) {
            require(
                &mut draw.pools[at],
                json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}),
            );
        }
    }
    match draw.dice.below(4) {
        0 => draw.pod["nodeSelector"]["kubernetes.io/os"] = json!(draw.dice.one(&["windows", "linux"])),
        1 => draw.pod["nodeSelector"]["kubernetes.io/arch"] = json!(draw.dice.one(&["arm64", "amd64"])),
        2 => draw.pod["nodeSelector"]["node.kubernetes.io/windows-build"] = json!("10.0.20348"),
        _ => {}
    }
    draw.replicas = *draw.dice.one(&[1, 2, 4]);
}

fn ports(draw: &mut Draw) {
    let port = |draw: &mut Draw| {
        let mut port = json!({"containerPort": 8080, "hostPort": draw.dice.one(&[8080, 9100])});
        match draw.dice.below(4) {
            0 => port["protocol"] = json!("UDP"),
            1 => port["hostIP"] = json!(draw.dice.one(&["127.0.0.1", "0.0.0.0"])),
            _ => {}
        }
        port
    };
    daemons(draw);
    for at in 0..draw.others.len() {
        if draw.others[at]["kind"] == "DaemonSet" && !draw.is(3) {
            let one = port(draw);
            draw.others[at]["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([one]);
        }
    }
    let one = port(draw);
    draw.pod["containers"][0]["ports"] = json!([one]);
    draw.replicas = *draw.dice.one(&[1, 2, 3]);
}
