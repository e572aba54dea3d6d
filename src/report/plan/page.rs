//! A plan as sections of items, which the formats for people lay out.

use std::collections::BTreeMap;

use gpulint_rules::Pointer;
use gpulint_rules::plan::{
    ASSUMED_START_MINUTES, ClassPlan, Edit, Fate, Money, PoolPlan, Turn, left_out, shown_name,
};

use crate::report::answer::{HOURS_OF_A_MONTH, dollars, place_of, workload_name};
use crate::report::place::position;
use crate::terminal::count;

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
        Section { title: "Pods whose place changes", items: moves(set) },
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

/// How many findings are new, gone and still there; `None` if none is new or gone.
pub(super) fn findings_line(change: &FindingsChange) -> Option<String> {
    let (new, gone) = (change.new.len(), change.gone.len());
    let baselined = match change.baselined {
        0 => String::new(),
        more => format!(", {more} more in the baseline"),
    };
    (new + gone > 0).then(|| format!("{new} new{baselined}, {gone} gone, {} still there", change.still))
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
    parts.extend(fates(report));
    parts.extend(movements(report));
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
    match (report.findings.new.len(), report.findings.gone.len()) {
        (0, 0) => {}
        (0, gone) => parts.push(format!("{} gone", count(gone, "finding"))),
        (new, 0) => parts.push(count(new, "new finding")),
        (new, gone) => parts.push(format!("{}, {gone} gone", count(new, "new finding"))),
    }
    parts.extend(report.upgrades.steps.iter().map(|step| step.title(false)));
    parts.join("; ")
}

/// What becomes of the nodes of NodePools, and of other objects that no NodePool here uses.
fn fates(report: &PlanReport) -> Vec<String> {
    let pools = || report.sets.iter().flat_map(|set| &set.plan.pools);
    let others = || report.sets.iter().flat_map(|set| &set.plan.classes);
    let kinds = |wanted: fn(Fate) -> bool| {
        let of_pools = pools().filter(|pool| wanted(pool.fate) && !words::stays(pool)).map(|_| "NodePool");
        let of_others = others().filter(|other| wanted(other.fate)).map(|other| &*other.object.id().kind);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        of_pools.chain(of_others).for_each(|kind| *kinds.entry(kind).or_default() += 1);
        let all = kinds.into_iter().map(|(kind, number)| match number {
            1 => format!("1 {kind}"),
            _ if kind.ends_with('s') => format!("{number} {kind}es"),
            _ => format!("{number} {kind}s"),
        });
        all.collect::<Vec<_>>().join(" and ")
    };
    let stay = pools().filter(|pool| words::stays(pool)).count();
    let stay = if stay > 0 { count(stay, "NodePool") } else { String::new() };
    let mut parts = Vec::new();
    for (kinds, does) in [
        (kinds(Fate::costs_nodes), "are replaced"),
        (stay, "drift and stay"),
        (kinds(|fate| fate == Fate::Unknown), "may be replaced"),
    ] {
        if !kinds.is_empty() {
            parts.push(format!("nodes of {kinds} {does}"));
        }
    }
    let added = pools().filter(|pool| pool.fate == Fate::Added).count();
    if added > 0 {
        parts.push(count(added, "new NodePool"));
    }
    parts
}

/// What becomes of the pods of workloads.
fn movements(report: &PlanReport) -> Vec<String> {
    let moves = || report.sets.iter().flat_map(|set| &set.plan.moves);
    let lost = moves().filter(|one| one.fits_nowhere()).count();
    let turned = |turn: Turn| moves().filter(|one| !one.fits_nowhere() && one.turns.contains(&turn)).count();
    let (new, gone) = (turned(Turn::New), turned(Turn::Gone));
    let moved = moves().count() - lost - new - gone;
    let mut parts = Vec::new();
    match lost {
        0 => {}
        1 => parts.push("1 workload fits no NodePool".to_owned()),
        _ => parts.push(format!("{lost} workloads fit no NodePool")),
    }
    if moved > 0 {
        parts.push(format!("pods of {} go elsewhere", count(moved, "workload")));
    }
    if new > 0 {
        parts.push(count(new, "new workload"));
    }
    match gone {
        0 => {}
        1 => parts.push("1 workload is gone".to_owned()),
        _ => parts.push(format!("{gone} workloads are gone")),
    }
    parts
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
    if report.sets.iter().any(|set| set.plan.money.is_some()) {
        let prices = crate::report::answer::price_note(report.region.as_deref());
        notes.push(format!("Dollars: an hour, with the fewest to the most replicas. {prices}"));
    }
    notes
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
