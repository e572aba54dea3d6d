//! Argo Rollouts rejects the spec of a Rollout.
//!
//! # Why
//! The CRD of Rollouts accepts what the controller then rejects: steps and settings that need a router for
//! traffic where `trafficRouting` is missing, one Service for both versions, a router without the two Services,
//! a deadline within `minReadySeconds`, and zero for both `maxSurge` and `maxUnavailable`. The Rollout gets the
//! condition InvalidSpec and stays as it is: a new version is not started, and a new Rollout has no pods.
//! A Service of the strategy has to select by labels of the pod template alone: those of `stableMetadata` and
//! `canaryMetadata` do not count.
//!
//! # Fix
//! Remove the setting, or add the router that it needs. Without one, `setWeight` decides by the number of pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Rollout
//!  metadata: {name: router, namespace: edge}
//!  spec:
//!    replicas: 4
//!    selector: {matchLabels: {app: router}}
//!    template:
//!      metadata: {labels: {app: router}}
//!      spec:
//!        containers:
//!          - name: router
//!            image: registry.example.com/edge/router:3.1.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//!    strategy:
//!      canary:
//!        steps:
//! -        - setCanaryScale: {replicas: 1} # <-
//! +        - setWeight: 25
//!          - pause: {duration: 10m}
//! ```
//!
//! # References
//! - <https://argo-rollouts.readthedocs.io/en/stable/features/specification/>
//! - <https://argo-rollouts.readthedocs.io/en/stable/features/canary/>

