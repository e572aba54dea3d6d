//! The cases of the scheduling facts, and speed.

use super::super::requirement::Operator;
use super::super::requirement::Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
use super::*;
use crate::catalog::{INSTANCE_FAMILY as FAMILY, INSTANCE_TYPE as IT, OS, find};

const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const ARCH: &str = "kubernetes.io/arch";
const ZONE: &str = "topology.kubernetes.io/zone";
const GPU: &str = "nvidia.com/gpu";
const MI: i128 = (1 << 20) * 1000;

type Spec<'a> = (&'a str, Operator, &'a [&'a str]);

fn spec((key, op, values): Spec) -> RequirementSpec {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    RequirementSpec { key: key.to_owned(), op, values, min_values: None }
}

fn specs(list: &[Spec]) -> Vec<RequirementSpec> {
    list.iter().copied().map(spec).collect()
}

fn pool(name: &str, requirements: &[Spec]) -> Pool {
    let node_class = NodeClassRef {
        group: "karpenter.k8s.aws".into(),
        kind: "EC2NodeClass".into(),
        name: "default".into(),
    };
    let class = Some(NodeClass::default());
    Pool { name: name.into(), requirements: specs(requirements), node_class, class, ..Pool::default() }
}

fn types(names: &[&str]) -> Pool {
    pool("p", &[(IT, In, names)])
}

fn weighted(weight: i64, mut pool: Pool) -> Pool {
    pool.weight = Some(weight);
    pool
}

fn limited(mut pool: Pool, key: &str, amount: i128) -> Pool {
    pool.limits.push((key.into(), amount));
    pool
}

fn with_class(mut pool: Pool, class: NodeClass) -> Pool {
    pool.class = Some(class);
    pool
}

fn min_values(mut pool: Pool, count: u32) -> Pool {
    pool.requirements[0].min_values = Some(count);
    pool
}

fn tainted(mut pool: Pool, key: &str, effect: &str) -> Pool {
    pool.taints.push(Taint { key: key.into(), value: String::new(), effect: effect.into() });
    pool
}

fn pod() -> Pod {
    asking(&[("cpu", 100)])
}

fn asking(requests: &[(&str, i128)]) -> Pod {
    Pod { containers: vec![container(requests)], ..Pod::default() }
}

fn container(requests: &[(&str, i128)]) -> Container {
    Container { requests: amounts(requests), ..Container::default() }
}

fn amounts(list: &[(&str, i128)]) -> ResourceList {
    list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

fn term(list: &[Spec]) -> Term {
    Term { expressions: specs(list), ..Term::default() }
}

impl Pod {
    fn select(mut self, key: &str, value: &str) -> Self {
        self.node_selector.push((key.into(), value.into()));
        self
    }

    fn or(mut self, list: &[Spec]) -> Self {
        self.terms.push(term(list));
        self
    }

    fn prefer(mut self, weight: i64, list: &[Spec]) -> Self {
        self.preferences.push(Preference { weight, term: term(list) });
        self
    }

    fn tolerating(mut self) -> Self {
        self.tolerations.push(Toleration { operator: "Exists".into(), ..Toleration::default() });
        self
    }

    fn port(mut self, port: u32, protocol: &str) -> Self {
        self.containers[0].host_ports.push(HostPort { port, protocol: protocol.into(), ip: String::new() });
        self
    }
}

fn ds(pod: Pod) -> DaemonSet {
    DaemonSet { name: "ds".into(), pod }
}

fn verdict(pod: &Pod, pools: &[Pool], sets: &[DaemonSet]) -> Verdict {
    Scheduler::new(pools, sets, &SchedulerOptions::default()).decide(pod)
}

/// The first pool's name and the types.
#[track_caller]
fn fitting(pod: &Pod, pools: &[Pool], sets: &[DaemonSet]) -> (String, Vec<&'static str>) {
    match verdict(pod, pools, sets) {
        Verdict::Fits { pool, types, .. } => (pools[pool].name.clone(), types.names().collect()),
        other => panic!("should fit: {other:?}"),
    }
}

#[track_caller]
fn first(pod: &Pod, pools: &[Pool]) -> String {
    fitting(pod, pools, &[]).0
}

#[track_caller]
fn fit(pod: &Pod, pool: Pool) -> Vec<&'static str> {
    fitting(pod, &[pool], &[]).1
}

