//! A command, hook or probe runs a program that the image does not have.
//!
//! # Why
//! Images that are built on distroless or on nothing have one program: no shell, no `sleep`, no `curl`. A
//! container whose `command` is a shell never starts from such an image. A probe that runs one always fails: the
//! pod is never ready, or restarts without end. A `preStop` hook that sleeps fails at once, so that the container
//! gets SIGTERM while load balancers still send requests. The kubelet writes that as an event, which few people
//! read, and it is a warning; the others are errors.
//!
//! The images are those whose authors build them so, such as endpoint pickers of inference gateways, CoreDNS,
//! Fluent Bit and the collector of OpenTelemetry, and those that say `distroless`. Tags for debugging, and
//! containers that mount something where the program is, are left alone.
//!
//! The workers of an MPIJob run `sshd`, by themselves where they have no command: the launcher connects to it.
//! Images of CUDA, PyTorch and Python have none. That is a warning.
//!
//! # Fix
//! Write `sleep: {seconds: 10}` in the hook: the kubelet sleeps, from Kubernetes 1.30 on. Probe with `httpGet`,
//! `tcpSocket` or `grpc`. For a command take an image that has a shell. For workers of an MPIJob build one with
//! `openssh-server`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: picker}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: picker}}
//!    template:
//!      metadata: {labels: {app: picker}}
//!      spec:
//!        containers:
//!          - name: epp
//!            image: registry.k8s.io/gateway-api-inference-extension/epp:v1.0.1
//!            lifecycle:
//!              preStop:
//! -              exec:
//! -                command: [sleep, "10"] # <-
//! +              sleep:
//! +                seconds: 10
//!            resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://github.com/GoogleContainerTools/distroless>
//! - <https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/>
//! - <https://github.com/llm-d/llm-d-router/issues/2960>
//! - <https://github.com/NVIDIA/cloudai/issues/720>

use super::sleep_hook::sleep_of_command;
use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name};
use crate::workload::environment::entry;
use crate::workload::image::lacks_shell;

