//! Workloads as their controller completes them: with the runtime that they name, where it is in the cluster.
//!
//! A TrainJob becomes the Jobs of its TrainingRuntime, the model of an InferenceService the container of its
//! ServingRuntime, and a NIMService the Deployment of its operator. The completed object has the kind and the name of
//! the written one; what is found in it is reported at the field from which it comes.
//!
//! Sources: kubeflow/trainer `pkg/runtime/framework/plugins` (2.1) and `MergeResourceRequirements` (2.3), kserve
//! `MergeRuntimeContainers` (0.15: fields of the InferenceService before those of the runtime, its arguments after
//! them; `config/runtimes` has the runtime that a release brings for models of Hugging Face), NVIDIA/k8s-nim-operator
//! `internal/controller/platform` (2.0); read in November 2026.

use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::cluster::values::{VERSIONED_CHARTS, chart_installers, chart_version};
use crate::cluster::versions::minor_of;
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::image::image_of;
use crate::workload::template::{Template, templates};

/// What a rule reads that is run on completed workloads.
pub(crate) const RUNTIMES: [Kind; 4] = [
    Kind::SERVING_RUNTIME,
    Kind::CLUSTER_SERVING_RUNTIME,
    Kind::TRAINING_RUNTIME,
    Kind::CLUSTER_TRAINING_RUNTIME,
];

/// A workload as its controller completes it.
pub(crate) struct Completed {
    pub(crate) object: Object,
    source: Object,
    /// The runtime, and the field of the source that names it.
    runtime: Option<(Object, Pointer)>,
    /// Beginnings of pointers of the completed object, each with its place in the source or in the runtime. Others are
    /// at the same place in the source.
    places: Vec<(Pointer, Place)>,
}

#[derive(Clone)]
enum Place {
    Source(Pointer),
    Runtime(Pointer),
}

impl Completed {
    /// The runtime that completes the object.
    pub(crate) fn runtime(&self) -> Option<&Object> {
        self.runtime.as_ref().map(|(runtime, _)| runtime)
    }

    /// The written object and the field from which a field of the completed one comes, and the field of the runtime if
    /// it comes from there.
    pub(crate) fn origin_of(&self, pointer: &Pointer) -> (Pointer, Option<(Object, Pointer)>) {
        let steps = pointer.steps();
        let covers = |prefix: &Pointer| steps.starts_with(prefix.steps());
        let found =
            self.places.iter().filter(|(prefix, _)| covers(prefix)).max_by_key(|(p, _)| p.steps().len());
        let Some((prefix, place)) = found else {
            return (pointer.clone(), None);
        };
        let rest = &steps[prefix.steps().len()..];
        let below = |base: &Pointer| Pointer::from_steps(base.steps().iter().chain(rest).cloned());
        match (place, &self.runtime) {
            (Place::Source(base), _) => (below(base), None),
            (Place::Runtime(base), Some((runtime, reference))) => {
                (reference.clone(), Some((runtime.clone(), below(base))))
            }
            (Place::Runtime(_), None) => (pointer.clone(), None),
        }
    }

    pub(crate) fn source(&self) -> &Object {
        &self.source
    }
}

/// A workload as its controller completes it. `None` for other objects, and where the runtime is not in the cluster.
pub(crate) fn completed(object: &Object, cluster: &Cluster) -> Option<Completed> {
    if object.is_partial() {
        return None;
    }
    match (object.group(), object.kind()) {
        ("trainer.kubeflow.org", "TrainJob") => train_job(object, cluster),
        ("serving.kserve.io", "InferenceService") => inference_service(object, cluster),
        ("apps.nvidia.com", "NIMService") => nim_service(object),
        _ => None,
    }
}

impl Cluster {
    /// Replaces the workloads that a controller completes by what it makes of them, as far as their runtimes are in the cluster.
    pub fn complete_workloads(&mut self) {
        let made: Vec<Completed> =
            self.objects().iter().filter_map(|object| completed(object, self)).collect();
        made.into_iter().for_each(|one| self.apply(one.object));
    }
}

