//! `extends`: a configuration over the one that it is based on.

use globset::Glob;

use super::{Config, RuleTable};
use crate::lint::settings::{ClusterPaths, Globs, RuleSettings, WebhookSettings};
use crate::platform::Product;

impl Config {
    /// Merges this configuration over `base`: its values win, and its lists are appended to those of `base`. `up` is
    /// the relative path from the folder of this configuration to that of `base`; `below` is the way back if the
    /// folder of `base` contains this one, empty for the same folder.
    pub fn merged_over(mut self, base: Config, up: &str, below: Option<&str>) -> Config {
        let joined = |path: &String| join(up, path);
        let rebased = |globs: &Globs, of_paths: bool| {
            let patterns: Vec<String> = match below {
                Some(below) => globs.patterns().iter().filter_map(|p| rebase(p, below, of_paths)).collect(),
                None => globs.patterns().to_vec(),
            };
            let compiled = if of_paths { Globs::of_paths(&patterns) } else { Globs::new(&patterns) };
            // Parts of valid globs are valid globs.
            compiled.unwrap_or_default()
        };
        self.fail_on = self.fail_on.or(base.fail_on);
        self.min_severity = self.min_severity.or(base.min_severity);
        for product in Product::ALL {
            if !self.platform.is_stated(product) && base.platform.is_stated(product) {
                self.platform.state(product, base.platform.version(product));
            }
        }
        if !self.written.contains("platform.eks") {
            self.platform.eks = base.platform.eks;
        }
        self.platform.region = self.platform.region.or(base.platform.region);
        self.platform.timezone = self.platform.timezone.or(base.platform.timezone);
        self.platform.min_values_policy = self.platform.min_values_policy.or(base.platform.min_values_policy);
        let mut gates = base.platform.feature_gates;
        gates.append(&mut self.platform.feature_gates);
        self.platform.feature_gates = gates;
        self.rules = self.rules.merged_over(base.rules);
        let mut overrides = base.overrides;
        overrides.retain_mut(|one| {
            let had_paths = !one.selector.paths.is_empty();
            one.selector.paths = rebased(&one.selector.paths, true);
            // An override without a pattern would match every file.
            !had_paths || !one.selector.paths.is_empty()
        });
        overrides.append(&mut self.overrides);
        self.overrides = overrides;
        let ignore: Vec<String> =
            rebased(&base.ignore, false).patterns().iter().chain(self.ignore.patterns()).cloned().collect();
        self.ignore = Globs::new(&ignore).unwrap_or_default();
        let is_own = |name: &Option<String>| {
            name.is_some() && self.clusters.iter().any(|own: &ClusterPaths| own.name == *name)
        };
        let mut clusters: Vec<ClusterPaths> = (base.clusters.into_iter())
            .filter(|cluster| !is_own(&cluster.name))
            .map(|cluster| ClusterPaths { paths: rebased(&cluster.paths, true), ..cluster })
            .filter(|cluster| !cluster.paths.is_empty())
            .collect();
        clusters.append(&mut self.clusters);
        self.clusters = clusters;
        self.crds = base.crds.iter().map(joined).chain(self.crds).collect();
        if !self.written.contains("render.enabled") {
            self.render.enabled = base.render.enabled;
        }
        let mut helm = base.render.helm;
        for chart in &mut helm {
            // A values file is relative to the chart or to the configuration; only the path of the chart changes.
            chart.chart = join(up, &chart.chart);
        }
        helm.append(&mut self.render.helm);
        self.render.helm = helm;
        self.baseline = self.baseline.or_else(|| base.baseline.as_ref().map(joined));
        self.webhook.take_from(base.webhook, |key| {
            let key = format!("webhook.{key}");
            base.written.contains(&key) && !self.written.contains(&key)
        });
        self.written.extend(base.written);
        let mut notes = base.notes;
        notes.append(&mut self.notes);
        self.notes = notes;
        self
    }
}

impl RuleTable {
    /// Merges entry by entry; which entry applies to a rule is decided later, as within one file.
    fn merged_over(mut self, base: RuleTable) -> RuleTable {
        let over = |own: Option<RuleSettings>, below: &RuleSettings| match own {
            Some(own) => own.merged_over(below),
            None => below.clone(),
        };
        for (id, below) in &base.rules {
            let merged = over(self.rules.remove(id), below);
            self.rules.insert(id, merged);
        }
        for (group, below) in &base.groups {
            let merged = over(self.groups.remove(group), below);
            self.groups.insert(*group, merged);
        }
        if let Some(below) = &base.all {
            self.all = Some(over(self.all.take(), below));
        }
        self
    }
}

impl WebhookSettings {
    /// Copies the settings of `base` whose keys `takes` accepts.
    fn take_from(&mut self, base: WebhookSettings, takes: impl Fn(&str) -> bool) {
        macro_rules! take {
            ($($key:literal => $($field:ident),+;)+) => {
                $(if takes($key) {
                    $(self.$field = base.$field;)+
                })+
            };
        }
        take! {
            "deny" => deny;
            "warn" => warn;
            "namespaces" => namespaces;
            "mutate" => mutate, mutate_rules;
            "exempt-namespaces" => exempt_namespaces;
            "exempt-accounts" => exempt_accounts;
            "exempt-groups" => exempt_groups;
            "operators" => operators;
            "forbid-suppressions" => forbid_suppressions;
            "may-suppress" => may_suppress;
        }
    }
}

