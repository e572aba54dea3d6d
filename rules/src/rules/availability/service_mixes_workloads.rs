//! A Service sends requests to several workloads that differ.
//!
//! # Why
//! A Service balances over every pod that its labels match. Where a second model server, the worker of a
//! queue or a CronJob has these labels as well, a share of the requests goes there: to another model, which
//! answers all the same, or to pods that do not listen. It is an error where two servers of the input serve
//! different models, and a warning for different programs: other images, or another command of one image, as
//! that of a worker without ports. Where a ServiceMonitor selects the Service and a router asks the pods by
//! itself, it is information. An InferencePool whose labels match servers of two models is reported as well.
//! So is a selector that takes all pods of a server over several pods, such as a LeaderWorkerSet: of SGLang and
//! vLLM the first rank alone answers requests, and workers of Ray listen on no such port.
//!
//! A kustomization whose `commonLabels` have the key that selectors use gives all pods one value of it: that is a
//! warning at the first Service.
//!
//! Versions of one program (the same image and command, or a label such as `version` or `track` that differs),
//! Deployments of one group, headless Services, and pods without the named port of the Service are left alone.
//!
//! # Fix
//! Add a label to the selector that only the pods of one workload have.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//! -  selector: {team: nlp} # <-
//! +  selector: {team: nlp, app: chat}
//!    ports: [{port: 80, targetPort: 8080}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat, team: nlp}}
//!      spec:
//!        containers:
//!          - name: chat
//!            image: example.com/chat:2.1.0
//!            resources: {requests: {cpu: "1", memory: 1Gi}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: CronJob
//!  metadata: {name: report, namespace: models}
//!  spec:
//!    schedule: 0 4 * * *
//!    jobTemplate:
//!      spec:
//!        template:
//!          metadata: {labels: {team: nlp}}
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: report
//!                image: example.com/report:2.1.0
//!                resources: {requests: {cpu: "1", memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service>

