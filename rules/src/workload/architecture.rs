//! The architecture that the pods of a template need.

use crate::catalog::ARCH;
use crate::facts::image::ImageRef;
use crate::workload::image::deep_learning_container;
use crate::workload::node_labels::{LabelUse, referenced_labels};
use crate::workload::template::Template;

/// The architecture that all pods of a template select, or that one of their images is for. `None` if they may run on
/// several.
pub(crate) fn of_pods(template: &Template<'_>) -> Option<&'static str> {
    let labels = referenced_labels(template);
    let selected: Vec<_> =
        labels.iter().filter(|label| label.usage == LabelUse::Required && label.key == ARCH).collect();
    match selected.as_slice() {
        [] => {}
        [label] if label.values.len() == 1 => {
            let value = label.values[0].text()?;
            return ["amd64", "arm64"].into_iter().find(|arch| *arch == value);
        }
        _ => return None,
    }
    template.all_containers().find_map(|container| of_image(container.get("image").text()?))
}

/// Published images for amd64 alone: the end of the repository, the beginning of the tag, and words that tell others
/// apart. Sources: `.github/workflows/build.yaml` of text-generation-inference at db931fcf (2026, all are `linux/amd64`) and
/// `matrix.json` of text-embeddings-inference 1.9.3 (`cpu-arm64-` and `121-` are for arm64); docker-library/official-images
/// `library/mysql`, whose entries without architectures are for amd64; the documentation of SQL Server and Db2.
const AMD64_ALONE: [(&str, &str, &[&str]); 7] = [
    ("mcr.microsoft.com/mssql/server", "", &[]),
    ("huggingface/text-generation-inference", "", &[]),
    ("huggingface/text-embeddings-inference", "", &["arm64", "121-"]),
    ("library/mysql", "5.7", &[]),
    ("mysql", "5.7", &[]),
    ("ibmcom/db2", "", &[]),
    ("icr.io/db2_community/db2", "", &[]),
];

/// Whether an image is published for amd64 alone. AWS has arm64 images for deep learning in repositories of their own.
/// Machines with Neuron devices are amd64, and so are the images of frameworks for them, such as
/// `neuron/pytorch-inference-neuronx`; the scheduler beside them runs elsewhere.
fn is_amd64_alone(name: &str, tag: &str) -> bool {
    let known = AMD64_ALONE.iter().any(|(repository, start, others)| {
        let is_it = match repository.contains('/') {
            true => name.strip_suffix(repository).is_some_and(|host| host.is_empty() || host.ends_with('/')),
            false => name == *repository,
        };
        is_it && tag.starts_with(start) && !others.iter().any(|word| tag.contains(word))
    });
    let is_deep_learning = deep_learning_container(&ImageRef::parse(name)).is_some()
        && !["arm64", "graviton"].iter().any(|word| name.contains(word) || tag.contains(word));
    let of_neuron = name.strip_prefix("public.ecr.aws/neuron/");
    let is_framework = |name: &str| ["inference", "training"].iter().any(|word| name.contains(word));
    known || is_deep_learning || of_neuron.is_some_and(is_framework)
}

/// The architecture that the name of an image states. Images of several architectures are usual, so that most names say nothing.
pub(crate) fn of_image(image: &str) -> Option<&'static str> {
    let ImageRef { name, repository, tag, .. } = ImageRef::parse(image);
    let tag = tag.unwrap_or_default();
    let has = |words: &[&str]| {
        let parts = || tag.split(['-', '_', '.']);
        words.iter().any(|word| parts().any(|part| part == *word) || tag.ends_with(&format!("-{word}")))
    };
    let (amd64, arm64) = (has(&["amd64", "x86_64", "x64"]), has(&["arm64", "aarch64", "arm64v8"]));
    match (amd64, arm64) {
        (true, false) => return Some("amd64"),
        (false, true) => return Some("arm64"),
        (true, true) => return None,
        (false, false) => {}
    }
    match repository.split('/').next()? {
        "amd64" => Some("amd64"),
        "arm64v8" => Some("arm64"),
        _ if name.ends_with("-amd64") => Some("amd64"),
        _ if name.ends_with("-arm64") => Some("arm64"),
        _ => is_amd64_alone(name, tag).then_some("amd64"),
    }
}

#[cfg(test)]
mod tests {
    use super::of_image;

    #[test]
    fn names_that_state_an_architecture() {
        for (image, arch) in [
            ("example.com/report:1.4.0-amd64", Some("amd64")),
            ("example.com/report:linux-amd64-1.4", Some("amd64")),
            ("ghcr.io/team/tool:v2-x86_64", Some("amd64")),
            ("amd64/redis:7", Some("amd64")),
            ("arm64v8/redis:7", Some("arm64")),
            ("example.com/report:1.4.0-arm64", Some("arm64")),
            ("example.com/report:1.4.0-aarch64@sha256:0123", Some("arm64")),
            ("example.com/report:amd64-arm64", None),
            ("redis:7", None),
            ("registry.k8s.io/tool-amd64:1.2", Some("amd64")),
            ("example.com/agent:3.1-linux-x64", Some("amd64")),
            ("mcr.microsoft.com/mssql/server:2022-latest", Some("amd64")),
            ("mysql:5.7", Some("amd64")),
            ("docker.io/library/mysql:5.7.44", Some("amd64")),
            ("mysql:8.4", None),
            ("example.com/mysql:5.7", None),
            ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.8", Some("amd64")),
            ("ghcr.io/huggingface/text-embeddings-inference:cpu-arm64-1.8", Some("arm64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312", Some("amd64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference-arm64:2.6.0", Some("arm64")),
            ("763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference-graviton:2.16", None),
            ("public.ecr.aws/deep-learning-containers/vllm:server-cuda-v2", Some("amd64")),
            ("626614931356.dkr.ecr.af-south-1.amazonaws.com/vllm-arm64:0.11.2-gpu-py312", Some("arm64")),
            ("public.ecr.aws/neuron/pytorch-inference-neuronx:2.8", Some("amd64")),
            ("public.ecr.aws/neuron/neuron-scheduler:2.22.4.0", None),
            ("ghcr.io/huggingface/text-embeddings-inference:121-1.9", None),
            ("nginx", None),
            ("example.com/amd64-tools:1.0", None),
        ] {
            assert_eq!(of_image(image), arch, "{image}");
        }
    }
}
