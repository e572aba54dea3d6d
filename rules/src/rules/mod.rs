//! Every rule, in the order of reports and of the manual: by group, then by id.

use crate::rule::Rule;

/// The table that everything else is derived from.
pub static RULES: &[&Rule] = &[];
