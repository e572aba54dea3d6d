//! Where pods go, compared with Karpenter's own scheduler. The sets are drawn from seeds (`draw.rs`); `answers.txt` has what
//! `tests/cluster/fit` said about them. After a change of the versions, of the catalogue or of the sets, ask it again, which takes a
//! quarter of an hour:
//!
//! `UPDATE=1 KUBEBUILDER_ASSETS=$(GPULINT_FIT=yes tests/cluster/build) cargo test -p gpulint-rules --test it placement`
//!
//! Every sixth set is compared, with `FULL=1` every one. With `PLACEMENT_FROM=5000` instead of `UPDATE=1`, the program is asked about as
//! many sets from that number on, which are compared and not recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpulint_rules::catalog;
use gpulint_rules::fit::{Answer, FitVerdict, Situation};
use gpulint_rules::platform::Product;
use gpulint_rules::{Cluster, Kind, Object};
use gpulint_testing::{expect_file, is_full};
use serde_json::{Value, json};

use crate::cases::{objects_of, platform_of};

mod draw;

use draw::{Set, drawn};

const SETS: u64 = 900;

/// Sets with another answer, and why.
const DIFFERENT: [(u64, &str); 4] = [
    (
        296,
        "the scheduler takes arm64 types for Windows, for which no AMI is found when the node is to start: the pool takes no pod",
    ),
    (
        712,
        "the first pod takes any zone ID, also one of a zone that the pool does not have: a later batch takes another",
    ),
    (726, "the program asks about each pool alone, and the domains of spread are listed by another pool"),
    (
        806,
        "a state of relaxation begins to count by host name when a pod is first in it, so that two pods more than `maxSkew` share a node",
    ),
];

/// What is said about a set: about one pod, about that pod in each pool, about all pods at once.
#[derive(Default)]
struct Said {
    pod: String,
    pools: BTreeMap<String, char>,
    load: String,
}

fn text(set: &Set) -> String {
    set.objects.iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().join("---\n")
}

/// What gpulint says, with `?` for what it does not know.
fn ours(set: &Set) -> Said {
    let objects = objects_of(&json!({"manifests": text(set)}));
    let mut cluster = Cluster::new(true);
    objects.iter().for_each(|object| cluster.apply(object.clone()));
    let is_asked = |object: &&Object| object.name() == "app" && !object.is(Kind::NODE_POOL);
    let app = objects.iter().find(is_asked).expect("the workload");
    let platform = platform_of(&set.settings);
    let answers = Situation::read(&cluster, &platform, Some(app)).explain(app);
    let answer = answers.first().expect("a template");
    let is_ignored = answer.ignored.is_some();
    let pod = match (answer.verdict, answer.first_pool().map(|pool| (pool.object.name(), &pool.answer))) {
        (FitVerdict::Fits, Some((pool, Answer::Admits { types, .. }))) if !is_ignored => {
            format!("{pool} {}", short(types.iter().map(|one| one.name)))
        }
        (FitVerdict::DoesNotFit, _) => "-".to_owned(),
        _ if is_ignored => "-".to_owned(),
        _ => "?".to_owned(),
    };
    let letter = |verdict| match verdict {
        "fits" if !is_ignored => 'y',
        "unknown" if !is_ignored => '?',
        _ => 'n',
    };
    let pools =
        answer.pools.iter().map(|pool| (pool.object.name().to_owned(), letter(pool.verdict()))).collect();
    let load = Situation::read(&cluster, &platform, None).capacity(&cluster).ceiling;
    if !load.unknown.is_empty() || !load.notes.is_empty() {
        return Said { pod, pools, load: "?".to_owned() };
    }
    let mut nodes: BTreeMap<String, u64> = BTreeMap::new();
    for row in &load.nodes {
        *nodes.entry(format!("{}/{}", row.pool.name(), row.instance.name)).or_default() += row.nodes;
    }
    let mut pending: BTreeMap<String, u64> = BTreeMap::new();
    for misfit in &load.misfits {
        *pending.entry(misfit.workload.name().to_owned()).or_default() += misfit.pods;
    }
    Said { pod, pools, load: shown(&nodes, &pending) }
}

