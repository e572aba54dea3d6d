//! An annotation pauses or restricts the scaling of a ScaledObject or ScaledJob.
//!
//! # Why
//! While `autoscaling.keda.sh/paused` or `paused-replicas` is set, KEDA deletes the HPA. With `paused` alone
//! the replicas stay where they are; with `paused-replicas`, also beside `paused`, KEDA scales to that number.
//! Meant for an incident, both are easily left in Git. Every value of `paused` but `"false"` pauses,
//! `"no"` and the empty one included, and `paused-replicas` pauses whatever `paused` says. A
//! `paused-replicas` that is not an integer deletes the HPA and then fails each reconciliation.
//! With `paused-replicas: "0"` a workload is switched off, mostly on purpose: it is information.
//! `paused-scale-in` and `paused-scale-out` stop one direction, and `force-activation` keeps the workload
//! from going to zero.
//!
//! # Fix
//! Remove the annotation, or suppress the finding with the date on which it goes.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata:
//!    name: llm
//! -  annotations: {autoscaling.keda.sh/paused: "no"} # <-
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#pause-autoscaling>
//! - <https://keda.sh/docs/latest/concepts/scaling-jobs/#pause-autoscaling>

use crate::facts::text::lines_upwards;
use crate::keda::paused::is_on;
use crate::keda::value::boolean;
use crate::rules::autoscaling::scale_target::rests_at_zero;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-paused",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_paused.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

const PREFIX: &str = "autoscaling.keda.sh/";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let annotations = object.path(&["metadata", "annotations"]);
    if !annotations.entries().iter().any(|(key, _)| key.starts_with(PREFIX)) {
        return None;
    }
    let get = |name: &str| annotations.get(&format!("{PREFIX}{name}"));
    let on = |name: &str| is_on(object, name) == Some(true);
    let scaled = object.is(Kind::SCALED_OBJECT);
    let subject = ellipsize(object.name());
    let off = "nothing to do if it is switched off on purpose; to start it again, remove the annotation";
    let remove = "remove the annotation, or suppress this until it goes";
    let report = |ctx: &mut Context<'_>, node: &Node<'_>, severity: Severity, message: String, help: &str| {
        let whole = if annotations.entries().len() == 1 { &annotations } else { node };
        let finding = ctx.report(node, message).severity(severity).help(help);
        // What is switched off on purpose stays so.
        if severity > Severity::Info {
            finding.fix(Fix::unsafe_("remove the annotation").remove(whole));
        }
    };
    let advice = |node: &Node<'_>| match has_comment_on_pause(object, node) {
        true => (Severity::Info, off),
        false => (Severity::Warning, remove),
    };
    let paused = get("paused");
    let at = get("paused-replicas");
    let number = at.text().and_then(|text| text.parse::<i32>().ok());
    if let Some(number) = number.filter(|_| scaled && on("paused")) {
        let message = format!("`{subject}` is paused at {number} replicas: KEDA deletes its HPA");
        let (severity, help) = match advice(&paused) {
            (severity, _) if number == 0 || severity == Severity::Info => (Severity::Info, off),
            (severity, _) => (severity, "remove both annotations, or suppress this until they go"),
        };
        let finding = ctx.report(&at, message).severity(severity).help(help);
        if severity > Severity::Info {
            finding.fix(Fix::unsafe_("remove both annotations").remove(&paused).remove(&at));
        }
    } else if on("paused") {
        let text = paused.text().unwrap_or_default();
        let message = match boolean(text) {
            None => {
                format!("`paused: \"{}\"` pauses `{subject}`: every value but `false` does", ellipsize(text))
            }
            _ if scaled => {
                format!("`{subject}` is paused: KEDA deletes its HPA, and the replicas stay where they are")
            }
            _ => format!("`{subject}` is paused: KEDA creates no Jobs"),
        };
        let (severity, help) = advice(&paused);
        report(ctx, &paused, severity, message, help);
    }
    if !scaled {
        return None;
    }
    if let Some(text) = at.text() {
        if text.parse::<i32>().is_err() {
            let message = format!(
                "`paused-replicas: \"{}\"` is not an integer: KEDA deletes the HPA and fails",
                ellipsize(text)
            );
            report(ctx, &at, Severity::Error, message, "write an integer, or remove the annotation");
        } else if !on("paused") {
            let message = if paused.is_set() {
                format!(
                    "`paused-replicas` holds `{subject}` at {text} replicas, although `paused` is `false`"
                )
            } else {
                format!("`{subject}` is paused at {text} replicas: KEDA deletes its HPA")
            };
            if text.parse() == Ok(0) {
                report(ctx, &at, Severity::Info, message, off);
            } else {
                let (severity, help) = advice(&at);
                report(ctx, &at, severity, message, help);
            }
        }
    }
    let zero = rests_at_zero(object);
    let (inward, outward, forced) =
        (get("paused-scale-in"), get("paused-scale-out"), get("force-activation"));
    if on("paused-scale-in") {
        report(ctx, &inward, Severity::Warning, format!("`{subject}` never scales in"), remove);
    }
    if on("paused-scale-out") {
        let message = if zero == Some(true) {
            format!("`{subject}` never scales out: once at 0 replicas it stays there")
        } else {
            format!("`{subject}` never scales out")
        };
        report(ctx, &outward, Severity::Warning, message, remove);
    }
    if on("force-activation") && zero == Some(true) {
        report(ctx, &forced, Severity::Warning, format!("`{subject}` never scales to zero"), remove);
    }
    None
}

/// Whether a comment above an annotation, or beside it, says that scaling is paused.
fn has_comment_on_pause(object: &Object, node: &Node<'_>) -> bool {
    const NEAR: usize = 30;
    let Some((origin, span)) = object.origin().zip(node.span()) else { return false };
    let lines = lines_upwards(origin.source.text(), span.start as usize);
    let lines = lines.take_while(|line| !line.starts_with("---")).take(NEAR);
    let mut comments = lines.filter_map(|line| Some(line.split_once('#')?.1.to_ascii_lowercase()));
    // A name of a field, or an annotation that is commented out, says nothing about this one.
    comments.any(|comment| {
        comment.contains("paus") && !["`paus", "keda.sh/"].iter().any(|name| comment.contains(name))
    })
}
