//! The pods of a server on several nodes wait for each other.
//!
//! # Why
//! A server on several nodes answers its readiness probe when all of its ranks have joined. A StatefulSet
//! starts its pods one after the other, each when the one before is ready (`OrderedReady`, the default):
//! the first waits for the others, which are never started. And a headless Service has no address for a pod
//! that is not ready, so the other ranks cannot find the first by its name while it waits for them. In a
//! group the leader alone serves requests: a worker that is asked for the health of the server is never
//! ready, and a startup or liveness probe restarts it, and its whole group, without end. vLLM with
//! `--headless` has no API server in any kind of workload. Where a script chooses the ranks that get the
//! option, it is information.
//!
//! An init container that waits for the name of a headless Service, or for a port of another one, ends when
//! a pod of that Service is ready. If the Service selects only the pods that the container is part of, none
//! ever is.
//!
//! With `restartPolicy: None` a LeaderWorkerSet starts only the pod again that has failed. The ranks of vLLM and
//! SGLang that still run wait for the one that is gone, and do not let the new one join. Ranks over Ray may find
//! each other again when the leader ends as well: information.
//!
//! vLLM with `--distributed-executor-backend ray` joins a Ray cluster that runs already. Where no container of a
//! LeaderWorkerSet starts one, vLLM starts Ray in its own pod, which has too few GPUs, and ends.
//!
//! # Fix
//! Write `podManagementPolicy: Parallel`, and `publishNotReadyAddresses: true` in the headless Service. A
//! LeaderWorkerSet does both, and by default starts a group again as a whole; its workers need no probe.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    replicas: 2
//!    serviceName: chat
//! -  podManagementPolicy: OrderedReady # <-
//! +  podManagementPolicy: Parallel
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: sglang
//!            image: lmsysorg/sglang:v0.5.3
//!            command: [python3, -m, sglang.launch_server]
//!            args: [--model-path, m, --tp, "16", --nnodes, "2", --node-rank, $(RANK),
//!              --dist-init-addr, "chat-0.chat:5000", --host, 0.0.0.0]
//!            env:
//!              - name: RANK
//!                valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
//!            readinessProbe: {httpGet: {path: /health, port: 30000}, timeoutSeconds: 5}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 90, memory: 900Gi, nvidia.com/gpu: 8}
//!              limits: {memory: 900Gi, nvidia.com/gpu: 8}
//!            volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector: {matchLabels: {app: chat}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-management-policies>
//! - <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/>
//! - <https://lws.sigs.k8s.io/docs/concepts/failure-handling/>

use super::server_port_mismatch::starts_others;
use crate::facts::text::is_digits;
use crate::facts::url;
use crate::rules::prelude::*;
use crate::workload::command::{base_name, command_and_args, command_at, shell_script};
use crate::workload::environment::variable;
use crate::workload::launcher::joins_server;
use crate::workload::ports::number;
use crate::workload::processes::ranks;
use crate::workload::server::server_at;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "multi-node-deadlock",
    kinds: &[
        Kind::STATEFUL_SET,
        Kind::LEADER_WORKER_SET,
        Kind::DEPLOYMENT,
        Kind::JOB,
        Kind::LLM_INFERENCE_SERVICE,
    ],
    reads: kinds![[Kind::SERVICE], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("multi_node_deadlock.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is_partial() || spec.has_unknown_key() {
        return None;
    }
    let all = templates(object);
    silent_ranks(object, &all, ctx);
    if object.is(Kind::LLM_INFERENCE_SERVICE) {
        return None;
    }
    if object.is(Kind::LEADER_WORKER_SET) {
        lone_restart(object, &all, ctx);
        without_ray(object, &all, ctx);
    }
    let template = all.first()?;
    waits_for_itself(object, template, ctx);
    if object.is(Kind::DEPLOYMENT) || object.is(Kind::JOB) {
        return None;
    }
    let pods = |container: &Node<'_>| ranks(object, template, container);
    let container = template.containers().find(|container| pods(container) > 1)?;
    let ranks = pods(&container);
    // Without a probe a pod is ready when it has started; a command may succeed before the server listens.
    let waits = ["readinessProbe", "startupProbe"].iter().any(|probe| {
        let probe = container.get(probe);
        ["httpGet", "tcpSocket", "grpc"].iter().any(|handler| probe.get(handler).is_set())
    });
    if !waits || template.spec.has_unknown_key() {
        return None;
    }
    if object.is(Kind::LEADER_WORKER_SET) {
        let policy = spec.get("startupPolicy");
        if policy.text() == Some("LeaderReady") {
            let message = format!(
                "the leader is ready when all {ranks} ranks have joined, and its workers are created after it"
            );
            ctx.report(&policy, message)
                .severity(Severity::Error)
                .help("write `startupPolicy: LeaderCreated`")
                .fix(Fix::unsafe_("create all pods at once").set(&policy, json!("LeaderCreated")));
        }
        return None;
    }
    let replicas = replicas(object)?;
    if replicas < 2 {
        return None;
    }
    let policy = spec.get("podManagementPolicy");
    let is_ordered = !policy.is_unknown() && matches!(policy.text(), None | Some("OrderedReady"));
    if is_ordered {
        let message = format!(
            "the first pod is ready when all {ranks} ranks have joined, and the others start after it"
        );
        ctx.report(&policy, message)
            .severity(Severity::Error)
            .help("write `podManagementPolicy: Parallel`")
            .fix(Fix::unsafe_("start all pods at once").set(&policy, json!("Parallel")));
    }
    let service =
        ctx.partner(Kind::SERVICE, object.namespace_or_default(), spec.get("serviceName").text()?)?;
    let service_spec = service.get("spec");
    let publishes = service_spec.get("publishNotReadyAddresses");
    if service_spec.get("clusterIP").text() != Some("None")
        || publishes.is_unknown()
        || publishes.bool() == Some(true)
        || service.is_partial()
    {
        return None;
    }
    let message = format!(
        "ranks find each other by Service `{}`, which has no address of a pod that is not ready",
        service.display_name()
    );
    ctx.report(&spec.get("serviceName"), message)
        .help("write `publishNotReadyAddresses: true` in the Service: a pod is ready when all have joined")
        .related(service, &service_spec.get("clusterIP"), "the headless Service");
    None
}

