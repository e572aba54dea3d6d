//! The output of `gpulint pools`.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use gpulint_rules::catalog::price_list;
use gpulint_rules::fit::{GpuModel, PoolOverview, PoolSummary, Tenant, amount, uncertainty_text};
use gpulint_rules::karpenter::budget::{DAYS, Week};
use gpulint_rules::{Platform, Pointer};
use serde_json::{Value, json};

use crate::args::ExplainFormat;
use crate::error::CliError;
use crate::terminal::{RenderOptions, count, printable};

use super::answer::{
    dollars, hourly, number, object_json, place_of, price_note, uncertainty_json, workload_name, wrapped,
};
use super::capacity::{self, InSet};
use super::place::position;

pub(crate) const SCHEMA: &str = include_str!("pools.schema.json");

/// Maximum number of workloads of a pool in the text.
const MAX_WORKLOADS: usize = 12;
/// Maximum number of spans of hours in the words about a week.
const MAX_SPANS: usize = 3;

/// The NodePools of each set, with the name of the set if the input has several.
pub(crate) struct PoolsAnswer<'a> {
    pub(crate) overviews: Vec<(Option<Arc<str>>, PoolOverview)>,
    /// Whether everything fits at once, if that was requested.
    pub(crate) capacities: Option<Vec<InSet>>,
    pub(crate) platform: &'a Platform,
}

impl PoolsAnswer<'_> {
    /// Writes the answer. In text, the capacities replace the overviews.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        format: ExplainFormat,
        options: RenderOptions,
    ) -> Result<(), CliError> {
        match (format, &self.capacities) {
            (ExplainFormat::Text, Some(all)) => capacity::text(out, all, self.platform, options.width),
            (ExplainFormat::Text, None) => self.text(out, options),
            (ExplainFormat::Json, _) => {
                serde_json::to_writer_pretty(&mut *out, &self.json())?;
                Ok(writeln!(out)?)
            }
        }
    }

    /// The answer as JSON, version 1.
    pub(crate) fn json(&self) -> Value {
        let region = self.platform.region.as_deref();
        let mut pools = Vec::new();
        let mut homeless = Vec::new();
        let mut unknown = Vec::new();
        for (set, overview) in &self.overviews {
            let in_set = |mut value: Value| {
                value["set"] = json!(set.as_deref());
                value
            };
            pools.extend(overview.pools.iter().map(|pool| in_set(pool_json(pool, region))));
            homeless.extend(overview.homeless.iter().map(|workload| in_set(object_json(workload))));
            unknown.extend(overview.undecided.iter().map(|(workload, doubts)| {
                let mut value = in_set(object_json(workload));
                value["uncertainties"] = doubts.iter().map(uncertainty_json).collect();
                value
            }));
        }
        json!({
            "version": 1,
            "tool": {"name": "gpulint", "version": env!("CARGO_PKG_VERSION")},
            "prices": price_list(region).map(|(region, date)| json!({"region": region, "date": date})),
            "pools": pools,
            "fitNoPool": homeless,
            "unknown": unknown,
            "capacity": self.capacities.iter().flatten().map(capacity::json).collect::<Vec<_>>(),
        })
    }

    fn text(&self, out: &mut dyn Write, options: RenderOptions) -> Result<(), CliError> {
        let region = self.platform.region.as_deref();
        let mut page = String::new();
        for (set, overview) in &self.overviews {
            if let Some(set) = set {
                let _ = writeln!(page, "In {set}:\n");
            }
            of_set(&mut page, overview, region, options.width);
            page.push('\n');
        }
        wrapped(&mut page, "", &price_note(region), options.width);
        out.write_all(printable(&page, true).as_bytes())?;
        Ok(())
    }
}

