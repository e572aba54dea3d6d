//! The output of `gpulint why`.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::catalog::{InstanceType, price_list};
use gpulint_rules::fit::{
    self, Change, Explanation, FitVerdict, Misfit, Obstacle, Place, PoolReport, Room, amount, gpu_name,
    gpus_of, uncertainty_text,
};
use gpulint_rules::karpenter::scheduling::ResourceList;
use gpulint_rules::{Object, Platform, Pointer};
use serde_json::{Value, json};

use crate::args::ExplainFormat;
use crate::error::CliError;
use crate::terminal::{RenderOptions, count, printable};

use super::answer::{number, place_of, uncertainty_json, wrapped};
use super::place::position;

pub(crate) const SCHEMA: &str = include_str!("why.schema.json");

/// Maximum number of instance types in the text.
const MAX_TYPES: usize = 8;
/// Minimum number of columns for the reason beside the name of a pool.
const MIN_WHY: usize = 20;

/// The answer of where the pods of a workload go.
pub(crate) struct WhyAnswer<'a> {
    /// For each set that applies the workload and each pod template; at least one.
    pub(crate) pods: Vec<WhyPod>,
    /// How many of its pods the limits of the NodePool have room for, and how many there may be, where they have not room for
    /// all.
    pub(crate) room: Option<(Room, i64)>,
    /// The pods that wait while the nodes of static pools are full.
    pub(crate) waiting: Option<Misfit>,
    pub(crate) platform: &'a Platform,
    /// Whether objects that are not in the input do not exist.
    pub(crate) complete: bool,
}

/// Where the pods of a template go in a set.
pub(crate) struct WhyPod {
    /// The name of the set; `None` if the whole input is one.
    pub(crate) set: Option<Arc<str>>,
    /// The workload as it is written, or as it was rendered for the set.
    pub(crate) workload: Object,
    pub(crate) pod: Explanation,
}

impl WhyAnswer<'_> {
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        format: ExplainFormat,
        options: RenderOptions,
    ) -> Result<(), CliError> {
        match format {
            ExplainFormat::Text => text(out, self, options),
            ExplainFormat::Json => json(out, self),
        }
    }
}