pub(crate) static RULE: Rule = Rule {
    id: "shell-not-in-image",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("shell_not_in_image.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Availability)
};

/// Programs of a shell, of coreutils, and others that no image of the table has.
const PROGRAMS: [&str; 21] = [
    "sh", "bash", "ash", "dash", "busybox", "sleep", "wget", "curl", "nc", "cat", "ls", "test", "touch",
    "rm", "kill", "pkill", "pgrep", "grep", "echo", "true", "env",
];

/// The folders in which a program is looked for by its name.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

const PROBE: &str = "probe with `httpGet`, `tcpSocket` or `grpc`";
/// The commands of a container, and what each does where its program is missing.
const PLACES: [(&[&str], &str, &str); 6] = [
    (&["command"], "the container does not start", "take an image with a shell, or leave `command` out"),
    (&["startupProbe", "exec", "command"], "the probe always fails, and the container restarts", PROBE),
    (&["livenessProbe", "exec", "command"], "the probe always fails, and the container restarts", PROBE),
    (&["readinessProbe", "exec", "command"], "the probe always fails, and the pod is never ready", PROBE),
    (
        &["lifecycle", "postStart", "exec", "command"],
        "the hook fails, and the container is killed",
        "remove the hook, or take an image with a shell",
    ),
    (
        &["lifecycle", "preStop", "exec", "command"],
        "the hook fails, and SIGTERM comes at once",
        "remove the hook, or take an image with a shell",
    ),
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // A patch may mount a shell.
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    if ctx.object().is(Kind::MPI_JOB) {
        server_of_ssh(template, ctx);
    }
    for container in template.all_containers().filter(lacks_shell) {
        for (path, consequence, help) in PLACES {
            let command = container.path(path);
            let Some(program) = command.items().next().and_then(|first| first.text()) else { continue };
            let folder = program.rsplit_once('/').map_or("/bin", |(folder, _)| folder);
            // What is elsewhere was put there by the image.
            let is_of_system = SYSTEM.contains(&folder) && PROGRAMS.contains(&base_name(program));
            if !is_of_system || may_bring(&container, program) {
                continue;
            }
            let name = container.get("name").text().unwrap_or("main");
            let message = format!("the image of `{name}` has no `{}`: {consequence}", base_name(program));
            let finding = ctx.report(&command, message);
            finding.help(help);
            if path.contains(&"preStop") {
                finding.severity(Severity::Warning);
                let_kubelet_sleep(&container, finding);
            }
        }
    }
    None
}

/// Images without `sshd`: their Dockerfiles install no `openssh-server` (nvidia/cuda, pytorch/pytorch, tensorflow/tensorflow, python,
/// ubuntu), and issue 720 of NVIDIA/cloudai of that on NGC.
const WITHOUT_SSHD: [&str; 6] = [
    "nvidia/cuda",
    "nvidia/pytorch",
    "pytorch/pytorch",
    "tensorflow/tensorflow",
    "library/python",
    "library/ubuntu",
];
/// Words of a script that may bring `sshd`.
const INSTALLERS: [&str; 7] = ["apt", "apt-get", "conda", "dnf", "yum", "install", "dropbear"];

/// Reports workers of an MPIJob whose image has no server for SSH. Source: mpi-operator 0.6 to 0.8, `newWorker` in
/// `pkg/controller/mpi_job_controller.go`: `/usr/sbin/sshd -De` where neither `command` nor `args` are set.
fn server_of_ssh(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_of_workers = template.spec.pointer().steps().iter().any(|step| step == "Worker");
    // The older operator connects through `kubectl`.
    if !is_of_workers || ctx.object().get("apiVersion").text() != Some("kubeflow.org/v2beta1") {
        return None;
    }
    let container = template.containers().next()?;
    let image = image_of(&container)?;
    let plain = |name: &&str| {
        image.is(name) || name.strip_prefix("library/").is_some_and(|name| image.repository == name)
    };
    if image.tag.is_none() || !WITHOUT_SSHD.iter().any(plain) || container.has_unknown_key() {
        return None;
    }
    let words = words(&container);
    let runs = |word: &Word<'_>| base_name(&word.text) == "sshd";
    let brings = |word: &Word<'_>| !word.known || INSTALLERS.contains(&base_name(&word.text));
    let mounts = container.get("volumeMounts");
    let is_mounted = || {
        let covers =
            |mount: Node<'_>| mount.get("mountPath").text().is_none_or(|path| path.starts_with("/usr"));
        mounts.has_unknown() || mounts.items().any(covers)
    };
    if words.iter().any(brings) || is_mounted() {
        return None;
    }
    let place = match words.iter().find(|word| runs(word)) {
        Some(word) => word.node.clone(),
        None if words.is_empty() => container.get("image"),
        None => return None,
    };
    let name = container.get("name").text().unwrap_or("main");
    ctx.report(&place, format!("the image of `{name}` has no `sshd`: the launcher reaches no worker"))
        .severity(Severity::Warning)
        .help("take an image with `openssh-server`, such as one on `mpioperator/base`");
    None
}

/// Proposes the action of Kubernetes in place of a command that sleeps.
fn let_kubelet_sleep(container: &Node<'_>, finding: &mut Finding) -> Option<()> {
    let seconds = sleep_of_command(container)?.seconds;
    let hook = container.path(&["lifecycle", "preStop"]);
    finding
        .help(format!("write `sleep: {{seconds: {seconds}}}`, for which the kubelet needs no program"))
        .fix(Fix::unsafe_("let the kubelet sleep").set(&hook, json!({"sleep": {"seconds": seconds}})));
    Some(())
}

/// Whether a volume of the container may have a program, or a variable may say where it is.
fn may_bring(container: &Node<'_>, program: &str) -> bool {
    let is_here = |rest: &str| rest.is_empty() || rest.strip_prefix('/') == Some(program);
    let holds = |mounted: &str| match program.rsplit_once('/') {
        Some((folder, _)) => {
            folder.strip_prefix(mounted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        None => {
            let above = ["/usr", "/usr/local"].contains(&mounted);
            above || SYSTEM.iter().any(|folder| mounted.strip_prefix(folder).is_some_and(is_here))
        }
    };
    let mut mounts = container.get("volumeMounts").items();
    let is_mounted = mounts.any(|mount| {
        mount.get("mountPath").text().is_none_or(|path| holds(path.trim_end_matches('/')) || path == program)
    });
    is_mounted || container.has_unknown_key() || !program.contains('/') && entry(container, "PATH").is_some()
}
