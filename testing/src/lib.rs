//! What the tests and benchmarks of all crates share. Not published, and no part of the program.

mod walk;

pub use walk::{children, yaml_below};
