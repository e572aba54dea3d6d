//! The image of a container.

use crate::facts::image::ImageRef;
use crate::tree::node::Node;

/// The image of a container. `None` if it is not written or not known.
pub(crate) fn image_of<'a>(container: &Node<'a>) -> Option<ImageRef<'a>> {
    container.get("image").text().map(ImageRef::parse)
}
