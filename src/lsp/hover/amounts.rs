//! Quantities: explains the requests of a container and the limits of a NodePool.

use gpulint_rules::catalog::{TypeSet, retired};
use gpulint_rules::facts::quantity::Quantity;
use gpulint_rules::karpenter::scheduling::Uncertainty;
use gpulint_rules::workload::gpu::is_accelerator;
use gpulint_rules::workload::template::templates;
use gpulint_rules::{Cluster, Kind, Object};

use super::catalogue::{of_set, round};
use super::pool::alone;
use super::words::{code, count, thousands};
use super::{InSet, Place, in_sets};
use crate::lsp::view::View;
use crate::report::limits_text;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let path = place.path();
    match path.as_slice() {
        [.., "resources", "limits" | "requests", resource] => {
            let is_pod = templates(place.object)
                .iter()
                .any(|template| place.steps.starts_with(template.spec.pointer().steps()));
            is_pod.then(|| of_request(view, place, resource))?
        }
        ["spec", "limits", resource] if place.object.is(Kind::NODE_POOL) => of_limit(view, place, resource),
        [.., "ebs", "volumeSize"] if place.object.is(Kind::EC2_NODE_CLASS) => {
            let bytes = read(place)?.value();
            Some(format!("{}.", bytes_in_words(bytes)))
        }
        [.., "sizeLimit"] => Some(format!("{}.", bytes_in_words(read(place)?.value()))),
        _ => None,
    }
}

fn read(place: &Place<'_>) -> Option<Quantity> {
    Quantity::decode(&place.node.string_or_number()?).ok()
}

fn of_request(view: &View<'_>, place: &Place<'_>, resource: &str) -> Option<String> {
    let quantity = read(place)?;
    if is_accelerator(resource) {
        return of_accelerators(view, place, resource, quantity);
    }
    match resource {
        "cpu" => {
            // Whole numbers need no explanation.
            let vcpu = quantity.milli() as f64 / 1000.0;
            (!quantity.is_whole()).then(|| format!("{vcpu} vCPU."))
        }
        "memory" | "ephemeral-storage" => Some(format!("{}.", bytes_in_words(quantity.value()))),
        name if name.starts_with("hugepages-") => Some(format!("{}.", bytes_in_words(quantity.value()))),
        "vpc.amazonaws.com/efa" => {
            let number = u32::try_from(quantity.value()).ok().filter(|number| *number > 0)?;
            let types = TypeSet::matching(|instance| instance.efa >= number).without(retired());
            let platform = &view.engine.settings().platform;
            let text = of_set(&types, platform);
            let noun = count(usize::try_from(number).ok()?, "EFA interface");
            Some(format!("{noun}.\n\n- {} have as many: {text}", count(types.len(), "instance type")))
        }
        _ => None,
    }
}

/// Explains the accelerators of a container: the types that have enough of them, and the total for all
/// replicas.
fn of_accelerators(view: &View<'_>, place: &Place<'_>, resource: &str, quantity: Quantity) -> Option<String> {
    let number = u32::try_from(quantity.value()).ok().filter(|_| quantity.is_whole())?;
    if number == 0 {
        return None;
    }
    let platform = &view.engine.settings().platform;
    let head = format!("{number} × {}: {}.", code(resource), what_is(resource, number)?);
    let types = TypeSet::matching(|instance| instance.devices(resource) >= number).without(retired());
    let mut lines = Vec::new();
    let devices = TypeSet::matching(|instance| instance.devices(resource) > 0);
    match (types.len(), devices.is_empty()) {
        // A slice or a share of a device; the catalogue counts only whole devices.
        (_, true) => {}
        (0, _) => lines.push("no instance type has as many".to_owned()),
        (1, _) => lines.push(format!("1 instance type has as many: {}", of_set(&types, platform))),
        (many, _) => {
            lines.push(format!("{many} instance types have as many: {}", of_set(&types, platform)));
        }
    }
    lines.extend(in_sets(view, place.object, |set| of_replicas(set, number, resource)));
    let list: Vec<String> = lines.iter().map(|line| format!("\n- {line}")).collect();
    Some(if list.is_empty() { head } else { format!("{head}\n{}", list.concat()) })
}

/// The total that all replicas request in this container.
fn of_replicas(set: &InSet<'_>, number: u32, resource: &str) -> Option<String> {
    let replicas = set.set.cluster.views().replicas(set.object)?;
    let most = i128::from(replicas.max) * i128::from(number);
    if replicas.max < 2 {
        return None;
    }
    let who = if replicas.autoscaled { "at most " } else { "" };
    Some(format!("{who}{} replicas: {most} × {}", replicas.max, code(resource)))
}

