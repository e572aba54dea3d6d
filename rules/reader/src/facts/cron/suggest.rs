//! Corrections of schedules whose intended meaning is unambiguous.

use super::Schedule;
use super::field::{FieldName, WEEKDAYS, read_field, read_value};

/// A corrected schedule that parses, for mistakes with one certain meaning; `None` if the text is valid or
/// ambiguous. Corrections: a `TZ=UTC`/`CRON_TZ=UTC` prefix is removed, `@Daily` is converted to lower case,
/// weekday `7` becomes `0`, backward or Sunday-ended weekday ranges become lists (`sat-sun` -> `sat,sun`),
/// full day and month names are shortened, and a weekday field that names the whole week (`1-7`) becomes `*`,
/// but only if the day of month is `*`.
pub fn suggest(text: &str) -> Option<String> {
    if Schedule::parse(text).is_ok() {
        return None;
    }
    let mut body = text.trim();
    for prefix in ["TZ=UTC", "CRON_TZ=UTC"] {
        if let Some(rest) = body.strip_prefix(prefix)
            && rest.starts_with(char::is_whitespace)
        {
            body = rest.trim_start();
            break;
        }
    }
    let out = if body.starts_with('@') {
        body.to_ascii_lowercase()
    } else {
        let fields: Vec<&str> = body.split_whitespace().collect();
        let &[minute, hour, dom, month, dow] = fields.as_slice() else { return None };
        let dow = repair_weekdays(dow, dom)?;
        format!("{minute} {hour} {dom} {} {dow}", shorten(month, FieldName::Month))
    };
    Schedule::parse(&out).is_ok().then_some(out)
}

fn repair_weekdays(text: &str, dom: &str) -> Option<String> {
    if read_field(text, FieldName::DayOfWeek).is_ok() {
        return Some(text.to_owned());
    }
    if matches!(text, "1-7" | "0-7") {
        return matches!(dom, "*" | "?").then(|| "*".to_owned());
    }
    let mut items: Vec<String> = Vec::new();
    for item in shorten(text, FieldName::DayOfWeek).split(',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let day = |t: &str| match t {
            "7" => Some(7),
            _ => read_value(t, FieldName::DayOfWeek).ok().filter(|v| *v < 7),
        };
        match (day(from), day(to)) {
            (Some(a), Some(b)) if a > b || b == 7 || a == 7 => {
                let count = (b + 7 - a) % 7;
                let named = from.bytes().all(|c| c.is_ascii_alphabetic());
                for v in a..=a + count {
                    let v = v % 7;
                    let name = WEEKDAYS.get(usize::try_from(v).ok()?)?;
                    let name = if named { (*name).to_owned() } else { v.to_string() };
                    if !items.contains(&name) {
                        items.push(name);
                    }
                }
            }
            _ => items.push(item.to_owned()),
        }
    }
    Some(items.join(","))
}

/// Replaces full English names by their first three letters, which robfig/cron accepts.
fn shorten(text: &str, field: FieldName) -> String {
    const FULL: [&str; 19] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let full = if field == FieldName::Month { &FULL[7..] } else { &FULL[..7] };
    let mut out = String::new();
    for piece in text.split_inclusive(['-', ',', '/']) {
        let (word, end) = piece.split_at(piece.trim_end_matches(['-', ',', '/']).len());
        let known = full.iter().any(|n| n.eq_ignore_ascii_case(word));
        out.push_str(if known { &word[..3] } else { word });
        out.push_str(end);
    }
    out
}
