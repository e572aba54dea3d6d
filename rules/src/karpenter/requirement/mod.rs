//! Karpenter's requirements: which values a key allows, how two requirements are combined, which keys are
//! well known.
//!
//! This is the arithmetic of the scheduler of Karpenter 1.15 and nothing more: a contradiction is not an
//! error but means "the label does not exist", two exclusions always overlap, and `Exists` combined with an
//! exclusion becomes an exclusion. Reporting these as mistakes is left to the rules.

mod values;

use std::fmt;
use std::str::FromStr;

use litemap::LiteMap;

use crate::karpenter::provider::Provider;
use crate::platform::Version;
use crate::steps;

pub use values::Values;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; also met if the label is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
    /// An integer not less than the value (NodePools only).
    Gte,
    /// An integer not greater than the value (NodePools only).
    Lte,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownOperator;

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(text: &str) -> Result<Self, UnknownOperator> {
        Ok(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            _ => return Err(UnknownOperator),
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

impl fmt::Display for UnknownOperator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("operators are In, NotIn, Exists, DoesNotExist, Gt, Lt, and in NodePools Gte and Lte")
    }
}

impl std::error::Error for UnknownOperator {}

/// The values allowed for one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirement {
    /// Whether `values` are excluded instead of allowed.
    pub complement: bool,
    /// The allowed or the excluded values.
    pub values: Values,
    /// Smallest integer allowed.
    pub gte: Option<i64>,
    /// Largest integer allowed.
    pub lte: Option<i64>,
    /// The minimum number of distinct values that the remaining types must have.
    pub min_values: Option<u32>,
}

impl Requirement {
    /// Builds the requirement of an operator with values.
    ///
    /// Bounds that are not integers are read as 0; Karpenter's validation rejects them earlier.
    pub fn new<S: AsRef<str>>(op: Operator, values: &[S], min_values: Option<u32>) -> Self {
        // Each value is copied and inserted in order.
        steps::take(4 + 8 * values.len());
        let bound = || values.first().and_then(|value| value.as_ref().parse::<i64>().ok()).unwrap_or(0);
        let all = || values.iter().map(|value| value.as_ref().to_owned()).collect();
        let base = Self { min_values, ..Self::default() };
        let bounded =
            |gte, lte| Self { complement: true, gte, lte, ..Self { min_values, ..Self::default() } };
        match op {
            Operator::In => Self { values: all(), ..base },
            Operator::NotIn => Self { complement: true, values: all(), ..base },
            Operator::Exists => Self { complement: true, ..base },
            Operator::DoesNotExist => base,
            Operator::Gt => {
                bound().checked_add(1).map_or_else(Self::default, |least| bounded(Some(least), None))
            }
            Operator::Lt => {
                bound().checked_sub(1).map_or_else(Self::default, |most| bounded(None, Some(most)))
            }
            Operator::Gte => bounded(Some(bound()), None),
            Operator::Lte => bounded(None, Some(bound())),
        }
    }

    /// `In` with one value, as for a label or node selector.
    pub fn is(value: &str) -> Self {
        Self { values: Values::from_iter([value.to_owned()]), ..Self::default() }
    }

    /// Whether a value is within the bounds. Without bounds every value is; with bounds only integers can be.
    pub fn within(&self, value: &str) -> bool {
        within(value, self.gte, self.lte)
    }

    pub fn has(&self, value: &str) -> bool {
        steps::take(2);
        self.values.contains(value) != self.complement && self.within(value)
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.gte.is_some() || self.lte.is_some()
    }

