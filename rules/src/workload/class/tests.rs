use super::*;
use serde_json::{Value, json};

fn class(value: serde_json::Value) -> (WorkloadClass, Confidence) {
    let object = Object::from_json(&value).unwrap();
    let classified = own_class(&object);
    (classified.class, classified.confidence)
}

fn deployment(container: serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
           "spec": {"template": {"spec": {"containers": [container]}}}})
}

#[test]
fn commands_decide_before_images() {
    assert_eq!(
        class(deployment(json!({"image": "repo/train:1", "command": ["vllm", "serve", "m"]}))),
        (WorkloadClass::Realtime, Confidence::High)
    );
    assert_eq!(
        class(deployment(json!({"args": ["torchrun --nproc_per_node 8 x.py"]}))),
        (WorkloadClass::Training, Confidence::High)
    );
    assert_eq!(
        class(deployment(json!({"command": ["python", "/app/train_llm.py"]}))),
        (WorkloadClass::Training, Confidence::Medium)
    );
    assert_eq!(class(deployment(json!({"command": ["python", "constrain.py"]}))).0, WorkloadClass::Unknown);
}

#[test]
fn runs_that_use_a_model_do_not_train() {
    let job = |script: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec":
               {"containers": [{"command": ["bash", "-c", script], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}})
    };
    for script in [
        "torchrun --nproc_per_node 8 generate.py --ckpt_dir /models",
        "accelerate launch run_inference.py",
        "torchrun tools/test.py config.py x.pth",
        "torchrun sample_video.py",
        "python download.py && torchrun eval_ddp.py",
        "torchrun main.py --prompt 'a cat'",
        "torchrun serve.py",
    ] {
        assert_eq!(class(job(script)).0, WorkloadClass::Batch, "{script}");
    }
    for script in [
        "torchrun main.py",
        "python generate_data.py && torchrun main.py",
        "torchrun train.py && python eval.py",
        "torchrun main.py && python generate.py",
        "torchrun main.py --prompt_column text",
        "torchrun generate_dataset.py",
    ] {
        assert_eq!(class(job(script)).0, WorkloadClass::Training, "{script}");
    }
}

#[test]
fn the_shells_own_syntax_hides_no_command() {
    let script = "for h in $(cat /etc/hosts); do ping $h; done\ntorchrun --node-rank ${RANK} x.py";
    assert_eq!(
        class(deployment(json!({"command": ["sh", "-c"], "args": [script]}))),
        (WorkloadClass::Training, Confidence::High)
    );
}

#[test]
fn images_are_read_without_host_and_tag() {
    assert_eq!(
        class(deployment(json!({"image": "mirror.example.com/vllm/vllm-openai:v1"}))).0,
        WorkloadClass::Realtime
    );
    assert_eq!(class(deployment(json!({"image": "training.example.com/web:1"}))).0, WorkloadClass::Unknown);
    for (image, args, found) in [
        ("example.com/kubeflow/trainer:2.1", json!(["--epochs=3"]), WorkloadClass::Training),
        ("example.com/kubeflow/training-operator:1.9", json!([]), WorkloadClass::Unknown),
        ("example.com/kubeflow/trainer:2.1", json!(["--leader-elect=true"]), WorkloadClass::Unknown),
    ] {
        assert_eq!(class(deployment(json!({"image": image, "args": args}))).0, found, "{image} {args}");
    }
}

#[test]
fn people_have_the_last_word() {
    let mut value = deployment(json!({"command": ["torchrun"]}));
    value["metadata"]["labels"] = json!({WORKLOAD_CLASS_KEY: "batch"});
    assert_eq!(class(value), (WorkloadClass::Batch, Confidence::High));
}

#[test]
fn two_purposes_in_one_name_say_nothing() {
    assert_eq!(purpose("train-and-serve"), None);
    assert_eq!(purpose("gpu-training"), Some(WorkloadClass::Training));
    assert_eq!(purpose("constraint"), None);
    assert_eq!(purpose("llm-fine-tune"), Some(WorkloadClass::Training));
}

