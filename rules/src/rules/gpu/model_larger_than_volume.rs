//! A model is larger than the volume into which it is downloaded.
//!
//! # Why
//! Kubelet evicts a pod whose `emptyDir` grows beyond its `sizeLimit`, or whose containers write more than
//! their limit of `ephemeral-storage`; on a volume of EBS or in memory the download ends with `No space
//! left on device`. The next pod downloads the same model and ends in the same way, while its GPU is paid
//! for. The size of the weights is computed from the name of the model as in `model-exceeds-gpu-memory`,
//! with at most two bytes a parameter, and is the least that the files need. So are the files that a
//! command downloads before, in an init container as well: `hf download` of a whole repository, and `curl`
//! or `wget` of a GGUF file whose name has the number of its parameters and their bits. Claims count where
//! their class is known to be EBS: other file systems may be larger than the claim.
//!
//! # Fix
//! Make the volume or the limit larger than the files of the model, with some room for tokenizers and kernels.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: summary}
//!  spec:
//!    replicas: 1
//!    strategy: {type: Recreate}
//!    selector: {matchLabels: {app: summary}}
//!    template:
//!      metadata: {labels: {app: summary}}
//!      spec:
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: example.com/vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-Instruct-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!            volumeMounts: [{name: hub, mountPath: /root/.cache/huggingface}]
//!        volumes:
//!          - name: hub
//! -          emptyDir: {sizeLimit: 10Gi} # <-
//! +          emptyDir: {sizeLimit: 30Gi}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>
//! - <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#local-ephemeral-storage>
//! - <https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables>

use std::path::{Path, PathBuf};

use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name};
use crate::workload::environment::{may_define, variable};
use crate::workload::model::{Precision, ROUNDED, Weights, megabytes_of_file, published_weights, weights_of};
use crate::workload::security::effective_user;

pub(crate) static RULE: Rule = Rule {
    id: "model-larger-than-volume",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS],
    docs: docs(include_str!("model_larger_than_volume.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// The room that the help adds to the weights, in percent.
const SPARE: u64 = 20;

/// Values of `--load-format` with which a server downloads all weights into its cache.
const DOWNLOADED: [&str; 4] = ["auto", "safetensors", "pt", "bitsandbytes"];

/// Variables that take the cache of Hugging Face somewhere else, or with which nothing is downloaded.
const OTHER_VARIABLES: [&str; 9] = [
    "TRANSFORMERS_CACHE",
    "VLLM_USE_MODELSCOPE",
    "SGLANG_USE_MODELSCOPE",
    "MODELSCOPE_CACHE",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "WEIGHTS_CACHE_OVERRIDE",
    "HF_HUB_DISABLE_SYMLINKS",
    "SNAP_USER_COMMON",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    if object.may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        inspect(template, &container, ctx);
    }
    for container in template.all_containers() {
        let words = words(&container);
        for command in words.split(|word| word.text == ";") {
            downloads(template, &container, command, ctx);
        }
    }
    None
}

/// Reports a command that downloads a model into a volume without room for it.
fn downloads(
    template: &Template<'_>,
    container: &Node<'_>,
    command: &[Word<'_>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let Download { name, files, folder, node } = of_repository(command).or_else(|| of_file(command))?;
    let room = room_at(&absolute(&folder)?, template, container, ctx)?;
    tell(&name, files, &node, room, ctx)
}

/// What a command downloads: its name, the megabytes that it has at least, and the folder.
struct Download<'a> {
    name: String,
    files: u64,
    folder: String,
    node: Node<'a>,
}

/// All files of a repository of Hugging Face: `hf download OWNER/NAME --local-dir FOLDER`.
fn of_repository<'a>(command: &[Word<'a>]) -> Option<Download<'a>> {
    let at = command.iter().position(|word| matches!(base_name(&word.text), "hf" | "huggingface-cli"))?;
    let (subcommand, rest) = command.get(at + 1..)?.split_first()?;
    // Single files, or those that a pattern leaves.
    let selects = |word: &Word<'_>| {
        ["--include", "--exclude", "--repo-type"].iter().any(|one| word.text.starts_with(one))
    };
    if subcommand.text != "download" || rest.iter().any(selects) {
        return None;
    }
    let is_option = |word: &Word<'_>| word.text.starts_with('-');
    let mut named = rest.iter().enumerate().filter(|(at, word)| {
        let follows_option = *at > 0 && is_option(&rest[at - 1]) && !rest[at - 1].text.contains('=');
        !is_option(word) && (!follows_option || rest[at - 1].text == "--quiet")
    });
    let ((_, name), None) = (named.next()?, named.next()) else { return None };
    let OptionValue::Text(folder, _) = option(rest, &["local-dir"]) else { return None };
    let weights = published_weights(&name.text)?;
    Some(Download { name: name.text.clone(), files: megabytes(&weights), folder, node: name.node.clone() })
}

