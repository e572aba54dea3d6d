//! Whether all pods of a cluster fit together, compared with numbers that are calculated by hand.
//!
//! Allocatable resources: m5.large 1930m of CPU and 29 pods, m5.xlarge 3920m, both at $0.096 per 2 vCPUs;
//! g6.xlarge one GPU at $0.8048.

use std::time::{Duration, Instant};

use gpulint_rules::fit::{Capacity, FitVerdict, Load, Situation, uncertainty_code};
use gpulint_rules::platform::MinValuesPolicy;
use gpulint_rules::{Cluster, Object, Platform};
use serde_json::{Value, json};

fn object(api: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn pool(name: &str, types: &[&str], more: Value) -> Value {
    let mut spec = json!({"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}});
    for (key, value) in more.as_object().expect("a map") {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
}

fn class() -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"amiSelectorTerms": [{"alias": "al2023@v20250807"}]}})
}

/// A pod template that requests an amount.
fn pods(app: &str, resource: &str, amount: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [
        {"name": "c", "resources": {"limits": {resource: amount}}}]}})
}

fn deployment(name: &str, replicas: i64, resource: &str, amount: &str) -> Value {
    object(
        "apps/v1",
        "Deployment",
        name,
        json!({"replicas": replicas, "template": pods(name, resource, amount)}),
    )
}

fn with(mut workload: Value, field: &str, value: Value) -> Value {
    workload["spec"]["template"]["spec"][field] = value;
    workload
}

fn capacity(objects: &[Value]) -> Capacity {
    let mut cluster = Cluster::new(true);
    cluster.apply(Object::from_json(&class()).expect("a class"));
    objects.iter().for_each(|object| cluster.apply(Object::from_json(object).expect("an object")));
    Situation::read(&cluster, &Platform::default(), None).capacity(&cluster)
}

/// The pool, type, nodes and pods of each row.
fn nodes(load: &Load) -> Vec<(&str, &str, u64, u64)> {
    load.nodes.iter().map(|row| (row.pool.name(), row.instance.name, row.nodes, row.pods)).collect()
}

fn left(load: &Load) -> Vec<(&str, u64, u64)> {
    load.misfits.iter().map(|misfit| (misfit.workload.name(), misfit.pods, misfit.of)).collect()
}

#[test]
fn one_pool_of_one_type() {
    // Three pods of 500m fit 1930m.
    let capacity = capacity(&[pool("a", &["m5.large"], json!({})), deployment("web", 10, "cpu", "500m")]);
    for load in [&capacity.floor, &capacity.ceiling] {
        assert_eq!((load.verdict, load.pods), (FitVerdict::Fits, 10));
        assert_eq!(nodes(load), [("a", "m5.large", 4, 10)]);
        assert_eq!(load.micro_dollars, Some(384_000));
    }
}

#[test]
fn nodes_of_static_pools_stand_and_no_other_is_started() {
    // Three pods of 500m fit 1930m: six stand on two nodes, and the others wait.
    let fixed = || pool("fixed", &["m5.large"], json!({"replicas": 2, "limits": {"nodes": 3}}));
    let web = |replicas| deployment("web", replicas, "cpu", "500m");
    let fits = capacity(&[fixed(), web(6)]);
    assert_eq!(
        (fits.floor.verdict, nodes(&fits.floor)),
        (FitVerdict::Fits, vec![("fixed", "m5.large", 2, 6)])
    );
    let beyond = capacity(&[fixed(), web(8)]);
    assert_eq!(
        (nodes(&beyond.floor), left(&beyond.floor)),
        (vec![("fixed", "m5.large", 2, 6)], vec![("web", 2, 8)])
    );
    assert_eq!(beyond.floor.misfits[0].reason, "the nodes of the static NodePool `fixed` are full");
    // Another pool starts nodes for those that are left, and nodes without pods are there all the same.
    let more = pool("more", &["m5.xlarge"], json!({}));
    assert_eq!(
        nodes(&capacity(&[fixed(), more, web(8)]).floor),
        [("fixed", "m5.large", 2, 6), ("more", "m5.xlarge", 1, 2)]
    );
    let idle = capacity(&[fixed()]).floor;
    assert_eq!((nodes(&idle), idle.micro_dollars), (vec![("fixed", "m5.large", 2, 0)], Some(192_000)));
    // `limits.nodes` below `replicas` is what is started.
    let less = pool("less", &["m5.large"], json!({"replicas": 3, "limits": {"nodes": 1}}));
    assert_eq!(nodes(&capacity(&[less, web(3)]).floor), [("less", "m5.large", 1, 3)]);
}

