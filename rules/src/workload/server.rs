//! Model servers with known health endpoints, ports and flags.

use crate::tree::node::Node;
use crate::workload::class::{command_line, has_word, repository};
use crate::workload::gpu::requests_accelerator;
use crate::workload::template::Template;

/// A program that serves a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The name in messages.
    pub(crate) name: &'static str,
    commands: &'static [&'static str],
    /// Repositories of images that start it by default.
    images: &'static [&'static str],
    /// The path that responds once the model is loaded.
    pub(crate) health: &'static str,
    pub(crate) port: i64,
    /// Flags for the number of seconds in which open requests are finished after SIGTERM.
    pub(crate) drain_flags: &'static [&'static str],
    /// Whether its models are small, so that they load within seconds.
    pub(crate) loads_fast: bool,
}

const fn server(name: &'static str, health: &'static str, port: i64) -> Server {
    Server { name, commands: &[], images: &[], health, port, drain_flags: &[], loads_fast: false }
}

/// Endpoints and ports as documented by the projects.
static SERVERS: [Server; 9] = [
    Server {
        commands: &["vllm serve", "vllm.entrypoints."],
        images: &["vllm/vllm-openai", "lmcache/vllm-openai"],
        drain_flags: &["--shutdown-timeout"],
        ..server("vLLM", "/health", 8000)
    },
    Server {
        commands: &["sglang.launch_server"],
        images: &["lmsysorg/sglang"],
        ..server("SGLang", "/health", 30000)
    },
    Server {
        commands: &["text-generation-launcher"],
        images: &["huggingface/text-generation-inference"],
        ..server("TGI", "/health", 80)
    },
    Server {
        commands: &["text-embeddings-router"],
        images: &["text-embeddings-inference"],
        loads_fast: true,
        ..server("TEI", "/health", 80)
    },
    Server {
        commands: &["infinity_emb"],
        images: &["michaelf34/infinity"],
        loads_fast: true,
        ..server("Infinity", "/health", 7997)
    },
    Server {
        commands: &["tritonserver"],
        images: &["nvidia/tritonserver"],
        drain_flags: &["--exit-timeout-secs"],
        ..server("Triton", "/v2/health/ready", 8000)
    },
    Server { commands: &["trtllm-serve"], ..server("TensorRT-LLM", "/health", 8000) },
    Server { commands: &["llama-server"], ..server("llama.cpp", "/health", 8080) },
    // Models are loaded with the first request.
    Server {
        commands: &["ollama serve"],
        images: &["ollama/ollama"],
        loads_fast: true,
        ..server("Ollama", "/", 11434)
    },
];

/// The server that a container runs, from its command, or from its image without one.
pub(crate) fn server_of(container: &Node<'_>) -> Option<&'static Server> {
    let line = command_line(container);
    let by_command = SERVERS.iter().find(|server| server.commands.iter().any(|sign| has_word(&line, sign)));
    if by_command.is_some() || container.get("command").is_set() {
        return by_command;
    }
    let image = container.get("image");
    let repository = repository(image.text()?).to_ascii_lowercase();
    SERVERS.iter().find(|server| server.images.iter().any(|sign| repository.contains(sign)))
}

/// Whether a container runs the server with this name in messages.
pub(crate) fn is_server(container: &Node<'_>, name: &str) -> bool {
    server_of(container).is_some_and(|server| server.name == name)
}

impl Server {
    /// The port of a container: that of `--port`, otherwise the default. `None` if another one may be set, or the
    /// container lists ports without it.
    pub(crate) fn port_of(&self, container: &Node<'_>) -> Option<i64> {
        let line = command_line(container);
        let written = flag(&line, "--port").or_else(|| flag(&line, "--http-port"));
        let port = match written {
            Some(text) => text.parse().ok()?,
            None if container.get("env").is_set() || container.get("envFrom").is_set() => {
                let mut names = container.get("env").items().map(|entry| entry.get("name"));
                let sets_port = names.any(|name| name.text().is_none_or(|name| name.ends_with("PORT")));
                if sets_port || container.get("envFrom").is_set() {
                    return None;
                }
                self.port
            }
            None => self.port,
        };
        let ports = container.get("ports");
        let mut listed = ports.items().map(|entry| entry.get("containerPort").int());
        (!ports.is_set() || listed.any(|listed| listed == Some(port))).then_some(port)
    }
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

/// Whether a template requests an accelerator, as a resource or through a claim.
pub(crate) fn uses_device(template: &Template<'_>) -> bool {
    requests_accelerator(template)
        || template.all_containers().any(|c| c.path(&["resources", "claims"]).items().next().is_some())
}

#[cfg(test)]
mod tests {
    use super::{flag, server_of};
    use crate::tree::node::Node;
    use serde_json::{Value, json};

    fn name(container: Value) -> Option<&'static str> {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [container]}});
        let object = crate::object::Object::from_json(&object)?;
        let containers = object.path(&["spec", "containers"]);
        let container: Node<'_> = containers.index(0);
        server_of(&container).map(|server| server.name)
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
            (json!({"image": "nvcr.io/nvidia/tritonserver:24.01-py3"}), Some("Triton")),
            (json!({"image": "example.com/web:1", "args": ["--model", "m"]}), None),
            (
                json!({"image": "python:3", "command": ["python3", "-m", "sglang.launch_server"]}),
                Some("SGLang"),
            ),
            (json!({"image": "ollama/ollama:0.5.1"}), Some("Ollama")),
            (json!({"command": ["ollama", "pull", "m"], "image": "ollama/ollama:0.5.1"}), None),
        ] {
            assert_eq!(name(container.clone()), expected, "{container}");
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
