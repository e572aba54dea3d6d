//! Features of Karpenter 1.1 to 1.15: each is reported under earlier versions, and not from its own version
//! on. One row per feature, checked on both sides of its version.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::lint::config::Config;
use gpulint_rules::lint::fix::Safety;
use gpulint_rules::platform::{Platform, Product, Version};
use gpulint_rules::{Cluster, Engine, Finding, Object, Settings, Severity, find_rule};
use gpulint_testing::{cluster, fixtures, is_full, lot, objects, sampled, yaml_below};
use serde_json::{Value, json};

/// The rules that depend on versions.
const RULES: [&str; 12] = [
    "capacity-type-invalid",
    "consolidate-after-missing",
    "do-not-disrupt-invalid-value",
    "duration-undecodable",
    "field-needs-newer-version",
    "invalid-value",
    "kubelet-field-unsupported",
    "node-class-kubelet",
    "node-class-ref-incomplete",
    "requirement-key-restricted",
    "requirement-value-unknown",
    "unknown-field",
];

/// A feature: the minor version of Karpenter 1 that introduced it, the rule that checks this, and a manifest
/// that uses it.
struct Row {
    minor: u32,
    rule: &'static str,
    manifest: String,
}

fn row(minor: u32, rule: &'static str, manifest: String) -> Row {
    Row { minor, rule, manifest }
}

fn pool_of(group: &str, kind: &str, spec: &str, requirement: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\nspec:\n  {spec}\n  template:\n    spec:\n      \
         nodeClassRef: {{group: {group}, kind: {kind}, name: a}}\n      requirements: [{requirement}]\n"
    )
}

fn pool(spec: &str, requirement: &str) -> String {
    pool_of("karpenter.k8s.aws", "EC2NodeClass", spec, requirement)
}

fn label(key: &str, value: &str) -> String {
    pool("", &format!("{{key: {key}, operator: In, values: ['{value}']}}"))
}

fn class(spec: &str) -> String {
    class_by("[{alias: al2023@v20260810}]", spec)
}

fn class_by(terms: &str, spec: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: a}}\nspec:\n  role: nodes\n  \
         amiSelectorTerms: {terms}\n  subnetSelectorTerms: [{{tags: {{a: b}}}}]\n  \
         securityGroupSelectorTerms: [{{tags: {{a: b}}}}]\n  {spec}\n"
    )
}

fn overlay(requirement: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: a}}\nspec:\n  requirements: [{requirement}]\n  price: '1.5'\n"
    )
}

fn pod(annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations: {{karpenter.sh/do-not-disrupt: {annotation}}}\nspec:\n  \
         containers: [{{name: a, image: 'example.com/a:1'}}]\n"
    )
}