#[test]
fn types_narrow_with_each_pod() {
    // Seven pods of 500m fit 3920m; the three others fit the smaller type, which is cheaper.
    let capacity =
        capacity(&[pool("a", &["m5.large", "m5.xlarge"], json!({})), deployment("web", 10, "cpu", "500m")]);
    assert_eq!(nodes(&capacity.floor), [("a", "m5.large", 1, 3), ("a", "m5.xlarge", 1, 7)]);
    assert_eq!(capacity.floor.micro_dollars, Some(288_000));
}

#[test]
fn the_largest_pods_come_first() {
    // One pod of 2500m per node, and two of 700m beside it. The fifth small pod needs a third node.
    let pool = pool("a", &["m5.xlarge"], json!({}));
    let small = deployment("a-small", 5, "cpu", "700m");
    let capacity = capacity(&[pool, small, deployment("large", 2, "cpu", "2500m")]);
    assert_eq!(nodes(&capacity.floor), [("a", "m5.xlarge", 3, 7)]);
}

#[test]
fn pods_go_to_the_node_with_the_fewest() {
    // Two nodes with a large pod and one of 700m each have 720m left, so the third of three pods of 450m
    // needs another node. With both pods of 700m on the first node, the second would have room for all three.
    let pool = pool("a", &["m5.xlarge"], json!({}));
    let large = deployment("large", 2, "cpu", "2500m");
    let small = deployment("small", 2, "cpu", "700m");
    let tiny = deployment("tiny", 3, "cpu", "450m");
    let capacity = capacity(&[pool, large, small, tiny]);
    assert_eq!(nodes(&capacity.floor), [("a", "m5.xlarge", 3, 7)]);
}

#[test]
fn a_limit_that_only_the_ceiling_reaches() {
    let scaled = object(
        "keda.sh/v1alpha1",
        "ScaledObject",
        "llm",
        json!({"scaleTargetRef": {"name": "llm"}, "minReplicaCount": 2, "maxReplicaCount": 6}),
    );
    let pool = pool("gpu", &["g6.xlarge"], json!({"limits": {"nvidia.com/gpu": 4}}));
    let capacity = capacity(&[pool, deployment("llm", 1, "nvidia.com/gpu", "1"), scaled]);
    assert_eq!(
        (capacity.floor.verdict, nodes(&capacity.floor)),
        (FitVerdict::Fits, vec![("gpu", "g6.xlarge", 2, 2)])
    );
    assert_eq!(capacity.floor.micro_dollars, Some(1_609_600));
    let ceiling = &capacity.ceiling;
    assert_eq!((ceiling.verdict, ceiling.pods), (FitVerdict::DoesNotFit, 6));
    assert_eq!(nodes(ceiling), [("gpu", "g6.xlarge", 4, 4)]);
    assert_eq!(left(ceiling), [("llm", 2, 6)]);
    assert_eq!(ceiling.misfits[0].reason, "the limit `nvidia.com/gpu: 4` of NodePool `gpu` is reached");
    assert_eq!(ceiling.misfits[0].places[0].pointer.to_string(), "/spec/limits/nvidia.com~1gpu");
    assert_eq!((ceiling.pools[0].gpus, ceiling.pools[0].gpu_limit), (4, Some(4)));
}

#[test]
fn a_pod_that_fits_nowhere() {
    let pool = pool("gpu", &["g6.xlarge"], json!({}));
    let capacity = capacity(&[pool, deployment("large", 3, "nvidia.com/gpu", "8")]);
    assert_eq!(left(&capacity.floor), [("large", 3, 3)]);
    assert_eq!((nodes(&capacity.floor), capacity.floor.verdict), (vec![], FitVerdict::DoesNotFit));
}

#[test]
fn the_second_pool_takes_what_the_first_has_no_room_for() {
    // Two nodes of 2 vCPUs with six pods reach the limit of 4; four pods are left.
    let first = pool("first", &["m5.large"], json!({"weight": 100, "limits": {"cpu": 4}}));
    let second = pool("second", &["m5.large"], json!({}));
    let capacity = capacity(&[second, first, deployment("web", 10, "cpu", "500m")]);
    assert_eq!(nodes(&capacity.floor), [("first", "m5.large", 2, 6), ("second", "m5.large", 2, 4)]);
}

#[test]
fn daemonsets_have_their_share_of_each_node() {
    // 1930m minus 500m has room for two pods.
    let agent = object("apps/v1", "DaemonSet", "agent", json!({"template": pods("agent", "cpu", "500m")}));
    let capacity =
        capacity(&[pool("a", &["m5.large"], json!({})), agent, deployment("web", 10, "cpu", "500m")]);
    assert_eq!(nodes(&capacity.floor), [("a", "m5.large", 5, 10)]);
}

