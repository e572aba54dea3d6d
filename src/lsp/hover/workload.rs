//! A workload: the NodePools that its pods fit, in the words of `gpulint why`, and its autoscalers.

use gpulint_rules::cluster::views::scale_target;
use gpulint_rules::fit::{
    Answer, Explanation, FitVerdict, Obstacle, PoolReport, Room, Situation, uncertainty_text,
};
use gpulint_rules::karpenter::pod::to_scheduling_pod;
use gpulint_rules::karpenter::scheduling::pod_requests;
use gpulint_rules::workload::gpu::is_accelerator;
use gpulint_rules::workload::template::{Template, templates, workload_kind};
use gpulint_rules::{Kind, Object};

use super::catalogue::of_types;
use super::words::{code, count, more, name, names, sentence, written_at};
use super::{InSet, Place, in_sets};
use crate::lsp::view::View;
use crate::report::request_list;

/// Maximum number of rejecting pools to examine closely.
const MAX_MISSES: usize = 4;
/// Maximum number of rejecting pools to describe.
const MAX_TOLD: usize = 2;
/// Maximum number of other admitting pools to name.
const MAX_POOLS: usize = 4;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    match place.path().as_slice() {
        ["metadata", "name"] | ["kind"] => of_workload(view, place.object)
            .or_else(|| of_target(view, place.object))
            .or_else(|| of_selected(view, place.object)),
        ["spec", "selector", ..] => of_selected(view, place.object),
        ["spec", "scaleTargetRef"] | ["spec", "scaleTargetRef", _] => of_target(view, place.object),
        _ => None,
    }
}

fn of_workload(view: &View<'_>, workload: &Object) -> Option<String> {
    if workload.is_partial() || templates(workload).is_empty() {
        return None;
    }
    let text = in_sets(view, workload, |set| explained(set, workload))?;
    Some(text)
}

