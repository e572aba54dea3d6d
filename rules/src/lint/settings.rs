//! What the configuration means, resolved once: what rules and the engine ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::facts::date::Date;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::lint::finding::Severity;
use crate::lint::rule::{ParamDefault, Rule};
use crate::object::Object;
use crate::platform::Platform;
use crate::tree::Tree;
use crate::tree::node::Node;
use crate::workload::selector;

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    /// A whole number.
    Int(i64),
    /// A list of strings.
    Strings(Vec<String>),
}

/// How precisely the configuration or a flag names a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedBy {
    /// As one of `all`.
    All,
    /// By its group.
    Group,
    /// By its id.
    #[default]
    Id,
}

impl NamedBy {
    /// The most precise of some names that mean a rule.
    fn find(names: &[String], rule: &Rule) -> Option<NamedBy> {
        let precision = |name: &String| match name.as_str() {
            name if name == rule.id => Some(NamedBy::Id),
            name if name == rule.group.name() => Some(NamedBy::Group),
            "all" => Some(NamedBy::All),
            _ => None,
        };
        names.iter().filter_map(precision).max()
    }
}

/// What is set for one rule.
#[derive(Clone, Debug, Default)]
pub struct RuleSettings {
    /// Off, or on where it was off.
    pub enabled: Option<bool>,
    /// By which name `enabled` was set.
    pub named_by: NamedBy,
    /// The severity that replaces every severity of the rule.
    pub severity: Option<Severity>,
    /// Parameters that were set.
    pub params: BTreeMap<String, ParamValue>,
}

impl RuleSettings {
    /// What is set here, and from `below` where nothing is.
    #[must_use]
    pub fn merged_over(&self, below: &RuleSettings) -> RuleSettings {
        let mut params = below.params.clone();
        params.extend(self.params.iter().map(|(k, v)| (k.clone(), v.clone())));
        RuleSettings {
            enabled: self.enabled.or(below.enabled),
            named_by: if self.enabled.is_some() { self.named_by } else { below.named_by },
            severity: self.severity.or(below.severity),
            params,
        }
    }

    pub(crate) fn int(&self, rule: &Rule, name: &str) -> i64 {
        if let Some(ParamValue::Int(value)) = self.params.get(name) {
            return *value;
        }
        match rule.params.iter().find(|p| p.name == name) {
            Some(param) => match param.default {
                ParamDefault::Int { default, .. } => default,
                ParamDefault::Strings(_) => 0,
            },
            None => 0,
        }
    }

    pub(crate) fn strings(&self, rule: &Rule, name: &str) -> Vec<String> {
        if let Some(ParamValue::Strings(value)) = self.params.get(name) {
            return value.clone();
        }
        match rule.params.iter().find(|p| p.name == name) {
            Some(param) => match param.default {
                ParamDefault::Strings(default) => default.iter().map(|s| (*s).to_owned()).collect(),
                ParamDefault::Int { .. } => Vec::new(),
            },
            None => Vec::new(),
        }
    }
}

/// Rules that are set otherwise for some objects. A list that is empty matches everything.
#[derive(Clone, Debug, Default)]
pub struct Override {
    /// Globs of paths, relative to the folder of the configuration.
    pub paths: Globs,
    /// Globs of namespaces.
    pub namespaces: Globs,
    /// Kinds, exact.
    pub kinds: Vec<String>,
    /// Globs of names.
    pub names: Globs,
    /// What is set, by rule id.
    pub rules: BTreeMap<String, RuleSettings>,
}

impl Override {
    fn matches(&self, path: Option<&str>, object: Option<&Object>) -> bool {
        let field = |patterns: &Globs, value: Option<&str>| {
            patterns.is_empty() || value.is_some_and(|v| patterns.matches(v))
        };
        let id = object.map(Object::id);
        field(&self.paths, path)
            && (self.namespaces.is_empty() || field(&self.namespaces, id.and_then(|i| i.namespace())))
            && field(&self.names, id.map(|i| i.name.as_str()))
            && (self.kinds.is_empty() || id.is_some_and(|i| self.kinds.contains(&i.kind)))
    }
}

/// A list of globs.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    patterns: Vec<String>,
    set: Option<GlobSet>,
}

