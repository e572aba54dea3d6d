//! Workers of a distributed run wait for pods or a host that do not exist.
//!
//! # Why
//! A launcher with a fixed number of nodes starts when that many workers have met at one address. If the
//! Job runs fewer pods, they wait until they time out, with all their GPUs; if it runs more, the others
//! fail. The address must be a name that resolves: that of a Service, or of the first pod in a headless
//! Service, `<job>-0.<service>`, which the pods name as their `subdomain`.
//!
//! The pods of a StatefulSet have such names only in the Service that `serviceName` names, and only if that
//! Service is headless. A server on several nodes, such as SGLang, vLLM or Ray, hangs otherwise until it
//! times out: its workers cannot resolve the address of the first pod.
//!
//! Pods of a Volcano Job are `<Job>-<task>-<index>.<Job>` with its plugin `svc`, which sets
//! `VC_<TASK>_HOSTS` too. The name of a bare Pod is not in DNS: it has one if it has a `hostname`, and a
//! `subdomain` that is the name of a headless Service which selects it, and that is `<hostname>.<subdomain>`.
//!
//! Each rank may be there once. Where several pods start with one rank that is written as a number, such as the
//! workers of a LeaderWorkerSet of three pods with `--node-rank 1`, the others wait for a rank that never comes.
//!
//! The same holds for an address in the variable `MASTER_ADDR` of any program: `<job>-0` alone is in DNS
//! only where a Service has that name.
//!
//! A rank is a number: a variable `RANK` that is the name of the pod ends the program, and the end of the
//! names of a Deployment's pods is random. The address is that of the first rank: a Service that selects
//! all pods of the run leads to any of them.
//!
//! # Fix
//! Write the number of pods as `--nnodes`. For the address make the Job Indexed, create a headless Service
//! that selects its pods, and write the Service's name as `subdomain`, of a StatefulSet as `serviceName`.
//! Pods of a JobSet are `<JobSet>-<job>-<index>-<pod>.<subdomain>`, with the JobSet's own name as subdomain
//! by default. Take the rank from the index of the pod: `$(LWS_WORKER_INDEX)`, `$(JOB_COMPLETION_INDEX)`, the
//! label `apps.kubernetes.io/pod-index` of a StatefulSet.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata:
//!        annotations: {karpenter.sh/do-not-disrupt: "true"}
//!        labels: {app: bert}
//!      spec:
//!        subdomain: bert
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command:
//!              - torchrun
//!              - --nproc_per_node=1
//! -            - --nnodes=4 # <-
//! +            - --nnodes=2
//!              - --master_addr=bert-training-0.bert
//!              - train.py
//!              - --save-to=s3://runs/bert
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: bert, namespace: models}
//!  spec: {clusterIP: None, selector: {app: bert}}
//! ```
//!
//! # References
//! - <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode>

