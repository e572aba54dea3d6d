//! A NodePool: a summary of the output of `gpulint pools`.

use gpulint_rules::catalog::{InstanceType, price_list};
use gpulint_rules::fit::{PoolSummary, Situation, Tenant, gpu_name, uncertainty_text};
use gpulint_rules::karpenter::scheduling::Uncertainty;
use gpulint_rules::{Kind, Object};

use super::schedule::of_week;
use super::words::{code, count, dollars, name};
use super::{InSet, Place, in_sets};
use crate::lsp::view::View;
use crate::report::{gpu_text, limits_text, list_prices};

/// Maximum number of workloads to name.
const MAX_TENANTS: usize = 6;
/// Maximum number of GPU models to name.
const MAX_MODELS: usize = 6;

pub(super) fn of_place(view: &View<'_>, place: &Place<'_>) -> Option<String> {
    let is_identity = matches!(place.path().as_slice(), ["metadata", "name"] | ["kind"]);
    if !is_identity || !place.object.is(Kind::NODE_POOL) || place.object.is_partial() {
        return None;
    }
    in_sets(view, place.object, |set| {
        let situation = Situation::read(set.set.cluster, set.platform, Some(set.object));
        let summary = situation.summary_of(set.object, set.set.cluster, set.platform)?;
        Some(of_summary(set, &summary))
    })
}

fn of_summary(set: &InSet<'_>, pool: &PoolSummary) -> String {
    let region = set.platform.region.as_deref();
    let weight = if pool.weight > 0 { format!(", weight {}", pool.weight) } else { String::new() };
    let mut out = format!("**NodePool {}**{weight}\n", code(&pool.object.display_name()));
    let is_readable = !pool.uncertainties.iter().any(|doubt| matches!(doubt, Uncertainty::UnreadablePool(_)));
    if !is_readable {
        let notes = pool.uncertainties.iter().map(|doubt| format!("\n- note: {}", uncertainty_text(doubt)));
        out.extend(notes);
        return out;
    }
    let mut lines = Vec::new();
    lines.extend(pool.closed.as_ref().map(|reason| format!("starts no nodes: {reason}")));
    if !pool.types.is_empty() {
        let mut parts = vec![
            count(pool.types.len(), "type"),
            pool.architectures.join(", "),
            pool.capacity_types.join(" then "),
        ];
        if let (Some((least, most)), Some((region, date))) = (list_prices(pool, region), price_list(region)) {
            let range = if least < most {
                format!("{} to {}", dollars(least), dollars(most))
            } else {
                dollars(least)
            };
            parts.push(format!("{range} an hour on demand ({region}, {date})"));
        }
        parts.retain(|part| !part.is_empty());
        lines.push(format!("admits {}", parts.join("; ")));
    }
    lines.extend(gpus_line(pool));
    if !pool.taints.is_empty() {
        let taints: Vec<String> = pool.taints.iter().map(|taint| code(taint)).collect();
        lines.push(format!("taints: {}", taints.join(", ")));
    }
    lines.push(if pool.limits.is_empty() {
        "no limits".to_owned()
    } else {
        format!("limits: {}", limits_text(pool))
    });
    for keeper in &pool.keepers {
        lines.push(format!("{} keeps its nodes: {}", name(&keeper.workload), keeper.reason));
    }
    lines.extend(pool.uncertainties.iter().map(|doubt| format!("note: {}", uncertainty_text(doubt))));
    lines.extend(of_tenants(&pool.tenants));
    for week in pool.weeks.iter().filter(|week| week.is_uniform()) {
        let what = week.hours[0][0].meaning();
        lines.push(format!("disruption is {what} in every hour ({})", week.reason_names()));
    }
    for line in lines {
        out.push_str(&format!("\n- {line}"));
    }
    for week in pool.weeks.iter().filter(|week| !week.is_uniform()) {
        out.push_str(&format!("\n\n{}", of_week(week)));
    }
    out
}

fn of_tenants(tenants: &[Tenant]) -> Vec<String> {
    if tenants.is_empty() {
        return Vec::new();
    }
    let shown = if tenants.len() <= MAX_TENANTS + 1 { tenants.len() } else { MAX_TENANTS };
    let noun = count(tenants.len(), "workload");
    let verb = if tenants.len() == 1 { "goes" } else { "go" };
    let mut lines = vec![format!("{noun} {verb} here first:")];
    lines.extend(tenants.iter().take(shown).map(|tenant| format!("  - {}", of_tenant(tenant))));
    if tenants.len() > shown {
        lines.push(format!("  - and {} more", tenants.len() - shown));
    }
    // One item that contains a list.
    vec![lines.join("\n")]
}

fn of_tenant(tenant: &Tenant) -> String {
    let replicas = match tenant.replicas {
        Some((least, most)) if least == most => {
            format!(", {}", count(usize::try_from(most).unwrap_or(0), "replica"))
        }
        Some((least, most)) => format!(", {least} to {most} replicas"),
        None => String::new(),
    };
    let room = match (tenant.room, tenant.replicas) {
        (Some(room), Some((_, most))) if room < i128::from(most) => {
            format!(", **but the limits have room for {room}**")
        }
        _ => String::new(),
    };
    format!("{}{replicas}{room}", name(&tenant.workload))
}

/// The GPUs of the types of a pool.
fn gpus_line(pool: &PoolSummary) -> Option<String> {
    if pool.gpus.is_empty() {
        return None;
    }
    let mut models: Vec<String> =
        pool.gpus.iter().take(MAX_MODELS).map(|model| gpu_text(model).replace(" x ", " × ")).collect();
    if pool.gpus.len() > MAX_MODELS {
        models.push(format!("{} more models", pool.gpus.len() - MAX_MODELS));
    }
    let without = pool.types.iter().filter(|instance: &&&InstanceType| gpu_name(instance).is_none()).count();
    if without > 0 {
        models.push(format!("{} without GPUs", count(without, "type")));
    }
    Some(format!("GPUs: {}", models.join("; ")))
}

/// Describes a pool without its workloads.
pub(super) fn alone(
    set: &gpulint_rules::Cluster,
    platform: &gpulint_rules::Platform,
    pool: &Object,
) -> Option<PoolSummary> {
    Situation::of_pool(set, platform, pool).summary_alone(set, platform)
}