fn pool_json(pool: &PoolSummary, region: Option<&str>) -> Value {
    let (file, line) = place_of(&pool.object, &Pointer::root());
    let prices = list_prices(pool, region);
    json!({
        "name": pool.object.name(),
        "file": file,
        "line": line,
        "weight": pool.weight,
        "closed": pool.closed,
        "uncertainties": pool.uncertainties.iter().map(uncertainty_json).collect::<Vec<_>>(),
        "instanceTypes": pool.types.iter().map(|t| t.name).collect::<Vec<_>>(),
        "gpus": pool.gpus.iter().map(|gpu| json!({
            "name": gpu.name, "memoryMiB": gpu.memory_mib, "counts": gpu.counts,
        })).collect::<Vec<_>>(),
        "architectures": pool.architectures,
        "capacityTypes": pool.capacity_types,
        "prices": prices.map(|(least, most)| json!({"least": least, "most": most})),
        "taints": pool.taints,
        "limits": pool.limits.iter().map(|(name, limit)| (name.clone(), json!(amount(name, *limit)))).collect::<serde_json::Map<_, _>>(),
        "atMost": {
            "nodes": pool.ceiling.nodes.map(number),
            "gpus": pool.ceiling.gpus.map(number),
            "dollarsAnHour": pool.ceiling.micro_dollars.map(dollars),
        },
        "weeks": pool.weeks.iter().map(|week| json!({
            "reasons": week.reasons.iter().map(|reason| reason.name()).collect::<Vec<_>>(),
            "days": (0..7).map(|day| week.row(day).replace(' ', "")).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "keptBy": pool.keepers.iter().map(|keeper| {
            let mut value = object_json(&keeper.workload);
            value["reason"] = json!(keeper.reason);
            value
        }).collect::<Vec<_>>(),
        "workloads": pool.tenants.iter().map(|tenant| {
            let mut value = object_json(&tenant.workload);
            value["replicas"] = tenant.replicas.map_or(Value::Null, |(least, most)| json!({"least": least, "most": most}));
            value["room"] = json!(tenant.room.map(number));
            value["uncertainties"] = tenant.uncertainties.iter().map(uncertainty_json).collect();
            value
        }).collect::<Vec<_>>(),
    })
}

/// The lowest and the highest list price of the types of a pool.
pub(crate) fn list_prices(pool: &PoolSummary, region: Option<&str>) -> Option<(f64, f64)> {
    let started = pool.types.iter().filter(|t| t.is_within(&pool.limits));
    let mut known = started.filter_map(|t| t.list_price(region));
    let first = known.next()?;
    let last = known.next_back().unwrap_or(first);
    Some((first.dollars(), last.dollars()))
}

fn of_set(page: &mut String, overview: &PoolOverview, region: Option<&str>, width: usize) {
    table(page, overview, region);
    total(page, overview, width);
    for pool in &overview.pools {
        page.push('\n');
        details(page, pool, region, width);
    }
    let homeless: Vec<String> = overview.homeless.iter().map(workload_name).collect();
    let undecided: Vec<String> =
        overview.undecided.iter().map(|(workload, _)| workload_name(workload)).collect();
    for (head, names) in [("fit no NodePool: ", homeless), ("may or may not fit: ", undecided)] {
        if !names.is_empty() {
            page.push('\n');
            let more = names.len().saturating_sub(MAX_WORKLOADS);
            let mut text = names[..names.len() - more].join(", ");
            if more > 0 {
                let _ = write!(text, " and {more} more");
            }
            text.push_str(" (`gpulint why` says why)");
            wrapped(page, head, &text, width);
        }
    }
}

/// Writes the table, at most 80 columns wide.
fn table(page: &mut String, overview: &PoolOverview, region: Option<&str>) {
    let widest = overview.pools.iter().map(|pool| pool.object.name().chars().count()).max().unwrap_or(0);
    let width = widest.clamp(4, 28);
    let heads = ["$ AN HOUR", "MAX GPUS", "MAX $", "RUNS"];
    let [price, gpus, dollar, runs] = heads;
    let _ = writeln!(page, "{:width$}  WEIGHT  {price:>15}  {gpus:>8}  {dollar:>9}  {runs}", "POOL");
    for pool in &overview.pools {
        let name: String = pool.object.name().chars().take(width).collect();
        let price = match list_prices(pool, region) {
            Some((least, most)) => format!("{least:.2} - {most:.2}"),
            None => "-".to_owned(),
        };
        let gpus = pool.ceiling.gpus.map_or("no limit".to_owned(), |gpus| gpus.to_string());
        let most = pool.ceiling.micro_dollars.map(dollars);
        let most = most.map_or("no limit".to_owned(), |most| format!("{most:.2}"));
        let runs = pool.tenants.len();
        let _ =
            writeln!(page, "{name:width$}  {:>6}  {price:>15}  {gpus:>8}  {most:>9}  {runs:>4}", pool.weight);
    }
}

/// What all pools together may cost, where limits bound it.
fn total(page: &mut String, overview: &PoolOverview, width: usize) {
    let bounds = overview.pools.iter().map(|pool| (pool.ceiling.gpus, pool.ceiling.micro_dollars));
    let (gpus, dollar): (Vec<_>, Vec<_>) = bounds.unzip();
    let gpus: Option<i128> = gpus.into_iter().sum();
    let dollar: Option<i128> = dollar.into_iter().sum();
    if let Some(dollar) = dollar.filter(|_| overview.pools.len() > 1) {
        let gpus = gpus.filter(|gpus| *gpus > 0).map_or(String::new(), |gpus| format!("{gpus} GPUs, "));
        wrapped(page, "all pools: ", &format!("at most about {gpus}{}", hourly(dollar)), width);
    }
}

/// When nodes may not be drained, such as `never Mon to Fri 09 to 17 UTC`. `None` if that takes more than a few words.
pub(super) fn blocked_words(week: &Week) -> Option<String> {
    let of_day = |day: usize| {
        let letters: Vec<char> = week.row(day).chars().filter(|letter| *letter != ' ').collect();
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for hour in (0..letters.len()).filter(|hour| letters[*hour] == '#') {
            match spans.last_mut() {
                Some((_, end)) if *end == hour => *end += 1,
                _ => spans.push((hour, hour + 1)),
            }
        }
        spans
    };
    let days: Vec<Vec<(usize, usize)>> = (0..DAYS.len()).map(of_day).collect();
    let mut parts = Vec::new();
    let mut day = 0;
    while day < days.len() {
        let end = (day..days.len()).take_while(|other| days[*other] == days[day]).last().unwrap_or(day);
        let names = if end == day { DAYS[day].to_owned() } else { format!("{} to {}", DAYS[day], DAYS[end]) };
        for (from, to) in &days[day] {
            parts.push(match (from, to) {
                (0, 24) => names.clone(),
                _ => format!("{names} {from:02} to {to:02}"),
            });
        }
        day = end + 1;
    }
    (1..=MAX_SPANS).contains(&parts.len()).then(|| format!("never {} UTC", parts.join(", ")))
}

fn details(page: &mut String, pool: &PoolSummary, region: Option<&str>, width: usize) {
    let at = position(&pool.object, &Pointer::root());
    let at = at.map_or(String::new(), |(file, line, _)| format!(" ({file}:{line})"));
    let _ = writeln!(page, "{}{at}", pool.object.name());
    let line =
        |page: &mut String, head: &str, text: &str| wrapped(page, &format!("  {head:10}"), text, width);
    if let Some(reason) = &pool.closed {
        line(page, "closed", reason);
    }
    for doubt in &pool.uncertainties {
        line(page, "note", &uncertainty_text(doubt));
    }
    if !pool.types.is_empty() {
        let types = count(pool.types.len(), "type");
        let mut parts = vec![types, pool.architectures.join(", "), pool.capacity_types.join(" then ")];
        if let Some((least, most)) = list_prices(pool, region) {
            parts.push(format!("${least:.2} to ${most:.2} an hour"));
        }
        line(page, "admits", &parts.join("; "));
    }
    let without = pool.types.iter().any(|t| gpulint_rules::fit::gpu_name(t).is_none());
    if !pool.gpus.is_empty() {
        let mut models: Vec<String> = pool.gpus.iter().map(gpu_text).collect();
        if without {
            models.push("and types without".to_owned());
        }
        line(page, "GPUs", &models.join("; "));
    }
    if !pool.taints.is_empty() {
        line(page, "taints", &pool.taints.join(", "));
    }
    line(page, "limits", &limits_text(pool));
    for week in &pool.weeks {
        let lines = week.lines();
        if let [one] = lines.as_slice() {
            line(page, "drains", one);
        } else {
            let words = blocked_words(week);
            if let Some(words) = &words {
                line(page, "drains", words);
            }
            for (number, text) in lines.iter().enumerate() {
                let head = if number == 0 && words.is_none() { "drains" } else { "" };
                let _ = writeln!(page, "  {head:6}  {text}");
            }
        }
    }
    for keeper in &pool.keepers {
        line(page, "kept by", &format!("{}: {}", workload_name(&keeper.workload), keeper.reason));
    }
    for tenant in pool.tenants.iter().take(MAX_WORKLOADS) {
        line(page, "takes", &tenant_text(tenant));
    }
    if pool.tenants.len() > MAX_WORKLOADS {
        line(page, "takes", &format!("{} more workloads", pool.tenants.len() - MAX_WORKLOADS));
    }
}

pub(crate) fn gpu_text(model: &GpuModel) -> String {
    if model.counts == [0] {
        return format!("a share of {}, {:.0} GiB", model.name, f64::from(model.memory_mib) / 1024.0);
    }
    let counts: Vec<String> = model.counts.iter().map(u32::to_string).collect();
    let memory = if model.memory_mib > 0 {
        format!(", {:.0} GiB each", f64::from(model.memory_mib) / 1024.0)
    } else {
        String::new()
    };
    format!("{} x {}{memory}", counts.join(", "), model.name)
}

pub(crate) fn limits_text(pool: &PoolSummary) -> String {
    if pool.limits.is_empty() {
        return "none".to_owned();
    }
    let written: Vec<String> =
        pool.limits.iter().map(|(name, limit)| format!("{name} {}", amount(name, *limit))).collect();
    let mut most = Vec::new();
    if let Some(gpus) = pool.ceiling.gpus.filter(|gpus| *gpus > 0) {
        most.push(format!("{gpus} GPUs"));
    }
    if let Some(nodes) = pool.ceiling.nodes {
        most.push(format!("{nodes} nodes"));
    }
    if let Some(micro) = pool.ceiling.micro_dollars {
        most.push(format!("${:.2} an hour", dollars(micro)));
    }
    let most = if most.is_empty() { String::new() } else { format!(": at most about {}", most.join(", ")) };
    format!("{}{most}", written.join(", "))
}

fn tenant_text(tenant: &Tenant) -> String {
    let replicas = match tenant.replicas {
        Some((least, most)) if least == most => format!(", {least} replicas"),
        Some((least, most)) => format!(", {least} to {most} replicas"),
        None => String::new(),
    };
    let room = match (tenant.room, tenant.replicas) {
        (Some(room), Some((_, most))) if room < i128::from(most) => {
            format!(", but the limits have room for {room}")
        }
        (Some(room), _) => format!(", the limits have room for {room}"),
        (None, _) => String::new(),
    };
    format!("{}{replicas}{room}", workload_name(&tenant.workload))
}