/// A short form of the answer of `gpulint why`.
fn explained(set: &InSet<'_>, written: &Object) -> Option<String> {
    if !set.set.cluster.has_any(Kind::NODE_POOL) {
        return None;
    }
    let situation = Situation::read(set.set.cluster, set.platform, Some(set.object));
    let explanations = situation.explain_nearest(set.object, MAX_MISSES);
    let several = explanations.len() > 1;
    let room = situation.rooms_of(&[set.object]).pop().flatten();
    let total = situation.pool_names().count();
    let parts: Vec<String> = explanations
        .iter()
        .map(|explanation| {
            let which =
                if several { format!(", {}", code(&explanation.spec.field_path())) } else { String::new() };
            let head = format!("**{} {}**{which}", written.id().kind, code(&full_name(set.object)));
            of_template(&head, explanation, set, room.as_ref(), total)
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n\n---\n\n"))
}

fn of_template(head: &str, pod: &Explanation, set: &InSet<'_>, room: Option<&Room>, total: usize) -> String {
    let pool = |report: &PoolReport| code(&report.object.display_name());
    let verdict = match (pod.verdict, pod.first_pool()) {
        (FitVerdict::Fits, Some(first)) => format!("goes to NodePool {}", pool(first)),
        (FitVerdict::Fits, None) => "fits".to_owned(),
        (FitVerdict::DoesNotFit, _) if pod.ignored.is_some() => "gets no node from Karpenter".to_owned(),
        (FitVerdict::DoesNotFit, _) => match total {
            1 => "does not fit the only NodePool".to_owned(),
            total => format!("fits none of the {total} NodePools"),
        },
        (FitVerdict::Unknown, _) => "may or may not fit: that is not known".to_owned(),
    };
    let mut lines = Vec::new();
    let needs = request_list(&pod.requests);
    if !needs.is_empty() {
        lines.push(format!("a pod needs {}", needs.join(", ")));
    }
    lines.extend(pod.ignored.as_ref().map(|ignored| ignored.text.clone()));
    match pod.first_pool() {
        Some(first) => lines.extend(of_first(first, pod, set)),
        None if pod.ignored.is_none() => lines.extend(of_misses(pod)),
        None => {}
    }
    lines.extend(pod.uncertainties.iter().map(|doubt| format!("note: {}", uncertainty_text(doubt))));
    lines.extend(room.and_then(|room| of_room(room, set)));
    let mut out = format!("{head} {verdict}.\n");
    for line in lines {
        out.push_str(&format!("\n- {line}"));
    }
    out
}

/// Describes the pool that the pods go to, and the others that admit them.
fn of_first(first: &PoolReport, pod: &Explanation, set: &InSet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Answer::Admits { types, capacity_types, relaxations } = &first.answer {
        let given_up = match relaxations {
            0 => "",
            _ => ", once alternatives and preferences are given up",
        };
        lines.push(format!(
            "on {}, {}{given_up}: {}",
            count(types.len(), "type"),
            capacity_types.join(" then "),
            of_types(types, set.platform)
        ));
    }
    let others: Vec<String> = pod
        .nearest()
        .into_iter()
        .map(|at| &pod.pools[at])
        .filter(|report| {
            matches!(report.answer, Answer::Admits { .. }) && !report.object.is_same_manifest(&first.object)
        })
        .map(|report| code(&report.object.display_name()))
        .collect();
    if !others.is_empty() {
        let hidden = others.len().saturating_sub(MAX_POOLS);
        let shown = others.into_iter().take(MAX_POOLS).collect();
        lines.push(format!("fits as well: {}", more(shown, hidden)));
    }
    lines
}

/// Describes the obstacles in the pools that come nearest to admitting the pods, and how to remove them.
fn of_misses(pod: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, report) in pod.nearest().into_iter().map(|at| &pod.pools[at]).take(MAX_TOLD).enumerate() {
        let pool = code(&report.object.display_name());
        match &report.answer {
            Answer::Admits { .. } => lines.push(format!("{pool} admits it")),
            Answer::Undecided(doubts) => {
                let texts: Vec<String> = doubts.iter().map(uncertainty_text).collect();
                lines.push(format!("{pool}: {}", texts.join("; ")));
            }
            Answer::Rejects { obstacles, .. } => {
                let text = |obstacle: &Obstacle| match number {
                    0 => with_changes(obstacle),
                    _ => obstacle.reason.clone(),
                };
                let texts: Vec<String> = obstacles.iter().map(text).collect();
                lines.push(format!("{pool}: {}", texts.join("; ")));
            }
        }
    }
    lines
}

fn with_changes(obstacle: &Obstacle) -> String {
    let changes: Vec<&str> = obstacle.changes.iter().take(2).map(|change| change.text.as_str()).collect();
    match changes.as_slice() {
        [] => obstacle.reason.clone(),
        changes => format!("{} (**fix:** {})", obstacle.reason, changes.join(", or ")),
    }
}

/// The number of pods that fit the limits of the pools.
fn of_room(room: &Room, set: &InSet<'_>) -> Option<String> {
    let pools: Vec<String> = room.pools.iter().map(|pool| code(&pool.display_name())).collect();
    let hidden = pools.len().saturating_sub(MAX_POOLS);
    let shown = pools.into_iter().take(MAX_POOLS).collect();
    let whose = if room.pools.len() == 1 { "NodePool" } else { "NodePools" };
    let replicas = set.set.cluster.views().replicas(set.object);
    let too_few = replicas.is_some_and(|replicas| i128::from(replicas.max) > room.pods);
    let text =
        format!("the limits of {whose} {} have room for {} of its pods", more(shown, hidden), room.pods);
    // With many pools the sum alone is not useful.
    let is_short = room.pools.len() <= MAX_POOLS;
    if too_few { Some(format!("**{text}**")) } else { is_short.then_some(text) }
}

fn full_name(object: &Object) -> String {
    let namespace = object.id().namespace().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{namespace}{}", object.display_name())
}

/// The workloads whose pods a PodDisruptionBudget selects.
fn of_selected(view: &View<'_>, budget: &Object) -> Option<String> {
    if !budget.is(Kind::PDB) || budget.is_partial() {
        return None;
    }
    in_sets(view, budget, |set| {
        let (found, has_others) = set.set.cluster.views().selected_by(set.object);
        if found.is_empty() {
            return None;
        }
        let number = count(found.len(), "workload");
        let list = names(found.iter().map(|workload| &workload.object), MAX_POOLS);
        let others = if has_others { "; of others it is not known" } else { "" };
        Some(format!("Selects the pods of {number}: {list}{others}."))
    })
}

fn of_target(view: &View<'_>, scaler: &Object) -> Option<String> {
    if !scaler.is(Kind::HPA) && !scaler.is(Kind::SCALED_OBJECT) {
        return None;
    }
    let reference = scaler.path(&["spec", "scaleTargetRef"]);
    if reference.has_unknown() {
        return None;
    }
    in_sets(view, scaler, |set| {
        let (namespace, kind, target) = scale_target(set.object)?;
        let (group, kind) = kind.split_once('/')?;
        match set.set.cluster.all(group, kind, &namespace, &target) {
            [] => {
                let end =
                    if set.set.cluster.is_complete() { "does not exist" } else { "is not in the input" };
                Some(format!("{} {} {end}.", code(kind), code(&format!("{namespace}/{target}"))))
            }
            [one] => Some(of_scaled(set, one)),
            several => {
                Some(format!("{} of the input are {}.", count(several.len(), "object"), name(&several[0])))
            }
        }
    })
}

fn of_scaled(set: &InSet<'_>, target: &Object) -> String {
    let head = format!("{} {}{}\n", target.id().kind, code(&full_name(target)), written_at(target));
    let mut lines = Vec::new();
    let replicas = set.set.cluster.views().replicas(target);
    if let Some(replicas) = replicas {
        lines.push(if replicas.floor == replicas.max {
            count(usize::try_from(replicas.max).unwrap_or(0), "replica")
        } else {
            format!("{} to {} replicas", replicas.floor, replicas.max)
        });
    }
    if workload_kind(target).is_some()
        && let [template] = templates(target).as_slice()
        && let Some(needs) = needs(template)
    {
        lines.push(format!("a pod needs {}", needs.text));
        if let (Some((resource, each)), Some(replicas)) = (needs.accelerator, replicas)
            && replicas.max > 0
        {
            let most = each * i128::from(replicas.max);
            lines.push(format!("at most {most} {resource} for all replicas"));
        }
    }
    let mut out = sentence(&head);
    for line in lines {
        out.push_str(&format!("\n- {line}"));
    }
    out.trim_end().to_owned()
}

/// The requests of a pod.
struct Needs {
    text: String,
    /// The accelerator with its number, if the number is whole.
    accelerator: Option<(String, i128)>,
}

fn needs(template: &Template<'_>) -> Option<Needs> {
    let requests = pod_requests(&to_scheduling_pod(template)?);
    let list = request_list(&requests);
    let accelerators: Vec<(String, i128)> = requests
        .iter()
        .filter(|(name, milli)| is_accelerator(name) && **milli >= 1000)
        .map(|(name, milli)| (name.clone(), milli / 1000))
        .collect();
    let accelerator = match accelerators.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    (!list.is_empty()).then(|| Needs { text: list.join(", "), accelerator })
}
