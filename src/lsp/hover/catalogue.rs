//! Instance types, described from the catalogue.

use gpulint_rules::Platform;
use gpulint_rules::catalog::{InstanceType, Label, TypeSet, cheapest_first, date};
use gpulint_rules::fit::{gpu_name, gpus_of};

use super::words::{code, dollars, more, thousands};

/// Maximum number of GPU models to name.
const MAX_MODELS: usize = 5;
/// Maximum number of types in a set for which each type is named.
const MAX_NAMED: usize = 6;

/// The properties of a type by which Karpenter and users select types.
pub(super) fn of_type(instance: &InstanceType, platform: &Platform) -> String {
    let mut out = format!("**`{}`**", instance.name);
    if let Some(gpus) = gpus(instance) {
        out.push_str(&format!(": {gpus}"));
    }
    out.push('\n');
    let memory = gib(f64::from(instance.memory_mib));
    let mut lines =
        vec![format!("{} vCPU ({}), {memory} of memory", thousands(instance.vcpu.into()), instance.arch)];
    let mut parts = Vec::new();
    match instance.efa {
        0 => {}
        1 => parts.push("1 EFA interface".to_owned()),
        many => parts.push(format!("{many} EFA interfaces")),
    }
    match (instance.instance_store_gb, instance.label("karpenter.k8s.aws/instance-local-nvme")) {
        (0, _) => parts.push("no local disks".to_owned()),
        (disk, Label::Is(_)) => {
            parts.push(format!("{} GB of local NVMe disks", thousands(disk.into())));
        }
        (disk, _) => parts.push(format!("{} GB of local disks", thousands(disk.into()))),
    }
    if let Label::Is(network) = instance.label("karpenter.k8s.aws/instance-network-bandwidth")
        && let Ok(megabits) = network.parse::<f64>()
    {
        parts.push(format!("{} Gbit/s of network", round(megabits / 1000.0)));
    }
    lines.push(parts.join(", "));
    lines.push(price(instance, platform));
    if instance.is_retired() {
        lines.push(format!("no region offered it on {}", date()));
    } else if let Some(region) = &platform.region
        && instance.offered_in(region) == Some(false)
    {
        lines.push(format!("not offered in {region}"));
    }
    for line in lines {
        out.push_str(&format!("\n- {line}"));
    }
    out
}

fn price(instance: &InstanceType, platform: &Platform) -> String {
    let spot =
        if instance.spot { "; sold as Spot too, whose price is not known" } else { "; not sold as Spot" };
    match instance.list_price(platform.region.as_deref()) {
        Some(price) => format!(
            "{} an hour on demand (list price of {} on {}){spot}",
            dollars(price.dollars()),
            price.region,
            price.date
        ),
        None => format!("no list price is known{spot}"),
    }
}

/// The GPUs of a type: `8 × h100, 80 GiB each`. `None` for a type without GPUs and accelerators.
pub(super) fn gpus(instance: &InstanceType) -> Option<String> {
    let name = gpu_name(instance)?;
    let each = f64::from(instance.gpu_memory_mib);
    // A label counts devices for which Kubernetes has no resource.
    let labelled = || match instance.label("karpenter.k8s.aws/instance-gpu-count") {
        Label::Is(count) => count.parse().unwrap_or(0),
        _ => 0,
    };
    let count = match gpus_of(instance) {
        0 => labelled(),
        count => count,
    };
    Some(match (count, each > 0.0) {
        (0, true) => format!("a share of one {name}, {}", gib(each)),
        (0, false) => format!("a share of one {name}"),
        (1, true) => format!("1 × {name}, {}", gib(each)),
        (count, true) => {
            format!("{count} × {name}, {} each ({} in all)", gib(each), gib(each * f64::from(count)))
        }
        (count, false) => format!("{count} × {name}"),
    })
}

/// MiB as GiB: `80 GiB`, `22.4 GiB`.
pub(super) fn gib(mib: f64) -> String {
    format!("{} GiB", round(mib / 1024.0))
}

/// Rounds to one decimal, or to none if the number is large.
pub(super) fn round(number: f64) -> String {
    if number >= 100.0 || (number - number.round()).abs() < 0.05 {
        format!("{:.0}", number.round())
    } else {
        format!("{number:.1}")
    }
}

/// Describes a set of types: their names if there are few, otherwise their GPUs, and their prices.
pub(super) fn of_set(types: &TypeSet, platform: &Platform) -> String {
    of_types(&cheapest_first(types.offered().iter(), platform.region.as_deref()), platform)
}

/// Describes types that are sorted by price.
pub(super) fn of_types(sorted: &[&InstanceType], platform: &Platform) -> String {
    let region = platform.region.as_deref();
    let mut parts = Vec::new();
    if sorted.len() <= MAX_NAMED {
        let names: Vec<String> = sorted.iter().map(|instance| code(instance.name)).collect();
        parts.push(names.join(", "));
    }
    parts.extend(models(sorted));
    let mut prices = sorted.iter().filter_map(|instance| instance.list_price(region));
    if let Some(least) = prices.next() {
        let most = prices.next_back().unwrap_or(least);
        parts.push(if least.micro_dollars == most.micro_dollars {
            format!("{} an hour", dollars(least.dollars()))
        } else {
            format!("{} to {} an hour", dollars(least.dollars()), dollars(most.dollars()))
        });
    }
    parts.join("; ")
}

/// The GPUs of some types: `a10g, l4 and types without GPUs`. `None` if no type has any.
fn models(types: &[&InstanceType]) -> Option<String> {
    let mut names: Vec<&str> = types.iter().filter_map(|instance| gpu_name(instance)).collect();
    let without = types.len() - names.len();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let others = names.len().saturating_sub(MAX_MODELS);
    let shown = names.iter().take(MAX_MODELS).map(|name| (*name).to_owned()).collect();
    let list = format!("GPUs: {}", more(shown, others));
    Some(if without > 0 { format!("{list} (none on {without})") } else { list })
}
