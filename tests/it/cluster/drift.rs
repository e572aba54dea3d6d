//! Karpenter's own hashes and its decision whether a node has drifted, compared with what gpulint says: a table of versions of a
//! NodePool and of an EC2NodeClass, each edited into each other.
//!
//! What Karpenter answers stands in `drift.txt`. After a change of the versions or of Karpenter's, ask it again:
//!
//! `UPDATE=1 KUBEBUILDER_ASSETS=$(GPULINT_DRIFT=yes tests/cluster/build) cargo test --test it drift`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpulint_rules::catalog::{self, Label};
use gpulint_rules::karpenter::drift::{Drift, of_pool};
use gpulint_rules::platform::Product;
use gpulint_rules::source::{self, Source};
use gpulint_testing::expect_file;
use serde_json::{Value, json};

use crate::cluster::platform;

/// Requirements: `KEY OPERATOR VALUES`, several separated by `;`.
const REQUIREMENTS: [&str; 36] = [
    "",
    "karpenter.sh/capacity-type In on-demand",
    "karpenter.sh/capacity-type In spot",
    "karpenter.sh/capacity-type In spot,on-demand",
    "karpenter.sh/capacity-type NotIn spot",
    "topology.kubernetes.io/zone In us-east-1a",
    "topology.kubernetes.io/zone In us-east-1a,us-east-1b",
    "topology.kubernetes.io/zone NotIn us-east-1a",
    "topology.kubernetes.io/zone Exists",
    "karpenter.k8s.aws/instance-family In g5",
    "karpenter.k8s.aws/instance-family In g6",
    "karpenter.k8s.aws/instance-family In g5,g6",
    "karpenter.k8s.aws/instance-family In g5,g6 2",
    "karpenter.k8s.aws/instance-family NotIn g5",
    "node.kubernetes.io/instance-type In g5.xlarge",
    "node.kubernetes.io/instance-type In g5.xlarge,p5.48xlarge",
    "node.kubernetes.io/instance-type NotIn p5.48xlarge",
    "karpenter.k8s.aws/instance-category In g,p",
    "karpenter.k8s.aws/instance-category In c,m,r; karpenter.k8s.aws/instance-generation Gt 4",
    "karpenter.k8s.aws/instance-generation Gt 5",
    "karpenter.k8s.aws/instance-generation Lt 7",
    "karpenter.k8s.aws/instance-cpu Gt 15; karpenter.k8s.aws/instance-cpu Lt 65",
    "karpenter.k8s.aws/instance-memory Lt 65537",
    "karpenter.k8s.aws/instance-gpu-count In 1",
    "karpenter.k8s.aws/instance-gpu-count DoesNotExist",
    "karpenter.k8s.aws/instance-gpu-manufacturer Exists",
    "karpenter.k8s.aws/instance-gpu-name In l4,a10g",
    "kubernetes.io/arch In amd64",
    "kubernetes.io/arch In arm64",
    "kubernetes.io/arch In amd64,arm64",
    "kubernetes.io/os In linux",
    "example.com/tier In gold",
    "example.com/tier In gold,iron",
    "example.com/tier In iron; karpenter.sh/capacity-type In spot,on-demand",
    "example.com/tier NotIn gold",
    "example.com/tier DoesNotExist",
];

/// Templates of a NodePool.
const TEMPLATES: [&str; 23] = [
    "{}",
    "{metadata: {labels: {team: ml}}}",
    "{metadata: {labels: {team: ''}}}",
    "{metadata: {annotations: {team: ml}}}",
    "{spec: {taints: [{key: team, effect: NoSchedule}]}}",
    "{spec: {taints: [{key: team, value: '', effect: NoSchedule}]}}",
    "{spec: {taints: [{key: team, value: ml, effect: NoSchedule}]}}",
    "{spec: {taints: [{key: team, effect: NoSchedule}, {key: gpu, effect: NoExecute}]}}",
    "{spec: {taints: [{key: gpu, effect: NoExecute}, {key: team, effect: NoSchedule}]}}",
    "{spec: {taints: [{key: gpu, effect: NoExecute}, {key: gpu, effect: NoExecute}, {key: team, effect: NoSchedule}]}}",
    "{spec: {startupTaints: [{key: team, effect: NoSchedule}]}}",
    "{spec: {expireAfter: 720h}}",
    "{spec: {expireAfter: 43200m}}",
    "{spec: {expireAfter: 24h}}",
    "{spec: {expireAfter: 23h60m}}",
    "{spec: {expireAfter: Never}}",
    "{spec: {terminationGracePeriod: 1h}}",
    "{spec: {terminationGracePeriod: 3600s}}",
    "{spec: {terminationGracePeriod: 0s}}",
    "{spec: {nodeClassRef: {name: other}}}",
    "{spec: {expireAfter: 720h, terminationGracePeriod: 60m}}",
    "{spec: {kubelet: {maxPods: 30}}}",
    "{metadata: {labels: {team: ml}, annotations: {team: ml}}}",
];

