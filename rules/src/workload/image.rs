//! The image of a container.

use std::sync::LazyLock;

use crate::facts::image::ImageRef;
use crate::facts::table;
use crate::platform::{Release, Version, release_of};
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

/// The image of a container. `None` if it is not written, or its repository is not known. Its tag may be a placeholder.
pub(crate) fn image_of<'a>(container: &Node<'a>) -> Option<ImageRef<'a>> {
    image_text(container).map(ImageRef::parse)
}

/// The text of an image with a known repository: `${REGISTRY}/vllm/vllm-openai:${TAG}` is one of vLLM.
pub(crate) fn image_text<'a>(container: &Node<'a>) -> Option<&'a str> {
    let image = container.get("image");
    let has_repository = |text: &&str| {
        let name = ImageRef::parse(text).name;
        !is_placeholder(name.split_once('/').map_or(name, |(_, path)| path))
    };
    image.text().or_else(|| image.raw_text().filter(|_| image.is_unknown()).filter(has_repository))
}

/// Words in the names of images that take the place of a program in tests.
const STAND_INS: [&str; 8] = ["mock", "fake", "stub", "sim", "simulator", "emulator", "echo", "dummy"];

/// Whether the name of an image says that it takes the place of a program in tests.
pub(crate) fn is_stand_in(name: &str) -> bool {
    name.split(['-', '_', '.']).any(|word| STAND_INS.contains(&word))
}

/// The image that was written where a kustomization or a GitOps controller gives it another name in a registry of one's own, which
/// has copies of images under any name. It has the tag that is applied.
pub(crate) fn copied_image<'a>(container: &Node<'a>) -> Option<ImageRef<'a>> {
    let image = container.get("image");
    let (text, change) = (image.raw_text()?, image.change()?);
    let (own, written) = (ImageRef::parse(text), ImageRef::parse(&change.written));
    let is_copy = own.name != written.name && is_in_private_registry(text) && !is_stand_in(own.last());
    is_copy.then_some(ImageRef { tag: own.tag, digest: own.digest, ..written })
}

/// The image of a container, and the one of which it is a copy.
pub(crate) fn images_of<'a>(container: &Node<'a>) -> impl Iterator<Item = ImageRef<'a>> + use<'a> {
    image_of(container).into_iter().chain(copied_image(container))
}

/// The release of a NIM, by its tag: `[1, 8, 4]` for `nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.4`. `None` for other images.
pub(crate) fn nim_release(image: &ImageRef<'_>) -> Option<Release> {
    image.tag.filter(|_| image.name.starts_with("nvcr.io/nim/")).and_then(release_of)
}

/// The first release of NIM for language models that pulls its image and its model without a key, but for production branches and
/// gated models (installation of NIM LLM 2.0.11 and of NIM VLM 2.0.11-variant on docs.nvidia.com).
pub(crate) const FIRST_KEYLESS_NIM: Release = [2, 0, 10];

/// Words in tags and names of images that have a shell beside others of the repository that have none.
const WITH_SHELL: [&str; 8] =
    ["debug", "dev", "alpine", "busybox", "ubuntu", "debian", "windows", "nanoserver"];

/// Registries in which authors publish their images.
const PUBLIC_REGISTRIES: [&str; 6] =
    ["docker.io", "ghcr.io", "quay.io", "nvcr.io", "public.ecr.aws", "mirror.gcr.io"];

/// Whether an image is in a registry of one's own, where it may be another than its name says.
pub(crate) fn is_in_private_registry(image: &str) -> bool {
    if deep_learning_container(&ImageRef::parse(image)).is_some() {
        return false;
    }
    let host = image.split_once('/').map_or("", |(host, _)| host);
    host.contains(['.', ':']) && !PUBLIC_REGISTRIES.contains(&host) || is_placeholder(host)
}

/// The repository among AWS's Deep Learning Containers that an image names: `vllm`, from an account of AWS, from its public
/// gallery, or from a mirror of that. The accounts are those of the page "Region Availability" of August 2026.
pub(crate) fn deep_learning_container<'a>(image: &ImageRef<'a>) -> Option<&'a str> {
    let (account, host) = image.name.split_once('.')?;
    let is_of_aws = host.starts_with("dkr.ecr.")
        && include_str!("deep_learning_accounts.txt").lines().any(|known| known == account);
    let (above, name) = match is_of_aws {
        true => ("", image.repository),
        false => image.repository.rsplit_once("deep-learning-containers/")?,
    };
    (above.is_empty() || above.ends_with('/')).then_some(name)
}