fn pointer(path: &str) -> Pointer {
    Pointer::from_steps(path.split('/').filter(|step| !step.is_empty()))
}

/// The only runtime of a name that may be in one cluster with an object.
fn runtime(object: &Object, cluster: &Cluster, kind: Kind, namespace: &str, name: &str) -> Option<Object> {
    let all = cluster.all(kind.group, kind.kind, namespace, name);
    let mut near = all.iter().filter(|other| cluster.pairs(object, other));
    near.next().filter(|_| near.next().is_none()).cloned()
}

fn finish(
    source: &Object,
    mut value: Value,
    runtime: Option<(Object, Pointer)>,
    places: Vec<(Pointer, Place)>,
) -> Option<Completed> {
    // A kustomization may have changed both.
    value["metadata"]["name"] = json!(source.name());
    if let Some(namespace) = source.namespace() {
        value["metadata"]["namespace"] = json!(namespace);
    }
    let object = Object::completed_from(source, &value)?;
    Some(Completed { object, source: source.clone(), runtime, places })
}

fn entry<'v>(map: &'v mut Value, key: &str) -> &'v mut Value {
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    &mut map[key]
}

pub(crate) fn runtime_of_train_job(object: &Object, cluster: &Cluster) -> Option<Object> {
    let reference = object.path(&["spec", "runtimeRef"]);
    let name = reference.get("name").text()?;
    let kind = match reference.get("kind").text().unwrap_or("ClusterTrainingRuntime") {
        "TrainingRuntime" => Kind::TRAINING_RUNTIME,
        _ => Kind::CLUSTER_TRAINING_RUNTIME,
    };
    let namespace = if kind == Kind::TRAINING_RUNTIME { object.namespace_or_default() } else { "default" };
    runtime(object, cluster, kind, namespace, name)
}

/// Whether a container of a runtime is the one that a TrainJob's trainer changes.
pub(crate) fn is_trainer(container: &Node<'_>) -> bool {
    matches!(container.get("name").text(), Some("node" | "trainer"))
}

/// The container of a runtime that a TrainJob's trainer changes.
pub(crate) fn trainer_of_runtime(runtime: &Object) -> Option<Node<'_>> {
    let jobs = runtime.path(&["spec", "template", "spec", "replicatedJobs"]);
    let pod = ["template", "spec", "template", "spec", "containers"];
    jobs.items().flat_map(|job| job.path(&pod).items()).find(is_trainer)
}

/// The kinds that show the version of Kubeflow Trainer.
pub(crate) const TRAINER_KINDS: &[Kind] = kinds![VERSIONED_CHARTS, [Kind::DEPLOYMENT]];

/// Whether `resourcesPerNode` of a TrainJob replaces all resources of its runtime, as in Kubeflow Trainer 2.0 to 2.2: from 2.3
/// on both are merged (kubeflow/trainer#3602). `None` if the input does not show the version, or several.
pub(crate) fn replaces_resources(train_job: &Object, cluster: &Cluster) -> Option<bool> {
    if is_for_old_trainer(train_job) {
        return Some(true);
    }
    let near = |other: &&Object| cluster.pairs(train_job, other);
    let installers = chart_installers(cluster).filter(near);
    let charts = installers.filter_map(|one| minor_of(chart_version(one, "kubeflow-trainer", cluster)?));
    let images = cluster.of(Kind::DEPLOYMENT).filter(near).filter_map(version_of_trainer);
    // Builds of a commit are 0.0.0.
    let versions = charts.chain(images).filter(|version| *version >= Version::new(2, 0));
    let mut replaces = versions.map(|version| version < Version::new(2, 3));
    let first = replaces.next()?;
    replaces.all(|other| other == first).then_some(first)
}

/// Whether a TrainJob has fields that Trainer 2.2 no longer has (kubeflow/trainer#3309).
fn is_for_old_trainer(train_job: &Object) -> bool {
    OVERRIDES.iter().any(|list| train_job.path(&["spec", list]).is_set())
}

