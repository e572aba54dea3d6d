//! Values that scalers accept and reject, case by case.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{self, Surroundings};
use super::formula::{FormulaError, formula_error};
use super::scalers::{KeySource, KeyStatus};
use super::sources::Authentication;
use super::value::{KeyType, boolean, number, plain_number, whole};
use super::{scalers, triggers};
use crate::object::Object;
use crate::platform::{Product, Version};
use crate::workload::environment::{Environment, Variable};

#[test]
fn numbers_follow_json() {
    for text in ["0", "-1", "70", "5.0", "1e1", "0.5", "1E-3"] {
        assert!(number(text).is_some(), "{text}");
    }
    for text in ["", "+5", "05", ".5", "5.", "70%", "NaN", "1e", "0x10", "1_0", "1e999"] {
        assert!(number(text).is_none(), "{text}");
    }
    assert_eq!(whole("70"), Some(70));
    for text in ["5.0", "1e1", "9223372036854775808"] {
        assert!(whole(text).is_none(), "{text}");
    }
    for (text, plain) in [("70%", "70"), ("+70", "70"), ("070", "70"), (".5", "0.5"), ("5.", "5")] {
        assert_eq!(plain_number(text).as_deref(), Some(plain), "{text}");
    }
    assert_eq!(plain_number("seventy"), None);
}

#[test]
fn booleans_and_durations_follow_go() {
    assert_eq!(boolean("True"), Some(true));
    assert_eq!(boolean("yes"), None);
    let fine = |text: &str| KeyType::Duration.rejects(text, ',', false).is_none();
    assert!(fine("30s") && fine("1m30s") && fine("5000") && fine("0"));
    assert!(!fine("-5s") && !fine("-5") && !fine("5 s") && !fine("1d"));
    assert!(KeyType::Map.rejects("a=b,c=d", ',', false).is_none());
    assert!(KeyType::Map.rejects("a=b=c", ',', false).is_some());
    assert!(KeyType::Ints.rejects("1,2-4", ',', true).is_none());
    assert!(KeyType::Ints.rejects("1,x", ',', true).is_some());
}

fn problems(trigger: serde_json::Value) -> Vec<String> {
    let object = Object::from_json(&serde_json::json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": "x"}, "spec": {"triggers": [trigger]}
    }))
    .unwrap();
    let trigger = triggers(&object).next().unwrap();
    let scaler = trigger.scaler(Product::Keda.newest()).unwrap();
    let authentication =
        if trigger.has_authentication() { Authentication::Unknown } else { Authentication::None };
    let around = Surroundings { modifiers: Some(false), authentication, environment: Environment::Unknown };
    let mut out: Vec<String> = check::problems(trigger, scaler, &around)
        .into_iter()
        .map(|p| {
            assert!(p.message.chars().count() <= 120, "{}", p.message);
            assert!(p.help.chars().count() <= 120, "{}", p.help);
            p.message
        })
        .collect();
    out.sort();
    out
}

