//! A model server can write no temporary file, and ends at its start.
//!
//! # Why
//! vLLM and SGLang connect their processes by sockets in the folder for temporary files. With
//! `readOnlyRootFilesystem: true` the folders that Python tries are read-only unless a volume is mounted there:
//! `TMPDIR`, `TEMP`, `TMP`, `/tmp`, `/var/tmp`, `/usr/tmp` and the working directory. The server ends with
//! `No usable temporary directory found`, and the container restarts again and again on a node that costs money.
//!
//! Images of one's own, whose working directory is not known, and commands behind a script are left alone.
//!
//! # Fix
//! Mount an emptyDir at `/tmp`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.19.1
//!        args: [--model=/models/chat]
//!        securityContext:
//!          readOnlyRootFilesystem: true # <-
//!        resources:
//!          requests: {cpu: 4, memory: 24Gi, nvidia.com/gpu: 1}
//!          limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!        volumeMounts:
//!          - {name: models, mountPath: /models, readOnly: true}
//! +        - {name: tmp, mountPath: /tmp}
//!    volumes:
//!      - {name: models, persistentVolumeClaim: {claimName: models}}
//! +    - {name: tmp, emptyDir: {}}
//! ```
//!
//! # References
//! - <https://docs.python.org/3/library/tempfile.html#tempfile.gettempdir>
//! - <https://docs.vllm.ai/en/latest/configuration/env_vars/>

use std::path::Path;

use crate::rules::prelude::*;
use crate::workload::environment::{is_open, may_define};
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "temporary-folder-read-only",
    kinds: WORKLOAD_KINDS,
    reads: &RUNTIMES,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("temporary_folder_read_only.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Servers that make a temporary file before they load a model: `VLLM_RPC_BASE_PATH` of `vllm/envs.py` (0.6 to 0.19) and
/// `PortArgs.init_new` of SGLang's `server_args.py` (0.4.10 to 0.5.23).
const WRITERS: [ServerId; 2] = [ServerId::Vllm, ServerId::Sglang];
/// The variables and folders that Python's `tempfile` tries, and the working directories of the images.
const VARIABLES: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];
const FOLDERS: [&str; 5] = ["/tmp", "/var/tmp", "/usr/tmp", "/vllm-workspace", "/sgl-workspace"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if !container.has_unknown_key() && !is_model_of_runtime(&container) {
            inspect(template, &container, ctx);
        }
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let root = container.path(&["securityContext", "readOnlyRootFilesystem"]);
    if root.bool() != Some(true) {
        return None;
    }
    let launch = Launch::of(container).filter(|launch| launch.is_first)?;
    let server = launch.program.server().filter(|server| WRITERS.contains(&server.id))?;
    let mounts = container.get("volumeMounts");
    let directory = container.get("workingDir");
    let is_writable = |mount: Node<'_>| {
        let Some(path) = mount.get("mountPath").text() else { return true };
        let holds = |folder: &str| Path::new(folder).starts_with(path);
        FOLDERS.into_iter().any(holds) || directory.text().is_some_and(holds)
    };
    if !server.is_in_published_image_of(container)
        || mounts.has_unknown()
        || mounts.items().any(is_writable)
        || directory.is_unknown()
        || is_open(container)
        || may_define(container, |name| VARIABLES.contains(&name))
    {
        return None;
    }
    let message =
        format!("the root file system is read-only: {} can write no temporary file, and ends", server.name);
    let finding = ctx.report(&root, message);
    finding.help("mount an emptyDir at `/tmp`");
    let volumes = template.spec.get("volumes");
    if !volumes.items().any(|volume| volume.get("name").text() == Some("tmp")) {
        let fix = Fix::unsafe_("mount an emptyDir at `/tmp`");
        let fix = fix.append(&mounts, json!({"name": "tmp", "mountPath": "/tmp"}));
        finding.fix(fix.append(&volumes, json!({"name": "tmp", "emptyDir": {}})));
    }
    None
}