/// The version of the controller of Kubeflow Trainer that a Deployment runs.
fn version_of_trainer(deployment: &Object) -> Option<Version> {
    templates(deployment).iter().flat_map(Template::containers).find_map(|container| {
        let image = image_of(&container)?;
        minor_of(image.tag.filter(|_| image.is("trainer/trainer-controller-manager"))?)
    })
}

/// The lists in which a TrainJob changes the pods of its runtime: the second one has the fields of the pod beside the names of the
/// Jobs.
pub(crate) const OVERRIDES: [&str; 2] = ["podTemplateOverrides", "podSpecOverrides"];

/// The resources of a TrainJob's node with those that only its runtime names, and the places of the latter: `at` in the completed
/// object, `from` in the runtime.
fn merged_resources(
    own: &Value,
    of_runtime: &Value,
    at: &Pointer,
    from: &Pointer,
) -> (Value, Vec<(Pointer, Place)>) {
    let mut merged = own.clone();
    let mut places = Vec::new();
    for side in ["limits", "requests"] {
        if own.get(side).is_none() && of_runtime.get(side).is_some() {
            places.push((at.join(side), Place::Runtime(from.join(side))));
        }
        for (name, amount) in of_runtime[side].as_object().into_iter().flatten() {
            if own[side].get(name).is_none() {
                *entry(entry(&mut merged, side), name) = amount.clone();
                places.push((at.join(side).join(name), Place::Runtime(from.join(side).join(name))));
            }
        }
    }
    if own.get("claims").is_none() && of_runtime.get("claims").is_some() {
        *entry(&mut merged, "claims") = of_runtime["claims"].clone();
        places.push((at.join("claims"), Place::Runtime(from.join("claims"))));
    }
    (merged, places)
}

/// Gives the container of a runtime, which is at `at` in the completed object and at `of_runtime` in the runtime, what a TrainJob
/// says of it, and returns the places of these fields.
fn with_own_fields(
    container: &mut Value,
    trainer: &Value,
    merges: bool,
    at: &Pointer,
    of_runtime: &Pointer,
) -> Vec<(Pointer, Place)> {
    const FIELDS: [(&str, &str); 4] =
        [("image", "image"), ("command", "command"), ("args", "args"), ("resources", "resourcesPerNode")];
    let mut places = Vec::new();
    for (field, of_trainer) in FIELDS {
        let (place, of_runtime) = (at.join(field), of_runtime.join(field));
        let own = Place::Source(pointer("spec/trainer").join(of_trainer));
        let from = match trainer.get(of_trainer) {
            Some(written) if !written.is_null() => {
                let (value, inherited) = if field == "resources" && merges {
                    merged_resources(written, &container[field], &place, &of_runtime)
                } else {
                    (written.clone(), Vec::new())
                };
                container[field] = value;
                places.extend(inherited);
                own
            }
            _ if container.get(field).is_none() => own,
            _ => Place::Runtime(of_runtime),
        };
        places.push((place, from));
    }
    places
}

