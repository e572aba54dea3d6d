//! Model servers: which one a container runs, and what is known about it. `table` has the facts.

pub(crate) mod dynamo;
mod further_ports;
pub(crate) mod health;
pub(crate) mod release;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::facts::image::ImageRef;
use crate::facts::text::is_digits;
use crate::object::Object;
use crate::steps;
use crate::tree::node::Node;
use crate::workload::class::{command_line, has_word};
use crate::workload::command::{
    OptionValue, Word, base_name, command_at, may_have_more_options, option, words,
};
use crate::workload::environment::{is_open, variable};
use crate::workload::gpu::has_device;
use crate::workload::image::{
    copied_image, deep_learning_container, image_of, image_text, is_in_private_registry, is_stand_in,
};
use crate::workload::template::{Template, templates};
pub(crate) use further_ports::{PortUse, is_allowed};
use table::SERVERS;
pub(crate) use table::{Cache, Gpus, Parallelism, Server, ServerId};

/// The server that a container runs, from its command, or from its image without one.
pub(crate) fn server_of(container: &Node<'_>) -> Option<&'static Server> {
    let line = command_line(container);
    let by_command = SERVERS.iter().find(|server| server.commands.iter().any(|sign| has_word(&line, sign)));
    if by_command.is_some() || container.get("command").is_set() {
        return by_command;
    }
    server_of_image(container)
}

/// Servers that use several GPUs from one process, which needs no shared memory.
const OF_ONE_PROCESS: [ServerId; 4] =
    [ServerId::Ollama, ServerId::LlamaCpp, ServerId::Tei, ServerId::TensorFlow];
/// Repositories of images with such servers, whatever their command is.
const IMAGES_OF_ONE_PROCESS: [&str; 5] =
    ["ollama", "llama.cpp", "koboldcpp", "tensorflow/serving", "text-embeddings-inference"];

/// Whether a container runs a server that uses all its GPUs from one process.
pub(crate) fn is_one_process(container: &Node<'_>) -> bool {
    match server_of(container) {
        Some(server) => OF_ONE_PROCESS.contains(&server.id),
        None => image_of(container).is_some_and(|image| {
            let repository = image.repository.to_ascii_lowercase();
            IMAGES_OF_ONE_PROCESS.iter().any(|sign| repository.contains(sign))
        }),
    }
}

pub(crate) fn is_server(container: &Node<'_>, id: ServerId) -> bool {
    server_of(container).is_some_and(|server| server.id == id)
}

/// Words in the names of images and workloads of programs beside a server, which are called after it.
const BESIDE: [&str; 37] = [
    "router",
    "gateway",
    "proxy",
    "operator",
    "controller",
    "exporter",
    "client",
    "ui",
    "bench",
    "benchmark",
    "notebook",
    "test",
    "stack",
    "frontend",
    "web",
    "webui",
    "app",
    "api",
    "worker",
    "consumer",
    "producer",
    "adapter",
    "loader",
    "downloader",
    "cache",
    "monitor",
    "metrics",
    "dashboard",
    "autoscaler",
    "scaler",
    "scheduler",
    "loadgen",
    "eval",
    "harness",
    "demo",
    "sidecar",
    "mcp",
];

/// Whether a name says that a program is one beside a server: `vllm-router`.
pub(crate) fn is_beside_server(name: &str) -> bool {
    name.split(['-', '_', '.']).any(|word| BESIDE.contains(&word))
}

/// The server that a container may run, as far as the name of an image of one's own shows as well: `team/vllm-openai-lora`. An
/// own command may start anything.
pub(crate) fn named_server_of(container: &Node<'_>) -> Option<&'static Server> {
    let known = server_of(container);
    if known.is_some() || container.get("command").is_set() {
        return known;
    }
    // A part of a manifest without the image, or with a placeholder for it, has the name of the container.
    let image = container.get("image");
    if !image.is_set() || image_text(container).is_none() && image.is_unknown() {
        let name = container.get("name").text()?;
        return SERVERS.iter().find(|server| server.image_names().any(|own| own == name));
    }
    let image = image_of(container)?.last().to_ascii_lowercase();
    SERVERS.iter().find(|server| server.rest_of(&image).is_some_and(|rest| !is_beside_server(rest)))
}

/// The server that a container runs: an image that is only called after one counts with an accelerator, since programs around
/// a server have such names as well.
pub(crate) fn likely_server_of(container: &Node<'_>) -> Option<&'static Server> {
    let is_likely = || has_device(container) || !container.get("image").is_set();
    server_of(container).or_else(|| named_server_of(container).filter(|_| is_likely()))
}

/// Whether a container of a workload runs a server, by one of the functions that find it.
pub(crate) fn runs(
    workload: &Object,
    server: &Server,
    find: fn(&Node<'_>) -> Option<&'static Server>,
) -> bool {
    let templates = templates(workload);
    let mut containers = templates.iter().flat_map(Template::containers);
    containers.any(|container| find(&container).is_some_and(|found| found.id == server.id))
}

/// Steps to compare a word with the commands of all servers.
const STEPS_PER_WORD: usize = 10;

/// A server, and the words of a command that starts it.
type Command = (&'static Server, Vec<&'static str>);

/// The commands of the servers, in their order, by the first byte: most words begin none.
static COMMANDS: LazyLock<BTreeMap<u8, Vec<Command>>> = LazyLock::new(|| {
    let mut commands: BTreeMap<u8, Vec<Command>> = BTreeMap::new();
    for server in &SERVERS {
        for sign in server.commands {
            commands.entry(sign.as_bytes()[0]).or_default().push((server, sign.split(' ').collect()));
        }
    }
    commands
});

/// The server that starts at a word of a command line, and the number of words of its command.
pub(crate) fn server_at(words: &[Word<'_>], at: usize) -> Option<(&'static Server, usize)> {
    steps::take(STEPS_PER_WORD);
    let first = base_name(&words.get(at)?.text);
    let fits = |(offset, part): (usize, &&str)| {
        let word =
            if offset == 0 { Some(first) } else { words.get(at + offset).map(|word| word.text.as_str()) };
        word.is_some_and(|word| if part.ends_with('.') { word.starts_with(part) } else { word == *part })
    };
    let commands = COMMANDS.get(first.as_bytes().first()?)?;
    let (server, parts) = commands.iter().find(|(_, parts)| parts.iter().enumerate().all(fits))?;
    Some((server, parts.len()))
}

/// The server that the image of a container starts by default.
pub(crate) fn server_of_image(container: &Node<'_>) -> Option<&'static Server> {
    if container.get("command").is_set() {
        return None;
    }
    server_by_name(container).or_else(|| server_by_settings(container))
}

/// The server whose image a container has: by its own name, or else by the one that was written in the place of that.
fn server_by_name(container: &Node<'_>) -> Option<&'static Server> {
    let own = image_of(container);
    let by_image = |image: &ImageRef<'_>| {
        let signs = Signs::of(image);
        SERVERS.iter().find(|server| server.has(&signs))
    };
    own.as_ref().and_then(by_image).or_else(|| {
        let written = copied_image(container)?;
        let name = own.map_or("", |image| image.last());
        by_image(&written).filter(|_| !is_beside_server(name))
    })
}

/// What of an image is compared with those of all servers. Worked out for each of them, it took half of the check of a Deployment
/// without a command.
struct Signs<'a> {
    image: &'a ImageRef<'a>,
    /// The repository among AWS's Deep Learning Containers.
    deep_learning: Option<&'a str>,
    /// The repository in lower case.
    path: String,
}

impl<'a> Signs<'a> {
    fn of(image: &'a ImageRef<'a>) -> Signs<'a> {
        Signs {
            image,
            deep_learning: deep_learning_container(image),
            path: image.repository.to_ascii_lowercase(),
        }
    }
}

/// Further names of servers, in names of containers and of images of one's own.
const ALIASES: [(&str, ServerId); 4] = [
    ("llama-cpp", ServerId::LlamaCpp),
    ("llama-server", ServerId::LlamaCpp),
    ("tei", ServerId::Tei),
    ("trtllm", ServerId::TensorRtLlm),
];

/// The names of the servers whose options or variables show them, in lower case.
static NAMES: LazyLock<Vec<(String, &Server)>> = LazyLock::new(|| {
    let names = |server: &'static Server| {
        let aliases = ALIASES.iter().filter(|(_, id)| *id == server.id).map(|(name, _)| (*name).to_owned());
        server.image_names().chain(aliases).map(move |name| (name, server))
    };
    SERVERS.iter().filter(|server| server.has_own_settings()).flat_map(names).collect()
});

/// The server that a name of an image or of a container contains as a whole word, where it is not that of a program
/// beside it.
fn server_in_name(name: &str) -> Option<&'static Server> {
    if name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| BESIDE.contains(&word)) {
        return None;
    }
    let is_word = |(at, word): (usize, &str)| {
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
        ends(name[..at].chars().next_back()) && ends(name[at + word.len()..].chars().next())
    };
    let has = |word: &str| name.match_indices(word).any(is_word);
    NAMES.iter().find(|(word, _)| has(word)).map(|(_, server)| *server)
}

/// The server after which a container or its image is called. The image is one of one's own, or a placeholder such as
/// `${VLLM_IMAGE}` hides it.
fn server_of_names(container: &Node<'_>) -> Option<&'static Server> {
    let image = match image_of(container) {
        Some(image) => image.last(),
        None => container.get("image").raw_text()?,
    };
    let image = image.to_ascii_lowercase();
    if is_beside_server(&image) || is_stand_in(&image) {
        return None;
    }
    server_in_name(&image).or_else(|| server_in_name(&container.get("name").text()?.to_ascii_lowercase()))
}

/// The server that its own options or variables show in a container that is called after it: `--max-model-len` in
/// `team/vllm`, or in the container `vllm` of an image that a placeholder hides.
fn server_by_settings(container: &Node<'_>) -> Option<&'static Server> {
    let server = server_of_names(container)?;
    // Of AWS's containers, those for SageMaker read no arguments.
    if image_of(container).is_some_and(|image| deep_learning_container(&image).is_some()) {
        return None;
    }
    let words = words(container);
    // Another program, such as `bench`, comes before its options; a model is `owner/name`.
    if let Some(Word { text: first, .. }) = words.first() {
        let is_model = first.contains('/') && !first.starts_with(['/', '.']);
        if !(first.starts_with('-') || first == "serve" || is_model) {
            return None;
        }
    }
    let has_option = || !matches!(option(&words, server.own_options), OptionValue::Absent);
    (has_option() || server.is_set_up_by_variables(container)).then_some(server)
}

/// Whether the tag of one of AWS's Deep Learning Containers is one for EC2 and EKS, which passes its arguments to the server:
/// `0.15.1-gpu-py312-ec2`, `server-cuda-v2`.
fn takes_arguments(tag: &str) -> bool {
    tag.split('-').any(|word| word == "ec2") || tag == "server-cuda" || tag.starts_with("server-cuda-")
}

/// Whether a container runs one of AWS's Deep Learning Containers for SageMaker, which reads its options from variables alone
/// (`sagemaker_entrypoint.sh`: vLLM 0.9 to 0.27, SGLang 0.5).
pub(crate) fn ignores_arguments(container: &Node<'_>) -> bool {
    let Some(image) = image_of(container).filter(|_| !container.get("command").is_set()) else {
        return false;
    };
    let is_one = deep_learning_container(&image)
        .is_some_and(|name| matches!(name, "vllm" | "sglang" | "huggingface-vllm"));
    let is_for_sagemaker =
        |tag: &str| !takes_arguments(tag) && (tag.contains("sagemaker") || tag.contains("-gpu-py3"));
    is_one && image.tag.is_some_and(is_for_sagemaker)
}

/// Whether the entrypoint of a container's image is a script that waits for the server, and keeps SIGTERM from it: those of
/// AWS's Deep Learning Containers for EC2 and EKS run `vllm serve "$@"` without `exec` (`dockerd_entrypoint.sh`, 2026).
pub(crate) fn is_kept_from_signals(container: &Node<'_>) -> bool {
    let image = image_of(container).filter(|_| !container.get("command").is_set());
    image.is_some_and(|image| {
        deep_learning_container(&image).is_some() && image.tag.is_some_and(takes_arguments)
    })
}

impl Server {
    pub(crate) fn is_in_image_of(&self, container: &Node<'_>) -> bool {
        let is_copy = |written: ImageRef<'_>| {
            // A name that is known says more than the one that it replaces.
            let name = image_of(container).map_or("", |image| image.last());
            self.has_image(&written)
                && !is_beside_server(name)
                && !SERVERS.iter().any(|one| one.is_own(container))
        };
        self.is_own(container) || copied_image(container).is_some_and(is_copy)
    }

    fn has_own_settings(&self) -> bool {
        !self.own_options.is_empty() || !self.own_variables.is_empty()
    }

    /// Whether a container that listens on a port has variables that no client of the server reads. Without a port it
    /// may be a program that uses the server's library.
    fn is_set_up_by_variables(&self, container: &Node<'_>) -> bool {
        let of_option = |name: &str| {
            self.variables.is_some_and(|prefix| {
                let option = |name: &str| name.to_ascii_lowercase().replace('_', "-");
                let written = name.strip_prefix(prefix).map(option);
                written.is_some_and(|written| self.own_options.contains(&written.as_str()))
            })
        };
        let is_own = |entry: Node<'_>| {
            let name = entry.text_at("name").unwrap_or_default();
            self.own_variables.contains(&name) || of_option(name)
        };
        container.get("ports").items().next().is_some() && container.get("env").items().any(is_own)
    }

    /// Whether a container has one of its images under the name that its authors give it.
    fn is_own(&self, container: &Node<'_>) -> bool {
        image_of(container).is_some_and(|image| self.has_image(&image))
    }

    fn has_image(&self, image: &ImageRef<'_>) -> bool {
        self.has(&Signs::of(image))
    }

    fn has(&self, signs: &Signs<'_>) -> bool {
        let tag = signs.image.tag;
        if let Some(name) = signs.deep_learning {
            return self.name.eq_ignore_ascii_case(name) && tag.is_some_and(takes_arguments);
        }
        self.images.iter().any(|sign| match sign.split_once(':') {
            None => is_part(&signs.path, sign),
            Some((name, start)) => {
                is_part(&signs.path, name) && tag.is_some_and(|tag| tag.starts_with(start))
            }
        })
    }

    /// Whether the image of a container is one that its authors publish, in their registry or in another one.
    pub(crate) fn is_in_published_image_of(&self, container: &Node<'_>) -> bool {
        self.is_own(container) && !image_text(container).is_some_and(may_be_rebuilt)
    }

    /// The port of its HTTP API, and the item that sets it. `None` if that is unknown: another option, a configuration
    /// file or the environment may set it.
    pub(crate) fn listens_on<'a>(&self, container: &Node<'a>) -> Option<(i64, Option<Node<'a>>)> {
        let words = words(container);
        let at = (0..words.len()).find(|at| server_at(&words, *at).is_some_and(|(server, _)| server == self));
        let own_image = self.is_in_image_of(container);
        if at.is_none() && server_of_image(container).is_none_or(|server| server != self) {
            return None;
        }
        let own = command_at(&words, at.unwrap_or(0));
        match option(own, self.port.options) {
            OptionValue::Text(text, node) => return Some((text.parse().ok()?, Some(node))),
            OptionValue::Unknown => return None,
            OptionValue::Absent => {}
        }
        // The entrypoint of an image of one's own may have options.
        if may_have_more_options(own)
            || (at.is_none() && !own_image)
            || !matches!(option(own, &["config"]), OptionValue::Absent)
        {
            return None;
        }
        if !self.port.variables.is_empty() {
            if let Some((port, node)) = port_in_environment(container, self.port.variables)? {
                return Some((port, Some(node)));
            }
            // An image that is built on the server's own one may have its variables.
            if !own_image && self.port.of_image != self.port.default {
                return None;
            }
        }
        Some((if own_image { self.port.of_image } else { self.port.default }, None))
    }

    /// The port of a container for a probe. `None` if another one may be set, or the container lists ports without it.
    pub(crate) fn port_of(&self, container: &Node<'_>) -> Option<i64> {
        let (port, _) = self.listens_on(container)?;
        let ports = container.get("ports");
        let mut listed = ports.items().map(|entry| entry.get("containerPort").int());
        (!ports.is_set() || listed.any(|listed| listed == Some(port))).then_some(port)
    }

    /// Whether it generates texts, so that an answer may take minutes.
    pub(crate) fn generates(&self) -> bool {
        use ServerId::{HuggingFace, LlamaCpp, LmDeploy, Nim, Ollama, Sglang, TensorRtLlm, Tgi, Vllm};
        matches!(
            self.id,
            Vllm | Sglang | Tgi | TensorRtLlm | LlamaCpp | Ollama | Nim | LmDeploy | HuggingFace
        )
    }

    /// The variables with its port that the links of a Service would set, and the name of that Service: `VLLM_PORT` and
    /// `vllm`.
    pub(crate) fn variable_of_service(&self) -> Option<(&'static str, String)> {
        // vLLM and SGLang read such a variable for ports between their processes.
        let variable = match self.id {
            ServerId::Vllm => "VLLM_PORT",
            ServerId::Sglang => "SGLANG_PORT",
            _ => self.port.variables.iter().find(|name| name.ends_with("_PORT"))?,
        };
        let service = variable.strip_suffix("_PORT")?.to_ascii_lowercase().replace('_', "-");
        Some((variable, service))
    }

    /// Names of its images, in lower case and without a path: its own name, and those that its authors publish.
    pub(crate) fn image_names(&self) -> impl Iterator<Item = String> + use<> {
        let published = self.images.iter().filter(|image| !image.contains(':'));
        let published =
            published.filter_map(|image| image.rsplit('/').next().filter(|name| !name.is_empty()));
        std::iter::once(self.name.to_ascii_lowercase()).chain(published.map(str::to_owned))
    }

    /// What follows in a name that begins with one of its own: `openai-lora` in `vllm-openai-lora`.
    pub(crate) fn rest_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        self.image_names().find_map(|own| {
            let rest = name.strip_prefix(own.as_str())?;
            if rest.is_empty() { Some(rest) } else { rest.strip_prefix(['-', '_', '.']) }
        })
    }

    /// The server that exports a metric. `None` for metrics that a router or gateway in front of it exports.
    pub(crate) fn of_metric(metric: &str) -> Option<&'static Server> {
        const ROUTERS: [&str; 6] = ["router", "incoming", "current_qps", "healthy_pods", "gateway", "_epp_"];
        let exports = |server: &&Server| server.metrics.iter().any(|prefix| metric.starts_with(prefix));
        SERVERS.iter().find(exports).filter(|_| !ROUTERS.iter().any(|router| metric.contains(router)))
    }

    /// Every server of the table.
    pub(crate) fn all() -> &'static [Server] {
        &SERVERS
    }
}

