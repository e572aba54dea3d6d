//! A plan as sections of items, which the formats for people lay out.

use gpulint_rules::Pointer;
use gpulint_rules::plan::{
    ASSUMED_START_MINUTES, ClassPlan, Edit, Fate, Money, PoolPlan, left_out, shown_name,
};

use crate::report::answer::{place_of, workload_name};
use crate::report::place::position;
use crate::terminal::count;

use super::words;
use super::{PlanReport, PlannedSet, UnreadFile};

/// What a set has to say.
pub(super) struct Body {
    /// The sets for which all of it holds.
    pub(super) sets: Vec<String>,
    pub(super) sections: Vec<Section>,
    pub(super) money: Option<MoneyTable>,
}

pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) items: Vec<Item>,
}

/// Something that changes.
#[derive(PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) place: Option<(String, u32)>,
    pub(super) details: Vec<String>,
}

pub(super) struct MoneyTable {
    pub(super) rows: Vec<MoneyRow>,
    /// Dollars an hour with the most replicas, before and after.
    pub(super) most: (Option<i128>, Option<i128>),
}

pub(super) struct MoneyRow {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) causes: Vec<String>,
}

/// The sets, those that say the same together.
pub(super) fn bodies(report: &PlanReport) -> Vec<Body> {
    let mut bodies: Vec<(String, Body)> = Vec::new();
    for set in &report.sets {
        let (sections, money) =
            (sections(set), set.plan.money.as_ref().map(money_table).filter(|table| !table.rows.is_empty()));
        let name = match (&set.name, set.is_new, set.is_gone) {
            (None, ..) => String::new(),
            (Some(name), true, _) => format!("{name} (new)"),
            (Some(name), _, true) => format!("{name} (gone)"),
            (Some(name), ..) => name.to_string(),
        };
        let key = key_of(&sections, money.as_ref());
        match bodies.iter_mut().find(|(known, _)| *known == key) {
            Some((_, body)) => body.sets.push(name),
            None => bodies.push((key, Body { sets: vec![name], sections, money })),
        }
    }
    bodies.into_iter().map(|(_, body)| body).collect()
}

/// The files that cannot be read, in one section.
pub(super) fn unread(report: &PlanReport) -> Option<Section> {
    let item = |one: &UnreadFile| {
        let (side, other) =
            if one.is_after { (&report.after, &report.before) } else { (&report.before, &report.after) };
        Item {
            name: one.file.clone(),
            text: format!(
                "does not parse in {side}, line {}: what differs in it is not known, and its objects are taken for those of {other}",
                one.line
            ),
            place: None,
            details: Vec::new(),
        }
    };
    let items: Vec<Item> = report.unread.iter().map(item).collect();
    (!items.is_empty()).then_some(Section { title: "Files that cannot be read", items })
}

/// Everything that is said, to compare it.
fn key_of(sections: &[Section], money: Option<&MoneyTable>) -> String {
    let mut key = String::new();
    for item in sections.iter().flat_map(|section| &section.items) {
        key.push_str(&format!("{}|{}|{:?}|{:?}\n", item.name, item.text, item.place, item.details));
    }
    for row in money.iter().flat_map(|money| &money.rows) {
        key.push_str(&format!("{}|{}|{}|{:?}\n", row.name, row.before, row.after, row.causes));
    }
    key
}

fn sections(set: &PlannedSet) -> Vec<Section> {
    let (stay, pools): (Vec<&PoolPlan>, Vec<&PoolPlan>) =
        set.plan.pools.iter().partition(|pool| words::stays(pool));
    let pools = pools.into_iter().map(pool_item);
    let classes = set.plan.classes.iter().map(class_item);
    let (nodes, kept): (Vec<_>, Vec<_>) = pools.chain(classes).partition(|(costs, _)| *costs);
    let plain = |items: Vec<(bool, Item)>| items.into_iter().map(|(_, item)| item).collect::<Vec<_>>();
    let mut sections = vec![
        Section { title: "Nodes that are replaced", items: plain(nodes) },
        Section {
            title: "Nodes that drift and stay",
            items: plain(stay.into_iter().map(pool_item).collect()),
        },
        Section { title: "Changes that replace no node", items: plain(kept) },
        Section { title: "Pods that go elsewhere", items: moves(set) },
    ];
    sections.retain(|section| !section.items.is_empty());
    sections
}