/// A TrainJob with the Jobs of its runtime: the trainer's container gets what the TrainJob says of it.
fn train_job(object: &Object, cluster: &Cluster) -> Option<Completed> {
    let runtime = runtime_of_train_job(object, cluster)?;
    let mut value = object.root().to_json();
    let trainer = value["spec"]["trainer"].clone();
    if object.path(&["spec", "runtimePatches"]).is_set() {
        return None;
    }
    let spec = runtime.get("spec").to_json();
    let policy = &spec["mlPolicy"];
    let mut jobs = spec["template"]["spec"]["replicatedJobs"].clone();
    let list = jobs.as_array_mut()?;
    let step = "trainer.kubeflow.org/trainjob-ancestor-step";
    let at = list.iter().position(|job| job["template"]["metadata"]["labels"][step] == "trainer").or_else(
        || list.iter().position(|job| matches!(job["name"].as_str(), Some("node" | "trainer-node"))),
    )?;
    let base = format!("spec/replicatedJobs/{at}/template/spec");
    let own = &mut list[at];
    let nodes = [&trainer["numNodes"], &policy["numNodes"]].into_iter().find_map(Value::as_i64).unwrap_or(1);
    for field in ["parallelism", "completions"] {
        own["template"]["spec"][field] = json!(nodes);
    }
    let containers = own["template"]["spec"]["template"]["spec"]["containers"].as_array_mut()?;
    let number =
        containers.iter().position(|one| matches!(one["name"].as_str(), Some("node" | "trainer")))?;
    let container = &mut containers[number];
    let mut places =
        vec![(pointer("spec/replicatedJobs"), Place::Runtime(pointer("spec/template/spec/replicatedJobs")))];
    let at_container = format!("{base}/template/spec/containers/{number}");
    let place = pointer(&at_container);
    // The job decides on this container, also by what it leaves out.
    places.push((place.clone(), Place::Source(pointer("spec/trainer"))));
    let of_runtime = pointer(&format!(
        "spec/template/spec/replicatedJobs/{at}/template/spec/template/spec/containers/{number}"
    ));
    let merges = !is_for_old_trainer(object);
    places.extend(with_own_fields(container, &trainer, merges, &place, &of_runtime));
    let mut env: Vec<Value> = container["env"].as_array().cloned().unwrap_or_default();
    env.extend(trainer["env"].as_array().cloned().unwrap_or_default());
    // What the plugin for torch sets; torchrun reads it as its option.
    let processes = [&trainer["numProcPerNode"], &policy["torch"]["numProcPerNode"]];
    let processes = processes.into_iter().find(|value| !value.is_null()).cloned().unwrap_or(json!("auto"));
    if policy.get("torch").is_some() {
        places.push((
            pointer(&format!("{at_container}/env/{}/value", env.len())),
            Place::Source(pointer("spec/trainer/numProcPerNode")),
        ));
        let text = processes.as_str().map_or_else(|| processes.to_string(), str::to_owned);
        env.push(json!({"name": "PET_NPROC_PER_NODE", "value": text}));
    }
    *entry(container, "env") = Value::Array(env);
    for (position, list) in OVERRIDES.iter().enumerate() {
        for (index, change) in value["spec"][list].as_array().into_iter().flatten().enumerate() {
            // The older form has the fields of the pod beside the names of the Jobs.
            let spec = if position == 0 { &change["spec"] } else { change };
            let at = format!("spec/{list}/{index}{}", if position == 0 { "/spec" } else { "" });
            places.extend(override_templates(jobs.as_array_mut()?, change, spec, &at)?);
        }
    }
    value["spec"]["replicatedJobs"] = jobs;
    let reference = pointer("spec/runtimeRef/name");
    finish(object, value, Some((runtime, reference)), places)
}