use super::gateway_route::{POOLS, selected_by_pool};
use super::selected_workloads::{
    PortMatch, are_model_versions, belong_together, has_known_images, has_version_label, is_stopped,
    loaded_model, model, port_of, run_alike, run_together,
};
use super::silent_ranks::SilentRanks;
use crate::cluster::views::Labels;
use crate::cluster::views::disruptions::runs_as_job;
use crate::rules::partners::{around_service, services};
use crate::rules::prelude::*;
use crate::workload::ports::{self, target_of};
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "service-mixes-workloads",
    kinds: kinds![[Kind::SERVICE], POOLS],
    reads: kinds![[Kind::SERVICE_MONITOR], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    pairs: &[Pair { with: WORKLOAD_KINDS, partners: services, beside: around_service }],
    docs: docs(include_str!("service_mixes_workloads.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !object.is(Kind::SERVICE) {
        return check_pool(object, ctx);
    }
    let spec = object.get("spec");
    let selector = spec.get("selector");
    if object.may_lack_fields()
        || !selector.is_mapping()
        || matches!(spec.get("type").text(), Some("ExternalName"))
        || spec.get("clusterIP").text() == Some("None")
        || spec.get("clusterIP").is_unknown()
    {
        return None;
    }
    if by_common_label(object, &selector, ctx).is_some() {
        return None;
    }
    let (workloads, _) = ctx.cluster().views().selected_by_service(object);
    let answers = |workload: &Object| {
        has_known_images(workload)
            && !workload.is_partial()
            && port_of(&spec, workload) != PortMatch::OthersListed
            && !is_stopped(workload)
            && ctx.cluster().likely_pairs(object, workload)
    };
    let selected: Vec<&Object> =
        workloads.iter().map(|workload| &workload.object).filter(|workload| answers(workload)).collect();
    let wanted = selector.entries();
    let targets: Vec<Node<'_>> = spec.get("ports").items().map(|port| target_of(&port)).collect();
    if whole_group(object, &selector, &|labels| selector::includes(&wanted, labels), &selected, &targets, ctx)
    {
        return None;
    }
    let meant = meant_workload(object, &spec, &selected);
    let first = match meant {
        Some(meant) => meant,
        None => *selected.iter().find(|workload| !runs_as_job(workload))?,
    };
    let cluster = ctx.cluster();
    let others = || selected.iter().filter(|other| run_together(first, other, cluster));
    if two_models(object, (first, meant.is_some()), &selected, ctx) {
        return None;
    }
    // A job ends before anybody would find out that it is behind a Service.
    // Of two programs of one image, the one without a port serves nothing.
    let listens = |workload: &Object| port_of(&spec, workload) == PortMatch::Listed;
    let other = *others().find(|other| {
        runs_as_job(other)
            || !belong_together(first, other)
            || listens(first) != listens(other)
                && !run_alike(first, other)
                && !has_version_label(first, other)
    })?;
    let (mine, kind, theirs) = (first.display_name(), other.kind(), other.display_name());
    // Pods without a port of the name that a port of the Service has as its target get none of its requests.
    let ports: Vec<Node<'_>> = spec.get("ports").items().collect();
    let reached: Vec<&Node<'_>> = ports.iter().filter(|port| reaches(port, other)).collect();
    let is_spared = ports.first().is_some_and(|port| !reaches(port, other));
    let port = match reached.as_slice() {
        [port] if ports.len() > 1 => format!(" for port {}", port.get("port").int()?),
        _ => String::new(),
    };
    let message = match (meant, port.as_str()) {
        (Some(_), "") => format!(
            "requests for `{mine}` also go to the pods of {kind} `{theirs}`, which have the same labels"
        ),
        (Some(_), _) => format!(
            "requests{port} of `{mine}` also go to the pods of {kind} `{theirs}`, which have the same labels"
        ),
        (None, _) => format!(
            "requests{port} go to the pods of `{mine}` and of {kind} `{theirs}`, which have the same labels"
        ),
    };
    let severity = if is_spared { Severity::Info } else { Severity::Warning };
    report(object, message, severity, (first, other, meant.is_some()), ctx);
    None
}

/// Reports a label that a kustomization writes into all selectors and all pods, where Services and workloads are told apart by its key.
/// It is reported at the first Service of the kustomization.
fn by_common_label(service: &Object, selector: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let Overridden { key, value, rest } = overridden(service, selector)?;
    let (cluster, namespace) = (ctx.cluster(), service.namespace_or_default());
    let is_earlier = |other: &Object| {
        other.sort_key() < service.sort_key()
            && cluster.surely_pairs(service, other)
            && overridden(other, &other.path(&["spec", "selector"])).is_some_and(|one| one.key == key)
    };
    if cluster.in_namespace(Kind::SERVICE, namespace).any(is_earlier) {
        return None;
    }
    let is_selected = |workload: &Object| {
        workload.source().is_some_and(|source| source.selector_override(key) == Some(value))
            && cluster.surely_pairs(service, workload)
            && !workload.is_partial()
            && !runs_as_job(workload)
            && (rest.is_empty()
                || templates(workload)
                    .iter()
                    .any(|template| selector::includes(&rest, &template.labels()) == Some(true)))
    };
    let workloads: Vec<&Object> = cluster
        .views()
        .workloads_in(namespace)
        .map(|one| &one.object)
        .filter(|one| is_selected(one))
        .collect();
    let (own, _) = cluster.views().selected_by_service(service);
    let is_own = |workload: &&Object| own.iter().any(|one| one.object.is_same_resource(workload));
    let first = *workloads.iter().find(|one| is_own(one))?;
    let other = *workloads.iter().find(|one| !is_own(one) && !belong_together(first, one))?;
    let label = format!("{key}: {value}");
    let message = format!(
        "kustomize writes `{label}` into all selectors and pods: requests for `{}` also go to `{}`",
        first.display_name(),
        other.display_name()
    );
    let node = selector.get(key);
    ctx.report(&node, message)
        .help("in the kustomization, use `labels` without `includeSelectors`, or another key than that of the selectors")
        .related(other, &other.path(&["metadata", "name"]), "its pods get the label as well");
    Some(())
}

/// The key of a selector whose value a kustomization replaces, with the new value and the labels that it leaves.
struct Overridden<'a> {
    key: &'a str,
    value: &'a str,
    rest: Vec<(&'a str, Node<'a>)>,
}