fn pool_item(pool: &PoolPlan) -> (bool, Item) {
    let costs = pool.fate.costs_nodes() || pool.fate == Fate::Unknown;
    let mut details = Vec::new();
    if let Some(rollout) = &pool.rollout {
        details.extend(words::rollout(pool, rollout));
        details.extend(words::holders(rollout));
    }
    let place = place_of_edits(&pool.edits, &pool.object);
    details.extend(pool.edits.iter().map(|edit| edit_text(edit, place.as_ref())));
    (costs, Item { name: pool.name.clone(), text: words::fate(pool), place, details })
}

fn class_item(class: &ClassPlan) -> (bool, Item) {
    let costs = class.fate.costs_nodes() || class.fate == Fate::Unknown;
    let place = place_of_edits(&class.edits, &class.object);
    let details = class.edits.iter().map(|edit| edit_text(edit, place.as_ref())).collect();
    let name = format!("{} {}", class.object.id().kind, shown_name(&class.object));
    (costs, Item { name, text: words::class_fate(class), place, details })
}

/// The place of the first edit, or of the object where nothing is edited.
fn place_of_edits(edits: &[Edit], object: &gpulint_rules::Object) -> Option<(String, u32)> {
    let first = edits.first().and_then(|edit| place(&edit.object, &edit.pointer));
    first.or_else(|| place(object, &Pointer::root()))
}

/// An edit, with its place if that is not the one of the item.
fn edit_text(edit: &Edit, of_item: Option<&(String, u32)>) -> String {
    let text = words::edit(edit);
    match place(&edit.object, &edit.pointer) {
        Some((file, line)) if of_item.is_none_or(|known| (&known.0, known.1) != (&file, line)) => {
            format!("{text} ({file}:{line})")
        }
        _ => text,
    }
}

fn place(object: &gpulint_rules::Object, pointer: &Pointer) -> Option<(String, u32)> {
    position(object, pointer).map(|(file, line, _)| (file, line))
}

/// The workloads whose pods go elsewhere; those with the same words are one item.
fn moves(set: &PlannedSet) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut known: Vec<(String, Vec<String>)> = Vec::new();
    for one in &set.plan.moves {
        let (text, name) = (words::movement(one), workload_name(&one.workload));
        if let Some(at) = known.iter().position(|(same, _)| *same == text) {
            if !known[at].1.contains(&name) {
                known[at].1.push(name);
            }
            continue;
        }
        let (file, line) = place_of(&one.workload, &one.spec);
        items.push(Item {
            name: name.clone(),
            text: text.clone(),
            place: file.zip(line),
            details: Vec::new(),
        });
        known.push((text, vec![name]));
    }
    for (item, (_, names)) in items.iter_mut().zip(known) {
        if let [_, others @ ..] = names.as_slice()
            && !others.is_empty()
        {
            item.details.push(format!("the same: {}", words::names(others)));
        }
    }
    items
}

fn money_table(money: &Money) -> MoneyTable {
    let mut rows: Vec<MoneyRow> = Vec::new();
    for pool in &money.pools {
        let is_nothing = |side: Option<i128>| side == Some(0);
        if [pool.floor.0, pool.floor.1, pool.ceiling.0, pool.ceiling.1].into_iter().all(is_nothing) {
            continue;
        }
        let causes = pool.causes.iter().map(words::cause).collect();
        let (before, after) =
            (words::cost(pool.floor.0, pool.ceiling.0), words::cost(pool.floor.1, pool.ceiling.1));
        rows.push(MoneyRow { name: pool.pool.clone(), before, after, causes });
    }
    let side = |capacity: &gpulint_rules::fit::Capacity| {
        words::cost(capacity.floor.micro_dollars, capacity.ceiling.micro_dollars)
    };
    let row = |name: &str, before: String, after: String| MoneyRow {
        name: name.to_owned(),
        before,
        after,
        causes: Vec::new(),
    };
    if !rows.is_empty() {
        rows.push(row("all NodePools", side(&money.before), side(&money.after)));
    }
    let (had, has) = (left_out(&money.before), left_out(&money.after));
    if had != has {
        rows.push(row("pods without room", had.to_string(), has.to_string()));
    }
    if money.limits.0 != money.limits.1 {
        rows.push(row("most by limits", words::bill(money.limits.0), words::bill(money.limits.1)));
    }
    let most = (money.before.ceiling.micro_dollars, money.after.ceiling.micro_dollars);
    // What is saved by pods that do not run is no saving.
    let most = if has > had && most.1 < most.0 { (None, None) } else { most };
    MoneyTable { rows, most }
}

