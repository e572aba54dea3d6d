//! Infers the class of a workload (training, serving, batch, ...) with a confidence.
//!
//! Evidence is examined in a fixed order and the first match is used. A rule states the confidence that it requires,
//! and its finding shows the evidence.

mod heuristics;
#[cfg(test)]
mod tests;

use crate::facts::image::ImageRef;
use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::steps;
use crate::tree::node::Node;
use crate::workload::command::{base_name, beginning, items};
use crate::workload::diagnostic::{is_test, only_queries, only_sleeps};
use crate::workload::gpu::{has_device, requests_accelerator};
use crate::workload::image::{copied_image, image_text};
use crate::workload::server::server_of_image;
use crate::workload::template::{Template, templates};
use heuristics::{
    BATCH, DIAGNOSTIC_IMAGES, DIAGNOSTIC_WORDS, DIAGNOSTICS, INFERENCE_FRAMEWORKS, INFRA_IMAGES, NOTEBOOK,
    PURPOSE_KEYS, SERVING, SERVING_IMAGES, SERVING_KINDS, TRAINING, TRAINING_KINDS,
};
use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadClass {
    /// Serves requests that clients wait for.
    Realtime,
    /// Serves interactive requests of people: stricter thresholds apply.
    Interactive,
    /// Processes a queue or a list.
    Batch,
    Training,
    /// An interactive session, such as a notebook.
    Notebook,
    /// Node infrastructure such as device plugins and exporters.
    Infra,
    Unknown,
}