fn overridden<'a>(service: &'a Object, selector: &Node<'a>) -> Option<Overridden<'a>> {
    let source = service.source()?;
    let entries = selector.entries();
    let (key, value) = entries.iter().find_map(|(key, value)| {
        let new = source.selector_override(key)?;
        (value.text()? != new).then_some((*key, new))
    })?;
    let rest = entries.into_iter().filter(|(key, _)| source.selector_override(key).is_none()).collect();
    Some(Overridden { key, value, rest })
}

/// The workload that a Service is for: the one of its name, the only one that lists its port, or the only one in its file. `None` if
/// nothing shows it.
fn meant_workload<'a>(service: &Object, spec: &Node<'_>, selected: &[&'a Object]) -> Option<&'a Object> {
    let servers = || selected.iter().copied().filter(|workload| !runs_as_job(workload));
    let name = service.name();
    let stem = ["-service", "-svc"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let by_name =
        servers().find(|one| one.name() == name).or_else(|| servers().find(|one| one.name() == stem));
    let only = |is_meant: &dyn Fn(&Object) -> bool| {
        let mut found = servers().filter(|one| is_meant(one));
        found.next().filter(|_| found.next().is_none())
    };
    let path = |object: &Object| object.origin().map(|origin| origin.source.path().to_owned());
    let own = path(service);
    by_name
        .or_else(|| only(&|one| port_of(spec, one) == PortMatch::Listed))
        .or_else(|| only(&|one| own.is_some() && path(one) == own))
        .or_else(|| only(&|_| true))
}

/// Whether requests for a port of a Service go to a workload that it selects: a target by number needs no container port.
fn reaches(port: &Node<'_>, workload: &Object) -> bool {
    let target = target_of(port);
    let templates = templates(workload);
    target.text().is_none()
        || templates
            .iter()
            .flat_map(Template::lasting_containers)
            .any(|one| ports::find(&one, &target).is_some())
}

/// Reports an InferencePool whose pods have different models. Under several names of one model, as those of its adapters, the endpoint
/// picker finds the right pod.
fn check_pool(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let (workloads, _) = selected_by_pool(object, ctx);
    let serves = |workload: &&Object| !workload.is_partial() && !is_stopped(workload);
    let selected: Vec<&Object> = workloads.iter().map(|workload| &workload.object).filter(serves).collect();
    let spec = object.get("spec");
    let labels = spec.get("selector");
    // Before v1 the selector is a map of labels, and there is one port.
    let labels = if labels.get("matchLabels").is_set() { labels.get("matchLabels") } else { labels };
    let wanted = labels.entries();
    let mut targets: Vec<Node<'_>> = spec.get("targetPorts").items().map(|port| port.get("number")).collect();
    targets.push(spec.get("targetPortNumber"));
    if whole_group(object, &labels, &|all| selector::includes(&wanted, all), &selected, &targets, ctx) {
        return None;
    }
    let first = *selected.first()?;
    let differs = |other: &&Object| loaded_model(first) != loaded_model(other);
    let others: Vec<&Object> = selected.iter().copied().filter(differs).collect();
    if ctx.cluster().likely_pairs(object, first) {
        two_models(object, (first, first.name() == object.name()), &others, ctx);
    }
    None
}

/// Reports that requests go to all pods of a group of which one answers, and says whether they do. `place` has the labels that are
/// selected.
fn whole_group(
    object: &Object,
    place: &Node<'_>,
    selects: &dyn Fn(Labels<'_, '_>) -> Option<bool>,
    selected: &[&Object],
    targets: &[Node<'_>],
    ctx: &mut Context<'_>,
) -> bool {
    let is_near = |workload: &Object| ctx.cluster().likely_pairs(object, workload);
    let found = selected.iter().filter(|workload| is_near(workload));
    let found = found.filter_map(|one| Some((*one, SilentRanks::of(one, selects, targets)?))).next();
    let Some((group, ranks)) = found else { return false };
    let (key, value) = &ranks.label;
    let message =
        format!("requests also go to the workers of `{}`: {} answers them", group.display_name(), ranks.who);
    let severity = if is_for_monitor(object, ctx) { Severity::Info } else { Severity::Warning };
    let finding = ctx.report(&object.path(&["spec", "selector"]), message);
    finding.severity(severity).help(format!("add `{key}: {value:?}` to the selector")).related(
        group,
        &group.path(&["metadata", "name"]),
        "all of its pods are selected",
    );
    // A label that a controller sets is not known in all versions.
    if ranks.is_written && place.is_mapping() {
        finding.fix(Fix::unsafe_("select the leaders alone").set(&place.get(key), json!(value)));
    }
    true
}

/// Reports that requests go to servers of two models, and says whether they do.
fn two_models(
    object: &Object,
    (first, is_meant): (&Object, bool),
    selected: &[&Object],
    ctx: &mut Context<'_>,
) -> bool {
    let cluster = ctx.cluster();
    let Some(mine) = model(first) else { return false };
    let differs = |other: &Object| {
        if !run_together(first, other, cluster) {
            return None;
        }
        let theirs = model(other)?;
        (theirs != mine && !are_model_versions(first, other)).then_some(theirs)
    };
    let found = selected.iter().find_map(|other| Some((*other, differs(other)?)));
    let Some((other, theirs)) = found else { return false };
    let message = format!(
        "requests go to two models: `{}` of `{}` and `{}` of `{}`",
        short_name(&mine),
        first.display_name(),
        short_name(&theirs),
        other.display_name()
    );
    let certain = cluster.surely_pairs(first, other);
    let severity = if certain { Severity::Error } else { Severity::Warning };
    report(object, message, severity, (first, other, is_meant), ctx);
    true
}

fn report(
    service: &Object,
    message: String,
    severity: Severity,
    (first, other, is_meant): (&Object, &Object, bool),
    ctx: &mut Context<'_>,
) {
    // Nobody sends requests to it.
    let severity = if is_for_monitor(service, ctx) { Severity::Info } else { severity };
    let (help, role) = match is_meant {
        true => {
            let help =
                format!("add a label to the selector that only the pods of `{}` have", first.display_name());
            (help, "these are meant")
        }
        false => (
            "add a label to the selector that only the pods of one of them have".to_owned(),
            "these are selected",
        ),
    };
    ctx.report(&service.path(&["spec", "selector"]), message)
        .severity(severity)
        .help(help)
        .related(first, &first.path(&["metadata", "name"]), role)
        .related(other, &other.path(&["metadata", "name"]), "these are selected as well");
}

/// Whether a Service may be there for a ServiceMonitor alone: a router, which asks the pods by itself, has the clients.
fn is_for_monitor(service: &Object, ctx: &Context<'_>) -> bool {
    const ROUTERS: [&str; 4] = ["router", "gateway", "litellm", "proxy"];
    let namespace = service.namespace_or_default();
    let labels = service.path(&["metadata", "labels"]).entries();
    let mut monitors = ctx.cluster().in_namespace(Kind::SERVICE_MONITOR, namespace);
    let is_router = |container: Node<'_>| {
        image_of(&container).is_some_and(|image| {
            let name = image.last();
            server_of(&container).is_none() && ROUTERS.iter().any(|word| name.contains(word))
        })
    };
    monitors.any(|monitor| selector::matches(&monitor.path(&["spec", "selector"]), &labels) == Some(true))
        && ctx
            .cluster()
            .views()
            .workloads_in(namespace)
            .any(|workload| templates(&workload.object).iter().flat_map(Template::containers).any(is_router))
}

/// The name of a model without its owner or folder.
fn short_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}
