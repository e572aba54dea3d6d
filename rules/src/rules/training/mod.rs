//! Training runs: where they may run, and what they lose.

pub(crate) mod training_on_spot;