/// Writes the answer as JSON, version 1.
fn json(out: &mut dyn Write, answer: &WhyAnswer<'_>) -> Result<(), CliError> {
    let region = answer.platform.region.as_deref();
    let workload = &answer.pods[0].workload;
    let id = workload.id();
    let (file, line) = place_of(workload, &Pointer::root());
    let report = json!({
        "version": 1,
        "tool": {"name": "gpulint", "version": env!("CARGO_PKG_VERSION")},
        "workload": {
            "apiVersion": id.api_version(), "kind": id.kind, "namespace": id.namespace(), "name": workload.name(),
            "file": file, "line": line,
        },
        "assumed": {
            "karpenter": answer.platform.karpenter.to_string(),
            "eks": answer.platform.eks,
            "region": region,
            "complete": answer.complete,
        },
        "prices": price_list(region).map(|(region, date)| json!({"region": region, "date": date})),
        "room": answer.room.as_ref().map(|(room, replicas)| json!({"pods": number(room.pods), "of": replicas})),
        "waiting": answer.waiting.as_ref().map(|misfit| json!({"pods": misfit.pods, "of": misfit.of, "reason": misfit.reason})),
        "pods": answer.pods.iter().map(|one| pod_json(one.set.as_deref(), &one.pod, region)).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)?;
    Ok(())
}

fn pod_json(set: Option<&str>, pod: &Explanation, region: Option<&str>) -> Value {
    let first = pod.first_pool();
    let (types, capacity): (&[&InstanceType], &[&str]) = match first.map(|pool| &pool.answer) {
        Some(fit::Answer::Admits { types, capacity_types, .. }) => (types, capacity_types),
        _ => (&[], &[]),
    };
    json!({
        "set": set,
        "pointer": pod.spec.to_string(),
        "verdict": pod.verdict.name(),
        "pool": first.map(|pool| pool.object.name()),
        "instanceTypes": types.iter().map(|t| type_json(t, region)).collect::<Vec<_>>(),
        "capacityTypes": capacity,
        "ignored": pod.ignored.as_ref().map(|ignored| json!({
            "code": ignored.code,
            "text": ignored.text,
            "place": ignored.place.as_ref().map(place_json),
        })),
        "uncertainties": pod.uncertainties.iter().map(uncertainty_json).collect::<Vec<_>>(),
        "requests": pod.requests.iter().map(|(name, milli)| (name.clone(), json!(amount(name, *milli)))).collect::<serde_json::Map<_, _>>(),
        "withinMemoryEstimate": pod.within_memory_estimate,
        "pools": pod.pools.iter().map(pool_json).collect::<Vec<_>>(),
        "nearest": pod.nearest().iter().map(|at| pod.pools[*at].object.name()).collect::<Vec<_>>(),
    })
}

fn type_json(instance: &InstanceType, region: Option<&str>) -> Value {
    json!({
        "name": instance.name,
        "price": instance.list_price(region).map(|price| price.dollars()),
        "cpu": instance.vcpu,
        "memoryMiB": instance.memory_mib,
        "gpu": gpu_name(instance),
        "gpus": gpus_of(instance),
        "gpuMemoryMiB": instance.gpu_memory_mib,
    })
}

fn pool_json(pool: &PoolReport) -> Value {
    let (file, line) = place_of(&pool.object, &Pointer::root());
    let empty = (Vec::new(), Vec::new());
    let (types, capacity) = match &pool.answer {
        fit::Answer::Admits { types, capacity_types, .. } => {
            (types.iter().map(|t| t.name).collect::<Vec<_>>(), capacity_types.clone())
        }
        _ => empty,
    };
    let obstacles: &[Obstacle] = match &pool.answer {
        fit::Answer::Rejects { obstacles, .. } => obstacles,
        _ => &[],
    };
    let doubts = match &pool.answer {
        fit::Answer::Undecided(doubts) => doubts.iter().map(uncertainty_json).collect(),
        _ => Vec::new(),
    };
    let relaxations = match &pool.answer {
        fit::Answer::Admits { relaxations, .. } => Some(*relaxations),
        _ => None,
    };
    json!({
        "name": pool.object.name(),
        "file": file,
        "line": line,
        "weight": pool.weight,
        "verdict": pool.verdict(),
        "stage": obstacles.first().map(|obstacle| obstacle.stage.name()),
        "reason": obstacles.first().map(|obstacle| &obstacle.reason),
        "obstacles": obstacles.iter().map(obstacle_json).collect::<Vec<_>>(),
        "changes": pool.distance(),
        "relaxations": relaxations,
        "instanceTypes": types,
        "capacityTypes": capacity,
        "uncertainties": doubts,
    })
}

fn obstacle_json(obstacle: &Obstacle) -> Value {
    json!({
        "stage": obstacle.stage.name(),
        "reason": obstacle.reason,
        "places": obstacle.places.iter().map(place_json).collect::<Vec<_>>(),
        "changes": obstacle.changes.iter().map(change_json).collect::<Vec<_>>(),
    })
}

fn place_json(place: &Place) -> Value {
    let (file, line) = place_of(&place.object, &place.pointer);
    json!({
        "file": file,
        "line": line,
        "kind": place.object.id().kind,
        "name": place.object.name(),
        "pointer": place.pointer.to_string(),
        "text": place.text,
    })
}

fn change_json(change: &Change) -> Value {
    let mut value = place_json(&change.place);
    value["text"] = json!(change.text);
    value["side"] = json!(change.side.name());
    value
}

fn text(out: &mut dyn Write, answer: &WhyAnswer<'_>, options: RenderOptions) -> Result<(), CliError> {
    let mut page = String::new();
    let several = answer.pods.iter().any(|one| one.pod.spec != answer.pods[0].pod.spec);
    for (number, WhyPod { set, workload, pod }) in answer.pods.iter().enumerate() {
        if number > 0 {
            page.push('\n');
        }
        let which = if several { format!(", {}", pod.spec.field_path()) } else { String::new() };
        let which = set.as_ref().map_or(which.clone(), |set| format!("{which} in {set}"));
        let verdict = match (pod.verdict, pod.first_pool()) {
            (FitVerdict::Fits, Some(pool)) if pool.object.path(&["spec", "replicas"]).is_set() => {
                format!("runs on the nodes of the static NodePool {}", pool.object.name())
            }
            (FitVerdict::Fits, Some(pool)) => format!("goes to the NodePool {}", pool.object.name()),
            (FitVerdict::Fits, None) => "fits".to_owned(),
            (FitVerdict::DoesNotFit, _) if pod.ignored.is_some() => "gets no node from Karpenter".to_owned(),
            (FitVerdict::DoesNotFit, _) => match pod.pools.as_slice() {
                [one] => format!("does not fit the NodePool {}", one.object.name()),
                _ => "fits no NodePool".to_owned(),
            },
            (FitVerdict::Unknown, _) => "may or may not fit".to_owned(),
        };
        let _ = writeln!(page, "{}{which} {verdict}", title(workload));
        explain(&mut page, pod, answer, options);
    }
    if let Some((room, replicas)) = &answer.room {
        let pools: Vec<&str> = room.pools.iter().map(Object::name).collect();
        let (pods, pools) = (room.pods, pools.join(", "));
        let text = format!(
            "the limits of {pools} have room for {pods} of its {replicas} pods (`gpulint pools --capacity`)"
        );
        page.push('\n');
        wrapped(&mut page, "  but ", &text, options.width);
    }
    if let Some(misfit) = &answer.waiting {
        let text = format!(
            "{} of {} wait: {}",
            misfit.pods,
            count(usize::try_from(misfit.of).unwrap_or(usize::MAX), "pod"),
            misfit.reason
        );
        page.push('\n');
        wrapped(&mut page, "  but ", &text, options.width);
    }
    out.write_all(printable(&page, true).as_bytes())?;
    Ok(())
}

/// The kind, namespace and name of a workload, and where it is written.
fn title(workload: &Object) -> String {
    let id = workload.id();
    let namespace = id.namespace().map_or(String::new(), |namespace| format!("{namespace}/"));
    let at = position(workload, &Pointer::root());
    let at = at.map_or(String::new(), |(file, line, _)| format!(" ({file}:{line})"));
    format!("{} {namespace}{}{at}", id.kind, workload.display_name())
}

/// The requests of a pod, such as `4 nvidia.com/gpu`.
pub(crate) fn request_list(requests: &ResourceList) -> Vec<String> {
    let requests = requests.iter().filter(|(name, milli)| *name != "pods" && **milli > 0);
    requests.map(|(name, milli)| format!("{} {name}", amount(name, *milli))).collect()
}

fn explain(page: &mut String, pod: &Explanation, answer: &WhyAnswer<'_>, options: RenderOptions) {
    let needs = request_list(&pod.requests);
    if !needs.is_empty() {
        wrapped(page, "  needs ", &needs.join(", "), options.width);
    }
    if let Some(ignored) = &pod.ignored {
        let at = ignored.place.as_ref().and_then(|place| position(&place.object, &place.pointer));
        let at = at.map_or(String::new(), |(file, line, _)| format!(" ({file}:{line})"));
        wrapped(page, "  ", &format!("{}{at}", ignored.text), options.width);
    }
    for doubt in &pod.uncertainties {
        wrapped(page, "  note: ", &uncertainty_text(doubt), options.width);
    }
    if !pod.pools.is_empty() {
        page.push('\n');
        table(page, pod, options.width);
    }
    match pod.first_pool() {
        Some(pool) => types(page, pool, answer.platform.region.as_deref(), options.width),
        None => nearest_miss(page, pod, options.width),
    }
}

fn table(page: &mut String, pod: &Explanation, width: usize) {
    let longest = pod.pools.iter().map(|pool| pool.object.name().chars().count()).max().unwrap_or(0);
    let name_width = longest.clamp(4, width.saturating_sub(MIN_WHY + 24).max(4));
    let _ = writeln!(page, "  {:name_width$}  WEIGHT  VERDICT     WHY", "POOL");
    for at in pod.nearest() {
        let pool = &pod.pools[at];
        let (verdict, why) = match &pool.answer {
            fit::Answer::Admits { types, capacity_types, relaxations } => {
                let verdict = if pod.first == Some(at) { "first" } else { "fits" };
                let mut why = format!("{}, {}", count(types.len(), "type"), capacity_types.join(" then "));
                if *relaxations > 0 {
                    why.push_str(", once alternatives and preferences before are given up");
                }
                (verdict.to_owned(), why)
            }
            fit::Answer::Undecided(doubts) => {
                let texts: Vec<String> = doubts.iter().map(uncertainty_text).collect();
                ("unknown".to_owned(), texts.join("; "))
            }
            fit::Answer::Rejects { obstacles, reachable } => {
                let verdict = match (*reachable, obstacles.len()) {
                    (true, 1) => "1 change".to_owned(),
                    (true, count) => format!("{count} changes"),
                    (false, _) => "no".to_owned(),
                };
                let reasons: Vec<&str> = obstacles.iter().map(|obstacle| obstacle.reason.as_str()).collect();
                (verdict, reasons.join("; "))
            }
        };
        let head = format!("  {:name_width$}  {:>6}  {verdict:10}  ", pool.object.name(), pool.weight);
        // What does not fit beside the columns is readable below them.
        if head.chars().count() + why.chars().count() <= width {
            let _ = writeln!(page, "{head}{why}");
        } else {
            let _ = writeln!(page, "{}", head.trim_end());
            wrapped(page, "      ", &why, width);
        }
    }
}

fn types(page: &mut String, pool: &PoolReport, region: Option<&str>, width: usize) {
    let fit::Answer::Admits { types, capacity_types, .. } = &pool.answer else { return };
    let _ = writeln!(page, "\n  instance types of {}, cheapest first:", pool.object.name());
    let _ = writeln!(page, "  {:20}  {:>10}  {:>5}  {:>10}  GPU", "TYPE", "$ AN HOUR", "CPU", "MEMORY");
    for instance in types.iter().take(MAX_TYPES) {
        let price =
            instance.list_price(region).map_or("-".to_owned(), |price| format!("{:.3}", price.dollars()));
        let memory = format!("{} GiB", f64::from(instance.memory_mib) / 1024.0);
        let gpu = gpu_name(instance).map_or(String::new(), |name| {
            let each = f64::from(instance.gpu_memory_mib) / 1024.0;
            let memory = if each > 0.0 { format!(", {each:.0} GiB each") } else { String::new() };
            format!("{} x {name}{memory}", gpus_of(instance))
        });
        let line = format!("  {:20}  {price:>10}  {:>5}  {memory:>10}  {gpu}", instance.name, instance.vcpu);
        let _ = writeln!(page, "{}", line.trim_end());
    }
    if types.len() > MAX_TYPES {
        let _ = writeln!(page, "  and {} more (--format json lists all)", types.len() - MAX_TYPES);
    }
    let mut note = match price_list(region) {
        Some((region, date)) => format!("on-demand list price of {region} on {date}"),
        None => "no list prices for this region".to_owned(),
    };
    if capacity_types.contains(&"spot") {
        note.push_str("; Spot prices are not known");
    }
    wrapped(page, "  ", &note, width);
}

fn nearest_miss(page: &mut String, pod: &Explanation, width: usize) {
    let nearest = pod.nearest().into_iter().map(|at| &pod.pools[at]);
    let Some((pool, obstacles)) = nearest
        .filter_map(|pool| match &pool.answer {
            fit::Answer::Rejects { obstacles, reachable: true } => Some((pool, obstacles)),
            _ => None,
        })
        .next()
    else {
        return;
    };
    let _ = writeln!(page, "\n  to fit {}:", pool.object.name());
    for obstacle in obstacles {
        wrapped(page, "  - ", &obstacle.reason, width);
        for (number, change) in obstacle.changes.iter().enumerate() {
            let at = position(&change.place.object, &change.place.pointer);
            let at = at.map_or(String::new(), |(file, line, _)| format!("  ({file}:{line})"));
            let head = if number == 0 { "      " } else { "   or " };
            wrapped(page, head, &format!("{}{at}", change.text), width);
        }
    }
}