/// The number of types and a hash of their names, without those that the catalogue knows in part only.
fn short<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: BTreeSet<&str> = names.filter(|name| !gaps().contains(name)).collect();
    let hash = names
        .iter()
        .flat_map(|name| name.bytes().chain([b' ']))
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{}:{:04x}", names.len(), hash & 0xffff)
}

fn shown(nodes: &BTreeMap<String, u64>, pending: &BTreeMap<String, u64>) -> String {
    let started = nodes.iter().map(|(kind, count)| format!("{count}*{kind}"));
    started
        .chain(pending.iter().map(|(workload, pods)| format!("{pods}-{workload}")))
        .collect::<Vec<_>>()
        .join(" ")
}

const CATALOGUE: &str = include_str!("../../../src/catalog/instances.csv");

fn rows() -> Vec<BTreeMap<&'static str, &'static str>> {
    let mut lines = CATALOGUE.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
    let head: Vec<&str> = lines.next().into_iter().flatten().collect();
    lines.map(|cells| head.iter().copied().zip(cells).collect()).collect()
}

/// The types of which the catalogue does not know everything.
fn gaps() -> &'static BTreeSet<&'static str> {
    static GAPS: std::sync::LazyLock<BTreeSet<&str>> = std::sync::LazyLock::new(|| {
        let is_gap = |row: &BTreeMap<&str, &str>| {
            row.iter().any(|(column, cell)| *cell == "?" && !["network_mbps", "pod_eni"].contains(column))
        };
        rows().iter().filter(|row| is_gap(row)).map(|row| row["instance_type"]).collect()
    });
    &GAPS
}