#[test]
fn limits_count_the_largest_type_until_nodes_are_there() {
    // The first node counts 96 of 100 vCPUs, the next two have 4 left between them. All start as m5.large, and the next
    // batch finds 94 left.
    let pool = pool("a", &["m5.large", "m5.24xlarge"], json!({"limits": {"cpu": 100}}));
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let web = |replicas| with(deployment("web", replicas, "cpu", "500m"), "affinity", apart.clone());
    assert_eq!(nodes(&capacity(&[pool.clone(), web(5)]).floor), [("a", "m5.large", 5, 5)]);
    let many = capacity(&[pool, web(60)]).floor;
    assert_eq!((nodes(&many), left(&many)), (vec![("a", "m5.large", 50, 50)], vec![("web", 10, 60)]));
}

#[test]
fn a_limit_on_nodes() {
    let pool = pool("a", &["m5.large"], json!({"limits": {"nodes": 3}}));
    // Pods of one batch do not lower the limit.
    let load = capacity(&[pool, deployment("web", 10, "cpu", "500m")]).floor;
    assert_eq!((nodes(&load), left(&load)), (vec![("a", "m5.large", 4, 10)], vec![]));
    let none = self::pool("a", &["m5.large"], json!({"limits": {"nodes": 0}}));
    let load = capacity(&[none, deployment("web", 10, "cpu", "500m")]).floor;
    assert_eq!(left(&load), vec![("web", 10, 10)]);
}

#[test]
fn spread_over_nodes() {
    let pool = pool("a", &["m5.large"], json!({}));
    let web = |skew: i64, mode: &str| {
        let constraint = json!([{"topologyKey": "kubernetes.io/hostname", "maxSkew": skew, "whenUnsatisfiable": mode,
            "labelSelector": {"matchLabels": {"app": "web"}}}]);
        with(deployment("web", 6, "cpu", "500m"), "topologySpreadConstraints", constraint)
    };
    let count = |web: Value| capacity(&[pool.clone(), web]).floor.nodes[0].nodes;
    assert_eq!(count(deployment("web", 6, "cpu", "500m")), 2);
    assert_eq!(count(web(1, "DoNotSchedule")), 6);
    assert_eq!(count(web(2, "DoNotSchedule")), 3);
    // Karpenter meets preferences as long as it can, which is always possible on a new node.
    assert_eq!(count(web(1, "ScheduleAnyway")), 6);
}

#[test]
fn preferences_about_neighbours_are_dropped_at_a_limit() {
    let pool = pool("a", &["m5.large"], json!({"limits": {"cpu": 4}}));
    let apart = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}}]}});
    let load = capacity(&[pool, with(deployment("web", 5, "cpu", "500m"), "affinity", apart)]).floor;
    assert_eq!((nodes(&load), load.verdict), (vec![("a", "m5.large", 2, 5)], FitVerdict::Fits));
}

#[test]
fn a_node_keeps_off_all_values_that_its_requirements_allow() {
    let apart = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/arch", "labelSelector": {"matchLabels": {"app": "web"}}}}]}});
    let web = with(deployment("web", 2, "cpu", "100m"), "affinity", apart);
    let (first, second) = (pool("z", &["m5.large"], json!({})), pool("a", &["m7g.large"], json!({})));
    // Its type is of one architecture, its requirements allow both.
    let load = capacity(&[first.clone(), second.clone(), web.clone()]).floor;
    assert_eq!(nodes(&load), [("z", "m5.large", 1, 2)]);
    let mut bound = first;
    let requirements = &mut bound["spec"]["template"]["spec"]["requirements"];
    requirements
        .as_array_mut()
        .expect("a list")
        .push(json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}));
    let load = capacity(&[bound, second, web]).floor;
    assert_eq!(nodes(&load), [("z", "m5.large", 1, 1), ("a", "m7g.large", 1, 1)]);
}

#[test]
fn anti_affinity_keeps_others_out_in_both_directions() {
    let pool = pool("a", &["m5.xlarge"], json!({}));
    let away = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}]}});
    for (quiet, noisy) in [("500m", "700m"), ("700m", "500m")] {
        let quiet = with(deployment("quiet", 2, "cpu", quiet), "affinity", away.clone());
        let load = capacity(&[pool.clone(), quiet, deployment("noisy", 2, "cpu", noisy)]).floor;
        assert_eq!(nodes(&load), [("a", "m5.xlarge", 2, 4)]);
    }
}

