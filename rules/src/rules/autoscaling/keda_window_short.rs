//! A Datadog trigger looks back less than a minute.
//!
//! # Why
//! Datadog has points of most metrics with a delay, and aggregates them by the interval of their source. In a
//! window below 60 seconds there is often none yet: KEDA logs a warning when it reads `age`, and the trigger
//! then fails with "no matching metrics found", or counts `metricUnavailableValue`, at one poll and not at
//! the next. The default is 90. With the proxy of the cluster agent `age` is not read.
//!
//! # Fix
//! Write 60 or more in `age`, or leave it out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: gateway}
//!  spec:
//!    scaleTargetRef: {name: gateway}
//!    minReplicaCount: 1
//!    triggers:
//!      - type: datadog
//!        metadata:
//!          query: sum:requests.waiting{env:prod}
//!          queryValue: "20"
//! -        age: "20" # <-
//! +        age: "120"
//!        authenticationRef: {name: datadog}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/datadog/>
//! - <https://github.com/kedacore/keda/issues/2657>

use crate::keda::value::{boolean, whole};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-window-short",
    docs: docs(include_str!("keda_window_short.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The window below which KEDA logs a warning (`datadog_scaler.go`, KEDA 2.12 to 2.21).
const LEAST: i64 = 60;

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let metadata = trigger.metadata();
    let (age, proxy) = (metadata.get("age"), metadata.get("useClusterAgentProxy"));
    if trigger.kind() != Some("datadog")
        || !(proxy.is_absent() || proxy.text().and_then(boolean) == Some(false))
    {
        return None;
    }
    // A negative one is rejected.
    let seconds = age.text().and_then(whole).filter(|seconds| (0..LEAST).contains(seconds))?;
    ctx.report(&age, format!("a window of {seconds} s is shorter than the delay of most metrics in Datadog"))
        .help("write 60 or more, or leave `age` out: the default is 90");
    None
}