/// Asks Karpenter about all sets.
fn ask(program: &Path, numbers: std::ops::Range<u64>) -> String {
    let mut child = Command::new(program)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is piped");
    let price = |one: &catalog::InstanceType| Some((one.name, one.list_price(Some("us-east-1"))?.dollars()));
    let prices: BTreeMap<&str, f64> = catalog::all().iter().filter_map(price).collect();
    let writer = std::thread::spawn(move || {
        writeln!(input, "{}", json!({"types": rows(), "prices": prices})).expect("the program reads");
        for number in numbers {
            let set = drawn(number);
            let asked = json!({"id": number.to_string(), "workload": "app", "manifests": text(&set), "settings": set.settings});
            writeln!(input, "{asked}").expect("the program reads");
        }
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("all was written");
    let answers = String::from_utf8(output.stdout).expect("text");
    answers.lines().map(|line| theirs(&serde_json::from_str(line).expect("JSON"))).collect()
}

/// A line of the record: the pod, its pools, all pods. `!` where the API server refuses the set, `~` where Karpenter does not always
/// decide the same.
fn theirs(answer: &Value) -> String {
    let number = answer["id"].as_str().expect("a number");
    if !answer["refused"].is_null() {
        return format!("{number} !\n");
    }
    let pod = &answer["pod"];
    let names = pod["types"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let found = match pod["pool"].as_str() {
        _ if answer["unstable"] == "pod" => "~".to_owned(),
        Some(pool) => format!("{pool} {}", short(names)),
        None => "-".to_owned(),
    };
    let pools = answer["pools"].as_object().into_iter().flatten();
    let pools: Vec<String> =
        pools.map(|(name, of)| format!("{name}={}", if of["fits"] == true { 'y' } else { 'n' })).collect();
    let load = if answer["unstable"].is_string() { "~".to_owned() } else { load_of(&answer["load"]) };
    format!("{number} {found} | {} | {load}\n", pools.join(" "))
}

fn load_of(load: &Value) -> String {
    let counts = |of: &Value| -> Vec<(String, u64)> {
        let all = of.as_object().into_iter().flatten();
        all.map(|(name, count)| (name.clone(), count.as_u64().expect("a number"))).collect()
    };
    let mut nodes: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in counts(&load["nodes"]) {
        let kind = kind.split(' ').next().expect("a pool and a type").to_owned();
        *nodes.entry(kind).or_default() += count;
    }
    shown(&nodes, &counts(&load["pending"]).into_iter().collect())
}

fn app(set: &Set) -> &Value {
    let is_app =
        |object: &&Value| object["metadata"]["name"] == "app" && !object["spec"]["selector"].is_null();
    set.objects.iter().find(is_app).expect("the workload")
}

fn replicas_of(set: &Set) -> u64 {
    app(set)["spec"]["replicas"].as_u64().expect("a number")
}

/// Whether the pod has to join pods that are not its own.
fn joins_others(set: &Set) -> bool {
    let terms = &app(set)["spec"]["template"]["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is_of_others = |term: &Value| term["labelSelector"]["matchLabels"]["app"] == "cache";
    terms.as_array().into_iter().flatten().any(is_of_others)
}

/// The program that asks Karpenter, if it was built.
fn program() -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from)?;
    Some(assets.join("karpenter-fit")).filter(|path| path.exists())
}

/// The first of the sets that are asked about and not recorded.
fn further() -> Option<u64> {
    std::env::var("PLACEMENT_FROM").ok()?.parse().ok()
}

#[test]
fn pods_go_where_karpenter_puts_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/placement/answers.txt");
    let head = format!(
        "# Generated (see mod.rs) by the code of Karpenter {}: for each set the NodePool of its pod and the types, the pools that take it,\n# \
         and the nodes for all pods with what is left pending.\n",
        Product::Karpenter.newest()
    );
    if let (Some(first), Some(program)) = (further(), program()) {
        return compare(ask(&program, first..first + SETS).lines());
    }
    if let Some(program) = program() {
        expect_file(&path, &format!("{head}{}", ask(&program, 0..SETS))).unwrap();
    }
    let record = std::fs::read_to_string(&path).unwrap();
    let record = record.strip_prefix(&head).expect("the record is of this version of Karpenter");
    compare(record.lines().step_by(if is_full() { 1 } else { 6 }));
}

/// Compares what gpulint says with lines of a record.
fn compare<'r>(record: impl Iterator<Item = &'r str>) {
    let (mut asked, mut unknown, mut wrong) = (0, Vec::new(), Vec::new());
    for line in record {
        let (number, rest) = line.split_once(' ').expect("a number");
        let number: u64 = number.parse().expect("a number");
        let Some((pod, (pools, load))) =
            rest.split_once(" | ").and_then(|(pod, rest)| Some((pod, rest.split_once(" | ")?)))
        else {
            continue;
        };
        let set = drawn(number);
        let ours = ours(&set);
        let mut compare = |what: &str, ours: &str, theirs: &str| {
            asked += 1;
            let shown = format!("{number} {} {what}: {theirs}, not {ours}", set.scenario);
            match (ours == theirs || theirs == "~", ours == "?") {
                (true, _) => {}
                (false, true) => unknown.push(shown),
                (false, false) => wrong.push((number, shown)),
            }
        };
        // The program asks about the pod alone, in a cluster without the pods that it joins: where all are together decides.
        if joins_others(&set) {
            let waits = load.split(' ').any(|part| part == format!("{}-app", replicas_of(&set)));
            let theirs = match load {
                "~" => "~",
                _ if waits => "-",
                _ => "a node",
            };
            let found = if ours.pod.contains(' ') { "a node" } else { ours.pod.as_str() };
            compare("pod", found, theirs);
            compare("load", &ours.load, load);
            continue;
        }
        compare("pod", &ours.pod, pod);
        for (pool, letter) in pools.split(' ').filter_map(|pool| pool.split_once('=')) {
            // Where it is not known whether the pod is considered, the pools do not matter.
            let known = if ours.pod == "?" { '?' } else { ours.pools.get(pool).copied().unwrap_or('n') };
            compare(pool, &known.to_string(), letter);
        }
        compare("load", &ours.load, load);
    }
    wrong.retain(|(number, _)| !DIFFERENT.iter().any(|(one, _)| one == number));
    println!("{asked} asked, {} unknown:\n{}", unknown.len(), unknown.join("\n"));
    let wrong: Vec<String> = wrong.into_iter().map(|(_, shown)| shown).collect();
    assert!(unknown.len() * 20 <= asked, "more than 5 % are unknown:\n{}", unknown.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