#[test]
fn ports_of_the_host_are_used_once() {
    let mut web = deployment("web", 3, "cpu", "100m");
    web["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 80, "hostPort": 80}]);
    let load = capacity(&[pool("a", &["m5.large"], json!({})), web]).floor;
    assert_eq!(nodes(&load), [("a", "m5.large", 3, 3)]);
}

#[test]
fn how_many_pods_kinds_have() {
    let counts = |workload: Value, more: &[Value]| {
        let mut objects = vec![pool("a", &["m5.large"], json!({})), workload];
        objects.extend_from_slice(more);
        let capacity = capacity(&objects);
        (capacity.floor.pods, capacity.ceiling.pods)
    };
    let job = |spec: Value| {
        let mut spec = spec;
        spec["template"] = pods("job", "cpu", "100m");
        object("batch/v1", "Job", "job", spec)
    };
    assert_eq!(counts(deployment("web", 3, "cpu", "100m"), &[]), (3, 3));
    assert_eq!(counts(job(json!({"parallelism": 4, "completions": 3})), &[]), (3, 3));
    assert_eq!(counts(job(json!({"parallelism": 4, "suspend": true})), &[]), (0, 4));
    let cron = json!({"schedule": "@daily", "jobTemplate": {"spec": job(json!({"parallelism": 2}))["spec"].clone()}});
    assert_eq!(counts(object("batch/v1", "CronJob", "cron", cron), &[]), (0, 2));
    let scaled_job = |bounds: Value| {
        let mut spec = bounds;
        spec["jobTargetRef"] = job(json!({"parallelism": 2}))["spec"].clone();
        object("keda.sh/v1alpha1", "ScaledJob", "queue", spec)
    };
    assert_eq!(counts(scaled_job(json!({})), &[]), (0, 200));
    assert_eq!(counts(scaled_job(json!({"minReplicaCount": 1, "maxReplicaCount": 3})), &[]), (2, 6));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let scaled = object("keda.sh/v1alpha1", "ScaledObject", "web", json!({"scaleTargetRef": target}));
    assert_eq!(counts(deployment("web", 3, "cpu", "100m"), &[scaled]), (0, 100));
    let hpa = json!({"scaleTargetRef": target, "maxReplicas": 7});
    let hpa = object("autoscaling/v2", "HorizontalPodAutoscaler", "web", hpa);
    assert_eq!(counts(deployment("web", 3, "cpu", "100m"), &[hpa]), (1, 7));
    let groups = json!({"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": pods("w", "cpu", "100m"),
        "leaderTemplate": pods("l", "cpu", "100m")}});
    assert_eq!(counts(object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", groups), &[]), (8, 8));
    let workers = |auto: bool| {
        json!({"enableInTreeAutoscaling": auto, "headGroupSpec": {"template": pods("h", "cpu", "100m")},
            "workerGroupSpecs": [{"replicas": 2, "minReplicas": 1, "maxReplicas": 5, "numOfHosts": 2,
                "template": pods("w", "cpu", "100m")}]})
    };
    assert_eq!(counts(object("ray.io/v1", "RayCluster", "ray", workers(true)), &[]), (3, 11));
    assert_eq!(counts(object("ray.io/v1", "RayCluster", "ray", workers(false)), &[]), (5, 5));
}

#[test]
fn what_is_not_known_is_said() {
    let pool = pool("a", &["m5.large"], json!({}));
    let volume = with(
        deployment("volume", 2, "cpu", "500m"),
        "volumes",
        json!([{"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "now"}}}}]),
    );
    // A class that binds at once picks a zone by itself.
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "now"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"});
    let zone = |mode: &str| {
        json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": mode,
            "labelSelector": {"matchLabels": {"app": "zones"}}}])
    };
    let zones =
        with(deployment("zones", 3, "cpu", "500m"), "topologySpreadConstraints", zone("DoNotSchedule"));
    let mut scaled = deployment("placeholder", 1, "cpu", "500m");
    scaled["spec"]["replicas"] = json!("${REPLICAS}");
    let load = capacity(&[pool, volume, class, zones, scaled]).floor;
    let unknown: Vec<(&str, Option<u64>, &str)> = load
        .unknown
        .iter()
        .map(|(workload, pods, doubts)| (workload.name(), *pods, uncertainty_code(&doubts[0])))
        .collect();
    assert_eq!(unknown, [("placeholder", None, "replicas"), ("volume", Some(2), "claim-to-bind")]);
    assert_eq!(
        (load.verdict, load.pods, nodes(&load)),
        (FitVerdict::Unknown, 3, vec![("a", "m5.large", 1, 3)])
    );
    assert_eq!((load.notes[0].0.name(), uncertainty_code(&load.notes[0].1[0])), ("zones", "spread-over"));
}

#[test]
fn min_values_are_lowered_by_the_first_pod_alone() {
    let pool = |min: u64| {
        let mut pool = pool("a", &["m5.large", "m5.xlarge"], json!({}));
        let requirements = &mut pool["spec"]["template"]["spec"]["requirements"];
        requirements[0]["minValues"] = json!(2);
        let families =
            json!({"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": min});
        requirements.as_array_mut().expect("a list").push(families);
        pool
    };
    let best_effort =
        Platform { min_values_policy: Some(MinValuesPolicy::BestEffort), ..Platform::default() };
    let load = |min: u64| {
        let mut cluster = Cluster::new(true);
        for object in [class(), pool(min), deployment("web", 4, "cpu", "500m")] {
            cluster.apply(Object::from_json(&object).expect("an object"));
        }
        Situation::read(&cluster, &best_effort, None).capacity(&cluster).floor
    };
    // A fourth pod leaves a node one type of two, whether or not the families were too few from the first one on.
    for min in [1, 2] {
        assert_eq!(nodes(&load(min)), [("a", "m5.large", 2, 4)], "{min}");
    }
}

/// A workload whose pods join those of another on their nodes.
fn joining(name: &str, replicas: i64, other: &str, required: bool) -> Value {
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": other}}});
    let affinity = match required {
        true => json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}),
        false => json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "podAffinityTerm": term}]}}),
    };
    with(deployment(name, replicas, "cpu", "500m"), "affinity", affinity)
}

