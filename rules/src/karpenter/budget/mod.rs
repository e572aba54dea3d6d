//! Disruption budgets of a NodePool: how many nodes they allow, when, and for which reason.
//!
//! A [`Calendar`] evaluates budgets over a reference span: one week if every schedule repeats weekly,
//! otherwise 58 weeks before and after a Monday (docs/facts.md, "Budgets"). All times are UTC. This module
//! reads no YAML, does not know real node counts, and does not cover disruption that budgets never limit
//! (expiration, spot interruption, node repair, manual deletion).

use crate::facts::cron::{CronError, Schedule};
use std::fmt;

mod calendar;
#[cfg(test)]
mod tests;
mod week;

pub(crate) use calendar::{Allowance, AllowanceState, Interval};
pub use calendar::{Calendar, Cell, Coverage, ShadowKind, WEEK};
pub use week::{DAYS, Week};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisruptionReason {
    /// Consolidation of nodes that are not empty.
    Underutilized,
    Empty,
    Drifted,
}

impl DisruptionReason {
    pub const ALL: [Self; 3] = [Self::Underutilized, Self::Empty, Self::Drifted];

    /// Parses the exact name used in the CRD; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == text)
    }

    /// The name used in the CRD.
    pub fn name(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
        }
    }
}

impl fmt::Display for DisruptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many nodes a budget allows to be disrupted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nodes {
    /// A percentage of the pool's nodes, 0 to 100, rounded up.
    Percent(u32),
    /// A number as written. Go keeps only its low 32 bits: 4294967296 is 0.
    Count(i64),
}

impl Nodes {
    /// Parses a percentage `0%` to `100%` or a non-negative integer of at most 63 bits, as the CRD accepts
    /// them; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        if digits.len() == text.len() {
            return text.parse().ok().map(Self::Count);
        }
        let percent = digits.parse().ok().filter(|p| *p <= 100)?;
        (digits.len() <= 2 || digits == "100").then_some(Self::Percent(percent))
    }

    /// The number of nodes allowed in a pool of `n` nodes, never negative.
    pub fn value(self, n: u32) -> u32 {
        match self {
            Self::Percent(p) => {
                let nodes = (u64::from(p) * u64::from(n)).div_ceil(100);
                u32::try_from(nodes).unwrap_or(u32::MAX)
            }
            Self::Count(c) => u32::try_from(c as i32).unwrap_or(0),
        }
    }

    /// Whether the budget allows no node, independent of the size of the pool.
    pub fn is_zero(self) -> bool {
        self.value(1) == 0
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(p) => write!(f, "{p}%"),
            Self::Count(c) => write!(f, "{c}"),
        }
    }
}

/// One entry of `spec.disruption.budgets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The number of nodes. The CRD sets 10% for an entry without it.
    pub nodes: Nodes,
    /// The schedule; `None` if absent, `Err` if Karpenter cannot parse it. In the latter case no node of the
    /// pool is disrupted.
    pub schedule: Option<Result<Schedule, CronError>>,
    /// The length of each window in seconds. The CRD requires it together with `schedule`.
    pub duration: Option<u64>,
    /// The reasons that the budget applies to. `None` means every reason. An empty list means no reason, so
    /// the budget never applies.
    pub reasons: Option<Vec<DisruptionReason>>,
}

impl Budget {
    /// A budget without schedule that applies to every reason.
    pub(crate) fn unconditional(nodes: Nodes) -> Self {
        Self { nodes, schedule: None, duration: None, reasons: None }
    }

    /// The default of an **absent** `budgets` field, one entry of 10%. An explicit `[]` stays empty and means
    /// no limit.
    pub(crate) fn default_list() -> Vec<Self> {
        vec![Self::unconditional(Nodes::Percent(10))]
    }

    pub(crate) fn applies_to(&self, reason: DisruptionReason) -> bool {
        self.reasons.as_ref().is_none_or(|r| r.contains(&reason))
    }

    /// Whether the budget is active at a minute (since 1970 UTC): there is a time t of its schedule with `t
    /// <= at < t + duration`, or it has no schedule, or a schedule without times. `None` if the schedule, or
    /// a duration without schedule, cannot be used.
    pub(crate) fn active_at(&self, at: i64) -> Option<bool> {
        match &self.schedule {
            _ if !self.is_usable() => None,
            Some(Ok(schedule)) => {
                let hit = schedule.next(at.saturating_sub(self.minutes()));
                Some(hit.is_none_or(|h| h <= at))
            }
            _ => Some(true),
        }
    }

    /// Whether Karpenter can evaluate the budget at any time.
    fn is_usable(&self) -> bool {
        match &self.schedule {
            None => self.duration.is_none(),
            Some(schedule) => schedule.is_ok(),
        }
    }

    /// The length of the window in minutes, at most what Go can represent.
    fn minutes(&self) -> i64 {
        let minutes = self.duration.unwrap_or(0).div_ceil(60);
        i64::try_from(minutes).unwrap_or(i64::MAX).min(160_000_000)
    }
}
