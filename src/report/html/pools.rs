//! The NodePools, the types that they admit, their prices, and the workloads that go to them, from the JSON
//! of `gpulint pools`.

use serde_json::Value;

use super::markup::Markup;
use super::week::week;
use super::{list, text};

/// Maximum number of instance types beside a pool; more are below a fold.
const MAX_TYPES: usize = 6;

/// The names of the sets of the pools, in order; one without a name if the whole input is one set.
fn sets(pools: &Value) -> Vec<Option<&str>> {
    let mut sets: Vec<Option<&str>> = Vec::new();
    for member in ["pools", "fitNoPool", "unknown"] {
        for one in list(pools, member) {
            let set = one["set"].as_str();
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
    }
    sets
}

pub(super) fn sections(out: &mut Markup, pools: &Value) {
    let sets = sets(pools);
    let all: Vec<(usize, &Value)> = list(pools, "pools").iter().enumerate().collect();
    out.raw("<section id=\"pools\" aria-labelledby=\"h-pools\"><h2 id=\"h-pools\">NodePools</h2><p class=\"quiet\">");
    match (pools["prices"]["region"].as_str(), pools["prices"]["date"].as_str()) {
        (Some(region), Some(date)) => {
            out.raw("Prices are on-demand list prices of ").text(region).raw(" on ").text(date);
            out.raw(", in US dollars an hour. Spot prices are not known.");
        }
        _ => {
            out.raw("There are no list prices for this region.");
        }
    }
    out.raw(" The order is that in which Karpenter tries them. Disruption is what the budgets allow in each hour of a week.</p>");
    for set in &sets {
        let own: Vec<(usize, &Value)> =
            all.iter().copied().filter(|(_, pool)| pool["set"].as_str() == *set).collect();
        if own.is_empty() {
            continue;
        }
        open_set(out, *set);
        overview(out, &own);
        for (number, pool) in own {
            card(out, number, pool, set.is_some());
        }
        out.raw("</div>");
    }
    out.raw("</section><section id=\"placement\" aria-labelledby=\"h-placement\"><h2 id=\"h-placement\">Who lands where</h2>");
    out.raw("<p class=\"quiet\">For each workload, the NodePool that Karpenter tries first and that admits its pods.</p>");
    for set in sets {
        let of_set = |member: &str| -> Vec<&Value> {
            list(pools, member).iter().filter(|one| one["set"].as_str() == set).collect()
        };
        let own: Vec<(usize, &Value)> =
            all.iter().copied().filter(|(_, pool)| pool["set"].as_str() == set).collect();
        open_set(out, set);
        placement(out, &own, &of_set("fitNoPool"), &of_set("unknown"));
        out.raw("</div>");
    }
    out.raw("</section>");
}

fn open_set(out: &mut Markup, set: Option<&str>) {
    out.raw("<div class=\"set\" data-sets=\"").text(set.unwrap_or_default()).raw("\">");
    if let Some(set) = set {
        out.raw("<h3>").text(set).raw("</h3>");
    }
}

fn overview(out: &mut Markup, pools: &[(usize, &Value)]) {
    out.raw("<table><thead><tr><th scope=\"col\">NodePool</th><th scope=\"col\" class=\"n\">Weight</th>");
    out.raw(
        "<th scope=\"col\" class=\"n\">$ an hour, a node</th><th scope=\"col\" class=\"n\">GPUs at most</th>",
    );
    out.raw("<th scope=\"col\" class=\"n\">$ an hour at most</th><th scope=\"col\" class=\"n\">Workloads</th></tr></thead><tbody>");
    for (number, pool) in pools {
        let most = &pool["atMost"];
        out.raw("<tr><th scope=\"row\"><a href=\"#pool-")
            .digits(*number as u64)
            .raw("\">")
            .text(name_of(pool));
        out.raw("</a>");
        // The file tells pools of one name apart.
        if pools.iter().any(|(other, one)| other != number && name_of(one) == name_of(pool)) {
            out.raw("<br>");
            place(out, pool);
        }
        out.raw("</th><td class=\"n\" data-h=\"Weight\">").text(&pool["weight"].to_string());
        out.raw("</td><td class=\"n\" data-h=\"$ an hour, a node\">");
        match prices(pool) {
            Some((least, most)) => range(out, least, most),
            None => out.raw("–"),
        };
        out.raw("</td><td class=\"n\" data-h=\"GPUs at most\">");
        match most["gpus"].as_u64() {
            Some(gpus) => out.number(gpus),
            None => out.raw("no limit"),
        };
        out.raw("</td><td class=\"n\" data-h=\"$ an hour at most\">");
        match most["dollarsAnHour"].as_f64() {
            Some(dollars) => out.dollars(dollars),
            None => out.raw("no limit"),
        };
        out.raw("</td><td class=\"n\" data-h=\"Workloads\">").number(list(pool, "workloads").len() as u64);
        out.raw("</td></tr>");
    }
    out.raw("</tbody></table>");
}

fn prices(pool: &Value) -> Option<(f64, f64)> {
    let prices = &pool["prices"];
    Some((prices["least"].as_f64()?, prices["most"].as_f64()?))
}

fn range(out: &mut Markup, least: f64, most: f64) -> &mut Markup {
    if least == most { out.dollars(least) } else { out.dollars(least).raw(" – ").dollars(most) }
}

/// The name of an object, or a placeholder for an object without a name.
fn name_of(object: &Value) -> &str {
    match text(object, "name") {
        "" => "(no name)",
        name => name,
    }
}

/// Writes a location: `path:12`.
fn place(out: &mut Markup, object: &Value) {
    if let Some(file) = object["file"].as_str() {
        out.raw("<span class=\"place\">").text(file);
        if let Some(line) = object["line"].as_u64() {
            out.raw(":").digits(line);
        }
        out.raw("</span>");
    }
}

/// Writes the name of a workload in the form of `gpulint why`: `namespace/kind/name`.
fn workload(out: &mut Markup, object: &Value) {
    out.raw("<span class=\"name\">");
    if let Some(namespace) = object["namespace"].as_str() {
        out.text(namespace).raw("/");
    }
    out.text(&text(object, "kind").to_lowercase()).raw("/").text(name_of(object)).raw("</span>");
}

fn card(out: &mut Markup, number: usize, pool: &Value, is_below_set: bool) {
    let (open, close) = if is_below_set { ("<h4>", "</h4>") } else { ("<h3>", "</h3>") };
    out.raw("<article class=\"pool\" id=\"pool-").digits(number as u64).raw("\">").raw(open);
    out.text(name_of(pool)).raw(close);
    place(out, pool);
    out.raw("<dl class=\"facts\">");
    if let Some(reason) = pool["closed"].as_str() {
        out.raw("<dt>Closed</dt><dd>").words(reason).raw("</dd>");
    }
    let types: Vec<&str> = list(pool, "instanceTypes").iter().filter_map(Value::as_str).collect();
    let joined = |member: &str, by: &str| -> String {
        list(pool, member).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(by)
    };
    if !types.is_empty() {
        out.raw("<dt>Admits</dt><dd>").count(types.len() as u64, "instance type");
        for part in [joined("architectures", ", "), joined("capacityTypes", " then ")] {
            if !part.is_empty() {
                out.raw("; ").text(&part);
            }
        }
        if let Some((least, most)) = prices(pool) {
            out.raw("; ");
            range(out, least, most).raw(" an hour each");
        }
        let names = |out: &mut Markup, types: &[&str]| {
            out.raw("<span class=\"types\">").text(&types.join(", ")).raw("</span>");
        };
        if types.len() > MAX_TYPES {
            out.raw("<details><summary>All types, cheapest first</summary>");
            names(out, &types);
            out.raw("</details>");
        } else {
            out.raw("<br>");
            names(out, &types);
        }
        out.raw("</dd>");
    }
    gpus(out, list(pool, "gpus"));
    if !list(pool, "taints").is_empty() {
        out.raw("<dt>Taints</dt><dd>").code(&joined("taints", ", ")).raw("</dd>");
    }
    limits(out, pool);
    let weeks = list(pool, "weeks");
    if !weeks.is_empty() {
        out.raw("<dt>Disruption</dt><dd>");
        for one in weeks {
            let strings =
                |member: &str| -> Vec<&str> { list(one, member).iter().filter_map(Value::as_str).collect() };
            week(out, &strings("reasons"), &strings("days"), None);
        }
        out.raw("</dd>");
    }
    let keepers = list(pool, "keptBy");
    if !keepers.is_empty() {
        out.raw("<dt>Kept by</dt><dd><ul>");
        for keeper in keepers {
            out.raw("<li>");
            workload(out, keeper);
            out.raw(": ").words(text(keeper, "reason")).raw("</li>");
        }
        out.raw("</ul></dd>");
    }
    for doubt in list(pool, "uncertainties") {
        out.raw("<dt>Note</dt><dd>").words(text(doubt, "text")).raw("</dd>");
    }
    out.raw("<dt>Takes</dt><dd>");
    match list(pool, "workloads").len() as u64 {
        0 => out.raw("no workload of the input"),
        count => {
            out.raw("<a href=\"#on-").digits(number as u64).raw("\">").count(count, "workload").raw("</a>")
        }
    };
    out.raw("</dd></dl></article>");
}

fn gpus(out: &mut Markup, models: &[Value]) {
    if models.is_empty() {
        return;
    }
    out.raw("<dt>GPUs</dt><dd>");
    for (at, model) in models.iter().enumerate() {
        if at > 0 {
            out.raw("; ");
        }
        let counts: Vec<u64> = list(model, "counts").iter().filter_map(Value::as_u64).collect();
        let memory = model["memoryMiB"].as_u64().filter(|mib| *mib > 0).map(|mib| mib as f64 / 1024.0);
        if counts == [0] {
            out.raw("a share of ").text(text(model, "name"));
        } else {
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            out.text(&counts.join(" or ")).raw(" × ").text(text(model, "name"));
        }
        if let Some(memory) = memory {
            out.text(&format!(" ({memory:.0} GiB each)"));
        }
    }
    out.raw("</dd>");
}

fn limits(out: &mut Markup, pool: &Value) {
    out.raw("<dt>Limits</dt><dd>");
    let limits = pool["limits"].as_object().filter(|limits| !limits.is_empty());
    let Some(limits) = limits else {
        out.raw("none</dd>");
        return;
    };
    for (at, (name, limit)) in limits.iter().enumerate() {
        if at > 0 {
            out.raw(", ");
        }
        out.text(name).raw(" ").text(limit.as_str().unwrap_or_default());
    }
    let most = &pool["atMost"];
    let mut parts: Vec<Markup> = Vec::new();
    let mut add = |write: &dyn Fn(&mut Markup)| {
        let mut part = Markup::default();
        write(&mut part);
        parts.push(part);
    };
    if let Some(gpus) = most["gpus"].as_u64().filter(|gpus| *gpus > 0) {
        add(&|out| _ = out.count(gpus, "GPU"));
    }
    if let Some(nodes) = most["nodes"].as_u64() {
        add(&|out| _ = out.count(nodes, "node"));
    }
    if let Some(dollars) = most["dollarsAnHour"].as_f64() {
        add(&|out| _ = out.dollars(dollars).raw(" an hour"));
    }
    for (at, part) in parts.iter().enumerate() {
        out.raw(if at == 0 { ": at most about " } else { ", " }).append(part);
    }
    out.raw("</dd>");
}

fn placement(out: &mut Markup, pools: &[(usize, &Value)], homeless: &[&Value], unknown: &[&Value]) {
    let occupied = pools.iter().any(|(_, pool)| !list(pool, "workloads").is_empty());
    if !occupied && homeless.is_empty() && unknown.is_empty() {
        out.raw("<p>No workload of the input lands on a NodePool.</p>");
        return;
    }
    out.raw("<table class=\"placement\"><thead><tr><th scope=\"col\">Workload</th><th scope=\"col\" class=\"n\">Replicas</th>");
    out.raw("<th scope=\"col\" class=\"n\">Room in the limits</th><th scope=\"col\">Note</th></tr></thead>");
    if !homeless.is_empty() {
        out.raw(
            "<tbody><tr class=\"head error\"><th scope=\"rowgroup\" colspan=\"4\">Fit no NodePool</th></tr>",
        );
        for object in homeless {
            row(out, object, None, |out| {
                out.raw("<code>gpulint why</code> says why");
            });
        }
        out.raw("</tbody>");
    }
    if !unknown.is_empty() {
        out.raw(
            "<tbody><tr class=\"head\"><th scope=\"rowgroup\" colspan=\"4\">May or may not fit</th></tr>",
        );
        for object in unknown {
            row(out, object, None, |out| doubts(out, list(object, "uncertainties"), &[]));
        }
        out.raw("</tbody>");
    }
    for (number, pool) in pools {
        let workloads = list(pool, "workloads");
        if workloads.is_empty() {
            continue;
        }
        out.raw("<tbody id=\"on-")
            .digits(*number as u64)
            .raw("\"><tr class=\"head\"><th scope=\"rowgroup\" colspan=\"4\">");
        out.raw("<a href=\"#pool-")
            .digits(*number as u64)
            .raw("\">")
            .text(name_of(pool))
            .raw("</a></th></tr>");
        for object in workloads {
            let (replicas, room) = (&object["replicas"], object["room"].as_u64());
            let is_short = room.zip(replicas["most"].as_u64()).is_some_and(|(room, most)| room < most);
            row(out, object, Some(is_short), |out| {
                doubts(out, list(object, "uncertainties"), list(pool, "uncertainties"));
            });
        }
        out.raw("</tbody>");
    }
    out.raw("</table>");
}

/// Writes the uncertainties of a workload, without those of its pool.
fn doubts(out: &mut Markup, own: &[Value], known: &[Value]) {
    for (at, doubt) in own.iter().filter(|doubt| !known.contains(doubt)).enumerate() {
        if at > 0 {
            out.raw("; ");
        }
        out.words(text(doubt, "text"));
    }
}

fn row(out: &mut Markup, object: &Value, is_short: Option<bool>, note: impl FnOnce(&mut Markup)) {
    out.raw("<tr><td>");
    workload(out, object);
    out.raw(" ");
    place(out, object);
    out.raw("</td><td class=\"n\" data-h=\"Replicas\">");
    let replicas = &object["replicas"];
    if let (Some(least), Some(most)) = (replicas["least"].as_u64(), replicas["most"].as_u64()) {
        out.number(least);
        if least != most {
            out.raw(" – ").number(most);
        }
    }
    out.raw("</td><td class=\"n\" data-h=\"Room in the limits\">");
    if let Some(room) = object["room"].as_u64() {
        if is_short == Some(true) {
            out.raw("<b class=\"warning\">").number(room).raw(" – too little</b>");
        } else {
            out.number(room);
        }
    }
    out.raw("</td><td class=\"quiet\">");
    note(out);
    out.raw("</td></tr>");
}
