//! A volume for models is mounted where the server neither downloads to nor looks.
//!
//! # Why
//! The image of a server fixes the folder of its model cache: `/data` for TGI and TEI,
//! `/root/.cache/huggingface` for vLLM and SGLang, `/root/.ollama` for Ollama, `/opt/nim/.cache` for NIM. A
//! volume at another path stays empty: each new pod downloads the model again, to the root volume of the
//! node, which has no room for a large one. It is reported for the images of the projects themselves, where
//! the volume or its path is named after models or a cache and nothing in the pod names the path. A claim
//! whose name says nothing counts where it is at the folder of another server of this list. A variable that names
//! a folder on no volume has the same effect, and so has `OLLAMA_MODELS` with names of models: it is the folder.
//!
//! An init container, or a Job with the same claim, that downloads the model with `--local-dir`, or with a cache
//! folder of its own, helps only a server that is given that folder: with the name of the model it looks in its
//! own cache, and downloads the model again.
//!
//! # Fix
//! Mount the volume at the folder of the server, or move the cache to the volume with its variable or option:
//! `HF_HOME`, `OLLAMA_MODELS`, `NIM_CACHE_PATH`, `--download-dir`. The images of TEI and of TGI before 2.1 set
//! `HUGGINGFACE_HUB_CACHE`, which counts before `HF_HOME`.
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
//!          - name: tgi
//!            image: example.com/huggingface/text-generation-inference:3.3.4
//!            args: [--model-id, mistralai/Mistral-7B-Instruct-v0.3]
//!            readinessProbe: {httpGet: {path: /health, port: 80}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//!            volumeMounts:
//!              - name: models
//! -              mountPath: /root/.cache/huggingface # <-
//! +              mountPath: /data
//!        volumes: [{name: models, persistentVolumeClaim: {claimName: summary-models}}]
//! ```
//!
//! # References
//! - <https://huggingface.co/docs/text-generation-inference/quicktour>
//! - <https://docs.vllm.ai/en/stable/deployment/docker/>
//! - <https://docs.ollama.com/docker>
//! - <https://docs.nvidia.com/nim/large-language-models/latest/reference/environment-variables.html>

use std::path::{Path, PathBuf};

use crate::rules::prelude::*;
use crate::workload::checkpoint::volume;
use crate::workload::command::command_and_args;
use crate::workload::environment::{may_define, variable};
use crate::workload::security::effective_user;
use crate::workload::server::Cache;

