//! Programs that start several processes or distribute a model over GPUs, and the number of GPUs in their options.

use crate::facts::url;
use crate::tree::node::Node;
use crate::workload::command::{
    OptionValue, Word, base_name, command_at, may_have_more_options, option, words,
};
use crate::workload::devices::gpus_of;
use crate::workload::environment::{may_define, variable};
use crate::workload::image::{deep_learning_container, image_of, image_text};
use crate::workload::server::dynamo::engine_at;
use crate::workload::server::{
    Gpus, Parallelism, Server, ServerId, may_be_rebuilt, server_at, server_of_image,
};
use crate::workload::template::Template;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Server(&'static Server),
    /// A worker of Dynamo: its module, and the server whose engine and options it has. It serves no HTTP API for clients.
    Worker(&'static str, &'static Server),
    Torchrun,
    DeepSpeed,
    Accelerate,
}

impl Program {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Server(server) => server.name,
            Program::Worker(module, _) => module,
            Program::Torchrun => "torchrun",
            Program::DeepSpeed => "deepspeed",
            Program::Accelerate => "accelerate",
        }
    }

    /// The server whose engine it runs.
    pub(crate) fn server(self) -> Option<&'static Server> {
        match self {
            Program::Server(server) | Program::Worker(_, server) => Some(server),
            _ => None,
        }
    }

    /// Whether it is a server itself, and not another program around its engine.
    pub(crate) fn is(self, id: ServerId) -> bool {
        matches!(self, Program::Server(server) if server.id == id)
    }
}

/// The share of the memory of each of its GPUs that a server takes.
pub(crate) struct MemoryShare<'a> {
    pub(crate) percent: i64,
    /// The option that states it; `None` if it is the default.
    pub(crate) node: Option<Node<'a>>,
}

/// Words before a program that start nothing else.
const STARTERS: [&str; 12] =
    ["sh", "bash", "-c", "-lc", "-ec", "-xc", "exec", "python", "python3", "-m", "-u", "tini"];

/// Words of commands that install programs, or choose one of several installations or command lines.
const INSTALLERS: [&str; 16] = [
    "pip",
    "pip3",
    "uv",
    "conda",
    "mamba",
    "micromamba",
    "apt",
    "apt-get",
    "git",
    "curl",
    "wget",
    "source",
    ".",
    "activate",
    "if",
    "case",
];

/// The only program of a container that distributes its work over GPUs, with its command.
pub(crate) struct Launch<'a> {
    pub(crate) program: Program,
    words: Vec<Word<'a>>,
    /// Whether the container runs it alone: other commands, which might bring files, do not come first.
    pub(crate) is_first: bool,
    /// Whether commands before it may install another release.
    pub(crate) may_be_installed: bool,
    /// Number of words of the program itself; 0 if the image starts it.
    own_words: usize,
    /// Whether the entrypoint of the image may have options of its own.
    of_own_entrypoint: bool,
    /// The variable that the program reads as its option for the number of processes.
    processes: OptionValue<'a>,
}

