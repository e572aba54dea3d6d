//! A ScaledJob has a rollout strategy that KEDA has deprecated or removed.
//!
//! # Why
//! KEDA 2.20 removed the strategy `default` from the definition, so the API server rejects the
//! object. `spec.rolloutStrategy` has been deprecated since 2.8, which moved it to
//! `rollout.strategy`.
//!
//! # Fix
//! Write `rollout.strategy`, with `immediate` in place of `default`: it means the same.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledJob
//!  metadata: {name: convert}
//!  spec:
//! -  rollout: {strategy: default} # <-
//! +  rollout: {strategy: immediate}
//!    jobTargetRef:
//!      template:
//!        spec:
//!          restartPolicy: Never
//!          containers: [{name: main, image: example.com/convert:1.0.0}]
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledjob-spec/>
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-rollout-strategy-removed",
    kinds: &[Kind::SCALED_JOB],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Keda],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("keda_rollout_strategy_removed.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let since = Version::new(2, 20);
    let old = object.path(&["spec", "rolloutStrategy"]);
    let strategy = object.path(&["spec", "rollout", "strategy"]);
    for node in [&old, &strategy] {
        if node.text() == Some("default") {
            let gone = ctx.platform().keda >= since;
            ctx.report(node, format!("rollout strategy `default` is rejected since KEDA {since}"))
                .help("write `immediate`, which means the same")
                .fix(Fix::safe("write `immediate`").set(node, json!("immediate")))
                .severity(if gone { Severity::Error } else { Severity::Warning })
                // The schemas describe newer versions: invalid-value leaves this field to this rule.
                .rejected_by(Some(Authority::ApiServer));
        }
    }
    if matches!(old.text(), Some("gradual" | "immediate")) {
        let finding = ctx.report(&old, "`rolloutStrategy` is deprecated since KEDA 2.8");
        finding.at_key().help("write it as `rollout.strategy`").severity(Severity::Warning);
        if strategy.is_absent() {
            finding.fix(Fix::safe("move it to `rollout.strategy`").move_to(&old, &strategy));
        }
    }
    None
}
