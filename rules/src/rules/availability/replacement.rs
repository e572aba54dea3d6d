//! What operators start beside a running workload while they replace it.

use super::kserve::{self, Mode};
use crate::cluster::views::disruptions::IntOrPercent;
use crate::rules::prelude::*;
use crate::workload::gang::{Members, members};

/// A replacement of a workload: the pods that run at its peak, and how to need fewer.
pub(super) struct Replacement<'a> {
    /// The pods while the old ones and the new ones run.
    pub peak: Vec<Members<'a>>,
    /// What happens, as the subject of the message: "an upgrade".
    pub event: &'static str,
    /// The field that decides, which may be absent.
    pub field: Node<'a>,
    pub help: &'static str,
    /// The value of the field with which no more pods run than before, if there is one.
    pub frugal: Option<Value>,
}

/// The replacement of a workload of an operator, if it starts new pods before the old ones end.
pub(super) fn replacement<'a>(object: &'a Object, ctx: &Context<'_>) -> Option<Replacement<'a>> {
    let spec = object.get("spec");
    if spec.has_unknown_key() || is_suspended(object) != Some(false) {
        return None;
    }
    if object.is(Kind::RAY_SERVICE) {
        return ray_service(object, &spec);
    }
    if object.is(Kind::LEADER_WORKER_SET) {
        return group_set(object, &spec);
    }
    if object.is(Kind::ROLLOUT) {
        return argo_rollout(object, &spec);
    }
    if object.is(Kind::INFERENCE_SERVICE) {
        return inference_service(object, &spec, ctx);
    }
    knative(object, &spec)
}

/// All members, with as many more pods of each as a share of them.
fn with_surge<'a>(object: &'a Object, more: impl Fn(i64) -> i64) -> Option<Vec<Members<'a>>> {
    let grown =
        |member: Members<'a>| Members { pods: member.pods.saturating_add(more(member.pods)), ..member };
    Some(members(object)?.into_iter().map(grown).collect())
}

/// KubeRay starts a second RayCluster, and ends the first one when the second one serves:
/// <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/rayservice.html>.
fn ray_service<'a>(object: &'a Object, spec: &Node<'a>) -> Option<Replacement<'a>> {
    let strategy = spec.get("upgradeStrategy");
    let kind = strategy.get("type");
    if strategy.is_unknown() || kind.is_unknown() {
        return None;
    }
    let share = match kind.text() {
        Some("None") => return None,
        Some("NewClusterWithIncrementalUpgrade") => {
            strategy.path(&["clusterUpgradeOptions", "maxSurgePercent"]).int_or(100)?
        }
        _ => 100,
    };
    Some(Replacement {
        peak: with_surge(object, |pods| (pods.saturating_mul(share) + 99) / 100)?,
        event: "an upgrade",
        field: strategy,
        help: "write `upgradeStrategy: {type: None}`, or raise the limit to hold both clusters",
        frugal: Some(json!({"type": "None"})),
    })
}

/// Groups beyond the replicas: `maxSurge`, which is 0 by default.
fn group_set<'a>(object: &'a Object, spec: &Node<'a>) -> Option<Replacement<'a>> {
    let field = spec.path(&["rolloutStrategy", "rollingUpdateConfiguration", "maxSurge"]);
    let surge = field.is_set().then(|| IntOrPercent::read(&field))??;
    let replicas = spec.get("replicas").int_or(1)?;
    let groups = surge.of(replicas, true);
    if groups == 0 || replicas < 1 {
        return None;
    }
    Some(Replacement {
        peak: with_surge(object, |pods| pods / replicas * groups)?,
        event: "a rollout",
        field,
        help: "write `maxSurge: 0`, or raise the limit",
        frugal: Some(json!(0)),
    })
}

/// Blue and green run beside each other; a canary has a surge of a quarter by default.
fn argo_rollout<'a>(object: &'a Object, spec: &Node<'a>) -> Option<Replacement<'a>> {
    let strategy = spec.get("strategy");
    if strategy.has_unknown() || spec.get("workloadRef").is_set() {
        return None;
    }
    let replicas = spec.get("replicas").int_or(1)?;
    let blue_green = strategy.get("blueGreen");
    if blue_green.is_set() {
        let preview = blue_green.get("previewReplicaCount").int_or(replicas)?;
        return Some(Replacement {
            peak: with_surge(object, |_| preview)?,
            event: "a rollout",
            field: blue_green,
            help: "set `previewReplicaCount`, use a canary with `maxSurge: 0`, or raise the limit",
            frugal: None,
        });
    }
    let canary = strategy.get("canary");
    let field = canary.get("maxSurge");
    let surge = if field.is_set() { IntOrPercent::read(&field)? } else { IntOrPercent::Percent(25) };
    let more = surge.of(replicas, true);
    if !canary.is_set() || more == 0 {
        return None;
    }
    Some(Replacement {
        peak: with_surge(object, |_| more)?,
        event: "a rollout",
        field,
        help: "write `maxSurge: 0` and `maxUnavailable: 1`, or raise the limit",
        frugal: None,
    })
}