/// A container, the kind of its workload, and the class with its confidence.
#[test]
fn every_row_of_the_table() {
    use Confidence::{High, Low, Medium};
    use WorkloadClass::{Batch, Infra, Interactive, Notebook, Realtime, Training, Unknown};
    let gpu = |mut container: Value| {
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
        container
    };
    let args = |line: &str| json!({"args": line.split(' ').collect::<Vec<_>>()});
    let shell = |script: &str| json!({"command": ["sh", "-c", script]});
    let image = |image: &str| json!({"image": image});
    let cases: &[(&str, Value, WorkloadClass, Confidence)] = &[
        ("Deployment", image("nvcr.io/nvidia/k8s/dcgm-exporter:4"), Infra, High),
        ("Deployment", image("mirror.example.com/intel/intel-gpu-plugin:0.30"), Infra, High),
        ("Deployment", image("docker.io/rocm/k8s-device-plugin:1"), Infra, High),
        ("DaemonSet", image("example.com/agent:1"), Infra, High),
        ("Deployment", args("vllm serve m"), Realtime, High),
        ("Deployment", args("python3 -m vllm.entrypoints.openai.api_server"), Realtime, High),
        ("Deployment", args("tritonserver --model-repository=/m"), Realtime, High),
        ("Deployment", args("text-generation-launcher"), Realtime, High),
        ("Deployment", args("python -m sglang.launch_server"), Realtime, High),
        ("Deployment", args("trtllm-serve m"), Realtime, High),
        ("Deployment", args("lmdeploy serve api_server m"), Realtime, High),
        ("Deployment", args("mlserver start ."), Realtime, High),
        ("Deployment", args("torchserve --start"), Realtime, High),
        ("Deployment", args("tensorflow_model_server --port=9000"), Realtime, High),
        ("Deployment", args("ollama serve"), Realtime, High),
        ("Deployment", args("llama-server -m x.gguf"), Realtime, High),
        ("Deployment", args("infinity_emb v2"), Realtime, High),
        ("Deployment", args("text-embeddings-router"), Realtime, High),
        ("Deployment", args("uvicorn app:app"), Realtime, Medium),
        ("Deployment", args("gunicorn app:app"), Realtime, Medium),
        ("Job", args("torchrun train.py"), Training, High),
        ("Job", args("python -m torch.distributed.run x.py"), Training, High),
        ("Job", args("python -m torch.distributed.launch x.py"), Training, High),
        ("Job", args("deepspeed x.py"), Training, High),
        ("Job", shell("pip install deepspeed && python report.py"), Unknown, Low),
        ("Job", shell("pip install deepspeed && deepspeed x.py"), Training, High),
        ("Job", args("python x.py --deepspeed ds.json"), Unknown, Low),
        ("Job", args("accelerate launch x.py"), Training, High),
        ("Job", args("horovodrun -np 4 x"), Training, High),
        ("Job", args("mpirun -np 4 solver"), Unknown, Low),
        ("Job", gpu(args("mpirun -np 4 solver")), Training, High),
        ("Job", args("colossalai run x.py"), Training, High),
        ("Deployment", args("composer install"), Unknown, Low),
        ("Job", gpu(args("composer x.py")), Training, High),
        ("Job", args("axolotl train c.yml"), Training, High),
        ("Job", args("llamafactory-cli train c.yml"), Training, High),
        ("Job", gpu(args("nemo llm train c.yml")), Training, High),
        ("Job", args("nemo llm export c.yml"), Unknown, Low),
        ("Job", args("python train_llm.py"), Training, Medium),
        ("Job", args("python finetune.py"), Training, Medium),
        ("Job", args("python pretrain.py"), Training, Medium),
        ("Job", args("python sft.py"), Training, Medium),
        ("Job", gpu(args("python fine_tune.py")), Training, Medium),
        ("Job", gpu(args("python ft.py")), Training, Medium),
        ("Job", gpu(args("python /app/dpo_llama.py")), Training, Medium),
        ("Job", args("python tune.py"), Unknown, Low),
        ("Deployment", gpu(args("python tune.py")), Unknown, Low),
        ("Job", gpu(args("python draft.py")), Batch, Low),
        ("Job", args("python constraint.py"), Unknown, Low),
        ("Job", args("vllm run-batch -i in"), Batch, Medium),
        ("Job", args("python -m batch_inference"), Batch, Medium),
        ("Job", args("whisper audio.mp3"), Batch, Medium),
        ("Deployment", args("serve --model whisper"), Unknown, Low),
        ("Deployment", args("jupyter lab"), Notebook, Medium),
        ("Deployment", args("code-server"), Notebook, Medium),
        ("Deployment", args("start-notebook.sh"), Notebook, Medium),
        ("Pod", gpu(shell("sleep infinity")), Notebook, Medium),
        ("Pod", shell("sleep infinity"), Unknown, Low),
        ("Job", gpu(args("all_reduce_perf -b 8")), Batch, Medium),
        ("Deployment", image("vllm/vllm-openai:v1"), Realtime, Medium),
        ("Deployment", image("nvcr.io/nvidia/tritonserver:24.01-py3"), Realtime, Medium),
        ("Deployment", image("ghcr.io/huggingface/text-generation-inference:3"), Realtime, Medium),
        ("Deployment", image("lmsysorg/sglang:v0.4"), Realtime, Medium),
        ("Deployment", image("nvcr.io/nim/meta/llama3-8b-instruct:1.0"), Realtime, Medium),
        ("Deployment", image("ollama/ollama:0.5"), Realtime, Medium),
        ("Deployment", image("quay.io/jupyter/scipy-notebook:1"), Notebook, Medium),
        ("Job", image("nvcr.io/nvidia/pytorch:24.01-py3"), Training, Medium),
        ("Deployment", image("nvcr.io/nvidia/pytorch:24.01-py3"), Unknown, Low),
        (
            "Deployment",
            image("763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:1"),
            Realtime,
            Medium,
        ),
        ("Deployment", image("example.com/team/type-inference:1"), Unknown, Low),
        ("Deployment", image("example.com/my-training-image:1"), Training, Medium),
        ("Deployment", image("training.example.com/web:1"), Unknown, Low),
        ("CronJob", args("report"), Batch, Medium),
        ("Deployment", gpu(json!({"ports": [{"containerPort": 80}]})), Realtime, Low),
        ("Deployment", gpu(json!({})), Unknown, Low),
        ("Job", gpu(json!({})), Batch, Low),
        ("Pod", gpu(json!({})), Unknown, Low),
    ];
    for (kind, container, class, confidence) in cases {
        let spec = json!({"containers": [container]});
        let spec = match *kind {
            "Pod" => spec,
            "CronJob" => json!({"jobTemplate": {"spec": {"template": {"spec": spec}}}}),
            _ => json!({"template": {"spec": spec}}),
        };
        let api_version = match *kind {
            "Pod" => "v1",
            "Job" | "CronJob" => "batch/v1",
            _ => "apps/v1",
        };
        let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let object = Object::from_json(&value).unwrap();
        let found = own_class(&object);
        assert_eq!(
            (found.class, found.confidence),
            (*class, *confidence),
            "{kind} {container}: {}",
            found.evidence
        );
    }
    let labelled = |key: &str, value: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "labels": {key: value}},
            "spec": {"template": {"spec": {"containers": [{}]}}}})
    };
    for (value, class, confidence) in [
        (labelled("app.kubernetes.io/component", "llm-serving"), Realtime, Medium),
        (labelled("workload-type", "batch"), Batch, Medium),
        (labelled("role", "predictor"), Realtime, Medium),
        (labelled("tier", "chat"), Interactive, Low),
        (labelled("tier", "backend"), Unknown, Low),
        (labelled("team", "training"), Unknown, Low),
        (labelled(WORKLOAD_CLASS_KEY, "interactive"), Interactive, High),
        (labelled(WORKLOAD_CLASS_KEY, "serving"), Realtime, High),
        (labelled(WORKLOAD_CLASS_KEY, "sings"), Unknown, Low),
    ] {
        let object = Object::from_json(&value).unwrap();
        let found = own_class(&object);
        assert_eq!((found.class, found.confidence), (class, confidence), "{value}: {}", found.evidence);
    }
}

