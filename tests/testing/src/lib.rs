//! Code that the tests and benchmarks of all crates share. It is not published and not part of the program.

mod definition;
mod dice;
mod expected;
mod imports;
mod manifests;
mod missing;
mod run;
mod walk;

pub use definition::thing_definition;
pub use dice::Dice;
pub use expected::expect_file;
pub use imports::Imports;
pub use manifests::FIXABLE_POOL;
pub use missing::{assets, missing, skipped};
pub use run::{check, check_files, cluster, objects, position, values};
pub use walk::{children, fixtures, is_full, lot, relative, sampled, yaml_below};