/// The change in one line; empty if there is none.
pub(super) fn headline(report: &PlanReport) -> String {
    let mut parts = Vec::new();
    if !report.unread.is_empty() {
        parts.push(format!("{} cannot be read", count(report.unread.len(), "file")));
    }
    if !report.errors.is_empty() {
        parts.push("not everything could be read".to_owned());
    }
    let pools = |wanted: fn(Fate) -> bool| {
        let all = report.sets.iter().flat_map(|set| &set.plan.pools);
        all.filter(|pool| wanted(pool.fate)).count()
    };
    let stay = report.sets.iter().flat_map(|set| &set.plan.pools).filter(|pool| words::stays(pool)).count();
    let replaced = pools(Fate::costs_nodes) - stay;
    if replaced > 0 {
        parts.push(format!("nodes of {} are replaced", count(replaced, "NodePool")));
    }
    if stay > 0 {
        parts.push(format!("nodes of {} drift and stay", count(stay, "NodePool")));
    }
    let unknown = pools(|fate| fate == Fate::Unknown);
    if unknown > 0 {
        parts.push(format!("nodes of {} may be replaced", count(unknown, "NodePool")));
    }
    let added = pools(|fate| fate == Fate::Added);
    if added > 0 {
        parts.push(count(added, "new NodePool"));
    }
    let moves = || report.sets.iter().flat_map(|set| &set.plan.moves);
    let lost = moves().filter(|one| one.fits_nowhere()).count();
    if lost > 0 {
        parts.push(format!(
            "{} no NodePool",
            if lost == 1 { "1 workload fits".to_owned() } else { format!("{lost} workloads fit") }
        ));
    }
    let moved = moves().count() - lost;
    if moved > 0 {
        parts.push(format!("pods of {} go elsewhere", count(moved, "workload")));
    }
    let money = || report.sets.iter().filter_map(|set| set.plan.money.as_ref());
    let more: u64 = money().map(|money| left_out(&money.after).saturating_sub(left_out(&money.before))).sum();
    if more > 0 {
        let pods = usize::try_from(more).unwrap_or(usize::MAX);
        parts.push(format!("{} more without room with the most replicas", count(pods, "pod")));
    }
    // What is saved by pods that do not run is no saving.
    if let Some(text) = growth(report, more == 0) {
        parts.push(text);
    }
    if parts.is_empty() && report.sets.iter().any(|set| !set.plan.is_empty()) {
        parts.push("no node is replaced".to_owned());
    }
    if !report.findings.new.is_empty() {
        parts.push(count(report.findings.new.len(), "new finding"));
    }
    if !report.findings.gone.is_empty() {
        parts.push(format!("{} gone", report.findings.gone.len()));
    }
    parts.extend(report.upgrades.steps.iter().map(|step| step.title(false)));
    parts.join("; ")
}

/// By how much the cost of all sets differs with the most replicas.
fn growth(report: &PlanReport, tells_savings: bool) -> Option<String> {
    let money = report.sets.iter().filter_map(|set| set.plan.money.as_ref());
    let differences =
        money.map(|money| Some(money.after.ceiling.micro_dollars? - money.before.ceiling.micro_dollars?));
    let sum = differences.sum::<Option<i128>>()?;
    let amount = sum.unsigned_abs() as f64 / 1e6;
    match sum {
        // Less than what is shown.
        _ if sum.unsigned_abs() < 5_000 => None,
        1.. => Some(format!("${amount:.2} an hour more with the most replicas")),
        _ if !tells_savings => None,
        _ => Some(format!("${amount:.2} an hour less with the most replicas")),
    }
}

/// What the numbers rest on.
pub(super) fn notes(report: &PlanReport) -> Vec<String> {
    let mut notes = Vec::new();
    let pools = || report.sets.iter().flat_map(|set| &set.plan.pools);
    if pools().any(|pool| pool.rollout.as_ref().is_some_and(|rollout| rollout.minutes.is_some())) {
        notes.push(format!(
            "Times: {ASSUMED_START_MINUTES} minutes for a node to start, and up to the grace period of its pods to drain. \
             `--nodes POOL=N` says how many run."
        ));
    }
    if pools().any(|pool| pool.fate.costs_nodes()) {
        notes.push(
            "Not known here: what selectors of AMIs, subnets and security groups choose in EC2.".to_owned(),
        );
    }
    if let Some(note) = report.uncompared_note() {
        notes.push(words::sentence(&note));
    }
    if report.sets.iter().any(|set| set.plan.money.is_some()) {
        let prices = crate::report::answer::price_note(report.region.as_deref());
        notes.push(format!("Dollars: an hour, with the fewest to the most replicas. {prices}"));
    }
    notes
}