/// One file of quantized weights: `curl -L https://huggingface.co/…/resolve/main/chat-7b.Q4_K_M.gguf -o /models/chat.gguf`.
fn of_file<'a>(command: &[Word<'a>]) -> Option<Download<'a>> {
    let program = command.iter().position(|word| matches!(base_name(&word.text), "curl" | "wget"))?;
    let command = &command[program..];
    let is_wget = base_name(&command[0].text) == "wget";
    let url = command.iter().find(|word| word.known && word.text.contains("/resolve/"))?;
    let file = base_name(url.text.split('?').next()?);
    let files = megabytes_of_file(file)?;
    let (to_file, to_folder): (&[&str], &[&str]) = match is_wget {
        true => (&["O", "output-document"], &["P", "directory-prefix"]),
        false => (&["o", "output"], &["output-dir"]),
    };
    let folder = match (option(command, to_folder), option(command, to_file)) {
        (OptionValue::Text(folder, _), _) => folder,
        (OptionValue::Absent, OptionValue::Text(path, _)) => path.rsplit_once('/')?.0.to_owned(),
        _ => return None,
    };
    Some(Download { name: file.to_owned(), files, folder, node: url.node.clone() })
}

fn tell(name: &str, files: u64, model: &Node<'_>, room: Room<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    if files * (100 - ROUNDED) <= room.megabytes * 100 {
        return None;
    }
    let size = |megabytes: u64| match megabytes {
        0..1000 => format!("{megabytes} MB"),
        _ => format!("{} GB", (megabytes + 500) / 1000),
    };
    let message = format!(
        "the files of `{}` need {} or more, and {} {}",
        ellipsize(name),
        size(files),
        room.has,
        size(room.megabytes)
    );
    let enough = files * (100 + SPARE) / 100 * 1_000_000 / (10 << 30) + 1;
    let help = format!("leave room for the whole model, {}Gi or more: {}", enough * 10, room.otherwise);
    let object = ctx.object();
    let finding = ctx.report(&room.node, message);
    finding.help(help).related(object, model, "the model");
    if let Some((claim, size)) = room.claim {
        finding.related(claim, &size, "the size of the claim");
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let launch = Launch::of(container)?;
    let server = launch.program.server()?;
    let (weights, model) = weights_of(&launch, container)?;
    match launch.option(&["load-format"]) {
        OptionValue::Absent => {}
        OptionValue::Text(format, _) if DOWNLOADED.contains(&format.as_str()) => {}
        _ => return None,
    }
    let folder = folder_of(server, &launch, template, container)?;
    let room = room_at(&folder, template, container, ctx)?;
    let (name, _) = launch.model(container)?;
    tell(&name, megabytes(&weights), &model, room, ctx)
}

/// The least that the files of a model need, in MB. Servers may convert them when they load.
fn megabytes(weights: &Weights) -> u64 {
    let half = Weights { precision: Precision::Half, ..weights.clone() };
    weights.megabytes().min(half.megabytes())
}

/// The folder into which a server downloads its model. `None` if it is unknown.
fn folder_of(
    server: &Server,
    launch: &Launch<'_>,
    template: &Template<'_>,
    container: &Node<'_>,
) -> Option<PathBuf> {
    let cache = server.cache.as_ref()?;
    if may_define(container, |name| OTHER_VARIABLES.contains(&name)) {
        return None;
    }
    match launch.option(&["download-dir", "huggingface-hub-cache", "weights-cache-override"]) {
        OptionValue::Text(folder, _) => return absolute(&folder),
        OptionValue::Unknown => return None,
        OptionValue::Absent => {}
    }
    let is_hub = cache.folders[0] == "~/.cache/huggingface";
    // The first of these that is set counts. What the image of TGI sets itself depends on its release.
    let below = [
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ];
    for (name, rest) in below {
        match variable(container, name)? {
            Some((folder, _)) if is_hub => return Some(absolute(&folder)?.join(rest)),
            Some(_) => return None,
            None => {}
        }
    }
    if !server.is_in_published_image_of(container) {
        return None;
    }
    match cache.folders[0].strip_prefix("~/") {
        Some(rest) if is_hub && effective_user(template, container).may_be_root() => {
            Some(Path::new("/root").join(rest).join("hub"))
        }
        Some(_) => None,
        None => absolute(cache.folders[0]),
    }
}

fn absolute(folder: &str) -> Option<PathBuf> {
    (folder.starts_with('/') && !folder.contains(['$', '{'])).then(|| folder.into())
}

