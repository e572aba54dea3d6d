//! The JSON Schema of the configuration for editors, generated from the rule table.

use serde_json::{Map, Value, json};

use crate::karpenter::minors;
use crate::lint::finding::Severity;
use crate::lint::rule::{Group, Param, ParamDefault, Rule, RuleSet};
use crate::lint::settings::WebhookSettings;
use crate::platform::{MinValuesPolicy, Platform};

/// The JSON Schema (2020-12) of `gpulint.yaml`.
pub fn schema(known_rules: RuleSet) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://gpulint.dev/schemas/config.json",
        "title": "gpulint.yaml",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "extends": {"type": ["string", "null"], "minLength": 1, "description": "Another configuration, relative to this file: what is set here wins, and lists go on with what is here. Patterns of paths of a configuration above this folder count from its own folder, those of others from this one"},
            "fail-on": {
                "enum": ["error", "warning", "info", "never"],
                "default": "warning",
                "description": "Findings of this severity or a worse one fail a run"
            },
            "min-severity": {
                "enum": ["error", "warning", "info"],
                "default": "info",
                "description": "Findings of this severity or a worse one are reported; `fail-on` still decides whether a run fails"
            },
            "platform": platform(),
            "rules": {"$ref": "#/$defs/rules", "description": "What is set by rule, by group or for `all`; a rule's own entry wins over its group, and that over `all`"},
            "overrides": overrides(),
            "ignore": strings("Paths that are not checked, as patterns of a .gitignore; `!` excepts paths, also test data and archives, which are skipped by default"),
            "clusters": {
                "type": ["array", "null"],
                "description": "What is applied to one cluster together, relative to this file: clusters with their paths, or a path in which a star names the cluster, such as `clusters/*`",
                "items": {
                    "anyOf": [
                        {"type": "string", "pattern": r"^[^?\[{]*\*[^?\[{]*$"},
                        cluster()
                    ]
                }
            },
            "crds": strings("Files and folders of CustomResourceDefinitions, relative to this file; `gpulint check` checks objects of their kinds against them"),
            "render": render(),
            "baseline": {"type": ["string", "null"], "description": "The baseline of `gpulint check`, relative to this file: findings that are not reported because they were there before"},
            "webhook": webhook(known_rules)
        },
        "$defs": {
            "version": {"type": ["string", "number"], "pattern": r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?$"},
            "severity": {"enum": ["error", "warning", "info"]},
            // Unquoted `on` and `off` are read as booleans, as by Kubernetes' parser.
            "level": {"enum": ["off", "on", "error", "warning", "info", true, false]},
            "rules": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": rules(known_rules)
            }
        }
    })
}

fn platform() -> Value {
    let platform = Platform::default();
    let version = |default: String, about: &str| json!({"$ref": "#/$defs/version", "default": default, "description": about});
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "description": "What the cluster runs on; while a version is not set, a finding that other supported versions do not share is at most a warning",
        "properties": {
            "karpenter": version(platform.karpenter.to_string(), "Karpenter's minor version"),
            "keda": version(platform.keda.to_string(), "KEDA's minor version"),
            "kubernetes": version(platform.kubernetes.to_string(), "Kubernetes' minor version"),
            "eks": {"type": "boolean", "default": platform.eks, "description": "Whether the API server is EKS's"},
            "region": {"type": "string", "description": "The AWS region: what it does not offer is found"},
            "timezone": {"type": "string", "description": "The IANA time zone people think in"},
            "featureGates": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": minors::gates().iter().map(|gate| (gate.name.to_owned(), json!({"type": "boolean"}))).collect::<Map<_, _>>(),
                "description": "Karpenter's feature gates that are set: what depends on one that is not stated is unknown"
            },
            "minValuesPolicy": {
                "enum": MinValuesPolicy::ALL.map(MinValuesPolicy::name),
                "default": MinValuesPolicy::Strict.name(),
                "description": "What Karpenter does if too few types remain for `minValues`"
            }
        }
    })
}

