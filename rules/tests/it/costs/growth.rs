//! The cost of an object does not grow with the number of other objects in the cluster, because a rule looks
//! up the objects that it needs and does not iterate over all objects. The test copies the objects of a
//! fixture to a cluster. Each copy has a namespace, names and references of its own. The average number of
//! steps per copy must be equal for 40 and for 80 copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gpulint_rules::file::File;
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Engine, Object, RULES, Settings, steps};
use gpulint_testing::{is_full, lot};
use serde_json::{Map, Value};

/// Maximum number of additional steps per object for each copy. A rule that iterates over the objects of one
/// kind needs more.
const MOST_STEPS_PER_COPY: f64 = 0.5;
/// Rules that may iterate over other objects.
const EXEMPT: [&str; 48] = [
    // Rules on pools and node classes, of which a cluster has few. They iterate over the workloads that one
    // of them admits.
    "consolidation-disrupts-training",
    "do-not-disrupt-without-grace-period",
    "drain-deadlock",
    "efa-public-ip",
    "general-pool-admits-gpu",
    "gpu-device-plugin-missing",
    "grace-period-ends-runs",
    "max-replicas-exceed-gpu-limit",
    "pool-unreachable",
    "training-pool-without-budget",
    // Rules on node classes that iterate over the DaemonSets, of which a cluster has few as well.
    "instance-store-unused",
    "max-pods-above-interfaces",
    // Rules on DaemonSets that iterate over the workloads.
    "daemonset-may-not-fit",
    // Rules on PriorityClasses, of which a cluster has few, that iterate over the workloads.
    "headroom-never-taken",
    "priority-class-default",
    // Searches for the interceptor if a start takes longer than a request waits by default.
    "http-wait-too-short",
    // Rules that iterate over the pools that admit a workload or, if none does, search for the nearest miss.
    "gang-exceeds-gpu-limit",
    "gpu-rollout-needs-surge",
    "pod-fits-no-pool",
    "pool-limit-exceeded",
    "request-overflows-instance",
    "spread-exceeds-domains",
    "spread-idles-gpus",
    "training-topology",
    // Rules on objects that a cluster has once: an exporter, the GPU Operator.
    "dcgm-exporter-config",
    "gpu-helper-missing",
    "gpu-operator-driver-on-eks-ami",
    // Rules on objects that a cluster has few of: queues and flavors of Kueue and Volcano, StorageClasses, Probes, operators.
    "cluster-queue-admits-nothing",
    "kueue-flavor-unmatched",
    "operator-watches-elsewhere",
    "storage-class-binds-early",
    "storage-class-parameter-invalid",
    "volcano-queue-too-small",
    "keda-query-many-series",
    // ClusterTriggerAuthentications, for which scalers of all namespaces are looked at.
    "keda-auth-source-missing",
    "keda-auth-unused",
    // What installs a product, of which a cluster has few: Karpenter with its feature gates and settings; Cilium and Istio,
    // which a NodePool looks for.
    "feature-gate-off",
    "karpenter-setting-missing",
    "startup-taint-kept",
    // What installs the Cluster Autoscaler or the HTTP add-on of KEDA.
    "http-scaled-object-without-hosts",
    "placeholder-pods-expendable",
    // Prometheus servers, and the servers whose metrics a query may select.
    "keda-query-counts-others",
    "monitor-unselected",
    // Searches for the first selected Service in any namespace.
    "service-monitor-selects-nothing",
    // Rules that search for a similar name if an object is missing.
    "hpa-target-missing",
    "keda-target-missing",
    "node-class-missing",
    // Looks for what brings a scheduler if its name is not a known one.
    "scheduler-unknown",
];

/// The objects of a fixture.
struct Scenario {
    path: PathBuf,
    objects: Vec<Value>,
}

/// Every `every`th fixture of the rules.
fn scenarios(every: u32) -> Vec<Scenario> {
    let paths = gpulint_testing::yaml_below(&gpulint_testing::fixtures().join("rules"));
    assert!(paths.len() > 1_000, "only {} fixtures", paths.len());
    let mut out = Vec::new();
    for path in paths.into_iter().filter(|path| lot(path, every) == 0) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let objects = File::read(Source::from_text("a.yaml", &text)).objects;
        let objects: Vec<Value> = objects.iter().map(|object| object.root().to_json()).collect();
        if !objects.is_empty() && text.len() < 20_000 {
            out.push(Scenario { path, objects });
        }
    }
    out
}

impl Scenario {
    /// The given number of copies of the objects.
    fn copies(&self, count: usize) -> Vec<Object> {
        let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        let names: BTreeSet<String> = self.objects.iter().filter_map(name).collect();
        let copy_all = |n: usize| self.objects.iter().filter_map(|object| copy(object, &names, n)).collect();
        (0..count).flat_map::<Vec<Object>, _>(copy_all).collect()
    }