/// Whether a path has a sign as whole steps: `nim/` or `vllm/vllm-openai` in `mirror/vllm/vllm-openai`.
fn is_part(path: &str, sign: &str) -> bool {
    if !sign.contains('/') {
        return path.contains(sign);
    }
    path.starts_with(sign) || path.match_indices('/').any(|(at, _)| path[at + 1..].starts_with(sign))
}

/// Words in tags of the authors beside the release, which say what an image is built for.
const VARIANTS: [&str; 20] = [
    "py3", "runtime", "devel", "base", "slim", "grpc", "x86_64", "aarch64", "amd64", "arm64", "cpu", "cuda",
    "rocm", "server", "full", "hopper", "turing", "86", "89", "120",
];
/// Beginnings of such words, before a number.
const NUMBERED: [&str; 6] = ["cu", "cuda", "cudnn", "rocm", "ubuntu", "mi"];

/// Whether an image may be built on that of a server under its name: another registry has it, and its tag is not one that the
/// authors give, but a branch, a build, a date, or words behind the release, such as `v0.11.0-with-model`.
pub(crate) fn may_be_rebuilt(image: &str) -> bool {
    is_in_private_registry(image) && !is_of_release(ImageRef::parse(image).tag.unwrap_or_default())
}

/// Whether a tag is one that the authors of servers give: `v0.11.0`, `v0.5.5.post1-cu126`, `hopper-1.8`, `server-cuda`.
fn is_of_release(tag: &str) -> bool {
    /// Their releases are counted; a larger number is a year.
    const MOST: u32 = 100;
    let is_variant = |word: &str| {
        let is_numbered = |start: &str| {
            word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        VARIANTS.contains(&word) || NUMBERED.iter().any(|start| is_numbered(start))
    };
    let mut others = tag.split('-').filter(|word| !is_variant(word));
    let Some(release) = others.next() else { return true };
    let mut parts = release.strip_prefix('v').unwrap_or(release).split('.');
    let major = parts.next().and_then(|major| major.parse::<u32>().ok());
    let minor = parts.next().and_then(|minor| minor.parse::<u32>().ok());
    let is_number = |part: &str| is_digits(part.strip_prefix("post").unwrap_or(part));
    others.next().is_none()
        && major.is_some_and(|major| major < MOST)
        && minor.is_some()
        && parts.all(is_number)
}

/// The port in one of the variables of a container, or the `Some(None)` without one. `None` if it is unknown.
fn port_in_environment<'a>(container: &Node<'a>, names: &[&str]) -> Option<Option<(i64, Node<'a>)>> {
    if is_open(container) {
        return None;
    }
    for name in names {
        let Some((text, value)) = variable(container, name)? else { continue };
        if text.contains('$') {
            return None;
        }
        // An address may have no port.
        return match text.rsplit_once(':') {
            Some((_, port)) => Some(Some((port.trim_end_matches('/').parse().ok()?, value))),
            None => match text.parse() {
                Ok(port) => Some(Some((port, value))),
                Err(_) => Some(None),
            },
        };
    }
    Some(None)
}