/// The description of a device. `None` for unknown devices.
fn what_is(resource: &str, number: u32) -> Option<String> {
    let plural = |one: &str, many: &str| if number == 1 { one.to_owned() } else { many.to_owned() };
    if let Some(profile) = resource.strip_prefix("nvidia.com/mig-") {
        let (slices, memory) = profile.split_once('.')?;
        let slices = slices.strip_suffix('g')?.parse::<u32>().ok()?;
        let memory = memory.split(['.', '+']).next()?.strip_suffix("gb")?.parse::<u32>().ok()?;
        return Some(format!(
            "{} of a MIG GPU, {slices} of 7 compute slices and {memory} GB of memory each",
            plural("an instance", "instances")
        ));
    }
    Some(match resource {
        "nvidia.com/gpu" => plural(
            "an NVIDIA GPU, whole unless the device plugin shares it",
            "NVIDIA GPUs of one node, whole unless the device plugin shares them",
        ),
        "nvidia.com/gpu.shared" => plural("a share of an NVIDIA GPU", "shares of NVIDIA GPUs"),
        "amd.com/gpu" => plural("an AMD GPU", "AMD GPUs of one node"),
        "aws.amazon.com/neuron" => {
            plural("an Inferentia or Trainium device", "Inferentia or Trainium devices of one node")
        }
        "aws.amazon.com/neuroncore" => plural(
            "a core of an Inferentia or Trainium device",
            "cores of Inferentia or Trainium devices of one node",
        ),
        "habana.ai/gaudi" => plural("a Gaudi accelerator", "Gaudi accelerators of one node"),
        _ => return None,
    })
}

/// Explains a limit of a NodePool, and what all limits allow together.
fn of_limit(view: &View<'_>, place: &Place<'_>, resource: &str) -> Option<String> {
    let quantity = read(place)?;
    let amount = match resource {
        "memory" | "ephemeral-storage" => bytes_in_words(quantity.value()),
        "cpu" => format!("{} vCPU", thousands(u128::try_from(quantity.value()).ok()?)),
        "nodes" => count(usize::try_from(quantity.value()).ok()?, "node"),
        _ => format!("{} × {}", quantity.value(), code(resource)),
    };
    let head = format!("Karpenter starts no node that would bring this NodePool above {amount}.");
    let all = in_sets(view, place.object, |set| of_limits(set.set.cluster, set));
    Some(all.map_or(head.clone(), |all| format!("{head}\n\n{all}")))
}

fn of_limits(cluster: &Cluster, set: &InSet<'_>) -> Option<String> {
    let object: &Object = set.object;
    let summary = alone(cluster, set.platform, object)?;
    let text = limits_text(&summary);
    let (_, most) = text.split_once(": at most about ")?;
    let is_known = summary
        .uncertainties
        .iter()
        .all(|doubt| matches!(doubt, Uncertainty::NoClass(_) | Uncertainty::NoAutoModeClass(_)));
    (summary.closed.is_none() && is_known).then(|| format!("- all limits together: at most about {most}"))
}

/// The amount in binary and decimal units: `64 GiB (68.7 GB)`.
fn bytes_in_words(bytes: i128) -> String {
    let number = bytes as f64;
    for (unit, power) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let size = f64::from(2.0_f32.powi(power));
        if number >= size {
            let decimal = match power {
                40 => format!("{} TB", round(number / 1e12)),
                30 => format!("{} GB", round(number / 1e9)),
                20 => format!("{} MB", round(number / 1e6)),
                _ => format!("{} kB", round(number / 1e3)),
            };
            return format!("{} {unit} ({decimal})", round(number / size));
        }
    }
    match bytes {
        1 => "1 byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes_in_words, what_is};

    #[test]
    fn bytes_are_said_in_both_units() {
        for (bytes, text) in [
            (64_i128 << 30, "64 GiB (68.7 GB)"),
            (64_000_000_000, "59.6 GiB (64 GB)"),
            (512 << 20, "512 MiB (537 MB)"),
            (1, "1 byte"),
            (64, "64 bytes"),
        ] {
            assert_eq!(bytes_in_words(bytes), text);
        }
    }

    #[test]
    fn slices_are_read_from_their_names() {
        let text = what_is("nvidia.com/mig-3g.40gb", 1);
        assert_eq!(
            text.as_deref(),
            Some("an instance of a MIG GPU, 3 of 7 compute slices and 40 GB of memory each")
        );
        assert_eq!(what_is("nvidia.com/mig-all", 1), None);
        assert_eq!(what_is("example.com/fpga", 1), None);
    }
}
