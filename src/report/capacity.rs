//! The output of `gpulint pools --capacity`.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::Platform;
use gpulint_rules::fit::{Capacity, FitVerdict, Load, Misfit, Nodes, gpus_of, uncertainty_text};
use gpulint_rules::karpenter::scheduling::Uncertainty;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::terminal::printable;

use super::answer::{
    dollars, hourly, number, object_json, place_of, price_note, uncertainty_json, workload_name, wrapped,
};

/// The capacity of a set, with the name of the set if the input has several.
pub(crate) type InSet = (Option<Arc<str>>, Capacity);

/// Maximum number of workloads of a kind in the text.
const MAX_WORKLOADS: usize = 12;

pub(super) fn json((set, capacity): &InSet) -> Value {
    json!({"set": set.as_deref(), "floor": load_json(&capacity.floor), "ceiling": load_json(&capacity.ceiling)})
}

pub(super) fn load_json(load: &Load) -> Value {
    json!({
        "verdict": load.verdict.name(),
        "pods": load.pods,
        "dollarsAnHour": load.micro_dollars.map(dollars),
        "nodes": load.nodes.iter().map(|nodes| json!({
            "pool": nodes.pool.name(),
            "instanceType": nodes.instance.name,
            "capacityTypes": nodes.capacity_types,
            "nodes": nodes.nodes,
            "pods": nodes.pods,
            "gpus": nodes.nodes * u64::from(gpus_of(nodes.instance)),
            "dollarsAnHour": nodes.micro_dollars.map(dollars),
        })).collect::<Vec<_>>(),
        "pools": load.pools.iter().map(|pool| json!({
            "name": pool.pool.name(),
            "nodes": pool.nodes,
            "gpus": pool.gpus,
            "gpuLimit": pool.gpu_limit.map(number),
        })).collect::<Vec<_>>(),
        "doNotFit": load.misfits.iter().map(|misfit| {
            let mut value = object_json(&misfit.workload);
            value["pods"] = json!(misfit.pods);
            value["of"] = json!(misfit.of);
            value["reason"] = json!(misfit.reason);
            value["places"] = misfit.places.iter().map(|place| {
                let (file, line) = place_of(&place.object, &place.pointer);
                json!({"file": file, "line": line, "pointer": place.pointer.to_string(), "text": place.text})
            }).collect();
            value
        }).collect::<Vec<_>>(),
        "unknown": load.unknown.iter().map(|(workload, pods, doubts)| {
            let mut value = object_json(workload);
            value["pods"] = json!(pods);
            value["uncertainties"] = doubts.iter().map(uncertainty_json).collect();
            value
        }).collect::<Vec<_>>(),
        "notes": load.notes.iter().map(|(workload, doubts)| {
            let mut value = object_json(workload);
            value["uncertainties"] = doubts.iter().map(uncertainty_json).collect();
            value
        }).collect::<Vec<_>>(),
    })
}

pub(super) fn text(
    out: &mut dyn Write,
    capacities: &[InSet],
    platform: &Platform,
    width: usize,
) -> Result<(), CliError> {
    let mut page = String::new();
    for (set, capacity) in capacities {
        if let Some(set) = set {
            let _ = writeln!(page, "In {set}:\n");
        }
        let loads = match load_json(&capacity.floor) == load_json(&capacity.ceiling) {
            true => vec![("With the fewest and with the most replicas", &capacity.floor)],
            false => vec![
                ("With the fewest replicas", &capacity.floor),
                ("With the most replicas", &capacity.ceiling),
            ],
        };
        for (head, load) in loads {
            load_text(&mut page, head, load, width);
            page.push('\n');
        }
        if !capacity.ceiling.notes.is_empty() {
            notes_text(&mut page, &capacity.ceiling, width);
            page.push('\n');
        }
    }
    let is_static = |nodes: &Nodes| nodes.pool.path(&["spec", "replicas"]).is_set();
    let begin = match capacities.iter().any(|(_, capacity)| capacity.ceiling.nodes.iter().any(is_static)) {
        true => "with the nodes of static pools to begin with",
        false => "without nodes to begin with",
    };
    let note = format!(
        "Pods are packed as Karpenter packs pending ones, {begin}. Each node counts as the cheapest type by list price \
         that has room."
    );
    wrapped(&mut page, "", &note, width);
    wrapped(&mut page, "", &price_note(platform.region.as_deref()), width);
    out.write_all(printable(&page, true).as_bytes())?;
    Ok(())
}

