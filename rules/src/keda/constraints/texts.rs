//! Constraints on texts and lists.

use super::super::check::{TriggerCheck, unsupported_value};
use super::super::formats::Format;
use crate::facts::cron::Schedule;
use crate::facts::text::ellipsize;
use crate::facts::timezone;

pub(super) fn format(format: &Format, key: &str, check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(key)
        && !(format.accepts)(text)
    {
        let message = format!("`{key}` is `{}`, not {}", ellipsize(text), format.wanted);
        check.report(node, message, format!("write {}", format.wanted));
    }
}

pub(super) fn one_of_values(key: &str, values: &[&str], any_case: bool, check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(key)
        && !values.iter().any(|v| *v == text || (any_case && v.eq_ignore_ascii_case(text)))
    {
        let (message, help) = unsupported_value(key, text, values);
        check.report(node, message, help);
    }
}

pub(super) fn enum_at_poll(key: &str, values: &[&str], check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(key)
        && !values.contains(&text)
    {
        let (message, help) = unsupported_value(key, text, values);
        check.report(node, format!("{message}: every poll fails"), help);
    }
}

pub(super) fn items(key: &str, values: &[&str], check: &mut TriggerCheck<'_>) {
    let separator = check.find_key(key).map_or(',', |found| found.separator);
    let Some((node, text)) = check.text(key) else { return };
    // An item that no scaler knows is reported with the type of the key.
    let known = check.find_key(key).map_or(&[][..], |found| found.values.as_slice());
    let odd =
        text.split(separator).map(str::trim).find(|item| known.contains(item) && !values.contains(item));
    if let Some(odd) = odd {
        let message = format!("{} trigger does not support `{odd}` in `{key}`", check.with_article());
        check.report(node, message, format!("write one of `{}`", values.join("`, `")));
    }
}

pub(super) fn differ(first: &str, second: &str, check: &mut TriggerCheck<'_>) {
    if let (Some((_, a)), Some((node, b))) = (check.text(first), check.text(second))
        && a == b
    {
        let message = format!("`{second}` is the same as `{first}`");
        check.report(node, message, "write two different times");
    }
}

pub(super) fn same_length(first: &str, second: &str, check: &mut TriggerCheck<'_>) {
    if let (Some((_, a)), Some((node, b))) = (check.text(first), check.text(second)) {
        let separator = check.find_key(first).map_or(',', |k| k.separator);
        let (a, b) = (a.split(separator).count(), b.split(separator).count());
        if a != b {
            let message = format!("`{second}` has {b} items, `{first}` has {a}");
            check.report(node, message, "write as many items in both");
        }
    }
}

pub(super) fn cron(key: &str, check: &mut TriggerCheck<'_>) {
    let Some((node, text)) = check.text(key) else { return };
    // KEDA accepts a time zone before the fields here.
    let zoned = text.starts_with("TZ=") || text.starts_with("CRON_TZ=");
    let fields = text.split_whitespace().count();
    if !zoned && (fields != 5 || Schedule::parse(text).is_err()) {
        check.report(
            node,
            format!("`{key}` is not a cron schedule of five fields"),
            "write minute, hour, day of month, month and weekday",
        );
    }
}

/// Go reads the file of a zone, and has two names of its own; `posix` and `right` are folders with all zones.
pub(super) fn zone(key: &str, check: &mut TriggerCheck<'_>) {
    let Some((node, text)) = check.text(key) else { return };
    let name = ["posix/", "right/"].iter().find_map(|folder| text.strip_prefix(folder)).unwrap_or(text);
    if timezone::is_known(name) || matches!(name, "" | "Local" | "localtime") {
        return;
    }
    // Abbreviations and offsets are no typos.
    let near = timezone::nearest(name).filter(|_| name.contains('/'));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write a name of the IANA database, such as `Europe/Berlin` or `Etc/GMT-2`".to_owned(),
    };
    check.report(node, format!("there is no time zone `{}`: every poll fails", ellipsize(text)), help);
}