impl<'a> Launch<'a> {
    /// `None` if the container starts no such program, or more than one.
    pub(crate) fn of(container: &Node<'a>) -> Option<Launch<'a>> {
        let words = words(container);
        let mut found = None;
        for at in 0..words.len() {
            if let Some((program, length)) = program_at(&words, at) {
                if found.is_some() {
                    return None;
                }
                found = Some((program, at, length));
            }
        }
        let (program, at, own_words) = match found {
            Some(found) => found,
            None => (Program::Server(server_of_image(container)?), 0, 0),
        };
        let is_first = words[..at].iter().all(|word| STARTERS.contains(&base_name(&word.text)));
        // The value of an option of another command is no program.
        let may_install = |word: &Word<'_>| !word.known && !word.text.starts_with('-');
        let may_be_installed =
            words[..at].iter().any(|word| may_install(word) || INSTALLERS.contains(&base_name(&word.text)));
        let words = command_at(&words, at).to_vec();
        let processes = match program {
            Program::Server(server) => server.parallelism.as_ref().and_then(|of| {
                match may_define(container, |name| of.decided_by.contains(&name)) {
                    true if !of.decided_by.is_empty() => Some(OptionValue::Unknown),
                    _ => variable_of_option(container, server, of.tensor),
                }
            }),
            Program::Worker(..) => None,
            _ => Some(in_variable(container, "PET_NPROC_PER_NODE")),
        };
        let of_own_entrypoint =
            own_words == 0 && program.server().is_some_and(|server| !server.is_in_image_of(container));
        let processes = match processes {
            None if of_own_entrypoint => OptionValue::Unknown,
            processes => processes.unwrap_or(OptionValue::Absent),
        };
        Some(Launch { program, words, is_first, may_be_installed, own_words, of_own_entrypoint, processes })
    }

    /// The command of the program alone, without comments and other commands of a script.
    pub(crate) fn line(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// The words of the program's own command.
    pub(crate) fn words(&self) -> &[Word<'a>] {
        &self.words
    }

    /// The last value of an option.
    pub(crate) fn option(&self, names: &[&str]) -> OptionValue<'a> {
        option(&self.words, names)
    }

    /// The value of an option, or of the equivalent environment variable.
    pub(crate) fn setting(&self, container: &Node<'a>, names: &[&str]) -> OptionValue<'a> {
        let OptionValue::Absent = self.option(names) else {
            return self.option(names);
        };
        let server = self.program.server();
        server.and_then(|server| variable_of_option(container, server, names)).unwrap_or(OptionValue::Absent)
    }

    /// The model that a server loads, and the item that names it. `None` if it is unknown.
    pub(crate) fn model(&self, container: &Node<'a>) -> Option<(String, Node<'a>)> {
        let server = self.program.server()?;
        match self.setting(container, server.model) {
            OptionValue::Text(text, node) => Some((text, node)),
            OptionValue::Unknown => None,
            OptionValue::Absent => {
                let word = self.words.get(self.positional(server)?)?;
                (word.known && !word.text.starts_with('-')).then(|| (word.text.clone(), word.node.clone()))
            }
        }
    }

    /// The position of the first positional argument, for programs that have one.
    fn positional(&self, server: &Server) -> Option<usize> {
        let is_module = self.words.first().is_some_and(|word| base_name(&word.text).starts_with("vllm."));
        if !server.model_is_positional || is_module || matches!(self.program, Program::Worker(..)) {
            return None;
        }
        // `trtllm-serve serve MODEL`, as from 1.0 on, and `serve MODEL` of an image that starts `vllm`.
        let may_follow = self.own_words == 1 || self.of_own_entrypoint;
        let subcommand =
            may_follow && self.words.get(self.own_words).is_some_and(|word| word.text == "serve");
        Some(self.own_words + usize::from(subcommand))
    }

    /// Number of GPUs over which one copy of the model is distributed, in one pod or several. `None` if it is unknown.
    pub(crate) fn gpus_of_model(&self, container: &Node<'a>) -> Option<i64> {
        let parallelism = self.program.server()?.parallelism.as_ref()?;
        let tensor = self.tensor_ranks(parallelism);
        if matches!(tensor, OptionValue::Absent) && parallelism.default == Gpus::All {
            return Some(gpus_of(container)?.count);
        }
        Some(product(&[tensor, self.option(parallelism.pipeline)])?.0)
    }

    /// The number of GPUs that share each layer: of an option, or of the variable for it.
    fn tensor_ranks(&self, parallelism: &Parallelism) -> OptionValue<'a> {
        match self.option(parallelism.tensor) {
            OptionValue::Absent => self.processes.clone(),
            stated => stated,
        }
    }

    /// Whether options state data-parallel ranks.
    pub(crate) fn is_data_parallel(&self) -> bool {
        let parallelism = self.program.server().and_then(|server| server.parallelism.as_ref());
        parallelism
            .is_some_and(|of| [of.data, of.local_data, of.shared_data].iter().any(|names| self.has(names)))
    }

    /// Whether it is vLLM from its own image, without extensions that distribute models in other ways.
    pub(crate) fn is_plain_vllm(&self, container: &Node<'a>) -> bool {
        let image = image_of(container);
        let own = !image_text(container).is_some_and(may_be_rebuilt)
            && image.is_some_and(|image| {
                let is_known =
                    image.is("vllm/vllm-openai") || deep_learning_container(&image) == Some("vllm");
                is_known && (image.tag.is_some() || image.digest.is_some())
            });
        own && self.program.is(ServerId::Vllm) && !self.has(&["omni"])
    }

    /// Whether options may come from elsewhere: a variable, a configuration file, the environment.
    pub(crate) fn may_have_more_options(&self) -> bool {
        self.of_own_entrypoint
            || may_have_more_options(&self.words)
            || !matches!(self.option(&["config"]), OptionValue::Absent)
    }

    /// Whether an option is set.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        !matches!(self.option(names), OptionValue::Absent)
    }

