//! Taints with the workloads that tolerate them, and tolerations with the NodePools whose taints they match.

use gpulint_rules::fit::audience_of;
use gpulint_rules::karpenter::meaning;
use gpulint_rules::karpenter::nodepool::{NodePool, taint};
use gpulint_rules::karpenter::pod::{to_scheduling_pod, toleration};
use gpulint_rules::karpenter::scheduling::{SchedulerOptions, Taint, effective_tolerations, tolerates};
use gpulint_rules::workload::gpu::is_extended;
use gpulint_rules::workload::template::templates;
use gpulint_rules::{Kind, Node, Object};

use super::words::{code, count, more, names};
use super::{InSet, Place, in_sets};
use crate::lsp::view::View;

/// Maximum number of workloads and pools to name.
const MAX_NAMES: usize = 5;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let path = place.path();
    let (list, item) = match path.as_slice() {
        [.., list, _, "key" | "value" | "effect" | "operator" | "tolerationSeconds"] => {
            (*list, place.ancestor(path.len() - 1))
        }
        _ => return None,
    };
    if item.has_unknown() {
        return None;
    }
    let is_pool = place.object.is(Kind::NODE_POOL) || place.object.is(Kind::NODE_CLAIM);
    match list {
        "taints" if is_pool => of_taint(view, place, &item),
        "startupTaints" if is_pool => Some(format!(
            "Startup taint {}: something on the node removes it once the node is ready. Karpenter expects that, and pods need not \
             tolerate it.",
            code(&written(&taint(&item)))
        )),
        "tolerations" => of_toleration(view, place, &item),
        _ => None,
    }
}

fn of_taint(view: &View<'_>, place: &Place<'_>, item: &Node<'_>) -> Option<String> {
    let taint = taint(item);
    let meaning = meaning::of_taint_effect(&taint.effect)?;
    let head = format!("Taint {}: {meaning}.", code(&written(&taint)));
    let lists = in_sets(view, place.object, |set| audience(set, &taint));
    Some(lists.map_or(head.clone(), |lists| format!("{head}\n\n{lists}")))
}