fn rows() -> Vec<Row> {
    const FIELD: &str = "field-needs-newer-version";
    const KEY: &str = "requirement-key-restricted";
    let aws = |name: &str, value: &str| label(&format!("karpenter.k8s.aws/{name}"), value);
    let nic = "networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]";
    let gte = "{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['4']}";
    let lte = "{key: karpenter.k8s.aws/instance-cpu, operator: Lte, values: ['4']}";
    vec![
        row(1, KEY, aws("instance-cpu-sustained-clock-speed-mhz", "3500")),
        row(3, FIELD, label("karpenter.sh/capacity-type", "reserved")),
        row(3, FIELD, class("capacityReservationSelectorTerms: [{id: cr-0123}]")),
        row(3, KEY, aws("capacity-reservation-id", "cr-0123")),
        row(4, FIELD, class_by("[{ssmParameter: /a/b}]", "amiFamily: AL2023")),
        row(
            5,
            FIELD,
            class(
                "blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {snapshotID: snap-1, volumeInitializationRate: 100}}]",
            ),
        ),
        row(6, KEY, aws("capacity-reservation-type", "capacity-block")),
        row(7, FIELD, overlay("")),
        row(7, KEY, aws("instance-capability-flex", "false")),
        row(8, FIELD, pool("replicas: 2", "")),
        row(8, FIELD, class("ipPrefixCount: 1")),
        row(8, FIELD, class("capacityReservationSelectorTerms: [{instanceMatchCriteria: open}]")),
        row(9, FIELD, pool("", gte)),
        row(9, FIELD, pool("", lte)),
        row(9, FIELD, overlay(gte)),
        row(9, KEY, aws("instance-tenancy", "dedicated")),
        row(9, KEY, label("example.kubernetes.io/team", "a")),
        row(9, KEY, label("example.k8s.io/team", "a")),
        row(9, FIELD, class_by("[{id: ami-0123}]", "amiFamily: Windows2025")),
        row(9, FIELD, class_by("[{alias: windows2025@latest}]", "")),
        row(10, KEY, aws("capacity-reservation-interruptible", "true")),
        row(11, FIELD, class(nic)),
        row(11, FIELD, class("placementGroupSelector: {name: a}")),
        row(11, KEY, aws("placement-group-id", "pg-0123")),
        row(11, KEY, aws("placement-group-partition", "1")),
        row(12, "do-not-disrupt-invalid-value", pod("4h")),
        row(13, FIELD, class("connectionTracking: {udpTimeout: 30}")),
        row(13, FIELD, class("cpuOptions: {nestedVirtualization: enabled}")),
        row(14, FIELD, pool("disruption: {consolidationPolicy: Balanced, consolidateAfter: 0s}", "")),
        row(15, FIELD, class("enclaveOptions: {enabled: true}")),
        row(
            15,
            FIELD,
            pool("disruption: {consolidateAfter: 0s, budgets: [{nodes: '1', reasons: [Unhealthy]}]}", ""),
        ),
        row(15, "consolidate-after-missing", pool("disruption: {consolidationPolicy: WhenEmpty}", "")),
        row(15, "unknown-field", class("kubelet: {shutdownGracePeriod: 30s}")),
    ]
}

/// The findings of the rules that depend on versions, without notes.
fn said(manifest: &str, minor: u32) -> Vec<(&'static str, String)> {
    let engine = Engine::new(Settings {
        select: RULES.iter().map(|rule| (*rule).to_owned()).collect(),
        platform: Platform { karpenter: Version::new(1, minor), ..Platform::default().with_all_stated() },
        ..Settings::default()
    });
    let objects = objects(manifest);
    assert_eq!(objects.len(), 1, "{manifest}");
    engine
        .check_object(&objects[0], &cluster(&engine, &objects))
        .into_iter()
        .filter(|f| f.severity > Severity::Info)
        .map(|f| (f.rule.id, f.message))
        .collect()
}