#[test]
fn pods_that_join_others_share_their_nodes() {
    let pool = || pool("a", &["m5.large"], json!({}));
    // The first decides on the node; three of 500m fit 1930m.
    let own = capacity(&[pool(), joining("web", 5, "web", true)]).floor;
    assert_eq!((nodes(&own), left(&own)), (vec![("a", "m5.large", 1, 3)], vec![("web", 2, 5)]));
    assert!(own.misfits[0].reason.contains("pod affinity"), "{}", own.misfits[0].reason);
    // A preference lets the others go elsewhere.
    let soft = capacity(&[pool(), joining("web", 5, "web", false)]).floor;
    assert_eq!((nodes(&soft), left(&soft)), (vec![("a", "m5.large", 2, 5)], vec![]));
    // Two nodes of 1000m have room for one pod each.
    let base = || deployment("base", 2, "cpu", "1000m");
    let others = capacity(&[pool(), base(), joining("side", 3, "base", true)]).floor;
    assert_eq!((nodes(&others), left(&others)), (vec![("a", "m5.large", 2, 4)], vec![("side", 1, 3)]));
    // It is not known where the others are, or there are none.
    let mut unknown = base();
    unknown["spec"]["replicas"] = json!("${REPLICAS}");
    let lost = capacity(&[pool(), unknown, joining("side", 3, "base", true)]).floor;
    let names: Vec<&str> = lost.unknown.iter().map(|(workload, ..)| workload.name()).collect();
    assert_eq!((names, left(&lost)), (vec!["base", "side"], vec![]));
    let daemons = with(
        object("apps/v1", "DaemonSet", "base", json!({"template": pods("base", "cpu", "1")})),
        "x",
        json!(1),
    );
    let on_daemons = capacity(&[pool(), daemons, joining("side", 3, "base", true)]).floor;
    // No node is started for pods that need one where a DaemonSet already runs.
    assert_eq!((on_daemons.unknown.len(), left(&on_daemons)), (0, vec![("side", 3, 3)]));
    let none = capacity(&[pool(), joining("side", 3, "gone", true)]).floor;
    assert_eq!((none.unknown.len(), left(&none)), (0, vec![("side", 3, 3)]));
}

#[test]
fn ten_thousand_pods_are_counted_and_not_placed() {
    let began = Instant::now();
    let load =
        capacity(&[pool("a", &["m5.large"], json!({})), deployment("web", 10_000, "cpu", "500m")]).floor;
    // 3,333 nodes with three pods, and one node with one.
    assert_eq!(nodes(&load), [("a", "m5.large", 3334, 10_000)]);
    assert_eq!(load.micro_dollars, Some(320_064_000));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn many_workloads_on_many_types() {
    let mut objects = vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "all"}, "spec": {
            "limits": {"cpu": 20_000},
            "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}]}}}}),
    ];
    objects
        .extend((0..200).map(|n| deployment(&format!("web-{n}"), 50, "cpu", &format!("{}m", 100 + 17 * n))));
    let began = Instant::now();
    let first = capacity(&objects).floor;
    println!("200 workloads: {:?}, {} kinds of nodes", began.elapsed(), first.nodes.len());
    assert_eq!(first.pods, 10_000);
    // The order of the objects does not matter.
    objects.reverse();
    let second = capacity(&objects).floor;
    assert_eq!((nodes(&first), left(&first)), (nodes(&second), left(&second)));
}

/// A rule that keeps pods apart over a label, for pods of one Deployment.
fn spread(key: &str, more: Value) -> Value {
    let mut rule = json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    rule.as_object_mut().expect("a rule").extend(more.as_object().cloned().expect("fields"));
    json!([rule])
}

