//! Constraints on numbers.

use super::super::check::{KeyValue, TriggerCheck};
use super::super::scalers::ScalerKey;
use super::super::value::{KeyType, number};
use crate::facts::duration::GoDuration;
use crate::facts::text::ellipsize;
use crate::tree::node::Node;

/// The range of numbers that a key may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    Positive,
    NonNegative,
    NonZero,
    /// Replicas of a window. The largest wish of all triggers counts, so that no window can lower them.
    Replicas,
}

impl Sign {
    fn accepts(self, n: f64) -> bool {
        match self {
            Sign::Positive => n > 0.0,
            Sign::NonNegative => n >= 0.0,
            Sign::NonZero | Sign::Replicas => n != 0.0,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Sign::Positive => "a number above 0",
            Sign::NonNegative => "0 or more",
            Sign::NonZero | Sign::Replicas => "a number other than 0",
        }
    }

    fn help(self) -> String {
        match self {
            Sign::Replicas => {
                "a window can only add pods: write the hours in which they shall run, and how many".to_owned()
            }
            _ => format!("write {}", self.wanted()),
        }
    }
}

pub(super) fn sign(sign: Sign, key: &str, check: &mut TriggerCheck<'_>) {
    let Some((node, n)) = number_or_default(key, check) else { return };
    if sign.accepts(n) {
        return;
    }
    let message = match node.is_set() {
        true => format!("`{key}` is {n}"),
        false => check.needs(&format!("`{key}`")),
    };
    check.report(node, message, sign.help());
}

/// The number of a key, or its default, which is 0 if the table has none.
fn number_or_default<'a>(key: &str, check: &TriggerCheck<'a>) -> Option<(Node<'a>, f64)> {
    match check.value(key) {
        KeyValue::Text(node, text) => Some((node, amount(check.find_key(key)?, text)?)),
        KeyValue::Absent => {
            let found = check.find_key(key)?;
            let n = match found.default {
                Some(default) => amount(found, default)?,
                // A missing required key is reported elsewhere.
                None if found.required => return None,
                None => 0.0,
            };
            Some((check.metadata.get(key), n))
        }
        KeyValue::Unknown | KeyValue::Hidden(_) => None,
    }
}

/// The number in a text, for a duration in nanoseconds.
fn amount(key: &ScalerKey, text: &str) -> Option<f64> {
    match key.kind {
        KeyType::Duration => {
            GoDuration::parse(text).ok().map(|d| d.nanoseconds() as f64).or_else(|| number(text))
        }
        _ => number(text),
    }
}

pub(super) fn below(key: &str, limit: &str, check: &mut TriggerCheck<'_>) {
    if let (Some((node, n)), Some((other, most))) =
        (number_or_default(key, check), number_or_default(limit, check))
        && n >= most
    {
        let node = if node.is_set() { node } else { other };
        check.report(node, format!("`{key}` is {n}, not below `{limit}`, {most}"), "write a smaller number");
    }
}

pub(super) fn any_positive(keys: &[&str], check: &mut TriggerCheck<'_>) {
    let value = |key: &str| match check.value(key) {
        KeyValue::Unknown | KeyValue::Hidden(_) => None,
        KeyValue::Absent | KeyValue::Text(..) => Some(check.effective(key).and_then(number).unwrap_or(0.0)),
    };
    if keys.iter().all(|key| value(key).is_some_and(|n| n < 1.0)) {
        let message = check.needs(&format!("a target such as `{}`", keys[0]));
        check.report(check.metadata.clone(), message, "write a target of 1 or more");
    }
}

pub(super) fn differs_from(key: &str, none: &str, check: &mut TriggerCheck<'_>) {
    if check.effective(key) == Some(none) {
        let node = check.node(key).unwrap_or_else(|| check.metadata.get(key));
        let help = "without it KEDA cannot build the scaler, and nothing scales";
        check.report(node, check.needs(&format!("`{key}`")), help);
    }
}

pub(super) fn min(key: &str, least: f64, check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(key)
        && number(text).is_some_and(|n| n != 0.0 && n < least)
    {
        check.report(node, format!("`{key}` is {text}, below {least}"), format!("write {least} or more"));
    }
}

pub(super) fn range(key: &str, from: f64, to: f64, check: &mut TriggerCheck<'_>) {
    if let Some((node, text)) = check.text(key)
        && number(text).is_some_and(|n| !(from..=to).contains(&n))
    {
        let message = format!("`{key}` is {}, outside {from} to {to}", ellipsize(text));
        check.report(node, message, format!("write a number from {from} to {to}"));
    }
}

pub(super) fn multiple(key: &str, unit: &str, check: &mut TriggerCheck<'_>) {
    let whole = |key: &str| check.effective(key).and_then(|text| text.parse::<i64>().ok());
    if let (Some(n), Some(size)) = (whole(key), whole(unit))
        && size > 0
        && (n < 0 || n % size != 0)
    {
        let node = check.node(key).or_else(|| check.node(unit));
        let node = node.unwrap_or_else(|| check.metadata.clone());
        let message = format!("`{key}` is {n}, not a multiple of `{unit}`, {size}");
        check.report(node, message, format!("write a multiple of {size}"));
    }
}
