//! The pods of an MPIJob do not run as root, and the SSH key is in root's folder.
//!
//! # Why
//! The MPI Operator gives launcher and workers one SSH key, in `/root/.ssh` with the mode 0600 unless
//! `sshAuthMountPath` names another folder. Another user can neither open it nor looks for it there: SSH takes
//! the folder `.ssh` in the user's home. `mpirun` then ends with `Permission denied (publickey)`, as often as
//! `backoffLimit` allows, while the workers hold their nodes.
//!
//! # Fix
//! Write `sshAuthMountPath` with the folder in the home of that user, which is in the image:
//! `/home/mpiuser/.ssh` in those that are built on the images of the MPI Operator.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kubeflow.org/v2beta1
//!  kind: MPIJob
//!  metadata: {name: weather, namespace: hpc}
//!  spec: # <-
//! +  sshAuthMountPath: /home/mpiuser/.ssh
//!    slotsPerWorker: 4
//!    runPolicy:
//!      cleanPodPolicy: Running
//!      backoffLimit: 2
//!      activeDeadlineSeconds: 7200
//!      ttlSecondsAfterFinished: 3600
//!    mpiReplicaSpecs:
//!      Launcher:
//!        replicas: 1
//!        template:
//!          spec:
//!            containers:
//!              - name: launcher
//!                image: registry.example.com/hpc/weather:9.1
//!                command: [mpirun, /opt/weather]
//!                securityContext: {runAsUser: 1000}
//!                resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}
//!      Worker:
//!        replicas: 2
//!        template:
//!          spec:
//!            containers:
//!              - name: worker
//!                image: registry.example.com/hpc/weather:9.1
//!                securityContext: {runAsUser: 1000}
//!                resources: {requests: {cpu: 4, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://github.com/kubeflow/mpi-operator/blob/master/README.md>
//! - <https://github.com/kubeflow/mpi-operator/pull/383>

use crate::rules::prelude::*;
use crate::workload::command::command_and_args;

pub(crate) static RULE: Rule = Rule {
    id: "mpi-key-unreadable",
    kinds: &[Kind::MPI_JOB],
    docs: docs(include_str!("mpi_key_unreadable.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// The default of `sshAuthMountPath`, and the folder whose key has the mode 0600 (`setupSSHOnPod` in
/// `pkg/controller/mpi_job_controller.go` of the MPI Operator 0.3 to 0.8).
const ROOT: &str = "/root/.ssh";

/// What in a command or a variable says that the key is found in another way: copied, or named to SSH.
const OTHER_WAYS: [&str; 3] = ["ssh -i", "rsh_a", "IdentityFile"];

/// Version v1, of the Training Operator, uses `kubectl exec` and no key.
fn check(job: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job.get("spec");
    let path = spec.get("sshAuthMountPath");
    let is_of_root = path.is_absent() || path.text() == Some(ROOT);
    if job.version() != "v2beta1" || !is_of_root || job.may_lack_fields() || spec.has_unknown_key() {
        return None;
    }
    let pods = ["Launcher", "Worker"].map(|role| spec.path(&["mpiReplicaSpecs", role, "template", "spec"]));
    let containers = || {
        let lists = pods.iter().flat_map(|pod| ["containers", "initContainers"].map(|list| pod.get(list)));
        lists.flat_map(|list| list.items().collect::<Vec<_>>())
    };
    if containers().any(|container| finds_key(&container)) {
        return None;
    }
    let user = pods.iter().find_map(other_user)?;
    let who = user.int().map_or_else(|| "another user than root".to_owned(), |id| format!("user {id}"));
    ctx.report(&path, format!("{who} cannot read the SSH key, which is in `{ROOT}`{}", by_default(&path)))
        .help("write `sshAuthMountPath` with `.ssh` in the home of that user, such as `/home/mpiuser/.ssh`")
        .related(job, &user, "this says who runs it");
    None
}

fn by_default(path: &Node<'_>) -> &'static str {
    if path.is_set() { "" } else { " by default" }
}

/// The field that gives the first container of a pod another user than root. `None` also if the image has the user.
fn other_user<'a>(pod: &Node<'a>) -> Option<Node<'a>> {
    let container = pod.get("containers").items().next()?;
    let contexts = [container.get("securityContext"), pod.get("securityContext")];
    let field = |name: &str| contexts.iter().map(|context| context.get(name)).find(|node| !node.is_absent());
    match field("runAsUser") {
        Some(user) => user.int().is_some_and(|id| id > 0).then_some(user),
        None => field("runAsNonRoot").filter(|node| node.bool() == Some(true)),
    }
}

/// Whether a text names a folder `.ssh`, and not a file such as `.sshd_config`.
fn names_folder(text: &str) -> bool {
    text.split(".ssh").skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether a container may use another key than the one in root's folder.
fn finds_key(container: &Node<'_>) -> bool {
    let variables = container.get("env");
    let of_env = variables.items().flat_map(|one| [one.get("name"), one.get("value")]);
    let of_command = command_and_args(container);
    let names_other = |node: Node<'_>| {
        node.is_unknown()
            || node
                .raw_text()
                .is_some_and(|text| OTHER_WAYS.iter().any(|way| text.contains(way)) || names_folder(text))
    };
    let mounts = container.get("volumeMounts");
    container.get("envFrom").is_set()
        || of_env.chain(of_command).any(names_other)
        || mounts.items().any(|mount| mount.get("mountPath").raw_text().is_none_or(names_folder))
}