#[test]
fn a_feature_is_new_in_its_version() {
    let mut wrong = Vec::new();
    for Row { minor, rule, manifest } in rows() {
        let before = said(&manifest, minor - 1);
        if before.len() != 1 || before[0].0 != rule {
            wrong.push(format!("1.{} on\n{manifest}says {before:?}", minor - 1));
        }
        let from = said(&manifest, minor);
        if !from.is_empty() {
            wrong.push(format!("1.{minor} on\n{manifest}says {from:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The versions are those of the AWS provider. Other providers have their own version numbers.
#[test]
fn other_providers_have_versions_of_their_own() {
    let gte = "{key: example.k8s.io/team, operator: Gte, values: ['4']}";
    for (group, kind) in [("eks.amazonaws.com", "NodeClass"), ("karpenter.azure.com", "AKSNodeClass")] {
        let pool = pool_of(group, kind, "replicas: 2", gte);
        assert_eq!(said(&pool, 3), [], "{group}");
    }
    assert_eq!(said(&pool("replicas: 2", gte), 3).len(), 3);
}

/// Values that 1.1 began to reject.
#[test]
fn an_empty_group_is_refused_from_1_1_on() {
    let pool = pool_of("''", "EC2NodeClass", "", "");
    assert_eq!(said(&pool, 1).len(), 1);
}

/// Until 1.4 the pattern accepted text around a duration. If Go could not parse it, Karpenter stopped.
#[test]
fn text_around_a_duration_is_refused_from_1_4_on() {
    let with = |field: &str, text: &str| {
        if field == "consolidateAfter" {
            return pool(&format!("disruption: {{consolidateAfter: {text}}}"), "");
        }
        let pool = pool("", "");
        pool.replace("spec:\n      node", &format!("spec:\n      {field}: {text}\n      node"))
    };
    for (field, text, before) in [
        ("consolidateAfter", "1hr", Some("duration-undecodable")),
        ("expireAfter", "10mfoo", Some("duration-undecodable")),
        ("expireAfter", "xNever", Some("duration-undecodable")),
        ("expireAfter", "9999999hr", Some("duration-undecodable")),
        ("consolidateAfter", "500ms", None),
        ("expireAfter", "1h1.5m", None),
        ("expireAfter", "30d", Some("invalid-value")),
        ("expireAfter", "never", Some("invalid-value")),
        ("consolidateAfter", "''", Some("invalid-value")),
        ("terminationGracePeriod", "1hr", Some("invalid-value")),
    ] {
        let manifest = with(field, text);
        let rules = |minor| -> Vec<&str> { said(&manifest, minor).into_iter().map(|s| s.0).collect() };
        assert_eq!(rules(3), Vec::from_iter(before), "{field}: {text}");
        assert_eq!(rules(4), ["invalid-value"], "{field}: {text}");
    }
    let auto_mode = pool_of("eks.amazonaws.com", "NodeClass", "disruption: {consolidateAfter: 1hr}", "");
    assert_eq!(said(&auto_mode, 3)[0].0, "invalid-value");
}

/// The findings of a manifest above notes, under a configuration's `platform`.
fn findings(manifest: &str, platform: &str) -> Vec<Finding> {
    let config = Config::parse("gpulint.yaml", &format!("platform: {platform}\n")).unwrap();
    let engine = Engine::new(config.resolve());
    let objects = objects(manifest);
    let cluster = cluster(&engine, &objects);
    let all = objects.iter().flat_map(|object| engine.check_object(object, &cluster));
    all.filter(|f| f.severity > Severity::Info).collect()
}

/// The finding of a rule.
fn finding(manifest: &str, platform: &str, rule: &str) -> Finding {
    let all = findings(manifest, platform);
    let found = all.iter().find(|f| f.rule.id == rule);
    found.unwrap_or_else(|| panic!("no {rule} among {all:?} of\n{manifest}")).clone()
}

#[test]
fn where_supported_versions_differ_an_assumed_version_makes_no_error() {
    let beta = pool("", "").replace("karpenter.sh/v1", "karpenter.sh/v1beta1");
    let scaled = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec:\n  \
                  scaleTargetRef: {name: a}\n  triggers: [{type: cpu, metadata: {type: Utilization, value: '50'}}]\n";
    let job = "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {name: a}\nspec:\n  rollout: {strategy: default}\n  \
               jobTargetRef: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: 'example.com/a:1'}]}}}\n  \
               triggers: [{type: cron, metadata: {timezone: UTC, start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '1'}}]\n";
    for (manifest, rule, product, stated) in [
        (beta, "karpenter-legacy-api", Product::Karpenter, "{karpenter: '1.15'}"),
        (
            label("karpenter.k8s.aws/instance-tenancy", "shared"),
            "requirement-value-unknown",
            Product::Karpenter,
            "{karpenter: '1.9'}",
        ),
        (
            pool("disruption: {consolidateAfter: 500ms}", ""),
            "invalid-value",
            Product::Karpenter,
            "{karpenter: '1.14'}",
        ),
        (
            class_by("[{alias: al2@latest}]", ""),
            "ami-unsupported-by-eks",
            Product::Kubernetes,
            "{kubernetes: '1.33'}",
        ),
        (scaled.to_owned(), "keda-removed-field", Product::Keda, "{keda: '2.18'}"),
        (job.to_owned(), "keda-rollout-strategy-removed", Product::Keda, "{keda: '2.20'}"),
    ] {
        let assumed = finding(&manifest, "{}", rule);
        assert_eq!(assumed.severity, Severity::Warning, "{assumed:?}");
        let help = assumed.help.clone().unwrap_or_default();
        assert!(help.contains(&format!("`{}`", product.setting())), "{assumed:?}");
        assert!(help.chars().count() <= 120, "{help}");
        let sure = finding(&manifest, stated, rule);
        assert_eq!(sure.severity, Severity::Error, "{stated} {sure:?}");
        // Where the message names the version, it says which one is assumed.
        let unsaid = |finding: &Finding| finding.message.split(", and ").next().map(str::to_owned);
        assert_eq!(unsaid(&assumed), unsaid(&sure));
        let help = sure.help.clone().unwrap_or_default();
        assert!(!help.contains("depends on"), "{sure:?}");
    }
}

/// What a fix writes has to be served, and the version that serves it may be assumed.
#[test]
fn a_fix_that_rests_on_an_assumed_version_is_not_safe() {
    let claim = |version: &str| {
        format!(
            "apiVersion: resource.k8s.io/{version}\nkind: ResourceClaim\nmetadata: {{name: a}}\nspec: {{devices: {{requests: \
             [{{name: a, deviceClassName: gpu.nvidia.com}}]}}}}\n"
        )
    };
    let safety = |manifest: &str, platform: &str, rule: &str| {
        finding(manifest, platform, rule).fix.map(|fix| fix.safety)
    };
    let beta = claim("v1beta1");
    assert_eq!(safety(&beta, "{}", "dra-api-version"), Some(Safety::Unsafe));
    assert_eq!(safety(&beta, "{kubernetes: '1.34'}", "dra-api-version"), Some(Safety::Safe));
    // Each version of Karpenter accepts what this fix writes.
    let reference = pool("", "").replace("kind: EC2NodeClass, ", "");
    assert_eq!(safety(&reference, "{}", "node-class-ref-incomplete"), Some(Safety::Safe));
}

/// The schemas are those of the newest version. Values that only an older version accepts are left to the
/// rule that knows when they were removed.
#[test]
fn what_an_older_keda_takes_is_no_invalid_value() {
    let identity = "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: a}\nspec: {podIdentity: {provider: aws-kiam}}\n";
    let job = "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {name: a}\nspec: {rolloutStrategy: default}\n";
    for (manifest, rule) in [(identity, "keda-pod-identity-removed"), (job, "keda-rollout-strategy-removed")]
    {
        assert_eq!(finding(manifest, "{keda: '2.14'}", rule).severity, Severity::Warning);
        let all = findings(manifest, "{keda: '2.14'}");
        assert!(!all.iter().any(|f| f.rule.id == "invalid-value"), "{all:?}");
    }
}

#[test]
fn what_all_supported_versions_refuse_stays_an_error() {
    let provisioner = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {}\n";
    let hpa = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec:\n  \
               scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}\n  maxReplicas: 2\n";
    let crash = pool("", "").replace("spec:\n      node", "spec:\n      expireAfter: 10mfoo\n      node");
    for (manifest, rule) in [
        (provisioner.to_owned(), "karpenter-legacy-api"),
        (hpa.to_owned(), "removed-api-version"),
        // Older versions accept the value but cannot decode it, which duration-undecodable reports.
        (crash, "invalid-value"),
    ] {
        let found = finding(&manifest, "{}", rule);
        assert_eq!(found.severity, Severity::Error, "{found:?}");
        assert!(!found.help.clone().unwrap_or_default().contains("depends on"), "{found:?}");
    }
}

/// Rules on the protection of pods. Nothing rejects what they report, and they use the assumed version.
const FOLLOW_THE_ASSUMED_VERSION: [&str; 3] =
    ["do-not-disrupt-on-daemonset", "expiry-kills-training", "training-pool-without-budget"];

/// Rules that another rule replaces under older versions: ami-alias-invalid, requirement-key-restricted.
const HAVE_AN_ALTERNATE: [(&str, Product); 2] =
    [("ami-unsupported-by-eks", Product::Karpenter), ("requirement-key-lookalike", Product::Karpenter)];

/// Each file is asked about a third of the versions; with `FULL` about all.
#[test]
fn a_rule_whose_verdict_depends_on_a_version_is_in_the_table() {
    let engine = |platform: Platform| Engine::new(Settings { platform, ..Settings::default() });
    let newest = engine(Platform::default().with_all_stated());
    let mut others: Vec<(Product, Engine)> = Vec::new();
    for product in Product::ALL {
        // A sample is enough. gpulint knows nothing about versions that are later than its schemas.
        let newest = Platform::default().version(product);
        for version in product.supported().take_while(|version| *version < newest).step_by(5) {
            let mut platform = Platform::default().with_all_stated();
            platform.state(product, version);
            others.push((product, engine(platform)));
        }
    }
    let said =
        |engine: &Engine, object: &Object, cluster: &Cluster| -> BTreeSet<(&'static str, String, Severity)> {
            let all = engine.check_object(object, cluster);
            let above_notes = all.into_iter().filter(|f| f.severity > Severity::Info);
            above_notes.map(|f| (f.rule.id, format!("{:?}", f.location.pointer()), f.severity)).collect()
        };
    let mut found: BTreeMap<(&str, Product), String> = BTreeMap::new();
    for file in sampled(yaml_below(&fixtures().join("rules"))) {
        let objects = objects(&std::fs::read_to_string(&file).unwrap());
        let cluster = cluster(&newest, &objects);
        for object in &objects {
            let now = said(&newest, object, &cluster);
            let asked = others.iter().enumerate();
            let asked = asked.filter(|(at, _)| is_full() || *at as u32 % 3 == lot(&file, 3));
            for (_, (product, engine)) in asked {
                for (rule, pointer, _) in said(engine, object, &cluster).symmetric_difference(&now) {
                    found.entry((rule, *product)).or_insert_with(|| format!("{} {pointer}", file.display()));
                }
            }
        }
    }
    assert!(found.len() > 5, "{found:?}");
    found.retain(|(rule, product), _| !find_rule(rule).is_some_and(|rule| rule.depends_on.contains(product)));
    let alternates = HAVE_AN_ALTERNATE.map(|(rule, _)| rule);
    let is_needed = |rule: &str| match is_full() {
        true => found.keys().any(|(of, _)| *of == rule),
        false => find_rule(rule).is_some(),
    };
    let exceptions = FOLLOW_THE_ASSUMED_VERSION.iter().chain(&alternates);
    let unneeded: Vec<_> = exceptions.filter(|rule| !is_needed(rule)).collect();
    assert!(unneeded.is_empty(), "they do not depend on a version: {unneeded:?}");
    found.retain(|(rule, product), _| {
        !FOLLOW_THE_ASSUMED_VERSION.contains(rule) && !HAVE_AN_ALTERNATE.contains(&(rule, *product))
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// For a stated version that is newer than the schemas, a field or value that the schemas do not have is a
/// warning that names their version.
#[test]
fn slips_are_found_under_versions_that_are_newer_than_the_schemas() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  replicaz: 2\n  restartPolicy: Sometimes\n  \
               containers: [{name: a, image: 'example.com/a:1', imagez: b}]\n";
    let limitz =
        pool("limitz: {cpu: 5}\n  disruption: {consolidationPolicy: Always, consolidateAfter: 0s}", "");
    let scaled = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec:\n  \
                  scaleTargetRef: {name: a}\n  maxReplicaCounts: 5\n  \
                  fallback: {failureThreshold: 3, replicas: 6, behavior: steady}\n  \
                  triggers: [{type: cpu, metricType: Utilization, metadata: {value: '50'}}]\n";
    for (product, manifest, fields, values, fix) in [
        (Product::Kubernetes, pod, 2, 1, "imagez"),
        (Product::Karpenter, limitz.as_str(), 1, 1, "limitz"),
        (Product::Keda, scaled, 1, 1, "maxReplicaCounts"),
    ] {
        let newest = product.newest();
        let slips = |minor: u32| {
            let setting = product.setting().trim_start_matches("platform.");
            let mut all = findings(manifest, &format!("{{{setting}: '{}.{minor}'}}", newest.major));
            all.retain(|f| ["unknown-field", "invalid-value"].contains(&f.rule.id));
            let count = |rule: &str| all.iter().filter(|f| f.rule.id == rule).count();
            assert_eq!((count("unknown-field"), count("invalid-value")), (fields, values), "{all:?}");
            all
        };
        for found in slips(newest.minor) {
            assert_eq!(found.severity, Severity::Error, "{found:?}");
        }
        for minor in [newest.minor + 1, newest.minor + 2, newest.minor + 9] {
            for found in slips(minor) {
                assert_eq!(found.severity, Severity::Warning, "{found:?}");
                let schemas = format!("{} {newest}", product.name());
                assert!(found.message.ends_with(&format!("up to {schemas}")), "{found:?}");
                // A later version may have both fields.
                assert!(!found.message.contains(fix) || found.fix.is_none(), "{found:?}");
            }
        }
    }
    // A fault that does not depend on a newer version stays an error.
    let cased = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: always\n  \
                 containers: [{name: a, image: 'example.com/a:1'}]\n";
    let moved = pool("disruption: {expireAfter: 1h, consolidateAfter: 0s}", "");
    for (manifest, rule) in [(cased, "invalid-value"), (moved.as_str(), "unknown-field")] {
        let found = finding(manifest, "{kubernetes: '1.40', karpenter: '1.20'}", rule);
        assert_eq!(found.severity, Severity::Error, "{found:?}");
        assert!(found.fix.is_some(), "{found:?}");
    }
    // Kinds are reported as well, if they resemble a known kind.
    for (kind, count) in [("NodePol", 1), ("EC2NodeClass", 1), ("NodeForecast", 0)] {
        let manifest = limitz.replace("kind: NodePool", &format!("kind: {kind}"));
        let all = findings(&manifest, "{karpenter: '1.16'}");
        let unknown: Vec<_> = all.iter().filter(|f| f.rule.id == "api-version-unknown").collect();
        assert_eq!(unknown.len(), count, "{kind} {all:?}");
        assert!(unknown.iter().all(|f| f.severity == Severity::Warning), "{all:?}");
    }
    // A field that is known to be added in a still newer version.
    let later = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  schedulingGroup: {podGroupName: a}\n  \
                 containers: [{name: a, image: 'example.com/a:1'}]\n";
    assert_eq!(finding(later, "{kubernetes: '1.35'}", "unknown-field").severity, Severity::Error);
    assert!(!findings(later, "{kubernetes: '1.36'}").iter().any(|f| f.rule.id == "unknown-field"));
    // Trigger types and their keys are reported if they resemble a known one.
    let trigger = |kind: &str, key: &str| {
        let typed = scaled.replace("type: cpu, metricType: Utilization", &format!("type: {kind}"));
        let manifest = typed.replace("value: '50'", &format!("podSelector: a=b, value: '4', {key}: '1'"));
        let all = findings(&manifest, "{keda: '2.22'}");
        let rules = ["keda-trigger-type-unknown", "keda-trigger-key-ignored"];
        rules.map(|rule| all.iter().filter(|f| f.rule.id == rule).count())
    };
    assert_eq!(trigger("kubernetes-workload", "activationValue"), [0, 0]);
    assert_eq!(trigger("kubernetes-workload", "activationValu"), [0, 1]);
    assert_eq!(trigger("kubernetes-workload", "someLaterKey"), [0, 0]);
    assert_eq!(trigger("kubernetes-workloads", "a"), [1, 0]);
    assert_eq!(trigger("some-later-scaler", "a"), [0, 0]);
}

/// Sets a field; `*` is the first item of a list.
fn set_at(value: &mut Value, steps: &[&str], leaf: Value) {
    match steps.split_first() {
        None => *value = leaf,
        Some((&"*", rest)) => {
            if !value.is_array() {
                *value = json!([{}]);
            }
            set_at(&mut value[0], rest, leaf);
        }
        Some((step, rest)) => set_at(&mut value[*step], rest, leaf),
    }
}

/// Every field and every value of an enum that came after 1.0, by the table that is made from Karpenter's CRDs: said in each minor
/// before, silent from its own on.
#[test]
fn every_field_and_value_of_the_table_is_new_in_its_version() {
    let group = |kind: &str| match kind {
        "EC2NodeClass" => "karpenter.k8s.aws/v1",
        "NodeOverlay" => "karpenter.sh/v1alpha1",
        _ => "karpenter.sh/v1",
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in include_str!("../../src/karpenter/minors.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let ["crd", kind, path, fact @ ("field" | "enum"), value, since, _] = *columns.as_slice() else {
            continue;
        };
        let Some(since) = Version::parse(since).filter(|_| kind != "CapacityBuffer") else { continue };
        if path.ends_with("kubelet/*") {
            continue;
        }
        let mut object =
            json!({"apiVersion": group(kind), "kind": kind, "metadata": {"name": "a"}, "spec": {}});
        if path != "spec" {
            let steps: Vec<&str> = path.split('/').collect();
            set_at(&mut object, &steps, if fact == "enum" { json!(value) } else { json!("x") });
        }
        let object = Object::from_json(&object).expect("an object");
        count += 1;
        for version in Product::Karpenter.supported() {
            let engine = Engine::new(Settings {
                select: vec!["field-needs-newer-version".to_owned()],
                platform: Platform { karpenter: version, ..Platform::default().with_all_stated() },
                ..Settings::default()
            });
            let said = engine.check_object(&object, &cluster(&engine, [&object]));
            // The kind itself is said to be newer beside its fields.
            let said = said.iter().any(|finding| finding.message.ends_with(&since.to_string()));
            if said != (version < since) {
                wrong.push(format!("{line}: {version} says {said}"));
            }
        }
    }
    assert!(count > 20 && wrong.is_empty(), "{count} rows, wrong:\n{}", wrong.join("\n"));
}

/// A NodePool and a class that only the CRDs of 1.15 accept: no error by default and at 1.15, and at 1.14 each new field says what it
/// needs.
#[test]
fn what_came_with_1_15_is_no_error_there() {
    let pool = pool("disruption: {budgets: [{nodes: '1', reasons: [Drifted, Unhealthy]}]}", "");
    let class = class(
        "enclaveOptions: {enabled: true}\n  kubelet: {maxPods: 58, topologyManagerPolicy: best-effort, \
         shutdownGracePeriod: 30s, evictionHard: {memory.available: 12.345%}}",
    );
    let manifest = format!("{pool}---\n{class}");
    let errors = |platform: &str| -> Vec<String> {
        let all = findings(&manifest, platform).into_iter();
        all.filter(|found| found.severity == Severity::Error).map(|found| found.message).collect()
    };
    assert_eq!(errors("{}"), [""; 0]);
    assert_eq!(errors("{karpenter: '1.15'}"), [""; 0]);
    let old = findings(&manifest, "{karpenter: '1.14'}");
    for needs in [
        "rejects `Unhealthy`, which came with 1.15",
        "`spec.enclaveOptions`, which came with 1.15",
        "has no `consolidateAfter`",
    ] {
        assert!(old.iter().any(|found| found.message.contains(needs)), "{needs}: {old:#?}");
    }
}