/// Programs that ask whether a host is there, and those that ask for its name alone.
const ASKS: [&str; 8] = ["nslookup", "getent", "dig", "host", "nc", "curl", "wget", "ping"];
const ASKS_DNS: [&str; 4] = ["nslookup", "getent", "dig", "host"];

/// Reports an init container that waits for a Service of which the pod itself, or its like, are the only pods: none
/// of them is ready before it ends.
fn waits_for_itself(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let pods = replicas(object);
    if object.is(Kind::LEADER_WORKER_SET) || pods == Some(0) || template.spec.has_unknown_key() {
        return None;
    }
    let views = ctx.cluster().views();
    let services = views.services_of(object.namespace_or_default(), template);
    for init in template.spec.get("initContainers").items() {
        let Some(script) = shell_script(command_and_args(&init)) else { continue };
        let Some((host, asks)) = script.node.text().and_then(awaited_host) else { continue };
        let labels: Vec<&str> = host.split('.').collect();
        // Of the pods of a StatefulSet one may be asked for by its name.
        let name = match labels.as_slice() {
            [name] => *name,
            [pod, name, ..] if is_pod_of(object, pod) => *name,
            [name, namespace, ..] if *namespace == object.namespace_or_default() => *name,
            _ => continue,
        };
        let Some(service) = services.iter().find(|service| service.name() == name) else { continue };
        let spec = service.get("spec");
        let is_headless = spec.get("clusterIP").text() == Some("None");
        let publishes = spec.get("publishNotReadyAddresses");
        let (workloads, may_be_others) = views.selected_by_service(service);
        let is_alone = workloads.iter().all(|one| one.object.is_same_resource(object)) && !may_be_others;
        // The name of another Service resolves before any pod is ready.
        if !ctx.pairs_with(service)
            || service.may_lack_fields()
            || !is_alone
            || (!is_headless && ASKS_DNS.contains(&asks))
            || (is_headless && (publishes.is_unknown() || publishes.bool() == Some(true)))
        {
            continue;
        }
        let waiting = init.get("name").text().unwrap_or("init");
        let message = format!(
            "init container `{waiting}` waits for Service `{}`, whose only pods become ready after it",
            service.display_name()
        );
        let help = match is_headless {
            true => "write `publishNotReadyAddresses: true` in the Service, or remove the init container",
            false => "remove the init container: it waits for the pod that it is part of",
        };
        ctx.report(&script.node, message).help(help).related(
            service,
            &spec.get("selector"),
            "selects these pods alone",
        );
        return Some(());
    }
    None
}

/// The host for which a script waits in its only loop, and the program that asks for it. `None` if the script may do
/// something else.
fn awaited_host(script: &str) -> Option<(String, &'static str)> {
    const OTHERS: [&str; 9] = ["if ", "[ ", "[[", "case ", "timeout", "break", "exit", "for ", "HOSTNAME"];
    let is_text = |part: &&str| part.trim().trim_start_matches("do ").trim_start().starts_with("echo");
    let parts: Vec<&str> = script.split([';', '\n']).filter(|part| !is_text(part)).collect();
    let script = parts.join(";");
    let loops = script.matches("until ").count() + script.matches("while ").count();
    if loops != 1 || OTHERS.iter().any(|sign| script.contains(sign)) {
        return None;
    }
    let begin = script.find("until ").or_else(|| script.find("while ! "))?;
    let condition = script[begin..].split(';').next()?;
    let mut words = condition.split_whitespace().skip(1).filter(|word| *word != "!");
    let program = words.next()?;
    let asks = ASKS.into_iter().find(|known| *known == base_name(program))?;
    let host = words.find(|word| !word.starts_with('-') && *word != "hosts" && !is_digits(word))?;
    let host = url::host(host);
    let is_known =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    is_known.then(|| (host.to_owned(), asks))
}

