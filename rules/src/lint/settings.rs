//! The resolved configuration, as read by rules and the engine.

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

#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    Int(i64),
    Strings(Vec<String>),
}

/// How precisely the configuration or a flag names a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedBy {
    All,
    Group,
    #[default]
    Id,
}

impl NamedBy {
    /// The most precise of the names that match a rule.
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSettings {
    /// `true` if it was turned on explicitly.
    pub enabled: Option<bool>,
    /// The name by which `enabled` was set.
    pub named_by: NamedBy,
    /// Replaces the severity of all findings of the rule.
    pub severity: Option<Severity>,
    /// The parameters that are set.
    pub params: BTreeMap<String, ParamValue>,
}

impl RuleSettings {
    /// These settings, completed with those of `below`.
    pub(crate) fn merged_over(&self, below: &RuleSettings) -> RuleSettings {
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

/// Settings of rules for some objects. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// Globs of paths, relative to the folder of the configuration.
    pub paths: Globs,
    pub namespaces: Globs,
    /// Kinds, compared exactly.
    pub kinds: Vec<String>,
    pub names: Globs,
    /// The settings by rule id.
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

#[derive(Clone, Debug, Default)]
pub struct Globs {
    patterns: Vec<String>,
    set: Option<GlobSet>,
}

/// The patterns decide what is compiled, because each setting compiles its globs in one way.
impl PartialEq for Globs {
    fn eq(&self, other: &Globs) -> bool {
        self.patterns == other.patterns
    }
}

impl Globs {
    /// Compiles globs.
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

    /// Compiles globs of paths, which may begin with `./` or `/`. A glob that matches a folder also matches everything
    /// below it.
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

    /// The globs as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The globs that match only their own text.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(String::as_str).filter(|glob| !glob.contains(['*', '?', '[', '{', '\\']))
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_none()
    }

    /// Whether any glob matches; a leading `./` is ignored.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.strip_prefix("./").unwrap_or(text);
        self.set.as_ref().is_some_and(|s| s.is_match(text))
    }
}

/// Files that are applied to one cluster, or to clusters whose names a star captures.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterPaths {
    /// The name; `None` if the star of the path captures it.
    pub(crate) name: Option<String>,
    /// Paths of files and folders; exactly one if a star captures the name.
    pub paths: Globs,
    /// The place of the entry, as `FILE:LINE:COLUMN`.
    pub place: String,
}

impl ClusterPaths {
    /// The name of the cluster to which a file is applied, by its path relative to the configuration's folder.
    pub fn cluster_of<'a>(&'a self, path: &'a str) -> Option<&'a str> {
        match (&self.name, self.paths.patterns()) {
            (Some(name), _) => self.paths.matches(path).then_some(name),
            (None, [pattern]) => starred_part(pattern, path.strip_prefix("./").unwrap_or(path)),
            (None, _) => None,
        }
    }
}

/// Whether a path has exactly one star, which can capture a name.
pub(crate) fn has_one_star(pattern: &str) -> bool {
    let parts = pattern.split('/').filter(|part| *part != "**");
    let stars: Vec<&str> = parts.filter(|part| part.contains('*')).collect();
    let others = pattern.contains(['?', '[', '{', '\\']);
    stars.len() == 1 && stars[0].matches('*').count() == 1 && !others
}

/// The text that the star of a pattern matches in the path of a file or of a folder above it.
fn starred_part<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let pattern = pattern.trim_start_matches("./").trim_matches('/');
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    starred_in(&pattern, &path)?
}

/// `None` if the path does not match; `Some(None)` if the star is not among these parts.
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

/// What the mutating webhook does with safe fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    Off,
    /// Warns of the changes that it would make.
    Warn,
    /// Sends the changes as a patch, and warns of them.
    #[default]
    Patch,
}

/// Minimum severities at which findings deny a request or become warnings; `None` disables it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub deny: Option<Severity>,
    pub warn: Option<Severity>,
}

/// Thresholds for some namespaces.
#[derive(Clone, Debug, Default)]
pub struct NamespacePolicy {
    /// Globs of names; empty matches all.
    pub(crate) names: Globs,
    /// The label selector that has to match; `None` matches all.
    pub selector: Option<Arc<Tree>>,
    /// Replaces [`WebhookSettings::deny`] if set.
    pub(crate) deny: Option<Option<Severity>>,
    /// Replaces [`WebhookSettings::warn`] if set.
    pub(crate) warn: Option<Option<Severity>>,
}