    /// The word that sets an option.
    pub(crate) fn word_of(&self, name: &str) -> Option<&Word<'a>> {
        self.words.iter().find(|word| {
            let written = word.text.strip_prefix("--").and_then(|text| text.split('=').next());
            written.is_some_and(|written| written.replace('_', "-") == name)
        })
    }

    /// The share of each GPU's memory that vLLM takes when it starts. `None` for other programs, and if it is unknown.
    pub(crate) fn memory_share(&self) -> Option<MemoryShare<'a>> {
        /// The default is 0.9, and 0.92 in later releases.
        const DEFAULT: i64 = 92;
        let sizes = ["kv-cache-memory-bytes", "kv-cache-memory"];
        if !self.program.is(ServerId::Vllm) || self.may_have_more_options() || self.has(&sizes) {
            return None;
        }
        match self.option(&["gpu-memory-utilization"]) {
            OptionValue::Absent => Some(MemoryShare { percent: DEFAULT, node: None }),
            OptionValue::Unknown => None,
            OptionValue::Text(text, node) => {
                let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share))?;
                Some(MemoryShare { percent: (share * 100.0).round() as i64, node: Some(node) })
            }
        }
    }

    /// Number of GPUs that the program uses in each pod, and the item that states it, if any. `None` if it is unknown.
    pub(crate) fn gpus(&self) -> Option<(i64, Option<Node<'a>>)> {
        match self.program {
            // A file with the settings of the engine, and ranks of MPI, decide before the options.
            Program::Worker(_, server) if server.id == ServerId::TensorRtLlm => None,
            Program::Server(server) | Program::Worker(_, server) => self.gpus_of_server(server),
            Program::Torchrun => single(&match self.option(&["nproc-per-node"]) {
                OptionValue::Absent => self.processes.clone(),
                stated => stated,
            }),
            Program::DeepSpeed => {
                if self.has(&["include", "hostfile", "exclude", "H", "i"]) {
                    return None;
                }
                single(&self.option(&["num-gpus"]))
            }
            Program::Accelerate => {
                if self.has(&["cpu", "use-cpu", "tpu"]) {
                    return None;
                }
                let machines = self.option(&["num-machines"]).int_or(1)?;
                let (all, node) = single(&self.option(&["num-processes"]))?;
                (machines > 0 && all % machines == 0).then_some((all / machines, node))
            }
        }
    }

    fn gpus_of_server(&self, server: &Server) -> Option<(i64, Option<Node<'a>>)> {
        let parallelism = server.parallelism.as_ref()?;
        // The number of ranks of a group over several pods does not determine that of one pod.
        if self.has(parallelism.partial) {
            return None;
        }
        let tensor = self.tensor_ranks(parallelism);
        // Only vLLM's and SGLang's default of one GPU holds whatever a configuration says.
        if !matches!(server.id, ServerId::Vllm | ServerId::Sglang) {
            tensor.node()?;
        }
        let data = match self.option(parallelism.local_data) {
            _ if self.has(parallelism.shared_data) => OptionValue::Absent,
            OptionValue::Absent => self.option(parallelism.data),
            local => local,
        };
        let (all, node) = product(&[tensor, self.option(parallelism.pipeline), data])?;
        let nodes = self.option(parallelism.nodes).int_or(1)?;
        (nodes > 0 && all % nodes == 0).then_some((all / nodes, node))
    }

    /// Number of pods that the run waits for, and the item that states it.
    pub(crate) fn nodes(&self) -> Option<(i64, Node<'a>)> {
        let value = match self.program {
            Program::Torchrun => self.option(&["nnodes"]),
            Program::Accelerate => self.option(&["num-machines"]),
            Program::Server(server) | Program::Worker(_, server) => {
                self.option(server.parallelism.as_ref()?.nodes)
            }
            Program::DeepSpeed => return None,
        };
        Some((value.int_or(1)?, value.node()?))
    }

    /// The host of the rendezvous, and the item that names it.
    pub(crate) fn rendezvous(&self) -> Option<(String, Node<'a>)> {
        let value = match self.program {
            Program::Torchrun => {
                let endpoint = self.option(&["rdzv-endpoint"]);
                match endpoint {
                    OptionValue::Absent => self.option(&["master-addr"]),
                    endpoint => endpoint,
                }
            }
            Program::Server(server) | Program::Worker(_, server) if server.id == ServerId::Sglang => {
                self.option(&["dist-init-addr", "nccl-init-addr"])
            }
            Program::Accelerate => self.option(&["main-process-ip"]),
            _ => return None,
        };
        match value {
            OptionValue::Text(text, node) => Some((url::host(&text).to_owned(), node)),
            _ => None,
        }
    }
}

