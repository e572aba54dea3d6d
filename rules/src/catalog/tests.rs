//! The catalogue compared with published facts about types.

use super::*;
use crate::facts::region;

const GPU: &str = "karpenter.k8s.aws/instance-gpu-name";

fn get(name: &str) -> &'static InstanceType {
    find(name).expect("the type is in the catalogue")
}

fn text(name: &str, key: &str) -> &'static str {
    match get(name).label(&format!("karpenter.k8s.aws/instance-{key}")) {
        Label::Is(value) => value,
        Label::Absent => "(absent)",
        Label::Unknown => "(unknown)",
        other => panic!("{key} of {name} is {other:?}"),
    }
}

#[test]
fn the_file_has_the_columns_that_the_parser_expects() {
    let head = include_str!("instances.csv").lines().find(|line| !line.starts_with('#')).expect("a head");
    assert_eq!(head.split(',').collect::<Vec<_>>(), parse::COLUMNS);
    assert!(all().len() > 1380 && all().len() <= set::CAPACITY);
    assert_eq!(regions().len(), 30);
    assert_eq!(date().len(), 10);
    assert!(all().iter().all(|t| t.vcpu > 0 && t.memory_mib > 0 && t.enis > 0 && t.ipv4_per_eni > 0));
    assert!(
        all().iter().all(|t| !t.generation().is_empty() && !t.category().is_empty() && !t.size().is_empty())
    );
    assert!(keys().is_sorted());
}

/// Figures of Karpenter's own tables. Those of EC2 differ, or are missing: `trn2.3xlarge` sums to 50 Gbps there, and
/// the default network card of `i7ie.48xlarge` has 8 interfaces of 15.
#[test]
fn network_figures_are_those_of_karpenter() {
    for (name, mbps) in [
        ("g3.4xlarge", "5000"),
        ("trn2.3xlarge", "200000"),
        ("g6e.48xlarge", "400000"),
        ("c6in.32xlarge", "200000"),
        ("p6-b200.48xlarge", "3200000"),
        ("m4.large", "(absent)"),
        ("r9g.large", "(unknown)"),
    ] {
        assert_eq!(text(name, "network-bandwidth"), mbps, "{name}");
    }
    for (name, interfaces, addresses) in
        [("i7ie.48xlarge", 15, 50), ("i8ge.metal-48xl", 24, 50), ("m5.large", 3, 10), ("g3s.xlarge", 4, 15)]
    {
        assert_eq!((get(name).enis, get(name).ipv4_per_eni), (interfaces, addresses), "{name}");
    }
    for (name, branches) in
        [("m5.large", Some(9)), ("p5.48xlarge", Some(120)), ("t3.medium", Some(0)), ("r9g.large", None)]
    {
        assert_eq!(get(name).pod_eni, branches, "{name}");
    }
}

