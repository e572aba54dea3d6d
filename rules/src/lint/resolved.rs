//! The rules under one configuration: where they are enabled, with which severity and parameters.

use std::borrow::Cow;

use crate::lint::finding::{Finding, Location, Severity};
use crate::lint::rule::{Rule, RuleSet};
use crate::lint::settings::{RuleSettings, Settings};
use crate::object::Object;

/// A rule that is enabled for some object.
#[derive(Debug)]
pub(crate) struct ResolvedRule {
    pub(crate) rule: &'static Rule,
    /// [`Rule::is_for_completed`].
    pub(super) is_for_completed: bool,
    /// [`Rule::reads_pools`].
    pub(super) reads_pools: bool,
    /// The settings if no override matches.
    settings: RuleSettings,
    /// Whether an override of the configuration names the rule.
    overridden: bool,
}

#[derive(Debug)]
pub(crate) struct ResolvedRules {
    all: RuleSet,
    settings: Settings,
    enabled: Vec<ResolvedRule>,
}

impl ResolvedRules {
    /// Resolves a configuration. [`ResolvedRules::enabled`] omits rules that are disabled everywhere, and has
    /// `CatchAll` checks last.
    pub(crate) fn new(settings: Settings, all: RuleSet) -> ResolvedRules {
        let (catch_all, others): (Vec<&'static Rule>, Vec<&'static Rule>) =
            all.iter().partition(|rule| matches!(rule.check, crate::lint::rule::Check::CatchAll(_)));
        let enabled = others.into_iter().chain(catch_all).filter_map(|rule| {
            let set = settings.rule(rule, None, None);
            let overridden = settings.has_overrides(rule);
            let enabled = set.enabled != Some(false) || overridden;
            let is_for_completed = rule.is_for_completed();
            let reads_pools = rule.reads_pools();
            let resolved = ResolvedRule { rule, is_for_completed, reads_pools, settings: set, overridden };
            enabled.then_some(resolved)
        });
        ResolvedRules { all, enabled: enabled.collect(), settings }
    }

    /// All rules, including disabled ones.
    pub(crate) fn all(&self) -> RuleSet {
        self.all
    }

    pub(crate) fn find(&self, id: &str) -> Option<&'static Rule> {
        self.all.iter().copied().find(|rule| rule.id == id)
    }

    /// The rules that are enabled for some object, in the order in which they run.
    pub(crate) fn enabled(&self) -> &[ResolvedRule] {
        &self.enabled
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn is_enabled(&self, rule: &Rule, path: Option<&str>, object: Option<&Object>) -> bool {
        self.settings.rule(rule, path, object).enabled != Some(false)
    }

    /// A finding of a [`crate::Check::Builtin`] rule, with `severity` in place of the rule's own if given; `None` if
    /// the rule is disabled at that place.
    pub(crate) fn builtin_finding(
        &self,
        id: &str,
        severity: Option<Severity>,
        location: Location,
        message: String,
    ) -> Option<Finding> {
        let resolved = self.enabled.iter().find(|resolved| resolved.rule.id == id)?;
        let path = location.resolve_span().map(|(source, _, _)| source.scope().to_owned());
        let set = resolved.settings_at(&self.settings, path.as_deref(), location.object())?;
        let mut finding = Finding::new(resolved.rule, location, message);
        let left_out = finding.location.resolve_span().is_some_and(|(source, _, _)| source.is_left_out());
        let most = if left_out { Severity::Warning } else { Severity::Error };
        finding.severity = set.severity.unwrap_or(severity.unwrap_or(resolved.rule.severity).min(most));
        Some(finding)
    }
}

impl ResolvedRule {
    /// The settings for an object; `None` if the rule is disabled for it.
    pub(crate) fn settings_at(
        &self,
        settings: &Settings,
        path: Option<&str>,
        object: Option<&Object>,
    ) -> Option<Cow<'_, RuleSettings>> {
        if !self.overridden {
            return Some(Cow::Borrowed(&self.settings));
        }
        let own = settings.rule(self.rule, path, object);
        (own.enabled != Some(false)).then_some(Cow::Owned(own))
    }
}