fn audience(set: &InSet<'_>, taint: &Taint) -> Option<String> {
    let eks = set.platform.eks;
    let audience = audience_of(set.set.cluster, set.object, taint, eks);
    let mut lines = Vec::new();
    match audience.tolerate.as_slice() {
        [] if audience.unknown == 0 && audience.others + audience.kept_out.len() == 0 => return None,
        [] if audience.unknown == 0 => lines.push("no workload tolerates it".to_owned()),
        [] => {}
        list => {
            let verb = if list.len() == 1 { "tolerates" } else { "tolerate" };
            lines.push(format!(
                "{} {verb} it: {}",
                count(list.len(), "workload"),
                names(list.iter(), MAX_NAMES)
            ));
        }
    }
    if !audience.kept_out.is_empty() {
        let list = audience.kept_out;
        let verbs = if list.len() == 1 { ("requests", "does") } else { ("request", "do") };
        let number = count(list.len(), "workload");
        let text = format!("{number} {} accelerators and {} not tolerate it", verbs.0, verbs.1);
        lines.push(format!("{text}: {}", names(list.iter(), MAX_NAMES)));
    }
    if audience.unknown > 0 {
        let verb = if audience.unknown == 1 { "tolerates" } else { "tolerate" };
        lines.push(format!("whether {} {verb} it is not known", count(audience.unknown, "workload")));
    }
    if eks && taint.effect == "NoSchedule" && is_extended(&taint.key) {
        lines.push(format!(
            "on EKS the API server adds the toleration to pods that request {}",
            code(&taint.key)
        ));
    }
    Some(lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n"))
}

fn of_toleration(view: &View<'_>, place: &Place<'_>, item: &Node<'_>) -> Option<String> {
    let is_workload = templates(place.object).iter().any(|template| {
        let own = template.spec.pointer();
        place.steps.starts_with(own.steps())
    });
    if !is_workload {
        return None;
    }
    let toleration = toleration(item);
    let key = if toleration.key.is_empty() { "every key".to_owned() } else { code(&toleration.key) };
    let value = match toleration.operator.as_str() {
        "Exists" if toleration.key.is_empty() => String::new(),
        "Exists" => " with any value".to_owned(),
        "" | "Equal" => format!(" with the value {}", quoted(&toleration.value)),
        "Gt" => format!(" with a value above {}", quoted(&toleration.value)),
        "Lt" => format!(" with a value below {}", quoted(&toleration.value)),
        _ => return None,
    };
    let effect = match toleration.effect.as_str() {
        "" => "any effect".to_owned(),
        effect => format!("the effect {}", code(effect)),
    };
    let mut head = format!("Tolerates taints of {key}{value} and {effect}.");
    if let Some(seconds) = item.get("tolerationSeconds").int() {
        head.push_str(&format!(" The pods stay for {seconds} seconds after such a taint was added."));
    }
    let lists = in_sets(view, place.object, |set| {
        let mut matched = Vec::new();
        let mut blocked = Vec::new();
        let own = own_tolerations(set, &place.steps);
        let cluster = set.set.cluster;
        let pools =
            cluster.of(Kind::NODE_POOL).filter(|pool| !pool.is_partial() && cluster.pairs(set.object, pool));
        for object in pools {
            let Some(pool) = NodePool::new(object) else { continue };
            let taints = pool.taints();
            if !taints.iter().any(|taint| tolerates(&toleration, taint)) {
                continue;
            }
            let name = code(&object.display_name());
            let strict = |taint: &&Taint| taint.effect != "PreferNoSchedule";
            let rest = own.as_ref().and_then(|own| {
                taints.iter().filter(strict).find(|taint| !own.iter().any(|one| tolerates(one, taint)))
            });
            match rest {
                Some(taint) => blocked.push(format!("{name} ({})", code(&written(taint)))),
                None => matched.push(name),
            }
        }
        if matched.is_empty() && blocked.is_empty() {
            let is_known = cluster.of(Kind::NODE_POOL).any(|pool| cluster.pairs(set.object, pool));
            return is_known.then(|| "- no NodePool has such a taint".to_owned());
        }
        let mut lines = Vec::new();
        if !matched.is_empty() {
            lines.push(format!("- NodePools with such a taint: {}", cut(matched)));
        }
        if !blocked.is_empty() {
            lines.push(format!(
                "- NodePools with another taint that the pods do not tolerate: {}",
                cut(blocked)
            ));
        }
        Some(lines.join("\n"))
    });
    Some(lists.map_or(head.clone(), |lists| format!("{head}\n\n{lists}")))
}

/// The tolerations of the pod template around a place. `None` if they are not known.
fn own_tolerations(
    set: &InSet<'_>,
    steps: &[String],
) -> Option<Vec<gpulint_rules::karpenter::scheduling::Toleration>> {
    let object: &Object = set.object;
    let templates = templates(object);
    let template = templates.iter().find(|template| steps.starts_with(template.spec.pointer().steps()))?;
    let options = SchedulerOptions { eks: set.platform.eks, ..SchedulerOptions::default() };
    Some(effective_tolerations(&to_scheduling_pod(template)?, &options))
}

fn cut(mut names: Vec<String>) -> String {
    let others = names.len().saturating_sub(MAX_NAMES);
    if others > 1 {
        names.truncate(MAX_NAMES);
        return more(names, others);
    }
    more(names, 0)
}

fn quoted(value: &str) -> String {
    if value.is_empty() { "`\"\"`".to_owned() } else { code(value) }
}

/// A taint in the syntax of kubectl.
fn written(taint: &Taint) -> String {
    match (taint.value.as_str(), taint.effect.as_str()) {
        ("", "") => taint.key.clone(),
        ("", effect) => format!("{}:{effect}", taint.key),
        (value, effect) => format!("{}={value}:{effect}", taint.key),
    }
}