/// A canary of KServe is a second revision with as many replicas at least. Without Knative KServe makes a Deployment, with
/// `maxSurge` and `maxUnavailable` of 25 % by default (`setDefaultDeploymentSpec` in `deployment_reconciler.go`). Its ConfigMap may
/// have other defaults for the mode and for the strategy.
fn inference_service<'a>(object: &'a Object, spec: &Node<'a>, ctx: &Context<'_>) -> Option<Replacement<'a>> {
    let predictor = spec.get("predictor");
    let is_deployment = kserve::mode(object, ctx) == Some(Mode::Deployments);
    if is_deployment {
        let replacement = kserve_deployment(object, &predictor)?;
        return (!kserve::configs(ctx).any(may_have_strategy)).then_some(replacement);
    }
    let field = predictor.get("canaryTrafficPercent");
    let percent = field.int().filter(|percent| (1..100).contains(percent));
    percent?;
    let replicas = predictor.get("minReplicas").int_or(1)?;
    Some(Replacement {
        peak: of_first_template(object, replicas.saturating_mul(2), predictor.get("minReplicas"))?,
        event: "a canary",
        field,
        help: "raise the limit to hold both revisions, or lower `minReplicas`",
        frugal: None,
    })
}

/// Whether the ConfigMap of KServe may have a strategy for all Deployments. `_example` explains the others.
fn may_have_strategy(config: &Object) -> bool {
    let has = |text: &str| text.contains("maxSurge") || text.contains("RolloutStrategy");
    let mut entries = config.get("data").entries().into_iter().filter(|(key, _)| *key != "_example");
    config.may_lack_fields() || entries.any(|(_, entry)| entry.raw_text().is_some_and(has))
}

fn kserve_deployment<'a>(object: &'a Object, predictor: &Node<'a>) -> Option<Replacement<'a>> {
    let strategy = predictor.get("deploymentStrategy");
    let rolling = strategy.get("rollingUpdate");
    let replicas = predictor.get("minReplicas").int_or(1)?;
    if strategy.has_unknown()
        || strategy.get("type").text() == Some("Recreate")
        || predictor.get("workerSpec").is_set()
        || replicas < 1
    {
        return None;
    }
    let share = |name: &str, up: bool| {
        let field = rolling.get(name);
        let value = if field.is_set() { IntOrPercent::read(&field)? } else { IntOrPercent::Percent(25) };
        Some(value.of(replicas, up))
    };
    let more = share("maxSurge", true)?;
    // One that may be unavailable ends first, and leaves its GPUs.
    if more == 0 || share("maxUnavailable", false)? > 0 {
        return None;
    }
    Some(Replacement {
        peak: of_first_template(object, replicas.saturating_add(more), predictor.get("minReplicas"))?,
        event: "a rollout",
        field: strategy,
        help: "write `maxSurge: 0` and `maxUnavailable: 1`, or raise the limit",
        frugal: Some(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})),
    })
}

/// Knative starts a new revision with all its replicas before it ends the old one.
fn knative<'a>(object: &'a Object, spec: &Node<'a>) -> Option<Replacement<'a>> {
    let annotations = spec.path(&["template", "metadata", "annotations"]);
    let names = ["autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale"];
    let field = names.iter().map(|name| annotations.get(name)).find(Node::is_set)?;
    let replicas: i64 = field.text()?.parse().ok()?;
    if replicas < 1 {
        return None;
    }
    Some(Replacement {
        peak: of_first_template(object, replicas.saturating_mul(2), field.clone())?,
        event: "a new revision",
        field,
        help: "raise the limit to hold both revisions, or lower the minimum",
        frugal: None,
    })
}

fn of_first_template<'a>(object: &'a Object, pods: i64, field: Node<'a>) -> Option<Vec<Members<'a>>> {
    // Further templates are workers of one replica.
    let mut all = templates(object).into_iter();
    let (template, None) = (all.next()?, all.next()) else { return None };
    Some(vec![Members { template, pods, field }])
}
