//! `gpulint plan` and `gpulint check --since`, from outside.

mod laws;
mod revisions;
mod stories;
mod told;