fn overrides() -> Value {
    json!({
        "type": ["array", "null"],
        "description": "Rules that are set otherwise for some objects; later ones win",
        "items": {
            "type": "object",
            "additionalProperties": false,
            "required": ["rules"],
            "properties": {
                "paths": strings("Globs of paths"),
                "namespaces": strings("Globs of namespaces"),
                "kinds": strings("Kinds, exact"),
                "names": strings("Globs of names"),
                "rules": {"$ref": "#/$defs/rules"}
            }
        }
    })
}

fn render() -> Value {
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "description": "What is checked as `helm template` and `kustomize build` render it",
        "properties": {
            "enabled": {"type": "boolean", "default": false, "description": "Whether charts and kustomizations are rendered without --render"},
            "helm": {
                "type": ["array", "null"],
                "description": "Values that charts are rendered with, beside their own",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["chart"],
                    "properties": {
                        "chart": {"type": "string", "description": "The folder of the chart, relative to this file"},
                        "name": {"type": "string", "description": "The name of the release; that of the chart if it is absent"},
                        "namespace": {"type": "string", "description": "The namespace of the release"},
                        "values": strings("Files of values, relative to the chart or to this file; later ones win")
                    }
                }
            }
        }
    })
}

fn webhook(known_rules: RuleSet) -> Value {
    let webhook = WebhookSettings::default();
    let replaces = |key: &str| {
        let mut value =
            threshold(None, &format!("Replaces `webhook.{key}`, which holds where this is not set"));
        value.as_object_mut().map(|value| value.remove("default"));
        value
    };
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "description": "What the admission webhook does",
        "properties": {
            "deny": threshold(webhook.deny, "Findings of this severity or a worse one deny a request"),
            "warn": threshold(webhook.warn, "Findings of this severity or a worse one become warnings"),
            "namespaces": {
                "type": ["array", "null"],
                "description": "Other thresholds for some namespaces: the first entry that fits",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "names": strings("Globs of names; empty: every name"),
                        "selector": label_selector(),
                        "deny": replaces("deny"),
                        "warn": replaces("warn")
                    }
                }
            },
            "mutate": {
                "description": "Which fixes are sent: the safe ones, none, or also those of these rules; `warn` only says what would be written",
                "default": "safe",
                "anyOf": [{"enum": ["safe", "warn", "off", false]}, rule_ids(known_rules)]
            },
            "exempt-namespaces": {
                "type": "array",
                "items": {"type": "string"},
                "default": webhook.exempt_namespaces.patterns(),
                "description": "Globs of namespaces that are never checked"
            },
            "exempt-accounts": {
                "type": "array",
                "items": {"type": "string", "pattern": "^[a-z0-9.-]+/[a-z0-9.-]+$"},
                "default": webhook.exempt_accounts,
                "description": "Service accounts, as NAMESPACE/NAME, whose requests are never checked"
            },
            "exempt-groups": {
                "type": "array",
                "items": {"type": "string"},
                "default": webhook.exempt_groups,
                "description": "Groups of users whose requests are never checked"
            },
            "operators": {
                "type": "array",
                "items": {"type": "string", "pattern": "^[a-z0-9.-]+/[a-z0-9.-]+$"},
                "default": webhook.operators,
                "description": "Service accounts of operators, as NAMESPACE/NAME: what they make for an owner that was checked is not checked again"
            },
            "forbid-suppressions": {
                "description": "Rules and groups of rules that an annotation may not suppress; `all`: any",
                "anyOf": [{"const": "all"}, {"type": "array", "items": {"enum": rules_and_groups(known_rules)}}]
            },
            "may-suppress": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "description": "Who may suppress by an annotation in the cluster; everybody where it is not set",
                "properties": {
                    "users": strings("User names as the API server knows them"),
                    "groups": strings("Groups of users")
                }
            }
        }
    })
}

fn cluster() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "paths"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "What reports call the cluster"},
            "paths": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "Globs of files, or folders with all below them; a file may be of several clusters"
            }
        }
    })
}

