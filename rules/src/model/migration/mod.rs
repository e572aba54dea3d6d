//! What the old APIs of Karpenter and KEDA called things, and what they are called today.

pub mod moved;
