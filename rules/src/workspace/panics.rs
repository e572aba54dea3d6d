//! Tests with a rule that panics by itself, in a view and in a query, in the first check and after an edit: all other
//! findings are the same as without the panic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Workspace;
use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::file::File;
use crate::kind::Kind;
use crate::lint::context::Context;
use crate::lint::engine::Engine;
use crate::lint::rule::{Check, Group, Rule};
use crate::lint::settings::Settings;
use crate::object::Object;
use crate::source::Source;

/// Panics if the label of a pool requests it.
fn meet(object: &Object, place: &str) {
    let label = object.path(&["metadata", "labels", "panics-in"]);
    assert!(label.text() != Some(place), "as the label of `{}` says", object.name());
}

/// A view of pools by their label.
struct Fragile;

impl View for Fragile {
    const SLOT: ViewSlot = ViewSlot::Services;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = ();

    fn keys(pool: &Object) -> Vec<()> {
        meet(pool, "view");
        vec![()]
    }
}

/// A query for the number of pools.
struct Count;

impl Query for Count {
    const SLOT: QuerySlot = QuerySlot::Kubelets;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Key = ();
    type Value = usize;

    fn compute(cluster: &Cluster, (): &()) -> usize {
        cluster.of(Kind::NODE_POOL).inspect(|pool| meet(pool, "query")).count()
    }
}

fn report(object: &Object, ctx: &mut Context<'_>, count: usize) -> Option<()> {
    ctx.report(&object.path(&["metadata", "name"]), format!("one of {count}"));
    None
}

const READING: Rule = Rule {
    kinds: &[Kind::NODE_POOL],
    reads: &[Kind::NODE_POOL],
    docs: "//! Of tests.",
    ..Rule::warning(Group::NodePool)
};

static STEADY: Rule = Rule {
    id: "steady",
    check: Check::Object(|object, ctx| {
        let count = ctx.cluster().of(Kind::NODE_POOL).count();
        report(object, ctx, count)
    }),
    ..READING
};

static BY_ITSELF: Rule = Rule {
    id: "by-itself",
    reads: &[],
    check: Check::Object(|object, ctx| report(object, ctx, 1)),
    ..READING
};

static PANICS: Rule = Rule {
    id: "panics",
    reads: &[],
    check: Check::Object(|object, ctx| {
        report(object, ctx, 0);
        meet(object, "rule");
        None
    }),
    ..READING
};

static IN_VIEW: Rule = Rule {
    id: "in-view",
    check: Check::Object(|object, ctx| {
        let count = ctx.cluster().table::<Fragile>().get(&()).len();
        report(object, ctx, count)
    }),
    ..READING
};

static IN_QUERY: Rule = Rule {
    id: "in-query",
    check: Check::Object(|object, ctx| {
        let count = ctx.cluster().query::<Count>(&());
        report(object, ctx, count)
    }),
    ..READING
};

static TABLE: &[&Rule] = &[&STEADY, &BY_ITSELF, &PANICS, &IN_VIEW, &IN_QUERY];

/// A pool whose label makes the rule panic in this place.
fn pool(path: &str, place: &str) -> File {
    let text = format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: {path}\n  labels: {{panics-in: {place}}}\nspec:\n  \
         template:\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n"
    );
    File::read(Source::from_text(path, &text))
}

/// The expected findings of each file; a run over all files would not return any.
fn expected(places: &BTreeMap<String, &str>) -> BTreeMap<String, BTreeSet<(&'static str, String)>> {
    let has = |place: &str| places.values().any(|other| *other == place);
    let of_file = |(path, place): (&String, &&str)| {
        let all = format!("one of {}", places.len());
        let mut found = BTreeSet::from([("steady", all.clone()), ("by-itself", "one of 1".to_owned())]);
        if *place != "rule" {
            found.insert(("panics", "one of 0".to_owned()));
        }
        if !has("view") {
            found.insert(("in-view", all.clone()));
        }
        if !has("query") {
            found.insert(("in-query", all));
        }
        (path.clone(), found)
    };
    places.iter().map(of_file).collect()
}

#[test]
fn a_panic_costs_the_findings_of_its_rule_alone() {
    let engine = Arc::new(Engine::with_rules(Settings::default(), TABLE, |_, _, _| false, |_| Vec::new()));
    let mut workspace = Workspace::new();
    let mut places: BTreeMap<String, &str> = BTreeMap::new();
    let mut before = BTreeMap::new();
    let steps: &[&[(&str, &str)]] = &[
        // In the first check.
        &[("a", "rule"), ("b", "view"), ("c", "query"), ("d", "nothing")],
        &[("b", "nothing")],
        &[("c", "nothing")],
        &[("a", "nothing")],
        // After an edit, when views and results exist.
        &[("d", "view")],
        &[("e", "nothing")],
        &[("d", "query")],
        &[("d", "rule")],
        &[("d", "nothing")],
        &[("a", "view"), ("b", "query"), ("c", "rule")],
        &[("a", "removed")],
        &[("b", "removed"), ("c", "removed")],
        &[("f", "query")],
        &[("f", "nothing")],
    ];
    for step in steps {
        let mut changes = Vec::new();
        for &(path, place) in *step {
            let new = (place != "removed").then(|| (pool(path, place), Arc::clone(&engine)));
            changes.push((path.to_owned(), new));
            match place {
                "removed" => _ = places.remove(path),
                place => _ = places.insert(path.to_owned(), place),
            }
        }
        let renewed = workspace.update(changes, &[], &BTreeMap::new());
        let expected = expected(&places);
        let found: BTreeMap<String, BTreeSet<(&str, String)>> = workspace
            .paths()
            .map(|path| {
                let findings = &workspace.report(path).unwrap().findings;
                let found = findings.iter().map(|finding| (finding.rule.id, finding.message.clone()));
                (path.to_owned(), found.collect())
            })
            .collect();
        assert_eq!(found, expected, "{step:?}");
        let all: BTreeSet<&String> = before.keys().chain(expected.keys()).collect();
        let different: Vec<&String> = all
            .into_iter()
            .filter(|path| {
                let edited = step.iter().any(|(edited, _)| edited == path);
                before.get(*path) != expected.get(*path) && !edited
            })
            .collect();
        let others: Vec<&String> =
            renewed.iter().filter(|path| step.iter().all(|(edited, _)| edited != path)).collect();
        assert_eq!(others, different, "{step:?}");
        let panics = workspace.take_panics();
        let rules: BTreeSet<&str> = panics.iter().filter_map(|panic| panic.rule).collect();
        for (place, rule) in [("rule", "panics"), ("view", "in-view"), ("query", "in-query")] {
            let is_new = step.iter().any(|(_, new)| *new == place);
            assert!(!is_new || rules.contains(rule), "{step:?}: {panics:?}");
            assert!(
                places.values().any(|other| *other == place) || !rules.contains(rule),
                "{step:?}: {panics:?}"
            );
        }
        for panic in &panics {
            assert!(panic.message.starts_with("as the label of"), "{panic:?}");
            assert_eq!(panic.object.as_ref().map(|id| &id.name), Some(&panic.path));
        }
        assert_eq!(workspace.take_panics(), []);
        before = expected;
    }
}