fn rules(known_rules: RuleSet) -> Map<String, Value> {
    let groups = Group::ALL.iter().map(|group| {
        let about = format!("Every rule of the group {}", group.name());
        (group.name().to_owned(), setting(&about, None, &[]))
    });
    let rules = known_rules.iter().map(|rule: &&Rule| {
        let value = setting(rule.summary(), Some(rule.severity), rule.params);
        (rule.id.to_owned(), value)
    });
    let all = ("all".to_owned(), setting("Every rule", None, &[]));
    std::iter::once(all).chain(groups).chain(rules).collect()
}

fn setting(about: &str, severity: Option<Severity>, params: &[Param]) -> Value {
    let mut own = json!({"$ref": "#/$defs/severity"});
    if let Some(severity) = severity {
        own["default"] = severity.name().into();
    }
    let mut properties = Map::new();
    properties.insert("severity".to_owned(), own);
    properties.insert("enabled".to_owned(), json!({"type": "boolean"}));
    for param in params {
        let value = match param.default {
            ParamDefault::Int { default, min, max } => json!({
                "type": "integer", "minimum": min, "maximum": max, "default": default
            }),
            ParamDefault::Strings(default) => json!({
                "type": "array", "items": {"type": "string"}, "default": default
            }),
        };
        properties.insert(param.name.to_owned(), with_description(value, param.description));
    }
    json!({
        "description": about,
        "anyOf": [
            {"$ref": "#/$defs/level"},
            {"type": "object", "additionalProperties": false, "properties": properties}
        ]
    })
}

fn strings(about: &str) -> Value {
    json!({"type": ["array", "null"], "items": {"type": "string"}, "description": about})
}

fn rule_ids(known_rules: RuleSet) -> Value {
    let ids: Vec<&str> = known_rules.iter().map(|r| r.id).collect();
    json!({"type": "array", "items": {"enum": ids}})
}

fn rules_and_groups(known_rules: RuleSet) -> Vec<&'static str> {
    let groups = Group::ALL.iter().map(|group| group.name());
    known_rules.iter().map(|rule| rule.id).chain(groups).chain(["all"]).collect()
}

fn label_selector() -> Value {
    let expression = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string"},
            "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
            "values": {"type": ["array", "null"], "items": {"type": "string"}}
        }
    });
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "description": "The label selector that the namespace has to match",
        "properties": {
            "matchLabels": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": ["array", "null"], "items": expression}
        }
    })
}

fn threshold(default: Option<Severity>, about: &str) -> Value {
    json!({
        "enum": ["error", "warning", "info", "off", "never", false],
        "default": default.map_or("off", Severity::name),
        "description": about
    })
}

fn with_description(mut value: Value, about: &str) -> Value {
    value["description"] = about.into();
    value
}

#[cfg(test)]
mod tests {
    use super::super::reader;
    use super::schema;

    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema = schema(crate::rules::RULES);
        let properties = &schema["properties"];
        let namespaces = &properties["webhook"]["properties"]["namespaces"]["items"];
        let selector = &namespaces["properties"]["selector"];
        let cluster = &properties["clusters"]["items"]["anyOf"][1];
        for (map, keys) in [
            (&schema, reader::ROOT),
            (&properties["platform"], reader::PLATFORM),
            (&properties["webhook"], reader::WEBHOOK),
            (&properties["render"], reader::RENDER),
            (&properties["render"]["properties"]["helm"]["items"], reader::HELM),
            (&properties["overrides"]["items"], reader::OVERRIDE),
            (cluster, reader::CLUSTER),
            (namespaces, reader::NAMESPACE_POLICY),
            (selector, reader::LABEL_SELECTOR),
            (&selector["properties"]["matchExpressions"]["items"], reader::LABEL_EXPRESSION),
            (&properties["webhook"]["properties"]["may-suppress"], reader::SUPPRESSORS),
        ] {
            let map = map["properties"].as_object().unwrap();
            assert_eq!(map.keys().map(String::as_str).collect::<Vec<_>>(), keys);
        }
    }
}
