//! Programs that start several processes or distribute a model over GPUs, and the number of GPUs in their options.

use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::command::{
    OptionValue, Word, base_name, command_at, may_have_more_options, option, words,
};
use crate::workload::devices::gpus_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Vllm,
    Sglang,
    Tgi,
    TrtLlm,
    Torchrun,
    DeepSpeed,
    Accelerate,
}

impl Program {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Vllm => "vLLM",
            Program::Sglang => "SGLang",
            Program::Tgi => "TGI",
            Program::TrtLlm => "TensorRT-LLM",
            Program::Torchrun => "torchrun",
            Program::DeepSpeed => "deepspeed",
            Program::Accelerate => "accelerate",
        }
    }
}

/// The only program of a container that distributes its work over GPUs, with its command.
pub(crate) struct Launch<'a> {
    pub(crate) program: Program,
    words: Vec<Word<'a>>,
}

impl<'a> Launch<'a> {
    /// `None` if the container starts no such program, or more than one.
    pub(crate) fn of(container: &Node<'a>) -> Option<Launch<'a>> {
        let words = words(container);
        let mut found = None;
        for at in 0..words.len() {
            if let Some(program) = program_at(&words, at) {
                if found.is_some() {
                    return None;
                }
                found = Some((program, at));
            }
        }
        let (program, at) = match found {
            Some(found) => found,
            None => (program_of_image(container)?, 0),
        };
        let words = command_at(&words, at).to_vec();
        Some(Launch { program, words })
    }

    /// The last value of an option.
    pub(crate) fn option(&self, names: &[&str]) -> OptionValue<'a> {
        option(&self.words, names)
    }

    /// The value of an option, or of the equivalent environment variable.
    pub(crate) fn setting(&self, container: &Node<'a>, names: &[&str], variable: &str) -> OptionValue<'a> {
        let OptionValue::Absent = self.option(names) else {
            return self.option(names);
        };
        if self.program != Program::Tgi {
            return OptionValue::Absent;
        }
        let mut variables = container.get("env").items();
        let Some(entry) = variables.find(|entry| entry.get("name").text() == Some(variable)) else {
            return OptionValue::Absent;
        };
        let value = entry.get("value");
        match value.string_or_number() {
            Some(text) if !is_placeholder(&text) => OptionValue::Text(text.into_owned(), value.clone()),
            _ => OptionValue::Unknown,
        }
    }

    /// The model that a server loads, and the item that names it. `None` if it is unknown.
    pub(crate) fn model(&self, container: &Node<'a>) -> Option<(String, Node<'a>)> {
        let value = match self.program {
            Program::Vllm => self.option(&["model"]),
            Program::Sglang => self.option(&["model-path", "model"]),
            Program::Tgi => self.setting(container, &["model-id"], "MODEL_ID"),
            Program::TrtLlm => OptionValue::Absent,
            Program::Torchrun | Program::DeepSpeed | Program::Accelerate => return None,
        };
        match value {
            OptionValue::Text(text, node) => Some((text, node)),
            OptionValue::Unknown => None,
            OptionValue::Absent => {
                let word = self.words.get(self.positional()?)?;
                (word.known && !word.text.starts_with('-')).then(|| (word.text.clone(), word.node.clone()))
            }
        }
    }

    /// The position of the first positional argument, for programs that have one.
    fn positional(&self) -> Option<usize> {
        let first = self.words.first()?.text.as_str();
        match self.program {
            Program::Vllm if base_name(first) == "vllm" => Some(2),
            Program::Vllm if !base_name(first).starts_with("vllm.") => Some(0),
            Program::TrtLlm => Some(1),
            _ => None,
        }
    }

    /// Number of GPUs over which one copy of the model is distributed, in one pod or several. `None` if it is unknown.
    pub(crate) fn gpus_of_model(&self, container: &Node<'a>) -> Option<i64> {
        let factors = match self.program {
            Program::Vllm => [&["tensor-parallel-size", "tp"][..], &["pipeline-parallel-size", "pp"]],
            Program::Sglang => {
                [&["tp", "tp-size", "tensor-parallel-size"][..], &["pp-size", "pipeline-parallel-size"]]
            }
            Program::TrtLlm => [&["tp-size"][..], &["pp-size"]],
            Program::Tgi => {
                let shards = self.setting(container, &["num-shard"], "NUM_SHARD");
                return match shards {
                    // Without the option, all visible GPUs are used.
                    OptionValue::Absent => Some(gpus_of(container)?.count),
                    shards => shards.int_or(1),
                };
            }
            Program::Torchrun | Program::DeepSpeed | Program::Accelerate => return None,
        };
        Some(product(&factors.map(|names| self.option(names)))?.0)
    }

    /// Whether it is vLLM from its own image, without extensions that distribute models in other ways.
    pub(crate) fn is_plain_vllm(&self, container: &Node<'a>) -> bool {
        let image = container.get("image").text().unwrap_or_default();
        let own = image.contains("vllm/vllm-openai:") || image.contains("vllm/vllm-openai@");
        own && self.program == Program::Vllm && !self.has(&["omni"])
    }

    /// Whether options may come from elsewhere: a variable, a configuration file, the environment.
    pub(crate) fn may_have_more_options(&self) -> bool {
        may_have_more_options(&self.words) || !matches!(self.option(&["config"]), OptionValue::Absent)
    }

    /// Whether an option is set.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        !matches!(self.option(names), OptionValue::Absent)
    }