    /// The operator that the requirement is equivalent to, one of the first four. Bounds are ignored.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Whether a node without the label meets the requirement.
    pub(crate) fn allows_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    /// Combines both requirements. A contradiction yields `DoesNotExist`.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        steps::take(4 + 4 * (self.values.len() + other.values.len()));
        let (gte, lte) = self.common_bounds(other);
        let min_values = self.min_values.max(other.min_values);
        if is_empty(gte, lte) {
            return Self { min_values, ..Self::default() };
        }
        let (ours, theirs) = (&self.values, &other.values);
        let inside = |value: &&String| within(value, gte, lte);
        let values = match (self.complement, other.complement) {
            (true, true) => ours.iter().chain(theirs).filter(inside).cloned().collect(),
            (true, false) => theirs.iter().filter(|v| !ours.contains(v)).filter(inside).cloned().collect(),
            (false, true) => ours.iter().filter(|v| !theirs.contains(v)).filter(inside).cloned().collect(),
            (false, false) => ours.iter().filter(|v| theirs.contains(v)).filter(inside).cloned().collect(),
        };
        let complement = self.complement && other.complement;
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        Self { complement, values, gte, lte, min_values }
    }

    /// Whether a value is allowed by both. Two exclusions always overlap, whatever they exclude.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (gte, lte) = self.common_bounds(other);
        if is_empty(gte, lte) {
            return false;
        }
        let contains = |set: &Self, value: &String| {
            steps::take(2);
            set.values.contains(value)
        };
        match (self.complement, other.complement) {
            (true, true) => true,
            (true, false) => other.values.iter().any(|v| !contains(self, v) && within(v, gte, lte)),
            (false, true) => self.values.iter().any(|v| !contains(other, v) && within(v, gte, lte)),
            (false, false) => self.values.iter().any(|v| contains(other, v) && within(v, gte, lte)),
        }
    }

    /// Whether two requirements on the same key are compatible: they overlap, or both allow the label to be
    /// absent.
    pub fn meets(&self, other: &Self) -> bool {
        self.overlaps(other) || (self.allows_absence() && other.allows_absence())
    }

    /// Whether Karpenter panics when it has to choose a value for a *custom* label under this requirement: it
    /// draws a random integer from the range, which must not be empty (`Lt 0`, `Gt 9223372036854775806`, and,
    /// because the end of the range overflows, `Lte 9223372036854775807`).
    pub(crate) fn is_empty_range(&self) -> bool {
        let start = self.gte.unwrap_or(0);
        let end = self.lte.map_or(i64::MAX, |most| most.wrapping_add(1));
        self.complement && end.wrapping_sub(start) <= 0
    }

    fn common_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.gte.max(other.gte), lte)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.values.join(", ");
        match self.operator() {
            Operator::Exists if self.is_bounded() => {}
            op @ (Operator::Exists | Operator::DoesNotExist) => write!(out, "{op}")?,
            op => write!(out, "{op} [{}]", values())?,
        }
        let mut gap = if self.operator() == Operator::Exists { "" } else { " " };
        for (sign, bound) in [(">=", self.gte), ("<=", self.lte)] {
            if let Some(bound) = bound {
                write!(out, "{gap}{sign} {bound}")?;
                gap = " ";
            }
        }
        Ok(())
    }
}

fn is_empty(gte: Option<i64>, lte: Option<i64>) -> bool {
    matches!((gte, lte), (Some(least), Some(most)) if least > most)
}

fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    value
        .parse::<i64>()
        .is_ok_and(|number| gte.is_none_or(|b| b <= number) && lte.is_none_or(|b| number <= b))
}

/// Why two sets of requirements are not compatible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The normalised key.
    pub key: String,
    /// The requirement of the first set (the pool). [`None`] if it has none and the key is not well known, so
    /// that no node of the pool has the label.
    pub ours: Option<Requirement>,
    /// The requirement of the second set (the pod).
    pub theirs: Requirement,
}

/// Steps for copying a key and inserting it in order.
const STEPS_PER_KEY: usize = 30;
/// Number of keys that are moved in one step to insert a key before them.
const KEYS_MOVED_IN_A_STEP: usize = 32;

/// Requirements by key. Keys are normalised, and requirements on the same key are combined. A sorted vector
/// takes 104 bytes per key; a `BTreeMap` reserves space for eleven keys, and takes 1,200 bytes even for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    map: LiteMap<String, Requirement>,
    /// Whose nodes have these labels, which decides what the other keys mean.
    provider: Provider,
}

impl Requirements {
    pub fn new() -> Self {
        Self::default()
    }

    /// No requirements yet, of the nodes of a provider.
    pub fn of(provider: Provider) -> Self {
        Self { provider, ..Self::default() }
    }

    /// Whose nodes have these labels.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Adds a requirement. It is combined with an existing one on the same key.
    pub fn add(&mut self, key: &str, requirement: Requirement) {
        steps::take(4);
        let key = normalise(key);
        match self.map.get_mut(key) {
            Some(present) => *present = present.intersect(&requirement),
            None => {
                steps::take(STEPS_PER_KEY + self.map.len() / KEYS_MOVED_IN_A_STEP);
                self.map.insert(key.to_owned(), requirement);
            }
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(key, requirement)| self.add(key, requirement.clone()));
    }

    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.map.get(normalise(key))
    }

    pub fn remove(&mut self, key: &str) {
        self.map.remove(normalise(key));
    }

    /// Removes the requirements that are not to be kept, and the space of them.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &Requirement) -> bool) {
        let mut entries = std::mem::take(&mut self.map).into_tuple_vec();
        entries.retain(|(key, requirement)| keep(key, requirement));
        entries.shrink_to_fit();
        self.map = LiteMap::from_sorted_store_unchecked(entries);
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The requirements by key, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Requirement)> {
        self.map.iter().map(|(key, requirement)| (key.as_str(), requirement))
    }

    /// Whether the sets are compatible on every key that both contain.
    ///
    /// # Errors
    /// The first key, in order, on which they are not.
    pub(crate) fn intersects(&self, other: &Self) -> Result<(), Box<Clash>> {
        self.clashes(other).find(|clash| clash.ours.is_some()).map_or(Ok(()), |clash| Err(Box::new(clash)))
    }

    /// Whether a pod with the requirements `other` can be scheduled to nodes with these requirements: each
    /// key of the pod is in this set, is well known there, or is required to be absent; and the sets intersect.
    ///
    /// # Errors
    /// The first key, in order, that is not compatible.
    pub(crate) fn compatible(&self, other: &Self) -> Result<(), Box<Clash>> {
        self.clashes(other).next().map_or(Ok(()), |clash| Err(Box::new(clash)))
    }

    /// Every key that makes [`Self::compatible`] fail.
    pub(crate) fn clashes(&self, other: &Self) -> impl Iterator<Item = Clash> {
        other.iter().filter_map(|(key, theirs)| {
            steps::take(2);
            let ours = self.map.get(key);
            let fine = match ours {
                Some(ours) => ours.meets(theirs),
                None => self.provider.is_well_known(key) || theirs.allows_absence(),
            };
            let size = ours.map_or(0, |ours| ours.values.len()) + theirs.values.len();
            steps::take(if fine { 0 } else { 4 * size });
            (!fine).then(|| Clash { key: key.to_owned(), ours: ours.cloned(), theirs: theirs.clone() })
        })
    }
}

