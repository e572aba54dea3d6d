//! What is derived from the whole index, once.

use crate::index::Index;

/// Derived views.
#[derive(Debug, Default)]
pub struct Views {}

impl Views {
    pub(crate) fn new(_index: &Index) -> Views {
        Views {}
    }
}
