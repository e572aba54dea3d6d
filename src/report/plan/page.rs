//! A plan as sections of items, which the formats for people lay out.

use std::collections::BTreeSet;

use gpulint_rules::fit::Offer;
use gpulint_rules::plan::{
    ASSUMED_START_MINUTES, Bill, ClassPlan, Edit, Fate, Money, MoneyCause, Move, PoolPlan, Resized, Turn,
    left_out, shown_name,
};
use gpulint_rules::{Object, ObjectKey, Pointer};

use crate::files::UNCLAIMED;
use crate::report::answer::{HOURS_OF_A_MONTH, dollars, place_of, workload_name};
use crate::report::place::position;

use super::words;
use super::{FindingsChange, PlanReport, PlannedSet, UnreadFile};

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

impl MoneyTable {
    /// What a month costs at the most, where that differs.
    pub(super) fn month(&self) -> Option<String> {
        let (Some(before), Some(after)) = self.most else { return None };
        let month = |micro: i128| dollars(micro) * HOURS_OF_A_MONTH;
        (before != after).then(|| {
            format!(
                "A month of {HOURS_OF_A_MONTH} hours at the most: ${:.0}, was ${:.0}.",
                month(after),
                month(before)
            )
        })
    }
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
        let name = set
            .name
            .as_deref()
            .map_or("", |name| if name == UNCLAIMED { "files of no cluster" } else { name });
        let name = match (set.is_new, set.is_gone) {
            (true, _) if !name.is_empty() => format!("{name} (new)"),
            (_, true) if !name.is_empty() => format!("{name} (gone)"),
            _ => name.to_owned(),
        };
        let key = key_of(&sections, money.as_ref());
        match bodies.iter_mut().find(|(known, _)| *known == key) {
            Some((_, body)) => body.sets.push(name),
            None => bodies.push((key, Body { sets: vec![name], sections, money })),
        }
    }
    bodies.into_iter().map(|(_, body)| body).collect()
}

