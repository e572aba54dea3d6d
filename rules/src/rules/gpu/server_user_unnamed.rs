//! vLLM ends at its start, since the user of its container has no name or no home.
//!
//! # Why
//! vLLM imports a part of PyTorch that asks for the name of its user. Where `runAsUser` is a number that
//! `/etc/passwd` of the image does not have, it ends with `KeyError: getpwuid(): uid not found` before it has
//! read its options, and the container restarts again and again on a node that costs money. It was seen with
//! 0.22, 0.23 and 0.25 of `vllm/vllm-openai`, whose users are root and 2000, `vllm`. The variables `LOGNAME`,
//! `USER`, `LNAME` and `USERNAME` answer the question as well.
//!
//! Before 0.22 the image has root alone, and any other user has the home folder `/`. Where the model cache is
//! moved by `HF_HOME`, and nothing else, the user cannot create `/.triton` and `/.cache` for compiled kernels,
//! and the engine ends while it starts: a warning from 0.9 on. Other releases, and images that are built on this
//! one, are left alone.
//!
//! # Fix
//! Run as user 2000, whose home folder is `/home/vllm`. Or write the variable `USER`, and `HOME` with a
//! folder to which the user may write: without a name its home folder is `/`. Before 0.22 `HOME` is enough.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, labels: {app: chat}}
//!  spec:
//!    securityContext:
//! -    runAsUser: 1000 # <-
//! +    runAsUser: 2000
//!    containers:
//!      - name: vllm
//!        image: vllm/vllm-openai:v0.23.0
//!        args: [--model=Qwen/Qwen3-8B]
//!        resources:
//!          requests: {cpu: 4, memory: 24Gi, nvidia.com/gpu: 1}
//!          limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://github.com/vllm-project/vllm/issues/44548>
//! - <https://github.com/vllm-project/vllm/pull/46734>
//! - <https://github.com/ai-dynamo/dynamo/pull/12457>
//! - <https://github.com/llm-d/llm-d/issues/1430>
//! - <https://github.com/vllm-project/vllm/issues/20127>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::facts::text::is_digits;
use crate::platform::VersionRange;
use crate::rules::prelude::*;
use crate::workload::environment::{is_open, may_define};
use crate::workload::security::{User, effective_user};
use crate::workload::server::may_be_rebuilt;

pub(crate) static RULE: Rule = Rule {
    id: "server-user-unnamed",
    kinds: WORKLOAD_KINDS,
    reads: &POD_POLICIES,
    docs: docs(include_str!("server_user_unnamed.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Gpu)
};

/// The releases with which it was seen: 0.22.0 and 0.23.0 (vllm-project/vllm, pull request 46734), 0.25.1 (a comment there). PyTorch
/// 2.13 asks no more.
const SEEN: VersionRange =
    VersionRange { since: Some(Version::new(0, 22)), until: Some(Version::new(0, 25)) };
/// The releases with root alone in which a user without a home folder was seen to fail: 0.9.1 (vllm-project/vllm, issue 20127) and
/// 0.19.1 (llm-d/llm-d, issue 1430).
const HOMELESS: VersionRange =
    VersionRange { since: Some(Version::new(0, 9)), until: Some(Version::new(0, 21)) };
/// Variables that move the model cache, and no other folder.
const CACHES: [&str; 3] = ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"];
/// Variables that name a home folder, or the folders of compiled kernels.
const HOMES: [&str; 6] = [
    "HOME",
    "TRITON_HOME",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
    "VLLM_CACHE_ROOT",
    "TORCHINDUCTOR_CACHE_DIR",
];
/// Folders of compiled kernels below the home folder `/`.
const KERNELS: [&str; 2] = ["/.triton", "/.cache"];
/// The user that the image has beside those of Ubuntu 22.04, which are below 1000 but for `nobody` (its Dockerfile since 0.22).
const NAMED: [i64; 2] = [2000, 65_534];
/// What Python's `getpass.getuser` reads first.
const NAMES: [&str; 4] = ["LOGNAME", "USER", "LNAME", "USERNAME"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let (cluster, namespace) = (ctx.cluster(), object.namespace_or_default());
    if object.may_lack_fields()
        || template.spec.has_unknown_key()
        || may_change_pods(cluster, namespace, PodPart::SecurityContext)
    {
        return None;
    }
    for container in template.containers() {
        inspect(template, &container, ctx);
    }
    None
}

fn inspect(template: &Template<'_>, container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let User::Other(field) = effective_user(template, container) else { return None };
    let user = field.int().filter(|user| *user >= 1000 && *user != 65_534)?;
    let image = container.get("image");
    let release = vllm_release(image.text()?).filter(|_| !container.has_unknown_key())?;
    // A file of one's own may be mounted as `/etc/passwd`.
    let mounts = container.get("volumeMounts");
    let is_mounted = |is: &dyn Fn(&str) -> bool| {
        mounts.has_unknown() || mounts.items().any(|mount| mount.get("mountPath").text().is_none_or(is))
    };
    if is_mounted(&|path| path.starts_with("/etc")) || is_open(container) {
        return None;
    }
    // A script before the server may name the user.
    Launch::of(container).filter(|launch| launch.is_first && launch.program.is(ServerId::Vllm))?;
    let object = ctx.object();
    if SEEN.contains(release)
        && !NAMED.contains(&user)
        && !may_define(container, |name| NAMES.contains(&name))
    {
        let message = format!("user {user} has no name in the image: vLLM ends with `KeyError` at its start");
        ctx.report(&field, message)
            .help("run as user 2000, whom the image has, or write `USER`, and `HOME` with a writable folder")
            .related(object, &image, "the image");
    }
    if HOMELESS.contains(release)
        && may_define(container, |name| CACHES.contains(&name))
        && !may_define(container, |name| HOMES.contains(&name))
        && !is_mounted(&|path| KERNELS.contains(&path.trim_end_matches('/')))
    {
        let message =
            format!("the home of user {user} is `/`: vLLM ends when it cannot create `/.triton` there");
        ctx.report(&field, message)
            .severity(Severity::Warning)
            .help("write the variable `HOME` with a folder to which the user may write")
            .related(object, &image, "the image");
    }
    None
}

/// The release of vLLM whose image a text names: `v0.23.0`, `v0.23.0-cu129`. Variants on another system are left out.
fn vllm_release(text: &str) -> Option<Version> {
    let image = ImageRef::parse(text);
    let tag = image.tag.unwrap_or_default();
    let (release, variant) = tag.split_once('-').unwrap_or((tag, "cu0"));
    let is_plain = variant.strip_prefix("cu").is_some_and(is_digits);
    Version::parse(release).filter(|_| image.is("vllm/vllm-openai") && is_plain && !may_be_rebuilt(text))
}