/// Whether a name is that of a pod of a StatefulSet.
fn is_pod_of(object: &Object, name: &str) -> bool {
    let ordinal = name.strip_prefix(object.name()).and_then(|rest| rest.strip_prefix('-'));
    object.is(Kind::STATEFUL_SET) && ordinal.is_some_and(is_digits)
}

/// A rank that has no API server.
struct Silent<'a> {
    /// The port of the API, where nobody listens in this rank.
    port: i64,
    /// The beginning of a message.
    what: String,
    /// The container that answers instead, in the template of the leader.
    leader: Option<Node<'a>>,
    /// Whether all pods of the template are such ranks, and not those alone that a script chooses.
    is_sure: bool,
}

/// Reports probes of ranks that ask for the API of the server, which only the first rank has.
fn silent_ranks(object: &Object, all: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    for template in all {
        let mut containers = template.containers().chain(template.sidecars());
        let (Some(container), None) = (containers.next(), containers.next()) else { continue };
        let Some(silent) = silent_worker(object, all, template, &container)
            .or_else(|| headless(&container))
            .or_else(|| headless_by_script(object, all, &container))
        else {
            continue;
        };
        for name in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let probe = container.get(name);
            if !asks_api(&container, &probe, silent.port) {
                continue;
            }
            let is_restarted = name != "readinessProbe";
            let end = if is_restarted { "restarted again and again" } else { "never ready" };
            let severity = match (silent.is_sure, is_restarted) {
                (false, _) => Severity::Info,
                (true, true) => Severity::Error,
                (true, false) => Severity::Warning,
            };
            let who = if silent.leader.is_some() { "a worker" } else { "a pod" };
            let finding = ctx.report(&probe, format!("{}: {who} with this probe is {end}", silent.what));
            finding.severity(severity).help(match silent.is_sure {
                true => "remove the probe of the workers",
                false => "give the first rank a template of its own, and the probe to that alone",
            });
            if let Some(leader) = &silent.leader {
                finding.related(object, &leader.get("name"), "the leader serves requests");
            }
        }
    }
    None
}

/// Whether a probe asks for the health of a server on a port.
fn asks_api(container: &Node<'_>, probe: &Node<'_>, port: i64) -> bool {
    const PATHS: [&str; 4] = ["/health", "/v1/models", "/ping", "/metrics"];
    let is_port = |handler: &Node<'_>| {
        !handler.get("host").is_set()
            && number(container, &handler.get("port")).is_some_and(|(number, _)| number == port)
    };
    let get = probe.get("httpGet");
    get.get("path").text().is_some_and(|path| PATHS.contains(&path)) && is_port(&get)
        || is_port(&probe.get("tcpSocket"))
}

/// The worker of a group that joins the server of its leader.
fn silent_worker<'a>(
    object: &Object,
    all: &[Template<'a>],
    template: &Template<'_>,
    container: &Node<'_>,
) -> Option<Silent<'a>> {
    let [leader, _] = all else { return None };
    if !object.is(Kind::LEADER_WORKER_SET) || !template.is_of_workers() || !joins_server(container) {
        return None;
    }
    let leader = leader.containers().find(|container| server_of(container).is_some())?;
    let (port, _) = server_of(&leader)?.listens_on(&leader)?;
    let what = format!("port {port} answers in the leader alone");
    Some(Silent { port, what, leader: Some(leader), is_sure: true })
}

/// A container that starts vLLM with `--headless`, and nothing else: `run_headless` of `vllm/entrypoints/cli/serve.py` starts the
/// engines without an API server (vLLM 0.9 to 0.33).
fn headless<'a>(container: &Node<'_>) -> Option<Silent<'a>> {
    let server = server_of(container).filter(|server| server.id == ServerId::Vllm)?;
    let words = words(container);
    let mut starts = (0..words.len()).filter(|at| server_at(&words, *at).is_some());
    let own = starts.next().map_or(words.as_slice(), |at| command_at(&words, at));
    let is_one = starts.next().is_none() && !starts_others(container);
    if !is_one || !own.iter().any(|word| word.text == "--headless") {
        return None;
    }
    let (port, _) = server.listens_on(container)?;
    let what = "vLLM with `--headless` has no API server".to_owned();
    Some(Silent { port, what, leader: None, is_sure: true })
}

