//! What is fixed about each model server: its command and image, its port, the paths that it answers, the folder of
//! its model cache, the options that distribute a model.
//!
//! Sources, read in November 2026: the Dockerfiles of text-generation-inference and text-embeddings-inference
//! (`PORT=80`, `HUGGINGFACE_HUB_CACHE=/data`; `HF_HOME=/data` from 2.1 on), of llama.cpp (`.devops/cuda.Dockerfile`) and
//! of Infinity; `envconfig/config.go` of Ollama; `vllm/envs.py` and the page on environment variables of vLLM (0.5 to
//! 0.11); `server_args.py` of SGLang; the pages on `trtllm-serve` (0.18 to 1.4), on NIM (1.0 to 2.1: environment
//! variables, cache, the order of settings, several nodes) and on Triton's options; `lmdeploy serve api_server --help`; KServe's `huggingfaceserver`; the
//! Dockerfile of TensorFlow Serving. Where no version is named, the fact holds for every release of the image.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerId {
    Vllm,
    Sglang,
    Tgi,
    Tei,
    Infinity,
    Triton,
    TensorRtLlm,
    LlamaCpp,
    Ollama,
    Nim,
    LmDeploy,
    /// KServe's server of models from Hugging Face, which runs vLLM.
    HuggingFace,
    TensorFlow,
}

/// A program that serves a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    /// The name in messages.
    pub(crate) name: &'static str,
    /// Beginnings of its command line: one or several words, the last of them cut after a dot.
    pub(super) commands: &'static [&'static str],
    /// Parts of the repositories of images that start it by default, or repositories with the beginning of a tag.
    pub(super) images: &'static [&'static str],
    /// Beginnings of the names of its own metrics.
    pub(crate) metrics: &'static [&'static str],
    /// The path that responds once the model is loaded.
    pub(crate) health: &'static str,
    pub(super) port: Port,
    /// `None` if it does not download models, or its image is not known to have one folder for them.
    pub(crate) cache: Option<Cache>,
    /// The prefix of the environment variables that stand for its options, such as `NUM_SHARD` for `--num-shard`.
    pub(crate) variables: Option<&'static str>,
    /// Options that name the model.
    pub(crate) model: &'static [&'static str],
    /// Options that name only a local path of models.
    pub(crate) model_paths: &'static [&'static str],
    /// Whether the first argument after the command names the model.
    pub(crate) model_is_positional: bool,
    /// `None` if its options do not say how it distributes a model.
    pub(crate) parallelism: Option<Parallelism>,
    /// Whether processes of its own on several GPUs exchange data through `/dev/shm`.
    pub(crate) shares_memory: bool,
    /// Flags for the number of seconds in which open requests are finished after SIGTERM.
    pub(crate) drain_flags: &'static [&'static str],
    /// Options that show it in an image of one's own that is called after it: no router, exporter or client has them.
    pub(super) own_options: &'static [&'static str],
    /// Variables that show it in the same way: no client has them.
    pub(super) own_variables: &'static [&'static str],
    /// Whether its models are small, or are loaded with the first request, so that it answers within seconds.
    pub(crate) loads_fast: bool,
}

/// The port of a server's HTTP API.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) default: i64,
    /// The port in its own image, if a variable of the image sets another one than the default.
    pub(super) of_image: i64,
    /// Options, without dashes.
    pub(super) options: &'static [&'static str],
    /// Environment variables with a port, or with an address that ends in one.
    pub(super) variables: &'static [&'static str],
}

/// The folder into which a server of its own image downloads models.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    /// Absolute paths, or paths below the home folder that begin with `~/`; the first one is the current one.
    pub(crate) folders: &'static [&'static str],
    /// Environment variables that move it; the first one does in every release of the image.
    pub(crate) variables: &'static [&'static str],
    /// Options that move it.
    pub(crate) options: &'static [&'static str],
}

