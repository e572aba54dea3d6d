//! vLLM ends at its start, since the user of its container has no name.
//!
//! # Why
//! vLLM imports a part of PyTorch that asks for the name of its user. Where `runAsUser` is a number that
//! `/etc/passwd` of the image does not have, it ends with `KeyError: getpwuid(): uid not found` before it has
//! read its options, and the container restarts again and again on a node that costs money. It was seen with
//! 0.22, 0.23 and 0.25 of `vllm/vllm-openai`, whose users are root and 2000, `vllm`. The variables `LOGNAME`,
//! `USER`, `LNAME` and `USERNAME` answer the question as well. Other releases, and images that are built on
//! this one, are left alone.
//!
//! # Fix
//! Run as user 2000, whose home folder is `/home/vllm`. Or write the variable `USER`, and `HOME` with a
//! folder to which the user may write: without a name its home folder is `/`.
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
    let user = field.int().filter(|user| *user >= 1000 && !NAMED.contains(user))?;
    let image = container.get("image");
    if !has_no_name(image.text()?) || container.has_unknown_key() {
        return None;
    }
    // A file of one's own may be mounted as `/etc/passwd`.
    let mounts = container.get("volumeMounts");
    let may_name =
        |mount: Node<'_>| mount.get("mountPath").text().is_none_or(|path| path.starts_with("/etc"));
    if mounts.has_unknown()
        || mounts.items().any(may_name)
        || is_open(container)
        || may_define(container, |name| NAMES.contains(&name))
    {
        return None;
    }
    // A script before the server may name the user.
    Launch::of(container).filter(|launch| launch.is_first && launch.program.is(ServerId::Vllm))?;
    let message = format!("user {user} has no name in the image: vLLM ends with `KeyError` at its start");
    let object = ctx.object();
    ctx.report(&field, message)
        .help("run as user 2000, whom the image has, or write `USER`, and `HOME` with a writable folder")
        .related(object, &image, "the image");
    None
}

/// Whether an image is a release of vLLM that asks, on Ubuntu 22.04: `v0.23.0`, `v0.23.0-cu129`.
fn has_no_name(text: &str) -> bool {
    let image = ImageRef::parse(text);
    let tag = image.tag.unwrap_or_default();
    let (release, variant) = tag.split_once('-').unwrap_or((tag, "cu0"));
    let is_plain = variant.strip_prefix("cu").is_some_and(is_digits);
    let is_seen = Version::parse(release).is_some_and(|release| SEEN.contains(release));
    image.is("vllm/vllm-openai") && is_plain && is_seen && !may_be_rebuilt(text)
}