/// Images of public registries that say `distroless` and have a shell: dcgm-exporter copies one for its entrypoint, and the image of
/// kube-proxy one for iptables.
const DISTROLESS_WITH_SHELL: [&str; 2] = ["dcgm-exporter", "distroless-iptables"];

/// The ends of the repositories of images without a shell, each with the first release that has none; `None`: every one.
static WITHOUT_SHELL: LazyLock<Vec<(&str, Option<Version>)>> = LazyLock::new(|| {
    table::read(include_str!("images_without_shell.tsv"), |[known, since, _]: [&'static str; 3]| {
        let since = if since == "-" { None } else { Some(Version::parse(since)?) };
        Some((known, since))
    })
    .collect()
});

/// Whether the image of a container certainly has no shell, nor commands such as `sleep`: it is one of the table, or is published
/// with `distroless` in its tag or in its name.
pub(crate) fn lacks_shell(container: &Node<'_>) -> bool {
    let Some(image) = image_of(container) else { return false };
    // A digest alone may be that of a variant with a shell.
    let Some(tag) = image.tag.or(image.digest.is_none().then_some("latest")) else { return false };
    let says = |words: &[&str]| {
        let mut own = [tag, image.last()].into_iter().flat_map(|text| text.split(['-', '_', '.']));
        own.any(|word| words.contains(&word))
    };
    if says(&WITH_SHELL) {
        return false;
    }
    let is_published = || {
        image_text(container).is_some_and(|image| !is_in_private_registry(image))
            && !DISTROLESS_WITH_SHELL.contains(&image.last())
    };
    if says(&["distroless"]) && is_published() {
        return true;
    }
    // `distroless/static-debian12`
    let end = image.repository.find("-debian").unwrap_or(image.repository.len());
    let plain = ImageRef { repository: &image.repository[..end], ..image };
    WITHOUT_SHELL.iter().any(|(known, since)| {
        // The name of an image at the root of its registry is that of others in folders.
        let is_it = if known.contains('/') { plain.is(known) } else { plain.repository == *known };
        is_it && since.is_none_or(|first| Version::parse(tag).is_some_and(|own| own >= first))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn nims_have_releases() {
        for (image, expected) in [
            ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.4", Some([1, 8, 4])),
            ("nvcr.io/nim/qwen/qwen3.8-27b:2.1.1-variant", Some([2, 1, 1])),
            ("nvcr.io/nim/meta/llama-3.1-8b-instruct:latest", None),
            ("nvcr.io/nim/meta/llama-3.1-8b-instruct@sha256:0123", None),
            ("nvcr.io/nvidia/tritonserver:25.08-py3", None),
            ("mirror.example.com/nim/meta/llama-3.1-8b-instruct:1.8.4", None),
        ] {
            assert_eq!(nim_release(&ImageRef::parse(image)), expected, "{image}");
        }
    }

    #[test]
    fn some_images_have_no_shell() {
        for (image, expected) in [
            ("gcr.io/distroless/static-debian12:nonroot", true),
            ("gcr.io/distroless/static-debian12:debug", false),
            ("gcr.io/distroless/python3", false),
            ("envoyproxy/envoy:distroless-v1.36.2", true),
            ("mirror.example.com/hub/envoyproxy/envoy-distroless:v1.29.0", false),
            ("nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless", false),
            ("gcr.io/distroless/base-debian12@sha256:0123456789abcdef", false),
            ("registry.example.com/rollouts/pause:1.4.0", false),
            ("fluent/fluent-bit:1.8.0", false),
            ("cr.fluentbit.io/fluent/fluent-bit:4.0.3", true),
            ("cr.fluentbit.io/fluent/fluent-bit:4.0.3-debug", false),
            ("public.ecr.aws/aws-observability/aws-for-fluent-bit:2.34.0", false),
            ("registry.k8s.io/coredns/coredns:v1.12.0", true),
            ("public.ecr.aws/eks-distro/coredns/coredns:v1.11.4-eks-1-33-1", false),
            ("quay.io/oauth2-proxy/oauth2-proxy:v7.5.1", false),
            ("quay.io/oauth2-proxy/oauth2-proxy:v7.8.1-alpine", false),
            ("quay.io/oauth2-proxy/oauth2-proxy:v7.8.1", true),
            ("registry.k8s.io/pause:3.10", true),
            ("busybox:1.37", false),
        ] {
            let tree = Tree::from_json(&json!({"image": image}));
            assert_eq!(lacks_shell(&Node::new(&tree, 0)), expected, "{image}");
        }
    }
}