#[test]
fn of_long_command_lines_the_beginning_counts() {
    let class_of = |args: &[String]| {
        let containers: Vec<Value> =
            args.iter().map(|text| json!({"image": "repo/x:1", "args": [text]})).collect();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}});
        own_class(&Object::from_json(&pod).unwrap()).class
    };
    let (server, long) = ("vllm serve m".to_owned(), "{\"v\": \"v\"},".repeat(20_000));
    assert_eq!(class_of(&[format!("{server} {long}")]), WorkloadClass::Realtime);
    assert_eq!(class_of(&[long.clone(), server.clone()]), WorkloadClass::Realtime);
    assert_ne!(class_of(&[format!("{long} {server}")]), WorkloadClass::Realtime);
    assert_ne!(class_of(&[vec![long; 8], vec![server]].concat()), WorkloadClass::Realtime);
}

#[test]
fn words_are_whole_and_do_not_overlap() {
    for (line, sign, is_there) in [
        ("", "train", false),
        ("train", "train", true),
        ("torch train.py", "train", true),
        ("pretrain trainer", "train", false),
        ("pretrain train", "train", true),
        ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.", true),
        ("é train é", "train", true),
        ("xa b a b a", "a b a", false),
        ("mlflow server-side", "mlflow server", false),
    ] {
        assert_eq!(has_word(line, sign), is_there, "{line}: {sign}");
        // Long lines are searched in another way.
        let long = format!("{} {line}", "x ".repeat(1000));
        assert_eq!(has_word(&long, sign), is_there, "{line}: {sign}");
    }
}
