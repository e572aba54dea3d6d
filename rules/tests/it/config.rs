//! The configuration: what each key does, and the exact text of each error.

use gpulint_rules::lint::config::Config;
use gpulint_rules::lint::settings::Mutation;
use gpulint_rules::{RULES, Severity, Version};

fn errors(text: &str) -> Vec<String> {
    match Config::parse("gpulint.yaml", text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn settings(text: &str) -> gpulint_rules::Settings {
    match Config::parse("gpulint.yaml", text) {
        Ok(config) => config.resolve(),
        Err(errors) => panic!("{errors:?}"),
    }
}

#[test]
fn an_empty_file_is_the_default() {
    let default = format!("{:?}", gpulint_rules::Settings::default());
    for text in ["", "\n", "# nothing yet\n", "---\n", "{}\n", "~\n", "rules:\nplatform:\n"] {
        assert_eq!(format!("{:?}", settings(text)), default, "{text:?}");
    }
}

#[test]
fn every_key_is_read() {
    let settings = settings(
        "\
fail-on: never
platform: {karpenter: 1.10, keda: \"2.9\", kubernetes: v1.33.4, eks: false, region: eu-west-1, timezone: Europe/Berlin}
rules:
  yaml-syntax: info
  yaml-duplicate-key: off
  yaml-limit-exceeded: {severity: warning, enabled: false}
overrides:
  - {paths: [\"dev/**\"], namespaces: [\"sandbox-*\"], kinds: [Pod], names: [a], rules: {yaml-syntax: off}}
  - {rules: {yaml-syntax: on}}
ignore: [\"vendor/**\"]
webhook:
  deny: off
  warn: error
  mutate: [yaml-syntax]
  exempt-namespaces: [a]
  forbid-suppressions: [yaml-syntax]
",
    );
    assert_eq!(settings.fail_on, None);
    assert_eq!(settings.platform.karpenter, Version::new(1, 10));
    assert_eq!(settings.platform.keda, Version::new(2, 9));
    assert_eq!(settings.platform.kubernetes, Version::new(1, 33));
    assert!(!settings.platform.eks);
    assert_eq!(settings.platform.region.as_deref(), Some("eu-west-1"));
    assert_eq!(settings.platform.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(settings.rules["yaml-syntax"].severity, Some(Severity::Info));
    assert_eq!(settings.rules["yaml-duplicate-key"].enabled, Some(false));
    let limit = &settings.rules["yaml-limit-exceeded"];
    assert_eq!((limit.enabled, limit.severity), (Some(false), Some(Severity::Warning)));
    assert_eq!(settings.rules.len(), 3);
    let first = &settings.overrides[0];
    assert!(first.paths.matches("dev/a/b.yaml") && !first.paths.matches("prod/b.yaml"));
    assert!(first.namespaces.matches("sandbox-1") && first.names.matches("a"));
    assert_eq!(first.kinds, ["Pod"]);
    assert_eq!(first.rules["yaml-syntax"].enabled, Some(false));
    assert_eq!(settings.overrides[1].rules["yaml-syntax"].enabled, Some(true));
    assert!(settings.ignore_paths.matches("vendor/x.yaml"));
    let webhook = &settings.webhook;
    assert_eq!((webhook.deny, webhook.warn), (None, Some(Severity::Error)));
    assert_eq!(webhook.mutate, Mutation::Patch);
    assert_eq!(webhook.mutate_rules, ["yaml-syntax"]);
    assert_eq!(webhook.exempt_namespaces.patterns(), ["a"]);
    assert_eq!(webhook.forbid_suppressions, ["yaml-syntax"]);
}

#[test]
fn other_spellings_are_read() {
    let settings = settings(
        "fail-on: error\nwebhook: {deny: \"off\", warn: never, mutate: off}\nrules: {yaml-syntax: \"off\"}\n",
    );
    assert_eq!(settings.fail_on, Some(Severity::Error));
    assert_eq!((settings.webhook.deny, settings.webhook.warn), (None, None));
    assert_eq!(settings.webhook.mutate, Mutation::Off);
    assert_eq!(settings.rules["yaml-syntax"].enabled, Some(false));
}

#[test]
fn a_rules_own_entry_wins_over_its_group() {
    let settings = settings(
        "\
rules:
  yaml-syntax: error
  yaml-duplicate-key: {severity: info}
  manifest: off
overrides:
  - {paths: [\"dev/**\"], rules: {manifest: warning, yaml-syntax: off}}
",
    );
    let set = |id: &str| (settings.rules[id].enabled, settings.rules[id].severity);
    assert_eq!(set("yaml-syntax"), (Some(true), Some(Severity::Error)));
    assert_eq!(set("yaml-duplicate-key"), (Some(true), Some(Severity::Info)));
    assert_eq!(set("yaml-limit-exceeded"), (Some(false), None));
    assert!(!settings.rules.contains_key("gpu-pool-untainted"));
    let rules = &settings.overrides[0].rules;
    assert_eq!(rules["yaml-syntax"].enabled, Some(false));
    assert_eq!(rules["yaml-limit-exceeded"].severity, Some(Severity::Warning));
    assert_eq!(rules["yaml-limit-exceeded"].enabled, Some(true));
}

#[test]
fn errors_have_places_and_suggestions() {
    for (text, expected) in [
        ("fail_on: error\n", "1:1: unknown key `fail_on`; did you mean `fail-on`?"),
        ("xyzzy: 1\n", "1:1: unknown key `xyzzy`"),
        (
            "fail-on: eror\n",
            "1:10: expected `error`, `warning`, `info` or `never`, found `eror`; did you mean `error`?",
        ),
        ("fail-on: off\n", "1:10: expected `error`, `warning`, `info` or `never`, found `off`"),
        ("platform: {karpenter: new}\n", "1:23: expected a version such as \"1.15\", found `new`"),
        ("platform: {karpenter: 1}\n", "1:23: expected a version such as \"1.15\", found `1`"),
        (
            "platform: {kubernets: 1.34}\n",
            "1:12: unknown key `kubernets` of `platform`; did you mean `kubernetes`?",
        ),
        ("platform: {karpenter: \"2.0\"}\n", "1:23: gpulint knows Karpenter 1.0 to 1.15, not 2.0"),
        ("platform: {karpenter: 0.37}\n", "1:23: gpulint knows Karpenter 1.0 to 1.15, not 0.37"),
        ("platform: {keda: v3.1.2}\n", "1:18: gpulint knows KEDA 2.14 to 2.21, not 3.1"),
        ("platform: {kubernetes: 2.1}\n", "1:24: gpulint knows Kubernetes 1.32 to 1.37, not 2.1"),
        ("platform: {eks: maybe}\n", "1:17: expected `true` or `false`, found `maybe`"),
        ("platform: {region: 5}\n", "1:20: expected a string, found `5`"),
        (
            "platform: {region: us-esat-1}\n",
            "1:20: `us-esat-1` is not an AWS region; did you mean `us-east-1`?",
        ),
        (
            "platform: {region: EU-WEST-1}\n",
            "1:20: `EU-WEST-1` is not an AWS region; did you mean `eu-west-1`?",
        ),
        ("platform: {region: westeurope}\n", "1:20: `westeurope` is not an AWS region"),
        (
            "overrides: [{kinds: [Nodepool], rules: {}}]\n",
            "1:22: there is no kind `Nodepool`; did you mean `NodePool`?",
        ),
        ("overrides: [{kinds: [\"*\"], rules: {}}]\n", "1:22: `*` is not a kind; globs do not count here"),
        (
            "platform: {timezone: asia/seoul}\n",
            "1:22: there is no time zone `asia/seoul`; did you mean `Asia/Seoul`?",
        ),
        ("platform: eks\n", "1:11: expected a map, found `eks`"),
        ("rules: {yaml-sintax: off}\n", "1:9: unknown rule `yaml-sintax`; did you mean `yaml-syntax`?"),
        ("rules: {manifst: off}\n", "1:9: unknown rule `manifst`; did you mean `manifest`?"),
        ("rules: [yaml-syntax]\n", "1:8: expected a map of rules, found a list"),
        (
            "rules:\n  yaml-syntax: warn\n",
            "2:16: expected `off`, `on`, `error`, `warning`, `info` or a map, found `warn`",
        ),
        (
            "rules:\n  yaml-syntax:\n",
            "2:3: expected `off`, `on`, `error`, `warning`, `info` or a map, found nothing",
        ),
        (
            "rules:\n  yaml-syntax: {severity: off}\n",
            "2:27: expected `error`, `warning` or `info`, found `off`",
        ),
        (
            "rules:\n  yaml-syntax: {sevrity: error}\n",
            "2:17: unknown key `sevrity` of `yaml-syntax`; did you mean `severity`?",
        ),
        ("overrides: {rules: {}}\n", "1:12: expected a list, found a map"),
        ("overrides: [{paths: [a]}]\n", "1:13: the override has no `rules`"),
        (
            "overrides: [{path: [a], rules: {}}]\n",
            "1:14: unknown key `path` of an override; did you mean `paths`?",
        ),
        ("overrides: [{paths: a, rules: {}}]\n", "1:21: expected a list, found `a`"),
        ("overrides: [x]\n", "1:13: expected a map, found `x`"),
        ("ignore: [\"a[\"]\n", "1:10: bad glob `a[`: unclosed character class; missing ']'"),
        ("ignore: [é, 1]\n", "1:13: expected a string, found `1`"),
        ("webhook: {mutat: safe}\n", "1:11: unknown key `mutat` of `webhook`; did you mean `mutate`?"),
        (
            "webhook: {mutate: saef}\n",
            "1:19: expected `safe`, `warn`, `off` or a list of rules, found `saef`; did you mean `safe`?",
        ),
        ("webhook: {mutate: [yaml-sytax]}\n", "1:20: unknown rule `yaml-sytax`; did you mean `yaml-syntax`?"),
        (
            "webhook: {namespaces: [{selector: {matchExpressions: [{key: a, operator: Im, values: [b]}]}}]}\n",
            "1:74: expected `In`, `NotIn`, `Exists` or `DoesNotExist`, found `Im`; did you mean `In`?",
        ),
        (
            "webhook: {namespaces: [{selector: {matchExpressions: [{key: a, operator: NotIn}]}}]}\n",
            "1:74: `NotIn` needs `values`",
        ),
        (
            "webhook: {namespaces: [{selector: {matchExpressions: [{key: a, operator: Exists, value: a}]}}]}\n",
            "1:82: unknown key `value` of an entry of `matchExpressions`; did you mean `values`?",
        ),
        ("webhook: {deny: {a: 1}}\n", "1:17: expected `error`, `warning`, `info` or `off`, found a map"),
        ("fail-on: error\nfail-on: info\n", "2:1: duplicate key"),
        ("fail-on: error\n---\nrules: {}\n", "2:1: a configuration is one document; this is a second one"),
        ("- a\n", "1:1: expected a map, found a list"),
    ] {
        let found = errors(text);
        let expected = format!("gpulint.yaml:{expected}");
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        if expected.ends_with("duplicate key") {
            assert!(found[0].starts_with("gpulint.yaml:2:1: "), "{found:?}");
        } else {
            assert_eq!(found[0], expected, "{text:?}");
        }
    }
    assert!(errors("fail-on: {a: [\n")[0].starts_with("gpulint.yaml:"));
}

/// A name that may be valid is not an error: a region that opened later, a custom resource, a version that is
/// newer than this gpulint.
#[test]
fn what_may_be_a_mistake_is_noted() {
    for (text, expected) in [
        (
            "platform: {region: us-east-9}\n",
            "1:20: gpulint does not know the region `us-east-9`, nor what it offers; did you mean `us-east-1`?",
        ),
        (
            "overrides: [{kinds: [NodPool], rules: {}}]\n",
            "1:22: gpulint does not know the kind `NodPool`; did you mean `NodePool`?",
        ),
        (
            "platform: {karpenter: \"1.16\"}\n",
            "1:23: Karpenter 1.16 is judged as 1.15, the newest that gpulint knows",
        ),
        (
            "platform: {karpenter: \"1.0\", kubernetes: \"1.34\"}\n",
            "1:42: Karpenter 1.0 supports Kubernetes 1.25 to 1.31, not 1.34",
        ),
        (
            "platform: {kubernetes: 1.40}\n",
            "1:24: Kubernetes 1.40 is judged as 1.37, the newest that gpulint knows",
        ),
    ] {
        assert_eq!(settings(text).notes, [format!("gpulint.yaml:{expected}")], "{text}");
    }
    for text in [
        "platform: {region: us-gov-west-1, karpenter: 1.14, keda: 2.9, kubernetes: 1.34}\n",
        "platform: {region: mx-central-1}\n",
        "overrides: [{kinds: [NodePool, Deployment, ConfigMap, Sandbox], rules: {}}]\n",
    ] {
        assert_eq!(settings(text).notes, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn all_means_every_rule_and_a_narrower_name_wins() {
    let settings = settings(
        "\
rules:
  yaml-syntax: {severity: info}
  nodepool: error
  all: off
overrides:
  - {paths: [\"dev/**\"], rules: {all: info, yaml-syntax: off}}
",
    );
    let set = |id: &str| (settings.rules[id].enabled, settings.rules[id].severity);
    assert_eq!(settings.rules.len(), RULES.len());
    assert_eq!(set("yaml-duplicate-key"), (Some(false), None));
    assert_eq!(set("gpu-pool-untainted"), (Some(true), Some(Severity::Error)));
    assert_eq!(set("yaml-syntax"), (Some(true), Some(Severity::Info)));
    let rules = &settings.overrides[0].rules;
    assert_eq!(
        (rules["pdb-missing"].enabled, rules["pdb-missing"].severity),
        (Some(true), Some(Severity::Info))
    );
    assert_eq!(rules["yaml-syntax"].enabled, Some(false));
}

/// A selected rule is active unless the configuration is more specific about it; overrides remain in effect.
#[test]
fn a_selection_wins_over_what_the_configuration_turns_off() {
    for (text, select, runs) in [
        ("rules: {pdb-missing: off}", "pdb-missing", true),
        ("rules: {availability: off}", "pdb-missing", true),
        ("rules: {availability: off}", "availability", true),
        ("rules: {all: off}", "availability", true),
        ("rules: {all: off}", "all", true),
        ("rules: {pdb-missing: off}", "availability", false),
        ("rules: {pdb-missing: {enabled: false}}", "all", false),
        ("rules: {availability: off}", "all", false),
        ("rules: {pdb-missing: off}", "gpu", false),
        ("overrides: [{rules: {pdb-missing: off}}]", "pdb-missing", false),
    ] {
        let mut settings = settings(text);
        settings.select = vec![select.to_owned()];
        let rule = RULES.iter().find(|rule| rule.id == "pdb-missing").unwrap();
        assert_eq!(settings.rule(rule, None, None).enabled != Some(false), runs, "{text} {select}");
        settings.ignore_rules = vec![rule.id.to_owned()];
        assert_eq!(settings.rule(rule, None, None).enabled, Some(false), "{text} {select}");
    }
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_text() {
    assert_eq!(
        errors("webhook: {deny: x}\nrules: {nope: off}\nfail-on: [1]\n"),
        [
            "gpulint.yaml:1:17: expected `error`, `warning`, `info` or `off`, found `x`",
            "gpulint.yaml:2:9: unknown rule `nope`",
            "gpulint.yaml:3:10: expected `error`, `warning`, `info` or `never`, found a list",
        ]
    );
}

#[test]
fn any_text_is_an_answer() {
    for text in
        ["\0", "*a", "&a [*a]", "? [a]\n: b", "<<: {fail-on: info}", "\u{FEFF}fail-on: x", "ignore: *x"]
    {
        let _ = Config::parse("gpulint.yaml", text);
    }
    assert_eq!(settings("<<: {fail-on: info}\n").fail_on, Some(Severity::Info));
}

#[test]
fn the_schema_names_every_rule_and_parameter() {
    let schema = Config::schema();
    let rules = &schema["$defs"]["rules"]["properties"];
    for rule in RULES {
        let of = &rules[rule.id];
        assert_eq!(of["description"], rule.summary(), "{}", rule.id);
        let own = &of["anyOf"][1]["properties"];
        assert_eq!(own["severity"]["default"], rule.severity.name());
        for param in rule.params {
            assert_eq!(own[param.name]["description"], param.description, "{}", rule.id);
        }
    }
    assert!(rules["manifest"].is_object() && rules["all"].is_object());
}