#[test]
fn scalers_are_built_or_not() {
    use serde_json::json;
    let good = json!({"serverAddress": "http://p.m:9090", "query": "sum(x)", "threshold": "70"});
    let cases = [
        (json!({"type": "prometheus", "metadata": good}), 0),
        (json!({"type": "prometheus", "metadata": {}}), 3),
        (
            json!({"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": " ",
            "threshold": "70%", "ignoreNullValues": "yes"}}),
            3,
        ),
        (
            json!({"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "x",
            "threshold": "1", "authModes": "basic,bearer", "customHeaders": "a"}}),
            4,
        ),
        (
            json!({"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "x",
            "threshold": "1", "authModes": "basic"}, "authenticationRef": {"name": "a"}}),
            0,
        ),
        (
            json!({"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * MON-FRI",
            "end": "0 18 * * *", "desiredReplicas": "3"}}),
            0,
        ),
        (
            json!({"type": "cron", "metadata": {"timezone": "UTC", "start": "@daily",
            "end": "@daily", "desiredReplicas": "0"}}),
            4,
        ),
        (
            json!({"type": "cron", "metadata": {"timezone": "UTC", "start": "TZ=UTC 0 8 * * *",
            "end": "0 9 * * *", "desiredReplicas": "1"}}),
            0,
        ),
        (json!({"type": "aws-sqs-queue", "metadata": {"queueURL": "q", "awsRegion": "us-east-1"}}), 1),
        (
            json!({"type": "aws-sqs-queue", "metadata": {"queueURLFromEnv": "Q",
            "awsRegion": "us-east-1", "identityOwner": "operator"}}),
            0,
        ),
        (
            json!({"type": "aws-sqs-queue", "metadata": {"queueURL": "q", "awsRegion": "us-east-1",
            "awsAccessKeyIDFromEnv": "A", "awsSecretAccessKeyFromEnv": "B"}}),
            0,
        ),
        (
            json!({"type": "kafka", "metadata": {"bootstrapServers": "b:9092", "consumerGroup": "g",
            "lagThreshold": "0", "topic": "t"}}),
            1,
        ),
        (json!({"type": "rabbitmq", "metadata": {"queueName": "q", "hostFromEnv": "H"}}), 0),
        (
            json!({"type": "rabbitmq", "metadata": {"queueName": "q", "hostFromEnv": "H",
            "queueLength": "5", "mode": "QueueLength"}}),
            2,
        ),
        (
            json!({"type": "rabbitmq", "metadata": {"queueName": "q", "hostFromEnv": "H",
            "mode": "queuelength", "value": "5"}}),
            1,
        ),
        (json!({"type": "redis", "metadata": {"listName": "l", "address": "r:6379"}}), 0),
        (json!({"type": "redis", "metadata": {"listName": "l", "hosts": "r", "ports": "1"}}), 0),
        (json!({"type": "redis", "metadata": {"listName": "l", "host": "r"}}), 1),
        (json!({"type": "redis", "metadata": {"listName": "l"}, "authenticationRef": {"name": "a"}}), 0),
        (json!({"type": "external", "metadata": {"scalerAddress": "a:1", "anything": "goes"}}), 0),
        (json!({"type": "kubernetes-workload", "metadata": {"podSelector": "a=b", "value": "0"}}), 1),
        (json!({"type": "activemq", "metadata": {"restAPITemplate": "http://x"}}), 3),
        (
            json!({"type": "nats-jetstream", "metadata": {"stream": "s", "consumer": "c",
            "natsServerMonitoringEndpoint": "n:8222"}}),
            1,
        ),
        (
            json!({"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "${Q}",
            "threshold": "${T}"}}),
            0,
        ),
    ];
    for (trigger, count) in cases {
        let found = problems(trigger.clone());
        assert_eq!(found.len(), count, "{trigger}: {found:?}");
    }
}

#[test]
fn formulas_are_refused_where_that_is_certain() {
    let names = BTreeSet::from(["queue", "gpu"]);
    for fine in [
        "queue + gpu",
        "(queue + gpu) / 2",
        "queue > 5 ? gpu : 1",
        "max([queue, gpu])",
        "let a = queue; a * 2",
        "queue ?? gpu",
        "queue > 1 && gpu < 2 ? 1 : 0",
        "-queue ** 2",
        "count([queue, gpu], {# > 1}) > 1 ? 5 : 0",
        "float(queue) * 1e-3",
        "queue in [1, 2] ? 1 : 0",
        "abs(queue - gpu)",
        "newer_builtin(queue)",
        "\"5\"",
        "\"inf\"",
    ] {
        assert_eq!(formula_error(fine, &names), None, "{fine}");
    }
    let unknown = |n: &str| Some(FormulaError::UnknownName(n.to_owned()));
    for (formula, why) in [
        ("queue-length + gpu", unknown("length")),
        ("cpu + gpu", unknown("cpu")),
        ("queue > 5", Some(FormulaError::Boolean)),
        ("queue > 5 or gpu > 5", Some(FormulaError::Boolean)),
        ("!(queue > 5)", Some(FormulaError::Boolean)),
        ("queue ? 1 : 2", Some(FormulaError::Condition)),
        ("queue +", Some(FormulaError::Syntax)),
        ("(queue + gpu", Some(FormulaError::Syntax)),
        ("queue + gpu)", Some(FormulaError::Syntax)),
        ("queue 5", Some(FormulaError::Syntax)),
        ("Not a Name!", Some(FormulaError::Syntax)),
        ("\"text\"", Some(FormulaError::Text)),
    ] {
        assert_eq!(formula_error(formula, &names), why, "{formula}");
    }
    // The nesting depth is limited.
    assert_eq!(formula_error(&"(".repeat(100_000), &names), None);
    assert_eq!(formula_error(&"-".repeat(100_000), &names), None);
}

