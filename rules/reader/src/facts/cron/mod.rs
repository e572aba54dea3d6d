//! Cron schedules of disruption budgets. Karpenter parses `"TZ=UTC " + schedule` with `ParseStandard` of
//! <https://github.com/robfig/cron> v3.0.1.
//!
//! Five fields or a descriptor, always in UTC, with a resolution of one minute; no seconds, no `L W # H`, no
//! time zones. Times are minutes since 1970-01-01T00:00Z, given by the caller.

mod field;
mod shift;
mod suggest;
#[cfg(test)]
mod tests;

pub use field::crd_accepts;
pub use field::{CronError, CronFieldError, FieldName};
pub use shift::to_utc;
pub use suggest::suggest;

use crate::facts::date::{civil_from_days, days_in_month, weekday};
use field::read_field;

/// Minutes of one day.
const DAY: i64 = 1440;
/// All days of a month, as bits.
const ALL_DAYS: u64 = 0xffff_fffe;
/// All days of a week, as bits.
const WEEK: u64 = 0x7f;
/// Times are clamped to about ten thousand years either side of 1970.
const MAX_TIME: i64 = 5_000_000_000;
/// A parsed schedule: one bit per value, plus the star flags of the two day fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    minute: u64,
    hour: u64,
    dom: u64,
    month: u64,
    dow: u64,
    dom_star: bool,
    dow_star: bool,
}