#[test]
fn the_limit_of_nodes_is_not_lowered_within_a_batch() {
    let pool = pool("a", &["m5.large"], json!({"limits": {"nodes": 1}}));
    let web = with(
        deployment("web", 4, "cpu", "500m"),
        "topologySpreadConstraints",
        spread("kubernetes.io/hostname", json!({})),
    );
    let capacity = capacity(&[pool, web]);
    assert_eq!((nodes(&capacity.floor), left(&capacity.floor)), (vec![("a", "m5.large", 4, 4)], vec![]));
}

#[test]
fn fewer_domains_than_the_rule_wants_take_max_skew_each() {
    let constraint = spread("topology.kubernetes.io/zone", json!({"minDomains": 5}));
    let mut web = with(deployment("web", 4, "cpu", "500m"), "topologySpreadConstraints", constraint);
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "eu-west-1a"});
    let plain = pool("a", &["m5.large"], json!({}));
    let mut soft = plain.clone();
    soft["spec"]["template"]["spec"]["taints"] = json!([{"key": "team", "effect": "PreferNoSchedule"}]);
    let mut honoring = web.clone();
    let rules = &mut honoring["spec"]["template"]["spec"]["topologySpreadConstraints"];
    rules[0]["nodeTaintsPolicy"] = json!("Honor");
    // A pod that no other pool takes tolerates a taint that only prefers others.
    for objects in [[plain, web], [soft, honoring]] {
        let load = capacity(&objects).floor;
        assert_eq!((nodes(&load), left(&load)), (vec![("a", "m5.large", 1, 1)], vec![("web", 3, 4)]));
    }
}

/// Nodes are counted by domain where the pools list all values of the label: each has one of them.
#[test]
fn spread_over_values_that_pools_list() {
    let listing = |name: &str, values: &[&str], more: Value| {
        let mut pool = pool(name, &["m5.xlarge"], more);
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut().expect("a list");
        requirements.push(json!({"key": "team/share", "operator": "In", "values": values}));
        pool
    };
    let web = |replicas, more| {
        let constraint = spread("team/share", more);
        with(deployment("web", replicas, "cpu", "500m"), "topologySpreadConstraints", constraint)
    };
    let pools = |more: Value| [listing("spot", &["2", "3", "4"], more), listing("fixed", &["1"], json!({}))];
    let load = |pools: [Value; 2], web: Value| {
        let [a, b] = pools;
        capacity(&[a, b, web]).floor
    };
    let even = load(pools(json!({})), web(8, json!({})));
    assert_eq!(nodes(&even), [("spot", "m5.xlarge", 3, 6), ("fixed", "m5.xlarge", 1, 2)]);
    assert!(even.notes.is_empty());
    // Of two pods the second goes to another domain of the pool that is tried first, and with a larger skew it joins the first.
    assert_eq!(nodes(&load(pools(json!({})), web(2, json!({})))), [("spot", "m5.xlarge", 2, 2)]);
    let skewed = load(pools(json!({})), web(4, json!({"maxSkew": 4})));
    assert_eq!(skewed.nodes.iter().map(|row| row.nodes).sum::<u64>(), 1);
    // At a limit, a rule that is required leaves pods waiting, and a preference is dropped.
    let limited = || pools(json!({"limits": {"cpu": 4}}));
    let required = load(limited(), web(8, json!({})));
    // The domains of the pods that wait stay empty, so that no other takes a second pod.
    assert_eq!(left(&required), [("web", 6, 8)]);
    let preferred = load(limited(), web(8, json!({"whenUnsatisfiable": "ScheduleAnyway"})));
    assert_eq!((left(&preferred), preferred.verdict), (vec![], FitVerdict::Fits));
}

#[test]
fn pods_keep_apart_by_a_label_that_all_nodes_share() {
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "karpenter.sh/capacity-type", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let web = with(deployment("web", 3, "cpu", "500m"), "affinity", affinity);
    let capacity = capacity(&[pool("a", &["m5.large"], json!({})), web]);
    assert_eq!(
        (nodes(&capacity.floor), left(&capacity.floor)),
        (vec![("a", "m5.large", 1, 1)], vec![("web", 2, 3)])
    );
    assert!(capacity.floor.misfits[0].reason.contains("`karpenter.sh/capacity-type`"));
}