/// Options that distribute a model over GPUs, without dashes. The GPUs of all pods are the product of those that are
/// set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parallelism {
    pub(crate) tensor: &'static [&'static str],
    pub(crate) pipeline: &'static [&'static str],
    pub(crate) data: &'static [&'static str],
    /// The number of the data-parallel ranks of this pod.
    pub(crate) local_data: &'static [&'static str],
    /// An option with which data-parallel ranks share the tensor-parallel ones.
    pub(crate) shared_data: &'static [&'static str],
    /// The number of pods over which all ranks are distributed.
    pub(crate) nodes: &'static [&'static str],
    /// Options with which one pod runs a part of the ranks that the other options do not determine.
    pub(crate) partial: &'static [&'static str],
    /// Variables with which something else than the options determines the ranks of a pod.
    pub(crate) decided_by: &'static [&'static str],
    pub(crate) default: Gpus,
}

/// The GPUs that a server uses without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gpus {
    One,
    All,
}

const NO_PARALLELISM: Parallelism = Parallelism {
    tensor: &[],
    pipeline: &[],
    data: &[],
    local_data: &[],
    shared_data: &[],
    nodes: &[],
    partial: &[],
    decided_by: &[],
    default: Gpus::One,
};

const fn port(default: i64, options: &'static [&'static str], variables: &'static [&'static str]) -> Port {
    Port { default, of_image: default, options, variables }
}

const fn server(id: ServerId, name: &'static str, health: &'static str, port: Port) -> Server {
    Server {
        id,
        name,
        commands: &[],
        images: &[],
        metrics: &[],
        health,
        port,
        cache: None,
        variables: None,
        model: &[],
        model_paths: &[],
        model_is_positional: false,
        parallelism: None,
        shares_memory: false,
        drain_flags: &[],
        own_options: &[],
        own_variables: &[],
        loads_fast: false,
    }
}

/// The cache of programs that download with the library of Hugging Face, as root.
const HUGGING_FACE: Cache = Cache {
    folders: &["~/.cache/huggingface"],
    variables: &[
        "HF_HOME",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "TRANSFORMERS_CACHE",
        "XDG_CACHE_HOME",
        "HOME",
        "VLLM_USE_MODELSCOPE",
        "SGLANG_USE_MODELSCOPE",
        "MODELSCOPE_CACHE",
    ],
    options: &["download-dir", "load-format"],
};

/// The cache in the images of TGI and TEI. `HF_HOME` counts only where the image does not set `HUGGINGFACE_HUB_CACHE`.
const DATA: Cache = Cache {
    folders: &["/data"],
    variables: &["HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE", "HF_HOME", "WEIGHTS_CACHE_OVERRIDE"],
    options: &["huggingface-hub-cache", "weights-cache-override"],
};

