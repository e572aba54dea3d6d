//! A server cannot write to the folder into which it downloads its model.
//!
//! # Why
//! The image `vllm/vllm-openai` runs as root up to 0.21, and its folder `/root` is closed to every other user.
//! A volume at `/root/.cache/huggingface` cannot be entered by user 1000, whatever `fsGroup` says, and as the
//! image has no such user, its home folder is `/`, into which it may not write: vLLM ends with
//! `PermissionError` before it has loaded a model. Without a volume it is the same.
//!
//! A server with a read-only root file system needs a volume at the folder into which it downloads. Where that
//! folder is mounted read-only, the model has to be there already, which is advice here: nothing shows it.
//!
//! A folder of the node that a `hostPath` of the type `DirectoryOrCreate` names is made by the kubelet, for root
//! alone, and `fsGroup` changes nothing there: another user cannot write to it on a new node.
//!
//! KServe mounts the claim of a `storageUri` with `pvc://` read-only at `/mnt/models` (since 0.14 unless the
//! annotation `storage.kserve.io/readonly` is `"false"`): NIM with its cache there does not start.
//!
//! Mountpoint for Amazon S3 renames files in directory buckets alone, has no links, and cannot write at the
//! end of a file that exists. The caches of Hugging Face and others need these: the download fails.
//!
//! # Fix
//! Mount the volume outside of `/root`, and name its path as `HF_HOME`, and a writable folder as `HOME`. Or let
//! the container run as root. Mount a writable volume at a cache into which models are downloaded. Copy the
//! files of a model into a folder of a bucket, and name that folder as the model.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: writer}
//!  spec:
//!    replicas: 1
//!    strategy: {type: Recreate}
//!    selector: {matchLabels: {app: writer}}
//!    template:
//!      metadata: {labels: {app: writer}}
//!      spec:
//!        securityContext:
//! -        runAsUser: 1000 # <-
//! +        runAsUser: 1000
//!          fsGroup: 1000
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: vllm
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-Instruct-v0.3]
//! +          env: [{name: HOME, value: /cache}, {name: HF_HOME, value: /cache/hub}]
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! -          volumeMounts: [{name: hub, mountPath: /root/.cache/huggingface}]
//! +          volumeMounts: [{name: hub, mountPath: /cache}]
//!        volumes: [{name: hub, persistentVolumeClaim: {claimName: hub}}]
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/stable/deployment/docker/>
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/>
//! - <https://github.com/kserve/kserve/issues/3687>
//! - <https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md>

use std::path::Path;

use super::model_cache_misplaced::downloads;
use super::model_path_not_mounted::KSERVE_MODELS;
use crate::cluster::storage::{S3_DRIVER, is_for_reading};
use crate::rules::prelude::*;
use crate::rules::scheduling::volume_mounted_twice::volume_of_claim;
use crate::workload::checkpoint::{mount_of, read_only, volume};
use crate::workload::environment::{is_open, known, variable};
use crate::workload::security::{User, effective_user};
use crate::workload::server::release::release;
use crate::workload::server::{is_server, may_be_rebuilt};

pub(crate) static RULE: Rule = Rule {
    id: "model-cache-unreachable",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME], WORKLOAD_KINDS, RUNTIMES],
    docs: docs(include_str!("model_cache_unreachable.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// The image whose home folder is known to be closed, and its last minor version that was looked at.
const IMAGE: &str = "vllm/vllm-openai";
const LAST: (u32, u32) = (0, 21);

/// Variables that move the cache or the home folder.
const MOVES: [&str; 6] =
    ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME", "TRANSFORMERS_CACHE"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    if object.may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if inspect(template, &container, ctx).is_none() {
            cannot_write(template, &container, ctx);
            on_node(template, &container, ctx);
        }
        in_claim_of_kserve(template, &container, ctx);
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !is_server(container, ServerId::Vllm)
        || !has_closed_home(container.get("image").text()?)
        || is_moved(container)?
    {
        return None;
    }
    let User::Other(user) = effective_user(template, container) else { return None };
    let mounts = container.get("volumeMounts");
    let is_closed = |mount: &Node<'_>| {
        mount.get("mountPath").text().is_some_and(|path| Path::new(path).starts_with("/root/.cache"))
    };
    // A volume at the home folder itself has its own permissions.
    let opens = |mount: Node<'_>| {
        mount.get("mountPath").text().is_none_or(|path| Path::new(path) == Path::new("/root"))
    };
    if mounts.has_unknown() || mounts.items().any(opens) {
        return None;
    }
    let who = match user.int() {
        Some(user) => format!("user {user}"),
        None => "a user other than root".to_owned(),
    };
    let Some(path) = mounts.items().find(is_closed).map(|mount| mount.get("mountPath")) else {
        return without_home(container, &user, &who, ctx);
    };
    let message =
        format!("{who} cannot enter `/root`, below which vLLM has its cache, `{}`", ellipsize(path.text()?));
    let object = ctx.object();
    ctx.report(&user, message)
        .help("mount the volume outside of `/root`, with its path as `HF_HOME`, and a writable folder as `HOME`")
        .related(object, &path, "the volume that is out of reach");
    Some(())
}

