//! NodePools of all sorts, generated from seeds: nothing panics, findings are within the text, fixes have the
//! stated effect, and JSON input has the same findings as the file.
//!
//! `POOLS=100000 cargo test --release -p gpulint-rules --test it pools` is the long run.

use std::collections::BTreeSet;

use gpulint_rules::facts::date::Date;
use gpulint_rules::lint::fix::text::{apply_edits, edits};
use gpulint_rules::lint::fix::value;
use gpulint_rules::source::Source;
use gpulint_rules::{Check, Engine, Finding, Object, Platform, Safety, Settings, Version};
use gpulint_testing::{check, cluster, values};
use serde_json::Value;

#[path = "../../examples/pools/mod.rs"]
mod pools;

fn count() -> u64 {
    let asked = std::env::var("POOLS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(100)
}

/// The default platform, an old platform, and a whole cluster in a region with few types.
fn engines() -> [Engine; 3] {
    let settings = |platform: Platform, complete: bool| Settings {
        platform,
        complete,
        today: Date::parse("2026-12-01"),
        ..Settings::default()
    };
    let old = Platform {
        karpenter: Version::new(1, 2),
        keda: Version::new(2, 10),
        kubernetes: Version::new(1, 29),
        eks: false,
        ..Platform::default()
    };
    let remote = Platform {
        region: Some("ap-southeast-5".to_owned()),
        timezone: Some("Asia/Seoul".to_owned()),
        ..Platform::default()
    };
    [settings(Platform::default(), false), settings(old, false), settings(remote, true)].map(Engine::new)
}

fn lint(text: &str, engine: &Engine) -> Vec<Finding> {
    check(engine, [Source::from_text("pool.yaml", text)]).findings
}

/// A finding without its position in the text.
fn told(finding: &Finding) -> String {
    let id = finding.location.object().map(|o| o.id().kind.clone());
    let pointer = finding.location.pointer().map(ToString::to_string);
    format!(
        "{} {} {} {}: {} / {}",
        id.unwrap_or_default(),
        finding.rule.id,
        finding.severity.name(),
        pointer.unwrap_or_default(),
        finding.message,
        finding.help.as_deref().unwrap_or_default()
    )
}

/// The faults of a finding by itself.
fn faults(finding: &Finding) -> Option<String> {
    let long = |text: &str| text.chars().count() > 120 || text.contains('\n');
    if long(&finding.message) || finding.help.as_deref().is_some_and(long) {
        return Some("over 120 characters, or over a line".to_owned());
    }
    let (source, _, span) = finding.location.resolve_span()?;
    if span.start > span.end || span.end as usize > source.text().len() {
        return Some(format!("{span:?} is not in the text"));
    }
    None
}

/// The faults of the fix of a finding: it must have the same effect on the text as on the value.
fn wrong_fix(text: &str, finding: &Finding) -> Option<String> {
    let fix = finding.fix.as_ref()?;
    let object = finding.location.object()?;
    let before = object.root().to_json();
    let patched = match value::apply(&before, fix) {
        Ok(patched) => patched,
        Err(refused) => return Some(format!("does not apply: {refused}")),
    };
    // If the editor cannot write the fix, it rejects it and the finding stays.
    let edits = edits(object, fix).ok()?;
    let Some(new) = apply_edits(text, &edits) else {
        return Some("edits are out of order".to_owned());
    };
    let is: Vec<Value> = values(&new);
    let there = is.iter().any(|i| value::semantic_eq(i, &patched));
    (!there).then(|| format!("the text is not the patched value:\n{new}"))
}

#[test]
fn pools_of_all_sorts_are_judged() {
    let engines = engines();
    let mut wrong = Vec::new();
    let mut rules = BTreeSet::new();
    let (mut fixes, mut safe) = (0, 0);
    for seed in 0..count() {
        let (text, objects) = pools::sample(seed);
        for engine in &engines {
            let findings = lint(&text, engine);
            for finding in &findings {
                rules.insert(finding.rule.id);
                fixes += usize::from(finding.fix.is_some());
                let fault = faults(finding).or_else(|| wrong_fix(&text, finding));
                if let Some(fault) = fault {
                    wrong.push(format!("{seed}: {}: {fault}", told(finding)));
                }
                safe += usize::from(finding.fix.as_ref().is_some_and(|f| f.safety == Safety::Safe));
            }
            let Some(objects) = &objects else {
                continue;
            };
            // Findings of the reader and on comments exist for text only. A file has one finding for all
            // placeholders.
            let of_objects = |f: &&Finding| {
                !matches!(f.rule.check, Check::Builtin) && f.rule.id != "placeholder-unexpanded"
            };
            let from_text: BTreeSet<String> = findings.iter().filter(of_objects).map(told).collect();
            let objects: Vec<Object> = objects.iter().filter_map(Object::from_json).collect();
            let cluster = cluster(engine, &objects);
            let reviewed = objects.iter().flat_map(|o| engine.review_object(o, &cluster).findings);
            let from_wire: BTreeSet<String> = reviewed.filter(|f| of_objects(&f)).map(|f| told(&f)).collect();
            let differ: Vec<&String> = from_text.symmetric_difference(&from_wire).collect();
            if !differ.is_empty() {
                wrong.push(format!("{seed}: text and wire differ: {differ:#?}"));
            }
        }
    }
    wrong.truncate(20);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    println!("{} rules, {fixes} fixes, {safe} of them safe", rules.len());
    assert!(rules.len() >= 40, "only {rules:?}");
}

/// The samples are the same on every machine.
#[test]
fn samples_hang_on_their_seed_alone() {
    for seed in [0, 1, 7, 299] {
        assert_eq!(pools::sample(seed), pools::sample(seed));
    }
    assert_ne!(pools::sample(1).0, pools::sample(2).0);
}