    /// The clusters of 40 and of 80 copies.
    fn clusters(&self, engine: &Engine) -> [CopiesInCluster; 2] {
        [40, 80].map(|count| {
            let objects = self.copies(count);
            let mut cluster = Cluster::new(true);
            for object in &objects {
                cluster.apply(object.clone());
            }
            cluster.build_views(&engine.settings().platform);
            CopiesInCluster { count, objects, cluster }
        })
    }
}

/// Copies of the objects of a fixture, and their cluster.
struct CopiesInCluster {
    count: usize,
    objects: Vec<Object>,
    cluster: Cluster,
}

impl CopiesInCluster {
    /// The average number of steps of the rules per copy, without those for cached results that all rules
    /// share.
    fn steps_per_copy(&self, engine: &Engine) -> f64 {
        let check = |object| engine.check_object(object, &self.cluster).len();
        let all = || self.objects.iter().map(check).sum::<usize>();
        all();
        let before = steps::tally();
        all();
        (steps::tally() - before) as f64 / self.count as f64
    }
}

/// The number of additional steps per copy for each other copy.
fn growth(clusters: &[CopiesInCluster; 2], engine: &Engine) -> f64 {
    let [few, many] = clusters;
    (many.steps_per_copy(engine) - few.steps_per_copy(engine)) / (many.count - few.count) as f64
}

/// The copy of an object with number `n`, which refers to other copies with this number.
fn copy(object: &Value, names: &BTreeSet<String>, n: usize) -> Option<Object> {
    let mut value = renamed(object, names, n);
    if !Object::from_json(&value)?.is_cluster_scoped() {
        let metadata = value.get_mut("metadata")?.as_object_mut()?;
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or("default");
        metadata.insert("namespace".to_owned(), Value::String(format!("{namespace}-{n:03}")));
    }
    Object::from_json(&value)
}

/// The value with `n` appended to the names of objects.
fn renamed(value: &Value, names: &BTreeSet<String>, n: usize) -> Value {
    match value {
        Value::String(text) if names.contains(text) => Value::String(format!("{text}-{n:03}")),
        Value::Array(items) => Value::Array(items.iter().map(|item| renamed(item, names, n)).collect()),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, entry)| (key.clone(), renamed(entry, names, n)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// An exempt rule needs more steps beside more objects in one of its own fixtures; all of them are asked if `COSTS` is set.
#[test]
fn exempt_rules_iterate_over_other_objects() {
    let unknown: Vec<_> = EXEMPT.iter().filter(|id| gpulint_rules::find_rule(id).is_none()).collect();
    assert!(unknown.is_empty(), "no rule is called {unknown:?}");
    if std::env::var("COSTS").is_err() {
        return;
    }
    let scenarios = scenarios(1);
    let grows = |id: &str| {
        let alone = Engine::new(Settings { select: vec![id.to_owned()], ..Settings::default() });
        let mut own =
            scenarios.iter().filter(|scenario| scenario.path.parent().is_some_and(|p| p.ends_with(id)));
        own.any(|scenario| growth(&scenario.clusters(&alone), &alone) > MOST_STEPS_PER_COPY)
    };
    let unneeded: Vec<_> = EXEMPT.iter().filter(|id| !grows(id)).collect();
    assert!(unneeded.is_empty(), "the cost of these rules does not grow: {unneeded:?}");
}

/// If `COSTS` is set, every fixture is tested; with `FULL` twice as many as without.
#[test]
fn what_an_object_costs_does_not_grow_with_the_objects_beside_it() {
    let ignore_rules = EXEMPT.map(str::to_owned).to_vec();
    let engine = Engine::new(Settings { ignore_rules, ..Settings::default() });
    let every = match std::env::var("COSTS") {
        Ok(_) => 1,
        Err(_) if is_full() => 62,
        Err(_) => 124,
    };
    let mut grown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for scenario in &scenarios(every) {
        let clusters = scenario.clusters(&engine);
        let growth_of_all = growth(&clusters, &engine);
        if growth_of_all <= MOST_STEPS_PER_COPY {
            continue;
        }
        // Finds the rule that causes the growth.
        for rule in RULES.iter().filter(|rule| !EXEMPT.contains(&rule.id)) {
            let alone = Engine::new(Settings { select: vec![rule.id.to_owned()], ..Settings::default() });
            let growth = growth(&clusters, &alone);
            if growth > MOST_STEPS_PER_COPY {
                let name = scenario.path.file_stem().unwrap_or_default().to_string_lossy();
                let folder = scenario.path.parent().and_then(Path::file_name).unwrap_or_default();
                let place = format!("{}/{name}: {growth:.1}", folder.to_string_lossy());
                grown.entry(rule.id.to_owned()).or_default().push(place);
            }
        }
    }
    let list: Vec<String> = grown
        .iter()
        .map(|(rule, places)| format!("{rule}: {}", places[..places.len().min(4)].join(", ")))
        .collect();
    assert!(grown.is_empty(), "the cost of these rules grows with other objects:\n{}", list.join("\n"));
}
