//! An object uses the API group of KEDA 1, which KEDA 2 does not read.
//!
//! # Why
//! `keda.k8s.io/v1alpha1` was KEDA 1's group. KEDA 2 watches `keda.sh`, so the object is rejected
//! where the old CRD is gone and ignored where it is left over: the Deployment stays at the number
//! of replicas it has, GPUs included.
//!
//! # Fix
//! Use `keda.sh/v1alpha1`, with `scaleTargetRef.name` instead of `deploymentName`. What had
//! `scaleType: job` becomes a ScaledJob. The keys of some triggers changed as well: look each up.
//!
//! # Example
//! ```yaml,diff
//! -apiVersion: keda.k8s.io/v1alpha1 # <-
//! +apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: embedder}
//!  spec:
//! -  scaleTargetRef: {deploymentName: embedder}
//! +  scaleTargetRef: {name: embedder}
//!    minReplicaCount: 1
//!    maxReplicaCount: 4
//!    triggers:
//!      - type: rabbitmq
//!        metadata:
//!          queueName: work
//!          mode: QueueLength
//!          value: "20"
//!          hostFromEnv: RABBIT
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/migration/>

use crate::migration::keda;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-legacy-api",
    kinds: &[Kind::new("keda.k8s.io", "ScaledObject"), Kind::new("keda.k8s.io", "TriggerAuthentication")],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("keda_legacy_api.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let finding = ctx.report(&object.get("apiVersion"), "KEDA 2 does not read the group `keda.k8s.io`");
    match keda::convert(object) {
        Ok(fix) if object.path(&["spec", "scaleType"]).text() == Some("job") => {
            finding.help("write a `keda.sh/v1alpha1` ScaledJob without `scaleType`").fix(fix);
        }
        Ok(fix) if object.kind() != "ScaledObject" => {
            finding.help("write `keda.sh/v1alpha1`").fix(fix);
        }
        Ok(fix) => {
            finding.help("write `keda.sh/v1alpha1`, and `scaleTargetRef.name` for `deploymentName`").fix(fix);
        }
        Err(reason) => {
            finding.help(reason);
        }
    }
    None
}