/// Changes the templates of the Jobs that an override of a TrainJob names. `None` if it changes more than where pods may run.
fn override_templates(
    jobs: &mut [Value],
    change: &Value,
    spec: &Value,
    at: &str,
) -> Option<Vec<(Pointer, Place)>> {
    const SCHEDULING: [&str; 3] = ["nodeSelector", "tolerations", "affinity"];
    const WITHOUT_EFFECT: [&str; 3] = ["targetJobs", "serviceAccountName", "imagePullSecrets"];
    let targets: Vec<&str> = change["targetJobs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|job| job["name"].as_str())
        .collect();
    let mut places = Vec::new();
    for (field, value) in spec.as_object()? {
        if WITHOUT_EFFECT.contains(&field.as_str()) {
            continue;
        }
        if !SCHEDULING.contains(&field.as_str()) {
            return None;
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            if !job["name"].as_str().is_some_and(|name| targets.contains(&name)) {
                continue;
            }
            let pod = &mut job["template"]["spec"]["template"]["spec"];
            // Maps are merged; lists are replaced.
            match (pod[field].as_object_mut(), value.as_object()) {
                (Some(old), Some(new)) => old.extend(new.clone()),
                _ => pod[field] = value.clone(),
            }
            let place = format!("spec/replicatedJobs/{number}/template/spec/template/spec/{field}");
            places.push((pointer(&place), Place::Source(pointer(&format!("{at}/{field}")))));
        }
    }
    Some(places)
}

/// The name of the runtime that a release of KServe has for models of Hugging Face, and their format.
const PUBLISHED: (&str, &str) = ("kserve-huggingfaceserver", "huggingface");

/// The runtimes that a release of KServe has for predictors without workers, and the formats for which it takes one of them
/// (`config/runtimes` of 0.11 to 0.20).
const PUBLISHED_RUNTIMES: [&str; 10] = [
    PUBLISHED.0,
    "kserve-lgbserver",
    "kserve-mlserver",
    "kserve-paddleserver",
    "kserve-pmmlserver",
    "kserve-sklearnserver",
    "kserve-tensorflow-serving",
    "kserve-torchserve",
    "kserve-tritonserver",
    "kserve-xgbserver",
];
const PUBLISHED_FORMATS: [&str; 12] = [
    PUBLISHED.1,
    "lightgbm",
    "mlflow",
    "onnx",
    "paddle",
    "pmml",
    "pytorch",
    "sklearn",
    "tensorflow",
    "tensorrt",
    "triton",
    "xgboost",
];

/// The runtime of an InferenceService's model.
pub(crate) enum RuntimeOfModel {
    InCluster(Object),
    /// One of those that a release of KServe brings.
    Published,
}

/// The container of a serving runtime that serves the model.
pub(crate) fn server_of_runtime(runtime: &Object) -> Option<Node<'_>> {
    let containers: Vec<Node<'_>> = runtime.path(&["spec", "containers"]).items().collect();
    let is_named = |one: &&Node<'_>| one.get("name").text() == Some("kserve-container");
    containers.iter().find(is_named).or(containers.first()).cloned()
}

/// The fields of a predictor whose container KServe makes from a runtime: `model`, and in the older form one that has the name of the
/// format (`PredictorSpec` and `GetImplementations` in `pkg/apis/serving/v1beta1/predictor.go` of 0.20).
pub(crate) const MODEL_FIELDS: [&str; 11] = [
    "model",
    "huggingface",
    "lightgbm",
    "onnx",
    "paddle",
    "pmml",
    "pytorch",
    "sklearn",
    "tensorflow",
    "triton",
    "xgboost",
];

/// The model of an InferenceService, the name of its field, and its format.
pub(crate) fn model_of(object: &Object) -> Option<(&'static str, Node<'_>, Option<&str>)> {
    let predictor = object.path(&["spec", "predictor"]);
    let mut models = MODEL_FIELDS.into_iter().map(|field| (field, predictor.get(field)));
    let (field, model) = models.find(|(_, model)| model.is_mapping())?;
    let format = if field == "model" { model.path(&["modelFormat", "name"]).text() } else { Some(field) };
    Some((field, model, format))
}

/// What KServe's own runtime for models of Hugging Face says, apart from its small requests: it has no probes.
fn published_runtime() -> Value {
    json!({
        "containers": [{
            "name": "kserve-container",
            "image": "kserve/huggingfaceserver",
            "volumeMounts": [{"name": "devshm", "mountPath": "/dev/shm"}],
        }],
        "volumes": [{"name": "devshm", "emptyDir": {"medium": "Memory"}}],
    })
}

