//! Checks whether KEDA can build a scaler from a trigger: missing keys, values that cannot be parsed, keys
//! that exclude each other.
//!
//! A TriggerAuthentication shows which parameters exist, not their values. An environment variable is read if
//! the container is in the input. A problem that depends on an unknown value is not reported.

use std::cell::Cell;

use super::scalers::{KeySource, Scaler, ScalerKey};
use super::sources::Authentication;
use super::synonyms::intended_key;
use super::value::{KeyType, number, plain_number};
use super::{Trigger, with_article};
use crate::facts::text::ellipsize;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::environment::{Environment, Variable};

#[derive(Debug)]
pub struct TriggerProblem<'a> {
    /// The field to report.
    pub node: Node<'a>,
    /// The keys that the problem is about. They identify it.
    pub keys: String,
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// Whether the problem depends on a parameter that the TriggerAuthentication does not have.
    pub reads_authentication: bool,
    /// Whether the problem depends on the environment of the target.
    pub reads_environment: bool,
    /// The variable that the container lacks.
    pub missing_variable: Option<&'a str>,
    /// The absent key, if `node` is a key of the metadata that is most likely meant to be it.
    pub meant: Option<&'static str>,
    /// The key that is nowhere, if a TriggerAuthentication may give it.
    pub absent: Option<&'static str>,
}

/// The parts of the ScaledObject and of other objects that the check of a trigger reads.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// Whether a formula replaces the metrics of the ScaledObject. `None` if this is not known.
    pub modifiers: Option<bool>,
    pub authentication: Authentication<'a>,
    pub environment: Environment<'a>,
}

/// The value of a key, as far as it is known.
pub(super) enum KeyValue<'a> {
    Absent,
    Unknown,
    /// The key is present, but its value is not known. The node is the field that names the key.
    Hidden(Node<'a>),
    Text(Node<'a>, &'a str),
}

/// The check of a trigger: its input, and the problems found so far.
pub(super) struct TriggerCheck<'a> {
    pub(super) trigger: Trigger<'a>,
    pub(super) metadata: Node<'a>,
    /// Whether a key of the metadata names an environment variable.
    has_env_key: bool,
    scaler: &'static Scaler,
    around: &'a Surroundings<'a>,
    /// The keys that the current key or constraint is about.
    keys: &'static str,
    /// Whether the check has read the TriggerAuthentication, and whether it has read the environment.
    used: (Cell<bool>, Cell<bool>),
    problems: Vec<TriggerProblem<'a>>,
}

/// All problems that the scaler would report for the metadata of a trigger.
pub fn problems<'a>(
    trigger: Trigger<'a>,
    scaler: &'static Scaler,
    around: &'a Surroundings<'a>,
) -> Vec<TriggerProblem<'a>> {
    let Some(mut check) = TriggerCheck::of(trigger, scaler, around) else { return Vec::new() };
    for key in &scaler.keys {
        check.run(key.name, |check| check.check_key(key));
    }
    for constraint in &scaler.constraints {
        check.run(constraint.keys(), |check| constraint.check(check));
    }
    check.problems
}

/// The variables that keys of a trigger name and that the container lacks, whether the scaler needs a value or not.
pub(crate) fn unset_variables<'a>(
    trigger: Trigger<'a>,
    scaler: &'static Scaler,
    around: &'a Surroundings<'a>,
) -> Vec<TriggerProblem<'a>> {
    let Some(mut check) = TriggerCheck::of(trigger, scaler, around) else { return Vec::new() };
    for key in &scaler.keys {
        check.run(key.name, |check| {
            if check.has_env_key && check.names_unset_variable(key) {
                check.report_missing(key.name);
            }
        });
    }
    check.problems
}

impl<'a> TriggerCheck<'a> {
    /// `None` if the metadata cannot be read.
    fn of(trigger: Trigger<'a>, scaler: &'static Scaler, around: &'a Surroundings<'a>) -> Option<Self> {
        let metadata = trigger.metadata();
        if metadata.is_unknown() || (metadata.is_set() && !metadata.is_mapping()) {
            return None;
        }
        let has_env_key = metadata.entries().iter().any(|(key, _)| key.ends_with("FromEnv"));
        let (used, problems) = (Default::default(), Vec::new());
        Some(TriggerCheck { trigger, metadata, has_env_key, scaler, around, keys: "", used, problems })
    }

