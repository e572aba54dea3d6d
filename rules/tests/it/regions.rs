//! The effects of `platform.region`: types and zones that the region does not have.
//!
//! The offerings are data with a date, so these findings are not errors. An unset or unknown region has no
//! findings.

use gpulint_rules::facts::date::Date;
use gpulint_rules::{Engine, Object, Platform, Settings, catalog};
use gpulint_testing::cluster;
use serde_json::{Value, json};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const ZONE: &str = "topology.kubernetes.io/zone";

fn pool(requirements: &[(&str, &str, &[&str])]) -> Value {
    let requirements: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": requirements,
            }},
            "limits": {"cpu": 500},
        },
    })
}

/// The findings of the two rules that use regions, one line each.
fn lint(object: &Value, region: Option<&str>, today: &str) -> Vec<String> {
    let object = Object::from_json(object).unwrap();
    let settings = Settings {
        platform: Platform { region: region.map(str::to_owned), ..Platform::default() },
        select: ["requirement-value-unknown", "requirement-value-not-offered", "requirements-match-nothing"]
            .map(str::to_owned)
            .to_vec(),
        today: Date::parse(today),
        ..Settings::default()
    };
    let engine = Engine::new(settings);
    engine
        .check_object(&object, &cluster(&engine, [&object]))
        .iter()
        .map(|f| {
            let place = f.location.pointer().map(ToString::to_string);
            let place = place.unwrap_or_default();
            format!("{} {place}: {}", f.severity.name(), f.message)
        })
        .collect()
}

/// A region that has no type of the family, and one that has.
fn regions_of(family: &str) -> (&'static str, &'static str) {
    let types = catalog::index(FAMILY).unwrap().with(family).unwrap();
    let has = |region: &str| !catalog::offered_in(region).unwrap().is_disjoint(types);
    let find = |wanted: bool| {
        let mut all = catalog::regions().iter().copied();
        all.find(|r| has(r) == wanted).unwrap()
    };
    (find(false), find(true))
}

#[test]
fn a_value_that_the_region_lacks_is_a_note() {
    let (without, with) = regions_of("p5en");
    let both = pool(&[(FAMILY, "In", &["p5en", "m5"])]);
    let found = lint(&both, Some(without), "2026-12-01");
    let expected = format!(
        "info /spec/template/spec/requirements/0/values/0: the instance-family `p5en` is not offered in `{without}`"
    );
    assert_eq!(found, [expected]);
    for region in [Some(with), None, Some("mars-north-1")] {
        assert_eq!(lint(&both, region, "2026-12-01"), Vec::<String>::new(), "{region:?}");
    }
    // An excluded type need not exist in the region.
    let excluded = pool(&[(FAMILY, "NotIn", &["p5en"])]);
    assert!(lint(&excluded, Some(without), "2026-12-01").is_empty());
}

#[test]
fn a_pool_of_which_the_region_has_nothing_is_a_warning() {
    let (without, with) = regions_of("p5en");
    let only = pool(&[(FAMILY, "In", &["p5en"])]);
    let found = lint(&only, Some(without), "2026-12-01");
    assert_eq!(found.len(), 2, "{found:?}");
    let expected = format!(
        "warning /spec/template/spec/requirements/0/values: none of the pool's instance types is offered in `{without}`"
    );
    assert!(found.contains(&expected), "{found:?}");
    assert!(lint(&only, Some(with), "2026-12-01").is_empty());
    // A family that is newer than the data may be available.
    let newer = pool(&[(FAMILY, "In", &["p5en", "p99z"])]);
    let found = lint(&newer, Some(without), "2026-12-01");
    assert!(found.iter().all(|f| f.starts_with("info ")), "{found:?}");
}

#[test]
fn pods_want_one_value_that_the_region_has() {
    let (without, with) = regions_of("p5en");
    let pod = |families: &[&str]| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": FAMILY, "operator": "In", "values": families}]},
            ]}}},
            "containers": [{"name": "main", "image": "example.com/a:1"}],
        }})
    };
    assert_eq!(lint(&pod(&["p5en"]), Some(without), "2026-12-01").len(), 1);
    assert!(lint(&pod(&["p5en"]), Some(with), "2026-12-01").is_empty());
    assert!(lint(&pod(&["p5en", "m5"]), Some(without), "2026-12-01").is_empty());
}

#[test]
fn zones_lie_in_the_region() {
    for (zones, outside) in [
        (&["us-west-2a", "us-west-2b"][..], true),
        (&["us-west-2a", "us-east-1a"], false),
        (&["us-east-1-bos-1a"], false),
        (&["rack-7"], false),
        (&["${ZONE}"], false),
    ] {
        let object = pool(&[(FAMILY, "In", &["m5"]), (ZONE, "In", zones)]);
        let found = lint(&object, Some("us-east-1"), "2026-12-01");
        assert_eq!(found.len(), usize::from(outside), "{zones:?}: {found:?}");
        assert!(lint(&object, None, "2026-12-01").is_empty());
    }
}

#[test]
fn an_old_catalogue_proves_little() {
    let object = pool(&[(FAMILY, "In", &["g6"]), ("karpenter.k8s.aws/instance-gpu-name", "In", &["h100"])]);
    for (today, severity) in [("2026-12-01", "error "), ("2027-12-01", "warning ")] {
        let found = lint(&object, None, today);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(severity), "{today}: {found:?}");
    }
}