fn load_text(page: &mut String, head: &str, load: &Load, width: usize) {
    let misfits: u64 = load.misfits.iter().map(|misfit| misfit.pods).sum();
    let pods = |count: u64| if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
    let verdict = match load.verdict {
        _ if load.pods == 0 && load.unknown.is_empty() => "no pods run".to_owned(),
        FitVerdict::Fits if load.pods == 1 => "1 pod fits".to_owned(),
        FitVerdict::Fits => format!("all {} fit", pods(load.pods)),
        FitVerdict::DoesNotFit => {
            let verb = if misfits == 1 { "does" } else { "do" };
            format!("{misfits} of {} {verb} not fit", pods(load.pods))
        }
        FitVerdict::Unknown => format!("{} fit, of others it is not known", pods(load.pods)),
    };
    let nodes: u64 = load.nodes.iter().map(|nodes| nodes.nodes).sum();
    let cost = match (nodes, load.micro_dollars) {
        (0, _) => String::new(),
        (1, cost) => format!("; 1 node{}", cost_text(cost)),
        (nodes, cost) => format!("; {nodes} nodes{}", cost_text(cost)),
    };
    wrapped(page, "", &format!("{head}: {verdict}{cost}"), width);
    if !load.nodes.is_empty() {
        page.push('\n');
        table(page, load);
        page.push('\n');
    }
    let gpus: Vec<String> = load
        .pools
        .iter()
        .filter(|pool| pool.gpus > 0)
        .map(|pool| {
            let limit = pool.gpu_limit.map_or("without a limit".to_owned(), |limit| format!("of {limit}"));
            format!("{} {} {limit}", pool.pool.name(), pool.gpus)
        })
        .collect();
    if !gpus.is_empty() {
        wrapped(page, "  GPUs          ", &gpus.join(", "), width);
    }
    for misfit in load.misfits.iter().take(MAX_WORKLOADS) {
        wrapped(page, "  does not fit  ", &misfit_text(misfit), width);
    }
    more(page, "  does not fit  ", load.misfits.len());
    for (workload, count, doubts) in load.unknown.iter().take(MAX_WORKLOADS) {
        let count = count.map_or(String::new(), |count| format!(", {}", pods(count)));
        let text = format!("{}{count}: {}", workload_name(workload), doubts_text(doubts));
        wrapped(page, "  unknown       ", &text, width);
    }
    more(page, "  unknown       ", load.unknown.len());
}

/// The assumptions. The load with the most replicas has all assumptions of the one with the fewest.
fn notes_text(page: &mut String, load: &Load, width: usize) {
    for (workload, doubts) in load.notes.iter().take(MAX_WORKLOADS) {
        let text = format!("{}: {}", workload_name(workload), doubts_text(doubts));
        wrapped(page, "  note          ", &text, width);
    }
    more(page, "  note          ", load.notes.len());
}

fn more(page: &mut String, head: &str, count: usize) {
    if count > MAX_WORKLOADS {
        let _ = writeln!(page, "{head}{} more workloads", count - MAX_WORKLOADS);
    }
}

fn cost_text(cost: Option<i128>) -> String {
    cost.map_or(", some without a list price".to_owned(), |cost| format!(", {}", hourly(cost)))
}

fn doubts_text(doubts: &[Uncertainty]) -> String {
    doubts.iter().map(uncertainty_text).collect::<Vec<_>>().join("; ")
}

fn misfit_text(misfit: &Misfit) -> String {
    let places: Vec<String> = misfit
        .places
        .iter()
        .filter_map(|place| match place_of(&place.object, &place.pointer) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            _ => None,
        })
        .collect();
    let at = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    let why = if misfit.places.is_empty() { " (`gpulint why` says why)" } else { "" };
    let noun = if misfit.of == 1 { "pod" } else { "pods" };
    let workload = workload_name(&misfit.workload);
    format!("{workload}, {} of {} {noun}: {}{at}{why}", misfit.pods, misfit.of, misfit.reason)
}

/// The table of nodes, at most 80 columns wide.
fn table(page: &mut String, load: &Load) {
    let widest = load.nodes.iter().map(|nodes| nodes.pool.name().chars().count()).max().unwrap_or(0);
    let width = widest.clamp(4, 24);
    let heads = ["NODES", "PODS", "GPUS", "$ AN HOUR"];
    let [nodes, pods, gpus, price] = heads;
    let _ =
        writeln!(page, "  {:width$}  {:20}  {nodes:>6}  {pods:>6}  {gpus:>5}  {price:>9}", "POOL", "TYPE");
    for row in &load.nodes {
        let pool: String = row.pool.name().chars().take(width).collect();
        let gpus = row.nodes * u64::from(gpus_of(row.instance));
        let price = row.micro_dollars.map_or("-".to_owned(), |price| format!("{:.2}", dollars(price)));
        let _ = writeln!(
            page,
            "  {pool:width$}  {:20}  {:>6}  {:>6}  {gpus:>5}  {price:>9}",
            row.instance.name, row.nodes, row.pods
        );
    }
}