/// The users whose suppressions are respected by the webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressors {
    /// User names in the API server; those of service accounts are `system:serviceaccount:NAMESPACE:NAME`.
    pub(crate) users: Vec<String>,
    pub(crate) groups: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Minimum severity of findings that deny; `None` disables it.
    pub deny: Option<Severity>,
    /// Minimum severity of findings that become warnings; `None` disables it.
    pub warn: Option<Severity>,
    /// Thresholds for some namespaces; the first matching entry applies.
    pub namespaces: Vec<NamespacePolicy>,
    /// What is done with safe fixes.
    pub mutate: Mutation,
    /// Rules whose fixes are sent even if they are not safe.
    pub mutate_rules: Vec<String>,
    /// Namespaces that are not checked.
    pub exempt_namespaces: Globs,
    /// Service accounts whose requests are not checked, as `NAMESPACE/NAME`.
    pub exempt_accounts: Vec<String>,
    /// Groups of users whose requests are not checked.
    pub exempt_groups: Vec<String>,
    /// Service accounts of operators, as `NAMESPACE/NAME`. What they make for an owner that is checked is not checked
    /// again.
    pub operators: Vec<String>,
    /// Rules and groups that an annotation may not suppress; `all` means any.
    pub forbid_suppressions: Vec<String>,
    /// The users who may suppress by an annotation; `None` means everyone.
    pub may_suppress: Option<Suppressors>,
}

/// The service accounts of operators in the namespaces in which their documentation installs them.
const OPERATORS: [&str; 12] = [
    "argo-rollouts/argo-rollouts",
    "argo/argo",
    "jobset-system/jobset-controller-manager",
    "keda/keda-operator",
    "kserve/kserve-controller-manager",
    "kubeflow-system/kubeflow-trainer-controller-manager",
    "kubeflow/notebook-controller-service-account",
    "kubeflow/training-operator",
    "lws-system/lws-controller-manager",
    "mpi-operator/mpi-operator",
    "spark-operator/spark-operator-controller",
    "volcano-system/volcano-controllers",
];

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
            // The namespaces in which Karpenter's documentation and its chart install it.
            exempt_accounts: vec!["kube-system/karpenter".to_owned(), "karpenter/karpenter".to_owned()],
            // Kubelets create mirror Pods and update their Nodes.
            exempt_groups: vec!["system:nodes".to_owned()],
            operators: OPERATORS.iter().map(|account| (*account).to_owned()).collect(),
            forbid_suppressions: Vec::new(),
            may_suppress: None,
        }
    }
}

impl WebhookSettings {
    /// The thresholds for objects of a namespace; `None` for cluster-scoped objects. An entry with a selector does not
    /// match a namespace whose `labels` are unknown.
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
    pub fn include(&self, user: &str, groups: &[String]) -> bool {
        self.users.iter().any(|u| u == user) || self.groups.iter().any(|group| groups.contains(group))
    }
}

/// The resolved configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Minimum severity of findings that fail a run; `None` disables it.
    pub fail_on: Option<Severity>,
    /// Minimum severity of findings that are reported.
    pub min_severity: Severity,
    pub platform: Platform,
    /// The settings by rule id, without unset ones.
    pub rules: BTreeMap<String, RuleSettings>,
    /// The overrides in the order written; later ones win.
    pub overrides: Vec<Override>,
    /// If not empty, only these rules or groups run, including those that `rules` turns off by the same or a wider
    /// name.
    pub select: Vec<String>,
    pub ignore_rules: Vec<String>,
    /// Paths that are not read.
    pub ignore_paths: Globs,
    pub clusters: Vec<ClusterPaths>,
    /// Whether the input contains all objects of the cluster.
    pub complete: bool,
    /// Whether suppressions are respected.
    pub suppressions: bool,
    /// Whether reports keep the suppressed findings ([`crate::CheckReport::kept`]).
    pub keep_suppressed: bool,
    /// The date by which suppressions expire; `None` if none expires.
    pub today: Option<Date>,
    /// The CustomResourceDefinitions that the user provides, or that the cluster of the webhook serves.
    pub definitions: CustomResourceDefinitions,
    pub webhook: WebhookSettings,
    /// Notes for the user about settings that are valid, but may not have the intended effect.
    pub notes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            fail_on: Some(Severity::Warning),
            min_severity: Severity::Info,
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
    /// Whether files have equal reports under both. What decides on requests to an API server does not count.
    #[must_use]
    pub fn are_alike(&self, other: &Settings) -> bool {
        let Settings {
            fail_on,
            min_severity,
            platform,
            rules,
            overrides,
            select,
            ignore_rules,
            ignore_paths,
            clusters,
            complete,
            suppressions,
            keep_suppressed,
            today,
            definitions,
            webhook: _,
            notes,
        } = self;
        *fail_on == other.fail_on
            && *min_severity == other.min_severity
            && *platform == other.platform
            && *rules == other.rules
            && *overrides == other.overrides
            && *select == other.select
            && *ignore_rules == other.ignore_rules
            && *ignore_paths == other.ignore_paths
            && *clusters == other.clusters
            && *complete == other.complete
            && *suppressions == other.suppressions
            && *keep_suppressed == other.keep_suppressed
            && *today == other.today
            && *definitions == other.definitions
            && *notes == other.notes
    }

    pub fn rule(&self, rule: &Rule, path: Option<&str>, object: Option<&Object>) -> RuleSettings {
        let mut settings = self.rules.get(rule.id).cloned().unwrap_or_default();
        let selected = NamedBy::find(&self.select, rule);
        // `--select` turns the rule on; overrides for some objects still apply.
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