/// A line of `fixtures/keda/triggers.jsonl`: the result of KEDA's own constructor for a trigger.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    verdict: String,
    r#type: String,
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    auth: BTreeMap<String, String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    identity: String,
    #[serde(default)]
    modifiers: bool,
    /// The version of KEDA; the newest one if it is absent.
    keda: Option<String>,
}

#[test]
fn scalers_are_built_as_keda_builds_them() {
    use serde_json::json;
    let cases = include_str!("../../../fixtures/keda/triggers.jsonl");
    let mut wrong = Vec::new();
    let mut types = BTreeSet::new();
    let mut rejected = 0;
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let env: Vec<_> =
            case.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let parameters: Vec<_> = case.auth.keys().map(|name| json!({"parameter": name})).collect();
        let object = Object::from_json(&json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "x"},
            "spec": {"triggers": [{"type": case.r#type, "metadata": case.metadata, "authenticationRef": {"name": "a"}}]},
            "pod": {"containers": [{"name": "main", "env": env}]},
            "auth": {"secretTargetRef": parameters, "podIdentity": {"provider": case.identity}},
        }))
        .unwrap();
        let trigger = triggers(&object).next().unwrap();
        let keda = case.keda.as_deref().map_or(Some(Product::Keda.newest()), Version::parse).unwrap();
        let scaler = scalers::scaler(&case.r#type, keda).unwrap();
        let around = Surroundings {
            modifiers: Some(case.modifiers),
            authentication: Authentication::of(&object.get("auth")),
            environment: Environment::of(&object.get("pod"), &object.get("container")),
        };
        let found: Vec<String> =
            check::problems(trigger, scaler, &around).into_iter().map(|problem| problem.message).collect();
        // KEDA builds the scaler all the same.
        let found: Vec<String> =
            found.into_iter().filter(|message| !message.contains("every poll fails")).collect();
        let builds = if found.is_empty() { "accepted" } else { "rejected" };
        if builds != case.verdict {
            wrong.push(format!("{line}\n  {found:?}"));
        }
        rejected += usize::from(case.verdict == "rejected");
        types.insert(case.r#type);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rejected > 250, "{rejected} rejected");
    let without: Vec<&str> =
        scalers::names(Product::Keda.newest()).filter(|name| !types.contains(*name)).collect();
    assert!(without.is_empty(), "no trigger of {}", without.join(", "));
}

#[test]
fn parameters_came_before_metadata_until_2_15() {
    use serde_json::json;
    let object = Object::from_json(&json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "x"},
        "spec": {"triggers": [{
            "type": "rabbitmq",
            "metadata": {"queueName": "q", "mode": "QueueLength", "value": "5", "host": "redis://r:6379"},
            "authenticationRef": {"name": "a"},
        }]},
        "auth": {"secretTargetRef": [{"parameter": "host"}]},
    }))
    .unwrap();
    let problems = |keda: Version| {
        let around = Surroundings {
            modifiers: Some(false),
            authentication: Authentication::of(&object.get("auth")),
            environment: Environment::of(&object.get("pod"), &object.get("container")),
        };
        let scaler = scalers::scaler("rabbitmq", keda).unwrap();
        check::problems(triggers(&object).next().unwrap(), scaler, &around).len()
    };
    assert_eq!([problems(Version::new(2, 15)), problems(Version::new(2, 16))], [0, 1]);
}