/// A container of a group of one template in which a script adds `--headless` for the ranks after the first.
fn headless_by_script<'a>(object: &Object, all: &[Template<'_>], container: &Node<'_>) -> Option<Silent<'a>> {
    let line = command_line(container);
    let pods = match object.is(Kind::LEADER_WORKER_SET) {
        true => object.path(&["spec", "leaderWorkerTemplate", "size"]).int(),
        false => replicas(object).filter(|_| object.is(Kind::STATEFUL_SET)),
    };
    let is_group = all.len() == 1 && pods.is_some_and(|pods| pods > 1);
    if !is_group || !line.contains("--headless") || starts_others(container) {
        return None;
    }
    server_of(container).filter(|server| server.id == ServerId::Vllm)?;
    // The variable with the option may hold more of them.
    let port = option(&words(container), &["port"]).int_or(8000)?;
    let what = "a rank with `--headless` has no API server".to_owned();
    Some(Silent { port, what, leader: None, is_sure: false })
}

/// What a command line has that starts Ray in a pod: its own command, the script in the image of vLLM, and copies of both.
const STARTS_RAY: [&str; 6] =
    ["ray start", "ray symmetric-run", "multi-node-serving", "ray_init", "run_cluster", "ray_start"];

/// Reports ranks over Ray in pods of which none starts it: vLLM then starts a Ray cluster in its own pod, which has too few GPUs.
fn without_ray(object: &Object, all: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let containers = || all.iter().flat_map(Template::all_containers);
    let may_start_ray = |container: Node<'_>| {
        let line = command_line(&container);
        STARTS_RAY.iter().any(|sign| line.contains(sign))
            || line.contains(".sh")
            || container.get("lifecycle").is_set()
            || container.has_unknown_key()
            || image_text(&container).is_some_and(|image| image.contains("ray"))
    };
    if object.path(&["spec", "leaderWorkerTemplate", "size"]).int().is_none_or(|size| size < 2)
        || containers().any(may_start_ray)
    {
        return None;
    }
    let container = all.first()?.containers().find(|container| server_of(container).is_some())?;
    let launch = Launch::of(&container).filter(|launch| launch.program.is(ServerId::Vllm))?;
    // An entrypoint of one's own may start Ray first.
    let first = container.get("command").items().next();
    let is_plain = match &first {
        Some(first) => matches!(base_name(first.text()?), "vllm" | "python" | "python3"),
        None => launch.is_plain_vllm(&container),
    };
    let executor = launch.option(&["distributed-executor-backend"]);
    let address = variable(&container, "RAY_ADDRESS").map(|found| found.map(|(text, _)| text));
    let is_own = matches!(address.as_ref().map(Option::as_deref), Some(None | Some("auto" | "local")));
    let (used, has) = (launch.gpus_of_model(&container)?, gpus_of(&container)?.count);
    if !is_plain || !is_own || !executor.is("ray") || launch.may_have_more_options() || used <= has {
        return None;
    }
    let message = format!(
        "no container of `{}` starts Ray: vLLM needs {used} GPUs over it, and its pod has {has}",
        object.display_name()
    );
    ctx.report(&executor.node()?, message).severity(Severity::Error).help(
        "start Ray in all pods first, as `multi-node-serving.sh` in the image of vLLM does, and vLLM in the leader",
    );
    None
}

/// Reports a policy with which a pod that has failed starts again alone, while the server needs all ranks of its group to start
/// together (`handleRestartPolicy` in `pkg/controllers/pod_controller.go` of LeaderWorkerSet 0.6 to 0.9).
fn lone_restart(object: &Object, all: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let policy = object.path(&["spec", "leaderWorkerTemplate", "restartPolicy"]);
    // `Default` is the former name of `None`.
    let name = policy.text().filter(|name| matches!(*name, "None" | "Default"))?;
    let leader = all.first()?;
    let is_over_ray = leader.containers().find_map(|container| {
        let launch = Launch::of(&container)?;
        let is_known = [ServerId::Vllm, ServerId::Sglang].into_iter().any(|id| launch.program.is(id));
        (is_known && ranks(object, leader, &container) > 1).then(|| launch.nodes().is_none())
    })?;
    // Servers whose ranks may come and go.
    if all.iter().flat_map(Template::containers).any(|container| command_line(&container).contains("elastic"))
    {
        return None;
    }
    ctx.report(
        &policy,
        format!("`{name}` starts a failed pod alone: the server's other ranks do not let it join"),
    )
    .severity(if is_over_ray { Severity::Info } else { Severity::Warning })
    .help("write `RecreateGroupOnPodRestart`, which starts the whole group again")
    .fix(Fix::unsafe_("start the whole group again").set(&policy, json!("RecreateGroupOnPodRestart")));
    None
}
