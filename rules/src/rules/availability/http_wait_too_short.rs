//! KEDA's HTTP add-on gives up on a request before the server has started.
//!
//! # Why
//! With no replica, the interceptor of the add-on holds a request until a pod is ready, and answers with an
//! error after its wait: `timeouts.conditionWait` of the HTTPScaledObject, `timeouts.readiness` of the
//! InterceptorRoute, or the setting of the interceptor, which before 0.14 is 20 s by default. Where the startup
//! probe gives the server more time, the first requests fail although the start goes well, and a node that has
//! to be started takes minutes besides.
//!
//! It is a warning for workloads with accelerators, and where the first probe is later than the wait. Other
//! servers mostly start long before the probe gives up: for them it is an info.
//!
//! # Fix
//! Wait as long as the probe does, and longer where a node has to be started, or keep one replica.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: http.keda.sh/v1alpha1
//!  kind: HTTPScaledObject
//!  metadata: {name: caption, namespace: media}
//!  spec:
//!    hosts: [caption.example.com]
//!    scaleTargetRef: {name: caption, kind: Deployment, apiVersion: apps/v1, service: caption, port: 80}
//!    replicas: {min: 0, max: 3}
//! -  timeouts: {conditionWait: 20s} # <-
//! +  timeouts: {conditionWait: 420s}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: caption, namespace: media}
//!  spec:
//!    selector: {app: caption}
//!    ports: [{port: 80, targetPort: 8080}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: caption, namespace: media}
//!  spec:
//!    selector: {matchLabels: {app: caption}}
//!    template:
//!      metadata: {labels: {app: caption}}
//!      spec:
//!        containers:
//!          - name: server
//!            image: example.com/caption:1.2.0
//!            ports: [{containerPort: 8080}]
//!            startupProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 10, failureThreshold: 12}
//!            readinessProbe: {httpGet: {path: /ready, port: 8080}}
//!            resources: {requests: {cpu: "1", memory: 4Gi}, limits: {memory: 4Gi}}
//! ```
//!
//! # References
//! - <https://keda.sh/http-add-on/1.0/operations/configure-interceptor/>
//! - <https://github.com/kedacore/http-add-on/issues/993>

use super::ingress::containers_behind;
use super::progress_deadline_short::waits;
use crate::rules::prelude::*;
use crate::workload::environment::known;

