//! The words of a plan, with names in backticks.

use std::collections::BTreeMap;

use gpulint_rules::Object;
use gpulint_rules::fit::{FitVerdict, Offer, uncertainty_text};
use gpulint_rules::karpenter::budget::{Cell, Week};
use gpulint_rules::karpenter::drift::{Departure, Drift};
use gpulint_rules::plan::{
    Bill, BudgetText, ClassPlan, Edit, Effect, Fate, Landing, MoneyCause, Move, NodeCount, PodCount,
    PoolPlan, Range, Resized, Rollout, Turn, shown_name,
};

use crate::report::answer::{dollars, workload_name};
use crate::report::pools::blocked_words;
use crate::terminal::count;

/// What nodes that drift do within the budgets.
const REPLACED: &str = "are replaced";
/// Maximum number of fields, types or names in a sentence.
const MAX_NAMES: usize = 3;
/// Number of types of a family from which on only the family is named.
const MANY_TYPES: usize = 3;

/// `a`, `b` and 3 more.
pub(super) fn names(all: &[String]) -> String {
    let quoted: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
    listed(&quoted)
}

/// The text with an upper case letter at its beginning, and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// a, b and 3 more.
fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        several if several.len() > MAX_NAMES => {
            format!("{} and {} more", several[..MAX_NAMES].join(", "), several.len() - MAX_NAMES)
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn fields(edits: &[&Edit]) -> String {
    names(&edits.iter().map(|edit| edit.field.clone()).collect::<Vec<_>>())
}

/// The object of an edit after its field, if that is not the NodePool itself.
fn owner(edit: &Edit) -> String {
    match edit.object.id().kind.as_str() {
        "NodePool" | "Provisioner" => String::new(),
        kind => format!(" of {kind} `{}`", shown_name(&edit.object)),
    }
}

/// `field`: before -> after. The object of the field is named if it is not the one that is told of.
pub(super) fn edit(edit: &Edit, told: &Object) -> String {
    let object = if edit.object.is_same_resource(told) { String::new() } else { owner(edit) };
    let values = match (&edit.before, &edit.after) {
        (Some(before), Some(after)) => format!("{before} -> {after}"),
        (None, Some(after)) => format!("added, {after}"),
        (Some(before), None) => format!("removed, was {before}"),
        (None, None) => String::new(),
    };
    format!("`{}`{object}: {values}", edit.field)
}

/// What becomes of the nodes of a pool.
pub(crate) fn fate(pool: &PoolPlan) -> String {
    match pool.fate {
        Fate::Removed => {
            "is gone: where it is deleted, Karpenter drains its nodes at once, whatever the budgets say"
                .to_owned()
        }
        Fate::Added => "is new".to_owned(),
        fate if stays(pool) => of_edits(fate, &pool.edits, "drift and stay"),
        fate => of_edits(fate, &pool.edits, REPLACED),
    }
}

/// Whether the nodes of a pool drift, and Karpenter replaces none of them.
pub(super) fn stays(pool: &PoolPlan) -> bool {
    matches!(pool.fate, Fate::All | Fate::Some) && pool.rollout.as_ref().is_some_and(|rollout| rollout.never)
}

/// What becomes of nodes of a class or Provisioner, or by an overlay.
pub(crate) fn class_fate(class: &ClassPlan) -> String {
    match (class.object.id().kind.as_str(), class.fate) {
        ("EC2NodeClass", Fate::None) if class.is_for_new_nodes => {
            let edits: Vec<&Edit> = class.edits.iter().collect();
            format!("changes only new nodes, by {}", fields(&edits))
        }
        ("EC2NodeClass", fate) => {
            let of = if fate == Fate::Refused { "" } else { "of those that do, " };
            format!("no NodePool here uses it; {of}{}", of_edits(fate, &class.edits, REPLACED))
        }
        ("Provisioner", Fate::Added) => "is new".to_owned(),
        ("Provisioner", Fate::Removed) => "is gone: where it is deleted, its nodes are drained".to_owned(),
        ("Provisioner", _) => of_old_api(&class.edits),
        ("AWSNodeTemplate", _) => format!("of the Provisioners that use it, {}", of_old_api(&class.edits)),
        (_, Fate::Added) => "is new: it counts for new nodes".to_owned(),
        _ if class.edits.is_empty() => "is gone: nodes that run keep what they have".to_owned(),
        _ => {
            let edits: Vec<&Edit> = class.edits.iter().collect();
            format!("changes only what Karpenter expects of new nodes, by {}", fields(&edits))
        }
    }
}

/// What edits do to the nodes of a Provisioner: before 0.33 a feature gate decides whether nodes that drift are replaced.
fn of_old_api(edits: &[Edit]) -> String {
    let fate = Fate::of(edits);
    let text = of_edits(fate, edits, "drift");
    match fate {
        Fate::All | Fate::Some | Fate::Unknown => {
            format!("{text}; Karpenter replaces them only with `featureGates.driftEnabled`")
        }
        _ => text,
    }
}

/// What the edits of a class do to the nodes of the NodePools with these names.
pub(crate) fn used_class_fate(class: &ClassPlan, pools: &[String]) -> String {
    let noun = if pools.len() == 1 { "NodePool" } else { "NodePools" };
    format!("{noun} {}: {}", names(pools), of_edits(class.fate, &class.edits, REPLACED))
}

/// What edits do to nodes; `drifted` is what those do that drift.
fn of_edits(fate: Fate, edits: &[Edit], drifted: &str) -> String {
    let with =
        |effect: fn(&Effect) -> bool| edits.iter().filter(|edit| effect(&edit.effect)).collect::<Vec<_>>();
    let taken = with(|effect| !effect.is_refused());
    let refused = with(|effect| *effect == Effect::Refused);
    let rejected = refused
        .first()
        .map(|first| format!("the API server rejects the edit of {}{}", fields(&refused), owner(first)));
    let text = match fate {
        Fate::All => {
            let hashed = with(|effect| *effect == Effect::Replaces);
            let departs = with(|effect| matches!(effect, Effect::Departs(_)));
            let hidden = with(|effect| *effect == Effect::Unknown);
            match () {
                () if !hashed.is_empty() => format!("all nodes {drifted}, by {}", fields(&hashed)),
                () if departs.is_empty() && !hidden.is_empty() => {
                    format!("all nodes {drifted}, by {}", fields(&hidden))
                }
                () => format!("all nodes {drifted}: {}", departing(edits)),
            }
        }
        Fate::Some => format!("some nodes {drifted}: {}", departing(edits)),
        Fate::Unknown if edits.is_empty() => {
            format!(
                "whether nodes {drifted} is not known: it has another API version, and what it becomes is not certain"
            )
        }
        Fate::Unknown => {
            let hidden = with(|effect| *effect == Effect::Unknown);
            let selected = with(|effect| *effect == Effect::Selects);
            if hidden.is_empty() {
                let select = if selected.len() == 1 { "selects" } else { "select" };
                format!("nodes {drifted} if {} {select} something else in EC2", fields(&selected))
            } else {
                format!("whether nodes {drifted} is not known: a placeholder hides {}", fields(&hidden))
            }
        }
        Fate::Refused => return rejected.unwrap_or_default(),
        Fate::None | Fate::Removed | Fate::Added => match taken.iter().find_map(|edit| later(edit)) {
            Some(text) => format!("no node drifts, but {text}, by {}", fields(&taken)),
            None => format!("no node is replaced, by {}", fields(&taken)),
        },
    };
    rejected.map_or_else(|| text.clone(), |rejected| format!("{text}; {rejected}"))
}

/// What an edit does to nodes that do not drift. The age at which nodes expire is no part of the hash before `v1`, so that it
/// holds for nodes that run.
fn later(edit: &Edit) -> Option<String> {
    const DEFAULT: &str = "WhenEmptyOrUnderutilized";
    let empties = |policy: &Option<String>| policy.as_deref().unwrap_or(DEFAULT).contains("Underutilized");
    let empties_now = || Some("Karpenter empties nodes that are not full from now on".to_owned());
    match edit.field.as_str() {
        "spec.disruption.consolidationPolicy" if empties(&edit.after) && !empties(&edit.before) => {
            empties_now()
        }
        "spec.consolidation.enabled" if edit.after.as_deref() == Some("true") => empties_now(),
        "spec.disruption.expireAfter" => {
            let age = edit.after.as_deref().filter(|age| *age != "Never")?;
            Some(format!("nodes older than {age} are replaced within the budgets"))
        }
        "spec.ttlSecondsUntilExpired" => {
            let seconds: i64 = edit.after.as_deref()?.parse().ok()?;
            Some(format!("nodes older than {} are replaced", minutes(seconds / 60, false)))
        }
        _ => None,
    }
}

/// The nodes that leave by their types and labels.
fn departing(edits: &[Edit]) -> String {
    let mut all: Vec<&Departure> = Vec::new();
    for edit in edits {
        if let Effect::Departs(left) = &edit.effect {
            all.extend(left.iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
        }
    }
    let texts: Vec<String> = all.iter().map(|left| departure(left)).collect();
    if texts.is_empty() { "those that no longer meet the requirements".to_owned() } else { texts.join("; ") }
}

fn departure(left: &Departure) -> String {
    match &left.key {
        None => format!("those of {}", types(&left.types)),
        Some(key) if !left.values.is_empty() => format!("those whose `{key}` is {}", names(&left.values)),
        Some(key) if left.drift == Drift::All => format!("none has the `{key}` that is asked for now"),
        Some(key) => format!("those whose `{key}` is no longer admitted"),
    }
}

/// Instance types; of many of a family only the family.
pub(super) fn types(all: &[&'static str]) -> String {
    let mut families: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in all {
        families.entry(name.split('.').next().unwrap_or(name)).or_default().push(name);
    }
    let mut named: Vec<String> = Vec::new();
    for (family, types) in families {
        if types.len() >= MANY_TYPES {
            named.push(format!("{family} ({})", count(types.len(), "type")));
        } else {
            named.extend(types.iter().map(|name| (*name).to_owned()));
        }
    }
    listed(&named)
}

/// The nodes that a new pool starts, and what they cost at most; `None` if it starts none.
pub(super) fn offer(offer: &Offer) -> Option<String> {
    let first = offer.capacity_types.first().map_or_else(String::new, |first| format!(", `{first}` first"));
    let most = match offer.ceiling.micro_dollars {
        Some(micro) => format!("its limits allow ${:.2} an hour", dollars(micro)),
        None => "no limit bounds what they cost".to_owned(),
    };
    (!offer.types.is_empty()).then(|| format!("starts nodes of {}{first}; {most}", types(&offer.types)))
}

/// How the replacement goes on: nodes, how many at a time, when not, how long.
pub(super) fn rollout(pool: &PoolPlan, rollout: &Rollout) -> Option<String> {
    if pool.fate == Fate::Removed {
        return match pool.nodes {
            NodeCount::Unknown => None,
            nodes => Some(format!("{} at once", node_count(nodes))),
        };
    }
    if rollout.never && rollout.holders.iter().any(|held| held.is_stuck) {
        return None;
    }
    if rollout.never {
        return Some(format!(
            "never: the budgets ({}) allow no drifted node, so that nodes stay as they are until they expire",
            rollout.budgets.iter().map(budget).collect::<Vec<_>>().join(", ")
        ));
    }
    let is_one = matches!(pool.nodes, NodeCount::Stated(1) | NodeCount::Packed(_, 1));
    let mut text = match pool.nodes {
        NodeCount::Packed(_, most) if pool.fate == Fate::Some => {
            format!("up to {}", node_count(NodeCount::Stated(most)))
        }
        NodeCount::Stated(_) if pool.fate == Fate::Some => format!("up to {}", node_count(pool.nodes)),
        nodes => node_count(nodes),
    };
    let pace = match pool.nodes {
        NodeCount::Unknown => rollout.at_once.and_then(|_| pace(&rollout.budgets)),
        _ => (!is_one).then(|| at_once(rollout.at_once)),
    };
    text.extend(pace.map(|pace| format!(", {pace}")));
    if let Some(closed) = closed(rollout) {
        text.push_str(&format!(", {closed}"));
    }
    if let Some((least, most)) = rollout.minutes {
        text.push_str(&format!(": {}", span(least, most)));
    }
    // That there are nodes says nothing.
    (text != node_count(NodeCount::Unknown)).then_some(text)
}

/// When no node may be replaced: the hours of a week where these say all, otherwise the windows as they are written.
fn closed(rollout: &Rollout) -> Option<String> {
    let is_exact = |week: &&Week| week.hours.iter().flatten().all(|hour| !matches!(hour, Cell::PartlyClosed));
    let windows = || {
        let closed: Vec<String> = rollout.budgets.iter().filter(|one| is_closed(one)).map(window).collect();
        (!closed.is_empty()).then(|| format!("not {}", listed(&closed)))
    };
    rollout.week.as_ref().filter(is_exact).and_then(blocked_words).or_else(windows)
}

/// How many nodes at a time budgets without a schedule allow, where it is not known how many there are.
fn pace(budgets: &[BudgetText]) -> Option<String> {
    let always: Vec<String> = budgets
        .iter()
        .filter(|budget| budget.schedule.is_none())
        .map(|budget| budget.nodes.replace('%', " %"))
        .collect();
    match always.as_slice() {
        [] if budgets.is_empty() => Some("all at once".to_owned()),
        [] => None,
        [one] if one == "1" => Some("one at a time".to_owned()),
        [one] => Some(format!("{one} at a time")),
        several => Some(format!("at most {} at a time", listed(several))),
    }
}

fn is_closed(budget: &BudgetText) -> bool {
    budget.schedule.is_some() && matches!(budget.nodes.as_str(), "0" | "0%")
}

/// `in the 8h from `0 9 * * 1-5``.
fn window(budget: &BudgetText) -> String {
    let schedule = budget.schedule.as_deref().unwrap_or_default();
    format!("in the {} from `{schedule}` (UTC)", budget.duration.as_deref().unwrap_or("time"))
}

fn budget(budget: &BudgetText) -> String {
    match &budget.schedule {
        None => format!("`nodes: {}`", budget.nodes),
        Some(schedule) => format!("`nodes: {}` at `{schedule}`", budget.nodes),
    }
}

fn node_count(nodes: NodeCount) -> String {
    let plain = |nodes: u64| count(usize::try_from(nodes).unwrap_or(usize::MAX), "node");
    match nodes {
        NodeCount::Stated(nodes) => plain(nodes),
        NodeCount::Packed(least, most) if least == most => plain(most),
        NodeCount::Packed(least, most) => format!("{least} to {}", plain(most)),
        NodeCount::Unknown => "an unknown number of nodes".to_owned(),
    }
}

fn at_once(at_once: Option<(Option<u32>, Option<u32>)>) -> String {
    match at_once {
        Some((Some(1), Some(1))) => "one at a time".to_owned(),
        Some((Some(least), Some(most))) if least == most => format!("{most} at a time"),
        Some((Some(least), Some(most))) => format!("{least} to {most} at a time"),
        Some((Some(least), None)) => format!("at times {least}, at times all at once"),
        Some((None, _)) => "all at once".to_owned(),
        None => "at a pace that its budgets do not show".to_owned(),
    }
}

/// A time from the least to the most, in minutes; nothing bounds it without the most.
fn span(least: i64, most: Option<i64>) -> String {
    let least = minutes(least, false);
    match most.map(|most| minutes(most, true)) {
        None => format!("at least {least}"),
        Some(most) if most == least => format!("about {least}"),
        Some(most) => format!("{least} to {most}"),
    }
}

fn minutes(minutes: i64, up: bool) -> String {
    let whole = |unit: i64| if up { (minutes + unit - 1) / unit } else { minutes / unit };
    match minutes {
        ..120 => format!("{minutes} min"),
        120..2880 => format!("{} h", whole(60)),
        _ => format!("{} days", whole(1440)),
    }
}

/// What holds nodes.
pub(super) fn holders(rollout: &Rollout) -> Vec<String> {
    let limit = rollout.drain_limit.map_or_else(
        || "its nodes stay until the pods end".to_owned(),
        |seconds| {
            format!("its nodes stay for {} at most (`terminationGracePeriod`)", minutes(seconds / 60, true))
        },
    );
    let holder = |held: &gpulint_rules::plan::Holder| {
        let limit = if held.is_stuck { "its nodes stay until they expire" } else { limit.as_str() };
        format!("held by {}, {}: {limit}", workload_name(&held.workload), held.reason)
    };
    let mut all: Vec<String> = rollout.holders.iter().take(MAX_NAMES).map(holder).collect();
    if rollout.holders.len() > MAX_NAMES {
        all.push(format!("held by {} as well", count(rollout.holders.len() - MAX_NAMES, "more workload")));
    }
    all
}

/// Where the pods of a workload go now, and went before.
pub(super) fn movement(one: &Move) -> String {
    let pool = |landing: Option<&Landing>| {
        landing.and_then(|landing| landing.pool.as_ref()).map(|pool| format!("`{}`", pool.name()))
    };
    let (before, after) = (one.before.as_ref(), one.after.as_ref());
    let was = pool(before).map_or_else(String::new, |pool| format!(", was on {pool}"));
    let on = pool(after).map_or_else(String::new, |pool| format!(" on {pool}"));
    // That the first pool is another one says as well that the old one no longer admits the pods.
    let is_moved = one.turns.contains(&Turn::Pool);
    let others = |ours: Option<&Landing>, theirs: Option<&Landing>| {
        let first =
            ours.filter(|_| is_moved).and_then(|landing| Some(landing.pool.as_ref()?.name().to_owned()));
        let mut pools = only_in(ours, theirs);
        pools.retain(|pool| Some(pool) != first.as_ref());
        pools
    };
    let turn = |turn: &Turn| match turn {
        Turn::Lost => format!("fits nowhere{was}{}", why(after)),
        Turn::New if one.fits_nowhere() => format!("is new and fits nowhere{}", why(after)),
        Turn::New => match pool(after) {
            Some(pool) => format!("is new: lands on {pool}{}", capacity(after)),
            None => format!("is new: whether it fits is not known{}", doubts(after)),
        },
        Turn::Gone => format!("is gone{was}"),
        Turn::Uncertain => format!("may or may not fit{was}{}", doubts(after)),
        Turn::Certain => format!("fits{on}, which was not certain before"),
        Turn::Found => {
            let had_pools = before.is_some_and(|before| before.has_pools);
            let then = if had_pools { "which was on none before" } else { "and there was none before" };
            match pool(after) {
                Some(pool) => format!("fits on the NodePool {pool}, {then}"),
                None => format!("may fit on a NodePool, {then}{}", doubts(after)),
            }
        }
        Turn::CapacityType => format!("runs on {} first, was {}", first(after), first(before)),
        Turn::Pool => format!("lands on {} first{was}", pool(after).unwrap_or_default()),
        Turn::Architecture => {
            format!("may run on {}, was {}", architectures(after), architectures(before))
        }
        Turn::Loses => match others(before, after) {
            pools if pools.is_empty() => String::new(),
            pools => format!("no longer admitted by {}", names(&pools)),
        },
        Turn::Gains => match others(after, before) {
            pools if pools.is_empty() => String::new(),
            pools => format!("admitted by {} as well", names(&pools)),
        },
    };
    let texts: Vec<String> = one.turns.iter().map(turn).filter(|text| !text.is_empty()).collect();
    texts.join("; ")
}

fn only_in(one: Option<&Landing>, other: Option<&Landing>) -> Vec<String> {
    let of = |landing: Option<&Landing>| landing.map_or_else(Vec::new, |landing| landing.pools.clone());
    let other = of(other);
    of(one).into_iter().filter(|pool| !other.contains(pool)).collect()
}

fn first(landing: Option<&Landing>) -> String {
    let first = landing.and_then(|landing| landing.capacity_types.first());
    first.map_or_else(|| "no capacity type".to_owned(), |name| format!("`{name}`"))
}

fn capacity(landing: Option<&Landing>) -> String {
    let first = landing.and_then(|landing| landing.capacity_types.first());
    first.map_or_else(String::new, |name| format!(", `{name}` first"))
}

fn architectures(landing: Option<&Landing>) -> String {
    landing.map_or_else(String::new, |landing| landing.architectures.join(" and "))
}

/// The nearest pool, with its reasons and what would be enough to remove them.
fn why(landing: Option<&Landing>) -> String {
    let Some(landing) = landing else { return String::new() };
    if let Some(ignored) = &landing.ignored {
        return format!(": {}", ignored.text);
    }
    let Some((pool, obstacles)) = &landing.nearest else {
        return if landing.has_pools { String::new() } else { ": no NodePool is left".to_owned() };
    };
    let reasons: Vec<&str> = obstacles.iter().map(|obstacle| obstacle.reason.as_str()).collect();
    let changes = obstacles.iter().filter_map(|obstacle| obstacle.changes.first());
    let changes: Vec<&str> = changes.map(|change| change.text.as_str()).collect();
    let help = if changes.is_empty() { String::new() } else { format!("; help: {}", changes.join(", and ")) };
    format!(": nearest is `{}`, but {}{help}", pool.name(), reasons.join(", and "))
}

fn doubts(landing: Option<&Landing>) -> String {
    let doubts = landing.map_or(&[][..], |landing| landing.uncertainties.as_slice());
    doubts.first().map_or_else(String::new, |first| format!(": {}", uncertainty_text(first)))
}

/// The verdict of a side in JSON.
pub(super) fn verdict(landing: &Landing) -> &'static str {
    match landing.verdict {
        FitVerdict::Fits => "fits",
        FitVerdict::DoesNotFit => "does-not-fit",
        FitVerdict::Unknown => "unknown",
    }
}

fn range((least, most): Range) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

fn pods(pods: Range) -> String {
    if pods == (1, 1) { "1 pod".to_owned() } else { format!("{} pods", range(pods)) }
}

fn runs(before: Range, after: Range) -> String {
    format!("runs {}, was {}", pods(after), range(before))
}

/// How many pods a workload runs.
pub(super) fn resized(one: &Resized) -> String {
    match (one.before, one.after) {
        (PodCount::Known(before), PodCount::Known(after)) => runs(before, after),
        (PodCount::Absent, PodCount::Known(after)) => format!("is new: {}", pods(after)),
        (PodCount::Absent, _) => "is new".to_owned(),
        (PodCount::Known(before), _) => format!("is gone, was {}", pods(before)),
        _ => "is gone".to_owned(),
    }
}

/// Why a pool costs something else.
pub(super) fn cause(cause: &MoneyCause) -> String {
    let from = |pool: &Option<String>| match pool {
        Some(pool) => format!(" from `{pool}`"),
        None => String::new(),
    };
    let to = |pool: &Option<String>| match pool {
        Some(pool) => format!(" to `{pool}`"),
        None => ": it fits nowhere".to_owned(),
    };
    match cause {
        MoneyCause::Replicas { workload, before, after } => {
            format!("{} {}", workload_name(workload), runs(*before, *after))
        }
        MoneyCause::Types { before, after } => format!("nodes are {}, were {}", types(after), types(before)),
        MoneyCause::Arrives { workload, from: pool } => {
            format!("{} comes{}", workload_name(workload), from(pool))
        }
        MoneyCause::Leaves { workload, to: pool } => format!("{} goes{}", workload_name(workload), to(pool)),
        MoneyCause::NewWorkload(workload) => format!("{} is new", workload_name(workload)),
        MoneyCause::GoneWorkload(workload) => format!("{} is gone", workload_name(workload)),
        MoneyCause::Requests(workload) => format!("{} asks for something else", workload_name(workload)),
        MoneyCause::Nodes { before, after } => {
            format!("the NodePool keeps {}, was {before}", node_count(NodeCount::Stated(*after)))
        }
        MoneyCause::NewPool => "the NodePool is new".to_owned(),
        MoneyCause::GonePool => "the NodePool is gone".to_owned(),
        MoneyCause::Limits { before, after } => match (before, after) {
            (Bill::Micro(before), Bill::Micro(after)) => {
                format!("its limits allow ${:.2} an hour, was ${:.2}", dollars(*after), dollars(*before))
            }
            (_, Bill::Micro(after)) => {
                format!("its limits allow ${:.2} an hour, which had no bound", dollars(*after))
            }
            _ => "no limit bounds its cost any more".to_owned(),
        },
    }
}

/// Dollars an hour with the fewest and the most replicas.
pub(super) fn cost(floor: Option<i128>, ceiling: Option<i128>) -> String {
    let one =
        |micro: Option<i128>| micro.map_or_else(|| "?".to_owned(), |micro| format!("{:.2}", dollars(micro)));
    let (least, most) = (one(floor), one(ceiling));
    if least == most { most } else { format!("{least} to {most}") }
}

/// The highest bill under the limits.
pub(super) fn bill(bill: Bill) -> String {
    match bill {
        Bill::Absent => "-".to_owned(),
        Bill::Unlimited => "no limit".to_owned(),
        Bill::Micro(micro) => format!("{:.2}", dollars(micro)),
    }
}