impl WorkloadClass {
    /// The name in the `gpulint.dev/workload-class` label and in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkloadClass::Realtime => "realtime-inference",
            WorkloadClass::Interactive => "interactive",
            WorkloadClass::Batch => "batch",
            WorkloadClass::Training => "training",
            WorkloadClass::Notebook => "notebook",
            WorkloadClass::Infra => "infra",
            WorkloadClass::Unknown => "unknown",
        }
    }

    fn parse(text: &str) -> Option<WorkloadClass> {
        Some(match text {
            "realtime-inference" | "realtime" | "inference" | "serving" => WorkloadClass::Realtime,
            "interactive" => WorkloadClass::Interactive,
            "batch" => WorkloadClass::Batch,
            "training" => WorkloadClass::Training,
            "notebook" => WorkloadClass::Notebook,
            "infra" => WorkloadClass::Infra,
            "unknown" => WorkloadClass::Unknown,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// Weak evidence.
    Low,
    /// Enough for a warning.
    Medium,
    /// Declared, or a launcher that has no other use.
    High,
}

/// What a class is inferred from. Its text says why: "its command is `torchrun`".
#[derive(Clone, Debug)]
pub(crate) enum Evidence {
    /// A label or an annotation of the workload or its pods declares the class.
    Declared,
    /// Its Namespace declares the class.
    DeclaredByNamespace(Object),
    /// The name of its namespace, and its own name if that says so as well.
    NamespaceName { namespace: String, workload: Option<String> },
    /// What it is, runs or is labelled with.
    Content(String),
}

impl From<String> for Evidence {
    fn from(text: String) -> Evidence {
        Evidence::Content(text)
    }
}

impl From<&str> for Evidence {
    fn from(text: &str) -> Evidence {
        Evidence::Content(text.to_owned())
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Declared => write!(f, "`{WORKLOAD_CLASS_KEY}` says so"),
            Evidence::DeclaredByNamespace(namespace) => {
                write!(f, "`{WORKLOAD_CLASS_KEY}` of Namespace `{}` says so", namespace.name())
            }
            Evidence::NamespaceName { namespace, workload: None } => {
                write!(f, "its namespace is `{namespace}`")
            }
            Evidence::NamespaceName { namespace, workload: Some(name) } => {
                write!(f, "its namespace is `{namespace}`, its name `{name}`")
            }
            Evidence::Content(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Classified {
    pub(crate) class: WorkloadClass,
    pub(crate) confidence: Confidence,
    pub(crate) evidence: Evidence,
}

impl Classified {
    fn new(class: WorkloadClass, confidence: Confidence, evidence: impl Into<Evidence>) -> Classified {
        Classified { class, confidence, evidence: evidence.into() }
    }

    /// Whether a label or an annotation declares the class.
    pub(crate) fn is_declared(&self) -> bool {
        matches!(self.evidence, Evidence::Declared | Evidence::DeclaredByNamespace(_))
    }

    /// Whether the class is `class`, with at least medium confidence.
    pub(crate) fn is(&self, class: WorkloadClass) -> bool {
        self.class == class && self.confidence >= Confidence::Medium
    }

    /// Whether clients wait for its responses, with at least medium confidence.
    pub(crate) fn serves_requests(&self) -> bool {
        self.is(WorkloadClass::Realtime) || self.is(WorkloadClass::Interactive)
    }
}

/// The label or annotation that declares the class.
pub(crate) const WORKLOAD_CLASS_KEY: &str = "gpulint.dev/workload-class";

/// The class of a workload, as it or its Namespace declares it, otherwise from its content; `Unknown` for other kinds. Rules ask
/// `Context::class_of`. Node infrastructure stays what it is among the workloads of a Namespace, and so does a server, a notebook or
/// a test beside the training runs of one.
pub(crate) fn class_in<'o>(object: &'o Object, namespace: Option<&Object>) -> Cow<'o, Classified> {
    let own = own_class(object);
    if own.is_declared() || own.class == WorkloadClass::Infra {
        return Cow::Borrowed(own);
    }
    // The shape of a batch may be that of a training run.
    let is_other = own.serves_requests() || own.is(WorkloadClass::Notebook);
    let is_beside = |declared: &Classified| {
        let is_content = matches!(own.evidence, Evidence::Content(_));
        declared.class == WorkloadClass::Training
            && (is_other && is_content
                || is_test(object)
                || diagnostics(object, &templates(object)).is_some())
    };
    let declared = namespace.and_then(declared_by_namespace).filter(|declared| !is_beside(declared));
    declared.map_or(Cow::Borrowed(own), Cow::Owned)
}

static CLASSIFIED: Memo<Classified> = Memo::by_namespace();

/// The class of a workload without what its Namespace declares.
pub(in crate::workload) fn own_class(object: &Object) -> &Classified {
    object.memo(&CLASSIFIED, || compute(object))
}

fn compute(object: &Object) -> Classified {
    let templates = templates(object);
    // A name outweighs neither the kind nor the probes.
    let is_server =
        |own: &Classified| own.class == WorkloadClass::Training && answers_probes(object, &templates);
    explicit(object, &templates)
        .or_else(|| infra(object, &templates))
        .or_else(|| diagnostics(object, &templates))
        .or_else(|| by_kind(object, &templates))
        .or_else(|| by_command(object, &templates))
        .or_else(|| by_image(object, &templates))
        .or_else(|| by_batch_shape(object))
        .or_else(|| by_labels(object, &templates).filter(|own| !is_server(own)))
        .or_else(|| {
            by_namespace(object, &templates).filter(|own| own.confidence > Confidence::Low && !is_server(own))
        })
        .or_else(|| fallback(object, &templates))
        .or_else(|| by_namespace(object, &templates))
        .unwrap_or_else(|| Classified::new(WorkloadClass::Unknown, Confidence::Low, "nothing says"))
}

fn explicit(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let metadata = object.get("metadata");
    std::iter::once(&metadata)
        .chain(templates.iter().map(|t| &t.metadata))
        .find_map(declared)
        .map(|class| Classified::new(class, Confidence::High, Evidence::Declared))
}

/// The class that a label or an annotation declares.
fn declared(metadata: &Node<'_>) -> Option<WorkloadClass> {
    let maps = [metadata.get("labels"), metadata.get("annotations")];
    maps.into_iter().find_map(|map| map.get(WORKLOAD_CLASS_KEY).text().and_then(WorkloadClass::parse))
}

/// The class that a Namespace declares for its workloads.
fn declared_by_namespace(namespace: &Object) -> Option<Classified> {
    let class = declared(&namespace.get("metadata"))?;
    Some(Classified::new(class, Confidence::High, Evidence::DeclaredByNamespace(namespace.clone())))
}

fn infra(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    if object.is(Kind::DAEMON_SET) {
        return Some(Classified::new(WorkloadClass::Infra, Confidence::High, "it is a DaemonSet"));
    }
    let namespace = object.namespace().unwrap_or_default();
    if matches!(namespace, "gpu-operator" | "kube-system" | "gpu-monitoring")
        || namespace.starts_with("nvidia-")
    {
        let evidence = Evidence::NamespaceName { namespace: namespace.to_owned(), workload: None };
        return Some(Classified::new(WorkloadClass::Infra, Confidence::High, evidence));
    }
    images(templates)
        .find(|image| {
            let repository = ImageRef::parse(image).repository;
            let intel = repository.starts_with("intel/") && repository.ends_with("-plugin");
            intel || INFRA_IMAGES.iter().any(|sign| repository.contains(sign))
        })
        .map(|image| {
            Classified::new(WorkloadClass::Infra, Confidence::High, format!("its image is `{image}`"))
        })
}

/// Benchmarks are usually run as an MPIJob, so that what it runs is examined before the kind.
fn diagnostics(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let lines = commands(templates);
    let starts = |programs: &[(&str, bool)]| {
        let mut certain = programs.iter().filter(|(_, is_weak)| !is_weak);
        certain.any(|(sign, _)| lines.iter().any(|line| has_word(line, sign)))
    };
    if starts(SERVING) || lines.iter().any(|line| training_script(line).is_some()) {
        return None;
    }
    let batch = |reason: String| Some(Classified::new(WorkloadClass::Batch, Confidence::Medium, reason));
    let mut containers = templates.iter().flat_map(Template::containers).peekable();
    if let Some(query) = containers.peek().and_then(only_queries)
        && containers.all(|container| only_queries(&container).is_some())
    {
        return batch(format!("its command is `{query}`"));
    }
    // A launcher starts the script of a benchmark as it starts that of a training run.
    if let Some(script) = lines.iter().find_map(|line| diagnostic_script(line)) {
        return batch(format!("it runs `{script}`"));
    }
    if let Some(reason) = generating(object, &lines) {
        return batch(reason);
    }
    if starts(TRAINING) {
        return None;
    }
    if let Some(sign) = DIAGNOSTICS.iter().find(|sign| lines.iter().any(|line| has_word(line, sign))) {
        return batch(format!("its command is `{sign}`"));
    }
    let is_sign =
        |image: &&str| DIAGNOSTIC_IMAGES.iter().any(|sign| ImageRef::parse(image).repository.contains(sign));
    if let Some(image) = images(templates).find(is_sign) {
        return batch(format!("its image is `{image}`"));
    }
    let named = by_kind(object, templates).is_some_and(|kind| kind.class == WorkloadClass::Training)
        && words_of(object.name()).any(|word| DIAGNOSTIC_WORDS.contains(&word));
    named.then(|| batch(format!("its name is `{}`", object.name())))?
}

fn by_kind(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let kind = object.kind();
    let group = object.group();
    let reason = || format!("it is a {kind}");
    if TRAINING_KINDS.contains(&kind) && group.ends_with("kubeflow.org") {
        return Some(Classified::new(WorkloadClass::Training, Confidence::High, reason()));
    }
    if SERVING_KINDS.contains(&kind)
        || (object.is(Kind::KNATIVE_SERVICE) && templates.iter().any(requests_accelerator))
    {
        return Some(Classified::new(WorkloadClass::Realtime, Confidence::High, reason()));
    }
    if object.is(Kind::NOTEBOOK) {
        return Some(Classified::new(WorkloadClass::Notebook, Confidence::High, reason()));
    }
    None
}

fn by_command(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let mut lines = commands(templates);
    // The command that a RayJob submits to its cluster.
    if object.is(Kind::RAY_JOB) {
        lines.extend(
            object
                .path(&["spec", "entrypoint"])
                .raw_text()
                .map(|text| without_installs(beginning(text, MAX_COMMANDS_BYTES).to_owned())),
        );
    }
    let has = |sign: &str| lines.iter().any(|l| has_word(l, sign));
    for (sign, weak) in SERVING {
        if has(sign) {
            let confidence = if *weak { Confidence::Medium } else { Confidence::High };
            let reason = format!("its command is `{}`", sign.trim_end_matches('.'));
            return Some(Classified::new(WorkloadClass::Realtime, confidence, reason));
        }
    }
    let device = || templates.iter().any(requests_accelerator);
    let answers = answering(object, templates, &lines);
    for (sign, needs_device) in TRAINING {
        if has(sign) && (!needs_device || device()) {
            if let Some(reason) = answers {
                return Some(Classified::new(WorkloadClass::Realtime, Confidence::Medium, reason));
            }
            let reason = format!("its command is `{sign}`");
            return Some(Classified::new(WorkloadClass::Training, Confidence::High, reason));
        }
    }
    if lines.iter().any(|line| has_word(line, "nemo") && has_word(line, "train")) && device() {
        let reason = "its command is `nemo` with `train`";
        return Some(Classified::new(WorkloadClass::Training, Confidence::High, reason));
    }
    for sign in BATCH {
        // A server may have the same word in its arguments.
        let fits = *sign != "whisper" || object.workload().is_some_and(|row| row.runs_to_completion);
        if fits && has(sign) {
            let reason = format!("its command is `{sign}`");
            return Some(Classified::new(WorkloadClass::Batch, Confidence::Medium, reason));
        }
    }
    let ends = object.workload().is_some_and(|row| row.runs_to_completion);
    for line in &lines {
        let tuning = || script_with(line, TUNING_WORDS).filter(|_| ends && device());
        let shell = || training_shell_script(line).filter(|_| device());
        if let Some(script) = training_script(line).or_else(tuning).or_else(shell) {
            let reason = format!("it runs `{script}`");
            return Some(Classified::new(WorkloadClass::Training, Confidence::Medium, reason));
        }
    }
    for sign in NOTEBOOK {
        if has(sign) {
            let reason = format!("its command is `{sign}`");
            return Some(Classified::new(WorkloadClass::Notebook, Confidence::Medium, reason));
        }
    }
    // A sidecar may wait while the container with the device works.
    let waits = |line: String| line.contains("sleep infinity") || line.contains("tail -f /dev/null");
    let mut containers = templates.iter().flat_map(|t| t.containers()).filter(has_device);
    (!object.is(Kind::JOB) && containers.any(|container| waits(command_line(&container))))
        .then(|| Classified::new(WorkloadClass::Notebook, Confidence::Medium, "its command only waits"))
}

/// Why a launcher of training in a workload that does not end starts a server: its script is called one, or the kubelet asks it over
/// HTTP whether it is well. A model that is distributed over GPUs is often served so.
fn answering(object: &Object, templates: &[Template<'_>], lines: &[String]) -> Option<String> {
    const WORDS: &[&str] =
        &["api", "chat", "completion", "infer", "inference", "serve", "server", "serving", "web"];
    let ends = object.workload().is_none_or(|row| row.runs_to_completion);
    if ends || object.is(Kind::POD) || lines.iter().any(|line| training_script(line).is_some()) {
        return None;
    }
    if let Some(script) = lines.iter().find_map(|line| script_with(line, WORDS)) {
        return Some(format!("it runs `{script}`"));
    }
    let is_asked = |container: Node<'_>| container.path(&["readinessProbe", "httpGet"]).is_set();
    let is_server = templates.iter().flat_map(Template::containers).any(is_asked);
    is_server.then(|| "it has a readiness probe over HTTP".to_owned())
}

/// Whether the pods of a workload are started again when they end, and more than one at a time may run.
fn runs_on(object: &Object) -> bool {
    [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::ROLLOUT].iter().any(|kind| object.is(*kind))
}

/// Whether the pods of a workload are those of a server: a container lists ports, and gets no requests before it is ready.
fn answers_probes(object: &Object, templates: &[Template<'_>]) -> bool {
    let answers = |container: Node<'_>| {
        let probe = container.get("readinessProbe");
        let is_asked = ["httpGet", "grpc", "tcpSocket"].iter().any(|field| probe.get(field).is_set());
        is_asked && container.get("ports").items().next().is_some()
    };
    runs_on(object) && templates.iter().flat_map(Template::containers).any(answers)
}

/// Why a run that ends uses a model that is there instead of training one: its scripts are called after that, as `generate.py`, or a
/// launcher gives a script a prompt. Whatever launches them, and of whatever kind the run is, such a run writes no checkpoints: `--ckpt_dir`
/// of Wan, HunyuanVideo and Llama is what they read. A script of another name beside them may train.
fn generating(object: &Object, lines: &[String]) -> Option<String> {
    const PROMPTS: [&str; 4] = ["--prompt", "--prompt_file", "--prompt-file", "--prompts"];
    let launches = |line: &&String| TRAINING.iter().any(|(sign, _)| has_word(line, sign));
    // A Pod may be a server as well.
    let ends = match object.is(Kind::POD) {
        true => lines.iter().any(|line| launches(&line)),
        false => object.workload().is_some_and(|row| row.runs_to_completion),
    };
    if !ends {
        return None;
    }
    let scripts: Vec<&str> = lines.iter().flat_map(|line| scripts_in(line, ".py")).collect();
    let words = |script: &str| base_name(script).trim_end_matches(".py").to_ascii_lowercase();
    let has = |script: &str, known: &[&str]| words_of(&words(script)).any(|word| known.contains(&word));
    let generates = |script: &&str| {
        let name = words(script);
        // `test.py` of OpenMMLab evaluates; a script with more in its name may be a test of training.
        has(script, GENERATING_WORDS) && !has(script, DATA_WORDS)
            || name == "test"
            || name.starts_with("sample")
    };
    // OpenMMLab's programs get their settings as a script.
    let is_beside = |script: &str| has(script, BESIDE_TRAINING) || script.contains("config");
    let is_other = |script: &&str| !generates(script) && !is_beside(script);
    if scripts.iter().any(is_other) {
        let prompt =
            lines.iter().filter(launches).find_map(|line| PROMPTS.iter().find(|one| has_word(line, one)));
        return prompt.map(|prompt| format!("its command has `{prompt}`"));
    }
    scripts.iter().find(|script| generates(script)).map(|script| format!("it runs `{script}`"))
}

/// Maximum number of bytes of the command lines that the class follows from. Each is searched for some hundred words.
const MAX_COMMANDS_BYTES: usize = 128 * 1024;

fn commands(templates: &[Template<'_>]) -> Vec<String> {
    let mut left = MAX_COMMANDS_BYTES;
    let containers = templates.iter().flat_map(|t| t.containers()).map_while(|container| {
        let line = command_line(&container);
        left = left.checked_sub(line.len())?;
        Some(without_installs(line))
    });
    containers.collect()
}

/// Removes commands that install packages from a script: `pip install deepspeed` does not train anything.
fn without_installs(line: String) -> String {
    if !line.contains("install") {
        return line;
    }
    let installs = |command: &&str| {
        let mut words = command.split_whitespace();
        words.any(|word| {
            ["pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "yum", "dnf"].contains(&word)
        }) && words.any(|word| word == "install")
    };
    line.split(['\n', ';', '&', '|']).filter(|command| !installs(command)).collect::<Vec<_>>().join("\n")
}

/// Command and arguments of a container on one line; the beginning of a long one.
pub(crate) fn command_line(container: &Node<'_>) -> String {
    let mut line = String::new();
    for (text, _) in items(container).0 {
        // In a shell script `$(hostname)` is command substitution, not a placeholder.
        line.push_str(text);
        line.push(' ');
    }
    steps::take(line.len() / 64);
    line
}

/// Whether a text has a token as whole words: `api_server` in `vllm.entrypoints.openai.api_server`, but not in
/// `myapi_server2`.
pub(crate) fn has_word(line: &str, sign: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let Some(first) = sign.bytes().next() else { return false };
    steps::take(1 + line.len() / 64);
    // Most lines are short: preparing a search would take longer than the search.
    let is_short = line.len() < 1024;
    let find = |rest: &[u8]| {
        if is_short { memchr::memchr(first, rest) } else { memchr::memmem::find(rest, sign.as_bytes()) }
    };
    let mut from = 0;
    while let Some(found) = find(&line.as_bytes()[from..]) {
        let at = from + found;
        from = at + 1;
        if line.as_bytes()[at..].starts_with(sign.as_bytes()) {
            from = at + sign.len();
            let before = line[..at].chars().next_back().is_none_or(|c| !word(c));
            if before && (sign.ends_with('.') || line[from..].chars().next().is_none_or(|c| !word(c))) {
                return true;
            }
        }
    }
    false
}

/// Words in the names of scripts that mean training: `train_llm.py`, `finetune.py`, `pretrain.py`, `sft.py`.
const TRAINING_WORDS: &[&str] =
    &["train", "training", "trainer", "finetune", "finetuning", "pretrain", "pretraining", "sft"];

/// Whether a script is named after training.
fn training_script(line: &str) -> Option<&str> {
    script_with(line, TRAINING_WORDS)
}

/// Words in the names of shell scripts that do something else for training, or with what was trained.
const BESIDE_TRAINING: &[&str] = &[
    "agent",
    "api",
    "app",
    "build",
    "check",
    "clean",
    "cleanup",
    "convert",
    "copy",
    "data",
    "dataset",
    "datasets",
    "deploy",
    "download",
    "eval",
    "evaluate",
    "export",
    "fetch",
    "generate",
    "gui",
    "infer",
    "inference",
    "init",
    "install",
    "monitor",
    "notify",
    "operator",
    "post",
    "prep",
    "prepare",
    "preprocess",
    "push",
    "queue",
    "serve",
    "server",
    "service",
    "setup",
    "stop",
    "submit",
    "sync",
    "tensorboard",
    "test",
    "ui",
    "upload",
    "wait",
    "watch",
    "webui",
    "worker",
];

/// A shell script that is named after training, and after nothing else: `train.sh`, `run_training_eks.sh`.
fn training_shell_script(line: &str) -> Option<&str> {
    script_of(line, ".sh", |name| {
        words_of(name).any(|word| TRAINING_WORDS.contains(&word))
            && !words_of(name).any(|word| BESIDE_TRAINING.contains(&word))
    })
}

/// Whether one command of a script starts training, by the name of its script or its launcher.
pub(crate) fn is_training_command(line: &str) -> bool {
    let mut launchers = TRAINING.iter().filter(|(_, is_weak)| !is_weak);
    launchers.any(|(sign, _)| has_word(line, sign))
        || training_script(line).or_else(|| training_shell_script(line)).is_some()
}

/// Words in the names of scripts that mean training in a run on accelerators that ends, and may mean anything elsewhere:
/// `fine_tune.py`, `ft.py`, `dpo_llama.py`.
const TUNING_WORDS: &[&str] = &["tune", "tuning", "ft", "lora", "qlora", "dpo", "grpo", "ppo", "rlhf"];

/// Words in the names of scripts that use a model: `generate.py`, `run_inference.py`, `example_chat_completion.py`, `eval_ddp.py`.
const GENERATING_WORDS: &[&str] = &[
    "chat",
    "completion",
    "eval",
    "evaluate",
    "evaluation",
    "generate",
    "generation",
    "infer",
    "inference",
    "predict",
    "prediction",
    "serve",
    "server",
    "txt2img",
];

/// Words in the names of scripts that make what a run trains with: `generate_data.py`.
const DATA_WORDS: &[&str] = &["config", "configs", "data", "dataset", "datasets", "tokens", "trajectories"];

/// A script that is named after a test of the hardware: `all_reduce_bench.py`, `nccl_preflight.py`.
fn diagnostic_script(line: &str) -> Option<&str> {
    script_with(line, DIAGNOSTIC_WORDS)
}

/// The first Python script in a command line whose name has one of the words.
fn script_with<'l>(line: &'l str, words: &[&str]) -> Option<&'l str> {
    script_of(line, ".py", |name| words_of(name).any(|word| words.contains(&word)))
}

/// The first file in a command line with such an ending, whose name meets a condition.
fn script_of<'l>(line: &'l str, ending: &str, is: impl Fn(&str) -> bool) -> Option<&'l str> {
    scripts_in(line, ending).find(|script| {
        let stem = script.strip_suffix(ending).unwrap_or(script);
        is(&base_name(stem).to_ascii_lowercase())
    })
}

/// The files in a command line with such an ending.
fn scripts_in<'l>(line: &'l str, ending: &str) -> impl Iterator<Item = &'l str> {
    let tokens = line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&' | '|' | '='));
    tokens.filter(move |token| token.ends_with(ending))
}

