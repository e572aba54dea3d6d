//! Conditions on the keys of a trigger, as written in `constraints.txt`.

use super::check::{KeyValue, TriggerCheck};
use super::scalers::Scaler;
use super::value::boolean;
use crate::tree::node::Node;

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: &'static str,
    pub(super) test: Test,
}

#[derive(Debug)]
pub(super) enum Test {
    /// `!KEY`
    Not(Box<Test>),
    /// `modifiers`: a formula replaces the metrics of the ScaledObject.
    Modifiers,
    /// `identity=PROVIDER`: the provider of the pod identity.
    Identity(&'static str),
    /// `KEY=V|W`: the value of the key, or its default, is one of these.
    Equals(&'static str, Vec<&'static str>),
    /// `KEY~=V`: the value of the key is this one, in any case.
    EqualsInAnyCase(&'static str, &'static str),
    /// `KEY~ITEM`: the list has this item.
    Holds(&'static str, &'static str),
    /// `KEY`
    Present(&'static str),
    /// `A|B`
    Any(Vec<Test>),
    /// `A+B`
    All(Vec<Test>),
}

impl Condition {
    pub(super) fn parse(text: &'static str, scaler: &Scaler) -> Result<Condition, String> {
        Ok(Condition { text, test: Test::parse(text, scaler)? })
    }

    /// Whether the condition is true. `None` if this is not known.
    pub(super) fn evaluate(&self, check: &TriggerCheck<'_>) -> Option<bool> {
        self.test.evaluate(check)
    }

    /// The node of the first key that is present.
    pub(super) fn node<'a>(&self, check: &TriggerCheck<'a>) -> Option<Node<'a>> {
        self.test.node(check)
    }

    /// The condition in words, for a message, with names in backticks.
    pub(super) fn in_words(&self) -> String {
        self.text.replace('+', "` with `").replace('|', "` or `")
    }
}

impl Test {
    fn parse(text: &'static str, scaler: &Scaler) -> Result<Test, String> {
        let key = |name| scaler.checked_key(name);
        let each = |separator| {
            text.split(separator).map(|part| Test::parse(part, scaler)).collect::<Result<Vec<_>, _>>()
        };
        Ok(if let Some(inner) = text.strip_prefix('!') {
            Test::Not(Box::new(Test::parse(inner, scaler)?))
        } else if text == "modifiers" {
            Test::Modifiers
        } else if let Some(provider) = text.strip_prefix("identity=") {
            Test::Identity(provider)
        } else if let Some((name, value)) = text.split_once("~=") {
            Test::EqualsInAnyCase(key(name)?, value)
        } else if let Some((name, values)) = text.split_once('=') {
            Test::Equals(key(name)?, values.split('|').collect())
        } else if let Some((name, item)) = text.split_once('~') {
            Test::Holds(key(name)?, item)
        } else if text.contains('|') {
            Test::Any(each('|')?)
        } else if text.contains('+') {
            Test::All(each('+')?)
        } else {
            Test::Present(key(text)?)
        })
    }

    fn evaluate(&self, check: &TriggerCheck<'_>) -> Option<bool> {
        match self {
            Test::Not(inner) => inner.evaluate(check).map(|holds| !holds),
            Test::Modifiers => check.uses_modifiers(),
            Test::Identity(provider) => check.identity().map(|identity| identity == *provider),
            Test::Equals(key, values) => match check.value(key) {
                KeyValue::Unknown | KeyValue::Hidden(_) => None,
                KeyValue::Absent | KeyValue::Text(..) => {
                    let effective = check.effective(key);
                    Some(effective.is_some_and(|text| values.iter().any(|value| is_equal(text, value))))
                }
            },
            Test::EqualsInAnyCase(key, value) => match check.value(key) {
                KeyValue::Unknown | KeyValue::Hidden(_) => None,
                KeyValue::Absent => Some(false),
                KeyValue::Text(_, text) => Some(text.eq_ignore_ascii_case(value)),
            },
            Test::Holds(key, item) => match check.value(key) {
                KeyValue::Unknown | KeyValue::Hidden(_) => None,
                KeyValue::Absent => Some(false),
                KeyValue::Text(_, text) => {
                    let separator = check.find_key(key)?.separator;
                    Some(text.split(separator).any(|i| i.trim() == *item))
                }
            },
            Test::Present(key) => check.is_present(key),
            Test::Any(tests) => {
                let each: Vec<Option<bool>> = tests.iter().map(|test| test.evaluate(check)).collect();
                match each.iter().all(|one| *one == Some(false)) {
                    true => Some(false),
                    false => each.contains(&Some(true)).then_some(true),
                }
            }
            Test::All(tests) => {
                let each: Vec<Option<bool>> = tests.iter().map(|test| test.evaluate(check)).collect();
                match each.iter().all(|one| *one == Some(true)) {
                    true => Some(true),
                    false => each.contains(&Some(false)).then_some(false),
                }
            }
        }
    }

    fn node<'a>(&self, check: &TriggerCheck<'a>) -> Option<Node<'a>> {
        match self {
            Test::Not(inner) => inner.node(check),
            Test::Modifiers | Test::Identity(_) => None,
            Test::Equals(key, _)
            | Test::EqualsInAnyCase(key, _)
            | Test::Holds(key, _)
            | Test::Present(key) => check.node(key),
            Test::Any(tests) | Test::All(tests) => tests.iter().find_map(|test| test.node(check)),
        }
    }
}

/// Whether a text equals the value. If the value is a boolean, both are compared as booleans.
fn is_equal(text: &str, value: &str) -> bool {
    match boolean(value) {
        Some(flag) => boolean(text) == Some(flag),
        None => value == text,
    }
}