#[track_caller]
fn unschedulable(pod: &Pod, pools: &[Pool], sets: &[DaemonSet]) -> Unschedulable {
    match verdict(pod, pools, sets) {
        Verdict::DoesNotFit(unschedulable) => *unschedulable,
        other => panic!("should not fit: {other:?}"),
    }
}

#[track_caller]
fn no(pod: &Pod, pool: Pool) -> Unschedulable {
    unschedulable(pod, &[pool], &[])
}

fn families(names: &[&'static str]) -> std::collections::BTreeSet<&'static str> {
    names.iter().filter_map(|name| find(name)).map(|t| t.family()).collect()
}

#[test]
fn rows_1_to_10_order_and_relaxation() {
    let pools = [
        weighted(50, pool("north", &[(FAMILY, In, &["c6i"])])),
        weighted(5, pool("south", &[(FAMILY, In, &["c7i"])])),
    ];
    assert_eq!(first(&pod().or(&[(FAMILY, In, &["c7i"])]).or(&[(FAMILY, In, &["c6i"])]), &pools), "south");

    let c6i = || pool("p", &[(FAMILY, In, &["c6i"])]);
    let r5: &[Spec] = &[(FAMILY, In, &["r5"])];
    let (a, b): (&[Spec], &[Spec]) = (&[(FAMILY, In, &["c6i"])], &[(FAMILY, In, &["d2"])]);
    no(&pod().or(a).or(b).prefer(1, r5), c6i());
    fit(&pod().or(b).or(a).prefer(1, r5), c6i());
    fit(&pod().or(a).or(b), c6i());

    let pools = [weighted(50, pool("north", a)), pool("south", &[(FAMILY, In, &["m7i"])])];
    assert_eq!(first(&pod().prefer(1, &[(FAMILY, In, &["m7i"])]), &pools), "south");
    let pools = [
        weighted(50, pool("north", &[(FAMILY, In, &["c6i"]), (ARCH, In, &["amd64"])])),
        pool("south", &[(FAMILY, In, &["m7i"]), (ARCH, In, &["amd64"])]),
    ];
    let two = pod().prefer(20, &[(FAMILY, In, &["m7i"])]).prefer(80, &[(ARCH, In, &["amd64"])]);
    assert_eq!(first(&two, &pools), "north");

    let north = || tainted(weighted(90, pool("north", a)), "x", "PreferNoSchedule");
    assert_eq!(first(&pod(), &[north(), pool("south", a)]), "south");
    assert_eq!(first(&pod().prefer(1, &[(IT, In, &["m7i.large"])]), &[north()]), "north");
    assert_eq!(first(&pod(), &[weighted(10, pool("aa", a)), weighted(10, pool("zz", a))]), "zz");
    assert_eq!(first(&pod(), &[weighted(1, pool("aa", a)), pool("zz", a)]), "aa");
}

#[test]
fn rows_11_to_17_contradictions_and_exclusions() {
    let name = "karpenter.k8s.aws/instance-accelerator-name";
    let accelerators = || pool("p", &[(name, In, &["inferentia2"]), (name, In, &["trainium"])]);
    let left = fit(&pod(), accelerators());
    assert!(left.contains(&"m5.large") && !left.iter().any(|t| t.starts_with("trn") || t.starts_with("inf")));
    // The catalogue does not know the accelerator's name of each Neuron type.
    let neuron = verdict(&asking(&[("aws.amazon.com/neuron", 1000)]), &[accelerators()], &[]);
    assert!(matches!(neuron, Verdict::Unknown { .. }), "{neuron:?}");

    let torn = pod().select(GPU_NAME, "a100").or(&[(GPU_NAME, In, &["h100"])]);
    fit(&torn, pool("p", &[]));
    no(&torn, pool("p", &[(GPU_NAME, In, &["a100", "h100"])]));

    let left = fit(&pod(), pool("p", &[(GPU_COUNT, Gt, &["0"]), (GPU_COUNT, NotIn, &["4"])]));
    assert!(left.contains(&"m5.large") && left.contains(&"g5.xlarge") && !left.contains(&"g5.12xlarge"));
    let left = fit(&pod().or(&[(GPU_COUNT, NotIn, &["4"])]), pool("p", &[(GPU_COUNT, Gt, &["0"])]));
    assert!(left.contains(&"g5.xlarge") && !left.contains(&"m5.large") && !left.contains(&"g5.12xlarge"));
    let left = fit(&pod(), pool("p", &[(GPU_COUNT, Gt, &["4"]), (GPU_COUNT, NotIn, &["1"])]));
    assert!(
        left.contains(&"p5.48xlarge") && left.iter().all(|t| find(t).is_some_and(|t| t.is_accelerated()))
    );
}

#[test]
fn rows_18_to_24_daemonsets() {
    let cpu = asking(&[("cpu", 1000)]);
    let heavy = || asking(&[("cpu", 1200)]);
    let amd = ds(heavy().select(ARCH, "amd64"));
    assert_eq!(fitting(&cpu, &[types(&["c5.large", "c6g.large"])], &[amd]).1, ["c6g.large"]);
    let c5 = || types(&["c5.large"]);
    unschedulable(&cpu.clone().select(ZONE, "a"), &[c5()], &[ds(heavy().select(ZONE, "b"))]);

    let three =
        NodeClass { kubelet: Kubelet { max_pods: Some(3), ..Kubelet::default() }, ..NodeClass::default() };
    let small = || ds(asking(&[]).tolerating());
    unschedulable(&pod(), &[with_class(pool("p", &[]), three.clone())], &[small(), small(), small()]);
    let gpu = ds(asking(&[]).tolerating().select("tier", "gpu"));
    fitting(&pod(), &[with_class(pool("p", &[]), three)], &[small(), small(), gpu]);

    let limits = Container { limits: amounts(&[("cpu", 1200)]), ..Container::default() };
    unschedulable(&cpu, &[c5()], &[ds(Pod { containers: vec![limits], ..Pod::default() })]);
    unschedulable(&cpu, &[c5()], &[ds(heavy().select("karpenter.sh/registered", "true"))]);
    fitting(&cpu.clone().tolerating(), &[tainted(c5(), "x", "NoSchedule")], &[ds(heavy())]);
}

#[test]
fn before_1_14_a_daemonset_counts_for_all_types_of_a_pool() {
    let windows = ds(asking(&[("vpc.amazonaws.com/PrivateIPv4Address", 1000)]).select(OS, "windows"));
    let older = SchedulerOptions { daemonsets_on_all_types: true, ..SchedulerOptions::default() };
    let verdict = |requirements: &[Spec], options: &SchedulerOptions| {
        Scheduler::new(&[pool("p", requirements)], std::slice::from_ref(&windows), options).decide(&pod())
    };
    assert!(matches!(verdict(&[], &older), Verdict::DoesNotFit(_)));
    for (requirements, options) in
        [(&[][..], &SchedulerOptions::default()), (&[(OS, In, &["linux"][..])][..], &older)]
    {
        assert!(matches!(verdict(requirements, options), Verdict::Fits { .. }));
    }
}

#[test]
fn rows_25_to_28_limits_and_ports() {
    fit(&pod(), limited(types(&["c5.large"]), "memory", 3788 * MI));
    let step = no(&pod(), limited(types(&["c5.large"]), "memory", 3787 * MI)).pools;
    assert_eq!(step, [(0, RejectionStage::Limits(vec!["memory".into()]))]);
    assert_eq!(no(&pod(), limited(pool("p", &[]), "nodes", 0)).pools, [(0, RejectionStage::NodesLimit)]);
    fit(&pod(), limited(pool("p", &[]), "nodes", 2000));
    fit(&pod(), limited(pool("p", &[]), "gpu", 0));
    no(&pod(), limited(pool("p", &[]), "gpu", -1000));
    let efa = limited(types(&["g6.12xlarge", "g6.2xlarge"]), "vpc.amazonaws.com/efa", 0);
    assert_eq!(fit(&asking(&[(GPU, 1000)]), efa), ["g6.2xlarge"]);
    let sets = [ds(pod().port(8443, ""))];
    assert_eq!(
        unschedulable(&pod().port(8443, "TCP"), &[pool("p", &[])], &sets).pools,
        [(0, RejectionStage::HostPort)]
    );
    fitting(&pod().port(8443, "UDP"), &[pool("p", &[])], &sets);
}

fn device(name: &str, size: i128) -> BlockDevice {
    BlockDevice {
        device_name: Some(name.into()),
        ebs: true,
        volume_size: Some(size),
        ..BlockDevice::default()
    }
}

#[test]
fn rows_29_to_34_disks_and_kubelet() {
    let gi = 1024 * MI;
    let disk = |bytes: i128| asking(&[("ephemeral-storage", bytes)]);
    let class = |block_devices: Vec<BlockDevice>| NodeClass { block_devices, ..NodeClass::default() };
    let fifty = || with_class(types(&["m5.large"]), class(vec![device("/dev/xvda", 50 * gi)]));
    fit(&disk(44 * gi), fifty());
    no(&disk(44 * gi + 1000), fifty());
    let bottlerocket =
        NodeClass { ami_family: AmiFamily::Bottlerocket, ..class(vec![device("/dev/xvda", 100 * gi)]) };
    no(&disk(18 * gi), with_class(types(&["m5.large"]), bottlerocket.clone()));
    fit(&disk(17 * gi), with_class(types(&["m5.large"]), bottlerocket));
    let raid = NodeClass { instance_store_raid0: true, ..NodeClass::default() };
    fit(&disk(2048 * gi), with_class(types(&["d2.xlarge"]), raid.clone()));
    let g5 = find("g5.xlarge").expect("known");
    assert_eq!(
        allocatable(g5, Some(&raid), &SchedulerOptions::default()).ephemeral_storage,
        223_926_258_176_000
    );

    let many = |ami_family| NodeClass {
        ami_family,
        kubelet: Kubelet { max_pods: Some(200), ..Kubelet::default() },
        ..NodeClass::default()
    };
    let memory = |mib: i128| asking(&[("memory", mib * MI)]);
    let m5 = |family| with_class(types(&["m5.xlarge"]), many(family));
    fit(&memory(12600), m5(AmiFamily::Bottlerocket));
    assert!(no(&memory(12601), m5(AmiFamily::Bottlerocket)).within_memory_estimate);
    fit(&memory(14162), m5(AmiFamily::Al2023));
    assert!(!no(&memory(16384), m5(AmiFamily::Al2023)).within_memory_estimate);

    let kubelet = Kubelet { system_reserved: vec![("memory".into(), 16 * gi)], ..Kubelet::default() };
    let step =
        no(&pod(), with_class(types(&["m5.large"]), NodeClass { kubelet, ..NodeClass::default() })).pools;
    assert!(matches!(&step[0].1, RejectionStage::NoTypes(Some(Conflict { cause: Cause::Negative, .. }))));
    let eviction_hard = vec![("memory.available".into(), EvictionThreshold::Percent(5000))];
    let evict =
        NodeClass { kubelet: Kubelet { eviction_hard, ..Kubelet::default() }, ..NodeClass::default() };
    fit(&asking(&[("memory", 6_945_924_710_000)]), with_class(types(&["m5.large"]), evict.clone()));
    no(&asking(&[("memory", 6_945_924_711_000)]), with_class(types(&["m5.large"]), evict));
}

#[test]
fn rows_35_and_36_what_a_pod_needs() {
    let mut init = asking(&[("cpu", 1500)]);
    init.init_containers.push(container(&[("cpu", 1900)]));
    fit(&init, types(&["c5.large"]));
    init.init_containers[0] = Container { sidecar: true, ..container(&[("cpu", 500)]) };
    no(&init, types(&["c5.large"]));
    let level = Pod { requests: amounts(&[("cpu", 3000)]), ..asking(&[("cpu", 500)]) };
    assert_eq!(no(&level, types(&["m5.large"])).pools, [(0, RejectionStage::Resources(vec!["cpu".into()]))]);
}

#[test]
fn rows_37_to_43_offerings_and_min_values() {
    let c5 = || pool("p", &[(FAMILY, In, &["c5"])]);
    fit(&pod().select("karpenter.k8s.aws/placement-group-id", "x"), c5());
    no(&pod().select("karpenter.k8s.aws/capacity-reservation-id", "y"), c5());
    let reserved = pool("p", &[(CAPACITY, In, &["reserved"])]);
    assert_eq!(
        admitted_types(&reserved).conflict.map(|c| (c.key, c.cause)),
        Some((CAPACITY.into(), Cause::Alone))
    );
    no(&pod(), reserved);

    let a1 = |ami_family| {
        with_class(pool("p", &[(FAMILY, In, &["a1"])]), NodeClass { ami_family, ..NodeClass::default() })
    };
    assert_eq!(admitted_types(&a1(AmiFamily::Al2023)).conflict.map(|c| c.cause), Some(Cause::Class));
    no(&pod(), a1(AmiFamily::Al2023));
    fit(&pod(), a1(AmiFamily::Bottlerocket));

    let two = min_values(pool("p", &[(FAMILY, In, &["c5", "m5"])]), 2);
    fit(&pod(), two.clone());
    let step = no(&pod().select(FAMILY, "c5"), two).pools;
    assert_eq!(step, [(0, RejectionStage::MinValues { key: FAMILY.into(), wanted: 2, found: 1 })]);
    let spot = min_values(pool("p", &[(CAPACITY, Exists, &[]), (FAMILY, In, &["c5"])]), 2);
    fit(&pod(), spot.clone());
    no(&pod().select(CAPACITY, "on-demand"), spot);
    no(&pod(), min_values(pool("p", &[("team", Exists, &[])]), 1));
    let limits = limited(min_values(types(&["c5.large", "c5.24xlarge"]), 2), "cpu", 16_000);
    no(&pod(), limits);
}

#[test]
fn rows_44_to_49_labels_and_keys() {
    let tier = |label: (&str, &str), requirements: &[Spec]| {
        let mut pool = pool("p", requirements);
        pool.labels.push((label.0.into(), label.1.into()));
        pool
    };
    let gpu = || tier(("mycorp/tier", "gpu"), &[]);
    fit(&pod().or(&[("mycorp/tier", In, &["gpu"])]), gpu());
    no(&pod().or(&[("mycorp/tier", In, &["cpu"])]), gpu());
    no(&pod().or(&[("mycorp/tier", NotIn, &["gpu"])]), gpu());
    assert!(
        matches!(&no(&pod().or(&[("other", In, &["x"])]), gpu()).pools[0].1, RejectionStage::Label(clash) if clash.ours.is_none())
    );
    fit(&pod().or(&[("other", NotIn, &["x"])]), gpu());
    let narrowed = fit(&pod(), tier((FAMILY, "c6i"), &[(FAMILY, In, &["c6i", "c7i"])]));
    assert_eq!(families(&narrowed), ["c6i"].into());

    let team: &[Spec] = &[("karpenter.sh/team", In, &["a"])];
    let ignored = no(&pod().or(&[(ARCH, In, &["amd64"])]).or(team), pool("p", &[])).ignored;
    assert_eq!(ignored, Some(IgnoreReason::RestrictedKey("karpenter.sh/team".into())));
    fit(&pod().prefer(1, team), pool("p", &[]));
    let nodepool: &[Spec] = &[("karpenter.sh/nodepool", DoesNotExist, &[])];
    assert_eq!(no(&pod().prefer(1, nodepool), pool("p", &[])).ignored, Some(IgnoreReason::NoNodePool));
    let hash: &[Spec] = &[("karpenter.sh/nodepool-hash", DoesNotExist, &[])];
    let refused = Some(IgnoreReason::RefusedPreference("karpenter.sh/nodepool-hash".into()));
    assert_eq!(no(&pod().prefer(1, hash), pool("p", &[])).ignored, refused);
    let initialized: &[Spec] = &[("karpenter.sh/initialized", DoesNotExist, &[])];
    fit(&pod().prefer(1, initialized), pool("p", &[]));
    let older = SchedulerOptions { simulates_lifecycle: false, ..SchedulerOptions::default() };
    let verdict = Scheduler::new(&[pool("p", &[])], &[], &older).decide(&pod().prefer(1, initialized));
    assert!(matches!(verdict, Verdict::DoesNotFit(_)));
    fit(&pod().prefer(1, nodepool).prefer(9, &[(ARCH, In, &["amd64"])]), pool("p", &[]));
    no(&pod().select("beta.kubernetes.io/arch", "arm64"), pool("p", &[(ARCH, In, &["amd64"])]));
    no(&pod().select(ARCH, "ARM64"), pool("p", &[]));
    no(&pod().or(&[("karpenter.k8s.aws/instance-category", Lt, &["9"])]), pool("p", &[]));
}

#[test]
fn rows_50_to_52_gpus_claims_and_taints() {
    let left = families(&fit(&pod(), pool("p", &[(GPU_NAME, In, &["l4"])])));
    assert!(left.contains("g6f") && left.contains("gr6f") && left.contains("g6"));
    let claims = Pod { resource_claims: true, ..pod() };
    assert_eq!(no(&claims, pool("p", &[])).ignored, Some(IgnoreReason::ResourceClaims));
    no(&pod(), Pool { replicas: Some(3), ..pool("p", &[]) });
    let gpu = asking(&[(GPU, 1000)]);
    fit(&gpu, tainted(pool("p", &[]), GPU, "NoSchedule"));
    no(&gpu, tainted(pool("p", &[]), GPU, "NoExecute"));
    let bare = SchedulerOptions { eks: false, ..SchedulerOptions::default() };
    let verdict = Scheduler::new(&[tainted(pool("p", &[]), GPU, "NoSchedule")], &[], &bare).decide(&gpu);
    assert!(matches!(verdict, Verdict::DoesNotFit(_)));
}

#[test]
fn numbers_of_the_facts() {
    let settings = SchedulerOptions::default();
    let of =
        |name: &str, class: Option<&NodeClass>| allocatable(find(name).expect("known"), class, &settings);
    assert_eq!((of("m5.large", None).memory, of("m5.large", None).cpu), (6903 * MI, 1930));
    let kubelet = Kubelet { max_pods: Some(110), ..Kubelet::default() };
    let class = NodeClass { ami_family: AmiFamily::Bottlerocket, kubelet, ..NodeClass::default() };
    assert_eq!(of("m5.large", Some(&class)).memory, 6012 * MI);
    assert_eq!(of("m7g.large", None).memory, 6844 * MI);
    assert_eq!((of("m5.xlarge", None).memory, of("m5.xlarge", None).cpu), (14162 * MI, 3920));
    assert_eq!(of("m5.large", None).ephemeral_storage, 18_253_611_008_000);
    assert_eq!(of("t3.nano", None).pods, 4000);
}

#[test]
fn uncertainties_make_verdicts_unknown() {
    let unknown = |pod: &Pod, pool: Pool| match verdict(pod, &[pool], &[]) {
        Verdict::Unknown { uncertainties } => uncertainties,
        other => panic!("should be unknown: {other:?}"),
    };
    assert_eq!(unknown(&pod(), types(&["z99.large"])), [Uncertainty::NewTypes(vec!["z99.large".into()])]);
    assert_eq!(unknown(&pod(), types(&["p2.xlarge"])), [Uncertainty::Retired]);
    assert_eq!(
        unknown(&pod().select("topology.kubernetes.io/region", "eu-west-1"), pool("p", &[])),
        [Uncertainty::Region]
    );
    assert_eq!(
        unknown(&asking(&[("vpc.amazonaws.com/pod-eni", 1000)]), types(&["hpc6a.48xlarge"])),
        [Uncertainty::BranchInterfaces]
    );
    assert_eq!(fit(&asking(&[("vpc.amazonaws.com/pod-eni", 9000)]), types(&["m5.large"])), ["m5.large"]);
    no(&asking(&[("vpc.amazonaws.com/pod-eni", 10_000)]), types(&["m5.large"]));
    no(&asking(&[("vpc.amazonaws.com/pod-eni", 1000)]), types(&["t3.medium"]));
    let crash = vec![BlockDevice { device_name: Some("/dev/xvda".into()), ..BlockDevice::default() }];
    let class = NodeClass { block_devices: crash, ..NodeClass::default() };
    assert_eq!(unknown(&pod(), with_class(pool("p", &[]), class)), [Uncertainty::Crash("default".into())]);
    assert_eq!(unknown(&pod(), pool("p", &[("team", Lt, &["0"])])), [Uncertainty::Crash("p".into())]);
    let bare = Pool { class: None, ..types(&["m5.large"]) };
    assert_eq!(
        unknown(&asking(&[("ephemeral-storage", 40 * 1024 * MI)]), bare.clone()),
        [Uncertainty::NoClass("default".into())]
    );
    no(&asking(&[("cpu", 9000)]), bare);
    assert_eq!(
        unknown(&pod(), min_values(pool("p", &[(ARCH, Exists, &[])]), 2)),
        [Uncertainty::MinValuesCut]
    );
    let torn = ds(asking(&[("cpu", 1200)]).or(&[(ARCH, In, &["amd64"])]).or(&[(ARCH, In, &["arm64"])]));
    let verdict = verdict(&asking(&[("cpu", 1000)]), &[types(&["c5.large"])], &[torn]);
    assert_eq!(verdict, Verdict::Unknown { uncertainties: vec![Uncertainty::DaemonSetTerms("ds".into())] });
}

#[test]
fn the_smallest_conflict_is_found() {
    let settings = SchedulerOptions::default();
    let empty = pool("p", &[(ARCH, In, &["amd64"]), (FAMILY, In, &["g5g"]), (CAPACITY, In, &["spot"])]);
    assert_eq!(smallest_conflict(&empty, &settings), [FAMILY, ARCH]);
    assert_eq!(smallest_conflict(&pool("p", &[(GPU_NAME, In, &["A100"])]), &settings), [GPU_NAME]);
    assert!(smallest_conflict(&pool("p", &[]), &settings).is_empty());
    let memory = "karpenter.k8s.aws/instance-memory";
    let three = pool(
        "p",
        &[(FAMILY, In, &["m5"]), (memory, Gt, &["300000"]), ("karpenter.k8s.aws/instance-cpu", Lt, &["90"])],
    );
    assert_eq!(smallest_conflict(&three, &settings).len(), 3);
}

/// Results do not depend on the name of a pool: pools with the same requirements admit the same types. The
/// time is measured by `benches/engine.rs`.
#[test]
fn a_thousand_pools_of_the_same_requirements_admit_the_same_types() {
    let pools: Vec<Pool> = (0..1000)
        .map(|at| {
            let name = format!("pool-{at}");
            let cpu = "karpenter.k8s.aws/instance-cpu";
            pool(
                &name,
                &[
                    (GPU_COUNT, Gt, &["0"]),
                    (ARCH, In, &["amd64"]),
                    (cpu, Lt, &["64"]),
                    (CAPACITY, In, &["spot"]),
                ],
            )
        })
        .collect();
    let first = admitted_types(&pools[0]).types.len();
    assert!(first > 0);
    assert!(pools.iter().all(|pool| admitted_types(pool).types.len() == first));
}
