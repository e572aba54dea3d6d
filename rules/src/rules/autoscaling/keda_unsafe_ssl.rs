//! A trigger does not verify the certificate of the server that it asks.
//!
//! # Why
//! With `unsafeSsl: "true"` KEDA accepts every certificate. Whoever answers in the server's place decides
//! how many replicas run, and receives the credentials of the trigger. With credentials that is a warning,
//! without it is advice.
//!
//! # Fix
//! Remove `unsafeSsl`, and give the certificate authority as `ca` in a TriggerAuthentication, or mount it
//! into KEDA's operator for all triggers.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: https://prometheus.monitoring:9090
//!          query: sum(queue_length)
//!          threshold: "5"
//!          authModes: bearer
//! -        unsafeSsl: "true" # <-
//!        authenticationRef: {name: prometheus}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/operate/cluster/#custom-certificate-authorities>
//! - <https://keda.sh/docs/latest/scalers/prometheus/>

use crate::keda::value::boolean;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-unsafe-ssl",
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_unsafe_ssl.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let scaler = trigger.scaler(ctx.platform().keda)?;
    let node = trigger.metadata().get("unsafeSsl");
    if !scaler.keys.iter().any(|key| key.name == "unsafeSsl") || boolean(node.text()?.trim()) != Some(true) {
        return None;
    }
    let credentials = trigger.has_authentication();
    let message = if credentials {
        "credentials are sent to a server whose certificate is not verified"
    } else {
        "the certificate of the server is not verified"
    };
    ctx.report(&node, message)
        .help("remove `unsafeSsl`, and give KEDA the certificate authority")
        .severity(if credentials { Severity::Warning } else { Severity::Info })
        .fix(Fix::unsafe_("verify the certificate").remove(&node));
    None
}
