//! Pseudorandom numbers that are the same in every run.

/// A pseudorandom generator with a seed.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `most`; 0 if that is 0.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    /// A random item of a list, which must not be empty.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