    /// Whether nothing gives a key a value but a variable that the container does not define.
    fn names_unset_variable(&self, key: &ScalerKey) -> bool {
        let is_unset = |name: &str| {
            let node = self.metadata.get(&format!("{name}FromEnv"));
            node.text().is_some_and(|variable| {
                !variable.is_empty() && matches!(self.around.environment.variable(variable), Variable::Absent)
            })
        };
        // Credentials for AWS are not read where KEDA signs as itself, or with a pod identity.
        let is_unread = || {
            let is_operator = self.metadata.get("identityOwner").text() == Some("operator");
            key.name.starts_with("aws") && (is_operator || self.identity() != Some("none"))
        };
        key.reads(KeySource::Env)
            && key.names().any(is_unset)
            && !is_unread()
            && !key.names().any(|name| self.metadata.get(name).is_set())
            && matches!(self.resolve(key), KeyValue::Absent)
    }

    /// Runs the check of a key or a constraint, and records in its problems what the check has read.
    fn run(&mut self, keys: &'static str, check: impl FnOnce(&mut Self)) {
        self.keys = keys;
        self.used = Default::default();
        let before = self.problems.len();
        check(self);
        for problem in &mut self.problems[before..] {
            problem.reads_authentication = self.used.0.get();
            problem.reads_environment = self.used.1.get();
        }
    }