impl Schedule {
    /// Parses a schedule: five fields separated by spaces, or one of `@yearly @annually @monthly @weekly
    /// @daily @midnight @hourly`.
    ///
    /// # Errors
    /// [`CronError`] for everything that Karpenter cannot use. `@every` is rejected although the library
    /// supports it, because the CRD rejects budgets with it.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let prefix = text.split_whitespace().next().unwrap_or(text);
            return Err(CronError::TimeZone(prefix.to_owned()));
        }
        if text.starts_with('@') {
            let fields = match text {
                "@yearly" | "@annually" => "0 0 1 1 *",
                "@monthly" => "0 0 1 * *",
                "@weekly" => "0 0 * * 0",
                "@daily" | "@midnight" => "0 0 * * *",
                "@hourly" => "0 * * * *",
                _ => return Err(CronError::Descriptor(text.to_owned())),
            };
            return Self::parse(fields);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, dom, month, dow] = fields.as_slice() else {
            return Err(CronError::FieldCount { found: fields.len() });
        };
        let (minute, _) = read_field(minute, FieldName::Minute)?;
        let (hour, _) = read_field(hour, FieldName::Hour)?;
        let (dom, dom_star) = read_field(dom, FieldName::DayOfMonth)?;
        let (month, _) = read_field(month, FieldName::Month)?;
        let (dow, dow_star) = read_field(dow, FieldName::DayOfWeek)?;
        Ok(Self { minute, hour, dom, month, dow, dom_star, dow_star })
    }

    /// The first hit strictly after `after` (both minutes since 1970 UTC), or `None` when there is
    /// none up to the end of the fifth calendar year after `after`, the library's horizon.
    pub fn next(&self, after: i64) -> Option<i64> {
        let start = after.clamp(-MAX_TIME, MAX_TIME) + 1;
        let mut day = start.div_euclid(DAY);
        let mut minute = start.rem_euclid(DAY);
        let (limit, _, _) = civil_from_days((start - 1).div_euclid(DAY));
        loop {
            let (year, month, mday) = civil_from_days(day);
            if year > limit + 5 {
                return None;
            }
            if self.month & (1 << month) == 0 {
                day += i64::from(days_in_month(year, month) - mday) + 1;
                minute = 0;
                continue;
            }
            if self.day_matches(day, mday) {
                let hit = self.minutes_of_day().map(i64::from).find(|hit| *hit >= minute);
                if let Some(hit) = hit {
                    return Some(day * DAY + hit);
                }
            }
            day += 1;
            minute = 0;
        }
    }

    /// Whether the schedule never fires (`0 9 31 2 *`). Karpenter then treats the budget as always active.
    /// Around the year 2100, 29 February is beyond the five years that robfig/cron looks ahead; that is
    /// ignored here.
    pub fn never_fires(&self) -> bool {
        if self.minute == 0 || self.hour == 0 || self.month == 0 {
            return true;
        }
        let by_date = (1..=12_u8).any(|m| {
            let days = days_in_month(2000, m);
            self.month & (1 << m) != 0 && self.dom & ((2 << days) - 1) != 0
        });
        let by_weekday = self.dow != 0;
        match self.dom_star || self.dow_star {
            true => !(by_date && by_weekday),
            false => !(by_date || by_weekday),
        }
    }

    /// Whether the schedule hits on the given day (days since 1970-01-01).
    pub fn fires_on(&self, day: i64) -> bool {
        let (_, month, mday) = civil_from_days(day.clamp(-MAX_TIME, MAX_TIME));
        self.month & (1 << month) != 0 && self.day_matches(day.clamp(-MAX_TIME, MAX_TIME), mday)
    }

    /// The minutes of a day (0..1440, ascending) at which the schedule hits on days that match.
    pub fn minutes_of_day(&self) -> impl Iterator<Item = u16> + '_ {
        let hours = (0..24_u16).filter(|h| self.hour & (1 << h) != 0);
        hours.flat_map(move |h| {
            let minutes = (0..60_u16).filter(|m| self.minute & (1 << m) != 0);
            minutes.map(move |m| h * 60 + m)
        })
    }

    /// For a schedule that repeats every week: its weekdays as bits (bit 0 = Sunday). `None` when
    /// it depends on the day of the month or on the month.
    pub fn weekly_days(&self) -> Option<u8> {
        if self.month != 0x1ffe {
            return None;
        }
        let week = u8::try_from(self.dow & 0x7f).unwrap_or_default();
        match (self.dom_star, self.dow_star) {
            (true, _) => Some(week),
            (false, true) => (self.dom == ALL_DAYS).then_some(week),
            (false, false) if self.dom == ALL_DAYS || week == 0x7f => Some(0x7f),
            (false, false) => (self.dom == 0).then_some(week),
        }
    }

    /// Whether both day fields are restricted, so that a day that meets either of them counts.
    fn counts_either(&self) -> bool {
        let is_part = |days: u64, all: u64| days & all != 0 && days & all != all;
        !self.dom_star && !self.dow_star && is_part(self.dom, ALL_DAYS) && is_part(self.dow, WEEK)
    }

    /// For a range of three or more days of the month beside days of the week: how many days a month meet either of both fields,
    /// which is when the schedule fires, and how many meet both, in the mean of four years. `None` for other schedules: single
    /// days, as in `1,15`, are often written beside a day of the week in order to have both.
    pub fn days_of_either_and_both(&self) -> Option<(i64, i64)> {
        const FOUR_YEARS: i64 = 1461;
        let days = (self.dom & ALL_DAYS) >> (self.dom & ALL_DAYS).trailing_zeros().min(63);
        if !self.counts_either() || days & (days + 1) != 0 || days.count_ones() < 3 {
            return None;
        }
        let (mut either, mut both) = (0, 0);
        for day in 0..FOUR_YEARS {
            let (_, month, mday) = civil_from_days(day);
            let (of_month, of_week) = (self.dom & (1 << mday) != 0, self.dow & (1 << weekday(day)) != 0);
            if self.month & (1 << month) != 0 {
                either += i64::from(of_month || of_week);
                both += i64::from(of_month && of_week);
            }
        }
        let months = 4 * i64::from((self.month & 0x1ffe).count_ones());
        let mean = |days: i64| (days + months / 2) / months.max(1);
        Some((mean(either), mean(both)))
    }

    /// Whether the schedule does not fire in some hour of the day, so that its time zone matters.
    pub fn restricts_hours(&self) -> bool {
        self.hour != 0xff_ffff
    }

    /// With a restricted day field: star in one of them means both must match, else either does.
    fn day_matches(&self, day: i64, mday: u8) -> bool {
        let dom = self.dom & (1 << mday) != 0;
        let dow = self.dow & (1 << weekday(day)) != 0;
        match self.dom_star || self.dow_star {
            true => dom && dow,
            false => dom || dow,
        }
    }
}
