//! A step of a workflow on Spot nodes is not tried again when its pod is deleted.
//!
//! # Why
//! A step that Argo tries again by `retryStrategy` has one of two faults: a container that ends with an error is
//! a failure, and a pod that is deleted is an error. Without `retryPolicy` failures alone are tried again, so a
//! step whose pod goes with a Spot node ends the workflow, whatever its `limit` is. Where the kubelet ends the
//! pods of a node that is shut down, they have failed: it depends on who is first, and `Always` is right in both
//! cases.
//!
//! Reported are steps that run on Spot nodes alone. An `expression` decides by itself, and with one the policy is
//! `Always` by default.
//!
//! # Fix
//! Write `retryPolicy: Always`, with an `expression` if errors of the program should end the workflow.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Workflow
//!  metadata: {name: embed}
//!  spec:
//!    entrypoint: embed
//!    activeDeadlineSeconds: 14400
//!    templates:
//!      - name: embed
//! -      retryStrategy: {limit: "5"} # <-
//! +      retryStrategy: {limit: "5", retryPolicy: Always}
//!        nodeSelector: {karpenter.sh/capacity-type: spot}
//!        container:
//!          image: example.com/embed:1.4.0
//!          command: [python, embed.py]
//!          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://argo-workflows.readthedocs.io/en/latest/tolerating-pod-deletion/>
//! - <https://argo-workflows.readthedocs.io/en/latest/retries/#retry-policies>
//! - <https://github.com/argoproj/argo-workflows/issues/9880>

use crate::rules::prelude::*;
use crate::rules::spot_use::{SpotUse, spot_use};
use crate::workload::template::workflow_spec;

const KINDS: [Kind; 4] = [
    Kind::ARGO_WORKFLOW,
    Kind::new("argoproj.io", "WorkflowTemplate"),
    Kind::new("argoproj.io", "ClusterWorkflowTemplate"),
    Kind::new("argoproj.io", "CronWorkflow"),
];

pub(crate) static RULE: Rule = Rule {
    id: "workflow-retry-misses-node-loss",
    kinds: &KINDS,
    reads: &[Kind::NODE_POOL, Kind::CONFIG_MAP],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("workflow_retry_misses_node_loss.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

/// The ConfigMap of Argo's controller, which may have defaults for all workflows.
const SETTINGS: &str = "workflow-controller-configmap";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let of_all = workflow_spec(object)?.get("retryStrategy");
    let sets_policy = |settings: &Object| {
        let defaults = settings.path(&["data", "workflowDefaults"]);
        settings.name() == SETTINGS && defaults.raw_text().is_some_and(|text| text.contains("retryPolicy"))
    };
    if object.may_lack_fields() || ctx.cluster().of(Kind::CONFIG_MAP).any(sets_policy) {
        return None;
    }
    let mut told: Vec<Pointer> = Vec::new();
    for template in templates(object) {
        let own = template.spec.get("retryStrategy");
        let strategy = if own.is_set() { own } else { of_all.clone() };
        if !tries_failures_alone(&strategy) || told.contains(&strategy.pointer()) {
            continue;
        }
        let pool = match spot_use(&template, ctx) {
            Some(SpotUse::Required) => None,
            Some(SpotUse::Only(pool)) => Some(pool),
            _ => continue,
        };
        told.push(strategy.pointer());
        let policy = strategy.get("retryPolicy");
        let message = "a step on Spot nodes is not tried again when its pod is deleted: that is an error, not a failure";
        let finding = ctx.report(&policy, message);
        finding
            .help("write `retryPolicy: Always`")
            .fix(Fix::unsafe_("try again after both").set(&policy, json!("Always")));
        if let Some(pool) = &pool {
            let pool = pool.object();
            finding.related(pool, &pool.path(&["metadata", "name"]), "it starts Spot nodes alone");
        }
    }
    None
}

/// Whether a strategy surely tries again after failures alone, the default without an `expression` (Argo Workflows 3.0 to 3.7).
fn tries_failures_alone(strategy: &Node<'_>) -> bool {
    let policy = strategy.get("retryPolicy");
    let never = strategy.get("limit").string_or_number().is_some_and(|limit| limit == "0");
    strategy.is_set()
        && !strategy.has_unknown_key()
        && !strategy.get("expression").is_set()
        && !never
        && (!policy.is_set() || policy.text() == Some("OnFailure"))
}
