//! Karpenter starts no node for pods with resource claims.
//!
//! # Why
//! Karpenter leaves pods with `resourceClaims` alone: by default it ignores them
//! (`IGNORE_DRA_REQUESTS`), and its provider for AWS does not know which devices a new node would have.
//! Such pods run only on nodes that are there already, of a managed node group or a static NodePool. It
//! is advice where the pods do not select nodes of Karpenter.
//!
//! # Fix
//! Run pods with claims on a managed node group or a static NodePool, selected by its label; or ask for
//! `nvidia.com/gpu` through the device plugin.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//! -      nodeSelector: {karpenter.sh/nodepool: gpu}
//! -      resourceClaims: # <-
//! +      nodeSelector: {eks.amazonaws.com/nodegroup: gpu-claims}
//! +      resourceClaims:
//!          - {name: gpu, resourceClaimTemplateName: single-gpu}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, claims: [{name: gpu}]}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/settings/>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1231>

use crate::rules::gpu::is_left_alone;
use crate::rules::karpenter_in_use::{
    READS, are_no_others, is_on_karpenter, is_surely_on_karpenter, karpenter_object, shown_by,
};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "dra-not-provisioned",
    kinds: WORKLOAD_KINDS,
    reads: READS,
    docs: docs(include_str!("dra_not_provisioned.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        let claims = template.spec.get("resourceClaims");
        if claims.items().next().is_none()
            || template.spec.get("nodeName").is_set()
            || is_left_alone(object, ctx)
        {
            continue;
        }
        // The node may exist for the GPUs that the pods request as well.
        if requests_accelerator(&template) || !is_on_karpenter(&template, ctx) {
            continue;
        }
        if ctx.cluster().views().has_static_pool() {
            continue;
        }
        let surely = is_surely_on_karpenter(&template, ctx) || are_no_others(&template, ctx);
        let severity = if surely { Severity::Warning } else { Severity::Info };
        let name = object.display_name();
        let message = format!("`{name}` has resource claims, and Karpenter starts no node for such pods");
        let shown = karpenter_object(ctx);
        let finding = ctx.report(&claims, message);
        finding
            .at_key()
            .severity(severity)
            .help("select nodes that already exist: of a managed node group or a static NodePool");
        shown_by(finding, shown);
    }
    None
}