/// The runtime of an InferenceService's model. `None` if it is unknown.
pub(crate) fn runtime_of_model(
    object: &Object,
    model: &Node<'_>,
    format: Option<&str>,
    cluster: &Cluster,
) -> Option<RuntimeOfModel> {
    let namespace = object.namespace_or_default();
    // A predictor with workers has another published runtime.
    let workers = object.path(&["spec", "predictor", "workerSpec"]);
    let implied = || {
        let is_published = format.is_some_and(|format| PUBLISHED_FORMATS.contains(&format));
        (is_published && workers.is_absent()).then_some(RuntimeOfModel::Published)
    };
    let named = model.get("runtime");
    if named.is_set() {
        let name = named.text()?;
        let found = runtime(object, cluster, Kind::SERVING_RUNTIME, namespace, name)
            .or_else(|| runtime(object, cluster, Kind::CLUSTER_SERVING_RUNTIME, "default", name));
        let is_published = PUBLISHED_RUNTIMES.contains(&name);
        return found.map(RuntimeOfModel::InCluster).or_else(|| implied().filter(|_| is_published));
    }
    // KServe looks for one by the format.
    let selects = |other: &&Object| {
        let formats = other.path(&["spec", "supportedModelFormats"]);
        let fits = |one: Node<'_>| {
            one.get("name").text().is_none_or(|name| Some(name) == format) && is_selected(&one)
        };
        cluster.pairs(object, other)
            && ["disabled", "multiModel"]
                .iter()
                .all(|field| other.path(&["spec", field]).bool() != Some(true))
            && (formats.is_unknown() || formats.items().any(fits))
    };
    let of_namespace = cluster.in_namespace(Kind::SERVING_RUNTIME, namespace);
    let mut found = of_namespace.chain(cluster.of(Kind::CLUSTER_SERVING_RUNTIME)).filter(selects);
    match (found.next(), found.next()) {
        (None, _) => implied(),
        (Some(only), None) if !only.path(&["spec", "supportedModelFormats"]).has_unknown() => {
            Some(RuntimeOfModel::InCluster(only.clone()))
        }
        _ => None,
    }
}

/// Whether a runtime is used for a format without being named, or may be.
fn is_selected(format: &Node<'_>) -> bool {
    let field = format.get("autoSelect");
    field.is_unknown() || field.bool() == Some(true)
}

/// An InferenceService whose predictor is the container of its runtime, with the fields of its model.
fn inference_service(object: &Object, cluster: &Cluster) -> Option<Completed> {
    let (field, model, format) = model_of(object)?;
    let runtime = match runtime_of_model(object, &model, format, cluster)? {
        RuntimeOfModel::InCluster(runtime) => Some(runtime),
        RuntimeOfModel::Published => {
            let named = model.get("runtime");
            if format != Some(PUBLISHED.1) || named.is_set() && named.text() != Some(PUBLISHED.0) {
                return None;
            }
            None
        }
    };
    let at_model = format!("spec/predictor/{field}");
    let spec = match &runtime {
        Some(runtime) => runtime.get("spec").to_json(),
        None => published_runtime(),
    };
    // What nobody wrote is at the model.
    let of_runtime_at = |path: String| match &runtime {
        Some(_) => Place::Runtime(pointer(&path)),
        None => Place::Source(pointer(&at_model)),
    };
    let mut containers = spec["containers"].as_array()?.clone();
    let number = containers.iter().position(|one| one["name"] == "kserve-container").unwrap_or(0);
    let base = containers.get(number)?.clone();
    let own = model.to_json();
    let at = format!("spec/predictor/containers/{number}");
    let of_runtime = format!("spec/containers/{number}");
    let mut places =
        vec![(pointer("spec/predictor/containers"), of_runtime_at("spec/containers".to_owned()))];
    places.push((pointer(&at), Place::Source(pointer(&at_model))));
    let mut merged = base.clone();
    for field in base.as_object()?.keys().filter(|field| own.get(*field).is_none_or(Value::is_null)) {
        places.push((pointer(&format!("{at}/{field}")), of_runtime_at(format!("{of_runtime}/{field}"))));
    }
    for (field, value) in own.as_object()? {
        if matches!(
            field.as_str(),
            "modelFormat" | "runtime" | "storageUri" | "storage" | "protocolVersion" | "name"
        ) {
            continue;
        }
        let from = pointer(&format!("{at_model}/{field}"));
        match (field.as_str(), base.get(field).and_then(Value::as_array), value.as_array()) {
            // Arguments and variables come after those of the runtime.
            ("args" | "env" | "volumeMounts", Some(before), Some(more)) => {
                for index in 0..before.len() {
                    let place = of_runtime_at(format!("{of_runtime}/{field}/{index}"));
                    places.push((pointer(&format!("{at}/{field}/{index}")), place));
                }
                for index in 0..more.len() {
                    let place = Place::Source(from.join(&index.to_string()));
                    places.push((pointer(&format!("{at}/{field}/{}", before.len() + index)), place));
                }
                merged[field] = before.iter().chain(more).cloned().collect();
            }
            _ => {
                places.push((pointer(&format!("{at}/{field}")), Place::Source(from)));
                merged[field] = value.clone();
            }
        }
    }
    containers[number] = merged;
    let mut value = object.root().to_json();
    let predictor = &mut value["spec"]["predictor"];
    for field in ["volumes", "nodeSelector", "tolerations", "affinity"] {
        if predictor.get(field).is_none_or(Value::is_null) && spec.get(field).is_some() {
            predictor[field] = spec[field].clone();
            let path = format!("spec/predictor/{field}");
            places.push((pointer(&path), of_runtime_at(format!("spec/{field}"))));
        }
    }
    predictor["containers"] = Value::Array(containers);
    predictor.as_object_mut()?.remove(field);
    let named = if model.get("runtime").is_set() { "/runtime" } else { "" };
    let reference = pointer(&format!("{at_model}{named}"));
    finish(object, value, runtime.map(|runtime| (runtime, reference)), places)
}