use crate::cluster::objects::Lookup;
use crate::cluster::together::is_renamed;
use crate::facts::text::is_digits;
use crate::facts::url;
use crate::rules::prelude::*;
use crate::rules::training::rank_source::{meets_at_any_pod, names_as_ranks, rank_in_name};
use crate::workload::command::{Word, command_at};
use crate::workload::devices::{pods_of, pods_of_groups};
use crate::workload::environment::variable;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "job-rendezvous-mismatch",
    kinds: &[
        Kind::JOB,
        Kind::CRON_JOB,
        Kind::SCALED_JOB,
        Kind::STATEFUL_SET,
        Kind::JOB_SET,
        Kind::PYTORCH_JOB,
        Kind::VOLCANO_JOB,
        Kind::POD,
        Kind::LEADER_WORKER_SET,
        Kind::DEPLOYMENT,
    ],
    reads: &[Kind::SERVICE, Kind::JOB_SET, Kind::POD],
    pairs: &[Pair { with: &[Kind::SERVICE], partners: governed, beside: nothing }],
    reports_absence: true,
    docs: docs(include_str!("job_rendezvous_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

/// The workloads whose pods have their names in a Service, or meet at it.
fn governed(service: &Object, cluster: &Cluster) -> Vec<Object> {
    const MEET: [Kind; 3] = [Kind::STATEFUL_SET, Kind::JOB, Kind::JOB_SET];
    let is_governed = |set: &&Object| {
        set.path(&["spec", "serviceName"]).text() == Some(service.name())
            && set.namespace_or_default() == service.namespace_or_default()
    };
    let mut found: Vec<Object> = cluster.of(Kind::STATEFUL_SET).filter(is_governed).cloned().collect();
    let (selected, _) = cluster.views().selected_by_service(service);
    let selected = selected.into_iter().map(|workload| &workload.object);
    let meets = |workload: &&Object| MEET.iter().any(|kind| workload.is(*kind)) && !is_governed(workload);
    found.extend(selected.filter(meets).cloned());
    found
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !uses_accelerators(object) || object.is_owned() || object.is_partial() {
        return None;
    }
    if object.is(Kind::POD) {
        return name_of_bare_pod(object, ctx);
    }
    if object.is(Kind::STATEFUL_SET) {
        names_of_pods(object, ctx);
    }
    if object.is(Kind::VOLCANO_JOB) {
        pods_of_volcano(object, ctx);
    }
    let templates = templates(object);
    for template in &templates {
        names_as_ranks(object, template, ctx);
    }
    if object.is(Kind::DEPLOYMENT) {
        return random_names(object, &templates, ctx);
    }
    if ranks(object, &templates, ctx).is_some() || object.is(Kind::LEADER_WORKER_SET) {
        return None;
    }
    if templates.iter().any(|template| any_pod(object, template, ctx).is_some()) {
        return None;
    }
    if templates.iter().any(|template| pod_in_variable(object, template, ctx).is_some()) {
        return None;
    }
    let mut pods = Some(0i64);
    let mut first = None;
    for template in &templates {
        let Some(launch) = template.containers().find_map(|c| Launch::of(&c)) else { continue };
        pods = pods.zip(pods_of(object, template)).map(|(sum, more)| sum.saturating_add(more));
        first.get_or_insert((launch, template));
    }
    let (launch, template) = first?;
    let (nodes, node) = launch.nodes()?;
    let name = object.display_name();
    // An elastic job changes the number of its pods.
    if object.path(&["spec", "elasticPolicy"]).is_set() {
        return None;
    }
    if let Some(pods) = pods.filter(|pods| *pods > 0 && *pods != nodes && (nodes > *pods || nodes > 1)) {
        // Each node may be a separate Job, which then sets its rank.
        if pods == 1 && launch.option(&["node-rank", "machine-rank"]).node().is_some() {
            return None;
        }
        if nodes < pods && has_runs_of_their_own(object) {
            return None;
        }
        let plural = if pods == 1 { "pod" } else { "pods" };
        let message = format!("`{name}` waits for {nodes} nodes and runs {pods} {plural}");
        let finding = ctx.report(&node, message);
        finding.reports_absence(false).help("write the same number of pods and nodes");
        // Several groups of workers may share one template, and the other nodes may be Jobs of their own.
        if nodes < pods || pods == 1 {
            finding.severity(Severity::Warning);
        }
        return None;
    }
    if nodes < 2 {
        return None;
    }
    address(object, template, &launch, ctx)
}

/// Reports a script that takes a rank from the end of the names of a Deployment's pods.
fn random_names(object: &Object, templates: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    if replicas(object).is_none_or(|replicas| replicas < 2) {
        return None;
    }
    let (node, _) = templates.iter().find_map(|template| {
        template.containers().find_map(|container| rank_in_name(template, &container))
    })?;
    let message = format!(
        "`{}` takes a rank from the end of its pods' names, which is random in a Deployment",
        object.display_name()
    );
    ctx.report(&node, message)
        .reports_absence(false)
        .help("use a StatefulSet or an Indexed Job, whose host names end in a number");
    None
}

/// Variables that name the host of the first rank.
const ADDRESSES: [&str; 3] = ["MASTER_ADDR", "COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS"];

/// Reports pods that take any pod of a Service for the first one of their run.
fn any_pod(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let pods = pods_of(object, template).filter(|pods| *pods > 1)?;
    let is_known = matches!(object.kind(), "Job" | "StatefulSet" | "JobSet") && !is_renamed(object);
    if !is_known || may_resolve_other_names(&template.spec) || has_runs_of_their_own(object) {
        return None;
    }
    template.containers().find_map(|container| {
        let words = words(&container);
        let backend = option(&words, &["rdzv-backend"]);
        // A store of its own, such as etcd, is at its own address; only ready pods are behind a Service.
        let is_elsewhere =
            !matches!(backend, OptionValue::Absent) && !backend.is("c10d") && !backend.is("static");
        if is_elsewhere || container.get("readinessProbe").is_set() {
            return None;
        }
        let of_variable = || {
            let is_set = |name: &str| words.iter().any(|word| word.text.starts_with(&format!("{name}=")));
            let mut names = ADDRESSES.iter().filter(|name| !is_set(name));
            let (text, node) = names.find_map(|name| variable(&container, name).flatten())?;
            Some((url::host(&text).to_owned(), node))
        };
        let (host, node) = of_variable().or_else(|| meeting_point(&container))?;
        meets_at_any_pod(object, template, (pods, &host, &node), ctx)
    })
}

/// Reports a variable that names the first pod of a Job without a Service, which no DNS knows.
fn pod_in_variable(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    if !object.is(Kind::JOB)
        || object.may_lack_fields()
        || is_renamed(object)
        || may_resolve_other_names(&template.spec)
        || pods_of(object, template).is_none_or(|pods| pods < 2)
    {
        return None;
    }
    template.containers().find_map(|container| {
        let (host, node) = address_in_variable(&container)?;
        if !is_pod_of(object, &host) || ctx.cluster().has(Kind::SERVICE, namespace, &host) {
            return None;
        }
        let name = object.display_name();
        let message = format!("workers of `{name}` meet at `{}`, which is not in DNS", ellipsize(&host));
        let subdomain = template.spec.get("subdomain");
        let service = subdomain.text().unwrap_or("<service>");
        ctx.report(&node, message).severity(Severity::Warning).help(format!(
            "write `{host}.{service}`, with a headless Service of that name as `subdomain` of an Indexed Job"
        ));
        Some(())
    })
}

/// The host without a domain that a variable gives as the first rank, unless the command writes it or names of its own.
fn address_in_variable<'a>(container: &Node<'a>) -> Option<(String, Node<'a>)> {
    let words = words(container);
    let writes_names =
        |word: &Word<'_>| ["/etc/hosts", "MASTER_ADDR="].iter().any(|sign| word.text.contains(sign));
    if words.iter().any(writes_names) {
        return None;
    }
    let (text, node) = ADDRESSES.iter().find_map(|name| variable(container, name).flatten())?;
    let host = url::host(&text);
    (!host.is_empty() && !host.contains('.') && host.bytes().all(is_host_byte))
        .then(|| (host.to_owned(), node))
}

/// Options for the rank of a pod.
const RANKS: [&str; 3] = ["node-rank", "machine-rank", "data-parallel-start-rank"];

/// Reports a rank that several pods of one run have.
fn ranks(object: &Object, templates: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.path(&["spec", "elasticPolicy"]).is_set() {
        return None;
    }
    if has_runs_of_their_own(object) {
        return None;
    }
    let mut found = None;
    for template in templates {
        // A replica of a LeaderWorkerSet is a run of its own.
        let pods = match object.is(Kind::LEADER_WORKER_SET) {
            true => pods_of_groups(object, template, 1),
            false => pods_of(object, template),
        };
        let Some(pods) = pods.filter(|pods| *pods > 1) else { continue };
        for container in template.containers() {
            let Some(launch) = Launch::of(&container) else { continue };
            let OptionValue::Text(rank, node) = launch.option(&RANKS) else { continue };
            // Pods for one node each are servers of their own.
            let nodes = launch.option(&["nnodes", "num-machines", "data-parallel-size"]).int_or(1);
            // A rendezvous of torchrun gives each pod its rank.
            let is_given = launch.has(&["rdzv-backend"]) && !launch.option(&["rdzv-backend"]).is("static");
            if !is_digits(&rank) || is_given || nodes.is_none_or(|nodes| nodes < 2) {
                continue;
            }
            let name = object.display_name();
            let message =
                format!("{pods} pods of `{name}` start with rank {rank}, and each rank may be there once");
            let help = match object.kind() {
                "LeaderWorkerSet" => {
                    "write `$(LWS_WORKER_INDEX)`, which is the number of the pod in its group"
                }
                "StatefulSet" => "take it from the label `apps.kubernetes.io/pod-index`",
                "PyTorchJob" => "leave it out: the operator sets the rank of each pod",
                _ => "write `$(JOB_COMPLETION_INDEX)`, and make the Job Indexed",
            };
            ctx.report(&node, message).reports_absence(false).help(help);
            found = Some(());
        }
    }
    found
}

/// Whether each Job of a JobSet may be a run of its own.
fn has_runs_of_their_own(object: &Object) -> bool {
    let mut jobs = object.path(&["spec", "replicatedJobs"]).items();
    object.is(Kind::JOB_SET) && jobs.any(|job| job.get("replicas").int_or(1) != Some(1))
}

/// Reports a host that neither a Service nor the first pod has.
fn address(
    object: &Object,
    template: &Template<'_>,
    launch: &Launch<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    if object.is(Kind::JOB_SET) {
        return pod_of_job_set(object, launch, ctx);
    }
    // The controllers of the other kinds create names and Services for their pods.
    if !matches!(object.group(), "batch" | "apps") {
        return None;
    }
    let (host, node) = launch.rendezvous()?;
    let is_ip = host.parse::<std::net::IpAddr>().is_ok();
    if host.is_empty() || host == "localhost" || is_ip || !host.bytes().all(is_host_byte) {
        return None;
    }
    if object.is(Kind::STATEFUL_SET) && is_pod_of(object, &host) {
        return None;
    }
    let namespace = object.namespace_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    // A name of the cluster: `service`, `service.namespace`, `pod.service`, each with `svc` and a domain.
    let svc = labels.iter().position(|label| *label == "svc").unwrap_or(labels.len());
    let labels = &labels[..svc];
    let index = ctx.cluster();
    let exists =
        |namespace: &str, name: &str| matches!(index.find(Kind::SERVICE, namespace, name), Lookup::Found(_));
    let found = match labels {
        [service] => exists(namespace, service),
        [a, b] => exists(b, a) || exists(namespace, b),
        [_, service, namespace] => exists(namespace, service),
        _ => true,
    };
    let names_service = template.spec.get("subdomain");
    // The subdomain makes no Service, which may be outside of the input.
    let of_pod = names_service.text().is_some_and(|subdomain| labels.get(1) == Some(&subdomain));
    let own = names_service.is_unknown()
        || of_pod && !index.is_complete_for(Kind::SERVICE)
        || object.path(&["spec", "serviceName"]).text().is_some_and(|own| labels.get(1) == Some(&own));
    // A name with a domain may be one outside the cluster.
    let has_domain = labels.len() == 2 && svc == host.split('.').count() && !of_pod;
    if found || own || labels.len() > 2 || has_domain {
        return None;
    }
    let name = object.display_name();
    let message = format!("workers of `{name}` meet at `{host}`, and no Service of the input has that name");
    ctx.report(&node, message)
        .severity(Severity::Warning)
        .help("create a headless Service, and meet at the first pod of an Indexed Job: `<job>-0.<service>`");
    None
}

/// Reports the name of a pod that looks like one of a JobSet's, with the name of another JobSet or Service in it. Source: jobset
/// 0.11.0 `pkg/util/placement` (`GenPodName`) and `GetSubdomain`.
fn pod_of_job_set(object: &Object, launch: &Launch<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let network = object.path(&["spec", "network"]);
    let subdomain = network.get("subdomain").text().unwrap_or_else(|| object.name());
    let has_names = !network.has_unknown() && network.get("enableDNSHostnames").bool() != Some(false);
    let (host, node) = launch.rendezvous().filter(|_| has_names && !object.name().is_empty())?;
    let mut labels = host.split('.');
    let (pod, service) = (labels.next()?, labels.next()?);
    if is_renamed(object) {
        return None;
    }
    let jobs = object.path(&["spec", "replicatedJobs"]);
    let names = jobs.items().filter_map(|job| job.get("name").text());
    let found = names.filter_map(|name| {
        // `<JobSet>-<job>-<index of the job>-<index of the pod>`
        let mut parts = pod.rsplitn(3, '-');
        let (last, first, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let is_pod = is_digits(last) && is_digits(first) && rest.ends_with(&format!("-{name}"));
        is_pod.then(|| (name, format!("{first}-{last}")))
    });
    // One name may be the end of another.
    let (job, indexes) = found.max_by_key(|(name, _)| name.len())?;
    let right = format!("{}-{job}-{indexes}", object.name());
    let own = object.namespace_or_default();
    let namespace = labels.next().filter(|label| *label != "svc").unwrap_or(own);
    let has = |kind: Kind, name: &str| ctx.cluster().has(kind, own, name);
    // Workers of one JobSet may meet at a pod of another one.
    let other = pod.strip_suffix(&format!("-{job}-{indexes}"));
    let mut others = [other, Some(service)].into_iter().flatten().filter(|name| *name != object.name());
    if pod == right && service == subdomain
        || namespace != own
        || has(Kind::SERVICE, service)
        || others.any(|name| has(Kind::JOB_SET, name))
    {
        return None;
    }
    let name = object.display_name();
    let message = format!("workers of `{name}` meet at `{}`, which is not one of its pods", ellipsize(&host));
    ctx.report(&node, message).severity(Severity::Warning).reports_absence(false).help(format!(
        "write `{right}.{subdomain}`: the name of the JobSet is part of the names of its pods"
    ));
    None
}

/// Plugins of a Volcano Job that give its pods names and variables, each by itself or with `svc` (Volcano 1.8 to 1.13).
const NAMING_PLUGINS: [&str; 5] = ["svc", "pytorch", "mpi", "tensorflow", "ray"];

/// Reports names of the pods of a Volcano Job, or the variables with them, that it does not get.
fn pods_of_volcano(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let plugins = spec.get("plugins");
    let tasks: Vec<&str> =
        spec.get("tasks").items().map(|task| task.get("name").text()).collect::<Option<_>>()?;
    if is_renamed(object) || object.may_lack_fields() || plugins.has_unknown_key() || object.name().is_empty()
    {
        return None;
    }
    let templates = templates(object);
    let is_named = |template: &Template<'_>| {
        ["hostname", "subdomain"].iter().any(|field| template.spec.get(field).is_set())
    };
    let has_names = plugins.entries().iter().any(|(name, _)| NAMING_PLUGINS.contains(name))
        || templates.iter().any(is_named)
        || ctx.cluster().has(Kind::SERVICE, object.namespace_or_default(), object.name());
    let plugin = "write `plugins: {svc: []}`: it makes the Service, the names and the variables";
    for template in templates {
        for container in template.containers() {
            if let Some(word) = variable_of_volcano(&container).filter(|_| !has_names) {
                ctx.report(&word.node, "no plugin of this Volcano Job sets variables `VC_<TASK>_HOSTS`")
                    .help(plugin);
                return None;
            }
            let Some((host, node)) = meeting_point(&container) else { continue };
            let mut labels = host.split('.');
            let pod = labels.next().and_then(|pod| pod.strip_prefix(object.name())?.strip_prefix('-'));
            let Some((task, index)) = pod.and_then(|pod| pod.rsplit_once('-')) else { continue };
            if labels.next() != Some(object.name()) || !is_digits(index) {
                continue;
            }
            let shown = ellipsize(&host);
            if !tasks.contains(&task) {
                let message =
                    format!("workers meet at `{shown}`, and no task is called `{}`", ellipsize(task));
                let first = tasks.first().copied().unwrap_or_default();
                ctx.report(&node, message)
                    .reports_absence(false)
                    .help(format!("write the name of a task: `{0}-{first}-{index}.{0}`", object.name()));
                return None;
            }
            if !has_names {
                let message =
                    format!("workers meet at `{shown}`, a name that no plugin gives this Volcano Job");
                ctx.report(&node, message).help(plugin);
                return None;
            }
        }
    }
    None
}

/// The word of a command that needs a variable with the names of a task's pods. A script that tests it, or has another value
/// for it, works without.
fn variable_of_volcano<'a>(container: &Node<'a>) -> Option<Word<'a>> {
    let words = words(container);
    let is_variable = |word: &Word<'_>| word.text.contains("VC_") && word.text.contains("_HOSTS");
    let has_other = |word: &Word<'_>| mentions(&word.text, &[":-", ":+", "_hosts-", ".get(", "getenv"]);
    let is_tested =
        |pair: &[Word<'_>]| ["-n", "-z"].contains(&pair[0].text.as_str()) && is_variable(&pair[1]);
    if words.windows(2).any(is_tested) || words.iter().any(|word| is_variable(word) && has_other(word)) {
        return None;
    }
    words.into_iter().find(is_variable)
}