/// The room for the files of a folder.
pub(super) struct Room<'a, 'c> {
    pub(super) megabytes: u64,
    /// The field that limits it.
    pub(super) node: Node<'a>,
    /// What has the room, for the message.
    pub(super) has: &'static str,
    /// What happens when the files need more.
    pub(super) otherwise: &'static str,
    pub(super) claim: Option<(&'c Object, Node<'c>)>,
}

const EVICTED: &str = "the kubelet evicts the pod";
const FULL: &str = "writing ends with `No space left on device`";

/// The room at a folder of a container, as far as a field limits it.
pub(super) fn room_at<'a, 'c>(
    folder: &Path,
    template: &Template<'a>,
    container: &Node<'a>,
    ctx: &Context<'c>,
) -> Option<Room<'a, 'c>> {
    let mounts = container.get("volumeMounts");
    let paths: Option<Vec<(PathBuf, Node<'a>)>> =
        mounts.items().map(|mount| Some((mount.get("mountPath").text()?.into(), mount))).collect();
    let paths = paths.filter(|_| !mounts.is_unknown())?;
    // A mount below the folder may hold the files of this model.
    if paths.iter().any(|(path, _)| path.starts_with(folder) && path != folder) {
        return None;
    }
    let above = paths.into_iter().filter(|(path, _)| folder.starts_with(path));
    let Some((_, mount)) = above.max_by_key(|(path, _)| path.components().count()) else {
        return own_filesystem(container);
    };
    let name = mount.get("name").text()?;
    let volumes = template.spec.get("volumes");
    let is_named = |node: &Node<'a>| node.get("name").text() == Some(name);
    let Some(volume) = volumes.items().find(is_named) else {
        return claim_template(name, template.place.0, ctx);
    };
    let directory = volume.get("emptyDir");
    if directory.is_mapping() || directory.is_set() {
        let in_memory = directory.get("medium").text() == Some("Memory");
        let limit = directory.get("sizeLimit");
        if !limit.is_set() && !in_memory && template.all_containers().count() == 1 {
            return own_filesystem(container);
        }
        let (has, otherwise) = match in_memory {
            true => ("the volume in memory holds", FULL),
            false => ("the volume holds", EVICTED),
        };
        return Some(Room { megabytes: size(&limit)?, node: limit, has, otherwise, claim: None });
    }
    let claim = volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]);
    if claim.is_mapping() {
        return of_claim(&claim, ctx);
    }
    let reference = volume.path(&["persistentVolumeClaim", "claimName"]);
    let claim =
        ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, ctx.object().namespace_or_default(), reference.text()?)?;
    if claim.may_lack_fields() {
        return None;
    }
    let room = of_claim(&claim.get("spec"), ctx)?;
    Some(Room {
        megabytes: room.megabytes,
        node: reference,
        has: "its claim has",
        otherwise: FULL,
        claim: Some((claim, room.node)),
    })
}

/// The room in the file system of a container, as far as its limit says.
fn own_filesystem<'a, 'c>(container: &Node<'a>) -> Option<Room<'a, 'c>> {
    let node = container.path(&["resources", "limits", "ephemeral-storage"]);
    let has = "the pod may write";
    Some(Room { megabytes: size(&node)?, node, has, otherwise: EVICTED, claim: None })
}

/// The claim of a StatefulSet's pod.
fn claim_template<'a, 'c>(name: &str, object: &'a Object, ctx: &Context<'c>) -> Option<Room<'a, 'c>> {
    let claims = object.path(&["spec", "volumeClaimTemplates"]);
    let claim = claims.items().find(|claim| claim.path(&["metadata", "name"]).text() == Some(name))?;
    of_claim(&claim.get("spec"), ctx).filter(|_| object.is(Kind::STATEFUL_SET))
}

/// The room in a new volume of EBS, which has the size of its claim.
fn of_claim<'a, 'c>(claim: &Node<'a>, ctx: &Context<'c>) -> Option<Room<'a, 'c>> {
    let class = claim.get("storageClassName").text()?;
    let provisioner =
        ctx.partner(Kind::STORAGE_CLASS, "default", class).map(|class| class.get("provisioner"));
    let is_ebs = match provisioner {
        Some(provisioner) => provisioner.text()?.contains("ebs"),
        None => matches!(class, "gp2" | "gp3"),
    };
    if !is_ebs || !claim.get("volumeName").is_absent() || claim.has_unknown() {
        return None;
    }
    let node = claim.path(&["resources", "requests", "storage"]);
    Some(Room { megabytes: size(&node)?, node, has: "the claim has", otherwise: FULL, claim: None })
}

fn size(node: &Node<'_>) -> Option<u64> {
    u64::try_from(Quantity::at(node)?.value() / 1_000_000).ok()
}