    /// Number of GPUs that the program uses in each pod, and the item that states it, if any. `None` if it is unknown.
    pub(crate) fn gpus(&self) -> Option<(i64, Option<Node<'a>>)> {
        match self.program {
            Program::Vllm => {
                // The number of ranks of a group over several pods does not determine that of one pod.
                let spread =
                    ["data-parallel-rank", "dpr", "data-parallel-start-rank", "headless", "node-rank"];
                if self.has(&spread) || self.has(&["data-parallel-address", "dpa", "nnodes", "worker-cls"]) {
                    return None;
                }
                let tensor = self.option(&["tensor-parallel-size", "tp"]);
                let pipeline = self.option(&["pipeline-parallel-size", "pp"]);
                let local = self.option(&["data-parallel-size-local", "dpl"]);
                let data = match local {
                    OptionValue::Absent => self.option(&["data-parallel-size", "dp"]),
                    local => local,
                };
                product(&[tensor, pipeline, data])
            }
            Program::Sglang => {
                let nodes = self.option(&["nnodes"]).int_or(1)?;
                let tensor = self.option(&["tp", "tp-size", "tensor-parallel-size"]);
                let pipeline = self.option(&["pp-size", "pipeline-parallel-size"]);
                let data = match self.has(&["enable-dp-attention"]) {
                    true => OptionValue::Absent,
                    false => self.option(&["dp", "dp-size", "data-parallel-size"]),
                };
                let (all, node) = product(&[tensor, pipeline, data])?;
                (nodes > 0 && all % nodes == 0).then_some((all / nodes, node))
            }
            Program::Tgi => {
                let shards = self.option(&["num-shard"]);
                // Without the option, all visible GPUs are used.
                let node = shards.node()?;
                Some((shards.int_or(1)?, Some(node)))
            }
            Program::TrtLlm => {
                let tensor = self.option(&["tp-size"]);
                tensor.node()?;
                product(&[tensor, self.option(&["pp-size"])])
            }
            Program::Torchrun => single(&self.option(&["nproc-per-node"])),
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

    /// Number of pods that the run waits for, and the item that states it.
    pub(crate) fn nodes(&self) -> Option<(i64, Node<'a>)> {
        let value = match self.program {
            Program::Torchrun | Program::Sglang => self.option(&["nnodes"]),
            Program::Accelerate => self.option(&["num-machines"]),
            _ => return None,
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
            Program::Sglang => self.option(&["dist-init-addr", "nccl-init-addr"]),
            Program::Accelerate => self.option(&["main-process-ip"]),
            _ => return None,
        };
        match value {
            OptionValue::Text(text, node) => {
                let host = text.rsplit_once("//").map_or(text.as_str(), |(_, rest)| rest);
                let host = host.split_once(':').map_or(host, |(host, _)| host);
                Some((host.to_owned(), node))
            }
            _ => None,
        }
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

fn program_at(words: &[Word<'_>], at: usize) -> Option<Program> {
    let text = words[at].text.as_str();
    let next = words.get(at + 1).map_or("", |word| word.text.as_str());
    match base_name(text) {
        "vllm" if next == "serve" => Some(Program::Vllm),
        "sglang.launch_server" => Some(Program::Sglang),
        "text-generation-launcher" => Some(Program::Tgi),
        "trtllm-serve" => Some(Program::TrtLlm),
        "torchrun" | "torch.distributed.run" | "torch.distributed.launch" => Some(Program::Torchrun),
        "deepspeed" => Some(Program::DeepSpeed),
        "accelerate" if next == "launch" => Some(Program::Accelerate),
        text if text.starts_with("vllm.entrypoints.") => Some(Program::Vllm),
        _ => None,
    }
}

/// The program that an image starts by default.
fn program_of_image(container: &Node<'_>) -> Option<Program> {
    if container.get("command").is_set() {
        return None;
    }
    let image = container.get("image").text()?;
    // Images for other hardware or purposes have another name after the same prefix.
    let repository = image.split('@').next().unwrap_or(image);
    let repository = match repository.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => repository,
    };
    if repository.ends_with("vllm/vllm-openai") {
        Some(Program::Vllm)
    } else if repository.ends_with("huggingface/text-generation-inference") {
        Some(Program::Tgi)
    } else {
        None
    }
}
