//! A trigger has a type that KEDA does not know.
//!
//! # Why
//! KEDA looks for a scaler of the trigger's `type`. Where the installed version has none, the object
//! is accepted, is never Ready, and the replicas stay where they are.
//!
//! # Fix
//! Write one of KEDA's types, or update KEDA where a later version brought the scaler. A scaler of
//! your own is of type `external` or `external-push`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    triggers:
//! -    - type: kubernetes-workloads # <-
//! +    - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/>

use crate::keda::removed::removed_type;
use crate::keda::scalers::{names, type_added_after};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-type-unknown",
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_trigger_type_unknown.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = trigger.kind()?;
    if trigger.scaler(ctx.platform().keda).is_some() {
        return None;
    }
    let node = trigger.node.get("type");
    let keda = ctx.platform().keda;
    if let Some(since) = type_added_after(kind, keda) {
        ctx.report(&node, format!("trigger type `{kind}` comes with KEDA {since}"))
            .help(format!("KEDA {keda} has no such scaler: update it, or use another"));
        return None;
    }
    let near = nearest(kind, names(keda));
    // A version newer than the table has more types; removed ones are reported by keda-removed-field.
    let may_be_new = keda > Product::Keda.newest() && near.is_none();
    if kind.is_empty() || may_be_new || removed_type(kind).is_some() {
        return None;
    }
    if kind.starts_with("kedify-") {
        ctx.report(&node, format!("`{}` is a trigger type of Kedify's build of KEDA", ellipsize(kind)))
            .severity(Severity::Info)
            .help("this is correct with Kedify's build; KEDA itself rejects the ScaledObject");
        return None;
    }
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use a scaler of KEDA {keda}: https://keda.sh/docs/latest/scalers/"),
    };
    ctx.report(&node, format!("KEDA has no trigger type `{}`", ellipsize(kind))).help(help);
    None
}
