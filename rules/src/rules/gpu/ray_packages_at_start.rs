//! Ray installs a framework of gigabytes on each node that starts.
//!
//! # Why
//! Packages in `runtime_env` are installed on each node of a Ray cluster when its first worker needs them, in
//! an environment that goes with the pod. PyTorch, TensorFlow or vLLM with the libraries of CUDA are
//! gigabytes: each new GPU node downloads them for minutes, and a replica or a job does not start if the index
//! of packages does not answer. Ray's documentation recommends an image for what does not change. A package
//! that the image has is not installed again: nothing is reported for images whose name suggests that, nor,
//! except for Ray's own image, for packages without a version.
//!
//! # Fix
//! Build an image with the packages, or use one that has them, such as `rayproject/ray-llm`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: ray.io/v1
//!  kind: RayService
//!  metadata: {name: chat}
//!  spec:
//! -  serveConfigV2: | # <-
//! +  serveConfigV2: |
//!      applications:
//!        - name: chat
//!          import_path: chat:app
//! -        runtime_env: {pip: [vllm==0.11.0]}
//!          deployments:
//!            - name: Model
//!              num_replicas: 1
//!              ray_actor_options: {num_gpus: 1}
//!    rayClusterConfig:
//!      headGroupSpec:
//!        rayStartParams: {}
//!        template:
//!          spec:
//!            containers:
//!              - name: head
//!                image: example.com/chat-ray:2.49.2
//!                resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!      workerGroupSpecs:
//!        - groupName: gpu
//!          replicas: 1
//!          rayStartParams: {}
//!          template:
//!            spec:
//!              containers:
//!                - name: worker
//!                  image: example.com/chat-ray:2.49.2
//!                  resources:
//!                    requests: {cpu: 4, memory: 16Gi}
//!                    limits: {memory: 16Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/ray-core/handling-dependencies.html>

use crate::rules::prelude::*;
use crate::source::with_embedded;

pub(crate) static RULE: Rule = Rule {
    id: "ray-packages-at-start",
    kinds: &[Kind::RAY_SERVICE, Kind::RAY_JOB],
    docs: docs(include_str!("ray_packages_at_start.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Gpu)
};

/// Packages that are gigabytes with what they depend on: their wheels for Linux bring or require libraries of CUDA.
const LARGE: [&str; 6] = ["torch", "tensorflow", "vllm", "sglang", "tensorrt-llm", "lmdeploy"];
/// Parts of the names of images with such packages, apart from the names of these.
const FULL_IMAGES: [&str; 7] =
    ["ray-ml", "ray-llm", "anyscale", "deep-learning", "huggingface", "transformers", "cuda"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = if object.is(Kind::RAY_JOB) { "runtimeEnvYAML" } else { "serveConfigV2" };
    let field = object.path(&["spec", field]);
    let text = field.text().filter(|_| !object.is_partial())?;
    let templates = templates(object);
    let containers = templates.iter().flat_map(Template::containers);
    let images: Option<Vec<&str>> = containers.map(|container| container.get("image").text()).collect();
    let images = images.filter(|images| !images.is_empty())?;
    let is_plain = images.iter().all(|image| ImageRef::parse(image).is("rayproject/ray"));
    let is_brought = |package: &str| {
        let mut all = images.iter();
        all.any(|image| mentions(image, &[package]) || mentions(image, &FULL_IMAGES))
    };
    let package = with_embedded(text, |root| {
        packages(root).iter().find_map(|package| {
            let name = name_of(package);
            // A version for CPUs needs no libraries of CUDA.
            if package.contains("+cpu") {
                return None;
            }
            let large = LARGE.iter().find(|large| **large == name)?;
            (is_plain || package.contains("==") && !is_brought(large)).then_some(*large)
        })
    })?;
    ctx.report(&field, format!("Ray installs `{package}` on each node that starts, which is gigabytes"))
        .at_key()
        .help("build an image with the packages of `runtime_env`, or use one that has them");
    None
}

/// The packages that pip or uv installs for an application, a deployment, a model or a job.
fn packages(root: &Node<'_>) -> Vec<String> {
    let mut environments = vec![root.clone()];
    for application in root.get("applications").items() {
        environments.push(application.get("runtime_env"));
        let deployments = application.get("deployments");
        let of_actors = deployments.items().map(|one| one.path(&["ray_actor_options", "runtime_env"]));
        environments.extend(of_actors);
        let models = application.path(&["args", "llm_configs"]);
        environments.extend(models.items().map(|model| model.get("runtime_env")));
    }
    let tools = environments.iter().flat_map(|environment| ["pip", "uv"].map(|tool| environment.get(tool)));
    let lists = tools.map(|tool| {
        let fields = ["packages", "pip_install_options", "uv_pip_install_options"];
        let lists = if tool.is_mapping() { fields.map(|field| tool.get(field)).to_vec() } else { vec![tool] };
        lists
            .iter()
            .flat_map(Node::items)
            .filter_map(|item| item.text().map(str::to_owned))
            .collect::<Vec<String>>()
    });
    // An index such as <https://download.pytorch.org/whl/cpu> has versions for CPUs.
    let is_for_cpus = |list: &Vec<String>| list.iter().any(|item| item.contains("/cpu"));
    lists.filter(|list| !is_for_cpus(list)).flatten().collect()
}

/// The name of a package in a requirement of pip, such as `vllm[runai]==0.11.0`.
pub(super) fn name_of(requirement: &str) -> String {
    let end = requirement.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    requirement[..end.unwrap_or(requirement.len())].to_ascii_lowercase().replace('_', "-")
}
