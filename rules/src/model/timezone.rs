//! The names of the time zone database: what `timeZone` of a CronJob may hold.
//!
//! `timezones.txt` lists the names of release 2025b, links included, one a line and sorted. What
//! time it is in a zone is not known here.

const NAMES: &str = include_str!("timezones.txt");

/// Whether the database has a zone of this name. Case counts.
#[must_use]
pub fn is_known(name: &str) -> bool {
    NAMES.lines().any(|zone| zone == name)
}

/// The name nearest to one that is not known.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    NAMES
        .lines()
        .find(|zone| zone.eq_ignore_ascii_case(name))
        .or_else(|| crate::suggest::nearest(name, NAMES.lines()))
}

#[cfg(test)]
mod tests {
    use super::{is_known, nearest};

    #[test]
    fn zones_are_told_from_what_is_none() {
        for name in ["UTC", "Etc/UTC", "Europe/Berlin", "EST5EDT", "Etc/GMT+1"] {
            assert!(is_known(name), "{name}");
        }
        for name in ["", "Local", "europe/berlin", "GMT+1", "Europe/Brln"] {
            assert!(!is_known(name), "{name}");
        }
        assert_eq!(nearest("europe/berlin"), Some("Europe/Berlin"));
        assert_eq!(nearest("Europe/Brln"), Some("Europe/Berlin"));
    }
}
