//! Commands, images, kinds and labels from which the class of a workload is inferred.

/// Commands of servers, as sequences of tokens. The flag marks tokens that are weak evidence alone.
pub(super) const SERVING: &[(&str, bool)] = &[
    ("vllm serve", false),
    ("vllm.entrypoints.", false),
    ("api_server", false),
    ("tritonserver", false),
    ("text-generation-launcher", false),
    ("sglang.launch_server", false),
    ("trtllm-serve", false),
    ("lmdeploy serve", false),
    ("mlserver start", false),
    ("torchserve", false),
    ("tensorflow_model_server", false),
    ("ollama serve", false),
    ("llama-server", false),
    ("infinity_emb", false),
    ("text-embeddings-router", false),
    ("uvicorn", true),
    ("gunicorn", true),
];

/// Launchers of training. The flag marks those that are evidence only together with an accelerator.
pub(super) const TRAINING: &[(&str, bool)] = &[
    ("torchrun", false),
    ("torch.distributed.run", false),
    ("torch.distributed.launch", false),
    ("deepspeed", false),
    ("accelerate launch", false),
    ("horovodrun", false),
    ("mpirun", true),
    ("colossalai run", false),
    ("composer", true),
    ("axolotl", false),
    ("llamafactory-cli train", false),
];

pub(super) const BATCH: &[&str] =
    &["vllm run-batch", "batch_inference", "offline_inference", "run_batch", "whisper"];
/// Benchmarks and diagnostics: a launcher that runs one of them is not training.
pub(super) const DIAGNOSTICS: &[&str] = &[
    "all_reduce_perf",
    "all_gather_perf",
    "alltoall_perf",
    "broadcast_perf",
    "gather_perf",
    "hypercube_perf",
    "reduce_perf",
    "reduce_scatter_perf",
    "scatter_perf",
    "sendrecv_perf",
    "nvbandwidth",
    "nvloom",
    "fi_info",
    "fi_pingpong",
    "fi_rdm_bw",
    "ib_write_bw",
    "ib_read_bw",
    "osu_allreduce",
    "osu_bw",
    "osu_latency",
    "gpu_burn",
    "rocm-bandwidth-test",
    "rccl-tests",
    "hccl_demo",
    "nccom-test",
];
/// Parts of images whose only use is to test accelerators and the network between them.
pub(super) const DIAGNOSTIC_IMAGES: &[&str] = &[
    "nccl-test",
    "rccl-test",
    "gpu-burn",
    "cuda-sample",
    "nvbandwidth",
    "preflight",
    "dcgmproftester",
    "osu-micro-benchmarks",
];
/// Words in the name of a script, or of a workload, that tests hardware instead of training a model.
pub(super) const DIAGNOSTIC_WORDS: &[&str] = &[
    "allreduce",
    "bandwidth",
    "bench",
    "benchmark",
    "benchmarks",
    "burnin",
    "healthcheck",
    "nccl",
    "preflight",
    "rccl",
    "smoketest",
];
pub(super) const NOTEBOOK: &[&str] = &["jupyter", "code-server", "start-notebook.sh"];

pub(super) const INFRA_IMAGES: &[&str] = &[
    "nvidia/k8s/",
    "nvidia/cloud-native/",
    "k8s-device-plugin",
    "dcgm-exporter",
    "gpu-operator",
    "gpu-feature-discovery",
    "node-feature-discovery",
    "neuron-device-plugin",
    "neuron-monitor",
    "aws-efa-k8s-device-plugin",
];

/// Frameworks in names such as `huggingface-pytorch-inference`, as in the Deep Learning Containers of AWS.
pub(super) const INFERENCE_FRAMEWORKS: &[&str] = &["pytorch", "tensorflow", "mxnet", "djl", "huggingface"];

pub(super) const SERVING_IMAGES: &[&str] = &[
    "vllm/vllm-openai",
    "lmcache/vllm-openai",
    "rocm/vllm",
    "nvidia/tritonserver",
    "huggingface/text-generation-inference",
    "text-embeddings-inference",
    "lmsysorg/sglang",
    "ollama/ollama",
    "kserve/",
];

pub(super) const TRAINING_KINDS: &[&str] =
    &["PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "JAXJob", "PaddleJob", "TrainJob"];

pub(super) const SERVING_KINDS: &[&str] =
    &["InferenceService", "LLMInferenceService", "RayService", "NIMService"];

/// Label keys whose values name a purpose.
pub(super) const PURPOSE_KEYS: &[&str] = &[
    "workload",
    "workload-type",
    "workload-class",
    "role",
    "component",
    "tier",
    "node-type",
    "app.kubernetes.io/component",
];