pub(crate) static RULE: Rule = Rule {
    id: "model-cache-misplaced",
    kinds: WORKLOAD_KINDS,
    reads: WORKLOAD_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("model_cache_misplaced.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

/// Words in names of volumes, claims and paths for models.
const SIGNS: [&str; 8] = ["cache", "model", "models", "huggingface", "hf", "hub", "weights", "ollama"];

/// Words in names of volumes and claims that say nothing of their purpose.
const NEUTRAL: [&str; 16] = [
    "claim",
    "data",
    "disk",
    "ebs",
    "efs",
    "gpu",
    "inference",
    "llm",
    "main",
    "pv",
    "pvc",
    "server",
    "storage",
    "store",
    "vllm",
    "volume",
];

/// Folders of the home folder into which servers write compiled kernels and settings.
const ALSO_WRITTEN: [&str; 4] = ["/root/.cache", "/root/.config", "/root/.triton", "/tmp"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() || template.spec.has_unknown_key() {
        return None;
    }
    for container in template.containers() {
        if downloaded_aside(template, &container, ctx).is_none() {
            inspect(template, &container, ctx);
        }
    }
    None
}

/// Reports a server that is given the name of a model which an init container has downloaded to a folder of a volume.
fn downloaded_aside(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container).filter(|server| server.is_in_published_image_of(container))?;
    let cache = server.cache.as_ref()?;
    let (model, node) = Launch::of(container)?.model(container)?;
    let mounts = container.get("volumeMounts");
    if !model.contains('/')
        || !downloads(server, container)
        || is_moved(cache, container)
        || mounts.has_unknown()
    {
        return None;
    }
    let looks_in = |download: &Download, folder: &Path| match download.is_cache {
        true => cache.folders.iter().any(|known| {
            let known = PathBuf::from(known.replace('~', "/root"));
            folder != known && folder.starts_with(known)
        }),
        false => folder.ends_with(&model) && may_start_above(container, folder, &model),
    };
    // Where a download of a container is for the server, if that does not look there.
    let missed = |source: &Template<'_>, loader: &Node<'_>| {
        let download = download_of(loader, &model)?;
        let is_same = |one: &Node<'_>, own: &Node<'_>| match std::ptr::eq(source, template) {
            true => one.get("name").text() == own.get("name").text(),
            false => {
                let claim = claim_of_mount(source, one);
                claim.is_some() && claim == claim_of_mount(template, own)
            }
        };
        let (one, below) = loader.get("volumeMounts").items().find_map(|mount| {
            let below = download.folder.strip_prefix(mount.get("mountPath").text()?).ok()?.to_owned();
            Some((mount, below))
        })?;
        let own = mounts.items().find(|own| is_same(&one, own))?;
        let is_part =
            |mount: &Node<'_>| ["subPath", "subPathExpr"].iter().any(|field| mount.get(field).is_set());
        if is_part(&own) || is_part(&one) {
            return None;
        }
        let at = own.get("mountPath").text()?.trim_end_matches('/');
        let folder = if below.as_os_str().is_empty() { PathBuf::from(at) } else { Path::new(at).join(below) };
        (!looks_in(&download, &folder)).then_some(folder)
    };
    let object = ctx.object();
    let mut own = template.spec.get("initContainers").items();
    let of_pod = own.find_map(|loader| Some((missed(template, &loader)?, object, loader)));
    let claims: Vec<&str> = mounts.items().filter_map(|mount| claim_of_mount(template, &mount)).collect();
    let views = ctx.cluster().views();
    let namespace = object.namespace_or_default();
    let mut jobs = claims.iter().flat_map(|claim| views.users_of_claim(namespace, claim));
    let (folder, by, loader) = of_pod.or_else(|| {
        jobs.find_map(|job| {
            let is_job = job.is(Kind::JOB) && ctx.pairs_with(job) && !job.may_lack_fields();
            let templates = if is_job { templates(job) } else { Vec::new() };
            templates.iter().find_map(|source| {
                let mut containers = source.all_containers();
                containers.find_map(|loader| Some((missed(source, &loader)?, job, loader)))
            })
        })
    })?;
    let message = format!(
        "{} does not look for `{}` in `{}`, and downloads it again",
        server.name,
        ellipsize(&model),
        ellipsize(&folder.display().to_string())
    );
    ctx.report(&node, message)
        .help("give it the folder as its model, or download the model into its cache")
        .related(by, &loader, "downloads the model to that folder");
    Some(())
}

/// The claim behind a mount.
fn claim_of_mount<'a>(template: &Template<'a>, mount: &Node<'_>) -> Option<&'a str> {
    volume(template, mount.get("name").text()?)?.path(&["persistentVolumeClaim", "claimName"]).text()
}

/// Whether a container may start in the directory above a folder that is called after a model, so that the name of the model is a
/// relative path: that of its image, as far as these are known, or another one.
fn may_start_above(container: &Node<'_>, folder: &Path, model: &str) -> bool {
    const OF_IMAGES: [&str; 5] = ["", "/app", "/workspace", "/vllm-workspace", "/usr/src"];
    let folder = folder.display().to_string();
    let above = folder.strip_suffix(model).unwrap_or_default().trim_end_matches('/');
    container.get("workingDir").is_set()
        || command_line(container).contains("cd ")
        || OF_IMAGES.contains(&above)
        || above.starts_with("/sgl-workspace")
}

/// The folder to which a container downloads a model.
struct Download {
    folder: PathBuf,
    /// Whether it is laid out as the cache of the Hub, in which models are found by their names.
    is_cache: bool,
}

/// What a script downloads a model to. `None` if it may put it elsewhere afterwards.
fn download_of(loader: &Node<'_>, model: &str) -> Option<Download> {
    const DOWNLOADS: [&str; 3] = ["huggingface-cli download", "hf download", "snapshot_download("];
    const OTHERS: [&str; 5] = ["cp ", "mv ", "ln ", "rsync ", "shutil"];
    let texts: Option<Vec<&str>> = command_and_args(loader).map(|word| word.text()).collect();
    let text = texts?.join(" ");
    let is_named = text.match_indices(model).any(|(at, _)| {
        let after = text[at + model.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    });
    let is_plain = !OTHERS.iter().any(|other| text.contains(other));
    if !is_named || !is_plain || !DOWNLOADS.iter().any(|download| text.contains(download)) {
        return None;
    }
    let value_of = |option: &str| {
        let (_, after) = text.split_once(option)?;
        let value = after.trim_start_matches([' ', '=', '"', '\'', '\\']);
        let end = value.find(|c: char| c.is_whitespace() || "\"',);&|".contains(c)).unwrap_or(value.len());
        let value = value[..end].trim_end_matches(['/', '\\']);
        (value.starts_with('/') && !value.contains(['$', '{'])).then(|| PathBuf::from(value))
    };
    let local = ["--local-dir ", "--local-dir=", "local_dir="].into_iter().find_map(value_of);
    if let Some(folder) = local {
        return Some(Download { folder, is_cache: false });
    }
    let folder = ["--cache-dir ", "--cache-dir=", "cache_dir="].into_iter().find_map(value_of)?;
    Some(Download { folder, is_cache: true })
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let server = server_of(container).filter(|server| server.is_in_published_image_of(container))?;
    let cache = server.cache.as_ref()?;
    let mounts = container.get("volumeMounts");
    if names_models(server, container, ctx).is_some() {
        return None;
    }
    if let Some((name, folder, node)) = moved_to(cache, container) {
        return inspect_moved(server, template, container, (name, &folder, &node), ctx);
    }
    if is_moved(cache, container)
        || !downloads(server, container)
        || mounts.has_unknown()
        || cache.folders[0].starts_with('~') && !effective_user(template, container).may_be_root()
    {
        return None;
    }
    let folders: Vec<PathBuf> =
        cache.folders.iter().map(|folder| folder.replace('~', "/root").into()).collect();
    let paths = mounts.items().filter_map(|mount| mount.get("mountPath").text().map(Path::new));
    let covers =
        |path: &Path| folders.iter().any(|folder| folder.starts_with(path) || path.starts_with(folder));
    if paths.into_iter().any(covers) {
        return None;
    }
    if let Some(mount) = mounts.items().find(|mount| is_for_models(server, template, container, mount)) {
        let path = mount.get("mountPath");
        let message = format!(
            "nothing is written to `{}`: {} downloads models to `{}`",
            ellipsize(path.text()?),
            server.name,
            folders[0].display()
        );
        let variable = cache.variables[0];
        ctx.report(&path, message)
            .help(format!("mount the volume at `{}`, or set `{variable}` to its path", folders[0].display()))
            .fix(
                Fix::new(format!("mount the volume at `{}`", folders[0].display()), Safety::Unsafe)
                    .set(&path, json!(folders[0])),
            );
        return None;
    }
    None
}

/// Variables whose value is the folder of the cache, or one above it.
const FOLDERS: [&str; 6] =
    ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS", "NIM_CACHE_PATH", "LLAMA_CACHE"];

/// Reports names of models in the variable for the folder of models.
fn names_models(server: &Server, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    const FOLDER: &str = "OLLAMA_MODELS";
    let (text, node) = variable(container, FOLDER).flatten().filter(|_| server.id == ServerId::Ollama)?;
    if text.starts_with(['/', '~', '.', '$']) || !text.contains([':', ',']) {
        return None;
    }
    ctx.report(&node, format!("`{FOLDER}` is a folder, and not a list of models: `{}`", ellipsize(&text)))
        .help("remove it, and load the models with `ollama pull` when the server has started");
    Some(())
}

/// The only variable that moves the cache, its folder, and its place.
fn moved_to<'a>(cache: &Cache, container: &Node<'a>) -> Option<(&'static str, PathBuf, Node<'a>)> {
    let line = command_line(container);
    let launch = Launch::of(container)?;
    let mut named = cache.variables.iter().filter(|name| may_define(container, |other| other == **name));
    let name = named.next().filter(|_| named.next().is_none())?;
    let is_moved = cache.variables.iter().any(|name| line.contains(name))
        || launch.has(cache.options)
        || launch.may_have_more_options();
    let (text, node) = variable(container, name).flatten().filter(|_| FOLDERS.contains(name) && !is_moved)?;
    text.starts_with('/').then(|| (*name, PathBuf::from(text.trim_end_matches('/')), node))
}

/// Reports a variable that moves the cache to a folder on no volume, where a volume for models is elsewhere.
fn inspect_moved(
    server: &Server,
    template: &Template<'_>,
    container: &Node<'_>,
    (name, folder, node): (&str, &Path, &Node<'_>),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let mounts = container.get("volumeMounts");
    if !downloads(server, container) || mounts.has_unknown() {
        return None;
    }
    let paths = mounts.items().filter_map(|mount| mount.get("mountPath").text().map(Path::new));
    if paths.into_iter().any(|path| folder.starts_with(path) || path.starts_with(folder)) {
        return None;
    }
    let mount = mounts.items().find(|mount| is_for_models(server, template, container, mount))?;
    let path = mount.get("mountPath");
    let shown = ellipsize(path.text()?);
    let message = format!("`{name}` is on no volume, and nothing is written to the one at `{shown}`");
    let object = ctx.object();
    ctx.report(node, message)
        .help(format!(
            "set `{name}` to a folder below `{shown}`, or mount the volume at `{}`",
            folder.display()
        ))
        .related(object, &path, "the volume for models");
    None
}

/// Whether a variable, an option or a script moves the cache, or may.
fn is_moved(cache: &Cache, container: &Node<'_>) -> bool {
    let line = command_line(container);
    may_define(container, |name| cache.variables.contains(&name))
        || cache.variables.iter().any(|name| line.contains(name))
        || Launch::of(container)
            .is_none_or(|launch| launch.has(cache.options) || launch.may_have_more_options())
}

/// Whether a server downloads its model, as far as the name of the model shows.
pub(super) fn downloads(server: &Server, container: &Node<'_>) -> bool {
    if server.model.is_empty() && !server.model_is_positional {
        return server.id != ServerId::LlamaCpp || command_line(container).contains("-hf");
    }
    let model = Launch::of(container).and_then(|launch| launch.model(container));
    model.is_some_and(|(name, _)| !name.starts_with(['/', '.', '~']) && !name.contains("://"))
}

fn words_of(text: &str) -> impl Iterator<Item = String> + use<'_> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase)
}

/// Whether a claim is mounted exactly where another server has its cache, as if copied from there. A server of many
/// adapters or plugins may have these in it.
fn is_cache_of_other(server: &Server, container: &Node<'_>, path: &str, called: &[Option<&str>]) -> bool {
    let path = path.trim_end_matches('/');
    // NIM runs vLLM and others, and writes nothing of theirs below the home folder.
    let of_home = server.id == ServerId::Nim && path == "/root/.cache";
    let is_folder = Server::all().iter().filter_map(|other| other.cache.as_ref()).any(|cache| {
        let folder = cache.folders[0].replace('~', "/root");
        folder == path
    });
    let env = container.get("env");
    let mut names = env.items().filter_map(|entry| entry.get("name").text());
    let may_load_more = names.any(|name| ["LORA", "PLUGIN", "PEFT"].iter().any(|word| name.contains(word)))
        || command_line(container).contains("lora");
    let is_neutral = |text: &str| {
        words_of(text).all(|word| {
            let word = word.as_str();
            word.len() < 2 || SIGNS.contains(&word) || NEUTRAL.contains(&word)
        })
    };
    (is_folder || of_home) && called.iter().all(|name| name.is_some_and(is_neutral)) && !may_load_more
}

/// Whether a volume is meant for the models of this container: by its name or path, and used by nothing else.
fn is_for_models(server: &Server, template: &Template<'_>, container: &Node<'_>, mount: &Node<'_>) -> bool {
    let Some((path, name)) = mount.get("mountPath").text().zip(mount.get("name").text()) else {
        return false;
    };
    let volumes = template.spec.get("volumes");
    let volume = volumes.items().find(|volume| volume.get("name").text() == Some(name));
    let (object, _) = template.place;
    let claim_templates = object.path(&["spec", "volumeClaimTemplates"]);
    let is_of_name = |claim: Node<'_>| claim.path(&["metadata", "name"]).text() == Some(name);
    let of_other = match &volume {
        Some(volume) => {
            let claim = volume.path(&["persistentVolumeClaim", "claimName"]);
            is_cache_of_other(server, container, path, &[Some(name), claim.text()])
        }
        None => {
            claim_templates.items().any(is_of_name)
                && is_cache_of_other(server, container, path, &[Some(name)])
        }
    };
    let exempt = !of_other
        && ALSO_WRITTEN.iter().any(|folder| Path::new(path).starts_with(folder))
        && !path.contains("huggingface");
    if exempt || mount.get("readOnly").bool() == Some(true) || Path::new("/dev/shm").starts_with(path) {
        return false;
    }
    let claim = match &volume {
        // It may come from the claim templates of a StatefulSet.
        None => None,
        Some(volume) => {
            let claim = volume.get("persistentVolumeClaim");
            let kept = claim.is_set() || volume.get("hostPath").is_set() || volume.get("ephemeral").is_set();
            let memory = volume.path(&["emptyDir", "medium"]).text() == Some("Memory");
            if !kept && (volume.get("emptyDir").is_absent() || memory) {
                return false;
            }
            claim.get("claimName").text()
        }
    };
    let says = |text: &str| words_of(text).any(|word| SIGNS.contains(&word.as_str()));
    let others = template.all_containers().filter(|other| other.pointer() != container.pointer());
    let mut shared = others.flat_map(|other| other.get("volumeMounts").items().collect::<Vec<_>>());
    let is_named = |node: Node<'_>| node.raw_text().is_some_and(|text| text.contains(path));
    let variables = container.get("env").items().map(|entry| entry.get("value"));
    let mut words = command_and_args(container).chain(variables);
    (of_other || [path, name].into_iter().chain(claim).any(says))
        && !shared.any(|mount| mount.get("name").text() == Some(name))
        && !words.any(is_named)
}