/// The value of the variable that stands for an option of a server. `None` if it has no such variables.
fn variable_of_option<'a>(container: &Node<'a>, server: &Server, names: &[&str]) -> Option<OptionValue<'a>> {
    let name = names.first()?.to_ascii_uppercase().replace('-', "_");
    Some(in_variable(container, &format!("{}{name}", server.variables?)))
}

fn in_variable<'a>(container: &Node<'a>, name: &str) -> OptionValue<'a> {
    match variable(container, name) {
        Some(Some((text, node))) => OptionValue::Text(text.into_owned(), node),
        Some(None) => OptionValue::Absent,
        None => OptionValue::Unknown,
    }
}

/// Whether a container surely runs another rank of a server than the first, which alone answers requests: SGLang and vLLM with
/// `--node-rank`, vLLM with `--headless`. In a template of workers a rank that is not known is not the first.
pub(crate) fn is_later_rank(template: &Template<'_>, container: &Node<'_>) -> bool {
    let words = words(container);
    let rank = option(&words, &["node-rank"]);
    rank.int_or(0).map_or_else(|| template.is_of_workers(), |rank| rank > 0)
        || words.iter().any(|word| word.text == "--headless")
        || is_rank_by_variables(container)
}

/// Whether the variables that scripts of servers over several pods read say that a container is a later rank.
fn is_rank_by_variables(container: &Node<'_>) -> bool {
    let is = |name: &str, later: fn(&str) -> bool| {
        variable(container, name).flatten().is_some_and(|(text, _)| later(&text))
    };
    let is_later = |text: &str| text.parse::<u32>().is_ok_and(|rank| rank > 0);
    ["NODE_RANK", "RANK"].iter().any(|name| is(name, is_later))
        || is("HEADLESS", |text| matches!(text, "1" | "true" | "True" | "TRUE"))
}

/// Whether a container surely serves as a worker of a server that another pod starts: it joins Ray alone, or runs vLLM with
/// `--headless`.
pub(crate) fn joins_server(container: &Node<'_>) -> bool {
    let words = words(container);
    let is_pair = |end: &str, argument: &str| {
        words.windows(2).any(|pair| base_name(&pair[0].text) == end && pair[1].text == argument)
    };
    let joins_ray = is_pair("ray", "start") || is_pair("multi-node-serving.sh", "worker");
    let serves = (0..words.len()).any(|at| server_at(&words, at).is_some());
    joins_ray && !serves || words.iter().any(|word| word.text == "--headless")
}

/// Parts of a command line of a container in a Ray cluster: Ray's own commands, and vLLM's script around them
/// (`examples/online_serving/multi-node-serving.sh`).
const RAY_WORDS: [&str; 7] = [
    "ray start",
    "ray symmetric-run",
    "ray://",
    "multi-node-serving",
    "run_cluster.sh",
    "--ray_cluster_size",
    "--ray_address",
];

/// Whether a word of a command line shows that the container is part of a Ray cluster.
pub(crate) fn names_ray(text: &str) -> bool {
    base_name(text) == "ray"
        || text.ends_with("backend=ray")
        || RAY_WORDS.iter().any(|word| text.contains(word))
}