#[test]
fn devices_of_accelerated_types() {
    for (name, gpu, count, memory, resource) in [
        ("p4d.24xlarge", "a100", "8", "40960", 8),
        ("p4de.24xlarge", "a100", "8", "81920", 8),
        ("p5.48xlarge", "h100", "8", "81920", 8),
        ("p5.4xlarge", "h100", "1", "81920", 1),
        ("p5en.48xlarge", "h200", "8", "144384", 8),
        ("p6-b200.48xlarge", "b200", "8", "183359", 8),
        ("g5.xlarge", "a10g", "1", "22888", 1),
        ("g6.12xlarge", "l4", "4", "22888", 4),
        ("g6e.xlarge", "l40s", "1", "45776", 1),
        ("g6f.large", "l4", "0", "2861", 0),
        ("gr6f.4xlarge", "l4", "0", "11444", 0),
        ("gr6.4xlarge", "l4", "1", "22888", 1),
        ("g5g.xlarge", "t4g", "1", "16384", 1),
        ("p3.2xlarge", "v100", "1", "16384", 1),
    ] {
        assert_eq!(text(name, "gpu-name"), gpu, "{name}");
        assert_eq!(text(name, "gpu-count"), count, "{name}");
        assert_eq!(text(name, "gpu-manufacturer"), "nvidia", "{name}");
        assert_eq!(get(name).devices("nvidia.com/gpu"), resource, "{name}");
        assert!(get(name).is_accelerated(), "{name}");
        assert_eq!(text(name, "gpu-memory"), memory, "{name}");
    }
    for (name, accelerator, count, cores) in [
        ("inf1.24xlarge", "inferentia", "16", 64),
        ("inf2.48xlarge", "inferentia2", "12", 24),
        ("trn1.32xlarge", "trainium", "16", 32),
        ("trn2.48xlarge", "trainium2", "16", 128),
    ] {
        assert_eq!(text(name, "accelerator-name"), accelerator, "{name}");
        assert_eq!(text(name, "accelerator-count"), count, "{name}");
        assert_eq!(text(name, "gpu-name"), "(absent)", "{name}");
        assert_eq!(get(name).devices("aws.amazon.com/neuroncore"), cores, "{name}");
        assert!(get(name).is_accelerated());
    }
    assert_eq!(text("dl2q.24xlarge", "accelerator-name"), "qualcomm-ai100");
    assert!(!get("m5.large").is_accelerated() && !get("vt1.3xlarge").is_accelerated());
    assert_eq!(get("p4d.24xlarge").devices("vpc.amazonaws.com/efa"), 4);
    assert_eq!(get("dl1.24xlarge").devices("habana.ai/gaudi"), 8);
    assert_eq!(get("g4ad.xlarge").devices("amd.com/gpu"), 1);
}

#[test]
fn names_are_cut_as_karpenter_cuts_them() {
    for (name, category, family, generation, size) in [
        ("gr6.4xlarge", "gr", "gr6", "6", "4xlarge"),
        ("g6e.xlarge", "g", "g6e", "6", "xlarge"),
        ("p6-b200.48xlarge", "p", "p6-b200", "6", "48xlarge"),
        ("u-6tb1.56xlarge", "u", "u-6tb1", "1", "56xlarge"),
        ("u7in-16tb.224xlarge", "u", "u7in-16tb", "7", "224xlarge"),
        ("c7i-flex.large", "c", "c7i-flex", "7", "large"),
        ("m5.metal", "m", "m5", "5", "metal"),
        ("im4gn.large", "im", "im4gn", "4", "large"),
    ] {
        let instance = get(name);
        let cut = (instance.category(), instance.family(), instance.generation(), instance.size());
        assert_eq!(cut, (category, family, generation, size), "{name}");
    }
    assert_eq!(text("c7i-flex.large", "capability-flex"), "true");
    assert_eq!(text("c7i.large", "capability-flex"), "false");
}

