//! A TriggerAuthentication uses a pod identity that KEDA removed.
//!
//! # Why
//! The pod identities `azure` (AAD Pod Identity) and `aws-kiam` are no longer in the definition since
//! KEDA 2.15, because the projects behind them have ended. The API server rejects the object, and
//! every trigger that names it has no credentials.
//!
//! # Fix
//! Set up `azure-workload` or `aws`. Both need roles of their own, so there is no automatic fix.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: queue}
//!  spec:
//! -  podIdentity: {provider: aws-kiam} # <-
//! +  podIdentity: {provider: aws}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/#pod-authentication-providers>
//! - <https://github.com/kedacore/keda/blob/main/CHANGELOG.md>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-pod-identity-removed",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    rejected_by: &[Authority::ApiServer],
    depends_on: &[Product::Keda],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("keda_pod_identity_removed.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let since = Version::new(2, 15);
    let spec = object.get("spec");
    let vaults = ["awsSecretManager", "azureKeyVault", "gcpSecretManager"];
    for holder in std::iter::once(spec.clone()).chain(vaults.map(|vault| spec.get(vault))) {
        let provider = holder.path(&["podIdentity", "provider"]);
        let (name, instead) = match provider.text() {
            Some(name @ "aws-kiam") => (name, "aws"),
            Some(name @ "azure") => (name, "azure-workload"),
            _ => continue,
        };
        let gone = ctx.platform().keda >= since;
        ctx.report(&provider, format!("pod identity `{name}` is gone since KEDA {since}"))
            .help(format!("set up `{instead}`: it needs roles of its own"))
            .severity(if gone { Severity::Error } else { Severity::Warning })
            // The schemas describe newer versions: invalid-value leaves this field to this rule.
            .rejected_by(Some(Authority::ApiServer));
    }
    None
}
