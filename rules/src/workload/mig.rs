//! MIG: the profiles that GPUs support, and the GPUs without MIG. From the configuration of NVIDIA's MIG manager.
use crate::facts::text::is_digits;
use crate::tree::node::Node;
use crate::workload::class::{command_line, has_word};

/// The label with which NVIDIA's MIG manager divides the GPUs of a node: the name of a layout.
pub(crate) const CONFIG_LABEL: &str = "nvidia.com/mig.config";

/// The MIG profiles of a GPU model, by the values of `karpenter.k8s.aws/instance-gpu-name` and `instance-gpu-memory`, which is
/// empty where all have the model's one size. Those of the A100 and of the RTX PRO 4500 (g7) are in NVIDIA's MIG user guide.
const PROFILES: [(&str, &str, &[&str]); 9] = [
    ("a100", "40960", &["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
    ("a100", "81920", &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    ("h100", "", &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    ("h200", "", &["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]),
    ("b200", "", &["1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"]),
    ("b300", "", &["1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"]),
    ("rtx-pro-server-6000", "", &["1g.24gb", "2g.48gb", "4g.96gb"]),
    ("rtx-pro-4500", "", &["1g.16gb", "2g.32gb"]),
    ("rtx-pro-server-4500", "", &["1g.16gb", "2g.32gb"]),
];

/// Profiles of GPUs that EC2 does not have, and variants of memory.
const OTHERS: [&str; 31] = [
    "1g.6gb", "2g.12gb", "4g.24gb", "1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb",
    "1g.47gb", "2g.47gb", "3g.95gb", "4g.95gb", "7g.189gb", "7g.186gb", "1g.70gb", "2g.70gb", "3g.139gb",
    "4g.139gb", "7g.278gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb", "3g.47gb", "4g.47gb",
    "7g.94gb", "3g.93gb", "4g.93gb", "2g.26gb",
];

/// GPU models on EC2 without MIG, by the value of `karpenter.k8s.aws/instance-gpu-name`.
const INCAPABLE: [&str; 8] = ["t4", "t4g", "a10g", "l4", "l40s", "v100", "k80", "m60"];

/// Whether a container divides the GPUs of its node: `nvidia-smi mig -cgi 9,9`, or NVIDIA's `nvidia-mig-parted apply`.
pub(crate) fn divides_gpus(container: &Node<'_>) -> bool {
    let line = command_line(container);
    let creates = has_word(&line, "-cgi") || line.contains("--create-gpu-instance");
    creates && line.contains("nvidia-smi") || has_word(&line, "nvidia-mig-parted") && has_word(&line, "apply")
}

/// Whether a text is the UUID of a GPU or of a MIG device, which belongs to one node, or the beginning of one, which CUDA takes as well:
/// `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`, `MIG-1ab04f24`, `MIG-GPU-8932f937-…/1/0` of drivers before 470.
pub(crate) fn is_device_uuid(text: &str) -> bool {
    let text = text.strip_prefix("MIG-").unwrap_or(text);
    let uuid = text.strip_prefix("GPU-").unwrap_or(text).split('/').next().unwrap_or_default();
    uuid.len() >= 8 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The start of the names of the device plugin's resources for MIG devices, where each profile has its own.
const RESOURCES: &str = "nvidia.com/mig-";

/// Whether a resource of the device plugin is MIG devices: `nvidia.com/mig-1g.10gb`.
pub(crate) fn is_mig_resource(resource: &str) -> bool {
    resource.starts_with(RESOURCES)
}

/// Whether a resource of the device plugin is MIG devices that each fill a GPU, so that two of them are on two GPUs.
pub(crate) fn fills_gpu(resource: &str) -> bool {
    /// The largest profiles of GPUs with fewer than seven slices: A30, RTX PRO 6000, RTX PRO 4500.
    const LARGEST: [&str; 3] = ["4g.24gb", "4g.96gb", "2g.32gb"];
    profile_of_resource(resource)
        .is_some_and(|profile| profile.starts_with("7g.") || LARGEST.contains(&profile.as_str()))
}

/// The profile of a resource of the device plugin: `1g.10gb` of `nvidia.com/mig-1g.10gb`, and of its variants.
pub(crate) fn profile_of_resource(resource: &str) -> Option<String> {
    profile_of_name(resource.strip_prefix(RESOURCES)?)
}

/// The profile of a name of its variants: `1g.10gb` of `1g.10gb+me` and `1g.10gb.me`.
pub(crate) fn profile_of_name(profile: &str) -> Option<String> {
    let (slices, rest) = profile.split_once("g.")?;
    let (memory, variant) = rest.split_once("gb")?;
    (is_digits(slices) && is_digits(memory) && (variant.is_empty() || variant.starts_with(['.', '+'])))
        .then(|| format!("{slices}g.{memory}gb"))
}

/// Whether any GPU supports a profile.
pub(crate) fn is_known_profile(profile: &str) -> bool {
    OTHERS.contains(&profile) || PROFILES.iter().any(|(_, _, profiles)| profiles.contains(&profile))
}

/// Whether a GPU model with some memory in MiB supports a profile; `None` if the model is unknown.
pub(crate) fn offers(gpu: &str, memory: &str, profile: &str) -> Option<bool> {
    if INCAPABLE.contains(&gpu) {
        return Some(false);
    }
    let mut of_model = PROFILES.iter().filter(|(name, _, _)| *name == gpu);
    let (_, _, profiles) = of_model.find(|(_, size, _)| size.is_empty() || *size == memory)?;
    Some(profiles.contains(&profile))
}

/// Whether a value of `nvidia.com/gpu.product`, or of the labels of GKE and AKS, is a GPU model without MIG.
pub(crate) fn is_product_without_mig(product: &str) -> bool {
    let product = product.to_ascii_lowercase();
    product.split(['-', '_', ' ']).any(|word| {
        matches!(
            word,
            "t4" | "a10"
                | "a10g"
                | "l4"
                | "l40"
                | "l40s"
                | "v100"
                | "p100"
                | "p4"
                | "k80"
                | "t4g"
                | "a40"
                | "a16"
                | "a2"
        )
    })
}