/// A NIMService with the template of its operator's Deployment: shared memory, a cache and probes
/// that it does not state are the operator's.
fn nim_service(object: &Object) -> Option<Completed> {
    let spec = object.get("spec");
    if !spec.is_mapping() || object.path(&["spec", "template"]).is_set() {
        return None;
    }
    let (repository, tag) = (spec.path(&["image", "repository"]).text()?, spec.path(&["image", "tag"]));
    let image = tag.string_or_number().map_or(repository.to_owned(), |tag| format!("{repository}:{tag}"));
    let mut value = object.root().to_json();
    let own = value["spec"].clone();
    let mut container = json!({
        "name": object.name(),
        "image": image,
        "ports": [{"name": "api", "containerPort": 8000}],
        "startupProbe": {"httpGet": {"path": "/v1/health/ready", "port": "api"}, "failureThreshold": 120},
        "livenessProbe": {"httpGet": {"path": "/v1/health/live", "port": "api"}},
        "readinessProbe": {"httpGet": {"path": "/v1/health/ready", "port": "api"}},
        "volumeMounts": [{"name": "model-store", "mountPath": "/model-store"}, {"name": "dshm", "mountPath": "/dev/shm"}],
    });
    let mut pod = json!({
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}, {"name": "model-store", "persistentVolumeClaim": {"claimName": "model-store"}}],
    });
    let at = "spec/template/spec/containers/0";
    let mut places = vec![
        (pointer("spec/template"), Place::Source(pointer("spec"))),
        (pointer(at), Place::Source(pointer("spec"))),
        (pointer(&format!("{at}/image")), Place::Source(pointer("spec/image"))),
    ];
    for field in ["env", "resources", "args", "command"] {
        if let Some(written) = own.get(field) {
            container[field] = written.clone();
            places
                .push((pointer(&format!("{at}/{field}")), Place::Source(pointer(&format!("spec/{field}")))));
        }
    }
    for field in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let written = &own[field];
        if written["enabled"] == json!(false) {
            container.as_object_mut()?.remove(field);
        } else if written["probe"].is_object() {
            container[field] = written["probe"].clone();
            let place = Place::Source(pointer(&format!("spec/{field}/probe")));
            places.push((pointer(&format!("{at}/{field}")), place));
        }
    }
    for field in ["nodeSelector", "tolerations", "affinity", "runtimeClassName", "schedulerName"] {
        if let Some(written) = own.get(field) {
            pod[field] = written.clone();
            places.push((
                pointer(&format!("spec/template/spec/{field}")),
                Place::Source(pointer(&format!("spec/{field}"))),
            ));
        }
    }
    pod["containers"] = json!([container]);
    let labels = own.get("labels").cloned().unwrap_or(json!({}));
    let annotations = own.get("annotations").cloned().unwrap_or(json!({}));
    value["spec"]["template"] =
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": pod});
    finish(object, value, None, places)
}