    pub(super) fn report(&mut self, node: Node<'a>, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(TriggerProblem {
            node,
            keys: self.keys.to_owned(),
            message: message.into(),
            help: help.into(),
            reads_authentication: false,
            reads_environment: false,
            missing_variable: None,
            meant: None,
            absent: None,
        });
    }

    /// Moves the last problem, that keys are absent, to a key that is most likely one of them: it is one mistake.
    pub(super) fn blame_misspelling<'n>(&mut self, absent: impl IntoIterator<Item = &'n str>) {
        let found = absent.into_iter().find_map(|name| self.misspelling_of(name));
        if let (Some((written, node, meant)), Some(problem)) = (found, self.problems.last_mut()) {
            problem.help = format!("did you mean `{meant}`? KEDA does not read `{}`", ellipsize(written));
            problem.node = node;
            problem.meant = Some(meant);
        }
    }

    /// The key of the metadata that is most likely meant to be an absent one.
    fn misspelling_of(&self, absent: &str) -> Option<(&'a str, Node<'a>, &'static str)> {
        let key = self.find_key(absent)?;
        self.metadata.entries().into_iter().filter(|(written, _)| !is_placeholder(written)).find_map(
            |(written, node)| {
                let meant = intended_key(self.scaler, written)?;
                key.names().any(|name| name == meant).then_some((written, node, meant))
            },
        )
    }

    /// Whether a formula replaces the metrics of the ScaledObject. `None` if this is not known.
    pub(super) fn uses_modifiers(&self) -> Option<bool> {
        self.around.modifiers
    }

    /// Whether the TriggerAuthentication gives a parameter. `None` if this is not known.
    pub(super) fn has_parameter(&self, name: &str) -> Option<bool> {
        match &self.around.authentication {
            Authentication::None => Some(false),
            Authentication::Unknown => None,
            Authentication::Known(parameters) => {
                self.used.0.set(true);
                Some(parameters.names.contains(&name))
            }
        }
    }

    /// The provider of the pod identity. `None` if this is not known.
    pub(super) fn identity(&self) -> Option<&'a str> {
        match &self.around.authentication {
            Authentication::None => Some("none"),
            Authentication::Unknown => None,
            Authentication::Known(parameters) => {
                self.used.0.set(true);
                Some(parameters.identity)
            }
        }
    }

    pub(super) fn find_key(&self, name: &str) -> Option<&'static ScalerKey> {
        self.scaler.key(name)
    }

    pub(super) fn value(&self, name: &str) -> KeyValue<'a> {
        self.find_key(name).map_or(KeyValue::Unknown, |key| self.resolve(key))
    }

    fn resolve(&self, key: &ScalerKey) -> KeyValue<'a> {
        for from in &key.sources {
            match self.resolve_from(key, *from) {
                KeyValue::Absent => {}
                found => return found,
            }
        }
        KeyValue::Absent
    }

    pub(super) fn resolve_from(&self, key: &ScalerKey, from: KeySource) -> KeyValue<'a> {
        match from {
            KeySource::Authentication => self.in_authentication(key),
            KeySource::Env if !self.has_env_key => KeyValue::Absent,
            KeySource::Env => self.in_environment(key),
            KeySource::Metadata => self.in_metadata(key),
        }
    }

    fn in_authentication(&self, key: &ScalerKey) -> KeyValue<'a> {
        for name in key.names() {
            match self.has_parameter(name) {
                Some(false) => {}
                Some(true) => return KeyValue::Hidden(self.trigger.node.get("authenticationRef")),
                None => return KeyValue::Unknown,
            }
        }
        KeyValue::Absent
    }

    fn in_environment(&self, key: &ScalerKey) -> KeyValue<'a> {
        for name in key.names() {
            let node = self.metadata.get(&format!("{name}FromEnv"));
            if node.is_unknown() {
                return KeyValue::Unknown;
            }
            let Some(variable) = node.text() else { continue };
            self.used.1.set(true);
            match self.around.environment.variable(variable) {
                Variable::Unknown => return KeyValue::Unknown,
                Variable::Hidden => return KeyValue::Hidden(node),
                Variable::Text(text) if !text.trim().is_empty() => {
                    return KeyValue::Text(node, text.trim());
                }
                Variable::Text(_) | Variable::Absent => {}
            }
        }
        KeyValue::Absent
    }

    fn in_metadata(&self, key: &ScalerKey) -> KeyValue<'a> {
        for name in key.names() {
            let node = self.metadata.get(name);
            if !node.is_set() && !node.is_unknown() {
                continue;
            }
            match node.text() {
                Some(text) if text.trim().is_empty() => {}
                Some(text) => return KeyValue::Text(node, text.trim()),
                // Another check reports a value that is not text; here it is unknown.
                None => return KeyValue::Unknown,
            }
        }
        KeyValue::Absent
    }

    /// The value, or the default if the key is absent. `None` if it is not known, or if the key is absent and
    /// has no default.
    pub(super) fn effective(&self, name: &str) -> Option<&'a str> {
        match self.value(name) {
            KeyValue::Text(_, text) => Some(text),
            KeyValue::Absent => self.find_key(name)?.default,
            KeyValue::Unknown | KeyValue::Hidden(_) => None,
        }
    }

    /// The text of a key and its node. `None` if it is absent or not known.
    pub(super) fn text(&self, name: &str) -> Option<(Node<'a>, &'a str)> {
        match self.value(name) {
            KeyValue::Text(node, text) => Some((node, text)),
            KeyValue::Absent | KeyValue::Unknown | KeyValue::Hidden(_) => None,
        }
    }

    /// The node that names a key, even if its value is not known.
    pub(super) fn node(&self, name: &str) -> Option<Node<'a>> {
        match self.value(name) {
            KeyValue::Text(node, _) | KeyValue::Hidden(node) => Some(node),
            KeyValue::Absent | KeyValue::Unknown => None,
        }
    }

    /// Whether a key is present. `None` if this is not known.
    pub(super) fn is_present(&self, name: &str) -> Option<bool> {
        let is_number = self.find_key(name).is_some_and(|key| key.kind.is_number());
        match self.value(name) {
            KeyValue::Unknown => None,
            KeyValue::Absent => Some(false),
            // A scaler cannot distinguish a number of 0 from an absent one.
            KeyValue::Text(_, text) if is_number => Some(number(text) != Some(0.0)),
            KeyValue::Hidden(_) | KeyValue::Text(..) => Some(true),
        }
    }

    /// The message that the trigger needs something.
    pub(super) fn needs(&self, what: &str) -> String {
        format!("{} trigger needs {what}", self.with_article())
    }

    pub(super) fn with_article(&self) -> String {
        with_article(self.scaler.name)
    }

    fn check_key(&mut self, key: &ScalerKey) {
        match self.resolve(key) {
            KeyValue::Unknown | KeyValue::Hidden(_) => {}
            KeyValue::Absent if key.required && key.default.is_none() => {
                self.report_missing(key.name);
            }
            KeyValue::Absent => {}
            // A key that a version rejects is reported as such; its value does not matter.
            KeyValue::Text(..) if key.rejected_since.is_some() => {}
            KeyValue::Text(node, text) => match key.kind.rejects(text, key.separator, key.ranges) {
                Some(wanted) => {
                    let plain = plain_number(text).filter(|plain| {
                        key.kind.is_number() && key.kind.rejects(plain, ',', false).is_none()
                    });
                    let help = match plain {
                        Some(plain) => format!("write \"{plain}\""),
                        None => format!("write {wanted}"),
                    };
                    let message = format!("`{}` is `{}`, not {wanted}", key.name, ellipsize(text));
                    self.report(node, message, help);
                }
                None => self.check_values(key, &node, text),
            },
        }
    }

    /// Checks that a value is one of the values of its key, and that no two items of a list exclude each
    /// other.
    fn check_values(&mut self, key: &ScalerKey, node: &Node<'a>, text: &str) {
        if key.values.is_empty() && key.exclusive_values.is_empty() {
            return;
        }
        let items: Vec<&str> = match key.kind {
            KeyType::List => text.split(key.separator).map(str::trim).collect(),
            _ => vec![text],
        };
        let odd = items.iter().find(|i| !key.values.is_empty() && !key.values.contains(i));
        if let Some(odd) = odd {
            let (message, help) = unsupported_value(key.name, odd, &key.values);
            self.report(node.clone(), message, help);
        }
        let exclusive: Vec<&str> = items.into_iter().filter(|i| key.exclusive_values.contains(i)).collect();
        if let [first, second, ..] = exclusive.as_slice() {
            self.report(
                node.clone(),
                format!("`{}` holds both `{first}` and `{second}`", key.name),
                format!("keep one of `{}`", key.exclusive_values.join("`, `")),
            );
        }
    }

    /// Reports a missing key, at its node if it is blank or names a variable without a value.
    pub(super) fn report_missing(&mut self, name: &str) {
        let Some(key) = self.find_key(name) else { return };
        let metadata = &self.metadata;
        let written = key.names().map(|n| metadata.get(n)).find(Node::is_set);
        let variable = key.names().map(|n| metadata.get(&format!("{n}FromEnv"))).find(Node::is_set);
        let in_metadata = key.reads(KeySource::Metadata);
        let from_env = key.reads(KeySource::Env);
        let blank = written.as_ref().and_then(Node::text).is_none_or(|text| text.trim().is_empty());
        let message = match (&written, &variable) {
            (Some(_), _) if in_metadata && blank => {
                format!("`{}` is blank, which counts as absent", key.name)
            }
            (Some(_), _) if in_metadata => format!("`{}` is 0, which counts as absent", key.name),
            (_, Some(variable)) if from_env => {
                let variable = ellipsize(variable.text().unwrap_or_default());
                let container = self.around.environment.container_name();
                let container =
                    container.map_or("the container".to_owned(), |name| format!("container `{name}`"));
                format!("{container} has no variable `{variable}` with a value for `{}`", key.name)
            }
            _ => self.needs(&format!("`{}`", key.name)),
        };
        let is_of_variable = variable.is_some() && from_env && written.is_none();
        let missing = variable.as_ref().filter(|_| is_of_variable).and_then(Node::text);
        let help = if is_of_variable {
            "KEDA reads the `env` of the target's container, and not what its image defines".to_owned()
        } else if in_metadata {
            "without it KEDA cannot build the scaler, and nothing scales".to_owned()
        } else if from_env {
            format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name)
        } else {
            "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
        };
        let node = match (&written, &variable) {
            (Some(node), _) if in_metadata => node.clone(),
            (_, Some(node)) if from_env => node.clone(),
            _ => metadata.get(key.name),
        };
        let is_absent = written.is_none() && variable.is_none();
        self.report(node, message, help);
        if let Some(problem) = self.problems.last_mut() {
            problem.missing_variable = missing;
            let is_parameter = is_absent && key.reads(KeySource::Authentication);
            problem.absent = is_parameter.then_some(key.name);
        }
        if is_absent {
            self.blame_misspelling([key.name]);
        }
    }
}

/// The message and the help for a value that is not one of the values of the key.
pub(super) fn unsupported_value(key: &str, text: &str, values: &[&str]) -> (String, String) {
    let near = crate::facts::suggest::nearest(text, values.iter().copied());
    let help = match near {
        Some(near) => format!("write `{near}`"),
        None if values.iter().map(|v| v.len() + 4).sum::<usize>() < 100 => {
            format!("write one of `{}`", values.join("`, `"))
        }
        None => format!("write `{}` or another that KEDA knows", values[0]),
    };
    (format!("`{key}` has no value `{}`", ellipsize(text)), help)
}
