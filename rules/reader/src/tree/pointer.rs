//! JSON Pointers (RFC 6901). Above the source layer, positions in an object are pointers, not byte offsets.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A JSON Pointer relative to the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    steps: Arc<[String]>,
}

/// Number of pointers that a thread keeps to share them. Findings are at few fields: those of 100,000 NodePools at some 60 places,
/// whose steps would take 200 bytes and six allocations of each finding.
const KEPT: usize = 256;

thread_local! {
    static KEPT_POINTERS: RefCell<[Option<Pointer>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

impl Pointer {
    /// The pointer to the object itself.
    pub fn root() -> Pointer {
        Pointer::default()
    }

    /// A pointer from unescaped steps.
    pub fn from_steps<S: Into<String>>(steps: impl IntoIterator<Item = S>) -> Pointer {
        Pointer { steps: steps.into_iter().map(Into::into).collect() }
    }

    /// A pointer from unescaped steps, which shares them with an equal one that was made shortly before.
    pub(crate) fn shared(steps: &[Cow<'_, str>]) -> Pointer {
        let bytes = steps.iter().flat_map(|step| step.bytes());
        let mix = |hash: usize, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        let at = bytes.fold(steps.len(), mix) % KEPT;
        KEPT_POINTERS.with_borrow_mut(|kept| match &kept[at] {
            Some(known) if known.steps.iter().eq(steps) => known.clone(),
            _ => kept[at].insert(Pointer::from_steps(steps.iter().map(Cow::as_ref))).clone(),
        })
    }

    /// The pointer to the node some levels above.
    pub fn above(&self, levels: usize) -> Pointer {
        Pointer { steps: self.steps[..self.steps.len().saturating_sub(levels)].into() }
    }

    pub fn parse(text: &str) -> Option<Pointer> {
        if text.is_empty() {
            return Some(Pointer::root());
        }
        let rest = text.strip_prefix('/')?;
        Some(Pointer::from_steps(rest.split('/').map(|s| s.replace("~1", "/").replace("~0", "~"))))
    }

    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The pointer with one more step.
    pub fn join(&self, step: &str) -> Pointer {
        Pointer { steps: self.steps.iter().cloned().chain([step.to_owned()]).collect() }
    }

    /// Whether the pointers are equal, or one is an ancestor of the other.
    pub fn is_related_to(&self, other: &Pointer) -> bool {
        self.steps.iter().zip(other.steps.iter()).all(|(a, b)| a == b)
    }

    /// The field path as the API server writes it in errors: `spec.limits[nvidia.com/gpu]`,
    /// `spec.budgets[0]`.
    pub fn field_path(&self) -> String {
        let mut out = String::new();
        for step in self.steps.iter() {
            let plain = step.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let number = !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
            if number || !plain {
                out.push('[');
                out.push_str(step);
                out.push(']');
            } else {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(step);
            }
        }
        out
    }
}

/// Where the parts of a value come from: beginnings of pointers in it, each with a place elsewhere.
#[derive(Clone, Debug, Default)]
pub struct PointerMap(Vec<(Pointer, Pointer)>);

impl PointerMap {
    /// Adds a beginning with its place.
    pub fn insert(&mut self, part: Pointer, origin: Pointer) {
        self.0.push((part, origin));
    }

    /// The place of the longest beginning, with the remaining steps.
    pub(crate) fn origin_of(&self, pointer: Pointer) -> Pointer {
        let parts = self.0.iter().filter(|(part, _)| pointer.steps.starts_with(&part.steps));
        match parts.max_by_key(|(part, _)| part.steps.len()) {
            Some((part, origin)) => {
                let rest = &pointer.steps[part.steps.len()..];
                Pointer { steps: origin.steps.iter().chain(rest).cloned().collect() }
            }
            None => pointer,
        }
    }
}

/// A step with `~` and `/` escaped.
pub fn escape(step: &str) -> Cow<'_, str> {
    if step.contains(['~', '/']) {
        Cow::Owned(step.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(step)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.steps.iter() {
            write!(f, "/{}", escape(step))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Pointer;

    #[test]
    fn pointers_escape_and_round_trip() {
        let pointer = Pointer::from_steps(["spec", "limits", "nvidia.com/gpu", "a~b", "0"]);
        assert_eq!(pointer.to_string(), "/spec/limits/nvidia.com~1gpu/a~0b/0");
        assert_eq!(Pointer::parse(&pointer.to_string()), Some(pointer.clone()));
        assert_eq!(pointer.field_path(), "spec.limits[nvidia.com/gpu][a~b][0]");
        assert_eq!(Pointer::parse("spec"), None);
        assert_eq!(Pointer::root().to_string(), "");
    }
}
