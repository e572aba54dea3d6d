//! Runners of GitHub Actions: a job is lost with its runner, and nothing starts it again.
//!
//! The Actions Runner Controller copies the annotations of the template to the pods: those of an
//! AutoscalingRunnerSet (0.4 and later), of the values `template` of its chart `gha-runner-scale-set`, and of
//! the legacy kinds.

use super::do_not_disrupt_missing::{NAMES, is_spot_only};
use crate::cluster::views::disruptions::allows_none;
use crate::karpenter::do_not_disrupt::keeps_busy_nodes;
use crate::rules::gpu::report_value;
use crate::rules::karpenter_in_use::uses_karpenter;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, is_for_other_cluster, target_namespace};
use crate::workload::node_labels::{is_off_karpenter, names_karpenter};

/// What starts runners, beside the AutoscalingRunnerSet, which is a workload.
pub(super) const KINDS: [Kind; 4] =
    [Kind::RUNNER_DEPLOYMENT, Kind::RUNNER_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

/// The chart of an AutoscalingRunnerSet.
const CHART: &str = "gha-runner-scale-set";

/// Reports runners that Karpenter may evict. `None` if the object starts none.
pub(super) fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        if !is_for_other_cluster(object) {
            for_each_values(object, CHART, |values| {
                let template = template_of(object, &values.root.get("template"));
                // The annotation may be in the values that are set elsewhere.
                if !values.may_differ {
                    inspect(object, &template, values, ctx);
                }
            });
        }
        return Some(());
    }
    let is_legacy = object.is(Kind::RUNNER_DEPLOYMENT) || object.is(Kind::RUNNER_SET);
    if !is_legacy && !object.is(Kind::AUTOSCALING_RUNNER_SET) {
        return None;
    }
    let template = template_of(object, &object.path(&["spec", "template"]));
    let ephemeral = if object.is(Kind::RUNNER_SET) {
        object.path(&["spec", "ephemeral"])
    } else {
        template.spec.get("ephemeral")
    };
    // A runner that waits for the next job would keep its node forever.
    let stays = is_legacy && (ephemeral.is_unknown() || ephemeral.bool() == Some(false));
    if !stays && !object.may_lack_fields() && !object.is_owned() {
        let values = ChartValues { root: &object.root(), text: None, may_differ: false };
        inspect(object, &template, &values, ctx);
    }
    Some(())
}

fn template_of<'a>(object: &'a Object, node: &Node<'a>) -> Template<'a> {
    Template { metadata: node.get("metadata"), spec: node.get("spec"), place: (object, 0) }
}

fn inspect(
    object: &Object,
    template: &Template<'_>,
    values: &ChartValues<'_, '_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let annotations = template.metadata.get("annotations");
    let is_unknown = [&template.metadata, &annotations, &template.spec]
        .iter()
        .any(|node| node.is_unknown() || node.has_unknown_key());
    let shown = uses_karpenter(ctx) || names_karpenter(template);
    if is_unknown
        || !shown
        || NAMES.iter().any(|name| annotations.get(name).is_set())
        || is_spot_only(template)
        || is_off_karpenter(template)
    {
        return None;
    }
    let found = ctx.pools_for(template);
    let pools = found.as_ref().and_then(|found| found.all_known());
    // Nodes that are protected, or no pool: other nodes take the pods.
    if pools.is_some_and(|pools| pools.iter().all(|pool| keeps_busy_nodes(pool.object()))) {
        return None;
    }
    // A PDB that allows no eviction protects them as well; pdb-blocks-evictions reports it.
    let is_chart = CHART_KINDS.iter().any(|kind| object.is(*kind));
    let namespace = if is_chart { target_namespace(object) } else { Some(object.namespace_or_default()) };
    let budgets = namespace.map(|namespace| ctx.cluster().views().pdbs_of(namespace, template).0);
    if budgets.is_some_and(|budgets| budgets.iter().any(|budget| allows_none(budget))) {
        return None;
    }
    let ends_empty = |pool: &Object| {
        NodePool::new(pool).is_some_and(|pool| pool.consolidation_policy() == Some("WhenEmpty"))
    };
    let only_empty = pools.is_some_and(|pools| pools.iter().all(|pool| ends_empty(pool.object())));
    let node = annotations.get(DO_NOT_DISRUPT);
    let message = format!(
        "runners of `{}` may be evicted with their node: the job ends and is not started again",
        object.display_name()
    );
    let fix = Fix::new("protect the runners", Safety::Unsafe).set(&node, json!("true"));
    let is_info = only_empty || is_example(object);
    let finding = report_value(values, &node, message, ctx);
    finding
        .severity(if is_info { Severity::Info } else { Severity::Warning })
        .help("annotate their pods with `karpenter.sh/do-not-disrupt: \"true\"`");
    if values.text.is_none() {
        finding.fix(fix);
    }
    Some(())
}