fn join(up: &str, path: &String) -> String {
    if up.is_empty() || path.starts_with('/') { path.clone() } else { format!("{up}/{path}") }
}

/// Rewrites a pattern that is relative to a folder as one relative to its subfolder `below`; `None` if it matches
/// nothing there. If not `anchored`, a pattern of one part matches in every folder, as in a `.gitignore`.
fn rebase(pattern: &str, below: &str, anchored: bool) -> Option<String> {
    let (not, path) = pattern.strip_prefix('!').map_or(("", pattern), |path| ("!", path));
    let trimmed = path.trim_start_matches("./").trim_matches('/');
    let is_floating = !anchored && !path.starts_with("./") && !path.trim_end_matches('/').contains('/');
    if below.is_empty() || is_floating || matches!(trimmed, "" | ".") {
        return Some(pattern.to_owned());
    }
    let mut parts: Vec<&str> = trimmed.split('/').collect();
    for folder in below.split('/') {
        match parts.first() {
            // `below` leads out of this folder.
            None => return Some(format!("{not}**")),
            Some(&"**") => break,
            Some(part) if Glob::new(part).is_ok_and(|glob| glob.compile_matcher().is_match(folder)) => {
                parts.remove(0);
            }
            Some(_) => return None,
        }
    }
    if parts.is_empty() {
        return Some(format!("{not}**"));
    }
    let end = if path.ends_with('/') && !anchored { "/" } else { "" };
    let start = if anchored { "" } else { "/" };
    Some(format!("{not}{start}{}{end}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError};
    use super::rebase;
    use crate::lint::finding::Severity;
    use crate::rules::RULES;

    fn config(text: &str) -> Config {
        let read: Result<Config, Vec<ConfigError>> = Config::parse_for("gpulint.yaml", text, RULES);
        read.unwrap()
    }

    #[test]
    fn what_is_set_wins_over_what_is_extended_and_lists_go_on() {
        let base = config(
            "fail-on: error\nplatform: {karpenter: '1.9', keda: '2.17', eks: false}\n\
             rules: {gpu: warning, gpu-pool-untainted: {severity: info}}\n\
             overrides: [{paths: [dev], rules: {all: off}}]\nignore: [vendor]\ncrds: [crds]\n\
             baseline: base.yaml\nwebhook: {deny: off, warn: info}\nrender: {enabled: true}\n",
        );
        let own = config(
            "platform: {karpenter: '1.13'}\nrules: {gpu-pool-untainted: error}\n\
             overrides: [{paths: [prod], rules: {all: error}}]\nignore: [old]\ncrds: [own]\nwebhook: {warn: error}\n",
        );
        let merged = own.merged_over(base, "../shared", None);
        let settings = merged.resolve();
        assert_eq!(settings.fail_on, Some(Severity::Error));
        assert_eq!(settings.platform.karpenter.to_string(), "1.13");
        assert_eq!(settings.platform.keda.to_string(), "2.17");
        assert!(!settings.platform.eks);
        assert_eq!(settings.rules["gpu-pool-untainted"].severity, Some(Severity::Error));
        assert_eq!(settings.rules["gpu-limit-mismatch"].severity, Some(Severity::Warning));
        let paths: Vec<_> = settings.overrides.iter().flat_map(|one| one.paths.patterns()).collect();
        assert_eq!(paths, ["dev", "prod"]);
        assert_eq!(settings.ignore_paths.patterns(), ["vendor", "old"]);
        assert_eq!(merged.crds(), ["../shared/crds", "own"]);
        assert_eq!(merged.baseline(), Some("../shared/base.yaml"));
        assert!(merged.render().enabled);
        assert_eq!(settings.webhook.deny, None);
        assert_eq!(settings.webhook.warn, Some(Severity::Error));
    }

    #[test]
    fn patterns_of_a_folder_above_count_from_there() {
        for (pattern, anchored, expected) in [
            ("apps/llm/dev", true, Some("dev")),
            ("apps/*/dev/**", true, Some("dev/**")),
            ("apps", true, Some("**")),
            ("**/tests", true, Some("**/tests")),
            ("clusters/prod", true, None),
            ("*", true, Some("**")),
            ("vendor", false, Some("vendor")),
            ("vendor/", false, Some("vendor/")),
            ("!apps/llm/vendor/", false, Some("!/vendor/")),
            ("/apps/llm/a.yaml", false, Some("/a.yaml")),
            ("other/a.yaml", false, None),
        ] {
            assert_eq!(rebase(pattern, "apps/llm", anchored).as_deref(), expected, "{pattern}");
        }
        assert_eq!(rebase("apps/x", "", true).as_deref(), Some("apps/x"));
    }
}