pub(crate) static RULE: Rule = Rule {
    id: "http-wait-too-short",
    kinds: &[Kind::HTTP_SCALED_OBJECT, Kind::INTERCEPTOR_ROUTE],
    reads: kinds![
        [Kind::SERVICE, Kind::SCALED_OBJECT, Kind::HPA, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
        WORKLOAD_KINDS
    ],
    docs: docs(include_str!("http_wait_too_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Variables with the wait of the interceptor, the older one first, which comes first where both are set
/// (`interceptor/config/timeouts.go` of the add-on 0.14).
const VARIABLES: [&str; 2] = ["KEDA_CONDITION_WAIT_TIMEOUT", "KEDA_HTTP_READINESS_TIMEOUT"];
/// The chart of the add-on, and the values with the wait.
const CHART: &str = "keda-add-ons-http";
const VALUES: [&[&str]; 2] =
    [&["interceptor", "replicas", "waitTimeout"], &["interceptor", "readinessTimeout"]];
/// The first version that waits without a bound by default, and the seconds before.
const UNBOUNDED_SINCE: Version = Version::new(0, 14);
const DEFAULT: i64 = 20;
/// Seconds that the help adds for the node and the image.
const BEFORE: i64 = 300;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    // Another Service answers when the wait is over.
    let falls_back = spec.get("coldStartTimeoutFailoverRef").is_set() || spec.get("coldStart").is_set();
    if object.may_lack_fields() || spec.has_unknown_key() || falls_back {
        return None;
    }
    let field = if object.is(Kind::HTTP_SCALED_OBJECT) { "conditionWait" } else { "readiness" };
    let own = spec.path(&["timeouts", field]);
    let containers = containers_behind(object, ctx).into_iter();
    let mut starts = containers
        .filter(|(workload, _)| !workload.may_lack_fields() && rests_at_zero(object, workload, ctx))
        .filter_map(|(workload, container)| {
            let probe = container.get("startupProbe");
            let start = waits(&probe).filter(|start| *start > 0)?;
            Some((workload, probe, start))
        })
        .peekable();
    starts.peek()?;
    let (wait, set_by) = if own.is_set() { (seconds(&own)?, None) } else { of_interceptor(ctx)? };
    let (workload, probe, start) = starts.find(|(_, _, start)| *start > wait)?;
    let is_late = probe.get("initialDelaySeconds").int().is_some_and(|delay| delay > wait);
    let message = format!(
        "a request to `{}` at zero replicas fails after {wait} s, and its startup probe allows {start} s",
        workload.display_name()
    );
    let finding = ctx.report(&own, message);
    finding
        .severity(if is_late || uses_accelerators(workload) { Severity::Warning } else { Severity::Info })
        .help(format!("write `timeouts.{field}: {}s`, or keep one replica", start + BEFORE))
        .related(workload, &probe, "how long the start may take");
    if let Some((installer, node)) = set_by {
        finding.related(installer, &node, "sets how long the interceptor waits");
    }
    None
}

/// Whether a workload may have no replica: by the HTTPScaledObject, or by the autoscaler beside an InterceptorRoute.
fn rests_at_zero(object: &Object, workload: &Object, ctx: &Context<'_>) -> bool {
    // Without a ScaledObject of the add-on, its `replicas` are not read.
    let skips =
        object.annotation("httpscaledobject.keda.sh/skip-scaledobject-creation").text() == Some("true");
    if object.is(Kind::HTTP_SCALED_OBJECT) && !skips {
        return object.path(&["spec", "replicas", "min"]).int_or(0) == Some(0);
    }
    let replicas = ctx.cluster().views().replicas(workload);
    replicas.is_some_and(|replicas| replicas.autoscaled && replicas.floor == 0)
}

/// A time that bounds the wait, in seconds: zero does not.
fn seconds(node: &Node<'_>) -> Option<i64> {
    let duration = GoDuration::parse(node.text()?).ok()?;
    duration.is_positive().then(|| duration.seconds())
}

/// The wait that the interceptor of the input has, and what sets it. `None` if there is no bound, or none is known.
fn of_interceptor<'i>(ctx: &Context<'i>) -> Option<(i64, Option<(&'i Object, Node<'i>)>)> {
    let cluster = ctx.cluster();
    let mut found = Vec::new();
    for deployment in cluster.of(Kind::DEPLOYMENT).filter(|one| ctx.pairs_with(one)) {
        let is_interceptor = |container: &Node<'_>| {
            image_of(container).is_some_and(|image| image.is("http-add-on-interceptor"))
        };
        let mut containers = templates(deployment).into_iter().flat_map(|one| one.containers());
        if let Some(container) = containers.find(is_interceptor) {
            let (wait, node) = of_container(&container).filter(|_| !deployment.may_lack_fields())?;
            found.push((wait, Some((deployment, node))));
        }
    }
    for installer in chart_installers(cluster).filter(|one| ctx.pairs_with(one)) {
        for_each_values(installer, CHART, |values| {
            let wait = VALUES.iter().map(|path| values.root.path(path)).find(Node::is_set);
            let wait = wait.filter(|_| !values.may_differ).and_then(|wait| seconds(&wait));
            found.extend(wait.map(|wait| (wait, Some((installer, installer.path(&["metadata", "name"]))))));
        });
    }
    // Several interceptors, such as one for each namespace, wait for different routes.
    if found.len() == 1 { found.pop() } else { None }
}

/// The wait of the interceptor in a container, with the field that sets it.
fn of_container<'a>(container: &Node<'a>) -> Option<(i64, Node<'a>)> {
    let env = known(container)?;
    if let Some(value) = VARIABLES.iter().find_map(|name| env.get(name)) {
        return Some((seconds(value)?, value.clone()));
    }
    let version = image_of(container)?.version()?;
    (version < UNBOUNDED_SINCE).then(|| (DEFAULT, container.get("image")))
}
