//! A TriggerAuthentication uses a pod identity that KEDA will remove.
//!
//! # Why
//! KEDA deprecated the pod identity provider `aws-eks` in 2.13, in favour of `aws`. The operator still reads
//! it and logs a warning; its removal is announced for KEDA 3. Every trigger that names the object then
//! loses its credentials.
//!
//! # Fix
//! Write `provider: aws`. By default it takes the role of KEDA's own service account, where `aws-eks` took
//! the role of the workload's: write `identityOwner: workload` to keep that, or a `roleArn` which KEDA's
//! role may assume. Because the trust policies of the roles may have to change with it, there is no
//! automatic fix.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: TriggerAuthentication
//!  metadata: {name: queue, namespace: chat}
//!  spec:
//!    podIdentity:
//! -    provider: aws-eks # <-
//! +    provider: aws
//! +    identityOwner: workload
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/authentication-providers/aws-eks/>
//! - <https://keda.sh/docs/latest/authentication-providers/aws/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-deprecated",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("keda_auth_deprecated.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // `awsSecretManager` has a separate pod identity.
    for holder in [&["spec"][..], &["spec", "awsSecretManager"]] {
        let provider = object.path(holder).path(&["podIdentity", "provider"]);
        if provider.text() == Some("aws-eks") {
            ctx.report(&provider, "pod identity `aws-eks` is deprecated since KEDA 2.13 and will be removed")
                .help("write `aws`, with `identityOwner: workload` or a `roleArn` to keep another role than KEDA's");
        }
    }
    None
}