impl Globs {
    /// Compiles globs; the error names the first one that is none.
    ///
    /// # Errors
    /// The glob and what is wrong with it.
    pub fn new(globs: &[String]) -> Result<Globs, String> {
        if globs.is_empty() {
            return Ok(Globs::default());
        }
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(Glob::new(glob).map_err(|e| e.to_string())?);
        }
        let set = builder.build().map_err(|e| e.to_string())?;
        Ok(Globs { patterns: globs.to_vec(), set: Some(set) })
    }

    /// Compiles globs of paths, which may begin with `./` or `/` and name folders: what is below those matches as well.
    ///
    /// # Errors
    /// The glob and what is wrong with it.
    pub fn of_paths(globs: &[String]) -> Result<Globs, String> {
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            let path = glob.trim_start_matches("./").trim_matches('/');
            let path = if matches!(path, "" | ".") { "**" } else { path };
            builder.add(Glob::new(path).map_err(|e| e.to_string())?);
            builder.add(Glob::new(&format!("{path}/**")).map_err(|e| e.to_string())?);
        }
        let set = builder.build().map_err(|e| e.to_string())?;
        Ok(Globs { patterns: globs.to_vec(), set: (!globs.is_empty()).then_some(set) })
    }

    /// The globs as they are written.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Those that match one text alone: themselves.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(String::as_str).filter(|glob| !glob.contains(['*', '?', '[', '{', '\\']))
    }

    /// Whether there is no glob.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_none()
    }

    /// Whether any glob matches; `./` in front does not count.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text = text.strip_prefix("./").unwrap_or(text);
        self.set.as_ref().is_some_and(|s| s.is_match(text))
    }
}

/// Files that are applied to one cluster, or to clusters that a star names.
#[derive(Clone, Debug)]
pub struct ClusterPaths {
    /// The name; `None` where the star of the path is the name.
    pub name: Option<String>,
    /// Paths of files and folders; one where a star names the cluster.
    pub paths: Globs,
    /// Where it is written, as `FILE:LINE:COLUMN`.
    pub place: String,
}

impl ClusterPaths {
    /// The name of the cluster that a file is applied to, by its path relative to the configuration's folder.
    #[must_use]
    pub fn cluster_of<'a>(&'a self, path: &'a str) -> Option<&'a str> {
        match (&self.name, self.paths.patterns()) {
            (Some(name), _) => self.paths.matches(path).then_some(name),
            (None, [pattern]) => starred_part(pattern, path.strip_prefix("./").unwrap_or(path)),
            (None, _) => None,
        }
    }
}

/// Whether a path has exactly one star, which can name a cluster.
#[must_use]
pub fn has_one_star(pattern: &str) -> bool {
    let parts = pattern.split('/').filter(|part| *part != "**");
    let stars: Vec<&str> = parts.filter(|part| part.contains('*')).collect();
    let others = pattern.contains(['?', '[', '{', '\\']);
    stars.len() == 1 && stars[0].matches('*').count() == 1 && !others
}

/// What the star of a pattern stands for in the path of a file or of a folder above it.
fn starred_part<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let pattern = pattern.trim_start_matches("./").trim_matches('/');
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    starred_in(&pattern, &path)?
}

/// `None` if the path does not match; a match has no name where the star is not among these parts.
fn starred_in<'p>(pattern: &[&str], path: &[&'p str]) -> Option<Option<&'p str>> {
    let Some((first, rest)) = pattern.split_first() else { return Some(None) };
    if *first == "**" {
        return (0..=path.len()).find_map(|skipped| starred_in(rest, &path[skipped..]));
    }
    let (part, others) = path.split_first()?;
    let name = match first.split_once('*') {
        None if first == part => None,
        None => return None,
        Some((start, end)) => {
            Some(part.strip_prefix(start)?.strip_suffix(end).filter(|name| !name.is_empty())?)
        }
    };
    starred_in(rest, others).map(|below| name.or(below))
}

/// What the mutating webhook does about safe fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing.
    Off,
    /// It warns of what it would write.
    Warn,
    /// It sends them as a patch, and warns of what it wrote.
    #[default]
    Patch,
}

/// From which severity on findings deny a request, and from which on they become warnings; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Findings from here on deny.
    pub deny: Option<Severity>,
    /// Findings from here on become warnings.
    pub warn: Option<Severity>,
}

/// Other thresholds for some namespaces.
#[derive(Clone, Debug, Default)]
pub struct NamespacePolicy {
    /// Globs of names; empty: every name.
    pub names: Globs,
    /// The label selector that has to match; `None`: any labels.
    pub selector: Option<Arc<Tree>>,
    /// Replaces [`WebhookSettings::deny`] where it is set.
    pub deny: Option<Option<Severity>>,
    /// Replaces [`WebhookSettings::warn`] where it is set.
    pub warn: Option<Option<Severity>>,
}