fn words_of(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', '-', '.'])
}

fn images<'a>(templates: &'a [Template<'a>]) -> impl Iterator<Item = &'a str> {
    templates.iter().flat_map(Template::containers).filter_map(|container| image_text(&container))
}

fn by_image(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    // An image is often started without its server, as a shell for clients.
    let containers = templates.iter().flat_map(Template::containers).filter(|one| !only_sleeps(one));
    for container in containers {
        let Some(image) = image_text(&container) else {
            // A placeholder hides the image.
            let Some(server) = server_of_image(&container) else { continue };
            let reason = format!("it runs {}", server.name);
            return Some(Classified::new(WorkloadClass::Realtime, Confidence::Medium, reason));
        };
        if let Some(written) = copied_image(&container).filter(|_| server_of_image(&container).is_some()) {
            let reason = format!("its image is a copy of `{}`", written.name);
            return Some(Classified::new(WorkloadClass::Realtime, Confidence::Medium, reason));
        }
        let repository = ImageRef::parse(image).repository.to_ascii_lowercase();
        let reason = || format!("its image is `{image}`");
        let matches = |sign: &&str| repository.contains(*sign);
        if SERVING_IMAGES.iter().any(&matches)
            || repository.starts_with("nim/")
            || server_of_image(&container).is_some()
        {
            return Some(Classified::new(WorkloadClass::Realtime, Confidence::Medium, reason()));
        }
        if repository.contains("jupyter") {
            return Some(Classified::new(WorkloadClass::Notebook, Confidence::Medium, reason()));
        }
        let hint = ["nvidia/pytorch", "pytorch/pytorch", "pytorch-training", "mosaicml", "nvidia/nemo"];
        if hint.iter().any(matches) {
            if is_job(object) && !templates.iter().flat_map(Template::containers).any(|one| evaluates(&one)) {
                return Some(Classified::new(WorkloadClass::Training, Confidence::Medium, reason()));
            }
            continue;
        }
        let last = repository.rsplit('/').next().unwrap_or(&repository);
        let words: Vec<&str> = last.split(['-', '_', '.']).collect();
        let trains = words.iter().any(|w| matches!(*w, "train" | "trainer" | "training"));
        let is_named_otherwise = runs_on(object) && words.iter().any(|word| BESIDE_TRAINING.contains(word));
        if trains
            && !is_controller(last)
            && !is_named_otherwise
            && !answers_probes(object, templates)
            && !templates.iter().any(elects_leader)
        {
            return Some(Classified::new(WorkloadClass::Training, Confidence::Medium, reason()));
        }
        let framework = |name: &&str| last.contains(*name);
        if last.ends_with("-inference") && INFERENCE_FRAMEWORKS.iter().any(framework) {
            return Some(Classified::new(WorkloadClass::Realtime, Confidence::Medium, reason()));
        }
    }
    None
}

/// Whether a container evaluates models, by its program or the name of its script.
fn evaluates(container: &Node<'_>) -> bool {
    const PROGRAMS: [&str; 7] =
        ["lm_eval", "lm-eval", "lighteval", "opencompass", "evalplus", "inspect", "evaluate"];
    let line = command_line(container);
    PROGRAMS.iter().any(|program| has_word(&line, program))
        || script_with(&line, &["eval", "evaluate", "evaluation"]).is_some()
}

/// Whether the last word of a name is that of a program that manages objects, as in `training-operator`.
pub(crate) fn is_controller(name: &str) -> bool {
    matches!(words_of(name).last(), Some("operator" | "controller" | "manager"))
}

/// Whether a container takes part in the election of a leader, as a program that manages objects does.
fn elects_leader(template: &Template<'_>) -> bool {
    let has_flag = |container: Node<'_>| {
        let args = ["command", "args"]
            .into_iter()
            .flat_map(|field| container.get(field).items().collect::<Vec<_>>());
        args.filter_map(|arg| arg.text()).any(|arg| {
            let flag = arg.trim_start_matches('-');
            flag.starts_with("leader-elect") || flag.starts_with("enable-leader-election")
        })
    };
    template.containers().any(has_flag)
}