/// Options that name the host at which the pods of a group meet.
const MEETING_POINTS: [&str; 7] = [
    "dist-init-addr",
    "nccl-init-addr",
    "master-addr",
    "rdzv-endpoint",
    "data-parallel-address",
    "dpa",
    "main-process-ip",
];

/// Reports the name of a StatefulSet's pod that cannot be resolved.
fn names_of_pods(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = object.path(&["spec", "serviceName"]);
    if replicas(object)? < 2 || object.is_patched_by_kustomize() || field.is_unknown() {
        return None;
    }
    for template in templates(object) {
        if may_resolve_other_names(&template.spec) {
            continue;
        }
        for container in template.containers() {
            if let Some((host, node)) = meeting_point(&container) {
                name_of_pod(object, &field, &host, &node, ctx);
            }
        }
    }
    None
}

/// Whether the pods may know names that are not those of the cluster's DNS.
fn may_resolve_other_names(spec: &Node<'_>) -> bool {
    let has = |field: &&str| !spec.get(field).is_absent() && spec.get(field).bool() != Some(false);
    spec.has_unknown_key() || ["hostNetwork", "hostAliases", "dnsConfig", "dnsPolicy"].iter().any(has)
}

/// Reports the name of another Pod that cannot be resolved. Source: the documentation of Kubernetes (DNS for Services and
/// Pods): only a pod with a hostname, and with the name of a headless Service as its subdomain, has a name.
fn name_of_bare_pod(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    let template = templates.first()?;
    if may_resolve_other_names(&template.spec) || object.may_lack_fields() || is_renamed(object) {
        return None;
    }
    let (host, node) = template.containers().find_map(|container| {
        meeting_point(&container).or_else(|| {
            let (host, node) = variable(&container, "MASTER_ADDR")??;
            let writes_names =
                |word: &Word<'_>| ["/etc/hosts", "MASTER_ADDR="].iter().any(|sign| word.text.contains(sign));
            (!words(&container).iter().any(writes_names)).then(|| (host.into_owned(), node))
        })
    })?;
    let labels: Vec<&str> = host.split('.').collect();
    let namespace = object.namespace_or_default();
    let (pod, service) = match labels.as_slice() {
        [pod] => (*pod, None),
        // It may be a Service in a namespace of that name.
        [pod, service] if !ctx.cluster().has(Kind::SERVICE, service, pod) => (*pod, Some(*service)),
        [pod, service, of] | [pod, service, of, "svc", ..] if *of == namespace => (*pod, Some(*service)),
        _ => return None,
    };
    let has_name = |other: &Object| {
        let names = ["hostname", "subdomain"].map(|field| other.path(&["spec", field]));
        service.is_some() && names[0].text() == Some(pod) && names[1].text() == service
    };
    if ctx.cluster().in_namespace(Kind::POD, namespace).any(has_name) {
        return None;
    }
    // Each pod knows its own name.
    let other = ctx.partner(Kind::POD, namespace, pod).filter(|other| other.name() != object.name())?;
    let spec = other.get("spec");
    let names = ["hostname", "subdomain"].map(|field| spec.get(field));
    let is_unclear = other.may_lack_fields() || spec.has_unknown_key() || names.iter().any(Node::is_unknown);
    if is_unclear || ctx.cluster().has(Kind::SERVICE, namespace, pod) {
        return None;
    }
    let name = object.display_name();
    let message = format!("`{name}` meets the others at `{}`, which is not in DNS", ellipsize(&host));
    ctx.report(&node, message).severity(Severity::Warning).help(format!(
        "give Pod `{pod}` a `hostname`, and a headless Service as `subdomain`: its name is `<hostname>.<subdomain>`"
    ));
    None
}