/// The `spec` of an EC2NodeClass.
const CLASSES: [&str; 32] = [
    "{}",
    "{role: nodes}",
    "{role: others}",
    "{instanceProfile: nodes}",
    "{amiFamily: AL2023}",
    "{amiFamily: Bottlerocket}",
    "{amiSelectorTerms: [{alias: al2023@v20260101}]}",
    "{amiSelectorTerms: [{alias: bottlerocket@latest}]}",
    "{amiSelectorTerms: [{id: ami-0123456789abcdef0}]}",
    "{subnetSelectorTerms: [{tags: {team: ml}}]}",
    "{securityGroupSelectorTerms: [{tags: {team: ml}}]}",
    "{userData: ''}",
    "{userData: echo}",
    "{tags: {team: ml}}",
    "{tags: {team: ''}}",
    "{detailedMonitoring: false}",
    "{detailedMonitoring: true}",
    "{associatePublicIPAddress: false}",
    "{instanceStorePolicy: RAID0}",
    "{metadataOptions: {httpTokens: required}}",
    "{metadataOptions: {httpTokens: optional}}",
    "{metadataOptions: {httpPutResponseHopLimit: 2}}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1024Gi}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1Ti}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1Ti, encrypted: false}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1Ti}, rootVolume: false}]}",
    "{kubelet: {}}",
    "{kubelet: {maxPods: 30}}",
    "{kubelet: {clusterDNS: [10.0.0.1, 10.0.0.2]}}",
    "{kubelet: {clusterDNS: [10.0.0.2, 10.0.0.1]}}",
    "{kubelet: {systemReserved: {cpu: 100m}}}",
    "{kubelet: {systemReserved: {cpu: '0.1'}}}",
];

/// More of the `spec` of an EC2NodeClass: values that Go's structs tell apart or not, lists and maps in another order.
const CLASS_VALUES: [&str; 36] = [
    "{}",
    "{context: a}",
    "{context: ''}",
    "{associatePublicIPAddress: true}",
    "{ipPrefixCount: 2}",
    "{amiSelectorTerms: [{ssmParameter: /a}], amiFamily: AL2023}",
    "{amiSelectorTerms: [{alias: al2023@v20260101}], amiFamily: AL2023}",
    "{amiSelectorTerms: [{name: a}], amiFamily: Custom}",
    "{capacityReservationSelectorTerms: [{id: cr-0123456789abcdef0}]}",
    "{capacityReservationSelectorTerms: [{instanceMatchCriteria: open}]}",
    "{placementGroupSelector: {name: a}}",
    "{placementGroupSelector: {id: pg-0123456789abcdef0}}",
    "{networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]}",
    "{networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 1, deviceIndex: 1, interfaceType: efa-only}]}",
    "{networkInterfaces: [{networkCardIndex: 1, deviceIndex: 1, interfaceType: efa-only}, {networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]}",
    "{connectionTracking: {}}",
    "{connectionTracking: {udpTimeout: 30}}",
    "{cpuOptions: {nestedVirtualization: enabled}}",
    "{cpuOptions: {nestedVirtualization: disabled}}",
    "{enclaveOptions: {enabled: true}}",
    "{enclaveOptions: {enabled: false}}",
    "{tags: {a: b, c: d}}",
    "{tags: {c: d, a: b}}",
    "{metadataOptions: {httpEndpoint: disabled}}",
    "{metadataOptions: {httpProtocolIPv6: disabled}}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 1Ti, volumeType: gp3, iops: 3000}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 1Ti, volumeType: gp3, throughput: 0}}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvda}, {deviceName: /dev/xvdb}]}",
    "{blockDeviceMappings: [{deviceName: /dev/xvdb}, {deviceName: /dev/xvda}]}",
    "{kubelet: {podsPerCore: 0}}",
    "{kubelet: {cpuCFSQuota: true}}",
    "{kubelet: {evictionHard: {memory.available: 5%}}}",
    "{kubelet: {evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 60s}}}",
    "{kubelet: {evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 1m}}}",
];