fn is_job(object: &Object) -> bool {
    object.is(Kind::JOB) || object.is(Kind::JOB_SET) || object.is(Kind::RAY_JOB)
}

fn by_batch_shape(object: &Object) -> Option<Classified> {
    let kind = object.kind();
    if object.is(Kind::SCALED_JOB) || object.is(Kind::CRON_JOB) {
        let reason = format!("it is a {kind}");
        return Some(Classified::new(WorkloadClass::Batch, Confidence::Medium, reason));
    }
    let many = |field: &str| object.path(&["spec", field]).int().is_some_and(|n| n > 1);
    (object.is(Kind::JOB) && (many("parallelism") || many("completions")))
        .then(|| Classified::new(WorkloadClass::Batch, Confidence::Medium, "it is a Job of several pods"))
}

/// The class that a label value, a namespace or a name denotes.
pub fn purpose(text: &str) -> Option<WorkloadClass> {
    let lower = text.to_ascii_lowercase();
    if is_controller(&lower) {
        return None;
    }
    let mut found = None;
    let mut may_be_tuned = false;
    for word in lower.split(|c: char| !c.is_ascii_alphanumeric()) {
        may_be_tuned |= word.ends_with("fine");
        let class = match word {
            "inference" | "infer" | "serving" | "serve" | "predict" | "predictor" => WorkloadClass::Realtime,
            "training" | "train" | "trainer" | "finetune" | "finetuning" | "pretrain" | "pretraining" => {
                WorkloadClass::Training
            }
            "batch" => WorkloadClass::Batch,
            "chat" | "assistant" | "copilot" | "interactive" => WorkloadClass::Interactive,
            _ => continue,
        };
        match found {
            None => found = Some(class),
            // A name with two purposes is not evidence.
            Some(other) if other != class => return None,
            Some(_) => {}
        }
    }
    if found.is_none() && may_be_tuned && (lower.contains("fine-tune") || lower.contains("fine-tuning")) {
        return Some(WorkloadClass::Training);
    }
    found
}

