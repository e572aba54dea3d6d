//! Constraints on the presence of keys.

use super::super::check::TriggerCheck;
use super::super::conditions::{Condition, Test};

const KEEP_ONE: &str = "keep one of the two";
const NOT_BUILT: &str = "without it KEDA cannot build the scaler, and nothing scales";

/// Checks the arguments of `need`. Each is a key, or a key with its value.
pub(super) fn fields(conditions: Vec<Condition>) -> Result<Vec<Condition>, String> {
    match conditions.iter().find(|one| !matches!(one.test, Test::Present(_) | Test::Equals(..))) {
        Some(other) => Err(format!("`{}` is neither KEY nor KEY=VALUE", other.text)),
        None => Ok(conditions),
    }
}

pub(super) fn need(fields: &[Condition], because: &str, check: &mut TriggerCheck<'_>) {
    for field in fields {
        if field.evaluate(check) != Some(false) {
            continue;
        }
        if let Test::Equals(key, values) = &field.test {
            let value = values.join("|");
            check.report(
                check.metadata.get(key),
                format!("`{key}` must be `{value}` with `{because}`"),
                format!("write `{key}: {value}`"),
            );
            if check.is_present(key) == Some(false) {
                check.blame_misspelling([*key]);
            }
        } else if check.find_key(field.text).is_some_and(|key| key.default.is_none()) {
            check.report_missing(field.text);
        }
    }
}

pub(super) fn any_of(conditions: &[Condition], check: &mut TriggerCheck<'_>) {
    if conditions.iter().all(|condition| condition.evaluate(check) == Some(false)) {
        let names: Vec<String> = conditions.iter().map(Condition::in_words).collect();
        let message = check.needs(&format!("one of `{}`", names.join("`, `")));
        check.report(check.metadata.clone(), message, NOT_BUILT);
        check.blame_misspelling(conditions.iter().filter_map(|condition| match condition.test {
            Test::Present(key) => Some(key),
            _ => None,
        }));
    }
}

pub(super) fn one_of(conditions: &[Condition], check: &mut TriggerCheck<'_>) {
    any_of(conditions, check);
    let present = conditions.iter().filter(|condition| condition.evaluate(check) == Some(true));
    let mut present = present.filter_map(|condition| Some((condition.text, condition.node(check)?)));
    if let (Some((first, _)), Some((second, node))) = (present.next(), present.next()) {
        check.report(node, format!("`{second}` excludes `{first}`"), KEEP_ONE);
    }
}

pub(super) fn not_both(first: &Condition, second: &Condition, check: &mut TriggerCheck<'_>) {
    if first.evaluate(check) == Some(true)
        && second.evaluate(check) == Some(true)
        && let Some(node) = second.node(check)
    {
        let message = format!("`{}` excludes `{}`", second.in_words(), first.in_words());
        check.report(node, message, KEEP_ONE);
    }
}

pub(super) fn together(keys: &[&str], check: &mut TriggerCheck<'_>) {
    let present = keys.iter().find(|key| check.is_present(key) == Some(true));
    let present = present.and_then(|key| Some((key, check.node(key)?)));
    let lacking = keys.iter().find(|key| check.is_present(key) == Some(false));
    if let (Some((key, node)), Some(lacking)) = (present, lacking) {
        check.report(node, format!("`{key}` needs `{lacking}` beside it"), "write both, or neither");
        check.blame_misspelling([*lacking]);
    }
}

pub(super) fn forbid(key: &str, because: &str, check: &mut TriggerCheck<'_>) {
    if let Some(node) = check.node(key) {
        check.report(node, format!("`{key}` is rejected with `{because}`"), KEEP_ONE);
    }
}

pub(super) fn no_metric_type(key: &str, check: &mut TriggerCheck<'_>) {
    let beside = check.trigger.node.get("metricType");
    if let Some(node) = check.node(key)
        && beside.text().is_some_and(|text| !text.is_empty())
    {
        let message = format!("`{key}` excludes the trigger's `metricType`");
        check.report(node, message, format!("remove `{key}`, which is deprecated"));
    }
}

pub(super) fn contains_or_need(key: &str, text: &str, other: &str, check: &mut TriggerCheck<'_>) {
    if let Some((_, written)) = check.text(key)
        && !written.contains(text)
        && check.is_present(other) == Some(false)
    {
        check.report_missing(other);
    }
}

pub(super) fn port_in(port: &str, address: &str, check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(address)
        && check.is_present(port) == Some(false)
    {
        let parts: Vec<&str> = text.split(':').collect();
        let inside = matches!(parts.as_slice(), [_, port] if port.parse::<i64>().is_ok());
        if !inside {
            let message = format!("`{address}` has no port, and there is no `{port}`");
            check.report(node, message, format!("write `{port}`"));
            check.blame_misspelling([port]);
        }
    }
}
