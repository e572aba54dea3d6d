//! Names of AWS regions.
use crate::facts::text::is_digits;

/// Regions whose instance types are not in the catalogue, including China and government partitions.
pub const OTHER_REGIONS: &[&str] = &[
    "ap-east-2",
    "ap-southeast-6",
    "ap-southeast-7",
    "cn-north-1",
    "cn-northwest-1",
    "eu-isoe-west-1",
    "eusc-de-east-1",
    "mx-central-1",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isof-east-1",
    "us-isof-south-1",
];

const DIRECTIONS: &[&str] =
    &["central", "east", "north", "northeast", "northwest", "south", "southeast", "southwest", "west"];

/// Whether a text has the form of a region, such as `us-east-1` and `us-gov-west-1`.
pub fn is_name(text: &str) -> bool {
    let mut parts = text.rsplit('-');
    let number =
        parts.next().is_some_and(|n| matches!(n.as_bytes(), [b'1'..=b'9'] | [b'1'..=b'9', b'0'..=b'9']));
    let direction = parts.next().is_some_and(|d| DIRECTIONS.contains(&d));
    let (mut count, mut letters) = (0, true);
    for part in parts {
        count += 1;
        letters &= (2..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_lowercase());
    }
    number && direction && letters && (1..=2).contains(&count)
}

/// The region of an availability zone, Local Zones and Wavelength Zones included: `us-west-2` of `us-west-2a` and of
/// `us-west-2-lax-1a`. `None` for other texts.
pub fn of_zone(zone: &str) -> Option<&str> {
    let ends = (1..).zip(zone.bytes()).filter(|(_, byte)| byte.is_ascii_digit()).map(|(end, _)| end);
    let region = ends.map(|end| zone.split_at(end)).find(|(region, _)| is_name(region));
    let (region, rest) = region?;
    let is_letter = matches!(rest.as_bytes(), [b'a'..=b'z']);
    let is_beyond = rest.starts_with('-') && rest.ends_with(|c: char| c.is_ascii_alphanumeric());
    (is_letter || is_beyond).then_some(region)
}

/// The region of a zone id, among known regions: `us-west-2` of `usw2-az1`.
pub fn of_zone_id<'r>(id: &str, regions: impl IntoIterator<Item = &'r str>) -> Option<&'r str> {
    let (short, zone) = id.split_once("-az")?;
    regions.into_iter().find(|region| is_digits(zone) && abbreviated(region) == short)
}

/// A region as zone ids write it: `usgw1` for `us-gov-west-1`.
fn abbreviated(region: &str) -> String {
    let mut parts = region.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |short, part| match part {
        "northeast" => short + "ne",
        "northwest" => short + "nw",
        "southeast" => short + "se",
        "southwest" => short + "sw",
        number if number.starts_with(|c: char| c.is_ascii_digit()) => short + number,
        word => short + &word[..word.len().min(1)],
    })
}

#[cfg(test)]
mod tests {
    use super::{OTHER_REGIONS, is_name, of_zone, of_zone_id};

    #[test]
    fn zone_ids_are_of_the_region_that_they_abbreviate() {
        let regions = ["us-east-1", "us-gov-west-1", "ap-southeast-2", "ca-central-1"];
        for (id, region) in [
            ("use1-az4", Some("us-east-1")),
            ("usgw1-az1", Some("us-gov-west-1")),
            ("apse2-az3", Some("ap-southeast-2")),
            ("cac1-az1", Some("ca-central-1")),
            ("usw2-az1", None),
            ("use1-az", None),
            ("us-east-1a", None),
        ] {
            assert_eq!(of_zone_id(id, regions), region, "{id}");
        }
    }

    #[test]
    fn zones_are_of_the_region_before_them() {
        for (zone, region) in [
            ("us-east-1a", Some("us-east-1")),
            ("us-gov-west-1b", Some("us-gov-west-1")),
            ("ap-southeast-2c", Some("ap-southeast-2")),
            ("us-west-2-lax-1a", Some("us-west-2")),
            ("us-east-1-wl1-bos-wlz-1", Some("us-east-1")),
            ("us-east-1", None),
            ("use1-az1", None),
            ("us-east-1ab", None),
            ("europe-west4-a", None),
            ("zone-a", None),
            ("", None),
        ] {
            assert_eq!(of_zone(zone), region, "{zone}");
        }
    }

    #[test]
    fn every_known_region_has_the_form() {
        assert!(OTHER_REGIONS.iter().all(|region| is_name(region)) && OTHER_REGIONS.is_sorted());
    }

    #[test]
    fn other_texts_have_not() {
        for text in [
            "",
            "-",
            "us-esat-1",
            "us-east-1a",
            "us-east",
            "us-east-0",
            "us-east-123",
            "US-EAST-1",
            "east-1",
            "us-west-2-lax-1",
            "eastus",
            "europe-west-4",
            "asia-northeast1",
            "${AWS_REGION}",
        ] {
            assert!(!is_name(text), "{text}");
        }
    }
}
