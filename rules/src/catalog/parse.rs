//! Parses `instances.csv`.
//!
//! The file is compiled in and covered by tests, so a malformed cell is a bug of the generator: it is read as 0
//! instead of stopping the program, and the tests compare the whole table with the expected one.

use super::InstanceType;

/// The columns, as in the header of the file. The first [`LABEL_COLUMNS`] are kept as text: they are label values.
pub(super) const COLUMNS: [&str; 32] = [
    "instance_type",
    "arch",
    "vcpu",
    "memory_mib",
    "cpu_manufacturer",
    "clock_mhz",
    "hypervisor",
    "encryption",
    "local_nvme_gb",
    "instance_store_gb",
    "ebs_mbps",
    "network_mbps",
    "gpu_name",
    "gpu_manufacturer",
    "gpu_count",
    "gpu_memory_mib",
    "accelerator_name",
    "accelerator_manufacturer",
    "accelerator_count",
    "nvidia_gpu",
    "amd_gpu",
    "neuron",
    "neuroncore",
    "gaudi",
    "efa",
    "enis",
    "ipv4_per_eni",
    "pod_eni",
    "spot",
    "regions",
    "network_cards",
    "features",
];

/// Number of columns with label values.
pub(super) const LABEL_COLUMNS: usize = 19;

/// The parsed file.
pub(super) struct Catalogue {
    pub(super) types: Vec<InstanceType>,
    pub(super) regions: Vec<&'static str>,
    pub(super) date: &'static str,
}

/// Parses the file: comment lines, a header, one line per type without quotes.
pub(super) fn catalogue(text: &'static str) -> Catalogue {
    let comment = |name: &str| text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(name));
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    Catalogue {
        types: rows.zip(0..).map(|(line, row)| instance(line, row)).collect(),
        regions: comment("regions ").map(|line| line.split(' ').collect()).unwrap_or_default(),
        date: comment("Date: ").unwrap_or_default(),
    }
}

/// Whether a type is one of the families t.
fn is_burstable(name: &str) -> bool {
    name.strip_prefix('t').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn instance(line: &'static str, row: u16) -> InstanceType {
    let mut cells = [""; COLUMNS.len()];
    // Cells are too short for a word-wise search to be faster.
    let mut rest = line;
    for cell in &mut cells {
        let end = rest.bytes().position(|byte| byte == b',').unwrap_or(rest.len());
        *cell = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    let number = |column: usize| cells[column].parse().unwrap_or(0);
    let mut labels = [""; LABEL_COLUMNS];
    labels.copy_from_slice(&cells[..LABEL_COLUMNS]);
    InstanceType {
        name: cells[0],
        arch: cells[1],
        vcpu: number(2),
        memory_mib: number(3),
        instance_store_gb: number(9),
        gpu_memory_mib: number(15),
        nvidia_gpu: number(19),
        amd_gpu: number(20),
        neuron: number(21),
        neuroncore: number(22),
        gaudi: number(23),
        efa: number(24),
        enis: number(25),
        ipv4_per_eni: number(26),
        // The user guide of EKS (security groups for pods): no type of the families t has any.
        pod_eni: (cells[27] != "?" || is_burstable(cells[0])).then(|| number(27)),
        spot: cells[28] == "1",
        regions: u64::from_str_radix(cells[29], 16).unwrap_or(0),
        cards: cells[30],
        features: cells[31],
        row,
        cells: labels,
    }
}