/// The host at which the program of a container meets the others, and the item that names it.
fn meeting_point<'a>(container: &Node<'a>) -> Option<(String, Node<'a>)> {
    let words = words(container);
    // A script may write the names itself.
    if words.iter().any(|word| word.text.contains("/etc/hosts")) {
        return None;
    }
    let ray = words.windows(2).position(|pair| pair[0].text == "ray" && pair[1].text == "start");
    let value = match option(&words, &MEETING_POINTS) {
        OptionValue::Absent => option(command_at(&words, ray?), &["address"]),
        value => value,
    };
    let OptionValue::Text(text, node) = value else { return None };
    let host = url::host(&text);
    host.bytes().all(is_host_byte).then(|| (host.to_owned(), node))
}

/// Whether a host begins with the name of a pod of a StatefulSet.
fn is_pod_of(object: &Object, host: &str) -> bool {
    let pod = host.split('.').next().unwrap_or_default();
    let ordinal = pod.strip_prefix(object.name()).and_then(|rest| rest.strip_prefix('-'));
    ordinal.is_some_and(is_digits)
}

fn name_of_pod(
    object: &Object,
    field: &Node<'_>,
    host: &str,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let labels: Vec<&str> = host.split('.').collect();
    let namespace = object.namespace_or_default();
    let service = match labels.as_slice() {
        // It may be a Service in a namespace of that name.
        [_, service] if *service != namespace && !ctx.cluster().has(Kind::SERVICE, service, labels[0]) => {
            *service
        }
        [_, service, of, "svc", ..] if *of == namespace => *service,
        [_, service, of] if *of == namespace => *service,
        [pod] => return name_without_service(object, field, pod, node, ctx),
        _ => return None,
    };
    if !is_pod_of(object, host) {
        return None;
    }
    let name = object.display_name();
    let own = field.text().unwrap_or_default();
    let partner = ctx.partner(Kind::SERVICE, namespace, service);
    let partner = partner.filter(|service| !service.may_lack_fields());
    let address = partner.map(|service| service.path(&["spec", "clusterIP"]));
    let is_external =
        partner.is_some_and(|service| service.path(&["spec", "type"]).text() == Some("ExternalName"));
    // An address that is not written is chosen by the API server.
    let has_address = address
        .as_ref()
        .is_some_and(|address| !address.is_unknown() && address.text() != Some("None") && !is_external);
    let create = "create a headless Service, and name it here and as `serviceName`".to_owned();
    if own == service {
        let (partner, address) = partner.zip(address).filter(|_| has_address)?;
        let message =
            format!("workers of `{name}` meet at `{}`, and `{service}` is not headless", ellipsize(host));
        ctx.report(node, message).reports_absence(false).help(create).related(
            partner,
            &address,
            "only `clusterIP: None` gives names to pods",
        );
        return None;
    }
    let message = match own {
        "" => format!("workers of `{name}` meet at `{}`, and its `serviceName` is empty", ellipsize(host)),
        own => format!("workers of `{name}` meet at `{}`, and its `serviceName` is `{own}`", ellipsize(host)),
    };
    let help = match own {
        "" if has_address => create,
        "" => format!("write `serviceName: {service}`, the name of a headless Service"),
        own => format!("meet at `{}.{own}`, if that is a headless Service", labels[0]),
    };
    ctx.report(node, message).reports_absence(false).help(help).related(
        object,
        field,
        "pods have names in this Service only",
    );
    None
}

/// Reports the name of a StatefulSet's pod without that of a Service: only the pod itself knows it, by its file of hosts.
fn name_without_service(
    object: &Object,
    field: &Node<'_>,
    pod: &str,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let namespace = object.namespace_or_default();
    if !is_pod_of(object, pod) || is_renamed(object) || ctx.cluster().has(Kind::SERVICE, namespace, pod) {
        return None;
    }
    let name = object.display_name();
    let message = format!("workers of `{name}` meet at `{}`, which is not in DNS", ellipsize(pod));
    let service = field.text().filter(|service| !service.is_empty()).unwrap_or("<service>");
    ctx.report(node, message)
        .severity(Severity::Warning)
        .help(format!("write `{pod}.{service}`, where `serviceName` names a headless Service"))
        .related(object, field, "pods have names in this Service only");
    None
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