/// Reports a user whose home folder is `/`, to which vLLM cannot write, if it has to download its model.
fn without_home(container: &Node<'_>, user: &Node<'_>, who: &str, ctx: &mut Context<'_>) -> Option<()> {
    let mut mounts = container.get("volumeMounts").items();
    let opens = |mount: Node<'_>| {
        mount.get("mountPath").text().is_none_or(|path| path == "/" || path.starts_with("/.cache"))
    };
    if mounts.any(opens) || is_offline(container)? || !downloads(server_of(container)?, container) {
        return None;
    }
    let message = format!("{who} has no home folder in the image: vLLM cannot write models to `/.cache`");
    ctx.report(user, message).help("set `HOME` to a folder in a volume to which this user can write");
    Some(())
}

/// Whether a variable says that nothing is downloaded, or that it comes from elsewhere. `None` if that is unknown.
pub(super) fn is_offline(container: &Node<'_>) -> Option<bool> {
    let mut offline = false;
    for name in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE"] {
        offline |= variable(container, name)?.is_some();
    }
    Some(offline)
}

/// Reports a cache on a read-only file system into which a server would download its model.
fn cannot_write(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container)?;
    if !downloads(server, container) || is_offline(container)? {
        return None;
    }
    let (folder, named) = folder(server, template, container)?;
    let shown = ellipsize(&folder);
    let object = ctx.object();
    // `HF_HOME` keeps models in its folder `hub`, which may be a volume of its own.
    let Some(mount) = mount_of(template, container, &format!("{}/hub", folder.trim_end_matches('/')))? else {
        let root = container.path(&["securityContext", "readOnlyRootFilesystem"]);
        if root.bool() != Some(true) {
            return None;
        }
        let message =
            format!("{} cannot download its model to `{shown}`, which is on no volume", server.name);
        let finding = ctx.report(&root, message).help("mount a volume there, or bring the model in a volume");
        if let Some(named) = named {
            finding.related(object, &named, "the folder of models");
        }
        return None;
    };
    let name = mount.get("name").text()?;
    let claim = volume(template, name)?.path(&["persistentVolumeClaim", "claimName"]);
    let users = ctx.cluster().views().users_of_claim(object.namespace_or_default(), claim.text()?);
    if users.iter().any(|user| !user.is_same_resource(object)) {
        return None;
    }
    let Some(field) = read_only(template, &mount) else {
        let mut others = template.all_containers().filter(|other| other.pointer() != container.pointer());
        let mounts = |other: Node<'_>| {
            let mut mounts = other.get("volumeMounts").items();
            mounts.any(|one| one.get("name").text() == Some(name))
        };
        return if others.any(mounts) { None } else { into_bucket(server, &shown, &claim, &mount, ctx) };
    };
    let writes = |other: &Node<'_>| {
        let mut mounts = other.get("volumeMounts").items();
        mounts.any(|one| one.get("name").text() == Some(name) && read_only(template, &one).is_none())
    };
    if template.all_containers().any(|other| writes(&other)) {
        return None;
    }
    let message = format!(
        "{} cannot download to `{shown}`, which is read-only: its model has to be there",
        server.name
    );
    let finding = ctx.report(&field, message).severity(Severity::Info);
    finding.help("mount it writable, or fill the volume before, and set `HF_HUB_OFFLINE`");
    if let Some(named) = named {
        finding.related(object, &named, "the folder of models");
    }
    None
}

