//! Explains durations, and the fields that contain them.

use gpulint_rules::facts::duration::{DurationField, NillableDuration, parse};
use gpulint_rules::karpenter::meaning;
use gpulint_rules::{Kind, Node};

use super::Place;
use super::words::{code, sentence};
use crate::lsp::view::View;

/// Fields in whole seconds. They are easily mistaken for minutes.
const SECONDS: [&str; 12] = [
    "activeDeadlineSeconds",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "initialDelaySeconds",
    "minReadySeconds",
    "periodSeconds",
    "pollingInterval",
    "progressDeadlineSeconds",
    "stabilizationWindowSeconds",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "ttlSecondsAfterFinished",
];
/// Minimum number of seconds for which the duration is written in words.
const LEAST: u64 = 90;

pub(super) fn of_place(_: &View<'_>, place: &Place<'_>) -> Option<String> {
    let path = place.path();
    let name = *path.last()?;
    let field = match name {
        "expireAfter" => DurationField::ExpireAfter,
        "consolidateAfter" => DurationField::ConsolidateAfter,
        "terminationGracePeriod" => DurationField::TerminationGracePeriod,
        _ => return of_seconds(place, name),
    };
    if !place.object.is(Kind::NODE_POOL) && !place.object.is(Kind::NODE_CLAIM) {
        return None;
    }
    let text = place.node.text()?;
    let length = match parse(field, text).ok()? {
        NillableDuration::Never => {
            let never = match field {
                DurationField::ExpireAfter => "no node expires",
                _ => "no node is consolidated, not even an empty one",
            };
            return Some(format!("{} `Never`: {never}.", code(name)));
        }
        NillableDuration::Seconds(seconds) => both(seconds),
    };
    let meaning = meaning::of_duration(name).map(|meaning| format!(" {}.", sentence(meaning)));
    Some(format!("{} {}: **{length}**.{}", code(name), code(text), meaning.unwrap_or_default()))
}

fn of_seconds(place: &Place<'_>, name: &str) -> Option<String> {
    let path = place.path();
    if let [
        ..,
        probe @ ("startupProbe" | "livenessProbe" | "readinessProbe"),
        "periodSeconds" | "failureThreshold" | "initialDelaySeconds",
    ] = path.as_slice()
    {
        return of_probe(&place.ancestor(path.len() - 1), probe);
    }
    let seconds = place.node.int().and_then(|number| u64::try_from(number).ok())?;
    if !SECONDS.contains(&name) || seconds < LEAST {
        return None;
    }
    Some(format!("{} {seconds}: **{}**.", code(name), in_words(seconds)))
}

/// The time after which a probe of a container counts as failed. The delay before the first probe counts only
/// for a startup probe: a container that fails later has no delay.
fn of_probe(probe: &Node<'_>, name: &str) -> Option<String> {
    let number = |field: &str, default: i64| {
        probe.get(field).int_or(default).and_then(|number| u64::try_from(number).ok())
    };
    let (period, failures) = (number("periodSeconds", 10)?, number("failureThreshold", 3)?);
    let delay = if name == "startupProbe" { number("initialDelaySeconds", 0)? } else { 0 };
    let total = period.checked_mul(failures)?.checked_add(delay)?;
    let delay = if delay > 0 { format!("{delay} s and then ") } else { String::new() };
    let end = match name {
        "startupProbe" => "the container has to answer in this time after its start, or it is restarted",
        "livenessProbe" => "a container that does not answer for this long is restarted",
        _ => "a pod that does not answer for this long gets no requests",
    };
    Some(format!("{delay}{failures} × {period} s: **{}**. {}.", in_words(total), sentence(end)))
}

/// A duration in days and in hours: `30 days (720 hours)`.
pub(super) fn both(seconds: u64) -> String {
    let words = in_words(seconds);
    if seconds >= 48 * 3600 && seconds.is_multiple_of(3600) {
        return format!("{words} ({} hours)", seconds / 3600);
    }
    words
}

/// A duration: `1 day 12 hours`.
pub(super) fn in_words(seconds: u64) -> String {
    let units = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let parts: Vec<String> = units
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}{}", if *number == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::{both, in_words};

    #[test]
    fn lengths_are_put_into_words() {
        for (seconds, words) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (90, "1 minute 30 seconds"),
            (5400, "1 hour 30 minutes"),
            (129_600, "1 day 12 hours"),
        ] {
            assert_eq!(in_words(seconds), words);
        }
        assert_eq!(both(2_592_000), "30 days (720 hours)");
        assert_eq!(both(7200), "2 hours");
    }
}