pub(super) static SERVERS: [Server; 13] = [
    Server {
        commands: &["vllm serve", "vllm.entrypoints."],
        images: &["vllm/vllm-openai", "lmcache/vllm-openai"],
        metrics: &["vllm:", "vllm_"],
        cache: Some(HUGGING_FACE),
        model: &["model"],
        model_is_positional: true,
        parallelism: Some(Parallelism {
            tensor: &["tensor-parallel-size", "tp"],
            pipeline: &["pipeline-parallel-size", "pp"],
            data: &["data-parallel-size", "dp"],
            local_data: &["data-parallel-size-local", "dpl"],
            partial: &[
                "data-parallel-rank",
                "dpr",
                "data-parallel-start-rank",
                "headless",
                "node-rank",
                "data-parallel-address",
                "dpa",
                "nnodes",
                "worker-cls",
            ],
            ..NO_PARALLELISM
        }),
        shares_memory: true,
        drain_flags: &["--shutdown-timeout"],
        own_options: &[
            "gpu-memory-utilization",
            "max-model-len",
            "max-num-seqs",
            "max-num-batched-tokens",
            "enforce-eager",
            "enable-prefix-caching",
            "enable-auto-tool-choice",
            "kv-transfer-config",
            "tensor-parallel-size",
        ],
        own_variables: &[
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
            "VLLM_ATTENTION_BACKEND",
            "VLLM_CACHE_ROOT",
            "VLLM_CONFIG_ROOT",
            "VLLM_HOST_IP",
            "VLLM_LOGGING_LEVEL",
            "VLLM_NO_USAGE_STATS",
            "VLLM_USE_V1",
            "VLLM_WORKER_MULTIPROC_METHOD",
        ],
        ..server(ServerId::Vllm, "vLLM", "/health", port(8000, &["port"], &[]))
    },
    Server {
        commands: &["sglang.launch_server", "sglang serve"],
        images: &["lmsysorg/sglang"],
        metrics: &["sglang:", "sglang_"],
        cache: Some(HUGGING_FACE),
        model: &["model-path", "model"],
        parallelism: Some(Parallelism {
            tensor: &["tp", "tp-size", "tensor-parallel-size"],
            pipeline: &["pp-size", "pipeline-parallel-size"],
            data: &["dp", "dp-size", "data-parallel-size"],
            shared_data: &["enable-dp-attention"],
            nodes: &["nnodes"],
            ..NO_PARALLELISM
        }),
        shares_memory: true,
        own_options: &[
            "mem-fraction-static",
            "context-length",
            "chunked-prefill-size",
            "max-running-requests",
            "disable-radix-cache",
            "tp-size",
        ],
        own_variables: &[
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
            "SGLANG_HEALTH_CHECK_TIMEOUT",
            "SGLANG_HOST_IP",
            "SGLANG_USE_MODELSCOPE",
        ],
        ..server(ServerId::Sglang, "SGLang", "/health", port(30000, &["port"], &[]))
    },
    Server {
        commands: &["text-generation-launcher"],
        images: &["huggingface/text-generation-inference"],
        metrics: &["tgi_"],
        cache: Some(DATA),
        variables: Some(""),
        model: &["model-id"],
        parallelism: Some(Parallelism { tensor: &["num-shard"], default: Gpus::All, ..NO_PARALLELISM }),
        shares_memory: true,
        own_options: &["num-shard", "max-total-tokens", "max-input-tokens", "max-batch-prefill-tokens"],
        ..server(
            ServerId::Tgi,
            "TGI",
            "/health",
            Port { of_image: 80, ..port(3000, &["port", "p"], &["PORT"]) },
        )
    },
    Server {
        commands: &["text-embeddings-router"],
        images: &["text-embeddings-inference"],
        cache: Some(DATA),
        variables: Some(""),
        model: &["model-id"],
        own_options: &["auto-truncate", "max-batch-tokens", "max-client-batch-size", "pooling"],
        loads_fast: true,
        ..server(
            ServerId::Tei,
            "TEI",
            "/health",
            Port { of_image: 80, ..port(3000, &["port", "p"], &["PORT"]) },
        )
    },
    Server {
        commands: &["infinity_emb"],
        images: &["michaelf34/infinity"],
        cache: Some(Cache { folders: &["/app/.cache"], ..HUGGING_FACE }),
        loads_fast: true,
        ..server(ServerId::Infinity, "Infinity", "/health", port(7997, &["port"], &["INFINITY_PORT"]))
    },
    Server {
        commands: &["tritonserver"],
        images: &["nvidia/tritonserver"],
        metrics: &["nv_inference_", "nv_gpu_"],
        model_paths: &["model-repository", "model-store"],
        drain_flags: &["--exit-timeout-secs"],
        own_options: &["model-repository", "model-store", "model-control-mode"],
        ..server(ServerId::Triton, "Triton", "/v2/health/ready", port(8000, &["http-port"], &[]))
    },
    Server {
        commands: &["trtllm-serve"],
        cache: Some(HUGGING_FACE),
        model_is_positional: true,
        parallelism: Some(Parallelism {
            tensor: &["tp-size", "tensor-parallel-size"],
            pipeline: &["pp-size", "pipeline-parallel-size"],
            ..NO_PARALLELISM
        }),
        ..server(ServerId::TensorRtLlm, "TensorRT-LLM", "/health", port(8000, &["port"], &[]))
    },
    Server {
        commands: &["llama-server"],
        images: &["ggml-org/llama.cpp:server", "ggerganov/llama.cpp:server"],
        metrics: &["llamacpp:", "llamacpp_"],
        // Models of Hugging Face moved to its own cache in 2026.
        cache: Some(Cache {
            folders: &["~/.cache/llama.cpp", "~/.cache/huggingface"],
            variables: &["LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HOME"],
            options: &[],
        }),
        variables: Some("LLAMA_ARG_"),
        model_paths: &["model", "m"],
        own_options: &["cont-batching", "ctx-size", "hf-file", "hf-repo"],
        ..server(ServerId::LlamaCpp, "llama.cpp", "/health", port(8080, &["port"], &["LLAMA_ARG_PORT"]))
    },
    Server {
        commands: &["ollama serve"],
        images: &["ollama/ollama"],
        cache: Some(Cache {
            folders: &["~/.ollama"],
            variables: &["OLLAMA_MODELS", "OLLAMA_HOME", "HOME"],
            options: &[],
        }),
        own_variables: &[
            "OLLAMA_CONTEXT_LENGTH",
            "OLLAMA_FLASH_ATTENTION",
            "OLLAMA_GPU_OVERHEAD",
            "OLLAMA_KEEP_ALIVE",
            "OLLAMA_KV_CACHE_TYPE",
            "OLLAMA_LOAD_TIMEOUT",
            "OLLAMA_MAX_LOADED_MODELS",
            "OLLAMA_MAX_QUEUE",
            "OLLAMA_MODELS",
            "OLLAMA_NUM_PARALLEL",
            "OLLAMA_ORIGINS",
            "OLLAMA_SCHED_SPREAD",
        ],
        loads_fast: true,
        ..server(ServerId::Ollama, "Ollama", "/", port(11434, &[], &["OLLAMA_HOST"]))
    },
    Server {
        images: &["nim/"],
        cache: Some(Cache {
            folders: &["/opt/nim/.cache"],
            variables: &["NIM_CACHE_PATH", "NIM_MODEL_NAME", "NIM_MODEL_PATH"],
            options: &[],
        }),
        variables: Some("NIM_"),
        // Without the variable the profile that NIM chooses for the GPUs decides.
        parallelism: Some(Parallelism {
            tensor: &["tensor-parallel-size"],
            decided_by: &[
                "NIM_MODEL_PROFILE",
                "NIM_PASSTHROUGH_ARGS",
                "NIM_PIPELINE_PARALLEL_SIZE",
                "NIM_MULTI_NODE",
                "NIM_NUM_COMPUTE_NODES",
                "NIM_LEADER_ROLE",
                "NIM_NODE_RANK",
            ],
            default: Gpus::All,
            ..NO_PARALLELISM
        }),
        shares_memory: true,
        ..server(
            ServerId::Nim,
            "NIM",
            "/v1/health/ready",
            port(8000, &[], &["NIM_SERVER_PORT", "NIM_HTTP_API_PORT"]),
        )
    },
    Server {
        commands: &["lmdeploy serve api_server"],
        cache: Some(HUGGING_FACE),
        model_is_positional: true,
        parallelism: Some(Parallelism {
            tensor: &["tp"],
            data: &["dp"],
            partial: &["nnodes", "node-rank", "ep"],
            ..NO_PARALLELISM
        }),
        shares_memory: true,
        ..server(ServerId::LmDeploy, "LMDeploy", "/health", port(23333, &["server-port"], &[]))
    },
    Server {
        commands: &["huggingfaceserver"],
        images: &["kserve/huggingfaceserver"],
        model: &["model-id"],
        parallelism: Some(Parallelism {
            tensor: &["tensor-parallel-size", "tp"],
            pipeline: &["pipeline-parallel-size", "pp"],
            ..NO_PARALLELISM
        }),
        shares_memory: true,
        ..server(
            ServerId::HuggingFace,
            "KServe's Hugging Face server",
            "/v2/health/ready",
            port(8080, &["http-port"], &[]),
        )
    },
    // The script of its image opens the port for REST, which is closed by default.
    Server {
        images: &["tensorflow/serving"],
        loads_fast: true,
        ..server(
            ServerId::TensorFlow,
            "TensorFlow Serving",
            "/v1/models/model",
            port(8501, &["rest-api-port"], &[]),
        )
    },
];