/// Reports a cache in a folder of the node that the kubelet makes with the mode 0755 for root (`hostPath` in the manual of Kubernetes).
fn on_node(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container)?;
    let User::Other(user) = effective_user(template, container) else { return None };
    if !downloads(server, container) || is_offline(container)? {
        return None;
    }
    let (folder, _) = folder(server, template, container)?;
    let mount = mount_of(template, container, &format!("{}/hub", folder.trim_end_matches('/')))??;
    let name = mount.get("name").text()?;
    let host = volume(template, name)?.get("hostPath");
    if host.get("type").text() != Some("DirectoryOrCreate") {
        return None;
    }
    // Another container may change the owner.
    let mounts = |other: Node<'_>| {
        let mut mounts = other.get("volumeMounts").items();
        other.pointer() != container.pointer()
            && mounts.any(|one| one.get("name").text().is_none_or(|own| own == name))
    };
    if template.all_containers().any(mounts) {
        return None;
    }
    let who = user.int().map_or_else(|| "a user other than root".to_owned(), |user| format!("user {user}"));
    let path = host.get("path");
    let message = format!(
        "{who} cannot write to `{}`, which the kubelet makes for root: {} keeps its model there",
        ellipsize(path.text()?),
        server.name
    );
    let object = ctx.object();
    ctx.report(&user, message)
        .help("change its owner in an init container that runs as root, or take an emptyDir or a claim")
        .related(object, &path, "the folder of the node");
    Some(())
}

/// Reports a download into a bucket that is mounted as a folder, unless it is a directory bucket, whose files can be renamed.
fn into_bucket(
    server: &Server,
    folder: &str,
    claim: &Node<'_>,
    mount: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let namespace = ctx.object().namespace_or_default();
    let written = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, namespace, claim.text()?)?;
    let volume = volume_of_claim(ctx.object(), claim.text()?, ctx)?;
    let (csi, options) = (volume.path(&["spec", "csi"]), volume.path(&["spec", "mountOptions"]));
    let bucket = csi.path(&["volumeAttributes", "bucketName"]).text()?;
    let is_read_only =
        options.items().any(|one| one.text().is_none_or(|text| text.trim_start_matches('-') == "read-only"))
            || is_for_reading(volume)
            || is_for_reading(written);
    if csi.get("driver").text() != Some(S3_DRIVER) || bucket.ends_with("--x-s3") || is_read_only {
        return None;
    }
    let message =
        format!("{} downloads its model to `{folder}`, a bucket where no file can be renamed", server.name);
    ctx.report(&mount.get("mountPath"), message)
        .help("copy the files of the model into a folder there and name it as the model, or take EFS for the cache")
        .related(volume, &csi.get("driver"), "the driver of the bucket");
    None
}

/// What makes KServe mount the claim of a `storageUri` writable: kserve 0.14 `pkg/constants`.
const KSERVE_READ_ONLY: &str = "storage.kserve.io/readonly";

/// Reports a cache in the claim of a `storageUri`, which KServe mounts read-only.
fn in_claim_of_kserve(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let is_served =
        container.get("name").text() == Some("kserve-container") || template.containers().count() == 1;
    // A transformer has no volume of its own: the `storageUri` is that of the predictor.
    let is_beside =
        template.spec.pointer().steps().iter().any(|step| step == "transformer" || step == "explainer");
    if !object.is(Kind::INFERENCE_SERVICE) || is_beside || !is_served || container.get("envFrom").is_set() {
        return None;
    }
    // Completed with a runtime, the object has no `storageUri`.
    let namespace = object.namespace_or_default();
    let written = ctx.cluster().unique(Kind::INFERENCE_SERVICE, namespace, object.name())?;
    let predictor = written.path(&["spec", "predictor"]);
    let of_model = predictor.entries().into_iter().map(|(_, part)| part.get("storageUri"));
    let of_model = of_model.filter(Node::is_set).find_map(|uri| Some((uri.text()?.to_owned(), uri)));
    let (uri, node) = match of_model {
        Some(uri) => uri,
        None => variable(container, "STORAGE_URI")?.map(|(uri, node)| (uri.into_owned(), node))?,
    };
    let is_annotated = |annotations: Node<'_>| {
        annotations.get(KSERVE_READ_ONLY).is_set()
            || annotations.is_unknown()
            || annotations.has_unknown_key()
    };
    let of_runtime = |kind: &Kind| {
        let mut runtimes = ctx.cluster().of(*kind);
        runtimes.any(|runtime| is_annotated(runtime.path(&["spec", "annotations"])))
    };
    if !uri.starts_with("pvc://")
        || is_annotated(written.path(&["metadata", "annotations"]))
        || is_annotated(predictor.get("annotations"))
        || RUNTIMES[..2].iter().any(of_runtime)
        || is_offline(container)?
    {
        return None;
    }
    let (what, path, place) = cache_below(container, KSERVE_MODELS)?;
    if mount_of(template, container, &path)?.is_some() {
        return None;
    }
    let shown = ellipsize(&path);
    let message = format!("{what} is `{shown}`, and KServe mounts the claim at `{KSERVE_MODELS}` read-only");
    ctx.report(&place, message)
        .severity(if what == "NIM_CACHE_PATH" { Severity::Warning } else { Severity::Info })
        .help(format!("write the annotation `{KSERVE_READ_ONLY}: \"false\"`, or mount another volume there"))
        .related(written, &node, "the claim");
    None
}