/// Karpenter takes the first pool with a domain that is free, and the values of a pool with several one after the other.
#[test]
fn pods_that_keep_apart_over_values_go_to_other_pools() {
    let with_values = |name: &str, values: &[&str]| {
        let mut pool = pool(name, &["m5.xlarge"], json!({}));
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut().expect("a list");
        requirements.push(json!({"key": "team/rack", "operator": "In", "values": values}));
        pool
    };
    let web = |replicas| {
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "team/rack", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
        with(deployment("web", replicas, "cpu", "500m"), "affinity", affinity)
    };
    let two = capacity(&[with_values("a", &["1"]), with_values("b", &["2"]), web(3)]).floor;
    assert_eq!(nodes(&two), [("b", "m5.xlarge", 1, 1), ("a", "m5.xlarge", 1, 1)]);
    assert_eq!(left(&two), [("web", 1, 3)]);
    let several = capacity(&[with_values("a", &["1", "2"]), with_values("b", &["3"]), web(3)]).floor;
    assert_eq!(nodes(&several), [("b", "m5.xlarge", 1, 1), ("a", "m5.xlarge", 2, 2)]);
    // A node with two values keeps the second pod off both, until it is there and has one of them.
    let first = capacity(&[with_values("b", &["1", "2"]), with_values("a", &["3"]), web(2)]).floor;
    assert_eq!(nodes(&first), [("b", "m5.xlarge", 1, 1), ("a", "m5.xlarge", 1, 1)]);
    // A pool that leaves the value open has those that others list.
    let mut open = pool("z", &["m5.xlarge"], json!({}));
    let requirements = open["spec"]["template"]["spec"]["requirements"].as_array_mut().expect("a list");
    requirements.push(json!({"key": "team/rack", "operator": "Exists"}));
    let shared = capacity(&[open, with_values("a", &["1", "2"]), web(3)]).floor;
    assert_eq!((nodes(&shared), left(&shared)), (vec![("z", "m5.xlarge", 2, 2)], vec![("web", 1, 3)]));
    // A preference is given up once no pool has a free value: a node with two keeps both to itself.
    let mut soft = web(3);
    let rules = &mut soft["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"];
    let term = rules["requiredDuringSchedulingIgnoredDuringExecution"][0].clone();
    *rules =
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]});
    let soft = capacity(&[with_values("a", &["1", "2"]), with_values("b", &["3"]), soft]).floor;
    assert_eq!(nodes(&soft), [("b", "m5.xlarge", 1, 2), ("a", "m5.xlarge", 1, 1)]);
    assert!(soft.notes.is_empty() && soft.misfits.is_empty());
}

/// A class whose subnets are in these zones.
fn class_in(zones: &[&str]) -> Value {
    let mut class = class();
    let subnets: Vec<Value> = zones.iter().map(|zone| json!({"id": "subnet-1", "zone": zone})).collect();
    class["metadata"]["name"] = json!("zoned");
    class["status"] = json!({"subnets": subnets});
    class
}

const ZONE: &str = "topology.kubernetes.io/zone";

/// The same pods with required affinity, or anti-affinity, to pods in the same zone.
fn tied(mut workload: Value, kind: &str, app: &str) -> Value {
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}});
    let rules = &mut workload["spec"]["template"]["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
    match rules {
        Value::Array(all) => all.push(term),
        other => *other = json!([term]),
    }
    workload
}

fn in_zone(workload: Value, zone: &str) -> Value {
    with(workload, "nodeSelector", json!({ZONE: zone}))
}