#[test]
fn what_surrounds_a_trigger_is_read() {
    use serde_json::json;
    let object = |spec: serde_json::Value| {
        Object::from_json(&json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication", "metadata": {"name": "a"}, "spec": spec
    }))
    .unwrap()
    };
    for (spec, names) in [
        (
            json!({"secretTargetRef": [{"parameter": "a", "name": "s", "key": "k"}], "env": [{"parameter": "b"}]}),
            Some(vec!["a", "b"]),
        ),
        (json!({"hashiCorpVault": {"address": "x", "secrets": [{"parameter": "c"}]}}), Some(vec!["c"])),
        (json!({"podIdentity": {"provider": "aws"}}), Some(vec![])),
        (json!({"filePath": "/a"}), None),
        (json!({"oauth2": {"type": "clientCredentials"}}), None),
        (json!({"secretTargetRef": [{"parameter": "${A}"}]}), None),
        (json!({"podIdentity": {"provider": "${P}"}}), None),
    ] {
        let auth = object(spec.clone());
        let found = match Authentication::of(&auth.get("spec")) {
            Authentication::Known(parameters) => Some(parameters.names),
            _ => None,
        };
        assert_eq!(found, names, "{spec}");
    }
    let pod = object(json!({"containers": [
        {"name": "a", "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}, {"name": "C", "value": "${C}"}]},
        {"name": "b", "envFrom": [{"secretRef": {"name": "s"}}]},
    ], "b": "b", "c": "c"}));
    let pod = pod.get("spec");
    let first = Environment::of(&pod, &pod.get("none"));
    assert!(matches!(first.variable("A"), Variable::Text("x")));
    assert!(
        matches!(first.variable("B"), Variable::Hidden) && matches!(first.variable("C"), Variable::Unknown)
    );
    assert!(matches!(first.variable("D"), Variable::Absent));
    let second = Environment::of(&pod, &pod.get("b"));
    assert!(matches!(second.variable("D"), Variable::Unknown));
    assert!(matches!(Environment::of(&pod, &pod.get("c")), Environment::Unknown));
}

/// Where the keys that the program finds in KEDA 2.20 differ from those that running its parsers gave.
#[test]
fn what_source_and_parsers_say_differently_is_decided() {
    let keda = Version::new(2, 20);
    let scaler = |kind: &str| scalers::scaler(kind, keda).unwrap();
    let key = |kind: &str, name: &str| scaler(kind).key(name).unwrap_or_else(|| panic!("{kind} {name}"));
    let is_read = |kind: &str, name: &str| matches!(scaler(kind).key_status(name), KeyStatus::Read);
    let aws = [
        "apache-kafka",
        "aws-cloudwatch",
        "aws-dynamodb",
        "aws-dynamodb-streams",
        "aws-kinesis-stream",
        "aws-sqs-queue",
    ];
    for kind in aws.into_iter().chain(["kafka", "prometheus"]) {
        // KEDA reads both spellings, this one from parameters alone.
        assert_eq!(key(kind, "awsAccessKeyId").sources, [KeySource::Authentication], "{kind}");
    }
    // The client refuses a value that the tag allows.
    assert!(!key("apache-kafka", "sasl").values.contains(&"gssapi"));
    // The code sets the default.
    assert_eq!(key("kafka", "saslTokenProvider").default, Some("bearer"));
    for kind in ["gcp-cloudtasks", "gcp-pubsub", "gcp-stackdriver", "gcp-storage", "prometheus"] {
        assert!(is_read(kind, "credentialsFromEnv"), "{kind}");
    }
    assert!(!is_read("prometheus", "credentials"));
    // KEDA copies `scope` alone from the metadata.
    assert!(is_read("pulsar", "scope") && !is_read("pulsar", "scopes"));
    assert!(key("pulsar", "scopes").reads(KeySource::Authentication));
    assert_eq!(key("influxdb", "authToken").rejected_since, Some(keda));
    assert!(key("influxdb", "authToken").reads(KeySource::Env));
    assert!(!key("predictkube", "apiKey").required && is_read("predictkube", "apiKey"));
    assert_eq!(key("azure-monitor", "metricAggregationType").kind, KeyType::String);
    assert!(!key("openstack-metric", "authURL").required);
    assert!(key("pulsar", "EndpointParams").reads(KeySource::Metadata));
}
