//! Karpenter does not start, or starts no node, with the value of a setting.
//!
//! # Why
//! Karpenter's chart passes settings on as text, and checks none. `vmMemoryOverheadPercent` is a part of
//! one in spite of its name: `7.5` takes seven and a half times the memory of each instance type away, so
//! that no pod fits on any. Karpenter ends when it starts with a policy or a log level that it does not
//! know, such as `warn`, and with a `clusterEndpoint` that is not a URL. A duration or a number that it
//! cannot read is replaced by the default, and nothing says so.
//!
//! # Fix
//! Write the value in the form that Karpenter's reference of settings gives.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    upgrade: {crds: CreateReplace}
//!    chart:
//!      spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}
//!    values:
//!      settings:
//!        clusterName: prod
//!        interruptionQueue: prod
//! -      vmMemoryOverheadPercent: 5 # <-
//! +      vmMemoryOverheadPercent: 0.05
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/settings/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6612>

use crate::karpenter::installation::{INSTALLERS, set_option, set_value};
use crate::keda::value::number;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-setting-invalid",
    kinds: &INSTALLERS,
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("karpenter_setting_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// Settings with few values: the setting, its variable, and the values. Source: `Options.Parse` in
/// `pkg/operator/options/options.go` of kubernetes-sigs/karpenter 1.14.
const CHOICES: [(&str, &str, &[&str]); 2] = [
    ("preferencePolicy", "PREFERENCE_POLICY", &["Respect", "Ignore"]),
    ("minValuesPolicy", "MIN_VALUES_POLICY", &["Strict", "BestEffort"]),
];
const LOG_LEVELS: [&str; 3] = ["debug", "info", "error"];
/// Durations, which the same file reads with `env.WithDefaultDuration`.
const DURATIONS: [(&str, &str); 2] =
    [("batchMaxDuration", "BATCH_MAX_DURATION"), ("batchIdleDuration", "BATCH_IDLE_DURATION")];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() {
        return None;
    }
    overhead(object, ctx);
    for (setting, variable, values) in CHOICES {
        if let Some((place, text)) = set_option(object, setting, variable) {
            choice(&place, setting, &text, values, ctx);
        }
    }
    if let Some((place, text)) = set_value(object, &["logLevel"], "LOG_LEVEL") {
        choice(&place, "logLevel", &text, &LOG_LEVELS, ctx);
    }
    if let Some((place, text)) = set_option(object, "clusterEndpoint", "CLUSTER_ENDPOINT")
        && !is_url(&text)
    {
        let message = "this is not a URL: Karpenter ends when it starts".to_owned();
        report_place(&place, message, ctx)
            .rejected_by(Some(Authority::Karpenter))
            .help("write the address of the API server with `https://`, or leave it out");
    }
    for (setting, variable) in DURATIONS {
        let Some((place, text)) = set_option(object, setting, variable) else { continue };
        if !text.is_empty() && GoDuration::parse(&text).is_err() {
            let message =
                format!("Karpenter cannot read `{setting}: {}`, and takes the default", ellipsize(&text));
            report_place(&place, message, ctx)
                .severity(Severity::Warning)
                .help("write a number with a unit, such as `10s`");
        }
    }
    None
}

/// Source: `memory` in `pkg/providers/instancetype/types.go` of karpenter-provider-aws 1.14.
fn overhead(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let found = set_option(object, "vmMemoryOverheadPercent", "VM_MEMORY_OVERHEAD_PERCENT");
    let (place, text) = found.filter(|(_, text)| !text.is_empty())?;
    let Some(part) = number(text.trim()) else {
        let message = format!("Karpenter cannot read `{}`, and takes the default of 0.075", ellipsize(&text));
        report_place(&place, message, ctx)
            .severity(Severity::Warning)
            .help("write a part of one, such as 0.05 for 5 percent");
        return None;
    };
    if part < 0.0 {
        report_place(&place, "a negative overhead: Karpenter ends when it starts".to_owned(), ctx)
            .rejected_by(Some(Authority::Karpenter))
            .help("write a part of one, such as 0.05 for 5 percent");
    } else if part >= 1.0 {
        let message = format!("{text} is a part of one, not a percentage: no instance type has memory left");
        let finding = report_place(&place, message, ctx);
        finding.help("write a part of one, such as 0.05 for 5 percent: Karpenter starts no node for any pod");
        // Beyond that it is no percentage either.
        if part <= 50.0 && !place.is_in_text {
            let hundredth = (part * 1000.0).round() / 100_000.0;
            finding
                .fix(Fix::unsafe_(format!("write {hundredth}")).set(&place.node, of_kind(object, hundredth)));
        }
    }
    None
}

/// The value of a variable is text.
fn of_kind(object: &Object, value: f64) -> Value {
    if object.is(Kind::DEPLOYMENT) { json!(value.to_string()) } else { json!(value) }
}

fn choice(place: &ValuePlace<'_>, setting: &str, text: &str, values: &[&str], ctx: &mut Context<'_>) {
    if text.is_empty() || values.contains(&text) {
        return;
    }
    let message =
        format!("Karpenter does not know `{setting}: {}`, and ends when it starts", ellipsize(text));
    let near = values.iter().find(|value| value.eq_ignore_ascii_case(text)).copied();
    let help = match near.or_else(|| nearest(text, values.iter().copied())) {
        Some(near) => format!("write `{near}`"),
        None => format!("write `{}`", values.join("` or `")),
    };
    report_place(place, message, ctx).rejected_by(Some(Authority::Karpenter)).help(help);
}

/// Whether Go parses a text as an absolute URL with a host.
fn is_url(text: &str) -> bool {
    text.is_empty()
        || text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with(['/', ':', '?'])
        })
}