/// What names a folder below another one into which a container surely writes: the variable or option, the folder, and its item.
fn cache_below<'a>(container: &Node<'a>, folder: &str) -> Option<(&'static str, String, Node<'a>)> {
    let is_below = |path: &str| Path::new(path).starts_with(folder);
    let named = |name: &'static str| {
        let (path, node) = variable(container, name)??;
        is_below(&path).then(|| (name, path.into_owned(), node))
    };
    let always = ["NIM_CACHE_PATH", "VLLM_CACHE_ROOT"].into_iter().find_map(named);
    if always.is_some() || server_of(container).is_none_or(|server| !downloads(server, container)) {
        return always;
    }
    match Launch::of(container)?.option(&["download-dir"]) {
        OptionValue::Text(path, node) if is_below(&path) => Some(("--download-dir", path, node)),
        OptionValue::Absent => ["HF_HUB_CACHE", "HF_HOME"].into_iter().find_map(named),
        _ => None,
    }
}

/// The folder into which a server downloads its model, and the item that names it. `None` if it is unknown.
fn folder<'a>(
    server: &Server,
    template: &Template<'a>,
    container: &Node<'a>,
) -> Option<(String, Option<Node<'a>>)> {
    let cache = server.cache.as_ref()?;
    let env = known(container)?;
    let launch = Launch::of(container).filter(|launch| !launch.may_have_more_options())?;
    let options: Vec<&str> = cache.options.iter().copied().filter(|name| *name != "load-format").collect();
    if launch.has(&["load-format"]) {
        return None;
    }
    match launch.option(&options) {
        OptionValue::Text(path, node) => return path.starts_with('/').then_some((path, Some(node))),
        OptionValue::Unknown => return None,
        OptionValue::Absent => {}
    }
    let set = env.into_iter().filter(|(name, _)| cache.variables.contains(name));
    // These name a folder above, for want of the others.
    let (above, own): (Vec<_>, Vec<_>) =
        set.partition(|(name, _)| matches!(*name, "HOME" | "XDG_CACHE_HOME"));
    match own.as_slice() {
        [(_, value)] => {
            let path = value.text()?;
            path.starts_with('/').then(|| (path.to_owned(), Some(value.clone())))
        }
        [] if above.is_empty() && cache.folders.len() == 1 && server.is_in_published_image_of(container) => {
            let folder = cache.folders[0];
            let is_known = !folder.starts_with('~') || effective_user(template, container).may_be_root();
            is_known.then(|| (folder.replace('~', "/root"), None))
        }
        _ => None,
    }
}

/// Whether a tag names a release whose image runs as root, with a home folder that is closed to others.
fn has_closed_home(image: &str) -> bool {
    let parsed = ImageRef::parse(image);
    let release = parsed.tag.filter(|_| parsed.is(IMAGE) && !may_be_rebuilt(image)).and_then(release);
    release.is_some_and(|[major, minor, _]| (major, minor) <= LAST)
}

/// Whether the cache or the home folder is elsewhere; `None` if that is unknown.
fn is_moved(container: &Node<'_>) -> Option<bool> {
    let launch = Launch::of(container)?;
    if is_open(container) || launch.may_have_more_options() {
        return None;
    }
    let is_below = |text: &str| Path::new(text).starts_with("/root");
    match launch.option(&["download-dir"]) {
        OptionValue::Text(folder, _) if !is_below(&folder) => return Some(true),
        OptionValue::Unknown => return None,
        _ => {}
    }
    for name in MOVES {
        if variable(container, name)?.is_some_and(|(folder, _)| !is_below(&folder)) {
            return Some(true);
        }
    }
    Some(false)
}
