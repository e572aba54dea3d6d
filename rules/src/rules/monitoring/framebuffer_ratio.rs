//! Used GPU memory is divided by free GPU memory.
//!
//! # Why
//! `DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE` is no share of the memory: it is 1 where half of it is in
//! use, and infinite where it is full. An alert at `> 0.9` fires at 47 % and keeps firing.
//!
//! # Fix
//! Divide by the whole: used plus free, and reserved where the exporter has
//! `DCGM_FI_DEV_FB_RESERVED` (from 4.0 on). Servers that allocate their cache at the start, such as
//! vLLM, stay near 90 % all the time: alert on the use of their KV cache instead.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: PrometheusRule
//!  metadata: {name: gpus, namespace: monitoring}
//!  spec:
//!    groups:
//!      - name: memory
//!        rules:
//!          - alert: GpuMemoryTight
//! -          expr: DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE > 0.9 # <-
//! +          expr: >-
//! +            DCGM_FI_DEV_FB_USED
//! +            / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9
//!            for: 5m
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html>
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>

use crate::keda::value::number;
use crate::promql::identifiers::find_word;
use crate::promql::{Expr, QUERY_KINDS, Query, QueryPlace};
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "framebuffer-ratio",
    kinds: &QUERY_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("framebuffer_ratio.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Monitoring)
};

const USED: &str = "DCGM_FI_DEV_FB_USED";
const FREE: &str = "DCGM_FI_DEV_FB_FREE";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let mut divides = false;
        expr.walk(&mut |expr| divides |= is_ratio(expr));
        if !divides {
            continue;
        }
        let node = query.node(object);
        let message = match threshold(query, expr, object) {
            Some(limit) => format!(
                "used divided by free memory reaches {limit} at {} % in use",
                (limit / (1.0 + limit) * 100.0).round()
            ),
            None => "used divided by free memory is not the share in use: it is 1 at half, and has no end"
                .to_owned(),
        };
        let finding = ctx.report(&node, message);
        finding
            .help(format!("divide by `{USED} + {FREE}`"))
            .severity(severity_in(query.place, Severity::Error));
        finding.at_query(object, query);
        if !query.is_embedded
            && let Some(text) = node.text()
            && let Some(share) = as_share(text)
        {
            finding.fix(Fix::unsafe_("divide by the whole").set(&node, json!(share)));
        }
    }
    None
}

/// Whether an expression is used memory divided by free memory.
fn is_ratio(expr: &Expr) -> bool {
    let is = |side: &Expr, name: &str| {
        side.sole_selector().is_some_and(|selector| selector.name.as_deref() == Some(name))
    };
    matches!(expr, Expr::Binary(binary) if binary.op == "/" && is(&binary.lhs, USED) && is(&binary.rhs, FREE))
}

/// The number that the ratio itself is compared with.
fn threshold(query: &Query, expr: &Expr, object: &Object) -> Option<f64> {
    if query.place == QueryPlace::Trigger {
        let text = query.entry(object).path(&["metadata", "threshold"]).text()?;
        return number(text.trim()).filter(|limit| is_ratio(expr) && *limit > 0.0);
    }
    match expr {
        Expr::Binary(binary) if binary.op.starts_with('>') && is_ratio(&binary.lhs) => match binary.rhs {
            Expr::Number(limit) if limit > 0.0 => Some(limit),
            _ => None,
        },
        _ => None,
    }
}

/// The query with the total in place of the free memory, if both sides have the same labels.
fn as_share(text: &str) -> Option<String> {
    let used = find_word(text, USED)?;
    let free = find_word(text, FREE)?;
    let labels = |from: usize| match text[from..].starts_with('{') {
        true => text[from..].find('}').map(|end| &text[from..=from + end]),
        false => Some(""),
    };
    let of_used = labels(used + USED.len())?;
    let of_free = labels(free + FREE.len())?;
    let between = text.get(used + USED.len() + of_used.len()..free)?;
    let end = free + FREE.len() + of_free.len();
    (of_used == of_free && between.trim() == "/" && find_word(&text[end..], USED).is_none())
        .then(|| format!("{}({USED}{of_used} + {FREE}{of_free}){}", &text[..free], &text[end..]))
}