impl<'a> FromIterator<(&'a str, Requirement)> for Requirements {
    fn from_iter<I: IntoIterator<Item = (&'a str, Requirement)>>(pairs: I) -> Self {
        let mut set = Self::default();
        pairs.into_iter().for_each(|(key, requirement)| set.add(key, requirement));
        set
    }
}

/// The keys under `karpenter.k8s.aws/` that Karpenter knows.
pub(crate) const WELL_KNOWN_AWS: [&str; 27] = [
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "instance-accelerator-count",
    "instance-accelerator-manufacturer",
    "instance-accelerator-name",
    "instance-capability-flex",
    "instance-category",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-ebs-bandwidth",
    "instance-encryption-in-transit-supported",
    "instance-family",
    "instance-generation",
    "instance-gpu-count",
    "instance-gpu-manufacturer",
    "instance-gpu-memory",
    "instance-gpu-name",
    "instance-hypervisor",
    "instance-local-nvme",
    "instance-memory",
    "instance-network-bandwidth",
    "instance-size",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
];

/// Whether a normalised key is defined by instance types or by Karpenter.
pub(crate) fn is_well_known(key: &str) -> bool {
    match key {
        "karpenter.sh/nodepool"
        | "karpenter.sh/capacity-type"
        | "topology.kubernetes.io/zone"
        | "topology.kubernetes.io/region"
        | "topology.k8s.aws/zone-id"
        | "node.kubernetes.io/instance-type"
        | "node.kubernetes.io/windows-build"
        | "kubernetes.io/arch"
        | "kubernetes.io/os" => true,
        _ => {
            let of_aws = key.strip_prefix("karpenter.k8s.aws/");
            of_aws.is_some_and(|name| WELL_KNOWN_AWS.binary_search(&name).is_ok())
        }
    }
}

/// Whether Karpenter ignores pods that require the key (in any term) and rejects NodePools with it.
pub(crate) fn is_restricted(key: &str) -> bool {
    let key = normalise(key);
    let ours = |domain: &str| {
        ["karpenter.sh", "karpenter.k8s.aws"].iter().any(|reserved| {
            domain.strip_suffix(reserved).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    };
    !is_well_known(key)
        && (key == "kubernetes.io/hostname" || key.split_once('/').is_some_and(|(domain, _)| ours(domain)))
}

/// The labels that Karpenter sets when a node has joined the cluster and when it is ready for pods.
pub(crate) const LIFECYCLE_LABELS: [&str; 2] = ["karpenter.sh/registered", "karpenter.sh/initialized"];

/// Whether Karpenter takes its new nodes to be registered and initialized, and leaves both labels out of the NodeClaims: since 1.14
/// (`schedulingSimulationKeys` in `nodeclaimtemplate.go` of its scheduler).
pub(crate) fn simulates_lifecycle(karpenter: Version) -> bool {
    karpenter >= Version::new(1, 14)
}

/// Whether the API server rejects a NodeClaim with this key. Karpenter takes the host name out of its NodeClaims, and the labels of
/// a node's lifecycle where it simulates these.
pub(crate) fn is_refused_in_claims(key: &str, simulates_lifecycle: bool) -> bool {
    let is_kept_out =
        matches!(key, "kubernetes.io/hostname" | "karpenter.sh/nodepool" | "karpenter.k8s.aws/ec2nodeclass")
            || simulates_lifecycle && LIFECYCLE_LABELS.contains(&key);
    !is_kept_out && is_restricted(key)
}

/// The current name of a deprecated key; other keys are returned unchanged.
pub(crate) fn normalise(key: &str) -> &str {
    match key {
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => {
            "topology.kubernetes.io/zone"
        }
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        other => other,
    }
}

#[cfg(test)]
mod tests;