/// Whose suppressions count in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressors {
    /// User names as the API server knows them; those of service accounts are `system:serviceaccount:NAMESPACE:NAME`.
    pub users: Vec<String>,
    /// Groups of users.
    pub groups: Vec<String>,
}

/// What the webhook does with findings.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Findings from here on deny; `None`: never.
    pub deny: Option<Severity>,
    /// Findings from here on become warnings; `None`: never.
    pub warn: Option<Severity>,
    /// Other thresholds for some namespaces: the first entry that fits.
    pub namespaces: Vec<NamespacePolicy>,
    /// What is done about safe fixes.
    pub mutate: Mutation,
    /// Rules whose fixes are sent although they are not safe.
    pub mutate_rules: Vec<String>,
    /// Namespaces that are never checked.
    pub exempt_namespaces: Globs,
    /// Service accounts whose requests are never checked, as `NAMESPACE/NAME`.
    pub exempt_accounts: Vec<String>,
    /// Groups of users whose requests are never checked.
    pub exempt_groups: Vec<String>,
    /// Rules and groups of rules that an annotation may not suppress; `all`: any.
    pub forbid_suppressions: Vec<String>,
    /// Who may suppress by an annotation; `None`: everybody.
    pub may_suppress: Option<Suppressors>,
}

impl Default for WebhookSettings {
    fn default() -> WebhookSettings {
        WebhookSettings {
            deny: Some(Severity::Error),
            warn: Some(Severity::Warning),
            namespaces: Vec::new(),
            mutate: Mutation::Patch,
            mutate_rules: Vec::new(),
            exempt_namespaces: Globs::new(&["kube-system".to_owned(), "karpenter".to_owned()])
                .unwrap_or_default(),
            // Where Karpenter's documentation and its chart install it.
            exempt_accounts: vec!["kube-system/karpenter".to_owned(), "karpenter/karpenter".to_owned()],
            // Kubelets make mirror Pods and update their Nodes.
            exempt_groups: vec!["system:nodes".to_owned()],
            forbid_suppressions: Vec::new(),
            may_suppress: None,
        }
    }
}

impl WebhookSettings {
    /// The thresholds for objects of a namespace; `None` for those of no namespace. An entry with a selector does not
    /// fit a namespace whose `labels` are not known.
    #[must_use]
    pub fn thresholds(&self, namespace: Option<&str>, labels: Option<&Node<'_>>) -> Thresholds {
        let entries = labels.map(Node::entries);
        let matches = |wanted: &Arc<Tree>| {
            let labels = entries.as_deref();
            labels.and_then(|labels| selector::matches(&Node::new(wanted, 0), labels)) == Some(true)
        };
        let fits = |policy: &&NamespacePolicy| {
            namespace.is_some_and(|name| policy.names.is_empty() || policy.names.matches(name))
                && policy.selector.as_ref().is_none_or(matches)
        };
        let policy = self.namespaces.iter().find(fits);
        Thresholds {
            deny: policy.and_then(|p| p.deny).unwrap_or(self.deny),
            warn: policy.and_then(|p| p.warn).unwrap_or(self.warn),
        }
    }
}

impl Suppressors {
    /// Whether a user is among them.
    #[must_use]
    pub fn include(&self, user: &str, groups: &[String]) -> bool {
        self.users.iter().any(|u| u == user) || self.groups.iter().any(|group| groups.contains(group))
    }
}