/// Templates of a NodePool whose labels and requirements count together, further operators.
const LABELS: [&str; 23] = [
    "{}",
    "{metadata: {labels: {example.com/tier: gold}}}",
    "{spec: {requirements: [{key: example.com/tier, operator: In, values: [gold]}]}}",
    "{metadata: {labels: {example.com/tier: gold}}, spec: {requirements: [{key: example.com/tier, operator: In, values: [gold, iron]}]}}",
    "{metadata: {labels: {example.com/tier: gold}}, spec: {requirements: [{key: example.com/tier, operator: NotIn, values: [iron]}]}}",
    "{metadata: {labels: {example.com/tier: gold}}, spec: {requirements: [{key: example.com/tier, operator: Exists}]}}",
    "{metadata: {labels: {karpenter.sh/capacity-type: spot}}}",
    "{metadata: {labels: {karpenter.sh/capacity-type: spot}}, spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]}}",
    "{spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}]}}",
    "{spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved, spot]}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [nano, micro]}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-size, operator: In, values: [xlarge, 2xlarge]}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-hypervisor, operator: In, values: [nitro]}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-gpu-memory, operator: Gt, values: ['24000']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-gpu-memory, operator: Lt, values: ['24000']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-local-nvme, operator: Exists}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-local-nvme, operator: DoesNotExist}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-local-nvme, operator: Gt, values: ['99']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-accelerator-count, operator: Gt, values: ['0']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['16']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-cpu, operator: Lte, values: ['16']}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}, {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [g5]}]}}",
    "{spec: {requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}]}}",
];

/// A NodePool with its class.
type Side = (Value, Value);

fn value(text: &str) -> Value {
    let source = Source::from_text("table", text);
    let documents = source::read(&source);
    documents.first().and_then(|document| Some(document.root()?.to_json())).unwrap_or_default()
}

/// Puts the members of a value into another, as deep as both are mappings.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

fn side(template: Value, class: Value) -> Side {
    let mut pool = value(
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: gpu}, spec: {template: {spec: {requirements: [], \
         nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}}}}",
    );
    merge(&mut pool["spec"]["template"], template);
    let mut own = value(
        "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: gpu}, spec: {amiSelectorTerms: [{alias: \
         al2023@latest}]}}",
    );
    merge(&mut own["spec"], class);
    (pool, own)
}

fn requirements(text: &str) -> Value {
    let one = |text: &str| {
        let mut words = text.split_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let (key, operator, values, least) = (word(), word(), word(), word());
        let values: Vec<&str> = values.split(',').filter(|value| !value.is_empty()).collect();
        let mut one = json!({"key": key, "operator": operator, "values": values});
        if let Ok(least) = least.parse::<u32>() {
            one["minValues"] = json!(least);
        }
        one
    };
    let all: Vec<Value> = text.split(';').filter(|text| !text.is_empty()).map(one).collect();
    json!({"spec": {"requirements": all}})
}

/// All versions, those that are edited into each other together: how each is written, and its NodePool and class.
fn tables() -> Vec<Vec<(&'static str, Side)>> {
    let of = |texts: &[&'static str], make: fn(&str) -> Side| {
        texts.iter().map(|text| (*text, make(text))).collect::<Vec<_>>()
    };
    vec![
        of(&REQUIREMENTS, |text| side(requirements(text), json!({}))),
        of(&TEMPLATES, |text| side(value(text), json!({}))),
        of(&CLASSES, |text| side(json!({}), value(text))),
        of(&CLASS_VALUES, |text| side(json!({}), value(text))),
        of(&LABELS, |text| side(value(text), json!({}))),
    ]
}

