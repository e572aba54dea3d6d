//! gpulint.
fn main() {}
