//! Admission reviews, answered with gpulint's findings.