#[test]
fn labels_of_plain_types() {
    let m5 = get("m5.large");
    assert_eq!((m5.vcpu, m5.memory_mib, m5.eni_pods(0)), (2, 8192, 29));
    assert!(m5.has_ena() && !m5.has_enclaves() && !m5.nests_machines());
    assert!(get("m5.xlarge").has_enclaves() && get("c8i.large").nests_machines());
    assert!(!get("m1.small").has_ena());
    assert_eq!((m5.network_cards(), get("p5.48xlarge").network_cards()), (vec![3], vec![2; 32]));
    assert!(get("p3.2xlarge").network_cards().is_empty());
    assert_eq!(m5.capacity("memory"), (7577 << 20) * 1000);
    assert_eq!(get("m7g.large").capacity("memory"), (7518 << 20) * 1000);
    assert_eq!(get("m5.xlarge").capacity("memory"), (15155 << 20) * 1000);
    assert_eq!(get("t3.nano").eni_pods(0), 4);
    assert_eq!(text("m5.large", "hypervisor"), "nitro");
    assert_eq!(text("m5.metal", "hypervisor"), "");
    assert_eq!(text("m5.large", "local-nvme"), "(absent)");
    assert_eq!(text("d2.xlarge", "local-nvme"), "(absent)");
    assert_eq!(get("d2.xlarge").instance_store_gb, 6144);
    assert_eq!(text("g5.xlarge", "local-nvme"), "250");
    assert_eq!(text("m5.large", "encryption-in-transit-supported"), "false");
    assert_eq!(text("c5n.large", "encryption-in-transit-supported"), "true");
    assert_eq!(text("p5.48xlarge", "cpu-manufacturer"), "amd");
    assert_eq!(text("p5en.48xlarge", "cpu-manufacturer"), "intel");
    assert_eq!(text("m7g.large", "cpu-manufacturer"), "aws");
    assert_eq!(text("p3.2xlarge", "cpu-sustained-clock-speed-mhz"), "(unknown)");
    assert_eq!(text("c5.12xlarge", "cpu-sustained-clock-speed-mhz"), "3600");
    assert_eq!(text("m1.small", "cpu-sustained-clock-speed-mhz"), "0");
    assert_eq!(get("m5.large").label(ZONE), Label::Unknown);
    assert_eq!(get("m5.large").label("team"), Label::Undefined);
    assert_eq!(get("m5.large").label("karpenter.k8s.aws/placement-group-id"), Label::Undefined);
}

#[test]
fn the_whole_table_by_sums() {
    let clock = |mhz: &str| {
        index("karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz").and_then(|i| i.with(mhz).copied())
    };
    let families = |set: TypeSet| set.iter().map(|t| t.family()).collect::<BTreeSet<_>>();
    assert_eq!(families(clock("0").expect("present")), ["c1", "m1", "m2", "t1"].into());
    assert_eq!(families(clock("4000").expect("present")), ["z1d"].into());
    let gpus = values(GPU).expect("known");
    assert!(
        ["a10g", "a100", "h100", "l4", "l40s", "t4", "v100", "k80"].iter().all(|name| gpus.contains(name))
    );
    assert!(!gpus.contains("A100"));
    assert_eq!(values(ARCH).expect("known"), &BTreeSet::from(["amd64", "arm64"]));
    assert!(values(ZONE).is_none());
    let gpu = index(GPU).expect("known");
    assert_eq!(
        gpu.absent().len() + gpu.values().iter().filter_map(|v| gpu.with(v)).map(TypeSet::len).sum::<usize>(),
        all().len()
    );
}

#[test]
fn numbers_are_found_by_range() {
    let count = index("karpenter.k8s.aws/instance-gpu-count").expect("known");
    assert!(count.between(Some(1), None).iter().all(|t| t.nvidia_gpu + t.amd_gpu + t.gaudi > 0));
    assert_eq!(count.between(Some(17), None), TypeSet::EMPTY);
    assert_eq!(count.between(Some(9), Some(3)), TypeSet::EMPTY);
    assert_eq!(
        count.between(None, Some(0)).iter().map(|t| t.family()).collect::<BTreeSet<_>>(),
        ["g6f", "gr6f"].into()
    );
    assert_eq!(index("karpenter.k8s.aws/instance-size").and_then(LabelValueIndex::range), None);
}

#[test]
fn regions_are_known() {
    for name in regions() {
        assert!(region::is_name(name) && !region::OTHER_REGIONS.contains(name), "{name}");
    }
    assert_eq!(get("m5.large").offered_in("eu-west-1"), Some(true));
    assert_eq!(get("p3.2xlarge").offered_in("eu-west-1"), Some(get("p3.2xlarge").regions & (1 << 19) != 0));
    assert_eq!(get("m5.large").offered_in("mars-north-1"), None);
    assert!(get("p2.xlarge").is_retired() && !get("m5.large").is_retired());
}
