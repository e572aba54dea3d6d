//! Kustomizations, built with `kustomize build`.

use std::sync::Arc;

use crate::batch::Batch;
use crate::config::Scopes;

use super::sources::Sources;
use super::{RenderOptions, Rendering};

/// Builds the top kustomizations of a batch.
pub(super) fn render(
    _batch: &Batch<'_>,
    _scopes: &Scopes,
    _options: &RenderOptions,
    _sources: &Arc<Sources>,
) -> Rendering {
    Rendering::default()
}