#[test]
fn zones_that_pods_share_decide_about_nodes() {
    let zones = class_in(&["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    let mut pool = pool("a", &["m5.large"], json!({}));
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("zoned");
    let web = |replicas| deployment("web", replicas, "cpu", "500m");
    let cache = |replicas| deployment("cache", replicas, "cpu", "500m");
    let load = |workloads: &[Value]| {
        let mut objects = vec![zones.clone(), pool.clone()];
        objects.extend(workloads.iter().cloned());
        capacity(&objects).floor
    };
    // Three pods fit a node, and with spread each zone has two.
    let even = |more| with(web(6), "topologySpreadConstraints", spread(ZONE, more));
    let spread_evenly = load(&[even(json!({}))]);
    assert_eq!((nodes(&spread_evenly), left(&spread_evenly)), (vec![("a", "m5.large", 3, 6)], vec![]));
    // With more zones wanted than there are, each takes one pod.
    assert_eq!(left(&load(&[even(json!({"minDomains": 4}))])), [("web", 3, 6)]);
    // Pods that wait for each other wait for ever; one that also joins its own kind begins.
    let mutual = [tied(web(2), "podAffinity", "cache"), tied(cache(2), "podAffinity", "web")];
    assert_eq!(left(&load(&mutual)), [("cache", 2, 2), ("web", 2, 2)]);
    let begun = [mutual[0].clone(), tied(cache(2), "podAffinity", "cache")];
    assert_eq!(left(&load(&begun)), []);
    // What pins one of them pins the other.
    let cache_in_b = in_zone(cache(1), "eu-west-1b");
    let fits = [tied(web(2), "podAffinity", "cache"), cache_in_b.clone()];
    assert_eq!((nodes(&load(&fits)), left(&load(&fits))), (vec![("a", "m5.large", 1, 3)], vec![]));
    let torn = [in_zone(fits[0].clone(), "eu-west-1a"), cache_in_b.clone()];
    assert_eq!(left(&load(&torn)), [("web", 2, 2)]);
    // Pods keep others out of their zone, whatever rules these have.
    let apart = [tied(in_zone(web(1), "eu-west-1b"), "podAntiAffinity", "cache"), cache_in_b];
    assert_eq!(load(&apart).misfits.len(), 1);
}

/// Pods that no pool takes count as well: the domains of their rules are those of pools whose taints they tolerate.
#[test]
fn pods_without_a_node_keep_others_off() {
    let mut tainted = pool("a", &["m5.large"], json!({}));
    tainted["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("zoned");
    tainted["spec"]["template"]["spec"]["taints"] = json!([{"key": "team", "effect": "NoSchedule"}]);
    let cache = with(deployment("cache", 2, "cpu", "500m"), "tolerations", json!([{"operator": "Exists"}]));
    let web = deployment("web", 1, "cpu", "500m");
    let load = |web: &Value| {
        capacity(&[class_in(&["eu-west-1a"]), tainted.clone(), cache.clone(), web.clone()]).floor
    };
    assert_eq!(left(&load(&web)), [("web", 1, 1)]);
    assert_eq!(left(&load(&tied(web.clone(), "podAntiAffinity", "cache"))), [("web", 1, 1), ("cache", 2, 2)]);
    // The same with affinity keeps nobody off.
    assert_eq!(left(&load(&tied(web, "podAffinity", "cache"))), [("web", 1, 1)]);
}

/// Pods that are relaxed still join those that were placed before.
#[test]
fn relaxed_pods_join_those_that_are_there() {
    let mut pool = pool("a", &["m5.large", "m5.4xlarge"], json!({}));
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("zoned");
    let terms = json!([
        {"matchExpressions": [{"key": "example.com/tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]}]},
    ]);
    let mut web = tied(deployment("web", 1, "cpu", "500m"), "podAffinity", "cache");
    web["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let cache = in_zone(deployment("cache", 1, "cpu", "1"), "eu-west-1b");
    let load = capacity(&[class_in(&["eu-west-1a", "eu-west-1b"]), pool, cache, web]).floor;
    assert_eq!((nodes(&load), left(&load)), (vec![("a", "m5.large", 1, 2)], vec![]));
}

/// A node of a reservation takes only pods that fit on its type, and what the reservation has left is not known.
#[test]
fn reservations_leave_the_number_of_nodes_open() {
    let mut reserving = class();
    reserving["metadata"]["name"] = json!("held");
    reserving["spec"]["capacityReservationSelectorTerms"] = json!([{"tags": {"use": "web"}}]);
    let mut pool = pool("a", &["m5.large"], json!({}));
    pool["spec"]["template"]["spec"]["requirements"][1]["values"] = json!(["on-demand", "reserved"]);
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("held");
    let load = |replicas| {
        capacity(&[reserving.clone(), pool.clone(), deployment("web", replicas, "cpu", "500m")]).floor
    };
    let several = load(4);
    assert_eq!((several.verdict, several.pods), (FitVerdict::Fits, 4));
    assert_eq!(uncertainty_code(&several.notes[0].1[0]), "capacity-reservations");
    assert!(load(1).notes.is_empty());
}

/// What Kueue adds to pods is not known without their queue: they count as they are written, unless they fit nowhere.
#[test]
fn pods_of_a_queue_that_is_not_there_count_as_they_are_written() {
    let tainted = || {
        let mut pool = pool("a", &["m5.large"], json!({}));
        pool["spec"]["template"]["spec"]["taints"] = json!([{"key": "team", "effect": "NoSchedule"}]);
        pool
    };
    let queued = |mut workload: Value| {
        workload["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "lab"});
        workload
    };
    let web = || deployment("web", 2, "cpu", "500m");
    let tolerant = with(web(), "tolerations", json!([{"key": "team", "operator": "Exists"}]));
    assert_eq!(capacity(&[tainted(), queued(tolerant)]).floor.verdict, FitVerdict::Fits);
    let unknown = capacity(&[tainted(), queued(web())]).floor;
    let codes: Vec<&str> = unknown.unknown[0].2.iter().map(uncertainty_code).collect();
    assert_eq!((unknown.verdict, codes), (FitVerdict::Unknown, vec!["queue-flavor"]));
    assert_eq!(capacity(&[tainted(), web()]).floor.verdict, FitVerdict::DoesNotFit);
}