pub(crate) fn purpose_of_name(object: &Object) -> Option<WorkloadClass> {
    purpose(object.name())
}

fn by_labels(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let mut signs: Vec<(String, String)> = Vec::new();
    let metadata = object.get("metadata");
    let maps = std::iter::once(metadata.get("labels"))
        .chain(templates.iter().map(|t| t.metadata.get("labels")))
        .chain(templates.iter().map(|t| t.spec.get("nodeSelector")));
    for map in maps {
        for (key, value) in map.entries() {
            let short = key.rsplit('/').next().unwrap_or(key);
            if (PURPOSE_KEYS.contains(&key) || PURPOSE_KEYS.contains(&short))
                && let Some(text) = value.text()
            {
                signs.push((text.to_owned(), format!("`{key}` is `{text}`")));
            }
        }
    }
    for (text, reason) in signs {
        if let Some(class) = purpose(&text) {
            let confidence =
                if class == WorkloadClass::Interactive { Confidence::Low } else { Confidence::Medium };
            return Some(Classified::new(class, confidence, reason));
        }
    }
    None
}

/// The purpose of a namespace. Other work runs there as well, so that it is weak evidence without the name of the workload.
fn by_namespace(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let namespace = object.namespace()?;
    let class = purpose(namespace)?;
    let named = purpose_of_name(object) == Some(class) && templates.iter().any(requests_accelerator);
    let (confidence, workload) = match named {
        true if class != WorkloadClass::Interactive => (Confidence::Medium, Some(object.name().to_owned())),
        _ => (Confidence::Low, None),
    };
    let evidence = Evidence::NamespaceName { namespace: namespace.to_owned(), workload };
    Some(Classified::new(class, confidence, evidence))
}

fn fallback(object: &Object, templates: &[Template<'_>]) -> Option<Classified> {
    let gpu = templates.iter().any(requests_accelerator);
    if !gpu {
        return None;
    }
    let kind = object.kind();
    let port =
        templates.iter().flat_map(Template::containers).any(|c| c.get("ports").items().next().is_some());
    if matches!(kind, "Deployment" | "StatefulSet" | "LeaderWorkerSet" | "Rollout") && port {
        let reason = format!("it is a {kind} with a GPU and a port");
        return Some(Classified::new(WorkloadClass::Realtime, Confidence::Low, reason));
    }
    if object.is(Kind::POD) && purpose_of_name(object) == Some(WorkloadClass::Training) {
        let reason = format!("its name is `{}`", object.name());
        return Some(Classified::new(WorkloadClass::Training, Confidence::Medium, reason));
    }
    object
        .is(Kind::JOB)
        .then(|| Classified::new(WorkloadClass::Batch, Confidence::Low, "it is a Job with a GPU"))
}
