//! The plan as JSON, version 1, which `plan.schema.json` describes. Members may be added within a version.

use std::io::Write;

use gpulint_rules::plan::{
    Bill, ClassPlan, Edit, Landing, Money, Move, NodeCount, PodCount, PoolPlan, Resized, Rollout,
};
use gpulint_rules::{Finding, Pointer};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::report::answer::{dollars, object_json, place_of, uncertainty_json};
use crate::report::capacity::load_json;

use super::words;
use super::{PlanReport, PlannedSet, Upgrades};

pub(super) fn write(out: &mut dyn Write, report: &PlanReport) -> Result<(), CliError> {
    let value = json!({
        "version": 1,
        "tool": {"name": "gpulint", "version": env!("CARGO_PKG_VERSION")},
        "before": report.before,
        "after": report.after,
        "sets": report.sets.iter().map(set).collect::<Vec<_>>(),
        "findings": {
            "new": report.findings.new.iter().map(|one| {
                let mut value = finding(&one.finding, &one.fingerprint);
                value["fails"] = json!(one.fails);
                value
            }).collect::<Vec<_>>(),
            "gone": report.findings.gone.iter().map(|(one, print)| finding(one, print)).collect::<Vec<_>>(),
            "still": report.findings.still,
            "baselined": report.findings.baselined,
        },
        "upgrades": upgrades(&report.upgrades),
        "budget": report.budget.map(|budget| json!({
            "limit": budget.limit,
            "dollarsAnHour": budget.most.map(dollars),
            "exceeded": budget.is_exceeded(),
        })),
        "unread": report.unread.iter().map(|one| json!({
            "file": one.file, "line": one.line, "side": if one.is_after { "after" } else { "before" },
        })).collect::<Vec<_>>(),
        "uncompared": report.uncompared.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "errors": report.errors,
        "reasons": report.reasons(),
        "exitCode": report.exit_code(),
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    Ok(writeln!(out)?)
}

fn set(set: &PlannedSet) -> Value {
    json!({
        "name": set.name.as_deref(),
        "isNew": set.is_new,
        "isGone": set.is_gone,
        "replacesNodes": set.plan.replaces_nodes(),
        "pools": set.plan.pools.iter().map(pool).collect::<Vec<_>>(),
        "others": set.plan.classes.iter().map(class).collect::<Vec<_>>(),
        "workloads": set.plan.moves.iter().map(movement).collect::<Vec<_>>(),
        "resized": set.plan.resized.iter().map(resized).collect::<Vec<_>>(),
        "money": set.plan.money.as_ref().map(money),
    })
}

fn pool(pool: &PoolPlan) -> Value {
    let (file, line) = place_of(&pool.object, &Pointer::root());
    json!({
        "name": pool.name,
        "file": file,
        "line": line,
        "nodes": pool.fate.name(),
        "text": words::fate(pool),
        "edits": pool.edits.iter().map(edit).collect::<Vec<_>>(),
        "count": count(pool.nodes),
        "rollout": pool.rollout.as_ref().map(rollout),
        "starts": pool.offer.as_ref().map(|offer| json!({
            "types": offer.types,
            "capacityTypes": offer.capacity_types,
            "dollarsAnHourByLimits": offer.ceiling.micro_dollars.map(dollars),
        })),
    })
}

fn class(class: &ClassPlan) -> Value {
    let mut value = object_json(&class.object);
    value["nodes"] = json!(class.fate.name());
    value["text"] = json!(words::class_fate(class));
    value["edits"] = class.edits.iter().map(edit).collect();
    value
}

fn edit(edit: &Edit) -> Value {
    let (file, line) = place_of(&edit.object, &edit.pointer);
    json!({
        "kind": edit.object.id().kind,
        "name": edit.object.name(),
        "field": edit.field,
        "before": edit.before,
        "after": edit.after,
        "nodes": edit.effect.name(),
        "file": file,
        "line": line,
    })
}

fn count(nodes: NodeCount) -> Value {
    match nodes {
        NodeCount::Stated(nodes) => json!({"least": nodes, "most": nodes, "stated": true}),
        NodeCount::Packed(least, most) => json!({"least": least, "most": most, "stated": false}),
        NodeCount::Unknown => Value::Null,
    }
}

fn rollout(rollout: &Rollout) -> Value {
    json!({
        "never": rollout.never,
        "atOnce": rollout.at_once.map(|(least, most)| json!({"least": least, "most": most})),
        "closedMinutesAWeek": rollout.closed_minutes,
        "budgets": rollout.budgets.iter().map(|budget| json!({
            "nodes": budget.nodes, "schedule": budget.schedule, "duration": budget.duration,
        })).collect::<Vec<_>>(),
        "minutes": rollout.minutes.map(|(least, most)| json!({"least": least, "most": most})),
        "graceSeconds": rollout.grace,
        "terminationGraceSeconds": rollout.drain_limit,
        "heldBy": rollout.holders.iter().map(|held| {
            let mut value = object_json(&held.workload);
            value["reason"] = json!(held.reason);
            value
        }).collect::<Vec<_>>(),
    })
}

fn movement(one: &Move) -> Value {
    let mut value = object_json(&one.workload);
    value["pods"] = json!(one.spec.to_string());
    value["changes"] = one.turns.iter().map(|turn| turn.name()).collect();
    value["text"] = json!(words::movement(one));
    value["before"] = one.before.as_ref().map_or(Value::Null, landing);
    value["after"] = one.after.as_ref().map_or(Value::Null, landing);
    value
}

fn resized(one: &Resized) -> Value {
    let pods = |count: PodCount| match count {
        PodCount::Absent => Value::Null,
        PodCount::Unknown => json!({"fewest": null, "most": null}),
        PodCount::Known((fewest, most)) => json!({"fewest": fewest, "most": most}),
    };
    let mut value = object_json(&one.workload);
    value["text"] = json!(words::resized(one));
    value["before"] = pods(one.before);
    value["after"] = pods(one.after);
    value
}

fn landing(landing: &Landing) -> Value {
    json!({
        "verdict": words::verdict(landing),
        "pool": landing.pool.as_ref().map(|pool| pool.name()),
        "pools": landing.pools,
        "capacityTypes": landing.capacity_types,
        "architectures": landing.architectures,
        "ignored": landing.ignored.as_ref().map(|ignored| &ignored.text),
        "nearest": landing.nearest.as_ref().map(|(pool, obstacles)| json!({
            "pool": pool.name(),
            "obstacles": obstacles.iter().map(|obstacle| json!({
                "stage": obstacle.stage.name(),
                "reason": obstacle.reason,
                "changes": obstacle.changes.iter().map(|change| change.text.clone()).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })),
        "uncertainties": landing.uncertainties.iter().map(uncertainty_json).collect::<Vec<_>>(),
    })
}

fn money(money: &Money) -> Value {
    let pools = money.pools.iter().map(|pool| {
        let side = |floor: Option<i128>, ceiling: Option<i128>, nodes: (u64, u64), limit: Bill| {
            json!({
                "fewest": {"nodes": nodes.0, "dollarsAnHour": floor.map(dollars)},
                "most": {"nodes": nodes.1, "dollarsAnHour": ceiling.map(dollars)},
                "limits": bill(limit),
            })
        };
        json!({
            "name": pool.pool,
            "before": side(pool.floor.0, pool.ceiling.0, pool.nodes.0, pool.limits.0),
            "after": side(pool.floor.1, pool.ceiling.1, pool.nodes.1, pool.limits.1),
            "causes": pool.causes.iter().map(words::cause).collect::<Vec<_>>(),
        })
    });
    let side = |capacity: &gpulint_rules::fit::Capacity, limits: Bill| {
        json!({
            "floor": load_json(&capacity.floor), "ceiling": load_json(&capacity.ceiling), "limits": bill(limits),
        })
    };
    json!({
        "pools": pools.collect::<Vec<_>>(),
        "before": side(&money.before, money.limits.0),
        "after": side(&money.after, money.limits.1),
    })
}

/// Dollars an hour at the most, `"unlimited"`, or null where there is no pool.
fn bill(bill: Bill) -> Value {
    match bill {
        Bill::Absent => Value::Null,
        Bill::Unlimited => json!("unlimited"),
        Bill::Micro(micro) => json!(dollars(micro)),
    }
}

fn finding(finding: &Finding, fingerprint: &str) -> Value {
    let place = finding.location.resolve_span().map(|(source, _, span)| {
        let at = source.lines().position(source.text(), span.start);
        (source.path().to_owned(), at.line, at.column)
    });
    json!({
        "rule": finding.rule.id,
        "severity": finding.severity.name(),
        "message": finding.message,
        "help": finding.help,
        "file": place.as_ref().map(|(file, ..)| file),
        "line": place.as_ref().map(|(_, line, _)| line),
        "column": place.as_ref().map(|(.., column)| column),
        "fingerprint": fingerprint,
    })
}

fn upgrades(upgrades: &Upgrades) -> Value {
    json!({
        "steps": upgrades.steps.iter().map(|step| json!({
            "product": step.product.setting().trim_start_matches("platform."), "from": step.from.to_string(), "to": step.to.to_string(),
        })).collect::<Vec<_>>(),
        "notes": upgrades.notes.iter().map(|note| json!({
            "version": note.version.to_string(), "topic": note.topic, "text": note.text,
        })).collect::<Vec<_>>(),
        "changes": upgrades.changes.iter().map(|change| {
            let (file, line) = place_of(&change.object, &change.pointer);
            json!({
                "version": change.version.to_string(), "kind": change.object.id().kind, "name": change.object.name(),
                "text": change.text, "file": file, "line": line,
            })
        }).collect::<Vec<_>>(),
    })
}