/// The names of sets as a heading.
pub(super) fn in_sets(names: &[String]) -> String {
    let each = if names.len() > 1 { "each of " } else { "" };
    format!("In {each}{}", names.join(", "))
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
    let (added, pools): (Vec<&PoolPlan>, Vec<&PoolPlan>) =
        pools.into_iter().partition(|pool| pool.fate == Fate::Added);
    let pools = pools.into_iter().map(|pool| (pool.fate, pool_item(pool)));
    let changes = pools.chain(set.plan.classes.iter().map(|class| (class.fate, class_item(class))));
    let (mut replaced, mut unsure, mut gone, mut kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (fate, item) in changes {
        match fate {
            Fate::Removed => gone.push(item),
            Fate::Unknown => unsure.push(item),
            fate if fate.costs_nodes() => replaced.push(item),
            _ => kept.push(item),
        }
    }
    let mut sections = vec![
        Section { title: "Nodes that are replaced", items: replaced },
        Section { title: "Nodes that may be replaced", items: unsure },
        Section { title: "Nodes that drift and stay", items: stay.into_iter().map(pool_item).collect() },
        Section { title: "NodePools that are gone", items: gone },
        Section { title: "New NodePools", items: added.into_iter().map(pool_item).collect() },
        Section { title: "Changes that replace no node", items: kept },
        Section { title: "Pods whose place changes", items: moves(set) },
        Section { title: "Number of pods", items: only_resized(set).map(resized_item).collect() },
    ];
    sections.retain(|section| !section.items.is_empty());
    sections
}

fn pool_item(pool: &PoolPlan) -> Item {
    let mut details = Vec::new();
    if let Some(rollout) = &pool.rollout {
        details.extend(words::rollout(pool, rollout));
        details.extend(words::holders(rollout));
    }
    details.extend(pool.offer.as_ref().and_then(words::offer));
    let place = place_of_edits(&pool.edits, &pool.object);
    details.extend(pool.edits.iter().map(|edit| edit_text(edit, &pool.object, place.as_ref())));
    titled(format!("NodePool {}", pool.name), words::fate(pool), place, details)
}

fn class_item(class: &ClassPlan) -> Item {
    let place = place_of_edits(&class.edits, &class.object);
    let details = class.edits.iter().map(|edit| edit_text(edit, &class.object, place.as_ref())).collect();
    let name = format!("{} {}", class.object.id().kind, shown_name(&class.object));
    titled(name, words::class_fate(class), place, details)
}

/// An item about an object: its name is the subject of the text, or stands before a colon.
fn titled(mut name: String, text: String, place: Option<(String, u32)>, details: Vec<String>) -> Item {
    if !["is ", "changes "].iter().any(|verb| text.starts_with(verb)) {
        name.push(':');
    }
    Item { name, text, place, details }
}

/// The place of the first edit, or of the object where nothing is edited.
fn place_of_edits(edits: &[Edit], object: &Object) -> Option<(String, u32)> {
    let first = edits.first().and_then(|edit| place(&edit.object, &edit.pointer));
    first.or_else(|| place(object, &Pointer::root()))
}

/// An edit, with its place if that is not the one of the item.
fn edit_text(edit: &Edit, told: &Object, of_item: Option<&(String, u32)>) -> String {
    let text = words::edit(edit, told);
    match place(&edit.object, &edit.pointer) {
        Some((file, line)) if of_item.is_none_or(|known| (&known.0, known.1) != (&file, line)) => {
            format!("{text} ({file}:{line})")
        }
        _ => text,
    }
}

fn place(object: &Object, pointer: &Pointer) -> Option<(String, u32)> {
    position(object, pointer).map(|(file, line, _)| (file, line))
}

/// The workload of pods, with their spec if there is something else to say of its other pods.
fn pods_name(one: &Move, all: &[Move]) -> String {
    let own = all.iter().filter(|other| other.workload.is_same_manifest(&one.workload));
    let texts: Vec<String> = own.map(words::movement).collect();
    let name = workload_name(&one.workload);
    let is_whole = texts.len() >= one.templates && texts.iter().all(|text| *text == texts[0]);
    if is_whole { name } else { format!("{name}, {}", one.spec.field_path()) }
}

/// The workloads whose pods go elsewhere; those with the same words are one item.
fn moves(set: &PlannedSet) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut known: Vec<(String, Vec<String>)> = Vec::new();
    for one in &set.plan.moves {
        let (text, name) = (words::movement(one), pods_name(one, &set.plan.moves));
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

/// The workloads whose number of pods differs, which neither their place nor the cost of a NodePool tells.
pub(super) fn only_resized(set: &PlannedSet) -> impl Iterator<Item = &Resized> {
    let causes = set.plan.money.iter().flat_map(|money| money.pools.iter().flat_map(|pool| &pool.causes));
    let causes = causes.filter_map(|cause| match cause {
        MoneyCause::Replicas { workload, .. } => Some(workload),
        _ => None,
    });
    let moves = set.plan.moves.iter();
    let moves = moves.filter(|one| one.turns.iter().any(|turn| matches!(turn, Turn::New | Turn::Gone)));
    let told: BTreeSet<ObjectKey> =
        moves.map(|one| &one.workload).chain(causes).map(|workload| workload.id().key()).collect();
    set.plan.resized.iter().filter(move |one| !told.contains(&one.workload.id().key()))
}

fn resized_item(one: &Resized) -> Item {
    Item {
        name: workload_name(&one.workload),
        text: words::resized(one),
        place: place(&one.workload, &Pointer::root()),
        details: Vec::new(),
    }
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
    // Where there was no NodePool, pods had other nodes.
    if had != has && money.limits.0 != Bill::Absent {
        rows.push(row("pods without room", had.to_string(), has.to_string()));
    }
    if money.limits.0 != money.limits.1 {
        rows.push(row("most that limits allow", words::bill(money.limits.0), words::bill(money.limits.1)));
    }
    let most = (money.before.ceiling.micro_dollars, money.after.ceiling.micro_dollars);
    // What is saved by pods that do not run is no saving.
    let most = if has > had && most.1 < most.0 { (None, None) } else { most };
    MoneyTable { rows, most }
}

/// How many findings are new, gone and still there; `None` if none is new or gone.
pub(super) fn findings_line(change: &FindingsChange) -> Option<String> {
    let (new, gone) = (change.new.len(), change.gone.len());
    let baselined = match change.baselined {
        0 => String::new(),
        more => format!(", {more} more in the baseline"),
    };
    (new + gone > 0).then(|| format!("{new} new{baselined}, {gone} gone, {} still there", change.still))
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
    if pools().any(|pool| pool.fate.costs_nodes() && pool.fate != Fate::Removed) {
        notes.push(
            "Not known here: what selectors of AMIs, subnets and security groups choose in EC2.".to_owned(),
        );
    }
    let is_of_old_api = |set: &PlannedSet| {
        let is_beta = |pool: &PoolPlan| pool.object.id().version == "v1beta1";
        let is_alpha = |one: &ClassPlan| ["Provisioner", "AWSNodeTemplate"].contains(&&*one.object.id().kind);
        set.plan.pools.iter().any(is_beta) || set.plan.classes.iter().any(is_alpha)
    };
    if report.sets.iter().any(is_of_old_api) {
        notes
            .push("Not compared: pods and dollars of NodePools of `v1beta1` and of Provisioners.".to_owned());
    }
    let patched = patched(report);
    if !patched.is_empty() {
        notes.push(format!(
            "Patches of kustomizations change {} as well, which --render counts.",
            words::names(&patched)
        ));
    }
    if let Some(note) = report.uncompared_note() {
        notes.push(words::sentence(&note));
    }
    let turns = || report.sets.iter().flat_map(|set| set.plan.moves.iter().flat_map(|one| &one.turns));
    let mut tables = report.sets.iter().filter_map(|set| set.plan.money.as_ref()).map(money_table);
    if tables.any(|table| !table.rows.is_empty())
        || pools().any(|pool| pool.offer.as_ref().is_some_and(is_bounded))
    {
        let prices = crate::report::answer::price_note(report.region.as_deref());
        notes.push(format!("Dollars: an hour, with the fewest to the most replicas. {prices}"));
    } else if turns().any(|turn| *turn == Turn::CapacityType) {
        notes.push(
            "Not known here: what another capacity type costs, because Spot has no list prices.".to_owned(),
        );
    }
    notes
}

/// Whether limits bound what the nodes of a pool cost.
fn is_bounded(offer: &Offer) -> bool {
    offer.ceiling.micro_dollars.is_some()
}

/// The names of what is told of and patched by kustomizations that nothing renders.
fn patched(report: &PlanReport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for set in &report.sets {
        let pools = set.plan.pools.iter().map(|pool| (&pool.object, shown_name(&pool.object)));
        let classes = set.plan.classes.iter().map(|class| (&class.object, shown_name(&class.object)));
        let moves = set.plan.moves.iter().map(|one| (&one.workload, workload_name(&one.workload)));
        for (object, name) in pools.chain(classes).chain(moves) {
            if object.is_patched_by_kustomize() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
