//! Every rule, in the order of reports and of the manual: by group, then by id.

use crate::rule::Rule;

mod nodepool;

/// The table that everything else is derived from.
pub static RULES: &[&Rule] = &[&nodepool::gpu_pool_untainted::RULE];
