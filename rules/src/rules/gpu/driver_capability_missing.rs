//! A container does not get the part of NVIDIA's driver that its program needs.
//!
//! # Why
//! `NVIDIA_DRIVER_CAPABILITIES` names the libraries of the driver that NVIDIA's runtime mounts. The encoder and
//! the decoder of videos belong to `video`: without it FFmpeg ends with "Cannot load libnvidia-encode.so.1" or
//! "libnvcuvid.so.1", although `nvidia-smi` and CUDA work. The default, and what the images of CUDA and PyTorch
//! set, is `compute,utility`. A list without `compute` leaves a model server without `libcuda.so.1`. A word that
//! the runtime does not know keeps the container from starting.
//!
//! Images of one's own may set the variable: without an entry for it they are left alone.
//!
//! # Fix
//! Write `NVIDIA_DRIVER_CAPABILITIES: compute,video,utility` in `env`, or `all`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: clips}
//!  spec:
//!    restartPolicy: Never
//!    containers:
//!      - name: encode
//!        image: registry.example.com/media/ffmpeg:7.1
//!        args: [-hwaccel, cuda, -i, /in/a.mp4, "-c:v", h264_nvenc, /out/a.mp4]
//!        env:
//!          - name: NVIDIA_DRIVER_CAPABILITIES
//! -          value: compute,utility # <-
//! +          value: compute,video,utility
//!        resources: {requests: {cpu: 2, memory: 4Gi}, limits: {memory: 4Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html#driver-capabilities>

use crate::rules::prelude::*;
use crate::workload::command::Word;
use crate::workload::devices::extended_resources_of;
use crate::workload::environment::variable;
use crate::workload::server::may_be_rebuilt;

pub(crate) static RULE: Rule = Rule {
    id: "driver-capability-missing",
    docs: docs(include_str!("driver_capability_missing.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

const VARIABLE: &str = "NVIDIA_DRIVER_CAPABILITIES";
/// What NVIDIA's runtime knows (`SupportedDriverCapabilities` of nvidia-container-toolkit 1.17, and the words for all).
const KNOWN: [&str; 9] =
    ["all", "void", "compute", "compat32", "graphics", "utility", "video", "display", "ngx"];
/// Images that set `compute,utility` (their Dockerfiles).
const WITHOUT_VIDEO: [&str; 2] = ["nvidia/cuda", "pytorch/pytorch"];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.object().may_lack_fields() {
        return None;
    }
    for container in template.all_containers() {
        inspect(&container, ctx);
    }
    None
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let has_gpu = extended_resources_of(container).iter().any(|name| name.starts_with("nvidia.com/"));
    if !has_gpu {
        return None;
    }
    let Some((text, node)) = variable(container, VARIABLE)? else {
        let image = container.get("image").text().filter(|image| !may_be_rebuilt(image))?;
        let path = ImageRef::parse(image).repository;
        let codec = codec(container)?;
        if !WITHOUT_VIDEO.contains(&path) || sets_variable(container) {
            return None;
        }
        let message = format!("`{codec}` needs the `video` part of the driver, and the image asks for none");
        ctx.report(container, message).help(format!("set `{VARIABLE}` to `compute,video,utility`"));
        return None;
    };
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let Some(unknown) = words.iter().find(|word| !KNOWN.contains(word)) {
        let message = format!(
            "NVIDIA's runtime knows no capability `{}`: the container does not start",
            ellipsize(unknown)
        );
        ctx.report(&node, message)
            .help("write some of `compute`, `graphics`, `utility`, `video`, `display`, or `all`");
        return None;
    }
    let has = |part: &str| words.is_empty() || words.contains(&"all") || words.contains(&part);
    if let Some(codec) = codec(container).filter(|_| !has("video")) {
        ctx.report(
            &node,
            format!("`{codec}` needs the `video` part of the driver, which is not in the list"),
        )
        .help("write `compute,video,utility`");
    } else if let Some(server) = server_of(container).filter(|_| !has("compute")) {
        ctx.report(
            &node,
            format!("{} needs the `compute` part of the driver, which is not in the list", server.name),
        )
        .help("write `compute,utility`");
    }
    None
}

/// Whether a script sets the variable by itself.
fn sets_variable(container: &Node<'_>) -> bool {
    command_line(container).contains(VARIABLE)
}

/// The codec of NVIDIA's hardware that a command line of FFmpeg or GStreamer names.
fn codec(container: &Node<'_>) -> Option<String> {
    const ENDS: [&str; 2] = ["_nvenc", "_cuvid"];
    const OF_GSTREAMER: [&str; 5] = ["nvh264enc", "nvh265enc", "nvav1enc", "nvh264dec", "nvh265dec"];
    let words = words(container);
    let is_codec = |word: &&Word<'_>| {
        let text = word.text.as_str();
        word.known
            && (ENDS.iter().any(|end| text.ends_with(end) && text.len() <= 16)
                || OF_GSTREAMER.contains(&text))
    };
    words.iter().find(is_codec).map(|word| word.text.clone())
}
