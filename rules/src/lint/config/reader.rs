//! Reads the tree of a configuration file and collects all errors.

use std::sync::Arc;

use globset::Glob;

use super::{
    BTreeMap, Config, ConfigError, Extends, Globs, Group, HelmConfig, Override, OverrideTable, ParamValue,
    Platform, RenderConfig, RuleSettings, RuleTable, Severity, SeverityThreshold, WebhookSettings,
};
use crate::catalog;
use crate::facts::names::is_dns_subdomain;
use crate::facts::{region, suggest, timezone};
use crate::karpenter::minors;
use crate::kind;
use crate::lint::rule::{Param, ParamDefault, Rule, RuleSet};
use crate::lint::settings::{ClusterPaths, Mutation, NamespacePolicy, Suppressors, has_one_star};
use crate::platform::{MinValuesPolicy, Product, Version};
use crate::source::{Document, Source};
use crate::tree::node::{Node, Shape};
use crate::tree::scalar::Scalar;
use crate::tree::{Span, Tree};

/// The keys of each map; a test compares them with the schema.
pub(super) const ROOT: &[&str] = &[
    "extends",
    "fail-on",
    "min-severity",
    "platform",
    "rules",
    "overrides",
    "ignore",
    "clusters",
    "crds",
    "render",
    "baseline",
    "webhook",
];
/// Sections whose keys are set one by one.
const SECTIONS: [&str; 3] = ["platform", "render", "webhook"];
pub(super) const RENDER: &[&str] = &["enabled", "helm"];
pub(super) const HELM: &[&str] = &["chart", "name", "namespace", "values"];
pub(super) const CLUSTER: &[&str] = &["name", "paths"];
pub(super) const PLATFORM: &[&str] =
    &["karpenter", "keda", "kubernetes", "eks", "region", "timezone", "featureGates", "minValuesPolicy"];
pub(super) const OVERRIDE: &[&str] = &["paths", "namespaces", "kinds", "names", "rules"];
pub(super) const WEBHOOK: &[&str] = &[
    "deny",
    "warn",
    "namespaces",
    "mutate",
    "exempt-namespaces",
    "exempt-accounts",
    "exempt-groups",
    "operators",
    "forbid-suppressions",
    "may-suppress",
];
pub(super) const NAMESPACE_POLICY: &[&str] = &["names", "selector", "deny", "warn"];
pub(super) const LABEL_SELECTOR: &[&str] = &["matchLabels", "matchExpressions"];
pub(super) const LABEL_EXPRESSION: &[&str] = &["key", "operator", "values"];
pub(super) const SUPPRESSORS: &[&str] = &["users", "groups"];

const SEVERITIES: &[Severity] = &[Severity::Error, Severity::Warning, Severity::Info];

pub(super) struct ConfigReader<'s> {
    source: &'s Source,
    known_rules: RuleSet,
    pub(super) errors: Vec<ConfigError>,
    /// Settings that are valid, but may be a mistake.
    pub(super) notes: Vec<ConfigError>,
}

impl<'s> ConfigReader<'s> {
    pub(super) fn new(source: &'s Source, known_rules: RuleSet) -> Self {
        ConfigReader { source, known_rules, errors: Vec::new(), notes: Vec::new() }
    }