/// Resolved configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Findings from here on fail a run; `None`: never.
    pub fail_on: Option<Severity>,
    /// What the cluster runs on.
    pub platform: Platform,
    /// By rule id; what is not set is not here.
    pub rules: BTreeMap<String, RuleSettings>,
    /// In the order written; later ones win.
    pub overrides: Vec<Override>,
    /// Only these rules or groups, where not empty; also those that `rules` turns off by the same or a wider name.
    pub select: Vec<String>,
    /// Not these rules or groups.
    pub ignore_rules: Vec<String>,
    /// Paths that are not read.
    pub ignore_paths: Globs,
    /// Which files are applied to which cluster.
    pub clusters: Vec<ClusterPaths>,
    /// The input is everything there is.
    pub complete: bool,
    /// Whether suppressions count.
    pub suppressions: bool,
    /// Whether reports keep the findings that are suppressed ([`crate::CheckReport::kept`]).
    pub keep_suppressed: bool,
    /// The date that decides which suppressions have ended; `None`: none has.
    pub today: Option<Date>,
    /// The CustomResourceDefinitions that the user brings.
    pub definitions: CustomResourceDefinitions,
    /// The webhook's part.
    pub webhook: WebhookSettings,
    /// What users are told of a configuration that is valid, but may not mean what they think.
    pub notes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            fail_on: Some(Severity::Warning),
            platform: Platform::default(),
            rules: BTreeMap::new(),
            overrides: Vec::new(),
            select: Vec::new(),
            ignore_rules: Vec::new(),
            ignore_paths: Globs::default(),
            clusters: Vec::new(),
            complete: false,
            suppressions: true,
            keep_suppressed: false,
            today: None,
            definitions: CustomResourceDefinitions::default(),
            webhook: WebhookSettings::default(),
            notes: Vec::new(),
        }
    }
}

impl Settings {
    /// What is set for a rule on an object of a file.
    #[must_use]
    pub fn rule(&self, rule: &Rule, path: Option<&str>, object: Option<&Object>) -> RuleSettings {
        let mut settings = self.rules.get(rule.id).cloned().unwrap_or_default();
        let selected = NamedBy::find(&self.select, rule);
        // Who selects a rule wants it; overrides are exceptions for some objects, and stay.
        if settings.enabled == Some(false) && selected >= Some(settings.named_by) {
            settings.enabled = Some(true);
        }
        for over in &self.overrides {
            if let Some(set) = over.rules.get(rule.id)
                && over.matches(path, object)
            {
                settings = set.merged_over(&settings);
            }
        }
        let left_out = !self.select.is_empty() && selected.is_none();
        if left_out || NamedBy::find(&self.ignore_rules, rule).is_some() {
            settings.enabled = Some(false);
        }
        settings
    }

    /// Whether any override speaks of the rule.
    pub(crate) fn has_overrides(&self, rule: &Rule) -> bool {
        self.overrides.iter().any(|o| o.rules.contains_key(rule.id))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterPaths, Globs, has_one_star};

    #[test]
    fn globs_of_paths_may_name_folders() {
        for glob in ["dev", "dev/", "./dev", "./dev/**", "/dev/", "dev/**", "d?v"] {
            let globs = Globs::of_paths(&[glob.to_owned()]).unwrap();
            assert!(globs.matches("dev/a/b.yaml") && globs.matches("./dev/b.yaml"), "{glob}");
            assert!(!globs.matches("develop/a.yaml") && !globs.matches("a/dev/b.yaml"), "{glob}");
        }
        for glob in [".", "./", "/"] {
            assert!(Globs::of_paths(&[glob.to_owned()]).unwrap().matches("a/b.yaml"), "{glob}");
        }
        assert!(Globs::of_paths(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_star_names_the_cluster() {
        let cluster = |pattern: &str, path: &str| {
            let paths = Globs::of_paths(&[pattern.to_owned()]).unwrap();
            let paths = ClusterPaths { name: None, paths, place: String::new() };
            paths.cluster_of(path).map(str::to_owned)
        };
        for (pattern, path, name) in [
            ("clusters/*", "clusters/prod/a/b.yaml", Some("prod")),
            ("./clusters/*/", "clusters/prod/a.yaml", Some("prod")),
            ("clusters/*/**", "clusters/prod/a.yaml", Some("prod")),
            ("clusters/gpu-*", "clusters/gpu-eu/a.yaml", Some("eu")),
            ("clusters/gpu-*", "clusters/cpu-eu/a.yaml", None),
            ("clusters/*.yaml", "clusters/prod.yaml", Some("prod")),
            ("**/overlays/*", "apps/web/overlays/dev/a.yaml", Some("dev")),
            ("*/apps", "prod/apps/a.yaml", Some("prod")),
            ("*/apps", "prod/infra/a.yaml", None),
            ("clusters/*", "base/a.yaml", None),
        ] {
            assert_eq!(cluster(pattern, path).as_deref(), name, "{pattern} {path}");
        }
        assert!(has_one_star("clusters/*/**") && has_one_star("**/c-*/x"));
        for pattern in ["clusters/prod", "*/*", "a*b*c", "clusters/?*", "**"] {
            assert!(!has_one_star(pattern), "{pattern}");
        }
    }
}