/// The labels of each instance type.
fn types() -> Vec<BTreeMap<&'static str, &'static str>> {
    let labels = |instance: &catalog::InstanceType| {
        let is = |key| if let Label::Is(value) = instance.label(key) { Some((key, value)) } else { None };
        catalog::keys().filter_map(is).collect()
    };
    catalog::all().iter().map(labels).collect()
}

/// Asks Karpenter about each pair of sides: `n`one, `s`ome or `a`ll of the nodes drift.
fn ask(program: &Path, pairs: &[(&Side, &Side)]) -> String {
    let mut child = Command::new(program)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is piped");
    let side = |(pool, class): &Side| json!({"pool": pool, "class": class});
    let mut lines = vec![json!(types())];
    lines.extend(pairs.iter().map(|(old, new)| json!({"before": side(old), "after": side(new)})));
    let writer = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("the program reads");
        }
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("all was written");
    let letter = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        let number = |member: &str| answer[member].as_u64().expect("a number");
        match (number("nodes"), number("drift")) {
            (0, _) => 'n',
            _ if answer["pool"] == true || answer["class"] == true => 'a',
            (_, 0) => 'n',
            (nodes, drift) if nodes == drift => 'a',
            _ => 's',
        }
    };
    String::from_utf8(output.stdout).expect("text").lines().map(letter).collect()
}

#[test]
fn nodes_drift_as_karpenter_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cluster/drift.txt");
    let karpenter = platform().version(Product::Karpenter);
    let head = format!(
        "# Generated (see drift.rs) by the code of Karpenter {karpenter}: for each version a letter for each version of its table that \
         it becomes:\n# of its nodes none, some or all drift.\n"
    );
    let tables = tables();
    let pairs_of = |at: usize, old: usize| -> Vec<(&Side, &Side)> {
        tables[at].iter().map(|(_, new)| (&tables[at][old].1, new)).collect()
    };
    let rows: Vec<(usize, usize)> =
        (0..tables.len()).flat_map(|at| (0..tables[at].len()).map(move |old| (at, old))).collect();
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    if let Some(program) = assets.map(|folder| folder.join("karpenter-drift")).filter(|path| path.exists()) {
        let pairs: Vec<(&Side, &Side)> = rows.iter().flat_map(|(at, old)| pairs_of(*at, *old)).collect();
        let letters = ask(&program, &pairs);
        assert_eq!(letters.len(), pairs.len());
        let (mut text, mut from) = (head.clone(), 0);
        for (at, old) in &rows {
            let to = from + tables[*at].len();
            let _ = writeln!(text, "{} {}", &letters[from..to], tables[*at][*old].0);
            from = to;
        }
        expect_file(&path, &text).unwrap();
    }
    let record = std::fs::read_to_string(&path).unwrap();
    let record = record.strip_prefix(&head).expect("the record is of this version of Karpenter");
    let lines: Vec<(&str, &str)> =
        record.lines().map(|line| line.split_once(' ').expect("letters and a version")).collect();
    assert_eq!(lines.len(), rows.len(), "the record is older than the versions");
    let (mut asked, mut wrong) = (0, Vec::new());
    for ((at, old), (letters, version)) in rows.iter().zip(lines) {
        assert_eq!(version, tables[*at][*old].0, "the record is older than the versions");
        for ((((pool, class), (new, new_class)), letter), (text, _)) in
            pairs_of(*at, *old).into_iter().zip(letters.chars()).zip(&tables[*at])
        {
            asked += 1;
            let found = match of_pool((pool, Some(class)), (new, Some(new_class)), karpenter) {
                Drift::None => 'n',
                Drift::Some => 's',
                Drift::All => 'a',
                Drift::Refused => 'r',
            };
            if found != letter {
                wrong.push(format!("{version} -> {text}: {letter}, not {found}"));
            }
        }
    }
    assert!(asked > 4600, "{asked}");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
}