    fn find_rule(&self, id: &str) -> Option<&'static Rule> {
        self.known_rules.iter().copied().find(|rule| rule.id == id)
    }

    pub(super) fn config(&mut self, documents: &[Document]) -> Config {
        for document in documents {
            for problem in &document.diagnostics {
                self.error(Some(problem.span), problem.message.clone(), None);
            }
        }
        if let Some(second) = documents.get(1) {
            let message = "a configuration is one document; this is a second one";
            self.error(Some(second.span), message.to_owned(), None);
        }
        let mut config = Config { known_rules: self.known_rules, ..Config::default() };
        let Some(tree) = documents.first().and_then(|d| d.tree.as_ref()) else {
            return config;
        };
        let root = Node::new(tree, 0);
        for (key, node) in self.map(&root, ROOT, "") {
            match key {
                "extends" => config.extends = self.extends(&node),
                "fail-on" => config.fail_on = self.threshold(&node, "never"),
                "min-severity" => config.min_severity = self.severity(&node),
                "platform" => config.platform = self.platform(&node),
                "rules" => config.rules = self.rules(&node),
                "overrides" => {
                    config.overrides =
                        self.list(&node).iter().filter_map(|item| self.override_table(item)).collect();
                }
                "ignore" => config.ignore = self.globs(&node),
                "clusters" => config.clusters = self.clusters(&node),
                "crds" => config.crds = self.strings(&node),
                "render" => config.render = self.render(&node),
                "baseline" => config.baseline = self.string(&node),
                "webhook" => config.webhook = self.webhook(&node),
                _ => {}
            }
            if SECTIONS.contains(&key) {
                let own = node.entries().into_iter().filter(|(_, value)| value.is_set());
                config.written.extend(own.map(|(name, _)| format!("{key}.{name}")));
            }
        }
        config
    }

    fn extends(&mut self, node: &Node<'_>) -> Option<Extends> {
        let path = self.string(node)?;
        if path.trim().is_empty() {
            self.error(value_span(node), "expected the path of a configuration".to_owned(), None);
            return None;
        }
        let at = self.remark(value_span(node), String::new(), None);
        Some(Extends { path, place: format!("{}:{}:{}", at.path, at.line, at.column), span: at.span })
    }

    fn render(&mut self, node: &Node<'_>) -> RenderConfig {
        let mut render = RenderConfig::default();
        for (key, node) in self.map(node, RENDER, " of `render`") {
            match key {
                "enabled" => render.enabled = self.bool(&node).unwrap_or_default(),
                _ => render.helm = self.list(&node).iter().map(|item| self.helm(item)).collect(),
            }
        }
        render
    }

    fn helm(&mut self, node: &Node<'_>) -> HelmConfig {
        let mut helm = HelmConfig { place: self.place(node), ..HelmConfig::default() };
        let faults = self.errors.len();
        for (key, node) in self.map(node, HELM, " of an entry of `helm`") {
            match key {
                "chart" => helm.chart = self.string(&node).unwrap_or_default(),
                "name" => helm.name = self.string(&node),
                "namespace" => helm.namespace = self.string(&node),
                _ => helm.values = self.strings(&node),
            }
        }
        if helm.chart.is_empty() && self.errors.len() == faults {
            self.error(value_span(node), "`chart` is missing".to_owned(), None);
        }
        helm
    }

    fn platform(&mut self, node: &Node<'_>) -> Platform {
        let mut platform = Platform::default();
        for (key, node) in self.map(node, PLATFORM, " of `platform`") {
            match key {
                "karpenter" => self.version(&node, Product::Karpenter, &mut platform),
                "keda" => self.version(&node, Product::Keda, &mut platform),
                "kubernetes" => self.version(&node, Product::Kubernetes, &mut platform),
                "eks" => platform.eks = self.bool(&node).unwrap_or(platform.eks),
                "region" => platform.region = self.region(&node),
                "timezone" => platform.timezone = self.timezone(&node),
                "featureGates" => platform.feature_gates = self.feature_gates(&node),
                "minValuesPolicy" => platform.min_values_policy = self.min_values_policy(&node),
                _ => {}
            }
        }
        let stated =
            [Product::Karpenter, Product::Kubernetes].iter().all(|product| platform.is_stated(*product));
        if let Some(message) =
            minors::unsupported_kubernetes(platform.karpenter, platform.kubernetes).filter(|_| stated)
        {
            self.note(value_span(&node.get("kubernetes")), message, None);
        }
        platform
    }

    /// The states of Karpenter's feature gates. Karpenter ignores a gate that it does not know, so it is an error here.
    fn feature_gates(&mut self, node: &Node<'_>) -> BTreeMap<String, bool> {
        let known: Vec<&str> = minors::gates().iter().map(|gate| gate.name).collect();
        let mut states = BTreeMap::new();
        for (name, node) in self.map(node, &known, " of `featureGates`") {
            if let Some(on) = self.bool(&node) {
                states.insert(name.to_owned(), on);
            }
        }
        states
    }

    fn min_values_policy(&mut self, node: &Node<'_>) -> Option<MinValuesPolicy> {
        let name = self.string(node)?;
        let policy = MinValuesPolicy::parse(&name);
        if policy.is_none() {
            let near = suggest::nearest(&name, MinValuesPolicy::ALL.into_iter().map(MinValuesPolicy::name));
            self.error(value_span(node), format!("`{name}` is not a policy for `minValues`"), near);
        }
        policy
    }

    fn timezone(&mut self, node: &Node<'_>) -> Option<String> {
        let name = self.string(node)?;
        if timezone::is_known(&name) {
            return Some(name);
        }
        let message = format!("there is no time zone `{name}`");
        self.error(value_span(node), message, timezone::nearest(&name));
        None
    }

    /// Accepts an unknown region if its name has the form of a region, because it may be new.
    fn region(&mut self, node: &Node<'_>) -> Option<String> {
        let name = self.string(node)?;
        let known = || catalog::regions().iter().chain(region::OTHER_REGIONS).copied();
        if known().any(|region| region == name) {
            return Some(name);
        }
        let near = suggest::nearest(&name, known());
        if region::is_name(&name) {
            let message = format!("gpulint does not know the region `{name}`, nor what it offers");
            self.note(value_span(node), message, near);
            return Some(name);
        }
        self.error(value_span(node), format!("`{name}` is not an AWS region"), near);
        None
    }

    /// Kinds, compared exactly. An unknown kind may be a custom resource.
    fn kinds(&mut self, node: &Node<'_>) -> Vec<String> {
        let mut out = Vec::new();
        for item in self.list(node) {
            let Some(text) = self.string(&item) else { continue };
            if kind::names().any(|known| known == text) {
                out.push(text);
                continue;
            }
            let near = suggest::nearest(&text, kind::names());
            let slips = if text.len() < 8 { 1 } else { 2 };
            if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                self.error(
                    value_span(&item),
                    format!("`{text}` is not a kind; globs do not count here"),
                    near,
                );
            } else if near.is_some_and(|near| near.eq_ignore_ascii_case(&text)) {
                self.error(value_span(&item), format!("there is no kind `{text}`"), near);
            } else if near.is_some_and(|near| suggest::is_within(&text, near, slips)) {
                self.note(value_span(&item), format!("gpulint does not know the kind `{text}`"), near);
                out.push(text);
            } else {
                out.push(text);
            }
        }
        out
    }

    fn override_table(&mut self, node: &Node<'_>) -> Option<OverrideTable> {
        let mut matches = Override::default();
        let mut rules = None;
        let faults = self.errors.len();
        for (key, node) in self.map(node, OVERRIDE, " of an override") {
            match key {
                "paths" => matches.paths = self.globs_of_paths(&node),
                "namespaces" => matches.namespaces = self.globs(&node),
                "names" => matches.names = self.globs(&node),
                "kinds" => matches.kinds = self.kinds(&node),
                "rules" => rules = Some(self.rules(&node)),
                _ => {}
            }
        }
        if rules.is_none() && self.errors.len() == faults {
            self.error(value_span(node), "the override has no `rules`".to_owned(), None);
        }
        rules.map(|rules| OverrideTable { selector: matches, rules })
    }

    /// Clusters with their paths, or paths in which a star captures the name of the cluster.
    fn clusters(&mut self, node: &Node<'_>) -> Vec<ClusterPaths> {
        let mut out: Vec<ClusterPaths> = Vec::new();
        for item in self.list(node) {
            let cluster = if item.is_mapping() { self.cluster(&item) } else { self.starred_clusters(&item) };
            let Some(cluster) = cluster else { continue };
            match &cluster.name {
                Some(name) if out.iter().any(|other| other.name.as_ref() == Some(name)) => {
                    let message = format!("two clusters are called `{name}`: write their paths in one entry");
                    self.error(value_span(&item.get("name")), message, None);
                }
                _ => out.push(cluster),
            }
        }
        out
    }

    fn cluster(&mut self, node: &Node<'_>) -> Option<ClusterPaths> {
        let faults = self.errors.len();
        let (mut name, mut paths) = (None, None);
        for (key, node) in self.map(node, CLUSTER, " of a cluster") {
            match key {
                "name" => name = self.string(&node).filter(|name| !name.trim().is_empty()),
                _ => paths = Some(self.globs_of_paths(&node)),
            }
        }
        let paths = paths.filter(|paths| !paths.is_empty());
        if self.errors.len() > faults {
            return None;
        }
        if name.is_none() || paths.is_none() {
            let missing = if name.is_none() { "name" } else { "paths" };
            self.error(value_span(node), format!("the cluster has no `{missing}`"), None);
        }
        Some(ClusterPaths { name: Some(name?), paths: paths?, place: self.place(node) })
    }

    fn starred_clusters(&mut self, node: &Node<'_>) -> Option<ClusterPaths> {
        let pattern = self.string(node)?;
        if !has_one_star(&pattern) {
            let message = format!(
                "`{pattern}` does not name a cluster: write one star for the name, as in `clusters/*`, or \
                 `{{name: NAME, paths: [\"{pattern}\"]}}`"
            );
            self.error(value_span(node), message, None);
            return None;
        }
        let paths = Globs::of_paths(&[pattern]).ok()?;
        Some(ClusterPaths { name: None, paths, place: self.place(node) })
    }

    /// The place of a value, as `FILE:LINE:COLUMN`.
    fn place(&self, node: &Node<'_>) -> String {
        let at = self.remark(value_span(node), String::new(), None);
        format!("{}:{}:{}", at.path, at.line, at.column)
    }

    fn webhook(&mut self, node: &Node<'_>) -> WebhookSettings {
        let mut webhook = WebhookSettings::default();
        for (key, node) in self.map(node, WEBHOOK, " of `webhook`") {
            match key {
                "deny" => webhook.deny = self.threshold(&node, "off").unwrap_or_default(),
                "warn" => webhook.warn = self.threshold(&node, "off").unwrap_or_default(),
                "namespaces" => {
                    webhook.namespaces =
                        self.list(&node).iter().map(|item| self.namespace_policy(item)).collect();
                }
                "mutate" => self.mutate(&node, &mut webhook),
                "exempt-namespaces" => webhook.exempt_namespaces = self.globs(&node),
                "exempt-accounts" => webhook.exempt_accounts = self.accounts(&node),
                "exempt-groups" => webhook.exempt_groups = self.strings(&node),
                "operators" => webhook.operators = self.accounts(&node),
                "forbid-suppressions" => webhook.forbid_suppressions = self.forbidden(&node),
                "may-suppress" => webhook.may_suppress = Some(self.suppressors(&node)),
                _ => {}
            }
        }
        webhook
    }

    fn namespace_policy(&mut self, node: &Node<'_>) -> NamespacePolicy {
        let mut policy = NamespacePolicy::default();
        for (key, node) in self.map(node, NAMESPACE_POLICY, " of an entry of `namespaces`") {
            match key {
                "names" => policy.names = self.globs(&node),
                "deny" => policy.deny = self.threshold(&node, "off"),
                "warn" => policy.warn = self.threshold(&node, "off"),
                _ => policy.selector = self.label_selector(&node),
            }
        }
        policy
    }

    /// A label selector; `None` if it has an error.
    fn label_selector(&mut self, node: &Node<'_>) -> Option<Arc<Tree>> {
        let faults = self.errors.len();
        for (key, node) in self.map(node, LABEL_SELECTOR, " of `selector`") {
            if key == "matchExpressions" {
                for item in self.list(&node) {
                    self.label_expression(&item);
                }
                continue;
            }
            if !node.is_mapping() {
                self.unexpected_value(&node, "a map of labels", &[]);
            }
            for (_, value) in node.entries() {
                self.string(&value);
            }
        }
        (self.errors.len() == faults).then(|| Arc::new(Tree::from_json(&node.to_json())))
    }

    fn label_expression(&mut self, node: &Node<'_>) {
        const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
        let parts = self.map(node, LABEL_EXPRESSION, " of an entry of `matchExpressions`");
        for required in ["key", "operator"] {
            if node.is_mapping() && !parts.contains_key(required) {
                self.error(value_span(node), format!("`{required}` is missing"), None);
            }
        }
        if let Some(key) = parts.get("key") {
            self.string(key);
        }
        let values: Vec<String> = parts.get("values").map(|values| self.strings(values)).unwrap_or_default();
        let Some(operator) = parts.get("operator") else { return };
        match operator.text() {
            Some(text @ ("In" | "NotIn")) if values.is_empty() => {
                self.error(value_span(operator), format!("`{text}` needs `values`"), None);
            }
            Some(text @ ("Exists" | "DoesNotExist")) if !values.is_empty() => {
                self.error(value_span(operator), format!("`{text}` takes no `values`"), None);
            }
            Some(text) if OPERATORS.contains(&text) => {}
            _ => self.unexpected_value(operator, "`In`, `NotIn`, `Exists` or `DoesNotExist`", &OPERATORS),
        }
    }

    fn suppressors(&mut self, node: &Node<'_>) -> Suppressors {
        let mut out = Suppressors::default();
        for (key, node) in self.map(node, SUPPRESSORS, " of `may-suppress`") {
            match key {
                "users" => out.users = self.strings(&node),
                _ => out.groups = self.strings(&node),
            }
        }
        out
    }

    /// Rules, groups, or the word `all`.
    fn forbidden(&mut self, node: &Node<'_>) -> Vec<String> {
        if keyword(node).as_deref() == Some("all") {
            return vec!["all".to_owned()];
        }
        let groups = Group::ALL.iter().map(|g| g.name()).chain(["all"]);
        self.ids(node, &groups.collect::<Vec<_>>())
    }

    /// Service accounts as `NAMESPACE/NAME`.
    fn accounts(&mut self, node: &Node<'_>) -> Vec<String> {
        let mut out = Vec::new();
        for item in self.list(node) {
            let Some(text) = self.string(&item) else { continue };
            let parts = text.split_once('/');
            if parts.is_some_and(|(namespace, name)| is_dns_subdomain(namespace) && is_dns_subdomain(name)) {
                out.push(text);
            } else {
                let message = format!("`{text}` is not a service account: write `NAMESPACE/NAME`");
                self.error(value_span(&item), message, None);
            }
        }
        out
    }

    fn mutate(&mut self, node: &Node<'_>, webhook: &mut WebhookSettings) {
        if node.is_sequence() {
            webhook.mutate_rules = self.rule_ids(node);
            return;
        }
        match keyword(node).as_deref() {
            Some("safe") => {}
            Some("off") => webhook.mutate = Mutation::Off,
            Some("warn") => webhook.mutate = Mutation::Warn,
            _ => {
                self.unexpected_value(
                    node,
                    "`safe`, `warn`, `off` or a list of rules",
                    &["safe", "warn", "off"],
                );
            }
        }
    }

    fn rule_ids(&mut self, node: &Node<'_>) -> Vec<String> {
        self.ids(node, &[])
    }

    /// Rule ids, or one of the words in `others`.
    fn ids(&mut self, node: &Node<'_>, others: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        for item in self.list(node) {
            let Some(id) = self.string(&item) else { continue };
            if self.find_rule(&id).is_some() || others.contains(&&*id) {
                out.push(id);
            } else {
                let known = self.known_rules.iter().map(|r| r.id).chain(others.iter().copied());
                let near = suggest::nearest(&id, known);
                self.error(value_span(&item), format!("unknown rule `{id}`"), near);
            }
        }
        out
    }

    fn rules(&mut self, node: &Node<'_>) -> RuleTable {
        let mut table = RuleTable::default();
        if !node.is_mapping() {
            self.unexpected_value(node, "a map of rules", &[]);
            return table;
        }
        for (name, node) in node.entries() {
            if let Some(rule) = self.find_rule(name) {
                let settings = self.rule(&node, Some(rule), name);
                table.rules.insert(rule.id, settings);
            } else if let Some(group) = Group::ALL.iter().find(|g| g.name() == name) {
                let settings = self.rule(&node, None, name);
                table.groups.insert(*group, settings);
            } else if name == "all" {
                table.all = Some(self.rule(&node, None, name));
            } else {
                let groups = Group::ALL.iter().map(|g| g.name());
                let near = suggest::nearest(name, self.known_rules.iter().map(|r| r.id).chain(groups));
                self.error(node.key_span(), format!("unknown rule `{name}`"), near);
            }
        }
        table
    }

    /// The settings of a rule, or of a group or all rules if `rule` is `None`.
    pub(super) fn rule(&mut self, node: &Node<'_>, rule: Option<&'static Rule>, name: &str) -> RuleSettings {
        let mut settings = RuleSettings::default();
        if !node.is_mapping() {
            match keyword(node).as_deref() {
                Some("off") => settings.enabled = Some(false),
                Some("on") => settings.enabled = Some(true),
                Some(text) if parse_severity(text).is_some() => {
                    settings.enabled = Some(true);
                    settings.severity = parse_severity(text);
                }
                _ => self.unexpected_value(
                    node,
                    "`off`, `on`, `error`, `warning`, `info` or a map",
                    &["off", "on", "error", "warning", "info"],
                ),
            }
            return settings;
        }
        let params = rule.map_or(&[] as &[Param], |r| r.params);
        let mut keys = vec!["severity", "enabled"];
        keys.extend(params.iter().map(|p| p.name));
        for (key, node) in self.map(node, &keys, &format!(" of `{name}`")) {
            match key {
                "severity" => match keyword(&node).as_deref().and_then(parse_severity) {
                    Some(severity) => settings.severity = Some(severity),
                    None => self.unexpected_value(
                        &node,
                        "`error`, `warning` or `info`",
                        &["error", "warning", "info"],
                    ),
                },
                "enabled" => settings.enabled = self.bool(&node),
                _ => {
                    if let Some(param) = params.iter().find(|p| p.name == key)
                        && let Some(value) = self.param(&node, param)
                    {
                        settings.params.insert(key.to_owned(), value);
                    }
                }
            }
        }
        settings
    }

    fn param(&mut self, node: &Node<'_>, param: &Param) -> Option<ParamValue> {
        match param.default {
            ParamDefault::Int { min, max, .. } => match node.int() {
                Some(value) if (min..=max).contains(&value) => Some(ParamValue::Int(value)),
                Some(value) => {
                    let message = format!("`{}` is {value}, not {min} to {max}", param.name);
                    self.error(value_span(node), message, None);
                    None
                }
                None => {
                    self.unexpected_value(node, &format!("a whole number from {min} to {max}"), &[]);
                    None
                }
            },
            ParamDefault::Strings(_) => {
                let faults = self.errors.len();
                let value = self.strings(node);
                (self.errors.len() == faults).then_some(ParamValue::Strings(value))
            }
        }
    }

    /// A severity or the word `never`; if `never` is `off`, `off`.
    fn threshold(&mut self, node: &Node<'_>, never: &str) -> Option<SeverityThreshold> {
        match keyword(node).as_deref() {
            Some("never") => Some(None),
            Some("off") if never == "off" => Some(None),
            Some(text) if parse_severity(text).is_some() => Some(parse_severity(text)),
            _ => {
                let expected = format!("`error`, `warning`, `info` or `{never}`");
                self.unexpected_value(node, &expected, &["error", "warning", "info", never]);
                None
            }
        }
    }

    fn severity(&mut self, node: &Node<'_>) -> Option<Severity> {
        let severity = keyword(node).as_deref().and_then(parse_severity);
        if severity.is_none() {
            self.unexpected_value(node, "`error`, `warning` or `info`", &["error", "warning", "info"]);
        }
        severity
    }

    /// The text is read as written: as a YAML value, unquoted 1.10 is the number 1.1.
    fn version(&mut self, node: &Node<'_>, product: Product, platform: &mut Platform) {
        let text = match node.scalar() {
            Some(Scalar::Str(text)) => Some(text),
            Some(Scalar::Float(_) | Scalar::Int(_)) => self.first_line_of(node),
            _ => None,
        };
        match text.and_then(Version::parse) {
            Some(version) => match product.note_on(version) {
                Ok(note) => {
                    platform.state(product, version);
                    if let Some(note) = note {
                        self.note(value_span(node), note, None);
                    }
                }
                Err(message) => self.error(value_span(node), message, None),
            },
            None => {
                let newest = Platform::default().version(product);
                self.unexpected_value(node, &format!("a version such as \"{newest}\""), &[]);
            }
        }
    }

    fn bool(&mut self, node: &Node<'_>) -> Option<bool> {
        let value = node.bool();
        if value.is_none() {
            self.unexpected_value(node, "`true` or `false`", &[]);
        }
        value
    }

    /// Unlike [`Node::text`], does not recognize placeholders: a configuration has none.
    fn string(&mut self, node: &Node<'_>) -> Option<String> {
        if let Some(Scalar::Str(text)) = node.scalar() {
            return Some(text.to_owned());
        }
        self.unexpected_value(node, "a string", &[]);
        None
    }

    fn strings(&mut self, node: &Node<'_>) -> Vec<String> {
        let items = self.list(node);
        items.iter().filter_map(|item| self.string(item)).collect()
    }

    fn globs(&mut self, node: &Node<'_>) -> Globs {
        let globs = self.glob_texts(node);
        Globs::new(&globs).unwrap_or_else(|message| {
            self.error(value_span(node), message, None);
            Globs::default()
        })
    }

    /// Globs of files, or of folders and everything below them.
    fn globs_of_paths(&mut self, node: &Node<'_>) -> Globs {
        let globs = self.glob_texts(node);
        Globs::of_paths(&globs).unwrap_or_else(|message| {
            self.error(value_span(node), message, None);
            Globs::default()
        })
    }

    fn glob_texts(&mut self, node: &Node<'_>) -> Vec<String> {
        let mut globs = Vec::new();
        for item in self.list(node) {
            let Some(text) = self.string(&item) else { continue };
            match Glob::new(&text) {
                Ok(_) => globs.push(text),
                Err(error) => {
                    let message = format!("bad glob `{text}`: {}", error.kind());
                    self.error(value_span(&item), message, None);
                }
            }
        }
        globs
    }

    fn list<'a>(&mut self, node: &Node<'a>) -> Vec<Node<'a>> {
        if !node.is_sequence() {
            self.unexpected_value(node, "a list", &[]);
        }
        node.items().collect()
    }

    /// The entries of a map with known keys, without those whose value is null.
    fn map<'a>(&mut self, node: &Node<'a>, keys: &[&str], of: &str) -> BTreeMap<&'a str, Node<'a>> {
        if !node.is_mapping() && (node.is_set() || !of.is_empty()) {
            self.unexpected_value(node, "a map", &[]);
        }
        let mut out = BTreeMap::new();
        for (key, child) in node.entries() {
            if !keys.contains(&key) {
                let near = suggest::nearest(key, keys.iter().copied());
                self.error(child.key_span(), format!("unknown key `{key}`{of}"), near);
            } else if child.is_set() {
                out.insert(key, child);
            }
        }
        out
    }

    /// Reports a value of the wrong type, or a word that is not allowed.
    fn unexpected_value(&mut self, node: &Node<'_>, what: &str, words: &[&str]) {
        let found = match node.shape() {
            Shape::Mapping => "a map".to_owned(),
            Shape::Sequence => "a list".to_owned(),
            _ if !node.is_set() => "nothing".to_owned(),
            _ => format!("`{}`", self.first_line_of(node).unwrap_or_default()),
        };
        let near = keyword(node).and_then(|w| suggest::nearest(&w, words.iter().copied()));
        self.error(value_span(node), format!("expected {what}, found {found}"), near);
    }

    /// The first line of a value as written in the file.
    fn first_line_of(&self, node: &Node<'_>) -> Option<&'s str> {
        let span = node.span()?;
        let text = self.source.text().get(span.start as usize..span.end as usize)?;
        text.lines().next()
    }

    fn error(&mut self, span: Option<Span>, message: String, suggestion: Option<&str>) {
        let error = self.remark(span, message, suggestion);
        self.errors.push(error);
    }

    fn note(&mut self, span: Option<Span>, message: String, suggestion: Option<&str>) {
        let note = self.remark(span, message, suggestion);
        self.notes.push(note);
    }

    fn remark(&self, span: Option<Span>, message: String, suggestion: Option<&str>) -> ConfigError {
        let span = span.unwrap_or(Span::new(0, 0));
        let position = self.source.lines().position(self.source.text(), span.start);
        ConfigError {
            path: self.source.path().to_owned(),
            line: position.line,
            column: position.column,
            span,
            message,
            suggestion: suggestion.map(str::to_owned),
        }
    }
}

/// The span of a value, or of its key if the value is empty.
fn value_span(node: &Node<'_>) -> Option<Span> {
    node.span().filter(|s| s.start < s.end).or_else(|| node.key_span()).or_else(|| node.span())
}

/// A keyword. Kubernetes' parser reads `on` and `off` as booleans.
fn keyword(node: &Node<'_>) -> Option<String> {
    match node.scalar()? {
        Scalar::Bool(true) => Some("on".to_owned()),
        Scalar::Bool(false) => Some("off".to_owned()),
        Scalar::Str(text) => Some(text.to_owned()),
        _ => None,
    }
}

fn parse_severity(word: &str) -> Option<Severity> {
    SEVERITIES.iter().copied().find(|s| s.name() == word)
}