/// The number of pods that one server or one run consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerSize {
    OnePod,
    Pods(i64),
    /// Several pods, of which the number is not known, or possibly one.
    Unknown,
}

impl ServerSize {
    /// The pods of a container's program, as its command line states.
    pub(crate) fn of(container: &Node<'_>) -> ServerSize {
        let launch = Launch::of(container);
        if let Some((nodes, _)) = launch.as_ref().and_then(Launch::nodes)
            && nodes > 1
        {
            return ServerSize::Pods(nodes);
        }
        // A script may start the ranks with a command each.
        let words = words(container);
        let known_server = || {
            (0..words.len()).any(|at| program_at(&words, at).is_some_and(|(one, _)| one.server().is_some()))
        };
        if launch.is_none() && !known_server() {
            return ServerSize::OnePod;
        }
        match option(&words, &["nnodes"]) {
            OptionValue::Absent => {}
            stated => {
                return match stated.int_or(1) {
                    Some(..=1) => ServerSize::OnePod,
                    Some(nodes) => ServerSize::Pods(nodes),
                    None => ServerSize::Unknown,
                };
            }
        }
        let rank = ["node-rank", "data-parallel-start-rank", "data-parallel-address", "dpa"];
        if !matches!(option(&words, &rank), OptionValue::Absent)
            || words.iter().any(|word| word.text == "--headless")
        {
            return ServerSize::Unknown;
        }
        // Pods without an option for it become one server only by Ray; otherwise each of them lacks GPUs.
        let is_of_ray = words.iter().any(|word| names_ray(&word.text));
        let of_model = launch.and_then(|launch| launch.gpus_of_model(container));
        match of_model.zip(gpus_of(container)) {
            Some((all, own)) if own.count > 0 && all > own.count => match all % own.count {
                0 if is_of_ray => ServerSize::Pods(all / own.count),
                _ => ServerSize::Unknown,
            },
            _ => ServerSize::OnePod,
        }
    }

    /// The pods of a template.
    pub(crate) fn of_template(template: &Template<'_>) -> ServerSize {
        ServerSize::first_beyond_one(template.containers().map(|container| ServerSize::of(&container)))
    }

    /// The first size that is not one pod.
    pub(crate) fn first_beyond_one(sizes: impl IntoIterator<Item = ServerSize>) -> ServerSize {
        sizes.into_iter().find(|size| *size != ServerSize::OnePod).unwrap_or(ServerSize::OnePod)
    }
}

/// The product of options that default to 1, and the item of the first one that is set.
fn product<'a>(factors: &[OptionValue<'a>]) -> Option<(i64, Option<Node<'a>>)> {
    let mut total = 1i64;
    for factor in factors {
        total = total.checked_mul(factor.int_or(1).filter(|n| *n > 0)?)?;
    }
    Some((total, factors.iter().find_map(OptionValue::node)))
}

/// The value of a required option.
fn single<'a>(value: &OptionValue<'a>) -> Option<(i64, Option<Node<'a>>)> {
    let node = value.node()?;
    Some((value.int_or(1).filter(|n| *n > 0)?, Some(node)))
}

/// The program that a command line begins with, behind variables that are set for it alone.
pub(crate) fn first_program(words: &[Word<'_>]) -> Option<Program> {
    let is_before = |word: &Word<'_>| STARTERS.contains(&base_name(&word.text)) || word.text.contains('=');
    let at = words.iter().position(|word| !is_before(word))?;
    program_at(words, at).map(|(program, _)| program)
}

/// The program that starts at a word, and the number of words of its command.
fn program_at(words: &[Word<'_>], at: usize) -> Option<(Program, usize)> {
    if let Some((server, length)) = server_at(words, at) {
        return Some((Program::Server(server), length));
    }
    if let Some((module, engine)) = engine_at(base_name(&words[at].text)) {
        return Some((Program::Worker(module, engine), 1));
    }
    let next = words.get(at + 1).map_or("", |word| word.text.as_str());
    match base_name(&words[at].text) {
        "torchrun" | "torch.distributed.run" | "torch.distributed.launch" => Some((Program::Torchrun, 1)),
        "deepspeed" => Some((Program::DeepSpeed, 1)),
        "accelerate" if next == "launch" => Some((Program::Accelerate, 2)),
        _ => None,
    }
}
