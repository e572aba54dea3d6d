//! An image that runs as root is told not to, and the container is never created.
//!
//! # Why
//! `runAsNonRoot: true` changes no user: the kubelet compares it with the user of the image, and does not
//! create the container if that is root. The pod stays in CreateContainerConfigError, on a node that costs
//! money. The images of vLLM, SGLang, TGI, TEI, Ollama, llama.cpp, PyTorch and CUDA run as root unless
//! `runAsUser` names another user. It is not reported on OpenShift, which gives pods a user, nor where a
//! policy of the input writes security contexts, or a webhook of unknown purpose is called for the pods.
//!
//! # Fix
//! Write `runAsUser` with a number other than 0. That user cannot write to `/root`: set `HOME` and the folder
//! of the cache to a volume, with `fsGroup` in the security context of the pod.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: smoke}
//!  spec:
//!    restartPolicy: Never
//!    containers:
//!      - name: main
//!        image: nvidia/cuda:12.8.1-base-ubuntu24.04
//!        command: [nvidia-smi]
//!        securityContext:
//!          runAsNonRoot: true # <-
//! +        runAsUser: 1000
//!        resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/>
//! - <https://docs.vllm.ai/en/latest/deployment/docker.html>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::versions::Fact;
use crate::rules::prelude::*;
use crate::workload::security::{User, effective_user};
use crate::workload::server::may_be_rebuilt;
use crate::workload::template::is_model_of_runtime;

pub(crate) static RULE: Rule = Rule {
    id: "image-runs-as-root",
    kinds: WORKLOAD_KINDS,
    reads: &POD_POLICIES,
    docs: docs(include_str!("image_runs_as_root.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Gpu)
};

/// Repositories whose images have no `USER`: the Dockerfiles of vLLM (0.9 to 0.33, target `vllm-openai`), Ollama, TEI, TGI,
/// llama.cpp, SGLang and PyTorch, read in November 2026; the last two are what images are built on that run `apt-get` first.
const ROOT: [&str; 9] = [
    "vllm/vllm-openai",
    "ollama/ollama",
    "huggingface/text-embeddings-inference",
    "huggingface/text-generation-inference",
    "ggml-org/llama.cpp",
    "lmsysorg/sglang",
    "pytorch/pytorch",
    "nvidia/cuda",
    "nvidia/pytorch",
];

/// The name of an image that runs as root. vLLM also has a variant that does not (`vllm-openai-nonroot` of its Dockerfile).
fn root_image(text: &str) -> Option<&'static str> {
    let image = ImageRef::parse(text);
    let is_other = image.tag.is_some_and(|tag| tag.contains("root")) || may_be_rebuilt(text);
    ROOT.into_iter().find(|known| image.is(known)).filter(|_| !is_other)
}

/// Kubernetes 1.37: `verifyRunAsNonRoot` of `pkg/kubelet/kuberuntime/security_context_others.go`.
fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let (cluster, namespace) = (ctx.cluster(), object.namespace_or_default());
    // OpenShift gives pods a user of their namespace (SecurityContextConstraints `restricted-v2`).
    if object.may_lack_fields()
        || cluster.is_shown(&Fact::OpenShift)
        || may_change_pods(cluster, namespace, PodPart::SecurityContext)
    {
        return None;
    }
    let failing = template.all_containers().filter_map(|container| {
        let image = container.get("image");
        let User::Other(field) = effective_user(template, &container) else { return None };
        let name = root_image(image.text()?)?;
        (field.bool() == Some(true) && !is_model_of_runtime(&container)).then_some((field, image, name))
    });
    let failing: Vec<(Node<'_>, Node<'_>, &str)> = failing.collect();
    let ((field, image, name), others) = failing.split_first()?;
    let message =
        format!("`{name}` runs as root, which `runAsNonRoot` forbids: the container is not created");
    let finding = ctx.report(field, message);
    finding
        .help("write `runAsUser` with another user than 0, who can write to the folders of the program")
        .related(object, image, "the image");
    for (_, image, _) in others {
        finding.related(object, image, "this one runs as root as well");
    }
    None
}
