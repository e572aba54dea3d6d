//! The releases of model servers, by the tags of the images that their authors publish.

use super::{ServerId, may_be_rebuilt};
use crate::facts::image::ImageRef;
use crate::platform::{Release, release_of};
use crate::tree::node::Node;
use crate::workload::image::{deep_learning_container, image_of, image_text, is_in_private_registry};

/// The images of servers whose tags are releases.
const IMAGES: [(ServerId, &str); 2] =
    [(ServerId::Vllm, "vllm/vllm-openai"), (ServerId::Sglang, "lmsysorg/sglang")];

/// The release that a tag names: `v0.10.2`, `v0.5.5.post1-cu126`. `None` for builds before a release.
pub(crate) fn release(tag: &str) -> Option<Release> {
    // Both servers are before 1.0; a larger number is a year.
    release_of(tag).filter(|release| release[0] <= 1)
}

/// The server whose image a container has as its authors publish it, and the release in its tag.
pub(crate) fn published(container: &Node<'_>) -> Option<(ServerId, Release)> {
    image_text(container).filter(|image| !may_be_rebuilt(image))?;
    let image = image_of(container)?;
    Some((server_of_tags(&image)?, release(image.tag?)?))
}

/// The server whose newest image a container pulls at its start, and the tag that moves to each release: `latest`,
/// which stands for no tag as well, or `nightly`.
pub(crate) fn newest<'a>(container: &Node<'a>) -> Option<(ServerId, &'a str)> {
    let image = image_of(container).filter(|image| image.digest.is_none())?;
    let tag = image.tag.unwrap_or("latest");
    let is_moving = matches!(tag, "latest" | "nightly") && !is_in_private_registry(image_text(container)?);
    let is_pulled = container.get("imagePullPolicy").text() != Some("Never");
    (is_moving && is_pulled && deep_learning_container(&image).is_none())
        .then(|| Some((server_of_tags(&image)?, tag)))?
}

fn server_of_tags(image: &ImageRef<'_>) -> Option<ServerId> {
    match deep_learning_container(image) {
        // Those on Ubuntu are built on the image of the release in their tag; the others have none there.
        Some("vllm") => Some(ServerId::Vllm),
        Some("sglang") => Some(ServerId::Sglang),
        Some(_) => None,
        None => IMAGES.iter().find(|(_, name)| image.is(name)).map(|(id, _)| *id),
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn a_tag_names_a_release() {
        for (tag, expected) in [
            ("v0.10.2", Some([0, 10, 2])),
            ("0.17.0-cu130", Some([0, 17, 0])),
            ("v0.5.5.post1-cu126", Some([0, 5, 5])),
            ("v0.18.0rc1", None),
            ("latest", None),
            ("nightly-0a1b2c", None),
            ("v0.18", None),
            ("2026.11.3", None),
        ] {
            assert_eq!(release(tag), expected, "{tag}");
        }
    }
}