use crate::cluster::views::disruptions::IntOrPercent;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "rollout-rejected",
    kinds: &[Kind::ROLLOUT],
    reads: &[Kind::SERVICE],
    docs: docs(include_str!("rollout_rejected.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

/// Seconds within which a version has to become available, without a value.
const DEADLINE: i64 = 600;
/// Routers that need the Services of both versions, unless pods play ping and pong.
const ROUTERS: [&str; 8] = ["alb", "ambassador", "apisix", "appMesh", "istio", "nginx", "smi", "traefik"];
/// What a step is one of.
const STEPS: [&str; 8] = [
    "analysis",
    "experiment",
    "pause",
    "plugin",
    "setCanaryScale",
    "setHeaderRoute",
    "setMirrorRoute",
    "setWeight",
];
/// The label by which the controller tells the versions apart.
const HASH: &str = "rollouts-pod-template-hash";

/// Source: argo-rollouts `pkg/apis/rollouts/validation` (`ValidateRolloutSpec`, `ValidateService`), 1.6 to 1.9.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let strategy = spec.get("strategy");
    if object.may_lack_fields()
        || spec.has_unknown_key()
        || strategy.is_unknown()
        || strategy.has_unknown_key()
    {
        return None;
    }
    deadline(&spec, ctx);
    let (canary, blue_green) = (strategy.get("canary"), strategy.get("blueGreen"));
    match (canary.is_set(), blue_green.is_set()) {
        (true, true) => {
            ctx.report(&blue_green, "Argo Rollouts rejects two strategies for one Rollout")
                .at_key()
                .help("keep `canary` or `blueGreen`");
            return None;
        }
        (true, false) => of_canary(&canary, ctx),
        (false, true) => same_service(&blue_green, "activeService", "previewService", ctx),
        (false, false) => None,
    };
    for (strategy, field) in [
        (&canary, "stableService"),
        (&canary, "canaryService"),
        (&blue_green, "activeService"),
        (&blue_green, "previewService"),
    ] {
        service(object, &strategy.get(field), ctx);
    }
    None
}

fn deadline(spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (deadline, least) = (spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds"));
    let (end, seconds) = (deadline.int_or(DEADLINE)?, least.int()?);
    let node = if deadline.is_set() { &deadline } else { &least };
    if end <= seconds {
        ctx.report(
            node,
            format!("Argo Rollouts rejects a deadline of {end} s for {seconds} s of `minReadySeconds`"),
        )
        .help("write a `progressDeadlineSeconds` above `minReadySeconds`");
    }
    None
}

fn same_service(strategy: &Node<'_>, one: &str, other: &str, ctx: &mut Context<'_>) -> Option<()> {
    let (first, second) = (strategy.get(one), strategy.get(other));
    let name = second.text().filter(|name| first.text() == Some(name) && !name.is_empty())?;
    let message =
        format!("Argo Rollouts rejects one Service, `{}`, as `{one}` and as `{other}`", ellipsize(name));
    ctx.report(&second, message).help("write a Service of its own for each version");
    None
}

fn of_canary(canary: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if canary.has_unknown_key() {
        return None;
    }
    let (surge, most) = (canary.get("maxSurge"), canary.get("maxUnavailable"));
    let is_zero = |node: &Node<'_>| {
        matches!(IntOrPercent::read(node), Some(IntOrPercent::Count(0) | IntOrPercent::Percent(0)))
    };
    if is_zero(&surge) && is_zero(&most) {
        ctx.report(&surge, "Argo Rollouts rejects zero for both `maxSurge` and `maxUnavailable`")
            .help("write 1 for one of them: pods are replaced by more, or by fewer");
    }
    same_service(canary, "stableService", "canaryService", ctx);
    let routing = canary.get("trafficRouting");
    if routing.is_unknown() || routing.has_unknown_key() {
        return None;
    }
    if routing.is_set() {
        with_router(canary, &routing, ctx);
    } else {
        without_router(canary, ctx);
    }
    for step in canary.get("steps").items() {
        let names: Vec<&str> = step.entries().into_iter().map(|(name, _)| name).collect();
        if step.is_mapping() && !step.has_unknown_key() && !names.iter().any(|name| STEPS.contains(name)) {
            ctx.report(&step, "Argo Rollouts rejects a step that does nothing")
                .help("write `setWeight`, `pause` or another step, or remove it");
        }
        let weight = step.get("setWeight");
        let limit = routing.get("maxTrafficWeight");
        if let Some(number) = weight.int().filter(|n| !limit.is_set() && !(0..=100).contains(n)) {
            ctx.report(&weight, format!("Argo Rollouts rejects the weight {number}: it is a percentage"))
                .help("write 0 to 100");
        }
    }
    None
}

/// What needs a router for traffic, and has none.
fn without_router(canary: &Node<'_>, ctx: &mut Context<'_>) {
    let report = |node: &Node<'_>, name: &str, ctx: &mut Context<'_>| {
        ctx.report(
            node,
            format!("Argo Rollouts rejects `{name}` without `trafficRouting`: nothing is rolled out"),
        )
        .at_key()
        .help("remove it, or add the router for traffic: without one, weights are numbers of pods");
    };
    let stable = canary.get("dynamicStableScale");
    if stable.bool() == Some(true) {
        report(&stable, "dynamicStableScale", ctx);
    }
    let delay = canary.get("scaleDownDelaySeconds");
    if delay.int().is_some() {
        report(&delay, "scaleDownDelaySeconds", ctx);
    }
    for step in canary.get("steps").items() {
        for name in ["setCanaryScale", "setHeaderRoute", "setMirrorRoute"] {
            let node = step.get(name);
            if node.is_set() && !node.is_unknown() {
                report(&node, name, ctx);
            }
        }
        for template in step.path(&["experiment", "templates"]).items() {
            let weight = template.get("weight");
            if weight.int().is_some() {
                report(&weight, "weight", ctx);
            }
        }
    }
}

/// What contradicts a router for traffic, or what it lacks.
fn with_router(canary: &Node<'_>, routing: &Node<'_>, ctx: &mut Context<'_>) {
    let (stable, delay) = (canary.get("dynamicStableScale"), canary.get("scaleDownDelaySeconds"));
    if stable.bool() == Some(true) && delay.int().is_some() {
        ctx.report(&delay, "Argo Rollouts rejects `scaleDownDelaySeconds` with `dynamicStableScale`")
            .at_key()
            .help(
                "keep one of them: the stable version is scaled down as traffic leaves it, or after a delay",
            );
    }
    let has_ping_pong = canary.get("pingPong").is_set();
    // Istio may tell versions apart by the subsets of a DestinationRule.
    let router = ROUTERS.into_iter().find(|router| {
        let has_subsets = routing.path(&[router, "destinationRule"]).is_set();
        routing.get(router).is_set() && !(*router == "istio" && has_subsets)
    });
    if let Some(router) = router.filter(|_| !has_ping_pong) {
        let lacks = |field: &&str| {
            let service = canary.get(field);
            service.is_absent() || service.text() == Some("")
        };
        let missing: Vec<&str> = ["stableService", "canaryService"].into_iter().filter(lacks).collect();
        if let [first, ..] = missing.as_slice() {
            let fields = missing.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and ");
            let whose = if missing.len() > 1 { "each version" } else { "that version" };
            ctx.report_missing(
                &canary.get(first),
                format!("Argo Rollouts rejects the router `{router}` without {fields}"),
            )
            .help(format!("add {fields}: the Service of the pods of {whose}"));
        }
    }
    let routes = routing.get("managedRoutes");
    let step_with = |name: &'static str| {
        let node = canary.get("steps").items().map(|step| step.get(name)).find(Node::is_set)?;
        Some((name, node))
    };
    if routes.is_absent()
        && let Some((name, node)) = ["setHeaderRoute", "setMirrorRoute"].into_iter().find_map(step_with)
    {
        ctx.report(&node, format!("Argo Rollouts rejects `{name}` without `trafficRouting.managedRoutes`"))
            .at_key()
            .help("list the name of the route in `managedRoutes`, first the one that wins");
    }
}

/// A Service of the strategy that selects by a label which the pod template does not have.
fn service(object: &Object, reference: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = reference.text().filter(|name| !name.is_empty())?;
    let labels = object.path(&["spec", "template", "metadata", "labels"]);
    if object.path(&["spec", "workloadRef"]).is_set() || labels.has_unknown() || !labels.is_mapping() {
        return None;
    }
    let service = ctx.partner(Kind::SERVICE, object.namespace_or_default(), name)?;
    let selector = service.path(&["spec", "selector"]);
    let lacks = |key: &str, value: &Node<'_>| {
        key != HASH && value.text().is_some_and(|text| labels.get(key).text() != Some(text))
    };
    let (key, node) = selector.entries().into_iter().find(|(key, value)| lacks(key, value))?;
    let message = format!(
        "Argo Rollouts rejects Service `{}`: it selects `{}`, which the pod template lacks",
        ellipsize(name),
        ellipsize(key)
    );
    ctx.report(reference, message)
        .severity(Severity::Warning)
        .help("select by labels of the template: the controller adds the one that tells the versions apart")
        .related(service, &node, "the label");
    None
}