/// The value of a flag in a command line, as `--flag value` or `--flag=value`.
pub(crate) fn flag<'a>(line: &'a str, flag: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        if word == flag {
            return words.next();
        }
        if let Some(value) = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value);
        }
    }
    None
}

/// The container of a template that serves requests: the one that runs a known server, the only one, or the only one
/// with ports.
pub(crate) fn serving_container<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let containers: Vec<Node<'a>> = template.containers().filter(Node::is_mapping).collect();
    if let Some(known) = containers.iter().find(|container| server_of(container).is_some()) {
        return Some(known.clone());
    }
    if let [only] = containers.as_slice() {
        return Some(only.clone());
    }
    let mut listening = containers.iter().filter(|container| container.get("ports").items().next().is_some());
    let first = listening.next()?;
    listening.next().is_none().then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use super::{Server, ServerId, flag, likely_server_of, may_be_rebuilt, named_server_of, server_of};
    use crate::object::Object;
    use crate::tree::node::Node;
    use serde_json::{Value, json};

    fn on_container<T>(container: Value, read: impl FnOnce(&Node<'_>) -> T) -> T {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [container]}});
        let object = Object::from_json(&object).expect("an object");
        read(&object.path(&["spec", "containers"]).index(0))
    }

    #[test]
    fn only_a_release_shows_an_image_of_a_server_in_another_registry() {
        assert!(!may_be_rebuilt("vllm/vllm-openai:main-1"));
        assert!(!may_be_rebuilt("vllm/vllm-openai:${TAG}"));
        assert!(!may_be_rebuilt("${REGISTRY}/vllm/vllm-openai:v0.12.0"));
        for tag in [
            "v0.11.0",
            "0.5.5.post1",
            "v0.5.5-cu126",
            "2.9.0-cuda12.8-cudnn9-runtime",
            "25.08-py3",
            "hopper-1.8",
        ] {
            assert!(!may_be_rebuilt(&format!("r.example.com/vllm/vllm-openai:{tag}")), "{tag}");
        }
        for tag in [
            ":main-118",
            ":latest",
            ":2026.11.3",
            ":${TAG}",
            ":v0.11.0-lora",
            ":v0.11.0-20261101",
            ":4f2a9c1",
            "@sha256:0a",
            "",
        ] {
            assert!(may_be_rebuilt(&format!("r.example.com/vllm/vllm-openai{tag}")), "{tag}");
        }
    }

    #[test]
    fn the_command_decides_before_the_image() {
        for (container, expected) in [
            (json!({"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"]}), Some("vLLM")),
            (json!({"image": "mirror.example.com/vllm/vllm-openai:v1"}), Some("vLLM")),
            (json!({"image": "vllm/vllm-openai:v1", "command": ["python3", "bench.py"]}), None),
            (json!({"image": "example.com/x:1", "command": ["vllm", "serve", "m"]}), Some("vLLM")),
            (
                json!({"image": "example.com/x:1", "args": ["sh", "-c", "vllm serve m --port 80"]}),
                Some("vLLM"),
            ),
            (json!({"image": "example.com/nvidia/tritonserver:24.01-py3"}), Some("Triton")),
            (json!({"image": "example.com/web:1", "args": ["--model", "m"]}), None),
            (
                json!({"image": "python:3", "command": ["python3", "-m", "sglang.launch_server"]}),
                Some("SGLang"),
            ),
            (json!({"image": "ollama/ollama:0.5.1"}), Some("Ollama")),
            (json!({"command": ["ollama", "pull", "m"], "image": "ollama/ollama:0.5.1"}), None),
            (json!({"image": "example.com/nim/meta/llama-3.1-8b-instruct:1.8.4"}), Some("NIM")),
            (json!({"image": "example.com/team/animation:1"}), None),
            (json!({"image": "example.com/ggml-org/llama.cpp:server-cuda"}), Some("llama.cpp")),
            (json!({"image": "example.com/ggml-org/llama.cpp:light"}), None),
            (json!({"image": "kserve/huggingfaceserver:v0.15.0-gpu"}), Some("KServe's Hugging Face server")),
            (json!({"image": "vllm/vllm-openai:${TAG}"}), Some("vLLM")),
            (json!({"image": "${REGISTRY}/vllm/vllm-openai:v0.12.0"}), Some("vLLM")),
            (json!({"image": "{{ .Values.registry }}/{{ .Values.image }}:vllm"}), None),
            (json!({"image": "${IMAGE}:v0.12.0"}), None),
            (
                json!({"image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.15.1-gpu-py312-ec2"}),
                Some("vLLM"),
            ),
            (
                json!({"image": "763104351884.dkr.ecr.<<REGION>>.amazonaws.com/vllm:0.22.0-gpu-py312-ec2-v1"}),
                Some("vLLM"),
            ),
            (json!({"image": "public.ecr.aws/deep-learning-containers/sglang:server-cuda"}), Some("SGLang")),
            (
                json!({"image": "r.example.com/ecr-public/deep-learning-containers/vllm:0.13-gpu-py312-ec2"}),
                Some("vLLM"),
            ),
            (
                json!({"image": "public.ecr.aws/deep-learning-containers/vllm:0.15-gpu-py312",
                    "args": ["--max-model-len=8"]}),
                None,
            ),
            (json!({"image": "public.ecr.aws/deep-learning-containers/vllm:omni-cuda"}), None),
            (
                json!({"image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/vllm:0.15.1-gpu-py312-ec2"}),
                None,
            ),
            (json!({"image": "x/team/vllm:1", "args": ["--model=m", "--max-model-len=8"]}), Some("vLLM")),
            (json!({"image": "x/team/vllm:1", "args": ["serve", "a/b", "--enforce-eager"]}), Some("vLLM")),
            (json!({"image": "x/team/vllm:1", "args": ["--model=m", "--port=80"]}), None),
            (json!({"image": "x/team/vllm:1", "args": ["bench", "latency", "--max-model-len=8"]}), None),
            (json!({"image": "x/vllm-router:1", "args": ["--max-model-len=8"]}), None),
            (json!({"image": "x/llm:1", "args": ["--max-model-len=8"]}), None),
            (
                json!({"image": "x/sglang-lora:1", "args": ["--model-path=m", "--mem-fraction-static=0.8"]}),
                Some("SGLang"),
            ),
            (
                json!({"name": "vllm", "image": "${IMG}", "args": ["--model", "m", "--max-model-len=8"]}),
                Some("vLLM"),
            ),
            (json!({"name": "main", "image": "${VLLM_IMAGE}", "args": ["--max-model-len=8"]}), Some("vLLM")),
            (json!({"name": "main", "image": "${IMG}", "args": ["--max-model-len=8"]}), None),
            (json!({"name": "vllm", "image": "${IMG}", "args": ["--model=m"]}), None),
            (
                json!({"name": "vllm", "image": "r.example.com/llm:1", "args": ["--max-model-len=8"]}),
                Some("vLLM"),
            ),
            (
                json!({"name": "vllm", "image": "x/llm-d-inference-sim:1", "args": ["--max-model-len=8"]}),
                None,
            ),
            (
                json!({"name": "vllm", "image": "${IMG}", "command": ["./run"], "args": ["--max-model-len=8"]}),
                None,
            ),
            (json!({"name": "vllm-router", "image": "${IMG}", "args": ["--max-model-len=8"]}), None),
            (
                json!({"name": "llm", "image": "x/ollama-rocm:1", "ports": [{"containerPort": 1}],
                "env": [{"name": "OLLAMA_KEEP_ALIVE", "value": "24h"}]}),
                Some("Ollama"),
            ),
            (
                json!({"name": "llm", "image": "x/ollama-chat:1", "ports": [{"containerPort": 1}],
                "env": [{"name": "OLLAMA_HOST", "value": "http://ollama:11434"}]}),
                None,
            ),
            (
                json!({"name": "tgi", "image": "<REGISTRY>/text:1", "ports": [{"containerPort": 1}],
                "env": [{"name": "NUM_SHARD", "value": "2"}]}),
                Some("TGI"),
            ),
            (
                json!({"name": "vllm", "image": "x/offline-vllm:1",
                "env": [{"name": "VLLM_ATTENTION_BACKEND", "value": "FLASHINFER"}]}),
                None,
            ),
            (
                json!({"name": "tritonserver", "image": "{{ .Values.image }}", "args": ["--model-repository=/m"]}),
                Some("Triton"),
            ),
            (json!({"image": "x:1", "command": ["lmdeploy", "serve", "api_server", "m"]}), Some("LMDeploy")),
        ] {
            assert_eq!(on_container(container.clone(), server_of).map(|s| s.name), expected, "{container}");
        }
    }

    #[test]
    fn an_image_of_ones_own_is_called_after_its_server() {
        for (container, expected) in [
            (json!({"image": "example.com/team/vllm-openai-lora:2"}), Some(ServerId::Vllm)),
            (json!({"image": "example.com:5000/vllm@sha256:0"}), Some(ServerId::Vllm)),
            (json!({"image": "example.com/SGLang-patched:1"}), Some(ServerId::Sglang)),
            (json!({"image": "example.com/tensorrt-llm:1"}), Some(ServerId::TensorRtLlm)),
            (json!({"image": "example.com/tritonserver_onnx:1"}), Some(ServerId::Triton)),
            (json!({"image": "example.com/tools/dcgm-vllm-bench-notebook:1"}), None),
            (json!({"image": "example.com/vllm-router:1"}), None),
            (json!({"image": "example.com/vllms:1"}), None),
            (json!({"image": "example.com/vllm-frontend:1"}), None),
            (json!({"image": "example.com/vllm-lora-adapter-loader:1"}), None),
            (json!({"image": "example.com/vllm/web:1"}), None),
            (json!({"image": "example.com/vllm:1", "command": ["python3", "warm.py"]}), None),
        ] {
            let id = |find: fn(&Node<'_>) -> Option<&'static Server>, container: &Value| {
                on_container(container.clone(), |container| find(container).map(|one| one.id))
            };
            assert_eq!(id(named_server_of, &container), expected, "{container}");
            assert_eq!(id(likely_server_of, &container), None, "{container}");
            let mut on_gpu = container;
            on_gpu["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
            assert_eq!(id(likely_server_of, &on_gpu), expected, "{on_gpu}");
        }
    }

    #[test]
    fn metrics_of_servers_and_of_routers_are_told_apart() {
        let of = |metric: &str| Server::of_metric(metric).map(|server| server.id);
        assert_eq!(of("vllm:num_requests_running"), Some(ServerId::Vllm));
        assert_eq!(of("vllm_num_requests_running"), Some(ServerId::Vllm));
        assert_eq!(of("tgi_queue_size"), Some(ServerId::Tgi));
        for other in ["vllm:num_incoming_requests_total", "http_requests_total", "vllm:healthy_pods_total"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn flags_are_read_in_both_forms() {
        assert_eq!(flag("serve m --port 8080 --x", "--port"), Some("8080"));
        assert_eq!(flag("serve m --port=8080", "--port"), Some("8080"));
        assert_eq!(flag("serve m --ports=8080", "--port"), None);
        assert_eq!(flag("serve --port", "--port"), None);
    }
}
